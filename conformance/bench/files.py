"""The files that are measured: models of a given size, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...oam import Model, save

__all__ = ["TENSORS", "arrays_of", "big_model", "model_file", "safetensors_file"]

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


def arrays_of(model: Model) -> dict[str, Any]:
    """Return the weights as a plain dictionary."""
    return dict(model.weights)


def safetensors_file(directory: Path, name: str, size: int) -> Path:
    """Return the path of a safetensors file with the same tensors."""
    from safetensors.numpy import save_file

    path = directory / f"model-{name.replace(' ', '')}.safetensors"
    if not path.exists():
        save_file(arrays_of(big_model(size)), path)
    return path
