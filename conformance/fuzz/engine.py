"""What a worker does, apart from atheris: files, seeds, and what happens to an input."""

from __future__ import annotations

import importlib
import pkgutil
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from . import mutator
from .dictionary import dictionary
from .limits import INSTRUMENTED, MEMORY
from .trials import MOST, Failure, chosen, corpus, name_of, trial, vectors

__all__ = ["CORPUS_FOLDER", "FOUND_FOLDER", "Engine", "import_all"]

CORPUS_FOLDER: Final = "corpus"
FOUND_FOLDER: Final = "found"
_SEEDS_A_SECOND: Final = 1  # that are tried first: a short run has no time for all golden files
_HANGING: Final = 120  # seconds after which libFuzzer ends the process
_ROOM: Final = 1 << 30  # bytes of address space that an input may ask for
_LEFT_OUT: Final = ("conformance", "_numba", "pytest_plugin", "__main__", "testing", "cli.suite")


def import_all() -> None:
    """Import all modules of the reference now, while imports are instrumented: many are imported late."""
    import ckptspec

    for module in pkgutil.walk_packages(ckptspec.__path__, "ckptspec."):
        if not any(part in module.name for part in _LEFT_OUT):
            importlib.import_module(module.name)


class Engine:
    """Fuzzes inputs of one kind; ``folder`` is where its files are."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.corpus = folder / CORPUS_FOLDER
        self.found = folder / FOUND_FOLDER
        self.scratch = folder / "scratch"
        for made in (self.corpus, self.found, self.scratch):
            made.mkdir(parents=True, exist_ok=True)
        self._end = float("inf")
        self._known: dict[str, tuple[Path, int]] = {}
        _limit_address_space()

    def arguments(self, seconds: int, seed: int) -> list[str]:
        """Return the arguments for libFuzzer; writes the dictionary and the seeds for it."""
        self._end = time.monotonic() + seconds
        words = self.scratch / "words"
        words.write_text(dictionary(self.kind), "ascii")
        seeds = self.scratch / "seeds"
        seeds.write_text(",".join(map(str, self._seeds(seconds, seed))))
        return [
            sys.argv[0],
            f"-dict={words}",
            f"-seed_inputs=@{seeds}",
            f"-max_total_time={seconds}",
            f"-seed={seed % (1 << 32) or 1}",
            f"-max_len={MOST}",
            f"-timeout={_HANGING}",
            "-len_control=0",
            "-print_final_stats=1",
            f"-artifact_prefix={self.found}/",
            str(self.corpus),
        ]

    def _seeds(self, seconds: int, seed: int) -> list[Path]:
        """Write as many committed inputs and golden files as there is time for into files; return their paths."""
        golden = list(vectors(self.kind))
        random.Random(seed).shuffle(golden)  # noqa: S311
        known = [path.read_bytes() for path in corpus(self.kind)] + [data for _, data in golden]
        folder = self.scratch / "inputs"
        folder.mkdir(exist_ok=True)
        paths = []
        for data in known[: max(1, seconds * _SEEDS_A_SECOND)]:
            path = folder / name_of(data)
            path.write_bytes(data)
            paths.append(path)
        return paths

    def mutator(self, mutate: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
        """Return the change of an input that libFuzzer calls; ``mutate`` is its own."""
        return lambda data, most, seed: mutator.mutated(self.kind, data, most, seed, mutate)

    def crossover(self, one: bytes, other: bytes, most: int, seed: int) -> bytes:
        """Return an input that has parts of two."""
        return mutator.crossover(self.kind, one, other, most, seed)

    def try_one(self, data: bytes) -> None:
        """Try an input, and keep it if it fails; do nothing once the time is over, for libFuzzer tries all seeds."""
        if time.monotonic() > self._end:
            return
        targets, memory = chosen(self.kind, data)
        before = _resident()
        failures = trial(self.kind, data, targets, memory=memory, slack=INSTRUMENTED)
        grown = _resident() - before
        most = sum(MEMORY.of(len(data), target.factor) for target in targets)
        if grown > most:
            what = f"Violation: the process has grown by {grown} bytes for {len(data)} bytes, {int(most)} are allowed"
            failures.append(Failure("all", what, what + "\n", ""))
        for failure in failures:
            self._keep(data, failure)

    def _keep(self, data: bytes, failure: Failure) -> None:
        """Keep the smallest input for each kind of failure, and the traceback beside it."""
        path, size = self._known.get(failure.signature, (None, len(data) + 1))
        if len(data) >= size:
            return
        if path is not None:
            path.unlink(missing_ok=True)
            path.with_suffix(".txt").unlink(missing_ok=True)
        made = self.found / f"{failure.target}-{name_of(data)}"
        made.write_bytes(data)
        made.with_suffix(".txt").write_text(f"{failure.what}\n\n{failure.trace}", "utf-8", "backslashreplace")
        self._known[failure.signature] = made, len(data)
        print(f"FOUND {made}: {failure.target}: {failure.what!a}", file=sys.stderr, flush=True)


def _resident() -> int:
    """Return the largest size that the process has had in memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _limit_address_space() -> None:
    """Let no input ask for much more memory than there is in use: it gets MemoryError, which counts as a failure."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, resource.RLIM_INFINITY))
