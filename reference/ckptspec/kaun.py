"""Kaun's checkpoints: tensors under distinct names, in a safetensors file without metadata.

``Checkpoint.of_params`` names the arrays of a parameter structure, ``to_params`` puts a checkpoint's tensors into one.
A file can hold several sections side by side, told apart by the prefixes of their names::

    kaun.save(path, Checkpoint.concat(
        Checkpoint.of_params(params, prefix="model"),
        Checkpoint.of_params(moments, prefix="optim.mu"),
        Checkpoint.of_int("optim.step", step),
    ))

Structures are described in ``ckptspec.trees``. Arrays of a checkpoint are read-only; what ``to_params`` returns is the
caller's own. What is wrong with a call raises ArgumentError, what is wrong with a file FormatError or OSError.
"""

from __future__ import annotations

import operator
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from . import safetensors
from .errors import ArgumentError, FormatError
from .findings import Finding
from .formats import reading_as
from .safetensors import Tensor
from .safetensors._anatomy import FRAME_SIZE
from .source import BufferSource, Source, open_file
from .spec.dtypes import safetensors_dtype_of, same_type
from .text import printable, show
from .trees import (
    Array,
    Named,
    Node,
    TreeMismatchError,
    check_name,
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

__all__ = [
    "Checkpoint",
    "EmptyNameError",
    "Named",
    "SkippedTensorsWarning",
    "TreeMismatchError",
    "dumps",
    "load",
    "loads",
    "save",
]

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
_INT32: Final = np.iinfo(np.int32)


class SkippedTensorsWarning(UserWarning):
    """A file was loaded without those of its tensors that numpy cannot represent."""


class EmptyNameError(FormatError):
    """A file has a tensor with an empty name: good safetensors, but no checkpoint of Kaun's."""


class Checkpoint:
    """An immutable collection of tensors under distinct, non-empty names.

    ``tensors`` maps names to arrays: numpy's, or what converts to them. They are not copied, and can only be read
    through the checkpoint. Iteration gives the names, sorted. Raises ArgumentError.
    """

    __slots__ = ("_tensors",)
    _tensors: dict[str, Array]

    def __init__(self, tensors: Mapping[str, Any] | None = None) -> None:
        if tensors is not None and not isinstance(tensors, Mapping):
            raise ArgumentError(f"found {show(tensors)}, expected a mapping from names to arrays", "tensors")
        pairs = (tensors or {}).items()
        made = {_checked(name, "tensors"): _own(array, name) for name, array in pairs}
        object.__setattr__(self, "_tensors", dict(sorted(made.items())))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a checkpoint does not change; concat makes another one")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> Any:
        return type(self), (self._tensors,)

    # ------------------------------------------------------------------------------------------------------ making

    @classmethod
    def of_params(cls, params: Any, prefix: str = "") -> Self:
        """Return the leaves of a structure under their names: ``n``, or ``prefix.n``; a bare array's is ``prefix``.

        The arrays are not copied: who changes them before the checkpoint is saved changes what is saved. Raises
        ArgumentError for an empty name, for two leaves of the same name, and for what is no structure of arrays.
        """
        leaves = _leaves(params, prefix, "params")
        return cls({name: leaf_array(node.value, partial(node.path, "params")) for name, node in leaves.items()})

    @classmethod
    def of_tensor(cls, name: str, x: Any) -> Self:
        """Return a checkpoint of one tensor. Raises ArgumentError for an empty name, and what is no array."""
        return cls({_checked(name, "name"): leaf_array(x, "x")})

    @classmethod
    def of_int(cls, name: str, i: int) -> Self:
        """Return a checkpoint of one int32 tensor of shape (1,). Raises ArgumentError if ``i`` does not fit."""
        try:
            value = None if isinstance(i, (bool, np.bool_)) else operator.index(i)
        except TypeError:
            value = None
        if value is None or not _INT32.min <= value <= _INT32.max:
            raise ArgumentError(f"found {show(i)}, expected an integer of {_INT32.min} to {_INT32.max}", "i")
        return cls({_checked(name, "name"): np.array([value], np.int32)})

    @classmethod
    def empty(cls) -> Self:
        """Return a checkpoint of no tensors."""
        return cls()

    @classmethod
    def concat(cls, *checkpoints: Checkpoint) -> Self:
        """Return the union of checkpoints. Raises ArgumentError, with all names that are in more than one of them."""
        made: dict[str, Array] = {}
        again: dict[str, None] = {}
        for index, checkpoint in enumerate(checkpoints):
            if not isinstance(checkpoint, Checkpoint):
                raise ArgumentError(f"found {show(checkpoint)}, expected a Checkpoint", f"checkpoints[{index}]")
            again.update(dict.fromkeys(name for name in checkpoint if name in made))
            made.update(checkpoint._tensors)
        if again:
            raise ArgumentError(f"in more than one of them: {', '.join(map(quoted, sorted(again)))}", "checkpoints")
        return cls(made)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a safetensors file, whoever wrote it; payloads are mapped, and touched when they are used.

        Its metadata is ignored. Tensors that numpy cannot represent (elements smaller than a byte, extents beyond its
        own) are left out, with SkippedTensorsWarning. Raises FormatError if the file is bad, EmptyNameError, which is a
        FormatError, if a tensor has no name; OSError if the system will not read it.
        """
        with open_file(path) as source, reading_as(source, "safetensors"):
            return cls(_content(source))

    @classmethod
    def loads(cls, data: Buffer) -> Self:
        """Read a file from bytes, as ``load`` does; arrays are views of them."""
        return cls(_content(BufferSource(data)))

    # ------------------------------------------------------------------------------------------------------ looking

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(self._tensors)

    def find(self, name: str) -> Array | None:
        """Return a tensor as a read-only array, or None if there is none of that name."""
        return self._tensors.get(name) if isinstance(name, str) else None

    def get(self, name: str) -> Array:
        """Return a tensor as a read-only array. Raises ArgumentError if there is none of that name."""
        array = self.find(name)
        if array is None:
            raise ArgumentError("the checkpoint has no such tensor", f"tensor {show(name)}")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __repr__(self) -> str:
        return f"<Checkpoint of {len(self)}>"

    # --------------------------------------------------------------------------------------------------- taking out

    def to_params(self, like: Any, prefix: str = "", cast: bool = False) -> Any:
        """Return a structure like ``like`` with each leaf replaced by the tensor of the same name.

        ``like`` gives containers, names, shapes and dtypes; its values are not used, so that a leaf may be anything
        that has a numpy dtype and a shape. The result's leaves are new arrays of the machine's byte order, which the
        caller may change. Tensors that ``like`` does not name are ignored. With ``cast``, tensors of another dtype are
        converted as numpy does it: floats are cut off to integers, of complex numbers the real part is taken.

        Raises TreeMismatchError, with every tensor that is missing or has another shape or dtype; ArgumentError if
        ``like`` is no structure of arrays or its names are not distinct and non-empty.
        """
        nodes = walk(like, "like")
        problems = []
        found = []
        for name, node in _leaves(like, prefix, "like", nodes).items():
            dtype, shape = leaf_type(node.value, partial(node.path, "like"))
            array = self._tensors.get(name)
            if array is None:
                problems.append(f"{quoted(name)}: missing from the checkpoint")
            elif array.shape != shape:
                problems.append(f"{quoted(name)}: shape {extents(array.shape)}, expected {extents(shape)}")
            elif not same_type(array.dtype, dtype) and not (cast and safetensors_dtype_of(dtype) is not None):
                hint = "" if cast or safetensors_dtype_of(dtype) is None else "; cast=True converts"
                problems.append(f"{quoted(name)}: dtype {array.dtype}, expected {dtype}{hint}")
            else:
                found.append((node, array, dtype))
        if problems:
            raise TreeMismatchError(problems, "like")
        for node, array, dtype in found:
            node.made = _converted(array, dtype)
        for node in reversed(nodes):
            if node.children is not None:
                node.made = rebuilt(node, "like")
        return nodes[0].made

    def to_int(self, name: str) -> int:
        """Return the only element of an int32 tensor. Raises ArgumentError if it is absent, or something else."""
        array = self.get(name)
        if array.size != 1 or not same_type(array.dtype, np.dtype(np.int32)):
            found = f"found dtype {array.dtype} and shape {extents(array.shape)}, expected one int32 element"
            raise ArgumentError(found, f"tensor {show(name)}")
        return int(array.reshape(())[()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the checkpoint as a safetensors file without metadata, atomically.

        Raises ArgumentError, before anything is written, for a dtype that safetensors does not know; OSError if the
        system will not write, in which case an old file is untouched.
        """
        safetensors.save(path, self._tensors)

    def dumps(self) -> bytes:
        """Return the bytes that ``save`` writes. Raises ArgumentError."""
        return safetensors.dumps(self._tensors)


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Do what ``Checkpoint.load`` does."""
    with open_file(path) as source, reading_as(source, "safetensors"):
        return Checkpoint(_content(source))


def loads(data: Buffer) -> Checkpoint:
    """Do what ``Checkpoint.loads`` does."""
    return Checkpoint(_content(BufferSource(data)))


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Do what ``Checkpoint.save`` does."""
    _given(checkpoint).save(path)


def dumps(checkpoint: Checkpoint) -> bytes:
    """Do what ``Checkpoint.dumps`` does."""
    return _given(checkpoint).dumps()


# --------------------------------------------------------------------------------------------------------------- parts


def _given(checkpoint: Any) -> Checkpoint:
    if not isinstance(checkpoint, Checkpoint):
        raise ArgumentError(f"found {show(checkpoint)}, expected a Checkpoint", "checkpoint")
    return checkpoint


def _checked(name: Any, path: str) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"found {show(name)}, expected a name that is not empty", path)
    check_name(name, path)
    return "".join((name,))  # plain text, whatever a subclass makes of str()


