"""The tests as judges, of what the suite cannot know: what Python callers are refused, and who reads by other ways.

The tests run once while their errors are followed, which tells the tests of each site; then each mutant that survived
the suite runs the quickest of these, in a process of its own as ever.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from .campaign import Campaign, Verdict
from .mutants import Mutant
from .running import forked
from .tracing import Trace, following

__all__ = ["Tests", "find_tests", "judge_by_tests"]

_FILES: Final = (
    "refusals",
    "oam",
    "ocannl",
    "ocannl_hostile",
    "ocannl_training",
    "safetensors",
    "sexp",
    "kaun",
    "nuvec",
    "convert",
)
# The tests of modules whose errors are Python's own, which are not followed.
_OWN: Final = {
    "sexp": [
        f"test_sexp.py::{name}" for name in ("TestWriting::test_other_types", "TestIntegers::test_too_large_to_write")
    ],
    "_sexp_reading": ["test_sexp.py::TestPlaces::test_no_such_place"],
}
_MOST: Final = 4  # tests that a mutant is tried with
_MEMORY: Final = 8 << 30  # bytes of address space: tests map large files that are mostly holes
_FOLDER: Final = Path(__file__).parent.parent / "tests"


class Tests(NamedTuple):
    """The tests that see the errors of a site, by the site's module, line and column; the quickest come first."""

    by_site: Mapping[tuple[str, int, int], Sequence[str]]

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may tell a mutant."""
        found = [self.by_site.get((mutant.source.name, *site), ()) for site in mutant.sites]
        return list(dict.fromkeys(test for tests in found for test in tests)) or _OWN.get(mutant.source.name, [])


@dataclass(slots=True)
class _Watch:
    """A plugin of pytest: which test is on, how long each takes, which one failed."""

    trace: Trace = field(default_factory=Trace)
    names: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    start: float = 0.0
    begin: Callable[[int], None] = lambda number: None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begin(len(self.names))
        self.names.append(nodeid)
        self.start = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds.append(time.process_time() - self.start)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            raise RuntimeError(str(report.longrepr))


def _pytest(tests: Sequence[str], watch: _Watch) -> int:
    import pytest

    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return int(pytest.main([*quiet, f"--rootdir={_FOLDER}", *(f"{_FOLDER / test}" for test in tests)], [watch]))


def _file_of(nodeid: str) -> str:
    """Return a test's id from its file's name on: where the folder lies depends on who asks."""
    path, _, rest = nodeid.partition("::")
    return f"{Path(path).name}::{rest}"


def find_tests(campaign: Campaign, files: Sequence[str] = _FILES, *, workers: int = 1) -> Tests:
    """Run the tests once; return which of them see the errors of each site."""

    def work(file: str) -> dict[str, Any]:
        watch = _Watch()
        with following(campaign.sources, watch.trace) as follower:
            watch.begin = follower.begin
            _pytest([f"test_{file}.py"], watch)
        rows = [
            (watch.trace.sources[node].name, node.lineno, node.col_offset, numbers)  # type: ignore[attr-defined]
            for node, rules in watch.trace.sites.items()
            for numbers in rules.values()
        ]
        good = [name not in watch.failed for name in watch.names]  # some cannot be run in such a process
        return {"names": watch.names, "seconds": watch.seconds, "good": good, "rows": rows}

    found: dict[tuple[str, int, int], list[tuple[float, str]]] = defaultdict(list)
    for _, made in forked(work, files, workers=workers, memory=_MEMORY):
        if made is None:
            continue
        for name, line, column, numbers in made["rows"]:
            tests = [test for test in numbers if made["good"][test]]
            found[name, line, column] += [(made["seconds"][test], _file_of(made["names"][test])) for test in tests]
    return Tests({site: list(dict.fromkeys(name for _, name in sorted(tests))) for site, tests in found.items()})


def judge_by_tests(
    verdicts: Sequence[Verdict], tests_of: Callable[[Mutant], Sequence[str]], *, workers: int = 1
) -> None:
    """Try mutants that survived the suite with tests; note in their verdicts which one fails."""
    alive = [verdict for verdict in verdicts if verdict.alive and tests_of(verdict.mutant)]

    def work(verdict: Verdict) -> dict[str, Any]:
        watch = _Watch()
        with verdict.mutant.active():
            _pytest(tests_of(verdict.mutant)[:_MOST], watch)
        return {"failed": _file_of(watch.failed[0]) if watch.failed else ""}

    for number, made in forked(work, alive, workers=workers, memory=_MEMORY):
        verdict = alive[number]
        test = tests_of(verdict.mutant)[0] if made is None else made["failed"]
        if test:
            for rule in verdict.alive:
                verdict.by[rule], verdict.how[rule] = test, "the test fails"
