"""Adapters: how the runner talks to an implementation.

An implementation is a command that is run once for each case, a *batch* command that answers for many cases, or a
Python callable. Whatever it is, a worker turns what it does with one case into one ``Answer``.

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
from ..text import printable, shorten
from .answers import (
    REJECTED,
    Answer,
    Ended,
    NotJsonError,
    Task,
    accepted,
    decoded,
    excerpt,
    garbage,
    parsed,
    refused,
    rejection,
    stderr_lines,
    written,
)
from .outcome_report import CRASH, GARBAGE, TIMEOUT
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

_PLACE: Final = "{}"  # where a command wants the path
_FAREWELL: Final = 5.0  # seconds that a batch command has to end after its last answer
# A word that is an operator to a shell: |, &&, ;, <, >, 2>&1, 2>/dev/null and their like.
_OPERATOR: Final = re.compile(r"\|\|?|\|&|&&?|;|<{1,3}|(?:[0-9]|&)?>[>|]?(?:&[0-9-]|[^=].*)?")


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

    def by_hand(self, task: Task) -> str:
        """Return a shell's command line that asks the same, or an empty string if there is none."""


# --- commands as words ----------------------------------------------------------------------------------------------


def _words(command: str, role: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AdapterError(f"the {role} command cannot be split into words: {str(error).lower()}") from None
    if not words:
        raise AdapterError(f"the {role} command is empty")
    if _has_operator(command):
        raise AdapterError(f"the {role} command is not run by a shell; write sh -c '...'")
    if shutil.which(words[0]) is None:
        raise AdapterError(f"the {role} command is not found or not executable: {printable(words[0])}")
    return words


def _place(words: list[str], path: Path) -> list[str]:
    return [word.replace(_PLACE, os.fspath(path)) for word in words]


def _takes_path(words: list[str]) -> bool:
    return any(_PLACE in word for word in words)


def _has_operator(command: str) -> bool:
    """Whether a word is an operator to a shell; one in quotes is not."""
    try:
        return any(_OPERATOR.fullmatch(word) for word in shlex.split(command, posix=False))
    except ValueError:  # quotes behind backslashes, which only the other mode knows
        return False


def _shell_line(words: list[str], before: str = "", after: str = "") -> str:
    line = f"{before}{shlex.join(words)}{after}"
    return line if line.isprintable() else printable(line, spaced=True)


# --- commands, one process for each case ----------------------------------------------------------------------------


class CommandDecoder:
    """A decoder that is run once for each case: ``command`` as a shell would split it, ``{}`` standing for the file."""

    stateful = False

    def __init__(self, command: str) -> None:
        self._words = _words(command, "decoder")
        self.description = printable(command, spaced=True)

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _CommandWorker(processes, self._ask)

    def by_hand(self, task: Task) -> str:
        """Return the command line that decodes the file."""
        after = "" if _takes_path(self._words) else f" < {shlex.quote(str(task.path))}"
        return _shell_line(_place(self._words, task.path), after=after)

    def _ask(self, processes: Processes, task: Task) -> Answer:
        placed = _takes_path(self._words)
        ended = _run(processes, _place(self._words, task.path), task, Path(os.devnull) if placed else task.path)
        answer = ended.misbehaviour(task) or (decoded(ended.stdout) if ended.status == 0 else refused(ended))
        return ended.shown_in(answer)


class CommandEncoder:
    """An encoder that is run once for each case: ``{}`` stands for the file to write, which else goes to its output."""

    stateful = False

    def __init__(self, command: str) -> None:
        self._words = _words(command, "encoder")
        self.description = printable(command, spaced=True)

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _CommandWorker(processes, self._ask)

    def by_hand(self, task: Task) -> str:
        """Return the command line that encodes the document, into the folder where it is run."""
        output = f"encoded{task.suffix}"
        to = "" if _takes_path(self._words) else f" > {output}"
        return _shell_line(_place(self._words, Path(output)), after=f" < {shlex.quote(str(task.path))}{to}")

    def _ask(self, processes: Processes, task: Task) -> Answer:
        placed = _takes_path(self._words)
        with tempfile.TemporaryDirectory(prefix="ckptspec-") as directory:
            output = Path(directory, f"encoded{task.suffix}")
            ended = _run(processes, _place(self._words, output), task, task.path)
            answer = ended.misbehaviour(task)
            if answer is None and ended.status == 0:
                answer = _written_file(output, task) if placed else written(ended.stdout, task)
        return ended.shown_in(answer or refused(ended))


@dataclass(frozen=True, slots=True)
class _CommandWorker:
    processes: Processes
    run: Callable[[Processes, Task], Answer]

    def ask(self, task: Task) -> Answer:
        return self.run(self.processes, task)

    def close(self) -> str:
        return ""


def _run(processes: Processes, words: list[str], task: Task, stdin_path: Path) -> Ended:
    with open(stdin_path, "rb") as stdin:
        child = processes.start(words, stdin)
    try:
        how = child.wait(time.monotonic() + task.timeout, task.limit)
    finally:
        status = processes.end(child)
    return Ended(how=how, status=status, stdout=bytes(child.stdout), stderr=bytes(child.stderr))


def _written_file(path: Path, task: Task) -> Answer:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return garbage("accepted, but what was written is not a regular file")
        with open(path, "rb") as file:
            return written(file.read(task.limit + 1), task)
    except OSError as error:
        return garbage(f"accepted, but the file to write cannot be read: {error.strerror}")


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
        self.description = f"{printable(command, spaced=True)} (batch)"

    def worker(self, processes: Processes) -> Worker:
        """Return a new worker."""
        return _BatchWorker(processes, self._words)

    def by_hand(self, task: Task) -> str:
        """Return the command line that asks for this file alone."""
        return _shell_line(self._words, before=f"echo {shlex.quote(str(task.path))} | ")


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
        if answer.kind == GARBAGE and not answer.printed and line.strip():
            answer = replace(answer, printed=(excerpt(line),))
        answer = replace(answer, stdout=excerpt(line), stderr=stderr_lines(child.stderr), ended="still running")
        child.stdout[:] = rest
        if answer.kind == GARBAGE:  # out of step, perhaps: only a new process is known to be in step
            self._end(ANSWERED)
        return answer

    def _end(self, how: str) -> Ended:
        assert self.child is not None
        child, self.child = self.child, None
        status = self.processes.end(child)
        return Ended(how=how, status=status, stdout=bytes(child.stdout), stderr=bytes(child.stderr))

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
        value = parsed(line)
    except NotJsonError as error:
        return garbage(f"a line that is no answer: {error}", error.printed)
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        return garbage("a line that is no answer: not an object with a path")
    if value["path"] != path:
        names = [os.path.basename(value["path"]), os.path.basename(path)]
        if names[0] == names[1]:
            names = [value["path"], path]
        found, asked = (shorten(printable(name), 160) for name in names)
        return garbage(f"an answer about '{found}' when asked about '{asked}'")
    if value.keys() == {"path", "document"}:
        return accepted(value["document"])
    if value.keys() == {"path", "error"}:
        return rejection(value["error"] if isinstance(value["error"], dict) else None, "")
    return garbage("a line that is no answer: beside the path there must be either a document or an error")


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

    def by_hand(self, _task: Task) -> str:
        """Return nothing: a function has no command line."""
        return ""

    def _ask(self, task: Task) -> Answer:
        document = self._decode(task.path.read_bytes())
        try:
            return accepted(parse_json(dump_json(document)))  # as every other decoder's: through JSON
        except (ArgumentError, TypeError, ValueError) as error:
            return garbage(f"accepted, but what was returned is not a document: {printable(str(error))}")


class CallableEncoder:
    """An encoder in this process, ``neutral document -> bytes``; see CallableDecoder."""

    stateful = False

    def __init__(self, encode: Callable[[Any], bytes], description: str) -> None:
        self._encode = encode
        self.description = description

    def worker(self, _processes: Processes) -> Worker:
        """Return a new worker."""
        return _CallableWorker(self._ask)

    def by_hand(self, _task: Task) -> str:
        """Return nothing: a function has no command line."""
        return ""

    def _ask(self, task: Task) -> Answer:
        return written(bytes(self._encode(parse_json(task.path.read_bytes()))), task)


@dataclass(frozen=True, slots=True)
class _CallableWorker:
    call: Callable[[Task], Answer]

    def ask(self, task: Task) -> Answer:
        try:
            return self.call(task)
        except FormatError as error:
            return Answer(kind=REJECTED, detail=f"rejected: {error}", rule=error.rule, offset=error.offset)
        except ArgumentError as error:
            return Answer(kind=REJECTED, detail=f"rejected: {printable(str(error))}")
        except Exception as error:
            return Answer(kind=CRASH, detail=f"uncaught {type(error).__name__}: {shorten(printable(str(error)), 160)}")

    def close(self) -> str:
        return ""
