"""The catalogue, the golden files and the definitions that they are built from."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from ckptspec import ArgumentError, decode, encode, neutral, oam, ocannl, safetensors, validate
from ckptspec.conformance import strategies
from ckptspec.conformance.cases.ocannl.assemble import T, file
from ckptspec.conformance.catalogue import MANIFEST, VECTORS, Case, load_suite
from ckptspec.conformance.expectations import Expectation, check
from ckptspec.formats import FORMATS
from ckptspec.spec.rules import REJECT, RULES
from ckptspec.spec.schema import OCANNL_MAX_ALIGNMENT

SUITE = load_suite()
FILES = [case for case in SUITE.cases if case.kind == "file"]
SCHEMAS = MANIFEST.parent / "schemas"


def _ids(case: Case) -> str:
    return case.id


@functools.cache
def _schema(name: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


@pytest.mark.parametrize("format", FORMATS)
def test_there_are_cases(format: str) -> None:
    cases = [case for case in SUITE.cases if case.format == format]
    assert len(cases) >= (150 if format == "safetensors" else 250)
    assert SUITE.case(SUITE.smoke[format]).canonical
    assert {"valid", "invalid"} <= {case.verdict for case in cases if case.kind == "document"}


def test_ids_are_unique() -> None:
    assert len({case.id for case in SUITE.cases}) == len(SUITE.cases)


def test_manifest_fits_its_schema() -> None:
    _schema("manifest").validate(json.loads(MANIFEST.read_text("utf-8")))


def test_every_file_is_in_the_manifest_and_small() -> None:
    named = {name for case in SUITE.cases for name in (case.file, case.expected)}
    there = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*") if path.is_file()}
    assert there == named
    assert all(case.size <= 200_000 for case in SUITE.cases)


def test_every_rule_has_its_case() -> None:
    first = {case.rules[0] for case in FILES if case.verdict != "valid"}
    named = {rule for case in FILES for rule in case.rules}
    for rule in RULES.values():
        if rule.kind == REJECT:
            assert rule.id in first, f"no case is refused for {rule.id}"
        else:
            assert rule.id in named, f"no case is about {rule.id}"


def test_every_reject_rule_can_come_alone() -> None:
    """For each reject rule some case draws it, and nothing else but what it implies."""
    alone = {"ANY-FILE-FORMAT"}
    for case in FILES:
        if case.format in FORMATS and case.verdict != "valid":
            found = {finding.rule for finding in validate(case.read(), format=case.format)}
            if found <= {case.rules[0], "OAM-HDR-OLD", *RULES[case.rules[0]].implies}:
                alone.add(case.rules[0])
    assert alone >= {rule.id for rule in RULES.values() if rule.kind == REJECT}


@pytest.mark.parametrize("case", FILES, ids=_ids)
def test_file(case: Case) -> None:
    expectation = Expectation.of(case)
    assert hashlib.sha256(expectation.data).hexdigest() == case.sha256
    check(expectation)
    if "error" not in expectation.expected:
        _schema("document").validate(expectation.expected)


@pytest.mark.parametrize("case", [case for case in SUITE.cases if case.kind == "document"], ids=_ids)
def test_document(case: Case) -> None:
    expectation = Expectation.of(case)
    check(expectation)
    if case.verdict != "invalid":
        _schema("document").validate(expectation.expected)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.oam_documents() | strategies.safetensors_documents())
def test_documents_fit_the_schema(document: dict[str, Any]) -> None:
    _schema("document").validate(json.loads(neutral.dump_json(document)))


def test_definitions_give_the_committed_files() -> None:
    from ckptspec.conformance.build import build_files

    made = build_files()
    root = MANIFEST.parent
    assert {name for name, data in made.items() if (root / name).read_bytes() != data} == set()


def test_export(tmp_path: Path) -> None:
    from ckptspec.conformance.export import export

    chosen = [case for case in FILES if case.verdict == "acceptable"]
    export(chosen, tmp_path / "vectors")
    assert load_suite(tmp_path / "vectors" / "manifest.json").cases == tuple(chosen)
    there = {str(path.relative_to(tmp_path / "vectors")) for path in (tmp_path / "vectors").glob("*/*")}
    assert there == {name for case in chosen for name in (case.file, case.expected)}


def test_tags_tell_what_a_case_needs() -> None:
    """An implementation that lacks one of these can skip the cases that need it."""
    for case in (case for case in SUITE.cases if case.format == "ocannl" and case.verdict == "valid"):
        document = case.read_expected()
        needs = {
            "training": document["training"] is not None,
            "padding": any(tensor["padding"] for tensor in document["tensors"]),
            "void": any(tensor["precision"] == "void" for tensor in document["tensors"]),
        }
        assert {tag for tag, needed in needs.items() if needed} == set(needs) & set(case.tags), case.id


def test_tags_tell_the_dtypes_below_a_byte() -> None:
    for case in (case for case in SUITE.cases if case.format == "safetensors" and case.verdict == "valid"):
        dtypes = {tensor["dtype"] for tensor in case.read_expected()["tensors"]}
        assert bool(dtypes & {"F4", "F6_E2M3", "F6_E3M2"}) == ("packed" in case.tags), case.id


def test_largest_alignment() -> None:
    """The file is no case: an encoder would have to write 64 MB for its document."""
    data = file(T(prec="byte"), alignment=OCANNL_MAX_ALIGNMENT, pad=False)
    assert [finding.rule for finding in validate(data)] == ["OCANNL-FRM-ALIGN"]
    document = decode(data)
    made = encode(document)
    assert len(made) == OCANNL_MAX_ALIGNMENT + 2
    assert decode(made) == document
    with pytest.raises(ArgumentError):
        encode(document | {"alignment": OCANNL_MAX_ALIGNMENT + 1})


def test_what_upstream_takes_is_said() -> None:
    """A file that OCANNL's reader takes and this specification refuses is for a decoder a *should*."""
    for case in FILES:
        if case.format == "ocannl" and case.verdict == "invalid":
            assert (case.level == "should") == bool(case.behaviour.get("ocannl")), case.id


@pytest.mark.parametrize("module", [oam, ocannl, safetensors])
def test_module_for_the_format(module: Any) -> None:
    assert all(hasattr(module, name) for name in module.__all__)
