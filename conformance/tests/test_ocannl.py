"""The calls of a program on OCANNL checkpoints: saving the values of nodes, loading new nodes, restoring old ones."""

from __future__ import annotations

import errno
import gc
import itertools
import math
import mmap
import os
import re
import struct
import tempfile
import tracemalloc
import weakref
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import ckptspec
from ckptspec import ArgumentError, FormatError, ocannl, validate
from ckptspec.conformance.catalogue import load_suite
from ckptspec.ocannl import (
    Checkpoint,
    Context,
    Padding,
    Registry,
    Tensor,
    TensorNode,
    TrainingRecord,
    ingestion_counts,
    load,
    reset_ingestion_counts,
    restore,
    save,
    settings,
    training,
)
from ckptspec.source import BufferSource, FileSource
from ckptspec.spec.dtypes import OCANNL_PRECISIONS
from ckptspec.spec.schema import OcannlFrame

calls: Any = ocannl  # for calls that mypy refuses, too
Array = np.ndarray[Any, np.dtype[Any]]
NOT_A_NUMBER, MINUS_NOT_A_NUMBER = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48)
)


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count from zero, put the settings back; and do not wait for the disk, which is not what is tested here."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    reset_ingestion_counts()
    before = settings.checkpoint_load_mmap
    yield
    settings.checkpoint_load_mmap = before


def random_array(node: TensorNode, seed: int = 0) -> Array:
    """Any bits at all, those of signalling NaNs included."""
    size = math.prod(node.shape) * node.dtype.itemsize
    content = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    return np.ndarray(node.shape, node.dtype, content if size else None)


def program(*nodes: TensorNode, seed: int = 0) -> Context:
    """A context in which registered nodes have random values."""
    registry = Registry()
    registry.add(nodes)
    return Context({node: random_array(node, seed + row) for row, node in enumerate(nodes)}, registry=registry)


def same(one: Array, other: Array) -> bool:
    """Whether two arrays are the same to the bit."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def mapped(array: Array) -> bool:
    """Whether the elements of an array are those of a memory map."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "obj", base), mmap.mmap)


def by_key(ctx: Context) -> dict[tuple[Any, int], Array]:
    return {node.key: ctx[node] for node in ctx}


def keys(path: Path) -> list[tuple[Any, int]]:
    """Which tensors a file holds, in its order."""
    return [tensor.node.key for tensor in ckptspec.load(path).tensors]


def craft(records: Iterable[str], data: bytes = b"", head: str = "(version 1) (alignment 1)", more: str = "") -> bytes:
    """A file of handwritten records."""
    text = f"({head} (tensors ({' '.join(records)})){more})".encode()
    return struct.pack(">i", len(text)) + text + data


def record(id: int, offset: int, namespace: str = "ocannl", dims: str = "(2)", size: int = 8, **other: str) -> str:
    """The handwritten record of a tensor, of two f32 unless told otherwise."""
    values = {"label": "()", "prec": "Single_prec", "dims": dims, "padding": "none"} | other
    pairs = " ".join(f"({key} {value})" for key, value in values.items())
    return f'((id {id}) (namespace "{namespace}") {pairs} (offset {offset}) (byte_length {size}))'


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def refused(call: Callable[[], object], message: str, kind: type[Exception] = ArgumentError) -> None:
    """Check that a call raises an error that says just this."""
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


W, B, S = (
    TensorNode(id=0, label=("w", "hidden"), dims=(2, 3)),
    TensorNode(id=1, precision="double", dims=(3,)),
    TensorNode(id=2, precision="int64"),
)


# -------------------------------------------------------------------------------------------------------- round trips

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (2, 3), (3, 0, 2), (2, 1, 3, 2))


def test_every_precision_and_shape_bit_by_bit(tmp_path: Path) -> None:
    """What was saved comes back from load and from restore, mapped or copied, with the same bits."""
    registry = Registry()
    nodes = [registry.create(shape, precision=name) for name in OCANNL_PRECISIONS for shape in SHAPES]
    ctx = Context({node: random_array(node, node.id) for node in nodes}, registry=registry)
    assert len(OCANNL_PRECISIONS) == 13
    save(ctx, nodes, tmp_path / "t")
    assert validate(tmp_path / "t").canonical
    for way in (True, False):
        loaded, made = load(Context(), tmp_path / "t", mmap=way)
        assert made == frozenset(nodes)
        assert list(loaded) == nodes
        for node in loaded:  # the very node that was saved, in all that it says
            twin = registry.get(*node.key)
            assert twin is not None
            assert (node.label, node.precision, node.dims, node.padding) == (
                twin.label,
                twin.precision,
                twin.dims,
                None,
            )
        restored = restore(Context(registry=registry), nodes, tmp_path / "t", mmap=way)
        for node in nodes:
            for again in (loaded[node], restored[node]):
                assert same(again, ctx[node]), node
                assert again.flags.writeable, node


def test_patterns_of_floats_that_arithmetic_would_change(tmp_path: Path) -> None:
    """Every value of 8 and 16 bits; signalling and quiet NaNs with payloads of both signs, subnormals, zeros."""
    patterns: dict[str, Array] = {
        "fp8": np.arange(256, dtype=np.uint8),
        "half": np.arange(1 << 16, dtype=np.uint16),
        "bfloat16": np.arange(1 << 16, dtype=np.uint16),
        "single": np.array([0x7F800001, 0xFF800001, 0x7FBFFFFF, 0x7FC00000, 0xFFC12345, 1, 1 << 31], np.uint32),
        "double": np.array([0x7FF << 52 | 1, 0xFFF << 52 | 1, 0x7FF8 << 48, 0xFFF8DEAD << 32, 1, 1 << 63], np.uint64),
    }
    arrays = {
        TensorNode(id=row, precision=name, dims=bits.shape): bits.view(
            {"fp8": ml_dtypes.float8_e5m2, "bfloat16": ml_dtypes.bfloat16, "half": "<f2", "single": "<f4"}.get(
                name, "<f8"
            )
        )
        for row, (name, bits) in enumerate(patterns.items())
    }
    scalars = {
        TensorNode(id=100 + node.id, precision=node.precision): np.array(array[-5]) for node, array in arrays.items()
    }
    ctx = Context(arrays | scalars)
    save(ctx, ctx, tmp_path / "t")
    for way in (True, False):
        for again in (load(Context(), tmp_path / "t", mmap=way)[0], restore(ctx, ctx, tmp_path / "t", mmap=way)):
            assert all(same(again[node], ctx[node]) for node in ctx)


def test_uint4x32_is_four_numbers_to_an_element(tmp_path: Path) -> None:
    node = TensorNode(id=0, precision="uint4x32", dims=(2, 3))
    assert (node.shape, node.dtype, node.size) == ((2, 3, 4), np.dtype("<u4"), 96)
    scalar = TensorNode(id=1, precision="uint4x32")
    ctx = Context(
        {node: np.arange(24, dtype=np.uint32).reshape(2, 3, 4), scalar: np.array([1, 2, 3, 0xFFFFFFFF], np.uint32)}
    )
    save(ctx, [node, scalar], tmp_path / "t")
    assert (tmp_path / "t").read_bytes()[-112:] == struct.pack("<28I", *range(24), 1, 2, 3, 0xFFFFFFFF)
    again = load(Context(), tmp_path / "t")[0]
    assert again[node].tolist() == ctx[node].tolist()
    assert again[scalar].shape == (4,)


def test_void_takes_no_bytes(tmp_path: Path) -> None:
    nodes = [TensorNode(id=row, precision="void", dims=dims) for row, dims in enumerate([(), (3,), (0, 2), (1 << 40,)])]
    nodes.append(TensorNode(id=9, precision="void", dims=(4,), padding=Padding(axes=((1, 1),), neutral=3.5)))
    ctx = Context({node: random_array(node) for node in nodes})
    save(ctx, nodes, tmp_path / "t")
    again = load(Context(), tmp_path / "t")[0]
    assert [again[node].shape for node in nodes] == [node.dims for node in nodes]
    assert all(again[node].dtype == np.dtype("V0") for node in nodes)
    assert ingestion_counts() == (0, 5)


class Wrapped:
    """What numpy takes for an array."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array


class Called(Wrapped):
    """An array that can be called, as some frameworks' tensors can; it is an array all the same."""

    def __call__(self) -> None:
        raise AssertionError("called")


def test_what_is_taken_for_an_array(tmp_path: Path) -> None:
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", plain)
    read_only = plain.copy()
    read_only.flags.writeable = False
    cube = np.zeros((4, 3, 5), np.float32)
    cube[::2, ::-1, 1] = plain
    forms: dict[str, Any] = {
        "big-endian": plain.astype(">f4"),
        "Fortran order": np.asfortranarray(plain),
        "strides": cube[::2, ::-1, 1],
        "big-endian strides": cube.astype(">f4")[::2, ::-1, 1],
        "a transposed copy": plain.T.copy().T,
        "read-only": read_only,
        "a file's": np.load(tmp_path / "a.npy", mmap_mode="r"),
        "a subclass": plain.view(np.matrix),
        "__array__": Wrapped(plain),
        "__array__ and __call__": Called(plain),
        "fetched": lambda: plain.astype(">f4"),
    }
    for what, form in forms.items():
        save(Context({W: form}), [W], tmp_path / "t")
        assert load(Context(), tmp_path / "t")[0][W].tolist() == plain.tolist(), what
    save(Context({W: np.broadcast_to(np.float32(7), (2, 3))}), [W], tmp_path / "t")
    assert load(Context(), tmp_path / "t")[0][W].tolist() == [[7] * 3] * 2
    numbers: tuple[Any, ...] = (np.int64(-5), np.array(-5), np.array(-5, ">i8"), np.array([-5])[0])
    for number in numbers:
        save(Context({S: number}), [S], tmp_path / "t")
        again = load(Context(), tmp_path / "t")[0][S]
        assert (again.shape, again.dtype, int(again)) == ((), np.dtype("<i8"), -5)


def test_large_arrays_in_any_order(tmp_path: Path) -> None:
    """Larger than what is copied at a time."""
    node = TensorNode(id=0, dims=(1100, 1200))
    bits = np.arange(1100 * 1200, dtype=np.uint32).view(np.float32)
    padded = TensorNode(id=1, dims=(1102, 1201), padding=Padding(axes=((2, 0), (0, 1))))
    wide = np.empty((1102, 1201), np.float32)
    wide[2:, :-1] = bits.reshape(node.dims)
    for form in (bits.reshape(node.dims), bits.reshape(node.dims).T.copy().T, bits.reshape(node.dims).astype(">f4")):
        ctx = Context({node: form, padded: wide.astype(form.dtype)})
        save(ctx, [node, padded], tmp_path / "t")
        assert (tmp_path / "t").read_bytes()[-2 * bits.nbytes :] == bits.tobytes() * 2


