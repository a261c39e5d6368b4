"""Foreign content in a file: how the tensors look there, and the passenger, which holds whatever has no place.

The passenger is JSON, ``{"passenger": 1, "document": ...}``: the neutral document of the original, with, in place of
each payload's digits, the name of the tensor that holds the payload. ``docs/conversion.md`` is its definition.

A file that carries a passenger is called a *carrier*. ``carry`` makes one, ``restore`` goes back. ``restore`` trusts
nothing: it makes the carrier of what the passenger describes, and that must be the file at hand.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import neutral
from ..contents import oam_place
from ..errors import ArgumentError
from ..spec.dtypes import ScalarType
from ..spec.layout import field
from ..spec.schema import (
    OAM_TENSOR_SECTIONS,
    OCANNL_ALIGNMENT,
    OCANNL_INT_MAX,
    OCANNL_NAMESPACE,
    OCANNL_SEEDS_VERSION,
    OCANNL_VERSION,
    SAFETENSORS_METADATA,
    OamTensor,
)
from ..text import printable, shorten
from ._content import MOMENTS, Content, Payload, dtype_name, parse, prepare, scalar_named, slots, take, views

__all__ = [
    "ARCHITECTURE",
    "KEY",
    "VERSION",
    "Mismatch",
    "carry",
    "fitted",
    "form_of",
    "has_passenger",
    "restore",
    "without_passenger",
]

KEY: Final = "ckptspec.passenger"
"""The key of the passenger in a safetensors file's metadata and in an OCANNL training record's extra pairs."""
ARCHITECTURE: Final = "ckptspec-passenger"
"""The architecture of an ``.oam`` file whose arch_config is a passenger."""
VERSION: Final = 1
_STEP: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_EMPTY_LABEL: Final = "ckptspec.nothing"  # of the tensor without bytes that a training record needs if there is none
_NAME_BYTES: Final = field(OamTensor, "name").size - 1

# Other dtypes whose bytes are the same values. An element of several numbers has these in an axis of their own.
_EQUAL: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "bool": ("u8", ()),
    "c64": ("f32", (2,)),
    "c128": ("f64", (2,)),
    "u32x4": ("u32", (4,)),
    "void": ("u8", (0,)),
}


def form_of(scalar: ScalarType, shape: tuple[int, ...], format: str) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape by which a format's readers get the same values, or None if it has no such dtype.

    That is the dtype itself; or one whose bytes mean the same, perhaps with a last axis for the parts of an element.
    """
    name = dtype_name(scalar, format)
    if name is None and scalar.name in _EQUAL:
        part, lanes = _EQUAL[scalar.name]
        name, shape = dtype_name(scalar_named(part), format), (*shape, *lanes)
    return None if name is None else (name, shape)


# --------------------------------------------------------------------------------------------------------------- names


def fits(name: str, format: str) -> str | None:
    """Return why a format cannot hold a tensor of that name, or None if it can."""
    if format == "oam":
        within = placed(name, format)[1]
        size = len(within.encode())
        if not within:
            return "the name is empty"
        if "\0" in within:
            return "the name has a NUL"
        return f"the name takes {size} bytes, at most {_NAME_BYTES} fit" if size > _NAME_BYTES else None
    reserved = format == "safetensors" and name == SAFETENSORS_METADATA
    return "no tensor can have the name of the metadata" if reserved else None


def fitted(name: str, taken: Collection[str]) -> str:
    """Return a name like another that fits everywhere: its beginning, a tilde, and digits that depend on all of it."""
    digest = name
    while True:
        digest = hashlib.sha256(digest.encode()).hexdigest()[:16]
        head = name.replace("\0", "_").encode()[: _NAME_BYTES - 1 - len(digest)].decode("utf-8", "ignore")
        if f"{head}~{digest}" not in taken:
            return f"{head}~{digest}"


def placed(name: str, format: str) -> tuple[str, str]:
    """Return where a tensor of that name goes in another format: the section, if there are any, and the name there.

    A name that is ``state/NAME`` across formats is so in an ``.oam`` file too. Moments have no place there without an
    optimizer, and stay tensors.
    """
    if format != "oam":
        return "", name
    section, rest = oam_place(name)
    return (section, rest) if section in OAM_TENSOR_SECTIONS else ("weights", name)


def target_names(content: Content, format: str) -> list[str]:
    """Return the names of the tensors in another format, which takes all of them or has losses.

    Those of an OCANNL checkpoint are only made from its labels, so that they may be made to fit.
    """
    names = [view.name for view in views(content)]
    if content.format != "ocannl":
        return names
    taken: set[tuple[str, str]] = set()
    for row, name in enumerate(names):
        if fits(name, format) is not None or placed(name, format) in taken:
            names[row] = fitted(name, names)
        taken.add(placed(names[row], format))
    return names


# ------------------------------------------------------------------------------------------------------------ carriers


@dataclass(frozen=True, slots=True)
class _Item:
    """A tensor of a carrier."""

    key: str
    name: str
    dtype: str
    shape: list[str]
    payload: Payload


