"""Measure everything, print a table with ratios, and write it as JSON if asked for."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ... import __version__
from ...terminal import columns
from . import auditing, containers, hashing, index, loading, ocannl, opening, saving, start
from .plot import draw
from .timing import Row

__all__ = ["main"]

GROUPS = ("start", "index", "open", "hash", "load", "save", "ocannl", "containers", "audit")
SIZES = {"1 MB": 1 << 20, "100 MB": 100 << 20, "1 GB": 1 << 30, "4 GB": 1 << 32}


def _measure(groups: list[str], directory: Path, sizes: dict[str, int]) -> Iterator[Row]:
    few: dict[str, int] = {name: sizes[name] for name in ("1 MB", "1 GB") if name in sizes}
    large: dict[str, int] = {name: sizes[name] for name in ("100 MB", "1 GB") if name in sizes}
    tasks: dict[str, Callable[[], Iterator[Row]]] = {
        "start": start.rows,
        "index": index.rows,
        "open": lambda: opening.rows(directory, few),
        "hash": lambda: hashing.rows(directory, min(256 << 20, 32 * max(sizes.values()))),
        "load": lambda: loading.rows(directory, sizes),
        "save": lambda: saving.rows(directory, sizes),
        "ocannl": lambda: ocannl.rows(directory, few),
        "containers": lambda: containers.rows(directory, large),
        "audit": lambda: auditing.rows(directory),
    }
    for name in GROUPS:
        if name in groups:
            gc.collect()
            gc.freeze()  # what the groups before have left is no burden on this one
            yield from tasks[name]()


def _line(row: Row) -> list[str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f} x {row.against}"
    target = "" if row.target is None or row.ratio is None else f"{row.better} {row.target:g}"
    mark = {True: "met", False: "MISSED", None: ""}[row.met]
    return [row.group, row.what, f"{row.seconds * 1000:.1f} ms", row.note, ratio, target, mark]


def main() -> int:
    """Run the benchmarks; the exit status does not depend on the figures, since machines are noisy."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=GROUPS, help="only this group (repeatable)")
    parser.add_argument("--largest", choices=SIZES, default="4 GB", help="the largest file (default: 4 GB)")
    parser.add_argument("--directory", help="where to put the files that are measured (default: a temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--plot", metavar="FILE", help="draw the figures as a PNG")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(args.directory or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        made = []
        names = list(SIZES)
        sizes = {name: SIZES[name] for name in names[: names.index(args.largest) + 1]}
        for row in _measure(args.only or list(GROUPS), directory, sizes):
            made.append(row)
            print("  ".join(_line(row)), file=sys.stderr)
    print(*columns([["group", "what", "time", "", "ratio", "target", ""], *map(_line, made)], right=(2,)), sep="\n")
    if args.json:
        machine = {"python": platform.python_version(), "numpy": np.__version__, "processors": os.cpu_count()}
        facts = {"ckptspec": __version__, **machine, "rows": [row.to_json() for row in made]}
        Path(args.json).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    if args.plot:
        draw(made, Path(args.plot))
    return 0


if __name__ == "__main__":
    sys.exit(main())
