"""Arrays on their way into a file: what is accepted, and its bytes, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ._mapped import steady_blocks
from .errors import ArgumentError

__all__ = ["as_array", "byte_blocks", "torch_pairs"]

Array = np.ndarray[Any, np.dtype[Any]]
_BLOCK: Final = 1 << 22  # bytes that are copied at a time where an array cannot be written as it is


def as_array(value: Any, path: str) -> Array:
    """Return an array-like as an array of the same dtype; lists and numbers are refused, since they have none."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError("a masked array would lose its mask; fill it first", path)
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__array__"):
        try:
            return _from_torch(value) if type(value).__module__.partition(".")[0] == "torch" else np.asarray(value)
        except Exception as error:
            raise ArgumentError(f"{type(value).__name__} does not convert to an array: {error}", path) from error
    raise ArgumentError(f"found {type(value).__name__}, expected an array", path)


_PAIRS: Final = "torch.float4_e2m1fn_x2"  # an element is a byte with two numbers


def torch_pairs(value: Any, path: str) -> Array | None:
    """Return the bytes of a torch tensor whose elements are pairs of 4-bit floats; None for anything else."""
    if type(value).__module__.partition(".")[0] != "torch" or str(getattr(value, "dtype", "")) != _PAIRS:
        return None
    return as_array(value, path)


# Types that torch has and numpy lacks, with the torch integers of their size.
_TORCH: Final = {
    "bfloat16": ("int16", "bfloat16"),
    "float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "float8_e4m3fnuz": ("uint8", "float8_e4m3fnuz"),
    "float8_e5m2": ("uint8", "float8_e5m2"),
    "float8_e5m2fnuz": ("uint8", "float8_e5m2fnuz"),
    "float8_e8m0fnu": ("uint8", "float8_e8m0fnu"),
    "float4_e2m1fn_x2": ("uint8", None),
}


def _from_torch(value: Any) -> Array:
    """Return a torch tensor as an array, without a copy where it lies in the host's memory."""
    import sys

    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _TORCH:
        return np.asarray(tensor)
    import ml_dtypes

    integers, dtype = _TORCH[name]
    whole = np.asarray(tensor.contiguous().view(getattr(sys.modules["torch"], integers)))
    return whole if dtype is None else whole.view(getattr(ml_dtypes, dtype))


def byte_blocks(array: Array) -> Iterator[memoryview]:
    """Yield the elements in row-major order as little-endian bytes.

    A contiguous array of that byte order is one view of itself; any other is copied a few megabytes at a time. One that
    is a view of a file which is still open is read from it.
    """
    little = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == little:
        yield from steady_blocks(_bytes(array))
    elif array.nbytes <= _BLOCK or not array.ndim:
        yield _bytes(array.astype(little, order="C"))
    else:
        rows = max(1, _BLOCK * len(array) // array.nbytes)
        for start in range(0, len(array), rows):
            part = array[start : start + rows]
            yield from byte_blocks(part[0] if rows == 1 else part)


def _bytes(array: Array) -> memoryview:
    raw: Any = array.reshape(-1).view(np.uint8)  # bfloat16 has no buffer format of its own
    return memoryview(raw).toreadonly()
