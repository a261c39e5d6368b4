"""One record as it is stored, and as Python values. ``record_documents`` has its third shape, the neutral document.

All conversions follow from the roles that the schema's fields have, so that no field is spelled out twice. Fields that
a file derives from others (sizes, offsets, checksums) and those that a writer zeroes do not appear outside the file.

========  ====================  =======================  ==============================
role      stored                Python                   document
========  ====================  =======================  ==============================
int       integer               int                      number, decimal string (64-bit)
f32       32 bits               numpy.float32            "0x" and 8 hex digits
text      bytes                 str                      text
dtype     code                  name                     name
bool      byte                  bool                     true or false
========  ====================  =======================  ==============================
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from construct import Struct

from .errors import ArgumentError
from .spec.dtypes import OAM_BY_CODE, OAM_CODES, OAM_DTYPES
from .spec.layout import Field, field, fields
from .text import show

__all__ = ["build", "default_value", "public_fields", "value_of", "values_of"]

_HIDDEN = ("reserved", "flags", "bytes")


def public_fields(record: Struct, derived: tuple[str, ...] = ()) -> tuple[Field, ...]:
    """Return the fields that exist outside the file: not reserved, and not among ``derived``."""
    return tuple(item for item in fields(record) if item.role not in _HIDDEN and item.name not in derived)


def value_of(item: Field, stored: Any) -> Any:
    """Return the Python value of a stored one that passed its checks."""
    match item.role:
        case "text":
            return stored.partition(b"\0")[0].decode()
        case "f32":
            return np.uint32(stored).reshape(1).view(np.float32)[0]
        case "dtype":
            return OAM_BY_CODE[stored].name
        case "bool":
            return bool(stored)
        case _:
            return int(stored)


def default_value(record: Struct, name: str) -> Any:
    """Return the schema's default of a field as a Python value."""
    item = field(record, name)
    return value_of(item, item.default)


def values_of(record: Struct, stored: Mapping[str, Any], derived: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the Python values of a parsed record."""
    return {item.name: value_of(item, stored[item.name]) for item in public_fields(record, derived)}


# ----------------------------------------------------------------------------------------------------------- writing


def f32_bits_of(value: Any, path: str) -> int:
    """Return the bits of a number as f32; ArgumentError if it is no number or does not fit."""
    if isinstance(value, np.float32):
        return int(value.reshape(1).view(np.uint32)[0])  # as it is: converting would quiet a signalling NaN
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentError(f"found {show(value)}, expected a number", path)
    try:
        with np.errstate(over="ignore"):
            narrow = np.float32(value)
        fits = math.isfinite(narrow) or not math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can hold
        fits = False
    if not fits:
        raise ArgumentError(f"{show(value)} does not fit into 32 bits", path)
    return int(narrow.reshape(1).view(np.uint32)[0])


def text_bytes(value: Any, path: str, width: int, *, empty: bool = True) -> bytes:
    """Return text as the bytes of a NUL-terminated field of ``width`` bytes, unpadded."""
    if not isinstance(value, str):
        raise ArgumentError(f"found {show(value)}, expected text", path)
    shown = show(value)
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{shown} has a lone surrogate and cannot be written as UTF-8", path) from None
    if "\0" in value:
        raise ArgumentError(f"{shown} has a NUL", path)
    if len(raw) >= width:
        raise ArgumentError(f"{shown} takes {len(raw)} bytes, at most {width - 1} fit", path)
    if not raw and not empty:
        raise ArgumentError("is empty", path)
    return raw


def _integer(value: Any, path: str, item: Field) -> int:
    low, high = item.bounds
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        made = operator.index(value)
    except TypeError:
        raise ArgumentError(f"found {show(value)}, expected an integer", path) from None
    if not low <= made <= high:
        raise ArgumentError(f"{show(made)} is not within {low} to {high}", path)
    return made


def _stored(item: Field, value: Any, path: str) -> Any:
    match item.role:
        case "text":
            return text_bytes(value, path, item.size).ljust(item.size, b"\0")
        case "f32":
            return f32_bits_of(value, path)
        case "dtype":
            if not isinstance(value, str) or value not in OAM_DTYPES:
                raise ArgumentError(f"found {show(value)}, expected one of {', '.join(OAM_DTYPES)}", path)
            return OAM_CODES[value]
        case "bool":
            if not isinstance(value, (bool, np.bool_)):
                raise ArgumentError(f"found {show(value)}, expected a bool", path)
            return int(value)
        case _:
            return _integer(value, path, item)


def build(record: Struct, values: Mapping[str, Any], path: str, derived: Mapping[str, Any] | None = None) -> bytes:
    """Return the stored bytes of a record from Python values and stored ``derived`` ones.

    Raises ArgumentError, its path starting with ``path``, for a value that the field cannot hold.
    """
    stored = dict(derived or {})
    for item in public_fields(record, tuple(stored)):
        stored[item.name] = _stored(item, values[item.name], f"{path}.{item.name}")
    for item in fields(record):
        if item.name not in stored:
            stored[item.name] = item.default
        elif item.role == "text":
            stored[item.name] = stored[item.name].ljust(item.size, b"\0")
    made: bytes = record.build(stored)
    return made
