"""JSON Schemas of the manifest, of the neutral document and of the description of the formats.

They are written to ``schemas/`` together with the golden files, for users of other languages.
"""

from __future__ import annotations

from typing import Any, Final

from ..record_documents import document_fields
from ..spec import exports
from ..spec.dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES
from ..spec.exports.description import DESCRIPTION_FORMAT, DESCRIPTION_VERSION
from ..spec.layout import field
from ..spec.rules import CANONICAL, NOTE, REJECT, RULES
from ..spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_OPTIMIZERS,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OCANNL_HEADER,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_SEEDS_VERSION,
    OCANNL_TENSOR,
    OCANNL_TRAINING,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    SAFETENSORS_ENTRY,
    SAFETENSORS_METADATA,
    VALUE_KINDS,
    Key,
    OamConfig,
    OamOptimizer,
    OamProgress,
)
from .catalogue import LEVELS, VERDICTS

__all__ = ["description_schema", "document_schema", "manifest_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def _object(properties: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties | (optional or {}),
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


def _oam() -> Schema:
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
    return _object(
        {
            "format": {"const": "oam"},
            "version": {"enum": list(OAM_VERSIONS)},
            "config": _record(OamConfig, ("arch_config_size",), arch_config=hexadecimal),
            **{name: {"type": "array", "items": tensor} for name in OAM_TENSOR_SECTIONS},
            "optimizer": {"anyOf": [{"type": "null"}, optimizer]},
            "progress": _record(OamProgress),
        }
    )


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _pair(first: Schema, second: Schema) -> Schema:
    return {"type": "array", "prefixItems": [first, second], "items": False, "minItems": 2}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, schema]}


_U62: Final[Schema] = {"$ref": "#/$defs/u62"}
_TEXT: Final[Schema] = {"$ref": "#/$defs/text"}
_NAMESPACE: Final[Schema] = {"$ref": "#/$defs/namespace"}
_HEX: Final[Schema] = {"$ref": "#/$defs/hex"}

# The kinds of values of the header's records, as documents have them.
_OF_KIND: Final[dict[str, Schema]] = {
    "int": _U62,
    "atom": _NAMESPACE,
    "atoms": _list(_TEXT),
    "ints": _list(_U62),
    "precision": {"enum": list(OCANNL_PRECISIONS)},
    "padding": _or_null(
        _object({"axes": _list(_pair(_U62, _U62)), "neutral": {"$ref": "#/$defs/neutral"}}),
    ),
    "option": _or_null(_HEX),
    "pairs": _list(_pair(_TEXT, _TEXT)),
    "nodes": _list(_pair(_NAMESPACE, _U62), minItems=1, uniqueItems=True),
    "dtype": {"enum": list(SAFETENSORS_DTYPES)},
    "extents": _list({"$ref": "#/$defs/u64"}),
}
# What documents call otherwise than the header, and what follows from the payloads.
_RENAMED: Final = {"prec": "precision"}
_DERIVED: Final = ("offset", "byte_length", "data_offsets")
# Keys whose values are not what their kind says alone.
_SPECIAL: Final[dict[str, Schema]] = {
    "seeds": _or_null(_list({"$ref": "#/$defs/i63"})),
}


def _table(table: tuple[Key, ...], **more: Schema) -> Schema:
    """Return the schema of a record of a header, as documents have it."""
    made: Schema = {}
    for key in table:
        if key.name not in _DERIVED:
            value = more.pop(key.name, None) or _SPECIAL.get(key.name) or _OF_KIND[key.kind]
            made[_RENAMED.get(key.name, key.name)] = value | {"description": key.doc}
    return _object(more | made)


