"""The readings of the adapters in docs/adapters: compiled programs in C, C++, Rust and OCaml.

They are commands as the conformance protocol has them, run once for each file. They are there in a checkout only.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .readings import Answer, MissingReadingError, Reading

__all__ = ["ADAPTERS", "LANGUAGES", "Language", "compiled", "language_reading"]

ADAPTERS: Final = Path(__file__).resolve().parents[2] / "docs" / "adapters"
_ACCEPTED: Final = 0
_REFUSED: Final = 1
_TIMEOUT: Final = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Language:
    """A folder of docs/adapters: the format that it reads, its compiler, and the flags that make errors of warnings."""

    name: str
    title: str
    format: str
    compiler: str
    strict: tuple[str, ...]

    def command(self) -> list[str]:
        """Return the command that compiles the adapter, as the page shows it."""
        page = (ADAPTERS / "README.md").read_text("utf-8")
        line, *_ = re.findall(rf"^{re.escape(self.compiler)} -.*$", page, re.MULTILINE)
        program, *arguments = shlex.split(line)
        return [program, *self.strict, *arguments]

    def output(self) -> str:
        """Return the name of the program that the command makes."""
        words = self.command()
        return words[words.index("-o") + 1]


LANGUAGES: Final = (
    Language("c", "C", "oam", "cc", ("-Wall", "-Wextra", "-Werror")),
    Language("cpp", "C++", "oam", "c++", ("-Wall", "-Wextra", "-Werror", "-pedantic")),
    Language("rust", "Rust", "safetensors", "rustc", ("-D", "warnings")),
    Language("ocaml", "OCaml", "ocannl", "ocamlopt", ("-w", "+a-4-9-40..42-44-45-48-70", "-warn-error", "+a")),
)


def compiled(language: Language, folder: Path) -> str:
    """Compile an adapter in a copy of its folder, since OCaml writes beside the sources; return the program.

    MissingReadingError if there is no compiler, or no documentation.
    """
    if not (ADAPTERS / language.name).is_dir():
        raise MissingReadingError("the documentation is not installed")
    if shutil.which(language.compiler) is None:
        raise MissingReadingError(f"there is no {language.compiler}")
    shutil.copytree(ADAPTERS / language.name, folder)
    done = subprocess.run(  # noqa: S603  # our own sources
        language.command(), cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode or done.stdout or done.stderr:
        raise RuntimeError(f"{language.name} does not compile: {done.stdout}{done.stderr}")
    return str(folder / language.output())


def language_reading(language: Language, program: str) -> Reading:
    """Return the reading of a compiled adapter."""
    return Reading(
        name=f"{language.title} adapter",
        formats=(language.format,),
        title=f"the example of an adapter in {language.title}",
        finds="the neutral document",
        read=lambda _format, data: _read(program, data),
    )


def _read(program: str, data: bytes) -> Answer:
    done = subprocess.run(  # noqa: S603  # compiled from our own sources
        [program], input=data, capture_output=True, check=False, timeout=_TIMEOUT
    )
    if done.returncode not in (_ACCEPTED, _REFUSED):
        return Answer(broken=True, why=f"exit status {done.returncode}: {done.stderr.decode('utf-8', 'replace')}")
    found: Any = json.loads(done.stdout)
    if done.returncode == _ACCEPTED:
        return Answer(parts=found)
    error = found.get("error") or {}
    return Answer(why=str(error.get("message", "")), offset=error.get("offset"))
