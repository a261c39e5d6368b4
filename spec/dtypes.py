"""One table of scalar types across the formats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

__all__ = ["OAM_DTYPES", "SCALARS", "ScalarType", "numpy_type", "oam_dtype_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarType:
    """A scalar type: its name, its size in bytes, its code in ``.oam`` files and its numpy type.

    ``numpy`` is a numpy type string, or a name in ``ml_dtypes``.
    """

    name: str
    size: int
    oam_code: int
    numpy: str
    doc: str


def _scalar(oam_code: int, name: str, size: int, numpy: str, doc: str) -> ScalarType:
    return ScalarType(name=name, size=size, oam_code=oam_code, numpy=numpy, doc=doc)


SCALARS: Final = (
    _scalar(0, "f32", 4, "<f4", "IEEE 754 binary32"),
    _scalar(1, "bf16", 2, "bfloat16", "bfloat16: the upper half of a binary32"),
    _scalar(2, "f16", 2, "<f2", "IEEE 754 binary16"),
    _scalar(3, "i8", 1, "i1", "8-bit integer, two's complement"),
    _scalar(4, "i32", 4, "<i4", "32-bit integer, two's complement"),
    _scalar(5, "u8", 1, "u1", "8-bit unsigned integer"),
    _scalar(6, "f64", 8, "<f8", "IEEE 754 binary64"),
    _scalar(7, "i16", 2, "<i2", "16-bit integer, two's complement"),
    _scalar(8, "i64", 8, "<i8", "64-bit integer, two's complement"),
    _scalar(9, "u16", 2, "<u2", "16-bit unsigned integer"),
    _scalar(10, "u32", 4, "<u4", "32-bit unsigned integer"),
    _scalar(11, "u64", 8, "<u8", "64-bit unsigned integer"),
    _scalar(12, "bool", 1, "?", "one byte, 0 or 1"),
    _scalar(13, "c64", 8, "<c8", "complex: two binary32, real part first"),
    _scalar(14, "c128", 16, "<c16", "complex: two binary64, real part first"),
)

OAM_DTYPES: Final = {scalar.name: scalar for scalar in SCALARS}
OAM_BY_CODE: Final = {scalar.oam_code: scalar for scalar in SCALARS}


@cache
def numpy_type(scalar: ScalarType) -> np.dtype[Any]:
    """Return the little-endian numpy dtype of a scalar type."""
    if scalar.numpy == "bfloat16":
        import ml_dtypes  # late: reading a header needs no bfloat16

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(scalar.numpy)


@cache
def _by_numpy() -> dict[tuple[str, str], ScalarType]:
    # The kind alone is not enough: bfloat16's is V, as is every record's.
    return {(numpy_type(scalar).kind, numpy_type(scalar).name): scalar for scalar in SCALARS}


def oam_dtype_of(dtype: np.dtype[Any]) -> ScalarType | None:
    """Return the ``.oam`` scalar type of a numpy dtype of either byte order, or None if there is none."""
    return _by_numpy().get((dtype.kind, dtype.name))
