"""Files that a reader must accept although no writer may write them; and those worth a note."""

from __future__ import annotations

import functools
import json
from typing import Final

from ..definition import CaseBook
from .assemble import Dress, T, around, file, frame, swap
from .parts import PAIR, W, valid_case

__all__ = ["define"]

SPELLING: Final = "SAFETENSORS-HDR-SPELLING"
PAD: Final = "SAFETENSORS-HDR-PAD"
HDR_ORDER: Final = "SAFETENSORS-HDR-ORDER"
DAT_ORDER: Final = "SAFETENSORS-DAT-ORDER"
MET_ORDER: Final = "SAFETENSORS-MET-ORDER"


def _json(**how: object) -> Dress:
    """Write the header's JSON in another style."""
    return lambda made: json.dumps(json.loads(made), **how).encode()  # type: ignore[arg-type]


# Other texts of the header of a file with one tensor of two bytes.
STYLES: Final[dict[str, tuple[str, Dress]]] = {
    "blanks": ("blanks behind commas and colons", _json()),
    "pretty": ("lines and indentation", _json(indent=2)),
    "offsets_first": (
        "the offsets in front",
        lambda made: b'{"w":{"data_offsets":[0,2],"dtype":"U8","shape":[2]}}',
    ),
    "escaped_key": ("an escape in a key", swap(b'"dtype"', b'"\\u0064type"')),
}

# Names that a writer spells otherwise.
NAMES: Final = {
    "latin": ("é", rb'"\u00e9"', "reads the name u00e9"),
    "pair": ("\U0001f600", rb'"\ud83d\ude00"', "reads the name ud83dude00"),
    "solidus": ("a/b", rb'"a\/b"', ""),
    "control_upper": ("\x1f", rb'"\u001F"', "reads the name u001F"),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _spelling(book)
    _metadata(book)
    _padding(book)
    _order(book)
    _notes(book)


def _spelling(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    for name, (title, dress) in STYLES.items():
        case(f"spelling_{name}", title, file(W, dress=dress), "spelling", rules=(SPELLING,))
    for name, (text, spelled, ocaml) in NAMES.items():
        made = file(T(name=text, spelled=spelled))
        title = f"the name {text!a} spelled {spelled.decode()}"
        case(f"spelling_name_{name}", title, made, "spelling", "names", rules=(SPELLING,), ocaml=ocaml)
    made = frame(b"{ }")
    case("spelling_empty", "a blank in an empty object", made, "spelling", rules=(SPELLING,))
    made = file(W, metadata={"é": "/"}, dress=swap('{"é":"/"}'.encode(), rb'{"\u00e9":"\/"}'))
    ocaml = "reads the key u00e9"
    case("spelling_metadata", "escapes in the metadata", made, "spelling", "metadata", rules=(SPELLING,), ocaml=ocaml)
    made = file(*PAIR, dress=swap(b'},"b"', b'},\t\r\n "b"'))
    case("spelling_between", "blanks of all kinds between two entries", made, "spelling", rules=(SPELLING,))


def _metadata(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    for name, keys in {"two": "ba"}.items():
        made = file(W, metadata=dict.fromkeys(keys, "x"))
        case(f"metadata_order_{name}", f"metadata keys in the order {keys}", made, "metadata", rules=(MET_ORDER,))
    made = file(W, metadata={"\U00010000": "1", "\uffff": "2"})
    case("metadata_order_utf16", "metadata keys in the order of UTF-16", made, "metadata", rules=(MET_ORDER,))
    entries = (
        b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
        b'"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}',
    )
    metadata = b'"__metadata__":{"k":"v"}'
    made = frame(b"{" + b",".join([*entries, metadata]) + b"}", b"\1\2")
    case("metadata_last", "metadata behind the tensors", made, "metadata", rules=(MET_ORDER,))
    made = frame(b"{" + b",".join([entries[0], metadata, entries[1]]) + b"}", b"\1\2")
    case("metadata_between", "metadata between two tensors", made, "metadata", rules=(MET_ORDER,))


def _padding(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    for more in (1, 8, 1_000):
        made = file(W, more=more)
        case(f"padding_more_{more}", f"{more} spaces too many", made, "padding", rules=(PAD,))
    case("padding_none", "a header without spaces", file(W, pad=False), "padding", rules=(PAD,))
    case("padding_spelling", "blanks inside, and no spaces", file(W, pad=False, dress=_json()), rules=(PAD, SPELLING))


def _order(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    a, b = T(name="a", shape=(3,)), T(name="b")
    big = T(name="z", dtype="F32", shape=(1,))
    for name, title, made, *rules in (
        ("entries", "entries in the wrong order, payloads in the right one", file(a, b, order=(1, 0)), HDR_ORDER),
        ("payloads", "payloads in the wrong order, entries in the right one", file(b, a, order=(1, 0)), DAT_ORDER),
        ("both", "entries and payloads in the wrong order", file(b, a), HDR_ORDER, DAT_ORDER),
        ("entries_dtype", "entries sorted by name, not by dtype", file(big, a, order=(1, 0)), HDR_ORDER),
        (
            "names_utf16",
            "names sorted by UTF-16",
            file(T(name="\U00010000"), T(name="\uffff")),
            HDR_ORDER,
            DAT_ORDER,
        ),
    ):
        case(f"order_{name}", title, made, "layout", rules=tuple(rules))
    empty = T(name="a", shape=(0,))
    made = file(b, empty, order=(1, 0))
    case("order_empty_last", "an empty tensor behind one that it should precede", made, "layout", rules=(DAT_ORDER,))
    made = file(T(name="z", shape=(0,)), b, order=(1, 0))
    case("order_empty_first", "an empty tensor before one that it should follow", made, "layout", rules=(DAT_ORDER,))
    made = file(T(name="0"), empty, T(name="b"), order=(0, 2, 1))
    case("order_empty_entry", "the entry of an empty tensor is late", made, "layout", rules=(HDR_ORDER,))


def _notes(book: CaseBook) -> None:
    case = functools.partial(valid_case, book)
    named, odd, bool_ = "SAFETENSORS-TEN-NAMELESS", "SAFETENSORS-TEN-ALIGN", "SAFETENSORS-TEN-BOOL"
    case("note_nameless", "a tensor without a name", file(T(name="")), "note", "names", rules=(named,), canonical=True)
    made = file(T(dtype="BOOL", shape=(4,), data=b"\0\1\2\xff"))
    case("note_bool", "a BOOL of 2 and 255", made, "note", "dtype:BOOL", rules=(bool_,), canonical=True)
    made = file(T(name="a", shape=(1,)), T(name="b", dtype="F32", shape=(1,)))
    case("note_unaligned", "an F32 behind a single byte", made, "note", rules=(odd, HDR_ORDER, DAT_ORDER))
    made = file(T(dtype="F64", shape=(1,)), pad=False, dress=around(back=b" "))
    case("note_unaligned_header", "a header whose length is no multiple of 8", made, "note", rules=(odd, PAD))
