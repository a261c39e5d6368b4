"""Hypothesis strategies: parameter structures, with arrays of every dtype and of any bits at their leaves.

Needs the extra ``ckptspec[test]``.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from ..spec.dtypes import SAFETENSORS_DTYPES, numpy_type

__all__ = ["NUMPY_DTYPES", "leaves", "structures"]

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY_DTYPES: Final = {name: numpy_type(scalar) for name, scalar in SAFETENSORS_DTYPES.items() if scalar.numpy}
"""What numpy and ml_dtypes have of the dtypes of safetensors files, by its name there."""


@st.composite
def leaves(draw: Any) -> Array:
    """Arrays of any dtype, rank 0 to 3, either byte order and any bits, NaNs with payloads included."""
    dtype = draw(st.sampled_from(list(NUMPY_DTYPES.values())))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    bits = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        bits = bytes(byte & 1 for byte in bits)
    array = np.frombuffer(bits, dtype).reshape(shape).copy()
    if draw(st.booleans()):
        array = array.astype(dtype.newbyteorder(">"))
    return np.asfortranarray(array) if draw(st.booleans()) and array.ndim else array


def structures(keys: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Any]:
    """Nested dicts, lists and tuples of ``leaves``. Keys have no dots, so that no two leaves have one name."""
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters=".")
    names = st.text(alphabet, min_size=1, max_size=4) if keys is None else keys
    return st.recursive(
        leaves(),
        lambda inner: (
            st.dictionaries(names, inner, max_size=3)
            | st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
        ),
        max_leaves=8,
    )
