"""Files and answers that upstream implementations gave, where they are laid beside the project."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import ArgumentError, FormatError, QuantizedTensor, Report, decode, encode, oam, safetensors, validate
from ckptspec.conformance.catalogue import load_suite
from ckptspec.formats import module_of
from ckptspec.oam._tensors import ENCODING_NAMES
from ckptspec.quantization import quantize_array
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import OAM_BY_CODE
from ckptspec.spec.schema import OAM_NEWEST

CASES = Path(os.environ.get("CKPTSPEC_CASES", Path(__file__).resolve().parents[3] / "shared" / "cases"))
pytestmark = pytest.mark.skipif(not (CASES / "index.json").exists(), reason="the handed cases are not there")


def _read(name: str) -> Any:
    path = CASES / name
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _index(format: str, *verdicts: str) -> list[dict[str, Any]]:
    return [
        entry
        for entry in _read("index.json")
        if entry["file"].startswith(f"{format}/") and entry["verdict"] in (verdicts or (entry["verdict"],))
    ]


@pytest.mark.parametrize("entry", _index("oam"), ids=lambda entry: entry["file"])
def test_oam_file(entry: dict[str, Any]) -> None:
    data = (CASES / entry["file"]).read_bytes()
    report = validate(data, format="oam")
    if entry["verdict"] == "invalid":
        assert not report.ok
        with pytest.raises(FormatError):
            oam.loads(data)
        return
    if entry["verdict"] == "acceptable":
        if "not_utf8" in entry["file"] or "overlong" in entry["file"] or "surrogate" in entry["file"]:
            assert report.first is not None
            assert report.first.rule.endswith("-UTF8")
        else:
            assert report.ok  # a zero-size section at another's boundary
        return
    assert report.ok, report
    document = decode(data)
    assert document == _read(entry["file"].replace(".oam", ".json"))
    newest = encode(document | {"version": OAM_NEWEST})
    assert (newest == data) == report.canonical
    if "golden-" in entry["file"]:
        assert newest == data
        assert oam.dumps(oam.loads(data)) == data


@pytest.mark.parametrize("entry", _read("quantization.json"), ids=lambda entry: entry["name"])
def test_quantization(entry: dict[str, Any]) -> None:
    values = np.frombuffer(bytes.fromhex(entry["input_le_bytes_hex"]), "<f4")
    for encoding in ("q4", "q8"):
        made = quantize_array(values, encoding)
        assert len(made.scales) == entry["blocks"]
        stored = made.payload.tobytes() + made.scales.tobytes()
        assert stored.hex() == entry[f"{encoding}_hex"]
        again = QuantizedTensor.from_bytes(encoding, values.shape, stored)
        assert again.dequantize().shape == values.shape


@pytest.mark.parametrize("entry", _read("oam_refused_saves.json"), ids=lambda entry: entry["case"])
def test_refused_save(entry: dict[str, Any]) -> None:
    description = entry["description"]
    with pytest.raises(ArgumentError):
        oam.dumps(_model(description))


def _model(description: dict[str, Any]) -> oam.Model:
    """Return the model that a description in upstream's spelling asks for."""
    parts: dict[str, Any] = {}
    if "config" in description:
        parts["config"] = oam.Config(**description["config"])
    if "progress" in description:
        parts["progress"] = oam.Progress(**description["progress"])
    for section in ("weights", "state"):
        if section in description:
            parts[section] = [(item["name"], _tensor(item)) for item in description[section]]
    if "optimizer" in description:
        stated = description["optimizer"]
        moments: dict[str, Any] = {
            key: np.array(stated[f"{key}_bits"], np.uint32).view(np.float32)
            for key in ("first_moment", "second_moment")
        }
        parts["optimizer"] = oam.Optimizer(kind=stated["kind"], **moments)
    return oam.Model(**parts)


def _tensor(item: dict[str, Any]) -> oam.Tensor:
    if item["block_size"] != (32 if item["encoding"] else 0):
        raise ArgumentError("a block size follows from the encoding; there is no way to ask for another")
    return oam.Tensor(
        dtype=OAM_BY_CODE[item["dtype"]].name,
        shape=tuple(item["shape"]),
        encoding=ENCODING_NAMES[item["encoding"]],
        data=bytes.fromhex(item["data_hex"]),
    )


# ---------------------------------------------------------------------------------------------- OCANNL and safetensors


def _read_and_written(entry: dict[str, Any]) -> tuple[bytes, bytes, Report]:
    """Return a valid file, what a writer makes of its document, and the report on the file."""
    data = (CASES / entry["file"]).read_bytes()
    report = validate(data)
    assert report.ok, report
    document = decode(data)
    assert document == _read(entry["expected"])
    again = encode(document)
    assert validate(again).canonical
    assert decode(again) == document
    return data, again, report


@pytest.mark.parametrize(
    "entry", [*_index("ocannl", "invalid"), *_index("safetensors", "invalid")], ids=lambda entry: entry["file"]
)
def test_invalid_file_with_a_header_of_text(entry: dict[str, Any]) -> None:
    data = (CASES / entry["file"]).read_bytes()
    name = entry["file"].split("/")[0]
    report = validate(data, format=name)
    with pytest.raises(FormatError) as caught:
        module_of(name).decode(BufferSource(data))
    assert report.first == caught.value.finding
    with pytest.raises(FormatError):
        decode(data)
    assert all(rule.startswith(f"{name.upper()}-") for rule in {finding.rule for finding in report})


# ---------------------------------------------------------------------------------------------------------- OCANNL

