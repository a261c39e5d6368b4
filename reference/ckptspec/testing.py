"""What the tests of programs that read or write checkpoints need: golden files, and assertions that say what is wrong.

Everything here works under any test runner. The marker and the fixtures for pytest, in ``ckptspec.pytest_plugin``, are
made of it.

A failed assertion is an AssertionError; a call that asks for what there is not (an unknown tag, a selection without a
case) is an ArgumentError, so that no test passes for want of cases.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, Union

from .conformance.catalogue import DECODE, ENCODE, LEVELS, VERDICTS, Case, Suite, load_suite
from .errors import ArgumentError, CheckpointError, FormatError
from .text import count, printable, shorten, show

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .compare import Comparison
    from .conformance.answers import Answer
    from .conformance.judging import Judgement
    from .findings import Finding, Report

__all__ = [
    "Case",
    "CaseSelector",
    "ConformanceWarning",
    "Refusal",
    "Where",
    "assert_refused",
    "assert_same",
    "assert_valid",
    "case",
    "cases",
    "check_reader",
    "check_writer",
]

Where: TypeAlias = Union[str, "os.PathLike[str]", "Buffer"]
"""A file: its path, or its bytes."""
Names: TypeAlias = str | Iterable[str] | None
Refusal: TypeAlias = type[Exception] | tuple[type[Exception], ...]

_FINDINGS: Final = 20  # that a message lists
_LINES: Final = 200  # of what the command line prints that are kept
_WIDTH: Final = 160  # characters of a line of a message that others wrote


class ConformanceWarning(UserWarning):
    """An implementation does not do what it should, though it need not."""


# ----------------------------------------------------------------------------------------------------------- assertions


def assert_valid(where: Where, *, strict: bool = False, format: str | None = None) -> Report:
    """Assert that readers accept a file, given by its path or its bytes; return the report on it.

    ``strict`` asks for a file without findings but notes, which is what a writer has to make. The format is told from
    the content unless given. The message is what ``ckptspec validate`` prints.
    """
    __tracebackhide__ = True
    report = _report(where, format)
    if not report.ok or (strict and not report.canonical):
        raise AssertionError(_report_text(report, strict))
    return report


def assert_refused(where: Where, rule: str | None = None, *, format: str | None = None) -> Finding:
    """Assert that readers must refuse a file, and if ``rule`` is given, for this rule; return the first finding.

    A reader refuses a file for the first rule that it finds broken, so a file that breaks others before ``rule`` is not
    refused for it.
    """
    __tracebackhide__ = True
    if rule is not None:
        _check_reject(rule)
    report = _report(where, format)
    first = report.first
    wanted = "a file that readers must refuse" + (f", for {rule}" if rule else "")
    if first is None:
        raise AssertionError(f"expected {wanted}\n{_report_text(report)}")
    if rule is not None and first.rule != rule:
        late = any(finding.rule == rule for finding in report)
        more = f"; {rule} is broken too, but found later" if late else ""
        raise AssertionError(f"expected {wanted}, found {first.rule}{more}\n{_report_text(report)}")
    return first


def assert_same(
    a: Any,
    b: Any,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    ulp: int = 0,
    only: Names = None,
    facts: bool = True,
    ignore_dtype: bool = False,
) -> Comparison:
    """Assert that two checkpoints have the same content, whatever their formats; return the comparison.

    ``a`` and ``b`` are paths, bytes, or models of any format that can be saved. Two elements are the same within any of
    the tolerances: ``atol``, ``rtol`` (relative to the larger magnitude), ``ulp`` (steps between floats). ``only`` are
    shell patterns of names of tensors, and leaves the facts out, as ``facts=False`` does; with ``ignore_dtype`` only
    the values count. The message is what ``ckptspec diff`` prints.
    """
    __tracebackhide__ = True
    from .cli.comparing import chosen, print_diff
    from .compare import compare
    from .contents import contents_of
    from .elements import Tolerance
    from .source import open_source

    if not (atol >= 0 and rtol >= 0 and 0 <= ulp < 1 << 64):
        raise ArgumentError("a tolerance is 0 or more")
    patterns = None if only is None else _listed(only, "only")
    with open_source(_saved(a)) as one, open_source(_saved(b)) as other:
        names = (_name(one.name, "the first", one.size), _name(other.name, "the second", other.size))
        try:
            found = compare(
                contents_of(one),
                contents_of(other),
                tolerance=Tolerance(atol=atol, rtol=rtol, ulp=ulp),
                only=chosen(patterns),
                facts=facts and only is None,
                dtypes=not ignore_dtype,
            )
        except FormatError as error:
            raise AssertionError(f"only files that readers accept can be the same: {error}") from error
        if patterns is not None and not found.compared and not found.removed and not found.added:
            raise ArgumentError(f"no tensor has a name like {' or '.join(map(show, patterns))}", "only")
    if found.differ:
        raise AssertionError("expected the same content\n" + _printed(print_diff, names, found))
    return found


def _saved(where: Any) -> Any:
    """Return a path or bytes as they are, and the bytes of anything that can be saved."""
    if isinstance(where, (str, os.PathLike, bytes, bytearray, memoryview)):
        return where
    from . import dumps

    return dumps(where)


def _name(name: str | None, which: str, size: int) -> str:
    return name if name is not None else f"{which}, {count(size, 'byte')} in memory"


def _report(where: Where, format: str | None) -> Report:
    from . import validate

    return validate(where, format=format)


def _report_text(report: Report, strict: bool = False) -> str:
    from dataclasses import replace

    from .cli.looking import print_report

    source = report.source or "the bytes"
    findings = report.findings
    if len(findings) > _FINDINGS:
        findings = sorted(findings, key=lambda finding: finding.severity != "reject")[:_FINDINGS]
    shown = replace(report, source=source, findings=findings, survivors=[], truncated=False)
    text = _printed(lambda style: print_report(shown, style, False, strict))
    left = len(report.findings) - len(findings)
    return text + (f"\n  and {count(left, 'more finding', 'more findings')}" if left else "")


def _printed(function: Callable[..., None], *arguments: Any) -> str:
    """Return what one of the command line's functions prints, without colour."""
    import contextlib
    import io

    from .terminal import Style

    with contextlib.redirect_stdout(io.StringIO()) as made:
        function(*arguments, Style(made))
    lines = made.getvalue().splitlines()
    if len(lines) > _LINES:
        lines[_LINES:-1] = [f"  ... {count(len(lines) - 1 - _LINES, 'more line')}"]
    return "\n".join(lines)


