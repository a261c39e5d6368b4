"""A plain decoder of safetensors files, written apart from the reference to be held against it.

    python plain_safetensors_decoder.py FILE      print the neutral document of FILE (`-` or nothing: standard input)
    python plain_safetensors_decoder.py --batch   read paths from standard input, print one JSON line for each

Exit status: 0 decoded, 1 refused, 2 wrong usage or unreadable file, 3 a bug in this program.
"""

import json
import re
import sys
from pathlib import Path

MAX_HEADER = 100_000_000
MAX_DEPTH = 64
LIMIT = 2**64

BITS = {
    **dict.fromkeys(("C64", "F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}

Document = dict[str, object]

BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class Refused(ValueError):  # noqa: N818
    """The file is not one that a reader may accept."""


class Pairs(tuple[object, ...]):
    """The pairs of an object, in their order, doubled keys included."""

    __slots__ = ()


class Spelled(str):
    """A number that is no plain natural number."""

    __slots__ = ()


def no_constant(name: str) -> object:
    raise Refused(f"{name} is not JSON")


def integer(digits: str) -> object:
    return int(digits) if digits.isdigit() and len(digits) <= 20 else Spelled(digits)


DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=integer, parse_float=Spelled, parse_constant=no_constant)


def parse(raw: bytes) -> object:
    """Return the value of a header's text; objects come as Pairs."""
    if not raw.startswith(b"{"):
        raise Refused("the header does not begin with a brace")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"the header is no UTF-8: {error}") from None
    depth = 0
    for token in BRACKET_OR_STRING.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth > MAX_DEPTH:
            raise Refused(f"values nest deeper than {MAX_DEPTH}")
    try:
        value, end = DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        raise Refused(f"the header is not JSON: {error}") from None
    if text[end:].strip(" "):
        raise Refused("something other than spaces follows the header's object")
    check_strings(value)
    return value


def check_strings(value: object) -> None:
    """Refuse half surrogate pairs, wherever they stand."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused("a string holds half a surrogate pair") from None
    elif isinstance(value, list | tuple):
        for item in value:
            check_strings(item)


def mapping(value: object, what: str) -> dict[str, object]:
    """Return an object of which no key is doubled."""
    if not isinstance(value, Pairs):
        raise Refused(f"{what} is no object")
    made: dict[str, object] = {}
    pairs: list[tuple[str, object]] = list(value)  # type: ignore[arg-type]
    for key, item in pairs:
        if key in made:
            raise Refused(f"{what} has a duplicate key {key!r}")
        made[key] = item
    return made


def naturals(value: object, what: str) -> list[int]:
    """Return an array of 64-bit numbers."""
    if not isinstance(value, list):
        raise Refused(f"{what} is no array")
    made = []
    for item in value:
        if not isinstance(item, int) or isinstance(item, bool) or item >= LIMIT:
            raise Refused(f"{what} holds {item!r}")
        made.append(item)
    return made


class Tensor:
    """An entry of the header, checked by itself."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        entry = mapping(value, f"the entry of {name!r}")
        for key in ("dtype", "shape", "data_offsets"):
            if key not in entry:
                raise Refused(f"{name!r} has no {key}")
        dtype = entry["dtype"]
        if not isinstance(dtype, str) or isinstance(dtype, Spelled) or dtype not in BITS:
            raise Refused(f"{name!r} has the dtype {dtype!r}")
        self.dtype = str(dtype)
        self.shape = naturals(entry["shape"], f"the shape of {name!r}")
        offsets = naturals(entry["data_offsets"], f"the offsets of {name!r}")
        if len(offsets) != 2:
            raise Refused(f"{name!r} has {len(offsets)} offsets")
        self.begin, self.end = offsets
        bits = 1
        for factor in (*self.shape, BITS[self.dtype]):
            bits *= factor
            if bits >= LIMIT:
                raise Refused(f"the size of {name!r} overflows")
        if bits != 8 * (self.end - self.begin):
            raise Refused(f"{name!r} has {self.end - self.begin} bytes for {bits} bits")


def decode(data: bytes) -> Document:
    """Return the neutral document of a safetensors file, or raise Refused."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > MAX_HEADER or 8 + length > len(data):
        raise Refused(f"a header of {length} bytes in a file of {len(data)}")
    header = mapping(parse(data[8 : 8 + length]), "the header")
    metadata = None
    if "__metadata__" in header:
        metadata = mapping(header.pop("__metadata__"), "the metadata")
        if not all(isinstance(value, str) and not isinstance(value, Spelled) for value in metadata.values()):
            raise Refused("a value of the metadata is no string")
    tensors = [Tensor(name, value) for name, value in header.items()]
    at = 0
    for tensor in sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin != at:
            raise Refused(f"{tensor.name!r} begins at {tensor.begin}, not at {at}")
        at = tensor.end
    if 8 + length + at != len(data):
        raise Refused(f"the payloads take {at} bytes of {len(data) - 8 - length}")
    buffer = data[8 + length :]
    return {
        "format": "safetensors",
        "metadata": metadata,
        "tensors": [
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": [str(extent) for extent in tensor.shape],
                "data": buffer[tensor.begin : tensor.end].hex(),
            }
            for tensor in sorted(tensors, key=lambda tensor: tensor.name.encode())
        ],
    }


# --- command line ---------------------------------------------------------------------------------------------------


def decode_path(path: str) -> Document:
    """Return {"document": ...}, or {"error": what was wrong}."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return {"document": decode(data)}
    except Refused as refused:
        return {"error": {"message": str(refused)}}


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--batch"]:
            for line in filter(bytes.strip, sys.stdin.buffer):
                path = line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
                print(json.dumps({"path": path, **decode_path(path)}), flush=True)
            return 0
        if len(arguments) > 1 or any(a.startswith("-") and a != "-" for a in arguments):
            print("usage: plain_safetensors_decoder.py [--batch | FILE | -]", file=sys.stderr)
            return 2
        result = decode_path(arguments[0] if arguments else "-")
        print(json.dumps(result.get("document", result)))
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
