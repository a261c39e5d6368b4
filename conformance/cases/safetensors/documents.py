"""Documents for encoders: what they must write, and what they must refuse."""

from __future__ import annotations

from typing import Any, Final

from ....spec.dtypes import SAFETENSORS_DTYPES
from ..changes import Change, add_document, changed, drop, put, raw_texts
from ..definition import CaseBook
from .valid import CONTROLS

__all__ = ["define"]

_W: Final = ("tensors", 0)
_TOP: Final = str((1 << 64) - 1)


def document() -> dict[str, Any]:
    """Return the document that the refused ones spoil; a good one."""
    return {
        "format": "safetensors",
        "metadata": {"k": "v"},
        "tensors": [
            {"name": "w", "dtype": "F32", "shape": ["2"], "data": "0000003f000000c0"},
            {"name": "x", "dtype": "U8", "shape": ["1", "2"], "data": "01ff"},
        ],
    }


def _tensor(name: str, dtype: str, shape: list[str], data: str) -> Change:
    return put("tensors", to=[{"name": name, "dtype": dtype, "shape": shape, "data": data}])


def _size(name: str) -> int:
    return SAFETENSORS_DTYPES[name].bits


ACCEPTED: Final[dict[str, tuple[str, Change]]] = {
    "good": ("a good document", lambda made: None),
    "empty": ("no tensors, no metadata", lambda made: made.update(metadata=None, tensors=[])),
    "metadata_empty": ("metadata without keys", put("metadata", to={})),
    "metadata_order": ("metadata whose keys are not sorted", put("metadata", to={"b": "1", "a": "2", "\uffff": "3"})),
    "metadata_escapes": ("metadata of every escape", put("metadata", to={CONTROLS + '"\\/': CONTROLS + '"\\/'})),
    "names": (
        "names that need escapes",
        put(
            "tensors",
            to=[
                {"name": name, "dtype": "U8", "shape": [], "data": "01"}
                for name in sorted((CONTROLS, '"', "\\", "\x7f", "é", "\uffff", "\U00010000"), key=str.encode)
            ],
        ),
    ),
    "nameless": ("a tensor without a name", put(*_W, "name", to="")),
    "scalar": ("a scalar", _tensor("w", "F64", [], "000000000000f03f")),
    "zero": ("a tensor without elements", _tensor("w", "F64", ["3", "0"], "")),
    "zero_largest": ("the largest extent, and 0", _tensor("w", "C64", [_TOP, "0"], "")),
    "bool_2": ("a BOOL of 2", _tensor("w", "BOOL", ["1"], "02")),
    "dtypes": (
        "a tensor of each dtype",
        put(
            "tensors",
            to=[
                {"name": f"t{at:02}", "dtype": name, "shape": ["4"], "data": "01" * (_size(name) // 2)}
                for at, name in enumerate(SAFETENSORS_DTYPES)
            ],
        ),
    ),
}

REFUSED: Final[dict[str, tuple[str, Change]]] = {
    "metadata_tensor": ("a tensor called __metadata__", put(*_W, "name", to="__metadata__")),
    "duplicate": ("a name twice", put(*_W, "name", to="x")),
    "name_surrogate": ("a name with half a surrogate pair", put(*_W, "name", to="\ud800")),
    **{
        f"dtype_{name}": (f"a dtype that is {value!r}", put(*_W, "dtype", to=value))
        for name, value in (
            ("lower", "f32"),
            ("unknown", "F128"),
        )
    },
    "data_less": ("a byte too few", put(*_W, "data", to="0000003f000000")),
    "data_more": ("a byte too many", put(*_W, "data", to="0000003f000000c000")),
    "data_upper": ("bytes in capitals", put(*_W, "data", to="0000003F000000C0")),
    **{
        f"shape_{name}": (f"a shape that is {value!r}", put(*_W, "shape", to=value))
        for name, value in (
            ("number", [2]),
            ("zeros", ["02"]),
            ("digits", ["\u0662"]),
        )
    },
    "shape_2_64": ("an extent of 2^64", _tensor("w", "U8", [str(1 << 64), "0"], "")),
    "shape_overflow": ("a product that passes 2^64", _tensor("w", "U8", [str(1 << 63), "4", "0"], "")),
    "shape_bits": ("a size of 2^64 bits", _tensor("w", "U8", [str(1 << 61)], "01")),
    "partial": ("a part of a byte", _tensor("w", "F4", ["3"], "0102")),
    "metadata_number": ("a value of the metadata that is a number", put("metadata", "k", to=1)),
    "metadata_array": ("metadata as an array", put("metadata", to=[["k", "v"]])),
    "metadata_surrogate_key": ("a key of the metadata with half a surrogate pair", put("metadata", to={"\udfff": ""})),
    "metadata_surrogate": ("a value of the metadata with half a surrogate pair", put("metadata", "k", to="a\ud83d")),
    "unknown_version": ("a version, which the format does not have", put("version", to=1)),
    "unknown_tensor": ("an unknown key in a tensor", put(*_W, "colour", to="red")),
}

# Every key of a document is mandatory.
MISSING: Final[tuple[tuple[str | int, ...], ...]] = (
    *((key,) for key in ("metadata", "tensors")),
    *((*_W, key) for key in document()["tensors"][0]),
)


RAW: Final = ("empty", "nan", "duplicate_key", "not_utf8", "deep")


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    for verdict, table in (("valid", ACCEPTED), ("invalid", REFUSED)):
        for name, (title, change) in table.items():
            tags = ("packed",) if name in ("dtypes", "partial") else ()
            add_document(book, name, title, changed(document(), change), verdict, None, *tags)
    for path in MISSING:
        name = "_".join(str(part) for part in path)
        add_document(book, f"missing_{name}", f"no {path[-1]}", changed(document(), drop(*path)), "invalid", None)
    plain = changed(document(), put("metadata", to=None))
    for name, (title, raw) in raw_texts(plain, "metadata", "w", "null").items():
        if name in RAW:
            add_document(book, f"raw_{name}", title, raw, "invalid", None)
