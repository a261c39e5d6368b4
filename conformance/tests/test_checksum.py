"""FNV-1a-64: every way of computing it gives what the definition gives."""

from __future__ import annotations

import functools
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckptspec
from ckptspec import _fnv_numpy, checksum, compiled
from ckptspec.checksum import (
    FNV_OFFSET_BASIS,
    FNV_PRIME,
    BlockSummary,
    ByteError,
    Fnv1a64,
    combine,
    final_low,
    fnv1a64,
    fnv1a64_serial,
    locate_single_byte_error,
    summarize,
)
from ckptspec.checksum import _Compiled as Choice
from ckptspec.errors import ArgumentError

Patch = pytest.MonkeyPatch

# From the test vectors that the authors of FNV publish.
PUBLISHED = [
    (b"", 0xCBF29CE484222325),
    (b"a", 0xAF63DC4C8601EC8C),
    (b"f", 0xAF63DB4C8601EAD9),
    (b"foo", 0xDCB27518FED9D577),
    (b"foobar", 0x85944171F73967E8),
    (b"\0", 0xAF63BD4C8601B7DF),
    (b"a\0", 0x089BE207B544F1E4),
    (b"foobar\0", 0x34531CA7168B8F38),
    (b"chongo was here!\n", 0x46810940EFF5F915),
]

RANDOM = random.Random(20240607).randbytes(300_000)
STATES = st.integers(0, (1 << 64) - 1)
SMALL_BLOCK = 1 << 12


def serial_states(data: bytes, state: int = FNV_OFFSET_BASIS) -> list[int]:
    """Return the states before the first byte, after it, and so on to the end."""
    return list(itertools.accumulate(data, lambda h, byte: ((h ^ byte) * FNV_PRIME) % (1 << 64), initial=state))


PREFIXES = serial_states(RANDOM)


@pytest.fixture
def numpy_only(monkeypatch: Patch) -> None:
    """Use the numpy engine for all that it can do at all, in blocks small enough to meet their boundaries often."""
    monkeypatch.setenv("CKPTSPEC_CHECKSUM", "numpy")
    monkeypatch.setattr(checksum, "_SERIAL_LIMIT", 1)
    monkeypatch.setattr(_fnv_numpy, "BLOCK", SMALL_BLOCK)


@pytest.mark.parametrize(("data", "expected"), PUBLISHED)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert fnv1a64_serial(data) == fnv1a64(data) == expected


