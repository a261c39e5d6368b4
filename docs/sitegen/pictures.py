"""Pictures of records, byte for byte, and maps of whole files: all derived from the schema and the golden files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from construct import Struct

from ckptspec.conformance.catalogue import load_suite
from ckptspec.formats import FORMATS, module_of
from ckptspec.regions import Region
from ckptspec.source import BufferSource
from ckptspec.spec import schema
from ckptspec.spec.layout import Field, fields, record_size

from .markdown import attribute
from .svg import Picture, element, text_width

__all__ = ["MAPPED", "RECORDS", "pictures", "slug_of"]

RECORDS: Final = {name: item for name, item in vars(schema).items() if isinstance(item, Struct)}
"""Every binary record of the schema, by its name there."""

# The golden files that stand for their formats in maps.
MAPPED: Final = {
    "oam": "oam/golden_all_sections",
    "ocannl": "ocannl/training_full",
    "safetensors": "safetensors/golden_metadata_order",
}

_ROW: Final = 16  # bytes
_BYTE: Final = 44  # units of the picture that a byte is wide
_LEFT: Final = 44  # for the offsets
_TOP: Final = 22  # for the numbers of the columns
_LINE: Final = 50  # height of a row, unless a name must stand upright
_NAME: Final = 12  # size of a name's letters
_SMALL: Final = 10


def slug_of(name: str) -> str:
    """Return the name of a picture's file for the name of a record: ``OamHeader`` gives ``oam-header``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


# -------------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The part of a field that lies on one row, or on several whole rows; ``start`` and ``size`` are bytes."""

    field: Field
    start: int
    size: int

    @property
    def column(self) -> int:
        """The column of the first byte."""
        return self.start % _ROW

    @property
    def first(self) -> bool:
        """Whether the field begins here."""
        return self.start == self.field.offset

    @property
    def type(self) -> str:
        """The field's type, as the tables have it."""
        return self.field.type + (f"[{self.field.count}]" if self.field.count else "")


def rows_of(record: Struct) -> list[list[Piece]]:
    """Return the rows of a record's picture; whole rows of one field are one."""
    rows: list[list[Piece]] = [[]]
    for item in fields(record):
        at, end = item.offset, item.offset + item.size
        while at < end:
            whole = (end - at) // _ROW * _ROW
            size = whole if at % _ROW == 0 and whole else min(end - at, _ROW - at % _ROW)
            if at % _ROW == 0 and rows[-1]:
                rows.append([])
            rows[-1].append(Piece(field=item, start=at, size=size))
            at += size
    return rows


def _upright(piece: Piece) -> bool:
    return piece.first and text_width(piece.field.name, _NAME) > _width(piece) - 8


def _width(piece: Piece) -> int:
    return _BYTE * min(piece.size, _ROW)


def _height(row: list[Piece]) -> float:
    tall = (text_width(piece.field.name, _NAME) + 30 for piece in row if _upright(piece))
    return max((_LINE, *tall))


def record_picture(name: str) -> Picture:
    """Return the picture of a record: rows of bytes, a box for each field, names, types and sizes."""
    record = RECORDS[name]
    size, columns = record_size(record), min(record_size(record), _ROW)
    body = [_label(str(at), _LEFT + (at + 0.5) * _BYTE, _TOP - 8, "middle") for at in range(columns)]
    top = float(_TOP)
    for row in rows_of(record):
        height = _height(row)
        body.append(_label(str(row[0].start), _LEFT - 6, top + 14, "end"))
        body += [_box(piece, top, height) for piece in row]
        top += height
    body.append(_label(str(size), _LEFT - 6, top + 12, "end"))
    parts = "; ".join(f"{item.name}, {_bytes(item.size)} at {item.offset}" for item in fields(record))
    return Picture(
        slug=slug_of(name),
        title=f"The record {name}, {_bytes(size)}",
        description=f"{parts}.",
        width=_LEFT + columns * _BYTE + 2,
        height=top + 16,
        body=body,
    )


def _bytes(number: int) -> str:
    return f"{number:,} byte{'' if number == 1 else 's'}"


def _label(text: str, x: float, y: float, anchor: str, size: int = _SMALL, kind: str = "ck-dim") -> str:
    place: dict[str, object] = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor, "font-size": size}
    return element("text", place | ({"class": kind} if kind else {}), attribute(text))


def _box(piece: Piece, top: float, height: float) -> str:
    item, left, width = piece.field, _LEFT + piece.column * _BYTE, _width(piece)
    tip = f"{item.name}: {piece.type}, {_bytes(item.size)} at offset {item.offset}. {item.doc}"
    frame: dict[str, object] = {"x": left, "y": f"{top:g}", "width": width, "height": f"{height:g}"}
    rect = element("rect", frame | {"class": f"ck-{item.role}", "data-bytes": piece.size})
    title = element("title", {}, attribute(tip))
    return element("g", {}, title, rect, *_ticks(piece, top + height), *_names(piece, top, height))


def _ticks(piece: Piece, bottom: float) -> Iterator[str]:
    """Yield a mark between any two bytes of a row; where rows are drawn as one, two lines that say so."""
    left = _LEFT + piece.column * _BYTE
    if piece.size > _ROW:
        for x in (left, left + _ROW * _BYTE):
            yield element("path", {"d": f"M{x - 5} {bottom - 14:g}l10 -5M{x - 5} {bottom - 9:g}l10 -5"})
        return
    marks = "".join(f"M{left + at * _BYTE} {bottom:g}v-5" for at in range(1, piece.size))
    if marks:
        yield element("path", {"d": marks, "class": "ck-tick"})


