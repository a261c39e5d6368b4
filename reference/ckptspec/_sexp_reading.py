r"""How S-expressions are read: the whole syntax by ``Scanner``, most texts much faster by ``Reader``.

``Scanner`` takes one token at a time, knows the whole syntax, makes all errors, and can tell where each expression
stands. It does not recurse: open lists are marks in one flat stack of values, so that depth costs memory of the order
of the text, and time is linear. Lists that the caller does not want it passes over by one match of a pattern, where
they are small and simple.

``Reader`` is a scanner that reads most of a text in pieces, by a few passes that C code does for each: strings and
comments are cut out, parentheses get blanks around them, ``bytes.split`` makes tokens, and one short loop builds the
tuples in the scanner's own stack. A piece ends before what is not plain (nested comments, ``#;``, odd bytes, whatever
does not end within the piece); the scanner takes the token there, or more where pieces come out too short to be worth
their while, and the next piece begins behind it. So it is decided what a piece's tokens are before any of them counts.
Where there is a fault in their order, or in an escape, a scanner goes through the text from its start to say which.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

Sexp: TypeAlias = "bytes | tuple[Sexp, ...]"
Record: TypeAlias = tuple[int, bytes | None, Sexp]

_PIECE: Final = 1 << 16  # of text, in bytes: what is made of one at a time fits a processor's cache


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

    @classmethod
    def build(cls, value: bytes | tuple[Node, ...], start: int, end: int) -> Node:
        """Return the node of a value at a place, in the order in which the scanner knows them."""
        return cls(start, end, value)

    def at(self, *path: int) -> Node:
        """Return the node that a path of list indices leads to; IndexError where it leads nowhere."""
        node = self
        for index in path:
            if isinstance(node.value, bytes):
                raise IndexError(f"no item {index} in an atom")
            node = node.value[index]
        return node


# --- Escapes in strings -------------------------------------------------------------------------------------------

# Many backslashes; a continuation line; one escape and its repetitions: three decimal digits, two hexadecimal ones, or
# any other byte. What takes the backslash alone is a bad escape. (A backslash that ends the text is none of these: its
# string has no end. Backslash-CR is not repeated before a line feed: that is a continuation line.)
_ESCAPE: Final = re.compile(
    rb"(?:\\{64})++|\\\r?\n[ \t]*+|(\\(?:[0-9]{3}|x[0-9A-Fa-f]{2}|[^0-9x\n]))(?:\1(?!\n))*+|\\(?=[0-9x])"
)
_TO_ESCAPE: Final = re.compile(rb"\\*+[^\\]*+")  # ends where an escape begins, whatever stands before

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
    known = _ESCAPES.get(match[0])
    if known is not None:
        return known
    escape, length = match[1], match.end() - match.start()
    if escape is None:
        if length == 1:
            raise SexpError("a backslash with too few digits", match.start())
        return b"\\" * (length // 2) if match[0].startswith(b"\\\\") else b""
    known = _ESCAPES.get(escape)
    if known is None:
        if escape[1:2].isdigit():
            raise SexpError("a decimal escape above 255", match.start())
        # An unknown escape stands for itself, backslash included.
        known = bytes([int(escape[2:], 16)]) if len(escape) == 4 else escape
    return known * (length // len(escape))


def _unescape(text: bytes) -> bytes:
    """Return what the text between two quotes stands for; SexpError's offset counts from its start."""
    if b"\\" not in text:
        return text
    if len(text) <= _PIECE:
        return _ESCAPE.sub(_escaped, text)
    value, position = bytearray(), 0
    while position < len(text):  # in parts, so that memory is for the text and not for each of its escapes
        match = _TO_ESCAPE.match(text, position + _PIECE)
        end = match.end() if match else len(text)
        try:
            value += _ESCAPE.sub(_escaped, text[position:end])
        except SexpError as error:
            raise SexpError(error.message, position + error.offset) from None
        position = end
    return bytes(value)


# --- The whole syntax ---------------------------------------------------------------------------------------------

