"""What a safetensors file holds: tensors by name, and text for people and programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from ..spec.dtypes import SAFETENSORS_DTYPES, ScalarType, numpy_type
from ..text import show
from ._anatomy import Anatomy

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Tensor", "TensorFile", "TensorMap"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A tensor as it is stored: ``dtype`` is the format's name, ``data`` the payload's bytes.

    It can hold what numpy cannot: elements smaller than a byte, and shapes such as (0, 2^63).
    """

    dtype: str
    shape: tuple[int, ...]
    data: Buffer

    @property
    def scalar(self) -> ScalarType:
        """The dtype's row in the table of scalar types."""
        return SAFETENSORS_DTYPES[self.dtype]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def packed(self) -> bool:
        """Whether elements are smaller than a byte: then the bytes are all that there is to get."""
        return self.scalar.bits % 8 != 0

    def value(self) -> Array | Tensor:
        """Return the tensor as an array, a view of the data; or itself if its elements are smaller than a byte.

        Raises ArgumentError if numpy cannot hold the shape.
        """
        if self.packed:
            return self
        buffer = memoryview(self.data)
        try:
            made = np.ndarray(self.shape, numpy_type(self.scalar), buffer if buffer.nbytes else None)
        except (ValueError, OverflowError):
            raise ArgumentError(f"numpy cannot hold the shape {list(self.shape)}; stored() gives the tensor") from None
        if buffer.readonly:
            made.flags.writeable = False  # also of one without elements, which is no view
        return made


class TensorMap(Mapping[str, "Array | Tensor"]):
    """The tensors of a file by name, in the order of the header.

    Values are made when they are asked for: read-only views of the file, whose payload is not touched before.
    ``stored(name)`` gives dtype, shape and bytes without numpy.
    """

    def __init__(self, anatomy: Anatomy, content: memoryview) -> None:
        self._data = anatomy.data
        self._content = content
        self._entries: dict[str, Any] = {entry.name: entry for entry in anatomy.entries}

    def stored(self, name: str) -> Tensor:
        """Return the tensor as it is stored; KeyError if there is none of that name."""
        entry = self._entries[name]
        data = self._content[self._data + entry.begin : self._data + entry.end]
        return Tensor(dtype=entry.dtype.safetensors, shape=entry.shape, data=data)

    def __getitem__(self, name: str) -> Array | Tensor:
        try:
            return self.stored(name).value()
        except ArgumentError as error:
            raise ArgumentError(str(error), f"tensor {show(name)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return f"<TensorMap of {len(self)}>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorFile:
    """A safetensors file's content.

    ``tensors`` maps names to numpy arrays or stored ``Tensor`` s. ``metadata`` maps text to text; None is a file
    without any, which is another file than one with none in it.
    """

    tensors: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]
