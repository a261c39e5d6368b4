"""Reading and writing ``.oam`` files in Python: arrays, their lifetime, what a writer refuses, salvage."""

from __future__ import annotations

import gc
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckptspec import ArgumentError, FormatError, QuantizedTensor, load, loads, oam, save, validate
from ckptspec.arrays import byte_blocks
from ckptspec.conformance.bench.timing import anonymous_memory
from ckptspec.conformance.cases.assemble import T, assemble, config, progress, tensors
from ckptspec.conformance.catalogue import load_suite
from ckptspec.findings import Survivor
from ckptspec.oam import Config, Model, Optimizer, Progress, Tensor
from ckptspec.quantization import quantize_array
from ckptspec.source import BufferSource, FileSource
from ckptspec.spec.dtypes import OAM_DTYPES, numpy_type

SUITE = load_suite()


def case(name: str) -> bytes:
    return SUITE.case(f"oam/{name}").read()


# ------------------------------------------------------------------------------------------------------------- reading


def test_arrays_are_read_only_views_and_copies_are_writable(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    path.write_bytes(case("golden_weights"))
    array = load(path).weights["w"]
    assert not array.flags.writeable
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    copy = array.copy()
    copy[0] = 7
    assert copy.flags.writeable
    assert array[0, 0] != 7


def test_loads_gives_views_of_the_bytes_that_cannot_be_written_through() -> None:
    data = bytearray(case("golden_weights"))
    array = loads(data).weights["w"]
    assert not array.flags.writeable
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))


