"""Where two neutral documents first differ, in words for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ..text import count, printable

__all__ = ["Difference", "first_difference"]

_DIGITS: Final = re.compile(r'"-?[0-9]+"')  # a string as it is shown
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two documents first differ: the path, and what stands there in each."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"at {self.path}: found {self.found}, expected {self.expected}"

    @property
    def hint(self) -> str:
        """What the difference looks like, if it is a common mistake; else an empty string."""
        spelled = _DIGITS.fullmatch(self.expected) and _NUMBER.fullmatch(self.found)
        return "64-bit integers are decimal strings" if spelled else ""

    def to_json(self) -> dict[str, str]:
        """Return the difference as JSON types."""
        return {"path": self.path, "expected": self.expected, "found": self.found}


def first_difference(expected: Any, found: Any, path: str = "document") -> Difference | None:
    """Compare two JSON values with strict types: true is not 1, and 1 is not 1.0. Keys have no order, arrays have.

    The depth is bounded by that of ``expected``: only there does the comparison descend.
    """
    if type(expected) is not type(found):
        return Difference(path=path, expected=_show(expected), found=_show(found))
    if isinstance(expected, dict):
        return _object_difference(expected, found, path)
    if isinstance(expected, list):
        return _array_difference(expected, found, path)
    if expected == found:
        return None
    if isinstance(expected, str):
        return _text_difference(expected, found, path)
    return Difference(path=path, expected=_show(expected), found=_show(found))


def _object_difference(expected: dict[str, Any], found: dict[str, Any], path: str) -> Difference | None:
    for key, value in expected.items():
        below = _below(path, key)
        if key not in found:
            return Difference(path=below, expected=_show(value), found="no such key")
        difference = first_difference(value, found[key], below)
        if difference:
            return difference
    for key, value in found.items():
        if key not in expected:
            return Difference(path=_below(path, key), expected="no such key", found=_show(value))
    return None


def _array_difference(expected: list[Any], found: list[Any], path: str) -> Difference | None:
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        difference = first_difference(one, other, f"{path}[{index}]")
        if difference:
            return difference
    if len(expected) != len(found):
        return Difference(path=path, expected=_show(expected), found=_show(found))
    return None


_WINDOW: Final = 40  # characters of a long text that are shown
_BEFORE: Final = 12  # how many of them stand before the first difference


def _text_difference(expected: str, found: str, path: str) -> Difference:
    if max(len(expected), len(found)) <= _WINDOW:
        return Difference(path=path, expected=_show(expected), found=_show(found))
    pairs = enumerate(zip(expected, found, strict=False))
    at = next((index for index, (one, other) in pairs if one != other), min(len(expected), len(found)))
    start = max(0, at - _BEFORE)
    return Difference(path=f"{path}, character {at}", expected=_show(expected, start), found=_show(found, start))


def _below(path: str, key: str) -> str:
    below = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,60}", key) else None
    if below is None:
        return f"{'' if path == 'document' else path}[{_show(key)}]"
    return below if path == "document" else f"{path}.{below}"


def _show(value: Any, start: int = 0) -> str:
    """Return a JSON value as short text; of a long text the part from ``start`` on."""
    if isinstance(value, dict):
        return f"an object of {count(len(value), 'key')}"
    if isinstance(value, list):
        return f"an array of {count(len(value), 'item')}"
    if isinstance(value, str):
        part = value[start : start + _WINDOW]
        before = "..." if start else ""
        after = f"... ({len(value)} characters)" if len(value) > _WINDOW else ""
        return f'{before}"{printable(part)}"{after}'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
