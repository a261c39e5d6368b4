"""Pages that show files and folders of the repository: those to which pages link."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .links import DOCS, LANGUAGES, PUBLISHED, ROOT, SOURCE, links_of, page_of
from .markdown import code, literal, table

__all__ = ["source_pages"]

_MOST: Final = 60_000  # bytes of a file that a page shows; larger ones can be downloaded


def _linked(start_is_readme: bool) -> set[str]:
    """Return the paths of the repository to which its pages link, and which are shown as source."""
    found = set()
    for page in [ROOT / "README.md", *(ROOT / name for name in PUBLISHED), *DOCS.rglob("*.md")]:
        for target in links_of(page.read_text("utf-8")):
            file = (page.parent / target).resolve()
            if file.exists() and file.is_relative_to(ROOT):
                path = str(file.relative_to(ROOT))
                if (page_of(path, start_is_readme) or "").startswith(f"{SOURCE}/"):
                    found.add(path)
    return found


def source_pages(start_is_readme: bool) -> Iterator[tuple[str, str | bytes]]:
    """Yield path and content of the pages that show files and folders, and of the files themselves."""
    linked = _linked(start_is_readme)
    folders = {path for path in linked if (ROOT / path).is_dir()}
    inside = {str(file.relative_to(ROOT)) for path in folders for file in _files(ROOT / path) if path == "spec"}
    for path in sorted(linked - folders | inside):
        data = (ROOT / path).read_bytes()
        yield f"{SOURCE}/{path}", data
        yield f"{SOURCE}/{path}.md", _file_page(path, data)
    shown = linked - folders | inside
    for path in sorted(folders):
        yield f"{SOURCE}/{path}/index.md", _folder_page(path, shown)


def _meta(title: str) -> str:
    return f"---\ntitle: {title}\nsearch:\n  exclude: true\n---\n\n"


def _file_page(path: str, data: bytes) -> str:
    name = Path(path).name
    head = f"{_meta(name)}# {code(path)}\n\n[Download this file]({name}), {len(data):,} bytes.\n\n"
    if len(data) > _MOST:
        return f"{head}It is too long to be shown here.\n"
    text = data.decode("utf-8")
    marks = "`" * 4 if "```" in text else "```"
    return f"{head}{marks}{LANGUAGES[Path(path).suffix]}\n{text.rstrip()}\n{marks}\n"


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and file.suffix in LANGUAGES)


def _folder_page(path: str, shown: set[str]) -> str:
    rows = []
    for file in _files(ROOT / path):
        inner = str(file.relative_to(ROOT))
        name = f"[{code(file.name)}]({file.name}.md)" if inner in shown else code(file.name)
        rows.append([name, _summary(file)])
    folders = sorted(
        item for item in (ROOT / path).iterdir() if (item / "__init__.py").is_file() and not item.is_symlink()
    )
    rows += [[code(f"{folder.name}/"), _summary(folder / "__init__.py")] for folder in folders]
    head = f"{_meta(path)}# {code(f'{path}/')}\n\nFiles of this folder of the repository:"
    return f"{head}\n\n{table(('file', 'what it is'), rows)}\n"


def _summary(file: Path) -> str:
    """Return the first sentence of a module's documentation."""
    if file.suffix != ".py":
        return ""
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return literal(text.split("\n\n", 1)[0].replace("``", "`").replace("`", ""))
