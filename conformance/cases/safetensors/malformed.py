"""Files that a reader must refuse for their frame or for their header's text."""

from __future__ import annotations

import codecs
import functools
from typing import Final

from ....spec.schema import SAFETENSORS_MAX_DEPTH, SAFETENSORS_MAX_HEADER
from ..definition import CaseBook
from .assemble import Dress, T, around, file, frame, inside, swap, text
from .parts import PAIR, W, f32, invalid_case

__all__ = ["define"]

# What a header must not begin with.
STARTS: Final = {
    "string": b'"x"',
    "bom": b"\xef\xbb\xbf" + text(W),
    "utf16_bom": codecs.BOM_UTF16_LE + text(W).decode().encode("utf-16-le"),
    "utf16_big": text(W).decode().encode("utf-16-be"),
    "spaces": b" " * 8,
    "comment": b"//\n" + text(W),
}

# Byte strings that are no UTF-8, each for another reason.
NOT_UTF8: Final = {
    "ff": b"\xff",
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
}

_SHAPE: Final = b'"shape":[2]'

# What becomes of a good header's text.
TEXTS: Final[dict[str, tuple[str, Dress]]] = {
    "nan": ("a shape of NaN", swap(_SHAPE, b'"shape":[NaN]')),
    "leading_zero": ("a number with a leading zero", swap(_SHAPE, b'"shape":[02]')),
    "minus": ("a minus sign alone", swap(_SHAPE, b'"shape":[-]')),
    "hex": ("a hexadecimal number", swap(_SHAPE, b'"shape":[0x2]')),
    "comma_array": ("a comma at the end of an array", swap(_SHAPE, b'"shape":[2,]')),
    "comma_header": ("a comma at the end of the header", swap(b"]}}", b"]},}")),
    "comment_inside": ("a comment", swap(b'"w":', b'"w":/**/')),
    "single_quotes": ("a name in single quotes", swap(b'"w"', b"'w'")),
    "tab": ("a tab in a name", swap(b'"w"', b'"\t"')),
    "no_break_space": ("a no-break space between two tokens", swap(b'"w":', b'"w"\xc2\xa0:')),
    "escape_decimal": ("a name as the OCaml writer spells it", swap(b'"w"', rb'"\195\169"')),
    "escape_hex": (r"the escape \x", swap(b'"w"', rb'"\x77"')),
    "string_open": ("a string that does not end", lambda made: made[:-20]),
}
_OCAML: Final = {
    "leading_zero": "accepts, and reads 2",
    "escape_decimal": "accepts, and reads the name 195169",
}

# What must not follow the header's object.
TAILS: Final = {
    "brace": b"}",
    "comment": b"/**/",
    "second": text(T(name="v")),
    "nul": b"\0" * 7,
}

SURROGATES: Final = {
    "high": (rb"\ud83d", "reads the name ud83d"),
    "reversed": (rb"\ude00\ud83d", ""),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _frame(book)
    case = functools.partial(invalid_case, book)
    for name, header in STARTS.items():
        made = frame(header, b"\1\2")
        case(f"start_{name}", f"a header that begins with {header[:4]!a}", "TXT-START", made)
    for name, raw in NOT_UTF8.items():
        made = file(T(spelled=b'"' + raw + b'"'))
        case(f"utf8_{name}", f"a name that is no UTF-8: {raw!a}", "TXT-UTF8", made, tags=("names",))
    made = file(W, metadata={"a": "b"}, dress=swap(b'"b"', b'"\xff"'))
    case("utf8_metadata", "a value of the metadata that is no UTF-8", "TXT-UTF8", made, tags=("metadata",))
    for name, (title, dress) in TEXTS.items():
        made = file(W, dress=dress)
        case(f"json_{name}", title, "TXT-JSON", made, ocaml=_OCAML.get(name, ""))
    made = file(W, dress=inside(b'"x":NaN'))
    case("json_unknown_nan", "an unknown key whose value is NaN", "TXT-JSON", made)
    for name, (spelled, ocaml) in SURROGATES.items():
        made = file(T(spelled=b'"' + spelled + b'"'))
        case(f"surrogate_{name}", f"a name of {spelled.decode()}", "TXT-SURROGATE", made, tags=("names",), ocaml=ocaml)
    made = file(W, metadata={"a": "b"}, dress=swap(b'"b"', rb'"\ud800"'))
    case("surrogate_metadata", "half a pair in the metadata", "TXT-SURROGATE", made, tags=("metadata",))
    made = file(W, dress=inside(rb'"x":"\udfff"'))
    case("surrogate_unknown", "an unknown key whose value has half a pair", "TXT-SURROGATE", made)
    for depth in (SAFETENSORS_MAX_DEPTH, 90_000):
        deep = b"[" * depth + b"]" * depth
        made = frame(b'{"w":' + deep + b"}")
        case(f"depth_{depth}", f"{depth} arrays in place of an entry", "TXT-DEPTH", made)
    for name, back in TAILS.items():
        made = file(W, dress=around(back=back))
        shown = f"{back!a}" if len(back) < 20 else "another header"
        case(f"tail_{name}", f"{shown} behind the header's object", "TXT-TAIL", made)


def _frame(book: CaseBook) -> None:
    case = functools.partial(invalid_case, book)
    good = file(T(dtype="F32", data=f32(0.5, -2)))
    case("short_0", "no bytes", "FRM-SHORT", b"")
    case("short_7", "a file that ends after 7 bytes", "FRM-SHORT", good[:7])
    for name, length in {
        "2_64": (1 << 64) - 1,
        "2_63": 1 << 63,
        "above": SAFETENSORS_MAX_HEADER + 1,
    }.items():
        made = frame(text(W), b"\1\2", length=length)
        case(f"length_{name}", f"a header length of {length}", "FRM-LENGTH", made, tags=("limits",))
    made = frame(text(W), b"\1\2", length=SAFETENSORS_MAX_HEADER)
    case("range_largest", "the largest header length, in a small file", "FRM-RANGE", made, tags=("limits",))
    case("range_1", "a header that is one byte short", "FRM-RANGE", frame(b"{}", length=9))
    case("range_only", "a header length and nothing more", "FRM-RANGE", frame(b"{}")[:8])
    case("range_cut", "a file that was cut within its header", "FRM-RANGE", file(*PAIR)[:40])
    case("start_nothing", "an empty header", "TXT-START", frame(b""))
