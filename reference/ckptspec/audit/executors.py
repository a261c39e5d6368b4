"""Where batches are examined: the seam between an audit and the processes that do its work.

An executor takes batches and gives them back, in any order, with their results or as lost. What is lost is examined
again, by halves, until the file that kills workers stands alone: that is the dispatcher's affair, not the executor's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Protocol

from ..checksum import processors
from .check import Examined, Job, Options, crashed

__all__ = ["Batch", "Dispatcher", "Executor", "Processes"]

LARGE: Final = 32 << 20  # bytes of a file that is examined alone
_BATCH_BYTES: Final = 4 << 20  # of the files of a batch
_BATCH_FILES: Final = (4, 48)  # few at first, that all workers have something to do, and many when there are many
_BATCH_FILES_ELSEWHERE: Final = 8  # at most, where each takes as long as a connection does
_ROUNDS: Final = 8  # batches that each slot has had of a size before they become larger
_TRIES: Final = 2  # of a batch of one file whose worker is lost: it may have been killed for another reason
_STILLBORN: Final = 3  # workers in turn that do not even start
_QUEUED: Final = 32  # batches for each slot that wait


@dataclass(slots=True, eq=False)
class Batch:
    """Files that are examined together. ``losses`` is how often its worker was lost; ``large`` that it takes long."""

    jobs: list[Job]
    losses: int = 0
    large: bool = False


class Executor(Protocol):
    """Examines batches somewhere."""

    @property
    def slots(self) -> int:
        """How many batches may be under way at a time."""

    def submit(self, batch: Batch, options: Options) -> None:
        """Begin with a batch; there is a slot free."""

    def collect(self, timeout: float) -> list[tuple[Batch, list[Examined] | None]]:
        """Return batches that are done, with their results, or None if the worker was lost; wait for them a while.

        ``timeout`` is in seconds.
        """

    def close(self) -> None:
        """End all that is under way."""


class Dispatcher:
    """Makes batches of files, and sees to it that each file gets its result."""

    def __init__(self, executor: Executor, options: Options) -> None:
        self._executor = executor
        self._options = options
        self._next: list[Job] = []
        self._next_bytes = 0
        self._added = 0
        self._small: deque[Batch] = deque()
        self._large: deque[Batch] = deque()
        self._under_way: set[Batch] = set()

    @property
    def full(self) -> bool:
        """Whether so much waits that no more should be added."""
        return max(len(self._small), len(self._large)) >= _QUEUED * self._executor.slots

    @property
    def busy(self) -> bool:
        """Whether any file has no result yet."""
        return bool(self._next or self._small or self._large or self._under_way)

    def add(self, job: Job) -> None:
        """Have a file examined."""
        if job.size >= LARGE:
            self._large.append(Batch([job], large=True))
            return
        self._next.append(job)
        self._next_bytes += job.size
        self._added += 1
        few, many = _BATCH_FILES
        most = _BATCH_FILES_ELSEWHERE if job.address else many
        enough = min(max(few, self._added // (_ROUNDS * self._executor.slots)), most)
        if len(self._next) >= enough or self._next_bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Have the files that were added examined without waiting for more."""
        if self._next:
            self._small.append(Batch(self._next))
            self._next, self._next_bytes = [], 0

    def collect(self, timeout: float) -> list[Examined]:
        """Return results that are there, and see to it that no slot is idle; wait at most ``timeout`` seconds."""
        self._submit()
        if not self._under_way:
            return []
        done = self._executor.collect(timeout)
        for batch, results in done:
            self._under_way.discard(batch)
            if results is None:
                batch.losses += 1
        made = [result for _, results in done if results is not None for result in results]
        for batch, results in done:
            if results is None:
                made += self._again(batch)
        self._submit()
        return made

    def _submit(self) -> None:
        while len(self._under_way) < self._executor.slots and (self._small or self._large):
            batch = self._choose()
            self._under_way.add(batch)
            self._executor.submit(batch, self._options)

    def _choose(self) -> Batch:
        """Return the batch to begin with: large files as early as possible, but a slot is left for small ones."""
        large = sum(batch.large for batch in self._under_way)
        if self._large and (not self._small or large < self._executor.slots - 1):
            return self._large.popleft()
        return self._small.popleft()

    def _again(self, batch: Batch) -> list[Examined]:
        """See to a batch whose worker was lost; return the result if it is known by now which file is to blame."""
        if len(batch.jobs) > 1:
            middle = len(batch.jobs) // 2
            halves = (batch.jobs[:middle], batch.jobs[middle:])
            self._small.extendleft(Batch(list(half)) for half in reversed(halves))
        elif batch.losses < _TRIES:
            (self._large if batch.large else self._small).appendleft(batch)
        else:
            return [crashed(batch.jobs[0], f"{_TRIES} workers in turn did not survive it")]
        return []


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    jobs: Connection[Any, Any]
    results: Connection[Any, Any]
    life: int  # closed by the system when this process ends, however it ends
    batch: Batch | None = None
    ready: bool = False


@dataclass(slots=True)
class Processes:
    """An executor on this machine. Processes are started when there is work for them, and again when they are lost."""

    slots: int = field(default_factory=processors)
    _workers: list[_Worker] = field(default_factory=list)
    _stillborn: int = 0  # workers in turn that were lost before they were ready

    def submit(self, batch: Batch, options: Options) -> None:
        worker = next((worker for worker in self._workers if worker.batch is None), None)
        if worker is None:
            worker = _start()
            self._workers.append(worker)
        worker.batch = batch
        with contextlib.suppress(OSError):  # it is gone; collect will notice
            worker.jobs.send((batch.jobs, options))

    def collect(self, timeout: float) -> list[tuple[Batch, list[Examined] | None]]:
        made: list[tuple[Batch, list[Examined] | None]] = []
        busy = {worker.results: worker for worker in self._workers if worker.batch is not None}
        for connection in wait(list(busy), timeout):
            worker = busy[connection]  # type: ignore[index]
            assert worker.batch is not None
            try:
                results = worker.results.recv()
            except (EOFError, OSError):
                self._lose(worker)
                made.append((worker.batch, None))
                continue
            if worker.ready:
                made.append((worker.batch, results))
                worker.batch = None
            worker.ready = True
            self._stillborn = 0
        return made

    def _lose(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        _end(worker)
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn >= _STILLBORN:  # no file is to blame
                raise OSError(errno.ECHILD, "Worker processes end before they have begun to work")

    def close(self) -> None:
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def processes(self) -> Sequence[int]:
        """Return the ids of the processes that are there."""
        return [worker.process.pid for worker in self._workers]


_PROGRAM: Final = """import sys
if {root!r} not in sys.path:
    sys.path.append({root!r})
from ckptspec.audit.worker import main
main({fds})"""


def _start() -> _Worker:
    jobs_out, jobs_in = os.pipe()
    results_out, results_in = os.pipe()
    life_out, life_in = os.pipe()
    theirs = (jobs_out, results_in, life_out)
    try:
        root = str(Path(__file__).resolve().parents[2])
        program = _PROGRAM.format(root=root, fds=", ".join(map(str, theirs)))
        # -P: nothing is imported from the folder that happens to be the current one, which may be full
        # of strange files
        process = subprocess.Popen(  # noqa: S603  # this very program
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=theirs,
            start_new_session=True,
        )
    except BaseException:
        for fd in (jobs_in, results_out, life_in):
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return _Worker(process, Connection(jobs_in, readable=False), Connection(results_out, writable=False), life_in)


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.wait()
    worker.jobs.close()
    worker.results.close()
    os.close(worker.life)
