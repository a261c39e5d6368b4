"""What two files of any formats have in common and where they differ: names, types, values, facts.

Payloads are read side by side in small pieces, several at a time. Pieces with equal bytes are only compared as bytes;
elements are looked at where they are not. Memory does not grow with the tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from .contents import DENSE, Contents, Entry, sorted_by_bytes
from .elements import NONE, Difference, Tolerance, common_type, differences, element_differences, values_of
from .parallel import batches, in_order
from .progress import advance
from .source import Source
from .spec.dtypes import OAM_DTYPES, ScalarType
from .spec.schema import OAM_BLOCK_ENCODINGS, OAM_QUANT_BLOCK

__all__ = ["Comparison", "Pair", "compare"]

_PIECE: Final = 1 << 22  # bytes of the wider side that one job compares
_STRIDE: Final = 1 << 19  # bytes of a side that are in memory at a time
_SMALL: Final = 1 << 22  # bytes below which threads do not pay
_KEPT: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A tensor that both files have. ``values`` is None where no value was compared.

    Bytes of a quantized or packed tensor can differ where no value does, or where none can be told: ``stored`` says
    that they do.
    """

    name: str
    one: Entry
    other: Entry
    values: Difference | None = None
    stored: bool = False

    @property
    def dtype_changed(self) -> bool:
        """Whether dtype or encoding are not the same."""
        return (self.one.scalar.name, self.one.encoding) != (self.other.scalar.name, self.other.encoding)

    @property
    def shape_changed(self) -> bool:
        """Whether the shapes are not the same."""
        return self.one.shape != self.other.shape

    @property
    def changed(self) -> bool:
        """Whether there is anything to tell."""
        return self.dtype_changed or self.shape_changed or self.stored or bool(self.values and self.values.differing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two files differ. Pairs are those with a difference, in the order of the first file.

    Facts of one file alone count only where both are of the same format: another format has others by its nature.
    """

    one: Contents
    other: Contents
    removed: tuple[Entry, ...]
    added: tuple[Entry, ...]
    pairs: tuple[Pair, ...]
    compared: int
    facts_removed: tuple[str, ...] = ()
    facts_added: tuple[str, ...] = ()
    facts_changed: tuple[str, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    values_compared: bool = True
    dtypes_count: bool = True

    @property
    def same_format(self) -> bool:
        """Whether facts of one file alone count."""
        return self.one.format == self.other.format

    def counts(self, pair: Pair) -> bool:
        """Say whether a pair makes the files different: more than the tolerance, or a type that matters."""
        if pair.shape_changed or (self.dtypes_count and pair.dtype_changed):
            return True
        if pair.values is None:
            return pair.stored or (self.values_compared and pair.dtype_changed and pair.one.elements > 0)
        if self.tolerance or not self.dtypes_count:
            return pair.values.outside > 0
        return pair.stored or pair.values.differing > 0

    @property
    def differ(self) -> bool:
        """Whether the files differ by more than the tolerance."""
        alone = self.same_format and bool(self.facts_added or self.facts_removed)
        return bool(self.added or self.removed or self.facts_changed) or alone or any(map(self.counts, self.pairs))


def compare(
    one: Contents,
    other: Contents,
    *,
    tolerance: Tolerance | None = None,
    only: Callable[[str], bool] | None = None,
    values: bool = True,
    facts: bool = True,
    dtypes: bool = True,
) -> Comparison:
    """Compare two files. OSError if one cannot be read to its end.

    ``only`` says of a name whether its tensors count; without ``values`` no payload is read, without ``facts`` only
    tensors are compared, and without ``dtypes`` other dtypes and encodings alone make no difference.
    """
    tolerance = tolerance or Tolerance()
    left = [entry for name, entry in one.tensors.items() if only is None or only(name)]
    right = [entry for name, entry in other.tensors.items() if only is None or only(name)]
    both = [entry for entry in left if entry.name in other.tensors]
    found = [Pair(name=entry.name, one=entry, other=other.tensors[entry.name]) for entry in both]
    if values:
        found = _Values((one.source, other.source), tolerance).of(found)
    keys = sorted_by_bytes(one.facts.keys() | other.facts.keys()) if facts else []
    return Comparison(
        one=one,
        other=other,
        removed=tuple(entry for entry in left if entry.name not in other.tensors),
        added=tuple(entry for entry in right if entry.name not in one.tensors),
        pairs=tuple(pair for pair in found if pair.changed),
        compared=len(found),
        facts_removed=tuple(key for key in keys if key not in other.facts),
        facts_added=tuple(key for key in keys if key not in one.facts),
        facts_changed=tuple(
            key for key in keys if key in one.facts and key in other.facts and one.facts[key] != other.facts[key]
        ),
        tolerance=tolerance,
        values_compared=values,
        dtypes_count=dtypes,
    )


# --------------------------------------------------------------------------------------------------------------- values


class _Job(NamedTuple):
    """Some elements of a pair; some bytes of either side where the elements are packed."""

    at: int  # of the pair
    pair: Pair
    start: int
    number: int
    size: int  # bytes of both sides


class _Result(NamedTuple):
    at: int
    size: int
    difference: Difference
    stored: bool


class _Values:
    """Compares the values of pairs, on any number of threads with buffers of their own."""

    def __init__(self, sources: tuple[Source, Source], tolerance: Tolerance) -> None:
        self.sources = sources
        self.tolerance = tolerance
        self.local = threading.local()

    def of(self, pairs: list[Pair]) -> list[Pair]:
        """Return the pairs with what was found out about their values, in the same order."""
        made = [replace(pair, values=NONE) if comparable(pair) and not _is_packed(pair) else pair for pair in pairs]
        order = sorted(range(len(made)), key=lambda at: made[at].one.offset)  # as they lie on the disk
        total = sum(pair.one.size + pair.other.size for pair in made)
        if total >= _SMALL:
            keep_memory()
        jobs = batches((job for at in order for job in _jobs(at, made[at])), lambda job: job.size)
        with closing(in_order(self._batch, jobs, threads=1 if total < _SMALL else None)) as results:
            for batch in results:
                for at, _, difference, stored in batch:
                    if difference is not NONE or stored:
                        made[at] = _joined(made[at], difference, stored)
                advance(sum(result.size for result in batch))
        return made

    def _batch(self, jobs: list[_Job]) -> list[_Result]:
        return [_Result(job.at, job.size, *self._compared(job)) for job in jobs]

    def _compared(self, job: _Job) -> tuple[Difference, bool]:
        pair = job.pair
        if _is_packed(pair):
            return self._raw(job)
        if pair.dtype_changed or pair.one.encoding != DENSE:
            return self._mixed(job)
        return self._dense(job)

    # ------------------------------------------------------------------------------------------------------------ bytes

    def _buffers(self) -> tuple[bytearray, bytearray]:
        found: tuple[bytearray, bytearray] | None = getattr(self.local, "buffers", None)
        if found is None:
            found = self.local.buffers = (bytearray(_STRIDE), bytearray(_STRIDE))
        return found

    def _sides(self, offsets: tuple[int, int], size: int) -> Iterator[tuple[int, Any, Any]]:
        """Yield offset and bytes of each stride in which the sides differ; the bytes are valid until the next."""
        buffers = self._buffers()
        for start in range(0, size, _STRIDE):
            length = min(_STRIDE, size - start)
            whole = length == _STRIDE
            parts: list[Any] = []
            for source, offset, buffer in zip(self.sources, offsets, buffers, strict=True):
                target: Any = buffer if whole else bytearray(length)  # bytearrays are compared at the speed of memory
                source.readinto(offset + start, memoryview(target))
                parts.append(target)
            if parts[0] != parts[1]:
                yield start, parts[0], parts[1]

    def _raw(self, job: _Job) -> tuple[Difference, bool]:
        one, other = job.pair.one, job.pair.other
        for _ in self._sides((one.offset + job.start, other.offset + job.start), job.number):
            return NONE, True
        return NONE, False

    # --------------------------------------------------------------------------------------------------------- elements

    def _dense(self, job: _Job) -> tuple[Difference, bool]:
        one, other = job.pair.one, job.pair.other
        scalar = one.scalar
        offsets = (one.offset + job.start * scalar.size, other.offset + job.start * scalar.size)
        total = NONE
        for at, *raw in self._sides(offsets, job.number * scalar.size):
            start = job.start + at // scalar.size
            total = element_differences((raw[0], raw[1]), scalar, self.tolerance, total, start)
        return total, False

    def _mixed(self, job: _Job) -> tuple[Difference, bool]:
        """Compare values of two types, or of quantized blocks."""
        pair = job.pair
        common = _common(pair)
        assert common is not None
        total, stored = NONE, False
        step = _STRIDE // 8
        for start in range(job.start, job.start + job.number, step):
            count = min(step, job.start + job.number - start)
            raw = [
                stored_elements(source, entry, start, count)
                for source, entry in zip(self.sources, (pair.one, pair.other), strict=True)
            ]
            if not pair.dtype_changed and raw[0] == raw[1]:
                continue
            stored = stored or not pair.dtype_changed
            one, other = (decoded_elements(raw[at], entry, count) for at, entry in enumerate((pair.one, pair.other)))
            total = total.joined(differences(one, other, common, self.tolerance).moved(start))
        return total, stored


def keep_memory() -> None:
    """Have freed memory kept for the next array: without this, every array of 128 KB is made of new pages.

    The C library gives memory back to the system at once, until a larger block was allocated and freed.
    """
    np.empty(_KEPT, np.uint8)


def _is_packed(pair: Pair) -> bool:
    """Say whether a pair's elements are smaller than a byte: then only the bytes are compared."""
    return not pair.one.scalar.size and bool(pair.one.scalar.bits) and not pair.dtype_changed


def _value_type(entry: Entry) -> ScalarType:
    return entry.scalar if entry.encoding == DENSE else OAM_DTYPES["f32"]


def _common(pair: Pair) -> str | None:
    return common_type(_value_type(pair.one), _value_type(pair.other))


def comparable(pair: Pair) -> bool:
    """Say whether the values of a pair can be compared."""
    if pair.shape_changed:
        return False
    return not pair.dtype_changed or _common(pair) is not None


def _joined(pair: Pair, difference: Difference, stored: bool) -> Pair:
    values = None if pair.values is None else pair.values.joined(difference)
    return replace(pair, values=values, stored=pair.stored or stored)


def _jobs(at: int, pair: Pair) -> Iterator[_Job]:
    """Yield the jobs of a pair."""
    number = pair.one.size if _is_packed(pair) else pair.one.elements
    wider = max(pair.one.size, pair.other.size)
    if not comparable(pair) or not number or not wider:
        return
    # Whole blocks of quantized tensors, and whole strides of bytes of any other.
    step = max(OAM_QUANT_BLOCK, _PIECE * number // wider // OAM_QUANT_BLOCK * OAM_QUANT_BLOCK)
    for start in range(0, number, step):
        count = min(step, number - start)
        yield _Job(at, pair, start, count, (pair.one.size + pair.other.size) * count // number)


def stored_elements(source: Source, entry: Entry, start: int, count: int) -> bytes:
    """Return the stored bytes of some elements; of a quantized tensor, whole blocks: their codes, then their scales."""
    if entry.encoding == DENSE:
        return bytes(source.read(entry.offset + start * entry.scalar.size, count * entry.scalar.size))
    total = -(-entry.elements // OAM_QUANT_BLOCK)
    codes, scale = OAM_BLOCK_ENCODINGS[entry.encoding].code_bytes, OAM_BLOCK_ENCODINGS[entry.encoding].scale_bytes
    first, blocks = start // OAM_QUANT_BLOCK, -(-count // OAM_QUANT_BLOCK)
    return bytes(source.read(entry.offset + first * codes, blocks * codes)) + bytes(
        source.read(entry.offset + total * codes + first * scale, blocks * scale)
    )


def decoded_elements(raw: bytes, entry: Entry, count: int) -> Any:
    """Return the values of stored elements, as ``values_of`` does; those of quantized blocks are binary32."""
    if entry.encoding == DENSE:
        return values_of(raw, entry.scalar)
    from .quantization import QuantizedTensor

    return QuantizedTensor.from_bytes(entry.encoding, (count,), raw).dequantize()
