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
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError
from ..neutral import parse_json
from ..publish import publishing, writable
from ..text import printable, shorten, show
from ..urls import scrubbed
from .adapters import (
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
from .answers import ACCEPTED
from .catalogue import ANY_FORMAT, DECODE, ENCODE, VECTORS, Case, Suite, load_suite
from .judging import (
    Test,
    is_error,
    judge_decoder,
    judge_encoder,
    speaks_protocol,
    status_of,
    suite_tests,
    what_is_at,
)
from .known_failures import KnownFailures, save_lines
from .outcome_report import (
    MISBEHAVIOUR,
    PASS,
    REJECTED_VALID,
    SKIPPED,
    Result,
    RunResult,
    SmokeFailure,
    render_junit,
    render_text,
)
from .pool import Pool
from .run_arguments import DEFAULT_TIMEOUT, add_arguments, progress_line, signals_raise

__all__ = [
    "REFERENCE",
    "Options",
    "Runner",
    "Test",
    "add_arguments",
    "check_outputs",
    "main",
    "options_of",
    "reference_decoder",
    "reference_encoder",
    "suite_tests",
    "write_output",
]

REFERENCE: Final = "ckptspec"  # what the reference is called beside other implementations
_ITSELF: Final = "the reference itself, in this process"


# An answer to a case is bounded by the case: indented JSON with every character escaped is below 16 times the compact
# document. What is longer is no answer, and is not worth the memory.
_LIMIT_BASE: Final = 1 << 20
_LIMIT_FACTOR: Final = 16
_LIMIT_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run, and how. Empty ``formats`` and ``filters`` mean all, ``jobs`` 0 one for each processor."""

    formats: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    jobs: int = 0
    strict: bool = False


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
        observe: Callable[[Test, Answer], None] | None = None,
    ) -> None:
        """Select the tests; ArgumentError if an option names what the suite does not have, or nothing is left.

        ``vectors`` is the folder of the golden files. ``progress`` is called, from any thread but never from two at
        once, with the direction, the number of tests done and the number of tests. ``observe`` gets every answer as it
        came, from any thread.
        """
        self.suite = suite
        self.options = options or Options()
        self._adapters = {DECODE: decoder, ENCODE: encoder}
        self._vectors = Path(vectors).absolute()  # a command may change its directory
        self._progress = progress
        self._observe = observe
        self._tests = self._select()

    @property
    def partial(self) -> bool:
        """Whether some tests of the directions that run are left out."""
        left_out = set(self._all_formats()) - set(self._formats())
        return bool(left_out or self.options.filters or self.options.skip_tags)

    def smoke(self) -> SmokeFailure | None:
        """Try the smoke cases alone; return what is wrong with the adapter, if anything is. AdapterError as ``run``."""
        self._verify_files()
        with Processes() as processes:
            for direction, adapter in self._adapters.items():
                if adapter is not None:
                    with contextlib.closing(adapter.worker(processes)) as worker:
                        failure = self._smoke(direction, worker)
                    if failure is not None:
                        return failure
        return None

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
            adapters = {direction: adapter for direction, adapter in self._adapters.items() if adapter}
            workers = {direction: adapter.worker(processes) for direction, adapter in adapters.items()}
            with contextlib.ExitStack() as stack:
                for worker in workers.values():
                    stack.callback(worker.close)
                for direction, worker in workers.items():
                    smoke = self._smoke(direction, worker)
                    if smoke is not None:
                        return replace(run, smoke=smoke)
                for direction, worker in workers.items():
                    tests = [test for test in self._tests if test.direction == direction]
                    pool = Pool(self.test, adapters[direction], processes, self.options.jobs)
                    results += pool.run(tests, worker, functools.partial(self._report_progress, direction))
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
        smoke = self.suite.smoke
        for case in [self.suite.case(smoke[name]) for name in self._formats() if name in smoke]:
            if self.skips(case):
                continue
            test = Test(direction=direction, case=case)
            answer = worker.ask(self._task(test))
            if not speaks_protocol(test, answer):
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
        if self._observe is not None:
            self._observe(test, answer)
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
        return None if is_error(document) else document

    def _judge(self, test: Test, answer: Answer, seconds: float) -> Result:
        judge = judge_decoder if test.direction == DECODE else judge_encoder
        judgement = judge(test.case, self._document(test.case), answer)
        passed = judgement.outcome == PASS
        adapter = self._adapters[test.direction]
        file = self._vectors / test.case.file
        where = ""
        if judgement.outcome == REJECTED_VALID and answer.offset is not None:
            where = what_is_at(test.case.format, file.read_bytes(), answer.offset)
        return Result(
            direction=test.direction,
            case=test.case,
            outcome=judgement.outcome,
            status=status_of(test.case, judgement.outcome, self.options.strict),
            expected=judgement.expected,
            happened=judgement.happened,
            difference=judgement.difference,
            rules=judgement.rules,
            file="" if passed else printable(str(file)),
            by_hand="" if passed or adapter is None else adapter.by_hand(self._task(test)),
            where=where,
            printed=answer.printed,
            stderr=answer.stderr if answer.kind in MISBEHAVIOUR else (),
            accepted=answer.kind == ACCEPTED,
            compared=judgement.compared,
            seconds=seconds,
        )

    def _report_progress(self, direction: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(direction, done, total)


def _known(what: str, given: Sequence[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise ArgumentError(f"the suite has no {what} '{shorten(printable(name))}'; there are {', '.join(names)}")


# --- command line ---------------------------------------------------------------------------------------------------


def main(args: argparse.Namespace, suite: Suite | None = None, vectors: Path = VECTORS) -> int:
    """Run ``ckptspec conform``; return its exit status. ``suite`` and ``vectors`` replace those of the package."""
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    try:
        suite = load_suite() if suite is None else suite
        with signals_raise():
            run = _run(args, suite, vectors)
            run = replace(run, name=args.name or _default_name(run))
    except (ArgumentError, AdapterError) as error:
        print(f"ckptspec: {scrubbed(str(error))}", file=sys.stderr)
        return 2
    outputs = (args.json, args.junit, args.html)
    print(render_text(run), end="", file=sys.stderr if "-" in outputs else sys.stdout)
    if args.json is not None:
        write_output(args.json, json.dumps(run.to_json(), indent=2) + "\n")
    if args.junit is not None:
        write_output(args.junit, render_junit(run, started))
    if args.html is not None:
        from .matrix import matrix_of_runs
        from .matrix_page import render_html

        write_output(args.html, render_html(matrix_of_runs([run], suite)))
    return run.exit_status


def write_output(path: str, text: str) -> None:
    """Publish ``text`` as the file at ``path``, or print it if that is ``-``."""
    if path == "-":
        sys.stdout.write(text)
        return
    with publishing(path) as draft:
        draft.write(text.encode())


def check_outputs(inputs: Sequence[str] = (), **outputs: str | None) -> None:
    """Look at outputs, by the names of their options, before the work whose results go there.

    Raises ArgumentError if two would go to the same file, or one over an input, OSError if one cannot be written.
    """
    taken = {os.path.realpath(path): "" for path in inputs}
    for name, path in outputs.items():
        if path is None:
            continue
        place = path if path == "-" else os.path.realpath(path)
        if taken.get(place) == "":
            raise ArgumentError(f"--{name} would overwrite {show(path)}, which is read")
        if place in taken:
            raise ArgumentError(f"--{taken[place]} and --{name} cannot go to the same place")
        taken[place] = name
        if path != "-":
            writable(path)


def _run(args: argparse.Namespace, suite: Suite, vectors: Path) -> RunResult:
    if args.update_known_failures and args.known_failures is None:
        raise ArgumentError("--update-known-failures needs --known-failures FILE")
    read = [] if args.known_failures is None else [args.known_failures]
    check_outputs(read, json=args.json, junit=args.junit, html=args.html)
    if args.update_known_failures:
        writable(args.known_failures)
    decoder, encoder = _adapters(args)
    options = options_of(args)
    with progress_line() as progress:
        runner = Runner(suite, decoder=decoder, encoder=encoder, options=options, vectors=vectors, progress=progress)
        known = _known_failures(args, runner)
        run = runner.run()
    if known is None or run.smoke is not None:
        return run
    if args.update_known_failures:
        update = known.updated(run.results)
        save_lines(args.known_failures, update.lines)
        known = KnownFailures(update.lines, (test.id for test in suite_tests(suite)), args.known_failures)
        run = replace(run, notes=(*run.notes, f"{printable(args.known_failures)}: {update}"))
    return replace(run, results=known.apply(run.results))


def options_of(args: argparse.Namespace) -> Options:
    """Return the options that the command line gives."""
    return Options(
        formats=tuple(args.format),
        filters=tuple(args.filter),
        skip_tags=tuple(args.skip_tag),
        timeout=args.timeout,
        jobs=args.jobs or 0,
        strict=getattr(args, "strict", False),
    )


def reference_decoder() -> Adapter:
    """Return the reference as a decoder in this process."""
    from .. import decode

    return CallableDecoder(decode, _ITSELF)


def reference_encoder() -> Adapter:
    """Return the reference as an encoder in this process."""
    from .. import encode

    return CallableEncoder(encode, _ITSELF)


def _default_name(run: RunResult) -> str:
    command = run.decoder or run.encoder or ""
    return REFERENCE if command == _ITSELF else command


def _adapters(args: argparse.Namespace) -> tuple[Adapter | None, Adapter | None]:
    if args.batch and args.decoder is None:
        raise ArgumentError("--batch needs --decoder CMD")
    if args.decoder is None and args.encoder is None:
        return reference_decoder(), reference_encoder()
    make = BatchDecoder if args.batch else CommandDecoder
    decoder = make(args.decoder) if args.decoder is not None else None
    return decoder, CommandEncoder(args.encoder) if args.encoder is not None else None


def _known_failures(args: argparse.Namespace, runner: Runner) -> KnownFailures | None:
    if args.known_failures is None:
        return None
    if args.update_known_failures and runner.options.filters:  # tests that are skipped keep their lines
        raise ArgumentError("a partial run cannot update the known failures: leave out --filter")
    tests = (test.id for test in suite_tests(runner.suite))
    return KnownFailures.load(args.known_failures, tests, missing_ok=args.update_known_failures)
