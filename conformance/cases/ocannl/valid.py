"""Files that every reader reads, as a writer writes them but for the layout of the header's text."""

from __future__ import annotations

import functools
import struct
from typing import Final

from ....spec.dtypes import OCANNL_PRECISIONS
from ....spec.schema import OCANNL_INT_MAX, OCANNL_NAMESPACE
from ..definition import CaseBook
from .assemble import T, around, file, swap
from .parts import PAIR, W, f32, many, valid_case
from .styles import STYLES, pretty

__all__ = ["define"]

# Atoms that some reader, somewhere, may stumble over, as labels and as namespaces.
ATOMS: Final[dict[str, str | bytes]] = {
    "one_byte": "w",
    "number": "12",
    "none": "none",
    "dotted": "encoder.layers.0.attention.query.weight",
    "long": "n" * 2000,
    "space": " ",
    "spaces_around": "  w  ",
    "quotes": "a\"b'c\\d",
    "backslash": "\\",
    "backslashes": "\\\\n\\x41\\065",
    "parentheses": "(a)(",
    "semicolon": "a;b",
    "comment_line": ";",
    "comment_datum": "#;",
    "comment_block": "#|a|#",
    "comment_end": "a|#",
    "hash": "a#b",
    "bar": "|a|b||",
    "bare": "'a,[b]-{c}`@~!?^%$&*=+<>/",
    "newline": "a\nb",
    "newlines": "\n\na\n  b\n",
    "tab_cr_bs": "\ta\rb\bc",
    "control": "a\0\x01\x0b\x0c\x1b[31mb\x7f",
    "slashes": "../../etc/passwd",
    "html": "<script>alert(1)</script>&amp;",
    "nfc": "caf\u00e9",
    "nfd": "cafe\u0301",
    "greek": "βάρος",
    "arabic": "وزن",
    "chinese": "权重",
    "emoji": "👩‍🔬🏋️",
    "bom": "\ufeffw",
    "bidi": "a\u202eb\u2066c",
    "latin_1": "café".encode("latin-1"),
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "cut": b"w\xe2\x82",
    "every_byte": bytes(range(256)),
}

# Payloads of special numbers: NaN with and without the quiet bit, infinities, -0, the smallest and the largest.
SPECIAL: Final = {
    "fp8": bytes([0x7D, 0x7E, 0xFF, 0x7C, 0xFC, 0x80, 0x01, 0x7B]),
    "half": struct.pack("<8H", 0x7C01, 0x7E00, 0xFFFF, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x7BFF),
    "bfloat16": struct.pack("<8H", 0x7F81, 0x7FC0, 0xFFFF, 0x7F80, 0xFF80, 0x8000, 0x0001, 0x7F7F),
    "single": struct.pack(
        "<8I", 0x7F800001, 0x7FC00000, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x7F7FFFFF
    ),
    "double": struct.pack(
        "<8Q",
        0x7FF0000000000001,
        0x7FF8000000000000,
        0xFFF8000000012345,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x8000000000000000,
        0x0000000000000001,
        0x7FEFFFFFFFFFFFFF,
    ),
}

# Neutral values of a padding, as a writer spells them.
NEUTRALS: Final = {
    "zero": "0.",
    "minus_zero": "-0.",
    "one": "1.",
    "tenth": "0.1",
    "third": "0.33333333333333331",
    "minus": "-123.5",
    "15_digits": "123456789012345.",
    "17_digits": "1234567890123456.8",
    "1e15": "1e+15",
    "1e22": "1e+22",
    "small": "1e-05",
    "2_53": "9007199254740992.",
    "smallest": "4.94065645841247e-324",
    "normal": "2.2250738585072014e-308",
    "largest": "1.7976931348623157e+308",
    "nan": "nan",
    "minus_nan": "-nan",
    "inf": "inf",
    "minus_inf": "-inf",
}

SHAPES: Final[dict[str, tuple[int, ...]]] = {
    "scalar": (),
    "1": (3,),
    "2": (2, 3),
    "3": (1, 3, 2),
    "16": (1, 2) * 4 + (1,) * 8,
    "32": (1,) * 31 + (2,),
}

EMPTY: Final[dict[str, tuple[int, ...]]] = {
    "0": (0,),
    "3_0": (3, 0),
    "0_3": (0, 3),
    "rank_8": (1, 2, 3, 0, 5, 6, 7, 8),
    "then_2_61": (0, 1 << 61, 4),
    "then_max": (0, OCANNL_INT_MAX),
    "max_then": (OCANNL_INT_MAX, 0),
}

