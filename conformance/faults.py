"""Failing storage: a system that fails at a call of one's choice, what may be left then, and what it is tried on.

``failing(at, fault)`` lets one call of ``ckptspec._system`` fail; ``OPERATIONS`` are the ways in which this package
writes files; ``outcome`` tells what has to be there after a fault at a stage. The tests hold the one against the other
for every call of every operation, and ``docs/storage.md`` prints the table.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .. import _system as system

__all__ = [
    "AFTERWARDS",
    "DONE",
    "FAULTS",
    "IN_PLACE",
    "NEW",
    "OLD",
    "OPERATIONS",
    "STAGES",
    "Calls",
    "Fault",
    "Stage",
    "failing",
    "meanwhile",
    "outcome",
]

OLD: Final = "old"
"""The error is told; what stood at the destination stands there still, or nothing if nothing was there."""
NEW: Final = "new"
"""The error is told; the new file stands, whole."""
DONE: Final = "done"
"""The operation goes on and ends well: the new file stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong in a call: an error that ``error`` makes, or only ``writes`` bytes go through.

    A ``late`` one comes when the call has done its work; a ``lasting`` one comes at all later calls of the stage, too;
    with a ``cleaning`` one, temporaries cannot be removed either.
    """

    name: str
    error: Callable[[], object] | None = None
    writes: int | None = None
    late: bool = False
    lasting: bool = False
    cleaning: bool = False
    number: int = 0

    @property
    def is_error(self) -> bool:
        """Whether it is an error of the system, which names a file."""
        return bool(self.number)


def _refusal(number: int, **more: Any) -> Fault:
    return Fault(
        name=errno.errorcode[number], error=lambda: OSError(number, os.strerror(number)), number=number, **more
    )


_EIO: Final = _refusal(errno.EIO)
_STUCK: Final = Fault(name="EIO and no cleanup", error=_EIO.error, number=errno.EIO, cleaning=True)
_NOTHING: Final = Fault(name="no progress", writes=0, lasting=True, number=errno.EIO)
_SHORT: Final = Fault(name="one byte only", writes=1)
_HEARD: Final = Fault(name="a signal with a handler", error=lambda: signal.raise_signal(signal.SIGUSR1))
_GENERAL: Final = (
    _EIO,
    _refusal(errno.EINTR),
    Fault(name="no memory", error=MemoryError),
    Fault(name="Ctrl-C before", error=KeyboardInterrupt),
    Fault(name="Ctrl-C after", error=KeyboardInterrupt, late=True),
    _HEARD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of call that an operation makes: what it is for, and which faults it can have besides the general ones.

    ``forgiven`` are those that do no harm there.
    """

    name: str
    call: str
    faults: Sequence[Fault] = ()
    forgiven: Sequence[int] = ()
    forgives_all: bool = False


_FULL: Final = (_refusal(errno.ENOSPC), _refusal(errno.EDQUOT))
_DENIED: Final = (_refusal(errno.EACCES), _refusal(errno.EROFS))
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

STAGES: Final = {
    stage.name: stage
    for stage in (
        Stage(name="look at the destination", call="lstat", faults=_DENIED),
        Stage(name="make its folder", call="makedirs", faults=(*_FULL, *_DENIED)),
        Stage(name="look for leftovers", call="listdir", faults=_DENIED, forgives_all=True),
        Stage(name="make the temporary", call="open_fd", faults=(*_FULL, *_DENIED, _refusal(errno.EMFILE))),
        Stage(name="lock it", call="flock", faults=tuple(_refusal(number) for number in _NO_LOCKS), forgiven=_NO_LOCKS),
        Stage(name="look at it", call="fstat"),
        Stage(name="keep the permission bits", call="fchmod", faults=(_refusal(errno.EPERM),)),
        Stage(name="write", call="pwrite", faults=(*_FULL, _refusal(errno.EFBIG), _STUCK, _NOTHING, _SHORT)),
        Stage(name="leave a gap", call="ftruncate", faults=(*_FULL, _refusal(errno.EFBIG))),
        Stage(name="flush it", call="fsync", faults=(*_FULL, _STUCK)),
        Stage(name="rename it", call="replace", faults=(_refusal(errno.EXDEV), *_DENIED, *_FULL, _STUCK)),
        Stage(name="remove it", call="unlink", faults=_DENIED),
        Stage(name="close", call="close", forgives_all=True),
        Stage(name="open the folder", call="open_fd", faults=_DENIED, forgiven=(errno.EACCES,)),
        Stage(
            name="flush the folder",
            call="fsync",
            faults=(_refusal(errno.EINVAL), _refusal(errno.EOPNOTSUPP)),
            forgiven=(errno.EINVAL, errno.EOPNOTSUPP),
        ),
        Stage(name="open the source", call="open_fd", faults=(_refusal(errno.EACCES), _refusal(errno.EMFILE))),
        Stage(name="read", call="pread", faults=(_refusal(errno.ESTALE),)),
        Stage(name="map", call="mapped", faults=(_refusal(errno.ENODEV), _refusal(errno.ENOMEM))),
    )
}
"""All stages by name."""
FAULTS: Final = {name: (*_GENERAL, *stage.faults) for name, stage in STAGES.items()}
"""The faults of each stage."""


