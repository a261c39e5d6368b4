"""Audits on a Dask cluster that is there already: batches go to its workers, and huge files are split among them.

What a worker loses is done again: by Dask as long as it does not blame the work, and then by the dispatcher, which
halves a batch until the file that kills workers stands alone.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Final

from .. import __version__
from ..errors import ArgumentError
from ..text import printable, show
from ..urls import is_url
from .check import Examined, Job, Options, crashed, examine, examine_all
from .executors import Batch
from .splitting import LEAST, checksum_of_parts, sections_to_hash

__all__ = ["Cluster"]

_SCHEMES: Final = ("tcp", "tls")
_CONNECT: Final = 10  # seconds to wait for the scheduler
_NOBODY: Final = 60.0  # seconds without any worker after which there is no hope
_FRESH: Final = 0.5  # seconds for which the number of threads is taken to be the same
_QUEUED: Final = 2  # batches for each thread: the next one is there when one is done


class Cluster:
    """An executor whose workers are those of a Dask scheduler.

    ``address`` is the scheduler's, such as ``tcp://host:8786``. Raises ArgumentError if it is none; OSError if it
    cannot be reached, if it has no workers, if these have another version of ckptspec or none, or do not see the
    ``places`` that are to be audited.
    """

    def __init__(self, address: str, places: Sequence[str] = (), least: int = LEAST) -> None:
        _check_address(address)
        self.address = address
        self._least = least
        self._done: SimpleQueue[tuple[Batch, list[Examined] | None]] = SimpleQueue()
        self._batches: dict[Any, Batch] = {}
        self._alone_since: float | None = None
        self._known_threads = 0
        self._asked = -_FRESH
        self._closed = threading.Event()
        self._client = _connected(address)
        try:
            self._check(places)
        except BaseException:
            self.close()
            raise

    # ----------------------------------------------------------------------------------------------------- the workers

    def _threads(self) -> int:
        """Return the number of threads of all workers, as the scheduler told it a moment ago.

        The dispatcher wants to know for every file; each question to the scheduler takes a way there and back.
        """
        now = time.monotonic()
        if now - self._asked >= _FRESH:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            self._known_threads = sum(worker["nthreads"] for worker in workers.values())
            self._asked = now
        return self._known_threads

    @property
    def workers(self) -> int:
        """How many pieces of work the cluster can do at a time, at present."""
        return max(1, self._threads())

    @property
    def slots(self) -> int:
        """How many batches may be under way."""
        return _QUEUED * self.workers

    def _check(self, places: Sequence[str]) -> None:
        if not self._threads():
            raise self._error(errno.ECHILD, "The scheduler has no workers")
        local = [os.path.abspath(place) for place in places if not is_url(place) and os.path.lexists(place)]
        try:
            answers = self._client.run(_introduce, local)
        except Exception as error:  # whatever stands in the way there
            text = f"A worker cannot take part: {type(error).__name__}: {printable(str(error))}"
            raise self._error(errno.ECHILD, text) from None
        for worker, (version, unseen) in sorted(answers.items()):
            if version != __version__:
                raise self._error(errno.ECHILD, f"The worker {worker} has ckptspec {version}, this is {__version__}")
            if unseen:
                what = f"The worker {worker} does not see {printable(unseen[0])}; all must share the files"
                raise self._error(errno.ENOENT, what)

    def _error(self, number: int, text: str) -> OSError:
        return OSError(number, text, self.address)

    # ---------------------------------------------------------------------------------------------------- the executor

    def submit(self, batch: Batch, options: Options) -> None:
        """Begin with a batch."""
        if batch.large and options.payloads and batch.jobs[0].size >= self._least:
            threading.Thread(target=self._split, args=(batch, options), daemon=True).start()
            return
        future = self._submitted(examine_all, batch.jobs, options)
        self._batches[future.key] = batch
        future.add_done_callback(self._take)

    def collect(self, timeout: float) -> list[tuple[Batch, list[Examined] | None]]:
        """Return batches that are done; wait for them a while. OSError if nobody works any more."""
        made = []
        with contextlib.suppress(Empty):
            made.append(self._done.get(timeout=timeout) if timeout else self._done.get_nowait())
            while True:
                made.append(self._done.get_nowait())
        if not made:
            self._look()
        return made

    def _look(self) -> None:
        """See whether there still is somebody who works."""
        if self._client.status != "running":
            raise self._error(errno.ECONNRESET, "The connection to the scheduler broke")
        if self._threads():
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > _NOBODY:
            raise self._error(errno.ECHILD, "All workers are gone")

    def close(self) -> None:
        """End all that is under way; the cluster stays."""
        self._closed.set()
        with contextlib.suppress(Exception):
            self._client.close(timeout=_CONNECT)

    def _submitted(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        return self._client.submit(function, *arguments, pure=False, priority=priority)

    def _take(self, future: Any) -> None:
        """Note what came of a batch."""
        batch = self._batches.pop(future.key, None)
        if batch is None or self._closed.is_set():
            return
        try:
            made = future.result(timeout=_CONNECT) if future.status == "finished" else None
        except Exception:  # the result was lost on its way
            made = None
        self._done.put((batch, made))

    # ------------------------------------------------------------------------------------------------------ huge files

    def _split(self, batch: Batch, options: Options) -> None:
        """Examine a huge file with all workers."""
        job = batch.jobs[0]
        workers = _Submitter(self)
        made: list[Examined] | None
        try:
            places = workers.result(workers.submit(sections_to_hash, job, self._least))
            known = tuple((*place, checksum_of_parts(workers, job, *place)) for place in places)
            made = [workers.result(workers.submit(examine, replace(job, checksums=known), options))]
        except OSError:  # whatever it is: examined by one, it has its place in the result
            made = self._by_one(workers, job, options)
        except Exception as error:
            lost = type(error).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError")
            made = None if lost else [crashed(job, f"{type(error).__name__}: {error}")]
        if not self._closed.is_set():
            self._done.put((batch, made))

    def _by_one(self, workers: _Submitter, job: Job, options: Options) -> list[Examined] | None:
        try:
            return [workers.result(workers.submit(examine, job, options))]
        except Exception:
            return None


class _Submitter:
    """What ``splitting`` asks of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def workers(self) -> int:
        return self._cluster.workers

    def submit(self, function: Callable[..., Any], *arguments: Any, urgent: bool = False) -> Any:
        return self._cluster._submitted(function, *arguments, priority=10 if urgent else 0)

    def result(self, future: Any) -> Any:
        return future.result()


