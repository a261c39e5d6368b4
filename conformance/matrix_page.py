"""The matrix as one page for a browser, which needs no other file and no network.

The page's script (``html/matrix.js``) builds everything from one block of data, of which this module says what is in
it. Most texts of a run stand in it many times, so cells hold numbers: places in one list of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..html.explorer import Texts, explorer
from ..spec.rules import RULES, Rule
from .catalogue import Case
from .matrix import EXCHANGE, Column, Matrix, cell_text
from .outcome_report import OUTCOMES, STATUSES, Result

__all__ = ["render_html"]

_ABOUT: Final = """what it is about and what became of it
is shown beside the table, and the page's address leads to this case. Escape closes it."""


def render_html(
    matrix: Matrix,
    *,
    title: str = "",
    rule_link: Callable[[str], str | None] | None = None,
    note: str = "",
    home: str = "",
) -> str:
    """Return the page.

    ``rule_link`` gives the address of a rule's explanation, if there is one; ``note`` is a text for the top of the
    page, ``home`` the address of the page that it belongs to.
    """
    if not title:
        title = "Producers and consumers" if matrix.kind == EXCHANGE else "Conformance of implementations"
        if matrix.kind != EXCHANGE and len(matrix.columns) == 1:
            title = f"Conformance of {matrix.columns[0].name}"
    return explorer(title, "case", _ABOUT, data=_data(matrix, rule_link, note), name="matrix", home=home)


def _data(matrix: Matrix, rule_link: Callable[[str], str | None] | None, note: str) -> dict[str, Any]:
    texts = Texts()
    cases = {row.case.id: row.case for row in matrix.rows}
    place = {case_id: at for at, case_id in enumerate(cases)}
    groups = matrix.groups
    named = {rule for case in cases.values() for rule in case.rules}
    named |= {rule for column in matrix.columns for result in column.results.values() for rule in result.rules}
    return {
        "kind": matrix.kind,
        "suite": matrix.suite_version,
        "protocol": matrix.protocol_version,
        "exit": matrix.exit_status,
        "note": note,
        "notes": list(matrix.notes),
        "statuses": STATUSES,
        "outcomes": OUTCOMES,
        "groups": list(groups),
        "columns": [_column(column) for column in matrix.columns],
        "pairs": [pair.to_json() for pair in matrix.pairs()],
        "cases": [_case(case) for case in cases.values()],
        "rules": {name: _rule(RULES[name], rule_link) for name in sorted(named) if name in RULES},
        # one row: case, group, whether there is a difference
        "rows": [[place[row.case.id], groups.index(row.group), int(matrix.differs(row))] for row in matrix.rows],
        "ids": [row.id for row in matrix.rows],
        "cells": [
            [_cell(matrix, column.results.get(row.id), texts) for row in matrix.rows] for column in matrix.columns
        ],
        "texts": texts.listed,
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "about": list(column.about),
        "conforms": column.conforms,
        "notes": list(column.notes),
        "smoke": list(column.smoke.lines()) if column.smoke else None,
    }


def _case(case: Case) -> dict[str, Any]:
    keys = ("id", "format", "title", "kind", "verdict", "level", "rules", "versions", "tags", "file", "size")
    made = case.to_json()
    return {**{key: made[key] for key in keys}, "reason": case.reason, "behaviour": case.behaviour}


def _rule(rule: Rule, rule_link: Callable[[str], str | None] | None) -> dict[str, Any]:
    link = rule_link(rule.id) if rule_link else None
    return {
        "kind": rule.kind,
        "sentence": rule.sentence,
        "reason": rule.reason,
        "upstream": rule.upstream,
        "link": link or "",
    }


def _cell(matrix: Matrix, result: Result | None, texts: Texts) -> list[Any] | None:
    """Return status, outcome, whether something was accepted, the cell's text, expected, happened, and all the rest."""
    if result is None:
        return None
    rest: Mapping[str, str | Sequence[str] | Mapping[str, str]] = {
        "difference": {**result.difference.to_json(), "hint": result.difference.hint} if result.difference else {},
        "rules": result.rules,
        "where": result.where,
        "printed": result.printed,
        "stderr": result.stderr,
        "known": result.known,
        "by_hand": result.by_hand,
    }
    return [
        result.status,
        result.outcome,
        int(result.accepted),
        *(texts.place(text) for text in (cell_text(matrix, result), result.expected, result.happened)),
        {key: value for key, value in rest.items() if value},
    ]
