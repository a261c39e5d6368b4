"""Saving and appending are atomic: killed, failing and concurrent writers leave a whole file and nothing else.

What all that writes has to bear is tried in ``test_faults`` and ``test_storage``; here is what is OCANNL's own.
Writers are processes that tell the parent what they are about to do and what they have done; so the parent knows which
contents the file may have. No test depends on how fast anything is.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec import ArgumentError, publish, validate
from ckptspec.ocannl import Context, TensorNode, load, restore, save

# A server that has imported this module forks the children: starting one takes milliseconds.
PROCESSES: Any = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])

Array = np.ndarray[Any, np.dtype[Any]]
Wire = Any  # one end of a pipe between processes
ELEMENTS = 250_000  # a megabyte to a large tensor
BIG, SMALL, MORE, LAST = (
    TensorNode(id=0, precision="uint32", dims=(ELEMENTS,)),
    TensorNode(id=1, precision="uint32"),
    TensorNode(id=2, precision="uint32", dims=(ELEMENTS,)),
    TensorNode(id=3, precision="uint32", dims=(3,)),
)
NODES = {node.id: node for node in (BIG, SMALL, MORE, LAST)}


def filled(node: TensorNode, value: int) -> Array:
    return np.full(node.shape, value, node.dtype)


def temporaries(path: Path) -> list[str]:
    """What is left beside a destination by its writers."""
    stem = publish._stem(str(path))
    return sorted(name for name in os.listdir(path.parent) if name.startswith(stem) and name.endswith(".tmp"))


def content(path: Path) -> dict[int, int] | None:
    """The value of each tensor, all of whose elements must be equal, by id; None if there is no file."""
    if not path.exists():
        return None
    assert validate(path).canonical
    values = {}
    for node, array in load(Context(), path)[0].items():
        assert array.shape == NODES[node.id].shape
        assert array.min() == array.max()
        values[node.id] = int(array.min())
    return values


@contextmanager
def child(work: Callable[..., None], *arguments: object) -> Iterator[tuple[Any, Wire]]:
    """Start a process; it gets its arguments and one end of a pipe. It is gone when the block ends."""
    mine, other = PROCESSES.Pipe()
    process = PROCESSES.Process(target=work, args=(*arguments, other), daemon=True)
    process.start()
    other.close()
    try:
        yield process, mine
    finally:
        process.kill()
        process.join()
        mine.close()


def told(wire: Wire, wait: float = 50) -> Any:
    """The next thing that a child says."""
    assert wire.poll(wait), "the child says nothing"
    return wire.recv()


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


# ------------------------------------------------------------------------------------------------ killed at any moment


def step(number: int) -> tuple[list[TensorNode], bool]:
    """What the step of a number writes, and whether it appends: a fresh file, then two steps that append to it."""
    return (([BIG, SMALL], False), ([MORE, SMALL], True), ([LAST, BIG], True))[number % 3]


def after(number: int) -> dict[int, int] | None:
    """What a file holds after the step of a number, if all steps before were done."""
    if number < 0:
        return None
    values: dict[int, int] = {}
    for at in range(number - number % 3, number + 1):
        nodes, appending = step(at)
        kept = {key: value for key, value in values.items() if appending and NODES[key] not in nodes}
        values = kept | {node.id: at for node in nodes}
    return values


def go_on(path: Path, number: int, wire: Wire) -> None:
    """Do one step after the other, for ever."""
    while True:
        nodes, appending = step(number)
        ctx = Context({node: filled(node, number) for node in nodes})
        wire.send(("begun", number))
        save(ctx, nodes, path, appending=appending)
        wire.send(("done", number))
        number += 1


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """After each kill, the file is what the last step that was done left, or the step after it, if that was begun."""
    path, foreign = tmp_path / "run.ckpt", tmp_path / (publish._stem(str(tmp_path / "other")) + "0" * 16 + ".tmp")
    foreign.write_bytes(b"of another destination")
    rng = np.random.default_rng(1)
    number, kills, typical = 0, 0, 0.01
    while number < 200:
        with child(go_on, path, number) as (process, wire):
            enough = number + int(rng.integers(1, 13))
            started = time.monotonic()
            while told(wire) != ("begun", enough):
                pass
            typical = (time.monotonic() - started) / (enough - number + 1)
            # Somewhere in this step or the one after it; what is written meanwhile does not matter to what follows.
            time.sleep(typical * rng.uniform(0, 1.2))
            kill(process)
            done, begun = enough - 1, enough
            while wire.poll():
                try:
                    what, at = wire.recv()
                except EOFError:
                    break
                done, begun = (at, begun) if what == "done" else (done, at)
        assert begun - done in (0, 1)
        found = content(path)
        assert found in (after(done), after(begun))
        kills += 1
        number = begun + 1 if found == after(begun) else begun
        assert set(os.listdir(tmp_path)) <= {path.name, foreign.name, *temporaries(path)}
        assert len(temporaries(path)) <= 1
    nodes, appending = step(number)
    save(Context({node: filled(node, number) for node in nodes}), nodes, path, appending=appending)
    assert content(path) == after(number)
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, foreign.name])
    assert kills >= 15


def stop_within(path: Path, value: int, appending: bool, where: int, wire: Wire) -> None:
    """Save, and stop before the value at some place is there, until the parent says something."""
    nodes = [BIG, MORE, LAST]

    def wait() -> Array:
        wire.send("writing")
        wire.recv()
        return filled(nodes[where], value)

    ctx = Context({node: filled(node, value) for node in nodes})
    save(ctx.updated({nodes[where]: wait}), nodes, path, appending=appending)
    wire.send("done")


def test_killed_while_writing(tmp_path: Path) -> None:
    """The old file stays, byte by byte; the temporary is left; the next writer of the same destination removes it."""
    path, other = tmp_path / "run.ckpt", tmp_path / "other.ckpt"
    small = Context({SMALL: filled(SMALL, 7)})
    with child(stop_within, other, 1, False, 1) as (process, wire):
        assert told(wire) == "writing"
        kill(process)
    (foreign,) = temporaries(other)
    for appending in (False, True):
        for where in (0, 1, 2):
            for there in (False, True):
                path.unlink(missing_ok=True)
                if there:
                    save(small, [SMALL], path)
                before = path.read_bytes() if there else None
                with child(stop_within, path, 5, appending, where) as (process, wire):
                    assert told(wire) == "writing"
                    (left,) = temporaries(path)
                    kill(process)
                assert (path.read_bytes() if path.exists() else None) == before
                assert temporaries(path) == [left]
                # Nothing but the payloads before this place is written yet.
                size = (tmp_path / left).stat().st_size
                assert min(where, 2) * BIG.size <= size < (min(where, 2) + 1) * BIG.size
                save(small, [SMALL], other, appending=False)  # a writer of another destination leaves it alone
                assert temporaries(path) == [left]
                save(Context({LAST: filled(LAST, 3)}), [LAST], path, appending=True)
                assert content(path) == ({SMALL.id: 7} if there else {}) | {LAST.id: 3}
                assert temporaries(path) == []
    assert temporaries(other) == []
    assert foreign not in os.listdir(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["other.ckpt", "run.ckpt"]


def test_temporaries_of_other_destinations_and_of_living_writers_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "run.ckpt", tmp_path / "run.ckpt2"
    small = Context({SMALL: filled(SMALL, 7)})
    with (
        child(stop_within, path, 5, True, 1) as (living, to_living),
        child(stop_within, path, 6, False, 2) as (first, to_first),
        child(stop_within, path, 7, True, 0) as (second, to_second),
        child(stop_within, other, 8, False, 1) as (third, to_third),
    ):
        for wire in (to_living, to_first, to_second, to_third):
            assert told(wire) == "writing"
        assert (len(temporaries(path)), len(temporaries(other))) == (3, 1)
        for process in (first, second, third):
            kill(process)
        assert (len(temporaries(path)), len(temporaries(other))) == (3, 1)
        save(small, [SMALL], path)
        assert (len(temporaries(path)), len(temporaries(other))) == (1, 1)  # the living one's, and the other's
        assert content(path) == {SMALL.id: 7}
        to_living.send("go on")
        assert told(to_living) == "done"
        living.join()
        # The file to append to was not there when it was looked for: the last one wins, whole.
        assert content(path) == {BIG.id: 5, MORE.id: 5, LAST.id: 5}
        assert (len(temporaries(path)), len(temporaries(other))) == (0, 1)
    save(small, [SMALL], other)
    assert sorted(os.listdir(tmp_path)) == [path.name, other.name]


def interrupted(path: Path, wire: Wire) -> None:
    """Save, and wait within until a signal comes."""

    def wait() -> Array:
        wire.send("writing")
        time.sleep(50)
        raise AssertionError("no signal came")

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        save(Context({BIG: filled(BIG, 1), MORE: wait}), [BIG, MORE], path, appending=True)
    except KeyboardInterrupt:
        wire.send("interrupted")


def test_interrupted_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    save(Context({LAST: filled(LAST, 3)}), [LAST], path)
    before = path.read_bytes()
    with child(interrupted, path) as (process, wire):
        assert told(wire) == "writing"
        assert len(temporaries(path)) == 1
        os.kill(process.pid, signal.SIGINT)
        assert told(wire) == "interrupted"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


# ------------------------------------------------------------------------------------------------------------ failing


def no_room(path: Path, alignment: int, appending: bool, wire: Wire) -> None:
    """Save more than files may be large."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    tiny = [TensorNode(id=number, precision="uint32", dims=(3,)) for number in (2, 3)]
    nodes = [BIG] if alignment < 1000 else tiny
    try:
        save(Context({node: filled(node, 1) for node in nodes}), nodes, path, appending=appending, alignment=alignment)
    except OSError as error:
        wire.send(error.errno)


