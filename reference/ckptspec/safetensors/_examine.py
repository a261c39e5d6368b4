"""The checks of a safetensors file, in the order in which readers make them.

First the frame, then the header's text and its entries in the order of the text, then how the payloads cover the byte
buffer. Reading a good file takes none of this: ``_plain`` reads the header with Python's own parser and compares
numbers; only where it finds something odd, and for validation, the header is read again byte by byte.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from ..examination import Examination, Stop, undisturbed
from ..spec.dtypes import SAFETENSORS_DTYPES
from ..spec.layout import field
from ..spec.schema import (
    SAFETENSORS_ENTRY,
    SAFETENSORS_HEADER_ALIGNMENT,
    SAFETENSORS_MAX_DEPTH,
    SAFETENSORS_MAX_HEADER,
    SAFETENSORS_METADATA,
    VALUE_KINDS,
    SafetensorsFrame,
)
from ..text import count, show
from ._anatomy import FRAME_SIZE, Anatomy, Entry, Place, measure
from ._json import JsonError, Node, Scanner, plain

__all__ = ["examine", "read_again", "read_pairs"]

_U64: Final = 1 << 64
_KEYS: Final = {key.name: key for key in SAFETENSORS_ENTRY}
_ONLY_KEYS: Final = f"{', '.join(_KEYS)} only"
_ONE_DTYPE: Final = f"one of {', '.join(SAFETENSORS_DTYPES)}"
_JSON_RULES: Final = {
    "syntax": "SAFETENSORS-TXT-JSON",
    "depth": "SAFETENSORS-TXT-DEPTH",
    "surrogate": "SAFETENSORS-TXT-SURROGATE",
    "utf8": "SAFETENSORS-TXT-UTF8",
}


def examine(exam: Examination, *, placed: bool = False) -> Anatomy | None:
    """Examine a source; return what was understood of it, or None if not even a header length is there.

    When reading (the examination has no report), the first reason to refuse is raised as FormatError. ``placed`` says
    that the places of all names and values in the header are wanted, also where all is well.
    """
    anatomy = None
    try:
        anatomy = _frame(exam)
        _text(exam, anatomy)
        with undisturbed(len(anatomy.text)):
            if placed or not _plain(exam, anatomy):
                anatomy.entries, anatomy.metadata = [], None
                _Reading(exam, anatomy).header()
                _Whole(exam, anatomy).check()
    except Stop:
        pass
    return anatomy


def read_again(exam: Examination, anatomy: Anatomy) -> bool:
    """Examine a header whose text was put right; False if it is no object of JSON even so."""
    try:
        _Reading(exam, anatomy).header()
        _Whole(exam, anatomy).check()
    except Stop:
        return False
    return True


def read_pairs(exam: Examination, anatomy: Anatomy, pairs: list[tuple[Node, Node]]) -> None:
    """Examine entries that were found one by one in a damaged header."""
    reading = _Reading(exam, anatomy)
    for key, value in pairs:
        reading.pair(key, value)
    _Whole(exam, anatomy).check()


def _frame(exam: Examination) -> Anatomy:
    size = exam.source.size
    if size < FRAME_SIZE:
        exam.emit("SAFETENSORS-FRM-SHORT", 0, size, "frame", count(size, "byte"), f"at least {FRAME_SIZE}")
        raise Stop
    frame = SafetensorsFrame.parse(bytes(exam.source.read(0, FRAME_SIZE)))
    return Anatomy(size=size, header_length=frame["header_length"])


def _text(exam: Examination, anatomy: Anatomy) -> None:
    """Read the header's text."""
    length, room = anatomy.header_length, anatomy.size - FRAME_SIZE
    item = field(SafetensorsFrame, "header_length")
    where = (item.offset, item.size, f"frame.{item.name}")
    if length > SAFETENSORS_MAX_HEADER:
        exam.emit("SAFETENSORS-FRM-LENGTH", *where, length, f"at most {SAFETENSORS_MAX_HEADER}")
    elif length > room:
        hint = f"The file is {count(length - room, 'byte')} too short for its header."
        exam.emit("SAFETENSORS-FRM-RANGE", *where, length, f"at most {room}, the bytes that follow", hint)
    else:
        anatomy.text = exam.source.settled(FRAME_SIZE, length)
        return
    raise Stop


# -------------------------------------------------------------------------------------------------------- the fast way


