"""Hypothesis strategies for safetensors files: documents, headers in odd spellings, damaged files.

Headers are put together here, apart from the reference's writer. ``spell`` and ``damage`` take any ``random.Random``,
so that they serve outside of hypothesis too.
"""

from __future__ import annotations

import json
import math
import re
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from ..spec.dtypes import SAFETENSORS_DTYPES
from ..spec.schema import SAFETENSORS_METADATA, SafetensorsFrame

__all__ = [
    "damage",
    "damaged_safetensors_files",
    "extreme_safetensors_files",
    "safetensors_documents",
    "safetensors_layouts",
    "spell",
]

Document = dict[str, Any]
_FRAME: Final = SafetensorsFrame.sizeof()

# ----------------------------------------------------------------------------------------------------------- documents

_ODD_TEXTS: Final = (
    *("", " ", "a", "b", "a.b", "a/b", "..", "\0", "\n", "\x1f", "\x7f", '"', "\\", "\\u0041", "é", "e\u0301"),
    *("\u2028", "\ufeff", "\uffff", "\U00010000", "dtype", "__metadata", "null", "n" * 70, '":', '" :', "-0", ":-0"),
)
_HUGE: Final = (1 << 62, 1 << 63, (1 << 64) - 1)


def _texts() -> st.SearchStrategy[str]:
    return st.sampled_from(_ODD_TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def _tensor(draw: Any, name: str) -> Document:
    dtype = draw(st.sampled_from(list(SAFETENSORS_DTYPES)))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    if draw(st.integers(0, 9)) == 0:
        shape = [0, *shape, draw(st.sampled_from(_HUGE))]
    bits = SAFETENSORS_DTYPES[dtype].bits
    if math.prod(shape) * bits % 8:
        shape.append(4)
    size = math.prod(shape) * bits // 8
    data = draw(st.binary(min_size=size, max_size=size)).hex()
    return {"name": name, "dtype": dtype, "shape": [str(extent) for extent in shape], "data": data}


@st.composite
def safetensors_documents(draw: Any) -> Document:
    """Neutral documents: any names, any dtypes, any bits."""
    names = draw(st.lists(_texts().filter(lambda name: name != SAFETENSORS_METADATA), max_size=5, unique=True))
    return {
        "format": "safetensors",
        "metadata": draw(st.none() | st.dictionaries(_texts(), _texts(), max_size=3)),
        "tensors": [draw(_tensor(name)) for name in sorted(names, key=str.encode)],
    }


# ------------------------------------------------------------------------------------------------------------- layouts


def _string(random: Random, text: str, odd: float) -> str:
    made = json.dumps(text, ensure_ascii=False)
    if random.random() >= odd:
        return made
    if random.random() < 0.5:
        made = json.dumps(text)
        return made.replace("/", "\\/") if random.random() < 0.5 else re.sub("u[0-9a-f]{4}", _upper, made)
    return '"' + "".join(f"\\u{unit:04x}" for unit in _units(text)) + '"'


def _upper(match: re.Match[str]) -> str:
    return "u" + match[0][1:].upper()


def _units(text: str) -> list[int]:
    raw = text.encode("utf-16-le")
    return [int.from_bytes(raw[at : at + 2], "little") for at in range(0, len(raw), 2)]


def _join(random: Random, parts: list[str], ends: str, odd: float) -> str:
    def blank() -> str:
        return random.choice((" ", "\n", "\t", "\r\n", "  ")) if random.random() < odd / 2 else ""

    return ends[0] + blank() + ",".join(blank() + part + blank() for part in parts) + ends[1]


_UNKNOWN: Final = ("null", "1", "-0", '"x"', "[]", '{"dtype":"U8"}', "[[[1.5e3]]]", '"\\u0041\\n"', "{}")


def spell(random: Random, document: Document, odd: float = 0.2, *, unknown: bool = True) -> bytes:
    """Return a file that holds what a document says, its header in an odd spelling and order.

    ``unknown`` lets entries have keys that no reader knows, which some refuse.
    """
    tensors = list(document["tensors"])
    random.shuffle(tensors)
    data, parts = b"", []
    for tensor in tensors:
        payload = bytes.fromhex(tensor["data"])
        values = [
            '"dtype":' + _string(random, tensor["dtype"], odd),
            '"shape":' + _join(random, tensor["shape"], "[]", odd),
            '"data_offsets":' + _join(random, [str(len(data)), str(len(data) + len(payload))], "[]", odd),
        ]
        data += payload
        if random.random() < odd / 3 and unknown:
            values.append('"x":' + random.choice(_UNKNOWN))
        if random.random() < odd:
            random.shuffle(values)
        parts.append(_string(random, tensor["name"], odd) + ":" + _join(random, values, "{}", odd))
    random.shuffle(parts)
    if document["metadata"] is not None:
        pairs = [
            _string(random, key, odd) + ":" + _string(random, value, odd) for key, value in document["metadata"].items()
        ]
        parts.insert(random.choice((0, len(parts))), f'"{SAFETENSORS_METADATA}":' + _join(random, pairs, "{}", odd))
    text = _join(random, parts, "{}", odd) + " " * random.choice((0, 0, 1, 8))
    return _framed(text.encode(), data)


def _framed(text: bytes, data: bytes) -> bytes:
    made: bytes = SafetensorsFrame.build({"header_length": len(text)})
    return made + text + data


@st.composite
def safetensors_layouts(draw: Any, *, unknown: bool = True) -> tuple[Document, bytes]:
    """A document and a file that holds what it says, its header in an odd spelling."""
    document = draw(safetensors_documents())
    random = Random(draw(st.integers(0, (1 << 32) - 1)))  # noqa: S311  # not for secrets
    return document, spell(random, document, draw(st.sampled_from((0.0, 0.1, 0.5))), unknown=unknown)


# -------------------------------------------------------------------------------------------------------------- damage

_NUMBER: Final = re.compile(rb"(?<=[\[,:])[0-9]+(?=[\],}])")
_VALUE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+|\[[^\[\]{}]*\]|\{[^{}]*\}|null')
_PAIR: Final = re.compile(rb'"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[0-9]+|\[[^\[\]]*\]|\{[^{}]*\})')
_VALUES: Final = (
    *(b"-0", b"0.0", b"1e2", b"00", b"-1", b"+1", b"NaN", b"null", b"true", b'"2"', b"[]", b"{}", b"[0,0]", b"1E-1"),
    *(b"18446744073709551615", b"18446744073709551616", b"9223372036854775808", b"4611686018427387904", b"9" * 30),
    *(b'"\\ud800"', b'"\\u0041"', b'"\xff"', b'"\n"', b'"U8"', b'"u8"', b'"F4"', b'["U8",[2],[0,2]]', b'{"U8":null}'),
    *(b"1e999", b"[" * 70 + b"]" * 70, b'"__metadata__"', b'{"a":"b","a":"c"}', b"0x1", b"Infinity", b'"\\195"'),
)


def _any_byte(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text) + 1)
    piece = random.choice((b"", b",", b"}", b"]", b"{", b'"', b" ", b"\n", b"\0", b"\\", b"0", b"-", b":", b"\xff"))
    return text[:at] + piece + text[at + random.choice((0, 1)) :]


