"""From an examined file to a checkpoint."""

from __future__ import annotations

from typing import Any

from ..examination import Examination
from ..source import Source
from ._anatomy import Anatomy, Entry, Training
from ._checkpoint import Checkpoint, Lazy, Tensor, TrainingRecord
from ._examine import examine
from ._nodes import Padding, TensorNode, atom

__all__ = ["anatomy_of", "checkpoint_from", "node_of", "record_of"]


def anatomy_of(source: Source) -> Anatomy:
    """Read a header; FormatError if a reader must refuse the file."""
    anatomy = examine(Examination(source))
    assert anatomy is not None  # reading raises before it gives up
    return anatomy


def node_of(entry: Entry) -> TensorNode:
    """Return the description of a tensor whose record breaks no rule."""
    parts: Any = entry
    padding = Padding(axes=entry.padding[0], neutral=entry.padding[1]) if entry.padding else None
    return TensorNode.trusted(
        atom(parts.namespace, ""),
        parts.id,
        tuple([atom(word, "") for word in parts.label]),
        parts.prec.ocannl,
        parts.dims,
        padding,
        parts.stored,
        parts.byte_length,
    )


def record_of(training: Training) -> TrainingRecord:
    """Return a training record that breaks no rule."""
    parts: Any = training
    return TrainingRecord(
        version=parts.version,
        step=parts.step,
        epoch=parts.epoch,
        position=parts.position,
        host_rng=parts.host_rng[0] if parts.host_rng else None,
        extra=tuple((atom(key, ""), atom(value, "")) for key, value in parts.extra),
        seeds=parts.seeds,
        state=tuple((atom(namespace, ""), number) for namespace, number in parts.state),
    )


def checkpoint_from(source: Source, anatomy: Anatomy) -> Checkpoint:
    """Return the checkpoint of a file that breaks no reject rule. Its payloads are views of the source."""
    entries: list[Any] = anatomy.entries
    content = source.view(0, source.size)  # made now: it outlives the source

    def make(row: int) -> Tensor:
        entry = entries[row]
        start = anatomy.data + entry.offset
        return Tensor(node=node_of(entry), data=content[start : start + entry.byte_length])

    return Checkpoint(
        tensors=Lazy(len(entries), make),
        alignment=anatomy.alignment,
        training=None if anatomy.training is None else record_of(anatomy.training),
    )
