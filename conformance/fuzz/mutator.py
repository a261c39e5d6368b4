"""Changes to inputs that know the formats: libFuzzer's own changes seldom get past a checksum or a length.

An input is changed by libFuzzer, or in one of its parts: a field, a payload, a token of a header's text, as the regions
of ``inspect --hex`` name them. Then, most of the time, what guards the whole is made right again: the checksums and the
size of an ``.oam`` file, the length of a header. Now and then an input is made from nothing by the strategies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

from ... import sexp
from ...formats import FORMATS, module_of
from ...regions import Region
from ...source import BufferSource
from ...spec.layout import field, record_size
from ...spec.schema import FRAMES, OAM_MAX_SECTIONS, OAM_SECTIONS, OAM_VERSIONS, OamHeader, OamSection
from ..cases.assemble import Image, assemble
from ..cases.ocannl.assemble import frame as ocannl_frame
from ..cases.safetensors.assemble import frame as safetensors_frame
from .dictionary import integers, numbers, words

__all__ = ["crossover", "fresh", "mutated", "repaired"]

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[()\[\]{},:]|[^\s()\[\]{},:"]+|\s+', re.DOTALL)
_NUMBER: Final = re.compile(rb"-?[0-9]+")
_OPEN: Final = {b"(": b")", b"[": b"]", b"{": b"}"}
_MOST_TIMES: Final = 1000  # that a piece is repeated
_HEADER: Final = record_size(OamHeader)
_ENTRY: Final = record_size(OamSection)
_FRAMED: Final[dict[str, Callable[..., bytes]]] = {"ocannl": ocannl_frame, "safetensors": safetensors_frame}
_PLAIN: Final[dict[str, dict[str, Any]]] = {"ocannl": {}, "safetensors": {"pad": False}}


def mutated(kind: str, data: bytes, most: int, seed: int, mutate: Callable[[bytes, int], bytes]) -> bytes:
    """Return a changed input of at most ``most`` bytes; ``mutate`` is libFuzzer's own way to change bytes."""
    random = Random(seed)  # noqa: S311  # the fuzzer wants the same change for the same seed
    way = random.random()
    if way < 0.02:
        made = fresh(kind, random) or data
    elif way < 0.5:
        made = mutate(data, most)
    elif kind == "oam":
        made = _change_part(kind, data, random)
    elif kind in FRAMES:
        made = (_change_part if way < 0.6 else _change_header)(kind, data, random)
    else:
        made = _change_text(kind, data, random)
    if kind in FORMATS and random.random() < 0.8:
        made = repaired(kind, made)
    return made[:most]


def crossover(kind: str, one: bytes, other: bytes, most: int, seed: int) -> bytes:
    """Return an input that has parts of two: sections of an ``.oam`` file, half of a header, or half of a text."""
    random = Random(seed)  # noqa: S311
    if kind == "oam":
        pool = {**_sections(one), **{key: body for key, body in _sections(other).items() if random.random() < 0.5}}
        if not pool:
            return one
        return assemble(list(pool.items()), version=random.choice(OAM_VERSIONS)).bytes()[:most]
    if kind not in FRAMES:
        return _spliced(one, other, random)[:most]
    (front, data), (back, more) = _parts(kind, one), _parts(kind, other)
    text = _spliced(front, back, random) if random.random() < 0.5 else random.choice((front, back))
    return _FRAMED[kind](text, random.choice((data, more, data + more)), **_PLAIN[kind])[:most]


def _spliced(one: bytes, other: bytes, random: Random) -> bytes:
    """Return the beginning of one text and the end of another, cut between tokens."""
    first, second = _TOKEN.findall(one), _TOKEN.findall(other)
    return b"".join(first[: random.randint(0, len(first))] + second[random.randint(0, len(second)) :])


# -------------------------------------------------------------------------------------------------------------- repairs


def repaired(kind: str, data: bytes) -> bytes:
    """Return an input with its checksums, or the length of its header, made right, as far as it has such."""
    if kind == "oam":
        return _sealed(data)
    text, rest = _parts(kind, data)
    return _FRAMED[kind](text, rest, **_PLAIN[kind]) if rest is not None and text else data


def _sealed(data: bytes) -> bytes:
    if len(data) < _HEADER:
        return data
    at = {name: _number(data, 0, OamHeader, name) for name in ("version", "section_count")}
    count = at["section_count"]
    if not 1 <= count <= OAM_MAX_SECTIONS or _HEADER + count * _ENTRY > len(data):
        return data
    image = Image(bytearray(data), [("", 0, 0)] * count, at["version"])
    return image.set("header.total_size", len(data)).seal().bytes()


def _number(data: bytes, base: int, record: Any, name: str) -> int:
    item = field(record, name)
    return int.from_bytes(data[base + item.offset : base + item.offset + item.size], "little")


def _sections(data: bytes) -> dict[str | int, bytes]:
    """Return the sections of an ``.oam`` file that lie within it, by name or type."""
    names = {number: name for name, number in OAM_SECTIONS.items()}
    made: dict[str | int, bytes] = {}
    for entry in range(min(_number(data, 0, OamHeader, "section_count"), OAM_MAX_SECTIONS)):
        base = _HEADER + entry * _ENTRY
        kind, offset, size = (_number(data, base, OamSection, name) for name in ("type", "offset", "size"))
        if offset + size <= len(data):
            made[names.get(kind, kind)] = data[offset : offset + size]
    return made