def _names(piece: Piece, top: float, height: float) -> Iterator[str]:
    item, width = piece.field, _width(piece)
    x, y = _LEFT + piece.column * _BYTE + width / 2, top + height / 2
    if not piece.first:
        yield _label(
            "…" if width < text_width(f"… {item.name}", _NAME) else f"… {item.name}", x, y + 4, "middle", _NAME
        )
    elif _upright(piece):
        foot = top + height - 16
        place: dict[str, object] = {"x": f"{x + 4:g}", "y": f"{foot:g}", "font-size": _NAME}
        place["transform"] = f"rotate(-90 {x + 4:g} {foot:g})"
        yield element("text", place, attribute(item.name))
    else:
        rest = f", {_bytes(piece.size)} drawn as one row" if piece.size > _ROW else ""
        yield _label(item.name, x, y - 1, "middle", _NAME, "")
        told = (f"{piece.type} at {item.offset}{rest}", piece.type)
        fits = [text for text in told if text_width(text, _SMALL) < width]
        if fits:
            yield _label(fits[0], x, y + 13, "middle")


# ----------------------------------------------------------------------------------------------------------------- maps


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a file in a map; ``group`` is what it belongs to, together with its neighbours."""

    offset: int
    size: int
    name: str
    kind: str
    group: str = ""


def parts_of(case_id: str) -> list[Part]:
    """Return the parts of a golden file, from its first byte to its last."""
    case = load_suite().case(case_id)
    name_of = _oam_part if case.format == "oam" else _part
    parts: list[Part] = []
    for region in module_of(case.format).regions(BufferSource(case.read(), case_id)):
        name, kind, group = name_of(region, bool(parts) and parts[-1].kind == "data")
        part = Part(offset=region.offset, size=region.size, name=name, kind=kind, group=group)
        if parts and (parts[-1].name, parts[-1].group) == (name, group) and kind != "data":
            before = parts.pop()
            part = Part(offset=before.offset, size=before.size + part.size, name=name, kind=kind, group=group)
        parts.append(part)
    return parts


def _oam_part(region: Region, after_data: bool) -> tuple[str, str, str]:
    head, _, rest = region.path.partition(".")
    section = head.partition("[")[0]
    if region.kind == "padding":
        return "zeros, to whole pages" if after_data else "zeros, to the data start", "padding", ""
    if section == "header":
        return "file header", "int", ""
    if section == "sections":
        return "section table", "int", ""
    if section == "optimizer":
        return (rest, "data", section) if region.kind == "data" else ("record", "f32", section)
    if section in schema.OAM_TENSOR_SECTIONS:
        if region.kind == "data":
            return f"payload of {head}", "data", section
        return ("entries of the index", "text", section) if "[" in head else ("head of the index", "int", section)
    return f"{section} record", "text", ""


def _part(region: Region, after_data: bool) -> tuple[str, str, str]:
    if region.path.startswith("frame."):
        return region.path.removeprefix("frame.").replace("_", " "), "int", ""
    if region.kind == "data":
        return f"payload of {region.path.removesuffix('.data')}", "data", ""
    if after_data:
        return "zeros, to the next multiple of the alignment", "padding", ""
    return "header: text, and spaces at its end", "text", ""


_MAP: Final = 460  # width of the boxes of a map
_OFFSETS: Final = 64


def file_map(format: str) -> Picture:
    """Return the map of a golden file: its parts from top to bottom, with offsets and sizes; not to scale."""
    parts = parts_of(MAPPED[format])
    body: list[str] = []
    top, starts = 8.0, []
    for part in parts:
        height = 26.0 + 4 * min(part.size.bit_length() // 3, 6)
        starts.append(top)
        tip = f"{part.group} {part.name}: {_bytes(part.size)} at offset {part.offset}".strip()
        frame: dict[str, object] = {"x": _OFFSETS, "y": f"{top:g}", "width": _MAP, "height": f"{height:g}"}
        body.append(
            element(
                "g",
                {},
                element("title", {}, attribute(tip)),
                element("rect", frame | {"class": f"ck-{part.kind}", "data-bytes": part.size}),
                _label(str(part.offset), _OFFSETS - 6, top + 12, "end"),
                _label(part.name, _OFFSETS + 10, top + height / 2 + 4, "start", _NAME, ""),
                _label(_bytes(part.size), _OFFSETS + _MAP - 10, top + height / 2 + 4, "end"),
            )
        )
        top += height
    end = parts[-1].offset + parts[-1].size
    body.append(_label(str(end), _OFFSETS - 6, top + 4, "end"))
    body += _brackets(parts, [*starts, top])
    told = "; ".join(f"{part.group} {part.name}, {_bytes(part.size)} at {part.offset}".strip() for part in parts)
    return Picture(
        slug=f"map-{format}",
        title=f"A map of a whole file: {FORMATS[format]}, {_bytes(end)}; not to scale",
        description=f"{told}.",
        width=_OFFSETS + _MAP + 140,
        height=top + 12,
        body=body,
    )


def _brackets(parts: list[Part], edges: list[float]) -> Iterator[str]:
    """Yield a bracket beside the parts of each group."""
    at = 0
    while at < len(parts):
        end = at + 1
        while end < len(parts) and parts[end].group == parts[at].group:
            end += 1
        if parts[at].group:
            x, top, bottom = _OFFSETS + _MAP + 6, edges[at] + 3, edges[end] - 3
            yield element("path", {"d": f"M{x} {top:g}h6V{bottom:g}h-6"})
            yield _label(parts[at].group, x + 12, (top + bottom) / 2 + 4, "start", _NAME, "")
        at = end


@cache
def pictures() -> dict[str, Picture]:
    """Return all pictures by their names."""
    made = [*map(record_picture, RECORDS), *map(file_map, MAPPED)]
    return {picture.slug: picture for picture in made}
