"""The binary records of every format, each declared once as a ``construct`` struct.

Offsets appear nowhere: they follow from the order and the size of the fields, and ``layout.py`` derives them. Each
field carries its sentence (``* "..."``) and, where a writer has a default, its default. Its class, one of those in
``declarations.py``, says what a field *means* (a NUL-terminated text, reserved bytes, a dtype code, ...), so that
reading, writing, checking, the neutral document, the documentation and the exports can all be derived from it.

``.oam``: a model file in versions 1, 2 and 3. All numbers are little-endian; records are packed.

OCANNL checkpoints: a big-endian length, a header in text, payloads. The header's records are no binary structs; their
(key value) pairs are declared as tables of ``Key``.

safetensors: a little-endian length, a header in JSON, payloads. The entries of its header are declared in the same way.
"""

from __future__ import annotations

from typing import Any, Final

from construct import Array, Default, Int8ul, Int32ul, Int64sl, Int64ul, Struct

from .declarations import (
    BlockEncoding,
    BoolByte,
    Code,
    Content,
    DtypeCode,
    Float32,
    Frame,
    Key,
    Limited,
    Magic,
    Part,
    Place,
    Reserved,
    Text,
    ZeroFlags,
    f32_bits,
)

__all__ = ["BoolByte", "DtypeCode", "Float32", "Key", "Reserved", "Text", "ZeroFlags", "f32_bits"]


# --------------------------------------------------------------------------------------------------------- checksums

FNV_OFFSET_BASIS: Final = 0xCBF29CE484222325  # FNV-1a with 64 bits: h = (h ^ byte) * prime, modulo 2^64
FNV_PRIME: Final = 0x100000001B3

# ----------------------------------------------------------------------------------------------------------- .oam

OAM_MAGIC: Final = b"OAM\0"
OAM_VERSIONS: Final = (1, 2, 3)
OAM_NEWEST: Final = 3
OAM_PAGE: Final = 4096  # the first payload starts on a page; weights and state payloads fill whole pages
OAM_MAX_SECTIONS: Final = 32
OAM_MAX_RANK: Final = 8
OAM_MANIFEST_VERSION: Final = 2  # the first version whose header has a checksum of header and section table
OAM_QUANT_BLOCK: Final = 32  # elements per quantization block
OAM_SCALE_DTYPE: Final = "f32"  # of the scale that each quantization block has
OAM_ENCODINGS: Final = {"dense": 0, "q4": 1, "q8": 2}
OAM_QUANT_VERSION: Final = 3  # the first version that has quantized tensors
OAM_BLOCK_ENCODINGS: Final = {
    "q4": BlockEncoding(
        code_bytes=OAM_QUANT_BLOCK // 2,
        scale_bytes=Float32().sizeof(),
        limit=7,
        bias=7,
        doc="Two codes to a byte, that of the element of even index in the low half; value = (code - 7) * scale.",
    ),
    "q8": BlockEncoding(
        code_bytes=OAM_QUANT_BLOCK,
        scale_bytes=Float32().sizeof(),
        limit=127,
        bias=0,
        doc="A code is a byte, two's complement; value = code * scale.",
    ),
}
OAM_LEGACY: Final = 6
# Section types in the order in which a writer lays the sections out.
OAM_SECTIONS: Final = {"config": 1, "weights": 2, "state": 3, "optimizer": 4, "progress": 5, "legacy": OAM_LEGACY}
OAM_REQUIRED: Final = ("config", "progress")
OAM_TENSOR_SECTIONS: Final = ("weights", "state")
# The number of moment arrays that each kind of optimizer keeps.
OAM_OPTIMIZERS: Final = {"SGD": 2, "Adam": 2, "AdamW": 2, "Muon": 1}


def _default(subcon: Any, value: object) -> Any:
    return Default(subcon, value)


