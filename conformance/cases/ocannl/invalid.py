"""Files that a reader must refuse for their tensors or their training record, each for one reason."""

from __future__ import annotations

from typing import Final

from ....spec.schema import OCANNL_INT_MAX, OCANNL_MAX_ALIGNMENT
from ..definition import CaseBook
from .assemble import Change, R, T, add, drop, file, put
from .parts import PAIR, W, invalid_case

__all__ = ["define"]

INT_MIN: Final = -OCANNL_INT_MAX - 1

# Extents whose product goes beyond 63 bits, by precision. Upstream's arithmetic wraps.
TOO_LARGE: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "square": ("single", (1 << 31, 1 << 31)),
    "then_0": ("single", (1 << 61, 4, 0)),
    "then_0_void": ("void", (1 << 61, 2, 0)),
    "void": ("void", (1 << 31, 1 << 31)),
    "wraps_to_8": ("single", ((1 << 61) + 2,)),
    "wraps_to_0": ("single", (1 << 61,)),
    "max_half": ("half", (OCANNL_INT_MAX,)),
    "max_twice": ("byte", (OCANNL_INT_MAX, OCANNL_INT_MAX)),
    "element": ("uint4x32", (1 << 58,)),
    "2_64": ("byte", (1 << 32, 1 << 32)),
    "digits": ("byte", (OCANNL_INT_MAX,) * 40),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _header(book)
    _identity(book)
    _sizes(book)
    _padding(book)
    _places(book)
    _overlaps(book)
    _training(book)
    _first(book)


def _header(book: CaseBook) -> None:
    for name, version in {"0": 0, "2": 2, "minus_1": -1, "max": OCANNL_INT_MAX}.items():
        made = file(W, header=(put("version", version),))
        invalid_case(book, f"version_{name}", f"version {version}", "OCANNL-HDR-VERSION", made)
    for name, alignment in {"0": 0, "minus_1": -1, "minus_32": -32, "min": INT_MIN}.items():
        made = file(W, header=(put("alignment", alignment),))
        invalid_case(book, f"alignment_{name}", f"alignment {alignment}", "OCANNL-HDR-ALIGN", made, tags=("alignment",))
    largest = OCANNL_MAX_ALIGNMENT
    for name, alignment in {"by_1": largest + 1, "double": 2 * largest, "2_32": 1 << 32, "max": OCANNL_INT_MAX}.items():
        made = file(W, header=(put("alignment", alignment),))
        title = f"alignment {alignment}"
        invalid_case(book, f"alignment_large_{name}", title, "OCANNL-HDR-ALIGNMAX", made, tags=("alignment",))


