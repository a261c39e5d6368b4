"""How long it takes to load and verify files of several sizes, against reading them and the serial loop in C."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ... import load
from .files import model_file, safetensors_file
from .hashing import Hash, c_loop
from .timing import Row, in_turns, peak_memory

__all__ = ["rows"]

_PIECE = 8 << 20
MEMORY_LIMIT = 64e6  # bytes of anonymous memory that verification may take


def _read(path: Path) -> None:
    buffer = memoryview(bytearray(_PIECE))
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _loop(serial: Hash, path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = np.frombuffer(mapped, np.uint8)
        serial(data)
        del data


def _official(path: Path) -> None:
    from safetensors.numpy import load_file

    load_file(path)


def rows(directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    """Measure each size; all files come from the page cache."""
    serial = c_loop(directory)
    each = {}
    for name, size in sizes.items():
        path = model_file(directory, name, size)
        tasks: dict[str, Callable[[], object]] = {"load and verify": functools.partial(load, path)}
        tasks["read plainly"] = functools.partial(_read, path)
        if serial is not None:
            tasks["C loop"] = functools.partial(_loop, serial, path)
        if importlib.util.find_spec("safetensors"):
            tasks["safetensors, unverified"] = functools.partial(_official, safetensors_file(directory, name, size))
        times = in_turns(tasks, runs=5)
        length = os.path.getsize(path)
        for what, seconds in times.items():
            rate = f"{length / seconds / 1e6:.0f} MB/s"
            if what == "load and verify":
                each[name] = (length, seconds)
                memory = peak_memory("import ckptspec, sys; work = lambda: ckptspec.load(sys.argv[1])", path)
                note = f"{rate}, {memory / 1e6:.1f} MB anonymous memory at most"
                target = 2.8 if name == "1 GB" else None
                ratio = times["C loop"] / seconds if serial is not None else None
                yield Row("load", f"{name}: {what}", seconds, note, ratio, "C loop", ">=", target)
            else:
                yield Row("load", f"{name}: {what}", seconds, rate)
    yield from growth("load", "load and verify", each)


def growth(group: str, what: str, each: dict[str, tuple[int, float]]) -> Iterator[Row]:
    """Say how the time per byte changes from one size to the next."""
    names = list(each)
    for before, after in itertools.pairwise(names):
        per_byte = [each[name][1] / each[name][0] for name in (before, after)]
        yield Row(
            group, f"{what}: a byte of {after}", each[after][1], "", per_byte[1] / per_byte[0], f"a byte of {before}"
        )
