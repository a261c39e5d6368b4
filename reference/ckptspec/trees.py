"""Parameter structures: nested containers with arrays at their leaves, walked and rebuilt.

A structure is an array, or a mapping, list, tuple, dataclass or ``Named`` object of structures. A leaf's *name* is its
path from the root: keys, positions and fields, joined with dots (``layers.0.w``); the root itself has the empty name.
A key is text, any text; a field with ``metadata={"static": True}`` is no part of the structure. Nothing here recurses,
so no structure is too deep.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, Protocol, Self

import numpy as np

from .arrays import as_array
from .errors import ArgumentError
from .safetensors import Tensor
from .spec.schema import SAFETENSORS_MAX_HEADER, SAFETENSORS_METADATA
from .text import count, printable, show

__all__ = [
    "Array",
    "Named",
    "Node",
    "TreeMismatchError",
    "check_name",
    "extents",
    "leaf_array",
    "leaf_type",
    "named_leaves",
    "quoted",
    "rebuilt",
    "walk",
]

Array = np.ndarray[Any, np.dtype[Any]]

_MOST_SHOWN: Final = 12  # steps at either end of a path in a message
_STATIC: Final = "static"  # in the metadata of a dataclass field: it holds no structure
_BUILTIN: Final = (dict, list, tuple)

Path = str | Callable[[], str]
"""What a message calls a place: made only when there is something to tell."""


class Named(Protocol):
    """A container of one's own: it tells the names of its parts, and makes another of itself from other parts."""

    def named_leaves(self) -> Iterable[tuple[str, Any]]:
        """Return names and parts, always in the same order. A part is an array, or a structure again.

        Within a structure, a name is one step of the path; an empty one adds nothing to it.
        """

    def with_leaves(self, leaves: Sequence[Any]) -> Self:
        """Return an object like this one with other parts, which are given in the order of ``named_leaves``."""


class TreeMismatchError(ArgumentError):
    """A structure is not like what a checkpoint holds. ``problems`` has a line for each thing that is amiss."""

    def __init__(self, problems: Iterable[str], path: str) -> None:
        self.problems = tuple(problems)
        text = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"does not fit: {count(len(self.problems), 'problem')}{text}", path)

    def __reduce__(self) -> Any:
        return type(self), (self.problems, self.path)


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """A place in a structure. ``children`` is None for a leaf; ``made`` is what takes the place of ``value``."""

    value: Any
    parent: Node | None = None
    key: str | int = ""
    form: str = "root"  # how the parent holds it: item, field, part
    children: list[Node] | None = None
    made: Any = None

    def steps(self) -> list[Node]:
        """Return the nodes on the way from the root, which is left out, to this one."""
        found = []
        node = self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    def name(self) -> str:
        """Return the path, joined with dots."""
        keys = (step.key for step in self.steps() if step.key != "" or step.form != "part")
        return ".".join(key if isinstance(key, str) else str(key) for key in keys)

    def path(self, root: str) -> str:
        """Return the path as a Python expression, for messages."""
        steps: list[Node | None] = [*self.steps()]
        if len(steps) > 2 * _MOST_SHOWN:
            steps[_MOST_SHOWN:-_MOST_SHOWN] = [None]
        return root + "".join("[...]" if step is None else step.shown() for step in steps)

    def shown(self) -> str:
        """Return the last step of the path."""
        return f".{self.key}" if self.form == "field" else f"[{show(self.key)}]"

    @property
    def mutable(self) -> bool:
        """Whether what this container holds can be replaced in place."""
        value: Any = self.value
        if type(value) in _BUILTIN:
            return not isinstance(value, tuple)
        if _is_named(value):
            return False
        if dataclasses.is_dataclass(value):
            return not getattr(value, "__dataclass_params__").frozen  # noqa: B009  # mypy knows none
        return isinstance(value, (list, MutableMapping))

    def replace(self, child: Node, value: Any) -> None:
        """Put a value into this mutable container, in the place of a child's."""
        if child.form == "field":
            setattr(self.value, str(child.key), value)
        else:
            self.value[child.key] = value

    def rebuild(self, parts: list[Any]) -> Any:
        """Return a container like this one, with other parts, in the order of the children."""
        value = self.value
        if _is_named(value):
            return value.with_leaves(parts)
        if dataclasses.is_dataclass(value):
            made = copy.copy(value)
            for child, part in zip(self.children or (), parts, strict=True):
                object.__setattr__(made, str(child.key), part)  # frozen ones, too
            return made
        if isinstance(value, list):
            same = copy.copy(value)
            same[:] = parts
            return same
        if isinstance(value, tuple):
            kind: Any = type(value)
            return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
        pairs = {child.key: part for child, part in zip(self.children or (), parts, strict=True)}
        if isinstance(value, MutableMapping):
            other = copy.copy(value)
            for key, part in pairs.items():
                other[key] = part
            return other
        kind = type(value)
        return kind(pairs)


# ------------------------------------------------------------------------------------------------------------- walking


