"""Matrices: result files are joined only if they fit, what is wrong shows in the right cells, and the page is safe."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import ckptspec
from ckptspec.conformance import matrix_command, matrix_examples
from ckptspec.conformance.adapters import CallableDecoder, CallableEncoder
from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.exchange import Party, SmokeError, consumers, exchange, producers
from ckptspec.conformance.judging import suite_tests
from ckptspec.conformance.matrix import Matrix, cell_text, matrix_of_runs, render_text
from ckptspec.conformance.matrix_page import render_html
from ckptspec.conformance.outcome_report import Result, RunResult
from ckptspec.conformance.run_files import load_run, parse_run
from ckptspec.conformance.runner import Options, add_arguments, main, reference_decoder, reference_encoder
from ckptspec.conformance.tests.browser import View, chromium, view
from ckptspec.conformance.tests.test_runner import Fakes, Small, document, fakes, small
from ckptspec.errors import ArgumentError
from ckptspec.spec.rules import RULES

__all__ = ["chromium", "fakes", "small", "view"]  # fixtures

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def reference_run(small: Small, name: str = "ckptspec") -> RunResult:
    return replace(small.run(decoder=reference_decoder(), encoder=reference_encoder()), name=name)


def run_of(small: Small, name: str, decode: Callable[[bytes], Any], **options: Any) -> RunResult:
    """Run a decoder in this process."""
    return replace(small.run(decoder=CallableDecoder(decode, f"the decoder {name}"), **options), name=name)


def careless(data: bytes) -> Any:
    """Decode; but accept what is bad, take one file for another, and crash at a third."""
    if data == b"bad":
        return {"format": "oam"}
    if data == b"free":
        return {"format": "oam", "whatever": 1}
    if data == b"":
        raise RuntimeError(HOSTILE)
    made = ckptspec.decode(data)
    if made["version"] == 1:
        made["config"]["architecture"] = HOSTILE
    return made


@pytest.fixture(scope="module")
def runs(small: Small) -> list[RunResult]:
    return [reference_run(small), run_of(small, "careless", careless)]


@pytest.fixture(scope="module")
def matrix(small: Small, runs: list[RunResult]) -> Matrix:
    return matrix_of_runs(runs, small.suite)


def cells(matrix: Matrix, row_id: str) -> list[str]:
    """Return the texts of a row's cells."""
    row = next(row for row in matrix.rows if row.id == row_id)
    return [cell_text(matrix, cell) for cell in matrix.cells(row)]


# --- result files ---------------------------------------------------------------------------------------------------


def as_json(run: RunResult) -> Any:
    return json.loads(json.dumps(run.to_json()))


def test_a_run_comes_back_from_its_file(small: Small, runs: list[RunResult], tmp_path: Path) -> None:
    for run in runs:
        (tmp_path / "run.json").write_text(json.dumps(run.to_json(), indent=2))
        again = load_run(tmp_path / "run.json", small.suite)
        assert again.to_json() == run.to_json()
        assert matrix_of_runs([again], small.suite).to_json() == matrix_of_runs([run], small.suite).to_json()


def changed(value: Any, path: str, new: Any) -> Any:
    *before, last = path.split(".")
    part = value
    for key in before:
        part = part[int(key)] if isinstance(part, list) else part[key]
    if new is ...:
        del part[last]
    else:
        part[int(last) if isinstance(part, list) else last] = new
    return value


