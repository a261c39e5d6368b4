"""Large payloads on their way through: read ahead and hashed, or hashed and written, both at the same time.

The system's calls and the hashing let go of the interpreter lock, so that one processor reads or writes while another
hashes. What is small is done in turn: a thread would cost more than it saves.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from .checksum import FNV_OFFSET_BASIS, Fnv1a64, prepare, processors
from .progress import advance
from .source import Source

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Tee", "checksum_of", "checksums_of", "hashing", "read_ahead"]

PIECE: Final = 8 << 20  # bytes that go through at a time: more than a thread costs, less than a cache holds
_LARGE: Final = 4 * PIECE  # bytes from which a second thread pays


def read_ahead(source: Source, offset: int, size: int, piece: int = PIECE) -> Iterator[memoryview]:
    """Yield ``size`` bytes from ``offset`` on, ``piece`` at a time, while the next ones are read already.

    What is yielded is valid until the next is asked for.
    """
    streams = source.streams
    if not size:
        return
    if source.in_memory or (streams == 1 and size < _LARGE):
        yield from source.blocks(offset, size, piece)
        return
    from concurrent.futures import ThreadPoolExecutor  # late: most payloads are small

    if streams > 1:  # which take as much memory again on their way
        piece //= 2
    pieces = -(-size // piece)
    streams = min(streams, pieces)
    buffers = [memoryview(bytearray(min(piece, size))) for _ in range(streams + 1)]
    end = offset + size

    def fetch(number: int) -> memoryview:
        start = offset + number * piece
        part = buffers[number % len(buffers)][: end - start]
        source.readinto(start, part)
        return part

    with ThreadPoolExecutor(streams, "ckptspec-read") as pool:
        following = deque(pool.submit(fetch, number) for number in range(streams))
        try:
            for number in range(streams, pieces + streams):
                part = following.popleft().result()
                if number < pieces:  # into the buffer that nobody holds
                    following.append(pool.submit(fetch, number))
                yield part
                advance(part.nbytes)
        finally:  # whoever asked may have had enough
            for future in following:
                future.cancel()


def checksum_of(source: Source, offset: int, size: int) -> int:
    """Return the FNV-1a-64 of ``size`` bytes from ``offset`` on, in constant memory."""
    if not size:
        return FNV_OFFSET_BASIS
    if size >= _LARGE and processors() <= 2 and prepare(size):
        # Compiled code keeps one processor busy, reading ahead some of the other: a second thread would be in the way.
        return _hashed_by_one(read_ahead(source, offset, size, PIECE // 2))
    hasher = Fnv1a64()
    for part in read_ahead(source, offset, size):
        hasher.update(part)
    return hasher.value


def _hashed_by_one(parts: Iterator[memoryview], stopped: threading.Event | None = None) -> int:
    """Hash on one thread, until all is done or there is no more need."""
    hasher = Fnv1a64(threads=1)
    for part in parts:
        if stopped is not None and stopped.is_set():
            break
        hasher.update(part)
    return hasher.value


def checksums_of(source: Source, ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the FNV-1a-64 of each range (offset, size), in order.

    Where two are large and of a similar size, both are hashed at the same time, on a thread each: that takes less time
    than two threads that work on one after the other, since of these one has to wait for the other now and then. What
    the source knows already is not hashed again.
    """
    if source.known_checksums:
        for place in ranges:
            known = source.known_checksums.get(place)
            yield checksum_of(source, *place) if known is None else known
        return
    largest = sorted(range(len(ranges)), key=lambda at: ranges[at][1], reverse=True)[:2]
    sizes = [ranges[at][1] for at in largest]
    if len(largest) < 2 or sizes[1] < max(_LARGE, sizes[0] // 3) or processors() < 2:
        for offset, size in ranges:
            yield checksum_of(source, offset, size)
        return
    from concurrent.futures import ThreadPoolExecutor

    stopped = threading.Event()
    with ThreadPoolExecutor(2, "ckptspec-hash") as pool:
        try:
            both = {}
            for at in largest:
                # Pieces are small, so that both together hold no more memory.
                work = functools.partial(_hashed_by_one, read_ahead(source, *ranges[at], PIECE // 4), stopped)
                # A thread takes on the context of its caller, to whom the progress belongs.
                both[at] = pool.submit(functools.partial(contextvars.copy_context().run, work))
            for at, (offset, size) in enumerate(ranges):
                yield both[at].result() if at in both else checksum_of(source, offset, size)
        finally:
            stopped.set()  # whoever asked may have had enough


class _Appendable(Protocol):
    def write(self, data: memoryview) -> None: ...


class Tee:
    """Hashes what it writes. ``size`` counts the bytes."""

    def __init__(self, sink: _Appendable) -> None:
        self._sink = sink
        self._hasher = Fnv1a64()
        self.size = 0

    @property
    def value(self) -> int:
        """The hash of all bytes so far."""
        return self._hasher.value

    def write(self, block: memoryview) -> None:
        """Write and hash a block of bytes, which the caller then leaves as it is."""
        self._sink.write(block)
        self._hasher.update(block)
        self.size += block.nbytes

    def settle(self) -> None:
        """Return when everything has been written."""


class _ThreadedTee(Tee):
    """Writes a piece in another thread while it is hashed in this one. Pieces are written in their order."""

    def __init__(self, sink: _Appendable) -> None:
        from concurrent.futures import ThreadPoolExecutor

        super().__init__(sink)
        self.pool = ThreadPoolExecutor(1, "ckptspec-write")
        self._pending: Future[None] | None = None

    def write(self, block: memoryview) -> None:
        for start in range(0, block.nbytes, PIECE):
            piece = block[start : start + PIECE]
            self.settle()  # one piece waits at most
            self._pending = self.pool.submit(self._sink.write, piece)
            self._hasher.update(piece)
        self.size += block.nbytes

    def settle(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()


@contextmanager
def hashing(sink: _Appendable, size: int) -> Iterator[Tee]:
    """Give a Tee for ``size`` bytes, all of which are written when the block ends."""
    if size < _LARGE:
        yield Tee(sink)
        return
    tee = _ThreadedTee(sink)
    with tee.pool:
        yield tee
        tee.settle()
