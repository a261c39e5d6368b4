"""Publishing a file: the one place where all formats become files.

The bytes go to a temporary beside the destination, are flushed to disk, and the temporary is renamed over the
destination: a reader sees the old file or the new one, never something between. While it lives, a temporary is held
under an advisory lock; one that nobody holds was left by a killed writer, and the next writer of the same destination
removes it. TMPDIR plays no part: a rename cannot cross file systems.
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

from .progress import advance
from .source import path_text
from .urls import is_url, shown_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

try:
    import fcntl
except ImportError:  # a system without advisory locks; temporaries of killed writers then stay
    fcntl = None  # type: ignore[assignment]

__all__ = ["Draft", "is_temporary", "publishing", "writer_lives"]

_PREFIX: Final = ".ckptspec-"
_SUFFIX: Final = ".tmp"
_TEMPORARY: Final = re.compile(re.escape(_PREFIX) + "[0-9a-f]{16}-[0-9a-f]{16}" + re.escape(_SUFFIX))


class Draft:
    """The temporary that becomes the file: written from front to back, patched in place where needed."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path
        self.position = 0

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        size = memoryview(data).nbytes
        self._write_at(data, self.position)
        self.position += size
        advance(size)

    def patch(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that were written before."""
        self._write_at(data, offset)

    def skip(self, size: int) -> None:
        """Append ``size`` zero bytes."""
        self.position += size
        os.ftruncate(self._fd, self.position)

    def _write_at(self, data: Buffer, offset: int) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            done = os.pwrite(self._fd, rest, offset)
            rest = rest[done:]
            offset += done


@contextlib.contextmanager
def publishing(path: str | os.PathLike[str]) -> Iterator[Draft]:
    """Give a draft; when the block ends without an error, publish it at ``path``.

    Missing parent directories are made. A symbolic link's target is replaced and the link stays. An existing file's
    permission bits are kept, otherwise the umask decides. On any error, an interrupt included, the temporary is
    removed and what stood at ``path`` is untouched. Raises OSError for what the system refuses, a destination that is
    no regular file included.
    """
    name = path_text(path)
    if is_url(path):
        raise OSError(errno.EINVAL, "Only files of this machine can be written; write one and copy it", shown_url(name))
    if os.path.basename(name) in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    target = os.path.realpath(name)
    mode = _mode_of(target, name)
    directory = os.path.dirname(target)
    os.makedirs(directory, exist_ok=True)
    _sweep(target)
    fd, temporary = _create(target)
    published = False
    try:
        if mode is not None:
            os.fchmod(fd, mode)
        yield Draft(fd, temporary)
        os.fsync(fd)
        os.replace(temporary, target)
        published = True
    finally:
        try:
            if not published:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
        finally:
            os.close(fd)  # and with it the lock
    _sync_directory(directory)


def _mode_of(target: str, name: str) -> int | None:
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if stat.S_ISLNK(status.st_mode):  # realpath gave up: a loop
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", name)
    return stat.S_IMODE(status.st_mode)


def _stem(target: str) -> str:
    # The destination's own name may be as long as a name can be, so the temporary carries a digest of it.
    digest = hashlib.sha256(os.fsencode(os.path.basename(target))).hexdigest()[:16]
    return f"{_PREFIX}{digest}-"


def _create(target: str) -> tuple[int, str]:
    """Make a locked temporary beside ``target``."""
    while True:
        path = os.path.join(os.path.dirname(target), f"{_stem(target)}{secrets.token_hex(8)}{_SUFFIX}")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        try:
            if fcntl is None:
                return fd, path
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Between creation and lock, another writer may have taken the file for a dead one's and removed it.
            if os.fstat(fd).st_nlink:
                return fd, path
        except BaseException:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            raise
        os.close(fd)


def _sweep(target: str) -> None:
    """Remove the temporaries of this destination that no living writer holds."""
    if fcntl is None:
        return
    directory = os.path.dirname(target)
    pattern = re.compile(re.escape(_stem(target)) + "[0-9a-f]{16}" + re.escape(_SUFFIX))
    try:
        names = os.listdir(directory)
    except OSError:  # a directory that may be written but not listed
        return
    for entry in names:
        if pattern.fullmatch(entry):
            with contextlib.suppress(OSError):
                _remove_if_unlocked(os.path.join(directory, entry))


def _remove_if_unlocked(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(fd)


def is_temporary(name: str) -> bool:
    """Say whether a file of this name, without its folder, is a draft of this module's."""
    return _TEMPORARY.fullmatch(name) is not None


def writer_lives(path: str) -> bool:
    """Say whether somebody still writes to a draft; OSError if it cannot be opened."""
    if fcntl is None:
        return True  # nobody can tell
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _sync_directory(directory: str) -> None:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a directory that may be written but not read: nobody can sync it
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync a directory
            raise
    finally:
        os.close(fd)
