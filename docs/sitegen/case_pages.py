"""The case catalogue: a page for each format, with every case, its files and what is known about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ckptspec.conformance.catalogue import VERDICTS, Case
from ckptspec.formats import FORMATS
from ckptspec.spec.rules import RULES, UPSTREAM

from .clauses import VERSIONS, anchor, cases
from .markdown import attribute, code, plural, prose, table

__all__ = ["ARCHIVE", "TITLES", "VECTORS", "case_anchor", "case_pages", "rule_page", "with_cases"]

VECTORS: Final = "vectors"  # folder of the site that has the golden files, as `ckptspec vectors export` writes them
ARCHIVE: Final = "ckptspec-vectors.zip"  # the same in one file
TITLES: Final = {**FORMATS, "any": "No known format"}

_PLACE: Final = re.compile(r"<!-- cases: (?P<ids>[^>]*) -->")
_TOLD: Final = {
    "valid": "A reader must accept these and find the content that the expected document tells.",
    "invalid": "A reader must refuse these, and an encoder the documents.",
    "acceptable": "Here known implementations differ; each case says why, and who does what. A reader may refuse the "
    "file, or accept it with the right content.",
}


def case_anchor(case: Case) -> str:
    """Return the anchor of a case on its format's page of the catalogue."""
    return case.id.partition("/")[2]


def rule_page(rule: str, *, built: bool = False) -> str:
    """Return the page that has a rule, as it is named in docs/ or on the built site, with the anchor."""
    stem = RULES[rule].format
    if stem == "any":
        stem = "index" if built else "README"
    return f"formats/{stem}.{'html' if built else 'md'}#{anchor(rule)}"


def case_pages() -> Iterator[tuple[str, str]]:
    """Yield path and text of the pages of the catalogue."""
    formats = [name for name in TITLES if any(case.format == name for case in cases())]
    yield "cases/index.md", _index(formats)
    for name in formats:
        yield f"cases/{name}.md", _page(name)


def _count(format: str, **wanted: str) -> int:
    return sum(
        case.format == format and all(getattr(case, key) == value for key, value in wanted.items()) for case in cases()
    )


def _download(name: str) -> str:
    """Return a link to a file that is copied when the site is built, which mkdocs does not know."""
    return f'<a href="../{VECTORS}/{name}" download><code>{name}</code></a>'


def _index(formats: Sequence[str]) -> str:
    rows = [
        [
            f"[{TITLES[name]}]({name}.md)",
            *(f"{_count(name, verdict=verdict):,}" for verdict in VERDICTS),
            *(f"{_count(name, kind=kind):,}" for kind in ("file", "document")),
        ]
        for name in formats
    ]
    numbers = table(("format", *VERDICTS, "files", "documents"), rows, right=range(1, 6))
    size = sum(case.size for case in cases())
    told = "\n".join(f"- {code(name)}: {what}" for name, what in UPSTREAM.items())
    verdicts = "\n".join(f"- **{verdict}**: {_TOLD[verdict]}" for verdict in VERDICTS)
    return f"""# The cases

The conformance suite has {len(cases()):,} cases, each of them a small file together with what must come of it. Every
one is listed here, with the rules it is about, and can be downloaded.

{numbers}

## Download all

{_download(ARCHIVE)} has all files ({size:,} bytes unpacked, and the expected documents besides), for those who
work without Python:

- {_download("manifest.json")} describes every case: id, verdict, rules, tags, file, SHA-256, size, expected document
  (its JSON Schema: {_download("manifest.schema.json")});
- `FORMAT/NAME.EXTENSION` is the file that a reader gets, or the document that an encoder gets;
- `FORMAT/NAME.json` is what is expected: the [neutral document](../document.md), or
  `{{"error": {{"rule": ..., "offset": ..., "message": ...}}}}` as the reference says it
  (the document's JSON Schema: {_download("document.schema.json")}).

`ckptspec vectors export DIR` writes the same. [The protocol](../protocol.md) tells how the suite asks an
implementation.

## Verdicts

{verdicts}

A case of the level *should* is for a reader that wants to be as strict as the reference: another answer is a warning.

## The implementations that cases tell of

{told}
"""


def _page(format: str) -> str:
    chosen = [case for case in cases() if case.format == format]
    parts = [
        f"# Cases: {TITLES[format]}",
        "",
        f"{plural(len(chosen), 'case')}. [All formats, and one archive](index.md).",
    ]
    parts += ["", _filter(chosen)]
    for kind in ("file", "document"):
        for verdict in VERDICTS:
            group = [case for case in chosen if (case.kind, case.verdict) == (kind, verdict)]
            if group:
                noun = "Files" if kind == "file" else "Documents"
                parts += ["", f"## {noun}: {verdict}", "", *_groups(group)]
    return "\n".join(parts) + "\n"


