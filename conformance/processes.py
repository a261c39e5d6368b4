"""Child processes of a run: started in sessions of their own, bounded in time and output, and never left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, Final

from ..errors import CheckpointError
from ..text import printable
from .outcome_report import FLOOD, TIMEOUT

__all__ = ["ANSWERED", "ENDED", "STDERR_LIMIT", "AdapterError", "Child", "Processes"]

STDERR_LIMIT: Final = 65536  # bytes; of what is longer, the end is kept
_POLL: Final = 0.01  # seconds between two looks whether a process has ended while its pipes are open
ENDED: Final = "ended"
ANSWERED: Final = "answered"


class AdapterError(CheckpointError):
    """A command cannot be run at all: it is the environment that is wrong, not the implementation."""


class Child:
    """A running command and what it has printed."""

    def __init__(self, words: list[str], stdin: int | IO[bytes]) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        try:
            self._process = subprocess.Popen(  # noqa: S603  # to run the command given is what this is for
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._selector.close()
            raise AdapterError(f"cannot run {printable(words[0])}: {error.strerror or error}") from None
        for pipe, text in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, text)

    def send(self, line: bytes) -> None:
        """Write to standard input. That the command does not read it shows in its answer."""
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._process.stdin.fileno(), line)

    def close_stdin(self) -> None:
        """Let the command see the end of its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, deadline: float, limit: int, *, for_line: bool = False) -> str:
        """Read until the command has ended, or until it has answered with a line; return what happened first."""
        while True:
            if for_line and b"\n" in self.stdout:
                return ANSWERED
            if len(self.stdout) > limit:
                return FLOOD
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return TIMEOUT
            open_pipes = self._read(min(remaining, _POLL))
            if self._has_ended():
                # What is left in the pipes was written before the end. Something that left the group may hold them
                # open for ever, so this does not wait for their ends.
                self.signal_group()
                while len(self.stdout) <= limit and time.monotonic() < deadline and self._read(0):
                    pass
                if len(self.stdout) > limit:
                    return FLOOD
                return ANSWERED if for_line and b"\n" in self.stdout else ENDED
            if not open_pipes:
                time.sleep(_POLL / 10)

    def _read(self, patience: float) -> bool:
        """Read once from each pipe that has something; return whether it is worth to try again at once."""
        if not self._selector.get_map():
            return False
        ready = self._selector.select(patience)
        for key, _ in ready:
            try:
                chunk = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            if not chunk:
                self._selector.unregister(key.fd)
            key.data.extend(chunk)
        del self.stderr[:-STDERR_LIMIT]
        return bool(ready) if patience == 0 else True

    def _has_ended(self) -> bool:
        # Left a zombie until it is closed, so that the number of its group cannot pass to another process.
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def signal_group(self) -> None:
        """Kill the command and all that it started."""
        with suppress(ProcessLookupError, PermissionError):  # the latter is what macOS says of a zombie
            os.killpg(self._process.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Kill what is left, free everything, and return the exit status (negative: the signal)."""
        self.signal_group()
        status = self._process.wait()
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return status


class Processes:
    """The processes of one run. Leaving the ``with`` block, for whatever reason, kills those that are still alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[Child] = set()
        self.stopped = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, words: list[str], stdin: int | IO[bytes]) -> Child:
        """Start a command; AdapterError if it cannot be run."""
        with self._lock:
            if self.stopped:
                raise AdapterError("the run was stopped")
            child = Child(words, stdin)
            self._alive.add(child)
            return child

    def end(self, child: Child) -> int:
        """Kill a command if it still runs; return its exit status."""
        with self._lock:  # first out of reach of stop(): once reaped, its number may belong to another process
            self._alive.discard(child)
        return child.reap()

    def stop(self) -> None:
        """Start nothing more, and kill all that runs. Those who wait for a process see it end."""
        with self._lock:
            self.stopped = True
            for child in self._alive:
                child.signal_group()
