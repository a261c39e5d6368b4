"""Strategies for hypothesis: models, documents, files, and damaged files with the rule that they break.

Each function takes the name of a format (``oam``, ``ocannl``, ``safetensors``), or none for all three, and returns a
strategy. What it makes is as odd as the format allows: any bits, names, shapes, layouts. Failures shrink to small
models, plain layouts and damage of the plainest kind. Files are laid out apart from the reference's writer.

Needs hypothesis: ``pip install 'ckptspec[test]'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    if error.name != "hypothesis":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs hypothesis, which is not installed: pip install 'ckptspec[test]'", name="hypothesis"
    ) from None

from ..errors import ArgumentError
from ..formats import FORMATS, module_of
from ..source import BufferSource
from ..spec.rules import REJECT, RULES
from ..spec.schema import OAM_NEWEST
from ..text import count, show
from . import damage_oam, damage_ocannl, damage_safetensors, strategies_oam
from .catalogue import load_suite
from .strategies_oam import arrays, oam_documents
from .strategies_ocannl import ocannl_documents, ocannl_layouts
from .strategies_safetensors import safetensors_documents, safetensors_layouts

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "DamagedFile",
    "SoundFile",
    "arrays",
    "damaged_files",
    "documents",
    "files",
    "models",
    "oam_documents",
    "ocannl_documents",
    "safetensors_documents",
    "spoil",
]

Document = dict[str, Any]

_DAMAGE: Final[Mapping[str, ModuleType]] = {
    "oam": damage_oam,
    "ocannl": damage_ocannl,
    "safetensors": damage_safetensors,
}


class SoundFile(NamedTuple):
    """A file that readers accept: its bytes, and the neutral document that they find there."""

    data: bytes
    document: Document

    @property
    def format(self) -> str:
        """The format's name."""
        return str(self.document["format"])

    def __repr__(self) -> str:
        return f"<{FORMATS[self.format]} of {count(len(self.data), 'byte')}: {self.document!r}>"


class DamagedFile(NamedTuple):
    """A file that readers must refuse: its bytes, and the rule for which they do.

    It is the first finding of ``validate(data, format=format)``; without its format given, a file whose beginning is
    damaged may be taken for one of another format, or of none.
    """

    data: bytes
    rule: str
    format: str

    def __repr__(self) -> str:
        return f"<{FORMATS[self.format]} of {count(len(self.data), 'byte')} that breaks {self.rule}>"


def documents(format: str | None = None, *, newest: bool = False) -> st.SearchStrategy[Document]:
    """Neutral documents of files that every writer of the format must write.

    Those of ``.oam`` files are of any version; ``newest`` leaves only those of the newest one. Files of the others are
    valid, and not canonical: ``assert_valid(..., strict=True)`` refuses them.
    """
    made = {
        "oam": lambda: oam_documents(OAM_NEWEST if newest else None),
        "ocannl": ocannl_documents,
        "safetensors": safetensors_documents,
    }
    return st.one_of([made[name]() for name in _formats(format)])


def models(format: str | None = None) -> st.SearchStrategy[Any]:
    """What ``load`` returns and ``save`` takes: ``oam.Model``, ``ocannl.Checkpoint``, ``safetensors.TensorFile``.

    The tensors of ``.oam`` models are arrays in any memory layout and byte order; those of the others are views of a
    file.
    """
    return st.one_of([strategies_oam.models() if name == "oam" else _loaded(name) for name in _formats(format)])


def _loaded(format: str) -> st.SearchStrategy[Any]:
    module = module_of(format)
    return documents(format).map(lambda document: module.read(BufferSource(module.encode(document))))


def files(format: str | None = None, *, canonical: bool = False) -> st.SearchStrategy[SoundFile]:
    """Files that every reader must accept, with what is in them.

    ``canonical`` leaves only those that a writer makes; else there are also old versions, odd orders and spellings,
    gaps and padding of other bytes.
    """
    made = []
    for name in _formats(format):
        made.append(_written(name))
        if not canonical:
            made.append(_laid_out(name))
    return st.one_of(made)


@st.composite
def _written(draw: st.DrawFn, format: str) -> SoundFile:
    document = draw(oam_documents(version=OAM_NEWEST) if format == "oam" else documents(format))
    return SoundFile(module_of(format).encode(document), document)


@st.composite
def _laid_out(draw: st.DrawFn, format: str) -> SoundFile:
    """A file in an odd layout; a safetensors file without keys that nobody knows, which some readers refuse."""
    if format == "oam":
        document, data = draw(strategies_oam.oam_layouts())
    elif format == "ocannl":
        document, data, _ = draw(ocannl_layouts())
    else:
        document, data = draw(safetensors_layouts(unknown=False))
    return SoundFile(data, document)


def damaged_files(
    format: str | None = None, *, rules: str | Iterable[str] | None = None, strict: bool = False
) -> st.SearchStrategy[DamagedFile]:
    """Files in which one thing is wrong, with the rule for which readers refuse them.

    By default the rule is one of those for which every reader must refuse a file; with ``strict`` also one of those
    which known readers do not look at, as the conformance suite has it. ``rules`` are the rules to break, whatever
    their level. ArgumentError if one of them is unknown, no reason to refuse a file, or one of another format.
    """
    if rules is None:
        chosen = [
            rule for name in _formats(format) for rule in _DAMAGE[name].DAMAGES if strict or rule in _rules_that_must()
        ]
    else:
        chosen = [rules] if isinstance(rules, str) else list(rules)
        known = [rule for name in _formats(format) for rule in _DAMAGE[name].DAMAGES]
        for rule in chosen:
            _check(rule, known)
        if not chosen:
            raise ArgumentError("found no rule, expected one or several", "rules")
    return st.sampled_from(chosen).flatmap(_damaged)


def _check(rule: object, known: list[str]) -> None:
    if rule in known:
        return
    reason = "there is no such rule"
    if isinstance(rule, str) and rule in RULES:
        kind = RULES[rule].kind
        reason = (
            f"it is of the kind {kind}: no file is refused for it" if kind != REJECT else "not one of these formats"
        )
    raise ArgumentError(f"{show(rule)}: {reason}", "rules")


@st.composite
def _damaged(draw: st.DrawFn, rule: str) -> DamagedFile:
    definition = RULES[rule]
    module = _DAMAGE[definition.format]
    document = draw(module.documents_for(definition.versions))
    return DamagedFile(module.DAMAGES[rule](draw, document), rule, definition.format)


@cache
def _rules_that_must() -> frozenset[str]:
    """Return the rules for which, as the suite has it, every reader must refuse some file."""
    return frozenset(
        case.rules[0]
        for case in load_suite().cases
        if case.verdict == "invalid" and case.level == "must" and case.rules
    )


def spoil(document: Any, data: st.DataObject, values: st.SearchStrategy[Any]) -> None:
    """Replace any part of a document by a drawn value, or take it away; ``data`` draws which part and what happens.

    What comes of it may be a document again; writers must refuse it or write a file that readers accept.
    """
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        if data.draw(st.booleans()):
            at[key] = data.draw(values)
        else:
            del at[key]
        break


def _formats(format: str | None) -> list[str]:
    if format is None:
        return list(FORMATS)
    module_of(format)  # knows which there are
    return [format]
