"""Mutation of the project: all checks of rules are killed, and the harness can tell what is killed from what is not."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckptspec import ArgumentError
from ckptspec.conformance import expectations
from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.expectations import Expectation, Unexpected
from ckptspec.conformance.mutation import results
from ckptspec.conformance.mutation.__main__ import main
from ckptspec.conformance.mutation.campaign import Campaign, counts_for_status, is_rule, prepare
from ckptspec.conformance.mutation.guards import guard_of, inverted
from ckptspec.conformance.mutation.mutants import INVERT, REMOVE, mutants_of
from ckptspec.conformance.mutation.running import DIED, TIMEOUT
from ckptspec.conformance.mutation.sources import Source
from ckptspec.conformance.mutation.tracing import REFUSAL, trace
from ckptspec.spec.rules import NOTE, RULES

# --- The project --------------------------------------------------------------------------------------------------


def test_the_checks_of_all_rules_are_killed() -> None:
    """One test, since what it begins with takes longest: a run of the suite that finds the checks."""
    campaign = prepare()
    assert campaign.without_site() == []
    _check_results(campaign)
    checks = [
        mutant
        for mutant in campaign.mutants
        if is_rule(mutant) and any(rule != REFUSAL and RULES[rule].kind != NOTE for rule in mutant.cases)
    ]
    assert {mutant.operator for mutant in checks} == {REMOVE, INVERT}
    about = {rule for mutant in checks for rule in mutant.cases}
    assert about >= {rule.id for rule in RULES.values() if rule.kind != NOTE}
    alive = [verdict.mutant.key for verdict in campaign.run(checks) if counts_for_status(verdict)]
    assert alive == []


def _check_results(campaign: Campaign) -> None:
    """The results that the page about mutation is made of are about these checks, and name cases that there are."""
    made = results.load()
    stale = results.stale(made, campaign.mutants)
    assert not stale, str(stale)
    cases = {case.id for case in load_suite().cases}
    for row in made["checks"]:
        for killer in row["killed_by"].values():
            if results.is_test(killer):
                file, _, rest = killer.partition("::")
                function = rest.partition("[")[0].rpartition("::")[2]
                assert f"def {function}(" in (Path(__file__).parent / file).read_text("utf-8"), killer
            else:
                assert killer in cases | {"", DIED}, killer


# --- The harness --------------------------------------------------------------------------------------------------

CHECKS = """
from __future__ import annotations

from ckptspec.errors import ArgumentError


def passed_on(exam, rule, found):
    exam.emit(rule, 0, 1, "", found, "something else")


class Checker:
    TABLE = {"a": "OAM-HDR-MAGIC", "b": "OAM-HDR-VERSION"}

    def __init__(self, exam):
        self.exam = exam

    def emit(self, rule, found):
        if self.exam.wants(rule):
            passed_on(self.exam, rule, found)

    def check(self, data):
        if len(data) > 4:
            self.emit("OAM-HDR-SHORT", len(data))
        for what in "ab":
            if what.encode() in data:
                self.emit(self.TABLE[what], what)
        if data == b"never tried":
            self.emit("OAM-HDR-COUNT", data)
        at = 0
        while at < len(data):
            at += 1
        if data.startswith(b"n") and data.endswith(b"n"):
            raise ArgumentError("nothing", "data")
