"""nuvec's trees: all arrays of a structure in a safetensors file, named as MLX names them, and back into the structure.

``save`` writes a tree, ``load_into`` puts a file's tensors into one, which must fit exactly. A leaf's name is its path:
dict keys, positions and fields, joined with dots; that of a tree which is a single array is empty. Structures are
described in ``ckptspec.trees``. For people, the metadata tells the type of the tree's root, the step and the learning
rate, as far as the tree has them.

The tensors of a file that is written here lie at multiples of their element sizes, so that they can be mapped: the
header is padded to a multiple of 8 bytes, no element is larger than that, and larger ones come first.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import safetensors
from .errors import ArgumentError
from .formats import reading_as
from .safetensors._anatomy import Anatomy, Entry
from .source import BufferSource, Source, open_file
from .spec.dtypes import numpy_type
from .text import printable, show
from .trees import (
    Array,
    Named,
    Node,
    TreeMismatchError,
    extents,
    leaf_array,
    leaf_type,
    named_leaves,
    quoted,
    rebuilt,
    walk,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Named", "TreeMismatchError", "dumps", "load_into", "loads_into", "save"]

_FORMAT: Final = "nuvec-tree"
_COUNTERS: Final = ("step", "learning_rate")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_INT64: Final = np.iinfo(np.int64)


def save(path: str | os.PathLike[str], tree: Any, root: str | None = None) -> None:
    """Write all leaves of a tree, atomically; ``root`` is the name of the tree's type, that of its class unless given.

    Raises ArgumentError, before anything is written, for two leaves of one path, for what is no structure of arrays,
    for a dtype that safetensors does not know, and for a scalar called ``step`` or ``learning_rate`` that metadata
    cannot tell. Raises OSError if the system will not write, in which case an old file is untouched.
    """
    arrays, metadata = _content(tree, root)
    safetensors.save(path, arrays, metadata)


def dumps(tree: Any, root: str | None = None) -> bytes:
    """Return the bytes that ``save`` writes. Raises ArgumentError."""
    arrays, metadata = _content(tree, root)
    return safetensors.dumps(arrays, metadata)


def load_into(path: str | os.PathLike[str], tree: Any) -> Any:
    """Replace the leaves of a tree by the tensors of a file; return the tree.

    Every leaf must be in the file, in its shape, and nothing else may be there. The file's dtypes are kept, and its
    metadata does not count. Dicts, lists and dataclasses get their new arrays in place, so that the tree that is
    returned is the very object that was given. What cannot change, tuples, frozen dataclasses and ``Named`` objects, is
    made anew where something in it was replaced, and the container that holds it gets the new one; if the root itself
    is such, the tree that is returned is the only way to it.

    The new arrays can be written to, which does not change the file: they are private views of it, whose pages are
    read when they are touched. A tensor that does not lie at a multiple of its element size is read instead.

    Raises TreeMismatchError with every problem that there is; FormatError if the file is bad; OSError if the system
    will not read it; ArgumentError if the tree is no structure of arrays, or two leaves have one path. Whatever is
    raised, the tree is unchanged.
    """
    with open_file(path) as source, reading_as(source, "safetensors"):
        return _load_into(source, tree)


def loads_into(data: Buffer, tree: Any) -> Any:
    """Do what ``load_into`` does with a file's bytes. The new arrays share nothing with them."""
    return _load_into(BufferSource(data), tree)


# ------------------------------------------------------------------------------------------------------------- writing