def walk(tree: Any, root: str) -> list[Node]:
    """Return all places of a structure, each container before its parts, which stay in their order.

    ``root`` is what messages call the structure. Raises ArgumentError for a cycle, a key that is no text, and a leaf
    that is no array.
    """
    nodes: list[Node] = []
    entered: dict[int, Node] = {}  # the containers that the walk is in
    stack: list[tuple[Node, bool]] = [(Node(tree), False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            del entered[id(node.value)]
            continue
        nodes.append(node)
        children = _children(node, root)
        if children is None:
            continue
        first = entered.setdefault(id(node.value), node)
        if first is not node:
            raise ArgumentError(f"the structure is cyclic: this is {first.path(root)} again", node.path(root))
        node.children = children
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children))
    return nodes


def rebuilt(node: Node, root: str) -> Any:
    """Return a container with what was made for its parts. Raises ArgumentError if it cannot be made of them."""
    try:
        return node.rebuild([child.made for child in node.children or ()])
    except Exception as error:
        kind = type(node.value).__name__
        raise ArgumentError(f"no {kind} can be made of other parts: {error}", node.path(root)) from error


def _is_named(value: Any) -> bool:
    return type(value) not in _BUILTIN and hasattr(value, "named_leaves") and hasattr(value, "with_leaves")


def _has_dlpack(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


def _children(node: Node, root: str) -> list[Node] | None:
    """Return the parts of a container, or None for a leaf."""
    value = node.value
    if isinstance(value, (np.ndarray, np.generic, Tensor)):
        return None
    if isinstance(value, type):
        pass
    elif _is_named(value):
        return [Node(part, node, key, "part") for key, part in _pairs(node, root)]
    elif hasattr(value, "__array__") or _has_dlpack(value):
        return None
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.metadata.get(_STATIC, False)]
        for name in names:
            if not hasattr(value, name):
                raise ArgumentError(f"the field {name} was never set", node.path(root))
        return [Node(getattr(value, name), node, name, "field") for name in names]
    elif isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ArgumentError(f"found the key {show(key)}, expected text", node.path(root))
        return [Node(part, node, key, "item") for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        return [Node(part, node, index, "item") for index, part in enumerate(value)]
    elif hasattr(value, "shape") and hasattr(value, "dtype"):  # it tells what an array is like
        return None
    hint = "; numpy.float32(...) and the like give a number a dtype" if isinstance(value, (int, float, complex)) else ""
    if node.form == "field":
        hint += f"; field(metadata={{'{_STATIC}': True}}) leaves a field out"
    found = "a class" if isinstance(value, type) else show(value)
    raise ArgumentError(f"found {found}, expected an array, or a container of such{hint}", node.path(root))


def _pairs(node: Node, root: str) -> Iterator[tuple[str, Any]]:
    for pair in node.value.named_leaves():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ArgumentError(f"named_leaves gives {show(pair)}, expected a name and a part", node.path(root))
        yield pair[0], pair[1]


# ---------------------------------------------------------------------------------------------------------- leaves


def named_leaves(nodes: Iterable[Node], root: str, name_of: Callable[[str], str] = str) -> dict[str, Node]:
    """Return the leaves of a walk by name, in the order of the structure.

    ``name_of`` makes a tensor's name of the path's. Raises ArgumentError for two leaves of one name, and for a name
    that no safetensors file can hold.
    """
    found: dict[str, Node] = {}
    size = 0
    for node in nodes:
        if node.children is not None:
            continue
        name = name_of(node.name())
        check_name(name, functools.partial(node.path, root))
        first = found.setdefault(name, node)
        if first is not node:
            raise ArgumentError(f"{first.path(root)} has the same name, {quoted(name)}", node.path(root))
        size += len(name)
        if size > SAFETENSORS_MAX_HEADER:
            raise ArgumentError(f"the names alone take more than the {SAFETENSORS_MAX_HEADER} bytes of a header", root)
    return found


def check_name(name: str, path: Path) -> None:
    """Refuse a name that no safetensors file can hold: ArgumentError."""
    if name == SAFETENSORS_METADATA:
        raise ArgumentError(f"no tensor can be called {SAFETENSORS_METADATA}: nobody could read the file", _told(path))
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"the name {quoted(name)} has lone surrogates", _told(path)) from None


def _told(path: Path) -> str:
    return path if isinstance(path, str) else path()


def leaf_array(value: Any, path: Path) -> Array:
    """Return a leaf as an array of the same dtype and shape, a view where that is possible. Raises ArgumentError."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, Tensor):
        array = value.value()
        if isinstance(array, Tensor):
            raise ArgumentError(f"numpy has no type for the dtype {value.dtype}", _told(path))
        return array
    if _has_dlpack(value) and not hasattr(value, "__array__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:
            raise ArgumentError(f"{type(value).__name__} does not convert to an array: {error}", _told(path)) from error
    return as_array(value, _told(path))


def leaf_type(value: Any, path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of a leaf, without its values where it tells both. Raises ArgumentError."""
    if type(value) is np.ndarray:
        return value.dtype, value.shape
    if not isinstance(value, Tensor):
        try:
            return np.dtype(value.dtype), tuple(int(extent) for extent in value.shape)
        except (AttributeError, TypeError, ValueError):  # a dtype of another library
            pass
    array = leaf_array(value, path)
    return array.dtype, array.shape


def quoted(name: str) -> str:
    """Return a name, whole, as it may be shown."""
    return f"'{printable(name)}'"


def extents(shape: Iterable[int]) -> str:
    """Return a shape as it is shown."""
    return str([int(extent) for extent in shape])
