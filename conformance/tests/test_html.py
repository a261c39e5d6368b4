"""The shell of HTML pages: nothing that stands in a file can become markup or script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptspec.conformance.tests.browser import View, chromium, view
from ckptspec.html import embed, page, resource, safe

__all__ = ["chromium", "view"]  # fixtures

HOSTILE = (
    "</script><script>document.title='run'</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "\u202ealert\x1b[31m\x00",
    "\u2028\u2029\ud800",
    "]]>&amp;\"'`",
)


class Reader(HTMLParser):
    """Collects the elements of a page, and the texts of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside].append(data)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_names_the_pages_own_scripts_and_styles_and_nothing_else() -> None:
    read = Reader(page("t", "<p>b</p>", data={"a": HOSTILE}, script=["one();", "two();"], styles="p { color: red; }"))
    policies = [attrs["content"] for tag, attrs in read.elements if attrs.get("http-equiv")]
    assert len(policies) == 1
    assert policies[0] is not None
    policy = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
    data, *scripts = read.texts["script"]
    assert policy == {
        "default-src": "'none'",
        "style-src": " ".join(map(digest, read.texts["style"])),
        "script-src": " ".join(map(digest, scripts)),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert json.loads(data) == {"a": list(HOSTILE)}
    assert scripts[1:] == ["one();", "two();"]
    assert not [attrs for _, attrs in read.elements for name in attrs if name in ("src", "style") or name[:2] == "on"]


@pytest.mark.parametrize("name", ["shell.js", "style.css"])
def test_resources_neither_end_their_element_nor_name_a_host(name: str) -> None:
    text = resource(name).replace("http://www.w3.org/2000/svg", "")
    assert "</" not in text
    assert "<!--" not in text
    assert "\r" not in text
    assert not re.search(r"https?:|@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


@given(st.text(st.characters(codec=None)))  # lone surrogates too
def test_embedded_data_are_what_they_were_and_hold_no_markup(text: str) -> None:
    made = embed({text: [text]})
    assert made.isascii()
    assert not set("<>&") & set(made)
    assert json.loads(made) == {text: [text]}


def test_embedding_refuses_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        embed([float("nan")])


def test_text_in_markup_is_escaped_twice() -> None:
    assert safe("<b>\u202e\x1b&") == "&lt;b&gt;\\u202e\\x1b&amp;"


def test_the_shell_in_a_browser(view: View, tmp_path: Path) -> None:
    text = page(HOSTILE[0], f"<h2 id='a'>{safe(HOSTILE[2])}</h2>", data=HOSTILE, contents=[("a", HOSTILE[1])])
    (tmp_path / "a.html").write_text(text, "utf-8")
    opened = view.open(tmp_path / "a.html")
    assert opened.title() == HOSTILE[0]
    assert opened.evaluate("ckptspec.data") == [*HOSTILE]
    assert opened.evaluate("document.querySelectorAll('img').length") == 0
    light = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.get_by_role("button", name="Switch to dark colours").focus()
    opened.keyboard.press("Enter")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") != light
    opened.reload()
    view.requests.pop()
    assert opened.evaluate("ckptspec.isDark()")  # it is remembered
    opened.emulate_media(color_scheme="dark")
    opened.get_by_role("button", name="Switch to light colours").click()
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_scripts_and_styles_that_the_policy_does_not_name_do_not_run(chromium: object, tmp_path: Path) -> None:
    text = page("t", "<p style='color: red'>b</p><script>document.title = 'run'</script><img src=x onerror='alert(1)'>")
    (tmp_path / "a.html").write_text(text, "utf-8")
    view = View(chromium)  # type: ignore[arg-type]
    try:
        opened = view.open(tmp_path / "a.html")
        assert opened.title() == "t"
        assert len(view.errors) == 4  # style, script, image, and what the image was to run when it failed
        assert all("Content Security Policy" in error for error in view.errors)
    finally:
        view.close()
