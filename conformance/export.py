"""Copy golden files out of the package, for those who run them without it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .catalogue import MANIFEST, VECTORS, Case

__all__ = ["export"]


def export(cases: Sequence[Case], directory: str | os.PathLike[str]) -> None:
    """Write the cases' files, what is expected of them, the manifest and the JSON Schemas below ``directory``."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for name in (case.file, case.expected):
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes((VECTORS / name).read_bytes())
    manifest = json.loads(MANIFEST.read_text("utf-8"))
    chosen = {case.id for case in cases}
    manifest["cases"] = [row for row in manifest["cases"] if row["id"] in chosen]
    (target / MANIFEST.name).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    for path in sorted((MANIFEST.parent / "schemas").glob("*.json")):
        (target / path.name).write_bytes(path.read_bytes())
