"""A maker of OCANNL checkpoints, sound and unsound, for the case definitions.

It shares the schema's tables with the reference and nothing else: it spells S-expressions and lays payloads out by
itself. What it makes by default is what a writer must make; *changes* then spoil single pairs of a record, and the
arguments of ``file`` what surrounds the records, so that a file has the one fault that its case is about.

A value is a tree of spelled atoms: bytes are text that goes into the header as it is, a tuple is a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ....spec.dtypes import OCANNL_PRECISIONS
from ....spec.schema import (
    OCANNL_ALIGNMENT,
    OCANNL_NAMESPACE,
    OCANNL_PRECISION_SUFFIX,
    OCANNL_SEEDS_VERSION,
    OCANNL_VERSION,
    OcannlFrame,
)

__all__ = [
    "Change",
    "Loose",
    "R",
    "T",
    "Text",
    "Tree",
    "add",
    "around",
    "atom",
    "compact",
    "drop",
    "file",
    "frame",
    "order",
    "put",
    "ramp",
    "size_of_frame",
    "swap",
    "text",
    "tree",
]

Tree: TypeAlias = "bytes | tuple[Tree, ...]"
Loose: TypeAlias = "bytes | str | int | tuple[Loose, ...]"
Text: TypeAlias = "str | bytes"
Pair: TypeAlias = "tuple[str, Tree]"
Change: TypeAlias = Callable[[list[Pair]], list[Pair]]
Spell: TypeAlias = Callable[[Tree], bytes]
Dress: TypeAlias = Callable[[bytes], bytes]

_BARE: Final = re.compile(rb'[^\x00-\x20\x7f-\xff"();\\]+')
_ESCAPES: Final = {ord('"'): b'\\"', ord("\\"): b"\\\\", 10: b"\\n", 9: b"\\t", 13: b"\\r", 8: b"\\b"}

_FRAME: Final = OcannlFrame.sizeof()


def ramp(size: int, start: int = 1) -> bytes:
    """Return ``size`` bytes that count up, so that a byte out of place shows."""
    return bytes((start + at) % 256 for at in range(size))


def size_of_frame() -> int:
    """Return the number of bytes in front of the header."""
    return _FRAME


# ---------------------------------------------------------------------------------------------------------- spelling


def atom(value: Text) -> bytes:
    """Return an atom as a writer spells it."""
    raw = value.encode() if isinstance(value, str) else value
    if _BARE.fullmatch(raw) and b"#|" not in raw and b"|#" not in raw:
        return raw
    spelled = (
        _ESCAPES.get(byte) or (bytes([byte]) if 0x20 <= byte <= 0x7E else b"\\%03d" % byte)  # the rest in decimal
        for byte in raw
    )
    return b'"' + b"".join(spelled) + b'"'


def tree(value: Loose) -> Tree:
    """Return a value with its numbers and texts spelled; a text is spelled already."""
    if isinstance(value, tuple):
        return tuple(map(tree, value))
    return value if isinstance(value, bytes) else str(value).encode()


def compact(value: Tree) -> bytes:
    """Return the text of a tree: one blank between the items of a list."""
    return value if isinstance(value, bytes) else b"(" + b" ".join(map(compact, value)) + b")"


# ----------------------------------------------------------------------------------------------------------- records


def put(key: str, value: Loose) -> Change:
    """Give a pair another value."""
    return lambda pairs: [(known, (key.encode(), tree(value)) if known == key else pair) for known, pair in pairs]


def drop(key: str) -> Change:
    """Leave a pair out."""
    return lambda pairs: [pair for pair in pairs if pair[0] != key]


def add(pair: Loose, at: int | None = None) -> Change:
    """Insert something at a position, by default at the end."""

    def change(pairs: list[Pair]) -> list[Pair]:
        where = len(pairs) if at is None else at
        return [*pairs[:where], ("", tree(pair)), *pairs[where:]]

    return change


def order(*keys: str) -> Change:
    """Put the pairs into another order: those named come first."""
    return lambda pairs: sorted(pairs, key=lambda pair: keys.index(pair[0]) if pair[0] in keys else len(keys))


def _record(values: dict[str, Loose], changes: Iterable[Change]) -> Tree:
    pairs: list[Pair] = [(key, (key.encode(), tree(value))) for key, value in values.items()]
    for change in changes:
        pairs = change(pairs)
    return tuple(pair for _, pair in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class T:
    """A tensor to be made.

    ``padding`` is ((left, right) per axis, the neutral value as it is spelled). ``data`` is the payload, a ramp of the
    right size where it is None; ``at`` is its place in the data section where that is not the next aligned one. What
    ``changes`` make of the record does not move the payload.
    """

    id: int = 0
    namespace: Text = OCANNL_NAMESPACE
    label: tuple[Text, ...] = ("w",)
    prec: str = "single"
    dims: tuple[int, ...] = (2,)
    padding: tuple[tuple[tuple[int, int], ...], str] | None = None
    data: bytes | None = None
    at: int | None = None
    changes: tuple[Change, ...] = ()

    def payload(self) -> bytes:
        """Return the payload."""
        if self.data is not None:
            return self.data
        margins = self.padding[0] if self.padding else ((0, 0),) * len(self.dims)
        size = OCANNL_PRECISIONS[self.prec].size
        for extent, (left, right) in zip(self.dims, margins, strict=True):
            size *= extent - left - right
        return ramp(size)

    def but(self, *changes: Change) -> T:
        """Return the tensor with changes to its record."""
        return replace(self, changes=(*self.changes, *changes))

    def record(self, offset: int) -> Tree:
        """Return the record, given where the payload lies."""
        values: dict[str, Loose] = {
            "id": self.id,
            "namespace": atom(self.namespace),
            "label": tuple(map(atom, self.label)),
            "prec": self.prec.capitalize() + OCANNL_PRECISION_SUFFIX,
            "dims": self.dims,
            "padding": self.padding or "none",
            "offset": offset,
            "byte_length": len(self.payload()),
        }
        return _record(values, self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class R:
    """A training record to be made. By default the state is the one tensor that a file has by default."""

    version: int = OCANNL_SEEDS_VERSION
    step: int = 12
    epoch: int = 1
    position: int = 640
    host_rng: bytes | None = None
    extra: tuple[tuple[Text, Text], ...] = ()
    seeds: tuple[int, ...] | None = (42, 7)
    state: tuple[tuple[Text, int], ...] = ((OCANNL_NAMESPACE, 0),)
    changes: tuple[Change, ...] = ()

    def but(self, *changes: Change) -> R:
        """Return the record with changes."""
        return replace(self, changes=(*self.changes, *changes))

    def record(self) -> Tree:
        """Return the record."""
        values: dict[str, Loose] = {
            "version": self.version,
            "step": self.step,
            "epoch": self.epoch,
            "position": self.position,
            "host_rng": "none" if self.host_rng is None else ("some", atom(self.host_rng)),
            "extra": tuple((atom(key), atom(value)) for key, value in self.extra),
            **({} if self.seeds is None else {"seeds": self.seeds}),
            "state": tuple((atom(namespace), number) for namespace, number in self.state),
        }
        return _record(values, self.changes)


# ------------------------------------------------------------------------------------------------------------- files


def around(front: bytes = b"", back: bytes = b"") -> Dress:
    """Put something in front of the header's text and behind it."""
    return lambda made: front + made + back