def test_arrays_outlive_model_file_and_replacement(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    save(path, Model(weights={"w": np.arange(1000, dtype=np.float32)}, optimizer=Optimizer()))
    model = load(path)
    array, lazy = model.weights["w"], model
    save(path, Model(weights={"w": np.zeros(1000, np.float32)}))
    del model
    gc.collect()
    assert array.tolist() == list(range(1000))
    assert lazy.weights["w"].tolist() == list(range(1000))  # made only now
    assert load(path).weights["w"].sum() == 0
    path.unlink()
    assert array[999] == 999


@pytest.mark.parametrize("name", OAM_DTYPES)
def test_every_dtype_is_a_numpy_array(name: str) -> None:
    array = loads(case(f"golden_dtype_{name}")).weights["w"]
    assert array.dtype == numpy_type(OAM_DTYPES[name])
    assert array.shape == (3,)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert loads(case("golden_dtype_bf16")).weights["w"].dtype == ml_dtypes.bfloat16


def test_scalars_stay_scalars_and_empty_stays_empty() -> None:
    scalar = loads(case("golden_rank_0")).weights["w"]
    assert scalar.shape == ()
    assert loads(oam.dumps(Model(weights={"w": scalar}))).weights["w"].shape == ()
    assert loads(oam.dumps(Model(weights={"w": np.float32(3)}))).weights["w"][()] == 3
    assert loads(case("golden_zero_rank_8")).weights["empty"].shape == (1, 2, 3, 0, 5, 6, 7, 8)
    assert loads(case("golden_odd_alignment")).weights["b"].tobytes() == bytes(range(1, 17))


def test_a_shape_that_numpy_cannot_hold() -> None:
    weights = loads(case("golden_zero_then_2_63")).weights
    with pytest.raises(ArgumentError, match="tensor 'empty': numpy cannot hold the shape"):
        weights["empty"]
    assert isinstance(weights, oam.TensorMap)
    stored = weights.stored("empty")
    assert (stored.shape, bytes(stored.data)) == ((0, 1 << 63), b"")
    assert oam.dumps(loads(case("golden_zero_then_2_63"))) == case("golden_zero_then_2_63")


def test_tensor_map_is_a_mapping() -> None:
    weights = loads(case("golden_many_tensors")).weights
    assert list(weights)[:2] == ["layer.0.weight", "layer.1.weight"]
    assert len(weights) == 64
    assert "layer.63.weight" in weights
    assert weights.get("nope") is None
    with pytest.raises(KeyError, match="nope"):
        weights["nope"]


def test_signalling_nans_survive() -> None:
    data = case("golden_optimizer_signalling_nan")
    optimizer = loads(data).optimizer
    assert optimizer is not None
    assert isinstance(optimizer.beta1, np.float32)
    assert np.asarray(optimizer.beta1).view(np.uint32) == 0x7F800001
    assert oam.dumps(loads(data)) == data


def test_verification_can_be_left_out() -> None:
    for name, rule in (
        ("bad_payload_weights_v3", "OAM-SEC-CHECKSUM"),
        ("bad_manifest_zero", "OAM-HDR-CHECKSUM"),
        ("bad_xor_zero", "OAM-HDR-XOR"),
    ):
        with pytest.raises(FormatError) as caught:
            loads(case(name))
        assert caught.value.rule == rule
        assert loads(case(name), verify=False).weights["w"].shape == (2, 3)


def test_opening_touches_no_payload(tmp_path: Path) -> None:
    """A payload that is a hole of a sparse file, larger than memory could be, is opened and looked into."""
    path = tmp_path / "big.oam"
    _sparse(path, 1 << 40)
    model = load(path, verify=False)
    assert model.weights["w"].shape == (1 << 40,)
    assert model.weights["w"][1 << 39] == 0


def _sparse(path: Path, elements: int) -> None:
    """Write a file whose only weight is a hole of ``elements`` bytes; its payload checksum is not the right one."""
    image = assemble([("config", config()), ("weights", tensors([T("w", "u8", (0,), b"")])), ("progress", progress())])
    start = image.section("weights")[0] + image.section("weights")[1]
    body = bytes(image.data[slice(*(image.section("progress")[0], sum(image.section("progress"))))])
    end = start + elements + (-(elements + 224) % 4096)
    image.set("weights[0].num_bytes", elements).set("weights[0].shape[0]", elements)
    image.set("sections[1].size", 224 + elements).set("sections[2].offset", end).set(
        "header.total_size", end + len(body)
    )
    with path.open("wb") as file:
        file.write(image.data[:start])
        file.seek(end)
        file.write(body)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    path.write_bytes(case("golden_weights"))
    source = FileSource(path)
    os.truncate(path, 5000)
    with pytest.raises(OSError, match="became shorter"):
        oam.read(source)
    with pytest.raises(OSError, match="became shorter"):
        oam.validate(source)
    source.close()


def test_messages_name_file_and_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    path.write_bytes(case("bad_bytes_short"))
    with pytest.raises(FormatError) as caught:
        load(path)
    error = caught.value
    assert str(error) == (
        f"{path}: OAM-TEN-BYTES at byte 4348 (0x10fc), weights[0].num_bytes: found 4, expected 8, as dense f32 of "
        "shape [2] takes. A tensor's byte count MUST be the one that shape, dtype and encoding give. The tensor is 'w'."
    )
    assert (error.rule, error.offset, error.length, error.path) == ("OAM-TEN-BYTES", 4348, 8, "weights[0].num_bytes")


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "Git LFS pointer"),
        (b"<!doctype html><html>", "HTML page"),
        (b"PK\x03\x04" + bytes(40), "ZIP archive"),
        (b"plain words", "text"),
        (bytes(100), "zero bytes"),
    ],
)
def test_other_content_is_called_what_it_is(head: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        loads(head)
    (finding,) = validate(head)
    assert finding.rule == "ANY-FILE-FORMAT"
    assert what in finding.found


# ------------------------------------------------------------------------------------------------------------- writing


def _layouts() -> dict[str, Any]:
    plain = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    read_only = plain.copy()
    read_only.flags.writeable = False
    return {
        "plain": plain,
        "fortran": np.asfortranarray(plain),
        "strided": np.repeat(plain, 2, axis=1)[:, ::2],
        "reversed": plain[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "transposed": plain.transpose(2, 0, 1).copy().transpose(1, 2, 0),
        "big_endian": plain.astype(">f4"),
        "read_only": read_only,
    }


@pytest.mark.parametrize("layout", _layouts())
def test_arrays_are_written_by_value(layout: str) -> None:
    plain = oam.dumps(Model(weights={"w": _layouts()["plain"]}))
    assert oam.dumps(Model(weights={"w": _layouts()[layout]})) == plain


def test_broadcast_arrays_are_written_by_value() -> None:
    wide = np.broadcast_to(np.float32(5), (3, 2))
    assert loads(oam.dumps(Model(weights={"w": wide}))).weights["w"].tolist() == [[5, 5]] * 3


def test_big_endian_nans_keep_their_bits() -> None:
    bits = np.array([0x7F800001, 0xFFC12345], np.uint32)
    big = np.frombuffer(bits.byteswap().tobytes(), ">f4")
    assert b"".join(byte_blocks(big)) == bits.tobytes()


def test_blocks_of_a_large_strided_array_are_small() -> None:
    wide = np.zeros((1 << 12, 1 << 12), np.uint8)
    wide[5, 7] = 9
    blocks = list(byte_blocks(wide.T))
    assert sum(block.nbytes for block in blocks) == wide.nbytes
    assert max(block.nbytes for block in blocks) <= 1 << 22
    assert b"".join(blocks) == wide.T.tobytes()
    (whole,) = byte_blocks(wide)
    assert np.shares_memory(np.frombuffer(whole, np.uint8), wide)  # a contiguous array is not copied


def test_anything_with_an_array_interface() -> None:
    class Foreign:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            return np.arange(3, dtype=np.int16)

    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            raise RuntimeError("on another device")

    assert loads(oam.dumps(Model(state={"s": Foreign()}))).state["s"].tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match=r"state\['s'\]: Broken does not convert to an array: on another device"):
        oam.dumps(Model(state={"s": Broken()}))


def _one(value: Any, name: Any = "w") -> Callable[[], Model]:
    return lambda: Model(weights={name: value})


F = np.zeros(1, np.float32)
Q = quantize_array(np.ones((2, 2), np.float32), "q4")
B = 10**5000  # more digits than Python turns into text


def _stored(**parts: Any) -> Callable[[], Model]:
    return _one(Tensor(**{"dtype": "f32", "shape": (2,), "encoding": "dense", "data": bytes(8), **parts}))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "name_empty": (_one(F, ""), r"weights\[''\]: is empty"),
    "name_long": (_one(F, "é" * 64), "takes 128 bytes, at most 127 fit"),
    "name_nul": (_one(F, "a\0"), "has a NUL"),
    "name_surrogate": (_one(F, "a\ud800"), "lone surrogate"),
    "name_number": (_one(F, 3), "weights: found 3, expected text"),
    "name_twice": (lambda: Model(weights=[("w", F), ("w", F)]), r"weights\['w'\]: the name occurs twice"),  # type: ignore[arg-type]
    "rank_9": (_one(np.zeros((1,) * 9, np.float32)), "rank 9 is more than 8"),
    "list": (_one([1.0]), "found list, expected an array"),
    "none": (_one(None), "found NoneType, expected an array"),
    "text": (_one(np.array(["a"])), "dtype <U1 is none of"),
    "objects": (_one(np.array([None])), "dtype object is none of"),
    "longdouble": (_one(np.zeros(1, np.longdouble)), "is none of f32"),
    "float8": (_one(np.zeros(1, ml_dtypes.float8_e5m2)), "is none of f32"),
    "masked": (_one(np.ma.masked_array([1.0], [True])), "would lose its mask"),
    "state_quantized": (lambda: Model(state={"s": Q}), "only weights can be quantized"),
    "stored_bytes": (
        _one(Tensor(dtype="f32", shape=(2,), encoding="dense", data=b"1234")),
        "found 4 bytes, expected 8",
    ),
    "stored_dtype": (_one(Tensor(dtype="f8", shape=(), encoding="dense", data=b"")), "dtype 'f8' is none of"),
    "stored_encoding": (_one(Tensor(dtype="f32", shape=(), encoding="q5", data=b"")), "encoding 'q5' is none of"),
    "stored_extent": (_one(Tensor(dtype="f32", shape=(-1,), encoding="dense", data=b"")), "extent -1 is not within"),
    "architecture_long": (lambda: Model(config=Config(architecture="a" * 32)), "config.architecture: .* at most 31"),
    "architecture_type": (lambda: Model(config=Config(architecture=b"a")), "expected text"),  # type: ignore[arg-type]
    "d_model": (lambda: Model(config=Config(d_model=1 << 32)), "config.d_model: 4294967296 is not within"),
    "d_model_bool": (lambda: Model(config=Config(d_model=True)), "expected an integer"),
    "d_model_float": (lambda: Model(config=Config(d_model=1.0)), "expected an integer"),  # type: ignore[arg-type]
    "dtype": (lambda: Model(config=Config(weight_dtype="float32")), "config.weight_dtype: found 'float32'"),
    "arch_config": (lambda: Model(config=Config(arch_config="x")), "expected contiguous bytes"),  # type: ignore[arg-type]
    "arch_config_int": (lambda: Model(config=Config(arch_config=9)), "expected contiguous bytes"),  # type: ignore[arg-type]
    "metric": (lambda: Model(progress=Progress(metric_name="m" * 32)), "progress.metric_name"),
    "phase": (lambda: Model(progress=Progress(phase=256)), "progress.phase: 256 is not within 0 to 255"),
    "step": (lambda: Model(progress=Progress(step=1 << 63)), "progress.step"),
    "counter": (lambda: Model(progress=Progress(bytes_seen=-1)), "progress.bytes_seen: -1"),
    "float_large": (lambda: Model(progress=Progress(best_metric=1e39)), "does not fit into 32 bits"),
    "float_huge": (lambda: Model(progress=Progress(best_metric=10**400)), "does not fit into 32 bits"),
    "float_text": (lambda: Model(progress=Progress(best_metric="1")), "expected a number"),  # type: ignore[arg-type]
    "bool_int": (lambda: Model(progress=Progress(lower_is_better=1)), "expected a bool"),  # type: ignore[arg-type]
    "kind": (lambda: Model(optimizer=Optimizer(kind="Lion")), "optimizer.kind: found 'Lion', expected one of SGD"),
    "moments": (lambda: Model(optimizer=Optimizer(first_moment=F)), "found 0 elements, the first moment has 1"),
    "muon": (lambda: Model(optimizer=Optimizer(kind="Muon", first_moment=F, second_moment=F)), "has no second moment"),
    "moment_dtype": (
        lambda: Model(optimizer=Optimizer(first_moment=F.astype(np.float64))),
        "optimizer.first_moment: found float64",
    ),
    "moment_rank": (lambda: Model(optimizer=Optimizer(first_moment=F.reshape(1, 1))), "expected one dimension"),
    "weights": (lambda: Model(weights=3), "weights: found 3, expected a mapping"),  # type: ignore[arg-type]
    "config": (lambda: Model(config=None), "config: found NoneType, expected Config"),  # type: ignore[arg-type]
    "generator": (lambda: Model(weights=(pair for pair in [("w", F)])), "weights: found generator"),  # type: ignore[arg-type]
    "architecture_huge": (lambda: Model(config=Config(architecture=B)), "found an integer of 16610 bits"),  # type: ignore[arg-type]
    "name_huge": (_one(F, B), "found an integer of 16610 bits, expected text"),
    "kind_huge": (lambda: Model(optimizer=Optimizer(kind=B)), "found an integer of 16610 bits"),  # type: ignore[arg-type]
    "rate_huge": (lambda: Model(progress=Progress(best_metric=B)), "does not fit into 32 bits"),
    "rate_1e39": (lambda: Model(progress=Progress(best_metric=10**39)), "does not fit into 32 bits"),
    "flags_huge": (lambda: Model(config=Config(flags=B)), "an integer of 16610 bits is not within"),
    "stored_wrap": (_stored(shape=(np.int64(2**62), np.int64(8)), data=b""), "reach 2\\^64"),
    "stored_wrap_8": (_stored(shape=(np.uint8(16), np.uint8(16)), data=b""), "found 0 bytes, expected 1024"),
    "stored_float": (_stored(shape=(1.5, 2), data=bytes(12)), "expected a shape of integers"),
    "stored_text": (_stored(shape=("a",)), "expected a shape of integers"),
    "stored_shape": (_stored(shape=3), "found 3, expected a shape of integers"),
    "stored_none": (_stored(shape=None), "found None, expected a shape"),
    "stored_huge": (_stored(shape=(B,)), "extent an integer of 16610 bits is not within"),
    "stored_data": (_stored(data=None), "found None, expected contiguous bytes"),
    "stored_data_text": (_stored(data="x"), "expected contiguous bytes"),
    "stored_gaps": (_stored(data=memoryview(bytes(16))[::2]), "expected contiguous bytes"),
    "stored_unhashable": (_stored(dtype=["f32"]), "dtype list of 1 is none of"),
    "stored_encoding_list": (_stored(encoding=[]), "encoding list of 0 is none of"),
    "model": (lambda: {"w": F}, "model: found dict of 1, expected a Model"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_writer_refuses_what_a_reader_would(what: str, tmp_path: Path) -> None:
    make, message = REFUSED[what]
    path = tmp_path / "m.oam"
    path.write_bytes(b"old")
    with pytest.raises(ArgumentError, match=message):
        save(path, make())
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.oam"]


def test_versions() -> None:
    model = Model(weights={"w": F}, optimizer=Optimizer(first_moment=F, second_moment=F))
    for version in (1, 2, 3):
        data = oam.dumps(model, version=version)
        assert loads(data).version == version
        assert {finding.rule for finding in validate(data)} == ({"OAM-HDR-OLD"} if version < 3 else set())
    with pytest.raises(ArgumentError, match="version 2 has no quantized tensors"):
        oam.dumps(Model(weights={"w": Q}), version=2)
    wrong: list[Any] = [0, 4, True, "3", 3.0, np.float32(2), np.array([3]), np.array([1, 2]), B, None]
    for version in wrong:
        with pytest.raises(ArgumentError, match="version: found"):
            oam.dumps(model, version=version)


def test_python_floats_become_the_nearest_f32() -> None:
    progress = loads(oam.dumps(Model(progress=Progress(best_metric=0.1, learning_rate=float("nan"))))).progress
    assert progress.best_metric == np.float32(0.1)
    assert np.isnan(progress.learning_rate)


# -------------------------------------------------------------------------------------------------------- quantization


def test_quantize_model() -> None:
    rng = np.random.default_rng(1)
    model = Model(
        weights={
            "matrix": rng.normal(size=(5, 13)).astype(np.float32),
            "vector": np.ones(5, np.float32),
            "ints": np.ones(5, np.int32),
            "empty": np.zeros((3, 0), np.float32),
        },
        state={"s": np.ones((2, 2), np.float32)},
        optimizer=Optimizer(),
    )
    for encoding, worst in (("q4", 1 / 14), ("q8", 1 / 254)):
        made = loads(oam.dumps(oam.quantize(model, encoding)))
        tensor = made.weights["matrix"]
        assert isinstance(tensor, QuantizedTensor)
        assert made.optimizer is None
        assert list(made.weights) == list(model.weights)
        assert made.weights["vector"].dtype == np.float32
        assert not isinstance(made.state["s"], QuantizedTensor)
        error = np.abs(tensor.dequantize() - model.weights["matrix"]).max()
        assert error <= np.abs(model.weights["matrix"]).max() * worst * 1.001
        with pytest.raises(ArgumentError, match="no dense f32 weight of rank 2"):
            oam.quantize(made, encoding)


def test_quantize_refuses_other_dtypes() -> None:
    with pytest.raises(ArgumentError, match=r"weights\['w'\]: dtype f64 cannot be quantized"):
        oam.quantize(Model(weights={"w": np.ones((2, 2))}), "q4")
    with pytest.raises(ArgumentError, match="expected q4 or q8"):
        oam.quantize(Model(), "q5")
    with pytest.raises(ArgumentError, match="expected a Model"):
        oam.quantize(None, "q4")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected a mapping"):
        oam.quantize(Model(weights=None), "q4")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="is no text"):
        oam.quantize(Model(weights={3: np.ones((2, 2), np.float32)}), "q4")  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="dtype f64"):  # whatever its number of elements
        oam.quantize(Model(weights={"m": np.ones((2, 2), np.float32), "w": np.ones((0, 2))}), "q4")
    with pytest.raises(ArgumentError, match="no dense f32 weight"):
        oam.quantize(Model(weights={"w": np.ones(4, np.float32)}), "q4")


