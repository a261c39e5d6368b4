"""Files larger than memory, offsets beyond 2^32, progress on terminals, interruption. The files are sparse."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest

from ckptspec import load, oam, validate
from ckptspec.checksum import FNV_PRIME, fnv1a64
from ckptspec.conformance.bench.timing import anonymous_memory
from ckptspec.conformance.cases.assemble import Image, T, assemble, config, optimizer, progress, tensors
from ckptspec.spec.layout import record_size
from ckptspec.spec.schema import OamIndex, OamTensor

HOLE = (1 << 32) + 12_345  # bytes; what follows it lies beyond 2^32
COMMAND = [sys.executable, "-m", "ckptspec"]


def _zeros(state: int, number: int) -> int:
    """Return the hash after ``number`` zero bytes: each is nothing but a multiplication."""
    return state * pow(FNV_PRIME, number, 1 << 64) % (1 << 64)


def sparse(path: Path, hole: int = HOLE) -> None:
    """Write a file with a weight that is a hole, a small one behind it, and an optimizer; all checksums are right."""
    tail = bytes(range(1, 17))
    items = [T("hole", "u8", (0,), b""), T("small", "u8", (16,), tail)]
    parts: list[tuple[str | int, bytes]] = [("config", config()), ("weights", tensors(items))]
    image = assemble([*parts, ("optimizer", optimizer()), ("progress", progress())])
    start, size = image.section("weights")
    image.set("weights[0].num_bytes", hole).set("weights[0].shape[0]", hole).set("weights[1].blob_offset", hole)
    head = bytes(image.data[start : start + record_size(OamIndex) + 2 * record_size(OamTensor)])
    moved = start + -(-(size + hole) // 4096) * 4096
    behind = bytes(image.data[image.section("optimizer")[0] :])
    shift = moved - image.section("optimizer")[0]
    for entry in (2, 3):
        offset, _ = image.place(f"sections[{entry}].offset")
        image.set(f"sections[{entry}].offset", int.from_bytes(image.data[offset : offset + 8], "little") + shift)
    image.set("sections[1].size", size + hole)
    image.set("sections[1].checksum", fnv1a64(tail, _zeros(fnv1a64(head), hole)))
    image.set("header.total_size", moved + len(behind)).seal(payloads=False)
    with path.open("wb") as file:
        file.write(image.data[: start + len(head)])
        file.seek(start + len(head) + hole)
        file.write(tail)
        file.seek(moved)
        file.write(behind)
    assert isinstance(image, Image)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.oam"
    sparse(path)
    return path


def test_offsets_beyond_2_32(large: Path) -> None:
    before = anonymous_memory()
    model = load(large)  # verified: four gigabytes go through the hash
    assert anonymous_memory() - before < 64e6
    assert model.weights["hole"].shape == (HOLE,)
    assert model.weights["hole"][-1] == 0
    assert model.weights["small"].tolist() == list(range(1, 17))
    assert isinstance(model.weights, oam.TensorMap)


def test_damage_beyond_2_32(large: Path, tmp_path: Path) -> None:
    """The moments, which lie last, are damaged; of the large payload nothing but its checksum is looked at."""
    size = large.stat().st_size
    with large.open("r+b") as file:
        file.seek(size - 104 - 20)  # a reserved byte of the optimizer
        old = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(b"\x55")
        try:
            file.flush()
            report = validate(large)
        finally:
            file.seek(size - 104 - 20)
            file.write(old)
    assert report.first is not None
    assert report.first.rule == "OAM-SEC-CHECKSUM"
    assert report.first.offset > 1 << 32
    assert f"byte {size - 104 - 20} " in report.first.hint


def test_truncation_of_a_large_file(large: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.oam"
    sparse(path)
    os.truncate(path, (1 << 32) + 9000)
    report = validate(path)
    assert [finding.rule for finding in report if finding.severity == "reject"][:2] == [
        "OAM-HDR-TOTAL",
        "OAM-SEC-RANGE",
    ]
    states = {item.name: item.state for item in report.survivors}
    assert states["hole"] == "lost"
    assert states["config"] == "intact"


def _on_a_terminal(*args: str, seconds: float = 60) -> tuple[int, str]:
    """Run the command line with a terminal as standard error; return its exit status and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen([*COMMAND, *args], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    got = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            got += part
        elif process.poll() is not None:
            break
    os.close(ours)
    return process.wait(), got.decode()


def test_progress_on_a_terminal(large: Path) -> None:
    status, shown = _on_a_terminal("validate", str(large))
    assert status == 0
    assert "validate" in shown
    assert "B/s" in shown
    done = subprocess.run([*COMMAND, "validate", str(large)], capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stderr in (b"", b"compiling the faster checksum, once on this machine\n")


def test_small_work_shows_no_bar(tmp_path: Path) -> None:
    path = tmp_path / "small.oam"
    oam.save(path, oam.Model(weights={"w": np.zeros(9, np.float32)}))
    assert _on_a_terminal("validate", str(path)) == (0, "")


def _wait_until_it_reads(pid: int) -> None:
    """Return when a process is in the middle of its work: when it has read a few hundred megabytes."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for line in Path(f"/proc/{pid}/io").read_text("ascii").splitlines():
            if line.startswith("rchar:") and int(line.split()[1]) > 300_000_000:
                return
        time.sleep(0.01)
    raise AssertionError("the process reads nothing")


@pytest.mark.parametrize("verb", [["validate"], ["canonicalize"], ["salvage"]])
def test_interruption_leaves_nothing_behind(verb: list[str], large: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work: it stops at once, and neither a target nor a temporary is there."""
    target = [] if verb == ["validate"] else [str(tmp_path / "out.oam")]
    process = subprocess.Popen(
        [*COMMAND, *verb, str(large), *target],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    _wait_until_it_reads(process.pid)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