def test_as_many_axes_as_numpy_has(tmp_path: Path) -> None:
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    plain = TensorNode(id=0, dims=(1,) * (most - 1) + (2,))
    padded = TensorNode(id=1, dims=plain.dims, padding=Padding(axes=((0, 0),) * (most - 1) + ((0, 1),)))
    ctx = program(plain, padded)
    save(ctx, [plain, padded], tmp_path / "t")
    again = load(Context(), tmp_path / "t")[0]
    assert same(again[plain], ctx[plain])
    assert again[padded].shape == plain.dims
    beyond = TensorNode(id=2, label=("deep",), dims=(1,) * 65)
    message = f"tensor ocannl:2 'deep': numpy cannot hold the shape {[1] * 65}"
    refused(lambda: beyond.shape, message)
    (tmp_path / "deep").write_bytes(craft([record(2, 0, dims=f"({'1 ' * 65})", size=4, label="(deep)")], bytes(4)))
    registry = Registry()
    for way in (True, False):
        refused(lambda: load(Context(registry=registry), tmp_path / "deep", mmap=way), message)  # noqa: B023
        refused(lambda: restore(Context(), [beyond], tmp_path / "deep", mmap=way), message)  # noqa: B023
    assert len(registry) == 0
    save(Context(), [], tmp_path / "deep", appending=True, alignment=8)  # what numpy cannot hold is kept all the same
    assert keys(tmp_path / "deep") == [("ocannl", 2)]


VALUES: list[tuple[Any, str]] = [
    ([[1.0, 2.0, 3.0]] * 2, "found list, expected an array"),
    (3.5, "found float, expected an array"),
    (None, "found NoneType, expected an array"),
    ("text", "found str, expected an array"),
    (np.zeros((2, 3)), "found an array of float64, expected float32"),
    (np.zeros((2, 3), np.int32), "found an array of int32, expected float32"),
    (np.zeros((2, 3), object), "found an array of object, expected float32"),
    (np.zeros((2, 3), "V4"), "found an array of |V4, expected float32"),
    (np.zeros((3, 2), np.float32), "found an array of shape [3, 2], expected [2, 3]"),
    (np.zeros(6, np.float32), "found an array of shape [6], expected [2, 3]"),
    (np.zeros((), np.float32), "found an array of shape [], expected [2, 3]"),
    (np.ma.MaskedArray(np.zeros((2, 3), np.float32)), "a masked array would lose its mask; fill it first"),
]


def test_what_is_no_value_of_a_node(tmp_path: Path) -> None:
    """It is refused when it is put into a context; what is fetched, when it is fetched, and then nothing is written."""
    for value, message in VALUES:
        said = f"tensor ocannl:0 'w hidden': {message}"
        refused(lambda: Context({W: value}), said)  # noqa: B023
        refused(lambda: Context().updated({W: value}), said)  # noqa: B023
        lazy: Any = Context({W: lambda: value})  # noqa: B023
        refused(lambda: lazy[W], said)  # noqa: B023
        refused(lambda: save(lazy, [W], tmp_path / "t"), said)  # noqa: B023
    for precision, wrong in (("byte", "i1"), ("uint16", "<f2"), ("half", "<u2"), ("bfloat16", "<u2"), ("fp8", "u1")):
        node = TensorNode(id=0, precision=precision, dims=(1,))
        with pytest.raises(ArgumentError, match=rf"^tensor ocannl:0: found an array of .*, expected {node.dtype}$"):
            Context({node: np.zeros(1, wrong)})
    lanes = TensorNode(id=0, precision="uint4x32", dims=(4,))
    refused(
        lambda: Context({lanes: np.zeros(4, np.uint32)}),
        "tensor ocannl:0: found an array of shape [4], expected [4, 4]",
    )
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------------------------ padding