def _identity(book: CaseBook) -> None:
    for name, number in {"minus_1": -1, "min": INT_MIN}.items():
        made = file(W.but(put("id", number)))
        invalid_case(book, f"id_{name}", f"id {number}", "OCANNL-TEN-ID", made)
    made = file(W.but(put("id", "-0x1")))
    invalid_case(book, "id_minus_hex", "id -0x1", "OCANNL-TEN-ID", made, "OCANNL-REC-SPELLING")
    precisions = (
        "Fp4_prec",
        "single_prec",
        "SINGLE_PREC",
        "Single",
        "Single_prec ",
        "f32",
        "Complex_prec",
        "",
        "Ünt_prec",
    )
    for at, spelled in enumerate(precisions):
        made = file(W.but(put("prec", f'"{spelled}"')))
        invalid_case(book, f"precision_{at}", f"the precision {spelled!a}", "OCANNL-TEN-PREC", made)
    legacy, spelling = "OCANNL-TEN-LEGACY", "OCANNL-REC-SPELLING"
    twice: dict[str, tuple[str, tuple[T, ...], tuple[str, ...]]] = {
        "alike": ("the same record twice", (W, W), ()),
        "other": ("other shape, precision and label", (W, T(label=("x",), prec="byte", dims=(5,))), ()),
        "old_new": ("the empty namespace and the default one", (T(namespace=""), W), (legacy,)),
        "new_old": ("the default namespace and the empty one", (W, T(namespace="")), (legacy,)),
        "old_old": ("the empty namespace twice", (T(namespace=""), T(namespace="")), (legacy,)),
        "hex": ("10 and 0xa", (T(id=10), T(id=10).but(put("id", "0xa"))), (spelling,)),
        "zeros": ("7 and 007", (T(id=7), T(id=7).but(put("id", "007"))), (spelling,)),
        "minus": ("0 and -0", (T(), T().but(put("id", "-0"))), (spelling,)),
        "quoted": ("7 and the quoted 7", (T(id=7), T(id=7).but(put("id", '"\\055"'))), ()),
        "bytes": ("a namespace that is no UTF-8", (T(namespace=b"\xff"), T(namespace=b"\xff")), ()),
        "far": ("the first and the last of many", (*(T(id=at) for at in range(30)), T()), ()),
        "thrice": ("three times", (W, W, W), ()),
        "empty": ("of no elements", (T(dims=(0,)), T(dims=(0,))), ()),
    }
    for name, (title, items, company) in twice.items():
        invalid_case(book, f"twice_{name}", f"the same tensor twice: {title}", "OCANNL-TEN-DUP", file(*items), *company)


def _sizes(book: CaseBook) -> None:
    for name, dims in {"minus_2": (-2,), "pair": (-1, -2), "min": (INT_MIN,), "zero": (0, -1), "last": (2, -1)}.items():
        made = file(W.but(put("dims", dims)))
        invalid_case(book, f"dims_{name}", f"extents {list(dims)}", "OCANNL-TEN-DIM", made)
    for name, (prec, dims) in TOO_LARGE.items():
        size = 8 if name == "wraps_to_8" else 0
        made = file(T(prec=prec, dims=(size,), data=bytes(size)).but(put("dims", dims), put("byte_length", size)))
        shown = f"{len(dims)} times {dims[0]}" if len(dims) > 3 else list(dims)
        company = ("OCANNL-TEN-VOID",) if prec == "void" else ()
        tags = ("void",) if prec == "void" else ()
        title = f"{prec}, extents {shown}"
        invalid_case(book, f"dims_product_{name}", title, "OCANNL-TEN-SIZEOF", made, *company, tags=tags)
    margins = (((1 << 31) - 1, 1), (1 << 31, 0))
    made = file(T(dims=(1 << 31, 1 << 31), padding=(margins, "0."), data=b""))
    title = "extents whose product is too large, though nothing of them is stored"
    invalid_case(book, "dims_product_padded", title, "OCANNL-TEN-SIZEOF", made, tags=("padding",))
    lengths: dict[str, tuple[T, int]] = {
        "short": (W, 4),
        "short_by_1": (W, 7),
        "long": (W, 12),
        "long_by_1": (W, 9),
        "zero": (W, 0),
        "scalar": (T(dims=()), 0),
        "empty": (T(dims=(0,)), 4),
        "elements": (W, 2),
        "padded": (T(dims=(4,), padding=(((1, 1),), "0.")), 16),
        "void": (T(prec="void"), 2),
        "bits": (T(prec="half"), 8),
    }
    for name, (item, length) in lengths.items():
        right = len(item.payload())
        # The payload is as long as the record says, so that nothing else is wrong.
        made = file(T(prec=item.prec, dims=item.dims, padding=item.padding, data=bytes(length)))
        company = ("OCANNL-TEN-VOID",) if item.prec == "void" else ()
        title = f"{length} bytes instead of {right}: {item.prec}, extents {list(item.dims)}"
        invalid_case(book, f"length_{name}", title, "OCANNL-TEN-BYTES", made, *company)
    made = file(W.but(put("byte_length", OCANNL_INT_MAX)))
    company = ("OCANNL-TEN-OVERFLOW",)
    invalid_case(book, "length_max", "the largest byte length", "OCANNL-TEN-BYTES", made, *company)
    for name, length in {"minus_1": -1, "minus_8": -8, "min": INT_MIN}.items():
        made = file(W.but(put("byte_length", length)))
        invalid_case(book, f"length_{name}", f"a byte length of {length}", "OCANNL-TEN-LENGTH", made)


