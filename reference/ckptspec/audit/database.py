"""The database of results: one SQLite file that may be read while it is written, and survives whatever ends a writer.

Results are committed at least every second. Only one audit at a time writes: it holds an advisory lock on a file beside
the database, so that another one is told at once, and not by a time-out in the middle of its work.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from .. import __version__
from ..source import path_text
from ..spec.rules import CANONICAL, NOTE, REJECT, RULES
from .check import Examined, Options
from .tables import APPLICATION, SCHEMA_VERSION, TABLES, statements
from .verdicts import catalogue_digest

try:
    import fcntl
except ImportError:  # a system without advisory locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["LARGEST", "Known", "Store", "check_regular", "failures", "join", "open_to_read", "split"]

_BUSY: Final = 10.0  # seconds to wait for a program that is not an audit
_COMMIT_SECONDS: Final = 0.5
_COMMIT_ROWS: Final = 2000
LARGEST: Final = (1 << 63) - 1  # an integer in SQLite
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal", "-lock")  # files that belong to a database


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The newest result of a file, as far as is needed to tell whether it holds. ``seen``: in this run already."""

    file: int
    result: int
    size: int
    stamp: str
    digest: str
    named: bool
    wanted: str
    verified: bool
    examiner: str
    verdict: str
    seen: bool


@contextlib.contextmanager
def failures(path: str) -> Iterator[None]:
    """Turn what SQLite says into an OSError with one plain sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if busy:
            raise OSError(errno.EBUSY, "Another program keeps the database locked", path) from None
        raise OSError(errno.EIO, f"The database cannot be used: {error}", path) from None
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise OSError(errno.EINVAL, "Not a database", path) from None
        raise OSError(errno.EIO, f"The database is damaged: {error}", path) from None


def split(path: str) -> tuple[bytes, bytes]:
    """Return a path as it is stored: folder and name. A URL is a path, too; what ends with a slash has no name."""
    folder, _, name = path.rpartition("/")
    return _encoded(folder or "/"), os.fsencode(name)


_encoded: Final = lru_cache(64)(os.fsencode)  # files come folder by folder


def join(folder: bytes, name: bytes) -> str:
    """Return the path of which ``split`` gave folder and name."""
    return _start(folder) + os.fsdecode(name)


@lru_cache(64)  # files come folder by folder
def _start(folder: bytes) -> str:
    text = os.fsdecode(folder)
    return text if text == "/" else f"{text}/"


def _check_identity(connection: sqlite3.Connection, path: str) -> bool:
    """Say whether there are tables; OSError if they are none of ours, or of a newer version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION:
        if version > SCHEMA_VERSION:
            text = f"The database has version {version} of its tables; this ckptspec knows version {SCHEMA_VERSION}"
            raise OSError(errno.EINVAL, text, path)
        _check_tables(connection, path)
        return True
    if application or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise OSError(errno.EINVAL, "Not a database of audit results", path)
    return False


def _check_tables(connection: sqlite3.Connection, path: str) -> None:
    """Raise OSError unless the tables are there as they were made: a view of that name could be anything."""
    for table in TABLES:
        row = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
        if row != ("table", table.statement):
            what = "is missing" if row is None else "is not as it was made"
            raise OSError(errno.EINVAL, f"The database is damaged: its table {table.name} {what}", path)


