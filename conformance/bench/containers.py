"""safetensors files against the official package; diff and digest against reading the bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import safetensors
from ...compare import compare
from ...contents import contents_of
from ...digest import digest
from ...source import FileSource
from .files import TENSORS, arrays_of, big_model, model_file, safetensors_file
from .timing import Row, forget_pages, in_turns

__all__ = ["rows"]

_MANY = 10_000
_BLOCK = 1 << 20


def rows(directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    """Measure opening, reading and writing, and the two verbs that stream."""
    yield from _opening(directory)
    name = list(sizes)[-1]
    yield from _whole(directory, name, sizes[name])
    yield from _streaming(directory, name, sizes[name])
    yield from _differing(directory, name, sizes[name])


def _opening(directory: Path) -> Iterator[Row]:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    path = directory / "many.safetensors"
    save_file({f"layers.{at}.weight": np.zeros((at % 7 + 1, 8), np.float32) for at in range(_MANY)}, path)

    def official() -> None:
        with safe_open(path, "np") as file:
            file.keys()

    def ours() -> None:
        with safetensors.safe_open(path) as file:
            file.keys()

    times = in_turns({"official": official, "ckptspec": ours}, runs=21)
    ratio = times["ckptspec"] / times["official"]
    yield Row("containers", "the official package opens 10,000 tensors", times["official"])
    yield Row("containers", "open 10,000 tensors", times["ckptspec"], "", ratio, "the official package", "<=", 3.0)


def _touched(array: Any) -> int:
    return int(array.reshape(-1).view(np.uint8)[::4096].sum())  # a byte of each page: mapped is not read


def _whole(directory: Path, name: str, size: int) -> Iterator[Row]:
    from safetensors.numpy import load_file, save_file

    path = safetensors_file(directory, name, size)
    arrays = arrays_of(big_model(size))

    def ours() -> None:
        for array in safetensors.load(path).tensors.values():
            _touched(array)

    def copied() -> None:
        kept = [array.copy() for array in safetensors.load(path).tensors.values()]
        assert kept

    def official() -> None:
        for array in load_file(path).values():
            _touched(array)

    times = in_turns({"official": official, "mapped": ours, "copied": copied}, runs=5)
    yield Row("containers", f"the official package reads {name}", times["official"])
    for how in ("mapped", "copied"):
        ratio = times[how] / times["official"]
        yield Row("containers", f"read {name}, {how}", times[how], "", ratio, "the official package", "<=", 1.2)
    tasks: dict[str, Callable[[], object]] = {
        "official": lambda: save_file(arrays, directory / "official.safetensors"),
        "ckptspec": lambda: safetensors.save(directory / "ours.safetensors", arrays),
    }
    times = in_turns(tasks, runs=5)
    ratio = times["ckptspec"] / times["official"]
    yield Row("containers", f"the official package writes {name}", times["official"], "without fsync")
    yield Row("containers", f"write {name}", times["ckptspec"], "with fsync", ratio, "the official package", "<=", 1.2)
    for made in ("official", "ours"):
        (directory / f"{made}.safetensors").unlink()


def _streaming(directory: Path, name: str, size: int) -> Iterator[Row]:
    one, other = safetensors_file(directory, name, size), model_file(directory, name, size)

    def digested() -> None:
        with FileSource(one) as source:
            digest(contents_of(source))

    def compared() -> None:
        with FileSource(one) as first, FileSource(other) as second:
            compare(contents_of(first), contents_of(second))

    tasks: dict[str, Callable[[], object]] = {
        "read": lambda: _read(one),
        "digest": digested,
        "read both": lambda: _read(one, other),
        "diff": compared,
    }
    for place, before in _places(one, other):
        times = in_turns(tasks, runs=5, before=before)
        note = f"from the {place}"
        yield Row("containers", f"read the bytes of {name}", times["read"], note)
        ratio = times["read"] / times["digest"]
        yield Row("containers", f"digest {name}", times["digest"], note, ratio, "the speed of reading", ">=", 0.5)
        yield Row("containers", f"read the bytes of two files of {name}", times["read both"], note)
        ratio = times["read both"] / times["diff"]
        yield Row("containers", f"diff of equal {name}", times["diff"], note, ratio, "the speed of reading", ">=", 0.5)


def _read(*paths: Path) -> None:
    for path in paths:
        with FileSource(path) as source:
            for _ in source.blocks(0, source.size, _BLOCK):
                pass


def _places(*paths: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield where files are read from, and what to do before, so that they are."""

    def forget() -> None:
        for path in paths:
            forget_pages(path)

    yield "page cache", lambda: None
    yield "disk", forget


def _noisy_files(directory: Path, size: int) -> tuple[Path, Path]:
    """Write two checkpoints of about ``size`` bytes whose elements are all a little different, as after some steps."""
    random = np.random.default_rng(size)
    base = random.standard_normal(max(1, size // TENSORS // 4), np.float32)
    noise = np.float32(1e-3) * random.standard_normal(base.size, np.float32)
    paths = directory / "before.safetensors", directory / "after.safetensors"
    weights = {f"layer.{at}.weight": np.roll(base, at) for at in range(TENSORS)}
    safetensors.save(paths[0], weights)
    safetensors.save(paths[1], {name: weight + noise for name, weight in weights.items()})
    return paths


def _differing(directory: Path, name: str, size: int) -> Iterator[Row]:
    paths = _noisy_files(directory, size)

    def compared(way: str) -> Callable[[], None]:
        def work() -> None:
            os.environ["CKPTSPEC_ELEMENTS"] = way
            try:
                with FileSource(paths[0]) as first, FileSource(paths[1]) as second:
                    compare(contents_of(first), contents_of(second))
            finally:
                del os.environ["CKPTSPEC_ELEMENTS"]

        return work

    tasks: dict[str, Callable[[], object]] = {
        "read both": lambda: _read(*paths),
        "compiled": compared("numba"),
        "numpy": compared("numpy"),
    }
    for place, before in _places(*paths):
        times = in_turns(tasks, runs=5, before=before)
        note = f"from the {place}"
        yield Row("containers", f"read the bytes of two other files of {name}", times["read both"], note)
        for way in ("compiled", "numpy"):
            what = f"diff of {name} that differ everywhere"
            ratio = times["read both"] / times[way]
            yield Row("containers", what, times[way], f"{way}, {note}", ratio, "the speed of reading", ">=", 0.5)
    for path in paths:
        path.unlink()
