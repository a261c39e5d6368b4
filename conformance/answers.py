"""Answers: what an implementation did with one case, and how that is read from the end of a command and its output.

What the end of a command means:

- exit status 0: accepted. A decoder must have printed one JSON object, or the answer is garbage;
- exit status 1: rejected. But a runtime that dies of an uncaught exception may exit with 1 too (Python, Java and
  Node.js do), and that is no rejection. So exit status 1 with such a runtime's last words on standard error, and
  without an error object on standard output, is a crash;
- any other exit status, a signal: a crash. No end in time, output without end: outcomes of their own.
"""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError
from ..neutral import parse_json
from ..text import count, printable, shorten
from .outcome_report import CRASH, FLOOD, GARBAGE, TIMEOUT
from .processes import ENDED

__all__ = [
    "ACCEPTED",
    "REJECTED",
    "Answer",
    "Ended",
    "NotJsonError",
    "Task",
    "accepted",
    "decoded",
    "excerpt",
    "garbage",
    "parsed",
    "refused",
    "rejection",
    "stderr_lines",
    "written",
]

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"

_SHOWN: Final = 240  # characters of a command's output that are kept for people
_AROUND: Final = 40  # characters that are shown before an error in the output, and after it
_LINES: Final = 8  # of standard error that are kept for people
_LINE: Final = 160  # characters of each of them