OamHeader = Struct(
    "magic" / _default(Magic(OAM_MAGIC), OAM_MAGIC) * "The bytes 4F 41 4D 00, `OAM` and a NUL.",
    "version"
    / _default(Limited("<L", OAM_VERSIONS[0], OAM_VERSIONS[-1]), OAM_NEWEST)
    * "Format version, 1 to 3; writers write 3.",
    "section_count" / Limited("<L", 1, OAM_MAX_SECTIONS) * "Number of entries in the section table, 1 to 32.",
    "flags" / _default(ZeroFlags(), 0) * "No flag is defined.",
    "total_size" / Int64ul * "Size of the whole file in bytes.",
    "checksum"
    / Int64ul
    * """
    Versions 2 and 3: FNV-1a-64 of this header with the checksum field itself taken as zero, followed by the whole
    section table. Version 1: the exclusive or of the checksums in the section table.
    """,
    "reserved" / _default(Reserved(32), bytes(32)) * "Zero; covered by the checksum from version 2 on.",
)
"""The file header, at offset 0."""

OamSection = Struct(
    "type"
    / Code("<L", OAM_SECTIONS, "section_type")
    * "1 config, 2 weights, 3 state, 4 optimizer, 5 progress, 6 legacy kernel cache.",
    "compression" / _default(Limited("<B", 0, 0), 0) * "0: sections are never compressed.",
    "reserved0" / _default(Reserved(3), bytes(3)) * "Zero.",
    "flags" / _default(ZeroFlags(), 0) * "No flag is defined.",
    "offset" / Int64ul * "Offset of the payload in the file.",
    "size" / Int64ul * "Size of the payload in bytes, without the padding that may follow it.",
    "compressed_size" / _default(Limited("<Q", 0, 0), 0) * "0: sections are never compressed.",
    "checksum" / Int64ul * "FNV-1a-64 of the payload.",
    "reserved1" / _default(Reserved(20), bytes(20)) * "Zero.",
)
"""One entry of the section table, which follows the file header."""

OamConfig = Struct(
    "architecture" / _default(Text(32), b"") * "Name of the model's architecture.",
    "config_version" / _default(Int32ul, 1) * "Version of the architecture's own configuration.",
    "flags" / _default(Int32ul, 0) * "Flags of the architecture's own.",
    "d_model" / _default(Int32ul, 0) * "Width of the model.",
    "n_layers" / _default(Int32ul, 0) * "Number of layers.",
    "d_vocab" / _default(Int32ul, 256) * "Size of the vocabulary.",
    "arch_config_size" / Int32ul * "Number of bytes of arch_config, which follow this record.",
    "weight_dtype" / _default(DtypeCode(), 0) * "Dtype that the weights are meant to have.",
    "state_dtype" / _default(DtypeCode(), 0) * "Dtype that the state is meant to have.",
    "compute_dtype" / _default(DtypeCode(), 0) * "Dtype that the model computes in.",
    "reserved0" / _default(Reserved(1), bytes(1)) * "Zero.",
    "reserved1" / _default(Reserved(48), bytes(48)) * "Zero.",
)
"""The head of the config section; arch_config, opaque bytes, follows it."""

OamIndex = Struct(
    "count" / Int32ul * "Number of tensor entries that follow.",
    "reserved" / _default(Reserved(4, checked=True), bytes(4)) * "Zero; readers check it.",
)
"""The head of a weights or state section; `count` tensor entries follow it, then the blob."""

OamTensor = Struct(
    "name" / Text(128) * "Name of the tensor, 1 to 127 bytes, unique within its section.",
    "blob_offset" / Int64ul * "Where the payload starts, counted from the start of the blob.",
    "num_bytes" / Int64ul * "Size of the payload in bytes, as shape, dtype and encoding give it.",
    "dtype" / DtypeCode() * "Dtype of the elements.",
    "rank" / Limited("<B", 0, OAM_MAX_RANK) * "Number of extents, 0 to 8; rank 0 is a scalar, one element.",
    "encoding"
    / _default(Code("<B", OAM_ENCODINGS, "encoding"), 0)
    * "0 dense, 1 q4, 2 q8 (quantized: version 3 only).",
    "block_size" / _default(Int8ul, 0) * "Elements per block: 0 for dense, 32 for q4 and q8.",
    "reserved" / _default(Reserved(4, checked=True), bytes(4)) * "Zero; readers check it.",
    "shape" / _default(Array(OAM_MAX_RANK, Int64ul), [0] * OAM_MAX_RANK) * "Extents; those beyond the rank are zero.",
)
"""One entry of a tensor index."""

