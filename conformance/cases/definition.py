"""What a case definition is, for all formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["CaseBook", "Definition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A case before it is built.

    ``rules`` are, for an invalid case, the rule for which a reader refuses it, and with ``company`` what else must be
    found; for a valid one, the canonical rules and the notes it is about. ``canonical`` says that the file is exactly
    what a writer makes of its document.
    """

    name: str
    title: str
    make: Callable[[], bytes]
    verdict: str
    kind: str = "file"
    level: str = "must"
    rules: tuple[str, ...] = ()
    company: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    extension: str = ""
    canonical: bool = False
    reason: str = ""
    behaviour: dict[str, str] = field(default_factory=dict)


class CaseBook:
    """The definitions of one format, in order."""

    def __init__(self, format: str, extension: str) -> None:
        self.format = format
        self.extension = extension
        self.definitions: list[Definition] = []

    def add(self, definition: Definition) -> None:
        """Add a definition; its name must be new."""
        assert all(definition.name != other.name for other in self.definitions), definition.name
        self.definitions.append(definition)
