"""Conversion: there and back gives the same document, or a list of what the target cannot hold; no third outcome."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import ArgumentError, FormatError, convert, decode, encode, load, oam, safetensors, validate
from ckptspec.cli import main
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.conformance.strategies import oam_documents
from ckptspec.conformance.strategies_ocannl import ocannl_documents
from ckptspec.conformance.tests.test_docs import ROOT, blocks, demo_files, run_python, run_shell
from ckptspec.convert._content import Content, Dequantized, prepare, take
from ckptspec.convert._losses import fit
from ckptspec.convert._passenger import ARCHITECTURE, KEY, fitted
from ckptspec.formats import FORMATS, module_of
from ckptspec.memory import MemorySink
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import SAFETENSORS_DTYPES

Document = dict[str, Any]
PAGE = ROOT / "docs" / "conversion.md"
EXTENSION = {"oam": ".oam", "ocannl": ".ckpt", "safetensors": ".safetensors"}


# ----------------------------------------------------------------------------------------------------------- documents


def oam_document(**changes: Any) -> Document:
    """Return a document with everything in it."""
    progress = oam.Progress(phase=3, step=120, bytes_seen=1 << 63, best_metric=1.5, metric_name="perplexity")
    config = oam.Config(architecture="gpt", d_model=8, n_layers=2, arch_config=b'{"heads": 4}')
    moments: dict[str, Any] = {"first_moment": np.arange(3, dtype="f4"), "second_moment": np.arange(3, dtype="f4") * 2}
    model = oam.Model(
        config=config,
        weights={"layers.0.w": np.arange(6, dtype="f4").reshape(2, 3), "b": np.ones((), "f2")},
        state={"seen": np.array([7], "u8")},
        optimizer=oam.Optimizer(kind="AdamW", step=120, **moments),
        progress=progress,
    )
    return decode(oam.dumps(model)) | changes


def weight(name: str, dtype: str, *shape: int, data: bytes = b"", encoding: str = "dense") -> Document:
    extents = [str(extent) for extent in shape]
    return {"name": name, "dtype": dtype, "shape": extents, "encoding": encoding, "data": data.hex()}


def with_weights(*weights: Document) -> Document:
    return oam_document(weights=list(weights), state=[], optimizer=None)


def node(number: int, label: str, precision: str, *dims: int, data: bytes = b"", padding: Any = None) -> Document:
    return {
        "namespace": "ocannl",
        "id": str(number),
        "label": label.split(),
        "precision": precision,
        "dims": [str(extent) for extent in dims],
        "padding": padding,
        "data": data.hex(),
    }


def checkpoint(*tensors: Document, training: Any = None) -> Document:
    return {"format": "ocannl", "version": 1, "alignment": 64, "tensors": list(tensors), "training": training}


def plain(*tensors: tuple[str, str, list[int], bytes], metadata: Any = None) -> Document:
    """Return the document of a safetensors file."""
    made = [
        {"name": name, "dtype": dtype, "shape": [str(extent) for extent in shape], "data": data.hex()}
        for name, dtype, shape, data in sorted(tensors, key=lambda item: item[0].encode())
    ]
    return {"format": "safetensors", "metadata": metadata, "tensors": made}


PADDED = {"axes": [["1", "1"], ["0", "2"]], "neutral": "0xfff0000000000000"}
TRAINING = {
    "version": 1,
    "step": "12",
    "epoch": "2",
    "position": "640",
    "host_rng": "00ff",
    "extra": [["lr", "0.1"], [{"bytes": "ff"}, ""]],
    "seeds": None,
    "state": [["ocannl", "3"]],
}


def bytes_of(plan: convert.Plan, *, lossy: bool = False) -> bytes:
    """Return what a plan writes, which is a valid and canonical file."""
    made = plan.to_bytes(lossy=lossy)
    report = validate(made)
    assert report.ok, list(report)
    assert not [item for item in report if item.severity == "canonical"], list(report)
    assert report.format == plan.conversion.target_format
    return made


def content_of(data: bytes) -> Content:
    source = BufferSource(data)
    kind = validate(data).format
    assert kind is not None
    return take(module_of(kind).read(source), kind)


def document_of(content: Content) -> Document:
    sink = MemorySink()
    held: list[Any] = [
        memoryview(b"".join(item.blocks())) if isinstance(item, Dequantized) else item for item in content.payloads
    ]
    prepare(Content(content.document, held))(sink)
    return decode(bytes(sink.data))


def there_and_back(data: bytes, target: str) -> list[convert.Loss]:
    """Convert there and back, if need be with losses; return these."""
    original = decode(data)
    plan = convert.plan(data, to=target)
    losses = list(plan.conversion.losses)
    expected = original
    if losses:
        with pytest.raises(convert.LossError) as caught:
            plan.to_bytes()
        assert list(caught.value.losses) == losses
        assert all(str(loss) in str(caught.value) for loss in losses)
        expected = document_of(fit(content_of(data), target)[1])
        assert expected != original
    made = bytes_of(plan, lossy=bool(losses))
    back = convert.plan(made, to=original["format"])
    assert back.conversion.kind == "restore"
    assert back.conversion.lossless
    assert decode(bytes_of_any(back)) == expected
    return losses


def bytes_of_any(plan: convert.Plan) -> bytes:
    """Return what a plan writes; the version may be old."""
    made = plan.to_bytes()
    assert validate(made).ok
    return made


# ------------------------------------------------------------------------------------------------------- there and back


def _good(case: Any) -> bool:
    if case.format not in ("oam", "ocannl") or case.kind != "file" or case.verdict != "valid":
        return False
    try:
        decode(case.read())
    except FormatError as error:  # one of them does not begin like a checkpoint
        assert error.rule == "ANY-FILE-FORMAT"  # noqa: PT017
        return False
    return True


@cache
def golden() -> list[Any]:
    return [case for case in load_suite().cases if _good(case)]


@pytest.mark.parametrize("target", FORMATS)
def test_golden_files(target: str) -> None:
    """Every golden file goes there and back, or is refused with a list; files of equal content alike."""
    seen: dict[str, bytes] = {}
    for case in golden():
        if case.format != target:
            data = case.read()
            content = json.dumps(case.read_expected(), sort_keys=True)
            if content not in seen:
                losses = there_and_back(data, target)
                seen[content] = convert.plan(data, to=target).to_bytes(lossy=bool(losses))
            else:
                assert convert.plan(data, to=target).to_bytes(lossy=True) == seen[content]
    assert len(seen) > 100


@settings(deadline=None)
@given(oam_documents(), st.sampled_from(["ocannl", "safetensors"]))
def test_oam_documents(document: Document, target: str) -> None:
    there_and_back(encode(document), target)


@settings(deadline=None)
@given(ocannl_documents(), st.sampled_from(["oam", "safetensors"]))
def test_ocannl_documents(document: Document, target: str) -> None:
    there_and_back(encode(document), target)


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["", "a.b", "state/x", "weights/state/x", "optimizer/first_moment", "weights/optimizer/first_moment", "n" * 200]
)


@st.composite
def plain_documents(draw: Any) -> Document:
    tensors = []
    for name in draw(st.lists(_NAMES, max_size=4, unique=True)):
        dtype = draw(st.sampled_from(list(SAFETENSORS_DTYPES)))
        shape = [*draw(st.lists(st.integers(0, 2), max_size=10)), 8]
        size = int(np.prod(shape)) * SAFETENSORS_DTYPES[dtype].bits // 8
        tensors.append(
            (name, dtype, shape, draw(st.binary(min_size=size, max_size=size)) if size < 99 else bytes(size))
        )
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    return plain(*tensors, metadata=draw(st.none() | st.dictionaries(text | st.just("step"), text, max_size=3)))


@settings(deadline=None)
@given(plain_documents(), st.sampled_from(["oam", "ocannl"]))
def test_safetensors_documents(document: Document, target: str) -> None:
    there_and_back(encode(document), target)


def test_everything_of_a_model_travels() -> None:
    data = encode(oam_document())
    for target in ("safetensors", "ocannl"):
        assert there_and_back(data, target) == []
    made = safetensors.loads(bytes_of(convert.plan(data, to="safetensors")))
    names = ["b", "layers.0.w", "optimizer/first_moment", "optimizer/second_moment", "state/seen"]
    assert sorted(made.tensors) == names
    assert made.metadata is not None
    assert made.metadata["step"] == "120"
    assert made.metadata["learning_rate"] == repr(float(np.float32(3e-4)))
    passenger = json.loads(made.metadata[KEY])
    assert passenger["passenger"] == 1
    assert passenger["document"]["config"]["architecture"] == "gpt"
    assert passenger["document"]["state"][0]["data"] == "state/seen"
    assert passenger["document"]["optimizer"]["first_moment"] == "optimizer/first_moment"
    document = decode(bytes_of(convert.plan(data, to="ocannl")))
    assert [tensor["label"] for tensor in document["tensors"]][:2] == [["layers", "0", "w"], ["b"]]
    assert document["training"]["step"] == "120"
    assert len(document["training"]["state"]) == len(document["tensors"]) == 5


def test_everything_of_a_checkpoint_travels() -> None:
    tensors = (
        node(3, "w hidden", "single", 4, 4, data=bytes(range(16)), padding=PADDED),
        node(0, "", "uint4x32", 2, data=bytes(32)),
        node(5, "f", "fp8", 3, data=b"\x01\x02\xff"),
        node(7, "nothing", "void", 3),
    )
    data = encode(checkpoint(*tensors, training=TRAINING))
    assert there_and_back(data, "safetensors") == []
    made = safetensors.loads(bytes_of(convert.plan(data, to="safetensors")))
    assert {name: made[name].shape for name in made.tensors} == {
        "w.hidden": (2, 2),
        "ocannl:0": (2, 4),
        "f": (3,),
        "nothing": (3, 0),
    }
    assert made["ocannl:0"].dtype == np.uint32
    assert made.metadata is not None
    assert made.metadata["step"] == "12"
    hows = [item.how for item in convert.plan(data, to="safetensors").conversion.carried]
    assert "uint4x32 as U32 with a last axis of 4" in hows
    assert "what is stored becomes a tensor; the margins are in the passenger" in hows
    (loss,) = there_and_back(data, "oam")
    assert loss.what == "dtype"
    lossless = encode(checkpoint(*tensors[:2], training=TRAINING))
    assert there_and_back(lossless, "oam") == []
    model = oam.loads(bytes_of(convert.plan(lossless, to="oam")))
    assert model.progress.step == 12
    assert model.config.architecture == ARCHITECTURE


def test_a_plain_file_of_tensors() -> None:
    metadata = {"format": "pt", "step": "77"}
    data = encode(
        plain(
            ("a.w", "F32", [2], bytes(8)),
            ("state/n", "I64", [], bytes(8)),
            ("c", "C64", [1], bytes(8)),
            metadata=metadata,
        )
    )
    for target in ("oam", "ocannl"):
        assert there_and_back(data, target) == []
    model = oam.loads(bytes_of(convert.plan(data, to="oam")))
    assert list(model.weights) == ["a.w", "c"]
    assert list(model.state) == ["n"]
    assert model.progress.step == 77
    document = decode(bytes_of(convert.plan(data, to="ocannl")))
    assert [(item["id"], item["label"], item["precision"], item["dims"]) for item in document["tensors"]] == [
        ("0", ["a", "w"], "single", ["2"]),
        ("1", ["c"], "single", ["1", "2"]),
        ("2", ["state/n"], "int64", []),
    ]


@pytest.mark.parametrize("target", FORMATS)
def test_files_without_tensors(target: str) -> None:
    empty = {
        "oam": encode(with_weights()),
        "ocannl": encode(checkpoint()),
        "safetensors": encode(plain(metadata={})),
    }
    for name, data in empty.items():
        if name != target:
            assert there_and_back(data, target) == []


def test_three_formats_in_a_row() -> None:
    """A carrier is unwrapped first, so that a way over a third format is the direct one."""
    for document in (oam_document(), checkpoint(node(1, "w", "single", data=bytes(4)), training=None)):
        data = encode(document)
        first, second = [name for name in FORMATS if name != document["format"]]
        direct = convert.plan(data, to=second).to_bytes()
        over = convert.plan(convert.plan(data, to=first).to_bytes(), to=second)
        assert over.conversion.original_format == document["format"]
        assert over.to_bytes() == direct
        assert decode(convert.plan(direct, to=document["format"]).to_bytes()) == document


def test_the_version_is_kept() -> None:
    for version in (1, 2, 3):
        data = encode(oam_document(version=version))
        carrier = convert.plan(data, to="safetensors").to_bytes()
        assert decode(convert.plan(carrier, to="oam").to_bytes())["version"] == version
        assert convert.plan(carrier, to="oam").to_bytes() == data


def test_the_same_format_is_a_rewrite() -> None:
    for case in golden()[::7]:
        plan = convert.plan(case.read(), to=case.format)
        assert plan.conversion.kind == "rewrite"
        expected = decode(case.read()) | ({"version": 3} if case.format == "oam" else {})
        assert decode(bytes_of(plan)) == expected
    carrier = convert.plan(encode(oam_document()), to="safetensors").to_bytes()
    assert convert.plan(carrier, to="safetensors").to_bytes() == carrier


# --------------------------------------------------------------------------------------------------------------- losses

_Q8 = bytes([1] * 32) + np.float32(0.5).tobytes()

LOSSES: list[tuple[Document, str, list[tuple[str, str, str]]]] = [
    (with_weights(weight("i", "i8", 2, data=b"\xff\x01")), "ocannl", [("weights[0]", "dtype", "its bits as byte")]),
    (with_weights(weight("i", "i16", 1, data=b"\xff\x01")), "ocannl", [("weights[0]", "dtype", "its bits as uint16")]),
    (with_weights(weight("i", "bool", 3, data=b"\x01\x00\x02")), "ocannl", []),
    (with_weights(weight("c", "c64", 1, data=bytes(8))), "ocannl", []),
    (with_weights(weight("c", "c128", 1, data=bytes(16))), "ocannl", []),
    (with_weights(weight("c", "c128", 1, data=bytes(16))), "safetensors", []),
    (with_weights(weight("i", "i8", 2, data=b"\xff\x01")), "safetensors", []),
    (
        with_weights(weight("w", "f32", 4, 5, data=_Q8, encoding="q8"), weight("i", "i8", data=b"x")),
        "ocannl",
        [("weights[0]", "encoding", "its values as f32"), ("weights[1]", "dtype", "its bits as byte")],
    ),
    (
        with_weights(weight("w", "f32", 4, 5, data=_Q8, encoding="q8")),
        "safetensors",
        [("weights[0]", "encoding", "its values as f32")],
    ),
    (
        with_weights(weight("__metadata__", "u8", data=b"x")),
        "safetensors",
        [("weights[0]", "name", f"named '{fitted('__metadata__', ())}'")],
    ),
    (with_weights(weight("e", "f32", 0, 1 << 63)), "ocannl", [("weights[0]", "extents", "shape [0]")]),
    (
        plain(
            ("", "U8", [], b"x"),
            ("a\0b", "U8", [], b"x"),
            ("n" * 128, "U8", [], b"x"),
            ("r", "U8", [1, 2] * 4 + [1], bytes(16)),
            ("t", "F4", [2, 2], b"xy"),
            ("u", "F8_E4M3", [2], b"xy"),
        ),
        "oam",
        [
            ("tensors[3]", "rank", "shape [2, 1, 2, 1, 2, 1, 2, 1]"),
            ("tensors[4]", "dtype", "its bits as u8, in one dimension"),
            ("tensors[5]", "dtype", "its bits as u8"),
            ("tensors[0]", "name", f"named '{fitted('', ())}'"),
            ("tensors[1]", "name", f"named '{fitted(chr(97) + chr(0) + chr(98), ())}'"),
            ("tensors[2]", "name", f"named '{fitted('n' * 128, ())}'"),
        ],
    ),
    (plain(("n" * 127, "U8", [1, 1] * 4, b"x")), "oam", []),
    (
        plain(("optimizer/first_moment", "U8", [], b"x"), ("weights/optimizer/first_moment", "U8", [], b"y")),
        "oam",
        [("tensors[1]", "name", f"named '{fitted('weights/optimizer/first_moment', ())}'")],
    ),
    (
        checkpoint(node(0, "w", "fp8", 1, 1, 1, 1, 1, 1, 1, 2, 3, data=bytes(6))),
        "oam",
        [("tensors[0]", "dtype", "its bits as u8"), ("tensors[0]", "rank", "shape [1, 1, 1, 1, 1, 1, 2, 3]")],
    ),
    (
        checkpoint(node(0, "w", "uint4x32", 1, 1, 1, 1, 1, 1, 2, 1, data=bytes(32))),
        "oam",
        [("tensors[0]", "rank", "shape [1, 1, 1, 1, 1, 2, 1]")],
    ),
    (checkpoint(node(0, "long " * 60, "byte", data=b"x"), node(1, "w", "void", 5)), "oam", []),
]


@pytest.mark.parametrize("row", range(len(LOSSES)))
def test_losses(row: int) -> None:
    """All losses are listed, in words, and a lossy conversion does what it says."""
    document, target, expected = LOSSES[row]
    losses = there_and_back(encode(document), target)
    assert [(loss.path, loss.what, loss.instead) for loss in losses] == expected


def test_dequantized_values() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((700, 701)).astype("f4")  # more blocks than are computed at a time
    for encoding in ("q4", "q8"):
        model = oam.quantize(oam.Model(weights={"w": values}), encoding)
        data = oam.dumps(model)
        expected = oam.loads(data).weights["w"].dequantize()
        made = safetensors.loads(bytes_of(convert.plan(data, to="safetensors"), lossy=True))
        assert made["w"].tobytes() == expected.tobytes()
        document = decode(bytes_of(convert.plan(data, to="ocannl"), lossy=True))
        assert document["tensors"][0]["data"] == expected.tobytes().hex()


def test_padding_of_a_tensor_that_is_reshaped() -> None:
    axes = {"axes": [["0", "0"]] * 8 + [["1", "1"]], "neutral": "0x0000000000000000"}
    data = encode(checkpoint(node(0, "w", "byte", 1, 1, 1, 1, 1, 1, 1, 2, 4, data=b"abcd", padding=axes)))
    (loss,) = there_and_back(data, "oam")
    assert loss.what == "rank"


# ----------------------------------------------------------------------------------------------------------- passengers


def edited(change: Any, source: Document | None = None) -> bytes:
    """Return a carrier, as safetensors, that somebody has changed."""
    data = encode(oam_document() if source is None else source)
    document = decode(convert.plan(data, to="safetensors").to_bytes())
    change(document)
    return encode(document)


def _add(document: Document) -> None:
    document["tensors"].append({"name": "z", "dtype": "U8", "shape": ["1"], "data": "00"})


def _remove(document: Document) -> None:
    del document["tensors"][0]


def _reshape(document: Document) -> None:
    document["tensors"][1]["shape"] = ["3", "2"]


def _retype(document: Document) -> None:
    document["tensors"][1]["dtype"] = "I32"


def _rename(document: Document) -> None:
    document["tensors"][0]["name"] = "a"


def _note(document: Document) -> None:
    document["metadata"]["note"] = "mine"


def _step(document: Document) -> None:
    document["metadata"]["step"] = "121"


def _moment(document: Document) -> None:
    document["tensors"][2] |= {"shape": ["2"], "data": document["tensors"][2]["data"][:16]}


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (_add, "tensor 'z'", "found U8 [1], the passenger says nothing"),
        (_remove, "passenger", "there is no tensor 'b'"),
        (_reshape, "tensor 'layers.0.w'", "found F32 [3, 2], the passenger says F32 [2, 3]"),
        (_retype, "tensor 'layers.0.w'", "found I32 [2, 3], the passenger says F32 [2, 3]"),
        (_rename, "passenger", "there is no tensor 'b'"),
        (_note, "metadata.note", 'found "mine", the passenger says nothing'),
        (_step, "metadata.step", 'found "121", the passenger says "120"'),
        (_moment, "passenger", "optimizer.second_moment: found 3 elements, the first moment has 2"),
    ],
)
def test_a_carrier_that_was_changed(change: Any, path: str, words: str) -> None:
    """What the passenger does not know is refused; a lossy conversion takes the file as it is."""
    data = edited(change)
    for target in ("oam", "ocannl"):
        plan = convert.plan(data, to=target)
        assert [loss.what for loss in plan.conversion.losses] == ["passenger"]
        (loss,) = plan.conversion.losses
        assert loss.path == path
        assert words in loss.why
        made = bytes_of(plan, lossy=True)
        again = decode(convert.plan(made, to="safetensors").to_bytes())
        expected = decode(data)
        del expected["metadata"][KEY]
        assert again == expected


def test_payloads_may_change() -> None:
    def change(document: Document) -> None:
        document["tensors"][0]["data"] = "0040"

    made = decode(convert.plan(edited(change), to="oam").to_bytes())
    assert made["weights"][1]["data"] == "0040"


def test_layout_of_a_carrier_does_not_count() -> None:
    data = encode(oam_document())
    carrier = decode(convert.plan(data, to="ocannl").to_bytes()) | {"alignment": 1}
    assert convert.plan(encode(carrier), to="oam").to_bytes() == data
    data = encode(plain(("a", "U8", [1], b"x"), ("b", "U8", [], b"y")))
    carrier = decode(convert.plan(data, to="oam").to_bytes())
    carrier["weights"].reverse()
    assert convert.plan(encode(carrier | {"version": 1}), to="safetensors").to_bytes() == data


def test_other_carriers_that_were_changed() -> None:
    carrier = decode(convert.plan(encode(plain(("a", "U8", [1], b"x"))), to="oam").to_bytes())
    carrier["progress"]["step"] = "9"
    carrier["optimizer"] = oam_document()["optimizer"]
    plan = convert.plan(encode(carrier), to="safetensors")
    paths = {loss.path for loss in plan.conversion.losses}
    assert {"progress.step", "optimizer", "optimizer.kind", "optimizer.first_moment"} <= paths
    made = decode(bytes_of(convert.plan(bytes_of(plan, lossy=True), to="oam")))
    assert made == carrier | {"config": carrier["config"] | {"architecture": "", "arch_config": ""}}
    carrier = decode(convert.plan(encode(plain(("a", "U8", [1], b"x"))), to="ocannl").to_bytes())
    carrier["training"]["step"] = "9"
    carrier["training"]["extra"].append(["mine", "1"])
    carrier["tensors"][0]["label"] = ["b"]
    plan = convert.plan(encode(carrier), to="oam")
    assert {loss.path for loss in plan.conversion.losses} == {
        "tensor 'ocannl':0",
        "training.step",
        "training.extra 'mine'",
    }
    assert bytes_of(plan, lossy=True)


def _hostile() -> list[str]:
    original = json.loads(decode(edited(lambda document: None))["metadata"][KEY])

    def changed(change: Any) -> str:
        copy = json.loads(json.dumps(original))
        change(copy["document"])
        return json.dumps(copy)

    texts = ["", "{", "[]", "null", "[" * 100_000, '{"passenger":1}', '{"passenger":2,"document":{}}', "\ufeff{}"]
    texts += ['{"passenger":1,"passenger":1,"document":{}}', '{"passenger":NaN,"document":{}}']
    values: tuple[Any, ...] = (None, [], 5, {}, {"format": []}, {"format": "x"})
    texts += [json.dumps({"passenger": 1, "document": value}) for value in values]
    huge = str((1 << 64) - 1)
    changes = [
        lambda document: document.update(format="safetensors"),
        lambda document: document.update(format="ocannl"),
        lambda document: document.update(version=9),
        lambda document: document.update(weights=5),
        lambda document: document.update(weights=[5]),
        lambda document: document.update(weights=[]),
        lambda document: document.update(optimizer=[]),
        lambda document: document.update(optimizer={}),
        lambda document: document["weights"][0].update(shape=[huge] * 8),
        lambda document: document["weights"][0].update(shape=["1"] * 1000),
        lambda document: document["weights"][0].update(shape=["0", huge]),
        lambda document: document["weights"][0].update(dtype="x"),
        lambda document: document["weights"][0].update(dtype=[]),
        lambda document: document["weights"][0].update(encoding="q8"),
        lambda document: document["weights"][0].update(encoding=[]),
        lambda document: document["weights"][0].update(encoding="x"),
        lambda document: document["weights"][0].update(data="b"),
        lambda document: document["weights"][0].update(data=7),
        lambda document: document["weights"][0].update(name="\0"),
        lambda document: document["weights"][0].update(name="b"),
        lambda document: document["weights"][0].update(name="\ud800"),
        lambda document: document["weights"][0].update(name="n" * 500),
        lambda document: document["optimizer"].update(kind="Muon"),
        lambda document: document["optimizer"].update(kind="x"),
        lambda document: document["optimizer"].update(second_moment=""),
        lambda document: document["optimizer"].update(second_moment="b"),
        lambda document: document["optimizer"].update(first_moment="optimizer/second_moment"),
        lambda document: document["progress"].update(step="1" * 5000),
        lambda document: document["config"].update(arch_config="0"),
        lambda document: document["weights"].reverse(),
    ]
    return texts + [changed(change) for change in changes]


def test_hostile_passengers() -> None:
    """Nothing but a list of losses comes of them, or the original in another order of its tensors."""
    for text in _hostile():

        def put(document: Document, text: str = text) -> None:
            document["metadata"][KEY] = text

        try:
            data = edited(put)
        except ArgumentError:  # lone surrogates cannot be stored
            continue
        for target in ("oam", "ocannl"):
            plan = convert.plan(data, to=target)
            if plan.conversion.lossless:
                assert json.loads(text)["document"]["weights"][0]["name"] == "b"
            else:
                assert {loss.what for loss in plan.conversion.losses} == {"passenger"}
            bytes_of(plan, lossy=True)


def test_hostile_passengers_elsewhere() -> None:
    for arch_config in (b"", b"\xff", b"{}", b'{"passenger":1,"document":{"format":"ocannl","tensors":5}}'):
        document = oam_document()
        document["config"] |= {"architecture": ARCHITECTURE, "arch_config": arch_config.hex()}
        plan = convert.plan(encode(document), to="ocannl")
        assert {loss.path for loss in plan.conversion.losses} == {"passenger"}
        bytes_of(plan, lossy=True)
    whole = {"format": "ocannl", "version": 1, "alignment": 8, "training": None}
    wrong: tuple[Any, ...] = (None, {}, [7], [{}], [node(0, "", "x")], [node(1 << 70, "", "byte")], [{"precision": []}])
    for tensors in wrong:
        text = json.dumps({"passenger": 1, "document": whole | {"tensors": tensors}})
        plan = convert.plan(encode(plain(metadata={KEY: text})), to="ocannl")
        assert {loss.path for loss in plan.conversion.losses} == {"passenger"}
        bytes_of(plan, lossy=True)
    training = TRAINING | {"extra": [[KEY, {"bytes": "ff"}]]}
    plan = convert.plan(encode(checkpoint(node(3, "w", "byte", data=b"x"), training=training)), to="oam")
    assert {loss.path for loss in plan.conversion.losses} == {"passenger"}
    bytes_of(plan, lossy=True)


@settings(deadline=None)
@given(st.data())
def test_damaged_passengers(data: Any) -> None:
    """Any damage to the text of a passenger is noticed, or does not matter."""
    text = decode(edited(lambda document: None))["metadata"][KEY]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    piece = data.draw(st.sampled_from(["", "0", '"', "null", "9" * 25, "[", "{}", ","]))

    def put(document: Document) -> None:
        document["metadata"][KEY] = text[:start] + piece + text[end:]

    plan = convert.plan(edited(put), to="oam")
    assert plan.conversion.lossless == (plan.conversion.kind == "restore")
    bytes_of_lossy = plan.to_bytes(lossy=True)
    assert validate(bytes_of_lossy).ok


# --------------------------------------------------------------------------------------------------------------- others


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo_files()
    for language, source in blocks(PAGE.read_text("utf-8"), "python", "console"):
        run_python(source, {"__name__": "page"}, PAGE.name) if language == "python" else run_shell(source)
    assert (tmp_path / "again.oam").read_bytes() == (tmp_path / "model.oam").read_bytes()


def test_the_official_package_reads_what_we_write(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    for case in [*golden()[::5], None]:
        data = encode(oam_document()) if case is None else case.read()
        plan = convert.plan(data, to="safetensors")
        path.write_bytes(bytes_of(plan, lossy=True))
        with official.safe_open(path, framework="numpy") as file:
            assert json.loads(file.metadata()[KEY])["document"]["format"] == plan.conversion.original_format
            assert len(file.keys()) == plan.conversion.tensors
    with official.safe_open(path, framework="numpy") as file:
        assert file.get_tensor("layers.0.w").tolist() == [[0, 1, 2], [3, 4, 5]]


_PEAK = """
import sys, threading
from ckptspec import convert
from ckptspec.conformance.bench.timing import anonymous_memory
convert.convert(sys.argv[3], sys.argv[4])  # what it imports
before, peak, done = anonymous_memory(), [0], threading.Event()
def watch():
    while not done.wait(0.004):
        peak[0] = max(peak[0], anonymous_memory())
