"""One huge file on many workers: the checksums of its sections, from parts that are hashed in different places.

A part can be summarized as soon as the low byte of the hash before it is known, and that takes about half of the work
(``checksum``). So each worker reads parts of its own; the low byte goes through all parts in turn, from worker to
worker; and the rest of the work on a part is done while the low byte is under way to the next ones. Joined, the
summaries give the hash of the whole. Whatever is lost with a worker is read and hashed again by another one.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from ..checksum import FNV_OFFSET_BASIS, BlockSummary, combine, final_low, summarize
from ..examination import Examination
from ..findings import Report
from ..formats import recognise
from ..source import open_source
from .check import Job
from .places import stamp_of

__all__ = ["LEAST", "Submitter", "checksum_of_parts", "sections_to_hash"]

LEAST: Final = 256 << 20  # bytes of a section that is worth the messages
PART: Final = 64 << 20  # bytes of a part, which a worker holds in memory

Made = TypeVar("Made")


class Submitter(Protocol):
    """Runs functions on workers. What it returns stands for their results, and may be an argument of the next."""

    @property
    def workers(self) -> int:
        """How many pieces of work can be done at a time."""

    def submit(self, function: Callable[..., Any], *arguments: Any, urgent: bool = False) -> Any:
        """Run a function; arguments may be what an earlier call has returned."""

    def result(self, future: Any) -> Any:
        """Wait for a result; raises what the function has raised."""


def sections_to_hash(job: Job, least: int = LEAST) -> list[tuple[int, int]]:
    """Return offset and size of the sections of an ``.oam`` file that are worth being split; none of another format."""
    from ..oam._examine import examine

    with open_source(job.place) as source:
        if recognise(source) != "oam":
            return []
        anatomy = examine(Examination(source, Report(), payloads=False))
    if anatomy is None:
        return []
    found = {(section.offset, section.size) for section in anatomy.sections if section.in_place}
    return sorted(place for place in found if place[1] >= least)


def checksum_of_parts(workers: Submitter, job: Job, offset: int, size: int, part: int = PART) -> int:
    """Return the FNV-1a-64 of a section, whose parts are hashed by whoever is free.

    Raises OSError if the file cannot be read, or is another one by now.
    """
    state, low = FNV_OFFSET_BASIS, FNV_OFFSET_BASIS & 0xFF
    following: Any = low
    pending: deque[Any] = deque()
    for start in range(offset, offset + size, part):
        data = workers.submit(_read, job, start, min(part, offset + size - start))
        pending.append(workers.submit(_summary, data, following))
        following = workers.submit(_low_after, data, following, urgent=True)  # all parts that follow wait for it
        if len(pending) > 2 * workers.workers:
            state = combine(state, [workers.result(pending.popleft())])
    while pending:
        state = combine(state, [workers.result(pending.popleft())])
    return state


def _read(job: Job, offset: int, size: int) -> bytes:
    with open_source(job.place) as source:
        data = bytes(source.read(offset, size))
    if stamp_of(job.place) != (job.size, job.stamp):
        raise OSError(errno.ESTALE, "It changes while it is read", job.path)
    return data


def _low_after(data: bytes, low: int) -> int:
    return final_low(data, low)


def _summary(data: bytes, low: int) -> BlockSummary:
    return summarize(data, low, threads=1)
