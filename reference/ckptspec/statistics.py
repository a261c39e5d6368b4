"""Statistics of tensors, of any size in constant memory: bounds, mean, what is not finite, a histogram.

A payload is read once, in pieces, on several threads. What is known of two pieces joins to what is known of both, and
the result does not depend on where they were cut: bounds, counts and histogram are exact. A histogram has at most
``BINS`` bins, whose width is a power of two and whose edges are multiples of it, the smallest width that will do: where
more values widen the range, bins join in pairs.

No value makes a warning or an overflow. Where there are few bit patterns, these are counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from .compare import decoded_elements, keep_memory, stored_elements
from .contents import DENSE, Entry
from .elements import values_of
from .parallel import batches, in_order
from .progress import advance
from .source import Source
from .spec.dtypes import ScalarType

__all__ = ["BINS", "Histogram", "Statistics", "measurable", "statistics_of"]

Array = np.ndarray[Any, np.dtype[Any]]

BINS: Final = 32  # most bins of a histogram
_PIECE: Final = 1 << 18  # elements that are looked at together; whole blocks of quantized ones
_SMALL: Final = 1 << 20  # bytes; less is not worth a thread
_SCALED: Final = 64  # binary digits by which values are made smaller whose sum is too large
_FINEST: Final = -1074  # exponent of the smallest binary64
_MARGIN: Final = BINS.bit_length()  # a range of n binary digits needs no wider bins than one of n - 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many finite values lie in each bin; the first begins at ``low``, each is ``width`` wide.

    Where all values are the same, there is one bin of no width.
    """

    low: float | int
    width: float | int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What the elements of a tensor are like.

    ``nan`` and ``infinite`` count elements; of a complex number one part is enough. Bounds, mean and histogram are of
    all finite values, None where there is none; those of complex numbers are of real and imaginary parts, ``parts`` of
    them together, and those of a ``u32x4`` of its four lanes.
    """

    elements: int
    parts: int
    nan: int
    infinite: int
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    histogram: Histogram | None


def measurable(entry: Entry) -> bool:
    """Say whether a tensor's elements are values that can be measured: not so if they are packed below a byte."""
    return bool(entry.scalar.size) or not entry.scalar.bits


def statistics_of(source: Source, entries: Sequence[Entry]) -> Iterator[tuple[int, Statistics]]:
    """Yield index and statistics of each tensor, in the order in which their payloads lie in the source.

    All of them must be ``measurable`` and lie in the source, and their sizes must follow from their shapes. Raises
    OSError if the source cannot be read.
    """
    order = sorted(range(len(entries)), key=lambda at: entries[at].offset)
    total = sum(entry.size for entry in entries)
    if total >= _SMALL:
        keep_memory()
    jobs = batches((job for at in order for job in _jobs(at, entries[at])), lambda job: job.size)

    def work(batch: list[_Job]) -> list[tuple[_Job, _Part]]:
        return [(job, _measured(source, job)) for job in batch]

    part: _Part | None = None
    with closing(in_order(work, jobs, threads=1 if total < _SMALL else None)) as results:
        for batch in results:
            for job, found in batch:
                part = found if part is None else part.joined(found)
                if job.last:
                    yield job.at, part.result()
                    part = None
                advance(job.size)


class _Job(NamedTuple):
    at: int  # of the tensor
    entry: Entry
    start: int  # in elements
    number: int
    size: int  # in bytes
    last: bool


