"""The specification's own consistency: schema, derived layout, rules, dtypes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptspec.spec.dtypes import (
    OAM_BY_CODE,
    OCANNL_PRECISIONS,
    SAFETENSORS_DTYPES,
    SAFETENSORS_ORDER,
    SCALARS,
    numpy_type,
    oam_dtype_of,
    safetensors_dtype_of,
)
from ckptspec.spec.layout import fields, numpy_dtype, record_size
from ckptspec.spec.rules import RULES, rules_of
from ckptspec.spec.schema import (
    OAM_RECORDS,
    OAM_VERSIONS,
    OCANNL_RECORDS,
    OCANNL_VERSION,
    SAFETENSORS_ENTRY,
    VALUE_KINDS,
    OcannlFrame,
    SafetensorsFrame,
)

RECORDS = {**OAM_RECORDS, "frame": OcannlFrame, "length": SafetensorsFrame}
VERSIONS: dict[str, tuple[int, ...]] = {
    "any": (),
    "oam": OAM_VERSIONS,
    "ocannl": (OCANNL_VERSION,),
    "safetensors": (),
}

# Sizes and some offsets as the format's description has them: the schema gives only an order.
SIZES = {
    "header": 64,
    "section": 64,
    "config": 108,
    "index": 8,
    "tensor": 216,
    "optimizer": 68,
    "progress": 104,
    "frame": 4,
    "length": 8,
}
OFFSETS = {
    ("header", "checksum"): 24,
    ("section", "offset"): 12,
    ("section", "checksum"): 36,
    ("config", "weight_dtype"): 56,
    ("tensor", "blob_offset"): 128,
    ("tensor", "shape"): 152,
    ("optimizer", "moment_count"): 44,
    ("progress", "metric_name"): 40,
}


def test_record_sizes_and_offsets() -> None:
    assert {name: record_size(record) for name, record in RECORDS.items()} == SIZES
    for (name, key), offset in OFFSETS.items():
        assert {item.name: item.offset for item in fields(RECORDS[name])}[key] == offset


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_has_a_sentence_and_a_unique_name(name: str) -> None:
    items = fields(RECORDS[name])
    assert len({item.name for item in items}) == len(items)
    assert all(item.doc.endswith(".") for item in items)
    assert sum(item.size for item in items) == RECORDS[name].sizeof()


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
def test_struct_and_derived_dtype_read_the_same(name: str, data: st.DataObject) -> None:
    record = RECORDS[name]
    raw = data.draw(st.binary(min_size=record_size(record), max_size=record_size(record)))
    parsed: Any = record.parse(raw)
    table = np.frombuffer(raw, numpy_dtype(record))
    for item in fields(record):
        by_numpy = table[item.name][0]
        if item.type in ("char", "byte"):
            assert by_numpy.tobytes() == parsed[item.name]
        elif item.count:
            assert by_numpy.tolist() == list(parsed[item.name])
        else:
            assert int(by_numpy) == parsed[item.name]
        assert raw[item.offset : item.offset + item.size] == table[item.name].tobytes()
    assert record.build(parsed) == raw


def test_rule_ids() -> None:
    for rule in RULES.values():
        assert re.fullmatch(r"(OAM|OCANNL|SAFETENSORS|ANY)-[A-Z]{3,4}-[A-Z0-9]+", rule.id), rule.id
        assert rule.kind in ("reject", "canonical", "note")
        assert rule.sentence.endswith(".")
        assert ("SHOULD" if rule.kind == "note" else "MUST") in rule.sentence, rule.id
        assert set(rule.implies) <= set(RULES)
        assert set(rule.versions) <= set(VERSIONS[rule.format])
        assert bool(rule.versions) == bool(VERSIONS[rule.format])


def test_byte_order_of_header_lengths() -> None:
    assert SafetensorsFrame.build({"header_length": 1 << 63}) == bytes(7) + b"\x80"
    assert [item.type for item in fields(SafetensorsFrame)] == ["u64"]
    assert OcannlFrame.build({"header_length": -2}) == b"\xff\xff\xff\xfe"
    assert [item.type for item in fields(OcannlFrame)] == ["i32 big-endian"]


# The pairs of each record, in their order, as the format's description has them.
PAIRS = {
    "header": "version alignment tensors training",
    "tensor": "id namespace label prec dims padding offset byte_length",
    "training": "version step epoch position host_rng extra seeds state",
    "entry": "dtype shape data_offsets",
}
TABLES = {**OCANNL_RECORDS, "entry": SAFETENSORS_ENTRY}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_pairs(name: str) -> None:
    table = TABLES[name]
    assert [key.name for key in table] == PAIRS[name].split()
    for key in table:
        assert key.kind in VALUE_KINDS
        assert key.doc.endswith(".")
        assert key.least is None or key.kind in ("int", "ints", "padding", "extents", "range")
    assert {key.name for key in table if key.optional} == {
        "header": {"alignment", "training"},
        "tensor": set(),
        "training": {"seeds"},
        "entry": set(),
    }[name]
    assert {key.kind for record in TABLES.values() for key in record} == set(VALUE_KINDS)


@pytest.mark.parametrize("format", ["oam", "ocannl", "safetensors"])
def test_rules_of_selects(format: str) -> None:
    assert {rule.kind for rule in rules_of(format, "note")} == {"note"}
    assert {rule.format for rule in rules_of(format)} == {format}
    assert len(rules_of()) == len(RULES)
    assert [rule.id for rule in rules_of("any")] == ["ANY-FILE-FORMAT"]


def test_dtypes() -> None:
    assert sorted(OAM_BY_CODE) == list(range(15))
    assert len({scalar.name for scalar in SCALARS}) == len(SCALARS)
    for scalar in SCALARS:
        if scalar.safetensors and scalar.bits % 8:
            assert (scalar.size, scalar.numpy) == (0, "")
            continue
        dtype = numpy_type(scalar)
        assert dtype.itemsize * scalar.lanes == scalar.size
        if scalar.oam_code is None:
            assert scalar.lanes > 1 or oam_dtype_of(dtype) is None
            continue
        assert oam_dtype_of(dtype) is scalar
        if dtype.kind in "fiuc" and scalar.size > 1:
            assert oam_dtype_of(dtype.newbyteorder(">")) is scalar
    for foreign in ("S4", "M8[s]", "O", "V2", np.dtype([("a", "f4")])):
        assert oam_dtype_of(np.dtype(foreign)) is None


def test_precisions() -> None:
    sizes = {
        **dict.fromkeys(("byte", "fp8"), 1),
        **dict.fromkeys(("uint16", "half", "bfloat16"), 2),
        **dict.fromkeys(("int32", "uint32", "single"), 4),
        **dict.fromkeys(("int64", "uint64", "double"), 8),
        "uint4x32": 16,
        "void": 0,
    }
    assert {name: scalar.size for name, scalar in OCANNL_PRECISIONS.items()} == sizes
    assert {name: scalar.ocannl for name, scalar in OCANNL_PRECISIONS.items()} == {name: name for name in sizes}


def test_dtypes_of_safetensors() -> None:
    bits = {
        **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
        **dict.fromkeys(("F32", "U32", "I32"), 32),
        **dict.fromkeys(("BF16", "F16", "U16", "I16"), 16),
        **dict.fromkeys(("F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8"), 8),
        **dict.fromkeys(("F6_E3M2", "F6_E2M3"), 6),
        "F4": 4,
        "BOOL": 8,
    }
    assert list(SAFETENSORS_ORDER) == list(bits)
    assert {name: scalar.bits for name, scalar in SAFETENSORS_DTYPES.items()} == bits
    assert [SAFETENSORS_ORDER[name] for name in bits] == list(range(len(bits)))
    for name, scalar in SAFETENSORS_DTYPES.items():
        if scalar.bits % 8:
            continue
        dtype = numpy_type(scalar)
        assert dtype.itemsize * 8 == scalar.bits == scalar.size * 8
        assert safetensors_dtype_of(dtype) is scalar, name
        assert safetensors_dtype_of(dtype.newbyteorder(">")) is scalar
    for foreign in ("S4", "M8[s]", "O", "V2", "c16", np.dtype([("a", "f4")])):
        assert safetensors_dtype_of(np.dtype(foreign)) is None
