"""Where in a header's text a value stands. Looked up only where something is wrong: most headers need no positions."""

from __future__ import annotations

import re
import sys
from typing import Final

from .._sexp_reading import Scanner
from ..sexp import Node

__all__ = ["Nowhere", "Places"]

Path = tuple[int, ...]

_BLANKS: Final = re.compile(rb"(?:[ \t\n\f]|\r\n|;[^\r\n]*+)*+")


class Places:
    """Finds expressions of one text by their path: the indices that lead to them from the outermost list.

    Only what stands before an expression is read, and it is read once if expressions are looked up in their order: the
    text may be large, and it may be broken further on. ``base`` is the text's offset in the file.
    """

    def __init__(self, text: bytes, base: int) -> None:
        self.text = text
        self.base = base
        self._cursors: dict[Path, tuple[int, int]] = {}  # for a list: an index, and where to go on for that item

    def find(self, path: Path) -> tuple[int, int]:
        """Return offset in the file and length of the expression that a path leads to."""
        if not path:
            start = self._skip(0)
            return self.base + start, max(len(self.text.rstrip()) - start, 0)
        node = self._read(self._start(path))
        return self.base + node.start, node.end - node.start

    def of(self, record: Path, key: str, *path: int) -> tuple[int, int]:
        """Return the place of what a key of a record has, or of the record if the key is not there.

        ``record`` leads to the record; ``path`` leads on from the key's value.
        """
        node = self._read(self._start(record))
        for pair in node.value if isinstance(node.value, tuple) else ():
            if isinstance(pair.value, tuple) and len(pair.value) == 2 and pair.at(0).value == key.encode():
                found = pair.at(1, *path)
                return self.base + found.start, found.end - found.start
        return self.base + node.start, node.end - node.start

    def _skip(self, position: int) -> int:
        """Return where the next expression begins."""
        while True:
            match = _BLANKS.match(self.text, position)
            assert match is not None
            position = match.end()
            mark = self.text[position : position + 2]
            if mark == b"#|":
                position = self._scanner().block_comment(position)
            elif mark == b"#;":
                position = self._read(position + 2).end
            else:
                return position

    def _start(self, path: Path) -> int:
        """Return where an expression begins."""
        if not path:
            return self._skip(0)
        parent, index = path[:-1], path[-1]
        at, position = self._cursors.get(parent, (index + 1, 0))
        if at > index:
            at, position = 0, self._start(parent) + 1
        while at < index:
            position = self._read(position).end
            at += 1
        self._cursors[parent] = (index, position)
        return self._skip(position)

    def _scanner(self) -> Scanner[Node]:
        return Scanner(self.text, sys.maxsize, Node.build)

    def _read(self, start: int) -> Node:
        return self._scanner().prefix(start)[0]


class Nowhere(Places):
    """For records whose places do not count."""

    def __init__(self) -> None:
        super().__init__(b"", 0)

    def find(self, path: Path) -> tuple[int, int]:
        return 0, 0

    def of(self, record: Path, key: str, *path: int) -> tuple[int, int]:
        return 0, 0
