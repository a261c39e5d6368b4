"""Files that readers accept and writers must not produce, and files that draw a note."""

from __future__ import annotations

import functools
from typing import Final

from ....spec.schema import OCANNL_MAX_DEPTH, OCANNL_RECORDS
from ..definition import CaseBook
from .assemble import Change, Loose, R, T, add, around, drop, file, order, put, ramp
from .parts import PAIR, W, valid_case
from .styles import pretty

__all__ = ["define"]

# Spellings of 10 that OCaml reads, and no writer writes.
TEN: Final = {
    "plus": "+10",
    "hex": "0xa",
    "hex_upper": "0XA",
    "hex_zeros": "0x000a",
    "octal": "0o12",
    "octal_upper": "0O12",
    "binary": "0b1010",
    "binary_upper": "0B1010",
    "unsigned": "0u10",
    "unsigned_upper": "0U10",
    "plus_hex": "+0xA",
    "zeros": "0010",
    "zeros_many": "0" * 10_000 + "10",
    "underscore": "1_0",
    "underscore_end": "10_",
    "underscores": "1__0__",
    "hex_underscore": "0xa_",
}

# Spellings of neutral values that OCaml reads, and no writer writes.
NEUTRALS: Final = {
    "integer": "1",
    "zero_integer": "0",
    "plus": "+1.",
    "zeros": "01.",
    "fraction_zero": "1.0",
    "minus_zero_fraction": "-0.0",
    "minus_zero_integer": "-0",
    "trailing_zero": "0.10",
    "no_integer": ".5",
    "minus_no_integer": "-.5",
    "exponent": "1e0",
    "exponent_upper": "1E+22",
    "exponent_plain": "1e22",
    "exponent_short": "1e-5",
    "exponent_zeros": "1e+022",
    "underscore": "1_0.",
    "underscore_first": "_1.",
    "underscore_end": "10._",
    "digits_17": "0.10000000000000001",
    "digits_many": "0.1000000000000000055511151231257827021181583404541015625",
    "digits_1000": "0." + "3" * 1000,
    "smallest_short": "5e-324",
    "hex": "0x1p3",
    "hex_upper": "0X1.8P-1",
    "hex_plain": "0x10",
    "hex_fraction": "0x.8p1",
    "too_large": "1e400",
    "too_large_minus": "-1e400",
    "too_small": "1e-400",
    "too_small_minus": "-1e-400",
    "infinity": "Infinity",
    "infinity_minus": "-INFINITY",
    "infinity_plus": "+inf",
    "nan_upper": "NaN",
    "nan_plus": "+nan",
    "nan_minus": "-NAN",
    "blank": '" 1."',
    "blanks": '"\\n \\t1."',
}

TRAINED: Final = R(extra=(("k", "v"),), host_rng=b"lxm1:")


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _old(book)
    _records(book)
    _spelling(book)
    _stripped(book)
    _frame(book)
    _payloads(book)
    _notes(book)


def changed(record: str, *changes: Change) -> bytes:
    """Return a file with changes to one of its records; a training checkpoint, unless they are a tensor's."""
    if record == "tensor":
        return file(W.but(*changes))
    return file(
        W,
        training=TRAINED.but(*changes) if record == "training" else TRAINED,
        header=changes if record == "header" else (),
    )


