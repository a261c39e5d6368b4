"""Code that numba compiles: from when on it is taken, and what is done if it cannot be.

Importing numba takes a good part of a second, and compiling takes seconds, once on a machine (numba keeps the code on
disk). So compiled code is used only after this process has done so much with numpy that it would have paid from the
start: less if compiled code is on disk. So it never makes a first run slower by more than the time it takes to
compile. The logger of the module that it belongs to warns when it compiles. If numba is there and does not work, one
RuntimeWarning says so, and numpy goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from .text import printable

__all__ = ["Compiled", "jit"]

Engine = TypeVar("Engine")
Function = TypeVar("Function", bound=Callable[..., Any])


class Compiled(ABC, Generic[Engine]):
    """An engine that numba compiles, from the moment when it pays.

    ``kept`` is how the names of numba's index files for it begin, ``noun`` what it computes, ``instead`` what numpy
    does without it. It is loaded after ``loading`` bytes if compiled code is on disk, else after ``compiling`` bytes.
    """

    def __init__(self, kept: str, noun: str, instead: str, *, loading: int, compiling: int) -> None:
        self._names = kept, noun, instead
        self._limits = loading, compiling
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._failed = False
        self._done = 0
        self._pays: int | None = None

    def announce(self, size: int) -> None:
        """Count bytes before they come."""
        self._done = max(self._done, size)

    def engine(self, size: int, *, at_once: bool) -> Engine | None:
        """Return the compiled engine for another ``size`` bytes, or None if it is too early or does not work."""
        if self._engine is not None or self._failed:
            return self._engine
        self._done += size
        if not at_once:
            loading, compiling = self._limits
            if self._done < loading:
                return None
            if self._pays is None:
                self._pays = loading if self._on_disk() else compiling
            if self._done < self._pays:
                return None
        if not self._lock.acquire(blocking=at_once):  # another thread is at it; numpy does for this one
            return None
        try:
            if self._engine is None and not self._failed:  # another thread may have been faster
                self._engine = self._load(at_once)
                self._failed = self._engine is None
        finally:
            self._lock.release()
        return self._engine

    @abstractmethod
    def _checked(self) -> Engine:
        """Import and compile, and compare with numpy: ImportError without numba, ArithmeticError if it is wrong."""

    def _on_disk(self) -> bool:
        """Tell whether numba seems to have kept compiled code at one of the places where it does."""
        from pathlib import Path

        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        chosen = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(caches, "numba")
        folders = [Path(__file__).parent / "__pycache__", *Path(chosen).glob("*")]
        return any(any(folder.glob(f"{self._names[0]}*.nbi")) for folder in folders)

    def _load(self, wanted: bool) -> Engine | None:
        """Import and compile; whatever goes wrong here must not stop the work."""
        _, noun, instead = self._names
        try:
            if sys.byteorder != "little":
                raise ImportError(f"the compiled {noun} is for little-endian processors")
            if not self._on_disk():
                import logging  # late, as is pathlib: nearly no program comes here

                logging.getLogger(type(self).__module__).warning("compiling the faster %s, once on this machine", noun)
            return self._checked()
        except ImportError as error:
            if wanted:
                warnings.warn(f"no numba, so numpy {instead} ({printable(str(error))})", RuntimeWarning, stacklevel=2)
            return None
        except Exception as error:
            warnings.warn(f"numba fails, so numpy {instead} ({printable(str(error))})", RuntimeWarning, stacklevel=2)
            return None


def jit(function: Function) -> Function:
    """Compile at the first call; keep the code on disk for the next process, where there is a place for it."""
    numba: Any = import_module("numba")
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # nowhere to write
        return cast(Function, numba.njit(**options)(function))
