"""The same elements give the same file, however an array holds them: byte order, strides, alignment, class."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec import ArgumentError, kaun, nuvec, oam, ocannl, safetensors
from ckptspec.oam import Model, Optimizer
from ckptspec.quantization import QuantizedTensor, quantize_array
from ckptspec.spec.dtypes import SCALARS, ScalarType, numpy_type

Array = np.ndarray[Any, np.dtype[Any]]
Writer = Callable[[Array], bytes]

PACKAGE = Path(ckptspec.__file__).parent
SHAPE = (3, 4, 5)
TYPES = [scalar for scalar in SCALARS if scalar.numpy and scalar.size]


class Odd(np.ndarray[Any, Any]):
    """An array of a class that answers in ways of its own."""

    def reshape(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a subclass was asked for its shape")

    def astype(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a subclass was asked for another type")

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("a subclass was asked for its items")


class Holder:
    """No array, but something that gives one."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self._array


def elements(scalar: ScalarType, shape: tuple[int, ...]) -> Array:
    """Return an array of a type whose elements all differ where there are enough, in the processor's byte order."""
    dtype = numpy_type(scalar)
    size = math.prod(shape) * dtype.itemsize
    raw = np.arange(1, size + 1, dtype=np.uint32) * 37 % 251
    made: Array = np.frombuffer(raw.astype(np.uint8).tobytes(), "u1" if dtype.kind == "b" else dtype)
    made = made % 2 == 0 if dtype.kind == "b" else made.astype(dtype.newbyteorder("="))
    return made.reshape(shape)


def unaligned(array: Array) -> Array:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    made: Array = np.ndarray(array.shape, array.dtype, raw.data, 1)
    made[...] = array
    return made


def read_only(array: Array) -> Array:
    made = array.copy()
    made.flags.writeable = False
    return made


def strided(array: Array) -> Array:
    every_other: Any = (..., *(slice(None, None, 2) for _ in array.shape))
    made: Array = np.zeros(tuple(2 * extent for extent in array.shape), array.dtype)[every_other]
    made[...] = array
    return made


def swapped(array: Array) -> Array:
    """Return the array in the byte order that is not the processor's."""
    return array.astype(array.dtype.newbyteorder("S"))


def forms(array: Array) -> Iterator[tuple[str, Any]]:
    """Yield an array in other forms, all with the same elements."""
    backward: Any = (..., *(slice(None, None, -1) for _ in array.shape))
    yield "big-endian", array.astype(array.dtype.newbyteorder(">"))
    yield "little-endian", array.astype(array.dtype.newbyteorder("<"))
    yield "Fortran order", array.copy(order="F")
    yield "Fortran order, swapped", swapped(array).copy(order="F")
    yield "strides", strided(array)
    yield "strides, swapped", strided(swapped(array))
    yield "negative strides", array[backward].copy()[backward]
    yield "negative strides, swapped", swapped(array)[backward].copy()[backward]
    yield "unaligned", unaligned(array)
    yield "unaligned, swapped", unaligned(swapped(array))
    yield "read-only", read_only(array)
    yield "a subclass", array.view(Odd)
    yield "a subclass, swapped", swapped(array).view(Odd)
    yield "__array__", Holder(swapped(array))


def write_oam(array: Array) -> bytes:
    return oam.dumps(Model(weights={"x": array}, state={"x": array}))


def write_ocannl(scalar: ScalarType, shape: tuple[int, ...], path: Path) -> Writer:
    def write(array: Array) -> bytes:
        registry = ocannl.Registry()
        node = registry.create(shape, precision=scalar.ocannl or "")
        ocannl.save(ocannl.Context({node: array}, registry=registry), [node], path)
        return path.read_bytes()

    return write


def writers(scalar: ScalarType, shape: tuple[int, ...], path: Path) -> Iterator[tuple[str, Writer]]:
    """Yield all ways to write an array of a type."""
    if scalar.oam_code is not None:
        yield "oam", write_oam
    if scalar.ocannl is not None:
        yield "ocannl", write_ocannl(scalar, shape, path)
    if scalar.safetensors is not None:
        yield "safetensors", lambda array: safetensors.dumps({"x": array})
        yield "kaun", lambda array: kaun.dumps(kaun.Checkpoint({"x": array}))
        yield "nuvec", lambda array: nuvec.dumps({"x": array})


@pytest.mark.parametrize("scalar", TYPES, ids=lambda scalar: scalar.name)
def test_forms_of_an_array(scalar: ScalarType, tmp_path: Path) -> None:
    for shape in ((), (0, 3), (1,), SHAPE):
        plain = elements(scalar, shape if scalar.lanes == 1 else (*shape, scalar.lanes))
        for name, write in writers(scalar, shape, tmp_path / "file.ckpt"):
            expected = write(plain)
            if shape == SHAPE:  # it is these elements that are written, little-endian
                assert plain.astype(numpy_type(scalar)).tobytes() in expected, name
            for form, array in forms(plain):
                assert write(array) == expected, (name, shape, form)


