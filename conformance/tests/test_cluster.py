"""Audits on a Dask cluster on loopback: a scheduler and worker processes, some of which are killed."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import oam, save
from ckptspec.audit import View, audit
from ckptspec.audit.check import Examined, Job, Options
from ckptspec.audit.cluster import Cluster
from ckptspec.audit.executors import Batch
from ckptspec.audit.places import stamp_of
from ckptspec.audit.splitting import checksum_of_parts, sections_to_hash
from ckptspec.checksum import fnv1a64
from ckptspec.cli import main
from ckptspec.conformance.catalogue import VECTORS, load_suite

pytest.importorskip("distributed")

MODERATE = 3 << 20  # bytes of a section that these tests split


class Loopback:
    """A scheduler and two workers, each a process."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self._scheduler = self._start("dask_scheduler", "--no-dashboard", "--host", "127.0.0.1", "--port", "0")
        for _ in range(2):
            self.add()
        self.address = self._address()

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(self.file), *options]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
        )

    def _address(self) -> str:
        import json

        until = time.monotonic() + 120
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                return str(json.loads(self.file.read_text())["address"])
            time.sleep(0.05)
        raise AssertionError("no scheduler")

    def add(self) -> None:
        """Start one more worker."""
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        self.workers.append(self._start("dask_worker", *options))

    def whole(self) -> None:
        """Wait until there are two workers again."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            self.add()
        self.wait(2)

    def wait(self, number: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            until = time.monotonic() + 120
            while len(client.scheduler_info(n_workers=-1)["workers"]) != number:
                assert time.monotonic() < until
                time.sleep(0.05)

    def close(self) -> None:
        for process in (*self.workers, self._scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    made = Loopback(tmp_path_factory.mktemp("dask"))
    yield made
    made.close()


@pytest.fixture
def loopback(started: Loopback) -> Loopback:
    started.whole()
    return started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some hundred golden files, good ones and bad ones."""
    made = tmp_path / "files"
    made.mkdir()
    for number, case in enumerate(load_suite().cases):
        if case.file is not None and number % 8 == 0:
            shutil.copyfile(VECTORS / case.file, made / f"{number}-{Path(case.file).name}")
    return made


def verdicts(database: Path) -> list[tuple[Any, ...]]:
    with View(str(database)) as view:
        return sorted((result.path, result.verdict, tuple(sorted(result.counts.items()))) for result in view.results())


def test_a_cluster_finds_what_one_machine_finds(loopback: Loopback, folder: Path, tmp_path: Path) -> None:
    here = audit([folder], tmp_path / "here.sqlite", workers=1)
    there = audit([folder], tmp_path / "there.sqlite", scheduler=loopback.address)
    assert here.examined == there.examined > 100
    assert verdicts(tmp_path / "here.sqlite") == verdicts(tmp_path / "there.sqlite")
    again = audit([folder], tmp_path / "there.sqlite", scheduler=loopback.address)
    assert (again.examined, again.kept) == (0, there.examined)


class _Killing:
    """A watcher that kills a worker in the middle of an audit."""

    def __init__(self, loopback: Loopback, after: int) -> None:
        self.loopback = loopback
        self.after = after
        self.seen = 0

    def begun(self, run: int) -> None: ...
    def kept(self, place: Any, verdict: str) -> None: ...
    def examined(self, result: Examined) -> None:
        self.seen += 1
        if self.seen == self.after:
            os.kill(self.loopback.workers[0].pid, signal.SIGKILL)


def test_a_lost_worker_costs_no_result(loopback: Loopback, folder: Path, tmp_path: Path) -> None:
    audit([folder], tmp_path / "here.sqlite", workers=1)
    watcher = _Killing(loopback, 20)
    audit([folder], tmp_path / "there.sqlite", scheduler=loopback.address, watcher=watcher)
    assert loopback.workers[0].wait() == -signal.SIGKILL
    assert verdicts(tmp_path / "here.sqlite") == verdicts(tmp_path / "there.sqlite")


# ------------------------------------------------------------------------------------------------------- one huge file


class _Here:
    """Runs at once what a cluster would run."""

    workers = 3

    def submit(self, function: Any, *arguments: Any, urgent: bool = False) -> Any:
        return function(*arguments)

    def result(self, future: Any) -> Any:
        return future


def job_of(path: Path) -> Job:
    size, stamp = stamp_of(str(path))
    return Job(path=str(path), size=size, stamp=stamp)


def test_parts_join_to_the_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    data = rng.bytes(70_000)
    (tmp_path / "noise").write_bytes(data)
    for _ in range(40):
        offset = int(rng.integers(0, len(data)))
        size, part = int(rng.integers(1, len(data) - offset + 1)), int(rng.integers(500, 40_000))
        found = checksum_of_parts(_Here(), job_of(tmp_path / "noise"), offset, size, part)
        assert found == fnv1a64(data[offset : offset + size])


