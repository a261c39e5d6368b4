"""What breaks each rule for which readers refuse OCANNL checkpoints: one way for each, with hypothesis to vary it.

A way takes ``draw`` and a drawn document and returns a file. The file is laid out by the maker of the cases, and one
thing in it is spoiled, so that nothing comes before the rule.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from .. import sexp
from ..spec.schema import (
    OCANNL_INT_MAX,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_MAX_DEPTH,
    OCANNL_MAX_HEADER,
    OCANNL_RECORDS,
    OCANNL_SEEDS_VERSION,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
)
from .cases.ocannl import malformed
from .cases.ocannl.assemble import Change, Loose, R, T, add, drop, file, put, size_of_frame
from .strategies_ocannl import ocannl_documents, raw_atom

__all__ = ["DAMAGES", "documents_for"]

Document = dict[str, Any]
Draw = st.DrawFn
Damage = Callable[[Draw, Document], bytes]

_FRAME: Final = size_of_frame()
_PLANTED: Final = 8  # bytes of a tensor that is there to be spoiled: two elements of single precision
_NEGATIVE: Final = st.integers(-9, -1) | st.sampled_from([-OCANNL_INT_MAX - 1])


def documents_for(_versions: tuple[int, ...]) -> st.SearchStrategy[Document]:
    """Documents; the format has one version."""
    return ocannl_documents()


def _number(low: int, high: int) -> st.SearchStrategy[int]:
    """Numbers of a range, its ends more often than by chance."""
    return st.sampled_from([low, high]) | st.integers(low, high)


# --------------------------------------------------------------------------------------------------------------- parts


@dataclass(slots=True)
class _Parts:
    """The parts of a file, from a document: to be changed, and then made into a file."""

    tensors: list[T]
    training: R | None
    alignment: int

    def file(self, **more: Any) -> bytes:
        """Return the file; ``more`` is what the maker of the cases takes."""
        return file(*self.tensors, alignment=self.alignment, training=self.training, **more)

    def plant(self, draw: Draw, where: int | None = None, **more: Any) -> int:
        """Put in a tensor that is to be spoiled; return its position."""
        ids = {item.id for item in self.tensors}
        number = next(number for number in range(len(ids) + 1) if number not in ids)
        data = draw(st.binary(min_size=_PLANTED, max_size=_PLANTED))
        where = draw(st.integers(0, len(self.tensors))) if where is None else where
        self.tensors.insert(where, replace(T(id=number, data=data), **more))
        return where

    def train(self, draw: Draw) -> R:
        """Return the training record; one of a tensor of its own if there is none."""
        if self.training is None:
            item = self.tensors[self.plant(draw)]
            self.training = R(state=((item.namespace, item.id),))
        return self.training


def _parts(document: Document) -> _Parts:
    made = document["training"]
    return _Parts(
        tensors=[_tensor_of(row) for row in document["tensors"]],
        training=None if made is None else _training_of(made),
        alignment=document["alignment"],
    )


def _tensor_of(row: Document) -> T:
    padding = None
    if row["padding"] is not None:
        (neutral,) = struct.unpack(">d", bytes.fromhex(row["padding"]["neutral"][2:]))
        axes = tuple((int(left), int(right)) for left, right in row["padding"]["axes"])
        padding = (axes, sexp.format_float(neutral).decode())
    return T(
        id=int(row["id"]),
        namespace=raw_atom(row["namespace"]),
        label=tuple(map(raw_atom, row["label"])),
        prec=row["precision"],
        dims=tuple(map(int, row["dims"])),
        padding=padding,
        data=bytes.fromhex(row["data"]),
    )


def _training_of(made: Document) -> R:
    return R(
        version=made["version"],
        step=int(made["step"]),
        epoch=int(made["epoch"]),
        position=int(made["position"]),
        host_rng=None if made["host_rng"] is None else bytes.fromhex(made["host_rng"]),
        extra=tuple((raw_atom(key), raw_atom(value)) for key, value in made["extra"]),
        seeds=None if made["seeds"] is None else tuple(map(int, made["seeds"])),
        state=tuple((raw_atom(namespace), int(number)) for namespace, number in made["state"]),
    )


# -------------------------------------------------------------------------------------------------------- frame, text


def _short(draw: Draw, document: Document) -> bytes:
    return _parts(document).file()[: draw(st.integers(0, _FRAME - 1))]


def _length(draw: Draw, document: Document) -> bytes:
    wrong = _number(-(1 << 31), -1) | _number(OCANNL_MAX_HEADER + 1, (1 << 31) - 1)
    return _parts(document).file(length=draw(wrong))


def _range(draw: Draw, document: Document) -> bytes:
    """The file ends within its header, or the header's length says so."""
    made = _parts(document).file()
    if draw(st.booleans()):
        length = draw(_number(len(made) - _FRAME + 1, OCANNL_MAX_HEADER))
        return _parts(document).file(length=length)
    return made[: draw(st.integers(_FRAME, _FRAME + int.from_bytes(made[:_FRAME], "big") - 1))]


