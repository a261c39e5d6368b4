"""Digests: what they depend on and what not, against a second implementation written from docs/digest.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import ArgumentError, Finding, FormatError, decode, encode, oam, ocannl, safetensors
from ckptspec.cli import main
from ckptspec.conformance.cases.assemble import T, assemble, config, progress, tensors
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.conformance.strategies import oam_documents
from ckptspec.conformance.strategies_ocannl import ocannl_documents, ocannl_layouts
from ckptspec.contents import Contents, contents_of, oam_name, oam_place, ocannl_names
from ckptspec.digest import PIECE, Changes, Digest, digest, manifest_of, parse_manifest
from ckptspec.ocannl import TensorNode
from ckptspec.source import BufferSource, FileSource
from ckptspec.spec.dtypes import OCANNL_PRECISIONS, SCALARS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "digest.md"
KNOWN = {"w": np.arange(6, dtype="<f4").reshape(2, 3)}
COMMAND = [sys.executable, "-m", "ckptspec"]


def contents(data: bytes, *, verify: bool = False) -> Contents:
    return contents_of(BufferSource(data), verify=verify)


def of(data: bytes) -> Digest:
    return digest(contents(data))


# ---------------------------------------------------------------------------------------------- a second implementation


def second(tensors: dict[str, tuple[str, str, list[int], bytes]], facts: dict[str, str]) -> tuple[str, str]:
    """Return the digests ``tensors`` and ``content``; a tensor is dtype, encoding, shape and payload."""
    lines = []
    for name, (dtype, encoding, shape, payload) in tensors.items():
        words = [dtype, encoding, len(payload), len(shape), *shape]
        head = "ckptspec tensor 1\n" + " ".join(map(str, words)) + "\n"
        pieces = [payload[at : at + 2**20] for at in range(0, len(payload), 2**20)]
        made = blake3(head.encode() + b"".join(blake3(piece).digest() for piece in pieces)).hexdigest()
        lines.append((name.encode(), made.encode()))
    text = b"".join(b"%s %d %s\n" % (made, len(name), name) for name, made in sorted(lines))
    whole = blake3(b"ckptspec tensors 1\n" + text).hexdigest()
    pairs = sorted((key.encode(), value.encode()) for key, value in facts.items())
    text = b"".join(b"%d %d %s %s\n" % (len(key), len(value), key, value) for key, value in pairs)
    return whole, blake3(b"ckptspec content 1\n" + whole.encode() + b"\n" + text).hexdigest()


def flat(record: dict[str, Any], prefix: str) -> dict[str, str]:
    return {
        f"{prefix}.{key}": {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
        for key, value in record.items()
    }


def second_of_oam(document: dict[str, Any]) -> tuple[str, str]:
    made: dict[str, tuple[str, str, list[int], bytes]] = {}
    for section in ("weights", "state"):
        for item in document[section]:
            name = oam_name(section, item["name"])
            shape = [int(extent) for extent in item["shape"]]
            made[name] = (item["dtype"], item["encoding"], shape, bytes.fromhex(item["data"]))
    facts = flat(document["config"], "config") | flat(document["progress"], "progress")
    optimizer = document["optimizer"]
    if optimizer is not None:
        record = {key: value for key, value in optimizer.items() if not key.endswith("_moment")}
        facts |= flat(record, "optimizer")
        for key in ("first_moment", "second_moment")[: 1 if optimizer["kind"] == "Muon" else 2]:
            payload = bytes.fromhex(optimizer[key])
            made[f"optimizer/{key}"] = ("f32", "dense", [len(payload) // 4], payload)
    return second(made, facts)


@settings(deadline=None, max_examples=50)
@given(oam_documents())
def test_second_implementation_oam(document: dict[str, Any]) -> None:
    made = of(encode(document))
    assert (made.tensors_digest, made.content_digest) == second_of_oam(document)


@settings(deadline=None, max_examples=50)
@given(ocannl_documents())
def test_second_implementation_ocannl(document: dict[str, Any]) -> None:
    data = encode(document)
    view = contents(data)
    made: dict[str, tuple[str, str, list[int], bytes]] = {}
    for name, item in zip(view.tensors, document["tensors"], strict=True):
        margins = item["padding"]["axes"] if item["padding"] else [["0", "0"]] * len(item["dims"])
        shape = [int(dim) - int(left) - int(right) for dim, (left, right) in zip(item["dims"], margins, strict=True)]
        scalar = OCANNL_PRECISIONS[item["precision"]]
        made[name] = (scalar.name, "dense", shape, bytes.fromhex(item["data"]))
    found = digest(view)
    assert (found.tensors_digest, found.content_digest) == second(made, view.facts)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 9 * PIECE + 5])
def test_second_implementation_pieces(size: int, tmp_path: Path) -> None:
    payload = Random(size).randbytes(size)
    arrays = {"x": np.frombuffer(payload, np.uint8), "y": np.arange(7, dtype="<i2")}
    safetensors.save(tmp_path / "x", arrays, {"k": "v"})
    expected = second(
        {"x": ("u8", "dense", [size], payload), "y": ("i16", "dense", [7], arrays["y"].tobytes())}, {"k": "v"}
    )
    with FileSource(tmp_path / "x") as source:
        made = digest(contents_of(source))
    assert (made.tensors_digest, made.content_digest) == expected
    made = of((tmp_path / "x").read_bytes())
    assert (made.tensors_digest, made.content_digest) == expected


def test_a_known_digest() -> None:
    made = of(safetensors.dumps(KNOWN, {"step": "12"}))
    assert made.tensors[0].digest == "f4ec473197de0a1c4309ecd442a295d3f591b66ae7a9feeeb201b77906e1f0f2"
    assert made.tensors_digest == "d7403afd886ac76181b03033b6c1403662a9eae7cda79a4e0268b3eba6e29751"
    assert made.content_digest == "db549c2e71b1d75252adc6879f55ce056d00c88c5b96c5a2cd69096ede07d858"


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What docs/digest.md shows is what happens, and its code gives the digests that it lists."""
    text = PAGE.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    safetensors.save("model.safetensors", KNOWN, {"step": "12"})
    (shown,) = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for part in shown.split("$ ")[1:]:
        command, _, printed = part.partition("\n")
        done = subprocess.run([*COMMAND, *command.split()[1:]], capture_output=True, text=True, check=False)
        assert done.stdout == printed, command
    made = of(Path("model.safetensors").read_bytes())
    for listed in (made.tensors[0].digest, made.tensors_digest, made.content_digest):
        assert text.count(listed) == 2
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    single = names["tensor_digest"]("f32", "dense", [2, 3], KNOWN["w"].tobytes())
    assert single == made.tensors[0].digest
    assert names["tensors_digest"]({"w": single}) == made.tensors_digest
    for scalar in SCALARS:
        assert f"`{scalar.name}`" in text


