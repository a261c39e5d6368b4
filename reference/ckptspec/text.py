"""Text that comes from files is hostile: what is shown to people is escaped here, and only here."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["count", "disturbing", "harmless", "printable", "shorten", "show"]

# Categories that move the cursor, hide, reorder or are not characters at all: C* (control, format, surrogate,
# private, unassigned) and Z* (separators), of which only the plain space stays as it is.
_UNSAFE: Final = ("C", "Z")
# Of other categories, and yet nothing is to be seen: fillers, variation selectors, the empty Braille cell.
_UNSEEN: Final = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0x1D159, 0x1D159),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
_PILE: Final = 4  # marks upon one letter; no language needs more once the text is composed
_SHORT: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def disturbing(char: str) -> bool:
    """Say whether a character could disturb a terminal or cannot be seen: it is never shown as it is."""
    return char != " " and (unicodedata.category(char)[0] in _UNSAFE or char in _UNSEEN)


def printable(text: str) -> str:
    r"""Return ``text`` with all that could disturb a terminal escaped: ``\x1b``, ``\u202e``, ``\n``.

    A backslash is doubled, so that the result says unambiguously what the text was. For the same reason blanks at
    either end and beside others are escaped, marks that pile up or have no letter, and in text that is not in Unicode's
    form NFC everything that is not ASCII: what is shown alike is alike, but for letters that are drawn alike.
    """
    if text.isascii() and text.isprintable() and "\\" not in text and "  " not in text and text.strip(" ") == text:
        return text
    composed = unicodedata.is_normalized("NFC", text)
    out = []
    before, marks = " ", _PILE
    for at, char in enumerate(text):
        marks = marks + 1 if unicodedata.category(char)[0] == "M" else 0
        if char == " ":
            alone = before != " " and at + 1 < len(text)
            out.append(" " if alone else "\\x20")
            marks = _PILE
        elif char == "\\" or disturbing(char):
            out.append(_escaped(char))
            marks = _PILE
        else:
            out.append(char if char.isascii() or (composed and marks <= _PILE) else _escaped(char))
        before = char
    return "".join(out)


def harmless(text: str) -> str:
    """Return a message with what could disturb a terminal escaped, lines and backslashes left as they are.

    This is for text that is composed already, and by others; ``printable`` is for what goes into it.
    """
    return "".join(char if char == "\n" or not disturbing(char) else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (
        f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
    )


def shorten(text: str, limit: int = 60) -> str:
    """Return ``text`` cut to ``limit`` characters, the cut shown by three dots."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def show(value: object, limit: int = 60) -> str:
    """Return any value as short text that may be shown; never descends into it, so that nothing is too deep or long."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return f"'{shorten(printable(value[: 4 * limit]), limit)}'"
    if isinstance(value, (bytes, bytearray)):
        return shorten(repr(bytes(value[:limit])), limit)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``"1 file"`` or ``"2 files"``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