def test_quantize_takes_stored_tensors_and_pairs() -> None:
    ones = np.ones((2, 2), np.float32)
    stored = Tensor(dtype="f32", shape=(2, 2), encoding="dense", data=ones.tobytes())
    huge = Tensor(dtype="f32", shape=(0, 1 << 63), encoding="dense", data=b"")
    made = oam.quantize(Model(weights=[("s", stored), ("w", ones), ("e", huge)]), "q4")  # type: ignore[arg-type]
    assert oam.equal(made, Model(weights={"s": quantize_array(ones, "q4"), "w": quantize_array(ones, "q4"), "e": huge}))
    with pytest.raises(ArgumentError, match="dtype f64"):
        oam.quantize(Model(weights={"s": Tensor(dtype="f64", shape=(1, 1), encoding="dense", data=bytes(8))}), "q4")


@pytest.mark.parametrize("encoding", ["q4", "q8"])
def test_quantization_follows_its_definition(encoding: str) -> None:
    """Element by element, in the definition's words, against the vectorised code."""
    rng = np.random.default_rng(7)
    values = (rng.normal(size=1000) * 10 ** rng.uniform(-40, 38, 1000)).astype(np.float32)
    values[::50] = [np.nan, np.inf, -np.inf, 0, -0.0] * 4
    made = quantize_array(values, encoding)
    limit = 7 if encoding == "q4" else 127
    with np.errstate(all="ignore"):
        for block in range(len(made.scales)):
            part = np.zeros(32, np.float32)
            chunk = values[32 * block : 32 * block + 32]
            part[: len(chunk)] = chunk
            finite = [abs(x) for x in part if np.isfinite(x)]
            scale = np.float32(max(finite)) / np.float32(limit)
            scale = scale if scale > 0 and np.isfinite(scale) else np.float32(1)
            assert made.scales[block] == scale
            codes = [int(min(max(np.rint(x / scale), -limit), limit)) if np.isfinite(x) else 0 for x in part]
            payload = made.payload[block]
            stored = (
                [int(nibble) - 7 for byte in payload for nibble in (byte & 15, byte >> 4)]
                if encoding == "q4"
                else payload.tolist()
            )
            assert stored == codes


