"""What breaks each rule for which readers refuse safetensors files: one way for each, with hypothesis to vary it.

A way takes ``draw`` and a drawn document and returns a file. The file is laid out by the maker of the cases, and one
thing in it is spoiled, so that nothing comes before the rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from ..spec.schema import SAFETENSORS_MAX_DEPTH, SAFETENSORS_MAX_HEADER, SAFETENSORS_METADATA, SafetensorsFrame
from .cases.safetensors import invalid, malformed
from .cases.safetensors.assemble import Dress, T, around, entry, file, inside, sound, swap
from .strategies_safetensors import safetensors_documents

__all__ = ["DAMAGES", "documents_for"]

Document = dict[str, Any]
Draw = st.DrawFn
Damage = Callable[[Draw, Document], bytes]

_FRAME: Final = SafetensorsFrame.sizeof()
_U64: Final = 1 << 64
_NAME: Final = "w"  # of the tensor that is there to be spoiled: two U8, what the tables of the cases take hold of
_KEY: Final = json.dumps(SAFETENSORS_METADATA).encode()


def documents_for(_versions: tuple[int, ...]) -> st.SearchStrategy[Document]:
    """Documents; the format has no versions."""
    return safetensors_documents()


def _number(low: int, high: int) -> st.SearchStrategy[int]:
    """Numbers of a range, its ends more often than by chance."""
    return st.sampled_from([low, high]) | st.integers(low, high)


def _any(values: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    return st.sampled_from(values)


def _tensors(document: Document) -> list[T]:
    """Return the tensors of a document, as a writer orders them; none has the name of the one to be spoiled."""
    made = [
        T(
            name=row["name"],
            dtype=row["dtype"],
            shape=tuple(map(int, row["shape"])),
            data=bytes.fromhex(row["data"]),
        )
        for row in document["tensors"]
        if row["name"] != _NAME
    ]
    return sound(*made)


def _planted(draw: Draw, document: Document, *planted: T, at: int | None = None) -> list[T]:
    """Return the tensors of a document with others among them, behind one another."""
    made = _tensors(document)
    where = draw(st.integers(0, len(made))) if at is None else at
    return [*made[:where], *planted, *made[where:]]


def _w(draw: Draw, **more: Any) -> T:
    return T(**{"name": _NAME, "data": draw(st.binary(min_size=2, max_size=2)), **more})


def _begin(tensors: Sequence[T], item: T) -> int:
    """Return where the payload of one of some tensors begins; those before it lie one behind the other."""
    return sum(len(other.payload()) for other in tensors[: next(at for at, it in enumerate(tensors) if it is item)])


# --------------------------------------------------------------------------------------------------------------- frame


def _short(draw: Draw, document: Document) -> bytes:
    return file(*_tensors(document), metadata=document["metadata"])[: draw(st.integers(0, _FRAME - 1))]


def _with_length(made: bytes, length: int) -> bytes:
    frame: bytes = SafetensorsFrame.build({"header_length": length})
    return frame + made[_FRAME:]


def _length(draw: Draw, document: Document) -> bytes:
    made = file(*_tensors(document), metadata=document["metadata"])
    return _with_length(made, draw(_number(SAFETENSORS_MAX_HEADER + 1, _U64 - 1)))


def _range(draw: Draw, document: Document) -> bytes:
    """The file ends within its header, or the header's length says so."""
    made = file(*_tensors(document), metadata=document["metadata"])
    if draw(st.booleans()):
        return _with_length(made, draw(_number(len(made) - _FRAME + 1, SAFETENSORS_MAX_HEADER)))
    length = SafetensorsFrame.parse(made)["header_length"]
    return made[: draw(st.integers(_FRAME, _FRAME + length - 1))]


# ---------------------------------------------------------------------------------------------------------------- text


def _dressed(dresses: st.SearchStrategy[Dress]) -> Damage:
    """Change the text of the header."""
    return lambda draw, document: file(*_tensors(document), metadata=document["metadata"], dress=draw(dresses))


def _entry(dresses: st.SearchStrategy[Dress]) -> Damage:
    """Change the entry of a tensor of two U8."""

    def damage(draw: Draw, document: Document) -> bytes:
        item = _w(draw)
        tensors = _planted(draw, document, item)
        begin = _begin(tensors, item)
        plain = entry(item, begin, begin + 2)
        spoiled = draw(dresses)(b"{" + plain + b"}")[1:-1]
        return file(*tensors, metadata=document["metadata"], dress=swap(plain, spoiled))

    return damage


