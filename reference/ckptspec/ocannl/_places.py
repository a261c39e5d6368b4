"""Where in a header's text a value stands. Looked up only where something is wrong: most headers need no positions."""

from __future__ import annotations

import re
import sys
from array import array
from typing import Final

from .._sexp_reading import Scanner
from ..sexp import Node

__all__ = ["Nowhere", "Places"]

Path = tuple[int, ...]

_BLANKS: Final = re.compile(rb"(?:[ \t\n\f]|\r\n|;[^\r\n]*+)*+")


class Places:
    """Finds expressions of one text by their path: the indices that lead to them from the outermost list.

    Only what stands before an expression is read, and it is read once: the text may be large, and it may be broken
    further on. ``base`` is the text's offset in the file.
    """

    def __init__(self, text: bytes, base: int) -> None:
        self.text = text
        self.base = base
        self._known: list[tuple[Path, array[int]]] = []  # by level: the list looked at last, and its items' starts
        self._keys: tuple[Path, dict[bytes, int]] | None = None  # the same for a record: its keys' indices

    def find(self, path: Path) -> tuple[int, int]:
        """Return offset in the file and length of the expression that a path leads to."""
        start = self._start(path)
        end = self._end(start) if path else len(self.text.rstrip())
        return self.base + start, max(end - start, 0)

    def of(self, record: Path, key: str, *path: int) -> tuple[int, int]:
        """Return the place of what a key of a record has, or of the record if the key is not there.

        ``record`` leads to the record; ``path`` leads on from the key's value.
        """
        if self._keys is None or self._keys[0] != record:
            self._keys = record, self._indices(record)
        index = self._keys[1].get(key.encode())
        return self.find(record if index is None else (*record, index, 1, *path))

    def _indices(self, record: Path) -> dict[bytes, int]:
        """Return the index of the first pair of each key of a record."""
        made: dict[bytes, int] = {}
        for index, pair in enumerate(self._scanner(2).prefix(self._start(record))[0].value):
            if isinstance(pair, Node) and isinstance(pair.value, tuple) and len(pair.value) == 2:
                key = pair.value[0].value
                if isinstance(key, bytes):
                    made.setdefault(key, index)
        return made

    def _start(self, path: Path) -> int:
        """Return where an expression begins."""
        if not path:
            return self._skip(0)
        parent, index = path[:-1], path[-1]
        position = self._start(parent) + 1
        level = len(parent)
        if len(self._known) <= level or self._known[level][0] != parent:
            self._known[level : level + 1] = [(parent, array("q"))]
        starts = self._known[level][1]
        while len(starts) <= index:
            starts.append(self._skip(self._end(starts[-1]) if starts else position))
        return starts[index]

    def _skip(self, position: int) -> int:
        """Return where the next expression begins that no comment hides."""
        pending = 0
        while True:
            match = _BLANKS.match(self.text, position)
            assert match is not None
            position = match.end()
            mark = self.text[position : position + 2]
            if mark == b"#|":
                position = self._scanner().block_comment(position)
            elif mark == b"#;":
                pending += 1
                position += 2
            elif pending:
                pending -= 1
                position = self._end(position)
            else:
                return position

    def _end(self, start: int) -> int:
        """Return where the expression that begins at ``start`` ends."""
        return self._scanner().prefix(start)[1]

    def _scanner(self, levels: int = 0) -> Scanner[Node]:
        return Scanner(self.text, sys.maxsize, Node.build, levels)


class Nowhere(Places):
    """For records whose places do not count."""

    def __init__(self) -> None:
        super().__init__(b"", 0)

    def find(self, path: Path) -> tuple[int, int]:
        return 0, 0

    def of(self, record: Path, key: str, *path: int) -> tuple[int, int]:
        return 0, 0
