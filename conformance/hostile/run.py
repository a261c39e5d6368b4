"""Gives hostile files and words to commands, in this process, and judges what comes of it."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import mock

from ... import decode, digest, load, validate
from ...cli import build_parser, main
from ...contents import contents_of
from ...errors import CheckpointError
from ...neutral import dump_json
from ...source import FileSource
from ..catalogue import VECTORS
from .commands import COMMANDS, Command, Words
from .files import Hostile
from .judge import Page, check_html, check_json, check_output, check_text

__all__ = [
    "GOOD",
    "REPORTS",
    "Place",
    "Told",
    "call",
    "good_results",
    "judge",
    "judge_reports",
    "judge_words",
    "library",
    "prepare",
]

GOOD: Final = {
    "oam": VECTORS / "oam/golden_weights.oam",
    "ocannl": VECTORS / "ocannl/golden_alignment_16.ckpt",
    "safetensors": VECTORS / "safetensors/golden_dtype_f32.safetensors",
}
"""A small good file of each format."""

REPORTS: Final = {"text": "text", "jsonl": "lines", "csv": "csv", "html": "html"}
"""The formats of the reports on an audit, and what is looked for in each."""


@dataclass(slots=True)
class Told:
    """What a command did: exit status, output, seconds of the processor, and the most memory that it took, in bytes."""

    status: int | None = None
    out: str = ""
    err: str = ""
    trouble: str = ""
    seconds: float = 0.0
    memory: int = 0
    warnings: list[str] = field(default_factory=list)


class _Stream(io.TextIOWrapper):
    """A stream as the command line finds it: UTF-8, with bytes underneath."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", "strict", newline="\n", write_through=True)

    def text(self) -> str:
        raw: Any = self.buffer
        return str(raw.getvalue().decode("utf-8", "surrogateescape"))


class _Input:
    """Standard input."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def fileno(self) -> int:
        return sys.__stdin__.fileno() if sys.__stdin__ else 0


_parser = cache(build_parser)  # which takes longer to make than a small file to read


class _TooLong(BaseException):
    """The command takes too much of the processor's time."""


