"""Publishing: the old file or the new one, whatever happens."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import time
from pathlib import Path

import numpy as np
import pytest

from ckptspec import load, oam, publish, save, validate
from ckptspec.oam import Model

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
    target, link, twin = tmp_path / "real.oam", tmp_path / "link.oam", tmp_path / "twin.oam"
    target.write_bytes(b"old")
    link.symlink_to(target)
    os.link(target, twin)
    save(link, SMALL)
    assert link.is_symlink()
    assert validate(target).ok
    assert twin.read_bytes() == b"old"
    dangling = tmp_path / "dangling.oam"
    dangling.symlink_to(tmp_path / "new.oam")
    save(dangling, SMALL)
    assert validate(tmp_path / "new.oam").ok


def test_destinations_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        save(tmp_path, SMALL)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="Not a regular file"):
        save(tmp_path / "fifo", SMALL)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        save(tmp_path / "loop", SMALL)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        save(tmp_path / "file" / "m.oam", SMALL)
    for ending in ("/", "/.", "/..", "/new/"):
        with pytest.raises(IsADirectoryError):
            save(f"{tmp_path}/file{ending}", SMALL)
    assert (tmp_path / "file").read_bytes() == b""
    with pytest.raises(OSError, match="Not a regular file"):
        save("/dev/full", SMALL)
    assert _entries(tmp_path) == ["fifo", "file", "loop"]


def test_temporaries_that_may_not_be_written_are_removed_too(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    dead = tmp_path / (publish._stem(str(path)) + "0" * 16 + ".tmp")
    dead.write_bytes(b"x")
    dead.chmod(0o444)
    save(path, SMALL)
    assert _entries(tmp_path) == ["m.oam"]


def test_a_directory_that_cannot_be_read_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    save(tmp_path / "m.oam", SMALL)
    monkeypatch.undo()
    assert validate(tmp_path / "m.oam").ok


def test_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    save(path, SMALL)
    assert _entries(tmp_path) == ["n" * 255]


@pytest.mark.parametrize("call", ["pwrite", "fsync", "replace", "ftruncate"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failures_leave_the_old_file(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.oam"
    path.write_bytes(b"old")

    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        save(path, SMALL)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert _entries(tmp_path) == ["m.oam"]


def test_a_failing_directory_sync_is_reported_and_the_new_file_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(directory: str) -> None:
        raise OSError(5, "Input/output error", directory)

    monkeypatch.setattr(publish, "_sync_directory", fail)
    with pytest.raises(OSError, match="Input/output"):
        save(tmp_path / "m.oam", SMALL)
    assert validate(tmp_path / "m.oam").ok
    assert _entries(tmp_path) == ["m.oam"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:7], at))
    save(tmp_path / "m.oam", SMALL)
    monkeypatch.undo()
    assert validate(tmp_path / "m.oam").canonical


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


def _save_forever(path: str, value: int) -> None:
    model = Model(weights={"w": np.full(20_000, value, np.float32)})
    while True:
        save(path, model)


def test_killed_writers_and_readers_at_once(tmp_path: Path) -> None:
    """Two writers are killed at some moment, again and again, while the file is read."""
    path = tmp_path / "m.oam"
    save(path, Model(weights={"w": np.full(20_000, 1, np.float32)}))
    context = multiprocessing.get_context("spawn")
    rng = np.random.default_rng(3)
    for _ in range(4):
        writers = [context.Process(target=_save_forever, args=(str(path), value), daemon=True) for value in (1, 2)]
        for writer in writers:
            writer.start()
        until = time.monotonic() + 0.8 + rng.uniform(0, 0.3)
        while time.monotonic() < until:
            weights = load(path).weights["w"]
            assert weights.min() == weights.max()
            assert weights[0] in (1, 2)
        for writer in writers:
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
    save(path, SMALL)
    assert _entries(tmp_path) == ["m.oam"]
