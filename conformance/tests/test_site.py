"""The site of the documentation: it builds strictly, is complete, and says what schema, rules and cases say."""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

from ckptspec.conformance.catalogue import MANIFEST, load_suite
from ckptspec.conformance.hostile import TWINS, texts_for
from ckptspec.spec import schema
from ckptspec.spec.layout import fields, record_size
from ckptspec.spec.rules import RULES
from ckptspec.text import printable

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = ROOT / "mkdocs.yml"
CASES: Final = load_suite().cases
VOID: Final = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

pytestmark = pytest.mark.skipif(not CONFIG.is_file(), reason="the documentation is not installed")


def sitegen(name: str) -> Any:
    """Return a module of what makes the site; it is no part of the package."""
    if str(ROOT / "docs") not in sys.path:
        sys.path.insert(0, str(ROOT / "docs"))
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site: that of ``make docs`` if CKPTSPEC_SITE names it, else one that is built for this run."""
    built = os.environ.get("CKPTSPEC_SITE")
    if built:
        return Path(built)
    pytest.importorskip("mkdocs")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # that of this run, which its processes share
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = shared / "site"
        if not (target / "index.html").is_file():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG), "-d", str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
    return target


# ------------------------------------------------------------------------------------------------------------ reading


class Page(HTMLParser):
    """What tests ask about a page: anchors, links, loaded addresses, texts of elements with anchors, tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.widths: dict[str, list[int]] = {}
        self._cell: list[str] | None = None
        self._picture = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attrs}
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        elif "href" in named or "src" in named:
            self.loaded.append(named.get("src") or named.get("href", ""))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables:
            self._cell = []
        elif tag == "svg":
            self._picture = named.get("aria-labelledby", "").partition(" ")[0].removesuffix("-title")
        elif tag == "rect" and "data-bytes" in named:
            self.widths.setdefault(self._picture, []).append(int(named["data-bytes"]))

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def page(path: Path) -> Page:
    return Page(text_of(path))


def pages(site: Path) -> list[Path]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 30
    return found


def plain(text: str) -> str:
    """Return the text of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", text)).split())


# -------------------------------------------------------------------------------------------------------------- whole


def test_nothing_comes_from_another_host(site: Path) -> None:
    for path in pages(site):
        for address in page(path).loaded:
            assert not urlsplit(address).netloc, f"{path.name}: {address}"
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for path in sheets:
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text_of(path)), path.name


def test_links_lead_somewhere(site: Path) -> None:
    number = 0
    for path in pages(site):
        if path.name == "404.html":
            continue  # is shown for any address, and so its links begin at the root
        for link in set(page(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                assert anchor in page(target).ids or anchor.startswith("__"), f"{path.relative_to(site)}: {link}"
            number += 1
    assert number > 5000


def test_anchors_are_unique(site: Path) -> None:
    for path in pages(site):
        ids = page(path).ids
        assert len(ids) == len(set(ids)), (path.name, sorted({name for name in ids if ids.count(name) > 1}))


# -------------------------------------------------------------------------------------------------------------- rules


def entry(site: Path, rule: str) -> str:
    """Return the part of a page that is a rule's entry, as HTML."""
    name = RULES[rule].format
    text = text_of(site / "formats" / f"{'index' if name == 'any' else name}.html")
    match = re.search(rf'<h4 id="{rule.lower()}">.*?(?=<h[1-4] |<a id="clause-|</article>)', text, re.DOTALL)
    assert match, f"{rule} has no anchor"
    return match[0]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_an_entry(site: Path, rule: str) -> None:
    found, item = entry(site, rule), RULES[rule]
    told = plain(found)
    assert item.sentence.replace("`", "") in told
    assert f"Rule: {item.kind}" in told
    for text in (item.reason, item.upstream):
        assert plain(text) in told
    for implied in item.implies:
        assert f'href="#{implied.lower()}"' in found
    for case in CASES:
        if rule in case.rules:
            folder, _, name = case.id.partition("/")
            assert f"cases/{folder}.html#{name}" in found
            for what in case.behaviour.values():
                assert what in told
    assert f"{rule} {item.kind}" in plain(text_of(site / "rules.html"))


def test_every_clause_has_an_anchor(site: Path) -> None:
    for rule in RULES.values():
        name = "index" if rule.format == "any" else rule.format
        assert f"clause-{rule.format}-{rule.clause}" in page(site / "formats" / f"{name}.html").ids


# -------------------------------------------------------------------------------------------------------------- cases


