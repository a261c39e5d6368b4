"""Threads that run tests, each with a worker of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

from .adapters import Adapter, Processes, Worker
from .judging import Test
from .outcome_report import Result

__all__ = ["Pool"]


class Pool:
    """Threads that run the tests of one direction, each with a worker of its own."""

    def __init__(
        self, job: Callable[[Test, Worker], Result], adapter: Adapter, processes: Processes, jobs: int = 0
    ) -> None:
        """``job`` runs one test with one worker. ``jobs`` is the number of threads, 0 one for each processor."""
        self.notes: list[str] = []
        self._job = job
        self._adapter = adapter
        self._processes = processes
        self._jobs = jobs
        self._lock = threading.Lock()
        self._results: dict[int, Result] = {}
        self._errors: list[BaseException] = []

    def run(self, tests: list[Test], first: Worker, progress: Callable[[int, int], None]) -> list[Result]:
        """Return the results in the order of ``tests``. ``first`` is one of the workers, at work already.

        ``progress`` is called after each test with the number of those done and of all, never by two threads at once.
        """
        jobs = max(1, min(self._jobs or os.cpu_count() or 1, len(tests)))
        workers = [first, *(self._adapter.worker(self._processes) for _ in range(jobs - 1))]
        numbered = list(enumerate(tests))
        shares: list[Iterator[tuple[int, Test]]] = [iter(numbered)] * jobs
        if self._adapter.stateful:
            # Which worker gets which cases must not be left to chance: what one case does to the next would be, too.
            shares = [iter(numbered[at::jobs]) for at in range(jobs)]
        threads = [
            threading.Thread(target=self._work, args=(worker, share, lambda done: progress(done, len(tests))))
            for worker, share in zip(workers, shares, strict=True)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C, most likely; a thread waits for its process and no longer
            self._processes.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
        if self._errors:
            raise self._errors[0]
        return [self._results[number] for number, _ in numbered]

    def _work(self, worker: Worker, share: Iterator[tuple[int, Test]], progress: Callable[[int], None]) -> None:
        try:
            try:
                while (numbered := self._next(share)) is not None:
                    number, test = numbered
                    result = self._job(test, worker)
                    with self._lock:
                        self._results[number] = result
                        progress(len(self._results))
            finally:
                note = worker.close()
            if note:
                self.notes.append(note)
        except BaseException as error:  # raised again by run()
            self._errors.append(error)
            self._processes.stop()

    def _next(self, share: Iterator[tuple[int, Test]]) -> tuple[int, Test] | None:
        with self._lock:  # the share may be common to all
            return None if self._processes.stopped else next(share, None)
