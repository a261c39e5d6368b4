"""Text that comes from files is hostile: what is shown to people is escaped here, and only here."""

from __future__ import annotations

import unicodedata

__all__ = ["count", "printable", "shorten", "show"]

# Categories that move the cursor, hide, reorder or are not characters at all: C* (control, format, surrogate,
# private, unassigned) and Z* (separators), of which only the plain space stays as it is.
_UNSAFE = ("C", "Z")


def printable(text: str) -> str:
    r"""Return ``text`` with all that could disturb a terminal escaped: ``\x1b``, ``\u202e``, ``\n``.

    A backslash is doubled, so that the result says unambiguously what the text was.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    out = []
    for char in text:
        if char == "\\":
            out.append("\\\\")
        elif char == " " or unicodedata.category(char)[0] not in _UNSAFE:
            out.append(char)
        elif ord(char) > 0xFFFF:
            out.append(f"\\U{ord(char):08x}")
        elif ord(char) > 0xFF:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, f"\\x{ord(char):02x}"))
    return "".join(out)


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