OamOptimizer = Struct(
    "kind" / _default(Text(16), b"AdamW") * "`SGD`, `Adam`, `AdamW` or `Muon`.",
    "learning_rate" / _default(Float32(), f32_bits(3e-4)) * "Learning rate.",
    "beta1" / _default(Float32(), f32_bits(0.9)) * "Decay of the first moment.",
    "beta2" / _default(Float32(), f32_bits(0.999)) * "Decay of the second moment.",
    "epsilon" / _default(Float32(), f32_bits(1e-8)) * "Term that keeps the denominator from zero.",
    "weight_decay" / _default(Float32(), f32_bits(0.1)) * "Weight decay.",
    "step" / _default(Int64sl, 0) * "Number of steps taken.",
    "moment_count" / Int64ul * "Number of f32 elements in each moment.",
    "reserved" / _default(Reserved(16), bytes(16)) * "Zero.",
)
"""The head of the optimizer section; the first moment follows, then for all kinds but Muon the second."""

OamProgress = Struct(
    "phase" / _default(Int8ul, 0) * "Phase of the training run.",
    "reserved0" / _default(Reserved(3), bytes(3)) * "Zero.",
    "step" / _default(Int64sl, 0) * "Number of training steps done.",
    "bytes_seen" / _default(Int64ul, 0) * "Bytes of training data seen.",
    "env_steps" / _default(Int64ul, 0) * "Steps of the environment taken.",
    "learning_rate" / _default(Float32(), f32_bits(3e-4)) * "Learning rate in force.",
    "best_metric" / _default(Float32(), 0) * "Best value of the metric so far.",
    "lower_is_better"
    / _default(BoolByte(), 1)
    * "Whether a lower metric is better: 0 is false, and a reader MUST take any other byte as true.",
    "reserved1" / _default(Reserved(3), bytes(3)) * "Zero.",
    "metric_name" / _default(Text(32), b"loss") * "Name of the metric.",
    "reserved2" / _default(Reserved(32), bytes(32)) * "Zero.",
)
"""The whole progress section."""

OAM_RECORDS: Final = {
    "header": OamHeader,
    "section": OamSection,
    "config": OamConfig,
    "index": OamIndex,
    "tensor": OamTensor,
    "optimizer": OamOptimizer,
    "progress": OamProgress,
}

_TENSORS: Final = (
    Part(name="tensors", item="tensor", count="count", doc="The entries of the index."),
    Part(name="blob", item="byte", doc="The payloads; each entry says where in the blob its own lies."),
)

OAM_CONTENTS: Final = {
    "config": Content(
        doc="What the model is.",
        record="config",
        parts=(Part(name="arch_config", item="byte", count="arch_config_size", doc="The architecture's own, opaque."),),
    ),
    "weights": Content(doc="The model's weights.", record="index", parts=_TENSORS),
    "state": Content(doc="What the model keeps besides weights.", record="index", parts=_TENSORS),
    "optimizer": Content(
        doc="Settings and moments of the optimizer.",
        record="optimizer",
        parts=(
            Part(name="first_moment", item="f32", count="moment_count", doc="The first moment of each element."),
            Part(
                name="second_moment",
                item="f32",
                count="moment_count",
                doc="The second moment of each element, where the kind has one.",
                only=("kind", tuple(kind for kind, moments in OAM_OPTIMIZERS.items() if moments > 1)),
            ),
        ),
    ),
    "progress": Content(doc="How far training has come.", record="progress"),
    "legacy": Content(doc="A cache of compiled kernels, in old files only; readers skip it."),
}
"""What follows from a section's type."""

