"""The executable specification of training-checkpoint files.

``load`` and ``loads`` read a file of any known format, ``save`` and ``dumps`` write one; ``validate`` reports all that
is wrong with a file; ``decode`` and ``encode`` go to and from the neutral document. The formats have modules of their
own: ``ckptspec.oam``, ``ckptspec.ocannl``, ``ckptspec.safetensors``.

A file that breaks a rule raises ``FormatError``, which carries rule, byte offset and path; a call that asks for what a
format cannot hold raises ``ArgumentError``; both are ``CheckpointError``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, CheckpointError, FormatError
from .formats import format_of, module_for, module_of, report_on
from .source import open_source

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from . import oam, ocannl, safetensors, testing
    from .findings import Finding, Report, Survivor
    from .oam import Model
    from .ocannl import Checkpoint
    from .quantization import QuantizedTensor
    from .safetensors import TensorFile

__all__ = [
    "ArgumentError",
    "Checkpoint",
    "CheckpointError",
    "Finding",
    "FormatError",
    "Model",
    "QuantizedTensor",
    "Report",
    "Survivor",
    "TensorFile",
    "decode",
    "dumps",
    "encode",
    "load",
    "loads",
    "oam",
    "ocannl",
    "safetensors",
    "save",
    "testing",
    "validate",
]
__version__ = "0.1.0"

_LATE = {
    "Checkpoint": "ocannl",
    "Model": "oam",
    "oam": "oam",
    "ocannl": "ocannl",
    "safetensors": "safetensors",
    "testing": "testing",
    "TensorFile": "safetensors",
    "Finding": "findings",
    "Report": "findings",
    "Survivor": "findings",
    "QuantizedTensor": "quantization",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:  # what not every program needs is imported when it is asked for
        import importlib

        module = importlib.import_module(f".{_LATE[name]}", __name__)
        return module if name == _LATE[name] else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Any:
    """Read a checkpoint of any known format; the format is told from the content.

    An ``.oam`` file gives an ``oam.Model``, an OCANNL file an ``ocannl.Checkpoint``, a
    safetensors file a ``safetensors.TensorFile``. Arrays are read-only views of the
    file; ``copy()`` gives writable ones. ``verify=False`` compares no checksum.
    ``mmap=False`` reads the whole file now instead of mapping it.
    Raises FormatError if a reader must refuse the file, OSError if the system will not read it.
    """
    with open_source(_path(path), mmap=mmap) as source:
        return module_of(format_of(source)).read(source, verify=verify)


def loads(data: Buffer, *, verify: bool = True) -> Any:
    """Read a checkpoint from bytes, as ``load`` does from a file; arrays are views of the bytes."""
    source = open_source(_data(data))
    return module_of(format_of(source)).read(source, verify=verify)


def save(path: str | os.PathLike[str], model: Model | Checkpoint | TensorFile, *, version: int | None = None) -> None:
    """Write a checkpoint atomically, in the format of the model and its newest version unless told otherwise.

    Raises ArgumentError, before anything is written, if the format cannot hold the model; OSError if the system will
    not write, in which case an old file is untouched.
    """
    module_for(model).to_file(_path(path), model, version)


def dumps(model: Model | Checkpoint | TensorFile, *, version: int | None = None) -> bytes:
    """Return the bytes that ``save`` writes. Raises ArgumentError if the format cannot hold the model."""
    return module_for(model).to_bytes(model, version)


def validate(where: str | os.PathLike[str] | Buffer, *, format: str | None = None, payloads: bool = True) -> Report:
    """Report everything that is wrong with a file, or with bytes; text is a path.

    The format is told from the content, unless given. ``payloads=False`` looks at the structure only: no payload is
    read and no checksum of one compared. Bad bytes never raise; a file that the system will not read raises OSError.
    """
    with open_source(where) as source:
        return report_on(source, format, payloads=payloads)


def decode(where: str | os.PathLike[str] | Buffer) -> dict[str, Any]:
    """Return the neutral document of a file, or of bytes; text is a path. Raises FormatError."""
    with open_source(where) as source:
        return module_of(format_of(source)).decode(source)


def encode(document: Mapping[str, Any]) -> bytes:
    """Return the file that a neutral document describes. Raises ArgumentError, with the path of what is amiss."""
    if not isinstance(document, Mapping) or not isinstance(document.get("format"), str):
        raise ArgumentError("expected an object with the key 'format'", "document")
    return module_of(document["format"]).encode(document)


def _path(path: Any) -> str | os.PathLike[str]:
    if not isinstance(path, (str, os.PathLike)):
        hint = "; loads() takes bytes" if isinstance(path, (bytes, bytearray, memoryview)) else ""
        raise ArgumentError(f"found {type(path).__name__}, expected a path{hint}", "path")
    return path


def _data(data: Any) -> Any:
    if isinstance(data, (str, os.PathLike)):
        raise ArgumentError(f"found {type(data).__name__}, expected bytes; load() takes a path", "data")
    return data
