"""Elements side by side: numpy, compiled code and the same code as plain Python find what the definition says."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckptspec
from ckptspec import elements
from ckptspec.elements import NONE, Difference, Tolerance, element_differences
from ckptspec.errors import ArgumentError
from ckptspec.spec.dtypes import OAM_DTYPES, numpy_type

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


# ------------------------------------------------------------------------------------------------------- many elements


def noisy(kind: str, number: int, *, odd: bool = False) -> Raw:
    """Return elements that nearly all differ; some of them equal, and if asked for some not finite."""
    random = np.random.default_rng(number)
    dtype = numpy_type(OAM_DTYPES[kind])
    one = random.standard_normal(number)
    other = one + 1e-2 * random.standard_normal(number)
    sides = [side.astype(np.float32).astype(dtype) for side in (one, other)]
    if odd:
        for side in sides:
            side[random.integers(0, number, 1 + number // 64)] = math.nan
            side[random.integers(0, number, 2)] = math.inf
            side[random.integers(0, number, 1 + number // 64)] = 0.0
    sides[1][number // 3] = sides[0][number // 3]
    return sides[0].tobytes(), sides[1].tobytes()


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
class TestMany:
    """Sizes around the chunks of compiled code."""

    def check(self, compare: Compare, kind: str, odd: bool) -> None:
        for number in (1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5):
            raw = noisy(kind, number, odd=odd)
            for tolerance in (Tolerance(), Tolerance(atol=1e-3, ulp=3), Tolerance(rtol=1.5)):
                assert compare(kind, raw, tolerance) == defined(kind, raw, tolerance), number

    def test_numpy(self, kind: str, odd: bool) -> None:
        self.check(by_numpy, kind, odd)

    def test_plain_python(self, plain: Compare, kind: str, odd: bool) -> None:
        raw = noisy(kind, CHUNK + 7, odd=odd)
        for tolerance in (Tolerance(), Tolerance(atol=1e-3, ulp=3)):
            assert plain(kind, raw, tolerance) == defined(kind, raw, tolerance)

    def test_compiled(self, compiled: Compare, kind: str, odd: bool) -> None:
        self.check(compiled, kind, odd)


def numpy_only(patch: Patch) -> None:
    patch.setenv("CKPTSPEC_ELEMENTS", "numpy")


def numba_only(patch: Patch) -> None:
    pytest.importorskip("numba")
    patch.setenv("CKPTSPEC_ELEMENTS", "numba")


@pytest.mark.parametrize("choose", [numpy_only, numba_only])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(atol=1e-3)])
def test_piece_by_piece(kind: str, choose: Callable[[Patch], None], tolerance: Tolerance, monkeypatch: Patch) -> None:
    """What was found before may spare work, and does not change the result."""
    choose(monkeypatch)
    scalar = OAM_DTYPES[kind]
    for raw in (noisy(kind, 300), noisy(kind, 300, odd=True), (noisy(kind, 300)[0], bytes(300 * scalar.size))):
        for number in (1, 7, 100, 299):
            total = NONE
            for start in range(0, 300, number):
                part = [memoryview(side)[start * scalar.size : (start + number) * scalar.size] for side in raw]
                total = element_differences((part[0], part[1]), scalar, tolerance, total, start)
            assert total == defined(kind, raw, tolerance)


# ----------------------------------------------------------------------------------------------------------- the choice


class TestChoice:
    RAW = noisy("f32", 500)

    @pytest.fixture
    def fresh(self, monkeypatch: Patch) -> elements._Compiled:
        choice = elements._Compiled("f32")
        monkeypatch.setitem(elements._compiled, "f32", choice)
        return choice

    def found(self) -> Difference:
        return element_differences(self.RAW, OAM_DTYPES["f32"], Tolerance())

    def test_unknown_way(self, monkeypatch: Patch) -> None:
        monkeypatch.setenv("CKPTSPEC_ELEMENTS", "fast")
        with pytest.raises(ArgumentError, match="CKPTSPEC_ELEMENTS: found 'fast', expected numpy or numba"):
            self.found()

    @pytest.mark.usefixtures("fresh")
    def test_forced_without_numba_warns_once(self, monkeypatch: Patch) -> None:
        monkeypatch.setitem(sys.modules, "ckptspec._elements_numba", None)
        monkeypatch.delattr(ckptspec, "_elements_numba", raising=False)
        monkeypatch.setenv("CKPTSPEC_ELEMENTS", "numba")
        with pytest.warns(RuntimeWarning, match="no numba, so numpy compares the elements"):
            assert self.found() == defined("f32", self.RAW, Tolerance())
        assert self.found() == defined("f32", self.RAW, Tolerance())

    def test_wrong_code_is_not_used(self, fresh: elements._Compiled, monkeypatch: Patch) -> None:
        wrong = SimpleNamespace(measure=lambda *_: (1, 0, 0, 0, 0, 1, 1.0, 1.0))
        monkeypatch.setitem(sys.modules, "ckptspec._elements_numba", wrong)
        monkeypatch.setattr(ckptspec, "_elements_numba", wrong, raising=False)
        with pytest.warns(RuntimeWarning, match="numba fails, so numpy compares the elements"):
            assert fresh.engine(1 << 40, at_once=False) is None
        assert self.found() == defined("f32", self.RAW, Tolerance())

    def test_when_it_pays(self, fresh: elements._Compiled, monkeypatch: Patch) -> None:
        measure = Mock()
        monkeypatch.setattr(fresh, "_on_disk", lambda: True)
        monkeypatch.setattr(fresh, "_load", lambda _: measure)
        assert fresh.engine(elements._LOADING_PAYS - 1, at_once=False) is None
        assert fresh.engine(1, at_once=False) is measure
