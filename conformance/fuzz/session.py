"""A run of the fuzzer: a process for each kind, some at a time, and what they have found."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .engine import CORPUS_FOLDER, FOUND_FOLDER

__all__ = ["WORKER", "Result", "available", "run"]

WORKER: Final = Path(__file__).with_name("worker.py")
_START: Final = 6  # seconds that a process takes to get ready, about
_GRACE: Final = 180  # seconds after its time when a process is killed
_STATS: Final = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a kind: inputs tried, new inputs kept, the files of failures, trouble with the process itself."""

    kind: str
    tried: int
    kept: int
    found: tuple[Path, ...]
    trouble: str = ""


def available() -> bool:
    """Say whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def run(
    kinds: Sequence[str], folder: Path, seconds: float, jobs: int, seed: int, worker: Path = WORKER
) -> list[Result]:
    """Fuzz all kinds for ``seconds`` in all, ``jobs`` processes at a time; ``worker`` is the program of a process."""
    share = max(1, int(seconds * min(jobs, len(kinds)) / len(kinds) - _START))
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda kind: _one(worker, kind, folder / kind, share, seed), kinds))


def _one(worker: Path, kind: str, folder: Path, seconds: int, seed: int) -> Result:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    started = time.time()
    command = [sys.executable, "-P", str(worker), kind, str(folder.absolute()), str(seconds), str(seed)]
    with log.open("wb") as out:
        try:
            status = subprocess.run(command, stdout=out, stderr=out, timeout=seconds + _GRACE).returncode  # noqa: S603
            trouble = f"the process ended with status {status}" if status else ""
        except subprocess.TimeoutExpired:
            trouble = "the process did not end by itself"
    tried = _STATS.search(log.read_bytes())
    if not trouble and not tried:
        trouble = "the process tried nothing"
    found = [path for path in (folder / FOUND_FOLDER).glob("*") if path.suffix != ".txt"]
    return Result(
        kind=kind,
        tried=int(tried[1]) if tried else 0,
        kept=sum(1 for entry in os.scandir(folder / CORPUS_FOLDER) if entry.stat().st_mtime >= started - 1)
        if (folder / CORPUS_FOLDER).is_dir()
        else 0,
        found=tuple(sorted(path for path in found if path.stat().st_mtime >= started - 1)),
        trouble=f"{trouble}; see {log}" if trouble else "",
    )
