"""A maker of safetensors files, sound and unsound, for the case definitions.

It shares the schema's frame and the table of dtypes with the reference and nothing else: it spells headers and lays
payloads out by itself. What it makes by default is what a writer must make, as long as the tensors come in the writer's
order; the arguments of ``file`` and what ``dress`` does to the header's text then spoil it, so that a file has the one
fault that its case is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ....spec.dtypes import SAFETENSORS_DTYPES, SAFETENSORS_ORDER
from ....spec.schema import SAFETENSORS_HEADER_ALIGNMENT, SAFETENSORS_METADATA, SafetensorsFrame

__all__ = ["Dress", "T", "around", "entry", "file", "frame", "inside", "ramp", "sound", "string", "swap", "text"]

Dress: TypeAlias = Callable[[bytes], bytes]

_FRAME: Final = SafetensorsFrame.sizeof()


def ramp(size: int, start: int = 1) -> bytes:
    """Return ``size`` bytes that count up, so that a byte out of place shows."""
    return bytes((start + at) % 256 for at in range(size))


def string(value: str) -> bytes:
    """Return a string as a writer spells it."""
    return json.dumps(value, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class T:
    """A tensor to be made.

    ``data`` is the payload, a ramp of the right size where it is None. ``at`` is its place in the byte buffer, by
    default behind the one before it; ``spelled`` is the name with its quotes, as it stands in the header.
    """

    name: str = "w"
    dtype: str = "U8"
    shape: tuple[int, ...] = (2,)
    data: bytes | None = None
    at: int | None = None
    spelled: bytes | None = None

    def payload(self) -> bytes:
        """Return the payload."""
        if self.data is not None:
            return self.data
        bits = SAFETENSORS_DTYPES[self.dtype].bits
        for extent in self.shape:
            bits *= extent
        return bytes(at % 2 for at in range(bits // 8)) if self.dtype == "BOOL" else ramp(bits // 8)


def sound(*tensors: T) -> list[T]:
    """Return tensors in the order of a writer."""
    return sorted(tensors, key=lambda item: (SAFETENSORS_ORDER[item.dtype], item.name.encode()))


def entry(item: T, begin: int, end: int) -> bytes:
    """Return a tensor's entry in the header, its name included."""
    shape = b",".join(b"%d" % extent for extent in item.shape)
    name = string(item.name) if item.spelled is None else item.spelled
    return b'%b:{"dtype":"%b","shape":[%b],"data_offsets":[%d,%d]}' % (name, item.dtype.encode(), shape, begin, end)


def _placed(tensors: Sequence[T]) -> tuple[list[tuple[int, int]], bytes]:
    places, data, end = [], bytearray(), 0
    for item in tensors:
        payload = item.payload()
        begin = end if item.at is None else item.at
        end = begin + len(payload)
        places.append((begin, end))
        data += bytes(max(0, end - len(data)))
        data[begin:end] = payload
    return places, bytes(data)


def text(*tensors: T, metadata: Mapping[str, str] | None = None, order: Sequence[int] | None = None) -> bytes:
    """Return the text of a header. ``order`` is that of the entries, as positions, where it is not the payloads'."""
    places, _ = _placed(tensors)
    parts = []
    if metadata is not None:
        pairs = b",".join(string(key) + b":" + string(value) for key, value in metadata.items())
        parts.append(string(SAFETENSORS_METADATA) + b":{" + pairs + b"}")
    for at in range(len(tensors)) if order is None else order:
        parts.append(entry(tensors[at], *places[at]))
    return b"{" + b",".join(parts) + b"}"


def frame(header: bytes, data: bytes = b"", *, pad: bool = True, more: int = 0, length: int | None = None) -> bytes:
    """Return a file: ``header``, padded unless told otherwise and then by ``more`` spaces, and the byte buffer.

    ``length`` is a header length that is not true.
    """
    padded = header + b" " * (-len(header) % SAFETENSORS_HEADER_ALIGNMENT if pad else 0) + b" " * more
    made: bytes = SafetensorsFrame.build({"header_length": len(padded) if length is None else length})
    return made + padded + data


def file(
    *tensors: T,
    metadata: Mapping[str, str] | None = None,
    order: Sequence[int] | None = None,
    dress: Dress = lambda made: made,
    pad: bool = True,
    more: int = 0,
    tail: bytes = b"",
) -> bytes:
    """Return a whole file; ``dress`` changes the header's text, ``tail`` comes after the payloads."""
    made = dress(text(*tensors, metadata=metadata, order=order))
    return frame(made, _placed(tensors)[1] + tail, pad=pad, more=more)


# ------------------------------------------------------------------------------------------------ changes to the text


def around(front: bytes = b"", back: bytes = b"") -> Dress:
    """Put something in front of the header's text and behind it."""
    return lambda made: front + made + back


def swap(old: bytes, new: bytes) -> Dress:
    """Replace a piece of the header's text, which must stand there once."""

    def change(made: bytes) -> bytes:
        assert made.count(old) == 1, (old, made)
        return made.replace(old, new)

    return change


def inside(pair: bytes) -> Dress:
    """Add a pair to the last entry of the header."""
    return lambda made: made[:-2] + b"," + pair + made[-2:]
