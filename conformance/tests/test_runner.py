"""The runner, held against implementations that do on purpose what real ones do by accident.

The suite is a small one built here. The implementations are one script each: they look a case's answer up by the
checksum of what they are given, except for the cases that they were told to treat otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import marshal
import os
import pickle
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import ckptspec
from ckptspec.conformance import adapters, run_arguments
from ckptspec.conformance.adapters import (
    Adapter,
    AdapterError,
    BatchDecoder,
    CallableDecoder,
    CallableEncoder,
    CommandDecoder,
    CommandEncoder,
)
from ckptspec.conformance.catalogue import Case, Suite
from ckptspec.conformance.differences import Difference, first_difference
from ckptspec.conformance.known_failures import KnownFailures, Update
from ckptspec.conformance.outcome_report import (
    OUTCOMES,
    Result,
    RunResult,
    render_junit,
    render_text,
)
from ckptspec.conformance.processes import ENDED, Processes
from ckptspec.conformance.runner import Options, Runner, add_arguments, main, suite_tests
from ckptspec.errors import ArgumentError
from ckptspec.spec.rules import RULES

SHORT = 0.8  # seconds: the time-out of tests that wait for it; other cases of the same run must make do with it


# --- a small suite --------------------------------------------------------------------------------------------------


def document(version: int = 3, phase: int = 0) -> dict[str, Any]:
    """A small neutral document."""
    config = {"architecture": "tiny", "config_version": 1, "flags": 0, "d_model": 0, "n_layers": 0, "d_vocab": 256}
    dtypes = dict.fromkeys(("weight_dtype", "state_dtype", "compute_dtype"), "f32")
    progress = {"phase": phase, "step": "12", "bytes_seen": "0", "env_steps": "0", "learning_rate": "0x3f800000"}
    return {
        "format": "oam",
        "version": version,
        "config": {**config, **dtypes, "arch_config": "00ff" * 40},
        "weights": [{"name": "w", "dtype": "u8", "shape": ["2"], "encoding": "dense", "data": "0102"}],
        "state": [],
        "optimizer": None,
        "progress": {**progress, "best_metric": "0x7fc00000", "lower_is_better": True, "metric_name": "loss"},
    }


REJECTION = {"error": {"rule": "OAM-HDR-MAGIC", "offset": 0, "message": "no"}}


@dataclass(frozen=True)
class Small:
    """The suite, its folder, and what is needed to run it."""

    suite: Suite
    vectors: Path

    def run(self, *, decoder: Adapter | None = None, encoder: Adapter | None = None, **options: Any) -> RunResult:
        """Run it; ``options`` are those of ``Options``."""
        made = Options(**{"jobs": 2, **options})
        return Runner(self.suite, decoder=decoder, encoder=encoder, options=made, vectors=self.vectors).run()

    def outcomes(self, **arguments: Any) -> dict[str, str]:
        """Run it; return the outcomes of the tests that did not pass."""
        return {r.id: r.outcome for r in self.run(**arguments).results if r.outcome != "pass"}


class SuiteBuilder:
    """Writes golden files and collects their cases."""

    def __init__(self, vectors: Path) -> None:
        self.vectors = vectors
        self.cases: list[Case] = []

    def add(self, case_id: str, data: bytes, expected: Any, verdict: str, **more: Any) -> None:
        """Add a case."""
        folder, name = case_id.split("/")
        (self.vectors / folder).mkdir(parents=True, exist_ok=True)
        case = Case(
            **{
                "id": case_id,
                "format": folder,
                "title": f"the case {name}",
                "kind": "file",
                "verdict": verdict,
                "level": "must",
                "rules": ("OAM-HDR-MAGIC",) if verdict == "invalid" else (),
                "versions": (3,),
                "tags": (),
                "file": f"{case_id}.bin",
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
                "expected": f"{case_id}.json",
                "canonical": False,
                **more,
            }
        )
        (self.vectors / case.file).write_bytes(data)
        (self.vectors / case.expected).write_text(json.dumps(expected))
        self.cases.append(case)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """One case of each sort."""
    builder = SuiteBuilder(tmp_path_factory.mktemp("small suite"))  # a space in the path, for the commands
    good, other = document(), document(phase=1)
    builder.add("oam/good", ckptspec.encode(good), good, "valid")
    builder.add("oam/other", ckptspec.encode(other), other, "valid", tags=("phases",))
    builder.add("oam/old", ckptspec.encode(document(version=1)), document(version=1), "valid", tags=("old",))
    builder.add("oam/bad", b"bad", REJECTION, "invalid")
    builder.add("oam/worse", b"worse", REJECTION, "invalid", tags=("phases", "old"))
    builder.add("oam/frowned", b"frowned", REJECTION, "invalid", level="should")
    builder.add("oam/open", b"open", document(phase=2), "acceptable", reason="readers differ")
    builder.add("oam/free", b"free", REJECTION, "acceptable", reason="nobody knows")
    builder.add("any/nothing", b"", REJECTION, "invalid", rules=())
    given = json.dumps(document(phase=3)).encode()
    builder.add("oam/text", given, document(phase=3), "valid", kind="document")
    builder.add("oam/badtext", b'{"format":"oam"}', REJECTION, "invalid", kind="document")
    suite = Suite(
        suite_version="0.1",
        protocol_version="1",
        implementations={},
        smoke={"oam": "oam/good"},
        cases=tuple(builder.cases),
    )
    return Small(suite, builder.vectors)


# --- implementations ------------------------------------------------------------------------------------------------

SCRIPT = r"""
import marshal, os, sys, time, zlib  # what is slow to import, where it is needed

table_path, mode, place, *told = sys.argv[1:]
table = marshal.load(open(table_path, "rb"))
behaviours = dict(pair.split("=", 1) for pair in told)
SANITIZER = "==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60"
MESSAGES = {
    "sanitizer": SANITIZER,
    "java": 'Exception in thread "main" E',
    "node": "E\n\nNode.js v20.1.0",
    "python": "fine, no Traceback",
}


def answer(data):
    # Return exit status and output, or do something else.
    case = table[zlib.crc32(data)]
    output = case["answer"]
    name, _, argument = behaviours.get(case["id"], "").partition(":")
    if name == "signal":
        os.kill(os.getpid(), 11)
    if name == "exit":
        print("going down \x1b[31m", file=sys.stderr, flush=True)
        os._exit(int(argument))
    if name == "traceback":
        sys.stdout.write(argument)
        raise RuntimeError("a bug \x1b[31m")
    if name == "runtime":
        print(MESSAGES[argument], file=sys.stderr, flush=True)
        os._exit(1)
    if name == "lines":  # number of lines, of which one says that a Rust program panicked
        number, panic = map(int, argument.split(","))
        for line in range(number):
            text = "thread 'main' panicked at src/main.rs:2:5:" if line == panic else f"\tline {line}\x1b\n"
            print(text, file=sys.stderr, flush=True)
        os._exit(101)
    if name == "hang":
        time.sleep(1000)
    if name == "spawn":  # leaves a child behind that holds standard output open; then hangs, or ends
        import subprocess

        how, pid_file = argument.split(",")
        words, target = (["yes"], 2) if how == "noisy" else (["sleep", "1000"], 1)
        child = subprocess.Popen(words, stdout=target, start_new_session=how == "escape")
        open(pid_file, "w").write(str(child.pid))
        if how == "hang":
            time.sleep(1000)
    if name == "flood":
        while True:
            os.write(1, b"x" * 65536)
    if name == "noise":
        os.write(2, b"n" * 300000)
    if name == "accept":
        return 0, argument.encode() or b'{"format":"oam"}'
    if name == "reject":
        return 1, argument.encode()
    if name == "edit":  # old/new
        old, new = argument.split("/")
        assert old.encode() in output
        return 0, output.replace(old.encode(), new.encode())
    if name == "patch":  # offset/hex
        offset, new = argument.split("/")
        new = bytes.fromhex(new)
        return 0, output[: int(offset)] + new + output[int(offset) + len(new) :]
    return case["status"], output


