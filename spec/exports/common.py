"""What all exports need to know: the enumerations, the constants, the records of a format, and text that is wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from construct import Struct

from .. import schema
from ..declarations import Content, Frame, Key, Part
from ..dtypes import OAM_BY_CODE, OAM_DTYPES
from ..layout import record_size
from ..schema import (
    FRAMES,
    OAM_BLOCK_ENCODINGS,
    OAM_CONTENTS,
    OAM_ENCODINGS,
    OAM_QUANT_BLOCK,
    OAM_QUANT_VERSION,
    OAM_RECORDS,
    OAM_SCALE_DTYPE,
    OAM_SECTIONS,
    OAM_VERSIONS,
    VALUE_KINDS,
)

__all__ = [
    "RECORD_DOCS",
    "TITLES",
    "Constant",
    "Member",
    "constants",
    "contents",
    "enums",
    "fixed_start",
    "item_size",
    "key_lines",
    "records",
    "tail_start",
    "wrapped",
]

RECORD_DOCS: Final = {
    "header": "The file header, at the start of the file.",
    "section": "One entry of the section table, which follows the file header.",
    "config": "The head of a config section.",
    "index": "The head of a weights or state section.",
    "tensor": "One entry of the index of a weights or state section.",
    "optimizer": "The head of an optimizer section.",
    "progress": "The whole of a progress section.",
    "frame": "What opens the file.",
}
"""What the records are, in words."""

TITLES: Final = {
    "oam": f".oam model files, versions {OAM_VERSIONS[0]} to {OAM_VERSIONS[-1]}",
    "ocannl": "OCANNL checkpoints",
    "safetensors": "safetensors files",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One name of an enumeration; ``since`` is the first version of the format that has it."""

    name: str
    code: int
    doc: str
    since: int = OAM_VERSIONS[0]


def _sections() -> Iterator[Member]:
    for name, code in OAM_SECTIONS.items():
        yield Member(name=name, code=code, doc=OAM_CONTENTS[name].doc)


def _dtypes() -> Iterator[Member]:
    for code, scalar in sorted(OAM_BY_CODE.items()):
        yield Member(
            name=scalar.name, code=code, doc=f"{scalar.doc}; {scalar.size} byte{'s' if scalar.size > 1 else ''} each."
        )


def _encodings() -> Iterator[Member]:
    for name, code in OAM_ENCODINGS.items():
        if name not in OAM_BLOCK_ENCODINGS:
            yield Member(name=name, code=code, doc="Elements one after the other.")
            continue
        encoding = OAM_BLOCK_ENCODINGS[name]
        doc = (
            f"Blocks of {OAM_QUANT_BLOCK} elements, each with {encoding.code_bytes} bytes of codes and one "
            f"{OAM_SCALE_DTYPE} scale; all codes come first, then all scales. {encoding.doc}"
        )
        yield Member(name=name, code=code, doc=doc, since=OAM_QUANT_VERSION)


def enums() -> dict[str, tuple[Member, ...]]:
    """Return the enumerations of ``.oam`` files by their names, as ``Field.enum`` has them."""
    return {"section_type": tuple(_sections()), "dtype": tuple(_dtypes()), "encoding": tuple(_encodings())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number of a format."""

    name: str
    value: int
    doc: str


def constants(format: str) -> list[Constant]:
    """Return the numbers of a format that no field carries."""
    return [Constant(name=name, value=getattr(schema, name), doc=doc) for name, doc in schema.CONSTANTS[format].items()]


def records(format: str) -> dict[str, Struct]:
    """Return the binary records of a format by their names."""
    return dict(OAM_RECORDS) if format == "oam" else {"frame": FRAMES[format].record}


def contents() -> dict[str, Content]:
    """Return what sections hold, by the record that they begin with, for each record once."""
    made: dict[str, Content] = {}
    for content in OAM_CONTENTS.values():
        if content.record:
            known = made.setdefault(content.record, content)
            if known.parts != content.parts:
                raise ValueError(f"two kinds of sections begin with the same record: {content.record}")
    return made


def item_size(item: str) -> int:
    """Return the bytes that one item of a part takes: a record, an element, or a byte."""
    if item == "byte":
        return 1
    return record_size(OAM_RECORDS[item]) if item in OAM_RECORDS else OAM_DTYPES[item].size


def fixed_start(content: Content) -> int:
    """Return where the parts of a section begin, counted from its start."""
    return record_size(OAM_RECORDS[content.record])


def tail_start(content: Content, part: Part) -> list[tuple[str, int]]:
    """Return what the parts before a part of a section take: the field with the number of items, and their size."""
    before = content.parts[: content.parts.index(part)]
    if any(other.only or not other.count for other in before):
        raise ValueError(f"where {part.name} starts is not known from the record alone")
    return [(other.count, item_size(other.item)) for other in before]


def key_lines(frame: Frame) -> Iterator[str]:
    """Yield the pairs of the records of a header of text, a line each."""

    def line(key: Key) -> str:
        limits = "" if key.least is None else f", at least {key.least}"
        since = "" if key.since is None else f", since version {key.since}"
        there = "optional, " if key.optional else ""
        return f"- `{key.name}` ({there}{VALUE_KINDS[key.kind]}{limits}{since}): {key.doc}"

    for at, (name, keys) in enumerate(frame.records.items()):
        if at:
            yield ""
        yield f"Pairs of the record `{name}`:"
        yield ""
        for key in keys:
            yield line(key)


def wrapped(text: str, width: int, prefix: str = "") -> list[str]:
    """Return text as lines of at most ``width`` characters, each with the prefix; line breaks of the text stay."""
    lines: list[str] = []
    wrapper = textwrap.TextWrapper(width - len(prefix), break_long_words=False, break_on_hyphens=False)
    for line in text.splitlines():
        wrapper.subsequent_indent = "  " if line.startswith("- ") else ""
        lines += wrapper.wrap(line) or [""]
    return [(prefix + line).rstrip() for line in lines]