def test_quantized_tensor_checks_its_parts() -> None:
    with pytest.raises(ArgumentError, match=r"scales: found float32 of shape \(2,\)"):
        QuantizedTensor(encoding="q4", shape=(2, 2), payload=Q.payload, scales=np.ones(2, np.float32))
    wrong: list[dict[str, Any]] = [
        {"payload": [1]},
        {"payload": None},
        {"shape": "ab"},
        {"shape": None},
        {"shape": (3.5,)},
        {"encoding": ["q4"]},
    ]
    for parts in wrong:
        with pytest.raises(ArgumentError, match="found"):
            QuantizedTensor(**{"encoding": "q4", "shape": (2, 2), "payload": Q.payload, "scales": Q.scales, **parts})
    with pytest.raises(ArgumentError, match="expected 20"):
        QuantizedTensor.from_bytes("q4", (2, 2), b"12")
    with pytest.raises(ArgumentError, match="expected float32 elements"):
        quantize_array(np.zeros(0, np.float32), "q4")


# ------------------------------------------------------------------------------------------------------------- salvage


def _salvage(data: bytes, **options: Any) -> tuple[Model, dict[str, Survivor]]:
    model, survivors, report = oam.salvage(BufferSource(data), **options)
    assert not report.ok
    assert validate(oam.dumps(model)).canonical
    return model, {item.path: item for item in survivors}


