"""Pages of many rows: filters, a table, and the chosen row beside it, which ``explorer.js`` brings to life."""

from __future__ import annotations

from typing import Final

from .page import page, resource, safe

__all__ = ["Texts", "explorer"]

_BODY: Final = """<section id="summary" aria-labelledby="summary-title">
<h2 id="summary-title">Summary</h2>
</section>
<section id="{nouns}" aria-labelledby="{nouns}-title">
<h2 id="{nouns}-title">{title}</h2>
<div id="tools" class="tools" role="search" aria-label="Filter the {nouns}"></div>
<p id="shown" class="dim" role="status"></p>
<div id="split" class="split">
<div id="grid" class="grid" tabindex="0" aria-describedby="keys"></div>
<section id="detail" class="detail" aria-label="The chosen {noun}"></section>
</div>
<p id="keys" class="dim">Select a {noun} by clicking or with the arrow keys: {about}</p>
</section>"""


class Texts:
    """Numbers texts, each once: rows of a page name them by their numbers."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the number of a text."""
        at = self._places.get(text)
        if at is None:
            at = self._places[text] = len(self.listed)
            self.listed.append(text)
        return at


def explorer(title: str, noun: str, about: str, *, data: object, name: str, home: str = "") -> str:
    """Return a whole page whose rows are each a ``noun``.

    ``about`` ends the sentence on what choosing one shows, and may say what else there is to know; it may have several
    lines. ``name`` is that of the script and the style sheet that are the page's own; ``data``, ``home``: see ``page``.
    """
    nouns = f"{noun}s"
    return page(
        title,
        _BODY.format(noun=noun, nouns=nouns, title=nouns.capitalize(), about=_safe_lines(about)),
        data=data,
        styles=[resource("explorer.css"), resource(f"{name}.css")],
        script=resource("explorer.js") + resource(f"{name}.js"),
        contents=[("summary", "Summary"), (nouns, nouns.capitalize())],
        home=home,
    )


def _safe_lines(text: str) -> str:
    """Return lines of text as markup."""
    return "\n".join(map(safe, text.split("\n")))
