"""What ckptspec gives to the tests of others: assertions, golden files, the plugin for pytest, the pre-commit hooks."""

from __future__ import annotations

import doctest
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec import ArgumentError, FormatError, oam, testing
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.conformance.runner import suite_tests
from ckptspec.conformance.strategies_oam import image_of
from ckptspec.testing import ConformanceWarning, assert_refused, assert_same, assert_valid, case, cases

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Path(__file__).parent / "other_project"
BROKEN = "oam/bad_payload_weights_v3"


def message(kind: type[Exception], function: Callable[..., Any], *args: Any, **more: Any) -> str:
    """Return what an exception of a kind says."""
    with pytest.raises(kind) as caught:
        function(*args, **more)
    return str(caught.value)


# ----------------------------------------------------------------------------------------------------------- assertions


def test_valid_files_pass() -> None:
    report = assert_valid(case("oam/golden_weights").path, strict=True, format="oam")
    assert report.canonical
    assert assert_valid(case("ocannl/golden_minimal").bytes).format == "ocannl"
    assert assert_valid(case("oam/v2_all_sections").bytes).canonical is False


def test_a_refused_file_is_told_with_rule_offset_found_and_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    path = case(BROKEN).copy_to(tmp_path)
    assert message(AssertionError, assert_valid, path) == (
        f"{path}: refused: .oam version 3, 12616 bytes\n"
        "  reject OAM-SEC-CHECKSUM at bytes 4204 to 4451 (0x106c), weights\n"
        "      found    a payload that hashes to 0x8ee1c1118707ceb2\n"
        "      expected 0x8ee1e11187080512, as sections[1].checksum at byte 164 says\n"
        "      A section's checksum MUST be the FNV-1a-64 of its payload.\n"
        "      One byte explains it: byte 4451 (0x1163) is 0x40; with 0x60 the checksum fits."
    )


def test_strictly_a_file_must_be_canonical() -> None:
    told = message(AssertionError, assert_valid, case("oam/v2_all_sections").bytes, strict=True)
    assert told.startswith("the bytes: not canonical: .oam version 2, ")
    assert "canonical OAM-HDR-OLD at bytes 4 to 7 (0x4), header.version" in told


def test_many_findings_are_counted_and_the_reasons_come_first() -> None:
    tensors = {f"t{at}": {"dtype": "U8", "shape": [1], "data_offsets": [at, at], "x": at} for at in range(30)}
    text = json.dumps(tensors).encode()
    data = len(text).to_bytes(8, "little") + text
    told = message(AssertionError, assert_valid, data)
    total = len(list(ckptspec.validate(data)))
    assert told.count(" at byte") == 20
    assert told.count("  reject SAFETENSORS-TEN-BYTES") == 20
    assert told.endswith(f"\n  and {total - 20} more findings")


def test_refusals_are_checked_with_their_rule() -> None:
    broken = case(BROKEN)
    assert assert_refused(broken.path).rule == "OAM-SEC-CHECKSUM"
    assert assert_refused(broken.bytes, "OAM-SEC-CHECKSUM").offset == 4204
    told = message(AssertionError, assert_refused, broken.bytes, "OAM-SEC-OVERLAP")
    assert told.startswith(
        "expected a file that readers must refuse, for OAM-SEC-OVERLAP, found OAM-SEC-CHECKSUM\nthe bytes: refused: "
    )
    several = case("safetensors/bad_several_buffer")
    told = message(AssertionError, assert_refused, several.bytes, "SAFETENSORS-DAT-TRAILING")
    assert "found SAFETENSORS-DAT-GAP; SAFETENSORS-DAT-TRAILING is broken too, but found later\n" in told
    told = message(AssertionError, assert_refused, case("oam/golden_minimal").bytes, "OAM-SEC-OVERLAP")
    assert told.startswith("expected a file that readers must refuse, for OAM-SEC-OVERLAP\nthe bytes: valid: .oam ")
    assert message(AssertionError, assert_refused, case("oam/golden_minimal").bytes).startswith(
        "expected a file that readers must refuse\n"
    )