def _spelled(names: Sequence[bytes]) -> Damage:
    """Spell the name of a tensor wrongly."""

    def damage(draw: Draw, document: Document) -> bytes:
        item = _w(draw, spelled=b'"' + draw(_any(names)) + b'"')
        return file(*_planted(draw, document, item), metadata=document["metadata"])

    return damage


_BAD_ARRAYS: Final = (b"[NaN]", b"[02]", b"[-]", b"[0x2]", b"[2,]", b"[,2]", b"[2 2]", b"[+2]", b"[2.]", b"[1e]", b"[")


def _json(draw: Draw, document: Document) -> bytes:
    """The header's text is cut, or has what JSON does not have."""
    if draw(st.booleans()):
        return _entry(_any(_BAD_ARRAYS).map(lambda value: swap(b"[2]", value)))(draw, document)

    def cut(made: bytes) -> bytes:
        text = made.decode()
        return text[: draw(st.integers(1, len(text) - 1))].encode()

    return file(*_tensors(document), metadata=document["metadata"], dress=cut)


def _deep() -> st.SearchStrategy[Dress]:
    depths = _number(SAFETENSORS_MAX_DEPTH, 9 * SAFETENSORS_MAX_DEPTH)
    return depths.map(lambda depth: lambda made: b'{"w":' + b"[" * depth + b"]" * depth + b"}")


# ------------------------------------------------------------------------------------------------------------ metadata


def _metadata_twice(draw: Draw, document: Document) -> bytes:
    again = b"," + _KEY + b":" + draw(_any([b"{}", b'{"a":"1"}']))
    return file(
        *_tensors(document), metadata=document["metadata"] or {}, dress=lambda made: made[:-1] + again + made[-1:]
    )


def _metadata(values: Sequence[bytes]) -> Damage:
    """Put another value in the place of the metadata."""
    return lambda draw, document: file(
        *_tensors(document), metadata={}, dress=swap(_KEY + b":{}", _KEY + b":" + draw(_any(values)))
    )


# ------------------------------------------------------------------------------------------------------------- entries


def _name_twice(draw: Draw, document: Document) -> bytes:
    """Two entries of one name, whose payloads follow one another."""
    again = draw(st.none() | st.just(rb'"\u0077"'))
    return file(*_planted(draw, document, _w(draw), _w(draw, spelled=again)), metadata=document["metadata"])


def _value(values: Sequence[bytes]) -> st.SearchStrategy[Dress]:
    """Put another value in the place of an entry's object."""
    return _any(values).map(lambda value: lambda made: b'{"w":' + value + b"}")