def _old(book: CaseBook) -> None:
    add_case = functools.partial(valid_case, book)
    old, legacy = "OCANNL-HDR-OLD", "OCANNL-TEN-LEGACY"
    odd = [T(id=at, prec="byte", dims=(size,)) for at, size in enumerate((1, 5, 0, 3))]
    add_case("old_empty", "no alignment, no tensors", file(alignment=None), "alignment", rules=(old,))
    add_case("old_packed", "no alignment: payloads back to back", file(*odd, alignment=None), "alignment", rules=(old,))
    for name, front in {"block": b"#| a #| b |# |#", "datum": b"#;(alignment 32)", "line": b"; a\n"}.items():
        made = file(W, alignment=None, dress=around(front))
        title = f"no alignment, and {front!a} in front of the header"
        add_case(f"old_comment_{name}", title, made, "alignment", "sexp", rules=(old,))
    made = file(T(namespace=""), T(id=1, namespace="x"), alignment=None, spell=pretty)
    add_case("old_both", "neither alignment nor default namespace", made, "alignment", "names", rules=(old, legacy))
    add_case("old_namespace", "the empty namespace", file(T(namespace="")), "names", rules=(legacy,))
    made = file(T(namespace=""), T(id=1))
    add_case("old_namespace_mixed", "the empty namespace and the default one", made, "names", rules=(legacy,))
    made = file(T(), training=R(state=(("", 0),)))
    add_case("old_state", "the empty namespace in the state", made, "training", rules=("OCANNL-TRN-LEGACY",))
    made = file(T(namespace=""), training=R())
    add_case("old_state_default", "the state spells the default namespace out", made, "training", rules=(legacy,))
    made = file(T(namespace=""), training=R(state=(("", 0),)))
    rules = (legacy, "OCANNL-TRN-LEGACY")
    add_case("old_state_both", "the empty namespace in tensor and state", made, "training", rules=rules)


def _records(book: CaseBook) -> None:
    unknown, repeated, moved = "OCANNL-REC-UNKNOWN", "OCANNL-REC-REPEATED", "OCANNL-REC-ORDER"
    values: dict[str, Loose] = {
        "atom": "x",
        "empty": '""',
        "list": ("a", (), (("b", "c"), "d")),
        "nothing": (),
        "number": "0xffff",
    }
    inner = {
        "header": "(tensors (((id 0))))",
        "tensor": "(offset 7)",
        "training": "(seeds (99))",
    }
    for record, table in OCANNL_RECORDS.items():

        def case(name: str, title: str, *changes: Change, rule: str, record: str = record) -> None:
            tags = ("training",) if record != "tensor" else ()
            made = changed(record, *changes)
            valid_case(book, f"{name}_{record}", f"{record}: {title}", made, "records", *tags, rules=(rule,))

        for name, value in values.items():
            case(f"unknown_{name}", f"an unknown key, its value {name}", add(("other", value)), rule=unknown)
        case("unknown_first", "an unknown key in front", add(("other", "x"), 0), rule=unknown)
        case("unknown_case", "a known key in capitals", add((table[0].name.upper(), "x")), rule=unknown)
        case("unknown_key_empty", "an empty key", add(('""', "x")), rule=unknown)
        case("unknown_key_bytes", "a key that is no UTF-8", add((b'"\\255\\000"', "x")), rule=unknown)
        case("unknown_twice", "an unknown key twice", add(("other", "x")), add(("other", "x")), rule=unknown)
        case("unknown_inside", "a known key in an unknown one", add(("other", inner[record])), rule=unknown)
        case("reversed", "the pairs in reverse", order(*(key.name for key in reversed(table))), rule=moved)
        case("moved", "the last pair in front", order(table[-1].name), rule=moved)
        for key in table:
            case(f"repeated_{key.name}", f"{key.name} again, without sense", add((key.name, "((x))")), rule=repeated)
    for where, rule in ((None, repeated), (0, unknown)):
        name = "version" if rule == repeated else "other"
        made = file(W, header=(add((name, _deep(OCANNL_MAX_DEPTH - 2)), where),))
        title = f"a value of {name} that nests as deeply as may be"
        valid_case(book, f"deepest_{name}", title, made, "sexp", "depth", rules=(rule,))
    made = file(W, header=(add("(tensors (((id 5))))"),))
    valid_case(
        book, "repeated_tensors_other", "other tensors at the second mention", made, "records", rules=(repeated,)
    )
    made = file(W, header=(add("(version 2)", 1),))
    valid_case(book, "repeated_version_other", "version 1, then version 2", made, "records", rules=(repeated,))
    made = file(W, header=(add("(alignment 32)"), drop("alignment"), add("(alignment 0)")))
    rules = (moved, repeated)
    valid_case(book, "repeated_alignment", "alignment 32, then alignment 0", made, "records", rules=rules)
    made = file(W, header=(drop("alignment"), add("(Alignment 64)"), add('("alignment " 64)')), alignment=1)
    rules = ("OCANNL-HDR-OLD", unknown)
    valid_case(book, "unknown_alignment", "keys that are nearly alignment", made, "records", rules=rules)


