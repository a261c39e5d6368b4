"""The formats as Kaitai Struct descriptions (``.ksy``), from which parsers in a dozen languages are compiled.

A type is made of each record; what follows a record in its section stands behind its fields, and what a table points to
is an instance. Nothing is computed that a parser does not need to find its way: sums, checksums and requirements beyond
the range of a field are left to a validator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from construct import Struct

from ..declarations import Content, Frame, Part, Place
from ..dtypes import OAM_DTYPES
from ..layout import Field, fields, record_size
from ..rules import REJECT, rules_of
from ..schema import (
    FRAMES,
    OAM_BLOCK_ENCODINGS,
    OAM_CONTENTS,
    OAM_ENCODINGS,
    OAM_MANIFEST_VERSION,
    OAM_PLACES,
    OAM_RECORDS,
    OAM_SCALE_DTYPE,
)
from .common import RECORD_DOCS, TITLES, contents, enums, fixed_start, item_size, key_lines, tail_start
from .yaml import dump

__all__ = ["kaitai", "left_out"]

Node = dict[str, Any]

# What the description of .oam leaves to a validator, and the rules that say it. Some of their breaks a parser notices
# all the same: a section that ends behind the file cannot be read.
_LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "checksums (FNV-1a-64 of payloads, and of header and table)": (
        "OAM-HDR-CHECKSUM",
        "OAM-HDR-XOR",
        "OAM-SEC-CHECKSUM",
    ),
    "which sections there must be, and that there is one of each": ("OAM-SEC-MISSING", "OAM-SEC-DUP"),
    "overlaps, order and padding": ("OAM-SEC-START", "OAM-SEC-OVERLAP", "OAM-TEN-OVERLAP"),
    "the places of what has no bytes": ("OAM-SEC-RANGE", "OAM-TEN-RANGE"),
    "bytes behind what a file and its sections hold": (
        "OAM-HDR-TOTAL",
        "OAM-CFG-SIZE",
        "OAM-OPT-SIZE",
        "OAM-PRG-SIZE",
    ),
    "the NUL at the end of a text": ("OAM-CFG-NUL", "OAM-TEN-NUL", "OAM-OPT-NUL", "OAM-PRG-NUL"),
    "names of tensors, and kinds of optimizers": ("OAM-TEN-EMPTY", "OAM-TEN-DUP", "OAM-OPT-KIND"),
    "the byte count that shape, dtype and encoding give": ("OAM-TEN-ELEMENTS", "OAM-TEN-SIZEOF", "OAM-TEN-BYTES"),
    "what may be quantized, and how": (
        "OAM-TEN-BLOCK",
        "OAM-QNT-VERSION",
        "OAM-QNT-STATE",
        "OAM-QNT-DTYPE",
        "OAM-QNT-BLOCK",
        "OAM-QNT-EMPTY",
    ),
}

_INTRODUCTION: Final = "\n\n".join(
    (
        "All numbers are little-endian, and all records are packed. The section table follows the file header; each "
        "of its entries points to a section. Payloads are read when they are asked for.",
        f"What is not expressed here: {'; '.join(_LEFT_OUT)}. Values beyond the range of a field are refused.",
        "A `dense` payload is bytes: elements of the tensor's dtype in row-major order. Quantized payloads are cut "
        "into `codes` and `scales`. An f32 has its `bits`, which are exact, and a `value`.",
        "In JavaScript, integers of 64 bits are Numbers: those above 2^53, such as checksums, are rounded; and a text "
        "that begins with a byte order mark loses it. Other languages have both exactly.",
        "Fields are called as in the specification, but that of a section's type is `section_type`: some languages do "
        "not let anything be called `type`.",
    )
)
_FRAME_INTRODUCTION: Final = (
    "The header is {article} {syntax}. Kaitai Struct has no means to describe it: a parser made from this file finds "
    "header and {data}, and leaves both to the program. Tensors lie in the {data}; the header says where."
)
_RESERVED: Final = ("type",)  # words of a language; such a field is called as its enumeration


def kaitai(format: str) -> str:
    """Return the description of a format."""
    return dump(_oam() if format == "oam" else _frame(format, FRAMES[format]))


def left_out(format: str) -> Mapping[str, tuple[str, ...]]:
    """Return what a description does not express, in words, with the rules for which readers refuse such files.

    A parser that is made from the description may accept a file that breaks these rules, and no others.
    """
    if format == "oam":
        return _LEFT_OUT
    frame = FRAMES[format]
    seen = {rule.id for rule in rules_of(format) if "-FRM-" in rule.id}
    if frame.utf8:
        seen.add(f"{format.upper()}-TXT-UTF8")
    rules = tuple(rule.id for rule in rules_of(format) if rule.kind == REJECT and rule.id not in seen)
    return {f"what is in the header, and of what it says of the {frame.data}": rules}


def _meta(format: str, extension: str) -> Node:
    return {
        "id": format,
        "title": TITLES[format],
        "file-extension": extension,
        "license": "MIT",
        "ks-version": "0.11",
        "encoding": "UTF-8",
        "endian": "le",
    }


# ------------------------------------------------------------------------------------------------------------- fields


def _scalar(item: Field) -> str:
    """Return the name of an integer type: u1, s8, s4be, ..."""
    kind = "s" if item.type.startswith("i") else "u"
    order = "be" if item.big_endian else ""
    return f"{kind}{item.bits // 8}{order}"


def _name(item: Field) -> str:
    return item.enum if item.name in _RESERVED else item.name


def _field(item: Field) -> Node:
    made: Node = {"id": _name(item)}
    if item.fixed is not None:
        made["contents"] = list(item.fixed)
    elif item.role == "text":
        made |= {"type": "strz", "size": item.size}
    elif item.role in ("reserved", "bytes"):
        made["size"] = item.size
    elif item.role == "f32":
        made |= {"type": "f32", "size": item.size}
    else:
        made["type"] = _scalar(item)
        if item.count is not None:
            made |= {"repeat": "expr", "repeat-expr": item.count}
        made |= _valid(item)
    made["doc"] = item.doc
    return made


def _valid(item: Field) -> Node:
    if item.enum:
        return {"enum": item.enum, "valid": {"in-enum": True}}
    if item.least is None:
        return {}
    if item.least == item.most:
        return {"valid": item.least}
    # Some compilers warn of what is always so.
    return {"valid": {"max": item.most} if item.least == item.bounds[0] else {"min": item.least, "max": item.most}}


def _record(record: Struct) -> list[Node]:
    return [_field(item) for item in fields(record)]


# ----------------------------------------------------------------------------------------------------- what is in .oam


def _oam() -> Node:
    types = {name: _type(name, record) for name, record in OAM_RECORDS.items()}
    return {
        "meta": _meta("oam", "oam"),
        "doc": _INTRODUCTION,
        "seq": [
            {"id": "header", "type": "header"},
            {"id": "sections", "type": "section", "repeat": "expr", "repeat-expr": "header.section_count"},
        ],
        "types": types | {"f32": _f32()} | {name: _blocks(name) for name in OAM_BLOCK_ENCODINGS},
        "enums": {
            name: {member.code: {"id": member.name, "doc": member.doc} for member in members}
            for name, members in enums().items()
        },
    }


def _type(name: str, record: Struct) -> Node:
    content = contents().get(name)
    more = ", and what it points to." if name in OAM_PLACES else ", and what follows it."
    doc = RECORD_DOCS[name].removesuffix(".") + (more if name in OAM_PLACES or (content and content.parts) else ".")
    made: Node = {"doc": doc, "seq": _record(record)}
    instances: Node = {}
    for part in content.parts if content else ():
        assert content is not None
        if part.count:
            made["seq"].append(_part(part))
        else:
            instances |= _rest(content, part)
    if name in OAM_PLACES:
        instances[OAM_PLACES[name].name] = _placed(name, OAM_PLACES[name])
    if name == "header":
        instances["is_manifest_checksum"] = {
            "value": f"version >= {OAM_MANIFEST_VERSION}",
            "doc": "Whether the checksum is FNV-1a-64 of header and table, rather than the exclusive or of the "
            "sections' checksums.",
        }
    return made | ({"instances": instances} if instances else {})


def _part(part: Part) -> Node:
    """Return a part that its record counts: records one by one, anything else as bytes."""
    made: Node = {"id": part.name}
    if part.item in OAM_RECORDS:
        made |= {"type": part.item, "repeat": "expr", "repeat-expr": part.count}
    else:
        size = item_size(part.item)
        made["size"] = part.count if size == 1 else f"{part.count} * {size}"
    if part.only:
        field, values = part.only
        made["if"] = " or ".join(f'{field} == "{value}"' for value in values)
    made["doc"] = part.doc if part.item in ("byte", *OAM_RECORDS) else f"{part.doc} Elements are {part.item}."
    return made


def _rest(content: Content, part: Part) -> Node:
    """Return a part that fills the section; it is not read unless it is asked for."""
    terms = [str(fixed_start(content)), *(f"{count} * {size}" for count, size in tail_start(content, part))]
    start = f"{part.name}_start"
    return {
        start: {"value": " + ".join(terms), "doc": f"Where {part.name} starts, counted from the section's start."},
        part.name: {"pos": start, "size-eos": True, "doc": part.doc},
    }


def _placed(record: str, place: Place) -> Node:
    made: Node = {}
    if place.within:
        made["pos"] = f"_parent.{place.within}_start + {place.offset}"
    else:
        made |= {"io": "_root._io", "pos": place.offset}
    made["size"] = place.size
    if record == "section":
        cases = {f"section_type::{name}": content.record for name, content in OAM_CONTENTS.items() if content.record}
        made["type"] = {"switch-on": "section_type", "cases": cases}
    else:
        cases = {f"encoding::{name}": name for name in OAM_ENCODINGS if name in OAM_BLOCK_ENCODINGS}
        made["type"] = {"switch-on": "encoding", "cases": cases}
    return made | {"doc": place.doc}


def _f32() -> Node:
    return {
        "doc": f"{OAM_DTYPES['f32'].doc}. A signalling NaN may change when it becomes a value; its bits do not.",
        "seq": [{"id": "bits", "type": "u4"}],
        "instances": {"value": {"pos": 0, "type": "f4"}},
    }


def _blocks(name: str) -> Node:
    encoding = OAM_BLOCK_ENCODINGS[name]
    doc = next(member.doc for member in enums()["encoding"] if member.name == name)
    return {
        "doc": doc,
        "seq": [
            {"id": "codes", "size": f"num_blocks * {encoding.code_bytes}"},
            {
                "id": "scales",
                "type": OAM_SCALE_DTYPE,
                "size": encoding.scale_bytes,
                "repeat": "expr",
                "repeat-expr": "num_blocks",
            },
        ],
        "instances": {"num_blocks": {"value": f"_io.size / {encoding.block_bytes}"}},
    }


# ----------------------------------------------------------------------------------------- what is behind a frame's end


def _frame(format: str, frame: Frame) -> Node:
    article = "an" if frame.syntax[0] in "AEIOUS" else "a"
    start = record_size(frame.record)
    introduction = _FRAME_INTRODUCTION.format(article=article, syntax=frame.syntax, data=frame.data)
    header: Node = {"id": "header", "size": frame.length}
    instances: Node = {}
    if frame.utf8:
        header["type"] = "str"
    else:
        instances["header_text"] = {
            "pos": start,
            "size": frame.length,
            "type": "str",
            "doc": "The header as text; some parsers refuse it where it is not UTF-8.",
        }
    instances[frame.data] = {"pos": f"{start} + {frame.length}", "size-eos": True, "doc": frame.data_doc}
    return {
        "meta": _meta(format, "ckpt" if format == "ocannl" else format),
        "doc": introduction + "\n\n" + "\n".join(key_lines(frame)),
        "seq": [*_record(frame.record), header | {"doc": frame.header}],
        "instances": instances,
    }
