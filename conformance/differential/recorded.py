"""What has come of the golden files, as a file that the documentation shows and the tests compare with the facts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ...formats import FORMATS
from .acceptable import acceptable
from .comparing import Comparison, Tally
from .inputs import golden_files
from .searching import golden

__all__ = ["RECORD", "load_record", "record", "record_of"]

RECORD: Final = Path(__file__).parent / "golden_counts.json"

Row = dict[str, Any]


def load_record() -> dict[str, Row]:
    """Return the record, by format: the number of files, the counts of each pair, and what was declared."""
    made: dict[str, Row] = json.loads(RECORD.read_text("utf-8"))
    return made


def record(comparison: Comparison) -> str:
    """Return the record of all golden files as text; AssertionError if readings disagree about one."""
    made = {}
    for name in FORMATS:
        assert not list(golden(comparison, golden_files(name)))
        made[name] = record_of(comparison.tally, name, [reading.name for reading in comparison.readings])
    return json.dumps(made, indent=1) + "\n"


def record_of(tally: Tally, format: str, readings: Iterable[str]) -> Row:
    """Return a format's part of the record. A declared disagreement comes with its first golden file."""
    pairs = [{"pair": list(pair), "counts": numbers} for name, pair, numbers in tally.rows() if name == format]
    entries = [entry for name in readings for entry in acceptable(name, format)]
    declared = [
        {
            "reading": entry.reading,
            "why": entry.why,
            "rule": rule,
            "files": tally.declared[entry, rule],
            "example": tally.examples[entry, rule],
        }
        for entry in entries
        for rule in entry.rules or ("",)
        if tally.declared[entry, rule]
    ]
    return {"files": tally.files[format], "pairs": pairs, "declared": declared}
