"""my_writer: writes the `.oam` model files that my_reader reads.

>>> my_reader.read(my_writer.write(model)) == model
True
"""

import struct
from typing import Final

import my_reader
from my_reader import Config, Model, Optimizer, Progress, Tensor

__all__ = ["WriteError", "write"]

_VERSIONS: Final = (1, 2, 3)


class WriteError(Exception):
    """The model is none that a file can hold."""


def write(model: Model) -> bytes:
    """Return the bytes of the file that holds a model, in the version that the model names; WriteError if none can."""
    _check(model.version in _VERSIONS, "an unknown version")
    try:
        sections = [(my_reader._CONFIG, _config(model.config))]
        if model.weights:
            sections.append((my_reader._WEIGHTS, _tensors(model.weights, may_quantize=model.version == 3)))
        if model.state:
            sections.append((my_reader._STATE, _tensors(model.state, may_quantize=False)))
        if model.optimizer is not None:
            sections.append((my_reader._OPTIMIZER, _optimizer(model.optimizer)))
        sections.append((my_reader._PROGRESS, _progress(model.progress)))
    except struct.error as error:
        raise WriteError(f"a number that does not fit its field: {error}") from None
    return _file(model.version, sections)


def _check(good: bool, message: str) -> None:
    if not good:
        raise WriteError(message)


def _text(text: str, width: int) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise WriteError("a text with a lone surrogate") from None
    _check(b"\0" not in raw, "a text with a NUL")
    _check(len(raw) < width, f"a text of more than {width - 1} bytes")
    return raw.ljust(width, b"\0")


def _dtype(name: str) -> int:
    _check(name in my_reader._DTYPES, "an unknown dtype")
    return my_reader._DTYPE_NAMES.index(name)


def _page(size: int) -> int:
    return -(-size // my_reader._PAGE) * my_reader._PAGE


def _file(version: int, sections: list[tuple[int, bytes]]) -> bytes:
    start = _page(my_reader._HEADER.size + my_reader._SECTION.size * len(sections))
    table = body = b""
    combined = 0
    for kind, content in sections:
        checksum = my_reader._fnv1a64(content)
        combined ^= checksum
        table += my_reader._SECTION.pack(kind, 0, 0, start + len(body), len(content), 0, checksum)
        paged = kind in (my_reader._WEIGHTS, my_reader._STATE)
        body += content.ljust(_page(len(content)), b"\0") if paged else content
    numbers = (b"OAM\0", version, len(sections), 0, start + len(body))
    checksum = combined if version == 1 else my_reader._fnv1a64(my_reader._HEADER.pack(*numbers, 0) + table)
    return (my_reader._HEADER.pack(*numbers, checksum) + table).ljust(start, b"\0") + body


def _config(config: Config) -> bytes:
    record = my_reader._CONFIG_RECORD.pack(
        config.config_version,
        config.flags,
        config.d_model,
        config.n_layers,
        config.d_vocab,
        len(config.arch_config),
        *map(_dtype, (config.weight_dtype, config.state_dtype, config.compute_dtype)),
    )
    return _text(config.architecture, 32) + record[32:] + config.arch_config


def _tensors(tensors: list[Tensor], may_quantize: bool) -> bytes:
    _check(len({tensor.name for tensor in tensors}) == len(tensors), "a tensor name that occurs twice")
    index, blob = my_reader._INDEX.pack(len(tensors), 0), b""
    for tensor in tensors:
        index += _entry(tensor, len(blob), may_quantize)
        blob += tensor.data
    return index + blob


def _entry(tensor: Tensor, offset: int, may_quantize: bool) -> bytes:
    _check(tensor.name != "", "a tensor without a name")
    _check(len(tensor.shape) <= 8, "a rank above 8")
    _check(tensor.encoding in my_reader._ENCODING_NAMES, "an unknown encoding")
    dtype = _dtype(tensor.dtype)
    elements = 1
    for extent in tensor.shape:
        elements *= extent  # from left to right: an overflow counts even if a later extent is zero
        _check(elements <= my_reader._U64_MAX, "an element count that overflows")
    if tensor.encoding == "dense":
        block, expected = 0, elements * my_reader._DTYPES[tensor.dtype]
    else:
        _check(may_quantize, "a quantized tensor where there may be none")
        _check(tensor.dtype == "f32" and elements > 0, "a quantized tensor that is not f32, or has no elements")
        block = my_reader._BLOCK
        expected = -(-elements // block) * my_reader._BLOCK_BYTES[tensor.encoding]
    _check(len(tensor.data) == expected, "a byte count that does not fit the shape")
    encoding = my_reader._ENCODING_NAMES.index(tensor.encoding)
    extents = (*tensor.shape, *[0] * (8 - len(tensor.shape)))
    record = my_reader._ENTRY.pack(offset, expected, dtype, len(tensor.shape), encoding, block, 0, *extents)
    return _text(tensor.name, 128) + record[128:]


def _optimizer(optimizer: Optimizer) -> bytes:
    _check(optimizer.kind in my_reader._KINDS, "an unknown optimizer")
    first, second = optimizer.first_moment, optimizer.second_moment
    _check(len(first) % 4 == 0, "a moment that is no whole number of floats")
    _check(len(second) == (0 if optimizer.kind == "Muon" else len(first)), "a second moment of a wrong length")
    floats = (optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay)
    bits = [number.bits for number in floats]
    record = my_reader._OPTIMIZER_RECORD.pack(*bits, optimizer.step, len(first) // 4)
    return _text(optimizer.kind, 16) + record[16:] + first + second


def _progress(progress: Progress) -> bytes:
    record = my_reader._PROGRESS_RECORD.pack(
        progress.phase,
        progress.step,
        progress.bytes_seen,
        progress.env_steps,
        progress.learning_rate.bits,
        progress.best_metric.bits,
        progress.lower_is_better,
    )
    return record[:40] + _text(progress.metric_name, 32) + record[72:]
