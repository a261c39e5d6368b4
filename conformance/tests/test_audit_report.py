"""Reports on audits: what has changed, baselines, exit statuses, and that no name does anything."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ckptspec.audit import VERDICTS, View, showing
from ckptspec.audit.baselines import BEGINNING
from ckptspec.audit.check import Examined, Options
from ckptspec.audit.database import Store
from ckptspec.audit.page import render_html
from ckptspec.audit.reporting import CSV_COLUMNS, csv_lines, json_lines, text_lines
from ckptspec.audit.tables import SCHEMA_VERSION, TABLES
from ckptspec.audit.views import SELECTIONS
from ckptspec.cli import main
from ckptspec.conformance.catalogue import VECTORS
from ckptspec.conformance.tests.browser import View as Browsed
from ckptspec.conformance.tests.browser import chromium, view
from ckptspec.errors import ArgumentError
from ckptspec.terminal import Style
from ckptspec.text import disturbing

__all__ = ["chromium", "view"]  # fixtures

RANGE = "SAFETENSORS-DAT-RANGE"
ORDER = "SAFETENSORS-DAT-ORDER"
FINDINGS = {
    RANGE: (RANGE, "reject", 8, 4, "tensors['\\x1b']", "<b>12</b>", "13", "a hint"),
    "SAFETENSORS-HDR-ORDER": ("SAFETENSORS-HDR-ORDER", "canonical", 8, 4, "a", "b", "c", ""),
    ORDER: (ORDER, "canonical", 8, 4, "", "1", "2", ""),
}
SCOPE = {"places": ["/data"], "include": [], "exclude": [], "format": ""}


def result(path: str, verdict: str = "canonical", *rules: str, **more: Any) -> Examined:
    known = verdict in ("canonical", "accepted", "refused", "unfinished")
    values: dict[str, Any] = {
        "path": path,
        "size": 100,
        "stamp": "1 2 3",
        "verdict": verdict,
        "format": "safetensors" if known else None,
        "counts": dict.fromkeys(rules, 2),
        "findings": tuple(FINDINGS[rule] for rule in rules),
    }
    return Examined(**values | more)


def record(database: Path, *found: Examined, scope: dict[str, Any] = SCOPE, state: str = "finished") -> Path:
    with Store(database) as store:
        store.begin(scope, {})
        for item in found:
            store.add([item], Options())
        store.end(state)
    return database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Give a database with two runs."""
    made = record(
        tmp_path / "results.sqlite",
        result("/data/a/bad", "refused", RANGE),
        result("/data/a/good"),
        result("/data/b/gets-bad"),
        result("/data/b/gets-good", "refused", RANGE),
        result("/data/b/goes"),
        result("/data/closed/hidden"),
    )
    return record(
        made,
        result("/data/a/bad", "refused", RANGE),
        result("/data/a/good", "accepted", ORDER, old=True),
        result("/data/b/comes"),
        result("/data/b/comes-bad", "unfinished", RANGE),
        result("/data/b/gets-bad", "refused", RANGE),
        result("/data/b/gets-good"),
        result("/data/b/text", "other", message="text"),
        result("/data/closed", "unreadable", message="Permission denied", stamp="", size=0),
    )


def status(database: Path, *found: Examined, strict: bool = False) -> int:
    with View(record(database, *found)) as made:
        return made.status(strict=strict)


def test_the_exit_status(tmp_path: Path) -> None:
    bad, draft = result("/a", "refused", RANGE), result("/b", "unfinished", message="a draft")
    accepted, unreadable = result("/c", "accepted", ORDER), result("/d", "unreadable", message="no")
    cases = [
        ([], 0, 0),
        ([result("/x"), result("/y", "other")], 0, 0),
        ([accepted], 0, 1),
        ([draft], 0, 1),
        ([result("/b", "unfinished", RANGE)], 1, 1),
        ([result("/b", "crashed")], 1, 1),
        ([bad, unreadable], 1, 1),
        ([unreadable, accepted], 2, 1),
        ([unreadable], 2, 2),
    ]
    for number, (found, plain, strict) in enumerate(cases):
        database = tmp_path / f"{number}.sqlite"
        assert (status(database, *found), status(database, *found, strict=True)) == (plain, strict), found


