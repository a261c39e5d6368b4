"""Training checkpoints that every reader reads, as a writer writes them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from ....spec.schema import OCANNL_INT_MAX, OCANNL_NAMESPACE
from ..definition import CaseBook
from .assemble import R, T, Text, file, ramp
from .parts import PAIR, W, many, valid_case
from .styles import STYLES

__all__ = ["define"]

INT_MIN: Final = -OCANNL_INT_MAX - 1
BOTH: Final = ((OCANNL_NAMESPACE, 0), (OCANNL_NAMESPACE, 1))

# Generator states: OCaml 5 writes the text and four little-endian 64-bit integers, 37 bytes in all.
STATES: Final = {
    "ocaml": b"lxm1:" + struct.pack("<4Q", 0x0123456789ABCDEF, 1, (1 << 64) - 1, 0x8000000000000000),
    "every_byte": bytes(range(256)),
    "empty": b"",
    "none": b"none",
    "some": b"(some x)",
    "long": ramp(5000),
}

EXTRA: Final[dict[str, tuple[tuple[Text, Text], ...]]] = {
    "one": (("loss_scale", "1024."),),
    "order": (("b", "2"), ("a", "1"), ("B", "3")),
    "empty": (("", ""),),
    "same_values": (("a", "x"), ("b", "x")),
    "odd": (("a b", '"'), ("(", ")"), (";", "#|"), ("\n", "\\"), ("é", "e\u0301")),
    "bytes": ((b"\xff", b"\x00\x80"), (b"\xfe", bytes(range(256)))),
    "near": (("k", "1"), ("k ", "2"), ("K", "3")),
    "many": tuple((f"key{at}", str(at)) for at in range(300)),
    "long": (("window", " ".join(str(at) for at in range(1000))),),
}

SEEDS: Final = {
    "none": (),
    "one": (42,),
    "negative": (-1, -42),
    "limits": (OCANNL_INT_MAX, INT_MIN, 0),
    "twice": (7, 7),
    "many": tuple(range(-100, 100)),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""

    def case(name: str, title: str, made: R, *items: T, rules: tuple[str, ...] = ()) -> None:
        data = file(*(items or (W,)), training=made)
        valid_case(book, f"training_{name}", title, data, "training", rules=rules, canonical=True)

    old = ("OCANNL-TRN-OLD",)
    case("minimal", "the state is the one tensor that there is", R())
    case("v1", "version 1: no seeds", R(version=1, seeds=None), rules=old)
    made = R(version=1, seeds=None, host_rng=STATES["ocaml"], extra=EXTRA["order"], state=BOTH)
    case("v1_full", "version 1 with all it may have", made, *PAIR, rules=old)
    made = R(host_rng=STATES["ocaml"], extra=EXTRA["order"], state=BOTH)
    case("full", "version 2 with all it may have", made, *PAIR)
    for name, raw in STATES.items():
        case(f"host_rng_{name}", f"a generator state of {len(raw)} bytes", R(host_rng=raw))
    for name, extra in EXTRA.items():
        case(f"extra_{name}", f"extra with {len(extra)} pairs", R(extra=extra))
    for name, seeds in SEEDS.items():
        case(f"seeds_{name}", f"{len(seeds)} seeds", R(seeds=seeds))
    for name, number in {"0": 0, "2_53": (1 << 53) + 1, "max": OCANNL_INT_MAX}.items():
        made = R(step=number, epoch=number, position=number)
        case(f"counters_{name}", f"step, epoch and position {number}", made)
    case("state_order", "a state in another order than the tensors", R(state=BOTH[::-1]), *PAIR)
    items = tuple(many(50, dims=(1,)))
    case("state_many", "a state of 50 tensors", R(state=tuple((OCANNL_NAMESPACE, item.id) for item in items)), *items)
    names: tuple[Text, ...] = ("x", b"\xff\x00", "a b", "ocannl")
    items = tuple(T(namespace=name, id=7) for name in names)
    case("state_namespaces", "a state from several namespaces", R(state=tuple((name, 7) for name in names)), *items)
    case("state_part", "a state of one of two tensors", R(), *PAIR, rules=("OCANNL-TRN-BEYOND",))
    empty = replace(W, dims=(0,), data=None)
    case("state_empty_tensor", "a state of a tensor without elements", R(), empty)
    made = R(host_rng=STATES["every_byte"], extra=EXTRA["odd"])
    for name in ("pretty", "tight", "comment_block", "comment_datum", "crlf", "quoted", "escaped_hex"):
        title, spell = STYLES[name]
        data = file(W, training=R() if name.startswith(("quoted", "escaped")) else made, spell=spell)
        tags = ("training", "sexp")
        valid_case(book, f"training_text_{name}", f"a training record, {title}", data, *tags)
