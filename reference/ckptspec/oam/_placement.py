"""What a validator checks about where things lie: order, gaps, padding. A reader does not care."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..examination import Examination
from ..spec.layout import field, record_size
from ..spec.schema import OAM_LEGACY, OAM_TENSOR_SECTIONS, OamHeader, OamSection
from ..text import count
from ._anatomy import Anatomy, Section, data_start

__all__ = ["check_placement", "uncovered"]


def check_placement(exam: Examination, anatomy: Anatomy) -> None:
    """Compare the sections' order and offsets with those that a writer gives them."""
    _order(exam, anatomy)
    placed = [section for section in anatomy.sections if section.in_place]
    _bodies(exam, placed)
    if len(placed) < len(anatomy.sections):
        return  # where a section is not in its place, nobody knows what is a gap
    placed.sort(key=lambda section: (section.offset, section.size))
    _gaps(exam, anatomy, placed)
    if exam.payloads:  # else nothing is read that belongs to no record
        _padding(exam, anatomy, placed)


def _emit(exam: Examination, rule: str, section: Section, name: str, found: object, expected: object) -> None:
    item = field(OamSection, name)
    base = record_size(OamHeader) + section.entry * record_size(OamSection)
    exam.emit(rule, base + item.offset, item.size, f"sections[{section.entry}].{name}", found, expected)


def _order(exam: Examination, anatomy: Anatomy) -> None:
    last: Section | None = None
    for section in anatomy.sections:
        if section.type == OAM_LEGACY:
            _emit(exam, "OAM-SEC-LEGACY", section, "type", "a legacy kernel cache", "none")
        elif section.counted:
            if last is not None and section.type < last.type:
                _emit(exam, "OAM-SEC-ORDER", section, "type", f"{section.name} after {last.name}", "it before")
            last = section


def _bodies(exam: Examination, placed: list[Section]) -> None:
    for before, section in itertools.pairwise(placed):
        if section.offset < before.offset:
            expected = f"an offset beyond that of {before.name}, {before.offset}"
            _emit(exam, "OAM-SEC-BODIES", section, "offset", f"{section.name} at {section.offset}", expected)


def _gaps(exam: Examination, anatomy: Anatomy, placed: list[Section]) -> None:
    at = bare = data_start(len(anatomy.sections))
    for section in placed:
        if section.offset > at:
            _emit(exam, "OAM-SEC-GAP", section, "offset", f"{section.name} at {section.offset}", at)
        elif bare <= section.offset < at:
            _emit(exam, "OAM-SEC-PAGES", section, "offset", f"{section.name} at {section.offset}", at)
        if section.padded_end >= at:
            at, bare = section.padded_end, section.end
    if not placed:
        return
    if anatomy.size > at:
        rest = anatomy.size - at
        exam.emit("OAM-FILE-TRAILING", at, rest, "", count(rest, "byte"), "the end of the file")
    elif bare <= anatomy.size < at and placed[-1].name in OAM_TENSOR_SECTIONS:
        missing = count(at - anatomy.size, "byte")
        _emit(exam, "OAM-SEC-PAGES", placed[-1], "size", f"an end of file {missing} early", f"padding up to {at}")


def uncovered(anatomy: Anatomy, placed: list[Section]) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each stretch of the file that belongs to no record, in order."""
    at = record_size(OamHeader) + len(anatomy.sections) * record_size(OamSection)
    for section in placed:
        if section.offset > at:
            yield at, section.offset - at
        at = max(at, section.end)
    if anatomy.size > at:
        yield at, anatomy.size - at


def _padding(exam: Examination, anatomy: Anatomy, placed: list[Section]) -> None:
    for offset, size in uncovered(anatomy, placed):
        found = exam.source.first_nonzero(offset, size)
        if found is not None:
            at, byte = found
            expected = f"only zeros from {offset} to {offset + size}"
            exam.emit("OAM-FILE-PADDING", at, 1, "", f"byte 0x{byte:02x} in padding", expected)
