"""Each hostile file, name and word on each command: what is tried, within which bounds, and what was wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from .commands import Command, Words
from .files import Hostile
from .judge import Page
from .run import GOOD, Told, call, judge, judge_words, library, prepare

__all__ = ["BASE", "SECONDS", "Bounds", "Trial", "bounds", "good_file", "here", "plain_page", "try_file", "try_words"]

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


def try_words(root: Path, words: Words, text: str) -> Trial:
    """Try a command that is given a hostile word, in a folder with a good file; nothing else may be written."""
    good = root / "good.safetensors"
    shutil.copyfile(GOOD["safetensors"], good)
    places = {"{text}": text, "{good}": str(good), "{out}": str(root / "out")}
    filled = []
    for word in words.words:
        for place, value in places.items():
            word = word.replace(place, value) if place in word else word
        filled.append(word)
    told = call(filled, seconds=SECONDS)
    wrong = judge_words(words, told, plain_page("safetensors"))
    if sorted(os.listdir(root)) != [good.name]:
        wrong.append(f"wrote {sorted(os.listdir(root))}")
    return Trial(f"the word {text!a}", words.name, told, tuple(wrong))