def _pair(key: str, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[Dress]:
    """Give a key of an entry another value."""
    return values.map(lambda value: lambda made: _replaced(made, key, value))


def _replaced(made: bytes, key: str, value: bytes | None) -> bytes:
    """Give a key of the only entry of a header another value, or leave the pair out."""
    pairs = dict(pair.split(b":", 1) for pair in _split(made))
    if value is None:
        del pairs[f'"{key}"'.encode()]
    else:
        pairs[f'"{key}"'.encode()] = value
    return b'{"w":{' + b",".join(name + b":" + text for name, text in pairs.items()) + b"}}"


def _split(made: bytes) -> list[bytes]:
    entry = json.loads(made)[_NAME]
    return [f'"{name}":{json.dumps(value, separators=(",", ":"))}'.encode() for name, value in entry.items()]


def _missing() -> st.SearchStrategy[Dress]:
    return st.sampled_from(["dtype", "shape", "data_offsets"]).map(lambda key: lambda made: _replaced(made, key, None))


def _key_twice() -> st.SearchStrategy[Dress]:
    return _any([b'"dtype":"U8"', b'"shape":[2]', b'"shape":[3]', b'"data_offsets":[0,2]', b'"dtype":1']).map(inside)


def _dtypes() -> st.SearchStrategy[bytes]:
    made = st.from_regex("[a-z][a-z0-9_]{0,8}", fullmatch=True).map(lambda name: f'"{name}"'.encode())
    return _any(list(invalid.DTYPES.values())) | made


def _reversed(draw: Draw, document: Document) -> bytes:
    item = _w(draw)
    tensors = _planted(draw, document, item)
    begin = _begin(tensors, item)
    low, high = draw(st.sampled_from([(0, 2), (0, 1), (1, 2)]))
    wrong = entry(item, begin + high, begin + low)
    return file(*tensors, metadata=document["metadata"], dress=swap(entry(item, begin, begin + 2), wrong))


def _shapes(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[Dress]:
    return _pair("shape", sizes.map(lambda size: b"[%d]" % size))


def _partial(draw: Draw, document: Document) -> bytes:
    """An odd number of elements of four bits, in as many bytes as they begin."""
    number = 2 * draw(st.integers(0, 4)) + 1
    item = _w(
        draw, dtype="F4", shape=(number,), data=draw(st.binary(min_size=number // 2 + 1, max_size=number // 2 + 1))
    )
    return file(*_planted(draw, document, item), metadata=document["metadata"])


# ------------------------------------------------------------------------------------------------------------- payloads


def _data_range(draw: Draw, document: Document) -> bytes:
    """The end of the last payload is missing."""
    tensors = _planted(draw, document, _w(draw), at=len(document["tensors"]))
    return file(*tensors, metadata=document["metadata"])[: -draw(st.integers(1, 2))]


def _overlap(draw: Draw, document: Document) -> bytes:
    pair = (_w(draw), T(name=_NAME * 2, at=draw(st.integers(0, 1))))
    kept = [row for row in document["tensors"] if row["name"] != _NAME * 2]
    return file(*_planted(draw, {**document, "tensors": kept}, *pair, at=0), metadata=document["metadata"])


def _gap(draw: Draw, document: Document) -> bytes:
    item = _w(draw, at=draw(_number(1, 9)))
    return file(*_planted(draw, document, item, at=0), metadata=document["metadata"])


def _trailing(draw: Draw, document: Document) -> bytes:
    return file(*_tensors(document), metadata=document["metadata"], tail=draw(st.binary(min_size=1, max_size=9)))


_FRONTS: Final = (b"[", b'"x"', b"x", b"\0", b"\xef\xbb\xbf", b"\xff", b"//", b"}")

DAMAGES: Final[dict[str, Damage]] = {
    "SAFETENSORS-FRM-SHORT": _short,
    "SAFETENSORS-FRM-LENGTH": _length,
    "SAFETENSORS-FRM-RANGE": _range,
    "SAFETENSORS-TXT-START": _dressed(_any(_FRONTS).map(around)),
    "SAFETENSORS-TXT-UTF8": _spelled(list(malformed.NOT_UTF8.values())),
    "SAFETENSORS-TXT-JSON": _json,
    "SAFETENSORS-TXT-SURROGATE": _spelled([spelled for spelled, _ in malformed.SURROGATES.values()]),
    "SAFETENSORS-TXT-DEPTH": _entry(_deep()),
    "SAFETENSORS-TXT-TAIL": _dressed(_any(list(malformed.TAILS.values())).map(lambda back: around(back=back))),
    "SAFETENSORS-MET-DUP": _metadata_twice,
    "SAFETENSORS-MET-FORM": _metadata([b"3", b'"x"', b"[]", b'[["a","b"]]', b"true"]),
    "SAFETENSORS-MET-VALUE": _metadata([b'{"a":3}', b'{"a":null}', b'{"a":[]}', b'{"a":"b","c":{}}', b'{"a":-0.5}']),
    "SAFETENSORS-TEN-DUP": _name_twice,
    "SAFETENSORS-TEN-FORM": _entry(_value([b"null", b'"x"', b"2", b"[]", b'["U8",[2]]', b"false"])),
    "SAFETENSORS-TEN-KEYDUP": _entry(_key_twice()),
    "SAFETENSORS-TEN-MISSING": _entry(_missing()),
    "SAFETENSORS-TEN-DTYPE": _entry(_pair("dtype", _dtypes())),
    "SAFETENSORS-TEN-SHAPE": _entry(_pair("shape", _any(list(invalid.SHAPES.values())))),
    "SAFETENSORS-TEN-OFFSETS": _entry(_pair("data_offsets", _any(list(invalid.OFFSETS.values())))),
    "SAFETENSORS-TEN-REVERSED": _reversed,
    "SAFETENSORS-TEN-SIZEOF": _entry(_shapes(_number(1 << 61, _U64 - 1))),
    "SAFETENSORS-TEN-PARTIAL": _partial,
    "SAFETENSORS-TEN-BYTES": _entry(_shapes(_number(0, (1 << 61) - 1).filter(lambda size: size != 2))),
    "SAFETENSORS-DAT-RANGE": _data_range,
    "SAFETENSORS-DAT-OVERLAP": _overlap,
    "SAFETENSORS-DAT-GAP": _gap,
    "SAFETENSORS-DAT-TRAILING": _trailing,
}
"""By rule, what breaks it."""
