"""The command line, run as people and programs run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptspec import __version__, load, oam, save
from ckptspec.cli import build_parser, main
from ckptspec.conformance.catalogue import VECTORS, load_suite
from ckptspec.oam import Model, Optimizer, QuantizedTensor

SUITE = load_suite()
COMMAND = [sys.executable, "-m", "ckptspec"]


def vector(name: str) -> str:
    return str(VECTORS / SUITE.case(f"oam/{name}").file)


def run(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *args], input=stdin, capture_output=True, env={**os.environ, **env}, check=False)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"ckptspec {__version__}\n"
    with pytest.raises(SystemExit) as caught:
        main(["frobnicate"])
    assert caught.value.code == 2
    assert "validate" in build_parser().format_help()


# ------------------------------------------------------------------------------------------------------------ validate


def test_validate_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", vector("golden_weights")]) == 0
    assert capsys.readouterr().out == f"{vector('golden_weights')}: valid: .oam version 3, 8520 bytes, canonical\n"


def test_validate_bad(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", vector("bad_bytes_short")]) == 1
    out = capsys.readouterr().out
    assert "refused" in out
    assert "reject OAM-TEN-BYTES at bytes 4348 to 4355 (0x10fc), weights[0].num_bytes" in out
    assert "The tensor is 'w'." in out
    assert "what survives" in out


def test_validate_strict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", vector("trailing_1")]) == 0
    assert main(["validate", "--strict", vector("trailing_1")]) == 1
    assert main(["validate", "--strict", vector("note_no_optimizer")]) == 0
    assert "not canonical" in capsys.readouterr().out


def test_validate_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [vector("golden_weights"), vector("bad_total_long"), vector("trailing_1"), vector("bad_magic_bit")]
    assert main(["validate", "-q", *files]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "4 files: 2 accepted, 2 refused"
    missing = str(tmp_path / "missing.oam")
    assert main(["validate", "-q", missing, *files]) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "5 files: 2 accepted, 2 refused, 1 unreadable"
    assert captured.err == f"ckptspec: {missing}: No such file or directory\n"
    assert main(["validate", "--json", missing, *files]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["counts"] == {"files": 5, "accepted": 2, "refused": 2, "not_canonical": 1, "unreadable": 1}
    assert [item.get("accepted") for item in answer["files"]] == [None, True, False, True, False]
    assert answer["files"][2]["findings"][0]["rule"] == "OAM-HDR-TOTAL"


def test_validate_standard_input() -> None:
    with open(vector("golden_weights"), "rb") as file:
        done = subprocess.run([*COMMAND, "validate", "-"], stdin=file, capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"-: valid")


@pytest.mark.parametrize("verb", ["validate", "inspect", "decode"])
def test_what_is_no_file(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fifo, secret = tmp_path / "fifo", tmp_path / "secret"
    os.mkfifo(fifo)
    secret.write_bytes(b"")
    for path, what in (
        (tmp_path, "Is a directory"),
        (fifo, "Not a regular file"),
        (tmp_path / "nothing", "No such file or directory"),
        (secret / "below", "Not a directory"),
        (tmp_path / ("n" * 300), "File name too long"),
    ):
        assert main([verb, str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.err == f"ckptspec: {path}: {what}\n"
    if os.geteuid():
        secret.chmod(0)
        assert main([verb, str(secret)]) == 2


def test_foreign_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in SUITE.cases:
        if case.format == "any":
            assert main(["validate", str(VECTORS / case.file)]) == 1
            assert "ANY-FILE-FORMAT" in capsys.readouterr().out
            assert main(["decode", str(VECTORS / case.file)]) == 1
            assert json.loads(capsys.readouterr().out)["error"]["rule"] == "ANY-FILE-FORMAT"
    assert main(["validate", "--format", "oam", str(VECTORS / "any" / "file_html.bin")]) == 1
    assert "OAM-HDR-MAGIC" in capsys.readouterr().out
    assert main(["validate", "--format", "png", vector("golden_weights")]) == 2


# ------------------------------------------------------------------------------------------------------------- inspect


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", vector("golden_quantized_mixed")]) == 0
    out = capsys.readouterr().out
    for part in ("sections", "checksum matches", "architecture", "'ckptspec'", "metric_name", "4 x 8", "q4", "q8"):
        assert part in out
    assert main(["inspect", "--json", vector("golden_quantized_mixed")]) == 0
    parts = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in parts["tensors"]] == ["w", "q4", "q8", "b"]
    assert parts["sections"][1]["name"] == "weights"


def test_inspect_shows_damaged_files(capsys: pytest.CaptureFixture[str]) -> None:
    for case in SUITE.cases:
        if case.kind == "file" and case.verdict != "valid":
            assert main(["inspect", str(VECTORS / case.file)]) in (0, 1)
            assert main(["inspect", "--hex", str(VECTORS / case.file)]) in (0, 1)
    assert "CHECKSUM DOES NOT MATCH" in capsys.readouterr().out


def test_inspect_hex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--hex", vector("golden_weights")]) == 0
    out = capsys.readouterr().out
    assert "header.magic  byte[4]  4f 41 4d 00" in out
    assert "00000000  4f 41 4d 00" in out
    assert "weights[0].name  char[128]  'w'" in out
    assert "learning_rate  f32  0.0003 (0x399d4952)" in out
    assert "\x1b" not in out
    assert main(["inspect", "--hex", "--only", "progress.", vector("golden_weights")]) == 0
    assert "header.magic" not in capsys.readouterr().out
    assert main(["inspect", "--hex", "--only", "nonsense", vector("golden_weights")]) == 2
    assert main(["inspect", "--only", "progress.", vector("golden_weights")]) == 2


def test_inspect_says_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.oam"
    path.write_bytes(Path(vector("golden_all_sections")).read_bytes()[:9000])
    assert main(["inspect", str(path)]) == 1
    out = capsys.readouterr().out
    assert "optimizer: cannot be read" in out
    assert "progress: cannot be read" in out


def test_hostile_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("golden_name_control", "golden_name_bidi", "golden_name_newline"):
        for args in (["inspect"], ["inspect", "--hex"], ["validate"], ["decode"]):
            main([*args, vector(name)])
            out = capsys.readouterr().out
            assert not any(char in out for char in "\x1b\x01\x7f\u202e\u2066"), (name, args)
    main(["inspect", vector("golden_name_newline")])
    assert "a\\nb" in capsys.readouterr().out


def test_output_survives_a_plain_locale() -> None:
    for name in ("golden_name_chinese", "golden_name_emoji", "bad_name_twice"):
        for args in (["inspect"], ["inspect", "--hex"], ["validate"], ["decode"]):
            done = run(*args, vector(name), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
            assert done.returncode in (0, 1), done.stderr
            assert b"Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{' '.join(COMMAND)} inspect --hex {vector('golden_many_tensors')} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stderr == b""


# ---------------------------------------------------------------------------------------------------- decode and encode


def test_decode_and_encode(tmp_path: Path) -> None:
    data = Path(vector("golden_all_sections")).read_bytes()
    done = run("decode", "-", stdin=data)
    assert done.returncode == 0
    assert json.loads(done.stdout) == SUITE.case("oam/golden_all_sections").read_expected()
    again = run("encode", "-", stdin=done.stdout)
    assert again.returncode == 0
    assert again.stdout == data
    target = tmp_path / "out.oam"
    document = tmp_path / "document.json"
    document.write_bytes(done.stdout)
    assert run("encode", str(document), str(target)).returncode == 0
    assert target.read_bytes() == data


def test_decode_refuses() -> None:
    done = run("decode", "-", stdin=Path(vector("bad_magic_bit")).read_bytes())
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["rule"] == "OAM-HDR-MAGIC"
    assert done.stderr.startswith(b"ckptspec: -: OAM-HDR-MAGIC")


def test_encode_refuses() -> None:
    done = run("encode", "-", stdin=b'{"format":"oam"}')
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"ckptspec: document: missing key 'version'\n"


def test_decode_batch() -> None:
    names = ["golden_weights", "bad_magic_bit", "golden_minimal"]
    done = run("decode", "--batch", stdin="".join(f"{vector(name)}\n" for name in names).encode())
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["path"] for answer in answers] == [vector(name) for name in names]
    assert [("document" in answer, "error" in answer) for answer in answers] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_batch_takes_any_line_for_a_path(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "decode", "--batch"], input=b"-\n", capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, b"ckptspec: -: No such file or directory\n")
    done = run("decode", "--batch", stdin=b"a\0b\n")
    assert (done.returncode, done.stderr) == (
        2,
        b"ckptspec: a path cannot hold a NUL\n".replace(b"a path", b"path: a path"),
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_closed_streams(closed: str) -> None:
    good = vector("golden_weights")
    for args, status in (
        (f"validate {good}", 0 if closed != ">&-" else 2),
        (f"decode {good}", 0 if closed != ">&-" else 2),
        ("decode -", 2 if closed in (">&-", "<&-") else 0),
        ("encode -", 2 if closed in (">&-", "<&-") else 1),
    ):
        command = f"{' '.join(COMMAND)} {args} {closed}"
        given = Path(good).read_bytes() if "decode -" in args else b"{}"
        done = subprocess.run(["bash", "-c", command], input=given, capture_output=True, check=False)
        assert done.returncode == status, (command, done.stderr)
        assert b"Traceback" not in done.stderr


# ------------------------------------------------------------------------------------------------------------ rewriting


def test_canonicalize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "out.oam")
    for case in SUITE.cases:
        if case.kind == "file" and case.verdict == "valid":
            assert main(["canonicalize", str(VECTORS / case.file), target]) == 0
            assert main(["validate", "--strict", "-q", target]) == 0
    assert main(["canonicalize", vector("v1_minimal"), target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n{", 1)[-1].join(["{", ""]))["from_version"] == 1
    assert main(["canonicalize", vector("bad_total_long"), target]) == 1


def test_canonicalize_in_place(tmp_path: Path) -> None:
    target = str(tmp_path / "m.oam")
    shutil.copy(vector("gaps_v1"), target)
    assert main(["canonicalize", target, target]) == 0
    assert main(["validate", "--strict", "-q", target]) == 0


def test_quantize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = str(tmp_path / "a.oam"), str(tmp_path / "b.oam")
    save(source, Model(weights={"m": np.ones((4, 40), np.float32), "v": F}, optimizer=Optimizer()))
    assert main(["quantize", source, target, "q8"]) == 0
    assert "1 weight as q8, 1 kept; the optimizer is dropped" in capsys.readouterr().out
    assert isinstance(load(target).weights["m"], QuantizedTensor)
    assert main(["quantize", target, target, "q8"]) == 2
    assert main(["quantize", target, source, "q8"]) == 1
    assert "no dense f32 weight" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["quantize", source, target, "q5"])
    assert caught.value.code == 2


F = np.zeros(3, np.float32)


def test_salvage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "out.oam")
    assert main(["salvage", vector("bad_payload_state_v3"), target]) == 0
    assert "repaired  byte 8531  0x28 is wrong there; with 0x08 the checksum fits" in capsys.readouterr().out
    assert list(load(target).state) == ["s"]
    damaged = tmp_path / "damaged.oam"
    data = bytearray(Path(vector("golden_all_sections")).read_bytes())
    data[8528] ^= 1
    data[8530] ^= 1
    damaged.write_bytes(data)
    assert main(["salvage", str(damaged), target]) == 0
    assert "unverified" in capsys.readouterr().out
    assert main(["validate", "--strict", "-q", target]) == 0
    assert main(["salvage", str(damaged), str(damaged)]) == 2
    assert damaged.read_bytes() == data
    assert main(["salvage", vector("golden_weights"), target]) == 0
    assert "nothing was damaged" in capsys.readouterr().out
    assert main(["salvage", vector("bad_short_63"), target]) == 1
    assert main(["salvage", str(damaged), target, "--json", "--intact-only"]) == 0
    capsys.readouterr()
    assert list(load(target).state) == []


# ----------------------------------------------------------------------------------------------------------- the rest


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "oam-sec-overlap"]) == 0
    out = capsys.readouterr().out
    assert "MUST NOT share a byte" in out
    assert "oam/bad_overlap_by_1" in out
    assert main(["explain"]) == 0
    assert "OAM-PRG-BOOL" in capsys.readouterr().out
    assert main(["explain", "OAM-SEC-OVERLAB"]) == 2
    assert "did you mean OAM-SEC-OVERLAP" in capsys.readouterr().err
    assert main(["explain", "--json", "OAM-SEC-OVERLAP"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "reject"


def test_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vectors", "list", "--rule", "OAM-SEC-GAP"]) == 0
    assert "oam/gaps_v3" in capsys.readouterr().out
    assert main(["vectors", "list", "--json", "--verdict", "acceptable"]) == 0
    listed: Any = json.loads(capsys.readouterr().out)
    assert {item["verdict"] for item in listed} == {"acceptable"}
    assert main(["vectors", "export", str(tmp_path / "v"), "--tag", "quantized"]) == 0
    assert (tmp_path / "v" / "oam" / "golden_q4_32.oam").read_bytes() == Path(vector("golden_q4_32")).read_bytes()
    assert (tmp_path / "v" / "document.schema.json").exists()
    assert main(["vectors", "export", "--tag", "quantized", "--format", "oam", str(tmp_path / "w")]) == 0
    with pytest.raises(SystemExit) as caught:
        main(["vectors", "export"])
    assert caught.value.code == 2
    assert main(["vectors", "list", "--rule", "OAM-NOPE"]) == 2
    assert main(["vectors", "list", "--tag", "nonsense"]) == 2
    assert "unknown tag 'nonsense'" in capsys.readouterr().err


def test_the_reference_passes_its_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform"]) == 0
    assert oam.__doc__


# ------------------------------------------------------------------------------------------- outputs that are inputs


@pytest.mark.parametrize("how", ["name", "link", "standard input"])
@pytest.mark.parametrize(
    "words", [("digest", "{}", "--manifest"), ("inspect", "{}", "--html")], ids=lambda words: words[0]
)
def test_no_output_goes_over_the_file_that_is_read(words: tuple[str, ...], how: str, tmp_path: Path) -> None:
    path, link = tmp_path / "x.oam", tmp_path / "link.oam"
    content = Path(vector("golden_q4_32")).read_bytes()
    path.write_bytes(content)
    link.symlink_to(path)
    source = "-" if how == "standard input" else str(path)
    command = [word.format(source) for word in words] + [str(link if how == "link" else path)]
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "ckptspec", *command], stdin=file, capture_output=True, check=False
        )
    assert done.returncode == 2
    assert b"FILE and OUT are the same file" in done.stderr
    assert path.read_bytes() == content


def test_a_run_is_not_overwritten_by_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    assert main(["conform", "--filter", "oam/golden_minimal", "--json", str(run)]) == 0
    before = run.read_bytes()
    capsys.readouterr()
    assert main(["matrix", str(run), "--html", f"{tmp_path}/./run.json"]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert run.read_bytes() == before
    assert main(["matrix", str(run), "--json", f"{tmp_path}/a", "--html", f"{tmp_path}/./a"]) == 2
