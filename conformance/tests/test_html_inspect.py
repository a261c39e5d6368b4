"""``inspect --html``: what is in the page, whatever is in the file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import dumps, ocannl, safetensors, save
from ckptspec.cli import main
from ckptspec.conformance.catalogue import VECTORS, Case, load_suite
from ckptspec.conformance.tests.test_html import HOSTILE, Reader
from ckptspec.formats import recognise
from ckptspec.html import _layout, resource
from ckptspec.html.inspection import inspection
from ckptspec.oam import Config, Model, Optimizer, Progress
from ckptspec.quantization import quantize_array
from ckptspec.source import BufferSource, FileSource
from ckptspec.spec.layout import field, fields, record_size
from ckptspec.spec.schema import OAM_RECORDS
from ckptspec.text import printable

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("map.js", "tensors.js", "bytes.js", "inspection.js")
NAMES = [text.encode("utf-8", "replace").decode().replace("\0", "")[:60] for text in HOSTILE]


def data_of(page: str) -> Any:
    return json.loads(Reader(page).texts["script"][0])


def page_of(data: bytes, **options: Any) -> Any:
    return data_of(inspection(BufferSource(data), **options)[0])


def model() -> Model:
    rng = np.random.default_rng(5)
    broken = np.array([1, np.nan, np.inf, -np.inf, -3], np.float32)
    return Model(
        config=Config(architecture="demo", d_model=8, arch_config=b"<script>alert(1)</script>"),
        weights={
            "w": rng.standard_normal((4, 8)).astype(np.float32),
            "broken": broken,
            "q": quantize_array(rng.standard_normal((2, 32)).astype(np.float32), "q4"),
            "big": np.array([2**62 + 1, -(2**62)], np.int64),
            "z": np.array([1 + 2j, complex(np.nan, 0)], np.complex64),
            "none": np.zeros((0, 3), np.float32),
        },
        optimizer=Optimizer(step=3, first_moment=np.zeros(6, np.float32), second_moment=np.ones(6, np.float32)),
        progress=Progress(step=3),
    )


def rows_of(data: Any) -> dict[str, dict[str, Any]]:
    keys = ("key", "section", "name", "dtype", "encoding", "shape", "offset", "bytes", "accepted", "found")
    texts = data["tensors"]["texts"]
    made = {}
    for values in data["tensors"]["rows"]:
        row = dict(zip(keys, values, strict=True))
        for key in ("section", "dtype", "encoding"):
            row[key] = texts[row[key]]
        if isinstance(row["found"], int):
            row["found"] = texts[row["found"]]
        made[row["name"]] = row
    return made


# ------------------------------------------------------------------------------------------------------------- the page


def test_the_tensors_of_a_model() -> None:
    raw = dumps(model())
    rows = rows_of(page_of(raw))
    assert list(rows) == ["w", "broken", "q", "big", "z", "none", "first_moment", "second_moment"]
    assert rows["broken"]["found"][:7] == [5, 5, 1, 2, -3.0, 1.0, -1.0]
    assert rows["big"]["found"][4:6] == [str(-(2**62)), str(2**62 + 1)]  # JSON's numbers would round them
    assert rows["z"]["found"][:7] == [2, 4, 1, 0, 0.0, 2.0, 1.0]
    assert rows["none"]["found"] == [0, 0, 0, 0]
    assert (rows["q"]["encoding"], rows["q"]["dtype"], rows["q"]["found"][0]) == ("q4", "f32", 64)
    assert (rows["second_moment"]["section"], rows["second_moment"]["found"][4:7]) == ("optimizer", [1.0, 1.0, 1.0])
    w = model().weights["w"]
    assert isinstance(w, np.ndarray)
    assert rows["w"]["found"][4:6] == [float(w.min()), float(w.max())]
    assert raw[rows["w"]["offset"] :][: w.nbytes] == w.tobytes()
    assert rows["w"]["shape"] == "4 x 8"


def test_without_values_no_payload_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from ckptspec.html import _tensors

    monkeypatch.setattr(_tensors, "statistics_of", None)
    rows = rows_of(page_of(dumps(model()), values=False))
    assert {row["found"] for row in rows.values()} == {""}


def test_the_map_covers_the_file_once_and_the_fields_are_those_of_the_schema() -> None:
    raw = dumps(model())
    layout = page_of(raw)["layout"]
    segments = np.array(layout["segments"]).reshape(-1, 4)
    ends = segments[:, 0] + segments[:, 1]
    assert segments[0, 0] == 0
    assert ends[-1] == len(raw)
    assert (segments[1:, 0] == ends[:-1]).all()
    for number, (_, _, size) in enumerate(layout["parts"]):
        assert size == segments[segments[:, 2] == number, 1].sum()
    labels = [part[0] for part in layout["parts"]]
    wanted = ["header", "section table", "config", "weights index", "weights payloads", "optimizer", "progress"]
    assert [label for label in labels if label in wanted] == wanted
    shown = {entry[2]: entry for entry in layout["fields"]}
    header = OAM_RECORDS["header"]
    for item in fields(header):
        offset, size, _, _, kind, _, doc, _ = shown[f"header.{item.name}"]
        assert (offset, size) == (item.offset, item.size)
        assert layout["texts"][kind] == item.role
        assert layout["texts"][doc] == item.doc
    assert shown["weights[1].num_bytes"][5] == "20"
    assert shown["weights[1].num_bytes"][7] == 1  # the tensor
    for offset, text in layout["chunks"]:
        part = base64.b64decode(text)
        assert raw[offset : offset + len(part)] == part
    assert layout["left_out"] == 0


@pytest.mark.parametrize("place", ["names", "metadata", "training", "config"])
def test_hostile_text_is_shown_escaped_and_is_never_markup(place: str) -> None:
    page, _ = inspection(BufferSource(hostile_file(place, NAMES)))
    read = Reader(page)
    assert len(read.texts["script"]) == 2 + len(SCRIPTS)
    assert [tag for tag, _ in read.elements if tag in ("img", "b")] == []
    texts = list(strings(data_of(page)))
    for name in NAMES:
        assert any(printable(name) in text for text in texts)
    assert not set("\u202e\x1b\x00\u2028\u2029\ud800") & set("".join(texts))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def hostile_file(place: str, texts: list[str]) -> bytes:
    """Return a file that has texts at some place."""
    w = np.zeros(2, np.float32)
    if place == "config":
        return dumps(Model(config=Config(arch_config="".join(texts).encode()), weights={}, progress=Progress()))
    if place == "names":
        return dumps(Model(config=Config(), weights=dict.fromkeys(texts, w), progress=Progress()))
    if place == "metadata":
        return dumps(safetensors.TensorFile(tensors=dict.fromkeys(texts, w), metadata={text: text for text in texts}))
    tensors = [
        {
            "namespace": text,
            "id": "0",
            "label": [text],
            "precision": "single",
            "dims": ["2"],
            "padding": None,
            "data": w.tobytes().hex(),
        }
        for text in texts
    ]
    training = {
        "version": 2,
        "step": "1",
        "epoch": "0",
        "position": "0",
        "host_rng": "".join(texts).encode().hex(),
        "extra": [[text, text] for text in texts],
        "seeds": ["1"],
        "state": [[text, "0"] for text in texts],
    }
    document = {"format": "ocannl", "version": 1, "alignment": 32, "tensors": tensors, "training": training}
    return ocannl.encode(document)


# -------------------------------------------------------------------------------------------------------- damaged files


def test_a_finding_is_tied_to_its_tensor_and_its_bytes_are_there() -> None:
    raw = bytearray(dumps(model()))
    rows = rows_of(page_of(bytes(raw)))
    entry = next(f for f in page_of(bytes(raw))["layout"]["fields"] if f[2] == "weights[2].num_bytes")
    raw[entry[0]] ^= 1
    data = page_of(bytes(raw))
    found = {finding["rule"]: finding for finding in data["findings"]}
    assert found["OAM-TEN-BYTES"]["tensor"] == list(rows).index("q")
    assert found["OAM-TEN-BYTES"]["offset"] == entry[0]
    assert found["OAM-SEC-CHECKSUM"]["tensor"] == -1
    assert rows_of(data)["q"]["found"] == "its bytes do not fit its shape"
    assert not rows_of(data)["q"]["accepted"]
    assert data["records"][0]["title"] == "what survives"
    assert data["file"]["verdict"][1] == "refused"


def test_what_is_left_out_and_that_findings_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytearray(
        dumps(Model(config=Config(), weights={f"t{i}": np.ones(99) for i in range(40)}, progress=Progress()))
    )
    monkeypatch.setattr(_layout, "MOST_FIELDS", 20)
    monkeypatch.setattr(_layout, "MOST_PAYLOADS", 3)
    before = page_of(bytes(raw))["layout"]
    names = [entry[2] for entry in before["fields"]]
    per_tensor = len(fields(OAM_RECORDS["tensor"]))
    assert sum(name.startswith("weights[") and not name.endswith(".data") for name in names) == 20 - 2  # the head's two
    assert sum(name.endswith(".data") for name in names) == 3
    assert before["left_out"] == 40 * per_tensor + 2 - 20 + 40 - 3
    assert "progress.step" in names
    index = next(entry[0] for entry in before["fields"] if entry[2] == "weights.count") + record_size(
        OAM_RECORDS["index"]
    )
    place = index + 30 * record_size(OAM_RECORDS["tensor"]) + field(OAM_RECORDS["tensor"], "reserved").offset
    raw[place] = 1
    data = page_of(bytes(raw))
    assert "weights[30].reserved" in [entry[2] for entry in data["layout"]["fields"]]
    chunks = [(offset, base64.b64decode(text)) for offset, text in data["layout"]["chunks"]]
    assert any(offset <= place < offset + len(part) for offset, part in chunks)


def test_of_many_parts_only_those_are_listed_that_are_not_intact() -> None:
    header = {f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(200)}
    header["t7"]["dtype"] = "unknown"
    text = json.dumps(header).encode()
    raw = len(text).to_bytes(8, "little") + text + bytes(200)
    record = page_of(raw)["records"][0]
    assert [row[:3] for row in record["rows"]] == [["lost", "tensors[7]", "t7"]]
    assert "199 tensors that are intact are not listed." in record["note"]


def test_payloads_that_overlap_are_read_once() -> None:
    header = {f"t{i}": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for i in range(50)}
    text = json.dumps(header).encode()
    data = page_of(len(text).to_bytes(8, "little") + text + np.arange(4, dtype=np.float32).tobytes())
    found = [row["found"] for row in rows_of(data).values()]
    assert isinstance(found[0], list)
    assert set(found[1:]) == {"its payload overlaps that of another tensor"}


def test_tensors_of_one_name_have_rows_of_their_own() -> None:
    text = (
        b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    )
    data = page_of(len(text).to_bytes(8, "little") + text + np.array([1, 2], np.float32).tobytes())
    assert [row[6] for row in data["tensors"]["rows"]] == [8 + len(text), 12 + len(text)]
    tensors = [entry[7] for entry in data["layout"]["fields"] if entry[2].startswith("tensor 'w'")]
    assert tensors == [0, 1, 0, 1]
    (finding,) = [finding for finding in data["findings"] if finding["rule"] == "SAFETENSORS-TEN-DUP"]
    assert finding["tensor"] == 1


def test_packed_elements_have_no_statistics_and_that_is_said() -> None:
    text = b'{"w":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}'
    data = page_of(len(text).to_bytes(8, "little") + text + b"ab")
    assert rows_of(data)["w"]["found"] == "elements are packed below a byte"


CASES = [case for case in load_suite().cases if case.kind == "file"]


@pytest.mark.parametrize("share", range(4))
def test_every_golden_file_makes_a_page(share: int) -> None:
    """Whatever is wrong with a file: the page covers it to the last byte, and what it shows are the file's bytes.

    One file in six, for the time that it takes.
    """
    assert len(CASES) > 1500
    for case in CASES[share::24]:
        raw = case.read()
        page, report = inspection(BufferSource(raw))
        data = data_of(page)
        segments = np.array(data["layout"]["segments"], np.int64).reshape(-1, 4)
        assert segments[:, 1].sum() == len(raw), case.id
        assert len(data["findings"]) == len(report.findings)
        for offset, text in data["layout"]["chunks"]:
            part = base64.b64decode(text)
            assert raw[offset : offset + len(part)] == part, case.id


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from([case for case in CASES if case.size < 10_000]), data=st.data())
def test_any_damage_makes_a_page(case: Case, data: st.DataObject) -> None:
    raw = bytearray(case.read())
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) if data.draw(st.booleans()) else len(raw) :]
    layout = page_of(bytes(raw))["layout"]
    assert sum(layout["segments"][1::4]) == len(raw)


@pytest.mark.parametrize("name", [*SCRIPTS, "inspection.css", "inspection.html"])
def test_scripts_build_the_page_without_markup(name: str) -> None:
    text = resource(name)
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "http", "url("):
        assert word not in text
    if not name.endswith(".html"):
        assert "</" not in text


# ----------------------------------------------------------------------------------------------------- the command line


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "m.oam", model())
    out = tmp_path / "new" / "m.html"
    assert main(["inspect", str(tmp_path / "m.oam"), "--html", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: written; valid: .oam version 3")
    assert main(["inspect", str(tmp_path / "m.oam"), "--html", "-"]) == 0
    assert capsys.readouterr().out == out.read_text("utf-8")
    with FileSource(tmp_path / "m.oam") as source:
        assert inspection(source)[0] == out.read_text("utf-8")  # the same file gives the same page


def test_a_refused_file_and_a_file_of_no_known_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = VECTORS / "oam" / "bad_blob_overlap_by_1.oam"
    assert main(["inspect", str(bad), "--html", str(tmp_path / "a.html")]) == 1
    (tmp_path / "text").write_bytes(b"<html><script>alert(1)</script>")
    assert main(["inspect", str(tmp_path / "text"), "--html", str(tmp_path / "b.html")]) == 1
    assert "refused" in capsys.readouterr().out
    assert data_of((tmp_path / "b.html").read_text("utf-8"))["findings"][0]["rule"] == "ANY-FILE-FORMAT"


def test_usage_errors_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = str(VECTORS / "oam" / "bad_blob_overlap_by_1.oam")
    out = tmp_path / "a.html"
    assert main(["inspect", bad, "--html", str(out), "--hex"]) == 2
    assert main(["inspect", bad, "--html", str(out), "--json"]) == 2
    assert main(["inspect", bad, "--no-values"]) == 2
    assert main(["inspect", bad, "--html", str(tmp_path)]) == 2  # a directory
    assert main(["inspect", str(tmp_path / "none"), "--html", str(out)]) == 2
    assert not out.exists()
    assert len(capsys.readouterr().err.splitlines()) == 5
    out.write_bytes(b"a checkpoint")
    assert main(["inspect", str(out), "--html", str(tmp_path / "." / "a.html")]) == 2
    assert out.read_bytes() == b"a checkpoint"
    assert "are the same file" in capsys.readouterr().err


def test_the_documentation_names_the_bounds() -> None:
    document = ROOT / "docs" / "inspect.md"
    if not document.is_file():
        pytest.skip("the documentation is not installed")
    from ckptspec.html._records import VALUE
    from ckptspec.html._tensors import MOST_TENSORS
    from ckptspec.html.inspection import MOST_FINDINGS
    from ckptspec.statistics import BINS

    text = document.read_text("utf-8")
    for bound in (
        f"{_layout.FIELD_BYTES:,} bytes of a field",
        f"{_layout.HEAD_BYTES} bytes of a payload",
        f"{_layout.MOST_FIELDS:,} fields",
        f"{_layout.MOST_PAYLOADS:,} payloads",
        f"{MOST_TENSORS:,} tensors",
        f"{MOST_FINDINGS:,} findings",
        f"{VALUE:,} characters of a value",
        f"{BINS} bins",
    ):
        assert bound in " ".join(text.split()), bound


def test_recognition_of_what_the_tests_write() -> None:
    formats = [
        recognise(BufferSource(hostile_file(place, ["a"]))) for place in ("names", "metadata", "training", "config")
    ]
    assert formats == ["oam", "safetensors", "ocannl", "oam"]