@pytest.mark.usefixtures("numpy_only")
class TestNumpyEngine:
    def test_every_length(self) -> None:
        for length in range(2001):
            assert fnv1a64(RANDOM[:length], threads=1) == PREFIXES[length], length

    @pytest.mark.parametrize("threads", [1, 2, 3])
    @pytest.mark.parametrize("blocks", [1, 2, 3, 5])
    def test_sizes_around_block_boundaries(self, blocks: int, threads: int) -> None:
        for extra in (-65, -64, -63, -8, -1, 0, 1, 7, 8, 63, 64, 65, 511, 512, 513):
            length = blocks * SMALL_BLOCK + extra
            assert fnv1a64(RANDOM[:length], threads=threads) == PREFIXES[length], length

    @pytest.mark.parametrize("size", [64, 448, 512, 576, 16384, 16448, 17408, 20480, 262144, 262208])
    def test_shapes_of_the_weighted_sum(self, size: int, monkeypatch: Patch) -> None:
        monkeypatch.setattr(_fnv_numpy, "BLOCK", 1 << 20)
        assert fnv1a64(RANDOM[:size]) == PREFIXES[size]

    @pytest.mark.parametrize("fill", [0x00, 0xFF, 0x80, 0x01, 0x5C])
    @pytest.mark.parametrize("state", [FNV_OFFSET_BASIS, 0, 0xFF, (1 << 64) - 1])
    def test_uniform_data(self, fill: int, state: int) -> None:
        data = bytes([fill]) * 10_001
        assert fnv1a64(data, state) == fnv1a64_serial(data, state)

    def test_single_bits(self) -> None:
        for bit in [*range(64), 511, 512, 4095, 4096, 8 * 1000 - 1]:
            data = (1 << bit).to_bytes(1000, "little")
            assert fnv1a64(data) == fnv1a64_serial(data), bit

    def test_extreme_differences(self) -> None:
        """Bytes chosen so that x - l stays as large, or as small, as the recurrence of the low byte allows."""
        for wanted in (0xFF, 0x00, 0xB2, 0x4D):
            low, data = FNV_OFFSET_BASIS & 0xFF, bytearray()
            for _ in range(9000):
                data.append(low ^ wanted)
                low = wanted * 0xB3 & 0xFF
            assert fnv1a64(data) == fnv1a64_serial(data)

    @given(data=st.binary(max_size=3000), state=STATES)
    def test_any_data_and_state(self, data: bytes, state: int) -> None:
        assert fnv1a64(data, state) == fnv1a64_serial(data, state)

    @settings(deadline=None)
    @given(cuts=st.lists(st.integers(0, 20_000), max_size=8), threads=st.integers(1, 3))
    def test_any_split(self, cuts: list[int], threads: int) -> None:
        running = Fnv1a64(threads=threads)
        for start, stop in itertools.pairwise([0, *sorted(cuts), 20_000]):
            running.update(memoryview(RANDOM)[start:stop])
            assert running.value == PREFIXES[stop]

    def test_every_alignment(self) -> None:
        for start in range(16):
            assert fnv1a64(memoryview(RANDOM)[start:9000], PREFIXES[start]) == PREFIXES[9000]

    @pytest.mark.parametrize("low", [0, 1, 0x25, 0x80, 0xFF])
    def test_low_bytes_from_either_end(self, low: int) -> None:
        for size in (64, 640, 4096):
            words, x = np.frombuffer(RANDOM[:size], np.uint64), np.empty(size // 8, np.uint64)
            first, *lows = [state & 0xFF for state in serial_states(RANDOM[:size], low)]
            for known, other, backward in ((first, lows[-1], False), (lows[-1], first, True)):
                solver = _fnv_numpy.Solver(size)
                solver.split(words)
                assert solver.solve(known, backward=backward) == other
                solver.join(x)
                assert (x ^ words).tobytes() == bytes([first, *lows[:-1]])

    def test_a_block_has_whole_words_in_each_row(self) -> None:
        for size in (0, 8, 100, -64):
            with pytest.raises(ValueError, match="positive multiple of 64"):
                _fnv_numpy.Solver(size)


@pytest.mark.parametrize("threads", [1, 2, None])
def test_blocks_of_the_usual_size(threads: int | None) -> None:
    copies = 4 * _fnv_numpy.BLOCK // len(RANDOM)
    expected = functools.reduce(lambda state, _: fnv1a64(RANDOM, state), range(copies), FNV_OFFSET_BASIS)
    assert fnv1a64(RANDOM * copies, threads=threads) == expected


def test_forced_way(monkeypatch: Patch) -> None:
    for way in ("serial", "numpy", ""):
        monkeypatch.setenv("CKPTSPEC_CHECKSUM", way)
        assert fnv1a64(RANDOM[:5000]) == PREFIXES[5000]
    monkeypatch.setenv("CKPTSPEC_CHECKSUM", "fast")
    with pytest.raises(ArgumentError, match="CKPTSPEC_CHECKSUM: found 'fast', expected serial, numpy or numba"):
        fnv1a64(RANDOM)


class TestBuffers:
    """The bytes of any C-contiguous buffer count, and nothing else."""

    @pytest.mark.parametrize(
        "buffer",
        [
            RANDOM[:4800],
            bytearray(RANDOM[:4800]),
            memoryview(RANDOM)[:4800],
            memoryview(RANDOM)[:4800].cast("d"),
            memoryview(RANDOM)[:4800].cast("B", (4, 40, 30)),
            np.frombuffer(RANDOM[:4800], ">u4").reshape(10, -1),
            np.frombuffer(RANDOM[:4800], [("a", "<u4"), ("b", "u1", 4)]),
            np.frombuffer(RANDOM[:4800], [("a", "<u4"), ("b", "u1", 4)]).data,
            np.frombuffer(RANDOM[:4800], "M8[s]"),
            np.frombuffer(RANDOM[:4800], ml_dtypes.bfloat16),
            np.frombuffer(RANDOM[:4800], "V4800").reshape(()),
        ],
    )
    def test_any_format(self, buffer: bytes) -> None:
        assert fnv1a64(buffer) == fnv1a64_serial(buffer) == PREFIXES[4800]

    @pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b""), np.empty((0, 3))])
    def test_empty(self, empty: bytes) -> None:
        assert fnv1a64(empty, 7) == 7

    @pytest.mark.parametrize("data", [memoryview(RANDOM)[::2], np.zeros((4, 4))[:, 1], np.zeros((4, 5)).T])
    def test_not_contiguous(self, data: memoryview) -> None:
        with pytest.raises(ArgumentError, match="data: must be contiguous, in C order"):
            fnv1a64(data)

    @pytest.mark.parametrize("data", ["text", 5, None, [1, 2], np.array([None])])
    def test_not_a_buffer(self, data: bytes) -> None:
        with pytest.raises(ArgumentError, match=f"data: must be a bytes-like object, not {type(data).__name__}"):
            fnv1a64(data)

    def test_the_caller_may_resize_afterwards(self) -> None:
        data = bytearray(RANDOM[:5000])
        fnv1a64(data)
        data.append(0)  # BufferError while anything still looks at the buffer


