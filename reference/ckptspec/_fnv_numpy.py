"""FNV-1a-64 in numpy: the low bytes of a block bit plane by bit plane, then one exact weighted sum.

``checksum.py`` states the mathematics. This module holds the two passes over one block:

1. ``Solver.split`` cuts the block into eight contiguous rows and transposes bits *between* the rows, so that plane k
   is one array whose byte t holds, for each row r, in bit r, bit k of byte t of that row. ``Solver.solve`` turns the
   planes of the file's bytes b into the planes of x = l XOR b, in place. ``Solver.join`` transposes back to bytes.
2. ``Folder.fold`` sums (x - l) times the powers of the FNV prime modulo 2^64, as float32 products so small that they
   are exact.

Every array is allocated once for a workspace and written through ``out=``; the views are made once, because making a
view costs as much as an operation on a few kilobytes. A workspace serves one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .spec.schema import FNV_PRIME

__all__ = ["BLOCK", "GRAIN", "Hasher", "Locator"]

Words: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]
_Step: TypeAlias = tuple[Bytes, Bytes, NDArray[np.int16], Floats, Floats, Floats, Floats]

MODULUS: Final = 1 << 64
EVERY_BYTE: Final = 0x0101010101010101

GRAIN: Final = 64  # a block is eight rows of whole 64-bit words: its size in bytes is a multiple of this
BLOCK: Final = 1 << 21  # bytes in a full block: calls are few and long, and a workspace stays below 12 MB

ROWS: Final = 8
_STAGES: Final = (  # distance between the rows that swap, and the bits of the first that go to the second
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
# BEFORE[t]: bit r is the XOR of the bits of t below bit r, so it is what the rows before row r have flipped in it
BEFORE: Final = [sum(((t & ((1 << r) - 1)).bit_count() & 1) << r for r in range(ROWS)) for t in range(256)]


class Passes(Protocol):
    """Two passes over a block of words, in steps for several threads or in one."""

    @property
    def size(self) -> int: ...
    def begin(self, block: Words) -> None: ...
    def solve(self, block: Words, low: int) -> int: ...
    def finish(self, block: Words, low: int) -> int: ...
    def hash(self, block: Words, state: int) -> int: ...


class Engine(Protocol):
    """A module that hashes blocks of a multiple of ``GRAIN`` bytes, preferably of ``BLOCK`` bytes."""

    @property
    def GRAIN(self) -> int: ...  # noqa: N802
    @property
    def BLOCK(self) -> int: ...  # noqa: N802
    def Hasher(self, size: int) -> Passes: ...  # noqa: N802


def _halves(rows: Words, distance: int) -> tuple[Words, Words]:
    """Return views of the rows whose index has the bit ``distance`` clear, and of those that have it set."""
    paired = rows.reshape(ROWS // (2 * distance), 2, distance, -1)
    return paired[:, 0], paired[:, 1]


class Solver:
    """Workspace of the first pass for blocks of exactly ``size`` bytes, a positive multiple of ``GRAIN``."""

    def __init__(self, size: int) -> None:
        if size <= 0 or size % GRAIN:
            raise ValueError(f"a block holds a positive multiple of {GRAIN} bytes, not {size}")
        self.size = size
        width = size // ROWS  # bytes in a row, and in a plane
        words = width // 8
        self._planes = np.empty((ROWS, words), np.uint64)
        swap = np.empty((ROWS // 2, words), np.uint64)
        self._stages = [
            (np.uint64(distance), np.uint64(mask), *_halves(self._planes, distance), swap.reshape(-1, distance, words))
            for distance, mask in _STAGES
        ]
        self._scratch = [np.empty(words, np.uint64) for _ in range(8)]
        # Two buffers with one word in front: zero for what comes before the row, or the flip that starts the row.
        self._padded = [np.zeros(words + 1, np.uint64) for _ in range(2)]
        first, second = (buffer.view(np.uint8) for buffer in self._padded)
        self._windows = [
            (src[8:], src[8 - step : -step], dst[8:])
            for step, src, dst in ((1, first, second), (2, second, first), (4, first, second))
        ]
        self._flips = self._padded[0][1:]
        self._columns, self._running = self._padded[1], self._padded[0]
        self._before = self._running.view(np.uint8)[7:-1]
        self._low, self._backward = 0, False
        self._plane_bytes = [plane.view(np.uint8) for plane in self._planes]

    def split(self, block: Words) -> None:
        """Load ``block``, ``size / 8`` words in file order, into the planes."""
        self._swap(0, *_halves(block.reshape(ROWS, -1), 4))
        self._swap(1)
        self._swap(2)

    def join(self, out: Words) -> None:
        """Write the planes as bytes in file order to ``out``, ``size / 8`` words."""
        self._swap(2)
        self._swap(1)
        self._swap(0, out=_halves(out.reshape(ROWS, -1), 4))

    def _swap(self, stage: int, *source: Words, out: tuple[Words, Words] | None = None) -> None:
        """Exchange bit index and row index at one of their three binary digits; the exchange is its own inverse."""
        distance, mask, low, high, swap = self._stages[stage]
        from_low, from_high = source or (low, high)
        to_low, to_high = out or (low, high)
        np.right_shift(from_low, distance, out=swap)
        np.bitwise_xor(swap, from_high, out=swap)
        np.bitwise_and(swap, mask, out=swap)
        np.bitwise_xor(from_high, swap, out=to_high)
        np.left_shift(swap, distance, out=swap)
        np.bitwise_xor(from_low, swap, out=to_low)

    def solve(self, low: int, *, backward: bool = False) -> int:
        """Turn the planes of b into the planes of x = l XOR b, and return the low byte at the other end of the block.

        ``low`` is the low byte before the first byte or, ``backward``, the one after the last byte.
        """
        self._low, self._backward = low, backward
        xor, conj, disj = np.bitwise_xor, np.bitwise_and, np.bitwise_or
        x = self._planes
        u, e, y1, y2, y3, v, c, y = self._scratch
        flips = self._flips
        other = self._scan(0, x[0])
        other |= self._scan(1, xor(x[1], x[0], out=flips))
        # y = 3x: bit k of y is x_k ^ u_k, where u_1 = x_0 and u_(k+1) = (x_k ^ x_(k-1)) & ~u_k
        xor(x[1], x[0], out=y1)
        disj(y1, x[0], out=u)
        xor(u, x[0], out=u)
        for k, kept in ((2, y2), (3, y3)):
            other |= self._scan(k, xor(x[k], u, out=flips))
            xor(x[k], u, out=kept)
            self._carry(k, u, e)
        # z = y + 16y: bit k of z is y_k ^ v_k, where v_k = y_(k-4) ^ (the carry c into bit k)
        v_k = x[0]
        for k, older in ((4, x[0]), (5, y1), (6, y2)):
            if k > 4:
                v_k = xor(older, c, out=v)
            xor(x[k], u, out=flips)
            other |= self._scan(k, xor(flips, v_k, out=flips))
            xor(x[k], u, out=y)
            if k == 4:
                conj(y, v_k, out=c)
            else:
                xor(y, older, out=e)
                conj(e, v_k, out=e)
                xor(e, older, out=c)
            self._carry(k, u, e)
        # 179x = z + 128x: bit 7 takes x_0 besides
        xor(x[7], u, out=flips)
        xor(flips, xor(y3, c, out=v), out=flips)
        return other | self._scan(7, xor(flips, x[0], out=flips))

    def _carry(self, k: int, u: Words, e: Words) -> None:
        """Advance ``u`` from bit k to bit k + 1: (e | u) ^ u is e & ~u."""
        x = self._planes
        np.bitwise_xor(x[k], x[k - 1], out=e)
        np.bitwise_or(e, u, out=e)
        np.bitwise_xor(e, u, out=u)

    def _scan(self, k: int, flips: Words) -> int:
        """Replace plane k of b by plane k of x, given at which bytes bit k of the low byte flips.

        Bit k of l is its value at the start and the running XOR of ``flips`` over all earlier bytes; all of them
        together lead from one end of the block to the other. Returns bit k of the low byte at the other end.
        """
        if flips is not self._flips:
            np.copyto(self._flips, flips)
        total = int(np.bitwise_xor.reduce(self._flips))
        total ^= total >> 32
        total ^= total >> 16
        total ^= total >> 8
        total &= 0xFF
        known = self._low >> k & 1
        other = known ^ (total.bit_count() & 1)
        start = other if self._backward else known
        flipped = BEFORE[total] ^ (0xFF if start else 0)
        # The XOR over a window of eight bytes, doubled three times; then each of the eight byte columns adds up words.
        self._running[0] = 0
        self._columns[0] = 0
        for here, earlier, out in self._windows:
            np.bitwise_xor(here, earlier, out=out)
        self._columns[0] = flipped * EVERY_BYTE
        np.bitwise_xor.accumulate(self._columns, out=self._running)
        plane = self._plane_bytes[k]
        np.bitwise_xor(self._before, plane, out=plane)
        return other << k


def powers(base: int, count: int) -> Words:
    """Return base^(count-1), ..., base, 1 modulo 2^64, for a positive ``count``."""
    rising = np.full(count, base, np.uint64)
    rising[0] = 1
    np.multiply.accumulate(rising, out=rising)
    return rising[::-1].copy()


class Folder:
    """Workspace of the second pass over blocks of ``size`` bytes: the sum of (x - l) * P^(bytes from here to the end).

    ``x`` and ``low`` are ``size / 8`` words that the caller fills, in file order. A power of P is split into eight
    signed digits of eight bits. With |x - l| <= 255 and |digit| <= 128, a sum over a row of 512 stays below 2^24:
    float32 holds it exactly, in whatever order a linear algebra library adds.
    """

    _ROW: Final = 512
    _ROWS: Final = 32  # rows to a product: so few that no linear algebra library starts threads of its own
    _STEP: Final = 1 << 18  # bytes in flight, a multiple of _ROW * _ROWS: their float32 form should stay in the caches
    _DIGITS: Final = 8

    def __init__(self, size: int) -> None:
        self.x, self.low = np.empty((2, size // 8), np.uint64)
        self._weights = self._digits(powers(FNV_PRIME, self._ROW + 1)[:-1])
        rows = -(-size // self._ROW)  # of which the first may be short
        self._sums = np.empty((rows, self._DIGITS), np.float32)
        self._row_powers = powers(pow(FNV_PRIME, self._ROW, MODULUS), rows)
        self.power = pow(FNV_PRIME, size, MODULUS)
        differences, operand = np.empty(min(self._STEP, size), np.int16), np.empty(min(self._STEP, size), np.float32)
        self._steps = [self._plan(differences, operand, *piece) for piece in self._pieces(size)]

    def _digits(self, numbers: Words) -> Floats:
        """Return the signed base-256 digits of ``numbers``, lowest first, one column for each."""
        digits = np.empty((numbers.size, self._DIGITS), np.float32)
        for column in range(self._DIGITS):
            digit = numbers.astype(np.uint8).view(np.int8)
            digits[:, column] = digit
            numbers = (numbers - digit.astype(np.int64).view(np.uint64)) >> np.uint64(8)
        return digits

    def _pieces(self, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first byte, bytes, rows) of steps of equal rows that come singly or in groups of ``_ROWS``."""
        first = size % self._ROW
        if first:
            yield 0, first, 1
        while first < size:
            step = min(self._STEP, size - first)
            if step > self._ROW * self._ROWS:
                step -= step % (self._ROW * self._ROWS)
            yield first, step, step // self._ROW
            first += step

    def _plan(self, differences: NDArray[np.int16], operand: Floats, first: int, size: int, rows: int) -> _Step:
        """Return the views that one step of ``fold`` works on."""
        length, row = size // rows, -(-first // self._ROW)
        x, low = (words.view(np.uint8)[first : first + size] for words in (self.x, self.low))
        matrices = operand[:size].reshape(-1, min(rows, self._ROWS), length)
        sums = self._sums[row : row + rows].reshape(*matrices.shape[:2], self._DIGITS)
        return x, low, differences[:size], operand[:size], matrices, self._weights[-length:], sums

    def fold(self, state: int) -> int:
        """Return the state after the block, begun in ``state``."""
        for x, low, differences, operand, matrices, weights, sums in self._steps:
            np.subtract(x, low, out=differences, dtype=np.int16)
            np.copyto(operand, differences)
            np.matmul(matrices, weights, out=sums)
        total = 0
        for column in range(self._DIGITS):
            digits = self._sums[:, column].astype(np.int64).view(np.uint64)
            total += int((digits * self._row_powers).sum(dtype=np.uint64)) << 8 * column
        return (state * self.power + total) % MODULUS


