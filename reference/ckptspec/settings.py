"""The environment variables that choose how something is computed; none changes a result."""

from __future__ import annotations

import os

from .errors import SettingError
from .text import show

__all__ = ["setting"]


def setting(name: str, *values: str) -> str:
    """Return the value of an environment variable, "" if it is not set; SettingError if it is not among ``values``."""
    value = os.environ.get(name, "")
    if value and value not in values:
        raise SettingError(f"found {show(value)}, expected {', '.join(values[:-1])} or {values[-1]}", name)
    return value