OAM_PLACES: Final = {
    "section": Place(name="payload", doc="The payload, as the section's type says.", offset="offset", size="size"),
    "tensor": Place(
        name="payload",
        doc="The elements, or codes and scales of a quantized tensor.",
        offset="blob_offset",
        size="num_bytes",
        within="blob",
    ),
}
"""What the records of a table point to."""


# --------------------------------------------------------------------------------------------------------- OCANNL

OCANNL_VERSION: Final = 1
OCANNL_MAX_HEADER: Final = 100_000_000  # bytes
OCANNL_MAX_DEPTH: Final = 1000  # lists open at a time; the records need eight
OCANNL_ALIGNMENT: Final = 32  # what writers take unless told otherwise
OCANNL_MAX_ALIGNMENT: Final = 1 << 26  # the largest power of two to which a header can be padded
OCANNL_NAMESPACE: Final = "ocannl"
OCANNL_PRECISION_SUFFIX: Final = "_prec"  # the header's names are the documents' names, capitalized, with this
OCANNL_TRAINING_VERSIONS: Final = (1, 2)
OCANNL_SEEDS_VERSION: Final = 2  # the first training record that lists the seeds
OCANNL_INT_MAX: Final = (1 << 62) - 1  # integers have 63 bits; nothing that is computed may go beyond

OcannlFrame = Struct(
    "header_length"
    / Limited(">l", 0, OCANNL_MAX_HEADER)
    * "Size of the header in bytes, big-endian; the data section follows the header.",
)
"""What opens the file; the header follows it."""


VALUE_KINDS: Final = {
    "int": "an integer",
    "atom": "an atom",
    "atoms": "a list of atoms",
    "ints": "a list of integers",
    "precision": "the name of a precision",
    "padding": "none, or (((left right) ...) neutral)",
    "option": "none, or (some atom)",
    "pairs": "a list of (key value) pairs of atoms",
    "nodes": "a list of (namespace id) pairs",
    "tensors": "a list of tensor records",
    "training": "a training record",
    "dtype": "the name of a dtype",
    "extents": "an array of integers",
    "range": "an array of two integers, begin and end",
}
"""The kinds of values, in words."""


def _key(name: str, kind: str, doc: str, least: int | None = None, **more: Any) -> Key:
    return Key(name=name, kind=kind, doc=doc, least=least, **more)


OCANNL_HEADER: Final = (
    _key("version", "int", "Format version: 1."),
    _key(
        "alignment",
        "int",
        "Payload offsets are multiples of it; older files lack it, which means 1.",
        1,
        optional=True,
    ),
    _key("tensors", "tensors", "One record for each tensor, in the order of their payloads."),
    _key("training", "training", "Where a training run stood, in a training checkpoint.", optional=True),
)
"""The outermost record of a header."""

OCANNL_TENSOR: Final = (
    _key("id", "int", "The tensor's id, unique within its namespace.", 0),
    _key("namespace", "atom", "Its namespace; the empty atom is an old spelling of the default one."),
    _key("label", "atoms", "Words that describe it to people; may be empty."),
    _key("prec", "precision", "Precision of the elements."),
    _key("dims", "ints", "Extents, padding included; an empty list is a scalar, one element.", 0),
    _key("padding", "padding", "Elements to the left and right of each axis that are not stored, and their value.", 0),
    _key("offset", "int", "Where the payload starts, counted in bytes from the start of the data section.", 0),
    _key("byte_length", "int", "Size of the payload in bytes.", 0),
)
"""The record of one tensor."""

OCANNL_TRAINING: Final = (
    _key("version", "int", "Version of the training record: 1 has no seeds, 2 has them."),
    _key("step", "int", "Optimizer steps done.", 0),
    _key("epoch", "int", "The epoch that is going on.", 0),
    _key("position", "int", "Where in the epoch's data the next batch starts, in the loop's own units.", 0),
    _key("host_rng", "option", "State of the host's random generator, as raw bytes."),
    _key("extra", "pairs", "What else the loop keeps on the host; no key twice."),
    _key(
        "seeds",
        "ints",
        "Every random seed that the session created; version 2 only.",
        optional=True,
        since=OCANNL_SEEDS_VERSION,
    ),
    _key("state", "nodes", "The tensors that the state was made of."),
)
"""The record of a training run."""

