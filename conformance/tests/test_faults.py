"""A system that fails at every single call: the old file or the new one, nothing else, and an error that tells."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import cli, decode, kaun, nuvec, oam, ocannl, safetensors, save, streaming
from ckptspec.conformance.faults import (
    AFTERWARDS,
    DONE,
    FAULTS,
    IN_PLACE,
    OLD,
    OPERATIONS,
    Calls,
    Fault,
    failing,
    outcome,
)
from ckptspec.convert import convert
from ckptspec.neutral import dump_json
from ckptspec.ocannl import Context, TensorNode, training
from ckptspec.safetensors import edit_metadata

Work = Callable[[Path], object]  # what is done in a folder

ARRAYS: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
    "a": np.arange(64, dtype=np.float32).reshape(2, 32),
    "b": np.arange(5, dtype=np.int8),
}
MODEL = oam.Model(
    weights={"w": ARRAYS["a"]},
    optimizer=oam.Optimizer(kind="AdamW", first_moment=ARRAYS["a"].reshape(-1), second_moment=ARRAYS["a"].reshape(-1)),
)
NODES = [TensorNode(id=0, precision="single", dims=(2, 32)), TensorNode(id=1, precision="byte", dims=(5,))]
CONTEXT = Context(dict(zip(NODES, (ARRAYS["a"], np.arange(5, dtype=np.uint8)), strict=True)))
LARGE = np.arange(20_000, dtype=np.float32)
OLD_FILES: dict[str, bytes] = {
    "m.oam": oam.dumps(oam.Model(weights={"old": np.zeros((2, 16), np.float32)})),
    "m.safetensors": safetensors.dumps({"old": ARRAYS["b"]}, {"k": "old", "room": "x" * 40}),
    "out.html": b"old",
}
DAMAGED = bytearray(oam.dumps(MODEL))
DAMAGED[-200] ^= 1  # in the optimizer's moments or behind them


def _checkpoint(folder: Path) -> None:
    ocannl.save(CONTEXT, NODES, folder / "m.ckpt")


def _cli(*words: str) -> Work:
    """Return what runs the command line in a folder; ``@NAME`` is a file of it."""

    def run(folder: Path) -> object:
        return cli.main([str(folder / word[1:]) if word.startswith("@") else word for word in words])

    run.command_line = True  # type: ignore[attr-defined]
    return run


def _sources(folder: Path) -> None:
    """Write the files that operations read."""
    (folder / "in.oam").write_bytes(oam.dumps(MODEL))
    (folder / "old.oam").write_bytes(oam.dumps(MODEL, version=1))
    (folder / "damaged.oam").write_bytes(DAMAGED)
    (folder / "in.ckpt").write_bytes(b"")
    ocannl.save(CONTEXT, NODES, folder / "in.ckpt")
    (folder / "in.safetensors").write_bytes(safetensors.dumps(ARRAYS, {"k": "v"}))
    (folder / "in.json").write_text(dump_json(decode(oam.dumps(MODEL))))


def _kaun(path: Path) -> None:
    kaun.save(path, kaun.Checkpoint.of_params(ARRAYS))


MORE = [TensorNode(id=7, precision="single", dims=(3,))]
MORE_CONTEXT = Context({MORE[0]: np.ones(3, np.float32)})
# operation, destination, what is done
TRIALS: list[tuple[str, str, Work]] = [
    ("save", "m.oam", lambda folder: save(folder / "m.oam", MODEL)),
    ("save", "m.ckpt", _checkpoint),
    ("save", "m.safetensors", lambda folder: safetensors.save(folder / "m.safetensors", ARRAYS)),
    ("save", "m.safetensors", lambda folder: _kaun(folder / "m.safetensors")),
    ("save", "m.safetensors", lambda folder: nuvec.save(folder / "m.safetensors", ARRAYS)),
    ("save", "m.oam", lambda folder: save(folder / "m.oam", oam.Model(weights={"w": LARGE}))),  # in threads
    ("append", "m.ckpt", lambda folder: ocannl.save(MORE_CONTEXT, MORE, folder / "m.ckpt", appending=True)),
    (
        "training",
        "m.ckpt",
        lambda folder: training.save(CONTEXT, training.Progress(step=1), NODES, folder / "m.ckpt", seeds=[]),
    ),
    ("convert", "m.safetensors", lambda folder: convert(folder / "in.oam", folder / "m.safetensors")),
    ("convert", "m.oam", _cli("convert", "@in.safetensors", "@m.oam")),
    ("convert", "m.ckpt", _cli("convert", "@in.oam", "@m.ckpt")),
    ("salvage", "m.oam", _cli("salvage", "@damaged.oam", "@m.oam")),
    ("canonicalize", "m.oam", _cli("canonicalize", "@old.oam", "@m.oam")),
    ("canonicalize", "m.ckpt", _cli("canonicalize", "@in.ckpt", "@m.ckpt")),
    ("quantize", "m.oam", _cli("quantize", "@in.oam", "@m.oam", "q8")),
    ("metadata, anew", "m.safetensors", lambda folder: edit_metadata(folder / "m.safetensors", {"k": "v" * 99})),
    ("metadata, anew", "m.safetensors", _cli("metadata", "@m.safetensors", "--set", f"k={'v' * 99}")),
    (IN_PLACE, "m.safetensors", lambda folder: edit_metadata(folder / "m.safetensors", {"k": "new", "room": "y" * 9})),
    (IN_PLACE, "m.safetensors", _cli("metadata", "@m.safetensors", "--set", "k=new")),
    ("digest, inspect", "out.html", _cli("digest", "@in.oam", "--manifest", "@out.html")),
    ("digest, inspect", "out.html", _cli("inspect", "@in.oam", "--html", "@out.html")),
    ("encode, export", "m.oam", _cli("encode", "@in.json", "@m.oam")),
    ("encode, export", "out.html", _cli("export", "c", "@out.html")),
]
NAMES = [f"{at}-{trial[0].replace(', ', '-')}-{trial[1]}" for at, trial in enumerate(TRIALS)]


def _old(folder: Path, name: str) -> bytes:
    """Put an old file at a destination."""
    if name == "m.ckpt":
        node = TensorNode(id=3, precision="single")
        ocannl.save(Context({node: np.float32(7)}), [node], folder / name)  # type: ignore[dict-item]
        return (folder / name).read_bytes()
    (folder / name).write_bytes(OLD_FILES[name])
    return OLD_FILES[name]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads pay for thousands of bytes, hear a signal without being ended by it, make each parser once."""
    monkeypatch.setattr(cli, "build_parser", functools.cache(cli.build_parser))
    monkeypatch.setattr(streaming, "PIECE", 8192)
    monkeypatch.setattr(streaming, "_LARGE", 16384)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, before)