def carry(content: Content, format: str) -> Content:
    """Return a file of another format that carries a content which that format can hold."""
    items = []
    for row, (view, name) in enumerate(zip(views(content), target_names(content, format), strict=True)):
        form = form_of(view.scalar, view.shape, format)
        assert form is not None  # a loss otherwise
        section, inside = placed(name, format)
        key = str(row) if format == "ocannl" else f"{section}/{inside}" if section else inside
        items.append(_Item(key, name, form[0], [str(extent) for extent in form[1]], view.payload))
    document = copy.deepcopy(content.document)
    for slot, item in zip(slots(document), items, strict=True):
        slot.holder[slot.key] = item.key
    text = neutral.dump_json({"passenger": VERSION, "document": document})
    make = {"oam": _oam, "ocannl": _ocannl, "safetensors": _safetensors}[format]
    return make(content.document, items, text)


def _step(document: dict[str, Any]) -> int | None:
    """Return the training step that a document tells, or None if it tells none."""
    match document["format"]:
        case "oam":
            return int(document["progress"]["step"])
        case "ocannl":
            return None if document["training"] is None else int(document["training"]["step"])
        case _:
            text = (document["metadata"] or {}).get("step", "")
            return int(text) if _STEP.fullmatch(text) else None


def _oam(original: dict[str, Any], items: list[_Item], text: str) -> Content:
    from ..oam import Config, Model, Progress

    config = Config(architecture=ARCHITECTURE, config_version=VERSION, arch_config=text.encode())
    made = take(Model(config=config, progress=Progress(step=_step(original) or 0)), "oam")
    payloads = []
    for section in OAM_TENSOR_SECTIONS:
        for item in items:
            place, name = placed(item.name, "oam")
            if place == section:
                entry = {"name": name, "dtype": item.dtype, "shape": item.shape, "encoding": "dense", "data": ""}
                made.document[section].append(entry)
                payloads.append(item.payload)
    return Content(made.document, payloads)


def _ocannl(original: dict[str, Any], items: list[_Item], text: str) -> Content:
    tensors = [_node(item.key, item.name.split("."), item.dtype, item.shape) for item in items]
    payloads = [item.payload for item in items]
    if not tensors:  # a training record needs one
        tensors.append(_node("0", _EMPTY_LABEL.split("."), "void", []))
        payloads.append(memoryview(b""))
    step = _step(original) or 0
    training = {
        "version": OCANNL_SEEDS_VERSION,
        "step": str(step if 0 <= step <= OCANNL_INT_MAX else 0),
        "epoch": "0",
        "position": "0",
        "host_rng": None,
        "extra": [[KEY, text]],
        "seeds": [],
        "state": [[tensor["namespace"], tensor["id"]] for tensor in tensors],
    }
    document = {
        "format": "ocannl",
        "version": OCANNL_VERSION,
        "alignment": OCANNL_ALIGNMENT,
        "tensors": tensors,
        "training": training,
    }
    return Content(document, payloads)


def _node(key: str, label: list[str], precision: str, dims: list[str]) -> dict[str, Any]:
    return {
        "namespace": OCANNL_NAMESPACE,
        "id": key,
        "label": label,
        "precision": precision,
        "dims": dims,
        "padding": None,
        "data": "",
    }


def _safetensors(original: dict[str, Any], items: list[_Item], text: str) -> Content:
    metadata = {KEY: text}
    step = _step(original)
    if step is not None:
        metadata["step"] = str(step)
    if original["format"] == "oam":
        bits = int(original["progress"]["learning_rate"], 16)
        metadata["learning_rate"] = repr(float(np.uint32(bits).reshape(1).view(np.float32)[0]))
    ordered = sorted(items, key=lambda item: item.name.encode())
    tensors = [{"name": item.name, "dtype": item.dtype, "shape": item.shape, "data": ""} for item in ordered]
    document = {"format": "safetensors", "metadata": metadata, "tensors": tensors}
    return Content(document, [item.payload for item in ordered])


# ------------------------------------------------------------------------------------------------------ and back again


