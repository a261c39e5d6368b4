"""How long it takes to open a large file without verification, and how much memory that holds."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ... import load
from .files import model_file
from .timing import Row, in_turns

__all__ = ["rows"]

_PROBE = """
import sys
import ckptspec
from ckptspec.conformance.bench.timing import anonymous_memory
before = anonymous_memory()
model = ckptspec.load(sys.argv[1], verify=False)
print(anonymous_memory() - before)
"""


def rows(directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    """Measure files of several sizes, all with the same number of tensors."""
    paths = {name: model_file(directory, name, size) for name, size in sizes.items()}
    times = in_turns({name: functools.partial(load, path, verify=False) for name, path in paths.items()}, runs=31)
    first = next(iter(sizes))
    for name, path in paths.items():
        done = subprocess.run([sys.executable, "-c", _PROBE, str(path)], capture_output=True, check=True, text=True)
        note = f"{int(done.stdout) / 1e6:.1f} MB anonymous memory"
        ratio = None if name == first else times[name] / times[first]
        yield Row("open", f"open {name}, unverified", times[name], note, ratio, first, "<=", 1.5)
