"""Hypothesis strategies: documents, models and damaged files, for the tests of this project and of others.

Needs the extra ``ckptspec[test]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .. import oam
from ..record_documents import document_fields
from ..spec.dtypes import OAM_DTYPES, numpy_type
from ..spec.layout import Field
from ..spec.layout import field as field_of
from ..spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_QUANT_VERSION,
    OAM_VERSIONS,
    OamConfig,
    OamOptimizer,
    OamProgress,
    OamTensor,
)
from .strategies_ocannl import ocannl_documents
from .strategies_safetensors import safetensors_documents

__all__ = ["arrays", "models", "names", "oam_documents", "ocannl_documents", "safetensors_documents", "spoil"]

Strategy = st.SearchStrategy[Any]


def names(width: int, *, empty: bool = True) -> st.SearchStrategy[str]:
    """Texts that fit into a NUL-terminated field of ``width`` bytes."""
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.text(characters, min_size=0 if empty else 1, max_size=width - 1).filter(
        lambda text: len(text.encode()) < width
    )


def shapes(most: int = 40) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of rank 0 to 8 with at most ``most`` elements."""
    extents = st.lists(st.integers(0, 5), max_size=OAM_MAX_RANK)
    return extents.map(tuple).filter(lambda shape: math.prod(shape) <= most)


def _value(item: Field, kind: str) -> Strategy:
    """Return a strategy for a value of the document, by the kind that the schema gives it."""
    if kind == "text":
        return names(item.size)
    if kind == "dtype":
        return st.sampled_from(list(OAM_DTYPES))
    if kind == "bool":
        return st.booleans()
    if kind == "f32":
        return st.integers(0, (1 << 32) - 1).map(lambda bits: f"0x{bits:08x}")
    low, high = item.bounds
    numbers = st.integers(low, high) | st.sampled_from([low, high, 0])
    return numbers.map(str) if item.bits == 64 else numbers


def _record(record: Any, derived: tuple[str, ...] = (), **more: Strategy) -> Strategy:
    kinds = document_fields(record, derived)
    fixed = {key: _value(field_of(record, key), kind) for key, kind in kinds.items() if key not in more}
    return st.fixed_dictionaries(fixed | more)


def _hex(size: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


@st.composite
def _tensor(draw: Any, name: str, *, quantized: bool) -> dict[str, Any]:
    shape = draw(shapes())
    elements = math.prod(shape)
    encodings = list(OAM_ENCODINGS) if quantized and elements else ["dense"]
    encoding = draw(st.sampled_from(encodings))
    dtype = draw(st.sampled_from(list(OAM_DTYPES))) if encoding == "dense" else "f32"
    blocks = -(-elements // 32)
    size = {"dense": elements * OAM_DTYPES[dtype].size, "q4": blocks * 20, "q8": blocks * 36}[encoding]
    return {
        "name": name,
        "dtype": dtype,
        "shape": [str(extent) for extent in shape],
        "encoding": encoding,
        "data": draw(_hex(size)),
    }


@st.composite
def _section(draw: Any, *, quantized: bool) -> list[dict[str, Any]]:
    width = field_of(OamTensor, "name").size
    unique = draw(st.lists(names(width, empty=False), max_size=4, unique=True))
    return [draw(_tensor(name, quantized=quantized)) for name in unique]


@st.composite
def _optimizer(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(OAM_OPTIMIZERS)))
    made: dict[str, Any] = draw(_record(OamOptimizer, ("moment_count",), kind=st.just(kind)))
    size = 4 * draw(st.integers(0, 5))
    made["first_moment"] = draw(_hex(size))
    made["second_moment"] = draw(_hex(size)) if OAM_OPTIMIZERS[kind] == 2 else ""
    return made


@st.composite
def oam_documents(draw: Any, version: int | None = None) -> dict[str, Any]:
    """Neutral documents of ``.oam`` files that every encoder must write."""
    chosen = draw(st.sampled_from(OAM_VERSIONS)) if version is None else version
    config = draw(_record(OamConfig, ("arch_config_size",)))
    config["arch_config"] = draw(st.binary(max_size=40)).hex()
    return {
        "format": "oam",
        "version": chosen,
        "config": config,
        "weights": draw(_section(quantized=chosen >= OAM_QUANT_VERSION)),
        "state": draw(_section(quantized=False)),
        "optimizer": draw(st.none() | _optimizer()),
        "progress": draw(_record(OamProgress)),
    }


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    """Arrays of every dtype that ``.oam`` has, with any bits, in any memory layout, of either byte order."""
    dtype = numpy_type(OAM_DTYPES[draw(st.sampled_from(list(OAM_DTYPES)))])
    shape = draw(shapes())
    size = math.prod(shape) * dtype.itemsize
    array = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8).view(dtype).reshape(shape)
    match draw(st.sampled_from(["plain", "fortran", "reversed", "strided", "broadcast", "big"])):
        case "fortran":
            return np.array(array, order="F")
        case "reversed" if array.ndim:
            return array[::-1]
        case "strided" if array.ndim:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        case "broadcast":
            return np.broadcast_to(array, (2, *shape)[-OAM_MAX_RANK:]) if array.ndim < OAM_MAX_RANK else array
        case "big" if dtype.kind in "fiuc" and dtype.itemsize > 1:
            return array.astype(dtype.newbyteorder(">"))
        case _:
            return array


@st.composite
def models(draw: Any) -> oam.Model:
    """Models whose tensors are arrays of all kinds."""
    width = field_of(OamTensor, "name").size

    def section() -> dict[str, Any]:
        unique = draw(st.lists(names(width, empty=False), max_size=3, unique=True))
        return {name: draw(arrays()) for name in unique}

    return oam.Model(
        config=oam.Config(
            architecture=draw(names(field_of(OamConfig, "architecture").size)),
            arch_config=draw(st.binary(max_size=20)),
        ),
        weights=section(),
        state=section(),
        version=OAM_NEWEST,
    )


def spoil(document: Any, data: st.DataObject, values: st.SearchStrategy[Any]) -> None:
    """Replace any part of a document by a drawn value, or take it away; ``data`` draws which part and what happens."""
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        if data.draw(st.booleans()):
            at[key] = data.draw(values)
        else:
            del at[key]
        break
