"""What follows from a struct of the schema: field tables, numpy dtypes, defaults.

construct knows sizes but no offsets, and parses one record in tens of microseconds. Here a fixed-size struct is walked
once into a table of ``Field``; the numpy structured dtype that reads ten thousand records at a time is built from the
same walk.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from construct import Array, Bytes, Default, FormatField, Renamed, Struct

from .declarations import BoolByte, Code, DtypeCode, Float32, Limited, Magic, Reserved, Text, ZeroFlags
from .dtypes import OAM_CODES

__all__ = ["Field", "default_of", "field", "fields", "numpy_dtype", "record_size"]

# struct's format letters as (type name, numpy type); sizes are those of struct's little-endian standard mode.
_SCALARS = {
    "B": ("u8", "u1"),
    "H": ("u16", "<u2"),
    "L": ("u32", "<u4"),
    "Q": ("u64", "<u8"),
    "b": ("i8", "i1"),
    "h": ("i16", "<i2"),
    "l": ("i32", "<i4"),
    "q": ("i64", "<i8"),
}
_ROLES: tuple[tuple[type, str], ...] = (
    (Float32, "f32"),
    (Text, "text"),
    (Reserved, "reserved"),
    (ZeroFlags, "flags"),
    (DtypeCode, "dtype"),
    (BoolByte, "bool"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a fixed-size record.

    ``offset`` and ``size`` are bytes, relative to the record. ``role`` says what the field means: ``int``, ``f32``,
    ``text``, ``reserved``, ``flags``, ``dtype``, ``bool`` or ``bytes``. ``count`` is the number of array elements, or
    None for a scalar. Readers refuse values below ``least``, above ``most``, other than the numbers of ``codes`` and
    other than the bytes ``fixed``, where these are not None. ``enum`` is what the codes are called.
    """

    name: str
    offset: int
    size: int
    role: str
    type: str
    numpy: str
    count: int | None
    doc: str
    default: Any = None
    least: int | None = None
    most: int | None = None
    codes: Mapping[str, int] | None = None
    enum: str = ""
    fixed: bytes | None = None

    @property
    def big_endian(self) -> bool:
        """Whether the most significant byte comes first."""
        return self.numpy.startswith(">")

    @property
    def bits(self) -> int:
        """Width of one integer element in bits."""
        return 8 * self.size // (self.count or 1)

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest integer that the field can hold."""
        if self.type.startswith("i"):
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


def _sentence(docs: str) -> str:
    return re.sub(r"\s+", " ", inspect.cleandoc(docs)).strip()


def _limits(subcon: Any) -> dict[str, Any]:
    """Return what readers take of a field, as ``Field`` has it."""
    match subcon:
        case Limited():
            return {"least": subcon.least, "most": subcon.most}
        case Code():
            return {"codes": subcon.codes, "enum": subcon.enum}
        case DtypeCode():
            return {"codes": OAM_CODES, "enum": "dtype"}
        case Magic():
            return {"fixed": subcon.value}
        case Reserved() if subcon.checked:
            return {"fixed": bytes(subcon.sizeof())}
        case _:
            return {}


def _walk(record: Struct) -> Iterator[Field]:
    offset = 0
    for named in record.subcons:
        name, docs = str(named.name), str(named.docs)
        subcon: Any = named
        default = None
        while isinstance(subcon, Renamed):  # one layer for the name, one for the sentence
            subcon = subcon.subcon
        if isinstance(subcon, Default):
            default, subcon = subcon.value, subcon.subcon
        role = next((role for cls, role in _ROLES if isinstance(subcon, cls)), None)
        count: int | None = None
        size = subcon.sizeof()
        limits = _limits(subcon)
        if isinstance(subcon, Array):
            subcon, count = subcon.subcon, size // subcon.subcon.sizeof()
        if isinstance(subcon, FormatField):
            type_name, numpy_type = _SCALARS[subcon.fmtstr[-1]]
            if subcon.fmtstr[0] == ">":
                type_name, numpy_type = f"{type_name} big-endian", numpy_type.replace("<", ">")
            role = role or "int"
            if role == "f32":
                type_name = "f32"
        elif isinstance(subcon, Bytes):
            role = role or "bytes"
            type_name, numpy_type = ("char" if role == "text" else "byte"), "u1"
            count = size
        else:
            raise TypeError(f"the schema has a field of unknown kind: {name}")
        yield Field(
            name=name,
            offset=offset,
            size=size,
            role=role,
            type=type_name,
            numpy=numpy_type,
            count=count,
            doc=_sentence(docs),
            default=default,
            **limits,
        )
        offset += size


@cache
def fields(record: Struct) -> tuple[Field, ...]:
    """Return the fields of a fixed-size record, in order."""
    return tuple(_walk(record))


@cache
def _by_name(record: Struct) -> dict[str, Field]:
    return {item.name: item for item in fields(record)}


def field(record: Struct, name: str) -> Field:
    """Return the field called ``name``; KeyError if there is none."""
    return _by_name(record)[name]


@cache
def record_size(record: Struct) -> int:
    """Return the size of a fixed-size record in bytes."""
    return sum(item.size for item in fields(record))


def default_of(record: Struct, name: str) -> Any:
    """Return the value that a writer gives the field unless told otherwise, in the schema's representation."""
    return field(record, name).default


@cache
def numpy_dtype(record: Struct) -> np.dtype[np.void]:
    """Return the packed structured dtype of a record; text and bytes become arrays of ``u1``."""
    return np.dtype([(item.name, item.numpy, (item.count or 1,))[: 3 if item.count else 2] for item in fields(record)])