def test_salvage_of_a_flipped_byte_in_a_payload() -> None:
    whole = case("golden_all_sections")
    start = whole.index(bytes(range(1, 9)))  # the payload of the state's tensor
    data = bytearray(whole)
    data[start + 3] ^= 0x20
    model, parts = _salvage(bytes(data))  # one byte alone: the checksum tells which
    assert parts[f"byte {start + 3}"].reason == "0x24 is wrong there; with 0x04 the checksum fits"
    assert {item.state for path, item in parts.items() if not path.startswith("byte")} == {"intact"}
    assert oam.dumps(model) == whole
    data[start + 5] ^= 0x01
    model, parts = _salvage(bytes(data))
    assert parts["weights"].state == "intact"
    assert parts["state[0]"].state == "unverified"
    assert list(model.state) == ["s"]
    model, parts = _salvage(bytes(data), intact_only=True)
    assert parts["state[0]"].state == "lost"
    assert list(model.weights) == ["w"]
    assert list(model.state) == []


def test_every_single_byte_of_a_file_can_be_put_right(tmp_path: Path) -> None:
    whole = case("golden_all_sections")
    path = tmp_path / "m.oam"
    covered = [
        *range(24),
        *range(32, 64 + 5 * 64),
        *range(4096, 4096 + 108 + 200),
        *range(len(whole) - 104, len(whole)),
    ]
    for at in covered[::7]:
        data = bytearray(whole)
        data[at] ^= 0x5A
        path.write_bytes(data)
        with FileSource(path) as source:
            model, _, report = oam.salvage(source)
            assert not report.ok
            assert f"byte {at} (0x{at:x}) is" in " ".join(finding.hint for finding in report), at
            assert oam.dumps(model) == whole, at


