"""What a run is compared with: another run of its database, another database, or a report in JSON Lines.

Whatever it is, it becomes two temporary tables of the connection: ``base`` has verdict and reasons of the files that
the database knows, by their numbers, ``strangers`` those that it does not.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from ..errors import ArgumentError
from ..text import printable, shorten, show
from .database import LARGEST, check_regular, failures, open_to_read, split
from .verdicts import VERDICTS

__all__ = ["BEGINNING", "check", "comparable", "covers", "load", "run_named"]

BEGINNING: Final = "the beginning: there is no earlier finished run of these places"
"""What is compared with, for people, where ``last`` names nothing: everything is new."""

_RULE: Final = re.compile("[A-Z0-9-]+")
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
        if wanted is None:
            row = db.execute("SELECT max(id) FROM runs").fetchone()
        else:
            row = db.execute("SELECT id FROM runs WHERE id = ?", (min(wanted, LARGEST),)).fetchone()
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

    ``what`` is the number of a run, ``last`` (the last finished run of the same scope; ``BEGINNING`` if there is none),
    or the path of a database or report. None is ``last`` if there is such a run. Raises ArgumentError and OSError.
    """
    with failures(path):
        for statement in filter(None, map(str.strip, _TABLES.split(";"))):
            db.execute(statement)
    if what is None or what == "last":
        number = comparable(db, run)
        if number is None:
            return "" if what is None else BEGINNING
        _take_run(db, path, number)
        return f"run {number}"
    if _is_number(what):
        number = run_named(db, path, _number(what))
        _take_run(db, path, number)
        return f"run {number}"
    if not _is_database(what, path):
        _fill(db, path, _lines_of(what))
        return printable(what)
    other = open_to_read(what)
    try:
        number = run_named(other, what, None)
        _fill(db, path, _rows_of(other, what, number))
    finally:
        other.close()
    return f"run {number} of {printable(what)}"


def check(path: str, what: str) -> None:
    """Raise ArgumentError or OSError if ``what`` cannot be a baseline of the next run that ``path``, a database, gets.

    This is asked before an audit, which may take hours.
    """
    if what == "last":
        return
    if not _is_number(what):
        if _is_database(what, path):
            with contextlib.closing(open_to_read(what)) as other:
                run_named(other, what, None)
        else:
            for _ in _lines_of(what):
                pass
    elif not os.path.lexists(path):
        raise ArgumentError(f"there is no run {shorten(what)}: the database is still to be made", printable(path))
    else:
        with contextlib.closing(open_to_read(path)) as db:
            run_named(db, path, _number(what))


def _is_number(what: str) -> bool:
    return what.isascii() and what.isdigit()


def _number(what: str) -> int:
    """Return the number that a text says, if SQLite can hold it; otherwise that of no run."""
    return int(what) if len(what) < len(str(LARGEST)) else LARGEST


def _is_database(what: str, own: str) -> bool:
    """Say whether a file is a database, and not a report; OSError if it is no regular file.

    Raises ArgumentError for ``own``, the database that is to be compared: its newest run is the one that is judged.
    """
    check_regular(what)
    if os.path.exists(own) and os.path.samefile(what, own):
        text = "the database itself is no baseline; its runs are: last, or the number of one"
        raise ArgumentError(text, printable(what))
    with open(what, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


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
                verdict, rules = value["verdict"], value["refused_for"]
                if verdict not in VERDICTS or not isinstance(rules, list) or not all(map(_RULE.fullmatch, rules)):
                    raise ValueError
                yield folder, name, verdict, " ".join(sorted(rules))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                text = f"Line {number} is no line of a report in JSON Lines: {show(line)}"
                raise OSError(errno.EINVAL, text, path) from None


def covers(now: str, before: str) -> bool:
    """Say whether all rules that a file is refused for now are among those of before."""
    return set(now.split()) <= set(before.split())
