"""A file's parts for people and programs: the description that ``inspect`` shows, and every byte by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..regions import Region, frame_regions, stretch, text_region
from ..spec.schema import SafetensorsFrame
from ..text import show
from ._anatomy import FRAME_SIZE, Anatomy, Entry, Place

__all__ = ["description", "regions"]


def description(anatomy: Anatomy) -> dict[str, Any]:
    """Return the parts of a file as JSON types. Numbers are numbers here; what cannot be read is null."""
    return {
        "header": {"length": anatomy.header_length, "data_offset": anatomy.data if anatomy.text else None},
        "metadata": anatomy.metadata,
        "tensors": [_tensor(anatomy, entry) for entry in anatomy.entries],
    }


def _tensor(anatomy: Anatomy, entry: Entry) -> dict[str, Any]:
    placed = entry.begin is not None and entry.end is not None
    return {
        "name": entry.name,
        "dtype": entry.dtype.safetensors if entry.dtype else None,
        "shape": None if entry.shape is None else list(entry.shape),
        "offset": anatomy.data + (entry.begin or 0) if placed else None,
        "size": (entry.end or 0) - (entry.begin or 0) if placed else None,
        "accepted": not entry.bad,
    }


def _name(entry: Entry) -> str:
    return f"tensor {show(entry.name)}"


def regions(anatomy: Anatomy) -> Iterator[Region]:
    """Yield the regions of a file in the order of their offsets, as far as it could be understood."""
    yield from frame_regions(SafetensorsFrame, {"header_length": anatomy.header_length})
    if not anatomy.text:
        yield from stretch(FRAME_SIZE, anatomy.size, "header", "bytes", "What follows the header length.")
        return
    at = FRAME_SIZE
    for (offset, size), path, doc in _parts(anatomy):
        if offset < at:  # a doubled metadata key
            continue
        yield from _syntax(at, offset)
        yield text_region(anatomy.text, offset - FRAME_SIZE, size, FRAME_SIZE, path, doc)
        at = offset + size
    yield from _syntax(at, anatomy.data)
    yield from _payloads(anatomy)


def _parts(anatomy: Anatomy) -> list[tuple[Place, str, str]]:
    parts = []
    if anatomy.metadata_place is not None:
        parts.append((anatomy.metadata_place, "metadata", "Text for people and programs."))
    for entry in anatomy.entries:
        start = entry.places["name"][0]
        end = sum(entry.places["entry"])
        parts.append(((start, end - start), _name(entry), "Name, dtype, shape and place of a tensor."))
    return sorted(parts)


def _syntax(start: int, end: int) -> Iterator[Region]:
    return stretch(start, end, "syntax", "padding", "Brackets, commas and blanks.", "char")


def _payloads(anatomy: Anatomy) -> Iterator[Region]:
    placed = [
        (entry.begin, entry.end, row, entry)
        for row, entry in enumerate(anatomy.entries)
        if entry.begin is not None and entry.end is not None and entry.end <= anatomy.room
    ]
    at = anatomy.data
    for begin, end, _, entry in sorted(placed, key=lambda item: item[:3]):
        start = anatomy.data + begin
        yield from stretch(at, start, "gap", "bytes", "A gap.")
        dtype = (entry.dtype.safetensors if entry.dtype else None) or "unknown"
        shape = " x ".join(map(str, entry.shape or ())) or "scalar"
        yield Region(
            offset=start,
            size=end - begin,
            path=f"{_name(entry)}.data",
            type=f"byte[{end - begin}]",
            kind="data",
            value=f"{dtype}, {shape}",
        )
        at = max(at, anatomy.data + end)
    yield from stretch(at, anatomy.size, "gap", "bytes", "What no tensor takes.")