def test_salvage_of_a_truncated_file() -> None:
    whole = case("golden_all_sections")
    model, parts = _salvage(whole[: 4096 + 500])  # within the weights' padding
    assert parts["config"].state == parts["weights[0]"].state == "intact"
    assert parts["state"].state == parts["optimizer"].state == parts["progress"].state == "lost"
    assert np.array_equal(model.weights["w"].value(), loads(whole).weights["w"])
    model, parts = _salvage(whole[: 4216 + 216 + 10])  # within the only weight's payload
    assert parts["weights[0]"].state == "lost"
    assert parts["weights[0]"].name == "w"


def test_salvage_of_names_that_are_no_text() -> None:
    model, parts = _salvage(case("open_text_name_ff"))
    assert list(model.weights) == ["w\\xff"]
    assert parts["weights[0]"].state == "repaired"
    model, _ = _salvage(case("open_text_architecture_ff"))
    assert model.config.architecture == "w\\xff"
    model, _ = _salvage(case("bad_name_twice"))
    assert list(model.weights) == ["a", "a.1"]
    model, _ = _salvage(case("bad_name_empty"))
    assert list(model.weights) == ["unnamed.0"]


def test_salvage_of_quantized_tensors_in_an_old_version() -> None:
    model, parts = _salvage(case("bad_q4_v2"))
    assert parts["weights[0]"].state == "repaired"
    assert model.weights["w"].encoding == "q4"