def test_no_room(tmp_path: Path) -> None:
    """The system itself cuts the file short: within a payload, or within a gap."""
    path = tmp_path / "run.ckpt"
    save(Context({SMALL: np.uint32(7)}), [SMALL], path)  # type: ignore[dict-item]
    before = path.read_bytes()
    for alignment in (32, 1 << 18):
        for appending in (False, True):
            for destination in (path, tmp_path / "new.ckpt"):
                with child(no_room, destination, alignment, appending) as (_, wire):
                    assert told(wire) == errno.EFBIG
                assert os.listdir(tmp_path) == [path.name]
                assert path.read_bytes() == before


def test_what_is_refused_is_refused_before_a_temporary_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning comes first: neither other writers' leftovers nor the directory are touched."""
    path = tmp_path / "none" / "run.ckpt"

    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("created")

    monkeypatch.setattr(publish, "_create", never)
    ctx = Context({LAST: filled(LAST, 1)})
    for nodes, alignment in (([BIG], 32), ([LAST], 0), ([LAST], 1 << 27)):
        for appending in (False, True):
            with pytest.raises(ArgumentError):
                save(ctx, nodes, path, alignment=alignment, appending=appending)
    assert os.listdir(tmp_path) == []


def test_a_training_checkpoint_is_restored_while_it_is_replaced(tmp_path: Path) -> None:
    """What was restored from the file before stays as it was, though the file was replaced by ones of other sizes."""
    path = tmp_path / "run.ckpt"
    held = []
    for value in range(6):
        nodes, alignment = ([BIG, MORE], [MORE, BIG])[value % 2], (4, 4096)[value % 2]
        save(Context({node: filled(node, value) for node in nodes}), nodes, path, alignment=alignment)
        held.append((restore(Context(), nodes, path), ckptspec.load(path)))
    for value, (ctx, model) in enumerate(held):
        for node in (BIG, MORE):
            assert ctx[node].min() == ctx[node].max() == value
            assert model[node.id].min() == model[node.id].max() == value
