"""Comparing files: against a slow second implementation in Python numbers, across formats, in constant memory."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckptspec import oam, ocannl, safetensors
from ckptspec.cli import main
from ckptspec.compare import Comparison, Pair, compare
from ckptspec.contents import contents_of
from ckptspec.elements import Difference, Tolerance
from ckptspec.formats import recognise
from ckptspec.ocannl import TensorNode
from ckptspec.source import BufferSource, FileSource
from ckptspec.spec.dtypes import SAFETENSORS_DTYPES, numpy_type

NAN = math.nan
INF = math.inf
COMMAND = [sys.executable, "-m", "ckptspec"]


def against(one: bytes, other: bytes, **options: Any) -> Comparison:
    return compare(contents_of(BufferSource(one)), contents_of(BufferSource(other)), **options)


def pair_of(one: Any, other: Any, **options: Any) -> Pair | None:
    found = against(safetensors.dumps({"w": one}), safetensors.dumps({"w": other}), **options)
    return found.pairs[0] if found.pairs else None


def values(one: Any, other: Any, dtype: Any = "<f4", **options: Any) -> Difference:
    found = pair_of(np.asarray(one, dtype), np.asarray(other, dtype), **options)
    return found.values if found and found.values else Difference()


# --------------------------------------------------------------------------------------------------------------- values


def test_floats() -> None:
    found = values([1, 2, 3, 4], [1, 2.5, 3, 3])
    assert found == Difference(differing=2, outside=2, max_abs=1.0, max_rel=0.25, max_ulp=1 << 22, first=1, largest=3)
    assert values([[1, 2]], [[1, 2]]) == Difference()
    assert values([0.0], [-0.0]) == Difference(
        differing=1, outside=1, max_abs=0, max_rel=0, max_ulp=0, first=0, largest=0
    )
    tiny = np.finfo(np.float32).smallest_subnormal
    assert values([tiny], [-tiny]).max_ulp == 2
    assert values([tiny], [-tiny]).max_rel == 2
    assert values([3e38], [-3e38]).max_abs == float(np.float32(3e38)) * 2


def test_nan_and_infinity() -> None:
    assert values([NAN, 1], [NAN, 1]) == Difference()
    assert values([NAN, 1], [1, 1]) == Difference(differing=1, outside=1, nan=1, first=0)
    found = values([NAN, 1, INF, INF], [1, NAN, INF, -INF])
    assert (found.differing, found.nan, found.max_abs, found.max_rel, found.largest) == (3, 2, INF, INF, 3)
    assert found.max_ulp == 2 * 0x7F800000
    other = np.array([0x7FC00001], "<u4").view("<f4")
    assert values([NAN], other) == Difference(differing=1, outside=1, nan=1, first=0)


def test_integers() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    assert values([low], [high], "<i8") == Difference(differing=1, outside=1, max_abs=(1 << 64) - 1, first=0, largest=0)
    assert values([0, 5], [(1 << 64) - 1, 5], "<u8").max_abs == (1 << 64) - 1
    assert values([-128, 0], [127, 1], "i1").max_abs == 255
    assert values([True, False], [True, True], "?").differing == 1
    large = (1 << 63) + 1  # bounds are exact, also beyond what a float can tell apart
    for bound, outside in ((0.5, 1), (float(1 << 63), 1), (INF, 0)):
        assert values([0], [large], "<u8", tolerance=Tolerance(atol=bound)).outside == outside


def test_complex() -> None:
    found = values([1 + 1j, 5j], [1 + 1j, 3 + 1j], "<c8")
    assert (found.differing, found.max_abs, found.largest) == (1, 5.0, 1)
    assert values([complex(NAN, 1)], [complex(1, NAN)], "<c8").nan == 1
    assert values([complex(INF, 1)], [complex(INF, 2)], "<c8").max_abs == INF


FLOATS = ["F32", "F64", "F16", "BF16", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ"]


def ranks(kind: str) -> dict[int, int]:
    """Return the place of each bit pattern of a small float among the values, by sorting all."""
    dtype = numpy_type(SAFETENSORS_DTYPES[kind])
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"<u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        numbers = bits.view(dtype).astype(np.float64)
    places = {value: at for at, value in enumerate(sorted(set(numbers[~np.isnan(numbers)].tolist())))}
    return {int(bit): places[value] for bit, value in zip(bits, numbers.tolist(), strict=True) if value == value}


RANKS = {kind: ranks(kind) for kind in FLOATS if numpy_type(SAFETENSORS_DTYPES[kind]).itemsize < 3}


def ordered(bits: int, width: int) -> int:
    top = 1 << (width - 1)
    return top - bits if bits & top else bits


def expected(kind: str, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], tolerance: Tolerance) -> Difference:
    """Return what the comparison must find, element by element."""
    width = 8 * one.itemsize
    bits = [array.view(f"<u{one.itemsize}").tolist() for array in (one, other)]
    with np.errstate(invalid="ignore"):
        numbers = [array.astype(np.float64).tolist() for array in (one, other)]
    made: dict[str, Any] = dict.fromkeys(("differing", "outside", "nan"), 0)
    made |= dict.fromkeys(("max_abs", "max_rel", "max_ulp", "first", "largest"))
    for at, (p, q, x, y) in enumerate(zip(*bits, *numbers, strict=True)):
        if p == q:
            continue
        made["differing"] += 1
        made["first"] = at if made["first"] is None else made["first"]
        if math.isnan(x) or math.isnan(y):
            made["nan"] += 1
            made["outside"] += 1
            continue
        gap = abs(x - y)
        most = max(abs(x), abs(y))
        ratio = INF if math.isinf(gap) and math.isinf(most) else gap / most if most else 0.0
        ulps = abs(RANKS[kind][p] - RANKS[kind][q]) if kind in RANKS else abs(ordered(p, width) - ordered(q, width))
        if kind in ("F16", "BF16"):
            assert ulps == abs(ordered(p, width) - ordered(q, width))
        made["outside"] += not (
            tolerance and (gap <= tolerance.atol or ratio <= tolerance.rtol or ulps <= tolerance.ulp)
        )
        if made["max_abs"] is None or gap > made["max_abs"]:
            made["max_abs"], made["largest"] = gap, at
        made["max_rel"] = max(made["max_rel"] or 0.0, ratio)
        made["max_ulp"] = max(made["max_ulp"] or 0, ulps)
    return Difference(**made)


TOLERANCES = st.builds(
    Tolerance,
    atol=st.sampled_from([0.0, 1e-3, 0.5, 1e30, INF]),
    rtol=st.sampled_from([0.0, 1e-6, 0.1, 1.0]),
    ulp=st.sampled_from([0, 1, 100, 1 << 40]),
)


@st.composite
def pairs(draw: Any) -> tuple[str, Any, Any]:
    kind = draw(st.sampled_from(FLOATS))
    dtype = numpy_type(SAFETENSORS_DTYPES[kind])
    number = draw(st.integers(1, 12))
    one = bytearray(draw(st.binary(min_size=number * dtype.itemsize, max_size=number * dtype.itemsize)))
    other = bytearray(one)
    if draw(st.booleans()):
        other = bytearray(draw(st.binary(min_size=len(one), max_size=len(one))))
    else:
        for at in draw(st.lists(st.integers(0, len(one) - 1), max_size=4)):
            other[at] ^= draw(st.sampled_from([1, 2, 0x80, 0xFF]))
    special = draw(st.sampled_from([None, 0.0, -0.0, INF, NAN]))
    if special is not None:
        with np.errstate(all="ignore"):
            one[: dtype.itemsize] = np.array([special], np.float64).astype(dtype).tobytes()
    return kind, *(np.frombuffer(bytes(raw), np.uint8).view(dtype) for raw in (one, other))


@settings(max_examples=400, deadline=None)
@given(pairs(), TOLERANCES)
def test_against_python_numbers(made: tuple[str, Any, Any], tolerance: Tolerance) -> None:
    kind, one, other = made
    raw = [safetensors.dumps({"w": safetensors.Tensor(dtype=kind, shape=x.shape, data=x.tobytes())}) for x in made[1:]]
    assume(all(recognise(BufferSource(data)) == "safetensors" for data in raw))  # "(tensors" among the bytes
    found = against(raw[0], raw[1], tolerance=tolerance)
    expect = expected(kind, one, other, tolerance)
    assert (found.pairs[0].values if found.pairs else Difference()) == expect
    assert found.differ == (expect.outside > 0 if tolerance else expect.differing > 0)


@pytest.mark.parametrize("kind", FLOATS[:4])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 3.0])
def test_large_against_numpy(kind: str, noise: float, tmp_path: Path) -> None:
    """Several pieces on several threads, with few and with many differences."""
    dtype = numpy_type(SAFETENSORS_DTYPES[kind])
    random = np.random.default_rng(5)
    number = 3_000_001
    one = random.standard_normal(number).astype(dtype)
    other = (one.astype(np.float64) * (1 + noise * random.standard_normal(number))).astype(dtype)
    other[2_000_000] = one[2_000_000] + dtype.type(8)
    safetensors.save(tmp_path / "a", {"x": np.zeros(1, np.uint8), "w": one})
    safetensors.save(tmp_path / "b", {"w": other, "x": np.zeros(1, np.uint8)})
    with FileSource(tmp_path / "a") as a, FileSource(tmp_path / "b") as b:
        found = compare(contents_of(a), contents_of(b))
    (pair,) = found.pairs
    assert pair.values is not None
    wide = [array.astype(np.float64) for array in (one, other)]
    unequal = one.view(f"u{dtype.itemsize}") != other.view(f"u{dtype.itemsize}")
    gaps = np.abs(wide[0] - wide[1])
    with np.errstate(invalid="ignore"):
        ratios = np.nan_to_num(gaps / np.maximum(np.abs(wide[0]), np.abs(wide[1])))
    assert pair.values.differing == np.count_nonzero(unequal)
    assert pair.values.first == np.flatnonzero(unequal)[0]
    assert pair.values.max_abs == gaps.max()
    assert pair.values.largest == np.argmax(gaps)
    assert pair.values.max_rel == ratios.max()
    signed = [array.view(f"i{dtype.itemsize}").astype(object) for array in (one, other)]
    top = 1 << (8 * dtype.itemsize - 1)
    some = np.flatnonzero(unequal)[:2000]
    places = [[x if x >= 0 else -top - x for x in part[some]] for part in signed]
    least = max(abs(x - y) for x, y in zip(*places, strict=True))
    assert pair.values.max_ulp is not None
    assert pair.values.max_ulp >= least


# ---------------------------------------------------------------------------------------------------------- other types


def test_widening() -> None:
    one = np.array([1, 2.5, NAN, INF], "<f4")
    found = pair_of(one, one.astype("<f8"))
    assert found is not None
    assert found.dtype_changed
    assert found.values == Difference()
    found = pair_of(one, one.astype(ml_dtypes.bfloat16) + ml_dtypes.bfloat16(1))
    assert found is not None
    assert found.values == Difference(differing=2, outside=2, max_abs=1.0, max_rel=0.5, first=0, largest=0)
    low = np.array([-1, 3], "<i8")
    assert pair_of(low, np.array([-1, 4], "<i4")).values.max_abs == 1  # type: ignore[union-attr]
    assert pair_of(low, low.astype("<u8")).values is None  # type: ignore[union-attr]
    assert pair_of(low, low.astype("<f8")).values is None  # type: ignore[union-attr]
    assert pair_of(np.array([3], "<u8"), np.array([5], "u1")).values.max_abs == 2  # type: ignore[union-attr]
    assert pair_of(np.array([1], "<c8"), np.array([1], "<f4")).values == Difference()  # type: ignore[union-attr]
    assert pair_of(np.array([1], "?"), np.array([1], "<f4")).values == Difference()  # type: ignore[union-attr]


def test_shapes_and_dtypes_count() -> None:
    a, b = np.zeros((2, 3), "<f4"), np.zeros((3, 2), "<f4")
    one, other = safetensors.dumps({"w": a}), safetensors.dumps({"w": b})
    found = against(one, other, tolerance=Tolerance(atol=1.0), dtypes=False)
    assert found.differ
    assert found.pairs[0].shape_changed
    wide = safetensors.dumps({"w": a.astype("<f8")})
    assert against(one, wide).differ
    assert against(one, wide, tolerance=Tolerance(atol=1.0)).differ
    assert not against(one, wide, dtypes=False).differ
    ints = safetensors.dumps({"w": a.astype("<i8")})
    assert against(wide, ints, dtypes=False).differ  # no type holds the values of both
    assert not against(wide, ints, dtypes=False, values=False).differ
    assert against(wide, ints, values=False).differ


def test_quantized() -> None:
    random = np.random.default_rng(3)
    dense = oam.Model(weights={"w": random.standard_normal((700, 301)).astype("<f4")})
    files = {encoding: oam.dumps(oam.quantize(dense, encoding)) for encoding in ("q4", "q8")}
    values = {key: oam.loads(raw).weights["w"].dequantize() for key, raw in files.items()}
    for key, raw in files.items():
        found = against(oam.dumps(dense), raw, facts=False).pairs[0]
        assert found.dtype_changed
        gaps = np.abs(dense.weights["w"].astype(np.float64) - values[key])
        assert found.values is not None
        assert found.values.max_abs == gaps.max()
        assert found.values.largest == np.argmax(gaps)
        assert found.values.differing == np.count_nonzero(gaps)
        assert against(raw, raw).differ is False
    between = against(files["q4"], files["q8"], facts=False).pairs[0].values
    assert between is not None
    assert between.max_abs == np.abs(values["q4"].astype(np.float64) - values["q8"]).max()


def test_quantized_blocks() -> None:
    """Bytes behind the last element differ, and no value does; then a scale does."""
    model = oam.quantize(oam.Model(weights={"w": np.ones((3, 11), "<f4")}), "q8")
    tensor: Any = model.weights["w"]
    payload, scales = tensor.payload.copy(), tensor.scales.copy()
    payload[-1, -1] = 5
    other = oam.Model(weights={"w": replace(tensor, payload=payload)})
    found = against(oam.dumps(model), oam.dumps(other))
    assert found.pairs[0].stored
    assert found.pairs[0].values == Difference()
    assert found.differ
    assert not against(oam.dumps(model), oam.dumps(other), tolerance=Tolerance(ulp=1)).differ
    scales[1] = 2
    other = oam.Model(weights={"w": replace(tensor, scales=scales)})
    assert against(oam.dumps(model), oam.dumps(other)).pairs[0].values.first == 32  # type: ignore[union-attr]


def test_packed_and_lanes() -> None:
    def packed(data: bytes, dtype: str = "F4") -> bytes:
        return safetensors.dumps({"w": safetensors.Tensor(dtype=dtype, shape=(4,), data=data)})

    found = against(packed(b"ab"), packed(b"ac"))
    assert found.differ
    assert found.pairs[0].stored
    assert found.pairs[0].values is None
    assert not against(packed(b"ab"), packed(b"ab")).pairs
    assert against(packed(b"ab"), packed(b"abc", "F6_E2M3")).pairs[0].values is None
    wide = safetensors.dumps({"w": np.zeros(4, "<i8")})
    assert against(packed(b"ab"), wide).pairs[0].values is None

    def lanes(numbers: list[int]) -> bytes:
        node = TensorNode(id=1, label=("w",), precision="uint4x32", dims=(2,))
        return ocannl.to_bytes(ocannl.Checkpoint(tensors=[ocannl.Tensor(node=node, data=struct.pack("<8I", *numbers))]))

    made = against(lanes([0] * 8), lanes([0, 0, 0, 0, 0, 7, 0, 9])).pairs[0].values
    assert made == Difference(differing=1, outside=1, max_abs=9, first=1, largest=1)
    void = TensorNode(id=1, label=("w",), precision="void", dims=(2,))
    file = ocannl.to_bytes(ocannl.Checkpoint(tensors=[ocannl.Tensor(node=void, data=b"")]))
    assert not against(file, file).differ
    assert against(file, lanes([0] * 8)).differ


# ------------------------------------------------------------------------------------------------------ names and facts


def test_names_across_formats() -> None:
    arrays = {"w": np.arange(6, dtype="<f4"), "state/s": np.arange(2, dtype="<f4")}
    model = oam.Model(weights={"w": arrays["w"]}, state={"s": arrays["state/s"]})
    found = against(oam.dumps(model), safetensors.dumps(arrays, {"k": "v"}))
    assert not found.differ
    assert found.compared == 2
    assert found.facts_added == ("k",)
    assert found.facts_removed
    found = against(safetensors.dumps(arrays, {"k": "v"}), safetensors.dumps(arrays, {"k": "w", "l": ""}))
    assert (found.facts_changed, found.facts_added, found.facts_removed) == (("k",), ("l",), ())
    assert found.differ
    assert not against(safetensors.dumps(arrays, {"k": "v"}), safetensors.dumps(arrays), facts=False).differ


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    arrays = {"layers.0.w": np.arange(6, dtype="<f4").reshape(2, 3), "gone\x1b[2J": np.zeros(2, "<i4")}
    oam.save("a.oam", oam.Model(weights=arrays))
    other = arrays["layers.0.w"].copy()
    other[1, 1] = 5
    made = oam.Model(weights={"layers.0.w": other, "new": np.zeros((), "<f8")}, progress=oam.Progress(step=7))
    oam.save("b.oam", made)
    safetensors.save("a.safetensors", arrays)
    return tmp_path


def test_output(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a.oam", "b.oam"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "- a.oam: .oam version 3, 2 tensors",
        "+ b.oam: .oam version 3, 2 tensors",
        "-  gone\\x1b[2J  i32 2       removed",
        "+  new          f64 scalar  added",
        "~  layers.0.w   f32 2 x 3   1 of 6 elements differs, first at [1, 1]; max abs 1 at [1, 1]; max rel 0.2;"
        " max 2097152 ULP",
        "~  fact progress.step  0 -> 7",
        "different: 1 common tensor compared, 1 removed, 1 added, 1 changed, 1 fact changed",
    ]
    assert main(["diff", "a.oam", "a.oam"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "equal: 2 common tensors compared"
    assert main(["diff", "a.oam", "a.safetensors"]) == 0
    assert "facts of one file alone" in capsys.readouterr().out


def test_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--json", "a.oam", "b.oam"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["differ"] is True
    assert answer["a"] == {"file": "a.oam", "format": "oam", "version": 3, "tensors": 2}
    assert [item["name"] for item in answer["removed"]] == ["gone\x1b[2J"]
    assert answer["added"] == [{"name": "new", "dtype": "f64", "shape": [], "encoding": "dense"}]
    assert answer["changed"][0]["values"] == {
        "differing": 1,
        "outside_tolerance": 1,
        "nan": 0,
        "max_abs": 1.0,
        "max_rel": 0.2,
        "max_ulp": 1 << 21,
        "first": [1, 1],
        "largest": [1, 1],
    }
    assert answer["facts"]["changed"] == {"progress.step": {"a": "0", "b": "7"}}
    oam.save("c.oam", oam.Model(weights={"layers.0.w": np.full((2, 3), INF, "<f4")}))
    assert main(["diff", "--json", "a.oam", "c.oam"]) == 1

    def refuse(name: str) -> None:
        raise AssertionError(name)

    answer = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert answer["changed"][0]["values"]["max_abs"] == "inf"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--only", "layers.*", "--atol", "1"], 0),
        (["--only", "layers.*", "--atol", "0.9"], 1),
        (["--only", "layers.*", "--rtol", "0.21"], 0),
        (["--only", "layers.*", "--ulp", "2097152", "--names-only"], 0),
        (["--only", "layers.*", "--ulp", "2097152"], 0),
        (["--only", "layers.*", "--ulp", "2097151"], 1),
        (["--only", "nothing"], 2),
        (["--only", "new"], 1),
        (["--only", "layers.*", "--only", "new"], 1),
        (["--names-only"], 1),
        (["--atol", "-1"], 2),
        (["--rtol", "nan"], 2),
        (["--ulp", "-1"], 2),
    ],
)
def test_options(files: Path, options: list[str], status: int) -> None:
    assert main(["diff", "a.oam", "b.oam", *options]) == status


def test_files_that_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a.oam", "missing"]) == 2
    assert main(["diff", "-", "-"]) == 2
    Path("text").write_text("hello")
    assert main(["diff", "a.oam", "text"]) == 1
    error = capsys.readouterr().err
    assert "text: " in error
    assert "ANY-FILE-FORMAT" in error
    done = subprocess.run([*COMMAND, "diff", "a.oam", "-"], input=Path("a.oam").read_bytes(), capture_output=True)
    assert done.returncode == 0


def test_damaged_payload(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(Path("a.oam").read_bytes())
    data[data.index(np.arange(6, dtype="<f4").tobytes())] ^= 1
    Path("bad.oam").write_bytes(data)
    assert main(["diff", "a.oam", "bad.oam"]) == 1
    assert "first at [0, 0]" in capsys.readouterr().out
    assert main(["diff", "--verify", "a.oam", "bad.oam"]) == 1
    assert "OAM-SEC-CHECKSUM" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------- size and number

_CHILD = """
import sys, threading
from ckptspec.conformance.bench.timing import anonymous_memory
from ckptspec.contents import contents_of
from ckptspec.compare import compare
from ckptspec.digest import digest
from ckptspec.source import FileSource
most = 0
stop = threading.Event()
def watch():
    global most
    while not stop.wait(0.01):
        most = max(most, anonymous_memory())
