"""``.oam`` model files, versions 1 to 3: reading, writing, checking.

``load`` and ``loads`` give a ``Model``; ``save`` and ``dumps`` take one. A file is memory-mapped: no payload is touched
until it is asked for, except by verification of the checksums, which streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, FormatError
from ..examination import Examination
from ..records import values_of
from ..source import BufferSource, PatchedSource, Source, WithoutPayloads, changed, open_source
from ..spec.dtypes import oam_dtype_of
from ..spec.schema import OAM_MAGIC, OAM_NEWEST, OAM_TENSOR_SECTIONS, OamConfig, OamOptimizer, OamProgress
from ..text import show
from ._anatomy import CONFIG_DERIVED, OPTIMIZER_DERIVED, Anatomy
from ._examine import examine
from ._model import Config, Model, Optimizer, Progress, QuantizingMap, Tensor, TensorMap

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..checksum import ByteError
    from ..findings import Report, Survivor
    from ..quantization import QuantizedTensor
    from ..regions import Region

__all__ = [
    "Config",
    "Model",
    "Optimizer",
    "Progress",
    "QuantizedTensor",
    "Tensor",
    "TensorMap",
    "decode",
    "dumps",
    "encode",
    "equal",
    "load",
    "loads",
    "quantize",
    "save",
]


def load(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Model:
    """Read a model file.

    With ``verify=False`` no checksum is compared, and no payload is read. With ``mmap=False`` the whole file is read
    now, and arrays are views of that memory instead of a map. Raises FormatError if a reader must refuse
    the file, OSError if the system will not read it.
    """
    with open_source(path, mmap=mmap) as source:
        return read(source, verify=verify)


def loads(data: Buffer, *, verify: bool = True) -> Model:
    """Read a model from bytes; its arrays are views of them. Raises FormatError."""
    return read(BufferSource(data), verify=verify)


def read(source: Source, *, verify: bool = True) -> Model:
    """Read a model from an open source, which may be closed afterwards. Raises FormatError."""
    return model_from(source, _anatomy(source, verify))


def decode(source: Source) -> dict[str, Any]:
    """Return the neutral document of an open source. Raises FormatError."""
    from ._document import document_of

    anatomy = _anatomy(source, verify=True)
    return document_of(source, anatomy, _maps(source, anatomy))


def encode(document: Mapping[str, Any]) -> bytes:
    """Return the file that a neutral document describes, in the version it gives. Raises ArgumentError."""
    from ._document import model_of

    model, version = model_of(document)
    return dumps(model, version=version)


def save(path: str | os.PathLike[str], model: Model, *, version: int = OAM_NEWEST) -> None:
    """Write a model file atomically: the old file or the new one, never something between.

    Tensors stream into the file, and none is held twice. Raises ArgumentError, before anything is written, if the
    version cannot hold the model; OSError if the system will not write, in which case an old file is untouched.
    """
    from ..publish import publishing
    from ._write import plan, write

    planned = plan(model, version)
    with publishing(path) as draft:
        write(planned, draft)


def dumps(model: Model, *, version: int = OAM_NEWEST) -> bytes:
    """Return the bytes of a model file. Raises ArgumentError if the version cannot hold the model."""
    from ..memory import MemorySink
    from ._write import plan, write

    planned = plan(model, version)
    memory = MemorySink()
    write(planned, memory)
    return bytes(memory.data)


def holds(model: object) -> bool:
    """Say whether an object is what this format's files hold."""
    return isinstance(model, Model)


def to_file(path: str | os.PathLike[str], model: Model, version: int | None = None) -> None:
    """Do what ``save`` does, in the newest version if none is given."""
    save(path, model, version=OAM_NEWEST if version is None else version)


def to_bytes(model: Model, version: int | None = None) -> bytes:
    """Do what ``dumps`` does, in the newest version if none is given."""
    return dumps(model, version=OAM_NEWEST if version is None else version)


def equal(one: Model, other: Model) -> bool:
    """Say whether two models are the same, bit for bit: whether the same file would be written for both.

    Versions do not count. Raises ArgumentError for what cannot be written.
    """
    from ._write import same

    return same(one, other)


