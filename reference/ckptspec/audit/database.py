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
from collections.abc import Iterator, Mapping
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
    return os.fsencode(folder or "/"), os.fsencode(name)


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
        self._folder: tuple[bytes, int] | None = None
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
            row = self._db.execute(_KNOWN, (self.run, self._folder_id(folder), name)).fetchone()
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
            self._db.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (self.run, known.file, known.result))
        self._done()

    def _touch(self, examined: Examined) -> None:
        """Say that the newest result of a file holds, though its stamp is another one: its content is the same."""
        file = self._file_id(examined.path)
        latest = self._db.execute("SELECT latest FROM files WHERE id = ?", (file,)).fetchone()[0]
        row = (examined.size, examined.stamp, latest)
        self._db.execute("UPDATE results SET size = ?, stamp = ? WHERE id = ?", row)
        self._db.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (self.run, file, latest))

    def add(self, examined: Examined, options: Options) -> None:
        """Record the result of an examination."""
        with failures(self.path):
            self._begin()
            if examined.gone:
                self._db.execute("UPDATE runs SET gone = gone + 1 WHERE id = ?", (self.run,))
            elif examined.same:
                self._touch(examined)
            else:
                self._insert(examined, options)
        self._done()

    def _insert(self, examined: Examined, options: Options) -> None:
        file = self._file_id(examined.path)
        kinds = dict.fromkeys((REJECT, CANONICAL, NOTE), 0)
        for rule, number in examined.counts.items():
            kinds[RULES[rule].kind] += number
        refused_for = " ".join(sorted(rule for rule in examined.counts if RULES[rule].kind == REJECT))
        row = (
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
        result = self._db.execute(f"INSERT INTO results VALUES (NULL, {_marks(len(row))})", row).lastrowid  # noqa: S608
        findings = [
            (result, number, rule, severity, min(offset, LARGEST), min(length, LARGEST), *texts)
            for number, (rule, severity, offset, length, *texts) in enumerate(examined.findings)
        ]
        if findings:
            self._db.executemany(f"INSERT INTO findings VALUES ({_marks(len(findings[0]))})", findings)  # noqa: S608
        if examined.counts:
            counts = [(result, rule, number) for rule, number in examined.counts.items()]
            self._db.executemany("INSERT INTO counts VALUES (?, ?, ?)", counts)
        self._db.execute("UPDATE files SET latest = ? WHERE id = ?", (result, file))
        self._db.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (self.run, file, result))

    def _folder_id(self, folder: bytes) -> int:
        """Return the id of a folder, or 0; the last one is remembered, since files come folder by folder."""
        if self._folder is None or self._folder[0] != folder:
            row = self._db.execute("SELECT id FROM folders WHERE path = ?", (folder,)).fetchone()
            if row is None:
                return 0
            self._folder = folder, row[0]
        return self._folder[1]

    def _file_id(self, path: str) -> int:
        folder, name = split(path)
        number = self._folder_id(folder)
        if not number:
            number = self._db.execute("INSERT INTO folders (path) VALUES (?)", (folder,)).lastrowid or 0
        row = self._db.execute("SELECT id FROM files WHERE folder = ? AND name = ?", (number, name)).fetchone()
        if row is None:
            return self._db.execute("INSERT INTO files (folder, name) VALUES (?, ?)", (number, name)).lastrowid or 0
        found: int = row[0]
        return found

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def _done(self) -> None:
        self._pending += 1
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


def _marks(number: int) -> str:
    return ", ".join("?" * number)
