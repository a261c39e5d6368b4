"""YAML as the exports need it: mappings, sequences, text, integers and booleans, written in one way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from .common import wrapped

__all__ = ["dump"]

Value: TypeAlias = "str | int | bool | Mapping[str, Value] | Mapping[int, Value] | Sequence[Value]"

_PLAIN: Final = re.compile(r"[A-Za-z_.][A-Za-z0-9_.,/+()<>-]*(?: [A-Za-z0-9_.,/+()<>*-]+)*")
_WORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_WIDTH: Final = 100  # of a text that is wrapped; beyond it, text stands in a block


def dump(value: Mapping[str, Value]) -> str:
    """Return a mapping as a YAML document. Text that is long or has lines is wrapped."""
    return "\n".join(_mapping(value, "")) + "\n"


def _scalar(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _mapping(value: Mapping[str, Value] | Mapping[int, Value], indent: str) -> Iterator[str]:
    for key, item in value.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(item, str) and ("\n" in item or len(item) > _WIDTH):
            yield f"{name} |"
            yield from (f"{indent}  {line}".rstrip() for line in wrapped(item, _WIDTH))
        elif isinstance(item, str | int):
            yield f"{name} {_scalar(item)}"
        elif not item:
            yield f"{name} {'{}' if isinstance(item, Mapping) else '[]'}"
        elif isinstance(item, Mapping):
            yield name
            yield from _mapping(item, indent + "  ")
        elif all(isinstance(part, int) for part in item):
            yield f"{name} {json.dumps(item)}"
        else:
            yield name
            yield from _sequence(item, indent + "  ")


def _sequence(value: Sequence[Value], indent: str) -> Iterator[str]:
    for item in value:
        if isinstance(item, Mapping):
            first, *rest = _mapping(item, indent + "  ")
            yield f"{indent}- {first.strip()}"
            yield from rest
        elif isinstance(item, str | int):
            yield f"{indent}- {_scalar(item)}"
        else:
            raise TypeError("a sequence within a sequence")
