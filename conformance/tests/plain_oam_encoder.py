"""A plain encoder of `.oam` model files, written apart from the reference to be held against it.

    python plain_oam_encoder.py           neutral document on standard input, the file's bytes on standard output

The document is taken strictly: every key exactly once and no other, numbers and hex in their one spelling. The bytes
are the canonical ones of the version that the document names.

Exit status: 0 encoded, 1 refused (the reason as JSON on standard error), 2 wrong usage, 3 a bug in this program.
"""

import json
import struct
import sys

PAGE = 4096
U8_MAX = 2**8 - 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

FNV_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x00000100000001B3

CONFIG, WEIGHTS, STATE, OPTIMIZER, PROGRESS = 1, 2, 3, 4, 5

# The position in the list is the code.
DTYPE_NAMES = ["f32", "bf16", "f16", "i8", "i32", "u8", "f64", "i16", "i64", "u16", "u32", "u64", "bool", "c64", "c128"]
DTYPE_SIZES = [4, 2, 2, 1, 4, 1, 8, 2, 8, 2, 4, 8, 1, 8, 16]
ENCODING_NAMES = ["dense", "q4", "q8"]
BLOCK_ELEMENTS = 32
BLOCK_BYTES = {"q4": 16 + 4, "q8": 32 + 4}

Object = dict[str, object]


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


def take_string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise Refused(f"{where} is not a string")
    return value


def take_bool(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"{where} is not true or false")
    return value


def take_number(value: object, largest: int, where: str) -> int:
    # In Python true and false are integers.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise Refused(f"{where} is not a whole number within 0..{largest}")
    return value


def take_decimal(value: object, smallest: int, largest: int, where: str) -> int:
    digits = take_string(value, where)
    try:
        # No 64-bit number needs more than 20 characters; a longer string is not worth converting.
        number = int(digits) if len(digits) <= 20 else None
    except ValueError:
        number = None
    # Writing the number again shows every other spelling: signs, leading zeros, spaces, foreign digits.
    if number is None or str(number) != digits or not smallest <= number <= largest:
        raise Refused(f"{where} is not a plain decimal string within {smallest}..{largest}")
    return number


def take_u64(value: object, where: str) -> int:
    return take_decimal(value, 0, U64_MAX, where)


def take_i64(value: object, where: str) -> int:
    return take_decimal(value, -(2**63), 2**63 - 1, where)


def take_hex(value: object, where: str) -> bytes:
    digits = take_string(value, where)
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raise Refused(f"{where} is not hexadecimal") from None
    if raw.hex() != digits:
        raise Refused(f"{where} is not lower-case hexadecimal without spaces")
    return raw


def take_f32(value: object, where: str) -> bytes:
    """Return the four stored bytes."""
    bits = take_string(value, where)
    if not bits.startswith("0x") or len(bits) != 10:
        raise Refused(f"{where} is not 0x and eight digits")
    return take_hex(bits[2:], where)[::-1]


def take_text(value: object, width: int, where: str) -> bytes:
    """Return the text filled with zero bytes to its width."""
    try:
        raw = take_string(value, where).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"{where} holds a lone surrogate") from None
    if 0 in raw:
        raise Refused(f"{where} holds a NUL")
    if len(raw) > width - 1:
        raise Refused(f"{where} has {len(raw)} bytes, more than {width - 1}")
    return raw.ljust(width, b"\0")


def take_choice(value: object, choices: list[str], where: str) -> str:
    chosen = take_string(value, where)
    if chosen not in choices:
        raise Refused(f"{where} is none of {', '.join(choices)}")
    return chosen


def take_dtype(value: object, where: str) -> int:
    """Return the code."""
    return DTYPE_NAMES.index(take_choice(value, DTYPE_NAMES, where))


# --- sections -------------------------------------------------------------------------------------------------------


def encode_config(value: object) -> bytes:
    numbers = ["config_version", "flags", "d_model", "n_layers", "d_vocab"]
    dtypes = ["weight_dtype", "state_dtype", "compute_dtype"]
    config = take_object(value, ["architecture", *numbers, *dtypes, "arch_config"], "config")
    arch_config = take_hex(config["arch_config"], "arch_config")
    if len(arch_config) > U32_MAX:
        raise Refused("arch_config is too long")
    payload = take_text(config["architecture"], 32, "architecture")
    for key in numbers:
        payload += struct.pack("<I", take_number(config[key], U32_MAX, key))
    payload += struct.pack("<I", len(arch_config))
    for key in dtypes:
        payload += struct.pack("<B", take_dtype(config[key], key))
    return payload + bytes(1 + 48) + arch_config


