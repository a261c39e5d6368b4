r"""Hostile texts: what a name, a key, a value or a file's own name may hold to hurt whoever looks at it.

Each row says what it attacks. ``TWINS`` are texts that a careless display makes look the same: whatever shows names
must keep them apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BYTES", "TEXTS", "TWINS", "Text", "texts_for"]


class Text(NamedTuple):
    """A hostile text. ``attacks`` is the kind of reader that it is meant for."""

    name: str
    attacks: str
    text: str


_TERMINAL: Final = "a terminal"
_ORDER: Final = "the order in which text is read"
_UNSEEN: Final = "an eye that does not see it"
_LINES: Final = "what reads output line by line"
_PAGE: Final = "a browser"
_SHEET: Final = "a spreadsheet"
_PATH: Final = "what makes a path of a name"
_SHELL: Final = "a command line"
_CODE: Final = "what formats, parses or looks up a name"

TEXTS: Final = (
    Text("colour", _TERMINAL, "\x1b[31mred\x1b[0m"),
    Text("erase", _TERMINAL, "\x1b[2J\x1b[Hgone"),
    Text("title", _TERMINAL, "\x1b]0;owned\x07"),
    Text("link", _TERMINAL, "\x1b]8;;http://example.invalid\x1b\\w\x1b]8;;\x1b\\"),
    Text("clipboard", _TERMINAL, "\x1b]52;c;cm0gLXJmIH4=\x07"),
    Text("device_string", _TERMINAL, "\x1bP+q544e\x1b\\"),
    Text("answerback", _TERMINAL, "\x05\x1b[c\x1bZ"),
    Text("c1_csi", _TERMINAL, "\x9b31mred"),
    Text("c1_osc", _TERMINAL, "\x9d0;owned\x9c"),
    Text("shift", _TERMINAL, "\x0e\x0f\x1b(0"),
    Text("backspace", _TERMINAL, "good\b\b\b\bevil"),
    Text("bell_delete", _TERMINAL, "\x07\x7f"),
    Text("return", _TERMINAL, "w: refused\rw: valid"),
    Text("override", _ORDER, "w\u202egnp.exe"),
    Text("embedding", _ORDER, "\u202a\u202b\u202d\u202c"),
    Text("isolate", _ORDER, "\u2066\u2067\u2068w\u2069"),
    Text("marks", _ORDER, "\u200e\u200f\u061cw"),
    Text("zero_width", _UNSEEN, "w\u200b\u200c\u200d\u2060\ufeff"),
    Text("soft_hyphen", _UNSEEN, "w\u00ad"),
    Text("fillers", _UNSEEN, "w\u3164\u115f\u1160\uffa0\u2800"),
    Text("selectors", _UNSEEN, "w\ufe0f\U000e0100\u034f\u180b"),
    Text("tags", _UNSEEN, "w\U000e0068\U000e0069\U000e007f"),
    Text("blanks", _UNSEEN, "w\u00a0\u2003\u3000\u205f"),
    Text("private", _UNSEEN, "w\ue000\U0010ffff\ufffe\u0378"),
    Text("piled_marks", _TERMINAL, "w" + "\u0335\u0489" * 10),
    Text("newline", _LINES, "w\n  reject OAM-SEC-CHECKSUM at byte 0"),
    Text("crlf_tab", _LINES, "w\r\n\t\v\fx"),
    Text("separators", _LINES, "w\u2028x\u2029y\u0085z\x1c\x1d\x1e\x1f"),
    Text("element", _PAGE, "<img src=x onerror=alert(1)>"),
    Text("script", _PAGE, "</script><script>alert(1)</script>"),
    Text("comment", _PAGE, "<!--<script>-->"),
    Text("cdata", _PAGE, "]]>&amp;lt;b&gt;"),
    Text("attribute", _PAGE, "\"' onmouseover=alert(1) x=`"),
    Text("style", _PAGE, "</style><style>*{display:none}</style>"),
    Text("title_end", _PAGE, "</title><b>"),
    Text("svg", _PAGE, "<svg/onload=alert(1)><foreignObject>"),
    Text("scheme", _PAGE, "javascript:alert(1)"),
    Text("markdown", _PAGE, "[w](javascript:alert(1))|`*_~#"),
    Text("prototype", _PAGE, "__proto__"),
    Text("constructor", _PAGE, "constructor"),
    Text("formula", _SHEET, '=HYPERLINK("http://example.invalid")'),
    Text("command", _SHEET, "=cmd|' /C calc'!A0"),
    Text("plus", _SHEET, "+1+1"),
    Text("minus", _SHEET, "-1+1"),
    Text("at", _SHEET, "@SUM(1)"),
    Text("tab_formula", _SHEET, "\t=1+1"),
    Text("return_formula", _SHEET, "\r=1+1"),
    Text("fields", _SHEET, '","w";"'),
    Text("parents", _PATH, "../beside/ckptspec-was-here"),
    Text("absolute", _PATH, "/var/ckptspec-was-here"),
    Text("parent", _PATH, ".."),
    Text("drive", _PATH, "C:\\Windows\\w"),
    Text("share", _PATH, "\\\\host\\share"),
    Text("device", _PATH, "CON"),
    Text("device_file", _PATH, "NUL.txt"),
    Text("stream", _PATH, "w:stream"),
    Text("home", _PATH, "~/w"),
    Text("nul", _PATH, "w\x00.png"),
    Text("address", _PATH, "file:///etc/passwd"),
    Text("help", _SHELL, "--help"),
    Text("force", _SHELL, "-rf"),
    Text("dashes", _SHELL, "--"),
    Text("dash", _SHELL, "-"),
    Text("substitution", _SHELL, "$(id)`id`${HOME};id|id&"),
    Text("pattern", _SHELL, "*?[!a]"),
    Text("percent", _CODE, "%s%n%(a)s%"),
    Text("braces", _CODE, "{0}{x.__class__}{"),
    Text("dunder", _CODE, "__class__"),
    Text("escaped", _CODE, "\\x1b[31m\\u202e\\"),
    Text("half", _CODE, "\\ud800"),
    Text("json", _CODE, '{"error": {"rule": "x"}}'),
    Text("quotes", _CODE, "'w', \"w\""),
    Text("list", _CODE, "w, x; y: z = 1"),
    Text("line", _CODE, "w: valid"),
    Text("nothing", _UNSEEN, ""),
)
"""The texts, each of which some format can hold as a name."""

TWINS: Final = (
    ("composed", "\u00e9", "e\u0301"),
    ("composed_hangul", "\ud55c", "\u1112\u1161\u11ab"),
    ("singleton", "\u00c5", "\u212b"),
    ("order_of_marks", "q\u0307\u0323", "q\u0323\u0307"),
    ("trailing_blank", "w", "w "),
    ("leading_blank", "w", " w"),
    ("two_blanks", "w x", "w  x"),
    ("column", "w", "w  f32  2"),
    ("joined", "w", "w\u200d"),
    ("filled", "w", "w\u3164"),
    ("selected", "w", "w\ufe0e"),
    ("escape", "w\n", "w\\n"),
    ("shown_escape", "\x1b", "\\x1b"),
    ("blank_escape", "w ", "w\\x20"),
)
"""Pairs of texts that look the same, or would if one of them were shown carelessly."""

BYTES: Final = (
    ("no_utf8", b"w\xff\xfe"),
    ("cut_character", b"w\xe2\x82"),
    ("surrogate", b"w\xed\xa0\x80\xed\xb0\x80"),
    ("overlong", b"w\xc0\xaf\xe0\x80\xaf"),
    ("beyond", b"w\xf4\x90\x80\x80"),
    ("c1_raw", b"w\x9b31m\x9d0;x\x9c"),
    ("latin_1", b"caf\xe9"),
)
"""Names that are no UTF-8."""


def texts_for(limit: int | None = None, without: str = "") -> list[str]:
    """Return all texts and twins, each once, that have 1 to ``limit`` bytes and no character of ``without``."""
    every = [item.text for item in TEXTS] + [text for _, *pair in TWINS for text in pair]
    return [
        text
        for text in dict.fromkeys(every)
        if text and not set(text) & set(without) and (limit is None or len(text.encode()) <= limit)
    ]
