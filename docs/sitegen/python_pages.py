"""The pages on the Python interface: one for each group of public modules, filled by mkdocstrings."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final

__all__ = ["GROUPS", "python_pages"]

# Title of a page, what it is about, its modules.
GROUPS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "everyday": (
        "Any format",
        "Read, write and check files of any format; the format is told from the content.",
        ("ckptspec",),
    ),
    "oam": (".oam", "Model files.", ("ckptspec.oam", "ckptspec.quantization")),
    "ocannl": (
        "OCANNL",
        "Checkpoints, and what a program needs for its tensors.",
        ("ckptspec.ocannl", "ckptspec.ocannl.training", "ckptspec.ocannl.host_rng", "ckptspec.ocannl.host_state"),
    ),
    "safetensors": (
        "safetensors, Kaun, nuvec",
        "The container, and training state in it.",
        ("ckptspec.safetensors", "ckptspec.kaun", "ckptspec.nuvec"),
    ),
    "across": (
        "Across formats",
        "Conversion, comparison and digests.",
        (
            "ckptspec.convert",
            "ckptspec.compare",
            "ckptspec.elements",
            "ckptspec.digest",
            "ckptspec.statistics",
            "ckptspec.contents",
        ),
    ),
    "audits": (
        "Many files",
        "Audits: files examined in parallel, with results that are kept.",
        ("ckptspec.audit",),
    ),
    "findings": (
        "Findings and errors",
        "What is wrong with a file, and what is raised.",
        ("ckptspec.errors", "ckptspec.findings", "ckptspec.formats"),
    ),
    "pieces": (
        "Checksums, text, files",
        "The pieces that the formats are read and written with.",
        (
            "ckptspec.checksum",
            "ckptspec.sexp",
            "ckptspec.neutral",
            "ckptspec.regions",
            "ckptspec.source",
            "ckptspec.publish",
        ),
    ),
    "specification": (
        "The specification",
        "Schema, layout, dtypes and rules, as data.",
        (
            "ckptspec.spec.declarations",
            "ckptspec.spec.schema",
            "ckptspec.spec.layout",
            "ckptspec.spec.dtypes",
            "ckptspec.spec.rules",
            "ckptspec.spec.exports",
        ),
    ),
    "testing": (
        "In tests",
        "Assertions about files, golden files, judges of readers and writers; generators for hypothesis.",
        ("ckptspec.testing", "ckptspec.conformance.strategies"),
    ),
    "conformance": (
        "The suite",
        "Cases, runs, and what comes out of them.",
        (
            "ckptspec.conformance.catalogue",
            "ckptspec.conformance.runner",
            "ckptspec.conformance.adapters",
            "ckptspec.conformance.known_failures",
        ),
    ),
}


def python_pages() -> Iterator[tuple[str, str]]:
    """Yield path and text of the pages."""
    lines = ["# The Python interface", "", "Everything public, with its signature and what it says of itself.", ""]
    for name, (title, about, modules) in GROUPS.items():
        links = ", ".join(f"[`{module}`]({name}.md#{module})" for module in modules)
        lines.append(f"- [{title}]({name}.md): {about} {links}")
        parts = [f"# {title}", "", about]
        for module in modules:
            importlib.import_module(module)  # a name that is gone is an error here and not an empty page
            parts += ["", f"::: {module}"]
        yield f"python/{name}.md", "\n".join(parts) + "\n"
    yield "python/index.md", "\n".join(lines) + "\n"
