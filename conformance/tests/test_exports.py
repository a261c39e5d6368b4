"""The exports: what the schema says of fields for them, the C header, the description in JSON, the command line."""

from __future__ import annotations

import copy
import json
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

import ckptspec
from ckptspec.cli import build_parser, main
from ckptspec.conformance.catalogue import VECTORS, Case, load_suite
from ckptspec.conformance.json_schemas import description_schema
from ckptspec.formats import module_of
from ckptspec.source import BufferSource
from ckptspec.spec import exports, schema
from ckptspec.spec.dtypes import OAM_CODES, OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, SCALARS
from ckptspec.spec.exports.common import constants, enums, records
from ckptspec.spec.layout import Field, fields, record_size
from ckptspec.spec.rules import RULES
from ckptspec.spec.schema import FRAMES, OAM_ENCODINGS, OAM_RECORDS, OAM_SECTIONS, OCANNL_PRECISION_SUFFIX

from . import kaitai_parsers
from .test_docs import ROOT, blocks, demo_files, run_python, run_shell

PAGE: Final = ROOT / "docs" / "exports.md"


@cache
def valid_cases(format: str) -> tuple[Case, ...]:
    """Return the valid files of a format; there must be some."""
    cases = tuple(
        case for case in load_suite().cases if (case.format, case.kind, case.verdict) == (format, "file", "valid")
    )
    assert len(cases) > 50
    return cases


def paths_of(cases: tuple[Case, ...]) -> list[Path]:
    """Return where the files of cases are."""
    return [VECTORS / case.file for case in cases]


# ----------------------------------------------------------------------------------- what the schema says of its fields


def outside(item: Field) -> Iterator[bytes]:
    """Yield bytes of a field that readers have to refuse, by what the schema says."""
    if item.fixed is not None:
        for at in range(item.size):
            yield item.fixed[:at] + bytes([item.fixed[at] ^ 0x80]) + item.fixed[at + 1 :]
        return
    low, high = item.bounds
    limits = {item.least, item.most} if item.codes is None else {min(item.codes.values()), max(item.codes.values())}
    assert None not in limits
    for value in (min(limits) - 1, max(limits) + 1, low, high):  # type: ignore[type-var, operator]
        if low <= value <= high and not min(limits) <= value <= max(limits):  # type: ignore[type-var, operator]
            yield value.to_bytes(item.size, "big" if item.big_endian else "little", signed=low < 0)


LIMITED: Final = [
    (name, record, item)
    for name in exports.FORMATS
    for record, struct_ in records(name).items()
    for item in fields(struct_)
    if item.fixed is not None or item.codes is not None or item.least is not None
]


@pytest.mark.parametrize(("format", "record", "item"), LIMITED, ids=lambda value: getattr(value, "name", value))
def test_limits_of_fields_are_those_of_the_reader(format: str, record: str, item: Field) -> None:
    case = load_suite().case("oam/golden_name_bom" if format == "oam" else f"{format}/golden_minimal")
    data = case.read()
    regions = module_of(format).regions(BufferSource(data))
    pattern = {"section": r"sections\[0\]", "index": "weights", "tensor": r"weights\[0\]"}.get(record, record)
    place = next(region for region in regions if re.fullmatch(rf"{pattern}\.{item.name}", region.path))
    tried = 0
    for value in outside(item):
        broken = data[: place.offset] + value + data[place.offset + place.size :]
        refused = [
            finding
            for finding in ckptspec.validate(broken).findings
            if RULES[finding.rule].kind == "reject" and place.offset <= finding.offset < place.offset + place.size
        ]
        if not refused:  # the magic: a file that does not begin so is none of this format at all
            assert item.fixed is not None
            assert not ckptspec.validate(broken, format=format).ok
        tried += 1
    assert tried


# ------------------------------------------------------------------------------------------------------------------ C


COMPILERS: Final = [
    ("gcc", "-std=c11", "c"),
    ("g++", "-std=c++17", "cc"),
]


