"""nuvec's trees: MLX's names, what the metadata tells, loading that fits exactly or changes nothing."""

from __future__ import annotations

import copy
import doctest
import itertools
import mmap
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptspec import ArgumentError, FormatError, nuvec, safetensors
from ckptspec.conformance.strategies_trees import NUMPY_DTYPES, leaves, structures
from ckptspec.nuvec import TreeMismatchError
from ckptspec.safetensors import Tensor, TensorFile
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import SAFETENSORS_DTYPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "nuvec.md"

BF16 = NUMPY_DTYPES["BF16"]
X = np.array([1, 2], np.float32)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: Any
    head: Any


@dataclass(frozen=True)
class Frozen:
    w: Any


class Custom:
    """A container of one's own, which makes another of itself."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    def named_leaves(self) -> Any:
        return self.parts.items()

    def with_leaves(self, leaves: Any) -> Custom:
        return Custom(**dict(zip(self.parts, leaves, strict=True)))


def metadata(tree: Any, root: str | None = None) -> Any:
    return safetensors.loads(nuvec.dumps(tree, root)).metadata


def parts(tree: Any) -> Iterator[Any]:
    """A tree's containers, their types and keys, and its leaves: the very objects."""
    yield tree
    if isinstance(tree, dict):
        yield " ".join(tree)
        for value in tree.values():
            yield from parts(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from parts(value)
    elif isinstance(tree, (Model, Frozen, Custom)):
        for value in (tree.parts if isinstance(tree, Custom) else vars(tree)).values():
            yield from parts(value)


def identities(tree: Any) -> list[Any]:
    return [part if isinstance(part, str) else id(part) for part in parts(tree)]


def bits(tree: Any) -> list[Any]:
    """Keys and leaves of a tree, as they are to the bit."""
    found: list[Any] = []
    for part in parts(tree):
        if isinstance(part, (np.ndarray, np.generic)):
            little = np.asarray(part).astype(part.dtype.newbyteorder("<"))
            found.append((little.dtype, little.shape, little.tobytes()))
        else:
            found.append(part if isinstance(part, str) else type(part))
    return found


# --------------------------------------------------------------------------------------------------------------- names

# What mlx.utils.tree_flatten of mlx 0.32.4 calls the leaves.
NAMES: list[tuple[Any, list[str]]] = [
    ({"a": [X, (X, {"b": X})]}, ["a.0", "a.1.0", "a.1.1.b"]),
    (X, [""]),
    (({"w": X}, [X]), ["0.w", "1.0"]),
    ({"model": {"layers": [{"w": X}] * 2}, "step": X}, ["model.layers.0.w", "model.layers.1.w", "step"]),
    ({"": X, "a": {"": X}}, ["", "a."]),
    ({"": {"": X, "b": X}}, [".", ".b"]),
    ({"x.y": X, "x": X}, ["x.y", "x"]),
    (Layer(X, {"z": X}), ["0", "1.z"]),
    (OrderedDict(b=X, a=X), ["b", "a"]),
    ([[[X]]], ["0.0.0"]),
    ([X] * 11, [str(index) for index in range(11)]),
    ({"x": [], "y": {}, "z": ()}, []),
]


@pytest.mark.parametrize(("tree", "names"), NAMES)
def test_names(tree: Any, names: list[str]) -> None:
    tensors = safetensors.loads(nuvec.dumps(tree)).tensors
    assert sorted(tensors) == sorted(names)
    assert bits(nuvec.loads_into(nuvec.dumps(tree), copy.deepcopy(tree))) == bits(tree)


@pytest.mark.parametrize(("tree", "names"), NAMES)
def test_names_are_those_of_mlx(tree: Any, names: list[str]) -> None:
    mlx = pytest.importorskip("mlx.utils")
    assert [name for name, _ in mlx.tree_flatten(tree)] == names


@given(structures(st.text("ab. é", max_size=3)))
def test_names_of_any_tree_are_those_of_mlx(tree: Any) -> None:
    mlx = pytest.importorskip("mlx.utils")
    names = [name for name, _ in mlx.tree_flatten(tree)]
    if len(set(names)) < len(names):
        with pytest.raises(ArgumentError, match="has the same name"):
            nuvec.dumps(tree)
    else:
        assert sorted(safetensors.loads(nuvec.dumps(tree)).tensors) == sorted(names)


def test_names_of_fields_and_of_ones_own_containers() -> None:
    tree = Model([Frozen(X)], Custom(a=X, b=[X]))
    assert sorted(safetensors.loads(nuvec.dumps(tree)).tensors) == ["head.a", "head.b.0", "layers.0.w"]


CYCLE: dict[str, Any] = {}
CYCLE["again"] = [CYCLE]


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"a": {"b": X}, "a.b": X}, r"tree\['a.b'\]: tree\['a'\]\['b'\] has the same name, 'a.b'"),
        ({"a": [X], "a.0": X}, "has the same name, 'a.0'"),
        ({"__metadata__": X}, "no tensor can be called __metadata__"),
        ({"\udc00": X}, "lone surrogates"),
        ({0: X}, "tree: found the key 0, expected text"),
        ({"a": None}, r"tree\['a'\]: found None, expected an array"),
        ({"step": 3}, "found 3, expected an array"),
        (CYCLE, r"tree\['again'\]\[0\]: the structure is cyclic: this is tree again"),
    ],
)
def test_trees_that_are_refused(tree: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=told):
        nuvec.save(tmp_path / "x", tree)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArgumentError, match=told):
        nuvec.loads_into(nuvec.dumps({"a": X}), tree)


