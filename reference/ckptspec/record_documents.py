"""One record as part of the neutral document: to it from stored values, and from it to Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from construct import Struct

from . import neutral
from .records import public_fields, value_of

__all__ = ["document_fields", "from_document", "to_document"]


def to_document(record: Struct, stored: Mapping[str, Any], derived: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the document's object of a record from its stored values."""
    made: dict[str, Any] = {}
    for item in public_fields(record, derived):
        value = stored[item.name]
        if item.role == "f32":
            made[item.name] = neutral.float_bits(value, 32)
        elif item.role == "int" and item.bits == 64:
            made[item.name] = str(value)
        else:
            made[item.name] = value_of(item, value)
    return made


def from_document(
    record: Struct, document: Mapping[str, Any], path: str, derived: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the Python values of a record from the document's object, whose keys were checked."""
    made: dict[str, Any] = {}
    for item in public_fields(record, derived):
        value, where = document[item.name], f"{path}.{item.name}"
        match item.role:
            case "f32":
                made[item.name] = value_of(item, neutral.bits(value, where, 32))
            case "bool":
                made[item.name] = neutral.boolean(value, where)
            case "int" if item.bits == 64:
                made[item.name] = neutral.decimal(value, where, item.bounds)
            case "int":
                made[item.name] = neutral.number(value, where, item.bounds)
            case _:
                made[item.name] = neutral.text(value, where)
    return made


def document_fields(record: Struct, derived: tuple[str, ...] = ()) -> dict[str, str]:
    """Return, for each key that a record has in the document, the kind of its value.

    Kinds: ``text``, ``dtype``, ``bool``, ``f32``, ``u8`` ... ``u32`` for numbers, ``u64`` and ``i64`` for decimal
    strings.
    """
    return {
        item.name: item.type if item.role in ("int", "f32") else item.role for item in public_fields(record, derived)
    }
