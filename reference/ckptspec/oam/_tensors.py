"""The checks of a weights or state section.

The checks of one entry are written once, for one row, in Python integers (``_entry`` and ``_payload``). An index of ten
thousand rows is first looked through by numpy: a row goes through those checks only if a comparison that cannot wrap
marks it as one that may break a rule. A test holds the two against each other.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..examination import Examination
from ..spec.dtypes import OAM_BY_CODE, OAM_CODES
from ..spec.layout import field, numpy_dtype, record_size
from ..spec.schema import (
    OAM_BLOCK_ENCODINGS,
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_QUANT_BLOCK,
    OAM_QUANT_VERSION,
    OamIndex,
    OamTensor,
)
from ..text import count, printable, shorten
from ._anatomy import Anatomy, Index, Section

__all__ = ["ENCODING_NAMES", "check_alignment", "check_index", "elements_of", "quantized_size", "raw_name"]

_U64: Final = 1 << 64
_SMALL: Final = float(1 << 53)  # below this, a product of extents is exact in a float64, and nothing wraps
_STRETCH: Final = 1 << 16  # entries that are read at a time, 14 MB of them
_DENSE: Final = OAM_ENCODINGS["dense"]
_F32: Final = OAM_CODES["f32"]
_BOOL: Final = OAM_CODES["bool"]
# Element size by dtype code, to be indexed with a column of codes; 1 where the code is unknown.
_SIZES: Final = np.array([OAM_BY_CODE[code].size if code in OAM_BY_CODE else 1 for code in range(256)], np.uint64)
ENCODING_NAMES: Final = {code: name for name, code in OAM_ENCODINGS.items()}
# Bytes of a block, codes and scale.
_BLOCK_BYTES: Final = {OAM_ENCODINGS[name]: encoding.block_bytes for name, encoding in OAM_BLOCK_ENCODINGS.items()}


def quantized_size(encoding: int, elements: int) -> int:
    """Return the bytes of a quantized payload: for each block of 32 elements its codes and its scale."""
    return -(-elements // OAM_QUANT_BLOCK) * _BLOCK_BYTES[encoding]


def _product(extents: list[int]) -> int | None:
    """Multiply from left to right; None as soon as the product reaches 2^64."""
    product = 1
    for extent in extents:
        product *= extent
        if product >= _U64:
            return None
    return product


def elements_of(index: Index, row: int) -> int:
    """Return the number of elements of a tensor that passed its checks."""
    entry = index.entries[row]
    return _product([int(extent) for extent in entry["shape"][: int(entry["rank"])]]) or 0


def raw_name(index: Index, row: int) -> bytes:
    """Return the bytes of a name up to its NUL, or all of the field if it has none."""
    raw: bytes = index.entries["name"][row].tobytes()
    return raw.partition(b"\0")[0]


def check_index(exam: Examination, version: int, section: Section) -> Index | None:
    """Check a weights or state section; return its index, or None if there is none to speak of."""
    where, start = section.name, section.offset
    head = record_size(OamIndex)
    if section.size < head:
        exam.emit("OAM-IDX-SHORT", start, section.size, where, count(section.size, "byte"), f"at least {head} bytes")
    if section.available < head or section.size < head:
        return None
    values = OamIndex.parse(bytes(exam.source.read(start, head)))

    def emit(rule: str, name: str, found: object, expected: object) -> None:
        item = field(OamIndex, name)
        exam.emit(rule, start + item.offset, item.size, f"{where}.{name}", found, expected)

    if any(values["reserved"]):
        emit("OAM-IDX-RESERVED", "reserved", values["reserved"].hex(), "zeros")
    number, entry_size = values["count"], record_size(OamTensor)
    if head + number * entry_size > section.size:
        room = (section.size - head) // entry_size
        emit("OAM-IDX-COUNT", "count", number, f"at most {room}, what the section has room for")
        return None
    if exam.thorough and not number:
        emit("OAM-IDX-EMPTY", "count", "a section without tensors", "no section")
    base = start + head
    blob = base + number * entry_size
    number = min(number, (section.available - head) // entry_size)  # a truncated file has no more
    index = Index(
        section=section,
        base=base,
        entries=np.zeros(0, numpy_dtype(OamTensor)),
        names=[],
        blob=blob,
        blob_size=section.end - blob,
    )
    _Checker(exam, version, index).run(number)
    return index


class _Checker:
    """The checks of one index. Findings come in the order: names and codes of all, payloads of all, overlaps."""

    def __init__(self, exam: Examination, version: int, index: Index) -> None:
        self.exam = exam
        self.version = version
        self.index = index
        self.where = index.section.name

    def run(self, number: int) -> None:
        self._parse(number)
        for row in np.flatnonzero(self._suspect_payloads()):
            self._payload(int(row))
        self._overlaps()
        if self.exam.thorough:
            self._extents()
            self._positions()
            if self.exam.payloads:  # else no payload is read
                self._bools()

    def _parse(self, number: int) -> None:
        """Read ``number`` entries and check names and codes, a stretch at a time: what the count says may be a lie.

        A stretch most of which is faulty ends it: no file has such an index but one that is made to be long.
        """
        size = record_size(OamTensor)
        stretches = []
        seen: dict[bytes, int] = {}
        for first in range(0, number, _STRETCH):
            rows = min(_STRETCH, number - first)
            raw = bytes(self.exam.source.read(self.index.base + first * size, rows * size))
            entries = np.frombuffer(raw, numpy_dtype(OamTensor))
            stretches.append(entries)
            before = len(self.index.bad)
            self._names(entries, first, seen)
            if rows == _STRETCH and len(self.index.bad) - before > rows // 2:
                assert self.exam.report is not None  # reading, the first fault was raised
                self.exam.report.truncated = True
                break
        if stretches:
            self.index.entries = stretches[0] if len(stretches) == 1 else np.concatenate(stretches)

    # ---------------------------------------------------------------------------------------------------- one row

    def _emit(self, rule: str, row: int, name: str, found: object, expected: object) -> None:
        item = field(OamTensor, name)
        offset = self.index.base + row * record_size(OamTensor) + item.offset
        label = self.index.names[row]
        hint = "" if label is None else f"The tensor is '{shorten(printable(label), 140)}'."
        from ..spec.rules import REJECT, RULES

        if RULES[rule].kind == REJECT:
            self.index.bad.setdefault(row, set()).add(rule)
        self.exam.emit(rule, offset, item.size, f"{self.where}[{row}].{name}", found, expected, hint)

    def _entry(self, row: int, entry: Any) -> None:
        """Check the codes of one entry."""
        dtype, rank, encoding = int(entry["dtype"]), int(entry["rank"]), int(entry["encoding"])
        if dtype not in OAM_BY_CODE:
            self._emit("OAM-TEN-DTYPE", row, "dtype", dtype, f"a code of 0 to {max(OAM_BY_CODE)}")
        if rank > OAM_MAX_RANK:
            self._emit("OAM-TEN-RANK", row, "rank", rank, f"at most {OAM_MAX_RANK}")
        if encoding not in ENCODING_NAMES:
            self._emit("OAM-TEN-ENCODING", row, "encoding", encoding, f"at most {max(ENCODING_NAMES)}")
        reserved = entry["reserved"].tobytes()
        if any(reserved):
            self._emit("OAM-TEN-RESERVED", row, "reserved", reserved.hex(), "zeros")

    def _payload(self, row: int) -> None:
        """Check the range, and the byte count against shape, dtype and encoding, of one entry."""
        entry = self.index.entries[row]
        offset, size = int(entry["blob_offset"]), int(entry["num_bytes"])
        if offset + size >= _U64:
            self._emit("OAM-TEN-OVERFLOW", row, "blob_offset", f"{offset} + {size}", "less than 2^64")
        elif offset + size > self.index.blob_size:
            found = f"a payload from {offset} to {offset + size}"
            self._emit("OAM-TEN-RANGE", row, "blob_offset", found, f"within the blob of {self.index.blob_size} bytes")
        dtype, rank, encoding = int(entry["dtype"]), int(entry["rank"]), int(entry["encoding"])
        if dtype not in OAM_BY_CODE or rank > OAM_MAX_RANK or encoding not in ENCODING_NAMES:
            return  # said already, and the rest depends on them
        shape = [int(extent) for extent in entry["shape"][:rank]]
        elements = _product(shape)
        if elements is None:
            self._emit("OAM-TEN-ELEMENTS", row, "shape", shape, "a product below 2^64, from left to right")
            return
        block = int(entry["block_size"])
        if encoding == _DENSE:
            if block:
                self._emit("OAM-TEN-BLOCK", row, "block_size", block, "0, since the tensor is dense")
            needed = elements * OAM_BY_CODE[dtype].size
        else:
            self._quantized(row, dtype, block, elements)
            needed = quantized_size(encoding, elements)
        if needed >= _U64:
            self._emit("OAM-TEN-SIZEOF", row, "shape", f"{shape}, which makes {needed} bytes", "less than 2^64 bytes")
        elif needed != size:
            what = f"{ENCODING_NAMES[encoding]} {OAM_BY_CODE[dtype].name}"
            self._emit("OAM-TEN-BYTES", row, "num_bytes", size, f"{needed}, as {what} of shape {shape} takes")

    def _quantized(self, row: int, dtype: int, block: int, elements: int) -> None:
        if self.version < OAM_QUANT_VERSION:
            found = f"a quantized tensor in version {self.version}"
            self._emit("OAM-QNT-VERSION", row, "encoding", found, f"version {OAM_QUANT_VERSION}, or dense")
            return
        if self.where != "weights":
            self._emit("OAM-QNT-STATE", row, "encoding", f"a quantized tensor in {self.where}", "dense")
        if dtype != _F32:
            self._emit("OAM-QNT-DTYPE", row, "dtype", OAM_BY_CODE[dtype].name, "f32, since the tensor is quantized")
        if block != OAM_QUANT_BLOCK:
            self._emit("OAM-QNT-BLOCK", row, "block_size", block, OAM_QUANT_BLOCK)
        if not elements:
            self._emit("OAM-QNT-EMPTY", row, "shape", "no elements", "at least one, since the tensor is quantized")

    # --------------------------------------------------------------------------------------------------- all rows

    def _names(self, entries: np.ndarray[Any, np.dtype[np.void]], first: int, seen: dict[bytes, int]) -> None:
        """Read the names of a stretch; check each entry's name, then its codes if they are suspect."""
        width = field(OamTensor, "name").size
        raw = entries["name"].tobytes()
        suspects = self._suspect_entries(entries)
        names = self.index.names
        plain = _plain_names(entries, raw, first, seen)
        if plain is not None:
            names += plain
            for suspect in np.flatnonzero(suspects).tolist():
                self._entry(first + suspect, entries[suspect])
            return
        flagged = suspects.tolist()
        names += [None] * len(entries)
        for at in range(len(entries)):
            row = first + at
            name = raw[at * width : (at + 1) * width].rstrip(b"\0")
            if b"\0" in name or len(name) == width or not name or name in seen:
                name = self._odd_name(row, name, width, seen)
            if name:
                seen.setdefault(name, row)
                try:
                    names[row] = name.decode()
                except UnicodeDecodeError as error:
                    expected = f"UTF-8; byte {error.start} is not"
                    self._emit("OAM-TEN-UTF8", row, "name", name.hex(), expected)
            if flagged[at]:
                self._entry(row, entries[at])

    def _odd_name(self, row: int, name: bytes, width: int, seen: dict[bytes, int]) -> bytes:
        """Check a name that is not plainly good; return what counts of it."""
        if len(name) == width and b"\0" not in name:
            self._emit("OAM-TEN-NUL", row, "name", name.hex(), f"a NUL in its {width} bytes")
            return b""
        name, nul, tail = name.partition(b"\0")
        if not name:
            self._emit("OAM-TEN-EMPTY", row, "name", "an empty name", f"1 to {width - 1} bytes")
        elif name in seen:
            shown = printable(name.decode("utf-8", "backslashreplace"))
            self._emit("OAM-TEN-DUP", row, "name", f"'{shown}' again", f"another name than {self.where}[{seen[name]}]")
        if nul and self.exam.thorough:
            self._emit("OAM-TEN-TAIL", row, "name", f"{tail.hex()} after the NUL", "zeros")
        return name

    def _suspect_entries(self, entries: np.ndarray[Any, np.dtype[np.void]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        suspect: np.ndarray[Any, np.dtype[np.bool_]] = (
            (entries["dtype"] > max(OAM_BY_CODE))
            | (entries["rank"] > OAM_MAX_RANK)
            | (entries["encoding"] > max(ENCODING_NAMES))
            | entries["reserved"].any(axis=1)
        )
        return suspect

    def _suspect_payloads(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        entries = self.index.entries
        offset, size, shape = entries["blob_offset"], entries["num_bytes"], entries["shape"]
        blob_size = np.uint64(self.index.blob_size)
        outside = (offset > blob_size) | (size > blob_size - np.minimum(offset, blob_size))
        beyond = np.arange(OAM_MAX_RANK) >= entries["rank"][:, None]
        extents = np.where(beyond, np.uint64(1), shape)
        # float64 cannot wrap. Zero extents count as one, so that a product that is large on the way is seen.
        large = np.maximum(extents, np.uint64(1)).astype(np.float64).prod(axis=1) >= _SMALL
        elements = np.where(large[:, None], np.uint64(0), extents).prod(axis=1, dtype=np.uint64)
        wrong = (entries["block_size"] != 0) | (elements * _SIZES[entries["dtype"]] != size)
        quantized = entries["encoding"] != _DENSE
        suspect: np.ndarray[Any, np.dtype[np.bool_]] = outside | large | wrong | quantized
        return suspect

    def _overlaps(self) -> None:
        entries = self.index.entries
        sound = np.ones(len(entries), np.bool_)
        sound[list(self.index.bad)] = False
        rows = np.flatnonzero(sound & (entries["num_bytes"] > 0))
        rows = rows[np.argsort(entries["blob_offset"][rows], kind="stable")]
        starts = entries["blob_offset"][rows]
        ends = starts + entries["num_bytes"][rows]  # both were shown to be within the blob
        furthest = np.maximum.accumulate(ends) if len(rows) else ends
        holder = np.maximum.accumulate(np.where(ends == furthest, np.arange(len(rows)), 0)) if len(rows) else rows
        for at in np.flatnonzero(starts[1:] < furthest[:-1]) + 1:
            row, other = int(rows[at]), int(rows[holder[at - 1]])
            label = shorten(printable(self.index.names[other] or ""), 140)
            found = f"a payload from {int(starts[at])} to {int(ends[at])}"
            expected = f"no byte of '{label}' ({self.where}[{other}]), which ends at {int(furthest[at - 1])}"
            self._emit("OAM-TEN-OVERLAP", row, "blob_offset", found, expected)

    # ------------------------------------------------------------------------------------------ canonical and notes

    def _extents(self) -> None:
        entries = self.index.entries
        beyond = np.arange(OAM_MAX_RANK) >= entries["rank"][:, None]
        for row in np.flatnonzero((beyond & (entries["shape"] != 0)).any(axis=1)):
            rank = int(entries["rank"][row])
            found = [int(extent) for extent in entries["shape"][row][rank:]]
            self._emit("OAM-TEN-EXTENTS", int(row), "shape", f"{found} beyond rank {rank}", "zeros")

    def _positions(self) -> None:
        if self.index.bad:
            return
        entries = self.index.entries
        ends = entries["blob_offset"] + entries["num_bytes"]
        expected = np.concatenate([np.zeros(1, np.uint64), ends])
        for row in np.flatnonzero(entries["blob_offset"] != expected[:-1]):
            at, before = int(entries["blob_offset"][row]), int(expected[row])
            rule = "OAM-TEN-GAP" if at > before else "OAM-TEN-ORDER"
            self._emit(rule, int(row), "blob_offset", at, before)
        end, size = int(ends.max()) if len(ends) else 0, self.index.blob_size
        if len(ends) and size > end:
            start, last = self.index.blob + end, f"{end}, the end of the last payload"
            self.exam.emit("OAM-TEN-GAP", start, size - end, f"{self.where}.blob", f"{size} bytes", last)

    def _bools(self) -> None:
        entries = self.index.entries
        for row in np.flatnonzero((entries["dtype"] == _BOOL) & (entries["num_bytes"] > 0)):
            if int(row) in self.index.bad:
                continue
            start, size = self.index.blob + int(entries["blob_offset"][row]), int(entries["num_bytes"][row])
            if start + size > self.exam.source.size:
                continue
            self._bool_payload(int(row), start, size)

    def _bool_payload(self, row: int, start: int, size: int) -> None:
        odd, first, at = 0, start, start
        for block in self.exam.source.blocks(start, size):
            places = np.flatnonzero(np.frombuffer(block, np.uint8) > 1)
            if len(places):
                first = first if odd else at + int(places[0])
                odd += len(places)
            at += len(block)
        if odd:
            hint = f"The tensor is '{shorten(printable(self.index.names[row] or ''), 140)}'."
            found = f"{count(odd, 'element')} other than 0 and 1"
            self.exam.emit("OAM-TEN-BOOL", first, 1, f"{self.where}[{row}].data", found, "0 or 1", hint)


def _plain_names(
    entries: np.ndarray[Any, np.dtype[np.void]], raw: bytes, first: int, seen: dict[bytes, int]
) -> list[str] | None:
    """Return the names of a stretch if all are plainly good: text, not empty, new, and followed by NULs only.

    ``raw`` are the name fields and ``first`` is the stretch's first row; ``seen`` maps the names before to their rows,
    and is added to.
    """
    fields = entries["name"]
    if not fields[:, 0].all() or fields[:, -1].any():
        return None
    found: list[bytes] = np.frombuffer(raw, f"S{fields.shape[1]}").tolist()  # numpy strips trailing NULs
    rows = dict(zip(found, range(first, first + len(found)), strict=True))
    if len(rows) != len(found) or not seen.keys().isdisjoint(rows) or b"\0" in b"".join(found):
        return None
    try:
        names = list(map(bytes.decode, found))
    except UnicodeDecodeError:
        return None
    seen.update(rows)
    return names


def check_alignment(exam: Examination, anatomy: Anatomy) -> None:
    """Note, once a file, that payloads are not aligned to their element size."""
    total, odd, first, where = 0, 0, 0, ""
    for index in anatomy.indexes.values():
        entries = index.entries
        rows = np.array([row not in index.bad for row in range(len(entries))], np.bool_) & (entries["num_bytes"] > 0)
        starts = entries["blob_offset"][rows] + np.uint64(index.blob)
        places = np.flatnonzero(starts % _SIZES[entries["dtype"][rows]])
        if len(places) and not odd:
            first, where = int(starts[places[0]]), index.section.name
        total, odd = total + len(starts), odd + len(places)
    if odd:
        exam.emit(
            "OAM-TEN-ALIGN",
            first,
            1,
            where,
            f"{odd} of {count(total, 'payload')} at an address that is no multiple of the element size",
            "aligned payloads",
            "Writers place them so: the first blob starts 4 bytes past a multiple of 8.",
        )
