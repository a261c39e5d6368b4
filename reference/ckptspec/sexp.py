r"""S-expressions as OCaml's sexplib writes and reads them, and the numbers that stand in their atoms.

Source: OCANNL's checkpoint headers are S-expressions; formats/ocannl.md, section 3, has the rules, each checked
against sexplib itself. An atom is ``bytes`` (any bytes, not necessarily UTF-8), a list is a ``tuple``.

Strategy. Nearly all headers hold neither comments nor odd line ends, and of those ``_parse_plain`` makes a tree with
a few passes that C code does: strings are cut out, parentheses get blanks around them, ``bytes.split`` makes tokens,
and one short loop builds the tuples. It gives up, without a word, at whatever it is not sure of. ``_Scanner`` knows
the whole syntax, makes all errors, and can tell where each expression stands. Neither recurses: open lists
are marks in one flat stack of values, so that depth costs memory of the order of the text, and time is linear.

Every error carries the offset of the byte to look at:

==================================================  =================================================
error                                               offset
==================================================  =================================================
string or block comment without an end              its opening ``"`` or ``#|`` (the innermost open one)
list without an end                                 its ``(`` (the innermost open one)
``)`` without a list, lists nested too deep         the parenthesis
a second expression                                 its first byte
no expression at all                                the end of the text
``#;`` with nothing to drop                         the ``#``
``#|`` or ``|#`` in a bare atom                     its first byte
an escape with bad digits or a value above 255      the backslash
a carriage return without a line feed               the carriage return
a bare atom, dropped by ``#;`` after the            the atom (sexplib's ``of_string`` refuses it too,
expression, that ends with the text                 a blank behind it makes it good)
==================================================  =================================================

The first error in reading order is reported; what is missing at the end of the text is noticed last.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from .text import show

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "Node",
    "Sexp",
    "SexpError",
    "dump",
    "format_float",
    "format_int",
    "needs_quotes",
    "parse",
    "parse_float",
    "parse_int",
    "parse_nodes",
    "quote",
]

Sexp: TypeAlias = "bytes | tuple[Sexp, ...]"

# OCaml's native integers have 63 bits.
INT_MIN: Final = -(1 << 62)
INT_MAX: Final = (1 << 62) - 1


class SexpError(ValueError):
    """Bytes that are not exactly one S-expression: ``message`` says why, ``offset`` is the byte to look at."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.message} (byte {self.offset})"


class Node(NamedTuple):
    """An expression and where it stands: ``text[start:end]``, quotes and parentheses included."""

    start: int
    end: int
    value: bytes | tuple[Node, ...]

    def at(self, *path: int) -> Node:
        """Return the node that a path of list indices leads to; IndexError where it leads nowhere."""
        node = self
        for index in path:
            if isinstance(node.value, bytes):
                raise IndexError(f"no item {index} in an atom")
            node = node.value[index]
        return node


# --- Reading ------------------------------------------------------------------------------------------------------


def parse(data: bytes | bytearray | memoryview, *, max_depth: int | None = None) -> Sexp:
    """Return the one expression in ``data``, which blanks and comments may surround.

    ``max_depth`` bounds how many lists may be open at a time (comments' lists included). Raises SexpError.
    """
    data = bytes(data)
    limit = sys.maxsize if max_depth is None else max_depth
    value = _parse_plain(data, limit)
    return _Scanner(data, limit, _without_place).scan() if value is None else value


def parse_nodes(data: bytes | bytearray | memoryview, *, max_depth: int | None = None) -> Node:
    """Return what ``parse`` returns as a tree of nodes that know their places; slower, and needs more memory."""
    return _Scanner(bytes(data), sys.maxsize if max_depth is None else max_depth, _with_place).scan()


def _without_place(value: bytes | tuple[Sexp, ...], start: int, end: int) -> Sexp:
    return value


def _with_place(value: bytes | tuple[Node, ...], start: int, end: int) -> Node:
    return Node(start, end, value)


# --- Escapes in strings

# A continuation line, three decimal digits, two hexadecimal ones, or any other byte. What takes the backslash alone is
# a bad escape. (A backslash that ends the text is none of these: its string has no end.)
_ESCAPE: Final = re.compile(rb"\\(?:\r?\n[ \t]*+|[0-9]{3}|x[0-9A-Fa-f]{2}|[^0-9x\n]|(?=[0-9x]))")

_ESCAPES: Final = {
    **{b"\\%03d" % byte: b"%c" % byte for byte in range(256)},
    b"\\n": b"\n",
    b"\\t": b"\t",
    b"\\r": b"\r",
    b"\\b": b"\b",
    b"\\\r": b"\r",
    **{b"\\" + literal: literal for literal in (b'"', b"\\", b"'")},
}


