"""FNV-1a-64, the checksum of .oam files: one-shot, incremental, joined from blocks, and traced back to a wrong byte.

The definition is a loop: h = (h XOR b) * P modulo 2^64 for every byte b, with P = 2^40 + 0x1b3. It looks serial. It is
not, for the following reasons, on which everything in this module and in its two engines rests.

*The low byte lives on its own.* Let l be the low byte of h, and x = l XOR b. XOR with b changes nothing but the low
byte, so h XOR b = h + (x - l). Modulo 256, P is 0xb3, so the next low byte is 0xb3 * x modulo 256: it depends on
nothing but l and b.

*All else is linear.* From h' = (h + x - l) * P follows, over n bytes,

    h_n = P^n * h_0  +  sum over i < n of P^(n-i) * (x_i - l_i)      (mod 2^64),

a weighted sum, in any order, once all low bytes are known.

*Blocks join.* If a block of n bytes is hashed from a state l below 256, giving a, then from any state h with that low
byte the low bytes are the same, and so is the sum; the formula gives h_out = a + (h - l) * P^n. This is ``combine``.

*The low bytes, eight planes of bits.* 0xb3 is odd, so bit k of the next low byte is bit k of x XOR a function f_k of
the bits of x below k: l'_k = l_k XOR b_k XOR f_k. Once planes 0 .. k-1 of x are known for every byte, plane k of l is
a running XOR of known bits, which needs no multiplication, works on 64 bits at a time, and can start anywhere: another
start flips the whole plane. It can start at the end, too. 0xb3 = 179 = 3 * 17 + 128, so f_k comes from two additions:
y = x + 2x and z = y + 16y, and bit 7 takes x_0 besides. With y_k = x_k ^ u_k the carry rule of x + 2x is
u_(k+1) = (x_k ^ x_(k-1)) & ~u_k; that of y + 16y is the usual majority.

*One wrong byte can be found.* Every step is a bijection of the states, since P is odd. So besides the chain h_0, h_1,
..., h_n of true states over the bytes of the file there is exactly one chain g_0, ..., g_n over the same bytes that
ends in the expected hash, g_n = expected. Replacing byte i alone by v gives the expected hash exactly if
(h_i XOR v) * P = g_(i+1) = (g_i XOR b_i) * P, that is v = b_i XOR h_i XOR g_i, and such a byte v exists exactly if
h_i and g_i agree in all but their low bytes: h_i - l(h_i) = g_i - l(g_i). Multiplied by P^-i, both sides are running
sums of the differences of the two chains, so one cumulative sum and one comparison test every position. A position
that is innocent passes with probability 2^-56. This is ``locate_single_byte_error``.

Which code runs. Below ``_SERIAL_LIMIT`` bytes, the loop. Else numpy: about half as fast as the loop in C, on one
thread. Where numba is installed, the same method compiled, from the moment when it pays (see ``compiled``): about three
times as fast as the loop in C, on one thread. Who knows that so much is to come says so with ``prepare``. The
environment variable CKPTSPEC_CHECKSUM (serial, numpy or numba) forces one way.

Threads. One thread runs ahead and finds the low bytes of block after block, another sums up behind it. The first part
is half of the work or a little more: a second thread brings at most a factor of two, and a third hardly anything.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from . import _fnv_numpy
from ._fnv_numpy import MODULUS, Bytes, Engine, Passes, Words
from .compiled import Compiled
from .errors import ArgumentError
from .settings import setting
from .spec.schema import FNV_OFFSET_BASIS, FNV_PRIME

if TYPE_CHECKING:
    from typing_extensions import Buffer

    _BytesLike: TypeAlias = Buffer | np.ndarray[Any, Any]

__all__ = [
    "FNV_OFFSET_BASIS",
    "FNV_PRIME",
    "BlockSummary",
    "ByteError",
    "Fnv1a64",
    "combine",
    "final_low",
    "fnv1a64",
    "fnv1a64_serial",
    "locate_single_byte_error",
    "prepare",
    "processors",
    "summarize",
]


_SERIAL_LIMIT: Final = 2048  # bytes; below, the loop takes less time than some two hundred calls of numpy
_LOADING_PAYS: Final = 1 << 29  # bytes; numpy spends about a second on them, as loading compiled code may take
_COMPILING_PAYS: Final = 1 << 32  # bytes; numpy spends about seven seconds on them, as compiling takes
_LOCATE_BLOCK: Final = 1 << 18  # bytes; the workspace takes some 40 times as much
_WORD: Final = 8


def fnv1a64_serial(data: _BytesLike, state: int = FNV_OFFSET_BASIS) -> int:
    """Return the hash of ``data``, begun in ``state``, byte by byte: the definition that all else is tested against.

    Arguments and errors are those of ``fnv1a64``.
    """
    return _serial(_flat(data), _in_range(state, MODULUS, "state"))


def fnv1a64(data: _BytesLike, state: int = FNV_OFFSET_BASIS, *, threads: int | None = None) -> int:
    """Return the FNV-1a-64 hash of ``data``, 0 <= hash < 2^64.

    ``data`` is any C-contiguous buffer, of any format and number of dimensions: its bytes in memory count. ``state`` is
    the hash of what comes before, so that hashing in pieces gives the hash of the whole. ``threads`` is how many may
    work at the same time; None means two, or one where the process has one processor. Data of less than some eight
    megabytes is hashed by one. Memory beside ``data`` does not grow with it: some ten megabytes, and as many again for
    every thread.

    Raises ArgumentError for text, a buffer that is not contiguous, a state out of range, or less than one thread.
    """
    return _hash(_flat(data), _in_range(state, MODULUS, "state"), _thread_count(threads))


def prepare(size: int) -> bool:
    """Say that about ``size`` bytes are going to be hashed, so that the way that pays for them is taken at once.

    Return whether compiled code hashes them.
    """
    way = _way()
    if way in ("serial", "numpy"):
        return False
    _compiled.announce(size)
    return _compiled.engine(0, at_once=way == "numba") is not None


class Fnv1a64:
    """An FNV-1a-64 hash that grows with every ``update``, whatever the split.

    ``value`` is at once the hash of all bytes so far and the state to go on from: ``Fnv1a64(other.value)`` resumes.
    ``threads`` and errors are those of ``fnv1a64``.
    """

    __slots__ = ("_state", "_threads")

    def __init__(self, state: int = FNV_OFFSET_BASIS, *, threads: int | None = None) -> None:
        self._state = _in_range(state, MODULUS, "state")
        self._threads = _thread_count(threads)

    def __repr__(self) -> str:
        return f"Fnv1a64(0x{self._state:016x})"

    @property
    def value(self) -> int:
        """Hash of all bytes so far, 0 <= value < 2^64."""
        return self._state

    def update(self, data: _BytesLike) -> None:
        """Append the bytes of ``data``, any C-contiguous buffer."""
        self._state = _hash(_flat(data), self._state, self._threads)

    def copy(self) -> Fnv1a64:
        """Return an independent hash in the same state."""
        return Fnv1a64(self._state, threads=self._threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSummary:
    """What a block does to every state whose low byte is ``low``: enough to join blocks that were hashed apart."""

    low: int
    """Low byte of the state before the block, 0..255."""

    hash: int
    """Hash of the block, begun in the state ``low``."""

    length: int
    """Length of the block in bytes."""


def summarize(data: _BytesLike, low: int, *, threads: int | None = None) -> BlockSummary:
    """Return the summary of a block that follows on a state with low byte ``low``.

    To hash one large file with many workers: first ``final_low`` from part to part, each worker handing its result to
    the next, which is about half of the work; then ``summarize`` for all parts at the same time, each worker beginning
    as soon as it knows its low byte; then ``combine``. Raises ArgumentError as ``fnv1a64``, and for a low byte out of
    range.
    """
    flat = _flat(data)
    low = _in_range(low, 0x100, "low")
    return BlockSummary(low=low, hash=_hash(flat, low, _thread_count(threads)), length=flat.size)


def combine(state: int, summaries: Iterable[BlockSummary]) -> int:
    """Return the state after the summarized blocks, one after the other, begun in ``state``.

    Raises ArgumentError if a summary does not begin with the low byte in which the blocks before it end.
    """
    state = _in_range(state, MODULUS, "state")
    for number, summary in enumerate(summaries):
        if state & 0xFF != summary.low:
            message = f"begins with low byte {summary.low}, but the blocks before end with low byte {state & 0xFF}"
            raise ArgumentError(message, f"summaries[{number}]")
        state = (summary.hash + (state - summary.low) * pow(FNV_PRIME, summary.length, MODULUS)) % MODULUS
    return state


def final_low(data: _BytesLike, low: int) -> int:
    """Return the low byte of the state after ``data``, from the low byte before it, in about half the time of a hash.

    Raises ArgumentError as ``summarize``.
    """
    flat = _flat(data)
    low = _in_range(low, 0x100, "low")
    position = 0
    for engine, start, stop in _stretches(flat):
        low = _serial(flat[position:start], low) & 0xFF
        for first in range(start, stop, engine.BLOCK):
            block = flat[first : min(first + engine.BLOCK, stop)].view(np.uint64)
            with _borrowed(engine, block.nbytes) as hasher:
                hasher.begin(block)
                low = hasher.solve(block, low)
        position = stop
    return _serial(flat[position:], low) & 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteError:
    """A byte that, corrected alone, gives the expected hash."""

    offset: int
    """Where, in bytes from the start."""

    found: int
    """The byte's value, 0..255."""

    correct: int
    """The value that gives the expected hash, 0..255, not ``found``."""