@pytest.mark.parametrize("array", [np.zeros(2, complex), np.array(["a"]), np.zeros(1, np.longdouble)])
def test_dtypes_that_no_file_can_hold(array: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"tensor 'a': dtype .* is none of"):
        nuvec.save(tmp_path / "x", {"a": array})
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------------ metadata


@pytest.mark.parametrize(
    ("tree", "root", "told"),
    [
        ({}, None, "dict"),
        ([], None, "list"),
        ((X, X), None, "tuple"),
        (X, None, "ndarray"),
        (Layer(X, X), None, "Layer"),
        (Model([], {}), None, "Model"),
        (Custom(), None, "Custom"),
        ((X,), "(Model, Adam)", "(Model, Adam)"),
        ({}, "", ""),
    ],
)
def test_root(tree: Any, root: str | None, told: str) -> None:
    assert metadata(tree, root) == {"format": "nuvec-tree", "root": told}


def test_bad_root() -> None:
    with pytest.raises(ArgumentError, match="root: found type, expected the name of a type"):
        metadata({}, Model)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="lone surrogates"):
        metadata({}, "\ud800")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.float32(1), "1"),
        (np.float32(1e-5), "0.000009999999747378752"),
        (np.float64(1e-5), "0.00001"),
        (np.float64(0.1), "0.1"),
        (np.float32(0.1), "0.10000000149011612"),
        (np.float16(0.1), "0.0999755859375"),
        (np.float32(0.1).astype(BF16), "0.10009765625"),
        (np.float32(-0.0), "-0"),
        (np.float64(0), "0"),
        (np.float64("nan"), "NaN"),
        (-np.float64("nan"), "NaN"),
        (np.float32("inf"), "inf"),
        (np.float16("-inf"), "-inf"),
        (np.float64(1e22), "1" + "0" * 22),
        (np.float64(2**63), "9223372036854776000"),  # the shortest digits, and zeros
        (np.float64(123456789.125), "123456789.125"),
        (np.float64(5e-324), "0." + "0" * 323 + "5"),
        (np.float64(1.7976931348623157e308), "17976931348623157" + "0" * 292),
        (np.array(2.5, ">f8"), "2.5"),
        (np.int64(2**63 - 1), "9223372036854775807"),
        (np.int64(-(2**63)), "-9223372036854775808"),
        (np.uint64(2**63 - 1), "9223372036854775807"),
        (np.array(-5, ">i2"), "-5"),
        (np.uint8(0), "0"),
        (np.bool_(True), "1"),
        (np.bool_(False), "0"),
        (np.array(2, np.uint8).view(bool), "1"),
        (np.float32(2).astype(NUMPY_DTYPES["F8_E4M3"]), "2"),
        (np.float32(-8).astype(NUMPY_DTYPES["F8_E5M2"]), "-8"),
    ],
)
def test_values_that_the_metadata_tells(value: Any, told: str) -> None:
    assert metadata({"step": value, "a": {"learning_rate": value}}) == {
        "format": "nuvec-tree",
        "root": "dict",
        "step": told,
        "learning_rate": told,
    }


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_digits_round_trip_and_are_plain(value: float) -> None:
    told = metadata({"step": np.float64(value)})["step"]
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", told)
    assert np.float64(told).tobytes() == np.float64(value).tobytes()
    assert Decimal(told) == Decimal(repr(value))  # whose digits are the shortest that do


