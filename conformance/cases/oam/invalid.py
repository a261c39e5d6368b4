"""Files that a reader must refuse, each for one reason; and which of several reasons comes first."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....spec.layout import record_size
from ....spec.schema import OAM_MAX_SECTIONS, OamHeader, OamSection, OamTensor
from ..assemble import Image, T, assemble, config, optimizer, progress, tensors
from ..definition import CaseBook, Definition
from .parts import W, base, f32, image, ramp

__all__ = ["define"]

U64 = (1 << 64) - 1


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _header(book)
    _table(book)
    _checksums(book)
    _config(book)
    _index(book)
    _entries(book)
    _sizes(book)
    _quantized(book)
    _optimizer(book)
    _progress(book)
    _first(book)


def _add(
    book: CaseBook, name: str, title: str, rule: str, made: Image | bytes, *company: str, tags: tuple[str, ...] = ()
) -> None:
    make: Callable[[], bytes] = made.bytes if isinstance(made, Image) else lambda: made
    version = made.version if isinstance(made, Image) else 3
    record = rule.split("-")[1].lower()
    book.add(
        Definition(
            name=f"bad_{name}",
            title=title,
            make=make,
            verdict="invalid",
            rules=(rule,),
            company=company,
            versions=(version,),
            tags=(f"record:{record}", *tags),
        )
    )


def _header(book: CaseBook) -> None:
    whole = base().bytes()
    for size in (4, 32, 63):
        _add(book, f"short_{size}", f"a file of {size} bytes", "OAM-HDR-SHORT", whole[:size])
    for name, magic in {"lower": b"oam\0", "swapped": b"\0MAO", "no_nul": b"OAM ", "bit": b"NAM\0"}.items():
        _add(book, f"magic_{name}", f"magic {magic!r}", "OAM-HDR-MAGIC", base().set("header.magic", magic).seal())
    for version in (0, 4, 0x100, 0x10003, 0xFFFFFFFF):
        made = base().set("header.version", version).seal()
        _add(book, f"version_{version}", f"version {version}", "OAM-HDR-VERSION", made)
    for count in (0, OAM_MAX_SECTIONS + 1, 0xFFFFFFFF):
        made = base().set("header.section_count", count).seal()
        _add(book, f"count_{count}", f"{count} sections", "OAM-HDR-COUNT", made)
    made = base(1).set("header.section_count", OAM_MAX_SECTIONS).seal()
    title = f"{OAM_MAX_SECTIONS} sections, which are not too many, but most are of no kind"
    _add(book, f"count_{OAM_MAX_SECTIONS}", title, "OAM-SEC-TYPE", made, "OAM-SEC-START", "OAM-HDR-OLD")
    for name, change in {"short": -1, "long": 1, "zero": None, "2_32": 1 << 32}.items():
        made = base()
        made.set("header.total_size", 0 if change is None else len(made.data) + change).seal()
        _add(book, f"total_{name}", f"the total size is {name}", "OAM-HDR-TOTAL", made)
    for version in (1, 2, 3):
        made = base(version)
        del made.data[-1:]
        company = ("OAM-SEC-RANGE", "OAM-HDR-OLD")
        _add(book, f"truncated_1_v{version}", "the last byte is missing", "OAM-HDR-TOTAL", made, *company)
    made = base()
    del made.data[4096:]
    _add(book, "truncated_page", "only the first page is there", "OAM-HDR-TOTAL", made, "OAM-SEC-RANGE")
    made = base()
    made.data += b"\0"
    _add(book, "appended", "a byte more than the total size", "OAM-HDR-TOTAL", made, "OAM-FILE-TRAILING")
    made = base()
    del made.data[record_size(OamHeader) :]
    made.set("header.total_size", 64)
    _add(book, "table_missing", "the file ends with its header", "OAM-SEC-TABLE", made)
    made = base()
    del made.data[100:]
    made.set("header.total_size", 100)
    _add(book, "table_cut", "the file ends within the section table", "OAM-SEC-TABLE", made)
    for name, less, title, rule in (
        ("cut_by_1", 1, "the file ends a byte before the end of its section table", "OAM-SEC-TABLE"),
        ("only", 0, "the file ends with its section table", "OAM-SEC-RANGE"),
    ):
        made = base(1)
        del made.data[record_size(OamHeader) + len(made.sections) * record_size(OamSection) - less :]
        made.set("header.total_size", len(made.data))
        _add(book, f"table_{name}", title, rule, made, "OAM-HDR-OLD")


def _table(book: CaseBook) -> None:
    for kind in (0, 7, 0xFFFFFFFF):
        made = image(extra=[(kind, b"what")])
        _add(book, f"section_type_{kind}", f"section type {kind}", "OAM-SEC-TYPE", made)
    doubles = {
        "config": config(architecture="other"),
        "weights": tensors([W]),
        "state": tensors([W]),
        "optimizer": optimizer(ramp(24)),
        "progress": progress(),
        "legacy": b"x",
    }
    for name, body in doubles.items():
        whole = base()
        sections = [(known, whole.bytes()[at : at + size]) for known, at, size in whole.sections]
        if name == "legacy":
            sections.append((name, body))
        made = assemble([*sections, (name, body)])
        company = ("OAM-SEC-LEGACY",) if name == "legacy" else ()
        _add(book, f"section_twice_{name}", f"two {name} sections", "OAM-SEC-DUP", made, *company)
    for value in (1, 255):
        made = base().set("sections[1].compression", value).seal()
        _add(book, f"compression_{value}", f"compression {value}", "OAM-SEC-COMPRESSION", made)
    for name, value in {"1": 1, "size": len(tensors([W])), "2_40": 1 << 40, "max": U64}.items():
        made = base().set("sections[1].compressed_size", value).seal()
        _add(book, f"compressed_size_{name}", f"compressed size {value}", "OAM-SEC-COMPSIZE", made)
    for key, rule in (("compression", "OAM-SEC-COMPRESSION"), ("compressed_size", "OAM-SEC-COMPSIZE")):
        made = image(extra=[("legacy", b"cache")]).set(f"sections[3].{key}", 1).seal()
        _add(book, f"{key}_legacy", f"{key} 1 of a legacy section", rule, made, "OAM-SEC-LEGACY")
    _ranges(book)
    _overlaps(book)
    for name in ("config", "progress"):
        whole = base()
        rest = [(known, whole.bytes()[at : at + size]) for known, at, size in whole.sections if known != name]
        _add(book, f"missing_{name}", f"no {name} section", "OAM-SEC-MISSING", assemble(rest))
    made = assemble([("legacy", b"cache")])
    title = "a legacy kernel cache and nothing else"
    _add(book, "missing_both", title, "OAM-SEC-MISSING", made, "OAM-SEC-LEGACY", "OAM-OPT-ABSENT")


def _ranges(book: CaseBook) -> None:
    legacy = len(base().sections)
    where = f"sections[{legacy}]"

    def cache(offset: int, size: int, version: int = 3) -> Image:
        """Return a file whose legacy section claims this range; a reader looks at nothing else of it."""
        made = image(state=[T("s", "i32", (2,), ramp(8))], extra=[("legacy", b"")], version=version)
        return made.set(f"{where}.offset", offset).set(f"{where}.size", size).seal()

    end = len(cache(4096, 0).data)
    legacy_only = ("OAM-SEC-LEGACY",)
    old = ("OAM-SEC-LEGACY", "OAM-HDR-OLD")
    for name, offset, size in (("0", 0, 0), ("4095", 4095, 0), ("header", 0, 64), ("table", 64, 8)):
        _add(book, f"start_{name}", f"a section at {offset}", "OAM-SEC-START", cache(offset, size), *legacy_only)
    _add(book, "start_v1", "a section in the header, version 1", "OAM-SEC-START", cache(8, 0, 1), *old)
    for name, offset, size in (
        ("1", end, 1),
        ("empty", end + 1, 0),
        ("far", 1 << 40, 8),
        ("half", U64 >> 1, 0),
        ("last", U64 - 8, 8),
    ):
        title = f"a section from {offset}, {size} bytes long, ends past the file"
        _add(book, f"range_{name}", title, "OAM-SEC-RANGE", cache(offset, size), *legacy_only)
    _add(book, "range_v1", "a section past the file, version 1", "OAM-SEC-RANGE", cache(end, 1, 1), *old)
    for name, offset, size in (("size", 4096, U64), ("sum", 1 << 63, 1 << 63), ("by_1", U64, 1)):
        made = cache(offset, size)
        _add(book, f"overflow_{name}", f"{offset} + {size} reaches 2^64", "OAM-SEC-OVERFLOW", made, *legacy_only)

    end = len(base().data)
    _add(
        book,
        "start_state",
        "a state section that begins a byte early",
        "OAM-SEC-START",
        base().set("sections[2].offset", 4095).seal(),
    )
    _add(
        book,
        "range_state",
        "a state section that begins at the end of the file",
        "OAM-SEC-RANGE",
        base().set("sections[2].offset", end).seal(),
    )
    _add(
        book,
        "overflow_state",
        "a state section of 2^64 - 1 bytes",
        "OAM-SEC-OVERFLOW",
        base().set("sections[2].size", U64).seal(),
    )


def _overlaps(book: CaseBook) -> None:
    # The optimizer ends in four zeros and the progress begins with them: they share these bytes.
    shared = image(opt=optimizer(ramp(20) + bytes(4)))
    at, size = shared.section("progress")
    body = bytes(shared.data[at : at + size])
    shared.data[at - 4 :] = body
    shared.set("header.total_size", len(shared.data)).set("sections[3].offset", at - 4).seal()
    _add(book, "overlap_shared", "two sections share four bytes that suit both", "OAM-SEC-OVERLAP", shared)
    whole = base()
    weights = whole.section("weights")
    at = len(whole.sections)

    def cache(offset: int, size: int) -> Image:
        made = image(state=[T("s", "i32", (2,), ramp(8))], extra=[("legacy", b"")])
        return made.set(f"sections[{at}].offset", offset).set(f"sections[{at}].size", size).seal()

    rules = ("OAM-SEC-LEGACY", "OAM-SEC-BODIES")
    start, size = weights
    for name, offset, length in (
        ("by_1", start + size - 1, 8),
        ("front", start, 1),
        ("nested", start + 8, 16),
        ("same", start, size),
        ("around", start, 5000),
        ("empty_inside", start + 1, 0),
        ("empty_last", start + size - 1, 0),
    ):
        title = f"a section of {length} bytes at {offset}, weights being at {start} to {start + size}"
        _add(book, f"overlap_{name}", title, "OAM-SEC-OVERLAP", cache(offset, length), *rules)


def _checksums(book: CaseBook) -> None:
    whole = base()
    for version in (2, 3):
        for name, offset in {"reserved": 63, "flags": 12, "table": 64 + 8, "table_end": 64 + 64 * 5 - 1}.items():
            made = base(version).flip(offset, 0x10)
            company = ("OAM-HDR-RESERVED", "OAM-HDR-FLAGS", "OAM-SEC-FLAGS", "OAM-SEC-RESERVED", "OAM-HDR-OLD")
            title = f"a bit of byte {offset} is wrong, version {version}"
            _add(book, f"manifest_{name}_v{version}", title, "OAM-HDR-CHECKSUM", made, *company)
    made = base().set("header.checksum", 0)
    _add(book, "manifest_zero", "the header's checksum is zero", "OAM-HDR-CHECKSUM", made)
    made = base()
    made.version = 1
    made.seal(payloads=False)
    made.version = 3
    _add(book, "manifest_xor", "the header has the checksum of version 1", "OAM-HDR-CHECKSUM", made)
    for name, change in {"bit": 1, "zero": None}.items():
        made = base(1)
        at, size = made.place("header.checksum")
        if change is None:
            made.data[at : at + size] = bytes(size)
        else:
            made.flip(at, change)
        _add(book, f"xor_{name}", f"version 1, the checksum's {name}", "OAM-HDR-XOR", made, "OAM-HDR-OLD")
    made = base(1)
    made.version = 3
    made.seal(payloads=False)
    made.version = 1
    _add(book, "xor_manifest", "version 1 with the checksum of version 3", "OAM-HDR-XOR", made, "OAM-HDR-OLD")
    for version in (1, 2, 3):
        for name in ("config", "weights", "state", "optimizer", "progress"):
            made = base(version)
            offset, size = made.section(name)
            made.flip(
                offset + (size - 1 if name not in ("config", "progress") else 34 if name == "config" else 5), 0x20
            )
            title = f"a bit of the {name} section is wrong, version {version}"
            _add(book, f"payload_{name}_v{version}", title, "OAM-SEC-CHECKSUM", made, "OAM-HDR-OLD")
    made = image(extra=[("legacy", b"cache")])
    made.flip(made.section("legacy")[0])
    _add(book, "payload_legacy", "a bit of a legacy section is wrong", "OAM-SEC-CHECKSUM", made, "OAM-SEC-LEGACY")
    made = image(extra=[("legacy", b"")]).set(f"sections[{len(whole.sections) - 1}].checksum", 0)
    made.seal(payloads=False)
    title = "an empty section's checksum is zero, not the offset basis"
    _add(book, "payload_empty_zero", title, "OAM-SEC-CHECKSUM", made, "OAM-SEC-LEGACY")


def _config(book: CaseBook) -> None:
    for size in (0, 107):
        made = image(conf=config()[:size])
        company = ("OAM-TEN-ALIGN",) if size else ()
        _add(book, f"config_short_{size}", f"a config section of {size} bytes", "OAM-CFG-SHORT", made, *company)
    made = image(conf=config(architecture=b"a" * 32))
    _add(book, "config_no_nul", "an architecture of 32 bytes without a NUL", "OAM-CFG-NUL", made)
    for key in ("weight_dtype", "state_dtype", "compute_dtype"):
        for code in (15, 255):
            made = image(conf=config(b"", **{key: code}))
            _add(book, f"config_{key}_{code}", f"{key} {code}", "OAM-CFG-DTYPE", made)
    for name, stated in {"short": 7, "long": 9, "zero": 0, "max": 0xFFFFFFFF}.items():
        made = image(conf=config(b"12345678", arch_config_size=stated))
        _add(book, f"config_size_{name}", f"arch_config_size {stated} for 8 bytes", "OAM-CFG-SIZE", made)


def _index(book: CaseBook) -> None:
    for name in ("weights", "state"):
        kept: dict[str, bytes] = {name: tensors([W])}
        for size in (0, 1, 7):
            made = image(**{"weights": None, "opt": optimizer(), name: kept[name][:size]})  # type: ignore[arg-type]
            _add(book, f"index_short_{name}_{size}", f"a {name} section of {size} bytes", "OAM-IDX-SHORT", made)
        for label, value in {"low": b"\1\0\0\0", "high": b"\0\0\0\x80"}.items():
            made = base().set(f"{name}.reserved", value).seal()
            _add(book, f"index_reserved_{name}_{label}", f"{name}.reserved is not zero", "OAM-IDX-RESERVED", made)
        for count in (2, 20, 1 << 29, 0xFFFFFFFF):
            made = base().set(f"{name}.count", count).seal()
            _add(book, f"index_count_{name}_{count}", f"{count} entries where one is", "OAM-IDX-COUNT", made)
    made = image(tensors([])[:4] + b"\0\0\0\1", opt=optimizer())
    _add(book, "index_reserved_empty", "the same without tensors", "OAM-IDX-RESERVED", made, "OAM-IDX-EMPTY")
    made = image(tensors([W])[: 8 + record_size(OamTensor) - 1], opt=optimizer())
    _add(book, "index_count_cut", "the entry lacks its last byte", "OAM-IDX-COUNT", made)


def _entries(book: CaseBook) -> None:
    def spoil(path: str, value: int | bytes, section: str = "weights") -> Image:
        return base().set(f"{section}[0].{path}", value).seal()

    for section in ("weights", "state"):
        label = "" if section == "weights" else "_state"
        made = spoil("name", b"n" * 128, section)
        _add(book, f"name_no_nul{label}", f"a name of 128 bytes, {section}", "OAM-TEN-NUL", made)
        _add(book, f"name_empty{label}", f"no name, {section}", "OAM-TEN-EMPTY", spoil("name", bytes(128), section))
        for code in (15, 255):
            made = spoil("dtype", code, section)
            _add(book, f"dtype_{code}{label}", f"dtype {code}, {section}", "OAM-TEN-DTYPE", made)
        for rank in (9, 255):
            made = spoil("rank", rank, section)
            _add(book, f"rank_{rank}{label}", f"rank {rank}, {section}", "OAM-TEN-RANK", made)
        for encoding in (3, 255):
            made = spoil("encoding", encoding, section)
            _add(book, f"encoding_{encoding}{label}", f"encoding {encoding}, {section}", "OAM-TEN-ENCODING", made)
        for at in range(4):
            made = spoil("reserved", bytes(at) + b"\1" + bytes(3 - at), section)
            _add(book, f"reserved_{at}{label}", f"reserved byte {at}, {section}", "OAM-TEN-RESERVED", made)
        pair = [T("a", "u8", (2,), b"\1\2"), T("b", "u8", (2,), b"\3\4")]
        twice = [T("a", "u8", (2,), b"\1\2"), T("a", "u8", (2,), b"\3\4")]
        both: dict[str, list[T]] = {"weights": [W], section: twice}
        made = image(**both, opt=optimizer())  # type: ignore[arg-type]
        notes = ("OAM-OPT-MOMENTS",)
        _add(book, f"name_twice{label}", f"a name twice, {section}", "OAM-TEN-DUP", made, *notes)
        for name, first, second in (("by_1", 0, 1), ("same", 0, 0), ("swapped", 1, 0)):
            both = {"weights": [W], section: pair}
            made = image(**both, opt=optimizer())  # type: ignore[arg-type]
            made.set(f"{section}[0].blob_offset", first).set(f"{section}[1].blob_offset", second).seal()
            places = (*notes, "OAM-TEN-GAP", "OAM-TEN-ORDER")
            _add(book, f"blob_overlap_{name}{label}", f"payloads overlap, {section}", "OAM-TEN-OVERLAP", made, *places)
    made = image([T("a", "u8", (1,), b"\1"), T("b", "u8", (1,), b"\1")], opt=optimizer())
    made.set("weights[1].blob_offset", 0).seal()
    _add(book, "blob_overlap_one", "two payloads of one byte share it", "OAM-TEN-OVERLAP", made, *notes, "OAM-TEN-GAP")
    made = image([T(b"\0old", "u8", (1,), b"\1")], opt=optimizer())
    company = (*notes, "OAM-TEN-TAIL")
    _add(book, "name_nul_first", "a name that begins with a NUL is empty", "OAM-TEN-EMPTY", made, *company)
    made = image([T("a", "u8", (1,), b"\1"), T(b"a\0b", "u8", (1,), b"\2")], opt=optimizer())
    _add(book, "name_twice_tails", "names that differ after their NUL are the same", "OAM-TEN-DUP", made, *company)
    many = [T(f"t{at}", "u8", (1,), b"\1") for at in range(40)] + [T("t0", "u8", (1,), b"\2")]
    made = image(many, opt=optimizer())
    _add(book, "name_twice_far", "the first and the last of 41 tensors", "OAM-TEN-DUP", made, "OAM-OPT-MOMENTS")
    nested = [T("a", "u8", (8,), ramp(8)), T("b", "u8", (2,), b"\1\2"), T("c", "u8", (2,), b"\1\2")]
    made = image(nested, opt=optimizer())
    made.set("weights[1].blob_offset", 2).set("weights[2].blob_offset", 6).seal()
    _add(book, "blob_overlap_nested", "two payloads within a third", "OAM-TEN-OVERLAP", made, *notes)


def _sizes(book: CaseBook) -> None:
    def one(shape: tuple[int, ...], dtype: str = "f32", data: bytes = b"1234", **fields: int) -> Image:
        made = image([T("w", dtype, shape, data)], opt=optimizer())
        for key, value in fields.items():
            made.set(f"weights[0].{key}", value)
        return made.seal()

    add = functools.partial(_add, book)
    company = ("OAM-TEN-BYTES",)
    add("blob_range_offset", "a payload begins past the blob", "OAM-TEN-RANGE", one((1,), blob_offset=5))
    add("blob_range_by_1", "a payload ends a byte past the blob", "OAM-TEN-RANGE", one((1,), blob_offset=1))
    add("blob_range_size", "a payload is longer than the blob", "OAM-TEN-RANGE", one((2,), num_bytes=8))
    empty = one((0,), data=b"", blob_offset=1)
    add("blob_range_empty", "a payload of no bytes, one past an empty blob", "OAM-TEN-RANGE", empty)
    add("blob_range_huge", "offset 2^63", "OAM-TEN-RANGE", one((0,), data=b"", blob_offset=1 << 63))
    add("blob_range_max", "offset 2^64 - 1, no bytes", "OAM-TEN-RANGE", one((0,), data=b"", blob_offset=U64))
    add("blob_overflow", "offset + bytes reaches 2^64", "OAM-TEN-OVERFLOW", one((1,), blob_offset=U64 - 3))
    add(
        "blob_overflow_size",
        "2^64 - 1 bytes at 1",
        "OAM-TEN-OVERFLOW",
        one((1,), blob_offset=1, num_bytes=U64),
        *company,
    )
    for name, shape in {
        "2_32": (1 << 32, 1 << 32),
        "then_zero": (1 << 63, 4, 0),
        "exactly_then_zero": (1 << 32, 1 << 32, 0),
        "max": (U64, 2),
        "rank_8": (256,) * 8,
        "late": (1, 1, 1, 1 << 40, 1, 1, 1, 1 << 40),
    }.items():
        data = b"" if 0 in shape else b"1234"  # so that nothing but the product is wrong
        add(f"elements_{name}", f"the extents {list(shape)}", "OAM-TEN-ELEMENTS", one(shape, data=data))
    for name, made in {
        "extent": one(((1 << 32) + 1,)),
        "num_bytes": one((1,), num_bytes=(1 << 32) + 4),
        "blob_offset": one((1,), blob_offset=1 << 32),
    }.items():
        rule = "OAM-TEN-BYTES" if name == "extent" else "OAM-TEN-RANGE"
        add(f"tensor_2_32_{name}", f"right if {name} is cut to 32 bits", rule, made, *company)
    for name, dtype, shape in (("f32", "f32", (1 << 62,)), ("c128", "c128", (1 << 60,)), ("f64", "f64", (U64,))):
        made = one(shape, dtype)
        add(f"sizeof_{name}", f"{dtype} of {list(shape)} takes 2^64 bytes or more", "OAM-TEN-SIZEOF", made)
    for block in (1, 32, 255):
        add(f"block_{block}", f"a dense tensor with block size {block}", "OAM-TEN-BLOCK", one((1,), block_size=block))
    add("bytes_short", "2 elements, 4 bytes", "OAM-TEN-BYTES", one((2,)))
    add("bytes_long", "one element, 8 bytes", "OAM-TEN-BYTES", one((1,), data=bytes(8)))
    add("bytes_none", "one element, no bytes", "OAM-TEN-BYTES", one((1,), data=b""))
    add("bytes_scalar", "a scalar without bytes", "OAM-TEN-BYTES", one((), data=b""))
    add("bytes_zero", "no elements, 4 bytes", "OAM-TEN-BYTES", one((0,)))
    add("bytes_zero_late", "[3, 0] with 4 bytes", "OAM-TEN-BYTES", one((3, 0)))
    add("bytes_dtype", "one f64, 4 bytes", "OAM-TEN-BYTES", one((1,), "f64"), "OAM-TEN-ALIGN")
    add("bytes_max", "2^64 - 1 elements of u8, 4 bytes", "OAM-TEN-BYTES", one((U64,), "u8"))
    add("bytes_wrap", "a size that wraps to 4 in 64 bits: 2^62 + 1 elements", "OAM-TEN-SIZEOF", one(((1 << 62) + 1,)))
    add(
        "elements_wrap",
        "a product that wraps to 1: 3 x 0xaaaaaaaaaaaaaaab",
        "OAM-TEN-ELEMENTS",
        one((3, 0xAAAAAAAAAAAAAAAB)),
    )


def _quantized(book: CaseBook) -> None:
    sizes = {"q4": 20, "q8": 36}

    def one(encoding: str, section: str = "weights", version: int = 3, **fields: int) -> Image:
        item = T("w", "f32", (32,), ramp(sizes[encoding] - 4) + f32(0.5), encoding)
        tensors_of: dict[str, list[T] | None] = {"weights": None, section: [item]}
        made = image(**tensors_of, opt=optimizer(), version=version)  # type: ignore[arg-type]
        for key, value in fields.items():
            made.set(f"{section}[0].{key}", value)
        return made.seal()

    for encoding in sizes:

        def add(name: str, title: str, rule: str, made: Image, *company: str, encoding: str = encoding) -> None:
            company += ("OAM-OPT-MOMENTS",)
            _add(book, f"{encoding}_{name}", f"{encoding}: {title}", rule, made, *company, tags=("quantized",))

        for version in (1, 2):
            made = one(encoding, version=version)
            add(f"v{version}", f"in version {version}", "OAM-QNT-VERSION", made, "OAM-HDR-OLD")
        add("state", "in state", "OAM-QNT-STATE", one(encoding, "state"))
        for dtype, code in {"bf16": 1, "f16": 2, "u8": 5, "f64": 6}.items():
            add(f"dtype_{dtype}", f"of {dtype}", "OAM-QNT-DTYPE", one(encoding, dtype=code), "OAM-TEN-ALIGN")
        for block in (0, 16, 31, 33, 64, 255):
            add(f"block_{block}", f"with block size {block}", "OAM-QNT-BLOCK", one(encoding, block_size=block))
        made = image([T("w", "f32", (0,), b"", encoding)], opt=optimizer())
        add("empty", "without elements", "OAM-QNT-EMPTY", made)
        made = image([T("w", "f32", (33,), bytes(sizes[encoding]), encoding)], opt=optimizer())
        add("bytes_short", "33 elements in one block", "OAM-TEN-BYTES", made)
        made = image([T("w", "f32", (2, 3), bytes(2 * sizes[encoding]), encoding)], opt=optimizer())
        add("bytes_rows", "a block for each row", "OAM-TEN-BYTES", made)
        made = image([T("w", "f32", (32,), bytes(sizes[encoding] - 4), encoding)], opt=optimizer())
        add("bytes_no_scale", "without its scale", "OAM-TEN-BYTES", made)
        made = image([T("w", "f32", (32,), bytes(128), encoding)], opt=optimizer())
        add("bytes_dense", "with the bytes of a dense tensor", "OAM-TEN-BYTES", made)
    made = image([T("w", "f32", (U64,), b"", "q8")], opt=optimizer())
    _add(book, "q8_sizeof", "q8 of 2^64 - 1 elements", "OAM-TEN-SIZEOF", made, tags=("quantized",))
    made = image([T("w", "f32", (U64,), b"", "q4")], opt=optimizer())
    _add(
        book,
        "q4_max",
        "q4 of 2^64 - 1 elements fits into 64 bits, but has no bytes",
        "OAM-TEN-BYTES",
        made,
        tags=("quantized",),
    )


def _optimizer(book: CaseBook) -> None:
    for size in (0, 1, 67):
        made = image(opt=optimizer()[:size] or b"\0")
        if size == 0:
            made = assemble([("config", config()), ("optimizer", b""), ("progress", progress())])
        _add(book, f"optimizer_short_{size}", f"an optimizer section of {size} bytes", "OAM-OPT-SHORT", made)
    made = image(opt=optimizer(ramp(24), kind=b"A" * 16))
    _add(book, "optimizer_no_nul", "a kind of 16 bytes without a NUL", "OAM-OPT-NUL", made)
    kinds = {
        "empty": b"",
        "lower": b"adamw",
        "upper": b"ADAM",
        "space": b"Adam ",
        "prefix": b"Ada",
        "longer": b"AdamWX",
        "lion": b"Lion",
        "not_utf8": b"Adam\xff",
        "wide": "Ädam".encode(),
    }
    for name, kind in kinds.items():
        made = image(opt=optimizer(ramp(24), kind=kind))
        _add(book, f"optimizer_kind_{name}", f"the optimizer {kind!r}", "OAM-OPT-KIND", made)
    for name, count in {"max": U64, "2_61": 1 << 61, "edge": (1 << 61) - 8, "wrap": (1 << 61) + 6}.items():
        made = image(opt=optimizer(ramp(24), moment_count=count))
        title = f"{count} moments take 2^64 bytes or more"
        _add(book, f"optimizer_overflow_{name}", title, "OAM-OPT-OVERFLOW", made, "OAM-OPT-MOMENTS")
    made = image(opt=optimizer(ramp(24), b"", kind="Muon", moment_count=1 << 62))
    _add(book, "optimizer_overflow_muon", "the same for Muon", "OAM-OPT-OVERFLOW", made, "OAM-OPT-MOMENTS")
    wrong: dict[str, tuple[str, bytes]] = {
        "few": ("5 moments stated, 6 there", optimizer(ramp(24), moment_count=5)),
        "many": ("7 moments stated, 6 there", optimizer(ramp(24), moment_count=7)),
        "short": ("the last byte is missing", optimizer(ramp(24))[:-1]),
        "2_32": ("a count that is right if it is cut to 32 bits", optimizer(ramp(24), moment_count=(1 << 32) + 6)),
        "first_only": ("Adam with its first moment only", optimizer(ramp(24), b"", kind="Adam")),
        "muon_both": ("Muon with two moments", optimizer(ramp(24), kind="Muon")),
        "odd": ("a byte too many", optimizer(ramp(24)) + b"\0"),
        "2_60": ("2^60 moments", optimizer(ramp(24), moment_count=1 << 60)),
    }
    for name, (title, body) in wrong.items():
        _add(book, f"optimizer_size_{name}", title, "OAM-OPT-SIZE", image(opt=body), "OAM-OPT-MOMENTS")


def _progress(book: CaseBook) -> None:
    for size in (0, 1, 103, 105, 208):
        body = (progress() + progress())[:size]
        _add(book, f"progress_{size}", f"a progress section of {size} bytes", "OAM-PRG-SIZE", image(prog=body))
    made = image(prog=progress(metric_name=b"m" * 32))
    _add(book, "progress_no_nul", "a metric name of 32 bytes without a NUL", "OAM-PRG-NUL", made)


def _first(book: CaseBook) -> None:
    """Files with several faults: the one that a reader comes upon first is the one it tells."""

    def add(name: str, title: str, rule: str, made: Image, *company: str) -> None:
        _add(book, f"first_{name}", title, rule, made, *company, "OAM-OPT-MOMENTS", tags=("first",))

    company: tuple[str, ...]
    made = base().set("header.version", 9).set("header.magic", b"oam\0").seal()
    add("magic", "magic before version", "OAM-HDR-MAGIC", made, "OAM-HDR-VERSION")
    made = base().set("header.section_count", 0).set("header.version", 9)
    add("version", "version before section count", "OAM-HDR-VERSION", made, "OAM-HDR-COUNT", "OAM-HDR-CHECKSUM")
    made = base().set("header.section_count", 99).set("header.total_size", 1)
    add("count", "section count before total size", "OAM-HDR-COUNT", made, "OAM-HDR-TOTAL", "OAM-HDR-CHECKSUM")
    made = base().set("header.total_size", 1)
    add("total", "total size before the header's checksum", "OAM-HDR-TOTAL", made, "OAM-HDR-CHECKSUM")
    made = image(extra=[(9, b"x")]).set("header.reserved", b"\1" * 32)
    company = ("OAM-HDR-RESERVED", "OAM-SEC-TYPE")
    add("manifest", "the header's checksum before a section's type", "OAM-HDR-CHECKSUM", made, *company)
    made = image(extra=[("legacy", b"a"), ("legacy", b"b")]).set("sections[5].compression", 1).seal()
    add(
        "twice", "a second section before its compression", "OAM-SEC-DUP", made, "OAM-SEC-COMPRESSION", "OAM-SEC-LEGACY"
    )
    made = base().set("sections[1].compression", 1).set("sections[1].size", U64).seal()
    add("compression", "compression before range", "OAM-SEC-COMPRESSION", made, "OAM-SEC-OVERFLOW", "OAM-SEC-BODIES")
    made = base().flip(base().section("config")[0] + 34).set("sections[2].compressed_size", 1).seal(payloads=False)
    add("checksum", "a payload's checksum before the next entry", "OAM-SEC-CHECKSUM", made, "OAM-SEC-COMPSIZE")
    whole = base(1)
    made = whole.set("sections[2].offset", whole.section("weights")[0]).seal().set("header.checksum", 1)
    company = ("OAM-HDR-XOR", "OAM-HDR-OLD", "OAM-SEC-PAGES", "OAM-SEC-GAP", "OAM-FILE-PADDING", "OAM-TEN-RANGE")
    add("overlap", "an overlap before version 1's checksum", "OAM-SEC-OVERLAP", made, *company)
    made = assemble([("progress", progress())], version=1).set("header.checksum", 1)
    company = ("OAM-SEC-MISSING", "OAM-HDR-OLD", "OAM-OPT-ABSENT")
    add("xor", "version 1's checksum before a missing section", "OAM-HDR-XOR", made, *company)
    made = assemble([("progress", progress()[:4])])
    add("missing", "a missing section before a bad one", "OAM-SEC-MISSING", made, "OAM-PRG-SIZE", "OAM-OPT-ABSENT")
    made = image(weights=tensors([W])[:4], conf=config(b"1", weight_dtype=99, arch_config_size=9))
    company = ("OAM-CFG-SIZE", "OAM-IDX-SHORT")
    add("config", "a config's dtype before its size, and both before weights", "OAM-CFG-DTYPE", made, *company)
    made = image(weights=tensors([W])[:4], state=tensors([W])[:5], opt=optimizer(kind="x"))
    add("weights", "weights before state and optimizer", "OAM-IDX-SHORT", made, "OAM-OPT-KIND")
    made = image(opt=optimizer(ramp(24), kind="x", moment_count=1), prog=progress()[:9])
    add(
        "optimizer",
        "an optimizer's kind before its size, and both before progress",
        "OAM-OPT-KIND",
        made,
        "OAM-PRG-SIZE",
    )
    pair = [T("a", "u8", (4,), ramp(4)), T("a", "u8", (4,), ramp(4))]
    made = image(pair, opt=optimizer())
    made.set("weights[0].num_bytes", 99).set("weights[1].encoding", 9).set("weights[1].dtype", 99).seal()
    company = ("OAM-TEN-DTYPE", "OAM-TEN-ENCODING", "OAM-TEN-RANGE", "OAM-TEN-BYTES")
    add("name", "all names and codes before any payload", "OAM-TEN-DUP", made, *company)
    made = image([T("a", "u8", (4,), ramp(4))], opt=optimizer())
    made.set("weights[0].num_bytes", 5).set("weights[0].block_size", 7).seal()
    company = ("OAM-TEN-BYTES", "OAM-TEN-BLOCK")
    add("range", "a payload's range before its size", "OAM-TEN-RANGE", made, *company)
    pair = [T("a", "u8", (4,), ramp(4)), T("b", "u8", (4,), ramp(4))]
    made = image(pair, opt=optimizer()).set("weights[1].blob_offset", 0).set("weights[1].num_bytes", 3).seal()
    add("bytes", "a byte count before overlaps", "OAM-TEN-BYTES", made)
