"""What must hold of everything that a command prints or writes, whatever it was given."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
from functools import cache
from html.parser import HTMLParser
from typing import Any, Final

from ...text import disturbing

__all__ = ["Page", "check_csv", "check_html", "check_json", "check_output", "check_text"]

_STRANGE: Final = re.compile(r"[^ -~\n]")


@cache
def _disturbing() -> re.Pattern[str]:
    """Return a pattern of what ``disturbing`` says yes to, which is faster where there is much text."""
    ranges: list[tuple[int, int]] = []
    for is_it, codes in itertools.groupby(range(sys.maxunicode + 1), lambda code: disturbing(chr(code))):
        if is_it:
            first, *rest = codes
            ranges.append((first, rest[-1] if rest else first))
    return re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]")


def check_text(text: str) -> str:
    """Return what is wrong with text for people: "" if nothing is."""
    for found in _disturbing().finditer(text):
        if found[0] != "\n":
            return f"U+{ord(found[0]):04X} as it is: {text[max(0, found.start() - 60) : found.end() + 60]!a}"
    return "" if not text or text.endswith("\n") else "the last line has no end"


def check_json(text: str) -> str:
    """Return what is wrong with JSON: it is one value, and of characters only those of ASCII that can be seen."""
    strange = _STRANGE.search(text)
    if strange is not None:
        return f"JSON has U+{ord(strange[0]):04X} as it is"
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return f"no JSON: {error}"
    return ""


def check_csv(text: str) -> str:
    """Return what is wrong with CSV: as many cells in each row, none that a spreadsheet would take for a formula."""
    wrong = check_text(text.replace("\r\n", "\n"))
    if wrong:
        return wrong
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    for row in rows:
        if len(row) != len(head):
            return f"a row has {len(row)} cells, and the head {len(head)}: {row!a}"
        for cell in row:
            if cell.startswith(("=", "+", "-", "@")):
                return f"a spreadsheet would take a cell for a formula: {cell!a}"
    return ""


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class Page(HTMLParser):
    """Collects what a page is made of: its elements with the names of their attributes, and the ids."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[tuple[str, tuple[str, ...]]] = set()
        self.others: list[str] = []
        self.scripts = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.scripts += tag == "script"

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)


def check_html(text: str, plain: Page) -> str:
    """Return what is wrong with a page: it is made of nothing that ``plain``, the page of a good file, is not."""
    wrong = check_text(text)
    if wrong:
        return wrong
    page = Page(text)
    more = page.elements - plain.elements
    if more or page.scripts != plain.scripts or page.others != plain.others:
        return f"the page has what pages do not have: {sorted(more)[:3]}, {page.scripts} scripts, {page.others[:3]}"
    return ""


def check_output(kind: str, text: str, plain: Page) -> str:
    """Return what is wrong with what a command printed, of a kind that ``Command.output`` names."""
    if kind == "json":
        return check_json(text)
    if kind == "lines":
        return next(filter(None, map(check_json, text.splitlines())), "")
    if kind == "csv":
        return check_csv(text)
    return check_html(text, plain) if kind == "html" else check_text(text)
