"""Files that shrink, grow or change while they are read; writers that are killed; many writers and readers at once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import itertools
import mmap
import multiprocessing
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec import _mapped, _system, cli, load, oam, ocannl, publish, safetensors, save, source, validate
from ckptspec.conformance.faults import meanwhile
from ckptspec.conformance.tests.test_faults import NAMES, TRIALS, _old, _sources
from ckptspec.ocannl import Context, TensorNode
from ckptspec.safetensors import edit_metadata

# A server that has imported this module forks the children: starting one takes milliseconds.
PROCESSES: Any = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])
Wire = Any  # one end of a pipe between processes
PATIENCE = 100  # seconds


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


def told(process: Any, wire: Wire) -> Any:
    """The next thing that a child says; it must not have been ended by a signal before."""
    assert wire.poll(PATIENCE), "the child says nothing"
    try:
        return wire.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the child has ended: {process.exitcode}") from None


def run(*words: str) -> tuple[int, str, str]:
    """Run the command line; return its exit status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(list(words))
    return status, out.getvalue(), err.getvalue()


# ------------------------------------------------------------------------------------------ files that change meanwhile

WEIGHTS = {"q": np.arange(20_000, dtype=np.float32).reshape(100, 200), "s": np.arange(9_000, dtype=np.int32)}
MODEL = oam.Model(
    weights={"q": WEIGHTS["q"], "r": WEIGHTS["q"][:50]},
    state={"s": WEIGHTS["s"]},
    optimizer=oam.Optimizer(
        kind="AdamW", first_moment=WEIGHTS["q"].reshape(-1), second_moment=WEIGHTS["q"].reshape(-1)
    ),
)
NODES = [TensorNode(id=0, precision="single", dims=(100, 200)), TensorNode(id=1, precision="int32", dims=(9_000,))]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@functools.cache
def file_of(kind: str) -> bytes:
    """The bytes of a file of many pages."""
    if kind == "oam":
        return oam.dumps(MODEL)
    if kind == "repaired":  # one byte is wrong, and its checksum tells which
        return _flipped(oam.dumps(MODEL), 60_000)
    if kind == "damaged":
        return _flipped(_flipped(oam.dumps(MODEL), 60_000), 70_000)
    if kind == "quantized":
        return oam.dumps(oam.quantize(MODEL, "q8"))
    if kind == "safetensors":
        return safetensors.dumps(WEIGHTS, {"k": "v"})
    tensors = [
        ocannl.Tensor(node=node, data=array.tobytes()) for node, array in zip(NODES, WEIGHTS.values(), strict=True)
    ]
    return ckptspec.dumps(ocannl.Checkpoint(tensors=tensors))


LOOKING = (
    "validate F",
    "inspect F",
    "inspect --html O F",
    "decode F",
    "digest F",
    "digest --manifest O F",
    "diff F G",
    "diff --atol 1 --ignore-dtype G F",
)
WRITING = ("salvage F O", "canonicalize F O")
VERBS: dict[str, tuple[str, ...]] = {
    "oam": (
        "inspect --hex --only header F",
        *LOOKING,
        *WRITING,
        "quantize F O q4",
        "convert F O --to safetensors",
        "convert F O --to ocannl",
    ),
    "ocannl": ("inspect --hex --only frame F", *LOOKING, *WRITING, "convert F O --to oam"),
    "safetensors": (
        "inspect --hex --only frame F",
        *LOOKING,
        *WRITING,
        "convert F O --to oam",
        "metadata F --set k=longer",
        "metadata F --set k=w",
    ),
    "repaired": ("validate F", "salvage F O", "inspect --html O F"),
    "damaged": ("validate F", "salvage F O"),
    "quantized": ("convert F O --to safetensors --lossy", "canonicalize F O", "decode F"),
}


def _shrunk(path: Path, size: int) -> None:
    os.truncate(path, size)


def _rewritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(range(256)) * 400)


def _grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x" * 10_000)


def _replaced(path: Path) -> None:
    path.with_suffix(".new").write_bytes(b"something else")
    path.with_suffix(".new").replace(path)


# What happens, and whether just after a read.
HAPPENINGS: tuple[tuple[Callable[[Path], None], bool], ...] = (
    (lambda path: _shrunk(path, 0), False),
    (lambda path: _shrunk(path, 5_000), True),
    (lambda path: _shrunk(path, path.stat().st_size - 1), False),
    (_grown, False),
    (_rewritten, False),
    (_replaced, False),
)


def _words(verb: str, folder: Path) -> list[str]:
    names = {"F": str(folder / "f"), "G": str(folder / "g"), "O": str(folder / "out")}
    return [names.get(word, word) for word in verb.split()]


