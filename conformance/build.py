"""Build the golden files and the manifest from the case definitions.

``python -m ckptspec.conformance.build`` writes them; ``--check`` writes nothing and fails if a committed file is not
what the definitions give, or if there is one that they do not give. The expected documents are what the reference
decodes; independent decoders of the tests hold them against the format's description.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from .. import neutral
from ..errors import ArgumentError, FormatError
from ..findings import Report
from ..formats import FORMATS, module_of
from ..source import BufferSource
from ..spec.rules import CANONICAL, REJECT, RULES, UPSTREAM
from .cases import anything, oam, ocannl, safetensors
from .cases.definition import CaseBook, Definition
from .catalogue import MANIFEST, PROTOCOL_VERSION, SUITE_VERSION, VECTORS, Case
from .json_schemas import description_schema, document_schema, manifest_schema

__all__ = ["SMOKE", "books", "build_files", "main"]

SMOKE = {book: f"{book}/golden_minimal" for book in FORMATS}


def books() -> list[CaseBook]:
    """Return the definitions of all formats."""
    return [oam.book(), ocannl.book(), safetensors.book(), anything.book()]


class BuildError(Exception):
    """A definition does not do what it says."""


def build_files() -> dict[str, bytes]:
    """Return every file of the suite by its path below the package: vectors, what is expected of them, manifest."""
    files: dict[str, bytes] = {}
    cases: list[Case] = []
    wrong: list[str] = []
    for book in books():
        for definition in book.definitions:
            data = definition.make()
            try:
                expected = _expected(book, definition, data)
            except BuildError as error:
                wrong.append(str(error))
                continue
            stem = f"{book.format}/{definition.name}"
            case = _case(book, definition, data, stem)
            files[f"vectors/{case.file}"] = data
            files[f"vectors/{case.expected}"] = json.dumps(expected, indent=1).encode() + b"\n"
            cases.append(case)
    if wrong:
        raise BuildError("\n".join(wrong))
    files["manifest.json"] = _manifest(cases)
    schemas = {"manifest": manifest_schema(), "document": document_schema(), "description": description_schema()}
    for name, schema in schemas.items():
        files[f"schemas/{name}.schema.json"] = json.dumps(schema, indent=1).encode() + b"\n"
    return files


def _case(book: CaseBook, definition: Definition, data: bytes, stem: str) -> Case:
    return Case(
        id=stem,
        format=book.format,
        title=definition.title,
        kind=definition.kind,
        verdict=definition.verdict,
        level=definition.level,
        rules=definition.rules,
        versions=definition.versions,
        tags=definition.tags,
        file=stem + (definition.extension or book.extension),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        expected=stem + ".json",
        canonical=definition.canonical,
        reason=definition.reason,
        behaviour=definition.behaviour,
    )


def _manifest(cases: list[Case]) -> bytes:
    manifest: dict[str, Any] = {
        "suite_version": SUITE_VERSION,
        "protocol_version": PROTOCOL_VERSION,
        "implementations": UPSTREAM,
        "smoke": SMOKE,
        "cases": [case.to_json() for case in cases],
    }
    return json.dumps(manifest, indent=1).encode() + b"\n"


# --------------------------------------------------------------------------------- does a definition do what it says?


def _expected(book: CaseBook, definition: Definition, data: bytes) -> Any:
    """Return what is expected of a case, having checked the definition's claims."""
    where = f"{book.format}/{definition.name}"
    if definition.kind == "document":
        return _expected_of_document(where, definition, data)
    if book.format == "any":
        from .. import decode

        try:
            decode(data)
        except FormatError as error:
            return {"error": _error(error)}
        raise BuildError(f"{where}: is accepted")
    module, source = module_of(book.format), BufferSource(data)
    report = module.validate(source)
    _check_rules(where, definition, report)
    if not report.ok:
        try:
            module.decode(source)
        except FormatError as error:
            return {"error": _error(error)}
        raise BuildError(f"{where}: validation refuses what decoding accepts")
    return module.decode(source)


def _error(error: FormatError) -> dict[str, Any]:
    return {"rule": error.rule, "offset": error.offset, "path": error.path, "message": str(error)}


def _expected_of_document(where: str, definition: Definition, data: bytes) -> Any:
    from .. import encode

    try:
        document = neutral.parse_json(data)
        encode(document)
    except ArgumentError as error:
        if definition.verdict != "invalid":
            raise BuildError(f"{where}: refused: {error}") from None
        return {"error": {"path": error.path, "message": str(error)}}
    if definition.verdict != "valid":
        raise BuildError(f"{where}: is accepted")
    return document


def _check_rules(where: str, definition: Definition, report: Report) -> None:
    found = [finding.rule for finding in report.findings]
    refused = [rule for rule in found if RULES[rule].kind == REJECT]
    if definition.verdict == "valid":
        _check_valid(where, definition, report, found, refused)
        return
    first = definition.rules[0]
    if definition.verdict == "acceptable" and RULES[first].kind != REJECT:
        if refused or first not in found:
            raise BuildError(f"{where}: found {found}")
        return
    if not found or _first(found) != first:
        raise BuildError(f"{where}: found {found}, expected {first} first")
    allowed = {first, *RULES[first].implies, *definition.company}
    if not set(found) <= allowed:
        raise BuildError(f"{where}: found {set(found) - allowed} besides {first}")
    if definition.versions and RULES[first].versions and not set(definition.versions) <= set(RULES[first].versions):
        raise BuildError(f"{where}: {first} does not hold for version {definition.versions}")


def _first(found: list[str]) -> str:
    """Return the first finding for which a reader refuses a file."""
    return next((rule for rule in found if RULES[rule].kind == REJECT), found[0])


def _check_valid(where: str, definition: Definition, report: Report, found: list[str], refused: list[str]) -> None:
    if refused:
        raise BuildError(f"{where}: refused for {refused}: {report.first}")
    missing = set(definition.rules) - set(found)
    more = {rule for rule in found if RULES[rule].kind == CANONICAL} - set(definition.rules)
    if missing or more:
        raise BuildError(f"{where}: lacks {missing or 'nothing'}, has {more or 'nothing'} besides; found {found}")
    if definition.canonical != report.canonical:
        raise BuildError(f"{where}: canonical is {report.canonical}")


# ---------------------------------------------------------------------------------------------------------------- main


def _differences(files: dict[str, bytes]) -> list[str]:
    root = MANIFEST.parent
    there = {str(path.relative_to(root)) for path in VECTORS.rglob("*") if path.is_file()}
    made = [f"{path}: not committed" for path in files if not (root / path).exists()]
    made += [
        f"{path}: differs"
        for path, data in files.items()
        if (root / path).exists() and (root / path).read_bytes() != data
    ]
    return made + [f"{path}: no definition gives it" for path in sorted(there - set(files))]


def _write(files: dict[str, bytes]) -> None:
    root = MANIFEST.parent
    for path in VECTORS.rglob("*"):
        if path.is_file() and str(path.relative_to(root)) not in files:
            path.unlink()
    for name, data in files.items():
        target = Path(root / name)
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def main() -> int:
    """Build, or check, everything."""
    parser = argparse.ArgumentParser(
        prog="python -m ckptspec.conformance.build", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a committed file differs")
    args = parser.parse_args()
    try:
        files = build_files()
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    if args.check:
        differences = _differences(files)
        print("\n".join(differences[:20]) or f"{len(files)} files are what the definitions give")
        return 1 if differences else 0
    _write(files)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
