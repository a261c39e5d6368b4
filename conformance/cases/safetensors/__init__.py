"""The cases of safetensors files: what is valid, what is not canonical, what must be refused, and for encoders."""

from __future__ import annotations

from ..definition import CaseBook
from . import canonical, documents, invalid, malformed, open_questions, valid

__all__ = ["book"]


def book() -> CaseBook:
    """Return all definitions of the format."""
    made = CaseBook("safetensors", ".safetensors")
    for chapter in (valid, canonical, open_questions, malformed, invalid, documents):
        chapter.define(made)
    return made