def batch():
    import json

    for line in sys.stdin:
        path = line.rstrip("\n")
        data = open(path, "rb").read()
        name, _, argument = behaviours.get(table[zlib.crc32(data)]["id"], "").partition(":")
        status, output = answer(data)
        made = {"path": path, **({"document": json.loads(output)} if status == 0 else json.loads(output or b"{}"))}
        made.update({"path": argument} if name == "path" else {"error": {}} if name == "both" else {})
        if name == "line":
            print(argument, flush=True)
        print(json.dumps(made), flush=True)
        if name == "leave":
            break
    if "end" in behaviours:
        time.sleep(float(behaviours["end"]))
        os._exit(4)


if mode == "batch":
    batch()
    sys.exit()
status, output = answer(sys.stdin.buffer.read() if mode == "encode" or place == "-" else open(place, "rb").read())
if mode == "encode" and place != "-" and status == 0:
    open(place, "wb").write(output)
else:
    sys.stdout.buffer.write(output)
sys.stdout.flush()
os._exit(status)
"""


@dataclass(frozen=True)
class Fakes:
    """Commands that give the right answers, but for the cases that they are told to treat otherwise."""

    script: Path
    table: Path

    def command(self, mode: str, place: str = "-", told: dict[str, str] | None = None) -> str:
        """Return a command: ``mode`` is ``decode``, ``batch`` or ``encode``."""
        pairs = [f"{case_id}={behaviour}" for case_id, behaviour in (told or {}).items()]
        words = [sys.executable, "-I", "-S", str(self.script), str(self.table), mode, place, *pairs]
        return " ".join(shlex.quote(word) for word in words)

    def decoder(self, told: dict[str, str] | None = None, place: str = "-") -> CommandDecoder:
        """Return a decoder."""
        return CommandDecoder(self.command("decode", place, told))

    def batch(self, told: dict[str, str] | None = None) -> BatchDecoder:
        """Return a batch decoder."""
        return BatchDecoder(self.command("batch", told=told))

    def encoder(self, told: dict[str, str] | None = None, place: str = "-") -> CommandEncoder:
        """Return an encoder."""
        return CommandEncoder(self.command("encode", place, told))


@pytest.fixture(scope="session")
def fakes(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Fakes:
    """Fake implementations that know the answers of the small suite."""
    table: dict[int, dict[str, Any]] = {}
    for case in small.suite.cases:
        data = (small.vectors / case.file).read_bytes()
        text = (small.vectors / case.expected).read_bytes()
        rejected = "error" in json.loads(text)
        answers = [(data, text)] if case.kind == "file" else []
        if case.kind == "document":
            answers = [(data, text if rejected else ckptspec.encode(json.loads(text)))]
        elif case.verdict == "valid":
            answers.append((text, data))
        for given, answer in answers:
            table[zlib.crc32(given)] = {"id": case.id, "status": int(rejected), "answer": answer}
    folder = tmp_path_factory.mktemp("fakes")
    (folder / "fake.py").write_text(SCRIPT)
    (folder / "table").write_bytes(marshal.dumps(table))
    return Fakes(folder / "fake.py", folder / "table")


def result_of(run: RunResult, test_id: str) -> Result:
    """Return one result of a run."""
    return next(result for result in run.results if result.id == test_id)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Wait for ``condition``; return whether it came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# --- right implementations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["-", "{}"])
def test_right_decoder_passes(small: Small, fakes: Fakes, place: str) -> None:
    run = small.run(decoder=fakes.decoder(place=place))
    assert [result.case.id for result in run.results] == [c.id for c in small.suite.cases if c.kind == "file"]
    assert run.counts()["passed"] == 9
    assert (run.exit_status, run.partial, run.notes) == (0, False, ())


def test_place_within_an_argument(small: Small) -> None:
    decoder = CommandDecoder("sh -c 'cat \"${0#--file=}\" >/dev/null; exit 1' --file={}")
    with Processes() as processes:
        task = adapters.Task(path=small.vectors / "oam/good.bin", timeout=5, limit=100)
        answer = decoder.worker(processes).ask(task)
    assert (answer.kind, answer.stderr) == ("rejected", ())


@pytest.mark.parametrize("place", ["-", "{}"])
def test_right_encoder_passes(small: Small, fakes: Fakes, place: str) -> None:
    run = small.run(encoder=fakes.encoder(place=place))
    assert [result.id for result in run.results] == [
        f"encode:oam/{name}" for name in ("good", "other", "old", "text", "badtext")
    ]
    assert (run.counts()["passed"], run.exit_status) == (5, 0)


def test_right_batch_decoder_passes(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.batch(), jobs=3)
    assert (run.counts()["passed"], run.exit_status, run.notes) == (9, 0, ())


def test_both_directions_stand_in_order(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.batch(), encoder=fakes.encoder())
    assert [result.id for result in run.results] == [test.id for test in suite_tests(small.suite)]


def test_reference_in_process_passes(small: Small) -> None:
    decoder = CallableDecoder(ckptspec.decode, "reference")
    encoder = CallableEncoder(ckptspec.encode, "reference")
    # The two acceptable files are no checkpoints for the reference, which may reject them.
    assert small.outcomes(decoder=decoder, encoder=encoder) == {}


# --- what a decoder can do wrong ------------------------------------------------------------------------------------

# Case and behaviour -> outcome, and a part of what is told about it.
DECODER_FAULTS = [
    ("oam/good", "edit:tiny/tinY", "wrong-document", 'config.architecture: found "tinY", expected "tiny"'),
    ("oam/good", "edit:true/1", "wrong-document", "progress.lower_is_better: found 1, expected true"),
    ("oam/good", "edit:256/256.0", "wrong-document", "config.d_vocab: found 256.0, expected 256"),
    ("oam/good", 'edit:"state": [],/', "wrong-document", "state: found no such key, expected an array of 0 items"),
    ("oam/good", "edit:0102/01FF", "wrong-document", 'weights[0].data: found "01FF", expected "0102"'),
    ("oam/open", "accept", "wrong-document", "version: found no such key, expected 3"),
    ("oam/bad", "accept", "accepted-invalid", "accepted"),
    ("any/nothing", "accept", "accepted-invalid", "accepted"),
    ("oam/other", "reject", "rejected-valid", "rejected"),
    ("oam/other", "reject:what?", "rejected-valid", "rejected: what?"),
    (
        "oam/other",
        'reject:{"error":{"rule":"OAM-X","offset":7,"message":"no\\u001b"}}',
        "rejected-valid",
        r"rejected: OAM-X, no\x1b, at byte 7",
    ),
    ("oam/other", "signal", "crash", "killed by signal 11 (SIGSEGV)"),
    ("oam/bad", "signal", "crash", "killed by signal 11 (SIGSEGV)"),
    ("oam/bad", "exit:3", "crash", r"exit status 3; standard error ends: going down \x1b[31m"),
    ("oam/bad", "exit:2", "crash", "exit status 2"),
    (
        "oam/bad",
        "traceback",
        "crash",
        r"exit status 1 after an uncaught exception in Python; standard error ends: RuntimeError: a bug \x1b[31m",
    ),
    ("oam/bad", "runtime:java", "crash", "uncaught exception in Java"),
    ("oam/bad", "runtime:node", "crash", "uncaught exception in Node.js"),
    ("oam/bad", "runtime:sanitizer", "crash", "uncaught exception in a sanitizer"),
    ("oam/open", "exit:3", "crash", "exit status 3"),
    ("oam/free", "hang", "timeout", "no answer within 0.8 s"),
    ("oam/other", "flood", "too-much-output", "bytes on standard output"),
    ("oam/bad", "flood", "too-much-output", "bytes on standard output"),
    ("oam/other", "accept:hello", "garbage", "not JSON"),
    ("oam/other", "accept: ", "garbage", "not JSON"),
    ("oam/bad", "accept:[]", "garbage", "not a JSON object"),
    ("oam/bad", 'accept:{"error":{"rule":"X"}}', "garbage", "error object"),
    ("oam/other", 'accept:{"format":"oam","format":"oam"}', "garbage", "duplicate key 'format'"),
    ("oam/other", 'accept:{"format":NaN}', "garbage", "NaN is not JSON"),
    ("oam/other", "edit:}}/}} 1", "garbage", "not JSON"),
]


@pytest.mark.parametrize(("case_id", "behaviour", "outcome", "told"), DECODER_FAULTS)
def test_decoder_fault(small: Small, fakes: Fakes, case_id: str, behaviour: str, outcome: str, told: str) -> None:
    timeout = SHORT if behaviour == "hang" else 10.0
    run = small.run(decoder=fakes.decoder({case_id: behaviour}), filters=(case_id, "oam/old"), timeout=timeout)
    assert {r.id: r.outcome for r in run.results} == {f"decode:{case_id}": outcome, "decode:oam/old": "pass"}
    result = result_of(run, f"decode:{case_id}")
    assert told in (str(result.difference) if result.difference else result.happened)
    assert (result.status, run.exit_status) == ("failed", 1)
    assert "\x1b" not in render_text(run)


# What may look wrong and is not.
DECODER_VIRTUES = [
    ("oam/bad", "reject"),
    ("oam/bad", "reject:not JSON"),
    ("oam/bad", "runtime:python"),
    ("oam/bad", 'traceback:{"error":{"rule":null}}'),
    ("oam/open", "reject"),
    ("oam/free", "accept"),
    ("oam/good", "noise"),
    ("oam/good", "edit:,/  ,\n "),
]


@pytest.mark.parametrize(("case_id", "behaviour"), DECODER_VIRTUES)
def test_decoder_virtue(small: Small, fakes: Fakes, case_id: str, behaviour: str) -> None:
    run = small.run(decoder=fakes.decoder({case_id: behaviour}), filters=(case_id,))
    assert [(r.id, r.outcome) for r in run.results] == [(f"decode:{case_id}", "pass")]


def test_every_outcome_is_tried() -> None:
    tried = {fault[2] for fault in (*DECODER_FAULTS, *ENCODER_FAULTS)}
    assert tried | {"pass", "not-canonical"} == set(OUTCOMES)


@pytest.mark.parametrize("how", ["hang", "end", "noisy", "escape"])
def test_no_process_survives(small: Small, fakes: Fakes, tmp_path: Path, how: str) -> None:
    pid_file = tmp_path / "pid"
    decoder = fakes.decoder({"oam/other": f"spawn:{how},{pid_file}"})
    start = time.monotonic()
    run = small.run(decoder=decoder, filters=("oam/other",), timeout=1.0 if how == "hang" else 30.0)
    pid = int(pid_file.read_text())
    try:
        assert run.results[0].outcome == ("timeout" if how == "hang" else "pass")
        assert time.monotonic() - start < 10  # nobody waited for the end of the child's standard output
        if how != "escape":  # who leaves its group is out of reach, but does not hold up the run
            assert wait_until(lambda: not is_alive(pid))
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_interrupted_run_leaves_no_process(
    small: Small, fakes: Fakes, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    pid_file = tmp_path / "pid"
    program = textwrap.dedent(
        """
        import signal, sys
        from pathlib import Path
        from ckptspec.conformance import runner
        from ckptspec.conformance.adapters import CommandDecoder
        sys.path.insert(0, sys.argv[3])
        from program_suite import suite
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        with runner.signals_raise():
            decoder = CommandDecoder(sys.argv[1])
            runner.Runner(suite, decoder=decoder, vectors=Path(sys.argv[2])).run()
        """
    )
    (tmp_path / "program_suite.py").write_text(f"import pickle\nsuite = pickle.loads({pickle.dumps(small.suite)!r})\n")
    command = fakes.command("decode", told={"oam/other": f"spawn:hang,{pid_file}"})
    words = [sys.executable, "-c", program, command, str(small.vectors), str(tmp_path)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        assert wait_until(lambda: pid_file.exists() and pid_file.read_text() != "", 10)
        pid = int(pid_file.read_text())
        assert is_alive(pid)
        process.send_signal(number)
        ended = process.wait(10)
    # Python itself turns KeyboardInterrupt into the signal; the command line makes it 130.
    assert ended in (status, -number)
    assert wait_until(lambda: not is_alive(pid))


def test_level_should_is_a_warning(small: Small, fakes: Fakes) -> None:
    decoder = fakes.decoder({"oam/frowned": "accept"})
    mild, strict = (small.run(decoder=decoder, strict=strict) for strict in (False, True))
    assert (result_of(mild, "decode:oam/frowned").status, mild.exit_status) == ("warned", 0)
    assert (result_of(strict, "decode:oam/frowned").status, strict.exit_status) == ("failed", 1)
    assert "WARNING decode:oam/frowned" in render_text(mild)


def test_crash_is_no_warning(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder({"oam/frowned": "exit:3"}))
    assert (result_of(run, "decode:oam/frowned").status, run.exit_status) == ("failed", 1)


# --- batch ----------------------------------------------------------------------------------------------------------

BATCH_FAULTS = [
    ("edit:tiny/tinY", "wrong-document", "another document"),
    ('reject:{"error":{"rule":"X"}}', "rejected-valid", "rejected: X"),
    ("signal", "crash", "ended without an answer: killed by signal 11 (SIGSEGV)"),
    ("exit:0", "crash", "ended without an answer: exit status 0"),
    ("exit:1", "crash", "ended without an answer: exit status 1"),
    ("traceback", "crash", "ended without an answer: exit status 1 after an uncaught exception in Python"),
    ("hang", "timeout", "no answer within 0.8 s"),
    ("flood", "too-much-output", "bytes on standard output"),
    ("path:other.bin", "garbage", "an answer about 'other.bin' when asked about '/"),
    ("path:/a/good.bin", "garbage", "an answer about 'good.bin' when asked about 'other.bin'"),
    ("both", "garbage", "either a document or an error"),
    ("reject", "garbage", "either a document or an error"),
    ("line:loading", "garbage", "a line that is no answer: document: not JSON"),
    ("line:", "garbage", "a line that is no answer: document: not JSON"),
    ("line:[]", "garbage", "not an object with a path"),
]


@pytest.mark.parametrize(("behaviour", "outcome", "told"), BATCH_FAULTS)
def test_batch_fault_is_that_case_s(small: Small, fakes: Fakes, behaviour: str, outcome: str, told: str) -> None:
    timeout = SHORT if behaviour == "hang" else 10.0
    run = small.run(decoder=fakes.batch({"oam/other": behaviour}), jobs=1, timeout=timeout)
    assert {r.id: r.outcome for r in run.results if r.outcome != "pass"} == {"decode:oam/other": outcome}
    assert told in result_of(run, "decode:oam/other").happened
    assert run.counts()["passed"] == 8  # a new process answered for the rest


def test_batch_extra_line_is_found(small: Small, fakes: Fakes) -> None:
    # Whether the second line is there in time must not matter, so it is taken for an answer to the next case.
    decoder = fakes.batch(
        {"oam/other": "line:" + json.dumps({"path": str(small.vectors / "oam/other.bin"), "error": {"rule": None}})}
    )
    run = small.run(decoder=decoder, jobs=1)
    assert {r.id: r.outcome for r in run.results if r.outcome != "pass"} == {
        "decode:oam/other": "rejected-valid",
        "decode:oam/old": "garbage",
    }
    assert result_of(run, "decode:oam/old").happened == "an answer about 'other.bin' when asked about 'old.bin'"


def test_batch_that_leaves_early_crashes_at_the_next_case(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.batch({"oam/other": "leave"}), jobs=1)
    assert {r.id: r.outcome for r in run.results if r.outcome != "pass"} == {"decode:oam/old": "crash"}
    assert "ended without an answer: exit status 0" in result_of(run, "decode:oam/old").happened


def test_path_for_a_batch_command_that_has_ended() -> None:
    with Processes() as processes:
        child = processes.start(["sh", "-c", "exit 3"], subprocess.PIPE)
        assert child.wait(time.monotonic() + 10, 100) == ENDED
        child.send(b"path\n")
        assert processes.end(child) == 3


def test_batch_that_ends_badly_is_noted(small: Small, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small.run(decoder=fakes.batch({"end": "0"}), jobs=1)
    assert run.notes == ("the batch command ended badly after its last answer: exit status 4",)
    monkeypatch.setattr(adapters, "_FAREWELL", SHORT)
    run = small.run(decoder=fakes.batch({"end": "1000"}), jobs=1)
    assert run.notes == ("the batch command did not end after the end of its standard input, and was killed",)
    assert (run.counts()["passed"], run.exit_status) == (9, 0)


# --- what an encoder can do wrong -----------------------------------------------------------------------------------

PADDING_OFFSET = 2000  # between the section table and the first section, where no checksum reaches
ENCODER_FAULTS = [
    ("oam/other", "patch:4/09", "invalid-file", "OAM-HDR-VERSION at byte 4"),
    ("oam/other", "accept:", "invalid-file", "OAM-"),
    ("oam/other", "reject:cannot", "refused", "rejected: cannot"),
    ("oam/text", "reject", "refused", "rejected"),
    ("oam/badtext", "accept", "accepted-invalid", "wrote 16 bytes"),
    ("oam/badtext", "traceback", "crash", "uncaught exception in Python"),
    ("oam/other", "signal", "crash", "killed by signal 11 (SIGSEGV)"),
    ("oam/other", "hang", "timeout", "no answer within 0.8 s"),
    ("oam/other", "flood", "too-much-output", "bytes on standard output"),
]


@pytest.mark.parametrize(("case_id", "behaviour", "outcome", "told"), ENCODER_FAULTS)
def test_encoder_fault(small: Small, fakes: Fakes, case_id: str, behaviour: str, outcome: str, told: str) -> None:
    timeout = SHORT if behaviour == "hang" else 10.0
    run = small.run(encoder=fakes.encoder({case_id: behaviour}), filters=(case_id, "oam/old"), timeout=timeout)
    assert {r.id: r.outcome for r in run.results} == {f"encode:{case_id}": outcome, "encode:oam/old": "pass"}
    result = result_of(run, f"encode:{case_id}")
    assert told in result.happened
    assert (result.status, run.exit_status) == ("failed", 1)


@pytest.mark.parametrize(
    ("command", "outcome", "told"),
    [
        ("test {} != ''", "garbage", "the file to write cannot be read: No such file or directory"),
        ("mkdir {}", "garbage", "what was written is not a regular file"),
        ("ln -s /dev/zero {}", "garbage", "what was written is not a regular file"),
        ("truncate -s 2G {}", "too-much-output", "wrote more than"),
    ],
)
def test_encoder_that_writes_no_good_file(small: Small, command: str, outcome: str, told: str) -> None:
    run = small.run(encoder=CommandEncoder(command))
    assert run.smoke is not None
    assert run.smoke.result.outcome == outcome
    assert told in run.smoke.result.happened


def test_encoder_s_file_is_decoded_back(small: Small) -> None:
    def encode(given: dict[str, Any]) -> bytes:
        return ckptspec.encode({**given, "progress": {**given["progress"], "phase": 9}})

    run = small.run(encoder=CallableEncoder(encode, "forgetful"), filters=("oam/other",))
    assert run.results[0].outcome == "wrong-document"
    assert str(run.results[0].difference) == "at progress.phase: found 9, expected 1"


def test_encoder_writes_the_version_of_the_document(small: Small) -> None:
    # The file of an old version has a canonical finding for that alone, which must not count; the newest version must.
    newest = CallableEncoder(lambda given: ckptspec.encode({**given, "version": 3}), "newest only")
    run = small.run(encoder=newest, filters=("oam/old",))
    assert str(run.results[0].difference) == "at version: found 3, expected 1"
    report = ckptspec.validate((small.vectors / "oam/old.bin").read_bytes(), format="oam")
    assert [finding.rule for finding in report if finding.severity == "canonical"] == ["OAM-HDR-OLD"]


def test_canonical_finding_is_a_warning(small: Small, fakes: Fakes) -> None:
    encoder = fakes.encoder({"oam/other": f"patch:{PADDING_OFFSET}/ff"})
    mild, strict = (small.run(encoder=encoder, strict=strict) for strict in (False, True))
    result = result_of(mild, "encode:oam/other")
    assert (result.outcome, result.status, mild.exit_status) == ("not-canonical", "warned", 0)
    assert f"at byte {PADDING_OFFSET}" in result.happened
    assert len(result.rules) == 1
    assert RULES[result.rules[0]].kind == "canonical"
    assert (result_of(strict, "encode:oam/other").status, strict.exit_status) == ("failed", 1)


# --- Python callables -----------------------------------------------------------------------------------------------


def raises(error: Exception) -> Callable[[Any], Any]:
    """Return a function that raises ``error``."""

    def call(_: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("decode", "outcome", "told"),
    [
        (raises(ArgumentError("no")), "rejected-valid", "rejected: no"),
        (raises(KeyError("x\x1b")), "crash", r"uncaught KeyError: 'x\\x1b'"),
        (raises(RecursionError()), "crash", "uncaught RecursionError"),
        (lambda data: data, "garbage", "not a document"),
        (lambda _: {"format": float("nan")}, "garbage", "not a document"),
        (lambda _: ["format"], "garbage", "not a JSON object"),
    ],
)
def test_callable_decoder(small: Small, decode: Callable[[bytes], Any], outcome: str, told: str) -> None:
    def fails_later(data: bytes) -> Any:
        return ckptspec.decode(data) if data == (small.vectors / "oam/good.bin").read_bytes() else decode(data)

    run = small.run(decoder=CallableDecoder(fails_later, "test"), filters=("oam/other",))
    assert run.results[0].outcome == outcome
    assert told in run.results[0].happened


# --- selection ------------------------------------------------------------------------------------------------------


def test_skipped_is_not_passed(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder({"oam/other": "exit:9"}), skip_tags=("phases",))
    assert (run.counts()["skipped"], run.counts()["passed"]) == (2, 7)
    skipped = result_of(run, "decode:oam/other")
    assert (skipped.status, skipped.outcome) == ("skipped", "")
    assert (run.partial, run.exit_status) == (True, 0)
    assert "7 passed, 2 skipped" in render_text(run)


def test_filter(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder(), filters=("*/wo*", "any/*"))
    assert [result.case.id for result in run.results] == ["oam/worse", "any/nothing"]
    assert run.partial


def test_format_takes_the_cases_of_any_format_along(small: Small, fakes: Fakes) -> None:
    # A second format, of which the implementation knows nothing.
    strange = replace(small.suite.case("oam/bad"), id="strange/bad", format="strange")
    suite = replace(small.suite, cases=(*small.suite.cases, strange))
    run = replace(small, suite=suite).run(decoder=fakes.decoder(), formats=("oam",))
    assert {result.case.format for result in run.results} == {"oam", "any"}
    assert run.partial
    assert not small.run(decoder=fakes.decoder(), formats=("oam",), filters=()).partial


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": ("zip",)}, "the suite has no format 'zip'; there are oam"),
        ({"skip_tags": ("phase",)}, "the suite has no tag 'phase'; there are old, phases"),
        ({"filters": ("oam/nowhere",)}, "no case is left to run"),
        ({"filters": ("oam/other",), "skip_tags": ("phases",)}, "no case is left to run"),
    ],
)
def test_bad_selection(small: Small, fakes: Fakes, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        small.run(decoder=fakes.decoder(), **options)
    assert str(caught.value) == message


def test_changed_golden_file_is_told(small: Small, fakes: Fakes) -> None:
    changed = replace(small.suite.case("oam/bad"), sha256="0" * 64)
    suite = replace(small.suite, cases=(changed,))
    with pytest.raises(AdapterError, match=r"oam/bad\.bin: not the golden file that the manifest describes$"):
        replace(small, suite=suite).run(decoder=fakes.decoder())
    missing = replace(changed, file="oam/gone.bin")
    with pytest.raises(AdapterError, match=r"oam/gone\.bin: No such file or directory$"):
        replace(small, suite=replace(small.suite, cases=(missing,))).run(decoder=fakes.decoder())


class Recorder:
    """A decoder that rejects everything and records which worker was asked what."""

    description = "recorder\x00"
    stateful = True

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def worker(self, processes: Processes) -> RecorderWorker:
        """Return a new worker."""
        self.asked.append([])
        return RecorderWorker(self.asked[-1])

    def by_hand(self, _task: adapters.Task) -> str:
        """Have no command line."""
        return ""


@dataclass(frozen=True)
class RecorderWorker:
    """One worker of it."""

    asked: list[str]

    def ask(self, task: adapters.Task) -> adapters.Answer:
        """Reject."""
        self.asked.append(task.path.stem)
        return adapters.Answer(kind="rejected", detail="rejected")

    def close(self) -> str:
        """Have nothing to say."""
        return ""


def test_shares_of_workers_with_a_memory_are_fixed(small: Small) -> None:
    recorder = Recorder()
    suite = replace(small.suite, smoke={})
    run = replace(small, suite=suite).run(decoder=recorder, jobs=2)
    files = [case.id.split("/")[1] for case in small.suite.cases if case.kind == "file"]
    assert recorder.asked == [files[0::2], files[1::2]]
    root = check_junit(render_junit(run))
    assert [item.attrib["value"] for item in root[0].iter("property") if item.attrib["name"] == "decoder"] == [
        r"recorder\x00"
    ]


def test_results_do_not_depend_on_the_number_of_jobs(small: Small, fakes: Fakes) -> None:
    told = {"oam/good": "noise", "oam/other": "exit:5", "oam/worse": "accept"}
    runs = [small.run(decoder=fakes.decoder(told), jobs=jobs).to_json() for jobs in (1, 4)]
    assert runs[0] == runs[1]
    assert runs[0]["outcomes"] == {"pass": 7, "accepted-invalid": 1, "crash": 1}


# --- the smoke case -------------------------------------------------------------------------------------------------

BROKEN_ADAPTERS = [
    ("exit:127", "crash", "exit status 127"),
    ("reject:usage\x1b: decode FILE", "rejected-valid", "exit status 1"),
    ("accept:decoding...", "garbage", "exit status 0"),
    ('accept:{"format":"other"}', "wrong-document", "exit status 0"),
    ("hang", "timeout", "killed by the runner"),
]


@pytest.mark.parametrize(("behaviour", "outcome", "ended"), BROKEN_ADAPTERS)
def test_smoke_failure_stops_the_run(small: Small, fakes: Fakes, behaviour: str, outcome: str, ended: str) -> None:
    timeout = SHORT if behaviour == "hang" else 10.0
    run = small.run(decoder=fakes.decoder({"oam/good": behaviour}), filters=("oam/other",), timeout=timeout)
    assert run.smoke is not None
    assert (run.smoke.result.outcome, run.smoke.ended, run.exit_status, run.results) == (outcome, ended, 2, ())
    text = render_text(run)
    assert "no document of its format came back" in text
    assert "broken rather than the implementation" in text
    assert f"\n  file      {small.vectors}/oam/good.bin\n  by hand   " in text
    assert "fake.py" in text
    assert "\x1b" not in text
    if behaviour.startswith("reject"):
        assert r"stdout    usage\x1b: decode FILE" in text
    assert run.to_json()["smoke"]["outcome"] == outcome


def test_smoke_failure_of_an_encoder(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder(), encoder=fakes.encoder({"oam/good": "accept:Writing the file"}))
    assert run.smoke is not None
    assert (run.smoke.result.id, run.smoke.stdout) == ("encode:oam/good", "Writing the file")
    assert "no file of its format came back" in render_text(run)


def test_smoke_failure_of_a_batch_decoder(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.batch({"oam/good": "line:ready"}))
    assert run.smoke is not None
    assert run.smoke.stdout == "ready"


def test_wrong_document_is_no_broken_adapter(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder({"oam/good": "edit:tiny/tinY"}))
    assert run.smoke is None
    assert run.outcomes() == {"pass": 8, "wrong-document": 1}


def test_skipped_smoke_case(small: Small, fakes: Fakes) -> None:
    suite = replace(small.suite, smoke={"oam": "oam/other"})
    run = replace(small, suite=suite).run(decoder=fakes.decoder({"oam/other": "exit:9"}), skip_tags=("phases",))
    assert (run.smoke, run.exit_status) == (None, 0)


# --- commands that cannot be run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "the decoder command is empty"),
        ("'unclosed", "the decoder command cannot be split into words: no closing quotation"),
        ("no-such-command-here -x", "the decoder command is not found or not executable: no-such-command-here"),
        ("/etc/passwd", "the decoder command is not found or not executable: /etc/passwd"),
        *[
            (f"cat {words}", "the decoder command is not run by a shell; write sh -c '...'")
            for words in ("| tee", "> out", "< in", "&& true", "|| true", "; true", "2>&1", "2>/dev/null", ">> 'out'")
        ],
    ],
)
def test_bad_command(command: str, message: str) -> None:
    with pytest.raises(AdapterError) as caught:
        CommandDecoder(command)
    assert str(caught.value) == message


@pytest.mark.parametrize("command", ["cat '|' \">\"", "cat a|b a;", "sh -c 'cat > /dev/null; exit 1'", r"cat \' >=3"])
def test_command_that_needs_no_shell(command: str) -> None:
    assert CommandDecoder(command).description == command.replace("\\", "\\\\")


def test_command_without_its_interpreter(small: Small, tmp_path: Path) -> None:
    script = tmp_path / "decoder"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(AdapterError, match=r"cannot run .*: No such file or directory$"):
        small.run(decoder=CommandDecoder(str(script)))


def test_command_that_vanishes_during_the_run(small: Small, fakes: Fakes, tmp_path: Path) -> None:
    script = tmp_path / "decoder"
    script.write_text(f'#!/bin/sh\nrm "$0"\n{fakes.command("decode")}\n')
    script.chmod(0o755)
    with pytest.raises(AdapterError, match=r"cannot run .*: No such file or directory$"):
        small.run(decoder=CommandDecoder(str(script)))


def test_batch_command_takes_no_place() -> None:
    with pytest.raises(AdapterError, match=r"has no \{\}$"):
        BatchDecoder("cat {}")


# --- known failures -------------------------------------------------------------------------------------------------


def known(small: Small, text: str) -> KnownFailures:
    """Parse a known-failures file."""
    return KnownFailures(text.split("\n"), (test.id for test in suite_tests(small.suite)), "known.txt")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("decode:oam/bad crash", "known.txt, line 2: the reason is missing: write it after a '#'"),
        ("decode:oam/bad crash #  ", "known.txt, line 2: the reason is missing: write it after a '#'"),
        ("decode:oam/bad # why", "known.txt, line 2: expected a test, its outcome, and '#' with the reason"),
        ("decode:oam/bad a b # why", "known.txt, line 2: expected a test, its outcome, and '#' with the reason"),
        ("decode:oam/bid crash # why", "known.txt, line 2: the suite has no test 'decode:oam/bid'"),
        ("oam/bad crash # why", "known.txt, line 2: the suite has no test 'oam/bad'"),
        ("encode:oam/bad crash # why", "known.txt, line 2: the suite has no test 'encode:oam/bad'"),
        ("decode:oam/good crash # again", "known.txt, line 2: 'decode:oam/good' stands on line 1 already"),
        ("decode:oam/bad pass # why", "known.txt, line 2: unknown outcome 'pass'; there are wrong-document, "),
        ("decode:oam/bad cr\x1bash # why", r"known.txt, line 2: unknown outcome 'cr\x1bash'; there are "),
    ],
)
def test_bad_known_failures(small: Small, line: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        known(small, f"decode:oam/good crash # why\n{line}")
    assert str(caught.value).startswith(message)


def test_known_failures_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_bytes(b"# \xff")
    with pytest.raises(ArgumentError, match=r"known\.txt: the known-failures file is not UTF-8$"):
        KnownFailures.load(tmp_path / "known.txt", [])


def test_known_failures_with_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_bytes(b"decode:x crash # a\x0bb\r\n\r\n")
    failures = KnownFailures.load(tmp_path / "known.txt", ["decode:x"]).failures
    assert str(failures["decode:x"]) == "decode:x  crash  # a\x0bb"


def test_known_failures(small: Small, fakes: Fakes) -> None:
    told = {"oam/good": "edit:tiny/tinY", "oam/bad": "accept", "oam/worse": "exit:9"}
    results = small.run(decoder=fakes.decoder(told)).results
    listed = known(
        small,
        "# ours\n\n"
        "decode:oam/good  wrong-document  # upper case\n"
        "decode:oam/bad  crash  # dies # of it\n"
        "decode:oam/old  timeout # slow\n"
        "encode:oam/old  timeout # not run here",
    )
    applied = {result.id: (result.status, result.known) for result in listed.apply(results)}
    assert applied["decode:oam/good"] == ("known", "upper case")
    assert applied["decode:oam/bad"] == ("stale", "crash, on line 4: dies # of it")
    assert applied["decode:oam/old"] == ("stale", "timeout, on line 5: slow")  # an unexpected pass
    assert applied["decode:oam/worse"] == ("failed", "")
    assert applied["decode:oam/other"] == ("passed", "")


def test_update_of_known_failures(small: Small, fakes: Fakes) -> None:
    told = {"oam/good": "edit:tiny/tinY", "oam/bad": "accept", "oam/worse": "exit:9", "oam/frowned": "accept"}
    results = small.run(decoder=fakes.decoder(told)).results
    lines = [
        "# ours",
        "",
        "  decode:oam/good wrong-document # upper case",
        "decode:oam/bad  crash  # dies of it",
        "decode:oam/old  timeout  # slow",
        "encode:oam/old  timeout  # not run here",
        "# the end",
    ]
    update = known(small, "\n".join(lines)).updated(results)
    assert str(update) == "7 lines written: 1 added, 1 changed, 1 removed"
    updated = update.lines
    assert updated == [
        *lines[:3],
        "decode:oam/bad  accepted-invalid  # not yet explained (was crash: dies of it)",
        *lines[5:],
        "decode:oam/worse  crash  # not yet explained",
    ]
    again = known(small, "\n".join(updated))
    assert not any(result.fatal for result in again.apply(results))
    assert again.updated(results) == Update(lines=updated, added=0, changed=0, removed=0)


# --- renderings -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ugly_run(small: Small, fakes: Fakes) -> RunResult:
    """A run with every status, of a suite whose titles are hard to write into XML."""
    cases = tuple(replace(case, title=r"<b>&'a\nb']]>") for case in small.suite.cases)
    told = {
        "oam/good": r"edit:tiny/\u0000\ud800\u001b]]><",
        "oam/bad": "accept",
        "oam/worse": "exit:9",
        "oam/frowned": "accept",
    }
    run = replace(small, suite=replace(small.suite, cases=cases)).run(
        decoder=fakes.decoder(told), encoder=fakes.encoder(), skip_tags=("old",)
    )
    listed = known(
        small,
        "decode:oam/bad accepted-invalid # <we> \x1bknow\ndecode:oam/other crash # gone\n"
        "decode:oam/old crash # skipped here",
    )
    return replace(run, results=listed.apply(run.results))


def test_text(ugly_run: RunResult) -> None:
    text = render_text(ugly_run)
    assert all(char == "\n" or char.isprintable() for char in text)
    decode, encode = text.split("decode: ")[1].split("encode: ")
    assert decode.startswith(
        "9 cases: 3 passed, 1 failed, 1 not as the known-failures file says, 1 with a warning, 1 known failures, "
        "2 skipped"
    )
    assert encode.startswith("5 cases: 4 passed, 1 skipped\n")
    assert text.endswith("says nothing about the cases left out\nnot conformant\n")
    assert (
        r"""
