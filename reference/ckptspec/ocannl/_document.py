"""Between a checkpoint and its neutral document."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from .. import neutral
from .._mapped import steady_bytes
from ..errors import ArgumentError
from ..spec.dtypes import OCANNL_PRECISIONS
from ..spec.schema import OCANNL_INT_MAX, OCANNL_TRAINING, OCANNL_VERSION
from ..text import show
from ._checkpoint import Checkpoint, Tensor, TrainingRecord
from ._nodes import Atom, Padding, TensorNode, atom

__all__ = ["checkpoint_of", "document_of"]

_NATURAL: Final = (0, OCANNL_INT_MAX)
_SIGNED: Final = (-OCANNL_INT_MAX - 1, OCANNL_INT_MAX)
_COUNTERS: Final = tuple(key.name for key in OCANNL_TRAINING if key.kind == "int" and key.name != "version")


def _text(value: Atom) -> Any:
    return value if isinstance(value, str) else {"bytes": value.hex()}


def document_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the neutral document of a checkpoint."""
    return {
        "format": "ocannl",
        "version": checkpoint.version,
        "alignment": checkpoint.alignment,
        "tensors": [_tensor(tensor) for tensor in checkpoint.tensors],
        "training": None if checkpoint.training is None else _training(checkpoint.training),
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    node = tensor.node
    padding = node.padding and {
        "axes": [[str(left), str(right)] for left, right in node.padding.axes],
        "neutral": neutral.float_bits(node.padding.bits, 64),
    }
    return {
        "namespace": _text(node.namespace),
        "id": str(node.id),
        "label": [_text(word) for word in node.label],
        "precision": node.precision,
        "dims": [str(extent) for extent in node.dims],
        "padding": padding,
        "data": steady_bytes(memoryview(tensor.data)).hex(),
    }


def _training(record: TrainingRecord) -> dict[str, Any]:
    return {
        "version": record.version,
        **{name: str(getattr(record, name)) for name in _COUNTERS},
        "host_rng": None if record.host_rng is None else record.host_rng.hex(),
        "extra": [[_text(key), _text(value)] for key, value in record.extra],
        "seeds": None if record.seeds is None else [str(seed) for seed in record.seeds],
        "state": [[_text(namespace), str(number)] for namespace, number in record.state],
    }


def checkpoint_of(document: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint that a neutral document describes. Raises ArgumentError."""
    given = neutral.keys(document, "document", ("format", "version", "alignment", "tensors", "training"))
    if given["format"] != "ocannl":
        raise ArgumentError(f"found {show(given['format'])}, expected 'ocannl'", "format")
    neutral.number(given["version"], "version", (OCANNL_VERSION, OCANNL_VERSION))
    tensors = neutral.items(given["tensors"], "tensors")
    training = given["training"]
    return Checkpoint(
        tensors=[_read_tensor(tensor, f"tensors[{row}]") for row, tensor in enumerate(tensors)],
        alignment=neutral.number(given["alignment"], "alignment", _NATURAL),
        training=None if training is None else _read_training(training),
    )


def _read_text(value: Any, path: str) -> Atom:
    if not isinstance(value, Mapping):
        return neutral.text(value, path)
    content = neutral.blob(neutral.keys(value, path, ("bytes",))["bytes"], f"{path}.bytes")
    made = atom(content, path)
    if isinstance(made, str):
        raise ArgumentError("is UTF-8, expected it as text", f"{path}.bytes")
    return made


def _numbers(value: Any, path: str, bounds: tuple[int, int] = _NATURAL) -> tuple[int, ...]:
    items = neutral.items(value, path)
    return tuple(neutral.decimal(item, f"{path}[{at}]", bounds) for at, item in enumerate(items))


def _read_tensor(value: Any, path: str) -> Tensor:
    names = ("namespace", "id", "label", "precision", "dims", "padding", "data")
    given = neutral.keys(value, path, names)
    if not isinstance(given["precision"], str) or given["precision"] not in OCANNL_PRECISIONS:
        expected = ", ".join(OCANNL_PRECISIONS)
        raise ArgumentError(f"found {show(given['precision'])}, expected one of {expected}", f"{path}.precision")
    label = neutral.items(given["label"], f"{path}.label")
    values: dict[str, Any] = {
        "namespace": _read_text(given["namespace"], f"{path}.namespace"),
        "id": neutral.decimal(given["id"], f"{path}.id", _NATURAL),
        "label": tuple(_read_text(word, f"{path}.label[{at}]") for at, word in enumerate(label)),
        "precision": given["precision"],
        "dims": _numbers(given["dims"], f"{path}.dims"),
        "padding": None if given["padding"] is None else _read_padding(given["padding"], f"{path}.padding"),
    }
    data = neutral.blob(given["data"], f"{path}.data")
    try:
        node = TensorNode(**values)
    except ArgumentError as error:
        raise ArgumentError(str(error), path) from None
    if len(data) != node.size:
        raise ArgumentError(f"found {len(data)} bytes, expected {node.size}", f"{path}.data")
    return Tensor(node=node, data=data)


def _read_padding(value: Any, path: str) -> Padding:
    given = neutral.keys(value, path, ("axes", "neutral"))
    axes = []
    for at, pair in enumerate(neutral.items(given["axes"], f"{path}.axes")):
        margins = _numbers(pair, f"{path}.axes[{at}]")
        if len(margins) != 2:
            raise ArgumentError(f"found {len(margins)} numbers, expected two", f"{path}.axes[{at}]")
        axes.append((margins[0], margins[1]))
    bits = neutral.bits(given["neutral"], f"{path}.neutral", 64)
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    return Padding(axes=tuple(axes), neutral=number)


def _read_pair(value: Any, path: str) -> tuple[Any, Any]:
    pair = neutral.items(value, path)
    if len(pair) != 2:
        raise ArgumentError(f"found {len(pair)} items, expected two", path)
    return pair[0], pair[1]


def _read_training(value: Any) -> TrainingRecord:
    path = "training"
    given = neutral.keys(value, path, tuple(key.name for key in OCANNL_TRAINING))
    extra = []
    for at, pair in enumerate(neutral.items(given["extra"], f"{path}.extra")):
        where = f"{path}.extra[{at}]"
        key, content = _read_pair(pair, where)
        extra.append((_read_text(key, where), _read_text(content, where)))
    state = []
    for at, pair in enumerate(neutral.items(given["state"], f"{path}.state")):
        where = f"{path}.state[{at}]"
        namespace, number = _read_pair(pair, where)
        if namespace == "":
            raise ArgumentError("is empty, expected a name", f"{where}[0]")
        state.append((_read_text(namespace, f"{where}[0]"), neutral.decimal(number, f"{where}[1]", _NATURAL)))
    return TrainingRecord(
        version=neutral.number(given["version"], f"{path}.version", _NATURAL),
        host_rng=None if given["host_rng"] is None else neutral.blob(given["host_rng"], f"{path}.host_rng"),
        extra=tuple(extra),
        seeds=None if given["seeds"] is None else _numbers(given["seeds"], f"{path}.seeds", _SIGNED),
        state=tuple(state),
        **{name: neutral.decimal(given[name], f"{path}.{name}", _NATURAL) for name in _COUNTERS},
    )
