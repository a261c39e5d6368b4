"""Producers × consumers: every encoder writes the suite's documents, every decoder reads what each of them wrote.

Each pair is a run of the suite's own runner, over a suite whose files are not the golden ones but those that the
producer wrote just now, in a temporary folder. So a consumer is asked and judged as in any other run, time-outs and
floods included. Documents that must be refused take no part: an exchange needs a file.

Whether a file is right is for the consumers to say, of which the reference may be one. Of a producer counts only
whether it wrote the file.
"""

from __future__ import annotations

import fnmatch
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError
from ..text import printable, shorten
from .adapters import Adapter, AdapterError, Answer, BatchDecoder, CommandDecoder, CommandEncoder, Task
from .answers import ACCEPTED
from .catalogue import ANY_FORMAT, DECODE, ENCODE, VECTORS, Case, Suite
from .judging import Test
from .matrix import EXCHANGE, WRITES, Column, Matrix, Row
from .outcome_report import PASS, PASSED, SKIPPED, Result, RunResult, SmokeFailure
from .run_arguments import implementation_name
from .runner import REFERENCE, Options, Runner, reference_decoder, reference_encoder

__all__ = ["Party", "SmokeError", "consumers", "exchange", "producers"]

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
_WRITTEN: Final = "a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One implementation in one role. Empty ``formats`` are all of the suite's."""

    name: str
    adapter: Adapter
    formats: tuple[str, ...] = ()


# --- who takes part -------------------------------------------------------------------------------------------------


def producers(words: Iterable[str]) -> list[Party]:
    """Return the encoders that ``NAME[:FORMAT,...]=COMMAND`` describe; the reference is ``ckptspec`` alone."""
    return [_party(word, CommandEncoder, reference_encoder) for word in words]


def consumers(words: Iterable[str], batch: Iterable[str] = ()) -> list[Party]:
    """Return the decoders, described as ``producers`` are; those in ``batch`` answer for many files."""
    return [
        *(_party(word, CommandDecoder, reference_decoder) for word in words),
        *(_party(word, BatchDecoder, None) for word in batch),
    ]


def _party(word: str, make: Callable[[str], Adapter], reference: Callable[[], Adapter] | None) -> Party:
    label, sign, command = word.partition("=")
    name, colon, formats = label.partition(":")
    if colon and not _formats(formats):
        raise ArgumentError(f"no format stands behind the colon of '{shorten(printable(label))}'")
    if not sign and name == REFERENCE and reference is not None:
        return Party(name=name, adapter=reference(), formats=_formats(formats))
    if not sign:
        shown = shorten(printable(word))
        raise ArgumentError(f"expected NAME=COMMAND or NAME:FORMAT,...=COMMAND, or {REFERENCE}; found '{shown}'")
    return Party(name=implementation_name(name), adapter=make(command), formats=_formats(formats))


