"""A description of a checkpoint's parts for people and programs: what ``inspect`` shows."""

from __future__ import annotations

from typing import Any

from ._anatomy import Anatomy, Entry, Training
from ._nodes import Atom, atom, shown

__all__ = ["description"]


def _text(value: bytes | None) -> str | None:
    return None if value is None else shown(atom(value, ""))


def description(anatomy: Anatomy) -> dict[str, Any]:
    """Return the parts of a file as JSON types. Numbers are numbers here; what cannot be read is null."""
    return {
        "version": anatomy.version,
        "header": {
            "length": anatomy.header_length,
            "alignment": anatomy.alignment,
            "data_offset": anatomy.data if anatomy.text else None,
        },
        "tensors": [_tensor(anatomy, entry) for entry in anatomy.entries],
        "training": None if anatomy.training is None else _training(anatomy.training),
    }


def _tensor(anatomy: Anatomy, entry: Entry) -> dict[str, Any]:
    return {
        "namespace": _text(entry.namespace),
        "id": entry.id,
        "label": None if entry.label is None else [_text(word) for word in entry.label],
        "precision": None if entry.prec is None else entry.prec.ocannl,
        "dims": None if entry.dims is None else list(entry.dims),
        "padding": _padding(entry.padding),
        "offset": None if entry.offset is None else anatomy.data + entry.offset,
        "size": entry.byte_length,
        "accepted": not entry.bad,
    }


def _padding(padding: Any) -> Any:
    if not padding:
        return None
    axes, neutral = padding
    return {"axes": [list(pair) for pair in axes], "neutral": None if neutral is None else repr(neutral)}


def _training(training: Training) -> dict[str, Any]:
    from .host_rng import describe

    def pairs(items: Any) -> Any:
        return None if items is None else [[_text(key), _text(value)] for key, value in items]

    rng: Atom | None = None
    if training.host_rng is not None:
        rng = describe(training.host_rng[0]) if training.host_rng else "none"
    state = training.state
    return {
        "version": training.version,
        "step": training.step,
        "epoch": training.epoch,
        "position": training.position,
        "host_rng": rng,
        "extra": pairs(training.extra),
        "seeds": None if training.seeds is None else list(training.seeds),
        "state": None if state is None else [[_text(namespace), number] for namespace, number in state],
        "accepted": not training.bad,
    }
