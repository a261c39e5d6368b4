"""Checkpoints of a running program: saving the values of nodes, loading them as new nodes, restoring existing ones."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..formats import reading_as
from ..publish import publishing
from ..source import Source, open_file
from ..spec.schema import OCANNL_ALIGNMENT
from ..text import printable, show
from ._anatomy import Anatomy
from ._checkpoint import Tensor, TrainingRecord
from ._nodes import Array, Atom, Context, TensorNode, atom, named, raw
from ._read import anatomy_of, node_of, record_of
from ._write import Item, array_item, plan, write

__all__ = [
    "IngestionCounts",
    "Opened",
    "Settings",
    "ingestion_counts",
    "load",
    "opened",
    "reset_ingestion_counts",
    "restore",
    "save",
    "save_nodes",
    "settings",
]


@dataclass(slots=True)
class Settings:
    """Options of the calls. ``checkpoint_load_mmap``: whether payloads are mapped unless a call says otherwise."""

    checkpoint_load_mmap: bool = True


settings: Final = Settings()


class IngestionCounts(NamedTuple):
    """How many payloads were mapped, and how many were copied into buffers of their own."""

    mapped: int
    copied: int


_counts = IngestionCounts(0, 0)
_counting: Final = threading.Lock()


def ingestion_counts() -> IngestionCounts:
    """Return how many payloads were mapped and copied since the program started, or since the counts were reset."""
    return _counts


def reset_ingestion_counts() -> None:
    """Count from zero again."""
    global _counts
    with _counting:
        _counts = IngestionCounts(0, 0)


def _count(mapped: int, copied: int) -> None:
    global _counts
    with _counting:
        _counts = IngestionCounts(_counts.mapped + mapped, _counts.copied + copied)


# ----------------------------------------------------------------------------------------------------------------- save


def save(
    ctx: Context,
    nodes: Iterable[TensorNode],
    path: str | os.PathLike[str],
    *,
    appending: bool = False,
    alignment: int = OCANNL_ALIGNMENT,
) -> None:
    """Write the current values of nodes to a checkpoint, atomically.

    With ``appending``, tensors of an existing file that are not among the nodes are kept, before the nodes' and in
    the file's order, and so is its training record, unless a tensor of its state would be replaced: that is refused.
    Arrays are fetched from the context one by one while the file is written, in the order of ``nodes``; sets are
    written in the order of namespace and id. Whatever fails, the old file stays as it was. Raises ArgumentError for a
    node without a value or one that a checkpoint cannot hold, FormatError if the file to append to must be refused,
    OSError if the system will not write.
    """
    save_nodes(ctx, nodes, path, appending=appending, alignment=alignment)


def save_nodes(
    ctx: Context,
    nodes: Iterable[TensorNode],
    path: str | os.PathLike[str],
    *,
    appending: bool = False,
    alignment: int = OCANNL_ALIGNMENT,
    training: TrainingRecord | None = None,
) -> None:
    """Do what ``save`` does, with a training record."""
    _context(ctx)
    chosen = _nodes(nodes)
    missing = [node.name for node in chosen if node not in ctx]
    if missing:
        raise ArgumentError(f"not in the context: {_listed(missing)}", "nodes")
    with ExitStack() as stack:
        items: list[Item] = []
        if appending:
            with contextlib.suppress(FileNotFoundError):
                old = stack.enter_context(opened(path))
                replaced = {node.key for node in chosen}
                items = [item for item in old.items() if item.node.key not in replaced]
                training = old.kept_training(replaced) if training is None else training
        items += [array_item(node, lambda node=node: ctx[node]) for node in chosen]  # type: ignore[misc]
        planned = plan(items, alignment, training)
        with publishing(path) as draft:
            write(planned, draft)


def _context(ctx: Any) -> None:
    if not isinstance(ctx, Context):
        raise ArgumentError(f"found {show(ctx)}, expected a Context", "ctx")


def _nodes(nodes: Any) -> list[TensorNode]:
    """Return nodes without repetitions, those of a set in the order of their keys."""
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable):
        raise ArgumentError(f"found {show(nodes)}, expected nodes", "nodes")
    given = list(nodes)
    for node in given:
        if not isinstance(node, TensorNode):
            raise ArgumentError(f"found {show(node)}, expected a TensorNode", "nodes")
    chosen = list(dict.fromkeys(given))
    if isinstance(nodes, Set):
        chosen.sort(key=lambda node: (raw(node.namespace), node.id))
    return chosen


def _listed(names: list[str], most: int = 20) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# ------------------------------------------------------------------------------------------------------- load, restore


class Opened:
    """A checkpoint file whose header was read and that is still open."""

    def __init__(self, source: Source, anatomy: Anatomy) -> None:
        self.name = printable(source.name or "")
        self._source = source
        self._anatomy = anatomy
        self.training = None if anatomy.training is None else record_of(anatomy.training)

    def _place(self, row: int) -> tuple[int, int]:
        """Return offset in the file and size of a payload."""
        entry = self._anatomy.entries[row]
        assert entry.offset is not None
        assert entry.byte_length is not None
        return self._anatomy.data + entry.offset, entry.byte_length

    def items(self) -> list[Item]:
        """Return all tensors as they would be written again."""
        made = []
        for row, node in enumerate(self.nodes()):
            offset, size = self._place(row)
            made.append(Item(node, lambda offset=offset, size=size: self._source.blocks(offset, size)))  # type: ignore[misc]
        return made

    def kept_training(self, replaced: set[tuple[Atom, int]]) -> TrainingRecord | None:
        """Return the training record for a file with some tensors replaced; ArgumentError if they are of its state."""
        if self.training is None:
            return None
        lost = [named(key) for key in self.training.state if key in replaced]
        if lost:
            told = "its training record would go with other values; ckptspec.ocannl.training.save writes both"
            raise ArgumentError(f"would replace {_listed(lost)} of the state of a training run: {told}", self.name)
        return self.training

    def nodes(self) -> list[TensorNode]:
        """Return the description of each tensor, in the file's order."""
        return [node_of(entry) for entry in self._anatomy.entries]

    def arrays(self, wanted: dict[int, TensorNode], mmap: bool | None) -> dict[TensorNode, Array]:
        """Return the values of some tensors, by their rows in the file, as arrays of nodes."""
        mapping = settings.checkpoint_load_mmap if mmap is None else mmap
        shapes = {row: node.shape for row, node in wanted.items()}  # refuses what numpy cannot hold, before any work
        mappable = {row for row, node in wanted.items() if mapping and self._mappable(row, node)}
        content = self._source.private() if mappable else None
        made: dict[TensorNode, Array] = {}
        for row, node in wanted.items():
            offset, size = self._place(row)
            if row in mappable:
                assert content is not None
                made[node] = np.ndarray(shapes[row], node.dtype, content[offset : offset + size])
            else:
                made[node] = self._copied(node, offset, size)
        _count(len(mappable), len(wanted) - len(mappable))
        return made

    def _mappable(self, row: int, node: TensorNode) -> bool:
        """Say whether the payload's bytes in the file are exactly those of the array, and lie as an array's must."""
        offset, size = self._place(row)
        return bool(size) and node.dims != () and node.stored == node.dims and not offset % node.scalar.size

    def _copied(self, node: TensorNode, offset: int, size: int) -> Array:
        try:
            content = bytearray(size)
        except MemoryError:
            raise ArgumentError(
                f"memory cannot hold its {size} bytes; a mapping would not copy them", node.name
            ) from None
        self._source.readinto(offset, memoryview(content))
        return Tensor(node=node, data=content).value()

    def restored(self, ctx: Context, nodes: Iterable[TensorNode], mmap: bool | None) -> Context:
        """Return a context with the values of existing nodes. Raises ArgumentError, naming every node that fails."""
        there = {node.key: (row, node) for row, node in enumerate(self.nodes())}
        wanted: dict[int, TensorNode] = {}
        wrong: list[str] = []
        for node in nodes:
            if node.key not in there:
                wrong.append(f"{node.name} is not in the file")
                continue
            row, stored = there[node.key]
            differences = [
                f"{what} {_described(getattr(stored, what))} in the file, {_described(getattr(node, what))} here"
                for what in ("precision", "dims", "padding")
                if getattr(stored, what) != getattr(node, what)
            ]
            if differences:
                wrong.append(f"{node.name} has {' and '.join(differences)}")
            wanted[row] = node
        if wrong:
            raise ArgumentError(f"{'; '.join(wrong[:20])}{_more(wrong)}", self.name)
        return ctx.updated(self.arrays(wanted, mmap))


