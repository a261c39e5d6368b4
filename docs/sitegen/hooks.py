"""The hooks of mkdocs: navigation, links and pictures of committed pages, and the golden files beside the pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import generate

from ckptspec.spec.rules import rules_of
from sitegen.beside import Beside
from sitegen.case_pages import with_cases
from sitegen.clauses import clause_anchor
from sitegen.downloads import EXPORTS_PAGE, downloads
from sitegen.links import DOCS, rewritten
from sitegen.pictures import pictures
from sitegen.rule_pages import entry_of
from sitegen.typesetting import typeset

_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(pictures/(?P<slug>[a-z-]+)\.svg\)")
_CELL: Final = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
# lunr takes two nodes of its index for one if the texts that it makes of them are the same: of edges "1" to node 2 and
# "3" to node 4, and of an edge "1" to node 234. Then it expands beginnings to words that are not there, and fails.
_NODE: Final = re.compile(r"(?P<joined>(\w)=\2\+\w\+\w\.id)(?P<rest>\}return \2\})")
_MORE: Final = "More"  # where pages go that the navigation does not name
_NO_PAGES: Final = ("source/",)


def _rules(format: str, clause: str) -> str:
    """Return the rules of a clause, each with links to its cases."""
    chosen = [rule for rule in rules_of(format) if rule.clause == clause]
    entries = (entry_of(rule, generate.rule_entry(rule, counted=False)) for rule in chosen)
    return "\n\n".join((f'<a id="{clause_anchor(chosen[0])}"></a>', *entries))


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Give a committed page what only the site has: links to cases, to files of the repository, pictures in place."""
    path = page.file.src_uri
    if not (DOCS / path).is_file():
        return markdown
    made = generate.rendered(markdown, {"rules": _rules}, some=True)
    made = _PICTURE.sub(lambda match: pictures()[match["slug"]].inline(), made)
    made = rewritten(made, path, f"docs/{path}", not (DOCS / "index.md").is_file())
    return made + downloads() if path == EXPORTS_PAGE else made


def on_page_content(html: str, **_: Any) -> str:
    """Take back the escapes of bars in code within tables, which Markdown elsewhere takes back itself; set the page."""
    return typeset(_CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html))


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Put the cases into the pages of the catalogue."""
    return with_cases(output) if page.file.src_uri.startswith("cases/") else output


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Leave out of the navigation what is not there, and put in what it does not name."""
    there = [file.src_uri for file in files.documentation_pages()]
    named: set[str] = set()
    nav = _pruned(config.nav or [], there, named)
    rest = [path for path in sorted(there) if path not in named and not path.startswith(_NO_PAGES)]
    config.nav = [*nav, {_MORE: rest}] if rest else nav
    return files


def _pruned(items: list[Any], there: list[str], named: set[str]) -> list[Any]:
    """Return a part of the navigation; a folder, written with a slash at its end, stands for what is left in it."""
    made: list[Any] = []
    for item in items:
        title, value = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(value, list):
            inner = _pruned(value, there, named)
            made += [{title: inner}] if inner else []
        elif value.endswith("/"):
            found = [path for path in sorted(there) if path.startswith(value) and path not in named]
            named.update(found)
            made += [{title: found}] if title and found else found
        elif value in there:
            named.add(value)
            made.append(item)
    return made


_beside: list[Beside] = []


def on_pre_build(**_: Any) -> None:
    """Start to make what lies beside the pages."""
    _beside.append(Beside())


def on_post_build(*, config: MkDocsConfig) -> None:
    """Put it there, and mend the search."""
    _beside.pop().move_into(Path(config.site_dir))
    for worker in Path(config.site_dir).glob("assets/javascripts/workers/search.*.js"):
        worker.write_text(_NODE.sub(r"\g<joined>+','\g<rest>", worker.read_text("utf-8")), "utf-8")


def on_build_error(**_: Any) -> None:
    """Do not leave a process behind."""
    while _beside:
        _beside.pop().end()
