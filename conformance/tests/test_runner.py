"""The runner, held against implementations that do on purpose what real ones do by accident.

The suite is a small one built here. The implementations are one script each: they look a case's answer up by the digest
of what they are given, except for the cases that they were told to treat otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import ckptspec
from ckptspec.conformance import adapters
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
from ckptspec.conformance.known_failures import KnownFailures
from ckptspec.conformance.outcome_report import (
    OUTCOMES,
    Result,
    RunResult,
    first_difference,
    render_junit,
    render_text,
)
from ckptspec.conformance.runner import Options, Runner, add_arguments, main, suite_tests
from ckptspec.errors import ArgumentError

SHORT = 0.4  # seconds: the time-out of tests that wait for it


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
        format, name = case_id.split("/")
        (self.vectors / format).mkdir(parents=True, exist_ok=True)
        case = Case(
            **{
                "id": case_id,
                "format": format,
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

SCRIPT = r'''
import hashlib, json, os, signal, subprocess, sys, time

table_path, place, *told = sys.argv[1:]
table = json.load(open(table_path))
behaviours = dict(pair.split("=", 1) for pair in told)


def answer(data):
    """Return exit status and output, or do something else."""
    case = table[hashlib.sha256(data).hexdigest()]
    output = case["answer"].encode("latin-1")
    behaviour = behaviours.get(case["id"], "")
    name, _, argument = behaviour.partition(":")
    if name == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "exit":
        print("going down", file=sys.stderr, flush=True)
        os._exit(int(argument))
    if name == "traceback":
        raise RuntimeError("a bug \x1b[31m")
    if name == "runtime":
        print({"java": 'Exception in thread "main" E', "node": "E\n\nNode.js v20.1.0"}[argument], file=sys.stderr)
        os._exit(1)
    if name == "hang":
        time.sleep(1000)
    if name == "spawn":  # leaves a child behind that holds standard output open, and hangs or ends
        ends, pid_file = argument.split(",")
        child = subprocess.Popen(["sleep", "1000"], start_new_session=ends == "escape")
        open(pid_file, "w").write(str(child.pid))
        if ends == "hang":
            time.sleep(1000)
    if name == "flood":
        while True:
            os.write(1, b"x" * 65536)
    if name == "noise":
        os.write(2, b"n" * 300000)
    if name == "say":
        return case["status"], argument.encode()
    if name == "accept":
        return 0, argument.encode() or b'{"format":"oam"}'
    if name == "reject":
        return 1, argument.encode()
    if name == "edit":  # old/new
        old, new = argument.split("/")
        return 0, output.replace(old.encode(), new.encode())
    if name == "patch":  # offset/hex
        offset, new = argument.split("/")
        new = bytes.fromhex(new)
        return 0, output[: int(offset)] + new + output[int(offset) + len(new) :]
    return case["status"], output


def batch():
    for line in sys.stdin:
        path = line.rstrip("\n")
        data = open(path, "rb").read()
        behaviour = behaviours.get(table[hashlib.sha256(data).hexdigest()]["id"], "")
        status, output = answer(data)
        name, _, argument = behaviour.partition(":")
        made = {"path": path, **({"document": json.loads(output)} if status == 0 else json.loads(output or b"{}"))}
        if name == "path":
            made["path"] = argument
        if name == "both":
            made["error"] = {}
        if name == "line":
            print(argument, flush=True)
        print(json.dumps(made), flush=True)
        if name == "leave":
            break
    sys.exit(int(behaviours.get("end", 0)))


if place == "--batch":
    batch()
status, output = answer(sys.stdin.buffer.read() if place in "-" or os.environ.get("FAKE_OUT") else open(place, "rb").read())
sys.stdout.buffer.write(output)
sys.stdout.flush()
os._exit(status)
'''
