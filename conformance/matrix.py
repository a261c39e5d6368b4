"""Matrices: what several implementations did with the same cases, side by side.

A matrix has a *row* for each test and a *column* for each implementation. There are two kinds:

- ``runs``: the rows are the tests of the suite (``decode:oam/minimal``), the columns whole implementations;
- ``exchange``: a row is a document that one producer had to write (``PRODUCER/oam/minimal``), the first column says
  whether it wrote a file, the others what each consumer made of that file.

A cell is the ``Result`` of one test, or None where the implementation was not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ArgumentError
from ..terminal import columns as aligned
from ..text import count, shorten
from .catalogue import ANY_FORMAT, ENCODE, Case, Suite
from .judging import suite_tests
from .outcome_report import MISBEHAVIOUR, OUTCOMES, PASS, PASSED, SKIPPED, STATUSES, Result, RunResult, SmokeFailure

__all__ = [
    "EXCHANGE",
    "RUNS",
    "WRITES",
    "Column",
    "Matrix",
    "Pair",
    "Row",
    "cell_text",
    "matrix_of_runs",
    "render_text",
]

RUNS: Final = "runs"
EXCHANGE: Final = "exchange"
WRITES: Final = "writes"  # what the first column of an exchange is called

_LISTED: Final = 40  # rows that the summary for people names
_WIDTH: Final = 32  # characters of a name in that summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One test: ``group`` is its direction or its producer."""

    id: str
    group: str
    case: Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One implementation: what it is called, the commands it was reached by, and its results by row id.

    ``conforms``: whether its runs ended well; None where that is no question. ``smoke`` is why there are no results.
    """

    name: str
    about: tuple[str, ...]
    results: Mapping[str, Result]
    conforms: bool | None = None
    notes: tuple[str, ...] = ()
    smoke: SmokeFailure | None = None

    def counts(self) -> dict[str, int]:
        """Return the number of results of each status."""
        made = dict.fromkeys(STATUSES, 0)
        for result in self.results.values():
            made[result.status] += 1
        return made

    def outcomes(self) -> dict[str, int]:
        """Return the number of results of each outcome that occurred."""
        found = [result.outcome for result in self.results.values()]
        return {outcome: found.count(outcome) for outcome in OUTCOMES if outcome in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """How often one consumer made what of the files that one producer wrote."""

    producer: str
    consumer: str
    same: int = 0
    other: int = 0
    refused: int = 0
    broken: int = 0
    not_asked: int = 0

    @property
    def agrees(self) -> bool:
        """Whether the consumer read every file that it was asked about, and read the same in it."""
        return not (self.other or self.refused or self.broken)

    def to_json(self) -> dict[str, Any]:
        """Return the pair as JSON types."""
        numbers = {key: getattr(self, key) for key in ("same", "other", "refused", "broken", "not_asked")}
        return {"producer": self.producer, "consumer": self.consumer, **numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Implementations × cases, or producers × consumers."""

    kind: str
    suite_version: str
    protocol_version: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 if all is as it should be, 1 if not, 2 if an adapter did not work at all."""
        if any(column.smoke for column in self.columns):
            return 2
        if self.kind == RUNS:
            return 0 if all(column.conforms for column in self.columns) else 1
        return 1 if any(result.fatal for column in self.columns for result in column.results.values()) else 0

    @property
    def groups(self) -> tuple[str, ...]:
        """The directions, or the producers."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    def cells(self, row: Row) -> list[Result | None]:
        """Return one cell for each column."""
        return [column.results.get(row.id) for column in self.columns]

    def differs(self, row: Row) -> bool:
        """Whether the implementations did not all do the same.

        Of a single one: whether it did not pass. In an exchange: whether somebody did not write or read as expected.
        """
        asked = [cell for cell in self.cells(row) if cell is not None and cell.status != SKIPPED]
        if self.kind == EXCHANGE or len(self.columns) == 1:
            refused = self.kind == EXCHANGE and not all(cell.accepted for cell in asked)
            return refused or any(cell.status != PASSED for cell in asked)
        return len({(cell.outcome, cell.accepted) for cell in asked}) > 1

    def pairs(self) -> list[Pair]:
        """Return producers × consumers of an exchange, in the order of both."""
        if self.kind != EXCHANGE:
            return []
        return [self._pair(producer, column) for producer in self.groups for column in self.columns[1:]]

    def _pair(self, producer: str, column: Column) -> Pair:
        found = [_reading(column.results.get(row.id)) for row in self.rows if row.group == producer]
        numbers = {key: found.count(key) for key in ("same", "other", "refused", "broken", "not_asked")}
        return Pair(producer=producer, consumer=column.name, **numbers)

    def to_json(self) -> dict[str, Any]:
        """Return the matrix as JSON types."""
        return {
            "kind": self.kind,
            "suite": self.suite_version,
            "protocol": self.protocol_version,
            "exit_status": self.exit_status,
            "columns": [_column_json(column) for column in self.columns],
            "pairs": [pair.to_json() for pair in self.pairs()],
            "notes": list(self.notes),
            "rows": [self._row_json(row) for row in self.rows],
        }

    def _row_json(self, row: Row) -> dict[str, Any]:
        results = {}
        for column, cell in zip(self.columns, self.cells(row), strict=True):
            results[column.name] = None if cell is None else _cell_json(cell)
        return {
            "id": row.id,
            "group": row.group,
            "case": row.case.id,
            "format": row.case.format,
            "verdict": row.case.verdict,
            "level": row.case.level,
            "rules": list(row.case.rules),
            "differs": self.differs(row),
            "results": results,
        }