def _deep(depth: int) -> bytes:
    return b"(" * depth + b")" * depth


def _spelling(book: CaseBook) -> None:
    spelling = "OCANNL-REC-SPELLING"

    def case(name: str, title: str, made: bytes, *tags: str) -> None:
        valid_case(book, f"spelling_{name}", title, made, "spelling", *tags, rules=(spelling,))

    ten = T(id=10, dims=(10,), prec="byte")
    for name, spelled in TEN.items():
        shown = spelled if len(spelled) < 20 else "10 behind 10,000 zeros"
        case(f"id_{name}", f"an id of 10 spelled {shown}", file(ten.but(put("id", spelled))))
        if name != "zeros_many" and not spelled.startswith("+"):
            trained = R(state=(("ocannl", 10),), step=10, seeds=(-10,))
            trained = trained.but(put("seeds", (f"-{spelled}",)))
            case(f"seed_{name}", f"a seed of -10 spelled so: {spelled}", file(ten, training=trained), "training")
    case("id_minus_zero", "an id of -0", file(W.but(put("id", "-0"))))
    case("id_minus_zero_hex", "an id of -0x0", file(W.but(put("id", "-0x0"))))
    largest = T(id=(1 << 62) - 1)
    for name, spelled in {
        "hex": f"0x{largest.id:x}",
        "octal": f"0o{largest.id:o}",
        "binary": f"0b{largest.id:b}",
        "unsigned": f"0u{largest.id}",
        "underscores": f"{largest.id:_}",
    }.items():
        case(f"largest_{name}", f"the largest id, spelled {spelled}", file(largest.but(put("id", spelled))))
    smallest = R(seeds=(-(1 << 62),))
    for name, spelled in {"hex": f"-0x{1 << 62:x}", "unsigned": f"-0u{1 << 62}"}.items():
        made = file(W, training=smallest.but(put("seeds", (spelled,))))
        case(f"smallest_{name}", f"the smallest seed, spelled {spelled}", made, "training")
    places: dict[str, bytes] = {
        "version": file(W, header=(put("version", "0x1"),)),
        "alignment": file(W, header=(put("alignment", "0x20"),)),
        "dims": file(T(dims=(2, 3)).but(put("dims", ("2", "0x3")))),
        "padding": file(T(dims=(4,), padding=(((1, 2),), "0.")).but(put("padding", "(((1 0x2)) 0.)"))),
        "offset": file(PAIR[0], PAIR[1].but(put("offset", "0x20"))),
        "byte_length": file(W.but(put("byte_length", "0x8"))),
    }
    for name, made in places.items():
        tags = ("padding",) if name == "padding" else ()
        case(name, f"{name}: a number in hexadecimal", made, *tags)
    for key in ("version", "step", "epoch", "position"):
        made = file(W, training=R().but(put(key, f"0x{getattr(R(), key):x}")))
        case(f"training_{key}", f"training, {key}: a number in hexadecimal", made, "training")
    made = file(W, training=R().but(put("state", (("ocannl", "0x0"),))))
    case("training_state", "training, state: a number in hexadecimal", made, "training")
    for name, spelled in NEUTRALS.items():
        made = file(T(dims=(4,), prec="double", padding=(((1, 2),), spelled)))
        shown = spelled if len(spelled) < 60 else f"with {len(spelled)} bytes"
        case(f"neutral_{name}", f"a neutral value spelled {shown}", made, "padding", "floats")


