"""Publishing a file: the one place where all formats become files.

The bytes go to a temporary beside the destination, are flushed to disk, and the temporary is renamed over the
destination: a reader sees the old file or the new one, never something between. While it lives, a temporary is held
under an advisory lock; one that nobody holds was left by a killed writer, and the next writer of the same destination
removes it. TMPDIR plays no part: a rename cannot cross file systems.

``overwrite`` is for the few bytes of a large file that can be exchanged where they are.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from . import _system as system
from .progress import advance
from .source import path_text
from .urls import is_url, shown_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Draft",
    "HalfWrittenError",
    "check_local",
    "is_temporary",
    "overwrite",
    "publishing",
    "writable",
    "writer_lives",
]

_PREFIX: Final = ".ckptspec-"
_SUFFIX: Final = ".tmp"
_TEMPORARY: Final = re.compile(re.escape(_PREFIX) + "[0-9a-f]{16}-[0-9a-f]{16}" + re.escape(_SUFFIX))
_ATTEMPTS: Final = 100  # to make a temporary of a name of 64 random bits
_PAGE: Final = 4096  # bytes that the system writes, or does not, as one
# File systems that have no locks, or none of files that are on another machine.
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_SYNC: Final = (errno.EINVAL, errno.ENOTSUP)  # file systems that cannot sync a directory


class Draft:
    """The temporary that becomes the file: written from front to back, patched in place where needed."""

    def __init__(self, fd: int, path: str, destination: str) -> None:
        self._fd = fd
        self.path = path
        self._destination = destination
        self.position = 0

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        size = memoryview(data).nbytes
        with _telling(self._destination):
            _write_at(self._fd, data, self.position)
        self.position += size
        advance(size)

    def patch(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that were written before."""
        with _telling(self._destination):
            _write_at(self._fd, data, offset)

    def skip(self, size: int) -> None:
        """Append ``size`` zero bytes."""
        self.position += size
        with _telling(self._destination):
            system.ftruncate(self._fd, self.position)


@contextlib.contextmanager
def publishing(path: str | os.PathLike[str], *, lasting: bool = True) -> Iterator[Draft]:
    """Give a draft; when the block ends without an error, publish it at ``path``.

    Missing parent directories are made. A symbolic link's target is replaced and the link stays. An existing file's
    permission bits are kept, otherwise the umask decides. On any error, an interrupt included, the temporary is
    removed and what stood at ``path`` is untouched. Raises OSError for what the system refuses, a destination that is
    no regular file included; its ``filename`` is ``path``. If only the directory cannot be flushed at the very end, the
    new file stands, though a loss of power could bring back the old one. With ``lasting=False``, for many small files
    that can be made again, nothing is flushed, and nobody looks for the temporaries of killed writers.
    """
    name = path_text(path)
    with _telling(name):
        target, mode = _destination(name)
        directories = _made(os.path.dirname(target))
        if lasting:
            _sweep(target)
        fd, temporary = _create(target)
    published = False
    try:
        if mode is not None:
            with _telling(name):
                system.fchmod(fd, mode)
        yield Draft(fd, temporary, name)
        with _telling(name):
            if lasting:
                system.fsync(fd)
            system.replace(temporary, target)
        published = True
    finally:
        # Neither may hide what went wrong before; a temporary that stays is removed by the next writer.
        if not published:
            with contextlib.suppress(OSError):
                system.unlink(temporary)
        with contextlib.suppress(OSError):
            system.close(fd)  # and with it the lock
    with _telling(name):
        for directory in directories if lasting else ():
            _sync_directory(directory)


