"""The rule catalogue: every requirement, once.

A rule's id says format, record and matter (``OAM-SEC-OVERLAP``). Ids are never renumbered and never reused. Kinds:

- ``reject``: a reader MUST refuse a file that breaks the rule;
- ``canonical``: a writer MUST NOT produce such a file, a reader accepts it. A file is canonical exactly when encoding
  its document in the newest version gives the same bytes;
- ``note``: nothing is broken, but somebody would like to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .schema import (
    OAM_MAX_RANK,
    OAM_MAX_SECTIONS,
    OAM_OPTIMIZERS,
    OAM_QUANT_BLOCK,
    OAM_VERSIONS,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_MAX_DEPTH,
    OCANNL_MAX_HEADER,
    OCANNL_NAMESPACE,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    SAFETENSORS_HEADER_ALIGNMENT,
    SAFETENSORS_MAX_DEPTH,
    SAFETENSORS_MAX_HEADER,
    SAFETENSORS_METADATA,
)

__all__ = ["RULES", "UPSTREAM", "Rule", "rules_of"]

REJECT: Final = "reject"
CANONICAL: Final = "canonical"
NOTE: Final = "note"

# The implementations whose behaviour the catalogue and the manifest speak of.
UPSTREAM: Final = {
    "oam-rust": "the Rust reader and writer of .oam files",
    "oam-cpp": "the C++ reader and writer of .oam files",
    "ocannl": "OCANNL's own reader and writer",
    "safetensors-official": "the official package `safetensors` for Python, version 0.8.0",
    "safetensors-ocaml": "the reader and writer of safetensors files in OCaml that Kaun uses",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One requirement.

    ``sentence`` is normative. ``clause`` is the anchor of the chapter that it belongs to. ``versions`` are the format
    versions it holds for. ``implies`` names rules that cannot but break together with this one. ``upstream`` tells
    what known implementations do where that is not simply what the kind says; ``reason`` why the rule is as it is.
    """

    id: str
    kind: str
    sentence: str
    clause: str
    versions: tuple[int, ...] = ()
    implies: tuple[str, ...] = ()
    upstream: str = ""
    reason: str = ""

    @property
    def format(self) -> str:
        """The format that the rule belongs to, as the neutral document spells it; ``any`` for all."""
        return self.id.split("-", 1)[0].lower()


def _table(
    clause: str, versions: tuple[int, ...], *rows: tuple[str, str, str] | tuple[str, str, str, dict[str, object]]
) -> list[Rule]:
    made = []
    for rule_id, kind, sentence, *rest in rows:
        more: dict[str, object] = {"versions": versions, **(rest[0] if rest else {})}
        made.append(Rule(id=rule_id, kind=kind, sentence=sentence, clause=clause, **more))  # type: ignore[arg-type]
    return made


_RUST_REFUSES_BYTES: Final = "The Rust reader refuses such text; the C++ reader does not look."
_TEXT_REASON: Final = "A name that is no text cannot be shown, typed or carried into another format without a loss."
_AFTER_NUL_UPSTREAM: Final = "Both readers stop at the NUL. Writing back, C++ keeps what follows it, Rust zeroes it."
_RESERVED_UPSTREAM: Final = "Both readers ignore the bytes. Writing back, C++ keeps them, Rust zeroes them."

_UPSTREAM_TAKES: Final = "OCANNL's reader does not look and takes such a file."
_OURS: Final = (
    "OCANNL does not publish how it spells the training record. The spelling is this specification's own; a reader of "
    "tensors alone skips the record, as it does any unknown key."
)

_OFFICIAL_TAKES: Final = "The official package accepts it."

