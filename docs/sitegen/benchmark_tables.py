"""What things cost, from the figures of the benchmarks that are in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .markdown import table

__all__ = ["audit_costs"]

_FIGURES: Final = Path(__file__).parent.parent / "benchmarks/figures.json"


def audit_costs() -> str:
    """Return what an audit costs: each row of it is one of the benchmark, or a part of one."""
    rows: dict[str, Any] = {row["what"]: row for row in json.loads(_FIGURES.read_text("utf-8"))["rows"]}

    def per_file(what: str) -> str:
        number = int(what.partition(" ")[0].replace(",", ""))
        seconds = rows[what]["seconds"] / number
        return f"{seconds * 1000:.2f} ms, {1 / seconds:,.0f} a second"

    def rate(what: str) -> str:
        return f"{float(rows[what]['note'].removesuffix(' MB/s')) / 1000:.2f} GB/s"

    *_, worker = rows["memory, 20,000 files"]["note"].partition("a worker ")
    return table(
        ("work", "cost"),
        [
            ["a small file (under 100 kB), examined by one process", per_file("4,000 small files, 1 process")],
            ["the same, by two processes", per_file("4,000 small files, 2 processes")],
            ["the same, by a cluster of two workers", per_file("4,000 small files, a cluster of two workers")],
            ["an unchanged file, recognized as such", per_file("4,000 files that have not changed")],
            ["checksums of `.oam` payloads, one thread, numpy", rate("numpy, 1 thread")],
            ["the same, compiled (`ckptspec[fast]`)", rate("numba, 1 thread")],
            ["low bytes of the parts of one huge file, numpy", rate("low bytes only, numpy")],
            ["the same, compiled", rate("low bytes only, numba")],
            ["memory of a worker, with small files", worker],
        ],
    )