def test_what_has_changed(database: Path) -> None:
    with View(database) as made:
        summary = made.summary()
        assert summary.baseline == "run 1"
        assert summary.changes == {"new": 2, "newly-bad": 3, "fixed": 1, "changed": 1, "vanished": 1}
        assert list(made.vanished()) == ["/data/b/goes"]
        changes = {os.path.basename(item.path): item.change for item in made.results()}
        assert changes == {
            "bad": "",
            "good": "changed",
            "comes": "new",
            "comes-bad": "newly-bad",
            "gets-bad": "newly-bad",
            "gets-good": "fixed",
            "text": "new",
            "closed": "newly-bad",
        }
    with View(database, 1) as first:
        assert (first.summary().baseline, first.summary().changes) == ("", {})


def test_only_runs_of_the_same_places_that_came_to_their_end_are_compared(database: Path) -> None:
    record(database, result("/data/a/good"), state="interrupted")
    record(database, result("/else/x"), scope=SCOPE | {"places": ["/else"]})
    with View(database) as other:
        assert other.summary().baseline == ""
    record(database, result("/data/a/good"))
    with View(database) as made:
        assert made.summary().baseline == "run 2"


def test_a_baseline_is_a_run_a_database_or_a_report(database: Path, tmp_path: Path) -> None:
    report = tmp_path / "before.jsonl"
    with View(database, 1) as first:
        report.write_text("".join(json_lines(first)))
    copy = tmp_path / "before.sqlite"
    with Store(copy) as store:
        store.begin(SCOPE, {})
        for path in ("/data/a/bad", "/data/b/gets-good"):
            store.add([result(path, "refused", RANGE)], Options())
        for path in ("/data/a/good", "/data/b/gets-bad", "/data/b/goes", "/data/closed/hidden"):
            store.add([result(path)], Options())
        store.end("finished")
    for baseline in ("1", "last", str(report), str(copy)):
        with View(database, baseline=baseline) as made:
            assert made.summary().changes == {"new": 2, "newly-bad": 3, "fixed": 1, "changed": 1, "vanished": 1}
            assert made.summary().known == 1
            assert made.status() == 1
            assert "/data/a/bad" not in {item.path for item in made.results()}
    with View(database, baseline="2") as same:  # all that is bad is known
        assert (same.status(), same.status(strict=True)) == (0, 0)
        assert list(same.results()) == []
    record(database, result("/data/a/bad", "refused", RANGE, counts={RANGE: 1, "SAFETENSORS-TEN-SIZEOF": 1}))
    with View(database, baseline="2") as worse:  # known for one rule, and now refused for another, too
        assert worse.status() == 1


