"""The tables of the page on readings that are held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from ckptspec.conformance.differential.comparing import KINDS
from ckptspec.conformance.differential.kaitai_reading import KAITAI
from ckptspec.conformance.differential.kaitai_reading import TITLE as KAITAI_TITLE
from ckptspec.conformance.differential.languages import LANGUAGES
from ckptspec.conformance.differential.official import OFFICIAL
from ckptspec.conformance.differential.official import TITLE as OFFICIAL_TITLE
from ckptspec.conformance.differential.readings import plain, reference
from ckptspec.conformance.differential.recorded import load_record
from ckptspec.formats import FORMATS

from .markdown import code, prose, table

__all__ = ["differential_declared", "differential_pairs", "differential_readings"]

_SHOWN: Final = 6  # rules of one row


def differential_readings() -> str:
    """Return the table of readings."""
    return table(("reading", "what it is", *FORMATS), _readings())


def _readings() -> Iterator[list[str]]:
    found = load_record()
    fixed = [(made.name, made.title) for made in (reference(), plain())]
    for name, title in (*fixed, (KAITAI, KAITAI_TITLE), (OFFICIAL, OFFICIAL_TITLE)):
        reads = [any(name in row["pair"] for row in found[format_]["pairs"]) for format_ in FORMATS]
        yield [name, title, *("yes" if one else "" for one in reads)]
    for language in LANGUAGES:
        what = (
            f"a program in {language.title} that shares no code with this package: [adapter](adapters/{language.name})"
        )
        yield [f"{language.title} adapter", what, *("yes" if language.format == name else "" for name in FORMATS)]


def differential_pairs() -> str:
    """Return the table of counts."""
    rows = [
        [FORMATS[name], *row["pair"], *map(str, row["counts"])]
        for name, made in load_record().items()
        for row in made["pairs"]
    ]
    return table(("format", "one reading", "other reading", *KINDS), rows, right=tuple(range(3, 3 + len(KINDS))))


def differential_declared(reading: str) -> str:
    """Return the table of what a reading may answer otherwise; the name has hyphens for blanks."""
    rows = []
    for made in load_record().values():
        chosen = [row for row in made["declared"] if row["reading"] == reading.replace("-", " ")]
        for why, group in groupby(chosen, key=lambda row: row["why"]):
            of_one = list(group)
            rules = [code(row["rule"]) for row in of_one if row["rule"]]
            if len(rules) > _SHOWN:
                rules[_SHOWN:] = [f"and {len(rules) - _SHOWN} more"]
            rows.append([prose(why), ", ".join(rules) or "none", code(of_one[0]["example"])])
    return table(("what it does", "rules for which the reference refuses the file", "one of the golden files"), rows)