def _stripped(book: CaseBook) -> None:
    """Bytes that OCANNL takes off both ends of the header before it reads it, and that are no blanks."""
    for name, front, back in (
        ("vt_front", b"\v", b""),
        ("vt_back", b"", b"\v"),
        ("vt_both", b" \v\t", b" \v\f "),
        ("cr_front", b"\r", b""),
        ("cr_back", b"", b"\r"),
        ("cr_cr_lf", b"\r\r\n", b"\r\r\n"),
        ("all", b"\n\v\f\r", b" \t\n\r\v\f  "),
        ("vt_comment", b"\v; x\n", b" ; x\r"),
    ):
        made = file(W, dress=around(front, back))
        title = f"{front!a} in front of the header, {back!a} behind it"
        valid_case(book, f"blanks_{name}", title, made, "sexp", rules=("OCANNL-TXT-BLANKS",))


def _frame(book: CaseBook) -> None:
    rules = ("OCANNL-FRM-ALIGN",)
    for alignment in (2, 3, 32, 4096):
        made = file(*PAIR, alignment=alignment, more=1)
        title = f"one space too many for an alignment of {alignment}"
        valid_case(book, f"padded_{alignment}_and_1", title, made, "alignment", rules=rules)
        made = file(*PAIR, alignment=alignment, more=alignment - 1)
        title = f"one space too few for an alignment of {alignment}"
        valid_case(book, f"padded_{alignment}_less_1", title, made, "alignment", rules=rules)
    for alignment in (32, 4096):
        made = file(*PAIR, alignment=alignment, pad=False)
        title = f"a header without spaces, alignment {alignment}"
        valid_case(book, f"unpadded_{alignment}", title, made, "alignment", rules=rules)
    # Not the largest alignment: an encoder would have to write 64 MB for it.
    alignment = 1 << 20
    made = file(W, alignment=alignment, pad=False)
    title = f"an alignment of {alignment}, one payload, and no padding of the header"
    valid_case(book, f"unpadded_{alignment}", title, made, "alignment", "limits", rules=rules)


