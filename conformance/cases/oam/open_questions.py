"""Files on which known implementations differ, or which the upstream texts leave open."""

from __future__ import annotations

from ..assemble import Image, T, assemble, config, progress
from ..definition import CaseBook, Definition
from .parts import f32, image

__all__ = ["define"]

# Byte strings that are no UTF-8, each for another reason.
NOT_UTF8 = {
    "ff": b"w\xff",
    "lone_continuation": b"w\x80",
    "truncated": b"w\xe2\x82",
    "overlong": b"\xc0\xaf",
    "overlong_nul": b"w\xc0\x80x",
    "overlong_3": b"\xe0\x80\xaf",
    "surrogate": b"\xed\xa0\x80",
    "above_10ffff": b"\xf4\x90\x80\x80",
    "latin_1": "café".encode("latin-1"),
}
_TEXT = {"oam-rust": "refuses", "oam-cpp": "accepts, and keeps the bytes"}
_SIZE_ZERO = {
    "oam-rust": "answers by the order of the section table",
    "oam-cpp": "answers by its sort, which may put either of two equal offsets first",
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    for name, raw in NOT_UTF8.items():
        made = image([T(raw, "f32", (1,), f32(1))])
        _add(book, f"text_name_{name}", f"a name that is no UTF-8: {raw!r}", made, "OAM-TEN-UTF8")
    for name in ("ff", "overlong", "surrogate"):
        raw = NOT_UTF8[name]
        made = image(conf=config(architecture=raw))
        _add(book, f"text_architecture_{name}", f"an architecture that is no UTF-8: {raw!r}", made, "OAM-CFG-UTF8")
        made = image(prog=progress(metric_name=raw))
        _add(book, f"text_metric_{name}", f"a metric name that is no UTF-8: {raw!r}", made, "OAM-PRG-UTF8")
    _empty_sections(book)


def _add(book: CaseBook, name: str, title: str, made: Image, rule: str) -> None:
    book.add(
        Definition(
            name=f"open_{name}",
            title=title,
            make=made.bytes,
            verdict="acceptable",
            rules=(rule,),
            versions=(made.version,),
            tags=("names", "open"),
            reason="The Rust reader refuses text that is no UTF-8, the C++ reader does not look. This specification "
            "refuses it: such a name cannot be shown, typed or carried into another format without a loss.",
            behaviour=_TEXT,
        )
    )


def _empty_sections(book: CaseBook) -> None:
    """An empty section at the first byte of another, listed in the table after it and before it."""
    parts: list[tuple[str | int, bytes]] = [("config", config()), ("progress", progress())]
    layouts = {
        "first": assemble([("legacy", b""), *parts]),
        "after": assemble([parts[0], ("legacy", b""), parts[1]], bodies=[1, 0, 2]),
        "between": assemble([parts[0], parts[1], ("legacy", b"")], bodies=[0, 2, 1]),
        "last_body": assemble([("legacy", b""), *parts], bodies=[1, 0, 2]),
    }
    for name, made in layouts.items():
        book.add(
            Definition(
                name=f"open_empty_section_{name}",
                title=f"an empty section at the first byte of another ({name})",
                make=made.bytes,
                verdict="acceptable",
                rules=("OAM-SEC-LEGACY", *(("OAM-SEC-BODIES",) if name == "last_body" else ())),
                versions=(made.version,),
                tags=("legacy", "open"),
                reason="The upstream readers' answers depend on how they sort sections of equal offset. This "
                "specification accepts the file, since no byte is shared.",
                behaviour=_SIZE_ZERO,
            )
        )
