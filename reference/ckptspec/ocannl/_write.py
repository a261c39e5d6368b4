"""Writing an OCANNL checkpoint: everything is planned and checked first, then the payloads stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import sexp
from .._mapped import steady_blocks
from ..arrays import byte_blocks
from ..errors import ArgumentError
from ..memory import Sink
from ..sexp import Sexp
from ..spec.schema import (
    OCANNL_HEADER,
    OCANNL_INT_MAX,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_MAX_HEADER,
    OCANNL_SEEDS_VERSION,
    OCANNL_TENSOR,
    OCANNL_TRAINING,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    Key,
    OcannlFrame,
)
from ..text import show
from ._anatomy import FRAME_SIZE, precision_atom
from ._checkpoint import Checkpoint, Tensor, TrainingRecord
from ._layout import aligned
from ._nodes import TensorNode, atom, named, raw, whole

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Item", "Plan", "items_of", "plan", "write"]

Blocks = Callable[[], Iterable["Buffer"]]


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor on its way into a file. ``blocks`` gives the payload's bytes, in pieces, when they are wanted."""

    node: TensorNode
    blocks: Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A file about to be written: its header, frame included, and its tensors with the offsets of their payloads."""

    header: bytes
    items: Sequence[Item]
    offsets: Sequence[int]


# --------------------------------------------------------------------------------------------------------- the header


def _number(value: int) -> bytes:
    return sexp.format_int(value)


_WRITERS: Final[dict[str, Callable[[Any], Sexp]]] = {
    "int": _number,
    "atom": raw,
    "atoms": lambda words: tuple(raw(word) for word in words),
    "ints": lambda numbers: tuple(_number(number) for number in numbers),
    "precision": precision_atom,
    "padding": lambda padding: (
        b"none"
        if padding is None
        else (
            tuple((_number(left), _number(right)) for left, right in padding.axes),
            sexp.format_float(padding.neutral),
        )
    ),
    "option": lambda value: b"none" if value is None else (b"some", value),
    "pairs": lambda pairs: tuple((raw(key), raw(value)) for key, value in pairs),
    "nodes": lambda nodes: tuple((raw(namespace), _number(number)) for namespace, number in nodes),
}


def _record(table: Sequence[Key], values: dict[str, Any]) -> tuple[Sexp, ...]:
    return tuple((key.name.encode(), _WRITERS[key.kind](values[key.name])) for key in table if key.name in values)


def _header(alignment: int, items: Sequence[Item], offsets: Sequence[int], training: TrainingRecord | None) -> bytes:
    """Return the header's text, one tensor on a line, without the spaces at its end."""
    kinds = {key.kind: key.name.encode() for key in OCANNL_HEADER}
    head = _record(OCANNL_HEADER, {"version": OCANNL_VERSION, "alignment": alignment})
    lines = [b"(" + b" ".join(map(sexp.dump, head)), b" (" + kinds["tensors"] + b" ("]
    for item, offset in zip(items, offsets, strict=True):
        node = item.node
        values = {
            "id": node.id,
            "namespace": node.namespace,
            "label": node.label,
            "prec": node.precision,
            "dims": node.dims,
            "padding": node.padding,
            "offset": offset,
            "byte_length": node.size,
        }
        lines.append(b"  " + sexp.dump(_record(OCANNL_TENSOR, values)))
    lines[-1] += b"))"
    if training is not None:
        record = {key.name: getattr(training, key.name) for key in OCANNL_TRAINING}
        if training.version < OCANNL_SEEDS_VERSION:
            del record["seeds"]
        lines.append(b" " + sexp.dump((kinds["training"], _record(OCANNL_TRAINING, record))))
    return b"\n".join(lines) + b")"


# ----------------------------------------------------------------------------------------------------------- the plan


def plan(items: Sequence[Item], alignment: int, training: TrainingRecord | None = None) -> Plan:
    """Lay out a file. Raises ArgumentError for what a reader would refuse."""
    alignment = whole(alignment, "alignment", 1, OCANNL_MAX_ALIGNMENT)
    seen: set[Any] = set()
    offsets = []
    end = 0
    for item in items:
        node = item.node
        if node.key in seen:
            raise ArgumentError("occurs twice", node.name)
        seen.add(node.key)
        padding = node.padding
        if padding is not None and math.isnan(padding.neutral) and padding.bits not in _SPELLED_NANS:
            raise ArgumentError(f"the NaN 0x{padding.bits:016x} has no spelling", f"{node.name}: neutral")
        offsets.append(aligned(end, alignment))
        end = offsets[-1] + node.size
    if training is not None:
        _check_training(training, seen)
    text = _header(alignment, items, offsets, training)
    length = aligned(FRAME_SIZE + len(text), alignment) - FRAME_SIZE
    if length > OCANNL_MAX_HEADER:
        raise ArgumentError(f"the header takes {length} bytes, expected at most {OCANNL_MAX_HEADER}", "tensors")
    if FRAME_SIZE + length + end > OCANNL_INT_MAX:
        raise ArgumentError(f"the file takes {FRAME_SIZE + length + end} bytes, more than 63 bits count", "tensors")
    frame = OcannlFrame.build({"header_length": length})
    return Plan(header=frame + text.ljust(length), items=items, offsets=offsets)


