"""Asking all readings of a file, and comparing what they say, each with each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from ...formats import module_of
from ...source import BufferSource
from ..differences import Difference, first_difference
from .acceptable import Acceptable, acceptable, explanations
from .readings import REFERENCE, Answer, Reading

__all__ = ["ACCEPTABLE", "BOTH_ACCEPT", "BOTH_REFUSE", "DISAGREE", "KINDS", "Comparison", "Disagreement", "Tally"]

BOTH_ACCEPT: Final = "both accept"
BOTH_REFUSE: Final = "both refuse"
ACCEPTABLE: Final = "acceptable"
DISAGREE: Final = "disagree"
KINDS: Final = (BOTH_ACCEPT, BOTH_REFUSE, ACCEPTABLE, DISAGREE)
"""What may come of comparing two readings of a file."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What two readings of a file say that cannot both be right; ``difference`` if both accept it."""

    format: str
    pair: Pair
    answers: tuple[Answer, Answer]
    difference: Difference | None = None

    def __str__(self) -> str:
        said = [f"{name} {answer}" for name, answer in zip(self.pair, self.answers, strict=True)]
        if self.difference is not None:
            said.append(f"at {self.difference.path}: {self.difference.expected} or {self.difference.found}")
        return "; ".join(said)

    def place(self, data: bytes) -> int | None:
        """Return the byte of the file that it is about, as far as somebody can tell."""
        if self.difference is not None:
            return _offset_of(self.format, data, self.difference.path)
        return next((answer.offset for answer in self.answers if answer.offset is not None), None)


def _offset_of(format: str, data: bytes, path: str) -> int | None:
    """Return where a part of the document lies in the file: the first region that the path leads to."""
    path = path.partition(",")[0]
    for region in module_of(format).regions(BufferSource(data)):
        if region.path and (region.path == path or path.startswith((f"{region.path}.", f"{region.path}["))):
            return region.offset
    return None


def compare(one: Answer, other: Answer) -> Difference | None:
    """Return where what two accepting readings found first differs, in the parts that both found."""
    assert one.parts is not None
    assert other.parts is not None
    for key in one.parts:
        if key in other.parts:
            difference = first_difference(_json(one.parts[key]), _json(other.parts[key]), key)
            if difference is not None:
                return difference
    return None


def _json(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


@dataclass(slots=True)
class Tally:
    """Counts by format, pair and kind, and by declared disagreement and rule, with a case of the suite for each."""

    files: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, Pair, str]] = field(default_factory=Counter)
    declared: Counter[tuple[Acceptable, str]] = field(default_factory=Counter)
    examples: dict[tuple[Acceptable, str], str] = field(default_factory=dict)

    def rows(self) -> Iterator[tuple[str, Pair, list[int]]]:
        """Yield format, pair and the counts of the kinds."""
        for name, pair in dict.fromkeys((name, pair) for name, pair, _ in self.pairs):
            yield name, pair, [self.pairs[name, pair, kind] for kind in KINDS]


@dataclass(slots=True)
class Comparison:
    """Readings that are held against each other, the reference first, and what has come of it."""

    readings: Sequence[Reading]
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        assert self.readings[0].name == REFERENCE

    def ask(self, format: str, data: bytes, more: Iterable[tuple[str, Answer]] = ()) -> list[Disagreement]:
        """Ask all readings of a file, and return their disagreements but for those that are declared.

        ``more`` are answers that stand already, such as that of the suite.
        """
        answers = {reading.name: reading.ask(format, data) for reading in self.readings if format in reading.formats}
        answers |= dict(more)
        why = {name: self._explained(name, format, data, answers) for name in answers}
        self.tally.files[format] += 1
        return [made for pair in combinations(answers, 2) if (made := self._pair(format, pair, answers, why))]

    def _explained(self, name: str, format: str, data: bytes, answers: dict[str, Answer]) -> bool:
        """Whether a reading says what the reference says, or may say something else."""
        reference, answer = answers[REFERENCE], answers[name]
        if answer.broken or reference.broken:
            return False
        if answer.accepted and reference.accepted:
            return compare(reference, answer) is None
        if answer.accepted == reference.accepted:
            return True
        found = explanations(acceptable(name, format), data, reference, answer)
        if found is not None:
            self.tally.declared.update(set(found))
        return found is not None

    def _pair(self, format: str, pair: Pair, answers: dict[str, Answer], why: dict[str, bool]) -> Disagreement | None:
        one, other = (answers[name] for name in pair)
        difference = compare(one, other) if one.accepted and other.accepted else None
        broken = one.broken or other.broken
        if one.accepted == other.accepted and difference is None and not broken:
            kind = BOTH_ACCEPT if one.accepted else BOTH_REFUSE
        elif all(why[name] for name in pair):
            kind = ACCEPTABLE
        else:
            kind = DISAGREE
        self.tally.pairs[format, pair, kind] += 1
        if kind != DISAGREE:
            return None
        return Disagreement(format=format, pair=pair, answers=(one, other), difference=difference)
