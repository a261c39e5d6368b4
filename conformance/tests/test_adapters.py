"""The adapter examples of the documentation: they work as shown, and the README shows them as they are."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ckptspec.conformance.adapters import Adapter, BatchDecoder, CommandDecoder
from ckptspec.conformance.catalogue import Case, Suite, load_suite
from ckptspec.conformance.outcome_report import RunResult, render_text
from ckptspec.conformance.runner import Options, Runner

ROOT = Path(__file__).resolve().parents[2]
C = ROOT / "docs" / "adapters" / "c"
PYTHON = ROOT / "docs" / "adapters" / "python"
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not C.is_dir(), reason="the documentation is not installed")

COMPILER = shutil.which("cc") or shutil.which("gcc")
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")


@pytest.fixture(scope="module")
def suite() -> Suite:
    """The whole suite, which must not be empty for any of this to mean something."""
    suite = load_suite()
    assert len(files(suite)) > 200
    return suite


def files(suite: Suite) -> list[Case]:
    """Return the cases that a decoder of .oam files gets."""
    return [case for case in suite.cases if case.kind == "file" and case.format in ("oam", "any")]


@pytest.fixture(scope="module")
def c_adapter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command that runs the C adapter, once it is compiled."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    program = str(tmp_path_factory.mktemp("adapter") / "oam-adapter")
    sources = [str(C / name) for name in ("adapter.c", "my_reader.c")]
    compiled = subprocess.run([COMPILER, *FLAGS, "-o", program, *sources], capture_output=True, text=True, check=False)
    assert (compiled.returncode, compiled.stderr) == (0, "")
    return shlex.quote(program)


@pytest.fixture(scope="module")
def python_adapter() -> str:
    """The command that runs the Python adapter."""
    return shlex.join([sys.executable, "-B", str(PYTHON / "adapter.py")])


def assert_conforms(suite: Suite, decoder: Adapter, *filters: str) -> RunResult:
    """Assert that every test passes, and show those that do not."""
    run = Runner(suite, decoder=decoder, options=Options(formats=("oam",), filters=filters, strict=True)).run()
    assert run.results
    assert (run.exit_status, run.counts()["passed"]) == (0, len(run.results)), render_text(run)
    assert run.notes == ()
    return run


def test_c_adapter_conforms(suite: Suite, c_adapter: str) -> None:
    run = assert_conforms(suite, CommandDecoder(f"{c_adapter} {{}}"))
    assert [result.case.id for result in run.results] == [case.id for case in files(suite)]


def test_python_adapter_conforms(suite: Suite, python_adapter: str) -> None:
    run = assert_conforms(suite, BatchDecoder(f"{python_adapter} --batch"))
    assert [result.case.id for result in run.results] == [case.id for case in files(suite)]


@pytest.mark.parametrize("place", ["", " {}"], ids=["stdin", "file"])
@pytest.mark.parametrize("adapter", ["c_adapter", "python_adapter"])
def test_one_file_at_a_time(suite: Suite, adapter: str, place: str, request: pytest.FixtureRequest) -> None:
    command = request.getfixturevalue(adapter) + place
    run = assert_conforms(suite, CommandDecoder(command), "oam/golden_dtype_*", "oam/bad_name_*")
    assert {result.case.verdict for result in run.results} == {"valid", "invalid"}


@pytest.mark.parametrize("adapter", ["c_adapter", "python_adapter"])
def test_open_questions(suite: Suite, adapter: str, request: pytest.FixtureRequest) -> None:
    """Where readers may differ, the examples do what this specification decided."""
    cases = [case for case in files(suite) if case.verdict == "acceptable"]
    assert cases
    command = shlex.split(request.getfixturevalue(adapter))
    for case in cases:
        done = subprocess.run(command, input=case.read(), capture_output=True, check=False)
        expected, found = case.read_expected(), json.loads(done.stdout)
        assert done.returncode == (1 if "error" in expected else 0), case.id
        assert found.keys() == {"error"} if "error" in expected else found == expected, case.id


@pytest.mark.parametrize("adapter", ["c_adapter", "python_adapter"])
def test_unreadable_file_is_no_verdict(adapter: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    command = shlex.split(request.getfixturevalue(adapter))
    for path in (tmp_path / "absent.oam", tmp_path):
        done = subprocess.run([*command, str(path)], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr


@pytest.mark.skipif(not README.is_file(), reason="the README is not installed")
@pytest.mark.parametrize(("language", "path"), [("c", C / "adapter.c"), ("python", PYTHON / "adapter.py")])
def test_readme_shows_adapter(language: str, path: Path) -> None:
    text = README.read_text("utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = [block for block in blocks if path.name in block.split("\n", 1)[0]]
    assert shown == [path.read_text("utf-8")]
