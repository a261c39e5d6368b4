"""Trying inputs: every target of a kind, within the limits; what fails is told apart by where it fails."""

from __future__ import annotations

import re
import traceback
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...spec.schema import OcannlFrame
from ..catalogue import load_suite
from .limits import within
from .subjects import KINDS, Subject
from .targets import Target, targets_of

__all__ = ["CORPUS", "MOST", "Failure", "chosen", "corpus", "inputs", "kind_of", "name_of", "trial", "vectors"]

CORPUS: Final = Path(__file__).parent / "corpus"
MOST: Final = 16_384  # bytes of an input
_ALWAYS: Final = ("decode", "validate", "sexp", "document")
_MEASURED: Final = 16  # one in so many inputs has its memory measured while fuzzing: it takes long


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a target: a line about it, and the traceback."""

    target: str
    what: str
    trace: str
    place: str

    @property
    def signature(self) -> str:
        """What is the same for failures of one cause: target, kind of error, place in the code."""
        return f"{self.target} {self.place} {re.sub(r'[0-9]+', 'N', self.what)[:60]}"


def trial(
    kind: str, data: bytes, targets: Iterable[Target] | None = None, *, memory: bool = True, slack: float = 1
) -> list[Failure]:
    """Try an input on targets, by default on all of its kind; return what fails."""
    failures = []
    for target in targets_of(kind) if targets is None else targets:
        subject = Subject(kind, data)
        try:
            within(lambda: target.run(subject), len(data), target.factor, memory=memory, slack=slack)  # noqa: B023
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failures.append(_failure(target, error))
    return failures


def _failure(target: Target, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if "ckptspec" in frame.filename), None)
    where = "" if place is None else f"{Path(place.filename).name}:{place.name}:{place.lineno}"
    line = f"{type(error).__name__}: {error}".splitlines()[0][:500]
    return Failure(target.name, line, "".join(traceback.format_exception(error)), where)


def chosen(kind: str, data: bytes) -> tuple[list[Target], bool]:
    """Return the targets that an input goes to while fuzzing, and whether its memory is measured.

    All inputs are decoded and validated; the other targets, which take longer, take turns, as the input's own bytes
    have it, so that the same input always does the same.
    """
    lot = zlib.crc32(data)
    always = [target for target in targets_of(kind) if target.name in _ALWAYS]
    others = [target for target in targets_of(kind) if target.name not in _ALWAYS]
    if others:
        always.append(others[lot % len(others)])
    return always, lot // 1024 % _MEASURED == 0


# -------------------------------------------------------------------------------------------------------------- inputs


def vectors(kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of the golden files that are inputs of a kind, but for long ones.

    S-expressions are the headers of OCANNL checkpoints.
    """
    for case in load_suite().cases:
        if case.size <= MOST and kind == ("document" if case.kind == "document" else case.format):
            yield case.id, case.read()
        elif case.size <= MOST and kind == "sexp" and case.format == "ocannl" and case.kind == "file":
            yield case.id, case.read()[OcannlFrame.sizeof() :]


def corpus(kind: str) -> list[Path]:
    """Return the committed inputs of a kind."""
    return sorted(path for path in (CORPUS / kind).glob("*") if path.is_file())


def kind_of(path: Path) -> str | None:
    """Return the kind of an input that its path tells: the corpus and what is found lie in folders of the kinds."""
    return next((part for part in reversed(path.absolute().parts) if part in KINDS), None)


def name_of(data: bytes) -> str:
    """Return the file name of an input."""
    return f"{zlib.crc32(data):08x}-{len(data)}"


def inputs(kind: str, one_in: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of all committed inputs, and of one in so many golden files."""
    for path in corpus(kind):
        yield f"{kind}/{path.name}", path.read_bytes()
    for name, data in vectors(kind):
        if zlib.crc32(name.encode()) % one_in == 0:
            yield name, data
