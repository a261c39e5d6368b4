"""The neutral document: strict JSON in, bit-exact values out.

64-bit integers are decimal strings, floats are their bits, blobs are lower-case hex. Whatever is missing, unknown,
doubled or spelled otherwise is refused with the dotted path to it. The small getters here are shared by the formats;
each takes a value and its path, and returns it converted or raises ArgumentError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NoReturn

from .errors import ArgumentError
from .text import shorten, show

__all__ = [
    "bits",
    "blob",
    "boolean",
    "decimal",
    "dump_json",
    "float_bits",
    "items",
    "keys",
    "number",
    "parse_json",
    "text",
]

_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII)
MAX_DOCUMENT_DEPTH: Final = 32  # the deepest document of any format stays well below


def _refuse(path: str, found: object, expected: str) -> NoReturn:
    raise ArgumentError(f"found {show(found)}, expected {expected}", path)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ArgumentError(f"duplicate key {show(key)}", "document")
            seen.add(key)
    return made


def _integer(digits: str) -> int:
    if digits == "-0" or len(digits) > 20:
        raise ArgumentError(f"number {shorten(digits, 24)} is not a small integer", "document")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise ArgumentError(f"{name} is not JSON", "document")


def parse_json(data: bytes | bytearray | memoryview | str) -> Any:
    """Parse a document: one JSON value in UTF-8 without a byte order mark, no key twice, no NaN."""
    if not isinstance(data, str):
        try:
            data = bytes(data).decode()
        except UnicodeDecodeError as error:
            raise ArgumentError(f"the byte at {error.start} is not UTF-8", "document") from None
    if data.startswith("\ufeff"):
        raise ArgumentError("starts with a byte order mark", "document")
    try:
        return json.loads(data, object_pairs_hook=_pairs, parse_int=_integer, parse_constant=_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ArgumentError(f"not JSON: {error.msg} at {where}", "document") from None
    except RecursionError:
        raise ArgumentError("nested too deeply", "document") from None


def dump_json(document: object) -> str:
    """Return a document as one line of JSON, all of it ASCII."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def keys(value: Any, path: str, expected: Collection[str]) -> Mapping[str, Any]:
    """Return ``value`` if it is an object with exactly the keys ``expected``."""
    if not isinstance(value, Mapping):
        _refuse(path, value, "an object")
    for key in value:
        if not isinstance(key, str) or key not in expected:
            raise ArgumentError(f"unknown key {show(key)}", path)
    for key in expected:
        if key not in value:
            raise ArgumentError(f"missing key '{key}'", path)
    return value


def items(value: Any, path: str) -> Sequence[Any]:
    """Return ``value`` if it is an array."""
    if not isinstance(value, (list, tuple)):
        _refuse(path, value, "an array")
    return value


def text(value: Any, path: str) -> str:
    """Return ``value`` if it is text that UTF-8 can hold."""
    if not isinstance(value, str):
        _refuse(path, value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(path, value, "text without lone surrogates")
    return value


def number(value: Any, path: str, bounds: tuple[int, int]) -> int:
    """Return ``value`` if it is an integer within ``bounds``, both included."""
    if not isinstance(value, int) or isinstance(value, bool) or not bounds[0] <= value <= bounds[1]:
        _refuse(path, value, f"an integer of {bounds[0]} to {bounds[1]}")
    return value


def decimal(value: Any, path: str, bounds: tuple[int, int]) -> int:
    """Return the integer that a decimal string spells, if it is within ``bounds``, both included."""
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value) or not bounds[0] <= int(value) <= bounds[1]:
        _refuse(path, value, f"a decimal string of {bounds[0]} to {bounds[1]}")
    return int(value)


def blob(value: Any, path: str) -> bytes:
    """Return the bytes that a lower-case hex string spells."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        _refuse(path, value, "bytes in lower-case hex")
    return bytes.fromhex(value)


def bits(value: Any, path: str, width: int) -> int:
    """Return the bits of a float of ``width`` bits."""
    digits = width // 4
    if not isinstance(value, str) or not re.fullmatch(f"0x[0-9a-f]{{{digits}}}", value, re.ASCII):
        _refuse(path, value, f"the {width} bits of a float as 0x and {digits} lower-case hex digits")
    return int(value, 16)


def float_bits(value: int, width: int) -> str:
    """Return the spelling of the bits of a float."""
    return f"0x{value:0{width // 4}x}"


def boolean(value: Any, path: str) -> bool:
    """Return ``value`` if it is true or false."""
    if not isinstance(value, bool):
        _refuse(path, value, "true or false")
    return value
