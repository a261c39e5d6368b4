"""The exports for Kaitai Struct and for ImHex: what they find in the golden files is what the reference finds."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ckptspec.conformance import kaitai
from ckptspec.conformance.catalogue import VECTORS, Case, load_suite
from ckptspec.formats import module_of
from ckptspec.regions import Region
from ckptspec.source import BufferSource
from ckptspec.spec import exports
from ckptspec.spec.exports.common import records
from ckptspec.spec.layout import Field, fields, record_size
from ckptspec.spec.schema import FRAMES, OAM_CONTENTS, OAM_ENCODINGS, OAM_RECORDS, OAM_SECTIONS

from . import hexpat_reader, kaitai_parsers
from .test_exports import valid_cases

SECTION_NAMES: Final = {code: name for name, code in OAM_SECTIONS.items()}


def hashed(data: bytes) -> dict[str, Any]:
    """Return bytes as the trees of parsers have them."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def paths_of(cases: tuple[Case, ...]) -> list[Path]:
    """Return where the files of cases are."""
    return [VECTORS / case.file for case in cases]


# ------------------------------------------------------------------------------------------------------------- Kaitai


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the parsers that are compiled from the exports."""
    return kaitai_parsers.compile_all(kaitai.descriptions(), tmp_path_factory.mktemp("kaitai"), "javascript", "python")


def test_kaitai_compiler_takes_the_descriptions_for_other_languages(tmp_path: Path) -> None:
    languages = ("cpp_stl", "csharp", "go", "java", "lua", "nim", "perl", "php", "ruby", "rust")
    kaitai_parsers.compile_all(kaitai.descriptions(), tmp_path, *languages)
    for language in languages:
        made = [path for path in (tmp_path / language).rglob("*") if path.is_file()]
        assert {path.stem.lower() for path in made} >= set(exports.FORMATS)
    # Words that a language keeps for itself: the compiler does not see to it.
    rust = (tmp_path / "rust" / "oam.rs").read_text("utf-8")
    assert not re.findall(r"fn (?:type|match|ref|move|use|mod|impl|fn|let|self|where)\(", rust)


def number(raw: bytes, item: Field) -> int:
    """Return the integer that a field's bytes are."""
    return int.from_bytes(raw, "big" if item.big_endian else "little", signed=item.type.startswith("i"))


def value_of(raw: bytes, item: Field) -> Any:
    """Return what a parser must find in a field with these bytes."""
    if item.fixed is not None or item.role in ("reserved", "bytes"):
        return hashed(raw)
    if item.role == "text":
        return raw.partition(b"\0")[0].decode()
    if item.role == "f32":
        return f32(raw)
    if item.count is not None:
        width = item.bits // 8
        return [str(number(raw[at : at + width], item)) for at in range(0, len(raw), width)]
    return str(number(raw, item))


def f32(raw: bytes) -> dict[str, Any]:
    """Return what a parser must find in an f32."""
    (value,) = struct.unpack("<f", raw)
    shown = "nan" if value != value else str(struct.unpack(">Q", struct.pack(">d", value))[0])
    return {"bits": str(int.from_bytes(raw, "little")), "value": shown}