@pytest.mark.parametrize(
    ("path", "new", "told"),
    [
        ("suite", "0.2", "run.suite: found '0.2', but this is version 0.1"),
        ("protocol", "9", "run.protocol: found '9', but this is version 1"),
        ("suite", ..., "run: missing key 'suite'"),
        ("smoke", {}, "run.smoke: the smoke case failed: there are no results"),
        ("results", [], "run.results: there are no results"),
        ("results", {}, "run.results: found dict of 0, expected an array"),
        ("results.0", 1, "run.results[0]: found 1, expected an object"),
        ("results.0.id", "decode:oam/nothing", "run.results[0].id: the suite has no test 'decode:oam/nothing'"),
        ("results.1.id", "decode:oam/good", "run.results[1].tags: 'decode:oam/good' is another test in this suite"),
        ("results.0.verdict", "invalid", "run.results[0].verdict: 'decode:oam/good' is another test in this suite"),
        ("results.0.status", "great", "run.results[0].status: found 'great'; there are passed, failed, stale"),
        ("results.0.outcome", "crash", "run.results[0]: the outcome 'crash' cannot count as 'passed'"),
        ("results.0.outcome", None, "run.results[0]: the outcome None cannot count as 'passed'"),
        ("results.0.happened", 3, "run.results[0].happened: found 3, expected text"),
        ("results.0.accepted", 1, "run.results[0].accepted: found 1, expected true or false"),
        ("name", "a\nb", "a name has 1 to 40 printable characters and no backslash, found 'a\\\\nb'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    small: Small, runs: list[RunResult], tmp_path: Path, path: str, new: Any, told: str
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(changed(as_json(runs[0]), path, new)))
    with pytest.raises(ArgumentError) as caught:
        load_run(tmp_path / "run.json", small.suite)
    assert str(caught.value).startswith(f"{tmp_path}/run.json: not a result file of this suite: {told}")


ANYTHING: tuple[Any, ...] = (None, True, 1, 1.5, "x", "\ud800\x1b", [], ["\n"], [[]], {}, {"a": 1})


def test_whatever_stands_in_a_file_is_taken_or_refused(small: Small, runs: list[RunResult]) -> None:
    """Any value in any place gives a run that can be shown, or an ArgumentError."""
    value = as_json(runs[1])
    at = next(number for number, row in enumerate(value["results"]) if row["difference"])
    places = [*value, *(f"results.{at}.{key}" for key in value["results"][at])]
    places += [f"results.{at}.difference.{key}" for key in ("path", "expected", "found")]
    taken = 0
    for place in places:
        for new in ANYTHING:
            try:
                run = parse_run(changed(as_json(runs[1]), place, new), small.suite)
            except ArgumentError:
                continue
            taken += 1
            text = render_text(matrix_of_runs([run], small.suite))
            assert "\x1b" not in text
            text.encode()
    assert 0 < taken < len(places) * len(ANYTHING)


def test_a_test_twice_is_refused(small: Small, runs: list[RunResult]) -> None:
    value = as_json(runs[0])
    value["results"].append(value["results"][0])
    with pytest.raises(ArgumentError, match="'decode:oam/good' stands there twice"):
        parse_run(value, small.suite)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1", b"[]", b"[" * 100_000])
def test_what_is_no_result_file_at_all(small: Small, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ArgumentError, match="not a result file of this suite"):
        load_run(tmp_path / "x", small.suite)


def test_text_of_a_file_is_escaped_and_cut(small: Small, runs: list[RunResult]) -> None:
    value = changed(as_json(runs[0]), "results.0.happened", "\x1b[31m\u202e \\x1b " + "x" * 10_000)
    value["results"][0]["printed"] = ["\x00"] * 1000
    result = parse_run(value, small.suite).results[0]
    assert result.happened.startswith("\\x1b[31m\\u202e ")
    assert len(result.happened) == 2000
    assert result.printed == ("\\x00",) * 16
    escaped = changed(as_json(runs[0]), "results.0.happened", "a \\x1b that was escaped when it was made")
    assert parse_run(escaped, small.suite).results[0].happened == "a \\x1b that was escaped when it was made"


# --- implementations × cases ----------------------------------------------------------------------------------------


def test_what_is_wrong_stands_in_its_cells(matrix: Matrix) -> None:
    assert [column.name for column in matrix.columns] == ["ckptspec", "careless"]
    assert cells(matrix, "decode:oam/good") == ["accepts", "accepts"]
    assert cells(matrix, "decode:oam/bad") == ["refuses", "accepted invalid"]
    assert cells(matrix, "decode:oam/old") == ["accepts", "wrong document"]
    assert cells(matrix, "decode:any/nothing") == ["refuses", "crash"]
    assert cells(matrix, "decode:oam/free") == ["refuses", "accepts"]
    assert cells(matrix, "encode:oam/text") == ["writes", "not asked"]
    assert cells(matrix, "encode:oam/badtext") == ["refuses", "not asked"]
    wrong = {row.id for row in matrix.rows if matrix.differs(row)}
    assert wrong == {"decode:oam/bad", "decode:oam/old", "decode:any/nothing", "decode:oam/free"}
    assert (matrix.exit_status, [column.conforms for column in matrix.columns]) == (1, [True, False])


def test_rows_stand_in_the_order_of_the_suite(small: Small, runs: list[RunResult]) -> None:
    backwards = [replace(run, results=run.results[::-1]) for run in runs[::-1]]
    rows = [row.id for row in matrix_of_runs(backwards, small.suite).rows]
    assert rows == [test.id for test in suite_tests(small.suite)]


def test_summary_for_people(matrix: Matrix) -> None:
    assert (
        render_text(matrix)
        == """\
ckptspec conformance suite 0.1, protocol 1

implementation  passed  failed  not asked
ckptspec            14       0          0
careless             6       3          5

4 rows of 14 in which not all did the same:
  test                verdict     ckptspec  careless
  decode:oam/old      valid       accepts   wrong document
  decode:oam/bad      invalid     refuses   accepted invalid
  decode:oam/free     acceptable  refuses   accepts
  decode:any/nothing  invalid     refuses   crash
not conformant: careless
"""
    )


def test_json(matrix: Matrix) -> None:
    made = json.loads(json.dumps(matrix.to_json(), allow_nan=False))
    assert (made["kind"], made["suite"], made["exit_status"], made["pairs"]) == ("runs", "0.1", 1, [])
    assert made["columns"][1]["counts"]["failed"] == 3
    assert made["columns"][1]["outcomes"] == {"pass": 6, "wrong-document": 1, "accepted-invalid": 1, "crash": 1}
    row = next(row for row in made["rows"] if row["id"] == "decode:oam/old")
    assert row["differs"] is True
    assert row["results"]["careless"]["difference"]["path"].startswith("config.architecture")
    assert row["results"]["ckptspec"]["outcome"] == "pass"


def test_runs_of_one_name_make_one_column(small: Small) -> None:
    decoder = replace(small.run(decoder=reference_decoder()), name="mine")
    encoder = replace(small.run(encoder=reference_encoder()), name="mine")
    made = matrix_of_runs([decoder, encoder], small.suite)
    assert [(column.name, len(column.results), len(column.about)) for column in made.columns] == [("mine", 14, 2)]
    with pytest.raises(ArgumentError, match="two runs are called 'mine', and both have decode:oam/good: give --name"):
        matrix_of_runs([decoder, decoder], small.suite)
    with pytest.raises(ArgumentError, match="no run"):
        matrix_of_runs([], small.suite)


def test_files_of_no_format_go_to_all_decoders_of_a_name(small: Small) -> None:
    """Each format's decoder gets them; the column shows the one that failed, whatever the order."""
    good, bad = (run_of(small, "mine", decode, filters=("any/*",)) for decode in (ckptspec.decode, careless))
    for pair in ([good, bad], [bad, good]):
        made = matrix_of_runs(pair, small.suite)
        assert cells(made, "decode:any/nothing") == ["crash"]
        assert made.exit_status == 1


def test_of_a_single_run_the_rows_that_did_not_pass_are_told(small: Small, runs: list[RunResult]) -> None:
    made = matrix_of_runs(runs[1:], small.suite)
    assert {row.id for row in made.rows if made.differs(row)} == {
        "decode:oam/bad",
        "decode:oam/old",
        "decode:any/nothing",
    }


# --- producers × consumers ------------------------------------------------------------------------------------------


def lying(given: Any) -> bytes:
    """Write; but refuse one document, write another one instead of a second, and no file at all for a third."""
    if given["version"] == 1:
        raise ArgumentError("too old")
    if given["progress"]["phase"] == 1:
        return ckptspec.encode(document(phase=7))
    if given["progress"]["phase"] == 3:
        return b"no file"
    return ckptspec.encode(given)


def misreading(data: bytes) -> Any:
    made = ckptspec.decode(data)
    if made["progress"]["phase"] == 3:
        raise RuntimeError(HOSTILE)
    return made


def party(name: str, call: Callable[[Any], Any], *, writes: bool = False, formats: tuple[str, ...] = ()) -> Party:
    return Party(
        name=name, adapter=(CallableEncoder if writes else CallableDecoder)(call, f"{name}'s"), formats=formats
    )


@pytest.fixture(scope="module")
def exchanged(small: Small) -> Matrix:
    writing = [Party(name="ckptspec", adapter=reference_encoder()), party("liar", lying, writes=True)]
    reading = [Party(name="ckptspec", adapter=reference_decoder()), party("reader", misreading)]
    return exchange(small.suite, writing, reading, vectors=small.vectors)


def test_a_disagreement_is_found_where_it_was_planted(exchanged: Matrix) -> None:
    assert [column.name for column in exchanged.columns] == ["writes", "ckptspec", "reader"]
    assert {row.id: cells(exchanged, row.id) for row in exchanged.rows} == {
        "ckptspec/oam/good": ["writes", "same", "same"],
        "ckptspec/oam/other": ["writes", "same", "same"],
        "ckptspec/oam/old": ["writes", "same", "same"],
        "ckptspec/oam/text": ["writes", "same", "crash"],
        "liar/oam/good": ["writes", "same", "same"],
        "liar/oam/other": ["writes", "wrong document", "wrong document"],
        "liar/oam/old": ["refused", "not asked", "not asked"],
        "liar/oam/text": ["writes", "rejected valid", "rejected valid"],
    }
    assert exchanged.exit_status == 1
    assert [tuple(pair.to_json().values()) for pair in exchanged.pairs()] == [
        ("ckptspec", "ckptspec", 4, 0, 0, 0, 0),
        ("ckptspec", "reader", 3, 0, 0, 1, 0),
        ("liar", "ckptspec", 1, 1, 1, 0, 1),
        ("liar", "reader", 1, 1, 1, 0, 1),
    ]
    assert [pair.agrees for pair in exchanged.pairs()] == [True, False, False, False]
    text = render_text(exchanged)
    assert "liar        reader       1      1        1       0          1\nliar wrote 3 of 4 documents\n" in text
    assert text.endswith("\nnot all agree\n")


def test_all_agree(small: Small) -> None:
    writing = [Party(name="ckptspec", adapter=reference_encoder())]
    made = exchange(small.suite, writing, [party("it", ckptspec.decode)], vectors=small.vectors)
    assert (made.exit_status, len(made.rows)) == (0, 4)
    assert render_text(made).endswith("\nall agree\n")


def test_a_refusal_that_the_suite_allows_is_told_and_does_not_fail(small: Small) -> None:
    """An acceptable document may be refused by whoever writes and whoever reads; what is read must be right."""
    suite = replace(
        small.suite,
        cases=tuple(
            replace(case, verdict="acceptable") if case.kind == "document" else case for case in small.suite.cases
        ),
    )

    def choosy(data: bytes) -> Any:
        made = ckptspec.decode(data)
        if made["progress"]["phase"] == 3:
            raise ArgumentError("not mine")
        return made

    writing = [Party(name="ckptspec", adapter=reference_encoder())]
    made = exchange(suite, writing, [party("choosy", choosy)], vectors=small.vectors)
    assert cells(made, "ckptspec/oam/text") == ["writes", "refuses"]
    assert cells(made, "ckptspec/oam/badtext") == ["refuses", "not asked"]
    assert made.exit_status == 0
    assert render_text(made).endswith("\nno disagreement that the suite does not allow\n")
    liar = party("liar", lambda _: ckptspec.encode(document()), writes=True)
    wrong = exchange(suite, [liar], [Party(name="ckptspec", adapter=reference_decoder())], vectors=small.vectors)
    assert cells(wrong, "liar/oam/text") == ["writes", "wrong document"]
    assert wrong.exit_status == 1


def test_options_hold_for_both_sides(small: Small) -> None:
    writing, reading = [party("it", ckptspec.encode, writes=True)], [party("it", ckptspec.decode)]
    options = Options(filters=("oam/o*",), skip_tags=("old",), formats=("oam",))
    made = exchange(small.suite, writing, reading, options=options, vectors=small.vectors)
    assert {row.id: cells(made, row.id) for row in made.rows} == {
        "it/oam/other": ["writes", "same"],
        "it/oam/old": ["skipped", "not asked"],
    }
    for wrong, told in ((Options(formats=("zip",)), "no format 'zip'"), (Options(skip_tags=("x",)), "no tag 'x'")):
        with pytest.raises(ArgumentError, match=told):
            exchange(small.suite, writing, reading, options=wrong, vectors=small.vectors)
    with pytest.raises(ArgumentError, match="no case is left to run"):
        exchange(small.suite, writing, reading, options=Options(filters=("zip/*",)), vectors=small.vectors)


def test_a_broken_adapter_is_told_apart(small: Small) -> None:
    def broken(_: bytes) -> Any:
        raise RuntimeError("no such library")

    with pytest.raises(SmokeError, match="the consumer broken does not work") as caught:
        exchange(
            small.suite, [party("it", ckptspec.encode, writes=True)], [party("broken", broken)], vectors=small.vectors
        )
    assert "no such library" in "\n".join(caught.value.failure.lines())


@pytest.mark.parametrize(
    ("writing", "reading", "told"),
    [
        ([], ["ckptspec"], "there is no producer: give --producer NAME=COMMAND"),
        (["ckptspec"], [], "there is no consumer: give --consumer NAME=COMMAND"),
        (["ckptspec", "ckptspec"], ["ckptspec"], "two producers of a format are called 'ckptspec'"),
        (["ckptspec"], ["ckptspec:oam", "ckptspec"], "two consumers of a format are called 'ckptspec'"),
        (["ckptspec:zip"], ["ckptspec"], "producer ckptspec: the suite has no format 'zip'"),
        (["ckptspec"], ["writes=cat"], "nobody can be called 'writes'"),
        (["other"], ["ckptspec"], "expected NAME=COMMAND or NAME:FORMAT,...=COMMAND, or ckptspec; found 'other'"),
        (["=cat"], ["ckptspec"], "a name has 1 to 40 printable characters and no backslash, found ''"),
        (["\x1b=cat"], ["ckptspec"], r"a name has 1 to 40 printable characters and no backslash, found '\\x1b'"),
    ],
)
def test_parties_that_cannot_be(small: Small, writing: list[str], reading: list[str], told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        exchange(small.suite, producers(writing), consumers(reading), vectors=small.vectors)
    assert str(caught.value).replace("\\\\", "\\") == told.replace("\\\\", "\\")


# --- the command line -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandLine:
    """Runs ``conform`` and ``matrix`` on the small suite."""

    small: Small
    capsys: pytest.CaptureFixture[str]

    def _run(self, add: Any, run: Any, words: tuple[str, ...]) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        add(parser)
        try:
            status = run(parser.parse_args(words), self.small.suite, self.small.vectors)
        except SystemExit as stop:
            status = int(str(stop.code))
        return (status, *self.capsys.readouterr())

    def conform(self, *words: str) -> tuple[int, str, str]:
        return self._run(add_arguments, main, words)

    def matrix(self, *words: str) -> tuple[int, str, str]:
        return self._run(matrix_command.add_arguments, matrix_command.main, words)


@pytest.fixture
def command(small: Small, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(small, capsys)


def data_of(text: str) -> Any:
    """Return the data of a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(found)


def test_cli_from_runs_to_a_page(command: CommandLine, fakes: Fakes, tmp_path: Path) -> None:
    decoder = fakes.command("batch", told={"oam/bad": "accept"})
    files = [str(tmp_path / name) for name in ("one.json", "two.json")]
    assert command.conform("--json", files[0], "--html", str(tmp_path / "one.html"))[0] == 0
    words = ("--decoder", decoder, "--batch", "--name", "theirs", "--json", files[1])
    assert command.conform(*words)[0] == 1
    assert data_of((tmp_path / "one.html").read_text())["columns"][0]["name"] == "ckptspec"
    page, table = tmp_path / "matrix.html", tmp_path / "matrix.json"
    status, out, err = command.matrix(*files, "--html", str(page), "--json", str(table))
    assert (status, err) == (1, "")
    assert out.endswith("not conformant: theirs\n")
    data = data_of(page.read_text())
    assert [column["name"] for column in data["columns"]] == ["ckptspec", "theirs"]
    at = data["ids"].index("decode:oam/bad")
    assert [column[at][1] for column in data["cells"]] == ["pass", "accepted-invalid"]
    differing = [row["id"] for row in json.loads(table.read_text())["rows"] if row["differs"]]
    assert differing == ["decode:oam/bad", "decode:oam/open"]  # the latter is acceptable
    status, out, err = command.matrix(files[0], "--json", "-")
    assert (status, json.loads(out)["exit_status"]) == (0, 0)
    assert err.endswith("all conformant\n")


def test_cli_exchange_of_commands(command: CommandLine, fakes: Fakes, tmp_path: Path) -> None:
    parties = [f"--producer=mine:oam={fakes.command('encode', told={'oam/other': 'reject'})}", "--producer=ckptspec"]
    reading = [
        f"--consumer=mine={fakes.command('decode', place='{}', told={'oam/old': 'edit:tiny/huge'})}",
        f"--batch-consumer=batch={fakes.command('batch')}",
    ]
    page = tmp_path / "exchange.html"
    status, out, err = command.matrix(*parties, *reading, "--jobs", "2", "--html", str(page))
    assert (status, err) == (1, "")
    assert "mine wrote 3 of 4 documents\n" in out
    data = data_of(page.read_text())
    shown = {name: [column[at] for column in data["cells"]] for at, name in enumerate(data["ids"])}
    outcomes = {name: [cell and cell[1] for cell in row] for name, row in shown.items()}
    assert outcomes == {
        "mine/oam/good": ["pass", "pass", "pass"],
        "mine/oam/other": ["refused", None, None],
        "mine/oam/old": ["pass", "wrong-document", "pass"],
        "mine/oam/text": ["pass", "crash", "crash"],  # the fake decoders know the golden files only
        "ckptspec/oam/good": ["pass", "pass", "pass"],
        "ckptspec/oam/other": ["pass", "pass", "pass"],
        "ckptspec/oam/old": ["pass", "wrong-document", "pass"],
        "ckptspec/oam/text": ["pass", "crash", "crash"],
    }
    by_hand = [cell[6].get("by_hand", "") for cell in shown["mine/oam/old"]]
    assert by_hand[0].endswith("old.json' > encoded.bin")
    assert by_hand[1].endswith("encoded.bin oam/old=edit:tiny/huge")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "ckptspec: give result files that conform --json wrote, or --producer and --consumer\n"),
        (["x.json", "--producer", "ckptspec"], "ckptspec: give either result files, or producers and consumers\n"),
        (["x", "--format", "oam"], "ckptspec: --format is for producers and consumers: the runs were made before\n"),
        (["x", "--skip-tag", "a"], "ckptspec: --skip-tag is for producers and consumers: the runs were made before\n"),
        (["--producer", "ckptspec"], "ckptspec: there is no consumer: give --consumer NAME=COMMAND\n"),
        (["x", "--json", "-", "--html", "-"], "ckptspec: --json and --html cannot go to the same place\n"),
        (
            ["--producer", "a=no-such-x", "--consumer", "ckptspec"],
            "ckptspec: the encoder command is not found or not executable: no-such-x\n",
        ),
        (["--timeout", "0"], "expected a positive number of seconds, found 0\n"),
    ],
)
def test_cli_usage(command: CommandLine, words: list[str], told: str) -> None:
    status, out, err = command.matrix(*words)
    assert (status, out) == (2, "")
    assert err.endswith(told)


def test_cli_says_why_a_party_does_not_work(command: CommandLine) -> None:
    status, out, err = command.matrix("--producer", "ckptspec", "--consumer", "mine=false")
    assert (status, out) == (2, "")
    assert err.startswith("ckptspec: the consumer mine does not work\nThe smoke case decode:oam/good failed")


def test_cli_names_of_runs(command: CommandLine, tmp_path: Path) -> None:
    status, _, err = command.conform("--name", "a\tb")
    assert status == 2
    assert "a name has 1 to 40 printable characters" in err
    path = tmp_path / "smoke.html"
    assert command.conform("--decoder", "false", "--html", str(path))[0] == 2
    data = data_of(path.read_text())
    assert (data["exit"], data["rows"]) == (2, [])
    assert data["columns"][0]["smoke"][0] == "The smoke case decode:oam/good failed, so no other case was run."


# --- the page -------------------------------------------------------------------------------------------------------


def test_page_has_the_sentences_of_rules(matrix: Matrix) -> None:
    data = data_of(render_html(matrix, rule_link=lambda rule: f"x#{rule}"))
    assert data["rules"]["OAM-HDR-MAGIC"]["sentence"] == RULES["OAM-HDR-MAGIC"].sentence
    assert data["rules"]["OAM-HDR-MAGIC"]["link"] == "x#OAM-HDR-MAGIC"


def test_hostile_text_is_data_and_nothing_else(small: Small, matrix: Matrix) -> None:
    column = replace(matrix.columns[1], name=HOSTILE, notes=(HOSTILE,), about=(HOSTILE,))
    text = render_html(replace(matrix, columns=(matrix.columns[0], column)))
    assert "<img" not in text
    assert text.count("<script") == 3  # the data, the shell, the page
    assert data_of(text)["columns"][1]["name"] == HOSTILE


def large(columns: int) -> Matrix:
    """A matrix of the whole suite, in which the last of some implementations fails at every 50th test."""
    suite = load_suite()
    runs = []
    for number in range(columns):
        wrong = number == columns - 1
        results = [
            Result(
                direction=test.direction,
                case=test.case,
                outcome="crash" if wrong and at % 50 == 7 else "pass",
                status="failed" if wrong and at % 50 == 7 else "passed",
                expected="the expected document",
                happened=f"happened to {number} at {at}",
                accepted=test.case.verdict == "valid",
                printed=(HOSTILE,) if wrong else (),
                by_hand="./adapter < file" if wrong else "",
            )
            for at, test in enumerate(suite_tests(suite))
        ]
        name = f"implementation {number}"
        runs.append(
            RunResult(
                name=name,
                suite_version=suite.suite_version,
                protocol_version=suite.protocol_version,
                decoder=name,
                encoder=None,
                strict=False,
                partial=False,
                results=tuple(results),
            )
        )
    return matrix_of_runs(runs, suite)


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "matrix.html"
    path.write_text(render_html(large(8), rule_link=lambda rule: f"rules.html#{rule}"))
    return path


def test_browser_filters_and_shows_cases(view: View, large_page: Path) -> None:
    page = view.open(large_page)
    total = len(suite_tests(load_suite()))
    assert page.inner_text("#verdict").endswith("1 of 8 implementations does not conform.")
    assert page.inner_text("#shown") == f"{total:,} of {total:,} rows"
    assert 10 < page.locator("#grid tr.case").count() < 80  # however many there are
    page.check("#f-differs")
    wrong = len(range(7, total, 50))
    assert page.inner_text("#shown") == f"{wrong} of {total:,} rows"
    page.select_option("#f-format", "oam")
    page.select_option("#f-verdict", "invalid")
    page.fill("#f-rule", "oam-ten")
    rows = page.locator("#grid tr.case")
    assert 0 < rows.count() < wrong
    assert all(text.startswith("decode:oam/") for text in rows.locator("th").all_inner_texts())
    assert "✗ crash" in rows.first.inner_text()
    rows.first.click()
    detail = page.inner_text("#detail")
    assert "happened to 7 at" in detail
    assert "</script><img src=x onerror=alert(1)>" in detail
    assert "./adapter < file" in detail
    assert (page.get_attribute("#detail .card a", "href") or "").startswith("rules.html#OAM-TEN-")
    page.click("#reset")
    assert page.inner_text("#shown") == f"{total:,} of {total:,} rows"
    page.fill("#f-search", "no such words")
    assert page.inner_text("#grid .nothing") == "No case fits these filters."


def test_browser_counts_lead_to_their_cases(view: View, large_page: Path) -> None:
    page = view.open(large_page)
    total = len(suite_tests(load_suite()))
    page.click("#summary button.chip.bad")
    assert page.inner_text("#shown") == f"{len(range(7, total, 50))} of {total:,} rows"
    assert page.input_value("#f-outcome") == "o:crash"
    assert page.input_value("#f-column") == "7"


def test_browser_is_used_by_keys_and_addresses(view: View, large_page: Path) -> None:
    page = view.open(large_page)
    ids = [test.id for test in suite_tests(load_suite())]
    page.focus("#grid")
    chosen = page.locator("#grid tr[aria-selected='true'] th")
    for key, at in (("ArrowDown", 0), ("ArrowDown", 1), ("End", len(ids) - 1), ("ArrowUp", len(ids) - 2), ("Home", 0)):
        page.keyboard.press(key)
        assert chosen.inner_text() == ids[at]
        assert chosen.is_visible()
    page.keyboard.press("Escape")
    assert page.is_hidden("#detail")
    page.keyboard.press("End")
    assert page.inner_text("#detail h3") == ids[-1].partition(":")[2]
    assert page.locator("#grid tr.case").count() < 80
    address = page.url
    assert address.endswith("#test=" + ids[-1].replace(":", "%3A").replace("/", "%2F"))
    view.requests.clear()
    page.goto("about:blank")
    view.requests.clear()
    page.goto(address)
    assert chosen.inner_text() == ids[-1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_narrow(view: View, large_page: Path, scheme: Any) -> None:
    page = view.open(large_page)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 380, "height": 700})
    page.fill("#f-search", "golden_minimal")
    page.click("#grid tr.case")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("Math.max(...[...document.querySelectorAll('#tools select')].map((x) => x.offsetHeight)) < 50")
    assert page.inner_text("#detail h3").endswith("golden_minimal")


def test_browser_exchange(view: View, exchanged: Matrix, tmp_path: Path) -> None:
    path = tmp_path / "exchange.html"
    path.write_text(render_html(exchanged))
    page = view.open(path)
    assert page.inner_text("#verdict").endswith("Not all agree.")
    page.click("#summary tr:nth-child(2) >> text=1 other >> nth=0")
    assert page.inner_text("#shown") == "1 of 8 rows"
    page.click("#grid tr.case")
    assert page.inner_text("#grid tr.case th") == "liar/oam/other"
    assert "progress.phase" in page.inner_text("#detail")
    page.select_option("#f-outcome", "r:broken")
    page.select_option("#f-column", "")
    page.select_option("#f-group", "")
    assert page.inner_text("#grid tr.case th") == "ckptspec/oam/text"
    assert page.inner_text("#grid tr.case td >> nth=-1") == "✗ crash"


def test_browser_smoke_failure(view: View, small: Small, tmp_path: Path) -> None:
    def broken(_: bytes) -> Any:
        raise RuntimeError(HOSTILE)

    path = tmp_path / "smoke.html"
    path.write_text(render_html(matrix_of_runs([run_of(small, "broken", broken)], small.suite)))
    page = view.open(path)
    assert "The smoke case decode:oam/good failed" in page.inner_text("#summary")
    assert page.is_hidden("#cases")


# --- the documentation's own ----------------------------------------------------------------------------------------


def test_matrices_of_the_documentation() -> None:
    """A part of them, in which the faulty decoders err."""
    options = Options(filters=("oam/bad_name_twice", "oam/golden_rank_*", "*/golden_minimal"))
    made = matrix_examples.decoders_matrix(options=options)
    conforming = {column.name: column.conforms for column in made.columns}
    assert [name for name, conforms in conforming.items() if not conforms] == [
        "faulty: takes a name twice",
        "faulty: pads shapes",
    ]
    assert {"ckptspec", "plain"} <= conforming.keys()
    exchanged = matrix_examples.exchange_matrix(options=options)
    disagreeing = {pair.consumer for pair in exchanged.pairs() if not pair.agrees}
    assert disagreeing == {"faulty: pads shapes"}
    assert all(pair.same for pair in exchanged.pairs() if pair.agrees)
    for matrix in (made, exchanged):
        assert str(Path(matrix_examples.__file__).resolve().parent) not in render_html(matrix)
