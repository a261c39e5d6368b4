"""A worker process: gets batches through a pipe, and sends back what came of them.

Started by ``processes``, in a session of its own, so that Ctrl-C on a terminal reaches only the process that audits.
"""

from __future__ import annotations

import contextlib
import os
import threading
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["main"]


def main(jobs_fd: int, results_fd: int, life_fd: int) -> None:
    """Work until there is no more to do. ``life_fd`` is a pipe that ends when the process that audits does."""
    threading.Thread(target=_die_with, args=(life_fd,), daemon=True).start()
    _be_chosen_first()
    jobs: Connection[Any, Any] = Connection(jobs_fd, writable=False)
    results: Connection[Any, Any] = Connection(results_fd, readable=False)
    from .check import examine_all

    with contextlib.suppress(EOFError, BrokenPipeError):
        results.send(None)  # ready: from now on, what ends this process is a file, or somebody who kills it
        while True:
            batch, options = jobs.recv()
            results.send(examine_all(batch, options))


def _die_with(life_fd: int) -> None:
    os.read(life_fd, 1)
    os._exit(1)


def _be_chosen_first() -> None:
    """Have a system that is out of memory end this process, and not the one that keeps the results. Linux only."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
