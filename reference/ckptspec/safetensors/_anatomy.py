"""The parts of a safetensors file as an examination finds them, before any payload is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..spec.dtypes import ScalarType
from ..spec.layout import record_size
from ..spec.schema import SafetensorsFrame

__all__ = ["FRAME_SIZE", "Anatomy", "Entry", "Place", "measure"]

FRAME_SIZE: Final = record_size(SafetensorsFrame)
_LIMIT: Final = 1 << 64

Place = tuple[int, int]
"""Offset in the file and length, both in bytes."""


@dataclass(slots=True)
class Entry:
    """A tensor's entry in the header. What cannot be read is None; ``begin`` and ``end`` count from the buffer's start.

    ``places`` are those of the name and of the values, by their keys; None where all is well and nobody looked.
    ``bad`` are the reject rules that the entry breaks.
    """

    name: str
    dtype: ScalarType | None
    shape: tuple[int, ...] | None
    begin: int | None
    end: int | None
    places: dict[str, Place] = None  # type: ignore[assignment]  # what nobody asks for costs nothing
    bad: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Anatomy:
    """Everything but the payloads, entries in the header's order. ``metadata`` is None where the header has none."""

    size: int
    header_length: int
    text: bytes = b""
    metadata: dict[str, str] | None = None
    metadata_place: Place | None = None
    metadata_bad: bool = False
    entries: list[Entry] = field(default_factory=list)
    whole: bool = False  # whether the header was read to its end

    @property
    def data(self) -> int:
        """Offset of the byte buffer."""
        return FRAME_SIZE + self.header_length

    @property
    def room(self) -> int:
        """Size of the byte buffer in bytes."""
        return self.size - self.data


def measure(bits: int, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the number of elements of a shape and the bits that they take, or None if either reaches 2^64.

    The extents are multiplied from left to right, and no product on the way may reach it either.
    """
    elements = 1
    for extent in shape:
        elements *= extent
        if elements >= _LIMIT:
            return None
    return None if elements * bits >= _LIMIT else (elements, elements * bits)