def _reading(cell: Result | None) -> str:
    """Return what a consumer made of a file, as the name of the number in ``Pair``."""
    if cell is None or cell.status == SKIPPED:
        return "not_asked"
    if cell.outcome in MISBEHAVIOUR:
        return "broken"
    if not cell.accepted:
        return "refused"
    return "same" if cell.outcome == PASS else "other"


def _column_json(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "about": list(column.about),
        "conforms": column.conforms,
        "counts": column.counts(),
        "outcomes": column.outcomes(),
        "notes": list(column.notes),
        "smoke": column.smoke.to_json() if column.smoke else None,
    }


def _cell_json(cell: Result) -> dict[str, Any]:
    made = cell.to_json()
    facts = ("id", "case", "direction", "format", "title", "verdict", "level", "tags", "case_rules", "file")
    return {key: value for key, value in made.items() if key not in facts}


# --- of runs --------------------------------------------------------------------------------------------------------


def matrix_of_runs(runs: Sequence[RunResult], suite: Suite) -> Matrix:
    """Join runs of ``suite``, in the order given. Runs of the same name make one column.

    ArgumentError if there is no run, or two of the same name share a test.
    """
    if not runs:
        raise ArgumentError("there is no run to show")
    named: dict[str, list[RunResult]] = {}
    for run in runs:
        named.setdefault(run.name, []).append(run)
    asked = {result.id for run in runs for result in run.results}
    tests = [test for test in suite_tests(suite) if test.id in asked]
    return Matrix(
        kind=RUNS,
        suite_version=suite.suite_version,
        protocol_version=suite.protocol_version,
        columns=tuple(_column(name, parts) for name, parts in named.items()),
        rows=tuple(Row(id=test.id, group=test.direction, case=test.case) for test in tests),
    )


def _column(name: str, runs: Sequence[RunResult]) -> Column:
    results: dict[str, Result] = {}
    for run in runs:
        for result in run.results:
            if result.id in results and result.case.format != ANY_FORMAT:
                raise ArgumentError(f"two runs are called '{shorten(name)}', and both have {result.id}: give --name")
            if result.id not in results or results[result.id].status == PASSED:  # each format's decoder gets these
                results[result.id] = result
    commands = [
        f"{role}: {text}" for run in runs for role, text in (("decoder", run.decoder), ("encoder", run.encoder)) if text
    ]
    more = ["strict: warnings fail"] if any(run.strict for run in runs) else []
    return Column(
        name=name,
        about=(*dict.fromkeys(commands), *more),
        results=results,
        conforms=all(run.exit_status == 0 for run in runs),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
        smoke=next((run.smoke for run in runs if run.smoke), None),
    )


