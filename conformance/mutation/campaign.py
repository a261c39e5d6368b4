"""A whole run: the sources, the suite as it passes without a mutant, and what becomes of the mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...spec.rules import NOTE, RULES
from ..build import books
from ..catalogue import load_suite
from ..expectations import Expectation
from .equivalents import EQUIVALENTS
from .mutants import INVERT, REMOVE, Mutant, mutants_of
from .running import Job, run
from .sources import READERS, WRITERS, Source, load
from .tracing import REFUSAL, Trace, trace

__all__ = ["Campaign", "Verdict", "is_rule", "prepare"]

KILLED: Final = "killed"
SURVIVED: Final = "survived"
EQUIVALENT: Final = "equivalent"


@dataclass(slots=True)
class Verdict:
    """What became of a mutant. ``by`` maps each rule for which it was killed to a case or test, ``how`` to how that
    fails; ``alive`` are the rules for which it was not. ``tried`` is the number of cases that were run, ``seconds`` how
    long they kept the processor.
    """

    mutant: Mutant
    by: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    seconds: float = 0.0

    @property
    def alive(self) -> list[str]:
        """The rules for which nothing kills the mutant."""
        return [rule for rule in self.mutant.cases if rule not in self.by]

    @property
    def status(self) -> str:
        """``killed``, ``equivalent`` (survived, and listed with a reason) or ``survived``."""
        if not self.alive:
            return KILLED
        return EQUIVALENT if self.mutant.key in EQUIVALENTS else SURVIVED


def is_rule(mutant: Mutant) -> bool:
    """Say whether a mutant takes out or inverts the check of a rule, or of what a writer refuses."""
    return mutant.operator in (REMOVE, INVERT)


@dataclass(slots=True)
class Campaign:
    """Everything that mutants are made of and judged by."""

    sources: Sequence[Source]
    cases: Sequence[Expectation]
    traced: Trace
    mutants: Sequence[Mutant]

    def run(
        self, mutants: Sequence[Mutant], *, workers: int = 1, progress: Callable[[], object] = lambda: None
    ) -> list[Verdict]:
        """Run mutants on the suite; return their verdicts, in their order."""
        jobs = [Job(mutant, self._plan(mutant)) for mutant in mutants]
        outcomes = run(jobs, self.cases, self.traced.seconds, workers=workers, progress=progress)
        return [
            Verdict(mutant, outcome.killed, outcome.how, outcome.tried, outcome.seconds)
            for mutant, outcome in zip(mutants, outcomes, strict=True)
        ]

    def _plan(self, mutant: Mutant) -> Mapping[str, Sequence[int]]:
        """Return the cases to be tried for each rule, those first that are about it.

        A case that is not about a rule counts only if the mutant concerns no other: else it may fail for that one.
        """

        def effort(
            number: int,
        ) -> tuple[int, int]:  # not the time that it took: the results would differ from run to run
            return self.cases[number].case.size, number

        made = {rule: sorted(numbers, key=effort) for rule, numbers in mutant.cases.items()}
        if len(made) == 1:
            ((rule, first),) = made.items()
            there = self.traced.reached.get(mutant.source.statement(mutant.edits[0].old), [])
            made[rule] = [*first, *sorted(set(there).difference(first), key=effort)]
        return made

    def without_site(self) -> list[str]:
        """Return the rules that no site emits, and those with a finding that came past all sites."""
        there = {rule for rules in self.traced.sites.values() for rule in rules}
        return [rule for rule in RULES if rule not in there or rule in self.traced.lost]


def prepare(names: Mapping[str, str] | None = None, cases: Sequence[Expectation] | None = None) -> Campaign:
    """Load what is to be mutated, and run the suite once. Raises Unexpected if it does not pass."""
    package = __name__.split(".")[0]
    sources = load({**READERS, **WRITERS} if names is None else dict(names), package)
    if cases is None:
        company = {f"{book.format}/{item.name}": item.company for book in books() for item in book.definitions}
        cases = [Expectation.of(case, company[case.id]) for case in load_suite().cases]
    traced = trace(sources, cases)
    return Campaign(sources, cases, traced, mutants_of(sources, traced))


def counts_for_status(verdict: Verdict) -> bool:
    """Say whether a survivor makes a run fail: that of a reject or canonical rule does, and that of a refusal."""
    return is_rule(verdict.mutant) and any(rule == REFUSAL or RULES[rule].kind != NOTE for rule in verdict.alive)


def described(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON types."""
    mutant = verdict.mutant
    return {
        "place": mutant.place,
        "function": mutant.outer.name,
        "operator": mutant.operator,
        "before": mutant.before,
        "after": mutant.after,
        "status": verdict.status,
        "key": mutant.key,
        "killed_by": verdict.by,
        "how": verdict.how,
        "cases": verdict.tried,
        "seconds": round(verdict.seconds, 3),
        "alive": [rule for rule in verdict.alive if rule],
    }
