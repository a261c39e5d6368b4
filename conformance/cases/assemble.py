"""A maker of ``.oam`` files, sound and unsound, for the case definitions.

It shares the schema's structs with the reference and nothing else: it lays a file out by itself, and hashes with the
serial definition. What it makes by default is what a writer must make; ``set`` then spoils single fields by their path,
and ``seal`` makes the checksums right again, so that a file has the one fault that its case is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from ...checksum import fnv1a64_serial
from ...spec.dtypes import OAM_CODES, OAM_DTYPES
from ...spec.layout import default_of, field, fields, record_size
from ...spec.schema import (
    OAM_ENCODINGS,
    OAM_MAX_RANK,
    OAM_PAGE,
    OAM_QUANT_BLOCK,
    OAM_SECTIONS,
    OAM_TENSOR_SECTIONS,
    OamConfig,
    OamHeader,
    OamIndex,
    OamOptimizer,
    OamProgress,
    OamSection,
    OamTensor,
)

__all__ = ["Image", "T", "assemble", "config", "optimizer", "progress", "tensors"]

_HEADER: Final = record_size(OamHeader)
_ENTRY: Final = record_size(OamSection)
_HEADS: Final = {
    "config": OamConfig,
    "weights": OamIndex,
    "state": OamIndex,
    "optimizer": OamOptimizer,
    "progress": OamProgress,
}


def _build(record: Any, **values: Any) -> bytes:
    """Build a record from stored values; text may be given as str or unpadded bytes."""
    stored: dict[str, Any] = {}
    for item in fields(record):
        value = values.pop(item.name, default_of(record, item.name))
        if item.role == "text":
            value = (value.encode() if isinstance(value, str) else value).ljust(item.size, b"\0")
        stored[item.name] = value
    assert not values, f"no such field: {', '.join(values)}"
    made: bytes = record.build(stored)
    return made


def config(arch_config: bytes = b"", **values: Any) -> bytes:
    """Return a config section."""
    return _build(OamConfig, arch_config_size=values.pop("arch_config_size", len(arch_config)), **values) + arch_config


def progress(**values: Any) -> bytes:
    """Return a progress section."""
    return _build(OamProgress, **values)


def optimizer(first: bytes = b"", second: bytes | None = None, **values: Any) -> bytes:
    """Return an optimizer section; the second moment is as the first unless given."""
    second = first if second is None else second
    count = values.pop("moment_count", len(first) // 4)
    return _build(OamOptimizer, moment_count=count, **values) + first + second


@dataclass(frozen=True, slots=True)
class T:
    """A tensor of a section to be made. ``data`` is the payload; zeros of the right size where it is None."""

    name: str | bytes
    dtype: str = "f32"
    shape: tuple[int, ...] = (1,)
    data: bytes | None = None
    encoding: str = "dense"

    def payload(self) -> bytes:
        """Return the payload."""
        if self.data is not None:
            return self.data
        elements = 1
        for extent in self.shape:
            elements *= extent
        blocks = -(-elements // OAM_QUANT_BLOCK)
        sizes = {
            "dense": elements * OAM_DTYPES[self.dtype].size,
            "q4": blocks * (OAM_QUANT_BLOCK // 2 + 4),
            "q8": blocks * (OAM_QUANT_BLOCK + 4),
        }
        return bytes(sizes[self.encoding])


def tensors(items: Iterable[T], tail: bytes = b"") -> bytes:
    """Return a weights or state section: index, then the payloads in order, then ``tail``."""
    entries, blob = b"", b""
    made = list(items)
    for item in made:
        payload = item.payload()
        entries += _build(
            OamTensor,
            name=item.name,
            blob_offset=len(blob),
            num_bytes=len(payload),
            dtype=OAM_CODES[item.dtype],
            rank=len(item.shape),
            encoding=OAM_ENCODINGS[item.encoding],
            block_size=0 if item.encoding == "dense" else OAM_QUANT_BLOCK,
            shape=[*item.shape, *[0] * OAM_MAX_RANK][:OAM_MAX_RANK],
        )
        blob += payload
    return _build(OamIndex, count=len(made)) + entries + blob + tail


@dataclass(slots=True)
class Image:
    """A file in the making. ``sections`` are (name or type, offset, size) in the order of the table."""

    data: bytearray
    sections: list[tuple[str | int, int, int]]
    version: int

    def set(self, path: str, value: int | bytes) -> Self:
        """Overwrite a field, such as ``weights[0].rank``, in place; checksums stay as they are."""
        offset, size = self.place(path)
        raw = (value % (1 << 8 * size)).to_bytes(size, "little") if isinstance(value, int) else value
        assert len(raw) == size, f"{path} takes {size} bytes"
        self.data[offset : offset + size] = raw
        return self

    def place(self, path: str) -> tuple[int, int]:
        """Return offset and size of a field, or of ``NAME.blob``, a whole blob."""
        matched = re.fullmatch(r"(\w+)(?:\[(\d+)\])?\.(\w+)(?:\[(\d+)\])?", path)
        assert matched, path
        name, row, key, axis = matched.groups()
        if name == "header":
            base, record = 0, OamHeader
        elif name == "sections":
            base, record = _HEADER + int(row) * _ENTRY, OamSection
        else:
            base, record = self.section(name)[0], _HEADS[name]
            if key == "blob":
                count = int.from_bytes(self.data[base : base + 4], "little")
                start = base + record_size(OamIndex) + count * record_size(OamTensor)
                return start, base + self.section(name)[1] - start
            if row is not None:
                base, record = base + record_size(OamIndex) + int(row) * record_size(OamTensor), OamTensor
        item = field(record, key)
        if axis is None:
            return base + item.offset, item.size
        return base + item.offset + int(axis) * 8, 8

    def section(self, name: str | int) -> tuple[int, int]:
        """Return offset and size of a section."""
        return next((offset, size) for known, offset, size in self.sections if known == name)

    def flip(self, offset: int, mask: int = 1) -> Self:
        """Flip bits of one byte."""
        self.data[offset] ^= mask
        return self

    def seal(
        self, *, payloads: bool = True, header: bool = True, checksum: Callable[[bytes], int] = fnv1a64_serial
    ) -> Self:
        """Make the checksums fit the bytes: those of the payloads as the table has them, then the header's.

        ``checksum`` is how payloads are hashed, where the serial definition would take too long.
        """
        count = len(self.sections)
        checksums = 0
        for entry in range(count):
            offset, size, stored = (
                int.from_bytes(self.data[at : at + length], "little")
                for at, length in (self.place(f"sections[{entry}].{key}") for key in ("offset", "size", "checksum"))
            )
            if payloads and offset + size <= len(self.data):
                stored = checksum(bytes(self.data[offset : offset + size]))
                self.set(f"sections[{entry}].checksum", stored)
            checksums ^= stored
        if header:
            table = self.data[:_HEADER] + self.data[_HEADER : _HEADER + count * _ENTRY]
            at, length = self.place("header.checksum")
            table[at : at + length] = bytes(length)
            self.set("header.checksum", checksums if self.version == 1 else fnv1a64_serial(table))
        return self

    def resize(self, change: int, fill: bytes = b"\0") -> Self:
        """Lengthen or shorten the file at its end, and its total size with it."""
        if change < 0:
            del self.data[change:]
        else:
            self.data += fill * change
        return self.set("header.total_size", len(self.data))

    def bytes(self) -> bytes:
        """Return the file."""
        return bytes(self.data)


def assemble(
    sections: Sequence[tuple[str | int, bytes]],
    *,
    version: int = 3,
    bodies: Sequence[int] | None = None,
    gaps: Sequence[int] = (),
    start: int = 0,
    pages: bool = True,
    fill: int = 0,
    checksum: Callable[[bytes], int] = fnv1a64_serial,
) -> Image:
    """Lay a file out and seal it.

    ``bodies`` is the order of the payloads, as positions in ``sections``; ``gaps`` are extra bytes before each payload,
    in that order; ``start`` is added to the first offset; ``pages=False`` leaves out the padding of weights and state;
    ``fill`` is the byte of all padding; ``checksum`` hashes the payloads.
    """
    count = len(sections)
    at = -(-(_HEADER + count * _ENTRY) // OAM_PAGE) * OAM_PAGE + start
    offsets = [0] * count
    for number, position in enumerate(range(count) if bodies is None else bodies):
        name, payload = sections[position]
        at += gaps[number] if number < len(gaps) else 0
        offsets[position] = at
        at += len(payload)
        if pages and name in OAM_TENSOR_SECTIONS:
            at += -len(payload) % OAM_PAGE
    data = bytearray([fill]) * at
    image = Image(data, [(name, offsets[i], len(body)) for i, (name, body) in enumerate(sections)], version)
    data[:_HEADER] = _build(OamHeader, version=version, section_count=count, total_size=at, checksum=0)
    for position, (name, payload) in enumerate(sections):
        base = _HEADER + position * _ENTRY
        kind = name if isinstance(name, int) else OAM_SECTIONS[name]
        data[base : base + _ENTRY] = _build(
            OamSection, type=kind, offset=offsets[position], size=len(payload), checksum=0
        )
        data[offsets[position] : offsets[position] + len(payload)] = payload
    return image.seal(checksum=checksum)
