"""A plain decoder of `.oam` model files, written apart from the reference to be held against it.

It favours being obviously right over being fast: whole files in memory, one byte at a time through the hash.

    python plain_oam_decoder.py FILE      print the neutral document of FILE (`-` or nothing: standard input)
    python plain_oam_decoder.py --batch   read paths from standard input, print one JSON line for each

Exit status: 0 decoded, 1 refused, 2 wrong usage or unreadable file, 3 a bug in this program.
"""

import json
import struct
import sys

MAGIC = b"OAM\0"
PAGE = 4096
U64_MAX = 2**64 - 1

FNV_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x00000100000001B3

CONFIG, WEIGHTS, STATE, OPTIMIZER, PROGRESS, LEGACY_CACHE = 1, 2, 3, 4, 5, 6
SECTION_NAMES = {
    CONFIG: "config",
    WEIGHTS: "weights",
    STATE: "state",
    OPTIMIZER: "optimizer",
    PROGRESS: "progress",
    LEGACY_CACHE: "legacy kernel cache",
}

# The position in the list is the code.
DTYPE_NAMES = ["f32", "bf16", "f16", "i8", "i32", "u8", "f64", "i16", "i64", "u16", "u32", "u64", "bool", "c64", "c128"]
DTYPE_SIZES = [4, 2, 2, 1, 4, 1, 8, 2, 8, 2, 4, 8, 1, 8, 16]
ENCODING_NAMES = ["dense", "q4", "q8"]

F32 = 0
DENSE, Q4, Q8 = 0, 1, 2
BLOCK_ELEMENTS = 32
BLOCK_BYTES = {Q4: 16 + 4, Q8: 32 + 4}

Document = dict[str, object]