# Form feed is blank; vertical tab, NUL and bytes from 0x80 on are not. `#;` and `#|` are what they are only at an
# atom's first byte, so they are tried before it. All loops are over single bytes and never give back what they took.
# A short string without escapes is read whole, of any other the quote alone. The numbers are those of the groups.
_TOKEN: Final = re.compile(
    rb"[ \t\n\f]*+(?:"
    rb"(#;)|(#\|)"
    rb'|([^ \t\n\f\r()";]++)'
    rb"|(\()|(\))"
    rb'|"([^"\\]{0,1000}+)"|(")'
    rb"|;[^\r\n]*+|\r\n|(\r)"
    rb"|\Z)"
)
_DROP, _BLOCK, _ATOM, _OPEN, _CLOSE, _PLAIN, _QUOTE, _RETURN = range(1, 9)
_STRING: Final = re.compile(rb'[^"\\]*+(?:(?:\\{64}|\\.)[^"\\]*+)*+', re.DOTALL)
_GOOD_STRING: Final = rb'"[^"\\]*+(?:\\(?:[^0-9x]|[01][0-9]{2}|2[0-4][0-9]|25[0-5]|x[0-9A-Fa-f]{2})[^"\\]*+)*+"'
_BLOCK_PART: Final = re.compile(rb'(?:[^"#|]++|#(?!\|)|\|(?!#)|%b)*+(?:(#\|)|(\|#)|(")|\Z)' % _GOOD_STRING)
_BLOCK_OPEN, _BLOCK_CLOSE, _BLOCK_QUOTE = range(1, 4)
_COMMENT_MARK: Final = re.compile(rb"#\||\|#")

# Lists that hold no more than two levels of lists, bare atoms, blanks and strings without bad escapes.
_FLAT_DEPTH: Final = 3
_FLAT_SIZE: Final = 1 << 16  # that far one is followed
_FLAT_ITEM: Final = rb'[^()";#|\r]++|' + _GOOD_STRING
_FLAT_PATTERN: Final = rb"\((?:%b|\((?:%b|\((?:%b)*+\))*+\))*+\)" % ((_FLAT_ITEM,) * _FLAT_DEPTH)
_FLAT: Final = re.compile(_FLAT_PATTERN)
_FLAT_RUN: Final = re.compile(rb"(?:%b[ \t\n\f]*+)++" % _FLAT_PATTERN)

T = TypeVar("T")