def quantize(model: Model, encoding: str) -> Model:
    """Return a model whose dense f32 weights of rank 2 and more are quantized, to the bit as upstream does it.

    The work is done when a weight is asked for or written, and nothing is kept: a model larger than memory can be
    quantized into a file.
    Other weights and the state are kept; the optimizer is dropped, since its moments belong to the dense weights.
    Raises ArgumentError if such a weight has another dtype, or if nothing is there to convert.
    """
    from ..quantization import Quantization
    from ._write import items_of

    if not isinstance(model, Model):
        raise ArgumentError(f"found {show(model)}, expected a Model", "model")
    if not isinstance(encoding, str) or encoding not in ("q4", "q8"):
        raise ArgumentError(f"found {show(encoding)}, expected q4 or q8", "encoding")
    weights: dict[str, Any] = {}
    for name, value in items_of("weights", model.weights):
        where = f"weights[{show(name, 140)}]"
        if not isinstance(name, str) or name in weights:
            raise ArgumentError("is no text" if not isinstance(name, str) else "the name occurs twice", where)
        weights[name] = value
        array = _dense(value, where)
        if array is not None:
            weights[name] = Quantization(array, encoding)
    if not any(isinstance(value, Quantization) for value in weights.values()):
        raise ArgumentError("no dense f32 weight of rank 2 or more with elements is there to quantize", "weights")
    return replace(model, weights=QuantizingMap(weights), optimizer=None, version=OAM_NEWEST)


def _dense(value: Any, where: str) -> np.ndarray[Any, Any] | None:
    """Return a weight as the array to be quantized, or None if it is to be kept; ArgumentError if it cannot be."""
    from ..arrays import as_array
    from ..quantization import QuantizedTensor

    if isinstance(value, QuantizedTensor) or (isinstance(value, Tensor) and value.encoding != "dense"):
        return None
    if isinstance(value, Tensor):
        dtype, rank = value.dtype, len(value.shape)
    else:
        value = as_array(value, where)
        scalar = oam_dtype_of(value.dtype)
        dtype, rank = scalar.name if scalar else str(value.dtype), value.ndim
    if rank < 2:
        return None
    if dtype != "f32":
        raise ArgumentError(f"dtype {dtype} cannot be quantized, only f32 can", where)
    if isinstance(value, Tensor):
        if not len(value.data):
            return None
        value = value.value()
    return value if value.size else None


def _examined(source: Source, payloads: bool = True) -> tuple[Report, Anatomy | None]:
    from ..findings import Report

    report = Report(source=source.name, format="oam", size=source.size)
    anatomy = examine(Examination(source, report, payloads=payloads))
    if anatomy is not None:
        report.version = anatomy.header["version"]
    return report, anatomy


def _validated(source: Source, payloads: bool) -> tuple[Report, Anatomy | None]:
    report, anatomy = _examined(source, payloads)
    if anatomy is not None and not report.ok and payloads:  # checksums tell what survives
        report.survivors = _rescued(source, anatomy, intact_only=False, payloads=False)[1]
    return report, anatomy


def _rescued(
    source: Source, anatomy: Anatomy, intact_only: bool, payloads: bool = True
) -> tuple[Model, list[Survivor]]:
    """Rescue what can be read, after putting right the bytes that checksums tell to be wrong.

    Without ``payloads``, tensors hold zeros.
    """
    from ..findings import header_survivor
    from ._rescue import rescue

    put_right: dict[int, ByteError] = {}
    repaired = source
    while anatomy.repairs.keys() - put_right.keys():  # a table put right can show which byte of a payload is wrong
        put_right |= anatomy.repairs
        repaired = PatchedSource(source, {offset: error.correct for offset, error in put_right.items()})
        again = _examined(repaired)[1]
        if again is None:
            raise changed(source.name)
        anatomy = again
    model, survivors = rescue(repaired if payloads else WithoutPayloads(repaired), anatomy, intact_only)
    survivors = [*_put_right(put_right), *survivors]
    if all(item.state == "intact" for item in survivors):  # then what is wrong lies before the sections
        reason = "header and section table are written anew"
        survivors.insert(0, header_survivor("repaired", reason))
    return model, survivors


def validate(source: Source, *, payloads: bool = True, survivors: bool = True) -> Report:
    """Report everything that is wrong with an open source.

    Without ``payloads``, none is read; without ``survivors``, nobody wants to know what can still be read.
    """
    return (_validated(source, payloads) if survivors else _examined(source, payloads))[0]


