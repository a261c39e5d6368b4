"""The state of a host random generator as bytes, and back: what the ``host_rng`` of a training checkpoint holds.

``capture`` takes a ``random.Random``, a ``numpy.random.Generator`` over one of numpy's own bit generators, or a
``numpy.random.RandomState``; ``rebuild`` gives a fresh generator of the same kind, whose stream goes on exactly where
that of the captured one went on. No pickle is involved, and bytes from anywhere are safe to rebuild.

A state is a tag, which ends with its version and a colon (``numpy.random.Generator/PCG64/1:``), and the fields of
``LAYOUTS`` one after the other, as unsigned little-endian integers; ``gauss`` is the bits of a float.

To a checkpoint, the state is a string of bytes without meaning (OCANNL checkpoints, training record), so that of
another implementation may stand there. That of OCaml 5 is recognised, and cannot be rebuilt in Python.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from ..errors import ArgumentError
from ..text import show

__all__ = ["LAYOUTS", "Field", "capture", "describe", "ocaml_words", "rebuild"]

Kind = TypeVar("Kind", random.Random, np.random.Generator, np.random.RandomState)

_VERSION: Final = 1
_RANDOM_VERSION: Final = 3  # of the tuple that random.Random.getstate() gives
_TWISTER_WORDS: Final = 624
_TAG: Final = re.compile(rb"([A-Za-z0-9_.]+(?:/[A-Za-z0-9_]+)?)/([0-9]{1,9}):")
_LONGEST_TAG: Final = 80

_OCAML_TAG: Final = b"lxm1:"
_OCAML: Final = struct.Struct("<4Q")


@dataclass(frozen=True, slots=True)
class Field:
    """A number of a generator's state, or ``count`` of them: its names in numpy's dictionary, its size in bytes.

    ``most`` is the largest value that the generator can work with; None where any will do.
    """

    path: tuple[str, ...]
    size: int
    count: int | None = None
    most: int | None = None

    @property
    def name(self) -> str:
        """The last of its names."""
        return self.path[-1]

    @property
    def total(self) -> int:
        """The number of bytes that it takes."""
        return self.size * (1 if self.count is None else self.count)


_HALF: Final = (Field(("has_uint32",), 1, most=1), Field(("uinteger",), 4))  # of a 64-bit number, left for later
_GAUSS: Final = (Field(("has_gauss",), 1, most=1), Field(("gauss",), 8))
_PCG: Final = (Field(("state", "state"), 16), Field(("state", "inc"), 16), *_HALF)
_TWISTER: Final = (Field(("state", "key"), 4, _TWISTER_WORDS), Field(("state", "pos"), 4, most=_TWISTER_WORDS))

_BIT_GENERATORS: Final[dict[str, tuple[Field, ...]]] = {
    "MT19937": _TWISTER,
    "PCG64": _PCG,
    "PCG64DXSM": _PCG,
    "Philox": (
        Field(("state", "counter"), 8, 4),
        Field(("state", "key"), 8, 2),
        Field(("buffer",), 8, 4),
        Field(("buffer_pos",), 1, most=4),
        *_HALF,
    ),
    "SFC64": (Field(("state", "state"), 8, 4), *_HALF),
}

_RANDOM: Final = "random.Random"
_GENERATOR: Final = "numpy.random.Generator"
_RANDOM_STATE: Final = "numpy.random.RandomState"

LAYOUTS: Final[dict[str, tuple[Field, ...]]] = {
    _RANDOM: (*_TWISTER, *_GAUSS),
    **{f"{_GENERATOR}/{name}": fields for name, fields in _BIT_GENERATORS.items()},
    **{f"{_RANDOM_STATE}/{name}": (*fields, *_GAUSS) for name, fields in _BIT_GENERATORS.items()},
}
"""The fields of each state, by the tag without its version."""


def capture(generator: Any) -> bytes:
    """Return the state of a generator as bytes; the generator stays as it is.

    The modules ``random`` and ``numpy.random`` stand for their global generators. Nobody may draw from the generator
    meanwhile. Raises ArgumentError for what is no such generator: subclasses, which may draw in another way, and bit
    generators that are not numpy's.
    """
    if generator is random or type(generator) is random.Random:
        return _encode(_RANDOM, _of_random(generator.getstate()))
    if generator is np.random or type(generator) is np.random.RandomState:
        values = dict(generator.get_state(legacy=False))
        values["gauss"] = _float_bits(values["gauss"])
        return _encode(f"{_RANDOM_STATE}/{values['bit_generator']}", values)
    if type(generator) is np.random.Generator:
        bits = generator.bit_generator
        name = type(bits).__name__
        if type(bits) is not getattr(np.random, name, None):
            raise ArgumentError(f"found a Generator with {show(name)}, which is not numpy's own", "generator")
        return _encode(f"{_GENERATOR}/{name}", bits.state)
    found = show(generator)
    raise ArgumentError(f"found {found}, expected a {_RANDOM}, {_GENERATOR} or {_RANDOM_STATE}", "generator")


def rebuild(state: bytes, kind: type[Kind]) -> Kind:
    """Return a new generator with a captured state. ``kind`` is the class that is expected, such as ``random.Random``.

    To set a global generator: ``random.setstate(rebuild(state, random.Random).getstate())``. A state is where the
    stream is, not the seed that it came from: ``spawn`` of a rebuilt numpy Generator raises TypeError. Raises
    ArgumentError for the state of another kind, and for bytes that are no state.
    """
    if not isinstance(kind, type) or kind not in _BUILDERS:
        expected = f"{_RANDOM}, {_GENERATOR} or {_RANDOM_STATE}"
        raise ArgumentError(f"found {show(getattr(kind, '__name__', kind))}, expected {expected}", "kind")
    wanted, build = _BUILDERS[kind]
    name, values = _decode(state)
    of, _, bit_generator = name.partition("/")
    if of != wanted:
        raise ArgumentError(f"found the state of a {_called(name)}, expected that of a {wanted}", "state")
    made = build(bit_generator, values)
    assert isinstance(made, kind)
    return made


def ocaml_words(state: bytes) -> tuple[int, int, int, int]:
    """Return the four 64-bit words of a state of OCaml 5's generator. Raises ArgumentError for anything else."""
    data = _bytes(state)
    if not data.startswith(_OCAML_TAG):
        raise ArgumentError(f"found {describe(data)}, expected a state of OCaml 5's generator", "state")
    if len(data) != len(_OCAML_TAG) + _OCAML.size:
        expected = len(_OCAML_TAG) + _OCAML.size
        raise ArgumentError(f"found {len(data)} bytes, expected {expected}, as OCaml 5's generator has", "state")
    first, second, third, fourth = _OCAML.unpack_from(data, len(_OCAML_TAG))
    return first, second, third, fourth


