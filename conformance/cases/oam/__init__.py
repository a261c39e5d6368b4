"""The cases of ``.oam`` files: what is valid, what is not canonical, what must be refused, what may differ."""

from __future__ import annotations

from ..definition import CaseBook
from . import canonical, documents, invalid, open_questions, valid

__all__ = ["book"]


def book() -> CaseBook:
    """Return all definitions of the format."""
    made = CaseBook("oam", ".oam")
    for chapter in (valid, canonical, invalid, open_questions, documents):
        chapter.define(made)
    return made
