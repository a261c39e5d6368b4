"""The calls to the system that read and publish files, each in a function of its own.

``source`` reads and ``publish`` writes through this module, and no other module opens a file to write to it. So there
is one place where tests let the system fail: see ``ckptspec.conformance.faults``.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

try:
    import fcntl
except ImportError:  # a system without advisory locks
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "LOCKS",
    "close",
    "fchmod",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "listdir",
    "lstat",
    "makedirs",
    "mapped",
    "open_fd",
    "pread",
    "preadv",
    "pwrite",
    "replace",
    "unlink",
    "zeros",
]

LOCKS: Final = fcntl is not None
"""Whether the system has advisory locks."""


def open_fd(path: str, flags: int, mode: int = 0o777) -> int:
    return os.open(path, flags | os.O_CLOEXEC, mode)


def close(fd: int) -> None:
    os.close(fd)


def fstat(fd: int) -> os.stat_result:
    return os.fstat(fd)


def lstat(path: str) -> os.stat_result:
    return os.lstat(path)


def listdir(path: str) -> list[str]:
    return os.listdir(path)


def makedirs(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def pread(fd: int, size: int, offset: int) -> bytes:
    return os.pread(fd, size, offset)


def preadv(fd: int, buffer: memoryview, offset: int) -> int:
    """Fill a buffer, perhaps in part; return the number of bytes."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], offset)
    data = os.pread(fd, buffer.nbytes, offset)
    buffer[: len(data)] = data
    return len(data)


def mapped(kind: type[mmap.mmap], fd: int, size: int, *, private: bool) -> mmap.mmap:
    """Map a file's bytes to read, or as a private copy to write to."""
    if not private:
        return kind(fd, size, access=mmap.ACCESS_READ)
    if not hasattr(mmap, "MAP_PRIVATE"):
        return kind(fd, size, access=mmap.ACCESS_COPY)
    # Without NORESERVE it would count against memory, and the file may be larger than that.
    flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000 if os.uname().sysname == "Linux" else 0)
    return kind(fd, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def zeros(size: int) -> memoryview:
    """Return zeros that take no memory where the system can do that."""
    if not size or not hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(bytes(size))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return memoryview(mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ))


def pwrite(fd: int, data: Buffer, offset: int) -> int:
    return os.pwrite(fd, data, offset)


def ftruncate(fd: int, size: int) -> None:
    os.ftruncate(fd, size)


def fchmod(fd: int, mode: int) -> None:
    os.fchmod(fd, mode)


def fsync(fd: int) -> None:
    os.fsync(fd)


def flock(fd: int, *, wait: bool) -> None:
    """Take the exclusive advisory lock of an open file; BlockingIOError if another has it and ``wait`` is not set."""
    fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace(old: str, new: str) -> None:
    os.replace(old, new)


def unlink(path: str) -> None:
    os.unlink(path)
