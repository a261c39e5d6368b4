"""The search for disagreements: golden files, then generated ones, then the smallest file that shows what was found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from ..catalogue import Case
from ..strategies_oam import resealed
from .comparing import Comparison, Disagreement
from .inputs import GeneratedFile, answer_of_suite, generated_files

__all__ = ["SUITE", "Found", "golden", "search", "shrunk"]

SUITE: Final = "suite"
_ROUND: Final = 50  # files between two formats
_TRIES: Final = 2000  # smaller files that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file about which readings disagree; ``origin`` says where it comes from."""

    data: bytes
    origin: str
    disagreements: tuple[Disagreement, ...]

    @property
    def first(self) -> Disagreement:
        """The disagreement to begin with."""
        return self.disagreements[0]


class _Disagree(Exception):  # noqa: N818
    """Tells hypothesis that a file is one of those that it looks for."""


def golden(comparison: Comparison, cases: Iterable[Case]) -> Iterator[Found]:
    """Yield the files of cases about which readings disagree, the suite being one of them."""
    for case in cases:
        data = case.read()
        wrong = comparison.ask(case.format, data, [(SUITE, answer_of_suite(case))])
        for one in comparison.tally.declared:
            comparison.tally.examples.setdefault(one, case.id)
        if wrong:
            yield Found(data=data, origin=case.id, disagreements=tuple(wrong))


def search(comparison: Comparison, formats: Sequence[str], seconds: float, first: int) -> Found | None:
    """Look at generated files of all formats in turn until the time is over; return the first disagreement, if any.

    ``first`` is the seed of the first round; the rounds after it count on. The same seed gives the same files.
    """
    until = time.monotonic() + seconds
    number = first
    while time.monotonic() < until:
        for name in formats:
            found = _round(comparison, name, number, lambda: time.monotonic() >= until)
            if found is not None:
                return found
        number += 1
    return None


def _round(comparison: Comparison, format: str, number: int, over: Callable[[], bool]) -> Found | None:
    """Look at a round of files of one format, and let hypothesis make the file smaller that it finds."""
    found = _explore(comparison, format, number, (Phase.generate,), over)
    if found is None:
        return None
    # The same again, with its shrinking.
    again = _explore(Comparison(comparison.readings), format, number, (Phase.generate, Phase.shrink), lambda: False)
    return again or found


def _explore(
    comparison: Comparison, format: str, number: int, phases: tuple[Phase, ...], over: Callable[[], bool]
) -> Found | None:
    """Look at one round of files; return the last about which readings disagree, which is the smallest."""
    found: list[Found] = []
    quiet = Comparison(comparison.readings)  # what hypothesis tries once more does not count

    @seed(number)
    @settings(
        max_examples=_ROUND,
        phases=phases,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(generated_files(format))
    def look(file: GeneratedFile) -> None:
        if over() and not found:
            return
        wrong = (quiet if found else comparison).ask(format, file.data)
        if wrong:
            found.append(Found(data=file.data, origin=f"seed {number}", disagreements=tuple(wrong)))
            raise _Disagree

    with contextlib.suppress(_Disagree):
        look()
    return found[-1] if found else None


def shrunk(comparison: Comparison, found: Found) -> Found:
    """Return a file that is as small as it easily gets and on which the same two readings still disagree.

    Stretches of bytes are taken out, the largest first; of .oam files the checksums are made right again.
    """
    kind, pair = found.first.format, found.first.pair
    quiet = Comparison(comparison.readings)
    if any(name == SUITE for name in pair):
        return found
    tries = 0
    best = found
    size = len(found.data) // 2
    while size:
        at = 0
        while at < len(best.data) and tries < _TRIES:
            tries += 1
            smaller = best.data[:at] + best.data[at + size :]
            if kind == "oam":
                smaller = resealed(smaller)
            wrong = [one for one in quiet.ask(kind, smaller) if one.pair == pair]
            if wrong:
                best = Found(data=smaller, origin=found.origin, disagreements=tuple(wrong))
            else:
                at += size
        size //= 2
    return best
