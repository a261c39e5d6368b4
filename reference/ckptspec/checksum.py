"""FNV-1a-64, the checksum of .oam files, computed in parallel."""

# TODO mathematics

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _fnv_numpy
from .errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "FNV_OFFSET_BASIS",
    "FNV_PRIME",
    "BlockSummary",
    "Fnv1a64",
    "combine",
    "final_low",
    "fnv1a64",
    "fnv1a64_serial",
    "summarize",
]

FNV_OFFSET_BASIS: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3

_MASK64: Final = (1 << 64) - 1
_MODULUS: Final = 1 << 64
_SERIAL_LIMIT: Final = 2048  # bytes below which the plain loop is faster than some two hundred numpy calls

_Bytes: TypeAlias = NDArray[np.uint8]


def fnv1a64_serial(data: Buffer, state: int = FNV_OFFSET_BASIS) -> int:
    """Return the hash of ``data`` begun in ``state``: the definition, one byte after the other."""
    return _serial(_flat(data), _checked(state))


def fnv1a64(data: Buffer, state: int = FNV_OFFSET_BASIS, *, threads: int | None = None) -> int:
    """Return the FNV-1a-64 hash of ``data``, continuing from ``state``."""
    return _hash(_flat(data), _checked(state), threads)


class Fnv1a64:
    """An FNV-1a-64 hash that grows with every ``update``; ``value`` is at once the hash and the resumable state."""

    __slots__ = ("_state", "_threads")

    def __init__(self, state: int = FNV_OFFSET_BASIS, *, threads: int | None = None) -> None:
        self._state = _checked(state)
        self._threads = threads

    @property
    def value(self) -> int:
        """Hash of all bytes so far, 0 <= value < 2^64."""
        return self._state

    def update(self, data: Buffer) -> None:
        """Append the bytes of ``data``."""
        self._state = _hash(_flat(data), self._state, self._threads)

    def copy(self) -> Fnv1a64:
        """Return an independent hash in the same state."""
        return Fnv1a64(self._state, threads=self._threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSummary:
    """What a block does to any state whose low byte is ``low``."""

    low: int
    hash: int
    length: int


def summarize(data: Buffer, low: int) -> BlockSummary:
    """Return the summary of a block that begins when the low byte of the state is ``low``."""
    flat = _flat(data)
    return BlockSummary(low=_checked_low(low), hash=_hash(flat, low, None), length=flat.size)


def final_low(data: Buffer, low: int) -> int:
    """Return the low byte of the state after ``data``, begun with low byte ``low``."""
    return _hash(_flat(data), _checked_low(low), None) & 0xFF


def combine(state: int, summaries: Iterable[BlockSummary]) -> int:
    """Return the state after the summarized blocks, one after the other, begun in ``state``."""
    _checked(state)
    for number, summary in enumerate(summaries):
        if state & 0xFF != summary.low:
            raise ArgumentError(
                f"begins with low byte {summary.low}, but the state before it ends in {state & 0xFF}",
                f"summaries[{number}]",
            )
        state = (summary.hash + (state - summary.low) * pow(FNV_PRIME, summary.length, _MODULUS)) & _MASK64
    return state


def _checked(state: int) -> int:
    if not 0 <= state <= _MASK64:
        raise ArgumentError(f"must be in 0..2^64-1, not {state}", "state")
    return state


def _checked_low(low: int) -> int:
    if not 0 <= low <= 0xFF:
        raise ArgumentError(f"must be in 0..255, not {low}", "low")
    return low


def _flat(data: Buffer) -> _Bytes:
    """Return the bytes of any C-contiguous buffer as a one-dimensional array, without a copy."""
    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous:
            raise ArgumentError("must be contiguous in C order", "data")
        return data.reshape(-1).view(np.uint8)
    try:
        view = memoryview(data)
    except TypeError as error:
        raise ArgumentError(f"must be a bytes-like object, not {type(data).__name__}", "data") from error
    if not view.c_contiguous:
        raise ArgumentError("must be contiguous in C order", "data")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _serial(flat: _Bytes, state: int) -> int:
    for byte in flat.tobytes():
        state = ((state ^ byte) * FNV_PRIME) & _MASK64
    return state


def _hash(flat: _Bytes, state: int, threads: int | None) -> int:
    threads = _thread_count(threads)
    position = 0
    if threads > 1 and flat.size >= 2 * _fnv_numpy.BLOCK:
        count = flat.size // _fnv_numpy.BLOCK
        position = count * _fnv_numpy.BLOCK
        blocks = flat[:position].view(np.uint64).reshape(count, -1)
        state = combine(state, _ring(blocks, state & 0xFF, min(threads, count)))
    while flat.size - position >= _SERIAL_LIMIT:
        size = min(_fnv_numpy.BLOCK, (flat.size - position) // _fnv_numpy.GRAIN * _fnv_numpy.GRAIN)
        block = flat[position : position + size].view(np.uint64)
        with _fnv_numpy.borrowed(size) as hasher:
            low = state & 0xFF
            hasher.begin(block)
            hasher.solve(block, low)
            hashed = hasher.finish(block, low)
        state = (hashed + (state - low) * pow(FNV_PRIME, size, _MODULUS)) & _MASK64
        position += size
    return _serial(flat[position:], state)


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if threads < 1:
        raise ArgumentError(f"must be at least 1, not {threads}", "threads")
    return threads


def _ring(blocks: NDArray[np.uint64], low: int, threads: int) -> list[BlockSummary]:
    """Summarize equal blocks, one a row, on ``threads`` threads that stand in a ring and hand on the low byte.

    Thread t does blocks t, t + threads, ... What needs no state and what follows from the low bytes runs at the same
    time as the others' work; only the low bytes themselves are found in turn.
    """
    inboxes: list[SimpleQueue[int | None]] = [SimpleQueue() for _ in range(threads)]
    summaries: list[BlockSummary | None] = [None] * len(blocks)
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        following = inboxes[(thread + 1) % threads]
        try:
            with _fnv_numpy.borrowed(blocks[0].nbytes) as hasher:
                for number in range(thread, len(blocks), threads):
                    block = blocks[number]
                    hasher.begin(block)
                    low = inboxes[thread].get()
                    if low is None:
                        break
                    following.put(hasher.solve(block, low))
                    summaries[number] = BlockSummary(low=low, hash=hasher.finish(block, low), length=block.nbytes)
                else:
                    return
        except BaseException as error:
            failures.append(error)
        following.put(None)

    inboxes[0].put(low)
    helpers = [threading.Thread(target=work, args=(thread,), daemon=True) for thread in range(1, threads)]
    for helper in helpers:
        helper.start()
    work(0)
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return [summary for summary in summaries if summary is not None]