def _filter(chosen: Sequence[Case]) -> str:
    """Return the form that hides cases; a script shows it, since it does nothing without one."""
    tags = Counter(tag for case in chosen for tag in case.tags)
    rules = sorted({rule for case in chosen for rule in case.rules})

    def options(name: str, every: str, values: Sequence[tuple[str, str]]) -> str:
        made = "".join(f'<option value="{attribute(value)}">{attribute(shown)}</option>' for value, shown in values)
        return f'<label>{name} <select name="{name}"><option value="">{every}</option>{made}</select></label>'

    verdicts = options("verdict", "all", [(verdict, verdict) for verdict in VERDICTS])
    tagged = options("tag", "all", [(tag, f"{tag} ({number})") for tag, number in sorted(tags.items())])
    ruled = options("rule", "all", [(rule, rule) for rule in rules])
    hint = "part of a name or title"
    words = f'<label>words <input type="search" name="words" placeholder="{hint}"></label>'
    inside = f'{words}{verdicts}{tagged}{ruled}<output aria-live="polite"></output>'
    return f'<form class="ck-filter" hidden role="search" aria-label="Filter the cases">{inside}</form>'


def _groups(group: Sequence[Case]) -> Iterator[str]:
    """Yield the cases under the first rule that each is about; those about none under their first tag."""
    sorted_by: dict[str, list[Case]] = {}
    for case in group:
        first = case.rules[0] if case.rules else (case.tags or ("others",))[0].partition(":")[0]
        sorted_by.setdefault(first, []).append(case)
    order = {rule: at for at, rule in enumerate(RULES)}
    for name in sorted(sorted_by, key=lambda name: order.get(name, -1)):
        yield f"### {name}\n"
        if name in RULES:
            yield f"{prose(RULES[name].sentence)} [More on this rule](../{rule_page(name)})\n"
        ids = " ".join(case.id for case in sorted_by[name])
        yield f"<!-- cases: {ids} -->\n"


def with_cases(html: str) -> str:
    """Return a page with the cases for which comments hold a place: so much HTML need not pass through Markdown."""
    by_id = {case.id: case for case in cases()}

    def items(match: re.Match[str]) -> str:
        return f'<ul class="ck-cases">{"".join(_item(by_id[name]) for name in match["ids"].split())}</ul>'

    return _PLACE.sub(items, html)


def _item(case: Case) -> str:
    """Return one case as an item of a list. Titles quote what is in files: everything is escaped."""
    name = case_anchor(case)
    words = f"{name} {case.title}".lower()
    files = [f'<a href="../{VECTORS}/{case.file}" download>{"file" if case.kind == "file" else "document"}</a>']
    if case.expected and case.expected != case.file:
        files.append(f'<a href="../{VECTORS}/{case.expected}" download>expected</a>')
    rules = [f'<a href="../{rule_page(rule, built=True)}">{rule}</a>' for rule in case.rules]
    facts = [
        f'<span class="ck-verdict ck-{case.verdict}">{case.verdict}</span>',
        f"<span>level {case.level}</span>" if case.level != "must" else "",
        f"<span>version {', '.join(map(str, case.versions))}</span>" if case.format in VERSIONS else "",
        f"<span>{case.size:,} bytes</span>",
        "<span>canonical</span>" if case.canonical else "",
        *(f'<span class="ck-rule">{rule}</span>' for rule in rules),
        *(f'<span class="ck-tag">{attribute(tag)}</span>' for tag in case.tags),
        *files,
    ]
    more = f"<p>{attribute(case.reason)}</p>" if case.reason else ""
    if case.behaviour:
        told = (f"<li><code>{attribute(who)}</code> {attribute(what)}</li>" for who, what in case.behaviour.items())
        more += f"<ul>{''.join(told)}</ul>"
    return (
        f'<li id="{attribute(name)}" data-words="{attribute(words)}" data-verdict="{case.verdict}" '
        f'data-tags="{attribute(" ".join(case.tags))}" data-rules="{" ".join(case.rules)}">'
        f'<a class="ck-case" href="#{attribute(name)}"><code>{attribute(name)}</code></a> {attribute(case.title)}'
        f'<div class="ck-facts">{" ".join(filter(None, facts))}</div>{more}</li>'
    )
