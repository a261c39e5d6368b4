"""Tensor nodes, and what a program knows of them: the registry of all nodes, the context of those that have values."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import as_array
from ..errors import ArgumentError
from ..spec.dtypes import OCANNL_PRECISIONS, ScalarType, numpy_type, same_type
from ..spec.schema import OCANNL_INT_MAX, OCANNL_NAMESPACE
from ..text import printable, shorten, show
from ._layout import Broken, host_shape, measure

__all__ = ["Atom", "Context", "Padding", "Registry", "TensorNode", "atom", "named", "raw"]

Atom = str | bytes
"""Text, or bytes that are not UTF-8."""

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[Atom, int]


def atom(value: Any, path: str) -> Atom:
    """Return text or bytes as an atom: text wherever the bytes are UTF-8. Raises ArgumentError."""
    if isinstance(value, str):
        raw(value, path)
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content
    raise ArgumentError(f"found {show(value)}, expected text or bytes", path)


def raw(value: Atom, path: str = "") -> bytes:
    """Return the bytes of an atom; ArgumentError for text with lone surrogates."""
    try:
        return value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise ArgumentError(f"{show(value)} has lone surrogates", path) from None


def shown(value: Atom) -> str:
    """Return an atom as text that may be shown."""
    return printable(value) if isinstance(value, str) else repr(value)[2:-1]


def named(key: Key, label: Iterable[Atom] = ()) -> str:
    """Return what messages call a tensor: ``tensor ocannl:3 'w hidden'``."""
    words = " ".join(shown(word) for word in itertools.islice(label, 100))
    return f"tensor {shown(key[0])}:{key[1]}" + (f" '{words}'" if words else "")


def said(key: tuple[bytes, int], label: Iterable[bytes]) -> str:
    """Return a sentence for a finding about a tensor's record: which tensor it is."""
    return f"This is {shorten(named((atom(key[0], ''), key[1]), [atom(word, '') for word in label]), 200)}."


