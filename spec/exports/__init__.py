"""The specification for other languages and tools: Kaitai Struct, ImHex, C, and JSON for programs of any kind.

Everything is derived from the schema, the dtypes and the rules; nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .c import c
from .common import TITLES
from .description import describe, description
from .imhex import imhex
from .kaitai import kaitai

__all__ = ["FORMATS", "KINDS", "describe", "export", "files"]

# A file of the first kinds describes one format, one of the others any number of them.
_SINGLE: Final[Mapping[str, Callable[[str], str]]] = {"kaitai": kaitai, "imhex": imhex}
_JOINT: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {"c": c, "json": description}
_EXTENSIONS: Final = {"kaitai": "ksy", "imhex": "hexpat", "c": "h", "json": "json"}

FORMATS: Final = tuple(TITLES)
"""The formats that are exported."""
KINDS: Final = tuple(_EXTENSIONS)
"""What they can be exported as."""


def export(kind: str, format: str | None = None) -> str:
    """Return an export as text, all of it ASCII.

    Without a format it is of all formats, or of the first one where a file describes only one. Raises KeyError for an
    unknown kind or format.
    """
    if format is not None and format not in TITLES:
        raise KeyError(format)
    if kind in _SINGLE:
        return _SINGLE[kind](FORMATS[0] if format is None else format)
    return _JOINT[kind](FORMATS if format is None else (format,))


def files() -> dict[str, str]:
    """Return all exports, by the names that their files should have."""
    made = {f"{name}.{_EXTENSIONS[kind]}": export(kind, name) for kind in _SINGLE for name in FORMATS}
    return made | {f"ckptspec.{_EXTENSIONS[kind]}": export(kind) for kind in _JOINT}
