"""S-expressions: one table of texts drives reader and writer; both ways of reading agree, whatever the bytes."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import re
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckptspec import _sexp_reading as reading
from ckptspec.sexp import (
    INT_MAX,
    INT_MIN,
    Node,
    Record,
    Sexp,
    SexpError,
    dump,
    format_float,
    format_int,
    needs_quotes,
    outline,
    parse,
    parse_float,
    parse_int,
    parse_nodes,
    parse_prefix,
    parse_records,
    quote,
)

CASES = Path(os.environ.get("CKPTSPEC_CASES", Path(__file__).resolve().parents[3] / "shared" / "cases")) / "sexp.json"

# text -> value, in the order of formats/ocannl.md, section 3; sexplib gives the same for each.
READ: list[tuple[bytes, Sexp]] = [
    (b"a", b"a"),
    (b" (a (b c) ()) \t\n\f", (b"a", (b"b", b"c"), ())),
    (b'(a"b"c(d)"")', (b"a", b"b", b"c", (b"d",), b"")),
    (b'"\\n\\t\\r\\b\\"\\\\\\\'"', b"\n\t\r\b\"\\'"),
    (b'"\\000\\065\\255\\xfF"', b"\0A\xff\xff"),
    (b'"\\q\\ \\(\\\xff"', b"\\q\\ \\(\\\xff"),
    (b'"a\\\n \t b\\\r\n \tc\\\n"', b"abc"),
    (b'"\\\n\\\n x"', b"x"),
    (b'"\\\r"', b"\r"),
    (b'"\\\ra"', b"\ra"),
    (b'"\\\r\\\r\n a\\\r\\\r"', b"\ra\r\r"),
    (b'"\\n\\n\\n\n\\065\\065\\q\\q\\x41\\x41"', b"\n\n\n\nAA\\q\\qAA"),
    (b'"' + b"\\" * 130 + b'\\""', b"\\" * 65 + b'"'),
    (b'"\\\\\\"\\\\"', b'\\"\\'),
    (b'"a\nb\rc\r\nd\0\xff; #| ( "', b"a\nb\rc\r\nd\0\xff; #| ( "),
    (b'(a\\b a\\ "c")', (b"a\\b", b"a\\", b"c")),
    (b"\\'", b"\\'"),
    (b"\x0b\0\x80\x1a", b"\x0b\0\x80\x1a"),
    (b"(a\r\nb)\r\n", (b"a", b"b")),
    (b"; x\n;(\r\na;b", b"a"),
    (b'#| #| |# "|#" \'"\\"" #|#|||#|# |# a', b"a"),
    (b"(#|x|#a #|x|#)", (b"a",)),
    (b"(#;a b #;(c #;d e) f #; #|x|# g)", (b"b", b"f")),
    (b"(#; #; a b c)", (b"c",)),
    (b'#;"x" a #;(b)', b"a"),
    (b"a #;b ", b"a"),
    (b"(# ## #a a# | || |a a| a#b # |)", (b"#", b"##", b"#a", b"a#", b"|", b"||", b"|a", b"a|", b"a#b", b"#", b"|")),
    (b'(#"b" |"c" a|;|#\n d##;x\n)', (b"#", b"b", b"|", b"c", b"a|", b"d##")),
    (b"[a]{}`',", b"[a]{}`',"),
]

# text -> offset and message
FAULTS: list[tuple[bytes, int, str]] = [
    (b"", 0, "no expression"),
    (b" ; a", 4, "no expression"),
    (b" #;()", 5, "no expression"),
    (b" #;a", 4, "no expression"),
    (b'(a "b', 3, "a string that is not closed"),
    (b'(a "b\\', 3, "a string that is not closed"),
    (b'(a "b\\"', 3, "a string that is not closed"),
    (b'#| "|#', 3, "a string that is not closed"),
    (b"a #|", 2, "a comment that is not closed"),
    (b"#| #| x", 3, "a comment that is not closed"),
    (b"#|#", 0, "a comment that is not closed"),
    (b"(a (b", 3, "a list that is not closed"),
    (b"(a (b)", 0, "a list that is not closed"),
    (b"(a#;)", 0, "a list that is not closed"),
    (b")", 0, ") without a list to close"),
    (b")a(", 0, ") without a list to close"),
    (b"(a))", 3, ") without a list to close"),
    (b"#;)", 2, ") without a list to close"),
    (b" a b", 3, "a second expression"),
    (b'a"b"', 1, "a second expression"),
    (b'a "\\q"', 2, "a second expression"),
    (b'(a) "', 4, "a second expression"),
    (b"() ()", 3, "a second expression"),
    (b"(a)\v", 3, "a second expression"),
    (b"(a)\xff", 3, "a second expression"),
    (b"(a #;)", 3, "#; without an expression to drop"),
    (b"(#; #; a)", 1, "#; without an expression to drop"),
    (b"a #;", 2, "#; without an expression to drop"),
    (b"a #; b", 5, "a dropped atom that nothing ends"),
    (b"(ab#|c)", 3, "#| in a bare atom"),
    (b"(a|#)", 2, "|# in a bare atom"),
    (b"##|", 1, "#| in a bare atom"),
    (b"|#", 0, "|# in a bare atom"),
    (b'"a\\06"', 2, "a backslash with too few digits"),
    (b'"a\\06', 2, "a backslash with too few digits"),
    (b'"\\x4"', 1, "a backslash with too few digits"),
    (b'"\\x"', 1, "a backslash with too few digits"),
    (b'"\\xg0"', 1, "a backslash with too few digits"),
    (b'("b" "\\"\\256")', 8, "a decimal escape above 255"),
    (b'#|"\\256"|# a', 3, "a decimal escape above 255"),
    (b"a\r", 1, "a carriage return without a line feed"),
    (b"(a \rb)", 3, "a carriage return without a line feed"),
    (b";a\rb", 2, "a carriage return without a line feed"),
]

# atom -> how sexplib writes it
WRITTEN = [
    (b"", b'""'),
    (b"a", b"a"),
    (b"#", b"#"),
    (b"a#b|c',[]-", b"a#b|c',[]-"),
    (b"a b", b'"a b"'),
    (b"(", b'"("'),
    (b")", b'")"'),
    (b";", b'";"'),
    (b"a#|", b'"a#|"'),
    (b"|#", b'"|#"'),
    (b'"\\\n\t\r\b', b'"\\"\\\\\\n\\t\\r\\b"'),
    ("é".encode(), b'"\\195\\169"'),
    (b"\0\x0b\x1f\x7f\xff", b'"\\000\\011\\031\\127\\255"'),
    (b"~", b"~"),
]

ATOMS = st.one_of(st.sampled_from([atom for atom, _ in WRITTEN]), st.binary(max_size=6))
TREES: st.SearchStrategy[Sexp] = st.recursive(ATOMS, lambda tree: st.lists(tree, max_size=5).map(tuple), max_leaves=30)
PIECES = [b"%c" % byte for byte in b"()\"\\#|;\n\r \t\f\v\0\xffabx4012'nq"]
PIECES += [
    b"#|",
    b"|#",
    b"#;",
    b"\r\n",
    b'\\"',
    b"\\\\",
    b"\\065",
    b"\\x41",
    b"\\\n ",
    b'"a"',
    b"(a)",
    b"#|a|#",
    b";a\n",
    b"\\\r",
    b"(a (b (c)))",
    b"((tensors (",
    b"(tensors (a (b)",
    b"\\" * 64,
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)
BITS = st.integers(0, (1 << 64) - 1)

MEGABYTE = 1_000_000
STREAMED = frozenset([b"tensors"])


def _values(node: Node) -> Sexp:
    """The expression without the places; the trees of most tests are not deep."""
    return node.value if isinstance(node.value, bytes) else tuple(map(_values, node.value))


def _outcome(read: Callable[[Any], Any], text: bytes | bytearray | memoryview) -> Any:
    try:
        return read(text)
    except SexpError as error:
        return error.message, error.offset


def _nodes(text: bytes) -> Sexp:
    return _values(parse_nodes(text))


def _put_together(records: Iterable[Record]) -> Sexp:
    """What ``parse`` would have returned."""
    items: list[Sexp] = []
    parts: list[Sexp] = []
    for level, key, value in records:
        if level == 0:
            assert (items, parts, key) == ([], [], None)
            assert isinstance(value, bytes)
            return value
        if level == 3:
            assert key in STREAMED
            parts.append(value)
        else:
            assert (level, key) == (1, None)
            if parts or (isinstance(value, tuple) and value[:2] == (b"tensors", ())):
                assert isinstance(value, tuple)
                assert value[:2] == (b"tensors", ())
                value = (value[0], tuple(parts), *value[2:])
                parts = []
            items.append(value)
    assert not parts
    return tuple(items)


def _cut_off(node: Node, depth: int) -> Node:
    """What ``outline`` should return."""
    if isinstance(node.value, bytes):
        return node
    return node._replace(value=tuple(_cut_off(item, depth - 1) for item in node.value) if depth else ())


def _header(entry: bytes, count: int) -> bytes:
    return b"((version 1)\n (tensors (" + entry * count + b")))  "


def _nested(depth: int) -> Sexp:
    value: Sexp = b"a"
    for _ in range(depth):
        value = (value,)
    return value


def _start(value: bytes | int) -> str:
    """A test's name cannot hold a megabyte."""
    return repr(value[:24] if isinstance(value, bytes) else value)


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack(">d", number))


