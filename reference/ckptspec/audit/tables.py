"""The tables of a database of results: declared once, for SQLite and for the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["APPLICATION", "SCHEMA_VERSION", "TABLES", "Table", "statements"]

APPLICATION: Final = int.from_bytes(b"CkAu")
"""SQLite's application id of such a database."""
SCHEMA_VERSION: Final = 1
"""SQLite's user version of such a database: raised when the tables change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. ``columns`` are name, type and meaning each; ``keys`` are constraints, ``indexes`` columns."""

    name: str
    doc: str
    columns: tuple[tuple[str, str, str], ...]
    keys: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    rowid: bool = True

    @property
    def statement(self) -> str:
        """The statement that makes the table."""
        parts = [f"{name} {kind}" for name, kind, _ in self.columns] + list(self.keys)
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){'' if self.rowid else ' WITHOUT ROWID'}"


TABLES: Final = (
    Table(
        name="runs",
        doc="A row for each audit.",
        columns=(
            ("id", "INTEGER PRIMARY KEY", "the run's number"),
            ("started", "TEXT NOT NULL", "when it began, UTC, such as `2026-01-31T02:00:00Z`"),
            ("finished", "TEXT", "when it ended; NULL: it is under way, or was killed"),
            ("state", "TEXT NOT NULL", "`running`, `finished`, `interrupted` (Ctrl-C, an error) or `killed`"),
            ("scope", "TEXT NOT NULL", "JSON: what was audited; runs of one scope can be compared"),
            ("options", "TEXT NOT NULL", "JSON: how it was audited"),
            ("examiner", "TEXT NOT NULL", "version of ckptspec, and digest of its rules"),
            ("gone", "INTEGER NOT NULL DEFAULT 0", "files that vanished before they could be examined"),
        ),
    ),
    Table(
        name="folders",
        doc="A row for each folder with files.",
        columns=(
            ("id", "INTEGER PRIMARY KEY", ""),
            ("path", "BLOB NOT NULL UNIQUE", "its absolute path: bytes, since a path need not be UTF-8"),
        ),
    ),
    Table(
        name="files",
        doc="A row for each file, and each place that could not be read.",
        columns=(
            ("id", "INTEGER PRIMARY KEY", ""),
            ("folder", "INTEGER NOT NULL", "`folders.id`"),
            ("name", "BLOB NOT NULL", "its name in the folder: bytes"),
            ("latest", "INTEGER", "`results.id` of the newest result"),
        ),
        keys=("UNIQUE (folder, name)",),
    ),
    Table(
        name="results",
        doc="A row for each examination. A file that has not changed is not examined again and gets no new row.",
        columns=(
            ("id", "INTEGER PRIMARY KEY", ""),
            ("file", "INTEGER NOT NULL", "`files.id`"),
            ("run", "INTEGER NOT NULL", "`runs.id` of the run that made it"),
            ("size", "INTEGER NOT NULL", "of the file, in bytes"),
            ("stamp", "TEXT NOT NULL", "modification time, change time (nanoseconds) and inode number"),
            ("digest", "TEXT NOT NULL", "BLAKE3 of the file, in hex; `''` without `--digest`"),
            ("named", "INTEGER NOT NULL", "1 if the file itself was named, not a folder above it"),
            ("wanted", "TEXT NOT NULL", "the format that `--format` asked for, or `''`"),
            ("verified", "INTEGER NOT NULL", "0 with `--structure-only`"),
            ("examiner", "TEXT NOT NULL", "as in `runs`"),
            ("verdict", "TEXT NOT NULL", "see [verdicts](#verdicts)"),
            ("format", "TEXT", "`oam`, `ocannl` or `safetensors`"),
            ("version", "INTEGER", "of the format, where it has versions"),
            ("old", "INTEGER NOT NULL", "1 if a writer would write a newer version"),
            ("rejects", "INTEGER NOT NULL", "findings for which readers refuse the file"),
            ("canonicals", "INTEGER NOT NULL", "findings for which it is not canonical"),
            ("notes", "INTEGER NOT NULL", "findings that are only worth a note"),
            (
                "refused_for",
                "TEXT NOT NULL",
                "the rules for which readers refuse the file, sorted, separated by blanks",
            ),
            ("truncated", "INTEGER NOT NULL", "1 if there were more findings than are counted"),
            ("message", "TEXT NOT NULL", "what is wrong, where no finding says so"),
        ),
        indexes=("file",),
    ),
    Table(
        name="findings",
        doc="The first findings of each result, beginning with those for which readers refuse the file.",
        columns=(
            ("result", "INTEGER NOT NULL", "`results.id`"),
            ("number", "INTEGER NOT NULL", "from 0 on"),
            ("rule", "TEXT NOT NULL", "its id"),
            ("severity", "TEXT NOT NULL", "`reject`, `canonical` or `note`"),
            ("offset", "INTEGER NOT NULL", "in the file, in bytes"),
            ("length", "INTEGER NOT NULL", "in bytes"),
            ("path", "TEXT NOT NULL", "the field"),
            ("found", "TEXT NOT NULL", "escaped, and shortened if it is long; so are the next two"),
            ("expected", "TEXT NOT NULL", ""),
            ("hint", "TEXT NOT NULL", ""),
        ),
        keys=("PRIMARY KEY (result, number)",),
        rowid=False,
    ),
    Table(
        name="counts",
        doc="How many findings of each rule a result has.",
        columns=(
            ("result", "INTEGER NOT NULL", "`results.id`"),
            ("rule", "TEXT NOT NULL", "its id"),
            ("number", "INTEGER NOT NULL", ""),
        ),
        keys=("PRIMARY KEY (result, rule)",),
        indexes=("rule",),
        rowid=False,
    ),
    Table(
        name="seen",
        doc="Which files a run has met, and the result that is valid for each.",
        columns=(
            ("run", "INTEGER NOT NULL", "`runs.id`"),
            ("file", "INTEGER NOT NULL", "`files.id`"),
            ("result", "INTEGER NOT NULL", "`results.id`, of this run or of an earlier one"),
        ),
        keys=("PRIMARY KEY (run, file)",),
        rowid=False,
    ),
)


def statements() -> list[str]:
    """Return the statements that make the tables."""
    made = []
    for table in TABLES:
        made.append(table.statement)
        made += [f"CREATE INDEX {table.name}_{column} ON {table.name} ({column})" for column in table.indexes]
    return made
