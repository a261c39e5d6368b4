"""Writing a model: canonical layout, in one pass.

``plan`` checks everything that a reader would refuse, and lays the file out, before the first byte. ``write`` then
streams the sections, hashing as it goes, and puts header and section table into their place at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .._mapped import steady_blocks
from ..arrays import as_array, byte_blocks
from ..checksum import prepare
from ..errors import ArgumentError
from ..memory import Sink
from ..quantization import Quantization, QuantizedTensor
from ..records import build, public_fields, text_bytes
from ..spec.dtypes import OAM_CODES, OAM_DTYPES, numpy_type, oam_dtype_of
from ..spec.layout import field as field_of
from ..spec.layout import numpy_dtype, record_size
from ..spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_QUANT_BLOCK,
    OAM_QUANT_VERSION,
    OAM_SECTIONS,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamHeader,
    OamIndex,
    OamOptimizer,
    OamProgress,
    OamSection,
    OamTensor,
)
from ..streaming import hashing
from ..text import printable, shorten, show
from ._anatomy import CONFIG_DERIVED, OPTIMIZER_DERIVED, data_start, padded
from ._examine import manifest_checksum
from ._model import Config, Model, Optimizer, Progress, QuantizingMap, Tensor, TensorMap
from ._tensors import quantized_size

if TYPE_CHECKING:
    pass

__all__ = ["Plan", "check_tensor", "items_of", "plan", "same", "write"]

_U64: Final = 1 << 64
_SMALL: Final = 1 << 16  # bytes below which a block waits for others to go with it


@dataclass(slots=True)
class PlannedSection:
    """A section to be written: its records, then its payloads."""

    name: str
    head: bytes
    payloads: list[Any] = field(default_factory=list)
    size: int = 0
    offset: int = 0


@dataclass(slots=True)
class Plan:
    """A file to be written. ``size`` is that of the whole file, in bytes."""

    version: int
    sections: list[PlannedSection]
    size: int


def plan(model: Model, version: int) -> Plan:
    """Check a model and lay it out; ArgumentError names the tensor or field that a reader would refuse."""
    if not isinstance(model, Model):
        raise ArgumentError(f"found {type(model).__name__}, expected a Model", "model")
    if not isinstance(version, int) or isinstance(version, bool) or version not in OAM_VERSIONS:
        raise ArgumentError(f"found {show(version)}, expected one of {', '.join(map(str, OAM_VERSIONS))}", "version")
    planned = [
        _config(model.config),
        *(_tensors(name, getattr(model, name), version) for name in OAM_TENSOR_SECTIONS),
        _optimizer(model.optimizer),
        _progress(model.progress),
    ]
    sections = [section for section in planned if section is not None]
    at = data_start(len(sections))
    for section in sections:
        section.offset = at
        at += padded(section.size) if section.name in OAM_TENSOR_SECTIONS else section.size
    if at >= _U64:
        raise ArgumentError("the file would reach 2^64 bytes", "model")
    return Plan(version=version, sections=sections, size=at)


def write(planned: Plan, sink: Sink) -> None:
    """Write a planned file into an empty sink."""
    table = b""
    prepare(planned.size)
    sink.skip(data_start(len(planned.sections)))
    checksums = 0
    for section in planned.sections:
        checksum = _section(section, sink)
        checksums ^= checksum
        table += build(
            OamSection,
            {},
            "section",
            {
                "type": OAM_SECTIONS[section.name],
                "compression": 0,
                "offset": section.offset,
                "size": section.size,
                "compressed_size": 0,
                "checksum": checksum,
            },
        )
    sink.patch(0, _header(planned, table, checksums) + table)


def same(one: Model, other: Model) -> bool:
    """Say whether the same file would be written for two models; neither is held twice."""
    plans = [plan(model, OAM_NEWEST) for model in (one, other)]
    pairs = list(zip(plans[0].sections, plans[1].sections, strict=False))
    return (
        len(plans[0].sections) == len(plans[1].sections)
        and all((a.name, a.size, a.head) == (b.name, b.size, b.head) for a, b in pairs)
        and all(_same_bytes(_blocks(a), _blocks(b)) for a, b in pairs)
    )


def _same_bytes(one: Iterator[memoryview], other: Iterator[memoryview]) -> bool:
    """Compare two streams of the same length, whatever their blocks."""
    left = right = memoryview(b"")
    while True:
        left = left or next(filter(None, one), left)
        right = right or next(filter(None, other), right)
        size = min(left.nbytes, right.nbytes)
        if not size:
            return left.nbytes == right.nbytes
        if left[:size] != right[:size]:
            return False
        left, right = left[size:], right[size:]


def _section(section: PlannedSection, sink: Sink) -> int:
    """Write a section and its padding; return its checksum."""
    with hashing(sink, section.size) as tee:
        for block in _gathered(_blocks(section)):
            tee.write(block)
    if tee.size != section.size:
        raise ArgumentError(f"{tee.size} bytes came where {section.size} were announced", section.name)
    if section.name in OAM_TENSOR_SECTIONS:
        sink.skip(padded(section.size) - section.size)
    return tee.value


def _gathered(blocks: Iterator[memoryview]) -> Iterator[memoryview]:
    """Join small blocks, so that ten thousand small tensors do not make as many calls."""
    small = bytearray()
    for block in blocks:
        if block.nbytes < _SMALL:
            small += block
            if len(small) < _SMALL:
                continue
            block = memoryview(b"")
        if small:
            yield memoryview(small)
            small = bytearray()
        if block.nbytes:
            yield block
    if small:
        yield memoryview(small)


def _header(planned: Plan, table: bytes, checksums: int) -> bytes:
    def header(checksum: int) -> bytes:
        derived = {
            "version": planned.version,
            "section_count": len(planned.sections),
            "total_size": planned.size,
            "checksum": checksum,
        }
        return build(OamHeader, {}, "header", derived)

    return header(checksums if planned.version == 1 else manifest_checksum(header(0), table))


def _blocks(section: PlannedSection) -> Iterator[memoryview]:
    yield memoryview(section.head)
    for payload in section.payloads:
        if isinstance(payload, np.ndarray):
            yield from byte_blocks(payload)
        elif isinstance(payload, Quantization):
            yield from payload.blocks()
        else:
            yield from steady_blocks(memoryview(payload).cast("B"))


# ------------------------------------------------------------------------------------------------------------ sections


def _fields(value: Any, kind: type, path: str, record: Any, derived: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, kind):
        raise ArgumentError(f"found {type(value).__name__}, expected {kind.__name__}", path)
    return {item.name: getattr(value, item.name) for item in public_fields(record, derived)}


def _config(config: Config) -> PlannedSection:
    values = _fields(config, Config, "config", OamConfig, CONFIG_DERIVED)
    blob = bytes(_buffer(config.arch_config, "config.arch_config"))
    limit = field_of(OamConfig, "arch_config_size").bounds[1]
    if len(blob) > limit:
        raise ArgumentError(f"found {len(blob)} bytes, at most {limit} fit", "config.arch_config")
    head = build(OamConfig, values, "config", {"arch_config_size": len(blob)}) + blob
    return PlannedSection("config", head, size=len(head))


def _optimizer(optimizer: Optimizer | None) -> PlannedSection | None:
    if optimizer is None:
        return None
    values = _fields(optimizer, Optimizer, "optimizer", OamOptimizer, OPTIMIZER_DERIVED)
    if not isinstance(optimizer.kind, str) or optimizer.kind not in OAM_OPTIMIZERS:
        raise ArgumentError(
            f"found {show(optimizer.kind)}, expected one of {', '.join(OAM_OPTIMIZERS)}", "optimizer.kind"
        )
    first = _moment(optimizer.first_moment, "optimizer.first_moment")
    second = _moment(optimizer.second_moment, "optimizer.second_moment")
    if OAM_OPTIMIZERS[optimizer.kind] == 1:
        if second.size:
            found = f"{optimizer.kind} has no second moment, found one of {second.size} elements"
            raise ArgumentError(found, "optimizer.second_moment")
        moments = [first]
    else:
        if first.size != second.size:
            found = f"found {second.size} elements, the first moment has {first.size}"
            raise ArgumentError(found, "optimizer.second_moment")
        moments = [first, second]
    head = build(OamOptimizer, values, "optimizer", {"moment_count": first.size})
    return PlannedSection("optimizer", head, moments, len(head) + 4 * first.size * len(moments))


def _moment(value: Any, path: str) -> np.ndarray[Any, np.dtype[Any]]:
    array = as_array(value, path)
    if oam_dtype_of(array.dtype) is not OAM_DTYPES["f32"] or array.ndim != 1:
        raise ArgumentError(f"found {array.dtype} of shape {array.shape}, expected one dimension of float32", path)
    return array


def _progress(progress: Progress) -> PlannedSection:
    head = build(OamProgress, _fields(progress, Progress, "progress", OamProgress, ()), "progress")
    return PlannedSection("progress", head, size=len(head))


# ------------------------------------------------------------------------------------------------------------- tensors


@dataclass(slots=True)
class _Stored:
    """A tensor ready to be written: codes as stored, and payloads."""

    name: bytes
    dtype: int
    encoding: int
    shape: tuple[int, ...]
    size: int
    payloads: list[Any]


def _tensors(section: str, tensors: Any, version: int) -> PlannedSection | None:
    stored: list[_Stored] = []
    names: set[bytes] = set()
    for name, value in items_of(section, tensors):
        path = f"{section}['{shorten(printable(name), 140)}']" if isinstance(name, str) else section
        item = _tensor(name, value, path, section, version)
        if item.name in names:
            raise ArgumentError("the name occurs twice", path)
        names.add(item.name)
        stored.append(item)
    if not stored:
        return None
    limit = field_of(OamIndex, "count").bounds[1]
    if len(stored) > limit:
        raise ArgumentError(f"found {len(stored)} tensors, at most {limit} fit", section)
    head = build(OamIndex, {}, section, {"count": len(stored)}) + _entries(stored)
    payloads = [payload for item in stored for payload in item.payloads]
    return PlannedSection(section, head, payloads, len(head) + sum(item.size for item in stored))


def items_of(section: str, tensors: Any) -> Iterable[tuple[str, Any]]:
    """Return the pairs of a mapping, or of an iterable of pairs (which can hold a name twice)."""
    if isinstance(tensors, TensorMap):  # without the way through numpy
        return [(name, tensors.stored(name)) for name in tensors]
    if isinstance(tensors, QuantizingMap):
        return tensors.pending()
    if isinstance(tensors, Mapping):
        return tensors.items()
    # An iterator would be empty the second time: a model must be what it is.
    if isinstance(tensors, (list, tuple)) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in tensors):
        return list(tensors)
    raise ArgumentError(f"found {show(tensors)}, expected a mapping of names to arrays", section)


def _buffer(value: Any, path: str) -> memoryview:
    """Return a bytes-like value as a view of its bytes."""
    try:
        return memoryview(value).cast("B")
    except (TypeError, ValueError, BufferError):
        raise ArgumentError(f"found {show(value)}, expected contiguous bytes", path) from None


def _shape(value: Any, path: str) -> tuple[int, ...]:
    """Return a shape as a tuple of plain integers, which do not wrap."""
    try:
        return tuple(operator.index(extent) for extent in value)
    except TypeError:
        raise ArgumentError(f"found {show(value)}, expected a shape of integers", path) from None


def _tensor(name: Any, value: Any, path: str, section: str, version: int) -> _Stored:
    raw = text_bytes(name, path, field_of(OamTensor, "name").size, empty=False)
    if isinstance(value, QuantizedTensor):
        payloads: list[Any] = [value.payload, value.scales]
        dtype, shape, encoding = "f32", value.shape, value.encoding
        size = sum(part.nbytes for part in payloads)
    elif isinstance(value, Quantization):
        payloads, dtype, shape, encoding = [value], "f32", value.shape, value.encoding
        size = quantized_size(OAM_ENCODINGS[encoding], value.array.size)
    elif isinstance(value, Tensor):
        data = _buffer(value.data, path)
        payloads, dtype, shape, encoding = [data], value.dtype, _shape(value.shape, path), value.encoding
        size = data.nbytes
    else:
        array = as_array(value, path)
        scalar = oam_dtype_of(array.dtype)
        if scalar is None:
            raise ArgumentError(f"dtype {array.dtype} is none of {', '.join(OAM_DTYPES)}", path)
        payloads, dtype, shape, encoding = [array.view(np.ndarray)], scalar.name, array.shape, "dense"
        size = array.size * numpy_type(scalar).itemsize
    check_tensor(path, section, version, dtype, shape, encoding, size)
    return _Stored(
        name=raw,
        dtype=OAM_CODES[dtype],
        encoding=OAM_ENCODINGS[encoding],
        shape=shape,
        size=size,
        payloads=payloads,
    )


def check_tensor(
    path: str, section: str, version: int, dtype: str, shape: tuple[int, ...], encoding: str, size: int
) -> None:
    """Refuse what a reader would refuse of a tensor."""
    if not isinstance(dtype, str) or dtype not in OAM_DTYPES:
        raise ArgumentError(f"dtype {show(dtype)} is none of {', '.join(OAM_DTYPES)}", path)
    if not isinstance(encoding, str) or encoding not in OAM_ENCODINGS:
        raise ArgumentError(f"encoding {show(encoding)} is none of {', '.join(OAM_ENCODINGS)}", path)
    if len(shape) > OAM_MAX_RANK:
        raise ArgumentError(f"rank {len(shape)} is more than {OAM_MAX_RANK}", path)
    elements = 1
    for extent in shape:
        if not 0 <= extent < _U64:
            raise ArgumentError(f"extent {show(extent)} is not within 0 to {_U64 - 1}", path)
        elements *= extent
        if elements >= _U64:
            raise ArgumentError(f"the extents {list(shape)}, multiplied from left to right, reach 2^64", path)
    if encoding == "dense":
        needed = elements * OAM_DTYPES[dtype].size
    else:
        if version < OAM_QUANT_VERSION:
            raise ArgumentError(f"version {version} has no quantized tensors", path)
        if section != "weights":
            raise ArgumentError("only weights can be quantized", path)
        if dtype != "f32":
            raise ArgumentError(f"dtype {dtype} cannot be quantized, only f32 can", path)
        if not elements:
            raise ArgumentError("a tensor without elements cannot be quantized", path)
        needed = quantized_size(OAM_ENCODINGS[encoding], elements)
    if needed >= _U64:
        raise ArgumentError(f"shape {list(shape)} makes {needed} bytes, more than 64 bits can count", path)
    if size != needed:
        raise ArgumentError(f"found {size} bytes, expected {needed} for {encoding} {dtype} of {list(shape)}", path)


def _entries(stored: list[_Stored]) -> bytes:
    """Return the index: one entry a tensor, payloads in order and without gaps."""
    made = np.zeros(len(stored), numpy_dtype(OamTensor))
    width = field_of(OamTensor, "name").size
    names = b"".join(item.name.ljust(width, b"\0") for item in stored)
    made["name"] = np.frombuffer(names, np.uint8).reshape(len(stored), width)
    sizes = [item.size for item in stored]
    made["num_bytes"] = np.array(sizes, np.uint64)
    made["blob_offset"] = np.array([0, *sizes[:-1]], np.uint64).cumsum(dtype=np.uint64)  # the sum was checked
    made["dtype"] = [item.dtype for item in stored]
    made["rank"] = [len(item.shape) for item in stored]
    made["encoding"] = [item.encoding for item in stored]
    dense = OAM_ENCODINGS["dense"]
    made["block_size"] = [0 if item.encoding == dense else OAM_QUANT_BLOCK for item in stored]
    padding = (0,) * OAM_MAX_RANK
    made["shape"] = np.array([(item.shape + padding)[:OAM_MAX_RANK] for item in stored], np.uint64)
    assert record_size(OamTensor) == made.itemsize
    return made.tobytes()
