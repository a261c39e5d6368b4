"""Hostile OCANNL checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ...spec.schema import OCANNL_INT_MAX, OCANNL_MAX_DEPTH, OCANNL_MAX_HEADER
from ..cases.ocannl.assemble import R, T, atom, file, frame, put
from .files import FEW, MANY, ends, one
from .texts import BYTES, TEXTS, texts_for

__all__ = ["FILES"]

_TENSOR: Final = T(prec="byte", dims=(1,))


def _header(records: Iterable[bytes], data: bytes = b"") -> bytes:
    return frame(b"((version 1)(alignment 1)(tensors (%b)))" % b"".join(records), data)


def _record(at: int, begin: int, size: int, /, **changes: bytes) -> bytes:
    """Return the record of a tensor of bytes; spelled here, since there will be many."""
    values = {
        "id": b"%d" % at,
        "namespace": b"ocannl",
        "label": b"(w)",
        "prec": b"Byte_prec",
        "dims": b"(%d)" % size,
        "padding": b"none",
        "offset": b"%d" % begin,
        "byte_length": b"%d" % size,
    } | changes
    return b"(" + b"".join(b"(%b %b)" % (key.encode(), value) for key, value in values.items()) + b")"


def _many(count: int, **changes: Any) -> bytes:
    records = (_record(at, at, 1, **{key: value(at) for key, value in changes.items()}) for at in range(count))
    return _header(records, bytes(count))


def _ranges(shape: str, count: int) -> bytes:
    places = ends(shape, count)
    records = (_record(at, begin, end - begin) for at, (begin, end) in enumerate(places))
    return _header(records, bytes(max(end for _, end in places)))


def _one_record(**changes: bytes) -> bytes:
    return _header([_record(0, 0, 1, **changes)], b"\0")


def _texts(_: int) -> bytes:
    texts: list[bytes | str] = [*texts_for(), *(raw for _, raw in BYTES)]
    tensors = [T(id=at, namespace=text, label=(text, text), prec="byte") for at, text in enumerate(texts)]
    training = R(
        host_rng=b"".join(text if isinstance(text, bytes) else text.encode() for text in texts),
        extra=tuple((text, text) for text in texts),
        state=tuple((text, at) for at, text in enumerate(texts)),
    )
    return file(*tensors, training=training)


def _unknown(_: int) -> bytes:
    """Texts where they are refused: as keys, precisions, numbers, and nodes that are not there."""
    keys = ("prec", "dims", "offset", "padding", "label", "x")
    tensors = [T(id=at).but(put(keys[at % len(keys)], atom(item.text))) for at, item in enumerate(TEXTS)]
    return file(*tensors, training=R(state=tuple((item.text, 10**9) for item in TEXTS)))


def _raw(_: int) -> bytes:
    """A header that is no S-expression of the kind, with texts as they are."""
    return _header([b"((id %b))" % item.text.encode() for item in TEXTS])


def _training(**changes: Any) -> bytes:
    return file(_TENSOR, training=R(**changes))


_one = partial(one, "ocannl")
_N: Final[Any] = {"small": FEW, "full": MANY}
_LONG: Final[Any] = {"small": 20_000, "full": 1_000_000}

FILES: Final = (
    _one("texts", "hostile text, some of it no UTF-8, in every atom that may hold any", _texts, True),
    _one("unknown", "hostile text where it is refused", _unknown),
    _one("no_records", "hostile text that is no header", _raw),
    _one("length_largest", "a header of 2^31 - 1 bytes", lambda _: frame(b"()", length=2**31 - 1)),
    _one("length_negative", "a header of less than nothing", lambda _: frame(b"()", length=-(2**31))),
    _one("length_limit", "a header of 100 MB in a small file", lambda _: frame(b"()", length=OCANNL_MAX_HEADER)),
    _one(
        "blanks",
        "a header of 100 MB, nearly all blanks",
        lambda n: frame(b"((version 1)(alignment 1)(tensors ()))", more=n),
        True,
        small=50_000,
        full=OCANNL_MAX_HEADER - 100,
        memory=6,
    ),
    _one("label_long", "a label of 1 MB", lambda n: file(T(label=("w" * n,))), True, **_LONG),
    _one(
        "label_long_escaped",
        "a label of 1 MB, all of it escapes",
        lambda n: file(T(label=(b"\x1b" * (n // 4),))),
        True,
        **_LONG,
    ),
    _one("namespace_long", "a namespace of 1 MB", lambda n: file(T(namespace="n" * n)), True, **_LONG),
    _one("labels_many", "10^5 labels of a tensor", lambda n: file(T(label=("w",) * n)), True, **_N),
    _one("deep", "parentheses without end", lambda n: frame(b"(" * n), **_LONG),
    _one("deep_closed", "parentheses, opened and closed", lambda n: frame(b"(" * n + b")" * n), **_LONG),
    _one(
        "deep_allowed",
        "as many parentheses as are allowed",
        lambda _: frame(
            b"((version 1)(alignment 1)(x "
            + b"(" * (OCANNL_MAX_DEPTH - 2)
            + b")" * (OCANNL_MAX_DEPTH - 2)
            + b")(tensors ()))"
        ),
        True,
    ),
    _one(
        "digits",
        "an extent of 10^5 digits",
        lambda n: _one_record(dims=b"(" + b"9" * n + b")"),
        small=20_000,
        full=MANY,
    ),
    _one(
        "digits_of_float",
        "a neutral value of 10^5 digits",
        lambda n: _one_record(padding=b"(((0 0)) 1." + b"9" * n + b")"),
        True,
        small=20_000,
        full=MANY,
    ),
    _one("exponent", "1e999", lambda _: _one_record(padding=b"(((0 0)) 1e999)"), True),
    _one(
        "exponent_long",
        "an exponent of 10^5 digits",
        lambda n: _one_record(padding=b"(((0 0)) 1e" + b"9" * n + b")"),
        True,
        small=20_000,
        full=MANY,
    ),
    _one("rank", "10^5 extents", lambda n: _one_record(dims=b"(" + b"1 " * n + b")"), True, **_N),
    _one("rank_doubling", "10^5 extents of 2", lambda n: _one_record(dims=b"(" + b"2 " * n + b")"), **_N),
    _one("offset_largest", "an offset of 2^62 - 1", lambda _: _one_record(offset=b"%d" % OCANNL_INT_MAX)),
    _one(
        "zero_of_many",
        "10^18 elements of no size",
        lambda _: file(T(dims=(10**18, 0)), T(id=1, dims=(0, 10**18))),
        True,
    ),
    _one(
        "zero_of_too_many",
        "extents whose product passes 2^62 and ends at 0",
        lambda _: file(T(dims=(2**61, 2**61, 0), data=b""), T(id=1, dims=(*(2**32,) * 8, 0), data=b"")),
    ),
    _one("product_wraps", "extents whose product wraps to 0", lambda _: file(T(dims=(2**32,) * 8, data=b""))),
    _one(
        "padding_largest",
        "more padding than elements",
        lambda _: _one_record(padding=b"(((4611686018427387903 4611686018427387903)) 0.)"),
    ),
    _one("many", "many tensors", _many, True, **_N),
    _one("many_faulty", "a fault in each of many records", lambda n: _many(n, prec=lambda _: b"what"), **_N),
    _one(
        "many_spellings",
        "a number in each of many records that no writer spells so",
        lambda n: _many(n, id=lambda at: b"+%d" % at),
        True,
        **_N,
    ),
    _one("ids_alike", "ids whose hashes end alike", lambda n: _many(n, id=lambda at: b"%d" % (at << 44)), True, **_N),
    _one("ids_same", "many tensors of one id", lambda n: _many(n, id=lambda _: b"7"), **_N),
    _one(
        "extra_many",
        "many keys of the training record",
        lambda n: _training(extra=tuple((f"k{at}", "v") for at in range(n))),
        True,
        **_N,
    ),
    _one(
        "extra_same", "one key of the training record, many times", lambda n: _training(extra=(("k", "v"),) * n), **_N
    ),
    _one(
        "state_many",
        "many nodes that are not there",
        lambda n: _training(state=tuple(("ocannl", at) for at in range(n))),
        **_N,
    ),
    _one("seeds_many", "many seeds", lambda n: _training(seeds=tuple(range(n))), True, **_N),
    _one("overlaps_same", "many payloads at the same bytes", lambda n: _ranges("same", n), **_N),
    _one("overlaps_nested", "many payloads, each within the one before", lambda n: _ranges("nested", n), **_N),
    _one("overlaps_stairs", "many payloads, each over many others", lambda n: _ranges("stairs", n), **_N),
    _one("hole", "a file of 1 TB, most of it a hole", lambda _: file(_TENSOR), True, hole=1 << 40),
)
