"""The block quantization of ``.oam`` files: q4 and q8.

The flattened tensor is cut into blocks of 32 elements; the last one is filled up with zeros. A block has one f32 scale
and 32 codes. q4 packs two codes into a byte, the element of even index into the low half: value = (code - 7) * scale.
q8 has one signed byte a code: value = code * scale. All codes come first, then all scales.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ._mapped import steady_array
from .errors import ArgumentError
from .spec.dtypes import same_type
from .spec.schema import OAM_BLOCK_ENCODINGS, OAM_QUANT_BLOCK
from .text import show

__all__ = ["Quantization", "QuantizedTensor", "quantize_array"]

Array = np.ndarray[Any, np.dtype[Any]]
# The largest code of each encoding; codes run from its negative to it.
_LIMIT: Final = {name: encoding.limit for name, encoding in OAM_BLOCK_ENCODINGS.items()}
_CODE_BYTES: Final = {name: encoding.code_bytes for name, encoding in OAM_BLOCK_ENCODINGS.items()}
_BLOCKS_AT_ONCE: Final = 1 << 13  # a quarter of a million elements


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedTensor:
    """A quantized f32 tensor.

    ``payload`` has the shape (blocks, 16) and dtype uint8 for q4, (blocks, 32) and int8 for q8; ``scales`` has the
    shape (blocks,) and dtype float32, of either byte order. ``shape`` is that of the tensor.
    """

    encoding: str
    shape: tuple[int, ...]
    payload: Array
    scales: Array

    def __post_init__(self) -> None:
        if not isinstance(self.encoding, str) or self.encoding not in _LIMIT:
            raise ArgumentError(f"found {show(self.encoding)}, expected q4 or q8", "encoding")
        try:
            object.__setattr__(self, "shape", tuple(operator.index(extent) for extent in self.shape))
        except TypeError:
            raise ArgumentError(f"found {show(self.shape)}, expected a shape of integers", "shape") from None
        blocks = -(-math.prod(self.shape) // OAM_QUANT_BLOCK)
        code = np.dtype("u1" if self.encoding == "q4" else "i1")
        for name, array, shape, dtype in (
            ("payload", self.payload, (blocks, _CODE_BYTES[self.encoding]), code),
            ("scales", self.scales, (blocks,), np.dtype("<f4")),
        ):
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"found {show(array)}, expected an array", name)
            if array.shape != shape or not same_type(array.dtype, dtype):
                found = f"{array.dtype} of shape {array.shape}"
                raise ArgumentError(f"found {found}, expected {dtype} of shape {shape}", name)

    @classmethod
    def from_bytes(cls, encoding: str, shape: tuple[int, ...], data: memoryview | bytes) -> QuantizedTensor:
        """Make views of a stored payload: all codes, then all scales."""
        blocks = -(-math.prod(shape) // OAM_QUANT_BLOCK)
        view = memoryview(data).toreadonly()
        codes = blocks * _CODE_BYTES[encoding]
        if view.nbytes != codes + 4 * blocks:
            raise ArgumentError(f"found {view.nbytes} bytes, expected {codes + 4 * blocks}", "data")
        kind = np.uint8 if encoding == "q4" else np.int8
        return cls(
            encoding=encoding,
            shape=shape,
            payload=np.ndarray((blocks, _CODE_BYTES[encoding]), kind, view[:codes]),
            scales=np.ndarray((blocks,), np.dtype("<f4"), view[codes:]),
        )

    def dequantize(self) -> Array:
        """Return the values: a new float32 array of the tensor's shape."""
        elements = math.prod(self.shape)
        flat = np.empty(elements, np.float32)
        for start in range(0, len(self.scales), _BLOCKS_AT_ONCE):
            part = slice(start, start + _BLOCKS_AT_ONCE)
            values = _dequantize_blocks(self.encoding, self.payload[part], self.scales[part]).reshape(-1)
            begin = start * OAM_QUANT_BLOCK
            flat[begin : begin + values.size] = values[: elements - begin]
        return flat.reshape(self.shape)