@pytest.mark.parametrize(
    "value",
    [
        np.uint64(2**63),
        np.uint64(2**64 - 1),
        np.complex64(1),
        np.float32(0.5).astype(NUMPY_DTYPES["F8_E4M3"]),
        np.float32("nan").astype(NUMPY_DTYPES["F8_E4M3"]),
        np.float32(2.0**100).astype(NUMPY_DTYPES["F8_E8M0"]),
    ],
)
def test_values_that_the_metadata_cannot_tell(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"tree\['a'\]\['step'\]: the metadata cannot tell"):
        nuvec.save(tmp_path / "x", {"a": {"step": value}})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"a": {"step": np.int8(1)}, "step": np.int8(2)}, {"step": "1"}),
        ({"step": np.int8(2), "a": {"step": np.int8(1)}}, {"step": "2"}),
        ([{"step": f32(1)}, {"step": np.int8(3)}], {"step": "3"}),  # the first is no scalar
        ({"a.step": np.int8(4)}, {"step": "4"}),
        ({"xstep": np.int8(4), "step_": np.int8(4), "step": {"x": np.int8(4)}}, {}),
        ({"steps": {"learning_rate": np.int8(4)}}, {"learning_rate": "4"}),
        ({".step": np.int8(5)}, {"step": "5"}),
        ((Model({}, {"step": np.int8(6)}), Frozen(np.int8(1))), {"step": "6"}),
        (np.int8(1), {}),
        ({"step": np.zeros(1, np.int8)}, {}),
        ({"learning_rate": np.zeros((), complex)[..., None]}, None),
    ],
)
def test_which_leaf_the_metadata_tells(tree: Any, found: Any) -> None:
    if found is None:  # no file can hold it, and the metadata is not to blame
        with pytest.raises(ArgumentError, match="is none of"):
            metadata(tree)
    else:
        assert {key: value for key, value in metadata(tree).items() if key not in ("format", "root")} == found


# --------------------------------------------------------------------------------------------------------------- files


@given(structures())
def test_trees_come_back_to_the_bit(tree: Any) -> None:
    data = nuvec.dumps(tree)
    made = nuvec.loads_into(data, copy.deepcopy(tree))
    assert bits(made) == bits(tree)
    assert nuvec.dumps(made, type(tree).__name__) == data


@given(st.dictionaries(st.text("abc", max_size=3), leaves(), max_size=8), st.text("ab", max_size=9))
def test_what_is_written_is_aligned(tree: Any, root: str) -> None:
    data = nuvec.dumps(tree, root)
    anatomy = safetensors.anatomy_of(BufferSource(data))
    assert anatomy.data % 8 == 0
    sizes = []
    for entry in sorted(anatomy.entries, key=lambda entry: (entry.begin, entry.end)):
        assert entry.dtype is not None
        assert entry.begin is not None
        assert (anatomy.data + entry.begin) % entry.dtype.size == 0
        sizes.append(entry.dtype.size)
    assert sizes == sorted(sizes, reverse=True)


def test_the_order_of_dtypes_aligns_them() -> None:
    tree = {name: np.ones(3, np.float32).astype(dtype) for name, dtype in NUMPY_DTYPES.items()}
    tensors = list(safetensors.loads(nuvec.dumps(tree)).tensors)
    assert tensors[-2:] == ["U8", "BOOL"]
    sizes = [SAFETENSORS_DTYPES[name].size for name in tensors]
    assert sizes == sorted(sizes, reverse=True)


