"""OCANNL checkpoints: reading, writing, checking, and the calls of a program that saves and restores its tensors.

A program's tensors are ``TensorNode`` s, identified by namespace and id; a ``Registry`` knows all of them, a
``Context`` their values. ``save`` writes the values of nodes, ``load`` creates nodes from a file, ``restore`` puts a
file's values into existing nodes; ``ckptspec.ocannl.training`` does so together with the progress of a training run.

A file by itself, without a program, is a ``Checkpoint``: ``ckptspec.load`` reads one, ``ckptspec.save`` writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, FormatError
from ..examination import Examination
from ..source import Source, WithoutPayloads, changed
from ..spec.schema import OCANNL_MAX_HEADER, OCANNL_VERSION
from ..text import show
from ._anatomy import FRAME_SIZE, Anatomy
from ._checkpoint import Checkpoint, Tensor, TrainingRecord
from ._examine import examine, parse_frame
from ._nodes import Context, Padding, Registry, TensorNode
from ._read import anatomy_of, checkpoint_from

if TYPE_CHECKING:
    from ..findings import Report, Survivor
    from ..regions import Region
    from ._persistence import (
        IngestionCounts,
        ingestion_counts,
        load,
        reset_ingestion_counts,
        restore,
        save,
        settings,
    )

__all__ = [
    "Checkpoint",
    "Context",
    "IngestionCounts",
    "Padding",
    "Registry",
    "Tensor",
    "TensorNode",
    "TrainingRecord",
    "decode",
    "encode",
    "ingestion_counts",
    "load",
    "reset_ingestion_counts",
    "restore",
    "save",
    "settings",
]

_FIRST_PART = 400  # bytes in which a header's first words are looked for, should its beginning be damaged
_WORDS = (b"(version", b"(tensors", b"(alignment", b"(byte_length")
_LATE = ("IngestionCounts", "ingestion_counts", "load", "reset_ingestion_counts", "restore", "save", "settings")


def __getattr__(name: str) -> Any:
    if name in _LATE:  # who only looks at a file needs no calls of a program
        from . import _persistence

        return getattr(_persistence, name)
    if name in ("training", "host_rng"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def recognises(head: bytes, size: int) -> bool:
    """Say whether a file that begins with ``head`` is an OCANNL checkpoint, perhaps one with a damaged header."""
    if len(head) < FRAME_SIZE:
        return False
    text = head[FRAME_SIZE:].lstrip(b" \t\n\v\f\r")
    length = parse_frame(head)
    plausible = 0 < length <= OCANNL_MAX_HEADER or text.startswith(b"((")
    if plausible and any(word in text[:_FIRST_PART] for word in _WORDS):
        return head[8:9] != b"{"  # else it is a safetensors file with such words in it
    # A header may begin with more blanks than recognition looks at.
    return 0 < length <= OCANNL_MAX_HEADER and text[:1] in (b"(", b";", b"#", b"")


def read(source: Source, *, verify: bool = True) -> Checkpoint:
    """Read a checkpoint from an open source, which may be closed afterwards; there is no checksum to verify.

    Payloads are not touched. Raises FormatError if a reader must refuse the file.
    """
    return checkpoint_from(source, anatomy_of(source))


def decode(source: Source) -> dict[str, Any]:
    """Return the neutral document of an open source. Raises FormatError."""
    from ._document import document_of

    return document_of(read(source))


def encode(document: Mapping[str, Any]) -> bytes:
    """Return the file that a neutral document describes. Raises ArgumentError."""
    from ._document import checkpoint_of

    return to_bytes(checkpoint_of(document))


def holds(model: object) -> bool:
    """Say whether an object is what this format's files hold."""
    return isinstance(model, Checkpoint)


def to_file(path: str | os.PathLike[str], model: Checkpoint, version: int | None = None) -> None:
    """Write a checkpoint file atomically. Raises ArgumentError, before anything is written, and OSError."""
    from ..publish import publishing
    from ._write import write

    planned = _planned(model, version)
    with publishing(path) as draft:
        write(planned, draft)


def to_bytes(model: Checkpoint, version: int | None = None) -> bytes:
    """Return the bytes of a checkpoint file. Raises ArgumentError."""
    from ..memory import MemorySink
    from ._write import write

    sink = MemorySink()
    write(_planned(model, version), sink)
    return bytes(sink.data)


def _planned(model: Checkpoint, version: int | None) -> Any:
    from ._write import items_of, plan

    if not isinstance(model, Checkpoint):
        raise ArgumentError(f"found {show(model)}, expected a Checkpoint", "checkpoint")
    if version not in (None, OCANNL_VERSION) or model.version != OCANNL_VERSION:
        found = model.version if version in (None, OCANNL_VERSION) else version
        raise ArgumentError(f"found {show(found)}, expected {OCANNL_VERSION}", "version")
    return plan(items_of(model), model.alignment, model.training)


def _examined(source: Source, payloads: bool = True) -> tuple[Report, Anatomy | None]:
    from ..findings import Report

    report = Report(source=source.name, format="ocannl", size=source.size)
    anatomy = examine(Examination(source, report, payloads=payloads))
    if anatomy is not None:
        report.version = anatomy.version
    return report, anatomy


def validate(source: Source, *, payloads: bool = True, survivors: bool = True) -> Report:
    """Report everything that is wrong with an open source.

    Without ``payloads``, none is read; without ``survivors``, nobody wants to know what can still be read.
    """
    return (_validated(source, payloads) if survivors else _examined(source, payloads))[0]


def _validated(source: Source, payloads: bool) -> tuple[Report, Anatomy | None]:
    from ._rescue import rescue

    report, anatomy = _examined(source, payloads)
    if anatomy is not None and not report.ok:
        report.survivors = rescue(WithoutPayloads(source), anatomy)[1]
    return report, anatomy


def inspect(source: Source, *, payloads: bool = True) -> tuple[Report, dict[str, Any]]:
    """Return the report on an open source, and a description of its parts as JSON types, as far as it can be read.

    Without ``payloads``, none is read.
    """
    from ._describe import description

    report, anatomy = _validated(source, payloads)
    return report, {} if anatomy is None else description(anatomy)


def regions(source: Source) -> Iterator[Region]:
    """Yield every stretch of an open source with its name and meaning, as far as it can be read."""
    from ._regions import regions as all_regions

    anatomy = _examined(source)[1]
    return iter(()) if anatomy is None else all_regions(anatomy)


def salvage(source: Source, intact_only: bool = False) -> tuple[Checkpoint, list[Survivor], Report]:
    """Return a checkpoint of all that can be read of a damaged source, what became of each part, and the report.

    There are no checksums: what can be read counts as intact. Raises FormatError if nothing is there.
    """
    from ._rescue import rescue

    report, anatomy = _examined(source)
    checkpoint, survivors = (None, []) if anatomy is None else rescue(source, anatomy, intact_only)
    if checkpoint is None or (not checkpoint.tensors and any(item.state == "lost" for item in survivors)):
        if report.first is None:  # nothing was wrong when it was read first
            raise changed(source.name)
        raise FormatError(report.first, source.name)
    return checkpoint, survivors, report
