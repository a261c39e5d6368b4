"""Independent readings of the same bytes: they agree, but for what is declared, and every declaration is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.differential import __main__ as command
from ckptspec.conformance.differential import acceptable as table
from ckptspec.conformance.differential import searching
from ckptspec.conformance.differential.acceptable import Acceptable, acceptable
from ckptspec.conformance.differential.comparing import DISAGREE, Comparison
from ckptspec.conformance.differential.gathering import gathered
from ckptspec.conformance.differential.inputs import GeneratedFile, generated_files, golden_files
from ckptspec.conformance.differential.kaitai_reading import KAITAI
from ckptspec.conformance.differential.official import OFFICIAL, lacking_dtypes, official
from ckptspec.conformance.differential.readings import PLAIN, REFERENCE, Answer, Reading, plain, reference
from ckptspec.conformance.differential.recorded import load_record, record_of
from ckptspec.conformance.differential.searching import golden, search, shrunk
from ckptspec.formats import FORMATS
from ckptspec.spec.rules import RULES

from . import plain_oam_decoder, plain_oam_decoder_wrong
from .kaitai_parsers import REQUIRED

GENERATED = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def readings() -> list[Reading]:
    """Return the readings of this process; all of them where the tests must not be skipped."""
    made, missing = gathered()
    assert not (REQUIRED and missing), missing
    return made


@pytest.mark.parametrize("format", FORMATS)
def test_golden_files(format: str) -> None:
    """All readings agree, with the suite too; and all that is declared occurs."""
    comparison = Comparison(readings())
    assert [f"{found.origin}: {found.first}" for found in golden(comparison, golden_files(format))] == []
    tally = comparison.tally
    assert tally.files[format] == len(golden_files(format)) > 200
    names = {reading.name for reading in comparison.readings if format in reading.formats}
    assert all(numbers[0] > 50 for _, _, numbers in tally.rows())
    declared = {
        (entry, rule)
        for name in names
        for entry in acceptable(name, format)
        if entry.holds()
        for rule in entry.rules or ("",)
    }
    assert set(tally.declared) == declared
    all_names = [reading.name for reading in comparison.readings]
    if {KAITAI, OFFICIAL} <= set(all_names) and not lacking_dtypes():
        known = load_record()[format]
        assert record_of(tally, format, all_names) == known, "python -m ckptspec.conformance.differential --record"


@pytest.mark.parametrize("format", FORMATS)
def test_generated_files(format: str) -> None:
    comparison = Comparison(readings())

    @GENERATED
    @given(generated_files(format))
    def agree(file: GeneratedFile) -> None:
        assert comparison.ask(format, file.data) == []

    agree()
    assert all(sum(numbers) >= comparison.tally.files[format] for _, _, numbers in comparison.tally.rows())


def test_rules_of_the_table_are_those_of_the_catalogue() -> None:
    for name in (KAITAI, OFFICIAL):
        for kind in FORMATS:
            for entry in acceptable(name, kind):
                assert all(RULES[rule].format == kind for rule in entry.rules)
                assert bool(entry.rules) != (entry.refuses is not None)
    assert not any(acceptable(name, kind) for name in (REFERENCE, PLAIN) for kind in FORMATS)


def test_official_package_does_what_the_suite_tells_of_it() -> None:
    pytest.importorskip("safetensors")
    reading = official()
    told = {}
    for case in golden_files("safetensors"):
        assert (case.verdict == "acceptable") == ("safetensors-official" in case.behaviour), case.id
        if "safetensors-official" in case.behaviour:
            told[case.id] = case.behaviour["safetensors-official"].startswith("accepts")
            assert reading.ask("safetensors", case.read()).accepted == told[case.id], case.id
    assert set(told.values()) == {True, False}


def test_what_others_do_is_said_for_implementations_that_are_named() -> None:
    suite = load_suite()
    for case in suite.cases:
        assert set(case.behaviour) <= set(suite.implementations)
        assert all(told.split(",")[0].split(":")[0] for told in case.behaviour.values())


# ------------------------------------------------------------------------------------------ that it finds what is wrong


def with_bug(patch: pytest.MonkeyPatch, bug: str) -> list[Reading]:
    """Return the reference and the plain decoders, one of them with a bug put in."""
    name, replacement = plain_oam_decoder_wrong.BUGS[bug]
    assert hasattr(plain_oam_decoder, name)
    patch.setattr(plain_oam_decoder, name, replacement)
    return [reference(), plain()]


@pytest.mark.parametrize(
    ("bug", "what"),
    [
        ("skip-checksum", "OAM-SEC-CHECKSUM"),
        ("accept-dup", "OAM-TEN-DUP"),
        ("extents", ".shape"),
        ("float-text", "learning_rate"),
    ],
)
def test_a_wrong_reading_is_caught(monkeypatch: pytest.MonkeyPatch, bug: str, what: str) -> None:
    cases = [case for at, case in enumerate(golden_files("oam")) if at % 10 == 0 or what in case.rules]
    found = list(golden(Comparison(with_bug(monkeypatch, bug)), cases))
    assert found
    for one in found:
        # The suite says it too: it is the wrong one that stands alone.
        assert {pair.pair for pair in one.disagreements} == {(REFERENCE, PLAIN), (PLAIN, "suite")}
        assert what in str(one.first)
        assert one.first.place(one.data) is not None


def test_a_wrong_reading_is_found_among_generated_files_and_the_file_gets_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = Comparison(with_bug(monkeypatch, "extents"))
    found = search(comparison, ["oam"], 100.0, 1)
    assert found is not None
    assert ".shape" in str(found.first)
    assert comparison.tally.pairs["oam", (REFERENCE, PLAIN), DISAGREE] == 1
    monkeypatch.setattr(searching, "_TRIES", 50)
    small = shrunk(comparison, found)
    assert len(small.data) <= len(found.data)
    assert comparison.ask("oam", small.data) == list(small.disagreements)


def of(read: Callable[[bytes], Answer], name: str = "other") -> list[Reading]:
    """Return the reference, and a reading of safetensors files."""
    other = Reading(name=name, formats=("safetensors",), title="", finds="", read=lambda _format, data: read(data))
    return [reference(), other]


def test_what_is_no_answer_is_no_refusal() -> None:
    def fail(data: bytes) -> Answer:
        raise IndexError(len(data))

    invalid = load_suite().case("safetensors/golden_minimal").read()[:7]
    (one,) = Comparison(of(fail)).ask("safetensors", invalid)
    assert str(one).endswith("other breaks: uncaught IndexError: 7")


def test_parts_that_both_find_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_suite().case("safetensors/golden_minimal").read()
    document = reference().ask("safetensors", data).parts
    assert document is not None
    answers: Sequence[tuple[dict[str, Any], int]] = (
        ({}, 0),
        ({"metadata": document["metadata"], "unheard": 1}, 0),
        ({"metadata": {"k": "v"}}, 1),
        ({"buffer": document["buffer"]}, 0),
        ({"buffer": document["buffer"][:-1] + b"x"}, 1),
        ({"tensors": []}, 1),
    )
    for parts, number in answers:
        answer = Answer(parts=parts)
        found = Comparison(of(lambda _data, answer=answer: answer)).ask("safetensors", data)  # type: ignore[misc]
        assert len(found) == number, parts


def test_only_what_is_declared_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """All reasons for which the reference refuses a file must be declared, of this reading, and in this way."""
    entry = Acceptable(
        reading=OFFICIAL,
        format="safetensors",
        why="",
        rules=("SAFETENSORS-TXT-START",),
        when=lambda finding, data: data[8:9] == b" ",
    )
    monkeypatch.setattr(table, "acceptable", lambda *_: ())
    monkeypatch.setattr(
        "ckptspec.conformance.differential.comparing.acceptable",
        lambda name, _format: (entry,) if name == OFFICIAL else (),
    )
    takes_all = Answer(parts={})
    for text, name, number in (
        (b' {"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', OFFICIAL, 0),
        (b' {"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "other", 1),
        (b'\n{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', OFFICIAL, 1),
        (b' {"a":{"dtype":"u8","shape":[0],"data_offsets":[0,0]}}', OFFICIAL, 1),
    ):
        data = len(text).to_bytes(8, "little") + text
        found = Comparison(of(lambda _data: takes_all, name)).ask("safetensors", data)
        assert len(found) == number, text


# ----------------------------------------------------------------------------------------------------------- command


def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "gathered", lambda _folder: ([reference(), plain()], {"x": "there is no x"}))
    assert command.main(["--time", "0.1", "--seed", "7", "--format", "safetensors", "--save", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("left out: x: there is no x\nseed 7; readings: reference, plain decoder\nformat ")
    assert told.endswith("no disagreement but those that are declared\n")
    assert list(tmp_path.iterdir()) == []


def test_command_shows_a_disagreement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = with_bug(monkeypatch, "extents")
    monkeypatch.setattr(command, "gathered", lambda _folder: (wrong, {}))
    monkeypatch.setattr(searching, "_TRIES", 50)
    assert command.main(["--time", "0", "--format", "oam", "--save", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    (saved,) = tmp_path.iterdir()
    assert f"saved as {saved}" in told
    assert "  reference accepts\n  plain decoder accepts\n" in told
    assert "  reference and plain decoder disagree at byte " in told
    assert reference().ask("oam", saved.read_bytes()).accepted


@pytest.mark.parametrize("arguments", [["--time", "x"], ["--format", "x"], ["--save", "/there/is/no/such"]])
def test_command_refuses_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err