def change_meanwhile(kind: str, folder: Path, wire: Wire) -> None:
    """Run each verb, again and again, while something happens to its file at each read; say how each run ended."""
    cli.build_parser = functools.cache(cli.build_parser)
    path = folder / "f"
    (folder / "g").write_bytes(file_of(kind))
    for verb in VERBS[kind]:
        path.write_bytes(file_of(kind))
        with meanwhile(None, lambda: None) as reads:
            run(*_words(verb, folder))
        step = -(-len(reads) // 5)  # all of them, unless there are many alike
        chosen = {*range(0, len(reads), step), *(at for at, name in enumerate(reads) if name == "mapped")}
        for at, (happens, late) in itertools.product(sorted(chosen), HAPPENINGS):
            path.unlink()  # what is mapped is another file
            path.write_bytes(file_of(kind))
            wire.send(("begun", verb, at))
            with meanwhile(at, functools.partial(happens, path), late=late):
                status, out, err = run(*_words(verb, folder))
            wire.send(("ended", status, out[:2000], err))
    wire.send(("done",))


@pytest.mark.parametrize("kind", VERBS)
def test_a_file_that_changes_while_it_is_read(kind: str, tmp_path: Path) -> None:
    """Whatever happens to a file and whenever: an error that names it, or an answer, and never a signal."""
    statuses = []
    with child(change_meanwhile, kind, tmp_path) as (process, wire):
        where: Any = None
        while (said := told(process, wire))[0] != "done":
            if said[0] == "begun":
                where = said[1:]
                continue
            status, out, err = said[1:]
            assert status in (0, 1, 2), (where, said)
            assert "Traceback" not in err, (where, err)
            if status == 2:
                assert re.fullmatch(rf"ckptspec: {tmp_path}/[f]: [A-Z][^\n]+\n", err), (where, err)
            assert status != 1 or out or err, where
            statuses.append(status)
    assert statuses.count(2) > 20


def untouched(kind: str, folder: Path, wire: Wire) -> None:
    """Run each verb with maps that nobody may touch; say what it wrote and printed."""
    libc = ctypes.CDLL(None, use_errno=True)
    real, view = _system.mapped, source.PatchedSource.view
    maps = 0

    def mapped(made: type[mmap.mmap], fd: int, size: int, *, private: bool) -> mmap.mmap:
        nonlocal maps
        maps += 1
        if private:
            return real(made, fd, size, private=True)
        return made(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)

    def patched(self: Any, offset: int, size: int) -> memoryview:
        found = view(self, offset, size)
        if isinstance(found.obj, _mapped.Map):
            assert libc.mprotect(ctypes.c_void_p(_mapped._address(found.obj)), ctypes.c_size_t(self.size), 0) == 0
        return found

    (folder / "g").write_bytes(file_of(kind))
    for closed in (False, True):
        for verb in VERBS[kind]:
            (folder / "f").write_bytes(file_of(kind))
            (folder / "out").unlink(missing_ok=True)
            if closed:
                _system.mapped, source.PatchedSource.view = mapped, patched  # type: ignore[assignment, method-assign]
            wire.send(("begun", verb))
            answer = run(*_words(verb, folder))
            written = (folder / "out").read_bytes() if (folder / "out").exists() else (folder / "f").read_bytes()
            wire.send(("ended", *answer, written))
    wire.send(("done", maps))


@pytest.mark.parametrize("kind", VERBS)
def test_no_verb_touches_a_map(kind: str, tmp_path: Path) -> None:
    """Each verb prints and writes the same though all maps are closed to it: it would be ended by a signal."""
    answers: dict[str, list[Any]] = {}
    with child(untouched, kind, tmp_path) as (process, wire):
        while (said := told(process, wire))[0] != "done":
            if said[0] == "begun":
                verb = said[1]
            else:
                answers.setdefault(verb, []).append(said[1:])
    assert said[1] > 0
    for verb, (before, after) in answers.items():
        assert before == after, verb


def test_what_is_mapped_and_what_is_not(tmp_path: Path) -> None:
    """Replacing and removing a file does no harm to arrays; without a map, nothing that happens to it does."""
    for kind, modules in (("oam", (ckptspec, oam)), ("safetensors", (ckptspec, safetensors)), ("ocannl", (ckptspec,))):
        path = tmp_path / kind
        for module in modules:
            path.write_bytes(file_of(kind))
            held = module.load(path, mmap=False)
            mapped = module.load(path)
            _replaced(path)
            again = ckptspec.dumps(mapped)
            assert again == file_of(kind)
            path.write_bytes(file_of(kind))
            alone = module.load(path, mmap=False)
            os.truncate(path, 0)
            path.unlink()
            assert ckptspec.dumps(held) == ckptspec.dumps(alone) == file_of(kind)


# ------------------------------------------------------------------------------------------------- killed at any moment


def repeat(at: int, folder: Path, wire: Wire) -> None:
    """Do an operation and put the old file back, in turns, for ever."""
    cli.build_parser = functools.cache(cli.build_parser)
    name, work = TRIALS[at][1:]
    old = (folder / "old").read_bytes()
    with contextlib.redirect_stdout(io.StringIO()):
        for turn in itertools.count():
            work(folder)
            if not turn:
                wire.send((folder / name).read_bytes())
            with publish.publishing(folder / name) as draft:
                draft.write(old)
            if not turn:
                wire.send("going on")


@pytest.mark.parametrize("at", range(len(TRIALS)), ids=NAMES)
def test_killed_at_random_moments(at: int, tmp_path: Path) -> None:
    """After each kill the old file is there or the new one; a temporary may be left, and the next writer removes it."""
    name = TRIALS[at][1]
    _sources(tmp_path)
    old = _old(tmp_path, name)
    (tmp_path / "old").write_bytes(old)
    files = set(os.listdir(tmp_path))
    moments = random.Random(at)
    for _ in range(3):
        with child(repeat, at, tmp_path) as (process, wire):
            new = told(process, wire)
            assert told(process, wire) == "going on"
            time.sleep(moments.uniform(0, 0.02))
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        found = (tmp_path / name).read_bytes()
        assert found in (old, new)
        left = set(os.listdir(tmp_path)) - files
        assert len(left) <= 1
    with publish.publishing(tmp_path / name) as draft:
        draft.write(old)
    assert set(os.listdir(tmp_path)) == files


# ---------------------------------------------------------------------------------------- many writers, many readers

WRITERS = READERS = 20
TURNS = 3


def own(writer: int) -> list[TensorNode]:
    """The two nodes of a writer. Those of different writers have different sizes: a mixture would not go unseen."""
    return [TensorNode(id=10 * writer + at, precision="int32", dims=(10 * writer + at,)) for at in (1, 2)]


def write_all(folder: Path, writer: int, wire: Wire) -> None:
    """Write the four files as one of many writers."""
    wire.send("ready")
    wire.recv()
    for turn in range(TURNS):
        value = 1000 * writer + turn
        array = np.full(100 * writer, value, np.int32)
        save(folder / "m.oam", oam.Model(weights={"w": array}))
        safetensors.save(folder / "m.safetensors", {"w": array}, {"value": str(value)})
        nodes = own(writer)
        ctx = Context({node: np.full(node.shape, value, np.int32) for node in nodes})
        ocannl.save(ctx, nodes, folder / "m.ckpt", appending=True)
        edit_metadata(folder / "edited.safetensors", dict.fromkeys("abc", f"{value:07}"))
    wire.send("done")


def read_all(folder: Path, wire: Wire) -> None:
    """Read the four files until told to stop; each must be the whole of what one writer wrote."""
    wire.send("ready")
    reads = 0
    held: list[tuple[Any, int]] = []  # what was read before, and must not change though the file was replaced
    while not wire.poll() or reads < 2:
        for array, value in held:
            assert array.min() == array.max() == value
        (array,) = load(folder / "m.oam").weights.values()
        assert array.min() == array.max()
        assert array.size == 100 * (int(array[0]) // 1000)
        found = load(folder / "m.safetensors")
        assert found["w"].min() == found["w"].max() == int(found.metadata["value"])
        assert found["w"].size == 100 * (int(found["w"][0]) // 1000)
        arrays = {node.id: array for node, array in ocannl.load(Context(), folder / "m.ckpt")[0].items()}
        assert len(arrays) % 2 == 1
        assert arrays[0].size == 7
        for number in arrays:
            if number % 10 == 1:
                assert arrays[number].min() == arrays[number + 1].max()
        edited = safetensors.load(folder / "edited.safetensors").metadata
        assert edited is not None
        assert len({edited[key] for key in "abc"}) == 1
        held = [(each, int(each[0])) for each in (array, found["w"], *arrays.values())]
        reads += 1
    wire.send(reads)


def test_twenty_writers_and_twenty_readers(tmp_path: Path) -> None:
    """Every read sees the whole of what one writer wrote; of those that append at once, the last one wins, whole."""
    first = np.full(100, 1000, np.int32)
    save(tmp_path / "m.oam", oam.Model(weights={"w": first}))
    safetensors.save(tmp_path / "m.safetensors", {"w": first}, {"value": "1000"})
    node = TensorNode(id=0, precision="int32", dims=(7,))
    ocannl.save(Context({node: np.zeros(7, np.int32)}), [node], tmp_path / "m.ckpt")
    safetensors.save(tmp_path / "edited.safetensors", {"w": first}, dict.fromkeys("abc", "0000000"))
    with ExitStack() as stack:
        writers = [stack.enter_context(child(write_all, tmp_path, writer + 1)) for writer in range(WRITERS)]
        readers = [stack.enter_context(child(read_all, tmp_path)) for _ in range(READERS)]
        for each in writers + readers:
            assert told(*each) == "ready"
        for _, wire in writers:
            wire.send("go")
        for each in writers:
            assert told(*each) == "done"
        for _, wire in readers:
            wire.send("stop")
        for each in readers:
            assert told(*each) >= 2
    names = ("m.oam", "m.safetensors", "m.ckpt", "edited.safetensors")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    for name in names:
        assert validate(tmp_path / name).canonical
