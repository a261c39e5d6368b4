"""The sink of an examination: reading raises the first reason to refuse, validation collects everything.

The checks themselves live in the formats' modules and are the same for both, in the same order. A check that can only
yield a canonical finding or a note, or that reads more than a reader needs, is skipped unless the examination is
``thorough``.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .source import Source

if TYPE_CHECKING:
    from .findings import Report

__all__ = ["Examination", "Stop", "undisturbed"]

MAX_FINDINGS: Final = 10_000  # of each severity; a hostile index could hold billions of faults


_LONG: Final = 1 << 17  # bytes of a header of which the collector of garbage would take a good part of the time


@contextmanager
def undisturbed(size: int) -> Iterator[None]:
    """Read a header of so many bytes without the collector of garbage if it is long.

    The collector would look again and again at what is made there, none of which is garbage.
    """
    pause = size >= _LONG and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


class Stop(Exception):  # noqa: N818  # not an error: the examination cannot or need not go on
    """The examination of this file ends here."""


class Examination:
    """One pass over one source. ``report`` is None when reading.

    Without ``verify``, no checksum is compared; without ``payloads``, only those that need no payload are.
    """

    def __init__(
        self, source: Source, report: Report | None = None, *, verify: bool = True, payloads: bool = True
    ) -> None:
        self.source = source
        self.report = report
        self.verify = verify
        self.payloads = payloads
        self._counts: Counter[str] = Counter()
        self._kinds: dict[str, str] = {}

    @property
    def thorough(self) -> bool:
        """Whether canonical findings and notes are wanted."""
        return self.report is not None

    def _kind(self, rule: str) -> str:
        """Return a rule's kind; many a file breaks the same one very often."""
        kind = self._kinds.get(rule)
        if kind is None:
            from .spec.rules import RULES  # late, as in ``emit``

            kind = self._kinds[rule] = RULES[rule].kind
        return kind

    def wants(self, rule: str) -> bool:
        """Say whether a finding of this rule would be kept; if not, nobody needs to know its place."""
        kind = self._kind(rule)
        if self.report is None:
            from .spec.rules import REJECT

            return kind == REJECT
        if self._counts[kind] < MAX_FINDINGS:
            return True
        self.report.truncated = True
        return False

    def emit(
        self, rule: str, offset: int, length: int, path: str, found: object, expected: object, hint: str = ""
    ) -> None:
        """Record a finding; when reading, raise it as FormatError if it obliges readers to refuse.

        ``offset`` and ``length`` may be what the file says of itself: what lies beyond its end is cut off here, so that
        every finding lies within the file.
        """
        if not self.wants(rule):
            return
        from .errors import FormatError  # late: who reads a good file needs neither rules nor findings
        from .findings import Finding

        if self.report is not None:
            self._counts[self._kind(rule)] += 1
        offset = min(offset, self.source.size)
        finding = Finding(
            rule=rule,
            offset=offset,
            length=min(length, self.source.size - offset),
            path=path,
            found=str(found),
            expected=str(expected),
            hint=hint,
        )
        if self.report is None:
            raise FormatError(finding, self.source.name)
        self.report.findings.append(finding)
