"""Runs a command in a process of its own, with bounds that the system keeps, and measures it."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
import tempfile
from typing import Final

from .run import Told, call

__all__ = ["call_forked"]

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE


def call_forked(words: list[str], stdin: bytes, *, seconds: float, memory: int | None) -> Told:
    """Run the command line in a fork of this process; ``seconds`` and ``memory`` (bytes) are what it may take at most.

    ``memory`` of the result is what it took beyond what this process has.
    """
    before = _resident()
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if not child:
            status = 1
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
                if memory is not None:
                    data = before + memory
                    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
                pickle.dump(call(words, stdin, seconds=seconds), file)
                file.flush()
                status = 0
            finally:
                os._exit(status)
        _, ended, usage = os.wait4(child, 0)
        if ended:
            code = os.waitstatus_to_exitcode(ended)
            told = Told(trouble=f"ended by {signal.Signals(-code).name}" if code < 0 else "ended without an answer")
        else:
            file.seek(0)
            told = pickle.load(file)  # noqa: S301  # by ourselves, from a file without a name
    told.seconds = usage.ru_utime + usage.ru_stime
    told.memory = max(0, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) - before)
    return told
