"""Where bytes come from: one abstraction for memory and for files.

Headers, tables and verification use ``read``: positioned reads, so that a file that shrinks meanwhile gives an error
and not a signal. Only the arrays that are handed out are views of a memory map (``view``), which keeps the file's
content alive after the file was closed or replaced.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from .errors import ArgumentError
from .progress import advance
from .text import show

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BufferSource",
    "FileSource",
    "PatchedSource",
    "Source",
    "open_source",
    "path_text",
    "read_text_file",
    "text_of",
]

BLOCK: Final = 1 << 20  # bytes that are read at a time when a payload is streamed


class Source(ABC):
    """Bytes at positions. ``name`` is the file's name for messages, or None; ``size`` is in bytes."""

    name: str | None = None
    size: int
    in_memory: bool = False

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return exactly ``size`` bytes from ``offset`` on; OSError if the file no longer has them."""

    @abstractmethod
    def view(self, offset: int, size: int) -> memoryview:
        """Return a read-only view of ``size`` bytes from ``offset`` on, which outlives the source."""

    def private(self) -> memoryview:
        """Return a writable view of everything whose changes stay with the caller."""
        return memoryview(bytearray(self.view(0, self.size)))

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes from ``offset`` on; OSError if the file no longer has them."""
        buffer[:] = self.read(offset, buffer.nbytes)

    def blocks(self, offset: int, size: int, block: int = BLOCK) -> Iterator[memoryview]:
        """Yield ``size`` bytes from ``offset`` on, at most ``block`` at a time.

        A block is valid until the next one is asked for: they share their memory.
        """
        memory = memoryview(bytearray(min(block, size)))
        end = offset + size
        while offset < end:
            part = memory[: min(block, end - offset)]
            self.readinto(offset, part)
            yield part
            offset += part.nbytes
            advance(part.nbytes)

    def first_nonzero(self, offset: int, size: int) -> tuple[int, int] | None:
        """Return offset and value of the first byte of a stretch that is not zero, or None if all are."""
        for block in self.blocks(offset, size):
            rest = bytes(block).lstrip(b"\0")
            if rest:
                return offset + len(block) - len(rest), rest[0]
            offset += len(block)
        return None

    def close(self) -> None:  # noqa: B027  # nothing to let go of, unless a subclass says otherwise
        """Let go of the file; views that were handed out stay valid."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BufferSource(Source):
    """Bytes in memory."""

    in_memory = True

    def __init__(self, data: Buffer, name: str | None = None) -> None:
        try:
            raw: Any = data
            if not isinstance(data, (bytes, bytearray, memoryview)):
                import numpy as np  # late: plain bytes do not need it

                if isinstance(data, np.ndarray) and data.flags.c_contiguous:
                    raw = data.reshape(-1).view(np.uint8)  # bfloat16, for one, has no buffer of its own
            self._data = memoryview(raw).cast("B").toreadonly()
        except (TypeError, ValueError, BufferError):
            raise ArgumentError(f"expected a contiguous bytes-like object, found {type(data).__name__}") from None
        self.name = name
        self.size = self._data.nbytes

    def read(self, offset: int, size: int) -> memoryview:
        return self.view(offset, size)

    def blocks(self, offset: int, size: int, block: int = BLOCK) -> Iterator[memoryview]:
        for start in range(offset, offset + size, block):
            part = self.view(start, min(block, offset + size - start))
            yield part
            advance(part.nbytes)

    def view(self, offset: int, size: int) -> memoryview:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ArgumentError(f"bytes {offset} to {offset + size} are outside a buffer of {self.size}")
        return self._data[offset : offset + size]


class FileSource(Source):
    """A regular file, opened for reading."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = -1
        self.name = path_text(path)
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        self._fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._map: memoryview | None = None
        try:
            status = os.fstat(self._fd)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.name)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "Not a regular file", self.name)
        except BaseException:
            self.close()
            raise
        self.size = status.st_size

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) < size:  # short reads are allowed, and one call gives 2 GiB at most
            rest = bytearray(size - len(data))
            self.readinto(offset + len(data), memoryview(rest))
            data += rest
        return data

    def readinto(self, offset: int, buffer: memoryview) -> None:
        while buffer:
            got = os.preadv(self._fd, [buffer], offset) if hasattr(os, "preadv") else self._copy(offset, buffer)
            if not got:
                raise self._shrunk()
            buffer = buffer[got:]
            offset += got

    def _copy(self, offset: int, buffer: memoryview) -> int:
        data = os.pread(self._fd, buffer.nbytes, offset)
        buffer[: len(data)] = data
        return len(data)

    def first_nonzero(self, offset: int, size: int) -> tuple[int, int] | None:
        """As above; holes, which a file can have for terabytes, are zeros that nobody needs to read."""
        end = offset + size
        while offset < end:
            start, stop = self._stored(offset, end)
            advance(start - offset)
            found = super().first_nonzero(start, stop - start)
            if found is not None:
                return found
            offset = stop
        return None

    def _stored(self, offset: int, end: int) -> tuple[int, int]:
        """Return the first stretch of a range that is no hole; all of it where the system cannot tell."""
        try:
            start = min(end, os.lseek(self._fd, offset, os.SEEK_DATA))
            return start, min(end, os.lseek(self._fd, start, os.SEEK_HOLE)) if start < end else end
        except (AttributeError, OSError) as error:
            nothing = isinstance(error, OSError) and error.errno == errno.ENXIO and os.fstat(self._fd).st_size >= end
            return (end, end) if nothing else (offset, end)

    def view(self, offset: int, size: int) -> memoryview:
        if self._map is None:
            self._map = memoryview(self._mapped(mmap.ACCESS_READ)) if self.size else memoryview(b"")
        return self._map[offset : offset + size]

    def _mapped(self, access: int) -> mmap.mmap:
        try:
            return mmap.mmap(self._fd, self.size, access=access)
        except ValueError:  # mmap's own check that the file is that long
            raise self._shrunk() from None

    def private(self) -> memoryview:
        if not self.size:
            return memoryview(bytearray())
        if not hasattr(mmap, "MAP_PRIVATE"):
            return memoryview(self._mapped(mmap.ACCESS_COPY))
        try:  # not counted against memory: the file may be larger than that
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
            return memoryview(mmap.mmap(self._fd, self.size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE))
        except ValueError:
            raise self._shrunk() from None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _shrunk(self) -> OSError:
        return OSError(errno.EIO, "The file became shorter while it was read", self.name)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class PatchedSource(Source):
    """Another source with single bytes replaced, without a copy of the rest.

    Views of a file are of a private map, so that only the pages with replaced bytes are copied.
    """

    def __init__(self, source: Source, patches: Mapping[int, int]) -> None:
        self.name = source.name
        self.size = source.size
        self.in_memory = source.in_memory
        self._source = source
        self._patches = dict(patches)
        self._content: memoryview | None = None

    def read(self, offset: int, size: int) -> bytes | memoryview:
        data = self._source.read(offset, size)
        inside = [at for at in self._patches if offset <= at < offset + size]
        if not inside:
            return data
        changed = bytearray(data)
        for at in inside:
            changed[at - offset] = self._patches[at]
        return bytes(changed)

    def view(self, offset: int, size: int) -> memoryview:
        if self._content is None:
            content = self._source.private()
            for at, value in self._patches.items():
                content[at] = value
            self._content = content.toreadonly()
        return self._content[offset : offset + size]


