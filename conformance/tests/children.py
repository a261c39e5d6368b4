"""Child processes of tests: started in milliseconds, talked to by a pipe, and gone when a block ends."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# A server forks the children; a test file has it import the file once, beforehand.
PROCESSES: Any = multiprocessing.get_context("forkserver")
Wire = Any  # one end of a pipe between processes


@contextmanager
def child(work: Callable[..., None], *arguments: object) -> Iterator[tuple[Any, Wire]]:
    """Start a process; it gets its arguments and one end of a pipe. It is gone when the block ends."""
    mine, other = PROCESSES.Pipe()
    process = PROCESSES.Process(target=work, args=(*arguments, other), daemon=True)
    process.start()
    other.close()
    try:
        yield process, mine
    finally:
        process.kill()
        process.join()
        mine.close()
