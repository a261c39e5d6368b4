"""The page of ``inspect --html`` in a browser: it opens, sorts, searches, shows findings, and runs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckptspec import dumps, safetensors
from ckptspec.conformance.tests.browser import View, chromium, view
from ckptspec.conformance.tests.test_html_inspect import NAMES, hostile_file, model
from ckptspec.html.inspection import inspection
from ckptspec.source import BufferSource
from ckptspec.text import printable

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["chromium", "view"]  # fixtures

MANY = 10_000


def write(path: Path, data: bytes) -> Path:
    path.write_text(inspection(BufferSource(data, "model"))[0], "utf-8")
    return path


@pytest.fixture
def page(view: View, tmp_path: Path) -> Page:
    return view.open(write(tmp_path / "a.html", dumps(model())))


@pytest.fixture
def damaged(view: View, tmp_path: Path) -> Page:
    data = bytearray(dumps(model()))
    at = data.index(b"broken") + 136  # its byte count, after name and offset
    data[at] ^= 4
    return view.open(write(tmp_path / "a.html", bytes(data)))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(1).standard_normal((MANY, 4)).astype(np.float32)
    tensors = {f"layers.{at}.weight": values[at] for at in range(MANY)}
    data = dumps(safetensors.TensorFile(tensors=tensors))
    return write(tmp_path_factory.mktemp("many") / "a.html", data)


def names(page: Page) -> list[str]:
    return page.locator("#tensors-view tbody tr th > button").all_inner_texts()


def column(page: Page, number: int) -> Locator:
    return page.locator(f"#tensors-view tbody tr td:nth-child({number})")


# -------------------------------------------------------------------------------------------------------------- tensors


def test_the_table_is_sorted_by_a_click_and_by_the_keyboard(page: Page) -> None:
    in_file = names(page)
    page.get_by_role("button", name="bytes", exact=True).click()
    sizes = [int(text.replace(",", "")) for text in column(page, 6).all_inner_texts()]
    assert sizes == sorted(sizes)
    head = page.locator("#tensors-view").get_by_role("columnheader", name="name", exact=True)
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert names(page) == sorted(in_file)
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert names(page) == sorted(in_file, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


def test_numbers_are_sorted_as_numbers_and_what_is_missing_comes_last(page: Page) -> None:
    page.get_by_role("button", name="min", exact=True).click()
    assert names(page)[0] == "big"
    assert names(page)[-1] == "none"
    page.get_by_role("button", name="min", exact=True).click()
    assert names(page)[-1] == "none"


def test_the_search_needs_all_words(page: Page) -> None:
    page.get_by_label("Search").fill("OPTIM moment")
    assert names(page) == ["first_moment", "second_moment"]
    assert page.locator("#tensors-view [role=status]").inner_text() == "1 to 2 of 2 that match, 8 in all"
    page.get_by_label("Search").fill("nothing like this")
    assert names(page) == []


def test_a_tensor_shows_its_statistics_and_leads_to_its_bytes(page: Page) -> None:
    row = page.locator("tr[data-tensor='1']")
    assert row.locator("td").all_inner_texts()[6:11] == ["-3", "1", "-1", "1", "2"]
    assert row.locator("svg.histogram path").get_attribute("d")
    row.get_by_role("button", name="broken").press("Enter")
    details = page.locator("tr.more")
    assert "-3 to 1" in details.inner_text()
    details.get_by_role("button", name="Show its bytes").click()
    assert "weights[1].data" in page.get_by_role("tooltip").inner_text()
    row.get_by_role("button", name="broken").click()
    assert details.count() == 0


# ----------------------------------------------------------------------------------------------------------- map, bytes


def test_the_map_is_walked_and_magnified_by_the_keyboard(page: Page) -> None:
    page.get_by_role("application").focus()
    details = page.locator("#map-details")
    page.keyboard.press("ArrowRight")
    assert details.inner_text().strip().startswith("header: bytes 0 to 63 (0x0), 64 bytes")
    page.keyboard.press("ArrowRight")
    assert "section table" in details.inner_text()
    page.keyboard.press("End")
    assert "progress" in details.inner_text()
    before = page.evaluate("views.map.window()")
    page.keyboard.press("+")
    after = page.evaluate("views.map.window()")
    assert after["to"] - after["from"] == pytest.approx((before["to"] - before["from"]) / 2)
    page.keyboard.press("0")
    assert page.evaluate("views.map.window().from") == 0
    page.keyboard.press("Enter")
    assert "progress.phase" in page.get_by_role("tooltip").inner_text()


def test_the_map_is_drawn_and_a_click_selects(page: Page) -> None:
    strip = page.get_by_role("application")
    colours = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 40, c.width, 1).data.buffer)).size"
    assert strip.evaluate(colours) >= 4
    box = strip.bounding_box()
    assert box is not None
    page.get_by_role("button", name="weights payloads").click()
    strip.click(position={"x": box["width"] / 2, "y": 40})
    assert "in weights payloads" in page.locator("#map-details").inner_text()


def test_bytes_explain_themselves_to_the_keyboard(page: Page) -> None:
    bytes_ = page.get_by_role("listbox")
    tip = page.get_by_role("tooltip")
    assert not tip.is_visible()
    bytes_.focus()
    page.keyboard.press("ArrowRight")
    assert "header.magic" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    text = tip.inner_text()
    assert "header.version u32" in text
    assert "\n3\n" in text.replace("\n\n", "\n")
    assert "Format version, 1 to 3; writers write 3." in text
    assert "bytes 4 to 7 (0x4), 4 bytes" in text
    chosen = page.locator(f"#{bytes_.get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-label") == (
        "header.version = 3, u32, 4 bytes at 4. Format version, 1 to 3; writers write 3."
    )
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.get_by_label("Go to").fill("0x0c")
    page.keyboard.press("Enter")
    assert "header.flags" in tip.inner_text()
    page.get_by_label("Go to").fill("weights[1].shape")
    page.keyboard.press("Enter")
    assert "[5, 0, 0, 0, 0, 0, 0, 0]" in tip.inner_text()


def test_bytes_explain_themselves_to_the_pointer(page: Page) -> None:
    page.locator("#field-2").hover()
    assert "header.section_count" in page.get_by_role("tooltip").inner_text()
    page.get_by_role("heading", name="Bytes").hover()
    assert not page.get_by_role("tooltip").is_visible()


# -------------------------------------------------------------------------------------------------------- damaged files


def test_a_finding_is_shown_everywhere(damaged: Page) -> None:
    card = damaged.locator("#findings-list .card", has_text="OAM-TEN-BYTES")
    assert "20, as dense f32 of shape [5] takes" in card.inner_text()
    assert "MUST" in card.inner_text()
    row = damaged.locator("tr[data-tensor='1']")
    assert "OAM-TEN-BYTES" in row.inner_text()
    assert "its bytes do not fit its shape" in row.inner_text()
    card.get_by_role("button", name="Show the bytes").click()
    assert "OAM-TEN-BYTES" in damaged.get_by_role("tooltip").inner_text()
    assert damaged.locator(".cells .bad-byte").all_inner_texts() == ["10 00 00", "00 00 00 00 00"]
    card.get_by_role("button", name="Show on the map").click()
    assert "OAM-TEN-BYTES" in damaged.locator("#map-details").inner_text()
    card.get_by_role("button", name="Show the tensor").click()
    assert "OAM-TEN-BYTES" in damaged.locator("tr.more").inner_text()
    damaged.get_by_label("only those with findings").check()
    assert "broken" in names(damaged)
    assert "big" not in names(damaged)


def test_a_file_of_no_known_format(view: View, tmp_path: Path) -> None:
    page = view.open(write(tmp_path / "a.html", b"<html><script>alert(1)</script></html>"))
    assert "ANY-FILE-FORMAT" in page.locator("#findings-list").inner_text()
    assert "There are none" in page.locator("#tensors-view").inner_text()
    page.get_by_role("listbox").focus()
    page.keyboard.press("ArrowRight")
    assert "unexplained" in page.get_by_role("tooltip").inner_text()


def test_an_empty_file(view: View, tmp_path: Path) -> None:
    page = view.open(write(tmp_path / "a.html", b""))
    page.get_by_role("application").press("ArrowRight")
    page.get_by_role("listbox").press("ArrowRight")
    assert "The file is empty." in page.locator("#map-details").inner_text()


# -------------------------------------------------------------------------------------------------------- many, hostile


def test_ten_thousand_tensors_are_few_elements_and_answer_at_once(view: View, many: Path) -> None:
    page = view.open(many)
    elements = "document.getElementsByTagName('*').length"
    assert page.evaluate(elements) < 6000
    taken = page.evaluate("""() => {
        const start = performance.now();
        [...document.querySelectorAll('th button')].find((item) => item.textContent === 'mean').click();
        const box = document.getElementById('tensor-search');
        box.value = '99';
        box.dispatchEvent(new Event('input'));
        return performance.now() - start;
    }""")
    assert taken < 3000  # milliseconds, on a machine that does much else
    assert len(names(page)) == 100
    assert all("99" in name for name in names(page))
    page.get_by_label("Search").fill("layers.9999.")
    assert names(page) == ["layers.9999.weight"]
    page.get_by_role("button", name="layers.9999.weight").click()
    page.get_by_role("button", name="Show its bytes").click()
    assert "'layers.9999.weight'.data" in page.get_by_role("tooltip").inner_text()
    page.evaluate("document.querySelector('.hex').scrollTop = 100000")
    page.wait_for_timeout(100)
    assert page.evaluate(elements) < 6000
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Next").click()
    assert "101 to 200 of 10,000" in page.locator("#tensors-view [role=status]").inner_text()


@pytest.mark.parametrize("place", ["names", "metadata", "training", "config"])
def test_nothing_that_stands_in_a_file_runs(view: View, tmp_path: Path, place: str) -> None:
    page = view.open(write(tmp_path / "a.html", hostile_file(place, NAMES)))
    for button in page.locator("#tensors-view th > button").all()[:2]:
        button.click()
    for role in ("listbox", "application"):
        page.get_by_role(role).focus()
        for _ in range(12):
            page.keyboard.press("ArrowRight")
    text = page.locator("main").inner_text()
    assert not set("\u202e\x1b\u2028\u2029") & set(text)
    assert page.title() == "model - ckptspec"
    assert page.evaluate("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert page.evaluate("document.scripts.length") == 6
    for name in NAMES:
        assert printable(name)[:30] in text


def test_light_and_dark_and_a_narrow_window(page: Page, view: View) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Switch to dark colours").press("Enter")
    assert page.evaluate(colour) != light
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
