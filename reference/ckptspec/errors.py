"""The error types: what is wrong with a file, and what is wrong with a call.

``CheckpointError`` is the root. ``FormatError`` says that a *file* is bad and carries the finding that made it so;
``ArgumentError`` says that a *caller* asked for something a format cannot hold. Errors of the operating system stay
``OSError``. Nothing else leaves the library, whatever the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .findings import Finding

__all__ = ["ArgumentError", "CheckpointError", "FormatError", "SettingError"]


class CheckpointError(Exception):
    """Root of the errors that this library raises on its own account."""


class FormatError(CheckpointError):
    """A file breaks a rule that obliges readers to refuse it.

    ``finding`` carries rule, byte offset, length, path, found and expected; ``source`` is the name of the file, or
    None for bytes in memory.
    """

    def __init__(self, finding: Finding, source: str | None = None) -> None:
        from .text import printable  # late: most programs never build an error

        self.finding = finding
        self.source = source
        where = f"{printable(source)}: " if source else ""
        super().__init__(where + str(finding))

    @property
    def rule(self) -> str:
        """Id of the broken rule, such as ``OAM-SEC-CHECKSUM``."""
        return self.finding.rule

    @property
    def offset(self) -> int:
        """Byte offset in the file at which the finding begins."""
        return self.finding.offset

    @property
    def length(self) -> int:
        """Number of bytes that the finding covers."""
        return self.finding.length

    @property
    def path(self) -> str:
        """The field, such as ``weights[3].num_bytes``; empty for the file as a whole."""
        return self.finding.path


class ArgumentError(CheckpointError, ValueError):
    """The caller asked for something that the format cannot hold or the library does not know.

    ``path`` names the argument at fault, such as ``weights['w'].shape``; it may be empty.
    """

    def __init__(self, message: str, path: str = "") -> None:
        from .text import harmless
        from .urls import scrubbed

        self.path = path
        super().__init__(scrubbed(harmless(f"{path}: {message}" if path else message)))


class SettingError(ArgumentError):
    """An environment variable, ``path``, has a value that the library does not know."""