def test_a_file_may_be_said_to_be_of_a_format() -> None:
    data = case("oam/bad_magic_no_nul").bytes
    assert assert_refused(data, "OAM-HDR-MAGIC", format="oam")
    assert message(ArgumentError, assert_valid, data, format="onnx").startswith("format: found 'onnx', expected one of")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("OAM-SEC-OVERLAPS", "rule: there is no rule 'OAM-SEC-OVERLAPS'; did you mean OAM-SEC-OVERLAP"),
        ("OAM-HDR-OLD", "rule: OAM-HDR-OLD is of the kind canonical: no file is refused for it"),
    ],
)
def test_a_rule_for_which_nothing_is_refused_is_a_mistake(rule: str, told: str) -> None:
    assert message(ArgumentError, assert_refused, b"", rule).startswith(told)


def test_what_the_system_will_not_read_stays_its_error(tmp_path: Path) -> None:
    for function in (assert_valid, assert_refused, lambda path: assert_same(path, path)):
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "nothing.oam")


# ----------------------------------------------------------------------------------------------------------- the same


def model(*values: float) -> oam.Model:
    return oam.Model(weights={"w": np.array(values, np.float32)})


def tensors(*values: float, dtype: Any = np.float32) -> bytes:
    from ckptspec import safetensors

    return safetensors.dumps({"w": np.array(values, dtype)})


def test_the_same_content_in_other_containers(tmp_path: Path) -> None:
    path = tmp_path / "model.oam"
    ckptspec.save(path, model(1, 2))
    found = assert_same(path, oam.dumps(model(1, 2), version=2))
    assert not found.differ
    assert_same(path, model(1, 2))
    assert_same(path, tensors(1, 2), only="w")
    assert_same(path, bytearray(tensors(1, 2)), facts=False)


def test_differences_are_told_as_diff_tells_them(tmp_path: Path) -> None:
    one, two = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    one.write_bytes(tensors(1, 2, 3))
    two.write_bytes(tensors(1, 2, 4))
    done = subprocess.run(
        [sys.executable, "-m", "ckptspec", "diff", str(one), str(two)], capture_output=True, text=True, check=False
    )
    assert message(AssertionError, assert_same, one, two) == "expected the same content\n" + done.stdout.rstrip("\n")
    told = message(AssertionError, assert_same, one.read_bytes(), two)
    assert "- the first, 84 bytes in memory: safetensors file, 1 tensor" in told.replace(
        f"{len(one.read_bytes())} bytes", "84 bytes"
    )
    assert "1 of 3 elements differs, first at [2]; max abs 1 at [2]; max rel 0.25; max 4194304 ULP" in told


def test_tolerances() -> None:
    one, two = tensors(1, 2), tensors(1, 2.5)
    for more in ({"atol": 0.5}, {"rtol": 0.2}, {"ulp": 1 << 22}):
        assert_same(one, two, **more)
    assert "1 beyond the tolerance" in message(AssertionError, assert_same, one, two, atol=0.4)
    assert message(ArgumentError, assert_same, one, two, atol=-1) == "a tolerance is 0 or more"
    assert message(ArgumentError, assert_same, one, two, rtol=float("nan")) == "a tolerance is 0 or more"
    assert_same(one, tensors(1, 2, dtype=np.float64), ignore_dtype=True)
    assert "another dtype" in message(AssertionError, assert_same, one, tensors(1, 2, dtype=np.float64))


def test_a_selection_of_no_tensor_is_a_mistake() -> None:
    told = message(ArgumentError, assert_same, tensors(1), tensors(1), only=["v", "\x1b*"])
    assert told == r"only: no tensor has a name like 'v' or '\x1b*'"
    assert message(ArgumentError, assert_same, tensors(1), tensors(1), only=[]).startswith("only: found list of 0")


def test_a_file_that_readers_refuse_is_the_same_as_nothing() -> None:
    told = message(AssertionError, assert_same, case(BROKEN).bytes[:5000], case(BROKEN).bytes)
    assert told.startswith("only files that readers accept can be the same: OAM-HDR-TOTAL at byte ")


def test_a_long_difference_is_cut() -> None:
    from ckptspec import safetensors

    many = safetensors.dumps({f"w{at:03}": np.zeros(1, np.float32) for at in range(400)})
    lines = message(AssertionError, assert_same, many, tensors(1)).splitlines()
    assert len(lines) == 203
    assert lines[-2] == "  ... 203 more lines"
    assert lines[-1].startswith("different: 0 common tensors compared, 400 removed, 1 added")


# ---------------------------------------------------------------------------------------------------------------- cases


