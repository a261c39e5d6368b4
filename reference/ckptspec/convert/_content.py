"""The content of a file of any format, in one shape: its document without the payloads, and the payloads.

The document is the neutral one, with an empty string wherever a payload's hexadecimal digits would be: a *slot*. The
payloads are views of the file. So metadata is handled as JSON values, and no payload is ever copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from .._mapped import steady_blocks
from ..arrays import byte_blocks
from ..contents import oam_name, ocannl_names
from ..errors import ArgumentError
from ..memory import Sink
from ..quantization import QuantizedTensor
from ..source import BufferSource
from ..spec.dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, SCALARS, ScalarType
from ..spec.schema import OAM_ENCODINGS, OAM_NEWEST, OAM_OPTIMIZERS, OAM_QUANT_BLOCK, OAM_TENSOR_SECTIONS
from ..text import show

__all__ = [
    "MOMENTS",
    "Content",
    "Dequantized",
    "Payload",
    "Slot",
    "View",
    "dtype_name",
    "newest",
    "parse",
    "prepare",
    "scalar_named",
    "slots",
    "take",
    "views",
]

MOMENTS: Final = ("first_moment", "second_moment")
_F32: Final = OAM_DTYPES["f32"]
_BLOCKS_AT_ONCE: Final = 1 << 13


class Dequantized:
    """The f32 values of a quantized tensor, computed a piece at a time when they are written."""

    def __init__(self, tensor: QuantizedTensor) -> None:
        self._tensor = tensor
        self.nbytes = math.prod(tensor.shape) * _F32.size

    def blocks(self) -> Iterator[memoryview]:
        """Yield the values as little-endian bytes."""
        tensor = self._tensor
        left = math.prod(tensor.shape)
        for start in range(0, len(tensor.scales), _BLOCKS_AT_ONCE):
            codes, scales = (part[start : start + _BLOCKS_AT_ONCE] for part in (tensor.payload, tensor.scales))
            count = min(left, len(scales) * OAM_QUANT_BLOCK)
            part = QuantizedTensor(encoding=tensor.encoding, shape=(count,), payload=codes, scales=scales)
            yield from byte_blocks(part.dequantize())
            left -= count


Payload = memoryview | Dequantized


@dataclass(frozen=True, slots=True)
class Content:
    """A document with empty slots, and what belongs into them, in the order of ``slots(document)``."""

    document: dict[str, Any]
    payloads: list[Payload]

    @property
    def format(self) -> str:
        """The format's name."""
        return str(self.document["format"])


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a payload: ``holder[key]``. ``section`` is that of an ``.oam`` file, else empty."""

    holder: dict[str, Any]
    key: str
    section: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One tensor as it looks from outside, whatever the format: stored elements only, without margins."""

    path: str
    name: str
    scalar: ScalarType
    shape: tuple[int, ...]
    encoding: str
    payload: Payload


# ----------------------------------------------------------------------------------------------------------- documents


def slots(document: dict[str, Any]) -> list[Slot]:
    """Return the slots of a document."""
    if document["format"] != "oam":
        return [Slot(entry, "data", "", f"tensors[{row}]") for row, entry in enumerate(document["tensors"])]
    made = [
        Slot(entry, "data", section, f"{section}[{row}]")
        for section in OAM_TENSOR_SECTIONS
        for row, entry in enumerate(document[section])
    ]
    optimizer = document["optimizer"]
    if optimizer is not None:
        keys = MOMENTS[: OAM_OPTIMIZERS[optimizer["kind"]]]
        made += [Slot(optimizer, key, "optimizer", f"optimizer.{key}") for key in keys]
    return made


def views(content: Content) -> list[View]:
    """Return the tensors of a content, one for each slot, under the names that they have across formats."""
    places = slots(content.document)
    return [
        _view(slot, payload, name, content.format)
        for slot, payload, name in zip(places, content.payloads, _names(content.document, places), strict=True)
    ]


def _names(document: dict[str, Any], places: list[Slot]) -> list[str]:
    match document["format"]:
        case "oam":
            return [oam_name(slot.section, slot.holder["name"] if slot.key == "data" else slot.key) for slot in places]
        case "ocannl":
            return ocannl_names(
                SimpleNamespace(
                    namespace=_atom(entry["namespace"]), id=int(entry["id"]), label=tuple(map(_atom, entry["label"]))
                )
                for entry in document["tensors"]
            )
        case _:
            return [entry["name"] for entry in document["tensors"]]


