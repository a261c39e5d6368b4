"""The exports of the schema as files of the site, and links to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ckptspec.spec import exports

from .markdown import table

__all__ = ["EXPORTS_PAGE", "downloads", "export_files"]

EXPORTS_PAGE: Final = "exports.md"
_FOLDER: Final = "downloads"


def export_files() -> Iterator[tuple[str, str]]:
    """Yield path and text of each export."""
    for name, text in exports.files().items():
        yield f"{_FOLDER}/{name}", text


def downloads() -> str:
    """Return the section of the page on exports that links to them all."""
    rows = [[f"[{name}]({_FOLDER}/{name})", f"{len(text.encode()):,} bytes"] for name, text in exports.files().items()]
    return "\n\n## Downloads\n\nWhat the commands above write:\n\n" + table(["file", "size"], rows, right=[1]) + "\n"
