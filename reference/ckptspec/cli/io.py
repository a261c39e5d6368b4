"""Standard input and output, as the verbs use them."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

from ..source import BufferSource, FileSource, Source

__all__ = ["is_same_file", "open_argument", "print_json"]


def open_argument(name: str) -> Source:
    """Open a file named on the command line; ``-`` is standard input, which is read to its end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return BufferSource(sys.stdin.buffer.read(), "-")
    return FileSource(name)


def is_same_file(source: str, target: str) -> bool:
    """Say whether what would be written is the file that is read, as a name or as standard input."""
    if target == "-":
        return False
    try:
        read = os.fstat(0) if source == "-" else os.stat(source)
        return os.path.samestat(read, os.stat(target))
    except OSError:  # one of them is not there
        return False


def print_json(value: Any) -> None:
    """Print JSON for programs that people may look at."""
    print(json.dumps(value, indent=2, ensure_ascii=True))
