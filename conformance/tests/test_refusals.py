"""What writers refuse and no document can ask for: wrong types, and sizes that nobody has the memory for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from ckptspec import ArgumentError, dumps, oam, ocannl, safetensors
from ckptspec.conformance.catalogue import load_suite
from ckptspec.memory import MemorySink
from ckptspec.oam import _write as oam_write
from ckptspec.ocannl import _checkpoint
from ckptspec.ocannl import _write as ocannl_write
from ckptspec.safetensors import Tensor
from ckptspec.safetensors import _write as safetensors_write

HUGE: Final = np.broadcast_to(np.uint8(0), (1 << 62,))  # of one byte of memory
MODEL: Final = oam.Model(config=oam.Config(), progress=oam.Progress())


def _ocannl(**record: Any) -> Callable[[], object]:
    """Return a call that writes a tensor and a training record."""
    node = ocannl.TensorNode(id=0, dims=(2,), precision="byte")
    training = _checkpoint.TrainingRecord(**record | {"state": (node.key,)})
    tensors = [_checkpoint.Tensor(node=node, data=b"ab")]
    return lambda: dumps(_checkpoint.Checkpoint(tensors=tensors, training=training))


def _node(*dims: int, id: int = 0) -> Any:
    return ocannl_write.Item(ocannl.TensorNode(id=id, dims=dims, precision="byte"), lambda: (b"abc",))


def _longer_section() -> None:
    planned = oam_write.plan(MODEL, 3)
    planned.sections[0].size += 1
    oam_write.write(planned, MemorySink())


def _longer_item() -> None:
    planned = safetensors_write.plan([safetensors_write.item_of("w", np.zeros(2, np.uint8))], None)
    items = [replace(item, blocks=lambda: (b"abc",)) for item in planned.items]
    safetensors_write.write(replace(planned, items=items), MemorySink())


REFUSED: Final[dict[str, tuple[Callable[[], object], str]]] = {
    "oam: a document of another format": (lambda: oam.encode(_document("oam", "ocannl")), "expected the format oam"),
    "oam: no model": (lambda: oam_write.plan("model", 3), "model: found str, expected a Model"),  # type: ignore[arg-type]
    "oam: 2^64 bytes": (
        lambda: oam.dumps(replace(MODEL, weights={f"w{at}": HUGE for at in range(4)})),
        r"model: the file would reach 2\^64 bytes",
    ),
    "oam: payloads of another length": (_longer_section, r"config: \d+ bytes came where \d+ were announced"),
    "ocannl: a document of another format": (
        lambda: ocannl.encode(_document("ocannl", "oam")),
        "found 'oam', expected 'ocannl'",
    ),
    "ocannl: a generator that is text": (_ocannl(host_rng="text"), "training.host_rng: found 'text', expected bytes"),
    "ocannl: a pair that is none": (_ocannl(extra=(("a",),)), "training.extra: found .*, expected a key and a value"),
    "ocannl: data of another length": (
        lambda: ocannl_write.items_of(
            _checkpoint.Checkpoint(tensors=[_checkpoint.Tensor(node=_node(2).node, data=b"abc")])
        ),
        "tensor ocannl:0: found 3 bytes, expected 2",
    ),
    "ocannl: 2^62 bytes": (
        lambda: ocannl_write.plan([_node(1 << 61), _node(1 << 61, id=1)], 1),
        "tensors: the file takes \\d+ bytes, more than 63 bits count",
    ),
    "ocannl: payloads of another length": (
        lambda: ocannl_write.write(ocannl_write.plan([_node(2)], 1), MemorySink()),
        "tensor ocannl:0: found 3 bytes, expected 2",
    ),
    "safetensors: a document of another format": (
        lambda: safetensors.encode(_document("safetensors", "oam")),
        "found 'oam', expected 'safetensors'",
    ),
    "safetensors: a shape that is a number": (
        lambda: safetensors.dumps({"w": Tensor(dtype="U8", shape=2, data=b"ab")}),  # type: ignore[arg-type]
        "tensor 'w': shape 2, expected a sequence of integers",
    ),
    "safetensors: 2^64 bytes": (
        lambda: safetensors_write.plan([safetensors_write.item_of(f"w{at}", HUGE) for at in range(4)], None),
        "tensors: the tensors take 18446744073709551616 bytes, more than 64 bits count",
    ),
    "safetensors: payloads of another length": (_longer_item, "tensor 'w': found 3 bytes, expected 2"),
}


def _document(of: str, format: str) -> dict[str, Any]:
    """Return a document of one format that says that it is of another."""
    suite = load_suite()
    document: dict[str, Any] = suite.case(suite.smoke[of]).read_expected()
    return document | {"format": format}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ArgumentError, match=message):
        call()


# Limits that are lowered, since what reaches them takes gigabytes.
LIMITS: Final[dict[str, tuple[Any, str, object, Callable[[], object], str]]] = {
    "oam: config": (
        oam_write,
        "field_of",
        lambda *_: SimpleNamespace(bounds=(0, 1)),
        lambda: oam_write._config(oam.Config(arch_config=b"ab")),
        "config.arch_config: found 2 bytes, at most 1 fit",
    ),
    "oam: tensors": (
        oam_write,
        "field_of",
        lambda *_: SimpleNamespace(bounds=(0, 1), size=128),
        lambda: oam_write._tensors("weights", {"a": np.zeros(1), "b": np.zeros(1)}, 3),
        "weights: found 2 tensors, at most 1 fit",
    ),
    "ocannl: header": (
        ocannl_write,
        "OCANNL_MAX_HEADER",
        16,
        lambda: ocannl_write.plan([_node(2)], 1),
        r"tensors: the header takes \d+ bytes, expected at most 16",
    ),
    "safetensors: header": (
        safetensors_write,
        "SAFETENSORS_MAX_HEADER",
        16,
        lambda: safetensors.dumps({"w": np.zeros(1)}),
        r"tensors: the header takes \d+ bytes, expected at most 16",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, constant, value, call, message = LIMITS[name]
    monkeypatch.setattr(module, constant, value)
    with pytest.raises(ArgumentError, match=message):
        call()
