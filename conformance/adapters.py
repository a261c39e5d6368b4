"""Adapters: how the runner talks to an implementation.

An implementation is a command that is run once for each case, a *batch* command that answers for many cases, or a
Python callable. Whatever it is, a worker turns what it does with one case into one ``Answer``.

What the end of a command means:

- exit status 0: accepted. A decoder must have printed one JSON object, or the answer is garbage;
- exit status 1: rejected. But a runtime that dies of an uncaught exception may exit with 1 too (Python, Java and
  Node.js do), and that is no rejection. So exit status 1 with such a runtime's last words on standard error, and
  without an error object on standard output, is a crash;
- any other exit status, a signal: a crash. No end in time, output without end: outcomes of their own.

Every command runs in a session of its own and is killed as a group: nothing that it started outlives its answer, and
nothing at all outlives the run. Standard output and error are read as they come, up to a limit, so that neither a full
pipe nor a runaway command can do harm. Standard input is the golden file itself, not a pipe that somebody has to feed.
This needs a POSIX system.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from ..errors import ArgumentError, FormatError
from ..neutral import dump_json, parse_json
from ..text import count, printable, shorten
from .outcome_report import CRASH, FLOOD, GARBAGE, TIMEOUT
from .processes import ANSWERED, ENDED, STDERR_LIMIT, AdapterError, Child, Processes

__all__ = [
    "Adapter",
    "AdapterError",
    "Answer",
    "BatchDecoder",
    "CallableDecoder",
    "CallableEncoder",
    "CommandDecoder",
    "CommandEncoder",
    "Processes",
    "Task",
    "Worker",
]

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"

_PLACE: Final = "{}"  # where a command wants the path
_SHOWN: Final = 240  # characters of a command's output that are kept for people
_FAREWELL: Final = 5.0  # seconds that a batch command has to end after its last answer

# How runtimes announce what killed the program before they exit with status 1.
_LAST_WORDS: Final = {
    "Python": re.compile(rb"^[ +|]*(?:Exception Group )?Traceback \(most recent call last\):", re.MULTILINE),
    "Java": re.compile(rb'^Exception in thread "', re.MULTILINE),
    "Node.js": re.compile(rb"^Node\.js v[0-9.]+\s*\Z", re.MULTILINE),
    "a sanitizer": re.compile(rb"^==\d+==ERROR: \w+Sanitizer|: runtime error: ", re.MULTILINE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question to an implementation.

    ``path`` is the file that it gets, ``suffix`` how the name of a file that it writes ends, ``timeout`` is in
    seconds, and ``limit`` the number of bytes beyond which its output is a flood.
    """

    path: Path
    suffix: str = ""
    timeout: float
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an implementation did with one case.

    ``kind`` is ``accepted`` (with ``document`` or ``data``), ``rejected`` (with ``rule`` if one was named) or a
    misbehaviour. ``detail`` says it in words; ``ended``, ``stdout`` and ``stderr`` help to find out why. All text is
    escaped and short.
    """

    kind: str
    detail: str
    document: Any = None
    data: bytes = b""
    rule: str = ""
    ended: str = ""
    stdout: str = ""
    stderr: str = ""


class Worker(Protocol):
    """Asks one implementation, one case at a time."""

    def ask(self, task: Task) -> Answer:
        """Return the answer to one case."""

    def close(self) -> str:
        """End the work; return a note on what went wrong with that, or an empty string."""


class Adapter(Protocol):
    """One implementation in one direction. ``description`` is escaped text."""

    description: str
    # Whether a worker's answer may depend on what it was asked before: then the order of its cases must not vary.
    stateful: bool

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker, whose processes are started through ``processes``."""


# --- what a command's end means -------------------------------------------------------------------------------------