# ------------------------------------------------------------------------------------------------- what does not matter


@settings(deadline=None, max_examples=50)
@given(oam_documents(version=1), st.randoms(use_true_random=True))
def test_version_and_order_of_oam(document: dict[str, Any], random: Random) -> None:
    expected = of(encode(document))
    for version in (2, 3):
        assert of(encode(document | {"version": version})) == expected
    shuffled = dict(document)
    for section in ("weights", "state"):
        shuffled[section] = random.sample(document[section], len(document[section]))
    assert of(encode(shuffled)) == expected


def test_layout_of_oam() -> None:
    items = [T("a", "f32", (2,), bytes(range(8))), T("b", "u8", (3,), b"xyz")]
    parts: list[tuple[str | int, bytes]] = [("config", config()), ("weights", tensors(items)), ("progress", progress())]
    expected = of(bytes(assemble(parts).data))
    assert of(bytes(assemble(parts[::-1]).data)) == expected
    suite = load_suite()
    for name in ("gaps_v1", "gaps_v2", "gaps_v3", "bodies_reversed_v1", "bodies_reversed_v3", "blob_gap_between"):
        data = (VECTORS / suite.case(f"oam/{name}").file).read_bytes()
        assert of(data) == of(encode(decode(data) | {"version": 3})), name