def _stop(_number: int, _frame: object) -> None:
    raise _TooLong


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise _TooLong after so many seconds of the processor."""
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def call(words: list[str], stdin: bytes = b"", *, trace: bool = False, seconds: float = 60) -> Told:
    """Run the command line in this process, for so many seconds of the processor; nothing that it raises leaves.

    ``trace`` measures the memory that it takes.
    """
    told, out, err = Told(), _Stream(), _Stream()
    before = sys.stdout, sys.stderr, sys.stdin
    sys.stdout, sys.stderr, sys.stdin = out, err, _Input(stdin)
    started = time.process_time()
    if trace:
        tracemalloc.start()
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            _at_most(seconds),
            mock.patch("ckptspec.cli.build_parser", _parser),
        ):
            warnings.simplefilter("always")
            told.status = main(words)
    except SystemExit as left:  # argparse
        told.status = left.code if isinstance(left.code, int) else 1
    except BaseException:
        told.trouble = traceback.format_exc()
    finally:
        sys.stdout, sys.stderr, sys.stdin = before
        if trace:
            told.memory = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    told.seconds = time.process_time() - started
    told.warnings = [str(item.message) for item in caught]
    told.out, told.err = out.text(), err.text()
    return told


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a hostile ``file`` in it, a folder of its own; commands may write below ``out`` and nowhere else.

    ``parts`` are the texts that stand in commands for their places.
    """

    root: Path
    hostile: Hostile
    file: bytes
    parts: dict[str, str]

    def words(self, command: Command) -> list[str]:
        """Return a command with its places filled."""
        return [self._filled(word) for word in command.words]

    def stdin(self, command: Command) -> bytes:
        """Return what a command gets on standard input."""
        return os.fsencode(self._filled(command.stdin))

    def _filled(self, word: str) -> str:
        for part, text in self.parts.items():
            if part in word:
                return word.replace(part, text)
        return word

    def state(self) -> dict[bytes, tuple[int, int, int]]:
        """Return what there is in the folder and beside it, but for ``out``."""
        made = {}
        for folder, folders, files in os.walk(os.fsencode(self.root)):
            if folder == os.fsencode(self.root / "out"):
                folders.clear()
                continue
            for name in files:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                made[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
        return made


def prepare(root: Path, hostile: Hostile, count: int, name: bytes = b"in") -> Place:
    """Write a hostile file under a name in the folder ``root/a/b``, and what commands need beside it."""
    inner = root / "a" / "b"
    for folder in (inner, root / "out", root / "beside"):
        folder.mkdir(parents=True, exist_ok=True)
    path = os.path.join(os.fsencode(inner), name)
    with open(path, "wb") as file:
        file.write(hostile.make(count))
        if hostile.hole:
            file.truncate(hostile.hole)
    text = os.fsdecode(path)
    parts = {"{file}": text, "{good}": str(GOOD[hostile.format]), "{out}": str(root / "out" / "made")}
    if hostile.accepted:
        with FileSource(text) as source:
            manifest = dump_json(digest.manifest_of(digest.digest(contents_of(source))))
        (root / "beside" / "manifest.json").write_text(manifest)
        (root / "beside" / "document.json").write_text(dump_json(decode(text)))
        parts |= {"{manifest}": str(root / "beside/manifest.json"), "{document}": str(root / "beside/document.json")}
    return Place(root, hostile, path, parts)


def judge(place: Place, command: Command, told: Told, plain: Page) -> Iterator[str]:
    """Yield what is wrong with what a command did; removes what it was allowed to write."""
    yield from _judge(command.statuses(place.hostile), command.output if told.status != 2 else "text", told, plain)
    for path in sorted((place.root / "out").iterdir()):
        if path.suffix == ".html":
            wrong = check_html(path.read_text("utf-8"), plain)
        elif path.suffix == ".json":
            wrong = check_json(path.read_text("utf-8"))
        elif path.suffix == ".sqlite":
            yield from judge_reports(path)
            wrong = ""
        elif path.suffix.startswith(".sqlite"):  # what belongs to a database
            wrong = ""
        else:
            report = validate(path)
            wrong = "" if report.ok else f"what was written is refused: {report.first}"
        if wrong:
            yield f"{path.name}: {wrong}"
        path.unlink()


def judge_reports(database: Path) -> Iterator[str]:
    """Yield what is wrong with the reports on an audit."""
    for words, kind in (
        *((["--format", name], kind) for name, kind in REPORTS.items()),
        (["--json"], "json"),
    ):
        told = call(["audit", "report", "--db", str(database), *words])
        for wrong in _judge((0, 1, 2), kind, told, _page_of_results()):
            yield f"the report {' '.join(words)}: {wrong}"


@cache
def _page_of_results() -> Page:
    """Return what the page of results is made of that says nothing hostile."""
    return Page(call(["audit", "report", "--db", str(good_results()), "--format", "html"]).out)


@cache
def good_results() -> Path:
    """Return the database of an audit of good files."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    database = Path(folder.name, "results.sqlite")
    call(["audit", "--db", str(database), *map(str, GOOD.values())])
    return database


def _judge(statuses: tuple[int, ...], kind: str, told: Told, plain: Page) -> Iterator[str]:
    if told.trouble:
        yield told.trouble
        return
    if told.status not in statuses:
        yield f"exit status {told.status}, expected {' or '.join(map(str, statuses))}: {told.err[:500]}{told.out[:300]}"
    wrong = check_output(kind, told.out, plain) if told.out else ""
    if wrong:
        yield f"standard output: {wrong}"
    wrong = check_text(told.err)
    if wrong:
        yield f"standard error: {wrong}"
    if "Traceback" in told.err:
        yield told.err
    yield from (f"a warning: {text}" for text in told.warnings)


def judge_words(words: Words, told: Told, plain: Page) -> list[str]:
    """Return what is wrong with what a command did that was given a hostile word."""
    return list(_judge(words.statuses, words.output if told.status == 0 else "text", told, plain))


def library(file: str) -> Iterator[str]:
    """Yield what is wrong with the texts that the library makes of a file: errors, representations, reports."""
    report = validate(file)
    texts, python = [str(report), *map(str, report)], [repr(report.first), *map(repr, report.survivors)]
    try:
        model = load(file)
    except CheckpointError as error:
        texts.append(str(error))
        python.append(repr(error))
    else:
        python += [repr(model), *_representations(model)]
    for text in texts:
        wrong = check_text(text + "\n")
        if wrong:
            yield wrong
    yield from (
        f"a representation that Python would escape: {text[:300]!a}"
        for text in python
        if not text.replace("\n", "").isprintable()
    )


def _representations(model: Any) -> Iterator[str]:
    for name in ("config", "weights", "state", "optimizer", "progress", "tensors", "metadata", "training", "registry"):
        value = getattr(model, name, None)
        if value is not None:
            yield repr(value)


assert len({command.name for command in COMMANDS}) == len(COMMANDS)
