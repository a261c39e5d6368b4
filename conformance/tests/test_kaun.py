"""Kaun's checkpoints: names of structures, what is refused, files that others wrote and read, and back to the bit."""

from __future__ import annotations

import copy
import doctest
import enum
import math
import pickle
import types
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptspec import ArgumentError, FormatError, kaun, safetensors, trees
from ckptspec.conformance.strategies_trees import NUMPY_DTYPES, leaves, structures
from ckptspec.kaun import Checkpoint, EmptyNameError, SkippedTensorsWarning, TreeMismatchError
from ckptspec.safetensors import Tensor, TensorFile
from ckptspec.spec.dtypes import SAFETENSORS_DTYPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "kaun.md"

call: Any = Checkpoint  # for calls that mypy refuses, too


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: list[Layer]
    head: Any
    activation: str = field(default="relu", metadata={"static": True})


@dataclass(frozen=True, slots=True)
class Frozen:
    w: Any
    made: Any = field(init=False, default=None, metadata={"static": True})


class Custom:
    """A container of one's own."""

    def __init__(self, pairs: Iterable[Any]) -> None:
        self.pairs = list(pairs)

    def named_leaves(self) -> Iterable[Any]:
        return self.pairs

    def with_leaves(self, leaves: Sequence[Any]) -> Self:
        names = [name for name, _ in self.pairs]
        return type(self)(zip(names, leaves, strict=True))


class Colour(str, enum.Enum):  # noqa: UP042  # the kind whose str() is not its text
    RED = "red"


class Converts:
    """An array of another library, by the protocol that a test is about."""

    def __init__(self, array: Any) -> None:
        self.array = array


