r"""S-expressions as OCaml's sexplib writes and reads them, and the numbers that stand in their atoms.

Source: OCANNL's checkpoint headers are S-expressions; formats/ocannl.md, section 3, has the rules, each checked
against sexplib itself. An atom is ``bytes`` (any bytes, not necessarily UTF-8), a list is a ``tuple``.

How texts are read is in ``_sexp_reading``. There are five ways to ask:

=================  =================================================================================================
``parse``          the whole expression
``parse_records``  the items of the outermost list, and of chosen lists in it, one by one and then forgotten
``parse_nodes``    the whole expression, each part of which knows its place
``outline``        the same down to a level, for a fraction of the time and memory
``parse_prefix``   one expression in the middle of a text that may be damaged before and behind it
=================  =================================================================================================

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
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from ._sexp_reading import Node, Reader, Record, Scanner, Sexp, SexpError, without_place
from .text import show

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "Node",
    "Record",
    "Sexp",
    "SexpError",
    "dump",
    "format_float",
    "format_int",
    "needs_quotes",
    "outline",
    "parse",
    "parse_float",
    "parse_int",
    "parse_nodes",
    "parse_prefix",
    "parse_records",
    "quote",
]

Text: TypeAlias = bytes | bytearray | memoryview

# OCaml's native integers have 63 bits.
INT_MIN: Final = -(1 << 62)
INT_MAX: Final = (1 << 62) - 1


# --- Reading ------------------------------------------------------------------------------------------------------


def parse(data: Text, *, max_depth: int | None = None) -> Sexp:
    """Return the one expression in ``data``, which blanks and comments may surround.

    ``max_depth`` bounds how many lists may be open at a time (comments' lists included). Raises SexpError.
    """
    return Reader(bytes(data), _limit(max_depth)).whole()


def parse_records(
    data: Text, *, max_depth: int | None = None, streamed: Collection[bytes] = frozenset()
) -> Iterator[Record]:
    """Yield what ``data`` holds as ``(level, key, value)``, in the order of the text; nothing yielded is kept.

    Level 1 (key None): an item of the outermost list. Where it is a list of an atom in ``streamed``, another list, and
    whatever else, that second list's items come before it, as level 3 with the atom as key, and ``()`` is left in the
    list's place. Level 0 (key None): the expression, if it is an atom. An empty list yields nothing.

    The text is read in pieces of 64 KiB, as the iterator is asked for more, and what a piece completes
    is yielded when the piece has been read: to stop asking is to stop reading. Each piece, with or without comments, is
    read once and for good: what a later piece holds cannot take a record back, nor give it twice.

    Raises SexpError as ``parse`` does for the same text, perhaps after records; the iterator's end means that the whole
    text is good.
    """
    return Reader(bytes(data), _limit(max_depth)).records(streamed)


def parse_nodes(data: Text, *, max_depth: int | None = None) -> Node:
    """Return what ``parse`` returns as a tree of nodes that know their places; slower, and needs more memory."""
    return Scanner(bytes(data), _limit(max_depth), Node.build).whole()


def outline(data: Text, depth: int, *, max_depth: int | None = None) -> Node:
    """Return the nodes down to ``depth`` levels below the root (0 is the root alone).

    An atom has its bytes; a list at the lowest level has ``()``, whatever its items. Raises SexpError as ``parse``
    does: what is left out is checked as well.
    """
    return Scanner(bytes(data), _limit(max_depth), Node.build, depth).whole()


def parse_prefix(data: Text, start: int = 0, *, max_depth: int | None = None) -> tuple[Sexp, int]:
    """Return the first expression at or after ``start``, and the offset of its end; what follows is not looked at.

    Blanks and comments before the expression are passed over. Raises SexpError if no complete expression comes first.
    (Anything but ``bytes`` is copied at each call.)
    """
    return Scanner(bytes(data), _limit(max_depth), without_place).prefix(start)


def _limit(max_depth: int | None) -> int:
    return sys.maxsize if max_depth is None else max_depth


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
_SHORT_INT: Final = len(str(INT_MAX))  # decimal digits of which any number is in range
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
    if len(atom) < _SHORT_INT and atom.isdigit():  # nearly all are
        return int(atom)
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
