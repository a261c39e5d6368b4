"""The corpus of the fuzzer and some golden files on all targets; and that what is planted is found."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ckptspec import FormatError, validate
from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.fuzz import limits, mutator, session
from ckptspec.conformance.fuzz import targets as table
from ckptspec.conformance.fuzz.__main__ import main
from ckptspec.conformance.fuzz.dictionary import dictionary, words
from ckptspec.conformance.fuzz.subjects import KINDS, Subject
from ckptspec.conformance.fuzz.targets import TARGETS, Target, targets_of
from ckptspec.conformance.fuzz.trials import CORPUS, MOST, chosen, corpus, inputs, name_of, trial, vectors
from ckptspec.findings import Report
from ckptspec.formats import FORMATS, module_of
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import OCANNL_PRECISIONS, SAFETENSORS_DTYPES
from ckptspec.spec.layout import field
from ckptspec.spec.schema import FRAMES, OAM_MAGIC, OamSection

ONE_IN = 40  # golden files that are tried here; `python -m ckptspec.conformance.fuzz replay` tries all
MEASURED = 4  # one in so many has its memory measured, which takes long

needs_atheris = pytest.mark.skipif(not session.available(), reason="atheris is not installed")


# -------------------------------------------------------------------------------------------------------------- replay


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_fails_on_the_corpus_and_golden_files(kind: str) -> None:
    failures = []
    known = list(inputs(kind, ONE_IN))
    assert known
    for number, (name, data) in enumerate(known):
        failures += [f"{name}: {item.target}: {item.what}" for item in trial(kind, data, memory=not number % MEASURED)]
    assert failures == []


def test_the_corpus_is_small_and_named_after_its_content() -> None:
    files = [path for kind in KINDS for path in corpus(kind)]
    assert files
    assert {path.parent.name for path in CORPUS.iterdir()} <= {CORPUS.name}
    assert {path.name for path in CORPUS.iterdir()} <= set(KINDS)
    assert sum(path.stat().st_size for path in files) < 1 << 20
    assert all(path.stat().st_size <= MOST for path in files)
    assert all(path.name == name_of(path.read_bytes()) for path in files)


def test_every_kind_has_targets_and_inputs() -> None:
    for kind in KINDS:
        assert targets_of(kind)
        assert next(vectors(kind), None)
    assert len({target.name for target in TARGETS}) == len(TARGETS)
    assert all(target.doc for target in TARGETS)


def test_every_target_has_its_turn() -> None:
    for kind in KINDS:
        turns = [chosen(kind, b"%d" % number) for number in range(300)]
        assert {target.name for made, _ in turns for target in made} == {target.name for target in targets_of(kind)}
        assert {memory for _, memory in turns} == {True, False}


# ------------------------------------------------------------------------------------------------------------- planted

GOOD = load_suite().case("safetensors/golden_metadata_many").read()


def planted(check: Callable[[Subject], Any], *allowed: type[Exception]) -> list[str]:
    """Return what a trial of a target says that does this."""
    target = Target(name="planted", kinds=("safetensors",), check=check, doc="", allowed=allowed)
    return [failure.what for failure in trial("safetensors", GOOD, [target])]


def refuse(_: Subject) -> None:
    module_of("safetensors").read(BufferSource(b""))


def quadratic(subject: Subject) -> int:
    return sum(1 for one in subject.data for other in subject.data if one == other)


def bottomless(subject: Subject) -> None:
    bottomless(subject)


FAULTS: dict[str, tuple[Callable[[Subject], Any], str]] = {
    "an index beyond the end": (lambda subject: subject.data[len(subject.data)], "IndexError: .*"),
    "a key that is not there": (lambda subject: {b"": 0}[subject.data], "KeyError: .*"),
    "bottomless recursion": (bottomless, "RecursionError: .*"),
    "an error that is not allowed": (refuse, "FormatError: SAFETENSORS-FRM-SHORT.*"),
    "the end of the program": (lambda subject: exit(3), "SystemExit: 3"),
    "a warning": (lambda subject: __import__("warnings").warn("odd", stacklevel=1), "UserWarning: odd"),
    "a size that is not checked": (lambda subject: bytes(64 << 20), "Violation: took 67[0-9]{6} bytes of memory .*"),
    "an endless loop": (lambda subject: any(False for _ in iter(int, 1)), "Violation: broken off .*"),
    "a loop in a loop": (quadratic, "Violation: (broken off|took [0-9.]+ s) .*"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_planted_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, expected = FAULTS[fault]
    monkeypatch.setattr(limits, "SECONDS", limits.Limit(0.05, 1e-6))
    (what,) = planted(check)
    assert re.fullmatch(expected, what)


def test_what_is_allowed_is_no_failure() -> None:
    assert planted(refuse, FormatError) == []
    assert planted(lambda subject: subject.model) == []


def overlooked(source: BufferSource, of: Callable[[BufferSource], Report]) -> Report:
    """Return a report without its last finding."""
    report = of(source)
    return dataclasses.replace(report, findings=report.findings[:-1])


def test_reading_and_validation_that_disagree_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_suite().case("ocannl/bad_depth_by_1").read()
    module: Any = module_of("ocannl")
    of = module.validate
    assert trial("ocannl", data, memory=False) == []
    monkeypatch.setattr(module, "validate", lambda source: overlooked(source, of))
    assert any("validation says None" in failure.what for failure in trial("ocannl", data, memory=False))


WORKER = """
import sys
from ckptspec.conformance.fuzz import targets, worker
def planted(subject):
    if len(subject.data) > 8:
        return subject.data[len(subject.data)]
