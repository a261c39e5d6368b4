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

from .schema import OAM_MAX_RANK, OAM_MAX_SECTIONS, OAM_OPTIMIZERS, OAM_QUANT_BLOCK, OAM_VERSIONS

__all__ = ["RULES", "UPSTREAM", "Rule", "rules_of"]

REJECT: Final = "reject"
CANONICAL: Final = "canonical"
NOTE: Final = "note"

# The implementations whose behaviour the catalogue and the manifest speak of.
UPSTREAM: Final = {
    "oam-rust": "the Rust reader and writer of .oam files",
    "oam-cpp": "the C++ reader and writer of .oam files",
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
        ("OAM-QNT-STATE", REJECT, "Only weights MUST be quantized, never state.", {"versions": (3,)}),
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
]

RULES: Final = {rule.id: rule for rule in _RULES}
"""Every rule by its id, in the order of the catalogue."""

if len(RULES) != len(_RULES):
    raise AssertionError("a rule id occurs twice in the catalogue")


def rules_of(format: str | None = None, kind: str | None = None) -> list[Rule]:
    """Return the rules of a format and kind; None stands for all."""
    return [rule for rule in _RULES if format in (None, rule.format) and kind in (None, rule.kind)]
