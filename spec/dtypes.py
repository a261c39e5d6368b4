"""One table of scalar types across the formats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

__all__ = ["OAM_CODES", "OAM_DTYPES", "OCANNL_PRECISIONS", "SCALARS", "ScalarType", "numpy_type", "oam_dtype_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarType:
    """A scalar type: its name, its size in bytes, what the formats call it and its numpy type.

    ``oam_code`` is its code in ``.oam`` files, ``ocannl`` its name in OCANNL documents; None where a format lacks it.
    ``numpy`` is a numpy type string, or a name in ``ml_dtypes``; an element is ``lanes`` of them.
    """

    name: str
    size: int
    oam_code: int | None
    ocannl: str | None
    numpy: str
    doc: str
    lanes: int = 1


def _scalar(
    oam_code: int | None, ocannl: str | None, name: str, size: int, numpy: str, doc: str, lanes: int = 1
) -> ScalarType:
    return ScalarType(name=name, size=size, oam_code=oam_code, ocannl=ocannl, numpy=numpy, doc=doc, lanes=lanes)


SCALARS: Final = (
    _scalar(0, "single", "f32", 4, "<f4", "IEEE 754 binary32"),
    _scalar(1, "bfloat16", "bf16", 2, "bfloat16", "bfloat16: the upper half of a binary32"),
    _scalar(2, "half", "f16", 2, "<f2", "IEEE 754 binary16"),
    _scalar(3, None, "i8", 1, "i1", "8-bit integer, two's complement"),
    _scalar(4, "int32", "i32", 4, "<i4", "32-bit integer, two's complement"),
    _scalar(5, "byte", "u8", 1, "u1", "8-bit unsigned integer"),
    _scalar(6, "double", "f64", 8, "<f8", "IEEE 754 binary64"),
    _scalar(7, None, "i16", 2, "<i2", "16-bit integer, two's complement"),
    _scalar(8, "int64", "i64", 8, "<i8", "64-bit integer, two's complement"),
    _scalar(9, "uint16", "u16", 2, "<u2", "16-bit unsigned integer"),
    _scalar(10, "uint32", "u32", 4, "<u4", "32-bit unsigned integer"),
    _scalar(11, "uint64", "u64", 8, "<u8", "64-bit unsigned integer"),
    _scalar(12, None, "bool", 1, "?", "one byte, 0 or 1"),
    _scalar(13, None, "c64", 8, "<c8", "complex: two binary32, real part first"),
    _scalar(14, None, "c128", 16, "<c16", "complex: two binary64, real part first"),
    _scalar(None, "fp8", "f8_e5m2", 1, "float8_e5m2", "8-bit float, 5 bits of exponent and 2 of mantissa"),
    _scalar(None, "uint4x32", "u32x4", 16, "<u4", "four 32-bit unsigned integers", 4),
    _scalar(None, "void", "void", 0, "V0", "no bytes at all"),
)

OAM_BY_CODE: Final = {scalar.oam_code: scalar for scalar in SCALARS if scalar.oam_code is not None}
OAM_DTYPES: Final = {scalar.name: scalar for scalar in OAM_BY_CODE.values()}
OAM_CODES: Final = {scalar.name: code for code, scalar in OAM_BY_CODE.items()}
OCANNL_PRECISIONS: Final = {scalar.ocannl: scalar for scalar in SCALARS if scalar.ocannl is not None}


@cache
def numpy_type(scalar: ScalarType) -> np.dtype[Any]:
    """Return the little-endian numpy dtype of a scalar type's lanes."""
    if scalar.numpy in ("bfloat16", "float8_e5m2"):
        import ml_dtypes  # late: reading a header needs none of its types

        made: np.dtype[Any] = np.dtype(getattr(ml_dtypes, scalar.numpy))
        return made
    return np.dtype(scalar.numpy)


@cache
def _by_numpy() -> dict[tuple[str, str], ScalarType]:
    # The kind alone is not enough: bfloat16's is V, as is every record's.
    return {(numpy_type(scalar).kind, numpy_type(scalar).name): scalar for scalar in OAM_BY_CODE.values()}


def oam_dtype_of(dtype: np.dtype[Any]) -> ScalarType | None:
    """Return the ``.oam`` scalar type of a numpy dtype of either byte order, or None if there is none."""
    return _by_numpy().get((dtype.kind, dtype.name))
