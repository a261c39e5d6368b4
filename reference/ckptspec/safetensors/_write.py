"""Writing a safetensors file, as the official writer lays it out: everything is planned and checked first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .._mapped import steady_blocks
from ..arrays import as_array, byte_blocks, torch_pairs
from ..errors import ArgumentError
from ..memory import Sink
from ..spec.dtypes import SAFETENSORS_DTYPES, SAFETENSORS_ORDER, ScalarType, safetensors_dtype_of
from ..spec.schema import (
    SAFETENSORS_ENTRY,
    SAFETENSORS_HEADER_ALIGNMENT,
    SAFETENSORS_MAX_HEADER,
    SAFETENSORS_METADATA,
    SafetensorsFrame,
)
from ..text import show
from ._anatomy import measure
from ._json import spelled
from ._model import Tensor, TensorFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Item", "Plan", "header_text", "items_of", "plan", "sorting", "write"]

_U64: Final = 1 << 64
_DTYPE, _SHAPE, _OFFSETS = (spelled(key.name) for key in SAFETENSORS_ENTRY)


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor on its way into a file. ``blocks`` gives the payload's bytes, in pieces, when they are wanted."""

    name: str
    dtype: ScalarType
    shape: tuple[int, ...]
    size: int
    blocks: Callable[[], Iterable[Buffer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A file about to be written: its header, frame included, and its tensors in the order of their payloads."""

    header: bytes
    items: Sequence[Item]


def sorting(name: str, dtype: ScalarType) -> tuple[int, bytes]:
    """Return what a tensor is sorted by: the dtype's place in the writer's order, then the name's bytes."""
    return SAFETENSORS_ORDER[dtype.safetensors or ""], name.encode()


def header_text(metadata: Mapping[str, str] | None, entries: Iterable[tuple[str, str, Sequence[int], int, int]]) -> str:
    """Return the header's JSON. ``entries`` are name, dtype, shape, begin and end, in their order."""
    parts = []
    if metadata is not None:
        pairs = sorted(metadata.items(), key=lambda pair: pair[0].encode())
        inner = ",".join(f"{spelled(key)}:{spelled(value)}" for key, value in pairs)
        parts.append(f"{spelled(SAFETENSORS_METADATA)}:{{{inner}}}")
    for name, dtype, shape, begin, end in entries:
        extents = ",".join(map(str, shape))
        parts.append(f'{spelled(name)}:{{{_DTYPE}:"{dtype}",{_SHAPE}:[{extents}],{_OFFSETS}:[{begin},{end}]}}')
    return "{" + ",".join(parts) + "}"


def plan(items: Iterable[Item], metadata: Mapping[str, str] | None) -> Plan:
    """Lay out a file. Raises ArgumentError for what a reader would refuse."""
    ordered = sorted(items, key=lambda item: sorting(item.name, item.dtype))
    end = 0
    entries = []
    for item in ordered:
        entries.append((item.name, item.dtype.safetensors or "", item.shape, end, end + item.size))
        end += item.size
    if end >= _U64:
        raise ArgumentError(f"the tensors take {end} bytes, more than 64 bits count", "tensors")
    text = header_text(metadata, entries).encode()
    length = -(-len(text) // SAFETENSORS_HEADER_ALIGNMENT) * SAFETENSORS_HEADER_ALIGNMENT
    if length > SAFETENSORS_MAX_HEADER:
        raise ArgumentError(f"the header takes {length} bytes, expected at most {SAFETENSORS_MAX_HEADER}", "tensors")
    return Plan(header=SafetensorsFrame.build({"header_length": length}) + text.ljust(length), items=ordered)


def write(planned: Plan, sink: Sink) -> None:
    """Write a planned file."""
    sink.write(planned.header)
    for item in planned.items:
        written = 0
        for block in item.blocks():
            sink.write(block)
            written += memoryview(block).nbytes
        if written != item.size:
            raise ArgumentError(f"found {written} bytes, expected {item.size}", _path(item.name))


# ------------------------------------------------------------------------------------------------------------- checking


def _path(name: object) -> str:
    return f"tensor {show(name)}" if isinstance(name, str) else "tensors"


def _text(value: Any, what: str, path: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"found {show(value)} as {what}, expected text", path)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"the {what} {show(value)} has lone surrogates", path) from None
    return value


def checked_metadata(metadata: Any) -> Mapping[str, str] | None:
    """Return metadata that a file can hold. Raises ArgumentError."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise ArgumentError(f"found {show(metadata)}, expected a mapping from text to text, or None", "metadata")
    for key, value in metadata.items():
        _text(key, "key", "metadata")
        _text(value, "value", f"metadata[{show(key)}]")
    return metadata


def checked_name(name: Any) -> str:
    """Return a name that a file can hold. Raises ArgumentError."""
    if name == SAFETENSORS_METADATA:
        raise ArgumentError(f"no tensor can be called {SAFETENSORS_METADATA}: nobody could read the file", "tensors")
    return _text(name, "name", "tensors")


def items_of(model: TensorFile) -> list[Item]:
    """Return the items of a file's tensors. Raises ArgumentError for what a file cannot hold."""
    pairs = model.tensors
    if not isinstance(pairs, Mapping):
        raise ArgumentError(f"found {show(pairs)}, expected a mapping from names to arrays", "tensors")
    stored = getattr(pairs, "stored", None)
    made = []
    for name in pairs:
        checked_name(name)
        made.append(item_of(name, stored(name) if stored is not None else pairs[name]))
    return made


def item_of(name: str, value: Any) -> Item:
    """Return the item of one tensor. Raises ArgumentError."""
    path = _path(name)
    if isinstance(value, Tensor):
        return _stored_item(name, value, path)
    pairs = torch_pairs(value, path)
    if pairs is not None:
        if not pairs.ndim:
            raise ArgumentError("a scalar of two 4-bit elements has no shape", path)
        shape = (*pairs.shape[:-1], 2 * pairs.shape[-1])
        return _stored_item(name, Tensor(dtype="F4", shape=shape, data=pairs.tobytes()), path)
    array = as_array(value, path)
    dtype = safetensors_dtype_of(array.dtype)
    if dtype is None:
        raise ArgumentError(f"dtype {array.dtype} is none of {', '.join(SAFETENSORS_DTYPES)}", path)
    return Item(name, dtype, array.shape, array.nbytes, lambda: byte_blocks(array) if array.nbytes else ())


def _stored_item(name: str, value: Tensor, path: str) -> Item:
    dtype = SAFETENSORS_DTYPES.get(value.dtype) if isinstance(value.dtype, str) else None
    if dtype is None:
        raise ArgumentError(f"dtype {show(value.dtype)} is none of {', '.join(SAFETENSORS_DTYPES)}", path)
    if not isinstance(value.shape, (tuple, list)):
        raise ArgumentError(f"shape {show(value.shape)}, expected a sequence of integers", path)
    shape = []
    for extent in value.shape:
        if isinstance(extent, (bool, np.bool_)) or not isinstance(extent, (int, np.integer)) or not 0 <= extent < _U64:
            raise ArgumentError(f"extent {show(extent)}, expected an integer of 0 to 2^64 - 1", path)
        shape.append(int(extent))
    size = measure(dtype.bits, tuple(shape))
    if size is None:
        raise ArgumentError("its extents multiply to 2^64 or more", path)
    if size[1] % 8:
        raise ArgumentError(f"{size[0]} elements of {dtype.bits} bits are no whole number of bytes", path)
    try:
        data = memoryview(value.data).cast("B")
    except (TypeError, ValueError):
        raise ArgumentError(f"found {type(value.data).__name__}, expected contiguous bytes", path) from None
    if data.nbytes != size[1] // 8:
        raise ArgumentError(f"found {data.nbytes} bytes, expected {size[1] // 8}", path)
    return Item(name, dtype, tuple(shape), data.nbytes, lambda: steady_blocks(data))