def large(path: Path) -> Path:
    """A file with two sections that are large here, and some small ones."""
    rng = np.random.default_rng(4)
    weights = {"w": rng.standard_normal(MODERATE // 2, np.float32)}
    save(path, oam.Model(weights=weights, state={"s": rng.standard_normal(MODERATE // 3, np.float32)}))
    return path


def test_a_huge_file_uses_every_worker(loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of one file are hashed by both workers, also where one is killed meanwhile; what is wrong is found."""
    path = large(tmp_path / "large.oam")
    job = job_of(path)
    places = sections_to_hash(job, MODERATE)
    assert len(places) == 2
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[places[1][0] + places[1][1] - 9] ^= 64
    from ckptspec.audit import splitting

    parts: list[tuple[int, int]] = []

    def in_parts(workers: Any, job: Job, offset: int, size: int) -> int:
        parts.append((offset, size))
        return splitting.checksum_of_parts(workers, job, offset, size, 1 << 18)

    monkeypatch.setattr("ckptspec.audit.cluster.checksum_of_parts", in_parts)
    for content, verdict, kill in (
        (good, "canonical", False),
        (bytes(damaged), "refused", False),
        (good, "canonical", True),
    ):
        path.write_bytes(content)
        loopback.whole()
        parts.clear()
        cluster = Cluster(loopback.address, [str(path)], least=MODERATE)
        try:
            before = transferred(cluster)
            cluster.submit(Batch([job_of(path)], large=True), Options())
            if kill:
                os.kill(loopback.workers[0].pid, signal.SIGKILL)
            done: list[tuple[Batch, list[Examined] | None]] = []
            until = time.monotonic() + 120
            while not done:
                done = cluster.collect(1)
                assert time.monotonic() < until
            assert done[0][1] is not None
            (made,) = done[0][1]
            assert made.verdict == verdict
            assert ("OAM-SEC-CHECKSUM" in made.counts) == (verdict == "refused")
            assert sorted(parts) == places
            if not kill:
                both = {worker: count - before.get(worker, 0) for worker, count in transferred(cluster).items()}
                assert len(both) == 2
                assert min(both.values()) > 0, both
        finally:
            cluster.close()


def transferred(cluster: Cluster) -> dict[str, int]:
    """How many tasks each worker has done."""
    done: dict[str, int] = cluster._client.run(_tasks_done)
    return done


def _tasks_done(dask_worker: Any) -> int:
    return len([story for story in dask_worker.state.log if "memory" in story])


# -------------------------------------------------------------------------------------------------------- what fails


NO_SCHEDULERS = (
    "",
    "nonsense",
    "processes",
    "nothing://x:1",
    "tcp://",
    "tcp://x",
    "tcp://x:0",
    "tcp://x:99999",
    "ws://127.0.0.1:1",
    "inproc://x",
    "tcp://me:secret@127.0.0.1:1",
)


def test_what_stands_in_the_way_is_one_line(
    loopback: Loopback, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ckptspec.audit.cluster._CONNECT", 2)
    common = ["audit", "--db", str(tmp_path / "a.sqlite"), str(folder)]
    with socket.create_server(("127.0.0.1", 0)) as listener:  # somebody who never says a word
        silent = listener.getsockname()[1]
        for address, said in (
            ("tcp://127.0.0.1:1", "The scheduler cannot be reached"),
            ("127.0.0.1:1", "The scheduler cannot be reached"),
            ("tls://127.0.0.1:1", "The scheduler cannot be reached"),
            (f"tcp://127.0.0.1:{silent}", "The scheduler cannot be reached"),
            *((address, "expected tcp://HOST:PORT or tls://HOST:PORT") for address in NO_SCHEDULERS),
        ):
            assert main([*common, "--scheduler", address]) == 2
            printed = capfd.readouterr()
            assert said in printed.err
            assert printed.err.count("\n") == 1, printed.err
            assert "secret" not in printed.err
            gc.collect()  # a client that was only begun must not be heard of any more
            assert capfd.readouterr().err == ""
    monkeypatch.setattr("ckptspec.audit.cluster.__version__", "9.9")
    assert main([*common, "--scheduler", loopback.address]) == 2
    assert "this is 9.9" in capfd.readouterr().err
    monkeypatch.undo()
    for worker in loopback.workers:
        worker.kill()
        worker.wait()
    loopback.wait(0)
    assert main([*common, "--scheduler", loopback.address]) == 2
    assert "The scheduler has no workers" in capfd.readouterr().err
    assert main([*common, "--scheduler", loopback.address, "-j", "2"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