def flat(tree: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (path, record, value) of each field of a tree of an .oam file; paths are those of the reference."""
    yield from flat_record(tree["header"], "header", "header")
    for at, section in enumerate(tree["sections"]):
        yield from flat_record(section, f"sections[{at}]", "section")
        name, payload = SECTION_NAMES[int(section["section_type"])], section["payload"]
        content = OAM_CONTENTS[name]
        if not content.record:
            yield name, "", payload
            continue
        yield from flat_record(payload, name, content.record)
        for row, tensor in enumerate(payload.get("tensors", ())):
            yield from flat_record(tensor, f"{name}[{row}]", "tensor")
            yield f"{name}[{row}].data", "", tensor["payload"]
        for key in ("arch_config", "first_moment", "second_moment"):
            if key in payload:
                yield f"{name}.{key}", "", payload[key]


def flat_record(values: Any, where: str, record: str) -> Iterator[tuple[str, str, Any]]:
    for item in fields(OAM_RECORDS[record]):
        yield f"{where}.{item.name}", record, values["section_type" if item.name == "type" else item.name]


def known_names() -> set[str]:
    """Return all that a tree of an .oam file may have: what the schema declares, and how the export helps itself."""
    declared = {item.name for record in OAM_RECORDS.values() for item in fields(record)} - {"type"}
    parts = {part.name for content in OAM_CONTENTS.values() for part in content.parts}
    helpers = {"header", "sections", "section_type", "payload", "is_manifest_checksum", "blob_start"}
    return declared | parts | helpers | {"bits", "value", "codes", "scales", "num_blocks", "size", "sha256"}


def names_in(tree: Any) -> set[str]:
    """Return all keys in a tree."""
    if isinstance(tree, dict):
        return set(tree).union(*map(names_in, tree.values()))
    return set().union(*map(names_in, tree)) if isinstance(tree, list) else set()


def check_quantized(found: Any, raw: bytes, encoding: str) -> None:
    """Compare the codes and scales of a quantized payload with its bytes."""
    blocks = int(found["num_blocks"])
    split = len(raw) - 4 * blocks
    assert split == blocks * {"q4": 16, "q8": 32}[encoding]
    assert found["codes"] == hashed(raw[:split])
    assert found["scales"] == [f32(raw[at : at + 4]) for at in range(split, len(raw), 4)]


def check_oam(tree: Any, case: Case) -> None:
    """Compare what a parser found in an .oam file with what the reference finds: every field, every payload."""
    data = case.read()
    regions: dict[str, Region] = {}
    for region in module_of("oam").regions(BufferSource(data, case.id)):
        if region.kind != "padding" and not region.path.endswith(".blob"):
            assert region.path not in regions
            regions[region.path] = region
    rest = set(regions)
    encodings = {code: name for name, code in OAM_ENCODINGS.items()}
    for path, record, found in flat(tree):
        rest.discard(path)
        if path not in regions:  # the reference does not tell of what has no bytes
            assert found == hashed(b""), path
            continue
        region = regions[path]
        raw = data[region.offset : region.offset + region.size]
        if record:
            item = next(item for item in fields(OAM_RECORDS[record]) if path.endswith(f".{item.name}"))
            assert found == value_of(raw, item), path
        elif "codes" in found:
            encoding = regions[path.removesuffix("data") + "encoding"]
            check_quantized(found, raw, encodings[data[encoding.offset]])
        else:
            assert found == hashed(raw), path
    assert not rest
    assert names_in(tree) <= known_names()
    check_blobs(tree, data)


def check_blobs(tree: Any, data: bytes) -> None:
    for section in tree["sections"]:
        payload = section["payload"]
        if "blob" in payload:
            start, size = int(section["offset"]), int(section["size"])
            assert payload["blob"] == hashed(data[start + int(payload["blob_start"]) : start + size])
    assert tree["header"]["is_manifest_checksum"] is (tree["header"]["version"] != "1")


@pytest.mark.parametrize("read", [kaitai_parsers.in_javascript, kaitai_parsers.in_python])
def test_kaitai_parsers_find_in_oam_files_what_the_reference_finds(parsers: Path, read: Any) -> None:
    cases = valid_cases("oam")
    trees = read(parsers, "oam", paths_of(cases))
    for case, tree in zip(cases, trees, strict=True):
        check_oam(tree, case)
    everything = set().union(*map(names_in, trees))
    assert everything == known_names()  # no part of the description went untried
    assert {tree["header"]["version"] for tree in trees} == {"1", "2", "3"}


@pytest.mark.parametrize("read", [kaitai_parsers.in_javascript, kaitai_parsers.in_python])
@pytest.mark.parametrize("format", list(FRAMES))
def test_kaitai_parsers_find_the_parts_of_framed_files(parsers: Path, format: str, read: Any) -> None:
    frame = FRAMES[format]
    (item,) = fields(frame.record)
    cases = valid_cases(format)
    for case, tree in zip(cases, read(parsers, format, paths_of(cases)), strict=True):
        data = case.read()
        length = number(data[: item.size], item)
        header, rest = data[item.size : item.size + length], data[item.size + length :]
        text = header.decode("utf-8", "replace")
        assert tree.pop(frame.length) == str(length)
        assert tree.pop("header") == (text if frame.utf8 else hashed(header))
        assert tree.pop("header_text", text) == text
        assert tree.pop(frame.data) == hashed(rest)
        assert not tree


def test_kaitai_what_javascript_loses(parsers: Path) -> None:
    case = load_suite().case("oam/golden_name_bom")
    (exact,) = kaitai_parsers.in_javascript(parsers, "oam", [VECTORS / case.file])
    (told,) = kaitai_parsers.in_javascript(parsers, "oam", [VECTORS / case.file], "--as-it-is")
    for one, other in zip(exact["sections"], told["sections"], strict=True):
        checksum = int(one["checksum"])
        assert int(other["checksum"]) != checksum
        assert float(other["checksum"]) == float(checksum)  # rounded, and no worse
    tensor, shown = (tree["sections"][1]["payload"]["tensors"][0] for tree in (exact, told))
    assert tensor.pop("name") == "\ufeff" + shown.pop("name")
    assert tensor == shown
    assert "rounded" in exports.export("kaitai")


# -------------------------------------------------------------------------------------------------------------- ImHex


def imhex_path(member: hexpat_reader.Member) -> str:
    """Return the path that the reference gives to what a pattern found."""
    path = member.path.removeprefix("file.").replace(".head.", ".")
    path = re.sub(r"^sections\[\d+\]\.(?=(config|weights|state|optimizer|progress)\.)", "", path)
    path = re.sub(r"\.tensors(?=\[)", "", path)
    return re.sub(r"(?<=\])\.payload(\.codes|\.scales)?$", ".data", path)


def test_imhex_finds_in_oam_files_what_the_reference_finds() -> None:
    text = exports.export("imhex", "oam")
    used: set[str] = set()
    for case in valid_cases("oam"):
        data = case.read()
        found: dict[str, list[hexpat_reader.Member]] = {}
        for member in hexpat_reader.run(text, data):
            found.setdefault(imhex_path(member), []).append(member)
            used.add(member.type)
        for region in module_of("oam").regions(BufferSource(data)):
            if region.kind == "padding" or region.path.endswith(".blob"):
                continue
            if region.path == "legacy":
                place = next(path for path in found if re.fullmatch(r"sections.*\.data", path))
            else:
                place = region.path
            first, *more = found.pop(place)
            assert first.offset == region.offset, f"{case.id}: {place}"
            assert first.size + sum(member.size for member in more) == region.size, f"{case.id}: {place}"
            assert region.kind == "data" or first.comment == region.doc
        assert not found, case.id
    assert used >= {"char", "float", "double", "SectionType", "Dtype", "Encoding", "s8", "s16", "u32", "u64"}


@pytest.mark.parametrize("format", list(FRAMES))
def test_imhex_finds_the_parts_of_framed_files(format: str) -> None:
    frame = FRAMES[format]
    (item,) = fields(frame.record)
    for case in valid_cases(format):
        data = case.read()
        found = {member.path: (member.offset, member.size) for member in hexpat_reader.run(imhex(format), data)}
        length = number(data[: item.size], item)
        parts = {
            f"file.frame.{item.name}": (0, item.size),
            "file.header": (item.size, length),
            f"file.{frame.data}": (item.size + length, len(data) - item.size - length),
        }
        assert found == {path: part for path, part in parts.items() if part[1]}, case.id


def imhex(format: str) -> str:
    return exports.export("imhex", format)


@pytest.mark.parametrize("format", exports.FORMATS)
def test_imhex_structs_have_the_sizes_of_the_schema(format: str) -> None:
    sizes = hexpat_reader.sizes(imhex(format))
    for name, record in records(format).items():
        assert sizes[name.capitalize()] == record_size(record)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("u32 version", "u33 version"),
        ("Header header;", "Heading header;"),
        ("sections[header.section_count];", "sections[header.sections];"),
        ("u64 blocks = num_bytes / 20;", "u64 blocks num_bytes / 20;"),
        ("Q4<blocks>", "Q4<num_bytes / 20>"),
        ("Dtype::F32", "Dtype::F33"),
        ("};\n\nFile file", "}\n\nFile file"),
    ],
)
def test_imhex_reader_is_strict(good: str, bad: str) -> None:
    text = imhex("oam")
    assert text.count(good) >= 1
    data = load_suite().case("oam/golden_q4_32").read()
    assert hexpat_reader.run(text, data)
    with pytest.raises((hexpat_reader.PatternError, NameError, AttributeError, KeyError)):
        hexpat_reader.run(text.replace(good, bad), data)