_TEMPORARY: Final = (
    "look at the destination",
    "make the temporary",
    "lock it",
    "look at it",
    "close",
)
_PUBLISHED: Final = (
    *_TEMPORARY,
    "make its folder",
    "look for leftovers",
    "keep the permission bits",
    "write",
    "flush it",
    "rename it",
    "open the folder",
    "flush the folder",
)
_CHECKED: Final = (*_PUBLISHED, "remove it")  # first of all, a temporary shows that the output has a place
_READ: Final = ("open the source", "read")
IN_PLACE: Final = "metadata, in place"
OPERATIONS: Final[dict[str, frozenset[str]]] = {
    "save": frozenset((*_PUBLISHED, "leave a gap")),
    "append": frozenset((*_PUBLISHED, "leave a gap", *_READ)),
    "training": frozenset(_PUBLISHED),
    "convert": frozenset((*_CHECKED, *_READ, "map", "leave a gap")),
    "salvage": frozenset((*_CHECKED, *_READ, "map", "leave a gap")),
    "canonicalize": frozenset((*_CHECKED, *_READ, "map", "leave a gap")),
    "quantize": frozenset((*_CHECKED, *_READ, "map", "leave a gap")),
    "metadata, anew": frozenset((*_PUBLISHED, *_READ)),
    IN_PLACE: frozenset(("open the source", "read", "lock it", "look at it", "write", "flush it", "close")),
    "digest, inspect": frozenset((*_CHECKED, *_READ)),
    "encode, export": frozenset((*_PUBLISHED, *_READ)),
}
"""The operations that write files, and the stages that each goes through."""
_SHOWN: Final = frozenset((*_READ, "look at it"))  # what was written is read again, to be shown
AFTERWARDS: Final = {
    operation: frozenset(("close",)) | (_SHOWN if operation.startswith("metadata") else frozenset())
    for operation in OPERATIONS
}
"""The stages that each goes through before the new file stands, and once it does."""


def outcome(operation: str, stage: str, fault: Fault, published: bool = False) -> str:
    """Return what a fault at a stage of an operation has to come to: OLD, NEW or DONE.

    ``published`` says whether the file was renamed, or written in place, already.
    """
    place = STAGES[stage]
    if fault is _SHORT or fault is _HEARD:
        return DONE
    if fault.is_error and (place.forgives_all or fault.number in place.forgiven):
        return DONE
    if operation == IN_PLACE and stage == "lock it" and fault.is_error:
        return DONE  # then the file is written anew
    after = stage in ("open the folder", "flush the folder") or (stage == "rename it" and fault.late)
    return NEW if published or after else OLD


# ------------------------------------------------------------------------------------------------------------ injection


@dataclass(slots=True)
class Calls:
    """The calls that were made, by stage; ``failed`` is what was raised on purpose."""

    stages: list[str] = field(default_factory=list)
    failed: BaseException | None = None


_SOURCE_CALLS: Final = {"pread": "read", "preadv": "read", "mapped": "map"}
_NAMES: Final = {
    **{stage.call: stage.name for stage in STAGES.values() if stage.call not in ("open_fd", "fsync")},
    **_SOURCE_CALLS,
}


def _stage(call: str, arguments: Sequence[Any]) -> str:
    if call == "open_fd":
        path, flags = arguments[:2]
        if flags & os.O_CREAT:
            return "make the temporary"
        return "open the folder" if os.path.isdir(path) else "open the source"
    if call == "fsync":
        return "flush the folder" if stat.S_ISDIR(os.fstat(arguments[0]).st_mode) else "flush it"
    return _NAMES[call]


@contextlib.contextmanager
def failing(at: int | None = None, fault: Fault | None = None, *, flush: bool = False) -> Iterator[Calls]:
    """Let the call of number ``at`` have a fault; give the record of all calls.

    Without them, calls are only recorded. Nothing is flushed to the disk in truth, unless ``flush`` is set.
    """
    made = Calls()
    lock = threading.Lock()
    chosen: list[str] = []
    real = {name: call for name, call in vars(system).items() if inspect.isfunction(call)}

    def instead(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            stage = _stage(name, arguments)
            with lock:
                number = len(made.stages)
                made.stages.append(stage)
                if number == at:
                    chosen.append(stage)
            hit = number == at or (fault is not None and fault.lasting and stage in chosen)
            if fault is not None and fault.cleaning and name == "unlink" and chosen:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if not hit or fault is None:
                return None if name == "fsync" and not flush else real[name](*arguments, **options)
            late = fault.late or name == "close"  # which lets go of the file, whatever it says
            return _failed(made, fault, late, lambda *given: real[name](*given, **options), arguments)

        return call

    with _replaced(real, instead):
        yield made


@contextlib.contextmanager
def _replaced(real: Mapping[str, Callable[..., Any]], instead: Callable[[str], Callable[..., Any]]) -> Iterator[None]:
    """Let other functions take the place of calls to the system."""
    try:
        for name in real:
            setattr(system, name, instead(name))
        yield
    finally:
        for name, call in real.items():
            setattr(system, name, call)


@contextlib.contextmanager
def meanwhile(at: int | None, happens: Callable[[], object], *, late: bool = False) -> Iterator[list[str]]:
    """Let something happen before the call of number ``at`` of those that read or map, or ``late``, just after it.

    Give the names of all calls.
    """
    made: list[str] = []
    lock = threading.Lock()
    real = {name: getattr(system, name) for name in _SOURCE_CALLS}

    def instead(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with lock:
                made.append(name)
                hit = len(made) - 1 == at
            if hit and not late:
                happens()
            result = real[name](*arguments, **options)
            if hit and late:
                happens()
            return result

        return call

    with _replaced(real, instead):
        yield made


def _failed(made: Calls, fault: Fault, late: bool, real: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    if fault.writes is not None:
        fd, data, offset = arguments
        return real(fd, memoryview(data).cast("B")[: fault.writes], offset) if fault.writes else 0
    assert fault.error is not None
    if fault is _HEARD:
        fault.error()
        return real(*arguments)
    error: Any = fault.error()
    made.failed = error
    if late:
        with contextlib.suppress(OSError):  # what it would have told is not heard any more
            real(*arguments)
    raise error
