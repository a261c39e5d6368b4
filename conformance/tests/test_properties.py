"""Properties of reader, writer and validator that must hold for any model, any document and any damage."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptspec import CheckpointError, FormatError, Report, decode, encode, loads, neutral, oam, validate
from ckptspec.arrays import byte_blocks
from ckptspec.conformance import strategies
from ckptspec.conformance.cases.assemble import T, assemble, config, progress, tensors
from ckptspec.conformance.catalogue import Case, load_suite
from ckptspec.conformance.strategies_oam import covered_bytes, edited_oam_files, image_of
from ckptspec.examination import Examination
from ckptspec.oam import _tensors
from ckptspec.oam._examine import examine
from ckptspec.source import BufferSource
from ckptspec.spec.layout import fields, record_size
from ckptspec.spec.schema import OAM_NEWEST, OamHeader, OamTensor

FILES = [case for case in load_suite().cases if case.kind == "file" and case.format == "oam"]
VALID = [case for case in FILES if case.verdict == "valid"]
SLOW = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


# --------------------------------------------------------------------------------------------------------- round trips


def _bytes(value: Any) -> bytes:
    return b"".join(byte_blocks(np.asarray(value)))


@SLOW
@given(strategies.models("oam"))
def test_any_model_round_trips_bit_exactly(model: oam.Model) -> None:
    data = oam.dumps(model)
    again = oam.loads(data)
    assert again.config == model.config
    for before, after in ((model.weights, again.weights), (model.state, again.state)):
        assert list(before) == list(after)
        for name in before:
            assert after[name].shape == before[name].shape
            assert after[name].dtype == before[name].dtype.newbyteorder("<")
            assert _bytes(after[name]) == _bytes(before[name])
    assert oam.dumps(again) == data
    assert validate(data).canonical


@SLOW
@given(strategies.oam_documents())
def test_document_round_trips(document: dict[str, Any]) -> None:
    text = neutral.dump_json(document)
    assert neutral.parse_json(text) == document
    data = encode(document)
    assert decode(data) == document
    assert validate(data).canonical == (document["version"] == OAM_NEWEST)


@SLOW
@given(strategies.oam_documents(version=OAM_NEWEST))
def test_writer_agrees_with_an_independent_layout(document: dict[str, Any]) -> None:
    """The assembler of the case definitions lays files out by itself."""

    assert encode(document) == image_of(document).bytes()


# -------------------------------------------------------------------------------------------------------------- damage


def _refused(data: bytes) -> FormatError | None:
    try:
        oam.loads(data)
    except FormatError as error:
        return error
    return None


MODERN = [case for case in VALID if case.versions and case.versions[0] >= 2]


@pytest.mark.parametrize("case_id", ["oam/golden_minimal", "oam/golden_all_sections", "oam/v2_all_sections"])
def test_every_byte_flip_outside_padding_is_refused(case_id: str) -> None:
    data = bytearray(load_suite().case(case_id).read())
    for at in covered_bytes(bytes(data)):
        for mask in (0x01, 0x80, 0xFF):
            data[at] ^= mask
            assert _refused(bytes(data)) is not None, f"byte {at} ^ {mask:#x}"
            data[at] ^= mask


@SLOW
@given(st.sampled_from(MODERN), st.data())
def test_any_byte_flip_outside_padding_is_refused(case: Case, data: st.DataObject) -> None:
    raw = bytearray(case.read())
    places = covered_bytes(bytes(raw))
    raw[places[data.draw(st.integers(0, len(places) - 1))]] ^= data.draw(st.integers(1, 255))
    error = _refused(bytes(raw))
    assert error is not None
    assert validate(bytes(raw), format="oam").first == error.finding


@SLOW
@given(st.sampled_from(VALID), st.data())
def test_every_truncation_is_refused(case: Case, data: st.DataObject) -> None:
    raw = case.read()
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    assert _refused(cut) is not None
    assert not validate(cut).ok


@pytest.mark.parametrize("case_id", ["oam/golden_minimal", "oam/v1_all_sections"])
def test_all_truncations_are_refused(case_id: str) -> None:
    raw = load_suite().case(case_id).read()
    for size in [*range(600), *range(4000, 4400), *range(len(raw) - 300, len(raw))]:
        assert size >= len(raw) or _refused(raw[:size]) is not None, size


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"OAM\0" + tail))
def test_arbitrary_bytes(data: bytes) -> None:
    for read in (loads, oam.loads, decode, functools.partial(oam.loads, verify=False)):
        with contextlib.suppress(CheckpointError):
            read(data)
    assert not validate(data).ok or len(data) >= 64
    validate(data, format="oam")


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited_oam_files())
def test_arbitrary_edits_with_good_checksums(data: bytes) -> None:
    report = validate(data, format="oam")
    error = _refused(data)
    assert (error is None) == report.ok
    if error is not None:
        assert report.first == error.finding
        assert str(report.first)
    else:
        document = decode(data)
        newest = encode(document | {"version": OAM_NEWEST})
        assert (newest == data) == report.canonical, report
        assert decode(newest) == document | {"version": OAM_NEWEST}
    source = BufferSource(data)
    list(oam.regions(source))
    oam.inspect(source)
    try:
        model, _survivors, _ = oam.salvage(source)
    except FormatError:
        return
    assert validate(oam.dumps(model)).canonical


@SLOW
@given(edited_oam_files())
def test_regions_cover_a_good_file_exactly(data: bytes) -> None:
    if not validate(data, format="oam").ok:
        return
    at = 0
    for region in oam.regions(BufferSource(data)):
        assert region.offset == at, region
        at += region.size
    assert at == len(data)


# ----------------------------------------------------------------------------------------------- the shortcut by numpy


@st.composite
def _index(draw: Any) -> bytes:
    """A weights section whose entries have extreme and plain values side by side."""
    count = draw(st.integers(1, 5))
    raw = bytearray(tensors([T(f"t{row}", "u8", (4,), bytes(4)) for row in range(count)]))
    extreme = [0, 1, 4, 32, 1 << 31, 1 << 32, 1 << 52, 1 << 53, 1 << 62, 1 << 63, (1 << 64) - 1]
    for row in range(count):
        base = 8 + row * record_size(OamTensor)
        for item in fields(OamTensor):
            if item.name == "name" or not draw(st.booleans()):
                continue
            at = base + item.offset + 8 * draw(st.integers(0, 7)) * (item.count == 8)
            width = 8 if item.count == 8 else item.size
            value = draw(st.sampled_from(extreme) | st.integers(0, 16))
            raw[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(raw)


@settings(max_examples=600, deadline=None)
@given(_index(), st.sampled_from([1, 2, 3]))
def test_the_look_through_misses_no_row(section: bytes, version: int) -> None:
    data = assemble([("config", config()), ("weights", section), ("progress", progress())], version=version).bytes()

    def findings(everything: bool) -> Report:
        report = Report()
        if not everything:
            examine(Examination(BufferSource(data), report))
            return report
        with pytest.MonkeyPatch.context() as patch:
            checker = _tensors._Checker
            patch.setattr(checker, "_suspect_entries", lambda self, entries: np.ones(len(entries), np.bool_))
            patch.setattr(checker, "_suspect_payloads", lambda self: np.ones(len(self.index.entries), np.bool_))
            examine(Examination(BufferSource(data), report))
        return report

    assert findings(True).findings == findings(False).findings


def test_header_is_the_schemas() -> None:
    assert covered_bytes(load_suite().case("oam/golden_minimal").read())[: record_size(OamHeader)] == list(range(64))


# ---------------------------------------------------------------------------------------------------- hostile documents


def _json() -> st.SearchStrategy[Any]:
    leaves: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    odd = st.sampled_from([10**300, "\ud800", [[]] * 3, {1: 2}, float("nan"), "9" * 400, [[[[[[[[]]]]]]]]])
    return st.recursive(leaves | odd, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.oam_documents(), st.data())
def test_nothing_but_argument_errors_for_spoiled_documents(document: dict[str, Any], data: st.DataObject) -> None:
    """Any part of a good document is replaced by anything, or lost."""
    strategies.spoil(document, data, _json())
    with contextlib.suppress(CheckpointError):
        assert validate(encode(document)).ok


def test_deep_and_huge_documents() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, 10**5000, {10**5000: 1}):
        documents: list[Any] = [{"format": "oam", "version": value}, {"format": value}, value]
        for document in documents:
            with pytest.raises(CheckpointError):
                encode(document)
