"""Verbs that look at many files: audit, and audit report."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from ..errors import ArgumentError, CheckpointError
from ..formats import FORMATS
from ..terminal import Style
from ..text import printable, shorten
from ..urls import is_url
from .io import print_json, would_overwrite

__all__ = ["add_arguments", "audit", "report"]

DATABASE: Final = "ckptspec-audit.sqlite"
REPORTS: Final = ("text", "jsonl", "csv", "html")
_MOST_NOTICES: Final = 20  # places that cannot be looked at, told one by one


def add_arguments(run: argparse.ArgumentParser, report: argparse.ArgumentParser) -> None:
    """Add the arguments of both verbs."""
    add = run.add_argument
    add(
        "places",
        nargs="+",
        metavar="PATH",
        help="a file, a folder, a pattern or an address; ./report for a folder called report",
    )
    _add_common(run)
    add("--jobs", "-j", type=int, metavar="N", help="processes that work (default: one for each processor)")
    add("--include", action="append", default=[], metavar="GLOB", help="only files of such a name; may be repeated")
    add("--exclude", action="append", default=[], metavar="GLOB", help="no files and folders of such a name")
    add("--format", choices=tuple(FORMATS), help="only files of this format")
    add("--structure-only", action="store_true", help="read no payloads and verify no checksum of one")
    add("--digest", action="store_true", help="read all files, and examine those whose bytes have changed")
    add("--all", action="store_true", help="examine what has not changed, too")
    add("--scheduler", metavar="ADDRESS", help="have the work done by the workers of a Dask cluster")
    add("--quiet", "-q", action="store_true", help="print nothing but what is bad and new")

    add = report.add_argument
    _add_common(report)
    add("--run", dest="number", type=int, metavar="N", help="the number of a run (default: the newest)")
    add("--format", choices=REPORTS, default="text", help="what to write (default: text)")
    add("--output", "-o", default="-", metavar="OUT", help="where to; - (the default) is standard output")
    add(
        "--only",
        metavar="WHAT",
        help="only files of a verdict; or bad, noncanonical, old, new, newly-bad, fixed, changed",
    )
    add("--rule", metavar="ID", help="only files that break this rule")


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--db", default=DATABASE, metavar="FILE", help=f"the database of the results (default: {DATABASE})")
    add("--baseline", "--since", metavar="RUN", help="count only what is new since a run: its number, last, or a file")
    add("--strict", action="store_true", help="fail on what is not canonical, too")
    add("--json", action="store_true", help="print the summary as JSON")


# ---------------------------------------------------------------------------------------------------------------- audit


def audit(args: argparse.Namespace) -> int:
    """Examine files and record the results; 1 if any is refused, 2 if some could not be looked at."""
    from ..audit import View
    from ..audit import audit as run_audit
    from ..audit.baselines import check
    from ..audit.showing import Shown

    _check_local(args)
    try:
        if args.baseline is not None:
            check(os.fspath(args.db), args.baseline)
        with Shown(args.places, args.include, args.exclude, _MOST_NOTICES) as shown:
            run = run_audit(
                args.places,
                args.db,
                scheduler=args.scheduler,
                workers=args.jobs,
                include=args.include,
                exclude=args.exclude,
                format=args.format,
                payloads=not args.structure_only,
                digest=args.digest,
                everything=args.all,
                watcher=shown,
            )
        with _plausible(args.db), View(args.db, run.number, baseline=args.baseline) as view:
            if args.json:
                print_json(view.summary().to_json() | {"examined": run.examined, "kept": run.kept})
            else:
                _print(_short(view, args.quiet, f"{run.examined:,} examined, {run.kept:,} unchanged", args.db))
            return view.status(strict=args.strict)
    except ArgumentError as error:
        print(f"ckptspec: {error}", file=sys.stderr)
        return 2


def _check_local(args: argparse.Namespace) -> None:
    """Raise OSError if what must be a file of this machine is an address."""
    for name in (args.db, args.baseline):
        if is_url(name):
            raise OSError(errno.EINVAL, "A database or baseline is a file of this machine", name)


@contextlib.contextmanager
def _plausible(database: str) -> Iterator[None]:
    """Turn what comes of values that no audit has written into an OSError: a database may come from anywhere."""
    import sqlite3

    try:
        yield
    except (CheckpointError, OSError):
        raise
    except (sqlite3.Error, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        what = f"{type(error).__name__}: {shorten(printable(str(error)), 200)}"
        raise OSError(errno.EINVAL, f"The database holds what no audit writes ({what})", database) from None


def _short(view: Any, quiet: bool, work: str, database: str) -> Iterator[str]:
    from ..audit.reporting import summary_lines

    yield from summary_lines(view, Style(sys.stdout), quiet=quiet)
    if not quiet:
        option = "" if database == DATABASE else f" --db {printable(database)}"
        yield f"{work}; `ckptspec audit report{option}` shows more"


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)


# --------------------------------------------------------------------------------------------------------------- report


def report(args: argparse.Namespace) -> int:
    """Write a report on a run; the status is that of the audit, under the same options."""
    from ..audit import View

    _check_local(args)
    if args.json and (args.format != "text" or args.only or args.rule):
        print("ckptspec: --json prints the summary; for files there is --format jsonl", file=sys.stderr)
        return 2
    if would_overwrite(args.db, args.output, "the database and OUT"):
        return 2
    try:
        with _plausible(args.db), View(args.db, args.number, baseline=args.baseline) as view:
            if args.json:
                print_json(view.summary().to_json())
            else:
                _write(_pieces(view, args), args.output)
            return view.status(strict=args.strict)
    except ArgumentError as error:
        print(f"ckptspec: {error}", file=sys.stderr)
        return 2


def _pieces(view: Any, args: argparse.Namespace) -> Iterator[str]:
    from ..audit import reporting

    rule = args.rule.upper() if args.rule else None
    if args.format == "text":
        style = Style(sys.stdout if args.output == "-" else io.StringIO())
        return (line + "\n" for line in reporting.text_lines(view, style, only=args.only, rule=rule))
    if args.format == "html":
        from ..audit.page import render_html

        return iter((render_html(view, only=args.only, rule=rule),))
    writer = reporting.json_lines if args.format == "jsonl" else reporting.csv_lines
    return writer(view, only=args.only, rule=rule)


def _write(pieces: Iterator[str], output: str) -> None:
    if output == "-":
        for piece in pieces:
            sys.stdout.write(piece)
        return
    from ..publish import publishing

    with publishing(os.fspath(output)) as draft:
        for piece in pieces:
            draft.write(piece.encode("utf-8", "backslashreplace"))