# How runtimes announce what killed the program before they exit with status 1.
_LAST_WORDS: Final = {
    "Python": re.compile(rb"^[ +|]*(?:Exception Group )?Traceback \(most recent call last\):", re.MULTILINE),
    "Java": re.compile(rb'^Exception in thread "', re.MULTILINE),
    "Node.js": re.compile(rb"^Node\.js v[0-9.]+\s*\Z", re.MULTILINE),
    "a sanitizer": re.compile(rb"^==\d+==ERROR: \w+Sanitizer|: runtime error: ", re.MULTILINE),
}
# Where what matters stands in front, and what follows it (a stack, advice) may be long: Rust, Go, Java, sanitizers.
_HEADLINE: Final = re.compile(r'panicked at |^panic: |^Exception in thread "|^==\d+==ERROR: \w+Sanitizer')
# The constants that JSON does not have; the parser names them and does not say where they stand.
_CONSTANT: Final = re.compile(rb"[:,\[]\s*(?P<at>-?(?:NaN|Infinity)\b)")


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

    ``kind`` is ``accepted`` (with ``document`` or ``data``), ``rejected`` (with ``rule`` and ``offset`` if they were
    named) or a misbehaviour. ``detail`` says it in words; ``ended``, ``stdout`` and ``stderr``, the last lines, help to
    find out why. ``printed`` is, for garbage, the place of the error in what was printed, and perhaps a line with a
    caret below it. All text is escaped and short.
    """

    kind: str
    detail: str
    document: Any = None
    data: bytes = b""
    rule: str = ""
    offset: int | None = None
    ended: str = ""
    stdout: str = ""
    stderr: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()


# --- output as text that may be shown -------------------------------------------------------------------------------


def _text(raw: bytes | bytearray) -> str:
    return bytes(raw).decode("utf-8", "backslashreplace")


def excerpt(raw: bytes | bytearray) -> str:
    """Return the beginning of some output."""
    return printable(_text(raw[:_SHOWN]).strip(), spaced=True) + ("..." if len(raw) > _SHOWN else "")


def stderr_lines(raw: bytes | bytearray) -> tuple[str, ...]:
    """Return the lines of standard error that tell most: the last ones, or those from where a runtime says why."""
    lines = [line.expandtabs(4).rstrip() for line in _text(raw).split("\n") if line.strip()]
    headline = next((number for number, line in enumerate(lines) if _HEADLINE.search(line)), None)
    kept = lines[-_LINES:] if headline is None else lines[headline : headline + _LINES]
    return tuple(shorten(printable(line, spaced=True), _LINE) for line in kept)


def _last_line(raw: bytes | bytearray) -> str:
    return shorten(printable(_text(raw).strip().split("\n")[-1].strip(), spaced=True), _LINE)


def _around(raw: bytes, at: int | None) -> tuple[str, ...]:
    """Return what stands around a byte of some output, and a caret below it; without a byte, the beginning."""
    if at is None:
        return (excerpt(raw),) if raw.strip() else ()
    before, after = (
        printable(_text(part), spaced=True) for part in (raw[max(0, at - _AROUND) : at], raw[at : at + _AROUND])
    )
    dots = "..." if at > _AROUND else ""
    end = "..." if at + _AROUND < len(raw) else ""
    return (f"{dots}{before}{after}{end}", " " * len(dots + before) + "^") if before + after else ()


# --- what the output says -------------------------------------------------------------------------------------------


class NotJsonError(Exception):
    """Output that is not JSON: why, and the lines that show where."""

    def __init__(self, message: str, printed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.printed = printed


def parsed(raw: bytes) -> Any:
    """Parse the JSON that a command printed; NotJsonError if it is none."""
    try:
        return parse_json(raw)
    except ArgumentError as error:
        # Some of the parser's messages end in a preposition of their own: "starting at at line 1".
        raise NotJsonError(str(error).replace(" at at ", " at "), _around(raw, _error_at(raw, error))) from None


def _error_at(raw: bytes, error: ArgumentError) -> int | None:
    """Return the byte at which the parser gave up, if it knows."""
    cause = error.__context__
    if isinstance(cause, json.JSONDecodeError):
        return len(cause.doc[: cause.pos].encode())
    if isinstance(cause, UnicodeDecodeError):
        return cause.start
    constant = _CONSTANT.search(raw) if str(error).endswith("is not JSON") else None
    return constant.start("at") if constant else None


def _error_object(stdout: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(stdout)
    except ArgumentError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else None


def rejection(error: dict[str, Any] | None, instead: str) -> Answer:
    """Return the answer that an error object makes; ``instead`` is what to say if there is no such object."""
    if error is None:
        return Answer(kind=REJECTED, detail=f"rejected: {instead}" if instead else "rejected")
    parts = [shorten(printable(str(error[key])), 160) for key in ("rule", "message") if error.get(key) is not None]
    offset = error["offset"] if type(error.get("offset")) is int else None
    if offset is not None:
        parts.append(f"at byte {offset}")
    rule = error.get("rule")
    named = shorten(printable(rule), 80) if isinstance(rule, str) else ""
    detail = "rejected: " + ", ".join(parts) if parts else "rejected"
    return Answer(kind=REJECTED, detail=detail, rule=named, offset=offset)


def garbage(detail: str, printed: tuple[str, ...] = ()) -> Answer:
    """Return the answer of a command that broke the protocol."""
    return Answer(kind=GARBAGE, detail=detail, printed=printed)


def accepted(document: Any) -> Answer:
    """Return the answer of a decoder that printed, or returned, ``document``."""
    if not isinstance(document, dict):
        return garbage("accepted, but what was printed is not a JSON object")
    if "error" in document and "format" not in document:
        return garbage("accepted, but what was printed is an error object: a rejection is exit status 1")
    return Answer(kind=ACCEPTED, detail="accepted", document=document)


def decoded(stdout: bytes) -> Answer:
    """Return the answer of a decoder that ended with exit status 0."""
    try:
        answer = accepted(parsed(stdout))
    except NotJsonError as error:
        return garbage(f"accepted, but what was printed is not a document: {error}", error.printed)
    return replace(answer, printed=_around(stdout, None)) if answer.kind == GARBAGE else answer


def written(data: bytes, task: Task) -> Answer:
    """Return the answer of an encoder that wrote ``data``."""
    if len(data) > task.limit:
        return Answer(kind=FLOOD, detail=f"wrote more than {task.limit} bytes")
    return Answer(kind=ACCEPTED, detail=f"wrote {count(len(data), 'byte')}", data=data)


# --- what a command's end means -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
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
        """What standard error says, as the rest of a sentence."""
        lines = stderr_lines(self.stderr)
        if lines and _HEADLINE.search(lines[0]):
            return f"; standard error says: {lines[0].strip()}"
        return f"; standard error ends: {lines[-1].strip()}" if lines else ""

    def shown_in(self, answer: Answer) -> Answer:
        """Return ``answer`` with all that may help to find out why it is what it is."""
        return replace(answer, ended=str(self), stdout=excerpt(self.stdout), stderr=stderr_lines(self.stderr))


def refused(ended: Ended) -> Answer:
    """Return the answer of a command that ended with exit status 1."""
    error = _error_object(ended.stdout) or _error_object(ended.stderr)
    return rejection(error, _last_line(ended.stdout) or _last_line(ended.stderr))
