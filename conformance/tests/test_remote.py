"""Files elsewhere: the same answers as for files here, few bytes where few are wanted, no harm from bad connections.

The web server and the S3 server are started here, on loopback.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import kaun, load, nuvec, oam, ocannl, remote, safetensors, save, validate
from ckptspec.audit import Batch, Examined, Options, Run, View, audit
from ckptspec.audit.check import examine_all
from ckptspec.cli import main, os_error
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.contents import contents_of
from ckptspec.digest import digest
from ckptspec.errors import ArgumentError
from ckptspec.source import FileSource, open_source
from ckptspec.streaming import read_ahead
from ckptspec.urls import is_url, local_path, name_of, scrubbed, shown_url

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from .web_server import RawServer, WebServer

SECRET = "hunter2"
GOOD = ("oam/golden_all_sections", "ocannl/golden_two", "safetensors/golden_minimal")
DAMAGED = ("oam/bad_bytes_short", "ocannl/bad_header_length_minus_1", "safetensors/open_front_space")
LARGE = 40 << 20  # bytes of the payload of a sparse file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and damaged files of each format."""
    made = tmp_path_factory.mktemp("served")
    suite = load_suite()
    for case in (*GOOD, *DAMAGED):
        file = VECTORS / str(suite.case(case).file)
        shutil.copyfile(file, made / file.name)
    save(made / "large.oam", oam.Model(weights={"w": np.zeros(LARGE // 4, np.float32)}))
    safetensors.save(made / "large.safetensors", {"w": np.zeros(LARGE // 4, np.float32)}, metadata={"made": "here"})
    (made / "empty").write_bytes(b"")
    (made / "text").write_text("no checkpoint")
    return made


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[WebServer]:
    server = WebServer(folder)
    yield server
    server.close()


@pytest.fixture
def server(running: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    running.reset()
    return running


@pytest.fixture(scope="module")
def bucket(folder: Path) -> Iterator[str]:
    """The same files in a bucket of an S3 server; the address of the bucket."""
    server_module = pytest.importorskip("moto.server")
    fsspec = pytest.importorskip("fsspec")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    before = dict(fsspec.config.conf)
    options = {"key": "someone", "secret": SECRET, "endpoint_url": f"http://{host}:{port}"}
    fsspec.config.conf["s3"] = options
    system = fsspec.filesystem("s3")
    system.mkdir("checkpoints")
    for file in folder.iterdir():
        system.put_file(str(file), f"checkpoints/runs/{file.name}")
    yield "s3://checkpoints/runs"
    fsspec.config.conf.clear()
    fsspec.config.conf.update(before)
    system.clear_instance_cache()
    server.stop()


# ---------------------------------------------------------------------------------------------------------- addresses


def test_what_is_an_address_and_how_it_is_shown() -> None:
    for text, shown in (
        ("s3://bucket/key.oam", "s3://bucket/key.oam"),
        ("https://user:pw@host:1/a?X-Amz-Signature=1", "https://host:1/a?...#3aa575ddbef4c97c"),
        ("https://host/a#token=1", "https://host/a?...#c79aba2c72e5cce0"),
        ("https://token@host/a", "https://host/a"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://a@b@host", "https://host"),
        ("zip://a@b?.oam::https://user:pw@host/x.zip?k=1", "zip://a@b?.oam::https://host/x.zip?...#03cdb5da1bc007de"),
        ("s3://bucket/a?1.oam", "s3://bucket/a?1.oam"),
        ("s3://bucket/a@b?1.oam", "s3://bucket/a@b?1.oam"),
        ("s3://arn:aws:s3:eu:1:accesspoint/a@b", "s3://arn:aws:s3:eu:1:accesspoint/a@b"),
        ("abfs://container@account/a", "abfs://container@account/a"),
        ("abfs://user:pw@account/a", "abfs://account/a"),
        ("github://owner:repo@main/a", "github://owner:repo@main/a"),
        ("sftp://user:p/w@host/a", "sftp://..."),
        ("http://[::1]:80/a", "http://[::1]:80/a"),
        # A password in which characters are as they must not be.
        ("http://me:sec/ret@127.0.0.1/x", "http://..."),
        ("http://me:se?cret@h/x", "http://..."),
        ("http://me:se#cret@h/x", "http://..."),
        ("http://[bad:secret/x", "http://..."),
        ("http://me:pa::ss@h/x", "http://h/x"),
        ("http://me:pa::ss::x@h/x", "http://h/x"),
        ("http://me:s@ec/ret@h/x", "http://.../x?...#89af928b41a5cc0e"),
        ("http://me:s@ec?ret@h/x", "http://.../?...#a4fd830593c0e203"),
        ("simplecache::s3://bucket/key", "simplecache::s3://bucket/key"),
        ("memory://a", "memory://a"),
    ):
        assert is_url(text)
        assert shown_url(text) == shown
    for other in ("a.oam", "/a/b", "./s3://x", "C://x", "a::b", "://x", "s3:/x", b"s3://x", Path("s3://x"), None):
        assert not is_url(other)
    assert shown_url("user:pw@host?x") == "user:pw@host?x"
    for said, shown in (
        ("url='https://me:pw@host/a?sig=1' and s3://x", "url='https://host/a?...' and s3://x"),
        ("(http://me:p'w@host/a?sig=1): no", "(http://host/a?...): no"),
        ("zip://a::http://me:pw@host/a?sig=1, no", "zip://a::http://host/a?..., no"),
        ("http://me:s/ecret@host, no", "http://..., no"),
        ("a1http://me:pw@h\nurl=<ftp://me:pw@h/x>'http://h/?x'", "a1http://h\nurl=<ftp://h/x>'http://h/?...'"),
        ("a" * 1_000_000 + "://" + "x" * 1_000_000 + "@h", "a" * 1_000_000 + "://h"),
        ("aa::" * 200_000, "aa::" * 200_000),
    ):
        assert scrubbed(said) == shown
    for text in ("https://u:pw@host/a?X=1", "http://me:s@ec/ret@h/x", "http://me:s/ecret@h/x"):
        assert scrubbed(f"{shown_url(text)}: no") == f"{shown_url(text)}: no"
    for url, name in (
        ("zip://a/b.oam::x.zip", "b.oam"),
        ("s3://b/a?1.oam", "a?1.oam"),
        ("http://h/a.oam?x/y", "a.oam"),
        ("simplecache::s3://b/a.oam", "a.oam"),
    ):
        assert name_of(url) == name
    for text, path in (
        ("file:///a/b", "/a/b"),
        ("local://a", "a"),
        ("file://s3://x", "./s3://x"),
        ("s3://a", "s3://a"),
        ("/a", "/a"),
        ("zip://a::file:///b", "zip://a::file:///b"),
    ):
        assert local_path(text) == path


# ----------------------------------------------------------------------------------------------------- the same answers


def commands(where: Callable[[str], str], out: Path, cases: Sequence[str] = (*GOOD, *DAMAGED)) -> Iterator[list[str]]:
    """Every verb that reads a file."""
    for case in cases:
        name = where(Path(str(load_suite().case(case).file)).name)
        yield ["validate", name]
        yield ["validate", "--json", "--structure-only", name]
        yield ["inspect", name]
        yield ["inspect", "--hex", name]
        yield ["inspect", "--html", str(out / "page.html"), name]
        yield ["decode", name]
        yield ["digest", "--verify", name]
        yield ["digest", "--manifest", str(out / "manifest.json"), name]
        yield ["salvage", name, str(out / "salvaged")]
        yield ["canonicalize", name, str(out / "canonical")]
        yield ["convert", "--lossy", name, str(out / "converted.safetensors")]
        yield ["metadata", name]
        yield ["diff", name, where("golden_minimal.safetensors")]
    yield ["quantize", where("golden_all_sections.oam"), str(out / "quantized"), "q8"]
    yield ["validate", where("empty"), where("text"), where("missing")]


def answers(
    where: Callable[[str], str], out: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[list[str], tuple[int, str, str, dict[str, bytes]]]]:
    """What each verb says and writes, names of files apart."""
    out.mkdir()
    for argv in commands(where, out):
        status = main(argv)
        printed = capsys.readouterr()
        said = [text.replace(where(""), "").replace(str(out), "") for text in (printed.out, printed.err)]
        said = [text.split(" (HTTP")[0].rstrip() for text in said]
        written = {path.name: path.read_bytes() for path in out.iterdir()}
        yield argv, (status, said[0], said[1], written)


def test_every_verb_reads_addresses(
    server: WebServer, bucket: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            if not file.name.startswith("large"):
                archive.write(file, file.name)
    places: dict[str, Callable[[str], str]] = {
        "http": lambda name: f"{server.url}/{name}",
        "s3": lambda name: f"{bucket}/{name}",
        "file": lambda name: f"file://{folder}/{name}",
    }
    expected = list(answers(lambda name: f"{folder}/{name}", tmp_path / "here", capsys))
    assert {answer[0] for _, answer in expected} == {0, 1, 2}
    for place, where in places.items():
        for (local, right), (argv, answer) in zip(expected, answers(where, tmp_path / place, capsys), strict=True):
            assert answer == right, (local, argv)
    for name in ("golden_all_sections.oam", "golden_two.ckpt", "golden_minimal.safetensors"):
        address = f"zip://{name}::file://{tmp_path}/all.zip"
        assert main(["decode", address]) == main(["decode", str(folder / name)]) == 0
        twice = capsys.readouterr().out.splitlines()
        assert twice[: len(twice) // 2] == twice[len(twice) // 2 :]


def test_the_library_reads_addresses(server: WebServer, folder: Path) -> None:
    url = f"{server.url}/golden_minimal.safetensors"
    path = folder / "golden_minimal.safetensors"
    assert safetensors.dumps(load(url)) == path.read_bytes()
    assert safetensors.dumps(safetensors.load(url)) == path.read_bytes()
    with safetensors.safe_open(url) as file, safetensors.safe_open(path) as here:
        assert file.keys() == here.keys()
        for name in here.keys():  # noqa: SIM118
            assert np.asarray(file.get_tensor(name)).tobytes() == np.asarray(here.get_tensor(name)).tobytes()
    assert kaun.load(url).dumps() == kaun.load(path).dumps()
    with safetensors.safe_open(path) as here:
        tree = {name: np.zeros_like(here.get_tensor(name)) for name in here.keys()}  # noqa: SIM118
    for name, array in nuvec.load_into(url, tree).items():
        assert np.array_equal(array, np.asarray(here.get_tensor(name)))
    with open_source(url) as source:
        made = digest(contents_of(source))
    with open_source(path) as source:
        assert made == digest(contents_of(source))
    registry = ocannl.load(ocannl.Context(), f"{server.url}/golden_two.ckpt")[1]
    assert registry == ocannl.load(ocannl.Context(), folder / "golden_two.ckpt")[1]


def test_batches_of_addresses(
    server: WebServer, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = f"{server.url}/golden_all_sections.oam\n{folder}/golden_all_sections.oam\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["decode", "--batch"]) == 0
    one, other = (line.partition(',"')[2] for line in capsys.readouterr().out.splitlines())
    assert one == other
    secret = server.url.replace("://", f"://me:{SECRET}@") + f"/golden_all_sections.oam?token={SECRET}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(secret.encode())))
    assert main(["decode", "--batch"]) == 0
    assert SECRET not in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------- few bytes


def test_a_look_at_the_structure_fetches_no_payload(server: WebServer, bucket: str, tmp_path: Path) -> None:
    """A gigabyte of which next to nothing is fetched; the file is sparse, so that it costs nothing here either."""
    big = server.folder / "big.safetensors"
    header = safetensors.dumps({"w": np.zeros(1, np.float32)})
    text = header[8:-4].replace(b"[1]", b"[268435456]").replace(b"[0,4]", b"[0,1073741824]").rstrip()
    text = text.ljust(-(-len(text) // 8) * 8)
    with big.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + (1 << 30))
    try:
        for argv in (["validate", "--structure-only"], ["validate"], ["inspect"], ["metadata"]):
            does = server.reset()
            assert main([*argv, f"{server.url}/{big.name}"]) == 0
            assert 0 < does.sent <= 100_000, argv
    finally:
        big.unlink()
    does = server.reset()
    report = validate(f"{server.url}/large.oam", payloads=False)
    assert report.ok
    assert report.size > LARGE
    assert 0 < does.sent < 200_000
    assert [method for method, _, _ in does.seen].count("GET") <= 4
    does = server.reset()
    assert main(["inspect", "--structure-only", f"{server.url}/large.oam"]) == 0
    assert 0 < does.sent < 200_000
    with open_source(f"{bucket}/large.oam") as source:
        assert isinstance(source, remote.RemoteSource)
        assert len(contents_of(source).tensors) == 1
        assert 0 < source.fetched < 200_000


def test_a_look_at_a_damaged_file_fetches_no_payload(server: WebServer, folder: Path) -> None:
    damaged = bytearray((folder / "large.oam").read_bytes())
    damaged[-1] ^= 1  # in the payload, as far as its checksum goes
    damaged[16] ^= 1
    (folder / "damaged.oam").write_bytes(damaged)
    does = server.reset()
    report = validate(f"{server.url}/damaged.oam", payloads=False)
    assert not report.ok
    assert does.sent < 200_000
    here = validate(folder / "damaged.oam", payloads=False)
    assert here.findings == report.findings
    assert (
        validate(f"{server.url}/damaged.oam").to_json()["findings"]
        == validate(folder / "damaged.oam").to_json()["findings"]
    )
    (folder / "damaged.oam").unlink()


def test_payloads_are_streamed(server: WebServer, folder: Path) -> None:
    """Verification holds some pieces of the file at a time, with several requests under way."""
    does = server.reset()
    with open_source(f"{server.url}/large.oam") as source:
        tracemalloc.start()
        try:
            parts = [bytes(part[:1]) for part in read_ahead(source, 0, source.size, 2 << 20)]
            assert tracemalloc.get_traced_memory()[1] < 16 << 20  # the server, which is here, too, holds some
        finally:
            tracemalloc.stop()
    assert len(parts) == -(-source.size // (1 << 20))
    assert source.size <= does.sent <= source.size + (1 << 20)  # a request may have been made twice
    # Reads that go on where others ended fetch more at a time.
    does = server.reset()
    with open_source(f"{server.url}/large.oam") as source:
        for at in range(0, 16 << 20, 1 << 12):
            source.read(at, 1 << 12)
    assert [method for method, _, _ in does.seen].count("GET") < 20
    assert does.sent < 2 * (16 << 20)
    assert validate(f"{server.url}/large.oam").canonical


def test_any_reads_give_the_bytes_of_the_file(server: WebServer, folder: Path) -> None:
    rng = np.random.default_rng(5)
    data = rng.bytes(200_000)
    (folder / "noise").write_bytes(data)
    with open_source(f"{server.url}/noise") as source:
        at = 0
        for _ in range(300):
            at = int(rng.integers(0, len(data))) if rng.random() < 0.3 else min(at, len(data))
            size = int(rng.integers(0, min(3000, len(data) - at) + 1))
            assert source.read(at, size) == data[at : at + size]
            at += size
        assert b"".join(map(bytes, source.blocks(11, 150_000, 700))) == data[11:150_011]
        assert list(source.blocks(11, 0)) == []
        with pytest.raises(OSError, match="shorter"):
            source.read(len(data) - 1, 2)
        assert bytes(source.view(5, 100)) == data[5:105]
        private = source.private()
        private[0:3] = b"new"
        assert bytes(source.view(0, 3)) == data[:3]
        assert source.read(3, 9) == data[3:12]
    (folder / "noise").unlink()


# ----------------------------------------------------------------------------------------------------- bad connections


def test_broken_connections_are_tried_again(server: WebServer, folder: Path) -> None:
    expected = validate(folder / "large.oam")
    for fails, breaks in ((1, 0), (0, 1), (3, 1), (0, 4)):
        does = server.reset()
        does.fails, does.breaks = fails, breaks
        assert validate(f"{server.url}/large.oam").findings == expected.findings
        assert (does.fails, does.breaks) == (0, 0)


def test_what_the_other_side_refuses(server: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    address = server.url.replace("://", f"://me:{SECRET}@") + f"/large.oam?signature={SECRET}"
    shown = shown_url(address)
    for status, number, text, requests in (
        (404, errno.ENOENT, "No such file or directory (HTTP status 404, Not Found)", 2),
        (410, errno.ENOENT, "No such file or directory (HTTP status 410, Gone)", 2),
        (401, errno.EACCES, "Not allowed (HTTP status 401, Unauthorized)", 2),
        (403, errno.EACCES, "Not allowed (HTTP status 403, Forbidden)", 2),
        (400, errno.EIO, "Cannot be read (HTTP status 400, Bad Request)", 2),
        (503, errno.EIO, "Cannot be read (HTTP status 503, Service Unavailable) (5 attempts)", 10),
        (429, errno.EIO, "Cannot be read (HTTP status 429, Too Many Requests) (5 attempts)", 10),
    ):
        does = server.reset()
        does.status = status
        with pytest.raises(OSError, match=re.escape(text)) as caught:
            load(address)
        assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (number, text, shown)
        assert len(does.seen) == requests
        assert main(["validate", address]) == 2
        assert capsys.readouterr().err == f"ckptspec: {shown}: {text}\n"
    does = server.reset()
    does.fails = 100  # the size can be asked for, the bytes cannot
    with pytest.raises(OSError, match="5 attempts"):
        load(address)


def test_secrets_are_never_shown(
    server: WebServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever happens, and whatever the verb prints and writes."""

    def where(name: str) -> str:
        return server.url.replace("://", f"://{SECRET}:{SECRET}@") + f"/{name}?key={SECRET}"

    for status in (None, 403, 500):
        server.reset().status = status
        for argv in commands(where, tmp_path, (GOOD[0], DAMAGED[2]) if status is None else GOOD[:1]):
            main(argv)
            main([*argv, "--json"]) if argv[0] not in ("decode",) and "--html" not in argv else None
    for dead in (
        f"http://{SECRET}:{SECRET}@127.0.0.1:1/x?{SECRET}",
        f"nothing://{SECRET}@x",
        f"ftp://x:{SECRET}@127.0.0.1:1/a",
    ):
        main(["validate", dead])
    printed = capfd.readouterr()
    assert printed.out
    assert SECRET not in printed.out + printed.err + caplog.text
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes()
    main(["encode", where("large.oam")])
    assert SECRET not in "".join(capfd.readouterr())


def test_servers_that_can_do_less(server: WebServer, folder: Path) -> None:
    """No ranges, no HEAD, no sizes, no etags: the answers are the same."""
    expected = validate(folder / "large.oam")
    small = (folder / "golden_minimal.safetensors").read_bytes()
    for changes in (
        {"ranges": False},
        {"ranges": False, "announces_ranges": False},
        {"announces_ranges": True},
        {"head": 405},
        {"head": 403},
        {"length": False},
        {"length": False, "head": 405, "etag": False},
        {"etag": False},
        {"etag": False, "ranges": False, "breaks": 1},
    ):
        does = server.reset()
        for key, value in changes.items():
            setattr(does, key, value)
        assert validate(f"{server.url}/large.oam").findings == expected.findings, changes
        assert safetensors.dumps(load(f"{server.url}/golden_minimal.safetensors")) == small


def test_files_that_change_meanwhile(server: WebServer, folder: Path) -> None:
    one, other = folder / "changing.oam", oam.dumps(oam.Model(weights={"w": np.ones(1 << 20, np.float32)}))
    old = oam.dumps(oam.Model(weights={"w": np.zeros(1 << 20, np.float32)}))
    longer = oam.dumps(oam.Model(weights={"w": np.zeros((1 << 20) + 5000, np.float32)}))

    for etag in (True, False):
        for new in (other, longer, old[:-5], b""):
            for when in (1, 2):
                if not etag and new == other:
                    continue  # nothing tells one from the other but what is in them
                one.write_bytes(old)
                does = server.reset()
                does.etag = etag

                def change(number: int, new: bytes = new, when: int = when) -> None:
                    if number == when:
                        one.write_bytes(new)
                        os.utime(one, (0, 0))  # whatever the clock can tell apart

                does.before = change
                for work in (validate, load):
                    one.write_bytes(old)
                    server._gets = 0
                    with pytest.raises(OSError, match=r"changed|shorter") as caught:
                        work(f"{server.url}/{one.name}")
                    assert caught.value.filename == f"{server.url}/{one.name}"
    one.unlink()


# ------------------------------------------------------------------------------------------------------ other mistakes


def test_addresses_that_lead_nowhere(server: WebServer, bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    for address, said in (
        ("nothing://host/a", "Protocol not known: nothing"),
        ("http://127.0.0.1:1/a.oam", "Connect call failed"),
        (f"{bucket}/none.oam", "No such file or directory"),
        ("s3://nobucket/none.oam", "No such file or directory"),
        (f"{bucket}", "Is a directory"),
        ("memory://none", "No such file or directory"),
        (f"zip://none.oam::{server.url}/text", "This address cannot be opened"),
    ):
        assert main(["validate", address]) == 2, address
        printed = capsys.readouterr()
        assert said in printed.err
        assert printed.err.count("\n") == 1
        assert "Traceback" not in printed.err


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert main(["validate", "s3://bucket/a.oam"]) == 2
    assert "pip install 'ckptspec[remote]'" in capsys.readouterr().err


def test_nothing_is_written_elsewhere(
    server: WebServer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = load(folder / "golden_minimal.safetensors")
    with pytest.raises(OSError, match="Only files of this machine"):
        save(f"{server.url}/new.safetensors", model)
    with pytest.raises(OSError, match="Only files of this machine"):
        safetensors.edit_metadata(f"{server.url}/golden_minimal.safetensors", {"a": "b"})
    assert main(["convert", str(folder / "golden_two.ckpt"), "s3://bucket/a.safetensors"]) == 2
    assert main(["metadata", "--set", "a=b", f"{server.url}/golden_minimal.safetensors"]) == 2
    assert "Only files of this machine can be" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------------------------- finding


def test_files_are_found(server: WebServer, bucket: str, folder: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    found = list(remote.find(bucket))
    assert [place.url for place in found] == [f"{bucket}/{name}" for name in names]
    assert all(place.size == (folder / Path(place.url).name).stat().st_size for place in found)
    assert all(place.stamp.startswith("ETag") for place in found)
    assert [place.url for place in remote.find(f"{bucket}/golden*.oam")] == [f"{bucket}/golden_all_sections.oam"]
    assert [place.url for place in remote.find(f"{bucket}/text")] == [f"{bucket}/text"]
    assert [place.url for place in remote.find(f"{server.url}/")] == [f"{server.url}/{name}" for name in names]
    assert [place.url for place in remote.find(f"{server.url}/text")] == [f"{server.url}/text"]
    for place in (*remote.find(bucket), *remote.find(f"{server.url}/")):
        with open_source(place.url) as source:
            assert source.size == (folder / Path(place.url).name).stat().st_size
    with pytest.raises(OSError, match="No such file"):
        list(remote.find(f"{bucket}/none"))
    deep = tmp_path / "deep" / "er"
    deep.mkdir(parents=True)
    (deep / "a.oam").write_bytes(b"x")
    (tmp_path / "b.oam").write_bytes(b"y")
    assert [place.url for place in remote.find(f"file://{tmp_path}")] == [
        f"file://{tmp_path}/b.oam",
        f"file://{deep}/a.oam",
    ]


def test_files_in_archives_are_found(tmp_path: Path, folder: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(folder / "golden_all_sections.oam", "runs/a.oam")
        archive.write(folder / "golden_all_sections.oam", "b.oam")
    chain = f"file://{tmp_path}/all.zip"
    found = [place.url for place in remote.find(f"zip://::{chain}")]
    assert found == [f"zip://b.oam::{chain}", f"zip://runs/a.oam::{chain}"]
    assert all(validate(url).canonical for url in found)


def test_folders_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name in ("/top/a", "/top/bad/b", "/top/c/d"):
        system.pipe_file(name, b"x")
    real: Any = type(system).ls

    def ls(self: Any, path: str, **more: Any) -> Any:
        if path.endswith("bad"):
            raise PermissionError(13, "no", path)
        return real(self, path, **more)

    monkeypatch.setattr(type(system), "ls", ls)
    failed: list[OSError] = []
    assert [place.url for place in remote.find("memory://top", failed.append)] == ["memory://top/a", "memory://top/c/d"]
    assert [(error.errno, error.filename) for error in failed] == [(errno.EACCES, "memory://top/bad")]
    with pytest.raises(OSError, match="Not allowed"):
        list(remote.find("memory://top"))
    system.rm("/top", recursive=True)


def test_local_addresses_are_files(folder: Path) -> None:
    with open_source(f"file://{folder}/text") as source:
        assert isinstance(source, FileSource)


# ------------------------------------------------------------------------------------------------------------ audits


def test_audits_elsewhere(server: WebServer, bucket: str, folder: Path, tmp_path: Path) -> None:
    """The results are those of the folder; what has not changed is not read again; no secrets are kept."""

    def audited(place: str, name: str) -> tuple[Run, dict[str, tuple[str, dict[str, int]]]]:
        run = audit([place], tmp_path / name, workers=1, executor=InProcess(), exclude=["large*"])
        with View(str(tmp_path / name)) as view:
            found = {result.path.rpartition("/")[2]: (result.verdict, result.counts) for result in view.results()}
        return run, found

    expected = audited(str(folder), "here")[1]
    assert "refused" in {verdict for verdict, _ in expected.values()}
    secret = server.url.replace("://", f"://me:{SECRET}@")
    for number, place in enumerate((bucket, f"{server.url}/", f"file://{folder}", f"{secret}/")):
        name = f"there-{number}.sqlite"
        run, found = audited(place, name)
        assert found == expected
        assert (run.examined, run.kept) == (len(expected), 0)
        does = server.reset()
        run, found = audited(place, name)
        assert (run.examined, run.kept) == (0, len(expected))
        assert found == expected
        assert does.sent < 2000  # the list of the folder
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_an_audit_goes_on_where_an_address_leads_nowhere(server: WebServer, folder: Path, tmp_path: Path) -> None:
    dead = f"http://me:{SECRET}@127.0.0.1:1/"
    audit([dead, f"{server.url}/text", f"{server.url}/none.oam"], tmp_path / "a.sqlite", executor=InProcess())
    with View(str(tmp_path / "a.sqlite")) as view:
        found = {result.path: result.verdict for result in view.results()}
    assert found == {
        "http://127.0.0.1:1/": "unreadable",
        f"{server.url}/text": "refused",
        f"{server.url}/none.oam": "unreadable",
    }


def audited(places: Sequence[str], database: Path) -> tuple[Run, dict[str, tuple[str, str]]]:
    """Audit, and return verdict and message of each path."""
    run = audit(places, database, executor=InProcess())
    with View(str(database)) as view:
        return run, {result.path: (result.verdict, result.message) for result in view.results()}


def put(bucket: str, names: Sequence[str], data: bytes) -> None:
    """Make a bucket with these keys."""
    system = pytest.importorskip("fsspec").filesystem("s3")
    system.mkdir(bucket)
    for name in names:
        system.call_s3("put_object", Bucket=bucket, Key=name, Body=data)


def test_files_whose_addresses_differ_only_in_a_query(server: WebServer, bucket: str, tmp_path: Path) -> None:
    """None takes the place of another, and none is lost."""
    put("questions", ["q/a?1.oam", "q/a?2.oam", "q/a?1.txt"], b"bad")
    _, found = audited(["s3://questions/q"], tmp_path / "s3.sqlite")
    verdicts = {path: verdict for path, (verdict, _) in found.items()}
    assert verdicts == {f"s3://questions/q/a?{name}": "refused" for name in ("1.oam", "2.oam")} | {
        "s3://questions/q/a?1.txt": "other"
    }
    places = [f"{server.url}/get?f={name}" for name in ("bad_bytes_short.oam", "golden_all_sections.oam")]
    run, found = audited(places, tmp_path / "http.sqlite")
    verdicts = {path: verdict for path, (verdict, _) in found.items()}
    assert verdicts == dict(zip(map(shown_url, places), ("refused", "canonical"), strict=True))
    assert "golden" not in "".join(found)
    assert (run.examined, run.kept) == (2, 0)
    run, _ = audited(places, tmp_path / "http.sqlite")
    assert (run.examined, run.kept) == (0, 2)
    server.reset().page = lambda path: "".join(f'<a href="{place}">x</a>' for place in places)
    _, found = audited([f"{server.url}/"], tmp_path / "page.sqlite")
    assert {path: verdict for path, (verdict, _) in found.items()} == verdicts
    assert validate(places[1]).source != validate(places[0]).source
    with pytest.raises(ArgumentError, match="audits of their own"):
        audit(["http://a:b@h/x", "http://c:d@h/x"], tmp_path / "two.sqlite")


def test_names_that_are_hard_to_address(bucket: str, tmp_path: Path, folder: Path) -> None:
    """Every file is examined, or told of as unreadable; none is passed over, and none is said to have vanished."""
    no_address = "No address leads to a file of this name: copy it, or give it another one"
    data = (folder / "golden_all_sections.oam").read_bytes()
    keys = [
        "runs//x.oam",
        "runs///x.oam",
        "runs/u/http://h/y.oam",
        "/lead.oam",
        "//lead.oam",
        "br/run[1]/x.oam",
        "br/*.oam",
    ]
    odd = ["a::b.oam", "v?versionId=1.oam"]
    put("names", [*keys, *odd, "runs/"], data)
    run, found = audited(["s3://names"], tmp_path / "s3.sqlite")
    assert found == {f"s3://names/{key}": ("canonical", "") for key in keys} | {
        f"s3://names/{key}": ("unreadable", no_address) for key in [*odd, "runs/"]
    }
    assert run.gone == 0
    for pattern, names in (
        ("**/*.oam", [*keys, *odd]),
        ("runs/**/x.oam", ["runs//x.oam", "runs///x.oam"]),
        ("br/run[1]/x.oam", ["br/run[1]/x.oam"]),
        ("br/*", ["br/*.oam", "br/run[1]/x.oam"]),
        ("br/*.oam", ["br/*.oam"]),
        ("b?/r*/*.oam", ["br/run[1]/x.oam"]),
    ):
        _, found = audited([f"s3://names/{pattern}"], tmp_path / "pattern.sqlite")
        assert set(found) == {f"s3://names/{name}" for name in names}, pattern
    memory = pytest.importorskip("fsspec").filesystem("memory")
    names = ["odd/a?.oam", "odd//c.oam", "odd/e[1].oam", "odd.oam"]
    for name in (*names, "odd/a::b.oam"):
        memory.pipe_file(f"/{name}", data)
    for number, (place, start, known) in enumerate(
        (
            ("memory://", "memory://", names),
            ("memory://od*", "memory://", names),
            ("simplecache::memory://odd", "simplecache::memory://", names[:3]),
        )
    ):
        run, found = audited([place], tmp_path / f"memory-{number}.sqlite")
        assert found == {f"{start}{name}": ("canonical", "") for name in known} | {
            f"{start}odd/a::b.oam": ("unreadable", no_address)
        }
    memory.rm("/odd", recursive=True)
    memory.rm("/odd.oam")
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("a::b.oam", "/abs.oam", "d//e.oam", "abs.oam", "d/f.oam"):
            file.writestr(name, data)
    for place in (f"zip://::file://{archive}", f"zip://**/*.oam::file://{archive}"):
        run, found = audited([place], tmp_path / "zip.sqlite")
        assert {path.partition("::file")[0]: what for path, what in found.items()} == {
            "zip://a::b.oam": ("unreadable", no_address),
            "zip:///abs.oam": ("unreadable", no_address),
            "zip://abs.oam": ("canonical", ""),
            "zip://d//e.oam": ("canonical", ""),
            "zip://d/f.oam": ("canonical", ""),
        }
        assert run.gone == 0
    _, found = audited([f"zip://d::file://{archive}"], tmp_path / "d.sqlite")
    assert len(found) == 2
    run = audit(
        [f"zip://::file://{archive}"], tmp_path / "d.sqlite", executor=InProcess(), exclude=["d"], include=["a*"]
    )
    with View(str(tmp_path / "d.sqlite")) as view:
        assert [result.path.partition("::")[0] for result in view.results()] == [
            "zip:///abs.oam",
            "zip://a",
            "zip://abs.oam",
        ]


def test_loops_on_web_servers_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of links are noticed where pages repeat themselves, and else where they go too deep."""
    top = tmp_path / "top"
    (top / "run" / "run").mkdir(parents=True)
    (top / "run" / "run" / "b.oam").write_bytes(b"bad")
    (top / "a.oam").write_bytes(b"bad")
    empty = tmp_path / "empty" / "deep"
    empty.mkdir(parents=True)
    for name in ("one", "two"):
        (top / name).symlink_to(".")
        (empty / name).symlink_to("..")
    loop = ("unreadable", "It lists what a page above it lists, and is taken for a loop: not looked into")
    server = WebServer(tmp_path)
    try:
        _, found = audited([f"{server.url}/top/"], tmp_path / "loops.sqlite")
        assert found == {f"{server.url}/top/{name}": ("refused", "") for name in ("a.oam", "run/run/b.oam")} | {
            f"{server.url}/top/{name}/": loop for name in ("one", "two")
        }
        audit([f"{server.url}/top/"], tmp_path / "without.sqlite", executor=InProcess(), exclude=["one", "two"])
        with View(str(tmp_path / "without.sqlite")) as view:
            assert {result.verdict for result in view.results()} == {"refused"}
        does = server.reset()
        _, found = audited([f"{server.url}/empty/"], tmp_path / "empty.sqlite")
        assert set(found.values()) == {loop}
        assert len(does.seen) < 300
        monkeypatch.setattr(remote, "DEEPEST", 3)
        server.reset().page = lambda path: (
            '<a href="x/">x</a><a href="../">up</a><a href="./">here</a>' + "<p>" * len(path)
        )
        _, found = audited([f"{server.url}/"], tmp_path / "deep.sqlite")
        assert found == {f"{server.url}/x/x/x/x/": ("unreadable", "More than 3 folders deep: not looked into")}
    finally:
        server.close()


def test_what_servers_say_is_harmless(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one line, true, and without escapes, whatever the verb."""
    monkeypatch.setattr(remote, "TIMEOUT", 0.05)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    evil = "403 \u202eEvil\x9b2J\x1b[31m".encode()
    for answer, stalls, said in (
        (b"HTTP/1.1 " + evil + b"\r\nContent-Length: 0\r\n\r\n", False, "Not allowed (HTTP status 403"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", False, "The server's answer is not proper HTTP: "),
        (b"\x1b[31m\r\n\r\n", False, "The server's answer is not proper HTTP: "),
        (
            b"HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: 1000000000000000000\r\n\r\n",
            True,
            "The other side sent nothing for 0.05 seconds (2 attempts)",
        ),
    ):
        raw = RawServer(answer, stalls=stalls)
        try:
            url = f"{raw.url}/x.oam"
            for argv in (
                ["validate"],
                ["inspect"],
                ["decode"],
                ["digest"],
                ["audit", "-j", "1", "--db", str(tmp_path / "a.sqlite")],
            ):
                if stalls and argv[0] == "audit":
                    continue  # its processes have the constants as they are
                assert main([*argv, url]) == 2
                printed = capsys.readouterr()
                assert printed.err.startswith(f"ckptspec: {url}: {said}"), printed.err
                assert printed.err.count("\n") == 1
                for char in "\u202e\x9b\x1b":
                    assert char not in printed.out + printed.err
                assert "400" not in printed.err
        finally:
            raw.close()
    for target, said in (
        ("file:///etc/passwd", "The server leads on to what is no address of the web: file:///etc/passwd"),
        ("/x.oam", "The server leads from one address to the next without end"),
    ):
        does = server.reset()
        does.redirect = target
        assert main(["validate", f"{server.url}/x.oam"]) == 2
        assert capsys.readouterr().err == f"ckptspec: {server.url}/x.oam: {said}\n"
    name = "a\x1b[31mb"
    for error in (OSError(5, f"No {name}\nmore", name), OSError(f"No {name}\nmore")):
        assert not {"\x1b", "\n"} & set(os_error(error))


def test_addresses_that_cannot_be_opened(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    for address, said in (
        ("http://", "This address cannot be opened: it is none of the web"),
        ("data://x", "This address cannot be opened: "),
        ("blockcache::cached::http://x", "This address cannot be opened: "),
        ("generic://x", "This address cannot be opened: "),
        ("http://127.0.0.1:99999/x", "This address cannot be opened: "),
        ("s3://no_bucket!/x", "This address cannot be opened: no store can have such a name"),
        ("s3://names/a::bad.oam", "'::' begins the next address, and none can follow one of s3; no name can have it"),
        ("http://h/a::bad.oam", "'::' begins the next address, and none can follow one of http; no name can have it"),
    ):
        assert main(["validate", address]) == 2, address
        printed = capsys.readouterr().err
        assert printed.startswith(f"ckptspec: {address}: {said}")
        assert printed.count("\n") == 1
        assert "attempts" not in printed


def test_a_full_temporary_folder(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing is tried again."""
    url = f"{server.url}/golden_two.ckpt"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    for head in (None, 405):
        does = server.reset()
        does.head, does.ranges = head, head is None
        assert main(["convert", url, str(tmp_path / "a.safetensors")]) == 2
        said = f"No such file or directory (the folder of temporary files, {tmp_path}/none)"
        assert capsys.readouterr().err == f"ckptspec: {url}: {said}\n"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(remote, "FileSource", full)
    server.reset()
    assert main(["convert", url, str(tmp_path / "a.safetensors")]) == 2
    said = f"No space left on device (the folder of temporary files, {tmp_path})"
    assert capsys.readouterr().err == f"ckptspec: {url}: {said}\n"
    assert os.listdir(tmp_path) == []


def test_local_files_are_looked_at_once_whatever_they_are_called(folder: Path, tmp_path: Path) -> None:
    run, found = audited(
        [f"file://{folder}/g*", f"file://{folder}", str(folder), f"file://{folder}/text"], tmp_path / "a.sqlite"
    )
    assert set(found) == {str(path) for path in folder.iterdir()}
    assert run.examined == len(found)


def test_addresses_elsewhere_on_the_command_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No secret is shown, whatever an address is given for, and nothing is made of it."""
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.chdir(tmp_path)
    url = f"http://me:{SECRET}@127.0.0.1:1/x.oam?token={SECRET}"
    good = str(folder / "golden_all_sections.oam")
    here = "Only files of this machine can be written; write one and copy it"
    database = "A database or baseline is a file of this machine"
    for argv, said in (
        (["convert", good, url], here),
        (["convert", "--dry-run", "--to", "safetensors", good, url], here),
        (["digest", "--manifest", url, good], here),
        (["salvage", good, url], here),
        (["encode", good, url], "the byte at 3 is a NUL"),
        (["export", "kaitai", url], here),
        (["vectors", "export", url], here),
        (["audit", "--db", url, good], database),
        (["audit", "--baseline", url, good], database),
        (["audit", "report", "--db", url], database),
        (["audit", "report", "--baseline", url], database),
        (["explain", url], "there is no rule"),
        (["validate", "--format", url, good], "unknown format"),
        (["vectors", "list", "--format", url], "unknown format"),
        (["audit", "--format", url, good], "invalid choice"),
        (["diff", "--only", url, good, good], "no tensor has a name like"),
        (["inspect", "--hex", "--only", url, good], "no field begins with"),
        (["conform", "--decoder", url], "not found"),
        ([url], "invalid choice"),
        (["validate", "--hex", url], "unrecognized arguments"),
    ):
        if said in ("invalid choice", "unrecognized arguments"):
            with pytest.raises(SystemExit):
                main(argv)
        else:
            assert main(argv) in (1, 2), argv
        printed = capfd.readouterr()
        assert said in printed.err, argv
        assert SECRET not in printed.out + printed.err, argv
        assert os.listdir(tmp_path) == [], argv
    with pytest.raises(OSError, match="A database is a file of this machine"):
        audit([good], url)


class InProcess:
    """An executor that works at once, so that the settings of the tests hold."""

    slots = 1

    def __init__(self) -> None:
        self._done: list[tuple[Batch, list[Examined] | None]] = []

    def submit(self, batch: Batch, options: Options) -> None:
        self._done.append((batch, examine_all(batch.jobs, options)))

    def collect(self, timeout: float) -> list[tuple[Batch, list[Examined] | None]]:
        done, self._done = self._done, []
        return done

    def close(self) -> None: ...


def test_a_listing_of_before_is_not_believed(bucket: str, server: WebServer, folder: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    system, path = fsspec.core.url_to_fs(bucket)
    place = f"{bucket}/listed"
    system.pipe_file(f"{path}/listed/a", b"x")
    assert [found.names for found in remote.find(place)] == [("a",)]
    client: Any = type(system)(**system.storage_options, skip_instance_cache=True)  # somebody else's
    client.pipe_file(f"{path}/listed/b", b"y")
    assert [found.names for found in remote.find(place)] == [("a",), ("b",)]
    client.rm(f"{path}/listed", recursive=True)


def test_dots_in_an_address_of_the_web(server: WebServer, folder: Path) -> None:
    (folder / "dots" / "deep").mkdir(parents=True)
    (folder / "dots" / "a").write_bytes(b"x")
    for place in ("dots/", "./dots/", "dots/deep/../"):
        assert [found.names for found in remote.find(f"{server.url}/{place}", lambda _: None)] == [("a",)], place
    shutil.rmtree(folder / "dots")


def test_names_that_no_store_can_have(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (f"s3://me:{SECRET}@bucket/a.oam", f"s3://me:{SECRET} x@bucket/a.oam", f"s3://me:{SECRET}/x@b/a"):
        for words in (["validate", place], ["audit", ".", "--db", place], ["audit", ".", "--baseline", place]):
            assert main(words) == 2, words
            told = capsys.readouterr()
            assert SECRET not in told.out + told.err
            assert told.err.count("\n") == 1, told.err
