"""Named stretches of a file, and their annotated hex dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from construct import Struct

from .source import Source
from .spec.layout import fields
from .terminal import Style, wrapped
from .text import printable, shorten

__all__ = ["Region", "frame_regions", "hex_dump", "stretch", "text_region"]

ROW: Final = 16  # bytes on a line
MOST_ROWS: Final = 4  # lines of a long region that are shown, at its start


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A stretch of a file that one field, payload or padding takes.

    ``kind`` is the field's role in the schema, ``data`` for payloads, ``padding`` for what belongs to nothing.
    ``value`` is for people, escaped already.
    """

    offset: int
    size: int
    path: str
    type: str
    kind: str
    value: str = ""
    doc: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the region as JSON types."""
        return {name: getattr(self, name) for name in ("offset", "size", "path", "type", "kind", "value", "doc")}


def stretch(start: int, end: int, path: str, kind: str, doc: str, unit: str = "byte") -> Iterator[Region]:
    """Yield the region between two offsets, if there is anything between them."""
    if end > start:
        size = end - start
        yield Region(offset=start, size=size, path=path, type=f"{unit}[{size}]", kind=kind, doc=doc)


def text_region(text: bytes, start: int, size: int, base: int, path: str, doc: str) -> Region:
    """Return the region of a part of a header's text, which itself begins at ``base``; long values are cut."""
    value = shorten(printable(text[start : start + min(size, 400)].decode("utf-8", "replace")), 120)
    return Region(offset=base + start, size=size, path=path, type=f"char[{size}]", kind="text", value=value, doc=doc)


def frame_regions(frame: Struct, values: Mapping[str, int]) -> Iterator[Region]:
    """Yield the fields of a record of integers that opens a file."""
    for item in fields(frame):
        yield Region(
            offset=item.offset,
            size=item.size,
            path=f"frame.{item.name}",
            type=item.type,
            kind=item.role,
            value=str(values[item.name]),
            doc=item.doc,
        )


_COLOURS: Final = {
    "int": "cyan",
    "f32": "cyan",
    "dtype": "cyan",
    "bool": "cyan",
    "text": "green",
    "bytes": "yellow",
    "data": "magenta",
    "reserved": "dim",
    "flags": "dim",
    "padding": "dim",
}


def hex_dump(source: Source, regions: Iterable[Region], style: Style) -> Iterator[str]:
    """Yield the lines of a dump: a headline a region, then its bytes; long payloads and runs of zeros are cut."""
    for region in regions:
        colour = _COLOURS[region.kind]
        head = f"{style.bold(region.path)}  {style.dim(region.type)}"
        yield f"{head}  {style.paint(region.value, colour)}" if region.value else head
        if region.doc and region.kind != "padding":
            for line in wrapped(region.doc, "    "):
                yield style.dim(line)
        yield from _bytes(source, region, style, colour)


def _bytes(source: Source, region: Region, style: Style, colour: str) -> Iterator[str]:
    size = min(region.size, source.size - region.offset)
    shown = min(size, ROW * MOST_ROWS)
    data = bytes(source.read(region.offset, shown))
    if not any(data) and size > ROW and source.first_nonzero(region.offset, size) is None:
        yield f"    {region.offset:08x}  {style.paint(f'00 x {size}', colour)}"
        return
    for at in range(0, shown, ROW):
        row = data[at : at + ROW]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"    {region.offset + at:08x}  {style.paint(row.hex(' ').ljust(3 * ROW - 1), colour)}  {style.dim(text)}"
    if size > shown:
        yield style.dim(f"    ... {size - shown} more bytes")
