"""Elements side by side: numpy, compiled code and the same code as plain Python find what the definition says."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import elements
from ckptspec.elements import NONE, Difference, Tolerance
from ckptspec.spec.dtypes import OAM_DTYPES

Patch = pytest.MonkeyPatch
Raw = tuple[bytes, bytes]
Compare = Callable[[str, Raw, Tolerance], Difference]

# Bits of exponent and of mantissa.
FORMATS = {"f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "f64": (11, 52)}
CHUNK = 1024  # elements that compiled code takes at a time


# ------------------------------------------------------------------------------------------------------- the definition


def value(bits: int, kind: str) -> Fraction | float:
    """Return what bits stand for; a NaN or an infinity as a float."""
    exponent_bits, mantissa_bits = FORMATS[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa, exponent = bits & ((1 << mantissa_bits) - 1), bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    mantissa |= (exponent > 0) << mantissa_bits
    return sign * mantissa * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)


def rounded(number: Fraction | float) -> float:
    """Round to binary64."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def place(bits: int, kind: str) -> int:
    """Return a place in the order of the values; both zeros have the same."""
    top = 1 << sum(FORMATS[kind])
    return -(bits - top) if bits & top else bits


def measured(p: int, q: int, kind: str) -> tuple[float, float, int] | None:
    """Return how far two elements are apart, None if one is a NaN."""
    x, y = value(p, kind), value(q, kind)
    if x != x or y != y:
        return None
    steps = abs(place(p, kind) - place(q, kind))
    if isinstance(x, float) or isinstance(y, float):
        return math.inf, math.inf, steps
    gap = rounded(abs(x - y))
    most = float(max(abs(x), abs(y)))
    return gap, gap / most if most else 0.0, steps


def defined(kind: str, raw: Raw, tolerance: Tolerance) -> Difference:
    """Return what a comparison must find, element by element."""
    width = (1 + sum(FORMATS[kind])) // 8
    sides = [[int.from_bytes(side[at : at + width], "little") for at in range(0, len(side), width)] for side in raw]
    unequal = [(at, measured(p, q, kind)) for at, (p, q) in enumerate(zip(*sides, strict=True)) if p != q]
    found = [(at, *apart) for at, apart in unequal if apart is not None]
    outside = sum(
        not tolerance or (gap > tolerance.atol and ratio > tolerance.rtol and steps > tolerance.ulp)
        for _, gap, ratio, steps in found
    )
    gaps, ratios, steps = zip(*[apart[1:] for apart in found], strict=True) if found else ((), (), ())
    return Difference(
        differing=len(unequal),
        outside=outside + len(unequal) - len(found),
        nan=len(unequal) - len(found),
        max_abs=max(gaps, default=None),
        max_rel=max(ratios, default=None),
        max_ulp=max(steps, default=None),
        first=unequal[0][0] if unequal else None,
        largest=found[gaps.index(max(gaps))][0] if found else None,
    )


def test_the_definition() -> None:
    raw = (
        np.array([1, 2.5, 0, math.inf, math.nan, 3], "<f4").tobytes(),
        np.array([1, 2, -0.0, 1, 1, 4], "<f4").tobytes(),
    )
    assert defined("f32", raw, Tolerance()) == Difference(
        differing=5, outside=5, nan=1, max_abs=math.inf, max_rel=math.inf, max_ulp=0x40000000, first=1, largest=3
    )
    assert defined("f32", raw, Tolerance(atol=0.5)).outside == 3
    assert defined("f32", (raw[0][:4], raw[1][:4]), Tolerance()) == NONE


# ---------------------------------------------------------------------------------------------------- the ways to do it


def by_numpy(kind: str, raw: Raw, tolerance: Tolerance) -> Difference:
    return elements._by_numpy(raw, OAM_DTYPES[kind], tolerance, NONE)


@pytest.fixture(scope="module")
def plain() -> Compare:
    """What is compiled elsewhere, as plain Python: numba is not needed."""
    with Patch.context() as patch:
        patch.setitem(sys.modules, "numba", SimpleNamespace(njit=lambda **_: lambda function: function))
        spec = importlib.util.find_spec("ckptspec._elements_numba")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    assert module.CHUNK == CHUNK
    return compared_by(module)


@pytest.fixture(scope="module")
def compiled() -> Compare:
    """Compiled code; compiling takes some seconds where this machine has none yet."""
    pytest.importorskip("numba")
    for choice in elements._compiled.values():
        assert choice.engine(0, at_once=True) is not None
    from ckptspec import _elements_numba

    return compared_by(_elements_numba)


def compared_by(module: ModuleType) -> Compare:
    def compare(kind: str, raw: Raw, tolerance: Tolerance) -> Difference:
        with np.errstate(invalid="raise", divide="raise", over="ignore" if kind == "f64" else "raise"):
            return elements._by(module.measure, OAM_DTYPES[kind], raw, tolerance, NONE)

    return compare


@st.composite
def pairs(draw: Any) -> tuple[str, Raw]:
    """Two sides of the same type: bits of every kind, sides that are alike, much the same, or not at all."""
    kind = draw(st.sampled_from(list(FORMATS)))
    exponent_bits, mantissa_bits = FORMATS[kind]
    width = 1 + exponent_bits + mantissa_bits
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    one = ((1 << (exponent_bits - 1)) - 1) << mantissa_bits
    near = [at + step for at in (0, 1 << mantissa_bits, one, 2 * one, infinity) for step in (-1, 0, 1, 2)]
    special = st.sampled_from(
        [bits | sign << (width - 1) for bits in near if 0 <= bits < 1 << width for sign in (0, 1)]
    )
    finite = st.integers(0, infinity - 1)
    bits = st.one_of(special, finite, st.integers(0, (1 << width) - 1))
    sides = st.one_of(
        st.tuples(bits, bits),
        bits.map(lambda p: (p, p)),
        st.tuples(bits, st.integers(0, width - 1)).map(lambda made: (made[0], made[0] ^ 1 << made[1])),
        st.tuples(finite, st.integers(1, 4)).map(lambda made: (made[0], min(infinity, made[0] + made[1]))),
        finite.map(lambda p: (p, p | 1 << (width - 1))),
    )
    made = draw(st.lists(sides, min_size=1, max_size=12))
    raw = [b"".join(pair[side].to_bytes(width // 8, "little") for pair in made) for side in (0, 1)]
    return kind, (raw[0], raw[1])


TOLERANCES = st.one_of(
    st.just(Tolerance()),
    st.builds(
        Tolerance,
        atol=st.sampled_from([0.0, 5e-324, 1e-3, 0.5, 1e30, math.inf]),
        rtol=st.sampled_from([0.0, 1e-6, 0.1, 1.0, math.inf]),
        ulp=st.sampled_from([0, 1, 100, 1 << 40, 1 << 70]),
    ),
)


@settings(max_examples=200, deadline=None)
@given(pairs(), TOLERANCES)
def test_numpy(made: tuple[str, Raw], tolerance: Tolerance) -> None:
    assert by_numpy(*made, tolerance) == defined(*made, tolerance)


@settings(max_examples=120, deadline=None)
@given(made=pairs(), tolerance=TOLERANCES)
def test_plain_python(plain: Compare, made: tuple[str, Raw], tolerance: Tolerance) -> None:
    assert plain(*made, tolerance) == defined(*made, tolerance)


@settings(max_examples=200, deadline=None)
@given(made=pairs(), tolerance=TOLERANCES)
def test_compiled(compiled: Compare, made: tuple[str, Raw], tolerance: Tolerance) -> None:
    assert compiled(*made, tolerance) == defined(*made, tolerance)
