"""safetensors files: reading, writing, checking, by one strict reading of the format.

``load`` and ``loads`` give a ``TensorFile``; ``save`` and ``dumps`` take one, or a mapping from names to arrays.
``safe_open`` is the everyday way to a few tensors of a large file. Torch and jax arrays are taken where arrays are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, FormatError
from ..examination import Examination
from ..formats import reading_as
from ..source import BufferSource, Source, WithoutPayloads, changed, open_file
from ..spec.schema import SAFETENSORS_MAX_HEADER
from ..text import show
from ._anatomy import FRAME_SIZE, Anatomy
from ._examine import examine
from ._model import Tensor, TensorFile, TensorMap

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..findings import Report, Survivor
    from ..regions import Region
    from ._edit import edit_metadata
    from ._open import SafeSlice, safe_open

__all__ = [
    "SafeSlice",
    "Tensor",
    "TensorFile",
    "TensorMap",
    "decode",
    "dumps",
    "edit_metadata",
    "encode",
    "load",
    "loads",
    "safe_open",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in ("SafeSlice", "safe_open"):
        from . import _open

        return getattr(_open, name)
    if name == "edit_metadata":
        from ._edit import edit_metadata

        return edit_metadata
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(path: str | os.PathLike[str], *, mmap: bool = True) -> TensorFile:
    """Read a file; its tensors are read-only views, whose payloads are touched when they are used.

    With ``mmap=False`` the whole file is read now, and they are views of that memory. Raises FormatError if a reader
    must refuse the file, OSError if the system will not read it.
    """
    with open_file(path, mmap=mmap) as source, reading_as(source, "safetensors"):
        return read(source)


def loads(data: Buffer) -> TensorFile:
    """Read a file from bytes; its tensors are views of them. Raises FormatError."""
    return read(BufferSource(data))


def save(
    path: str | os.PathLike[str],
    tensors: TensorFile | Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file atomically: the old file or the new one, never something between.

    ``tensors`` is a TensorFile, or a mapping from names to arrays, to which ``metadata`` goes. Tensors stream into the
    file. Raises ArgumentError, before anything is written, if the format cannot hold them, OSError if the system will
    not write, in which case an old file is untouched.
    """
    to_file(path, _model(tensors, metadata))


def dumps(tensors: TensorFile | Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes that ``save`` writes. Raises ArgumentError."""
    return to_bytes(_model(tensors, metadata))


def _model(tensors: Any, metadata: Any) -> TensorFile:
    if not isinstance(tensors, TensorFile):
        return TensorFile(tensors=tensors, metadata=metadata)
    if metadata is not None:
        raise ArgumentError("a TensorFile has its own", "metadata")
    return tensors


# --------------------------------------------------------------------------------------- what every format's module has


def recognises(head: bytes, size: int) -> bool:
    """Say whether a file that begins with ``head`` is a safetensors file, perhaps one with a damaged header."""
    text = head[FRAME_SIZE:].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith((b"{", b"\xff\xfe", b"\xfe\xff")):
        return False
    length = int.from_bytes(head[:FRAME_SIZE], "little")
    return length <= max(size, SAFETENSORS_MAX_HEADER) or b'"data_offsets"' in text or b'"__metadata__"' in text


def read(source: Source, *, verify: bool = True) -> TensorFile:
    """Read a file from an open source, which may be closed afterwards; there is no checksum to verify.

    Raises FormatError if a reader must refuse the file.
    """
    return model_from(source, anatomy_of(source))


def anatomy_of(source: Source) -> Anatomy:
    """Read a header; FormatError if a reader must refuse the file."""
    anatomy = examine(Examination(source))
    assert anatomy is not None  # reading raises before it gives up
    return anatomy


def model_from(source: Source, anatomy: Anatomy) -> TensorFile:
    """Return the content of a file that breaks no reject rule."""
    content = source.view(0, source.size)  # made now: it outlives the source
    return TensorFile(tensors=TensorMap(anatomy, content), metadata=anatomy.metadata)


def decode(source: Source) -> dict[str, Any]:
    """Return the neutral document of an open source. Raises FormatError."""
    from ._document import document_of

    model = read(source)
    assert isinstance(model.tensors, TensorMap)
    return document_of(model, {name: model.tensors.stored(name) for name in model.tensors})


def encode(document: Mapping[str, Any]) -> bytes:
    """Return the file that a neutral document describes. Raises ArgumentError."""
    from ._document import file_of

    return to_bytes(file_of(document))


def holds(model: object) -> bool:
    """Say whether an object is what this format's files hold."""
    return isinstance(model, TensorFile)


def to_file(path: str | os.PathLike[str], model: TensorFile, version: int | None = None) -> None:
    """Do what ``save`` does; the format has no versions."""
    from ..publish import publishing
    from ._write import write

    planned = _planned(model, version)
    with publishing(path) as draft:
        write(planned, draft)


def to_bytes(model: TensorFile, version: int | None = None) -> bytes:
    """Do what ``dumps`` does; the format has no versions."""
    from ..memory import MemorySink
    from ._write import write

    sink = MemorySink()
    write(_planned(model, version), sink)
    return bytes(sink.data)


def _planned(model: TensorFile, version: int | None) -> Any:
    from ._write import checked_metadata, items_of, plan

    if version is not None:
        raise ArgumentError(f"found {show(version)}; safetensors files have no versions", "version")
    metadata = checked_metadata(model.metadata)
    return plan(items_of(model), metadata)


def _examined(source: Source, payloads: bool = True) -> tuple[Report, Anatomy | None]:
    from ..findings import Report

    report = Report(source=source.name, format="safetensors", size=source.size)
    return report, examine(Examination(source, report, payloads=payloads))


def _validated(source: Source, payloads: bool) -> tuple[Report, Anatomy | None]:
    report, anatomy = _examined(source, payloads)
    if anatomy is not None and not report.ok:
        from ._rescue import rescue

        report.survivors = rescue(WithoutPayloads(source), anatomy)[1]
    return report, anatomy


def validate(source: Source, *, payloads: bool = True, survivors: bool = True) -> Report:
    """Report everything that is wrong with an open source.

    Without ``payloads``, none is read; without ``survivors``, nobody wants to know what can still be read.
    """
    return (_validated(source, payloads) if survivors else _examined(source, payloads))[0]


def inspect(source: Source, *, payloads: bool = True) -> tuple[Report, dict[str, Any]]:
    """Return the report on an open source, and a description of its parts as JSON types, as far as it can be read.

    Without ``payloads``, none is read.
    """
    from ._describe import description

    report, anatomy = _validated(source, payloads)
    return report, {} if anatomy is None else description(anatomy)


def regions(source: Source) -> Iterator[Region]:
    """Yield every stretch of an open source with its name and meaning, as far as it can be read."""
    from ..findings import Report
    from ._describe import regions as all_regions

    anatomy = examine(Examination(source, Report()), placed=True)
    return iter(()) if anatomy is None else all_regions(anatomy)


def salvage(source: Source, intact_only: bool = False) -> tuple[TensorFile, list[Survivor], Report]:
    """Return what can be read of a damaged source, what became of each part, and the report.

    There are no checksums: what can be read counts as intact. Raises FormatError if nothing is there.
    """
    from ._rescue import rescue

    report, anatomy = _examined(source)
    model, survivors = (None, []) if anatomy is None else rescue(source, anatomy, intact_only)
    if model is None:
        if report.first is None:  # nothing was wrong when it was read first
            raise changed(source.name)
        raise FormatError(report.first, source.name)
    return model, survivors, report
