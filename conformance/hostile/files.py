"""What a hostile file is, and the parts that all formats' files share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["FEW", "MANY", "Hostile", "ends", "one"]

FEW: Final = 50  # items of a hostile file in the tests
MANY: Final = 100_000  # the same at full size


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A hostile file.

    ``make(n)`` gives its bytes: of ``small`` items in the tests, of ``full`` items at full size. Behind them come
    ``hole`` bytes that take no room on the disk. ``accepted`` says whether readers take the file. ``memory`` is how
    many bytes may be taken for one of the file, besides a fixed amount.
    """

    name: str
    attacks: str
    format: str
    make: Callable[[int], bytes]
    accepted: bool
    small: int = 0
    full: int = 0
    hole: int = 0
    memory: int = 100


def ends(shape: str, count: int) -> list[tuple[int, int]]:
    """Return ``count`` ranges of bytes that overlap: ``same``, ``nested`` in each other, or ``stairs``."""
    return {
        "same": [(0, 8)] * count,
        "nested": [(at, 2 * count - at) for at in range(count)],
        "stairs": [(at, at + count) for at in range(count)],
    }[shape]


def one(
    format: str, name: str, attacks: str, make: Callable[[int], bytes], accepted: bool = False, **more: Any
) -> Hostile:
    """Return a hostile file of a format; ``more`` are its other fields."""
    return Hostile(name=f"{format}_{name}", attacks=attacks, format=format, make=make, accepted=accepted, **more)
