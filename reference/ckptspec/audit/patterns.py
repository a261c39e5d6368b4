"""Patterns of paths: ``*``, ``?`` and ``[...]`` within a name, ``**`` for any number of folders.

A pattern is matched name by name on the way down a tree, so that folders in which nothing can match are never listed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

__all__ = ["Filter", "Pattern", "has_magic"]

_MAGIC: Final = re.compile(r"[*?\[]")
_ANY: Final = "**"

States = frozenset[int]


def has_magic(text: str) -> bool:
    """Say whether a text is a pattern rather than a plain path."""
    return _MAGIC.search(text) is not None


class Pattern:
    """A pattern of a relative path. A state is a place in it, as far as the names so far have led."""

    def __init__(self, text: str) -> None:
        names = [part for part in text.split("/") if part not in ("", ".")]
        # Several ** in a row say no more than one.
        parts = [part for before, part in zip(["", *names], names, strict=False) if part != _ANY or before != _ANY]
        self._parts = [None if part == _ANY else re.compile(fnmatch.translate(part)) for part in parts]
        self.start: States = self._closed({0})

    def step(self, states: States, name: str) -> States:
        """Return the states after one more name; none at all if nothing below it can match."""
        following = set()
        for state in states:
            if state == len(self._parts):
                continue
            part = self._parts[state]
            if part is None:
                following.add(state)
            elif part.match(name):
                following.add(state + 1)
        return self._closed(following)

    def matched(self, states: States) -> bool:
        """Say whether the names that led to these states match as a whole."""
        return len(self._parts) in states

    def matches(self, names: Sequence[str]) -> bool:
        """Say whether names, from a folder down, match as a whole."""
        states = self.start
        for name in names:
            states = self.step(states, name)
        return self.matched(states)

    def _closed(self, states: set[int]) -> States:
        for state in sorted(states):
            while state < len(self._parts) and self._parts[state] is None:  # ** may stand for no folder at all
                state += 1
                states.add(state)
        return frozenset(states)


class Filter:
    """What of a tree is wanted.

    A pattern without ``/`` is one of names, wherever they stand, one with ``/`` one of paths below the folder that was
    named. Files must match one of ``include``, if there is any; files and folders that match one of ``exclude`` are
    left out, folders with all that is in them.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [self._pattern(text) for text in include]
        self._exclude = [self._pattern(text) for text in exclude]

    def takes(self, names: Sequence[str]) -> bool:
        """Say whether a file, given by the names that lead to it from the folder that was named, is wanted."""
        if self._exclude and self.excludes(names):
            return False
        return not self._include or any(pattern.matches(names) for pattern in self._include)

    def excludes(self, names: Sequence[str]) -> bool:
        """Say whether a file or folder is left out, for its own sake."""
        return any(pattern.matches(names) for pattern in self._exclude)

    def reaches(self, names: Sequence[str]) -> bool:
        """Say whether a walk comes to a file: it is wanted, and none of the folders that lead to it is left out."""
        if self._exclude and any(self.excludes(names[:end]) for end in range(1, len(names))):
            return False
        return self.takes(names)

    @staticmethod
    def _pattern(text: str) -> Pattern:
        return Pattern(text if "/" in text.rstrip("/") else f"**/{text}")
