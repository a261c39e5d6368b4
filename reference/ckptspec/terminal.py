"""How things are shown on a terminal: colour where it is one and nobody objects, plain text elsewhere."""

from __future__ import annotations

import os
from typing import Final, TextIO

__all__ = ["Style", "columns", "wrapped"]

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}


class Style:
    """Paints text for a stream; leaves it as it is unless the stream is a terminal (NO_COLOR is honoured)."""

    def __init__(self, stream: TextIO) -> None:
        dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
        self.enabled = not dumb and stream.isatty()

    def paint(self, text: str, colour: str) -> str:
        """Return ``text`` in a colour."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.enabled and text else text

    def bold(self, text: str) -> str:
        """Return ``text`` in bold."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """Return ``text`` dimmed."""
        return self.paint(text, "dim")


def wrapped(text: str, prefix: str) -> list[str]:
    """Return text as lines that fit the terminal, the first after ``prefix``, the others below its end."""
    import shutil
    import textwrap

    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    lines = textwrap.wrap(
        text, width, initial_indent=prefix, subsequent_indent=" " * len(prefix), break_on_hyphens=False
    )
    return lines or [prefix.rstrip()]


def columns(rows: list[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    """Return rows as lines with aligned columns; those numbered in ``right`` are set flush right."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
