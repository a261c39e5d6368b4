"""safetensors files in Python: saving and loading, opening, editing metadata, arrays of others, rescuing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckptspec
from ckptspec import ArgumentError, FormatError, decode, kaun, nuvec, oam, safetensors, validate
from ckptspec.conformance.cases.safetensors.assemble import T, file, frame, swap
from ckptspec.conformance.strategies_trees import NUMPY_DTYPES
from ckptspec.safetensors import Tensor, TensorFile, edit_metadata, safe_open
from ckptspec.source import BufferSource

Array = np.ndarray[Any, np.dtype[Any]]


def small() -> dict[str, Array]:
    """Return arrays of several types and ranks."""
    return {
        "b": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "a": np.arange(3, dtype=np.uint8),
        "s": np.array(3.5),
        "z": np.zeros((0, 3), np.float32),
        "h": np.array([1, -2], ml_dtypes.bfloat16),
        "t": np.array([True, False, True]),
        "c": np.array([1 + 2j], np.complex64),
    }


def same(one: Any, other: Any) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with the arrays of ``small`` and some metadata."""
    made = tmp_path / "x.safetensors"
    safetensors.save(made, small(), {"k": "v", "a": "é\n"})
    return made


# ------------------------------------------------------------------------------------------------ saving and loading


def test_arrays_come_back(path: Path) -> None:
    for loaded in (safetensors.load(path), safetensors.loads(path.read_bytes()), ckptspec.load(path)):
        assert isinstance(loaded, TensorFile)
        assert loaded.metadata == {"a": "é\n", "k": "v"}
        assert sorted(loaded.tensors) == sorted(small())
        for name, array in small().items():
            assert same(loaded[name], array)
            assert not loaded[name].flags.writeable
    assert validate(path).canonical
    assert safetensors.dumps(safetensors.load(path)) == path.read_bytes()
    assert ckptspec.dumps(safetensors.load(path)) == path.read_bytes()


def test_any_byte_order_and_layout_gives_the_same_file() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    plain = safetensors.dumps({"w": array})
    wide = np.zeros((2, 3, 8), np.int32)
    wide[..., ::2] = array
    for other in (
        array.astype(">i4"),
        np.asfortranarray(array),
        np.array(array[:, ::-1])[:, ::-1],
        wide[..., ::2],
        np.ascontiguousarray(array.T).T,
        np.asfortranarray(array.astype(">i4")),
    ):
        assert safetensors.dumps({"w": other}) == plain
    row = np.broadcast_to(np.arange(4, dtype=">f8"), (3, 4))
    assert same(safetensors.loads(safetensors.dumps({"w": row}))["w"], np.array(row, "<f8"))
    large = np.arange(3_000_000, dtype=">u2").reshape(1000, 3000).T
    assert safetensors.dumps({"w": large}) == safetensors.dumps({"w": np.array(large, "<u2", order="C")})


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_every_dtype_of_numpy(name: str) -> None:
    dtype = NUMPY_DTYPES[name]
    array = np.frombuffer(bytes(at % 2 for at in range(6 * dtype.itemsize)), dtype).reshape(2, 3)
    data = safetensors.dumps({"w": array, "s": array[0, 0], "e": array[:0]})
    assert [tensor["dtype"] for tensor in decode(data)["tensors"]] == [name] * 3
    loaded = safetensors.loads(data)
    assert same(loaded["w"], array)
    assert loaded["s"].shape == ()
    assert loaded["e"].shape == (0, 3)


