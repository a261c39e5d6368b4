"""``python -m ckptspec.conformance.hostile``: everything hostile on every command, each in a process of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import COMMANDS, FILES, NAMES, WORDS, texts_for
from .forked import call_forked
from .run import Told
from .trials import Bounds, Trial, good_file, here, try_all, try_file, try_words


def _forked(words: list[str], stdin: bytes, limits: Bounds) -> Told:
    return call_forked(words, stdin, seconds=limits.seconds, memory=limits.memory)


def _files(wanted: Sequence[str], full: bool) -> Iterator[Trial]:
    for hostile in FILES:
        if not wanted or any(part in hostile.name for part in wanted):
            run = here if hostile.hole else _forked  # a map of a hole counts as memory before it is touched
            with tempfile.TemporaryDirectory() as folder:
                count = hostile.full if full else hostile.small
                trials = list(try_file(Path(folder), hostile, count, COMMANDS, run=run))
                most = max(trials, key=lambda trial: trial.told.seconds)
                memory = max(trials, key=lambda trial: trial.told.memory)
                seconds = f"{most.told.seconds:.1f} s {most.command}"
                print(f"{hostile.name}: {seconds}, {memory.told.memory / 1e6:.0f} MB {memory.command}", flush=True)
                yield from trials


def _names() -> Iterator[Trial]:
    for at, name in enumerate(NAMES):
        hostile = good_file(("oam", "ocannl", "safetensors")[at % 3])
        with tempfile.TemporaryDirectory() as folder:
            yield from try_file(Path(folder), hostile, 0, COMMANDS, name=name)


def _words() -> Iterator[Trial]:
    for words in WORDS:
        for text in texts_for(None, "\0"):
            with tempfile.TemporaryDirectory() as folder:
                yield try_words(Path(folder), words, text)


def _all(full: bool) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as folder:
        wrong = try_all(Path(folder), lambda item: item.full if full and item.full < 1_000_000 else item.small)
        yield Trial("all files at once", "audit", Told(), tuple(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try everything; 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m ckptspec.conformance.hostile", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="NAME", help="only files whose name has this in it, and no words")
    parser.add_argument("--full", action="store_true", help="files at their full size: takes most of an hour")
    args = parser.parse_args(arguments)
    count = bad = 0
    for trials in (_files(args.files, args.full), *(() if args.files else (_names(), _words(), _all(args.full)))):
        for trial in trials:
            count += 1
            if trial.wrong:
                bad += 1
                print(trial, flush=True)
    print(f"{count} trials, {bad} of them with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
