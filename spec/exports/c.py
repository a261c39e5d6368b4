"""The formats as a C header: packed structs with assertions on their layout, enumerations, constants, tables.

It is valid C11 and C++17 and needs nothing but the standard library. All names begin with ``ckptspec_`` or
``CKPTSPEC_``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from construct import Struct

from ..declarations import Content, Part
from ..dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES
from ..layout import Field, fields, record_size
from ..schema import (
    FRAMES,
    OAM_BLOCK_ENCODINGS,
    OAM_MAGIC,
    OAM_PLACES,
    OCANNL_PRECISION_SUFFIX,
)
from .common import (
    RECORD_DOCS,
    TITLES,
    Constant,
    Member,
    constants,
    contents,
    enums,
    key_lines,
    records,
    wrapped,
)

__all__ = ["c"]

_WIDTH: Final = 110
_PREFIX: Final = "ckptspec"
_NOTE: Final = (
    "Records are packed. Their numbers are little-endian, but where a field says otherwise: on a little-endian "
    "machine a record can be copied with memcpy from the file into its struct; elsewhere its numbers have to be "
    "swapped. A field of float is an IEEE 754 binary32. Fields of text are UTF-8, ended by the first NUL."
)
_CALLERS: Final = (
    "Nothing here checks a file: what readers refuse and writers must not write is in the specification's rules."
)


def c(formats: Sequence[str]) -> str:
    """Return a header for some formats."""
    guard = f"CKPTSPEC_{formats[0].upper()}_H" if len(formats) == 1 else "CKPTSPEC_H"
    lines = [
        *_comment("\n\n".join([f"{', '.join(TITLES[name] for name in formats)}.", _NOTE, _CALLERS])),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *_assertion(),
        "",
    ]
    for name in formats:
        lines += _oam() if name == "oam" else _framed(name)
    lines += [f"#endif /* {guard} */"]
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str = "") -> list[str]:
    text = text.replace("*/", "* /")
    if len(indent) + len(text) + 6 <= _WIDTH and "\n" not in text:
        return [f"{indent}/* {text} */"]
    first, *rest = wrapped(text, _WIDTH, f"{indent} * ")
    return [f"{indent}/*{first.removeprefix(indent + ' *')}", *rest, f"{indent} */"]


def _title(text: str) -> list[str]:
    return [f"/* {text} {'-' * (_WIDTH - 7 - len(text))} */", ""]


def _assertion() -> list[str]:
    return [
        "#ifndef CKPTSPEC_ASSERT",
        "#ifdef __cplusplus",
        "#define CKPTSPEC_ASSERT(condition, message) static_assert(condition, message)",
        "#else",
        "#define CKPTSPEC_ASSERT(condition, message) _Static_assert(condition, message)",
        "#endif",
        "#endif",
        'CKPTSPEC_ASSERT(sizeof(float) == 4, "a float is no binary32");',
    ]


# --------------------------------------------------------------------------------------------- constants, enumerations


def _number(constant: Constant) -> str:
    return str(constant.value) if constant.value < 1 << 31 else f"UINT64_C({constant.value:#x})"


def _constants(format: str) -> Iterator[str]:
    for constant in constants(format):
        name = constant.name if constant.name.startswith(format.upper()) else f"{format.upper()}_{constant.name}"
        yield from _comment(constant.doc)
        yield f"#define CKPTSPEC_{name} {_number(constant)}"
    yield ""


def _limits(format: str, name: str, record: Struct) -> Iterator[str]:
    """Yield the least and the largest value that readers take of a field, where that is not all it can hold."""
    for item in fields(record):
        if item.least is None or item.most is None:
            continue
        macro = f"CKPTSPEC_{format.upper()}_{name.upper()}_{item.name.upper()}"
        yield f"#define {macro}_LEAST {item.least}"
        yield f"#define {macro}_MOST {item.most}"


def _enum(format: str, name: str, members: Sequence[Member]) -> Iterator[str]:
    yield f"enum {_PREFIX}_{format}_{name} {{"
    for at, member in enumerate(members):
        yield from _comment(member.doc, "    ")
        last = "" if at == len(members) - 1 else ","
        yield f"    CKPTSPEC_{format.upper()}_{name.upper()}_{member.name.upper()} = {member.code}{last}"
    yield "};"
    yield ""


# ------------------------------------------------------------------------------------------------------------- records


def _type(item: Field) -> str:
    if item.role == "text":
        return "char"
    if item.role in ("reserved", "bytes"):
        return "uint8_t"
    if item.role == "f32":
        return "float"
    return f"{'' if item.type.startswith('i') else 'u'}int{item.bits}_t"


def _struct(format: str, name: str, record: Struct, doc: str) -> Iterator[str]:
    struct = f"{_PREFIX}_{format}_{name}"
    yield from _comment(doc)
    yield "#pragma pack(push, 1)"
    yield f"struct {struct} {{"
    for item in fields(record):
        codes = f" An enum {_PREFIX}_{format}_{item.enum}." if item.enum else ""
        yield from _comment(item.doc + codes, "    ")
        count = "" if item.count is None else f"[{item.count}]"
        yield f"    {_type(item)} {item.name}{count};"
    yield "};"
    yield "#pragma pack(pop)"
    yield f'CKPTSPEC_ASSERT(sizeof(struct {struct}) == {record_size(record)}, "{name}");'
    for item in fields(record):
        yield f'CKPTSPEC_ASSERT(offsetof(struct {struct}, {item.name}) == {item.offset}, "{name}.{item.name}");'
    yield from _limits(format, name, record)
    yield ""


def _described(name: str) -> str:
    """Return what a record of ``.oam`` files is, and what follows it or what it points to."""
    told = [RECORD_DOCS[name]]
    content = contents().get(name)
    if content:
        told += [_following(content, part) for part in content.parts]
    if name in OAM_PLACES:
        place = OAM_PLACES[name]
        start = f"the start of {place.within}" if place.within else "the start of the file"
        told.append(f"{place.doc.rstrip('.')}: `{place.size}` bytes at `{place.offset}`, counted from {start}.")
    return " ".join(told)


def _following(content: Content, part: Part) -> str:
    many = f"`{part.count}` of {part.item}" if part.count else "the rest of the section"
    only = f", only if `{part.only[0]}` is {' or '.join(part.only[1])}" if part.only else ""
    follows = "Then" if part is not content.parts[0] else "It is followed by"
    return f"{follows} {part.name}, {many}{only}: {part.doc[0].lower()}{part.doc[1:]}"


# -------------------------------------------------------------------------------------------------------------- .oam


def _oam() -> Iterator[str]:
    yield from _title(TITLES["oam"])
    magic = "".join(f"\\x{byte:02x}" for byte in OAM_MAGIC)
    yield from _comment("What a file begins with.")
    yield f'#define CKPTSPEC_OAM_MAGIC "{magic}"'
    yield f"#define CKPTSPEC_OAM_MAGIC_SIZE {len(OAM_MAGIC)}"
    yield from _constants("oam")
    for name, members in enums().items():
        yield from _enum("oam", name, members)
    for name, record in records("oam").items():
        yield from _struct("oam", name, record, _described(name))
    yield from _oam_dtypes()
    for name in OAM_BLOCK_ENCODINGS:
        yield from _comment(f"Bytes of a {name} block: codes, and codes with the scale.")
        yield f"#define CKPTSPEC_OAM_{name.upper()}_CODE_BYTES {OAM_BLOCK_ENCODINGS[name].code_bytes}"
        yield f"#define CKPTSPEC_OAM_{name.upper()}_BLOCK_BYTES {OAM_BLOCK_ENCODINGS[name].block_bytes}"
    yield ""
    yield from _fnv()


def _table(name: str, doc: str, rows: Sequence[str]) -> Iterator[str]:
    """Yield a macro that calls another one with each row."""
    yield from _comment(doc)
    yield f"#define {name}(X) \\"
    for row in rows[:-1]:
        yield f"    X({row}) \\"
    yield f"    X({rows[-1]})"
    yield ""


def _oam_dtypes() -> Iterator[str]:
    rows = [f'"{name}", CKPTSPEC_OAM_DTYPE_{name.upper()}, {scalar.size}' for name, scalar in OAM_DTYPES.items()]
    yield from _table("CKPTSPEC_OAM_DTYPES", "All dtypes, as X(name, code, bytes of an element).", rows)


def _fnv() -> Iterator[str]:
    doc = (
        "The FNV-1a-64 of some bytes, begun from CKPTSPEC_OAM_FNV_OFFSET_BASIS, or gone on with from what the bytes "
        "before gave."
    )
    yield from _comment(doc)
    yield from (
        "static inline uint64_t ckptspec_oam_fnv1a64(const void *data, size_t size, uint64_t hash)",
        "{",
        "    const unsigned char *bytes = (const unsigned char *)data;",
        "    for (size_t at = 0; at < size; at++)",
        "        hash = (hash ^ bytes[at]) * CKPTSPEC_OAM_FNV_PRIME;",
        "    return hash;",
        "}",
        "",
    )


# ----------------------------------------------------------------------------------------------- formats with a frame


def _framed(format: str) -> Iterator[str]:
    frame = FRAMES[format]
    yield from _title(TITLES[format])
    yield from _constants(format)
    doc = f"What opens the file. The header follows, {frame.syntax}, then the data.\n\n" + "\n".join(key_lines(frame))
    for name, record in records(format).items():
        yield from _struct(format, name, record, doc)
    yield from _length(format, fields(frame.record))
    if format == "ocannl":
        rows = [
            f'"{name.capitalize()}{OCANNL_PRECISION_SUFFIX}", {scalar.size}'
            for name, scalar in OCANNL_PRECISIONS.items()
        ]
        yield from _table("CKPTSPEC_OCANNL_PRECISIONS", "All precisions, as X(name, bytes of an element).", rows)
    else:
        rows = [f'"{name}", {scalar.bits}' for name, scalar in SAFETENSORS_DTYPES.items()]
        yield from _table("CKPTSPEC_SAFETENSORS_DTYPES", "All dtypes, as X(name, bits of an element).", rows)


def _length(format: str, items: Sequence[Field]) -> Iterator[str]:
    """Yield a function that reads the header's length on any machine."""
    (item,) = items
    kind = _type(item)
    yield from _comment("The length of the header from the bytes that open the file, on a machine of any byte order.")
    yield f"static inline {kind} ckptspec_{format}_{item.name}(const unsigned char *bytes)"
    yield "{"
    yield f"    uint{item.bits}_t value = 0;"
    place = "at" if item.big_endian else f"{item.size - 1} - at"
    yield f"    for (size_t at = 0; at < {item.size}; at++)"
    yield f"        value = (value << 8) | bytes[{place}];"
    yield f"    return ({kind})value;"
    yield "}"
    yield ""
