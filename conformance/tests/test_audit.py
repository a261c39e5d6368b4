"""Audits: what is found, what is kept, and that nothing is lost whatever happens to files, workers or the database."""

from __future__ import annotations

import errno
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec.audit import Batch, Examined, Options, Processes, View, audit, executors, places, results
from ckptspec.audit import database as databases
from ckptspec.audit.check import Job, examine, examine_all
from ckptspec.audit.patterns import Filter, Pattern
from ckptspec.audit.tables import SCHEMA_VERSION
from ckptspec.audit.verdicts import TOO_SHORT
from ckptspec.cli import main
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.errors import ArgumentError
from ckptspec.oam import Config, Model
from ckptspec.publish import publishing

SUITE = load_suite()


class Here:
    """An executor of this very process. ``killers`` are names of files that a worker does not survive."""

    def __init__(self, slots: int = 2, killers: Sequence[str] = ()) -> None:
        self.slots = slots
        self.killers = killers
        self.batches: list[list[str]] = []
        self._waiting: list[tuple[Batch, Options]] = []

    def submit(self, batch: Batch, options: Options) -> None:
        assert len(self._waiting) < self.slots
        self.batches.append([os.path.basename(job.path) for job in batch.jobs])
        self._waiting.append((batch, options))

    def collect(self, timeout: float) -> list[tuple[Batch, list[Examined] | None]]:
        batch, options = self._waiting.pop()  # the last one first: any order must do
        lost = any(os.path.basename(job.path) in self.killers for job in batch.jobs)
        return [(batch, None if lost else examine_all(batch.jobs, options))]

    def close(self) -> None:
        raise AssertionError("an executor that was given is not closed")


def good(path: Path, name: str = "w") -> Path:
    ckptspec.safetensors.save(path, {name: np.ones(2, np.float32)})
    return path


def cut(path: Path, size: int = 20) -> Path:
    good(path)
    os.truncate(path, size)
    return path


def verdicts(database: Path, run: int | None = None) -> dict[str, str]:
    return {os.path.basename(result.path): result.verdict for result in results(database, run)}


