"""The reading of the Kaitai Struct exports: parsers that are compiled for Python."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...record_documents import document_fields
from ...spec import exports
from ...spec.schema import FRAMES, OAM_OPTIMIZERS, OAM_TENSOR_SECTIONS, OamConfig, OamOptimizer, OamProgress
from .. import kaitai
from .readings import Answer, MissingReadingError, Parts, Reading, importable

__all__ = ["KAITAI", "kaitai_reading"]

KAITAI: Final = "Kaitai export"
TITLE: Final = "parsers that are compiled from the exports for Kaitai Struct"


@cache
def _parsers() -> Path:
    """Compile the exports, once for a process."""
    folder = Path(tempfile.mkdtemp(prefix="ckptspec-kaitai-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        return kaitai.compile_all(kaitai.descriptions(), folder, "python")
    except kaitai.MissingCompilerError as error:
        raise MissingReadingError(str(error)) from None


@cache
def _parser(format: str) -> Any:
    try:
        return kaitai.python_parser(_parsers(), format)
    except kaitai.MissingCompilerError as error:
        raise MissingReadingError(str(error)) from None


def kaitai_reading() -> Reading:
    """Return the reading; MissingReadingError if the compiler or the runtime is not there."""
    for name in exports.FORMATS:
        _parser(name)
    return Reading(
        name=KAITAI,
        formats=exports.FORMATS,
        title=TITLE,
        finds="the neutral document of `.oam` files; header and data of the others",
        read=_read,
    )


def _read(format: str, data: bytes) -> Answer:
    # What the runtime raises where bytes are not as described: its own errors, the end of the stream, text that is no
    # UTF-8, and a position that Python's streams cannot have.
    refusals = (importable("kaitaistruct").KaitaiStructError, EOFError, UnicodeDecodeError, OverflowError)
    try:
        found = _parser(format).from_bytes(data)
        return Answer(parts=_oam(found) if format == "oam" else _frame(format, found))
    except refusals as error:
        return Answer(why=f"{type(error).__name__}: {error}")


def _frame(format: str, found: Any) -> Parts:
    frame = FRAMES[format]
    header = found.header.encode() if frame.utf8 else found.header
    return {"header": header, frame.data: getattr(found, frame.data)}


def _oam(found: Any) -> Parts:
    """Return the document; every section is looked into, those too that a document does not need."""
    made: Parts = {"format": "oam", "version": found.header.version, "optimizer": None}
    made |= {name: [] for name in OAM_TENSOR_SECTIONS}
    for section in found.sections:
        name, payload = section.section_type.name, section.payload
        if name in OAM_TENSOR_SECTIONS:
            made[name] = [_tensor(item) for item in payload.tensors]
        elif name == "config":
            made[name] = _record(OamConfig, payload, "arch_config_size") | {"arch_config": payload.arch_config.hex()}
        elif name == "optimizer":
            made[name] = _optimizer(payload)
        elif name == "progress":
            made[name] = _record(OamProgress, payload)
    return made


def _tensor(item: Any) -> Parts:
    payload = item.payload
    if not isinstance(payload, bytes):
        payload = payload.codes + b"".join(scale.bits.to_bytes(4, "little") for scale in payload.scales)
    return {
        "name": item.name,
        "dtype": item.dtype.name,
        "shape": list(map(str, item.shape[: item.rank])),
        "encoding": item.encoding.name,
        "data": payload.hex(),
    }


def _optimizer(payload: Any) -> Parts:
    moments = {"first_moment": payload.first_moment.hex(), "second_moment": ""}
    if OAM_OPTIMIZERS.get(payload.kind) == len(moments):
        moments["second_moment"] = payload.second_moment.hex()
    return _record(OamOptimizer, payload, "moment_count") | moments


def _record(record: Any, payload: Any, *derived: str) -> Parts:
    """Return a record as the document has it."""
    kinds = document_fields(record, derived)
    return {key: _value(kind, getattr(payload, key)) for key, kind in kinds.items()}


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "dtype":
            return value.name
        case "bool":
            return value != 0
        case "f32":
            return f"0x{value.bits:08x}"
        case "u64" | "i64":
            return str(value)
        case _:
            return value