@settings(deadline=None, max_examples=50)
@given(ocannl_layouts(), st.randoms(use_true_random=True))
def test_layout_of_ocannl(made: tuple[dict[str, Any], bytes, set[str]], random: Random) -> None:
    document, data, _ = made
    expected = of(data)
    order = random.sample(document["tensors"], len(document["tensors"]))
    for alignment in (1, 32, 100):
        assert of(encode(document | {"alignment": alignment, "tensors": order})) == expected


def test_order_of_appending(tmp_path: Path) -> None:
    nodes = [TensorNode(id=at, label=("w", str(at)), dims=(2,)) for at in range(3)]
    context = ocannl.Context({node: np.full(2, node.id, np.float32) for node in nodes})
    ocannl.save(context, nodes, tmp_path / "one")
    ocannl.save(context, nodes[2:], tmp_path / "two")
    ocannl.save(context, nodes[:2], tmp_path / "two", appending=True, alignment=8)
    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()
    assert of((tmp_path / "one").read_bytes()) == of((tmp_path / "two").read_bytes())


def framed(header: str, data: bytes) -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + data


def test_layout_of_safetensors() -> None:
    one = framed(
        '{"__metadata__":{"k":"v","j":"w"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
        '"b":{"dtype":"BF16","shape":[],"data_offsets":[3,5]}}',
        b"abcde",
    )
    other = framed(
        '{ "b" : {"shape": [], "data_offsets":[0,2], "dtype":"BF16"},\n\t"\\u0061":{"dtype":"U8","shape":[3],'
        '"data_offsets":[2,5]}, "__metadata__":{"j":"w","k":"v"}}   ',
        b"deabc",
    )
    assert of(one) == of(other)


def test_container() -> None:
    arrays = {"w": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.arange(3, dtype="<i8")}
    model = oam.Model(weights=arrays)
    nodes = [TensorNode(id=1, label=("w",), dims=(2, 3)), TensorNode(id=2, label=("b",), dims=(3,), precision="int64")]
    stored = [ocannl.Tensor(node=node, data=arrays[node.label[0]].tobytes()) for node in nodes]  # type: ignore[index]
    whole = [
        of(oam.dumps(model)),
        of(safetensors.dumps(arrays)),
        of(ocannl.to_bytes(ocannl.Checkpoint(tensors=stored))),
    ]
    assert len({made.tensors_digest for made in whole}) == 1
    assert whole[0].tensors == whole[1].tensors == whole[2].tensors


# --------------------------------------------------------------------------------------------------------- what matters


@settings(deadline=None, max_examples=50)
@given(oam_documents(), st.data())
def test_every_bit_matters(document: dict[str, Any], data: Any) -> None:
    places = [
        (section, at)
        for section in ("weights", "state")
        for at, item in enumerate(document[section])
        if item["data"] and item["dtype"] != "bool"
    ]
    if not places:
        return
    before = of(encode(document))
    section, at = data.draw(st.sampled_from(places))
    item = document[section][at]
    raw = bytearray.fromhex(item["data"])
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    item["data"] = raw.hex()
    after = of(encode(document))
    assert after.tensors_digest != before.tensors_digest
    changes = Changes.between(before, after)
    assert changes.changed == (oam_name(section, item["name"]),)
    assert not changes.new + changes.missing + changes.facts


def test_dtype_shape_encoding_name_and_facts_matter() -> None:
    array = np.zeros((2, 32), "<f4")
    base = oam.Model(weights={"w": array})
    quantized = {"q8": oam.quantize(base, "q8"), "q4": oam.quantize(base, "q4")}
    changed = [
        base,
        replace(base, weights={"w": array.view("<i4")}),
        replace(base, weights={"w": array.reshape(32, 2)}),
        replace(base, weights={"w": array.reshape(64)}),
        replace(base, weights={"v": array}),
        replace(base, state={"w": array}),
        replace(base, weights={}),
        replace(base, weights={}, state={"w": array}),
        *quantized.values(),
    ]
    assert len({of(oam.dumps(model)).tensors_digest for model in changed}) == len(changed)
    other = replace(base, progress=replace(base.progress, step=1))
    assert of(oam.dumps(other)).tensors_digest == of(oam.dumps(base)).tensors_digest
    assert of(oam.dumps(other)).content_digest != of(oam.dumps(base)).content_digest


