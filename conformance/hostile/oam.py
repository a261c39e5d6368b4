"""Hostile ``.oam`` files."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ...checksum import fnv1a64
from ...spec.dtypes import OAM_CODES
from ...spec.layout import field, numpy_dtype
from ...spec.schema import OAM_MAX_RANK, OAM_MAX_SECTIONS, OamConfig, OamIndex, OamProgress, OamTensor
from ..cases.assemble import Image, T, assemble, config, optimizer, progress, tensors
from .files import FEW, MANY, ends, one
from .texts import BYTES, texts_for

__all__ = ["FILES"]

_NAME: Final = field(OamTensor, "name").size - 1
_METRIC: Final = field(OamProgress, "metric_name").size - 1
_ARCHITECTURE: Final = field(OamConfig, "architecture").size - 1
_U32: Final = (1 << 32) - 1
_U64: Final = (1 << 64) - 1


def _file(weights: bytes | None = None, *, more: Any = (), head: bytes | None = None, tail: bytes = b"") -> Image:
    sections: list[tuple[str | int, bytes]] = [("config", config() if head is None else head)]
    sections += [] if weights is None else [("weights", weights)]
    return assemble([*sections, *more, ("progress", progress() + tail)], checksum=fnv1a64)


def _index(count: int, blob: bytes = b"", **columns: Any) -> bytes:
    """Return a section of many tensors: one u8 each, but for what ``columns`` say of all or each of them."""
    table = np.zeros(count, numpy_dtype(OamTensor))
    given = {"num_bytes": 1, "dtype": OAM_CODES["u8"], "rank": 1, "blob_offset": np.arange(count)} | columns
    table["shape"][:, 0] = given["num_bytes"]
    names = given.pop("name", [b"t%d" % at for at in range(count)])
    table["name"] = np.array(names, f"S{_NAME + 1}").view(np.uint8).reshape(count, -1)
    for key, value in given.items():
        table[key] = value
    head: bytes = OamIndex.build({"count": count, "reserved": bytes(4)})
    return head + table.tobytes() + blob


def _ranges(shape: str, count: int) -> bytes:
    places = np.array(ends(shape, count))
    data = bytes(int(places[:, 1].max()))
    return _file(_index(count, data, blob_offset=places[:, 0], num_bytes=places[:, 1] - places[:, 0])).bytes()


def _named(count: int, names: list[bytes]) -> bytes:
    return _file(_index(count, bytes(count), name=names)).bytes()


def _shapes(*shapes: tuple[int, ...]) -> bytes:
    return _file(tensors([T(f"t{at}", shape=shape, data=b"") for at, shape in enumerate(shapes)])).bytes()


def _texts() -> list[bytes]:
    return [text.encode() for text in texts_for(_NAME, "\0")]


def _tables(_: int) -> bytes:
    """All tensors' names, and every section, in one file."""
    state = tensors(T(name, "u8") for name in _texts())
    moments = optimizer(bytes(8), kind="AdamW")
    return assemble(
        [
            ("config", config(b"".join(_texts()), architecture="\x1b[2J</script>")),
            ("weights", state),
            ("state", state),
            ("optimizer", moments),
            ("progress", progress(metric_name="\u202e=1+1<img src=x>")),
        ]
    ).bytes()


def _broken_names(_: int) -> bytes:
    return _file(tensors(T(raw, "u8") for _, raw in BYTES)).bytes()


def _same_bytes(count: int) -> bytes:
    """All sections that a file can have, all over the same bytes."""
    body = bytes(count)
    image = assemble([(100 + at, body if at == 0 else b"") for at in range(OAM_MAX_SECTIONS)])
    offset = image.sections[0][1]
    for at in range(1, OAM_MAX_SECTIONS):
        image.set(f"sections[{at}].offset", offset).set(f"sections[{at}].size", count)
    return image.seal(checksum=fnv1a64).bytes()


def _lie(path: str, value: int, *, seal: bool = True) -> bytes:
    image = _file(tensors([T("w")]), more=[("optimizer", optimizer(bytes(8)))]).set(path, value)
    return (image.seal() if seal else image).bytes()