FAILED decode:oam/good: <b>&'a\nb']]>
  outcome   wrong-document: another document than the expected one
  expected  the expected document
  happened  accepted, with another document
  first difference at config.architecture
    expected  "tiny"
    found     "\x00\ud800\x1b]]><"
"""
        in text
    )
    assert "STALE decode:oam/other" in text
    assert "  listed    crash, on line 2: gone\n" in text


def test_json(ugly_run: RunResult) -> None:
    made = json.loads(json.dumps(ugly_run.to_json(), allow_nan=False))
    assert made["exit_status"] == 1
    assert made["counts"] == {"passed": 7, "failed": 1, "stale": 1, "warned": 1, "known": 1, "skipped": 3}
    assert made["outcomes"] == {"pass": 8, "wrong-document": 1, "accepted-invalid": 2}
    good = made["results"][0]
    assert (good["id"], good["status"]) == ("decode:oam/good", "failed")
    assert good["difference"]["path"] == "config.architecture"


JUNIT_CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase", "system-out", "system-err"],
    "properties": ["property"],
    "testcase": ["skipped", "error", "failure"],
}
JUNIT_ATTRIBUTES = {
    "testsuite": "name package id hostname timestamp tests failures errors skipped time",
    "property": "name value",
    "testcase": "name classname time",
    "error": "type message",
    "failure": "type message",
    "skipped": "message",
}


def check_junit(text: str) -> ET.Element:
    """Parse JUnit XML and hold it against what the common schemas have in common."""
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        tags = [child.tag for child in element]
        order = JUNIT_CHILDREN.get(element.tag, [])
        assert tags == sorted(tags, key=order.index)
        assert set(element.attrib) == set(JUNIT_ATTRIBUTES.get(element.tag, "").split())
        assert element.tag != "testcase" or len(tags) <= 1
    for suite in root:
        for attribute, tag in (("tests", "*"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            path = "testcase" if tag == "*" else f"testcase/{tag}"
            assert int(suite.attrib[attribute]) == len(suite.findall(path))
    return root


def test_junit(ugly_run: RunResult) -> None:
    text = render_junit(ugly_run, "2024-02-29T12:00:00")
    root = check_junit(text)
    assert [suite.attrib["name"] for suite in root] == ["decode.oam", "decode.any", "encode.oam"]
    assert {suite.attrib["timestamp"] for suite in root} == {"2024-02-29T12:00:00"}
    failures = {case.attrib["name"]: case[0] for case in root.iter("testcase") if len(case)}
    assert failures["oam/good"].attrib["type"] == "wrong-document"
    assert failures["oam/other"].attrib["type"] == "stale"
    assert failures["oam/bad"].attrib["message"] == r"known failure (accepted-invalid): <we> \x1bknow"
    assert failures["oam/worse"].attrib["message"] == "skipped because of the tag old"
    assert r'found     "\x00\ud800\x1b]]><"' in (failures["oam/good"].text or "")
    assert "WARNING decode:oam/frowned" in (root[0].findtext("system-out") or "")


def test_junit_of_misbehaviour_and_of_smoke_failure(small: Small, fakes: Fakes) -> None:
    run = small.run(decoder=fakes.decoder({"oam/bad": "exit:3"}))
    (error,) = check_junit(render_junit(run)).iter("error")
    assert error.attrib["type"] == "crash"
    run = small.run(decoder=fakes.decoder({"oam/good": "exit:3"}))
    root = check_junit(render_junit(run))
    assert [case.attrib["name"] for case in root.iter("testcase")] == ["oam/good"]
    assert "broken rather than the implementation" in (root[0].findtext("system-err") or "")


def lines_of(run: RunResult, test_id: str) -> list[str]:
    """Return the lines of the summary about one failure, without their indentation."""
    text = render_text(run).split(f"FAILED {test_id}:")[1].split("\n\n")[0]
    return [line.strip() for line in text.split("\n")[1:]]


def test_many_failures_with_the_same_difference(small: Small, fakes: Fakes) -> None:
    good = small.suite.case("oam/good")
    more = tuple(replace(good, id=f"oam/good{number}") for number in range(4))
    many = replace(small, suite=replace(small.suite, cases=(*small.suite.cases, *more)))
    decoder = fakes.decoder({"oam/good": 'edit:"12"/12'})
    run = many.run(decoder=decoder)
    told = "decode: 5 cases differ first at progress.step; the first one: "
    told += 'expected "12", found 12 (64-bit integers are decimal strings)'
    assert render_text(run).split("\n")[2:4] == ["", told]
    assert run.to_json()["groups"] == [
        {
            "direction": "decode",
            "number": 5,
            "first": {"path": "progress.step", "expected": '"12"', "found": "12"},
            "hint": "64-bit integers are decimal strings",
        }
    ]
    few = many.run(decoder=decoder, filters=("oam/good", "oam/good[123]"))
    assert (few.outcomes(), few.groups) == ({"wrong-document": 4}, ())
    assert "hint      64-bit integers are decimal strings" in lines_of(few, "decode:oam/good1")


@pytest.mark.parametrize(
    ("expected", "found", "hint"),
    [
        ('"12"', "12", True),
        ('"-1"', "-1.0", True),
        ('"1"', "1e+20", True),
        ('"0x12"', "12", False),
        ("12", "12", False),
    ],
)
def test_hint_at_decimal_strings(expected: str, found: str, hint: bool) -> None:
    assert bool(Difference(path="a", expected=expected, found=found).hint) == hint


def test_acceptable_cases_that_were_accepted(small: Small, fakes: Fakes) -> None:
    right = json.dumps(document(phase=2)).replace("/", "")
    run = small.run(decoder=fakes.decoder({"oam/open": f"accept:{right}", "oam/free": "accept"}))
    assert (run.exit_status, run.counts()["passed"]) == (0, 9)
    told = "note: 2 acceptable cases were accepted; where the reference refuses, their content is not compared\n"
    assert told in render_text(run)
    assert run.to_json()["acceptable"] == {
        "accepted": ["decode:oam/open", "decode:oam/free"],
        "not_compared": ["decode:oam/free"],
    }
    run = small.run(decoder=fakes.decoder({"oam/open": f"accept:{right}", "oam/free": "reject"}))
    assert "acceptable" not in render_text(run)


@pytest.mark.parametrize(
    ("behaviour", "shown", "told"),
    [
        ("lines:20,-1", [f"    line {number}\\x1b" for number in range(12, 20)], "ends: line 19\\x1b"),
        (
            "lines:20,3",
            ["thread 'main' panicked at src/main.rs:2:5:", *[f"    line {number}\\x1b" for number in range(4, 11)]],
            "says: thread 'main' panicked at src/main.rs:2:5:",
        ),
    ],
    ids=["last lines", "panic"],
)
@pytest.mark.parametrize("batch", [False, True])
def test_standard_error_of_a_crash(
    small: Small, fakes: Fakes, behaviour: str, shown: list[str], told: str, batch: bool
) -> None:
    make = fakes.batch if batch else fakes.decoder
    run = small.run(decoder=make({"oam/bad": behaviour}), jobs=1)
    result = result_of(run, "decode:oam/bad")
    assert result.happened.endswith(f"exit status 101; standard error {told}")
    assert run.to_json()["results"][run.results.index(result)]["stderr"] == shown
    text = "\n".join([f"  stderr    {shown[0]}", *[f"            {line}" for line in shown[1:]]])
    assert text in render_text(run)
    assert text in (next(check_junit(render_junit(run)).iter("error")).text or "")


def test_failure_shows_file_and_command(small: Small, fakes: Fakes) -> None:
    decoder, encoder = (
        fakes.command("decode", told={"oam/other": "exit:3"}),
        fakes.command("encode", "{}", {"oam/other": "exit:3"}),
    )
    run = small.run(decoder=CommandDecoder(decoder), encoder=CommandEncoder(encoder))
    file = small.vectors / "oam/other.bin"
    placed = encoder.replace("'{}'", "encoded.bin")  # as the case's file is called
    for test_id, by_hand in (
        ("decode:oam/other", f"{decoder} < '{file}'"),
        ("encode:oam/other", f"{placed} < '{file.with_suffix('.json')}'"),
    ):
        result = result_of(run, test_id)
        assert (result.file, result.by_hand) == (str(file), by_hand)
        assert lines_of(run, test_id)[-2:] == [f"file      {file}", f"by hand   {by_hand}"]
        row = run.to_json()["results"][run.results.index(result)]
        assert (row["file"], row["by_hand"]) == (str(file), by_hand)
    assert f"file      {file}" in (next(check_junit(render_junit(run)).iter("error")).text or "")
    assert (result_of(run, "decode:oam/good").file, result_of(run, "decode:oam/good").by_hand) == ("", "")


def test_by_hand_asks_the_same(small: Small, fakes: Fakes, tmp_path: Path) -> None:
    asked = adapters.Task(path=small.vectors / "oam/good.bin", suffix=".oam", timeout=5, limit=100)
    given = replace(asked, path=small.vectors / "oam/good.json")
    expected = json.loads(given.path.read_bytes())

    def run(adapter: Adapter, task: adapters.Task) -> bytes:
        return subprocess.run(["sh", "-c", adapter.by_hand(task)], capture_output=True, cwd=tmp_path, check=True).stdout

    assert json.loads(run(fakes.decoder(), asked)) == expected
    assert json.loads(run(fakes.decoder(place="{}"), asked)) == expected
    assert json.loads(run(fakes.batch(), asked)) == {"path": str(asked.path), "document": expected}
    for place in ("-", "{}"):
        assert run(fakes.encoder(place=place), given) == b""
        assert (tmp_path / "encoded.oam").read_bytes() == asked.path.read_bytes()
        (tmp_path / "encoded.oam").unlink()
    assert CallableDecoder(ckptspec.decode, "reference").by_hand(asked) == ""
    assert CommandDecoder("true \x1b").by_hand(asked).startswith(r"true '\x1b' < ")


@pytest.mark.parametrize(
    ("printed", "told", "shown"),
    [
        ('{"format":"o', "Unterminated string starting at line 1, column 11", ['{"format":"o', " " * 10 + "^"]),
        ('{"a":1,"b":NaN}', "NaN is not JSON", ['{"a":1,"b":NaN}', " " * 11 + "^"]),
        ("\x1bx", "not JSON", [r"\x1bx", "^"]),
        ("x" * 300 + "{", "not JSON", ["x" * 40 + "...", "^"]),
        (f'{{"{"é" * 100}":?{"y" * 50}', "not JSON", [f'...{"é" * 19}":?{"y" * 39}...', " " * 24 + "^"]),
        ('{"a":1,"a":2}', "duplicate key 'a'", ['{"a":1,"a":2}']),
        ("[1]", "not a JSON object", ["[1]"]),
        (" ", "not JSON", [" ", " ^"]),
    ],
)
def test_garbage_is_shown(small: Small, fakes: Fakes, printed: str, told: str, shown: list[str]) -> None:
    run = small.run(decoder=fakes.decoder({"oam/other": f"accept:{printed}"}), filters=("oam/other",))
    (result,) = run.results
    assert told in result.happened
    assert "at at" not in result.happened
    assert list(result.printed) == shown
    assert "\n".join(["  printed   " + shown[0], *["            " + line for line in shown[1:]]]) in render_text(run)
    assert run.to_json()["results"][0]["printed"] == shown


def test_garbage_of_a_batch_decoder_is_shown(small: Small, fakes: Fakes) -> None:
    for behaviour, shown in (("line:load?", ("load?", "^")), ("line:[]", ("[]",)), ("line:", ())):
        run = small.run(decoder=fakes.batch({"oam/other": behaviour}), filters=("oam/other",))
        assert run.results[0].printed == shown


def test_output_that_is_no_utf_8_is_shown(small: Small) -> None:
    script = "cat > /dev/null; case $0 in */good.bin) cat \"$0\";; *) printf 'ab\\377c';; esac"
    suite = replace(small.suite, smoke={})
    run = replace(small, suite=suite).run(
        decoder=CommandDecoder(f"sh -c {shlex.quote(script)} {{}}"), filters=("oam/bad",)
    )
    assert run.results[0].printed == (r"ab\\xffc", "  ^")


def test_rules_are_shown_where_they_can_be_the_cause(small: Small, fakes: Fakes) -> None:
    def rules(verdict: str, *ids: str, told: str = "exit:3") -> list[str]:
        case = replace(small.suite.case("oam/other"), verdict=verdict, rules=ids)
        suite = replace(small.suite, cases=(case,), smoke={})
        run = replace(small, suite=suite).run(decoder=fakes.decoder({"oam/other": told}))
        return [line for line in lines_of(run, "decode:oam/other") if line.startswith(("rule", "about"))]

    magic = f"rule      OAM-HDR-MAGIC: {RULES['OAM-HDR-MAGIC'].sentence}"
    old = f"rule      OAM-HDR-OLD: {RULES['OAM-HDR-OLD'].sentence}"
    assert rules("invalid", "OAM-HDR-MAGIC") == [magic]
    assert rules("invalid", "OAM-HDR-OLD") == [old]
    assert rules("acceptable", "OAM-HDR-MAGIC", "OAM-HDR-OLD") == [magic]
    assert rules("valid", "OAM-HDR-OLD", "OAM-TEN-ALIGN") == [
        "about     the file breaks a rule for writers, which readers must accept: OAM-HDR-OLD",
        "about     the file is valid, and worth a note: OAM-TEN-ALIGN",
    ]
    assert rules("valid", told='reject:{"error":{"rule":"OAM-HDR-MAGIC"}}') == [magic]


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        (4, "byte 4 is header.version"),
        (4149, "byte 4149 is config.arch_config_size"),
        (10**9, "byte 1000000000 is outside of the file, which has "),
        (-1, "byte -1 is outside of the file, which has "),
    ],
)
def test_byte_of_a_rejection_is_named(small: Small, fakes: Fakes, offset: int, told: str) -> None:
    error = json.dumps({"error": {"offset": offset}})
    run = small.run(decoder=fakes.decoder({"oam/other": f"reject:{error}", "oam/bad": f"reject:{error}"}))
    assert result_of(run, "decode:oam/other").where.startswith(told)
    assert any(line.startswith(f"where     {told}") for line in lines_of(run, "decode:oam/other"))
    assert result_of(run, "decode:oam/bad").where == ""  # which is rightly rejected


DIFFERENCES = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
    ([1, 2], [2, 1], "at document[0]: found 2, expected 1"),
    (1, True, "at document: found true, expected 1"),
    (1, 1.0, "at document: found 1.0, expected 1"),
    (None, False, "at document: found false, expected null"),
    ({"a": [{"b": None}]}, {"a": [{"b": []}]}, "at a[0].b: found an array of 0 items, expected null"),
    ({"a": 1}, {"a": 1, "b\n": {}}, r'at ["b\n"]: found an object of 0 keys, expected no such key'),
    ({"a": {"x y": 1}}, {"a": {"x y": 2}}, 'at a["x y"]: found 2, expected 1'),
    ([1], [1, 2], "at document: found an array of 2 items, expected an array of 1 item"),
    (
        "0" * 100 + "1",
        "0" * 100 + "2",
        'at document, character 100: found ..."0000000000002"... (101 characters), '
        'expected ..."0000000000001"... (101 characters)',
    ),
    (
        "0" * 50,
        "0" * 52,
        'at document, character 50: found ..."00000000000000"... (52 characters), '
        'expected ..."000000000000"... (50 characters)',
    ),
]


@pytest.mark.parametrize(("expected", "found", "told"), DIFFERENCES)
def test_first_difference(expected: Any, found: Any, told: str | None) -> None:
    difference = first_difference(expected, found)
    assert (str(difference) if difference else None) == told


# --- the command line -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandLine:
    """Runs the verb on the small suite."""

    small: Small
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        try:
            status = main(parser.parse_args(arguments), self.small.suite, self.small.vectors)
        except SystemExit as stop:
            status = int(str(stop.code))
        return (status, *self.capsys.readouterr())


@pytest.fixture
def conform(small: Small, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The verb ``conform``."""
    return CommandLine(small, capsys)


