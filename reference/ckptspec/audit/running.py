"""The run of an audit: places come from a walk, results go into a database, and in between work executors."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ..errors import ArgumentError
from ..formats import FORMATS
from ..publish import is_temporary
from ..source import path_text
from ..text import printable
from ..urls import is_url, local_path, name_of, shown_url
from .check import Examined, Job, Options
from .database import Known, Store
from .executors import Dispatcher, Executor, Processes
from .patterns import Filter
from .places import Place, walk

__all__ = ["Run", "Watcher", "audit"]

_PATIENCE: Final = 0.2  # seconds to wait for results before something else is looked at
_LOOK: Final = 8  # places after which results are looked for
_AGAIN: Final = ("crashed", "unreadable")  # verdicts that say nothing lasting about a file


class Watcher(Protocol):
    """Whoever wants to know how an audit goes on. Called by the thread that audits."""

    def begun(self, run: int) -> None:
        """Take note of the run's number."""

    def kept(self, place: Place, verdict: str) -> None:
        """Take note of a file that has not changed, and of its verdict."""

    def examined(self, result: Examined) -> None:
        """Take note of a new result, or of a place that cannot be looked at."""


class _Silent:
    def begun(self, run: int) -> None: ...
    def kept(self, place: Place, verdict: str) -> None: ...
    def examined(self, result: Examined) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An audit that has come to its end: ``examined`` files, and ``kept`` results of files that had not changed.

    ``number`` is the run's in the database; ``gone`` is the number of files that vanished before they could be looked
    at.
    """

    database: str
    number: int
    examined: int
    kept: int
    gone: int


def audit(
    places: Sequence[str | os.PathLike[str]],
    database: str | os.PathLike[str] = "ckptspec-audit.sqlite",
    *,
    workers: int | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    format: str | None = None,
    payloads: bool = True,
    digest: bool = False,
    everything: bool = False,
    watcher: Watcher | None = None,
    scheduler: str | None = None,
    executor: Executor | None = None,
) -> Run:
    """Examine all files below ``places``, in parallel, and record the results; return a summary of the run.

    ``places`` are files, folders and patterns. ``workers`` is the number of processes, one for each processor unless
    given; ``scheduler`` is the address of a Dask cluster whose workers do the work instead; ``executor`` is another
    one to work with, which is not closed. A file's result is kept if neither its size
    and times nor the rules have changed, unless ``everything`` is to be examined; with ``digest``, every file is read,
    and kept if its bytes are the same. ``include``, ``exclude``: see ``Filter``. ``format``, ``payloads``: see
    ``Options``.

    Whatever is wrong with a file, a folder or a worker becomes a result. Raises ArgumentError for arguments that make
    no sense, and OSError if the database cannot be used; what was recorded until then is kept.
    """
    if is_url(database):
        raise OSError(errno.EINVAL, "A database is a file of this machine", shown_url(str(database)))
    if not places:
        raise ArgumentError("there must be one at least", "places")
    if format is not None and format not in FORMATS:
        raise ArgumentError(f"found {format!r}, expected one of {', '.join(FORMATS)}", "format")
    if workers is not None and workers < 1:
        raise ArgumentError(f"must be at least 1, not {workers}", "workers")
    texts = [local_path(path_text(place)) for place in places]
    _check_distinct(texts)
    options = Options(payloads=payloads, digest=digest, format=format)
    scope = {
        "places": sorted({shown_url(text) if is_url(text) else os.path.abspath(text) for text in texts}),
        "include": sorted(include),
        "exclude": sorted(exclude),
        "format": format or "",
    }
    own = executor is None
    if scheduler is not None:
        if workers is not None or executor is not None:
            raise ArgumentError("goes neither with workers nor with executor", "scheduler")
        from .cluster import Cluster  # late: most audits have no cluster

        executor = Cluster(scheduler, texts)
    elif executor is None:
        executor = Processes() if workers is None else Processes(workers)
    wanted = Filter(include, exclude)
    try:
        with Store(database) as store:
            store.begin(scope, {"payloads": payloads, "digest": digest, "all": everything})
            auditing = _Auditing(store, options, Dispatcher(executor, options), everything, watcher or _Silent())
            try:
                auditing.go(texts, wanted)
            except BaseException:
                store.end("interrupted")
                raise
            store.end("finished")
            return auditing.summary()
    finally:
        if own:
            executor.close()


def _check_distinct(places: Sequence[str]) -> None:
    """Raise ArgumentError for addresses that are one as they are shown: their results could not be told apart."""
    shown: dict[str, str] = {}
    for place in filter(is_url, places):
        if shown.setdefault(shown_url(place), place) != place:
            text = f"two addresses are shown as {printable(shown_url(place))}, and need audits of their own"
            raise ArgumentError(text, "places")


@dataclass(slots=True)
class _Auditing:
    store: Store
    options: Options
    dispatcher: Dispatcher
    everything: bool
    watcher: Watcher
    underway: set[str] = field(default_factory=set)  # paths
    counts: dict[str, int] = field(default_factory=lambda: {"examined": 0, "kept": 0, "gone": 0})

    def go(self, places: Sequence[str], wanted: Filter) -> None:
        self.watcher.begun(self.store.run)
        for number, place in enumerate(walk(places, wanted, avoid=self.store.files())):
            self._take(place)
            if self.dispatcher.full:
                while self.dispatcher.full:
                    self._collect(_PATIENCE)
            elif number % _LOOK == 0:
                self._collect(0)
        self.dispatcher.flush()
        while self.dispatcher.busy:
            self._collect(_PATIENCE)

    def summary(self) -> Run:
        return Run(database=self.store.path, number=self.store.run, **self.counts)

    def _take(self, place: Place) -> None:
        known = self.store.known(place.path)
        if place.path in self.underway or (known is not None and known.seen):
            return  # met twice
        if place.trouble:
            self._record(
                [
                    Examined(
                        path=place.path,
                        size=0,
                        stamp="",
                        named=place.named,
                        verdict="unreadable",
                        message=place.trouble,
                        counts={},
                    )
                ]
            )
        elif known is not None and self._holds(known, place) and not self.options.digest:
            self.store.keep(known)
            self.counts["kept"] += 1
            self.watcher.kept(place, known.verdict)
        else:
            same = known is not None and self.options.digest and self._holds(replace(known, stamp=place.stamp), place)
            digest = known.digest if same and known is not None else ""
            self.underway.add(place.path)
            self.dispatcher.add(
                Job(
                    path=place.path,
                    size=place.size,
                    stamp=place.stamp,
                    named=place.named,
                    known=digest,
                    address=place.address,
                )
            )

    def _holds(self, known: Known, place: Place) -> bool:
        """Say whether the result of an unchanged file still is what an examination would give."""
        return (
            not self.everything
            and place.stamp != ""  # nothing tells whether it has changed
            and (known.size, known.stamp) == (place.size, place.stamp)
            and known.examiner == self.store.examiner
            and known.named == place.named
            and known.wanted == (self.options.format or "")
            and (known.verified or not self.options.payloads)
            and known.verdict not in _AGAIN
            and not is_temporary(name_of(place.address) or os.path.basename(place.path))  # its writer may have died
        )

    def _collect(self, timeout: float) -> None:
        found = self.dispatcher.collect(timeout)
        if found:
            self._record(found)
        self.store.settle()

    def _record(self, found: Sequence[Examined]) -> None:
        self.store.add(found, self.options)
        for examined in found:
            self.underway.discard(examined.path)
            self.counts["gone" if examined.gone else "kept" if examined.same else "examined"] += 1
            self.watcher.examined(examined)
