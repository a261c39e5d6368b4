"""What a run is compared with: another run of its database, another database, or a report in JSON Lines.

Whatever it is, it becomes two temporary tables of the connection: ``base`` has verdict and reasons of the files that
the database knows, by their numbers, ``strangers`` those that it does not.
"""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from ..errors import ArgumentError
from ..text import printable, show
from .database import failures, open_to_read, split

__all__ = ["comparable", "covers", "load", "run_named"]

_SQLITE: Final = b"SQLite format 3\0"
_TABLES: Final = """
DROP TABLE IF EXISTS base;
DROP TABLE IF EXISTS strangers;
CREATE TEMP TABLE base (file INTEGER PRIMARY KEY, verdict TEXT NOT NULL, refused_for TEXT NOT NULL);
CREATE TEMP TABLE strangers (folder BLOB NOT NULL, name BLOB NOT NULL, verdict TEXT NOT NULL);
"""
_OWN: Final = """
INSERT INTO base SELECT s.file, r.verdict, r.refused_for FROM seen s JOIN results r ON r.id = s.result WHERE s.run = ?
"""
_OF_RUN: Final = """
SELECT o.path, f.name, r.verdict, r.refused_for
FROM seen s JOIN results r ON r.id = s.result JOIN files f ON f.id = s.file JOIN folders o ON o.id = f.folder
WHERE s.run = ?
"""
_FILE: Final = "SELECT f.id FROM folders o JOIN files f ON f.folder = o.id WHERE o.path = ? AND f.name = ?"

Row = tuple[bytes, bytes, str, str]


def run_named(db: sqlite3.Connection, path: str, wanted: int | None) -> int:
    """Return the number of a run that is there, the newest unless ``wanted``; ArgumentError if it is not."""
    with failures(path):
        row = db.execute("SELECT max(id) FROM runs").fetchone() if wanted is None else None
        row = row or db.execute("SELECT id FROM runs WHERE id = ?", (wanted,)).fetchone()
    if row is None or row[0] is None:
        what = "there is no run in it" if wanted is None else f"there is no run {wanted} in it"
        raise ArgumentError(what, printable(path))
    number: int = row[0]
    return number


def comparable(db: sqlite3.Connection, run: int) -> int | None:
    """Return the last finished run of the same scope before a run, or None."""
    row = db.execute(
        "SELECT max(o.id) FROM runs o JOIN runs r ON r.scope = o.scope "
        "WHERE r.id = ? AND o.id < r.id AND o.state = 'finished'",
        (run,),
    ).fetchone()
    found: int | None = row[0]
    return found


def load(db: sqlite3.Connection, path: str, run: int, what: str | None) -> str:
    """Fill the tables, and return what it is made of, for people; ``""`` if it is empty for want of a run.

    ``what`` is the number of a run, ``last`` (the same as None: the last finished run of the same scope), or the path
    of a database or report. Raises ArgumentError and OSError.
    """
    with failures(path):
        for statement in filter(None, map(str.strip, _TABLES.split(";"))):
            db.execute(statement)
    if what is None or what == "last":
        number = comparable(db, run)
        if number is None and what is not None:
            raise ArgumentError("there is no earlier finished run of the same places", "baseline")
        if number is None:
            return ""
        _take_run(db, path, number)
        return f"run {number}"
    if what.isascii() and what.isdigit():
        _take_run(db, path, run_named(db, path, int(what)))
        return f"run {int(what)}"
    with open(what, "rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    if not is_database:
        _fill(db, path, _lines_of(what))
        return printable(what)
    other = open_to_read(what)
    try:
        number = run_named(other, what, None)
        _fill(db, path, _rows_of(other, what, number))
    finally:
        other.close()
    return f"run {number} of {printable(what)}"


def _take_run(db: sqlite3.Connection, path: str, run: int) -> None:
    with failures(path):
        db.execute(_OWN, (run,))


def _fill(db: sqlite3.Connection, path: str, rows: Iterator[Row]) -> None:
    with failures(path):
        for folder, name, verdict, refused_for in rows:
            file = db.execute(_FILE, (folder, name)).fetchone()
            if file is None:
                db.execute("INSERT INTO strangers VALUES (?, ?, ?)", (folder, name, verdict))
            else:
                db.execute("INSERT OR REPLACE INTO base VALUES (?, ?, ?)", (*file, verdict, refused_for))


def _rows_of(db: sqlite3.Connection, path: str, run: int) -> Iterator[Row]:
    with failures(path):
        yield from db.execute(_OF_RUN, (run,))


def _lines_of(path: str) -> Iterator[Row]:
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value: Any = json.loads(line)
                folder, name = split(value["path"])
                yield folder, name, str(value["verdict"]), " ".join(sorted(map(str, value["refused_for"])))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                text = f"Line {number} is no line of a report in JSON Lines: {show(line)}"
                raise OSError(errno.EINVAL, text, path) from None


def covers(now: str, before: str) -> bool:
    """Say whether all rules that a file is refused for now are among those of before."""
    return set(now.split()) <= set(before.split())
