"""The records of a file for the page: config, optimizer, progress, training, metadata, and what survives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ..findings import Survivor
from ..regions import Region
from ..source import Source
from ..text import count, printable

__all__ = ["BLOB_BYTES", "VALUE", "blob", "records_of", "survivors_of"]

VALUE: Final = 4000  # characters of a value
BLOB_BYTES: Final = 400  # of opaque bytes
_MOST: Final = 2000  # rows of a record
_MOST_SURVIVORS: Final = 100  # parts of a damaged file, beyond which only those are listed that are not intact

Record = dict[str, Any]
"""``title``, ``columns`` (headings, perhaps none), ``rows`` of texts, ``note``."""


def records_of(format: str, parts: dict[str, Any], docs: Mapping[str, str], blobs: Mapping[str, str]) -> list[Record]:
    """Return the records that ``inspect`` found in a file.

    ``docs`` are sentences of the schema by path, ``blobs`` opaque bytes for people, by path.
    """
    return _MAKERS[format](parts, docs, blobs)


def _record(title: str, rows: Iterable[list[str]], columns: Iterable[str] = (), note: str = "") -> Record:
    listed = list(rows)
    if len(listed) > _MOST:
        note = f"{note} The first {_MOST:,} of {len(listed):,} are listed.".strip()
    return {"title": title, "columns": list(columns), "rows": listed[:_MOST], "note": note}


def _fields(title: str, values: Mapping[str, Any] | None, docs: Mapping[str, str], path: str) -> Record:
    """Return a record of fields, each with its sentence."""
    rows = [[key, _cut(str(value)), docs.get(f"{path}.{key}", "")] for key, value in (values or {}).items()]
    return _record(title, rows, note="" if values is not None else "There is none, or it cannot be read.")


def _cut(text: str) -> str:
    return text if len(text) <= VALUE else f"{text[:VALUE]}... ({len(text):,} characters)"


def _plain(value: Any) -> str:
    return "cannot be read" if value is None else str(value)


def blob(source: Source, region: Region) -> str:
    """Return opaque bytes for people: as text, if they are text, else in hex."""
    data = bytes(source.read(region.offset, min(region.size, BLOB_BYTES, source.size - region.offset)))
    more = "" if region.size <= BLOB_BYTES else f" ... ({count(region.size, 'byte')})"
    try:
        return f"'{printable(data.decode())}'{more}"
    except UnicodeDecodeError:
        return data.hex(" ") + more


def _oam(parts: dict[str, Any], docs: Mapping[str, str], blobs: Mapping[str, str]) -> list[Record]:
    mark = {True: "matches", False: "does not match", None: "not verified"}
    sections = [
        [item["name"], f"{item['offset']:,}", f"{item['size']:,}", item["checksum"], mark[item["intact"]]]
        for item in parts["sections"]
    ]
    made = [_record("sections", sections, ("name", "offset", "bytes", "checksum", ""))]
    for name in ("config", "optimizer", "progress"):
        values = parts[name]
        if values is not None and name == "config":
            values = values | {key: blobs.get(f"config.{key}", values[key]) for key in ("arch_config",)}
        made.append(_fields(name, values, docs, name))
    return made


def _ocannl(parts: dict[str, Any], docs: Mapping[str, str], blobs: Mapping[str, str]) -> list[Record]:
    made = [_header(parts["header"] | {"version": parts["version"]}, docs)]
    training = parts["training"]
    if training is None:
        return [*made, _record("training", (), note="There is no training record.")]
    values = {key: _plain(training[key]) for key in ("version", "step", "epoch", "position", "host_rng")}
    for key, joined in (("seeds", _joined), ("state", _nodes)):
        values[key] = "cannot be read, or none" if training[key] is None else joined(training[key]) or "empty"
    made.append(_fields("training", values, docs, "training"))
    extra = [[_cut(key), _cut(value)] for key, value in training["extra"] or ()]
    made.append(_record("training: extra", extra, note="" if extra else "There is nothing, or it cannot be read."))
    return made


def _joined(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items))


def _nodes(items: Iterable[tuple[str, int]]) -> str:
    return _joined(f"{namespace}:{number}" for namespace, number in items)


def _header(values: Mapping[str, Any], docs: Mapping[str, str]) -> Record:
    return _record("header", [[key, _plain(value), docs.get(f"header.{key}", "")] for key, value in values.items()])


def _safetensors(parts: dict[str, Any], docs: Mapping[str, str], blobs: Mapping[str, str]) -> list[Record]:
    metadata = parts["metadata"]
    rows = [[_cut(printable(key)), _cut(printable(value))] for key, value in (metadata or {}).items()]
    note = "There is none." if metadata is None else "" if metadata else "It is empty."
    return [_header(parts["header"], docs), _record("metadata", rows, note=note)]


_MAKERS: Final[dict[str, Callable[..., list[Record]]]] = {
    "oam": _oam,
    "ocannl": _ocannl,
    "safetensors": _safetensors,
}


def survivors_of(survivors: Sequence[Survivor]) -> list[Record]:
    """Return what survives of a damaged file, as a record; none of a sound one."""
    intact = [item for item in survivors if item.what == "tensor" and item.state == "intact"]
    left_out = len(intact) if len(survivors) > _MOST_SURVIVORS else 0
    rows = [
        [item.state, item.path, printable(item.name) if item.what == "tensor" else "", printable(item.reason)]
        for item in survivors
        if not left_out or item.what != "tensor" or item.state != "intact"
    ]
    note = "What is not lost, `ckptspec salvage` writes into a new file."
    if left_out:
        note += f" {left_out:,} tensors that are intact are not listed."
    return [_record("what survives", rows, ("state", "part", "name", "why"), note)] if survivors else []
