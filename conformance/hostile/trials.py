"""Each hostile file, name and word on each command: what is tried, within which bounds, and what was wrong."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ...audit import results
from ...formats import EXTENSIONS
from . import FILES, NAMES
from .commands import Command, Words
from .files import Hostile
from .judge import Page, check_text
from .run import GOOD, Told, call, good_results, judge, judge_reports, judge_words, library, prepare

__all__ = [
    "BASE",
    "SECONDS",
    "Bounds",
    "Trial",
    "bounds",
    "good_file",
    "here",
    "plain_page",
    "try_all",
    "try_file",
    "try_words",
]

SECONDS: Final = 10.0  # of the processor that any command may take, however small the file
PER_BYTE: Final = 20e-6  # of a second, and as much again for each byte of the file
BASE: Final = 400_000_000  # bytes of memory, besides a multiple of the file

Call = Callable[[list[str], bytes, "Bounds"], Told]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a command may take: ``seconds`` of the processor and bytes of ``memory``."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A command on something hostile: what it did, and what is wrong with that."""

    hostile: str
    command: str
    told: Told
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"{self.command} on {self.hostile}: {text}" for text in self.wrong)


def bounds(hostile: Hostile, size: int) -> Bounds:
    """Return what a command may take for a file of ``size`` bytes, holes not counted."""
    return Bounds(SECONDS + PER_BYTE * size, BASE + hostile.memory * size)


@cache
def plain_page(format: str) -> Page:
    """Return what the page of a good file of a format is made of."""
    return Page(call(["inspect", "--html", "-", str(GOOD[format])]).out)


def good_file(format: str) -> Hostile:
    """Return a good file, for which only its name can be hostile."""
    data = GOOD[format].read_bytes()
    return Hostile(name=f"{format}_good", attacks="", format=format, make=lambda _: data, accepted=True)


def here(words: list[str], stdin: bytes, limits: Bounds) -> Told:
    """Run a command in this process."""
    return call(words, stdin, seconds=limits.seconds)


def try_file(
    root: Path, hostile: Hostile, count: int, commands: Iterable[Command], *, name: bytes = b"in", run: Call = here
) -> Iterator[Trial]:
    """Try commands on a file of ``count`` items, called ``name``, in a new folder; the library's texts come last."""
    place = prepare(root, hostile, count, name)
    limits = bounds(hostile, os.stat(place.file).st_blocks * 512 if hostile.hole else os.stat(place.file).st_size)
    before = place.state()
    for command in commands:
        if (command.decoded and not hostile.accepted) or (command.stdin and b"\n" in name):  # a path is one line there
            continue
        told = run(place.words(command), place.stdin(command), limits)
        wrong = [*judge(place, command, told, plain_page(hostile.format)), *_beyond(told, limits)]
        if place.state() != before:
            wrong.append("a file was changed, or written elsewhere")
            before = place.state()
        yield Trial(f"{hostile.name} called {name!r}", command.name, told, tuple(wrong))
    yield Trial(hostile.name, "the library", Told(), tuple(library(os.fsdecode(place.file))))


def _beyond(told: Told, limits: Bounds) -> Iterator[str]:
    if told.seconds > limits.seconds:
        yield f"took {told.seconds:.1f} s of the processor, more than {limits.seconds:.1f}"
    if told.memory > limits.memory:
        yield f"took {told.memory / 1e6:.0f} MB, more than {limits.memory / 1e6:.0f}"


def try_all(root: Path, count: Callable[[Hostile], int]) -> list[str]:
    """Audit all hostile files at once, and good ones under hostile names; return what is wrong with the reports.

    ``count`` says of how many items a file is made.
    """
    folder = root / "all"
    folder.mkdir(parents=True)
    expected = {}
    endings = {name: ending for ending, name in EXTENSIONS.items()}
    for item in FILES:
        path = folder / f"{item.name}{endings[item.format]}"
        with open(path, "wb") as file:
            file.write(item.make(count(item)))
            if item.hole:
                file.truncate(item.hole)
        expected[str(path)] = item.accepted
    for at, name in enumerate(NAMES):
        called = os.path.join(os.fsencode(folder), name)
        with contextlib.suppress(FileExistsError), open(called, "xb") as file:
            file.write(list(GOOD.values())[at % len(GOOD)].read_bytes())
            expected[os.fsdecode(called)] = True
    database = root / "results.sqlite"
    told = call(["audit", "--db", str(database), str(folder)])
    wrong = [told.trouble] if told.trouble else []
    if told.status != 1:
        wrong.append(f"exit status {told.status}, expected 1: {told.err[:500]}")
    wrong += [text for text in map(check_text, (told.out, told.err)) if text]
    found = {result.path: result.verdict for result in results(database)}
    wrong += [f"no result of {path!a}" for path in sorted(expected.keys() - found.keys())]
    wrong += [f"a result of {path!a}, which is not there" for path in sorted(found.keys() - expected.keys())]
    wrong += [
        f"{path!a}: {verdict}"
        for path, verdict in sorted(found.items())
        if path in expected
        and verdict not in (("canonical", "accepted") if expected[path] else ("refused", "unfinished"))
    ]
    return wrong + list(judge_reports(database))


def try_words(root: Path, words: Words, text: str) -> Trial:
    """Try a command that is given a hostile word, in a folder with a good file; nothing else may be written."""
    good = root / "good.safetensors"
    shutil.copyfile(GOOD["safetensors"], good)
    places = {"{text}": text, "{good}": str(good), "{out}": str(root / "out"), "{database}": str(good_results())}
    filled = []
    for word in words.words:
        for place, value in places.items():
            word = word.replace(place, value) if place in word else word
        filled.append(word)
    told = call(filled, seconds=SECONDS)
    wrong = judge_words(words, told, plain_page("safetensors"))
    named = {str(root / "out") + word.partition("{out}")[2] for word in words.words if "{out}" in word}
    written = sorted(str(path) for path in root.iterdir() if path != good)
    if any(not path.startswith(tuple(named)) for path in written):
        wrong.append(f"wrote {written}")
    return Trial(f"the word {text!a}", words.name, told, tuple(wrong))