class Scanner(Generic[T]):
    """Reads one text; ``make`` turns an atom's bytes or a list's items, and their place, into a value.

    Expressions more than ``levels`` levels below the outermost are checked, but no values are made of them.
    """

    def __init__(
        self,
        data: bytes,
        limit: int,
        make: Callable[[bytes | tuple[T, ...], int, int], T],
        levels: int = sys.maxsize,
    ) -> None:
        self._data = data
        self._limit = limit
        self._make = make
        self._levels = levels
        self._values: list[T] = []  # finished expressions: of the open lists, outermost first
        self._marks = array("q")  # for each open list, how many values stand before its own
        self._opened = array("q")  # and the offset of its parenthesis
        self._drops = array("q")  # for each pending `#;`, how many lists were open
        self._dropping = array("q")  # and its offset

    def whole(self) -> T:
        """Return the value of the one expression; raises SexpError."""
        self._scan(0)
        self._finish()
        return self._values[0]

    def prefix(self, start: int) -> tuple[T, int]:
        """Return the value of the first expression from ``start`` on, and its end; raises SexpError."""
        position = start
        while not self._values:
            position = self._scan(position, 0)
            if position >= len(self._data):
                self._finish()
        return self._values[0], position

    def _finish(self) -> None:
        """The text ends: something must be there, and nothing unfinished."""
        if self._opened:
            raise SexpError("a list that is not closed", self._opened[-1])
        if self._drops:
            raise SexpError("#; without an expression to drop", self._dropping[-1])
        if not self._values:
            raise SexpError("no expression", len(self._data))

    def _scan(self, position: int, rest: int = -1, until: int = 0) -> int:
        """Read one token at least, and on until no more than ``rest`` lists are open, no ``#;`` is pending, and
        ``until`` is reached; return where that is.
        """
        while True:
            position = self._scan_simple(position, rest, until)
            if position >= len(self._data) or (len(self._marks) <= rest and not self._drops and position >= until):
                return position

    def _scan_simple(self, position: int, rest: int, until: int) -> int:
        """The same, but stop already behind what the token pattern does not span."""
        for match in _TOKEN.finditer(self._data, position):
            kind = match.lastindex
            if kind == _ATOM:
                self._bare(match[_ATOM], match.end())
            elif kind == _OPEN:
                start = match.end() - 1
                wanted = len(self._marks) < self._levels and not self._drops
                end = start if wanted else self._pass_over(start)
                if end > start:
                    return end
                self._open(start)
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
                return self.block_comment(match.end() - 2)
            elif kind == _RETURN:
                raise SexpError("a carriage return without a line feed", match.end() - 1)
            if len(self._marks) <= rest and not self._drops and match.end() >= until:
                return match.end()
        return len(self._data)

    def _begin(self, start: int) -> None:
        """An expression begins: it must have a place."""
        if not self._marks and self._values and not self._drops:
            raise SexpError("a second expression", start)

    def _add(self, value: bytes | tuple[T, ...], start: int, end: int) -> None:
        """An expression is complete: it is the innermost pending `#;` that drops it, or it counts."""
        if self._drops and self._drops[-1] == len(self._marks):
            self._drops.pop()
            self._dropping.pop()
        elif len(self._marks) <= self._levels:
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

    def _pass_over(self, start: int) -> int:
        """Take a list whose items are not wanted, and any such behind it if they are not either, if that is easy.

        Return their end, or ``start`` if it is not. (Each byte is tried for few lists only: those not far above it.)
        """
        if len(self._marks) + _FLAT_DEPTH > self._limit:
            return start
        alone = len(self._marks) == self._levels or not self._marks or self._drops
        match = (_FLAT if alone else _FLAT_RUN).match(self._data, start, start + _FLAT_SIZE)
        if match is None:
            return start
        if alone:
            self._begin(start)
            self._add((), start, match.end())
        return match.end()

    def _string(self, start: int) -> int:
        """Read a string that is long, has escapes, or no end; return its end."""
        self._begin(start)
        value, end = self._string_at(start)
        self._add(value, start, end)
        return end

    def _string_at(self, start: int) -> tuple[bytes, int]:
        data, begin = self._data, start + 1
        end = data.find(b'"', begin)
        if data.find(b"\\", begin, end if end >= 0 else len(data)) >= 0:
            match = _STRING.match(data, begin)
            assert match  # of an empty text, if nothing else
            text, end = match[0], match.end() if data[match.end() : match.end() + 1] == b'"' else -1
            try:
                value = _unescape(text)
            except SexpError as error:
                raise SexpError(error.message, begin + error.offset) from None
        else:
            value = data[begin:end]
        if end < 0:
            raise SexpError("a string that is not closed", start)
        return value, end + 1

    def block_comment(self, start: int) -> int:
        """Read a comment, comments and strings in it included (a string may hide a comment's end); return its end."""
        opened = array("q", [start])
        position = start + 2
        while opened:
            part = _BLOCK_PART.match(self._data, position)
            assert part  # the pattern has an alternative for everything
            position = part.end()
            if part.lastindex == _BLOCK_QUOTE:
                position = self._string_at(position - 1)[1]
            elif part.lastindex == _BLOCK_OPEN:
                opened.append(position - 2)
            elif part.lastindex == _BLOCK_CLOSE:
                opened.pop()
            else:
                raise SexpError("a comment that is not closed", opened[-1])
        return position


# --- The fast way -------------------------------------------------------------------------------------------------

_SMALL_PIECE: Final = 1 << 10  # where much is not plain
_WORTHWHILE: Final = 64  # bytes: a plain piece that is shorter costs more than the scanner does

# What the pattern below may begin with; without these a text has nothing but parentheses, blanks and bare atoms.
_MARKS: Final = (b'"', b";", b"#", b"|", b"\r", b"\v")

# A string without its quotes (group 1), a line comment up to the line's end, a block comment that holds neither strings
# nor comments; or what follows on anything else that is not plain (group 2). `#|` is a comment only behind a blank,
# parenthesis or quote: that the first byte of an atom could be elsewhere is not looked into. `\r\n` is blank to
# bytes.split() as well; a vertical tab is blank to that alone.
_CUT: Final = re.compile(
    rb'["#;|\r\v](?:'
    rb'(?<=")([^"\\]*+(?:\\.[^"\\]*+)*+)"'
    rb"|(?<=;)[^\r\n]*+(?=[\r\n])"
    rb'|(?<=#)(?<![^ \t\n\f()"]#)\|(?:[^"#|]++|#(?!\|)|\|(?!#))*+\|#'
    rb'|(?:(?<=[";\v])|(?<=#)(?=[|;])|(?<=\|)(?=#)|(?<=\r)(?!\n))(.*+)'
    rb")",
    re.DOTALL,
)
_ATOM_BYTES: Final = bytes(byte for byte in range(256) if byte not in b' \t\n\f\r()";')


def without_place(value: Sexp, start: int, end: int) -> Sexp:
    """Return the value, as trees without places are made of nothing else."""
    return value