def writable(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that publishing at ``path`` would raise already, and leave nothing behind.

    For long work whose output should not turn out to have no place at its end. Directories are not made: a missing one
    is fine if the first that is there can be written to.
    """
    name = path_text(path)
    with _telling(name):
        target, _ = _destination(name)
        directory = os.path.dirname(target)
        while not os.path.lexists(directory):
            directory = os.path.dirname(directory)
        fd, temporary = _create(os.path.join(directory, os.path.basename(target)))
        try:
            system.unlink(temporary)
        finally:
            with contextlib.suppress(OSError):
                system.close(fd)


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Let an error of the system tell the destination, which its caller knows, and not the temporary."""
    try:
        yield
    except OSError as error:
        error.filename = shown_url(name)
        del error.filename2
        raise


def _write_at(fd: int, data: Buffer, offset: int) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        done = system.pwrite(fd, rest, offset)
        if done <= 0:
            raise OSError(errno.EIO, "The system writes no more bytes")
        rest = rest[done:]
        offset += done


def check_local(path: str | os.PathLike[str]) -> None:
    """Raise OSError for an address: nothing is written elsewhere."""
    if is_url(path):
        text = "Only files of this machine can be written; write one and copy it"
        raise OSError(errno.EINVAL, text, shown_url(os.fspath(path)))


def _destination(name: str) -> tuple[str, int | None]:
    """Return where a file will really be, and the permission bits of the one that is there."""
    if not name:
        raise FileNotFoundError(errno.ENOENT, "The name of the file to write is empty", name)
    check_local(name)
    if os.path.basename(name) in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    target = os.path.realpath(name)
    try:
        status = system.lstat(target)
    except FileNotFoundError:
        return target, None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if stat.S_ISLNK(status.st_mode):  # realpath gave up: a loop
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", name)
    return target, stat.S_IMODE(status.st_mode)


def _made(directory: str) -> list[str]:
    """Make a directory if it is missing; return those whose entries change, which are to be synced."""
    changing = [directory]
    while not os.path.lexists(changing[-1]):
        changing.append(os.path.dirname(changing[-1]))
    system.makedirs(directory)
    return changing


def _stem(target: str) -> str:
    # The destination's own name may be as long as a name can be, so the temporary carries a digest of it.
    digest = hashlib.sha256(os.fsencode(os.path.basename(target))).hexdigest()[:16]
    return f"{_PREFIX}{digest}-"


def _create(target: str) -> tuple[int, str]:
    """Make a locked temporary beside ``target``."""
    for _ in range(_ATTEMPTS):
        path = os.path.join(os.path.dirname(target), f"{_stem(target)}{secrets.token_hex(8)}{_SUFFIX}")
        try:
            fd = system.open_fd(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        try:
            # Between creation and lock, another writer may have taken the file for a dead one's and removed it.
            if not _locked(fd) or system.fstat(fd).st_nlink:
                return fd, path
        except BaseException:
            with contextlib.suppress(OSError):
                system.close(fd)
            with contextlib.suppress(OSError):
                system.unlink(path)
            raise
        system.close(fd)
    raise FileExistsError(errno.EEXIST, "No temporary can be made beside it")


def _locked(fd: int) -> bool:
    """Take the lock of a file; False where there are no locks: then nobody else removes it either."""
    if not system.LOCKS:
        return False
    try:
        system.flock(fd, wait=True)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def _sweep(target: str) -> None:
    """Remove the temporaries of this destination that no living writer holds."""
    if not system.LOCKS:
        return
    directory = os.path.dirname(target)
    pattern = re.compile(re.escape(_stem(target)) + "[0-9a-f]{16}" + re.escape(_SUFFIX))
    try:
        names = system.listdir(directory)
    except OSError:  # a directory that may be written but not listed
        return
    for entry in names:
        if pattern.fullmatch(entry):
            with contextlib.suppress(OSError):
                _remove_if_unlocked(os.path.join(directory, entry))


def _remove_if_unlocked(path: str) -> None:
    fd = system.open_fd(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        system.flock(fd, wait=False)
        system.unlink(path)
    finally:
        system.close(fd)


def is_temporary(name: str) -> bool:
    """Say whether a file of this name, without its folder, is a draft of this module's."""
    return _TEMPORARY.fullmatch(name) is not None


def writer_lives(path: str) -> bool:
    """Say whether somebody still writes to a draft; OSError if it cannot be opened."""
    fd = system.open_fd(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return not _own(fd)  # where there are no locks, nobody can tell
    finally:
        system.close(fd)


def _sync_directory(directory: str) -> None:
    try:
        fd = system.open_fd(directory, os.O_RDONLY)
    except PermissionError:  # a directory that may be written but not read: nobody can sync it
        return
    try:
        system.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        with contextlib.suppress(OSError):
            system.close(fd)


# ------------------------------------------------------------------------------------------------------------- in place


class HalfWrittenError(OSError):
    """A write in place came to an end in the middle, and what stood there could not be written again."""


def overwrite(path: str | os.PathLike[str], size: int, offset: int, old: bytes, new: bytes) -> bool:
    """Exchange bytes of a file in place by as many others; return whether that was done.

    It is not, and nothing changes, if the bytes that differ do not lie within one page, which is what the system writes
    as one; if the file is no longer ``size`` bytes long with ``old`` at ``offset``; and if another program holds its
    lock, or there are no locks. A writer that is killed leaves the old bytes or the new ones. If the system refuses, or
    on an interrupt, the old ones are put back and the error is raised; HalfWrittenError if not even that can be done.
    """
    first, last = _differing(old, new)
    start, end = offset + first, offset + last
    if first == last:
        return True
    if start // _PAGE != (end - 1) // _PAGE or not system.LOCKS:
        return False
    name = path_text(path)
    with _telling(name):
        fd = system.open_fd(name, os.O_RDWR)
        try:
            if not _own(fd) or system.fstat(fd).st_size != size or _read_at(fd, len(old), offset) != old:
                return False  # somebody else is here, or has been
            try:
                _write_at(fd, new[first:last], start)
                system.fsync(fd)
            except BaseException as error:
                _put_back(fd, old[first:last], new[first:last], start, error)
                raise
        finally:
            with contextlib.suppress(OSError):
                system.close(fd)
    return True


def _differing(old: bytes, new: bytes) -> tuple[int, int]:
    """Return start and end of the stretch in which two texts of one length differ."""
    import numpy as np

    differs = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
    return (int(differs[0]), int(differs[-1]) + 1) if len(differs) else (0, 0)


def _own(fd: int) -> bool:
    try:
        system.flock(fd, wait=False)
    except OSError:
        return False
    return True


def _read_at(fd: int, size: int, offset: int) -> bytes:
    read = b""
    while len(read) < size:
        part = system.pread(fd, size - len(read), offset + len(read))
        if not part:
            break
        read += part
    return read


def _put_back(fd: int, old: bytes, new: bytes, start: int, error: BaseException) -> None:
    """Write what stood there before; HalfWrittenError if what stands there then is neither old nor new."""
    try:
        _write_at(fd, old, start)
        system.fsync(fd)
    except OSError:
        stands = b""
        with contextlib.suppress(OSError):
            stands = _read_at(fd, len(old), start)
        if stands not in (old, new):
            told = f"bytes {start} to {start + len(old) - 1} are written in part, and cannot be put back"
            raise HalfWrittenError(getattr(error, "errno", errno.EIO), told) from error
