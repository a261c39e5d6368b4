"""What an answer is worth: the outcome of one test, and what the outcome counts as."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import FormatError
from ..formats import FORMATS, module_of
from ..neutral import dump_json, parse_json
from ..source import BufferSource
from ..text import count
from .answers import ACCEPTED, REJECTED, Answer
from .catalogue import DECODE, ENCODE, Case, Suite
from .differences import Difference, first_difference
from .outcome_report import (
    ACCEPTED_INVALID,
    FAILED,
    INVALID_FILE,
    MISBEHAVIOUR,
    NOT_CANONICAL,
    PASS,
    PASSED,
    REFUSED,
    REJECTED_VALID,
    WARNED,
    WRONG_DOCUMENT,
)

__all__ = [
    "Judgement",
    "Test",
    "is_error",
    "judge_decoder",
    "judge_encoder",
    "speaks_protocol",
    "status_of",
    "suite_tests",
    "what_is_at",
]


# An encoder writes the version that the document gives, so this finding is no fault of its own. That the version is
# really the document's shows when the file is decoded.
_ASKED_FOR: Final = frozenset({"OAM-HDR-OLD"})


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
    """Return all tests of a suite: decoders get all files, encoders all documents and those of the valid files."""
    both = (DECODE, ENCODE)
    return [
        Test(direction=direction, case=case)
        for direction in both
        for case in suite.cases
        if direction in case.directions
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome of one test. ``compared`` says whether the content of what was accepted was looked at."""

    outcome: str
    expected: str
    happened: str
    compared: bool = False
    difference: Difference | None = None
    rules: tuple[str, ...] = ()


_DECODER_MUST: Final = {
    "valid": "the expected document",
    "invalid": "a rejection",
    "acceptable": "a rejection, or the right document",
}
_ENCODER_MUST: Final = {
    "valid": "a file that readers accept, and that decodes to the document given",
    "invalid": "a refusal",
    "acceptable": "a refusal, or a file that readers accept",
}


def is_error(document: Any) -> bool:
    return isinstance(document, dict) and "error" in document and "format" not in document


def judge_decoder(case: Case, document: Any, answer: Answer) -> Judgement:
    """Judge a decoder's answer; a ``document`` of None means that any one will do."""
    difference = None
    outcome = PASS
    if answer.kind in MISBEHAVIOUR:
        outcome = answer.kind
    elif answer.kind == REJECTED:
        outcome = REJECTED_VALID if case.verdict == "valid" else PASS
    elif case.verdict == "invalid":
        outcome = ACCEPTED_INVALID
    elif document is not None:
        difference = first_difference(document, answer.document)
        outcome = WRONG_DOCUMENT if difference else PASS
    return Judgement(
        outcome=outcome,
        expected=_DECODER_MUST[case.verdict],
        happened="accepted, with another document" if difference else answer.detail,
        compared=answer.kind == ACCEPTED and case.verdict != "invalid" and document is not None,
        difference=difference,
        rules=(answer.rule,) if answer.rule else (),
    )


def judge_encoder(case: Case, document: Any, answer: Answer) -> Judgement:
    """Judge an encoder's answer, and the file that it wrote by validating and decoding it."""
    expected = _ENCODER_MUST[case.verdict]
    if answer.kind == ACCEPTED and case.verdict != "invalid":
        return replace(_judge_file(case, document, answer.data), expected=expected, compared=document is not None)
    outcome = PASS
    if answer.kind in MISBEHAVIOUR:
        outcome = answer.kind
    elif answer.kind == ACCEPTED:
        outcome = ACCEPTED_INVALID
    elif case.verdict == "valid":
        outcome = REFUSED
    rules = (answer.rule,) if answer.rule else ()
    return Judgement(outcome=outcome, expected=expected, happened=answer.detail, rules=rules)


def _judge_file(case: Case, document: Any, data: bytes) -> Judgement:
    from .. import decode, validate

    wrote = f"wrote {count(len(data), 'byte')}"
    report = validate(data, format=case.format)
    if report.first is not None:
        rules = tuple(dict.fromkeys(finding.rule for finding in report.findings if finding.severity == "reject"))
        happened = f"{wrote}: {report.first}"
        return Judgement(outcome=INVALID_FILE, expected="", happened=happened, rules=rules)
    try:
        decoded = parse_json(dump_json(decode(data)))
    except FormatError as error:
        return Judgement(outcome=INVALID_FILE, expected="", happened=f"{wrote}: {error}", rules=(error.rule,))
    difference = first_difference(document, decoded) if document is not None else None
    if difference is not None:
        happened = f"{wrote}, which decode to another document"
        return Judgement(outcome=WRONG_DOCUMENT, expected="", happened=happened, difference=difference)
    flaws = [finding for finding in report if finding.severity == "canonical" and finding.rule not in _ASKED_FOR]
    if not flaws:
        return Judgement(outcome=PASS, expected="", happened=wrote)
    more = f" (and {count(len(flaws) - 1, 'more finding', 'more findings')})" if len(flaws) > 1 else ""
    rules = tuple(dict.fromkeys(finding.rule for finding in flaws))
    return Judgement(outcome=NOT_CANONICAL, expected="", happened=f"{wrote}: {flaws[0]}{more}", rules=rules)


def status_of(case: Case, outcome: str, strict: bool) -> str:
    if outcome == PASS:
        return PASSED
    mild = outcome == NOT_CANONICAL or (case.level == "should" and outcome not in MISBEHAVIOUR)
    return WARNED if mild and not strict else FAILED


def what_is_at(format: str, data: bytes, offset: int) -> str:
    """Say which field of a valid file is at a byte, or that none is."""
    if format not in FORMATS:
        return ""
    if not 0 <= offset < len(data):
        return f"byte {offset} is outside of the file, which has {count(len(data), 'byte')}"
    there = [
        region
        for region in module_of(format).regions(BufferSource(data))
        if region.offset <= offset < region.offset + region.size
    ]
    if not there:
        return ""
    return f"byte {offset} is {min(there, key=lambda region: region.size).path}"


def speaks_protocol(test: Test, answer: Answer) -> bool:
    """Whether what came back shows that the adapter works."""
    if answer.kind != ACCEPTED:
        return False
    if test.direction == DECODE:
        return bool(answer.document.get("format") == test.case.format)
    from .. import validate

    # Bytes that are wrong from the first one on are not a bad file but none: a message, perhaps.
    first = validate(answer.data, format=test.case.format).first
    return bool(answer.data) and (first is None or first.offset > 0)
