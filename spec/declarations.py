"""What the schema is declared with: the kinds of fields of a binary record, and what else a format is made of."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from construct import Bytes, FormatField, Struct

__all__ = [
    "BlockEncoding",
    "BoolByte",
    "Code",
    "Content",
    "DtypeCode",
    "Float32",
    "Frame",
    "Key",
    "Limited",
    "Magic",
    "Part",
    "Place",
    "Reserved",
    "Text",
    "ZeroFlags",
    "f32_bits",
]

if TYPE_CHECKING:
    IntField = FormatField[int, int]
    ByteField = Bytes
else:  # construct's own classes cannot be subscripted
    IntField = FormatField
    ByteField = Bytes


def f32_bits(value: float) -> int:
    """Return the bit pattern of the 32-bit float nearest to ``value``."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


class Float32(IntField):
    """An IEEE 754 binary32 as its 32 bits: a float object would quiet signalling NaNs."""

    def __init__(self) -> None:
        super().__init__("<", "L")  # type: ignore[call-arg]


class Text(ByteField):
    """UTF-8 text in a field of ``length`` bytes, ended by the first NUL; a writer fills the rest with zeros."""


class Magic(ByteField):
    """Bytes that are always the same; readers refuse others."""

    def __init__(self, value: bytes) -> None:
        super().__init__(len(value))
        self.value = value


class Reserved(ByteField):
    """Bytes that a writer sets to zero; where they are ``checked``, readers refuse others."""

    def __init__(self, length: int, *, checked: bool = False) -> None:
        super().__init__(length)
        self.checked = checked


class Limited(IntField):
    """An integer of which readers take only the values from ``least`` to ``most``. ``format`` is struct's."""

    def __init__(self, format: str, least: int, most: int) -> None:
        super().__init__(*format)
        self.least, self.most = least, most


class Code(IntField):
    """An integer that stands for a name: one of ``codes``, which are called ``enum``. ``format`` is struct's."""

    def __init__(self, format: str, codes: Mapping[str, int], enum: str) -> None:
        super().__init__(*format)
        self.codes, self.enum = codes, enum


class ZeroFlags(IntField):
    """A 32-bit flag word that has no meaning yet: written as zero, ignored by readers."""

    def __init__(self) -> None:
        super().__init__("<", "L")  # type: ignore[call-arg]


class DtypeCode(IntField):
    """One byte: a code of the dtype table."""

    def __init__(self) -> None:
        super().__init__("<", "B")  # type: ignore[call-arg]


class BoolByte(IntField):
    """One byte: zero is false, anything else reads as true, a writer writes 0 or 1."""

    def __init__(self) -> None:
        super().__init__("<", "B")  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What follows a record: as many ``item`` as the record's field ``count`` says, or as fill the section.

    ``item`` is the name of a record, of a dtype, or ``byte``. With ``only``, a field of text and some of its values,
    the part is there only if the record has one of these.
    """

    name: str
    item: str
    doc: str
    count: str = ""
    only: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a section holds: a record, then its parts in order."""

    doc: str
    record: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something lies that a record points to: ``offset`` and ``size`` are the record's fields, in bytes.

    The offset counts from the start of ``within``, a part of the section that the record is in, or, if that is empty,
    from the start of the file.
    """

    name: str
    doc: str
    offset: str
    size: str
    within: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEncoding:
    """How blocks of elements are quantized: codes from ``-limit`` to ``limit``, as stored ``bias`` more, and a scale.

    A block has ``code_bytes`` bytes of codes and one scale of ``scale_bytes``. All codes of a tensor come first, then
    all scales. The value of an element is code times scale.
    """

    code_bytes: int
    scale_bytes: int
    limit: int
    bias: int
    doc: str

    @property
    def block_bytes(self) -> int:
        """The bytes of a block, codes and scale."""
        return self.code_bytes + self.scale_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One (key value) pair of a record in a header of text.

    ``kind`` names the value's syntax, a key of ``VALUE_KINDS``. ``least`` is the smallest integer that the value may
    be or hold. An ``optional`` pair may be missing. ``since`` is the first version of the record that has the pair.
    """

    name: str
    kind: str
    doc: str
    least: int | None = None
    optional: bool = False
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A file of a header in text: a record with the header's length, the header, and the rest, which is data.

    ``syntax`` is the header's; ``utf8`` says whether readers insist on UTF-8. ``records`` are its records' pairs.
    """

    record: Struct
    length: str
    header: str
    syntax: str
    utf8: bool
    data: str
    data_doc: str
    records: Mapping[str, tuple[Key, ...]]