def _padding(book: CaseBook) -> None:
    def case(name: str, title: str, rule: str, item: T, *company: str) -> None:
        invalid_case(book, f"padding_{name}", title, rule, file(item), *company, tags=("padding",))

    four = T(dims=(4,), padding=(((1, 1),), "0."))
    for name, neutral in {"": "none", "_quoted": '"none"'}.items():
        made = four.but(put("padding", (((1, 1),), neutral)))
        case(f"legacy{name}", f"an old padding: its neutral value is {neutral}", "OCANNL-PAD-LEGACY", made)
    pairs: dict[str, tuple[tuple[int, int], ...]] = {"more": ((1, 1), (7, 7)), "none": (), "zeros": ((0, 0), (0, 0))}
    for name, margins in pairs.items():
        made = four.but(put("padding", (margins, "0.")))
        case(f"count_{name}", f"{len(margins)} pairs for one extent", "OCANNL-PAD-COUNT", made)
    made = T(dims=()).but(put("padding", (((0, 0),), "0.")))
    case("count_scalar", "a pair for a scalar", "OCANNL-PAD-COUNT", made)
    made = T(dims=(2, 3)).but(put("padding", (((0, 0),), "0.")))
    case("count_fewer", "one pair for two extents", "OCANNL-PAD-COUNT", made)
    for name, dims, stored, pair in (
        ("left", 2, 2, (-1, 1)),
        ("right", 2, 2, (1, -1)),
        ("grows", 1, 2, (-1, 0)),
        ("both", 1, 3, (-1, -1)),
        ("min", 4, 2, (INT_MIN, INT_MIN)),
    ):
        made = T(dims=(dims,), padding=((pair,), "0."), data=bytes(4 * stored))
        case(f"negative_{name}", f"padding {pair} of an extent of {dims}", "OCANNL-PAD-NEGATIVE", made)
    for name, dims, pair in (
        ("by_1", 2, (2, 1)),
        ("left", 2, (3, 0)),
        ("right", 2, (0, 3)),
        ("empty", 0, (0, 1)),
        ("max", 2, (OCANNL_INT_MAX, OCANNL_INT_MAX)),
        ("wraps", 4, (OCANNL_INT_MAX, OCANNL_INT_MAX - 1)),
    ):
        made = T(dims=(dims,), padding=((pair,), "0."), data=b"")
        case(f"fit_{name}", f"padding {pair} of an extent of {dims}", "OCANNL-PAD-FIT", made)
    made = T(dims=(2, 3), padding=(((2, 1), (2, 2)), "0."), data=bytes(4))
    case("fit_twice", "too much padding of both axes: one element less than none, twice", "OCANNL-PAD-FIT", made)
    made = T(dims=(0, 3), padding=(((0, 0), (2, 2)), "0."), data=b"")
    case("fit_nothing", "too much padding of an axis, and no elements anyway", "OCANNL-PAD-FIT", made)


