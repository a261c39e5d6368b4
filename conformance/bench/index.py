"""How long it takes to decode and check a tensor index, against construct's own parse of the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from ...examination import Examination
from ...oam import Model, dumps
from ...oam._anatomy import Section
from ...oam._tensors import check_index
from ...source import BufferSource
from ...spec.layout import record_size
from ...spec.schema import OamIndex, OamSection, OamTensor
from .timing import Row, in_turns

__all__ = ["rows"]


def rows() -> Iterator[Row]:
    """Measure 10,000 and 100,000 tensors."""
    for number, target in ((10_000, 0.1), (100_000, 0.05)):
        value = np.zeros((2, 2), np.float32)
        data = dumps(Model(weights={f"layers.{at}.attention.weight": value for at in range(number)}))
        entry = OamSection.parse(data[2 * record_size(OamSection) :])  # the table follows a header of the same size
        start, size = entry["offset"], entry["size"]
        index = data[start + record_size(OamIndex) :]
        section = Section(entry=1, type=2, offset=start, size=size, checksum=0, available=size, in_place=True)
        times = in_turns(
            {
                "construct": functools.partial(OamTensor[number].parse, index),
                "check": functools.partial(check_index, Examination(BufferSource(data)), 3, section),
            },
            runs=7 if number <= 10_000 else 3,
        )
        yield Row("index", f"construct parses {number} tensors", times["construct"])
        what = f"decode and check {number} tensors"
        ratio = times["check"] / times["construct"]
        yield Row("index", what, times["check"], "", ratio, "construct", "<=", target)
