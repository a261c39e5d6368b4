"""Training checkpoints: the tensors of a run and where it stood, in one file, published in one step.

A checkpoint holds values, not the program. To resume, build the same model and routines in the same order, so that the
same ids come out; initialise the parameters as usual; ``restore``; and go on from the progress that it returns.
``training_state`` finds what has to be saved: the parameters, and what each routine carries from one run to the next.

OCANNL checkpoints, training record. ``host_rng`` makes bytes of generators; ``host_state`` keeps what is no tensor.
"""

from __future__ import annotations

import os
import typing
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..errors import ArgumentError
from ..spec.schema import OCANNL_ALIGNMENT, OCANNL_INT_MAX
from ..text import printable, show
from ._checkpoint import TrainingRecord
from ._nodes import Atom, Context, TensorNode, atom, raw, whole
from ._persistence import opened, save_nodes
from .host_rng import Kind, rebuild
from .host_state import EarlyStopping, HostState, LossScaler, OutlierDetector

__all__ = [
    "Access",
    "EarlyStopping",
    "HasParams",
    "HostState",
    "Loss",
    "LossScaler",
    "OutlierDetector",
    "Progress",
    "Routine",
    "SeedsUncheckedWarning",
    "Segment",
    "carried_state",
    "read",
    "restore",
    "save",
    "training_state",
    "update",
    "write",
]

Pairs = Mapping[Atom, Atom] | Mapping[str, str] | Iterable[tuple[Atom, Atom]]

_MOST_NAMED: Final = 100  # of the nodes or seeds that a message lists


class SeedsUncheckedWarning(UserWarning):
    """A checkpoint was restored that does not tell the seeds of its program, so that nobody could compare them."""


# ------------------------------------------------------------------------------------------------------------ progress


@dataclass(frozen=True, slots=True, init=False)
class Progress:
    """Where a training run stands.

    ``step`` counts the optimizer steps that are done, ``epoch`` is the epoch that is going on, ``position`` is where in
    the epoch's data the next batch starts, in the loop's own units. ``host_rng`` is the state of the host's random
    generator, as ``host_rng.capture`` returns it; ``generator`` makes one of it. ``extra`` is what else the loop keeps,
    keys and values, in their order; they may be given as a mapping. What is UTF-8 among them comes back as text, all
    else as bytes. Raises ArgumentError for what is no such value.
    """

    step: int
    epoch: int
    position: int
    host_rng: bytes | None
    extra: tuple[tuple[Atom, Atom], ...]

    def __init__(
        self,
        *,
        step: int = 0,
        epoch: int = 0,
        position: int = 0,
        host_rng: bytes | None = None,
        extra: Pairs = (),
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("step", whole(step, "step"))
        put("epoch", whole(epoch, "epoch"))
        put("position", whole(position, "position"))
        if host_rng is not None and not isinstance(host_rng, (bytes, bytearray, memoryview)):
            hint = "expected bytes or None; host_rng.capture() makes bytes of a generator"
            raise ArgumentError(f"found {show(host_rng)}, {hint}", "host_rng")
        put("host_rng", None if host_rng is None else bytes(host_rng))
        put("extra", _pairs(extra))

    def get(self, key: Atom) -> Atom | None:
        """Return the value of a key of ``extra``, or None if there is none."""
        return dict(self.extra).get(atom(key, "key"))

    def generator(self, kind: type[Kind]) -> Kind:
        """Return a fresh generator with the state of ``host_rng``; ArgumentError if it is of another kind, or none."""
        return rebuild(typing.cast(bytes, self.host_rng), kind)


def _pairs(extra: Any) -> tuple[tuple[Atom, Atom], ...]:
    items = extra.items() if isinstance(extra, Mapping) else extra
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise ArgumentError(f"found {show(extra)}, expected a mapping, or pairs of key and value", "extra")
    made = []
    for index, pair in enumerate(items):
        if isinstance(pair, (str, bytes)) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ArgumentError(f"found {show(pair)}, expected a key and a value", f"extra[{index}]")
        made.append((atom(pair[0], f"extra[{index}]"), atom(pair[1], f"extra[{index}]")))
    return tuple(made)


# ------------------------------------------------------------------------------------------------------------ routines


@dataclass(frozen=True, slots=True)
class Access:
    """That a kernel reads or writes a node. If it does both, it reads first."""

    node: TensorNode
    reads: bool = False
    writes: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.node, TensorNode):
            raise ArgumentError(f"found {show(self.node)}, expected a TensorNode", "node")


