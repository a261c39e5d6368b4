"""A plain encoder of OCANNL checkpoint files, written apart from the reference to be held against it.

    python plain_ocannl_encoder.py           neutral document on standard input, the file's bytes on standard output

The document is taken strictly: every key exactly once and no other, numbers, texts and hex in their one spelling. The
data section is the canonical one; the header is compact, with one tensor to a line.

Exit status: 0 encoded, 1 refused (the reason as JSON on standard error), 2 wrong usage, 3 a bug in this program.
"""

import json
import struct
import sys

MAX_HEADER = 100_000_000
MAX_ALIGNMENT = 2**26
MIN_INT, MAX_INT = -(2**62), 2**62 - 1

INTEGER_SIZES = {"void": 0, "byte": 1, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "uint4x32": 16}
FLOAT_SIZES = {"half": 2, "bfloat16": 2, "fp8": 1, "single": 4, "double": 8}
ELEMENT_SIZES = INTEGER_SIZES | FLOAT_SIZES

INFINITY_BITS = 0x7FF0000000000000
QUIET_NANS = {0x7FF8000000000000: b"nan", 0xFFF8000000000000: b"-nan"}

ESCAPES = {b'"': b'\\"', b"\\": b"\\\\", b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r", b"\b": b"\\b"}

Object = dict[str, object]
Node = tuple[bytes, int]


class Refused(ValueError):  # noqa: N818
    """The document describes nothing that the format can hold, or not in the one way allowed."""


# --- strict values --------------------------------------------------------------------------------------------------


def take_object(value: object, keys: list[str], where: str) -> Object:
    if not isinstance(value, dict):
        raise Refused(f"{where} is not an object")
    missing = [key for key in keys if key not in value]
    unknown = [key for key in value if key not in keys]
    if missing or unknown:
        raise Refused(f"{where}: missing keys {missing}, unknown keys {unknown}")
    return value


def take_list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise Refused(f"{where} is not a list")
    return value


def take_pair(value: object, where: str) -> tuple[object, object]:
    items = take_list(value, where)
    if len(items) != 2:
        raise Refused(f"{where} has {len(items)} elements, not two")
    return items[0], items[1]


def take_string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise Refused(f"{where} is not a string")
    return value


def take_number(value: object, largest: int, where: str) -> int:
    # In Python true and false are integers.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise Refused(f"{where} is not a whole number within 1..{largest}")
    return value


def take_decimal(value: object, where: str, smallest: int = 0) -> int:
    digits = take_string(value, where)
    try:
        # No 63-bit number needs more than 20 characters; a longer string is not worth converting.
        number = int(digits) if len(digits) <= 20 else None
    except ValueError:
        number = None
    # Writing the number again shows every other spelling: signs, leading zeros, spaces, foreign digits.
    if number is None or str(number) != digits or not smallest <= number <= MAX_INT:
        raise Refused(f"{where} is not a plain decimal string within {smallest}..{MAX_INT}")
    return number


def take_hex(value: object, where: str) -> bytes:
    digits = take_string(value, where)
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raise Refused(f"{where} is not hexadecimal") from None
    if raw.hex() != digits:
        raise Refused(f"{where} is not lower-case hexadecimal without spaces")
    return raw


def take_text(value: object, where: str) -> bytes:
    """Return the bytes of a string, or of {"bytes": hex}, which only what is not UTF-8 may be spelled as."""
    if isinstance(value, dict):
        raw = take_hex(take_object(value, ["bytes"], where)["bytes"], where)
        if is_utf8(raw):
            raise Refused(f"{where} is UTF-8 and given as bytes")
        return raw
    try:
        return take_string(value, where).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"{where} holds a lone surrogate") from None


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def take_node(namespace: object, number: object, where: str) -> Node:
    text = take_text(namespace, f"the namespace of {where}")
    if not text:
        raise Refused(f"the namespace of {where} is empty")
    return text, take_decimal(number, f"the id of {where}")


def take_f64_bits(value: object, where: str) -> int:
    bits = take_string(value, where)
    if not bits.startswith("0x") or len(bits) != 18:
        raise Refused(f"{where} is not 0x and sixteen digits")
    return int.from_bytes(take_hex(bits[2:], where), "big")


# --- S-expressions --------------------------------------------------------------------------------------------------


def atom(text: bytes) -> bytes:
    plain = all(0x20 < byte < 0x7F and byte not in b'"();\\' for byte in text)
    if text and plain and b"#|" not in text and b"|#" not in text:
        return text
    return b'"' + b"".join(quoted_byte(bytes([byte])) for byte in text) + b'"'


