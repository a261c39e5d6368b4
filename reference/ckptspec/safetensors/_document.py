"""Between a safetensors file and its neutral document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .. import neutral
from .._mapped import steady_bytes
from ..errors import ArgumentError
from ..spec.dtypes import SAFETENSORS_DTYPES
from ..text import show
from ._model import Tensor, TensorFile

__all__ = ["document_of", "file_of"]

_U64: Final = (0, (1 << 64) - 1)


def document_of(model: TensorFile, stored: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the neutral document; tensors are sorted by the bytes of their names."""
    return {
        "format": "safetensors",
        "metadata": None if model.metadata is None else dict(model.metadata),
        "tensors": [
            {
                "name": name,
                "dtype": stored[name].dtype,
                "shape": [str(extent) for extent in stored[name].shape],
                "data": steady_bytes(memoryview(stored[name].data)).hex(),
            }
            for name in sorted(stored, key=lambda name: name.encode())
        ],
    }


def file_of(document: Mapping[str, Any]) -> TensorFile:
    """Return the file that a neutral document describes. Raises ArgumentError."""
    given = neutral.keys(document, "document", ("format", "metadata", "tensors"))
    if given["format"] != "safetensors":
        raise ArgumentError(f"found {show(given['format'])}, expected 'safetensors'", "format")
    tensors: dict[str, Tensor] = {}
    for row, item in enumerate(neutral.items(given["tensors"], "tensors")):
        path = f"tensors[{row}]"
        values = neutral.keys(item, path, ("name", "dtype", "shape", "data"))
        name = neutral.text(values["name"], f"{path}.name")
        if name in tensors:
            raise ArgumentError(f"a duplicate: {show(name)} again", f"{path}.name")
        if not isinstance(values["dtype"], str) or values["dtype"] not in SAFETENSORS_DTYPES:
            expected = ", ".join(SAFETENSORS_DTYPES)
            raise ArgumentError(f"found {show(values['dtype'])}, expected one of {expected}", f"{path}.dtype")
        shape = neutral.items(values["shape"], f"{path}.shape")
        tensors[name] = Tensor(
            dtype=values["dtype"],
            shape=tuple(neutral.decimal(extent, f"{path}.shape[{at}]", _U64) for at, extent in enumerate(shape)),
            data=neutral.blob(values["data"], f"{path}.data"),
        )
    return TensorFile(tensors=tensors, metadata=_metadata(given["metadata"]))


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ArgumentError(f"found {show(value)}, expected an object or null", "metadata")
    return {
        neutral.text(key, "metadata"): neutral.text(content, f"metadata[{show(key)}]") for key, content in value.items()
    }
