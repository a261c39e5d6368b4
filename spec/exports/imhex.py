"""The formats as patterns for the hex editor ImHex (``.hexpat``).

Every record is a struct; what a section holds is a struct of the record and its parts. The section table places the
sections, and the entries of an index place the payloads of their tensors, as elements where ImHex has the type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from construct import Struct

from ..declarations import Content, Frame, Part, Place
from ..dtypes import OAM_DTYPES, ScalarType
from ..layout import Field, fields, record_size
from ..schema import (
    FRAMES,
    OAM_BLOCK_ENCODINGS,
    OAM_CONTENTS,
    OAM_MAGIC,
    OAM_PLACES,
    OAM_RECORDS,
    OAM_SCALE_DTYPE,
)
from .common import (
    RECORD_DOCS,
    TITLES,
    Member,
    contents,
    enums,
    key_lines,
    records,
    tail_start,
    wrapped,
)

__all__ = ["imhex"]

_WIDTH: Final = 110
# ImHex stops at fewer elements of an array and at fewer patterns unless told otherwise.
_MOST_ELEMENTS: Final = 1 << 32
_MOST_PATTERNS: Final = 1 << 24
_START: Final = "blob_start"  # the parameter of a tensor's struct
# Types of elements that ImHex has, by numpy's names.
_ELEMENTS: Final = {"<f4": "float", "<f8": "double", "i1": "s8", "<i2": "s16", "<i4": "s32", "<i8": "s64"} | {
    "u1": "u8",
    "<u2": "u16",
    "<u4": "u32",
    "<u8": "u64",
}


def imhex(format: str) -> str:
    """Return the pattern of a format."""
    lines = [
        f"#pragma description {TITLES[format]}",
        *([f"#pragma magic [ {OAM_MAGIC.hex(' ').upper()} ] @ 0x00"] if format == "oam" else []),
        "#pragma endian little",
        f"#pragma array_limit {_MOST_ELEMENTS:#x}",
        f"#pragma pattern_limit {_MOST_PATTERNS:#x}",
        "",
        "import std.mem;",
        "",
        *(_oam() if format == "oam" else _framed(format, FRAMES[format])),
    ]
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str = "") -> list[str]:
    return wrapped(text, _WIDTH, f"{indent}// ")


def _note(text: str) -> str:
    """Return the attribute that makes ImHex show a sentence on a field."""
    return f"[[comment({json.dumps(text, ensure_ascii=False)})]]"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


# ------------------------------------------------------------------------------------------------------------- records


def _type(item: Field) -> str:
    if item.enum:
        return _camel(item.enum)
    if item.role in ("text", "bytes"):
        return "char"
    if item.role == "reserved":
        return "u8"
    if item.role == "f32":
        return "float"
    kind = "s" if item.type.startswith("i") else "u"
    return f"{'be ' if item.big_endian else ''}{kind}{item.bits}"


def _field(item: Field) -> str:
    count = "" if item.count is None else f"[{item.count}]"
    return f"    {_type(item)} {item.name}{count} {_note(item.doc)};"


def _struct(name: str, body: list[str], comment: str = "", parameter: str = "") -> Iterator[str]:
    yield from _comment(comment) if comment else ()
    yield f"struct {name}{f'<auto {parameter}>' if parameter else ''} {{"
    yield from body
    yield "};"
    yield ""


def _record(name: str, record: Struct) -> Iterator[str]:
    """Yield the struct of a record that nothing follows and that places nothing."""
    comment = f"{RECORD_DOCS[name]} {record_size(record)} bytes."
    yield from _struct(_camel(name), [_field(item) for item in fields(record)], comment)


def _enum(name: str, members: tuple[Member, ...], width: int) -> Iterator[str]:
    yield f"enum {_camel(name)} : u{width} {{"
    for member in members:
        yield from _comment(member.doc, "    ")
        yield f"    {member.name.upper()} = {member.code},"
    yield "};"
    yield ""


def _enum_widths() -> Mapping[str, int]:
    return {item.enum: item.bits for record in OAM_RECORDS.values() for item in fields(record) if item.enum}


# ----------------------------------------------------------------------------------------------------- what is in .oam


def _oam() -> Iterator[str]:
    widths = _enum_widths()
    for name, members in enums().items():
        yield from _enum(name, members, widths[name])
    for name, record in OAM_RECORDS.items():
        if name not in OAM_PLACES:
            yield from _record(name, record)
    for name in OAM_BLOCK_ENCODINGS:
        yield from _blocks(name)
    tensor, section = OAM_PLACES["tensor"], OAM_PLACES["section"]
    comment = f"{RECORD_DOCS['tensor']} {record_size(OAM_RECORDS['tensor'])} bytes, and what they point to."
    body = [_field(item) for item in fields(OAM_RECORDS["tensor"])]
    yield from _struct("Tensor", [*body, *_payload(tensor)], comment, _START)
    for name, content in contents().items():
        if content.parts:
            yield from _struct(f"{_camel(name)}Section", list(_content(name, content)))
    comment = f"{RECORD_DOCS['section']} {record_size(OAM_RECORDS['section'])} bytes, and what they point to."
    body = [_field(item) for item in fields(OAM_RECORDS["section"])]
    yield from _struct("Section", [*body, *_sections(section)], comment)
    yield from _struct("File", ["    Header header;", "    Section sections[header.section_count];"])
    yield "File file @ 0x00;"


def _blocks(name: str) -> Iterator[str]:
    encoding = OAM_BLOCK_ENCODINGS[name]
    kind = "s8" if encoding.bias == 0 else "u8"
    body = [
        f"    {kind} codes[blocks * {encoding.code_bytes}] {_note(encoding.doc)};",
        f"    {_ELEMENTS[OAM_DTYPES[OAM_SCALE_DTYPE].numpy]} scales[blocks];",
    ]
    yield from _struct(_camel(name), body, "", "blocks")


def _choice(branches: list[tuple[str, list[str]]], otherwise: list[str], indent: str) -> Iterator[str]:
    """Yield an if for the first branch whose condition holds, and what is done if none does."""
    for at, (condition, body) in enumerate(branches):
        yield f"{indent}{'} else ' if at else ''}if ({condition}) {{"
        yield from (f"{indent}    {line}" for line in body)
    yield f"{indent}}} else {{"
    yield from (f"{indent}    {line}" for line in otherwise)
    yield f"{indent}}}"


def _payload(place: Place) -> Iterator[str]:
    at = f"@ {_START} + {place.offset}"
    branches = []
    for name, encoding in OAM_BLOCK_ENCODINGS.items():
        body = [
            f"u64 blocks = {place.size} / {encoding.block_bytes};",
            f"{_camel(name)}<blocks> {place.name} {at};",
        ]
        branches.append((f"encoding == Encoding::{name.upper()}", body))
    for element, scalars in _by_element().items():
        condition = " || ".join(f"dtype == Dtype::{scalar.name.upper()}" for scalar in scalars)
        size = scalars[0].size
        count = place.size if size == 1 else f"{place.size} / {size}"
        branches.append((condition, [f"{element} {place.name}[{count}] {at};"]))
    yield f"    if ({place.size} > 0) {{"
    yield from _choice(branches, [f"u8 {place.name}[{place.size}] {at};"], "        ")
    yield "    }"


def _by_element() -> dict[str, list[ScalarType]]:
    made: dict[str, list[ScalarType]] = {}
    for scalar in OAM_DTYPES.values():
        if scalar.numpy in _ELEMENTS:
            made.setdefault(_ELEMENTS[scalar.numpy], []).append(scalar)
    return made


def _content(name: str, content: Content) -> Iterator[str]:
    yield f"    {_camel(name)} head;"
    for part in content.parts:
        if not part.count:
            continue  # tensors place their payloads themselves, and so all of the blob that belongs to any
        yield from _part(content, part)


def _part(content: Content, part: Part) -> Iterator[str]:
    count = f"head.{part.count}"
    conditions = [f"{count} > 0"]
    if part.only:
        field, values = part.only
        conditions.append("(" + " || ".join(f"({_begins(field, value)})" for value in values) + ")")
    yield f"    if ({' && '.join(conditions)}) {{"
    if part.item in OAM_RECORDS:
        blob = next(other for other in content.parts if not other.count)
        sizes = " + ".join(f"head.{before} * {size}" for before, size in tail_start(content, blob))
        yield f"        u64 {_START} = $ + {sizes};"
        yield f"        {_camel(part.item)}<{_START}> {part.name}[{count}] {_note(part.doc)};"
    else:
        element = "u8" if part.item == "byte" else _ELEMENTS[OAM_DTYPES[part.item].numpy]
        yield f"        {element} {part.name}[{count}] {_note(part.doc)};"
    yield "    }"


def _begins(field: str, value: str) -> str:
    """Return the condition that a field of text has a value, its NUL included."""
    characters = [f"'{letter}'" for letter in value] + ["'\\0'"]
    return " && ".join(f"head.{field}[{at}] == {character}" for at, character in enumerate(characters))


def _sections(place: Place) -> Iterator[str]:
    branches = []
    for name, content in OAM_CONTENTS.items():
        if content.record:
            struct = _camel(content.record) + ("Section" if content.parts else "")
            body = [f"{struct} {name} @ {place.offset} {_note(content.doc)};"]
            branches.append((f"type == SectionType::{name.upper()}", body))
    yield f"    if ({place.size} > 0) {{"
    yield from _choice(branches, [f"u8 {place.name}[{place.size}] @ {place.offset};"], "        ")
    yield "    }"


# ----------------------------------------------------------------------------------------- what is behind a frame's end


def _framed(format: str, frame: Frame) -> Iterator[str]:
    yield from _comment(f"The header is text ({frame.syntax}), which this pattern does not take apart: {frame.header}")
    yield "//"
    yield from (line for text in key_lines(frame) for line in _comment(text))
    yield ""
    for name, record in records(format).items():
        yield from _record(name, record)
    start = record_size(frame.record)
    length = f"frame.{frame.length}"
    body = [
        "    Frame frame;",
        f"    if ({length} > 0) {{",
        f"        char header[{length}] {_note(frame.header)};",
        "    }",
        f"    if (std::mem::size() > {start} + {length}) {{",
        f"        u8 {frame.data}[std::mem::size() - {start} - {length}] {_note(frame.data_doc)};",
        "    }",
    ]
    yield from _struct("File", body)
    yield "File file @ 0x00;"