def _places(book: CaseBook) -> None:
    byte = T(prec="byte", dims=(8,))
    for name, offset in {"minus_1": -1, "minus_32": -32, "min": INT_MIN}.items():
        made = file(byte.but(put("offset", offset)))
        invalid_case(book, f"offset_{name}", f"an offset of {offset}", "OCANNL-TEN-OFFSET", made)
    for name, item, offset in (
        ("max", byte, OCANNL_INT_MAX),
        ("wraps", byte, OCANNL_INT_MAX - 4),
        ("header", byte, OCANNL_INT_MAX - 8),
        ("empty", T(prec="byte", dims=(0,)), OCANNL_INT_MAX),
    ):
        made = file(item.but(put("offset", offset)))
        title = f"{len(item.payload())} bytes at {offset}"
        invalid_case(book, f"overflow_{name}", title, "OCANNL-TEN-OVERFLOW", made)
    made = file(T(prec="byte", dims=(OCANNL_INT_MAX,), data=b"").but(put("byte_length", OCANNL_INT_MAX)))
    invalid_case(book, "overflow_length", "a payload of all bytes there can be", "OCANNL-TEN-OVERFLOW", made)
    for name, item, offset in (
        ("by_1", byte, 1),
        ("end", byte, 8),
        ("far", byte, 1 << 40),
        ("empty_by_1", T(dims=(0,)), 1),
        ("empty_far", T(dims=(3, 0)), 1 << 60),
        ("void", T(prec="void"), 32),
    ):
        made = file(item.but(put("offset", offset)))
        company = ("OCANNL-TEN-VOID",) if item.prec == "void" else ()
        title = f"{len(item.payload())} bytes at {offset} of {len(item.payload())}"
        invalid_case(book, f"range_{name}", title, "OCANNL-TEN-RANGE", made, *company)
    made = file(T(prec="byte", dims=(1 << 40,), data=b"").but(put("byte_length", 1 << 40)))
    invalid_case(book, "range_length", "a payload of a terabyte", "OCANNL-TEN-RANGE", made)
    _truncated(book)


def _truncated(book: CaseBook) -> None:
    whole = file(*PAIR)
    data = 4 + int.from_bytes(whole[:4], "big")
    first, second = (len(item.payload()) for item in PAIR)
    for name, size in {
        "data": data,
        "first_1": data + 1,
        "first": data + first - 1,
        "gap": data + first,
        "second": len(whole) - second,
        "by_1": len(whole) - 1,
    }.items():
        title = f"{len(whole) - size} bytes are missing at the end"
        invalid_case(book, f"truncated_{name}", title, "OCANNL-TEN-RANGE", whole[:size])


def _overlaps(book: CaseBook) -> None:
    def case(name: str, title: str, *items: T, alignment: int = 32, company: tuple[str, ...] = ()) -> None:
        made = file(*items, alignment=alignment)
        invalid_case(book, f"overlap_{name}", title, "OCANNL-TEN-OVERLAP", made, *company)

    def byte(number: int, size: int, at: int) -> T:
        return T(id=number, prec="byte", dims=(size,), data=bytes(size), at=at)

    align, moved = "OCANNL-DAT-ALIGN", "OCANNL-DAT-ORDER"
    case("same", "two payloads at one place", byte(0, 8, 0), byte(1, 8, 0))
    case("one", "two payloads of one byte share it", byte(0, 1, 0), byte(1, 1, 0))
    case("shorter", "a shorter payload where a longer one begins", byte(0, 8, 0), byte(1, 2, 0))
    case("longer", "a longer payload where a shorter one begins", byte(0, 2, 0), byte(1, 8, 0))
    case("by_1", "a payload begins in the last byte of another", byte(0, 33, 0), byte(1, 8, 32))
    case("by_1_odd", "the same under alignment 1", byte(0, 8, 0), byte(1, 8, 7), alignment=1)
    case("unaligned", "the same at an odd place", byte(0, 8, 0), byte(1, 8, 7), company=(align,))
    case(
        "swapped",
        "a payload ends in the first byte of the one before",
        byte(0, 8, 32),
        byte(1, 33, 0),
        company=(moved,),
    )
    case("nested", "a payload within another", byte(0, 100, 0), byte(1, 8, 32))
    case("nested_first", "a payload around the one before", byte(0, 8, 32), byte(1, 100, 0), company=(moved,))
    items = [byte(0, 200, 0), byte(1, 8, 64), byte(2, 8, 128)]
    case("far", "a payload that reaches over the next into the one after that", *items)
    items = [byte(0, 40, 0), byte(1, 40, 32), byte(2, 40, 64)]
    case("chain", "three payloads, each over the end of the one before", *items)
    items = [byte(0, 8, 0), byte(1, 0, 0), byte(2, 8, 0)]
    case("empty_between", "two payloads at one place, and an empty one", *items, company=("OCANNL-DAT-GAP",))
    made = file(*(T(id=number, data=W.data, at=0) for number in range(2)))
    invalid_case(book, "overlap_equal", "two tensors that share equal bytes", "OCANNL-TEN-OVERLAP", made)


