"""JSON Schemas of the manifest and of the neutral document, derived from the schema's records.

They are written to ``schemas/`` together with the golden files, for users of other languages.
"""

from __future__ import annotations

from typing import Any

from ..record_documents import document_fields
from ..spec.dtypes import OAM_DTYPES
from ..spec.layout import field
from ..spec.rules import RULES
from ..spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_OPTIMIZERS,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamOptimizer,
    OamProgress,
)
from .catalogue import LEVELS, VERDICTS

__all__ = ["document_schema", "manifest_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _value(record: Any, name: str, kind: str) -> Schema:
    item = field(record, name)
    if kind == "text":
        # maxLength counts characters, the field counts bytes: a text of one-byte characters is the longest
        return {"type": "string", "maxLength": item.size - 1, "pattern": "^[^\\u0000]*$", "description": item.doc}
    if kind == "dtype":
        return {"enum": list(OAM_DTYPES), "description": item.doc}
    if kind == "bool":
        return {"type": "boolean", "description": item.doc}
    if kind == "f32":
        return {"$ref": "#/$defs/f32", "description": item.doc}
    if item.bits == 64:
        return {"$ref": f"#/$defs/{kind}", "description": item.doc}
    low, high = item.bounds
    return {"type": "integer", "minimum": low, "maximum": high, "description": item.doc}


def _record(record: Any, derived: tuple[str, ...] = (), **more: Schema) -> Schema:
    made = {name: _value(record, name, kind) for name, kind in document_fields(record, derived).items()}
    return _object(made | more)


def document_schema() -> Schema:
    """Return the JSON Schema of the neutral document. What only a reader of the whole can check is not in it."""
    hexadecimal = {"$ref": "#/$defs/hex"}
    tensor = _object(
        {
            "name": {"type": "string", "minLength": 1, "maxLength": 127, "pattern": "^[^\\u0000]*$"},
            "dtype": {"enum": list(OAM_DTYPES)},
            "shape": {"type": "array", "items": {"$ref": "#/$defs/u64"}, "maxItems": OAM_MAX_RANK},
            "encoding": {"enum": list(OAM_ENCODINGS)},
            "data": hexadecimal,
        }
    )
    optimizer = _record(
        OamOptimizer,
        ("moment_count",),
        kind={"enum": list(OAM_OPTIMIZERS)},
        first_moment=hexadecimal,
        second_moment=hexadecimal,
    )
    oam = _object(
        {
            "format": {"const": "oam"},
            "version": {"enum": list(OAM_VERSIONS)},
            "config": _record(OamConfig, ("arch_config_size",), arch_config=hexadecimal),
            **{name: {"type": "array", "items": tensor} for name in OAM_TENSOR_SECTIONS},
            "optimizer": {"anyOf": [{"type": "null"}, optimizer]},
            "progress": _record(OamProgress),
        }
    )
    return {
        "$schema": _DIALECT,
        "title": "The neutral document of a training checkpoint",
        "oneOf": [oam],
        "$defs": {
            "hex": {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
            "f32": {"type": "string", "pattern": "^0x[0-9a-f]{8}$"},
            "u64": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,19})$"},
            "i64": {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})$"},
        },
    }


def manifest_schema() -> Schema:
    """Return the JSON Schema of ``manifest.json``."""
    text: Schema = {"type": "string"}
    texts: Schema = {"type": "array", "items": text}
    by_name: Schema = {"type": "object", "additionalProperties": text}
    case = _object(
        {
            "id": {"type": "string", "pattern": "^[a-z]+/[a-z0-9_]+$"},
            "format": text,
            "title": {"type": "string", "minLength": 1},
            "kind": {"enum": ["file", "document"]},
            "verdict": {"enum": list(VERDICTS)},
            "level": {"enum": list(LEVELS)},
            "rules": {"type": "array", "items": {"enum": list(RULES)}},
            "versions": {"type": "array", "items": {"type": "integer"}},
            "tags": texts,
            "file": text,
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "size": {"type": "integer", "minimum": 0},
            "expected": text,
            "canonical": {"type": "boolean"},
            "reason": text,
            "behaviour": by_name,
        }
    )
    case["if"] = {"properties": {"verdict": {"const": "acceptable"}}}
    case["then"] = {"properties": {"reason": {"minLength": 1}, "behaviour": {"minProperties": 1}}}
    properties = {
        "suite_version": text,
        "protocol_version": text,
        "implementations": by_name,
        "smoke": by_name,
        "cases": {"type": "array", "items": case},
    }
    return {"$schema": _DIALECT, "title": "The manifest of the conformance suite", **_object(properties)}
