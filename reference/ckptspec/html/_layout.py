"""The bytes of a file for the page: its map, and those that are shown one by one.

One pass over the regions of a file serves both. On the map, fields that stand together are one part, and each payload
is one of its own, so that a file of many tensors has not many more parts than tensors. Shown in full are the fields of
all records, up to ``MOST_FIELDS`` of those that come once a tensor and ``FIELD_BYTES`` of each; of payloads, of padding
and of what nothing explains the first ``HEAD_BYTES``. Where there is a finding, the bytes are shown in any case.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..findings import Finding
from ..regions import Region
from ..source import Source
from ..spec.schema import OAM_TENSOR_SECTIONS
from ..text import count

__all__ = ["FIELD_BYTES", "HEAD_BYTES", "MOST_FIELDS", "MOST_PAYLOADS", "Layout"]

FIELD_BYTES: Final = 4096  # of one field
HEAD_BYTES: Final = 64  # of a payload
MOST_FIELDS: Final = 20_000  # of the entries of tensors
MOST_PAYLOADS: Final = 10_000
_MOST_FOUND: Final = 1000  # fields that are shown for their finding alone

_RECORD, _INDEX, _DATA, _PADDING, _HOLE = "record", "index", "data", "padding", "hole"
_TENSOR: Final = re.compile(r"tensors\[\d+\]|tensor ['0-9a-z]")
_SYNTAX, _UNEXPLAINED = "syntax", "unexplained"
_SECTIONS: Final = (*OAM_TENSOR_SECTIONS, "optimizer")
_OPENING: Final = re.compile(r"[^.\[]+")

Places = Sequence[tuple[int, int | None]]
"""Tensors that share a name: index and offset of each."""


class Layout:
    """The map and the shown bytes of a file, from its regions in the order of their offsets."""

    def __init__(self, source: Source, findings: Sequence[Finding], rows: Mapping[str, Places]) -> None:
        self._source = source
        self._rows = rows  # index and offset of tensors, by the beginning of the paths of their regions
        self._seen: Counter[str] = Counter()
        self._found = sorted((finding.offset, finding.offset + max(1, finding.length)) for finding in findings)
        self._longest = max((end - start for start, end in self._found), default=0)
        self._texts: dict[str, int] = {}
        self._parts: dict[tuple[str, str], int] = {}
        self._sizes: list[int] = []
        self._segments: list[list[int]] = []
        self._fields: list[list[Any]] = []
        self._chunks: list[tuple[int, bytearray]] = []
        self._counts = {"entries": 0, "payloads": 0, "found": 0, "left_out": 0}
        self._at = 0
        self.places: list[tuple[int, int, int]] = []  # offset, end and tensor of entries and payloads
        self.docs: dict[str, str] = {}  # sentences of the schema by path, without those of single tensors

    def take(self, regions: Iterable[Region]) -> None:
        """Take all regions of the file; what none of them names is unexplained."""
        for region in regions:
            if region.offset > self._at:
                self._take(_unexplained(self._at, region.offset))
            self._take(region)
        if self._at < self._source.size:
            self._take(_unexplained(self._at, self._source.size))

    def to_json(self) -> dict[str, Any]:
        """Return the map, the fields and the bytes for the page.

        A segment: offset, size, part, tensor or -1. A field: offset, size, path, type, kind, value, sentence, tensor.
        Types, kinds and sentences are indexes of ``texts``.
        """
        return {
            "parts": [[label, kind, self._sizes[at]] for (label, kind), at in self._parts.items()],
            "segments": [number for segment in self._segments for number in segment],
            "fields": sorted(self._fields, key=lambda entry: entry[0]),
            "texts": list(self._texts),
            "chunks": [[offset, base64.b64encode(data).decode()] for offset, data in self._chunks],
            "left_out": self._counts["left_out"],
        }

    def row_of(self, key: str) -> int:
        """Return the tensor whose paths begin with ``key``, or -1."""
        found = self._rows.get(key)
        return found[0][0] if found else -1

    def row_at(self, offset: int, size: int) -> int:
        """Return the tensor whose entry or payload holds a stretch of bytes, or -1."""
        at = bisect_right(self.places, (offset, self._source.size + 1, 0))
        for start, end, row in self.places[max(0, at - 1) : at]:
            if start <= offset and offset + size <= end:
                return row
        return -1

    # ---------------------------------------------------------------------------------------------------------- regions

    def _take(self, region: Region) -> None:
        label, kind = self._part(region)
        row = self._row(region)
        end = min(region.offset + region.size, self._source.size)
        if end <= region.offset:
            return
        if row >= 0:
            self.places.append((region.offset, end, row))
        elif region.doc and kind == _RECORD:
            self.docs.setdefault(region.path, region.doc)
        if self._shows(region, kind):
            self._show(region, kind, row, end)
        start = max(region.offset, self._at)  # of payloads that overlap, the first has the byte
        if end > start:
            self._segment(start, end, label, kind, row if kind == _DATA else -1)
            self._at = end

    def _part(self, region: Region) -> tuple[str, str]:
        """Return the part of the file that a region belongs to; what stands between fields goes with that before it."""
        if region.path == _SYNTAX and self._segments:
            before = list(self._parts)[self._segments[-1][2]]
            if before[1] in (_RECORD, _INDEX):
                return before
        return _part(region)

    def _row(self, region: Region) -> int:
        """Return the tensor that a region belongs to, or -1."""
        key = region.path.removesuffix(".data")
        found = self._rows.get(key) or self._rows.get(key.rpartition(".")[0], ())
        if len(found) < 2:
            return found[0][0] if found else -1
        if region.kind == "data":
            return next((at for at, offset in found if offset == region.offset), -1)
        number = self._seen[key]  # of tensors that share a name, the entries stand in the order of the rows
        self._seen[key] += 1
        return found[min(number, len(found) - 1)][0]

    def _segment(self, start: int, end: int, label: str, kind: str, row: int) -> None:
        part = self._parts.setdefault((label, kind), len(self._parts))
        if part == len(self._sizes):
            self._sizes.append(0)
        self._sizes[part] += end - start
        last = self._segments[-1] if self._segments else None
        if last is not None and row < 0 and last[2:] == [part, row] and last[0] + last[1] == start:
            last[1] += end - start
        else:
            self._segments.append([start, end - start, part, row])

    # ------------------------------------------------------------------------------------------------------------ bytes

    def _shows(self, region: Region, kind: str) -> bool:
        what, most = ("payloads", MOST_PAYLOADS) if kind == _DATA else ("entries", MOST_FIELDS)
        if kind in (_DATA, _INDEX):
            self._counts[what] += 1
            if self._counts[what] > most:
                if self._counts["found"] < _MOST_FOUND and self._is_found(region.offset, region.offset + region.size):
                    self._counts["found"] += 1
                    return True
                self._counts["left_out"] += 1
                return False
        return True

    def _is_found(self, start: int, end: int) -> bool:
        """Say whether there is a finding about a byte from ``start`` to ``end``."""
        at = bisect_left(self._found, (start - self._longest, 0))
        while at < len(self._found) and self._found[at][0] < end:
            if self._found[at][1] > start:
                return True
            at += 1
        return False

    def _show(self, region: Region, kind: str, row: int, end: int) -> None:
        limit = FIELD_BYTES if kind in (_RECORD, _INDEX) else HEAD_BYTES
        size = end - region.offset
        value = region.value
        if kind in (_PADDING, _HOLE) and self._source.first_nonzero(region.offset, size) is None:
            limit, value = 16, count(size, "zero byte")
        self._fields.append(
            [
                region.offset,
                size,
                region.path,
                self._text(region.type),
                self._text(region.kind),
                value,
                self._text(region.doc),
                row,
            ]
        )
        self._read(region.offset, min(size, limit))
        for start, stop in self._inside(region.offset + min(size, limit), end):
            self._read(start, stop - start)

    def _inside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the rows of bytes around findings that lie within a stretch and are not shown yet."""
        at = bisect_left(self._found, (start, 0))
        for offset, _ in self._found[at : at + _MOST_FOUND]:
            if offset >= end:
                return
            yield max(start, offset - offset % 16 - 16), min(end, offset - offset % 16 + 32)

    def _read(self, offset: int, size: int) -> None:
        last = self._chunks[-1] if self._chunks else None
        if last is not None and offset <= last[0] + len(last[1]):  # as all regions but overlapping ones do
            known = last[0] + len(last[1]) - offset
            if 0 <= known < size:
                last[1].extend(self._source.read(offset + known, size - known))
            return
        if size:
            self._chunks.append((offset, bytearray(self._source.read(offset, size))))

    def _text(self, value: str) -> int:
        return self._texts.setdefault(value, len(self._texts))


def _unexplained(start: int, end: int) -> Region:
    doc = "Bytes that nothing in the file explains."
    return Region(offset=start, size=end - start, path=_UNEXPLAINED, type=f"byte[{end - start}]", kind="bytes", doc=doc)


def _part(region: Region) -> tuple[str, str]:
    path = region.path
    opening = _OPENING.match(path)
    name = opening[0] if opening else path
    if region.kind == "padding" and path != _SYNTAX:
        return path, _PADDING
    if path in ("gap", _UNEXPLAINED) or path.endswith(".blob"):
        return _UNEXPLAINED, _HOLE
    if region.kind == "data":
        if path.endswith((".data", "_moment")):
            return f"{name} payloads" if name in _SECTIONS else "payloads", _DATA
        return name, _RECORD if path.endswith("arch_config") else _HOLE
    if name in OAM_TENSOR_SECTIONS:
        return f"{name} index", _INDEX
    if path == _SYNTAX or _TENSOR.match(path):
        return "tensor entries", _INDEX
    return "section table" if name == "sections" else name, _RECORD
