"""A browser for tests of HTML pages: fixtures to import, and what a page did while it was open.

It is the system's Chromium that is driven, never one that a test tool downloads. Where there is none, the tests are
skipped; with ``CKPTSPEC_REQUIRE_BROWSER=1`` in the environment they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["View", "chromium", "view"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _without(reason: str) -> None:
    if os.environ.get("CKPTSPEC_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Give a running browser, one for all tests of a file."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        _without("there is no Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("there is no playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()


class View:
    """An open page. ``errors`` are its messages and exceptions, ``requests`` the addresses that it asked for."""

    def __init__(self, browser: Browser, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path) -> Page:
        """Open a file and return its page."""
        self.page.goto(path.as_uri())
        return self.page

    def check_quiet(self) -> None:
        """Assert that the page said nothing, ran nothing that it should not, and asked for nothing but itself."""
        assert self.errors == []
        assert self.requests
        assert all(url.startswith("file:///") for url in self.requests)
        assert len(self.requests) == 1

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def view(chromium: Browser) -> Iterator[View]:
    """Give a page of 1280 by 800 pixels, light; when the test is done, assert that it was quiet."""
    made = View(chromium, viewport={"width": 1280, "height": 800}, color_scheme="light")
    yield made
    try:
        made.check_quiet()
    finally:
        made.close()