def _words(command: str, role: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AdapterError(f"the {role} command cannot be split into words: {str(error).lower()}") from None
    if not words:
        raise AdapterError(f"the {role} command is empty")
    if shutil.which(words[0]) is None:
        raise AdapterError(f"the {role} command is not found or not executable: {printable(words[0])}")
    return words


def _place(words: list[str], path: Path) -> list[str]:
    return [word.replace(_PLACE, os.fspath(path)) for word in words]


def _takes_path(words: list[str]) -> bool:
    return any(_PLACE in word for word in words)


def _excerpt(raw: bytes | bytearray, *, end: bool = False) -> str:
    """Return the beginning of some output, or its end, as text that may be shown."""
    part = bytes(raw[-_SHOWN:] if end else raw[:_SHOWN]).decode("utf-8", "backslashreplace").strip()
    return (
        ("..." if end and len(raw) > _SHOWN else "")
        + printable(part)
        + ("..." if not end and len(raw) > _SHOWN else "")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A command that has ended, or was killed for ``how`` it behaved; a negative ``status`` is a signal."""

    how: str
    status: int
    stdout: bytes
    stderr: bytes

    def __str__(self) -> str:
        if self.how != ENDED:
            return "killed by the runner"
        if self.status >= 0:
            return f"exit status {self.status}"
        try:
            return f"killed by signal {-self.status} ({signal.Signals(-self.status).name})"
        except ValueError:
            return f"killed by signal {-self.status}"

    def misbehaviour(self, task: Task) -> Answer | None:
        """Return the answer of a command that neither accepted nor rejected, or None if it did."""
        if self.how == TIMEOUT:
            return Answer(kind=TIMEOUT, detail=f"no answer within {task.timeout:g} s")
        if self.how == FLOOD:
            return Answer(kind=FLOOD, detail=f"more than {task.limit} bytes on standard output")
        detail = str(self)
        if self.status == 1:
            runtime = next((name for name, words in _LAST_WORDS.items() if words.search(self.stderr)), None)
            if runtime is None or _error_object(self.stdout) is not None:
                return None
            detail = f"exit status 1 after an uncaught exception in {runtime}"
        elif self.status == 0:
            return None
        return Answer(kind=CRASH, detail=detail + self.last_words)

    @property
    def last_words(self) -> str:
        """How standard error ended, as the rest of a sentence."""
        return f"; standard error ends: {_last_line(self.stderr)}" if self.stderr.strip() else ""

    def shown_in(self, answer: Answer) -> Answer:
        """Return ``answer`` with all that may help to find out why it is what it is."""
        stdout, stderr = _excerpt(self.stdout), _excerpt(self.stderr, end=True)
        return replace(answer, ended=str(self), stdout=stdout, stderr=stderr)


def _last_line(raw: bytes | bytearray) -> str:
    lines = bytes(raw).decode("utf-8", "backslashreplace").strip().split("\n")
    return shorten(printable(lines[-1].strip()), 160)


def _error_object(stdout: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(stdout)
    except ArgumentError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else None


def _rejection(error: dict[str, Any] | None, instead: str) -> Answer:
    """Return the answer that an error object makes; ``instead`` is what to say if there is no such object."""
    if error is None:
        return Answer(kind=REJECTED, detail=f"rejected: {instead}" if instead else "rejected")
    parts = [shorten(printable(str(error[key])), 160) for key in ("rule", "message") if error.get(key) is not None]
    if type(error.get("offset")) is int:
        parts.append(f"at byte {error['offset']}")
    rule = error.get("rule")
    detail = "rejected: " + ", ".join(parts) if parts else "rejected"
    return Answer(kind=REJECTED, detail=detail, rule=shorten(printable(rule), 80) if isinstance(rule, str) else "")


def _garbage(detail: str) -> Answer:
    return Answer(kind=GARBAGE, detail=detail)


def _accepted(document: Any) -> Answer:
    if not isinstance(document, dict):
        return _garbage("accepted, but what was printed is not a JSON object")
    if "error" in document and "format" not in document:
        return _garbage("accepted, but what was printed is an error object: a rejection is exit status 1")
    return Answer(kind=ACCEPTED, detail="accepted", document=document)


# --- commands, one process for each case ----------------------------------------------------------------------------


class CommandDecoder:
    """A decoder that is run once for each case: ``command`` as a shell would split it, ``{}`` standing for the file."""

    stateful = False

    def __init__(self, command: str) -> None:
        self._words = _words(command, "decoder")
        self.description = printable(command)

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _CommandWorker(processes, self._ask)

    def _ask(self, processes: Processes, task: Task) -> Answer:
        placed = _takes_path(self._words)
        ended = _run(processes, _place(self._words, task.path), task, Path(os.devnull) if placed else task.path)
        answer = ended.misbehaviour(task) or (_decoded(ended.stdout) if ended.status == 0 else _refused(ended))
        return ended.shown_in(answer)


class CommandEncoder:
    """An encoder that is run once for each case: ``{}`` stands for the file to write, which else goes to its output."""

    stateful = False

    def __init__(self, command: str) -> None:
        self._words = _words(command, "encoder")
        self.description = printable(command)

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _CommandWorker(processes, self._ask)

    def _ask(self, processes: Processes, task: Task) -> Answer:
        placed = _takes_path(self._words)
        with tempfile.TemporaryDirectory(prefix="ckptspec-") as directory:
            output = Path(directory, f"encoded{task.suffix}")
            ended = _run(processes, _place(self._words, output), task, task.path)
            answer = ended.misbehaviour(task)
            if answer is None and ended.status == 0:
                answer = _written_file(output, task) if placed else _written(ended.stdout, task)
        return ended.shown_in(answer or _refused(ended))


@dataclass(frozen=True, slots=True)
class _CommandWorker:
    processes: Processes
    run: Callable[[Processes, Task], Answer]

    def ask(self, task: Task) -> Answer:
        return self.run(self.processes, task)

    def close(self) -> str:
        return ""


def _run(processes: Processes, words: list[str], task: Task, stdin_path: Path) -> _Ended:
    with open(stdin_path, "rb") as stdin:
        child = processes.start(words, stdin)
    try:
        how = child.wait(time.monotonic() + task.timeout, task.limit)
    finally:
        status = processes.end(child)
    return _Ended(how=how, status=status, stdout=bytes(child.stdout), stderr=bytes(child.stderr))


def _decoded(stdout: bytes) -> Answer:
    try:
        return _accepted(parse_json(stdout))
    except ArgumentError as error:
        return _garbage(f"accepted, but what was printed is not a document: {error}")


def _refused(ended: _Ended) -> Answer:
    error = _error_object(ended.stdout) or _error_object(ended.stderr)
    return _rejection(error, _last_line(ended.stdout) or _last_line(ended.stderr))


def _written(data: bytes, task: Task) -> Answer:
    if len(data) > task.limit:
        return Answer(kind=FLOOD, detail=f"wrote more than {task.limit} bytes")
    return Answer(kind=ACCEPTED, detail=f"wrote {count(len(data), 'byte')}", data=data)


def _written_file(path: Path, task: Task) -> Answer:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return _garbage("accepted, but what was written is not a regular file")
        with open(path, "rb") as file:
            return _written(file.read(task.limit + 1), task)
    except OSError as error:
        return _garbage(f"accepted, but the file to write cannot be read: {error.strerror}")


# --- batch commands -------------------------------------------------------------------------------------------------


class BatchDecoder:
    """A decoder that reads paths, one a line, and prints one line of JSON for each.

    It is started once for each worker, and again after each crash, time-out or garbage. The end of its standard input
    is to end it.
    """

    stateful = True

    def __init__(self, command: str) -> None:
        self._words = _words(command, "decoder")
        if _takes_path(self._words):
            raise AdapterError("a batch command reads the paths from standard input: it has no {}")
        self.description = f"{printable(command)} (batch)"

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _BatchWorker(processes, self._words)


@dataclass(slots=True)
class _BatchWorker:
    processes: Processes
    words: list[str]
    child: Child | None = field(default=None, init=False)

    def ask(self, task: Task) -> Answer:
        if self.child is None:
            self.child = self.processes.start(self.words, subprocess.PIPE)
        child = self.child
        child.stderr.clear()
        try:
            child.send(os.fsencode(task.path) + b"\n")
            how = child.wait(time.monotonic() + task.timeout, task.limit, for_line=True)
        except BaseException:
            self._end(TIMEOUT)
            raise
        if how == ANSWERED:
            return self._answered(child, task)
        ended = self._end(how)
        answer = ended.misbehaviour(task) or Answer(kind=CRASH, detail=f"{ended}{ended.last_words}")
        if answer.kind == CRASH:
            answer = replace(answer, detail=f"the batch command ended without an answer: {answer.detail}")
        return ended.shown_in(answer)

    def _answered(self, child: Child, task: Task) -> Answer:
        line, _, rest = bytes(child.stdout).partition(b"\n")
        answer = _batch_answer(line, os.fspath(task.path))
        answer = replace(answer, stdout=_excerpt(line), stderr=_excerpt(child.stderr, end=True), ended="still running")
        child.stdout[:] = rest
        if answer.kind == GARBAGE:  # out of step, perhaps: only a new process is known to be in step
            self._end(ANSWERED)
        return answer

    def _end(self, how: str) -> _Ended:
        assert self.child is not None
        child, self.child = self.child, None
        status = self.processes.end(child)
        return _Ended(how=how, status=status, stdout=bytes(child.stdout), stderr=bytes(child.stderr))

    def close(self) -> str:
        if self.child is None:
            return ""
        self.child.close_stdin()
        ended = self._end(self.child.wait(time.monotonic() + _FAREWELL, STDERR_LIMIT))
        if ended.how != ENDED:
            return "the batch command did not end after the end of its standard input, and was killed"
        if ended.status != 0:
            return f"the batch command ended badly after its last answer: {ended}"
        return "the batch command printed more lines than it was asked for" if ended.stdout else ""


def _batch_answer(line: bytes, path: str) -> Answer:
    try:
        value = parse_json(line)
    except ArgumentError as error:
        return _garbage(f"a line that is no answer: {error}")
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        return _garbage("a line that is no answer: not an object with a path")
    if value["path"] != path:
        names = [os.path.basename(value["path"]), os.path.basename(path)]
        if names[0] == names[1]:
            names = [value["path"], path]
        found, asked = (shorten(printable(name), 160) for name in names)
        return _garbage(f"an answer about '{found}' when asked about '{asked}'")
    if value.keys() == {"path", "document"}:
        return _accepted(value["document"])
    if value.keys() == {"path", "error"}:
        return _rejection(value["error"] if isinstance(value["error"], dict) else None, "")
    return _garbage("a line that is no answer: beside the path there must be either a document or an error")


# --- Python callables -----------------------------------------------------------------------------------------------


class CallableDecoder:
    """A decoder in this process, ``bytes -> neutral document``. FormatError and ArgumentError are rejections.

    Any other exception is a crash. There is no time-out: nothing can stop a function from outside.
    """

    stateful = False

    def __init__(self, decode: Callable[[bytes], Any], description: str) -> None:
        self._decode = decode
        self.description = description

    def worker(self, _processes: Processes) -> Worker:
        """Return a new worker."""
        return _CallableWorker(self._ask)

    def _ask(self, task: Task) -> Answer:
        document = self._decode(task.path.read_bytes())
        try:
            return _accepted(parse_json(dump_json(document)))  # as every other decoder's: through JSON
        except (ArgumentError, TypeError, ValueError) as error:
            return _garbage(f"accepted, but what was returned is not a document: {printable(str(error))}")


class CallableEncoder:
    """An encoder in this process, ``neutral document -> bytes``; see CallableDecoder."""

    stateful = False

    def __init__(self, encode: Callable[[Any], bytes], description: str) -> None:
        self._encode = encode
        self.description = description

    def worker(self, _processes: Processes) -> Worker:
        """Return a new worker."""
        return _CallableWorker(self._ask)

    def _ask(self, task: Task) -> Answer:
        return _written(bytes(self._encode(parse_json(task.path.read_bytes()))), task)


@dataclass(frozen=True, slots=True)
class _CallableWorker:
    call: Callable[[Task], Answer]

    def ask(self, task: Task) -> Answer:
        try:
            return self.call(task)
        except FormatError as error:
            return Answer(kind=REJECTED, detail=f"rejected: {error}", rule=error.rule)
        except ArgumentError as error:
            return Answer(kind=REJECTED, detail=f"rejected: {printable(str(error))}")
        except Exception as error:
            return Answer(kind=CRASH, detail=f"uncaught {type(error).__name__}: {shorten(printable(str(error)), 160)}")

    def close(self) -> str:
        return ""
