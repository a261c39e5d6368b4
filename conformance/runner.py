"""The conformance runner: gives every golden case to an implementation and judges what comes back.

A run selects the tests, sees that their golden files are those that the manifest describes, tries the smoke case of
every format, and then runs the tests in parallel. How an implementation is reached is the business of ``adapters``, how
results are shown that of ``outcome_report``.

The smoke case tells a broken adapter from a broken implementation. It passes as soon as a document, or a file, of the
right format comes back: what is wrong *in* it is the implementation's fault, and the cases will show it.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError, FormatError
from ..neutral import dump_json, parse_json
from ..publish import publishing
from ..text import count, printable, shorten
from .adapters import (
    ACCEPTED,
    REJECTED,
    Adapter,
    AdapterError,
    Answer,
    BatchDecoder,
    CallableDecoder,
    CallableEncoder,
    CommandDecoder,
    CommandEncoder,
    Processes,
    Task,
    Worker,
)
from .catalogue import VECTORS, Case, Suite, load_suite
from .known_failures import KnownFailures, save_lines
from .outcome_report import (
    ACCEPTED_INVALID,
    DECODE,
    ENCODE,
    FAILED,
    INVALID_FILE,
    MISBEHAVIOUR,
    NOT_CANONICAL,
    PASS,
    PASSED,
    REFUSED,
    REJECTED_VALID,
    SKIPPED,
    WARNED,
    WRONG_DOCUMENT,
    Difference,
    Result,
    RunResult,
    SmokeFailure,
    first_difference,
    render_junit,
    render_text,
)

__all__ = ["Options", "Runner", "Test", "add_arguments", "main", "suite_tests"]

DEFAULT_TIMEOUT: Final = 10.0  # seconds for one case, the start of the command included
ANY_FORMAT: Final = "any"  # cases that go along with every format

# An answer to a case is bounded by the case: indented JSON with every character escaped is below 16 times the compact
# document. What is longer is no answer, and is not worth the memory.
_LIMIT_BASE: Final = 1 << 20
_LIMIT_FACTOR: Final = 16
_LIMIT_MAX: Final = 64 << 20

# An encoder writes the version that the document gives, so this finding is no fault of its own. That the version is
# really the document's shows when the file is decoded.
_ASKED_FOR: Final = frozenset({"OAM-HDR-OLD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run, and how. Empty ``formats`` and ``filters`` mean all, ``jobs`` 0 one for each processor."""

    formats: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    jobs: int = 0
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One case in one direction."""

    __test__ = False  # pytest: this is not a class of tests

    direction: str
    case: Case

    @property
    def id(self) -> str:
        """The test's id, such as ``decode:oam/minimal``."""
        return f"{self.direction}:{self.case.id}"


def suite_tests(suite: Suite) -> list[Test]:
    """Return all tests of a suite: decoders get all files, encoders all documents, those of the valid files included."""
    decode = [Test(direction=DECODE, case=case) for case in suite.cases if case.kind == "file"]
    encode = [
        Test(direction=ENCODE, case=case)
        for case in suite.cases
        if case.kind == "document" or (case.verdict == "valid" and case.format != ANY_FORMAT)
    ]
    return decode + encode


