"""What an OCANNL checkpoint holds: tensors as they are stored, and where a training run stood."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..errors import ArgumentError
from ..spec.schema import OCANNL_ALIGNMENT, OCANNL_NAMESPACE, OCANNL_SEEDS_VERSION, OCANNL_VERSION
from ..text import show
from ._layout import margin
from ._nodes import Array, Atom, TensorNode, atom

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Checkpoint", "Lazy", "Tensor", "TrainingRecord"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A tensor as it is stored: the node's description, and the payload's bytes (little-endian, without margins)."""

    node: TensorNode
    data: Buffer

    def stored(self) -> Array:
        """Return the stored elements, without margins, as an array; a view of the data."""
        node = self.node
        shape = (*node.stored, *node.shape[len(node.dims) :])
        if math.prod(shape) * node.dtype.itemsize != memoryview(self.data).nbytes:
            found = memoryview(self.data).nbytes
            raise ArgumentError(f"found {found} bytes, expected {node.size}", node.name)
        return np.ndarray(shape, node.dtype, memoryview(self.data) if node.size else None)

    def value(self) -> Array:
        """Return all elements as an array: a view of the data, or if there is padding, a new array with margins.

        Raises ArgumentError if the padding makes of it more than memory can hold.
        """
        node = self.node
        if node.stored == node.dims:
            return self.stored()
        shape = node.shape
        if not node.scalar.size:
            return np.empty(shape, node.dtype)  # filling it would visit every element
        try:
            made = np.full(shape, margin(node.scalar, node.padding.neutral if node.padding else 0.0), node.dtype)
        except MemoryError:
            needed = math.prod(shape) * node.dtype.itemsize
            raise ArgumentError(f"its padding makes {node.size} bytes {needed}, too many to hold", node.name) from None
        made[node.region] = self.stored()
        return made


class Lazy(Sequence[Tensor]):
    """A sequence whose items are made when they are asked for."""

    def __init__(self, length: int, make: Callable[[int], Tensor]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        at: Any = range(self._length)[index]
        return [self._make(i) for i in at] if isinstance(index, slice) else self._make(at)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self._make, range(self._length))

    def __repr__(self) -> str:
        return f"<{self._length} tensors>"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """Where a training run stood. ``state`` names the tensors that the state was made of, by namespace and id.

    ``seeds`` is None in a record of version 1, which has none. Keys and values of ``extra`` are text, or bytes if they
    are not UTF-8.
    """

    version: int = OCANNL_SEEDS_VERSION
    step: int = 0
    epoch: int = 0
    position: int = 0
    host_rng: bytes | None = None
    extra: tuple[tuple[Atom, Atom], ...] = ()
    seeds: tuple[int, ...] | None = ()
    state: tuple[tuple[Atom, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """An OCANNL checkpoint: tensors in the file's order, the alignment of their payloads, the training record if any.

    ``checkpoint["ocannl", 3]`` is the value of that tensor as a numpy array, ``checkpoint[3]`` that of the default
    namespace; iteration gives the pairs of namespace and id. What was read from a file is a read-only view of it,
    wherever no padding has to be put around it.
    """

    tensors: Sequence[Tensor] = ()
    alignment: int = OCANNL_ALIGNMENT
    training: TrainingRecord | None = None
    version: int = OCANNL_VERSION
    _index: dict[tuple[Atom, int], int] = field(default_factory=dict, init=False, repr=False)

    def find(self, namespace: Atom, id: int) -> Tensor:
        """Return a tensor by its namespace and id; KeyError if there is none."""
        if len(self._index) != len(self.tensors):
            self._index.update({tensor.node.key: row for row, tensor in enumerate(self.tensors)})
        return self.tensors[self._index[atom(namespace, "namespace"), id]]

    def __getitem__(self, key: int | tuple[Atom, int]) -> Array:
        if isinstance(key, (int, np.integer)):
            key = (OCANNL_NAMESPACE, int(key))
        if not isinstance(key, tuple) or len(key) != 2:
            raise ArgumentError(f"found {show(key)}, expected an id, or a namespace and an id", "key")
        return self.find(*key).value()

    def __contains__(self, key: object) -> bool:
        try:
            pair: Any = (OCANNL_NAMESPACE, key) if isinstance(key, (int, np.integer)) else key
            self.find(*pair)
        except (KeyError, TypeError, ArgumentError):
            return False
        return True

    def __iter__(self) -> Iterator[tuple[Atom, int]]:
        return (tensor.node.key for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