def describe(state: bytes) -> str:
    """Return in one line what a state is, whatever the bytes; ArgumentError only for what is no bytes."""
    data = _bytes(state)
    try:
        if data.startswith(_OCAML_TAG):
            return "OCaml 5's generator: " + " ".join(f"0x{word:016x}" for word in ocaml_words(data))
        name, values = _decode(data)
    except ArgumentError as error:
        return f"{len(data)} bytes that cannot be rebuilt: {error}"
    told = []
    for field in LAYOUTS[name]:
        value = values[field.name] if len(field.path) == 1 else values[field.path[0]][field.name]
        if field.name == "gauss":
            told.append(f"gauss {_float_of(value)!r}")
        elif field.count is None:
            told.append(f"{field.name} {value if field.most else hex(value)}")
        elif field.count <= 4:
            told.append(" ".join((field.name, *(f"0x{word:016x}" for word in value.tolist()))))
        else:
            told.append(f"{field.name} of {field.count} words")
    return f"{_called(name)}: {', '.join(told)}"


# ------------------------------------------------------------------------------------------------------------ encoding


def _bytes(state: Any) -> bytes:
    if not isinstance(state, (bytes, bytearray, memoryview)):
        hint = "; there is none" if state is None else ""
        raise ArgumentError(f"found {show(state)}, expected the bytes of a generator's state{hint}", "state")
    return bytes(state)


def _called(name: str) -> str:
    return name.replace("/", " with ")


def _encode(name: str, values: Mapping[str, Any]) -> bytes:
    if name not in LAYOUTS:
        raise ArgumentError(f"found a {show(_called(name))}, which is not known", "generator")
    parts = [f"{name}/{_VERSION}:".encode()]
    for field in LAYOUTS[name]:
        value: Any = values
        for key in field.path:
            value = value[key]
        words = [value] if field.count is None else list(value)
        parts += [_checked(field, int(word), "generator").to_bytes(field.size, "little") for word in words]
    return b"".join(parts)