def test_tensors_that_numpy_cannot_hold(tmp_path: Path) -> None:
    array: Any = np.array([1, 2], np.uint8)
    tensors = {
        "f4": Tensor(dtype="F4", shape=(2, 2), data=b"\x12\x34"),
        "f6": Tensor(dtype="F6_E2M3", shape=(4,), data=bytearray(b"abc")),
        "huge": Tensor(dtype="F32", shape=(0, 1 << 63), data=b""),
        "plain": Tensor(dtype="U8", shape=(2,), data=array),
    }
    safetensors.save(tmp_path / "x", TensorFile(tensors=tensors))
    loaded = safetensors.load(tmp_path / "x")
    packed = loaded["f4"]
    assert (packed.dtype, packed.shape, bytes(packed.data), packed.packed) == ("F4", (2, 2), b"\x12\x34", True)
    assert packed.elements == 4
    assert bytes(loaded["f6"].data) == b"abc"
    assert loaded["plain"].tolist() == [1, 2]
    with pytest.raises(ArgumentError, match=r"tensor 'huge'.*numpy cannot hold the shape"):
        loaded["huge"]
    assert loaded.tensors.stored("huge").shape == (0, 1 << 63)  # type: ignore[attr-defined]
    assert safetensors.dumps(loaded) == (tmp_path / "x").read_bytes()
    with safe_open(tmp_path / "x") as opened:
        assert bytes(memoryview(opened.get_tensor("f4").data)) == b"\x12\x34"
        calls: list[Callable[[], object]] = [lambda: opened.get_tensor("huge"), lambda: opened.get_slice("f4")[0]]
        for call in calls:
            with pytest.raises(ArgumentError):
                call()
        assert opened.get_slice("f4").get_shape() == [2, 2]


def test_a_mapping_of_tensors(path: Path) -> None:
    tensors = safetensors.load(path).tensors
    assert list(tensors) == ["s", "c", "b", "z", "h", "a", "t"]  # by dtype, then by name
    assert len(tensors) == 7
    assert "a" in tensors
    assert "nope" not in tensors
    assert repr(tensors) == "<TensorMap of 7>"
    with pytest.raises(KeyError):
        tensors["nope"]


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("a list", lambda: {"w": [1, 2]}, "found list, expected an array"),
    ("a number", lambda: {"w": 1.5}, "found float, expected an array"),
    ("objects", lambda: {"w": np.array([None])}, "dtype object"),
    ("text", lambda: {"w": np.array(["a"])}, "dtype <U1"),
    ("complex128", lambda: {"w": np.zeros(1, np.complex128)}, "dtype complex128"),
    ("a date", lambda: {"w": np.zeros(1, "M8[s]")}, "dtype datetime64"),
    ("a record", lambda: {"w": np.zeros(1, [("a", "f4")])}, "dtype"),
    ("int4", lambda: {"w": np.zeros(2, ml_dtypes.int4)}, "dtype int4"),
    ("a mask", lambda: {"w": np.ma.masked_array([1], [True])}, "would lose its mask"),
    ("__metadata__", lambda: {"__metadata__": np.zeros(1)}, "no tensor can be called __metadata__"),
    ("a name of bytes", lambda: {b"w": np.zeros(1)}, "expected text"),
    ("half a surrogate pair", lambda: {"\ud800": np.zeros(1)}, "lone surrogates"),
    ("no mapping", lambda: [("w", np.zeros(1))], "expected a mapping"),
    ("an unknown dtype", lambda: {"w": Tensor(dtype="F128", shape=(), data=b"")}, "F128"),
    ("a wrong size", lambda: {"w": Tensor(dtype="U8", shape=(2,), data=b"a")}, "found 1 bytes, expected 2"),
    ("part of a byte", lambda: {"w": Tensor(dtype="F4", shape=(3,), data=b"ab")}, "no whole number of bytes"),
    ("an overflow", lambda: {"w": Tensor(dtype="U8", shape=(1 << 63, 4, 0), data=b"")}, "multiply to 2^64"),
    ("a negative extent", lambda: {"w": Tensor(dtype="U8", shape=(-1,), data=b"")}, "extent -1"),
    ("a boolean extent", lambda: {"w": Tensor(dtype="U8", shape=(True,), data=b"a")}, "extent True"),
    ("no bytes", lambda: {"w": Tensor(dtype="U8", shape=(), data="a")}, "expected contiguous bytes"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("what", "make", "message"), REFUSED, ids=[what for what, _, _ in REFUSED])
def test_what_no_file_can_hold(what: str, make: Callable[[], Any], message: str, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ArgumentError) as caught:
        safetensors.save(path, make())
    assert message in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], "a", {"\ud800": ""}, {"a": "\udfff"}])