def _check_reject(rule: str) -> None:
    __tracebackhide__ = True
    from .spec.rules import REJECT, RULES

    _known("rule", [rule], RULES)
    if RULES[rule].kind != REJECT:
        raise ArgumentError(f"{rule} is of the kind {RULES[rule].kind}: no file is refused for it", "rule")


# ---------------------------------------------------------------------------------------------------------------- cases


class CaseSelector(Protocol):
    """How ``cases`` is called; the type of the fixture ``ckptspec_cases``."""

    def __call__(
        self,
        *,
        format: Names = None,
        verdict: Names = None,
        level: Names = None,
        tag: Names = None,
        skip_tags: Names = None,
        rule: Names = None,
        match: Names = None,
        direction: str = DECODE,
    ) -> tuple[Case, ...]:
        """Return the cases that fit; see ``cases``."""


@cache
def _suite() -> Suite:
    return load_suite()


def case(id: str) -> Case:
    """Return the case of the suite with an id such as ``oam/golden_minimal``; ArgumentError if there is none."""
    __tracebackhide__ = True
    _known("case", [id], [case.id for case in _suite().cases], "id")
    return _suite().case(id)


def cases(
    *,
    format: Names = None,
    verdict: Names = None,
    level: Names = None,
    tag: Names = None,
    skip_tags: Names = None,
    rule: Names = None,
    match: Names = None,
    direction: str = DECODE,
) -> tuple[Case, ...]:
    """Return the cases of the suite that fit, in the suite's order; ArgumentError if none does, or a name is unknown.

    Each argument is a name or several, one of which has to fit: ``format`` (``any``: files of no format), ``verdict``
    (valid, invalid, acceptable), ``level`` (must, should), ``tag``, ``rule`` and ``match``, shell patterns for ids.
    Cases with a tag of ``skip_tags`` are left out. ``direction`` says what is tested: ``decode`` a reader, ``encode`` a
    writer.
    """
    __tracebackhide__ = True
    suite = _suite().cases
    wanted = {
        "format": _chosen("format", format, dict.fromkeys(case.format for case in suite)),
        "verdict": _chosen("verdict", verdict, VERDICTS),
        "level": _chosen("level", level, LEVELS),
        "tag": _chosen("tag", tag, {tag for case in suite for tag in case.tags}),
        "skip_tags": _chosen("skip_tags", skip_tags, {tag for case in suite for tag in case.tags}),
        "rule": _chosen("rule", rule, {rule for case in suite for rule in case.rules}),
    }
    _known("direction", [direction], (DECODE, ENCODE))
    patterns = ["*"] if match is None else _listed(match, "match")
    chosen = tuple(case for case in suite if _fits(case, wanted, patterns, direction))
    if not chosen:
        given = {"match": match, "direction": direction, **{key: value for key, value in wanted.items() if value}}
        said = ", ".join(f"{key}={_plain(value)}" for key, value in given.items() if value is not None)
        raise ArgumentError(f"the suite has no case with {said}")
    return chosen