def _escaped(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    known = _ESCAPES.get(escape)
    if known is not None:
        return known
    if len(escape) == 1:
        raise SexpError("a backslash with too few digits", match.start())
    if escape[1:2].isdigit():
        raise SexpError("a decimal escape above 255", match.start())
    if escape.startswith((b"\\\n", b"\\\r\n")):
        return b""
    if escape.startswith(b"\\x") and len(escape) == 4:
        return bytes([int(escape[2:], 16)])
    return escape  # an unknown escape stands for itself, backslash included


def _unescape(text: bytes) -> bytes:
    """Return what the text between two quotes stands for; SexpError's offset counts from its start."""
    return _ESCAPE.sub(_escaped, text) if b"\\" in text else text


# --- The fast way

# Outside strings: comments, what is never allowed, and the one byte that bytes.split() cuts at and sexplib does not.
_NOT_PLAIN: Final = (b";", b"#|", b"|#", b"\r", b"\v")


def _parse_plain(data: bytes, limit: int) -> Sexp | None:
    """Return the expression, or None if the text is faulty or not plain enough."""
    text = data
    strings: Iterable[bytes] = ()
    if b'"' in data:
        cut = _cut_strings(data)
        if cut is None:
            return None
        text, strings = cut
    if any(mark in text for mark in _NOT_PLAIN) or text.count(b"(") != text.count(b")"):
        return None
    return _build(text.replace(b"(", b" ( ").replace(b")", b" ) ").split(), iter(strings), limit)


def _cut_strings(data: bytes) -> tuple[bytes, list[bytes]] | None:
    r"""Return the text with a lone ``"`` in each string's place, and the strings; None where that is not easy.

    Backslashes outside strings (which are literal) would make quotes ambiguous; then this is not the way.
    """
    escapes = b"\\" in data
    if escapes:  # spelled with digits, neither of these can be taken for the end of a string or for an escape of it
        data = data.replace(b"\\\\", b"\\092").replace(b'\\"', b"\\034")
    pieces = data.split(b'"')
    text, strings = b' " '.join(pieces[::2]), pieces[1::2]
    if len(pieces) % 2 == 0 or (escapes and b"\\" in text):
        return None
    if escapes:
        try:
            strings = [_unescape(string) for string in strings]
        except SexpError:
            return None
    return text, strings


def _build(tokens: list[bytes], strings: Iterator[bytes], limit: int) -> Sexp | None:
    values: list[Sexp] = []
    marks: list[int] = []
    for token in tokens:
        if token == b"(":
            if len(marks) >= limit:
                return None
            marks.append(len(values))
        elif token == b")":
            if not marks:
                return None
            mark = marks.pop()
            values[mark:] = (tuple(values[mark:]),)
        elif token == b'"':
            values.append(next(strings))
        else:
            values.append(token)
    return values[0] if len(values) == 1 and not marks else None


# --- The whole syntax

# Form feed is blank; vertical tab, NUL and bytes from 0x80 on are not. `#;` and `#|` are what they are only at an
# atom's first byte, so they are tried before it. All loops are over single bytes and never give back what they took.
# A string without escapes is read whole, of any other the quote alone. The numbers are those of the groups.
_TOKEN: Final = re.compile(
    rb"[ \t\n\f]*+(?:"
    rb"(#;)|(#\|)"
    rb'|([^ \t\n\f\r()";]++)'
    rb"|(\()|(\))"
    rb'|"([^"\\]*+)"|(")'
    rb"|;[^\r\n]*+|\r\n|(\r)"
    rb"|\Z)"
)
_DROP, _BLOCK, _ATOM, _OPEN, _CLOSE, _PLAIN, _QUOTE, _RETURN = range(1, 9)
_STRING_PART: Final = re.compile(rb'\\.|"', re.DOTALL)
_BLOCK_PART: Final = re.compile(rb'#\||\|#|"')
_COMMENT_MARK: Final = re.compile(rb"#\||\|#")

T = TypeVar("T")


class _Scanner(Generic[T]):
    """Reads one text; ``make`` turns an atom's bytes or a list's items, and their place, into a value."""

    def __init__(self, data: bytes, limit: int, make: Callable[[bytes | tuple[T, ...], int, int], T]) -> None:
        self._data = data
        self._limit = limit
        self._make = make
        self._values: list[T] = []  # finished expressions: of the open lists, outermost first
        self._marks = array("q")  # for each open list, how many values stand before its own
        self._opened = array("q")  # and the offset of its parenthesis
        self._drops = array("q")  # for each pending `#;`, how many lists were open
        self._dropping = array("q")  # and its offset

    def scan(self) -> T:
        """Return the value of the one expression; raises SexpError."""
        position: int | None = 0
        while position is not None:
            position = self._scan_from(position)
        end = len(self._data)
        if self._opened:
            raise SexpError("a list that is not closed", self._opened[-1])
        if self._drops:
            raise SexpError("#; without an expression to drop", self._dropping[-1])
        if not self._values:
            raise SexpError("no expression", end)
        return self._values[0]

    def _scan_from(self, position: int) -> int | None:
        """Read tokens up to one that the token pattern does not span; return its end, or None at the text's end."""
        for match in _TOKEN.finditer(self._data, position):
            kind = match.lastindex
            if kind == _ATOM:
                self._bare(match[_ATOM], match.end())
            elif kind == _OPEN:
                self._open(match.end() - 1)
            elif kind == _CLOSE:
                self._close(match.end())
            elif kind == _PLAIN:
                start = match.start(_PLAIN) - 1
                self._begin(start)
                self._add(match[_PLAIN], start, match.end())
            elif kind == _QUOTE:
                return self._string(match.end() - 1)
            elif kind == _DROP:
                self._drops.append(len(self._marks))
                self._dropping.append(match.end() - 2)
            elif kind == _BLOCK:
                return self._block_comment(match.end() - 2)
            elif kind == _RETURN:
                raise SexpError("a carriage return without a line feed", match.end() - 1)
        return None

    def _begin(self, start: int) -> None:
        """An expression begins: it must have a place."""
        if not self._marks and self._values and not self._drops:
            raise SexpError("a second expression", start)

    def _add(self, value: bytes | tuple[T, ...], start: int, end: int) -> None:
        """An expression is complete: it is the innermost pending `#;` that drops it, or it counts."""
        if self._drops and self._drops[-1] == len(self._marks):
            self._drops.pop()
            self._dropping.pop()
        else:
            self._values.append(self._make(value, start, end))

    def _bare(self, atom: bytes, end: int) -> None:
        start = end - len(atom)
        if not self._marks:
            self._begin(start)
            if self._values and end == len(self._data):
                raise SexpError("a dropped atom that nothing ends", start)
        if b"|" in atom:
            mark = _COMMENT_MARK.search(atom)
            if mark:
                raise SexpError(f"{mark[0].decode()} in a bare atom", start + mark.start())
        self._add(atom, start, end)

    def _open(self, start: int) -> None:
        self._begin(start)
        if len(self._marks) >= self._limit:
            raise SexpError(f"lists nested deeper than {self._limit}", start)
        self._marks.append(len(self._values))
        self._opened.append(start)

    def _close(self, end: int) -> None:
        if not self._marks:
            raise SexpError(") without a list to close", end - 1)
        if self._drops and self._drops[-1] == len(self._marks):
            raise SexpError("#; without an expression to drop", self._dropping[-1])
        mark = self._marks.pop()
        items = tuple(self._values[mark:])
        del self._values[mark:]
        self._add(items, self._opened.pop(), end)

    def _string(self, start: int) -> int:
        """Read a string that has escapes, or no end; return its end."""
        self._begin(start)
        value, end = self._string_at(start)
        self._add(value, start, end)
        return end

    def _string_at(self, start: int) -> tuple[bytes, int]:
        closing = next((m.start() for m in _STRING_PART.finditer(self._data, start + 1) if m[0] == b'"'), None)
        try:
            value = _unescape(self._data[start + 1 : closing])
        except SexpError as error:
            raise SexpError(error.message, start + 1 + error.offset) from None
        if closing is None:
            raise SexpError("a string that is not closed", start)
        return value, closing + 1

    def _block_comment(self, start: int) -> int:
        """Read a comment, comments and strings in it included (a string may hide a comment's end); return its end."""
        opened = array("q", [start])
        position = start + 2
        while opened:
            part = _BLOCK_PART.search(self._data, position)
            if part is None:
                raise SexpError("a comment that is not closed", opened[-1])
            position = part.end()
            if part[0] == b'"':
                position = self._string_at(part.start())[1]
            elif part[0] == b"#|":
                opened.append(part.start())
            else:
                opened.pop()
        return position


# --- Writing ------------------------------------------------------------------------------------------------------

_NEEDS_QUOTES: Final = re.compile(rb'[\x00-\x20"();\\\x7f-\xff]|#\||\|#')
_NEEDS_ESCAPE: Final = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_SPELLED: Final = {
    **{b"%c" % byte: b"\\%03d" % byte for byte in range(256)},
    b'"': b'\\"',
    b"\\": b"\\\\",
    b"\n": b"\\n",
    b"\t": b"\\t",
    b"\r": b"\\r",
    b"\b": b"\\b",
}


def needs_quotes(atom: bytes) -> bool:
    """Whether sexplib quotes the atom."""
    return not atom or _NEEDS_QUOTES.search(atom) is not None


def quote(atom: bytes) -> bytes:
    """Return the atom in quotes, with the escapes that sexplib writes."""
    return b'"' + _NEEDS_ESCAPE.sub(lambda match: _SPELLED[match[0]], atom) + b'"'


def dump(value: Sexp) -> bytes:
    """Return the expression on one line, one space between items; ``parse`` gives an equal value back.

    (sexplib's own compact form saves more of the spaces; no reader minds.) TypeError for other types than bytes and
    tuple.
    """
    parts: list[bytes] = []
    spelled: dict[bytes, bytes] = {}  # atoms recur: every entry of a header has the same keys
    open_lists: list[Iterator[Sexp]] = [iter((value,))]
    while open_lists:
        for item in open_lists[-1]:
            if parts and parts[-1] != b"(":  # no atom is spelled like this
                parts.append(b" ")
            if isinstance(item, bytes):
                spelling = spelled.get(item)
                if spelling is None:
                    spelling = spelled[item] = quote(item) if needs_quotes(item) else item
                parts.append(spelling)
            elif isinstance(item, tuple):
                parts.append(b"(")
                open_lists.append(iter(item))
                break
            else:
                raise TypeError(f"an S-expression holds bytes and tuples, not {type(item).__name__}")
        else:
            open_lists.pop()
            parts.append(b")")
    return b"".join(parts[:-1])  # without the end of the outermost level, which is no list


# --- Numbers ------------------------------------------------------------------------------------------------------

# Underscores may stand anywhere after the first digit.
_INT: Final = re.compile(
    rb"([+-]?)(?:0[xX]([0-9a-fA-F][0-9a-fA-F_]*+)|0[oO]([0-7][0-7_]*+)|0[bB]([01][01_]*+)|(?:0[uU])?([0-9][0-9_]*+))"
)
_INT_BASES: Final = (16, 8, 2, 10)
_INT_DIGITS: Final = 63  # of the largest number in base 2: more can only be out of range

# As C's strtod takes them: blanks in front, none behind. Underscores were taken out before.
_FLOAT: Final = re.compile(
    rb"[ \t-\r]*+[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|(?i:inf(?:inity)?|nan))"
)
_HEX_FLOAT: Final = re.compile(
    rb"[ \t-\r]*+[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)(?:[pP][+-]?[0-9]++)?"
)


def parse_int(atom: bytes) -> int:
    """Return the integer that OCaml's ``int_of_string`` reads, -2^62 .. 2^62 - 1; ValueError for anything else.

    Deviation: numbers in ``0x``, ``0o``, ``0b`` and ``0u`` forms that OCaml wraps round to fit are refused.
    """
    match = _INT.fullmatch(atom)
    if not match:
        raise ValueError(f"not an integer: {show(atom)}")
    sign, *forms = match.groups()
    base, digits = next((base, form) for base, form in zip(_INT_BASES, forms, strict=True) if form is not None)
    digits = digits.replace(b"_", b"").lstrip(b"0") or b"0"
    number = int(digits, base) if len(digits) <= _INT_DIGITS else INT_MAX + 2
    if sign == b"-":
        number = -number
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"an integer beyond 63 bits: {show(atom)}")
    return number


