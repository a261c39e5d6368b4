"""A small reader and writer of safetensors files. The reader has a defect: it does not look for gaps and overlaps."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["BadFileError", "document_of", "read", "write"]

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32}
BITS |= {"I64": 64, "U64": 64, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
BITS |= {"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
U64 = 1 << 64
DEPTH = 64


class BadFileError(Exception):
    """The file is not one that this reader takes."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BadFileError("a key twice")
    for text in (*made, *made.values()):
        if isinstance(text, str):
            _text(text)
    return made


def _text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadFileError("half a surrogate pair") from None


def _constant(name: str) -> Any:
    raise BadFileError(f"{name} is no JSON")


def _number(text: str) -> int:
    value = int(text) if len(text) < 30 else U64
    if not 0 <= value < U64 or text.startswith("-"):
        raise BadFileError("a number that is too large, or negative")
    return value


def _header(data: bytes) -> tuple[dict[str, Any], bytes]:
    if len(data) < 8:
        raise BadFileError("no header length")
    length = int.from_bytes(data[:8], "little")
    if length > min(100_000_000, len(data) - 8):
        raise BadFileError("the header is not there")
    text = data[8 : 8 + length]
    if not text.startswith(b"{") or not text.rstrip(b" ").endswith(b"}"):
        raise BadFileError("the header is no object")
    if max(_depths(text)) > DEPTH:
        raise BadFileError("the header nests too deeply")
    try:
        header = json.loads(
            text.decode(), object_pairs_hook=_object, parse_constant=_constant, parse_int=_number, strict=True
        )
    except (ValueError, RecursionError) as error:
        raise BadFileError(str(error)) from error
    return header, data[8 + length :]


def _depths(text: bytes) -> list[int]:
    depth, depths, quoted, escaped = 0, [0], False, False
    for byte in text:
        if escaped:
            escaped = False
        elif byte == ord("\\"):
            escaped = quoted
        elif byte == ord('"'):
            quoted = not quoted
        elif not quoted and byte in b"[{":
            depth += 1
            depths.append(depth)
        elif not quoted and byte in b"]}":
            depth -= 1
    return depths


def _integers(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise BadFileError("no array of integers")
    return value


def _tensor(name: str, entry: Any, payloads: bytes) -> dict[str, Any]:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise BadFileError("an entry without its keys")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in BITS:
        raise BadFileError("an unknown dtype")
    elements = 1
    for extent in _integers(entry["shape"]):
        elements *= extent
        if elements >= U64:
            raise BadFileError("too many elements")
    bits = elements * BITS[entry["dtype"]]
    offsets = _integers(entry["data_offsets"])
    if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] <= len(payloads):
        raise BadFileError("a payload that is not there")
    if bits >= U64 or bits != 8 * (offsets[1] - offsets[0]):
        raise BadFileError("a payload of another size")
    data = payloads[offsets[0] : offsets[1]].hex()
    return {"name": name, "dtype": entry["dtype"], "shape": [str(extent) for extent in entry["shape"]], "data": data}


def read(data: bytes) -> dict[str, Any]:
    """Return metadata and tensors of a file; BadFileError if it is to be refused."""
    header, payloads = _header(data)
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        raise BadFileError("metadata that are no texts")
    return {"metadata": metadata, "tensors": {name: _tensor(name, header[name], payloads) for name in header}}


def document_of(data: bytes) -> dict[str, Any]:
    """Return the neutral document of a file."""
    made = read(data)
    tensors = [made["tensors"][name] for name in sorted(made["tensors"], key=str.encode)]
    return {"format": "safetensors", "metadata": made["metadata"], "tensors": tensors}


def write(document: dict[str, Any]) -> bytes:
    """Return a file. It is not laid out as writers must: in the order of the names, and without alignment."""
    header: dict[str, Any] = {} if document["metadata"] is None else {"__metadata__": document["metadata"]}
    data = b""
    for tensor in document["tensors"]:
        begin = len(data)
        data += bytes.fromhex(tensor["data"])
        shape = [int(extent) for extent in tensor["shape"]]
        header[tensor["name"]] = {"dtype": tensor["dtype"], "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data
