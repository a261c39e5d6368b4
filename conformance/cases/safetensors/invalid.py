"""Files that a reader must refuse for their metadata, an entry, or how payloads cover the byte buffer."""

from __future__ import annotations

import functools
import math
from typing import Final

from ....spec.dtypes import SAFETENSORS_DTYPES
from ..definition import CaseBook
from .assemble import T, entry, file, frame, inside, swap, text
from .parts import PAIR, W, invalid_case

__all__ = ["define"]

DTYPES: Final = {
    "lower": b'"u8"',
    "f128": b'"F128"',
    "f8_long": b'"F8_E4M3FN"',
    "null": b"null",
    "object": b'{"F128":null}',
}

SHAPES: Final = {
    "float": b"[2.0]",
    "minus": b"[-2]",
    "nested": b"[[2]]",
    "2_64_zero": b"[18446744073709551616,0]",
    "digits": b"[" + b"9" * 5_000 + b"]",
    "string": b'"[2]"',
}

OFFSETS: Final = {
    "three": b"[0,2,2]",
    "float": b"[0.0,2.0]",
    "minus_zero": b"[-0,2]",
    "2_64": b"[0,18446744073709551616]",
    "null": b"null",
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _metadata(book)
    _names(book)
    _entries(book)
    _sizes(book)
    _buffer(book)
    _several(book)


def _metadata(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book, tags=("metadata",))
    for name, value in {"integer": b"3", "array": b'[["a","b"]]'}.items():
        made = file(W, metadata={}, dress=swap(b"{},", value + b","))
        case(f"metadata_{name}", f"__metadata__ that is {value.decode()}", "MET-FORM", made)
    for name, value in {"integer": b"3", "null": b"null"}.items():
        made = file(W, metadata={"a": "b"}, dress=swap(b'"b"', value))
        case(f"metadata_value_{name}", f"a value of the metadata that is {value.decode()}", "MET-VALUE", made)
    made = file(metadata={"dtype": "U8", "shape": "x"}, dress=swap(b'"x"', b"[2]"))
    case("metadata_tensor", "a tensor that is called __metadata__", "MET-VALUE", made)
    made = frame(b'{"__metadata__":{"a":"1"},"__metadata__":3}')
    ocaml = "accepts, and takes the first"
    case("metadata_twice_bad", "__metadata__ again: 3", "MET-DUP", made, ocaml=ocaml)
    made = frame(text(W, metadata={"a": "1"})[:-1] + b',"\\u005f_metadata__":{}}', b"\1\2")
    case("metadata_twice_escape", "__metadata__ again, behind a tensor and by way of an escape", "MET-DUP", made)


def _names(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book, tags=("names",))
    ocaml = "accepts, and takes the second"
    case("duplicate_disjoint", "a name twice, with two ranges", "TEN-DUP", file(T(), T()), ocaml=ocaml)
    made = file(T(name="A"), T(spelled=rb'"\u0041"'))
    ocaml = "accepts, and sees the names A and u0041"
    case("duplicate_escape", "a name twice, the second time by way of an escape", "TEN-DUP", made, ocaml=ocaml)


def _entries(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book)
    for name, value in {"null": b"null", "text": b'"x"', "array_2": b'["U8",[2]]'}.items():
        made = frame(b'{"w":' + value + b"}")
        case(f"entry_{name}", f"an entry that is {value.decode()}", "TEN-FORM", made)
    for key, again in {"shape": "[3]", "data_offsets": "[0,3]"}.items():
        made = file(W, dress=inside(f'"{key}":{again}'.encode()))
        ocaml = "accepts, and takes the first" if key == "shape" else ""
        case(f"key_twice_{key}", f"a second {key} in an entry", "TEN-KEYDUP", made, ocaml=ocaml)
    for key, piece in {
        "dtype": '"dtype":"U8",',
        "shape": '"shape":[2],',
        "data_offsets": ',"data_offsets":[0,2]',
    }.items():
        made = file(W, dress=swap(piece.encode(), b""))
        case(f"missing_{key}", f"an entry without {key}", "TEN-MISSING", made)
    for name, value in DTYPES.items():
        made = file(W, dress=swap(b'"U8"', value))
        case(f"dtype_{name}", f"a dtype that is {value.decode()}", "TEN-DTYPE", made, tags=("dtypes",))
    for name, value in SHAPES.items():
        shown = value.decode() if len(value) < 60 else "a number of 5,000 digits"
        made = file(W, dress=swap(b'"shape":[2]', b'"shape":' + value))
        case(f"shape_{name}", f"a shape that is {shown}", "TEN-SHAPE", made, tags=("shapes",))
    made = file(T(shape=(0,)), dress=swap(b'"shape":[0]', b'"shape":[-0]'))
    ocaml = "accepts, and reads 0"
    case("shape_minus_zero", "an extent of -0", "TEN-SHAPE", made, tags=("shapes",), ocaml=ocaml)
    for name, value in OFFSETS.items():
        made = file(W, dress=swap(b'"data_offsets":[0,2]', b'"data_offsets":' + value))
        case(f"offsets_{name}", f"data offsets that are {value.decode()}", "TEN-OFFSETS", made)
    for begin, end in ((2, 0), (2, 1)):
        made = frame(b"{" + entry(W, begin, end) + b"}", b"\1\2")
        case(f"reversed_{end}", f"data offsets of [{begin}, {end}]", "TEN-REVERSED", made)


def _sizes(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book, tags=("shapes",))
    overflowing: list[tuple[str, str, tuple[int, ...]]] = [
        ("2_61", "U8", (1 << 61,)),
        ("product", "U8", (1 << 32, 1 << 32)),
        ("wraps_to_2", "U8", ((1 << 63) + 1, 2)),
    ]
    for name, dtype, shape in overflowing:
        made = frame(b"{" + entry(T(dtype=dtype, shape=shape), 0, 2) + b"}", b"\1\2")
        case(f"size_{name}", f"a size of 2^64 bits and more: {dtype}, {list(shape)}", "TEN-SIZEOF", made)
    partial: list[tuple[str, tuple[int, ...]]] = [("F4", ()), ("F4", (3, 3)), ("F6_E3M2", (3,))]
    for dtype, shape in partial:
        size = -(-SAFETENSORS_DTYPES[dtype].bits * math.prod(shape) // 8)
        made = file(T(dtype=dtype, shape=shape, data=bytes(size)))
        name = f"partial_{dtype.lower()}_{'x'.join(map(str, shape)) or 'scalar'}"
        invalid_case(book, name, f"{dtype}, {list(shape)}: no whole bytes", "TEN-PARTIAL", made, tags=("packed",))
    sizes: list[tuple[str, str, tuple[int, ...], int]] = [
        ("less", "U8", (2,), 1),
        ("scalar", "F64", (), 0),
        ("empty", "U8", (0,), 1),
        ("large", "U8", ((1 << 61) - 1,), 2),
        ("bits", "F6_E2M3", (4,), 4),
    ]
    for name, dtype, shape, size in sizes:
        made = file(T(dtype=dtype, shape=shape, data=bytes(size)))
        case(f"bytes_{name}", f"{size} bytes for {dtype}, {list(shape)}", "TEN-BYTES", made)
    made = file(T(dtype="U8", shape=(2,), data=b"\1"), pad=False)
    case("bytes_unpadded", "the same in a header without spaces", "TEN-BYTES", made, "HDR-PAD")


def _buffer(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book, tags=("payloads",))
    made = frame(b"{" + entry(W, (1 << 64) - 3, (1 << 64) - 1) + b"}", b"\1\2")
    case("range_far", "a payload at 2^64 - 3 in a buffer of 2 bytes", "DAT-RANGE", made, "DAT-TRAILING")
    case("range_cut_end", "a file that ends with its header", "DAT-RANGE", file(W)[:-2])
    case("range_cut_1", "a file that lacks its last byte", "DAT-RANGE", file(W)[:-1], "DAT-TRAILING")
    case(
        "range_cut_second", "a file that ends within the second payload", "DAT-RANGE", file(*PAIR)[:-3], "DAT-TRAILING"
    )
    made = frame(b"{" + entry(T(shape=(0,)), 5, 5) + b"}")
    case("range_empty", "an empty tensor beyond the end", "DAT-RANGE", made)
    a, b = PAIR
    case("overlap_same", "two tensors at one place", "DAT-OVERLAP", file(a, T(name="b", at=0)))
    case("overlap_half", "a payload begins within another", "DAT-OVERLAP", file(a, T(name="b", at=1)))
    made = file(b, T(name="c", shape=(1,), at=1))
    case("overlap_inside", "a payload within another", "DAT-OVERLAP", made)
    case(
        "overlap_empty",
        "an empty tensor strictly inside a payload",
        "DAT-OVERLAP",
        file(a, T(name="b", shape=(0,), at=1)),
    )
    case("gap_front", "a gap in front of the first payload", "DAT-GAP", file(T(at=1)))
    case("gap_between", "a gap of one byte between two payloads", "DAT-GAP", file(a, T(name="b", at=3)))
    case("gap_empty", "a gap in front of an empty tensor", "DAT-GAP", file(a, T(name="b", shape=(0,), at=3)))
    case("trailing_1", "a byte behind the last payload", "DAT-TRAILING", file(W, tail=b"\0"))
    case("trailing_empty", "a byte buffer and no tensors", "DAT-TRAILING", file(tail=b"\1\2"))


def _several(book: CaseBook) -> None:
    """Files with more than one fault: all are reported, the first is the reason to refuse."""
    case = functools.partial(invalid_case, book, tags=("several",))
    made = file(T(name="a", at=1), T(name="b", at=2), tail=b"x")
    case("several_buffer", "a gap, an overlap and a byte too many", "DAT-GAP", made, "DAT-OVERLAP", "DAT-TRAILING")
    made = file(T(name="b"), T(name="b"), T(name="a", dtype="F4", shape=(1,), data=b"\1"), tail=b"x")
    case(
        "several_all", "a duplicate, a part of a byte, a byte too many", "TEN-DUP", made, "TEN-PARTIAL", "DAT-TRAILING"
    )
