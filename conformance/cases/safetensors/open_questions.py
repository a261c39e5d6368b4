"""Files on which the official package and the OCaml reader differ, or go against the format's own description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....spec.schema import SAFETENSORS_MAX_DEPTH
from ..definition import CaseBook
from .assemble import T, around, entry, file, frame, inside, swap
from .parts import W, open_case

__all__ = ["define"]

UNKNOWN: Final = "TEN-UNKNOWN"
ACCEPTS: Final = "accepts"
_CONSTANTS: Final = "refuses: null, true and floats anywhere in the header"

# Values of a key that no entry has: what the official package and the OCaml reader do.
VALUES: Final = {
    "text": (b'"y"', ACCEPTS, ACCEPTS),
    "null": (b"null", ACCEPTS, _CONSTANTS),
    "float": (b"-2.5e-3", ACCEPTS, _CONSTANTS),
    "too_large": (b"1e999", "refuses: the number is out of the range of its floats", _CONSTANTS),
}
_ADDED: Final = (
    "The format's description does not say what a reader does with a key that it does not know. Here it is ignored, "
    "so that later versions may add some, and no writer may write one."
)

# How many arrays nest in the value of such a key; with the header and its entry there are two levels more.
DEPTHS: Final = {
    "largest": SAFETENSORS_MAX_DEPTH - 2,
    "64": SAFETENSORS_MAX_DEPTH - 1,
    "126": 126,
    "90000": 90_000,
}
_DEEP: Final = (
    "The format's description sets no limit, and readers differ in what they survive. Three levels are in use; here "
    f"{SAFETENSORS_MAX_DEPTH} are read."
)


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _unknown(book)
    _blanks(book)
    _metadata(book)
    _entries(book)


def _unknown(book: CaseBook) -> None:
    for name, (value, official, ocaml) in VALUES.items():
        made = file(W, dress=inside(b'"x":' + value))
        title = f"an entry with an unknown key, its value {value.decode()}"
        open_case(book, f"unknown_{name}", title, UNKNOWN, made, _ADDED, official, ocaml)
    keys = {"case": b'"DType"', "metadata": b'"__metadata__"'}
    for name, key in keys.items():
        made = file(W, dress=inside(key + b":0"))
        open_case(book, f"unknown_key_{name}", f"an unknown key {key.decode()}", UNKNOWN, made, _ADDED, ACCEPTS)
    made = file(W, dress=inside(b'"x":1,"x":2'))
    reason = "Readers that ignore unknown keys need not notice. Here no key of an entry may be a duplicate."
    company = ("SAFETENSORS-TEN-UNKNOWN",)
    title = "an unknown key twice"
    open_case(book, "unknown_twice", title, "TEN-KEYDUP", made, reason, ACCEPTS, company=company)
    for name, depth in DEPTHS.items():
        made = file(W, dress=inside(b'"x":' + b"[" * depth + b"]" * depth))
        official = ACCEPTS if depth <= 125 else "refuses: its limit is 127 levels"
        rule = UNKNOWN if depth + 2 <= SAFETENSORS_MAX_DEPTH else "TXT-DEPTH"
        title = f"{depth} arrays nested in the value of an unknown key"
        open_case(book, f"deep_{name}", title, rule, made, _DEEP, official, ACCEPTS)


def _blanks(book: CaseBook) -> None:
    reason = "The format's description says that the header begins with {. So a file can be told by its ninth byte."
    for name, front in {"space": b" ", "line": b"\r\n"}.items():
        made = file(W, dress=around(front=front))
        ocaml = ACCEPTS if name == "space" else ""
        open_case(book, f"front_{name}", f"{front!a} in front of the header", "TXT-START", made, reason, ACCEPTS, ocaml)
    reason = "The format's description says that spaces may follow the header's object, and speaks of nothing else."
    made = file(W, dress=around(back=b"\n\t\r"))
    title = "a line end and a tab behind the header's object"
    open_case(book, "back", title, "TXT-TAIL", made, reason, ACCEPTS, ACCEPTS)


def _metadata(book: CaseBook) -> None:
    made = frame(b'{"__metadata__":null}')
    reason = "The format's description says that it is a map of strings. Leaving it out says what null would say."
    ocaml = "refuses: null anywhere in the header"
    official = "accepts, and sees no metadata"
    open_case(book, "metadata_null", "__metadata__ that is null", "MET-FORM", made, reason, official, ocaml)
    reason = "The format's description forbids duplicate keys without saying which. Two readers would see two values."
    for name, keys in {
        "other": b'"a":"1","a":"2"',
    }.items():
        made = file(W, metadata={}, dress=swap(b"{},", b"{" + keys + b"},"))
        title = f"metadata with a duplicate key: {keys.decode()}"
        open_case(book, f"metadata_duplicate_{name}", title, "MET-DUP", made, reason, "accepts, and takes the last")


def _entries(book: CaseBook) -> None:
    made = frame(b'{"w":["U8",[2],[0,2]]}', b"\1\2")
    reason = "The format's description has objects only. An array of the values says nothing that an object does not."
    open_case(book, "entry_array", "an entry that is an array", "TEN-FORM", made, reason, ACCEPTS)
    made = file(W, dress=swap(b'"U8"', b'{"U8":null}'))
    reason = "The format's description has text only; this is how the official package's library spells a variant."
    open_case(book, "dtype_object", "a dtype that is an object", "TEN-DTYPE", made, reason, ACCEPTS)
    made = file(T(shape=(1 << 63, 4, 0)))
    reason = (
        "The product is 0, and so is the payload; but on the way, from left to right, the product reaches 2^64. The "
        "format's description does not say how to multiply."
    )
    ocaml = "refuses: an extent does not fit into 63 bits"
    refuses = "refuses: it multiplies from left to right"
    open_case(book, "overflow_then_zero", "a shape of [2^63, 4, 0]", "TEN-SIZEOF", made, reason, refuses, ocaml)
    reason = "The format's description says that keys must not be duplicates. Two readers would see two tensors."
    plain = entry(W, 0, 2)
    twice: dict[str, tuple[str, Callable[[], bytes]]] = {
        "same": ("the same entry twice", lambda: plain),
        "dtype": ("the same range with another dtype", lambda: entry(T(dtype="I8"), 0, 2)),
        "escape": ("the same name by way of an escape", lambda: entry(T(spelled=rb'"\u0077"'), 0, 2)),
    }
    for name, (title, second) in twice.items():
        made = frame(b"{" + plain + b"," + second() + b"}", b"\1\2")
        official = "accepts, and takes the last"
        open_case(
            book,
            f"duplicate_{name}",
            f"a name twice: {title}",
            "TEN-DUP",
            made,
            reason,
            official,
            company=("SAFETENSORS-DAT-OVERLAP",),
        )
    made = frame(b"{" + entry(T(shape=(0,)), 0, 0) + b"," + entry(T(shape=(0,)), 0, 0) + b"}")
    title = "a name twice: two empty tensors"
    open_case(book, "duplicate_empty", title, "TEN-DUP", made, reason, "accepts, and takes the last")
    made = frame(b"{" + entry(T(shape=(1,)), 0, 1) + b"," + plain + b"}", b"\1\2")
    open_case(
        book,
        "duplicate_longer",
        "a name twice: the second range holds the first",
        "TEN-DUP",
        made,
        reason,
        "accepts, and takes the last",
        company=("SAFETENSORS-DAT-OVERLAP",),
    )
