"""What the targets work on: one input of one kind, and what can be learned of it, once.

A *kind* is a format, or ``sexp`` (the text of an S-expression) or ``document`` (a neutral document as JSON text).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cached_property
from typing import Any, Final

from ...errors import FormatError
from ...findings import Report
from ...formats import FORMATS, FormatModule, module_of
from ...source import BufferSource

__all__ = ["KINDS", "Captured", "Subject", "Violation", "captured", "require"]

KINDS: Final = (*FORMATS, "sexp", "document")


class Violation(AssertionError):  # noqa: N818  # the input is in error, not the program that finds it
    """Something does not hold that must hold for any bytes."""


def require(condition: object, message: str) -> None:
    """Raise Violation unless a condition holds. (An ``assert`` would be gone under ``python -O``.)"""
    if not condition:
        raise Violation(message)


class Subject:
    """An input. ``report``, ``model`` and ``document`` are made when they are asked for, and kept."""

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind = kind
        self.data = data

    @property
    def module(self) -> FormatModule:
        """The module of the format that the input is read as, whatever its first bytes are."""
        return module_of(self.kind)

    def source(self) -> BufferSource:
        """Return the input as a source."""
        return BufferSource(self.data, "input")

    @cached_property
    def report(self) -> Report:
        """The report of validation."""
        return self.module.validate(self.source())

    @cached_property
    def model(self) -> Any:
        """What reading gives. Raises FormatError."""
        return self.module.read(self.source())

    @cached_property
    def document(self) -> dict[str, Any]:
        """The neutral document. Raises FormatError."""
        return self.module.decode(self.source())

    def refusal(self) -> FormatError | None:
        """Return the error for which reading refuses the input, or None."""
        try:
            self.model  # noqa: B018  # made for its error
        except FormatError as error:
            return error
        return None


# ------------------------------------------------------------------------------------------------------------- output


class Captured(io.StringIO):
    """What is printed in a ``captured`` block."""

    def check(self) -> None:
        """Violation if what was printed holds anything that disturbs a terminal."""
        for line in self.getvalue().split("\n"):
            require(line.isprintable(), f"printed {line[:200]!a}")


class _Input:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@contextmanager
def captured(data: bytes = b"") -> Iterator[Captured]:
    """Catch what is printed, with ``data`` as standard input."""
    made = Captured()
    before, sys.stdin = sys.stdin, _Input(data)
    try:
        with redirect_stdout(made), redirect_stderr(made):
            yield made
    finally:
        sys.stdin = before