def _plain(exam: Examination, anatomy: Anatomy) -> bool:
    """Read a header that is plain and breaks no rule; False, with nothing said, if it is not.

    If canonical findings and notes are wanted, there must be none of them either.
    """
    if not anatomy.text.startswith(b"{"):
        return False
    read = plain(anatomy.text)
    if read is None:
        return False
    header, keys = read
    keys -= len(header)
    if SAFETENSORS_METADATA in header:
        metadata = header.pop(SAFETENSORS_METADATA)
        if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
            return False
        keys -= len(metadata)
        anatomy.metadata = metadata
    if keys != len(header) * len(_KEYS):  # a key is doubled, or not known
        return False
    try:
        "".join(header).encode()
        "".join(f"{key}{value}" for key, value in (anatomy.metadata or {}).items()).encode()
        anatomy.entries = [_plain_entry(name, entry) for name, entry in header.items()]
    except (ValueError, TypeError, LookupError, AttributeError):
        return False
    return _covers(anatomy) and not (exam.thorough and _remarkable(anatomy))


def _remarkable(anatomy: Anatomy) -> bool:
    """Say whether a validator may have anything to say about a file that breaks no reject rule."""
    from ._write import header_text, sorting

    entries: list[Any] = anatomy.entries
    ordered = sorted(entries, key=lambda entry: sorting(entry.name, entry.dtype))
    rows = [(entry.name, entry.dtype.safetensors, entry.shape, entry.begin, entry.end) for entry in ordered]
    text = header_text(anatomy.metadata, rows).encode()
    length = -(-len(text) // SAFETENSORS_HEADER_ALIGNMENT) * SAFETENSORS_HEADER_ALIGNMENT
    if anatomy.text != text.ljust(length) or any(a.end != b.begin for a, b in itertools.pairwise(ordered)):
        return True
    largest = max((entry.dtype.bits // 8 for entry in entries), default=1)
    return bool(anatomy.data % (largest or 1)) or any(not entry.name or entry.dtype.numpy == "?" for entry in entries)


def _plain_entry(name: str, values: Any) -> Entry:
    """Return an entry that breaks no rule of its own; some error for any other."""
    dtype, (begin, end), shape = SAFETENSORS_DTYPES[values["dtype"]], values["data_offsets"], tuple(values["shape"])
    elements = 1
    for extent in shape:
        if type(extent) is not int or extent < 0:
            raise ValueError
        elements *= extent
    bits = elements * dtype.bits
    if bits != (end - begin) * 8 or bits >= _U64 or type(begin) is not int or type(end) is not int:
        raise ValueError
    if not elements and (max(shape) >= _U64 or measure(dtype.bits, shape) is None):  # too much on the way to nothing
        raise ValueError
    return Entry(name, dtype, shape, begin, end)


def _covers(anatomy: Anatomy) -> bool:
    """Say whether payloads, one after the other, take exactly the byte buffer."""
    entries: list[Any] = anatomy.entries
    at = 0
    for begin, end in sorted([(entry.begin, entry.end) for entry in entries]):
        if begin != at:
            return False
        at = end
    return at == anatomy.room


# ------------------------------------------------------------------------------------------------------- the exact way


class _Reading:
    """One pass over one header, entry by entry."""

    def __init__(self, exam: Examination, anatomy: Anatomy) -> None:
        self.exam = exam
        self.anatomy = anatomy
        self.scanner = Scanner(anatomy.text, SAFETENSORS_MAX_DEPTH)
        self.broken: set[str] = set()
        self.names: dict[str, int] = {}

    def emit(self, rule: str, place: Place | Node, path: str, found: object, expected: object, hint: str = "") -> None:
        offset, length = _place(place) if isinstance(place, Node) else place
        self.broken.add(rule)
        self.exam.emit(rule, offset, length, path, found, expected, hint)

    def header(self) -> None:
        """Read the whole header."""
        text = self.anatomy.text
        if not text.startswith(b"{"):
            found = show(text[:8]) if text else "an empty header"
            self.emit("SAFETENSORS-TXT-START", (FRAME_SIZE, min(1, len(text))), "header", found, "'{'")
            if not text.lstrip(b" \t\n\r").startswith(b"{"):
                raise Stop
        try:
            self._pairs()
            self._tail()
        except JsonError as error:
            rule = _JSON_RULES[error.what]
            self.exam.emit(rule, FRAME_SIZE + error.offset, 1, "header", error.found, error.expected)
            raise Stop from None
        self.anatomy.whole = True

    def _pairs(self) -> None:
        scanner = self.scanner
        scanner.take(b"{", "an object")
        if scanner.peek() == b"}":
            scanner.at += 1
            return
        while True:
            plain = scanner.plain_pair(len(_KEYS))
            if plain is None:
                key = scanner.string()
                scanner.take(b":", "a colon")
                plain = key, scanner.value(1)
            self.pair(*plain)
            if scanner.peek() == b"}":
                scanner.at += 1
                return
            scanner.take(b",", "a comma or }")

    def pair(self, key: Node, value: Node) -> None:
        """Take a pair of the header."""
        if key.value == SAFETENSORS_METADATA:
            self._metadata(key, value)
        else:
            self._entry(key, value)

    def _tail(self) -> None:
        rest = self.anatomy.text[self.scanner.at :]
        after = rest.lstrip(b" ")
        if after:
            at = FRAME_SIZE + self.anatomy.header_length - len(after)
            self.emit("SAFETENSORS-TXT-TAIL", (at, len(after)), "header", show(after[:16]), "spaces only")

    def _metadata(self, key: Node, value: Node) -> None:
        anatomy, path = self.anatomy, SAFETENSORS_METADATA
        if anatomy.metadata_place is not None:
            self.emit("SAFETENSORS-MET-DUP", key, path, "a duplicate: it again", "it once")
            anatomy.metadata_bad = True
            return
        anatomy.metadata_place = _place(value)
        before = len(self.broken)
        if value.kind != "object":
            self.emit("SAFETENSORS-MET-FORM", value, path, _form(value), "an object")
        else:
            metadata: dict[str, str] = {}
            for name, content in value.value:
                where = f"{path}.{_brief(name.value)}"
                if name.value in metadata:
                    self.emit("SAFETENSORS-MET-DUP", name, where, "a duplicate key", "each key once")
                if content.kind != "string":
                    self.emit("SAFETENSORS-MET-VALUE", content, where, _form(content), "a string")
                metadata.setdefault(name.value, content.value if content.kind == "string" else "")
            anatomy.metadata = metadata
        anatomy.metadata_bad = len(self.broken) != before

    def _entry(self, key: Node, value: Node) -> None:
        self.broken = set()
        name = key.value
        path = f"tensor {show(name)}"
        places = {"name": _place(key), "entry": _place(value)}
        entry = Entry(name, None, None, None, None, places)
        if name in self.names:
            self.emit("SAFETENSORS-TEN-DUP", key, path, "a duplicate name", "each name once")
        self.names.setdefault(name, len(self.anatomy.entries))
        self.anatomy.entries.append(entry)
        if value.kind != "object":
            self.emit("SAFETENSORS-TEN-FORM", value, path, _form(value), "an object")
        else:
            self._values(entry, places, value, path)
        entry.bad = frozenset(self.broken)

    def _values(self, entry: Entry, places: dict[str, Place], value: Node, path: str) -> None:
        seen: set[str] = set()
        for key, content in value.value:
            where = f"{path}.{key.value if key.value in _KEYS else _brief(key.value)}"
            if key.value in seen:
                self.emit("SAFETENSORS-TEN-KEYDUP", key, where, "a duplicate key", "each key once")
                continue
            seen.add(key.value)
            if key.value not in _KEYS:
                if self.exam.thorough:
                    expected = _ONLY_KEYS
                    self.exam.emit("SAFETENSORS-TEN-UNKNOWN", *_place(key), where, "an unknown key", expected)
                continue
            places[key.value] = _place(content)
            getattr(self, f"_{_KEYS[key.value].kind}")(entry, content, where)
        for name, known in _KEYS.items():
            if name not in seen:
                expected = f"{name}, {VALUE_KINDS[known.kind]}"
                self.emit("SAFETENSORS-TEN-MISSING", value, path, f"no {name}", expected)
        self._size(entry, path)

    def _dtype(self, entry: Entry, value: Node, path: str) -> None:
        entry.dtype = SAFETENSORS_DTYPES.get(value.value) if value.kind == "string" else None
        if entry.dtype is None:
            found = show(value.value) if value.kind == "string" else _form(value)
            self.emit("SAFETENSORS-TEN-DTYPE", value, path, found, _ONE_DTYPE)

    def _extents(self, entry: Entry, value: Node, path: str) -> None:
        numbers = self._numbers(value, path, "SAFETENSORS-TEN-SHAPE", None)
        entry.shape = None if numbers is None else tuple(numbers)

    def _range(self, entry: Entry, value: Node, path: str) -> None:
        numbers = self._numbers(value, path, "SAFETENSORS-TEN-OFFSETS", 2)
        if numbers is None:
            return
        begin, end = numbers
        if begin > end:
            self.emit("SAFETENSORS-TEN-REVERSED", value, path, f"[{begin}, {end}]", "a begin that is not after the end")
            return
        entry.begin, entry.end = begin, end

    def _numbers(self, value: Node, path: str, rule: str, length: int | None) -> list[int] | None:
        """Return the integers of an array, or None, with a finding, if it is none of such."""
        if value.kind != "array" or (length is not None and len(value.value) != length):
            expected = "an array of integers" if length is None else f"an array of {length} integers"
            found = _form(value) if value.kind != "array" else f"an array of {len(value.value)}"
            self.emit(rule, value, path, found, expected)
            return None
        made = []
        for index, item in enumerate(value.value):
            digits = item.value if item.kind == "number" and item.value.isdigit() else ""
            if not digits or len(digits) > 20 or int(digits) >= _U64:
                found = show(item.value) if item.kind == "number" else _form(item)
                self.emit(rule, item, f"{path}[{index}]", found, "an integer of 0 to 2^64 - 1")
                return None
            made.append(int(digits))
        return made

    def _size(self, entry: Entry, path: str) -> None:
        """Compare what shape and dtype give with what the offsets give."""
        if entry.shape is None or entry.dtype is None:
            return
        shape = entry.places["shape"]
        size = measure(entry.dtype.bits, entry.shape)
        if size is None:
            found = f"{len(entry.shape)} extents whose product reaches 2^64, or their bits do"
            self.emit("SAFETENSORS-TEN-SIZEOF", shape, f"{path}.shape", found, "less than 2^64")
            return
        elements, bits = size
        if bits % 8:
            found = f"{count(elements, 'element')} of {entry.dtype.bits} bits"
            self.emit("SAFETENSORS-TEN-PARTIAL", shape, f"{path}.shape", found, "whole bytes")
        elif entry.begin is not None and entry.end is not None and entry.end - entry.begin != bits // 8:
            offsets = entry.places["data_offsets"]
            found = f"[{entry.begin}, {entry.end}], {count(entry.end - entry.begin, 'byte')}"
            expected = f"{count(bits // 8, 'byte')}, as shape and dtype give"
            self.emit("SAFETENSORS-TEN-BYTES", offsets, f"{path}.data_offsets", found, expected)


def _brief(key: str) -> str:
    return show(key)[1:-1]


def _place(node: Node) -> Place:
    return FRAME_SIZE + node.start, node.end - node.start


def _form(node: Node) -> str:
    if node.kind == "constant":
        return {None: "null", True: "true", False: "false"}[node.value]
    return f"a{'n' if node.kind in ('object', 'array') else ''} {node.kind}"


class _Whole:
    """How the payloads cover the byte buffer, and what else concerns the file as a whole."""

    def __init__(self, exam: Examination, anatomy: Anatomy) -> None:
        self.exam = exam
        self.anatomy = anatomy

    def emit(self, rule: str, entry: Entry, key: str, found: object, expected: object, hint: str = "") -> None:
        path = f"tensor {show(entry.name)}" + (f".{key}" if key in _KEYS else "")
        self.exam.emit(rule, *entry.places[key], path, found, expected, hint)

    def check(self) -> None:
        anatomy = self.anatomy
        entries = [entry for entry in anatomy.entries if entry.begin is not None and entry.end is not None]
        ordered = sorted(entries, key=lambda entry: (entry.begin or 0, entry.end or 0))
        self._cover(ordered, len(entries) == len(anatomy.entries))
        if self.exam.thorough:
            from ._canonical import check_canonical

            check_canonical(self.exam, anatomy)

    def _cover(self, ordered: list[Entry], complete: bool) -> None:
        room, at = self.anatomy.room, 0
        last: Entry | None = None
        for entry in ordered:
            begin, end = entry.begin or 0, entry.end or 0
            if end > room:
                hint = f"The file is {count(end - room, 'byte')} too short for this payload."
                self._bad(entry, "SAFETENSORS-DAT-RANGE", f"[{begin}, {end}]", f"an end of at most {room}", hint)
            elif last is not None and begin < at:
                self._bad(
                    entry,
                    "SAFETENSORS-DAT-OVERLAP",
                    f"bytes {begin} to {end}",
                    f"none of {show(last.name)}, up to {at}",
                )
            elif begin > at and complete:
                before = f"after {show(last.name)}" if last is not None else "at the start"
                found = f"a gap of {count(begin - at, 'byte')} {before}, {at} to {begin}"
                self._bad(entry, "SAFETENSORS-DAT-GAP", found, f"a begin of {at}")
            if end > at:
                at, last = end, entry
        if at < room and complete:
            rest = room - at
            place = (self.anatomy.data + at, rest)
            self.exam.emit("SAFETENSORS-DAT-TRAILING", *place, "", count(rest, "byte"), "the end of the file")

    def _bad(self, entry: Entry, rule: str, found: str, expected: str, hint: str = "") -> None:
        entry.bad |= {rule}
        self.emit(rule, entry, "data_offsets", found, expected, hint)