def _number(bits: int) -> float:
    number: float = struct.unpack(">d", bits.to_bytes(8))[0]
    return number


class TestReading:
    @pytest.mark.parametrize(("text", "value"), READ)
    def test_value(self, text: bytes, value: Sexp) -> None:
        assert parse(text) == value
        assert _values(parse_nodes(text)) == value
        assert parse(dump(value)) == value

    @pytest.mark.parametrize(("text", "value"), READ)
    def test_surroundings(self, text: bytes, value: Sexp) -> None:
        assert parse(b" #|x|# ;y\n#;(z)" + text + b"\n#|x|# #;() ;") == value
        with pytest.raises(SexpError) as caught:
            parse(text + b"\n)")
        assert caught.value.offset == len(text) + 1

    @pytest.mark.parametrize(("text", "offset", "message"), FAULTS)
    def test_fault(self, text: bytes, offset: int, message: str) -> None:
        for read in (parse, parse_nodes):
            with pytest.raises(SexpError) as caught:
                read(text)
            assert (caught.value.offset, caught.value.message) == (offset, message)
            assert str(caught.value) == f"{message} (byte {offset})"

    @pytest.mark.parametrize(
        "case", json.loads(CASES.read_text()) if CASES.exists() else [], ids=lambda c: c["input_hex"]
    )
    def test_handed(self, case: dict[str, Any]) -> None:
        def value(tree: Any) -> Sexp:
            return tuple(map(value, tree)) if isinstance(tree, list) else bytes.fromhex(tree["atom"])

        text = bytes.fromhex(case["input_hex"])
        if "error" in case:
            with pytest.raises(SexpError):
                parse(text)
        else:
            assert parse(text) == value(case["sexp"])

    @given(TEXTS)
    @example(b'a\\"b"')
    @example(b'"\\0\\\\12"')
    def test_both_ways_agree(self, text: bytes) -> None:
        for whole in (text, b'"' + text + b'"', b"(" + text + b")"):
            assert _outcome(parse, whole) == _outcome(_nodes, whole)

    @given(st.binary(max_size=40))
    def test_any_bytes(self, data: bytes) -> None:
        assert _outcome(parse, data) == _outcome(parse, bytearray(data)) == _outcome(parse, memoryview(data))

    def test_error_survives_pickling(self) -> None:
        error = pickle.loads(pickle.dumps(SexpError("no expression", 3)))
        assert (error.message, error.offset, str(error)) == ("no expression", 3, "no expression (byte 3)")


