"""``ckptspec matrix``: results of earlier runs side by side, or producers × consumers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError
from ..urls import scrubbed
from .adapters import AdapterError
from .catalogue import VECTORS, Suite, load_suite
from .exchange import SmokeError, consumers, exchange, producers
from .matrix import Matrix, matrix_of_runs, render_text
from .run_arguments import DEFAULT_TIMEOUT, add_selection, progress_line, signals_raise
from .run_files import load_run
from .runner import check_outputs, options_of, write_output

__all__ = ["add_arguments", "main"]

_PARTIES: Final = {
    "--producer": "an encoder as for conform, or ckptspec itself; NAME:FORMAT,...=CMD if it has some formats only",
    "--consumer": "a decoder that reads what the producers write, or ckptspec itself",
    "--batch-consumer": "the same, for a decoder that answers for many files (conform --batch)",
}
_SELECTION: Final[dict[str, Any]] = {
    "format": [],
    "filter": [],
    "skip_tag": [],
    "timeout": DEFAULT_TIMEOUT,
    "jobs": None,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ckptspec matrix``."""
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="a file that conform --json wrote; those of one --name are one column")
    for option, text in _PARTIES.items():
        add(option, action="append", default=[], metavar="NAME=CMD", help=text)
    add_selection(parser)
    add("--json", metavar="FILE", help="write the matrix as JSON; - is standard output")
    add("--html", metavar="FILE", help="write the matrix as one page for a browser; - is standard output")


def main(args: argparse.Namespace, suite: Suite | None = None, vectors: Path = VECTORS) -> int:
    """Run ``ckptspec matrix``; return its exit status. ``suite`` and ``vectors`` replace those of the package."""
    try:
        check_outputs(args.runs, json=args.json, html=args.html)
        suite = load_suite() if suite is None else suite
        with signals_raise():
            matrix = _matrix(args, suite, vectors)
    except SmokeError as error:
        print(f"ckptspec: {error}", *error.failure.lines(), sep="\n", file=sys.stderr)
        return 2
    except (ArgumentError, AdapterError) as error:
        print(f"ckptspec: {scrubbed(str(error))}", file=sys.stderr)
        return 2
    print(render_text(matrix), end="", file=sys.stderr if "-" in (args.json, args.html) else sys.stdout)
    if args.json is not None:
        write_output(args.json, json.dumps(matrix.to_json(), indent=2) + "\n")
    if args.html is not None:
        from .matrix_page import render_html

        write_output(args.html, render_html(matrix))
    return matrix.exit_status


def _matrix(args: argparse.Namespace, suite: Suite, vectors: Path) -> Matrix:
    reading = [*args.consumer, *args.batch_consumer]
    if args.runs and (args.producer or reading):
        raise ArgumentError("give either result files, or producers and consumers")
    if args.runs:
        for name, default in _SELECTION.items():
            if getattr(args, name) != default:
                option = name.replace("_", "-")
                raise ArgumentError(f"--{option} is for producers and consumers: the runs were made before")
        return matrix_of_runs([load_run(path, suite) for path in args.runs], suite)
    if not (args.producer or reading):
        raise ArgumentError("give result files that conform --json wrote, or --producer and --consumer")
    with progress_line() as progress:
        return exchange(
            suite,
            producers(args.producer),
            consumers(args.consumer, args.batch_consumer),
            options=options_of(args),
            vectors=vectors,
            progress=progress,
        )
