"""Tables of the neutral document: every key with its type and its source, from the JSON Schema and the schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from ckptspec.conformance.json_schemas import document_schema
from ckptspec.formats import FORMATS
from ckptspec.spec import schema
from ckptspec.spec.layout import fields

from .markdown import code, grouped, table

__all__ = ["document_keys", "document_types", "keys_of"]

Schema = dict[str, Any]

# Where the values of an object come from: the path of the object, and the record of the schema.
_RECORDS: Final = {
    ("oam", "config"): "OamConfig",
    ("oam", "weights[]"): "OamTensor",
    ("oam", "state[]"): "OamTensor",
    ("oam", "optimizer"): "OamOptimizer",
    ("oam", "progress"): "OamProgress",
    ("oam", ""): "OamHeader",
    ("ocannl", ""): "OCANNL_HEADER",
    ("ocannl", "tensors[]"): "OCANNL_TENSOR",
    ("ocannl", "training"): "OCANNL_TRAINING",
    ("safetensors", "tensors[]"): "SAFETENSORS_ENTRY",
}
_SPELLED: Final = {"precision": "prec"}  # keys that the header spells otherwise
# Values that are no field of a record, and where they come from.
_SOURCES: Final = {
    "format": "what the file begins as",
    "data": "the payload's bytes, as they are stored",
    "arch_config": "the bytes after the config record",
    "first_moment": "the moment's bytes, as they are stored",
    "second_moment": "the moment's bytes, as they are stored; empty for a kind with one moment",
    "config": "the config section",
    "weights": "the weights section; empty without one",
    "state": "the state section; empty without one",
    "optimizer": "the optimizer section; null without one",
    "progress": "the progress section",
    "name": "the entry's key in the header",
    "metadata": f"the object under {schema.SAFETENSORS_METADATA} in the header; null without one",
    "tensors": "the entries of the header",
    "axes": "of each axis, the elements to its left and right that are not stored",
    "neutral": "the value of these elements, a binary64",
}
_TYPES: Final = {
    "hex": "bytes in lower-case hexadecimal, two digits each",
    "f32": "the 32 bits of a float: `0x` and 8 hexadecimal digits",
    "u64": "an integer of 64 bits without a sign, in decimal, as a string",
    "i64": "an integer of 64 bits with a sign, in decimal, as a string",
    "u62": f"an integer of 0 to {grouped(schema.OCANNL_INT_MAX)}, in decimal, as a string",
    "i63": "an integer of 63 bits with a sign, in decimal, as a string",
    "neutral": "the 64 bits of a float: `0x` and 16 hexadecimal digits; a NaN has no payload",
    "text": 'text, or `{"bytes": HEX}` for bytes that are not UTF-8',
    "namespace": "like *text*, but not empty",
}


@cache
def _document() -> Schema:
    return document_schema()


def _root(format: str) -> Schema:
    return next(item for item in _document()["oneOf"] if item["properties"]["format"]["const"] == format)


def _without_null(item: Schema) -> tuple[Schema, bool]:
    """Return a schema, and whether null was allowed besides."""
    options = item.get("anyOf", ())
    if {"type": "null"} in options:
        (rest,) = [option for option in options if option != {"type": "null"}]
        return {**rest, **{key: value for key, value in item.items() if key != "anyOf"}}, True
    return item, False


def keys_of(format: str) -> Iterator[tuple[str, str, Schema]]:
    """Yield path of the object, key and schema of every key of a format's document, from the outermost object on."""
    queue = [("", _root(format))]
    while queue:
        path, item = queue.pop(0)
        for key, value in item["properties"].items():
            yield path, key, value
            inner, _ = _without_null(value)
            below = f"{path}.{key}" if path else key
            if "properties" in inner:
                queue.append((below, inner))
            elif "properties" in inner.get("items", {}) if isinstance(inner.get("items"), dict) else False:
                queue.append((f"{below}[]", inner["items"]))


def _type(item: Schema) -> str:
    """Return a schema in words."""
    item, nullable = _without_null(item)
    words = _plain_type(item)
    return f"{words}, or null" if nullable else words


def _plain_type(item: Schema) -> str:
    if "$ref" in item:
        return f"*{item['$ref'].rpartition('/')[2]}*"
    if "const" in item:
        return code(f'"{item["const"]}"' if isinstance(item["const"], str) else str(item["const"]))
    if "enum" in item:
        return "one of " + ", ".join(code(f'"{one}"' if isinstance(one, str) else str(one)) for one in item["enum"])
    match item["type"]:
        case "array" if "prefixItems" in item:
            return "pair of " + " and ".join(map(_type, item["prefixItems"]))
        case "array":
            inner = item["items"]
            most = f", at most {item['maxItems']}" if "maxItems" in item else ""
            least = ", not empty" if item.get("minItems") else ""
            return f"array of {'objects' if 'properties' in inner else _type(inner)}{most}{least}"
        case "object":
            return "object" if "properties" in item else "object of strings"
        case "integer":
            return f"integer, {grouped(item['minimum'])} to {grouped(item['maximum'])}"
        case "string":
            bounds = [
                f"{name} {item[key]}" for key, name in (("minLength", "least"), ("maxLength", "most")) if key in item
            ]
            nul = ", no NUL" if "u0000" in item.get("pattern", "") else ""
            size = f" ({', '.join(f'at {bound}' for bound in bounds)} bytes)" if bounds else ""
            return f"string{size}{nul}"
        case kind:
            return str(kind)


def _source(format: str, path: str, key: str) -> str:
    name = _RECORDS.get((format, path))
    if name:
        record, spelled = getattr(schema, name), _SPELLED.get(key, key)
        items = record if isinstance(record, tuple) else fields(record)
        for item in items:
            if item.name == spelled:
                offset = f" at {item.offset}" if not isinstance(record, tuple) else ""
                return f"{code(f'{name}.{spelled}')}{offset}: {item.doc}"
    return _SOURCES[key]


def document_keys(format: str) -> str:
    """Return the keys of a format's document: where, type, source."""
    rows = [
        [code(f"{path}.{key}" if path else key), _type(item), _source(format, path, key)]
        for path, key, item in keys_of(format)
    ]
    return table(("key", "value", "from"), rows)


def document_types() -> str:
    """Return the types that documents of several formats share."""
    rows = [
        [f"*{name}*", _TYPES[name], code(item["pattern"]) if "pattern" in item else ""]
        for name, item in _document()["$defs"].items()
    ]
    return table(("type", "meaning", "as a regular expression"), rows)


def document_formats() -> str:
    """Return the formats that documents name."""
    rows = [[code(name), title, f"[{name}](#{name}-documents)"] for name, title in FORMATS.items()]
    return table(("`format`", "files", "its keys"), rows)
