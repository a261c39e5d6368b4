"""Readings of files: what each accepts, and what it finds there.

What a reading finds are *parts* by name: the keys of the neutral document, and for a format whose file is a frame, the
``header`` and the data section behind it, as bytes. A reading may find only some of the parts; two readings are
compared in those that both find.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...findings import Report
from ...formats import FORMATS, module_of
from ...source import BufferSource
from ...spec.layout import record_size
from ...spec.schema import FRAMES
from ..tests import plain_oam_decoder, plain_ocannl_decoder, plain_safetensors_decoder

__all__ = ["PLAIN", "REFERENCE", "Answer", "MissingReadingError", "Reading", "frame_parts", "plain", "reference"]

REFERENCE: Final = "reference"
PLAIN: Final = "plain decoder"

Parts = dict[str, Any]

_DECODERS: Final = {
    "oam": plain_oam_decoder,
    "ocannl": plain_ocannl_decoder,
    "safetensors": plain_safetensors_decoder,
}


class MissingReadingError(RuntimeError):
    """A reading cannot be had on this machine: a package, a compiler or the documentation is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reading says of a file: its ``parts``, or None if it refuses the file, and then why and at which byte.

    ``broken`` says that it did neither, which never is acceptable. ``report`` is what the reference found.
    """

    parts: Parts | None = None
    why: str = ""
    offset: int | None = None
    broken: bool = False
    report: Report | None = None

    @property
    def accepted(self) -> bool:
        """Whether the reading takes the file."""
        return self.parts is not None

    def __str__(self) -> str:
        if self.accepted:
            return "accepts"
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{'breaks' if self.broken else 'refuses'}{place}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading: ``read`` takes a format's name and the bytes of a file. ``title`` and ``finds`` are for people."""

    name: str
    formats: tuple[str, ...]
    title: str
    finds: str
    read: Callable[[str, bytes], Answer]

    def ask(self, format: str, data: bytes) -> Answer:
        """Return the answer; an exception that is no refusal makes it a broken one."""
        try:
            return self.read(format, data)
        except MissingReadingError:
            raise
        except Exception as error:
            return Answer(broken=True, why=f"uncaught {type(error).__name__}: {error}")


def frame_parts(format: str, data: bytes) -> Parts:
    """Return header and data section of a file with a whole header; nothing for a format without a frame."""
    if format not in FRAMES:
        return {}
    frame = FRAMES[format]
    start = record_size(frame.record)
    end = start + frame.record.parse(data)[frame.length]
    return {"header": data[start:end], frame.data: data[end:]}


def _reference(format: str, data: bytes) -> Answer:
    source = BufferSource(data)
    report = module_of(format).validate(source)
    if report.first is not None and not report.ok:
        return Answer(why=str(report.first), offset=report.first.offset, report=report)
    return Answer(parts=module_of(format).decode(source) | frame_parts(format, data), report=report)


def reference() -> Reading:
    """Return the reference: validator and decoder."""
    return Reading(
        name=REFERENCE,
        formats=tuple(FORMATS),
        title="the reader and the validator of this package",
        finds="the neutral document; header and data of formats with a frame",
        read=_reference,
    )


def _plain(format: str, data: bytes) -> Answer:
    decoder: Any = _DECODERS[format]
    try:
        return Answer(parts=decoder.decode(data))
    except decoder.Refused as refused:
        error = getattr(refused, "error", None) or {}
        offset = getattr(refused, "offset", None)
        return Answer(why=str(refused), offset=error.get("offset") if offset is None else offset)


def plain() -> Reading:
    """Return the decoders of the tests, one for each format, which share no code with the reference."""
    return Reading(
        name=PLAIN,
        formats=tuple(_DECODERS),
        title="decoders of the tests, made of `struct`, `json` and `re` alone",
        finds="the neutral document",
        read=_plain,
    )


def importable(name: str) -> Any:
    """Return a module; MissingReadingError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise MissingReadingError(f"{name} is not installed") from None