def program() -> str:
    """Return a C program that prints all that the header declares, and what it finds in the file of its argument."""
    lines = ['#include "ckptspec.h"', '#include "ckptspec.h"', "#include <stdio.h>", "#include <string.h>", ""]
    lines += [
        '#define OAM(name, code, size) printf("dtype %s %d %d\\n", name, (int)(code), (int)(size));',
        '#define TEXT(name, size) printf("type %s %d\\n", name, (int)(size));',
        "static void file(const char *path)",
        "{",
        "    static unsigned char data[1 << 20];",
        '    FILE *input = fopen(path, "rb");',
        "    size_t size = fread(data, 1, sizeof data, input);",
        "    fclose(input);",
        "    struct ckptspec_oam_header header;",
        "    memcpy(&header, data, sizeof header);",
        '    printf("magic %d\\n", memcmp(data, CKPTSPEC_OAM_MAGIC, CKPTSPEC_OAM_MAGIC_SIZE));',
        '    printf("total %d\\n", header.total_size == size);',
        '    printf("version %u\\n", (unsigned)header.version);',
        "    for (uint32_t at = 0; at < header.section_count; at++) {",
        "        struct ckptspec_oam_section section;",
        "        memcpy(&section, data + sizeof header + at * sizeof section, sizeof section);",
        "        uint64_t hash =",
        "            ckptspec_oam_fnv1a64(data + section.offset, (size_t)section.size, CKPTSPEC_OAM_FNV_OFFSET_BASIS);",
        '        printf("section %u %d\\n", (unsigned)section.type, hash == section.checksum);',
        "    }",
        "}",
        "",
        "int main(int count, char **arguments)",
        "{",
    ]
    for owner in exports.FORMATS:
        for record, made in records(owner).items():
            name = f"struct ckptspec_{owner}_{record}"
            lines.append(f'    printf("size {owner} {record} %zu\\n", sizeof({name}));')
            for item in fields(made):
                at = f"offsetof({name}, {item.name}), sizeof((({name} *)0)->{item.name})"
                lines.append(f'    printf("field {owner} {record} {item.name} %zu %zu\\n", {at});')
                if item.least is not None:
                    macro = f"CKPTSPEC_{owner}_{record}_{item.name}".upper()
                    values = f"(long long){macro}_LEAST, (long long){macro}_MOST"
                    lines.append(f'    printf("limits {owner} {record} {item.name} %lld %lld\\n", {values});')
        for constant in constants(owner):
            name = constant.name.removeprefix(f"{owner.upper()}_")
            value = f"(unsigned long long)CKPTSPEC_{owner.upper()}_{name}"
            lines.append(f'    printf("constant {owner} {name} %llu\\n", {value});')
    for enum, members in enums().items():
        for member in members:
            value = f"(int)CKPTSPEC_OAM_{enum}_{member.name}".upper().replace("(INT)", "(int)")
            lines.append(f'    printf("enum {enum} {member.name} %d\\n", {value});')
    lines += [
        "    CKPTSPEC_OAM_DTYPES(OAM)",
        "    CKPTSPEC_OCANNL_PRECISIONS(TEXT)",
        "    CKPTSPEC_SAFETENSORS_DTYPES(TEXT)",
    ]
    lines.append(
        '    printf("length %d %d\\n", (int)ckptspec_ocannl_header_length((const unsigned char *)"\\0\\1\\2\\3"),'
    )
    lines.append(
        '           (int)ckptspec_safetensors_header_length((const unsigned char *)"\\3\\2\\1\\0\\0\\0\\0\\0"));'
    )
    lines += ["    for (int at = 1; at < count; at++)", "        file(arguments[at]);", "    return 0;", "}", ""]
    return "\n".join(lines)


def expected_lines(cases: tuple[Case, ...]) -> Iterator[str]:
    """Yield what that program has to print."""
    for owner in exports.FORMATS:
        for record, made in records(owner).items():
            yield f"size {owner} {record} {record_size(made)}"
            for item in fields(made):
                yield f"field {owner} {record} {item.name} {item.offset} {item.size}"
                if item.least is not None:
                    yield f"limits {owner} {record} {item.name} {item.least} {item.most}"
        for constant in constants(owner):
            yield f"constant {owner} {constant.name.removeprefix(f'{owner.upper()}_')} {constant.value}"
    for enum, codes in (("section_type", OAM_SECTIONS), ("dtype", OAM_CODES), ("encoding", OAM_ENCODINGS)):
        yield from (f"enum {enum} {name} {code}" for name, code in sorted(codes.items(), key=lambda pair: pair[1]))
    yield from (f"dtype {name} {scalar.oam_code} {scalar.size}" for name, scalar in OAM_DTYPES.items())
    for name, scalar in OCANNL_PRECISIONS.items():
        yield f"type {name.capitalize()}{OCANNL_PRECISION_SUFFIX} {scalar.size}"
    yield from (f"type {name} {scalar.bits}" for name, scalar in SAFETENSORS_DTYPES.items())
    yield f"length {0x00010203} {0x00010203}"
    for case in cases:
        header = OAM_RECORDS["header"].parse(case.read())
        yield from ("magic 0", "total 1", f"version {header['version']}")
        table = case.read()[record_size(OAM_RECORDS["header"]) :]
        for section in OAM_RECORDS["section"][header["section_count"]].parse(table):
            yield f"section {section['type']} 1"


