"""The case catalogue: what ``manifest.json`` says of every golden file.

The manifest is generated from the case definitions in ``cases/``. Beside each case's file stands ``<name>.json``: for a
file that a decoder reads, the neutral document; for one that it refuses, ``{"error": {...}}`` as the reference prints.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = [
    "ANY_FORMAT",
    "DECODE",
    "ENCODE",
    "MANIFEST",
    "PROTOCOL_VERSION",
    "SUITE_VERSION",
    "VECTORS",
    "Case",
    "Suite",
    "load_suite",
]

SUITE_VERSION: Final = "1.0"  # changes with every change of a verdict, a document or the set of cases
PROTOCOL_VERSION: Final = "1"

_HERE: Final = Path(__file__).parent
VECTORS: Final = _HERE / "vectors"
MANIFEST: Final = _HERE / "manifest.json"

VERDICTS: Final = ("valid", "invalid", "acceptable")
LEVELS: Final = ("must", "should")
ANY_FORMAT: Final = "any"  # cases that go along with every format
DECODE: Final = "decode"
ENCODE: Final = "encode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    ``kind`` is ``file`` (a decoder gets the file) or ``document`` (an encoder gets the text). ``file`` and ``expected``
    are paths below ``vectors``. ``canonical`` says that encoding the document must be able to give exactly this file.
    ``reason`` and ``behaviour`` (implementation to what it does) explain acceptable cases.
    """

    id: str
    format: str
    title: str
    kind: str
    verdict: str
    level: str
    rules: tuple[str, ...]
    versions: tuple[int, ...]
    tags: tuple[str, ...]
    file: str
    sha256: str
    size: int
    expected: str
    canonical: bool
    reason: str = ""
    behaviour: dict[str, str] = field(default_factory=dict)

    def read(self) -> bytes:
        """Return the content of the case's file."""
        return self.path.read_bytes()

    def read_expected(self) -> Any:
        """Return the neutral document, or the object with the key ``error``."""
        return json.loads((VECTORS / self.expected).read_text("utf-8"))

    def to_json(self) -> dict[str, Any]:
        """Return the case as its row in the manifest."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"<Case {self.id}>"

    def __str__(self) -> str:
        return self.id

    @property
    def directions(self) -> tuple[str, ...]:
        """What the case tests: decoders read all files, encoders write all documents and those of the valid files."""
        if self.kind == "document":
            return (ENCODE,)
        return (DECODE, ENCODE) if self.verdict == "valid" and self.format != ANY_FORMAT else (DECODE,)

    @property
    def path(self) -> Path:
        """The case's file, as it was installed; whoever wants to change it takes a copy."""
        return VECTORS / self.file

    @property
    def document(self) -> Any:
        """The neutral document that the case is about; None if it is one of an invalid case, or there is none."""
        if self.verdict == "invalid":
            return None
        document = self.read_expected() if self.expected else json.loads(self.read())
        return document if "format" in document else None

    def copy_to(self, folder: str | os.PathLike[str]) -> Path:
        """Write the case's file into a folder, under its own name; return the path."""
        copied = Path(folder, self.path.name)
        copied.write_bytes(self.read())
        return copied

    @property
    def bytes(self) -> bytes:
        """The content of the case's file."""
        return self.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All cases, and the implementations whose behaviour they tell. ``smoke`` maps a format to its smoke case."""

    suite_version: str
    protocol_version: str
    implementations: dict[str, str]
    smoke: dict[str, str]
    cases: tuple[Case, ...]

    def case(self, case_id: str) -> Case:
        """Return a case by its id; KeyError if there is none."""
        for case in self.cases:
            if case.id == case_id:
                return case
        raise KeyError(case_id)


def _case(row: dict[str, Any]) -> Case:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Case(**values)


def load_suite(manifest: Path = MANIFEST) -> Suite:
    """Read the manifest."""
    raw = json.loads(manifest.read_text("utf-8"))
    cases = tuple(_case(row) for row in raw["cases"])
    return Suite(
        suite_version=raw["suite_version"],
        protocol_version=raw["protocol_version"],
        implementations=raw["implementations"],
        smoke=raw["smoke"],
        cases=cases,
    )
