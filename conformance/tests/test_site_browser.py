"""The site in a browser: what people do with it that needs its scripts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from ckptspec.conformance.tests.browser import View, chromium
from ckptspec.conformance.tests.test_site import pytestmark, site

__all__ = ["chromium", "pytestmark", "site"]

WORDS = (*ascii_lowercase, "oam", "OAM", "optimizer", "safetensors", "OAM-SEC-OVERLAP", "checksum")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Give the address at which the site is served: the search works over HTTP only."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_search_finds_words_and_their_beginnings(address: str, chromium: Any) -> None:
    """An index of many long terms made the search fail for the beginnings of some of them."""
    view = View(chromium)
    page = view.page
    page.goto(f"{address}/index.html")
    found = page.locator(".md-search-result__meta")
    for word in WORDS:
        page.click(".md-search__input")
        page.fill(".md-search__input", "")
        page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.startsWith('Type')")
        page.keyboard.type(word)
        page.wait_for_function("!document.querySelector('.md-search-result__meta').innerText.startsWith('Type')")
        assert "matching document" in found.inner_text(), word
        assert not found.inner_text().startswith("No "), word
    assert view.errors == []
    assert all(url.startswith(f"{address}/") for url in view.requests)
    view.close()
