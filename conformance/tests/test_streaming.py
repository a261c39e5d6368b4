"""Reading ahead, hashing side by side, writing while hashing: the same bytes and hashes as one after the other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from ckptspec import streaming, validate
from ckptspec.checksum import fnv1a64
from ckptspec.conformance.cases.assemble import T, assemble, config, optimizer, progress, tensors
from ckptspec.source import BufferSource, FileSource

DATA = np.random.default_rng(5).integers(0, 256, 300_001, np.uint8).tobytes()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads pay for thousands of bytes, not for millions, on a machine of two processors."""
    monkeypatch.setattr(streaming, "PIECE", 4096)
    monkeypatch.setattr(streaming, "_LARGE", 16384)
    monkeypatch.setattr(streaming, "processors", lambda: 2)


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    path = tmp_path / "data"
    path.write_bytes(DATA)
    return FileSource(path)


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 16385, 20480, 300_001 - 7])
def test_reading_ahead(source: FileSource, size: int) -> None:
    assert b"".join(bytes(part) for part in streaming.read_ahead(source, 7, size, 4096)) == DATA[7 : 7 + size]
    assert streaming.checksum_of(source, 7, size) == fnv1a64(DATA[7 : 7 + size])


def test_reading_ahead_of_a_file_that_shrinks(source: FileSource) -> None:
    assert source.name is not None
    os.truncate(source.name, 50_000)
    with pytest.raises(OSError, match="became shorter"):
        streaming.checksum_of(source, 0, len(DATA))
    with pytest.raises(OSError, match="became shorter"):
        list(streaming.checksums_of(source, [(0, 120_000), (120_000, 120_000)]))


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(0, 300_000)],
        [(0, 100), (100, 150_000), (150_100, 140_000), (290_100, 50)],
        [(150_000, 150_000), (0, 150_000)],
        [(0, 300_001), (5, 3)],
    ],
)
def test_side_by_side(source: FileSource, ranges: list[tuple[int, int]]) -> None:
    expected = [fnv1a64(DATA[offset : offset + size]) for offset, size in ranges]
    assert list(streaming.checksums_of(source, ranges)) == expected
    assert list(streaming.checksums_of(BufferSource(DATA), ranges)) == expected


def test_who_has_seen_enough_does_not_wait(source: FileSource) -> None:
    hashes = streaming.checksums_of(source, [(0, 10), (0, 150_000), (150_000, 150_000)])
    next(hashes)
    hashes.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ckptspec")]


def test_a_file_whose_sections_are_hashed_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "m.oam"
    weights = tensors([T("w", "u8", (60_000,), DATA[:60_000])])
    parts: list[tuple[str | int, bytes]] = [("config", config()), ("weights", weights)]
    image = assemble([*parts, ("optimizer", optimizer(DATA[:40_000])), ("progress", progress())])
    path.write_bytes(image.bytes())
    assert validate(path).ok
    at = image.section("optimizer")[0] + 1000
    path.write_bytes(image.flip(at).bytes())
    report = validate(path)
    assert report.first is not None
    assert (report.first.rule, report.first.path) == ("OAM-SEC-CHECKSUM", "optimizer")
    assert f"byte {at} " in report.first.hint


class Sink:
    """Collects what is written, and fails after ``room`` bytes."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.data = b""
        self.room = room

    def write(self, data: memoryview) -> None:
        if len(self.data) + data.nbytes > self.room:
            raise OSError(28, "No space left on device")
        self.data += data


@pytest.mark.parametrize("size", [0, 10, 16384, 300_001])
def test_writing_while_hashing(size: int) -> None:
    sink = Sink()
    with streaming.hashing(sink, size) as tee:
        for start in range(0, size, 50_000):
            tee.write(memoryview(DATA)[start : min(start + 50_000, size)])
    assert sink.data == DATA[:size]
    assert (tee.value, tee.size) == (fnv1a64(DATA[:size]), size)


def test_a_failing_write_is_told() -> None:
    with pytest.raises(OSError, match="No space left"), streaming.hashing(Sink(9000), len(DATA)) as tee:
        tee.write(memoryview(DATA))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ckptspec")]
