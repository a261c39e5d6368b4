"""The specification's own consistency: schema, derived layout, rules, dtypes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptspec.spec.dtypes import OAM_BY_CODE, SCALARS, numpy_type, oam_dtype_of
from ckptspec.spec.layout import fields, numpy_dtype, record_size
from ckptspec.spec.rules import RULES, rules_of
from ckptspec.spec.schema import OAM_RECORDS, OAM_VERSIONS

# Sizes and some offsets as the format's description has them: the schema gives only an order.
SIZES = {"header": 64, "section": 64, "config": 108, "index": 8, "tensor": 216, "optimizer": 68, "progress": 104}
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
    assert {name: record_size(record) for name, record in OAM_RECORDS.items()} == SIZES
    for (name, key), offset in OFFSETS.items():
        assert {item.name: item.offset for item in fields(OAM_RECORDS[name])}[key] == offset


@pytest.mark.parametrize("name", OAM_RECORDS)
def test_every_field_has_a_sentence_and_a_unique_name(name: str) -> None:
    items = fields(OAM_RECORDS[name])
    assert len({item.name for item in items}) == len(items)
    assert all(item.doc.endswith(".") for item in items)
    assert sum(item.size for item in items) == OAM_RECORDS[name].sizeof()


@pytest.mark.parametrize("name", OAM_RECORDS)
@given(data=st.data())
def test_struct_and_derived_dtype_read_the_same(name: str, data: st.DataObject) -> None:
    record = OAM_RECORDS[name]
    raw = data.draw(st.binary(min_size=record_size(record), max_size=record_size(record)))
    parsed: Any = record.parse(raw)
    (row,) = np.frombuffer(raw, numpy_dtype(record))
    for item in fields(record):
        by_numpy = row[item.name]
        if item.type in ("char", "byte"):
            assert by_numpy.tobytes() == parsed[item.name]
        elif item.count:
            assert by_numpy.tolist() == list(parsed[item.name])
        else:
            assert int(by_numpy) == parsed[item.name]
        assert raw[item.offset : item.offset + item.size] == by_numpy.tobytes()
    assert record.build(parsed) == raw


def test_rule_ids() -> None:
    for rule in RULES.values():
        assert re.fullmatch(r"(OAM|ANY)-[A-Z]{3,4}-[A-Z0-9]+", rule.id), rule.id
        assert rule.kind in ("reject", "canonical", "note")
        assert rule.sentence.endswith(".")
        assert ("SHOULD" if rule.kind == "note" else "MUST") in rule.sentence, rule.id
        assert set(rule.implies) <= set(RULES)
        assert set(rule.versions) <= set(OAM_VERSIONS)
        assert bool(rule.versions) == (rule.format == "oam")


def test_rules_of_selects() -> None:
    assert {rule.kind for rule in rules_of("oam", "note")} == {"note"}
    assert len(rules_of()) == len(RULES)
    assert [rule.id for rule in rules_of("any")] == ["ANY-FILE-FORMAT"]


def test_dtypes() -> None:
    assert sorted(OAM_BY_CODE) == list(range(15))
    for scalar in SCALARS:
        dtype = numpy_type(scalar)
        assert dtype.itemsize == scalar.size
        assert oam_dtype_of(dtype) is scalar
        if dtype.kind in "fiuc" and scalar.size > 1:
            assert oam_dtype_of(dtype.newbyteorder(">")) is scalar
    for foreign in ("S4", "M8[s]", "O", "V2", np.dtype([("a", "f4")])):
        assert oam_dtype_of(np.dtype(foreign)) is None
