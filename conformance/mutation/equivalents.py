"""Mutants that survive because they do the same, each with the reason. An entry that is dead makes a run fail."""

from __future__ import annotations

from typing import Final

__all__ = ["EQUIVALENTS"]

_REASONS: Final[dict[str, tuple[str, ...]]] = {}

EQUIVALENTS: Final = {key: reason for reason, keys in _REASONS.items() for key in keys}
"""The reason by the key of each such mutant."""
