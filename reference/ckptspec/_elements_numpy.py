"""The largest differences of floats most of which differ, by numpy: few passes, most of them in binary32.

Elements up to binary32 are subtracted and divided in binary32, and only the largest differences once more in binary64.
Rounding is monotonic, so that the largest one is among those that are the largest as binary32. A ratio was rounded
twice, by less than one part in 2^22 together.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["TYPES", "Largest", "largest_differences"]

Array = np.ndarray[Any, np.dtype[Any]]

TYPES: Final = frozenset(("f32", "bf16", "f16", "f64"))
_HALF_LIMIT: Final = 2.0**16  # what is not finite is no smaller, see _values
_LIMITS: Final = {"f16": _HALF_LIMIT, "bf16": 2.0**127, "f32": 2.0**127, "f64": 2.0**1023}  # below, no gap overflows
_DENSE: Final = 8  # from one crossing of zero in so many on, it is faster to look at all elements
_LEAST_RATIO: Final = 1e-30  # smaller ones lose bits in binary32
_NEAR: Final = np.float32(1 - 2.0**-20)
_HALF_BIAS: Final = np.float32(2.0**112)


class Largest(NamedTuple):
    """What was found out about some elements, but for those with the indices ``odd``.

    ``gap`` is the largest difference, first found at the index ``place``, and ``ratio`` the largest relative one, both
    None if they are not larger than those before. The largest number of steps is ``steps``.
    """

    odd: Array
    gap: float | None
    place: int | None
    ratio: float | None
    steps: int


def largest_differences(one: Array, other: Array, name: str, most: tuple[float, float]) -> Largest | None:
    """Measure elements, given as unsigned integers; those that do not differ do not matter.

    ``most`` is the largest difference before these, absolute and relative, -1 if there was none. Elements that are not
    finite, or so large that a difference overflows, are ``odd``. None if it cannot be done: a ratio is too small for
    binary32, or there is no difference but those of zeros.
    """
    x, y = (_values(part, name) for part in (one, other))
    with np.errstate(all="ignore"):
        gaps = x - y
        np.abs(gaps, out=gaps)
        largest = gaps.max()
        sizes, rest = np.abs(x), np.abs(y)
        np.maximum(sizes, rest, out=sizes)
        odd = np.empty(0, np.intp)
        if not math.isfinite(largest) or (name == "f16" and sizes.max() >= _HALF_LIMIT):
            odd = np.flatnonzero(~(sizes < _LIMITS[name]))
            one, other, x, y = (_without(part, odd) for part in (one, other, x, y))
            gaps[odd], sizes[odd] = 0, 1
            largest = gaps.max()
        if not largest:
            return None
        ratios = np.divide(gaps, sizes, out=sizes)
        top = ratios.max()
        if math.isnan(top):  # 0 / 0
            ratios[np.isnan(ratios)] = 0
            top = ratios.max()
        if name == "f64":
            found = _whole(gaps, float(largest), float(top), most)
        elif top < _LEAST_RATIO:
            return None
        else:
            found = _refined((x, y), (gaps, ratios), (largest, top), most)
    return Largest(odd, *found, _steps(one, other))


def _values(bits: Array, name: str) -> Array:
    """Return binary64 from its bits, and binary32 from those of anything shorter.

    Of binary16, what is not finite becomes numbers from 2^16 on: its exponent is as good as any other.
    """
    if name == "f64":
        return bits.view("<f8")
    if name == "f32":
        return bits.view("<f4")
    if name == "bf16":
        wide = bits.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    wide = bits.view("<i2").astype(np.int32)  # the sign in all upper bits
    shifted = wide << 13
    shifted &= 0x0FFFE000
    wide &= -0x80000000
    wide |= shifted
    made = wide.view(np.float32)
    made *= _HALF_BIAS
    return made


def _without(part: Array, odd: Array) -> Array:
    part = part.copy()
    part[odd] = 0
    return part


_Found = tuple[float | None, int | None, float | None]


def _whole(gaps: Array, largest: float, top: float, most: tuple[float, float]) -> _Found:
    larger = largest > most[0]
    return largest if larger else None, int(np.argmax(gaps)) if larger else None, top if top > most[1] else None


def _refined(
    values: tuple[Array, Array], rounded: tuple[Array, Array], tops: tuple[Any, Any], most: tuple[float, float]
) -> _Found:
    gap = place = ratio = None
    if tops[0] >= np.float32(most[0]):
        ties = np.flatnonzero(rounded[0] == tops[0])
        exact, _ = _exact(*values, ties)
        at = int(np.argmax(exact))
        gap, place = float(exact[at]), int(ties[at])
    if tops[1] >= np.float32(most[1]) * _NEAR:
        near = np.flatnonzero(rounded[1] >= tops[1] * _NEAR)
        ratio = float(_exact(*values, near)[1].max())
    return gap, place, ratio


def _exact(x: Array, y: Array, places: Array) -> tuple[Array, Array]:
    """Return the differences of some elements, absolute and relative, in binary64."""
    if places.size < x.size:
        x, y = x[places], y[places]
    x, y = x.astype(np.float64), y.astype(np.float64)
    gaps = np.abs(x - y)
    return gaps, gaps / np.maximum(np.maximum(np.abs(x), np.abs(y)), np.finfo(np.float32).smallest_subnormal)


def _steps(one: Array, other: Array) -> int:
    """Return how many values elements are apart at most; none is a NaN."""
    signed = np.dtype(f"i{one.dtype.itemsize}")
    p, q = (part.view(signed.newbyteorder("<")) for part in (one, other))
    apart = p - q  # cannot wrap where the signs are the same
    signs = p ^ q
    crossing = signs < 0
    number = int(np.count_nonzero(crossing))
    magnitude = one.dtype.type(np.iinfo(signed).max)
    most = 0
    if number * _DENSE > apart.size:
        signs >>= 8 * signed.itemsize - 1  # all bits, or none
        sums = (one & magnitude) + (other & magnitude)
        sums &= signs.view(sums.dtype)
        most = int(sums.max())
        apart &= ~signs
    elif number:
        places = np.flatnonzero(crossing)
        apart[places] = 0
        most = int(((one[places] & magnitude) + (other[places] & magnitude)).max())
    return max(most, int(apart.max()), -int(apart.min()))