def _spans(pattern: re.Pattern[bytes], text: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text)]


def _number(random: Random, text: bytes) -> bytes:
    spans = _spans(_NUMBER, text)
    if not spans:
        return text
    start, end = random.choice(spans)
    near = b"%d" % abs(int(text[start:end][:18]) + random.choice((-1, 1, 2, 8)))
    return text[:start] + random.choice((near, random.choice(_VALUES))) + text[end:]


def _value(random: Random, text: bytes) -> bytes:
    spans = _spans(_VALUE, text)
    if not spans:
        return text
    start, end = random.choice(spans)
    other = text[slice(*random.choice(spans))]
    return text[:start] + random.choice((other, random.choice(_VALUES))) + text[end:]


def _pair(random: Random, text: bytes) -> bytes:
    spans = _spans(_PAIR, text)
    if not spans:
        return text
    start, end = random.choice(spans)
    match random.randrange(3):
        case 0:  # gone, with its comma
            return text[:start] + text[end:].lstrip().removeprefix(b",")
        case 1:  # twice
            return text[:end] + b"," + text[start:end] + text[end:]
        case _:  # another one in its place
            return text[:start] + text[slice(*random.choice(spans))] + text[end:]


def _around(random: Random, text: bytes) -> bytes:
    front = random.choice((b"", b"", b" ", b"\n", b"\xef\xbb\xbf", b"["))
    return front + text + random.choice((b"", b" " * 9, b"\n", b"\t", b"\0", b"}", b"{}", b"//"))


def damage(random: Random, data: bytes) -> bytes:
    """Return a file with some damage to its header, to the header's length or to what follows."""
    length = min(SafetensorsFrame.parse(data)["header_length"], len(data) - _FRAME)
    text, rest = data[_FRAME : _FRAME + length], data[_FRAME + length :]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        text = random.choice((_any_byte, _number, _number, _value, _pair, _pair, _around))(random, text)
    made = _framed(text, rest)
    match random.randrange(20):
        case 0:
            return made[: random.randrange(len(made) + 1)]
        case 1:
            return made + bytes(random.choice((1, 8)))
        case 2:
            length = random.choice((0, len(text) + 1, max(0, len(text) - 1), 1 << 63, 100_000_001))
            frame: bytes = SafetensorsFrame.build({"header_length": length})
            return frame + made[_FRAME:]
        case _:
            return made


@st.composite
def damaged_safetensors_files(draw: Any) -> bytes:
    """Files with some damage; most must be refused."""
    _, data = draw(safetensors_layouts())
    return damage(Random(draw(st.integers(0, (1 << 32) - 1))), data)  # noqa: S311  # not for secrets


@st.composite
def extreme_safetensors_files(draw: Any) -> bytes:
    """Files of one tensor with extreme extents and offsets."""
    numbers = st.sampled_from(
        [0, 1, 2, 4, 8, *((1 << power) + more for power in (31, 32, 60, 61, 62, 63, 64) for more in (-1, 0, 1))]
    )
    shape = draw(st.lists(numbers, max_size=4))
    dtype = draw(st.sampled_from(list(SAFETENSORS_DTYPES)))
    begin, end = draw(st.sampled_from([(0, 0), (0, 2)])) if draw(st.booleans()) else (draw(numbers), draw(numbers))
    text = f'{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}}}'.encode()
    return _framed(text, draw(st.sampled_from([b"", b"\1\2"])))
