"""Fuzz, reproduce what was found, replay the corpus: ``python -m ckptspec.conformance.fuzz ACTION``."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from ...cli import os_error
from ...text import count, printable
from . import session
from .adopting import adopt
from .dictionary import dictionary
from .subjects import KINDS
from .trials import inputs, kind_of, trial

__all__ = ["main"]

_SECONDS = 600.0
_FOLDER = ".fuzz"
_MOST = 40
_WITHOUT = "atheris, which fuzzing needs, is not installed here: pip install 'ckptspec[dev]' (Linux on x86-64)"


def _parser() -> argparse.ArgumentParser:
    epilog = "Exit status: 0 nothing was found, 1 something was, 2 usage or environment."
    parser = argparse.ArgumentParser("python -m ckptspec.conformance.fuzz", description=__doc__, epilog=epilog)
    actions = parser.add_subparsers(dest="action", required=True)
    made = actions.add_parser("run", help="fuzz, guided by coverage")
    made.add_argument("--seconds", type=float, default=_SECONDS, help="for the whole run (default: %(default)g)")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: all)")
    made.add_argument("--kind", action="append", choices=KINDS, help="only this kind of input (repeatable)")
    made.add_argument("--folder", type=Path, default=Path(_FOLDER), help="for new inputs and failures (%(default)s)")
    made.add_argument("--seed", type=int, help="of the random choices (default: another one each time)")
    made.add_argument(
        "--if-available", action="store_true", help="do nothing, with status 0, where there is no atheris"
    )
    made = actions.add_parser("reproduce", help="try files on all targets, with all limits")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE")
    made.add_argument("--kind", choices=KINDS, help="kind of the files (default: the folder's name, else all kinds)")
    made = actions.add_parser("replay", help="try the committed corpus and all golden files on all targets")
    made.add_argument("--one-in", type=int, default=1, metavar="N", help="only one in N golden files")
    made = actions.add_parser("adopt", help="copy inputs that show something new into the committed corpus")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE")
    made.add_argument("--kind", choices=KINDS, help="kind of the files (default: as the folder's name says)")
    made.add_argument("--most", type=int, default=_MOST, metavar="N", help="at most so many of a kind (%(default)s)")
    made = actions.add_parser("dictionary", help="print the dictionary of a kind")
    made.add_argument("kind", choices=KINDS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an action; return the exit status."""
    args = _parser().parse_args(arguments)
    if args.action == "run":
        return _run(args)
    if args.action == "reproduce":
        return _reproduce(args)
    if args.action == "replay":
        return _replay(args)
    if args.action == "adopt":
        return _adopt(args)
    print(dictionary(args.kind), end="")
    return 0


def _run(args: argparse.Namespace) -> int:
    if not session.available():
        print(f"fuzz: {'skipped: ' if args.if_available else ''}{_WITHOUT}", file=sys.stderr)
        return 0 if args.if_available else 2
    kinds = args.kind or list(KINDS)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    print(f"fuzz: {', '.join(kinds)}; {args.seconds:g} seconds, {args.jobs} at a time, seed {seed}", flush=True)
    bad = False
    for result in session.run(kinds, args.folder, args.seconds, max(1, args.jobs), seed):
        told = f"{count(result.tried, 'input')} tried, {result.kept} new kept, {len(result.found)} failed"
        print(f"  {result.kind:<12} {told}")
        for path in result.found:
            note = path.with_suffix(".txt")
            first = note.read_text("utf-8").partition("\n")[0] if note.exists() else "the process was killed"
            print(f"    {printable(first)}\n      {_command(path)}")
        if result.trouble:
            print(f"    {result.trouble}")
        bad = bad or bool(result.found or result.trouble)
    return 1 if bad else 0


def _command(path: Path) -> str:
    return f"python -m ckptspec.conformance.fuzz reproduce {path}"


def _reproduce(args: argparse.Namespace) -> int:
    bad = False
    for path in args.files:
        try:
            data = path.read_bytes()
        except OSError as error:
            return _unreadable(error)
        known = args.kind or kind_of(path)
        for kind in KINDS if known is None else (known,):
            bad |= _tried(kind, str(path), data, verbose=True)
    return 1 if bad else 0


def _replay(args: argparse.Namespace) -> int:
    bad, number = False, 0
    for kind in KINDS:
        for name, data in inputs(kind, args.one_in):
            number += 1
            bad |= _tried(kind, name, data, verbose=False)
    print(f"fuzz: {count(number, 'input')} tried on all targets")
    return 1 if bad else 0


def _adopt(args: argparse.Namespace) -> int:
    for kind in KINDS:
        files = [path for path in args.files if (args.kind or kind_of(path)) == kind]
        try:
            adopted = adopt(kind, files, args.most) if files else []
        except OSError as error:
            return _unreadable(error)
        for made in adopted:
            print(printable(str(made)))
    return 0


def _unreadable(error: OSError) -> int:
    print(f"fuzz: {os_error(error)}", file=sys.stderr)
    return 2


def _tried(kind: str, name: str, data: bytes, *, verbose: bool) -> bool:
    """Try an input on all targets, print what fails, say whether anything does."""
    failures = trial(kind, data)
    if verbose:
        verdict = f"{count(len(failures), 'target')} failed" if failures else "no target failed"
        print(f"{printable(name)} as {kind}: {verdict}")
    for failure in failures:
        print(f"{printable(name)} as {kind}: {failure.target}: {printable(failure.what)}")
        if verbose:
            print("\n".join(map(printable, failure.trace.splitlines())))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
