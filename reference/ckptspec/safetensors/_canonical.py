"""What only a validator wants to know: whether a file is spelled and laid out as the official writer does it."""

from __future__ import annotations

import itertools

import numpy as np

from ..examination import Examination
from ..spec.schema import SAFETENSORS_HEADER_ALIGNMENT
from ..text import count, show
from ._anatomy import FRAME_SIZE, Anatomy, Entry
from ._write import header_text, sorting

__all__ = ["check_canonical"]

_BLOCK = 1 << 20
# What makes a header another one than a writer's, and is said already.
_TOLD = ("SAFETENSORS-TXT-START", "SAFETENSORS-TEN-UNKNOWN", "SAFETENSORS-MET-ORDER")


def check_canonical(exam: Examination, anatomy: Anatomy) -> None:
    """Look at the order of tensors and payloads, at how the header is spelled and padded, and at what draws a note."""
    entries = anatomy.entries
    if any(entry.bad or entry.dtype is None for entry in entries) or anatomy.metadata_bad:
        _padding(exam, anatomy)
        return
    _metadata_order(exam, anatomy)
    ordered = _order(exam, entries)
    _payload_order(exam, entries)
    if ordered:
        _spelling(exam, anatomy)
    _padding(exam, anatomy)
    for entry in entries:
        _notes(exam, anatomy, entry)


def _path(entry: Entry) -> str:
    return f"tensor {show(entry.name)}"


def _keys(entry: Entry) -> tuple[int, bytes]:
    assert entry.dtype is not None
    return sorting(entry.name, entry.dtype)


def _order(exam: Examination, entries: list[Entry]) -> bool:
    """Compare the header's order with the writer's."""
    good = True
    for before, entry in itertools.pairwise(entries):
        if _keys(entry) < _keys(before):
            good = False
            found, expected = f"it after {show(before.name)}", "it before"
            exam.emit("SAFETENSORS-HDR-ORDER", *entry.places["name"], _path(entry), found, expected)
    return good


def _payload_order(exam: Examination, entries: list[Entry]) -> None:
    placed = sorted(entries, key=lambda entry: (entry.begin or 0, entry.end or 0, _keys(entry)))
    for before, entry in itertools.pairwise(placed):
        if _keys(entry) < _keys(before):
            found = f"its payload after that of {show(before.name)}"
            path = f"{_path(entry)}.data_offsets"
            exam.emit("SAFETENSORS-DAT-ORDER", *entry.places["data_offsets"], path, found, "it before")


def _metadata_order(exam: Examination, anatomy: Anatomy) -> None:
    if anatomy.metadata is None or anatomy.metadata_place is None:
        return
    keys = list(anatomy.metadata)
    for before, key in itertools.pairwise(keys):
        if key.encode() < before.encode():
            found = f"{show(key)} after {show(before)}"
            exam.emit("SAFETENSORS-MET-ORDER", *anatomy.metadata_place, "__metadata__", found, "it before")
            return
    if anatomy.entries and anatomy.metadata_place[0] > anatomy.entries[0].places["name"][0]:
        exam.emit("SAFETENSORS-MET-ORDER", *anatomy.metadata_place, "__metadata__", "it after a tensor", "it first")


def _spelling(exam: Examination, anatomy: Anatomy) -> None:
    """Compare the header's text with what a writer makes of the same values in the same order."""
    rows = [
        (entry.name, (entry.dtype.safetensors if entry.dtype else "") or "", entry.shape or (), entry.begin, entry.end)
        for entry in anatomy.entries
    ]
    expected = header_text(anatomy.metadata, rows).encode()  # type: ignore[arg-type]
    text = anatomy.text
    if text.startswith(expected) or _found(exam, *_TOLD):
        return
    size = min(len(text), len(expected))
    differs = np.frombuffer(text, np.uint8, size) != np.frombuffer(expected, np.uint8, size)
    at = int(differs.argmax()) if differs.any() else size
    exam.emit(
        "SAFETENSORS-HDR-SPELLING", FRAME_SIZE + at, 1, "header", show(text[at : at + 16]), show(expected[at : at + 16])
    )


def _found(exam: Examination, *rules: str) -> bool:
    return exam.report is not None and any(finding.rule in rules for finding in exam.report.findings)


def _padding(exam: Examination, anatomy: Anatomy) -> None:
    length = anatomy.header_length
    spaces = len(anatomy.text) - len(anatomy.text.rstrip(b" "))
    place = (FRAME_SIZE + length - spaces, spaces)
    if length % SAFETENSORS_HEADER_ALIGNMENT or spaces >= SAFETENSORS_HEADER_ALIGNMENT:
        found = f"a header of {count(length, 'byte')} with {count(spaces, 'space')} at its end"
        expected = f"the next multiple of {SAFETENSORS_HEADER_ALIGNMENT}"
        exam.emit("SAFETENSORS-HDR-PAD", *place, "header", found, expected)


def _notes(exam: Examination, anatomy: Anatomy, entry: Entry) -> None:
    assert entry.dtype is not None
    assert entry.begin is not None
    assert entry.end is not None
    if not entry.name:
        exam.emit("SAFETENSORS-TEN-NAMELESS", *entry.places["name"], _path(entry), "an empty name", "a name")
    start, size = anatomy.data + entry.begin, entry.end - entry.begin
    element = max(1, entry.dtype.bits // 8)
    if size and start % element:
        found, expected = f"byte {start} of the file", f"a multiple of {element}"
        place = entry.places["data_offsets"]
        exam.emit("SAFETENSORS-TEN-ALIGN", *place, f"{_path(entry)}.data_offsets", found, expected)
    if entry.dtype.numpy == "?" and exam.payloads and start + size <= anatomy.size:
        at = start
        for block in exam.source.blocks(start, size, _BLOCK):
            wrong = np.flatnonzero(np.frombuffer(block, np.uint8) > 1)
            if len(wrong):
                where, value = at + int(wrong[0]), block[int(wrong[0])]
                exam.emit("SAFETENSORS-TEN-BOOL", where, 1, _path(entry), f"byte 0x{value:02x}", "0 or 1")
                return
            at += len(block)