OCANNL_RECORDS: Final = {"header": OCANNL_HEADER, "tensor": OCANNL_TENSOR, "training": OCANNL_TRAINING}


# ----------------------------------------------------------------------------------------------------- safetensors

SAFETENSORS_MAX_HEADER: Final = 100_000_000  # bytes
SAFETENSORS_MAX_DEPTH: Final = 64  # objects and arrays open at a time; the entries need three
SAFETENSORS_HEADER_ALIGNMENT: Final = 8  # writers pad the header with spaces to a multiple of it
SAFETENSORS_METADATA: Final = "__metadata__"  # the key of what is no tensor

SafetensorsFrame = Struct(
    "header_length"
    / Limited("<Q", 0, SAFETENSORS_MAX_HEADER)
    * "Size of the header in bytes; the byte buffer follows the header.",
)
"""What opens the file; the header follows it."""

SAFETENSORS_ENTRY: Final = (
    _key("dtype", "dtype", "Type of the elements."),
    _key("shape", "extents", "Extents; an empty array is a scalar, one element.", 0),
    _key("data_offsets", "range", "Where the payload begins and ends, in bytes from the start of the byte buffer.", 0),
)
"""A tensor's entry in the header; its name is the entry's key there."""


# ------------------------------------------------------------------------------------------------ formats with a frame


FRAMES: Final = {
    "ocannl": Frame(
        record=OcannlFrame,
        length="header_length",
        header="The header, one S-expression; writers pad it with spaces so that the data section is aligned.",
        syntax="S-expression",
        utf8=False,
        data="data",
        data_doc="The data section. A tensor's record says where in it the payload lies.",
        records=OCANNL_RECORDS,
    ),
    "safetensors": Frame(
        record=SafetensorsFrame,
        length="header_length",
        header="The header, one JSON object; writers pad it with spaces.",
        syntax="JSON",
        utf8=True,
        data="buffer",
        data_doc="The byte buffer. A tensor's entry says where in it the payload lies.",
        records={"entry": SAFETENSORS_ENTRY},
    ),
}
"""The formats whose files are no sections."""

CONSTANTS: Final = {
    "oam": {
        "OAM_NEWEST": "The version that writers write.",
        "OAM_MANIFEST_VERSION": "The first version whose header checksum is FNV-1a-64 of header and section table.",
        "OAM_QUANT_VERSION": "The first version that has quantized tensors.",
        "OAM_PAGE": "The first payload starts on such a page; padding follows weights and state up to whole pages.",
        "OAM_MAX_SECTIONS": "The largest number of sections.",
        "OAM_MAX_RANK": "The largest number of extents.",
        "OAM_QUANT_BLOCK": "Elements per quantization block.",
        "FNV_OFFSET_BASIS": "FNV-1a-64 starts from it.",
        "FNV_PRIME": "FNV-1a-64: h = (h ^ byte) * prime, modulo 2^64.",
    },
    "ocannl": {
        "OCANNL_VERSION": "The version of the header.",
        "OCANNL_MAX_HEADER": "The largest size of the header in bytes.",
        "OCANNL_MAX_DEPTH": "The most lists that may be open at a time.",
        "OCANNL_ALIGNMENT": "The alignment of payloads that writers take unless told otherwise.",
        "OCANNL_MAX_ALIGNMENT": "The largest alignment.",
        "OCANNL_SEEDS_VERSION": "The first version of the training record that lists the seeds.",
        "OCANNL_INT_MAX": "The largest integer.",
    },
    "safetensors": {
        "SAFETENSORS_MAX_HEADER": "The largest size of the header in bytes.",
        "SAFETENSORS_MAX_DEPTH": "The most objects and arrays that may be open at a time.",
        "SAFETENSORS_HEADER_ALIGNMENT": "Writers pad the header with spaces to a multiple of it.",
    },
}
"""The numbers of a format that no field carries, in words."""
