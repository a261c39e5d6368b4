"""Opening a file to take single tensors, or parts of them, as the official package does it."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from ..errors import ArgumentError
from ..formats import reading_as
from ..source import open_file
from ..text import show
from . import anatomy_of
from ._model import Array, Tensor

__all__ = ["SafeSlice", "safe_open"]


class SafeSlice:
    """A tensor that is not read yet: indexing it reads what is asked for and nothing else."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self._name = name
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        """Return the shape."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """Return the dtype's name in the format."""
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Array:
        value = self._tensor.value()
        if isinstance(value, Tensor):
            raise ArgumentError(f"elements of {value.scalar.bits} bits cannot be sliced", f"tensor {show(self._name)}")
        try:
            return np.array(value[index])
        except (IndexError, TypeError, ValueError) as error:
            raise ArgumentError(str(error), f"tensor {show(self._name)}") from None


class safe_open:  # noqa: N801  # the official package's name
    """An open file. A context manager with the official package's methods; arrays are numpy's.

    What ``get_tensor`` returns is a private view of the file: it can be written to, which changes nothing but itself,
    and it stays valid when the file is closed, replaced or removed. A tensor that is asked for again, or whose payload
    does not lie at a multiple of its element size, is copied; one whose elements are smaller than a byte comes as a
    ``Tensor``, with its bytes.
    Raises FormatError if a reader must refuse the file, OSError if the system will not read it.
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "numpy", device: str = "cpu") -> None:
        if framework not in ("np", "numpy"):
            raise ArgumentError(f"found {show(framework)}, expected numpy", "framework")
        if device != "cpu":
            raise ArgumentError(f"found {show(device)}, expected cpu", "device")
        with open_file(filename) as source, reading_as(source, "safetensors"):
            self._anatomy = anatomy_of(source)
            self._content = source.view(0, source.size)
            self._private = source.private()
        self._given: set[str] = set()
        self._entries: dict[str, Any] = {entry.name: entry for entry in self._anatomy.entries}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of nothing: arrays stay valid, and the file was closed when its header had been read."""

    def keys(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """Return the names in the order of the payloads."""
        return [entry.name for entry in sorted(self._entries.values(), key=lambda entry: (entry.begin, entry.end))]

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata, or None if there is none."""
        return None if self._anatomy.metadata is None else dict(self._anatomy.metadata)

    def _stored(self, name: str, content: memoryview) -> Tensor:
        entry = self._entries.get(name) if isinstance(name, str) else None
        if entry is None:
            raise ArgumentError("the file has no such tensor", f"tensor {show(name)}")
        start = self._anatomy.data
        data = content[start + entry.begin : start + entry.end]
        return Tensor(dtype=entry.dtype.safetensors, shape=entry.shape, data=data)

    def get_tensor(self, name: str) -> Array | Tensor:
        """Return a tensor; ArgumentError if there is none of that name, or if numpy cannot hold its shape."""
        tensor = self._stored(name, self._content)
        if tensor.packed:
            return tensor
        again = name in self._given
        self._given.add(name)
        try:
            value: Any = (tensor if again else self._stored(name, self._private)).value()
        except ArgumentError as error:
            raise ArgumentError(str(error), f"tensor {show(name)}") from None
        made: Array = value.copy() if again or not value.flags.aligned else value
        return made

    def get_tensors(self) -> dict[str, Array | Tensor]:
        """Return all tensors by name, in the order of the payloads."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> SafeSlice:
        """Return a tensor of which parts can be read; ArgumentError if there is none of that name."""
        return SafeSlice(name, self._stored(name, self._content))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