def test_salvage_of_every_invalid_case() -> None:
    for entry in SUITE.cases:
        if entry.kind == "file" and entry.format == "oam" and entry.verdict != "valid":
            try:
                model, survivors, report = oam.salvage(BufferSource(entry.read()))
            except FormatError:
                continue
            made = oam.dumps(model)
            assert validate(made).canonical, entry.id
            assert report.ok or any(item.state != "intact" for item in survivors), entry.id


def test_report_speaks_of_survivors_only_when_refused() -> None:
    assert validate(case("golden_weights")).survivors == []
    assert validate(case("bad_payload_state_v3")).survivors


def test_equal_is_bit_for_bit_whatever_the_layout() -> None:
    plain = Model(weights={"w": _layouts()["plain"]}, optimizer=Optimizer(first_moment=F, second_moment=F))
    for array in _layouts().values():
        assert oam.equal(plain, Model(weights={"w": array}, optimizer=plain.optimizer))
    assert oam.equal(loads(oam.dumps(plain, version=1)), plain)
    minus = Model(weights={"w": -_layouts()["plain"]}, optimizer=plain.optimizer)  # -0.0 is another number than 0.0
    assert not oam.equal(plain, minus)
    assert not oam.equal(plain, Model(weights={"w": _layouts()["plain"]}))
    assert not oam.equal(plain, Model(weights={"v": _layouts()["plain"]}, optimizer=plain.optimizer))
    assert not oam.equal(Model(), Model(config=Config(d_model=1)))
    assert oam.equal(Model(), Model())


def test_load_of_bytes_points_to_loads() -> None:
    with pytest.raises(ArgumentError, match=r"found bytes, expected a path; loads\(\) takes bytes"):
        load(b"OAM\0")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"load\(\) takes a path"):
        loads("m.oam")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- files made to be a burden


