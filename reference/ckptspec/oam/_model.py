"""A model in memory: what ``load`` returns and ``save`` takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from ..records import default_value
from ..spec.dtypes import OAM_BY_CODE, OAM_DTYPES, numpy_type
from ..spec.schema import OAM_NEWEST, OamConfig, OamOptimizer, OamProgress
from ..text import printable, shorten
from ._tensors import ENCODING_NAMES

if TYPE_CHECKING:
    from ..quantization import QuantizedTensor
    from ._anatomy import Index

__all__ = ["Config", "Model", "Optimizer", "Progress", "QuantizingMap", "Tensor", "TensorMap"]

Array = np.ndarray[Any, np.dtype[Any]]
_NONE = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a model is. Numbers are unsigned 32-bit integers; dtypes are names such as ``f32``."""

    architecture: str = default_value(OamConfig, "architecture")
    config_version: int = default_value(OamConfig, "config_version")
    flags: int = default_value(OamConfig, "flags")
    d_model: int = default_value(OamConfig, "d_model")
    n_layers: int = default_value(OamConfig, "n_layers")
    d_vocab: int = default_value(OamConfig, "d_vocab")
    weight_dtype: str = default_value(OamConfig, "weight_dtype")
    state_dtype: str = default_value(OamConfig, "state_dtype")
    compute_dtype: str = default_value(OamConfig, "compute_dtype")
    arch_config: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimizer:
    """State of the optimizer.

    The two moments are one-dimensional f32 arrays of equal length; Muon has no second moment. Floats that were read
    are ``numpy.float32`` with exactly the bits of the file.
    """

    kind: str = default_value(OamOptimizer, "kind")
    learning_rate: float | np.float32 = default_value(OamOptimizer, "learning_rate")
    beta1: float | np.float32 = default_value(OamOptimizer, "beta1")
    beta2: float | np.float32 = default_value(OamOptimizer, "beta2")
    epsilon: float | np.float32 = default_value(OamOptimizer, "epsilon")
    weight_decay: float | np.float32 = default_value(OamOptimizer, "weight_decay")
    step: int = default_value(OamOptimizer, "step")
    first_moment: Array = field(default_factory=lambda: _NONE)
    second_moment: Array = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far training has come. ``step`` is signed, the counters are unsigned, all of 64 bits."""

    phase: int = default_value(OamProgress, "phase")
    step: int = default_value(OamProgress, "step")
    bytes_seen: int = default_value(OamProgress, "bytes_seen")
    env_steps: int = default_value(OamProgress, "env_steps")
    learning_rate: float | np.float32 = default_value(OamProgress, "learning_rate")
    best_metric: float | np.float32 = default_value(OamProgress, "best_metric")
    lower_is_better: bool = default_value(OamProgress, "lower_is_better")
    metric_name: str = default_value(OamProgress, "metric_name")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A tensor as it is stored: ``data`` are the payload's bytes, ``dtype`` and ``encoding`` are names.

    It can hold what numpy cannot, such as the shape (0, 2^63).
    """

    dtype: str
    shape: tuple[int, ...]
    encoding: str
    data: memoryview | bytes

    def value(self) -> Array | QuantizedTensor:
        """Return the tensor as an array, or as a QuantizedTensor; a view of the data."""
        if self.encoding != "dense":
            from ..quantization import QuantizedTensor

            return QuantizedTensor.from_bytes(self.encoding, self.shape, self.data)
        try:
            return np.ndarray(self.shape, numpy_type(OAM_DTYPES[self.dtype]), memoryview(self.data).toreadonly())
        except (ValueError, OverflowError):  # no elements, but an extent beyond what numpy counts with
            raise ArgumentError(f"numpy cannot hold the shape {list(self.shape)}; stored() gives the tensor") from None


class TensorMap(Mapping[str, "Array | QuantizedTensor"]):
    """The tensors of one section, by name, in the order of the file.

    Values are made when they are asked for: read-only views of the file, whose payload is not touched before. A
    quantized tensor is a QuantizedTensor. ``stored(name)`` gives dtype, shape, encoding and bytes without numpy.
    """

    def __init__(self, index: Index, content: memoryview) -> None:
        self._entries = index.entries
        self._blob = index.blob
        self._content = content
        self._rows = {name: row for row, name in enumerate(index.names) if name is not None and row not in index.bad}

    def __getitem__(self, name: str) -> Array | QuantizedTensor:
        try:
            return self.stored(name).value()
        except ArgumentError as error:
            raise ArgumentError(str(error), f"tensor '{shorten(printable(name))}'") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __repr__(self) -> str:
        return f"<TensorMap of {len(self)}>"

    def stored(self, name: str) -> Tensor:
        """Return the tensor as it is stored; KeyError if there is none of that name."""
        entry = self._entries[self._rows[name]]
        offset, size = int(entry["blob_offset"]), int(entry["num_bytes"])
        return Tensor(
            dtype=OAM_BY_CODE[int(entry["dtype"])].name,
            shape=tuple(int(extent) for extent in entry["shape"][: int(entry["rank"])]),
            encoding=ENCODING_NAMES[int(entry["encoding"])],
            data=self._content[self._blob + offset : self._blob + offset + size],
        )


class QuantizingMap(Mapping[str, Any]):
    """Weights that are quantized each time that they are asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        from ..quantization import Quantization

        value = self._values[name]
        return value.tensor() if isinstance(value, Quantization) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def pending(self) -> list[tuple[str, Any]]:
        """Return the pairs with what is still to be quantized as it is."""
        return list(self._values.items())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A model file's content.

    ``weights`` and ``state`` map names to numpy arrays, QuantizedTensors or stored Tensors. ``version`` is that of
    the file it was read from; writers write the newest unless asked for another.
    """

    config: Config = field(default_factory=Config)
    weights: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Optimizer | None = None
    progress: Progress = field(default_factory=Progress)
    version: int = OAM_NEWEST
