"""Standard input and output, as the verbs use them."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ArgumentError
from ..source import BufferSource, Source, open_file, text_of
from ..text import printable
from ..urls import scrubbed, shown_url

__all__ = ["open_argument", "parse_argument", "print_json", "shown", "tell", "would_overwrite"]

Parsed = TypeVar("Parsed")


def open_argument(name: str) -> Source:
    """Open a file named on the command line; ``-`` is standard input, which is read to its end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        try:
            return BufferSource(sys.stdin.buffer.read(), "-")
        except OSError as error:
            error.filename = "standard input"
            raise
    return open_file(name)


def parse_argument(name: str, parse: Callable[[bytes], Parsed]) -> Parsed:
    """Read a file of text named on the command line, and parse it; an ArgumentError names the file."""
    with open_argument(name) as source:
        try:
            return parse(text_of(source.blocks(0, source.size)))
        except ArgumentError as error:
            if name == "-":
                raise
            raise ArgumentError(str(error), printable(source.name or name)) from None


def shown(name: str) -> str:
    """Return the name of a file as the command line shows it: no escapes, and no secrets of an address."""
    return printable(shown_url(name))


def tell(text: str) -> None:
    """Print a line about what is wrong; words of the command line in it may be addresses."""
    print(f"ckptspec: {scrubbed(text)}", file=sys.stderr)


def would_overwrite(source: str, target: str, names: str = "FILE and OUT") -> bool:
    """Say whether what would be written is the file that is read, under any name or as standard input; if so, tell.

    ``names`` are those of the two arguments.
    """
    if target == "-":
        return False
    try:
        read = os.fstat(0) if source == "-" else os.stat(source)
        same = os.path.samestat(read, os.stat(target))
    except OSError:  # one of them is not there
        return False
    if same:
        tell(f"{printable(target)}: {names} are the same file")
    return same


def print_json(value: Any) -> None:
    """Print JSON for programs that people may look at."""
    print(json.dumps(value, indent=2, ensure_ascii=True))
