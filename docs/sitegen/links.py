"""Links of pages to what is no page: source files, folders, README and changelog.

On a checkout, a link of a page leads to a file of the repository. On the site, the same link leads to a page that shows
the file: ``spec/schema.py`` is shown by ``source/spec/schema.py.md``, a folder by ``source/spec/index.md``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["DOCS", "PUBLISHED", "ROOT", "SOURCE", "links_of", "page_of", "rewritten"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
SOURCE: Final = "source"  # folder of the pages that show files

_FENCE: Final = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<=\]\()(?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?(?=\))")
_ELSEWHERE: Final = re.compile(r"[a-z]+:|/")
PUBLISHED: Final = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}  # pages that do not lie in docs/
# What a page may show as it is; other files, such as pictures, are left to mkdocs.
LANGUAGES: Final = {
    ".c": "c",
    ".cpp": "cpp",
    ".h": "c",
    ".hpp": "cpp",
    ".json": "json",
    ".ml": "ocaml",
    ".mli": "ocaml",
    ".py": "python",
    ".rs": "rust",
    ".sh": "sh",
    ".toml": "toml",
    ".txt": "text",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def links_of(text: str) -> Iterator[str]:
    """Yield the relative targets of a page's links, without anchors; code blocks have none."""
    for part in _FENCE.split(text)[::2]:
        for match in _LINK.finditer(part):
            if not _ELSEWHERE.match(match["target"]):
                yield match["target"]


def page_of(path: str, start_is_readme: bool) -> str | None:
    """Return the page of the site that shows a file or folder of the repository; None where it is found by itself.

    ``start_is_readme`` says that the README is the start page, since there is no other.
    """
    if path == "README.md":
        return "index.md" if start_is_readme else "overview.md"
    if path in PUBLISHED:
        return PUBLISHED[path]
    file = ROOT / path
    if file.is_dir():
        if path.startswith("docs"):
            for name in ("README.md", "index.md"):
                if (file / name).is_file():
                    return posixpath.join(path, name).removeprefix("docs/")
            if path == "docs":
                return "index.md"
        return posixpath.join(SOURCE, path, "index.md")
    if file.suffix in LANGUAGES and file.is_file():
        return f"{SOURCE}/{path}.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def rewritten(text: str, page: str, file: str, start_is_readme: bool) -> str:
    """Return a page whose links lead to pages of the site.

    ``page`` is the page's path on the site, ``file`` the path of the file that it was written in, whose links are
    relative to it.
    """

    def target(match: re.Match[str]) -> str:
        if _ELSEWHERE.match(match["target"]):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["target"]))
        found = page_of(path, start_is_readme) if (ROOT / path).exists() else None
        if found is None:
            return match[0]
        return posixpath.relpath(found, posixpath.dirname(page) or ".") + (match["anchor"] or "")

    return _outside_code(text, lambda part: _LINK.sub(target, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCE.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)