def test_cases_are_selected() -> None:
    suite = load_suite().cases
    assert cases() == tuple(item for item in suite if item.kind == "file")
    assert cases(direction="encode") == tuple(item for item in suite if "encode" in item.directions)
    some = cases(format=["oam", "ocannl"], verdict="invalid", skip_tags=["quantized", "training"], level="must")
    assert {item.format for item in some} == {"oam", "ocannl"}
    assert all(item.verdict == "invalid" and item.level == "must" for item in some)
    assert not any({"quantized", "training"} & set(item.tags) for item in some)
    assert {item.rules[0] for item in cases(rule="OAM-SEC-CHECKSUM", verdict="invalid")} >= {"OAM-SEC-CHECKSUM"}
    assert [item.id for item in cases(match=["oam/golden_min*", "*/golden_weights"])] == [
        "oam/golden_minimal",
        "oam/golden_weights",
    ]


def test_a_case_tests_what_the_runner_runs_it_for() -> None:
    run = Counter((test.case.id, test.direction) for test in suite_tests(load_suite()))
    assert run == Counter((item.id, direction) for item in load_suite().cases for direction in item.directions)


def test_what_a_case_has() -> None:
    golden = case("oam/golden_weights")
    assert golden.path == VECTORS / "oam" / "golden_weights.oam"
    assert golden.bytes == golden.path.read_bytes()
    assert golden.document == ckptspec.decode(golden.bytes)
    assert (golden.verdict, golden.rules, golden.reason, str(golden)) == ("valid", (), "", "oam/golden_weights")
    assert case(BROKEN).document is None
    assert case(BROKEN).rules[0] == "OAM-SEC-CHECKSUM"
    assert case("safetensors/open_front_space").reason
    for item in load_suite().cases:
        if item.verdict == "valid":
            assert item.document["format"] == item.format, item


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"format": "onnx"}, "format: there is no format 'onnx'; there are oam, ocannl, safetensors, any"),
        ({"verdict": ["valid", "good"]}, "verdict: there is no verdict 'good'; there are valid, invalid, acceptable"),
        ({"tag": "quantised"}, "tag: there is no tag 'quantised'; did you mean quantized?"),
        ({"skip_tags": "sexps"}, "skip_tags: there is no tag 'sexps'; did you mean sexp?"),
        ({"rule": "OAM-SEC-OVERLAPS"}, "rule: there is no rule 'OAM-SEC-OVERLAPS'; did you mean OAM-SEC-OVERLAP"),
        ({"direction": "read"}, "direction: there is no direction 'read'; there are decode, encode"),
        ({"tag": []}, "tag: found list of 0, expected a name or several"),
        (
            {"format": "oam", "tag": "sexp"},
            "the suite has no case with direction='decode', format=['oam'], tag=['sexp']",
        ),
        ({"match": "oam\x1b"}, r"the suite has no case with match='oam\x1b', direction='decode'"),
    ],
)
def test_a_selection_that_cannot_be_meant_is_an_error(wanted: dict[str, Any], told: str) -> None:
    assert message(ArgumentError, cases, **wanted).startswith(told)


def test_an_unknown_case_is_named() -> None:
    told = message(ArgumentError, case, "oam/golden_minimall")
    assert told.startswith("id: there is no case 'oam/golden_minimall'; did you mean oam/golden_minimal")


# --------------------------------------------------------------------------------------------------- readers, writers


class NoError(Exception):
    """How a reader of these tests refuses."""


def refuse(_data: Any) -> Any:
    raise NoError("not\x1bgood")


def check(case_id: str, read: Callable[[bytes], Any], **more: Any) -> str:
    return message(AssertionError, testing.check_reader, case(case_id), read, **more)


def test_the_reference_passes_as_reader_and_as_writer() -> None:
    for item in cases(format="safetensors", skip_tags="many"):
        testing.check_reader(item, ckptspec.decode)
    for item in cases(format="safetensors", direction="encode", skip_tags="many"):
        testing.check_writer(item, ckptspec.encode, strict=True)


def test_refusing_what_is_valid_is_wrong() -> None:
    path = case("oam/golden_minimal").path
    assert check("oam/golden_minimal", refuse, refusal=NoError) == (
        "oam/golden_minimal: rejected valid\n"
        "  the case config and progress with their defaults\n"
        "  wanted   the expected document\n"
        "  found    a refusal: NoError: not\\x1bgood\n"
        f"  file     {path}"
    )


