"""Hostile safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ...spec.schema import SAFETENSORS_MAX_DEPTH, SAFETENSORS_MAX_HEADER, SAFETENSORS_METADATA
from ..cases.safetensors.assemble import T, entry, file, frame, sound, string, swap
from .files import FEW, MANY, ends, one
from .texts import BYTES, TEXTS, texts_for

__all__ = ["FILES"]


def _header(entries: Iterable[bytes], data: bytes = b"", metadata: bytes = b"") -> bytes:
    front = [string(SAFETENSORS_METADATA) + b":" + metadata] if metadata else []
    return frame(b"{" + b",".join([*front, *entries]) + b"}", data)


def _many(count: int, spelled: Any = None, dress: Any = lambda made: made) -> bytes:
    items = (T(name=f"t{at:06}", shape=(1,), spelled=spelled and spelled(at)) for at in range(count))
    return _header((dress(entry(item, at, at + 1)) for at, item in enumerate(items)), bytes(count))


def _ranges(shape: str, count: int) -> bytes:
    places = ends(shape, count)
    entries = (entry(T(name=f"t{at:06}", shape=(b - a,)), a, b) for at, (a, b) in enumerate(places))
    return _header(entries, bytes(max(end for _, end in places)))


def _texts(_: int) -> bytes:
    texts = texts_for()
    return file(*sound(*(T(name=text) for text in [*texts, ""])), metadata={text: text for text in [*texts, ""]})


def _keys(_: int) -> bytes:
    """Texts where an entry has none: as keys, dtypes and values."""
    made = [json.dumps(item.text).encode() for item in TEXTS]
    good = b'"dtype":"U8","shape":[1],"data_offsets":[0,1]'
    entries = [b'"k%d":{%b,%b:%b}' % (at, good, text, text) for at, text in enumerate(made)]
    entries += [b'"d%d":{"dtype":%b,"shape":[1],"data_offsets":[0,1]}' % (at, text) for at, text in enumerate(made)]
    entries += [
        b'"s%d":{"dtype":"U8","shape":[%b],"data_offsets":[0,%b]}' % (at, text, text) for at, text in enumerate(made)
    ]
    return _header(
        [*entries, *(b"%b:%b" % (text, text) for text in made)],
        b"\0",
        b"{" + b",".join(b"%b:[%b]" % (text, text) for text in made) + b"}",
    )


def _raw(_: int) -> bytes:
    """A header that is no JSON, with texts as they are."""
    return _header([b'"%b":%b' % (item.text.encode(), item.text.encode()) for item in TEXTS])


def _value(value: bytes, key: bytes = b"shape") -> bytes:
    values = {b"dtype": b'"U8"', b"shape": b"[1]", b"data_offsets": b"[0,1]"} | {key: value}
    return _header([b'"w":{' + b",".join(b'"%b":%b' % pair for pair in values.items()) + b"}"], b"\0")


def _no_utf8(raw: bytes, _: int) -> bytes:
    return file(T(spelled=b'"' + raw + b'"'))


def _shapes(*shapes: tuple[int, ...]) -> bytes:
    return file(*(T(name=f"t{at}", shape=shape, data=b"") for at, shape in enumerate(shapes)))


def _metadata(count: int, key: str = "k%06d") -> bytes:
    pairs = b",".join(b'"%b":"v"' % (key % at if "%" in key else key).encode() for at in range(count))
    return _header([], b"", b"{" + pairs + b"}")


_one = partial(one, "safetensors")
_N: Final[Any] = {"small": FEW, "full": MANY}
_LONG: Final[Any] = {"small": 20_000, "full": 1_000_000}
_ZERO: Final = ((2**63 - 1, 2**63 - 1, 0), (2**32,) * 8 + (0,), (10**18, 10**18, 0))

FILES: Final = (
    _one("texts", "hostile text in every name, key and value", _texts, True),
    _one("keys", "hostile text where it is refused", _keys),
    _one("no_json", "hostile text that is no JSON", _raw),
    *(_one(f"name_{name}", "a name that is no UTF-8", partial(_no_utf8, raw)) for name, raw in BYTES),
    _one("surrogate", "a name with half a pair", partial(_no_utf8, b"\\ud800\\u001b")),
    _one("length_largest", "a header of 2^64 - 1 bytes", lambda _: frame(b"{}", length=2**64 - 1)),
    _one("length_half", "a header of 2^63 bytes", lambda _: frame(b"{}", length=2**63)),
    _one("length_limit", "a header of 100 MB in a small file", lambda _: frame(b"{}", length=SAFETENSORS_MAX_HEADER)),
    _one(
        "blanks",
        "a header of 100 MB, nearly all blanks",
        lambda n: frame(b"{}", more=n),
        small=50_000,
        full=SAFETENSORS_MAX_HEADER - 8,
        accepted=True,
        memory=6,
    ),
    _one("name_long", "a name of 1 MB", lambda n: file(T(name="w" * n)), True, **_LONG),
    _one(
        "name_long_escaped",
        "a name of 1 MB, all of it escapes",
        lambda n: file(T(spelled=b'"' + b"\\u001b" * (n // 6) + b'"')),
        True,
        **_LONG,
    ),
    _one("name_nuls", "a name of NULs", lambda n: file(T(spelled=b'"' + b"\\u0000" * (n // 6) + b'"')), True, **_LONG),
    _one("value_long", "a value of 1 MB", lambda n: file(T(), metadata={"k": "\x1b" * (n // 6)}), True, **_LONG),
    _one("deep", "brackets without end", lambda n: _header([b'"w":' + b"[" * n]), **_LONG),
    _one("deep_closed", "brackets, opened and closed", lambda n: _header([b'"w":' + b"[" * n + b"]" * n]), **_LONG),
    _one(
        "deep_allowed",
        "as many brackets as are allowed",
        lambda _: _header(
            [b'"w":' + b'{"a":' * (SAFETENSORS_MAX_DEPTH - 2) + b"1" + b"}" * (SAFETENSORS_MAX_DEPTH - 2)]
        ),
    ),
    _one("digits", "an extent of 10^5 digits", lambda n: _value(b"[" + b"9" * n + b"]"), small=20_000, full=MANY),
    _one(
        "digits_after_point",
        "a float of 10^5 digits",
        lambda n: _value(b"[0." + b"9" * n + b"]"),
        small=20_000,
        full=MANY,
    ),
    _one("exponent", "1e999", lambda _: _value(b"[1e999]")),
    _one(
        "exponent_long",
        "an exponent of 10^5 digits",
        lambda n: _value(b"[1e" + b"9" * n + b"]"),
        small=20_000,
        full=MANY,
    ),
    _one("negative", "negative extents and offsets", lambda _: _value(b"[-1,-9223372036854775808]")),
    _one("rank", "10^5 extents", lambda n: _value(b"[" + b",".join([b"1"] * n) + b"]"), True, **_N),
    _one("rank_doubling", "10^5 extents of 2", lambda n: _value(b"[" + b",".join([b"2"] * n) + b"]"), **_N),
    _one("offsets_largest", "offsets of 2^64 - 1", lambda _: _value(b"[0,18446744073709551615]", b"data_offsets")),
    _one("zero_of_many", "10^18 elements of no size", lambda _: _shapes((10**18, 0), (0, 10**18)), True),
    _one("zero_of_too_many", "extents whose product passes 2^64 and ends at 0", lambda _: _shapes(*_ZERO)),
    _one("product_wraps", "extents whose product wraps to 0", lambda _: _shapes((2**32,) * 8)),
    _one("many", "many tensors", _many, True, **_N),
    _one("many_faulty", "a fault in each of many tensors", lambda n: _many(n).replace(b"U8", b"W8"), **_N),
    _one(
        "many_unknown",
        "an unknown key in each of many tensors",
        lambda n: _many(n, dress=swap(b'"U8"', b'"U8","x":2')),
        True,
        **_N,
    ),
    _one("names_same", "many tensors of one name", lambda n: _many(n, lambda _: b'"w"'), **_N),
    _one("metadata_many", "many keys of metadata", _metadata, True, **_N),
    _one("metadata_same", "one key of metadata, many times", lambda n: _metadata(n, "k"), **_N),
    _one("overlaps_same", "many payloads at the same bytes", lambda n: _ranges("same", n), **_N),
    _one("overlaps_nested", "many payloads, each within the one before", lambda n: _ranges("nested", n), **_N),
    _one("overlaps_stairs", "many payloads, each over many others", lambda n: _ranges("stairs", n), **_N),
    _one("hole", "a file of 1 TB, most of it a hole", lambda _: file(T()), hole=1 << 40),
)
