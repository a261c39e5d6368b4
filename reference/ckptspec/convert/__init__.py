"""Conversion between the formats: nothing is lost, or the conversion is refused.

``convert(src, dst)`` writes what one file holds into a file of another format; ``plan`` says what that would lose, and
writes nothing. Tensors become tensors, as views of the source that stream into the target. Everything that the target
has no place for (configuration, progress, the optimizer's numbers, labels, margins, metadata) travels in a *passenger*,
a piece of JSON for which each format has a place. Converting back finds the passenger and gives the original again.

What can travel in no way that other readers would understand is listed, all of it, before anything is written, and the
conversion is refused, unless it may be lossy. ``docs/conversion.md`` has the details.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import ArgumentError
from ..formats import EXTENSIONS, extension_of, format_of, module_of
from ..memory import MemorySink, Sink
from ..publish import check_local
from ..source import Source, open_source, path_text
from ..text import count, printable, show
from ._content import Content, dtype_name, newest, prepare, take, views
from ._losses import Loss, fit
from ._passenger import Mismatch, carry, form_of, has_passenger, restore, target_names, without_passenger

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["EXTENSIONS", "Carried", "Conversion", "Loss", "LossError", "Plan", "convert", "format_for", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Something that arrives in another form, and comes back as it was: its place in the source, and how it travels."""

    path: str
    name: str
    how: str

    def __str__(self) -> str:
        name = f" '{printable(self.name)}'" if self.name else ""
        return f"{self.path}{name}: {self.how}"

    def to_json(self) -> dict[str, str]:
        """Return it as JSON types."""
        return {"path": self.path, "name": self.name, "how": self.how}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What a conversion keeps and what it loses.

    ``kind`` is ``rewrite`` (the same format, canonical), ``restore`` (a passenger gave the original again) or ``carry``
    (the target is a carrier). ``original_format`` is the format of what is converted: that of the source, or that of
    its passenger. ``tensors`` is the number of payloads written, moments included.
    """

    source_format: str
    target_format: str
    original_format: str
    kind: str
    tensors: int
    losses: tuple[Loss, ...] = ()
    carried: tuple[Carried, ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether nothing is lost."""
        return not self.losses

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "source_format": self.source_format,
            "target_format": self.target_format,
            "original_format": self.original_format,
            "kind": self.kind,
            "tensors": self.tensors,
            "lossless": self.lossless,
            "losses": [loss.to_json() for loss in self.losses],
            "carried": [item.to_json() for item in self.carried],
        }