def whole(value: Any, path: str, least: int = 0, most: int = OCANNL_INT_MAX) -> int:
    """Return an integer of ``least`` to ``most`` (the largest of 63 bits, unless told otherwise), or ArgumentError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"found {show(value)}, expected an integer", path)
    if not least <= value <= most:
        raise ArgumentError(f"found {show(int(value))}, expected {least} to {most}", path)
    return int(value)


def _sequence(value: Any, path: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ArgumentError(f"found {show(value)}, expected a sequence", path)
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Padding:
    """Margins that are not stored: elements to the left and right of each axis, and the value that they hold.

    Equal where the bits of the neutral value are: 0.0 and -0.0 are two values, a NaN is equal to itself.
    """

    axes: tuple[tuple[int, int], ...]
    neutral: float = 0.0

    def __post_init__(self) -> None:
        axes = []
        for index, pair in enumerate(_sequence(self.axes, "axes")):
            margins = _sequence(pair, f"axes[{index}]")
            if len(margins) != 2:
                raise ArgumentError(f"found {len(margins)} numbers, expected left and right", f"axes[{index}]")
            axes.append((whole(margins[0], f"axes[{index}]"), whole(margins[1], f"axes[{index}]")))
        object.__setattr__(self, "axes", tuple(axes))
        if isinstance(self.neutral, (bool, np.bool_)) or not isinstance(
            self.neutral, (float, int, np.floating, np.integer)
        ):
            raise ArgumentError(f"found {show(self.neutral)}, expected a number", "neutral")
        try:
            object.__setattr__(self, "neutral", float(self.neutral))
        except OverflowError:
            raise ArgumentError(f"found {show(self.neutral)}, beyond the range of floats", "neutral") from None

    @property
    def bits(self) -> int:
        """The neutral value as the 64 bits of a binary64."""
        (value,) = struct.unpack("<Q", struct.pack("<d", self.neutral))
        return int(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Padding) and self.axes == other.axes and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((self.axes, self.bits))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorNode:
    """A tensor of a program. It is identified by namespace and id: two nodes with the same are equal.

    ``precision`` is a name such as ``single``; ``dims`` are the extents, padding included. Namespace and words of the
    label are text, or bytes if they are not UTF-8. Raises ArgumentError for what a checkpoint cannot hold.
    """

    namespace: Atom = OCANNL_NAMESPACE
    id: int
    label: tuple[Atom, ...] = ()
    precision: str = "single"
    dims: tuple[int, ...] = ()
    padding: Padding | None = None
    stored: tuple[int, ...] = field(init=False, repr=False)
    size: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("namespace", atom(self.namespace, "namespace"))
        if not self.namespace:
            raise ArgumentError(f"is empty, expected a name such as {OCANNL_NAMESPACE}", "namespace")
        put("id", whole(self.id, "id"))
        put("label", tuple(atom(word, "label") for word in _sequence(self.label, "label")))
        put("dims", tuple(whole(extent, "dims") for extent in _sequence(self.dims, "dims")))
        if not isinstance(self.precision, str) or self.precision not in OCANNL_PRECISIONS:
            names = ", ".join(OCANNL_PRECISIONS)
            raise ArgumentError(f"found {show(self.precision)}, expected one of {names}", f"{self.name}: precision")
        if self.padding is not None and not isinstance(self.padding, Padding):
            raise ArgumentError(f"found {show(self.padding)}, expected a Padding or None", f"{self.name}: padding")
        axes = None if self.padding is None else self.padding.axes
        try:
            stored, size = measure(self.scalar.size, self.dims, axes)
        except Broken as broken:
            where = f"{self.name}: {broken.where[0]}"
            raise ArgumentError(f"found {broken.found}, expected {broken.expected}", where) from None
        put("stored", stored)
        put("size", size)

    @classmethod
    def trusted(
        cls,
        namespace: Atom,
        id: int,
        label: tuple[Atom, ...],
        precision: str,
        dims: tuple[int, ...],
        padding: Padding | None,
        stored: tuple[int, ...],
        size: int,
    ) -> TensorNode:
        """Return a node of values that were checked already."""
        node = object.__new__(cls)
        for name, value in zip(
            ("namespace", "id", "label", "precision", "dims", "padding", "stored", "size"),
            (namespace, id, label, precision, dims, padding, stored, size),
            strict=True,
        ):
            object.__setattr__(node, name, value)
        return node

    @property
    def key(self) -> Key:
        """Namespace and id."""
        return (self.namespace, self.id)

    @property
    def name(self) -> str:
        """What messages call the node."""
        return named(self.key, self.label)

    @property
    def scalar(self) -> ScalarType:
        """The precision's row in the table of scalar types."""
        return OCANNL_PRECISIONS[self.precision]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the array of the node's values."""
        return numpy_type(self.scalar)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of that array: ``dims``, and a last axis of 4 for uint4x32. ArgumentError if numpy cannot."""
        try:
            return host_shape(self.scalar, self.dims)
        except ArgumentError as error:
            raise ArgumentError(error.args[0], self.name) from None

    @property
    def region(self) -> tuple[slice, ...]:
        """Index of what is stored within the array: everything but the margins."""
        if self.padding is None:
            return (slice(None),) * len(self.dims)
        return tuple(
            slice(left, extent - right) for extent, (left, right) in zip(self.dims, self.padding.axes, strict=True)
        )

    def check(self, value: Any) -> Array:
        """Return a value as an array if it is one of the node's dtype and shape, else raise ArgumentError."""
        array = as_array(value, self.name)
        if not same_type(array.dtype, self.dtype):
            raise ArgumentError(f"found an array of {array.dtype}, expected {self.dtype}", self.name)
        if array.shape != self.shape:
            raise ArgumentError(f"found an array of shape {list(array.shape)}, expected {list(self.shape)}", self.name)
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorNode) and self.id == other.id and self.namespace == other.namespace

    def __hash__(self) -> int:
        return hash((self.namespace, self.id))