def _parts(kind: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the text of a header, which ends where its first expression does, and what follows it."""
    begin = record_size(FRAMES[kind].record)
    end = _end(data[begin:]) if kind == "safetensors" else _end_of_sexp(data[begin:])
    while data[begin + end : begin + end + 1] == b" ":
        end += 1
    return data[begin : begin + end], data[begin + end :]


def _end_of_sexp(text: bytes) -> int:
    try:
        return sexp.parse_prefix(text)[1]
    except sexp.SexpError:
        return _end(text)


def _end(text: bytes) -> int:
    """Return where the bracket that opens a text is closed; where there is none, the text's end."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPEN) - (token[0] in _OPEN.values())
        if not depth and token[0] in _OPEN.values():
            return token.end()
    return len(text)


# -------------------------------------------------------------------------------------------------------------- changes


def _change_part(kind: str, data: bytes, random: Random) -> bytes:
    """Change a region, as ``inspect --hex`` names it: another value, or bytes taken out, doubled or from elsewhere."""
    try:
        regions = [region for region in module_of(kind).regions(BufferSource(data)) if region.size]
    except Exception:  # what should not come out is for the targets to find
        regions = []
    if not regions:
        return _change_text(kind, data, random)
    region, other = random.choice(regions), random.choice(regions)
    before, after = data[: region.offset], data[region.offset + region.size :]
    own = data[region.offset : region.offset + region.size]
    match random.randrange(6):
        case 0 | 1 | 2:
            return before + _value(kind, data, region, other, random) + after
        case 3:
            return before + after
        case 4:
            return before + own + own + after
        case _:
            return before + data[other.offset : other.offset + other.size].ljust(region.size, b"\0") + after


def _value(kind: str, data: bytes, region: Region, other: Region, random: Random) -> bytes:
    """Return another value for a region: a number at the edge, a place or size of this file, some of its bytes."""
    if region.size > 8 or region.kind == "text":
        words_of = words(kind)
        at = random.randrange(region.size)
        return (data[region.offset : region.offset + at] + random.choice(words_of))[: region.size].ljust(region.size)
    near = (other.offset, other.size, other.offset + other.size, len(data), len(data) - region.offset)
    number = random.choice(near) + random.choice((-1, 0, 0, 1)) if random.random() < 0.5 else _edge(kind, random)
    order: Any = "big" if "big" in region.type else "little"
    return (number % (1 << 8 * region.size)).to_bytes(region.size, order)


def _edge(kind: str, random: Random) -> int:
    return random.choice(integers(kind)) if random.random() < 0.5 else random.randrange(10)


def _change_header(kind: str, data: bytes, random: Random) -> bytes:
    text, rest = _parts(kind, data)
    return data[: record_size(FRAMES[kind].record)] + _change_text(kind, text, random) + rest


def _change_text(kind: str, text: bytes, random: Random) -> bytes:
    """Change a token, or a bracketed group of them: take it out, double it, put another in its place."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return random.choice(words(kind))
    begin = random.randrange(len(tokens))
    end = _group(tokens, begin)
    piece = tokens[begin:end]
    match random.randrange(6):
        case 0:
            piece = []
        case 1:
            piece = piece * 2
        case 2 if random.random() < 0.3:
            piece = piece * random.randint(2, _MOST_TIMES)
        case 3:
            first = random.randrange(len(tokens))
            piece = tokens[first : _group(tokens, first)]
        case 4:
            piece = [random.choice(words(kind))]
        case _:
            piece = [_NUMBER.sub(lambda match: _near(kind, match[0], random), token) for token in piece]
    return b"".join(tokens[:begin] + piece + tokens[end:])


def _group(tokens: list[bytes], begin: int) -> int:
    """Return the end of the group that a token opens; of the token, if it opens none."""
    depth = 0
    for at in range(begin, len(tokens)):
        depth += (tokens[at] in _OPEN) - (tokens[at] in _OPEN.values())
        if depth <= 0:
            return at + 1
    return begin + 1


def _near(kind: str, number: bytes, random: Random) -> bytes:
    match random.randrange(4):
        case 0:
            return number
        case 1:
            return random.choice(numbers(kind))
        case _ if len(number) > 20:
            return number[:20]
        case _:
            return b"%d" % (int(number) + random.choice((-8, -4, -1, 1, 4, 8)))


# -------------------------------------------------------------------------------------------------------- from nothing


@cache
def _maker(kind: str) -> Callable[[bytes], bytes | None] | None:
    """Return what makes a sound or a damaged file of random bytes, or None where hypothesis is not installed."""
    try:
        from hypothesis import given, settings

        from ..strategies import damaged_files, files
    except ModuleNotFoundError:
        return None
    found: list[bytes] = []

    @settings(deadline=None, database=None)
    @given(files(kind) | damaged_files(kind, strict=True))
    def keep(made: Any) -> None:
        found.append(made.data)

    generate: Any = keep

    def make(entropy: bytes) -> bytes | None:
        found.clear()
        generate.hypothesis.fuzz_one_input(entropy)
        return found[-1] if found else None

    return make


def fresh(kind: str, random: Random) -> bytes | None:
    """Return a file that the strategies make, or None where there is no strategy for the kind."""
    make = _maker(kind) if kind in FORMATS else None
    return None if make is None else make(random.randbytes(4000))
