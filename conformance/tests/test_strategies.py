"""The public strategies: what they make is what they say, and damaged files break the rule that they name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

import ckptspec
from ckptspec import ArgumentError, decode, dumps, encode, loads, validate
from ckptspec.conformance import damage_oam, damage_ocannl, damage_safetensors, strategies
from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.strategies import DamagedFile, SoundFile
from ckptspec.formats import FORMATS, module_of
from ckptspec.spec.rules import REJECT, RULES, rules_of

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
FEW = settings(QUICK, max_examples=3)
ANY = settings(QUICK, max_examples=300, phases=[Phase.generate], database=None)
SMALLEST = settings(QUICK, max_examples=200, phases=[Phase.generate, Phase.shrink], database=None)

DAMAGES = {"oam": damage_oam.DAMAGES, "ocannl": damage_ocannl.DAMAGES, "safetensors": damage_safetensors.DAMAGES}
REJECTS = [rule.id for name in FORMATS for rule in rules_of(name) if rule.kind == REJECT]


# ------------------------------------------------------------------------------------------------------ sound files


@pytest.mark.parametrize("format", FORMATS)
def test_documents_models_and_files_are_of_their_format(format: str) -> None:
    @FEW
    @given(strategies.documents(format), strategies.models(format), strategies.files(format))
    def holds(document: dict[str, Any], model: Any, file: SoundFile) -> None:
        assert document["format"] == format
        assert decode(encode(document)) == document
        assert module_of(format).holds(model)
        assert file.format == format

    holds()


@QUICK
@given(strategies.files())
def test_files_hold_what_they_say(file: SoundFile) -> None:
    report = validate(file.data, format=file.format)
    assert report.ok, report
    assert decode(file.data) == file.document
    data, document = file
    assert (data, document) == (file.data, file.document)


@QUICK
@given(strategies.files(canonical=True))
def test_canonical_files_are_canonical(file: SoundFile) -> None:
    report = validate(file.data)
    assert report.canonical, report
    assert report.format == file.format
    assert encode(file.document) == file.data


@QUICK
@given(strategies.models())
def test_models_round_trip(model: Any) -> None:
    data = dumps(model)
    assert validate(data).canonical
    assert dumps(loads(data)) == data


@pytest.mark.parametrize("format", FORMATS)
def test_odd_layouts_are_made(format: str) -> None:
    def odd(file: SoundFile) -> bool:
        return not validate(file.data).canonical and encode(file.document) != file.data

    assert find(strategies.files(format), odd, settings=ANY)


# ---------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("format", FORMATS)
def test_every_reason_to_refuse_is_there(format: str) -> None:
    assert list(DAMAGES[format]) == [rule.id for rule in rules_of(format) if rule.kind == REJECT]


@pytest.mark.parametrize("rule", REJECTS)
def test_damage_breaks_the_rule_that_it_names(rule: str) -> None:
    seen: set[bytes] = set()

    @FEW
    @given(strategies.damaged_files(rules=rule))
    def holds(file: DamagedFile) -> None:
        data, *named = file
        assert named == [rule, RULES[rule].format]
        first = validate(data, format=file.format).first
        assert first is not None
        assert first.rule == rule, first
        seen.add(data)

    holds()
    assert len(seen) > 1


@QUICK
@given(strategies.damaged_files())
def test_readers_refuse_damaged_files(file: DamagedFile) -> None:
    with pytest.raises(ckptspec.FormatError) as caught:
        loads(file.data)
    assert caught.value.rule in (file.rule, "ANY-FILE-FORMAT") or RULES[caught.value.rule].format != file.format


def test_only_what_every_reader_must_refuse_unless_strict() -> None:
    must = {
        case.rules[0]
        for case in load_suite().cases
        if (case.verdict, case.level, case.kind) == ("invalid", "must", "file")
    }
    mild = sorted(set(REJECTS) - must)
    assert "OCANNL-TEN-OVERLAP" in mild
    assert "OAM-TEN-UTF8" in mild

    def breaks_mild(file: DamagedFile) -> bool:
        return file.rule in mild

    assert find(strategies.damaged_files("ocannl", strict=True), breaks_mild, settings=ANY)

    @settings(QUICK, max_examples=20)
    @given(strategies.damaged_files("ocannl"))
    def never(file: DamagedFile) -> None:
        assert file.rule in must

    never()


# --------------------------------------------------------------------------------------------------------- shrinking


def test_a_failure_shrinks_to_a_small_model() -> None:
    found = find(strategies.models("oam"), lambda model: len(model.weights) > 1, settings=SMALLEST)
    assert [array.size for array in found.weights.values()] in ([0, 0], [1, 1], [0, 1], [1, 0])
    assert not found.state
    assert all(len(name) <= 2 for name in found.weights)


def test_a_failure_shrinks_to_a_plain_file() -> None:
    found = find(strategies.files("safetensors"), lambda file: len(file.document["tensors"]) > 0, settings=SMALLEST)
    assert found.data == encode(found.document)
    (tensor,) = found.document["tensors"]
    assert len(tensor["data"]) <= 8 * 2
    assert found.document["metadata"] is None


def test_a_failure_shrinks_to_a_plain_document_with_the_damage() -> None:
    rule = "SAFETENSORS-TEN-BYTES"
    found = find(strategies.damaged_files("safetensors", rules=rule), lambda file: True, settings=SMALLEST)
    text = found.data[8:].split(b"}}")[0] + b"}}"
    assert text == b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,2]}}'
    found = find(strategies.damaged_files("ocannl", rules="OCANNL-TRN-EMPTY"), lambda file: True, settings=SMALLEST)
    assert found.data.count(b"(id ") == 1
    assert b"(extra ())" in found.data


# ------------------------------------------------------------------------------------------------ what users meet first


def test_what_a_failing_example_shows() -> None:
    document: dict[str, Any] = {"format": "safetensors", "metadata": None, "tensors": []}
    assert repr(SoundFile(b"123", document)) == f"<safetensors file of 3 bytes: {document!r}>"
    assert repr(DamagedFile(b"1", "OAM-HDR-SHORT", "oam")) == "<.oam of 1 byte that breaks OAM-HDR-SHORT>"


@pytest.mark.parametrize("function", [strategies.documents, strategies.models, strategies.files])
def test_an_unknown_format_is_named(function: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^format: found 'onnx', expected one of oam, ocannl, safetensors$"):
        function("onnx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": "OAM-TEN-NOPE"}, "rules: 'OAM-TEN-NOPE': there is no such rule"),
        ({"rules": ["OAM-HDR-OLD"]}, "rules: 'OAM-HDR-OLD': it is of the kind canonical: no file is refused for it"),
        ({"format": "oam", "rules": "OCANNL-TEN-DUP"}, "rules: 'OCANNL-TEN-DUP': not one of these formats"),
        ({"rules": []}, "rules: found no rule, expected one or several"),
        ({"rules": [3]}, "rules: 3: there is no such rule"),
    ],
)
def test_rules_that_cannot_be_broken_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        strategies.damaged_files(**arguments)
    assert str(caught.value) == message


def test_without_hypothesis_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nimport ckptspec.conformance.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: ckptspec.conformance.strategies needs hypothesis, which is not installed: "
        "pip install 'ckptspec[test]'"
    )


def test_everything_public_has_a_docstring() -> None:
    for name in strategies.__all__:
        assert getattr(strategies, name).__doc__, name
