"""The documentation: its generated parts are up to date, its links resolve, its examples run and say what they say."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ckptspec import dumps
from ckptspec.spec.rules import RULES, rules_of

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "docs" / "generate.py"
README = ROOT / "README.md"
FORMATS = ROOT / "docs" / "formats"

pytestmark = pytest.mark.skipif(not GENERATOR.is_file(), reason="the documentation is not installed")

PAGES = sorted([README, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
FORMAT_PAGES = ("oam", "ocannl", "safetensors")

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^()\s]+)\)")
_ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

# What a page's shell sees: the command line of this very package, whatever the PATH.
_SHELL = 'ckptspec() { "$PYTHON" -m ckptspec "$@"; }\n'


def blocks(text: str, *languages: str) -> Iterator[tuple[str, str]]:
    """Yield language and text of each code block in one of some languages."""
    for match in _FENCE.finditer(text):
        if match["language"] in languages:
            yield match["language"], match["text"]


def prose(text: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: those of its headings, as GitHub and mkdocs make them, and those that it sets."""
    made = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in _HEADING.findall(prose(text))}
    return made | set(_ANCHOR.findall(prose(text)))


# ------------------------------------------------------------------------------------------------------ generated parts


def test_generated_parts_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def test_every_rule_appears_once() -> None:
    text = "\n".join(path.read_text("utf-8") for path in sorted(FORMATS.glob("*.md")))
    assert Counter(title for title in _HEADING.findall(text) if title in RULES) == Counter(list(RULES))
    for name in FORMAT_PAGES:
        page = (FORMATS / f"{name}.md").read_text("utf-8")
        assert {title for title in _HEADING.findall(page) if title in RULES} == {rule.id for rule in rules_of(name)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    text = path.read_text("utf-8")
    for match in _LINK.finditer(prose(text)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        found = path.parent / target if target else path
        assert found.exists(), match["target"]
        if anchor:
            assert anchor in anchors(found.read_text("utf-8")), match["target"]


# ------------------------------------------------------------------------------------------------------------- examples


def run_python(source: str, names: dict[str, Any], where: str) -> None:
    """Run a block: as a doctest if it has prompts, else as it stands."""
    if ">>> " not in source:
        exec(compile(source, where, "exec"), names)  # the documentation is ours
        return
    test = doctest.DocTestParser().get_doctest(source, names, where, where, 0)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append, clear_globs=False)
    names.update(test.globs)
    assert not told, "".join(told)


def line_pattern(line: str, any_numbers: bool) -> str:
    """Return what a shown line matches: ``...`` alone is any lines, at its end any rest; ``/.../`` is any folders."""
    if line.strip() == "...":
        return r"(?:.*\n)*"
    shown, rest = (line[:-3], ".*") if line.endswith(" ...") else (line, "")
    pattern = re.escape(shown).replace(re.escape("/.../"), r"/(?:\S*/)?")
    if any_numbers:
        pattern = re.sub(r"(?<!\w)(?:\\ )*\d[\d,]*(?!\w)", r"\\s*[\\d,]+", pattern)
    return f"{pattern}{rest}\n"


def run_shell(source: str, any_numbers: bool = False) -> None:
    """Run the commands of a block, and compare what they print with what the block shows."""
    for part in re.split(r"^\$ ", source, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        done = subprocess.run(
            ["sh", "-c", _SHELL + command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "PYTHON": sys.executable, "COLUMNS": "100"},
        )
        pattern = "".join(line_pattern(line, any_numbers) for line in shown.rstrip().splitlines())
        assert re.fullmatch(pattern, done.stdout), f"$ {command}\n{done.stdout}"


@pytest.mark.parametrize("name", FORMAT_PAGES)
def test_examples_of_a_format(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": name}
    found = Counter[str]()
    for language, source in blocks((FORMATS / f"{name}.md").read_text("utf-8"), "python", "console"):
        found[language] += 1
        if language == "python":
            run_python(source, names, f"{name}.md")
        else:
            run_shell(source)
    assert found["python"] > 3
    assert found["console"] > 1


def demo_files() -> None:
    """Make model.oam and broken.oam as ``make demo`` does."""
    script = (ROOT / "conformance" / "demo.sh").read_text("utf-8")
    writes, breaks, *_ = re.findall(r"<<'PY'\n(.*?)^PY$", script, re.MULTILINE | re.DOTALL)
    for source, arguments in ((writes, ["model.oam"]), (breaks, ["model.oam", "broken.oam"])):
        subprocess.run([sys.executable, "-", *arguments], input=source, text=True, check=True, capture_output=True)


def test_examples_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo_files()
    settings.register_profile("few", max_examples=10, suppress_health_check=list(HealthCheck))
    settings.load_profile("few")  # which the example adds to
    for language, source in blocks(README.read_text("utf-8"), "python", "console"):
        if language == "console":
            run_shell(source)
        elif not source.startswith("# adapter.py"):  # has tests of its own
            names: dict[str, Any] = {"__name__": "readme", "my_writer": dumps}  # each block can be copied alone
            run_python(source, names, "README.md")
    settings.load_profile("default")
    names["test_my_writer"]()  # the example for users of hypothesis
    assert (tmp_path / "model.oam").is_file()


def write_or_edit(language: str, source: str) -> None:
    """Write the file that the first line of a block names, or change it as a block of ``diff`` says."""
    found = re.match(r"(?:#|---) ([a-z-]+\.(?:py|sh))(?::.*)?\n", source)
    if found is None:
        return
    path = Path(found[1])
    if language != "diff":
        path.write_text(source, "utf-8")
        return
    lines = source[found.end() :].splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    text = path.read_text("utf-8")
    assert text.count(old) == 1, source
    path.write_text(text.replace(old, new), "utf-8")


def fresh_shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the current one, with ``python`` and ``ckptspec`` on the PATH as in a fresh environment."""
    programs = folder / "bin"
    programs.mkdir()
    for name, words in (("python", ""), ("ckptspec", " -m ckptspec")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n', "utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # files are rewritten within a second
    work = folder / "work"
    work.mkdir()
    monkeypatch.chdir(work)


def run_page(page: str, any_numbers: bool = False) -> Counter[str]:
    """Write the files that a page shows and run its commands, from top to bottom; return how many blocks it has."""
    found = Counter[str]()
    text = (ROOT / "docs" / page).read_text("utf-8")
    for language, source in blocks(text, "python", "sh", "diff", "console"):
        found[language] += 1
        if language == "console":
            run_shell(source, any_numbers)
        else:
            write_or_edit(language, source)
    return found


def test_tutorial_of_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers may differ: the suite grows."""
    fresh_shell(tmp_path, monkeypatch)
    assert run_page("adapters/tutorial.md", any_numbers=True)["console"] > 10
    assert {path.name for path in Path().iterdir()} >= {"reader.py", "adapter.py", "encoder.py", "conform.sh"}


def test_tour_and_troubleshooting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second page goes on with the files of the first."""
    fresh_shell(tmp_path, monkeypatch)
    assert run_page("index.md")["console"] == 3
    assert run_page("troubleshooting.md")["console"] > 3
