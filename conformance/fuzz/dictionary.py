"""The words of each kind's inputs, all from the schema and the tables: a dictionary for libFuzzer, and for the mutator.

Words are bytes as they stand in files: magic, codes and bounds of the fields, names of dtypes and keys, numbers at the
edges of what the schema allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from ...spec import schema
from ...spec.dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES
from ...spec.layout import Field, fields
from ...spec.schema import FRAMES, OAM_ENCODINGS, OAM_OPTIMIZERS, OAM_RECORDS, OAM_SECTIONS
from ..catalogue import load_suite

__all__ = ["dictionary", "integers", "numbers", "words"]

_KINDS: Final = {"oam": ("OAM_", "FNV_"), "ocannl": ("OCANNL_",), "safetensors": ("SAFETENSORS_",)}


@cache
def integers(format: str) -> tuple[int, ...]:
    """Return numbers at the edges: the format's constants, the bounds of its fields, powers of two, and neighbours."""
    found = {0}
    for item in _fields(format):
        found |= {*item.bounds, *(item.codes or {}).values()} if item.role not in ("text", "bytes") else {item.size}
        found |= {bound for bound in (item.least, item.most) if bound is not None}
    for name, value in vars(schema).items():
        if name.startswith(_KINDS[format]):
            found |= {item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, int)}
    found |= {1 << bits for bits in (7, 8, 15, 16, 31, 32, 53, 61, 62, 63, 64)}
    return tuple(sorted({number + step for number in found for step in (-1, 0, 1)}))


def _fields(format: str) -> Iterator[Field]:
    records = OAM_RECORDS.values() if format == "oam" else [FRAMES[format].record]
    for record in records:
        yield from fields(record)


@cache
def numbers(kind: str) -> tuple[bytes, ...]:
    """Return the numbers at the edges as texts have them."""
    formats = (kind,) if kind in _KINDS else tuple(_KINDS)
    return tuple(sorted({b"%d" % number for name in formats for number in integers(name)}))


def _oam() -> Iterator[bytes]:
    for item in _fields("oam"):
        if item.fixed:
            yield item.fixed
        if item.role in ("int", "dtype"):
            for number in {*(item.codes or {}).values(), item.least, item.most} - {None}:
                yield _packed(item, number)
    for number in integers("oam"):
        for size in (4, 8):
            yield (number % (1 << 8 * size)).to_bytes(size, "little")
    yield from (kind.encode().ljust(_kind_size(), b"\0") for kind in OAM_OPTIMIZERS)


def _kind_size() -> int:
    return next(item.size for item in fields(OAM_RECORDS["optimizer"]) if item.name == "kind")


def _packed(item: Field, number: Any) -> bytes:
    return int(number).to_bytes(item.size, "big" if item.big_endian else "little", signed=number < 0)


def _frame(format: str) -> Iterator[bytes]:
    (length,) = fields(FRAMES[format].record)
    low, high = length.bounds
    yield from (_packed(length, number) for number in integers(format) if low <= number <= high)
    yield from numbers(format)


def _ocannl() -> Iterator[bytes]:
    yield from _frame("ocannl")
    for record in FRAMES["ocannl"].records.values():
        yield from (b"(" + key.name.encode() + b" " for key in record)
    suffix = schema.OCANNL_PRECISION_SUFFIX
    yield from (f"{name.capitalize()}{suffix}".encode() for name in OCANNL_PRECISIONS)
    yield schema.OCANNL_NAMESPACE.encode()
    yield from _sexp()


def _sexp() -> Iterator[bytes]:
    """What the grammar knows, as the golden files have it: brackets, comments, escapes."""
    for case in load_suite().cases:
        if case.format == "ocannl" and case.kind == "file":
            yield from re.findall(rb"#[|;]|\|#|\\(?:[0-9]{3}|x[0-9a-f]{2}|.)|[();\"]|[a-z]+(?= )", case.read()[:400])


def _safetensors() -> Iterator[bytes]:
    yield from _frame("safetensors")
    for record in FRAMES["safetensors"].records.values():
        yield from (b'"%b":' % key.name.encode() for key in record)
    yield from (b'"%b"' % name.encode() for name in SAFETENSORS_DTYPES)
    yield b'"%b":{' % schema.SAFETENSORS_METADATA.encode()


def _document() -> Iterator[bytes]:
    """The keys that the documents of the golden files have, and the names of everything."""
    for case in load_suite().cases:
        if case.kind == "document" and case.verdict == "valid":
            yield from re.findall(rb'"[a-z0-9_]+"(?=:)', case.read())
    names = (OAM_DTYPES, OAM_ENCODINGS, OAM_SECTIONS, OAM_OPTIMIZERS, OCANNL_PRECISIONS, SAFETENSORS_DTYPES)
    yield from (f'"{name}"'.encode() for table in names for name in table)
    yield from (b'"%b"' % number for number in numbers("document"))


_WORDS: Final = {
    "oam": _oam,
    "ocannl": _ocannl,
    "safetensors": _safetensors,
    "sexp": _sexp,
    "document": _document,
}


@cache
def words(kind: str) -> tuple[bytes, ...]:
    """Return the words of a kind, sorted, each once."""
    return tuple(sorted({word for word in _WORDS[kind]() if word}))


def dictionary(kind: str) -> str:
    """Return the words of a kind as a dictionary for libFuzzer."""
    return "".join(f'"{_escaped(word)}"\n' for word in words(kind))


def _escaped(word: Iterable[int]) -> str:
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)