def _ocannl() -> Schema:
    training = _table(OCANNL_TRAINING, version={"enum": list(OCANNL_TRAINING_VERSIONS)})
    training["if"] = {"properties": {"version": {"minimum": OCANNL_SEEDS_VERSION}}}
    training["then"] = {"properties": {"seeds": {"type": "array"}}}
    training["else"] = {"properties": {"seeds": {"type": "null"}}}
    return _table(
        OCANNL_HEADER,
        format={"const": "ocannl"},
        version={"const": OCANNL_VERSION},
        alignment={"type": "integer", "minimum": 1, "maximum": OCANNL_MAX_ALIGNMENT},
        tensors=_list(_table(OCANNL_TENSOR, data=_HEX)),
        training=_or_null(training),
    )


def _safetensors() -> Schema:
    name = {"type": "string", "not": {"const": SAFETENSORS_METADATA}}
    return _object(
        {
            "format": {"const": "safetensors"},
            "metadata": _or_null({"type": "object", "additionalProperties": {"type": "string"}}),
            "tensors": _list(_table(SAFETENSORS_ENTRY, name=name, data=_HEX)),
        }
    )


def document_schema() -> Schema:
    """Return the JSON Schema of the neutral document. What only a reader of the whole can check is not in it."""
    raw = _object({"bytes": {"type": "string", "pattern": "^([0-9a-f]{2})+$"}})
    return {
        "$schema": _DIALECT,
        "title": "The neutral document of a training checkpoint",
        "oneOf": [_oam(), _ocannl(), _safetensors()],
        "$defs": {
            "hex": {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
            "f32": {"type": "string", "pattern": "^0x[0-9a-f]{8}$"},
            "u64": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,19})$"},
            "i64": {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})$"},
            "u62": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$"},
            "i63": {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})$"},
            # Of all NaNs, only the two quiet ones without a payload have a spelling.
            "neutral": {"type": "string", "pattern": "^0x(?![7f]ff(?![08]0{12}$))[0-9a-f]{16}$"},
            # Bytes stand for what is not UTF-8.
            "text": {"anyOf": [{"type": "string"}, raw]},
            "namespace": {"anyOf": [{"type": "string", "minLength": 1}, raw]},
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


# --------------------------------------------------------------------------------- the description of the formats

_PROSE: Final[Schema] = {"type": "string", "minLength": 1}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_NAMES: Final[Schema] = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}
_VERSIONS: Final[Schema] = {"type": "array", "items": {"type": "integer", "minimum": 1}}
_RULE: Final[Schema] = {"type": "string", "pattern": "^[A-Z]+-[A-Z]{3,4}-[A-Z0-9]+$"}
_BYTES: Final[Schema] = {"type": "string", "pattern": "^([0-9a-f]{2})+$"}


def _named(items: Schema) -> Schema:
    return {"type": "object", "propertyNames": _NAMES, "additionalProperties": items}


def _description_fields() -> Schema:
    integer: Schema = {"type": "integer"}
    return _object(
        {
            "name": _NAMES,
            "offset": _COUNT,
            "size": {"type": "integer", "minimum": 1},
            "type": {"enum": ["u8", "i8", "u32", "i32", "u64", "i64", "f32", "char", "byte"]},
            "byte_order": {"enum": ["little", "big"]},
            "role": {"enum": ["int", "f32", "text", "reserved", "flags", "dtype", "bool", "bytes"]},
            "doc": _PROSE,
        },
        {
            "count": {"type": "integer", "minimum": 1},
            "default": {"anyOf": [integer, {"type": "string", "pattern": "^([0-9a-f]{2})*$"}, _list(integer)]},
            "least": integer,
            "most": integer,
            "enum": _NAMES,
            "fixed": _BYTES,
        },
    )


def _description_records() -> Schema:
    record = {"doc": _PROSE, "versions": _VERSIONS, "size": _COUNT, "fields": _list(_description_fields(), minItems=1)}
    return _named(_object(record))


def _description_common(kind: str, layout: Schema) -> Schema:
    constant = _object({"name": _PROSE, "value": {"type": "string", "pattern": "^[0-9]+$"}, "doc": _PROSE})
    return {
        "title": _PROSE,
        "versions": _VERSIONS,
        "kind": {"const": kind},
        "constants": _list(constant),
        "records": _description_records(),
        "layout": _list(layout),
    }