with FileSource(sys.argv[1]) as a, FileSource(sys.argv[2]) as b:
    one, other = contents_of(a), contents_of(b)
    before = anonymous_memory()
    thread = threading.Thread(target=watch)
    thread.start()
    digest(one)
    found = compare(one, other)
    stop.set()
    thread.join()
print(most - before, found.pairs[0].values.differing)
"""


def test_constant_memory(tmp_path: Path) -> None:
    """Two sparse files of 600 MB: one element in the middle differs, and a stretch at the end."""
    size = 600 << 20
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    for name in ("a", "b"):
        with (tmp_path / name).open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)
            if name == "b":
                file.seek(8 + len(header) + size // 2)
                file.write(b"\1")
                file.seek(8 + len(header) + size - (16 << 20))
                file.write(b"\1" * (16 << 20))
    arguments = [sys.executable, "-c", _CHILD, str(tmp_path / "a"), str(tmp_path / "b")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    grown, differing = map(int, done.stdout.split())
    assert differing == 1 + (4 << 20)
    assert grown < 40e6


def test_many_tensors(tmp_path: Path) -> None:
    number = 100_000
    entries = {f"t{at}": {"dtype": "U8", "shape": [8], "data_offsets": [8 * at, 8 * at + 8]} for at in range(number)}
    header = json.dumps(entries).encode()
    payload = bytearray(np.arange(number, dtype="<u8").tobytes())
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + payload)
    payload[8 * 777] ^= 1
    (tmp_path / "b").write_bytes(len(header).to_bytes(8, "little") + header + payload)
    with FileSource(tmp_path / "a") as a, FileSource(tmp_path / "b") as b:
        found = compare(contents_of(a), contents_of(b))
    assert [pair.name for pair in found.pairs] == ["t777"]
    assert found.compared == number
