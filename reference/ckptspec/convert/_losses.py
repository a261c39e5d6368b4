"""What another format cannot hold, and what is left of a content if that is given up.

A format holds a tensor if its readers get the same values under the same name. What stands beside the tensors is never
lost: it is in the passenger.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ArgumentError
from ..quantization import QuantizedTensor
from ..spec.dtypes import ScalarType
from ..spec.schema import OAM_MAX_RANK
from ..text import printable, shorten
from ._content import Content, Dequantized, Slot, View, dtype_name, scalar_named, slots, views
from ._passenger import fits, fitted, form_of, placed

__all__ = ["Loss", "fit"]

_BITS: Final = {0: "u8", 1: "u8", 2: "u16", 4: "u32", 8: "u64"}  # by the size of an element; 0: packed below a byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something that the target cannot hold.

    ``path`` is its place in the source's neutral document and ``name`` the tensor's name, if it is about one. ``what``
    is ``name``, ``rank``, ``extents``, ``dtype``, ``encoding`` or ``passenger``; ``why`` says it in words, and
    ``instead`` what a lossy conversion writes.
    """

    path: str
    what: str
    why: str
    instead: str
    name: str = ""

    def __str__(self) -> str:
        name = f" '{shorten(printable(self.name), 140)}'" if self.name else ""
        return f"{self.path}{name}: {self.what}: {self.why}; --lossy: {self.instead}"

    def to_json(self) -> dict[str, str]:
        """Return it as JSON types."""
        return {"path": self.path, "name": self.name, "what": self.what, "why": self.why, "instead": self.instead}


def fit(content: Content, format: str) -> tuple[list[Loss], Content]:
    """Return all that a format cannot hold of a content, and what of it the format can hold: all, if nothing is lost.

    The second is a content of the same format as the first.
    """
    content = Content(copy.deepcopy(content.document), list(content.payloads))
    places = slots(content.document)
    losses: list[Loss] = []
    for row, (slot, view) in enumerate(zip(places, views(content), strict=True)):
        fitting = _Fitting(content, format, slot, view, row, losses)
        if slot.key == "data":
            fitting.encoding()
            fitting.dtype()
            fitting.extents()
    if content.format != "ocannl":
        _fit_names(content, format, places, losses)
    return losses, content


def _fit_names(content: Content, format: str, places: list[Slot], losses: list[Loss]) -> None:
    seen = views(content)
    names = {view.name for view in seen}
    taken: set[tuple[str, str]] = set()
    for slot, view in zip(places, seen, strict=True):
        why = fits(view.name, format)
        if why is None and placed(view.name, format) in taken:
            why = f"two tensors are {'/'.join(placed(view.name, format))} there"
        if why is not None:
            name = fitted(view.name, names)
            names.add(name)
            instead = f"named '{shorten(printable(name), 140)}'"
            losses.append(Loss(path=view.path, name=view.name, what="name", why=why, instead=instead))
            slot.holder["name"] = name
        else:
            name = view.name
        taken.add(placed(name, format))


class _Fitting:
    """One tensor on its way to a format that may not hold it: its entry in the document is changed so that it does."""

    def __init__(self, content: Content, format: str, slot: Slot, view: View, row: int, losses: list[Loss]) -> None:
        self.content = content
        self.format = format
        self.entry: dict[str, Any] = slot.holder
        self.view = view
        self.row = row
        self.losses = losses
        self.scalar: ScalarType = view.scalar
        self.shape = view.shape

    def _lose(self, what: str, why: str, instead: str) -> None:
        view = self.view
        self.losses.append(Loss(path=view.path, name=view.name, what=what, why=why, instead=instead))

    def encoding(self) -> None:
        """Give up a quantized encoding: no other format has one."""
        view = self.view
        if view.encoding == "dense":
            return
        self._lose("encoding", f"{self.format} has no {view.encoding} tensors", "its values as f32")
        assert isinstance(view.payload, memoryview)
        tensor = QuantizedTensor.from_bytes(view.encoding, view.shape, view.payload)
        self.entry["encoding"] = "dense"
        self.content.payloads[self.row] = Dequantized(tensor)

    def dtype(self) -> None:
        """Give up a dtype that the format has not, and keep the bits as unsigned integers."""
        if form_of(self.scalar, self.shape, self.format) is not None:
            return
        old, self.scalar = self.scalar, scalar_named(_BITS[self.scalar.size])
        shape = self.shape if old.size else (self.view.payload.nbytes,)
        name, reason = dtype_name(old, self.content.format), f"{self.format} has none such"
        instead = f"its bits as {dtype_name(self.scalar, self.format)}" + ("" if old.size else ", in one dimension")
        self._lose("dtype", f"{name}; {reason}", instead)
        key = "precision" if self.content.format == "ocannl" else "dtype"
        self.entry[key] = dtype_name(self.scalar, self.content.format)
        self._reshape(shape)

    def extents(self) -> None:
        """Give up axes that are too many, by joining the first ones, and extents that are too large."""
        form = form_of(self.scalar, self.shape, self.format)
        assert form is not None
        if self.format == "oam" and len(form[1]) > OAM_MAX_RANK:
            kept = len(self.shape) - (len(form[1]) - OAM_MAX_RANK) - 1
            cut = len(self.shape) - kept
            shape = (math.prod(self.shape[:cut]), *self.shape[cut:])
            self._lose("rank", f"{len(form[1])} axes, at most {OAM_MAX_RANK} fit", f"shape {list(shape)}")
            self._reshape(shape)
        elif self.format == "ocannl":
            from ..ocannl import TensorNode

            try:
                TensorNode(id=0, precision=form[0], dims=form[1])
            except ArgumentError as error:
                shape = (math.prod(self.shape),)
                self._lose("extents", str(error).partition("dims: ")[2] or str(error), f"shape {list(shape)}")
                self._reshape(shape)

    def _reshape(self, shape: tuple[int, ...]) -> None:
        if shape == self.shape:
            return
        self.shape = shape
        if self.content.format == "ocannl":
            self.entry["padding"] = None
        self.entry["dims" if self.content.format == "ocannl" else "shape"] = [str(extent) for extent in shape]
