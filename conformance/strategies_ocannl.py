"""Hypothesis strategies for OCANNL checkpoints: documents, headers in odd layouts, damaged files.

What the header of a document says is put together here, apart from the reference's writer. ``spell`` and ``damage``
take any ``random.Random``, so that they serve outside of hypothesis too.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from .. import sexp
from ..sexp import Sexp
from ..spec.dtypes import OCANNL_PRECISIONS
from ..spec.schema import (
    OCANNL_ALIGNMENT,
    OCANNL_HEADER,
    OCANNL_INT_MAX,
    OCANNL_NAMESPACE,
    OCANNL_PRECISION_SUFFIX,
    OCANNL_SEEDS_VERSION,
    OCANNL_TENSOR,
    OCANNL_TRAINING,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    Key,
    OcannlFrame,
)

__all__ = ["damage", "damaged_ocannl_files", "header_of", "ocannl_documents", "ocannl_layouts", "raw_atom", "spell"]

Document = dict[str, Any]
_FRAME: Final = OcannlFrame.sizeof()

# ----------------------------------------------------------------------------------------------------------- documents

_ODD_ATOMS: Final = (
    *(b"", b" ", b"a b", b"#", b"|", b"#|", b"a|#b", b"#;", b";", b"(", b")", b'"', b"\\", b"\\n", b"\\q", b"a\\"),
    *(b"\n", b"\r", b"\r\n", b"\t", b"\v", b"\f", b"\0", b"\x7f", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\xc3"),
    *(b"none", b"some", b"0", b"-1", b"1_0", b"0x10", b"tensors", b"x" * 70, b"line one\nline two\n"),
)
_NATURALS: Final = st.integers(0, 9) | st.integers(0, OCANNL_INT_MAX) | st.just(OCANNL_INT_MAX)
_SEEDS: Final = st.integers(-OCANNL_INT_MAX - 1, OCANNL_INT_MAX) | st.sampled_from([-1, 0, -OCANNL_INT_MAX - 1])


def _atoms(*, empty: bool = True) -> st.SearchStrategy[bytes]:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(str.encode)
    made = st.sampled_from(_ODD_ATOMS) | st.binary(max_size=4) | texts
    return made if empty else made.filter(bool)


def _neutral(atom: bytes) -> Any:
    """Return an atom as documents spell it."""
    try:
        return atom.decode()
    except UnicodeDecodeError:
        return {"bytes": atom.hex()}


def raw_atom(atom: Any) -> bytes:
    """Return the bytes of an atom of a document."""
    return bytes.fromhex(atom["bytes"]) if isinstance(atom, dict) else atom.encode()


@st.composite
def _tensor(draw: Any, namespace: bytes, number: int) -> Document:
    precision = draw(st.sampled_from(list(OCANNL_PRECISIONS)))
    stored = draw(st.lists(st.integers(0, 4), max_size=4).filter(lambda extents: math.prod(extents) <= 24))
    dims, padding = list(stored), None
    if draw(st.booleans()):
        margin = st.integers(0, 3) | st.just(1 << 10)
        axes = [(draw(margin), draw(margin)) for _ in stored]
        dims = [extent + left + right for extent, (left, right) in zip(stored, axes, strict=True)]
        floats = st.floats(width=64).filter(lambda number: number == number)
        number_bits = floats.map(lambda value: struct.unpack("<Q", struct.pack("<d", value))[0])
        bits = draw(number_bits | st.sampled_from([0x7FF8 << 48, 0xFFF8 << 48, 1 << 63, 1]))
        padding = {"axes": [[str(left), str(right)] for left, right in axes], "neutral": f"0x{bits:016x}"}
    size = math.prod(stored) * OCANNL_PRECISIONS[precision].size
    return {
        "namespace": _neutral(namespace),
        "id": str(number),
        "label": [_neutral(word) for word in draw(st.lists(_atoms(), max_size=3))],
        "precision": precision,
        "dims": [str(extent) for extent in dims],
        "padding": padding,
        "data": draw(st.binary(min_size=size, max_size=size)).hex(),
    }


@st.composite
def _training(draw: Any, keys: Sequence[tuple[bytes, int]]) -> Document:
    version = draw(st.sampled_from(OCANNL_TRAINING_VERSIONS))
    state = draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    extra = draw(st.lists(st.tuples(_atoms(), _atoms()), max_size=3, unique_by=lambda pair: pair[0]))
    seeds = [str(seed) for seed in draw(st.lists(_SEEDS, max_size=3))]
    rng = draw(st.none() | st.binary(max_size=8) | st.binary(min_size=32, max_size=32).map(lambda raw: b"lxm1:" + raw))
    return {
        "version": version,
        **{key.name: str(draw(_NATURALS)) for key in OCANNL_TRAINING if key.kind == "int" and key.name != "version"},
        "host_rng": None if rng is None else rng.hex(),
        "extra": [[_neutral(key), _neutral(value)] for key, value in extra],
        "seeds": seeds if version >= OCANNL_SEEDS_VERSION else None,
        "state": [[_neutral(namespace), str(number)] for namespace, number in state],
    }


@st.composite
def ocannl_documents(draw: Any) -> Document:
    """Neutral documents of OCANNL checkpoints that every encoder must write."""
    namespaces = st.just(OCANNL_NAMESPACE.encode()) | _atoms(empty=False)
    keys = draw(st.lists(st.tuples(namespaces, _NATURALS), max_size=4, unique=True))
    tensors = [draw(_tensor(namespace, number)) for namespace, number in keys]
    return {
        "format": "ocannl",
        "version": OCANNL_VERSION,
        "alignment": draw(st.sampled_from([OCANNL_ALIGNMENT, 1, 2, 3, 8, 64, 100, 4096])),
        "tensors": tensors,
        "training": draw(st.none() | _training(keys)) if keys else None,
    }


# ------------------------------------------------------------------------------------------------------------- headers


def _junk(random: Random, depth: int = 0) -> Sexp:
    """Return any expression: what nobody asks for may be anything."""
    if depth > 3 or random.random() < 0.6:
        return random.choice(_ODD_ATOMS)
    return tuple(_junk(random, depth + 1) for _ in range(random.randrange(4)))


def _odd_int(random: Random, number: int) -> bytes:
    sign, size = ("-" if number < 0 else random.choice(["", "+"])), abs(number)
    digits = random.choice(
        [f"{size}", f"0{size}", f"{size}_", f"0x{size:x}", f"0X{size:X}", f"0o{size:o}", f"0b{size:b}"]
    )
    if size < OCANNL_INT_MAX:
        digits = random.choice([digits, f"0u{size}", "_".join(str(size)) + "__"])
    return (sign + digits).encode()


def _odd_float(random: Random, number: float) -> bytes:
    if math.isnan(number):
        return (b"-" if math.copysign(1.0, number) < 0 else random.choice([b"", b"+"])) + random.choice(
            [b"nan", b"NaN"]
        )
    if math.isinf(number):
        return (b"-" if number < 0 else random.choice([b"", b"+"])) + random.choice([b"inf", b"INF", b"Infinity"])
    forms = [repr(number), f"{number:.17g}", f"{number:.17e}", f"{number:.17e}_"]
    if abs(number) >= 2.0**-1022:  # smaller ones OCaml rounds twice
        forms.append(number.hex())
    return random.choice(forms).encode()


class _Writer:
    """Turns a document into a tree; a source of randomness makes it odd, and ``asked`` gathers what that breaks."""

    def __init__(self, random: Random | None) -> None:
        self.random = random
        self.asked: set[str] = set()

    def chance(self, of: float) -> bool:
        return self.random is not None and self.random.random() < of

    def integer(self, number: Any) -> bytes:
        plain = b"%d" % int(number)
        return self._spelled(plain, _odd_int(self.random, int(number))) if self.random and self.chance(0.1) else plain

    def real(self, bits: str) -> bytes:
        (number,) = struct.unpack("<d", struct.pack("<Q", int(bits, 16)))
        plain = sexp.format_float(number)
        return self._spelled(plain, _odd_float(self.random, number)) if self.random and self.chance(0.3) else plain

    def _spelled(self, plain: bytes, odd: bytes) -> bytes:
        if odd != plain:
            self.asked.add("OCANNL-REC-SPELLING")
        return odd

    def namespace(self, name: Any, rule: str) -> bytes:
        if name == OCANNL_NAMESPACE and self.chance(0.3):
            self.asked.add(rule)
            return b""
        return raw_atom(name)

    def record(self, table: Sequence[Key], values: dict[str, Sexp]) -> Sexp:
        pairs: list[tuple[Sexp, ...]] = [(key.name.encode(), values[key.name]) for key in table if key.name in values]
        random = self.random
        if random is None:
            return tuple(pairs)
        if self.chance(0.15):
            plain = list(pairs)
            random.shuffle(pairs)
            self.asked |= {"OCANNL-REC-ORDER"} if pairs != plain else set()
        if self.chance(0.15):
            at = random.randrange(len(pairs))
            repeated = (pairs[at][0], _junk(random))
            pairs.insert(random.randrange(at + 1, len(pairs) + 1), repeated)
            self.asked.add("OCANNL-REC-REPEATED")
        if self.chance(0.15):
            known = {key.name.encode() for key in table}
            unknown = random.choice([atom for atom in (*_ODD_ATOMS, b"ID", b"axes") if atom not in known])
            pairs.insert(random.randrange(len(pairs) + 1), (unknown, _junk(random)))
            self.asked.add("OCANNL-REC-UNKNOWN")
        return tuple(pairs)

    def tensor(self, tensor: Document, offset: int) -> Sexp:
        padding: Sexp = b"none"
        if tensor["padding"] is not None:
            axes = tuple((self.integer(left), self.integer(right)) for left, right in tensor["padding"]["axes"])
            padding = (axes, self.real(tensor["padding"]["neutral"]))
        values: dict[str, Sexp] = {
            "id": self.integer(tensor["id"]),
            "namespace": self.namespace(tensor["namespace"], "OCANNL-TEN-LEGACY"),
            "label": tuple(map(raw_atom, tensor["label"])),
            "prec": (tensor["precision"].capitalize() + OCANNL_PRECISION_SUFFIX).encode(),
            "dims": tuple(map(self.integer, tensor["dims"])),
            "padding": padding,
            "offset": self.integer(offset),
            "byte_length": self.integer(len(tensor["data"]) // 2),
        }
        return self.record(OCANNL_TENSOR, values)

    def training(self, training: Document) -> Sexp:
        rng = training["host_rng"]
        state = [
            (self.namespace(name, "OCANNL-TRN-LEGACY"), self.integer(number)) for name, number in training["state"]
        ]
        counters = [key.name for key in OCANNL_TRAINING if key.kind == "int"]
        values: dict[str, Sexp] = {
            **{name: self.integer(training[name]) for name in counters},
            "host_rng": b"none" if rng is None else (b"some", bytes.fromhex(rng)),
            "extra": tuple((raw_atom(key), raw_atom(value)) for key, value in training["extra"]),
            "state": tuple(state),
        }
        if training["seeds"] is not None:
            values["seeds"] = tuple(map(self.integer, training["seeds"]))
        return self.record(OCANNL_TRAINING, values)


def header_of(document: Document, random: Random | None = None) -> tuple[Sexp, bytes, set[str]]:
    """Return the tree of a document's header, its data section, and the canonical rules that the tree breaks.

    It breaks none unless ``random`` is given.
    """
    writer = _Writer(random)
    data = bytearray()
    tensors = []
    for tensor in document["tensors"]:
        data += bytes(-len(data) % document["alignment"])
        tensors.append(writer.tensor(tensor, len(data)))
        data += bytes.fromhex(tensor["data"])
    values: dict[str, Sexp] = {"version": writer.integer(OCANNL_VERSION), "tensors": tuple(tensors)}
    if document["alignment"] == 1 and writer.chance(0.5):
        writer.asked.add("OCANNL-HDR-OLD")
    else:
        values["alignment"] = writer.integer(document["alignment"])
    if document["training"] is not None:
        values["training"] = writer.training(document["training"])
    return writer.record(OCANNL_HEADER, values), bytes(data), writer.asked


# ------------------------------------------------------------------------------------------------------------- layouts

_BLANKS: Final = (b" ", b" ", b"\n", b"\t", b"\f", b"\r\n", b"  \n ")
_COMMENTS: Final = (
    b";\n",
    b'; ( " #| |# ;\r\n',
    b"#||#",
    b'#| " |# \\" ( " ; #|#|;|#|# ) |#',
    b"#|\r\v\0\xff|#",
    b"#|||#",
)


def _string(random: Random, atom: bytes) -> bytes:
    """Return an atom in quotes, its bytes escaped in one way or another."""
    named = {b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r", b"\b": b"\\b", b'"': b'\\"', b"\\": b"\\\\", b"'": b"\\'"}
    parts: list[bytes] = []
    for at in range(len(atom)):
        byte = atom[at : at + 1]
        forms = [b"\\%03d" % byte[0], b"\\x%02x" % byte[0], b"\\x%02X" % byte[0], named.get(byte, byte)]
        if byte not in b' \t"\\':
            forms += [byte, byte, byte, b"\\\n \t" + byte, b"\\\r\n" + byte]
        if byte == b"\n" and at and atom[at - 1 : at] in (b"\r", b"\\"):
            forms = [b"\\n"]  # bare, it would make of what stands before it a continuation line
        if byte == b"\\" and atom[at + 1 : at + 2] in (b"q", b"("):
            forms = [b"\\\\", b"\\"]  # the escapes \q and \( are unknown
            if random.choice(forms) == b"\\":
                return b'"' + b"".join(parts) + b"\\" + atom[at + 1 : at + 2] + _string(random, atom[at + 2 :])[1:]
            parts.append(b"\\\\")
            continue
        parts.append(random.choice(forms))
    return b'"' + b"".join(parts) + b'"'


def _blank(random: Random, plain: float, *, last: bool = False) -> bytes:
    """Return blanks and comments, that begin and end with a blank."""
    made = random.choice(_BLANKS)
    while random.random() > plain:
        made += random.choice(_COMMENTS) if random.random() < 0.7 else _dropped(random, last)
        made += random.choice(_BLANKS)
    return made


def _dropped(random: Random, last: bool) -> bytes:
    """Return a comment of an expression; of a list if it may be the text's last, whose blanks are stripped."""
    junk = _junk(random)
    return b"#;" + random.choice([b"", b" "]) + spell(random, (junk,) if last else junk, 1.0)