def test_nan_payloads_and_scalars(tmp_path: Path) -> None:
    payloads = np.array([0x7FC12345, 0xFFA00001], np.uint32)
    tree: Any = {"nan": payloads.view(np.float32), "scalar": np.float32(3), "none": np.zeros((0, 3), np.int8)}
    nuvec.save(tmp_path / "x", tree)
    nuvec.load_into(tmp_path / "x", tree)
    assert tree["nan"].view(np.uint32).tolist() == payloads.tolist()
    assert type(tree["scalar"]) is np.ndarray
    assert tree["scalar"].shape == ()
    assert tree["none"].shape == (0, 3)


def test_the_official_package(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors.numpy")
    whole = pytest.importorskip("safetensors")
    tree = {"w": X, "step": np.int64(7), "l": [np.array([True])]}
    path = tmp_path / "x"
    nuvec.save(path, tree)
    read = official.load_file(path)
    assert {name: read[name].tolist() for name in read} == {"w": [1, 2], "step": 7, "l.0": [True]}
    with whole.safe_open(path, "numpy") as file:
        assert file.metadata() == {"format": "nuvec-tree", "root": "dict", "step": "7"}
    official.save_file(read, path)
    assert bits(nuvec.load_into(path, copy.deepcopy(tree))) == bits(tree)


# ------------------------------------------------------------------------------------------------------------- loading


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of w, two binary32, and of b, one."""
    nuvec.save(tmp_path / "x", {"w": f32(1, 2), "b": f32(3)})
    return tmp_path / "x"


def test_mutable_containers_are_changed_in_place(path: Path) -> None:
    inner = [f32(0, 0)]
    tree = Model({"l": inner}, OrderedDict(s=np.float32(0)))
    nuvec.save(path, Model({"l": [f32(1, 2)]}, {"s": np.float32(3)}))
    old = inner[0]
    assert nuvec.load_into(path, tree) is tree
    assert tree.layers["l"] is inner
    assert inner[0].tolist() == [1, 2]
    assert tree.head["s"] == 3
    assert old.tolist() == [0, 0]  # an array is replaced, not overwritten


def test_what_cannot_change_is_made_anew(path: Path) -> None:
    empty = (Layer((), ()),)
    tree: dict[str, Any] = {
        "t": (f32(0), [f32(0)]),
        "l": Layer(f32(0), {"x": f32(0)}),
        "f": Frozen(f32(0)),
        "c": Custom(a=f32(0), b=(f32(0),)),
        "m": ([f32(0)], {"x": f32(0)}),
        "e": empty,
    }
    before = dict(tree)
    nuvec.save(path, {**copy.deepcopy(tree), "f": Frozen(f32(5))})
    made: Any = nuvec.load_into(path, tree)
    assert made is tree
    assert bits(made) == bits({**before, "f": Frozen(f32(5))})
    for key in "tlfc":
        assert made[key] is not before[key]
        assert type(made[key]) is type(before[key])
    assert made["t"][1] is before["t"][1]
    assert made["l"].b is before["l"].b
    assert made["m"] is before["m"]  # nothing in it changed but what its parts hold
    assert made["e"] is empty
    assert before["f"].w.tolist() == [0]


@pytest.mark.parametrize(
    "tree", [(f32(0),), Frozen(f32(0)), Custom(w=f32(0)), f32(0), np.float32(0), Layer(f32(0), ())]
)
def test_a_root_that_cannot_change_is_returned_anew(tree: Any, path: Path) -> None:
    other = copy.deepcopy(tree)
    before = identities(tree)
    nuvec.save(path, tree)
    made = nuvec.load_into(path, tree)
    assert type(made) is (np.ndarray if isinstance(tree, np.generic) else type(tree))
    assert made is not tree
    assert identities(tree) == before
    assert nuvec.dumps(tree) == nuvec.dumps(other)


def test_the_dtypes_of_the_file_are_kept(path: Path) -> None:
    tree: dict[str, Any] = {"w": np.zeros(2, np.int64), "b": np.zeros(1, bool)}
    nuvec.load_into(path, tree)
    assert (tree["w"].dtype, tree["b"].dtype) == (np.float32, np.float32)


class Telling:
    """A leaf that only tells its shape."""

    shape, dtype = (2,), np.dtype(np.float16)


def test_leaves_need_no_values(path: Path) -> None:
    tree: Any = {"w": Telling(), "b": f32(0)}
    assert nuvec.load_into(path, tree)["w"].tolist() == [1, 2]


def test_every_problem_is_told_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b"
    packed = Tensor(dtype="F4", shape=(2,), data=b"x")
    wide = Tensor(dtype="F32", shape=(0, 2**63), data=b"")
    tensors = {"a": X, "p": packed, "l.0": X, "m\n": X, "": X, "wide": wide}
    safetensors.save(path, TensorFile(tensors=tensors))
    tree = {"a": f32(0, 0), "p": np.zeros((2, 1)), "l": [np.float32(0), (f32(1),)], "z": Frozen(X), "wide": X}
    before = identities(tree)
    data = nuvec.dumps(tree)
    with pytest.raises(TreeMismatchError, match=r"x\\x1b: does not fit: 8 problems\n") as caught:
        nuvec.load_into(path, tree)
    assert caught.value.problems == (
        "'p': shape [2] in the file, [2, 1] in the tree",
        "'p': numpy has no type for the dtype F4",
        "'l.0': shape [2] in the file, [] in the tree",
        "'l.1.0': missing from the file",
        "'z.w': missing from the file",
        f"'wide': shape [0, {2**63}] in the file, [2] in the tree",
        "'': unexpected, not in the tree",
        "'m\\n': unexpected, not in the tree",
    )
    assert identities(tree) == before
    assert nuvec.dumps(tree) == data
    with pytest.raises(TreeMismatchError, match=r"^tree: does not fit: 1 problem\n"):
        nuvec.loads_into(nuvec.dumps({}), X)


class Stubborn(dict[str, Any]):
    """A mapping that takes nothing when it is told so."""

    closed = False

    def __setitem__(self, key: str, value: Any) -> None:
        if self.closed:
            raise RuntimeError("closed")
        super().__setitem__(key, value)


class Interrupted(dict[str, Any]):
    """A mapping that takes a value, and then somebody presses Ctrl-C."""

    closed = False

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if self.closed:
            type(self).closed = False
            raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "raised"), [(Stubborn, ArgumentError), (Interrupted, KeyboardInterrupt)])
@pytest.mark.parametrize("place", range(3))
def test_all_or_nothing(kind: type[Any], raised: type[BaseException], place: int, path: Path) -> None:
    stubborn = kind(w=f32(0))
    others: list[Any] = [{"w": f32(0), "t": (f32(0),)}, Model(f32(0), Frozen(f32(0)))]
    tree = [*others[:place], stubborn, *others[place:]]
    nuvec.save(path, [*copy.deepcopy(others[:place]), {"w": f32(9)}, *copy.deepcopy(others[place:])])
    before = identities(tree)
    kind.closed = True
    try:
        with pytest.raises(raised) as caught:
            nuvec.load_into(path, tree)
    finally:
        kind.closed = False
    if kind is Stubborn:
        assert str(caught.value) == f"tree[{place}]['w']: its place in the tree takes no other array: closed"
    assert identities(tree) == before
    nuvec.load_into(path, tree)
    assert stubborn["w"].tolist() == [9]


class Refuses(Custom):
    def with_leaves(self, leaves: Any) -> Custom:
        raise RuntimeError("no other")


def test_a_container_that_cannot_be_made_again_changes_nothing(path: Path) -> None:
    tree = {"w": f32(0, 0), "b": f32(0), "c": Refuses(x=f32(0))}
    nuvec.save(path, {**tree, "w": f32(1, 2)})
    before = identities(tree)
    with pytest.raises(ArgumentError, match=r"tree\['c'\]: no Refuses can be made of other parts: no other"):
        nuvec.load_into(path, tree)
    assert identities(tree) == before


def test_a_container_that_is_in_the_tree_twice(path: Path) -> None:
    shared = {"w": f32(0), "t": (f32(0), [f32(0)])}
    tree = {"enc": shared, "dec": shared}
    nuvec.save(path, tree)
    nuvec.load_into(path, tree)  # the same values for the same places
    assert tree["enc"] is shared
    before = identities(tree)
    nuvec.save(path, {"enc": {"w": f32(1), "t": (f32(0), [f32(0)])}, "dec": {"w": f32(2), "t": (f32(7), [f32(8)])}})
    with pytest.raises(TreeMismatchError) as caught:
        nuvec.load_into(path, tree)
    assert caught.value.problems == tuple(
        f"'dec.{name}': another value than 'enc.{name}', which is the same place of the tree"
        for name in ("w", "t.0", "t.1.0")
    )
    assert identities(tree) == before
    array = f32(0)
    both = {"enc": (array,), "dec": [array], "x": (array,)}  # that the leaf is shared does not matter
    nuvec.save(path, {"enc": (f32(1),), "dec": [f32(2)], "x": (f32(3),)})
    nuvec.load_into(path, both)
    assert [both[key][0].tolist() for key in both] == [[1], [2], [3]]


def test_arrays_are_private_views_of_the_file(path: Path) -> None:
    nuvec.save(path, {"w": np.arange(100_000.0)})
    data = path.read_bytes()
    tree = {"w": np.zeros(100_000)}
    nuvec.load_into(path, tree)
    assert mapped(tree["w"])
    tree["w"] += 1
    assert path.read_bytes() == data
    nuvec.save(path, tree)  # over what it is a view of
    path.unlink()
    assert tree["w"].sum() == 100_000 * 100_001 / 2


def mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_what_is_not_aligned_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    data = nuvec.dumps({"a": np.arange(3.0), "b": np.arange(3, dtype=np.uint8), "e": np.zeros((0, 2))})
    for spaces in range(9):
        length = int.from_bytes(data[:8], "little")
        path.write_bytes(
            (length + spaces).to_bytes(8, "little") + data[8 : 8 + length] + b" " * spaces + data[8 + length :]
        )
        tree = {"a": np.zeros(3), "b": np.zeros(3), "e": np.zeros((0, 2))}
        nuvec.load_into(path, tree)
        assert mapped(tree["a"]) == (spaces % 8 == 0)
        assert mapped(tree["b"])
        assert not mapped(tree["e"])
        for array, (key, size) in itertools.product(tree.values(), [("a", 3)]):
            assert array.flags.aligned
            assert array.flags.writeable
            assert tree[key].tolist() == list(range(size))
        assert tree["b"].tolist() == [0, 1, 2]


def test_arrays_share_nothing_with_bytes() -> None:
    data = bytearray(nuvec.dumps({"w": X}))
    tree = nuvec.loads_into(data, {"w": f32(0, 0)})
    data[:] = bytes(len(data))
    assert tree["w"].tolist() == [1, 2]


def test_bad_files(path: Path, tmp_path: Path) -> None:
    tree = {"w": f32(0, 0), "b": f32(0)}
    before = identities(tree)
    data = path.read_bytes()
    for bad in (b"", data[:-1], data + b"x", data.replace(b"F32", b"F33")):
        path.write_bytes(bad)
        with pytest.raises(FormatError):
            nuvec.load_into(path, tree)
    with pytest.raises(FileNotFoundError):
        nuvec.load_into(tmp_path / "y", tree)
    with pytest.raises(ArgumentError, match="bytes-like"):
        nuvec.loads_into(str(path), tree)  # type: ignore[arg-type]
    assert identities(tree) == before


def test_the_metadata_does_not_count_when_loading(path: Path) -> None:
    safetensors.save(path, {"w": f32(1, 2)}, {"format": "pt", "step": "x"})
    assert nuvec.load_into(path, {"w": f32(0, 0)})["w"].tolist() == [1, 2]


def test_deep_trees(path: Path) -> None:
    tree: Any = X
    for _ in range(100_000):
        tree = [tree]
    nuvec.save(path, tree)
    assert nuvec.load_into(path, tree) is tree
    wrapped: Any = X
    for _ in range(1000):
        wrapped = (wrapped,)
    data = nuvec.dumps(wrapped)
    made = nuvec.loads_into(data, wrapped)
    for _ in range(1000):
        (made,) = made
    assert made.tolist() == [1, 2]


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 8) == (0, True)
