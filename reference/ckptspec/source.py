"""Where bytes come from: one abstraction for memory and for files.

Headers, tables and verification use ``read``: positioned reads, so that a file that shrinks meanwhile gives an error
and not a signal. Only the arrays that are handed out are views of a memory map (``view``), which keeps the file's
content alive after the file was closed or replaced. What is written on from such views is read, too, as long as the
source is open (``_mapped``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from . import _system as system
from ._mapped import Map, put
from .errors import ArgumentError
from .progress import advance
from .text import show
from .urls import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BufferSource",
    "FileSource",
    "PatchedSource",
    "Source",
    "WithoutPayloads",
    "open_file",
    "open_source",
    "path_text",
    "read_text_file",
    "text_of",
]

BLOCK: Final = 1 << 20  # bytes that are read at a time when a payload is streamed
_TRIES: Final = 10  # to read what does not change meanwhile


class Source(ABC):
    """Bytes at positions. ``name`` is the file's name for messages, or None; ``size`` is in bytes."""

    name: str | None = None
    size: int
    in_memory: bool = False
    is_open: bool = True
    streams: int = 1  # reads that are worth having under way at a time
    known_checksums: Mapping[tuple[int, int], int] = MappingProxyType({})  # by offset and size: found out elsewhere

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return exactly ``size`` bytes from ``offset`` on; OSError if the file no longer has them."""

    def settled(self, offset: int, size: int) -> bytes:
        """Return what ``read`` does, but not half of what somebody is just writing over it in place."""
        return bytes(self.read(offset, size))

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
        self._map: memoryview | None = None
        try:
            # Without O_NONBLOCK, opening a FIFO would wait for a writer.
            self._fd = system.open_fd(self.name, os.O_RDONLY | os.O_NONBLOCK)
            status = system.fstat(self._fd)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "Not a regular file")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                error.filename = self.name
            raise
        self.size = status.st_size

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether more can be read."""
        return self._fd >= 0

    def read(self, offset: int, size: int) -> bytes:
        try:
            data = system.pread(self._fd, size, offset)
        except OSError as error:
            error.filename = self.name
            raise
        if len(data) < size:  # short reads are allowed, and one call gives 2 GiB at most
            rest = bytearray(size - len(data))
            self.readinto(offset + len(data), memoryview(rest))
            data += rest
        return data

    def readinto(self, offset: int, buffer: memoryview) -> None:
        while buffer:
            try:
                got = system.preadv(self._fd, buffer, offset)
            except OSError as error:
                error.filename = self.name
                raise
            if not got:
                raise shrunk(self.name)
            buffer = buffer[got:]
            offset += got

    def settled(self, offset: int, size: int) -> bytes:
        data = self.read(offset, size)
        for _ in range(_TRIES):
            again = self.read(offset, size)
            if again == data:
                break
            data = again
        return data

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
            self._map = self._mapped(private=False) if self.size else memoryview(b"")
        return self._map[offset : offset + size]

    def private(self) -> memoryview:
        return self._mapped(private=True) if self.size else memoryview(bytearray())

    def _mapped(self, *, private: bool) -> memoryview:
        try:
            made = system.mapped(Map, self._fd, self.size, private=private)
        except ValueError:  # mmap's own check that the file is that long
            raise shrunk(self.name) from None
        except OSError as error:
            error.filename = self.name
            raise
        assert isinstance(made, Map)
        if not private:  # what is private may have changed since
            made.source = weakref.ref(self)
        return memoryview(made)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):  # nothing was written
                system.close(fd)

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
        self.streams = source.streams
        self._source = source
        self._patches = dict(patches)
        self._content: memoryview | None = None

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether more can be read."""
        return self._source.is_open

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
            if not isinstance(content.obj, Map):
                for at, value in self._patches.items():
                    content[at] = value
            else:
                try:
                    put(content, self._patches)
                except OSError:
                    raise shrunk(self.name) from None
                reader = PatchedSource(self._source, self._patches)  # not itself, which would be a circle
                content.obj.source = lambda: reader
            self._content = content.toreadonly()
        return self._content[offset : offset + size]


class WithoutPayloads(Source):
    """Another source that is read as it is, but whose views are zeros that take no memory: who only asks what could be
    read, and does not look at it, need not map it."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.size = source.size
        self.in_memory = source.in_memory
        self.streams = source.streams
        self._source = source
        self._zeros: memoryview | None = None

    def read(self, offset: int, size: int) -> bytes | memoryview:
        return self._source.read(offset, size)

    def view(self, offset: int, size: int) -> memoryview:
        if self._zeros is None:
            self._zeros = system.zeros(self.size)
        return self._zeros[offset : offset + size]


def shrunk(name: str | None) -> OSError:
    """Return the error about a file that lacks bytes which it had when it was opened."""
    return OSError(errno.EIO, "The file became shorter while it was read", name)


def changed(name: str | None) -> OSError:
    """Return the error about a file of which two reads contradict each other."""
    return OSError(errno.EIO, "The file changed while it was read", name)


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


def open_source(where: str | os.PathLike[str] | Buffer, *, mmap: bool = True) -> Source:
    """Open what ``open_file`` opens, or wrap bytes."""
    return open_file(where, mmap=mmap) if isinstance(where, (str, os.PathLike)) else BufferSource(where)


def open_file(path: str | os.PathLike[str], *, mmap: bool = True) -> Source:
    """Open a path, or an address that fsspec knows; OSError if there is no regular file that can be read.

    Without ``mmap`` a file is read whole now, and what is handed out are views of that memory.
    """
    source: Source
    if is_url(path):
        from .remote import open_url  # late: most files are here

        source = open_url(os.fspath(path))
    else:
        source = FileSource(path)
    if mmap:
        return source
    with source:
        content = memoryview(bytearray(source.size))
        source.readinto(0, content)
    return BufferSource(content, source.name)


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
