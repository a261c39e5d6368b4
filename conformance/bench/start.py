"""How long it takes to import the package, and to decode a small file from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ..catalogue import VECTORS, load_suite
from .timing import Row, command_seconds

__all__ = ["rows"]


def rows() -> Iterator[Row]:
    """Measure whole processes."""
    small = str(VECTORS / load_suite().case("oam/golden_all_sections").file)
    times = command_seconds(
        {
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import ckptspec": [sys.executable, "-c", "import ckptspec"],
            "ckptspec decode": [sys.executable, "-m", "ckptspec", "decode", small],
        }
    )
    base = times["import numpy"]
    yield Row("start", "import numpy", base)
    for name, target in (("import ckptspec", 1.8), ("ckptspec decode", 2.5)):
        yield Row("start", name, times[name], "", times[name] / base, "import numpy", "<=", target)
