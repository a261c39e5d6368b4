"""Hostile files, names and words on every command: what is printed can be shown, what is taken stays in bounds.

The files are small here; ``CKPTSPEC_HOSTILE=full`` tries them at their full size, as does
``python -m ckptspec.conformance.hostile --full``, which also bounds memory.
"""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ckptspec import ArgumentError, examination, oam, ocannl, safetensors, validate
from ckptspec.cli import main
from ckptspec.conformance import hostile
from ckptspec.conformance.hostile import COMMANDS, FILES, NAMES, TWINS, WORDS, Hostile, texts_for
from ckptspec.conformance.hostile.judge import Page, check_csv, check_html, check_json, check_text
from ckptspec.conformance.hostile.run import GOOD, call
from ckptspec.conformance.hostile.trials import good_file, plain_page, try_all, try_file, try_words
from ckptspec.conformance.operations import verb_of
from ckptspec.conformance.tests.browser import View, chromium, view
from ckptspec.formats import module_of
from ckptspec.html.inspection import inspection
from ckptspec.source import BufferSource, FileSource
from ckptspec.text import disturbing, harmless, printable

__all__ = ["chromium", "view"]  # fixtures

FULL = os.environ.get("CKPTSPEC_HOSTILE") == "full"
SHARE = 1 if FULL else 6  # one in so many of the pairs of a command and a name or word
FIXED = 6_000_000  # bytes that a trial may take for a small file, besides a multiple of it


def count_of(item: Hostile) -> int:
    return item.full if FULL else item.small


def wrong(trials: object) -> str:
    return "\n".join(str(trial) for trial in trials if trial.wrong)  # type: ignore[attr-defined]


@pytest.mark.parametrize("item", FILES, ids=[item.name for item in FILES])
def test_hostile_files_on_every_command(item: Hostile, tmp_path: Path) -> None:
    texts = "texts" in item.name or item.hole
    commands = [command for command in COMMANDS if FULL or texts or not (command.foreign or command.slow)]
    assert wrong(try_file(tmp_path, item, count_of(item), commands)) == ""


@pytest.mark.parametrize("format", GOOD)
def test_hostile_names_of_files_on_every_command(format: str, tmp_path: Path) -> None:
    names = list(enumerate(NAMES))[list(GOOD).index(format) :: 1 if FULL else len(GOOD)]
    for at, name in names:
        commands = [
            command
            for number, command in enumerate(COMMANDS)
            if (at + number) % SHARE == 0 and (FULL or not (command.foreign or command.slow))
        ]
        folder = tmp_path / str(at)
        assert wrong(try_file(folder, good_file(format), 0, commands, name=name)) == ""


def test_an_audit_of_all_hostile_files(tmp_path: Path) -> None:
    assert "\n".join(try_all(tmp_path, count_of)) == ""


def test_names_that_look_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [os.fsdecode(name) for name in NAMES if name.startswith(b"-") and name != b"-"]
    assert len(names) > 3
    for name in names:
        Path(name).write_bytes(GOOD["safetensors"].read_bytes())
        for words in ("validate", "inspect", "decode", "digest", "metadata --json"):
            assert call([*words.split(), "--", name]).status == 0, name
            good = GOOD["safetensors"].read_bytes()  # which is read where the name only says that no option follows
            assert call([*words.split(), name], good).status in (0, 2), name  # help, or no such option
        assert call(["canonicalize", "--", name, name]).status == 0
    assert sorted(os.listdir()) == sorted(names)


@pytest.mark.parametrize("words", WORDS, ids=[words.name for words in WORDS])
def test_hostile_words_on_the_command_line(words: hostile.Words, tmp_path: Path) -> None:
    texts = texts_for(None, "\0")
    share = SHARE if words.words[0] not in ("conform", "matrix") else 4 * SHARE
    chosen = texts[WORDS.index(words) % share :: share]
    assert (
        wrong(try_words(tmp_path, words, text) for text in dict.fromkeys([*chosen, "--", "\x1b[31m", "w\u3164"])) == ""
    )