def test_a_refusal_that_knows_its_place_is_looked_up() -> None:
    def read(_data: bytes) -> Any:
        finding = assert_refused(case(BROKEN).bytes)
        raise FormatError(finding)

    assert "\n  there    byte 4204 is " in check("oam/golden_weights", read)


def test_an_exception_of_another_type_is_no_refusal() -> None:
    with pytest.raises(AssertionError) as caught:
        testing.check_reader(case(BROKEN), refuse)
    told = str(caught.value)
    assert told.startswith("oam/bad_payload_weights_v3: crash\n")
    assert "\n  wanted   a rejection, for OAM-SEC-CHECKSUM\n" in told
    assert "\n  found    a crash: uncaught NoError: not\\x1bgood\n" in told
    assert "\n  the rule A section's checksum MUST be the FNV-1a-64 of its payload.\n" in told
    assert "\n  a refusal is told from a crash by its type: refusal=..., by default CheckpointError\n" in told
    assert isinstance(caught.value.__cause__, NoError)
    testing.check_reader(case(BROKEN), refuse, refusal=(KeyError, NoError))


def test_accepting_what_is_invalid_is_wrong() -> None:
    document = case("oam/golden_minimal").document
    assert check(BROKEN, lambda data: document).startswith(f"{BROKEN}: accepted invalid\n")
    assert check(BROKEN, len, content=False).startswith(f"{BROKEN}: accepted invalid\n")


def test_another_document_is_wrong_unless_only_acceptance_counts() -> None:
    def read(data: bytes) -> Any:
        return {**ckptspec.decode(data), "version": 2}

    told = check("oam/golden_minimal", read)
    assert told.startswith("oam/golden_minimal: wrong document\n")
    assert "\n  differs  at version: found 2, expected 3\n" in told
    testing.check_reader(case("oam/golden_minimal"), read, content=False)
    assert "accepted, but what was returned is not a document" in check("oam/golden_minimal", lambda data: {1, 2})
    assert "not a JSON object" in check("oam/golden_minimal", lambda data: [])


def test_acceptable_files_may_be_refused_or_read_rightly() -> None:
    both = next(item for item in cases(format="safetensors", verdict="acceptable") if item.document is not None)
    testing.check_reader(both, refuse, refusal=NoError)
    told = check(both.id, lambda data: {"format": "safetensors", "metadata": None, "tensors": []})
    assert f"\n  known    {both.reason}\n" in told


def test_what_should_be_is_a_warning_unless_strict() -> None:
    mild = next(item for item in cases(format="ocannl", level="should"))
    document = case("ocannl/golden_minimal").document
    with pytest.warns(ConformanceWarning, match=f"^{mild.id}: accepted invalid\n") as caught:
        testing.check_reader(mild, lambda data: document)
    assert caught[0].filename == __file__
    assert check(mild.id, lambda data: document, strict=True).startswith(f"{mild.id}: accepted invalid\n")


def test_writers_are_judged_by_their_files() -> None:
    golden = case("oam/golden_minimal")
    told = message(AssertionError, testing.check_writer, golden, lambda document: golden.bytes[:-1])
    assert told.startswith("oam/golden_minimal: invalid file\n")
    assert "OAM-HDR-TOTAL" in told
    told = message(AssertionError, testing.check_writer, golden, lambda document: case("oam/golden_weights").bytes)
    assert told.startswith("oam/golden_minimal: wrong document\n")
    told = message(AssertionError, testing.check_writer, golden, lambda document: "text")
    assert "\n  found    accepted, but what was returned is no bytes: 'text'\n" in told
    assert message(AssertionError, testing.check_writer, golden, refuse, refusal=NoError).startswith(
        "oam/golden_minimal: refused\n"
    )
    with pytest.warns(ConformanceWarning, match="^oam/golden_minimal: not canonical\n"):
        testing.check_writer(golden, lambda document: image_of(document, gaps=[8]).bytes())


def test_texts_that_are_no_json_do_not_get_to_the_writer() -> None:
    texts = [item for item in cases(direction="encode", verdict="invalid") if item.bytes.startswith(b"\xef\xbb\xbf")]
    assert texts
    for item in texts:
        testing.check_writer(item, lambda document: pytest.fail("was asked"))
    bad = cases(format="oam", direction="encode", verdict="invalid", match="*unknown*")[0]
    told = message(AssertionError, testing.check_writer, bad, lambda document: case("oam/golden_minimal").bytes)
    assert told.startswith(f"{bad.id}: accepted invalid\n")


