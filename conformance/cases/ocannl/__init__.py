"""The cases of OCANNL checkpoints: what is valid, what is not canonical, what must be refused, and for encoders."""

from __future__ import annotations

from ..definition import CaseBook
from . import canonical, documents, invalid, malformed, training, valid

__all__ = ["book"]


def book() -> CaseBook:
    """Return all definitions of the format."""
    made = CaseBook("ocannl", ".ckpt")
    for chapter in (valid, training, canonical, malformed, invalid, documents):
        chapter.define(made)
    return made