NEUTRALS: tuple[float, ...] = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    300.5,
    -300.5,
    0.5,
    -0.999,
    255.0,
    256.0,
    65535.5,
    65536.0,
    1e300,
    -1e300,
    5e-324,
)
NEUTRALS += (
    2.0**31,
    -(2.0**31),
    2.0**32,
    2.0**63,
    -(2.0**63),
    2.0**64,
    1e19,
    -1e19,
    65519.0,
    65520.0,
    57344.0,
    61440.0,
)
NEUTRALS += (math.inf, -math.inf, NOT_A_NUMBER, MINUS_NOT_A_NUMBER, 0.1, 1 / 3, 3.4028235e38, 3.4028236e38, 2.0**-149)
FLOATS = {"half": (16, 10), "bfloat16": (16, 7), "fp8": (8, 2), "single": (32, 23), "double": (64, 52)}
INTEGERS = {
    "byte": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint4x32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def nearest_bits(value: float, width: int, mantissa: int) -> int:
    """The bits of the float of some width that is nearest to a value, ties to even; by exact arithmetic."""
    sign = (1 << width - 1) if math.copysign(1, value) < 0 else 0
    exponents = width - 1 - mantissa
    infinity = (1 << exponents) - 1 << mantissa
    if math.isnan(value):
        return sign | infinity | 1 << mantissa - 1
    if math.isinf(value):
        return sign | infinity
    bias = (1 << exponents - 1) - 1
    lowest = 1 - bias
    exponent = max(math.frexp(value)[1] - 1, lowest) if value else lowest
    steps = round(Fraction(abs(value)) / Fraction(2) ** (exponent - mantissa))  # round() takes the even one of two
    bits = steps + (exponent - lowest << mantissa)  # the implicit bit of a normal number adds one to the exponent
    return sign | min(bits, infinity)


def element(precision: str, neutral: float) -> bytes:
    """The bytes of an element of a margin."""
    if precision in FLOATS:
        width, mantissa = FLOATS[precision]
        return nearest_bits(neutral, width, mantissa).to_bytes(width // 8, "little")
    if precision == "void":
        return b""
    low, high = INTEGERS[precision]
    if math.isnan(neutral):
        number = 0
    elif math.isinf(neutral):
        number = high if neutral > 0 else low
    else:
        number = max(low, min(high, math.trunc(neutral)))
    scalar = OCANNL_PRECISIONS[precision]
    return number.to_bytes(scalar.size // scalar.lanes, "little", signed=low < 0) * scalar.lanes


def scattered(node: TensorNode, payload: bytes, neutral: float) -> bytes:
    """The bytes of a padded array, made one element after the other."""
    assert node.padding is not None
    size = node.scalar.size
    content, taken = [], 0
    for index in itertools.product(*map(range, node.dims)):
        inside = all(
            left <= at < extent - right
            for at, extent, (left, right) in zip(index, node.dims, node.padding.axes, strict=True)
        )
        content.append(payload[taken : taken + size] if inside else element(node.precision, neutral))
        taken += size * inside
    assert taken == len(payload)
    return b"".join(content)


def check_scatter(precision: str, axes: list[tuple[int, int, int]], neutral: float, seed: int) -> None:
    """Save an array with rubbish in its margins; look at the file; load and restore it."""
    padding = Padding(axes=tuple((left, right) for left, _, right in axes), neutral=neutral)
    node = TensorNode(id=0, precision=precision, dims=tuple(map(sum, axes)), padding=padding)
    before = TensorNode(id=1, precision="byte", dims=(3,))
    assert node.stored == tuple(stored for _, stored, _ in axes)
    assert node.size == math.prod(node.stored) * node.scalar.size
    ctx = program(before, node, seed=seed)
    payload = b"".join(
        ctx[node][index].tobytes()
        for index in itertools.product(
            *(range(left, extent - right) for extent, (left, right) in zip(node.dims, padding.axes, strict=True))
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t")
        save(ctx, [before, node], path)
        data = path.read_bytes()
        assert data[len(data) - len(payload) :] == payload
        assert validate(path).canonical
        expected = scattered(node, payload, neutral)
        for way in (True, False):
            reset_ingestion_counts()
            loaded = load(Context(), path, mmap=way)[0]
            direct = bool(way and node.dims and node.size and node.stored == node.dims)  # nothing to scatter
            assert ingestion_counts() == (way + direct, 2 - way - direct)
            again = loaded[node]
            assert again.flags.writeable
            assert (again.shape, again.dtype) == (node.shape, node.dtype)
            assert again.tobytes() == expected
            assert restore(ctx, [node], path, mmap=way)[node].tobytes() == expected
            (twin,) = (other for other in loaded if other == node)
            assert twin.padding == padding
        assert ckptspec.load(path)[0].tobytes() == expected


AXES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=4)
# A width of 32: whether a float is rounded once or twice on its way to 16 bits is a test of its own.
ANY_NEUTRAL = st.sampled_from(NEUTRALS) | st.floats(width=32, allow_nan=False) | st.integers(-70000, 70000).map(float)


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(OCANNL_PRECISIONS)), AXES, ANY_NEUTRAL, st.integers(0, 1 << 32))
@example("byte", [(1, 2, 1)], 300.5, 0)
@example("byte", [(1, 2, 1)], -0.5, 0)
@example("uint4x32", [(1, 2, 1), (0, 1, 2)], 7.0, 0)
@example("single", [], 1.0, 0)
@example("single", [(2, 0, 1)], 1.0, 0)
@example("single", [(0, 2, 0)], 1.0, 0)
@example("fp8", [(1, 1, 1)] * 4, MINUS_NOT_A_NUMBER, 0)
def test_padded_arrays_against_a_loop(
    precision: str, axes: list[tuple[int, int, int]], neutral: float, seed: int
) -> None:
    check_scatter(precision, axes, neutral, seed)


def test_every_margin_in_every_precision(tmp_path: Path) -> None:
    """One file of all neutral values in all precisions."""
    nodes = {
        (name, row): TensorNode(
            id=len(NEUTRALS) * at + row, precision=name, dims=(2,), padding=Padding(axes=((1, 0),), neutral=neutral)
        )
        for at, name in enumerate(OCANNL_PRECISIONS)
        for row, neutral in enumerate(NEUTRALS)
    }
    ctx = program(*nodes.values())
    save(ctx, nodes.values(), tmp_path / "t")
    again = load(Context(), tmp_path / "t")[0]
    for (name, row), node in nodes.items():
        payload = ctx[node][1].tobytes()
        assert again[node].tobytes() == element(name, NEUTRALS[row]) + payload, (name, NEUTRALS[row])
    assert ingestion_counts() == (0, len(nodes))


def test_margins_that_are_documented() -> None:
    for name, neutral, expected in (
        ("byte", 300.5, 255),
        ("byte", 2.9, 2),
        ("byte", -2.9, 0),
        ("byte", NOT_A_NUMBER, 0),
        ("byte", math.inf, 255),
        ("int32", -2.9, -2),
        ("int32", -1e300, -(2**31)),
        ("int64", math.inf, 2**63 - 1),
        ("uint64", 1e300, 2**64 - 1),
        ("half", 1e300, math.inf),
        ("single", 1e300, math.inf),
        ("double", 1e300, 1e300),
    ):
        node = TensorNode(id=0, precision=name, dims=(1,), padding=Padding(axes=((0, 1),), neutral=neutral))
        assert Tensor(node=node, data=b"").value()[0] == expected, (name, neutral)


def test_margins_of_small_floats_are_rounded_by_way_of_single() -> None:
    """A little above the middle of two neighbours is nearer to the upper one, but not if single does not hold it."""
    for name, (width, mantissa) in FLOATS.items():
        neutral = 1 + 2.0 ** (-mantissa - 1) + 2.0**-40 if width < 64 else 0.1
        node = TensorNode(id=0, precision=name, dims=(1,), padding=Padding(axes=((0, 1),), neutral=neutral))
        by_way = neutral if name in ("half", "single", "double") else float(np.float32(neutral))
        assert Tensor(node=node, data=b"").value().tobytes() == element(name, by_way), name


# --------------------------------------------------------------------------------------------------------- the layout


def test_layout_under_any_alignment(tmp_path: Path) -> None:
    nodes = [TensorNode(id=row, precision="byte", dims=(size,)) for row, size in enumerate([3, 0, 1, 33, 8])]
    ctx = program(*nodes)
    alignments: tuple[Any, ...] = (1, 2, 3, 7, 32, 64, 4096, 100_003, np.int64(16))
    for alignment in alignments:
        save(ctx, nodes, tmp_path / "t", alignment=alignment)
        data = (tmp_path / "t").read_bytes()
        assert validate(data).canonical
        (length,) = struct.unpack(">i", data[:4])
        assert (4 + length) % alignment == 0
        assert f"(alignment {alignment})".encode() in data
        at = 0
        for node in nodes:
            at += -at % int(alignment)
            assert f"(offset {at}) (byte_length {node.size})".encode() in data[4 : 4 + length]
            assert data[4 + length + at :][: node.size] == ctx[node].tobytes()
            at += node.size
        assert len(data) == 4 + length + at
        again = load(Context(), tmp_path / "t")[0]
        assert all(same(again[node], ctx[node]) for node in nodes)
    save(ctx, nodes, tmp_path / "t")
    assert b"(alignment 32)" in (tmp_path / "t").read_bytes()


def test_alignments_that_no_file_has(tmp_path: Path) -> None:
    ctx = program(W)
    save(ctx, [W], tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    for alignment, message in (
        (0, "found 0, expected 1 to 67108864"),
        (-32, "found -32, expected 1 to 67108864"),
        (1 << 80, f"found {1 << 80}, expected 1 to 67108864"),
        ((1 << 26) + 1, "found 67108865, expected 1 to 67108864"),
        (32.0, "found 32.0, expected an integer"),
        (True, "found True, expected an integer"),
        ("32", "found '32', expected an integer"),
        (None, "found None, expected an integer"),
    ):
        for appending in (False, True):
            refused(
                lambda: calls.save(ctx, [W], tmp_path / "t", alignment=alignment, appending=appending),  # noqa: B023
                f"alignment: {message}",
            )
    assert os.listdir(tmp_path) == ["t"]
    assert (tmp_path / "t").read_bytes() == before


def test_the_largest_alignment(tmp_path: Path) -> None:
    ctx = program(S)
    save(ctx, [S], tmp_path / "t", alignment=1 << 26)
    assert (tmp_path / "t").stat().st_size == (1 << 26) + 8
    assert same(load(Context(), tmp_path / "t")[0][S], ctx[S])


def test_no_nodes_make_an_empty_file(tmp_path: Path) -> None:
    none: tuple[Any, ...] = ((), [], set(), iter(()))
    for nodes in none:
        save(Context(), nodes, tmp_path / "t")
        assert validate(tmp_path / "t").canonical
        assert keys(tmp_path / "t") == []
        assert load(Context(), tmp_path / "t")[1] == frozenset()
    save(program(W), [W], tmp_path / "t")
    save(Context(), [], tmp_path / "t")  # a fresh file, not what was there before
    assert keys(tmp_path / "t") == []


def test_the_order_of_nodes(tmp_path: Path) -> None:
    """That of a sequence; sets have none, so theirs is by namespace and id. Twice the same node is once."""
    ids = [(name, number) for name in ("b", "a", "ocannl", "B", "é") for number in (10, 9, 2)]
    nodes = [node(number, name) for name, number in ids]
    nodes.append(TensorNode(namespace=b"\xff", id=0, dims=(2,)))
    ctx = program(*nodes)
    ordered = [node.key for node in nodes]
    by_bytes = sorted(ordered, key=lambda key: (key[0] if isinstance(key[0], bytes) else key[0].encode(), key[1]))
    for given_, expected in (
        (nodes, ordered),
        (tuple(reversed(nodes)), ordered[::-1]),
        (iter(nodes), ordered),
        (ctx, ordered),
        (ctx.registry, ordered),
        (nodes + nodes[::-1], ordered),
        (set(nodes), by_bytes),
        (frozenset(reversed(nodes)), by_bytes),
    ):
        save(ctx, given_, tmp_path / "t")
        assert keys(tmp_path / "t") == expected


def test_values_are_those_of_the_moment(tmp_path: Path) -> None:
    array = np.zeros((2, 3), np.float32)
    ctx = Context({W: array})
    for value in (1, 2):
        array[:] = value
        save(ctx, [W], tmp_path / "t")
        assert load(Context(), tmp_path / "t")[0][W].tolist() == [[value] * 3] * 2


# ---------------------------------------------------------------------------------------------------------- appending


def node(id: int, namespace: str = "ocannl", **other: Any) -> TensorNode:
    return TensorNode(id=id, namespace=namespace, **({"dims": (2,)} | other))


def test_appending_keeps_replaces_and_adds(tmp_path: Path) -> None:
    """Each case: what the file holds, what is appended, what is there afterwards, in order."""
    a, b, c = ("ocannl", 0), ("ocannl", 1), ("other", 0)
    cases: list[tuple[list[tuple[str, int]], list[tuple[str, int]], list[tuple[str, int]]]] = [
        ([], [], []),
        ([a, b], [], [a, b]),
        ([], [b, a], [b, a]),
        ([a], [b], [a, b]),
        ([b, a], [c], [b, a, c]),
        ([a, b, c], [b], [a, c, b]),
        ([a, b, c], [c, a], [b, c, a]),
        ([a, b, c], [c, b, a], [c, b, a]),
        ([a], [c], [a, c]),  # the same id in another namespace is another tensor
    ]
    for row, (old, new, expected) in enumerate(cases):
        for alignment in (1, 3, 32, 512):
            path = tmp_path / f"{row}-{alignment}"
            before = program(*(node(number, name) for name, number in old), seed=1)
            after = program(*(node(number, name, precision="half", dims=(5,)) for name, number in new), seed=2)
            save(before, before, path, alignment=8)
            save(after, after, path, appending=True, alignment=alignment)
            assert validate(path).canonical
            assert keys(path) == expected
            assert ckptspec.load(path).alignment == alignment
            again = by_key(load(Context(), path)[0])
            assert list(again) == expected
            for key, array in (by_key(before) | by_key(after)).items():
                assert same(again[key], array)


def test_appending_replaces_a_tensor_of_the_legacy_namespace(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = floats(1, 2, 3, 4, 5, 6)
    path.write_bytes(craft([record(0, 0, ""), record(1, 8, ""), record(0, 16, "ocannl_")], data))
    ctx = Context({node(0): np.array([7, 8], np.float32)})
    save(ctx, [node(0)], path, appending=True)
    assert validate(path).canonical
    assert keys(path) == [("ocannl", 1), ("ocannl_", 0), ("ocannl", 0)]
    assert {key: array.tolist() for key, array in by_key(load(Context(), path)[0]).items()} == {
        ("ocannl", 1): [3, 4],
        ("ocannl_", 0): [5, 6],
        ("ocannl", 0): [7, 8],
    }


def test_appending_keeps_all_that_a_tensor_says(tmp_path: Path) -> None:
    """Descriptions, payloads of every precision, margins' values; also when the file is not as a writer writes it."""
    path = tmp_path / "t"
    old = [
        TensorNode(id=row, precision=name, dims=(3,), label=(b"\xff", "a b", ""))
        for row, name in enumerate(OCANNL_PRECISIONS)
    ]
    old += [
        TensorNode(id=100 + row, dims=(3, 2), padding=Padding(axes=((1, 0), (0, 1)), neutral=neutral))
        for row, neutral in enumerate(NEUTRALS)
    ]
    ctx = program(*old)
    save(ctx, old, path, alignment=1)
    save(program(node(999)), [node(999)], path, appending=True, alignment=64)
    for found, expected in zip(ckptspec.load(path).tensors, old, strict=False):
        for name in ("key", "label", "precision", "dims", "padding"):
            assert getattr(found.node, name) == getattr(expected, name)
        if expected.padding is None:
            assert same(found.value(), ctx[expected])
        else:
            assert found.value()[1:, :-1].tobytes() == ctx[expected][1:, :-1].tobytes()
    odd = craft([record(5, 24, more="1"), record(4, 0)], floats(1, 2, 9, 9, 9, 9, 3, 4, 8), "(version 1) (unknown ())")
    path.write_bytes(odd)
    assert not validate(path).canonical
    save(Context(), [], path, appending=True)
    assert validate(path).canonical
    assert {key: array.tolist() for key, array in by_key(load(Context(), path)[0]).items()} == {
        ("ocannl", 5): [3, 4],
        ("ocannl", 4): [1, 2],
    }


def test_appending_to_no_file_makes_one(tmp_path: Path) -> None:
    ctx = program(W, B)
    save(ctx, [W, B], tmp_path / "fresh")
    save(ctx, [W, B], tmp_path / "new" / "t", appending=True)
    assert (tmp_path / "new" / "t").read_bytes() == (tmp_path / "fresh").read_bytes()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    save(ctx, [W], tmp_path / "link", appending=True)
    save(ctx, [B], tmp_path / "link", appending=True)
    assert (tmp_path / "link").is_symlink()
    assert keys(tmp_path / "target") == [W.key, B.key]


def test_appending_to_what_is_no_checkpoint(tmp_path: Path) -> None:
    ctx = program(W)
    good = craft([record(0, 0)], floats(1, 2))
    for content, rule in (
        (b"", "ANY-FILE-FORMAT"),
        (b"not a checkpoint", "ANY-FILE-FORMAT"),
        (b"OAM\0" + bytes(60), "ANY-FILE-FORMAT"),
        (bytes(3) + b"\x0d(", "OCANNL-FRM-RANGE"),
        (good[:-1], "OCANNL-TEN-RANGE"),
        (good.replace(b"(version 1)", b"(version 2)"), "OCANNL-HDR-VERSION"),
        (craft([record(0, 0), record(0, 8)], floats(1, 2, 3, 4)), "OCANNL-TEN-DUP"),
        (craft([record(0, 0), record(0, 8, "")], floats(1, 2, 3, 4)), "OCANNL-TEN-DUP"),
        (craft([record(0, 0), record(1, 4)], floats(1, 2, 3)), "OCANNL-TEN-OVERLAP"),
        (craft([record(0, 0, padding="(((0 0)) none)")], floats(1, 2)), "OCANNL-PAD-LEGACY"),
    ):
        (tmp_path / "t").write_bytes(content)
        for call in (
            lambda: save(ctx, [W], tmp_path / "t", appending=True),
            lambda: load(ctx, tmp_path / "t"),
            lambda: restore(ctx, [W], tmp_path / "t"),
        ):
            with pytest.raises(FormatError) as caught:
                call()
            assert caught.value.rule == rule
            assert caught.value.source == str(tmp_path / "t")
        assert (tmp_path / "t").read_bytes() == content
    assert os.listdir(tmp_path) == ["t"]
    save(ctx, [W], tmp_path / "t")  # but for a fresh file it does not matter what was there
    assert keys(tmp_path / "t") == [W.key]
    with pytest.raises(IsADirectoryError):
        save(ctx, [W], tmp_path, appending=True)


def test_appending_to_a_training_checkpoint_keeps_its_record(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ctx = program(W, B, S)
    progress = training.Progress(step=7, epoch=1, position=5, host_rng=b"\0\xff", extra={"scale": "2."})
    training.save(ctx, progress, [W, B], path, seeds=(42, -7))
    old = ckptspec.load(path).training
    assert old is not None
    for _ in range(2):
        save(ctx, [S], path, appending=True)
        assert ckptspec.load(path).training == old
        assert not [finding for finding in validate(path).findings if finding.rule != "OCANNL-TRN-BEYOND"]
    assert keys(path) == [W.key, B.key, S.key]
    before = path.read_bytes()
    for nodes in ([W], [S, B]):  # the record would go with other values than those it was saved with
        with pytest.raises(ArgumentError, match=r"would replace tensor .* of the state of a training run"):
            save(ctx, nodes, path, appending=True)
        assert path.read_bytes() == before
    one = craft(
        [record(0, 0)],
        floats(1, 2),
        more=' (training ((version 1) (step 3) (epoch 0) (position 0) (host_rng none) (extra ()) (state (("" 0)))))',
    )
    path.write_bytes(one)
    save(ctx, [B], path, appending=True)
    assert ckptspec.load(path).training == TrainingRecord(version=1, step=3, seeds=None, state=(("ocannl", 0),))
    save(ctx, [B], path)  # not appending: a fresh file, without a record
    assert ckptspec.load(path).training is None


# ------------------------------------------------------------------------------------------------- values on demand


def test_values_are_fetched_one_by_one_in_order(tmp_path: Path) -> None:
    """Also kept tensors are not fetched again, and a value is fetched when its turn comes, not before."""
    fetched: list[int] = []
    written: list[int] = []
    nodes = [TensorNode(id=number, precision="byte", dims=(5000,)) for number in (3, 1, 2)]

    def fetch(node: TensorNode) -> Callable[[], Array]:
        def get() -> Array:
            fetched.append(node.id)
            written.extend(entry.stat().st_size for entry in os.scandir(tmp_path) if entry.name.endswith(".tmp"))
            return np.full(5000, node.id, np.uint8)

        return get

    ctx = Context({node: fetch(node) for node in nodes})
    assert fetched == []
    save(ctx, nodes, tmp_path / "t", alignment=1)
    assert fetched == [3, 1, 2]
    assert [size - written[0] for size in written] == [0, 5000, 10000]
    assert [array[0] for array in load(Context(), tmp_path / "t")[0].values()] == [3, 1, 2]
    save(ctx, [nodes[1]], tmp_path / "t", appending=True)
    assert fetched == [3, 1, 2, 1]
    moved = ctx.updated({nodes[0]: np.zeros(5000, np.uint8)})
    assert len(fetched) == 4
    assert (moved[nodes[1]][0], moved[nodes[0]][0], fetched.pop()) == (1, 0, 1)
    assert Context(ctx)[nodes[2]][0] == 2


def test_values_are_not_held(tmp_path: Path) -> None:
    """When a value is fetched, the one before is gone."""
    for precision in ("byte", "single", "bfloat16"):
        nodes = [TensorNode(id=number, precision=precision, dims=(1000,)) for number in range(4)]
        seen: list[weakref.ref[Any]] = []

        def get(node: TensorNode, seen: list[weakref.ref[Any]] = seen) -> Array:
            assert [ref() for ref in seen] == [None] * len(seen)
            array = np.zeros(1000, node.dtype)
            seen.append(weakref.ref(array))
            return array

        save(Context({node: lambda node=node: get(node) for node in nodes}), nodes, tmp_path / "t")  # type: ignore[misc]
        assert len(seen) == 4


def test_contiguous_values_are_written_as_they_are(tmp_path: Path) -> None:
    """No copy of an array is made on the way into the file."""
    for precision in ("byte", "single", "bfloat16"):
        node = TensorNode(id=0, precision=precision, dims=(3_000_000 // OCANNL_PRECISIONS[precision].size,))
        ctx = program(node)
        tracemalloc.start()
        try:
            save(ctx, [node], tmp_path / "t")
            assert tracemalloc.get_traced_memory()[1] < 1_000_000, precision
        finally:
            tracemalloc.stop()


def test_a_value_that_cannot_be_fetched(tmp_path: Path) -> None:
    """The old file stays, nothing else does; with no old file, there is none."""
    big = TensorNode(id=9, dims=(100_000,))

    def fail() -> Array:
        raise RuntimeError("device lost")

    def interrupt() -> Array:
        raise KeyboardInterrupt

    save(program(W, B), [W, B], tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    good = random_array(big)
    for value, kind in (
        (fail, RuntimeError),
        (interrupt, KeyboardInterrupt),
        (lambda: np.zeros((2, 2), np.float32), ArgumentError),
        (lambda: [1, 2], ArgumentError),
    ):
        lazy: Any = value
        ctx = Context({big: lambda: good, W: lazy, B: lambda: good})
        for path in (tmp_path / "t", tmp_path / "new"):
            for appending in (False, True):
                with pytest.raises(kind):
                    save(ctx, [big, W, B], path, appending=appending)
        with pytest.raises(kind):
            ctx[W]
    assert os.listdir(tmp_path) == ["t"]
    assert (tmp_path / "t").read_bytes() == before


# ---------------------------------------------------------------------------------------------------- saving: errors


def test_nodes_without_values_are_named(tmp_path: Path) -> None:
    ctx = program(W)
    other = TensorNode(id=0, namespace="n\n", label=(b"\xff",))
    refused(
        lambda: save(ctx, [B, W, other], tmp_path / "t"),
        "nodes: not in the context: tensor ocannl:1, tensor n\\n:0 '\\xff'",
    )
    many = [TensorNode(id=number) for number in range(100, 150)]
    with pytest.raises(ArgumentError, match=r"tensor ocannl:119 and 30 more$"):
        save(ctx, many, tmp_path / "t", appending=True)
    ctx.registry.add([B])  # registered is not enough
    with pytest.raises(ArgumentError, match="not in the context"):
        save(ctx, [B], tmp_path / "t")
    assert os.listdir(tmp_path) == []


def test_neutral_values_without_a_spelling(tmp_path: Path) -> None:
    signalling = struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | 1))[0]
    odd = TensorNode(id=0, dims=(2,), padding=Padding(axes=((0, 0),), neutral=signalling))
    refused(
        lambda: save(program(odd), [odd], tmp_path / "t"),
        "tensor ocannl:0: neutral: the NaN 0x7ff8000000000001 has no spelling",
    )
    assert os.listdir(tmp_path) == []


def test_arguments_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    ctx = program(W)
    path = tmp_path / "t"
    save(ctx, [W], path)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: calls.save({}, [W], path), "ctx: found dict of 0, expected a Context"),
        (lambda: calls.save(ctx, W, path), "nodes: found TensorNode, expected nodes"),
        (lambda: calls.save(ctx, "w", path), "nodes: found 'w', expected nodes"),
        (lambda: calls.save(ctx, ["w"], path), "nodes: found 'w', expected a TensorNode"),
        (lambda: calls.save(ctx, {"w"}, path), "nodes: found 'w', expected a TensorNode"),
        (lambda: calls.save(ctx, [W], 3), "path: found int, expected a path"),
        (lambda: calls.save(ctx, [W], "a\0b"), "path: a path cannot hold a NUL"),
        (lambda: calls.load(None, path), "ctx: found None, expected a Context"),
        (lambda: calls.load(ctx, None), "path: found NoneType, expected a path"),
        (lambda: calls.load(ctx, path, prefix_namespace=b"p"), "prefix_namespace: found b'p', expected text"),
        (lambda: calls.load(ctx, path, prefix_namespace=3), "prefix_namespace: found 3, expected text"),
        (lambda: calls.restore([], [W], path), "ctx: found list of 0, expected a Context"),
        (lambda: calls.restore(ctx, None, path), "nodes: found None, expected nodes"),
        (lambda: calls.restore(ctx, [0], path), "nodes: found 0, expected a TensorNode"),
        (lambda: calls.restore([], [], path), "ctx: found list of 0, expected a Context"),
    ]
    for call, message in cases:
        refused(call, message)
    assert os.listdir(tmp_path) == ["t"]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    registry = Registry()
    ctx = Context(registry=registry)
    os.mkfifo(tmp_path / "fifo")
    for call in (lambda path: load(ctx, path), lambda path: restore(ctx, [W], path)):
        for name, kind in (("none", FileNotFoundError), (".", IsADirectoryError), ("fifo", OSError)):
            with pytest.raises(kind):
                call(tmp_path / name)
    assert (len(registry), ingestion_counts()) == (0, (0, 0))


# ------------------------------------------------------------------------------------------------------------ loading


def test_loading_makes_nodes_and_another_context(tmp_path: Path) -> None:
    path = tmp_path / "t"
    padded = TensorNode(id=9, namespace="other", dims=(4,), padding=Padding(axes=((1, 1),), neutral=2.5))
    old = program(W, padded)
    save(old, [padded, W], path)
    mine = TensorNode(id=77, dims=(2,))
    ctx = program(mine)
    updated, made = load(ctx, path)
    assert isinstance(made, frozenset)
    assert made == {W, padded}
    assert list(updated) == [mine, padded, W]
    assert list(ctx) == [mine]
    assert updated.registry is ctx.registry
    assert list(ctx.registry) == [mine, padded, W]
    assert same(updated[mine], ctx[mine])
    (twin,) = made - {W}
    assert (twin.label, twin.precision, twin.dims, twin.padding) == ((), "single", (4,), padded.padding)


def test_new_ids_are_above_loaded_ones_in_the_ambient_namespace(tmp_path: Path) -> None:
    """Each case: ambient namespace, nodes there before, prefix, the next id afterwards."""
    path = tmp_path / "t"
    records = [record(7, 0, ""), record(3, 8), record(50, 16, "other"), record(0, 24, "p__ocannl")]
    path.write_bytes(craft(records, floats(*range(8))))
    for ambient, before, prefix, expected in (
        ("ocannl", 0, None, 8),
        ("ocannl", 0, "", 8),
        ("ocannl", 3, None, 8),
        ("ocannl", 20, None, 20),
        ("ocannl", 20, "q", 20),  # nothing is loaded into it
        ("ocannl", 0, "p", 0),
        ("other", 0, None, 51),
        ("other", 60, "p", 60),
        ("third", 0, None, 0),
        ("p__ocannl", 0, None, 1),
        ("p__ocannl", 0, "p", 8),
        ("p__other", 0, "p", 51),
        ("p__p__ocannl", 5, "q", 5),
    ):
        registry = Registry(ambient)
        registry.add([node(before - 1, ambient)] if before else [])
        load(Context(registry=registry), path, prefix_namespace=prefix)
        assert registry.next_id == expected, (ambient, before, prefix)
        assert registry.create().key == (ambient, expected)
        assert registry.create().key == (ambient, expected + 1)


def test_the_ambient_namespace_may_change_afterwards(tmp_path: Path) -> None:
    """Loaded ids are known in their own namespace, whatever the ambient one was when they were loaded."""
    path = tmp_path / "t"
    path.write_bytes(craft([record(7, 0), record(50, 8, "other")], floats(*range(4))))
    registry = Registry()
    load(Context(registry=registry), path)
    registry.namespace = "other"
    assert registry.create().key == ("other", 51)
    registry.namespace = "ocannl"
    assert registry.create().key == ("ocannl", 8)


def test_the_largest_id_leaves_none_for_new_nodes(tmp_path: Path) -> None:
    most = (1 << 62) - 1
    (tmp_path / "t").write_bytes(craft([record(most, 0)], floats(1, 2)))
    registry = Registry()
    load(Context(registry=registry), tmp_path / "t")
    refused(registry.create, f"id: found {most + 1}, expected 0 to {most}")
    assert len(registry) == 1


def test_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    names: list[tuple[str, Any]] = [
        ("", "ocannl"),
        ("other", "other"),
        ("a__b", "a__b"),
        ("\\255", b"\xff"),
        ("é", "é"),
    ]
    path.write_bytes(craft([record(row, 8 * row, name) for row, (name, _) in enumerate(names)], floats(*range(10))))
    for prefix in ("p", "_", "P_9", "a" * 300, "__"):
        made = load(Context(), path, prefix_namespace=prefix)[1]
        expected = {
            (f"{prefix}__{name}" if isinstance(name, str) else prefix.encode() + b"__" + name, row)
            for row, (_, name) in enumerate(names)
        }
        assert {node.key for node in made} == expected
    for absent in (None, ""):
        made = load(Context(), path, prefix_namespace=absent)[1]
        assert {node.key for node in made} == {(name, row) for row, (_, name) in enumerate(names)}
    registry = Registry()
    for prefix in ("9", "a-b", "é", "a b", " a", "a\n", "a.b", "\n", "ａ", "a\u0660", "p__\0"):
        with pytest.raises(ArgumentError, match=r"^prefix_namespace: found '.*', expected an identifier$"):
            load(Context(registry=registry), path, prefix_namespace=prefix)
        with pytest.raises(ArgumentError, match="expected an identifier"):
            load(Context(registry=registry), tmp_path / "none", prefix_namespace=prefix)
    assert len(registry) == 0


def test_several_files_in_one_registry(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    first, second = program(W, B, seed=1), program(W, S, seed=2)
    save(first, first, one)
    save(second, second, two)
    registry = Registry()
    ctx, made1 = load(Context(registry=registry), one)
    refused(
        lambda: load(ctx, two),
        f"{two}: registered already: tensor ocannl:0 'w hidden'",
    )
    ctx, made2 = load(ctx, two, prefix_namespace="two")
    ctx, made3 = load(ctx, one, prefix_namespace="one")
    ctx, made4 = load(ctx, one, prefix_namespace="two__one")
    assert len(registry) == len(ctx) == 8
    assert not made1 & made2 & made3 & made4
    values = by_key(ctx)
    assert same(values["ocannl", 0], first[W])
    assert same(values["two__ocannl", 0], second[W])
    assert same(values["one__ocannl", 1], first[B])
    for prefix in ("one", "two"):
        with pytest.raises(ArgumentError, match="registered already: "):
            load(ctx, one, prefix_namespace=prefix)
    save(ctx, ctx, tmp_path / "all")
    assert load(Context(), tmp_path / "all")[1] == frozenset(registry)


def test_a_clash_is_found_before_anything_is_created(tmp_path: Path) -> None:
    path = tmp_path / "t"
    there = (("", 4), ("x", 1), ("x", 2), ("x", 0))
    records = [record(number, 8 * row, name) for row, (name, number) in enumerate(there)]
    path.write_bytes(craft(records, floats(*range(8))))
    for name, number in (("ocannl", 4), ("x", 1), ("x", 0)):
        registry = Registry()
        taken = TensorNode(namespace=name, id=number, label=("mine",), precision="half")
        registry.add([taken])
        for ctx in (Context(registry=registry), Context({taken: np.array(3, np.float16)}, registry=registry)):
            before = dict(by_key(ctx))
            for way in (True, False):
                refused(
                    lambda: load(ctx, path, mmap=way),  # noqa: B023
                    f"{path}: registered already: tensor {name}:{number}",
                )
            assert list(registry) == [taken]
            assert registry.get(name, number) is taken
            assert (registry.next_id, ingestion_counts()) == (5 if name == "ocannl" else 0, (0, 0))
            assert by_key(ctx) == before
        load(Context(registry=registry), path, prefix_namespace="p")
        assert len(registry) == 5
        reset_ingestion_counts()
    all_of_them = Registry()
    load(Context(registry=all_of_them), path)
    with pytest.raises(ArgumentError, match=r"tensor ocannl:4, tensor x:1, tensor x:2, tensor x:0$"):
        load(Context(registry=all_of_them), path)


def test_a_value_of_a_node_that_nobody_registered_is_not_replaced(tmp_path: Path) -> None:
    save(program(node(0)), [node(0)], tmp_path / "t")
    mine = node(0, dims=(5,))
    ctx = Context({mine: np.zeros(5, np.float32)})
    with pytest.raises(ArgumentError, match="tensor ocannl:0"):
        load(ctx, tmp_path / "t")


# ---------------------------------------------------------------------------------------------------------- restoring


def test_restoring_updates_existing_nodes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    saved, now = program(W, B, S, seed=1), program(S, B, W, TensorNode(id=7), seed=9)
    save(saved, [W, B, S], path)
    old = by_key(now)
    updated = restore(now, {W, S}, path)
    assert updated is not now
    assert list(updated) == list(now)
    assert updated.registry is now.registry
    assert len(now.registry) == 4
    for key, array in old.items():
        assert now[now.registry.get(*key)] is array  # type: ignore[index]
    assert same(updated[W], saved[W])
    assert same(updated[S], saved[S])
    assert updated[B] is now[B]
    empty = restore(Context(registry=now.registry), iter([B]), path)  # a node needs no value before
    assert list(empty) == [B]
    assert same(empty[B], saved[B])
    assert ingestion_counts() == (2, 1)


def test_restoring_ignores_labels(tmp_path: Path) -> None:
    save(program(node(0, label=("old",))), [node(0)], tmp_path / "t")
    mine = node(0, label=("new", "words"))
    restored = restore(program(mine), [mine], tmp_path / "t")
    assert [found.label for found in restored] == [("new", "words")]


def test_restoring_finds_legacy_namespaces(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(craft([record(0, 0, ""), record(0, 8, "other")], floats(1, 2, 3, 4)))
    ctx = restore(Context(), [node(0), node(0, "other")], path)
    assert [array.tolist() for array in ctx.values()] == [[1, 2], [3, 4]]
    with pytest.raises(ArgumentError, match="is not in the file"):
        restore(Context(), [node(0, "third")], path)


def test_restoring_no_nodes_is_nothing_to_do(tmp_path: Path) -> None:
    ctx = program(W)
    (tmp_path / "bad").write_bytes(b"rubbish")
    none: tuple[Any, ...] = ((), [], set(), frozenset(), iter(()))
    for nodes in none:
        for path in (tmp_path / "none" / "t", tmp_path / "bad", tmp_path):
            again = restore(ctx, nodes, path)
            assert by_key(again) == by_key(ctx)
    assert (ingestion_counts(), os.listdir(tmp_path)) == ((0, 0), ["bad"])


def pads(neutral: float, *axes: tuple[int, int]) -> Padding:
    return Padding(axes=axes or ((1, 1), (0, 0)), neutral=neutral)


MISMATCHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"precision": "uint32"}, "precision single in the file, uint32 here"),
    ({"precision": "half"}, {"precision": "bfloat16"}, "precision half in the file, bfloat16 here"),
    ({"precision": "byte"}, {"precision": "fp8"}, "precision byte in the file, fp8 here"),
    ({}, {"dims": (2, 4)}, "dims [2, 3] in the file, [2, 4] here"),
    ({}, {"dims": (3, 2)}, "dims [2, 3] in the file, [3, 2] here"),
    ({}, {"dims": (6,)}, "dims [2, 3] in the file, [6] here"),
    ({}, {"dims": (2, 3, 1)}, "dims [2, 3] in the file, [2, 3, 1] here"),
    ({"dims": ()}, {"dims": (1,)}, "dims [] in the file, [1] here"),
    ({"dims": (0, 3)}, {"dims": (3, 0)}, "dims [0, 3] in the file, [3, 0] here"),
    (
        {"padding": pads(0.0)},
        {},
        "padding [[1, 1], [0, 0]] of 0.0 (0x0000000000000000) in the file, none here",
    ),
    (
        {},
        {"padding": pads(0.0, (0, 0), (0, 0))},
        "padding none in the file, [[0, 0], [0, 0]] of 0.0 (0x0000000000000000) here",
    ),
    (
        {"padding": pads(1.0)},
        {"padding": pads(1.0, (0, 2), (0, 0))},
        "padding [[1, 1], [0, 0]] of 1.0 (0x3ff0000000000000) in the file, "
        "[[0, 2], [0, 0]] of 1.0 (0x3ff0000000000000) here",
    ),
    (
        {"padding": pads(1.0)},
        {"padding": pads(2.0)},
        "padding [[1, 1], [0, 0]] of 1.0 (0x3ff0000000000000) in the file, "
        "[[1, 1], [0, 0]] of 2.0 (0x4000000000000000) here",
    ),
    (
        {"padding": pads(0.0)},
        {"padding": pads(-0.0)},
        "padding [[1, 1], [0, 0]] of 0.0 (0x0000000000000000) in the file, "
        "[[1, 1], [0, 0]] of -0.0 (0x8000000000000000) here",
    ),
    (
        {"padding": pads(NOT_A_NUMBER)},
        {"padding": pads(MINUS_NOT_A_NUMBER)},
        "padding [[1, 1], [0, 0]] of nan (0x7ff8000000000000) in the file, "
        "[[1, 1], [0, 0]] of nan (0xfff8000000000000) here",
    ),
    (
        {"precision": "int32"},
        {"dims": (2, 3, 1)},
        "precision int32 in the file, single here and dims [2, 3] in the file, [2, 3, 1] here",
    ),
]


def test_restoring_what_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "t"
    plain = {"dims": (2, 3)}
    for there, here, message in MISMATCHES:
        stored, mine = node(0, **plain | there), node(0, **plain | here)
        others = program(node(1), node(2))
        save(Context({stored: random_array(stored), **others}), [node(1), stored, node(2)], path)
        ctx = program(mine, node(1), node(2), seed=5)
        before = by_key(ctx)
        for nodes in ([mine], [node(1), mine], [mine, node(2)], {node(1), mine, node(2)}):
            refused(
                lambda: restore(ctx, nodes, path),  # noqa: B023
                f"{path}: tensor ocannl:0 has {message}",
            )
        assert by_key(ctx).keys() == before.keys()
        assert all(by_key(ctx)[key] is array for key, array in before.items())
        save(ctx, [mine], path)  # and what matches is no error
        assert same(restore(ctx, [mine], path)[mine][:0], before["ocannl", 0][:0]) if mine.dims else True
    assert ingestion_counts()[0] + ingestion_counts()[1] == len(MISMATCHES)


def test_equal_paddings_match(tmp_path: Path) -> None:
    for neutral in NEUTRALS:
        mine = node(0, dims=(4, 1), padding=pads(neutral))
        ctx = program(mine)
        save(ctx, [mine], tmp_path / "t")
        assert restore(ctx, [mine], tmp_path / "t")[mine][1:3].tobytes() == ctx[mine][1:3].tobytes()


def test_every_failing_node_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(program(node(0), node(1), node(2)), [node(0), node(1), node(2)], path)
    wrong = [node(9), node(0, precision="half", label=("h",)), node(1), node(2, dims=(3,)), node(0, "x")]
    ctx = program(*wrong)
    before = by_key(ctx)
    refused(
        lambda: restore(ctx, wrong, path),
        f"{path}: tensor ocannl:9 is not in the file; "
        "tensor ocannl:0 'h' has precision single in the file, half here; "
        "tensor ocannl:2 has dims [2] in the file, [3] here; "
        "tensor x:0 is not in the file",
    )
    assert all(by_key(ctx)[key] is array for key, array in before.items())
    assert ingestion_counts() == (0, 0)
    many = [node(number) for number in range(100, 130)]
    with pytest.raises(ArgumentError, match=r"tensor ocannl:119 is not in the file; and 10 more$"):
        restore(ctx, many, path)


# ------------------------------------------------------------------------------------------------------------ mapping


def test_mapped_arrays_are_copy_on_write(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ctx = program(W, B)
    save(ctx, [W, B], path)
    data = path.read_bytes()
    first, second = load(Context(), path)[0], load(Context(), path)[0]
    third = restore(ctx, [W, B], path)
    fourth = restore(ctx, [W, B], path, mmap=False)
    stored = ckptspec.load(path)
    assert ingestion_counts() == (6, 2)
    for loaded in (first, second, third):
        assert all(mapped(array) and array.flags.writeable and array.flags.aligned for array in loaded.values())
    assert not any(map(mapped, fourth.values()))
    first[W][:] = 7
    third[B][1] = -1
    fourth[W][:] = 9
    assert path.read_bytes() == data
    assert same(second[W], ctx[W])
    assert same(second[B], ctx[B])
    assert same(third[W], ctx[W])
    assert same(stored[0], ctx[W])
    assert same(load(Context(), path)[0][W], ctx[W])
    assert first[W].tolist() == [[7] * 3] * 2
    assert same(first[B], ctx[B])  # of the same map
    for way in (None, True, False):
        with pytest.raises(ValueError, match="read-only"):
            stored[0][0, 0] = 1
        load(Context(), path, mmap=way)[0][W][0, 0] = 1


COUNTS: list[tuple[str, dict[str, Any], int, bool]] = [
    ("plain", {}, 32, True),
    ("a scalar", {"dims": ()}, 32, False),
    ("one element", {"dims": (1, 1)}, 32, True),
    ("empty", {"dims": (3, 0)}, 32, False),
    ("void", {"precision": "void"}, 32, False),
    ("margins", {"dims": (5,), "padding": Padding(axes=((1, 0),))}, 32, False),
    ("margins of nothing", {"dims": (5,), "padding": Padding(axes=((0, 0),), neutral=3.0)}, 32, True),
    ("a margin only", {"dims": (5,), "padding": Padding(axes=((5, 0),))}, 32, False),
    ("packed behind one byte", {}, 1, False),
    ("packed bytes", {"precision": "byte"}, 1, True),
    ("packed fp8", {"precision": "fp8"}, 1, True),
    ("an alignment of 2, half", {"precision": "half"}, 2, True),
    ("an alignment of 2, bfloat16", {"precision": "bfloat16"}, 2, True),
    ("an alignment of 3, half", {"precision": "half"}, 3, False),
    ("an alignment of 4", {}, 4, True),
    ("an alignment of 8, uint4x32", {"precision": "uint4x32"}, 8, False),
    ("an alignment of 16, uint4x32", {"precision": "uint4x32"}, 16, True),
]


def odd_place(path: Path) -> bool:
    """Whether the last payload of a file of two tensors lies where its elements cannot be mapped."""
    tensor = ckptspec.load(path).tensors[1]
    found = re.findall(rb"\(offset ([0-9]+)\)", path.read_bytes())
    (length,) = struct.unpack(">i", path.read_bytes()[:4])
    return bool((4 + length + int(found[1])) % max(tensor.node.scalar.size, 1))


def test_every_payload_is_counted_as_mapped_or_copied(tmp_path: Path) -> None:
    path = tmp_path / "t"
    byte = TensorNode(id=0, precision="byte")  # a scalar: copied
    for what, says, alignment, expected in COUNTS:
        mine = node(1, **says)
        # A word of the label moves the data section, which an alignment of 1 or 3 leaves at any place.
        for label in ((), ("x",), ("xx",), ("xxx",)):
            mine = node(1, **says, label=label)
            ctx = program(byte, mine)
            save(ctx, [byte, mine], path, alignment=alignment)
            if alignment in (1, 3) and odd_place(path) != (not expected):
                continue
            break
        else:
            raise AssertionError(f"{what}: no such place was found")
        for way in (None, True, False):
            for setting in (True, False):
                settings.checkpoint_load_mmap = setting
                direct = expected and (setting if way is None else way)
                for loading in (True, False):
                    reset_ingestion_counts()
                    if loading:
                        again = load(Context(), path, mmap=way)[0]
                    else:
                        again = restore(Context(), [byte, mine], path, mmap=way)
                    assert ingestion_counts() == (int(direct), 2 - direct), (what, way, setting)
                    assert mapped(again[mine]) == direct, what
                    assert not mapped(again[byte])
                    inner = mine.region
                    assert same(again[mine][inner], ctx[mine][inner]), what
                    assert again[mine].flags.aligned


def test_counts_add_up_until_they_are_reset(tmp_path: Path) -> None:
    ctx = program(W, B, S)
    save(ctx, [W, B, S], tmp_path / "t")
    save(ctx, [W], tmp_path / "t", appending=True)  # what is kept is no ingestion
    ckptspec.load(tmp_path / "t")
    assert ingestion_counts() == (0, 0)
    load(Context(), tmp_path / "t")
    assert ingestion_counts() == (2, 1)
    restore(ctx, [W], tmp_path / "t", mmap=False)
    counts = ingestion_counts()
    assert (counts.mapped, counts.copied) == (2, 2)
    reset_ingestion_counts()
    assert ingestion_counts() == (0, 0)
    assert (counts.mapped, counts.copied) == (2, 2)


def test_mapped_arrays_outlive_call_context_and_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ctx = program(W, B)
    save(ctx, [W, B], path)
    loaded = load(Context(), path)[0]
    kept, other = loaded[W], loaded[B]
    del loaded
    gc.collect()
    assert same(kept, ctx[W])
    save(program(W, seed=50), [W], path)
    gc.collect()
    assert same(other, ctx[B])
    path.unlink()
    assert same(kept, ctx[W])
    kept[:] = 5
    assert kept.tolist() == [[5] * 3] * 2


def test_pages_are_read_when_they_are_looked_at(tmp_path: Path) -> None:
    """A large sparse file is loaded, and a few of its elements are looked at: nothing of that size is allocated."""
    path = tmp_path / "t"
    size = 1 << 32
    text = record(0, 0, dims=f"({size})", size=size, prec="Byte_prec")
    data = craft([text])
    with open(path, "wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    tracemalloc.start()
    try:
        array = next(iter(load(Context(), path)[0].values()))
        assert (array[0], array[size - 1], array.nbytes) == (0, 0, size)
        array[size - 1] = 3
        assert array[size - 1] == 3
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_files_larger_than_memory_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    size = 1 << 40
    data = craft([record(0, 0, dims=f"({size})", size=size, prec="Byte_prec")])
    with open(path, "wb") as file:
        file.write(data)
        try:
            file.truncate(len(data) + size)
        except OSError:
            pytest.skip("the file system has no files of this size")
    array = next(iter(load(Context(), path)[0].values()))
    array[size // 2] = 3
    assert (array[0], array[size // 2], array[-1]) == (0, 3, 0)


def test_files_that_cannot_be_mapped_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems map no files: who asks for no mapping gets copies, and appending works, too."""

    def refuse(*args: Any, **more: Any) -> None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    ctx = program(W, B)
    save(ctx, [W], tmp_path / "t")
    monkeypatch.setattr(mmap, "mmap", refuse)
    assert same(load(Context(), tmp_path / "t", mmap=False)[0][W], ctx[W])
    assert same(restore(ctx, [W], tmp_path / "t", mmap=False)[W], ctx[W])
    save(ctx, [B], tmp_path / "t", appending=True)


def test_saving_over_the_file_whose_arrays_are_mapped(tmp_path: Path) -> None:
    """The arrays keep their values, changed or not; the new file has them; also when they go to other places in it."""
    path = tmp_path / "t"
    nodes = [TensorNode(id=number, precision="uint32", dims=(3000,)) for number in range(6)]
    ctx = program(*nodes)
    save(ctx, nodes, path)
    loaded = load(Context(), path)[0]
    assert ingestion_counts() == (6, 0)
    expected = {node: ctx[node].copy() for node in nodes}
    expected[nodes[2]][7] = loaded[nodes[2]][7] = 12345
    for chosen, alignment, appending in (
        (nodes[::-1], 64, False),
        (nodes[:2], 32, True),
        (nodes[3:5], 4096, True),
        (nodes[2:3], 4, False),
        (nodes, 4, True),
        (list(reversed(nodes)), 1, True),
    ):
        save(loaded, chosen, path, alignment=alignment, appending=appending)
        again = load(Context(), path)[0]
        for node in nodes:
            assert same(loaded[node], expected[node])
        for node in again:
            assert same(again[node], expected[node])
        assert set(chosen) <= set(again)
        assert appending or set(chosen) == set(again)
        loaded = loaded.updated({node: again[node] for node in chosen})  # now of the new file, to be replaced next


def test_a_checkpoint_is_saved_over_the_file_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ctx = program(W, B, S)
    save(ctx, [W, B, S], path)
    model = ckptspec.load(path)
    moved = Checkpoint(tensors=list(model.tensors)[::-1], alignment=128)
    ckptspec.save(path, moved)
    assert keys(path) == [S.key, B.key, W.key]
    for checkpoint in (model, moved, ckptspec.load(path)):
        assert all(same(checkpoint[node.key], ctx[node]) for node in (W, B, S))


# ------------------------------------------------------------------------------------------ nodes, registry, context


def test_nodes_that_no_checkpoint_can_hold() -> None:
    most = (1 << 62) - 1
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"id": -1}, f"id: found -1, expected 0 to {most}"),
        ({"id": most + 1}, f"id: found {most + 1}, expected 0 to {most}"),
        ({"id": 1.0}, "id: found 1.0, expected an integer"),
        ({"id": True}, "id: found True, expected an integer"),
        ({"namespace": ""}, "namespace: is empty, expected a name such as ocannl"),
        ({"namespace": b""}, "namespace: is empty, expected a name such as ocannl"),
        ({"namespace": None}, "namespace: found None, expected text or bytes"),
        ({"namespace": "\ud800"}, "namespace: '\\ud800' has lone surrogates"),
        ({"label": "w"}, "label: found 'w', expected a sequence"),
        ({"label": (3,)}, "label: found 3, expected text or bytes"),
        ({"precision": "float"}, None),
        ({"precision": "Single_prec"}, None),
        ({"precision": 3}, None),
        ({"dims": (-1,)}, f"dims: found -1, expected 0 to {most}"),
        ({"dims": 3}, "dims: found 3, expected a sequence"),
        ({"dims": (2.0,)}, "dims: found 2.0, expected an integer"),
        ({"dims": (1 << 31, 1 << 31)}, f"at most {most}"),
        ({"dims": (1 << 60,)}, f"at most {most}"),
        ({"padding": ((1, 1),)}, "tensor ocannl:0: padding: found tuple of 1, expected a Padding or None"),
        ({"dims": (3,), "padding": Padding(axes=())}, "padding of 0 axes, expected 1, as dims has"),
        ({"dims": (3,), "padding": Padding(axes=((2, 2),))}, "found 2 and 2, 4 together, expected at most 3"),
    ]
    for says, message in cases:
        with pytest.raises(ArgumentError) as caught:
            TensorNode(**{"id": 0, **says})
        expected = message or f"tensor ocannl:0: precision: found {says['precision']!r}, expected one of "
        assert expected in str(caught.value)
    paddings: list[tuple[dict[str, Any], str]] = [
        ({"axes": 3}, "axes: found 3, expected a sequence"),
        ({"axes": (3,)}, "axes[0]: found 3, expected a sequence"),
        ({"axes": ((0, 0), (1,))}, "axes[1]: found 1 numbers, expected left and right"),
        ({"axes": ((0, -1),)}, f"axes[0]: found -1, expected 0 to {most}"),
        ({"axes": (), "neutral": "0"}, "neutral: found '0', expected a number"),
        ({"axes": (), "neutral": True}, "neutral: found True, expected a number"),
        ({"axes": (), "neutral": None}, "neutral: found None, expected a number"),
    ]
    for says, message in paddings:
        refused(lambda: Padding(**says), message)  # noqa: B023


def test_nodes_are_what_their_key_says() -> None:
    one, twin = TensorNode(id=np.int64(3), label=["a"], dims=[2, np.int32(3)]), TensorNode(id=3, precision="half")  # type: ignore[arg-type]
    assert one == twin
    assert hash(one) == hash(twin)
    assert one != TensorNode(id=3, namespace="other")
    assert one != TensorNode(id=4)
    assert one != 3
    assert (one.key, one.label, one.dims, one.size, one.name) == (
        ("ocannl", 3),
        ("a",),
        (2, 3),
        24,
        "tensor ocannl:3 'a'",
    )
    assert TensorNode(namespace=b"ocannl", id=3) == one  # bytes that are text are text
    assert TensorNode(namespace=b"\xff", id=3).namespace == b"\xff"
    with pytest.raises(AttributeError):
        one.id = 4  # type: ignore[misc]
    assert [
        Padding(axes=((0, 1),)) == other for other in (pads(0.0, (0, 1)), pads(-0.0, (0, 1)), pads(0.0, (1, 0)))
    ] == [
        True,
        False,
        False,
    ]
    assert pads(NOT_A_NUMBER) == pads(NOT_A_NUMBER)
    assert len({pads(NOT_A_NUMBER), pads(MINUS_NOT_A_NUMBER), pads(NOT_A_NUMBER), pads(0.0), pads(-0.0)}) == 4


def test_registries() -> None:
    registry = Registry()
    assert (len(registry), registry.next_id, registry.namespace) == (0, 0, "ocannl")
    first = registry.create((2, 3), precision="half", label=("w",), padding=pads(1.0))
    assert (first.key, first.dims, first.precision, first.label, first.padding) == (
        ("ocannl", 0), (2, 3), "half", ("w",), pads(1.0),
    )  # fmt: skip
    registry.add([node(10), node(4, "other")])
    assert registry.next_id == 11
    before = list(registry)
    for wrong, message in (
        ([node(11), node(10)], "tensor ocannl:10: a node of that namespace and id is registered already"),
        ([node(12), node(12)], "tensor ocannl:12: a node of that namespace and id is registered already"),
        ([node(13), "w"], "nodes: found 'w', expected a TensorNode"),
    ):
        refused(lambda: calls.Registry.add(registry, wrong), message)  # noqa: B023
        assert list(registry) == before
        assert registry.next_id == 11
    for says in ({"dims": 3}, {"dims": (-1,)}, {"precision": "f32"}, {"label": "w"}, {"padding": pads(0.0, (0, 0))}):
        with pytest.raises(ArgumentError):
            calls.Registry.create(registry, **says)
    assert list(registry) == before
    registry.namespace = "other"
    assert registry.create().key == ("other", 5)
    registry.namespace = "third"
    assert registry.create().key == ("third", 0)
    assert registry.get("ocannl", 0) is first
    assert registry.get(b"ocannl", 0) is first
    assert registry.get("ocannl", 5) is None
    assert first in registry
    assert node(0, "none") not in registry
    assert 0 not in registry
    refused(lambda: Registry(""), "namespace: is empty, expected a name such as ocannl")
    refused(lambda: calls.Registry(3), "namespace: found 3, expected text or bytes")
    assert registry.seed(-7) == -7
    for seed in (1.0, True, 1 << 62):
        with pytest.raises(ArgumentError, match=r"^seed: "):
            calls.Registry.seed(registry, seed)
    assert registry.seeds == [-7]


def test_a_namespace_that_is_refused_changes_nothing() -> None:
    registry = Registry("third")
    for name in ("", b"", None):
        with pytest.raises(ArgumentError, match="namespace: "):
            setattr(registry, "namespace", name)  # noqa: B010
        assert registry.namespace == "third"


def test_contexts_are_mappings_that_do_not_change() -> None:
    ctx = program(W, B)
    assert (len(ctx), list(ctx), W in ctx, S in ctx, ctx.get(S)) == (2, [W, B], True, False, None)
    with pytest.raises(KeyError):
        ctx[S]
    array: Any = np.int64(3)
    more = ctx.updated({S: array, W: np.ones((2, 3), np.float32)})
    assert (len(ctx), len(more), int(more[S])) == (2, 3, 3)
    assert ctx[W].tolist() != more[W].tolist()
    assert more[B] is ctx[B]
    assert more.registry is ctx.registry
    for wrong, message in (
        ([W], "arrays: found list of 1, expected a mapping from nodes to arrays"),
        ({"w": array}, "arrays: found 'w', expected a TensorNode"),
        ({B: np.zeros(3), S: 3}, "tensor ocannl:2: found int, expected an array"),
    ):
        refused(lambda: calls.Context(wrong), message)  # noqa: B023
        refused(lambda: calls.Context.updated(ctx, wrong), message)  # noqa: B023
    refused(lambda: calls.Context(registry=3), "registry: found 3, expected a Registry")
    assert list(ctx) == [W, B]
    mutable: Any = ctx
    with pytest.raises(TypeError):
        mutable[W] = array


def test_a_value_goes_with_the_node_it_was_put_under() -> None:
    """A context whose node was put again with another description has that description."""
    ctx = Context({node(0): np.zeros(2, np.float32)}).updated({node(0, dims=(3,)): np.zeros(3, np.float32)})
    (found,) = ctx
    assert found.shape == ctx[found].shape


def test_nothing_but_argument_errors_leaves_the_calls(tmp_path: Path) -> None:
    strings = [np.zeros(2, dtype=np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else []
    refusals: list[Callable[[], object]] = [
        lambda: Padding(axes=(), neutral=10**400),
        lambda: calls.save(program(W), [[W]], tmp_path / "t"),
        lambda: calls.restore(program(W), [{}], tmp_path / "t"),
        *(partial(Context, {node(0): array}) for array in strings),
    ]
    for call in refusals:
        with pytest.raises((ArgumentError, OverflowError, TypeError)) as caught:
            call()
        assert caught.type is ArgumentError


def test_empty_nodes_are_checked_too(tmp_path: Path) -> None:
    ctx = Context({node(0): np.zeros(2, np.float32)})
    with pytest.raises(ArgumentError, match="expected"):
        save(ctx, [node(0, dims=(0,))], tmp_path / "t")


def test_margins_of_void_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 300 bytes may say so of 2^62 elements, which nobody could go over one by one."""

    def no_loop(*args: Any) -> None:
        raise AssertionError("filled")

    data = craft([record(0, 0, dims=f"({(1 << 62) - 1})", size=0, prec="Void_prec", padding="(((1 0)) 0.)")])
    monkeypatch.setattr(np, "full", no_loop)
    assert ckptspec.loads(data)[0].shape == ((1 << 62) - 1,)


# ---------------------------------------------------------------------------------------------------- the checkpoint


def test_a_checkpoint_is_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "t"
    other = TensorNode(id=0, namespace=b"\xff", precision="bfloat16", dims=(4,))
    padded = TensorNode(id=5, dims=(2, 3), padding=Padding(axes=((0, 0), (1, 0)), neutral=-2.0), label=("a", b"\xfe"))
    ctx = program(W, other, padded)
    save(ctx, [W, other, padded], path, alignment=16)
    model = ckptspec.load(path)
    assert isinstance(model, Checkpoint)
    assert (len(model), model.alignment, model.version, model.training) == (3, 16, 1, None)
    assert [tensor.node.key for tensor in model.tensors] == [W.key, other.key, padded.key]
    assert (model.tensors[1].node.namespace, model.tensors[-1].node.label) == (b"\xff", ("a", b"\xfe"))
    assert [tensor.node for tensor in model.tensors[1:]] == [other, padded]
    assert same(model[0], ctx[W])
    assert same(model["ocannl", 0], ctx[W])
    assert same(model[b"ocannl", 0], ctx[W])
    assert same(model[b"\xff", 0], ctx[other])
    assert model[5][:, 0].tolist() == [-2, -2]
    assert model[5].flags.writeable
    assert same(model.tensors[2].stored(), np.ascontiguousarray(ctx[padded][:, 1:]))
    assert not model[0].flags.writeable
    for key in (1, ("other", 0), ("ocannl", 1)):
        with pytest.raises(KeyError):
            model[key]
    odd: tuple[Any, ...] = ("ocannl", ("ocannl",), ("ocannl", 0, 0), None, 1.0)
    assert list(model) == [tensor.node.key for tensor in model.tensors]
    assert all(key in model for key in model)
    assert [key in model for key in (0, np.int64(0), ("ocannl", 0), 1, ("other", 0), *odd)] == [True] * 3 + [False] * 7
    for wrong in odd:
        with pytest.raises(ArgumentError, match="expected an id, or a namespace and an id"):
            model[wrong]
    with pytest.raises(IndexError):
        model.tensors[3]
    save(program(W), [W], path)
    path.unlink()
    assert same(model[0], ctx[W])  # made only now
    ckptspec.save(path, model)
    assert validate(path).canonical
    assert {key: array.tobytes() for key, array in by_key(load(Context(), path)[0]).items()} == {
        tensor.node.key: tensor.value().tobytes() for tensor in model.tensors
    }


def test_checkpoints_that_no_file_can_hold(tmp_path: Path) -> None:
    good = Tensor(node=node(0), data=bytes(8))
    state = {"state": (("ocannl", 0),)}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tensors": [good, good]}, "tensor ocannl:0: occurs twice"),
        ({"tensors": [Tensor(node=node(0), data=bytes(7))]}, "tensor ocannl:0: found 7 bytes, expected 8"),
        ({"tensors": [Tensor(node=node(0), data="text")]}, "tensor ocannl:0: found str, expected contiguous bytes"),  # type: ignore[arg-type]
        ({"tensors": ["w"]}, "tensors: found 'w', expected a Tensor"),
        ({"alignment": 0}, "alignment: found 0, expected 1 to 67108864"),
        ({"version": 2}, "version: found 2, expected 1"),
        ({"training": 3}, "training: found 3, expected a TrainingRecord"),
        ({"training": TrainingRecord()}, "training.state: is empty, expected at least one tensor"),
        ({"training": TrainingRecord(**state, version=3)}, "training.version: found 3, expected 1 or 2"),  # type: ignore[arg-type]
        (
            {"training": TrainingRecord(state=(("ocannl", 0), ("x", 1)))},
            "training.state: tensor x:1 is not among the tensors",
        ),
        (
            {"training": TrainingRecord(state=(("ocannl", 0),), extra=(("k", "1"), ("k", "2")))},
            "training.extra: the key 'k' occurs twice",
        ),
    ]
    for says, message in cases:
        refused(lambda: ckptspec.save(tmp_path / "t", Checkpoint(**{"tensors": [good], **says})), message)  # noqa: B023
    assert os.listdir(tmp_path) == []
    ckptspec.save(tmp_path / "t", Checkpoint(tensors=(good,)))
    assert ckptspec.load(tmp_path / "t")[0].tolist() == [0, 0]


# ------------------------------------------------------------------------------------------------------------ salvage


def test_salvage_makes_up_no_state(tmp_path: Path) -> None:
    """A tensor that lost its id gets one that the training record does not name."""
    path, target = tmp_path / "t", tmp_path / "u"
    ctx = program(*(node(number) for number in range(3)))
    training.save(ctx, training.Progress(step=7), list(ctx), path)
    for damage, state in (
        ({b"((id 1)": b"((hd 1)"}, (0, 2)),
        ({b"((id 1)": b"((hd 1)", b"((id 2)": b"((hd 2)"}, (0,)),
        ({b"((id 1)": b"((id 2)"}, (0,)),  # nobody knows which of the two it was
    ):
        data = path.read_bytes()
        for old, new in damage.items():
            data = data.replace(old, new)
        target.write_bytes(data)
        model, survivors, report = ocannl.salvage(FileSource(target))
        assert not report.ok
        assert len(model.tensors) == 3
        assert model.training is not None
        assert model.training.state == tuple(("ocannl", number) for number in state)
        assert {item.name: item.state for item in survivors}["training"] == "repaired"


def test_salvage_finds_records_under_a_broken_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(program(W, B), [W, B], path)
    path.write_bytes(path.read_bytes().replace(b"(tensors", b"(tensprs"))
    model, survivors, _ = ocannl.salvage(FileSource(path))
    assert [tensor.node.key for tensor in model.tensors] == [W.key, B.key]
    assert [item.state for item in survivors] == ["repaired", "intact", "intact"]


def test_salvage_of_nothing_is_refused(tmp_path: Path) -> None:
    data = craft([record(0, 0).replace("(offset 0)", "(offset 1000)")], floats(1, 2))
    with pytest.raises(FormatError, match="OCANNL-TEN-RANGE"):
        ocannl.salvage(BufferSource(data))


def test_findings_name_the_tensor() -> None:
    data = craft([record(7, 0).replace("(byte_length 8)", "(byte_length 9)")], floats(1, 2))
    with pytest.raises(FormatError, match=r"tensors\[0\].byte_length.* This is tensor ocannl:7"):
        ckptspec.loads(data)


# --------------------------------------------------------------------------------------- headers of a wrong length


@pytest.mark.parametrize("name", ["golden_minimal", "golden_alignment_1", "training_minimal"])
def test_a_wrong_header_length_shifts_no_payload(name: str) -> None:
    """Whatever the length says: values come out as they were, or it is said that they may not be."""
    data = next(case for case in load_suite().cases if case.id == f"ocannl/{name}").read()
    frame = OcannlFrame.parse(data)
    model, *_ = ocannl.salvage(BufferSource(data), False)
    payloads = {tensor.node.key: bytes(tensor.data) for tensor in model.tensors}
    for change in (*range(-20, 0), *range(1, 130), 1000):
        length = max(0, frame.header_length + change)
        changed = OcannlFrame.build({**frame, "header_length": length}) + data[OcannlFrame.sizeof() :]
        try:
            made, survivors, _ = ocannl.salvage(BufferSource(changed), False)
        except FormatError:
            continue
        intact = any(survivor.what == "tensor" and survivor.state == "intact" for survivor in survivors)
        right = all(bytes(tensor.data) == payloads.get(tensor.node.key) for tensor in made.tensors)
        assert right or not intact, change
