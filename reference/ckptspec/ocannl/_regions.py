"""Every byte of a checkpoint, named: the frame, the records of the header's text, the payloads, what lies between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .. import sexp
from ..regions import Region, frame_regions, stretch, text_region
from ..spec.schema import OCANNL_RECORDS, OcannlFrame
from ._anatomy import FRAME_SIZE, Anatomy, Entry
from ._nodes import atom, named

__all__ = ["entry_name", "regions"]

_DOCS: Final = {kind: {key.name: key.doc for key in table} for kind, table in OCANNL_RECORDS.items()}
_LEVELS: Final = 5  # below the header: its pairs, the list of records, a record, its pairs, their keys


def entry_name(entry: Entry, row: int) -> str:
    """Return what messages call a tensor, as far as its record can be read."""
    if entry.namespace is None or entry.id is None:
        return f"tensors[{row}]"
    return named((atom(entry.namespace, ""), entry.id), [atom(word, "") for word in entry.label or ()])


def regions(anatomy: Anatomy) -> Iterator[Region]:
    """Yield the regions of a file in the order of their offsets, as far as it could be understood."""
    yield from frame_regions(OcannlFrame, {"header_length": anatomy.header_length})
    if not anatomy.text:
        yield from stretch(FRAME_SIZE, anatomy.size, "header", "bytes", "What follows the header length.")
        return
    at = FRAME_SIZE
    for region in _records(anatomy):
        yield from _syntax(at, region.offset)
        yield region
        at = region.offset + region.size
    yield from _syntax(at, anatomy.data)
    yield from _payloads(anatomy)


def _syntax(start: int, end: int) -> Iterator[Region]:
    return stretch(start, end, "syntax", "padding", "Parentheses, blanks and comments.", "char")


def _records(anatomy: Anatomy) -> Iterator[Region]:
    """Yield a region for each (key value) pair of the header and of the records in it."""
    base, text = anatomy.places.base, anatomy.places.text
    try:
        root = sexp.outline(text, _LEVELS)
    except sexp.SexpError:
        doc = "The header's text, which is no S-expression."
        yield from stretch(FRAME_SIZE, anatomy.data, "header", "bytes", doc)
        return

    def region(node: sexp.Node, path: str, doc: str) -> Region:
        return text_region(text, node.start, node.end - node.start, base, path, doc)

    def record(node: sexp.Node, kind: str, path: str) -> Iterator[Region]:
        docs = _DOCS[kind]
        for index, pair in enumerate(node.value if isinstance(node.value, tuple) else ()):
            key = _key(pair)
            known = key is not None and key in docs
            name = f"{path}.{key}" if known else f"{path}[{index}]"
            inner = pair.at(1) if key is not None else pair
            if kind == "header" and key in ("tensors", "training") and isinstance(inner.value, tuple):
                if key == "training":
                    yield from record(inner, "training", "training")
                for row, entry in enumerate(inner.value if key == "tensors" else ()):
                    yield from record(entry, "tensor", f"tensors[{row}]")
            else:
                yield region(pair, name, docs[key] if key is not None and known else "A pair that readers ignore.")

    if isinstance(root.value, bytes):
        yield region(root, "header", "The header, which is no list.")
    else:
        yield from record(root, "header", "header")


def _key(pair: sexp.Node) -> str | None:
    """Return the key of a pair, or None if it is no pair."""
    if not isinstance(pair.value, tuple) or len(pair.value) != 2:
        return None
    key = pair.at(0).value
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else None


def _payloads(anatomy: Anatomy) -> Iterator[Region]:
    placed: list[Any] = [
        (entry.offset, entry.byte_length, row, entry) for row, entry in enumerate(anatomy.entries) if entry.placed
    ]
    at = anatomy.data
    for offset, size, row, entry in sorted(placed, key=lambda item: item[:3]):
        start = anatomy.data + offset
        yield from _gap(at, start)
        kind = entry.prec.ocannl if entry.prec is not None else "unknown"
        dims = " x ".join(map(str, entry.stored or ())) or "scalar"
        yield Region(
            offset=start,
            size=size,
            path=f"tensors[{row}].data",
            type=f"byte[{size}]",
            kind="data",
            value=f"{entry_name(entry, row)}: {kind}, {dims}",
        )
        at = max(at, start + size)
    yield from _gap(at, anatomy.size)


def _gap(start: int, end: int) -> Iterator[Region]:
    return stretch(start, end, "gap", "padding", "A gap.")
