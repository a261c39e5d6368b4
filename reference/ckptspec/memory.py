"""Where the bytes of a file go: what every format writes to, and such a sink in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["MemorySink", "Sink"]


class Sink(Protocol):
    """Where a file is written to: appended to, and patched in place."""

    def write(self, data: Buffer) -> None: ...
    def skip(self, size: int) -> None: ...
    def patch(self, offset: int, data: Buffer) -> None: ...


class MemorySink:
    """Takes the bytes of a file, as a ``Draft`` does."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        self.data += data

    def skip(self, size: int) -> None:
        """Append ``size`` zero bytes."""
        self.data += bytes(size)

    def patch(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that were written before."""
        patch = bytes(data)
        self.data[offset : offset + len(patch)] = patch
