"""The rules on the site: with links to their cases on the pages of the formats, and all of them in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ckptspec.conformance.catalogue import Case
from ckptspec.spec.rules import CANONICAL, NOTE, REJECT, RULES, Rule

from .case_pages import TITLES, case_anchor, rule_page
from .clauses import behaviour, cases_of
from .markdown import plural, prose, table

__all__ = ["INDEX", "entry_of", "rules_index"]

INDEX: Final = "rules.md"
_SHOWN: Final = 6  # cases that are shown at once
_AS_SAID: Final = {
    REJECT: "refuse the file",
    CANONICAL: "accept the file, and do not write such files",
    NOTE: "accept the file",
}


def _links(chosen: Sequence[Case]) -> str:
    """Return links to cases, as HTML: their anchors come into the pages behind the back of mkdocs."""
    names = ((case, case_anchor(case)) for case in chosen)
    return ", ".join(f'<a href="../cases/{case.format}.html#{name}">{name}</a>' for case, name in names)


def _cases(rule: Rule) -> list[str]:
    """Return the lines on a rule's cases; many of them are folded."""
    chosen = cases_of(rule)
    first = _links(chosen[:_SHOWN])
    if len(chosen) <= _SHOWN:
        return [f"- *Cases:* {first}."]
    summary = f"<summary>all {plural(len(chosen), 'case')}</summary>"
    folded = f"<details class='ck-more'>{summary}<p>{_links(chosen)}</p></details>"
    return [f"- *Cases:* {first}, and {len(chosen) - _SHOWN:,} more:", "", folded]


def entry_of(rule: Rule, entry: str) -> str:
    """Return a rule's entry on the site: that of the committed page, and what the known implementations do."""
    lines = entry.split("\n")
    if not rule.upstream:
        lines.append(f"- *Upstream:* as the rule says; known implementations {_AS_SAID[rule.kind]}.")
    lines += [f"- *In cases where implementations differ:* {told}." for told in behaviour(rule)]
    return "\n".join(lines + _cases(rule))


def rules_index() -> str:
    """Return the page with the table of all rules."""
    parts = [
        "# All rules",
        "",
        f"The {len(RULES)} rules of all formats in one place. Each has an entry of its own on its format's page, with",
        "its reason, what known implementations do, and its cases. An id is never reused.",
        "[How to read a rule](formats/README.md#how-to-read-a-page).",
    ]
    for name, title in TITLES.items():
        rows = []
        for rule in (rule for rule in RULES.values() if rule.format == name):
            versions = ", ".join(map(str, rule.versions))
            link = f"[{rule.id}]({rule_page(rule.id)})"
            rows.append([link, rule.kind, versions, prose(rule.sentence), f"{len(cases_of(rule)):,}"])
        parts += ["", f"## {title}", "", table(("rule", "kind", "versions", "sentence", "cases"), rows, right=(4,))]
    return "\n".join(parts) + "\n"
