"""The neutral document of a model, and a model from a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import neutral
from .._mapped import steady_bytes
from ..errors import ArgumentError
from ..record_documents import from_document, to_document
from ..records import public_fields
from ..source import Source
from ..spec.schema import (
    OAM_MAX_RANK,
    OAM_OPTIMIZERS,
    OAM_TENSOR_SECTIONS,
    OAM_VERSIONS,
    OamConfig,
    OamOptimizer,
    OamProgress,
)
from ._anatomy import CONFIG_DERIVED, OPTIMIZER_DERIVED, Anatomy
from ._model import Config, Model, Optimizer, Progress, Tensor, TensorMap

__all__ = ["document_of", "model_of"]

TENSOR_KEYS = ("name", "dtype", "shape", "encoding", "data")
MOMENT_KEYS = ("first_moment", "second_moment")


def document_of(source: Source, anatomy: Anatomy, indexes: Mapping[str, TensorMap]) -> dict[str, Any]:
    """Return the document of an examined file."""
    assert anatomy.config is not None
    assert anatomy.progress is not None
    config = to_document(OamConfig, anatomy.config, CONFIG_DERIVED)
    config["arch_config"] = source.read(*anatomy.arch_config).hex()
    optimizer = None
    if anatomy.optimizer is not None:
        optimizer = to_document(OamOptimizer, anatomy.optimizer, OPTIMIZER_DERIVED)
        blobs = [source.read(offset, size).hex() for offset, size in anatomy.moments]
        optimizer |= dict(zip(MOMENT_KEYS, [*blobs, ""], strict=False))
    return {
        "format": "oam",
        "version": anatomy.version,
        "config": config,
        **{name: _tensors(indexes.get(name)) for name in OAM_TENSOR_SECTIONS},
        "optimizer": optimizer,
        "progress": to_document(OamProgress, anatomy.progress),
    }


def _tensors(tensors: TensorMap | None) -> list[dict[str, Any]]:
    made = []
    for name in tensors or ():
        stored = tensors.stored(name) if tensors is not None else None
        assert stored is not None
        made.append(
            {
                "name": name,
                "dtype": stored.dtype,
                "shape": [str(extent) for extent in stored.shape],
                "encoding": stored.encoding,
                "data": steady_bytes(memoryview(stored.data)).hex(),
            }
        )
    return made


def model_of(document: Any) -> tuple[Model, int]:
    """Return the model that a document describes, and the version it asks for; ArgumentError names what is amiss.

    ``weights`` and ``state`` of the model are lists of pairs here, since a document can name a tensor twice; planning
    the file refuses that, and all that a reader would refuse.
    """
    top = neutral.keys(
        document, "document", ("format", "version", "config", "weights", "state", "optimizer", "progress")
    )
    if top["format"] != "oam":
        raise ArgumentError("expected the format oam", "format")
    version = neutral.number(top["version"], "version", (OAM_VERSIONS[0], OAM_VERSIONS[-1]))
    names = [item.name for item in public_fields(OamConfig, CONFIG_DERIVED)]
    config = neutral.keys(top["config"], "config", [*names, "arch_config"])
    progress = neutral.keys(top["progress"], "progress", [item.name for item in public_fields(OamProgress)])
    sections: dict[str, Any] = {name: _stored(top[name], name) for name in OAM_TENSOR_SECTIONS}
    model = Model(
        config=Config(
            **from_document(OamConfig, config, "config", CONFIG_DERIVED),
            arch_config=neutral.blob(config["arch_config"], "config.arch_config"),
        ),
        **sections,
        optimizer=None if top["optimizer"] is None else _optimizer(top["optimizer"]),
        progress=Progress(**from_document(OamProgress, progress, "progress")),
        version=version,
    )
    return model, version


def _stored(value: Any, path: str) -> list[tuple[str, Tensor]]:
    made = []
    for at, item in enumerate(neutral.items(value, path)):
        where = f"{path}[{at}]"
        entry = neutral.keys(item, where, TENSOR_KEYS)
        shape = neutral.items(entry["shape"], f"{where}.shape")
        if len(shape) > OAM_MAX_RANK:
            raise ArgumentError(f"rank {len(shape)} is more than {OAM_MAX_RANK}", f"{where}.shape")
        tensor = Tensor(
            dtype=neutral.text(entry["dtype"], f"{where}.dtype"),
            shape=tuple(
                neutral.decimal(extent, f"{where}.shape[{axis}]", (0, (1 << 64) - 1))
                for axis, extent in enumerate(shape)
            ),
            encoding=neutral.text(entry["encoding"], f"{where}.encoding"),
            data=neutral.blob(entry["data"], f"{where}.data"),
        )
        made.append((neutral.text(entry["name"], f"{where}.name"), tensor))
    return made


def _optimizer(value: Any) -> Optimizer:
    import numpy as np

    names = [item.name for item in public_fields(OamOptimizer, OPTIMIZER_DERIVED)]
    entry = neutral.keys(value, "optimizer", [*names, *MOMENT_KEYS])
    values = from_document(OamOptimizer, entry, "optimizer", OPTIMIZER_DERIVED)
    if values["kind"] not in OAM_OPTIMIZERS:
        raise ArgumentError(f"expected one of {', '.join(OAM_OPTIMIZERS)}", "optimizer.kind")
    for key in MOMENT_KEYS:
        blob = neutral.blob(entry[key], f"optimizer.{key}")
        if len(blob) % 4:
            raise ArgumentError(f"found {len(blob)} bytes, expected whole f32 elements", f"optimizer.{key}")
        values[key] = np.frombuffer(blob, "<f4")
    return Optimizer(**values)
