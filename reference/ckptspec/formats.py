"""Which format a file has: told from its content, never from its name.

A format's module offers the functions of ``FormatModule``; everything that works on any file goes through here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from .errors import ArgumentError, FormatError
from .source import Source
from .text import show

if TYPE_CHECKING:
    from .findings import Finding, Report, Survivor
    from .regions import Region

__all__ = [
    "EXTENSIONS",
    "FORMATS",
    "FormatModule",
    "describe",
    "extension_of",
    "foreign",
    "format_of",
    "module_for",
    "module_of",
    "reading_as",
    "recognise",
    "report_on",
    "unrecognised",
]

FORMATS: Final = {"oam": ".oam", "ocannl": "OCANNL checkpoint", "safetensors": "safetensors file"}
"""The formats, and what people call a file of each."""
EXTENSIONS: Final = {".oam": "oam", ".ckpt": "ocannl", ".ocannl": "ocannl", ".safetensors": "safetensors"}
"""The format that a file's name asks for, where there is nothing but a name."""
_HEAD: Final = 4096  # bytes that recognition looks at


class FormatModule(Protocol):
    """What the module of a format offers."""

    def recognises(self, head: bytes, size: int) -> bool: ...
    def read(self, source: Source, *, verify: bool = True) -> Any: ...
    def decode(self, source: Source) -> dict[str, Any]: ...
    def encode(self, document: Mapping[str, Any]) -> bytes: ...
    def holds(self, model: object) -> bool: ...
    def to_file(self, path: str | os.PathLike[str], model: Any, version: int | None = None) -> None: ...
    def to_bytes(self, model: Any, version: int | None = None) -> bytes: ...
    def validate(self, source: Source, *, payloads: bool = True, survivors: bool = True) -> Report: ...
    def inspect(self, source: Source, *, payloads: bool = True) -> tuple[Report, dict[str, Any]]: ...
    def regions(self, source: Source) -> Iterator[Region]: ...
    def salvage(self, source: Source, intact_only: bool) -> tuple[Any, list[Survivor], Report]: ...


def module_of(format: str) -> FormatModule:
    """Return the module of a format; ArgumentError if there is no such format."""
    if not isinstance(format, str) or format not in FORMATS:
        raise ArgumentError(f"found {show(format)}, expected one of {', '.join(FORMATS)}", "format")
    return cast(FormatModule, importlib.import_module(f".{format}", __package__))


def module_for(model: object) -> FormatModule:
    """Return the module of the format whose files hold such an object; ArgumentError if there is none."""
    package = type(model).__module__.split(".")
    name = package[1] if package[0] == __package__ and len(package) > 1 else ""  # no other module needs to be imported
    if name not in FORMATS or not module_of(name).holds(model):
        raise ArgumentError(f"found {show(model)}, expected a Model or a Checkpoint", "model")
    return module_of(name)


def extension_of(name: str) -> str | None:
    """Return the format whose extension a name has, or None."""
    return EXTENSIONS.get(os.path.splitext(name)[1].lower())


def recognise(source: Source) -> str | None:
    """Return the format of a source, or None if it is none that the library reads."""
    head = bytes(source.read(0, min(_HEAD, source.size)))
    return next((name for name in FORMATS if module_of(name).recognises(head, source.size)), None)


def unrecognised(source: Source) -> Finding:
    """Return the finding about a source of no known format."""
    from .findings import Finding

    return Finding(
        rule="ANY-FILE-FORMAT",
        offset=0,
        length=min(source.size, 8),
        path="",
        found=describe(bytes(source.read(0, min(_HEAD, source.size))), source.size),
        expected=f"a file of the format {' or '.join(FORMATS)}",
    )


@contextmanager
def reading_as(source: Source, format: str) -> Iterator[None]:
    """Read a source as a file of a format; a FormatError says so if it is no file of that format at all."""
    try:
        yield
    except FormatError:
        _raise_if_foreign(source, format)
        raise


def _raise_if_foreign(source: Source, format: str) -> None:
    from .findings import Finding

    known = recognise(source)
    if known == format:
        return
    finding = unrecognised(source)
    if known is not None:
        finding = Finding(
            rule=finding.rule,
            offset=0,
            length=finding.length,
            path="",
            found=f"a file of another format: {FORMATS[known]}",
            expected=FORMATS[format],
        )
    raise FormatError(finding, source.name) from None


def format_of(source: Source) -> str:
    """Return the format of a source; FormatError, saying what the file looks like, if it is none of ours."""
    known = recognise(source)
    if known is None:
        raise FormatError(unrecognised(source), source.name)
    return known


def report_on(source: Source, format: str | None = None, *, payloads: bool = True) -> Report:
    """Return the report on a source, whose format is told from its content unless given.

    Without ``payloads``, none is read: no checksum of one is compared, and neither gaps nor booleans are looked at.
    """
    from .findings import Report

    known = recognise(source) if format is None else format
    if known is not None:
        return module_of(known).validate(source, payloads=payloads)
    return Report(source=source.name, size=source.size, findings=[unrecognised(source)])


_SIGNATURES: Final = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer; the file itself was not fetched (git lfs pull)"),
    (b"PK\x03\x04", "a ZIP archive, such as a PyTorch checkpoint or a numpy .npz file"),
    (b"\x80\x02", "a Python pickle, such as an old PyTorch checkpoint"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"GGUF", "a GGUF file"),
    (b"\x93NUMPY", "a numpy .npy file"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"MAO\0", "an .oam file whose magic has its bytes in the wrong order"),
    (b"\0MAO", "an .oam file whose magic has its bytes in the wrong order"),
)

_CONTAINERS: Final = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x80\x05", b"\x89HDF\r\n\x1a\n", b"GGUF", b"\x93NUMPY")


def describe(head: bytes, size: int) -> str:
    """Say what a file that begins with ``head`` looks like, for somebody who took it for a checkpoint."""
    if not size:
        return "an empty file"
    if signature := _signature(head):
        return signature
    if not any(head):
        return f"{'only' if size <= len(head) else 'at first only'} zero bytes"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:15].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page, perhaps the error page of a download"
    if start.startswith(b"<?xml"):
        return "an XML document"
    if start.startswith((b"{", b"[")):
        return "JSON text"
    if b"\0" not in head and _is_text(head):
        return "text"
    return f"unknown data that begins with {head[:8].hex(' ')}"


def _signature(head: bytes) -> str:
    return next((what for magic, what in _SIGNATURES if head.startswith(magic)), "")


def foreign(head: bytes) -> str:
    """Return what else than a checkpoint of ours begins so, of what keeps checkpoints or arrays; else ``""``."""
    return _signature(head) if head.startswith(_CONTAINERS) else ""


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3  # cut in the middle of a character
    return True