def _training(book: CaseBook) -> None:
    def case(name: str, title: str, rule: str, made: R, *company: str, items: tuple[T, ...] = (W,)) -> None:
        tags = ("training",)
        invalid_case(book, f"training_{name}", title, rule, file(*items, training=made), *company, tags=tags)

    for name, version in {"0": 0, "3": 3, "minus_1": -1, "max": OCANNL_INT_MAX}.items():
        for seeds in ((7,), None):
            more = "" if seeds else "_no_seeds"
            title = f"a training record of version {version}"
            case(f"version_{name}{more}", title, "OCANNL-TRN-VERSION", R(version=version, seeds=seeds))
    for key in ("step", "epoch", "position"):
        for name, number in {"minus_1": -1, "min": INT_MIN}.items():
            case(f"{key}_{name}", f"{key} {number}", "OCANNL-TRN-NEGATIVE", R().but(put(key, number)))
    doubled: dict[str, tuple[tuple[str | bytes, str | bytes], ...]] = {
        "alike": (("a", "1"), ("a", "1")),
        "other": (("a", "1"), ("a", "2")),
        "far": (("a", "1"), ("b", "2"), ("c", ""), ("a", "3")),
        "empty": (("", "1"), ("", "2")),
        "bytes": ((b"\xff", "1"), (b"\xff", "2")),
    }
    for name, extra in doubled.items():
        case(f"extra_{name}", f"a key of extra twice: {extra[0][0]!a}", "OCANNL-TRN-EXTRA", R(extra=extra))
    spelled: Change = put("extra", (("a", "1"), ('"\\097"', "1")))
    case("extra_spelled", "a key of extra twice, spelled differently", "OCANNL-TRN-EXTRA", R().but(spelled))
    missing, old = "OCANNL-TRN-SEEDS", "OCANNL-TRN-OLD"
    case("seeds_v1", "seeds in version 1", missing, R(version=1), old)
    case("seeds_v1_none", "an empty list of seeds in version 1", missing, R(version=1, seeds=()), old)
    case("seeds_v2", "no seeds in version 2", missing, R(seeds=None))
    case("state_empty", "an empty state", "OCANNL-TRN-EMPTY", R(state=()), items=())
    made = R(state=())
    case("state_empty_tensors", "an empty state of a file with tensors", "OCANNL-TRN-EMPTY", made, "OCANNL-TRN-BEYOND")
    legacy, spelling = "OCANNL-TRN-LEGACY", "OCANNL-REC-SPELLING"
    twice = "OCANNL-TRN-DUP"
    case("state_twice", "a tensor twice in the state", twice, R(state=(("ocannl", 0), ("ocannl", 0))))
    case("state_twice_old", "the same with the empty namespace", twice, R(state=(("ocannl", 0), ("", 0))), legacy)
    case("state_twice_older", "the empty namespace twice", twice, R(state=(("", 0), ("", 0))), legacy)
    made = R().but(put("state", (("ocannl", "0"), ("ocannl", "0x0"))))
    case("state_twice_hex", "the same, the id in hexadecimal", twice, made, spelling)
    state: tuple[tuple[str | bytes, int], ...] = (("ocannl", 0), ("ocannl", 1), ("ocannl", 0))
    case("state_twice_far", "the first and the last of three", twice, R(state=state), items=PAIR)
    absent: dict[str, tuple[str, int]] = {
        "id": ("ocannl", 1),
        "namespace": ("other", 0),
        "case": ("OCANNL", 0),
        "negative": ("ocannl", -1),
    }
    for name, named in absent.items():
        made = R(state=(("ocannl", 0), named))
        case(f"state_absent_{name}", f"the state names the tensor {named}", "OCANNL-TRN-ABSENT", made)
    made = R(state=(("ocannl", 1),))
    case("state_absent_only", "the state names no tensor of the file", "OCANNL-TRN-ABSENT", made, "OCANNL-TRN-BEYOND")
    case("state_absent_all", "a state, and no tensors", "OCANNL-TRN-ABSENT", R(), items=())


