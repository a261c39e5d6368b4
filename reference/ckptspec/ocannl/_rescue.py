"""Rescuing what can be read of a damaged checkpoint.

There are no checksums, so a payload that lies within the file counts as intact. Where the header's text is damaged, the
tensor records in it that are whole are found one by one.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .. import sexp
from ..examination import Examination, Stop
from ..findings import Report, Survivor, header_survivor
from ..source import Source
from ..spec.schema import (
    OCANNL_ALIGNMENT,
    OCANNL_INT_MAX,
    OCANNL_MAX_DEPTH,
    OCANNL_MAX_HEADER,
    OCANNL_NAMESPACE,
    OCANNL_TENSOR,
    OCANNL_VERSION,
)
from ._anatomy import FRAME_SIZE, Anatomy, Entry
from ._checkpoint import Checkpoint, Tensor, TrainingRecord
from ._header import read_header, read_records
from ._layout import Broken, aligned, measure
from ._nodes import Atom, Padding, TensorNode, atom
from ._places import Places
from ._read import record_of

__all__ = ["rescue"]

_FIRST: Final = OCANNL_TENSOR[0].name.encode()
_RECORD: Final = re.compile(rb"\(\s*\(\s*" + _FIRST + rb"\s")
_BLANKS: Final = b" \t\n\r\f\v\0"
_PATIENCE: Final = 4  # times the text
_LEAST_PATIENCE: Final = 1 << 20  # bytes
_TRAINING: Final = re.compile(rb"\(\s*training\s*(?=\()")


def rescue(source: Source, anatomy: Anatomy, intact_only: bool = False) -> tuple[Checkpoint | None, list[Survivor]]:
    """Return a checkpoint of what can be read, and what became of each part; no checkpoint if nothing can."""
    survivors: list[Survivor] = []
    sure = True
    readable = bool(anatomy.text and anatomy.syntax is None and anatomy.tensors)
    found = _shifted(source, anatomy) if readable else _recovered(source, anatomy)
    if found is not None:
        anatomy, reason, sure = found
        survivors.append(header_survivor("repaired", reason))
    elif not readable:
        return None, [header_survivor("lost", "no tensor record can be read")]
    made = _Rescue(source, anatomy, intact_only, sure)
    checkpoint = made.checkpoint()
    survivors += made.survivors
    if all(item.state == "intact" for item in survivors):
        survivors.insert(0, header_survivor("repaired", "it is written anew"))
    return checkpoint, survivors


# --------------------------------------------------------------------------------------------------- damaged headers


Recovered = tuple[Anatomy, str, bool]  # the last says whether it is sure where the payloads begin


def _shifted(source: Source, anatomy: Anatomy) -> Recovered | None:
    """Return a header that can be read, but whose length is wrong; None if it is not."""
    found = None if _fits(anatomy) else _whole(source, anatomy.text, anatomy.header_length)
    return None if found is None or found[0].data == anatomy.data else found


def _recovered(source: Source, anatomy: Anatomy) -> Recovered | None:
    """Read a header whose length is wrong or whose text is damaged; None if no record in it is whole."""
    text = bytes(source.read(FRAME_SIZE, min(source.size - FRAME_SIZE, OCANNL_MAX_HEADER)))
    whole = _whole(source, text, anatomy.header_length)
    if whole is not None:
        return whole
    text = anatomy.text or text
    if not 0 <= anatomy.header_length <= source.size - FRAME_SIZE:
        return None  # the payloads could be anywhere
    made = Anatomy(size=source.size, header_length=anatomy.header_length, text=text, alignment=OCANNL_ALIGNMENT)
    made.version = OCANNL_VERSION
    examination = Examination(source, Report())
    read_records(examination, made, _prefixes(text, _RECORD, 0), _prefixes(text, _TRAINING, 1))
    if not made.entries:
        return None
    return made, "its text is damaged; the records that are whole were read one by one", True


def _whole(source: Source, text: bytes, length: int) -> Recovered | None:
    """Read a header whose expression is whole; None if it is not.

    If the header's length cannot be right, or something else than payloads lies where it ends, the payloads are looked
    for where a writer puts them: the last of them ends where the file does.
    """
    start = len(text) - len(text.lstrip(b" \t\n\r\f"))
    if text[start : start + 1] != b"(":
        return None
    try:
        _, end = sexp.parse_prefix(text, max_depth=OCANNL_MAX_DEPTH)
    except sexp.SexpError:
        return None
    rest, text = text[end:length], text[:end]
    in_file = end <= length <= source.size - FRAME_SIZE
    made = _read(source, text, length if in_file else end)  # tells the alignment, too
    if made is None:
        return None
    left_out, blank = "what follows its expression is left out", not rest.strip(_BLANKS)
    if in_file and (_fits(made) or (blank and made.data % made.alignment == 0)):
        return made, left_out, True
    usual = _read(source, text, aligned(FRAME_SIZE + end, made.alignment) - FRAME_SIZE)
    if in_file and (usual is None or not _fits(usual)):
        return made, left_out, blank
    return None if usual is None else (usual, f"its length was {length}; its text is whole", _fits(usual))


def _fits(anatomy: Anatomy) -> bool:
    """Say whether the last payload ends where the file does."""
    ends = [
        entry.offset + entry.byte_length
        for entry in anatomy.entries
        if entry.offset is not None and entry.byte_length is not None
    ]
    return anatomy.data + max(ends, default=0) == anatomy.size


def _read(source: Source, text: bytes, length: int) -> Anatomy | None:
    """Read a header as if it had this length; None if it is none, or has no list of tensors."""
    made = Anatomy(size=source.size, header_length=length, text=text, places=Places(text, FRAME_SIZE))
    try:
        read_header(Examination(source, Report()), made)
    except Stop:
        return None
    return made if made.tensors else None


def _prefixes(text: bytes, start: re.Pattern[bytes], item: int) -> Iterator[Any]:
    """Yield the expressions that begin where a pattern matches and are whole; of ``item`` 1, the second of the pair."""
    if (_FIRST, b"training")[item] not in text:
        return
    at = 0
    patience = _PATIENCE * len(text) + _LEAST_PATIENCE  # each start that leads nowhere may read on to the text's end
    while patience > 0 and (match := start.search(text, at)) is not None:
        try:
            value, at = sexp.parse_prefix(text, match.start(), max_depth=OCANNL_MAX_DEPTH)
        except sexp.SexpError as error:
            at = match.start() + 1
            patience -= (len(text) if "not closed" in error.message else error.offset) - at
            continue
        if item == 0:
            yield value
        elif isinstance(value, tuple) and len(value) == 2:
            yield value[1]


# ----------------------------------------------------------------------------------------------------------- the parts


class _Rescue:
    def __init__(self, source: Source, anatomy: Anatomy, intact_only: bool, sure: bool) -> None:
        self.sure = sure
        self.source = source
        self.anatomy = anatomy
        self.intact_only = intact_only
        self.survivors: list[Survivor] = []
        self.taken: set[tuple[Atom, int]] = set()
        keys = [(entry.namespace, entry.id) for entry in anatomy.entries]
        self.doubled = {key for key, number in Counter(keys).items() if number > 1}
        self.known: set[tuple[Atom, int]] = set()  # keys that stand in the file, once, for the tensor that has them
        used = {entry.id for entry in anatomy.entries if entry.id is not None}
        if anatomy.training is not None:  # no tensor must become part of the state because of an id that is made up
            used |= {number for _, number in anatomy.training.state or ()}
        least = 1 + max(used, default=-1)  # above all ids, as long as there are enough
        least = least if least + len(anatomy.entries) <= OCANNL_INT_MAX else 0
        self.free = (number for number in itertools.count(least) if number not in used)

    def say(self, what: str, path: str, name: str, state: str, reason: str = "") -> None:
        self.survivors.append(Survivor(what=what, path=path, name=name, state=state, reason=reason))

    def checkpoint(self) -> Checkpoint:
        """Return what can be read."""
        tensors = list(filter(None, (self._tensor(row, entry) for row, entry in enumerate(self.anatomy.entries))))
        return Checkpoint(tensors=tensors, alignment=self.anatomy.alignment, training=self._training())

    def _tensor(self, row: int, entry: Entry) -> Tensor | None:
        path, name = f"tensors[{row}]", _plain_name(entry)
        reason = self._lost(entry)
        if reason:
            self.say("tensor", path, name, "lost", reason)
            return None
        parts: Any = entry
        axes, neutral = entry.padding or (None, 0.0)
        repairs = [] if self.sure else ["where its payload begins is not certain"]
        if neutral is None:
            neutral = 0.0
            repairs.append("its padding had no neutral value, 0 was taken")
        if entry.label is None:
            repairs.append("its label could not be read")
        namespace = OCANNL_NAMESPACE if entry.namespace is None else atom(entry.namespace, "")
        number = entry.id
        if number is None or (namespace, number) in self.taken:
            why = "was taken" if number is not None else "could not be read"
            number = next(self.free)
            repairs.append(f"its id {why}, {number} was given")
        padding = None if axes is None else Padding(axes=axes, neutral=neutral)
        label = tuple(atom(word, "") for word in entry.label or ())
        node = TensorNode(
            namespace=namespace, id=number, label=label, precision=parts.prec.ocannl, dims=parts.dims, padding=padding
        )
        if node.size != entry.byte_length:
            found = "could not be read" if entry.byte_length is None else f"was {entry.byte_length}"
            repairs.append(f"its byte length {found}")
        if entry.bad and not repairs:
            repairs.append(f"it broke {', '.join(sorted(entry.bad))}")
        if repairs and self.intact_only:
            self.say("tensor", path, name, "lost", "; ".join(repairs))
            return None
        self.taken.add(node.key)
        if number == entry.id and entry.namespace is not None and (entry.namespace, entry.id) not in self.doubled:
            self.known.add(node.key)
        self.say("tensor", path, name, "repaired" if repairs else "intact", "; ".join(repairs))
        start = self.anatomy.data + parts.offset
        return Tensor(node=node, data=self.source.view(start, node.size))

    def _lost(self, entry: Entry) -> str:
        """Return why a tensor cannot be rescued, or nothing if it can."""
        _without_padding(entry)
        for what, value in (
            ("precision", entry.prec),
            ("dims", entry.dims),
            ("padding", entry.padding),
            ("offset", entry.offset),
        ):
            if value is None:
                return f"its {what} cannot be read"
        if entry.stored is None or entry.prec is None or entry.offset is None:
            return "its size cannot be told"
        size = entry.prec.size * math.prod(entry.stored)
        if self.anatomy.data + entry.offset + size > self.source.size:
            return "the file ends before its payload does"
        if "OCANNL-TEN-OVERLAP" in entry.bad:
            return "its payload overlaps that of another tensor"
        return ""

    def _training(self) -> TrainingRecord | None:
        training = self.anatomy.training
        if training is None:
            return None
        broken = training.bad - {"OCANNL-TRN-ABSENT"}
        named: Iterable[tuple[Atom, int]] = ((atom(space, ""), number) for space, number in training.state or ())
        state = tuple(key for key in dict.fromkeys(named) if key in self.known)
        if broken or not state:
            reason = f"it broke {', '.join(sorted(broken))}" if broken else "no tensor of its state is left"
            self.say("section", "training", "training", "lost", reason)
            return None
        record = record_of(training)
        if len(state) == len(record.state):
            self.say("section", "training", "training", "intact")
            return record
        reason = f"of the {len(record.state)} tensors that its state names, {len(state)} are left"
        if self.intact_only:
            self.say("section", "training", "training", "lost", reason)
            return None
        self.say("section", "training", "training", "repaired", reason)
        return TrainingRecord(
            **{name: getattr(record, name) for name in record.__dataclass_fields__ if name != "state"}, state=state
        )


def _plain_name(entry: Entry) -> str:
    """Return what a tensor is called, unescaped: ``ocannl:3 w hidden``."""
    words = [b"?" if entry.namespace is None else entry.namespace, *(entry.label or ())]
    namespace, *label = [word.decode("utf-8", "backslashreplace") for word in words]
    return " ".join([f"{namespace}:{'?' if entry.id is None else entry.id}", *label])


def _without_padding(entry: Entry) -> None:
    """Where the padding cannot be read but the payload has the size of the whole tensor, there is none."""
    if entry.padding is not None or entry.prec is None or entry.dims is None:
        return
    try:
        stored, needed = measure(entry.prec.size, entry.dims, None)
    except Broken:
        return
    if needed == entry.byte_length:
        entry.padding, entry.stored = (), stored