def _syntax(draw: Draw, document: Document) -> bytes:
    parts = _parts(document)
    parts.plant(draw, label=("w",))  # the word that some of the changes take hold of
    _, dress = draw(st.sampled_from(list(malformed.TEXTS.values())))
    return parts.file(dress=dress)


def _deep(draw: Draw, document: Document) -> bytes:
    depth = draw(_number(OCANNL_MAX_DEPTH, 3 * OCANNL_MAX_DEPTH))
    return _parts(document).file(header=(add((b"other", b"(" * depth + b")" * depth)),))


# ------------------------------------------------------------------------------------------------------------- records


def _changed(draw: Draw, document: Document, record: str, change: Change) -> bytes:
    """Return the file with a change to a record: the header, a planted tensor or the training record."""
    parts = _parts(document)
    if record == "header":
        return parts.file(header=(change,))
    if record == "tensor":
        at = parts.plant(draw)
        parts.tensors[at] = parts.tensors[at].but(change)
    else:
        parts.training = parts.train(draw).but(change)
    return parts.file()


def _no_pair(draw: Draw, document: Document) -> bytes:
    record = draw(st.sampled_from(list(OCANNL_RECORDS)))
    pair = draw(st.sampled_from(list(malformed.NO_PAIRS.values())))
    return _changed(draw, document, record, add(pair, draw(st.sampled_from([None, 0]))))


def _no_key(draw: Draw, document: Document) -> bytes:
    needed = [(record, key.name) for record, table in OCANNL_RECORDS.items() for key in table if not key.optional]
    record, name = draw(st.sampled_from(needed))
    if name == "tensors":  # without them, a state would name what is not there
        document = {**document, "training": None}
    return _changed(draw, document, record, drop(name))


def _wrong_value(rule: str) -> Damage:
    """Give a key a value of a form for which the rule is there."""
    wrong = [
        (record, key.name, value)
        for record, table in OCANNL_RECORDS.items()
        for key in table
        for value, broken in malformed.WRONG[key.kind]
        if broken == rule
    ]

    def damage(draw: Draw, document: Document) -> bytes:
        record, name, value = draw(st.sampled_from(wrong))
        if name == "tensors":
            document = {**document, "training": None}
        return _changed(draw, document, record, lambda pairs: add((name, value))(drop(name)(pairs)))  # it may lack it

    return damage


def _header(name: str, values: st.SearchStrategy[int]) -> Damage:
    """Give a key of the header another value."""
    return lambda draw, document: _changed(draw, document, "header", put(name, draw(values)))


# ------------------------------------------------------------------------------------------------------------- tensors


def _tensor(name: str, values: st.SearchStrategy[Any], **more: Any) -> Damage:
    """Give a key of a tensor of two elements another value; ``more`` makes it another tensor to begin with."""

    def damage(draw: Draw, document: Document) -> bytes:
        parts = _parts(document)
        at = parts.plant(draw, **more)
        parts.tensors[at] = parts.tensors[at].but(put(name, draw(values)))
        return parts.file()

    return damage


def _precision() -> st.SearchStrategy[Loose]:
    known = st.sampled_from(["single_prec", "SINGLE_PREC", "Single", "f32", "Fp4_prec", '""'])
    return known | st.from_regex("[A-Z][a-z]{2,8}_precision", fullmatch=True)


def _pairs(*numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Loose]:
    """Values of padding with one pair."""
    return st.tuples(*numbers).map(lambda pair: ((pair,), "0."))


def _pair_count() -> st.SearchStrategy[Loose]:
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.lists(pair, max_size=4).filter(lambda pairs: len(pairs) != 1).map(lambda pairs: (tuple(pairs), "0."))


def _tensor_range(draw: Draw, document: Document) -> bytes:
    """The last payload is cut, or lies far behind the end."""
    parts = _parts(document)
    at = parts.plant(draw, len(parts.tensors))
    if draw(st.booleans()):
        parts.tensors[at] = parts.tensors[at].but(put("offset", draw(_number(1 << 20, 1 << 61))))
        return parts.file()
    return parts.file()[: -draw(st.integers(1, _PLANTED))]


def _twice(draw: Draw, document: Document) -> bytes:
    parts = _parts(document)
    first = parts.tensors[parts.plant(draw)]
    parts.plant(draw, id=first.id, label=("again",))
    return parts.file()


def _overlap(draw: Draw, document: Document) -> bytes:
    parts = _parts(document)
    parts.plant(draw, 0)
    parts.plant(draw, 1, at=draw(st.integers(0, _PLANTED - 1)))
    return parts.file()


# ------------------------------------------------------------------------------------------------------------ training


