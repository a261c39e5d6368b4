"""Statistics of tensors against numpy, for all dtypes; whatever the values, nothing warns or overflows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ckptspec import statistics
from ckptspec.contents import Entry
from ckptspec.elements import values_of
from ckptspec.quantization import quantize_array
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import OAM_DTYPES, SCALARS, ScalarType
from ckptspec.statistics import BINS, Statistics, measurable, statistics_of

MEASURED = [scalar for scalar in SCALARS if scalar.size]


def of(raw: bytes, scalar: ScalarType, encoding: str = "dense", shape: tuple[int, ...] | None = None) -> Statistics:
    elements = len(raw) // scalar.size if scalar.size else 0
    entry = Entry("t", scalar, (elements,) if shape is None else shape, encoding, 0, len(raw))
    ((_, made),) = statistics_of(BufferSource(raw), [entry])
    return made


def check(made: Statistics, values: Any) -> None:
    """Compare statistics with what numpy and exact arithmetic say of values, one row an element."""
    parts = values.view(np.float64) if values.dtype.kind == "c" else values
    rows = parts.reshape(-1, parts.size // max(1, made.elements) or 1)
    finite = parts[np.isfinite(parts)]
    assert made.parts == parts.size
    assert len(rows) == made.elements
    assert made.nan == np.isnan(rows).any(axis=1).sum()
    assert made.infinite == np.isinf(rows).any(axis=1).sum()
    if not finite.size:
        assert (made.minimum, made.maximum, made.mean, made.histogram) == (None, None, None, None)
        return
    assert made.minimum == finite.min()
    assert made.maximum == finite.max()
    exact: list[Fraction] = [Fraction(value) for value in finite.tolist()]
    largest = max(abs(value) for value in exact)
    assert made.mean is not None
    assert made.minimum is not None
    assert made.maximum is not None
    assert float(made.minimum) <= made.mean <= float(made.maximum)
    assert abs(Fraction(made.mean) - sum(exact, Fraction()) / len(exact)) <= largest * Fraction(1, 1 << 48) + Fraction(
        1, 1 << 1074
    )
    check_histogram(made, exact)


def check_histogram(made: Statistics, exact: list[Fraction]) -> None:
    found = made.histogram
    assert found is not None
    assert sum(found.counts) == len(exact)
    assert 1 <= len(found.counts) <= BINS
    assert found.counts[0] > 0
    assert found.counts[-1] > 0
    if made.minimum == made.maximum:
        assert (found.low, found.width) == (made.minimum, 0)
        return
    width = Fraction(found.width)
    bins = [math.floor(value / width) for value in exact]
    first = min(bins)
    assert found.low == max(first * width, -Fraction(np.finfo(np.float64).max)) or isinstance(found.low, int)
    counts = [0] * (max(bins) - first + 1)
    for place in bins:
        counts[place - first] += 1
    assert found.counts == tuple(counts)
    half = [math.floor(value / (width / 2)) for value in exact]
    smallest = 1 if isinstance(found.width, int) else Fraction(1, 1 << 1074)
    assert width == smallest or max(half) - min(half) >= BINS  # no narrower ones would do


@pytest.mark.parametrize("scalar", MEASURED, ids=lambda scalar: scalar.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_bytes_as_any_type(scalar: ScalarType, data: st.DataObject) -> None:
    element = st.one_of(
        st.binary(min_size=scalar.size, max_size=scalar.size),
        st.sampled_from([bytes(scalar.size), b"\xff" * scalar.size, bytes(scalar.size - 1) + b"\x80"]),
    )
    raw = b"".join(data.draw(st.lists(element, max_size=40)))
    check(of(raw, scalar), values_of(raw, scalar))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=40))
@example([-5e-324, -1e300])
@example([-5e-324, -1.0, 1e300])
@example([1.7976931348623157e308, 1.7976931348623157e308])
@example([-1.7976931348623157e308, 1.7976931348623157e308])
@example([5e-324, 1e-323])
@example([1.0, 1.0000000000000002])
def test_doubles_of_any_size(values: list[float]) -> None:
    array = np.array(values, np.float64)
    check(of(array.tobytes(), OAM_DTYPES["f64"]), array)


@settings(deadline=None)
@given(
    st.lists(st.one_of(FLOATS, st.sampled_from([math.nan, math.inf, -math.inf])), min_size=2, max_size=60),
    st.integers(1, 7),
)
def test_the_result_does_not_depend_on_the_pieces(values: list[float], piece: int) -> None:
    array = np.array(values, np.float64)
    whole = of(array.tobytes(), OAM_DTYPES["f64"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_PIECE", piece)
        parts = of(array.tobytes(), OAM_DTYPES["f64"])
    check(parts, array)
    assert parts.histogram == whole.histogram


@pytest.mark.parametrize("encoding", ["q4", "q8"])
@pytest.mark.parametrize("elements", [1, 31, 32, 33, 300_000])
def test_quantized_tensors_are_measured_by_the_values_that_they_stand_for(encoding: str, elements: int) -> None:
    array = np.random.default_rng(0).standard_normal(elements).astype(np.float32) - 3
    tensor = quantize_array(array, encoding)
    raw = tensor.payload.tobytes() + tensor.scales.tobytes()
    made = of(raw, OAM_DTYPES["f32"], encoding, (elements,))
    values = tensor.dequantize().astype(np.float64)
    assert made.elements == elements
    assert (made.minimum, made.maximum) == (values.min(), values.max())  # and not the zeros that fill the last block
    assert made.mean == pytest.approx(values.mean())


def test_a_scale_that_is_no_number() -> None:
    raw = bytes(range(16)) + np.array([np.nan], np.float32).tobytes()
    made = of(raw, OAM_DTYPES["f32"], "q4", (32,))
    assert (made.nan, made.minimum) == (32, None)


def test_many_tensors_large_and_small_come_in_the_order_of_the_file() -> None:
    large = np.random.default_rng(1).standard_normal(1_200_000).astype(np.float32)
    small = np.arange(3, dtype=np.float32)
    source = BufferSource(large.tobytes() + small.tobytes())
    entries = [
        Entry("small", OAM_DTYPES["f32"], (3,), "dense", large.nbytes, 12),
        Entry("none", OAM_DTYPES["f32"], (0,), "dense", 0, 0),
        Entry("large", OAM_DTYPES["f32"], (1_200_000,), "dense", 0, large.nbytes),
    ]
    made = dict(statistics_of(source, entries))
    assert list(made)[-1] == 0
    assert (made[0].minimum, made[0].maximum, made[0].mean) == (0, 2, 1)
    assert (made[1].elements, made[1].minimum) == (0, None)
    assert (made[2].minimum, made[2].maximum) == (large.min(), large.max())
    assert made[2].histogram is not None
    assert sum(made[2].histogram.counts) == large.size


def test_what_can_be_measured() -> None:
    def entry(scalar: ScalarType) -> Entry:
        return Entry("t", scalar, (2,), "dense", 0, 1)

    assert [scalar.name for scalar in SCALARS if not measurable(entry(scalar))] == ["f4_e2m1", "f6_e2m3", "f6_e3m2"]