def _dequantize_blocks(encoding: str, payload: Array, scales: Array) -> Array:
    payload, scales = steady_array(payload), steady_array(scales)
    if encoding == "q4":
        codes = np.empty((len(payload), OAM_QUANT_BLOCK), np.float32)
        codes[:, 0::2] = payload & 0x0F
        codes[:, 1::2] = payload >> 4
        codes -= _LIMIT["q4"]
    else:
        codes = payload.astype(np.float32)
    with np.errstate(all="ignore"):  # a scale may be anything, signalling NaNs included
        values: Array = codes * scales[:, None]
    return values


def _quantize_blocks(encoding: str, blocks: Array) -> tuple[Array, Array]:
    """Quantize float32 blocks of shape (blocks, 32); return codes as stored, and scales."""
    limit = _LIMIT[encoding]
    finite = np.isfinite(blocks)
    with np.errstate(all="ignore"):
        largest = np.where(finite, np.abs(blocks), np.float32(0)).max(axis=1)
        scales = largest / np.float32(limit)
        scales = np.where((scales > 0) & np.isfinite(scales), scales, np.float32(1)).astype(np.float32)
        ratio = np.where(finite, blocks, np.float32(0)) / scales[:, None]
        codes = np.clip(np.rint(ratio), -limit, limit).astype(np.int8)
    if encoding == "q8":
        return codes, scales
    nibbles = (codes + limit).astype(np.uint8)
    return nibbles[:, 0::2] | nibbles[:, 1::2] << 4, scales


def _blocks_of(flat: Array) -> Iterator[Array]:
    """Yield a flat float32 array as blocks of shape (n, 32), the last filled up with zeros."""
    step = _BLOCKS_AT_ONCE * OAM_QUANT_BLOCK
    for start in range(0, flat.size, step):
        part = steady_array(flat[start : start + step]).astype(np.float32, copy=False)
        missing = -part.size % OAM_QUANT_BLOCK
        if missing:
            part = np.concatenate([part, np.zeros(missing, np.float32)])
        yield part.reshape(-1, OAM_QUANT_BLOCK)


class Quantization:
    """A float32 array that is quantized as it is written: neither codes nor values are held as a whole."""

    def __init__(self, array: Array, encoding: str) -> None:
        self.array = array
        self.encoding = encoding
        self.shape = array.shape

    def tensor(self) -> QuantizedTensor:
        """Return the quantized tensor."""
        return quantize_array(self.array, self.encoding)

    def blocks(self) -> Iterator[memoryview]:
        """Yield the payload as it is stored: all codes, then all scales, which are held till then."""
        parts = []
        for blocks in _blocks_of(_flat(self.array)):
            codes, scales = _quantize_blocks(self.encoding, blocks)
            yield _bytes(codes)
            parts.append(scales.astype("<f4", copy=False))
        for scales in parts:
            yield _bytes(scales)


def _bytes(array: Array) -> memoryview:
    raw: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(raw)


def _flat(array: Array) -> Array:
    return array.reshape(-1)  # a copy only where the array is not contiguous


def quantize_array(array: Array, encoding: str) -> QuantizedTensor:
    """Quantize a float32 array of at least one element, as the upstream writer does it, to the bit.

    The scale of a block is the largest finite magnitude, divided by 7 (q4) or 127 (q8) in f32; 1 if that is not
    positive or not finite. Codes are rounded half to even; non-finite elements become 0.
    """
    if encoding not in _LIMIT:
        raise ArgumentError(f"found {show(encoding)}, expected q4 or q8", "encoding")
    if not same_type(array.dtype, np.dtype(np.float32)) or not array.size:
        raise ArgumentError(f"found {array.dtype} of shape {array.shape}, expected float32 elements", "array")
    parts = [_quantize_blocks(encoding, blocks) for blocks in _blocks_of(_flat(array))]
    return QuantizedTensor(
        encoding=encoding,
        shape=array.shape,
        payload=np.concatenate([codes for codes, _ in parts]),
        scales=np.concatenate([scales for _, scales in parts]).astype("<f4", copy=False),
    )
