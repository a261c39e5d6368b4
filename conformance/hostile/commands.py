"""Every command that hostile files and hostile words are given to, and what it may end with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .files import Hostile

__all__ = ["COMMANDS", "WORDS", "Command", "Words"]

ACCEPTED: Final = 0
REFUSED: Final = 1
USAGE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command on a file.

    In its ``words``, ``{file}`` is the hostile file, ``{good}`` a small good one of the same format, ``{document}`` the
    hostile file's neutral document, ``{manifest}`` its digests, and ``{out}`` where the command may write; it writes
    nowhere else. ``output`` is the kind of what it prints: ``text``, ``json``, ``lines`` of JSON, or ``html``; what it
    writes is a file of a format, or as its name ends; of a database, all reports are looked at, too. ``stdin`` is
    given to it. ``good`` are the exit statuses for a
    file that readers accept, ``bad`` those for other files. ``foreign`` commands take files of another kind, so that
    few hostile files tell all. ``slow`` ones start processes: tests give them few files one by one, and all at once.
    """

    name: str
    words: tuple[str, ...]
    output: str = "text"
    stdin: str = ""
    good: tuple[int, ...] = (ACCEPTED,)
    bad: tuple[int, ...] = (REFUSED,)
    foreign: bool = False
    slow: bool = False

    @property
    def decoded(self) -> bool:
        """Whether it takes the hostile file's document or manifest, which only an accepted file has."""
        return any(word in ("{document}", "{manifest}") for word in self.words)

    def statuses(self, hostile: Hostile) -> tuple[int, ...]:
        """Return the exit statuses that are right for a file."""
        return self.good if hostile.accepted else self.bad


def _command(words: str, output: str = "", **more: object) -> Command:
    split = tuple(words.split())
    name = " ".join(word for word in split if word not in ("{file}", "{out}", "--"))
    for part in ("{out}", "{document}", "{good}", "{manifest}"):
        name = name.replace(part, part[1:-1])
    kind = output or ("json" if "--json" in split else "text")
    return Command(name=name, words=split, output=kind, **more)  # type: ignore[arg-type]


_EITHER: Final = (ACCEPTED, REFUSED)

COMMANDS: Final = (
    _command("validate -- {file}"),
    _command("validate --strict --json -- {file}", good=_EITHER),
    _command("validate -q -- {file} {good}"),
    _command("inspect -- {file}"),
    _command("inspect --json -- {file}"),
    _command("inspect --hex -- {file}"),
    _command("inspect --hex --json -- {file}"),
    _command("inspect --html {out}.html -- {file}"),
    _command("inspect --no-values --html - -- {file}", "html"),
    _command("decode -- {file}", "json"),
    _command("decode --indent -- {file}", "json"),
    _command("decode --batch", "lines", stdin="{file}\n", bad=(ACCEPTED,)),
    _command("encode -- {document} {out}"),
    _command("encode -- {file} {out}", good=(REFUSED,)),
    _command("salvage -- {file} {out}", bad=_EITHER),
    _command("salvage --intact-only --json -- {file} {out}", bad=_EITHER),
    _command("canonicalize -- {file} {out}"),
    _command("canonicalize --json -- {file} {out}"),
    _command("quantize -- {file} {out} q4", good=_EITHER),
    _command("quantize --json -- {file} {out} q8", good=_EITHER),
    *(_command(f"convert --to {to} -- {{file}} {{out}}", good=_EITHER) for to in ("oam", "ocannl", "safetensors")),
    _command("convert --to safetensors --lossy --json -- {file} {out}", good=_EITHER),
    _command("convert --to oam --dry-run --lossy -- {file} {out}", good=_EITHER),
    _command("metadata -- {file}", good=_EITHER),
    _command("metadata --json -- {file}", good=_EITHER),
    _command("diff -- {file} {good}", good=_EITHER),
    _command("diff --json -- {good} {file}", good=_EITHER),
    _command("diff --names-only -- {file} {file}"),
    _command("digest -- {file}"),
    _command("digest --json -- {file}"),
    _command("digest --manifest {out}.json -- {file}"),
    _command("digest --check {manifest} -- {file}"),
    _command("digest --check {manifest} -- {good}", good=_EITHER),
    _command("digest --check {file} -- {good}", good=(REFUSED,)),
    _command("audit --db {out}.sqlite -- {file}", slow=True),
    _command("audit --structure-only --format safetensors --db {out}.sqlite -- {file}", good=_EITHER, slow=True),
    _command("audit report --db {file}", good=(USAGE,), bad=(USAGE,), foreign=True),
    _command("conform --decoder true --known-failures {file}", good=(USAGE,), bad=(USAGE,), foreign=True),
    _command("matrix -- {file}", good=(USAGE,), bad=(USAGE,), foreign=True),
)
"""What is done with every hostile file, and with a good file under every hostile name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A command that gets a hostile word, ``{text}`` in its ``words``, and what it may end with."""

    words: tuple[str, ...]
    statuses: tuple[int, ...]
    output: str = "text"

    @property
    def name(self) -> str:
        """The command with its places."""
        return " ".join(self.words).replace("{text}", "TEXT").replace("{good}", "FILE").replace("{out}", "OUT")


def _words(words: str, *statuses: int, output: str = "text") -> Words:
    return Words(words=tuple(words.split()), statuses=statuses or (USAGE,), output=output)


WORDS: Final = (
    _words("{text}"),
    _words("explain -- {text}"),
    _words("export kaitai --format={text}"),
    _words("vectors list --rule={text}"),
    _words("vectors list --tag={text}"),
    _words("validate --format={text} {good}"),
    _words("validate {good} --{text}"),
    _words("inspect {good} {text}", ACCEPTED, USAGE),
    _words("inspect --hex --only={text} {good}", ACCEPTED, USAGE),
    _words("quantize {good} {out} -- {text}"),
    _words("convert --to={text} {good} {out}"),
    _words("diff --only={text} {good} {good}", ACCEPTED, USAGE),
    _words("diff --atol={text} {good} {good}"),
    _words("metadata --reserve={text} {good}"),
    _words("metadata --set={text} {good}", ACCEPTED, USAGE),
    _words("metadata --set={text}=v --set=k={text} {good}", ACCEPTED),
    _words("metadata --json --delete={text} {good}", ACCEPTED, output="json"),
    _words("conform --decoder={text} --filter=any/nothing"),
    _words("conform --decoder=true --format={text}"),
    _words("conform --decoder=true --filter={text}", ACCEPTED, REFUSED, USAGE),
    _words("conform --decoder=true --skip-tag={text}", USAGE),
    _words("conform --decoder=true --timeout={text}"),
    _words("conform --decoder=true --name={text}"),
    _words("audit --format={text} {good}"),
    _words("audit --db={out}.sqlite --exclude={text} {good}", ACCEPTED, USAGE),
    _words("audit report --db={text}"),
    _words("audit report --baseline={text} --db={database}"),
    _words("audit report --only={text} --db={database}"),
    _words("audit report --rule={text} --db={database}"),
    _words("matrix -- {text}"),
    _words("matrix --producer={text}"),
    _words("matrix --consumer={text}"),
    _words("matrix --producer=ckptspec --consumer=x:{text}=true"),
)
"""Where a command gets a word that others may have chosen."""
