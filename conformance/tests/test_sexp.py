"""S-expressions: one table of texts drives reader and writer; both ways of reading agree, whatever the bytes."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckptspec import sexp
from ckptspec.sexp import (
    INT_MAX,
    INT_MIN,
    Node,
    Sexp,
    SexpError,
    dump,
    format_float,
    format_int,
    needs_quotes,
    parse,
    parse_float,
    parse_int,
    parse_nodes,
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
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)
BITS = st.integers(0, (1 << 64) - 1)

MEGABYTE = 1_000_000


def _values(node: Node) -> Sexp:
    """The expression without the places; the trees of most tests are not deep."""
    return node.value if isinstance(node.value, bytes) else tuple(map(_values, node.value))


def _outcome(read: Callable[[Any], Sexp], text: bytes | bytearray | memoryview) -> Sexp | tuple[str, int]:
    try:
        return read(text)
    except SexpError as error:
        return error.message, error.offset


def _nested(depth: int) -> Sexp:
    value: Sexp = b"a"
    for _ in range(depth):
        value = (value,)
    return value


def _start(text: bytes) -> str:
    """A test's name cannot hold a megabyte."""
    return repr(text[:24])


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
        def nodes(text: bytes) -> Sexp:
            return _values(parse_nodes(text))

        for whole in (text, b'"' + text + b'"', b"(" + text + b")"):
            assert _outcome(parse, whole) == _outcome(nodes, whole)

    @given(st.binary(max_size=40))
    def test_any_bytes(self, data: bytes) -> None:
        assert _outcome(parse, data) == _outcome(parse, bytearray(data)) == _outcome(parse, memoryview(data))

    def test_error_survives_pickling(self) -> None:
        error = pickle.loads(pickle.dumps(SexpError("no expression", 3)))
        assert (error.message, error.offset, str(error)) == ("no expression", 3, "no expression (byte 3)")


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
        ],
        ids=_start,
    )
    def test_linear(self, text: bytes) -> None:
        """A megabyte takes a fraction of a second; were the time quadratic, it would take many minutes."""
        began = time.process_time()
        _outcome(parse, text)
        assert time.process_time() - began < 20

    def test_plain_text_is_read_fast(self) -> None:
        entry = b'((id 3) (namespace "") (label (w "h\\195\\169")) (dims (2 3)) (padding none) (offset 0))\n'
        assert sexp._parse_plain(b"((version 1) (tensors (" + entry * 3 + b")))   ", 10) is not None


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
        assert parse_int(b"0" * MEGABYTE + b"5") == 5

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