class Reader(Scanner[Sexp]):
    """Reads one text without places, much of it the fast way."""

    def __init__(self, data: bytes, limit: int) -> None:
        super().__init__(data, limit, without_place)

    def whole(self) -> Sexp:
        """Return the value of the one expression; raises SexpError."""
        for _ in self._pieces():
            pass
        return self._values[0]

    def records(self, streamed: Collection[bytes]) -> Iterator[Record]:
        """Yield the records of the text, as ``parse_records`` says; raises SexpError."""
        for _ in self._pieces():
            yield from self._completed(streamed)
        if isinstance(self._values[0], bytes):
            yield 0, None, self._values[0]

    def _completed(self, streamed: Collection[bytes]) -> Iterator[Record]:
        """Take the complete items of the outermost list, and of an open streamed list in it, off the values."""
        values, marks = self._values, self._marks
        if marks:
            items: Iterable[Sexp] = self._take(0)
        elif values and isinstance(values[0], tuple):
            items, values[0] = values[0], ()
        else:
            return
        for item in items:
            key = item[0] if isinstance(item, tuple) and len(item) > 1 else None
            if isinstance(key, bytes) and key in streamed and isinstance(item[1], tuple):
                for part in item[1]:
                    yield 3, key, part
                item = (key, (), *item[2:])
            yield 1, None, item
        if len(marks) > 2 and marks[2] == marks[1] + 1:
            key = values[marks[1]]
            if isinstance(key, bytes) and key in streamed:
                for part in self._take(2):
                    yield 3, key, part

    def _take(self, level: int) -> list[Sexp]:
        """Remove and return the complete items of the open list that is ``level`` levels below the outermost."""
        values, marks = self._values, self._marks
        start = marks[level]
        end = marks[level + 1] if len(marks) > level + 1 else len(values)
        items = values[start:end]
        if items:
            del values[start:end]
            for inner in range(level + 1, len(marks)):
                marks[inner] -= len(items)
        return items

    def _pieces(self) -> Iterator[None]:
        """Read the text; pause after each piece. At the end the text is good."""
        position, size, stretch = 0, _PIECE, 0
        while position < len(self._data):
            end = self._read_plain(position, size)
            size = min(max(2 * (end - position), _SMALL_PIECE), _PIECE)
            stretch = 0 if end - position >= _WORTHWHILE else min(2 * stretch + 1, _PIECE)
            if end < len(self._data):
                self._opened.extend([-1] * (len(self._marks) - len(self._opened)))
                del self._opened[len(self._marks) :]
                end = self._scan(end, sys.maxsize, end + stretch)
            position = end
            yield
        if self._marks:
            self._fail()
        self._opened = array("q")
        self._finish()

    def _read_plain(self, position: int, size: int) -> int:
        """Read on from ``position`` for up to ``size`` bytes, as far as the text is plain; return where that ends."""
        piece = self._data[position : position + size]
        end = position + len(piece)
        parts: list[bytes | Any] = [piece]
        whole = end == len(self._data)
        if any(mark in piece for mark in _MARKS):
            parts = _CUT.split(piece)
            rest = parts[-2] if len(parts) > 1 else None
            if rest is not None:  # its mark is one byte
                end -= 1 + len(rest)
                del parts[-3:]
                whole = False
        texts, strings = parts[::3], parts[1::3]
        if not whole:  # an atom at the end may go on
            last = texts[-1].rstrip(_ATOM_BYTES)
            end -= len(texts[-1]) - len(last)
            texts[-1] = last
        if b"\\" in piece:
            try:
                strings = [string and _unescape(string) for string in strings]
            except SexpError:
                self._fail()
        text = b' " '.join(texts)
        self._build(text.replace(b"(", b" ( ").replace(b")", b" ) ").split(), iter(strings))
        return end

    def _build(self, tokens: list[bytes], strings: Iterator[bytes | None]) -> None:
        """Put the tokens into the stack; a quote stands for the next string, or for a comment if that is None."""
        values, marks, limit = self._values, self._marks, self._limit
        for token in tokens:
            if token == b"(":
                if len(marks) >= limit:
                    self._fail()
                marks.append(len(values))
            elif token == b")":
                if not marks:
                    self._fail()
                mark = marks.pop()
                values[mark:] = (tuple(values[mark:]),)
            elif token == b'"':
                string = next(strings)
                if string is not None:
                    values.append(string)
            else:
                values.append(token)
        if marks[0] if marks else len(values) > 1:
            self._fail()

    def _fail(self) -> NoReturn:
        """There is a fault somewhere: say where, and which is the first."""
        Scanner(self._data, self._limit, without_place, levels=0).whole()
        raise AssertionError("the scanner finds no fault in the text")  # pragma: no cover
