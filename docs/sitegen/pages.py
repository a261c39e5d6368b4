"""The script that mkdocs-gen-files runs: writes the pages that the repository does not have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sitegen.case_pages import case_pages
from sitegen.command_line import command_line
from sitegen.downloads import export_files
from sitegen.links import DOCS, PUBLISHED, ROOT, page_of, rewritten
from sitegen.python_pages import python_pages
from sitegen.rule_pages import INDEX, rules_index
from sitegen.sources import source_pages
from sitegen.svg import style_sheet


def generated() -> Iterator[tuple[str, str | bytes]]:
    """Yield path and content of every page and file."""
    start_is_readme = not (DOCS / "index.md").is_file()
    for name in ("README.md", *PUBLISHED):
        page = page_of(name, start_is_readme)
        assert page is not None
        yield page, rewritten((ROOT / name).read_text("utf-8"), page, name, start_is_readme)
    yield INDEX, rules_index()
    yield "command-line.md", command_line()
    yield "assets/pictures.css", style_sheet()
    yield from case_pages()
    yield from python_pages()
    yield from source_pages(start_is_readme)
    yield from export_files()


for path, content in generated():
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    with mkdocs_gen_files.open(path, "wb") as file:
        file.write(data)
