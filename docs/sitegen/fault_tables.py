"""The table of what a failing system leaves behind, from the one that the tests hold the operations against."""

from __future__ import annotations

from collections import defaultdict

from ckptspec.conformance.faults import AFTERWARDS, DONE, FAULTS, OPERATIONS, STAGES, Fault, outcome

from .markdown import code, table

__all__ = ["faults"]


def faults() -> str:
    """Return the table of stages and faults against operations; operations of the same stages share a column."""
    columns: dict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for operation, stages in OPERATIONS.items():
        columns[stages, AFTERWARDS[operation]].append(operation)
    harmless = _harmless()
    rows = []
    for stage in STAGES:
        there: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for fault in FAULTS[stage]:
            if fault.name in harmless:
                continue
            cells = tuple(_cell(names[0], stage, fault) for names in columns.values())
            there[cells].append(code(fault.name) if fault.name.isupper() else fault.name)
        rows += [[stage, ", ".join(names), *cells] for cells, names in there.items()]
    rows.append(["any", ", ".join(sorted(harmless)), *(DONE for _ in columns)])
    return table(("stage", "what goes wrong", *(", ".join(names) for names in columns.values())), rows)


def _harmless() -> set[str]:
    """Return the faults that every operation gets over at every stage."""
    everywhere = set.intersection(*({fault.name for fault in faults} for faults in FAULTS.values()))
    harm = {
        fault.name
        for operation in OPERATIONS
        for stage, faults in FAULTS.items()
        for fault in faults
        if outcome(operation, stage, fault) != DONE
    }
    return everywhere - harm


def _cell(operation: str, stage: str, fault: Fault) -> str:
    """Return what a fault comes to: before the file was published and after it, where a stage can be both."""
    if stage not in OPERATIONS[operation]:
        return ""
    before = outcome(operation, stage, fault)
    after = outcome(operation, stage, fault, published=True)
    if before != after and stage in AFTERWARDS[operation]:
        return f"{before} or {after}"
    return before
