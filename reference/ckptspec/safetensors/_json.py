"""JSON as headers are written in it, read exactly: every value knows its place, nothing is repaired, nothing recurses.

``plain`` is what nearly all headers need: Python's own parser, with doubled keys and everything else that it would let
pass refused. ``Scanner`` reads whatever ``plain`` refuses, value by value, and says what is wrong and at which byte.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

__all__ = ["JsonError", "Node", "Scanner", "plain", "spelled"]


class JsonError(ValueError):
    """Text that is not what was expected. ``what`` is ``syntax``, ``depth``, ``surrogate`` or ``utf8``."""

    def __init__(self, what: str, offset: int, found: str, expected: str) -> None:
        super().__init__(what, offset, found, expected)
        self.what = what
        self.offset = offset
        self.found = found
        self.expected = expected


class Node(NamedTuple):
    """A value and where it stands.

    ``kind`` is ``object`` (``value`` is a list of pairs of nodes), ``array`` (a list of nodes), ``string`` (its text),
    ``number`` (its spelling) or ``constant`` (True, False or None).
    """

    start: int
    end: int
    kind: str
    value: Any


# -------------------------------------------------------------------------------------------------------- the fast way


_MINUS_ZERO: Final = re.compile(r"[\[,:]\s*-0")
_BLANK_AFTER_QUOTE: Final = ('" ', '"\t', '"\n', '"\r')


def plain(text: bytes) -> tuple[dict[str, Any], int] | None:
    """Return the object that a text is, which only spaces may follow, and the number of keys spelled in it.

    None if anything about it is not plain. Of doubled keys the last one counts here: then fewer keys are found in the
    object than are spelled. Numbers may be floats, or what JSON does not have.
    """
    try:
        decoded = text.decode()
        if any(blank in decoded for blank in _BLANK_AFTER_QUOTE):  # then keys cannot be counted
            return None
        if "-0" in decoded and _MINUS_ZERO.search(decoded):  # which Python takes for 0
            return None
        value, end = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or decoded[end:].strip(" "):
        return None
    return value, decoded.count('":')


_DECODER: Final = json.JSONDecoder()

# ------------------------------------------------------------------------------------------------------- the exact way

_BLANKS: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_CONSTANTS: Final = {b"true": True, b"false": False, b"null": None}
_QUOTE: Final = ord('"')
_CONSTANT: Final = re.compile(rb"true|false|null")
_BLANK: Final = rb"[ \t\n\r]*+"
_PLAIN_STRING: Final = rb'"[^"\\\x00-\x1f\x80-\xff]*+"'
_PLAIN_ARRAY: Final = rb"\[%b(?:[1-9][0-9]*+|0)(?:%b,%b(?:[1-9][0-9]*+|0))*+%b\]|\[%b\]" % ((_BLANK,) * 5)
_PLAIN_PAIR: Final = rb"%b(%b)%b:%b(%b|%b)%b" % (
    _BLANK,
    _PLAIN_STRING,
    _BLANK,
    _BLANK,
    _PLAIN_STRING,
    _PLAIN_ARRAY,
    _BLANK,
)
_DIGITS: Final = re.compile(rb"[0-9]++")
_LONE: Final = re.compile("[\ud800-\udfff]")


@cache
def _plain_pair(pairs: int) -> re.Pattern[bytes]:
    """Return the pattern of a string and an object; its groups are the two, and then keys and values by turns."""
    inside = b",".join([_PLAIN_PAIR] * pairs)
    return re.compile(rb"%b(%b)%b:%b(\{%b\})" % (_BLANK, _PLAIN_STRING, _BLANK, _BLANK, inside))


class Scanner:
    """Reads one text from front to back. ``depth`` bounds how many objects and arrays may be open at a time."""

    def __init__(self, text: bytes, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0

    def skip(self) -> None:
        """Pass over blanks."""
        match = _BLANKS.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def peek(self) -> bytes:
        """Return the next byte that is no blank, nothing at the end."""
        self.skip()
        return self.text[self.at : self.at + 1]

    def fail(self, expected: str) -> NoReturn:
        """Raise JsonError: what comes next is not what was expected."""
        rest = self.text[self.at : self.at + 16]
        found = f"{rest.decode('ascii', 'backslashreplace')!r}" if rest else "the end of the header"
        raise JsonError("syntax", self.at, found, expected)

    def take(self, byte: bytes, expected: str) -> None:
        """Pass over one byte, which must come next."""
        if self.peek() != byte:
            self.fail(expected)
        self.at += 1

    def plain_pair(self, pairs: int) -> tuple[Node, Node] | None:
        """Read a string and an object of so many pairs at once; None, and nothing is read, unless all of it is plain.

        Plain are strings of ASCII without escapes and arrays of integers. What is returned is what ``string`` and
        ``value`` would return.
        """
        match = _plain_pair(pairs).match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        members = [
            (self._plain_string(match, at), self._plain_value(match, at + 1)) for at in range(3, match.re.groups, 2)
        ]
        return self._plain_string(match, 1), Node(*match.span(2), "object", members)

    @staticmethod
    def _plain_string(match: re.Match[bytes], group: int) -> Node:
        return Node(*match.span(group), "string", match[group][1:-1].decode("ascii"))

    def _plain_value(self, match: re.Match[bytes], group: int) -> Node:
        start, end = match.span(group)
        if self.text[start] == _QUOTE:
            return self._plain_string(match, group)
        found = _DIGITS.finditer(self.text, start, end)
        return Node(start, end, "array", [Node(*item.span(), "number", item[0].decode("ascii")) for item in found])

    def string(self) -> Node:
        """Read a string."""
        start = self.at
        if self.peek() != b'"':
            self.fail("a string")
        start = self.at
        match = _STRING.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        if self.text[self.at : self.at + 1] != b'"':
            if self.text[self.at : self.at + 1] == b"\\":
                self.fail("an escape that JSON has")
            self.fail('a closing "' if self.at >= len(self.text) else "no control character in a string")
        self.at += 1
        return Node(start, self.at, "string", self._decoded(start))

    def _decoded(self, start: int) -> str:
        raw = self.text[start + 1 : self.at - 1]
        try:
            if b"\\" not in raw:
                return raw.decode()
            value: str = json.loads(b'"%b"' % raw, strict=False)
        except UnicodeDecodeError as error:
            at = start + 1 + error.start
            raise JsonError("utf8", at, f"byte 0x{self.text[at]:02x}", "UTF-8") from None
        lone = _LONE.search(value)
        if lone is not None:
            raise JsonError("surrogate", start, f"\\u{ord(lone[0]):04x} without its other half", "a whole pair")
        return value

    def _scalar(self) -> Node:
        start = self.at
        match = _NUMBER.match(self.text, start)
        if match is not None:
            self.at = match.end()
            if self.text[self.at : self.at + 1].isalnum() or self.text[self.at : self.at + 1] in (b".", b"+", b"-"):
                self.at = start
                self.fail("a number as JSON spells it")
            return Node(start, self.at, "number", match[0].decode())
        match = _CONSTANT.match(self.text, start)
        if match is None:
            self.fail("a value")
        self.at = match.end()
        return Node(start, self.at, "constant", _CONSTANTS[match[0]])

    def value(self, outer: int = 0) -> Node:
        """Read one value; ``outer`` objects and arrays are open around it."""
        open_values: list[tuple[int, str, list[Any], Node | None]] = []  # start, kind, items, key of the pair to come
        while True:
            first = self.peek()
            if first in (b"{", b"["):
                if outer + len(open_values) >= self.depth:
                    raise JsonError("depth", self.at, f"{self.depth + 1} levels", f"at most {self.depth}")
                start, kind = self.at, "object" if first == b"{" else "array"
                self.at += 1
                if self.peek() != (b"}" if kind == "object" else b"]"):
                    open_values.append((start, kind, [], self._key() if kind == "object" else None))
                    continue
                self.at += 1
                node = Node(start, self.at, kind, [])
            else:
                node = self.string() if first == b'"' else self._scalar()
            while True:  # a value is complete: it belongs to what is open around it
                if not open_values:
                    return node
                start, kind, items, key = open_values.pop()
                items.append(node if key is None else (key, node))
                close = b"}" if kind == "object" else b"]"
                if self.peek() == b",":
                    self.at += 1
                    open_values.append((start, kind, items, self._key() if kind == "object" else None))
                    break
                self.take(close, f"a comma or {close.decode()}")
                node = Node(start, self.at, kind, items)

    def _key(self) -> Node:
        key = self.string()
        self.take(b":", "a colon")
        return key


# ------------------------------------------------------------------------------------------------------------- writing

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(0x20)} | {ord(char): text for char, text in _SHORT.items()}


def spelled(text: str) -> str:
    """Return a string as the official writer spells it: only what must be escaped is, all else is raw."""
    return f'"{text.translate(_ESCAPES) if _ESCAPED.search(text) else text}"'