def _atom(value: Any) -> str | bytes:
    return value if isinstance(value, str) else bytes.fromhex(value["bytes"])


def _view(slot: Slot, payload: Payload, name: str, format: str) -> View:
    entry, encoding = slot.holder, "dense"
    shape: tuple[int, ...]
    if slot.key != "data":
        scalar, shape = _F32, (payload.nbytes // _F32.size,)
    elif format == "ocannl":
        scalar = OCANNL_PRECISIONS[entry["precision"]]
        axes = entry["padding"]["axes"] if entry["padding"] else [("0", "0")] * len(entry["dims"])
        shape = tuple(
            int(extent) - int(left) - int(right) for extent, (left, right) in zip(entry["dims"], axes, strict=True)
        )
    else:
        scalar = (OAM_DTYPES if format == "oam" else SAFETENSORS_DTYPES)[entry["dtype"]]
        shape, encoding = tuple(map(int, entry["shape"])), entry.get("encoding", "dense")
    return View(path=slot.path, name=name, scalar=scalar, shape=shape, encoding=encoding, payload=payload)


# --------------------------------------------------------------------------------------------------- from and to files


def take(model: Any, format: str) -> Content:
    """Return the content of what a file of a format was read into."""
    if format == "oam":
        return _take_oam(model)
    if format == "ocannl":
        from ..ocannl import Tensor
        from ..ocannl._document import document_of

        tensors = list(model.tensors)
        bare = [Tensor(node=tensor.node, data=b"") for tensor in tensors]
        return Content(document_of(replace(model, tensors=bare)), [memoryview(tensor.data) for tensor in tensors])
    from ..safetensors._document import document_of as document_of_file

    stored = {name: model.tensors.stored(name) for name in model.tensors}
    document = document_of_file(model, {name: replace(tensor, data=b"") for name, tensor in stored.items()})
    return Content(document, [memoryview(stored[entry["name"]].data) for entry in document["tensors"]])


def _take_oam(model: Any) -> Content:
    from .. import oam

    optimizer, payloads, moments = model.optimizer, [], []
    if optimizer is not None:
        kept = [optimizer.first_moment, optimizer.second_moment][: OAM_OPTIMIZERS[optimizer.kind]]
        moments = [_bytes(array) for array in kept]
        none = np.zeros(0, np.float32)
        optimizer = replace(optimizer, first_moment=none, second_moment=none)
    bare = replace(model, weights={}, state={}, optimizer=optimizer)
    document = oam.decode(BufferSource(oam.dumps(bare)))
    document["version"] = model.version
    for section in OAM_TENSOR_SECTIONS:
        tensors = getattr(model, section)
        for name in tensors:
            stored = tensors.stored(name)
            shape = [str(extent) for extent in stored.shape]
            entry = {"name": name, "dtype": stored.dtype, "shape": shape, "encoding": stored.encoding, "data": ""}
            document[section].append(entry)
            payloads.append(memoryview(stored.data))
    return Content(document, [*payloads, *moments])


def _bytes(array: Any) -> memoryview:
    raw: Any = np.ascontiguousarray(array).view(np.uint8)
    return memoryview(raw)


def newest(content: Content) -> Content:
    """Return the same content in the newest version of its format."""
    versions = {"version": OAM_NEWEST} if content.format == "oam" else {}
    return Content(content.document | versions, content.payloads)


def parse(document: Any) -> Any:
    """Read a document with empty slots as strictly as the format's own reader of documents. Raises ArgumentError.

    Returns an ``oam.Model``, the list of nodes and the ``ocannl.Checkpoint`` that they belong to, or a
    ``safetensors.TensorFile``, all of them without payloads.
    """
    kind = document.get("format") if isinstance(document, Mapping) else None
    if kind == "oam":
        from ..oam._document import model_of

        model, _ = model_of(document)
        for section in OAM_TENSOR_SECTIONS:
            for row, (_, tensor) in enumerate(getattr(model, section)):
                if tensor.dtype not in OAM_DTYPES:
                    raise ArgumentError(f"found {show(tensor.dtype)}, expected a dtype", f"{section}[{row}].dtype")
                if tensor.encoding not in OAM_ENCODINGS:
                    found = show(tensor.encoding)
                    raise ArgumentError(f"found {found}, expected an encoding", f"{section}[{row}].encoding")
        return model
    if kind == "ocannl":
        return _parse_ocannl(document)
    if kind == "safetensors":
        from ..safetensors._document import file_of

        return file_of(document)
    raise ArgumentError(f"found {show(kind)}, expected a format", "format")


def _parse_ocannl(document: Mapping[str, Any]) -> Any:
    from ..ocannl import TensorNode
    from ..ocannl._document import checkpoint_of

    entries = document.get("tensors")
    if not isinstance(entries, list):
        raise ArgumentError(f"found {show(entries)}, expected an array", "tensors")
    # A void tensor has no bytes, whatever its extents: the reader of documents asks for none.
    bare = [{**entry, "precision": "void"} if isinstance(entry, dict) else entry for entry in entries]
    checkpoint = checkpoint_of({**document, "tensors": bare})
    nodes = []
    for row, (entry, tensor) in enumerate(zip(entries, checkpoint.tensors, strict=True)):
        if "precision" not in entry:
            raise ArgumentError("missing key 'precision'", f"tensors[{row}]")
        node = tensor.node
        made = TensorNode(
            namespace=node.namespace,
            id=node.id,
            label=node.label,
            precision=entry["precision"],
            dims=node.dims,
            padding=node.padding,
        )
        nodes.append(made)
    return nodes, checkpoint


def prepare(content: Content) -> Callable[[Sink], None]:
    """Lay out a file; return what writes it. Raises ArgumentError for what the format cannot hold."""
    parsed = parse(content.document)
    match content.format:
        case "oam":
            return _prepare_oam(parsed, content)
        case "ocannl":
            nodes, checkpoint = parsed
            return _prepare_ocannl(nodes, checkpoint, content)
        case _:
            return _prepare_safetensors(parsed, content)


def _blocks(payload: Payload) -> Callable[[], Any]:
    return payload.blocks if isinstance(payload, Dequantized) else lambda: steady_blocks(payload)


def _prepare_oam(model: Any, content: Content) -> Callable[[Sink], None]:
    from ..oam._write import plan, write

    rest = iter(content.payloads)
    sections = {
        section: [(name, replace(tensor, data=next(rest))) for name, tensor in getattr(model, section)]
        for section in OAM_TENSOR_SECTIONS
    }
    if model.optimizer is not None:
        moments: dict[str, Any] = {}
        for key, payload in zip(MOMENTS, rest, strict=False):
            assert not isinstance(payload, Dequantized)
            if payload.nbytes % _F32.size:
                raise ArgumentError(f"found {payload.nbytes} bytes, expected whole f32 elements", f"optimizer.{key}")
            moments[key] = np.frombuffer(payload, "<f4")
        model = replace(model, optimizer=replace(model.optimizer, **moments))
    planned = plan(replace(model, **sections), content.document["version"])
    return lambda sink: write(planned, sink)


def _prepare_ocannl(nodes: Any, checkpoint: Any, content: Content) -> Callable[[Sink], None]:
    from ..ocannl._write import Item, plan, write

    for node, payload in zip(nodes, content.payloads, strict=True):
        if payload.nbytes != node.size:
            raise ArgumentError(f"found {payload.nbytes} bytes, expected {node.size}", node.name)
    items = [Item(node, _blocks(payload)) for node, payload in zip(nodes, content.payloads, strict=True)]
    planned = plan(items, checkpoint.alignment, checkpoint.training)
    return lambda sink: write(planned, sink)


def _prepare_safetensors(model: Any, content: Content) -> Callable[[Sink], None]:
    from ..safetensors._write import Item, checked_metadata, checked_name, item_of, plan, write

    items = []
    for (name, tensor), payload in zip(model.tensors.items(), content.payloads, strict=True):
        checked_name(name)
        if isinstance(payload, Dequantized):
            items.append(Item(name, SAFETENSORS_DTYPES[tensor.dtype], tensor.shape, payload.nbytes, payload.blocks))
        else:
            items.append(item_of(name, replace(tensor, data=payload)))
    planned = plan(items, checked_metadata(model.metadata))
    return lambda sink: write(planned, sink)


def dtype_name(scalar: ScalarType, format: str) -> str | None:
    """Return what a format calls a scalar type, or None if it lacks it."""
    if format == "oam":
        return scalar.name if scalar.oam_code is not None else None
    return scalar.ocannl if format == "ocannl" else scalar.safetensors


def scalar_named(name: str) -> ScalarType:
    """Return a scalar type by its name in the table of scalar types."""
    return next(scalar for scalar in SCALARS if scalar.name == name)
