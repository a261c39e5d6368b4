"""How an audit is watched from a terminal: a bar with rate and remaining time, and a line for what cannot be looked at.

How much there is to do is not known when a run begins: a thread counts it, by a walk of its own, while work goes on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Self

from ..text import count, harmless, printable
from .check import Examined
from .patterns import Filter
from .places import Place, walk
from .verdicts import BAD

__all__ = ["Shown"]

_DELAY: Final = 1.0  # seconds before a bar is shown
_OFTEN: Final = 0.1  # seconds between two pictures of it
_WORTH: Final = 100_000  # bytes whose examination takes as long as a file does whatever its size


class Shown:
    """A watcher that shows what it sees on standard error; the bar only on a terminal. A context manager."""

    def __init__(
        self, places: Sequence[str], include: Sequence[str], exclude: Sequence[str], most_notices: int
    ) -> None:
        self._arguments = (places, Filter(include, exclude))
        self._most_notices = most_notices
        self._notices = 0
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()
        self._started = self._drawn = time.monotonic()
        self._files = self._work = self._bad = 0
        self._total_files = self._total_work = 0
        self._stop = threading.Event()
        self._counter: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._counter is not None:
            self._counter.join()
        if self._bar is not None:
            self._bar.close()
        if self._notices > self._most_notices:
            more = count(self._notices - self._most_notices, "place")
            print(f"ckptspec: {more} more could not be looked at; the report has all of them", file=sys.stderr)

    # What the audit calls.

    def begun(self, run: int) -> None:
        if self._terminal:
            self._counter = threading.Thread(target=self._count, name="ckptspec-count", daemon=True)
            self._counter.start()

    def kept(self, place: Place, verdict: str) -> None:
        self._done(place.size, verdict)

    def examined(self, result: Examined) -> None:
        if result.verdict == "unreadable" or result.gone:
            self._notices += 1
            if self._notices <= self._most_notices:
                what = harmless(result.message) or "It vanished before it was looked at"
                self._notice(f"{printable(result.path)}: {what}")
        self._done(result.size, result.verdict)

    def _notice(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(f"ckptspec: {text}", file=sys.stderr)
        else:
            print(f"ckptspec: {text}", file=sys.stderr)

    def _done(self, size: int, verdict: str) -> None:
        self._files += 1
        self._work += _WORTH + size
        self._bad += verdict in BAD
        now = time.monotonic()
        if self._terminal and now - self._drawn >= _OFTEN and now - self._started >= _DELAY:
            self._draw(now)

    def _draw(self, now: float) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                bar_format="audit {percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]",
                total=1,
                leave=False,
                file=sys.stderr,
                dynamic_ncols=True,
            )
            self._bar.start_t -= now - self._started  # the rate is that of the whole work
        files = max(self._files, self._total_files)
        self._bar.total = max(self._work, self._total_work)
        self._bar.n = self._work
        rate = self._files / (now - self._started)
        self._bar.desc = f"{self._files:,}/{files:,} files, {rate:,.0f} files/s, {self._bad:,} bad"
        self._bar.refresh()
        self._drawn = now

    def _count(self) -> None:
        places, wanted = self._arguments
        for place in walk(places, wanted):
            if self._stop.is_set():
                return
            self._total_files += 1
            self._total_work += _WORTH + place.size
