"""Parts that the cases of this format share."""

from __future__ import annotations

import struct
from typing import Any, Final

from ..definition import CaseBook, Definition
from .assemble import T

__all__ = ["OCAML", "OFFICIAL", "PAIR", "W", "f32", "invalid_case", "open_case", "valid_case"]

OFFICIAL: Final = "safetensors-official"
OCAML: Final = "safetensors-ocaml"

W: Final = T()
"""The tensor that most cases have."""

PAIR: Final = (T(name="a"), T(name="b", shape=(4,)))
"""Two tensors."""


def f32(*values: float) -> bytes:
    """Return numbers as little-endian binary32."""
    return struct.pack(f"<{len(values)}f", *values)


def valid_case(
    book: CaseBook,
    name: str,
    title: str,
    made: bytes,
    *tags: str,
    rules: tuple[str, ...] = (),
    canonical: bool | None = None,
    ocaml: str = "",
) -> None:
    """Add a valid case: canonical, unless it is about rules. ``ocaml`` tells what the OCaml reader does with it."""
    book.add(
        Definition(
            name=name,
            title=title,
            make=lambda: made,
            verdict="valid",
            rules=rules,
            tags=tags,
            canonical=not rules if canonical is None else canonical,
            behaviour={OCAML: ocaml} if ocaml else {},
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
    ocaml: str = "",
) -> None:
    """Add an invalid case: the official package refuses it too."""
    book.add(
        Definition(
            name=f"bad_{name}",
            title=title,
            make=lambda: made,
            verdict="invalid",
            rules=(f"SAFETENSORS-{rule}",),
            company=tuple(f"SAFETENSORS-{other}" for other in company),
            tags=(f"record:{rule.split('-', 1)[0].lower()}", *tags),
            behaviour={OCAML: ocaml} if ocaml else {},
        )
    )


def open_case(
    book: CaseBook,
    name: str,
    title: str,
    rule: str,
    made: bytes,
    reason: str,
    official: str,
    ocaml: str = "",
    **more: Any,
) -> None:
    """Add an acceptable case: ``official`` and ``ocaml`` tell what the two readers do."""
    book.add(
        Definition(
            name=f"open_{name}",
            title=title,
            make=lambda: made,
            verdict="acceptable",
            rules=(f"SAFETENSORS-{rule}",),
            tags=("open",),
            reason=reason,
            behaviour={OFFICIAL: official, **({OCAML: ocaml} if ocaml else {})},
            **more,
        )
    )