class Runner:
    """Runs a suite against a decoder, an encoder or both."""

    def __init__(
        self,
        suite: Suite,
        *,
        decoder: Adapter | None = None,
        encoder: Adapter | None = None,
        options: Options | None = None,
        vectors: Path = VECTORS,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Select the tests; ArgumentError if an option names what the suite does not have, or nothing is left.

        ``vectors`` is the folder of the golden files. ``progress`` is called, from any thread but never from two at
        once, with the direction, the number of tests done and the number of tests.
        """
        self.suite = suite
        self.options = options or Options()
        self._adapters = {DECODE: decoder, ENCODE: encoder}
        self._vectors = Path(vectors).absolute()  # a command may change its directory
        self._progress = progress
        self._tests = self._select()

    @property
    def partial(self) -> bool:
        """Whether some tests of the directions that run are left out."""
        left_out = set(self._all_formats()) - set(self._formats())
        return bool(left_out or self.options.filters or self.options.skip_tags)

    def run(self) -> RunResult:
        """Run the tests. AdapterError if a command cannot be run, or a golden file is not the manifest's."""
        decoder, encoder = self._adapters[DECODE], self._adapters[ENCODE]
        run = RunResult(
            suite_version=self.suite.suite_version,
            protocol_version=self.suite.protocol_version,
            decoder=decoder.description if decoder else None,
            encoder=encoder.description if encoder else None,
            strict=self.options.strict,
            partial=self.partial,
        )
        self._verify_files()
        results: list[Result] = []
        notes: list[str] = []
        with Processes() as processes:
            workers = {direction: adapter.worker(processes) for direction, adapter in self._adapters.items() if adapter}
            with contextlib.ExitStack() as stack:
                for worker in workers.values():
                    stack.callback(worker.close)
                for direction, worker in workers.items():
                    smoke = self._smoke(direction, worker)
                    if smoke is not None:
                        return replace(run, smoke=smoke)
                for direction, worker in workers.items():
                    pool = _Pool(self, processes, direction, worker)
                    results += pool.run([test for test in self._tests if test.direction == direction])
                    notes += pool.notes
        return replace(run, results=tuple(results), notes=tuple(dict.fromkeys(notes)))

    # --- selection --------------------------------------------------------------------------------------------------

    def _all_formats(self) -> list[str]:
        return [name for name in dict.fromkeys(case.format for case in self.suite.cases) if name != ANY_FORMAT]

    def _formats(self) -> list[str]:
        return [name for name in self._all_formats() if not self.options.formats or name in self.options.formats]

    def _select(self) -> list[Test]:
        options = self.options
        _known("format", options.formats, self._all_formats())
        _known("tag", options.skip_tags, sorted({tag for case in self.suite.cases for tag in case.tags}))
        wanted = {*self._formats(), ANY_FORMAT}
        tests = [
            test
            for test in suite_tests(self.suite)
            if self._adapters[test.direction] is not None and test.case.format in wanted
        ]
        if options.filters:
            tests = [test for test in tests if any(fnmatch.fnmatchcase(test.case.id, glob) for glob in options.filters)]
        if all(self.skips(test.case) for test in tests):
            raise ArgumentError("no case is left to run")
        return tests

    def skips(self, case: Case) -> bool:
        """Whether the implementation declares that it lacks what the case needs."""
        return not set(self.options.skip_tags).isdisjoint(case.tags)

    def _verify_files(self) -> None:
        for case in {test.case.id: test.case for test in self._tests}.values():
            path = self._vectors / case.file
            try:
                content = path.read_bytes()
            except OSError as error:
                raise AdapterError(f"{printable(str(path))}: {error.strerror}") from None
            if hashlib.sha256(content).hexdigest() != case.sha256:
                raise AdapterError(f"{printable(str(path))}: not the golden file that the manifest describes")

    # --- one test ---------------------------------------------------------------------------------------------------

    def _smoke(self, direction: str, worker: Worker) -> SmokeFailure | None:
        for format in self._formats():
            if format not in self.suite.smoke:
                continue
            test = Test(direction=direction, case=self.suite.case(self.suite.smoke[format]))
            if self.skips(test.case):
                continue
            answer = worker.ask(self._task(test))
            if not _speaks_protocol(test, answer):
                return self._smoke_failure(test, answer)
        return None

    def _smoke_failure(self, test: Test, answer: Answer) -> SmokeFailure:
        adapter = self._adapters[test.direction]
        assert adapter is not None
        hint = f"try the command by hand with {printable(str(self._task(test).path))}"
        if len(self._all_formats()) > 1:
            hint += "; formats that the implementation does not have are left out by naming the others with --format"
        return SmokeFailure(
            result=self._judge(test, answer, 0.0),
            command=adapter.description,
            ended=answer.ended or answer.detail,
            stdout=answer.stdout,
            stderr=answer.stderr,
            hint=hint,
        )

    def test(self, test: Test, worker: Worker) -> Result:
        """Run one test."""
        if self.skips(test.case):
            tags = ", ".join(tag for tag in test.case.tags if tag in self.options.skip_tags)
            happened = f"skipped because of the tag {tags}"
            return Result(direction=test.direction, case=test.case, outcome="", status=SKIPPED, happened=happened)
        start = time.monotonic()
        answer = worker.ask(self._task(test))
        return self._judge(test, answer, time.monotonic() - start)

    def _task(self, test: Test) -> Task:
        case = test.case
        path = self._vectors / case.file
        suffix = path.suffix if case.kind == "file" else f".{case.format}"
        size = path.stat().st_size
        if case.expected:
            size += (self._vectors / case.expected).stat().st_size
        if test.direction == ENCODE and case.kind == "file":
            path = self._vectors / case.expected
        limit = min(_LIMIT_MAX, _LIMIT_BASE + _LIMIT_FACTOR * size)
        return Task(path=path, suffix=suffix, timeout=self.options.timeout, limit=limit)

    def _document(self, case: Case) -> Any:
        """Return the document that a valid or acceptable case is about, or None if it has none."""
        if case.verdict == "invalid":
            return None
        document = parse_json((self._vectors / (case.expected or case.file)).read_bytes())
        return None if _is_error(document) else document

    def _judge(self, test: Test, answer: Answer, seconds: float) -> Result:
        judge = _judge_decoder if test.direction == DECODE else _judge_encoder
        judgement = judge(test.case, self._document(test.case), answer)
        return Result(
            direction=test.direction,
            case=test.case,
            outcome=judgement.outcome,
            status=_status(test.case, judgement.outcome, self.options.strict),
            expected=judgement.expected,
            happened=judgement.happened,
            difference=judgement.difference,
            rules=judgement.rules,
            seconds=seconds,
        )

    def report_progress(self, direction: str, done: int, total: int) -> None:
        """Tell whoever wants to know."""
        if self._progress is not None:
            self._progress(direction, done, total)


def _known(what: str, given: Sequence[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise ArgumentError(f"the suite has no {what} '{shorten(printable(name))}'; there are {', '.join(names)}")


class _Pool:
    """Threads that run the tests of one direction, each with a worker of its own; ``first`` is one of the workers."""

    def __init__(self, runner: Runner, processes: Processes, direction: str, first: Worker) -> None:
        self.notes: list[str] = []
        self._runner = runner
        self._processes = processes
        self._direction = direction
        self._first = first
        self._lock = threading.Lock()
        self._results: dict[int, Result] = {}
        self._errors: list[BaseException] = []

    def run(self, tests: list[Test]) -> list[Result]:
        """Return the results in the order of ``tests``."""
        adapter = self._runner._adapters[self._direction]
        assert adapter is not None
        jobs = max(1, min(self._runner.options.jobs or os.cpu_count() or 1, len(tests)))
        workers = [self._first, *(adapter.worker(self._processes) for _ in range(jobs - 1))]
        numbered = list(enumerate(tests))
        if adapter.stateful:
            # Which worker gets which cases must not depend on chance, or what one case does to the next would too.
            shares = [iter(numbered[at::jobs]) for at in range(jobs)]
        else:
            shares = [iter(numbered)] * jobs
        threads = [threading.Thread(target=self._work, args=pair) for pair in zip(workers, shares, strict=True)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._processes.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
        if self._errors:
            raise self._errors[0]
        return [self._results[number] for number, _ in numbered]