def test_cli_runs_the_reference_by_default(conform: CommandLine) -> None:
    status, out, err = conform()
    assert (status, err) == (0, "")
    assert "decoder: the reference itself, in this process\nencoder: the reference itself, in this process\n" in out
    assert "decode: 9 cases: 9 passed\nencode: 5 cases: 5 passed\nconformant\n" in out


def test_cli_gives_every_option_to_the_runner(conform: CommandLine, fakes: Fakes) -> None:
    decoder = fakes.command("batch", told={"oam/other": "hang", "oam/frowned": "accept"})
    words = ["--decoder", decoder, "--batch", "--timeout", str(SHORT), "--jobs", "1", "--format", "oam", "--strict"]
    status, out, _ = conform(*words, "--filter", "*/o*", "--filter", "oam/f*", "--skip-tag", "old")
    assert status == 1
    assert "FAILED decode:oam/other" in out
    assert "no answer within 0.8 s" in out
    assert "FAILED decode:oam/frowned" in out
    assert "decode: 5 cases: 2 passed, 2 failed, 1 skipped" in out


def test_cli_writes_json_and_junit(conform: CommandLine, fakes: Fakes, tmp_path: Path) -> None:
    encoder = fakes.command("encode")
    status, out, err = conform("--encoder", encoder, "--json", "-", "--junit", str(tmp_path / "junit.xml"))
    assert status == 0
    assert json.loads(out)["counts"]["passed"] == 5
    assert err.endswith("conformant\n")
    check_junit((tmp_path / "junit.xml").read_text())


