"""One table of scalar types across the formats."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

__all__ = [
    "OAM_CODES",
    "OAM_DTYPES",
    "OCANNL_PRECISIONS",
    "SAFETENSORS_DTYPES",
    "SAFETENSORS_ORDER",
    "SCALARS",
    "ScalarType",
    "numpy_type",
    "oam_dtype_of",
    "safetensors_dtype_of",
    "same_type",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarType:
    """A scalar type: its name, its size in bytes, what the formats call it and its numpy type.

    ``oam_code`` is its code in ``.oam`` files, ``ocannl`` its name in OCANNL documents, ``safetensors`` its name there;
    None where a format lacks it. ``numpy`` is a numpy type string, or a name in ``ml_dtypes``; an element is ``lanes``
    of them. Elements that are packed below a byte have no size and no numpy type, only ``bits``.
    """

    name: str
    size: int
    oam_code: int | None
    ocannl: str | None
    safetensors: str | None
    numpy: str
    doc: str
    lanes: int = 1
    bits: int = 0


def _scalar(
    oam_code: int | None,
    ocannl: str | None,
    safetensors: str | None,
    name: str,
    size: int,
    numpy: str,
    doc: str,
    lanes: int = 1,
) -> ScalarType:
    return ScalarType(
        name=name,
        size=size,
        oam_code=oam_code,
        ocannl=ocannl,
        safetensors=safetensors,
        numpy=numpy,
        doc=doc,
        lanes=lanes,
        bits=8 * size,
    )


def _packed(safetensors: str, name: str, bits: int, doc: str) -> ScalarType:
    return ScalarType(
        name=name, size=0, oam_code=None, ocannl=None, safetensors=safetensors, numpy="", doc=doc, bits=bits
    )


SCALARS: Final = (
    _scalar(0, "single", "F32", "f32", 4, "<f4", "IEEE 754 binary32"),
    _scalar(1, "bfloat16", "BF16", "bf16", 2, "bfloat16", "bfloat16: the upper half of a binary32"),
    _scalar(2, "half", "F16", "f16", 2, "<f2", "IEEE 754 binary16"),
    _scalar(3, None, "I8", "i8", 1, "i1", "8-bit integer, two's complement"),
    _scalar(4, "int32", "I32", "i32", 4, "<i4", "32-bit integer, two's complement"),
    _scalar(5, "byte", "U8", "u8", 1, "u1", "8-bit unsigned integer"),
    _scalar(6, "double", "F64", "f64", 8, "<f8", "IEEE 754 binary64"),
    _scalar(7, None, "I16", "i16", 2, "<i2", "16-bit integer, two's complement"),
    _scalar(8, "int64", "I64", "i64", 8, "<i8", "64-bit integer, two's complement"),
    _scalar(9, "uint16", "U16", "u16", 2, "<u2", "16-bit unsigned integer"),
    _scalar(10, "uint32", "U32", "u32", 4, "<u4", "32-bit unsigned integer"),
    _scalar(11, "uint64", "U64", "u64", 8, "<u8", "64-bit unsigned integer"),
    _scalar(12, None, "BOOL", "bool", 1, "?", "one byte, 0 or 1"),
    _scalar(13, None, "C64", "c64", 8, "<c8", "complex: two binary32, real part first"),
    _scalar(14, None, None, "c128", 16, "<c16", "complex: two binary64, real part first"),
    _scalar(None, "fp8", "F8_E5M2", "f8_e5m2", 1, "float8_e5m2", "8-bit float, 5 bits of exponent and 2 of mantissa"),
    _scalar(None, "uint4x32", None, "u32x4", 16, "<u4", "four 32-bit unsigned integers", 4),
    _scalar(None, "void", None, "void", 0, "V0", "no bytes at all"),
    _scalar(None, None, "F8_E4M3", "f8_e4m3", 1, "float8_e4m3fn", "8-bit float, 4 bits of exponent and 3 of mantissa"),
    _scalar(None, None, "F8_E8M0", "f8_e8m0", 1, "float8_e8m0fnu", "8-bit power of two: an exponent alone"),
    _scalar(None, None, "F8_E5M2FNUZ", "f8_e5m2fnuz", 1, "float8_e5m2fnuz", "F8_E5M2 without infinities and -0"),
    _scalar(None, None, "F8_E4M3FNUZ", "f8_e4m3fnuz", 1, "float8_e4m3fnuz", "F8_E4M3 without infinities and -0"),
    _packed("F4", "f4_e2m1", 4, "4-bit float, two to a byte"),
    _packed("F6_E2M3", "f6_e2m3", 6, "6-bit float, 2 bits of exponent and 3 of mantissa, four to three bytes"),
    _packed("F6_E3M2", "f6_e3m2", 6, "6-bit float, 3 bits of exponent and 2 of mantissa, four to three bytes"),
)

OAM_BY_CODE: Final = {scalar.oam_code: scalar for scalar in SCALARS if scalar.oam_code is not None}
OAM_DTYPES: Final = {scalar.name: scalar for scalar in OAM_BY_CODE.values()}
OAM_CODES: Final = {scalar.name: code for code, scalar in OAM_BY_CODE.items()}
OCANNL_PRECISIONS: Final = {scalar.ocannl: scalar for scalar in SCALARS if scalar.ocannl is not None}
SAFETENSORS_DTYPES: Final = {scalar.safetensors: scalar for scalar in SCALARS if scalar.safetensors is not None}

# The order in which the official writer lays tensors out.
_WRITTEN: Final = (
    "U64 I64 F64 C64 F32 U32 I32 BF16 F16 U16 I16 F8_E5M2FNUZ F8_E4M3FNUZ F8_E8M0 F8_E4M3 F8_E5M2 I8 U8 "
    "F6_E3M2 F6_E2M3 F4 BOOL"
)
SAFETENSORS_ORDER: Final = {name: place for place, name in enumerate(_WRITTEN.split())}


@cache
def numpy_type(scalar: ScalarType) -> np.dtype[Any]:
    """Return the little-endian numpy dtype of a scalar type's lanes."""
    if "float" in scalar.numpy:
        import ml_dtypes  # late: reading a header needs none of its types

        made: np.dtype[Any] = np.dtype(getattr(ml_dtypes, scalar.numpy))
        return made if made.itemsize == 1 or sys.byteorder == "little" else made.newbyteorder("<")
    return np.dtype(scalar.numpy)


def same_type(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Say whether two numpy dtypes are the same but for the byte order, whatever they are."""
    return one == other or (one.itemsize > 0 and (one.kind, one.name) == (other.kind, other.name))


@cache
def _by_numpy() -> dict[tuple[str, str], ScalarType]:
    # The kind alone is not enough: bfloat16's is V, as is every record's.
    whole = [scalar for scalar in SCALARS if scalar.lanes == 1 and scalar.numpy]
    return {(numpy_type(scalar).kind, numpy_type(scalar).name): scalar for scalar in whole}


def oam_dtype_of(dtype: np.dtype[Any]) -> ScalarType | None:
    """Return the ``.oam`` scalar type of a numpy dtype of either byte order, or None if there is none."""
    scalar = _by_numpy().get((dtype.kind, dtype.name))
    return None if scalar is None or scalar.oam_code is None else scalar


def safetensors_dtype_of(dtype: np.dtype[Any]) -> ScalarType | None:
    """Return the safetensors type of a numpy dtype of either byte order, or None if there is none."""
    scalar = _by_numpy().get((dtype.kind, dtype.name))
    return None if scalar is None or scalar.safetensors is None else scalar