def _checked(field: Field, word: int, path: str) -> int:
    most = (1 << 8 * field.size) - 1 if field.most is None else field.most
    if not 0 <= word <= most:
        raise ArgumentError(f"its {field.name} is {show(word)}, expected 0 to {most}", path)
    return word


def _decode(state: Any) -> tuple[str, dict[str, Any]]:
    """Return name and values of a state, as numpy's dictionaries have them, all checked."""
    data = _bytes(state)
    if data.startswith(_OCAML_TAG):
        raise ArgumentError("it is a state of OCaml 5's generator, which Python does not have", "state")
    match = _TAG.match(data[:_LONGEST_TAG])
    name = match[1].decode() if match else ""
    if match is None or name not in LAYOUTS:
        raise ArgumentError(f"{show(data[:40])} begins no state that is known", "state")
    if int(match[2]) != _VERSION:
        version = int(match[2])
        raise ArgumentError(f"found version {version} of a {_called(name)}, expected version {_VERSION}", "state")
    body = data[match.end() :]
    expected = sum(field.total for field in LAYOUTS[name])
    if len(body) != expected:
        raise ArgumentError(f"found {len(body)} bytes of a {_called(name)}, expected {expected}", "state")
    values: dict[str, Any] = {}
    for field, words in _words(LAYOUTS[name], body):
        inner = values
        for key in field.path[:-1]:
            inner = inner.setdefault(key, {})
        inner[field.name] = words[0] if field.count is None else np.array(words, f"<u{field.size}")
    return name, values


def _words(fields: tuple[Field, ...], body: bytes) -> Iterator[tuple[Field, list[int]]]:
    position = 0
    for field in fields:
        starts = range(position, position + field.total, field.size)
        words = [int.from_bytes(body[start : start + field.size], "little") for start in starts]
        yield field, [_checked(field, word, "state") for word in words]
        position += field.total


def _float_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _float_of(bits: int) -> float:
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    return float(value)


# ---------------------------------------------------------------------------------------------------------- generators


def _of_random(state: Any) -> dict[str, Any]:
    """Return what ``random.Random.getstate`` gave in numpy's words."""
    version, words, gauss = state
    if version != _RANDOM_VERSION or len(words) != _TWISTER_WORDS + 1:
        raise ArgumentError(f"found a state of version {show(version)}, expected {_RANDOM_VERSION}", "generator")
    if gauss is not None and not isinstance(gauss, float):
        raise ArgumentError(f"its gauss_next is {show(gauss)}, expected a float or None", "generator")
    return {
        "state": {"key": words[:-1], "pos": words[-1]},
        "has_gauss": gauss is not None,
        "gauss": 0 if gauss is None else _float_bits(gauss),
    }


def _build_random(_: str, values: dict[str, Any]) -> random.Random:
    if values["gauss"] and not values["has_gauss"]:
        raise ArgumentError("has_gauss is 0, and there is a gauss", "state")
    gauss = _float_of(values["gauss"]) if values["has_gauss"] else None
    words = (*values["state"]["key"].tolist(), values["state"]["pos"])
    made = random.Random(0)  # noqa: S311  # what it is used for is the caller's affair
    made.setstate((_RANDOM_VERSION, words, gauss))
    return made


class _Unseeded(ISeedSequence):
    """Where a rebuilt bit generator comes from: children of it would not be those of the captured one."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return zeros; a state replaces what comes of them."""
        return np.zeros(n_words, dtype)


def _bit_generator(name: str, values: dict[str, Any]) -> Any:
    made = getattr(np.random, name)(_Unseeded())
    made.state = {"bit_generator": name, **values}
    return made


def _build_generator(name: str, values: dict[str, Any]) -> np.random.Generator:
    return np.random.Generator(_bit_generator(name, values))


def _build_random_state(name: str, values: dict[str, Any]) -> np.random.RandomState:
    made = np.random.RandomState(_bit_generator(name, values))
    made.set_state({"bit_generator": name, **values, "gauss": _float_of(values["gauss"])})
    return made


_BUILDERS: Final[dict[Any, tuple[str, Callable[[str, dict[str, Any]], Any]]]] = {
    random.Random: (_RANDOM, _build_random),
    np.random.Generator: (_GENERATOR, _build_generator),
    np.random.RandomState: (_RANDOM_STATE, _build_random_state),
}
