"""How things are timed: in turns, so that a machine whose speed drifts slows all alike; medians are compared."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Row",
    "anonymous_memory",
    "command_seconds",
    "forget_pages",
    "highest_memory",
    "in_turns",
    "peak_memory",
    "resident_memory",
]

RUNS = 7


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure. ``ratio`` is against the yardstick ``against``; ``target`` is what is asked for, if any.

    ``better`` says whether the ratio should be at least (``>=``) or at most (``<=``) the target.
    """

    group: str
    what: str
    seconds: float
    note: str = ""
    ratio: float | None = None
    against: str = ""
    better: str = ""
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target if self.better == ">=" else self.ratio <= self.target

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON types."""
        return {**asdict(self), "met": self.met}


def in_turns(
    tasks: dict[str, Callable[[], object]],
    runs: int = RUNS,
    warm: bool = True,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Run the tasks in turns; return the median of each one's wall-clock seconds.

    ``before`` runs before each task and is not timed; with ``warm``, the first turn does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(-1 if warm else 0, runs):
        for name, task in tasks.items():
            before()
            started = time.perf_counter()
            task()
            if turn >= 0:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def forget_pages(path: Path) -> None:
    """Have the system forget the pages of a file, so that it is read from disk. Linux only."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def command_seconds(commands: dict[str, Sequence[str]], runs: int = 15) -> dict[str, float]:
    """Run whole commands in turns; return the median seconds of each."""

    def run(command: Sequence[str]) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return in_turns({name: run(command) for name, command in commands.items()}, runs)


def anonymous_memory() -> int:
    """Return the bytes of anonymous memory that this process holds; mapped files are not counted. Linux only."""
    return _status("RssAnon:")


def resident_memory() -> int:
    """Return the bytes of memory that this process holds, touched pages of mapped files included. Linux only."""
    return _status("VmRSS:")


def highest_memory() -> int:
    """Return the most bytes of memory that this process has ever held. Linux only.

    Not what ``getrusage`` tells: that counts what the process was before it ran this program, too.
    """
    return _status("VmHWM:")


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0


_PEAK = """
import threading, time
from ckptspec.conformance.bench.timing import anonymous_memory
before, peak, done = anonymous_memory(), [0], threading.Event()
def watch():
    while not done.wait(0.004):
        peak[0] = max(peak[0], anonymous_memory())
watcher = threading.Thread(target=watch)
watcher.start()
try:
    result = work()
finally:
    done.set()
    watcher.join()
print(max(peak[0], anonymous_memory()) - before)
"""


def peak_memory(setup: str, *arguments: object) -> int:
    """Return the most anonymous memory that ``work()``, which ``setup`` defines, takes in a process of its own."""
    command = [sys.executable, "-c", setup + _PEAK, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