class Registry:
    """The nodes that a program has created, and the namespace in which it creates new ones.

    ``seeds`` are the random seeds that the program has created, in order; a training checkpoint records them.
    """

    def __init__(self, namespace: Atom = OCANNL_NAMESPACE) -> None:
        self._nodes: dict[Key, TensorNode] = {}
        self._next: dict[Atom, int] = {}
        self.namespace = namespace
        self.seeds: list[int] = []

    @property
    def namespace(self) -> Atom:
        """The ambient namespace: that of nodes to come."""
        return self._namespace

    @namespace.setter
    def namespace(self, value: Atom) -> None:
        namespace = atom(value, "namespace")
        if not namespace:
            raise ArgumentError(f"is empty, expected a name such as {OCANNL_NAMESPACE}", "namespace")
        self._namespace = namespace

    @property
    def next_id(self) -> int:
        """The id of the next node that is created: above every id in the ambient namespace."""
        return self._next.get(self.namespace, 0)

    def create(
        self,
        dims: Iterable[int] = (),
        *,
        precision: str = "single",
        label: Iterable[Atom] = (),
        padding: Padding | None = None,
    ) -> TensorNode:
        """Create and register a node in the ambient namespace. Raises ArgumentError."""
        node = TensorNode(
            namespace=self.namespace,
            id=self.next_id,
            label=_sequence(label, "label"),
            precision=precision,
            dims=_sequence(dims, "dims"),
            padding=padding,
        )
        self.add((node,))
        return node

    def add(self, nodes: Iterable[TensorNode]) -> None:
        """Register nodes, all or none; ArgumentError if one of their keys is taken."""
        nodes = list(nodes)
        added: set[Key] = set()
        for node in nodes:
            if not isinstance(node, TensorNode):
                raise ArgumentError(f"found {show(node)}, expected a TensorNode", "nodes")
            if node.key in self._nodes or node.key in added:
                raise ArgumentError("a node of that namespace and id is registered already", node.name)
            added.add(node.key)
        for node in nodes:
            self._nodes[node.key] = node
            self._next[node.namespace] = max(self._next.get(node.namespace, 0), node.id + 1)

    def seed(self, value: int) -> int:
        """Record a random seed that the program has created, and return it. Raises ArgumentError."""
        self.seeds.append(whole(value, "seed", -OCANNL_INT_MAX - 1))
        return value

    def get(self, namespace: Atom, id: int) -> TensorNode | None:
        """Return the node of that key, or None."""
        return self._nodes.get((atom(namespace, "namespace"), id))

    def __contains__(self, node: object) -> bool:
        return isinstance(node, TensorNode) and node.key in self._nodes

    def __iter__(self) -> Iterator[TensorNode]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return f"<Registry of {len(self)}, namespace {shown(self.namespace)}>"


class Context(Mapping[TensorNode, Array]):
    """The nodes that have values, and the values as numpy arrays. Contexts do not change: ``updated`` makes a new one.

    A value may also be a function without arguments that returns the array: it is called each time that the array is
    asked for, so that values that live elsewhere are fetched on demand. Arrays are checked when they are asked for.
    """

    def __init__(
        self,
        arrays: Mapping[TensorNode, Array | Callable[[], Array]] | None = None,
        *,
        registry: Registry | None = None,
    ) -> None:
        self.registry = Registry() if registry is None else registry
        self._values: dict[TensorNode, Any] = {}
        if not isinstance(self.registry, Registry):
            raise ArgumentError(f"found {show(registry)}, expected a Registry", "registry")
        self._put({} if arrays is None else arrays)

    def _put(self, arrays: Mapping[TensorNode, Any]) -> None:
        if not isinstance(arrays, Mapping):
            raise ArgumentError(f"found {show(arrays)}, expected a mapping from nodes to arrays", "arrays")
        values: dict[TensorNode, Any] = {}
        for node in arrays:
            if not isinstance(node, TensorNode):
                raise ArgumentError(f"found {show(node)}, expected a TensorNode", "arrays")
            if isinstance(arrays, Context):
                values[node] = arrays._values[node]
            else:
                value = arrays[node]
                values[node] = value if callable(value) and not hasattr(value, "__array__") else node.check(value)
        new = {node: node for node in values}  # a value goes with the very node that it was given for
        self._values = {new.get(node, node): value for node, value in self._values.items()} | values

    def updated(self, arrays: Mapping[TensorNode, Any]) -> Context:
        """Return a context with some values replaced or added; this one stays as it is. Raises ArgumentError."""
        made = Context(registry=self.registry)
        made._values = dict(self._values)
        made._put(arrays)
        return made

    def __getitem__(self, node: TensorNode) -> Array:
        value = self._values[node]
        return node.check(value()) if callable(value) and not hasattr(value, "__array__") else value

    def __contains__(self, node: object) -> bool:
        return node in self._values

    def __iter__(self) -> Iterator[TensorNode]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Context of {len(self)}>"
