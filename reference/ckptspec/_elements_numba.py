"""Differences of floats compiled by numba: one pass over the elements, in chunks that stay in the innermost cache.

Importing this module imports numba; ``elements`` does so late, and only where so much differs that it pays.

Each loop does one thing, without a branch, so that it is compiled to code that handles several elements at a time. The
integers that the floats are stored as tell which differ, how many values they are apart, and whether there is anything
that is not finite. If there is, a copy is made in which the pairs with a NaN and those that are the same are zeros.
Then come the values, in binary64. Divisions are slow: a chunk whose differences, absolute and relative, are none of
them larger than those before, as one comparison each shows, is passed over. Most are.

The comparison for the relative one is ``gap > bound * magnitude``. The bound is the largest ratio so far, cut to the 24
bits of a binary32. So for elements up to binary32 the product is exact, and no larger ratio is missed. For binary64 it
would not be, and there each chunk is divided.

Integers of numba are wider than those that they are made of, and the loops need the narrow ones: therefore all the
conversions, ``signed`` and ``unsigned`` being the types that are as wide as an element. Largest floats are looked for
among their bits, which for positive ones have the same order, and which the compiler knows how to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from .compiled import jit

__all__ = ["CHUNK", "measure"]

_Array: TypeAlias = Any  # one-dimensional; the compiler looks at the types itself
_Pair: TypeAlias = tuple[_Array, _Array]
_Masked: TypeAlias = tuple[_Pair, _Pair, _Pair]  # to write to, to read, and as values
_Most: TypeAlias = tuple[float, float]
_Bounds: TypeAlias = tuple[float, float, np.uint64]
_Measured: TypeAlias = tuple[int, int, int, int, int, Any, float, float]

CHUNK: Final = 1024  # elements; their number has to fit 16 bits

_At: TypeAlias = np.uint64  # an index that is unsigned needs no check whether to count from the end
_Long: TypeAlias = np.int64
_Wide: TypeAlias = np.uint64
_Double: TypeAlias = np.float64
_Word: TypeAlias = np.int32
_Half: TypeAlias = np.int16
_UnsignedHalf: TypeAlias = np.uint16
_UnsignedWord: TypeAlias = np.uint32

_HALF_INFINITY, _BFLOAT_INFINITY = _Half(0x7C00), _Half(0x7F80)
_HALF_MAGNITUDE, _SINGLE_MAGNITUDE = _Half(0x7FFF), _Word(0x7FFFFFFF)
_SINGLE_INFINITY, _SINGLE_SIGN = _Word(0x7F800000), _Word(-1 << 31)
_DOUBLE_MAGNITUDE, _DOUBLE_INFINITY = _Long((1 << 63) - 1), _Long(0x7FF << 52)
_HALF_NORMAL, _HALF_TOP = _Word(1 << 23), _Word(0x7C00 << 13)  # the smallest normal binary16, and infinity, shifted
_REBIASED, _SUBNORMAL = _Word(112 << 23), _Word(113 << 23)  # what makes its exponent that of a binary32
_LEAST_NORMAL: Final = np.float32(2.0**-14)
_CUT: Final = _Long(-1 << 29)  # leaves 24 bits of the 53
_INFINITE, _ONE, _ZERO = _Double(np.inf), _Double(1), _Double(0)
_LEAST_BOUND, _MOST_BOUND = _Double(1e-200), _Double(4)  # ratios are 0, or at least 1e-84; at most 2, or infinite


@jit
def _scan(
    p: _Array, q: _Array, start: int, count: int, signed: Any, unsigned: Any, magnitude: Any
) -> tuple[Any, Any, Any]:
    """Return how many elements differ, the largest bits of a magnitude, and the largest distance in steps."""
    differing, top, far = signed(0), signed(0), unsigned(0)
    for i in range(count):
        a, b = p[_At(start) + _At(i)], q[_At(start) + _At(i)]
        x, y = signed(a & magnitude), signed(b & magnitude)
        larger, smaller = signed(max(x, y)), signed(min(x, y))
        differing = signed(differing + signed(a != b))
        top = signed(max(top, larger))
        crossing, along = unsigned(unsigned(x) + unsigned(y)), unsigned(unsigned(larger) - unsigned(smaller))
        far = unsigned(max(far, crossing if signed(a ^ b) < signed(0) else along))
    return differing, top, far


@jit
def _mask(
    p: _Array, q: _Array, start: int, count: int, copies: _Pair, signed: Any, magnitude: Any, infinity: Any
) -> None:
    """Copy a chunk, with zeros for pairs with a NaN and for those that are the same."""
    for i in range(count):
        a, b = p[_At(start) + _At(i)], q[_At(start) + _At(i)]
        counts = (signed(max(signed(a & magnitude), signed(b & magnitude))) <= infinity) & (a != b)
        copies[0][_At(i)] = a if counts else signed(0)
        copies[1][_At(i)] = b if counts else signed(0)


@jit
def _widen_half(source: _Array, start: int, count: int, bits: _Array) -> None:
    """Make the bits of binary32 from those of binary16, of which none is a NaN."""
    for i in range(count):
        half = _Word(source[_At(start) + _At(i)])
        shifted = _Word(_Word(half & _Word(0x7FFF)) << _Word(13))
        small = np.float32(_Word(shifted + _SUBNORMAL).view(np.float32) - _LEAST_NORMAL)
        normal = _SINGLE_INFINITY if shifted >= _HALF_TOP else _Word(shifted + _REBIASED)
        made = np.float32(small).view(np.int32) if shifted < _HALF_NORMAL else normal
        bits[_At(i)] = _Word(_Word(made) | _Word(half & _SINGLE_SIGN))


@jit
def _widen_bfloat(source: _Array, start: int, count: int, bits: _Array) -> None:
    """Make the bits of binary32 from those of bfloat16."""
    for i in range(count):
        bits[_At(i)] = _Word(_Word(source[_At(start) + _At(i)]) << _Word(16))


@jit
def _beyond(x: _Array, y: _Array, start: int, count: int, gap: float, ratio: float) -> Any:
    """Say whether any difference is larger than ``gap``, or may be larger than ``ratio`` relatively."""
    bound = min(max(_Long(_Long(_Double(ratio).view(np.int64)) & _CUT).view(np.float64), _LEAST_BOUND), _MOST_BOUND)
    beyond = _Long(0)
    for i in range(count):
        a, b = _Double(x[_At(start) + _At(i)]), _Double(y[_At(start) + _At(i)])
        apart, p, q = abs(a - b), abs(a), abs(b)
        larger = p if p > q else q
        beyond = _Long(beyond | _Long(apart > gap) | _Long(apart > bound * larger))
    return beyond != _Long(0)


@jit
def _ratio(apart: float, a: float, b: float) -> Any:
    """Return a relative difference: 0 of two zeros, infinity if one is infinite."""
    p, q = abs(a), abs(b)
    larger = p if p > q else q
    return apart / (larger if (larger > _ZERO) & (larger < _INFINITE) else _ONE)


@jit
def _largest(x: _Array, y: _Array, start: int, count: int) -> tuple[Any, Any]:
    """Return the largest difference, absolute and relative."""
    gap, ratio = _Long(0), _Long(0)
    for i in range(count):
        a, b = _Double(x[_At(start) + _At(i)]), _Double(y[_At(start) + _At(i)])
        apart = abs(a - b)
        gap = max(gap, _Double(apart).view(np.int64))
        ratio = max(ratio, _Double(_ratio(apart, a, b)).view(np.int64))
    return _Long(gap).view(np.float64), _Long(ratio).view(np.float64)


@jit
def _outside(
    p: _Array, q: _Array, x: _Array, y: _Array, starts: tuple[int, int], count: int, magnitude: Any, bounds: _Bounds
) -> Any:
    """Return how many elements that differ are beyond the bounds: absolute, relative, in steps."""
    atol, rtol, ulp = bounds
    mask, outside = _Long(magnitude), _Long(0)
    for i in range(count):
        a, b = _Long(p[_At(starts[0]) + _At(i)]), _Long(q[_At(starts[0]) + _At(i)])
        m, n = _Long(a & mask), _Long(b & mask)
        along = _Wide(max(m, n)) - _Wide(min(m, n))
        far = _Wide(m) + _Wide(n) if _Long(a ^ b) < _Long(0) else along
        v, w = _Double(x[_At(starts[1]) + _At(i)]), _Double(y[_At(starts[1]) + _At(i)])
        apart = abs(v - w)
        outside += _Long((a != b) & (apart > atol) & (_ratio(apart, v, w) > rtol) & (far > ulp))
    return outside


@jit
def _first(p: _Array, q: _Array, start: int) -> int:
    """Return where the first elements are that differ; there are some."""
    i = start
    while p[_At(i)] == q[_At(i)]:
        i += 1
    return i


@jit
def _place(x: _Array, y: _Array, start: int, gap: float) -> int:
    """Return where the first elements are that are so far apart; there are some."""
    i = start
    while abs(_Double(x[_At(i)]) - _Double(y[_At(i)])) != gap:
        i += 1
    return i


@jit
def _values(
    p: _Array, q: _Array, x: _Array, y: _Array, starts: tuple[int, int], count: int, most: Any, always: bool
) -> tuple[int, float, float]:
    """Return the index in the chunk of a larger difference than ``most`` had, or -1, and the larger of the maxima.

    The bits are those from ``starts[0]`` on, the values those from ``starts[1]`` on.
    """
    place, (gap, ratio) = -1, most
    if always or _beyond(x, y, starts[1], count, gap, ratio):
        top, relative = _largest(x, y, starts[1], count)
        ratio = max(ratio, relative)
        if top > gap:
            gap = top
            zeros = top == _ZERO  # of either sign
            place = _first(p, q, starts[0]) - starts[0] if zeros else _place(x, y, starts[1], top) - starts[1]
    return place, gap, ratio


@jit
def _widen(p: _Array, q: _Array, start: int, count: int, bits: tuple[_Array, _Array], half: bool) -> None:
    if half:
        _widen_half(p, start, count, bits[0])
        _widen_half(q, start, count, bits[1])
    else:
        _widen_bfloat(p, start, count, bits[0])
        _widen_bfloat(q, start, count, bits[1])


@jit
def _measure(
    stored: _Pair,
    values: _Pair,
    masked: _Masked,
    bits: Any,
    half: bool,
    signed: Any,
    unsigned: Any,
    magnitude: Any,
    infinity: Any,
    most: _Most,
    bounds: _Bounds,
    always: bool,
) -> _Measured:
    """Measure elements. ``bits`` are what short floats are widened into, None for others.

    Return how many differ, are outside the bounds and have a NaN; the indices of the first that differ and of the
    largest difference above ``most``, or -1; how many steps they are apart at most; and the largest difference,
    absolute and relative, those before included.
    """
    differing, outside, nan, first, largest = 0, 0, 0, -1, -1
    steps = _Wide(0)
    gap, ratio = most
    for start in range(0, stored[0].size, CHUNK):
        count = min(CHUNK, stored[0].size - start)
        (p, q), (x, y), at = stored, values, start
        found, top, far = _scan(p, q, at, count, signed, unsigned, magnitude)
        some = int(found)
        if some == 0:
            continue
        if first < 0:
            first = _first(p, q, at)
        differing += some
        if top >= infinity:
            _mask(p, q, at, count, masked[0], signed, magnitude, infinity)
            (p, q), (x, y), at = masked[1], masked[2], 0
            found, top, far = _scan(p, q, at, count, signed, unsigned, magnitude)
            nan += some - int(found)
            outside += some - int(found)
            if int(found) == 0:
                continue
        starts = (at, at)
        if bits is not None:
            _widen(p, q, at, count, bits, half)
            starts = (at, 0)
        steps = max(steps, _Wide(far))
        place, gap, ratio = _values(p, q, x, y, starts, count, (gap, ratio), always)
        if place >= 0:
            largest = start + place
        if bounds[0] < _INFINITE and _beyond(x, y, starts[1], count, bounds[0], _MOST_BOUND):
            outside += _outside(p, q, x, y, starts, count, magnitude, bounds)
    return differing, outside, nan, first, largest, steps, gap, ratio


@jit
def _measure_f32(stored: _Pair, values: _Pair, masked: _Masked, bits: None, most: _Most, bounds: _Bounds) -> _Measured:
    width = _Word, _UnsignedWord, _SINGLE_MAGNITUDE, _SINGLE_INFINITY
    return _measure(stored, values, masked, bits, False, *width, most, bounds, False)


@jit
def _measure_f64(stored: _Pair, values: _Pair, masked: _Masked, bits: None, most: _Most, bounds: _Bounds) -> _Measured:
    width = _Long, _Wide, _DOUBLE_MAGNITUDE, _DOUBLE_INFINITY
    return _measure(stored, values, masked, bits, False, *width, most, bounds, True)


@jit
def _measure_f16(stored: _Pair, values: _Pair, masked: _Masked, bits: _Pair, most: _Most, bounds: _Bounds) -> _Measured:
    width = _Half, _UnsignedHalf, _HALF_MAGNITUDE, _HALF_INFINITY
    return _measure(stored, values, masked, bits, True, *width, most, bounds, False)


@jit
def _measure_bf16(
    stored: _Pair, values: _Pair, masked: _Masked, bits: _Pair, most: _Most, bounds: _Bounds
) -> _Measured:
    width = _Half, _UnsignedHalf, _HALF_MAGNITUDE, _BFLOAT_INFINITY
    return _measure(stored, values, masked, bits, False, *width, most, bounds, False)


_MEASURES: Final[dict[str, Callable[..., _Measured]]] = {
    "f32": _measure_f32,
    "f64": _measure_f64,
    "f16": _measure_f16,
    "bf16": _measure_bf16,
}
_WIDTHS: Final = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}  # bytes


def measure(name: str, raw: tuple[Any, Any], most: _Most, bounds: tuple[float, float, int]) -> _Measured:
    """Measure stored elements of a type. ``most`` and what is returned are those of ``_measure``.

    ``most`` is the largest difference before these elements, absolute and relative, -1 if there is none; ``bounds`` are
    tolerances, absolute, relative and in steps, all of which an element has to exceed to be outside.
    """
    width = _WIDTHS[name]
    whole, real = np.dtype(f"<i{width}"), np.dtype(f"<f{width}")
    copies = _pair(np.empty((2, CHUNK), whole))
    stored, seen = _read_only(np.frombuffer(part, whole) for part in raw), _read_only(copies)
    limits = bounds[0], bounds[1], np.uint64(min(bounds[2], (1 << 64) - 1))
    if width > 2:
        values, bits = _pair([part.view(real) for part in stored]), None
        masked = copies, seen, _pair([part.view(real) for part in seen])
    else:
        bits = _pair(np.empty((2, CHUNK), np.int32))
        values = _read_only(part.view(np.float32) for part in bits)
        masked = copies, seen, values
    return _MEASURES[name](stored, values, masked, bits, most, limits)


def _pair(parts: Any) -> _Pair:
    one, other = parts
    return one, other


def _read_only(parts: Any) -> _Pair:
    """Return views that are aligned and read-only: functions are compiled for one set of types."""
    views = [part.view() if part.flags.aligned else part.copy() for part in parts]
    for view in views:
        view.flags.writeable = False
    return _pair(views)
