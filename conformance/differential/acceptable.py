"""Where a reading may answer otherwise than the reference, and why.

An entry holds for one reading of one format. ``rules`` are the rules for which the reference refuses a file that the
reading takes; ``when`` narrows that to some of their breaks. An entry without rules is about files that the reading
refuses and the reference takes: ``refuses`` says which.

Every entry occurs on some golden file, and every rule of it: a test sees to it. What the Kaitai parsers cannot see
comes from the export itself, which tells it to its users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ...findings import Finding
from ...spec.exports.kaitai import left_out
from ...spec.rules import REJECT
from ...spec.schema import FRAMES, SAFETENSORS_ENTRY
from .kaitai_reading import KAITAI
from .official import OFFICIAL, lacking_dtypes
from .readings import Answer, Parts, frame_parts

__all__ = ["Acceptable", "acceptable", "explanations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptable:
    """One declared disagreement of a reading with the reference.

    ``when`` gets a finding of one of the rules and the file; ``refuses`` what the reference found in a file that the
    reading does not take. ``whole`` says that a break of the rule lets the reading see other content, so that whatever
    else the reference finds need not be there for it. ``holds`` says whether the entry is about what is installed.
    """

    reading: str
    format: str
    why: str
    rules: tuple[str, ...] = ()
    when: Callable[[Finding, bytes], bool] = lambda _finding, _data: True
    refuses: Callable[[Answer], bool] | None = None
    whole: bool = False
    holds: Callable[[], bool] = lambda: True

    def covers(self, finding: Finding, data: bytes) -> bool:
        """Whether the entry is about a finding of the reference."""
        return finding.rule in self.rules and self.when(finding, data)


@cache
def acceptable(reading: str, format: str) -> tuple[Acceptable, ...]:
    """Return the entries of a reading for a format."""
    return tuple(entry for entry in (*_kaitai(), *_OFFICIAL) if (entry.reading, entry.format) == (reading, format))


def explanations(
    entries: Sequence[Acceptable], data: bytes, reference: Answer, answer: Answer
) -> list[tuple[Acceptable, str]] | None:
    """Return why a reading may part from the reference as it does, as entries and rules; None if it may not.

    Both have answered, and one of them refuses the file. The rule is empty for an entry without rules.
    """
    if answer.broken:
        return None
    if not answer.accepted:
        found = [entry for entry in entries if entry.refuses is not None and entry.refuses(reference)]
        return [(entry, "") for entry in found] or None
    assert reference.report is not None
    rejects = [finding for finding in reference.report if finding.severity == REJECT]
    made: list[tuple[Acceptable, str]] = []
    for finding in rejects:
        covering = [entry for entry in entries if entry.covers(finding, data)]
        made += [(entry, finding.rule) for entry in covering]
        if not covering and not any(_sees_otherwise(entry, rejects, data) for entry in entries):
            return None
    return made


def _sees_otherwise(entry: Acceptable, findings: Sequence[Finding], data: bytes) -> bool:
    return entry.whole and any(entry.covers(finding, data) for finding in findings)


# ------------------------------------------------------------------------------------------------------------- Kaitai


@cache
def _kaitai() -> tuple[Acceptable, ...]:
    return tuple(
        Acceptable(reading=KAITAI, format=name, why=f"The export does not cover {what}.", rules=rules)
        for name in ("oam", *FRAMES)
        for what, rules in left_out(name).items()
    )


# --------------------------------------------------------------------------------------------------- official package

_KEYS: Final = {key.name for key in SAFETENSORS_ENTRY}
_BLANKS: Final = b" \t\r\n"  # of JSON
_NUMBER_OR_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*', re.DOTALL)


def _text(data: bytes) -> bytes:
    text: bytes = frame_parts("safetensors", data)["header"]
    return text


def _of_official(rule: str, why: str, **more: Any) -> Acceptable:
    return Acceptable(reading=OFFICIAL, format="safetensors", why=why, rules=(rule,), **more)


def _tensors(reference: Answer) -> list[Parts]:
    return [] if reference.parts is None else list(reference.parts["tensors"])


def _has_unknown_dtype(reference: Answer) -> bool:
    return any(tensor["dtype"] in lacking_dtypes() for tensor in _tensors(reference))


def _has_huge_number(reference: Answer) -> bool:
    """Whether a number of the header, which then is the value of an unknown key, is beyond binary64."""
    assert reference.parts is not None
    numbers = _NUMBER_OR_STRING.findall(reference.parts["header"])
    return any(math.isinf(float(number)) for number in numbers if not number.startswith(b'"'))


_OFFICIAL: Final = (
    _of_official(
        "SAFETENSORS-TXT-START",
        "It accepts white space before the header's object.",
        when=lambda finding, data: _text(data).lstrip(_BLANKS).startswith(b"{"),
    ),
    _of_official(
        "SAFETENSORS-TXT-TAIL",
        "It accepts any JSON white space after the header's object.",
        when=lambda finding, data: not data[finding.offset : len(data) - _size_of_buffer(data)].strip(_BLANKS),
    ),
    _of_official("SAFETENSORS-TXT-DEPTH", "It accepts deeper nesting, up to 127 levels."),
    _of_official(
        "SAFETENSORS-MET-FORM",
        "It accepts null for no metadata.",
        when=lambda finding, data: finding.found == "null",
    ),
    _of_official(
        "SAFETENSORS-MET-DUP",
        "Of a key that is repeated in the metadata, it takes the last.",
        when=lambda finding, data: finding.path != "__metadata__",
    ),
    _of_official(
        "SAFETENSORS-TEN-FORM",
        "It accepts an array of an entry's values instead of the entry.",
        when=lambda finding, data: finding.found == "an array",
    ),
    _of_official(
        "SAFETENSORS-TEN-DTYPE",
        "It accepts an object of name and null instead of the name of a dtype.",
        when=lambda finding, data: finding.found == "an object",
    ),
    _of_official(
        "SAFETENSORS-TEN-KEYDUP",
        "It ignores unknown keys of an entry, even if they are repeated.",
        when=lambda finding, data: finding.path.rpartition(".")[2] not in _KEYS,
    ),
    _of_official("SAFETENSORS-TEN-DUP", "Of a name that is repeated, it sees only the last entry.", whole=True),
    Acceptable(
        reading=OFFICIAL,
        format="safetensors",
        why="It reads the values of unknown keys, and refuses numbers beyond binary64.",
        refuses=_has_huge_number,
    ),
    Acceptable(
        reading=OFFICIAL,
        format="safetensors",
        why="Versions before 0.8 do not know all dtypes.",
        refuses=_has_unknown_dtype,
        holds=lambda: bool(lacking_dtypes()),
    ),
)


def _size_of_buffer(data: bytes) -> int:
    return len(frame_parts("safetensors", data)[FRAMES["safetensors"].data])