def test_metadata_that_no_file_can_hold(metadata: Any, path: Path) -> None:
    before = path.read_bytes()
    for call in (
        lambda: safetensors.save(path, {}, metadata),
        lambda: safetensors.dumps(TensorFile(metadata=metadata)),
        lambda: edit_metadata(path, metadata, replace=True),
    ):
        if metadata == {"a": None} and call.__code__.co_names[-1] == "edit_metadata":
            continue  # there it removes a key
        with pytest.raises(ArgumentError):
            call()
    assert path.read_bytes() == before


def test_arguments_of_the_wrong_kind(path: Path) -> None:
    with pytest.raises(ArgumentError, match="a TensorFile has its own"):
        safetensors.save(path, TensorFile(), {"a": "b"})
    with pytest.raises(ArgumentError, match="no versions"):
        ckptspec.dumps(TensorFile(), version=1)
    header = "n" * 100_000_000
    with pytest.raises(ArgumentError, match="expected at most 100000000"):
        safetensors.dumps({header: np.zeros(0)})


def test_a_file_is_saved_over_itself(path: Path) -> None:
    """Its arrays are views of the old file, which stays where it is for them."""
    loaded = safetensors.load(path)
    before = path.read_bytes()
    safetensors.save(path, {**loaded.tensors, "new": np.ones(2)}, loaded.metadata)
    assert same(loaded["b"], small()["b"])
    assert len(safetensors.load(path).tensors) == 8
    safetensors.save(path, loaded)
    assert path.read_bytes() == before


# ------------------------------------------------------------------------------------------------------------ opening


def test_arrays_of_an_open_file_are_writable_and_private(path: Path) -> None:
    before = path.read_bytes()
    with safe_open(path) as opened, safe_open(path, framework="np", device="cpu") as other:
        first: Any = opened.get_tensor("b")
        first += 1
        assert same(opened.get_tensor("b"), small()["b"])
        assert same(opened.get_slice("b")[:], small()["b"])
        assert same(other.get_tensor("b"), small()["b"])
        again: Any = opened.get_tensor("b")
        again[:] = 7
        assert first[0, 0, 0] == 1
    path.unlink()
    assert first[1, 2, 3] == 24  # though the file is gone
    path.write_bytes(before)
    assert same(safetensors.load(path)["b"], small()["b"])


def test_unaligned_payloads(tmp_path: Path) -> None:
    path = tmp_path / "x"
    payload = np.array([1, 2], np.float32)
    path.write_bytes(file(T(name="a", shape=(1,)), T(name="b", dtype="F32", data=payload.tobytes())))
    with safe_open(path) as opened:
        arrays: list[Any] = [opened.get_tensor("b"), opened.get_tensor("b"), opened.get_slice("b")[...]]
        for array in arrays:
            assert array.flags.aligned
            assert same(array, payload)
            array[0] = 5
    assert same(np.array(safetensors.load(path)["b"]), payload)


def test_what_an_open_file_tells(path: Path) -> None:
    with safe_open(path) as opened:
        assert opened.keys() == sorted(small())
        assert opened.metadata() == {"a": "é\n", "k": "v"}
        assert len(opened) == 7
        assert "a" in opened
        assert "nope" not in opened
        part = opened.get_slice("b")
        assert (part.get_shape(), part.get_dtype()) == ([2, 3, 4], "F32")
        assert part[0, 1:, -1].tolist() == [7, 11]
        assert part[0].flags.owndata
        for call in (
            lambda: opened.get_tensor("nope"),
            lambda: opened.get_slice("nope"),
            lambda: opened.get_tensor(3),  # type: ignore[arg-type]
            lambda: part[5],
            lambda: part[0, 0, 0, 0],
            lambda: part["a"],
            lambda: part[::0],
        ):
            with pytest.raises(ArgumentError):
                call()
    for arguments in ({"framework": "pt"}, {"device": "cuda"}):
        with pytest.raises(ArgumentError):
            safe_open(path, **arguments)
    with pytest.raises(FileNotFoundError):
        safe_open(path.parent / "nope")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="SAFETENSORS-DAT-RANGE"):
        safe_open(path)


