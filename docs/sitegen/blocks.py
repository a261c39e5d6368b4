"""The blocks of pages that are about pictures, versions, documents and the protocol; see ``docs/generate.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .clauses import clauses, history
from .document_tables import document_formats, document_keys, document_types
from .hostile_tables import hostile_bounds, hostile_commands, hostile_files, hostile_texts, hostile_words
from .pictures import pictures
from .protocol_tables import last_words, levels, outcomes, protocol, smoke_cases, statuses, verdicts

__all__ = ["BLOCKS", "picture"]


def picture(slug: str) -> str:
    """Return the picture of a record or of a file; it lies beside the pages of formats."""
    made = pictures()[slug]
    return f"![{made.title}](pictures/{slug}.svg)"


BLOCKS: Final[dict[str, Callable[..., str]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        clauses,
        document_formats,
        document_keys,
        document_types,
        history,
        hostile_bounds,
        hostile_commands,
        hostile_files,
        hostile_texts,
        hostile_words,
        last_words,
        levels,
        outcomes,
        picture,
        protocol,
        smoke_cases,
        statuses,
        verdicts,
    )
}
