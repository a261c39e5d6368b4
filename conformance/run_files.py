"""Result files: what ``ckptspec conform --json`` wrote, read again and held against the suite.

A result file comes from wherever, so nothing in it is believed that the suite knows: a test must be one of the suite's,
with the same verdict, level, tags and rules; title and reason are the suite's own. What the implementation did is taken
over, text cut to a length that a page can bear, and what could disturb a reader is escaped in it once more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ..errors import ArgumentError
from ..neutral import boolean, items, parse_json
from ..source import read_text_file
from ..text import printable, shorten, show
from .catalogue import Suite
from .differences import Difference
from .judging import Test, suite_tests
from .outcome_report import OUTCOMES, PASS, PASSED, SKIPPED, STATUSES, Result, RunResult
from .run_arguments import implementation_name

__all__ = ["load_run", "parse_run"]

_TEXT: Final = 2000  # characters; the runner's own texts are shorter
_LINES: Final = 16


def load_run(path: str | os.PathLike[str], suite: Suite) -> RunResult:
    """Read the result file at ``path``; ArgumentError if it is none, or one of another suite. OSError as usual."""
    where = printable(os.fspath(path))
    try:
        return parse_run(parse_json(read_text_file(path)), suite)
    except ArgumentError as error:
        raise ArgumentError(f"not a result file of this suite: {error}", where) from None


def parse_run(value: Any, suite: Suite) -> RunResult:
    """Return the run that JSON types describe, as ``RunResult.to_json`` made them; ArgumentError if they do not."""
    run = _object(value, "run")
    ours = {"suite": suite.suite_version, "protocol": suite.protocol_version}
    for key, version in ours.items():
        if _text(run, key, "run") != version:
            raise ArgumentError(f"found {show(run[key])}, but this is version {version}", f"run.{key}")
    if _get(run, "smoke", "run") is not None:
        raise ArgumentError("the smoke case failed: there are no results", "run.smoke")
    tests = {test.id: test for test in suite_tests(suite)}
    results: dict[str, Result] = {}
    for at, row in enumerate(items(_get(run, "results", "run"), "run.results")):
        result = _result(_object(row, f"run.results[{at}]"), tests, f"run.results[{at}]")
        if result.id in results:
            raise ArgumentError(f"'{result.id}' stands there twice", f"run.results[{at}]")
        results[result.id] = result
    if not results:
        raise ArgumentError("there are no results", "run.results")
    return RunResult(
        name=_name(run),
        suite_version=suite.suite_version,
        protocol_version=suite.protocol_version,
        decoder=_text(run, "decoder", "run") if _get(run, "decoder", "run") is not None else None,
        encoder=_text(run, "encoder", "run") if _get(run, "encoder", "run") is not None else None,
        strict=boolean(_get(run, "strict", "run"), "run.strict"),
        partial=boolean(_get(run, "partial", "run"), "run.partial"),
        results=tuple(results.values()),
        notes=_lines(run, "notes", "run"),
    )


def _name(run: Mapping[str, Any]) -> str:
    name = _text(run, "name", "run")
    if name not in (run.get("decoder"), run.get("encoder")):  # the default, which may be long
        name = implementation_name(name)
    return name


def _result(row: Mapping[str, Any], tests: Mapping[str, Test], where: str) -> Result:
    test = tests.get(_text(row, "id", where))
    if test is None:
        raise ArgumentError(f"the suite has no test {show(row['id'])}", f"{where}.id")
    case = test.case
    facts = {"verdict": case.verdict, "level": case.level, "tags": list(case.tags), "case_rules": list(case.rules)}
    for key, fact in facts.items():
        if _get(row, key, where) != fact:
            raise ArgumentError(f"'{test.id}' is another test in this suite", f"{where}.{key}")
    status = _one_of(row, "status", STATUSES, where)
    outcome = "" if _get(row, "outcome", where) is None else _one_of(row, "outcome", OUTCOMES, where)
    if (outcome == "") != (status == SKIPPED) or (status == PASSED and outcome != PASS):
        raise ArgumentError(f"the outcome {show(row['outcome'])} cannot count as '{status}'", where)
    return Result(
        direction=test.direction,
        case=case,
        status=status,
        outcome=outcome,
        expected=_text(row, "expected", where),
        happened=_text(row, "happened", where),
        difference=_difference(row, where),
        rules=_lines(row, "rules", where),
        accepted=boolean(_get(row, "accepted", where), f"{where}.accepted"),
        file=_optional(row, "file", where),
        by_hand=_optional(row, "by_hand", where),
        where=_optional(row, "where", where),
        known=_optional(row, "known", where),
        printed=_lines(row, "printed", where),
        stderr=_lines(row, "stderr", where),
    )


def _difference(row: Mapping[str, Any], where: str) -> Difference | None:
    if _get(row, "difference", where) is None:
        return None
    where = f"{where}.difference"
    value = _object(row["difference"], where)
    path, expected, found = (_text(value, key, where) for key in ("path", "expected", "found"))
    return Difference(path=path, expected=expected, found=found)


# --- getters --------------------------------------------------------------------------------------------------------


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"found {show(value)}, expected an object", where)
    return value


def _get(value: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in value:
        raise ArgumentError(f"missing key '{key}'", where)
    return value[key]


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    return _shown(_get(value, key, where), f"{where}.{key}")


def _optional(value: Mapping[str, Any], key: str, where: str) -> str:
    return "" if _get(value, key, where) is None else _text(value, key, where)


def _lines(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    where = f"{where}.{key}"
    return tuple(_shown(item, where) for item in items(_get(value, key, where), where)[:_LINES])


def _one_of(value: Mapping[str, Any], key: str, names: Mapping[str, str], where: str) -> str:
    text = _text(value, key, where)
    if text not in names:
        raise ArgumentError(f"found {show(text)}; there are {', '.join(names)}", f"{where}.{key}")
    return text


def _shown(text: Any, where: str) -> str:
    """Return text as it is if it was escaped already, as all of a run's texts are: a backslash needs no second one."""
    if not isinstance(text, str):
        raise ArgumentError(f"found {show(text)}, expected text", where)
    plain = text.replace("\\", "")
    return shorten(text if printable(plain) == plain else printable(text), _TEXT)
