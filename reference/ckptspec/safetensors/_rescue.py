"""Rescuing what can be read of a damaged safetensors file.

There are no checksums, so a payload that lies within the file counts as intact. Names in OCaml's escapes, which are not
JSON (``\\195\\169``), are put right; where the header's text is damaged otherwise, entries that are whole are found one
by one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..examination import Examination
from ..findings import Report, Survivor, header_survivor
from ..source import Source
from ..spec.schema import (
    SAFETENSORS_HEADER_ALIGNMENT,
    SAFETENSORS_MAX_DEPTH,
    SAFETENSORS_MAX_HEADER,
    SAFETENSORS_METADATA,
)
from ._anatomy import FRAME_SIZE, Anatomy, Entry, measure
from ._examine import read_again, read_pairs
from ._json import JsonError, Node, Scanner, spelled
from ._model import Tensor, TensorFile

__all__ = ["rescue"]


def rescue(source: Source, anatomy: Anatomy, intact_only: bool = False) -> tuple[TensorFile | None, list[Survivor]]:
    """Return a file of what can be read, and what became of each part; no file if nothing can."""
    survivors: list[Survivor] = []
    names: dict[str, str] = {}
    sure = True
    found = _recovered(source, anatomy) if not anatomy.whole else _shifted(source, anatomy)
    if found is not None:
        anatomy, reason, names, sure = found
        survivors.append(header_survivor("repaired", reason))
    elif not anatomy.whole:
        return None, [header_survivor("lost", "no entry can be read")]
    made = _Rescue(source, anatomy, names, intact_only, sure)
    model = made.model()
    survivors += made.survivors
    if all(item.state == "intact" for item in survivors):
        survivors.insert(0, header_survivor("repaired", "it is written anew"))
    return model, survivors


# --------------------------------------------------------------------------------------------------- damaged headers

Recovered = tuple[Anatomy, str, dict[str, str], bool]
_WRONG_LENGTH: Final = "its length was wrong; its text is whole"


def _shifted(source: Source, anatomy: Anatomy) -> Recovered | None:
    """Return a header that can be read, but whose length is wrong; None if it is not."""
    known, to_end = anatomy.header_length, _length_to_end(anatomy)
    if to_end == known:
        return None
    scanner = Scanner(anatomy.text, SAFETENSORS_MAX_DEPTH)
    scanner.value()
    length = _likelier(source, scanner.at, known, to_end)
    made = None if length == known else _read(source, anatomy.text[: scanner.at], length)
    return None if made is None else (made, _WRONG_LENGTH, {}, True)


def _recovered(source: Source, anatomy: Anatomy) -> Recovered | None:
    """Read a header whose length is wrong or whose text is damaged; None if no entry in it is whole.

    What comes third maps names that were put right to how they were spelled; the last part says whether it is sure
    where the payloads begin.
    """
    text = bytes(source.read(FRAME_SIZE, min(source.size - FRAME_SIZE, SAFETENSORS_MAX_HEADER)))
    in_file = anatomy.header_length <= source.size - FRAME_SIZE
    known = anatomy.header_length if in_file else None
    whole = None if known is None else _whole(source, text[:known], known)
    if whole is None and known != len(text):  # the length may be too small
        whole = _whole(source, text, None)
    if whole is not None:
        return whole
    if known is None:
        return None  # the payloads could be anywhere
    made = Anatomy(size=source.size, header_length=known, text=text[:known])
    read_pairs(Examination(source, Report()), made, _pairs(text[:known]))
    if not made.entries:
        return None
    return made, "its text is damaged; the entries that are whole were read one by one", {}, True


def _whole(source: Source, text: bytes, length: int | None) -> Recovered | None:
    """Read a header that is an object, once the escapes in its names are put right."""
    bom = len(text) - len(text.removeprefix(b"\xef\xbb\xbf"))
    right, names, moves = _put_right(text[bom:])
    scanner = Scanner(right, SAFETENSORS_MAX_DEPTH)
    try:
        scanner.value()
    except (JsonError, ValueError):
        return None
    if not right.lstrip(b" \t\r\n").startswith(b"{"):
        return None
    reason = "what is not JSON in it was put right" if names or bom else "what follows its object is left out"
    object_only = right[: scanner.at]
    end = bom + scanner.at - sum(move for place, move in moves if place <= scanner.at)
    made = _read(source, object_only, end if length is None else length)
    if made is None:
        return None
    to_end = _length_to_end(made)
    true = _likeliest(source, end, to_end) if length is None else _likelier(source, end, length, to_end)
    if true != made.header_length:
        made = _read(source, object_only, true)
    # Payloads may lie behind the object, or what somebody put there.
    sure = true == to_end or (length is not None and not text[end:length].strip(b" "))
    return None if made is None else (made, reason if true == length else _WRONG_LENGTH, names, sure)


def _read(source: Source, text: bytes, length: int) -> Anatomy | None:
    """Read a header whose object is ``text`` as if it had this length; None if it is none."""
    made = Anatomy(size=source.size, header_length=length, text=text)
    return made if read_again(Examination(source, Report()), made) else None


def _length_to_end(anatomy: Anatomy) -> int:
    """Return the length that a header has if the payloads end where the file does."""
    return anatomy.size - FRAME_SIZE - max((entry.end for entry in anatomy.entries if entry.end is not None), default=0)


def _possible(source: Source, end: int, length: int) -> bool:
    """Say whether a header whose object ends at ``end`` may have a length: only spaces lie in between."""
    return end <= length <= min(source.size - FRAME_SIZE, end + _PADDING) and _is_blank(source, end, length)


def _likelier(source: Source, end: int, known: int, to_end: int) -> int:
    """Return the likelier one of two lengths: that which the frame has, and that with which payloads end at the end.

    Writers pad to a multiple of 8 bytes. A file that lost or got some bytes at its end has a good length still.
    """
    if to_end == known or not _possible(source, end, to_end):
        return known
    unit = SAFETENSORS_HEADER_ALIGNMENT
    good = _possible(source, end, known) and (FRAME_SIZE + known) % unit == 0
    return known if good and (to_end < known or (FRAME_SIZE + to_end) % unit) else to_end


def _likeliest(source: Source, end: int, to_end: int) -> int:
    """Return the length of a header whose object ends ``end`` bytes after the frame, which does not know it.

    The payloads end where the file does, if nothing is missing. Otherwise they begin where writers begin them, after
    spaces up to a multiple of 8 bytes, if there are such spaces; else right after the object.
    """
    unit = SAFETENSORS_HEADER_ALIGNMENT
    padded = -(-(FRAME_SIZE + end) // unit) * unit - FRAME_SIZE
    return next((length for length in (to_end, padded) if _possible(source, end, length)), end)


def _is_blank(source: Source, start: int, end: int) -> bool:
    return not bytes(source.read(FRAME_SIZE + start, end - start)).strip(b" ")


# Bounds for headers that were made to take long.
_REPAIRS: Final = 1_000_000  # strings that are put right
_PADDING: Final = 1 << 20  # spaces between a header's object and the payloads
_FAILURES: Final = 100_000  # objects that turn out to be damaged
_EFFORT: Final = 16  # how often, on an average, a byte is read in vain

# What stays as it is, strings of JSON included; and a string as OCaml writes it, of which escapes may be its own.
_PLAIN: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+")*+')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(?:([0-9]{3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def _put_right(text: bytes) -> tuple[bytes, dict[str, str], list[tuple[int, int]]]:
    """Return a header's text with OCaml's escapes made JSON's, and the names that were changed with their spelling.

    The last part tells where a change ends, and by how many bytes it made the text longer.
    """
    moves: list[tuple[int, int]] = []
    length = 0
    names: dict[str, str] = {}

    def byte(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes([int(match[1])]) if int(match[1]) < 256 else match[0]
        if match[2] is not None:
            return bytes([int(match[2], 16)])
        known = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
        return known.get(match[3], match[3])

    parts: list[bytes] = []
    at = 0
    while len(parts) < 2 * _REPAIRS:
        plain: Any = _PLAIN.match(text, at)  # there always is one
        odd = _STRING.match(text, plain.end())
        if odd is None:
            break
        inner = odd[0][1:-1]
        name = _ESCAPE.sub(byte, inner).decode("utf-8", "backslashreplace")
        names[name] = inner.decode("utf-8", "backslashreplace")
        parts += [plain[0], spelled(name).encode()]
        length += len(parts[-2]) + len(parts[-1])
        moves.append((length, len(parts[-1]) - len(odd[0])))
        at = odd.end()
    return b"".join([*parts, text[at:]]), names, moves


_OPENING: Final = re.compile(rb'"[ \t\n\r]*+:[ \t\n\r]*+\{')


def _pairs(text: bytes) -> list[tuple[Node, Node]]:
    """Return the pairs of a name and an object, or what else may be an entry, that are whole in a damaged text."""
    found = []
    scanner = Scanner(text, SAFETENSORS_MAX_DEPTH)
    at = failed = vain = 0
    while failed < _FAILURES and vain <= _EFFORT * len(text):
        opening = _OPENING.search(text, at)  # the end of a name, and the start of an object
        if opening is None:
            break
        scanner.at = max(at, _quote_before(text, at, opening.start()))
        try:
            key = scanner.string()
            scanner.take(b":", "a colon")
            found.append((key, scanner.value(1)))
            at = scanner.at
        except JsonError as error:
            vain += error.offset - opening.start()
            failed += 1
            at = opening.start() + 1
    return found


def _quote_before(text: bytes, start: int, end: int) -> int:
    """Return the place of the last quote between two places that no backslash escapes, -1 if there is none."""
    while (end := text.rfind(b'"', start, end)) >= 0:
        escapes = 0
        while text[end - escapes - 1 : end - escapes] == b"\\":
            escapes += 1
        if escapes % 2 == 0:
            break
    return end


# ----------------------------------------------------------------------------------------------------------- the parts


class _Rescue:
    def __init__(self, source: Source, anatomy: Anatomy, names: dict[str, str], intact_only: bool, sure: bool) -> None:
        self.sure = sure
        self.source = source
        self.anatomy = anatomy
        self.names = names
        self.intact_only = intact_only
        self.survivors: list[Survivor] = []
        self.made: dict[str, Tensor] = {}

    def model(self) -> TensorFile:
        """Return what can be read."""
        for row, entry in enumerate(self.anatomy.entries):
            self._tensor(row, entry)
        metadata = self.anatomy.metadata
        if metadata is not None or self.anatomy.metadata_bad:
            state = "lost" if metadata is None else "repaired" if self.anatomy.metadata_bad else "intact"
            reason = "" if state == "intact" else "not all of it is text under different keys"
            self._say("section", SAFETENSORS_METADATA, SAFETENSORS_METADATA, state, reason)
        return TensorFile(tensors=self.made, metadata=metadata)

    def _say(self, what: str, path: str, name: str, state: str, reason: str = "") -> None:
        self.survivors.append(Survivor(what=what, path=path, name=name, state=state, reason=reason))

    def _tensor(self, row: int, entry: Entry) -> None:
        path = f"tensors[{row}]"
        reason, size = self._lost(entry)
        if reason:
            self._say("tensor", path, entry.name, "lost", reason)
            return
        parts: Any = entry
        repairs = [] if self.sure else ["where its payload begins is not certain"]
        name = entry.name
        if name in self.names:
            repairs.append(f"its name was spelled {self.names[name]}")
        attempt = row
        while name in self.made or name == SAFETENSORS_METADATA:
            name, attempt = f"{entry.name}.{attempt}", attempt + 1
        if name != entry.name:
            repairs.append(f"its name was taken, it is called {name} now")
        if parts.end != parts.begin + size:
            repairs.append(f"its range was {parts.begin} to {parts.end}")
        others = entry.bad - {"SAFETENSORS-TEN-DUP", "SAFETENSORS-TEN-BYTES", "SAFETENSORS-DAT-GAP"}
        if others and repairs == []:
            repairs.append(f"it broke {', '.join(sorted(others))}")
        if repairs and self.intact_only:
            self._say("tensor", path, name, "lost", "; ".join(repairs))
            return
        start = self.anatomy.data + parts.begin
        self.made[name] = Tensor(dtype=parts.dtype.safetensors, shape=parts.shape, data=self.source.view(start, size))
        self._say("tensor", path, name, "repaired" if repairs else "intact", "; ".join(repairs))

    def _lost(self, entry: Entry) -> tuple[str, int]:
        """Return why a tensor cannot be rescued, or nothing and the size of its payload."""
        for what, value in (("dtype", entry.dtype), ("shape", entry.shape), ("place", entry.begin)):
            if value is None:
                return f"its {what} cannot be read", 0
        assert entry.dtype is not None
        assert entry.shape is not None
        assert entry.begin is not None
        size = measure(entry.dtype.bits, entry.shape)
        if size is None or size[1] % 8:
            return "its size cannot be told", 0
        if self.anatomy.data + entry.begin + size[1] // 8 > self.source.size:
            return "the file ends before its payload does", 0
        if "SAFETENSORS-DAT-OVERLAP" in entry.bad:
            return "its payload overlaps that of another tensor", 0
        return "", size[1] // 8
