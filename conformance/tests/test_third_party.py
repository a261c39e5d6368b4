"""Programs written apart from the reference, run as an outsider's would be: by the runner, over the whole suite.

That the plain decoder and the plain encoder pass says that the golden files agree with a second reading of the format.
That the decoder with a bug put in fails, in the way that the bug makes it fail, says that the suite finds such bugs.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ckptspec.conformance.adapters import BatchDecoder, CommandDecoder, CommandEncoder
from ckptspec.conformance.catalogue import Suite, load_suite
from ckptspec.conformance.outcome_report import RunResult, render_text
from ckptspec.conformance.runner import Options, Runner

HERE = Path(__file__).parent
EXAMPLES = HERE.resolve().parents[1] / "docs" / "adapters" / "python"


def command(script: str, *arguments: str) -> str:
    """Return the command that runs a script of this folder."""
    return shlex.join([sys.executable, str(HERE / script), *arguments])


@pytest.fixture(scope="module")
def suite() -> Suite:
    """The whole suite, which must not be empty for any of this to mean something."""
    suite = load_suite()
    assert sum(case.format == "oam" for case in suite.cases) > 100
    return suite


def assert_passes(run: RunResult) -> None:
    """Assert that every test passed, and show those that did not."""
    assert (run.exit_status, run.counts()["passed"]) == (0, len(run.results)), render_text(run)
    assert run.notes == ()


def test_plain_decoder_passes(suite: Suite) -> None:
    decoder = BatchDecoder(command("plain_oam_decoder.py", "--batch"))
    run = Runner(suite, decoder=decoder, options=Options(formats=("oam",))).run()
    assert {result.case.format for result in run.results} == {"oam", "any"}
    assert_passes(run)


@pytest.mark.parametrize("place", ["-", "{}"])
def test_plain_decoder_passes_one_file_at_a_time(suite: Suite, place: str) -> None:
    decoder = CommandDecoder(command("plain_oam_decoder.py", place))
    options = Options(formats=("oam",), filters=("oam/golden_dtype_*", "oam/bad_name_*"))
    run = Runner(suite, decoder=decoder, options=options).run()
    assert {result.case.verdict for result in run.results} == {"valid", "invalid"}
    assert_passes(run)


def test_plain_encoder_passes(suite: Suite) -> None:
    encoder = CommandEncoder(command("plain_oam_encoder.py"))
    run = Runner(suite, encoder=encoder, options=Options(formats=("oam",), strict=True)).run()
    assert {result.case.kind for result in run.results} == {"file", "document"}
    assert_passes(run)


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the documentation is not installed")
@pytest.mark.parametrize(
    ("place", "filters"), [("", ()), (" {}", ("oam/document_*", "oam/golden_dtype_*"))], ids=["stdout", "file"]
)
def test_example_encoder_passes(suite: Suite, place: str, filters: tuple[str, ...]) -> None:
    encoder = CommandEncoder(shlex.join([sys.executable, "-B", str(EXAMPLES / "encoder.py")]) + place)
    run = Runner(suite, encoder=encoder, options=Options(formats=("oam",), filters=filters, strict=True)).run()
    assert {(result.case.kind, result.case.verdict) for result in run.results} == {
        ("file", "valid"),
        ("document", "valid"),
        ("document", "invalid"),
    }
    assert_passes(run)


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the documentation is not installed")
def test_example_encoder_needs_its_strictness(suite: Suite, tmp_path: Path) -> None:
    """An ordinary JSON parser, which takes the last of two values, is not enough; the page says so."""
    strictness = ", object_pairs_hook=each_key_once"
    for name in ("encoder.py", "my_reader.py", "my_writer.py"):
        text = (EXAMPLES / name).read_text("utf-8")
        assert (strictness in text) == (name == "encoder.py")
        (tmp_path / name).write_text(text.replace(strictness, ""), "utf-8")
    encoder = CommandEncoder(shlex.join([sys.executable, "-B", str(tmp_path / "encoder.py")]))
    run = Runner(suite, encoder=encoder, options=Options(formats=("oam",), filters=("oam/document_raw_*",))).run()
    failed = {result.case.id: result.outcome for result in run.results if result.fatal}
    assert failed == {"oam/document_raw_duplicate_key": "accepted-invalid"}


@dataclass(frozen=True)
class Bug:
    """A bug of the wrong decoder: the outcomes it leads to, and a rule or a field that it is about."""

    name: str
    outcomes: frozenset[str]
    rule: str = ""
    path: str = ""


BUGS = [
    Bug("skip-checksum", frozenset({"accepted-invalid"}), rule="OAM-SEC-CHECKSUM"),
    Bug("accept-dup", frozenset({"accepted-invalid"}), rule="OAM-TEN-DUP"),
    Bug("extents", frozenset({"wrong-document"}), path=".shape"),
    # NaN and the infinities, written as numbers, are not even JSON.
    Bug("float-text", frozenset({"wrong-document", "garbage"}), path="learning_rate"),
    Bug("crash", frozenset({"crash"})),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_bug_is_found(suite: Suite, bug: Bug) -> None:
    decoder = BatchDecoder(command("plain_oam_decoder_wrong.py", "--bug", bug.name, "--batch"))
    run = Runner(suite, decoder=decoder, options=Options(formats=("oam",))).run()
    assert run.smoke is None
    assert run.exit_status == 1
    assert set(run.outcomes()) == bug.outcomes | {"pass"}
    failed = [result for result in run.results if result.fatal]
    if bug.rule:
        assert all(bug.rule in result.case.rules for result in failed)
    if bug.path:
        assert all(bug.path in result.difference.path for result in failed if result.difference)


def test_declared_lack_is_skipped(suite: Suite) -> None:
    """A decoder that cannot do quantized tensors, and says so, passes; what it skips is not counted as passed."""
    decoder = BatchDecoder(command("plain_oam_decoder_wrong.py", "--bug", "crash", "--batch"))
    run = Runner(suite, decoder=decoder, options=Options(formats=("oam",), skip_tags=("quantized",))).run()
    statuses = Counter(result.status for result in run.results)
    assert set(statuses) == {"passed", "skipped"}, render_text(run)
    assert statuses["skipped"] == sum("quantized" in result.case.tags for result in run.results)


def test_hang_is_found(suite: Suite) -> None:
    decoder = BatchDecoder(command("plain_oam_decoder_wrong.py", "--bug", "hang", "--batch"))
    names = ("oam/golden_minimal", "oam/golden_all_sections", "oam/bad_name_*")  # only the second has an optimizer
    options = Options(formats=("oam",), filters=names, timeout=1.0)
    without_optimizer = replace(suite, smoke={"oam": names[0]})
    run = Runner(without_optimizer, decoder=decoder, options=options).run()
    assert [result.case.id for result in run.results if result.outcome == "timeout"] == ["oam/golden_all_sections"]
    assert set(run.outcomes()) == {"pass", "timeout"}