def format_int(number: int) -> bytes:
    """Return the decimal spelling; ValueError beyond 63 bits."""
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"an integer beyond 63 bits: {show(number)}")
    return b"%d" % number


def parse_float(atom: bytes) -> float:
    """Return the number that OCaml's ``float_of_string`` reads; ValueError for anything else.

    Rounds to nearest, numbers too large are infinite. ``nan`` and ``-nan`` are the quiet NaNs 0x7ff8000000000000 and
    0xfff8000000000000. Deviations: glibc's ``nan(1)`` and blanks within a hexadecimal exponent are refused, and a
    hexadecimal subnormal of more than 53 bits is rounded once, where OCaml rounds twice.
    """
    text = atom.replace(b"_", b"")
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text.decode("ascii"))
        except OverflowError:
            return -math.inf if text.lstrip().startswith(b"-") else math.inf
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"not a number: {show(atom)}")
    return float(text)


def format_float(number: float) -> bytes:
    """Return the spelling that OCANNL writes: the shorter of 15 and 17 digits that reads back as the same number.

    A point follows what would look like an integer. A NaN is spelled by its sign alone.
    """
    if math.isnan(number):
        return b"-nan" if math.copysign(1.0, number) < 0 else b"nan"
    text = f"{number:.15g}"
    if float(text) != number:
        text = f"{number:.17g}"
    return f"{text}.".encode() if text.lstrip("-").isdigit() else text.encode()
