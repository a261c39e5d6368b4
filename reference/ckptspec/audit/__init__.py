"""Audits: many files, examined in parallel, with results that are kept.

``audit`` examines everything below some places and records the results in a database, ``results`` reads them. What
``ckptspec audit report`` shows comes from ``View``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .verdicts import BAD, VERDICTS

if TYPE_CHECKING:
    from .check import Examined, Job, Options
    from .executors import Batch, Executor, Processes
    from .running import Run, Watcher, audit
    from .views import Result, View, results

__all__ = [
    "BAD",
    "VERDICTS",
    "Batch",
    "Examined",
    "Executor",
    "Job",
    "Options",
    "Processes",
    "Result",
    "Run",
    "View",
    "Watcher",
    "audit",
    "results",
]

_LATE = {
    "check": ("Examined", "Job", "Options"),
    "executors": ("Batch", "Executor", "Processes"),
    "running": ("Run", "Watcher", "audit"),
    "views": ("Result", "View", "results"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():  # a worker needs neither the database nor what reads it
        if name in names:
            import importlib

            return getattr(importlib.import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
