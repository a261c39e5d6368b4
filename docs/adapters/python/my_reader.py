"""my_reader: reads `.oam` model files, versions 1 to 3.

>>> model = my_reader.read(Path("model.oam").read_bytes())
>>> model.weights[0].name, model.weights[0].shape
('w', (2, 3))
>>> float(model.progress.learning_rate)
0.0003000000142492354
"""

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

__all__ = ["Config", "Float32", "Model", "Optimizer", "Progress", "ReadError", "Tensor", "read"]

_DTYPES: Final = {  # the position is the code, the value the size in bytes
    "f32": 4,
    "bf16": 2,
    "f16": 2,
    "i8": 1,
    "i32": 4,
    "u8": 1,
    "f64": 8,
    "i16": 2,
    "i64": 8,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "bool": 1,
    "c64": 8,
    "c128": 16,
}
_DTYPE_NAMES: Final = tuple(_DTYPES)
_ENCODING_NAMES: Final = ("dense", "q4", "q8")
_BLOCK: Final = 32  # elements
_BLOCK_BYTES: Final = {"q4": _BLOCK // 2 + 4, "q8": _BLOCK + 4}
_KINDS: Final = ("SGD", "Adam", "AdamW", "Muon")

_CONFIG, _WEIGHTS, _STATE, _OPTIMIZER, _PROGRESS, _LEGACY = range(1, 7)
_PAGE: Final = 4096
_U64_MAX: Final = 2**64 - 1

# Records are packed: "<" knows no alignment. Texts are skipped here and read by _text.
_HEADER: Final = struct.Struct("<4s I I I Q Q 32x")
_SECTION: Final = struct.Struct("<I B 3x I Q Q Q Q 20x")
_CONFIG_RECORD: Final = struct.Struct("<32x I I I I I I B B B 49x")
_INDEX: Final = struct.Struct("<I I")
_ENTRY: Final = struct.Struct("<128x Q Q B B B B I 8Q")
_OPTIMIZER_RECORD: Final = struct.Struct("<16x I I I I I q Q 16x")  # floats as their bits
_PROGRESS_RECORD: Final = struct.Struct("<B 3x q Q Q I I B 67x")


class ReadError(Exception):
    """The bytes are not a file that this module reads: what is wrong, and at which byte."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Float32:
    """A float as the file has it: the bits, for not every NaN survives in a Python float."""

    bits: int

    def __float__(self) -> float:
        return float(struct.unpack("<f", self.bits.to_bytes(4, "little"))[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the model is."""

    architecture: str
    config_version: int
    flags: int
    d_model: int
    n_layers: int
    d_vocab: int
    weight_dtype: str
    state_dtype: str
    compute_dtype: str
    arch_config: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A named tensor. ``data`` is little-endian, as stored; ``encoding`` is dense, q4 or q8."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    encoding: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """The optimizer's state. The moments are f32, little-endian; Muon's second moment is empty."""

    kind: str
    learning_rate: Float32
    beta1: Float32
    beta2: Float32
    epsilon: Float32
    weight_decay: Float32
    step: int
    first_moment: bytes
    second_moment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the training has come."""

    phase: int
    step: int
    bytes_seen: int
    env_steps: int
    learning_rate: Float32
    best_metric: Float32
    lower_is_better: bool
    metric_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A whole file."""

    version: int
    config: Config
    weights: list[Tensor]
    state: list[Tensor]
    optimizer: Optimizer | None
    progress: Progress


def read(data: bytes) -> Model:
    """Return the model that the bytes of a file hold; ReadError if they hold none."""
    version, sections = _read_sections(data)
    return Model(
        version=version,
        config=_read_config(data, *sections[_CONFIG]),
        weights=_read_tensors(data, *sections[_WEIGHTS], version == 3) if _WEIGHTS in sections else [],
        state=_read_tensors(data, *sections[_STATE], False) if _STATE in sections else [],
        optimizer=_read_optimizer(data, *sections[_OPTIMIZER]) if _OPTIMIZER in sections else None,
        progress=_read_progress(data, *sections[_PROGRESS]),
    )


def _check(good: bool, message: str, offset: int) -> None:
    if not good:
        raise ReadError(message, offset)


def _fnv1a64(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x00000100000001B3 & _U64_MAX
    return value


def _text(data: bytes, at: int, width: int) -> str:
    raw, nul, _ = data[at : at + width].partition(b"\0")
    _check(nul != b"", "a text that is not terminated by a NUL within its field", at)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ReadError("a text that is not UTF-8", at + error.start) from None


def _dtype(code: int, at: int) -> str:
    _check(code < len(_DTYPE_NAMES), "an unknown dtype", at)
    return _DTYPE_NAMES[code]


def _read_sections(data: bytes) -> tuple[int, dict[int, tuple[int, int]]]:
    """Check all that is outside of the sections; return the version, and where each type of section starts and ends."""
    _check(len(data) >= _HEADER.size, "a file shorter than the header", 0)
    magic, version, count, _, total_size, checksum = _HEADER.unpack_from(data)
    _check(magic == b"OAM\0", "not an .oam file", 0)
    _check(version in (1, 2, 3), "an unknown version", 4)
    _check(1 <= count <= 32, "a section count outside 1 to 32", 8)
    _check(total_size == len(data), "a total size that is not the file's", 16)
    table_end = _HEADER.size + _SECTION.size * count
    _check(table_end <= len(data), "a section table that passes the end of the file", 8)
    if version > 1:
        manifest = data[:24] + bytes(8) + data[32:table_end]
        _check(_fnv1a64(manifest) == checksum, "a wrong manifest checksum", 24)

    sections: dict[int, tuple[int, int]] = {}
    combined = 0
    for row in range(_HEADER.size, table_end, _SECTION.size):
        kind, compression, _, offset, size, compressed_size, section_checksum = _SECTION.unpack_from(data, row)
        _check(_CONFIG <= kind <= _LEGACY, "an unknown section type", row)
        _check(kind not in sections, "a section type that occurs twice", row)
        _check(compression == 0, "a compressed section", row + 4)
        _check(compressed_size == 0, "a compressed size", row + 28)
        _check(offset >= -(-table_end // _PAGE) * _PAGE, "a section within the header's pages", row + 12)
        _check(offset + size <= len(data), "a section that passes the end of the file", row + 12)
        _check(_fnv1a64(data[offset : offset + size]) == section_checksum, "a wrong section checksum", row + 36)
        # An empty section may be at another one's first byte or end, but not strictly inside.
        apart = all(offset >= other_end or other >= offset + size for other, other_end in sections.values())
        _check(apart, "overlapping sections", row + 12)
        sections[kind] = (offset, offset + size)
        combined ^= section_checksum
    _check(version > 1 or combined == checksum, "a checksum that is not the sections' combined", 24)
    _check(_CONFIG in sections, "no config section", _HEADER.size)
    _check(_PROGRESS in sections, "no progress section", _HEADER.size)
    return version, sections


def _read_config(data: bytes, at: int, end: int) -> Config:
    _check(end - at >= _CONFIG_RECORD.size, "a config section that is too short", at)
    config_version, flags, d_model, n_layers, d_vocab, size, *dtypes = _CONFIG_RECORD.unpack_from(data, at)
    _check(at + _CONFIG_RECORD.size + size == end, "an arch_config size that does not fit the section", at + 52)
    return Config(
        architecture=_text(data, at, 32),
        config_version=config_version,
        flags=flags,
        d_model=d_model,
        n_layers=n_layers,
        d_vocab=d_vocab,
        weight_dtype=_dtype(dtypes[0], at + 56),
        state_dtype=_dtype(dtypes[1], at + 57),
        compute_dtype=_dtype(dtypes[2], at + 58),
        arch_config=data[at + _CONFIG_RECORD.size : end],
    )


def _read_tensors(data: bytes, at: int, end: int, may_quantize: bool) -> list[Tensor]:
    _check(end - at >= _INDEX.size, "a section too short for a tensor index", at)
    count, reserved = _INDEX.unpack_from(data, at)
    _check(reserved == 0, "reserved bytes that are not zero", at + 4)
    entries = at + _INDEX.size
    blob = entries + _ENTRY.size * count
    _check(blob <= end, "a tensor index that passes the end of its section", at)
    tensors: dict[str, Tensor] = {}
    ranges: list[tuple[int, int, int]] = []
    for entry in range(entries, blob, _ENTRY.size):
        tensor, offset = _read_tensor(data, entry, blob, end, may_quantize)
        _check(tensor.name not in tensors, "a tensor name that occurs twice", entry)
        tensors[tensor.name] = tensor
        if tensor.data:
            ranges.append((offset, offset + len(tensor.data), entry))
    ranges.sort()
    for (_, previous_end, _), (offset, _, entry) in pairwise(ranges):
        _check(offset >= previous_end, "overlapping payloads", entry + 128)
    return list(tensors.values())


def _read_tensor(data: bytes, entry: int, blob: int, end: int, may_quantize: bool) -> tuple[Tensor, int]:
    """Return the tensor, and where in the file its data is."""
    name = _text(data, entry, 128)
    _check(name != "", "a tensor without a name", entry)
    offset, num_bytes, code, rank, encoding, block_size, reserved, *extents = _ENTRY.unpack_from(data, entry)
    dtype = _dtype(code, entry + 144)
    _check(rank <= len(extents), "a rank above 8", entry + 145)
    _check(encoding < len(_ENCODING_NAMES), "an unknown encoding", entry + 146)
    _check(reserved == 0, "reserved bytes that are not zero", entry + 148)
    shape = tuple(extents[:rank])
    elements = 1
    for extent in shape:
        # From left to right: an overflow counts even if a later extent is zero.
        elements *= extent
        _check(elements <= _U64_MAX, "an element count that overflows", entry + 152)
    if encoding == 0:
        _check(block_size == 0, "a dense tensor with a block size", entry + 147)
        expected = elements * _DTYPES[dtype]
    else:
        _check(may_quantize, "a quantized tensor where there may be none", entry + 146)
        _check(dtype == "f32", "a quantized tensor that is not f32", entry + 144)
        _check(block_size == _BLOCK, "a quantized tensor with a wrong block size", entry + 147)
        _check(elements > 0, "a quantized tensor without elements", entry + 152)
        expected = -(-elements // _BLOCK) * _BLOCK_BYTES[_ENCODING_NAMES[encoding]]
    _check(num_bytes == expected, "a byte count that does not fit the shape", entry + 136)
    start = blob + offset
    _check(start + num_bytes <= end, "a payload that passes the end of its section", entry + 128)
    payload = data[start : start + num_bytes]
    return Tensor(name=name, dtype=dtype, shape=shape, encoding=_ENCODING_NAMES[encoding], data=payload), start


def _read_optimizer(data: bytes, at: int, end: int) -> Optimizer:
    _check(end - at >= _OPTIMIZER_RECORD.size, "an optimizer section that is too short", at)
    kind = _text(data, at, 16)
    _check(kind in _KINDS, "an unknown optimizer", at)
    *floats, step, moment_count = _OPTIMIZER_RECORD.unpack_from(data, at)
    first = at + _OPTIMIZER_RECORD.size
    second = first + 4 * moment_count
    expected_end = second if kind == "Muon" else second + 4 * moment_count
    _check(expected_end == end, "a moment count that does not fit the section", at + 44)
    learning_rate, beta1, beta2, epsilon, weight_decay = map(Float32, floats)
    return Optimizer(
        kind=kind,
        learning_rate=learning_rate,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        weight_decay=weight_decay,
        step=step,
        first_moment=data[first:second],
        second_moment=data[second:end],
    )


def _read_progress(data: bytes, at: int, end: int) -> Progress:
    _check(end - at == _PROGRESS_RECORD.size, "a progress section that is not 104 bytes long", at)
    phase, step, bytes_seen, env_steps, rate, metric, lower_is_better = _PROGRESS_RECORD.unpack_from(data, at)
    return Progress(
        phase=phase,
        step=step,
        bytes_seen=bytes_seen,
        env_steps=env_steps,
        learning_rate=Float32(rate),
        best_metric=Float32(metric),
        lower_is_better=lower_is_better != 0,
        metric_name=_text(data, at + 40, 32),
    )
