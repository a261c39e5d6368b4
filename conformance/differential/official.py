"""The reading of the official package ``safetensors``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from ...spec.dtypes import SAFETENSORS_DTYPES
from ...spec.schema import SafetensorsFrame
from .readings import Answer, Parts, Reading, importable

__all__ = ["OFFICIAL", "lacking_dtypes", "official"]

OFFICIAL: Final = "official package"
TITLE: Final = "the official package `safetensors`: `deserialize` and `safe_open`"


def official() -> Reading:
    """Return the reading; MissingReadingError if the package is not installed."""
    package = importable("safetensors")
    return Reading(
        name=OFFICIAL,
        formats=("safetensors",),
        title=TITLE,
        finds="tensors and metadata",
        read=lambda _format, data: _read(package, data),
    )


def _read(package: Any, data: bytes) -> Answer:
    try:
        found = package.deserialize(data)
    except package.SafetensorError as error:
        return Answer(why=str(error))
    tensors = [
        {"name": name, "dtype": item["dtype"], "shape": list(map(str, item["shape"])), "data": item["data"].hex()}
        for name, item in found
    ]
    parts: Parts = {"tensors": sorted(tensors, key=lambda tensor: tensor["name"].encode())}
    return Answer(parts=parts | {"metadata": _metadata(package, data)})


def _metadata(package: Any, data: bytes) -> Any:
    """Return the metadata, which the package gives of files only."""
    with tempfile.NamedTemporaryFile(prefix="ckptspec-", suffix=".safetensors") as file:
        Path(file.name).write_bytes(data)
        with package.safe_open(file.name, framework="numpy") as opened:
            return opened.metadata()


def lacking_dtypes() -> frozenset[str]:
    """Return the dtypes that the installed package does not know; older ones lack some."""
    package = importable("safetensors")
    return frozenset(name for name in SAFETENSORS_DTYPES if not _read(package, _empty(name)).accepted)


def _empty(dtype: str) -> bytes:
    """Return a file of one tensor without elements."""
    text = f'{{"w":{{"dtype":"{dtype}","shape":[0],"data_offsets":[0,0]}}}}'.encode()
    frame: bytes = SafetensorsFrame.build({"header_length": len(text)})
    return frame + text