def _introduce(places: list[str]) -> tuple[str, list[str]]:
    """Return a worker's version, and the places that it does not see."""
    from ckptspec import __version__ as version

    return version, [place for place in places if not os.path.lexists(place)]


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        text = "A cluster is reached with distributed, which is not installed: pip install 'ckptspec[cluster]'"
        raise OSError(errno.EPROTONOSUPPORT, text, address) from None
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is told in one line
    client = Client.__new__(Client)
    failed: list[str] = []

    def connect() -> None:
        try:
            client.__init__(address, timeout=_CONNECT, set_as_default=False)  # type: ignore[misc]
        except Exception as error:  # whatever that which answers makes of it
            failed.append(str(error).partition("\n")[0] or type(error).__name__)

    # In a thread of its own: somebody who takes the connection and never says a word would keep it for ever.
    connecting = threading.Thread(target=connect, daemon=True)
    connecting.start()
    connecting.join(2 * _CONNECT)
    if connecting.is_alive():
        failed.append(f"no answer in {2 * _CONNECT} s")
    if failed:
        client.status = "closed"  # else it tries to close what was never open when nobody knows it any more
        text = f"The scheduler cannot be reached: {printable(failed[0])}"
        raise OSError(errno.ECONNREFUSED, text, address)
    return client


def _check_address(address: str) -> None:
    """Raise ArgumentError for what is no address of a scheduler."""
    scheme, mark, rest = address.rpartition("://")
    host, _, port = rest.rpartition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
    if (mark and scheme not in _SCHEMES) or not host or "@" in host or not 0 < number < 1 << 16:
        expected = " or ".join(f"{one}://HOST:PORT" for one in _SCHEMES)
        found = "an address with a user" if "@" in address else show(address)
        raise ArgumentError(f"found {found}, expected {expected}", "scheduler")
