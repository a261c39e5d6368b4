"""The arguments of ``ckptspec conform``, and how a run shows its progress and hears signals."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from ..errors import ArgumentError
from ..text import printable, shorten

__all__ = ["DEFAULT_TIMEOUT", "add_arguments", "add_selection", "implementation_name", "progress_line", "signals_raise"]

DEFAULT_TIMEOUT: Final = 10.0  # seconds for one case, the start of the command included
_NAME_LENGTH: Final = 40  # characters: a name heads a column
_REDRAW: Final = 0.1  # seconds between two progress lines, which nobody could read any faster


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, found {text}")
    return seconds


def _jobs(text: str) -> int:
    jobs = int(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text}")
    return jobs


def implementation_name(text: str) -> str:
    """Return the name of an implementation; ArgumentError if it cannot head a column."""
    if not text.strip() or text != printable(text, spaced=True) or len(text) > _NAME_LENGTH:
        shown = shorten(printable(text))
        raise ArgumentError(f"a name has 1 to {_NAME_LENGTH} printable characters and no backslash, found '{shown}'")
    return text.strip()


def _name(text: str) -> str:
    try:
        return implementation_name(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which cases are run, and how."""
    add = parser.add_argument
    add("--format", action="append", default=[], metavar="F", help="only this format (repeatable)")
    add("--filter", action="append", default=[], metavar="GLOB", help="only cases with such an id (repeatable)")
    add("--skip-tag", action="append", default=[], metavar="TAG", help="skip cases with this tag (repeatable)")
    add("--timeout", type=_seconds, default=DEFAULT_TIMEOUT, metavar="SECONDS", help="for one case (default: 10)")
    add("--jobs", type=_jobs, default=None, metavar="N", help="cases at a time (default: one for each processor)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ckptspec conform``."""
    add = parser.add_argument
    add("--decoder", metavar="CMD", help="a decoder: the file on standard input, or where the command contains {}")
    add(
        "--encoder", metavar="CMD", help="an encoder: the document on standard input, the file to standard output or {}"
    )
    add(
        "--batch", action="store_true", help="the decoder reads paths, one a line, and answers each with a line of JSON"
    )
    add_selection(parser)
    add("--name", type=_name, metavar="NAME", help="what results call the implementation (default: its command)")
    add("--strict", action="store_true", help="fail on warnings too: canonical findings, cases of the level should")
    add("--known-failures", metavar="FILE", help="failures that are expected; any other result fails the run")
    add("--update-known-failures", action="store_true", help="rewrite the known-failures file as this run makes it")
    add("--json", metavar="FILE", help="write the results as JSON; - is standard output")
    add("--junit", metavar="FILE", help="write the results as JUnit XML; - is standard output")
    add("--html", metavar="FILE", help="write the results as one page for a browser; - is standard output")


@contextlib.contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None] | None]:
    """Give a callback that shows a line on a terminal now and then and at the end, or None if there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    shown = -math.inf

    def show(direction: str, done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if done < total and now - shown < _REDRAW:
            return
        shown = now
        print(f"\r{direction} {done}/{total}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that the run ends as with Ctrl-C: no process is left behind."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
