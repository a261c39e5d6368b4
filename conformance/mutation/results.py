"""The committed results of a whole run, which the page of the documentation is made of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .campaign import EQUIVALENT, KILLED, Verdict, is_rule
from .mutants import Mutant

__all__ = ["RESULTS", "Results", "known_tests", "load", "merged", "results_of", "stale"]

RESULTS: Final = Path(__file__).parent / "results.json"
RENEW: Final = "python -m ckptspec.conformance.mutation --search --write"

Results = dict[str, Any]
"""``checks``: of each check that was taken out or inverted, what killed it. ``finer``: how many mutants there are and
survive, by module and operator. ``survivors``: the finer mutants that nothing kills."""


def results_of(verdicts: Sequence[Verdict]) -> Results:
    """Return what is kept of a run."""
    finer: dict[str, dict[str, Counter[str]]] = {}
    for verdict in verdicts:
        if not is_rule(verdict.mutant):
            mutant = verdict.mutant
            counts = finer.setdefault(mutant.source.name, {}).setdefault(mutant.operator, Counter())
            counts["mutants"] += 1
            counts[verdict.status] += 1
    return {
        "checks": [_check(verdict) for verdict in verdicts if is_rule(verdict.mutant)],
        "finer": {module: {name: dict(count) for name, count in rows.items()} for module, rows in finer.items()},
        "survivors": [
            verdict.mutant.key
            for verdict in verdicts
            if not is_rule(verdict.mutant) and verdict.status not in (KILLED, EQUIVALENT)
        ],
    }


def merged(old: Results, new: Results, mutants: Sequence[Mutant]) -> Results:
    """Return the results of a run of some modules, or of checks alone, and for the rest those that there were.

    ``mutants`` are all that there are: what was said of others is dropped.
    """
    there = {mutant.key for mutant in mutants}
    again = {row["module"] for row in new["checks"]}
    checks = [row for row in old["checks"] if row["module"] not in again] + new["checks"]
    finer = {module: rows for module, rows in old["finer"].items() if module not in new["finer"]}
    survivors = [key for key in old["survivors"] if key.partition(":")[0] not in new["finer"]]
    order = {mutant.key: number for number, mutant in enumerate(mutants)}
    return {
        "checks": sorted((row for row in checks if row["key"] in there), key=lambda row: order[row["key"]]),
        "finer": finer | new["finer"],
        "survivors": sorted((key for key in survivors + new["survivors"] if key in there), key=order.__getitem__),
    }


def _check(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    return {
        "module": mutant.source.name,
        "function": mutant.outer.name,
        "operator": mutant.operator,
        "before": mutant.before,
        "key": mutant.key,
        "killed_by": {rule: verdict.by.get(rule, "") for rule in sorted(mutant.cases)},
    }


def load(path: Path = RESULTS) -> Results:
    """Read the committed results."""
    made: Results = json.loads(path.read_text("utf-8"))
    return made


def dump(results: Results) -> str:
    """Return results as the text of the committed file."""
    return json.dumps(results, indent=1, sort_keys=True) + "\n"


def known_tests(results: Results) -> dict[str, list[str]]:
    """Return the tests that killed a mutant, by the mutant's key."""
    made = {}
    for row in results["checks"]:
        tests = {name for name in row["killed_by"].values() if is_test(name)}
        if tests:
            made[row["key"]] = sorted(tests)
    return made


def is_test(name: str) -> bool:
    """Say whether what killed a mutant is a test, and not a case."""
    return "::" in name


@dataclass(frozen=True, slots=True)
class Stale:
    """What the results do not know, and what they know that is no more."""

    missing: tuple[str, ...]
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.gone)

    def __str__(self) -> str:
        lines = [f"no results about: {key}" for key in self.missing] + [f"is no more: {key}" for key in self.gone]
        shown = [*lines[:10], *([f"and {len(lines) - 10} more"] if len(lines) > 10 else [])]
        return "\n".join(["the results of the mutation are stale; renew them with", f"  {RENEW}", *shown])


def stale(results: Results, mutants: Iterable[Mutant]) -> Stale:
    """Compare results with the checks that there are: the same ones, with the same rules, killed by what is there."""
    there = {mutant.key: set(mutant.cases) for mutant in mutants if is_rule(mutant)}
    told: Mapping[str, set[str]] = {row["key"]: set(row["killed_by"]) for row in results["checks"]}
    return Stale(
        missing=tuple(key for key, rules in there.items() if told.get(key) != rules),
        gone=tuple(key for key in told if key not in there),
    )
