"""Elements of any scalar type side by side: how many differ, and by how much at most.

Floats are compared in binary64, which holds every value of every narrower type exactly, integers as integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from ._elements_numpy import TYPES, Largest, largest_differences
from .compiled import Compiled
from .settings import setting
from .spec.dtypes import OAM_DTYPES, ScalarType, numpy_type

__all__ = ["NONE", "Difference", "Tolerance", "common_type", "differences", "element_differences", "values_of"]

Array = np.ndarray[Any, np.dtype[Any]]

_EXACT: Final = frozenset(("f32", "bf16", "f16", "f64", "i8", "i16", "i32", "u8", "u16", "u32", "bool"))
_COMPLEX: Final = frozenset(("c64", "c128"))
_MANY: Final = 16  # from one in so many on, it is faster to look at all elements than to pick those that differ
_Measure: TypeAlias = Callable[..., tuple[int, int, int, int, int, Any, float, float]]
_LOADING_PAYS: Final = (
    1 << 29
)  # bytes of a side; numpy spends about a second on them, as loading compiled code may take
_COMPILING_PAYS: Final = 1 << 32  # bytes of a side; numpy spends some seconds on them, as compiling takes
_UNSIGNED: Final = frozenset(("u8", "u16", "u32", "u64", "bool"))
_SIGNED: Final = frozenset(("i8", "i16", "i32", "i64", "u8", "u16", "u32", "bool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much two elements may differ and still count as equal: it is enough to be within one of the bounds.

    ``rtol`` is relative to the larger magnitude of the two. Integers have only ``atol``.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulp: int = 0

    def __bool__(self) -> bool:
        return bool(self.atol or self.rtol or self.ulp)

    def holds(self, found: Difference) -> bool:
        """Say whether all elements are within one and the same bound, none of them a NaN."""
        if not self or found.nan:
            return False
        bounds = ((found.max_abs, self.atol), (found.max_rel, self.rtol), (found.max_ulp, self.ulp))
        return any(most is not None and most <= bound for most, bound in bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two tensors of the same shape differ. What was not measured, or has no meaning for the type, is None.

    ``differing`` elements have other bits (other values, where the types are not the same), ``outside`` of them are
    beyond the tolerance; ``nan`` of them are a NaN on one side at least. Maxima are over the others. ``first`` is the
    flat index of the first element that differs, ``largest`` that of the largest absolute difference.
    """

    differing: int = 0
    outside: int = 0
    nan: int = 0
    max_abs: float | int | None = None
    max_rel: float | None = None
    max_ulp: int | None = None
    first: int | None = None
    largest: int | None = None

    def joined(self, later: Difference) -> Difference:
        """Return the difference of both parts together; ``later`` has the larger indices."""
        if not later.differing:
            return self
        if not self.differing:
            return later
        larger = later.max_abs is not None and (self.max_abs is None or later.max_abs > self.max_abs)
        return Difference(
            differing=self.differing + later.differing,
            outside=self.outside + later.outside,
            nan=self.nan + later.nan,
            max_abs=later.max_abs if larger else self.max_abs,
            max_rel=_larger(self.max_rel, later.max_rel),
            max_ulp=_larger(self.max_ulp, later.max_ulp),
            first=self.first,
            largest=later.largest if larger else self.largest,
        )

    def moved(self, start: int) -> Difference:
        """Return the same difference ``start`` elements further on."""
        return replace(
            self,
            first=None if self.first is None else self.first + start,
            largest=None if self.largest is None else self.largest + start,
        )