def path_text(path: Any) -> str:
    """Return a path as text that the system can take; ArgumentError if it is none."""
    try:
        name = os.fsdecode(path)
        os.fsencode(name)
    except TypeError:
        raise ArgumentError(f"found {type(path).__name__}, expected a path", "path") from None
    except UnicodeEncodeError:
        raise ArgumentError(f"{show(path)} has characters that no file name can have", "path") from None
    if "\0" in name:
        raise ArgumentError("a path cannot hold a NUL", "path")
    return name


def text_of(blocks: Iterable[bytes | memoryview]) -> bytes:
    """Return what a file of text holds, given block by block; ArgumentError at the first NUL, which no text has.

    So a file that is no text, such as one with a hole of terabytes, is not read to its end.
    """
    data = bytearray()
    for block in blocks:
        at = bytes(block).find(b"\0")
        if at >= 0:
            raise ArgumentError(f"the byte at {len(data) + at} is a NUL: this is no text")
        data += block
    return bytes(data)


def read_text_file(path: str | os.PathLike[str]) -> bytes:
    """Return what a file of text holds, pipes included; errors are those of ``text_of``, and OSError."""
    with open(path_text(path), "rb") as file:
        return text_of(iter(lambda: file.read(BLOCK), b""))


def open_source(where: str | os.PathLike[str] | Buffer) -> Source:
    """Open a path, or wrap bytes; OSError if the path is no readable regular file."""
    if isinstance(where, (str, os.PathLike)):
        return FileSource(where)
    return BufferSource(where)
