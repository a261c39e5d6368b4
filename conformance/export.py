"""Copy golden files out of the package, for those who run them without it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..publish import publishing, writable
from .catalogue import MANIFEST, VECTORS, Case

__all__ = ["export"]


def export(cases: Sequence[Case], directory: str | os.PathLike[str]) -> None:
    """Write the cases' files, what is expected of them, the manifest and the JSON Schemas below ``directory``."""
    writable(os.path.join(directory, MANIFEST.name))  # before a Path makes an address look like none
    target = Path(directory)
    for case in cases:
        for name in (case.file, case.expected):
            _write(target / name, (VECTORS / name).read_bytes())
    manifest = json.loads(MANIFEST.read_text("utf-8"))
    chosen = {case.id for case in cases}
    manifest["cases"] = [row for row in manifest["cases"] if row["id"] in chosen]
    for path in sorted((MANIFEST.parent / "schemas").glob("*.json")):
        _write(target / path.name, path.read_bytes())
    _write(target / MANIFEST.name, json.dumps(manifest, indent=1).encode() + b"\n")


def _write(path: Path, data: bytes) -> None:
    with publishing(path, lasting=False) as draft:
        draft.write(data)