def encode_tensors(tensors: list[object], where: str, quantized_allowed: bool) -> bytes:
    index = struct.pack("<II", len(tensors), 0)
    blob: list[bytes] = []
    blob_size = 0
    names: set[bytes] = set()
    for position, value in enumerate(tensors):
        name, layout, data = encode_tensor(value, f"{where}[{position}]", quantized_allowed)
        if name in names:
            raise Refused(f"{where}[{position}] has the name of an earlier tensor")
        names.add(name)
        index += name + struct.pack("<QQ", blob_size, len(data)) + layout
        blob.append(data)
        blob_size += len(data)
    return index + b"".join(blob)


def encode_tensor(value: object, where: str, quantized_allowed: bool) -> tuple[bytes, bytes, bytes]:
    """Return the name field, the end of the index row (from the dtype on) and the data."""
    tensor = take_object(value, ["name", "dtype", "shape", "encoding", "data"], where)
    name = take_text(tensor["name"], 128, f"{where}.name")
    if name == bytes(128):
        raise Refused(f"{where} has no name")
    dtype = take_dtype(tensor["dtype"], f"{where}.dtype")
    shape = [take_u64(extent, f"{where}.shape") for extent in take_list(tensor["shape"], f"{where}.shape")]
    if len(shape) > 8:
        raise Refused(f"{where} has {len(shape)} extents, more than 8")
    encoding = take_choice(tensor["encoding"], ENCODING_NAMES, f"{where}.encoding")
    if encoding != "dense" and not quantized_allowed:
        raise Refused(f"{where} is quantized where only dense tensors may stand")
    data = take_hex(tensor["data"], f"{where}.data")
    expected = byte_count(shape, dtype, encoding, where)
    if len(data) != expected:
        raise Refused(f"{where} has {len(data)} bytes of data, its shape needs {expected}")
    block_size = 0 if encoding == "dense" else BLOCK_ELEMENTS
    layout = struct.pack("<BBBB4x", dtype, len(shape), ENCODING_NAMES.index(encoding), block_size)
    return name, layout + struct.pack("<8Q", *shape, *[0] * (8 - len(shape))), data


def byte_count(shape: list[int], dtype: int, encoding: str, where: str) -> int:
    # Strictly left to right: an overflow counts even if a later extent is zero.
    elements = 1
    for extent in shape:
        elements *= extent
        if elements > U64_MAX:
            raise Refused(f"the element count of {where} overflows")
    if encoding == "dense":
        return elements * DTYPE_SIZES[dtype]
    if DTYPE_NAMES[dtype] != "f32":
        raise Refused(f"{where} is quantized and not f32")
    if elements == 0:
        raise Refused(f"{where} is quantized and has no element")
    return (elements + BLOCK_ELEMENTS - 1) // BLOCK_ELEMENTS * BLOCK_BYTES[encoding]


