"""Parts that the cases of this format share."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from ....spec.rules import REJECT, RULES
from ....spec.schema import OCANNL_VERSION
from ..definition import CaseBook, Definition
from .assemble import T

__all__ = ["PAIR", "UPSTREAM_ACCEPTS", "W", "f32", "invalid_case", "many", "valid_case"]


def f32(*values: float) -> bytes:
    """Return numbers as little-endian binary32."""
    return struct.pack(f"<{len(values)}f", *values)


W: Final = T(data=f32(0.5, -2))
"""The tensor that most cases have."""

PAIR: Final = (T(label=("a",), dims=(6,)), T(id=1, label=("b",), dims=(2,)))
"""Two tensors with a gap of eight bytes between their payloads, at the default alignment."""

# The rules against whose breach OCANNL's reader does nothing: a file is refused by this specification alone.
UPSTREAM_ACCEPTS: Final = frozenset(
    {
        "OCANNL-TXT-DEPTH",
        "OCANNL-HDR-ALIGNMAX",
        "OCANNL-TEN-ID",
        "OCANNL-TEN-DIM",
        "OCANNL-TEN-SIZEOF",
        "OCANNL-PAD-COUNT",
        "OCANNL-PAD-NEGATIVE",
        "OCANNL-PAD-FIT",
        "OCANNL-TEN-BYTES",
        "OCANNL-TEN-OVERFLOW",
        "OCANNL-TEN-OVERLAP",
    }
)


def many(count: int, **more: Any) -> Iterable[T]:
    """Return tensors of one id after the other."""
    return [replace(T(id=at, label=(f"layer{at}", "weight")), **more) for at in range(count)]


def valid_case(
    book: CaseBook, name: str, title: str, made: bytes, *tags: str, rules: tuple[str, ...] = (), **more: Any
) -> None:
    """Add a valid case: canonical, unless it is about canonical rules."""
    book.add(
        Definition(
            name=name,
            title=title,
            make=lambda: made,
            verdict="valid",
            rules=rules,
            versions=(OCANNL_VERSION,),
            tags=tags,
            canonical=more.pop("canonical", not rules),
            **more,
        )
    )


def invalid_case(
    book: CaseBook,
    name: str,
    title: str,
    rule: str,
    made: bytes,
    *company: str,
    tags: tuple[str, ...] = (),
    accepts: bool | None = None,
) -> None:
    """Add an invalid case. ``accepts`` tells whether OCANNL's reader takes the file, where the rule does not tell.

    What OCANNL takes, others may take: for such a file the level is *should*.
    """
    refused = [broken for broken in (rule, *company) if RULES[broken].kind == REJECT]
    if accepts is None:
        accepts = UPSTREAM_ACCEPTS.issuperset(refused)
    _, record, _ = rule.split("-")
    book.add(
        Definition(
            name=f"bad_{name}",
            title=title,
            make=lambda: made,
            verdict="invalid",
            level="should" if accepts else "must",
            rules=(rule,),
            company=company,
            versions=(OCANNL_VERSION,),
            tags=(f"record:{record.lower()}", *tags),
            behaviour={"ocannl": RULES[rule].upstream} if accepts else {},
        )
    )
