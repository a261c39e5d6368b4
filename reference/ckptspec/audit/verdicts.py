"""What an audit says of a file, and how it comes to that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..findings import Finding, Report
from ..spec.rules import CANONICAL, REJECT, RULES

__all__ = ["BAD", "TOO_SHORT", "VERDICTS", "catalogue_digest", "is_cut_short", "is_old", "verdict_of"]

VERDICTS: Final = {
    "canonical": "Readers accept it, and it is as a writer would write it.",
    "accepted": "Readers accept it; a writer would write it differently.",
    "refused": "Readers must refuse it, or it is no checkpoint although it was named or has the extension of one.",
    "unfinished": "Never written to its end: a file that is cut short, or the draft of a writer that was killed.",
    "other": "No checkpoint of a known format, or one that is being written.",
    "unreadable": "It could not be read, or changed while it was read.",
    "crashed": "Examining it killed the process: out of memory, most likely.",
}
BAD: Final = ("refused", "unfinished", "unreadable", "crashed")
"""The verdicts of files that somebody has to look after."""

TOO_SHORT: Final = frozenset(
    {
        "OAM-HDR-SHORT",
        "OAM-HDR-TOTAL",
        "OAM-SEC-TABLE",
        "OAM-SEC-RANGE",
        "OCANNL-FRM-SHORT",
        "OCANNL-FRM-RANGE",
        "OCANNL-TEN-RANGE",
        "SAFETENSORS-FRM-SHORT",
        "SAFETENSORS-FRM-RANGE",
        "SAFETENSORS-DAT-RANGE",
    }
)
"""The rules that a file breaks whose end is missing."""


def verdict_of(report: Report) -> str:
    """Return the verdict on a file of a known format."""
    if report.canonical:
        return "canonical"
    if report.ok:
        return "accepted"
    return "unfinished" if is_cut_short(report) else "refused"


def is_cut_short(report: Report) -> bool:
    """Say whether all that readers object to is that bytes are missing at the end."""
    refusals = [finding for finding in report.findings if finding.severity == REJECT]
    if not refusals or not {finding.rule for finding in refusals} <= TOO_SHORT:
        return False
    return all(_misses_bytes(finding, report.size) for finding in refusals)


def _misses_bytes(finding: Finding, size: int) -> bool:
    # The one rule that a file breaks that is too long, too.
    return finding.rule != "OAM-HDR-TOTAL" or not finding.found.isdigit() or int(finding.found) > size


def is_old(rules: Iterable[str]) -> bool:
    """Say whether a file that breaks these rules is of an older version of its format than a writer writes."""
    return any(rule.endswith("-HDR-OLD") and RULES[rule].kind == CANONICAL for rule in rules)


def catalogue_digest() -> str:
    """Return a digest of the rules, so that files are looked at again when the rules have changed."""
    import hashlib

    rows = (f"{rule.id}\n{rule.kind}\n{rule.sentence}\n{rule.versions}\n" for rule in RULES.values())
    return hashlib.sha256("".join(rows).encode()).hexdigest()[:16]
