"""The matrices of the reference and of the adapters that the tests have: pages of their own beside the site's."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .case_pages import rule_page

__all__ = ["publish_matrices"]

_EXAMPLES: Final = "ckptspec.conformance.matrix_examples"


def publish_matrices(site: Path) -> None:
    """Write the pages below the site, if the package can make them; rules lead to the pages of the formats."""
    if find_spec(_EXAMPLES) is None:
        return
    for path, html in importlib.import_module(_EXAMPLES).pages(lambda rule: f"../{rule_page(rule, built=True)}"):
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(html, "utf-8")
