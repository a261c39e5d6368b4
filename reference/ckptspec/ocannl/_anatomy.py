"""The parts of an OCANNL checkpoint as an examination finds them, before any payload is touched."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from .. import sexp
from ..spec.dtypes import OCANNL_PRECISIONS, ScalarType
from ..spec.layout import record_size
from ..spec.schema import (
    OCANNL_NAMESPACE,
    OCANNL_PRECISION_SUFFIX,
    OCANNL_TENSOR,
    OCANNL_TRAINING,
    OcannlFrame,
)
from ._places import Places

__all__ = ["DEFAULT", "FRAME_SIZE", "PRECISIONS", "Anatomy", "Entry", "Training", "precision_atom"]

FRAME_SIZE: Final = record_size(OcannlFrame)
DEFAULT: Final = OCANNL_NAMESPACE.encode()


def precision_atom(name: str) -> bytes:
    """Return the header's spelling of a precision."""
    return (name.capitalize() + OCANNL_PRECISION_SUFFIX).encode()


PRECISIONS: Final = {precision_atom(name): scalar for name, scalar in OCANNL_PRECISIONS.items()}


@dataclass(slots=True)
class Entry:
    """The record of one tensor. Values that cannot be read are None; the namespace is in its effective spelling.

    The first fields are those of the schema's table, in its order. ``padding`` is ``(axes, neutral)``, or () for none.
    ``stored`` are the extents without padding. ``bad`` are the reject rules that the record breaks.
    """

    id: int | None
    namespace: bytes | None
    label: tuple[bytes, ...] | None
    prec: ScalarType | None
    dims: tuple[int, ...] | None
    padding: Any
    offset: int | None
    byte_length: int | None
    stored: tuple[int, ...] | None = None
    bad: frozenset[str] = frozenset()

    @property
    def placed(self) -> bool:
        """Whether the payload lies in the file where the record says."""
        return (
            self.offset is not None
            and self.byte_length is not None
            and not self.bad & {"OCANNL-TEN-OVERFLOW", "OCANNL-TEN-RANGE"}
        )


@dataclass(slots=True)
class Training:
    """The training record; values that cannot be read are None. The fields are those of the schema's table."""

    version: int | None
    step: int | None
    epoch: int | None
    position: int | None
    host_rng: Any  # () for none, (bytes,) for some
    extra: tuple[tuple[bytes, bytes], ...] | None
    seeds: tuple[int, ...] | None
    state: tuple[tuple[bytes, int], ...] | None
    bad: frozenset[str] = frozenset()


for _record, _table in ((Entry, OCANNL_TENSOR), (Training, OCANNL_TRAINING)):
    if [item.name for item in fields(_record)][: len(_table)] != [key.name for key in _table]:
        raise AssertionError(f"{_record.__name__} does not follow the schema")


@dataclass(slots=True, kw_only=True)
class Anatomy:
    """Everything but the payloads. ``alignment`` is 1 where the header has none; offsets are in the file."""

    size: int
    header_length: int
    text: bytes = b""
    places: Places = field(default_factory=lambda: Places(b"", 0))
    version: int | None = None
    alignment: int = 1
    entries: list[Entry] = field(default_factory=list)
    training: Training | None = None
    tensors: tuple[int, ...] = ()  # path in the text to the list of tensor records
    record: tuple[int, ...] = ()  # and to the training record
    syntax: sexp.SexpError | None = None

    @property
    def data(self) -> int:
        """Offset of the data section."""
        return FRAME_SIZE + self.header_length