@pytest.mark.parametrize("item", [item for item in FILES if item.full], ids=lambda item: item.name)
def test_memory_follows_the_size_of_the_file(item: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MAX_FINDINGS", 20)  # each takes about 500 bytes
    data = item.make(item.small)
    validate(data, format=item.format)  # imports what is imported late
    tracemalloc.start()
    try:
        report = validate(data, format=item.format)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.ok == item.accepted
    assert peak < item.memory * len(data) + FIXED


# --------------------------------------------------------------------------------------------------- shown unmistakably


def looks(text: str) -> str:
    """Return what an eye sees: letters composed, blanks at the end gone and others joined."""
    return " ".join(
        unicodedata.normalize("NFC", "".join(char for char in text if not disturbing(char))).split(" ")
    ).strip()


def test_texts_that_look_alike_are_told_apart() -> None:
    for name, one, other in TWINS:
        assert one != other, name
        assert looks(printable(one)) != looks(printable(other)), name
    shown = [looks(printable(text)) for text in texts_for()]
    assert len(set(shown)) == len(shown)
    assert any(looks(one) == looks(other) for _, one, other in TWINS)  # they do without


@pytest.mark.parametrize("format", ["oam", "safetensors", "ocannl"])
@pytest.mark.parametrize("verb", ["inspect", "digest", "inspect --hex"])
def test_tensors_whose_names_look_alike_are_told_apart(format: str, verb: str, tmp_path: Path) -> None:
    w = np.zeros(1, np.uint8)
    for name, *pair in TWINS:
        path = tmp_path / f"{name}.{format}"
        outputs = []
        for text in pair:
            path.write_bytes(_named(format, text, w))
            outputs.append(call([*verb.split(), str(path)]).out)
        lines = [
            [line for line in output.splitlines() if printable(text) in line]
            for output, text in zip(outputs, pair, strict=True)
        ]
        assert all(lines), (name, outputs)
        assert [looks(line) for line in lines[0]] != [looks(line) for line in lines[1]], name


def _named(format: str, name: str, w: np.ndarray) -> bytes:
    if format == "oam":
        return bytes(oam.dumps(oam.Model(config=oam.Config(), weights={name: w}, progress=oam.Progress())))
    if format == "safetensors":
        return bytes(safetensors.dumps(safetensors.TensorFile(tensors={name: w})))
    tensor = {
        "namespace": "n",
        "id": "0",
        "label": [name],
        "precision": "byte",
        "dims": ["1"],
        "padding": None,
        "data": "00",
    }
    return ocannl.encode({"format": "ocannl", "version": 1, "alignment": 1, "tensors": [tensor], "training": None})


def test_messages_keep_their_lines_and_lose_what_disturbs() -> None:
    assert harmless("a\\b\nc\x1b[m\u3164\ud800") == "a\\b\nc\\x1b[m\\u3164\\ud800"


# ------------------------------------------------------------------------------------------------ the checks themselves


def test_the_checks_find_what_they_look_for() -> None:
    for text in texts_for():
        bad = any(disturbing(char) for char in text if char != "\n")
        assert bool(check_text(text + "\n")) == bad
        assert check_text(printable(text) + "\n") == ""
        assert check_json(json.dumps(text)) == ""
    assert check_text("no end")
    assert check_json('"\x7f"')
    assert check_csv("a,b\r\n1,'=1\r\n") == ""
    assert check_csv("a,b\r\n1,=1\r\n")
    assert check_csv("a,b\r\n1\r\n")
    assert check_csv("a\r\n\x1b[m\r\n")
    assert check_json("[NaN]")
    assert check_json("{")
    text = inspection(FileSource(GOOD["oam"]))[0]
    plain = Page(text)
    assert check_html(text, plain) == ""
    for more in ("<img>", "<p onclick=''>", "<script></script>", "<!-- -->", "\x9b", "<?x>"):
        assert check_html(text.replace("<body>", f"<body>{more}"), plain), more


def test_every_kind_of_file_is_there_for_every_format() -> None:
    kinds: dict[str, set[str]] = {}
    for item in FILES:
        kinds.setdefault(item.format, set()).add(item.name.removeprefix(f"{item.format}_"))
    assert set(kinds) == set(GOOD)
    for kind in (
        "texts",
        "many",
        "many_faulty",
        "overlaps_same",
        "overlaps_nested",
        "overlaps_stairs",
        "hole",
        "zero_of_many",
    ):
        assert all(kind in there for there in kinds.values()), kind
    assert len({item.name for item in FILES}) == len(FILES)
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    verbs = {
        verb_of(" ".join(words)) for words in [command.words for command in COMMANDS] + [words.words for words in WORDS]
    }
    parser = hostile_parser()
    assert set(parser) <= verbs, set(parser) - verbs


def hostile_parser() -> list[str]:
    """Return the names of all verbs."""
    from ckptspec.cli import build_parser

    actions = build_parser()._subparsers
    assert actions is not None
    return list(actions._group_actions[0].choices or ())


# ---------------------------------------------------------------------------------------------------------- the browser


@pytest.mark.parametrize("format", GOOD)
def test_pages_of_hostile_texts_in_a_browser(format: str, view: View, tmp_path: Path) -> None:
    item = next(item for item in FILES if item.name == f"{format}_texts")
    path = tmp_path / "page.html"
    path.write_text(inspection(BufferSource(item.make(0), "\u202e<b>\x1b"))[0], "utf-8")
    page = view.open(path)
    for kind in ("img", "b", "foreignObject", "title title"):
        assert page.locator(kind).count() == 0, kind
    assert page.locator("#tensors-view tbody tr").count() > 50
    page.get_by_label("Search").fill("</script>")
    assert page.locator("#tensors-view tbody tr").count() >= 1


# ------------------------------------------------------------------------------------------- what hostile content found


def test_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hole"
    with open(path, "wb") as file:
        file.truncate(1 << 34)
        file.seek(1 << 33)
        file.write(b"\7")
    with FileSource(path) as source:
        if source._stored(0, 1 << 34)[0] == 0:
            pytest.skip("the file system has no holes")
        read: list[int] = []
        monkeypatch.setattr(source, "readinto", _counted(source.readinto, read))
        assert source.first_nonzero(0, source.size) == (1 << 33, 7)
        assert source.first_nonzero((1 << 33) + 1, (1 << 33) - 1) is None
        assert source.first_nonzero(5, 1000) is None
        assert source.first_nonzero(1 << 33, 1) == (1 << 33, 7)
        assert sum(read) < 1 << 24
        os.truncate(path, 1 << 30)
        with pytest.raises(OSError, match="became shorter"):
            source.first_nonzero(0, source.size)


def _counted(readinto: Callable[[int, memoryview], None], read: list[int]) -> Callable[[int, memoryview], None]:
    def counted(offset: int, buffer: memoryview) -> None:
        read.append(buffer.nbytes)
        readinto(offset, buffer)

    return counted


def test_no_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ckptspec.cli.looking.validate", no_memory)
    assert main(["validate", str(GOOD["oam"])]) == 2
    assert capsys.readouterr().err == "ckptspec: there is not enough memory\n"


@pytest.mark.parametrize(("name", "words"), [("CKPTSPEC_CHECKSUM", "validate"), ("CKPTSPEC_ELEMENTS", "diff")])
def test_settings_that_nobody_knows(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = []
    for number in range(2):
        model = oam.Model(
            config=oam.Config(), weights={"w": np.full(9999, number, np.float32)}, progress=oam.Progress()
        )
        files.append(str(tmp_path / f"{number}.oam"))
        oam.save(files[-1], model)
    monkeypatch.setenv(name, "\x1b[31m")
    assert main([words, *files]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ckptspec: {name}: found '\\x1b[31m', expected ")
    assert error.count("\n") == 1


def test_an_option_can_be_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--format=--", str(GOOD["oam"])]) == 2
    assert "unknown format '--'" in capsys.readouterr().err


def test_scanning_entries_at_once_gives_what_reading_them_gives() -> None:
    from ckptspec.safetensors._json import Scanner

    values = ['"U8"', "[]", "[ 1 ]", "[1,20]", "[0, 0]", "[01]", "[-1]", "[1.0]", '"\u00e9"', '"\\n"', "null", "[[1]]"]
    blanks = ["", " ", "\n\t"]
    plain = 0
    for one, other, blank in itertools.product(values, values, blanks):
        text = f'{blank}"w"{blank}:{blank}{{"dtype"{blank}:{one}{blank},"a":{blank}{other},"b":[3]{blank}}}'.encode()
        fast, slow = Scanner(text, 64), Scanner(text, 64)
        made = fast.plain_pair(3)
        if made is None:
            assert fast.at == 0
            continue
        plain += 1
        key = slow.string()
        slow.take(b":", "a colon")
        assert made == (key, slow.value(1))
        assert fast.at == slow.at
    assert plain == 5 * 5 * len(blanks)


@pytest.mark.parametrize("format", ["oam", "ocannl"])
def test_a_manifest_of_types_that_are_none_is_refused(format: str) -> None:
    from ckptspec.contents import contents_of
    from ckptspec.digest import digest, manifest_of, parse_manifest

    with FileSource(GOOD[format]) as source:
        manifest = manifest_of(digest(contents_of(source)))
    name = next(iter(manifest["tensors"]))
    parse_manifest(json.dumps(manifest).encode())
    for key, value in (("dtype", "f33"), ("encoding", "q5")):
        bad = {**manifest, "tensors": {**manifest["tensors"], name: {**manifest["tensors"][name], key: value}}}
        with pytest.raises(ArgumentError, match=f"found '{value}', expected one of"):
            parse_manifest(json.dumps(bad).encode())


def test_documents_of_one_version() -> None:
    from hypothesis import HealthCheck, given, settings

    from ckptspec.conformance import strategies

    for version in (0, 9, True, "3"):
        with pytest.raises(ArgumentError, match="expected one of 1, 2, 3"):
            strategies.oam_documents(version)  # type: ignore[arg-type]

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.documents("oam", newest=True))
    def canonical(document: strategies.Document) -> None:
        assert validate(module_of("oam").encode(document)).canonical

    canonical()


def test_plain_page_is_of_a_good_file() -> None:
    assert plain_page("oam").scripts > 1
