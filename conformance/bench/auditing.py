"""How fast many small files are audited, by one process and by two, and what a report on many results takes."""

from __future__ import annotations

import itertools
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...audit import audit
from ...audit.check import Examined, Options
from ...audit.database import Store
from ..catalogue import VECTORS, load_suite
from .timing import Row, command_seconds

__all__ = ["rows"]

_FILES = 4000
_MEMORY = (1000, 20_000)
_RESULTS = 100_000
_RUNS = 3
_ENOUGH = 400.0  # files a second
_PATIENCE = 3.0  # seconds that a report may take

_WORK = """
import resource, sys
from ckptspec.audit import audit
audit([sys.argv[1]], sys.argv[2], workers=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def rows(directory: Path) -> Iterator[Row]:
    """Measure audits of files of all formats, and reports."""
    place = directory / "audit"
    shutil.rmtree(place, ignore_errors=True)
    files = _tree(place / "files", _FILES)
    times: dict[int, list[float]] = {1: [], 2: []}
    for turn, workers in itertools.product(range(_RUNS), times):
        started = time.perf_counter()
        audit([files], place / f"{turn}-{workers}.sqlite", workers=workers)
        times[workers].append(time.perf_counter() - started)
    one, two = (statistics.median(times[workers]) for workers in times)
    for workers, seconds in ((1, one), (2, two)):
        rate = _FILES / seconds
        target = (">=", 1.0) if workers == 2 else ("", None)
        name = f"{_FILES:,} small files, {workers} process{'es' if workers > 1 else ''}"
        against = f"{_ENOUGH:.0f} files/s"
        yield Row("audit", name, seconds, f"{rate:.0f} files/s", rate / _ENOUGH, against, *target)
    yield Row("audit", "two processes", two, "", one / two, "one", ">=", 1.7)
    started = time.perf_counter()
    audit([files], place / "0-2.sqlite", workers=2)
    yield Row("audit", f"{_FILES:,} files that have not changed", time.perf_counter() - started)
    yield from _memory(place)
    yield from _reports(place)
    shutil.rmtree(place, ignore_errors=True)


def _tree(place: Path, number: int) -> Path:
    """Make so many small files: copies of golden files that readers accept, a few of others among them."""
    cases = [case for case in load_suite().cases if case.file and not case.file.endswith((".json", ".document"))]
    chosen = [case for case in cases if case.verdict == "valid" and case.size < 100_000]
    chosen += [case for case in cases if case.verdict == "invalid" and case.size < 100_000][:: len(cases) // 40]
    for at, case in zip(range(number), itertools.cycle(chosen), strict=False):
        folder = place / f"{at // 500:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(VECTORS / case.file, folder / f"{at:06d}{Path(case.file).suffix}")
    return place


def _memory(place: Path) -> Iterator[Row]:
    taken = []
    for number in _MEMORY:
        files = _tree(place / f"memory-{number}", number)
        command = [sys.executable, "-c", _WORK, str(files), str(place / f"memory-{number}.sqlite")]
        started = time.perf_counter()
        taken.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        seconds = time.perf_counter() - started
        shutil.rmtree(files)
    few, many = taken
    note = f"{few / 1e6:.0f} MB and {many / 1e6:.0f} MB"
    yield Row("audit", f"memory, {_MEMORY[1]:,} files", seconds, note, many / few, f"{_MEMORY[0]:,} files", "<=", 1.2)


def _reports(place: Path) -> Iterator[Row]:
    database = place / "many.sqlite"
    with Store(database) as store:
        store.begin({"places": ["/files"], "include": [], "exclude": [], "format": ""}, {})
        for at in range(_RESULTS):
            store.add(_result(at), Options())
        store.end("finished")
    for kind in ("text", "jsonl", "csv", "html"):
        command = [sys.executable, "-m", "ckptspec", "audit", "report", "--db", str(database), "--format", kind]
        wrapped = [sys.executable, "-c", _QUIETLY, *command, "-o", str(place / "report")]
        seconds = command_seconds({kind: wrapped}, runs=_RUNS)[kind]
        ratio = seconds / _PATIENCE
        yield Row("audit", f"report on {_RESULTS:,}, {kind}", seconds, "", ratio, f"{_PATIENCE:g} s", "<=", 1.0)


_QUIETLY = "import subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)"  # 1: some are refused


def _result(at: int) -> Examined:
    rule, kind = ("SAFETENSORS-DAT-RANGE", "reject") if at % 50 == 0 else ("SAFETENSORS-DAT-ORDER", "canonical")
    verdict = "refused" if at % 50 == 0 else "accepted" if at % 5 == 0 else "canonical"
    finding = (rule, kind, 8, 8, "tensors['w']", "something", "something else", "")
    return Examined(
        path=f"/files/{at // 1000:03d}/{at:06d}.safetensors",
        size=50_000 + at,
        stamp="1 2 3",
        verdict=verdict,
        format="safetensors",
        counts={} if verdict == "canonical" else {rule: 2},
        findings=() if verdict == "canonical" else (finding, finding),
    )