def encode_optimizer(value: object) -> bytes:
    floats = ["learning_rate", "beta1", "beta2", "epsilon", "weight_decay"]
    optimizer = take_object(value, ["kind", *floats, "step", "first_moment", "second_moment"], "optimizer")
    kind = take_choice(optimizer["kind"], ["SGD", "Adam", "AdamW", "Muon"], "kind")
    first = take_hex(optimizer["first_moment"], "first_moment")
    second = take_hex(optimizer["second_moment"], "second_moment")
    if len(first) % 4 != 0:
        raise Refused("first_moment is not a whole number of f32")
    if len(second) != (0 if kind == "Muon" else len(first)):
        raise Refused(f"second_moment has {len(second)} bytes, which {kind} does not allow")
    payload = take_text(kind, 16, "kind")
    for key in floats:
        payload += take_f32(optimizer[key], key)
    payload += struct.pack("<qQ", take_i64(optimizer["step"], "step"), len(first) // 4)
    return payload + bytes(16) + first + second


def encode_progress(value: object) -> bytes:
    counters = ["bytes_seen", "env_steps"]
    floats = ["learning_rate", "best_metric"]
    keys = ["phase", "step", *counters, *floats, "lower_is_better", "metric_name"]
    progress = take_object(value, keys, "progress")
    payload = struct.pack("<B3x", take_number(progress["phase"], U8_MAX, "phase"))
    payload += struct.pack("<q", take_i64(progress["step"], "step"))
    for key in counters:
        payload += struct.pack("<Q", take_u64(progress[key], key))
    for key in floats:
        payload += take_f32(progress[key], key)
    payload += struct.pack("<B3x", take_bool(progress["lower_is_better"], "lower_is_better"))
    return payload + take_text(progress["metric_name"], 32, "metric_name") + bytes(32)


# --- the whole file -------------------------------------------------------------------------------------------------


def fnv1a64(data: bytes) -> int:
    digest = FNV_BASIS
    for byte in data:
        digest = ((digest ^ byte) * FNV_PRIME) & U64_MAX
    return digest


def to_page(size: int) -> int:
    return (size + PAGE - 1) // PAGE * PAGE


def assemble(version: int, sections: list[tuple[int, bytes]]) -> bytes:
    data_start = to_page(64 + 64 * len(sections))
    table = b""
    payloads = b""
    combined = 0
    for kind, payload in sections:
        checksum = fnv1a64(payload)
        combined ^= checksum
        table += struct.pack("<IB3xIQQQQ20x", kind, 0, 0, data_start + len(payloads), len(payload), 0, checksum)
        # The size is rounded up to whole pages, not the address where it ends.
        room = to_page(len(payload)) if kind in (WEIGHTS, STATE) else len(payload)
        payloads += payload.ljust(room, b"\0")
    total_size = data_start + len(payloads)
    header = file_header(version, len(sections), total_size, 0)
    checksum = combined if version == 1 else fnv1a64(header + table)
    header = file_header(version, len(sections), total_size, checksum)
    return (header + table).ljust(data_start, b"\0") + payloads


def file_header(version: int, section_count: int, total_size: int, checksum: int) -> bytes:
    return b"OAM\0" + struct.pack("<IIIQQ32x", version, section_count, 0, total_size, checksum)


def encode(document: object) -> bytes:
    """Return the `.oam` file that a neutral document describes, or raise Refused."""
    keys = ["format", "version", "config", "weights", "state", "optimizer", "progress"]
    top = take_object(document, keys, "the document")
    take_choice(top["format"], ["oam"], "format")
    version = take_number(top["version"], 3, "version")
    if version == 0:
        raise Refused("version is not within 1..3")
    weights = take_list(top["weights"], "weights")
    state = take_list(top["state"], "state")
    sections = [(CONFIG, encode_config(top["config"]))]
    if weights:
        sections.append((WEIGHTS, encode_tensors(weights, "weights", quantized_allowed=version == 3)))
    if state:
        sections.append((STATE, encode_tensors(state, "state", quantized_allowed=False)))
    if top["optimizer"] is not None:
        sections.append((OPTIMIZER, encode_optimizer(top["optimizer"])))
    sections.append((PROGRESS, encode_progress(top["progress"])))
    return assemble(version, sections)


# --- command line ---------------------------------------------------------------------------------------------------


def object_without_duplicates(pairs: list[tuple[str, object]]) -> Object:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Refused(f"a key stands twice among {[key for key, _ in pairs]}")
    return result


def parse(raw: bytes) -> object:
    try:
        document: object = json.loads(raw.decode("utf-8"), object_pairs_hook=object_without_duplicates)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {error}") from None
    return document


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["-"]):
        print("usage: plain_oam_encoder.py < DOCUMENT > FILE", file=sys.stderr)
        return 2
    try:
        encoded = encode(parse(sys.stdin.buffer.read()))
    except Refused as refused:
        print(json.dumps({"error": {"rule": None, "offset": None, "message": str(refused)}}), file=sys.stderr)
        return 1
    except Exception:
        # Left alone, Python would exit with 1, and a bug here would pass for a refusal.
        sys.excepthook(*sys.exc_info())
        return 3
    sys.stdout.buffer.write(encoded)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