@pytest.mark.parametrize("state", [-1, 1 << 64])
def test_state_out_of_range(state: int) -> None:
    for call in (lambda: fnv1a64(b"", state), lambda: fnv1a64_serial(b"", state), lambda: Fnv1a64(state)):
        with pytest.raises(ArgumentError, match=f"state: must be at least 0 and below {1 << 64}, not {state}"):
            call()


def test_too_few_threads() -> None:
    with pytest.raises(ArgumentError, match="threads: must be at least 1, not 0"):
        fnv1a64(b"", threads=0)


def test_incremental_hash_resumes_and_copies() -> None:
    first = Fnv1a64()
    first.update(RANDOM[:1000])
    second, third = first.copy(), Fnv1a64(first.value)
    first.update(b"other")
    for resumed in (second, third):
        resumed.update(RANDOM[1000:1500])
        assert resumed.value == PREFIXES[1500]
    assert first.value == fnv1a64(b"other", PREFIXES[1000])
    assert repr(second) == f"Fnv1a64(0x{PREFIXES[1500]:016x})"


class TestBlocks:
    @given(cuts=st.lists(st.integers(0, 12_000), max_size=5), state=STATES)
    @settings(deadline=None)
    def test_joining(self, cuts: list[int], state: int) -> None:
        """The two phases of the documentation: low bytes from part to part, then all summaries on their own."""
        data = RANDOM[:12_000]
        parts = [data[start:stop] for start, stop in itertools.pairwise([0, *sorted(cuts), len(data)])]
        lows = list(itertools.accumulate(parts, lambda low, part: final_low(part, low), initial=state & 0xFF))
        summaries = [summarize(part, low) for part, low in zip(parts, lows[:-1], strict=True)]
        joined = combine(state, summaries)
        assert joined == fnv1a64(data, state)
        assert joined & 0xFF == lows[-1]

    @pytest.mark.usefixtures("numpy_only")
    def test_joining_in_small_blocks(self) -> None:
        assert final_low(memoryview(RANDOM)[3:30_000], PREFIXES[3] & 0xFF) == PREFIXES[30_000] & 0xFF

    def test_a_block_that_does_not_follow(self) -> None:
        good = summarize(b"one", 0x25)
        with pytest.raises(ArgumentError) as caught:
            combine(FNV_OFFSET_BASIS, [good, BlockSummary(low=7, hash=7, length=0)])
        low = fnv1a64(b"one") & 0xFF
        message = f"summaries[1]: begins with low byte 7, but the blocks before end with low byte {low}"
        assert str(caught.value) == message

    @pytest.mark.parametrize("low", [-1, 256])
    def test_low_byte_out_of_range(self, low: int) -> None:
        for function in (summarize, final_low):
            with pytest.raises(ArgumentError, match=f"low: must be at least 0 and below 256, not {low}"):
                function(b"", low)


