"""Tables of hostile content, from what the tests try."""

from __future__ import annotations

from itertools import groupby

from ckptspec.conformance import hostile
from ckptspec.conformance.hostile import trials
from ckptspec.formats import FORMATS
from ckptspec.text import printable

from .markdown import attribute, code, table

__all__ = ["hostile_bounds", "hostile_commands", "hostile_files", "hostile_texts", "hostile_words"]

_MARKUP = "\\*_[]~{}$"  # what Markdown takes for its own, escapes included, also between tags
_PRINTS = {"text": "text", "json": "JSON", "lines": "lines of JSON", "html": "a page"}


def _span(text: str) -> str:
    """Return any text so that it is shown as it is; in tables, and in pages that are no site, too."""
    shown = attribute(printable(text)).replace("|", "&#124;").replace("`", "&#96;")
    return f"<code>{shown.translate({ord(char): f'&#{ord(char)};' for char in _MARKUP})}</code>"


def _or(statuses: tuple[int, ...]) -> str:
    return " or ".join(map(str, statuses))


def hostile_texts() -> str:
    """Return the hostile texts, by what they attack."""
    ordered = sorted(hostile.TEXTS, key=lambda item: item.attacks)
    rows = []
    for attacks, items in groupby(ordered, key=lambda item: item.attacks):
        rows.append([attacks, " ".join(_span(item.text) for item in items if item.text)])
    rows.append(["whoever takes two names for one", " ".join(f"{_span(a)} {_span(b)}" for _, a, b in hostile.TWINS)])
    return table(("target", "as they are shown"), rows)


def hostile_files(format: str) -> str:
    """Return the hostile files of a format."""
    rows = []
    for item in hostile.FILES:
        if item.format == format:
            items = f"{item.full:,}" if item.full else ""
            name = item.name.removeprefix(f"{format}_")
            rows.append([code(name), item.attacks, items, "accepted" if item.accepted else "refused"])
    return table((f"{FORMATS[format]}", "what is in it", "how many", "readers"), rows, right=(2,))


def hostile_commands() -> str:
    """Return the commands that every hostile file is given to."""
    rows = [
        [code(item.name), _PRINTS[item.output], _or(item.good), "" if item.decoded else _or(item.bad)]
        for item in hostile.COMMANDS
    ]
    return table(("command", "prints", "exit: accepted file", "exit: refused file"), rows)


def hostile_words() -> str:
    """Return the commands that get hostile words."""
    return table(("command", "exit"), [[code(item.name), _or(item.statuses)] for item in hostile.WORDS])


def hostile_bounds(name: str) -> str:
    """Return a number: of ``files``, ``names``, ``texts``, ``trials``; ``seconds``, ``per-byte`` or ``memory``."""
    files = sum(
        sum(1 for command in hostile.COMMANDS if item.accepted or not command.decoded) for item in hostile.FILES
    )
    numbers = {
        "files": len(hostile.FILES),
        "names": len(hostile.NAMES),
        "texts": len(hostile.texts_for()),
        "trials": files
        + len(hostile.NAMES) * len(hostile.COMMANDS)
        + len(hostile.WORDS) * len(hostile.texts_for(None, "\0")),
        "seconds": trials.SECONDS,
        "per-byte": trials.PER_BYTE * 1e6,
        "memory": trials.BASE / 1e6,
    }
    return f"{numbers[name]:,.0f}"