class Mismatch(Exception):  # noqa: N818  # becomes losses
    """A passenger that does not belong to the file that it is in, or is none. ``problems`` are (path, sentence)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__(problems)
        self.problems = problems


def has_passenger(document: dict[str, Any]) -> bool:
    """Say whether a file says that it carries a passenger."""
    return _text(document) is not None


def _text(document: dict[str, Any]) -> bytes | str | None:
    match document["format"]:
        case "oam":
            config = document["config"]
            return bytes.fromhex(config["arch_config"]) if config["architecture"] == ARCHITECTURE else None
        case "ocannl":
            for key, value in (document["training"] or {"extra": ()})["extra"]:
                if key == KEY:
                    return value if isinstance(value, str) else bytes.fromhex(value["bytes"])
            return None
        case _:
            text: str | None = (document["metadata"] or {}).get(KEY)
            return text


def without_passenger(content: Content) -> Content:
    """Return a carrier as if nobody knew of its passenger, without it."""
    document = copy.deepcopy(content.document)
    match content.format:
        case "oam":
            document["config"] |= {"architecture": "", "arch_config": ""}
        case "ocannl":
            document["training"]["extra"] = [pair for pair in document["training"]["extra"] if pair[0] != KEY]
        case _:
            del document["metadata"][KEY]
    return Content(document, content.payloads)


def restore(carrier: Content) -> Content:
    """Return the original that a carrier carries. Raises Mismatch if it is not the carrier that was once made of it."""
    from ._losses import fit

    try:
        original = _original(carrier)
        losses, _ = fit(original, carrier.format)
        prepare(original)
    except ArgumentError as error:
        raise Mismatch([("passenger", str(error))]) from None
    if losses:
        raise Mismatch([("passenger", f"it describes what the file cannot hold: {losses[0]}")])
    found, expected = _facts(carrier.document), _facts(carry(original, carrier.format).document)
    problems = [
        (
            shorten(path, 160),
            f"found {shorten(found.get(path, 'nothing'))}, the passenger says {shorten(expected.get(path, 'nothing'))}",
        )
        for path in (expected | found)
        if found.get(path) != expected.get(path) and path != "passenger"
    ]
    if not problems and found["passenger"] != expected["passenger"]:
        problems = [("passenger", "it takes the payloads from other tensors than it should")]
    if problems:
        raise Mismatch(problems)
    return original


def _original(carrier: Content) -> Content:
    """Return what the passenger describes, with the carrier's payloads. Raises ArgumentError."""
    text = _text(carrier.document)
    assert text is not None
    value = neutral.keys(neutral.parse_json(text), "passenger", ("passenger", "document"))
    neutral.number(value["passenger"], "version", (VERSION, VERSION))
    document = value["document"]
    given = list(_references(document))
    references = [neutral.text(holder[key], key) for holder, key in given]
    for holder, key in given:
        holder[key] = ""
    parse(document)
    if document["format"] == carrier.format:
        raise ArgumentError(f"found {document['format']}, which is the file's own", "format")
    held = _payloads(carrier)
    for name in references:
        if name not in held:
            raise ArgumentError(f"there is no tensor {_shown(name)}, where it looks for a payload")
    if len(slots(document)) != len(references):
        raise ArgumentError(f"it tells where {len(references)} payloads are, of {len(slots(document))}")
    return Content(document, [held[name] for name in references])


def _references(document: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the places where a document that nobody has looked at yet tells where its payloads are."""
    if not isinstance(document, dict):
        return
    for section in (*OAM_TENSOR_SECTIONS, "tensors"):
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and "data" in entry:
                yield entry, "data"
    optimizer = document.get("optimizer")
    if isinstance(optimizer, dict):
        for key in MOMENTS:
            if optimizer.get(key, "") != "":  # Muon has no second moment
                yield optimizer, key


def _payloads(carrier: Content) -> dict[str, Payload]:
    """Return a carrier's payloads by what passengers call them."""
    places = [slot for slot in slots(carrier.document) if slot.key == "data"]
    match carrier.format:
        case "oam":
            keys = [f"{slot.section}/{slot.holder['name']}" for slot in places]
        case "ocannl":
            keys = [slot.holder["id"] for slot in places]
        case _:
            keys = [slot.holder["name"] for slot in places]
    return dict(zip(keys, carrier.payloads, strict=False))  # what is left are moments, which no carrier has


def _shown(name: str) -> str:
    return f"'{printable(name)}'"


def _facts(document: dict[str, Any]) -> dict[str, str]:
    """Return everything but layout as paths and text: two carriers are the same where these are.

    The version of an ``.oam`` file, the alignment of an OCANNL file and the order of tensors are layout here.
    """
    made: dict[str, str] = {}
    for slot in slots(document):
        entry = {key: value for key, value in slot.holder.items() if key not in ("data", "id", "name", "namespace")}
        if slot.key != "data":
            made[slot.path] = "a moment"
        elif document["format"] == "ocannl":
            made[f"tensor {_atom(slot.holder['namespace'])}:{slot.holder['id']}"] = json.dumps(entry)
        else:
            encoding = entry.get("encoding", "dense")
            form = f"{entry['dtype']} [{', '.join(entry['shape'])}]" + (f" {encoding}" if encoding != "dense" else "")
            made[f"{slot.section or 'tensor'} {_shown(slot.holder['name'])}"] = form
    for key in ("config", "progress", "optimizer", "training", "metadata"):
        value = document.get(key)
        if not isinstance(value, Mapping):
            made[key] = json.dumps(value)
            continue
        for inner, content in value.items():
            if inner == "extra":
                made |= {f"training.extra {_atom(name)}": json.dumps(text) for name, text in content if name != KEY}
            elif inner not in (KEY, *MOMENTS) and (key, inner) != ("config", "arch_config"):
                made[f"{key}.{printable(inner)}"] = json.dumps(content)
    text = _text(document)
    assert text is not None
    made["passenger"] = json.dumps(neutral.parse_json(text), sort_keys=True)
    return made


def _atom(value: Any) -> str:
    return _shown(value) if isinstance(value, str) else f"bytes {value['bytes']}"