def _jobs(at: int, entry: Entry) -> Iterator[_Job]:
    number = entry.elements
    step = _PIECE
    if not number or not entry.size:
        yield _Job(at, entry, 0, 0, 0, True)
        return
    for start in range(0, number, step):
        count = min(step, number - start)
        yield _Job(at, entry, start, count, entry.size * count // number, start + count == number)


def _measured(source: Source, job: _Job) -> _Part:
    entry, scalar = job.entry, job.entry.scalar
    if not job.number:
        return _Part(elements=entry.elements)
    raw = stored_elements(source, entry, job.start, job.number)
    if entry.encoding == DENSE and scalar.size <= 2:
        counts = np.bincount(np.frombuffer(raw, f"<u{scalar.size}"))
        found = np.flatnonzero(counts)
        return _part(_values(scalar)[found], counts[found])
    values: Array = decoded_elements(raw, entry, job.number)
    if values.dtype == np.float32:
        values = _doubled(values)
    made = _part(values)
    made.elements = job.number  # of which each may have several lanes
    return made


@cache
def _values(scalar: ScalarType) -> Array:
    """Return the values of all bit patterns of a type of one or two bytes."""
    return values_of(np.arange(1 << (8 * scalar.size), dtype=f"<u{scalar.size}"), scalar)


def _doubled(values: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return values.astype(np.float64)


# ---------------------------------------------------------------------------------------------------------------- parts


@dataclass(slots=True, kw_only=True)
class _Part:
    """What is known of some elements. ``number`` of their values are finite, and ``total`` is the sum of these.

    Bin i is from (base + i) * 2^exponent on; the exponent is the smallest that the bounds allow.
    """

    elements: int
    parts: int = 0
    nan: int = 0
    infinite: int = 0
    number: int = 0
    minimum: Any = None
    maximum: Any = None
    total: Any = 0
    exponent: int = 0
    base: int = 0
    counts: list[int] | None = None

    def joined(self, other: _Part) -> _Part:
        """Return what is known of both together."""
        made = _Part(
            elements=self.elements + other.elements,
            parts=self.parts + other.parts,
            nan=self.nan + other.nan,
            infinite=self.infinite + other.infinite,
            number=self.number + other.number,
            total=self.total + other.total,
        )
        filled = [part for part in (self, other) if part.number]
        if filled:
            made.minimum = min(part.minimum for part in filled)
            made.maximum = max(part.maximum for part in filled)
            made.exponent = _exponent(made.minimum, made.maximum)
            made.base = _bin(made.minimum, made.exponent)
            made.counts = [0] * (_bin(made.maximum, made.exponent) - made.base + 1)
            for part in filled:
                step = made.exponent - part.exponent
                for index, count in enumerate(part.counts or ()):
                    made.counts[((part.base + index) >> step) - made.base] += count
        return made

    def result(self) -> Statistics:
        mean = None
        if self.number:  # rounding must not take it out of the bounds
            mean = float(min(max(Fraction(self.total, self.number), Fraction(self.minimum)), Fraction(self.maximum)))
        return Statistics(
            elements=self.elements,
            parts=self.parts,
            nan=self.nan,
            infinite=self.infinite,
            minimum=self.minimum,
            maximum=self.maximum,
            mean=mean,
            histogram=self._histogram(),
        )

    def _histogram(self) -> Histogram | None:
        if self.counts is None:
            return None
        counts = tuple(self.counts)
        if self.minimum == self.maximum:
            return Histogram(low=self.minimum, width=0, counts=counts)
        if isinstance(self.minimum, int):
            return Histogram(low=self.base << self.exponent, width=1 << self.exponent, counts=counts)
        # A bin may begin below all numbers that there are.
        low = float(max(Fraction(self.base) * Fraction(2) ** self.exponent, Fraction(-sys.float_info.max)))
        return Histogram(low=low, width=math.ldexp(1, self.exponent), counts=counts)


def _bin(value: float | int, exponent: int) -> int:
    """Return the number of the bin that a value is in, where bins are 2^exponent wide and one begins at 0."""
    if isinstance(value, int):
        return value >> exponent
    numerator, denominator = value.as_integer_ratio()
    return (numerator << -exponent) // denominator if exponent < 0 else numerator // (denominator << exponent)


def _exponent(low: float | int, high: float | int) -> int:
    """Return the smallest exponent at which there are ``BINS`` bins at most between two finite values."""
    if isinstance(low, int):
        exponent = max(0, (int(high) - low).bit_length() - _MARGIN)
    else:  # halves, whose difference is a number
        exponent = max(_FINEST, math.frexp(high / 2 - low / 2)[1] - _MARGIN) if high > low else _FINEST
    while _bin(high, exponent) - _bin(low, exponent) >= BINS:
        exponent += 1
    return exponent


def _part(values: Array, weights: Array | None = None) -> _Part:
    """Return what is known of values, each of which may stand for many."""
    number = values.size if weights is None else int(weights.sum())
    made = _Part(elements=number, parts=number)
    if values.dtype.kind in "iu":
        made.total = _sum_of_integers(values, weights)
    else:
        if values.dtype.kind == "c":
            made.parts *= 2
        values, weights = _finite(made, values, weights)
    made.number = values.size if weights is None else int(weights.sum())
    if made.number:
        made.minimum, made.maximum = values.min().item(), values.max().item()
        made.exponent = _exponent(made.minimum, made.maximum)
        made.base = _bin(made.minimum, made.exponent)
        made.counts = _counted(made, values, weights)
    return made


def _sum_of_integers(values: Array, weights: Array | None) -> int:
    if weights is not None:  # of two bytes at most
        return int((values * weights).sum())
    # Both halves of a number are small enough for the sum of a piece.
    return (int((values >> values.dtype.type(32)).sum()) << 32) + int((values & values.dtype.type(0xFFFFFFFF)).sum())


def _finite(made: _Part, values: Array, weights: Array | None) -> tuple[Array, Array | None]:
    """Count what is not finite, sum the rest and return it; complex numbers become their parts."""
    real = values.view(np.float64)
    with np.errstate(all="ignore"):
        total = float((real if weights is None else real * weights).sum())
        if not math.isfinite(total):  # that of values is, if all are and the sum is not too large
            nan, infinite = np.isnan(real), np.isinf(real)
            kept = ~(nan | infinite)
            made.nan, made.infinite = (_elements(flags, values, weights) for flags in (nan, infinite))
            real, weights = real[kept], None if weights is None else weights[kept]
            total = float((real if weights is None else real * weights).sum())
    made.total = Fraction(total) if math.isfinite(total) else Fraction(_scaled_sum(real)) * (1 << _SCALED)
    return real, weights


def _elements(flags: Array, values: Array, weights: Array | None) -> int:
    """Return the number of elements of which one part is flagged."""
    if weights is not None:
        return int(weights[flags].sum())
    return int(np.count_nonzero(flags.reshape(values.size, -1).any(axis=1)))


def _scaled_sum(values: Array) -> float:
    return float((values * 2.0**-_SCALED).sum())


def _counted(made: _Part, values: Array, weights: Array | None) -> list[int]:
    """Return how many of the values are in each bin."""
    bins = _bin(made.maximum, made.exponent) - made.base + 1
    if bins == 1:
        return [made.number]
    if values.dtype.kind in "iu":
        kind = values.dtype.type
        places = (values >> kind(made.exponent)) - kind(made.base)
    else:
        places = np.floor(values / math.ldexp(1, made.exponent))
        if made.exponent > 0 and made.minimum < 0:  # the quotient of the smallest numbers is 0
            places[(values < 0) & (places >= 0)] = -1
        places -= made.base
    counts = np.bincount(places.astype(np.intp), weights, bins)
    return [int(count) for count in counts]
