"""Ways to lay the text of a header out that change nothing about what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .assemble import Tree, compact

__all__ = ["STYLES", "pretty", "woven"]

_MARGIN: Final = 80
_BARE: Final = re.compile(rb'[^\x00-\x20\x7f-\xff"();\\]+')


def pretty(value: Tree, indent: int = 0) -> bytes:
    """Return the text as OCANNL lays it out: what does not fit into a line is broken after each item."""
    flat = compact(value)
    if isinstance(value, bytes) or indent + len(flat) < _MARGIN:
        return flat
    line = b"\n" + b" " * (indent + 1)
    return b"(" + line.join(pretty(item, indent + 1) for item in value) + b")"


def woven(
    blank: bytes, inside: bytes = b"", leaf: Callable[[bytes], bytes] = lambda made: made
) -> Callable[..., bytes]:
    """Return a style: what stands between items, what behind ``(`` and before ``)``, and how bare atoms are spelled."""

    def spell(value: Tree) -> bytes:
        if isinstance(value, bytes):
            return leaf(value) if _BARE.fullmatch(value) else value
        return b"(" + inside + blank.join(map(spell, value)) + inside + b")"

    return spell


def _tight(value: Tree) -> bytes:
    """No blank where a parenthesis parts two items."""
    return re.sub(rb" ?([()]) ?", rb"\1", compact(value))


def _quoted(escape: Callable[[int, int], bytes]) -> Callable[[bytes], bytes]:
    return lambda raw: b'"' + b"".join(escape(at, byte) for at, byte in enumerate(raw)) + b'"'


def _split(blank: bytes) -> Callable[[int, int], bytes]:
    return lambda at, byte: (b"\\" + blank if at else b"") + bytes([byte])


STYLES: Final[dict[str, tuple[str, Callable[[Tree], bytes]]]] = {
    "pretty": ("over many lines, as OCANNL writes it", pretty),
    "tight": ("without a blank where none is needed", _tight),
    "lines": ("a line for each atom", woven(b"\n", b"\n")),
    "crlf": ("line ends of CR and LF", woven(b"\r\n", b"\r\n")),
    "tabs": ("tabs and form feeds for blanks", woven(b"\t", b"\f")),
    "blanks": ("many blanks", woven(b" \t\n\f \r\n", b"   ")),
    "comment_line": ("line comments that hold a parenthesis and a quote", woven(b' ; ( " #|\n', b"; )\r\n")),
    "comment_block": ("block comments, nested, with a string in them", woven(b' #| a #| "|#" |# ( |# ', b" #||# ")),
    "comment_datum": ("comments of whole expressions", woven(b' #;(a "b" #;c #| |# d) ', b" #; ; x\n y ")),
    "comment_datum_twice": ("#; twice drops two expressions", woven(b" #;#; a (b) ")),
    "quoted": ("every atom quoted", woven(b" ", b"", _quoted(lambda _, byte: bytes([byte])))),
    "quoted_tight": ("every atom quoted, and no blank", woven(b"", b"", _quoted(lambda _, byte: bytes([byte])))),
    "escaped_hex": ("every byte as \\xHH", woven(b" ", b"", _quoted(lambda at, byte: b"\\x%02x" % byte))),
    "escaped_hex_upper": ("every byte as \\xHH in capitals", woven(b" ", b"", _quoted(lambda _, b: b"\\x%02X" % b))),
    "escaped_decimal": ("every byte as \\DDD", woven(b" ", b"", _quoted(lambda at, byte: b"\\%03d" % byte))),
    "continued": ("strings that go on in the next line", woven(b" ", b"", _quoted(_split(b"\n")))),
    "continued_blanks": ("the same, indented", woven(b" ", b"", _quoted(_split(b"\n \t ")))),
    "continued_crlf": ("the same, with CR LF", woven(b" ", b"", _quoted(_split(b"\r\n  ")))),
}
