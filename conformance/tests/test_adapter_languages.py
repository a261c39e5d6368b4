"""The decoders of the documentation in C, C++, Rust and OCaml: compiled as the page says, with warnings as errors."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from ckptspec.conformance.adapters import CommandDecoder
from ckptspec.conformance.catalogue import Suite, load_suite
from ckptspec.conformance.differential.comparing import Comparison
from ckptspec.conformance.differential.inputs import GeneratedFile, generated_files
from ckptspec.conformance.differential.languages import ADAPTERS, LANGUAGES, Language, compiled, language_reading
from ckptspec.conformance.differential.readings import MissingReadingError, reference
from ckptspec.conformance.outcome_report import render_text
from ckptspec.conformance.runner import Options, Runner

PAGE = ADAPTERS / "README.md"
FULL = Path("/dev/full")  # every write to it fails

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_adapter(language: Language, tmp_path: Path) -> None:
    """One test for each language, so that each is compiled once, however the tests are spread over processes."""
    try:
        program = compiled(language, tmp_path / "adapter")
    except MissingReadingError as error:
        pytest.skip(str(error))
    check_agrees(language, program)
    if language.name == "c":  # test_adapters does the rest
        return
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


def check_agrees(language: Language, program: str) -> None:
    """Check that the adapter reads generated files as the reference does."""
    comparison = Comparison([reference(), language_reading(language, program)])

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(generated_files(language.format))
    def agree(file: GeneratedFile) -> None:
        assert comparison.ask(language.format, file.data) == []

    agree()
