"""Parts that the cases of this format share."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from ....spec.schema import OAM_NEWEST
from ..assemble import Image, T, assemble, config, optimizer, progress, tensors
from ..definition import CaseBook, Definition

__all__ = ["W", "base", "f32", "image", "minimal", "ramp", "valid_case"]


def f32(*values: float) -> bytes:
    """Return numbers as little-endian f32."""
    return struct.pack(f"<{len(values)}f", *values)


def ramp(size: int, start: int = 1) -> bytes:
    """Return ``size`` bytes that count up, so that a byte out of place shows."""
    return bytes((start + at) % 256 for at in range(size))


W = T("w", "f32", (2, 3), f32(0, 1, -2, 0.5, 3e-8, 1e20))
"""The tensor that most cases have."""


def image(
    weights: Iterable[T] | bytes | None = (W,),
    state: Iterable[T] | bytes | None = None,
    opt: bytes | None = b"",
    conf: bytes | None = None,
    prog: bytes | None = None,
    extra: Iterable[tuple[str | int, bytes]] = (),
    **layout: Any,
) -> Image:
    """Return a file: a config, ``weights`` and ``state`` where given, an optimizer that fits them, a progress section.

    ``opt=None`` leaves the optimizer out; ``extra`` sections come last. By default the file draws no finding at all.
    """
    sections: list[tuple[str | int, bytes]] = [("config", config(architecture="ckptspec") if conf is None else conf)]
    elements = 0
    for name, items in (("weights", weights), ("state", state)):
        if items is not None:
            body = items if isinstance(items, bytes) else tensors(items)
            sections.append((name, body))
    if weights is not None and not isinstance(weights, bytes):
        for item in weights:
            count = 1
            for extent in item.shape:
                count *= extent
            elements += count
    if opt is not None:
        sections.append(("optimizer", opt or optimizer(ramp(4 * elements))))
    sections.append(("progress", progress(step=12) if prog is None else prog))
    return assemble([*sections, *extra], **layout)


def base(version: int = OAM_NEWEST) -> Image:
    """Return the file that most invalid cases spoil: five sections, without a finding."""
    return image(state=[T("s", "i32", (2,), ramp(8))], version=version)


def minimal(version: int = OAM_NEWEST) -> Image:
    """Return the smallest file: config and progress, all defaults."""
    return assemble([("config", config()), ("progress", progress())], version=version)


def valid_case(
    book: CaseBook, name: str, title: str, made: Image, *tags: str, rules: tuple[str, ...] = (), **more: Any
) -> None:
    """Add a valid case: canonical, unless it is about canonical rules."""
    book.add(
        Definition(
            name=name,
            title=title,
            make=made.bytes,
            verdict="valid",
            rules=rules,
            versions=(made.version,),
            tags=tags,
            canonical=more.pop("canonical", not rules and made.version == OAM_NEWEST),
            **more,
        )
    )
