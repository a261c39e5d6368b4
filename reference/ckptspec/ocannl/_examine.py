"""The checks of an OCANNL checkpoint, in the order in which readers make them.

First the frame, then the header's text and its records in the order of the text, then what concerns several tensors:
keys, overlaps, the state of the training record. What only a validator wants to know comes last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..examination import Examination, Stop, undisturbed
from ..spec.layout import field
from ..spec.schema import OCANNL_MAX_HEADER, OcannlFrame
from ..text import count
from ._anatomy import FRAME_SIZE, Anatomy
from ._header import read_header
from ._layout import margin
from ._nodes import atom, named, said
from ._places import Places

__all__ = ["examine", "holes", "parse_frame"]


def parse_frame(data: bytes) -> int:
    """Return the header length that the first bytes of a file give."""
    return int(OcannlFrame.parse(data)["header_length"])


def examine(exam: Examination) -> Anatomy | None:
    """Examine a source; return what was understood of it, or None if not even a header length is there.

    When reading (the examination has no report), the first reason to refuse is raised as FormatError.
    """
    anatomy = None
    try:
        anatomy = _frame(exam)
        _text(exam, anatomy)
        with undisturbed(len(anatomy.text)):
            read_header(exam, anatomy)
            _Whole(exam, anatomy).check()
    except Stop:
        pass
    return anatomy


def _frame(exam: Examination) -> Anatomy:
    size = exam.source.size
    if size < FRAME_SIZE:
        exam.emit("OCANNL-FRM-SHORT", 0, size, "frame", count(size, "byte"), f"at least {FRAME_SIZE}")
        raise Stop
    return Anatomy(size=size, header_length=parse_frame(bytes(exam.source.read(0, FRAME_SIZE))))


def _text(exam: Examination, anatomy: Anatomy) -> None:
    """Read the header's text."""
    size, length = anatomy.size, anatomy.header_length
    item = field(OcannlFrame, "header_length")
    where = (item.offset, item.size, f"frame.{item.name}")
    if not 0 <= length <= OCANNL_MAX_HEADER:
        exam.emit("OCANNL-FRM-LENGTH", *where, length, f"0 to {OCANNL_MAX_HEADER}")
    elif FRAME_SIZE + length > size:
        room = size - FRAME_SIZE
        hint = f"The file is {count(FRAME_SIZE + length - size, 'byte')} too short for its header."
        exam.emit("OCANNL-FRM-RANGE", *where, length, f"at most {room}, the bytes that follow", hint)
    else:
        anatomy.text = bytes(exam.source.read(FRAME_SIZE, length))
        anatomy.places = Places(anatomy.text, FRAME_SIZE)
        return
    raise Stop


