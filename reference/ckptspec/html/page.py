"""The shell of an HTML page: one file that needs no other, and that runs no script but its own.

A page shows what stands in files, and files are hostile. So text goes into the markup through ``safe`` only, everything
else travels as JSON in a data block (``embed``), of which the scripts build the page with ``textContent``; and a policy
in the page's head names the digests of the style sheets and scripts that belong to it: the browser runs no other, and
asks no host for anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from .. import __version__
from ..text import printable

__all__ = ["embed", "page", "resource", "safe"]

# What could end a data block, begin a comment in it or be taken for markup. Inside of JSON these stand in strings only.
_MARKUP = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


def safe(text: str) -> str:
    """Return hostile text as markup that shows it: what could disturb a reader is escaped, and so is all markup."""
    return html.escape(printable(text))


def embed(value: Any) -> str:
    """Return JSON that may stand in a script element; ValueError if there is a NaN or an infinity in it.

    All of it is ASCII: lone surrogates and the line separators of Unicode are escaped.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_MARKUP)


def resource(name: str) -> str:
    """Return the text of a style sheet or script that belongs to this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def page(
    title: str,
    body: str,
    *,
    data: Any = None,
    styles: str | Iterable[str] = (),
    script: str | Iterable[str] = (),
    heading: str | None = None,
    contents: Sequence[tuple[str, str]] = (),
    home: str = "",
) -> str:
    """Return a whole HTML page.

    ``title`` and ``heading`` (the title, unless given) are text; ``body`` is markup, the content of ``main``. ``data``
    are JSON types; a script finds them as ``ckptspec.data``. ``styles`` and ``script`` are texts of the page's own,
    which follow those of the shell. ``contents`` are the page's sections, (id, label) each, for the bar at its top.
    ``home`` is the address of the page that this one belongs to, if there is one.
    """
    sheets = [resource("style.css"), *_listed(styles)]
    scripts = [resource("shell.js"), *_listed(script)]
    brand = f'<a href="{html.escape(home)}">ckptspec</a>' if home else "ckptspec"
    links = "".join(f'<a href="#{html.escape(anchor)}">{safe(label)}</a>' for anchor, label in contents)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(sheets, scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f'<meta name="generator" content="ckptspec {__version__}">',
        f"<title>{safe(title)}</title>",
        *(f"<style>{sheet}</style>" for sheet in sheets),
        "</head>",
        "<body>",
        '<a class="skip" href="#main">Skip to the content</a>',
        "<header>",
        f'<div class="bar"><p class="brand">{brand}</p><h1>{safe(title if heading is None else heading)}</h1>',
        '<button type="button" id="theme" hidden>Dark</button></div>',
        f'<nav aria-label="Sections"><div class="bar">{links}</div></nav>' if links else "",
        "</header>",
        '<main id="main" tabindex="-1">',
        "<noscript><p>This page is built by its own script, which your browser does not run.</p></noscript>",
        body,
        "</main>",
        f"<footer><p>Made by ckptspec {__version__}.</p></footer>",
        f'<script type="application/json" id="data">{embed(data)}</script>',
        *(f"<script>{text}</script>" for text in scripts),
        "</body>",
        "</html>",
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _listed(texts: str | Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _policy(sheets: Iterable[str], scripts: Iterable[str]) -> str:
    """Return the policy that allows these inline texts and nothing else."""
    rules = {
        "default-src": ["'none'"],
        "style-src": [_digest(text) for text in sheets],
        "script-src": [_digest(text) for text in scripts],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(" ".join((name, *values)) for name, values in rules.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