def _first(book: CaseBook) -> None:
    """Several reasons to refuse a file: which one comes first."""
    strange = T().but(put("prec", "Fp4_prec"), put("dims", ("2", "x")))
    made = file(strange, header=(put("version", 2),))
    title = "version 2, and records that version 1 does not know"
    company: tuple[str, ...] = ("OCANNL-TEN-PREC", "OCANNL-REC-INTEGER")
    invalid_case(book, "first_version", title, "OCANNL-HDR-VERSION", made, *company, tags=("first",))
    made = file(T(id=1).but(put("dims", (3,))), T(id=2).but(put("prec", "x")))
    title = "a wrong size, then an unknown precision"
    company = ("OCANNL-TEN-PREC",)
    invalid_case(book, "first_tensor", title, "OCANNL-TEN-BYTES", made, *company, tags=("first",), accepts=False)
    made = file(T().but(put("id", -1), put("offset", -1)))
    company = ("OCANNL-TEN-OFFSET",)
    invalid_case(book, "first_key", "a wrong id and a wrong offset", "OCANNL-TEN-ID", made, *company, tags=("first",))
    for name, comment in {"": "", "_block": "#| a |#", "_datum": "#;(b)"}.items():
        made = file(W.but(drop("dims"), add(comment, 0), add("(other x)")), dress=lambda made: made[:-1])
        title = f"no dims, and a list that is not closed; {comment or 'no comment'}"
        company = ("OCANNL-REC-UNKNOWN", "OCANNL-TXT-SYNTAX")
        tags = ("first", "sexp")
        invalid_case(book, f"first_text{name}", title, "OCANNL-REC-MISSING", made, *company, tags=tags)
    for name, atom in {"1": "a", "2": "ab", "string": '"ab"'}.items():
        made = file(W.but(add(atom, 0)), W.but(add(atom, 0)))
        title = f"the atom {atom} among the pairs of a tensor that stands there twice"
        invalid_case(book, f"first_atom_{name}", title, "OCANNL-REC-PAIRS", made, "OCANNL-TEN-DUP", tags=("first",))
        made = file(W, training=R(state=(("x", 0),)).but(add(atom, 0)))
        title = f"the atom {atom} among the pairs of a training record whose state is absent"
        company = ("OCANNL-TRN-ABSENT", "OCANNL-TRN-BEYOND")
        tags = ("first", "training")
        invalid_case(book, f"first_atom_training_{name}", title, "OCANNL-REC-PAIRS", made, *company, tags=tags)
    made = file(T(id=OCANNL_INT_MAX), T(id=5).but(drop("id")), T(id=6))
    title = "the largest id, and another tensor without one"
    invalid_case(book, "first_largest_id", title, "OCANNL-REC-MISSING", made, tags=("first", "integers"))
    made = file(T(), T(), training=R(version=3))
    company = ("OCANNL-TEN-DUP",)
    title = "a training record of version 3, and a tensor twice"
    invalid_case(book, "first_training", title, "OCANNL-TRN-VERSION", made, *company, tags=("first", "training"))