watcher = threading.Thread(target=watch)
watcher.start()
convert.convert(sys.argv[1], sys.argv[2], lossy=True)
done.set()
watcher.join()
print(peak[0] - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_payloads_stream(tmp_path: Path) -> None:
    """A file of 300 MB goes through without being held; so does one that is dequantized."""
    big = np.zeros((1000, 75_000), "f4")
    big[:, ::4096] = 1
    oam.save(tmp_path / "a.oam", oam.Model(weights={"w": big}))
    oam.save(tmp_path / "q.oam", oam.quantize(oam.Model(weights={"w": big[:300]}), "q4"))
    (tmp_path / "small.oam").write_bytes(encode(oam_document()))
    ways = {"CKPTSPEC_CHECKSUM": "numpy", "CKPTSPEC_ELEMENTS": "numpy"}  # a compiler's own memory is another matter
    for source, target in (
        ("a.oam", "b.safetensors"),
        ("b.safetensors", "c.ckpt"),
        ("q.oam", "e.safetensors"),
    ):
        small = tmp_path / f"small{Path(target).suffix}.x{Path(target).suffix}"
        arguments = [str(tmp_path / source), str(tmp_path / target), str(tmp_path / "small.oam"), str(small)]
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
            env={**os.environ, **ways},
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 64e6
    assert load(tmp_path / "b.safetensors")["w"].tobytes() == big.tobytes()


def test_targets(tmp_path: Path) -> None:
    source = tmp_path / "m.oam"
    source.write_bytes(encode(oam_document()))
    assert convert.format_for("x.CKPT") == "ocannl"
    assert convert.format_for("x", "oam") == "oam"
    for name, to in (("x", None), ("x.pt", None), ("x.oam", "png")):
        with pytest.raises(ArgumentError):
            convert.convert(source, tmp_path / name, to=to)
    made = convert.convert(source, source, to="safetensors")  # over itself
    assert made.lossless
    assert decode(source)["format"] == "safetensors"
    with pytest.raises(ArgumentError, match="does not overwrite"):
        convert.convert(source, source, lossy=True, to="oam")
    link = tmp_path / "link.oam"
    link.symlink_to(source)
    convert.convert(source, link)
    assert decode(source) == oam_document()
    bad = tmp_path / "bad.oam"
    bad.write_bytes(source.read_bytes()[:-1])
    with pytest.raises(FormatError):
        convert.convert(bad, tmp_path / "y.ckpt")
    assert not (tmp_path / "y.ckpt").exists()


def test_nothing_is_written_when_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "s.safetensors", tmp_path / "t.oam"
    document = LOSSES[11][0]
    source.write_bytes(encode(document))
    target.write_bytes(b"old")
    with pytest.raises(convert.LossError) as caught:
        convert.convert(source, target)
    assert len(caught.value.losses) == 6
    assert main(["convert", str(source), str(target)]) == 1
    out = capsys.readouterr().out
    assert "refused: oam cannot hold 6 things; nothing was written" in out
    assert out.count("\n  cannot: tensors[") == 6
    assert "the name takes 128 bytes, at most 127 fit" in out
    assert "\0" not in out
    assert main(["convert", "--dry-run", "--lossy", str(source), str(target)]) == 0
    assert "would be written" in capsys.readouterr().out
    assert main(["convert", "--dry-run", "--json", str(source), str(target)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["written"]
    assert [loss["what"] for loss in answer["losses"]] == ["rank", "dtype", "dtype", "name", "name", "name"]
    assert target.read_bytes() == b"old"
    assert main(["convert", "--lossy", str(source), str(target)]) == 0
    assert capsys.readouterr().out.count("\n  lost: ") == 6
    assert validate(target).ok


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [tmp_path / f"x{EXTENSION[name]}" for name in ("oam", "safetensors", "ocannl", "oam")]
    names[3] = tmp_path / "y.oam"
    names[0].write_bytes(encode(oam_document()))
    for source, target in itertools.pairwise(names):
        assert main(["convert", str(source), str(target)]) == 0
        assert ": written: " in capsys.readouterr().out
    assert names[3].read_bytes() == names[0].read_bytes()
    assert main(["convert", "--json", str(names[0]), str(tmp_path / "z"), "--to", "ocannl"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["written"]
    assert answer["kind"] == "carry"
    assert answer["lossless"]
    assert {item["path"] for item in answer["carried"]} == {"config", "optimizer", "progress"}
    assert main(["convert", str(names[0]), str(tmp_path / "z.bin")]) == 2
    assert main(["convert", str(names[0]), str(names[0]), "--lossy"]) == 2
    assert main(["convert", str(tmp_path / "missing"), str(names[0])]) == 2
    assert main(["convert", str(VECTORS / "any" / "file_png.bin"), str(tmp_path / "p.oam")]) == 1
    assert not (tmp_path / "p.oam").exists()