INDICES: list[Any] = [
    *(slice(None), 0, -1, (0, 1), (slice(0, 1),), ..., (..., 0), (slice(None, None, 2),), (0, 0, 0), (), slice(0, 0)),
    *((0, slice(1, 2), -1), np.int64(1), slice(1, 2), (slice(None), slice(1, 3), slice(0, 4, 3)), (slice(None), 2)),
]


def test_open_files_are_as_those_of_the_official_package(path: Path) -> None:
    official = pytest.importorskip("safetensors")
    arrays = {name: array for name, array in small().items() if array.dtype.kind != "V" and name != "h"}
    safetensors.save(path, {**arrays, "é": np.arange(6).reshape(3, 2), "e": np.zeros((2, 0), np.int8)}, {"k": "v"})
    with safe_open(path) as ours, official.safe_open(path, "np") as theirs:
        assert ours.keys() == theirs.keys()
        # It leaves to chance the order of tensors that begin and end at one byte.
        filled = [[name for name in keys if name not in "ze"] for keys in (ours.offset_keys(), theirs.offset_keys())]
        assert filled[0] == filled[1]
        assert ours.metadata() == theirs.metadata()
        everything = theirs.get_tensors()
        assert list(ours.get_tensors()) == ours.offset_keys()
        compared = 0
        for name, array in ours.get_tensors().items():
            assert same(array, theirs.get_tensor(name))
            assert same(array, everything[name])
            assert isinstance(array, np.ndarray)
            assert array.flags.writeable
            mine, other = ours.get_slice(name), theirs.get_slice(name)
            assert (mine.get_shape(), mine.get_dtype()) == (other.get_shape(), other.get_dtype())
            for index in INDICES:
                try:
                    expected = other[index]
                except (official.SafetensorError, OverflowError):
                    continue  # what it cannot do, numpy may do
                compared += 1
                assert same(mine[index], expected), (name, index)
        assert compared > 40


# ---------------------------------------------------------------------------------------------------- editing metadata


def test_an_edit_that_has_room_is_done_in_place(path: Path) -> None:
    before, inode = safetensors.load(path), path.stat().st_ino
    assert edit_metadata(path, {"k": "w"})
    assert path.stat().st_ino == inode
    assert safetensors.load(path).metadata == {"a": "é\n", "k": "w"}
    assert same(before["b"], small()["b"])
    assert validate(path).canonical
    assert edit_metadata(path, {"k": None, "a": ""})  # less of it: spaces are left over
    assert path.stat().st_ino == inode
    assert {finding.rule for finding in validate(path)} == {"SAFETENSORS-HDR-PAD"}
    assert edit_metadata(path, {"k": "again"})
    assert safetensors.load(path).metadata == {"a": "", "k": "again"}
    for name, array in small().items():
        assert same(safetensors.load(path)[name], array)


def test_an_edit_without_room_writes_the_file_anew(path: Path) -> None:
    mapped, inode = safetensors.load(path), path.stat().st_ino
    os.link(path, path.parent / "twin")
    assert not edit_metadata(path, {"note": "x" * 200})
    assert path.stat().st_ino != inode
    assert validate(path).canonical
    assert safetensors.load(path).metadata == {"a": "é\n", "k": "v", "note": "x" * 200}
    for name, array in small().items():
        assert same(mapped[name], array)
        assert same(safetensors.load(path)[name], array)
    assert safetensors.load(path.parent / "twin").metadata == {"a": "é\n", "k": "v"}
    assert sorted(os.listdir(path.parent)) == ["twin", path.name]


def test_room_that_is_reserved_is_used(path: Path) -> None:
    assert not edit_metadata(path, {"log": "x" * 20}, reserve=500)
    inode, size = path.stat().st_ino, path.stat().st_size
    for at in range(20):
        assert edit_metadata(path, {"log": "y" * (20 * at)})
        assert (path.stat().st_ino, path.stat().st_size) == (inode, size)
        assert safetensors.load(path).metadata == {"a": "é\n", "k": "v", "log": "y" * (20 * at)}
    assert not edit_metadata(path, {"log": "z" * 600})
    assert validate(path).canonical