"""


class _Examination:
    """Takes findings as the real one does when it validates."""

    def __init__(self) -> None:
        self.rules: list[str] = []

    def wants(self, rule: str) -> bool:
        return True

    def emit(self, rule: str, *place: Any) -> None:
        from ckptspec.findings import Finding

        offset, length, path, found, expected = place
        Finding(rule=rule, offset=offset, length=length, path=path, found=str(found), expected=expected)
        self.rules.append(rule)


# What the artificial checker finds in some data.
FOUND = {
    b"": [],
    b"1234": [],
    b"12345": ["OAM-HDR-SHORT"],
    b"a": ["OAM-HDR-MAGIC"],
    b"b": ["OAM-HDR-VERSION"],
    b"nn": ["refused"],
}


@pytest.fixture
def artificial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """A campaign on a module of a few checks, of which one is not tested, and one on one side only."""
    path = tmp_path / "artificial_checks.py"
    path.write_text(textwrap.dedent(CHECKS), "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def check(expectation: Expectation) -> None:
        exam = _Examination()
        try:
            module.Checker(exam).check(expectation.data)
        except ArgumentError:
            exam.rules.append("refused")
        if exam.rules != expectation.expected:
            raise Unexpected("the findings")

    monkeypatch.setattr(expectations, "check", check)
    case = load_suite().cases[0]
    cases = [Expectation(replace(case, id=f"case/{data.decode()}"), data, found) for data, found in FOUND.items()]
    sources = [Source("artificial_checks", "oam", module)]
    traced = trace(sources, cases)
    return Campaign(sources, cases, traced, mutants_of(sources, traced))


def _outcomes(campaign: Campaign) -> dict[str, dict[str, str]]:
    verdicts = campaign.run(campaign.mutants, workers=2)
    return {
        f"{verdict.mutant.operator}: {verdict.mutant.before} => {verdict.mutant.after}": verdict.by
        for verdict in verdicts
    }


def test_artificial_checks(artificial: Campaign) -> None:
    found = _outcomes(artificial)
    assert found["remove: self.emit('OAM-HDR-SHORT', ...) => nothing"] == {"OAM-HDR-SHORT": "case/12345"}
    # A check for two rules has a case for each of them.
    both = {"OAM-HDR-MAGIC": "case/a", "OAM-HDR-VERSION": "case/b"}
    assert found["remove: self.emit(self.TABLE[what], ...) => nothing"] == both
    assert found["invert: what.encode() in data => what.encode() not in data"] == both
    # What no case reaches survives, and what passes a rule on is no check.
    assert found["remove: self.emit('OAM-HDR-COUNT', ...) => nothing"] == {}
    assert not [key for key in found if "passed_on" in key and key.startswith("remove")]
    assert found["invert: data == b'never tried' => data != b'never tried'"] != {}
    # There are cases on both sides of this bound, but none in which only one of the two ends is as it is refused.
    assert found["boundary: len(data) > 4 => len(data) >= 4"] == {"": "case/1234"}
    assert found["boundary: len(data) > 4 => len(data) > 4 + 1"] == {"": "case/12345"}
    both_ends = "data.startswith(b'n') and data.endswith(b'n')"
    assert found[f"invert: {both_ends} => not ({both_ends})"][REFUSAL]
    assert found[f"drop: {both_ends} => data.startswith(b'n')"] == {}
    assert found["remove: raise ArgumentError('nothing', ...) => nothing"] == {REFUSAL: "case/nn"}


def test_mutants_that_never_end_are_killed(artificial: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = artificial.sources
    (loop,) = [node for node in ast.walk(source.tree) if isinstance(node, ast.While)]
    monkeypatch.setattr(loop, "test", ast.copy_location(ast.Constant(True), loop.test))
    chosen = [
        mutant for mutant in artificial.mutants if mutant.operator == "opposite" and "startswith" in mutant.before
    ]
    (verdict, *_) = artificial.run(chosen[:1])
    assert set(verdict.how.values()) == {TIMEOUT}


def test_nothing_stays_mutated(artificial: Campaign) -> None:
    code = [live.__code__ for source in artificial.sources for outer in source.outers for live in source.live(outer)]
    before = {source: ast.dump(source.tree) for source in artificial.sources}
    with artificial.mutants[0].active():
        pass
    assert {source: ast.dump(source.tree) for source in artificial.sources} == before
    after = [live.__code__ for source in artificial.sources for outer in source.outers for live in source.live(outer)]
    assert after == code


def test_trouble_of_the_harness_is_no_kill(artificial: Campaign) -> None:
    broken = replace(
        artificial.mutants[0], edits=(artificial.mutants[0].edits[0]._replace(new=ast.Name("(", ast.Load())),)
    )
    with pytest.raises(RuntimeError):
        artificial.run([replace(broken, outer=broken.outer._replace(name="no such function"))])


GUARDS = {
    "if a < b:\n    emit()": "a >= b",
    "if a and b:\n    x = 1\n    emit()": "not (a and b)",
    "if not a:\n    return\nemit()": "a",
    "if a:\n    pass\nemit()": None,
    "if exam.wants(a):\n    emit()": None,
    "if not exam.thorough:\n    return\nif a is None:\n    emit()": "a is not None",
    "if a:\n    pass\nelif b in c:\n    emit()": "b not in c",
    "if a:\n    pass\nelse:\n    emit()": "not a",
    "for at in rows:\n    emit()": None,
    "for at in np.flatnonzero(a[1:] < b[:-1]) + 1:\n    emit()": "(a[1:] < b[:-1]) == 0",
    "while a:\n    emit()": "not a",
    "try:\n    a()\nexcept ValueError:\n    emit()": "an exception",
}


def test_guards() -> None:
    for code, opposite in GUARDS.items():
        tree = ast.parse(f"def f():\n{textwrap.indent(code, '    ')}")
        source = Source.__new__(Source)
        source.use(tree)
        (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node) == "emit()"]
        guard = guard_of(source, call)
        edit = None if guard is None else inverted(guard)
        found = None if guard is None else "an exception" if edit is None else ast.unparse(edit.new)  # type: ignore[arg-type]
        assert found == opposite, code


# --- The command --------------------------------------------------------------------------------------------------


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, told in (
        (["--rule", "OAM-NO-RULE"], "--rule: there is no rule 'OAM-NO-RULE'"),
        (["--format", "gguf"], "--format: there is no format 'gguf'"),
        (["--rule", "OAM-SEC-RANGE", "--write"], "--write: only a run over all of a module can be written"),
        (["-j", "0"], "--jobs: expected at least 1"),
    ):
        assert main(argv) == 2
        assert told in capsys.readouterr().err


def test_one_rule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [Expectation.of(case) for case in load_suite().cases if case.format == "oam" and case.size < 5000]
    small = prepare({"oam._examine": "oam"}, cases)
    monkeypatch.setattr(sys.modules[main.__module__], "prepare", lambda: small)
    chosen = ["--rule", "OAM-HDR-TOTAL", "-j", "1"]
    assert main([*chosen, "--checks"]) == 0
    told = capsys.readouterr().out
    assert "remove    1 mutant, 1 killed (100 %)" in told
    killed = [line for line in told.splitlines() if line.startswith("killed by oam/")]
    assert len(killed) == 2, told
    assert killed[0].endswith(", remove  (OAM-HDR-TOTAL)")
    assert main([*chosen, "--json"]) == 0
    assert {row["status"] for row in json.loads(capsys.readouterr().out)["mutants"]} == {"killed"}
    assert main([*chosen, "--list"]) == 0
    assert "oam/_examine.py:" in capsys.readouterr().out
