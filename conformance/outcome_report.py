"""The outcomes of a conformance run, and their renderings for people, for programs and for CI.

A *test* is one case in one direction: ``decode:oam/x`` and ``encode:oam/x`` are two tests. Its *outcome* is what the
implementation did; its *status* is how that counts in this run: a wrong document is one outcome, and it counts as
failed, as a warning (a case of level ``should``) or as a known failure.

What an implementation printed is hostile text. It is escaped where a result is made, so that all text held here may be
shown on a terminal and written into XML.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..spec.rules import CANONICAL, NOTE, REJECT, RULES
from ..text import count
from .catalogue import DECODE, ENCODE, Case
from .differences import Difference

__all__ = [
    "MISBEHAVIOUR",
    "OUTCOMES",
    "Result",
    "RunResult",
    "SmokeFailure",
    "render_junit",
    "render_text",
]


PASS: Final = "pass"  # noqa: S105
WRONG_DOCUMENT: Final = "wrong-document"
ACCEPTED_INVALID: Final = "accepted-invalid"
REJECTED_VALID: Final = "rejected-valid"
REFUSED: Final = "refused"
INVALID_FILE: Final = "invalid-file"
NOT_CANONICAL: Final = "not-canonical"
CRASH: Final = "crash"
TIMEOUT: Final = "timeout"
GARBAGE: Final = "garbage"
FLOOD: Final = "too-much-output"

OUTCOMES: Final = {
    PASS: "did what the case expects",
    WRONG_DOCUMENT: "another document than the expected one",
    ACCEPTED_INVALID: "accepted what must be refused",
    REJECTED_VALID: "rejected a valid file",
    REFUSED: "refused to write a valid document",
    INVALID_FILE: "wrote a file that readers must refuse",
    NOT_CANONICAL: "wrote a file that readers accept and writers must not produce",
    CRASH: "ended by a signal, an exit status other than 0 and 1, or an uncaught exception",
    TIMEOUT: "did not end in time",
    GARBAGE: "answered with something that the protocol does not know",
    FLOOD: "printed far more than the case can give",
}
MISBEHAVIOUR: Final = frozenset({CRASH, TIMEOUT, GARBAGE, FLOOD})  # never an answer, whatever the case expects

PASSED: Final = "passed"
FAILED: Final = "failed"
STALE: Final = "stale"
WARNED: Final = "warned"
KNOWN: Final = "known"
SKIPPED: Final = "skipped"

STATUSES: Final = {
    PASSED: "passed",
    FAILED: "failed",
    STALE: "not as the known-failures file says",
    WARNED: "with a warning",
    KNOWN: "known failures",
    SKIPPED: "skipped",
}
_FATAL: Final = (FAILED, STALE)
_ABOUT: Final = {
    CANONICAL: "the file breaks a rule for writers, which readers must accept",
    NOTE: "the file is valid, and worth a note",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one test gave.

    ``outcome`` is empty for a skipped test. ``expected`` and ``happened`` are sentences for people; ``rules`` are those
    that the implementation's answer or its file was about, as opposed to the case's own. ``known`` is the reason that
    the known-failures file gives. ``seconds`` is the time the answer took.

    ``file`` is the path of the golden file and ``by_hand`` the command line that asks the same, both for failures only.
    ``where`` says what is at the byte for which a valid file was rejected, ``printed`` and ``stderr`` show what a
    misbehaving command said. ``accepted``: whether a document, or a file, came back; ``compared``: whether that was so,
    and the content was compared.
    """

    direction: str
    case: Case
    outcome: str
    status: str
    expected: str = ""
    happened: str = ""
    difference: Difference | None = None
    rules: tuple[str, ...] = ()
    file: str = ""
    by_hand: str = ""
    where: str = ""
    printed: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    accepted: bool = False
    compared: bool = False
    known: str = ""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """The test's id, such as ``decode:oam/minimal``."""
        return f"{self.direction}:{self.case.id}"

    @property
    def fatal(self) -> bool:
        """Whether the run is not conformant because of this test."""
        return self.status in _FATAL

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types; the time is left out, so that two runs can be compared as text."""
        return {
            "id": self.id,
            "case": self.case.id,
            "direction": self.direction,
            "format": self.case.format,
            "title": self.case.title,
            "verdict": self.case.verdict,
            "level": self.case.level,
            "tags": list(self.case.tags),
            "case_rules": list(self.case.rules),
            "status": self.status,
            "outcome": self.outcome or None,
            "expected": self.expected,
            "accepted": self.accepted,
            "happened": self.happened,
            "difference": self.difference.to_json() if self.difference else None,
            "rules": list(self.rules),
            "file": self.file or None,
            "by_hand": self.by_hand or None,
            "where": self.where or None,
            "printed": list(self.printed),
            "stderr": list(self.stderr),
            "known": self.known or None,
        }


_SMOKE_WANTED: Final = {DECODE: "no document of its format", ENCODE: "no file of its format"}


def _block(label: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of which the first has a label."""
    for number, line in enumerate(lines):
        yield f"  {'' if number else label:9} {line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeFailure:
    """The smoke case failed: nothing was learnt about the implementation, for nothing came back that could be judged.

    That is less than a failed case: a document or a file of the right format, with whatever in it, is not one.
    """

    result: Result
    command: str
    ended: str
    stdout: str
    stderr: tuple[str, ...]
    hint: str

    def to_json(self) -> dict[str, Any]:
        """Return the failure as JSON types."""
        return {
            "test": self.result.id,
            "outcome": self.result.outcome,
            "happened": self.result.happened,
            "command": self.command,
            "ended": self.ended,
            "stdout": self.stdout,
            "stderr": list(self.stderr),
            "hint": self.hint,
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation for people."""
        yield f"The smoke case {self.result.id} failed, so no other case was run."
        yield f"It is a simple valid one, and {_SMOKE_WANTED[self.result.direction]} came back: the adapter (the"
        yield "command, or how it speaks the protocol) is broken rather than the implementation."
        yield f"  command   {self.command}"
        yield f"  expected  {self.result.expected}"
        yield f"  happened  {self.result.happened}"
        yield f"  ended     {self.ended}"
        yield f"  stdout    {self.stdout or '(empty)'}"
        yield from _block("stderr", self.stderr or ("(empty)",))
        yield f"  file      {self.result.file}"
        if self.result.by_hand:
            yield f"  by hand   {self.result.by_hand}"
        yield f"  hint      {self.hint}"


_MANY: Final = 5  # failures that are one mistake rather than several


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures of one direction that differ first at the same path: their ``number``, and the ``first`` difference."""

    direction: str
    number: int
    first: Difference

    def __str__(self) -> str:
        hint = f" ({self.first.hint})" if self.first.hint else ""
        values = f"expected {self.first.expected}, found {self.first.found}{hint}"
        return f"{self.direction}: {self.number} cases differ first at {self.first.path}; the first one: {values}"

    def to_json(self) -> dict[str, Any]:
        """Return the group as JSON types."""
        return {
            "direction": self.direction,
            "number": self.number,
            "first": self.first.to_json(),
            "hint": self.first.hint or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run. ``results`` stand in the manifest's order, all decoder tests before all encoder tests.

    ``name`` is what the implementation is called beside others.
    """

    name: str = ""
    suite_version: str
    protocol_version: str
    decoder: str | None
    encoder: str | None
    strict: bool
    partial: bool
    results: tuple[Result, ...] = ()
    smoke: SmokeFailure | None = None
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 conformant, 1 not, 2 the adapter does not work."""
        if self.smoke is not None:
            return 2
        return 1 if any(result.fatal for result in self.results) else 0

    @property
    def accepted_acceptable(self) -> tuple[Result, ...]:
        """The tests of acceptable cases that were accepted, and rightly so."""
        return tuple(
            result
            for result in self.results
            if result.case.verdict == "acceptable" and result.accepted and result.outcome == PASS
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """Failures with the same first difference, where there are many of them; the largest group first."""
        found: dict[tuple[str, str], list[Difference]] = {}
        for result in self.results:
            if result.difference is not None and result.status in (*_FATAL, WARNED):
                found.setdefault((result.direction, result.difference.path), []).append(result.difference)
        made = [
            Group(direction=direction, number=len(differences), first=differences[0])
            for (direction, _), differences in found.items()
            if len(differences) >= _MANY
        ]
        return tuple(sorted(made, key=lambda group: -group.number))

    @property
    def verdict(self) -> str:
        """The last line of the summary."""
        if self.exit_status:
            return "not conformant"
        known = self.counts()[KNOWN]
        return f"as listed: {count(known, 'known failure')}, nothing else" if known else "conformant"

    def counts(self) -> dict[str, int]:
        """Return the number of tests of each status."""
        return _tally(STATUSES, (result.status for result in self.results))

    def outcomes(self) -> dict[str, int]:
        """Return the number of tests of each outcome that occurred, skipped ones apart."""
        made = _tally(OUTCOMES, (result.outcome for result in self.results if result.outcome))
        return {outcome: number for outcome, number in made.items() if number}

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON types."""
        return {
            "suite": self.suite_version,
            "protocol": self.protocol_version,
            "name": self.name,
            "decoder": self.decoder,
            "encoder": self.encoder,
            "strict": self.strict,
            "partial": self.partial,
            "exit_status": self.exit_status,
            "counts": self.counts(),
            "outcomes": self.outcomes(),
            "smoke": self.smoke.to_json() if self.smoke else None,
            "notes": list(self.notes),
            "groups": [group.to_json() for group in self.groups],
            "acceptable": {
                "accepted": [result.id for result in self.accepted_acceptable],
                "not_compared": [result.id for result in self.accepted_acceptable if not result.compared],
            },
            "results": [result.to_json() for result in self.results],
        }


def _tally(keys: Iterable[str], values: Iterable[str]) -> dict[str, int]:
    made = dict.fromkeys(keys, 0)
    for value in values:
        made[value] += 1
    return made


def render_text(run: RunResult) -> str:
    """Return the summary for people: the failures and warnings first, the counts at the end where they are seen."""
    lines = [f"ckptspec conformance suite {run.suite_version}, protocol {run.protocol_version}"]
    lines += [f"{name}: {text}" for name, text in (("decoder", run.decoder), ("encoder", run.encoder)) if text]
    if run.smoke is not None:
        return "\n".join([*lines, "", *run.smoke.lines()]) + "\n"
    if run.groups:
        lines += ["", *map(str, run.groups)]
    for title, status in (("WARNING", WARNED), ("STALE", STALE), ("FAILED", FAILED)):
        for result in run.results:
            if result.status == status:
                lines += ["", *_describe(title, result)]
    lines += ["", *_totals(run)]
    lines += [f"note: {note}" for note in (*run.notes, *_acceptable_note(run))]
    if run.partial:
        lines.append("note: this run is partial, it says nothing about the cases left out")
    lines.append(run.verdict)
    return "\n".join(lines) + "\n"


def _acceptable_note(run: RunResult) -> Iterator[str]:
    number = len(run.accepted_acceptable)
    if any(not result.compared for result in run.accepted_acceptable):
        text = f"{count(number, 'acceptable case was', 'acceptable cases were')} accepted"
        yield f"{text}; where the reference refuses, their content is not compared"


def _describe(title: str, result: Result) -> Iterator[str]:
    yield f"{title} {result.id}: {result.case.title}"  # the project's own text, escaped where that was wanted
    yield f"  outcome   {result.outcome}: {OUTCOMES[result.outcome]}"
    yield f"  expected  {result.expected}"
    yield f"  happened  {result.happened}"
    yield from _block("printed", result.printed)
    if len(result.stderr) > 1:  # a single line is part of what happened
        yield from _block("stderr", result.stderr)
    if result.where:
        yield f"  where     {result.where}"
    if result.difference:
        yield f"  first difference at {result.difference.path}"
        yield f"    expected  {result.difference.expected}"
        yield f"    found     {result.difference.found}"
        if result.difference.hint:
            yield f"    hint      {result.difference.hint}"
    if result.known:
        yield f"  listed    {result.known}"
    yield from _rules(result)
    if result.case.reason:
        yield f"  reason    {result.case.reason}"
    if result.file:
        yield f"  file      {result.file}"
    if result.by_hand:
        yield f"  by hand   {result.by_hand}"


def _rules(result: Result) -> Iterator[str]:
    """Yield the rules that can be the cause, and what else is known to be odd about a valid file."""
    kinds = {rule: RULES[rule].kind if rule in RULES else REJECT for rule in result.case.rules}
    causes = [rule for rule, kind in kinds.items() if result.case.verdict == "invalid" or kind == REJECT]
    for rule in dict.fromkeys((*causes, *result.rules)):
        yield f"  rule      {rule}{': ' + RULES[rule].sentence if rule in RULES else ''}"
    if result.case.verdict == "valid" and result.direction == DECODE:
        for rule, kind in kinds.items():
            if kind in _ABOUT:
                yield f"  about     {_ABOUT[kind]}: {rule}"


def _totals(run: RunResult) -> Iterator[str]:
    for direction in (DECODE, ENCODE):
        results = [result for result in run.results if result.direction == direction]
        if results:
            tally = _tally(STATUSES, (result.status for result in results))
            parts = [
                f"{tally[status]} {text}" for status, text in STATUSES.items() if tally[status] or status == PASSED
            ]
            yield f"{direction}: {count(len(results), 'case')}: {', '.join(parts)}"
    for outcome, number in run.outcomes().items():
        if outcome != PASS:
            yield f"  {number:5d}  {outcome}: {OUTCOMES[outcome]}"


# XML 1.0, clause 2.2: what is not a Char cannot even be written as a reference.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def render_junit(run: RunResult, timestamp: str = "1970-01-01T00:00:00") -> str:
    """Return the run as JUnit XML, one suite for each direction and format.

    ``timestamp`` (``YYYY-MM-DDThh:mm:ss``) is when the run began. A misbehaviour is an error, any other failure a
    failure; known failures count as skipped; warnings, which JUnit does not know, stand in the suite's output. The
    element order and the attributes are those that both common schemas (Ant's and Jenkins') allow.
    """
    root = ET.Element("testsuites")
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in [run.smoke.result] if run.smoke else run.results:
        groups.setdefault((result.direction, result.case.format), []).append(result)
    for number, (key, results) in enumerate(groups.items()):
        _junit_suite(root, ".".join(key), results, {"id": str(number), "timestamp": timestamp}, run)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _junit_suite(root: ET.Element, name: str, results: list[Result], about: dict[str, str], run: RunResult) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": name, "package": "ckptspec", "hostname": "localhost", **about})
    properties = ET.SubElement(suite, "properties")
    facts = {
        "suite": run.suite_version,
        "protocol": run.protocol_version,
        "decoder": run.decoder,
        "encoder": run.encoder,
    }
    for key, value in facts.items():
        if value:
            ET.SubElement(properties, "property", name=key, value=_xml(value))
    children = [_junit_case(suite, name, result) for result in results]
    for attribute, child in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(children.count(child)))
    suite.set("tests", str(len(results)))
    suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    warnings = [line for result in results if result.status == WARNED for line in _describe("WARNING", result)]
    ET.SubElement(suite, "system-out").text = _xml("\n".join(warnings))
    ET.SubElement(suite, "system-err").text = _xml(_smoke_text(run))


def _smoke_text(run: RunResult) -> str:
    return "\n".join(run.smoke.lines()) if run.smoke else ""


def _junit_case(suite: ET.Element, suite_name: str, result: Result) -> str:
    """Add one test; return the name of the element that says how it went, or nothing if it passed."""
    attributes = {"name": _xml(result.case.id), "classname": f"ckptspec.{suite_name}", "time": f"{result.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", attributes)
    if result.fatal:
        child = "error" if result.outcome in MISBEHAVIOUR and result.status == FAILED else "failure"
        kind = STALE if result.status == STALE else result.outcome
        made = ET.SubElement(element, child, type=kind, message=_xml(result.happened))
        made.text = _xml("\n".join(_describe(result.status.upper(), result)))
        return child
    if result.status in (KNOWN, SKIPPED):
        message = f"known failure ({result.outcome}): {result.known}" if result.status == KNOWN else result.happened
        ET.SubElement(element, "skipped", message=_xml(message))
        return "skipped"
    return ""