def _larger(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


NONE: Final = Difference()
EXACT: Final = Tolerance()


# --------------------------------------------------------------------------------------------------------------- values


def _lane_size(scalar: ScalarType) -> int:
    """Return the bytes of an element's lanes, whose bits are compared: at most 8."""
    return min(8, scalar.size // scalar.lanes)


@cache
def _bytes_table(scalar: ScalarType) -> tuple[Array, Array]:
    """Return value and rank among all values of each of the 256 patterns of an 8-bit float; a NaN has rank 0."""
    with np.errstate(invalid="ignore"):
        values = np.arange(256, dtype=np.uint8).view(numpy_type(scalar)).astype(np.float64)
    distinct = np.unique(values[~np.isnan(values)])
    return values, np.searchsorted(distinct, np.where(np.isnan(values), distinct[0], values)).astype(np.int64)


def _is_small_float(scalar: ScalarType) -> bool:
    return scalar.name.startswith("f8_")


def values_of(raw: Any, scalar: ScalarType) -> Array:
    """Return stored elements as binary64, complex of two binary64, or 64-bit integers."""
    bits: Array = np.frombuffer(raw, np.uint8) if not isinstance(raw, np.ndarray) else raw.reshape(-1).view(np.uint8)
    if _is_small_float(scalar):
        made: Array = _bytes_table(scalar)[0][bits]
        return made
    with np.errstate(invalid="ignore"):  # a signalling NaN
        if scalar.name == "bf16":
            wide = bits.view("<u2").astype(np.uint32)
            wide <<= 16
            return wide.view(np.float32).astype(np.float64)
        lanes = bits.view("u1" if scalar.name == "bool" else numpy_type(scalar))
        kinds = {"f": np.float64, "c": np.complex128}
        dtype = kinds.get(lanes.dtype.kind, np.uint64 if scalar.name == "u64" else np.int64)
        return lanes.astype(dtype, copy=False)


def common_type(one: ScalarType, other: ScalarType) -> str | None:
    """Return the type in which the values of two types are compared, all of them exact; None if there is none."""
    names = {one.name, other.name}
    floats = _EXACT | {scalar.name for scalar in (one, other) if _is_small_float(scalar)}
    for common, members in (("f64", floats), ("c128", floats | _COMPLEX), ("i64", _SIGNED), ("u64", _UNSIGNED)):
        if names <= members:
            return common
    return None


_NUMPY: Final = {"f64": np.float64, "c128": np.complex128, "i64": np.int64, "u64": np.uint64}


# ---------------------------------------------------------------------------------------------------------- differences


def element_differences(
    raw: tuple[Any, Any], scalar: ScalarType, tolerance: Tolerance, before: Difference = NONE, start: int = 0
) -> Difference:
    """Compare stored elements of the same type, bit by bit and then by value.

    ``before`` is the difference of the elements before these, which are ``start``; return that of all together.
    """
    way = setting("CKPTSPEC_ELEMENTS", "numpy", "numba")
    choice = None if way == "numpy" else _compiled.get(scalar.name)
    measure = None if choice is None else choice.engine(len(raw[0]), at_once=way == "numba")
    if measure is not None:
        return before.joined(_by(measure, scalar, raw, tolerance, before).moved(start))
    return before.joined(_by_numpy(raw, scalar, tolerance, before).moved(start))


def _by(
    measure: _Measure, scalar: ScalarType, raw: tuple[Any, Any], tolerance: Tolerance, before: Difference
) -> Difference:
    """Compare by compiled code, which passes over differences that are not larger than those before."""
    bounds = tolerance.atol if tolerance else math.inf, tolerance.rtol, tolerance.ulp  # infinite: nothing to count
    differing, outside, nan, first, largest, steps, gap, ratio = measure(scalar.name, raw, _most(before), bounds)
    if not differing:
        return NONE
    finite = differing > nan
    return Difference(
        differing=differing,
        outside=outside if tolerance else differing,
        nan=nan,
        max_abs=gap if finite else None,
        max_rel=ratio if finite else None,
        max_ulp=int(steps) if finite else None,
        first=first,
        largest=largest if largest >= 0 else None,
    )


class _Compiled(Compiled["_Measure"]):
    """The compiled code for a type, from the moment when it pays."""

    def __init__(self, name: str) -> None:
        self._name = name
        names = f"_elements_numba._measure_{name}-", "comparison", "compares the elements"
        super().__init__(*names, loading=_LOADING_PAYS, compiling=_COMPILING_PAYS)

    def _checked(self) -> _Measure:
        from ._elements_numba import measure

        scalar = OAM_DTYPES[self._name]
        bits = np.arange(1 << 16, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # some are NaN, some are infinite
        raw = bits.tobytes(), (bits ^ (bits >> np.uint64(60))).tobytes()
        if _by(measure, scalar, raw, EXACT, NONE) != _by_numpy(raw, scalar, EXACT, NONE):
            raise ArithmeticError("compiled code finds other differences")
        return measure


_compiled: Final = {name: _Compiled(name) for name in TYPES}


def _by_numpy(raw: tuple[Any, Any], scalar: ScalarType, tolerance: Tolerance, before: Difference) -> Difference:
    """Compare by numpy; maxima that are not larger than those before may be missing."""
    width = _lane_size(scalar)
    lanes = scalar.size // width
    one, other = (np.frombuffer(part, f"<u{width}") for part in raw)
    unequal = one != other
    if lanes > 1:
        one, other = one.reshape(-1, lanes), other.reshape(-1, lanes)
        unequal = unequal.reshape(-1, lanes).any(axis=1)
    number = int(np.count_nonzero(unequal))
    if not number:
        return NONE
    if scalar.name in TYPES and _MANY * number >= unequal.size:
        most = _most(NONE if tolerance else before)
        found = largest_differences(one, other, scalar.name, most)
        if found is not None:
            places = found.odd[unequal[found.odd]]
            total = _together(found, number, int(np.argmax(unequal)), _picked(one, other, places, scalar))
            within = tolerance.holds(total)
            if within or not tolerance:
                return replace(total, outside=0 if within else number)
    return _picked(one, other, None if number == unequal.size else np.flatnonzero(unequal), scalar, tolerance)


def _most(before: Difference) -> tuple[float, float]:
    """Return the largest difference so far, absolute and relative, as -1 if there is none."""
    gap, ratio = before.max_abs, before.max_rel
    return -1.0 if gap is None else float(gap), -1.0 if ratio is None else ratio


def _together(found: Largest, number: int, first: int, odd: Difference) -> Difference:
    """Return what was found out about all elements that differ, those that are odd being measured apart."""
    gap, place = found.gap, found.place
    if odd.max_abs is not None and (gap is None or (odd.max_abs, place) > (gap, odd.largest)):  # or as large, earlier
        gap, place = odd.max_abs, odd.largest
    return Difference(
        differing=number,
        nan=odd.nan,
        max_abs=gap,
        max_rel=_larger(found.ratio, odd.max_rel),
        max_ulp=_larger(found.steps, odd.max_ulp),
        first=first,
        largest=place,
    )


def _picked(
    one: Array, other: Array, places: Array | None, scalar: ScalarType, tolerance: Tolerance = EXACT
) -> Difference:
    """Measure the elements with these indices, all of which differ; None means all that there are."""
    if places is not None:
        one, other = one[places], other[places]
    if not len(one):
        return NONE
    values = [values_of(part, scalar) for part in (one, other)]
    if scalar.lanes > 1:
        values = [part.reshape(-1, scalar.lanes) for part in values]
    return _measured(values[0], values[1], _ulps(one, other, scalar), places, tolerance)


def differences(one: Array, other: Array, common: str, tolerance: Tolerance) -> Difference:
    """Compare values of two types in their common one; a NaN equals a NaN."""
    dtype = _NUMPY[common]
    one, other = one.astype(dtype, copy=False), other.astype(dtype, copy=False)
    unequal = one != other
    if one.dtype.kind in "fc":
        unequal &= ~(np.isnan(one) & np.isnan(other))
    places = np.flatnonzero(unequal)
    if not places.size:
        return NONE
    return _measured(one[places], other[places], None, places, tolerance)


def _measured(one: Array, other: Array, ulps: Array | None, places: Array | None, tolerance: Tolerance) -> Difference:
    """Measure elements all of which differ; ``places`` are their indices, None if they are all that there are."""
    number = len(one)
    first = 0 if places is None else int(places[0])
    if one.dtype.kind in "iu":
        return _measured_integers(one, other, places, first, tolerance)
    with np.errstate(all="ignore"):
        gaps = np.abs(one - other)
        nans = 0
        if math.isnan(gaps.max()):
            keep = ~(np.isnan(one) | np.isnan(other))
            nans = number - int(np.count_nonzero(keep))
            if nans == number:
                return Difference(differing=number, outside=number, nan=nans, first=first)
            if nans:
                kept = np.flatnonzero(keep)
                places = kept if places is None else places[kept]
                one, other, gaps, ulps = one[kept], other[kept], gaps[kept], None if ulps is None else ulps[kept]
            gaps[np.isnan(gaps)] = np.inf  # parts of complex numbers that are infinite on both sides
        ratios = np.maximum(np.abs(one), np.abs(other))
        np.divide(gaps, ratios, out=ratios)
        if math.isnan(ratios.max()):
            odd = np.isnan(ratios)  # 0 / 0, and infinity / infinity
            ratios[odd] = np.where(gaps[odd] == 0, 0.0, np.inf)
    at = int(np.argmax(gaps))
    most = (float(gaps[at]), float(ratios.max()), None if ulps is None else int(ulps.max()))
    outside = number - nans
    if tolerance:
        beyond = (gaps > tolerance.atol) & (ratios > tolerance.rtol)
        if ulps is not None:
            beyond &= ulps > np.uint64(min(tolerance.ulp, (1 << 64) - 1))
        outside = int(np.count_nonzero(beyond))
    return Difference(
        differing=number,
        outside=outside + nans,
        nan=nans,
        max_abs=most[0],
        max_rel=most[1],
        max_ulp=most[2],
        first=first,
        largest=at if places is None else int(places[at]),
    )


def _distance(one: Array, other: Array) -> Array:
    """Return the distances of integers of the same type, as unsigned ones of the same width: these cannot wrap."""
    unsigned = np.dtype(f"u{one.dtype.itemsize}")
    made: Array = np.maximum(one, other).view(unsigned)
    made -= np.minimum(one, other).view(unsigned)
    return made


def _measured_integers(one: Array, other: Array, places: Array | None, first: int, tolerance: Tolerance) -> Difference:
    gaps = _distance(one, other)
    if gaps.ndim > 1:
        gaps = gaps.max(axis=1)
    at = int(np.argmax(gaps))
    outside = len(gaps)
    if tolerance.atol:
        least = min(math.floor(tolerance.atol), (1 << 64) - 1) if math.isfinite(tolerance.atol) else (1 << 64) - 1
        outside = int(np.count_nonzero(gaps > np.uint64(least)))
    return Difference(
        differing=len(gaps),
        outside=outside,
        max_abs=int(gaps[at]),
        first=first,
        largest=at if places is None else int(places[at]),
    )


def _ulps(one: Array, other: Array, scalar: ScalarType) -> Array | None:
    """Return how many representable values apart floats are, as unsigned integers; None for what is no float."""
    if _is_small_float(scalar):
        ranks = _bytes_table(scalar)[1]
        return _distance(ranks[one], ranks[other])
    kind = "f" if scalar.name == "bf16" else numpy_type(scalar).kind
    if kind == "c":  # bits are those of pairs of binary32, or lanes of binary64
        width = scalar.size // 2
        apart = _distance(*(_ordered(part.reshape(-1).view(f"<u{width}")) for part in (one, other)))
        made: Array = apart.reshape(-1, 2).max(axis=1)
        return made
    return _distance(_ordered(one), _ordered(other)) if kind == "f" else None


def _ordered(bits: Array) -> Array:
    """Return the bits of floats as integers in the order of the values, both zeros as 0."""
    width = bits.dtype.itemsize
    sign = bits.view(f"<i{width}") >> (8 * width - 1)  # what numpy computes has the processor's byte order
    made: Array = sign.view(f"u{width}") >> 1
    made ^= bits
    signed = made.view(f"i{width}")
    signed -= sign
    return signed