def spell(random: Random, tree: Sexp, plain: float = 0.9) -> bytes:
    """Return a text of a tree: blanks, comments, needless quotes and escapes as chance wants it."""
    if isinstance(tree, bytes):
        quoted = sexp.needs_quotes(tree) or random.random() < 0.1
        return _string(random, tree) if quoted else tree
    parts = [b"("]
    for item in tree:
        made = spell(random, item, plain)
        needless = parts[-1][-1:] in b'()"' or made[:1] in b'()"'
        if not needless or random.random() < 0.7:
            parts.append(_blank(random, plain))
        parts.append(made)
    if random.random() < 0.2:
        parts.append(_blank(random, plain))
    return b"".join([*parts, b")"])


def _framed(text: bytes, data: bytes) -> bytes:
    frame: bytes = OcannlFrame.build({"header_length": len(text)})
    return frame + text + data


@st.composite
def ocannl_layouts(draw: Any) -> tuple[Document, bytes, set[str]]:
    """Files whose header is laid out oddly: the document, the file, and the canonical rules that it breaks."""
    document = draw(ocannl_documents())
    random = draw(st.randoms(use_true_random=True))
    tree, data, asked = header_of(document, random if draw(st.booleans()) else None)
    plain = draw(st.sampled_from([1.0, 0.95, 0.7, 0.5]))
    text = _blank(random, plain) + spell(random, tree, plain) + _blank(random, plain, last=True)
    if random.random() < 0.1:
        text = random.choice([b"\v" + text, text + b"\r", b" \r " + text, text + b"\v "])
        asked.add("OCANNL-TXT-BLANKS")
    return document, _framed(text + b" " * (-(_FRAME + len(text)) % document["alignment"]), data), asked