targets.TARGETS[0].__class__.run = lambda self, subject: planted(subject)
worker.main(*sys.argv[1:])
"""


@needs_atheris
def test_a_run_reports_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    monkeypatch.setattr(session, "run", functools.partial(session.run, worker=worker))
    folder = tmp_path / "fuzz"
    assert main(["run", "--seconds", "8", "--kind", "safetensors", "--folder", str(folder), "--seed", "1"]) == 1
    printed = capsys.readouterr().out
    found = re.findall(r"reproduce (\S+)", printed)
    assert found
    assert "IndexError" in printed
    assert main(["reproduce", *found]) == 0  # since nothing is wrong with the targets here
    assert "as safetensors: no target failed" in capsys.readouterr().out


def test_a_run_without_atheris_is_skipped_or_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "available", lambda: False)
    assert main(["run"]) == 2
    assert main(["run", "--if-available"]) == 0
    assert "fuzz: skipped: atheris" in capsys.readouterr().err


def test_reproducing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "input"
    path.write_bytes(GOOD)
    assert main(["reproduce", str(path), str(tmp_path / "none")]) == 2
    printed = capsys.readouterr()
    assert all(f"{path} as {kind}: no target failed" in printed.out for kind in KINDS)
    assert printed.err == f"fuzz: {tmp_path / 'none'}: No such file or directory\n"
    monkeypatch.setattr(table, "TARGETS", (Target(name="x", kinds=KINDS, check=lambda s: s.data[-1 << 9], doc=""),))
    assert main(["reproduce", "--kind", "oam", str(path)]) == 0
    path.write_bytes(b"\x1b[31m")
    assert main(["reproduce", "--kind", "oam", str(path)]) == 1
    assert "IndexError: index out of range" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ dictionary, mutator


def test_the_words_are_those_of_the_schema() -> None:
    assert OAM_MAGIC in words("oam")
    assert {b'"%b"' % name.encode() for name in SAFETENSORS_DTYPES} <= set(words("safetensors"))
    assert all(any(name.encode() in word.lower() for word in words("ocannl")) for name in OCANNL_PRECISIONS)
    for kind in KINDS:
        lines = dictionary(kind).splitlines()
        assert len(lines) == len(words(kind)) > 50
        assert all(re.fullmatch(r'"(?:[!#-\[\]-~]|\\x[0-9a-f]{2})+"', line) for line in lines)
        assert [_unescaped(line) for line in lines] == list(words(kind))


def _unescaped(line: str) -> bytes:
    return re.sub(rb"\\x(..)", lambda match: bytes.fromhex(match[1].decode()), line[1:-1].encode())


def test_repairs_make_checksums_and_lengths_right() -> None:
    data = bytearray(load_suite().case("oam/golden_all_sections").read())
    data[-1] ^= 1  # of the last payload, or of its checksum's table
    data[field(OamSection, "checksum").offset + 64] ^= 1
    assert not validate(bytes(data)).ok
    assert validate(mutator.repaired("oam", bytes(data))).ok
    for kind, case in (("ocannl", "ocannl/golden_alignment_7"), ("safetensors", "safetensors/golden_metadata_many")):
        good = load_suite().case(case).read()
        size = FRAMES[kind].record.sizeof()
        assert mutator.repaired(kind, bytes(size) + good[size:]) == good


@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_the_same_for_the_same_seed_and_reach_good_and_bad_files(kind: str) -> None:
    known = [data for _, data in itertools.islice(vectors(kind), 12)]

    def flip(data: bytes, most: int) -> bytes:
        return data[:-1] + b"\0" * (len(data) < most)

    found = set()
    for seed in range(60):
        one, other = known[seed % len(known)], known[-seed % len(known)]
        made = mutator.mutated(kind, one, MOST, seed, flip)
        assert made == mutator.mutated(kind, one, MOST, seed, flip)
        joined = mutator.crossover(kind, made, other, MOST, seed)
        assert joined == mutator.crossover(kind, made, other, MOST, seed)
        assert len(made) <= MOST
        assert len(joined) <= MOST
        if kind in FORMATS:
            found |= {first.rule if (first := Subject(kind, data).report.first) else "" for data in (made, joined)}
    assert kind not in FORMATS or ("" in found and len(found) > 5)


def test_fresh_inputs_come_from_the_strategies() -> None:
    for kind in FORMATS:
        made = [mutator.fresh(kind, Random(seed)) for seed in range(6)]
        assert any(made)
        assert all(data is None or validate(data, format=kind) for data in made)
    assert mutator.fresh("sexp", Random(1)) is None
