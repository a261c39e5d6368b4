"""The example of a training run that may be killed at any moment: killed, resumed, and compared to the bit."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import ArgumentError, decode, encode, validate
from ckptspec.ocannl import host_rng
from ckptspec.ocannl.host_state import LossScaler

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "resume" / "train.py"
pytestmark = pytest.mark.skipif(not EXAMPLE.is_file(), reason="the documentation is not installed")

STEPS, EVERY = 90, 3
KILLS = 4
PATIENCE = 60  # seconds


def command(path: Path, *, pause: float = 0, steps: int = STEPS) -> list[str]:
    return [str(EXAMPLE), str(path), f"--steps={steps}", f"--every={EVERY}", f"--pause={pause}"]


def digest_of(output: str) -> str:
    last = output.splitlines()[-1]
    assert last.startswith("digest "), output
    return last


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Digest and last checkpoint of a run in one go."""
    path = tmp_path_factory.mktemp("undisturbed") / "run.ckpt"
    done = subprocess.run(
        [sys.executable, "-B", *command(path)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "resumed" not in done.stdout
    assert validate(path).canonical
    return digest_of(done.stdout), path.read_bytes()


def check_end(path: Path, output: str, undisturbed: tuple[str, bytes]) -> None:
    assert digest_of(output) == undisturbed[0]
    assert path.read_bytes() == undisturbed[1]
    assert os.listdir(path.parent) == [path.name]  # what the killed ones left behind is gone


def test_killed_at_random_moments(tmp_path: Path, undisturbed: tuple[str, bytes]) -> None:
    path = tmp_path / "run.ckpt"
    arguments = [sys.executable, "-B", *command(path, pause=0.004)]
    delays = [random.uniform(0, 0.12) for _ in range(KILLS)]
    killed = 0
    for delay in delays:
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        try:
            child.stdout.readline()  # it has started or resumed, or saved for the first time
            time.sleep(delay)
        finally:
            child.kill()
            child.communicate(timeout=PATIENCE)
        killed += child.returncode == -signal.SIGKILL
        if path.exists():
            assert validate(path).canonical, delays
    assert killed > 1, delays
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.startswith("resumed at step "), delays
    check_end(path, done.stdout, undisturbed)


# Runs the example in a process that kills itself at a stage of its third save.
DYING = """
import os, runpy, signal, sys
stage, calls = sys.argv[1], 0

def dies(name, before, after):
    original = getattr(os, name)
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == 3 and before:
            if before == "half":
                original(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], *arguments[2:])
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if calls == 3 and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(os, name, call)

name, when = stage.split()
dies(name, when if when != "after" else "", when == "after")
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STAGES = ("pwrite half", "fsync before", "replace before", "replace after")


def test_killed_at_each_stage_of_a_save(tmp_path: Path, undisturbed: tuple[str, bytes]) -> None:
    path = tmp_path / "run.ckpt"
    for stage in STAGES:
        dead = subprocess.run(
            [sys.executable, "-B", "-c", DYING, stage, *command(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert dead.returncode == -signal.SIGKILL, (stage, dead.stderr)
        if stage != "replace after":
            assert any(name != path.name for name in os.listdir(tmp_path)), stage  # a temporary, killed as it was
        if path.exists():
            assert validate(path).canonical, stage
    done = subprocess.run(
        [sys.executable, "-B", *command(path)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.startswith("resumed at step "), done.stdout
    check_end(path, done.stdout, undisturbed)


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example as a module."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec = importlib.util.spec_from_file_location("resume_example", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.dont_write_bytecode = writes


def test_the_same_program_has_the_same_ids(example: Any) -> None:
    first, second = example.Program(), example.Program()
    assert [node.name for node in first.registry] == [node.name for node in second.registry]
    assert first.state == second.state
    saved = set(first.state)
    assert {first.features, *first.learned, *first.first, *first.second, first.average} == saved
    assert saved.isdisjoint([first.x, first.y, first.rate, *first.gradients])


def test_whatever_is_left_out_changes_the_result(example: Any, tmp_path: Path, undisturbed: tuple[str, bytes]) -> None:
    """If this did not hold, the runs above would prove nothing about what they do not depend on."""
    half = tmp_path / "half.ckpt"
    example.train(str(half), 57, EVERY)
    document = decode(half)

    def ends(change: Callable[[dict[str, Any]], object]) -> str:
        changed = decode(half)
        change(changed)
        path = tmp_path / "changed.ckpt"
        path.write_bytes(encode(changed))
        return f"digest {example.digest(*example.train(str(path), STEPS, STEPS))}"

    assert ends(lambda _: None) == undisturbed[0]
    record: dict[str, Any] = {
        "step": "56",
        "epoch": "3",
        "position": "16",
        "extra": [],
        "host_rng": host_rng.capture(np.random.default_rng(1)).hex(),
    }
    for key, value in record.items():
        assert document["training"][key] != value
        assert ends(partial(_put, key, value)) != undisturbed[0], key
    for row, tensor in enumerate(document["tensors"]):

        def zero(changed: dict[str, Any], row: int = row) -> None:
            data = changed["tensors"][row]["data"]
            changed["tensors"][row]["data"] = "0" * len(data)

        assert ends(zero) != undisturbed[0], tensor["label"]
    with pytest.raises(ArgumentError, match="had the seeds 43, this one has 42"):
        ends(lambda changed: changed["training"].update(seeds=["43"]))
    with pytest.raises(ArgumentError, match="kept with interval=50, this LossScaler has interval=40"):
        ends(
            lambda changed: changed["training"].update(
                extra=[["loss_scale", str(LossScaler(interval=50).to_extra("")[1])]]
            )
        )


def _put(key: str, value: Any, changed: dict[str, Any]) -> None:
    changed["training"][key] = value