# -------------------------------------------------------------------------------------------------------------- damage

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+', re.DOTALL)
_NUMBER: Final = re.compile(rb"(?<=[ (\n])-?[0-9]+(?=[ )\n])")
_NUMBERS: Final = tuple(
    b"%d" % (sign * number + step)
    for number in (0, 1, 8, 32, 1 << 26, 1 << 31, 1 << 32, 1 << 53, 1 << 61, 1 << 62, 1 << 63, 1 << 64, 10**30)
    for sign in (1, -1)
    for step in (-1, 0, 1)
)
_FRAGMENTS: Final = (
    *(
        b"(",
        b")",
        b'"',
        b"\\",
        b";",
        b"#;",
        b"#|",
        b"|#",
        b"\r",
        b"\r\n",
        b"\v",
        b"\f",
        b"\0",
        b"\xff",
        b"\n",
        b" ",
        b"|",
    ),
    *(b"()", b"none", b"nan", b"1e400", b"0x1p3", b"0x10", b"1_0", b"+1", b"-0", b"(a b)", b"#;x ", b"#|x|#", b'""'),
    *(b"((0 0))", b"(alignment 8)", b"(training none)", b"(tensors ())", b"(some x)", b"Half_prec", b"ocannl"),
)


def _spans(text: bytes) -> list[tuple[int, int]]:
    """Return start and end of all expressions, as far as that is plain to see."""
    spans, opened = [], []
    for match in _TOKEN.finditer(text):
        if match[0] == b"(":
            opened.append(match.start())
        elif match[0] != b")":
            spans.append(match.span())
        elif opened:
            spans.append((opened.pop(), match.end()))
    return spans