def check_regular(path: str) -> None:
    """Raise OSError unless a path leads to a regular file: to read a pipe could take for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _uri(path: str, mode: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def open_to_read(path: str) -> sqlite3.Connection:
    """Open a database that is there, to read it; OSError if it is no database of results."""
    path = path_text(path)
    check_regular(path)  # what this says is clearer than what SQLite does
    with failures(path):
        connection = sqlite3.connect(_uri(path, "ro"), uri=True, timeout=_BUSY, isolation_level=None)
        try:
            if not _check_identity(connection, path):
                raise OSError(errno.EINVAL, "Not a database of audit results", path)
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
    return connection


class Store:
    """A database that an audit writes to. A context manager; it is made if it is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_text(path)
        with contextlib.suppress(FileNotFoundError):
            check_regular(self.path)
        self._lock = _Lock(self.path)
        try:
            with failures(self.path):
                self._open()
        except BaseException:
            self._lock.release()
            raise
        self.run = 0
        self.examiner = f"{__version__} {catalogue_digest()}"
        self._folder: tuple[bytes, int] | None = None  # the last one, since files come folder by folder
        self._results = 0  # the highest number of one
        self._pending = 0
        self._committed = time.monotonic()

    def _open(self) -> None:
        self._db = sqlite3.connect(_uri(self.path, "rwc"), uri=True, timeout=_BUSY, isolation_level=None)
        try:
            there = _check_identity(self._db, self.path)  # before anything is written, if only that it is in use
            if there:
                for table in TABLES:  # what is cut off is noticed now
                    self._db.execute(f"SELECT * FROM {table.name} LIMIT 1").fetchone()  # noqa: S608
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")  # nothing is lost but by a power failure, and then seconds
            if not there:
                self._db.execute("BEGIN IMMEDIATE")
                for statement in statements():
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                self._db.execute("COMMIT")
        except BaseException:
            self._db.close()
            raise

    def files(self) -> list[str]:
        """Return the paths of the files that belong to the database."""
        return [self.path + suffix for suffix in _SUFFIXES]

    def close(self) -> None:
        """Write what is left, and let go of the database."""
        try:
            with failures(self.path):
                if self._db.in_transaction:
                    self._db.execute("COMMIT")
                with contextlib.suppress(
                    sqlite3.OperationalError
                ):  # unless somebody reads: one file that can be copied
                    self._db.execute("PRAGMA busy_timeout = 0")
                    self._db.execute("PRAGMA journal_mode = DELETE")
                self._db.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------------------- runs

    def begin(self, scope: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Begin a run; what an earlier one left open was killed."""
        with failures(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE runs SET state = 'killed' WHERE state = 'running'")
            row = (now(), "running", _json(scope), _json(options), self.examiner)
            added = self._db.execute(
                "INSERT INTO runs (started, state, scope, options, examiner) VALUES (?, ?, ?, ?, ?)", row
            )
            assert added.lastrowid is not None
            self.run = added.lastrowid
            self._results = self._db.execute("SELECT ifnull(max(id), 0) FROM results").fetchone()[0]
            self._db.execute("COMMIT")

    def end(self, state: str) -> None:
        """End the run, as ``finished`` or ``interrupted``."""
        with failures(self.path):
            self._begin()
            self._db.execute("UPDATE runs SET state = ?, finished = ? WHERE id = ?", (state, now(), self.run))
            self._db.execute("COMMIT")
            with contextlib.suppress(sqlite3.OperationalError):  # figures for the planner of queries
                self._db.execute("PRAGMA analysis_limit = 400")
                self._db.execute("PRAGMA optimize")

    # ----------------------------------------------------------------------------------------------------- results

    def known(self, path: str) -> Known | None:
        """Return the newest result of a file, or None."""
        folder, name = split(path)
        with failures(self.path):
            number = self._folder_id(folder)
            row = self._db.execute(_KNOWN, (self.run, number, name)).fetchone() if number else None
        if row is None:
            return None
        file, result, size, stamp, digest, named, wanted, verified, examiner, verdict, seen = row
        return Known(
            file=file,
            result=result,
            size=size,
            stamp=stamp,
            digest=digest,
            named=bool(named),
            wanted=wanted,
            verified=bool(verified),
            examiner=examiner,
            verdict=verdict,
            seen=seen is not None,
        )

    def keep(self, known: Known) -> None:
        """Say that the newest result of a file holds in this run, too."""
        with failures(self.path):
            self._begin()
            self._db.execute(_SEEN, (self.run, known.file, known.result))
        self._done()

    def _touched(self, examined: Examined) -> tuple[int, int]:
        """Give the newest result of a file another stamp, since its content is the same; return the ids of both."""
        file, latest = self._file(examined.path)
        row = (examined.size, examined.stamp, latest)
        self._db.execute("UPDATE results SET size = ?, stamp = ? WHERE id = ?", row)
        return file, latest

    def add(self, found: Sequence[Examined], options: Options) -> None:
        """Record the results of examinations."""
        with failures(self.path):
            self._begin()
            results: list[tuple[Any, ...]] = []
            findings: list[tuple[Any, ...]] = []
            counts: list[tuple[int, str, int]] = []
            seen: list[tuple[int, int, int]] = []
            for examined in found:
                if examined.gone:
                    self._db.execute("UPDATE runs SET gone = gone + 1 WHERE id = ?", (self.run,))
                elif examined.same:
                    seen.append((self.run, *self._touched(examined)))
                else:
                    self._results = number = self._results + 1
                    file = self._renewed(examined.path, number)
                    results.append((number, *self._row(file, examined, options)))
                    findings += _finding_rows(number, examined)
                    counts += [(number, rule, times) for rule, times in examined.counts.items()]
                    seen.append((self.run, file, number))
            for table, rows in (("results", results), ("findings", findings), ("counts", counts)):
                if rows:
                    self._db.executemany(f"INSERT INTO {table} VALUES ({_marks(len(rows[0]))})", rows)  # noqa: S608
            self._db.executemany(_SEEN, seen)
        self._done(len(found))

    def _row(self, file: int, examined: Examined, options: Options) -> tuple[Any, ...]:
        """Return what the table of results has of an examination, but for its number."""
        kinds = dict.fromkeys((REJECT, CANONICAL, NOTE), 0)
        for rule, number in examined.counts.items():
            kinds[RULES[rule].kind] += number
        refused_for = " ".join(sorted(rule for rule in examined.counts if RULES[rule].kind == REJECT))
        return (
            file,
            self.run,
            min(examined.size, LARGEST),
            examined.stamp,
            examined.digest,
            examined.named,
            options.format or "",
            options.payloads,
            self.examiner,
            examined.verdict,
            examined.format,
            None if examined.version is None else min(examined.version, LARGEST),
            examined.old,
            *kinds.values(),
            refused_for,
            examined.truncated,
            examined.message,
        )

    def _folder_id(self, folder: bytes) -> int:
        """Return the id of a folder, or 0."""
        if self._folder is None or self._folder[0] != folder:
            row = self._db.execute("SELECT id FROM folders WHERE path = ?", (folder,)).fetchone()
            self._folder = folder, 0 if row is None else row[0]
        return self._folder[1]

    def _file(self, path: str) -> tuple[int, int]:
        """Return the id of a file that is known, and that of its newest result."""
        folder, name = split(path)
        query = "SELECT id, latest FROM files WHERE folder = ? AND name = ?"
        file, latest = self._db.execute(query, (self._folder_id(folder), name)).fetchone()
        return file, latest

    def _renewed(self, path: str, result: int) -> int:
        """Return the id of a file, whose newest result is now ``result``."""
        folder, name = split(path)
        number = self._folder_id(folder)
        if not number:
            number = self._db.execute("INSERT INTO folders (path) VALUES (?)", (folder,)).lastrowid or 0
            self._folder = folder, number
        row = (number, name, result)
        added = self._db.execute("INSERT OR IGNORE INTO files (folder, name, latest) VALUES (?, ?, ?)", row)
        if added.rowcount:
            return added.lastrowid or 0
        file, _ = self._file(path)
        self._db.execute("UPDATE files SET latest = ? WHERE id = ?", (result, file))
        return file

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def _done(self, number: int = 1) -> None:
        self._pending += number
        if self._pending >= _COMMIT_ROWS:
            self.commit()
        else:
            self.settle()

    def settle(self) -> None:
        """Commit what has waited long enough."""
        if self._pending and time.monotonic() - self._committed >= _COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit what there is."""
        with failures(self.path):
            if self._db.in_transaction:
                self._db.execute("COMMIT")
        self._pending = 0
        self._committed = time.monotonic()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for reports at the end of a run."""
        return self._db


_SEEN: Final = "INSERT OR REPLACE INTO seen VALUES (?, ?, ?)"
_KNOWN: Final = """
SELECT f.id, r.id, r.size, r.stamp, r.digest, r.named, r.wanted, r.verified, r.examiner, r.verdict, s.result
FROM files f JOIN results r ON r.id = f.latest LEFT JOIN seen s ON s.run = ? AND s.file = f.id
WHERE f.folder = ? AND f.name = ?
"""


class _Lock:
    """An advisory lock beside a database: one audit at a time. What a killed one leaves behind is in nobody's way."""

    def __init__(self, database: str) -> None:
        self._path = os.path.realpath(database) + "-lock"  # whatever links lead to it
        self._fd = -1
        while fcntl is not None:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                raise OSError(errno.EBUSY, "Another audit writes to this database", database) from None
            except BaseException:
                os.close(fd)
                raise
            if os.fstat(fd).st_nlink:  # else the last audit has just removed it
                self._fd = fd
                return
            os.close(fd)

    def release(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
            os.close(self._fd)
            self._fd = -1


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def _finding_rows(result: int, examined: Examined) -> list[tuple[Any, ...]]:
    return [
        (result, number, rule, severity, min(offset, LARGEST), min(length, LARGEST), *texts)
        for number, (rule, severity, offset, length, *texts) in enumerate(examined.findings)
    ]


def _marks(number: int) -> str:
    return ", ".join("?" * number)