def _formats(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


# --- the exchange ---------------------------------------------------------------------------------------------------


class SmokeError(AdapterError):
    """The smoke case of a party failed, so nothing was exchanged; ``failure`` has the explanation."""

    def __init__(self, role: str, party: Party, failure: SmokeFailure) -> None:
        self.failure = failure
        super().__init__(f"the {role} {party.name} does not work")


Progress = Callable[[str, int, int], None]


def exchange(
    suite: Suite,
    writing: Sequence[Party],
    reading: Sequence[Party],
    *,
    options: Options | None = None,
    vectors: Path = VECTORS,
    progress: Progress | None = None,
) -> Matrix:
    """Let every producer write, and every consumer read what each of them wrote.

    Parties of the same name make one producer, or one column, if they have no format in common. ArgumentError if they
    have, if somebody names a format or tag that the suite does not have, or nothing is left to do; AdapterError if a
    command cannot be run, SmokeError if it does not speak the protocol. ``progress`` is called as by ``Runner``, with
    the names of those at work.
    """
    options = options or Options()
    _check(suite, writing, PRODUCER)
    _check(suite, reading, CONSUMER)
    Runner(suite, encoder=writing[0].adapter, options=options, vectors=vectors)  # refuses options that the suite lacks
    made = _Exchange(suite, options, Path(vectors).absolute(), progress)
    for party in writing:
        made.smoke(ENCODE, party)
    for party in reading:
        made.smoke(DECODE, party)
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        for number, party in enumerate(writing):
            made.produce(party, reading, Path(folder, str(number)))
    return made.matrix(writing, reading)


def _check(suite: Suite, parties: Sequence[Party], role: str) -> None:
    if not parties:
        raise ArgumentError(f"there is no {role}: give --{role} NAME=COMMAND")
    there = _formats_of(suite)
    taken: set[tuple[str, str]] = set()
    for party in parties:
        if party.name == WRITES:
            raise ArgumentError(f"nobody can be called '{WRITES}'")
        for name in party.formats:
            if name not in there:
                raise ArgumentError(f"the suite has no format '{shorten(printable(name))}'", f"{role} {party.name}")
        mine = {(party.name, name) for name in party.formats or there}
        if not taken.isdisjoint(mine):
            raise ArgumentError(f"two {role}s of a format are called '{party.name}'")
        taken |= mine


def _formats_of(suite: Suite) -> list[str]:
    return [name for name in dict.fromkeys(case.format for case in suite.cases) if name != ANY_FORMAT]


class _Exchange:
    """Collects rows and results while producers and consumers work."""

    def __init__(self, suite: Suite, options: Options, vectors: Path, progress: Progress | None) -> None:
        self._suite = suite
        self._options = options
        self._vectors = vectors
        self._progress = progress
        self._rows: dict[str, Row] = {}
        self._results: dict[str, dict[str, Result]] = {}
        self._notes: dict[str, list[str]] = {}

    def _formats(self, *parties: Party) -> tuple[str, ...]:
        """Return the formats that are wanted and that all of the parties have."""
        wanted = [set(formats) for formats in (self._options.formats, *(party.formats for party in parties)) if formats]
        return tuple(name for name in _formats_of(self._suite) if all(name in formats for formats in wanted))

    def _runner(self, direction: str, party: Party, suite: Suite, options: Options, label: str, **more: Any) -> Runner:
        def show(_: str, done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(label, done, total)

        sides: dict[str, Any] = {"decoder" if direction == DECODE else "encoder": party.adapter}
        return Runner(suite, options=options, progress=show, **sides, **{"vectors": self._vectors, **more})

    def smoke(self, direction: str, party: Party) -> None:
        """Try the golden smoke cases of the party's formats; SmokeError if one fails."""
        formats = self._formats(party)
        cases = [self._suite.case(self._suite.smoke[name]) for name in formats if name in self._suite.smoke]
        cases = [case for case in cases if not set(self._options.skip_tags) & set(case.tags)]
        if not cases:
            return
        options = replace(self._options, formats=(), filters=(), skip_tags=())
        suite = replace(self._suite, cases=tuple(cases), smoke={case.format: case.id for case in cases})
        failure = self._runner(direction, party, suite, options, party.name).smoke()
        if failure is not None:
            raise SmokeError(PRODUCER if direction == ENCODE else CONSUMER, party, failure)

    def produce(self, producer: Party, reading: Sequence[Party], folder: Path) -> None:
        """Let a producer write all documents into ``folder``, and all consumers read them."""
        suite = replace(
            self._suite, smoke={}, cases=tuple(case for case in self._suite.cases if case.verdict != "invalid")
        )
        options = _fitting(replace(self._options, formats=self._formats(producer)), suite)
        if options is None:
            return
        written: dict[str, bytes] = {}

        def keep(test: Test, answer: Answer) -> None:
            if answer.kind == ACCEPTED:
                _store(folder, test.case, answer.data)
                written[test.case.id] = hashlib.sha256(answer.data).digest()

        run = self._runner(ENCODE, producer, suite, options, f"{producer.name} writes", observe=keep).run()
        self._note(WRITES, producer, run)
        for result in run.results:
            self._add(WRITES, producer, self._writing(producer, result))
        cases = tuple(
            self._case(result.case, folder, written[result.case.id]) for result in run.results if result.accepted
        )
        for consumer in reading:
            self._consume(producer, consumer, replace(suite, cases=cases), folder)

    def _writing(self, producer: Party, result: Result) -> Result:
        """Return what counts of a producer: whether it wrote a file. What the file is worth, its readers will say."""
        if not result.accepted:
            return result
        case = result.case
        document = self._vectors / (case.file if case.kind == "document" else case.expected)
        task = Task(path=document, suffix=Path(_name(case)).suffix, timeout=0, limit=0)
        by_hand = producer.adapter.by_hand(task)
        return replace(result, outcome=PASS, status=PASSED, expected=_WRITTEN, difference=None, by_hand=by_hand)

    def _case(self, case: Case, folder: Path, digest: bytes) -> Case:
        """Return the case of a file that was written, with the golden document beside it."""
        path = folder / _name(case)
        document = path.with_name(path.name + ".json")
        document.write_bytes((self._vectors / (case.expected or case.file)).read_bytes())
        return replace(
            case,
            kind="file",
            file=str(path.relative_to(folder)),
            expected=str(document.relative_to(folder)),
            sha256=digest.hex(),
            size=path.stat().st_size,
        )

    def _consume(self, producer: Party, consumer: Party, written: Suite, folder: Path) -> None:
        options = _fitting(replace(self._options, formats=self._formats(producer, consumer), filters=()), written)
        if options is None:
            return
        label = f"{consumer.name} reads {producer.name}"
        run = self._runner(DECODE, consumer, written, options, label, vectors=folder).run()
        self._note(consumer.name, producer, run)
        for result in run.results:
            self._add(consumer.name, producer, _reading(result, consumer))

    def _add(self, column: str, producer: Party, result: Result) -> None:
        key = f"{producer.name}/{result.case.id}"
        case = self._suite.case(result.case.id)
        self._rows.setdefault(key, Row(id=key, group=producer.name, case=case))
        self._results.setdefault(column, {})[key] = replace(result, case=case)

    def _note(self, column: str, producer: Party, run: RunResult) -> None:
        self._notes.setdefault(column, []).extend(f"{producer.name}: {note}" for note in run.notes)

    def matrix(self, writing: Sequence[Party], reading: Sequence[Party]) -> Matrix:
        """Return what was collected."""
        if all(result.status == SKIPPED for result in self._results.get(WRITES, {}).values()):
            raise ArgumentError("no case is left to run")
        about: dict[str, list[str]] = {WRITES: [f"{party.name}: {party.adapter.description}" for party in writing]}
        for party in reading:
            about.setdefault(party.name, []).append(f"{CONSUMER}: {party.adapter.description}")
        return Matrix(
            kind=EXCHANGE,
            suite_version=self._suite.suite_version,
            protocol_version=self._suite.protocol_version,
            columns=tuple(
                Column(
                    name=name,
                    about=tuple(lines),
                    results=self._results.get(name, {}),
                    notes=tuple(dict.fromkeys(self._notes.get(name, ()))),
                )
                for name, lines in about.items()
            ),
            rows=tuple(self._rows.values()),
        )


def _fitting(options: Options, suite: Suite) -> Options | None:
    """Return options cut to what a part of the suite has, or None if they leave nothing to do."""
    there = {case.format for case in suite.cases}
    tags = {tag for case in suite.cases for tag in case.tags}
    formats = tuple(name for name in options.formats if name in there)
    fitting = replace(options, formats=formats, skip_tags=tuple(tag for tag in options.skip_tags if tag in tags))
    cases = [case for case in suite.cases if case.format in formats]
    if options.filters:
        cases = [case for case in cases if any(fnmatch.fnmatchcase(case.id, glob) for glob in options.filters)]
    return fitting if any(_is_kept(case, fitting) for case in cases) else None


def _is_kept(case: Case, options: Options) -> bool:
    """Whether none of the case's tags is to be skipped."""
    return set(options.skip_tags).isdisjoint(case.tags)


def _name(case: Case) -> str:
    """Return the name of a written file below its producer's folder; a case's id is the suite's own text."""
    suffix = Path(case.file).suffix if case.kind == "file" else f".{case.format}"
    return f"{case.id}{suffix}"


def _store(folder: Path, case: Case, data: bytes) -> None:
    path = folder / _name(case)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _reading(result: Result, consumer: Party) -> Result:
    """Return a consumer's result with a command line that outlives the temporary folder."""
    if result.outcome == PASS or result.status == SKIPPED:
        return result
    here = Path(f"encoded{Path(result.case.file).suffix}")
    return replace(result, file="", by_hand=consumer.adapter.by_hand(Task(path=here, timeout=0, limit=0)))