class Hasher:
    """Both passes over blocks of exactly ``size`` bytes; holds the workspaces and serves one thread at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._solver = Solver(size)
        self._folder = Folder(size)

    def begin(self, block: Words) -> None:
        """Prepare ``block``, ``size / 8`` words; needs no state yet."""
        self._solver.split(block)

    def solve(self, block: Words, low: int) -> int:
        """Find every low byte of the block, begun with ``low``; return the low byte after the block."""
        del block  # begin() has taken what is needed
        return self._solver.solve(low)

    def finish(self, block: Words, low: int) -> int:
        """Return the hash of ``block`` begun in the state ``low``, the low byte that ``solve`` was given."""
        folder = self._folder
        self._solver.join(folder.x)
        np.bitwise_xor(folder.x, block, out=folder.low)
        return folder.fold(low)

    def hash(self, block: Words, state: int) -> int:
        """Return the state after ``block``, begun in ``state``."""
        low = state & 0xFF
        self.begin(block)
        self.solve(block, low)
        return (self.finish(block, low) + (state - low) * self._folder.power) % MODULUS


class Locator:
    """Workspace that compares two chains over the same block of exactly ``size`` bytes, a multiple of ``GRAIN``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._solver = Solver(size)
        self._x, self._low, self._other_x, self._other_low = np.empty((4, size // 8), np.uint64)
        self._weights = powers(pow(FNV_PRIME, -1, MODULUS), size)[::-1].view(np.int64)  # P^0, P^-1, P^-2, ...
        self._difference = np.empty(size, np.int16)
        self._sums, self._products = np.empty((2, size), np.int64)

    def search(self, block: Bytes, ends: tuple[int, int], wanted: int) -> tuple[list[tuple[int, int]], int]:
        """Find where the chain from ``ends[0]`` to ``ends[1]`` and the one that ends in ``wanted`` differ in one byte.

        Returns the pairs (index in the block, what to XOR its byte with), and the state in which the latter begins.
        """
        words = block.view(np.uint64)
        self._chain(words, self._x, self._low, ends[0] & 0xFF, backward=False)
        self._chain(words, self._other_x, self._other_low, wanted & 0xFF, backward=True)
        sums, products, count = self._sums, self._products, block.size
        np.subtract(self._low.view(np.uint8), self._other_low.view(np.uint8), out=self._difference, dtype=np.int16)
        np.multiply(self._difference, self._weights, out=sums)
        np.subtract(self._x.view(np.uint8), self._other_x.view(np.uint8), out=self._difference, dtype=np.int16)
        np.multiply(self._difference, self._weights, out=products)
        np.subtract(sums[1:], products[:-1], out=sums[1:])
        np.add.accumulate(sums, out=sums)
        gap = (ends[1] - wanted) * pow(FNV_PRIME, -count, MODULUS) + int(sums[-1]) - int(products[-1])
        gap %= MODULUS
        places = np.flatnonzero(sums.view(np.uint64) == np.uint64(gap))
        masks = (self._low.view(np.uint8) ^ self._other_low.view(np.uint8))[places]
        return list(zip(places.tolist(), masks.tolist(), strict=True)), (ends[0] - gap) % MODULUS

    def _chain(self, words: Words, x: Words, low: Words, known: int, *, backward: bool) -> None:
        self._solver.split(words)
        self._solver.solve(known, backward=backward)
        self._solver.join(x)
        np.bitwise_xor(x, words, out=low)
