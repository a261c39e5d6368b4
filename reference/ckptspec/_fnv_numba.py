"""FNV-1a-64 compiled by numba: the passes of ``_fnv_numpy`` over blocks that fit the innermost cache.

Importing this module imports numba; ``checksum`` does so late, and only for inputs that are worth it. What differs
from numpy is what a compiler can do and numpy cannot: all steps of a bit plane in one loop, a running XOR inside a
word by shifts, and the weighted sum as dot products of 16-bit integers (the powers of P in four signed digits of 16
bits), which the usual processors do sixteen at a time.

Three habits of the compiler shape the code. One workspace with constant offsets needs no checks whether arrays
overlap. Unsigned indices need no check whether to count from the end. Functions are compiled for one set of argument
types, so the file's bytes are always passed as read-only, aligned arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ._fnv_numpy import BEFORE, EVERY_BYTE, MODULUS, ROWS, Bytes, Words, powers
from .compiled import jit
from .spec.schema import FNV_PRIME

__all__ = ["BLOCK", "GRAIN", "Hasher"]

# Imported so that the type checker knows nothing about them: it comes to the same result with and without numba.
numba: Final[Any] = import_module("numba")
extending: Final[Any] = import_module("numba.extending")
ir: Final[Any] = import_module("llvmlite.ir")
make_array: Final[Any] = import_module("numba.np.arrayobj").make_array

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Digits: TypeAlias = NDArray[np.int16]

_WIDTH: Final = 256  # words in a row, and in a plane
_ROW: Final = 8 * _WIDTH  # bytes in a row
_DIGITS: Final = 4
_LANES: Final = 8  # sums of pairs side by side: each takes _ROW / 16 pairs below 2^24, and stays below 2^31
GRAIN: Final = ROWS * _ROW  # bytes in a block
BLOCK: Final = 1 << 21  # bytes to hash at one time

U: TypeAlias = np.uint64
_1, _2, _4, _8, _16, _32, _56, _255 = (U(number) for number in (1, 2, 4, 8, 16, 32, 56, 255))
_NIBBLES, _PAIRS, _BITS = U(0x0F0F0F0F0F0F0F0F), U(0x3333333333333333), U(0x5555555555555555)
_EVERY_BYTE: Final = U(EVERY_BYTE)
_BEFORE: Final = np.array(BEFORE, np.uint64)
_PARITY: Final = np.array([total.bit_count() & 1 for total in range(256)], np.uint64)
_ROW_POWER, _BLOCK_POWER = U(pow(FNV_PRIME, _ROW, MODULUS)), U(pow(FNV_PRIME, GRAIN, MODULUS))

# The workspace, in rows: the eight planes, and behind them
_N = U(_WIDTH)
_PREFIX, _CARRIED, _U, _C, _Y1, _Y2, _Y3 = (U(row * _WIDTH) for row in range(8, 15))
_WORKSPACE: Final = 15 * _WIDTH


def _inline(function: _Function) -> _Function:
    return cast(_Function, numba.njit(inline="always")(function))


@_inline
def _swap(a: U, b: U, shift: U, mask: U) -> tuple[U, U]:
    t = ((a >> shift) ^ b) & mask
    return a ^ (t << shift), b ^ t


@_inline
def _running(word: U) -> U:
    """XOR every byte with all bytes below it, which come earlier in the file."""
    word ^= word << _8
    word ^= word << _16
    return word ^ (word << _32)


@jit
def _split(source: Words, at: int, ws: Words) -> None:
    """Load a block into the planes: bit k of byte t of row r becomes bit r of byte t of plane k."""
    for i in range(8 * _WIDTH):
        ws[U(i)] = source[U(at) + U(i)]
    for i in range(_WIDTH):
        w = U(i)
        a, b, c, d = ws[w], ws[w + _N], ws[w + U(2) * _N], ws[w + U(3) * _N]
        e, f, g, h = ws[w + U(4) * _N], ws[w + U(5) * _N], ws[w + U(6) * _N], ws[w + U(7) * _N]
        a, e = _swap(a, e, _4, _NIBBLES)
        b, f = _swap(b, f, _4, _NIBBLES)
        c, g = _swap(c, g, _4, _NIBBLES)
        d, h = _swap(d, h, _4, _NIBBLES)
        a, c = _swap(a, c, _2, _PAIRS)
        b, d = _swap(b, d, _2, _PAIRS)
        e, g = _swap(e, g, _2, _PAIRS)
        f, h = _swap(f, h, _2, _PAIRS)
        a, b = _swap(a, b, _1, _BITS)
        c, d = _swap(c, d, _1, _BITS)
        e, f = _swap(e, f, _1, _BITS)
        g, h = _swap(g, h, _1, _BITS)
        ws[w], ws[w + _N], ws[w + U(2) * _N], ws[w + U(3) * _N] = a, b, c, d
        ws[w + U(4) * _N], ws[w + U(5) * _N], ws[w + U(6) * _N], ws[w + U(7) * _N] = e, f, g, h


@jit
def _carry(ws: Words) -> U:
    """Note for every word of the plane what all words before it flip; return what all flip, a byte of eight rows."""
    total = U(0)
    for i in range(_WIDTH):
        word = (ws[_PREFIX + U(i)] >> _56) * _EVERY_BYTE
        ws[_CARRIED + U(i)] = total
        total ^= word
    return total & _255


@_inline
def _start(total: U, low: U, k: U) -> U:
    """Return what flips at the start of every row, in every byte of a word."""
    flips: U = (_BEFORE[total] ^ (_255 * ((low >> k) & _1))) * _EVERY_BYTE
    return flips


@_inline
def _solved(ws: Words, w: U, k: U, start: U) -> U:
    """Turn word ``w`` of plane k of b into that of x = l ^ b, and return it."""
    x: U = (ws[_PREFIX + w] << _8) ^ ws[_CARRIED + w] ^ start ^ ws[k * _N + w]
    ws[k * _N + w] = x
    return x


@_inline
def _next_u(ws: Words, w: U, k: U, x: U, u: U) -> U:
    following: U = (x ^ ws[(k - _1) * _N + w]) & ~u
    return following


@_inline
def _next_c(c: U, y: U, older: U) -> U:
    return ((older ^ c) & (y ^ older)) ^ older


@jit
def _solve(ws: Words, low: U) -> U:
    """Turn the planes of b into the planes of x = l ^ b, begun with low byte ``low``; return the low byte after.

    As in ``_fnv_numpy.Solver.solve``: bit k of y = 3x is x_k ^ u_k, bit k of z = y + 16y is y_k ^ v_k with
    v_k = y_(k-4) ^ c_k, and bit 7 takes x_0 besides. Each loop finishes one plane and prepares the next.
    """
    after: U = low
    for i in range(_WIDTH):
        w = U(i)
        ws[_PREFIX + w] = _running(ws[w])
    total = _carry(ws)
    start = _start(total, low, U(0))
    after ^= _PARITY[total]
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(0), start)
        ws[_PREFIX + w] = _running(ws[_N + w] ^ x)
    total = _carry(ws)
    start = _start(total, low, U(1))
    after ^= _PARITY[total] << U(1)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(1), start)
        ws[_Y1 + w] = x ^ ws[w]
        u = x & ~ws[w]
        ws[_U + w] = u
        ws[_PREFIX + w] = _running(ws[U(2) * _N + w] ^ u)
    total = _carry(ws)
    start = _start(total, low, U(2))
    after ^= _PARITY[total] << U(2)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(2), start)
        u = ws[_U + w]
        ws[_Y2 + w] = x ^ u
        u = _next_u(ws, w, U(2), x, u)
        ws[_U + w] = u
        ws[_PREFIX + w] = _running(ws[U(3) * _N + w] ^ u)
    total = _carry(ws)
    start = _start(total, low, U(3))
    after ^= _PARITY[total] << U(3)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(3), start)
        u = ws[_U + w]
        ws[_Y3 + w] = x ^ u
        u = _next_u(ws, w, U(3), x, u)
        ws[_U + w] = u
        ws[_PREFIX + w] = _running(ws[U(4) * _N + w] ^ u ^ ws[w])
    return _solve_upper(ws, low, after)


@jit
def _solve_upper(ws: Words, low: U, after: U) -> U:
    """Go on with planes 4 to 7."""
    total = _carry(ws)
    start = _start(total, low, U(4))
    after ^= _PARITY[total] << U(4)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(4), start)
        u = ws[_U + w]
        c = (x ^ u) & ws[w]
        ws[_C + w] = c
        u = _next_u(ws, w, U(4), x, u)
        ws[_U + w] = u
        ws[_PREFIX + w] = _running(ws[U(5) * _N + w] ^ u ^ ws[_Y1 + w] ^ c)
    total = _carry(ws)
    start = _start(total, low, U(5))
    after ^= _PARITY[total] << U(5)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(5), start)
        u = ws[_U + w]
        c = _next_c(ws[_C + w], x ^ u, ws[_Y1 + w])
        ws[_C + w] = c
        u = _next_u(ws, w, U(5), x, u)
        ws[_U + w] = u
        ws[_PREFIX + w] = _running(ws[U(6) * _N + w] ^ u ^ ws[_Y2 + w] ^ c)
    total = _carry(ws)
    start = _start(total, low, U(6))
    after ^= _PARITY[total] << U(6)
    for i in range(_WIDTH):
        w = U(i)
        x = _solved(ws, w, U(6), start)
        u = ws[_U + w]
        c = _next_c(ws[_C + w], x ^ u, ws[_Y2 + w])
        u = _next_u(ws, w, U(6), x, u)
        ws[_PREFIX + w] = _running(ws[U(7) * _N + w] ^ u ^ ws[_Y3 + w] ^ c ^ ws[w])
    total = _carry(ws)
    start = _start(total, low, U(7))
    for i in range(_WIDTH):
        _solved(ws, U(i), U(7), start)
    after ^= _PARITY[total] << U(7)
    return after


@jit
def _join(ws: Words) -> None:
    """Turn the planes back into bytes, in place: the exchanges of ``_split`` in reverse order."""
    for i in range(_WIDTH):
        w = U(i)
        a, b, c, d = ws[w], ws[w + _N], ws[w + U(2) * _N], ws[w + U(3) * _N]
        e, f, g, h = ws[w + U(4) * _N], ws[w + U(5) * _N], ws[w + U(6) * _N], ws[w + U(7) * _N]
        a, b = _swap(a, b, _1, _BITS)
        c, d = _swap(c, d, _1, _BITS)
        e, f = _swap(e, f, _1, _BITS)
        g, h = _swap(g, h, _1, _BITS)
        a, c = _swap(a, c, _2, _PAIRS)
        b, d = _swap(b, d, _2, _PAIRS)
        e, g = _swap(e, g, _2, _PAIRS)
        f, h = _swap(f, h, _2, _PAIRS)
        a, e = _swap(a, e, _4, _NIBBLES)
        b, f = _swap(b, f, _4, _NIBBLES)
        c, g = _swap(c, g, _4, _NIBBLES)
        d, h = _swap(d, h, _4, _NIBBLES)
        ws[w], ws[w + _N], ws[w + U(2) * _N], ws[w + U(3) * _N] = a, b, c, d
        ws[w + U(4) * _N], ws[w + U(5) * _N], ws[w + U(6) * _N], ws[w + U(7) * _N] = e, f, g, h


def _digits() -> _Digits:
    """Return the signed base-65536 digits of P^_ROW, ..., P^1: all lowest digits first, then the next, and so on."""
    numbers = powers(FNV_PRIME, _ROW + 1)[:-1]
    digits = np.empty((_DIGITS, _ROW), np.int16)
    for row in digits:
        row[:] = numbers.astype(np.uint16).view(np.int16)
        numbers = (numbers - row.astype(np.int64).view(np.uint64)) >> U(16)
    return digits.reshape(-1)


def _pair_sums(context: Any, builder: Any, left: Any, right: Any) -> Any:
    """Emit the products of two vectors of 16 int16, neighbours added: a vector of 8 int32."""
    narrow, wide = ir.VectorType(ir.IntType(16), 2 * _LANES), ir.VectorType(ir.IntType(32), _LANES)
    name = "llvm.x86.avx2.pmadd.wd"
    if "+avx2" in str(getattr(context.codegen(), "_tm_features", "")):  # one instruction, if called by its name
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(wide, [narrow, narrow]), name)
        return builder.call(function, [left, right])
    index = ir.IntType(32)
    double = ir.VectorType(index, 2 * _LANES)
    products = builder.mul(builder.sext(left, double), builder.sext(right, double))
    even, odd = (ir.Constant(wide, [index(2 * lane + first) for lane in range(_LANES)]) for first in (0, 1))
    first, second = (builder.shuffle_vector(products, products, half) for half in (even, odd))
    return builder.add(first, second)


def _row_sum_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Emit the loop over a row, 16 bytes at a time, and the sum of the lanes."""
    step = 2 * _LANES
    byte, short, long = ir.IntType(8), ir.IntType(16), ir.IntType(64)
    start = [make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 2, 4)]
    x, b = builder.gep(start[0], [arguments[1]]), builder.gep(start[1], [arguments[3]])

    def load(pointer: Any, kind: Any, offset: Any) -> Any:
        vector = ir.VectorType(kind, step).as_pointer()
        return builder.load(builder.bitcast(builder.gep(pointer, [offset]), vector), align=kind.width // 8)

    before, loop, done = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    at = builder.phi(long)
    sums = [builder.phi(ir.VectorType(ir.IntType(32), _LANES)) for _ in range(_DIGITS)]
    x_bytes = load(x, byte, at)
    low_bytes = builder.xor(x_bytes, load(b, byte, at))
    wide = ir.VectorType(short, step)
    difference = builder.sub(builder.zext(x_bytes, wide), builder.zext(low_bytes, wide))
    added = []
    for digit, total in enumerate(sums):
        weights = load(start[2], short, builder.add(at, long(digit * _ROW)))
        added.append(builder.add(total, _pair_sums(context, builder, difference, weights)))
    following = builder.add(at, long(step))
    builder.cbranch(builder.icmp_unsigned("<", following, long(_ROW)), loop, done)
    at.add_incoming(long(0), before)
    at.add_incoming(following, loop)
    for total, new in zip(sums, added, strict=True):
        total.add_incoming(ir.Constant(total.type, None), before)
        total.add_incoming(new, loop)
    builder.position_at_end(done)
    result = long(0)
    for digit, new in enumerate(added):
        for lane in range(_LANES):
            part = builder.sext(builder.extract_element(new, ir.IntType(32)(lane)), long)
            result = builder.add(result, builder.shl(part, long(16 * digit)))
    return result


def _row_sum_typed(typing: Any, x: Any, x_at: Any, b: Any, b_at: Any, digits: Any) -> tuple[Any, Any]:
    index = numba.types.uint64
    return index(x, index, b, index, digits), _row_sum_code


# (x, first byte, b, first byte, digits) -> the sum over a row of (x - l) * P^(bytes to the row's end), where l = x ^ b
_row_sum = cast("Callable[[Bytes, U, Bytes, U, _Digits], U]", extending.intrinsic(_row_sum_typed))


@jit
def _fold(x: Bytes, b: Bytes, at: int, digits: _Digits, state: U) -> U:
    """Return the state after a block that begins in ``state``; its x stands in front of the workspace ``x``."""
    total = U(0)
    for row in range(ROWS):
        offset = U(row) * U(_ROW)
        total = total * _ROW_POWER + _row_sum(x, offset, b, U(at) + offset, digits)
    return state * _BLOCK_POWER + total


@jit
def _solve_blocks(words: Words, ws: Words, planes: Words, low: U) -> U:
    """First pass over whole blocks: fill ``planes``, as long as ``words``; return the low byte after them."""
    size = 8 * _WIDTH
    for block in range(words.size // size):
        _split(words, block * size, ws)
        low = _solve(ws, low)
        for i in range(size):
            planes[U(block * size) + U(i)] = ws[U(i)]
    return low


@jit
def _fold_blocks(b: Bytes, ws: Words, x: Bytes, planes: Words, digits: _Digits, state: U) -> U:
    """Second pass over whole blocks, whose solved planes are given; ``x`` is the workspace ``ws`` seen as bytes."""
    size = 8 * _WIDTH
    for block in range(planes.size // size):
        for i in range(size):
            ws[U(i)] = planes[U(block * size) + U(i)]
        _join(ws)
        state = _fold(x, b, 8 * block * size, digits, state)
    return state


@jit
def _hash_blocks(words: Words, b: Bytes, ws: Words, x: Bytes, digits: _Digits, state: U) -> U:
    """Both passes, block by block: nothing leaves the innermost cache."""
    size = 8 * _WIDTH
    for block in range(words.size // size):
        _split(words, block * size, ws)
        _solve(ws, state & _255)
        _join(ws)
        state = _fold(x, b, 8 * block * size, digits, state)
    return state


class Hasher:
    """The compiled passes over at most ``size`` bytes, whole blocks; serves one thread at a time.

    All blocks are one-dimensional, aligned arrays of words.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._workspace = np.empty(_WORKSPACE, np.uint64)
        self._x = self._workspace.view(np.uint8)
        self._digits = _digits()
        self._planes = np.empty(0, np.uint64)

    def begin(self, block: Words) -> None:
        """Prepare ``block``; needs no state yet."""
        if self._planes.size != block.size:
            self._planes = np.empty(block.size, np.uint64)

    def solve(self, block: Words, low: int) -> int:
        """Find every low byte of ``block``, begun with ``low``; return the low byte after the block."""
        return int(_solve_blocks(_read_only(block), self._workspace, self._planes, U(low)))

    def finish(self, block: Words, low: int) -> int:
        """Return the hash of ``block`` begun in the state ``low``, the low byte that ``solve`` was given."""
        data = _read_only(block).view(np.uint8)
        return int(_fold_blocks(data, self._workspace, self._x, self._planes, self._digits, U(low)))

    def hash(self, block: Words, state: int) -> int:
        """Return the state after ``block``, begun in ``state``: faster than the three steps one after the other."""
        words = _read_only(block)
        return int(_hash_blocks(words, words.view(np.uint8), self._workspace, self._x, self._digits, U(state)))


def _read_only(block: Words) -> Words:
    view = block.view()
    view.flags.writeable = False
    return view
