"""Parsers compiled from the Kaitai Struct exports.

The compiler comes from npm, at the versions of ``tests/kaitai/package-lock.json``. It is kept in the user's cache, in a
folder named after the lock file, and installed under a lock that all processes share.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..spec import exports

__all__ = ["TOOLS", "MissingCompilerError", "compile_all", "descriptions", "python_parser", "require_tools", "run"]

TOOLS: Final = Path(__file__).parent / "tests" / "kaitai"


class MissingCompilerError(RuntimeError):
    """The compiler, or the runtime of a language, is not on this machine and cannot be installed."""


def descriptions() -> dict[str, str]:
    """Return the export of each format."""
    return {name: exports.export("kaitai", name) for name in exports.FORMATS}


def _cache() -> Path:
    lock = (TOOLS / "package-lock.json").read_bytes()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ckptspec" / f"kaitai-{hashlib.sha256(lock).hexdigest()[:16]}"


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str], directory: Path, input: str | None = None) -> str:
    """Run a program that may use the compiler in a directory; return what it prints. RuntimeError if it fails."""
    environment = {**os.environ, "NODE_PATH": str(_cache() / "node_modules")}
    done = subprocess.run(  # noqa: S603  # our own programs
        command, cwd=directory, input=input, capture_output=True, text=True, check=False, env=environment, timeout=240
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def _install(directory: Path) -> None:
    """Install the compiler; a folder of packages is there only once it is complete."""
    modules = directory / "node_modules"
    if modules.is_dir():
        return
    fresh = directory / f"install-{os.getpid()}"
    fresh.mkdir()
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(TOOLS / name, fresh / name)
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], fresh)
        (fresh / "node_modules").rename(modules)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def require_tools() -> None:
    """Make sure that the compiler is there, installing it if need be; MissingCompilerError if it cannot be."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise MissingCompilerError(f"there is no {program}")
    directory = _cache()
    try:
        with _locked(directory):
            _install(directory)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        raise MissingCompilerError(f"the compiler cannot be installed: {error}") from None


def compile_all(given: Mapping[str, str], directory: Path, *languages: str) -> Path:
    """Compile descriptions, which are given by format, in a directory; return it. MissingCompilerError as above."""
    require_tools()
    for name, text in given.items():
        (directory / f"{name}.ksy").write_text(text, "utf-8")
    run(["node", str(TOOLS / "compile.js"), ",".join(languages), *(f"{name}.ksy" for name in given)], directory)
    return directory


def python_parser(parsers: Path, format: str) -> Any:
    """Return the class of a compiled Python parser; MissingCompilerError where its runtime is not installed."""
    if importlib.util.find_spec("kaitaistruct") is None:
        raise MissingCompilerError("kaitaistruct is not installed")
    spec = importlib.util.spec_from_file_location(f"ckptspec_kaitai_{format}", parsers / "python" / f"{format}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return getattr(module, format.capitalize())
