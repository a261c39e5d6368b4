"""A plain decoder of OCANNL checkpoint files, written apart from the reference to be held against it.

    python plain_ocannl_decoder.py FILE      print the neutral document of FILE (`-` or nothing: standard input)
    python plain_ocannl_decoder.py --batch   read paths from standard input, print one JSON line for each

Exit status: 0 decoded, 1 refused, 2 wrong usage or unreadable file, 3 a bug in this program.
"""

import json
import math
import re
import struct
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

MAX_HEADER = 100_000_000
MAX_DEPTH = 1_000
MAX_ALIGNMENT = 2**26
MIN_INT, MAX_INT = -(2**62), 2**62 - 1

DEFAULT_NAMESPACE = b"ocannl"
INTEGER_SIZES = {"void": 0, "byte": 1, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "uint4x32": 16}
FLOAT_SIZES = {"half": 2, "bfloat16": 2, "fp8": 1, "single": 4, "double": 8}
ELEMENT_SIZES = INTEGER_SIZES | FLOAT_SIZES
PRECISIONS = {name.capitalize().encode() + b"_prec": name for name in ELEMENT_SIZES}

Document = dict[str, object]
Node = tuple[bytes, int]


class Refused(ValueError):  # noqa: N818
    """The file is not one that a reader may accept."""

    def __init__(self, rule: str, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.error: Document = {"rule": rule, "offset": offset, "message": message}


# --- S-expressions --------------------------------------------------------------------------------------------------

BLANKS_OR_LINE_COMMENT = re.compile(rb"(?:[ \t\n\f]|\r\n|;[^\r\n]*)++")
BARE_ATOM = re.compile(rb'[^ \t\n\f\r()";]+')
QUOTED_ATOM = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
ESCAPE = re.compile(rb"\\(?:(\r?\n[ \t]*)|([0-9]{3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
LETTER_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b"}
SIMPLE_ESCAPES = LETTER_ESCAPES | {byte: byte for byte in (b'"', b"\\", b"'", b"\r")}
BLOCK_COMMENT_TOKEN = re.compile(rb'#\||\|#|"')


@dataclass
class Atom:
    """A byte string, and where in the file it starts."""

    text: bytes
    at: int


@dataclass
class Group:
    """A parenthesised list, where in the file it starts, and how many of its next items `#;` drops."""

    at: int
    items: list["Atom | Group"] = field(default_factory=list)
    to_drop: int = 0

    def add(self, item: "Atom | Group") -> None:
        if self.to_drop > 0:
            self.to_drop -= 1
        else:
            self.items.append(item)


Sexp = Atom | Group


def read_sexp(text: bytes, pos: int = 0) -> Sexp:
    """Return the one expression that the text holds from pos on."""
    # Open lists stand here and not on Python's own stack. The lowest entry is the whole text, which is no list.
    stack = [Group(pos)]
    while pos < len(text):
        start, pos = pos, pos + 1
        first = text[start:pos]
        if skipped := BLANKS_OR_LINE_COMMENT.match(text, start):
            pos = skipped.end()
        elif first == b"(":
            if len(stack) > MAX_DEPTH:
                raise Refused("depth", f"lists are nested deeper than {MAX_DEPTH}", start)
            stack.append(Group(start))
        elif first == b")":
            if len(stack) == 1 or stack[-1].to_drop > 0:
                raise Refused("sexp", "an unexpected closing parenthesis", start)
            closed = stack.pop()
            stack[-1].add(closed)
        elif first == b'"':
            atom, pos = quoted_atom(text, start)
            stack[-1].add(Atom(atom, start))
        elif text.startswith(b"#;", start):
            stack[-1].to_drop += 1
            pos = start + 2
        elif text.startswith(b"#|", start):
            pos = skip_block_comment(text, start)
        else:
            atom, pos = bare_atom(text, start)
            if pos == len(text) and len(stack) == 1 and stack[0].items:
                raise Refused("sexp", "nothing ends the atom that is dropped behind the expression", start)
            stack[-1].add(Atom(atom, start))
    if len(stack) > 1 or stack[0].to_drop > 0:
        raise Refused("sexp", "a list or a comment of an expression is not ended", stack[-1].at)
    if len(stack[0].items) != 1:
        raise Refused("sexp", f"the header holds {len(stack[0].items)} expressions, not one", stack[0].at)
    return stack[0].items[0]


def bare_atom(text: bytes, start: int) -> tuple[bytes, int]:
    """Return the atom and the position after it."""
    found = BARE_ATOM.match(text, start)
    if found is None:
        raise Refused("sexp", "a carriage return without a line feed", start)
    if b"#|" in found.group() or b"|#" in found.group():
        raise Refused("sexp", "a comment token inside a bare atom", start)
    return found.group(), found.end()


def quoted_atom(text: bytes, start: int) -> tuple[bytes, int]:
    """Return the atom without its quotes and escapes, and the position after it."""
    found = QUOTED_ATOM.match(text, start)
    if found is None:
        raise Refused("sexp", "a quoted atom is not closed", start)
    return ESCAPE.sub(unescaped, found.group(1)), found.end()


def unescaped(escape: re.Match[bytes]) -> bytes:
    continuation, decimal, hexadecimal, other = escape.groups()
    if continuation is not None:
        return b""
    if other is not None and other not in b"0123456789x":
        return SIMPLE_ESCAPES.get(other, b"\\" + other)
    code = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else None
    if code is None or code > 255:
        raise Refused("sexp", "a numeric escape lacks digits or passes 255")
    return bytes([code])


def skip_block_comment(text: bytes, start: int) -> int:
    """Return the position after the comment. Comments nest, and quoted atoms inside must be right."""
    depth, pos = 1, start + 2
    while depth > 0:
        token = BLOCK_COMMENT_TOKEN.search(text, pos)
        if token is None:
            raise Refused("sexp", "a block comment is not closed", start)
        if token.group() == b'"':
            _, pos = quoted_atom(text, token.start())
        else:
            depth += 1 if token.group() == b"#|" else -1
            pos = token.end()
    return pos


# --- atoms as values ------------------------------------------------------------------------------------------------

# The first digit must be one; underscores may follow it anywhere, also at the end.
INTEGER_FORMS = [
    (10, re.compile(rb"([+-]?)(?:0[uU])?([0-9][0-9_]*)")),
    (16, re.compile(rb"([+-]?)0[xX]([0-9a-fA-F][0-9a-fA-F_]*)")),
    (8, re.compile(rb"([+-]?)0[oO]([0-7][0-7_]*)")),
    (2, re.compile(rb"([+-]?)0[bB]([01][01_]*)")),
]
DIGITS_TO_TELL = 65  # of any base: a number of so many digits is too large

# Underscores are taken away first. Leading blanks, also of a hexadecimal number's exponent, are what C skips.
DECIMAL_FLOAT = re.compile(rb"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
SPECIAL_FLOAT = re.compile(rb"\s*([+-]?)(inf|infinity|nan)", re.IGNORECASE)
HEX_FLOAT = re.compile(rb"\s*([+-]?)0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?(?:[pP]\s*([+-]?)([0-9]+))?")
SPECIAL_BITS = {b"i": 0x7FF0000000000000, b"n": 0x7FF8000000000000}


def atom_text(value: Sexp, what: str) -> bytes:
    if not isinstance(value, Atom):
        raise Refused("kind", f"{what} is a list, not an atom", value.at)
    return value.text


def group_items(value: Sexp, what: str) -> list[Sexp]:
    if not isinstance(value, Group):
        raise Refused("kind", f"{what} is an atom, not a list", value.at)
    return value.items


def pair_items(value: Sexp, what: str) -> tuple[Sexp, Sexp]:
    items = group_items(value, what)
    if len(items) != 2:
        raise Refused("kind", f"{what} has {len(items)} elements, not two", value.at)
    return items[0], items[1]


def integer(value: Sexp, what: str, smallest: int = MIN_INT) -> int:
    text = atom_text(value, what)
    for base, form in INTEGER_FORMS:
        if found := form.fullmatch(text):
            digits = found.group(2).replace(b"_", b"").lstrip(b"0") or b"0"
            number = int(digits[:DIGITS_TO_TELL], base) * (-1 if found.group(1) == b"-" else 1)
            if smallest <= number <= MAX_INT:
                return number
    raise Refused("integer", f"{what} is not an integer within {smallest}..{MAX_INT}", value.at)


def parse_float_bits(text: bytes) -> int | None:
    """Return the 64 bits of the number, or None for what is no number."""
    text = text.replace(b"_", b"")
    if found := SPECIAL_FLOAT.fullmatch(text):
        return SPECIAL_BITS[found.group(2)[:1].lower()] | (1 << 63 if found.group(1) == b"-" else 0)
    if DECIMAL_FLOAT.fullmatch(text):
        number = float(text)
    elif (found := HEX_FLOAT.fullmatch(text)) and (found.group(2) or found.group(3)):
        number = hex_float(found)
    else:
        return None
    return int.from_bytes(struct.pack(">d", number), "big")


def hex_float(parts: re.Match[bytes]) -> float:
    """Convert as OCaml does: at most 60 bits of mantissa, rounded to 53 bits and again where the exponent is small."""
    sign, whole, fraction, exponent_sign, exponent_digits = (part or b"" for part in parts.groups())
    digits = (whole + fraction).lstrip(b"0")
    leading, rest = digits[:15], digits[15:]
    mantissa = int(leading or b"0", 16) | (1 if rest.strip(b"0") else 0)
    # The exponent is clamped: beyond a C int it decides alone.
    exponent = min(int(exponent_digits.lstrip(b"0")[:11] or b"0"), 2**31) * (-1 if exponent_sign == b"-" else 1)
    try:
        number = math.ldexp(mantissa, exponent + 4 * len(rest) - 4 * len(fraction))
    except OverflowError:
        number = math.inf
    return -number if sign == b"-" else number


def text_document(raw: bytes) -> object:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": raw.hex()}


# --- records --------------------------------------------------------------------------------------------------------


class Record:
    """A list of (key value) pairs. The first of repeated keys wins, and keys nobody asks for do no harm."""

    def __init__(self, value: Sexp, what: str) -> None:
        self.what = what
        self.at = value.at
        self.values: dict[bytes, Sexp] = {}
        for pair in group_items(value, what):
            key, content = pair_items(pair, f"a field of {what}")
            self.values.setdefault(atom_text(key, f"a key of {what}"), content)

    def value(self, key: str) -> Sexp:
        if key.encode() not in self.values:
            raise Refused("missing", f"{self.what} has no {key}", self.at)
        return self.values[key.encode()]

    def natural(self, key: str) -> int:
        return integer(self.value(key), f"{key} of {self.what}", smallest=0)

    def items(self, key: str) -> list[Sexp]:
        return group_items(self.value(key), f"{key} of {self.what}")

    def version(self, known: list[int]) -> int:
        version = self.natural("version")
        if version not in known:
            raise Refused("version", f"version {version} of {self.what} is unknown", self.value("version").at)
        return version


class Tensor:
    """One entry of the header, its fields checked one by one and against each other."""

    def __init__(self, value: Sexp, position: int) -> None:
        record = Record(value, f"tensor {position}")
        self.what, self.at = record.what, record.at
        self.node = decode_node(record.value("namespace"), record.value("id"))
        self.label = [atom_text(part, f"a label of {self.what}") for part in record.items("label")]
        self.precision = PRECISIONS.get(atom_text(record.value("prec"), f"prec of {self.what}"), "")
        if not self.precision:
            raise Refused("precision", f"prec of {self.what} is unknown", self.at)
        self.dims = [integer(dim, f"a dim of {self.what}", smallest=0) for dim in record.items("dims")]
        self.padding = decode_padding(record.value("padding"), f"padding of {self.what}")
        self.offset = record.natural("offset")
        self.byte_length = record.natural("byte_length")
        self.check_sizes()

    def check_sizes(self) -> None:
        expected = self.count_bytes(self.dims)
        if self.padding is not None:
            axes, _ = self.padding
            if len(axes) != len(self.dims):
                raise Refused("padding", f"padding of {self.what} has {len(axes)} axes", self.at)
            logical = [dim - left - right for dim, (left, right) in zip(self.dims, axes, strict=True)]
            if any(extent < 0 for extent in logical):
                raise Refused("padding", f"padding of {self.what} is wider than its axis", self.at)
            expected = self.count_bytes(logical)
        if self.byte_length != expected:
            raise Refused("length", f"{self.what} has {self.byte_length} bytes and not {expected}", self.at)

    def count_bytes(self, extents: list[int]) -> int:
        # Strictly left to right: an overflow counts even if a later factor is zero.
        total = 1
        for factor in [*extents, ELEMENT_SIZES[self.precision]]:
            total *= factor
            if total > MAX_INT:
                raise Refused("overflow", f"the size of {self.what} passes 63 bits", self.at)
        return total

    def document(self, data: bytes, data_start: int) -> Document:
        padding: Document | None = None
        if self.padding is not None:
            axes, neutral = self.padding
            padding = {"axes": [[str(left), str(right)] for left, right in axes], "neutral": f"0x{neutral:016x}"}
        start = data_start + self.offset
        return {
            "namespace": text_document(self.node[0]),
            "id": str(self.node[1]),
            "label": [text_document(part) for part in self.label],
            "precision": self.precision,
            "dims": [str(dim) for dim in self.dims],
            "padding": padding,
            "data": data[start : start + self.byte_length].hex(),
        }


def decode_node(namespace: Sexp, number: Sexp) -> Node:
    return atom_text(namespace, "a namespace") or DEFAULT_NAMESPACE, integer(number, "an id", smallest=0)


def decode_padding(value: Sexp, what: str) -> tuple[list[tuple[int, int]], int] | None:
    """Return the widths on the two sides of each axis, and the bits of the neutral value."""
    if isinstance(value, Atom) and value.text == b"none":
        return None
    widths, neutral = pair_items(value, what)
    axes: list[tuple[int, int]] = []
    for axis in group_items(widths, what):
        left, right = pair_items(axis, f"an axis of {what}")
        axes.append((integer(left, what, smallest=0), integer(right, what, smallest=0)))
    # The legacy spelling `none` is no number either.
    bits = parse_float_bits(atom_text(neutral, f"the neutral value of {what}"))
    if bits is None:
        raise Refused("neutral", f"the neutral value of {what} is not a number", neutral.at)
    return axes, bits


def decode_training(value: Sexp, present: set[Node]) -> Document:
    record = Record(value, "the training record")
    version = record.version([1, 2])
    if version == 1 and b"seeds" in record.values:
        raise Refused("seeds", "a training record of version 1 has seeds", record.at)
    return {
        "version": version,
        "step": str(record.natural("step")),
        "epoch": str(record.natural("epoch")),
        "position": str(record.natural("position")),
        "host_rng": decode_host_rng(record.value("host_rng")),
        "extra": decode_extra(record.items("extra"), record.at),
        "seeds": [str(integer(seed, "a seed")) for seed in record.items("seeds")] if version == 2 else None,
        "state": decode_state(record.items("state"), present, record.at),
    }


def decode_host_rng(value: Sexp) -> str | None:
    if isinstance(value, Atom) and value.text == b"none":
        return None
    tag, state = pair_items(value, "host_rng")
    if atom_text(tag, "the tag of host_rng") != b"some":
        raise Refused("kind", "host_rng is neither none nor (some <atom>)", value.at)
    return atom_text(state, "the state of host_rng").hex()


def decode_extra(entries: list[Sexp], at: int) -> list[object]:
    pairs = [[atom_text(part, "a part of extra") for part in pair_items(entry, "extra")] for entry in entries]
    if len({key for key, _ in pairs}) < len(pairs):
        raise Refused("duplicate", "a key of extra stands twice", at)
    return [[text_document(key), text_document(content)] for key, content in pairs]


def decode_state(entries: list[Sexp], present: set[Node], at: int) -> list[object]:
    nodes = [decode_node(*pair_items(entry, "an entry of state")) for entry in entries]
    if not nodes or len(set(nodes)) < len(nodes) or not present.issuperset(nodes):
        raise Refused("state", "state is empty, names a node twice, or names one that is not among the tensors", at)
    return [[text_document(namespace), str(number)] for namespace, number in nodes]


# --- the whole file -------------------------------------------------------------------------------------------------


def header_end(data: bytes) -> int:
    if len(data) < 4:
        raise Refused("header", f"the file has {len(data)} bytes, too few for a header length")
    length = int(struct.unpack_from(">i", data)[0])
    if not 0 <= length <= MAX_HEADER or 4 + length > len(data):
        raise Refused("header", f"header length {length} is not allowed, or passes the end of the file", 0)
    return 4 + length


def check_tensors(tensors: list[Tensor], data_start: int, file_size: int) -> set[Node]:
    """Return the nodes of the tensors."""
    nodes: set[Node] = set()
    for tensor in tensors:
        if tensor.node in nodes:
            raise Refused("duplicate", f"{tensor.what} has the namespace and id of an earlier one", tensor.at)
        nodes.add(tensor.node)
        # No file reaches 2^62 bytes, so this covers an end beyond 63 bits.
        if data_start + tensor.offset + tensor.byte_length > file_size:
            raise Refused("range", f"the payload of {tensor.what} passes the end of the file", tensor.at)
    filled = sorted((tensor for tensor in tensors if tensor.byte_length > 0), key=lambda tensor: tensor.offset)
    for before, after in pairwise(filled):
        if after.offset < before.offset + before.byte_length:
            raise Refused("overlap", f"the payloads of {before.what} and {after.what} overlap", after.at)
    return nodes


def decode(data: bytes) -> Document:
    """Return the neutral document of an OCANNL checkpoint, or raise Refused."""
    data_start = header_end(data)
    # Around the expression, also vertical tabs and lone carriage returns are white space, which the grammar refuses.
    expression_start = data_start - len(data[4:data_start].lstrip())
    header = Record(read_sexp(data[:data_start].rstrip(), expression_start), "the header")
    version = header.version([1])
    alignment = header.natural("alignment") if b"alignment" in header.values else 1
    if not 1 <= alignment <= MAX_ALIGNMENT:
        raise Refused("alignment", f"alignment {alignment} is not within 1..{MAX_ALIGNMENT}", header.at)
    tensors = [Tensor(entry, position) for position, entry in enumerate(header.items("tensors"))]
    nodes = check_tensors(tensors, data_start, len(data))
    return {
        "format": "ocannl",
        "version": version,
        "alignment": alignment,
        "tensors": [tensor.document(data, data_start) for tensor in tensors],
        "training": decode_training(header.value("training"), nodes) if b"training" in header.values else None,
    }


# --- command line ---------------------------------------------------------------------------------------------------


COMPACT = (",", ":")


def decode_path(path: str) -> Document:
    """Return {"document": ...}, or {"error": what was wrong}."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return {"document": decode(data)}
    except Refused as refused:
        return {"error": refused.error}


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--batch"]:
            for line in filter(bytes.strip, sys.stdin.buffer):
                path = line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
                print(json.dumps({"path": path, **decode_path(path)}, separators=COMPACT), flush=True)
            return 0
        if len(arguments) > 1 or any(a.startswith("-") and a != "-" for a in arguments):
            print("usage: plain_ocannl_decoder.py [--batch | FILE | -]", file=sys.stderr)
            return 2
        result = decode_path(arguments[0] if arguments else "-")
        print(json.dumps(result.get("document", result), separators=COMPACT))
        return 1 if "error" in result else 0
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception:
        # Left alone, Python would exit with 1, and a bug here would pass for a refusal.
        sys.excepthook(*sys.exc_info())
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
