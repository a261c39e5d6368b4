"""The tensors of a file of any format as rows of one table, also those of a damaged file, and their statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..contents import DENSE, Entry
from ..regions import Region
from ..source import Source
from ..spec.dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, ScalarType
from ..spec.schema import OAM_ENCODINGS
from ..statistics import Statistics, measurable, statistics_of
from ..text import printable, shorten, show

__all__ = ["MOST_TENSORS", "Row", "measured", "moment", "rows_of", "to_json"]

MOST_TENSORS: Final = 100_000  # that a page lists
_NAME: Final = 400  # characters of a name
_LEVELS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"  # heights of a histogram's bins
_SAFE: Final = (1 << 53) - 1  # the largest integer that a number of JSON keeps


@dataclass(slots=True, kw_only=True)
class Row:
    """A tensor. ``key`` is what the paths of its regions and findings begin with; texts are escaped.

    ``entry`` tells where its elements are; where they cannot be measured it is None, and ``reason`` says why.
    """

    key: str
    section: str
    name: str
    dtype: str
    encoding: str
    shape: Sequence[int] | None
    offset: int | None
    size: int | None
    accepted: bool
    entry: Entry | None = None
    reason: str = ""


# ----------------------------------------------------------------------------------------------------------------- rows


def rows_of(format: str, parts: dict[str, Any]) -> list[Row]:
    """Return the tensors that ``inspect`` found in a file, without those of an optimizer."""
    make = {"oam": _oam, "ocannl": _ocannl, "safetensors": _safetensors}[format]
    seen: Counter[str] = Counter()
    rows = []
    for item in parts["tensors"]:
        section = item.get("section", "")
        rows.append(make(item, seen[section]))
        seen[section] += 1
    return rows


def _row(item: dict[str, Any], scalar: ScalarType | None, shape: Sequence[int] | None, **texts: Any) -> Row:
    offset, size = item["offset"], item["size"]
    row = Row(shape=shape, offset=offset, size=size, accepted=item["accepted"], encoding=DENSE, **texts)
    row.encoding = item.get("encoding", DENSE)
    if scalar is None or shape is None or offset is None or size is None:
        row.reason = "what it is or where it lies cannot be read"
    else:
        row.entry = Entry("", scalar, tuple(shape), row.encoding, offset, size)
    return row


def _oam(item: dict[str, Any], number: int) -> Row:
    return _row(
        item,
        OAM_DTYPES.get(item["dtype"]),
        item["shape"],
        key=f"{item['section']}[{number}]",
        section=item["section"],
        name=_name(item["name"]),
        dtype=item["dtype"],
    )


def moment(region: Region) -> Row:
    """Return the tensor of an optimizer whose payload a region is."""
    scalar = OAM_DTYPES["f32"]
    item = {"offset": region.offset, "size": region.size, "accepted": True}
    section, name = region.path.split(".")
    shape = (region.size // scalar.size,)
    return _row(item, scalar, shape, key=region.path, section=section, name=name, dtype=scalar.name)


def _ocannl(item: dict[str, Any], number: int) -> Row:
    dims, padding = item["dims"], item["padding"]
    if dims is not None and padding is not None:  # what is stored is without the margins
        axes = padding["axes"]
        stored = [extent - left - right for extent, (left, right) in zip(dims, axes, strict=False)]
        dims = stored if len(axes) == len(dims) and min(stored, default=0) >= 0 else None
    scalar = OCANNL_PRECISIONS.get(item["precision"])
    namespace = "?" if item["namespace"] is None else item["namespace"]
    node = f"{namespace}:{'?' if item['id'] is None else item['id']}"
    return _row(
        item,
        scalar,
        dims,
        key=f"tensors[{number}]",
        section=shorten(node, _NAME),
        name=shorten(".".join(item["label"] or ()) or node, _NAME),
        dtype=item["precision"] or "unknown",
    )


def _safetensors(item: dict[str, Any], number: int) -> Row:
    scalar = SAFETENSORS_DTYPES.get(item["dtype"])
    key, dtype = f"tensor {show(item['name'])}", item["dtype"] or "unknown"
    return _row(item, scalar, item["shape"], key=key, section="", name=_name(item["name"]), dtype=dtype)


def _name(text: str) -> str:
    return shorten(printable(text[: _NAME + 1]), _NAME)


# ----------------------------------------------------------------------------------------------------------- statistics


def measured(source: Source, rows: Sequence[Row]) -> dict[int, Statistics]:
    """Return the statistics of rows by index; those that have none get a ``reason``.

    No byte is read for two tensors, so that it takes no longer than reading the file once.
    """
    wanted = []
    end = 0
    for at in sorted(range(len(rows)), key=lambda at: (rows[at].offset or 0, at)):
        row = rows[at]
        if row.entry is None:
            continue
        row.reason = _obstacle(row.entry, source.size)
        if not row.reason and row.entry.size and row.entry.offset < end:
            row.reason = "its payload overlaps that of another tensor"
        if not row.reason:
            wanted.append(at)
            end = max(end, row.entry.offset + row.entry.size)
    entries = [rows[at].entry for at in wanted]
    return {wanted[at]: found for at, found in statistics_of(source, [entry for entry in entries if entry is not None])}


def _obstacle(entry: Entry, size: int) -> str:
    """Return why a tensor's elements cannot be measured, or nothing."""
    if not measurable(entry):
        return "elements are packed below a byte"
    if entry.offset + entry.size > size:
        return "its payload is not in the file"
    if entry.size != _expected(entry):
        return "its bytes do not fit its shape"
    return ""


def _expected(entry: Entry) -> int | None:
    if entry.encoding == DENSE:
        return entry.elements * entry.scalar.size
    from ..oam._tensors import quantized_size

    known = entry.encoding in OAM_ENCODINGS and entry.scalar.name == "f32"
    return quantized_size(OAM_ENCODINGS[entry.encoding], entry.elements) if known else None


# ----------------------------------------------------------------------------------------------------------------- JSON


def to_json(rows: Sequence[Row], found: dict[int, Statistics]) -> dict[str, Any]:
    """Return the table for the page: texts that many rows share once, and an array a row.

    A row: key, section, name, dtype, encoding, shape or null, offset, size, accepted, statistics or the reason why
    there are none. Statistics: elements, values, NaN, infinities, and if there is a finite value minimum, maximum,
    mean, heights of the histogram's bins, its low edge, the width of a bin. Numbers that JSON would round are texts.
    """
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    table = [
        [
            row.key,
            text(row.section),
            row.name,
            text(row.dtype),
            text(row.encoding),
            None if row.shape is None else " x ".join(map(str, row.shape)),
            number(row.offset),
            number(row.size),
            int(row.accepted),
            _statistics(found[at]) if at in found else text(row.reason),
        ]
        for at, row in enumerate(rows)
    ]
    return {"texts": list(texts), "rows": table}


def number(value: int | float | None) -> int | float | str | None:
    """Return a number as JSON keeps it: as text, where it has more digits than a number there."""
    return str(value) if isinstance(value, int) and abs(value) > _SAFE else value


def _statistics(found: Statistics) -> list[Any]:
    made: list[Any] = [number(item) for item in (found.elements, found.parts, found.nan, found.infinite)]
    if found.histogram is None:
        return made
    histogram = found.histogram
    made += [number(found.minimum), number(found.maximum), found.mean, _heights(histogram.counts)]
    return [*made, number(histogram.low), number(histogram.width)]


def _heights(counts: Sequence[int]) -> str:
    """Return the height of each bin as one character; what is not empty is never the lowest."""
    most = max(counts)
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[math.ceil(count * top / most) if count < most else top] for count in counts)
