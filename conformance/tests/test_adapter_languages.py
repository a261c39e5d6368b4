"""The decoders of the documentation in Rust, C++ and OCaml: compiled as the page says, with warnings as errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ckptspec.conformance.adapters import CommandDecoder
from ckptspec.conformance.catalogue import Suite, load_suite
from ckptspec.conformance.outcome_report import render_text
from ckptspec.conformance.runner import Options, Runner

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "docs" / "adapters"
PAGE = ADAPTERS / "README.md"
FULL = Path("/dev/full")  # every write to it fails

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")


@dataclass(frozen=True)
class Language:
    """A folder of docs/adapters: the format that it reads, its compiler, and the flags that make errors of warnings."""

    name: str
    format: str
    compiler: str
    strict: tuple[str, ...]

    def command(self) -> list[str]:
        """Return the command that compiles the adapter, as the page shows it."""
        (line,) = re.findall(rf"^{re.escape(self.compiler)} -.*$", PAGE.read_text("utf-8"), re.MULTILINE)
        program, *arguments = shlex.split(line)
        return [program, *self.strict, *arguments]

    def output(self) -> str:
        """Return the name of the program that the command makes."""
        words = self.command()
        return words[words.index("-o") + 1]


LANGUAGES = [
    Language("cpp", "oam", "c++", ("-Wall", "-Wextra", "-Werror", "-pedantic")),
    Language("rust", "safetensors", "rustc", ("-D", "warnings")),
    Language("ocaml", "ocannl", "ocamlopt", ("-w", "+a-4-9-40..42-44-45-48-70", "-warn-error", "+a")),
]


def compiled(language: Language, folder: Path) -> str:
    """Compile the adapter in a copy of its folder, since OCaml writes beside the sources; return the program."""
    shutil.copytree(ADAPTERS / language.name, folder)
    done = subprocess.run(language.command(), cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return str(folder / language.output())


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_adapter(language: Language, tmp_path: Path) -> None:
    """One test for each language, so that each is compiled once, however the tests are spread over processes."""
    if shutil.which(language.compiler) is None:
        pytest.skip(f"there is no {language.compiler}")
    program = compiled(language, tmp_path / "adapter")
    suite = load_suite()
    check_conforms(suite, language.format, program)
    check_open_questions(suite, language.format, program)
    check_trouble_is_no_verdict(suite, language.format, program, tmp_path)


def check_conforms(suite: Suite, format: str, program: str) -> None:
    """Check that all cases pass."""
    decoder = CommandDecoder(f"{shlex.quote(program)} {{}}")
    run = Runner(suite, decoder=decoder, options=Options(formats=(format,), strict=True)).run()
    cases = [case.id for case in suite.cases if case.kind == "file" and case.format in (format, "any")]
    assert [result.case.id for result in run.results] == cases
    assert len(cases) > 200
    assert (run.exit_status, run.counts()["passed"]) == (0, len(cases)), render_text(run)


def check_open_questions(suite: Suite, format: str, program: str) -> None:
    """Check that where readers may differ, the example does what this specification decided."""
    for case in suite.cases:
        if (case.format, case.verdict) != (format, "acceptable"):
            continue
        done = subprocess.run([program], input=case.read(), capture_output=True, check=False)
        expected, found = case.read_expected(), json.loads(done.stdout)
        assert done.returncode == (1 if "error" in expected else 0), case.id
        assert found.keys() == {"error"} if "error" in expected else found == expected, case.id


def check_trouble_is_no_verdict(suite: Suite, format: str, program: str, tmp_path: Path) -> None:
    """Check that what cannot be read or written is neither an acceptance nor a refusal."""
    for path in (tmp_path / "absent", tmp_path):
        done = subprocess.run([program, str(path)], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr
    if FULL.exists():
        case = next(case for case in suite.cases if case.id == suite.smoke[format])
        with FULL.open("wb") as full:
            done = subprocess.run([program], input=case.read(), stdout=full, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2
