"""The whole specification as one JSON document, for programs: records, texts, dtypes, numbers, rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from construct import Struct

from .. import schema
from ..declarations import Content, Frame, Key, Part
from ..dtypes import OAM_BY_CODE, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, SAFETENSORS_ORDER, SCALARS, ScalarType
from ..layout import Field, fields, record_size
from ..rules import RULES, UPSTREAM, Rule
from ..schema import (
    FRAMES,
    OAM_BLOCK_ENCODINGS,
    OAM_CONTENTS,
    OAM_MAGIC,
    OAM_MANIFEST_VERSION,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_PLACES,
    OAM_RECORDS,
    OAM_REQUIRED,
    OAM_SCALE_DTYPE,
    OAM_VERSIONS,
    OCANNL_PRECISION_SUFFIX,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    VALUE_KINDS,
)
from .common import RECORD_DOCS, TITLES, Constant, constants, enums

__all__ = ["DESCRIPTION_FORMAT", "DESCRIPTION_VERSION", "describe", "description"]

DESCRIPTION_FORMAT: Final = "ckptspec-schema"
DESCRIPTION_VERSION: Final = 1

Node = dict[str, Any]


def description(formats: Sequence[str]) -> str:
    """Return the description of some formats as text."""
    return json.dumps(describe(formats), indent=1, ensure_ascii=True) + "\n"


def describe(formats: Sequence[str]) -> Node:
    """Return the description of some formats as JSON types."""
    made = {name: _oam() if name == "oam" else _framed(name, FRAMES[name]) for name in formats}
    return {
        "format": DESCRIPTION_FORMAT,
        "version": DESCRIPTION_VERSION,
        "formats": made,
        "dtypes": [_scalar(scalar) for scalar in _scalars(formats)],
        "rules": [_rule(rule) for rule in RULES.values() if rule.format in ("any", *formats)],
        "implementations": dict(UPSTREAM),
    }


# ------------------------------------------------------------------------------------------------------------- records


def _record(record: Struct) -> Node:
    return {"size": record_size(record), "fields": [_field(item) for item in fields(record)]}


def _field(item: Field) -> Node:
    """Return a field. What does not apply to it is left out."""
    made: Node = {
        "name": item.name,
        "offset": item.offset,
        "size": item.size,
        "type": item.type.removesuffix(" big-endian"),
        "byte_order": "big" if item.big_endian else "little",
        "count": item.count,
        "role": item.role,
        "doc": item.doc,
        "default": item.default.hex() if isinstance(item.default, bytes) else item.default,
        "least": item.least,
        "most": item.most,
        "enum": item.enum or None,
        "fixed": None if item.fixed is None else item.fixed.hex(),
    }
    return {name: value for name, value in made.items() if value is not None}


def _part(part: Part) -> Node:
    made: Node = {"name": part.name, "item": part.item, "doc": part.doc}
    if part.count:
        made["count"] = part.count
    if part.only:
        field, values = part.only
        made["only"] = {"field": field, "values": list(values)}
    return made


def _section(name: str, content: Content) -> Node:
    return {
        "name": name,
        "code": schema.OAM_SECTIONS[name],
        "doc": content.doc,
        "required": name in OAM_REQUIRED,
        "record": content.record or None,
        "parts": [_part(part) for part in content.parts],
    }


def _constants(found: Iterable[Constant]) -> list[Node]:
    # Numbers may be larger than what a JSON parser holds exactly.
    return [{"name": item.name, "value": str(item.value), "doc": item.doc} for item in found]


# -------------------------------------------------------------------------------------------------------------- .oam


def _oam() -> Node:
    return {
        "title": TITLES["oam"],
        "versions": list(OAM_VERSIONS),
        "newest": OAM_NEWEST,
        "kind": "sections",
        "magic": OAM_MAGIC.hex(),
        "constants": _constants(constants("oam")),
        "enums": {
            name: [
                {"name": item.name, "code": item.code, "doc": item.doc, "versions": _since(item.since)}
                for item in members
            ]
            for name, members in enums().items()
        },
        "records": {
            name: {"doc": RECORD_DOCS[name], "versions": list(OAM_VERSIONS), **_record(record)}
            for name, record in OAM_RECORDS.items()
        },
        "layout": [
            {"record": "header", "count": "1"},
            {"record": "section", "count": "header.section_count"},
        ],
        "places": {
            name: {
                "name": place.name,
                "doc": place.doc,
                "offset": place.offset,
                "size": place.size,
                "within": place.within or "file",
            }
            for name, place in OAM_PLACES.items()
        },
        "sections": [_section(name, content) for name, content in OAM_CONTENTS.items()],
        "optimizers": [{"kind": kind, "moments": moments} for kind, moments in OAM_OPTIMIZERS.items()],
        "block_encodings": [
            {
                "name": name,
                "elements": schema.OAM_QUANT_BLOCK,
                "code_bytes": encoding.code_bytes,
                "block_bytes": encoding.block_bytes,
                "scale": OAM_SCALE_DTYPE,
                "limit": encoding.limit,
                "bias": encoding.bias,
                "doc": encoding.doc,
            }
            for name, encoding in OAM_BLOCK_ENCODINGS.items()
        ],
        "header_checksum": [
            {"versions": _since(OAM_MANIFEST_VERSION), "rule": "OAM-HDR-CHECKSUM"},
            {"versions": [item for item in OAM_VERSIONS if item < OAM_MANIFEST_VERSION], "rule": "OAM-HDR-XOR"},
        ],
    }


def _since(version: int) -> list[int]:
    return [item for item in OAM_VERSIONS if item >= version]


# ----------------------------------------------------------------------------------------------- formats with a frame


def _framed(format: str, frame: Frame) -> Node:
    versions = [OCANNL_VERSION] if format == "ocannl" else []
    return {
        "title": TITLES[format],
        "versions": versions,
        "kind": "frame",
        "constants": _constants(constants(format)),
        "records": {"frame": {"doc": RECORD_DOCS["frame"], "versions": versions, **_record(frame.record)}},
        "layout": [
            {"record": "frame", "count": "1"},
            {"name": "header", "size": f"frame.{frame.length}", "syntax": frame.syntax, "doc": frame.header},
            {"name": frame.data, "size": "the rest", "doc": frame.data_doc},
        ],
        "utf8": frame.utf8,
        "texts": {name: _text(format, name, keys) for name, keys in frame.records.items()},
        "value_kinds": {
            kind: VALUE_KINDS[kind] for kind in sorted({key.kind for keys in frame.records.values() for key in keys})
        },
    }


def _text(format: str, name: str, keys: Sequence[Key]) -> Node:
    versions = list(OCANNL_TRAINING_VERSIONS) if (format, name) == ("ocannl", "training") else []
    return {"versions": versions, "keys": [_key(key) for key in keys]}


def _key(key: Key) -> Node:
    made: Node = {"name": key.name, "kind": key.kind, "doc": key.doc, "optional": key.optional}
    if key.least is not None:
        made["least"] = key.least
    if key.since is not None:
        made["since"] = key.since
    return made


# ------------------------------------------------------------------------------------------------------ dtypes, rules


def _scalars(formats: Sequence[str]) -> list[ScalarType]:
    named = {
        "oam": OAM_BY_CODE.values(),
        "ocannl": OCANNL_PRECISIONS.values(),
        "safetensors": SAFETENSORS_DTYPES.values(),
    }
    wanted = {scalar.name for name in formats for scalar in named[name]}
    return [scalar for scalar in SCALARS if scalar.name in wanted]


def _scalar(scalar: ScalarType) -> Node:
    names: Node = {}
    if scalar.oam_code is not None:
        names["oam"] = {"name": scalar.name, "code": scalar.oam_code}
    if scalar.ocannl is not None:
        header = scalar.ocannl.capitalize() + OCANNL_PRECISION_SUFFIX
        names["ocannl"] = {"name": scalar.ocannl, "header": header}
    if scalar.safetensors is not None:
        names["safetensors"] = {"name": scalar.safetensors, "order": SAFETENSORS_ORDER[scalar.safetensors]}
    return {"name": scalar.name, "bits": scalar.bits, "lanes": scalar.lanes, "doc": scalar.doc, "formats": names}


def _rule(rule: Rule) -> Node:
    return {
        "id": rule.id,
        "format": rule.format,
        "kind": rule.kind,
        "clause": rule.clause,
        "versions": list(rule.versions),
        "sentence": rule.sentence,
        "reason": rule.reason,
        "upstream": rule.upstream,
        "implies": list(rule.implies),
    }
