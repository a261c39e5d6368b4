"""OCANNL checkpoints: reading headers, opening large files, saving and validating them.

Yardsticks: the standard library's json on the same data for headers, a small file with as many tensors for opening, a
plain copy of the same bytes for saving.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import load, loads, save, sexp, validate
from ...ocannl import Checkpoint, Context, Tensor, TensorNode, to_bytes
from ...ocannl import load as load_nodes
from ...ocannl._anatomy import FRAME_SIZE
from .files import TENSORS
from .saving import plain_copy
from .timing import Row, in_turns, peak_memory

__all__ = ["big_checkpoint", "rows"]

NUMBER = 10_000  # tensors of the header that is read

_HELD = """
import sys
import ckptspec
from ckptspec.conformance.bench.timing import anonymous_memory, resident_memory
from ckptspec.ocannl import Context, load
before = anonymous_memory(), resident_memory()
made = {made}
print(anonymous_memory() - before[0], resident_memory() - before[1])
"""
_SAVE = """
import sys
import ckptspec
from ckptspec.conformance.bench.ocannl import big_checkpoint
checkpoint = big_checkpoint(int(sys.argv[1]))
work = lambda: ckptspec.save(sys.argv[2], checkpoint)
"""


def big_checkpoint(size: int) -> Checkpoint:
    """Return a checkpoint of about ``size`` bytes in 64 tensors of random bits."""
    extent = max(1, size // TENSORS // 4)
    base = np.random.default_rng(size).integers(0, 1 << 32, extent, np.uint32)
    return Checkpoint(
        tensors=[
            Tensor(node=TensorNode(id=at, label=(f"layer.{at}",), dims=(extent,)), data=(base ^ np.uint32(at)).data)
            for at in range(TENSORS)
        ]
    )


def _file(directory: Path, name: str, size: int) -> Path:
    path = directory / f"model-{name.replace(' ', '')}.ckpt"
    if not path.exists():
        save(path, big_checkpoint(size))
    return path


def _as_json(value: Any) -> Any:
    """Return a header's tree as JSON types: records as objects, numbers as numbers."""
    if isinstance(value, bytes):
        return int(value) if value.isdigit() else value.decode()
    pairs = [item for item in value if isinstance(item, tuple) and len(item) == 2]
    keys = [key.decode() for key, _ in pairs if isinstance(key, bytes)]
    if value and len(keys) == len(value):
        return {key: _as_json(item) for key, (_, item) in zip(keys, pairs, strict=True)}
    return [_as_json(item) for item in value]


def _headers() -> Iterator[Row]:
    node = functools.partial(TensorNode, dims=(2, 2))
    words = ("layers", "attention", "weight")
    tensors = [Tensor(node=node(id=at, label=(*words, f"w{at}")), data=bytes(16)) for at in range(NUMBER)]
    data = to_bytes(Checkpoint(tensors=tensors))
    text = data[FRAME_SIZE : FRAME_SIZE + int.from_bytes(data[:FRAME_SIZE], "big")]
    texts = {
        "parse": text,
        "parse, with comments": text.replace(b"\n", b" #| of a layer |# ; a line\n"),
        "parse, with #; comments": text.replace(b"(dims", b"#;(hidden x) (dims"),
    }
    tree = sexp.parse(text)
    as_json = json.dumps(_as_json(tree))
    if any(sexp.parse(commented) != tree for commented in texts.values()):
        raise AssertionError("the comments change what the header says")
    times = in_turns(
        {
            "json.loads": functools.partial(json.loads, as_json),
            **{what: functools.partial(sexp.parse, spelled) for what, spelled in texts.items()},
            "read and check": functools.partial(loads, data),
            "validate": functools.partial(validate, data),
        },
        runs=15,
    )
    base = times.pop("json.loads")
    yield Row("ocannl", f"json.loads of {NUMBER} tensors", base, f"{len(as_json) / 1e6:.1f} MB")
    targets = {**dict.fromkeys(texts, 10.0), "read and check": 12.0}
    for what, seconds in times.items():
        note = f"{len(texts.get(what, text)) / 1e6:.1f} MB"
        target = targets.get(what)
        yield Row(
            "ocannl", f"header: {what}", seconds, note, seconds / base, "json.loads", "<=" if target else "", target
        )


def _opening(paths: dict[str, Path]) -> Iterator[Row]:
    """Open files of several sizes and ask for every array, without touching an element."""
    tasks: dict[str, Callable[[], object]] = {}
    for name, path in paths.items():
        tasks[f"{name}: open"] = functools.partial(load, path)
        tasks[f"{name}: load nodes, mapped"] = functools.partial(_mapped, path)
    times = in_turns(tasks, runs=31)
    first = next(iter(paths))
    for what, seconds in times.items():
        name, _, call = what.partition(": ")
        made = "ckptspec.load(sys.argv[1])" if call == "open" else "load(Context(), sys.argv[1], mmap=True)"
        command = [sys.executable, "-c", _HELD.format(made=made), str(paths[name])]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        anonymous, resident = (int(number) / 1e6 for number in done.stdout.split())
        note = f"{anonymous:.1f} MB anonymous memory, {resident:.1f} MB with touched pages of the file"
        if name == first:
            yield Row("ocannl", what, seconds, note)
        else:
            yield Row("ocannl", what, seconds, note, seconds / times[f"{first}: {call}"], first, "<=", 1.5)


def _mapped(path: Path) -> object:
    return load_nodes(Context(), path, mmap=True)


def _whole(directory: Path, paths: dict[str, Path], sizes: dict[str, int]) -> Iterator[Row]:
    """Save and validate files of several sizes."""
    target = directory / "saved.ckpt"
    for name, path in paths.items():
        checkpoint = big_checkpoint(sizes[name])
        times = in_turns(
            {
                "save": functools.partial(save, target, checkpoint),
                "plain copy": functools.partial(plain_copy, path, directory / "copied.ckpt"),
                "validate": functools.partial(validate, path),
            },
            runs=5,
        )
        del checkpoint
        length = os.path.getsize(path)
        base = times["plain copy"]
        rates = {what: f"{length / seconds / 1e6:.0f} MB/s" for what, seconds in times.items()}
        memory = peak_memory(_SAVE, sizes[name], target)
        note = f"{rates['save']}, {memory / 1e6:.1f} MB anonymous memory at most"
        asked = 0.8 if name == "1 GB" else None
        yield Row("ocannl", f"{name}: save", times["save"], note, base / times["save"], "plain copy", ">=", asked)
        yield Row("ocannl", f"{name}: plain copy", base, rates["plain copy"])
        yield Row("ocannl", f"{name}: validate", times["validate"])
    for left in (target, directory / "copied.ckpt"):
        left.unlink()


def rows(directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    """Measure a header of many tensors, and files of several sizes with as many tensors each."""
    yield from _headers()
    paths = {name: _file(directory, name, size) for name, size in sizes.items()}
    yield from _opening(paths)
    yield from _whole(directory, paths, sizes)