def test_every_case_is_in_the_catalogue(site: Path) -> None:
    for case in CASES:
        folder, _, name = case.id.partition("/")
        path = site / "cases" / f"{folder}.html"
        match = re.search(rf'<li id="{name}" .*?</div>.*?</li>(?=<li id|</ul>)', text_of(path), re.DOTALL)
        assert match, case.id
        told = plain(match[0])
        for text in (case.title, case.verdict, f"{case.size:,} bytes", *case.rules, *case.tags, case.reason):
            assert plain(text) in told or text in told, (case.id, text)
        for who, what in case.behaviour.items():
            assert f"{who} {what}" in told
        downloads = re.findall(r'<a href="([^"]*)" download>', match[0])
        assert (path.parent / downloads[0]).read_bytes() == case.read()
        assert any(link.endswith(case.expected) for link in downloads)
        for link in downloads:
            assert (path.parent / link).is_file()


def test_titles_of_cases_are_escaped() -> None:
    module = sitegen("sitegen.case_pages")
    case = next(case for case in CASES if case.behaviour)
    import dataclasses

    hostile = "<script>alert(1)</script>\"'&"
    made = module._item(dataclasses.replace(case, title=hostile, reason=hostile, tags=(hostile,)))
    assert "<script" not in made
    assert plain(made).count(hostile) == 3


def test_the_archive_has_everything(site: Path, tmp_path: Path) -> None:
    module = sitegen("sitegen.archive")
    folder = site / "vectors"
    with zipfile.ZipFile(folder / "ckptspec-vectors.zip") as archive:
        root = "ckptspec-vectors"
        manifest = json.loads(archive.read(f"{root}/manifest.json"))
        assert manifest == json.loads(MANIFEST.read_text("utf-8"))
        names = set(archive.namelist())
        for row in manifest["cases"]:
            assert hashlib.sha256(archive.read(f"{root}/{row['file']}")).hexdigest() == row["sha256"]
            assert f"{root}/{row['expected']}" in names
        schemas = {f"{root}/{path.name}" for path in (MANIFEST.parent / "schemas").glob("*.json")}
        assert schemas
        assert schemas <= names
    again = tmp_path / "ckptspec-vectors.zip"
    small = tmp_path / "files"
    small.mkdir()
    (small / "b").write_bytes(b"2")
    (small / "a").write_bytes(b"1")
    module.write_archive(small, again)
    first = again.read_bytes()
    os.utime(small / "a", (0, 2_000_000_000))
    module.write_archive(small, again)
    assert again.read_bytes() == first  # deterministic: neither dates nor the order of a folder count


# ------------------------------------------------------------------------------------------------- tables and pictures

# A record's name, the page that has its table, and what stands in the table.
RECORDS: Final = {
    name: f"formats/{name_of}.html"
    for name_of, prefix in (("oam", "Oam"), ("ocannl", "Ocannl"), ("safetensors", "Safetensors"))
    for name in vars(schema)
    if name.startswith(prefix) and hasattr(getattr(schema, name), "subcons")
}
Row = tuple[int, int, str]


def rows_of(record: Any) -> list[Row]:
    """Return offset, size and name of the fields of a record, and its size."""
    return [*((item.offset, item.size, item.name) for item in fields(record)), (record_size(record), 0, "")]


def tables_of(text: str) -> list[list[Row]]:
    """Return the tables of fields of a page."""
    found = []
    for head, *rows in Page(text).tables:
        if head[:4] == ["offset", "size", "type", "field"]:
            found.append([(int(row[0]), int(row[1] or 0), row[3]) for row in rows])
    return found


@pytest.mark.parametrize("name", RECORDS)
def test_tables_are_the_schema(site: Path, name: str) -> None:
    assert rows_of(getattr(schema, name)) in tables_of(text_of(site / RECORDS[name]))


def test_a_table_that_parts_from_the_schema_is_seen(site: Path) -> None:
    from construct import Bytes, Struct

    text = text_of(site / "formats" / "oam.html")
    header = schema.OamHeader
    swapped = Struct(header.subcons[1], header.subcons[0], *header.subcons[2:])
    shorter = Struct(*header.subcons[:-1])
    renamed = Struct("other" / Bytes(4), *header.subcons[1:])
    for other in (swapped, shorter, renamed):
        assert rows_of(other) not in tables_of(text)
    edited = re.sub(
        r"(<td[^>]*>)24(</td>\s*<td[^>]*>8</td>\s*<td><code[^>]*>u64</code></td>\s*<td><code[^>]*>checksum)",
        r"\g<1>25\2",
        text,
    )
    assert edited != text
    assert rows_of(header) not in tables_of(edited)


