"""The files that are measured: models of a given size, written once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ...oam import Model, save

__all__ = ["TENSORS", "big_model", "drop_from_cache", "model_file"]

TENSORS = 64


def big_model(size: int) -> Model:
    """Return a model of about ``size`` bytes in 64 tensors of random bits."""
    rng = np.random.default_rng(size)
    each = max(1, size // TENSORS // 4)
    base = rng.integers(0, 1 << 32, each, np.uint32)
    # Different numbers from the same random ones, which is faster than new ones.
    return Model(weights={f"layer.{at}.weight": (base ^ np.uint32(at)).view(np.float32) for at in range(TENSORS)})


def model_file(directory: Path, name: str, size: int) -> Path:
    """Return the path of a model file of about ``size`` bytes, written if it is not there yet."""
    path = directory / f"model-{name.replace(' ', '')}.oam"
    if not path.exists():
        save(path, big_model(size))
    return path


def drop_from_cache(path: Path) -> None:
    """Ask the system to forget the file's pages."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