def _description_sections() -> Schema:
    part = _object(
        {"name": _NAMES, "item": _NAMES, "doc": _PROSE},
        {"count": _NAMES, "only": _object({"field": _NAMES, "values": _list(_PROSE, minItems=1)})},
    )
    section = {"name": _NAMES, "code": _COUNT, "doc": _PROSE, "required": {"type": "boolean"}}
    member = {"name": _NAMES, "code": _COUNT, "doc": _PROSE, "versions": _VERSIONS}
    place = {"name": _NAMES, "doc": _PROSE, "offset": _NAMES, "size": _NAMES, "within": _NAMES}
    encoding = dict.fromkeys(("elements", "code_bytes", "block_bytes", "limit", "bias"), _COUNT)
    return _object(
        {
            **_description_common("sections", _object({"record": _NAMES, "count": _PROSE})),
            "newest": {"type": "integer", "minimum": 1},
            "magic": _BYTES,
            "enums": _named(_list(_object(member), minItems=1)),
            "places": _named(_object(place)),
            "sections": _list(_object({**section, "record": _or_null(_NAMES), "parts": _list(part)})),
            "optimizers": _list(_object({"kind": _PROSE, "moments": _COUNT})),
            "block_encodings": _list(_object({"name": _NAMES, "scale": _NAMES, "doc": _PROSE, **encoding})),
            "header_checksum": _list(_object({"versions": _VERSIONS, "rule": _RULE})),
        }
    )


def _description_framed() -> Schema:
    key = _object(
        {"name": _NAMES, "kind": {"enum": list(VALUE_KINDS)}, "doc": _PROSE, "optional": {"type": "boolean"}},
        {"least": {"type": "integer"}, "since": {"type": "integer", "minimum": 1}},
    )
    stretch = _object({"name": _NAMES, "size": _PROSE, "doc": _PROSE}, {"syntax": _PROSE})
    layout = {"anyOf": [_object({"record": _NAMES, "count": _PROSE}), stretch]}
    return _object(
        {
            **_description_common("frame", layout),
            "utf8": {"type": "boolean"},
            "texts": _named(_object({"versions": _VERSIONS, "keys": _list(key, minItems=1)})),
            "value_kinds": _named(_PROSE),
        }
    )


def _description_dtypes() -> Schema:
    names = _object(
        {},
        {
            "oam": _object({"name": _NAMES, "code": _COUNT}),
            "ocannl": _object({"name": _NAMES, "header": _PROSE}),
            "safetensors": _object({"name": _PROSE, "order": _COUNT}),
        },
    )
    return _list(_object({"name": _NAMES, "bits": _COUNT, "lanes": _COUNT, "doc": _PROSE, "formats": names}))


def description_schema() -> Schema:
    """Return the JSON Schema of what ``ckptspec export json`` prints."""
    text: Schema = {"type": "string"}
    rule = _object(
        {
            "id": _RULE,
            "format": {"enum": ["any", *exports.FORMATS]},
            "kind": {"enum": [REJECT, CANONICAL, NOTE]},
            "clause": _PROSE,
            "versions": _VERSIONS,
            "sentence": _PROSE,
            "reason": text,
            "upstream": text,
            "implies": _list(_RULE),
        }
    )
    described = {"oam": _description_sections(), "ocannl": _description_framed(), "safetensors": _description_framed()}
    properties = {
        "format": {"const": DESCRIPTION_FORMAT},
        "version": {"const": DESCRIPTION_VERSION},
        "formats": {**_object({}, described), "minProperties": 1},
        "dtypes": _description_dtypes(),
        "rules": _list(rule),
        "implementations": {"type": "object", "additionalProperties": _PROSE},
    }
    return {"$schema": _DIALECT, "title": "The description of the formats", **_object(properties)}
