"""Small pieces of Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

__all__ = ["attribute", "code", "fence", "grouped", "literal", "plural", "prose", "table"]

_SPECIAL: Final = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|~"})


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table; the columns ``right`` are aligned to the right."""
    lines = [" | ".join(head), " | ".join("---:" if at in right else "---" for at in range(len(head)))]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def code(text: str) -> str:
    """Return text as a code span."""
    return f"`{text}`"


def fence(language: str, text: str) -> str:
    """Return text as a code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def literal(text: str) -> str:
    """Return text of any origin so that Markdown and HTML show it as it is, on one line."""
    return " ".join(text.split()).replace("&", "&amp;").translate(_SPECIAL)


def prose(text: str) -> str:
    """Return a sentence of the catalogue as Markdown: a name that begins and ends with ``__`` would be bold."""
    return re.sub(r"(?<!`)\b__\w+__\b(?!`)", r"`\g<0>`", text)


def attribute(text: str) -> str:
    """Return text of any origin as HTML, also between quotes."""
    return escape(text, quote=True)


def grouped(number: int) -> str:
    """Return a number with commas, or as a power of two where it is one, or one less."""
    for exact, suffix in ((number, ""), (number + 1, " − 1")):
        if exact >= 1 << 20 and exact & (exact - 1) == 0:
            return f"2^{exact.bit_length() - 1}{suffix}"
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
