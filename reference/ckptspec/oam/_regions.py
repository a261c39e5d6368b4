"""Every byte of a file, named: the fields of all records, the payloads, and what lies between."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from construct import Struct

from ..regions import Region
from ..source import Source
from ..spec.layout import Field, fields, record_size
from ..spec.schema import OamConfig, OamHeader, OamIndex, OamOptimizer, OamProgress, OamSection, OamTensor
from ..text import printable, shorten
from ._anatomy import Anatomy, Index, Section
from ._placement import uncovered
from ._tensors import ENCODING_NAMES

__all__ = ["regions", "shown"]


def regions(source: Source, anatomy: Anatomy) -> Iterator[Region]:
    """Yield the regions of a file in the order of their offsets, as far as it could be understood."""
    placed = sorted((s for s in anatomy.sections if s.in_place), key=lambda s: (s.offset, s.size))
    gaps = list(uncovered(anatomy, placed))
    yield from _record(source, OamHeader, 0, "header", {"checksum": _hash})
    for section in anatomy.sections:
        base = record_size(OamHeader) + section.entry * record_size(OamSection)
        special = {"type": functools.partial("{1} ({0})".format, section.name), "checksum": _hash}
        yield from _record(source, OamSection, base, f"sections[{section.entry}]", special)
    at = record_size(OamHeader) + len(anatomy.sections) * record_size(OamSection)
    for section in placed:
        yield from (_gap(*gap) for gap in gaps if at <= gap[0] < section.offset)
        yield from _section(source, anatomy, section)
        at = max(at, section.end)
    yield from (_gap(*gap) for gap in gaps if gap[0] >= at)


def _gap(offset: int, size: int) -> Region:
    return Region(offset=offset, size=size, path="padding", type=f"byte[{size}]", kind="padding", doc="Padding.")


def _hash(value: Any) -> str:
    return f"0x{value:016x}"


def shown(item: Field, value: Any) -> str:
    match item.role:
        case "text":
            text, nul, tail = value.partition(b"\0")
            after = f", then {tail.rstrip(bytes(1)).hex()}" if any(tail) else ""
            return f"'{printable(text.decode('utf-8', 'backslashreplace'))}'{'' if nul else ' without a NUL'}{after}"
        case "reserved":
            return "zeros" if not any(value) else value.hex()
        case "f32":
            import numpy as np

            return f"{np.uint32(value).reshape(1).view(np.float32)[0]!s} (0x{value:08x})"
        case "dtype":
            from ..spec.dtypes import OAM_BY_CODE

            return f"{value} ({OAM_BY_CODE[value].name if value in OAM_BY_CODE else 'unknown'})"
        case "bytes":
            return str(value.hex(" "))
        case _:
            return str(list(value)) if item.count else str(value)


def _record(
    source: Source, record: Struct, base: int, where: str, special: Mapping[str, Any] | None = None
) -> Iterator[Region]:
    values = record.parse(bytes(source.read(base, record_size(record))))
    for item in fields(record):
        value = values[item.name]
        show = (special or {}).get(item.name)
        yield Region(
            offset=base + item.offset,
            size=item.size,
            path=f"{where}.{item.name}",
            type=f"{item.type}[{item.count}]" if item.count else item.type,
            kind=item.role,
            value=show(value) if show else shown(item, value),
            doc=item.doc,
        )


def _section(source: Source, anatomy: Anatomy, section: Section) -> Iterator[Region]:
    at = section.offset
    if anatomy.section(section.name) is not section:  # a second one of its type
        if section.size:
            yield _data(at, section.size, f"sections[{section.entry}]", "A section that is not read.")
        return
    index = anatomy.indexes.get(section.name)
    if section.name == "config" and anatomy.config is not None:
        yield from _record(source, OamConfig, at, "config")
        at += record_size(OamConfig)
        if section.end > at:
            yield _data(at, section.end - at, "config.arch_config", "The architecture's own configuration, opaque.")
    elif section.name == "optimizer" and anatomy.optimizer is not None:
        yield from _record(source, OamOptimizer, at, "optimizer")
        at += record_size(OamOptimizer)
        for name, (offset, size) in zip(("first_moment", "second_moment"), anatomy.moments, strict=False):
            if size:
                yield _data(offset, size, f"optimizer.{name}", f"{size // 4} f32 elements.")
            at = offset + size
        if section.end > at:
            yield _data(at, section.end - at, "optimizer", "Bytes that no record explains.")
    elif section.name == "progress" and anatomy.progress is not None:
        yield from _record(source, OamProgress, at, "progress")
        at += record_size(OamProgress)
        if section.end > at:
            yield _data(at, section.end - at, "progress", "Bytes that no record explains.")
    elif index is not None:
        yield from _record(source, OamIndex, at, section.name)
        yield from _index(source, section, index)
    elif section.size:
        yield _data(at, section.size, section.name, "A section that cannot be read further.")


def _data(offset: int, size: int, path: str, doc: str) -> Region:
    return Region(offset=offset, size=size, path=path, type=f"byte[{size}]", kind="data", doc=doc)


def _index(source: Source, section: Section, index: Index) -> Iterator[Region]:
    encodings = {"encoding": lambda value: f"{value} ({ENCODING_NAMES.get(value, 'unknown')})"}
    for row in range(len(index.entries)):
        base = index.base + row * record_size(OamTensor)
        yield from _record(source, OamTensor, base, f"{section.name}[{row}]", encodings)
    payloads = []
    for row, entry in enumerate(index.entries):
        offset, size = int(entry["blob_offset"]), int(entry["num_bytes"])
        if size and offset + size <= index.blob_size:
            payloads.append((index.blob + offset, size, row))
    at = index.blob
    for offset, size, row in sorted(payloads):
        if offset > at:
            yield _data(at, offset - at, f"{section.name}.blob", "Bytes that belong to no tensor.")
        if offset >= at:  # an overlapping payload is in its entry, but its bytes are shown once
            name = shorten(printable(index.names[row] or ""), 80)
            yield _data(offset, size, f"{section.name}[{row}].data", f"Payload of '{name}'.")
        at = max(at, offset + size)
    if section.end > at:
        yield _data(at, section.end - at, f"{section.name}.blob", "Bytes that belong to no tensor.")