_SPELLED_NANS: Final = (0x7FF8000000000000, 0xFFF8000000000000)


def _check_training(training: TrainingRecord, there: set[Any]) -> None:
    if not isinstance(training, TrainingRecord):
        raise ArgumentError(f"found {show(training)}, expected a TrainingRecord", "training")
    if training.version not in OCANNL_TRAINING_VERSIONS:
        known = " or ".join(map(str, OCANNL_TRAINING_VERSIONS))
        raise ArgumentError(f"found {show(training.version)}, expected {known}", "training.version")
    for key in OCANNL_TRAINING:
        if key.kind == "int":
            whole(getattr(training, key.name), f"training.{key.name}", key.least or 0)
    if training.host_rng is not None and not isinstance(training.host_rng, bytes):
        raise ArgumentError(f"found {show(training.host_rng)}, expected bytes", "training.host_rng")
    if (training.seeds is None) != (training.version < OCANNL_SEEDS_VERSION):
        found = "none" if training.seeds is None else "seeds"
        expected = "none" if training.version < OCANNL_SEEDS_VERSION else "seeds"
        raise ArgumentError(f"found {found}, expected {expected} in version {training.version}", "training.seeds")
    for seed in training.seeds or ():
        whole(seed, "training.seeds", -OCANNL_INT_MAX - 1)
    _check_extra(training.extra)
    _check_state(training.state, there)


def _check_extra(extra: Any) -> None:
    keys: set[bytes] = set()
    for pair in extra:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(f"found {show(pair)}, expected a key and a value", "training.extra")
        key = raw(atom(pair[0], "training.extra"))
        atom(pair[1], f"training.extra[{show(pair[0])}]")
        if key in keys:
            raise ArgumentError(f"the key {show(pair[0])} occurs twice", "training.extra")
        keys.add(key)


def _check_state(state: Any, there: set[Any]) -> None:
    if not state:
        raise ArgumentError("is empty, expected at least one tensor", "training.state")
    named_already: set[Any] = set()
    for key in state:
        if key in named_already:
            raise ArgumentError(f"{named(key)} occurs twice", "training.state")
        if key not in there:
            raise ArgumentError(f"{named(key)} is not among the tensors", "training.state")
        named_already.add(key)


# --------------------------------------------------------------------------------------------------------- the payloads


def write(planned: Plan, sink: Sink) -> None:
    """Write a planned file. Raises ArgumentError if an array turns out not to be what its node says."""
    sink.write(planned.header)
    end = 0
    for item, offset in zip(planned.items, planned.offsets, strict=True):
        if offset > end:
            sink.skip(offset - end)
        written = 0
        for block in item.blocks():
            sink.write(block)
            written += memoryview(block).nbytes
            del block  # and with it the array, before the next one is fetched
        if written != item.node.size:
            raise ArgumentError(f"found {written} bytes, expected {item.node.size}", item.node.name)
        end = offset + written


def array_item(node: TensorNode, fetch: Callable[[], Any]) -> Item:
    """Return the item of a node whose array ``fetch`` gives when it is wanted."""

    def blocks() -> Iterable[Buffer]:
        array = node.check(fetch())
        return byte_blocks(array[node.region]) if node.size else ()

    return Item(node, blocks)


def items_of(checkpoint: Checkpoint) -> list[Item]:
    """Return the items of a checkpoint's tensors, each of which has the size that its node says."""
    items = []
    for tensor in checkpoint.tensors:
        if not isinstance(tensor, Tensor) or not isinstance(tensor.node, TensorNode):
            raise ArgumentError(f"found {show(tensor)}, expected a Tensor", "tensors")
        try:
            data = memoryview(tensor.data).cast("B")
        except (TypeError, ValueError):
            found = type(tensor.data).__name__
            raise ArgumentError(f"found {found}, expected contiguous bytes", tensor.node.name) from None
        if data.nbytes != tensor.node.size:
            raise ArgumentError(f"found {data.nbytes} bytes, expected {tensor.node.size}", tensor.node.name)
        items.append(Item(tensor.node, lambda data=data: steady_blocks(data)))  # type: ignore[misc]
    return items