def _any_bytes(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text) + 1)
    end = min(at + random.choice([0, 0, 1, 1, 2, 9]), len(text))
    new = random.choice([b"", bytes([random.randrange(256)]), random.choice(_FRAGMENTS), text[at:end] * 2])
    return text[:at] + new + text[end:]


def _bit(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text)) if text else 0
    return text[:at] + bytes(byte ^ 1 << random.randrange(8) for byte in text[at : at + 1]) + text[at + 1 :]


def _number(random: Random, text: bytes) -> bytes:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    near = b"%d" % (int(match[0][:20]) + random.choice([-8, -4, -1, 1, 4, 8]))
    other = random.choice(found)[0]
    return text[: match.start()] + random.choice([near, other, random.choice(_NUMBERS)]) + text[match.end() :]


def _expression(random: Random, text: bytes) -> bytes:
    """Remove, double, replace, wrap or swap expressions."""
    spans = _spans(text)
    if not spans:
        return text
    (start, end), (other, beyond) = sorted([random.choice(spans), random.choice(spans)])
    one, two = text[start:end], text[other:beyond]
    if end <= other and random.random() < 0.4:
        return text[:start] + two + text[end:other] + one + text[beyond:]
    made = random.choice([b"", one + b" " + one, two, b"(" + one + b")", random.choice(_FRAGMENTS)])
    return text[:start] + made + text[end:]


_EDITS: Final[Sequence[Callable[[Random, bytes], bytes]]] = (
    _any_bytes,
    _bit,
    _number,
    _number,
    _expression,
    _expression,
)


def damage(random: Random, data: bytes) -> bytes:
    """Return a file with something changed: bytes, its length, or what its header says."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        length = int.from_bytes(data[:_FRAME], "big")
        kind = random.random()
        if kind < 0.05:
            data = data[: random.randrange(len(data) + 1)]
        elif kind < 0.15 or not 0 < length <= len(data) - _FRAME:
            data = random.choice([_any_bytes, _bit])(random, data)
        else:
            text, rest = data[_FRAME : _FRAME + length], data[_FRAME + length :]
            text = random.choice(_EDITS)(random, text)
            new = _framed(text, rest)
            data = data[:_FRAME] + new[_FRAME:] if random.random() < 0.1 else new
    return data


@st.composite
def damaged_ocannl_files(draw: Any) -> bytes:
    """Files that were sound before something happened to them."""
    _, data, _ = draw(ocannl_layouts())
    return damage(draw(st.randoms(use_true_random=True)), data)