PADDINGS: Final[dict[str, tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]]] = {
    "left": ("on the left", (4,), ((1, 0),)),
    "right": ("on the right", (4,), ((0, 3),)),
    "zero": ("of no elements", (2,), ((0, 0),)),
    "asymmetric": ("that differs on each side", (5, 7), ((1, 2), (0, 3))),
    "rank_3": ("of the middle axis", (2, 5, 2), ((0, 0), (2, 1), (0, 0))),
    "all": ("that leaves no element", (3,), ((1, 2),)),
    "all_of_one": ("that leaves no element of one axis", (2, 3), ((0, 0), (3, 0))),
    "empty": ("of an empty axis", (0, 3), ((0, 0), (1, 1))),
    "scalar": ("of a scalar: a list without pairs", (), ()),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _whole_files(book)
    _precisions(book)
    _shapes(book)
    _atoms(book)
    _padding(book)
    _alignment(book)
    _text(book)


def _whole_files(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    add("golden_minimal", "one tensor", file(W), "whole")
    add("golden_empty", "no tensors", file(), "whole")
    add("golden_two", "two tensors", file(*PAIR), "whole")
    add("golden_many", "200 tensors", file(*many(200, dims=(3,))), "whole")
    ids = (OCANNL_INT_MAX, 5, 0, 1 << 53, (1 << 53) + 1)
    add("golden_ids", "ids up to the largest, in no order", file(*(T(id=number) for number in ids)), "integers")
    twins = (T(data=f32(1, 2)), T(id=1, data=f32(1, 2)))
    add("golden_equal_payloads", "two tensors of equal content have a payload each", file(*twins), "whole")


def _precisions(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    for name, scalar in OCANNL_PRECISIONS.items():
        if not scalar.size:
            continue
        made = file(T(prec=name, dims=(3,)), T(id=1, prec=name, dims=()))
        add(f"golden_precision_{name}", f"{name}: {scalar.doc}", made, f"precision:{name}")
    every = [T(id=at, prec=name, dims=(3, 1)) for at, name in enumerate(OCANNL_PRECISIONS)]
    add("golden_precisions", "every precision in one file", file(*every), "precisions", "void")
    for name, data in SPECIAL.items():
        made = file(T(prec=name, dims=(8,), data=data))
        add(
            f"golden_special_{name}", f"NaN, infinities, -0 and the like as {name}", made, "floats", f"precision:{name}"
        )
    for name, dims in {"scalar": (), "vector": (3,), "huge": (1 << 61,), "padded": (4,)}.items():
        padding = (((1, 2),), "0.") if name == "padded" else None
        made = file(T(prec="void", dims=dims, padding=padding), T(id=1))
        rules = ("OCANNL-TEN-VOID",)
        tags = ("void", "padding") if padding else ("void",)
        add(f"golden_void_{name}", f"a void tensor: {name}", made, *tags, rules=rules, canonical=True)


def _shapes(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    for name, dims in SHAPES.items():
        title = f"rank {len(dims)}" if dims else "a scalar"
        add(f"golden_rank_{name}", title, file(T(dims=dims)), "ranks")
    for name, dims in EMPTY.items():
        title = f"no elements: {list(dims)}"
        add(f"golden_zero_{name}", title, file(T(dims=dims), T(id=1)), "zero-elements")
    made = file(T(dims=(5,), prec="byte"), T(id=1, dims=(0,)), T(id=2, dims=(0,)), T(id=3, dims=(1,)))
    add("golden_zero_between", "tensors without elements between two others", made, "zero-elements")
    made = file(T(dims=(5,), prec="byte"), T(id=1, dims=(0,)))
    add("golden_zero_last", "a tensor without elements at the end, behind a gap", made, "zero-elements")
    made = file(T(dims=(0,)), T(id=1, dims=(0, 2)))
    add("golden_zero_only", "tensors without elements only: no data section", made, "zero-elements")


def _atoms(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    for name, value in ATOMS.items():
        shown = ascii(value) if len(value) < 40 else f"{value[:8]!a} and so on, {len(value)} in all"
        made = file(T(namespace=value, label=(value,)), T(id=1, label=("a", value, "", value)))
        add(f"golden_atom_{name}", f"namespace and label {shown}", made, "names")
    add("golden_label_none", "no label", file(T(label=())), "names")
    add("golden_label_empty", "an empty atom as label", file(T(label=("",))), "names")
    labels = tuple(f"part{at}" for at in range(300))
    add("golden_label_long", "a label of 300 atoms", file(T(label=labels), spell=pretty), "names")
    near = (OCANNL_NAMESPACE, "OCANNL", "ocannl ", "ocann", "x__ocannl", "0", b"\0", "caf\u00e9", "cafe\u0301")
    made = file(*(T(namespace=name) for name in near))
    add("golden_namespaces", "the same id in several namespaces, which are compared as bytes", made, "names")


def _padding(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    for name, (title, dims, margins) in PADDINGS.items():
        made = file(T(dims=dims, padding=(margins, "0.")))
        add(f"golden_padding_{name}", f"a padding {title}", made, "padding")
    for name, neutral in NEUTRALS.items():
        made = file(T(dims=(4,), prec="double", padding=(((1, 2),), neutral)))
        add(f"golden_neutral_{name}", f"a neutral value of {neutral}", made, "padding", "floats")
    padded = [
        T(id=at, prec=name, dims=(2, 4), padding=(((1, 0), (0, 2)), "1."))
        for at, (name, scalar) in enumerate(OCANNL_PRECISIONS.items())
        if scalar.lanes == 1 and scalar.size
    ]
    add("golden_padding_precisions", "a padding of 1. in nearly every precision", file(*padded), "padding")
    for name, extent in {"large": 1 << 20, "huge": 1 << 58}.items():
        made = file(T(dims=(extent,), padding=(((0, extent - 1),), "0.")))
        title = f"a padding that makes one element {extent}; a document has the one"
        add(f"golden_padding_{name}", title, made, "padding", "limits")
    made = file(T(prec="uint4x32", dims=(3,), padding=(((1, 1),), "0.")))
    add("golden_padding_uint4x32", "a padding of uint4x32", made, "padding", "precision:uint4x32")


def _alignment(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    odd = [T(id=at, prec="byte", dims=(size,)) for at, size in enumerate((1, 5, 0, 3, 32, 7))]
    for alignment in (1, 2, 3, 7, 8, 16, 32, 64, 100, 4096):
        made = file(*odd, alignment=alignment)
        add(f"golden_alignment_{alignment}", f"alignment {alignment}", made, "alignment")
    add("golden_alignment_65536", "alignment 65536", file(W, alignment=65536), "alignment")
    add("golden_alignment_empty", "alignment 4096 and no tensors", file(alignment=4096), "alignment")


def _text(book: CaseBook) -> None:
    """Layout of the header's text alone: such files are canonical too."""
    add = functools.partial(valid_case, book)
    tags = ("sexp", "padding")
    items = (T(dims=(2, 3), padding=(((0, 1), (1, 1)), "-0.5")), T(id=1, label=("a", "bc", "def"), dims=()))
    for name, (title, spell) in STYLES.items():
        add(f"golden_text_{name}", f"the header {title}", file(*items, spell=spell), *tags)
    wide = [T(id=at, label=("layer", str(at), "weight"), dims=(2, 2)) for at in range(12)]
    add("golden_text_pretty_many", "twelve tensors as OCANNL writes them", file(*wide, spell=pretty), "sexp")
    fronts = {
        "blanks": b" \t\n\f\r\n",
        "page": b"\n" * 5000,
        "comment_line": b"; OCANNL\n",
        "comment_block": b"#| a #| b |# c |#",
        "comment_datum": b"#;(version 2)",
        "comment_long": b"; " + b"x" * 5000 + b"\n",
        "comment_open": b"#| ( |#; (\n",
    }
    for name, front in fronts.items():
        made = file(*items, dress=around(front))
        add(f"golden_text_front_{name}", f"{front[:20]!a} in front of the header", made, *tags)
    backs = {
        "newline": b"\n",
        "newlines": b"\n" * 40,
        "comment_line": b"; the end\n",
        "comment_unended": b" ; the end",
        "comment_block": b"#| a #| b |# c |#",
        "comment_datum": b"#;(version 2)",
        "comment_atom": b"#;version ;",
    }
    for name, back in backs.items():
        made = file(*items, dress=around(back=back))
        add(f"golden_text_back_{name}", f"{back[:20]!a} behind the header", made, *tags)
    for steps in (1, 3):
        made = file(*items, more=32 * steps)
        add(f"golden_text_more_{steps}", f"{steps} times the alignment more spaces than needed", made, *tags)
    made = file(*items, alignment=1, more=5)
    add("golden_text_more_spaces", "spaces behind the header though the alignment is 1", made, *tags)
    strings = {
        "escape": rb"\010",
        "newline_raw": b"\n",
        "newline_hex": rb"\x0a",
        "newline_continued": b"\\\n   \\n",
        "unknown_escape": rb"\q\ \065",
        "single_quote": rb"\'",
        "carriage_return": b"\\\r",
        "raw_controls": bytes([0, 1, 0x0B, 0x0C, 0x7F, 0xC3, 0xA9, 0xFF]),
    }
    for name, new in strings.items():
        made = file(T(label=(" a", "\n")), dress=swap(rb"\n", new))
        add(f"golden_text_string_{name}", f"a string with {new!a}", made, "sexp", "names")
    bare = bytes([0, 1, 0x0B, 0x7F, 0xC3, 0xA9, 0xFF])
    made = file(W, dress=swap(b"(w)", b"(" + bare + b" \xc3\xa9)"))
    add("golden_text_bare", "bare atoms of control characters and bytes above 0x7f", made, "sexp", "names")
