"""A description of a file's parts for people and programs: what ``inspect`` shows."""

from __future__ import annotations

from typing import Any

from ..records import public_fields
from ..source import Source
from ..spec.dtypes import OAM_BY_CODE
from ..spec.schema import OAM_MAX_RANK, OamConfig, OamOptimizer, OamProgress
from ._anatomy import CONFIG_DERIVED, Anatomy, Index
from ._regions import shown
from ._tensors import ENCODING_NAMES, raw_name

__all__ = ["description"]


def description(source: Source, anatomy: Anatomy) -> dict[str, Any]:
    """Return the parts of a file as JSON types. Numbers are numbers here; names are as they stand in the file."""
    return {
        "version": anatomy.version,
        "sections": [
            {
                "name": section.name,
                "offset": section.offset,
                "size": section.size,
                "checksum": f"0x{section.checksum:016x}",
                "intact": section.intact,
            }
            for section in anatomy.sections
        ],
        "config": _record(OamConfig, anatomy.config) | {"arch_config": f"{anatomy.arch_config[1]} bytes"}
        if anatomy.config is not None
        else None,
        "optimizer": _record(OamOptimizer, anatomy.optimizer),
        "progress": _record(OamProgress, anatomy.progress),
        "tensors": [row for index in anatomy.indexes.values() for row in _tensors(index)],
    }


def _record(record: Any, stored: Any) -> Any:
    if stored is None:
        return None
    return {item.name: shown(item, stored[item.name]) for item in public_fields(record, CONFIG_DERIVED)}


def _tensors(index: Index) -> list[dict[str, Any]]:
    rows = []
    for row, entry in enumerate(index.entries):
        dtype = OAM_BY_CODE.get(int(entry["dtype"]))
        name = index.names[row]
        rows.append(
            {
                "section": index.section.name,
                "name": raw_name(index, row).decode("utf-8", "backslashreplace") if name is None else name,
                "dtype": dtype.name if dtype else f"unknown ({int(entry['dtype'])})",
                "shape": [int(extent) for extent in entry["shape"][: min(int(entry["rank"]), OAM_MAX_RANK)]],
                "encoding": ENCODING_NAMES.get(int(entry["encoding"]), f"unknown ({int(entry['encoding'])})"),
                "offset": index.blob + int(entry["blob_offset"]),
                "size": int(entry["num_bytes"]),
                "accepted": row not in index.bad,
            }
        )
    return rows