class LossError(ArgumentError):
    """The target cannot hold everything; ``losses`` has all of what it cannot."""

    def __init__(self, losses: tuple[Loss, ...], format: str) -> None:
        self.losses = losses
        lines = "".join(f"\n  {loss}" for loss in losses)
        super().__init__(f"{format} cannot hold {count(len(losses), 'thing')} of it; nothing was written:{lines}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversion that was looked through and not carried out yet."""

    conversion: Conversion
    _write: Callable[[Sink], None]

    def write(self, dst: str | os.PathLike[str], *, lossy: bool = False) -> Conversion:
        """Write the target atomically. Raises LossError if something would be lost and ``lossy`` is not set."""
        from ..publish import publishing

        self._check(lossy)
        with publishing(dst) as draft:
            self._write(draft)
        return self.conversion

    def to_bytes(self, *, lossy: bool = False) -> bytes:
        """Return the bytes of the target. Raises LossError as ``write`` does."""
        self._check(lossy)
        sink = MemorySink()
        self._write(sink)
        return bytes(sink.data)

    def _check(self, lossy: bool) -> None:
        if self.conversion.losses and not lossy:
            raise LossError(self.conversion.losses, self.conversion.target_format)


def format_for(dst: str | os.PathLike[str], to: str | None = None) -> str:
    """Return the format of a file to be written: the one given, else what its name's extension says."""
    check_local(dst)
    if to is not None:
        module_of(to)  # raises for an unknown one
        return to
    name = path_text(dst)
    known = extension_of(name)
    if known is None:
        found = show(os.path.splitext(name)[1].lower())
        raise ArgumentError(f"the extension {found} is none of {', '.join(EXTENSIONS)}; name the format", "to")
    return known


def convert(
    src: str | os.PathLike[str] | Buffer, dst: str | os.PathLike[str], *, to: str | None = None, lossy: bool = False
) -> Conversion:
    """Convert a file, or bytes, into a file of the format ``to``, or of the one that the extension of ``dst`` says.

    ``dst`` is written atomically, and may be ``src`` unless the conversion may be lossy. Raises LossError, with all
    that would be lost, before anything is written, unless ``lossy``; FormatError if the source is no good file;
    ArgumentError for what cannot be done at all; OSError for what the system refuses.
    """
    target_format = format_for(dst, to)
    if lossy and isinstance(src, (str, os.PathLike)) and os.path.exists(dst) and os.path.samefile(src, dst):
        raise ArgumentError("is the source, which a lossy conversion does not overwrite", "dst")
    if isinstance(src, Source):
        return plan(src, to=target_format).write(dst, lossy=lossy)
    with open_source(src) as source:  # open until all is written: then a file that shrinks is an error
        return plan(source, to=target_format).write(dst, lossy=lossy)


def plan(src: str | os.PathLike[str] | Buffer | Source, *, to: str) -> Plan:
    """Look through a conversion to the format ``to``: what it would do and lose. Nothing is written.

    Raises FormatError if the source is no good file, ArgumentError for what cannot be done at all, lossy or not.
    """
    module_of(to)
    if not isinstance(src, Source):
        with open_source(src) as source:
            return plan(source, to=to)
    source_format = format_of(src)
    model = module_of(source_format).read(src)
    content = take(model, source_format)
    losses: list[Loss] = []
    carried: list[Carried] = []
    if source_format != to and has_passenger(content.document):
        content, losses = _unwrapped(content)
    original_format = content.format
    if source_format == to:
        kind, target = "rewrite", newest(content)
    elif original_format == to:
        kind, target = "restore", content
    else:
        more, content = fit(content, to)
        losses += more
        carried = list(_carried(content, to))
        kind, target = "carry", carry(content, to)
    conversion = Conversion(
        source_format=source_format,
        target_format=to,
        original_format=original_format,
        kind=kind,
        tensors=len(target.payloads),
        losses=tuple(losses),
        carried=tuple(carried),
    )
    return Plan(conversion=conversion, _write=prepare(target))


def _unwrapped(carrier: Content) -> tuple[Content, list[Loss]]:
    """Return the original that a carrier carries; or the carrier as it is, and what is lost so."""
    try:
        return restore(carrier), []
    except Mismatch as mismatch:
        instead = "the passenger is dropped, and the file converted as it is"
        losses = [Loss(path=path, what="passenger", why=why, instead=instead) for path, why in mismatch.problems]
        return without_passenger(carrier), losses


_BESIDE: Final = {
    "oam": (
        ("config", "in the passenger"),
        ("optimizer", "its moments as tensors, its numbers in the passenger"),
        ("progress", "in the passenger"),
    ),
    "ocannl": (("tensors", "ids and labels in the passenger"), ("training", "in the passenger")),
    "safetensors": (("metadata", "in the passenger"),),
}


def _carried(content: Content, format: str) -> list[Carried]:
    """Return what arrives in another form."""
    document = content.document
    made = [Carried(path=key, name="", how=how) for key, how in _BESIDE[content.format] if document[key]]
    for view, name in zip(views(content), target_names(content, format), strict=True):
        form = form_of(view.scalar, view.shape, format)
        assert form is not None
        if dtype_name(view.scalar, format) is None:
            how = f"{dtype_name(view.scalar, content.format)} as {form[0]}"
            if form[1] != view.shape:
                how += f" with a last axis of {form[1][-1]}"
            made.append(Carried(path=view.path, name=view.name, how=how))
        if name != view.name:
            made.append(Carried(path=view.path, name=view.name, how=f"named '{printable(name)}'"))
    if content.format == "ocannl":
        for row, entry in enumerate(document["tensors"]):
            if entry["padding"] is not None:
                how = "what is stored becomes a tensor; the margins are in the passenger"
                made.append(Carried(path=f"tensors[{row}].padding", name="", how=how))
    return made
