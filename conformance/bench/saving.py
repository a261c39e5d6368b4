"""How long it takes to save models of several sizes, against a plain copy of the same bytes, both flushed to disk."""

from __future__ import annotations

import functools
import importlib.util
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import save
from .files import arrays_of, big_model, model_file
from .loading import growth
from .timing import Row, in_turns, peak_memory

__all__ = ["plain_copy", "rows"]

_PIECE = 8 << 20

_PROBE = """
import sys
from pathlib import Path
import ckptspec
from ckptspec.conformance.bench.files import big_model
model = big_model(int(sys.argv[1]))
work = lambda: ckptspec.save(sys.argv[2], model)
"""


def plain_copy(source: Path, target: Path) -> None:
    """Copy a file and flush the copy to disk, under a temporary name until it is there."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        fd = os.open(f"{target}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            for start in range(0, len(view), _PIECE):
                os.write(fd, view[start : start + _PIECE])
            os.fsync(fd)
        finally:
            os.close(fd)
            view.release()
        os.replace(f"{target}.tmp", target)


def rows(directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    """Measure each size."""
    each = {}
    for name, size in sizes.items():
        path, target = model_file(directory, name, size), directory / "saved.oam"
        model = big_model(size)
        tasks: dict[str, Callable[[], object]] = {
            "save": functools.partial(save, target, model),
            "plain copy": functools.partial(plain_copy, path, directory / "copied.oam"),
        }
        if importlib.util.find_spec("safetensors"):
            from safetensors.numpy import save_file

            tasks["safetensors, no fsync"] = functools.partial(
                save_file, arrays_of(model), directory / "saved.safetensors"
            )
        times = in_turns(tasks, runs=5)
        del model
        length = os.path.getsize(path)
        for what, seconds in times.items():
            rate = f"{length / seconds / 1e6:.0f} MB/s"
            if what == "save":
                each[name] = (length, seconds)
                memory = peak_memory(_PROBE, size, target)
                note = f"{rate}, {memory / 1e6:.1f} MB anonymous memory at most"
                ratio = times["plain copy"] / seconds
                target_ratio = 0.8 if name == "1 GB" else None
                yield Row("save", f"{name}: {what}", seconds, note, ratio, "plain copy", ">=", target_ratio)
            else:
                yield Row("save", f"{name}: {what}", seconds, rate)
        for left in directory.glob("saved.*"):
            left.unlink()
        (directory / "copied.oam").unlink()
    yield from growth("save", "save", each)
