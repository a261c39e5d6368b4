"""What the suite expects of the reference itself: findings, messages, documents and files, to the last byte.

The tests run each case through ``check``, and so does the mutation of the project, which counts a mutant as killed if
some case then is no longer what it should be.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from .. import decode, encode, loads, neutral, sexp, validate
from ..errors import ArgumentError, FormatError
from ..findings import Report
from ..formats import module_of
from ..source import BufferSource
from ..spec.rules import CANONICAL, NOTE, RULES
from ..spec.schema import OAM_NEWEST, OcannlFrame
from .catalogue import ANY_FORMAT, Case

__all__ = ["Expectation", "Unexpected", "check", "read", "same_file"]


class Unexpected(AssertionError):  # noqa: N818  # it says that the reference is wrong, or mutated
    """The reference does not do with a case what the suite expects of it."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A case with all that was read for it. ``company`` are rules that may be found besides those of the case."""

    case: Case
    data: bytes
    expected: Any
    company: Collection[str] | None = field(default=None)

    @classmethod
    def of(cls, case: Case, company: Collection[str] | None = None) -> Expectation:
        """Read the case's files; without ``company``, nobody asks what else is found in a file that is refused."""
        return cls(case, case.read(), case.read_expected(), company)


def check(expectation: Expectation) -> None:
    """Run one case through the reference; raises Unexpected."""
    case = expectation.case
    if case.kind == "document":
        _check_document(case, expectation.data, expectation.expected)
        return
    report = validate(expectation.data, format=None if case.format == ANY_FORMAT else case.format)
    if "error" in expectation.expected:
        _check_refused(expectation, report)
    else:
        _check_accepted(expectation, report)


def read(format: str, data: bytes) -> Any:
    """Read data as a file of a format; ``any`` stands for the one that it looks like."""
    return loads(data) if format == ANY_FORMAT else module_of(format).read(BufferSource(data))


def same_file(format: str, document: Any, made: bytes, data: bytes) -> bool:
    """Whether two files are the same; where the header is text, up to the layout of this text."""
    if format != "ocannl":
        return made == data
    return _ocannl_parts(document, made) == _ocannl_parts(document, data)


def _ocannl_parts(document: Any, data: bytes) -> tuple[Any, int, bytes]:
    """Return the header's tree, where the data section starts (modulo the alignment), and the data section."""
    start = OcannlFrame.sizeof()
    end = start + OcannlFrame.parse(data)["header_length"]
    try:
        tree: Any = sexp.parse(data[start:end])
    except sexp.SexpError:  # a reader takes what surrounds it for blanks
        tree = data[start:end]
    return tree, end % document["alignment"], data[end:]


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Unexpected(f"{what}: found {found!r}, expected {expected!r}")


def _check_refused(expectation: Expectation, report: Report) -> None:
    case, data, expected = expectation.case, expectation.data, expectation.expected["error"]
    _same("the verdict is no refusal", case.verdict == "valid", False)
    _same("the first finding of a validation", report.first and report.first.rule, case.rules[0])
    try:
        read(case.format, data)
    except FormatError as error:
        _same("the finding of a reader and of a validation", error.finding, report.first)
        _same("the message", str(error), expected["message"])
        _same("rule, offset and path", [error.rule, error.offset, error.path], [expected[key] for key in _PLACE])
        _same("an offset within the file", 0 <= error.offset <= len(data), True)
    else:
        raise Unexpected("a file that must be refused is read")
    try:
        decode(data)
    except FormatError:
        pass
    else:
        raise Unexpected("a file that must be refused is decoded")
    if expectation.company is not None:
        allowed = {*case.rules, *RULES[case.rules[0]].implies, *expectation.company}
        _same("findings besides those of the case", {finding.rule for finding in report} - allowed, set())


_PLACE = ("rule", "offset", "path")


def _check_accepted(expectation: Expectation, report: Report) -> None:
    case, data = expectation.case, expectation.data
    _same("the verdict is no acceptance", case.verdict == "invalid", False)
    _same("the finding for which the file is refused", report.first, None)
    found = {finding.rule for finding in report}
    _same("canonical findings", _of_kind(found, CANONICAL), _of_kind(case.rules, CANONICAL))
    _same("notes that are missing", _of_kind(case.rules, NOTE) - found, set())
    document = decode(data)
    _same("the document", document, expectation.expected)
    newest = encode(document | {"version": OAM_NEWEST} if case.format == "oam" else document)
    _same("whether the file is canonical", report.canonical, case.canonical)
    _same("whether a writer writes this file", same_file(case.format, document, newest, data), case.canonical)
    _same("the findings in the file that is written", list(map(str, _flaws(validate(newest)))), [])
    _same("the document of the file that is written", decode(encode(document)), document)


def _of_kind(rules: Collection[str], kind: str) -> set[str]:
    return {rule for rule in rules if RULES[rule].kind == kind}


def _flaws(report: Report) -> list[object]:
    return [finding for finding in report if finding.severity != NOTE]


def _check_document(case: Case, text: bytes, expected: Any) -> None:
    if case.verdict == "invalid":
        try:
            encode(neutral.parse_json(text))
        except ArgumentError as error:
            _same("the message", str(error), expected["error"]["message"])
            return
        raise Unexpected("a document that must be refused is encoded")
    document = neutral.parse_json(text)
    _same("the document", document, expected)
    data = encode(document)
    _same("the document of the file that is written", decode(data), document)
