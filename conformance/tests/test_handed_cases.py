"""Files and answers that upstream implementations gave, where they are laid beside the project."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import ArgumentError, FormatError, QuantizedTensor, decode, encode, oam, validate
from ckptspec.oam._tensors import ENCODING_NAMES
from ckptspec.quantization import quantize_array
from ckptspec.spec.dtypes import OAM_BY_CODE
from ckptspec.spec.schema import OAM_NEWEST

CASES = Path(os.environ.get("CKPTSPEC_CASES", Path(__file__).resolve().parents[3] / "shared" / "cases"))
pytestmark = pytest.mark.skipif(not (CASES / "index.json").exists(), reason="the handed cases are not there")


def _read(name: str) -> Any:
    path = CASES / name
    return json.loads(path.read_text("utf-8")) if path.exists() else []


INDEX = [entry for entry in _read("index.json") if entry["file"].startswith("oam/")]


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
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