class _Whole:
    """What concerns the file as a whole, once all records were read."""

    def __init__(self, exam: Examination, anatomy: Anatomy) -> None:
        self.exam = exam
        self.anatomy = anatomy
        # Offsets and lengths are within 63 bits where they were understood, and within the file.
        self.rows = [row for row, entry in enumerate(anatomy.entries) if entry.placed]
        entries = [anatomy.entries[row] for row in self.rows]
        self.starts = np.array([entry.offset for entry in entries], np.int64)
        self.sizes = np.array([entry.byte_length for entry in entries], np.int64)
        self.ends = self.starts + self.sizes

    def emit(self, rule: str, row: int, key: str, found: object, expected: object) -> None:
        anatomy = self.anatomy
        if not self.exam.wants(rule):
            return
        entry, hint = anatomy.entries[row], ""
        if entry.namespace is not None and entry.id is not None:
            hint = said((entry.namespace, entry.id), entry.label or ())
        place = anatomy.places.of((*anatomy.tensors, row), key)
        self.exam.emit(rule, *place, f"tensors[{row}].{key}", found, expected, hint)

    def check(self) -> None:
        self._duplicates()
        order = np.argsort(self.starts, kind="stable")
        self._overlaps(order)
        self._state()
        if self.exam.thorough:
            self._frame()
            self._order()
            if self.anatomy.tensors and len(self.rows) == len(self.anatomy.entries):  # else nobody knows what is a gap
                self._gaps(order)
            self._notes()

    def _duplicates(self) -> None:
        entries = self.anatomy.entries
        keys = [(entry.namespace, entry.id) for entry in entries]
        if len(set(keys)) == len(keys):
            return
        first: dict[tuple[bytes | None, int | None], int] = {}
        for row, key in enumerate(keys):
            if None in key:
                continue
            if key in first:
                assert key[0] is not None
                assert key[1] is not None
                found = f"{named((atom(key[0], ''), key[1]))} again"
                entries[row].bad |= {"OCANNL-TEN-DUP"}
                self.emit("OCANNL-TEN-DUP", row, "id", found, f"it once, as in tensors[{first[key]}]")
            first.setdefault(key, row)

    def _overlaps(self, order: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        full = order[self.sizes[order] > 0]
        if len(full) < 2:
            return
        starts, ends = self.starts[full], self.ends[full]
        reach = np.maximum.accumulate(ends)
        farthest = np.maximum.accumulate(np.where(ends == reach, np.arange(len(ends)), 0))
        for at in (np.flatnonzero(starts[1:] < reach[:-1]) + 1).tolist():
            other = int(farthest[at - 1])
            row, before = self.rows[int(full[at])], self.rows[int(full[other])]
            found = f"bytes {int(starts[at])} to {int(ends[at])}"
            expected = f"none of tensors[{before}], bytes {int(starts[other])} to {int(ends[other])}"
            self.anatomy.entries[row].bad |= {"OCANNL-TEN-OVERLAP"}
            self.emit("OCANNL-TEN-OVERLAP", row, "offset", found, expected)

    def _state(self) -> None:
        training = self.anatomy.training
        if training is None or not training.state:
            return
        there = {(entry.namespace, entry.id) for entry in self.anatomy.entries}
        for index, key in enumerate(training.state):
            if key not in there:
                where = f"training.state[{index}]"
                training.bad |= {"OCANNL-TRN-ABSENT"}
                if not self.exam.wants("OCANNL-TRN-ABSENT"):
                    continue
                place = self.anatomy.places.of(self.anatomy.record, "state", index)
                name = named((atom(key[0], ""), key[1]))
                self.exam.emit("OCANNL-TRN-ABSENT", *place, where, name, "a tensor of this file")
        beyond = len(there - set(training.state))
        if beyond and self.exam.thorough:
            found = f"{count(beyond, 'tensor')} that the state does not name"
            self.exam.emit(
                "OCANNL-TRN-BEYOND",
                *self.anatomy.places.of(self.anatomy.record, "state"),
                "training.state",
                found,
                "none",
            )

    # -------------------------------------------------------------------------------------------------- only validators

    def _frame(self) -> None:
        anatomy = self.anatomy
        if anatomy.data % anatomy.alignment:
            item = field(OcannlFrame, "header_length")
            found = f"{anatomy.header_length}, which starts the data section at byte {anatomy.data}"
            expected = f"a start at a multiple of {anatomy.alignment}"
            self.exam.emit("OCANNL-FRM-ALIGN", item.offset, item.size, f"frame.{item.name}", found, expected)

    def _order(self) -> None:
        for at in (np.flatnonzero(self.starts[1:] < self.starts[:-1]) + 1).tolist():
            found = f"{int(self.starts[at])}, after {int(self.starts[at - 1])}"
            self.emit("OCANNL-DAT-ORDER", self.rows[at], "offset", found, "an offset beyond that of the tensor before")

    def _gaps(self, order: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        """Compare each payload's start with where a writer puts it, and look at the bytes between."""
        anatomy = self.anatomy
        starts, ends = self.starts[order], self.ends[order]
        reach = np.maximum.accumulate(np.concatenate((np.zeros(1, np.int64), ends)))[:-1] if len(order) else ends
        alignment = np.int64(anatomy.alignment)
        due = reach + (-reach) % alignment
        for at in np.flatnonzero(starts % alignment).tolist():
            expected = f"a multiple of {anatomy.alignment}"
            self.emit("OCANNL-DAT-ALIGN", self.rows[int(order[at])], "offset", int(starts[at]), expected)
        for at in np.flatnonzero((starts != due) & (starts % alignment == 0)).tolist():
            if "OCANNL-TEN-OVERLAP" not in anatomy.entries[self.rows[int(order[at])]].bad:
                self.emit("OCANNL-DAT-GAP", self.rows[int(order[at])], "offset", int(starts[at]), int(due[at]))
        if self.exam.payloads:  # else nothing is read but the header
            for offset, size in holes(anatomy, starts.tolist(), ends.tolist()):
                self._zeros(offset, size)
        end = anatomy.data + (int(ends.max()) if len(ends) else 0)
        if anatomy.size > end:
            rest = anatomy.size - end
            self.exam.emit("OCANNL-DAT-TRAILING", end, rest, "", count(rest, "byte"), "the end of the file")

    def _zeros(self, offset: int, size: int) -> None:
        found = self.exam.source.first_nonzero(offset, size)
        if found is not None:
            at, byte = found
            expected = f"only zeros from {offset} to {offset + size}"
            self.exam.emit("OCANNL-DAT-ZERO", at, 1, "", f"byte 0x{byte:02x} in a gap", expected)

    def _notes(self) -> None:
        anatomy = self.anatomy
        for row, entry in enumerate(anatomy.entries):
            if entry.prec is None:
                continue
            if not entry.prec.size:
                self.emit("OCANNL-TEN-VOID", row, "prec", "elements of no bytes", "a precision that has some")
            elif entry.offset is not None and entry.byte_length and (anatomy.data + entry.offset) % entry.prec.size:
                found = f"{entry.offset}, which is byte {anatomy.data + entry.offset} of the file"
                self.emit("OCANNL-TEN-MAP", row, "offset", found, f"a multiple of {entry.prec.size} in the file")
            if entry.padding and entry.padding[1] is not None and any(map(any, entry.padding[0])):
                neutral = entry.padding[1]
                element = np.asarray(margin(entry.prec, neutral))
                if element.dtype.kind in "iu" and int(element) != neutral:
                    found = f"{neutral!r}, which {entry.prec.ocannl} does not hold"
                    self.emit("OCANNL-PAD-INTEGRAL", row, "padding", found, f"such as {int(element)}")


def holes(anatomy: Anatomy, starts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
    """Return offset in the file and size of each stretch between payloads, which are given in the order of the file."""
    made = []
    at = 0
    for start, end in zip(starts, ends, strict=True):
        if start > at:
            made.append((anatomy.data + at, start - at))
        at = max(at, end)
    return made
