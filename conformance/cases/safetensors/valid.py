"""Files that a reader must accept and that a writer would write just so."""

from __future__ import annotations

import functools
import struct
from typing import Final

from ....spec.dtypes import SAFETENSORS_DTYPES
from ..definition import CaseBook
from .assemble import T, file, sound
from .parts import W, f32, valid_case

__all__ = ["define"]

TOP: Final = (1 << 64) - 1

# Dtypes for which the OCaml reader has no type.
SKIPPED: Final = ("F4", "F6_E2M3", "F6_E3M2", "F8_E8M0")
REFUSED: Final = ("C64", "F8_E5M2FNUZ", "F8_E4M3FNUZ")

CONTROLS: Final = "".join(map(chr, range(0x20)))

# Names of tensors, some in each file.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "paths": ("model/layers/0", "../../etc/passwd", "/etc/passwd", "C:\\x", ".", ".."),
    "controls": (CONTROLS, "a\0b", "\n", "\x1b[31mred\x1b[0m", "\x7f\x80\x9f", *"\b\f\r\t\x1f"),
    "quotes": ("\"'`", "\\", "\\\\ \\n \\u0041", "<b>&amp;</b>", '{"w":{"dtype":"U8"}}'),
    "unicode": (
        "é",
        "e\u0301",
        "\u202ecba\u202c",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\ufffd",
        "\uffff",
        "\U0001f600",
        "\U0010ffff",
    ),
    "words": (
        "dtype",
        "shape",
        "data_offsets",
        "__metadata",
        "__metadata__ ",
        "__METADATA__",
        "null",
        "0",
        " ",
        "\u00a0",
    ),
    "long": ("n" * 5_000, "\U0001f600" * 20_000),
}

SHAPES: Final[dict[str, tuple[int, ...]]] = {
    "scalar": (),
    "eight": (1, 2, 1, 3, 1, 2, 1, 1),
    "zero_last": (3, 0),
    "zero_2_63": (1 << 63, 0),
    "zero_2_62": ((1 << 62) - 1, 4, 0),
    "zero_then_overflow": (0, TOP, TOP),
}

METADATA: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "empty": ("metadata without keys", {}),
    "order": ("keys sorted by their bytes, not by UTF-16", {"B": "1", "a": "2", "\uffff": "3", "\U00010000": "4"}),
    "escapes": ("every escape in a key and in a value", {CONTROLS + '"/\\': CONTROLS + '"/\\'}),
    "itself": ("keys that are no keys here", {"__metadata__": "{}", "dtype": "U8", "w": "[0,2]"}),
    "long": ("a value of 50,000 characters", {"note": "x" * 50_000}),
    "many": ("300 keys", {f"key{at:03}": str(at) for at in range(300)}),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    case = functools.partial(valid_case, book)
    case("golden_minimal", "one tensor of two numbers", file(T(dtype="F32", data=f32(0.5, -2))), "smoke")
    case("golden_empty", "no tensors and no metadata", file())
    _dtypes(book)
    for name, shape in SHAPES.items():
        shown = "x".join(map(str, shape)) if len(shape) < 10 else f"{len(shape)} axes"
        ocaml = "refuses the file: an extent does not fit into 63 bits" if name == "zero_2_63" else ""
        ocaml = "refuses the file: the size overflows" if name == "zero_2_62" else ocaml
        case(f"golden_shape_{name}", f"shape: {shown or 'a scalar'}", file(T(shape=shape)), "shapes", ocaml=ocaml)
    for name, texts in NAMES.items():
        shown = ", ".join(f"{text!a}" for text in texts[:4]) if name != "long" else "up to 80,000 bytes"
        made = file(*sound(*(T(name=text, shape=(1,), data=bytes([at])) for at, text in enumerate(texts))))
        case(f"golden_names_{name}", f"names: {shown}", made, "names")
    for name, (title, metadata) in METADATA.items():
        case(f"golden_metadata_{name}", title, file(W, metadata=metadata), "metadata")
    case("golden_metadata_alone", "metadata and no tensors", file(metadata={"a": "b"}), "metadata")
    _layout(book)


def _dtypes(book: CaseBook) -> None:
    for name, scalar in SAFETENSORS_DTYPES.items():
        tags = [f"dtype:{name}", *(["packed"] if scalar.bits % 8 else [])]
        ocaml = "skips the tensor, with a warning" if name in SKIPPED else ""
        ocaml = "refuses the whole file" if name in REFUSED else ocaml
        made = file(T(dtype=name, shape=(2, 4)))
        valid_case(book, f"golden_dtype_{name.lower()}", f"{name}, 2 x 4: {scalar.doc}", made, *tags, ocaml=ocaml)
    case = functools.partial(valid_case, book)
    packed = [("F4", (3, 2)), ("F6_E3M2", (2, 2))]
    for dtype, shape in packed:
        title = f"{dtype}, {' x '.join(map(str, shape))}: whole bytes in all"
        name = f"golden_packed_{dtype.lower()}_{'x'.join(map(str, shape))}"
        case(name, title, file(T(dtype=dtype, shape=shape)), f"dtype:{dtype}", "packed")
    bits = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x00000001)
    data = struct.pack("<8I", *bits)
    case("golden_floats_f32", "zeros, infinities, NaNs with payloads", file(T(dtype="F32", shape=(8,), data=data)))


def _layout(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    items = [T(name=f"t_{name}", dtype=name, shape=(4, 2)) for name in SAFETENSORS_DTYPES]
    tags = ("packed", *(f"dtype:{name}" for name in SAFETENSORS_DTYPES))
    case(
        "golden_layout_dtypes", "one tensor of each dtype, in the writer's order", file(*sound(*items)), "layout", *tags
    )
    names = ["b", "B", "a.b", "a/b", "ab", "a", "é", "\uffff", "\U00010000", "0", "10", "9", " ", "~"]
    made = file(*sound(*(T(name=name, shape=(1,)) for name in names)))
    case("golden_layout_names", "names sorted by their bytes, not by UTF-16, not by number", made, "layout", "names")
    items = [T(name=name, dtype=dtype, shape=shape) for name, dtype, shape in _MIXED]
    made = file(*sound(*items), metadata={"format": "np"})
    case("golden_layout_mixed", "several dtypes with several tensors, some empty", made, "layout")
    items = [T(name=f"layer{at}.weight", dtype="F16", shape=(at % 3,)) for at in range(300)]
    case("golden_layout_many", "300 tensors", file(*sound(*items)), "layout", "many")
    for spaces in (0, 7):
        name = next(
            size * "n" for size in range(1, 9) if (len(file(T(name="n" * size), pad=False)) - 2) % 8 == -spaces % 8
        )
        title = f"a header with {spaces} spaces at its end"
        case(f"golden_padding_{spaces}", title, file(T(name=name)), "layout")


_MIXED: Final[tuple[tuple[str, str, tuple[int, ...]], ...]] = (
    ("a", "U8", (3,)),
    ("b", "F32", (2,)),
    ("c", "I64", ()),
    ("d", "F32", (0,)),
    ("e", "BF16", (3,)),
    ("f", "BOOL", (2,)),
    ("g", "U8", (0, 7)),
    ("h", "I64", (1, 1)),
    ("i", "F64", (0,)),
    ("j", "I8", (1,)),
)
