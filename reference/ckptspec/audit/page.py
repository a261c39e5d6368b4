"""The report as one page for a browser, which needs no other file and no network.

The page's script (``html/audit.js``) builds everything from one block of data, of which this module says what is in
it. A row is a list of numbers: places in lists of texts, each of which stands once, so that 100,000 files fit.
"""

from __future__ import annotations

import os
from typing import Any, Final

from ..formats import FORMATS
from ..html.explorer import Texts, explorer
from ..spec.rules import RULES
from ..text import printable
from .verdicts import BAD, VERDICTS
from .views import CHANGES, Result, View

__all__ = ["MOST_DETAILED", "MOST_ROWS", "render_html"]

MOST_ROWS: Final = 200_000  # files that a page has; more make a browser slow
MOST_DETAILED: Final = 5_000  # files whose findings a page has, the bad ones before others
_ABOUT: Final = """what is wrong with it is shown
beside the table. Escape closes it. Click a column heading to sort."""


def render_html(view: View, *, only: str | None = None, rule: str | None = None) -> str:
    """Return the page. ``only`` and ``rule`` restrict it as they do ``View.results``."""
    return explorer("Audit of checkpoints", "file", _ABOUT, data=_data(view, only, rule), name="audit")


def _data(view: View, only: str | None, rule: str | None) -> dict[str, Any]:
    summary = view.summary()
    texts, details = Texts(), _details(view, only, rule)
    sets = view.rule_sets()
    verdicts, formats, changes = list(VERDICTS), list(FORMATS), list(CHANGES)
    rows: list[list[Any]] = []
    left_out = 0
    for result in view.results(only, rule):
        if len(rows) >= MOST_ROWS:
            left_out += 1
            continue
        folder, name = os.path.split(result.path)
        rows.append(
            [
                texts.place(printable(folder)),
                printable(name),
                result.size,
                verdicts.index(result.verdict),
                -1 if result.format is None else formats.index(result.format),
                None if result.version is None else str(result.version),  # a browser would round large numbers
                int(result.old),
                result.rejects,
                result.canonicals,
                result.notes,
                texts.place(sets.get(result.id, "")),
                changes.index(result.change) if result.change else -1,
                texts.place(printable(result.message)),
                details.get(result.id, 0),
            ]
        )
    told = summary.to_json()
    told["formats"] = [
        {**item, "version": None if item["version"] is None else str(item["version"])} for item in told["formats"]
    ]
    told["folders"] = [{**folder, "path": printable(folder["path"])} for folder in told["folders"]]
    told["run"]["scope"]["places"] = [printable(place) for place in told["run"]["scope"]["places"]]
    return {
        "summary": told,
        "verdicts": VERDICTS,
        "bad": list(BAD),
        "formats": FORMATS,
        "changes": CHANGES,
        "rules": {row[0]: [RULES[row[0]].kind, RULES[row[0]].sentence] for row in summary.rules if row[0] in RULES},
        "texts": texts.listed,
        "rows": rows,
        "left_out": left_out,
    }


def _details(view: View, only: str | None, rule: str | None) -> dict[int, list[Any]]:
    """Return the findings of results, by their numbers; of as many as a page has room for, the bad ones first."""
    made: dict[int, list[Any]] = {}
    if only is None:
        _add_details(made, view.results("bad", rule))
    _add_details(made, view.results(only, rule))
    return made


def _add_details(made: dict[int, list[Any]], results: Any) -> None:
    result: Result
    for result in results:
        if len(made) >= MOST_DETAILED:
            break
        if result.id not in made and (result.rejects or result.canonicals or result.notes):
            made[result.id] = [list(finding) for finding in result.findings]
