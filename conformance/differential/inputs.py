"""Files for the readings to read: sound ones, damaged ones, and golden files in which bytes were changed.

Needs hypothesis: ``pip install 'ckptspec[test]'``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from ...text import count
from .. import strategies
from ..catalogue import Case, load_suite
from ..strategies_oam import edited_oam_files, resealed
from ..strategies_ocannl import damaged_ocannl_files
from ..strategies_safetensors import damaged_safetensors_files, extreme_safetensors_files
from .readings import Answer

__all__ = ["GeneratedFile", "answer_of_suite", "generated_files", "golden_files"]

_LARGEST: Final = 40_000  # bytes of a golden file that is changed: larger ones say no more, and take their time
_ODD: Final = {
    "oam": (edited_oam_files,),
    "ocannl": (damaged_ocannl_files,),
    "safetensors": (damaged_safetensors_files, extreme_safetensors_files),
}


@cache
def golden_files(format: str) -> tuple[Case, ...]:
    """Return the cases of the suite that are files of a format, or of none."""
    return tuple(case for case in load_suite().cases if case.kind == "file" and case.format == format)


def answer_of_suite(case: Case) -> Answer:
    """Return what the suite says of a case's file, as an answer."""
    expected = case.read_expected()
    if "error" in expected:
        return Answer(why=f"as {case.id} has it", offset=expected["error"].get("offset"))
    return Answer(parts=expected)


class GeneratedFile(NamedTuple):
    """A file, with a text for people that is not as long as the file."""

    data: bytes

    def __repr__(self) -> str:
        return f"<{count(len(self.data), 'byte')}, SHA-256 {hashlib.sha256(self.data).hexdigest()}>"


def generated_files(format: str) -> st.SearchStrategy[GeneratedFile]:
    """Files of a format, most of them with something wrong."""
    odd: list[st.SearchStrategy[bytes]] = [strategy() for strategy in _ODD[format]]
    return st.one_of(
        st.binary(max_size=100),
        strategies.files(format).map(lambda file: file.data),
        strategies.damaged_files(format, strict=True).map(lambda file: file.data),
        *odd,
        _changed(format),
    ).map(GeneratedFile)


def _golden(format: str) -> Iterator[bytes]:
    for case in golden_files(format):
        if case.size <= _LARGEST:
            yield case.read()


@st.composite
def _changed(draw: Any, format: str) -> bytes:
    """A golden file with some bytes changed, put in or taken away; its checksums fit again or not."""
    data = bytearray(draw(st.sampled_from(list(_golden(format)))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["flip", "set", "insert", "delete", "cut", "copy"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "set" if at < len(data):
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "delete":
                del data[at : at + draw(st.integers(1, 8))]
            case "cut":
                del data[at:]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
    return resealed(bytes(data)) if format == "oam" and draw(st.booleans()) else bytes(data)