def _plain(value: Any) -> str:
    return show(value) if isinstance(value, str) else "[" + ", ".join(map(show, value)) + "]"


def _fits(case: Case, wanted: Mapping[str, list[str] | None], patterns: list[str], direction: str) -> bool:
    import fnmatch

    def one_of(key: str, *has: str) -> bool:
        names = wanted[key]
        return names is None or not set(names).isdisjoint(has)

    return (
        direction in case.directions
        and one_of("format", case.format)
        and one_of("verdict", case.verdict)
        and one_of("level", case.level)
        and one_of("tag", *case.tags)
        and one_of("rule", *case.rules)
        and set(wanted["skip_tags"] or ()).isdisjoint(case.tags)
        and any(fnmatch.fnmatchcase(case.id, pattern) for pattern in patterns)
    )


def _listed(names: str | Iterable[str], path: str) -> list[str]:
    try:
        made = [names] if isinstance(names, str) else list(names)
    except TypeError:
        made = []
    if not made or not all(isinstance(name, str) for name in made):
        raise ArgumentError(f"found {show(names)}, expected a name or several", path)
    return made


def _chosen(what: str, names: Names, known: Iterable[str]) -> list[str] | None:
    __tracebackhide__ = True
    if names is None:
        return None
    made = _listed(names, what)
    _known("tag" if what == "skip_tags" else what, made, known, what)
    return made


def _known(what: str, names: Iterable[str], known: Iterable[str], path: str = "") -> None:
    """Raise ArgumentError, which names what comes near, unless all names are known."""
    __tracebackhide__ = True
    there = list(known)
    for name in names:
        if name in there:
            continue
        import difflib

        close = difflib.get_close_matches(str(name), there, 3, 0.6)
        hint = ""
        if len(there) <= 8:
            hint = f"; there are {', '.join(there)}"
        elif close:
            hint = f"; did you mean {' or '.join(close)}?"
        raise ArgumentError(f"there is no {what} {show(name)}{hint}", path or what)


# ---------------------------------------------------------------------------------------------------------- conformance


def check_reader(
    case: Case,
    read: Callable[[bytes], Any],
    *,
    refusal: Refusal = CheckpointError,
    content: bool = True,
    strict: bool = False,
) -> None:
    """Assert that a reader does with a case's file what the suite expects, judged as ``ckptspec conform`` does.

    ``read`` takes the bytes and returns the neutral document, or raises ``refusal`` where it refuses the file; any
    other exception is a crash, and no refusal. With ``content=False`` it may return anything, and only acceptance and
    refusal are judged. What is wrong in a case of the level *should* is a ConformanceWarning unless ``strict``.
    """
    __tracebackhide__ = True
    from .conformance.answers import ACCEPTED, Answer, accepted, garbage
    from .conformance.judging import judge_decoder
    from .neutral import dump_json, parse_json

    def ask() -> Answer:
        document = read(case.bytes)
        if not content:
            return Answer(kind=ACCEPTED, detail="accepted")
        try:
            return accepted(parse_json(dump_json(document)))
        except (ArgumentError, TypeError, ValueError) as error:
            return garbage(f"accepted, but what was returned is not a document: {printable(str(error))}")

    _check_direction(case, DECODE)
    _check_refusal(refusal)
    answer, error = _asked(ask, refusal)
    expected = case.document if content else None
    _settle(case, judge_decoder(case, expected, answer), answer, error, strict)


