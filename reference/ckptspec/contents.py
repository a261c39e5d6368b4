"""One view of a file of any format: its tensors by name, and its other facts as a flat mapping from text to text.

What compares or digests files works on this view, so that it does not depend on what a format calls its parts. Names
agree across the formats:

- a weight of an ``.oam`` file keeps its name, a state tensor is ``state/NAME``, the moments of the optimizer are
  ``optimizer/first_moment`` and ``optimizer/second_moment``; a weight that is really called so is escaped;
- a tensor of an OCANNL checkpoint has the words of its label, joined with dots, or ``NAMESPACE:ID`` if these words do
  not tell it from all others of its file;
- a tensor of a safetensors file has its own name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from .examination import Examination
from .formats import format_of
from .source import Source
from .spec.dtypes import OAM_BY_CODE, OAM_DTYPES, ScalarType

if TYPE_CHECKING:
    from .ocannl._anatomy import Training
    from .ocannl._nodes import Atom

__all__ = ["Contents", "Entry", "contents_of", "oam_name", "oam_place", "ocannl_names", "sorted_by_bytes"]

DENSE: Final = "dense"

# Names that mean something else than a weight, and such names behind any number of escapes.
_RESERVED: Final = re.compile(r"(?:weights/)*(?:state/.|optimizer/(?:first|second)_moment\Z)", re.DOTALL)
_ESCAPE: Final = "weights/"


def oam_name(section: str, name: str) -> str:
    """Return the name that a tensor of an ``.oam`` file has across formats.

    ``section`` is ``weights``, ``state`` or ``optimizer``; the tensors of the last are ``first_moment`` and
    ``second_moment``. A weight keeps its name, unless it reads like that of a state tensor or a moment, perhaps after
    some ``weights/``: then one more ``weights/`` is put before it. No two tensors get the same name.
    """
    if section != "weights":
        return f"{section}/{name}"
    return _ESCAPE + name if _RESERVED.match(name) else name


def oam_place(name: str) -> tuple[str, str]:
    """Return section and name of the tensor of an ``.oam`` file that has a name across formats.

    The inverse of ``oam_name``, for any text: what no other section claims is a weight.
    """
    if not _RESERVED.match(name):
        return "weights", name
    section, _, rest = name.partition("/")
    return section, rest


class _Labelled(Protocol):
    @property
    def namespace(self) -> Atom: ...
    @property
    def id(self) -> int: ...
    @property
    def label(self) -> tuple[Atom, ...]: ...


def ocannl_names(nodes: Iterable[_Labelled]) -> list[str]:
    r"""Return the names that the tensors of an OCANNL checkpoint have across formats, in their order.

    A name is the words of the label, joined with dots. Where that is empty, or where another tensor of the file has
    the same or is called ``NAMESPACE:ID`` so, the name is ``NAMESPACE:ID``. Bytes that are not UTF-8 are written as
    ``\xff``; a backslash of a namespace is then doubled. The order of the tensors does not matter.
    """
    labels, keys = [], []
    for node in nodes:
        labels.append(".".join(_text(word) for word in node.label))
        keys.append(f"{_escaped(node.namespace)}:{node.id}")
    often = Counter(labels)
    taken = set(keys)
    return [
        label if label and often[label] == 1 and label not in taken else key
        for label, key in zip(labels, keys, strict=True)
    ]


def _text(word: Atom) -> str:
    return word if isinstance(word, str) else word.decode("utf-8", "backslashreplace")


def _escaped(word: Atom) -> str:
    """Return an atom as text from which it can be told."""
    raw = word.encode() if isinstance(word, str) else word
    return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def sorted_by_bytes(names: Iterable[str]) -> list[str]:
    """Return names in the order of their UTF-8 bytes."""
    return sorted(names, key=str.encode)


# ------------------------------------------------------------------------------------------------------------ the view


class Entry(NamedTuple):
    """A tensor: what it is, and where its payload lies in the source. Offset and size are in bytes.

    The payload is little-endian and row-major; that of a quantized tensor is its blocks as they are stored. ``shape``
    is that of what is stored: the margins of a padded tensor are no part of it.
    """

    name: str
    scalar: ScalarType
    shape: tuple[int, ...]
    encoding: str
    offset: int
    size: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def form(self) -> tuple[str, tuple[int, ...], str]:
        """What the elements are, how many, and how they are encoded."""
        return self.scalar.name, self.shape, self.encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A file's tensors by name, in the order of the file, and its facts.

    ``facts`` is everything else that a file says, as text by name, apart from how it is laid out: format, version,
    order, alignment and padding are no facts. What can be absent and is, has no fact. Floats are their bits, blobs
    lower-case hex. ``payload`` is the number of bytes of all tensors.
    """

    source: Source
    format: str
    version: int | None
    tensors: dict[str, Entry]
    facts: dict[str, str]

    @property
    def payload(self) -> int:
        """Bytes of all tensors."""
        return sum(entry.size for entry in self.tensors.values())

    def by_place(self) -> list[Entry]:
        """Return the tensors in the order in which their payloads lie in the source."""
        return sorted(self.tensors.values(), key=lambda entry: entry.offset)