def test_a_baseline_that_cannot_be_used(database: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    path = '{"path": "/a", "verdict": "refused", "refused_for": '
    for text in (
        path + "[1]}",
        path + '"abc"}',
        path + '["\\ud800"]}',
        path.replace("refused", "\\ud800", 1) + "[]}",
        "{",
        "[]",
        '{"path": 1}',
        "null",
        '{"path": "/a", "verdict": "refused"}',
    ):
        broken.write_text(text)
        with pytest.raises(OSError, match="Line 1 is no line of a report"):
            View(database, baseline=str(broken))
    with pytest.raises(FileNotFoundError):
        View(database, baseline=str(tmp_path / "nothing"))
    (tmp_path / "link").symlink_to(database)
    for own in (str(database), str(tmp_path / "link")):
        with pytest.raises(ArgumentError, match="the database itself is no baseline"):
            View(database, baseline=own)
    with pytest.raises(ArgumentError, match="no run 77"):
        View(database, baseline="77")
    for number in ("77", "9" * 30, "9" * 5000):
        with pytest.raises(ArgumentError, match="no run"):
            View(database, baseline=number)
    with pytest.raises(ArgumentError, match="no run"):
        View(database, 10**30)
    with pytest.raises(ArgumentError, match="no run 9"):
        View(database, 9)


def test_the_first_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is nothing to compare with, everything is new, and what is bad is told."""
    shutil.copy(VECTORS / "oam/bad_truncated_page.oam", tmp_path / "bad.oam")
    shutil.copy(VECTORS / "oam/golden_weights.oam", tmp_path / "good.oam")
    nightly = ["audit", str(tmp_path), "--db", str(tmp_path / "nightly.sqlite"), "--quiet", "--baseline", "last"]
    assert main(nightly) == 1
    assert "bad.oam" in capsys.readouterr().out
    assert main(nightly) == 0
    assert capsys.readouterr() == ("", "")
    with View(tmp_path / "nightly.sqlite", 1, baseline="last") as first:
        assert first.baseline == BEGINNING
        assert {item.change for item in first.results()} == {"new", "newly-bad"}
        assert first.summary().changes["vanished"] == 0


def test_a_baseline_is_looked_at_before_the_work_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(VECTORS / "oam/golden_weights.oam", tmp_path / "good.oam")
    (tmp_path / "broken.jsonl").write_text("{")
    os.mkfifo(tmp_path / "pipe")
    own = tmp_path / "own.sqlite"
    for made in (False, True):
        for wrong in ("7", "9" * 30, *(str(tmp_path / name) for name in ("nothing", "broken.jsonl", "pipe", ""))):
            assert main(["audit", str(tmp_path / "good.oam"), "--db", str(own), "--baseline", wrong]) == 2, wrong
            assert capsys.readouterr().err.count("\n") == 1
        assert own.exists() == made
        record(own, result("/a"))
    with View(own) as there:
        assert there.run == 2  # those that were recorded here


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE counts",
        "DELETE FROM findings",
        "UPDATE runs SET scope = '{'",
        "UPDATE runs SET scope = '[1]'",
        f"UPDATE runs SET scope = '{'[' * 100_000}'",
        "UPDATE runs SET options = x'ff'",
        "UPDATE folders SET path = id",
        "UPDATE findings SET expected = x'ff'",
        "UPDATE findings SET expected = CAST(x'ff' AS TEXT)",
        "UPDATE results SET refused_for = x'ff00'",
        "UPDATE results SET verdict = 'X'",
        "UPDATE results SET format = 'X'",
        "UPDATE results SET size = 'X'",
        "UPDATE findings SET rule = 'X' || char(27), found = char(27) || char(10), expected = char(155), path = '=1'",
        "UPDATE counts SET rule = char(27) || rule",
        "UPDATE results SET format = char(27), digest = char(8238), verdict = char(27) || verdict",
        "UPDATE runs SET started = char(27), state = char(27)",
        "DROP TABLE findings; CREATE VIEW findings AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r)"
        " SELECT n AS result, n AS number, 'a' AS rule, 'a' AS severity, 1 AS offset, 1 AS length, '' AS path,"
        " '' AS found, '' AS expected, '' AS hint FROM r",
    ],
)
def test_a_database_that_no_audit_has_written(
    change: str, database: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It may say anything: then there is one line, and nothing that it says disturbs a terminal."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.executescript(change)
    for words in (*(["--format", kind] for kind in ("text", "jsonl", "csv", "html")), ["--json"], ["--baseline", "1"]):
        status = main(["audit", "report", "--db", str(database), *words])
        told = capsys.readouterr()
        assert status in (0, 1, 2)
        assert (status == 2) <= (told.err.count("\n") <= 1), told.err
        for text in (told.out, told.err):
            assert not any(disturbing(char) for char in text if char not in "\r\n"), words


def test_selections(database: Path) -> None:
    with View(database) as made:

        def names(only: str | None = None, rule: str | None = None) -> set[str]:
            return {os.path.basename(item.path) for item in made.results(only, rule)}

        assert names("refused") == {"bad", "gets-bad"}
        assert names("bad") == {"bad", "gets-bad", "comes-bad", "closed"}
        assert names("noncanonical") == names("old") == names("accepted") == {"good"}
        assert names("fixed") == {"gets-good"}
        assert names("newly-bad") == {"comes-bad", "gets-bad", "closed"}
        assert names("new") == {"comes", "text"}
        assert names(rule=RANGE) == {"bad", "gets-bad", "comes-bad"}
        assert names("refused", ORDER) == set()
        assert set().union(*(names(verdict) for verdict in VERDICTS)) == names()
        assert set(VERDICTS) <= set(SELECTIONS)
        for wrong in ({"only": "rotten"}, {"only": "vanished"}, {"rule": "OAM-NO-RULE"}):
            with pytest.raises(ArgumentError):
                list(made.results(**wrong))


def test_the_report_for_people(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with View(database) as made:
        text = "\n".join(text_lines(made, Style(io.StringIO())))
    for line in (
        "run 2, ",
        "of /data: 8 files, 700 bytes",
        "          2  refused     Readers must refuse it",
        "          1  of these are of an older version",
        "  safetensors file  6  600 bytes",
        f"  {RANGE}  reject     3 files  6 findings",
        f"  {ORDER}  canonical   1 file  2 findings\n",
        "  /data/b  2",
        "since run 1\n  2 new, 3 newly-bad, 1 fixed, 1 changed, 1 vanished",
        f"  /data/a/bad: refused\n      {RANGE} at byte 8, tensors['\\x1b']: found <b>12</b>, expected 13",
        "  /data/closed: unreadable (newly-bad)\n      Permission denied",
    ):
        assert line in text, line
    assert main(["audit", "report", "--db", str(database), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdicts"]["refused"] == 2
    assert told["changes"]["newly-bad"] == 3


HOSTILE = (
    "/d/\x1b[31m\n",
    "/d/\u202egnp.exe",
    "/d/<img src=x onerror=alert(1)>",
    "/d/\udcff\udcfe",
    "=1+1",
    "+2",
    "-3",
    "@x",
)


def hostile(tmp_path: Path) -> Path:
    found = [result(path if path.startswith("/") else f"/{path}", "refused", RANGE) for path in HOSTILE]
    found += [result("/d/note", "unreadable", message="=cmd()|'<script>'\x1b")]
    return record(tmp_path / "hostile.sqlite", *found)


def test_json_lines_lose_nothing(tmp_path: Path) -> None:
    with View(hostile(tmp_path)) as made:
        lines = [json.loads(line) for line in "".join(json_lines(made)).splitlines()]
    assert {line["path"] for line in lines} >= {path for path in HOSTILE if path.startswith("/")}
    assert lines[0]["findings"][0]["rule"] == RANGE
    assert lines[0]["counts"] == {RANGE: 2}


def test_csv_has_no_formulas_and_no_escapes(tmp_path: Path) -> None:
    with View(hostile(tmp_path)) as made:
        text = "".join(csv_lines(made))
    rows = list(csv.reader(io.StringIO(text)))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert {len(row) for row in rows} == {len(CSV_COLUMNS)}
    assert len(rows) == len(HOSTILE) + 2
    for row in rows:
        for cell in row:
            assert cell.isprintable()
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert "'=cmd()" in text
    assert "\\udcff\\udcfe" in text


def test_no_name_reaches_a_terminal_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = hostile(tmp_path)
    for options in ([], ["--format", "csv"], ["--json"], ["--format", "jsonl"], ["--only", "refused"]):
        assert main(["audit", "report", "--db", str(database), *options]) == 1
        told = capsys.readouterr()
        assert "\x1b" not in told.out + told.err
        assert "\u202e" not in told.out + told.err


def test_reports_are_written_to_files_but_never_over_the_database(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", "report", "--db", str(database)]
    for kind, start in {"text": "run 2", "jsonl": '{"path"', "csv": "path,", "html": "<!DOCTYPE html>"}.items():
        out = tmp_path / f"report.{kind}"
        assert main([*command, "--format", kind, "-o", str(out)]) == 1
        assert out.read_text().startswith(start)
    before = database.read_bytes()
    assert main([*command, "-o", str(database)]) == 2
    assert database.read_bytes() == before
    for wrong in (["--only", "rotten"], ["--rule", "X"], ["--json", "--format", "csv"], ["--run", "9"]):
        assert main([*command, *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 5
    with pytest.raises(SystemExit):
        main([*command, "--format", "pdf"])


def test_a_folder_called_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report").mkdir()
    Path("report", "a.oam").write_bytes(b"")
    assert main(["audit", "./report", "--db", str(database), "-j", "1", "--quiet"]) == 1


def test_the_command_tells_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree").mkdir()
    Path("tree", "a.oam").write_bytes(b"MAO\0")
    Path("tree", "b.txt").write_text("text")
    assert main(["audit", "tree", "nowhere", "-j", "1"]) == 1
    told = capsys.readouterr()
    assert told.err == f"ckptspec: {tmp_path}/nowhere: No such file or directory\n"
    assert told.out.endswith("3 examined, 0 unchanged; `ckptspec audit report` shows more\n")
    assert "tree/a.oam: refused" in told.out
    assert main(["audit", "tree", "nowhere", "-j", "1", "--baseline", "last", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["known"] == 2
    assert main(["audit", "tree", "--db", "other.sqlite", "--baseline", "9"]) == 2
    assert main(["audit", "tree", "--db", "no/such/folder.sqlite"]) == 2


def test_the_bar_is_shown_on_a_terminal_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_DELAY", 0.0)
    monkeypatch.setattr(showing, "_OFTEN", 0.0)
    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr("sys.stderr", stream)
        with showing.Shown([str(tmp_path)], [], [], 1) as shown:
            shown.begun(1)
            shown.examined(result("/a/bad", "refused", RANGE))
            for name in ("one\x1b", "two", "three"):
                shown.examined(result(f"/a/{name}", "unreadable", message="no"))
        told = stream.getvalue()
        assert ("1/1 files" in told) is terminal
        assert "ckptspec: /a/one\\x1b: no\n" in told
        assert told.endswith("ckptspec: 2 places more could not be looked at; the report has all of them\n")


def test_the_tables_are_as_declared(database: Path) -> None:
    connection = sqlite3.connect(database)
    for table in TABLES:
        there = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table.name})")]
        assert there == [(name, kind.split()[0]) for name, kind, _ in table.columns]
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()


# ------------------------------------------------------------------------------------------------------------ the page


def test_the_page_escapes_everything(tmp_path: Path) -> None:
    with View(hostile(tmp_path)) as made:
        text = render_html(made)
    assert "<img" not in text
    assert "<b>12" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "unsafe" not in text
    assert text.count("<script") == 3


def test_the_page_in_a_browser(view: Browsed, tmp_path: Path, database: Path) -> None:
    path = tmp_path / "report.html"
    with View(database) as made:
        path.write_text(render_html(made), "utf-8")
    page = view.open(path)
    assert "4 of 8 files need attention." in page.locator("#verdict").inner_text()
    rows = page.locator("#grid tr.case")
    assert rows.count() == 8
    page.get_by_label("Verdict").select_option("refused")
    assert page.locator("#shown").inner_text() == "2 of 8 files"
    rows.first.click()
    detail = page.locator("#detail")
    assert "/data/a/bad" in detail.inner_text()
    assert "<b>12</b>" in detail.inner_text()  # as text
    assert "null" not in detail.inner_text()
    page.keyboard.press("Escape")
    assert not detail.is_visible()
    rows.first.click()
    page.get_by_label("Verdict").select_option("other")  # which leaves out the file that is shown
    assert not detail.is_visible()
    assert rows.count() == 1
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Search names and faults").fill("COMES")
    assert rows.count() == 2
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Rule").fill(ORDER)
    assert rows.count() == 1
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="newly-bad").click()
    assert page.locator("#shown").inner_text() == "3 of 8 files"


def test_the_page_with_hostile_names_in_a_browser(view: Browsed, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with View(hostile(tmp_path)) as made:
        path.write_text(render_html(made), "utf-8")
    page = view.open(path)
    page.locator("#grid tr.case").nth(3).click()
    assert page.locator("#grid img, #detail img").count() == 0


def test_a_page_with_a_hundred_thousand_files_is_usable(view: Browsed, tmp_path: Path) -> None:
    database = tmp_path / "many.sqlite"
    with Store(database) as store:
        store.begin(SCOPE, {})
        for number in range(300):
            bad = number % 50 == 0
            store.add([result(f"/data/{number:06d}", *(("refused", RANGE) if bad else ()))], Options())
        store.end("finished")
    with View(database) as made:
        text = render_html(made)
    start, end = text.index('"rows":['), text.index('],"left_out"')
    rows = json.loads(text[start + 7 : end + 1])
    path = tmp_path / "report.html"
    many = ",".join(json.dumps([*row[:1], f"{row[1]}-{at}", *row[2:]]) for at in range(334) for row in rows)
    path.write_text(f"{text[:start]}{chr(34)}rows{chr(34)}:[{many}{text[end:]}", "utf-8")
    page = view.open(path)
    assert page.locator("#shown").inner_text() == "100,200 of 100,200 files"
    assert page.locator("#grid tr.case").count() < 100
    page.locator("#grid").focus()
    page.keyboard.press("End")
    assert page.locator("#grid tr[aria-selected=true] th").inner_text().startswith("000299-333")
    page.get_by_label("Search names and faults").fill("000050-33")
    assert page.locator("#shown").inner_text() == "5 of 100,200 files"