def test_many_findings_hide_no_reason_to_refuse() -> None:
    items = [T(b"w%d\0x" % at, "u8", (0,), b"") for at in range(10_050)]  # each draws a canonical finding
    image = assemble(
        [("config", config()), ("weights", tensors([*items, T("last", "u8", (0,), b"")])), ("progress", b"")]
    )
    report = validate(image.set("weights[10050].dtype", 99).seal().bytes())
    assert report.truncated
    assert report.first is not None
    assert report.first.rule == "OAM-TEN-DTYPE"
    assert report.counts()["canonical"] == 10_000
    sound = assemble([("config", config()), ("weights", tensors(items)), ("progress", progress(step=3))])
    assert validate(sound.bytes()).ok
    model, _, _ = oam.salvage(BufferSource(sound.bytes()))
    assert (len(model.weights), model.progress.step) == (10_050, 3)


def test_salvage_finds_a_name_for_everything() -> None:
    long = "a" * 120
    items = [T("a" * 100 + ".2", "u8", (0,), b""), T(long, "u8", (0,), b""), T(long, "u8", (0,), b"")]
    more = [T("a" * 90 + ".4", "u8", (0,), b""), T(long, "u8", (0,), b"")]
    data = assemble([("config", config()), ("weights", tensors([*items, *more])), ("progress", progress())]).bytes()
    model, _ = _salvage(data)
    assert len(model.weights) == 5


@pytest.mark.parametrize("lie", ["config", "weights", "count"])
def test_lies_in_a_sparse_file_take_no_memory(lie: str, tmp_path: Path) -> None:
    """200 GB of nothing: what a size or a count claims is not taken for granted."""
    image = assemble([("config", config()), ("weights", tensors([])), ("progress", progress())])
    size = 200 << 30
    if lie == "config":
        image.set("sections[0].size", 1 << 62).set("config.arch_config_size", 0xFFFFFFFF)
    else:
        image.set("weights.count", 0xFFFFFFFF if lie == "weights" else 900_000_000)
        image.set("sections[1].size", 1 << 62 if lie == "weights" else size - 5000)
    path = tmp_path / "lie.oam"
    path.write_bytes(image.set("header.total_size", size).seal(payloads=False).bytes())
    os.truncate(path, size)
    before = anonymous_memory()
    with pytest.raises(FormatError):
        oam.load(path, verify=False)
    with FileSource(path) as source:
        if lie != "count":  # whose payload is in range, and so is hashed
            assert not oam.validate(source).ok
            oam.salvage(source)
        next(iter(oam.regions(source)))
    assert anonymous_memory() - before < 200e6


def test_a_second_section_of_a_type_is_shown_as_what_it_is() -> None:
    for name in ("config", "weights", "state", "optimizer", "progress"):
        whole = SUITE.case("oam/golden_all_sections").read()
        count = 5
        parts = [
            (key, whole[offset : offset + size])
            for key, offset, size in zip(
                ("config", "weights", "state", "optimizer", "progress"),
                *zip(*(struct.unpack_from("<QQ", whole, 64 + 64 * at + 12) for at in range(count)), strict=True),
                strict=True,
            )
        ]
        for extra in (b"", b"x"):
            data = assemble([*parts, (name, extra)]).bytes()
            regions = list(oam.regions(BufferSource(data)))
            assert sum(region.size for region in regions) == len(data)
            assert any(region.path == "sections[5]" for region in regions) == bool(extra)


def test_paths_and_buffers_of_odd_kinds(tmp_path: Path) -> None:
    for read in (load, validate, oam.load):
        with pytest.raises(ArgumentError, match="characters that no file name can have"):
            read("\ud800")
        with pytest.raises(ArgumentError, match="cannot hold a NUL"):
            read("a\0b")
    with pytest.raises(ArgumentError, match="characters that no file name can have"):
        save("\ud800", Model())
    data = case("golden_weights")
    path = tmp_path / "m.oam"
    path.write_bytes(data)

    class Bytes:
        def __fspath__(self) -> bytes:
            return os.fsencode(path)

    assert "w" in load(Bytes()).weights  # type: ignore[arg-type]
    released = memoryview(data)
    released.release()
    for odd in (released, np.zeros(4, "M8[s]")[::2], 3, None):
        with pytest.raises(ArgumentError, match="expected a contiguous bytes-like object"):
            loads(odd)  # type: ignore[arg-type]
    array: Any = np.frombuffer(data, np.uint8)
    assert "w" in loads(array).weights