@pytest.mark.parametrize(("compiler", "standard", "suffix"), COMPILERS)
def test_c_header_lays_records_out_as_the_schema_does(
    tmp_path: Path, compiler: str, standard: str, suffix: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    (tmp_path / "ckptspec.h").write_text(exports.export("c"), "ascii")
    source, made = tmp_path / f"program.{suffix}", tmp_path / "program"
    source.write_text(program(), "ascii")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    subprocess.run([compiler, standard, *warnings, str(source), "-o", str(made)], check=True, timeout=100)
    cases = valid_cases("oam")
    done = subprocess.run(
        [str(made), *map(str, paths_of(cases))], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == list(expected_lines(cases))


def test_c_header_asserts_its_layout(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    for good, bad in (("uint8_t compression;", "uint16_t compression;"), ("#pragma pack(push, 1)", "")):
        text = exports.export("c", "oam")
        assert good in text
        (tmp_path / "header.h").write_text(text.replace(good, bad), "ascii")
        done = subprocess.run(
            [compiler, "-std=c11", "-fsyntax-only", "-x", "c", str(tmp_path / "header.h")], check=False
        )
        assert done.returncode


@pytest.mark.parametrize("format", exports.FORMATS)
def test_c_header_of_one_format(tmp_path: Path, format: str) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    text = exports.export("c", format)
    (tmp_path / "header.h").write_text(text, "ascii")
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c"]
    subprocess.run([*command, str(tmp_path / "header.h")], check=True)
    others = [name for name in exports.FORMATS if name != format]
    assert not any(f"ckptspec_{name}" in text for name in others)


# --------------------------------------------------------------------------------------------------------------- JSON


def test_json_agrees_with_its_schema() -> None:
    validator = jsonschema.Draft202012Validator(description_schema())
    validator.check_schema(description_schema())
    for chosen in (None, *exports.FORMATS):
        validator.validate(json.loads(exports.export("json", chosen)))
    whole = json.loads(exports.export("json"))
    damages: tuple[Callable[[Any], object], ...] = (
        lambda made: made.update(version=2),
        lambda made: made["formats"]["oam"]["records"]["header"]["fields"][0].pop("offset"),
        lambda made: made["formats"]["oam"]["records"]["header"]["fields"][0].update(extra=1),
        lambda made: made["formats"]["ocannl"]["texts"]["tensor"]["keys"][0].update(kind="no kind"),
        lambda made: made["rules"][0].pop("sentence"),
    )
    for damage in damages:
        broken = copy.deepcopy(whole)
        damage(broken)
        assert not validator.is_valid(broken)


def test_json_has_all_of_the_specification() -> None:
    whole = json.loads(exports.export("json"))
    assert (whole["format"], whole["version"]) == ("ckptspec-schema", 1)
    assert [rule["id"] for rule in whole["rules"]] == list(RULES)
    for told in whole["rules"]:
        rule = RULES[told["id"]]
        for key, value in told.items():
            expected = getattr(rule, key)
            assert value == (list(expected) if isinstance(expected, tuple) else expected)
    assert set(whole["formats"]) == set(exports.FORMATS)
    for owner, description in whole["formats"].items():
        assert {item["name"]: int(item["value"]) for item in description["constants"]} == {
            name: getattr(schema, name) for name in schema.CONSTANTS[owner]
        }
        for name, record in records(owner).items():
            told = description["records"][name]
            assert told["size"] == record_size(record)
            assert [(item["name"], item["offset"], item["size"], item["doc"]) for item in told["fields"]] == [
                (item.name, item.offset, item.size, item.doc) for item in fields(record)
            ]
    for owner, frame in FRAMES.items():
        texts = whole["formats"][owner]["texts"]
        for name, keys in frame.records.items():
            assert [key["name"] for key in texts[name]["keys"]] == [key.name for key in keys]
            assert [key.get("least") for key in texts[name]["keys"]] == [key.least for key in keys]
    assert [item["name"] for item in whole["dtypes"]] == [scalar.name for scalar in SCALARS]


def struct_format(item: dict[str, Any]) -> str:
    """Return the format of a field of the description, for Python's struct."""
    letter = {"u8": "B", "i8": "b", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f32": "I"}.get(item["type"])
    order = "<" if item["byte_order"] == "little" else ">"
    return f"{order}{item['size']}s" if letter is None else f"{order}{item.get('count', 1)}{letter}"


def test_json_is_enough_to_read_a_file() -> None:
    """A reader of a few lines that knows nothing but the description finds what the neutral document has."""
    oam = json.loads(exports.export("json", "oam"))["formats"]["oam"]

    def record(name: str, at: int) -> dict[str, Any]:
        made = {}
        for item in oam["records"][name]["fields"]:
            values = struct.unpack_from(struct_format(item), data, at + item["offset"])
            made[item["name"]] = values if "count" in item and item["type"].startswith("u") else values[0]
        return made

    sections = {item["code"]: item for item in oam["sections"]}
    for case in valid_cases("oam"):
        data, document = case.read(), case.read_expected()
        header = record("header", 0)
        for row in range(header["section_count"]):
            place = oam["records"]["header"]["size"] + row * oam["records"]["section"]["size"]
            entry = record("section", place)
            section = sections[entry["type"]]
            if section["record"] is None:
                continue
            head = record(section["record"], entry["offset"])
            at = entry["offset"] + oam["records"][section["record"]]["size"]
            for part in section["parts"]:
                if part["item"] != "tensor":
                    continue
                names = []
                for number in range(head[part["count"]]):
                    tensor = record("tensor", at + number * oam["records"]["tensor"]["size"])
                    names.append(tensor["name"].partition(b"\0")[0].decode())
                assert names == [item["name"] for item in document[section["name"]]]
            if section["name"] == "progress":
                assert str(head["env_steps"]) == document["progress"]["env_steps"]
                assert f"0x{head['best_metric']:08x}" == document["progress"]["best_metric"]


# --------------------------------------------------------------------------------------------------- the command line


def run(*words: str) -> int:
    """Run the command line."""
    return main(["export", *words])


@pytest.mark.parametrize("kind", exports.KINDS)
def test_command_prints_and_writes(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for chosen in (None, *exports.FORMATS):
        words = [] if chosen is None else ["--format", chosen]
        assert run(kind, *words) == 0
        told = capsys.readouterr().out
        assert told == exports.export(kind, chosen)
        assert told.isascii()
        assert max(map(len, told.splitlines())) < 600
        assert run(kind, *words, str(tmp_path / "deep" / "out")) == 0
        assert (tmp_path / "deep" / "out").read_text("ascii") == told
        assert capsys.readouterr().out == ""
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_command_refuses_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kaitai", "--format", "no\x1bsuch") == 2
    assert (
        capsys.readouterr().err == "ckptspec: unknown format 'no\\x1bsuch', expected one of oam, ocannl, safetensors\n"
    )
    assert run("c", str(tmp_path)) == 2
    assert capsys.readouterr().err == f"ckptspec: {tmp_path}: Is a directory\n"
    with pytest.raises(SystemExit) as stopped:
        run("protobuf")
    assert stopped.value.code == 2
    assert "choose from" in capsys.readouterr().err


def test_parser_offers_all_kinds() -> None:
    verbs = next(item.choices for item in build_parser()._actions if item.dest == "verb")
    assert isinstance(verbs, dict)
    kinds = next(item.choices for item in verbs["export"]._actions if item.dest == "kind")
    assert isinstance(kinds, dict)
    assert tuple(kinds) == exports.KINDS
    for kind, parser in kinds.items():
        told = parser.format_help()
        assert ", ".join(exports.FORMATS[:-1]) + f" or {exports.FORMATS[-1]}" in " ".join(told.split())
        default = "oam" if exports.export(kind) == exports.export(kind, "oam") else "all of them"
        assert f"{default} unless told otherwise" in " ".join(told.split())


def test_all_exports_by_file_name() -> None:
    made = exports.files()
    assert set(made) == {f"{name}.{kind}" for name in exports.FORMATS for kind in ("ksy", "hexpat")} | {
        "ckptspec.h",
        "ckptspec.json",
    }
    assert made == exports.files()
    assert made["ocannl.ksy"] == exports.export("kaitai", "ocannl")
    assert made["ckptspec.json"] == exports.export("json")
    assert exports.export("kaitai") == made["oam.ksy"]
    with pytest.raises(KeyError):
        exports.export("c", "gguf")
    with pytest.raises(KeyError):
        exports.export("protobuf")


# -------------------------------------------------------------------------------------------------------- documentation


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo_files()
    names: dict[str, Any] = {"__name__": "exports"}
    found = Counter[str]()
    for language, source in blocks(PAGE.read_text("utf-8"), "c", "console", "js", "python"):
        found[language] += 1
        if language == "c":
            (tmp_path / "names.c").write_text(source, "utf-8")
        elif language == "console":
            run_shell(source)
        elif language == "js":
            kaitai_parsers.run_node(source, ["python", "oam.ksy"], tmp_path)
            monkeypatch.syspath_prepend(tmp_path)
        else:
            run_python(source, names, "exports.md")
    sys.modules.pop("oam", None)
    assert found == {"c": 1, "console": 2, "js": 1, "python": 2}
    assert {path.name for path in tmp_path.iterdir()} >= {"oam.ksy", "oam.hexpat", "ckptspec.h", "safetensors.ksy"}
