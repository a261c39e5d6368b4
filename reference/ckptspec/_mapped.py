"""Memory maps of files that can still be read.

A mapped file that another program cuts short ends the program that touches the pages that are gone. Arrays that are
handed out are views of a map all the same: nothing else makes a large file one's own without reading it. But what only
goes on from there, into another file or document, is read from the file as long as that is open, so that the same
truncation is an error like any other.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    from .source import Source

__all__ = ["Map", "put", "steady_array", "steady_blocks", "steady_bytes"]

_PIECE: Final = 4 << 20  # bytes that are read at a time


class Map(mmap.mmap):
    """A map of a whole file. ``source`` gives what reads the same bytes, or None once that is gone."""

    source: Callable[[], Source | None] | None = None


def put(content: memoryview, values: Mapping[int, int]) -> None:
    """Put bytes into a private map; OSError if their page is gone.

    The system puts them there, since it tells what it cannot do, while touching such a page oneself ends the program.
    """
    receiver, sender = os.pipe()
    try:
        for at, value in values.items():
            os.write(sender, bytes([value]))
            os.readv(receiver, [content[at : at + 1]])
    finally:
        os.close(sender)
        os.close(receiver)


def steady_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield bytes in memory as they are; those of a map a piece at a time, read from its file if that is open."""
    found = _stretch(data, data.obj) if data.nbytes else None
    if found is None:
        yield data
        return
    source, offset = found
    for start in range(0, data.nbytes, _PIECE):
        yield memoryview(source.read(offset + start, min(_PIECE, data.nbytes - start)))


def steady_bytes(data: memoryview) -> bytes | memoryview:
    """Return bytes in memory as they are; those of a map read from its file, if that is open."""
    found = _stretch(data, data.obj) if data.nbytes else None
    return data if found is None else found[0].read(found[1], data.nbytes)


def steady_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in memory as it is; a contiguous one of a map as a copy read from its file, if that is open."""
    import numpy as np

    if not array.nbytes or not array.flags.c_contiguous:
        return array
    found = _stretch(array, array.base)
    return array if found is None else np.ndarray(array.shape, array.dtype, found[0].read(found[1], array.nbytes))


def _stretch(data: Any, owner: Any) -> tuple[Source, int] | None:
    """Return the open source of a map that some bytes lie in, and their offset in it; None if there is none."""
    while not isinstance(owner, Map):
        if isinstance(owner, memoryview):
            owner = owner.obj
        elif hasattr(owner, "__array_interface__"):
            owner = owner.base
        else:
            return None
    source = None if owner.source is None else owner.source()
    if source is None or not source.is_open:
        return None
    return source, _address(data) - _address(owner)


def _address(data: Any) -> int:
    import numpy as np

    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    place: int = array.__array_interface__["data"][0]
    return place