class ByArray(Converts):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class ByDlpack(Converts):
    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Broken:
    shape, dtype = (2,), np.dtype(np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("on another device")

    __dlpack__ = __dlpack_device__ = __array__


class DlpackBroken:
    __dlpack__ = __dlpack_device__ = Broken.__array__


def plain(array: Any) -> tuple[Any, ...]:
    """What an array is, whatever its memory."""
    little = np.asarray(array).astype(array.dtype.newbyteorder("<"))
    return little.dtype, little.shape, little.tobytes()


def same(one: Any, other: Any) -> bool:
    """Whether two structures have the same containers and leaves."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and plain(one) == plain(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return len(one) == len(other) and all(map(same, one, other))


def model() -> Model:
    return Model([Layer(f32(1, 2), f32(3)), Layer(f32(4, 5), f32(6))], {"scale": np.array(2.0)})


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("params", "prefix", "names"),
    [
        ({"layers": [{"w": f32(1)}, {"w": f32(2)}]}, "", ["layers.0.w", "layers.1.w"]),
        ({"layers": [{"w": f32(1)}]}, "model", ["model.layers.0.w"]),
        (f32(1), "w", ["w"]),
        ((f32(1), [f32(2)], ()), "", ["0", "1.0"]),
        (model(), "", ["head.scale", "layers.0.0", "layers.0.1", "layers.1.0", "layers.1.1"]),
        (Frozen(f32(1)), "f", ["f.w"]),
        (Layer(f32(1), {"x": f32(2)}), "", ["0", "1.x"]),
        (Custom([("z", f32(1)), ("a.b", [f32(2)])]), "", ["a.b.0", "z"]),
        ({"c": Custom([("", f32(1))])}, "p", ["p.c"]),
        (Custom([("", f32(1))]), "p", ["p"]),
        (OrderedDict(b=f32(1), a=f32(2)), "", ["a", "b"]),
        (types.MappingProxyType({"a": f32(1)}), "", ["a"]),
        ({"a.b": f32(1), "a": f32(2), "a.": f32(3)}, "", ["a", "a.", "a.b"]),
        ({"a": {"": f32(1)}}, "", ["a."]),
        ({"": f32(1)}, "p", ["p"]),
        ({"é": f32(1), "\U00010000": f32(2), "\uffff": f32(3)}, "", ["é", "\uffff", "\U00010000"]),
        ({Colour.RED: f32(1), np.str_("x"): f32(2)}, "", ["red", "x"]),
        ({}, "", []),
        ([], "p", []),
        ({"a": (), "b": [{}]}, "p", []),
        ({"a": np.float32(1), "b": np.array(1, ">i8"), "c": ByArray(f32(1)), "d": ByDlpack(f32(1))}, "", list("abcd")),
        ({"a": Tensor(dtype="F32", shape=(1,), data=bytes(4))}, "", ["a"]),
    ],
)
def test_names_of_structures(params: Any, prefix: str, names: list[str]) -> None:
    checkpoint = Checkpoint.of_params(params, prefix)
    assert checkpoint.names == tuple(names)
    assert list(checkpoint) == names
    assert len(checkpoint) == len(names)
    assert list(kaun.loads(checkpoint.dumps())) == names


X = f32(1)
CYCLE: list[Any] = [X]
CYCLE.append({"again": (CYCLE,)})


@pytest.mark.parametrize(
    ("params", "prefix", "told"),
    [
        (X, "", "params: its name is empty"),
        ({"": X}, "", r"params\[''\]: its name is empty"),
        (Custom([("", X)]), "", "its name is empty"),
        ({"a": {"b": X}, "a.b": X}, "", r"params\['a.b'\]: params\['a'\]\['b'\] has the same name, 'a.b'"),
        ({"a.b": X, "a": {"b": X}}, "m", r"params\['a'\]\['b'\]: params\['a.b'\] has the same name, 'm.a.b'"),
        ({"0": X, "l": Custom([("a", X), ("a", X)])}, "", "has the same name, 'l.a'"),
        ({"__metadata__": X}, "", "no tensor can be called __metadata__"),
        (X, "__metadata__", "no tensor can be called __metadata__"),
        ({"\ud800": X}, "", "lone surrogates"),
        ({1: X}, "", "params: found the key 1, expected text"),
        ({"a": {None: X}}, "", r"params\['a'\]: found the key None"),
        ({("a",): X}, "", "found the key tuple of 1"),
        (None, "p", "params: found None, expected an array"),
        ({"a": [1.5]}, "", r"params\['a'\]\[0\]: found 1.5, expected an array.*numpy.float32"),
        ({"a": "text"}, "", "found 'text'"),
        ({"a": {X.tobytes()}}, "", "found set of 1"),
        ({"a": Model}, "", "found a class"),
        ({"a": Custom}, "", "found a class"),
        ({"a": np.float32}, "", "found a class"),
        (Model([], None), "", r"params.head: found None.*'static': True"),
        ({"a": Broken()}, "", "Broken does not convert to an array: on another device"),
        ({"a": DlpackBroken()}, "", "DlpackBroken does not convert"),
        ({"a": Tensor(dtype="F4", shape=(2,), data=b"x")}, "", r"params\['a'\]: numpy has no type for the dtype F4"),
        (Custom([("a",)]), "", "named_leaves gives tuple of 1"),
        (Custom(["ab"]), "", "named_leaves gives 'ab'"),
        (Custom([(1, X)]), "", "named_leaves gives"),
        (CYCLE, "", r"params\[1\]\['again'\]\[0\]: the structure is cyclic: this is params again"),
        ({"a": X}, None, "prefix: found None, expected text"),
    ],
)
def test_structures_that_are_refused(params: Any, prefix: Any, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        Checkpoint.of_params(params, prefix)
    with pytest.raises(ArgumentError):
        Checkpoint({"a": X}).to_params(params, prefix)


def test_a_masked_array() -> None:
    with pytest.raises(ArgumentError, match=r"params\['a'\]: a masked array would lose its mask"):
        Checkpoint.of_params({"a": np.ma.masked_array(X)})


def test_a_field_that_was_never_set() -> None:
    half = Frozen(X)
    object.__delattr__(half, "w")
    with pytest.raises(ArgumentError, match="params: the field w was never set"):
        Checkpoint.of_params(half)


def test_what_is_shared_is_saved_twice() -> None:
    shared = {"w": X}
    assert Checkpoint.of_params({"enc": shared, "dec": shared}).names == ("dec.w", "enc.w")


def test_deep_structures() -> None:
    tree: Any = X
    for _ in range(100_000):
        tree = [tree]
    checkpoint = Checkpoint.of_params(tree)
    assert len(checkpoint.names[0]) == 199_999
    made = kaun.loads(checkpoint.dumps()).to_params(tree)
    for _ in range(100_000):
        (made,) = made
    assert same(made, X)
    cyclic: list[Any] = []
    inner = cyclic
    for _ in range(100_000):
        inner.append([])
        inner = inner[0]
    inner.append(cyclic)
    with pytest.raises(ArgumentError, match=r"params(\[0\]){12}\[\.\.\.\](\[0\]){12}: the structure is cyclic"):
        Checkpoint.of_params(cyclic)
    while inner is not cyclic:  # so that nothing is left for the collector
        cyclic = cyclic.pop()


def test_names_beyond_any_header() -> None:
    key = "k" * 20_000_000
    with pytest.raises(ArgumentError, match="the names alone take more than"):
        Checkpoint.of_params({key: [X] * 6})


# ---------------------------------------------------------------------------------------------------------- checkpoints


def test_parts_of_a_checkpoint() -> None:
    one = Checkpoint.of_params({"w": f32(1, 2)}, prefix="model")
    both = Checkpoint.concat(one, Checkpoint.of_tensor("x", np.float64(3)), Checkpoint.of_int("optim.step", 7))
    assert both.names == ("model.w", "optim.step", "x")
    assert both.get("x").shape == ()
    assert both.find("y") is None
    assert call.find(both, 3) is None
    assert "x" in both
    assert "y" not in both
    assert both.to_int("optim.step") == 7
    assert both.get("optim.step").shape == (1,)
    assert both.get("optim.step").dtype == np.int32
    assert repr(both) == "<Checkpoint of 3>"
    assert Checkpoint.empty().names == ()
    assert Checkpoint.concat().names == ()
    with pytest.raises(ArgumentError, match="tensor 'y': the checkpoint has no such tensor"):
        both.get("y")


def test_a_checkpoint_does_not_change() -> None:
    array = f32(1, 2)
    checkpoint = Checkpoint({"w": array})
    with pytest.raises(ValueError, match="read-only"):
        checkpoint.get("w")[0] = 5
    with pytest.raises(AttributeError):
        checkpoint._tensors = {}
    with pytest.raises(AttributeError):
        checkpoint.more = 1
    with pytest.raises(AttributeError):
        del checkpoint._tensors
    array[0] = 3  # the owner of an array still may
    for other in (checkpoint, copy.copy(checkpoint), copy.deepcopy(checkpoint), pickle.loads(pickle.dumps(checkpoint))):
        assert plain(other.get("w")) == plain(f32(3, 2))
        assert not other.get("w").flags.writeable


@pytest.mark.parametrize("value", [0, 1, -(2**31), 2**31 - 1, np.int64(5), np.uint8(200)])
def test_integers(value: int) -> None:
    assert kaun.loads(Checkpoint.of_int("n", value).dumps()).to_int("n") == value


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**400, np.uint64(2**63), 1.0, True, np.True_, "1", None, X])
def test_integers_that_do_not_fit(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^i: found .*expected an integer of -2147483648 to 2147483647"):
        Checkpoint.of_int("n", value)


@pytest.mark.parametrize(
    ("array", "fits"),
    [
        (np.int32(4), True),
        (np.array([[4]], np.int32), True),
        (np.array([4], ">i4"), True),
        (np.array([4, 4], np.int32), False),
        (np.array([], np.int32), False),
        (np.array([4], np.int64), False),
        (np.array([4], np.uint32), False),
        (f32(4), False),
    ],
)
def test_to_int(array: Any, fits: bool) -> None:
    checkpoint = Checkpoint.of_tensor("n", array)
    if fits:
        assert checkpoint.to_int("n") == 4
    else:
        with pytest.raises(ArgumentError, match=r"tensor 'n': found dtype .*, expected one int32 element"):
            checkpoint.to_int("n")
    with pytest.raises(ArgumentError, match="no such tensor"):
        checkpoint.to_int("m")


BAD_CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: call.of_tensor("", X), "name: found '', expected a name that is not empty"),
    (lambda: call.of_tensor(3, X), "name: found 3"),
    (lambda: call.of_tensor("__metadata__", X), "no tensor can be called"),
    (lambda: call.of_tensor("\udfff", X), "lone surrogates"),
    (lambda: call.of_tensor("a", [1.0]), "x: found list"),
    (lambda: call.of_int("", 1), "name: found ''"),
    (lambda: call({"": X}), "tensors: found ''"),
    (lambda: call({"a": 3}), "tensor 'a': found int"),
    (lambda: call([X]), "tensors: found list of 1"),
    (lambda: call.concat(X), r"checkpoints\[0\]: found ndarray"),
    (lambda: kaun.save("x", X), "checkpoint: found ndarray"),
    (lambda: kaun.dumps({"a": X}), "checkpoint: found dict of 1"),  # type: ignore[arg-type]
    (lambda: kaun.loads("x"), "bytes-like"),  # type: ignore[arg-type]
    (lambda: kaun.load("a\0b"), "NUL"),
    (lambda: kaun.load(3), "path"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("bad", "told"), BAD_CALLS)
def test_bad_calls(bad: Callable[[], Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        bad()


def test_concat_names_all_that_are_there_twice() -> None:
    parts = [Checkpoint(dict.fromkeys(names, X)) for names in ("abz", "bc", "czd")]
    with pytest.raises(ArgumentError, match=r"^checkpoints: in more than one of them: 'b', 'c', 'z'$"):
        Checkpoint.concat(*parts)


# -------------------------------------------------------------------------------------------------------- to structures


def test_structures_keep_their_containers() -> None:
    like = {
        "model": model(),
        "frozen": Frozen(X),
        "named": Custom([("x", X)]),
        "proxy": types.MappingProxyType({"a": X}),
        "ordered": OrderedDict(b=X, a=X),
        "default": defaultdict(list, a=X),
        "tuple": (X, [X]),
        "empty": [(), {}],
    }
    made = Checkpoint.of_params(like).to_params(like)
    for key, value in like.items():
        assert type(made[key]) is type(value), key
    assert made["model"].activation == "relu"
    assert type(made["model"].layers[0]) is Layer
    assert same(made["model"].layers[1].w, f32(4, 5))
    assert made["model"].head["scale"].shape == ()
    assert made["default"].default_factory is list
    assert list(made["ordered"]) == ["b", "a"]
    assert made["empty"] == [(), {}]
    assert made["model"] is not like["model"]


def test_like_gives_no_values() -> None:
    like = {"a": np.empty(2, np.float32), "b": Broken()}  # the second could not even tell them
    made = Checkpoint({"a": f32(1, 2), "b": f32(3, 4), "other": X}).to_params(like)
    assert same(made, {"a": f32(1, 2), "b": f32(3, 4)})
    struct = types.SimpleNamespace(shape=(2,), dtype=np.dtype(np.float32))
    assert same(Checkpoint({"p": f32(1, 2)}).to_params(struct, "p"), f32(1, 2))


def test_what_comes_out_is_the_callers_own(tmp_path: Path) -> None:
    Checkpoint({"w": f32(1, 2)}).save(tmp_path / "x")
    checkpoint = kaun.load(tmp_path / "x")
    assert not checkpoint.get("w").flags.writeable
    made = checkpoint.to_params({"w": np.zeros(2, ">f4")})["w"]
    assert made.dtype.isnative
    made[0] = 9
    assert plain(checkpoint.get("w")) == plain(f32(1, 2))


def test_everything_that_does_not_fit_is_told() -> None:
    checkpoint = Checkpoint({"m.a": f32(1, 2), "m.b": f32(1, 2), "m.d": X})
    like = {"a": np.zeros((2, 1), np.float32), "b": np.zeros(2), "c\x1b": X, "d": X}
    with pytest.raises(TreeMismatchError, match=r"^like: does not fit: 3 problems\n") as caught:
        checkpoint.to_params(like, "m")
    assert caught.value.problems == (
        "'m.a': shape [2], expected [2, 1]",
        "'m.b': dtype float32, expected float64; cast=True converts",
        "'m.c\\x1b': missing from the checkpoint",
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.problems, str(again), again.path) == (caught.value.problems, str(caught.value), "like")
    with pytest.raises(TreeMismatchError) as caught:
        checkpoint.to_params(like, "m", cast=True)
    assert len(caught.value.problems) == 2
    with pytest.raises(TreeMismatchError, match=r"dtype float32, expected complex128$"):
        checkpoint.to_params({"b": np.zeros(2, complex)}, "m", cast=True)


class NoOther(list[Any]):
    def __copy__(self) -> Any:
        raise RuntimeError("one of a kind")


def test_a_container_that_cannot_be_made_again() -> None:
    with pytest.raises(ArgumentError, match=r"like\['a'\]: no NoOther can be made of other parts: one of a kind"):
        Checkpoint({"a.0": X}).to_params({"a": NoOther([X])})


@pytest.mark.parametrize("wanted", NUMPY_DTYPES)
@pytest.mark.parametrize("stored", NUMPY_DTYPES)
def test_cast(stored: str, wanted: str) -> None:
    array = np.array([0, 1, 2], np.float32).astype(NUMPY_DTYPES[stored])
    made = Checkpoint({"a": array}).to_params({"a": np.zeros(3).astype(NUMPY_DTYPES[wanted])}, cast=True)["a"]
    assert made.dtype == NUMPY_DTYPES[wanted]
    with np.errstate(all="ignore"):  # F8_E8M0 has no zero
        values = (array.real if array.dtype.kind == "c" else array).astype(np.float32).astype(NUMPY_DTYPES[wanted])
    assert [value.tobytes() for value in made[1:]] == [value.tobytes() for value in values[1:]]


def test_cast_says_nothing_of_what_it_loses() -> None:
    array = np.array([math.nan, math.inf, -1e300, 2.7])
    for name in NUMPY_DTYPES:
        like = {"a": np.zeros(4).astype(NUMPY_DTYPES[name])}
        assert Checkpoint({"a": array}).to_params(like, cast=True)["a"].dtype == NUMPY_DTYPES[name]
    made = Checkpoint({"a": np.array([2.7 + 3j], np.complex64)}).to_params({"a": np.zeros(1, np.int8)}, cast=True)
    assert made["a"].tolist() == [2]
    truth = Checkpoint({"a": np.array([3j, 0], np.complex64)}).to_params({"a": np.zeros(2, bool)}, cast=True)
    assert truth["a"].tolist() == [True, False]


# --------------------------------------------------------------------------------------------------------------- files


@given(structures(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3))
def test_structures_come_back_to_the_bit(tree: Any, prefix: str) -> None:
    data = Checkpoint.of_params(tree, prefix).dumps()
    checkpoint = kaun.loads(data)
    assert same(checkpoint.to_params(tree, prefix), tree)
    assert same(checkpoint.to_params(tree, prefix, cast=True), tree)
    assert checkpoint.dumps() == data


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3), leaves(), max_size=4))
def test_files_are_plain_safetensors(arrays: dict[str, Any]) -> None:
    data = Checkpoint(arrays).dumps()
    assert data == safetensors.dumps(arrays)
    file = safetensors.loads(data)
    assert file.metadata is None
    assert {name: plain(array) for name, array in file.tensors.items()} == {
        name: plain(array) for name, array in arrays.items()
    }


def test_nan_payloads_and_scalars(tmp_path: Path) -> None:
    bits = np.array([0x7FC12345, 0xFFA00001, 0x80000000], np.uint32)
    arrays = {"nan": bits.view(np.float32), "scalar": np.float32(3), "none": np.zeros((0, 3), np.int8)}
    kaun.save(tmp_path / "x", Checkpoint(arrays))
    back = kaun.load(tmp_path / "x")
    assert back.get("nan").view(np.uint32).tolist() == bits.tolist()
    assert back.to_params(arrays)["nan"].view(np.uint32).tolist() == bits.tolist()
    assert back.get("scalar").shape == ()
    assert type(back.to_params(arrays)["scalar"]) is np.ndarray
    assert back.get("none").shape == (0, 3)


def test_the_typical_use(tmp_path: Path) -> None:
    params, mu = {"w": f32(1, 2)}, {"w": f32(3, 4)}
    parts = (
        Checkpoint.of_params(params, prefix="model"),
        Checkpoint.of_params(mu, prefix="optim.mu"),
        Checkpoint.of_int("optim.step", 12),
    )
    Checkpoint.concat(*parts).save(tmp_path / "run.safetensors")
    back = Checkpoint.load(tmp_path / "run.safetensors")
    assert same(back.to_params(params, prefix="model"), params)
    assert same(back.to_params(mu, prefix="optim.mu"), mu)
    assert back.to_int("optim.step") == 12
    grown = {"backbone": params, "head": {"w": f32(0)}}  # a pretrained backbone, a new head
    grown["backbone"] = back.to_params(grown["backbone"], prefix="model")
    assert same(grown, {"backbone": params, "head": {"w": f32(0)}})


def test_a_map_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    Checkpoint({"w": np.arange(100_000.0)}).save(path)
    checkpoint = kaun.load(path)
    checkpoint.save(path)  # over what it is a view of
    path.unlink()
    assert checkpoint.get("w").sum() == 100_000 * 99_999 / 2


@pytest.mark.parametrize("array", [np.zeros(2, complex), np.array(["a"]), np.array([None]), np.zeros(2, "V4")])
def test_dtypes_that_no_file_can_hold(array: Any, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ArgumentError, match=r"tensor 'a': dtype .* is none of"):
        Checkpoint({"a": array}).save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def stored(dtype: str, *shape: int) -> Tensor:
    bits = math.prod(shape) * SAFETENSORS_DTYPES[dtype].bits
    return Tensor(dtype=dtype, shape=shape, data=bytes(bits // 8))


def test_what_numpy_cannot_represent_is_skipped(tmp_path: Path) -> None:
    tensors = {
        "a": X,
        "four": stored("F4", 2),
        "six\x1b": stored("F6_E2M3", 4),
        "wide": stored("F32", 0, 2**63),
        "deep": stored("U8", *[1] * 70),
        "z": stored("F8_E8M0", 3),
    }
    path = tmp_path / "x"
    safetensors.save(path, TensorFile(tensors=tensors, metadata={"a": "b"}))
    for load in (kaun.load, Checkpoint.load):
        with pytest.warns(SkippedTensorsWarning) as told:
            checkpoint = load(path)
        assert checkpoint.names == ("a", "z")
        (warning,) = told
        assert warning.filename == __file__
        assert str(path) in str(warning.message)
        assert "'four' (F4, shape [2])" in str(warning.message)
        assert "'six\\x1b' (F6_E2M3, shape [4])" in str(warning.message)
        assert f"'wide' (F32, shape [0, {2**63}])" in str(warning.message)
        assert "'deep'" in str(warning.message)
    with pytest.warns(SkippedTensorsWarning, match="^skipped"):
        kaun.loads(path.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert safetensors.loads(kaun.load(path).dumps()).metadata is None


def test_an_empty_name_in_a_file_is_refused(tmp_path: Path) -> None:
    tensors = {"a": X, "": np.zeros(1, np.int8), '\\"': X}
    data = safetensors.dumps(tensors, {"": "{"})
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(
        EmptyNameError, match=r"SAFETENSORS-TEN-NAMELESS at byte .*found '', expected a name.*SHOULD NOT"
    ) as caught:
        kaun.load(path)
    error = caught.value
    assert isinstance(error, FormatError)
    assert not isinstance(error, ArgumentError)
    assert data[error.offset :][: error.length] == b'""'
    assert data[error.offset :].startswith(b'"":{"dtype":"I8"')
    assert (error.source, error.finding.severity) == (str(path), "note")
    assert error.finding.to_json()["sentence"] == error.finding.definition.sentence
    with pytest.raises(EmptyNameError):
        Checkpoint.loads(data)


def test_bad_files(tmp_path: Path) -> None:
    data = Checkpoint({"a": X}).dumps()
    for bad in (b"", data[:-1], data + b"x", data.replace(b"F32", b"F33")):
        (tmp_path / "x").write_bytes(bad)
        with pytest.raises(FormatError):
            kaun.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        kaun.load(tmp_path / "y")
    with pytest.raises(IsADirectoryError):
        kaun.load(tmp_path)
    with pytest.raises(OSError, match="x"):
        kaun.save(tmp_path / "x" / "y", Checkpoint.empty())


def test_the_official_package(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors.numpy")
    arrays = {
        "w": f32(1, 2),
        'é"\\\n': np.arange(6, dtype=np.int16).reshape(2, 3),
        "s": np.array(1.5),
        "e": np.zeros((0, 2), np.uint8),
        "b": np.array([True, False]),
    }
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    Checkpoint.of_params(arrays).save(ours)
    official.save_file(arrays, theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    read = official.load_file(ours)
    assert {name: plain(read[name]) for name in read} == {name: plain(arrays[name]) for name in arrays}
    official.save_file(arrays, theirs, metadata={"made": "elsewhere"})
    assert same(kaun.load(theirs).to_params(arrays), arrays)


def test_walking_shows_the_way() -> None:
    nodes = trees.walk({"a": [Frozen(X)]}, "params")
    assert [node.path("params") for node in nodes] == [
        "params",
        "params['a']",
        "params['a'][0]",
        "params['a'][0].w",
    ]


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 8) == (0, True)