def _payloads(book: CaseBook) -> None:
    align, moved, gap = "OCANNL-DAT-ALIGN", "OCANNL-DAT-ORDER", "OCANNL-DAT-GAP"
    zero, trailing = "OCANNL-DAT-ZERO", "OCANNL-DAT-TRAILING"

    def pair(first: int | None, second: int | None, **more: object) -> bytes:
        items = T(label=("a",), dims=(6,), at=first), T(id=1, label=("b",), dims=(2,), at=second)
        return file(*items, **more)  # type: ignore[arg-type]

    def case(name: str, title: str, made: bytes, *rules: str) -> None:
        valid_case(book, name, title, made, "payloads", rules=rules)

    case("order_swapped", "payloads in another order than the header", pair(32, 0), moved)
    case("order_touching", "the same, back to back under alignment 1", pair(8, 0, alignment=1), moved)
    items = [T(id=at, prec="byte", dims=(1,), at=1 - at) for at in range(2)]
    case("order_by_1", "two payloads of one byte, swapped", file(*items, alignment=1), moved)
    items = [T(id=at, dims=(8,), at=32 * place) for at, place in enumerate((0, 2, 1, 3))]
    case("order_middle", "two payloads in the middle change places", file(*items), moved)
    case("gap_between", "a gap larger than the alignment asks for", pair(0, 64), gap)
    case("gap_front", "a gap in front of the first payload", pair(32, 64), gap)
    case("gap_1", "a gap of one byte under alignment 1", pair(0, 25, alignment=1), gap)
    case("unaligned", "a payload at an odd place, directly behind the one before", pair(0, 24), align)
    case("unaligned_first", "all payloads at odd places", pair(1, 25), align)
    case("unaligned_gap", "a payload at an odd place, behind a gap", pair(0, 40), align)
    case("unaligned_old", "an odd place without alignment", pair(3, 27, alignment=None), "OCANNL-HDR-OLD", gap)
    case("filled", "a gap of ones", pair(0, 32, fill=b"\xff"), zero)
    case("filled_spaces", "a gap of spaces", pair(0, 32, fill=b" "), zero)
    case("filled_1", "a gap of one byte, which is not zero", pair(0, 25, alignment=1, fill=b"\1"), gap, zero)
    case("filled_large", "a large gap of ones", pair(0, 96, fill=b"\x01"), gap, zero)
    case("filled_front", "ones in front of the first payload", pair(32, 64, fill=b"\x01"), gap, zero)
    made = bytearray(pair(0, 32))
    made[-9] = 1
    case("filled_last", "a gap whose last byte is not zero", bytes(made), zero)
    made = bytearray(pair(0, 32))
    made[-16] = 1
    case("filled_first", "a gap whose first byte is not zero", bytes(made), zero)
    for name, tail in {
        "zero": b"\0",
        "byte": b"x",
        "aligned": bytes(24),
        "text": b"(version 1)\n",
        "page": ramp(4096),
    }.items():
        case(f"trailing_{name}", f"{len(tail)} bytes behind the last payload", file(*PAIR, tail=tail), trailing)
    case("trailing_only", "no tensors, and bytes behind the header", file(tail=b"x"), trailing)
    case("trailing_empty", "an empty tensor, and bytes behind it", file(T(dims=(0,)), tail=bytes(32)), trailing)
    big = T(label=("a",), prec="byte", dims=(64,))
    for name, at, rules in (
        ("inside", 32, (gap,)),
        ("start", 0, (gap,)),
        ("far", 96, (gap,)),
        ("odd", 71, (align, moved)),
        ("odd_inside", 7, (align,)),
    ):
        items = [big, T(id=1, dims=(0,), at=at), T(id=2, dims=(1,), at=96 if name == "far" else 64)]
        case(f"empty_{name}", f"a tensor without elements at {at}", file(*items), *rules)


def _notes(book: CaseBook) -> None:
    def case(name: str, title: str, made: bytes, rule: str, *tags: str) -> None:
        valid_case(book, f"note_{name}", title, made, "note", *tags, rules=(rule,), canonical=True)

    odd = (T(prec="byte", dims=(1,)), T(id=1, prec="double"))
    case("unaligned", "double at an odd address", file(*odd, alignment=1), "OCANNL-TEN-MAP")
    for prec, alignment, more in (
        ("half", 3, 0),
        ("single", 2, 2),
        ("double", 4, 4),
        ("uint4x32", 8, 0),
        ("int64", 100, 100),
    ):
        # More spaces than are needed move the payloads to where the case wants them.
        made = file(T(prec="byte", dims=(1,)), T(id=1, prec=prec), alignment=alignment, more=more)
        title = f"{prec} under alignment {alignment}"
        case(f"unaligned_{prec}", title, made, "OCANNL-TEN-MAP", f"precision:{prec}")
    for prec, neutral in {
        "byte": "256.",
        "uint16": "-1.",
        "int32": "0.5",
        "uint32": "nan",
        "int64": "9.22337203685478e+18",
        "uint64": "inf",
    }.items():
        made = file(T(prec=prec, dims=(4,), padding=(((1, 2),), neutral)))
        title = f"{prec} with a neutral value of {neutral}"
        case(f"neutral_{prec}", title, made, "OCANNL-PAD-INTEGRAL", "padding", f"precision:{prec}")
    made = file(W, training=R(version=1, seeds=None))
    case("no_seeds", "a training record without seeds", made, "OCANNL-TRN-OLD", "training")
    made = file(*PAIR, training=R())
    case("beyond", "a tensor that is not of the state", made, "OCANNL-TRN-BEYOND", "training")