def _carried_out(work: Work, folder: Path, at: int | None, fault: Fault | None) -> tuple[Calls, Any, str]:
    """Run an operation; return its calls, the error that it raised or its exit status, and what it told."""
    told = io.StringIO()
    with failing(at, fault) as calls, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        try:
            ended: Any = work(folder)
        except BaseException as error:
            if not isinstance(error, (OSError, KeyboardInterrupt, MemoryError)):
                raise
            ended = error
    return calls, ended, told.getvalue()


_TOLD = ("EIO", "ENOSPC", "no memory", "Ctrl-C after")


class _Trials:
    """One operation, with every fault at every call."""

    def __init__(self, folder: Path, at: int, there: bool) -> None:
        self.operation, name, self.work = TRIALS[at]
        self.command_line = hasattr(self.work, "command_line")
        self.again = self.command_line and any(trial[0] == self.operation for trial in TRIALS[:at])
        self.folder = folder
        self.path = folder / name
        self.there = there
        _sources(folder)
        self.old = self._reset()
        self.calls, ended, told = _carried_out(self.work, folder, None, None)
        assert ended in (0, 1, None, True, False) or ended.lossless, (ended, told)
        self.new = self.path.read_bytes()
        assert self.new != self.old
        self.files = set(os.listdir(folder))
        turn = "flush it" if self.operation == IN_PLACE else "rename it"
        self.turning = len(self.calls.stages) - 1 - self.calls.stages[::-1].index(turn)

    def _reset(self) -> bytes | None:
        if self.there:
            return _old(self.folder, self.path.name)
        self.path.unlink(missing_ok=True)
        return None

    def run(self) -> int:
        """Try all; return how many trials there were."""
        number = 0
        stages = self.calls.stages
        turning = self.turning
        for at, stage in enumerate(stages):
            if self.again and stages[:at].count(stage) > 2:
                continue  # one more like those
            faults = FAULTS[stage]
            if self.again:  # all faults were tried on this operation: whether they are told in one way is left
                faults = tuple(fault for fault in faults if fault.name in _TOLD)
            for fault in faults:
                self._reset()
                self._one(at, stage, fault, outcome(self.operation, stage, fault, at > turning))
                number += 1
        return number

    def _one(self, at: int, stage: str, fault: Fault, expected: str) -> None:
        where = f"call {at}, {stage}: {fault.name}"
        calls, ended, told = _carried_out(self.work, self.folder, at, fault)
        found = self.path.read_bytes() if self.path.exists() else None
        assert found in (self.old, self.new) or (self.operation == IN_PLACE and expected == DONE), where
        if expected == DONE:
            assert not isinstance(ended, BaseException), (where, ended)
            assert not told, (where, told)
            assert found != self.old, where
        else:
            assert found == (self.old if expected == OLD else self.new), (where, expected, ended)
            self._check_error(where, fault, calls, ended, told)
        left = set(os.listdir(self.folder)) - self.files
        allowed = (
            fault.cleaning or stage in ("make the temporary", "remove it") or (stage == "close" and expected != DONE)
        )
        assert not left or (allowed and len(left) == 1), (where, left)
        if left or at % 7 == 0:
            self._reset()
            assert not isinstance(_carried_out(self.work, self.folder, None, None)[1], BaseException), where
            assert self.path.read_bytes() == self.new, where
            assert set(os.listdir(self.folder)) == self.files, where

    def _check_error(self, where: str, fault: Fault, calls: Calls, ended: Any, told: str) -> None:
        if not self.command_line:
            if calls.failed is not None:
                assert ended is calls.failed, (where, ended)
            if fault.is_error:
                assert ended.errno == fault.number, where
                assert ended.filename.startswith(str(self.folder)), (where, ended)
                assert os.path.basename(ended.filename) in self.files, (where, ended)
            return
        assert told.startswith("ckptspec: "), (where, told)
        assert told.count("\n") == 1, (where, told)
        assert ended == (130 if "Ctrl-C" in fault.name else 2), (where, ended, told)
        if fault.is_error:
            assert told.startswith(f"ckptspec: {self.folder}"), (where, told)
            assert ".tmp" not in told, (where, told)


@pytest.mark.parametrize("at", range(len(TRIALS)), ids=NAMES)
def test_every_call_fails(at: int, tmp_path: Path) -> None:
    reading = TRIALS[at][0].startswith("metadata")  # there has to be a file
    for there in (True,) if reading or at % 4 else (True, False):
        assert _Trials(tmp_path, at, there).run() > 40


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_lists_the_stages_that_there_are(operation: str, tmp_path: Path) -> None:
    before: set[str] = set()
    after: set[str] = set()
    for at, trial in enumerate(TRIALS):
        if trial[0] == operation:
            folder = tmp_path / str(at)
            folder.mkdir()
            trials = _Trials(folder, at, True)
            before |= set(trials.calls.stages[: trials.turning + 1])
            after |= set(trials.calls.stages[trials.turning + 1 :])
    after -= {"open the folder", "flush the folder"}  # which only come then
    assert before | after | ({"open the folder", "flush the folder"} & OPERATIONS[operation]) == OPERATIONS[operation]
    assert after == AFTERWARDS[operation]
