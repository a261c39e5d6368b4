"""Work in several threads whose results come in order, for work that lets go of the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from .checksum import processors

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["batches", "in_order"]

_MOST: Final = 8  # threads; what they read comes from one disk
_BATCH: Final = 1 << 20  # bytes that are worth handing to a thread
_ITEMS: Final = 512  # and items, however small

Job = TypeVar("Job")
Result = TypeVar("Result")


def batches(jobs: Iterable[Job], size: Callable[[Job], int]) -> Iterator[list[Job]]:
    """Yield jobs together until they are worth a thread's while; ``size`` is that of a job in bytes."""
    batch: list[Job] = []
    total = 0
    for job in jobs:
        batch.append(job)
        total += size(job)
        if total >= _BATCH or len(batch) >= _ITEMS:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def in_order(
    work: Callable[[Job], Result], jobs: Iterable[Job], *, threads: int | None = None
) -> Generator[Result, None, None]:
    """Yield the results of all jobs, in order; a few jobs are under way at any time.

    Without ``threads``, there are as many as processors, eight at most; with one, all is done where it is asked for.
    """
    number = min(_MOST, processors()) if threads is None else threads
    if number < 2:
        yield from map(work, jobs)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(number, "ckptspec-work") as pool:
        try:
            for job in jobs:
                pending.append(pool.submit(work, job))
                if len(pending) >= 3 * number:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # whoever asked may have had enough, or a job may have failed
            for future in pending:
                future.cancel()
