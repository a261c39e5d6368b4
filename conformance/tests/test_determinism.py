"""The same bytes in every environment: hash seeds, locales, encodings, time zones, umasks, folders, processors, -OO."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import pytest

from ckptspec.cli import build_parser
from ckptspec.conformance import operations, smoke
from ckptspec.conformance.operations import Outcome, verb_of

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("-m", "ckptspec.conformance.operations")


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a process finds. ``locale`` is a definition and a character set of the system, for which one is made."""

    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    umask: int = 0o022
    one_processor: bool = False
    locale: tuple[str, str] | None = None


PLAIN = Environment(variables={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"})
ENVIRONMENTS = {
    "no UTF-8": Environment(
        variables={
            "PYTHONHASHSEED": "1",
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "TZ": "Asia/Kathmandu",
            "TERM": "dumb",
        },
        options=("-W", "error"),
        umask=0o077,
    ),
    "Turkish": Environment(
        variables={"PYTHONHASHSEED": "random", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TZ": "Pacific/Apia"},
        options=("-O",),
        umask=0,
        locale=("tr_TR", "ISO-8859-9"),
    ),
    "German, without docstrings": Environment(
        variables={
            "PYTHONHASHSEED": "4294967295",
            "PYTHONIOENCODING": "latin-1",
            "NO_COLOR": "1",
            "TZ": "America/New_York",
        },
        options=("-OO",),
        one_processor=True,
        locale=("de_DE", "UTF-8"),
    ),
    "other ways to compute": Environment(
        variables={
            "PYTHONHASHSEED": "random",
            "LC_ALL": "POSIX",
            "CKPTSPEC_CHECKSUM": "numpy",
            "CKPTSPEC_ELEMENTS": "numpy",
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        options=("-X", "dev", "-X", "utf8"),
    ),
}


def made_locale(name: str, charset: str, folder: Path) -> dict[str, str]:
    """Make a locale below a folder; return the variables that choose it: C where the system has no such definition."""
    full = f"{name}.{charset}"
    tool = shutil.which("localedef")
    if tool is not None:
        folder.mkdir()
        words = [tool, "-i", name, "-f", charset, str(folder / full)]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return {"LOCPATH": str(folder), "LC_ALL": full}
    return {"LC_ALL": "C"}


def run_in(environment: Environment, folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python in an environment and in a folder of its own; nothing of this process' environment is taken over."""
    folder.mkdir()
    chosen = made_locale(*environment.locale, folder / "locales") if environment.locale else {}
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START") if name in os.environ}
    variables = {**kept, "HOME": str(folder), "COLUMNS": "100", **environment.variables, **chosen}

    def enter() -> None:
        os.umask(environment.umask)
        if environment.one_processor and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    command = [sys.executable, *environment.options, *words]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, preexec_fn=enter, check=False)


def digests(environment: Environment, folder: Path) -> dict[str, str]:
    """Return a digest of what each operation gives in an environment."""
    done = run_in(environment, folder, *COMMAND)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert not done.stderr
    made: dict[str, str] = json.loads(done.stdout)
    return made


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return digests(PLAIN, tmp_path_factory.mktemp("plain") / "a")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments(name: str, plain: dict[str, str], tmp_path: Path) -> None:
    found = digests(ENVIRONMENTS[name], tmp_path / "another folder ü")
    assert found.keys() == plain.keys()
    assert [operation for operation in plain if plain[operation] != found[operation]] == []


def test_every_verb_is_among_the_operations(plain: dict[str, str]) -> None:
    used = {verb_of(operation) for operation in plain}
    assert smoke.verbs() <= used
    assert used - smoke.verbs() == {"save", "schema"}
    assert len(set(plain.values())) > 0.8 * len(plain)  # few of them give nothing, or the same


def test_digests_tell_outcomes_apart() -> None:
    outcomes = (
        Outcome(),
        Outcome(status=1),
        Outcome(printed=b"a"),
        Outcome(complaints=b"a"),
        Outcome(files={"a": b""}),
        Outcome(files={"a": b"b"}),
        Outcome(files={"b": b"b"}),
    )
    assert len({outcome.digest() for outcome in outcomes}) == len(outcomes)


@pytest.mark.skipif(not (ROOT / "docs" / "generate.py").is_file(), reason="the pages are not part of the package")
def test_generated_pages(tmp_path: Path) -> None:
    environment = ENVIRONMENTS["no UTF-8"]
    done = run_in(environment, tmp_path / "a", str(ROOT / "docs" / "generate.py"), "--check")
    assert done.returncode == 0, done.stderr.decode(errors="replace")


# ---------------------------------------------------------------------------------------------------------------- smoke


def test_smoke_suite_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> tuple[str, list[str]]:
        return "1 thing", ["it is \x1b broken"]

    def raising() -> tuple[str, list[str]]:
        raise KeyError("what")

    checks: dict[str, smoke.Check] = {"one": broken, "two": raising, "three": lambda: ("fine", [])}
    monkeypatch.setattr(smoke, "_PARTS", checks)
    assert smoke.main([]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    for name in ("numpy", "construct", "ml_dtypes", "blake3"):  # that a report of a fault should name
        assert f", {name} {metadata.version(name)}" in first
    assert lines == [
        "FAILED one: 1 thing",
        "       it is \\x1b broken",
        "FAILED two: stopped",
        "       KeyError: 'what'",
        "ok     three: fine",
        "something is wrong",
    ]
    assert smoke.main(["--json"]) == 1
    assert [part["faults"] for part in json.loads(capsys.readouterr().out)["parts"]] == [
        ["it is \x1b broken"],
        ["KeyError: 'what'"],
        [],
    ]
    monkeypatch.setattr(smoke, "_PARTS", {"three": checks["three"]})
    assert smoke.main([]) == 0
    assert capsys.readouterr().out.endswith("ok     three: fine\nall is well\n")


def test_parts_of_the_smoke_suite_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(name: str, part: str, module: object, replacement: Callable[..., object]) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, replacement)
            return list(smoke.try_part(part, smoke._PARTS[part]).faults)

    assert not smoke.try_part("distribution", smoke._PARTS["distribution"]).faults
    assert wrong("_names", "modules", smoke, lambda: ["ckptspec.nothing"]) == [
        "ckptspec.nothing: No module named 'ckptspec.nothing'"
    ]
    assert wrong("call", "mistakes", smoke, lambda words: (0, b"", b"")) != []
    outcomes = [("validate a", Outcome(status=1)), ("save", Outcome())]
    found = wrong("run", "operations", smoke, lambda: iter(outcomes))
    assert found[0].startswith("ckptspec validate a: exit status 1, expected 0")
    assert "no operation uses convert" in found
    assert build_parser().prog == "ckptspec"
    assert operations.expected_status(operations.COMMANDS[0][2:]) == 0
