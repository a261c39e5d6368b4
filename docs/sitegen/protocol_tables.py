"""Tables of the protocol between the suite and an implementation, from the runner itself."""

from __future__ import annotations

from ckptspec.conformance import answers, catalogue, judging, outcome_report, run_arguments, runner
from ckptspec.formats import FORMATS

from .clauses import cases
from .markdown import code, table

__all__ = ["last_words", "levels", "outcomes", "protocol", "smoke_cases", "statuses", "verdicts"]


def protocol(name: str) -> str:
    """Return a number of the protocol: ``version``, ``suite``, ``timeout`` in seconds, output limits in bytes."""
    return {
        "version": catalogue.PROTOCOL_VERSION,
        "suite": catalogue.SUITE_VERSION,
        "timeout": f"{run_arguments.DEFAULT_TIMEOUT:g}",
        "limit-base": f"{runner._LIMIT_BASE:,}",
        "limit-factor": f"{runner._LIMIT_FACTOR}",
        "limit-most": f"{runner._LIMIT_MAX:,}",
    }[name]


def verdicts() -> str:
    """Return the verdicts, what they ask of decoders and encoders, and how many cases have them."""
    rows = []
    for verdict in catalogue.VERDICTS:
        number = sum(case.verdict == verdict for case in cases())
        rows.append([code(verdict), judging._DECODER_MUST[verdict], judging._ENCODER_MUST[verdict], f"{number:,}"])
    return table(("verdict", "a decoder must give", "an encoder must give", "cases"), rows, right=(3,))


def levels() -> str:
    """Return the levels and how many cases have them."""
    rows = [[code(level), f"{sum(case.level == level for case in cases()):,}"] for level in catalogue.LEVELS]
    return table(("level", "cases"), rows, right=(1,))


def outcomes() -> str:
    """Return the outcomes of a test."""
    rows = []
    for outcome, meaning in outcome_report.OUTCOMES.items():
        kind = "misbehaviour" if outcome in outcome_report.MISBEHAVIOUR else "" if outcome == "pass" else "answer"
        rows.append([code(outcome), kind, meaning])
    return table(("outcome", "kind", "the implementation ..."), rows)


def statuses() -> str:
    """Return what an outcome may count as."""
    rows = [
        [code(status), meaning, "yes" if status in outcome_report._FATAL else "no"]
        for status, meaning in outcome_report.STATUSES.items()
    ]
    return table(("status", "in the summary", "fails the run"), rows)


def last_words() -> str:
    """Return the runtimes whose last words turn exit status 1 into a crash."""
    return ", ".join(answers._LAST_WORDS)


def smoke_cases() -> str:
    """Return the smoke case of each format."""
    smoke = catalogue.load_suite().smoke
    return table(("format", "smoke case"), [[FORMATS[name], code(case)] for name, case in smoke.items()])
