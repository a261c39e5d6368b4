"""Hostile content: files, names and words made to hurt, each tried on each command.

``FILES`` are the files, ``NAMES`` what files can be called, ``TEXTS`` what can stand in them; ``COMMANDS``
and ``WORDS`` say what is done with them. ``python -m ckptspec.conformance.hostile --full`` tries it all at full size.
"""

from __future__ import annotations

from . import oam, ocannl, safetensors
from .commands import COMMANDS, WORDS, Command, Words
from .files import Hostile
from .texts import BYTES, TEXTS, TWINS, Text, texts_for

__all__ = ["COMMANDS", "FILES", "NAMES", "TEXTS", "TWINS", "WORDS", "Command", "Hostile", "Text", "Words", "texts_for"]

FILES: tuple[Hostile, ...] = (*oam.FILES, *ocannl.FILES, *safetensors.FILES)
NAMES: tuple[bytes, ...] = (
    *(text.encode("utf-8", "surrogateescape") for text in texts_for(200, "/\0") if text not in (".", "..")),
    *(raw for _, raw in BYTES if b"/" not in raw),
)