def test_large_arrays_of_the_other_byte_order() -> None:
    plain = np.arange(1_500_000, dtype=np.float32).reshape(3, -1)  # more than is copied at a time
    assert write_oam(swapped(plain)) == write_oam(plain)
    assert write_oam(swapped(plain)[:, ::-1]) == write_oam(plain[:, ::-1].copy())
    assert safetensors.dumps({"x": swapped(plain).T}) == safetensors.dumps({"x": plain.T.copy()})


def test_moments_of_an_optimizer() -> None:
    moment = np.arange(12, dtype=np.float32)

    def write(array: Any) -> bytes:
        return oam.dumps(Model(weights={"x": moment}, optimizer=Optimizer(first_moment=array, second_moment=array)))

    for form, array in forms(moment):
        assert write(array) == write(moment), form


def test_quantized_tensors() -> None:
    plain = (np.arange(150, dtype=np.float32) - 70).reshape(2, 75)
    for encoding in ("q4", "q8"):
        expected = oam.dumps(oam.quantize(Model(weights={"x": plain}), encoding))
        made = quantize_array(plain, encoding)
        for form, array in forms(plain):
            model = oam.quantize(Model(weights={"x": array}), encoding)
            assert oam.dumps(model) == expected, form
            assert np.array_equal(model.weights["x"].dequantize(), made.dequantize()), form
            if isinstance(array, np.ndarray) and not isinstance(array, Odd):
                again = quantize_array(array, encoding)
                assert (again.payload.tobytes(), again.scales.tobytes()) == (
                    made.payload.tobytes(),
                    made.scales.tobytes(),
                )
        given = QuantizedTensor(encoding=encoding, shape=made.shape, payload=made.payload, scales=swapped(made.scales))
        assert oam.dumps(Model(weights={"x": given})) == expected
        assert np.array_equal(given.dequantize(), made.dequantize())


def test_arrays_of_other_types_are_refused() -> None:
    """Types of numpy that have no byte order, or no name of their own, included."""
    others = [np.zeros((2, 2), kind) for kind in ("S4", "O", "M8[s]", "<f8", [("x", "<f4")])]
    if hasattr(np.dtypes, "StringDType"):
        others.append(np.zeros((2, 2), np.dtypes.StringDType()))
    for array in others:
        with pytest.raises(ArgumentError, match="expected float32 elements"):
            quantize_array(array, "q4")
        with pytest.raises(ArgumentError, match="scales: found"):
            QuantizedTensor(encoding="q4", shape=(2, 2), payload=np.zeros((1, 16), np.uint8), scales=array)
        for refused in (Model(weights={"x": array}), safetensors.TensorFile(tensors={"x": array})):
            if array.dtype != np.float64:
                with pytest.raises(ArgumentError):
                    ckptspec.dumps(refused)
        registry = ocannl.Registry()
        with pytest.raises(ArgumentError, match="found an array of"):
            ocannl.Context({registry.create((2, 2)): array}, registry=registry)


# ------------------------------------------------------------------------------------------------------- in the sources

_STRUCT = {"Struct", "calcsize", "iter_unpack", "pack", "pack_into", "unpack", "unpack_from"}
_CODECS = re.compile(r"utf[-_]?(16|32)", re.IGNORECASE)  # their byte order is the processor's, unless it is named


def _native(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines of a module where bytes would be as the processor or a library of the system has them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else None
            if node.func.attr in _STRUCT and isinstance(text, str) and text[:1] not in "<>!":
                yield node.lineno, f"the format {text}"
            if node.func.attr in ("encode", "decode") and isinstance(text, str) and _CODECS.fullmatch(text):
                yield node.lineno, f"the codec {text}"
            if node.func.attr == "compress":
                yield node.lineno, "what a version of a library makes of it"


def test_nothing_is_written_as_the_processor_has_it() -> None:
    wrong = ('struct.pack("=I", 1)', '"a".encode("utf-16")', 'gzip.compress(b"")')
    right = ('struct.pack("<I", 1)', '"a".encode("utf-16-le")')
    assert [len(list(_native(line))) for line in (*wrong, *right)] == [1, 1, 1, 0, 0]
    modules = {path for part in (".", "spec", "conformance") for path in (PACKAGE / part).rglob("*.py")}
    found = {
        f"{path.relative_to(PACKAGE)}:{line}: {what}"
        for path in modules
        if "tests" not in path.relative_to(PACKAGE).parts
        for line, what in _native(path.read_text("utf-8"))
    }
    assert not found
    assert len(modules) > 100
