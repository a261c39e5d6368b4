"""Files that readers accept and writers must not write, and files that draw a note."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....spec.schema import OAM_NEWEST
from ..assemble import Image, T, assemble, config, optimizer, progress, tensors
from ..definition import CaseBook
from .parts import W, base, f32, image, minimal, ramp, valid_case

__all__ = ["define"]


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _ignored_bytes(book)
    _placement(book)
    _blobs(book)
    _notes(book)


def _each(
    book: CaseBook, name: str, title: str, rules: tuple[str, ...], make: Callable[[int], Image], *tags: str
) -> None:
    """Add a case for every version: ``make`` takes the version."""
    for version in (1, 2, 3):
        made = make(version)
        old = () if version == OAM_NEWEST else ("OAM-HDR-OLD",)
        label = f"{name}_v{version}"
        valid_case(book, label, f"{title}, version {version}", made, f"version:{version}", *tags, rules=old + rules)


def _ignored_bytes(book: CaseBook) -> None:
    """Bytes that readers ignore and writers zero."""
    fields: tuple[tuple[str, str, int | bytes, str], ...] = (
        ("header_flags", "header.flags", 0x80000001, "OAM-HDR-FLAGS"),
        ("header_reserved", "header.reserved", bytes(31) + b"\1", "OAM-HDR-RESERVED"),
        ("section_flags", "sections[1].flags", 1, "OAM-SEC-FLAGS"),
        ("section_reserved0", "sections[0].reserved0", b"\0\1\0", "OAM-SEC-RESERVED"),
        ("section_reserved1", "sections[2].reserved1", b"\xff" * 20, "OAM-SEC-RESERVED"),
        ("config_reserved0", "config.reserved0", b"\1", "OAM-CFG-RESERVED"),
        ("config_reserved1", "config.reserved1", bytes(47) + b"\1", "OAM-CFG-RESERVED"),
        ("config_tail", "config.architecture", b"net\0work".ljust(32, b"\0"), "OAM-CFG-TAIL"),
        ("config_tail_last", "config.architecture", b"net".ljust(31, b"\0") + b"x", "OAM-CFG-TAIL"),
        ("config_tail_bytes", "config.architecture", b"net\0\xff\xfe".ljust(32, b"\0"), "OAM-CFG-TAIL"),
        ("tensor_tail", "weights[0].name", b"w\0old name".ljust(128, b"\0"), "OAM-TEN-TAIL"),
        ("tensor_tail_last", "state[0].name", b"s".ljust(127, b"\0") + b"x", "OAM-TEN-TAIL"),
        ("tensor_extents", "weights[0].shape[7]", 5, "OAM-TEN-EXTENTS"),
        ("tensor_extents_huge", "weights[0].shape[2]", (1 << 64) - 1, "OAM-TEN-EXTENTS"),
        ("optimizer_reserved", "optimizer.reserved", b"\1" + bytes(15), "OAM-OPT-RESERVED"),
        ("optimizer_tail", "optimizer.kind", b"AdamW\0v2".ljust(16, b"\0"), "OAM-OPT-TAIL"),
        ("progress_reserved0", "progress.reserved0", b"\0\0\1", "OAM-PRG-RESERVED"),
        ("progress_reserved1", "progress.reserved1", b"\1\0\0", "OAM-PRG-RESERVED"),
        ("progress_reserved2", "progress.reserved2", bytes(31) + b"\1", "OAM-PRG-RESERVED"),
        ("progress_tail", "progress.metric_name", b"loss\0\0x".ljust(32, b"\0"), "OAM-PRG-TAIL"),
        ("progress_bool_2", "progress.lower_is_better", 2, "OAM-PRG-BOOL"),
        ("progress_bool_255", "progress.lower_is_better", 255, "OAM-PRG-BOOL"),
    )
    for name, path, value, rule in fields:
        made = base().set(path, value).seal()
        valid_case(book, f"ignored_{name}", f"{path} is not what a writer writes", made, "ignored", rules=(rule,))
    made = image([T("s", "f32", (), f32(1))]).set("weights[0].shape[0]", 9).seal()
    valid_case(book, "ignored_scalar_extents", "a scalar with extents", made, "ranks", rules=("OAM-TEN-EXTENTS",))
    _each(
        book,
        "ignored_everything",
        "every ignored byte of header and table is set",
        ("OAM-HDR-FLAGS", "OAM-HDR-RESERVED", "OAM-SEC-RESERVED", "OAM-SEC-FLAGS"),
        lambda version: (
            base(version)
            .set("header.flags", 0xFFFFFFFF)
            .set("header.reserved", b"\xff" * 32)
            .set("sections[0].reserved0", b"\xff" * 3)
            .set("sections[0].flags", 0xFFFFFFFF)
            .seal()
        ),
        "ignored",
    )
    made = base(1).set("header.flags", 7)
    rules = ("OAM-HDR-OLD", "OAM-HDR-FLAGS")
    title = "version 1 does not protect its header: flags changed after the checksum"
    valid_case(book, "v1_unprotected_header", title, made, "version:1", "checksum", rules=rules)


def _five(version: int = OAM_NEWEST) -> list[tuple[str | int, bytes]]:
    del version
    return [
        ("config", config(architecture="ckptspec")),
        ("weights", tensors([W])),
        ("state", tensors([T("s", "i32", (2,), ramp(8))])),
        ("optimizer", optimizer(ramp(24))),
        ("progress", progress(step=12)),
    ]


def _placement(book: CaseBook) -> None:
    five, order, bodies, gap = _five(), ("OAM-SEC-ORDER",), ("OAM-SEC-BODIES",), ("OAM-SEC-GAP",)
    _each(book, "table_reversed", "the table is in reverse order", order, lambda v: assemble(five[::-1], version=v))
    _each(
        book,
        "bodies_reversed",
        "the payloads are in reverse order",
        bodies,
        lambda v: assemble(five, bodies=[4, 3, 2, 1, 0], version=v),
    )
    two = [five[0], five[4]]
    made = assemble(two, bodies=[1, 0])
    valid_case(book, "bodies_swapped", "the progress before the config", made, "placement", rules=bodies)
    made = assemble([five[1], five[0], *five[2:]])
    valid_case(book, "table_swapped", "the weights before the config", made, "placement", rules=order)
    _each(book, "odd_start", "the first payload starts late", gap, lambda v: assemble(five, start=13, version=v))
    _each(book, "gaps", "gaps between payloads", gap, lambda v: assemble(five, gaps=[0, 3, 4096, 1, 7], version=v))
    made = assemble(five, gaps=[0, 0, 0, 0, 1])
    valid_case(book, "gap_1", "a gap of one byte between two payloads", made, "placement", rules=gap)
    made = assemble(five, pages=False)
    title = "weights and state are not followed by padding"
    valid_case(book, "no_page_padding", title, made, "placement", "pages", rules=("OAM-SEC-PAGES",))
    made = assemble([five[0], five[4], five[1]])
    made.resize(len(five[1][1]) - -(-len(five[1][1]) // 4096) * 4096).seal()
    title = "the file ends with a weights payload, without its padding"
    valid_case(book, "no_padding_at_end", title, made, "pages", rules=("OAM-SEC-ORDER", "OAM-SEC-PAGES"))
    trailing = ("OAM-FILE-TRAILING",)
    for size in (1, 4096):
        made = assemble(five).resize(size).seal()
        valid_case(book, f"trailing_{size}", f"{size} zero bytes after the end", made, "placement", rules=trailing)
    made = assemble(five).resize(3, b"x").seal()
    rules = (*trailing, "OAM-FILE-PADDING")
    valid_case(book, "trailing_text", "three letters after the end", made, "placement", rules=rules)
    _padding(book, five)
    for size in (0, 40):
        _each(
            book,
            f"legacy_{size}",
            f"a legacy kernel cache of {size} bytes",
            ("OAM-SEC-LEGACY",),
            functools.partial(assemble_version, [*five, ("legacy", ramp(size))]),
        )
    made = assemble([("legacy", ramp(40)), *five])
    valid_case(book, "legacy_first", "a legacy kernel cache, first of all", made, "legacy", rules=("OAM-SEC-LEGACY",))
    made = assemble([five[0], five[4], ("legacy", b"")])
    valid_case(
        book, "legacy_at_end", "an empty section at the end of the file", made, "legacy", rules=("OAM-SEC-LEGACY",)
    )
    empty = ("OAM-IDX-EMPTY",)
    for name in ("weights", "state"):
        made = assemble([five[0], (name, tensors([])), five[4]])
        valid_case(book, f"empty_{name}", f"a {name} section without tensors", made, "empty", rules=empty)
        made = assemble([five[0], (name, tensors([], b"rest")), five[4]])
        title = f"a {name} section without tensors, but with a blob"
        valid_case(book, f"empty_{name}_blob", title, made, "empty", rules=empty)


def assemble_version(sections: list[tuple[str | int, bytes]], version: int) -> Image:
    """Return the sections laid out in a version."""
    return assemble(sections, version=version)


def _padding(book: CaseBook, five: list[tuple[str | int, bytes]]) -> None:
    rules = ("OAM-FILE-PADDING",)
    _each(book, "padding_ff", "all padding is 0xff", rules, lambda v: assemble(five, fill=0xFF, version=v), "padding")
    whole = assemble(five)
    after_table = 64 + 64 * 5
    weights = whole.section("weights")
    places = {
        "first": after_table,
        "before_data": 4095,
        "after_weights": weights[0] + weights[1],
        "last": whole.section("optimizer")[0] - 1,
    }
    for name, offset in places.items():
        title = f"one byte of padding is not zero, at {offset}"
        valid_case(book, f"padding_{name}", title, assemble(five).flip(offset, 0x40), "padding", rules=rules)


def _blobs(book: CaseBook) -> None:
    """Blobs in another order, with gaps."""

    def pair(first: int, second: int, tail: int = 0, middle: int = 0, size: int = 8) -> Image:
        items = [T("a", "u8", (size,), ramp(size)), T("b", "u8", (8,), ramp(8, 100))]
        made = image(tensors(items, bytes(tail + middle)), opt=None)
        return made.set("weights[0].blob_offset", first).set("weights[1].blob_offset", second).seal()

    order, gap = "OAM-TEN-ORDER", "OAM-TEN-GAP"

    def add(name: str, title: str, made: Image, *rules: str) -> None:
        valid_case(book, name, title, made, "blob", rules=rules)

    add("blob_swapped", "payloads in another order than the index", pair(8, 0), gap, order)
    add("blob_gap_between", "a gap between two payloads", pair(0, 12, 4), gap)
    add("blob_gap_1", "a gap of one byte between two payloads", pair(0, 9, 1), gap)
    add("blob_gap_after_1", "a byte after the last payload", pair(0, 8, 1), gap)
    add("blob_gap_before", "a gap before the first payload", pair(4, 12, 4), gap)
    add("blob_gap_after", "a gap after the last payload", pair(0, 8, 4), gap)
    items = [T("a", "u8", (4,), ramp(4)), T("e", "u8", (0,), b""), T("b", "u8", (4,), ramp(4))]
    for name, offset, rules in (
        ("inside", 2, (order, gap)),
        ("at_end", 8, (gap, order)),
        ("at_start", 0, (order, gap)),
    ):
        made = image(items, opt=None).set("weights[1].blob_offset", offset).seal()
        add(f"blob_empty_{name}", f"a tensor without elements at {offset}, where others lie", made, *rules)
    made = image([items[0], items[1]], opt=None).set("weights[1].blob_offset", 0).seal()
    add("blob_empty_last", "a tensor without elements, the last of the index, at the start of the blob", made, order)


def _notes(book: CaseBook) -> None:
    def add(name: str, title: str, made: Image, rule: str) -> None:
        valid_case(book, name, title, made, "note", rules=(rule,), canonical=True)

    made = image([T("w", "f64", (2,), ramp(16))], opt=None)
    add("note_unaligned", "f64 at 4 modulo 8, where every writer puts it", made, "OAM-TEN-ALIGN")
    made = image([T("w", "bool", (4,), b"\0\1\2\xff")], opt=None)
    add("note_bool", "bool elements other than 0 and 1", made, "OAM-TEN-BOOL")
    add("note_bool_2", "a bool that is 2", image([T("w", "bool", (1,), b"\2")], opt=None), "OAM-TEN-BOOL")
    add("note_bool_state", "the same in state", image(state=[T("s", "bool", (1,), b"\x80")]), "OAM-TEN-BOOL")
    for key in ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay"):
        made = image(opt=optimizer(ramp(24), None, **{key: 0x7FC00000}))
        add(f"note_nan_{key}", f"{key} is NaN", made, "OAM-OPT-FINITE")
    made = image(opt=optimizer(ramp(24), learning_rate=0xFF800000))
    add("note_infinite", "the learning rate is minus infinity", made, "OAM-OPT-FINITE")
    add("note_moments", "fewer moments than weights", image(opt=optimizer(ramp(8))), "OAM-OPT-MOMENTS")
    add("note_moments_more", "more moments than weights", image(opt=optimizer(ramp(32))), "OAM-OPT-MOMENTS")
    add("note_no_optimizer", "nothing to resume from", minimal(), "OAM-OPT-ABSENT")
