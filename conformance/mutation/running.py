"""Runs mutants: each in a process of its own, which may hang, crash or take all the memory that it wants.

A child is forked from a process that has everything in memory, switches one function, and runs the cases that reach the
mutant until all its rules have a case that fails. It reports through a pipe and ends without a word to anybody else.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import resource
import selectors
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from .. import expectations
from ..expectations import Expectation, Unexpected
from .mutants import Mutant

__all__ = ["Job", "Outcome", "forked", "run"]

Work = TypeVar("Work")

_LEAST_TIME: Final = 1.0  # seconds of the processor that a case has at least
_MORE_TIME: Final = 30  # times as much as without a mutant
_MEMORY: Final = 1 << 30  # bytes
_PROCESSOR: Final = 300  # seconds of the processor that a child has
_PATIENCE: Final = 900.0  # seconds after which a child that does not even work is taken for dead

_STATM: Final = Path("/proc/self/statm")  # not on every system

TIMEOUT: Final = "does not end"
DIED: Final = "the process dies"


class _OutOfTime(BaseException):
    """A case takes too long: the mutant may run for ever."""


@dataclass(frozen=True, slots=True)
class Job:
    """A mutant, and for each of its rules the numbers of cases to be tried, in their order."""

    mutant: Mutant
    cases: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class Outcome:
    """``killed`` maps each rule for which the mutant was killed to the case that fails, ``how`` says how that one does.

    ``tried`` is the number of cases that were run, ``seconds`` what they took of the processor.
    """

    killed: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    seconds: float = 0.0


def run(
    jobs: Sequence[Job],
    cases: Sequence[Expectation],
    seconds: Sequence[float],
    *,
    workers: int = 1,
    progress: Callable[[], object] = lambda: None,
) -> list[Outcome]:
    """Return the outcomes of all jobs, in their order. ``seconds`` are what the cases take without a mutant."""

    def work(job: Job) -> dict[str, Any]:
        return _tried(job, cases, seconds)

    outcomes: dict[int, Outcome] = {}
    for number, made in forked(work, jobs, workers=workers):
        if made is None:
            rules = jobs[number].cases
            outcomes[number] = Outcome(killed=dict.fromkeys(rules, DIED), how=dict.fromkeys(rules, DIED))
        else:
            outcomes[number] = Outcome(**made)
        progress()
    return [outcomes[number] for number in range(len(jobs))]


# --- In the child -------------------------------------------------------------------------------------------------


def _tried(job: Job, cases: Sequence[Expectation], seconds: Sequence[float]) -> dict[str, Any]:
    outcome = Outcome()
    results: dict[int, str | None] = {}
    with job.mutant.active():
        for rule, numbers in job.cases.items():
            for number in numbers:
                if number not in results:
                    results[number] = _failure(cases[number], seconds[number])
                how = results[number]
                if how is not None:
                    outcome.killed[rule], outcome.how[rule] = cases[number].case.id, how
                    break
    return {"killed": outcome.killed, "how": outcome.how, "tried": len(results), "seconds": time.process_time()}


def _failure(case: Expectation, usual: float) -> str | None:
    """Return how a case fails, or None if it does not."""
    signal.setitimer(signal.ITIMER_PROF, max(_LEAST_TIME, _MORE_TIME * usual))
    try:
        expectations.check(case)
    except Unexpected as error:
        return str(error).partition(":")[0]
    except _OutOfTime:
        return TIMEOUT
    except Exception as error:
        return f"raises {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _out_of_time(*_: object) -> None:
    raise _OutOfTime


def _limited(memory: int | None) -> None:
    signal.signal(signal.SIGPROF, _out_of_time)
    if memory is not None and _STATM.exists():
        most = int(_STATM.read_text().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR, _PROCESSOR))  # a loop within a call of C hears no signal
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # whatever sys.stderr is
    warnings.simplefilter("error")  # as in the tests


# --- In the parent ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Child:
    number: int
    pid: int
    pipe: IO[bytes]
    deadline: float
    said: bytes = b""


def forked(
    work: Callable[[Work], dict[str, Any]],
    jobs: Sequence[Work],
    *,
    workers: int = 1,
    patience: float = _PATIENCE,
    memory: int | None = _MEMORY,
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number of each job and its result, None if the child died, as they come.

    ``work`` runs in a child for each job; a child that says nothing for ``patience`` seconds is ended. ``memory``
    are the bytes of address space that it may take besides those there are; None for any number.
    """
    todo = iter(enumerate(jobs))
    children: dict[int, _Child] = {}
    gc.collect()
    gc.freeze()  # what is there is not touched by the collectors of the children, and need not be copied
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        stack.callback(gc.unfreeze)
        stack.callback(lambda: deque(map(_end, children.values()), maxlen=0))
        while True:
            for number, job in itertools.islice(todo, max(0, workers - len(children))):
                child = _fork(number, partial(work, job), patience, memory)
                children[child.pipe.fileno()] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            if not children:
                return
            for key, _ in selector.select(timeout=1.0):
                child = children[key.fd]
                part = os.read(key.fd, 1 << 16)
                child.said += part
                if not part:
                    child.deadline = 0.0
            for child in [child for child in children.values() if child.deadline < time.monotonic()]:
                selector.unregister(child.pipe)
                del children[child.pipe.fileno()]
                _end(child)
                made = json.loads(child.said) if child.said else None
                if made is not None and "trouble" in made:
                    raise RuntimeError(made["trouble"])
                yield child.number, made


def _fork(number: int, work: Callable[[], dict[str, Any]], patience: float, memory: int | None) -> _Child:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy has threads, which do nothing between calls
        pid = os.fork()
    if not pid:
        try:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(_said(work, memory)).encode())
        finally:
            os._exit(0)
    os.close(write)
    return _Child(number, pid, os.fdopen(read, "rb", buffering=0), time.monotonic() + patience)


def _said(work: Callable[[], dict[str, Any]], memory: int | None) -> dict[str, Any]:
    """Do the work within limits; what goes wrong with the work itself must not look like a mutant that was killed."""
    try:
        _limited(memory)
        return work()
    except Exception:
        return {"trouble": traceback.format_exc()}


def _end(child: _Child) -> None:
    os.kill(child.pid, signal.SIGKILL)  # it is a child that nobody has waited for: the number is still its own
    os.waitpid(child.pid, 0)
    child.pipe.close()