def test_committed_pages_that_part_from_the_schema_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from construct import Int64ul, Struct

    generate = sitegen("generate")
    text = (ROOT / "docs" / "formats" / "oam.md").read_text("utf-8")
    part = text[text.index("<!-- generated: layout OamIndex") :]
    part = part[: part.index("<!-- end -->") + len("<!-- end -->")]
    assert generate.rendered(part) == part
    assert generate.rendered(part.replace("| 4 | 4 |", "| 4 | 5 |")) == part  # an edit of the table is undone
    monkeypatch.setattr(schema, "OamIndex", Struct(*schema.OamIndex.subcons, "more" / Int64ul * "More."))
    assert generate.rendered(part) != part


@pytest.mark.parametrize("name", RECORDS)
def test_pictures_cover_the_record(site: Path, name: str) -> None:
    slug = sitegen("sitegen.pictures").slug_of(name)
    record = getattr(schema, name)
    assert sum(page(site / RECORDS[name]).widths[slug]) == record_size(record)
    text = text_of(site / RECORDS[name])
    svg = text[text.index(f'aria-labelledby="{slug}-title') :]
    svg = svg[: svg.index("</svg>")]
    for item in fields(record):
        assert f"{item.name}: " in svg
        assert re.search(rf"<desc .*{item.name}, {item.size} bytes? at {item.offset}\b.*</desc>", svg)
    committed = (ROOT / "docs" / "formats" / "pictures" / f"{slug}.svg").read_text("utf-8")
    assert sum(map(int, re.findall(r'data-bytes="(\d+)"', committed))) == record_size(record)


def test_pictures_of_files_cover_the_file(site: Path) -> None:
    module = sitegen("sitegen.pictures")
    for name, case_id in module.MAPPED.items():
        case = next(case for case in CASES if case.id == case_id)
        assert sum(page(site / "formats" / f"{name}.html").widths[f"map-{name}"]) == case.size


# --------------------------------------------------------------------------------------------------------- other pages


def test_every_verb_is_explained(site: Path) -> None:
    module = sitegen("sitegen.command_line")
    text = text_of(site / "command-line.html")
    told = plain(text)
    for verb, (summary, parser) in module.verbs_of().items():
        assert f"ckptspec-{verb}".replace(" ", "-") in page(site / "command-line.html").ids
        assert summary in told
        for action in parser._actions:
            for option in action.option_strings:
                assert option in told
        assert verb in module.EXAMPLES, f"an example of {verb} is missing"
        assert f"$ ckptspec {verb}" in told
    for runs in module.examples().values():
        for command, status, _ in runs:
            assert status in (0, 1), f"ckptspec {command}: exit status {status}"


def test_the_python_interface_is_complete(site: Path) -> None:
    for name, (_, _, modules) in sitegen("sitegen.python_pages").GROUPS.items():
        ids = set(page(site / "python" / f"{name}.html").ids)
        for module in modules:
            public = getattr(importlib.import_module(module), "__all__", ())
            inside = [
                member
                for member in public
                if not isinstance(getattr(importlib.import_module(module), member), type(sys))
            ]
            missing = [member for member in inside if f"{module}.{member}" not in ids]
            assert not missing, (module, missing)
            private = [name for name in ids if name.startswith(f"{module}._") and not name.endswith("__")]
            assert not private


def test_every_key_of_documents_is_explained(site: Path) -> None:
    module = sitegen("sitegen.document_tables")
    told = plain(text_of(site / "document.html"))
    number = 0
    for name in ("oam", "ocannl", "safetensors"):
        for path, key, _ in module.keys_of(name):
            assert (f"{path}.{key}" if path else key) in told
            number += 1
    assert number > 50


def links_in(site: Path) -> Iterator[str]:
    yield from page(site / "index.html").links


def test_the_start_page_leads_to_the_formats(site: Path) -> None:
    links = set(links_in(site))
    for name in ("oam", "ocannl", "safetensors"):
        assert f"formats/{name}.html" in links


def test_markdown_within_html_is_taken_as_such(site: Path) -> None:
    text = text_of(site / "mutation.html")
    survivors = text[text.index('id="survivors"') :]
    assert "<li>" in survivors
    assert "\\_" not in survivors


def test_hostile_texts_are_shown_as_they_are(site: Path) -> None:
    """What has to look different looks different on the site, too, whatever Markdown makes of escapes."""
    text = text_of(site / "hostile.html")
    codes = re.findall(r"<code[^>]*>(.*?)</code>", text[: text.index('id="files"')])
    shown = [unescape(code.replace("<wbr>", "")) for code in codes]
    assert {printable(made) for made in texts_for()} <= set(shown)
    for _, one, other in TWINS:
        assert (printable(one), printable(other)) in pairwise(shown)
