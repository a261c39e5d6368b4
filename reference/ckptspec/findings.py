"""What an examination finds: one finding for each break of a rule, and the report that collects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .spec.rules import CANONICAL, NOTE, REJECT, RULES, Rule
from .text import printable

__all__ = ["Finding", "Report", "Survivor", "header_survivor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One break of a rule.

    ``offset`` and ``length`` are bytes in the file; ``path`` names the field, such as ``weights[3].num_bytes``.
    ``found`` and ``expected`` are short texts for people, escaped already. ``hint`` says more where more is known:
    validation takes the time to find out, reading does not, and findings are equal whatever their hints.
    """

    rule: str
    offset: int
    length: int
    path: str
    found: str
    expected: str
    hint: str = field(default="", compare=False)

    @property
    def definition(self) -> Rule:
        """The rule's row in the catalogue."""
        return RULES[self.rule]

    @property
    def severity(self) -> str:
        """The rule's kind: ``reject``, ``canonical`` or ``note``."""
        return RULES[self.rule].kind

    @property
    def sentence(self) -> str:
        """The rule's sentence."""
        return RULES[self.rule].sentence

    def __str__(self) -> str:
        place = f"{self.rule} at byte {self.offset} (0x{self.offset:x})"
        subject = f", {self.path}" if self.path else ""
        text = f"{place}{subject}: found {self.found}, expected {self.expected}. {self.sentence}"
        return f"{text} {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON types."""
        made: dict[str, Any] = {
            "rule": self.rule,
            "severity": self.severity,
            "offset": self.offset,
            "length": self.length,
            "path": self.path,
            "found": self.found,
            "expected": self.expected,
            "sentence": self.sentence,
        }
        if self.hint:
            made["hint"] = self.hint
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """What became of one part of a damaged file.

    ``state`` is ``intact`` (proved by a checksum, or by there being none to prove it), ``unverified`` (readable, but a
    checksum that covers it does not match), ``repaired`` or ``lost``. ``what`` is ``section``, ``tensor`` or ``byte``
    (one that was put right); ``reason`` tells why a part is not intact.
    """

    what: str
    path: str
    name: str
    state: str
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the entry as JSON types."""
        return {"what": self.what, "path": self.path, "name": self.name, "state": self.state, "reason": self.reason}


def header_survivor(state: str, reason: str) -> Survivor:
    """Return what became of a file's header."""
    return Survivor(what="section", path="header", name="header", state=state, reason=reason)


@dataclass(slots=True, kw_only=True)
class Report:
    """All that an examination found in one file.

    ``findings`` stand in the order in which a reader meets them. ``truncated`` says that there were too many of a
    severity to list all. ``survivors`` is filled only for a file that a reader must refuse.
    """

    source: str | None = None
    format: str | None = None
    version: int | None = None
    size: int = 0
    findings: list[Finding] = field(default_factory=list)
    survivors: list[Survivor] = field(default_factory=list)
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether a reader accepts the file."""
        return not any(finding.severity == REJECT for finding in self.findings)

    @property
    def canonical(self) -> bool:
        """Whether the file is exactly what a writer would write."""
        return not any(finding.severity in (REJECT, CANONICAL) for finding in self.findings)

    @property
    def first(self) -> Finding | None:
        """The finding for which a reader refuses the file, or None."""
        return next((finding for finding in self.findings if finding.severity == REJECT), None)

    def counts(self) -> dict[str, int]:
        """Return the number of findings of each severity."""
        return {kind: sum(finding.severity == kind for finding in self.findings) for kind in (REJECT, CANONICAL, NOTE)}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        name = printable(self.source) if self.source else "data"
        return "\n".join([f"{name}: {'accepted' if self.ok else 'refused'}", *(f"  {item}" for item in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "file": self.source,
            "format": self.format,
            "version": self.version,
            "size": self.size,
            "accepted": self.ok,
            "canonical": self.canonical,
            "counts": self.counts(),
            "truncated": self.truncated,
            "findings": [finding.to_json() for finding in self.findings],
            "survivors": [survivor.to_json() for survivor in self.survivors],
        }