# --- for people -----------------------------------------------------------------------------------------------------


def cell_text(matrix: Matrix, cell: Result | None) -> str:
    """Return what a cell says, in a word or two: what was done if that was right, else what is wrong with it."""
    if cell is None:
        return "not asked"
    if cell.status == SKIPPED:
        return "skipped"
    if cell.outcome != PASS:
        return cell.outcome.replace("-", " ")
    if cell.direction == ENCODE:
        return "writes" if cell.accepted else "refuses"
    if not cell.accepted:
        return "refuses"
    return "same" if matrix.kind == EXCHANGE else "accepts"


def render_text(matrix: Matrix) -> str:
    """Return the summary for people: the counts, and the first rows in which there is a difference."""
    lines = [f"ckptspec conformance suite {matrix.suite_version}, protocol {matrix.protocol_version}"]
    lines += ["", *(_exchange_table(matrix) if matrix.kind == EXCHANGE else _runs_table(matrix))]
    differing = [row for row in matrix.rows if matrix.differs(row)]
    if differing:
        lines += ["", f"{count(len(differing), 'row')} of {len(matrix.rows)} in which not all did the same:"]
        lines += _rows_table(matrix, differing[:_LISTED])
        if len(differing) > _LISTED:
            lines.append(f"  and {len(differing) - _LISTED} more: --html and --json have them all")
    lines += [f"note: {note}" for note in _notes(matrix)]
    lines.append(_conclusion(matrix, bool(differing)))
    return "\n".join(lines) + "\n"


def _notes(matrix: Matrix) -> Iterator[str]:
    yield from matrix.notes
    for column in matrix.columns:
        yield from (f"{shorten(column.name, _WIDTH)}: {note}" for note in column.notes)


def _conclusion(matrix: Matrix, differing: bool) -> str:
    if matrix.kind == EXCHANGE:
        if matrix.exit_status:
            return "not all agree"
        return "no disagreement that the suite does not allow" if differing else "all agree"
    wrong = [shorten(column.name, _WIDTH) for column in matrix.columns if not column.conforms]
    return f"not conformant: {', '.join(wrong)}" if wrong else "all conformant"


def _runs_table(matrix: Matrix) -> list[str]:
    counts = [column.counts() for column in matrix.columns]
    shown = [status for status in STATUSES if status == PASSED or any(tally[status] for tally in counts)]
    rows = [["implementation", *shown, "not asked"]]
    for column, tally in zip(matrix.columns, counts, strict=True):
        rest = len(matrix.rows) - len(column.results)
        rows.append([shorten(column.name, _WIDTH), *(f"{tally[status]:,}" for status in shown), f"{rest:,}"])
    return aligned(rows, right=tuple(range(1, len(shown) + 2)))


def _exchange_table(matrix: Matrix) -> list[str]:
    rows = [["written by", "read by", "same", "other", "refused", "broken", "not asked"]]
    for pair in matrix.pairs():
        numbers = (pair.same, pair.other, pair.refused, pair.broken, pair.not_asked)
        names = (shorten(pair.producer, _WIDTH), shorten(pair.consumer, _WIDTH))
        rows.append([*names, *(f"{number:,}" for number in numbers)])
    writing = matrix.columns[0].results
    lines = aligned(rows, right=(2, 3, 4, 5, 6))
    for producer in matrix.groups:
        asked = [writing[row.id] for row in matrix.rows if row.group == producer]
        wrote = sum(result.accepted for result in asked)
        if wrote < len(asked):
            lines.append(f"{shorten(producer, _WIDTH)} wrote {wrote:,} of {count(len(asked), 'document')}")
    return lines


def _rows_table(matrix: Matrix, rows: Sequence[Row]) -> list[str]:
    table = [["  test", "verdict", *(shorten(column.name, _WIDTH) for column in matrix.columns)]]
    for row in rows:
        table.append([f"  {row.id}", row.case.verdict, *(cell_text(matrix, cell) for cell in matrix.cells(row))])
    return aligned(table)
