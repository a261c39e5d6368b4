"""What a database says of a run: counts, changes, and the results themselves. All of it comes from queries."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ..errors import ArgumentError
from ..source import path_text
from ..spec.rules import RULES
from .baselines import covers, load, run_named
from .check import Row
from .database import failures, join, open_to_read
from .verdicts import BAD, VERDICTS

__all__ = ["CHANGES", "SELECTIONS", "Result", "View", "results"]

CHANGES: Final = {
    "new": "it was not there before, and is good",
    "newly-bad": "it was good before, or not there, and is bad now",
    "fixed": "it was bad before, and is good now",
    "changed": "its verdict has changed, or it is refused for another reason",
    "vanished": "it is no longer there",
}
"""What may have become of a file since an earlier run; ``good`` are the verdicts that are not bad."""

_BAD_SQL: Final = ", ".join(f"'{verdict}'" for verdict in BAD)
_FAILS: Final = "(r.verdict IN ('refused', 'crashed') OR (r.verdict = 'unfinished' AND r.rejects > 0))"
_FAILS_STRICTLY: Final = "r.verdict IN ('refused', 'crashed', 'unfinished', 'accepted')"

SELECTIONS: Final = {
    **{verdict: f"r.verdict = '{verdict}'" for verdict in VERDICTS},
    "bad": f"r.verdict IN ({_BAD_SQL})",
    "noncanonical": "r.verdict = 'accepted'",
    "old": "r.old",
}
"""What a report may be restricted to, as conditions of queries."""

_FROM: Final = "FROM seen s JOIN results r ON r.id = s.result"
_NAMED: Final = "JOIN files f ON f.id = s.file JOIN folders o ON o.id = f.folder"
_BASE: Final = "LEFT JOIN base b ON b.file = s.file"
# Known: the baseline has it with the same fault. What was cut short and what is refused are the same fault by degrees.
_IS_KNOWN: Final = """(b.verdict IS NOT NULL AND covers(r.refused_for, b.refused_for) AND (b.verdict = r.verdict
    OR (b.verdict IN ('refused', 'unfinished') AND r.verdict IN ('refused', 'unfinished'))))"""
_CHANGE: Final = f"""CASE
    WHEN r.verdict IN ({_BAD_SQL}) AND (b.verdict IS NULL OR b.verdict NOT IN ({_BAD_SQL})) THEN 'newly-bad'
    WHEN b.verdict IS NULL THEN 'new'
    WHEN b.verdict IN ({_BAD_SQL}) AND r.verdict NOT IN ({_BAD_SQL}) THEN 'fixed'
    WHEN b.verdict != r.verdict OR b.refused_for != r.refused_for THEN 'changed'
    ELSE '' END"""
_FIRST: Final = ("refused_for", "old", "truncated", "verified")  # these are stored otherwise than they are told
_REST: Final = ("size", "digest", "verdict", "format", "version", "rejects", "canonicals", "notes", "message")
_COLUMNS: Final = f"r.id, o.path, f.name, {', '.join(f'r.{name}' for name in (*_FIRST, *_REST))}"


_ROW: Final = "rule, severity, offset, length, path, found, expected, hint"
_FINDINGS: Final = f"SELECT {_ROW} FROM findings WHERE result = ? ORDER BY number"  # noqa: S608
_COUNTS: Final = "SELECT rule, number FROM counts WHERE result = ? ORDER BY rule"
_TOGETHER: Final = 500  # results whose findings are fetched by one query
_FINDINGS_OF: Final = f"SELECT result, {_ROW} FROM findings WHERE result IN ({{}}) ORDER BY result, number"  # noqa: S608
_COUNTS_OF: Final = "SELECT result, rule, number FROM counts WHERE result IN ({}) ORDER BY result, rule"


@dataclass(slots=True)  # neither frozen nor by keywords: that would take longer than to read it
class Result:
    """The result of a file in a run. ``change`` is what has become of it since the baseline, ``""``: nothing.

    ``refused_for`` are the rules for which readers refuse it, ``counts`` the numbers of findings of each rule, and
    ``findings`` the first of them, as ``Examined`` has them; the last two are read when they are asked for, as long as
    the view is open.
    """

    path: str
    size: int
    digest: str
    verdict: str
    format: str | None
    version: int | None
    rejects: int
    canonicals: int
    notes: int
    message: str
    change: str = ""
    refused_for: tuple[str, ...] = ()
    old: bool = False
    truncated: bool = False
    verified: bool = True
    _id: int = 0
    _db: sqlite3.Connection | None = field(default=None, repr=False, compare=False)
    _findings: list[Row] | None = field(default=None, repr=False, compare=False)
    _counts: dict[str, int] | None = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> int:
        """The result's number in the database."""
        return self._id

    @property
    def has_findings(self) -> bool:
        """Whether anything was found."""
        return bool(self.rejects or self.canonicals or self.notes)

    @property
    def findings(self) -> list[Row]:
        """The first findings, those that refuse the file before all others."""
        if self._findings is None:
            self._findings = self._rows(_FINDINGS)
        return self._findings

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each rule."""
        if self._counts is None:
            self._counts = dict(self._rows(_COUNTS))
        return self._counts

    def _rows(self, query: str) -> list[Any]:
        if self._db is None or not self.has_findings:
            return []
        return self._db.execute(query, (self._id,)).fetchall()

    def loaded(self) -> Self:
        """Return the result when all of it was read, so that it outlives its view."""
        _ = self.findings, self.counts
        self._db = None
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types. In ``path``, bytes that are no UTF-8 are lone surrogates."""
        keys = _ROW.split(", ")
        return {
            "path": self.path,
            "size": self.size,
            "digest": self.digest or None,
            "verdict": self.verdict,
            "format": self.format,
            "version": self.version,
            "old": self.old,
            "verified": self.verified,
            "rejects": self.rejects,
            "canonicals": self.canonicals,
            "notes": self.notes,
            "refused_for": list(self.refused_for),
            "truncated": self.truncated,
            "message": self.message,
            "change": self.change or None,
            "counts": self.counts,
            "findings": [dict(zip(keys, row, strict=True)) for row in self.findings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The counts of a run. ``folders`` are those with the most bad files; ``changes`` since ``baseline``."""

    run: Mapping[str, Any]
    files: int
    size: int
    verdicts: dict[str, int]
    formats: list[tuple[str | None, int | None, int, int]]
    rules: list[tuple[str, int, int]]
    folders: list[tuple[str, int]]
    old: int
    drafts: int
    baseline: str
    changes: dict[str, int]
    known: int

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON types."""
        return {
            "run": dict(self.run),
            "files": self.files,
            "size": self.size,
            "verdicts": self.verdicts,
            "formats": [dict(zip(("format", "version", "files", "size"), row, strict=True)) for row in self.formats],
            "rules": [dict(zip(("rule", "files", "findings"), row, strict=True)) for row in self.rules],
            "folders": [dict(zip(("path", "bad"), row, strict=True)) for row in self.folders],
            "old": self.old,
            "baseline": self.baseline or None,
            "changes": self.changes,
            "known": self.known,
        }


class View:
    """A run of a database, as it is compared with a baseline. A context manager.

    ``run`` is its number, the newest unless given. ``baseline`` is what it is compared with: the number of a run,
    ``last``, or the path of a database or of a report in JSON Lines; then what the baseline has already is left out of
    ``results`` and of ``status``. Without it, the last finished run of the same places is what changes are told of.
    Raises ArgumentError for a run that is not there, OSError for files that cannot be used.
    """

    def __init__(
        self, database: str | os.PathLike[str], run: int | None = None, *, baseline: str | None = None
    ) -> None:
        self.path = path_text(database)
        self._db = open_to_read(self.path)
        try:
            self._db.execute("BEGIN")  # what is read belongs together, even if an audit goes on meanwhile
            self._db.create_function("covers", 2, covers, deterministic=True)
            self.run = run_named(self._db, self.path, run)
            self.restricted = baseline is not None
            self.baseline = load(self._db, self.path, self.run, baseline)
            with failures(self.path):
                self._row = self._described()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _described(self) -> dict[str, Any]:
        names = ("id", "started", "finished", "state", "scope", "options", "examiner", "gone")
        row = self._db.execute(f"SELECT {', '.join(names)} FROM runs WHERE id = ?", (self.run,)).fetchone()  # noqa: S608
        made = dict(zip(names, row, strict=True))
        return made | {"scope": json.loads(made["scope"]), "options": json.loads(made["options"])}

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return bool(self._row["state"] == "finished")

    # ----------------------------------------------------------------------------------------------------- counts

    def summary(self, *, folders: int = 10) -> Summary:
        """Return the counts; at most so many ``folders``."""
        with failures(self.path):
            files, size, old, drafts = self._one(
                f"SELECT count(*), ifnull(sum(r.size), 0), ifnull(sum(r.old), 0), "
                f"ifnull(sum(r.verdict = 'unfinished' AND NOT r.rejects), 0) {_FROM} WHERE s.run = :run"
            )
            verdicts = dict(self._all(f"SELECT r.verdict, count(*) {_FROM} WHERE s.run = :run GROUP BY 1"))
            formats = self._all(
                f"SELECT r.format, r.version, count(*), sum(r.size) {_FROM} "
                "WHERE s.run = :run AND r.format IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
            )
            rules = self._all(
                f"SELECT c.rule, count(*), sum(c.number) {_FROM} JOIN counts c ON c.result = r.id "
                "WHERE s.run = :run GROUP BY 1 ORDER BY 2 DESC, 1"
            )
            top = self._all(
                f"SELECT o.path, count(*) {_FROM} {_NAMED} WHERE s.run = :run AND r.verdict IN ({_BAD_SQL}) "
                f"GROUP BY o.id ORDER BY 2 DESC, 1 LIMIT {int(folders)}"
            )
            return Summary(
                run=self._row,
                files=files,
                size=size,
                verdicts={name: verdicts.get(name, 0) for name in VERDICTS},
                formats=formats,
                rules=rules,
                folders=[(os.fsdecode(path), number) for path, number in top],
                old=old,
                drafts=drafts,
                baseline=self.baseline,
                changes=self.changes() if self.baseline else {},
                known=self._known() if self.restricted else 0,
            )

    def changes(self) -> dict[str, int]:
        """Return how many files have changed in which way; none vanish from a run that did not end."""
        with failures(self.path):
            query = f"SELECT {_CHANGE}, count(*) {_FROM} {_BASE} WHERE s.run = :run GROUP BY 1"
            counted = dict(self._all(query))
        made = {name: counted.get(name, 0) for name in CHANGES}
        made["vanished"] = sum(1 for _ in self.vanished())
        return made

    def vanished(self) -> Iterator[str]:
        """Yield the paths of files that the baseline has and the run has not, though it could look at their places."""
        if not self.finished:
            return
        with failures(self.path):
            closed = {
                join(folder, name)
                for folder, name in self._all(
                    f"SELECT o.path, f.name {_FROM} {_NAMED} "
                    "WHERE s.run = :run AND r.verdict = 'unreadable' AND r.stamp = ''"
                )
            }
            query = """SELECT o.path, f.name FROM base b JOIN files f ON f.id = b.file JOIN folders o ON o.id = f.folder
                LEFT JOIN seen s ON s.run = :run AND s.file = b.file
                WHERE s.result IS NULL AND b.verdict != 'unreadable'
                UNION ALL SELECT folder, name FROM strangers WHERE verdict != 'unreadable' ORDER BY 1, 2"""
            for folder, name in self._db.execute(query, {"run": self.run}):
                path = join(folder, name)
                if not (closed and _within(path, closed)):
                    yield path

    def _known(self) -> int:
        query = f"SELECT count(*) {_FROM} {_BASE} WHERE s.run = :run AND r.verdict IN ({_BAD_SQL}) AND {_IS_KNOWN}"
        number: int = self._one(query)[0]
        return number

    def status(self, *, strict: bool = False) -> int:
        """Return an exit status: 1 if readers refuse any file, else 2 if anything could not be looked at, else 0.

        With ``strict``, what is not canonical and drafts of killed writers count, too. What a baseline has does not.
        """
        with failures(self.path):
            if self._any(_FAILS_STRICTLY if strict else _FAILS):
                return 1
            return 2 if self._any("r.verdict = 'unreadable'") else 0

    def _any(self, condition: str) -> bool:
        joined, known = (_BASE, f"AND NOT {_IS_KNOWN}") if self.restricted else ("", "")
        query = f"SELECT EXISTS (SELECT 1 {_FROM} {joined} WHERE s.run = :run AND {condition} {known})"
        return bool(self._one(query)[0])

    # ---------------------------------------------------------------------------------------------------- results

    def results(self, only: str | None = None, rule: str | None = None) -> Iterator[Result]:
        """Yield results in the order of their paths.

        ``only`` is one of ``SELECTIONS`` or ``CHANGES`` (but ``vanished``: of these there is no result), ``rule`` the
        id of a rule that a file must break. With a baseline, only files that are new or have changed.
        """
        conditions = ["s.run = :run"]
        if only is not None:
            conditions.append(_condition(only))
        if rule is not None:
            if rule not in RULES:
                raise ArgumentError(f"found {rule!r}, which is no rule", "rule")
            conditions.append("EXISTS (SELECT 1 FROM counts c WHERE c.result = r.id AND c.rule = :rule)")
        change = f"{_CHANGE}" if self.baseline else "''"
        if self.restricted:
            conditions.append(f"{_CHANGE} != ''")
        joined = f"{_NAMED} {_BASE}" if self.baseline or only in CHANGES else _NAMED
        query = f"""SELECT {_COLUMNS}, {change} {_FROM} {joined}
            WHERE {" AND ".join(conditions)} ORDER BY o.path, f.name"""
        with failures(self.path):
            for row in self._db.execute(query, {"run": self.run, "rule": rule}):
                yield self._result(row)

    def loaded(self, only: str | None = None, rule: str | None = None) -> Iterator[Result]:
        """Yield what ``results`` does, with findings and counts: faster than to ask each result for its own."""
        found = self.results(only, rule)
        while some := list(itertools.islice(found, _TOGETHER)):
            with failures(self.path):
                self._fetch({result.id: result for result in some if result.has_findings})
            yield from some

    def _fetch(self, results: dict[int, Result]) -> None:
        ids, marks = list(results), ", ".join("?" * len(results))
        for result in results.values():
            result._findings, result._counts = [], {}
        for number, *row in self._db.execute(_FINDINGS_OF.format(marks), ids):
            results[number]._findings.append(tuple(row))  # type: ignore[union-attr]
        for number, rule, count in self._db.execute(_COUNTS_OF.format(marks), ids):
            results[number]._counts[rule] = count  # type: ignore[index]

    def rule_sets(self) -> dict[int, str]:
        """Return the rules that results break, by the results' numbers, with blanks between."""
        with failures(self.path):
            query = (
                "SELECT c.result, group_concat(c.rule, ' ') FROM seen s JOIN counts c ON c.result = s.result "
                "WHERE s.run = :run GROUP BY c.result"
            )
            return dict(self._all(query))

    def _result(self, row: tuple[Any, ...]) -> Result:
        number, folder, name, refused_for, old, truncated, verified, *rest = row
        made = Result(join(folder, name), *rest)
        made._id, made._db = number, self._db
        made.refused_for = tuple(refused_for.split()) if refused_for else ()
        made.old, made.truncated, made.verified = bool(old), bool(truncated), bool(verified)
        return made

    def _one(self, query: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._db.execute(query, {"run": self.run}).fetchone()
        return row

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query, {"run": self.run}).fetchall()


def _condition(only: str) -> str:
    if only in SELECTIONS:
        return SELECTIONS[only]
    if only in CHANGES and only != "vanished":
        return f"{_CHANGE} = '{only}'"
    known = ", ".join([*SELECTIONS, *(name for name in CHANGES if name != "vanished")])
    raise ArgumentError(f"found {only!r}, expected one of {known}", "only")


def _within(path: str, folders: set[str]) -> bool:
    while True:
        above = os.path.dirname(path)
        if path in folders or above in folders:
            return True
        if above == path:
            return False
        path = above


def results(database: str | os.PathLike[str], run: int | None = None) -> Iterator[Result]:
    """Yield the results of a run, the newest unless given, in the order of their paths.

    Raises ArgumentError if there is no such run, OSError if the database cannot be used.
    """
    with View(database, run) as view:
        for result in view.results():
            yield result.loaded()
