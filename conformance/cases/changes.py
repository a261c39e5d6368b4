"""What the cases for encoders share: changes to a good document, and texts that are no document at all."""

from __future__ import annotations

import codecs
import copy
import json
from collections.abc import Callable
from typing import Any

from .definition import CaseBook, Definition

__all__ = ["Change", "add_document", "changed", "drop", "put", "raw_texts"]

Change = Callable[[dict[str, Any]], object]


def put(*path: str | int, to: Any) -> Change:
    """Give what a path leads to another value."""

    def change(made: dict[str, Any]) -> None:
        at: Any = made
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return change


def drop(*path: str | int) -> Change:
    """Take away what a path leads to."""

    def change(made: dict[str, Any]) -> None:
        at: Any = made
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return change


def changed(document: dict[str, Any], *changes: Change) -> dict[str, Any]:
    """Return a changed copy of a document."""
    made = copy.deepcopy(document)
    for change in changes:
        change(made)
    return made


def raw_texts(document: dict[str, Any], key: str, text: str, number: str) -> dict[str, tuple[str, bytes]]:
    """Return texts that are no document, made from a good one.

    ``key`` is one of its keys, ``text`` a text in it and ``number`` a number in it, or another value without quotes.
    """
    good = json.dumps(document)
    assert f'"{text}"' in good
    assert f": {number}" in good
    return {
        "empty": ("nothing", b""),
        "not_json": ("no JSON", f"{{'format': '{document['format']}'}}".encode()),
        "array": ("an array", b"[]"),
        "null": ("null", b"null"),
        "nan": ("NaN in the JSON", good.replace(f": {number}", ": NaN").encode()),
        "duplicate_key": ("a key twice", good.replace(f'"{key}"', f'"{key}": "1", "{key}"').encode()),
        "trailing": ("text after the document", good.encode() + b" x"),
        "bom": ("a byte order mark", b"\xef\xbb\xbf" + good.encode()),
        "utf_16": ("UTF-16", codecs.BOM_UTF16_LE + good.encode("utf-16-le")),
        "not_utf8": ("a name that is no UTF-8", good.replace(f'"{text}"', '"\xff"').encode("latin-1")),
        "deep": ("100,000 brackets", b"[" * 100_000),
        "huge_number": ("a number of 5,000 digits", good.replace(f": {number}", ": " + "9" * 5000).encode()),
    }


def add_document(
    book: CaseBook, name: str, title: str, made: dict[str, Any] | bytes, verdict: str, version: int | None, *tags: str
) -> None:
    """Add a case for encoders; ``version`` is None for a format that has none."""
    text = made if isinstance(made, bytes) else json.dumps(made, indent=1).encode() + b"\n"
    book.add(
        Definition(
            name=f"document_{name}",
            title=title,
            make=lambda: text,
            verdict=verdict,
            kind="document",
            versions=() if version is None else (version,),
            tags=("document", *tags),
            extension=".document",
        )
    )
