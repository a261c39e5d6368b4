"""Progress of long work: counted where bytes are streamed, shown by whoever wants to show it.

``Source.blocks`` and ``Draft.write`` are the two places that bytes go through; they call ``advance``. The command line
wraps its work in ``meter``, which shows a bar with rate and remaining time on a terminal once the work has taken more
than a second, and nothing anywhere else.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["advance", "meter"]

_DELAY: Final = 1.0  # seconds before a bar is shown


class _Meter:
    def __init__(self, total: int, label: str) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self.started = time.monotonic()
        self.bar: Any = None
        self._lock = threading.Lock()

    def advance(self, size: int) -> None:
        with self._lock:  # two sections may be hashed at the same time
            self._advance(size)

    def _advance(self, size: int) -> None:
        self.done += size
        if self.bar is None:
            if time.monotonic() - self.started < _DELAY:
                return
            from tqdm import tqdm  # late: most work is done before a bar is wanted

            self.bar = tqdm(
                total=max(self.total, self.done),
                desc=self.label,
                unit="B",
                unit_scale=True,
                leave=False,
                initial=0,
                file=sys.stderr,
                dynamic_ncols=True,
            )
            self.bar.start_t -= time.monotonic() - self.started  # the rate is that of the whole work
            size = self.done
        if self.done > self.bar.total:
            self.bar.total = self.done
        self.bar.update(size)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


_current: ContextVar[_Meter | None] = ContextVar("ckptspec_meter", default=None)


def advance(size: int) -> None:
    """Say that ``size`` more bytes went through."""
    meter = _current.get()
    if meter is not None:
        meter.advance(size)


@contextlib.contextmanager
def meter(total: int, label: str) -> Iterator[None]:
    """Show the progress of the work inside, of about ``total`` bytes, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    made = _Meter(total, label)
    token = _current.set(made)
    try:
        yield
    finally:
        _current.reset(token)
        made.close()
