"""The ways to compute FNV-1a-64, against a serial loop in C compiled on the spot."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...checksum import FNV_OFFSET_BASIS, final_low, fnv1a64
from .timing import Row, in_turns

__all__ = ["c_loop", "rows"]

_SOURCE = """
#include <stddef.h>
#include <stdint.h>
uint64_t fnv1a64(const unsigned char *data, size_t size, uint64_t state) {
    for (size_t at = 0; at < size; at++) state = (state ^ data[at]) * UINT64_C(0x100000001b3);
    return state;
}
"""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Hash = Callable[[Bytes], int]


def c_loop(directory: Path) -> Hash | None:
    """Compile the serial loop; None if there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source, library = directory / "fnv.c", directory / "fnv.so"
    source.write_text(_SOURCE, "ascii")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    function = ctypes.CDLL(str(library)).fnv1a64
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]
    return lambda data: int(function(data.ctypes.data, data.size, FNV_OFFSET_BASIS))


def _path(name: str, threads: int) -> Hash:
    def run(data: Bytes) -> int:
        os.environ["CKPTSPEC_CHECKSUM"] = name
        try:
            return fnv1a64(data, threads=threads)
        finally:
            del os.environ["CKPTSPEC_CHECKSUM"]

    return run


def _low_bytes(name: str) -> Hash:
    """Return what finds the low byte after some data: the part of the work that goes from one worker to the next."""

    def run(data: Bytes) -> int:
        os.environ["CKPTSPEC_CHECKSUM"] = name
        try:
            return final_low(data, FNV_OFFSET_BASIS & 0xFF)
        finally:
            del os.environ["CKPTSPEC_CHECKSUM"]

    return run


def _paths(directory: Path) -> dict[str, Hash]:
    paths: dict[str, Hash] = {}
    serial = c_loop(directory)
    if serial is not None:
        paths["C loop"] = serial
    if importlib.util.find_spec("fnv_c"):
        import fnv_c

        paths["fnv-c"] = lambda data: int(fnv_c.fnv1a_64(data.tobytes()))
    for threads in (1, 2):
        paths[f"numpy, {threads} thread"] = _path("numpy", threads)
        if importlib.util.find_spec("numba"):
            paths[f"numba, {threads} thread"] = _path("numba", threads)
    return paths


_TARGETS = {"numpy, 1 thread": 0.40, "numpy, 2 thread": 0.55, "numba, 1 thread": 1.8, "numba, 2 thread": 3.2}


def rows(directory: Path, size: int = 256 << 20) -> Iterator[Row]:
    """Measure all ways that there are on ``size`` random bytes."""
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    paths = _paths(directory)
    values = {name: path(data) for name, path in paths.items()}
    if len(set(values.values())) != 1:
        raise AssertionError(f"the ways disagree: {values}")
    times = in_turns({name: functools.partial(path, data) for name, path in paths.items()})
    base = times.get("C loop")
    for name, seconds in times.items():
        note = f"{size / seconds / 1e6:.0f} MB/s"
        if base is None or name == "C loop":
            yield Row("hash", name, seconds, note)
        else:
            yield Row("hash", name, seconds, note, base / seconds, "C loop", ">=", _TARGETS.get(name))
    engines = ["numpy"] + ["numba"] * (importlib.util.find_spec("numba") is not None)
    lows = in_turns({name: functools.partial(_low_bytes(name), data) for name in engines})
    for name, seconds in lows.items():
        note, whole = f"{size / seconds / 1e6:.0f} MB/s", f"{name}, 1 thread"
        yield Row("hash", f"low bytes only, {name}", seconds, note, times[whole] / seconds, whole)