def quoted_byte(byte: bytes) -> bytes:
    if byte in ESCAPES:
        return ESCAPES[byte]
    return byte if 0x20 <= byte[0] < 0x7F else b"\\%03d" % byte[0]


def group(items: list[bytes]) -> bytes:
    return b"(" + b" ".join(items) + b")"


def integers(numbers: list[int]) -> bytes:
    return group([b"%d" % number for number in numbers])


def float_atom(bits: int, where: str) -> bytes:
    if bits in QUIET_NANS:
        return QUIET_NANS[bits]
    if bits & ~(1 << 63) > INFINITY_BITS:
        raise Refused(f"{where} is a NaN that has no spelling")
    number: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    text = f"{number:.15g}"
    if float(text) != number:
        text = f"{number:.17g}"
    if text.lstrip("-").isdigit():
        text += "."
    return text.encode()


# --- tensors --------------------------------------------------------------------------------------------------------


class Tensor:
    """One tensor of the document, checked. Where it is laid is decided afterwards."""

    def __init__(self, value: object, where: str) -> None:
        keys = ["namespace", "id", "label", "precision", "dims", "padding", "data"]
        tensor = take_object(value, keys, where)
        self.node = take_node(tensor["namespace"], tensor["id"], where)
        label = take_list(tensor["label"], f"{where}.label")
        self.label = [take_text(part, f"{where}.label") for part in label]
        self.precision = take_string(tensor["precision"], f"{where}.precision")
        if self.precision not in ELEMENT_SIZES:
            raise Refused(f"{where}.precision is none of {', '.join(ELEMENT_SIZES)}")
        dims = take_list(tensor["dims"], f"{where}.dims")
        self.dims = [take_decimal(dim, f"{where}.dims") for dim in dims]
        self.padding = b"none"
        logical = self.dims
        if tensor["padding"] is not None:
            self.padding, logical = encode_padding(tensor["padding"], self.dims, f"{where}.padding")
        self.data = take_hex(tensor["data"], f"{where}.data")
        # The padded size has to fit 63 bits too, although only the logical elements are stored.
        self.count_bytes(self.dims, where)
        expected = self.count_bytes(logical, where)
        if len(self.data) != expected:
            raise Refused(f"{where} has {len(self.data)} bytes of data, its shape needs {expected}")

    def count_bytes(self, extents: list[int], where: str) -> int:
        # Strictly left to right: an overflow counts even if a later factor is zero.
        total = 1
        for factor in [*extents, ELEMENT_SIZES[self.precision]]:
            total *= factor
            if total > MAX_INT:
                raise Refused(f"the size of {where} passes 63 bits")
        return total

    def entry(self, offset: int) -> bytes:
        namespace, number = self.node
        fields = [
            b"(id %d)" % number,
            b"(namespace %b)" % atom(namespace),
            b"(label %b)" % group([atom(part) for part in self.label]),
            b"(prec %b_prec)" % self.precision.capitalize().encode(),
            b"(dims %b)" % integers(self.dims),
            b"(padding %b)" % self.padding,
            b"(offset %d)" % offset,
            b"(byte_length %d)" % len(self.data),
        ]
        return group(fields)


def encode_padding(value: object, dims: list[int], where: str) -> tuple[bytes, list[int]]:
    """Return the header's spelling and the logical dims."""
    padding = take_object(value, ["axes", "neutral"], where)
    axes = take_list(padding["axes"], f"{where}.axes")
    if len(axes) != len(dims):
        raise Refused(f"{where} has {len(axes)} axes, the tensor has {len(dims)}")
    spelled: list[bytes] = []
    logical: list[int] = []
    for dim, axis in zip(dims, axes, strict=True):
        left, right = (take_decimal(width, f"{where}.axes") for width in take_pair(axis, f"{where}.axes"))
        if left + right > dim:
            raise Refused(f"{where} is wider than its axis")
        spelled.append(integers([left, right]))
        logical.append(dim - left - right)
    neutral = float_atom(take_f64_bits(padding["neutral"], f"{where}.neutral"), f"{where}.neutral")
    return group([group(spelled), neutral]), logical


# --- the training record --------------------------------------------------------------------------------------------


