"""The page that shows what is in a file: its map, findings, tensors, records and bytes."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..findings import Finding, Report
from ..formats import FORMATS, module_of, recognise, unrecognised
from ..regions import Region
from ..source import Source
from ..text import count, printable
from ._layout import Layout, Places
from ._records import blob, records_of, survivors_of
from ._tensors import MOST_TENSORS, Row, measured, moment, rows_of, to_json
from .page import page, resource

__all__ = ["MOST_FINDINGS", "inspection"]

MOST_FINDINGS: Final = 1000  # that a page lists
_SCRIPTS: Final = ("map.js", "tensors.js", "bytes.js", "inspection.js")
_CONTENTS: Final = (
    ("findings", "Findings"),
    ("map", "Map"),
    ("tensors", "Tensors"),
    ("records", "Records"),
    ("bytes", "Bytes"),
)
_BLOBS: Final = ("config.arch_config",)
_MOMENT: Final = re.compile(r"optimizer\.\w+_moment")
_ROW: Final = re.compile(rf"(?:weights|state|tensors)\[\d+\]|{_MOMENT.pattern}")


def inspection(source: Source, *, values: bool = True) -> tuple[str, Report]:
    """Return the HTML page about an open source, and the report on it; of a damaged one, what can be read.

    Without ``values``, no payload is read for statistics. Raises OSError if the source cannot be read.
    """
    known = recognise(source)
    if known is None:
        report = Report(source=source.name, size=source.size, findings=[unrecognised(source)])
        parts: dict[str, Any] = {}
    else:
        report, parts = module_of(known).inspect(source)
    data = _data(source, known, report, parts, values)
    name = printable(os.path.basename(source.name or "-"))  # the page may go to others, the path is nobody's business
    made = page(
        f"{name} - ckptspec",
        resource("inspection.html"),
        heading=name,
        data=data,
        styles=resource("inspection.css"),
        script=map(resource, _SCRIPTS),
        contents=_CONTENTS,
    )
    return made, report


def _data(source: Source, format: str | None, report: Report, parts: dict[str, Any], values: bool) -> dict[str, Any]:
    listed = report.findings[:MOST_FINDINGS]
    rows = rows_of(format, parts) if format is not None and parts else []
    total = len(rows)
    del rows[MOST_TENSORS:]
    places = _by_key(rows)
    layout = Layout(source, listed, places)
    blobs: dict[str, str] = {}

    def watched(regions: Iterator[Region]) -> Iterator[Region]:
        for region in regions:
            if _MOMENT.fullmatch(region.path):
                places[region.path] = [(len(rows), region.offset)]
                rows.append(moment(region))
            elif region.path in _BLOBS:
                blobs[region.path] = blob(source, region)
            yield region

    if format is None or not parts:
        layout.take(())
        records = []
    else:
        layout.take(watched(module_of(format).regions(source)))
        records = records_of(format, parts, layout.docs, blobs)
    statistics = measured(source, rows) if values else {}
    return {
        "file": _file(source, format, report, max(total, len(rows))),
        "findings": [_finding(finding, layout, rows) for finding in listed],
        "records": survivors_of(report.survivors) + records,
        "tensors": to_json(rows, statistics),
        "values": values,
        "layout": layout.to_json(),
    }


def _by_key(rows: Sequence[Row]) -> dict[str, Places]:
    made = defaultdict(list)
    for at, row in enumerate(rows):
        made[row.key].append((at, row.offset))
    return dict(made)


def _file(source: Source, format: str | None, report: Report, tensors: int) -> dict[str, Any]:
    what = FORMATS.get(format or "", "of no known format")
    counts = report.counts()
    if not report.ok:
        verdict = ["bad", "refused", f"A reader must refuse this file: {count(counts['reject'], 'reason')}."]
    elif not report.canonical:
        number = count(counts["canonical"], "place")
        verdict = ["warn", "valid, not canonical", f"Readers take this file; a writer would write {number} otherwise."]
    else:
        verdict = ["good", "valid", "This file is as a writer would write it."]
    notes = []
    if len(report.findings) > MOST_FINDINGS:
        notes.append(f"The first {MOST_FINDINGS:,} of {len(report.findings):,} findings are listed.")
    if report.truncated:
        notes.append("There are more findings of a severity than are looked for.")
    if tensors > MOST_TENSORS:
        notes.append(f"The first {MOST_TENSORS:,} of {tensors:,} tensors are listed.")
    return {
        "format": what + ("" if report.version is None else f", version {report.version}"),
        "size": source.size,
        "section": "node" if format == "ocannl" else "section",
        "verdict": verdict,
        "counts": counts,
        "tensors": tensors,
        "notes": notes,
    }


def _finding(finding: Finding, layout: Layout, rows: Sequence[Row]) -> dict[str, Any]:
    made = finding.to_json()
    made["hint"] = finding.hint
    made["tensor"] = _tensor_of(finding, layout, rows)
    return made


def _tensor_of(finding: Finding, layout: Layout, rows: Sequence[Row]) -> int:
    """Return the tensor that a finding is about, or -1: the one that its path names, else the one at its place."""
    match = _ROW.match(finding.path)
    if match:
        return layout.row_of(match[0])
    return layout.row_at(finding.offset, finding.length)