def test_a_case_for_the_other_side_is_a_mistake() -> None:
    text = cases(direction="encode", verdict="invalid")[0]
    told = message(ArgumentError, testing.check_reader, text, ckptspec.decode)
    assert told == f"case: {text.id} is no case for a reader; select with direction='decode'"
    told = message(ArgumentError, testing.check_writer, case(BROKEN), ckptspec.encode)
    assert told == f"case: {BROKEN} is no case for a writer; select with direction='encode'"


# ----------------------------------------------------------------------------------------------------------- the plugin


def test_the_plugin_is_installed_under_its_name() -> None:
    assert [point.value for point in entry_points(group="pytest11", name="ckptspec")] == ["ckptspec.pytest_plugin"]


def collected(pytester: pytest.Pytester, source: str, *args: str) -> list[str]:
    """Return the ids of the tests of a module."""
    pytester.makepyfile(source)
    result = pytester.runpytest_inprocess("--collect-only", "-q", "--strict-markers", *args)
    assert result.ret == 0, result.stdout.str()
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_a_marked_method_of_a_testcase_is_an_error(pytester: pytest.Pytester) -> None:
    source = """
        import unittest, pytest
        class TestReader(unittest.TestCase):
            @pytest.mark.ckptspec_cases(format="oam")
            def test_reader(self):
                pass
    """
    pytester.makepyfile(source)
    result = pytester.runpytest_inprocess("-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *TestReader::test_reader: @pytest.mark.ckptspec_cases: a method of a TestCase*"]
    )


def test_the_marker_parametrises_with_ids(pytester: pytest.Pytester) -> None:
    found = collected(
        pytester,
        """
        import pytest

        @pytest.mark.ckptspec_cases(format="oam", verdict="invalid", skip_tags=["quantized"])
        def test_reader(case):
            pass
        """,
    )
    wanted = cases(format="oam", verdict="invalid", skip_tags="quantized")
    assert found == [f"test_reader[{item.id}]" for item in wanted]