def encode_training(value: object, present: set[Node]) -> bytes:
    counters = ["step", "epoch", "position"]
    keys = ["version", *counters, "host_rng", "extra", "seeds", "state"]
    training = take_object(value, keys, "training")
    version = take_number(training["version"], 2, "training.version")
    fields = [b"(version %d)" % version]
    for key in counters:
        fields.append(b"(%b %d)" % (key.encode(), take_decimal(training[key], f"training.{key}")))
    host_rng = b"none"
    if training["host_rng"] is not None:
        host_rng = b"(some %b)" % atom(take_hex(training["host_rng"], "training.host_rng"))
    fields.append(b"(host_rng %b)" % host_rng)
    fields.append(b"(extra %b)" % encode_extra(training["extra"]))
    if version == 1 and training["seeds"] is not None:
        raise Refused("training.seeds is not null in version 1")
    if version == 2:
        seeds = take_list(training["seeds"], "training.seeds")
        fields.append(b"(seeds %b)" % integers([take_decimal(seed, "training.seeds", MIN_INT) for seed in seeds]))
    fields.append(b"(state %b)" % encode_state(training["state"], present))
    return group([b"training", group(fields)])


def encode_extra(value: object) -> bytes:
    extra: dict[bytes, bytes] = {}
    for pair in take_list(value, "training.extra"):
        key, content = (take_text(part, "training.extra") for part in take_pair(pair, "training.extra"))
        if key in extra:
            raise Refused("training.extra has a key twice")
        extra[key] = content
    return group([group([atom(key), atom(content)]) for key, content in extra.items()])


def encode_state(value: object, present: set[Node]) -> bytes:
    pairs = [take_pair(entry, "training.state") for entry in take_list(value, "training.state")]
    nodes = [take_node(namespace, number, "training.state") for namespace, number in pairs]
    if not nodes:
        raise Refused("training.state is empty")
    if len(set(nodes)) != len(nodes):
        raise Refused("training.state names a node twice")
    if not present.issuperset(nodes):
        raise Refused("training.state names a node that is not among the tensors")
    return group([group([atom(namespace), b"%d" % number]) for namespace, number in nodes])


# --- the whole file -------------------------------------------------------------------------------------------------


def round_up(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment


def encode_header(alignment: int, entries: list[bytes], training: bytes) -> bytes:
    """Return the header with its length before it and its spaces after it."""
    lines = [b"((version 1) (alignment %d) (tensors (" % alignment, *entries]
    text = b"\n".join(lines) + b"))" + (b"\n" + training if training else b"") + b")"
    length = round_up(4 + len(text), alignment) - 4
    if length > MAX_HEADER:
        raise Refused(f"the header has {length} bytes, more than {MAX_HEADER}")
    return struct.pack(">i", length) + text.ljust(length)


def encode(document: object) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Return what precedes the data section, and for each payload the number of zero bytes before it and its bytes."""
    top = take_object(document, ["format", "version", "alignment", "tensors", "training"], "the document")
    if take_string(top["format"], "format") != "ocannl":
        raise Refused("format is not ocannl")
    take_number(top["version"], 1, "version")
    alignment = take_number(top["alignment"], MAX_ALIGNMENT, "alignment")
    tensors = [Tensor(value, f"tensors[{i}]") for i, value in enumerate(take_list(top["tensors"], "tensors"))]
    nodes = {tensor.node for tensor in tensors}
    if len(nodes) != len(tensors):
        raise Refused("two tensors have the same namespace and id")
    training = b"" if top["training"] is None else encode_training(top["training"], nodes)
    entries: list[bytes] = []
    payloads: list[tuple[int, bytes]] = []
    end = 0
    for tensor in tensors:
        offset = round_up(end, alignment)
        entries.append(tensor.entry(offset))
        payloads.append((offset - end, tensor.data))
        end = offset + len(tensor.data)
    return encode_header(alignment, entries, training), payloads


# --- command line ---------------------------------------------------------------------------------------------------


def object_without_duplicates(pairs: list[tuple[str, object]]) -> Object:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Refused(f"a key stands twice among {[key for key, _ in pairs]}")
    return result


def refuse_constant(name: str) -> object:
    raise Refused(f"{name} is not JSON")


def parse(raw: bytes) -> object:
    try:
        document: object = json.loads(
            raw.decode("utf-8"), object_pairs_hook=object_without_duplicates, parse_constant=refuse_constant
        )
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {error}") from None
    return document


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["-"]):
        print("usage: plain_ocannl_encoder.py < DOCUMENT > FILE", file=sys.stderr)
        return 2
    try:
        header, payloads = encode(parse(sys.stdin.buffer.read()))
    except Refused as refused:
        print(json.dumps({"error": {"rule": None, "offset": None, "message": str(refused)}}), file=sys.stderr)
        return 1
    except Exception:
        # Left alone, Python would exit with 1, and a bug here would pass for a refusal.
        sys.excepthook(*sys.exc_info())
        return 3
    sys.stdout.buffer.write(header)
    for gap, payload in payloads:
        sys.stdout.buffer.write(bytes(gap))
        sys.stdout.buffer.write(payload)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