def contents_of(source: Source, *, verify: bool = False) -> Contents:
    """Return what is in an open source; no payload is touched, unless ``verify`` asks for the checksums of ``.oam``.

    Raises FormatError if a reader must refuse the file.
    """
    return _VIEWS[format_of(source)](source, verify)


def _text_of(value: Any) -> str:
    """Return a value of a neutral document as the text of a fact."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _oam(source: Source, verify: bool) -> Contents:
    from .oam._anatomy import CONFIG_DERIVED, OPTIMIZER_DERIVED
    from .oam._examine import examine
    from .oam._tensors import ENCODING_NAMES
    from .record_documents import to_document
    from .spec.schema import OamConfig, OamOptimizer, OamProgress

    anatomy = examine(Examination(source, verify=verify))
    assert anatomy is not None  # reading raises before it gives up
    tensors: dict[str, Entry] = {}
    for section, index in anatomy.indexes.items():
        columns = index.entries
        keys = ("dtype", "rank", "encoding", "blob_offset", "num_bytes", "shape")
        for label, code, rank, encoding, offset, size, shape in zip(
            index.names, *(columns[key].tolist() for key in keys), strict=True
        ):
            name = oam_name(section, label or "")
            where = index.blob + offset
            tensors[name] = Entry(name, OAM_BY_CODE[code], tuple(shape[:rank]), ENCODING_NAMES[encoding], where, size)
    for label, (offset, size) in zip(("first_moment", "second_moment"), anatomy.moments, strict=False):
        name, scalar = oam_name("optimizer", label), OAM_DTYPES["f32"]
        tensors[name] = Entry(name, scalar, (size // scalar.size,), DENSE, offset, size)
    facts: dict[str, str] = {}
    for part, record, values, derived in (
        ("config", OamConfig, anatomy.config, CONFIG_DERIVED),
        ("optimizer", OamOptimizer, anatomy.optimizer, OPTIMIZER_DERIVED),
        ("progress", OamProgress, anatomy.progress, ()),
    ):
        if values is not None:
            document = to_document(record, values, derived)
            facts |= {f"{part}.{key}": _text_of(value) for key, value in document.items()}
    facts["config.arch_config"] = bytes(source.read(*anatomy.arch_config)).hex()
    return Contents(source=source, format="oam", version=anatomy.version, tensors=tensors, facts=facts)


def _safetensors(source: Source, verify: bool) -> Contents:
    from .safetensors import anatomy_of

    anatomy = anatomy_of(source)
    tensors: dict[str, Entry] = {}
    entry: Any
    for entry in anatomy.entries:
        size = entry.end - entry.begin
        tensors[entry.name] = Entry(entry.name, entry.dtype, entry.shape, DENSE, anatomy.data + entry.begin, size)
    facts = dict(anatomy.metadata or {})
    return Contents(source=source, format="safetensors", version=None, tensors=tensors, facts=facts)


def _ocannl(source: Source, verify: bool) -> Contents:
    from . import neutral
    from .ocannl._read import anatomy_of, node_of

    anatomy = anatomy_of(source)
    nodes = [node_of(entry) for entry in anatomy.entries]
    names = ocannl_names(nodes)
    tensors: dict[str, Entry] = {}
    facts: dict[str, str] = {}
    place: Any
    for name, node, place in zip(names, nodes, anatomy.entries, strict=True):
        offset = anatomy.data + place.offset
        tensors[name] = Entry(name, node.scalar, node.stored, DENSE, offset, node.size)
        facts[f"tensors.{name}.node"] = f"{_escaped(node.namespace)}:{node.id}"
        if node.label:
            facts[f"tensors.{name}.label"] = neutral.dump_json([_escaped(word) for word in node.label])
        if node.padding is not None:
            margins = " ".join(f"{left}+{right}" for left, right in node.padding.axes)
            facts[f"tensors.{name}.padding"] = f"{margins} of {neutral.float_bits(node.padding.bits, 64)}"
    if anatomy.training is not None:
        keys = {(node.namespace, node.id): name for name, node in zip(names, nodes, strict=True)}
        facts |= _training(anatomy.training, keys)
    return Contents(source=source, format="ocannl", version=anatomy.version, tensors=tensors, facts=facts)


def _training(training: Training, names: dict[tuple[Atom, int], str]) -> dict[str, str]:
    from .ocannl._read import record_of

    record = record_of(training)
    facts = {f"training.{key}": str(getattr(record, key)) for key in ("step", "epoch", "position")}
    if record.host_rng is not None:
        facts["training.host_rng"] = record.host_rng.hex()
    if record.seeds is not None:
        facts["training.seeds"] = " ".join(map(str, record.seeds))
    facts |= {f"training.extra.{_escaped(key)}": _escaped(value) for key, value in record.extra}
    facts |= {f"training.state.{names[key]}": "true" for key in record.state}
    return facts


_VIEWS: Final = {"oam": _oam, "ocannl": _ocannl, "safetensors": _safetensors}
