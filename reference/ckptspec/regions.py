"""Named stretches of a file, and their annotated hex dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .source import Source
from .terminal import Style, wrapped

__all__ = ["Region", "hex_dump"]

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
    if not any(data) and size > ROW and _only_zeros(source, region.offset, size):
        yield f"    {region.offset:08x}  {style.paint(f'00 x {size}', colour)}"
        return
    for at in range(0, shown, ROW):
        row = data[at : at + ROW]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"    {region.offset + at:08x}  {style.paint(row.hex(' ').ljust(3 * ROW - 1), colour)}  {style.dim(text)}"
    if size > shown:
        yield style.dim(f"    ... {size - shown} more bytes")


def _only_zeros(source: Source, offset: int, size: int) -> bool:
    return all(not any(bytes(block).strip(b"\0")) for block in source.blocks(offset, size))
