"""Choosing inputs for the committed corpus: the smallest of each behaviour that no committed input shows so far."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ... import encode, neutral, sexp
from ...errors import CheckpointError
from ...formats import FORMATS
from .subjects import Subject
from .trials import CORPUS, inputs, name_of, trial

__all__ = ["adopt", "behaviour"]

_LARGEST: Final = 8800  # bytes of a file worth committing


def behaviour(kind: str, data: bytes) -> str:
    """Return what an input does: the rules that it breaks and what survives, or the message with which it is refused.

    Two inputs of the same behaviour test much the same; numbers and quoted values do not count.
    """
    try:
        if kind in FORMATS:
            report = Subject(kind, data).report
            states = {f"{item.what} {item.state}" for item in report.survivors}
            return " ".join([*sorted({finding.rule for finding in report}), *sorted(states)])
        if kind == "sexp":
            sexp.parse(data)
        else:
            encode(neutral.parse_json(data))
        return ""
    except (sexp.SexpError, CheckpointError) as error:
        return re.sub(r"'.*?'|[0-9]+", "_", str(error))


def adopt(kind: str, files: Iterable[Path], most: int) -> list[Path]:
    """Copy at most so many inputs into the committed corpus, if they show something new and fail nowhere."""
    known = {behaviour(kind, data) for _, data in inputs(kind)}
    chosen: dict[str, bytes] = {}
    for data in sorted((path.read_bytes() for path in files), key=lambda data: (len(data), data)):
        told = behaviour(kind, data) if len(data) <= _LARGEST else ""
        if told and told not in known and told not in chosen and len(chosen) < most and not trial(kind, data):
            chosen[told] = data
    made = []
    for data in chosen.values():
        path = CORPUS / kind / name_of(data)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        made.append(path)
    return made