def test_cli_shows_progress_on_a_terminal_only(conform: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    status, out, err = conform()
    assert status == 0
    assert "\x1b" not in out
    lines = err.split("\r")
    assert [lines[1], lines[-2], lines[-1]] == ["decode 1/9\x1b[K", "encode 5/5\x1b[K", "\x1b[K"]


def test_progress_is_redrawn_at_a_readable_pace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with run_arguments.progress_line() as show:
        assert show is not None
        for done in range(1, 1001):  # in one second
            now = done / 1000
            show("decode", done, 1000)
    lines = capsys.readouterr().err.split("\r")[1:-1]
    assert 9 <= len(lines) <= 12
    assert (lines[0], lines[-1]) == ("decode 1/1000\x1b[K", "decode 1000/1000\x1b[K")


def test_cli_known_failures(conform: CommandLine, fakes: Fakes, tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    words = ["--decoder", fakes.command("decode", told={"oam/bad": "exit:3"}), "--known-failures", str(file)]
    with pytest.raises(FileNotFoundError):  # which the command line's main turns into one plain line
        conform(*words)
    assert conform(*words, "--update-known-failures")[0] == 0
    assert file.read_text().split("\n")[-2:] == ["decode:oam/bad  crash  # not yet explained", ""]
    status, out, _ = conform(*words)
    assert status == 0
    assert out.endswith("\nas listed: 1 known failure, nothing else\n")
    before = file.read_bytes()
    status, _, err = conform(*words, "--update-known-failures", "--filter", "*")
    assert (status, file.read_bytes()) == (2, before)
    assert err == "ckptspec: a partial run cannot update the known failures: leave out --filter\n"
    right = ["--decoder", fakes.command("decode"), *words[2:]]
    status, out, _ = conform(*right)
    assert status == 1
    assert "STALE decode:oam/bad" in out
    assert conform(*right, "--update-known-failures")[0] == 0
    assert "decode:" not in file.read_text()
    assert conform("--decoder", "false", *words[2:], "--update-known-failures")[0] == 2  # the smoke case fails
    assert "decode:" not in file.read_text()


def test_cli_updates_known_failures_of_what_ran(conform: CommandLine, fakes: Fakes, tmp_path: Path) -> None:
    """Tests that are skipped keep their lines, and the summary says what was written."""
    file = tmp_path / "known.txt"
    file.write_text(
        "decode:oam/worse crash # skipped here\ndecode:oam/good crash # gone\ndecode:oam/bad timeout # was\n"
    )
    decoder = fakes.command("decode", told={"oam/bad": "exit:3", "any/nothing": "exit:3"})
    words = ["--decoder", decoder, "--known-failures", str(file), "--update-known-failures", "--skip-tag", "old"]
    status, out, _ = conform(*words)
    assert status == 0
    assert file.read_text().split("\n") == [
        "decode:oam/worse crash # skipped here",
        "decode:oam/bad  crash  # not yet explained (was timeout: was)",
        "decode:any/nothing  crash  # not yet explained",
        "",
    ]
    assert f"note: {file}: 3 lines written: 1 added, 1 changed, 1 removed\n" in out
    assert out.endswith("\nas listed: 2 known failures, nothing else\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--batch"], "ckptspec: --batch needs --decoder CMD\n"),
        (["--update-known-failures"], "ckptspec: --update-known-failures needs --known-failures FILE\n"),
        (["--json", "-", "--junit", "-"], "ckptspec: --json and --junit cannot go to the same place\n"),
        (["--decoder", "no-such-x"], "ckptspec: the decoder command is not found or not executable: no-such-x\n"),
        (["--encoder", "no-such-x"], "ckptspec: the encoder command is not found or not executable: no-such-x\n"),
        (["--format", "zip"], "ckptspec: the suite has no format 'zip'; there are oam\n"),
        (["--timeout", "0"], "expected a positive number of seconds, found 0\n"),
        (["--timeout", "inf"], "expected a positive number of seconds, found inf\n"),
        (["--jobs", "0"], "expected a positive number, found 0\n"),
    ],
)
def test_cli_usage(conform: CommandLine, words: list[str], told: str) -> None:
    status, out, err = conform(*words)
    assert (status, out) == (2, "")
    assert err.endswith(told)