def test_markers_add_up_on_a_test_and_the_nearest_counts(pytester: pytest.Pytester) -> None:
    found = collected(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.ckptspec_cases(match="oam/golden_minimal")

        @pytest.mark.ckptspec_cases(match="oam/golden_weights")
        @pytest.mark.ckptspec_cases(match=["ocannl/golden_minimal", "oam/golden_weights"])
        def test_both(case): pass

        def test_module(case): pass

        def test_none(): pass

        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.ckptspec_cases(match="oam/golden_weights", argument="golden")
        def test_named(golden, n): pass

        @pytest.mark.ckptspec_cases(match="ocannl/golden_minimal")
        class TestClass:
            def test_class(self, case): pass
        """,
    )
    assert found == [
        "test_both[oam/golden_weights]",
        "test_both[ocannl/golden_minimal]",
        "test_module[oam/golden_minimal]",
        "test_none",
        "test_named[oam/golden_weights-1]",
        "test_named[oam/golden_weights-2]",
        "TestClass::test_class[ocannl/golden_minimal]",
    ]


def test_acceptable_and_mild_cases_are_marked(pytester: pytest.Pytester) -> None:
    source = """
    import pytest

    @pytest.mark.ckptspec_cases(format=["safetensors", "ocannl"])
    def test_reader(case): pass
    """
    found = collected(pytester, source, "-m", "ckptspec_acceptable or ckptspec_should")
    wanted = [
        item
        for item in cases(format=["safetensors", "ocannl"])
        if item.verdict == "acceptable" or item.level == "should"
    ]
    assert found == [f"test_reader[{item.id}]" for item in wanted]
    assert {item.verdict for item in wanted} == {"acceptable", "invalid"}


@pytest.mark.parametrize(
    ("marker", "signature", "told"),
    [
        ('tag="sexpp"', "case", "tag: there is no tag 'sexpp'; did you mean sexp?"),
        ('format="onnx"', "case", "format: there is no format 'onnx'; there are oam, ocannl, safetensors, any"),
        (
            'format="oam", tag="sexp"',
            "case",
            "the suite has no case with direction='decode', format=['oam'], tag=['sexp']",
        ),
        ('"oam"', "case", "takes keyword arguments only: format, verdict, "),
        ('formats="oam"', "case", "has no argument 'formats'; there are format, verdict, "),
        ('format="oam"', "", "the test has no argument 'case' for the case"),
        ('format="oam", argument="golden"', "case", "the test has no argument 'golden' for the case"),
    ],
)
def test_mistakes_are_errors_of_the_collection(
    pytester: pytest.Pytester, marker: str, signature: str, told: str
) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.ckptspec_cases({marker})\ndef test_it({signature}): pass\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*::test_it: @pytest.mark.ckptspec_cases: {glob.escape(told)}*"])
    assert "Traceback" not in result.stdout.str()


def test_two_arguments_are_a_mistake(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ckptspec_cases(format="oam")
        @pytest.mark.ckptspec_cases(format="ocannl", argument="other")
        def test_it(case, other): pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["*gives two arguments, case and other"])


def test_fixtures_give_cases_and_say_what_is_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_good(ckptspec_case, ckptspec_cases):
            golden = ckptspec_case("oam/golden_minimal")
            assert golden in ckptspec_cases(format="oam", tag="whole")
            assert golden.path.is_file()

        def test_id(ckptspec_case):
            ckptspec_case("oam/golden_minimall")

        def test_tag(ckptspec_cases):
            ckptspec_cases(tag="quantised")
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            '>*ckptspec_case("oam/golden_minimall")',
            "E*UsageError: id: there is no case 'oam/golden_minimall'; did you mean oam/golden_minimal*",
            '>*ckptspec_cases(tag="quantised")',
            "E*UsageError: tag: there is no tag 'quantised'; did you mean quantized?",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_assertions_hide_their_own_frames(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from ckptspec.testing import assert_refused, assert_same, assert_valid, case, cases, check_reader, check_writer

        GOLDEN = case("oam/golden_minimal")

        def test_valid(): assert_valid(b"")
        def test_refused(): assert_refused(GOLDEN.bytes)
        def test_rule(): assert_refused(GOLDEN.bytes, "OAM-SEC-NOPE")
        def test_same(): assert_same(GOLDEN.path, case("oam/golden_weights").path)
        def test_case(): case("nope")
        def test_cases(): cases(tag="nope")
        def test_reader(): check_reader(GOLDEN, lambda data: [])
        def test_writer(): check_writer(GOLDEN, lambda data: b"")
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=8)
    result.stdout.no_fnmatch_line("*testing.py:*")


LOADED = """
import sys, pytest
code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", sys.argv[1]])
print(code, *sorted(name for name in sys.modules if name.split(".")[0] in ("ckptspec", "numpy", "construct", "tqdm")))
"""


def test_a_project_that_does_not_ask_pays_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    code, *loaded = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert "ckptspec.pytest_plugin" in loaded
    light = ("_mapped", "_system", "errors", "formats", "progress", "pytest_plugin", "source", "text", "urls")
    assert set(loaded) <= {"ckptspec", *(f"ckptspec.{name}" for name in light)}


# ------------------------------------------------------------------------------------------------------- other projects


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other") / "project"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))}
    environment["COLUMNS"] = "80"  # what the page shows
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def test_another_project_finds_the_defect_of_its_reader(project: Path) -> None:
    done = run(project, "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=results.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = list(ET.parse(project / "results.xml").iter("testcase"))
    failed = {row.attrib["name"]: row.find("failure") for row in rows if row.find("failure") is not None}
    blind = ("SAFETENSORS-DAT-OVERLAP", "SAFETENSORS-DAT-GAP", "SAFETENSORS-DAT-TRAILING")
    planted = [item for item in cases(format="safetensors", verdict="invalid") if item.rules[0] in blind]
    assert set(failed) == {
        *(f"test_reader[{item.id}]" for item in planted),
        "test_writer_strictly[safetensors/golden_minimal]",
        "test_any_gap",
    }
    assert len(rows) == len(cases(format="safetensors")) + 8 + len(
        cases(format="safetensors", verdict=["valid", "acceptable"], skip_tags="many")
    )
    for item in planted:
        failure = failed[f"test_reader[{item.id}]"]
        assert failure is not None
        assert failure.attrib["message"].startswith(
            f"AssertionError: {item.id}: accepted invalid\n"
            f"  the case {item.title}\n"
            f"  wanted   a rejection, for {item.rules[0]}\n"
        )
    assert re.search(r"file=<safetensors file of \d+ bytes that breaks SAFETENSORS-DAT-GAP>", done.stdout)
    assert "ConformanceWarning: safetensors/golden_minimal: not canonical" in done.stdout


def test_another_project_passes_the_type_checker(project: Path) -> None:
    pytest.importorskip("mypy")
    done = run(project, "mypy", "--cache-dir", "cache")
    assert done.returncode == 0, done.stdout + done.stderr


# ------------------------------------------------------------------------------------------------------------- the page

PAGE = ROOT / "docs" / "testing.md"
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

# A reader that takes what the header says is the file, and does not look at what follows.
MY_PROJECT = """
import ckptspec

class RefusedError(Exception):
    pass

def decode(data):
    if data[:4] == b"OAM\\0":
        data = data[:max(64, int.from_bytes(data[16:24], "little"))]
    try:
        return ckptspec.decode(data)
    except ckptspec.FormatError as error:
        raise RefusedError from error

def encode(document):
    try:
        return ckptspec.encode(document)
    except ckptspec.ArgumentError as error:
        raise RefusedError from error
"""
CONFTEST = """
from hypothesis import HealthCheck, settings

settings.register_profile("few", max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("few")
"""


@pytest.fixture(scope="module")
def page() -> list[tuple[str, str]]:
    if not PAGE.is_file():
        pytest.skip("the documentation is not installed")
    return [(match["language"], match["text"]) for match in FENCE.finditer(PAGE.read_text("utf-8"))]


def test_examples_of_the_page_run(page: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    told: list[str] = []
    ran = 0
    for language, source in page:
        if language == "python" and not source.startswith("# test_"):
            exec(compile(source, "testing.md", "exec"), names)  # the documentation is ours
            ran += 1
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(source, names, "testing.md", "testing.md", 0)
            ran += doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append).attempted
    assert not told, "".join(told)
    assert ran == 5


def test_tests_of_the_page_run(page: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "my_project.py").write_text(MY_PROJECT)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    modules = [source for language, source in page if language == "python" and source.startswith("# test_")]
    for source in modules:
        (tmp_path / source.split()[1]).write_text(source)
    done = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_files or test_any or minimal")
    assert done.returncode == 0, done.stdout
    passed = re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= 7
    ((command, shown),) = [source.split("\n", 1) for language, source in page if language == "console"]
    done = run(tmp_path, *shlex.split(command.removeprefix("$ ")), "-p", "no:cacheprovider")
    assert done.returncode == 1
    lines = [r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in shown.splitlines()]
    assert re.fullmatch("".join(lines), done.stdout), done.stdout


def test_settings_of_the_page_are_right(page: list[tuple[str, str]]) -> None:
    yaml = pytest.importorskip("yaml")
    hook, workflow = (yaml.safe_load(source) for language, source in page if language == "yaml")
    assert hook["repos"][0]["hooks"][0]["id"] in HOOKS.read_text("utf-8")
    commands = [step["run"] for step in workflow["jobs"]["checkpoints"]["steps"] if "run" in step]
    from ckptspec.cli import build_parser

    for command in commands:
        if "ckptspec " in command:
            words = shlex.split(command.rpartition("ckptspec ")[2])
            build_parser().parse_args([*words, "FILE"] if words == ["validate"] else words)
    assert len(commands) == 4


# ------------------------------------------------------------------------------------------------------------ the hooks

HOOKS = ROOT / ".pre-commit-hooks.yaml"


@pytest.mark.skipif(not HOOKS.is_file(), reason="the hooks are not installed")
def test_hooks_look_at_checkpoints_and_refuse_what_is_broken(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    hooks = {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text("utf-8"))}
    assert set(hooks) == {"ckptspec-validate", "ckptspec-validate-strict"}
    good, broken, old = (case(name).copy_to(tmp_path) for name in ("oam/golden_minimal", BROKEN, "oam/v2_all_sections"))
    for name, paths, status in (
        ("ckptspec-validate", [good, old], 0),
        ("ckptspec-validate", [good, broken], 1),
        ("ckptspec-validate-strict", [good], 0),
        ("ckptspec-validate-strict", [good, old], 1),
    ):
        hook = hooks[name]
        command = shlex.split(hook["entry"])
        assert command[0] == "ckptspec"
        assert hook["language"] == "python"
        done = run(tmp_path, *command, *map(str, paths))
        assert done.returncode == status, done.stdout
    for item in load_suite().cases:
        if item.kind == "file" and item.format != "any":
            assert re.search(hook["files"], item.file), item
