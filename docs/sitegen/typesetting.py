"""How pages are set: which columns of tables have to be wide, and where lines must not break.

Browsers give a column of prose hardly any room beside columns that cannot be broken, and break a line after any hyphen,
even that of an option. So columns of long texts, and short words of code, get classes that the style sheet knows, and
long words get places to break at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from html import unescape
from itertools import count
from typing import Final

__all__ = ["typeset"]

_LITERAL: Final = re.compile(r"(<pre\b.*?</pre>|<svg\b.*?</svg>|<script\b.*?</script>)", re.DOTALL)
_TABLE: Final = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW: Final = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL: Final = re.compile(r'<(?P<kind>t[dh])(?P<style>(?: style="[^"]*")?)>(?P<text>.*?)</(?P=kind)>', re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_WORD: Final = re.compile(r"<code>(?P<text>[^<\s]+)</code>")
_PERCENT: Final = re.compile(r"(?<=\d) (?=%)")

_SHORT: Final = 20  # characters of code that stay on one line
_PROSE: Final = ((100, "ck-long"), (36, "ck-prose"))  # characters of a column's longest text, and its class


def typeset(html: str) -> str:
    """Return the HTML of a page with what the style sheet needs to know."""
    parts = _LITERAL.split(html)
    parts[::2] = [_PERCENT.sub("\N{NO-BREAK SPACE}", _WORD.sub(_word, part)) for part in parts[::2]]
    return _TABLE.sub(lambda table: _with_widths(table[0]), "".join(parts))


def _word(match: re.Match[str]) -> str:
    if len(unescape(match["text"])) <= _SHORT:
        return f'<code class="ck-word">{match["text"]}</code>'
    return re.sub(r"[_/]\b", r"\g<0><wbr>", match[0].removesuffix("</code>")) + "</code>"


def _with_widths(table: str) -> str:
    longest: dict[int, int] = defaultdict(int)
    for row in _ROW.findall(table):
        for at, cell in enumerate(_CELL.finditer(row)):
            longest[at] = max(longest[at], len(unescape(_TAG.sub("", cell["text"]))))

    def classed(cell: re.Match[str], at: int) -> str:
        found = next((name for least, name in _PROSE if longest[at] >= least), "")
        return f'<{cell["kind"]} class="{found}"{cell[0][3:]}' if found else cell[0]

    def row_of(row: re.Match[str]) -> str:
        places = count()
        return _CELL.sub(lambda cell: classed(cell, next(places)), row[0])

    return _ROW.sub(row_of, table)