def _training(change: Callable[[Draw, R], R]) -> Damage:
    def damage(draw: Draw, document: Document) -> bytes:
        parts = _parts(document)
        parts.training = change(draw, parts.train(draw))
        return parts.file()

    return damage


def _seeds(_draw: Draw, made: R) -> R:
    return replace(made, seeds=() if made.version < OCANNL_SEEDS_VERSION else None)


def _extra_twice(draw: Draw, made: R) -> R:
    key = draw(st.sampled_from([key for key, _ in made.extra])) if made.extra else "key"
    extra = made.extra or ((key, "value"),)
    return replace(made, extra=(*extra, (key, draw(st.sampled_from(["", "value", "other"])))))


def _state_absent(draw: Draw, made: R) -> R:
    absent = ("no such namespace", draw(st.integers(0, 9)))
    return replace(made, state=tuple(draw(st.permutations([*made.state, absent]))))


def _state_twice(draw: Draw, made: R) -> R:
    return replace(made, state=(*made.state, draw(st.sampled_from(made.state))))


def _negative_counter(draw: Draw, made: R) -> R:
    return made.but(put(draw(st.sampled_from(["step", "epoch", "position"])), draw(_NEGATIVE)))


_FOUR: Final = {"dims": (4,), "padding": (((1, 1),), "0.")}  # of which two are stored

DAMAGES: Final[dict[str, Damage]] = {
    "OCANNL-FRM-SHORT": _short,
    "OCANNL-FRM-LENGTH": _length,
    "OCANNL-FRM-RANGE": _range,
    "OCANNL-TXT-SYNTAX": _syntax,
    "OCANNL-TXT-DEPTH": _deep,
    "OCANNL-REC-PAIRS": _no_pair,
    "OCANNL-REC-MISSING": _no_key,
    "OCANNL-REC-VALUE": _wrong_value(malformed.VALUE),
    "OCANNL-REC-INTEGER": _wrong_value(malformed.INTEGER),
    "OCANNL-HDR-VERSION": _header("version", _number(-9, OCANNL_INT_MAX).filter(lambda n: n != OCANNL_VERSION)),
    "OCANNL-HDR-ALIGN": _header("alignment", _number(-9, 0)),
    "OCANNL-HDR-ALIGNMAX": _header("alignment", _number(OCANNL_MAX_ALIGNMENT + 1, OCANNL_INT_MAX)),
    "OCANNL-TEN-ID": _tensor("id", _NEGATIVE),
    "OCANNL-TEN-PREC": _tensor("prec", _precision()),
    "OCANNL-TEN-DIM": _tensor("dims", st.tuples(_NEGATIVE) | st.tuples(st.integers(0, 4), _NEGATIVE)),
    "OCANNL-TEN-SIZEOF": _tensor("dims", st.tuples(*2 * [_number(1 << 31, OCANNL_INT_MAX)])),
    "OCANNL-PAD-LEGACY": _tensor("padding", st.just((((1, 1),), "none")), **_FOUR),
    "OCANNL-PAD-COUNT": _tensor("padding", _pair_count(), **_FOUR),
    "OCANNL-PAD-NEGATIVE": _tensor("padding", _number(-9, -1).map(lambda n: (((n, -n),), "0."))),
    "OCANNL-PAD-FIT": _tensor("padding", _pairs(_number(3, OCANNL_INT_MAX), _number(0, OCANNL_INT_MAX))),
    "OCANNL-TEN-OFFSET": _tensor("offset", _NEGATIVE),
    "OCANNL-TEN-LENGTH": _tensor("byte_length", _NEGATIVE),
    "OCANNL-TEN-BYTES": _tensor("byte_length", _number(0, OCANNL_INT_MAX).filter(lambda size: size != _PLANTED)),
    "OCANNL-TEN-OVERFLOW": _tensor("offset", _number(OCANNL_INT_MAX - _PLANTED, OCANNL_INT_MAX)),
    "OCANNL-TEN-RANGE": _tensor_range,
    "OCANNL-TEN-DUP": _twice,
    "OCANNL-TEN-OVERLAP": _overlap,
    "OCANNL-TRN-VERSION": _training(
        lambda draw, made: replace(
            made, version=draw(_number(-9, OCANNL_INT_MAX).filter(lambda n: n not in OCANNL_TRAINING_VERSIONS))
        )
    ),
    "OCANNL-TRN-NEGATIVE": _training(_negative_counter),
    "OCANNL-TRN-EXTRA": _training(_extra_twice),
    "OCANNL-TRN-SEEDS": _training(_seeds),
    "OCANNL-TRN-EMPTY": _training(lambda _draw, made: replace(made, state=())),
    "OCANNL-TRN-DUP": _training(_state_twice),
    "OCANNL-TRN-ABSENT": _training(_state_absent),
}
"""By rule, what breaks it."""