def _content(tree: Any, root: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """Return arrays and metadata of a tree's file."""
    if root is not None and not isinstance(root, str):
        raise ArgumentError(f"found {show(root)}, expected the name of a type", "root")
    leaves = named_leaves(walk(tree, "tree"), "tree")
    arrays = {name: leaf_array(node.value, partial(node.path, "tree")) for name, node in leaves.items()}
    metadata = {"format": _FORMAT, "root": type(tree).__name__ if root is None else root}
    for key in _COUNTERS:
        for name, array in arrays.items():
            if array.ndim == 0 and (name == key or name.endswith(f".{key}")):
                metadata[key] = _told(array, leaves[name].path("tree"))
                break
    return arrays, metadata


def _told(array: Array, path: str) -> str:
    """Return a scalar as text: a float in the shortest digits that are only its own, anything else as an integer."""
    if array.dtype.name in _FLOATS:
        return _digits(float(array))
    value = array.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not _INT64.min <= value <= _INT64.max:
        raise ArgumentError(f"the metadata cannot tell {show(value)} of dtype {array.dtype} as a 64-bit integer", path)
    return str(int(value))


def _digits(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ------------------------------------------------------------------------------------------------------------- loading


def _load_into(source: Source, tree: Any) -> Any:
    nodes = walk(tree, "tree")
    leaves = named_leaves(nodes, "tree")
    wanted = {name: leaf_type(node.value, partial(node.path, "tree"))[1] for name, node in leaves.items()}
    anatomy = safetensors.anatomy_of(source)
    entries = {entry.name: entry for entry in anatomy.entries}
    problems = list(_differences(wanted, entries))
    if not problems:
        payloads = _Payloads(source, anatomy)
        for name, node in leaves.items():
            node.made = payloads.array(entries[name])
        problems = list(_conflicts(leaves))
    if problems:
        raise TreeMismatchError(problems, "tree" if source.name is None else printable(source.name))
    return _put(nodes)


def _differences(wanted: dict[str, tuple[int, ...]], entries: dict[str, Entry]) -> Iterator[str]:
    for name, shape in wanted.items():
        entry = entries.get(name)
        if entry is None:
            yield f"{quoted(name)}: missing from the file"
            continue
        assert entry.shape is not None
        assert entry.dtype is not None
        if entry.shape != shape:
            yield f"{quoted(name)}: shape {extents(entry.shape)} in the file, {extents(shape)} in the tree"
        if not entry.dtype.numpy:
            yield f"{quoted(name)}: numpy has no type for the dtype {entry.dtype.safetensors}"
    for name in entries:
        if name not in wanted:
            yield f"{quoted(name)}: unexpected, not in the tree"


class _Payloads:
    """The payloads of an open file, as arrays that can be written to."""

    def __init__(self, source: Source, anatomy: Anatomy) -> None:
        self._source = source
        self._start = anatomy.data
        self._map: memoryview | None = None

    def array(self, entry: Entry) -> Array:
        """Return a private view of a payload; a copy if it does not lie at a multiple of its element size."""
        assert entry.dtype is not None
        assert entry.shape is not None
        assert entry.begin is not None
        assert entry.end is not None
        dtype, offset, size = numpy_type(entry.dtype), self._start + entry.begin, entry.end - entry.begin
        if not size or offset % dtype.itemsize:
            made: Array = np.empty(entry.shape, dtype)
            if size:
                self._source.readinto(offset, memoryview(made.reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
            return made
        if self._map is None:
            self._map = self._source.private()
        return np.ndarray(entry.shape, dtype, self._map, offset)


def _conflicts(leaves: dict[str, Node]) -> Iterator[str]:
    """Find leaves that are one place of the tree, since a container is in it twice, and would get different values."""
    first: dict[tuple[Any, ...], tuple[str, Array]] = {}
    for name, node in leaves.items():
        way: list[str | int] = []
        at = node
        while at.parent is not None:
            way.append(at.key)
            at = at.parent
            if at.mutable:
                break
        if not at.mutable:
            continue
        other, array = first.setdefault((id(at.value), *way), (name, node.made))
        if array is not node.made and (array.dtype != node.made.dtype or array.tobytes() != node.made.tobytes()):
            yield f"{quoted(name)}: another value than {quoted(other)}, which is the same place of the tree"


def _put(nodes: list[Node]) -> Any:
    """Put what was made for the leaves into the tree: all of it, or nothing."""
    changes: list[tuple[Node, Node]] = []
    for node in reversed(nodes):
        if node.children is None:
            continue
        changed = [child for child in node.children if child.made is not child.value]
        if node.mutable:
            changes += ((node, child) for child in changed)
        node.made = rebuilt(node, "tree") if changed and not node.mutable else node.value
    done: list[tuple[Node, Node]] = []
    try:
        for node, child in changes:
            done.append((node, child))
            node.replace(child, child.made)
    except BaseException as error:
        for node, child in reversed(done):
            with contextlib.suppress(Exception):  # a place that takes nothing still has what it had
                node.replace(child, child.value)
        if not isinstance(error, Exception):
            raise
        where = done[-1][1].path("tree")
        raise ArgumentError(f"its place in the tree takes no other array: {error}", where) from error
    return nodes[0].made