_RULES: Final = [
    *_table(
        "any",
        (),
        (
            "ANY-FILE-FORMAT",
            REJECT,
            "A file MUST begin as one of the known formats does.",
            {"reason": "What a file is, is told from its content, never from its name."},
        ),
    ),
    *_table(
        "header",
        OAM_VERSIONS,
        ("OAM-HDR-SHORT", REJECT, "A file MUST be at least as long as its header."),
        ("OAM-HDR-MAGIC", REJECT, "The header MUST begin with the magic bytes."),
        ("OAM-HDR-VERSION", REJECT, "The version MUST be one that this specification describes."),
        ("OAM-HDR-COUNT", REJECT, f"The section count MUST be at least 1 and at most {OAM_MAX_SECTIONS}."),
        ("OAM-HDR-TOTAL", REJECT, "The total size MUST be the size of the file."),
        (
            "OAM-HDR-CHECKSUM",
            REJECT,
            "The header's checksum MUST be the FNV-1a-64 of the header, with the checksum taken as zero, and the "
            "section table.",
            {"versions": (2, 3), "reason": "It finds accidental damage; it proves nothing about who made the file."},
        ),
        (
            "OAM-HDR-XOR",
            REJECT,
            "The header's checksum MUST be the exclusive or of the checksums in the section table.",
            {"versions": (1,), "reason": "Offsets, sizes and types are unprotected in version 1."},
        ),
        (
            "OAM-HDR-OLD",
            CANONICAL,
            "A writer MUST write the newest version unless it is asked for another.",
            {"versions": (1, 2)},
        ),
        ("OAM-HDR-FLAGS", CANONICAL, "A writer MUST set the header's flags to zero.", {"upstream": _RESERVED_UPSTREAM}),
        (
            "OAM-HDR-RESERVED",
            CANONICAL,
            "A writer MUST set the header's reserved bytes to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
    ),
    *_table(
        "table",
        OAM_VERSIONS,
        ("OAM-SEC-TABLE", REJECT, "The section table MUST lie within the file."),
        ("OAM-SEC-TYPE", REJECT, "A section's type MUST be one of the known types."),
        ("OAM-SEC-DUP", REJECT, "A section type MUST NOT occur twice."),
        ("OAM-SEC-COMPRESSION", REJECT, "A section's compression MUST be 0."),
        ("OAM-SEC-COMPSIZE", REJECT, "A section's compressed size MUST be 0."),
        ("OAM-SEC-OVERFLOW", REJECT, "A section's offset plus its size MUST be less than 2^64."),
        (
            "OAM-SEC-START",
            REJECT,
            "A section MUST NOT begin before the data start, the end of the section table rounded up to a whole page.",
        ),
        ("OAM-SEC-RANGE", REJECT, "A section MUST end within the file."),
        ("OAM-SEC-CHECKSUM", REJECT, "A section's checksum MUST be the FNV-1a-64 of its payload."),
        (
            "OAM-SEC-OVERLAP",
            REJECT,
            "Two sections MUST NOT share a byte, and an empty section MUST NOT lie strictly inside another.",
            {
                "upstream": "For an empty section at the first byte or the end of another, the C++ reader's answer "
                "depends on its sort, the Rust reader's on the order of the table.",
                "reason": "At a boundary an empty section shares no byte, so it is accepted.",
            },
        ),
        ("OAM-SEC-MISSING", REJECT, "A file MUST have a config section and a progress section."),
        (
            "OAM-SEC-FLAGS",
            CANONICAL,
            "A writer MUST set a section's flags to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
        (
            "OAM-SEC-RESERVED",
            CANONICAL,
            "A writer MUST set a section entry's reserved bytes to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
    ),
    *_table(
        "placement",
        OAM_VERSIONS,
        (
            "OAM-SEC-LEGACY",
            CANONICAL,
            "A writer MUST NOT write a legacy kernel cache.",
            {"upstream": "Both readers skip the section; both writers leave it out."},
        ),
        (
            "OAM-SEC-ORDER",
            CANONICAL,
            "A writer MUST list the sections in the order config, weights, state, optimizer, progress.",
        ),
        (
            "OAM-SEC-BODIES",
            CANONICAL,
            "A writer MUST place the payloads in the order of the section table.",
        ),
        (
            "OAM-SEC-GAP",
            CANONICAL,
            "A writer MUST begin each payload where the payload before it ends, padding included, and the first at "
            "the data start.",
            {"upstream": "C++ keeps gaps when it writes a file back, Rust closes them."},
        ),
        (
            "OAM-SEC-PAGES",
            CANONICAL,
            "A writer MUST follow a weights or state payload with padding up to the next multiple of the page size, "
            "counted from the payload's first byte.",
            {"reason": "The size is rounded up, not the address: only the first section starts on a page boundary."},
        ),
        ("OAM-FILE-TRAILING", CANONICAL, "A writer MUST end the file with the last payload and its padding."),
        ("OAM-FILE-PADDING", CANONICAL, "A writer MUST fill the bytes that belong to no record with zeros."),
        (
            "OAM-IDX-EMPTY",
            CANONICAL,
            "A writer MUST leave out a weights or state section that has no tensors.",
            {
                "upstream": "C++ drops a section whose tensors are all empty, and so their names; it writes one that "
                "has a blob but no tensors. Rust writes the first and drops the second.",
                "reason": "A tensor without elements has a name, a dtype and a shape, and is kept.",
            },
        ),
    ),
    *_table(
        "config",
        OAM_VERSIONS,
        ("OAM-CFG-SHORT", REJECT, "A config section MUST be at least as long as its record."),
        ("OAM-CFG-NUL", REJECT, "The architecture MUST end with a NUL within its field."),
        (
            "OAM-CFG-UTF8",
            REJECT,
            "The architecture MUST be UTF-8.",
            {"upstream": _RUST_REFUSES_BYTES, "reason": _TEXT_REASON},
        ),
        ("OAM-CFG-DTYPE", REJECT, "The config's three dtypes MUST be known codes."),
        ("OAM-CFG-SIZE", REJECT, "The config record and arch_config together MUST fill the section."),
        (
            "OAM-CFG-TAIL",
            CANONICAL,
            "A writer MUST fill the architecture's field with zeros after its text.",
            {"upstream": _AFTER_NUL_UPSTREAM},
        ),
        (
            "OAM-CFG-RESERVED",
            CANONICAL,
            "A writer MUST set the config's reserved bytes to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
    ),
    *_table(
        "tensors",
        OAM_VERSIONS,
        ("OAM-IDX-SHORT", REJECT, "A weights or state section MUST be at least as long as its index header."),
        ("OAM-IDX-RESERVED", REJECT, "The index header's reserved bytes MUST be zero."),
        ("OAM-IDX-COUNT", REJECT, "The index MUST lie within its section."),
        ("OAM-TEN-NUL", REJECT, "A tensor's name MUST end with a NUL within its field."),
        (
            "OAM-TEN-UTF8",
            REJECT,
            "A tensor's name MUST be UTF-8.",
            {"upstream": _RUST_REFUSES_BYTES, "reason": _TEXT_REASON},
        ),
        ("OAM-TEN-EMPTY", REJECT, "A tensor's name MUST NOT be empty."),
        (
            "OAM-TEN-DUP",
            REJECT,
            "A tensor's name MUST NOT occur twice in a section.",
            {"reason": "Names are compared as bytes up to the NUL. The same name may stand in weights and in state."},
        ),
        ("OAM-TEN-DTYPE", REJECT, "A tensor's dtype MUST be a known code."),
        ("OAM-TEN-RANK", REJECT, f"A tensor's rank MUST be at most {OAM_MAX_RANK}."),
        ("OAM-TEN-ENCODING", REJECT, "A tensor's encoding MUST be dense, q4 or q8."),
        ("OAM-TEN-RESERVED", REJECT, "A tensor entry's reserved bytes MUST be zero."),
        ("OAM-TEN-OVERFLOW", REJECT, "A tensor's blob offset plus its byte count MUST be less than 2^64."),
        (
            "OAM-TEN-RANGE",
            REJECT,
            "A tensor's payload MUST lie within the blob, also when it has no bytes.",
        ),
        (
            "OAM-TEN-ELEMENTS",
            REJECT,
            "The extents, multiplied from left to right, MUST NOT reach 2^64 on the way.",
            {
                "reason": "Both readers multiply so: [2^63, 4, 0] is refused although its product is 0; [0, 2^63, 4] "
                "is not."
            },
        ),
        ("OAM-TEN-BLOCK", REJECT, "A dense tensor's block size MUST be 0."),
        (
            "OAM-TEN-SIZEOF",
            REJECT,
            "The byte count that shape, dtype and encoding give MUST be less than 2^64.",
        ),
        ("OAM-TEN-BYTES", REJECT, "A tensor's byte count MUST be the one that shape, dtype and encoding give."),
        ("OAM-TEN-OVERLAP", REJECT, "The payloads of two tensors of a section MUST NOT share a byte."),
        (
            "OAM-TEN-TAIL",
            CANONICAL,
            "A writer MUST fill a name's field with zeros after the name.",
            {"upstream": _AFTER_NUL_UPSTREAM},
        ),
        (
            "OAM-TEN-EXTENTS",
            CANONICAL,
            "A writer MUST set the extents beyond the rank to zero.",
            {"upstream": "Both readers ignore them. Writing back, C++ keeps them, Rust zeroes them."},
        ),
        (
            "OAM-TEN-ORDER",
            CANONICAL,
            "A writer MUST place the payloads of a section in the order of its index.",
            {"upstream": "C++ keeps the order when it writes a file back, Rust normalises it."},
        ),
        (
            "OAM-TEN-GAP",
            CANONICAL,
            "A writer MUST place the payloads of a section without gaps, from the first byte of the blob to its last.",
            {"upstream": "C++ keeps gaps when it writes a file back, Rust closes them."},
        ),
    ),
    *_table(
        "quantized",
        OAM_VERSIONS,
        (
            "OAM-QNT-VERSION",
            REJECT,
            "A file of version 1 or 2 MUST NOT have quantized tensors.",
            {"versions": (1, 2)},
        ),
        ("OAM-QNT-STATE", REJECT, "A tensor of the state MUST NOT be quantized.", {"versions": (3,)}),
        ("OAM-QNT-DTYPE", REJECT, "A quantized tensor's dtype MUST be f32.", {"versions": (3,)}),
        ("OAM-QNT-BLOCK", REJECT, f"A quantized tensor's block size MUST be {OAM_QUANT_BLOCK}.", {"versions": (3,)}),
        ("OAM-QNT-EMPTY", REJECT, "A quantized tensor MUST have at least one element.", {"versions": (3,)}),
    ),
    *_table(
        "optimizer",
        OAM_VERSIONS,
        ("OAM-OPT-SHORT", REJECT, "An optimizer section MUST be at least as long as its record."),
        ("OAM-OPT-NUL", REJECT, "The optimizer's kind MUST end with a NUL within its field."),
        ("OAM-OPT-KIND", REJECT, f"The optimizer's kind MUST be exactly one of {', '.join(OAM_OPTIMIZERS)}."),
        ("OAM-OPT-OVERFLOW", REJECT, "The size that the moment count gives MUST be less than 2^64."),
        ("OAM-OPT-SIZE", REJECT, "The optimizer record and its moments together MUST fill the section."),
        (
            "OAM-OPT-TAIL",
            CANONICAL,
            "A writer MUST fill the kind's field with zeros after its text.",
            {"upstream": _AFTER_NUL_UPSTREAM},
        ),
        (
            "OAM-OPT-RESERVED",
            CANONICAL,
            "A writer MUST set the optimizer's reserved bytes to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
    ),
    *_table(
        "progress",
        OAM_VERSIONS,
        ("OAM-PRG-SIZE", REJECT, "A progress section MUST be exactly as long as its record."),
        ("OAM-PRG-NUL", REJECT, "The metric's name MUST end with a NUL within its field."),
        (
            "OAM-PRG-UTF8",
            REJECT,
            "The metric's name MUST be UTF-8.",
            {"upstream": _RUST_REFUSES_BYTES, "reason": _TEXT_REASON},
        ),
        (
            "OAM-PRG-BOOL",
            CANONICAL,
            "A writer MUST write lower_is_better as 0 or 1.",
            {"upstream": "Both readers take any byte but 0 as true. C++ keeps the byte, Rust makes it 1."},
        ),
        (
            "OAM-PRG-TAIL",
            CANONICAL,
            "A writer MUST fill the metric name's field with zeros after its text.",
            {"upstream": _AFTER_NUL_UPSTREAM},
        ),
        (
            "OAM-PRG-RESERVED",
            CANONICAL,
            "A writer MUST set the progress section's reserved bytes to zero.",
            {"upstream": _RESERVED_UPSTREAM},
        ),
    ),
    *_table(
        "notes",
        OAM_VERSIONS,
        (
            "OAM-TEN-ALIGN",
            NOTE,
            "A payload SHOULD lie at a multiple of its element size, so that it can be used in place.",
            {
                "reason": "The layout itself puts the first blob at 4 modulo 8, whatever the writer does; readers on "
                "processors that insist on alignment copy such tensors."
            },
        ),
        ("OAM-TEN-BOOL", NOTE, "The elements of a bool tensor SHOULD be 0 or 1.", {"upstream": "Nobody looks."}),
        ("OAM-OPT-FINITE", NOTE, "The optimizer's numbers SHOULD be finite.", {"upstream": "Nobody looks."}),
        (
            "OAM-OPT-MOMENTS",
            NOTE,
            "The moments SHOULD be as long as the weights together have elements.",
            {"upstream": "Nobody looks.", "reason": "Which weights are trained, the file does not say."},
        ),
        (
            "OAM-OPT-ABSENT",
            NOTE,
            "A file from which training is to go on SHOULD have an optimizer section.",
            {"reason": "Without it a file holds a model, but no state to resume from."},
        ),
    ),
    *_table(
        "frame",
        (OCANNL_VERSION,),
        (
            "OCANNL-FRM-SHORT",
            REJECT,
            "A file MUST be at least as long as its header length.",
            {"reason": "Without it nobody knows where the header ends."},
        ),
        (
            "OCANNL-FRM-LENGTH",
            REJECT,
            f"The header length MUST be at least 0 and at most {OCANNL_MAX_HEADER:,}.",
            {"reason": "The bound keeps a damaged length from asking for memory that no header needs."},
        ),
        (
            "OCANNL-FRM-RANGE",
            REJECT,
            "The header MUST lie within the file.",
            {"reason": "The rest of the header is missing."},
        ),
        (
            "OCANNL-FRM-ALIGN",
            CANONICAL,
            "A writer MUST pad the header with spaces so that the data section starts at a multiple of the alignment.",
            {"upstream": _UPSTREAM_TAKES, "reason": "Payloads then are aligned in the file too, and can be mapped."},
        ),
    ),
    *_table(
        "text",
        (OCANNL_VERSION,),
        (
            "OCANNL-TXT-SYNTAX",
            REJECT,
            "The header MUST be exactly one S-expression, which blanks and comments may surround.",
            {"reason": "Of a broken or doubled expression, two readers could take two parts."},
        ),
        (
            "OCANNL-TXT-DEPTH",
            REJECT,
            f"The header MUST NOT nest lists deeper than {OCANNL_MAX_DEPTH}.",
            {
                "upstream": "OCANNL's reader takes any depth that memory allows.",
                "reason": "Eight levels are in use. Readers that recurse would die of depth, in ways nobody can tell "
                "from damage.",
            },
        ),
        (
            "OCANNL-TXT-BLANKS",
            CANONICAL,
            "A writer MUST surround the header with nothing but blanks and comments of S-expressions.",
            {
                "upstream": "OCANNL's reader strips vertical tabs and lone carriage returns from both ends too.",
                "reason": "Within an S-expression a vertical tab is part of an atom, and a lone carriage return an "
                "error; other readers need not strip them.",
            },
        ),
        (
            "OCANNL-REC-PAIRS",
            REJECT,
            "A record MUST be a list of (key value) pairs whose keys are atoms.",
            {"reason": "What is no pair could hide a value from one reader and not from another."},
        ),
        (
            "OCANNL-REC-MISSING",
            REJECT,
            "A record MUST have all its mandatory pairs.",
            {"reason": "A default would be a guess; only the alignment has one, for older files."},
        ),
        (
            "OCANNL-REC-VALUE",
            REJECT,
            "A value MUST have the form that its key asks for.",
            {"reason": "A value of another form has no meaning here."},
        ),
        (
            "OCANNL-REC-INTEGER",
            REJECT,
            "An integer MUST be one that OCaml reads, and MUST fit into 63 bits with its sign.",
            {
                "upstream": "OCANNL's reader refuses decimal integers beyond 63 bits, but wraps those in hexadecimal, "
                "octal, binary and 0u form.",
                "reason": "A number that wraps is another number to a reader with more bits.",
            },
        ),
        (
            "OCANNL-REC-UNKNOWN",
            CANONICAL,
            "A writer MUST NOT write pairs of other keys.",
            {
                "upstream": "OCANNL's reader ignores them; writing back, it leaves them out.",
                "reason": "Readers ignore them, so that later versions may add some.",
            },
        ),
        (
            "OCANNL-REC-REPEATED",
            CANONICAL,
            "A writer MUST NOT write a key twice in a record.",
            {"upstream": "The first pair counts.", "reason": "The first pair counts, to every reader."},
        ),
        (
            "OCANNL-REC-ORDER",
            CANONICAL,
            "A writer MUST write the pairs of a record in the order of its table.",
            {
                "upstream": _UPSTREAM_TAKES,
                "reason": "Values are the same in any order; one order makes files comparable.",
            },
        ),
        (
            "OCANNL-REC-SPELLING",
            CANONICAL,
            "A writer MUST write integers in plain decimal and floats in their shortest form of 15 or 17 digits.",
            {
                "upstream": "OCANNL's reader takes every form that OCaml reads.",
                "reason": "Values are the same however they are spelled; one spelling makes files comparable.",
            },
        ),
    ),
    *_table(
        "header",
        (OCANNL_VERSION,),
        (
            "OCANNL-HDR-VERSION",
            REJECT,
            f"The version MUST be {OCANNL_VERSION}.",
            {"reason": "What another version means is not known."},
        ),
        ("OCANNL-HDR-ALIGN", REJECT, "The alignment MUST be at least 1.", {"reason": "There are no multiples of 0."}),
        (
            "OCANNL-HDR-ALIGNMAX",
            REJECT,
            f"The alignment MUST be at most {OCANNL_MAX_ALIGNMENT:,}.",
            {
                "upstream": _UPSTREAM_TAKES,
                "reason": "No writer can pad a header to more, so no document of such a file could be written back.",
            },
        ),
        (
            "OCANNL-HDR-OLD",
            CANONICAL,
            "A writer MUST write the alignment, also if it is 1.",
            {
                "upstream": "OCANNL's reader takes a header without one, as older versions wrote it, for alignment 1.",
                "reason": "Readers then need no default.",
            },
        ),
    ),
    *_table(
        "tensors",
        (OCANNL_VERSION,),
        (
            "OCANNL-TEN-ID",
            REJECT,
            "An id MUST NOT be negative.",
            {"upstream": _UPSTREAM_TAKES, "reason": "Ids are counted up from 0; a reader without a sign would err."},
        ),
        (
            "OCANNL-TEN-PREC",
            REJECT,
            "The precision MUST be one of the known names.",
            {"reason": "The size of the elements would be a guess."},
        ),
        (
            "OCANNL-TEN-DIM",
            REJECT,
            "An extent MUST NOT be negative.",
            {
                "upstream": "OCANNL's reader takes the header; two negative extents make a positive size.",
                "reason": "No array has such a shape.",
            },
        ),
        (
            "OCANNL-TEN-SIZEOF",
            REJECT,
            "The extents, multiplied from left to right and then with the element size, MUST fit into 63 bits with a "
            "sign on the way.",
            {
                "upstream": "OCANNL's arithmetic wraps, so that a huge shape can pass for a small one.",
                "reason": "A size that wraps is another size to a reader with more bits.",
            },
        ),
        (
            "OCANNL-PAD-LEGACY",
            REJECT,
            "A padding MUST have a number as its neutral value.",
            {"reason": "Older files have none there: what the margins held is not known. Save such a file again."},
        ),
        (
            "OCANNL-PAD-COUNT",
            REJECT,
            "A padding MUST have a (left right) pair for each extent.",
            {"upstream": _UPSTREAM_TAKES, "reason": "The elements that are stored could not be told."},
        ),
        (
            "OCANNL-PAD-NEGATIVE",
            REJECT,
            "A padding MUST NOT be negative.",
            {"upstream": _UPSTREAM_TAKES, "reason": "More would be stored than there is."},
        ),
        (
            "OCANNL-PAD-FIT",
            REJECT,
            "The padding of an axis MUST NOT be larger than its extent.",
            {"upstream": _UPSTREAM_TAKES, "reason": "The axis would have a negative number of stored elements."},
        ),
        (
            "OCANNL-TEN-OFFSET",
            REJECT,
            "An offset MUST NOT be negative.",
            {"upstream": "OCANNL's reader refuses it when it reads the payload.", "reason": "It leads to the header."},
        ),
        (
            "OCANNL-TEN-LENGTH",
            REJECT,
            "A byte length MUST NOT be negative.",
            {"upstream": "OCANNL's reader fails when it reads the payload.", "reason": "No payload has such a size."},
        ),
        (
            "OCANNL-TEN-BYTES",
            REJECT,
            "A byte length MUST be the number of stored elements times the element size.",
            {
                "upstream": "OCANNL's reader takes the header, and for a payload that is too short or too long either "
                "fails or reads beside it, depending on how it is brought in.",
                "reason": "One reader would go by the shape and another by the length.",
            },
        ),
        (
            "OCANNL-TEN-OVERFLOW",
            REJECT,
            "Where a payload ends in the file MUST fit into 63 bits with a sign.",
            {"upstream": "OCANNL's check of the range wraps and passes.", "reason": "As for sizes."},
        ),
        (
            "OCANNL-TEN-RANGE",
            REJECT,
            "A payload MUST lie within the data section, also when it has no bytes.",
            {"reason": "The payload, or a part of it, is missing."},
        ),
        (
            "OCANNL-TEN-DUP",
            REJECT,
            "Two tensors MUST NOT have the same namespace and id.",
            {"reason": f"The empty namespace and {OCANNL_NAMESPACE} are the same here."},
        ),
        (
            "OCANNL-TEN-OVERLAP",
            REJECT,
            "The payloads of two tensors MUST NOT share a byte.",
            {
                "upstream": _UPSTREAM_TAKES,
                "reason": "In a reader that maps the file as a whole, writing to one tensor would change the other; "
                "in one that copies it would not.",
            },
        ),
        (
            "OCANNL-TEN-LEGACY",
            CANONICAL,
            f"A writer MUST spell the default namespace {OCANNL_NAMESPACE}.",
            {
                "upstream": "OCANNL's reader takes the empty atom, from before there were namespaces, for it.",
                "reason": "One spelling makes files comparable.",
            },
        ),
    ),
    *_table(
        "payloads",
        (OCANNL_VERSION,),
        (
            "OCANNL-DAT-ALIGN",
            CANONICAL,
            "A writer MUST place each payload at a multiple of the alignment.",
            {"upstream": _UPSTREAM_TAKES, "reason": "Values are the same wherever they lie."},
        ),
        (
            "OCANNL-DAT-ORDER",
            CANONICAL,
            "A writer MUST place the payloads in the order of the header.",
            {
                "upstream": _UPSTREAM_TAKES,
                "reason": "Values are the same in any order; in this one a reader goes through the file once.",
            },
        ),
        (
            "OCANNL-DAT-GAP",
            CANONICAL,
            "A writer MUST place each payload at the first multiple of the alignment that follows the payload before "
            "it in the file.",
            {"upstream": _UPSTREAM_TAKES, "reason": "A larger gap only takes room; readers go by the offsets."},
        ),
        (
            "OCANNL-DAT-ZERO",
            CANONICAL,
            "A writer MUST fill the gaps between payloads with zeros.",
            {
                "upstream": _UPSTREAM_TAKES,
                "reason": "No reader looks there; other bytes could carry what nobody meant to publish.",
            },
        ),
        (
            "OCANNL-DAT-TRAILING",
            CANONICAL,
            "A writer MUST end the file with the last payload.",
            {"upstream": _UPSTREAM_TAKES, "reason": "No reader looks there."},
        ),
    ),
    *_table(
        "training",
        (OCANNL_VERSION,),
        (
            "OCANNL-TRN-VERSION",
            REJECT,
            f"The training record's version MUST be {' or '.join(map(str, OCANNL_TRAINING_VERSIONS))}.",
            {"upstream": _OURS, "reason": "What a later version asks of who resumes is not known."},
        ),
        (
            "OCANNL-TRN-NEGATIVE",
            REJECT,
            "Step, epoch and position MUST NOT be negative.",
            {"upstream": _OURS, "reason": "They count."},
        ),
        (
            "OCANNL-TRN-EXTRA",
            REJECT,
            "A key MUST NOT occur twice in extra.",
            {
                "upstream": "OCANNL's writer refuses it.",
                "reason": "One reader would restore the first value and another the last.",
            },
        ),
        (
            "OCANNL-TRN-SEEDS",
            REJECT,
            "A training record of version 1 MUST NOT have seeds, one of version 2 MUST have them.",
            {"upstream": _OURS, "reason": "Whether the seeds can be checked must not be in doubt."},
        ),
        (
            "OCANNL-TRN-EMPTY",
            REJECT,
            "The state MUST name at least one tensor.",
            {"upstream": "OCANNL's writer refuses an empty state.", "reason": "There would be nothing to resume."},
        ),
        (
            "OCANNL-TRN-DUP",
            REJECT,
            "The state MUST NOT name a tensor twice.",
            {"upstream": _OURS, "reason": "It is a set."},
        ),
        (
            "OCANNL-TRN-ABSENT",
            REJECT,
            "The state MUST only name tensors that the file has.",
            {"upstream": _OURS, "reason": "What is not there cannot be restored."},
        ),
        (
            "OCANNL-TRN-LEGACY",
            CANONICAL,
            f"A writer MUST spell the default namespace {OCANNL_NAMESPACE} in the state too.",
            {"upstream": _OURS, "reason": "As for tensors."},
        ),
    ),
    *_table(
        "notes",
        (OCANNL_VERSION,),
        (
            "OCANNL-TEN-VOID",
            NOTE,
            "A tensor SHOULD have elements of some size.",
            {
                "upstream": "OCANNL reads the header of a file with a void tensor, but cannot load the tensor.",
                "reason": "A void tensor holds nothing that could be restored.",
            },
        ),
        (
            "OCANNL-TEN-MAP",
            NOTE,
            "A payload SHOULD lie at a multiple of its element size in the file, so that it can be mapped.",
            {"upstream": "OCANNL's reader copies it instead.", "reason": "So does this one; the values are the same."},
        ),
        (
            "OCANNL-PAD-INTEGRAL",
            NOTE,
            "The neutral value of a tensor of integers that has margins SHOULD be an integer that its precision holds.",
            {
                "upstream": "Nobody looks.",
                "reason": "This reader fills the margins with the nearest integer towards zero that fits, and 0 for a "
                "NaN.",
            },
        ),
        (
            "OCANNL-TRN-OLD",
            NOTE,
            "A training record SHOULD list the seeds, as version 2 does.",
            {"upstream": "OCANNL restores it with a warning.", "reason": "Without them, nobody can check the program."},
        ),
        (
            "OCANNL-TRN-BEYOND",
            NOTE,
            "A training checkpoint SHOULD hold no tensors but those of its state.",
            {"upstream": _OURS, "reason": "The others are not restored."},
        ),
    ),
    *_table(
        "frame",
        (),
        ("SAFETENSORS-FRM-SHORT", REJECT, "A file MUST be at least as long as its header length."),
        ("SAFETENSORS-FRM-LENGTH", REJECT, f"The header length MUST be at most {SAFETENSORS_MAX_HEADER}."),
        ("SAFETENSORS-FRM-RANGE", REJECT, "The header MUST lie within the file."),
    ),
    *_table(
        "text",
        (),
        (
            "SAFETENSORS-TXT-START",
            REJECT,
            "The header's first byte MUST be `{`.",
            {
                "upstream": "The official package accepts blanks before it, against its own description.",
                "reason": "A file can be told by its ninth byte.",
            },
        ),
        ("SAFETENSORS-TXT-UTF8", REJECT, "The header MUST be UTF-8, without a byte order mark."),
        (
            "SAFETENSORS-TXT-JSON",
            REJECT,
            "The header MUST be one JSON object.",
            {
                "upstream": "The OCaml reader accepts escapes and numbers that JSON does not have; the OCaml writer "
                "spells names with decimal escapes, which nobody else reads."
            },
        ),
        (
            "SAFETENSORS-TXT-SURROGATE",
            REJECT,
            "A string MUST NOT hold half a surrogate pair.",
            {
                "upstream": "The official package refuses it. The OCaml reader decodes no \\u escapes at all.",
                "reason": "It is no character, and no UTF-8 can spell it.",
            },
        ),
        (
            "SAFETENSORS-TXT-DEPTH",
            REJECT,
            f"The header MUST NOT nest objects and arrays deeper than {SAFETENSORS_MAX_DEPTH}.",
            {
                "upstream": "The official package takes 127 levels at most; the OCaml reader takes any number.",
                "reason": "Three levels are in use, and readers differ in what they survive.",
            },
        ),
        (
            "SAFETENSORS-TXT-TAIL",
            REJECT,
            "After the header's object there MUST be nothing but spaces.",
            {
                "upstream": "The official package accepts tabs and line ends too.",
                "reason": "The description says spaces, and every reader accepts those.",
            },
        ),
    ),
    *_table(
        "metadata",
        (),
        (
            "SAFETENSORS-MET-DUP",
            REJECT,
            f"{SAFETENSORS_METADATA}, and each key in it, MUST NOT be a duplicate.",
            {
                "upstream": "The official package refuses a second table and takes the last of two equal keys; the "
                "OCaml reader takes the first table.",
                "reason": "Two readers would see two values.",
            },
        ),
        (
            "SAFETENSORS-MET-FORM",
            REJECT,
            f"{SAFETENSORS_METADATA} MUST be an object.",
            {"upstream": "The official package takes null for no metadata.", "reason": "Leaving it out says the same."},
        ),
        ("SAFETENSORS-MET-VALUE", REJECT, "Each value of the metadata MUST be a string."),
        (
            "SAFETENSORS-MET-ORDER",
            CANONICAL,
            "A writer MUST write the metadata before the tensors, its keys sorted by their bytes.",
            {
                "upstream": "The official package writes the keys in an order that changes from call to call.",
                "reason": "The same content should give the same file.",
            },
        ),
    ),
    *_table(
        "entries",
        (),
        (
            "SAFETENSORS-TEN-DUP",
            REJECT,
            "A tensor's name MUST NOT be a duplicate.",
            {
                "upstream": "The official package takes the last of the entries with a name, whatever the others say; "
                "so it refuses two with different payloads, for the gap. The OCaml reader takes both.",
                "reason": "Two readers would see two tensors.",
            },
        ),
        (
            "SAFETENSORS-TEN-FORM",
            REJECT,
            "An entry MUST be an object.",
            {"upstream": "The official package takes an array of its three values too."},
        ),
        (
            "SAFETENSORS-TEN-KEYDUP",
            REJECT,
            "A key of an entry MUST NOT be a duplicate.",
            {
                "upstream": "The official package refuses it, but for keys that it does not know; the OCaml reader "
                "takes the first."
            },
        ),
        ("SAFETENSORS-TEN-MISSING", REJECT, "An entry MUST have a dtype, a shape and its data offsets."),
        (
            "SAFETENSORS-TEN-UNKNOWN",
            CANONICAL,
            "A writer MUST NOT write other keys into an entry.",
            {
                "upstream": "The official package ignores them, but for numbers beyond its floats, which it refuses; "
                "the OCaml reader refuses some values.",
                "reason": "Readers ignore them, so that later versions may add some.",
            },
        ),
        (
            "SAFETENSORS-TEN-DTYPE",
            REJECT,
            "The dtype MUST be one of the known names.",
            {
                "upstream": 'The official package takes an object such as {"U8": null}, too. The OCaml reader skips '
                "tensors of some dtypes, and refuses files with some others."
            },
        ),
        (
            "SAFETENSORS-TEN-SHAPE",
            REJECT,
            "The shape MUST be an array of integers of 0 to 2^64 - 1.",
            {"upstream": "The OCaml reader takes -0, and no integer beyond 63 bits."},
        ),
        ("SAFETENSORS-TEN-OFFSETS", REJECT, "The data offsets MUST be an array of two integers of 0 to 2^64 - 1."),
        ("SAFETENSORS-TEN-REVERSED", REJECT, "A payload MUST NOT end before it begins."),
        (
            "SAFETENSORS-TEN-SIZEOF",
            REJECT,
            "The extents, multiplied from left to right, MUST NOT reach 2^64 on the way, nor MUST the number of bits.",
            {"upstream": "The OCaml reader has 63 bits.", "reason": "The official package counts so."},
        ),
        ("SAFETENSORS-TEN-PARTIAL", REJECT, "A payload MUST be a whole number of bytes."),
        ("SAFETENSORS-TEN-BYTES", REJECT, "A payload MUST have the size that shape and dtype give."),
    ),
    *_table(
        "buffer",
        (),
        ("SAFETENSORS-DAT-RANGE", REJECT, "A payload MUST lie within the byte buffer."),
        ("SAFETENSORS-DAT-OVERLAP", REJECT, "The payloads of two tensors MUST NOT share a byte."),
        ("SAFETENSORS-DAT-GAP", REJECT, "There MUST be no bytes between payloads, nor before the first."),
        ("SAFETENSORS-DAT-TRAILING", REJECT, "There MUST be no bytes after the last payload."),
        (
            "SAFETENSORS-DAT-ORDER",
            CANONICAL,
            "A writer MUST place the payloads in the order of dtypes, and of names within a dtype.",
            {
                "upstream": "The official package writes so and reads any order.",
                "reason": "Large elements come first, so that all are aligned.",
            },
        ),
    ),
    *_table(
        "spelling",
        (),
        (
            "SAFETENSORS-HDR-ORDER",
            CANONICAL,
            "A writer MUST write the entries in the order of dtypes, and of names within a dtype.",
            {"upstream": "The official package writes so and reads any order."},
        ),
        (
            "SAFETENSORS-HDR-SPELLING",
            CANONICAL,
            "A writer MUST write compact JSON, with dtype, shape and data offsets in that order, and MUST escape only "
            "what must be escaped.",
            {"upstream": "The official package writes so and reads any spelling."},
        ),
        (
            "SAFETENSORS-HDR-PAD",
            CANONICAL,
            f"A writer MUST pad the header with spaces to the next multiple of {SAFETENSORS_HEADER_ALIGNMENT}.",
            {
                "upstream": "The official package writes so and reads any number of spaces.",
                "reason": "The byte buffer then is aligned in the file, and tensors can be mapped.",
            },
        ),
    ),
    *_table(
        "notes",
        (),
        (
            "SAFETENSORS-TEN-ALIGN",
            NOTE,
            "A payload SHOULD lie at a multiple of its element size in the file, so that it can be used in place.",
            {"upstream": "Nobody looks."},
        ),
        (
            "SAFETENSORS-TEN-NAMELESS",
            NOTE,
            "A tensor's name SHOULD NOT be empty.",
            {"upstream": "The official package does not mind. Kaun refuses such a file."},
        ),
        (
            "SAFETENSORS-TEN-BOOL",
            NOTE,
            "The elements of a BOOL tensor SHOULD be 0 or 1.",
            {"upstream": "Nobody looks."},
        ),
    ),
]

RULES: Final = {rule.id: rule for rule in _RULES}
"""Every rule by its id, in the order of the catalogue."""

if len(RULES) != len(_RULES):
    raise AssertionError("a rule id occurs twice in the catalogue")


def rules_of(format: str | None = None, kind: str | None = None) -> list[Rule]:
    """Return the rules of a format and kind; None stands for all."""
    return [rule for rule in _RULES if format in (None, rule.format) and kind in (None, rule.kind)]
