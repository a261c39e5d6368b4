"""Reports on a run: for people, as JSON Lines, as CSV. File names are hostile: all are escaped."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Final

from ..formats import FORMATS
from ..spec.rules import CANONICAL, NOTE, REJECT, RULES
from ..terminal import Style, columns
from ..text import count, harmless, printable, shorten
from .verdicts import VERDICTS
from .views import Result, Summary, View

__all__ = ["CSV_COLUMNS", "csv_lines", "json_lines", "line_of", "summary_lines", "text_lines"]

MOST_LISTED: Final = 50  # files in a report for people
_MOST_RULES: Final = 15  # rules and versions that are listed, most of the latter being nonsense in damaged files
_KINDS: Final = (REJECT, CANONICAL, NOTE, "")
_CHUNK: Final = 1000  # lines that are handed out together
_COLOURS: Final = {
    "canonical": "green",
    "accepted": "green",
    "refused": "red",
    "unfinished": "red",
    "unreadable": "yellow",
    "crashed": "red",
}
_NO_FINDING: Final[tuple[Any, ...]] = ("",) * 8
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

CSV_COLUMNS: Final = (
    "path",
    "verdict",
    "change",
    "format",
    "version",
    "old",
    "size",
    "rejects",
    "canonicals",
    "notes",
    "rule",
    "offset",
    "field",
    "found",
    "expected",
    "message",
    "digest",
)


# ----------------------------------------------------------------------------------------------------------- for people


def text_lines(view: View, style: Style, *, only: str | None = None, rule: str | None = None) -> Iterator[str]:
    """Yield the lines of a report for people: counts, changes, and files, the bad ones unless told otherwise."""
    summary = view.summary()
    yield _heading(summary)
    if summary.run["state"] != "finished":
        state = printable(summary.run["state"])
        yield style.paint(f"  This run did not finish ({state}): not all files were examined.", "yellow")
    yield from _verdicts(summary, style)
    yield from _table(style, "formats", _formats(summary))
    yield from _table(style, "rules that files break", _rules(summary))
    yield from _table(style, "folders with the most bad files", [[f"  {_path(p)}", str(n)] for p, n in summary.folders])
    yield from _changes(summary, style)
    yield from _listed(view, style, only, rule)


def summary_lines(view: View, style: Style, *, quiet: bool) -> Iterator[str]:
    """Yield what an audit prints at its end: counts, changes, and the bad files; if ``quiet`` only the latter."""
    if not quiet:
        summary = view.summary(folders=0)
        yield _heading(summary)
        yield from _verdicts(summary, style)
        yield from _changes(summary, style)
    yield from _listed(view, style, None, None)


def _heading(summary: Summary) -> str:
    run = summary.run
    places = run["scope"]["places"]
    shown = ", ".join(_path(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
    files = f"{count(summary.files, 'file')}, {_bytes(summary.size)}"
    return f"run {run['id']}, {printable(run['started'])}, of {shown}: {files}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def _path(text: str) -> str:
    return shorten(printable(text), 200)


def _verdicts(summary: Summary, style: Style) -> Iterator[str]:
    for verdict, number in summary.verdicts.items():
        if number or verdict in ("canonical", "refused"):
            name = style.paint(f"{verdict:<10}", _COLOURS.get(verdict, "dim") if number else "dim")
            yield f"  {number:>9,}  {name}  {VERDICTS[verdict]}"
    if summary.old:
        yield f"  {summary.old:>9,}  of these are of an older version"
    if summary.run["gone"]:
        yield f"  {summary.run['gone']:>9,}  vanished before they could be examined"


def _table(style: Style, title: str, rows: list[list[str]]) -> Iterator[str]:
    if rows:
        yield style.bold(title)
        yield from columns(rows, right=tuple(range(1, len(rows[0]))))


def _formats(summary: Summary) -> list[list[str]]:
    rows = []
    for name, version, files, size in summary.formats[:_MOST_RULES]:
        what = FORMATS.get(name or "", "?") + ("" if version is None else f" version {version}")
        rows.append([f"  {what}", f"{files:,}", _bytes(size)])
    return rows


def _rules(summary: Summary) -> list[list[str]]:
    """Return rows of rules, those for which readers refuse files before others."""
    rows = [
        [f"  {printable(rule)}  {_kind(rule)}", count(files, "file"), count(findings, "finding")]
        for rule, files, findings in sorted(summary.rules, key=lambda row: _KINDS.index(_kind(row[0])))[:_MOST_RULES]
    ]
    if len(summary.rules) > _MOST_RULES:
        rows.append([f"  and {len(summary.rules) - _MOST_RULES} more", "", ""])
    return rows


def _kind(rule: str) -> str:
    return RULES[rule].kind if rule in RULES else ""  # of a database that another version has made


def _changes(summary: Summary, style: Style) -> Iterator[str]:
    if not summary.baseline:
        return
    yield style.bold(f"since {summary.baseline}")
    parts = [f"{number:,} {name}" for name, number in summary.changes.items() if number]
    yield f"  {', '.join(parts) or 'nothing has changed'}"
    if summary.known:
        yield f"  {summary.known:,} bad as before: these are known, and do not count"


def _listed(view: View, style: Style, only: str | None, rule: str | None) -> Iterator[str]:
    selected = only or (None if rule else "bad")
    number = 0
    for result in view.results(selected, rule):
        if not number:
            what = " ".join(filter(None, ["new or changed" if view.restricted else "", selected, rule]))
            yield style.bold(f"files: {what}")
        number += 1
        if number <= MOST_LISTED:
            yield from line_of(result, style)
    if number > MOST_LISTED:
        yield f"  and {number - MOST_LISTED:,} more: --format jsonl, csv or html has all of them"


def line_of(result: Result, style: Style) -> Iterator[str]:
    """Yield the lines that a result takes: path, verdict, and the first finding or what else is the matter."""
    change = f" ({result.change})" if result.change else ""
    verdict = style.paint(printable(result.verdict), _COLOURS.get(result.verdict, "dim"))
    yield f"  {printable(result.path)}: {verdict}{change}"
    findings = result.findings
    if findings:
        rule, _, offset, _, path, found, expected, _ = findings[0]
        where = f", {path}" if path else ""
        yield harmless(f"      {rule} at byte {offset}{where}: found {found}, expected {expected}")
    elif result.message:
        yield f"      {printable(result.message)}"


# --------------------------------------------------------------------------------------------------------- for programs


def json_lines(view: View, *, only: str | None = None, rule: str | None = None) -> Iterator[str]:
    """Yield a report in JSON Lines, pieces of many lines each: an object for each file."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    lines = []
    for result in view.loaded(only, rule):
        lines.append(encode(result.to_json()))
        if len(lines) >= _CHUNK:
            yield "\n".join(lines) + "\n"
            lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def csv_lines(view: View, *, only: str | None = None, rule: str | None = None) -> Iterator[str]:
    """Yield a report in CSV, pieces of many lines each: a row for each file, with its first finding.

    Names are escaped as on a terminal; a cell that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_COLUMNS)
    for number, result in enumerate(view.loaded(only, rule), 1):
        writer.writerow(_cells(result))
        if number % _CHUNK == 0:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()


def _cells(result: Result) -> list[Any]:
    rule, _, offset, _, field, found, expected, _ = next(iter(result.findings), _NO_FINDING)
    return [
        _cell(printable(result.path)),
        _cell(result.verdict),
        result.change,
        _cell(result.format or ""),
        "" if result.version is None else result.version,
        int(result.old),
        result.size,
        result.rejects,
        result.canonicals,
        result.notes,
        _cell(rule),
        offset,
        _cell(field),
        _cell(found),
        _cell(expected),
        _cell(printable(result.message)),
        _cell(result.digest),
    ]


def _cell(text: str) -> str:
    """Return the cell for a text that the database has."""
    if not (text.isascii() and text.isprintable()):
        text = harmless(text.replace("\n", "\\n"))
    return f"'{text}" if text.startswith(_FORMULA) else text
