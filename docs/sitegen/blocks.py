"""The blocks about pictures, versions, documents, threats and the protocol; see ``docs/generate.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ckptspec.audit.tables import TABLES
from ckptspec.audit.verdicts import VERDICTS
from ckptspec.audit.views import CHANGES

from .benchmark_tables import audit_costs
from .clauses import clauses, history
from .differential_tables import differential_declared, differential_pairs, differential_readings
from .document_tables import document_formats, document_keys, document_types
from .fault_tables import faults
from .fuzz_tables import fuzz, fuzz_kinds, fuzz_limits, fuzz_targets
from .hostile_tables import hostile_bounds, hostile_commands, hostile_files, hostile_texts, hostile_words
from .markdown import code, table
from .mutation_tables import (
    mutation_equivalents,
    mutation_finer,
    mutation_refusals,
    mutation_rules,
    mutation_share,
    mutation_summary,
    mutation_survivors,
)
from .pictures import pictures
from .protocol_tables import last_words, levels, outcomes, protocol, smoke_cases, statuses, verdicts
from .threats import BLOCKS as THREATS

__all__ = ["BLOCKS", "picture"]


def picture(slug: str) -> str:
    """Return the picture of a record or of a file; it lies beside the pages of formats."""
    made = pictures()[slug]
    return f"![{made.title}](pictures/{slug}.svg)"


def audit_tables() -> str:
    """Return the tables of a database of audit results."""
    parts = []
    for item in TABLES:
        keys = "".join(f" {code(key)}." for key in item.keys)
        rows = [[code(name), code(kind), doc] for name, kind, doc in item.columns]
        parts += [f"**{item.name}** {item.doc}{keys}", "", table(("column", "type", "meaning"), rows), ""]
    return "\n".join(parts).rstrip()


def audit_verdicts() -> str:
    """Return the verdicts of an audit."""
    return table(("verdict", "meaning"), [[code(name), doc] for name, doc in VERDICTS.items()])


def audit_changes() -> str:
    """Return what may have become of a file between two audits."""
    return table(("change", "meaning"), [[code(name), doc] for name, doc in CHANGES.items()])


BLOCKS: Final[dict[str, Callable[..., str]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        audit_changes,
        audit_costs,
        audit_tables,
        audit_verdicts,
        clauses,
        differential_declared,
        differential_pairs,
        differential_readings,
        document_formats,
        document_keys,
        document_types,
        fuzz,
        fuzz_kinds,
        fuzz_limits,
        fuzz_targets,
        faults,
        history,
        hostile_bounds,
        hostile_commands,
        hostile_files,
        hostile_texts,
        hostile_words,
        last_words,
        levels,
        mutation_equivalents,
        mutation_finer,
        mutation_refusals,
        mutation_rules,
        mutation_share,
        mutation_summary,
        mutation_survivors,
        outcomes,
        picture,
        protocol,
        smoke_cases,
        statuses,
        verdicts,
    )
} | THREATS
