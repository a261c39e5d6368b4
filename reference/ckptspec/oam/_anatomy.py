"""The parts of an ``.oam`` file as an examination finds them, before any payload is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..checksum import ByteError
from ..spec.layout import record_size
from ..spec.schema import OAM_PAGE, OAM_SECTIONS, OAM_TENSOR_SECTIONS, OamHeader, OamSection

__all__ = [
    "CONFIG_DERIVED",
    "OPTIMIZER_DERIVED",
    "SECTION_NAMES",
    "Anatomy",
    "Index",
    "Section",
    "data_start",
    "padded",
]

SECTION_NAMES: Final = {code: name for name, code in OAM_SECTIONS.items()}


# Fields of the heads that follow from the rest of the file.
CONFIG_DERIVED: Final = ("arch_config_size",)
OPTIMIZER_DERIVED: Final = ("moment_count",)


def data_start(section_count: int) -> int:
    """Return the first offset at which a payload may stand, in bytes."""
    return padded(record_size(OamHeader) + section_count * record_size(OamSection))


def padded(size: int) -> int:
    """Return ``size`` rounded up to whole pages."""
    return -(-size // OAM_PAGE) * OAM_PAGE


@dataclass(slots=True, kw_only=True)
class Section:
    """One entry of the section table. ``intact`` is None until (unless) its checksum was compared."""

    entry: int
    type: int
    offset: int
    size: int
    checksum: int
    available: int = 0  # bytes of the payload that the file really has
    in_place: bool = False  # whether offset and size pass all checks
    counted: bool = True  # False for a repeated or unknown type
    intact: bool | None = None

    @property
    def name(self) -> str:
        """The section's name, or its number where the type is unknown."""
        return SECTION_NAMES.get(self.type, f"type {self.type}")

    @property
    def end(self) -> int:
        """Offset of the first byte after the payload."""
        return self.offset + self.size

    @property
    def padded_end(self) -> int:
        """Where a writer puts the next payload."""
        return self.offset + padded(self.size) if self.name in OAM_TENSOR_SECTIONS else self.end


@dataclass(slots=True, kw_only=True)
class Index:
    """A weights or state section: the entries of its index and where its blob lies.

    ``entries`` has one record of the schema's tensor entry a tensor; ``names`` the names in the same order, None for
    one that cannot be read. ``bad`` maps the rows that broke reject rules to those rules. Offsets are in the file.
    """

    section: Section
    base: int
    entries: np.ndarray[Any, np.dtype[np.void]]
    names: list[str | None]
    blob: int
    blob_size: int
    bad: dict[int, set[str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Anatomy:
    """Everything but the payloads. Records are parsed by the schema's structs; None where there is none."""

    size: int
    header: Mapping[str, Any]
    version: int
    sections: list[Section] = field(default_factory=list)
    config: Mapping[str, Any] | None = None
    arch_config: tuple[int, int] = (0, 0)  # offset and size
    indexes: dict[str, Index] = field(default_factory=dict)
    optimizer: Mapping[str, Any] | None = None
    moments: tuple[tuple[int, int], ...] = ()  # offset and size of each
    progress: Mapping[str, Any] | None = None
    manifest_intact: bool | None = None
    repairs: dict[int, ByteError] = field(default_factory=dict)  # by offset: bytes that alone explain a checksum

    def section(self, name: str) -> Section | None:
        """Return the section of that name, the first if there are several."""
        return next((item for item in self.sections if item.counted and item.name == name), None)
