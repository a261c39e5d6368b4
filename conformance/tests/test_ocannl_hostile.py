"""OCANNL headers made to hurt: long, deep, endless, or with a fault in every record.

Each is small enough here for a slow machine; ``make(size)`` makes larger ones. Whatever the size, the rule is found, no
other error than FormatError comes out, and memory stays within a multiple of the file.
"""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from ckptspec import FormatError, examination, ocannl, validate
from ckptspec.source import BufferSource
from ckptspec.spec.rules import REJECT, RULES
from ckptspec.spec.schema import OCANNL_INT_MAX, OCANNL_MAX_DEPTH, OCANNL_MAX_HEADER, OcannlFrame


def file(text: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a file of this header."""
    frame: bytes = OcannlFrame.build({"header_length": len(text) if length is None else length})
    return frame + text + data


def tensor(number: int = 0, start: int = 0, size: int = 1, /, **changes: bytes) -> bytes:
    """Return the record of a tensor of bytes, some of its values changed."""
    values = {
        "id": b"%d" % number,
        "namespace": b"ocannl",
        "label": b"()",
        "prec": b"Byte_prec",
        "dims": b"(%d)" % size,
        "padding": b"none",
        "offset": b"%d" % start,
        "byte_length": b"%d" % size,
    } | changes
    return b"(" + b" ".join(b"(%b %b)" % (key.encode(), value) for key, value in values.items()) + b")"


def header(records: Iterable[bytes], more: bytes = b"", alignment: int = 1) -> bytes:
    """Return the text of a header."""
    return b"((version 1) (alignment %d) (tensors (%b))%b)" % (alignment, b"\n".join(records), more)


def one(data: bytes = b"\0", **changes: bytes) -> bytes:
    """Return a file of one tensor."""
    return file(header([tensor(0, 0, 1, **changes)]), data)


def training(**changes: bytes) -> bytes:
    """Return a training record, some of its values changed."""
    values = {
        "version": b"2",
        "step": b"0",
        "epoch": b"0",
        "position": b"0",
        "host_rng": b"none",
        "extra": b"()",
        "seeds": b"()",
        "state": b"((ocannl 0))",
    } | changes
    return b"(training (" + b" ".join(b"(%b %b)" % (key.encode(), value) for key, value in values.items()) + b"))"


def trained(front: bytes = b"", tensors: int = 1, **changes: bytes) -> bytes:
    """Return a training checkpoint; ``front`` stands first in the record."""
    made = training(**changes).replace(b"(training (", b"(training (" + front, 1)
    return file(header([tensor(at, at) for at in range(tensors)], made), bytes(tensors))


def pairs(count: int, key: Callable[[int], bytes] = lambda at: b"k%d" % at) -> bytes:
    """Return a list of pairs."""
    return b"(" + b"".join(b"(%b v)" % key(at) for at in range(count)) + b")"


def nodes(numbers: Iterable[int]) -> bytes:
    """Return a list of (namespace id) pairs."""
    return b"(" + b"".join(b"(ocannl %d)" % number for number in numbers) + b")"


@dataclass(frozen=True)
class Hostile:
    """A hostile file: its maker, the size that it is made in here, the reject rule that comes first ("" for none).

    ``memory`` is how many bytes may be taken for one of the file, besides a fixed amount.
    """

    name: str
    make: Callable[[int], bytes]
    size: int
    rule: str
    memory: int = 8


SYNTAX = "OCANNL-TXT-SYNTAX"
BYTES = 60_000
LISTED = 1_000  # findings that a report lists here
ITEMS = 1_200
FEWER = 600
MANY = 1_000

CASES = [
    # Lengths that promise what is not there.
    Hostile("claimed_largest", lambda n: file(b"((version 1))", length=OCANNL_MAX_HEADER), 0, "OCANNL-FRM-RANGE"),
    Hostile("claimed_too_large", lambda n: file(b"((version 1))", length=(1 << 31) - 1), 0, "OCANNL-FRM-LENGTH"),
    Hostile("claimed_negative", lambda n: file(b"((version 1))", length=-1), 0, "OCANNL-FRM-LENGTH"),
    # One byte over and over.
    Hostile("spaces", lambda n: file(b" " * n), BYTES, SYNTAX),
    Hostile("newlines_inside", lambda n: file(b"(" + b"\n" * n + b")"), BYTES, "OCANNL-REC-MISSING"),
    Hostile("opened", lambda n: file(b"(" * n), BYTES, "OCANNL-TXT-DEPTH"),
    Hostile("closed", lambda n: file(b")" * n), BYTES, SYNTAX),
    Hostile("nested", lambda n: file(b"(" * n + b")" * n), BYTES // 2, "OCANNL-TXT-DEPTH"),
    Hostile("atom", lambda n: file(b"a" * n), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("string", lambda n: file(b'"' + b"a" * n + b'"'), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("nuls", lambda n: file(bytes(n)), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("nul_atoms", lambda n: file(b"(" + b"\0 " * n + b")"), FEWER, "OCANNL-REC-PAIRS", 60),
    Hostile("quotes", lambda n: file(b'"' * n), BYTES, SYNTAX, 60),
    Hostile("hashes", lambda n: file(b"#" * n), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("bars", lambda n: file(b"|" * n), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("backslashes", lambda n: file(b'"' + b"\\" * n + b'"'), BYTES, "OCANNL-REC-PAIRS"),
    Hostile("returns", lambda n: file(b"(" + b"\r" * n + b")"), BYTES, SYNTAX),
    Hostile("stripped", lambda n: file(b"\v\r" * n), BYTES // 2, SYNTAX),
    # Comments and strings without an end.
    Hostile("quote_unclosed", lambda n: file(b'("' + b"a" * n), BYTES, SYNTAX),
    Hostile("escapes_unclosed", lambda n: file(b'("' + b"\\n" * n), BYTES // 2, SYNTAX),
    Hostile("comment_unclosed", lambda n: file(b"(#|" + b" |" * n), BYTES // 2, SYNTAX),
    Hostile("comments_nested", lambda n: file(b"#|" * n), BYTES // 2, SYNTAX),
    Hostile("comments_closed", lambda n: file(b"#|" * n + b"|#" * n), BYTES // 4, SYNTAX),
    Hostile("comments_only", lambda n: file(b"#||#;\n" * n), BYTES // 6, SYNTAX),
    Hostile("drops", lambda n: file(b"#;" * n), BYTES // 2, SYNTAX),
    Hostile("drops_of_all", lambda n: file(b"#; " * n + b"() " * n), BYTES // 6, SYNTAX),
    Hostile("drops_good", lambda n: file(b"#;(a)" * n + header([])), BYTES // 5, ""),
    # Lists that are no pairs.
    Hostile("empty_lists", lambda n: file(b"()" * n), FEWER, SYNTAX, 60),
    Hostile("empty_lists_inside", lambda n: file(b"(" + b"()" * n + b")"), FEWER, "OCANNL-REC-PAIRS", 60),
    Hostile("unpaired", lambda n: file(b"(" + b"(a)" * n + b")"), FEWER, "OCANNL-REC-PAIRS", 60),
    Hostile("unpaired_records", lambda n: file(header([b"a"] * n)), ITEMS, "OCANNL-REC-PAIRS", 300),
    Hostile("empty_records", lambda n: file(header([b"()"] * n)), FEWER, "OCANNL-REC-MISSING", 400),
    Hostile("versions", lambda n: file(header([], b"(version 1)" * n)), FEWER, "", 60),
    Hostile("keys_unknown", lambda n: file(header([], b"(a b)" * n)), ITEMS, "", 100),
    Hostile("key_long", lambda n: file(header([], b"(" + b"k" * n + b" v)")), BYTES, ""),
    Hostile("value_long", lambda n: file(header([], b"(k " + b"v" * n + b")")), BYTES, ""),
    Hostile("value_wide", lambda n: file(header([], b"(k (" + b"(v)" * n + b"))")), FEWER, "", 60),
    Hostile(
        "value_deep",
        lambda n: file(header([], b"(k " + b"(" * (OCANNL_MAX_DEPTH - 2) + b")" * (OCANNL_MAX_DEPTH - 2) + b")")),
        0,
        "",
        60,
    ),
    Hostile("tensors_again", lambda n: file(header([], b"(tensors (%b))" % (tensor() * n))), MANY, "", 60),
    # Numbers.
    Hostile("integer_long", lambda n: one(id=b"9" * n), BYTES, "OCANNL-REC-INTEGER"),
    Hostile("integer_long_hex", lambda n: one(id=b"-0x" + b"f" * n), BYTES, "OCANNL-REC-INTEGER"),
    Hostile("integer_of_underscores", lambda n: one(id=b"0" + b"_" * n), BYTES, ""),
    Hostile("integer_of_zeros", lambda n: one(id=b"0" * n), BYTES, ""),
    Hostile("integer_no_number", lambda n: one(id=b"9" * n + b"x"), BYTES, "OCANNL-REC-INTEGER"),
    Hostile("float_long", lambda n: one(padding=b"(((0 0)) " + b"9" * n + b")"), BYTES, ""),
    Hostile("float_long_hex", lambda n: one(padding=b"(((0 0)) 0x." + b"f" * n + b"p1)"), BYTES, ""),
    Hostile("float_exponent", lambda n: one(padding=b"(((0 0)) 1e" + b"9" * n + b")"), BYTES, ""),
    Hostile("float_no_number", lambda n: one(padding=b"(((0 0)) " + b"9" * n + b"x)"), BYTES, "OCANNL-REC-VALUE"),
    Hostile("product", lambda n: one(dims=b"(4294967296 4294967296 0)"), 0, "OCANNL-TEN-SIZEOF"),
    Hostile("products", lambda n: one(dims=b"(" + b"2 " * n + b")"), FEWER, "OCANNL-TEN-SIZEOF", 60),
    Hostile("offset_wraps", lambda n: one(offset=b"%d" % OCANNL_INT_MAX), 0, "OCANNL-TEN-OVERFLOW"),
    Hostile("offset_far", lambda n: one(offset=b"%d" % (1 << 61)), 0, "OCANNL-TEN-RANGE"),
    Hostile("id_largest", lambda n: one(id=b"%d" % OCANNL_INT_MAX, prec=b"what"), 0, "OCANNL-TEN-PREC"),
    # Values that are long lists.
    Hostile("rank", lambda n: one(dims=b"(" + b"1 " * n + b")"), FEWER, "", 60),
    Hostile("rank_spelled", lambda n: one(dims=b"(" + b"+1 " * n + b")"), FEWER, "", 400),
    Hostile("rank_negative", lambda n: one(dims=b"(" + b"-1 " * n + b")"), FEWER, "OCANNL-TEN-DIM", 400),
    Hostile(
        "axes",
        lambda n: one(dims=b"(" + b"1 " * n + b")", padding=b"((" + b"(0 0)" * n + b") 0.)"),
        FEWER,
        "",
        100,
    ),
    Hostile("axes_too_many", lambda n: one(padding=b"((" + b"(0 0)" * n + b") 0.)"), FEWER, "OCANNL-PAD-COUNT", 100),
    Hostile("label_of_many", lambda n: one(label=b"(" + b"w " * n + b")"), FEWER, "", 100),
    Hostile("label_of_lists", lambda n: one(label=b"(" + b"()" * n + b")"), FEWER, "OCANNL-REC-VALUE", 600),
    # One record with many faults and much to say about it.
    Hostile("keys_unknown_of_one", lambda n: file(header([tensor()[:-1] + b"(a b)" * n + b")"]), b"\0"), MANY, "", 600),
    Hostile(
        "rank_negative_labelled",
        lambda n: one(dims=b"(" + b"-1 " * n + b")", label=b"(" + b"w " * n + b")"),
        MANY,
        "OCANNL-TEN-DIM",
        600,
    ),
    # A fault in every record, looked up in the order of the text and against it.
    Hostile(
        "duplicates", lambda n: file(header(tensor(0, at) for at in range(n)), bytes(n)), MANY, "OCANNL-TEN-DUP", 20
    ),
    Hostile(
        "overlaps", lambda n: file(header(tensor(at, 0) for at in range(n)), b"\0"), MANY, "OCANNL-TEN-OVERLAP", 20
    ),
    Hostile(
        "overlaps_of_one",
        lambda n: file(header([tensor(n, 0, n), *(tensor(at, at) for at in range(n))]), bytes(n)),
        MANY,
        "OCANNL-TEN-OVERLAP",
        20,
    ),
    Hostile(
        "overlaps_backwards",
        lambda n: file(header(tensor(at, n - at - 1, 2) for at in range(n)), bytes(n + 1)),
        MANY,
        "OCANNL-TEN-OVERLAP",
        20,
    ),
    Hostile("backwards", lambda n: file(header(tensor(at, n - at - 1) for at in range(n)), bytes(n)), MANY, "", 20),
    Hostile(
        "gaps_backwards",
        lambda n: file(header(tensor(at, 2 * (n - at)) for at in range(n)), bytes(2 * n + 1)),
        MANY,
        "",
        20,
    ),
    Hostile(
        "unaligned_backwards",
        lambda n: file(header((tensor(at, 3 * (n - at)) for at in range(n)), alignment=64), bytes(3 * n + 1)),
        MANY,
        "",
        20,
    ),
    Hostile(
        "precisions",
        lambda n: file(header(tensor(at, at, prec=b"what") for at in range(n)), bytes(n)),
        MANY,
        "OCANNL-TEN-PREC",
        20,
    ),
    Hostile(
        "spellings", lambda n: file(header(tensor(at, at, id=b"+%d" % at) for at in range(n)), bytes(n)), MANY, "", 20
    ),
    Hostile(
        "commented",
        lambda n: file(header(b"#;x #||# " + tensor(at, at, prec=b"#;x what") for at in range(n)), bytes(n)),
        MANY,
        "OCANNL-TEN-PREC",
        20,
    ),
    Hostile(
        "duplicates_of_largest",
        lambda n: file(header(tensor(OCANNL_INT_MAX, at) for at in range(n)), bytes(n)),
        MANY,
        "OCANNL-TEN-DUP",
        20,
    ),
    # Training records.
    Hostile("state_absent", lambda n: trained(state=nodes(range(n))), MANY, "OCANNL-TRN-ABSENT", 60),
    Hostile("state_twice", lambda n: trained(state=nodes([0] * n)), MANY, "OCANNL-TRN-DUP", 60),
    Hostile("state_long", lambda n: trained(tensors=n, state=nodes(range(n))), MANY, "", 20),
    Hostile(
        "state_empty_names", lambda n: trained(tensors=n, state=nodes(range(n)).replace(b"ocannl", b'""')), MANY, "", 20
    ),
    Hostile("extra_long", lambda n: trained(extra=pairs(n)), MANY, "", 60),
    Hostile("extra_twice", lambda n: trained(extra=pairs(n, lambda at: b"k")), MANY, "OCANNL-TRN-EXTRA", 100),
    Hostile(
        "extra_behind_unknown",
        lambda n: trained(front=b"(a b)" * n, extra=pairs(n, lambda at: b"k")),
        MANY,
        "OCANNL-TRN-EXTRA",
        100,
    ),
    Hostile("seeds_long", lambda n: trained(seeds=b"(" + b"7 " * n + b")"), FEWER, "", 60),
    Hostile("rng_long", lambda n: trained(host_rng=b"(some " + b"x" * n + b")"), BYTES, ""),
    # What makes salvage look for records in a damaged text.
    Hostile("starts", lambda n: file(b"((id " * n), FEWER, "OCANNL-TXT-DEPTH"),
    Hostile("starts_in_comments", lambda n: file(b"((id #|" * n), BYTES // 70, SYNTAX),
    Hostile("starts_in_a_line", lambda n: file(b"((id ;" * n), BYTES // 60, SYNTAX),
    Hostile("starts_in_strings", lambda n: file(b'((id "' * n), 2 * FEWER, "OCANNL-TXT-DEPTH"),
    Hostile("starts_behind_drops", lambda n: file(b"((id #; " * n), FEWER, "OCANNL-TXT-DEPTH"),
    Hostile("trainings", lambda n: file(b"(training(" * n), FEWER, "OCANNL-TXT-DEPTH"),
    Hostile("starts_far_apart", lambda n: file((b"((" + b" " * 50) * n), FEWER, "OCANNL-TXT-DEPTH"),
    Hostile(
        "one_parenthesis_lost",
        lambda n: file(header(tensor(at, at) for at in range(n)).replace(b"((id 0)", b"(id 0)", 1), bytes(n)),
        MANY,
        SYNTAX,
        20,
    ),
    Hostile(
        "one_parenthesis_added",
        lambda n: file(header([b"(" + tensor(0, 0), *(tensor(at, at) for at in range(1, n))]), bytes(n)),
        MANY,
        "OCANNL-REC-PAIRS",
        20,
    ),
    Hostile("good", lambda n: file(header(tensor(at, at) for at in range(n)), bytes(n)), MANY, "", 20),
]

FIXED = 3_000_000  # bytes; a finding takes about 500


def salvage(data: bytes) -> None:
    """Salvage, and check what comes of it."""
    with contextlib.suppress(FormatError):
        checkpoint, _, _ = ocannl.salvage(BufferSource(data))
        again = ocannl.to_bytes(checkpoint)
        assert validate(again, format="ocannl").canonical


VERBS: dict[str, Callable[[bytes], Any]] = {
    "decode": lambda data: ocannl.decode(BufferSource(data)),
    "validate": lambda data: validate(data, format="ocannl"),
    "salvage": salvage,
    "inspect": lambda data: ocannl.inspect(BufferSource(data)),
    "regions": lambda data: sum(region.size for region in ocannl.regions(BufferSource(data))),
}


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Import what is imported late, so that it does not count."""
    for data in (one(), one(id=b"x"), file(b"((id")):
        for verb in VERBS.values():
            with contextlib.suppress(FormatError):
                verb(data)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_header(case: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MAX_FINDINGS", LISTED)
    data = case.make(case.size)
    report = validate(data, format="ocannl")
    if case.rule:
        assert RULES[case.rule].kind == REJECT
        assert report.first is not None
        assert report.first.rule == case.rule
        assert len(str(report.first)) < 1000
        with pytest.raises(FormatError) as caught:
            ocannl.decode(BufferSource(data))
        assert caught.value.finding == report.first
    else:
        assert report.ok, report.first
        document = ocannl.decode(BufferSource(data))
        assert ocannl.decode(BufferSource(ocannl.encode(document))) == document
    assert all(len(str(finding)) < 1000 for finding in report)
    salvage(data)
    ocannl.inspect(BufferSource(data))
    assert VERBS["regions"](data) >= len(data) or not report.ok


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_header_takes_little_memory(case: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MAX_FINDINGS", LISTED)
    data = case.make(case.size // 3)  # tracing is slow
    gc.collect()
    for name in ("validate", "decode"):
        tracemalloc.start()
        try:
            with contextlib.suppress(FormatError):
                VERBS[name](data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < case.memory * len(data) + FIXED, f"{name}: {peak / len(data):.0f} bytes for each of the file"