def locate_single_byte_error(read: Callable[[int, int], _BytesLike], size: int, expected: int) -> list[ByteError]:
    """Return every single byte whose correction gives data the hash ``expected``, in order of offset.

    ``read(offset, size)`` returns that many bytes of the data, which are ``size`` bytes in all and must not change
    meanwhile; it is called for pieces of at most a megabyte, first in rising and then in falling order. Memory does
    not grow with the size but for one number in every quarter of a megabyte. The result is empty if the hash is right
    or more than one byte is wrong. It has one entry if one byte is wrong, and more only by an accident of probability
    2^-56 for each byte.

    Raises ArgumentError if ``read`` returns another number of bytes, and whatever ``read`` raises.
    """
    size = operator.index(size)
    expected = _in_range(expected, MODULUS, "expected")
    states = [FNV_OFFSET_BASIS]
    for first in range(0, size, _LOCATE_BLOCK):
        states.append(_hash(_piece(read, first, size), states[-1], _thread_count(None)))
    if states[-1] == expected:
        return []
    errors: list[ByteError] = []
    locator, wanted = None, expected
    for number in reversed(range(len(states) - 1)):
        first = number * _LOCATE_BLOCK
        piece = _piece(read, first, size)
        padded = np.zeros(-(-piece.size // _fnv_numpy.GRAIN) * _fnv_numpy.GRAIN, np.uint8)
        padded[: piece.size] = piece
        if locator is None or locator.size != padded.size:
            locator = _fnv_numpy.Locator(padded.size)
        ends = states[number], _serial(padded[piece.size :], states[number + 1])
        found, wanted = locator.search(padded, ends, _serial(padded[piece.size :], wanted))
        for index, mask in found:
            if index < piece.size:
                byte = int(piece[index])
                errors.append(ByteError(offset=first + index, found=byte, correct=byte ^ mask))
    return sorted(errors, key=operator.attrgetter("offset"))


def _piece(read: Callable[[int, int], _BytesLike], first: int, size: int) -> Bytes:
    """Read the block of ``locate_single_byte_error`` that begins at ``first``."""
    length = min(_LOCATE_BLOCK, size - first)
    piece = _flat(read(first, length))
    if piece.size != length:
        raise ArgumentError(f"returned {piece.size} bytes at offset {first}, not {length}", "read")
    return piece


def _in_range(number: int, limit: int, name: str) -> int:
    number = operator.index(number)
    if not 0 <= number < limit:
        raise ArgumentError(f"must be at least 0 and below {limit}, not {number}", name)
    return number


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return min(2, processors())
    threads = operator.index(threads)
    if threads < 1:
        raise ArgumentError(f"must be at least 1, not {threads}", "threads")
    return threads


def _flat(data: _BytesLike) -> Bytes:
    """Return the bytes of a C-contiguous buffer as a one-dimensional array, without a copy."""
    try:
        if isinstance(data, np.ndarray):  # some types of elements, such as bfloat16, have no buffer of their own
            contiguous = data.flags.c_contiguous
            flat = np.asarray(data).reshape(-1).view(np.uint8) if contiguous else None
        else:
            view = memoryview(data)
            contiguous = view.c_contiguous
            flat = np.frombuffer(view, np.uint8) if contiguous and view.nbytes else None
    except (TypeError, ValueError):
        raise ArgumentError(f"must be a bytes-like object, not {type(data).__name__}", "data") from None
    if not contiguous:
        raise ArgumentError("must be contiguous, in C order", "data")
    return np.empty(0, np.uint8) if flat is None else flat


def _serial(flat: Bytes, state: int) -> int:
    prime, mask = FNV_PRIME, MODULUS - 1  # local names and a mask take a third of the time off
    for byte in flat.tobytes():
        state = ((state ^ byte) * prime) & mask
    return state


def _hash(flat: Bytes, state: int, threads: int) -> int:
    position = 0
    for engine, start, stop in _stretches(flat):
        state = _serial(flat[position:start], state)
        blocks = (stop - start) // engine.BLOCK
        if threads > 1 and blocks > threads:
            position = start + blocks * engine.BLOCK
            rows = flat[start:position].view(np.uint64).reshape(blocks, -1)
            state = combine(state, _Pipeline(rows).run(engine, state & 0xFF, threads))
            start = position
        for first in range(start, stop, engine.BLOCK):
            block = flat[first : min(first + engine.BLOCK, stop)].view(np.uint64)
            with _borrowed(engine, block.nbytes) as hasher:
                state = hasher.hash(block, state)
        position = stop
    return _serial(flat[position:], state)


def _way() -> str:
    return setting("CKPTSPEC_CHECKSUM", "serial", "numpy", "numba")


def _stretches(flat: Bytes) -> Iterator[tuple[Engine, int, int]]:
    """Yield which engine hashes which bytes, from first to last; the loop does what lies between and behind."""
    way = _way() if flat.size >= _SERIAL_LIMIT else "serial"
    if way == "serial":
        return
    position = -int(flat.__array_interface__["data"][0]) % _WORD  # words are read where the machine likes them to be
    compiled = None if way == "numpy" else _compiled.engine(flat.size, at_once=way == "numba")
    for engine in (compiled, _fnv_numpy):
        if engine is not None:
            size = (flat.size - position) // engine.GRAIN * engine.GRAIN
            if size >= max(engine.GRAIN, _SERIAL_LIMIT):
                yield engine, position, position + size
                position += size


class _Compiled(Compiled[Engine]):
    """The engine that numba compiles, from the moment when it pays."""

    def __init__(self) -> None:
        names = "_fnv_numba.", "checksum", "computes the checksums"
        super().__init__(*names, loading=_LOADING_PAYS, compiling=_COMPILING_PAYS)

    def _checked(self) -> Engine:
        from . import _fnv_numba as engine

        block = np.arange(engine.GRAIN // _WORD, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        ours, theirs = engine.Hasher(block.nbytes), _fnv_numpy.Hasher(block.nbytes)
        expected = theirs.hash(block, 0xA5)
        ours.begin(block)
        results = ours.hash(block, 0xA5), ours.solve(block, 0xA5), ours.finish(block, 0xA5)
        if results != (expected, expected & 0xFF, expected):
            raise ArithmeticError("compiled code computes another hash")
        return engine


_compiled: Final = _Compiled()

_POOLED: Final = 3  # workspaces kept for the next call: what two threads use
_pool: list[tuple[Engine, Passes]] = []
_pool_lock = threading.Lock()


@contextmanager
def _borrowed(engine: Engine, size: int) -> Iterator[Passes]:
    """Lend a workspace for blocks of ``size`` bytes, the last ones to come back being kept."""
    with _pool_lock:
        kept = next((entry for entry in _pool if entry[0] is engine and entry[1].size == size), None)
        if kept is not None:
            _pool.remove(kept)
    hasher = engine.Hasher(size) if kept is None else kept[1]
    yield hasher
    with _pool_lock:
        _pool.append((engine, hasher))
        del _pool[:-_POOLED]


class _Pipeline:
    """Summarizes equal blocks, one a row, on several threads, the caller's included.

    The caller runs ahead and finds the low bytes, the one thing that must be done in turn. Helpers finish the blocks
    behind it. Where all workspaces wait to be finished, the caller finishes one itself, so that nobody waits for it.
    """

    def __init__(self, blocks: Words) -> None:
        self._blocks = blocks
        self._free: SimpleQueue[Passes] = SimpleQueue()
        self._solved: SimpleQueue[tuple[int, int, Passes] | None] = SimpleQueue()
        self._summaries: dict[int, BlockSummary] = {}
        self._failures: list[BaseException] = []

    def run(self, engine: Engine, low: int, threads: int) -> list[BlockSummary]:
        """Return the summaries in order; the first block begins with low byte ``low``."""
        helpers = [threading.Thread(target=self._help, daemon=True) for _ in range(threads - 1)]
        with ExitStack() as stack:
            for _ in range(threads + 1):  # a helper holds one at most, so two are always free or solved
                self._free.put(stack.enter_context(_borrowed(engine, self._blocks[0].nbytes)))
            try:
                for helper in helpers:
                    helper.start()
                for number, block in enumerate(self._blocks):
                    if self._failures:
                        break
                    hasher = self._next_free()
                    hasher.begin(block)
                    before, low = low, hasher.solve(block, low)
                    self._solved.put((number, before, hasher))
                while self._finish_one():
                    pass
            finally:
                for _ in helpers:
                    self._solved.put(None)
                for helper in helpers:
                    helper.join()
            if self._failures:
                raise self._failures[0]
        return [self._summaries[number] for number in range(len(self._blocks))]

    def _next_free(self) -> Passes:
        while True:
            try:
                return self._free.get_nowait()
            except Empty:
                self._finish_one()

    def _finish_one(self) -> bool:
        """Finish a block if one is solved."""
        try:
            entry = self._solved.get_nowait()
        except Empty:
            return False
        assert entry is not None  # that comes behind the last block
        self._finish(*entry)
        return True

    def _finish(self, number: int, before: int, hasher: Passes) -> None:
        block = self._blocks[number]
        self._summaries[number] = BlockSummary(low=before, hash=hasher.finish(block, before), length=block.nbytes)
        self._free.put(hasher)

    def _help(self) -> None:
        try:
            while (entry := self._solved.get()) is not None:
                self._finish(*entry)
        except BaseException as error:
            self._failures.append(error)