def _unknown(_: int) -> bytes:
    """Text where a reader refuses it: an optimizer's kind, an unknown section, names that are cut off."""
    moments = optimizer(bytes(8), kind="\x1b]0;x\x07<b>")
    return _file(tensors([T(b"\x1b[31m" * 25 + b"\xff", "u8")]), more=[("optimizer", moments), (77, b"x")]).bytes()


_one = partial(one, "oam")
_N: Final[Any] = {"small": FEW, "full": MANY}
_ZERO: Final = ((10**18, 0), (2**63 - 1, 2**31, 0), (2**63 - 1, 2**63 - 1, 0), (2**32,) * 7 + (0,), (0,) * OAM_MAX_RANK)

FILES: Final = (
    _one("texts", "hostile text in every field that holds text", _tables, True),
    _one("names_no_utf8", "names that are no UTF-8", _broken_names),
    _one("unknown_texts", "hostile text where it is refused", _unknown),
    _one("sections_same", "32 sections over the same bytes", _same_bytes, small=100_000, full=30_000_000, memory=3),
    _one("count_largest", "a promise of 2^32 - 1 tensors", lambda _: _lie("weights.count", _U32)),
    _one(
        "sections_largest", "a promise of 2^32 - 1 sections", lambda _: _lie("header.section_count", _U32, seal=False)
    ),
    _one("size_largest", "a promise of 2^64 - 1 bytes", lambda _: _lie("header.total_size", _U64)),
    _one("offset_wraps", "a section whose end wraps", lambda _: _lie("sections[1].offset", _U64)),
    _one("section_largest", "a section of 2^64 - 1 bytes", lambda _: _lie("sections[1].size", _U64)),
    _one("arch_config_largest", "a promise of 2^32 - 1 bytes", lambda _: _lie("config.arch_config_size", _U32)),
    _one("moments_largest", "a promise of 2^64 - 1 moments", lambda _: _lie("optimizer.moment_count", _U64)),
    _one("payload_largest", "a payload of 2^64 - 1 bytes", lambda _: _lie("weights[0].num_bytes", _U64)),
    _one("rank_largest", "a rank of 255", lambda _: _lie("weights[0].rank", 255)),
    _one("zero_of_many", "10^18 elements of no size", lambda _: _shapes((10**18, 0), (0, 10**18)), True),
    _one("zero_of_too_many", "extents whose product passes 2^64 and ends at 0", lambda _: _shapes(*_ZERO)),
    _one("product_wraps", "extents whose product wraps to 0", lambda _: _shapes((2**32,) * OAM_MAX_RANK)),
    _one("many", "many tensors", lambda n: _file(_index(n, bytes(n))).bytes(), True, **_N),
    _one(
        "many_faulty", "a fault in each of many tensors", lambda n: _file(_index(n, bytes(n), dtype=99)).bytes(), **_N
    ),
    _one(
        "many_empty",
        "many tensors at the same place",
        lambda n: _file(_index(n, num_bytes=0, blob_offset=0)).bytes(),
        True,
        **_N,
    ),
    _one("names_same", "many tensors of one name", lambda n: _named(n, [b"w"] * n), **_N),
    _one(
        "names_alike",
        "many long names that differ at the end",
        lambda n: _named(n, [b"w" * 119 + b"%08d" % at for at in range(n)]),
        True,
        **_N,
    ),
    _one("names_empty", "many tensors without a name", lambda n: _named(n, [b""] * n), **_N),
    _one("overlaps_same", "many payloads at the same bytes", lambda n: _ranges("same", n), **_N),
    _one("overlaps_nested", "many payloads, each within the one before", lambda n: _ranges("nested", n), **_N),
    _one("overlaps_stairs", "many payloads, each over many others", lambda n: _ranges("stairs", n), **_N),
    _one("hole", "a file of 1 TB, most of it a hole", lambda _: _file(tensors([T("w")])).bytes(), hole=1 << 40),
)
