"""Hypothesis strategies for ``.oam`` files: documents, models, files in odd layouts.

Files are laid out by the maker of the cases, apart from the reference's writer.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .. import oam
from ..errors import ArgumentError
from ..record_documents import document_fields
from ..spec.dtypes import OAM_CODES, OAM_DTYPES, numpy_type
from ..spec.layout import Field, record_size
from ..spec.layout import field as field_of
from ..spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_MAX_SECTIONS,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_QUANT_VERSION,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamHeader,
    OamOptimizer,
    OamProgress,
    OamSection,
    OamTensor,
)
from ..text import show
from .cases.assemble import Image, T, assemble, config, optimizer, progress, tensors
from .catalogue import load_suite

__all__ = [
    "arrays",
    "covered_bytes",
    "edited_oam_files",
    "image_of",
    "models",
    "names",
    "oam_documents",
    "oam_layouts",
    "optimizers",
    "resealed",
    "sections_of",
    "tensor_of",
]

Document = dict[str, Any]
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
def optimizers(draw: Any) -> dict[str, Any]:
    """Optimizers, as documents have them."""
    kind = draw(st.sampled_from(list(OAM_OPTIMIZERS)))
    made: dict[str, Any] = draw(_record(OamOptimizer, ("moment_count",), kind=st.just(kind)))
    size = 4 * draw(st.integers(0, 5))
    made["first_moment"] = draw(_hex(size))
    made["second_moment"] = draw(_hex(size)) if OAM_OPTIMIZERS[kind] == 2 else ""
    return made


def oam_documents(version: int | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Neutral documents of ``.oam`` files that every encoder must write, of any version or of one.

    Files of an older version are valid, and not canonical. ArgumentError for a version that there is not.
    """
    if version is not None and (isinstance(version, bool) or version not in OAM_VERSIONS):
        raise ArgumentError(f"found {show(version)}, expected one of {', '.join(map(str, OAM_VERSIONS))}", "version")
    return _oam_documents(version)


@st.composite
def _oam_documents(draw: Any, version: int | None) -> dict[str, Any]:
    chosen = draw(st.sampled_from(OAM_VERSIONS)) if version is None else version
    config = draw(_record(OamConfig, ("arch_config_size",)))
    config["arch_config"] = draw(st.binary(max_size=40)).hex()
    return {
        "format": "oam",
        "version": chosen,
        "config": config,
        "weights": draw(_section(quantized=chosen >= OAM_QUANT_VERSION)),
        "state": draw(_section(quantized=False)),
        "optimizer": draw(st.none() | optimizers()),
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


# --------------------------------------------------------------------------------------------------------------- files


def tensor_of(row: Document) -> T:
    """Return a tensor of a document for the maker of the cases."""
    return T(row["name"], row["dtype"], tuple(map(int, row["shape"])), bytes.fromhex(row["data"]), row["encoding"])


def _stored(record: Any, values: Document, derived: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of a record as they are stored, given what a document says."""
    kinds = document_fields(record, derived)

    def stored(kind: str, value: Any) -> Any:
        if kind == "dtype":
            return OAM_CODES[value]
        if kind == "f32":
            return int(value, 16)
        return value if kind == "text" else int(value)

    return {key: stored(kind, values[key]) for key, kind in kinds.items()}


def sections_of(document: Document) -> dict[str | int, bytes]:
    """Return the payloads of the sections that a document describes, in the writer's order."""
    conf, opt = document["config"], document["optimizer"]
    made: dict[str | int, bytes] = {
        "config": config(bytes.fromhex(conf["arch_config"]), **_stored(OamConfig, conf, ("arch_config_size",)))
    }
    for name in OAM_TENSOR_SECTIONS:
        if document[name]:
            made[name] = tensors(map(tensor_of, document[name]))
    if opt is not None:
        moments = (bytes.fromhex(opt[key]) for key in ("first_moment", "second_moment"))
        made["optimizer"] = optimizer(*moments, **_stored(OamOptimizer, opt, ("moment_count",)))
    made["progress"] = progress(**_stored(OamProgress, document["progress"]))
    return made


def image_of(document: Document, **layout: Any) -> Image:
    """Return the file that a document describes, for fields to be spoiled; ``layout`` is that of ``assemble``."""
    return assemble(list(sections_of(document).items()), version=document["version"], **layout)


@st.composite
def oam_layouts(draw: Any) -> tuple[Document, bytes]:
    """A document and a file that holds what it says, its sections in any order, with gaps and odd padding."""
    document = draw(oam_documents())
    sections = draw(st.permutations(list(sections_of(document).items())))
    bodies = draw(st.permutations(range(len(sections))))
    gaps = draw(st.lists(st.integers(0, 70), max_size=len(sections)))
    image = assemble(
        sections,
        version=document["version"],
        bodies=bodies,
        gaps=gaps,
        start=draw(st.sampled_from([0, 1, 64])),
        pages=draw(st.booleans()),
        fill=draw(st.sampled_from([0, 1, 255])),
    )
    if draw(st.booleans()):
        image.resize(draw(st.integers(1, 9))).seal()
    return document, image.bytes()


# -------------------------------------------------------------------------------------------------------------- damage


def resealed(data: bytes) -> bytes:
    """Return a file whose checksums fit its bytes, as far as its section table makes sense."""
    size = record_size(OamHeader)
    if len(data) < size:
        return data
    count = min(_stated(data, "section_count"), OAM_MAX_SECTIONS, (len(data) - size) // record_size(OamSection))
    return Image(bytearray(data), [("", 0, 0)] * count, _stated(data, "version")).seal().bytes()


def _stated(data: bytes, key: str) -> int:
    """Return a number of the header."""
    item = field_of(OamHeader, key)
    return int.from_bytes(data[item.offset : item.offset + item.size], "little")


def covered_bytes(data: bytes) -> list[int]:
    """Return the offsets of all bytes of a valid file that some checksum covers: header, table, payloads."""
    count = _stated(data, "section_count")
    image = Image(bytearray(data), [], OAM_NEWEST)
    ranges = [(0, record_size(OamHeader) + count * record_size(OamSection))]
    for entry in range(count):
        places = (image.place(f"sections[{entry}].{key}") for key in ("offset", "size"))
        offset, size = (int.from_bytes(data[at : at + width], "little") for at, width in places)
        ranges.append((offset, size))
    return [at for offset, size in ranges for at in range(offset, offset + size)]


@cache
def _golden_files() -> tuple[bytes, ...]:
    cases = load_suite().cases
    return tuple(case.read() for case in cases if (case.kind, case.format, case.verdict) == ("file", "oam", "valid"))


@st.composite
def edited_oam_files(draw: Any) -> bytes:
    """Golden files with arbitrary edits where a checksum covers them, and the checksums made right again."""
    raw = bytearray(draw(st.sampled_from(_golden_files())))
    checksum = field_of(OamHeader, "checksum")
    kept = range(checksum.offset, checksum.offset + checksum.size)
    places = [at for at in covered_bytes(bytes(raw)) if at not in kept]
    interesting = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
    extreme = st.sampled_from([0, 1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, 1 << 63, (1 << 64) - 1])
    for _ in range(draw(st.integers(1, 6))):
        at = places[draw(st.integers(0, len(places) - 1))]
        if draw(st.booleans()):
            raw[at] = draw(interesting | st.integers(0, 255))
        else:  # a whole integer of 8 bytes
            raw[at : at + 8] = draw(extreme).to_bytes(8, "little")[: len(raw) - at]
    return resealed(bytes(raw))