class TestThreads:  # what goes wrong in one of them reaches the caller, and nobody waits for ever
    @pytest.mark.parametrize("threads", [2, 3])
    @pytest.mark.parametrize("method", ["solve", "finish"])
    @pytest.mark.parametrize("helper", [False, True])
    @pytest.mark.usefixtures("numpy_only")
    def test_failure(self, method: str, helper: bool, threads: int, monkeypatch: Patch) -> None:
        original: Callable[..., int] = getattr(_fnv_numpy.Hasher, method)
        caller = threading.current_thread()

        def failing(self: _fnv_numpy.Hasher, block: _fnv_numpy.Words, low: int) -> int:
            if helper == (threading.current_thread() is not caller):
                raise MemoryError(method)
            time.sleep(0.002)  # so that the others get their turn
            return original(self, block, low)

        data, expected = RANDOM[: 40 * SMALL_BLOCK], PREFIXES[40 * SMALL_BLOCK]
        with monkeypatch.context() as patch:
            patch.setattr(_fnv_numpy.Hasher, method, failing)
            if helper and method == "solve":  # which helpers do not
                assert fnv1a64(data, threads=threads) == expected
            else:
                with pytest.raises(MemoryError, match=method):
                    fnv1a64(data, threads=threads)
        assert fnv1a64(data, threads=threads) == expected


def locate(data: bytes, expected: int) -> list[ByteError]:
    return locate_single_byte_error(lambda offset, size: data[offset : offset + size], len(data), expected)


def with_wrong_bytes(data: bytes, *offsets: int, flip: int = 0x41) -> bytes:
    wrong = bytearray(data)
    for offset in offsets:
        wrong[offset] ^= flip
    return bytes(wrong)


def all_single_byte_errors(data: bytes, expected: int) -> list[ByteError]:
    """Try every value of every byte."""
    states = serial_states(data)
    return [
        ByteError(offset=offset, found=byte, correct=correct)
        for offset, byte in enumerate(data)
        for correct in {*range(256)} - {byte}
        if fnv1a64_serial(bytes([correct]) + data[offset + 1 :], states[offset]) == expected
    ]