def check_writer(
    case: Case,
    write: Callable[[Any], bytes],
    *,
    refusal: Refusal = CheckpointError,
    strict: bool = False,
) -> None:
    """Assert that a writer does with a case's document what the suite expects, judged as ``ckptspec conform`` does.

    ``write`` takes a neutral document and returns the bytes of a file, or raises ``refusal`` where the document is none
    that it must write. The file is validated, and decoded by the reference. Texts that are no JSON do not get to
    ``write``. What is wrong in a case of the level *should*, and a file that readers accept but that is not canonical,
    is a ConformanceWarning unless ``strict``.
    """
    __tracebackhide__ = True
    from .conformance.answers import Answer, rejection
    from .conformance.judging import judge_encoder
    from .conformance.outcome_report import GARBAGE
    from .neutral import parse_json

    def ask() -> Answer:
        if case.kind == "file":
            document = case.document
        else:
            try:
                document = parse_json(case.bytes)
            except ArgumentError as error:
                return rejection(None, str(error))
        data = write(document)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return Answer(kind=GARBAGE, detail=f"accepted, but what was returned is no bytes: {show(data)}")
        return Answer(kind="accepted", detail=f"wrote {count(len(data), 'byte')}", data=bytes(data))

    _check_direction(case, ENCODE)
    _check_refusal(refusal)
    answer, error = _asked(ask, refusal)
    _settle(case, judge_encoder(case, case.document, answer), answer, error, strict)


def _check_direction(case: Case, direction: str) -> None:
    if direction not in case.directions:
        who = "reader" if direction == DECODE else "writer"
        raise ArgumentError(f"{case.id} is no case for a {who}; select with direction='{direction}'", "case")


def _check_refusal(refusal: Refusal) -> None:
    kinds = refusal if isinstance(refusal, tuple) else (refusal,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise ArgumentError(f"found {show(refusal)}, expected a type of exceptions, or a tuple of some", "refusal")


def _asked(ask: Callable[[], Answer], refusal: Refusal) -> tuple[Answer, Exception | None]:
    """Return an implementation's answer, and the exception that it is made of."""
    from .conformance.answers import REJECTED, Answer
    from .conformance.outcome_report import CRASH

    try:
        return ask(), None
    except refusal as error:
        rule = getattr(error, "rule", "")
        offset = getattr(error, "offset", None)
        return Answer(
            kind=REJECTED,
            detail=f"a refusal: {_error(error)}",
            rule=rule if isinstance(rule, str) else "",
            offset=offset if isinstance(offset, int) else None,
        ), error
    except Exception as error:
        return Answer(kind=CRASH, detail=f"a crash: uncaught {_error(error)}"), error


def _error(error: Exception) -> str:
    said = str(error) if isinstance(error, CheckpointError) else printable(str(error))  # ours are escaped
    return f"{type(error).__name__}: {shorten(said, _WIDTH)}"


def _settle(case: Case, judgement: Judgement, answer: Answer, error: Exception | None, strict: bool) -> None:
    """Raise or warn if a judgement is not that all is well."""
    __tracebackhide__ = True
    from .conformance.judging import status_of
    from .conformance.outcome_report import FAILED, PASSED

    status = status_of(case, judgement.outcome, strict)
    if status == PASSED:
        return
    text = _told(case, judgement, answer)
    if status == FAILED:
        raise AssertionError(text) from error
    warnings.warn(text, ConformanceWarning, stacklevel=3)


def _told(case: Case, judgement: Judgement, answer: Answer) -> str:
    from .conformance.judging import what_is_at
    from .conformance.outcome_report import CRASH, REJECTED_VALID
    from .spec.rules import RULES

    for_rule = f", for {case.rules[0]}" if case.verdict == "invalid" and case.rules else ""
    lines = [
        f"{case.id}: {judgement.outcome.replace('-', ' ')}",
        f"  the case {case.title}",
        f"  wanted   {judgement.expected}{for_rule}",
        f"  found    {judgement.happened}",
    ]
    if for_rule:
        lines.append(f"  the rule {RULES[case.rules[0]].sentence}")
    lines += [f"  known    {case.reason}"] if case.reason else []
    if judgement.difference is not None:
        lines.append(f"  differs  {judgement.difference}")
        lines += [f"           {judgement.difference.hint}"] if judgement.difference.hint else []
    if judgement.outcome == REJECTED_VALID and answer.offset is not None:
        lines.append(f"  there    {what_is_at(case.format, case.bytes, answer.offset)}")
    if judgement.outcome == CRASH:
        lines.append("  a refusal is told from a crash by its type: refusal=..., by default CheckpointError")
    lines.append(f"  file     {printable(str(case.path))}")
    return "\n".join(lines)