# Files whose header OCANNL's reader takes: the rule for which this reader refuses them, None where it takes them too.
OURS: dict[str, str | None] = {
    "00_control_ok": None,
    "10_len_swallows_data_spaces": None,
    "17_trailing_comment_no_newline": None,
    "21_leading_ws_comments": None,
    "23_hex_escape": None,
    "26_raw_bytes_in_atom": None,
    "28_compact": None,
    "45_dup_version": None,
    "47_unknown_header_field": None,
    "51_tensors_first_wins": None,
    "54_unknown_tensor_field": None,
    "57_id_underscore": None,
    "59_id_plus": None,
    "62_id_hex_wrap": "OCANNL-REC-INTEGER",
    "73_dims_negative": "OCANNL-TEN-DIM",
    "74_dims_negative_pair": "OCANNL-TEN-DIM",
    "77b_dims_wrap_mappable": "OCANNL-TEN-SIZEOF",
    "89_bl_max_int": "OCANNL-TEN-BYTES",
    "90_overlap": "OCANNL-TEN-OVERLAP",
    "91_overlap_partial_reordered": "OCANNL-TEN-OVERLAP",
    "92_gap_and_trailing_data": None,
    "93_bl_short": "OCANNL-TEN-BYTES",
    "94_bl_short_mid_element": "OCANNL-TEN-BYTES",
    "95_bl_long": "OCANNL-TEN-BYTES",
    "97_scalar_bl_zero": "OCANNL-TEN-BYTES",
    "a0_padding_longer": "OCANNL-PAD-COUNT",
    "a1_padding_exceeds_dim": "OCANNL-PAD-FIT",
    "a2_padding_negative": "OCANNL-PAD-NEGATIVE",
    "a3_padding_neg_grow": "OCANNL-PAD-NEGATIVE",
    "b1_padding_neutral_leading_space": None,
}


@pytest.mark.parametrize("entry", _index("ocannl", "valid"), ids=lambda entry: entry["file"])
def test_ocannl_valid_file(entry: dict[str, Any]) -> None:
    _, _, report = _read_and_written(entry)
    # The writer of these files writes the alignment and the default namespace as long as it is not told to be old.
    old = {"OCANNL-HDR-OLD", "OCANNL-TEN-LEGACY"}
    assert {finding.rule for finding in report if finding.severity == "canonical"} <= old, report
    assert ("OCANNL-HDR-OLD" in {finding.rule for finding in report}) == ("legacy" in entry["file"])


@pytest.mark.parametrize("entry", _index("ocannl", "upstream-accepts"), ids=lambda entry: entry["file"])
def test_ocannl_file_that_upstream_takes(entry: dict[str, Any]) -> None:
    rule = OURS[Path(entry["file"]).stem.removeprefix("bad-")]
    data = (CASES / entry["file"]).read_bytes()
    report = validate(data)
    if rule is None:
        assert report.ok, report
        assert decode(encode(decode(data))) == decode(data)
        return
    assert report.first is not None
    assert report.first.rule == rule
    with pytest.raises(FormatError):
        decode(data)
    suite = load_suite()
    ours = [case for case in suite.cases if case.rules[:1] == (rule,) and case.level == "should"]
    assert ours, f"no case of our own says that OCANNL takes what breaks {rule}"


# ----------------------------------------------------------------------------------------------------- safetensors

# What this specification does with files on which upstream readers differ: the rule for which it refuses them, None
# where it takes them.
OPEN: dict[str, str | None] = {
    "extra_field_str": None,
    "extra_field_int": None,
    "extra_field_null": None,
    "extra_field_true": None,
    "lead_space": "SAFETENSORS-TXT-START",
    "trail_newline_tab": "SAFETENSORS-TXT-TAIL",
    "deep_extra_100": "SAFETENSORS-TXT-DEPTH",
    "deep_extra_126": "SAFETENSORS-TXT-DEPTH",
    "deep_extra_128": "SAFETENSORS-TXT-DEPTH",
    "deep_extra_200": "SAFETENSORS-TXT-DEPTH",
}


@pytest.mark.parametrize("entry", _index("safetensors", "valid"), ids=lambda entry: entry["file"])
def test_safetensors_valid_file(entry: dict[str, Any]) -> None:
    data, again, report = _read_and_written(entry)
    assert (again == data) == report.canonical


@pytest.mark.parametrize("entry", _index("safetensors", "acceptable"), ids=lambda entry: entry["file"])
def test_safetensors_file_on_which_readers_differ(entry: dict[str, Any]) -> None:
    rule = OPEN[Path(entry["file"]).stem]
    report = validate((CASES / entry["file"]).read_bytes(), format="safetensors")
    if rule is None:
        assert report.ok
        assert "SAFETENSORS-TEN-UNKNOWN" in {finding.rule for finding in report}
    else:
        assert report.first is not None
        assert report.first.rule == rule
    suite = load_suite()
    assert any(case.verdict == "acceptable" and rule in (None, *case.rules) for case in suite.cases)


@pytest.mark.parametrize("path", sorted((CASES / "real").glob("*.safetensors")), ids=lambda path: path.name)
def test_real_safetensors_file(path: Path) -> None:
    """A file from the world: nothing is wrong with it, and what is written back has the same tensors."""
    report = validate(path)
    assert report.ok, report
    file = safetensors.load(path)
    assert sum(np.asarray(array).nbytes for array in file.tensors.values()) > 0
    again = safetensors.dumps(file)
    assert validate(again).canonical
    assert (again == path.read_bytes()) == report.canonical
    assert decode(again) == decode(path)
