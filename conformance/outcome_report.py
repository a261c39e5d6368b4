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

from ..spec.rules import RULES
from ..text import count, printable
from .catalogue import Case

__all__ = [
    "MISBEHAVIOUR",
    "OUTCOMES",
    "Difference",
    "Result",
    "RunResult",
    "SmokeFailure",
    "render_junit",
    "render_text",
]

DECODE: Final = "decode"
ENCODE: Final = "encode"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two documents first differ: the path, and what stands there in each."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"at {self.path}: found {self.found}, expected {self.expected}"

    def to_json(self) -> dict[str, str]:
        """Return the difference as JSON types."""
        return {"path": self.path, "expected": self.expected, "found": self.found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one test gave.

    ``outcome`` is empty for a skipped test. ``expected`` and ``happened`` are sentences for people; ``rules`` are those
    that the implementation's answer or its file was about, as opposed to the case's own. ``known`` is the reason that
    the known-failures file gives. ``seconds`` is the time the answer took.
    """

    direction: str
    case: Case
    outcome: str
    status: str
    expected: str = ""
    happened: str = ""
    difference: Difference | None = None
    rules: tuple[str, ...] = ()
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
            "happened": self.happened,
            "difference": self.difference.to_json() if self.difference else None,
            "rules": list(self.rules),
            "known": self.known or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeFailure:
    """The smoke case failed: nothing was learnt about the implementation, because its adapter does not work."""

    result: Result
    command: str
    ended: str
    stdout: str
    stderr: str
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
            "stderr": self.stderr,
            "hint": self.hint,
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation for people."""
        yield f"The smoke case {self.result.id} failed, so no other case was run."
        yield "It is the simplest valid one of its format: the adapter (the command, or how it speaks the protocol) is"
        yield "broken rather than the implementation."
        yield f"  command   {self.command}"
        yield f"  expected  {self.result.expected}"
        yield f"  happened  {self.result.happened}"
        yield f"  ended     {self.ended}"
        yield f"  stdout    {self.stdout or '(empty)'}"
        yield f"  stderr    {self.stderr or '(empty)'}"
        yield f"  hint      {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run. ``results`` stand in the manifest's order, all decoder tests before all encoder tests."""

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
            "decoder": self.decoder,
            "encoder": self.encoder,
            "strict": self.strict,
            "partial": self.partial,
            "exit_status": self.exit_status,
            "counts": self.counts(),
            "outcomes": self.outcomes(),
            "smoke": self.smoke.to_json() if self.smoke else None,
            "notes": list(self.notes),
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
    for title, status in (("WARNING", WARNED), ("STALE", STALE), ("FAILED", FAILED)):
        for result in run.results:
            if result.status == status:
                lines += ["", *_describe(title, result)]
    lines += ["", *_totals(run)]
    lines += [f"note: {note}" for note in run.notes]
    if run.partial:
        lines.append("note: this run is partial, it says nothing about the cases left out")
    lines.append("not conformant" if run.exit_status else "conformant")
    return "\n".join(lines) + "\n"


def _describe(title: str, result: Result) -> Iterator[str]:
    yield f"{title} {result.id}: {printable(result.case.title)}"
    yield f"  outcome   {result.outcome}: {OUTCOMES[result.outcome]}"
    yield f"  expected  {result.expected}"
    yield f"  happened  {result.happened}"
    if result.difference:
        yield f"  first difference at {result.difference.path}"
        yield f"    expected  {result.difference.expected}"
        yield f"    found     {result.difference.found}"
    if result.known:
        yield f"  listed    {result.known}"
    for rule in dict.fromkeys((*result.case.rules, *result.rules)):
        yield f"  rule      {printable(rule)}{': ' + RULES[rule].sentence if rule in RULES else ''}"
    if result.case.reason:
        yield f"  reason    {printable(result.case.reason)}"


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


def first_difference(expected: Any, found: Any, path: str = "document") -> Difference | None:
    """Compare two JSON values with strict types: true is not 1, and 1 is not 1.0. Keys have no order, arrays have.

    The depth is bounded by that of ``expected``: only there does the comparison descend.
    """
    if type(expected) is not type(found):
        return Difference(path=path, expected=_show(expected), found=_show(found))
    if isinstance(expected, dict):
        return _object_difference(expected, found, path)
    if isinstance(expected, list):
        return _array_difference(expected, found, path)
    if expected == found:
        return None
    if isinstance(expected, str):
        return _text_difference(expected, found, path)
    return Difference(path=path, expected=_show(expected), found=_show(found))


def _object_difference(expected: dict[str, Any], found: dict[str, Any], path: str) -> Difference | None:
    for key, value in expected.items():
        below = _below(path, key)
        if key not in found:
            return Difference(path=below, expected=_show(value), found="no such key")
        difference = first_difference(value, found[key], below)
        if difference:
            return difference
    for key, value in found.items():
        if key not in expected:
            return Difference(path=_below(path, key), expected="no such key", found=_show(value))
    return None


def _array_difference(expected: list[Any], found: list[Any], path: str) -> Difference | None:
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        difference = first_difference(one, other, f"{path}[{index}]")
        if difference:
            return difference
    if len(expected) != len(found):
        return Difference(path=path, expected=_show(expected), found=_show(found))
    return None


_WINDOW: Final = 40  # characters of a long text that are shown
_BEFORE: Final = 12  # how many of them stand before the first difference


def _text_difference(expected: str, found: str, path: str) -> Difference:
    if max(len(expected), len(found)) <= _WINDOW:
        return Difference(path=path, expected=_show(expected), found=_show(found))
    pairs = enumerate(zip(expected, found, strict=False))
    at = next((index for index, (one, other) in pairs if one != other), min(len(expected), len(found)))
    start = max(0, at - _BEFORE)
    return Difference(path=f"{path}, character {at}", expected=_show(expected, start), found=_show(found, start))


def _below(path: str, key: str) -> str:
    below = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,60}", key) else None
    if below is None:
        return f"{'' if path == 'document' else path}[{_show(key)}]"
    return below if path == "document" else f"{path}.{below}"


def _show(value: Any, start: int = 0) -> str:
    """Return a JSON value as short text; of a long text the part from ``start`` on."""
    if isinstance(value, dict):
        return f"an object of {count(len(value), 'key')}"
    if isinstance(value, list):
        return f"an array of {count(len(value), 'item')}"
    if isinstance(value, str):
        part = value[start : start + _WINDOW]
        before = "..." if start else ""
        after = f"... ({len(value)} characters)" if len(value) > _WINDOW else ""
        return f'{before}"{printable(part)}"{after}'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
