"""How much a tensor takes: what its extents, its precision and its padding make of each other.

The reader's findings and the errors of ``TensorNode`` come from the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..errors import ArgumentError
from ..spec.dtypes import ScalarType, numpy_type
from ..spec.schema import OCANNL_INT_MAX
from ..text import show

__all__ = ["Axes", "Broken", "aligned", "host_shape", "margin", "measure"]

Axes = Sequence[tuple[int, int]]

_MOST_AXES: Final = 64  # of a numpy array, lanes included; numpy 1 has 32
_MAX_BYTES: Final = (1 << 63) - 1


class Broken(Exception):  # noqa: N818  # becomes a finding or an ArgumentError
    """A rule that a tensor's numbers break: where (the key of the record, and indices into its value), and how."""

    def __init__(self, rule: str, where: tuple[str | int, ...], found: object, expected: object) -> None:
        super().__init__(rule, where, found, expected)
        self.rule = rule
        self.where = where
        self.found = found
        self.expected = expected


def aligned(offset: int, alignment: int) -> int:
    """Return ``offset`` rounded up to a multiple of ``alignment``."""
    return -(-offset // alignment) * alignment


def measure(size: int, dims: tuple[int, ...], axes: Axes | None) -> tuple[tuple[int, ...], int]:
    """Return the extents that are stored and the number of bytes that they take.

    ``size`` is that of an element in bytes, ``axes`` the padding; nothing is negative. Raises Broken.
    """
    elements = 1
    for index, extent in enumerate(dims):
        elements *= extent
        if elements > OCANNL_INT_MAX:
            found = f"{show(elements)} elements, counting up to extent {index}"
            raise Broken("OCANNL-TEN-SIZEOF", ("dims",), found, f"at most {OCANNL_INT_MAX}")
    if elements * size > OCANNL_INT_MAX:
        raise Broken("OCANNL-TEN-SIZEOF", ("dims",), f"{show(elements * size)} bytes", f"at most {OCANNL_INT_MAX}")
    if axes is None:
        return dims, elements * size
    if len(axes) != len(dims):
        raise Broken("OCANNL-PAD-COUNT", ("padding", 0), f"padding of {len(axes)} axes", f"{len(dims)}, as dims has")
    stored = []
    elements = 1
    for index, (extent, (left, right)) in enumerate(zip(dims, axes, strict=True)):
        if left + right > extent:
            found = f"{left} and {right}, {left + right} together"
            raise Broken("OCANNL-PAD-FIT", ("padding", 0, index), found, f"at most {extent}, the extent")
        stored.append(extent - left - right)
        elements *= stored[-1]
    return tuple(stored), elements * size


def host_shape(scalar: ScalarType, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the numpy array of a tensor: its extents, and one more where an element has lanes.

    Raises ArgumentError if numpy cannot hold such an array.
    """
    shape = (*dims, scalar.lanes) if scalar.lanes > 1 else dims
    try:
        np.broadcast_to(np.zeros((), numpy_type(scalar)), shape)  # asks numpy, allocates nothing
    except ValueError:
        raise ArgumentError(f"numpy cannot hold the shape {list(shape)}") from None
    return shape


def margin(scalar: ScalarType, neutral: float) -> Any:
    """Return the neutral value as an element of a tensor, as a numpy scalar.

    Floats are rounded to the nearest, for bfloat16 and fp8 by way of binary32, as OCANNL's own conversions do. Integers
    are cut towards zero; beyond the ends of the range, the end is taken, and 0 for a NaN.
    """
    dtype = numpy_type(scalar)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if neutral != neutral:
            return dtype.type(0)
        whole = int(max(min(neutral, 2.0**65), -(2.0**65)))  # int() takes no infinity
        return dtype.type(max(int(bounds.min), min(int(bounds.max), whole)))
    with np.errstate(all="ignore"):  # what is too large becomes infinite
        return np.asarray(neutral, np.float64).astype(dtype)[()]