def swap(old: bytes, new: bytes) -> Dress:
    """Replace a piece of the header's text, wherever it stands; it must stand there."""

    def change(made: bytes) -> bytes:
        assert old in made, old
        return made.replace(old, new)

    return change


def frame(header: bytes, data: bytes = b"", *, alignment: int = 1, more: int = 0, length: int | None = None) -> bytes:
    """Return a file: ``header`` padded to ``alignment`` and then by ``more`` spaces, and the data section.

    ``length`` is a header length that is not true.
    """
    padded = header + b" " * (-(_FRAME + len(header)) % alignment + more)
    made: bytes = OcannlFrame.build({"header_length": len(padded) if length is None else length})
    return made + padded + data


def _data(tensors: Sequence[T], alignment: int, fill: bytes) -> tuple[list[int], bytes]:
    offsets: list[int] = []
    data = bytearray()
    end = 0
    for item in tensors:
        payload = item.payload()
        at = -(-end // alignment) * alignment if item.at is None else item.at
        end = at + len(payload)
        if payload:  # what has no bytes makes no gap
            data += fill * (end - len(data))
            data[at:end] = payload
        offsets.append(at)
    return offsets, bytes(data) + fill * (max(offsets, default=0) - len(data))


def text(
    *tensors: T,
    alignment: int | None = OCANNL_ALIGNMENT,
    training: R | None = None,
    header: Iterable[Change] = (),
    spell: Spell = compact,
) -> bytes:
    """Return the text of a header. An ``alignment`` of None leaves its pair out and lays out for 1."""
    offsets, _ = _data(tensors, alignment or 1, b"\0")
    values: dict[str, Loose] = {
        "version": OCANNL_VERSION,
        **({} if alignment is None else {"alignment": alignment}),
        "tensors": tuple(item.record(offset) for item, offset in zip(tensors, offsets, strict=True)),
        **({} if training is None else {"training": training.record()}),
    }
    return spell(_record(values, header))


def file(
    *tensors: T,
    alignment: int | None = OCANNL_ALIGNMENT,
    training: R | None = None,
    header: Iterable[Change] = (),
    spell: Spell = compact,
    dress: Dress = lambda made: made,
    pad: bool = True,
    more: int = 0,
    length: int | None = None,
    fill: bytes = b"\0",
    tail: bytes = b"",
) -> bytes:
    """Return a whole file.

    ``header`` are changes to the header's outermost record, ``dress`` changes its text. ``pad`` says whether the header
    is padded to the alignment, ``more`` how many spaces follow then; ``length`` is a false header length; ``fill`` is
    the byte in gaps; ``tail`` comes after the payloads.
    """
    _, data = _data(tensors, alignment or 1, fill)
    made = dress(text(*tensors, alignment=alignment, training=training, header=header, spell=spell))
    return frame(made, data + tail, alignment=(alignment or 1) if pad else 1, more=more, length=length)
