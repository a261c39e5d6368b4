"""The report as one page for a browser, which needs no other file and no network.

The page's script (``html/audit.js``) builds everything from one block of data, of which this module says what is in
it. A row is a list of numbers: places in lists of texts, each of which stands once, so that 100,000 files fit.
"""

from __future__ import annotations

import os
from typing import Any, Final

from ..formats import FORMATS
from ..html import page, resource
from ..spec.rules import RULES
from ..text import printable
from .verdicts import BAD, VERDICTS
from .views import CHANGES, Result, View

__all__ = ["MOST_DETAILED", "MOST_ROWS", "render_html"]

MOST_ROWS: Final = 200_000  # files that a page has; more make a browser slow
MOST_DETAILED: Final = 5_000  # files whose findings a page has, the bad ones before others
_BODY: Final = """<section id="summary" aria-labelledby="summary-title">
<h2 id="summary-title">Summary</h2>
</section>
<section id="files" aria-labelledby="files-title">
<h2 id="files-title">Files</h2>
<div id="tools" class="tools" role="search" aria-label="Filter the files"></div>
<p id="shown" class="dim" role="status"></p>
<div id="split" class="split">
<div id="grid" class="grid" tabindex="0" aria-describedby="keys"></div>
<section id="detail" class="detail" aria-label="The chosen file"></section>
</div>
<p id="keys" class="dim">A click, or the arrow keys in the table, choose a file: what is wrong with it stands beside the
table. Escape closes it. A click on a head sorts.</p>
</section>"""


class _Texts:
    """Numbers texts, each once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the number of a text."""
        at = self._places.get(text)
        if at is None:
            at = self._places[text] = len(self.listed)
            self.listed.append(text)
        return at


def render_html(view: View, *, only: str | None = None, rule: str | None = None) -> str:
    """Return the page. ``only`` and ``rule`` restrict it as they do ``View.results``."""
    return page(
        "Audit of checkpoints",
        _BODY,
        data=_data(view, only, rule),
        styles=(resource("matrix.css"), resource("audit.css")),
        script=resource("audit.js"),
        contents=[("summary", "Summary"), ("files", "Files")],
    )


def _data(view: View, only: str | None, rule: str | None) -> dict[str, Any]:
    summary = view.summary()
    texts, details = _Texts(), _details(view, only, rule)
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