def read(node: TensorNode) -> Access:
    """Return the access of a kernel that reads a node."""
    return Access(node, reads=True)


def write(node: TensorNode) -> Access:
    """Return the access of a kernel that writes a node, whatever its value was."""
    return Access(node, writes=True)


def update(node: TensorNode) -> Access:
    """Return the access of a kernel that writes a node after it has read it, as an accumulation does."""
    return Access(node, reads=True, writes=True)


@dataclass(frozen=True, slots=True)
class Segment:
    """One kernel of a routine: what it reads and writes, in the order in which it does so first."""

    accesses: Sequence[Access] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "accesses", _all_of(Access, self.accesses, "accesses"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """A compiled piece of a program, such as the step of an optimizer: its kernel segments, in the order they run.

    ``virtual`` are nodes without memory of their own: their computation is part of whatever uses them, so that they
    carry nothing, whatever the segments say of them. All other nodes are materialized.
    """

    name: str = "routine"
    segments: Sequence[Segment] = ()
    virtual: Iterable[TensorNode] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", _all_of(Segment, self.segments, "segments"))
        object.__setattr__(self, "virtual", frozenset(_all_of(TensorNode, self.virtual, "virtual")))


def carried_state(routine: Routine) -> tuple[TensorNode, ...]:
    """Return the nodes whose values a routine carries from one run to the next, in the order of their first reading.

    They are the materialized nodes that it writes, and reads before it writes them: updated parameters, moments of an
    optimizer, accumulators. A node that is only read is an input, one that is written before any reading carries
    nothing. A write counts for the whole node. Raises ArgumentError for a routine without kernel segments.
    """
    if not isinstance(routine, Routine):
        raise ArgumentError(f"found {show(routine)}, expected a Routine", "routine")
    if not routine.segments:
        raise ArgumentError("it records no kernel segments, so what it carries is unknown", printable(routine.name))
    entering: dict[TensorNode, None] = {}
    written: set[TensorNode] = set()
    for segment in routine.segments:
        for access in segment.accesses:
            if access.reads and access.node not in written:
                entering[access.node] = None
            if access.writes:
                written.add(access.node)
    virtual = frozenset(routine.virtual)
    return tuple(node for node in entering if node in written and node not in virtual)


class HasParams(Protocol):
    """Anything that knows the parameters of a loss."""

    @property
    def params(self) -> Iterable[TensorNode]:
        """The parameters, frozen ones included."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, of which only the parameters matter here, frozen ones included."""

    params: Iterable[TensorNode] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", _all_of(TensorNode, self.params, "params"))


def training_state(
    routines: Iterable[Routine], loss: HasParams, *, extra: Iterable[TensorNode] = ()
) -> tuple[TensorNode, ...]:
    """Return the nodes that a training checkpoint has to hold, each once, in this order.

    The parameters of the loss, frozen ones included; what each routine carries (``carried_state``); and ``extra``, for
    nodes that none of the routines carries. Nothing is found by its label. Raises ArgumentError.
    """
    if not hasattr(loss, "params"):
        raise ArgumentError(f"found {show(loss)}, expected something that has params", "loss")
    found = list(_all_of(TensorNode, loss.params, "loss.params"))
    for routine in _all_of(Routine, routines, "routines"):
        found += carried_state(routine)
    return _once((*found, *_all_of(TensorNode, extra, "extra")), "training_state")


def _all_of(kind: type[Any], values: Any, path: str) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ArgumentError(f"found {show(values)}, expected a collection of {kind.__name__}", path)
    made = tuple(values)
    for index, value in enumerate(made):
        if not isinstance(value, kind):
            raise ArgumentError(f"found {show(value)}, expected {kind.__name__}", f"{path}[{index}]")
    return made


def _once(nodes: Iterable[TensorNode], path: str) -> tuple[TensorNode, ...]:
    """Return nodes without repetitions; ArgumentError if two of a namespace and id are not the same otherwise."""
    made: dict[TensorNode, TensorNode] = {}
    for node in nodes:
        first = made.setdefault(node, node)
        if (first.precision, first.dims, first.padding) != (node.precision, node.dims, node.padding):
            raise ArgumentError(f"{node.name} stands for two nodes that differ in precision, dims or padding", path)
    return tuple(made)


# ---------------------------------------------------------------------------------------------------- save and restore


def save(
    ctx: Context,
    progress: Progress,
    state: Iterable[TensorNode],
    path: str | os.PathLike[str],
    *,
    seeds: Iterable[int] | None = None,
    alignment: int = OCANNL_ALIGNMENT,
) -> None:
    """Write a training checkpoint: the values of the nodes of ``state``, and the progress.

    ``seeds`` are all random seeds that the program has created, in that order; unless given, those of the context's
    registry. The file is replaced atomically. The state is a set: whatever the order and the repetitions in which it is
    given, the file is the same. Raises ArgumentError, before anything is written, for an empty state, a key that occurs
    twice in ``extra``, a node without a value, a seed beyond 63 bits; OSError if the system will not write.
    """
    if not isinstance(ctx, Context):
        raise ArgumentError(f"found {show(ctx)}, expected a Context", "ctx")
    if not isinstance(progress, Progress):
        raise ArgumentError(f"found {show(progress)}, expected a Progress", "progress")
    nodes = sorted(_once(_all_of(TensorNode, state, "state"), "state"), key=_sorting)
    if not nodes:
        raise ArgumentError("is empty: there would be nothing to resume", "state")
    keys = set()
    for key, _ in progress.extra:
        if key in keys:
            raise ArgumentError(f"the key {show(key)} occurs twice", "extra")
        keys.add(key)
    record = TrainingRecord(
        step=progress.step,
        epoch=progress.epoch,
        position=progress.position,
        host_rng=progress.host_rng,
        extra=progress.extra,
        seeds=_seeds(ctx.registry.seeds if seeds is None else seeds),
        state=tuple(node.key for node in nodes),
    )
    save_nodes(ctx, nodes, path, alignment=alignment, training=record)


def restore(
    ctx: Context,
    state: Iterable[TensorNode],
    path: str | os.PathLike[str],
    *,
    seeds: Iterable[int] | None = None,
    mmap: bool | None = None,
) -> tuple[Context, Progress]:
    """Return a context with the values of a training checkpoint, and where the run stood; ``ctx`` stays as it is.

    ``state`` must be exactly the set of nodes that the file was saved from, and ``seeds`` (unless given, those of the
    context's registry) those of the file, in the order of their creation: a seed means another thing in another place.
    With a file that does not tell the seeds (a training record of version 1), SeedsUncheckedWarning is given. ``mmap``
    overrides the setting of that name for this call.

    Raises ArgumentError, which names the file, if one of these does not hold, if the file has no training record, or if
    a node's precision, dims or padding are not the file's; FormatError if the file is bad; OSError.
    """
    if not isinstance(ctx, Context):
        raise ArgumentError(f"found {show(ctx)}, expected a Context", "ctx")
    nodes = _once(_all_of(TensorNode, state, "state"), "state")
    with opened(path) as file:
        name = file.name
        record = file.training
        if record is None:
            raise ArgumentError("it holds no training record: it is no training checkpoint", name)
        given = {node.key: node for node in nodes}
        there = {node.key: node for node in file.nodes()}
        saved = {key: there[key] for key in record.state}
        if given.keys() != saved.keys():
            absent = [given[key] for key in given if key not in saved]
            missed = [saved[key] for key in saved if key not in given]
            told = "the state is not the set of nodes that was saved"
            raise ArgumentError(f"{told}: only given: {_names(absent)}; only saved: {_names(missed)}", name)
        own = _seeds(ctx.registry.seeds if seeds is None else seeds)
        if record.seeds is not None and record.seeds != own:
            found = f"its program had the seeds {_listed(record.seeds)}, this one has {_listed(own)}"
            raise ArgumentError(f"{found}: the same seeds in the same order are needed", name)
        restored = file.restored(ctx, nodes, mmap)
    if record.seeds is None:
        told = f"its training record, of version {record.version}, does not tell the seeds: they cannot be checked"
        warnings.warn(f"{name}: {told}", SeedsUncheckedWarning, stacklevel=2)
    progress = Progress(
        step=record.step,
        epoch=record.epoch,
        position=record.position,
        host_rng=record.host_rng,
        extra=record.extra,
    )
    return restored, progress


def _sorting(node: TensorNode) -> tuple[bytes, int]:
    return raw(node.namespace), node.id


def _seeds(seeds: Any) -> tuple[int, ...]:
    if isinstance(seeds, (str, bytes, Mapping)) or not isinstance(seeds, Iterable):
        raise ArgumentError(f"found {show(seeds)}, expected a collection of integers", "seeds")
    return tuple(whole(seed, f"seeds[{index}]", -OCANNL_INT_MAX - 1) for index, seed in enumerate(seeds))


def _names(nodes: list[TensorNode]) -> str:
    return _listed([node.name for node in sorted(nodes, key=_sorting)])


def _listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return (", ".join(map(str, items[:_MOST_NAMED])) or "none") + more
