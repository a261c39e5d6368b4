"""What an input may cost: memory and time in proportion to its size. The numbers stand here and nowhere else.

They are generous: several times what the costliest inputs take that are known, a finding for every other byte, so that
no slow machine fails. What they catch is a size or a count from a file that somebody takes at its word, an endless
loop, and work that grows faster than the input.
"""

from __future__ import annotations

import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from .subjects import Violation

__all__ = ["INSTRUMENTED", "MEMORY", "SECONDS", "Limit", "within"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that grows with the input: ``fixed + per_byte * size``."""

    fixed: float
    per_byte: float

    def of(self, size: int, factor: float = 1) -> float:
        """Return what an input of ``size`` bytes may take, where ``factor`` times as much per byte is allowed."""
        return self.fixed + self.per_byte * factor * size


MEMORY: Final = Limit(4 << 20, 2048)
"""Bytes in use at a time, beyond those in use before, as tracemalloc counts them."""

SECONDS: Final = Limit(1.0, 250e-6)
"""Seconds of processor time."""

INSTRUMENTED: Final = 4
"""How many times as long everything may take while coverage, or memory, is recorded."""

_TRIES: Final = 3  # the first time, modules are imported and tables made
_HANGING: Final = 2  # times the limit after which a call is broken off


def within(call: Callable[[], None], size: int, factor: float, *, memory: bool, slack: float = 1) -> None:
    """Make a call with an input of ``size`` bytes. Violation if it takes too long, or with ``memory``, too much memory.

    What ``call`` raises comes out. What takes too much is tried again, and the cheapest try counts.
    """
    slack *= INSTRUMENTED if memory else 1
    seconds, peak = SECONDS.of(size, factor) * slack, MEMORY.of(size, factor)
    for last in (False,) * (_TRIES - 1) + (True,):
        with _broken_off(seconds * _HANGING), _peak(memory) as used:
            before = time.process_time()
            call()
            spent = time.process_time() - before
        if spent <= seconds and used[0] <= peak:
            return
        if last and spent > seconds:
            raise Violation(f"took {spent:.2f} s for {size} bytes, {seconds:.2f} s are allowed")
    raise Violation(f"took {used[0]} bytes of memory for {size} bytes, {int(peak)} are allowed")


@contextmanager
def _peak(wanted: bool) -> Iterator[list[int]]:
    """Give a list that holds, after the block, the peak of memory in it."""
    used = [0]
    if not wanted:
        yield used
        return
    tracemalloc.start()
    try:
        yield used
        used[0] = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@contextmanager
def _broken_off(seconds: float) -> Iterator[None]:
    """Break a block off by a Violation once it has taken so much processor time, where the system can do that."""
    if not hasattr(signal, "SIGPROF") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Violation(f"broken off after {seconds:.1f} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again, should something swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
