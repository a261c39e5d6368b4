"""Standard input and output, as the verbs use them."""

from __future__ import annotations

import errno
import json
import sys
from typing import Any

from ..source import BufferSource, FileSource, Source

__all__ = ["open_argument", "print_json"]


def open_argument(name: str) -> Source:
    """Open a file named on the command line; ``-`` is standard input, which is read to its end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return BufferSource(sys.stdin.buffer.read(), "-")
    return FileSource(name)


def print_json(value: Any) -> None:
    """Print JSON for programs that people may look at."""
    print(json.dumps(value, indent=2, ensure_ascii=True))