# ---------------------------------------------------------------------------------------------------------------- names

PARTS = st.sampled_from(["weights/", "state/", "optimizer/", "first_moment", "second_moment", "x", "\n", "/"])


@settings(deadline=None, max_examples=50)
@given(st.lists(PARTS, max_size=5).map("".join))
def test_names_of_oam(name: str) -> None:
    assert oam_place(oam_name("weights", name)) == ("weights", name)
    assert oam_name(*oam_place(name)) == name
    if name:
        assert oam_place(oam_name("state", name)) == ("state", name)
    taken = {oam_name("state", name), "optimizer/first_moment", "optimizer/second_moment"} - {"state/"}
    assert oam_name("weights", name) not in taken


WORDS = st.sampled_from(["w", "ocannl:1", "a:2", "", ".", "\\xff", b"\xff", "w.h", "h"])
NODES = st.lists(
    st.tuples(
        st.sampled_from(["ocannl", "a", b"\xff", "\\xff", "a:2"]),
        st.integers(1, 3),
        st.lists(WORDS, max_size=2).map(tuple),
    ),
    max_size=8,
    unique_by=lambda node: node[:2],
)


@settings(deadline=None, max_examples=50)
@given(NODES, st.randoms(use_true_random=True))
def test_names_of_ocannl(parts: list[Any], random: Random) -> None:
    nodes = [TensorNode(namespace=namespace, id=number, label=label) for namespace, number, label in parts]
    made = dict(zip(nodes, ocannl_names(nodes), strict=True))
    assert len(set(made.values())) == len(nodes)
    random.shuffle(nodes)
    assert ocannl_names(nodes) == [made[node] for node in nodes]


# ---------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    arrays = {"w": np.arange(6, dtype="<f4"), "v\x1b[31m": np.zeros(2, "<f4")}
    oam.save("a.oam", oam.Model(weights=arrays))
    safetensors.save("a.safetensors", arrays)
    return tmp_path