class TestLocateSingleByteError:
    @pytest.mark.parametrize("size", [1, 2, 3, 17, 70])
    def test_against_trying_everything(self, size: int) -> None:
        wrong = with_wrong_bytes(RANDOM[:size], size // 2)
        located = locate(wrong, PREFIXES[size])
        assert located == all_single_byte_errors(wrong, PREFIXES[size])
        assert len(located) == 1

    @pytest.mark.parametrize("size", [1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000])
    def test_offsets_across_small_blocks(self, size: int, monkeypatch: Patch) -> None:
        monkeypatch.setattr(checksum, "_LOCATE_BLOCK", 256)
        for offset in range(0, size, max(1, size // 23)):
            wrong = with_wrong_bytes(RANDOM[:size], offset)
            error = ByteError(offset=offset, found=wrong[offset], correct=RANDOM[offset])
            assert locate(wrong, PREFIXES[size]) == [error]

    @settings(deadline=None, max_examples=60)
    @given(size=st.integers(1, 200_000), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
    def test_random_corruption(self, size: int, place: float, flip: int) -> None:
        offset = int(size * place)
        wrong = with_wrong_bytes(RANDOM[:size], offset, flip=flip)
        error = ByteError(offset=offset, found=wrong[offset], correct=RANDOM[offset])
        assert locate(wrong, PREFIXES[size]) == [error]

    @pytest.mark.parametrize("data", [RANDOM * 5, bytes(70_000), b"\xff" * 70_000])
    def test_blocks_of_the_usual_size(self, data: bytes) -> None:
        offset = len(data) * 4 // 5 + 3
        error = ByteError(offset=offset, found=data[offset] ^ 0x41, correct=data[offset])
        assert locate(with_wrong_bytes(data, offset), fnv1a64(data)) == [error]

    @pytest.mark.parametrize("size", [0, 1, 100, 70_000])
    def test_nothing_wrong(self, size: int) -> None:
        assert locate(RANDOM[:size], PREFIXES[size]) == []

    @pytest.mark.parametrize("size", [0, 1, 10, 64])
    def test_another_low_byte_of_the_hash(self, size: int) -> None:
        """Such a hash would come from a wrong byte just behind the end, where there is none."""
        expected = PREFIXES[size] ^ 1
        assert locate(RANDOM[:size], expected) == all_single_byte_errors(RANDOM[:size], expected)

    def test_two_wrong_bytes_are_none(self) -> None:
        assert locate(with_wrong_bytes(RANDOM[:70_000], 5, 60_000), PREFIXES[70_000]) == []

    def test_data_that_ends_early(self) -> None:
        with pytest.raises(ArgumentError, match="read: returned 99 bytes at offset 0, not 100"):
            locate_single_byte_error(lambda offset, size: bytes(99), 100, 5)

    def test_expected_out_of_range(self) -> None:
        with pytest.raises(ArgumentError, match="expected: must be at least 0"):
            locate(b"", -1)


def run_python(code: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.strip()


class TestChoice:
    """When the compiled engine is taken, and what happens if it cannot be."""

    @pytest.fixture
    def fresh(self, monkeypatch: Patch) -> Choice:
        choice = Choice()
        monkeypatch.setattr(checksum, "_compiled", choice)
        return choice

    @pytest.fixture
    def without_numba(self, monkeypatch: Patch) -> None:
        monkeypatch.setitem(sys.modules, "ckptspec._fnv_numba", None)
        monkeypatch.delattr(ckptspec, "_fnv_numba", raising=False)

    def test_numba_is_not_imported_for_small_inputs(self) -> None:
        code = "import sys, ckptspec.checksum as c; c.fnv1a64(bytes(100_000)); print('numba' in sys.modules)"
        assert run_python(code, CKPTSPEC_CHECKSUM="") == "False"

    @pytest.mark.usefixtures("without_numba", "fresh")
    def test_forced_without_numba_warns_once(self, monkeypatch: Patch) -> None:
        monkeypatch.setenv("CKPTSPEC_CHECKSUM", "numba")
        with pytest.warns(RuntimeWarning, match="no numba, so numpy computes the checksums"):
            assert fnv1a64(RANDOM[:5000]) == PREFIXES[5000]
        assert fnv1a64(RANDOM[:5000]) == PREFIXES[5000]

    @pytest.mark.usefixtures("without_numba")
    def test_without_numba_is_silent(self, fresh: Choice) -> None:
        assert fresh.engine(1 << 40, at_once=False) is None
        assert fresh.engine(1 << 40, at_once=False) is None

    def test_big_endian_processors_use_numpy(self, fresh: Choice, monkeypatch: Patch) -> None:
        monkeypatch.setattr(sys, "byteorder", "big")
        assert fresh.engine(1 << 40, at_once=False) is None

    def test_nobody_waits_while_another_thread_compiles(self, fresh: Choice) -> None:
        with fresh._lock:
            assert fresh.engine(1 << 40, at_once=False) is None
        assert not fresh._failed

    @pytest.mark.parametrize("reason", ["no code for this machine", "compiled code computes another hash"])
    def test_numba_that_fails_warns_once(self, reason: str, fresh: Choice, monkeypatch: Patch) -> None:
        class Broken(_fnv_numpy.Hasher):
            GRAIN = BLOCK = _fnv_numpy.GRAIN

            def hash(self, block: _fnv_numpy.Words, state: int) -> int:
                if reason.startswith("no code"):
                    raise SystemError(reason)
                return super().hash(block, state) ^ 1

        monkeypatch.setattr(Broken, "Hasher", Broken, raising=False)
        monkeypatch.setitem(sys.modules, "ckptspec._fnv_numba", Broken)
        monkeypatch.setattr(ckptspec, "_fnv_numba", Broken, raising=False)
        with pytest.warns(RuntimeWarning, match=rf"numba fails, so numpy computes the checksums \({reason}\)"):
            assert fresh.engine(1 << 40, at_once=False) is None
        assert fresh.engine(1 << 40, at_once=False) is None

    @pytest.mark.parametrize("on_disk", [True, False])
    def test_when_it_pays(self, on_disk: bool, fresh: Choice, monkeypatch: Patch) -> None:
        load = Mock(return_value=_fnv_numpy)
        monkeypatch.setattr(fresh, "_on_disk", lambda: on_disk)
        monkeypatch.setattr(fresh, "_load", load)
        limit = checksum._LOADING_PAYS if on_disk else checksum._COMPILING_PAYS
        assert fresh.engine(limit // 2, at_once=False) is None
        assert fresh.engine(limit // 2 - 1, at_once=False) is None
        load.assert_not_called()
        assert fresh.engine(1, at_once=False) is _fnv_numpy
        assert fresh.engine(1, at_once=False) is _fnv_numpy
        load.assert_called_once_with(False)

    def test_code_on_disk_is_noticed(self, fresh: Choice, monkeypatch: Patch, tmp_path: Path) -> None:
        monkeypatch.setattr(compiled, "__file__", str(tmp_path / "package" / "compiled.py"))
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
        assert not fresh._on_disk()
        folder = tmp_path / "cache" / "ckptspec_0123"
        folder.mkdir(parents=True)
        (folder / "_fnv_numba._solve-1.py311.nbi").touch()
        assert fresh._on_disk()


@pytest.fixture(scope="module")
def numba_engine() -> _fnv_numpy.Engine:
    """The compiled engine; compiling takes some seconds where this machine has no compiled code yet."""
    pytest.importorskip("numba")
    engine = checksum._compiled.engine(0, at_once=True)
    assert engine is not None
    return engine


@pytest.fixture
def numba_only(numba_engine: _fnv_numpy.Engine, monkeypatch: Patch) -> None:
    monkeypatch.setenv("CKPTSPEC_CHECKSUM", "numba")
    monkeypatch.setattr(numba_engine, "BLOCK", 2 * numba_engine.GRAIN)


@pytest.mark.usefixtures("numba_only")
class TestNumbaEngine:
    @pytest.mark.parametrize("threads", [1, 2, 3])
    @pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 16])
    def test_sizes_around_block_boundaries(self, blocks: int, threads: int) -> None:
        for extra in (-65, -64, -9, -8, -1, 0, 1, 8, 63, 64, 65, 2047, 2048, 2049):
            length = blocks * 16384 + extra
            assert fnv1a64(RANDOM[:length], threads=threads) == PREFIXES[length], length

    @pytest.mark.parametrize("fill", [0x00, 0xFF, 0x80, 0x01, 0x5C])
    @pytest.mark.parametrize("state", [FNV_OFFSET_BASIS, 0, 0xFF, (1 << 64) - 1])
    @pytest.mark.parametrize("threads", [1, 2])
    def test_uniform_data(self, fill: int, state: int, threads: int) -> None:
        data = bytes([fill]) * 70_001
        assert fnv1a64(data, state, threads=threads) == fnv1a64_serial(data, state)

    @settings(deadline=None)
    @given(start=st.integers(0, 20_000), size=st.integers(16_000, 120_000), threads=st.integers(1, 3))
    def test_any_piece(self, start: int, size: int, threads: int) -> None:
        piece = memoryview(RANDOM)[start : start + size]
        assert fnv1a64(piece, PREFIXES[start], threads=threads) == PREFIXES[start + size]
        assert final_low(piece, PREFIXES[start] & 0xFF) == PREFIXES[start + size] & 0xFF

    def test_writable_data(self) -> None:
        assert fnv1a64(bytearray(RANDOM), threads=2) == PREFIXES[-1]

    def test_processors_without_avx2(self, tmp_path: Path) -> None:
        """The code for other processors, as far as this one can run it."""
        code = "import ckptspec.checksum as c; print(c.fnv1a64(bytes(range(256)) * 300))"
        generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
        assert run_python(code, CKPTSPEC_CHECKSUM="numba", **generic) == str(fnv1a64(bytes(range(256)) * 300))
