"""Files that a reader must refuse for their frame, their text or the form of their records."""

from __future__ import annotations

import functools
from typing import Final

from ....spec.schema import OCANNL_INT_MAX, OCANNL_MAX_DEPTH, OCANNL_MAX_HEADER, OCANNL_RECORDS
from ..definition import CaseBook
from .assemble import Change, Dress, Loose, R, T, add, around, drop, file, frame, put, swap, text
from .parts import PAIR, W, invalid_case

__all__ = ["define"]

SYNTAX: Final = "OCANNL-TXT-SYNTAX"
INTEGER: Final = "OCANNL-REC-INTEGER"
VALUE: Final = "OCANNL-REC-VALUE"
PAIRS: Final = "OCANNL-REC-PAIRS"
MISSING: Final = "OCANNL-REC-MISSING"

# What becomes of a good header's text.
TEXTS: Final[dict[str, tuple[str, Dress]]] = {
    "second": ("a second expression", around(back=b" ()")),
    "second_whole": ("the header twice", lambda made: made + b" " + made),
    "second_atom": ("an atom behind the header", around(back=b" x")),
    "second_string": ("an empty string behind the header", around(back=b'""')),
    "first_atom": ("an atom in front of the header", around(b"x ")),
    "paren": ("a parenthesis too many", around(back=b")")),
    "paren_front": ("a closing parenthesis in front", around(b")")),
    "open_back": ("an open parenthesis behind the header", around(back=b" (")),
    "unclosed": ("the last parenthesis is missing", lambda made: made[:-1]),
    "half": ("the text ends in the middle", lambda made: made[: len(made) // 2]),
    "string_open": ("a string that is not closed", swap(b"(w)", b'("w)')),
    "string_open_end": ("a quote behind the header", around(back=b' "')),
    "string_escape_late": (
        "a bad escape after 66,000 bytes of a string",
        swap(b"(w)", b'("%b\\x")' % (b"\\n" * 33_000)),
    ),
    "string_escape_end": ("a text that ends with a backslash in a string", lambda made: made[:-5] + b'"a\\'),
    "block_open": ("a block comment that is not closed", around(back=b" #| x")),
    "block_open_nested": ("a nested block comment that is not closed", around(b"#| #| |# ")),
    "block_open_string": ("a block comment whose end is in a string", around(b'#| "|#" ')),
    "block_string_open": ("a block comment with an open string", around(b'#| " |# ')),
    "block_end": ("the end of a block comment that never began", around(b"|# ")),
    "block_in_atom": ("#| within an atom", swap(b"(w)", b"(a#|b|#)")),
    "block_end_in_atom": ("|# within an atom", swap(b"(w)", b"(a|#)")),
    "datum_all": ("#; in front of the whole", around(b"#;")),
    "datum_all_twice": ("#;#; in front of the whole and a string", around(b"#;#;", b'""')),
    "datum_pair": ("#; with nothing to drop", swap(b"(w)", b"(w #;)")),
    "datum_end": ("#; at the end", around(back=b" #;")),
    "datum_end_atom": ("#; with an atom to drop that nothing ends", around(back=b" #;x")),
    "datum_end_comment": ("#; with but a comment to drop", around(back=b" #; ; x\n")),
    "datum_bad": ("#; drops a string with a bad escape", around(b'#;"\\x" ')),
    "line_all": ("the whole behind a semicolon", lambda made: b";" + made.replace(b"\n", b" ")),
    "block_all": ("the whole in a block comment", around(b"#|", b"|#")),
    "bom": ("a byte order mark", around(b"\xef\xbb\xbf")),
    "utf_16": ("UTF-16", lambda made: made.decode().encode("utf-16-le")),
    "nul_front": ("a NUL in front", around(b"\0")),
    "nul_back": ("a NUL behind", around(back=b"\0")),
    "nul_padding": ("padding of NULs", around(back=bytes(64))),
    "vt_comment": ("a vertical tab, and a comment behind it", around(back=b"\v; x\n")),
    "cr_comment_back": ("a lone CR, and a comment behind it", around(back=b"\r; x\n")),
    "nbsp_back": ("a no-break space behind", around(back=b"\xc2\xa0")),
    "cr_between": ("a lone CR between atoms", swap(b"version ", b"version\r")),
    "cr_comment": ("a line comment that a lone CR ends", around(b"; x\r")),
    "json": ("JSON", lambda made: b'{"version": 1, "tensors": []}'),
    "empty": ("nothing", lambda made: b""),
    "blank": ("blanks only", lambda made: b" \n\t"),
    "comment_only": ("a comment only", lambda made: b"; ((version 1) (tensors ()))"),
    "block_only": ("a block comment only", lambda made: b"#| ((version 1) (tensors ())) |#"),
}

# Escapes that are errors, in a string.
ESCAPES: Final = {
    "256": rb"\256",
    "400": rb"\400",
    "999": rb"\999",
    "digits_2": rb"\12 ",
    "digits_1": rb"\1",
    "digit_letter": rb"\00a",
    "hex_1": rb"\x4",
    "hex_none": rb"\x",
    "hex_bad": rb"\xg0",
    "hex_bad_2": rb"\x0g",
}

# Whole headers that are one expression, and no record.
WHOLES: Final = {
    "atom": ("an atom", b"x", PAIRS),
    "string": ("a string", b'""', PAIRS),
    "hash": ("a number sign", b"#", PAIRS),
    "commented": ("an atom behind a comment", b"#| a |# #;(b) c", PAIRS),
    "number": ("a number", b"1", PAIRS),
    "empty": ("an empty list", b"()", MISSING),
    "atoms": ("a list of atoms", b"(version 1)", PAIRS),
    "flat": ("keys and values in one list", b"(version 1 alignment 1 tensors ())", PAIRS),
    "deeper": ("a list around the record", b"(((version 1) (alignment 1) (tensors ())))", PAIRS),
}

# Values of the wrong form, by the kind of value that a key asks for.
WRONG: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "int": (
        ("(1)", VALUE),
        ("()", VALUE),
        ('""', INTEGER),
        ("x", INTEGER),
        ("1.", INTEGER),
        ("none", INTEGER),
    ),
    "atom": (("(a)", VALUE), ("()", VALUE)),
    "atoms": (("w", VALUE), ('""', VALUE), ("((w))", VALUE), ("(a () b)", VALUE)),
    "ints": (("2", VALUE), ("((2))", VALUE), ("(2 ())", VALUE), ("(x)", INTEGER), ("(2 1.)", INTEGER)),
    "precision": (("(Single_prec)", VALUE), ("()", VALUE)),
    "padding": (
        ("()", VALUE),
        ("None", VALUE),
        ("0", VALUE),
        ("(none)", VALUE),
        ("(none 0.)", VALUE),
        ("(((1 1)))", VALUE),
        ("(((1 1)) 0. 0.)", VALUE),
        ("(((1)) 0.)", VALUE),
        ("(((1 1 1)) 0.)", VALUE),
        ("((1 1) 0.)", VALUE),
        ("(((1 1)) (0.))", VALUE),
        ("(((1 1)) x)", VALUE),
        ('(((1 1)) "")', VALUE),
        ("(((1 1)) 1.5.)", VALUE),
        ('(((1 1)) "1. ")', VALUE),
        ("(((1 1)) 0x)", VALUE),
        ("(((1 1)) 1e)", VALUE),
        ("(((1 1)) infinit)", VALUE),
        ("(((1 x)) 0.)", INTEGER),
        ("(((1 (1))) 0.)", VALUE),
        ("(((1 1.)) 0.)", INTEGER),
    ),
    "option": (
        ("some", VALUE),
        ("None", VALUE),
        ("()", VALUE),
        ("(none)", VALUE),
        ("(some)", VALUE),
        ("(some a b)", VALUE),
        ("(some (a))", VALUE),
        ("(Some a)", VALUE),
        ("((some) a)", VALUE),
    ),
    "pairs": (
        ("none", VALUE),
        ("(a b)", VALUE),
        ("((a))", VALUE),
        ("((a b c))", VALUE),
        ("((a (b)))", VALUE),
        ("(((a) b))", VALUE),
        ("((a b) ())", VALUE),
    ),
    "nodes": (
        ("none", VALUE),
        ("(ocannl 0)", VALUE),
        ("((ocannl))", VALUE),
        ("((ocannl 0 0))", VALUE),
        ("(((ocannl) 0))", VALUE),
        ("((ocannl (0)))", VALUE),
        ("((ocannl x))", INTEGER),
        ("((0 ocannl))", INTEGER),
    ),
    "tensors": (("none", VALUE), ("(none)", PAIRS), ("((id 0))", PAIRS), ("(())", MISSING)),
    "training": (("none", PAIRS), ("(none)", PAIRS), ("()", MISSING), ("(some ())", PAIRS)),
}

# Things that are no (key value) pair.
NO_PAIRS: Final = {
    "triple": "(a b c)",
    "single": "(a)",
    "empty": "()",
    "atom": "a",
    "atom_2": "ab",
    "string": '"a b"',
    "key_list": "((a) b)",
    "key_empty_list": "(() b)",
}

# Integers that OCaml does not read, and those that it reads modulo 2^63.
NO_INTEGERS: Final = {
    "sign": "-",
    "two_signs": "--1",
    "minus_plus": "-+1",
    "underscore_first": "_1",
    "underscore_sign": "-_1",
    "hex_none": "0x",
    "hex_bad": "0xg",
    "hex_underscore": "0x_1",
    "hex_sign": "0x-1",
    "octal_bad": "0o8",
    "binary_bad": "0b2",
    "unsigned_none": "0u",
    "exponent": "1e3",
    "point": "1.",
    "comma": "1,000",
    "suffix": "1L",
    "blank_front": '" 1"',
    "blank_back": '"1 "',
    "newline": '"1\\n"',
    "nul": '"1\\000"',
    "arabic": "١٢",
    "fullwidth": "１",
    "superscript": "²",
}
TOO_LARGE: Final = {
    "2_62": f"{OCANNL_INT_MAX + 1}",
    "2_62_minus": f"-{OCANNL_INT_MAX + 2}",
    "2_62_underscores": f"{OCANNL_INT_MAX + 1:_}",
    "2_62_zeros": f"000{OCANNL_INT_MAX + 1}",
    "2_63": f"{1 << 63}",
    "2_64": f"{1 << 64}",
    "2_64_and_7": f"{(1 << 64) + 7}",
    "digits_10000": "9" * 10_000,
    "digits_10000_minus": "-" + "1" * 10_000,
}
WRAPPING: Final = {
    "hex_2_62": f"0x{1 << 62:x}",
    "hex_7f": "0x7fffffffffffffff",
    "hex_2_62_minus": f"-0x{(1 << 62) + 1:x}",
    "octal_2_62": f"0o{1 << 62:o}",
    "binary_2_62": f"0b{1 << 62:b}",
    "unsigned_2_62": f"0u{1 << 62}",
    "unsigned_max": f"0u{(1 << 63) - 1}",
}
# These are beyond what OCaml reads in any form.
TOO_LONG: Final = {
    "hex_2_63": f"0x{1 << 63:x}",
    "hex_ff": "0xffffffffffffffffff",
    "hex_digits_10000": "0x" + "f" * 10_000,
    "binary_2_63": f"0b{1 << 63:b}",
    "unsigned_2_64": f"0u{1 << 64}",
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _frame(book)
    _text(book)
    _depth(book)
    _records(book)
    _integers(book)


def _frame(book: CaseBook) -> None:
    add_case = functools.partial(invalid_case, book)
    whole = file(*PAIR)
    header = int.from_bytes(whole[:4], "big")
    for size in range(4):
        add_case(f"short_{size}", f"a file of {size} bytes", "OCANNL-FRM-SHORT", whole[:size])
    largest = OCANNL_MAX_HEADER
    for name, length in {"minus_1": -1, "min": -(1 << 31), "by_1": largest + 1, "max": (1 << 31) - 1}.items():
        made = file(*PAIR, length=length)
        add_case(f"header_length_{name}", f"a header length of {length}", "OCANNL-FRM-LENGTH", made)
    for name, length in {"largest": largest, "by_1": len(whole) - 3, "by_4": len(whole)}.items():
        made = file(*PAIR, length=length)
        title = f"a header length of {length}, and {len(whole) - 4} bytes"
        add_case(f"header_range_{name}", title, "OCANNL-FRM-RANGE", made)
    for name, size in {"0": 4, "1": 5, "half": 4 + header // 2, "less_1": 4 + header - 1}.items():
        title = f"a header of {header} bytes of which {size - 4} are there"
        add_case(f"header_cut_{name}", title, "OCANNL-FRM-RANGE", whole[:size])
    swapped = bytes(reversed(whole[:4])) + whole[4:]
    add_case("header_length_little", "a little-endian header length", "OCANNL-FRM-LENGTH", swapped)
    made = text(*PAIR)
    for name, length in {"0": 0, "1": 1, "half": len(made) // 2, "less_1": len(made) - 1}.items():
        title = f"a header length of {length} for a text of {len(made)} bytes"
        add_case(f"header_less_{name}", title, SYNTAX, file(*PAIR, length=length))
    for more in (1, 24):
        made_file = file(*PAIR, length=header + more)
        title = f"a header length that takes {more} bytes of the payload"
        add_case(f"header_more_{more}", title, SYNTAX, made_file)


def _text(book: CaseBook) -> None:
    for name, (title, dress) in TEXTS.items():
        made = file(W, dress=dress)
        invalid_case(book, f"text_{name}", f"the text: {title}", SYNTAX, made, tags=("sexp",))
    made = file(W, dress=around(b"("))
    title = "the text: a parenthesis too many in front, so that the record is a list in a list"
    invalid_case(book, "text_open", title, PAIRS, made, SYNTAX, tags=("sexp",))
    for name, escape in ESCAPES.items():
        made = file(W, dress=swap(b"(w)", b'("' + escape + b'")'))
        title = f"a string with {escape!a}"
        invalid_case(book, f"text_escape_{name}", title, SYNTAX, made, tags=("sexp",))
    for name, (title, whole, rule) in WHOLES.items():
        company = (MISSING,) if rule != MISSING else ("OCANNL-HDR-OLD",)
        made = frame(whole)
        invalid_case(book, f"whole_{name}", f"the header is {title}", rule, made, *company, "OCANNL-HDR-OLD")


def _depth(book: CaseBook) -> None:
    rule, tags = "OCANNL-TXT-DEPTH", ("sexp", "depth")
    deep: dict[str, tuple[str, bytes]] = {
        "by_1": (f"{OCANNL_MAX_DEPTH + 1} lists in all", _nested(OCANNL_MAX_DEPTH - 1)),
        "10000": ("10,000 lists", _nested(10_000)),
        "99000": ("99,000 lists", _nested(99_000)),
    }
    for name, (title, value) in deep.items():
        made = file(W, header=(add((b"other", value)),))
        invalid_case(book, f"depth_{name}", f"an unknown value: {title}", rule, made, tags=tags)
    made = file(W, dress=around(b"#;" + _nested(OCANNL_MAX_DEPTH + 1)))
    invalid_case(book, "depth_comment", "a comment of lists that nest too deeply", rule, made, tags=tags)
    made = file(W, header=(put("version", _nested(5_000)),))
    invalid_case(book, "depth_version", "the version is 5,000 lists", rule, made, tags=tags, accepts=False)
    for name, made in {"open": b"(" * 100_000, "open_pairs": b"((a " * 25_000}.items():
        title = f"{made.count(b'(')} lists that are not closed"
        invalid_case(book, f"depth_{name}", title, rule, frame(made), tags=tags, accepts=False)
    made = frame(b"#;" * 50_000 + b"()")
    invalid_case(book, "depth_datum", "50,000 #; and one list", SYNTAX, made, tags=tags)
    made = frame(b"#|" * 50_000)
    invalid_case(book, "depth_block", "50,000 block comments that are not closed", SYNTAX, made, tags=tags)
    made = frame(b")" * 50_000)
    invalid_case(book, "depth_close", "50,000 closing parentheses", SYNTAX, made, tags=tags)


def _nested(depth: int) -> bytes:
    return b"(" * depth + b")" * depth


def spoiled(record: str, key: str, change: Change) -> bytes:
    """Return a file with a change to one of its records, and without anything that would suffer from it."""
    if record == "header":
        return file(*(() if key == "tensors" else (W,)), training=R() if key == "training" else None, header=(change,))
    if record == "tensor":
        return file(W.but(change))
    return file(W, training=R().but(change))


def _records(book: CaseBook) -> None:
    for record, table in OCANNL_RECORDS.items():
        tags = ("records", *(("training",) if record == "training" else ()))
        case = functools.partial(invalid_case, book, tags=tags)
        for key in table:
            if not key.optional:
                made = spoiled(record, key.name, drop(key.name))
                case(f"{record}_without_{key.name}", f"{record}: no {key.name}", MISSING, made)
            for at, (value, rule) in enumerate(WRONG[key.kind]):
                made = spoiled(record, key.name, put(key.name, value))
                title = f"{record}: the value of {key.name} is {value}"
                more = (*tags, "training") if key.name == "training" else tags
                case(f"wrong_{record}_{key.name}_{at}", title, rule, made, *_company(key.kind, rule), tags=more)
        for name, pair in NO_PAIRS.items():
            for where, position in (("", None), ("_first", 0)):
                made = spoiled(record, "", add(pair, position))
                case(f"{record}_pair_{name}{where}", f"{record}: {pair} among the pairs", PAIRS, made)
    for name, front in {"block": b"#| a #| b |# |# ", "datum": b"#;((version 1)) ", "line": b"; a\n; b\n"}.items():
        made = file(header=(drop("tensors"),), dress=around(front))
        title = f"no tensors, and {front!a} in front of the header"
        invalid_case(book, f"header_without_tensors_{name}", title, MISSING, made, tags=("records", "sexp"))
        comment = front.decode()
        made = file(W.but(drop("dims"), add(comment, 0)), training=R())
        title = f"tensor: no dims, and {front!a} in front of the pairs"
        invalid_case(book, f"tensor_without_dims_{name}", title, MISSING, made, tags=("records", "sexp", "training"))
    made = file(W, training=R(), header=(add("(training none)", 0),))
    title = "a training record that is none, and then a good one: the first counts"
    company = ("OCANNL-REC-ORDER", "OCANNL-REC-REPEATED", MISSING)
    invalid_case(book, "header_training_first", title, PAIRS, made, *company, tags=("records", "training"))
    made = file(W, header=(add("(version 2)", 0),))
    title = "version 2, then version 1: the first counts"
    invalid_case(
        book, "header_version_first", title, "OCANNL-HDR-VERSION", made, "OCANNL-REC-REPEATED", tags=("records",)
    )


def _company(kind: str, rule: str) -> tuple[str, ...]:
    """What else is found where the form of a value is wrong: a record that is none lacks all its pairs."""
    if kind in ("tensors", "training") and rule == PAIRS:
        return (MISSING,)
    return ()


def _integers(book: CaseBook) -> None:
    item = T(id=7)
    for table, what, accepts in (
        (NO_INTEGERS, "no integer", False),
        (TOO_LARGE, "too large", False),
        (WRAPPING, "too large, and wraps", True),
        (TOO_LONG, "too large in any form", False),
    ):
        for name, spelled in table.items():
            shown = spelled if len(spelled) < 80 else f"of {len(spelled)} bytes"
            made = file(item.but(put("id", spelled)))
            title = f"an id that is {what}: {ascii(shown)[1:-1]}"
            invalid_case(book, f"integer_{name}", title, INTEGER, made, accepts=accepts, tags=("integers",))
    wrapping: Loose = WRAPPING["hex_7f"]
    places = {
        "dims": file(W.but(put("dims", (wrapping,)))),
        "offset": file(W.but(put("offset", wrapping))),
        "byte_length": file(W.but(put("byte_length", wrapping))),
        "alignment": file(W, header=(put("alignment", wrapping),)),
        "padding": file(T(dims=(4,)).but(put("padding", (((wrapping, 1),), "0.")))),
    }
    for name, made in places.items():
        title = f"{name}: {wrapping!s}, which upstream reads as -1"
        invalid_case(
            book, f"integer_in_{name}", title, INTEGER, made, accepts=name in ("dims", "padding"), tags=("integers",)
        )
    for key in ("step", "seeds", "state"):
        value: Loose = {"step": wrapping, "seeds": (wrapping,), "state": (("ocannl", wrapping),)}[key]
        made = file(W, training=R().but(put(key, value)))
        title = f"training, {key}: {wrapping!s}"
        invalid_case(book, f"integer_in_{key}", title, INTEGER, made, tags=("integers", "training"))