def test_all_metadata_replaced_or_removed(path: Path) -> None:
    edit_metadata(path, {"new": "1"}, replace=True)
    assert safetensors.load(path).metadata == {"new": "1"}
    edit_metadata(path, {}, replace=True)
    assert safetensors.load(path).metadata == {}
    edit_metadata(path, None, replace=True)
    assert safetensors.load(path).metadata is None
    edit_metadata(path, {})
    assert safetensors.load(path).metadata == {}
    edit_metadata(path, {"absent": None, "b": "2"})
    assert safetensors.load(path).metadata == {"b": "2"}
    for name, array in small().items():
        assert same(safetensors.load(path)[name], array)


def test_edits_that_are_refused(path: Path) -> None:
    before = path.read_bytes()
    for changes, more in (
        (None, {}),
        (["a"], {}),
        ({"a": 1}, {}),
        ({1: "a"}, {}),
        ({"a": "b"}, {"reserve": -1}),
        ({"a": "b"}, {"reserve": True}),
        ({"a": "b"}, {"reserve": 1.5}),
        ({"a": "x" * 200}, {"reserve": 100_000_000}),
    ):
        with pytest.raises(ArgumentError):
            edit_metadata(path, changes, **more)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    path.write_bytes(before[:-1])
    with pytest.raises(FormatError):
        edit_metadata(path, {"a": "b"})
    assert path.read_bytes() == before[:-1]
    with pytest.raises(FileNotFoundError):
        edit_metadata(path.parent / "nope", {"a": "b"})


