"""Scalable pictures: elements, colours and letters.

Kinds of fields have colours, in light and in dark. A picture of its own follows the reader's system; within a page of
the site it follows the page, whose style sheet is made here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .markdown import attribute

__all__ = ["Picture", "element", "style_sheet", "text_width"]

# What is painted: in light, in dark.
COLOURS: Final = {
    "int": ("#d9e7fb", "#1d3a5f"),
    "f32": ("#e7defb", "#3d3168"),
    "text": ("#d8f0dc", "#1c4a2c"),
    "bytes": ("#fbecc8", "#584311"),
    "data": ("#fadce6", "#5c2440"),
    "reserved": ("#ececef", "#34363d"),
    "padding": ("#f6f6f8", "#26282e"),
    "line": ("#566071", "#98a3b3"),
    "faint": ("#a9b0bc", "#5d6674"),
    "ink": ("#171d28", "#edf1f7"),
    "dim": ("#4b5565", "#b4bdca"),
}
# Roles of the schema's fields that share a colour with another.
SAME: Final = {"dtype": "int", "bool": "int", "flags": "reserved", "frame": "int", "table": "int", "header": "text"}

_RULES: Final = """
.ck-picture text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ck-ink)}
.ck-picture .ck-dim{fill:var(--ck-dim)}
.ck-picture rect{stroke:var(--ck-line);stroke-width:1}
.ck-picture path{stroke:var(--ck-line);fill:none}
.ck-picture .ck-tick{stroke:var(--ck-faint)}
"""
_LETTER: Final = 0.61  # width of a letter of these fonts, as a part of their size


def _variables(dark: bool) -> str:
    return "".join(f"--ck-{name}:{pair[dark]};" for name, pair in COLOURS.items())


def _fills() -> str:
    kinds = {name: name for name in COLOURS} | SAME
    return "".join(
        f".ck-picture .ck-{kind}{{fill:var(--ck-{name})}}\n" for kind, name in kinds.items() if kind != "dim"
    )


def style_sheet() -> str:
    """Return the style sheet for pictures within pages of the site, whose palette the reader may switch."""
    dark = f'[data-md-color-scheme="slate"] .ck-picture{{{_variables(True)}}}'
    return f".ck-picture{{{_variables(False)}}}\n{dark}\n{_RULES}{_fills()}"


def element(name: str, attributes: dict[str, object], *children: str) -> str:
    """Return an element; the values of its attributes are escaped, its children must be."""
    words = "".join(f' {key}="{attribute(str(value))}"' for key, value in attributes.items())
    return f"<{name}{words}>{''.join(children)}</{name}>" if children else f"<{name}{words}/>"


def text_width(text: str, size: float) -> float:
    """Return how wide a text will be at most, in the units of a picture."""
    return len(text) * size * _LETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture: its name, what it is in a few words and at length, its size and its elements."""

    slug: str
    title: str
    description: str
    width: float
    height: float
    body: Sequence[str]

    def _svg(self, style: str) -> str:
        ids = (f"{self.slug}-title", f"{self.slug}-description")
        attributes: dict[str, object] = {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "ck-picture",
            "viewBox": f"0 0 {self.width:g} {self.height:g}",
            "role": "img",
            "aria-labelledby": " ".join(ids),
        }
        if style:
            attributes |= {"width": f"{self.width:g}", "height": f"{self.height:g}"}
        return element(
            "svg",
            attributes,
            element("title", {"id": ids[0]}, attribute(self.title)),
            element("desc", {"id": ids[1]}, attribute(self.description)),
            style,
            *self.body,
        )

    def standalone(self) -> str:
        """Return the picture as a file."""
        dark = f"@media (prefers-color-scheme:dark){{.ck-picture{{{_variables(True)}}}}}"
        sheet = f".ck-picture{{{_variables(False)}}}\n{dark}\n{_RULES}{_fills()}"
        return self._svg(element("style", {}, sheet)).replace("><", ">\n<") + "\n"

    def inline(self) -> str:
        """Return the picture as a part of a page, on one line."""
        svg = self._svg("").replace("\n", " ")
        return f'<div class="ck-figure" style="--ck-width:{self.width:g}px" tabindex="0">{svg}</div>'