class TestPieces:
    """However short the pieces are: every way of reading agrees with the scanner that never takes one."""

    @pytest.fixture(params=[1, 2, 3, 5, 9, 17])
    def piece(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "_PIECE", request.param)
        monkeypatch.setattr(reading, "_SMALL_PIECE", 1 + request.param // 3)
        monkeypatch.setattr(reading, "_FLAT_SIZE", 4 * request.param)
        monkeypatch.setattr(reading, "_WORTHWHILE", request.param % 3)

    @pytest.mark.usefixtures("piece")
    def test_tables(self) -> None:
        for text, value in READ:
            for whole, expected in ((text, value), (b"((tensors (" + text + b"\n)))", ((b"tensors", (value,)),))):
                assert parse(whole) == expected
                assert _put_together(parse_records(whole, streamed=STREAMED)) == expected
        for text, offset, message in FAULTS:
            for read in (parse, lambda text: list(parse_records(text, streamed=STREAMED)), lambda t: outline(t, 0)):
                assert _outcome(read, text) == (message, offset)

    @pytest.mark.usefixtures("piece")
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
    @given(TEXTS, st.integers(0, 4), st.sampled_from([None, 0, 1, 2, 3, 5]))
    def test_all_agree(self, text: bytes, depth: int, limit: int | None) -> None:
        for whole in (text, b'"' + text + b'"', b"(" + text + b")", b"((tensors (" + text + b")))"):
            scanned = _outcome(lambda text: _values(parse_nodes(text, max_depth=limit)), whole)
            assert _outcome(lambda text: parse(text, max_depth=limit), whole) == scanned
            records = _outcome(lambda t: _put_together(parse_records(t, max_depth=limit, streamed=STREAMED)), whole)
            assert records == scanned
            expected = _outcome(lambda text: _cut_off(parse_nodes(text, max_depth=limit), depth), whole)
            assert _outcome(lambda text: outline(text, depth, max_depth=limit), whole) == expected


class TestRecords:
    def test_pairs_and_entries(self) -> None:
        text = b'((version 1) (tensors ((a b) c ())) x (tensors d) ("tensors" (e) f) (other (g)) ((tensors) (h)) ())'
        assert list(parse_records(text, streamed=STREAMED)) == [
            (1, None, (b"version", b"1")),
            (3, b"tensors", (b"a", b"b")),
            (3, b"tensors", b"c"),
            (3, b"tensors", ()),
            (1, None, (b"tensors", ())),
            (1, None, b"x"),
            (1, None, (b"tensors", b"d")),
            (3, b"tensors", b"e"),
            (1, None, (b"tensors", (), b"f")),
            (1, None, (b"other", (b"g",))),
            (1, None, ((b"tensors",), (b"h",))),
            (1, None, ()),
        ]
        assert [level for level, _, _ in parse_records(text)] == [1] * 8

    @pytest.mark.parametrize(
        ("text", "records"), [(b"()", []), (b"a", [(0, None, b"a")]), (b'"" ; x', [(0, None, b"")])]
    )
    def test_no_pairs(self, text: bytes, records: list[Record]) -> None:
        assert list(parse_records(text, streamed=STREAMED)) == records

    @pytest.mark.parametrize("text", [b"(a) b", b"(a", b"(a))", b'("\\256")', b"", b"(a) #;"])
    def test_fault(self, text: bytes) -> None:
        with pytest.raises(SexpError) as caught:
            list(parse_records(text))
        assert (caught.value.message, caught.value.offset) == _outcome(parse, text)

    def test_fault_after_records(self) -> None:
        text = _header(b"((id 3) (dims (2 3)))\n", 20_000)
        records = parse_records(text + b")", streamed=STREAMED)
        assert next(records) == (1, None, (b"version", b"1"))
        assert next(records) == (3, b"tensors", ((b"id", b"3"), (b"dims", (b"2", b"3"))))
        with pytest.raises(SexpError) as caught:
            list(records)
        assert caught.value.offset == len(text)

    def test_stopping_early(self) -> None:
        """What was not asked for is not read, hence the fault is not met."""
        records = parse_records(_header(b"() ", MEGABYTE) + b")", streamed=STREAMED)
        began = time.process_time()
        assert next(record for record in records if record[0] == 3) == (3, b"tensors", ())
        assert time.process_time() - began < 0.5

    def test_forgotten(self) -> None:
        text = _header(b'((id 3) (dims (2 3)) (x "y")) ; comment\n', 50_000)
        tracemalloc.start()
        try:
            assert sum(1 for _ in parse_records(text, streamed=STREAMED)) == 50_002
            assert tracemalloc.get_traced_memory()[1] < len(text)
        finally:
            tracemalloc.stop()

    def test_max_depth(self) -> None:
        with pytest.raises(SexpError, match="lists nested deeper than 2") as caught:
            list(parse_records(b"(a (b (c)))", max_depth=2))
        assert caught.value.offset == 6


class TestOutline:
    TEXT = b'((version 1) (tensors (((id 3) (label ("a\\"b" (c)))) ((id 4)) x)))'

    def test_depths(self) -> None:
        for depth in range(8):
            assert outline(self.TEXT, depth) == _cut_off(parse_nodes(self.TEXT), depth)
        assert outline(self.TEXT, 0) == Node(0, len(self.TEXT), ())
        assert outline(b" ab", 0) == Node(1, 3, b"ab")

    def test_finding_an_entry(self) -> None:
        entry = outline(self.TEXT, 3).at(1, 1, 1)
        assert self.TEXT[entry.start : entry.end] == b"((id 4))"

    def test_what_is_left_out_is_checked(self) -> None:
        for text, offset, message in FAULTS:
            for before, behind in ((b"", b""), (b" ((", b"\n ))"), (b"((((", b"))))")):
                whole = before + text + behind
                expected = _outcome(lambda text: _cut_off(parse_nodes(text), 0), whole)
                assert _outcome(lambda text: outline(text, 0), whole) == expected
            assert _outcome(lambda text: outline(text, 0), text) == (message, offset)

    def test_small(self) -> None:
        text = _header(b"((id 3) (dims (2 3)) (x y))\n", 50_000)
        tracemalloc.start()
        try:
            assert outline(text, 2).at(1, 1).value == ()
            assert tracemalloc.get_traced_memory()[1] < len(text) // 4
        finally:
            tracemalloc.stop()


class TestPrefix:
    @pytest.mark.parametrize(("text", "value"), READ)
    def test_value(self, text: bytes, value: Sexp) -> None:
        end = parse_nodes(text).end
        assert parse_prefix(text) == (value, end)
        for behind in (b"", b")", b" (", b'"', b" \r", b" #|", b"()"):
            assert parse_prefix(text[:end] + behind) == (value, end)
            assert parse_prefix(b'("\r' + text[:end] + behind, 3) == (value, end + 3)

    @pytest.mark.parametrize(
        ("text", "offset", "message"), [fault for fault in FAULTS if fault[2] != "a dropped atom that nothing ends"]
    )
    def test_fault(self, text: bytes, offset: int, message: str) -> None:
        """A fault matters unless there is a whole expression before it."""
        before = b"" if message.endswith("in a bare atom") else text[:offset]
        try:
            expected: Any = parse(before)
        except SexpError:
            expected = message, offset
        assert _outcome(lambda text: parse_prefix(text)[0], text) == expected

    def test_none_complete(self) -> None:
        text = b"(a (b) c"
        assert parse_prefix(text, 3) == ((b"b",), 6)
        for start, message in (
            (0, "a list that is not closed"),
            (5, ") without a list to close"),
            (8, "no expression"),
        ):
            with pytest.raises(SexpError, match=re.escape(message)):
                parse_prefix(text, start)
        with pytest.raises(SexpError, match="lists nested deeper than 1"):
            parse_prefix(text, max_depth=1)

    def test_what_follows_is_not_looked_at(self) -> None:
        text = b"(a)" + b'"' * (20 * MEGABYTE)
        began = time.process_time()
        for _ in range(100):
            assert parse_prefix(text) == ((b"a",), 3)
        assert time.process_time() - began < 1


class TestPlaces:
    TEXT = b' ; x\n( ab #;z "c\\n" (d) "" )\n'

    def test_at(self) -> None:
        root = parse_nodes(self.TEXT)
        places = [self.TEXT[node.start : node.end] for node in (root, *map(root.at, range(4)), root.at(2, 0))]
        assert places == [self.TEXT[5:-1], b"ab", b'"c\\n"', b"(d)", b'""', b"d"]
        assert root.at() is root

    def test_no_such_place(self) -> None:
        root = parse_nodes(self.TEXT)
        with pytest.raises(IndexError):
            root.at(4)
        with pytest.raises(IndexError, match="no item 1 in an atom"):
            root.at(0, 1)

    @given(TREES)
    def test_each_place_holds_its_value(self, value: Sexp) -> None:
        text = dump(value)
        pending = [parse_nodes(text)]
        assert _values(pending[0]) == value
        while pending:
            node = pending.pop()
            assert parse(text[node.start : node.end]) == _values(node)
            pending.extend(node.value if isinstance(node.value, tuple) else ())


class TestWriting:
    @pytest.mark.parametrize(("atom", "text"), WRITTEN)
    def test_atom(self, atom: bytes, text: bytes) -> None:
        assert dump(atom) == text
        assert needs_quotes(atom) == text.startswith(b'"')
        assert parse(text) == parse(quote(atom)) == atom

    def test_every_byte(self) -> None:
        for byte in range(256):
            atom = b"%c" % byte
            assert needs_quotes(atom) == (byte <= 0x20 or byte >= 0x7F or atom in b'"();\\')
            assert parse(dump(atom)) == parse(quote(atom)) == atom
            assert all(0x20 <= written < 0x7F for written in dump(atom))

    def test_layout(self) -> None:
        assert dump(((b"a", (), b"("), b"", (b"b",))) == b'((a () "(") "" (b))'

    @given(TREES, st.integers(0, 3000))
    def test_round_trip(self, value: Sexp, depth: int) -> None:
        assert parse(dump(value)) == value
        text = dump((_nested(depth), value))
        assert dump(parse(text)) == text

    @pytest.mark.parametrize("value", ["a", None, 1, (b"a", ["b"]), (b"a", [b"b"])])
    def test_other_types(self, value: Any) -> None:
        with pytest.raises(TypeError, match="an S-expression holds bytes and tuples, not "):
            dump(value)


class TestDepthAndSize:
    def test_max_depth(self) -> None:
        text = b"(a (b (c)))"
        for read in (parse, parse_nodes):
            read(text, max_depth=3)
            with pytest.raises(SexpError, match="lists nested deeper than 2") as caught:
                read(text, max_depth=2)
            assert caught.value.offset == 6
            with pytest.raises(SexpError, match="lists nested deeper than 0"):
                read(b"#;() a", max_depth=0)
            read(b"a", max_depth=0)

    @pytest.mark.parametrize("depth", [100_000, 1_000_000])
    def test_deep(self, depth: int) -> None:
        with pytest.raises(SexpError) as caught:
            parse(b"(" * depth)
        assert caught.value.offset == depth - 1
        text = b"(" * depth + b"a" + b")" * depth
        assert dump(parse(text)) == text

    def test_deep_comments_and_places(self) -> None:
        depth = 100_000
        text = b"(" * depth + b"a" + b")" * depth
        assert parse_nodes(text).at(*[0] * depth) == Node(depth, depth + 1, b"a")
        assert parse(b"#;" + text + b"b") == b"b"
        assert parse(b"#|" * depth + b"|#" * depth + b"a") == b"a"
        assert parse(b"#;" * depth + b"a " * depth + b"b") == b"b"

    @pytest.mark.parametrize(
        "text",
        [
            b"(" * MEGABYTE,
            b")" * MEGABYTE,
            b"()" * (MEGABYTE // 2),
            b'"' * MEGABYTE,
            b'"' * (MEGABYTE + 1),
            b'"' + b'\\"' * (MEGABYTE // 2),
            b'"\\' * (MEGABYTE // 2),
            b'"' + b"\\" * MEGABYTE + b'"',
            b'"' + b"\\\n " * (MEGABYTE // 3) + b'"',
            b"#|" * (MEGABYTE // 2),
            b"#|" + b'"' * MEGABYTE,
            b"#;" * (MEGABYTE // 2),
            b"#;a " * (MEGABYTE // 4),
            b";\n" * (MEGABYTE // 2),
            b"\r\n" * (MEGABYTE // 2),
            b"a" * MEGABYTE,
            b"|" * MEGABYTE + b"#",
            b"#" * MEGABYTE + b"|",
            b" " * MEGABYTE,
            b"\0" * MEGABYTE,
            b'"' + b"a" * MEGABYTE,
            b"#|" + b"a" * MEGABYTE,
            b";" + b"a" * MEGABYTE,
            b'((("' + b"a" * MEGABYTE,
            b"((a b)" * (MEGABYTE // 6),
            b"((x " + b"(" * MEGABYTE,
            b'"' + b"\\q\\n" * (MEGABYTE // 4) + b'"',
            b'"' + b"\\256" * (MEGABYTE // 4) + b'"',
            b"(" + b"\v " * (MEGABYTE // 2) + b")",
            b"(" + b"a;\n" * (MEGABYTE // 3) + b")",
            b"(" + b"| " * (MEGABYTE // 2) + b")",
            b"(" + b"#;a b " * (MEGABYTE // 6) + b")",
            b"(" + b"(a (b (c)))" * (MEGABYTE // 11),
            b"(" + b"a(b(c(d " * (MEGABYTE // 8),
        ],
        ids=_start,
    )
    def test_linear(self, text: bytes) -> None:
        """A megabyte takes a fraction of a second; were the time quadratic, it would take many minutes."""
        began = time.process_time()
        _outcome(parse, text)
        assert time.process_time() - began < 20

    @pytest.mark.parametrize(
        ("text", "offset"),
        [
            (b"(" * 4 * MEGABYTE, 1000),
            (b")" * 4 * MEGABYTE, 0),
            (b'"' * 4 * MEGABYTE, 2),
            (b" " * 4 * MEGABYTE, 4 * MEGABYTE),
            (b"()" * 2 * MEGABYTE, 2),
            (b"a " * 2 * MEGABYTE, 2),
            (b"((a b)" * MEGABYTE, 5995),
            (b"((x " + b"(" * 4 * MEGABYTE, 1002),
            (b"#|" + b"a" * 4 * MEGABYTE, 0),
            (b"#|" + b'"' * 4 * MEGABYTE, 0),
            (b'"' + b"a" * 4 * MEGABYTE, 0),
            (b'"' + b"\\" * 4 * MEGABYTE, 0),
            (b'((("' + b"a" * 4 * MEGABYTE, 3),
        ],
        ids=_start,
    )
    def test_hostile(self, text: bytes, offset: int) -> None:
        """Refused soon, and without much more memory than the text's; tracing slows the parsers down."""
        for read in (parse, parse_nodes, lambda t, **k: list(parse_records(t, **k)), lambda t, **k: outline(t, 3, **k)):
            tracemalloc.start()
            try:
                with pytest.raises(SexpError) as caught:
                    read(text, max_depth=1000)
                assert caught.value.offset == offset
                assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
            finally:
                tracemalloc.stop()

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            (b"a" * 4 * MEGABYTE, b"a" * 4 * MEGABYTE),
            (b"\0" * 4 * MEGABYTE, b"\0" * 4 * MEGABYTE),
            (b'"' + b"a" * 4 * MEGABYTE + b'"', b"a" * 4 * MEGABYTE),
            (b'"' + b"\\" * 4 * MEGABYTE + b'"', b"\\" * 2 * MEGABYTE),
            (b'"' + b'\\"\\q' * (MEGABYTE // 8) + b'"', b'"\\q' * (MEGABYTE // 8)),
            (b"#|" + b"a" * 4 * MEGABYTE + b"|#b", b"b"),
        ],
        ids=_start,
    )
    def test_large_tokens(self, text: bytes, value: bytes) -> None:
        tracemalloc.start()
        try:
            assert parse(text) == value
            assert tracemalloc.get_traced_memory()[1] < 4 * len(text) + 4 * MEGABYTE
        finally:
            tracemalloc.stop()

    def test_an_error_in_a_long_string(self) -> None:
        text = b'("a" "' + b"\\065b" * (MEGABYTE // 5) + b'\\256")'
        assert _outcome(parse, text) == ("a decimal escape above 255", 6 + MEGABYTE)

    @pytest.mark.parametrize(
        ("end", "slow"),
        [
            (b"\n", False),
            (b"\r\n", False),
            (b' ; (a) "b #| comment\n', False),
            (b" ; comment\r\n", False),
            (b" #| (a) comment |#\n", False),
            (b' #|a "b" |#\n', True),
            (b" #; (a)\n", True),
            (b" \v\n", True),
        ],
    )
    def test_what_is_read_fast(self, end: bytes, slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """The scanner, which is the slow way, takes over once in each piece, or once for each entry."""
        takeovers = 0
        scan = reading.Reader._scan

        def counted(reader: reading.Reader, *arguments: int) -> int:
            nonlocal takeovers
            takeovers += 1
            return scan(reader, *arguments)

        monkeypatch.setattr(reading.Reader, "_scan", counted)
        entry = b'((id 3) (namespace "") (label (w "h\\195\\169")) (dims (2 3)) (padding none) (offset 0))' + end
        text = _header(entry, 5000)
        value = parse(text)
        assert value == _nodes(text)
        assert takeovers >= 5000 if slow else takeovers <= 1 + 2 * len(text) // reading._PIECE


class TestIntegers:
    @pytest.mark.parametrize(
        ("atom", "number"),
        [
            (b"0", 0),
            (b"-0", 0),
            (b"+7", 7),
            (b"007", 7),
            (b"1_0__", 10),
            (b"0x1F_f", 0x1FF),
            (b"-0Xa", -10),
            (b"0o17", 15),
            (b"0O7", 7),
            (b"0b101", 5),
            (b"0B1", 1),
            (b"0u5", 5),
            (b"-0U5", -5),
            (b"4611686018427387903", INT_MAX),
            (b"-4611686018427387904", INT_MIN),
            (b"0x3fffffffffffffff", INT_MAX),
            (b"-0x4000000000000000", INT_MIN),
        ],
    )
    def test_read(self, atom: bytes, number: int) -> None:
        assert parse_int(atom) == number

    @pytest.mark.parametrize(
        "atom",
        [*b"/-/--1/_1/ 1/1 /1./1e3/0x/0x_1/0o8/0b2/0xg/0d1/0u-5/1\0".split(b"/"), "١".encode()],
    )
    def test_not_an_integer(self, atom: bytes) -> None:
        with pytest.raises(ValueError, match="not an integer: "):
            parse_int(atom)

    @pytest.mark.parametrize(
        "atom",
        [
            b"4611686018427387904",
            b"-4611686018427387905",
            b"0x4000000000000000",
            b"0x7fffffffffffffff",
            b"0u4611686018427387904",
            b"9" * 10_000,
            b"0b" + b"1" * MEGABYTE,
        ],
        ids=_start,
    )
    def test_too_large(self, atom: bytes) -> None:
        with pytest.raises(ValueError, match="an integer beyond 63 bits: "):
            parse_int(atom)

    def test_leading_zeros(self) -> None:
        assert parse_int(b"0" * 100 + b"1") == 1
        assert parse_int(b"-" + b"0_" * MEGABYTE + b"5" + b"_" * MEGABYTE) == -5
        assert parse_int(b"0x" + b"0" * 10 * MEGABYTE + b"1f") == 31
        assert parse_int(b"0u" + b"0" * MEGABYTE) == 0

    def test_many_digits(self) -> None:
        began = time.process_time()
        for atom in (b"9" * 10 * MEGABYTE, b"0" * MEGABYTE + b"1" + b"_0" * MEGABYTE, b"-0b" + b"1" * 10 * MEGABYTE):
            with pytest.raises(ValueError, match="an integer beyond 63 bits: "):
                parse_int(atom)
        with pytest.raises(ValueError, match="not an integer: "):
            parse_int(b"9" * 10 * MEGABYTE + b"x")
        assert time.process_time() - began < 10

    @given(st.integers(INT_MIN, INT_MAX))
    def test_round_trip(self, number: int) -> None:
        assert parse_int(format_int(number)) == number

    @pytest.mark.parametrize("number", [INT_MAX + 1, INT_MIN - 1, 10**5000], ids=["above", "below", "far above"])
    def test_too_large_to_write(self, number: int) -> None:
        with pytest.raises(ValueError, match="an integer beyond 63 bits: "):
            format_int(number)


class TestFloats:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            (b"1.", 1.0),
            (b"0.1", 0.1),
            (b"1e+22", 1e22),
            (b"1e-300", 1e-300),
            (b"123456789012345.", 123456789012345.0),
            (b"1e+15", 1e15),
            (b"0.30000000000000004", 0.1 + 0.2),
            (b"0.33333333333333331", 1 / 3),
            (b"4.94065645841247e-324", 5e-324),
            (b"-0.", -0.0),
            (b"inf", math.inf),
            (b"-inf", -math.inf),
            (b"nan", _number(0x7FF8 << 48)),
            (b"-nan", _number(0xFFF8 << 48)),
        ],
    )
    def test_written(self, text: bytes, number: float) -> None:
        assert format_float(number) == text
        assert _bits(parse_float(text)) == _bits(number)

    @pytest.mark.parametrize(
        ("atom", "number"),
        [
            (b"7", 7.0),
            (b"+.5", 0.5),
            (b"1_0.2_5E0_1", 102.5),
            (b"_1_", 1.0),
            (b" \t\n\v\f\r1", 1.0),
            (b"1e400", math.inf),
            (b"-1e400", -math.inf),
            (b"1e-400", 0.0),
            (b"-1e-400", -0.0),
            (b"1e99999999999999999999", math.inf),
            (b"iNf", math.inf),
            (b"-Infinity", -math.inf),
            (b"+NaN", _number(0x7FF8 << 48)),
            (b"-NAN", _number(0xFFF8 << 48)),
            (b"0x1p3", 8.0),
            (b"-0X.8P-1", -0.25),
            (b"0xA.", 10.0),
            (b"0x_1_.8", 1.5),
            (b"0x1e5", 485.0),
            (b"0x1p9999", math.inf),
            (b"-0x1p-9999", -0.0),
            (b" -0x1p9999", -math.inf),
        ],
    )
    def test_read(self, atom: bytes, number: float) -> None:
        assert _bits(parse_float(atom)) == _bits(number)

    @pytest.mark.parametrize(
        "atom",
        [
            *b"/_/./-/1 /- 1/--1/1e/1e+/e5/1,5/1f/infin/nan(1)/none/0x/0x./0xp1/0x1p/0x1.2.3/0b1/0o7/1\0".split(b"/"),
            "١".encode(),
            b"1" * MEGABYTE + b"x",
        ],
        ids=_start,
    )
    def test_not_a_number(self, atom: bytes) -> None:
        with pytest.raises(ValueError, match="not a number: "):
            parse_float(atom)

    @given(BITS)
    def test_round_trip(self, bits: int) -> None:
        number = _number(bits)
        if math.isnan(number):
            assert format_float(number) in (b"nan", b"-nan")
        else:
            assert _bits(parse_float(format_float(number))) == bits
            assert _bits(parse_float(number.hex().encode())) == bits

    def test_many_digits(self) -> None:
        digits = b"".join(b"%d" % digit for digit in random.Random(1).choices(range(10), k=MEGABYTE))
        assert parse_float(b"0." + digits) == float(b"0." + digits[:800])
        assert parse_float(b"1" + digits) == math.inf
        zeros = b"0" * 10 * MEGABYTE
        began = time.process_time()
        assert parse_float(b"1" + zeros + b"e-%d" % len(zeros)) == 1
        assert parse_float(b"." + zeros + b"1e%d" % len(zeros)) == 0.1
        assert parse_float(b"-" + b"_0" * MEGABYTE + b"2.5" + zeros) == -2.5
        assert parse_float(b"0x1" + zeros + b"p-%d" % (4 * len(zeros))) == 1
        assert parse_float(b"0x." + zeros + b"8p%d" % (4 * len(zeros))) == 0.5
        assert parse_float(b"1e" + b"9" * 10 * MEGABYTE) == math.inf
        assert parse_float(b"1e-" + b"9" * 10 * MEGABYTE) == 0
        assert parse_float(b"0e" + b"9" * 10 * MEGABYTE) == 0
        half = b"1.00000000000000011102230246251565404236316680908203125"  # halfway from 1 to the next: 1 is even
        assert parse_float(half + zeros) == 1
        assert parse_float(half + zeros + b"1") == math.nextafter(1, 2)
        assert time.process_time() - began < 10
