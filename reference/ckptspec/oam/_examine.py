"""The checks of an ``.oam`` file, in the order in which readers make them.

First the header and the section table, with all payload checksums; then overlaps, the checksum of version 1 and missing
sections; then the contents of the sections: config, weights, state, optimizer, progress. What only a validator wants to
know (canonical layout, padding, notes) follows the checks that a reader makes on the same record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from construct import Struct

from ..checksum import ByteError, fnv1a64, locate_single_byte_error, prepare
from ..examination import Examination, Stop
from ..spec.dtypes import OAM_BY_CODE
from ..spec.layout import field, fields, record_size
from ..spec.schema import (
    OAM_MAGIC,
    OAM_MANIFEST_VERSION,
    OAM_MAX_SECTIONS,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_REQUIRED,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamHeader,
    OamOptimizer,
    OamProgress,
    OamSection,
)
from ..streaming import checksums_of
from ..text import count, printable
from ._anatomy import SECTION_NAMES, Anatomy, Section, data_start
from ._placement import check_placement
from ._tensors import check_alignment, check_index, elements_of

__all__ = ["examine", "manifest_checksum"]

_U64: Final = 1 << 64
MAX_SEARCHED: Final = 1 << 30  # bytes of the largest payload that is searched for the byte that is wrong
HEADER_SIZE = record_size(OamHeader)
ENTRY_SIZE = record_size(OamSection)


def examine(exam: Examination) -> Anatomy | None:
    """Examine a source; return what was understood of it, or None if it has no header.

    When reading (the examination has no report), the first reason to refuse is raised as FormatError.
    """
    anatomy = None
    try:
        anatomy = _header(exam)
        _table(exam, anatomy)
        _overlaps(exam, anatomy)
        _version_1_checksum(exam, anatomy)
        _missing(exam, anatomy)
        if exam.thorough:
            check_placement(exam, anatomy)
        _contents(exam, anatomy)
    except Stop:
        pass
    return anatomy


# ------------------------------------------------------------------------------------------------------------- records


def emit_field(
    exam: Examination, rule: str, record: Struct, base: int, where: str, name: str, found: object, expected: object
) -> None:
    """Emit a finding about one field of the record that starts at ``base``."""
    item = field(record, name)
    exam.emit(rule, base + item.offset, item.size, f"{where}.{name}" if where else name, found, expected)


def check_writer_fields(
    exam: Examination, prefix: str, record: Struct, values: Mapping[str, Any], base: int, where: str
) -> None:
    """Check what a writer sets and a reader ignores: reserved bytes, flags, bytes after a NUL, booleans."""
    for item in fields(record):
        value = values[item.name]
        if item.role == "reserved" and any(value):
            emit_field(exam, f"{prefix}-RESERVED", record, base, where, item.name, value.hex(), "zeros")
        elif item.role == "flags" and value:
            emit_field(exam, f"{prefix}-FLAGS", record, base, where, item.name, f"0x{value:x}", 0)
        elif item.role == "bool" and value > 1:
            emit_field(exam, f"{prefix}-BOOL", record, base, where, item.name, value, "0 or 1")
        elif item.role == "text":
            _, nul, tail = value.partition(b"\0")
            if nul and any(tail):
                emit_field(exam, f"{prefix}-TAIL", record, base, where, item.name, tail.rstrip(b"\0").hex(), "zeros")


def check_text(
    exam: Examination, prefix: str, record: Struct, values: Mapping[str, Any], base: int, where: str, name: str
) -> None:
    """Check that a text field has its NUL and is UTF-8."""
    text, nul, _ = values[name].partition(b"\0")
    if not nul:
        emit_field(exam, f"{prefix}-NUL", record, base, where, name, text.hex(), f"a NUL in its {len(text)} bytes")
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        emit_field(exam, f"{prefix}-UTF8", record, base, where, name, text.hex(), f"UTF-8; byte {error.start} is not")


# ------------------------------------------------------------------------------------------------- header and sections


def _header(exam: Examination) -> Anatomy:
    size = exam.source.size
    if size < HEADER_SIZE:
        exam.emit("OAM-HDR-SHORT", 0, size, "", count(size, "byte"), f"at least {HEADER_SIZE} bytes")
        raise Stop
    header = OamHeader.parse(bytes(exam.source.read(0, HEADER_SIZE)))
    anatomy = Anatomy(size=size, header=header, version=header["version"])

    def emit(rule: str, name: str, found: object, expected: object) -> None:
        emit_field(exam, rule, OamHeader, 0, "header", name, found, expected)

    if header["magic"] != OAM_MAGIC:
        emit("OAM-HDR-MAGIC", "magic", header["magic"].hex(), OAM_MAGIC.hex())
    if header["version"] not in OAM_VERSIONS:
        emit("OAM-HDR-VERSION", "version", header["version"], f"{OAM_VERSIONS[0]} to {OAM_VERSIONS[-1]}")
        anatomy.version = OAM_NEWEST  # to go on with
    if not 1 <= header["section_count"] <= OAM_MAX_SECTIONS:
        emit("OAM-HDR-COUNT", "section_count", header["section_count"], f"1 to {OAM_MAX_SECTIONS}")
    if header["total_size"] != size:
        emit("OAM-HDR-TOTAL", "total_size", header["total_size"], f"{size}, the size of the file")
    if exam.thorough:
        if anatomy.version != OAM_NEWEST:
            emit("OAM-HDR-OLD", "version", anatomy.version, OAM_NEWEST)
        check_writer_fields(exam, "OAM-HDR", OamHeader, header, 0, "header")
    return anatomy


def _section_count(exam: Examination, anatomy: Anatomy) -> int:
    """Return the number of table entries to go on with."""
    declared: int = anatomy.header["section_count"]
    if 1 <= declared <= OAM_MAX_SECTIONS:
        end = HEADER_SIZE + declared * ENTRY_SIZE
        if end > exam.source.size:
            exam.emit(
                "OAM-SEC-TABLE",
                HEADER_SIZE,
                exam.source.size - HEADER_SIZE,
                "sections",
                count(exam.source.size - HEADER_SIZE, "byte"),
                f"{declared} entries of {ENTRY_SIZE} bytes",
            )
            raise Stop
        return declared
    # The count cannot be right: take the entries that look like some, so that the rest can be examined.
    room = min(OAM_MAX_SECTIONS, (exam.source.size - HEADER_SIZE) // ENTRY_SIZE)
    seen: set[int] = set()
    for entry in range(room):
        kind = OamSection.parse(bytes(exam.source.read(HEADER_SIZE + entry * ENTRY_SIZE, ENTRY_SIZE)))["type"]
        if kind not in SECTION_NAMES or kind in seen:
            break
        seen.add(kind)
    if not seen:
        raise Stop
    return len(seen)


def _manifest(header: bytes, table: bytes) -> bytes:
    item = field(OamHeader, "checksum")
    return header[: item.offset] + bytes(item.size) + header[item.offset + item.size :] + table


def manifest_checksum(header: bytes, table: bytes) -> int:
    """Return the checksum that versions 2 and 3 keep in the header: of header and table, its own field as zero."""
    return fnv1a64(_manifest(header, table))


def _check_manifest(exam: Examination, anatomy: Anatomy, table: bytes) -> None:
    covered = _manifest(bytes(exam.source.read(0, HEADER_SIZE)), table)
    found, expected = anatomy.header["checksum"], fnv1a64(covered)
    anatomy.manifest_intact = found == expected
    if anatomy.manifest_intact:
        return
    hint = ""
    item = field(OamHeader, "checksum")
    if exam.thorough:
        errors = locate_single_byte_error(lambda at, size: covered[at : at + size], len(covered), found)
        own = range(item.offset, item.offset + item.size)  # taken as zero, whatever the file has there
        hint = _explain(anatomy, 0, [error for error in errors if error.offset not in own])
    path = f"header.{item.name}"
    exam.emit("OAM-HDR-CHECKSUM", item.offset, item.size, path, f"0x{found:016x}", f"0x{expected:016x}", hint)


def _table(exam: Examination, anatomy: Anatomy) -> None:
    number = _section_count(exam, anatomy)
    raw = bytes(exam.source.read(HEADER_SIZE, number * ENTRY_SIZE))
    if exam.verify and anatomy.version >= OAM_MANIFEST_VERSION:
        _check_manifest(exam, anatomy, raw)
    start = data_start(number)
    parsed = [OamSection.parse(raw[at : at + ENTRY_SIZE]) for at in range(0, len(raw), ENTRY_SIZE)]
    with contextlib.closing(_hashes(exam, parsed, start)) as hashes:
        _table_entries(exam, anatomy, parsed, start, hashes)


def _hashes(exam: Examination, parsed: Sequence[Mapping[str, Any]], start: int) -> Generator[int, None, None]:
    """Yield the hash of each payload that has a place in the file, in the order of the table."""
    placed = [
        (values["offset"], values["size"])
        for values in parsed
        if values["offset"] >= start and values["offset"] + values["size"] <= exam.source.size
    ]
    prepare(sum(size for _, size in placed))
    yield from checksums_of(exam.source, placed)


def _table_entries(
    exam: Examination, anatomy: Anatomy, parsed: Sequence[Mapping[str, Any]], start: int, hashes: Iterator[int]
) -> None:
    for entry, values in enumerate(parsed):
        section = Section(
            entry=entry,
            type=values["type"],
            offset=values["offset"],
            size=values["size"],
            checksum=values["checksum"],
        )
        _table_entry(exam, anatomy, section, values, start, hashes)
        anatomy.sections.append(section)


def _table_entry(
    exam: Examination,
    anatomy: Anatomy,
    section: Section,
    values: Mapping[str, Any],
    start: int,
    hashes: Iterator[int],
) -> None:
    base = HEADER_SIZE + section.entry * ENTRY_SIZE
    where = f"sections[{section.entry}]"

    def emit(rule: str, name: str, found: object, expected: object) -> None:
        emit_field(exam, rule, OamSection, base, where, name, found, expected)

    if section.type not in SECTION_NAMES:
        emit("OAM-SEC-TYPE", "type", section.type, f"{min(SECTION_NAMES)} to {max(SECTION_NAMES)}")
        section.counted = False
    elif anatomy.section(section.name):
        emit("OAM-SEC-DUP", "type", f"a second {section.name} section", "one of a type")
        section.counted = False
    if values["compression"]:
        emit("OAM-SEC-COMPRESSION", "compression", values["compression"], 0)
    if values["compressed_size"]:
        emit("OAM-SEC-COMPSIZE", "compressed_size", values["compressed_size"], 0)
    _section_range(exam, section, start, emit)
    if section.in_place and exam.verify and exam.payloads:
        _payload_checksum(exam, anatomy, section, next(hashes), base, where)
    if exam.thorough:
        check_writer_fields(exam, "OAM-SEC", OamSection, values, base, where)


def _section_range(exam: Examination, section: Section, start: int, emit: Any) -> None:
    size = exam.source.size
    if section.end >= _U64:
        emit("OAM-SEC-OVERFLOW", "offset", f"{section.offset} + {section.size}", "less than 2^64")
        return
    section.in_place = True
    if section.offset < start:
        emit("OAM-SEC-START", "offset", section.offset, f"at least {start}")
        section.in_place = False
    if section.end > size:
        found = f"an end of the {section.name} section at {section.end}"
        emit("OAM-SEC-RANGE", "size", found, f"one within the {size} bytes of the file")
        section.in_place = False
    if section.offset >= start:
        section.available = max(0, min(section.end, size) - section.offset)


def _payload_checksum(exam: Examination, anatomy: Anatomy, section: Section, found: int, base: int, where: str) -> None:
    section.intact = found == section.checksum
    if section.intact:
        return
    item = field(OamSection, "checksum")
    hint = ""
    if exam.thorough and section.size <= MAX_SEARCHED:
        hint = _explain(
            anatomy,
            section.offset,
            locate_single_byte_error(
                lambda offset, size: exam.source.read(section.offset + offset, size), section.size, section.checksum
            ),
        )
    exam.emit(
        "OAM-SEC-CHECKSUM",
        section.offset,
        section.size,
        section.name,
        f"a payload that hashes to 0x{found:016x}",
        f"0x{section.checksum:016x}, as {where}.checksum at byte {base + item.offset} says",
        hint,
    )


def _explain(anatomy: Anatomy, start: int, errors: list[ByteError]) -> str:
    """Remember the one byte that explains a checksum which does not match, and say which it is."""
    if len(errors) != 1:
        return ""
    (error,) = errors
    offset = start + error.offset
    anatomy.repairs[offset] = replace(error, offset=offset)
    place = f"byte {offset} (0x{offset:x})"
    return f"One byte explains it: {place} is 0x{error.found:02x}; with 0x{error.correct:02x} the checksum fits."


def _overlaps(exam: Examination, anatomy: Anatomy) -> None:
    placed = sorted((s for s in anatomy.sections if s.in_place), key=lambda s: (s.offset, s.size))
    furthest: Section | None = None
    for section in placed:
        if furthest is not None and section.offset < furthest.end:
            exam.emit(
                "OAM-SEC-OVERLAP",
                section.offset,
                min(section.end, furthest.end) - section.offset,
                f"sections[{section.entry}].offset",
                f"{section.name} at {section.offset} to {section.end}",
                f"no byte of {furthest.name}, which is at {furthest.offset} to {furthest.end}",
            )
        if furthest is None or section.end > furthest.end:
            furthest = section


def _version_1_checksum(exam: Examination, anatomy: Anatomy) -> None:
    if anatomy.version >= OAM_MANIFEST_VERSION or not exam.verify:
        return
    expected = 0
    for section in anatomy.sections:
        expected ^= section.checksum
    found = anatomy.header["checksum"]
    anatomy.manifest_intact = found == expected
    if found != expected:
        emit_field(exam, "OAM-HDR-XOR", OamHeader, 0, "header", "checksum", f"0x{found:016x}", f"0x{expected:016x}")


def _missing(exam: Examination, anatomy: Anatomy) -> None:
    for name in OAM_REQUIRED:
        if anatomy.section(name) is None:
            length = len(anatomy.sections) * ENTRY_SIZE
            exam.emit("OAM-SEC-MISSING", HEADER_SIZE, length, "sections", f"no {name} section", "one")


# ------------------------------------------------------------------------------------------------------------ contents


def _contents(exam: Examination, anatomy: Anatomy) -> None:
    _config(exam, anatomy)
    for name in OAM_TENSOR_SECTIONS:
        section = anatomy.section(name)
        if section is not None and section.offset >= data_start(len(anatomy.sections)):
            index = check_index(exam, anatomy.version, section)
            if index is not None:
                anatomy.indexes[name] = index
    _optimizer(exam, anatomy)
    _progress(exam, anatomy)
    if exam.thorough:
        check_alignment(exam, anatomy)


def _record(
    exam: Examination, section: Section, record: Struct, rule: str, *, exact: bool = False
) -> Mapping[str, Any] | None:
    """Parse the record that opens a section; None if the section or the file is too short for it."""
    size = record_size(record)
    if section.size < size or (exact and section.size != size):
        expected = f"{'exactly' if exact else 'at least'} {size} bytes"
        exam.emit(rule, section.offset, section.size, section.name, count(section.size, "byte"), expected)
    if section.available < size:
        return None
    values: Mapping[str, Any] = record.parse(bytes(exam.source.read(section.offset, size)))
    return values


def _config(exam: Examination, anatomy: Anatomy) -> None:
    section = anatomy.section("config")
    if section is None:
        return
    values = _record(exam, section, OamConfig, "OAM-CFG-SHORT")
    if values is None:
        return
    check_text(exam, "OAM-CFG", OamConfig, values, section.offset, "config", "architecture")
    for item in fields(OamConfig):
        if item.role == "dtype" and values[item.name] not in OAM_BY_CODE:
            expected = f"a code of 0 to {max(OAM_BY_CODE)}"
            emit_field(
                exam, "OAM-CFG-DTYPE", OamConfig, section.offset, "config", item.name, values[item.name], expected
            )
    needed = record_size(OamConfig) + values["arch_config_size"]
    if needed != section.size:
        expected = f"{section.size - record_size(OamConfig)}, the rest of the section"
        found = values["arch_config_size"]
        emit_field(exam, "OAM-CFG-SIZE", OamConfig, section.offset, "config", "arch_config_size", found, expected)
    if exam.thorough:
        check_writer_fields(exam, "OAM-CFG", OamConfig, values, section.offset, "config")
    anatomy.config = values
    anatomy.arch_config = (section.offset + record_size(OamConfig), values["arch_config_size"])


def _optimizer(exam: Examination, anatomy: Anatomy) -> None:
    section = anatomy.section("optimizer")
    if section is None:
        if exam.thorough:
            end = len(anatomy.sections) * ENTRY_SIZE
            exam.emit("OAM-OPT-ABSENT", HEADER_SIZE, end, "sections", "no optimizer section", "one, to resume from")
        return
    values = _record(exam, section, OamOptimizer, "OAM-OPT-SHORT")
    if values is None:
        return
    raw, nul, _ = values["kind"].partition(b"\0")
    moments = OAM_OPTIMIZERS.get(raw.decode("ascii", "replace")) if nul else None
    if not nul:
        check_text(exam, "OAM-OPT", OamOptimizer, values, section.offset, "optimizer", "kind")
    elif moments is None:
        shown = printable(raw.decode("utf-8", "backslashreplace"))
        expected = ", ".join(OAM_OPTIMIZERS)
        emit_field(exam, "OAM-OPT-KIND", OamOptimizer, section.offset, "optimizer", "kind", repr(shown), expected)
    if moments is not None:
        _moments(exam, anatomy, section, values, moments)
    if exam.thorough:
        check_writer_fields(exam, "OAM-OPT", OamOptimizer, values, section.offset, "optimizer")
        _not_finite(exam, section, values)
        if anatomy.moments:
            _unrelated_moments(exam, anatomy, section, values)
    anatomy.optimizer = values


def _moments(exam: Examination, anatomy: Anatomy, section: Section, values: Mapping[str, Any], moments: int) -> None:
    head, each = record_size(OamOptimizer), 4 * values["moment_count"]
    needed = head + moments * each

    def emit(rule: str, found: object, expected: object) -> None:
        emit_field(exam, rule, OamOptimizer, section.offset, "optimizer", "moment_count", found, expected)

    if needed >= _U64:
        emit("OAM-OPT-OVERFLOW", f"{values['moment_count']}, which makes {needed} bytes", "less than 2^64 bytes")
    elif needed != section.size:
        arrays = count(moments, "moment")
        found = f"{values['moment_count']}, which makes {needed} bytes with {arrays}"
        emit("OAM-OPT-SIZE", found, f"{section.size} bytes, the size of the section")
    else:
        start = section.offset + head
        anatomy.moments = tuple((start + i * each, each) for i in range(moments))


def _not_finite(exam: Examination, section: Section, values: Mapping[str, Any]) -> None:
    for item in fields(OamOptimizer):
        if item.role == "f32" and values[item.name] & 0x7F800000 == 0x7F800000:
            found = f"0x{values[item.name]:08x}, which is infinite or NaN"
            emit_field(
                exam, "OAM-OPT-FINITE", OamOptimizer, section.offset, "optimizer", item.name, found, "a finite number"
            )


def _unrelated_moments(exam: Examination, anatomy: Anatomy, section: Section, values: Mapping[str, Any]) -> None:
    index = anatomy.indexes.get("weights")
    if index is None and anatomy.section("weights") is not None:
        return  # unreadable: nobody knows how many there are
    if index is not None and index.bad:
        return
    elements = 0 if index is None else sum(elements_of(index, row) for row in range(len(index.entries)))
    if values["moment_count"] != elements:
        emit_field(
            exam,
            "OAM-OPT-MOMENTS",
            OamOptimizer,
            section.offset,
            "optimizer",
            "moment_count",
            values["moment_count"],
            f"{elements}, the number of elements of the weights",
        )


def _progress(exam: Examination, anatomy: Anatomy) -> None:
    section = anatomy.section("progress")
    if section is None:
        return
    values = _record(exam, section, OamProgress, "OAM-PRG-SIZE", exact=True)
    if values is None:
        return
    check_text(exam, "OAM-PRG", OamProgress, values, section.offset, "progress", "metric_name")
    if exam.thorough:
        check_writer_fields(exam, "OAM-PRG", OamProgress, values, section.offset, "progress")
    anatomy.progress = values