def run_here(tree: Path, database: Path, **arguments: Any) -> Any:
    return audit([tree], database, executor=arguments.pop("executor", Here()), **arguments)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a folder with one file of each verdict, in two folders."""
    folder = tmp_path / "tree"
    (folder / "deep").mkdir(parents=True)
    good(folder / "good.safetensors")
    (folder / "deep" / "old.oam").write_bytes(ckptspec.dumps(Model(config=Config(architecture="a")), version=1))
    (folder / "bad.oam").write_bytes(SUITE.case("oam/bad_total_zero").read())
    cut(folder / "deep" / "cut.safetensors")
    (folder / "notes.txt").write_text("nothing")
    return folder


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


# ------------------------------------------------------------------------------------------------------------- verdicts

TREE = {
    "good.safetensors": "canonical",
    "old.oam": "accepted",
    "bad.oam": "refused",
    "cut.safetensors": "unfinished",
    "notes.txt": "other",
}


def test_all_files_get_their_verdict(tree: Path, database: Path) -> None:
    run = run_here(tree, database)
    assert (run.number, run.examined, run.kept, run.gone) == (1, 5, 0, 0)
    assert verdicts(database) == TREE
    found = {os.path.basename(result.path): result for result in results(database)}
    assert (found["old.oam"].format, found["old.oam"].version, found["old.oam"].old) == ("oam", 1, True)
    expected = ckptspec.validate(tree / "bad.oam")
    assert [row[0] for row in found["bad.oam"].findings] == [
        item.rule for item in sorted(expected, key=lambda item: item.severity != "reject")
    ]
    assert found["bad.oam"].counts["OAM-HDR-TOTAL"] == 1


def judged(path: Path, named: bool = False, **options: Any) -> Examined:
    size, stamp = places.stamp_of(str(path))
    return examine(Job(path=str(path), size=size, stamp=stamp, named=named), Options(**options))


def test_what_counts_as_a_checkpoint(tmp_path: Path) -> None:
    cases: list[tuple[str, bytes, bool, str]] = [
        ("readme.txt", b"hello", False, "other"),
        ("readme.txt", b"hello", True, "refused"),
        ("model.oam", b"<html>error 404</html>", False, "refused"),
        ("model.ckpt", b"PK\x03\x04 of another program", False, "other"),
        ("model.ckpt", b"version https://git-lfs.github.com/spec/v1", False, "refused"),
        ("model.safetensors", b"PK\x03\x04", False, "refused"),
        ("model.safetensors", b"", False, "unfinished"),
        ("model.safetensors", bytes(5000), False, "unfinished"),
        ("model.safetensors", bytes(5000) + b"x", False, "refused"),
        ("empty", b"", False, "other"),
        ("no-extension", ckptspec.dumps(Model(config=Config())), False, "canonical"),
    ]
    for name, data, named, verdict in cases:
        (tmp_path / name).write_bytes(data)
        assert judged(tmp_path / name, named).verdict == verdict, (name, data[:9])


def test_only_one_format(tmp_path: Path) -> None:
    good(tmp_path / "a.safetensors")
    (tmp_path / "b.oam").write_bytes(b"broken")
    assert judged(tmp_path / "a.safetensors", format="oam").verdict == "other"
    assert judged(tmp_path / "a.safetensors", named=True, format="oam").verdict in ("refused", "unfinished")
    broken = judged(tmp_path / "b.oam", format="oam")
    assert (broken.verdict, broken.format) == ("unfinished", "oam")


def test_drafts_of_writers(tmp_path: Path) -> None:
    with publishing(tmp_path / "model.oam") as draft:
        draft.write(b"x")
        living = judged(Path(draft.path))
        copy = tmp_path / os.path.basename(draft.path)[:-5]
        name = draft.path
    assert (living.verdict, living.message) == ("other", "a draft that is being written")
    assert not copy.exists()
    Path(name).write_bytes(b"x")
    assert judged(Path(name)).verdict == "unfinished"


def test_a_file_that_is_cut_short_is_unfinished_and_nothing_else_is(tmp_path: Path) -> None:
    broken: set[str] = set()
    generator = random.Random(1)
    ids = [case.id for case in SUITE.cases if case.verdict == "valid" and case.file and "golden" in case.id]
    for case_id in generator.sample(ids, 60):
        case = SUITE.case(case_id)
        data = case.read()
        path = tmp_path / f"x{os.path.splitext(case.file)[1]}"
        for size in (*map(generator.randrange, (8, 40, len(data) // 2)), len(data) - 1):
            path.write_bytes(data[:size])
            report = judged(path, format=case.format)
            refusals = {row[0] for row in report.findings if row[1] == "reject"} - {"ANY-FILE-FORMAT"}
            if refusals:
                assert report.verdict == "unfinished", (case.id, size, report.findings)
                broken |= refusals
    assert broken == TOO_SHORT  # each of them is what some such file breaks
    for case in SUITE.cases:  # golden files that a reader must refuse for more than a missing end
        if case.id in ("oam/bad_appended", "oam/bad_total_zero"):
            path = tmp_path / "y.oam"
            path.write_bytes(case.read())
            assert judged(path).verdict == "refused"


def test_structure_only_reads_no_payload(tmp_path: Path) -> None:
    data = bytearray(SUITE.case("oam/golden_all_sections").read())
    data[4204] ^= 1  # of a payload
    path = tmp_path / "a.oam"
    path.write_bytes(data)
    assert judged(path).verdict == "refused"
    assert judged(path, payloads=False).verdict != "refused"


def test_a_file_that_changes_is_read_again_or_called_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = good(tmp_path / "a.safetensors")
    job = Job(path=str(path), size=1, stamp="of before")
    assert examine(job, Options()).verdict == "canonical"
    count = iter(range(100))
    monkeypatch.setattr("ckptspec.audit.check.stamp_of", lambda path: (1, f"{next(count)}"))
    assert (examine(job, Options()).verdict, examine(job, Options()).message) == (
        "unreadable",
        "It changes while it is read",
    )


def test_a_defect_of_the_library_is_told_and_the_rest_goes_on(
    tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(report: Any) -> str:
        raise (MemoryError if report.format == "oam" else ZeroDivisionError)("oh")

    monkeypatch.setattr("ckptspec.audit.check.verdict_of", fail)
    run_here(tree, database)
    found = {os.path.basename(result.path): (result.verdict, result.message) for result in results(database)}
    assert found["old.oam"] == ("crashed", "not enough memory")
    assert found["good.safetensors"] == ("crashed", "ZeroDivisionError: oh")
    assert found["notes.txt"][0] == "other"


# ---------------------------------------------------------------------------------------------------------------- walks


def walked(*where: str | Path, **filters: Sequence[str]) -> list[str]:
    wanted = Filter(filters.get("include", ()), filters.get("exclude", ()))
    made = list(places.walk([str(place) for place in where], wanted))
    assert len({place.path for place in made}) == len(made), "a file was met twice"
    return sorted(place.trouble or place.path for place in made)


def test_patterns() -> None:
    cases = [
        ("*.oam", "a.oam", True),
        ("*.oam", "d/a.oam", False),
        ("**/*.oam", "a.oam", True),
        ("**/*.oam", "d/e/a.oam", True),
        ("d/**", "d/e/f", True),
        ("d/**/f", "d/f", True),
        ("d/**/f", "d/g", False),
        ("[ab]?/x", "a1/x", True),
        ("[ab]?/x", "c1/x", False),
        ("**/" * 5000 + "x", "/".join("a" * 100), False),
        ("**/" * 5000 + "**/x", "a/b/x", True),
    ]
    for pattern, path, expected in cases:
        assert Pattern(pattern).matches(path.split("/")) is expected, (pattern, path)


def test_files_folders_and_patterns(tree: Path) -> None:
    def base(paths: list[str]) -> set[str]:
        return {os.path.basename(path) for path in paths}

    assert base(walked(tree)) == set(TREE)
    assert base(walked(tree, tree / "deep", tree / "bad.oam")) == set(TREE)
    assert base(walked(f"{tree}/*.oam")) == {"bad.oam"}
    assert base(walked(f"{tree}/**/*.oam")) == {"bad.oam", "old.oam"}
    assert base(walked(f"{tree}/d*")) == {"old.oam", "cut.safetensors"}
    assert base(walked(tree, include=["*.oam"])) == {"bad.oam", "old.oam"}
    assert base(walked(tree, include=["deep/*"])) == {"old.oam", "cut.safetensors"}
    assert base(walked(tree, exclude=["deep"])) == set(TREE) - {"old.oam", "cut.safetensors"}
    assert walked(f"{tree}/*.nothing") == ["No file matches"]
    nothing = list(places.walk([f"{tree}/nope1*", f"{tree}/nope2*", str(tree)]))
    assert {place.path for place in nothing if place.trouble} == {f"{tree}/nope1*", f"{tree}/nope2*"}
    assert walked(tree / "nothing") == ["No such file or directory"]
    (tree / "a[1].oam").write_bytes(b"")
    assert base(walked(f"{tree}/a[1].oam")) == {"a[1].oam"}


def test_links_are_followed_once_and_loops_end(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    good(outside / "far.safetensors")
    (outside / "back").symlink_to(tree)
    (tree / "loop").symlink_to("..")
    (tree / "deep" / "up").symlink_to(tree)
    (tree / "self.oam").symlink_to("self.oam")
    (tree / "dangling.oam").symlink_to("nothing")
    (tree / "dangling.txt").symlink_to("nothing")
    (tree / "one").symlink_to(outside)
    (tree / "two").symlink_to(outside)
    (tree / "twice.safetensors").symlink_to("good.safetensors")
    (tmp_path / "results").mkdir()
    found = walked(tree, exclude=["loop"])
    inside = {str(path) for path in (tree.rglob("*")) if path.is_file() and not path.is_symlink()}
    troubles = {"A link that leads nowhere", "Too many levels of symbolic links"}
    assert set(found) == inside | {str(outside / "far.safetensors")} | troubles
    # Where the name of a link is wanted and that of its target is not, the link is followed.
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    good(blobs / "0123")
    for name in ("a", "b"):
        (blobs / f"{name}.safetensors").symlink_to("0123")
    assert walked(blobs, include=["*.safetensors"]) == [str(blobs / "0123")]
    assert walked(tree, tmp_path)  # a loop over everything ends, too


def test_folders_that_cannot_be_listed_and_files_that_vanish(
    tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(tree, database)
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if os.fspath(path).endswith("deep"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    walk = places.walk

    def losing(*arguments: Any, **more: Any) -> Iterator[places.Place]:
        for place in walk(*arguments, **more):
            if place.path.endswith("bad.oam"):
                os.unlink(place.path)
            yield place

    monkeypatch.setattr("ckptspec.audit.running.walk", losing)
    run = run_here(tree, database, everything=True)
    assert run.gone == 1
    assert verdicts(database) == {"deep": "unreadable", "good.safetensors": "canonical", "notes.txt": "other"}
    with View(database) as view:  # what lies in a folder that could not be listed has not vanished
        assert [os.path.basename(path) for path in view.vanished()] == ["bad.oam"]
        assert view.status() == 2


def test_files_that_the_system_will_not_read(tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refusing(path: Any, *arguments: Any, **more: Any) -> int:
        if isinstance(path, str) and path.endswith("good.safetensors"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing)
        run_here(tree, database)
    assert verdicts(database)["good.safetensors"] == "unreadable"
    assert run_here(tree, database).examined == 1  # it is looked at again, although it has not changed
    assert verdicts(database) == TREE


def test_names_that_are_hostile_or_no_text(tmp_path: Path, database: Path) -> None:
    folder = os.fsencode(tmp_path / "tree")
    names = [b"\xff\xfe.oam", b"a\nb\x1b[31m.oam", b"=HYPERLINK(1).oam", b"<script>.oam", "\u202e.oam".encode()]
    os.mkdir(folder)
    for name in names:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(ckptspec.dumps(Model(config=Config())))
    run_here(Path(os.fsdecode(folder)), database)
    assert sorted(os.fsencode(os.path.basename(result.path)) for result in results(database)) == sorted(names)
    stored = sqlite3.connect(database)
    assert sorted(row[0] for row in stored.execute("SELECT name FROM files")) == sorted(names)
    stored.close()
    assert run_here(Path(os.fsdecode(folder)), database).kept == len(names)


# ------------------------------------------------------------------------------------------------- what has not changed


def test_what_has_not_changed_is_kept(tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(**arguments: Any) -> tuple[int, int]:
        run = run_here(tree, database, **arguments)
        assert set(verdicts(database)) == set(TREE)
        return run.examined, run.kept

    assert again() == (5, 0)
    assert again() == (0, 5)
    assert again(everything=True) == (5, 0)
    os.utime(tree / "good.safetensors", ns=(1, 1))
    assert again() == (1, 4)
    assert again(payloads=False) == (0, 5)  # what was verified is as good
    os.utime(tree / "good.safetensors", ns=(2, 2))
    assert again(payloads=False) == (1, 4)
    assert again() == (1, 4)
    assert again(digest=True) == (5, 0)
    os.utime(tree / "good.safetensors", ns=(3, 3))
    assert again(digest=True) == (0, 5)  # the bytes are the same
    assert again() == (0, 5)
    data = bytearray((tree / "deep" / "old.oam").read_bytes())
    data[-1] ^= 1
    status = os.stat(tree / "deep" / "old.oam")
    (tree / "deep" / "old.oam").write_bytes(data)
    os.utime(tree / "deep" / "old.oam", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert again(digest=True) == (1, 4)
    monkeypatch.setattr(databases, "catalogue_digest", lambda: "other rules")
    assert again() == (5, 0)


def test_one_worker_many_workers_any_order_the_same_results(tree: Path, tmp_path: Path) -> None:
    for number in range(60):
        (cut if number % 7 == 0 else good)(tree / f"{number}.safetensors")
    told = []
    for number, executor in enumerate((Here(1), Here(5), None, None)):
        database = tmp_path / f"{number}.sqlite"
        audit([tree], database, executor=executor, workers=None if executor else number - 1)
        told.append([result.to_json() for result in results(database)])
    assert len(told[0]) == 65
    assert all(one == told[0] for one in told)


def test_large_files_do_not_block_small_ones(tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "LARGE", 1000)
    for number in range(4):
        ckptspec.safetensors.save(tree / f"large{number}.safetensors", {"w": np.zeros(1000, np.float32)})
    executor = Here(2)
    run_here(tree, database, executor=executor)
    assert {len(batch) for batch in executor.batches if batch[0].startswith("large")} == {1}
    assert len(verdicts(database)) == 9


# ------------------------------------------------------------------------------------------------------- lost workers


def test_the_file_that_kills_workers_is_found(tree: Path, database: Path) -> None:
    for number in range(30):
        good(tree / f"{number}.safetensors")
    killers = ("7.safetensors", "bad.oam")
    run_here(tree, database, executor=Here(3, killers))
    found = verdicts(database)
    assert len(found) == 35
    assert {name for name, verdict in found.items() if verdict == "crashed"} == set(killers)
    run = run_here(tree, database)  # another day there is more memory
    assert run.examined == 2
    assert verdicts(database)["7.safetensors"] == "canonical"


def test_processes_that_are_killed_cost_time_and_no_results(tree: Path, database: Path) -> None:
    for number in range(40):
        good(tree / f"{number}.safetensors")
    killed: list[int] = []

    class Killed(Processes):
        def collect(self, timeout: float) -> Any:
            made = super().collect(timeout)
            if made and len(killed) < 3:
                victim = self.processes()[0]
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            return made

    executor = Killed(2)
    audit([tree], database, executor=executor)
    executor.close()
    assert len(killed) == 3
    assert verdicts(database) == TREE | {f"{number}.safetensors": "canonical" for number in range(40)}


def test_workers_that_do_not_even_start(tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PROGRAM", "raise SystemExit(1)  # {root} {fds}")
    with pytest.raises(OSError, match="before they have begun"):
        audit([tree], database, workers=2)
    assert verdicts(database) == {}  # and no file is called guilty
    with View(database) as view:
        assert view.summary().run["state"] == "interrupted"


COMMAND = [sys.executable, "-m", "ckptspec", "audit"]


def test_killed_at_any_moment_and_resumed(tree: Path, tmp_path: Path) -> None:
    for number in range(150):
        (cut if number % 7 == 0 else good)(tree / f"{number}.safetensors")
    whole, broken = tmp_path / "whole.sqlite", tmp_path / "broken.sqlite"
    audit([tree], whole, executor=Here())
    generator = random.Random(3)
    slow = "import sys, time; from ckptspec.audit import database as d; add = d.Store.add; d._COMMIT_SECONDS = 0.01\n"
    slow += "def slowly(*given): time.sleep(0.01); add(*given)\n"
    slow += "d.Store.add = slowly; from ckptspec.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", slow, "audit", str(tree), "--db", str(broken), "--quiet", "-j", "1"]
    recorded = [0]
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        give_up = time.monotonic() + 60
        target = recorded[-1] + generator.randrange(1, 30)
        while (now := count_of(broken)) < target and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert now >= recorded[-1]  # nothing that was recorded is lost
        recorded.append(count_of(broken))
    assert recorded[-1] > 0
    run = audit([tree], broken, executor=Here())
    assert run.kept >= recorded[-1]
    assert run.kept + run.examined == 155
    assert [one.to_json() for one in results(broken)] == [one.to_json() for one in results(whole)]
    connection = sqlite3.connect(broken)
    states = [row[0] for row in connection.execute("SELECT state FROM runs ORDER BY id")]
    assert (states[0], states[-1]) == ("killed", "finished")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def count_of(database: Path) -> int:
    if not database.exists():
        return 0
    try:
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        try:
            number: int = connection.execute("SELECT count(*) FROM results").fetchone()[0]
            return number
        finally:
            connection.close()
    except sqlite3.OperationalError:  # not made yet
        return 0


def test_ctrl_c_leaves_a_database_that_goes_on(
    tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ckptspec.audit.showing import Shown

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
    with monkeypatch.context() as patched:
        patched.setattr(Shown, "examined", lambda self, result: os.kill(os.getpid(), signal.SIGINT))
        assert main(["audit", str(tree), "--db", str(database), "-j", "1"]) == 130
    signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.endswith("ckptspec: interrupted\n")
    with View(database) as view:
        summary = view.summary()
        assert (summary.run["state"], view.finished) == ("interrupted", False)
        assert summary.files >= 1
        assert list(view.vanished()) == []
    assert main(["audit", str(tree), "--db", str(database), "-j", "1"]) == 1
    assert verdicts(database) == TREE


# ----------------------------------------------------------------------------------------------------------- database


def spoil(database: Path) -> None:
    data = bytearray(database.read_bytes())
    data[4096:] = bytes(255 - byte for byte in data[4096:])
    database.write_bytes(data)


def newer(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()


def pipe(database: Path) -> None:
    database.unlink()
    os.mkfifo(database)


def foreign(database: Path) -> None:
    database.unlink()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE precious (a)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (spoil, "is damaged: "),
        (newer, f"has version {SCHEMA_VERSION + 1} of its tables"),
        (foreign, "Not a database of audit results"),
        (lambda database: database.write_bytes(b"MAO\0 a model, not a database" * 9), "Not a database"),
        (lambda database: (database.unlink(), database.mkdir()), "Is a directory"),
        (pipe, "Not a regular file"),
        (lambda database: (database.unlink(), database.symlink_to("/dev/null")), "Not a regular file"),
    ],
)
def test_a_database_that_cannot_be_used_is_left_as_it_is(
    harm: Callable[[Path], Any], words: str, tree: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(tree, database)
    harm(database)
    before = database.read_bytes() if database.is_file() else b""
    for command in (["audit", str(tree), "--db", str(database)], ["audit", "report", "--db", str(database)]):
        assert main(command) == 2
        told = capsys.readouterr()
        assert told.err.count("\n") == 1
        assert told.err.startswith(f"ckptspec: {database}: ")
        assert words in told.err
        assert (database.read_bytes() if database.is_file() else b"") == before
    assert not Path(f"{database}-lock").exists()


def test_one_audit_at_a_time_and_reading_meanwhile(
    tree: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(tree, database)
    with databases.Store(database) as store:
        store.begin({}, {})
        assert main(["audit", str(tree), "--db", str(database)]) == 2
        assert capsys.readouterr().err == f"ckptspec: {database}: Another audit writes to this database\n"
        link = tree.parent / "link.sqlite"
        link.symlink_to(database)
        assert main(["audit", str(tree), "--db", str(link)]) == 2
        assert "Another audit writes to this database" in capsys.readouterr().err
        assert main(["audit", "report", "--db", str(database), "--run", "1"]) == 1
        assert "run 1, " in capsys.readouterr().out
    Path(f"{database}-lock").write_bytes(b"")  # what a killed audit leaves
    assert run_here(tree, database).kept == 5


def test_a_database_that_another_program_locks(
    tree: Path, database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(tree, database)
    monkeypatch.setattr(databases, "_BUSY", 0.01)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert main(["audit", str(tree), "--db", str(database)]) == 2
    assert capsys.readouterr().err == f"ckptspec: {database}: Another program keeps the database locked\n"
    other.close()


def test_arguments_that_make_no_sense(tree: Path, database: Path) -> None:
    usual: dict[str, Any] = {"places": [tree], "database": database}
    cases: list[dict[str, Any]] = [
        {"places": []},
        {"places": [""]},
        {"places": ["a\0b"]},
        {"workers": 0},
        {"format": "zip"},
    ]
    for arguments in cases:
        with pytest.raises(ArgumentError):
            audit(**(usual | arguments))


def test_the_vectors_get_what_the_suite_says(database: Path) -> None:
    audit([VECTORS / "safetensors"], database, executor=Here(), include=["*.safetensors"])
    found = {os.path.basename(result.path): result for result in results(database)}
    cases = [case for case in SUITE.cases if os.path.basename(case.file) in found]
    assert len(cases) > 100
    for case in cases:
        verdict = found[os.path.basename(case.file)].verdict
        if case.verdict != "acceptable":
            assert (verdict in ("canonical", "accepted")) is (case.verdict == "valid"), case.id