def test_output(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "a.oam"]) == 0
    lines = capsys.readouterr().out.splitlines()
    made = of(Path("a.oam").read_bytes())
    assert lines[0] == f"{made.tensors[0].digest}  v\\x1b[31m"
    assert lines[-2] == f"tensors {made.tensors_digest}  2 tensors"
    assert lines[-1].startswith(f"content {made.content_digest}  these and ")
    assert main(["digest", "--json", "a.oam"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("file") == "a.oam"
    assert answer == manifest_of(made)
    done = subprocess.run([*COMMAND, "digest", "-"], input=Path("a.oam").read_bytes(), capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == lines


def test_manifest(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "a.oam", "--manifest", "m.json"]) == 0
    assert main(["digest", "a.oam", "--check", "m.json"]) == 0
    assert "matches: 2 tensors as in the manifest" in capsys.readouterr().out
    assert main(["digest", "a.safetensors", "--check", "m.json"]) == 1
    assert main(["digest", "a.safetensors", "--check", "m.json", "--tensors-only"]) == 0
    assert parse_manifest(Path("m.json").read_bytes()) == of(Path("a.oam").read_bytes())
    changed = {"w": np.ones(6, "<f4"), "new\n": np.zeros(1, "<f4")}
    oam.save("b.oam", oam.Model(weights=changed))
    capsys.readouterr()
    assert main(["digest", "b.oam", "--check", "m.json"]) == 1
    out = capsys.readouterr().out
    assert "does not match: 0 tensors as in the manifest, 1 changed, 1 missing, 1 new" in out
    assert out.splitlines()[1:] == ["  changed  w", "  missing  v\\x1b[31m", "  new      new\\n"]
    assert main(["digest", "--json", "b.oam", "--check", "m.json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "file": "b.oam",
        "matches": False,
        "changed": ["w"],
        "missing": ["v\x1b[31m"],
        "new": ["new\n"],
        "facts": [],
    }


def broken(key: str, value: Any) -> dict[str, Any]:
    made = manifest_of(of(safetensors.dumps({"w": np.zeros(2, "<f4")}, {"k": "v"})))
    target = made
    *path, last = key.split("/")
    for part in path:
        target = target[part]
    target[last] = value
    return made


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("format", "other", "format"),
        ("version", 2, "version"),
        ("version", True, "version"),
        ("extra", 1, "manifest"),
        ("tensors", [], "tensors"),
        ("facts", {"k": 1}, "facts['k']"),
        ("facts", {"k": "w"}, "content_digest"),
        ("tensors_digest", "00" * 32, "tensors_digest"),
        ("content_digest", "00" * 31, "content_digest"),
        ("tensors/w/digest", "0" * 63, "tensors['w'].digest"),
        ("tensors/w/digest", "AB" * 32, "tensors['w'].digest"),
        ("tensors/w/digest", "00" * 32, "tensors_digest"),
        ("tensors/w/shape", [2], "tensors['w'].shape[0]"),
        ("tensors/w/shape", ["02"], "tensors['w'].shape[0]"),
        ("tensors/w/more", 1, "tensors['w']"),
        ("tensors/w/dtype", None, "tensors['w'].dtype"),
        ("tensors/\ud800", {}, "tensors"),
    ],
)
def test_bad_manifests(key: str, value: Any, path: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_manifest(json.dumps(broken(key, value)).encode())
    assert caught.value.path == path


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b"[" * 100_000])
def test_no_manifests(text: bytes) -> None:
    with pytest.raises(ArgumentError):
        parse_manifest(text)


def test_files_that_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "missing"]) == 2
    assert main(["digest", "a.oam", "--check", "missing"]) == 2
    assert main(["digest", "a.oam", "--tensors-only"]) == 2
    assert main(["digest", "-", "--check", "-"]) == 2
    Path("text").write_text("hello")
    assert main(["digest", "text"]) == 1
    assert main(["digest", "a.oam", "--check", "text"]) == 1
    assert "ANY-FILE-FORMAT" in capsys.readouterr().err


def test_damaged_payload(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default no checksum is compared: the manifest tells which tensor is damaged. None is made of such a file."""
    assert main(["digest", "a.oam", "--manifest", "m.json"]) == 0
    data = bytearray(Path("a.oam").read_bytes())
    at = data.index(np.arange(6, dtype="<f4").tobytes())
    data[at] ^= 1
    Path("bad.oam").write_bytes(data)
    assert main(["digest", "bad.oam", "--check", "m.json"]) == 1
    assert "changed  w" in capsys.readouterr().out
    assert main(["digest", "bad.oam"]) == 0
    assert main(["digest", "bad.oam", "--verify"]) == 1
    assert main(["digest", "bad.oam", "--manifest", "n.json"]) == 1
    assert "OAM-SEC-CHECKSUM" in capsys.readouterr().err
    assert not Path("n.json").exists()


def refusal(read: Callable[[bytes], object], data: bytes) -> Finding | None:
    try:
        read(data)
    except FormatError as error:
        return error.finding
    return None


def test_all_vectors() -> None:
    """What a reader accepts has a digest; what it refuses raises the same finding."""
    for case in load_suite().cases:
        data = (VECTORS / case.file).read_bytes()
        finding = refusal(decode, data)
        assert refusal(lambda raw: contents(raw, verify=True), data) == finding, case.id
        if finding is not None:
            continue
        made = of(data)
        assert parse_manifest(json.dumps(manifest_of(made)).encode()) == made, case.id


def test_file_that_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.save(path, {"w": np.zeros(8 << 20, np.uint8)})
    with FileSource(path) as source:
        view = contents_of(source)
        with path.open("r+b") as file:
            file.truncate(5 << 20)
        with pytest.raises(OSError, match="became shorter"):
            digest(view)