def _own(value: Any, name: str) -> Array:
    array = leaf_array(value, lambda: f"tensor {show(name)}").view()
    array.flags.writeable = False
    return array


def _leaves(tree: Any, prefix: Any, root: str, nodes: list[Node] | None = None) -> dict[str, Node]:
    if not isinstance(prefix, str):
        raise ArgumentError(f"found {show(prefix)}, expected text", "prefix")

    def name_of(path: str) -> str:
        return f"{prefix}.{path}" if prefix and path else prefix or path

    leaves = named_leaves(walk(tree, root) if nodes is None else nodes, root, name_of)
    if "" in leaves:
        raise ArgumentError("its name is empty; a prefix would give it one", leaves[""].path(root))
    return leaves


def _content(source: Source) -> dict[str, Array]:
    """Return the tensors of an open file that numpy can represent, as views of it."""
    tensors: Any = safetensors.read(source).tensors
    if "" in tensors:
        raise _nameless(source)
    made: dict[str, Array] = {}
    skipped = []
    for name in tensors:
        stored: Tensor = tensors.stored(name)
        try:
            array = stored.value()
        except ArgumentError:
            array = stored
        if isinstance(array, Tensor):
            skipped.append(f"{quoted(name)} ({stored.dtype}, shape {extents(stored.shape)})")
        else:
            made[name] = array
    if skipped:
        where = "" if source.name is None else f"{printable(source.name)}: "
        told = f"{where}skipped, since numpy cannot represent them: {', '.join(skipped)}"
        warnings.warn(told, SkippedTensorsWarning, stacklevel=3)
    return made


def _nameless(source: Source) -> EmptyNameError:
    """Return the error for a good file with an empty name: the first key without text in the header itself."""
    depth = place = 0
    for token in _TOKEN.finditer(safetensors.anatomy_of(source).text):
        depth += {b"{": 1, b"}": -1}.get(token[0], 0)
        if depth == 1 and token[0] == b'""':
            place = FRAME_SIZE + token.start()
            break
    finding = Finding(
        rule="SAFETENSORS-TEN-NAMELESS", offset=place, length=2, path="tensor ''", found="''", expected="a name"
    )
    return EmptyNameError(finding, source.name)


def _converted(array: Array, dtype: np.dtype[Any]) -> Array:
    native = dtype.newbyteorder("=")
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    made: Array
    with np.errstate(all="ignore"):
        try:
            made = array.astype(native, order="C")
        except TypeError:  # between F8_E8M0 and the other 8-bit floats there is no direct way
            made = array.astype(np.float32).astype(native, order="C")
    return made
