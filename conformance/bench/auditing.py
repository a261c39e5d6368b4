"""How fast many small files are audited: by one process, by two, and by a cluster; and what a report takes."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import operator
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
_RUNS = 5
_ENOUGH = 400.0  # files a second
_SETTLED = 8.0  # seconds after which workers have found their scheduler
_PATIENCE = 3.0  # seconds that a report may take

_WORK = """
import resource, sys
from ckptspec.audit import audit
from ckptspec.conformance.bench.timing import highest_memory
audit([sys.argv[1]], sys.argv[2], workers=2)
print(highest_memory(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
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
    gain = statistics.median(itertools.starmap(operator.truediv, zip(times[1], times[2], strict=True)))
    for workers, seconds in ((1, one), (2, two)):
        rate = _FILES / seconds
        target = (">=", 1.0) if workers == 2 else ("", None)
        name = f"{_FILES:,} small files, {workers} process{'es' if workers > 1 else ''}"
        against = f"{_ENOUGH:.0f} files/s"
        yield Row("audit", name, seconds, f"{rate:.0f} files/s", rate / _ENOUGH, against, *target)
    yield Row("audit", "two processes, turn by turn", two, "", gain, "one", ">=", 1.7)
    started = time.perf_counter()
    audit([files], place / "0-2.sqlite", workers=2)
    yield Row("audit", f"{_FILES:,} files that have not changed", time.perf_counter() - started)
    if importlib.util.find_spec("distributed"):
        yield from _cluster(place, files, two)
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


def _cluster(place: Path, files: Path, two: float) -> Iterator[Row]:
    """Measure the same work by two workers of a cluster on this machine, which run already."""
    scheduler = place / "scheduler.json"
    distributed = [sys.executable, "-m"]
    options = ["--scheduler-file", str(scheduler), "--no-dashboard"]
    commands = [[*distributed, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *options]]
    commands += [[*distributed, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *options]] * 2
    with contextlib.ExitStack() as stack:
        for command in commands:
            process = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
            while not scheduler.exists():
                time.sleep(0.1)
        address = json.loads(scheduler.read_text())["address"]
        time.sleep(_SETTLED)
        times = []
        for turn in range(_RUNS):
            started = time.perf_counter()
            audit([files], place / f"{turn}-cluster.sqlite", scheduler=address)
            times.append(time.perf_counter() - started)
    seconds = statistics.median(times)
    what = f"{_FILES:,} small files, a cluster of two workers"
    yield Row("audit", what, seconds, f"{_FILES / seconds:.0f} files/s", two / seconds, "two processes")


def _memory(place: Path) -> Iterator[Row]:
    taken = []
    for number in _MEMORY:
        files = _tree(place / f"memory-{number}", number)
        command = [sys.executable, "-c", _WORK, str(files), str(place / f"memory-{number}.sqlite")]
        started = time.perf_counter()
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        own, worker = map(int, told.split())
        taken.append(own)
        seconds = time.perf_counter() - started
        shutil.rmtree(files)
    few, many = taken
    note = f"{few / 1e6:.0f} MB and {many / 1e6:.0f} MB, a worker {worker / 1e6:.0f} MB"
    yield Row("audit", f"memory, {_MEMORY[1]:,} files", seconds, note, many / few, f"{_MEMORY[0]:,} files", "<=", 1.2)


def _reports(place: Path) -> Iterator[Row]:
    database = place / "many.sqlite"
    with Store(database) as store:
        store.begin({"places": ["/files"], "include": [], "exclude": [], "format": ""}, {})
        for start in range(0, _RESULTS, 50):
            store.add([_result(at) for at in range(start, start + 50)], Options())
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
