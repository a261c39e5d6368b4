"""Publishing: the old file or the new one, whatever happens."""

from __future__ import annotations

import ast
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec import _system, decode, dumps, oam, ocannl, publish, safetensors, save, validate
from ckptspec.cli import main
from ckptspec.conformance.faults import failing
from ckptspec.neutral import dump_json
from ckptspec.oam import Model
from ckptspec.publish import HalfWrittenError
from ckptspec.safetensors import edit_metadata

SMALL = Model(weights={"w": np.arange(4, dtype=np.float32)})


def _entries(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_parents_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "m.oam"
    save(path, SMALL)
    assert _entries(path.parent) == ["m.oam"]
    assert path.read_bytes() == oam.dumps(SMALL)


def test_permission_bits(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    old = os.umask(0o027)
    try:
        save(path, SMALL)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save(path, SMALL)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_symbolic_links_stay_and_hard_links_part(tmp_path: Path) -> None:
    """Relative links, links to links, and links to what is not there yet: the file at their end is replaced."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    target, twin = tmp_path / "a" / "real.oam", tmp_path / "twin.oam"
    for link, way in (("one", "a/real.oam"), ("a/b/two", "../../one"), ("three", str(tmp_path / "a" / "b" / "two"))):
        (tmp_path / link).symlink_to(way)
    (tmp_path / "aside").symlink_to("a/b")
    for path in ("one", "a/b/two", "three", "aside/two", "aside/../../three"):
        target.write_bytes(b"old")
        twin.unlink(missing_ok=True)
        os.link(target, twin)
        save(f"{tmp_path}/{path}", SMALL)
        assert target.read_bytes() == oam.dumps(SMALL)
        assert twin.read_bytes() == b"old"
        assert all((tmp_path / link).is_symlink() for link in ("one", "a/b/two", "three", "aside"))
        target.unlink()
        save(f"{tmp_path}/{path}", SMALL)  # the links dangle
        assert target.read_bytes() == oam.dumps(SMALL)
    assert _entries(tmp_path) == ["a", "aside", "one", "three", "twin.oam"]
    assert _entries(tmp_path / "a") == ["b", "real.oam"]
    assert _entries(tmp_path / "a" / "b") == ["two"]


def test_destinations_that_are_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be published is refused at once, in Python and on the command line, with the name that was given."""
    file, good = tmp_path / "file", tmp_path / "good.oam"
    file.write_bytes(b"")
    save(good, SMALL)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "to-fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
    refused: dict[str, str] = {
        f"{tmp_path}": "Is a directory",
        **{f"{tmp_path}/file{ending}": "Is a directory" for ending in ("/", "/.", "/..", "/new/")},
        **{f"{tmp_path}/{name}": "Not a regular file" for name in ("fifo", "to-fifo", "socket")},
        "/dev/full": "Not a regular file",
        "/dev/null": "Not a regular file",
        f"{tmp_path}/loop": "Too many levels of symbolic links",
        f"{tmp_path}/file/m.oam": "Not a directory",
        f"{tmp_path}/{'n' * 256}": "File name too long",
        "/proc/m.oam": "No such file or directory",
        "": "The name of the file to write is empty",
    }
    for path, why in refused.items():
        for refuse in (save, lambda path, _: publish.writable(path)):
            with pytest.raises(OSError, match=why) as caught:
                refuse(path, SMALL)
            assert caught.value.filename == path
        for words in (
            ["inspect", str(good), "--html", path],
            ["digest", str(good), "--manifest", path],
            ["salvage", str(good), path],
            ["convert", str(good), path, "--to", "safetensors"],
            ["export", "c", path],
            ["conform", "--html", path],
            ["matrix", "--producer", "ckptspec", "--consumer", "ckptspec", "--json", path],
        ):
            assert main(words) == 2, words
            captured = capsys.readouterr()
            assert captured.err.endswith(f"{why}\n"), words
            assert captured.err.count("\n") == 1
            assert path in captured.err
            assert captured.out == ""
    assert file.read_bytes() == b""
    assert _entries(tmp_path) == ["fifo", "file", "good.oam", "loop", "socket", "to-fifo"]


def test_looking_whether_an_output_has_a_place_leaves_nothing(tmp_path: Path) -> None:
    publish.writable(tmp_path / "new" / "er" / "m.oam")
    (tmp_path / "m.oam").write_bytes(b"old")
    publish.writable(tmp_path / "m.oam")
    assert _entries(tmp_path) == ["m.oam"]
    assert (tmp_path / "m.oam").read_bytes() == b"old"


def _as_nobody(work: Callable[[], object]) -> str:
    """Do something in a process of a user who may do little; return the error that came."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()
            told = "none"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(sender, told.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(sender)
    with os.fdopen(receiver) as file:
        return file.read()


def test_folders_that_may_not_be_written_to() -> None:
    """A file in such a folder cannot be replaced, though it may be written to itself; it stays as it is."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own are for its user alone
        folder, sealed = Path(name), Path(name) / "sealed"
        folder.chmod(0o755)
        sealed.mkdir()
        path = sealed / "m.oam"
        save(path, SMALL)
        before = path.read_bytes()
        path.chmod(0o666)
        sealed.chmod(0o555)
        for target in (path, sealed / "new.oam", sealed / "deeper" / "new.oam"):
            for refused in (lambda target=target: save(target, SMALL), lambda target=target: publish.writable(target)):
                assert _as_nobody(refused) == f"PermissionError: [Errno 13] Permission denied: '{target}'"
        assert path.read_bytes() == before
        assert _entries(sealed) == ["m.oam"]
        unlisted = folder / "unlisted"
        unlisted.mkdir()
        unlisted.chmod(0o733)  # may be written to and not be listed
        assert _as_nobody(lambda: save(unlisted / "m.oam", SMALL)) == "none"
        assert _entries(unlisted) == ["m.oam"]
        assert (unlisted / "m.oam").read_bytes() == before


def test_outputs_that_are_streams(tmp_path: Path) -> None:
    """A full device, a closed output, one that is appended to, a reader that has enough, a slow input."""
    path, log = tmp_path / "m.oam", tmp_path / "log"
    save(path, SMALL)
    document = dump_json(decode(path)).encode()

    def run(words: str, stdin: bytes | None = None, **more: Any) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "ckptspec", *words.split()], input=stdin, stderr=-1, **more)
        return done.returncode, done.stderr.decode()

    with open("/dev/full", "wb") as full:
        for words, stdin in ((f"decode {path}", None), ("encode -", document), ("export c", None), ("--help", None)):
            for unbuffered in ("", "1"):
                told = run(words, stdin, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
                assert told == (2, "ckptspec: standard output: No space left on device\n"), (words, unbuffered)
    closed = run(f"decode {path}", preexec_fn=lambda: os.close(1))
    assert closed == (2, "ckptspec: standard output is closed\n")
    for _ in range(2):
        with log.open("ab") as appended:
            assert run("encode -", document, stdout=appended) == (0, "")
    assert log.read_bytes() == 2 * path.read_bytes()
    with subprocess.Popen([sys.executable, "-m", "ckptspec", "validate", "-"], stdin=-1, stdout=-1) as slow:
        assert slow.stdin is not None
        assert slow.stdout is not None
        for at in range(path.stat().st_size):
            os.write(slow.stdin.fileno(), path.read_bytes()[at : at + 1])
        slow.stdin.close()
        assert slow.stdout.read().startswith(b"-: valid: ")


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_short_reads_and_short_writes_are_continued(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As networks do it: each call moves a few bytes only."""
    calls = {name: getattr(_system, name) for name in ("pread", "preadv", "pwrite")}
    monkeypatch.setattr(_system, "pread", lambda fd, wanted, at: calls["pread"](fd, min(size, wanted), at))
    monkeypatch.setattr(_system, "preadv", lambda fd, buffer, at: calls["preadv"](fd, buffer[:size], at))
    monkeypatch.setattr(_system, "pwrite", lambda fd, data, at: calls["pwrite"](fd, memoryview(data)[:size], at))
    for module, model in ((oam, SMALL), (safetensors, safetensors.TensorFile(tensors={"w": np.arange(9.0)}))):
        path = tmp_path / module.__name__
        save(path, model)
        assert path.read_bytes() == dumps(model)
        assert validate(path).canonical
        assert decode(path) == decode(dumps(model))


def test_sparse_files(tmp_path: Path) -> None:
    """Gaps of a file are holes, and holes of one that is read are zeros."""
    node = ocannl.TensorNode(id=0, precision="byte", dims=(1 << 24,))
    checkpoint = ocannl.Checkpoint(tensors=[ocannl.Tensor(node=node, data=bytes(1 << 24))], alignment=1 << 22)
    path, hole = tmp_path / "m.ckpt", tmp_path / "hole"
    save(path, checkpoint)
    assert path.stat().st_size > 1 << 24
    with hole.open("wb") as file:
        file.write(path.read_bytes()[: 1 << 22])
        file.truncate(path.stat().st_size)
    assert hole.stat().st_blocks * 512 < 1 << 23
    assert validate(hole).canonical
    assert hole.read_bytes() == path.read_bytes()


def test_temporaries_that_may_not_be_written_are_removed_too(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    dead = tmp_path / (publish._stem(str(path)) + "0" * 16 + ".tmp")
    dead.write_bytes(b"x")
    dead.chmod(0o444)
    save(path, SMALL)
    assert _entries(tmp_path) == ["m.oam"]


def test_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    save(path, SMALL)
    assert _entries(tmp_path) == ["n" * 255]


def test_temporaries_of_dead_writers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "m.oam", tmp_path / "n.oam"
    dead = publish._stem(str(path)) + "0" * 16 + ".tmp"
    foreign = publish._stem(str(other)) + "0" * 16 + ".tmp"
    for name in (dead, foreign, ".ckptspec-notes.tmp"):
        (tmp_path / name).write_bytes(b"x")
    with publish.publishing(path) as draft:
        draft.write(b"first")
        living = os.path.basename(draft.path)
        save(path, SMALL)  # another writer of the same destination
        assert living in _entries(tmp_path)
        assert dead not in _entries(tmp_path)
    assert _entries(tmp_path) == sorted([foreign, ".ckptspec-notes.tmp", "m.oam"])
    assert path.read_bytes() == b"first"


# ------------------------------------------------------------------------------------------------------------- in place


class Disk:
    """Lets writes fail by their number; every other one goes through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fates: Any) -> None:
        self.number = 0
        self.fates = {int(key.removeprefix("at")): fate for key, fate in fates.items()}
        self.real = _system.pwrite
        monkeypatch.setattr(_system, "pwrite", self.pwrite)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        fate = self.fates.get(self.number)
        self.number += 1
        if isinstance(fate, BaseException):
            raise fate
        return self.real(fd, memoryview(data)[:fate], offset)


BAD = OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("fates", "left"),
    [
        ({"at0": 3}, "new"),  # a short write goes on
        ({"at0": 3, "at1": BAD}, "old"),  # what was written is put back
        ({"at0": 3, "at1": KeyboardInterrupt()}, "old"),
        ({"at0": 3, "at1": MemoryError()}, "old"),
        ({"at0": 3, "at1": BAD, "at2": 2}, "old"),  # a short write of the old bytes goes on
        ({"at0": 3, "at1": BAD, "at2": BAD}, "anew"),  # what cannot be put back is made whole by a new file
        ({"at0": 3, "at1": BAD, "at2": BAD, "at3": BAD}, "half"),  # nothing can be written any more
    ],
)
def test_a_write_in_place_that_fails(
    fates: dict[str, Any], left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    safetensors.save(path, {"w": np.arange(4)}, {"k": "what was there"})
    old, inode = path.read_bytes(), path.stat().st_ino
    with monkeypatch.context() as patched:
        Disk(patched, **fates)
        if left in ("new", "anew"):
            assert edit_metadata(path, {"k": "something else"}) == (left == "new")
        else:
            with pytest.raises((OSError, KeyboardInterrupt, MemoryError)) as caught:
                edit_metadata(path, {"k": "something else"})
            assert isinstance(caught.value, HalfWrittenError) == (left == "half")
            if isinstance(caught.value, OSError):
                assert caught.value.filename == str(path)
    assert _entries(tmp_path) == [path.name]
    if left == "half":
        assert "are written in part, and cannot be put back" in str(caught.value)
        return
    assert (path.stat().st_ino == inode) == (left != "anew")
    if left == "old":
        assert path.read_bytes() == old
    else:
        assert safetensors.load(path).metadata == {"k": "something else"}
    assert validate(path).ok


def test_when_a_write_is_not_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If it was not wanted, if the bytes lie in two pages, if somebody else holds the file or has changed it."""
    path = tmp_path / "m.safetensors"
    filler = {f"k{at}": "x" * 50 for at in range(100)}
    safetensors.save(path, {"w": np.arange(4)}, {"a": "old", **filler, "z": "old"})
    assert edit_metadata(path, {"a": "new"})
    assert not edit_metadata(path, {"a": "old"}, in_place=False)
    assert main(["metadata", str(path), "--set", "a=new", "--anew"]) == 0
    assert "written anew" in capsys.readouterr().out
    assert main(["metadata", str(path), "--set", "a=old"]) == 0
    assert "changed in place" in capsys.readouterr().out
    assert not edit_metadata(path, {"a": "new", "z": "new"})
    fd = os.open(path, os.O_RDONLY)
    _system.flock(fd, wait=True)
    assert not edit_metadata(path, {"a": "old"})
    os.close(fd)
    data = path.read_bytes()
    assert not publish.overwrite(path, len(data), 8, b"y" * 9, b"z" * 9)
    assert not publish.overwrite(path, len(data) + 1, 8, data[8:20], b"z" * 12)
    assert publish.overwrite(path, len(data), 8, data[8:20], data[8:20])
    assert path.read_bytes() == data


def test_a_header_is_read_until_it_does_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who writes in place may be half done when it is read first."""
    path = tmp_path / "m.safetensors"
    safetensors.save(path, {"w": np.arange(4)}, {"k": "new new"})
    with failing() as calls:
        assert safetensors.load(path).metadata == {"k": "new new"}
    assert calls.stages.count("read") >= 3
    real, torn = _system.pread, iter([b"new old", b"old new", b"new new", b"new new"])

    def pread(fd: int, size: int, offset: int) -> bytes:
        data = real(fd, size, offset)
        return data.replace(b"new new", next(torn)) if offset == 8 else data

    monkeypatch.setattr(_system, "pread", pread)
    assert safetensors.load(path).metadata == {"k": "new new"}


# ----------------------------------------------------------------------------------------------------------- one place

# Tools of this project itself, which make its own files, and programs that are run on files in folders of their own.
OWN = ("build.py", "adapters.py", "exchange.py", "matrix_examples.py", "known_failures.py", "bench/", "tests/")
WRITERS = {"write_text", "write_bytes", "open", "touch", "rename", "replace", "unlink", "mkdir", "truncate", "pwrite"}


def _writes(path: Path) -> set[str]:
    """Find calls in a module that write to files or folders: methods of paths and of ``os``, and ``open`` to write."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            mode = node.args[1] if len(node.args) > 1 else None
            if not (isinstance(mode, ast.Constant) and "r" in str(mode.value) and "+" not in str(mode.value)):
                found.add("open")
        if isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS:
            owner = ast.unparse(node.func.value)
            if node.func.attr == "replace" and owner != "os" and len(node.args) != 1:
                continue  # of text
            if owner == "os" and node.func.attr == "open" and "devnull" in ast.unparse(node):
                continue
            if owner not in ("system", "_system"):
                found.add(f"{owner}.{node.func.attr}")
    return found


def test_no_other_module_writes_files(tmp_path: Path) -> None:
    """All go through ``publish``, and that through ``_system``: where one call fails, the tests have seen it fail."""
    root = Path(ckptspec.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name != "_system.py" and not name.startswith(tuple(f"conformance/{own}" for own in OWN)):
            writes = _writes(path)
            if writes:
                found[name] = writes
    assert found == {}
    module = tmp_path / "m.py"
    for call in ("open(p, 'w')", "open(p)", "p.open('wb')", "os.open(p, 1)", "os.replace(a, b)", "p.write_text('')"):
        module.write_text(call)
        assert (_writes(module) == set()) == (call == "open(p, 'r')"), call
