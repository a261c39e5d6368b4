"""Standard input and output, as the verbs use them."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

from ..source import BufferSource, Source, open_file
from ..text import printable
from ..urls import shown_url

__all__ = ["open_argument", "print_json", "shown", "would_overwrite"]


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


def shown(name: str) -> str:
    """Return the name of a file as the command line shows it: no escapes, and no secrets of an address."""
    return printable(shown_url(name))


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
        print(f"ckptspec: {printable(target)}: {names} are the same file", file=sys.stderr)
    return same


def print_json(value: Any) -> None:
    """Print JSON for programs that people may look at."""
    print(json.dumps(value, indent=2, ensure_ascii=True))
