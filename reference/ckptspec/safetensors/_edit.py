"""Changing the metadata of a file without touching its tensors.

Where the new header fits into the place of the old one, and all bytes that change lie within one page, they are
written in place, in one call: a writer that is killed leaves the old header or the new one, and one that fails puts the
old one back. (Whether a reader can see a part of one call that is going on, is up to the file system; the readers here
read a header until it no longer changes.) Otherwise the file is written anew, with its payloads copied as they are, and
published in one step.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError
from ..formats import reading_as
from ..publish import HalfWrittenError, overwrite, publishing
from ..source import FileSource
from ..spec.schema import SAFETENSORS_HEADER_ALIGNMENT, SAFETENSORS_MAX_HEADER, SafetensorsFrame
from ..text import show
from ..urls import is_url, shown_url
from . import anatomy_of
from ._anatomy import FRAME_SIZE, Anatomy
from ._write import checked_metadata, header_text

__all__ = ["edit_metadata"]


def edit_metadata(
    path: str | os.PathLike[str],
    changes: Mapping[str, str | None] | None,
    *,
    replace: bool = False,
    reserve: int = 0,
    in_place: bool = True,
) -> bool:
    """Change a file's metadata; return whether that could be done in place.

    ``changes`` maps keys to their new values, None removes a key. With ``replace`` they take the place of all metadata,
    and None instead of a mapping leaves the file without any. ``reserve`` is how many bytes of spaces to leave in the
    header, for edits to come, if the file has to be written anew. A file that has other links keeps them if the edit is
    done in place, and parts from them otherwise. ``in_place=False`` always writes the file anew: then no reader, of
    whatever program, can see a header that is half old and half new, not even for a moment. Raises ArgumentError for
    what no file can hold, FormatError if the file must be refused, OSError if the system will not write, in which case
    the file is as it was; HalfWrittenError, which is one too, if it could not even be put back.
    """
    if is_url(path):
        raise OSError(errno.EINVAL, "Only files of this machine can be changed", shown_url(os.fspath(path)))
    if isinstance(reserve, bool) or not isinstance(reserve, int) or reserve < 0:
        raise ArgumentError(f"found {show(reserve)}, expected a number of bytes", "reserve")
    with FileSource(path) as source:
        with reading_as(source, "safetensors"):
            anatomy = anatomy_of(source)
        metadata = _changed(anatomy.metadata, changes, replace)
        text = _text(anatomy, metadata)
        half: HalfWrittenError | None = None
        try:
            fits = in_place and len(text) <= anatomy.header_length
            if fits and overwrite(path, anatomy.size, FRAME_SIZE, anatomy.text, text.ljust(anatomy.header_length)):
                return True
        except HalfWrittenError as error:
            half = error  # a new file makes it whole
        unit = SAFETENSORS_HEADER_ALIGNMENT
        length = -(-(len(text) + reserve) // unit) * unit
        if length > SAFETENSORS_MAX_HEADER:
            raise ArgumentError(f"the header takes {length} bytes, more than {SAFETENSORS_MAX_HEADER}", "metadata")
        try:
            with publishing(path) as draft:
                draft.write(SafetensorsFrame.build({"header_length": length}) + text.ljust(length))
                for block in source.blocks(anatomy.data, anatomy.room):
                    draft.write(block)
        except OSError as error:
            if half is not None:
                raise half from error
            raise
    return False


def _changed(old: Mapping[str, str] | None, changes: Any, replace: bool) -> dict[str, str] | None:
    if changes is None:
        if not replace:
            raise ArgumentError("found None, expected a mapping; to remove all metadata, say replace", "changes")
        return None
    if not isinstance(changes, Mapping):
        raise ArgumentError(f"found {show(changes)}, expected a mapping from keys to text, or None", "changes")
    made = {} if replace or old is None else dict(old)
    for key, value in changes.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = value
    checked_metadata(made)
    return made


def _text(anatomy: Anatomy, metadata: Mapping[str, str] | None) -> bytes:
    """Return the header's text with the entries in the file's order."""
    entries: list[Any] = anatomy.entries
    rows = [(entry.name, entry.dtype.safetensors, entry.shape, entry.begin, entry.end) for entry in entries]
    return header_text(metadata, rows).encode()
