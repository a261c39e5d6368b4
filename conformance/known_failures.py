"""The known-failures file: which tests an implementation is known to fail, how, and why.

One line for each test, ``#`` and the reason being mandatory; empty lines and lines that begin with ``#`` are comments::

    decode:oam/duplicate-name  accepted-invalid  # our reader keeps the last of two tensors, see issue 12

The file is a promise in both directions: a listed test that passes, or that fails in another way, is *stale* and fails
the run just as an unlisted failure does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import ArgumentError
from ..publish import publishing
from ..source import read_text_file
from ..text import count, printable, shorten
from .outcome_report import FAILED, KNOWN, OUTCOMES, PASS, SKIPPED, STALE, WARNED, Result

__all__ = ["KnownFailure", "KnownFailures", "Update", "save_lines"]

UNEXPLAINED: Final = "not yet explained"
_HEADING: Final = (
    "# Known failures of this implementation: test, outcome, and the reason after the number sign.",
    "# A listed test that passes, or fails in another way, fails the run.",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """One line: the test ``id`` ends with ``outcome``, for ``reason``. ``line`` counts from 1."""

    id: str
    outcome: str
    reason: str
    line: int

    def __str__(self) -> str:
        return f"{self.id}  {self.outcome}  # {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The ``lines`` of an updated file, and how many tests were added, got another outcome, and were removed."""

    lines: list[str]
    added: int
    changed: int
    removed: int

    def __str__(self) -> str:
        written = count(len(self.lines), "line")
        return f"{written} written: {self.added} added, {self.changed} changed, {self.removed} removed"


class KnownFailures:
    """The content of a known-failures file."""

    def __init__(self, lines: Sequence[str], tests: Iterable[str], source: str = "known failures") -> None:
        """Parse ``lines``; ``tests`` are the ids of all tests of the suite. ArgumentError names the bad line."""
        self._lines = list(lines)
        self.failures: Mapping[str, KnownFailure] = self._parse(frozenset(tests), source)

    @classmethod
    def load(cls, path: str | os.PathLike[str], tests: Iterable[str], *, missing_ok: bool = False) -> KnownFailures:
        """Read the file at ``path``; with ``missing_ok``, one that does not exist is empty."""
        source = os.fspath(path)
        try:
            text = read_text_file(path).decode()
        except FileNotFoundError:
            if missing_ok:
                return cls([], tests, source)
            raise
        except UnicodeDecodeError:
            raise ArgumentError("the known-failures file is not UTF-8", printable(source)) from None
        except ArgumentError as error:
            raise ArgumentError(str(error), printable(source)) from None
        # Not str.splitlines: a reason may hold any of the separators that it knows.
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
        return cls(lines, tests, source)

    def _parse(self, tests: frozenset[str], source: str) -> dict[str, KnownFailure]:
        made: dict[str, KnownFailure] = {}
        for number, line in enumerate(self._lines, 1):
            where = f"{printable(source)}, line {number}"
            failure = _parse_line(line, number, where)
            if failure is None:
                continue
            if failure.id not in tests:
                raise ArgumentError(f"the suite has no test '{shorten(printable(failure.id))}'", where)
            if failure.id in made:
                raise ArgumentError(f"'{failure.id}' stands on line {made[failure.id].line} already", where)
            made[failure.id] = failure
        return made

    def apply(self, results: Iterable[Result]) -> tuple[Result, ...]:
        """Return ``results`` with the listed tests counted as known failures or as stale."""
        return tuple(self._apply(result) for result in results)

    def _apply(self, result: Result) -> Result:
        failure = self.failures.get(result.id)
        if failure is None or result.status == SKIPPED:
            return result
        listed = f"{failure.outcome}, on line {failure.line}: {printable(failure.reason)}"
        if result.outcome == failure.outcome:
            return replace(result, status=KNOWN, known=printable(failure.reason))
        return replace(result, status=STALE, known=listed)

    def updated(self, results: Iterable[Result]) -> Update:
        """Return the file as this run's ``results`` (before ``apply``) make it.

        Comments, and lines of tests that did not run, stay as they are. So does the line of a test with the outcome
        listed; with another outcome it loses its reason, which explained something else, but keeps it to be read.
        """
        found = {result.id: result for result in results if result.status != SKIPPED}
        by_line = {failure.line: failure for failure in self.failures.values()}
        lines: list[str] = []
        changed = removed = 0
        for number, line in enumerate(self._lines, 1):
            failure = by_line.get(number)
            if failure is None or failure.id not in found or found[failure.id].outcome == failure.outcome:
                lines.append(line)
            elif found[failure.id].status in (FAILED, WARNED):
                reason = f"{UNEXPLAINED} (was {failure.outcome}: {failure.reason})"
                lines.append(str(replace(failure, outcome=found[failure.id].outcome, reason=reason)))
                changed += 1
            else:
                removed += 1
        new = [result for result in found.values() if result.status == FAILED and result.id not in self.failures]
        lines += [f"{result.id}  {result.outcome}  # {UNEXPLAINED}" for result in new]
        lines = lines if self._lines else [*_HEADING, *lines]
        return Update(lines=lines, added=len(new), changed=changed, removed=removed)


def save_lines(path: str | os.PathLike[str], lines: Sequence[str]) -> None:
    """Publish ``lines`` as the file at ``path``."""
    with publishing(path) as draft:
        draft.write("".join(f"{line}\n" for line in lines).encode())


def _parse_line(line: str, number: int, where: str) -> KnownFailure | None:
    statement, sign, reason = line.partition("#")
    words = statement.split()
    if not words:
        return None
    if len(words) != 2:
        raise ArgumentError("expected a test, its outcome, and '#' with the reason", where)
    if words[1] not in OUTCOMES or words[1] == PASS:
        outcomes = ", ".join(outcome for outcome in OUTCOMES if outcome != PASS)
        raise ArgumentError(f"unknown outcome '{shorten(printable(words[1]))}'; there are {outcomes}", where)
    if not sign or not reason.strip():
        raise ArgumentError("the reason is missing: write it after a '#'", where)
    return KnownFailure(id=words[0], outcome=words[1], reason=reason.strip(), line=number)