class Refused(ValueError):  # noqa: N818
    """The file is not one that a reader may accept."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Section:
    """One row of the section table."""

    def __init__(self, kind: int, offset: int, size: int, checksum: int, row: int) -> None:
        self.kind = kind
        self.name = SECTION_NAMES[kind]
        self.offset = offset
        self.size = size
        self.end = offset + size
        self.checksum = checksum
        self.row = row


class Tensor:
    """One row of a tensor index. `shape` holds only the extents that the rank counts."""

    def __init__(self, data: bytes, row: int, name: str) -> None:
        self.row = row
        self.name = name
        self.blob_offset = u64(data, row + 128)
        self.num_bytes = u64(data, row + 136)
        self.dtype = data[row + 144]
        self.rank = data[row + 145]
        self.encoding = data[row + 146]
        self.block_size = data[row + 147]
        self.extents = [u64(data, row + 152 + 8 * axis) for axis in range(8)]
        self.shape = self.extents[: self.rank]


# --- fields ---------------------------------------------------------------------------------------------------------


def u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def u64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])


def i64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", data, at)[0])


def f32_bits(data: bytes, at: int) -> object:
    # Never through a float: a conversion may quieten a signalling NaN.
    return f"0x{u32(data, at):08x}"


def text_bytes(data: bytes, at: int, width: int, what: str) -> bytes:
    field = data[at : at + width]
    if 0 not in field:
        raise Refused(f"{what} is not terminated by a NUL within its {width} bytes", at)
    return field[: field.index(0)]


def text(data: bytes, at: int, width: int, what: str) -> str:
    raw = text_bytes(data, at, width, what)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{what} is not UTF-8", at) from None


def dtype_name(data: bytes, at: int, what: str) -> str:
    if data[at] >= len(DTYPE_NAMES):
        raise Refused(f"{what} {data[at]} is not a known scalar type", at)
    return DTYPE_NAMES[data[at]]


def fnv1a64(data: bytes) -> int:
    digest = FNV_BASIS
    for byte in data:
        digest = ((digest ^ byte) * FNV_PRIME) & U64_MAX
    return digest


# --- header and section table ---------------------------------------------------------------------------------------


def check_header(data: bytes) -> tuple[int, int]:
    """Return the version and the section count."""
    if len(data) < 64:
        raise Refused(f"the file has {len(data)} bytes, fewer than its 64-byte header")
    if data[0:4] != MAGIC:
        raise Refused("wrong magic", 0)
    version = u32(data, 4)
    if version not in (1, 2, 3):
        raise Refused(f"unknown version {version}", 4)
    section_count = u32(data, 8)
    if not 1 <= section_count <= 32:
        raise Refused(f"section count {section_count} is not within 1..32", 8)
    if u64(data, 16) != len(data):
        raise Refused(f"total size {u64(data, 16)} in the header, the file has {len(data)} bytes", 16)
    if 64 + 64 * section_count > len(data):
        raise Refused("the section table passes the end of the file", 64)
    if version != 1:
        check_manifest_checksum(data, section_count)
    return version, section_count


def check_manifest_checksum(data: bytes, section_count: int) -> None:
    covered = data[0:24] + bytes(8) + data[32 : 64 + 64 * section_count]
    if fnv1a64(covered) != u64(data, 24):
        raise Refused("the checksum of header and section table is wrong", 24)


def check_version_1_checksum(data: bytes, sections: list[Section]) -> None:
    combined = 0
    for section in sections:
        combined ^= section.checksum
    if combined != u64(data, 24):
        raise Refused("the header's checksum is not the XOR of the sections' checksums", 24)


def read_sections(data: bytes, section_count: int) -> list[Section]:
    table_end = 64 + 64 * section_count
    data_start = (table_end + PAGE - 1) // PAGE * PAGE
    sections: list[Section] = []
    for row in range(64, table_end, 64):
        section = read_section_row(data, row)
        if any(section.kind == other.kind for other in sections):
            raise Refused(f"a second {section.name} section", row)
        check_section_storage(data, section, data_start)
        check_payload_checksum(data, section)
        sections.append(section)
    return sections


def read_section_row(data: bytes, row: int) -> Section:
    kind = u32(data, row)
    if kind not in SECTION_NAMES:
        raise Refused(f"unknown section type {kind}", row)
    return Section(kind, u64(data, row + 12), u64(data, row + 20), u64(data, row + 36), row)


def check_section_storage(data: bytes, section: Section, data_start: int) -> None:
    if data[section.row + 4] != 0:
        raise Refused(f"the {section.name} section is compressed", section.row + 4)
    if u64(data, section.row + 28) != 0:
        raise Refused(f"the {section.name} section has a compressed size", section.row + 28)
    if section.offset < data_start:
        raise Refused(f"the {section.name} section starts before byte {data_start}", section.row + 12)
    if section.end > len(data):
        raise Refused(f"the {section.name} section passes the end of the file", section.row + 12)


def check_payload_checksum(data: bytes, section: Section) -> None:
    if fnv1a64(data[section.offset : section.end]) != section.checksum:
        raise Refused(f"the checksum of the {section.name} section is wrong", section.row + 36)


def check_sections_apart(sections: list[Section]) -> None:
    filled = sorted((s for s in sections if s.size > 0), key=lambda s: s.offset)
    for i in range(1, len(filled)):
        before, after = filled[i - 1], filled[i]
        if after.offset < before.end:
            raise Refused(f"the {before.name} and {after.name} sections overlap", after.row + 12)
    for empty in (s for s in sections if s.size == 0):
        for around in filled:
            if around.offset < empty.offset < around.end:
                raise Refused(f"the empty {empty.name} section lies inside the {around.name} section", empty.row + 12)


# --- config ---------------------------------------------------------------------------------------------------------


def decode_config(data: bytes, section: Section) -> Document:
    at = section.offset
    if section.size < 108:
        raise Refused(f"the config section has {section.size} bytes, fewer than 108", at)
    config: Document = {
        "architecture": text(data, at, 32, "the architecture"),
        "config_version": u32(data, at + 32),
        "flags": u32(data, at + 36),
        "d_model": u32(data, at + 40),
        "n_layers": u32(data, at + 44),
        "d_vocab": u32(data, at + 48),
        "weight_dtype": dtype_name(data, at + 56, "the weight dtype"),
        "state_dtype": dtype_name(data, at + 57, "the state dtype"),
        "compute_dtype": dtype_name(data, at + 58, "the compute dtype"),
        "arch_config": data[at + 108 : section.end].hex(),
    }
    if 108 + u32(data, at + 52) != section.size:
        raise Refused("the size of arch_config does not fit the config section", at + 52)
    return config


# --- weights and state ----------------------------------------------------------------------------------------------


def decode_tensors(data: bytes, section: Section, version: int) -> list[Document]:
    blob_start, tensors = read_tensor_index(data, section)
    blob_size = section.end - blob_start
    for tensor in tensors:
        if tensor.blob_offset + tensor.num_bytes > blob_size:
            raise Refused(f"the payload of {tensor.name!r} passes the end of its section", tensor.row + 128)
        check_num_bytes(tensor, quantized_allowed=version == 3 and section.kind == WEIGHTS)
    check_payloads_apart(tensors)
    return [tensor_document(data, blob_start, tensor) for tensor in tensors]


def read_tensor_index(data: bytes, section: Section) -> tuple[int, list[Tensor]]:
    """Return where the blob starts, and the rows of the index."""
    at = section.offset
    if section.size < 8:
        raise Refused(f"the {section.name} section has {section.size} bytes, fewer than 8", at)
    count = u32(data, at)
    if u32(data, at + 4) != 0:
        raise Refused("the reserved field of the tensor index is not zero", at + 4)
    blob_start = at + 8 + 216 * count
    if blob_start > section.end:
        raise Refused(f"an index of {count} tensors passes the end of the {section.name} section", at)
    tensors: list[Tensor] = []
    names: set[str] = set()
    for row in range(at + 8, blob_start, 216):
        tensor = read_tensor_row(data, row, names)
        names.add(tensor.name)
        tensors.append(tensor)
    return blob_start, tensors


def read_tensor_row(data: bytes, row: int, earlier_names: set[str]) -> Tensor:
    tensor = Tensor(data, row, text(data, row, 128, "a tensor name"))
    if tensor.name == "":
        raise Refused("a tensor without a name", row)
    check_name_is_new(tensor, earlier_names)
    dtype_name(data, row + 144, "the dtype of a tensor")
    if tensor.rank > 8:
        raise Refused(f"rank {tensor.rank} is more than 8", row + 145)
    if tensor.encoding >= len(ENCODING_NAMES):
        raise Refused(f"unknown encoding {tensor.encoding}", row + 146)
    if data[row + 148 : row + 152] != bytes(4):
        raise Refused("the reserved bytes of a tensor are not zero", row + 148)
    return tensor


def check_name_is_new(tensor: Tensor, earlier_names: set[str]) -> None:
    if tensor.name in earlier_names:
        raise Refused(f"a second tensor {tensor.name!r}", tensor.row)


def check_num_bytes(tensor: Tensor, quantized_allowed: bool) -> None:
    elements = element_count(tensor)
    if tensor.encoding == DENSE:
        expected = dense_num_bytes(tensor, elements)
    else:
        expected = quantized_num_bytes(tensor, elements, quantized_allowed)
    if expected > U64_MAX:
        raise Refused(f"the byte count of {tensor.name!r} overflows", tensor.row + 152)
    if tensor.num_bytes != expected:
        raise Refused(f"{tensor.name!r} has {tensor.num_bytes} bytes, its shape needs {expected}", tensor.row + 136)


def element_count(tensor: Tensor) -> int:
    # Strictly left to right: an overflow counts even if a later extent is zero.
    elements = 1
    for extent in tensor.shape:
        elements *= extent
        if elements > U64_MAX:
            raise Refused(f"the element count of {tensor.name!r} overflows", tensor.row + 152)
    return elements


def dense_num_bytes(tensor: Tensor, elements: int) -> int:
    if tensor.block_size != 0:
        raise Refused(f"dense tensor {tensor.name!r} has block size {tensor.block_size}", tensor.row + 147)
    return elements * DTYPE_SIZES[tensor.dtype]


def quantized_num_bytes(tensor: Tensor, elements: int, allowed: bool) -> int:
    if not allowed:
        raise Refused(f"{tensor.name!r} is quantized where only dense tensors may stand", tensor.row + 146)
    if tensor.dtype != F32:
        raise Refused(f"quantized tensor {tensor.name!r} is not f32", tensor.row + 144)
    if tensor.block_size != BLOCK_ELEMENTS:
        raise Refused(f"quantized tensor {tensor.name!r} has block size {tensor.block_size}", tensor.row + 147)
    if elements == 0:
        raise Refused(f"quantized tensor {tensor.name!r} has no element", tensor.row + 152)
    blocks = (elements + BLOCK_ELEMENTS - 1) // BLOCK_ELEMENTS
    return blocks * BLOCK_BYTES[tensor.encoding]


def check_payloads_apart(tensors: list[Tensor]) -> None:
    filled = sorted((t for t in tensors if t.num_bytes > 0), key=lambda t: t.blob_offset)
    for i in range(1, len(filled)):
        before, after = filled[i - 1], filled[i]
        if after.blob_offset < before.blob_offset + before.num_bytes:
            raise Refused(f"the payloads of {before.name!r} and {after.name!r} overlap", after.row + 128)


def tensor_document(data: bytes, blob_start: int, tensor: Tensor) -> Document:
    start = blob_start + tensor.blob_offset
    return {
        "name": tensor.name,
        "dtype": DTYPE_NAMES[tensor.dtype],
        "shape": shape_document(tensor),
        "encoding": ENCODING_NAMES[tensor.encoding],
        "data": data[start : start + tensor.num_bytes].hex(),
    }


def shape_document(tensor: Tensor) -> list[str]:
    return [str(extent) for extent in tensor.shape]


# --- optimizer and progress -----------------------------------------------------------------------------------------


def decode_optimizer(data: bytes, section: Section) -> Document:
    at = section.offset
    if section.size < 68:
        raise Refused(f"the optimizer section has {section.size} bytes, fewer than 68", at)
    kind = text_bytes(data, at, 16, "the optimizer kind")
    if kind not in (b"SGD", b"Adam", b"AdamW", b"Muon"):
        raise Refused("unknown optimizer kind", at)
    moment_bytes = 4 * u64(data, at + 44)
    moments = 1 if kind == b"Muon" else 2
    if 68 + moments * moment_bytes != section.size:
        raise Refused("the moment count does not fit the optimizer section", at + 44)
    first_end = at + 68 + moment_bytes
    return {
        "kind": kind.decode("ascii"),
        "learning_rate": f32_bits(data, at + 16),
        "beta1": f32_bits(data, at + 20),
        "beta2": f32_bits(data, at + 24),
        "epsilon": f32_bits(data, at + 28),
        "weight_decay": f32_bits(data, at + 32),
        "step": str(i64(data, at + 36)),
        "first_moment": data[at + 68 : first_end].hex(),
        "second_moment": data[first_end : section.end].hex(),
    }


def decode_progress(data: bytes, section: Section) -> Document:
    at = section.offset
    if section.size != 104:
        raise Refused(f"the progress section has {section.size} bytes, not 104", at)
    return {
        "phase": data[at],
        "step": str(i64(data, at + 4)),
        "bytes_seen": str(u64(data, at + 12)),
        "env_steps": str(u64(data, at + 20)),
        "learning_rate": f32_bits(data, at + 28),
        "best_metric": f32_bits(data, at + 32),
        "lower_is_better": data[at + 36] != 0,
        "metric_name": text(data, at + 40, 32, "the metric name"),
    }


# --- the whole file -------------------------------------------------------------------------------------------------


def decode(data: bytes) -> Document:
    """Return the neutral document of an `.oam` file, or raise Refused."""
    version, section_count = check_header(data)
    sections = read_sections(data, section_count)
    check_sections_apart(sections)
    if version == 1:
        check_version_1_checksum(data, sections)
    by_kind = {section.kind: section for section in sections}
    for required in (CONFIG, PROGRESS):
        if required not in by_kind:
            raise Refused(f"no {SECTION_NAMES[required]} section")
    return {
        "format": "oam",
        "version": version,
        "config": decode_config(data, by_kind[CONFIG]),
        "weights": decode_tensors(data, by_kind[WEIGHTS], version) if WEIGHTS in by_kind else [],
        "state": decode_tensors(data, by_kind[STATE], version) if STATE in by_kind else [],
        "optimizer": decode_optimizer(data, by_kind[OPTIMIZER]) if OPTIMIZER in by_kind else None,
        "progress": decode_progress(data, by_kind[PROGRESS]),
    }


# --- command line ---------------------------------------------------------------------------------------------------


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def decode_or_error(data: bytes) -> tuple[str, Document]:
    """Return ("document", the document) or ("error", what was wrong)."""
    try:
        return "document", decode(data)
    except Refused as refused:
        return "error", {"rule": None, "offset": refused.offset, "message": refused.message}


def decode_one(path: str) -> int:
    data = sys.stdin.buffer.read() if path == "-" else read_file(path)
    outcome, result = decode_or_error(data)
    if outcome == "error":
        print(json.dumps({"error": result}))
        return 1
    print(json.dumps(result))
    return 0


def decode_batch() -> int:
    for line in sys.stdin.buffer:
        path = line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        if path:
            outcome, result = decode_or_error(read_file(path))
            print(json.dumps({"path": path, outcome: result}), flush=True)
    return 0


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--batch"]:
            return decode_batch()
        if len(arguments) > 1 or any(a.startswith("-") and a != "-" for a in arguments):
            print("usage: plain_oam_decoder.py [--batch | FILE | -]", file=sys.stderr)
            return 2
        return decode_one(arguments[0] if arguments else "-")
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception:
        # Left alone, Python would exit with 1, and a bug here would pass for a refusal.
        sys.excepthook(*sys.exc_info())
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