LOADERS: dict[str, Callable[[Path], Any]] = {
    "load": safetensors.load,
    "safe_open": safe_open,
    "edit_metadata": lambda path: edit_metadata(path, {"k": "v"}),
    "kaun.Checkpoint": kaun.Checkpoint.load,
    "kaun.load": kaun.load,
    "nuvec": lambda path: nuvec.load_into(path, {}),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_file_of_another_format_is_called_what_it_is(name: str, tmp_path: Path) -> None:
    made = tmp_path / "x"
    for content, what in ((oam.dumps(oam.Model()), "a file of another format: .oam"), (b"GGUF\3\0\0\0", "a GGUF file")):
        made.write_bytes(content)
        with pytest.raises(FormatError, match=re.escape(f"found {what}, expected")) as caught:
            LOADERS[name](made)
        assert caught.value.rule == "ANY-FILE-FORMAT"
    made.write_bytes(safetensors.dumps(small())[:-1])
    with pytest.raises(FormatError) as caught:
        LOADERS[name](made)
    assert caught.value.rule.startswith("SAFETENSORS-")


def test_an_edit_of_a_file_of_another_writer(tmp_path: Path) -> None:
    """Its entries keep their order; its payloads are not touched."""
    path = tmp_path / "x"
    for data in (
        file(T(name="b"), T(name="a"), metadata={"k": "v"}, pad=False),
        file(T(name="b"), T(name="a"), metadata={"k": "v"}, dress=swap(b'"k":', b'"k" : '), more=100),
        file(T(name="b"), T(name="a"), order=(1, 0)),
    ):
        path.write_bytes(data)
        edit_metadata(path, {"k": "other"})
        assert validate(path).ok
        assert decode(path.read_bytes()) == decode(data) | {"metadata": {"k": "other"}}
        assert path.read_bytes()[-4:] == data[-4:]


# ------------------------------------------------------------------------------------------------- arrays of others


class Torch(types.ModuleType):
    """A module that is to torch what it takes to hand tensors over."""

    int16, uint8 = np.dtype(np.int16), np.dtype(np.uint8)


class TorchTensor:
    """A tensor as torch has them: types that numpy lacks, and no way to numpy for those or where gradients are due."""

    def __init__(self, array: Array, name: str, *, attached: bool = False, device: str = "cpu") -> None:
        self.array, self.dtype, self.attached, self.device = array, f"torch.{name}", attached, device

    def detach(self) -> TorchTensor:
        return TorchTensor(self.array, self.dtype[6:], device=self.device)

    def cpu(self) -> TorchTensor:
        return TorchTensor(self.array, self.dtype[6:], attached=self.attached)

    def resolve_conj(self) -> TorchTensor:
        return self

    def resolve_neg(self) -> TorchTensor:
        return self

    def contiguous(self) -> TorchTensor:
        return TorchTensor(np.asarray(self.array, order="C"), self.dtype[6:])

    def view(self, dtype: np.dtype[Any]) -> TorchTensor:
        return TorchTensor(self.array.view(dtype), dtype.name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        if (
            self.attached
            or self.device != "cpu"
            or "float8" in self.dtype
            or "float4" in self.dtype
            or self.dtype == "torch.bfloat16"
        ):
            raise TypeError("Got unsupported ScalarType")
        return self.array


TorchTensor.__module__ = "torch"


def test_tensors_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch("torch"))
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float32, np.int64, np.bool_):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        name = np.dtype(dtype).name
        expected = safetensors.dumps({"w": array})
        assert safetensors.dumps({"w": TorchTensor(array, name)}) == expected
        assert safetensors.dumps({"w": TorchTensor(array, name, attached=True, device="cuda")}) == expected
        expected = safetensors.dumps({"w": np.ascontiguousarray(array.T)})
        assert safetensors.dumps({"w": TorchTensor(array.T, name)}) == expected
    for name in ("float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        array = np.array([1, 2, 4], getattr(ml_dtypes, name))
        assert safetensors.dumps({"w": TorchTensor(array, name)}) == safetensors.dumps({"w": array})
    pairs = np.arange(6, dtype=np.uint8).reshape(2, 3)
    made = safetensors.dumps({"w": TorchTensor(pairs, "float4_e2m1fn_x2")})
    assert made == safetensors.dumps({"w": Tensor(dtype="F4", shape=(2, 6), data=pairs.tobytes())})
    with pytest.raises(ArgumentError, match="dtype complex128"):
        safetensors.dumps({"w": TorchTensor(np.zeros(1, np.complex128), "complex128")})
    with pytest.raises(ArgumentError, match="a scalar of two 4-bit elements has no shape"):
        safetensors.dumps({"w": TorchTensor(np.uint8(1), "float4_e2m1fn_x2")})  # type: ignore[arg-type]


def test_tensors_of_the_real_torch_are_written_as_the_official_package_writes_them() -> None:
    torch = pytest.importorskip("torch")
    official = pytest.importorskip("safetensors.torch")
    raw = torch.arange(96, dtype=torch.uint8).reshape(4, 24)
    words = ("float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 float8_e5m2 "
             "float8_e4m3fn float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz float4_e2m1fn_x2")  # fmt: skip
    for word in words.split():
        tensor = raw.view(getattr(torch, word))
        assert safetensors.dumps({"w": tensor}) == official.save({"w": tensor})
    tensors = {
        "leaf": torch.nn.Parameter(torch.ones(2, 3)),
        "scalar": torch.tensor(3.5),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j]).conj().imag,
        "expanded": torch.ones(1).expand(4),
        "bool": torch.tensor([True, False]),
    }
    plain = {name: tensor.detach().resolve_conj().resolve_neg().contiguous() for name, tensor in tensors.items()}
    assert safetensors.dumps(tensors) == official.save(plain)
    for odd in (torch.empty(2, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises(ArgumentError, match="tensor 'w': Tensor does not convert to an array"):
            safetensors.dumps({"w": odd})


def test_arrays_of_jax() -> None:
    numpy = pytest.importorskip("jax.numpy")
    arrays = {
        "w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "h": numpy.ones((3,), numpy.bfloat16),
        "f": numpy.array([0.5, 2], numpy.float8_e4m3fn),
        "s": numpy.float32(1.5),
    }
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    assert safetensors.dumps(arrays) == safetensors.dumps(plain)
    assert safetensors.loads(safetensors.dumps(arrays))["h"].dtype == ml_dtypes.bfloat16


def test_opening_does_not_need_what_it_does_not_use(path: Path) -> None:
    """Reading a header imports neither ml_dtypes nor the validator; nobody waits for them."""
    code = (
        "import sys; from ckptspec import safetensors as s; f = s.safe_open(sys.argv[1]); f.keys(); "
        "print(sorted({'ml_dtypes', 'ckptspec.findings', 'ckptspec.safetensors._canonical', 'ckptspec.spec.rules'} "
        "& set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ----------------------------------------------------------------------------------------------------------- rescuing

# Names as the OCaml writer spells them, and what they are.
OCAML: dict[bytes, str] = {
    rb"plain": "plain",
    rb"\195\169": "é",
    rb"caf\195\169.w": "café.w",
    rb"\240\159\152\128": "\U0001f600",
    rb"a\000b": "a\0b",
    rb"\"q\"": '"q"',
    rb"a\\b": "a\\b",
    rb"\\195": "\\195",
    rb"\n\t\r\b": "\n\t\r\b",
    rb"\127\031": "\x7f\x1f",
    rb"\'x\'": "'x'",
    rb"\xc3\xa9": "é",
    rb"\255\254": r"\xff\xfe",
    rb"w\195": r"w\xc3",
}


def ocaml_file(*names: bytes) -> bytes:
    return file(*(T(spelled=b'"' + name + b'"', data=bytes([at, 255])) for at, name in enumerate(names)))


@pytest.mark.parametrize(("spelled", "name"), OCAML.items(), ids=[spelled.decode() for spelled in OCAML])
def test_names_of_the_ocaml_writer_are_put_right(spelled: bytes, name: str) -> None:
    data = ocaml_file(b"before", spelled, b"behind")
    model, survivors, report = safetensors.salvage(BufferSource(data))
    assert report.ok == (spelled in (b"plain", rb"\"q\"", rb"a\\b", rb"\\195", rb"\n\t\r\b"))
    made = safetensors.dumps(model)
    assert validate(made).canonical
    assert {key: value.tobytes() for key, value in safetensors.loads(made).tensors.items()} == {
        "before": b"\x00\xff",
        name: b"\x01\xff",
        "behind": b"\x02\xff",
    }
    state = {survivor.name: survivor for survivor in survivors if survivor.what == "tensor"}[name]
    assert (state.state == "intact") == report.ok
    if not report.ok:
        assert state.reason == f"its name was spelled {spelled.decode()}"


def test_names_that_become_equal_are_told_apart() -> None:
    model, survivors, _ = safetensors.salvage(BufferSource(ocaml_file(rb"\195\169", "é".encode(), rb"\xc3\xa9")))
    assert sorted(bytes(tensor.data) for tensor in model.tensors.values()) == [b"\0\xff", b"\1\xff", b"\2\xff"]
    assert sorted(model.tensors) == ["é", "é.1", "é.2"]
    assert validate(safetensors.dumps(model)).canonical
    assert all(survivor.state == "repaired" for survivor in survivors)


def good(tail: bytes = b"") -> bytes:
    return file(T(name="a"), T(name="b", shape=(4,)), metadata={"k": "v"}, tail=tail)


# Damage, what of the tensors a and b is saved, and what of the metadata.
DAMAGE: dict[str, tuple[bytes, str, dict[str, str] | None]] = {
    "cut in b": (good()[:-1], "a", {"k": "v"}),
    "cut in a": (good()[:-5], "", {"k": "v"}),
    "cut header": (good()[:60], "", None),
    "bytes behind": (good(b"xx"), "ab", {"k": "v"}),
    "header length 0": (bytes(8) + good()[8:], "ab", {"k": "v"}),
    "header length huge": (b"\xff" * 8 + good()[8:], "ab", {"k": "v"}),
    "a brace lost": (good().replace(b"]},", b"],", 1).replace(b"    ", b"     ", 1), "a", {"k": "v"}),
    "a NUL in the header": (good().replace(b'"dtype"', b'"dtyp\0"', 1), "b", {"k": "v"}),
    "a bad dtype": (good().replace(b'"U8"', b'"X8"', 1), "b", {"k": "v"}),
    "a bad shape": (good().replace(b'"shape":[2]', b'"shape":[x]', 1), "b", {"k": "v"}),
    "a wrong size": (good().replace(b'"shape":[4]', b'"shape":[3]', 1), "ab", {"k": "v"}),
    "metadata damaged": (good().replace(b'"v"', b"123", 1), "ab", {"k": ""}),
    "an overlap": (good().replace(b"[2,6]", b"[1,5]", 1), "a", {"k": "v"}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_saved_of_damaged_files(name: str) -> None:
    data, tensors, metadata = DAMAGE[name]
    assert not validate(data, format="safetensors").ok
    try:
        model, survivors, report = safetensors.salvage(BufferSource(data))
    except FormatError:
        assert tensors == ""
        assert metadata is None
        return
    assert not report.ok
    assert "".join(sorted(model.tensors)) == tensors
    assert model.metadata == metadata
    assert {survivor.state for survivor in survivors} <= {"intact", "repaired", "lost"}
    assert validate(safetensors.dumps(model)).canonical
    for key, payload in (("a", b"\1\2"), ("b", b"\1\2\3\4")):
        if key in model.tensors and "size" not in name:
            assert bytes(model.tensors[key].data) == payload


@pytest.mark.parametrize("spaces", [0, 1, 5, 13, 4000])
@pytest.mark.parametrize("name", ["plain", r"\195\169", r"\x20\'"])
@pytest.mark.parametrize("length", [0, 3, 1 << 63])
def test_payloads_are_found_whatever_the_header_length_says(name: str, spaces: int, length: int) -> None:
    """Also where the header is not padded as usual, and where payloads look like text to be put right."""
    text = b'{"%s":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}' % name.encode()
    data = length.to_bytes(8, "little") + text + b" " * spaces + rb'"\195" "'
    model, survivors, _ = safetensors.salvage(BufferSource(data))
    assert [bytes(tensor.data) for tensor in model.tensors.values()] == [rb'"\195" "'[:8]]
    assert "its length was wrong; its text is whole" in [survivor.reason for survivor in survivors]


def test_a_wrong_header_length_shifts_no_payload() -> None:
    """Whatever the length says: values come out as they were, or it is said that they may not be."""
    arrays = {f"t{at}": np.arange(1, 5 + at, dtype="<f4") for at in range(5)}
    for metadata in (None, {"k": "1"}, {"k": "123"}, {"k": "12345"}):
        data = safetensors.dumps(arrays, metadata)
        length = int.from_bytes(data[:8], "little")
        end = len(data[8 : 8 + length].rstrip(b" "))
        for wrong in {*range(end - 3, length + 120), length ^ 1, length ^ 2, length ^ 4, length + 4096} - {length}:
            model, survivors, _ = safetensors.salvage(BufferSource(wrong.to_bytes(8, "little") + data[8:]))
            for survivor in survivors:
                if survivor.what == "tensor":
                    assert survivor.state == "intact", (wrong - length, survivor)
                    assert same(model.tensors[survivor.name].value(), arrays[survivor.name])


@pytest.mark.parametrize("cut", [1, 3, 7, 8])
def test_a_file_that_was_cut_keeps_its_good_header_length(cut: int) -> None:
    arrays = {f"t{at}": np.arange(1, 5 + at, dtype="<f4") for at in range(5)}
    data = safetensors.dumps(arrays, {"k": "v"})
    for changed, kept in ((data[:-cut], 4), (data + bytes(cut), 5)):
        model, _, _ = safetensors.salvage(BufferSource(changed))
        assert len(model.tensors) == kept
        assert all(same(tensor.value(), arrays[name]) for name, tensor in model.tensors.items())


def test_nothing_is_saved_where_nothing_is() -> None:
    for data in (b"", b"{}", b"x" * 100, bytes(100), frame(b"[" * 50), frame(b'"w"')):
        with pytest.raises(FormatError):
            safetensors.salvage(BufferSource(data))


# ----------------------------------------------------------------------------------------------------------- hostile


def test_many_findings_are_quickly_found() -> None:
    """Ten thousand tensors of which each overlaps all others, and a header with as many bad entries."""
    place = b'"%d":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
    wrong = b'"%d":{"dtype":"x","shape":[-1],"data_offsets":[2]}'
    for entry in (place, wrong):
        data = frame(b"{" + b",".join(entry % at for at in range(10_000)) + b"}", b"abcd")
        start = time.process_time()
        report = validate(data)
        assert not report.ok
        assert len(report.findings) >= 9_999
        assert time.process_time() - start < 15  # a second, unless it is done again and again