def inspect(source: Source, *, payloads: bool = True) -> tuple[Report, dict[str, Any]]:
    """Return the report on an open source, and a description of its parts as JSON types, as far as it can be read.

    Without ``payloads``, none is read.
    """
    from ._describe import description

    report, anatomy = _validated(source, payloads)
    return report, {} if anatomy is None else description(source, anatomy)


def regions(source: Source) -> Iterator[Region]:
    """Yield every stretch of an open source with its name and meaning, as far as it can be read."""
    from ..findings import Report
    from ._regions import regions as all_regions

    anatomy = examine(Examination(source, Report(), verify=False))
    return iter(()) if anatomy is None else all_regions(source, anatomy)


def salvage(source: Source, intact_only: bool = False) -> tuple[Model, list[Survivor], Report]:
    """Return a model of all that can be read of a damaged source, what became of each part, and the report.

    With ``intact_only``, parts whose checksum does not match are left out. Raises FormatError if nothing is there.
    """
    report, anatomy = _examined(source)
    if anatomy is None or not any(section.available for section in anatomy.sections):
        if report.first is None:  # nothing was wrong when it was read first
            raise changed(source.name)
        raise FormatError(report.first, source.name)
    model, survivors = _rescued(source, anatomy, intact_only)
    return model, survivors, report


def _put_right(errors: Mapping[int, ByteError]) -> list[Survivor]:
    from ..findings import Survivor

    return [
        Survivor(
            what="byte",
            path=f"byte {offset}",
            name=f"byte {offset}",
            state="repaired",
            reason=f"0x{error.found:02x} is wrong there; with 0x{error.correct:02x} the checksum fits",
        )
        for offset, error in sorted(errors.items())
    ]


def recognises(head: bytes, size: int) -> bool:
    """Say whether a file that begins with ``head`` is an ``.oam`` file, perhaps one with a damaged magic."""
    if head.startswith(OAM_MAGIC):
        return True
    from ..spec.layout import record_size
    from ..spec.schema import OAM_MAX_SECTIONS, OAM_VERSIONS, OamHeader

    if len(head) < record_size(OamHeader):
        return False
    header = OamHeader.parse(head)
    return (
        header["version"] in OAM_VERSIONS
        and 1 <= header["section_count"] <= OAM_MAX_SECTIONS
        and header["total_size"] == size  # 64 bits that hardly agree by chance
    )


def __getattr__(name: str) -> Any:
    if name == "QuantizedTensor":  # late: most files have none
        from ..quantization import QuantizedTensor

        return QuantizedTensor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _anatomy(source: Source, verify: bool) -> Anatomy:
    anatomy = examine(Examination(source, verify=verify))
    assert anatomy is not None  # reading raises before it gives up
    return anatomy


def _maps(source: Source, anatomy: Anatomy) -> dict[str, TensorMap]:
    content = source.view(0, source.size)  # made now: it outlives the source
    return {name: TensorMap(index, content) for name, index in anatomy.indexes.items()}


def _optimizer_of(source: Source, anatomy: Anatomy) -> Optimizer | None:
    if anatomy.optimizer is None:
        return None
    values = values_of(OamOptimizer, anatomy.optimizer, OPTIMIZER_DERIVED)
    for key, (offset, size) in zip(("first_moment", "second_moment"), anatomy.moments, strict=False):
        values[key] = np.ndarray((size // 4,), np.dtype("<f4"), source.view(offset, size))
    return Optimizer(**values)


def model_from(source: Source, anatomy: Anatomy) -> Model:
    """Return the model of an examined file."""
    assert anatomy.config is not None
    assert anatomy.progress is not None
    values = values_of(OamConfig, anatomy.config, CONFIG_DERIVED)
    maps: dict[str, Any] = {name: {} for name in OAM_TENSOR_SECTIONS} | _maps(source, anatomy)
    return Model(
        config=Config(**values, arch_config=bytes(source.read(*anatomy.arch_config))),
        **maps,
        optimizer=_optimizer_of(source, anatomy),
        progress=Progress(**values_of(OamProgress, anatomy.progress)),
        version=anatomy.version,
    )