def _more(wrong: list[str]) -> str:
    return f"; and {len(wrong) - 20} more" if len(wrong) > 20 else ""


def _described(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str):
        return value
    return f"{[list(pair) for pair in value.axes]} of {value.neutral!r} (0x{value.bits:016x})"


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a checkpoint file and read its header; FormatError if a reader must refuse it."""
    with open_file(path) as source:
        with reading_as(source, "ocannl"):
            anatomy = anatomy_of(source)
        yield Opened(source, anatomy)


_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def load(
    ctx: Context,
    path: str | os.PathLike[str],
    *,
    prefix_namespace: str | None = None,
    mmap: bool | None = None,
) -> tuple[Context, frozenset[TensorNode]]:
    """Create a node for every tensor of a checkpoint; return a context with their values, and the nodes.

    Nodes are registered in the context's registry, whose next ids are above those that were loaded into the ambient
    namespace. ``prefix_namespace`` p makes ``p__n`` of each namespace n; None and "" leave them as they are. With
    ``mmap`` (None: as ``settings`` say) a payload whose bytes are exactly the array's is mapped copy-on-write: writing
    to the array changes neither the file nor what others read. Raises FormatError if the file must be refused,
    ArgumentError, with nothing created, if a namespace and id is taken or the prefix is no identifier.
    """
    _context(ctx)
    if prefix_namespace is not None and not isinstance(prefix_namespace, str):
        raise ArgumentError(f"found {show(prefix_namespace)}, expected text", "prefix_namespace")
    if prefix_namespace and not _PREFIX.fullmatch(prefix_namespace):
        raise ArgumentError(f"found {show(prefix_namespace)}, expected an identifier", "prefix_namespace")
    with opened(path) as file:
        nodes = [_renamed(node, prefix_namespace) for node in file.nodes()]
        clashes = [node.name for node in nodes if node in ctx.registry or node in ctx]
        if clashes:
            raise ArgumentError(f"registered already: {_listed(clashes)}", file.name)
        updated = ctx.updated(file.arrays(dict(enumerate(nodes)), mmap))
    ctx.registry.add(nodes)
    return updated, frozenset(nodes)


def _renamed(node: TensorNode, prefix: str | None) -> TensorNode:
    if not prefix:
        return node
    namespace: Atom = atom(f"{prefix}__".encode() + raw(node.namespace), "namespace")
    return TensorNode.trusted(
        namespace, node.id, node.label, node.precision, node.dims, node.padding, node.stored, node.size
    )


def restore(
    ctx: Context, nodes: Iterable[TensorNode], path: str | os.PathLike[str], *, mmap: bool | None = None
) -> Context:
    """Return a context in which existing nodes have the values that a checkpoint holds for them.

    Nodes are found by namespace and id. No nodes at all are nothing to do. Raises FormatError if the file must be
    refused; ArgumentError, naming every node that fails, if one is not in the file or has another precision, other
    dims or another padding there (the bits of the neutral value included).
    """
    _context(ctx)
    chosen = _nodes(nodes)
    if not chosen:
        return ctx
    with opened(path) as file:
        return file.restored(ctx, chosen, mmap)
