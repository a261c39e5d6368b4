"""What breaks each rule for which readers refuse ``.oam`` files: one way for each, with hypothesis to vary it.

A way takes ``draw`` and a drawn document, of a version for which the rule holds, and returns a file. The file is laid
out by the maker of the cases, one thing in it is spoiled, and the checksums are made right again, so that nothing comes
before the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from ..spec.dtypes import OAM_BY_CODE, OAM_CODES, OAM_DTYPES
from ..spec.layout import field, record_size
from ..spec.schema import (
    OAM_BLOCK_ENCODINGS,
    OAM_ENCODINGS,
    OAM_MAGIC,
    OAM_MAX_RANK,
    OAM_MAX_SECTIONS,
    OAM_OPTIMIZERS,
    OAM_PAGE,
    OAM_QUANT_BLOCK,
    OAM_REQUIRED,
    OAM_SECTIONS,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamHeader,
    OamIndex,
    OamOptimizer,
    OamProgress,
    OamSection,
    OamTensor,
)
from .cases.assemble import Image, assemble
from .strategies_oam import image_of, oam_documents, optimizers, sections_of

__all__ = ["DAMAGES", "documents_for"]

Document = dict[str, Any]
Draw = st.DrawFn
Way = Callable[[Draw, Document], Image]
Damage = Callable[[Draw, Document], bytes]

_U64: Final = 1 << 64
_HEADER: Final = record_size(OamHeader)
_PLANTED: Final = 8  # bytes of a tensor that is there to be spoiled: two f32


def documents_for(versions: tuple[int, ...]) -> st.SearchStrategy[Document]:
    """Documents of one of some versions, the newest first."""
    return st.sampled_from(sorted(versions, reverse=True)).flatmap(lambda version: oam_documents(version=version))


def _number(low: int, high: int) -> st.SearchStrategy[int]:
    """Numbers of a range, its ends more often than by chance."""
    return st.sampled_from([low, high]) | st.integers(low, high)


def _another(draw: Draw, value: int, low: int, high: int) -> int:
    return draw((st.sampled_from([value - 1, value + 1]) | _number(low, high)).filter(lambda n: low <= n != value))


# ------------------------------------------------------------------------------------------------- header and sections


def _set(path: str, values: st.SearchStrategy[Any], *, seal: bool = True) -> Way:
    """Give a field another value."""

    def damage(draw: Draw, document: Document) -> Image:
        made = image_of(document).set(path, draw(values))
        return made.seal() if seal else made

    return damage


def _short(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    del made.data[draw(st.integers(0, _HEADER - 1)) :]
    return made


def _total(draw: Draw, document: Document) -> Image:
    """The end of the file is missing, something follows it, or the total size is wrong."""
    made = image_of(document)
    size = len(made.data)
    match draw(st.sampled_from(["truncated", "appended", "stated"])):
        case "truncated":
            del made.data[draw(st.integers(_HEADER, size - 1)) :]
        case "appended":
            made.data += bytes(draw(st.integers(1, 9)))
        case _:
            made.set("header.total_size", _another(draw, size, 0, _U64 - 1)).seal()
    return made


def _checksum(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    at, size = made.place("header.checksum")
    return made.flip(at + draw(st.integers(0, size - 1)), 1 << draw(st.integers(0, 7)))


def _table(draw: Draw, document: Document) -> Image:
    """The file ends within the section table, and says so."""
    made = image_of(document)
    size = draw(st.integers(_HEADER, _HEADER + len(made.sections) * record_size(OamSection) - 1))
    del made.data[size:]
    return made.set("header.total_size", size)


def _entry(draw: Draw, made: Image) -> int:
    return draw(st.integers(0, len(made.sections) - 1))


def _entry_field(key: str, values: st.SearchStrategy[int]) -> Way:
    """Give a field of an entry of the section table another value."""

    def damage(draw: Draw, document: Document) -> Image:
        made = image_of(document)
        return made.set(f"sections[{_entry(draw, made)}].{key}", draw(values)).seal()

    return damage


def _pair(draw: Draw, made: Image) -> tuple[int, int]:
    """Return two entries of the section table, the first of them first."""
    second = draw(st.integers(1, len(made.sections) - 1))
    return draw(st.integers(0, second - 1)), second


def _section_twice(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    first, second = _pair(draw, made)
    kind = OAM_SECTIONS[str(made.sections[first][0])]
    return made.set(f"sections[{second}].type", kind).seal()


def _section_range(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    at = _entry(draw, made)
    offset = draw(_number(len(made.data) - made.sections[at][2] + 1, 1 << 63))
    return made.set(f"sections[{at}].offset", offset).seal()


def _section_overflow(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    at = _entry(draw, made)
    return made.set(f"sections[{at}].size", draw(_number(_U64 - made.sections[at][1], _U64 - 1))).seal()


def _section_overlap(draw: Draw, document: Document) -> Image:
    made = image_of(document)
    first, second = _pair(draw, made)
    _, offset, size = made.sections[first]
    return made.set(f"sections[{second}].offset", offset + draw(st.integers(0, size - 1))).seal()


def _payload(draw: Draw, document: Document) -> Image:
    """A bit of a payload is wrong."""
    made = image_of(document)
    _, offset, size = made.sections[_entry(draw, made)]
    return made.flip(offset + draw(st.integers(0, size - 1)), 1 << draw(st.integers(0, 7)))


def _section_missing(draw: Draw, document: Document) -> Image:
    sections = sections_of(document)
    del sections[draw(st.sampled_from(OAM_REQUIRED))]
    return assemble(list(sections.items()), version=document["version"])


# -------------------------------------------------------------------------------------------- contents of the sections


def _body(name: str, change: Callable[[Draw, bytes], bytes], prepare: Callable[[Draw, Document], object]) -> Way:
    """Change the payload of a section."""

    def damage(draw: Draw, document: Document) -> Image:
        prepare(draw, document)
        sections = sections_of(document)
        sections[name] = change(draw, sections[name])
        return assemble(list(sections.items()), version=document["version"])

    return damage


def _nothing(_draw: Draw, _document: Document) -> None:
    """What needs no preparation."""


def _cut(size: int) -> Callable[[Draw, bytes], bytes]:
    """Leave less than ``size`` bytes."""
    return lambda draw, body: body[: draw(st.integers(0, size - 1))]


def _without_nul(record: Any, name: str) -> st.SearchStrategy[bytes]:
    size = field(record, name).size
    return st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=size, max_size=size).map(str.encode)


def _not_utf8(record: Any, name: str) -> st.SearchStrategy[bytes]:
    size = field(record, name).size
    bad = st.sampled_from([b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82"])
    return st.tuples(st.sampled_from([b"", b"w"]), bad).map(lambda pair: b"".join(pair).ljust(size, b"\0"))


def _unknown_dtype() -> st.SearchStrategy[int]:
    return _number(max(OAM_BY_CODE) + 1, 255)


def _config_dtype(draw: Draw, document: Document) -> Image:
    key = draw(st.sampled_from([item for item in document["config"] if item.endswith("_dtype")]))
    return image_of(document).set(f"config.{key}", draw(_unknown_dtype())).seal()


def _config_size(draw: Draw, document: Document) -> Image:
    right = len(document["config"]["arch_config"]) // 2
    return image_of(document).set("config.arch_config_size", _another(draw, right, 0, (1 << 32) - 1)).seal()


def _with_optimizer(draw: Draw, document: Document) -> None:
    if document["optimizer"] is None:
        document["optimizer"] = draw(optimizers())


def _optimizer_field(path: str, values: st.SearchStrategy[Any]) -> Way:
    """Give a field of the optimizer another value."""

    def damage(draw: Draw, document: Document) -> Image:
        _with_optimizer(draw, document)
        return image_of(document).set(f"optimizer.{path}", draw(values)).seal()

    return damage


def _unknown_kind() -> st.SearchStrategy[bytes]:
    size = field(OamOptimizer, "kind").size
    near = [kind.lower() for kind in OAM_OPTIMIZERS] + [kind + " " for kind in OAM_OPTIMIZERS]
    kinds = st.sampled_from(near) | st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=size - 1)
    return kinds.filter(lambda kind: kind not in OAM_OPTIMIZERS).map(lambda kind: kind.encode().ljust(size, b"\0"))


def _optimizer_size(draw: Draw, document: Document) -> Image:
    _with_optimizer(draw, document)
    right = len(document["optimizer"]["first_moment"]) // 8
    return image_of(document).set("optimizer.moment_count", _another(draw, right, 0, 1 << 60)).seal()


def _other_length(draw: Draw, body: bytes) -> bytes:
    return draw(st.integers(0, len(body) - 1).map(lambda size: body[:size]) | st.binary(min_size=1).map(body.__add__))


# ------------------------------------------------------------------------------------------------------------- tensors


def _plant(draw: Draw, document: Document, section: str, name: str | None = None, **more: Any) -> int:
    """Put a tensor into a section, where it is to be spoiled; return its row."""
    rows = document[section]
    names = {row["name"] for row in rows}
    made = {
        "name": name or next(word for word in (f"spoiled{at or ''}" for at in range(9)) if word not in names),
        "dtype": "f32",
        "shape": ["2"],
        "encoding": "dense",
        "data": draw(st.binary(min_size=_PLANTED, max_size=_PLANTED)).hex(),
        **more,
    }
    at = draw(st.integers(0, len(rows)))
    rows.insert(at, made)
    return at


def _section(draw: Draw) -> str:
    return draw(st.sampled_from(OAM_TENSOR_SECTIONS))


def _in_section(change: Callable[[Draw, bytes], bytes]) -> Way:
    """Change the payload of a section with tensors."""

    def damage(draw: Draw, document: Document) -> Image:
        section = _section(draw)
        return _body(section, change, lambda draw, document: _plant(draw, document, section))(draw, document)

    return damage


def _index_count(draw: Draw, document: Document) -> Image:
    section = _section(draw)
    _plant(draw, document, section)
    made = image_of(document)
    most = (made.section(section)[1] - record_size(OamIndex)) // record_size(OamTensor)
    return made.set(f"{section}.count", draw(_number(most + 1, (1 << 32) - 1))).seal()


def _index_reserved(draw: Draw, document: Document) -> Image:
    section = _section(draw)
    _plant(draw, document, section)
    return image_of(document).set(f"{section}.reserved", draw(_nonzero(field(OamIndex, "reserved").size))).seal()


def _nonzero(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size).filter(any)


def _tensor(*changes: tuple[str, st.SearchStrategy[Any]]) -> Way:
    """Give fields of a dense tensor of two f32 other values."""

    def damage(draw: Draw, document: Document) -> Image:
        section = _section(draw)
        at = _plant(draw, document, section)
        made = image_of(document)
        for path, values in changes:
            made.set(f"{section}[{at}].{path}", draw(values))
        return made.seal()

    return damage


def _tensor_range(draw: Draw, document: Document) -> Image:
    section = _section(draw)
    at = _plant(draw, document, section)
    made = image_of(document)
    _, size = made.place(f"{section}.blob")
    return made.set(f"{section}[{at}].blob_offset", draw(_number(size - _PLANTED + 1, 1 << 63))).seal()


def _two(draw: Draw, document: Document, **second: Any) -> tuple[str, int, int]:
    """Plant two tensors; return their section and their rows."""
    section = _section(draw)
    first = _plant(draw, document, section)
    again = _plant(draw, document, section, **second)
    return section, first + (again <= first), again


def _name_twice(draw: Draw, document: Document) -> Image:
    section = _section(draw)
    first = _plant(draw, document, section)
    _plant(draw, document, section, document[section][first]["name"])
    return image_of(document)


def _tensor_overlap(draw: Draw, document: Document) -> Image:
    section, first, second = _two(draw, document)
    made = image_of(document)
    at, size = made.place(f"{section}[{first}].blob_offset")
    offset = int.from_bytes(made.data[at : at + size], "little")
    # The same bytes, or the first or last byte of the other, as far as the blob goes.
    low, high = max(0, offset - _PLANTED + 1), min(offset + _PLANTED - 1, made.place(f"{section}.blob")[1] - _PLANTED)
    return made.set(f"{section}[{second}].blob_offset", draw(st.just(offset) | st.integers(low, high))).seal()


def _quantized(section: str = "weights", **changes: st.SearchStrategy[int]) -> Way:
    """Plant a quantized tensor of one block, and give some of its fields other values."""

    def damage(draw: Draw, document: Document) -> Image:
        encoding = draw(st.sampled_from(list(OAM_BLOCK_ENCODINGS)))
        more: Document = {
            "encoding": encoding,
            "shape": [str(OAM_QUANT_BLOCK)],
            "data": bytes(OAM_BLOCK_ENCODINGS[encoding].block_bytes).hex(),
        }
        at = _plant(draw, document, section, **more)
        made = image_of(document)
        for name, values in changes.items():
            made.set(f"{section}[{at}].{name}", draw(values))
        return made.seal()

    return damage


def _quantized_empty(draw: Draw, document: Document) -> Image:
    _plant(draw, document, "weights", encoding=draw(st.sampled_from(list(OAM_BLOCK_ENCODINGS))), shape=["0"], data="")
    return image_of(document)


_WAYS: Final[dict[str, Way]] = {
    "OAM-HDR-SHORT": _short,
    "OAM-HDR-MAGIC": _set("header.magic", st.binary(min_size=4, max_size=4).filter(lambda magic: magic != OAM_MAGIC)),
    "OAM-HDR-VERSION": _set("header.version", _number(0, (1 << 32) - 1).filter(lambda n: n not in OAM_VERSIONS)),
    "OAM-HDR-COUNT": _set("header.section_count", st.just(0) | _number(OAM_MAX_SECTIONS + 1, (1 << 32) - 1)),
    "OAM-HDR-TOTAL": _total,
    "OAM-HDR-CHECKSUM": _checksum,
    "OAM-HDR-XOR": _checksum,
    "OAM-SEC-TABLE": _table,
    "OAM-SEC-TYPE": _entry_field("type", _number(0, (1 << 32) - 1).filter(lambda n: n not in OAM_SECTIONS.values())),
    "OAM-SEC-DUP": _section_twice,
    "OAM-SEC-COMPRESSION": _entry_field("compression", _number(1, 255)),
    "OAM-SEC-COMPSIZE": _entry_field("compressed_size", _number(1, _U64 - 1)),
    "OAM-SEC-OVERFLOW": _section_overflow,
    "OAM-SEC-START": _entry_field("offset", _number(0, OAM_PAGE - 1)),
    "OAM-SEC-RANGE": _section_range,
    "OAM-SEC-CHECKSUM": _payload,
    "OAM-SEC-OVERLAP": _section_overlap,
    "OAM-SEC-MISSING": _section_missing,
    "OAM-CFG-SHORT": _body("config", _cut(record_size(OamConfig)), _nothing),
    "OAM-CFG-NUL": _set("config.architecture", _without_nul(OamConfig, "architecture")),
    "OAM-CFG-UTF8": _set("config.architecture", _not_utf8(OamConfig, "architecture")),
    "OAM-CFG-DTYPE": _config_dtype,
    "OAM-CFG-SIZE": _config_size,
    "OAM-IDX-SHORT": _in_section(_cut(record_size(OamIndex))),
    "OAM-IDX-RESERVED": _index_reserved,
    "OAM-IDX-COUNT": _index_count,
    "OAM-TEN-NUL": _tensor(("name", _without_nul(OamTensor, "name"))),
    "OAM-TEN-UTF8": _tensor(("name", _not_utf8(OamTensor, "name"))),
    "OAM-TEN-EMPTY": _tensor(("name", st.just(bytes(field(OamTensor, "name").size)))),
    "OAM-TEN-DUP": _name_twice,
    "OAM-TEN-DTYPE": _tensor(("dtype", _unknown_dtype())),
    "OAM-TEN-RANK": _tensor(("rank", _number(OAM_MAX_RANK + 1, 255))),
    "OAM-TEN-ENCODING": _tensor(("encoding", _number(max(OAM_ENCODINGS.values()) + 1, 255))),
    "OAM-TEN-RESERVED": _tensor(("reserved", _nonzero(field(OamTensor, "reserved").size))),
    "OAM-TEN-OVERFLOW": _tensor(("blob_offset", _number(_U64 - _PLANTED, _U64 - 1))),
    "OAM-TEN-RANGE": _tensor_range,
    "OAM-TEN-ELEMENTS": _tensor(
        ("rank", st.just(2)), ("shape[0]", _number(1 << 32, _U64 - 1)), ("shape[1]", _number(1 << 32, _U64 - 1))
    ),
    "OAM-TEN-BLOCK": _tensor(("block_size", _number(1, 255))),
    "OAM-TEN-SIZEOF": _tensor(("shape[0]", _number(1 << 62, _U64 - 1))),
    "OAM-TEN-BYTES": _tensor(("shape[0]", _number(0, (1 << 62) - 1).filter(lambda extent: extent != 2))),
    "OAM-TEN-OVERLAP": _tensor_overlap,
    "OAM-QNT-VERSION": _quantized(),
    "OAM-QNT-STATE": _quantized("state"),
    "OAM-QNT-DTYPE": _quantized(dtype=st.sampled_from([OAM_CODES[name] for name in OAM_DTYPES if name != "f32"])),
    "OAM-QNT-BLOCK": _quantized(block_size=_number(0, 255).filter(lambda block: block != OAM_QUANT_BLOCK)),
    "OAM-QNT-EMPTY": _quantized_empty,
    "OAM-OPT-SHORT": _body("optimizer", _cut(record_size(OamOptimizer)), _with_optimizer),
    "OAM-OPT-NUL": _optimizer_field("kind", _without_nul(OamOptimizer, "kind")),
    "OAM-OPT-KIND": _optimizer_field("kind", _unknown_kind()),
    "OAM-OPT-OVERFLOW": _optimizer_field("moment_count", _number(1 << 62, _U64 - 1)),
    "OAM-OPT-SIZE": _optimizer_size,
    "OAM-PRG-SIZE": _body("progress", _other_length, _nothing),
    "OAM-PRG-NUL": _set("progress.metric_name", _without_nul(OamProgress, "metric_name")),
    "OAM-PRG-UTF8": _set("progress.metric_name", _not_utf8(OamProgress, "metric_name")),
}


def _file(way: Way) -> Damage:
    return lambda draw, document: way(draw, document).bytes()


DAMAGES: Final[dict[str, Damage]] = {rule: _file(way) for rule, way in _WAYS.items()}
"""By rule, what breaks it."""
