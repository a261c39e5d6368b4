"""Parsers compiled from the Kaitai Struct exports, in JavaScript and in Python, and what they find in files.

The compiler comes from npm, at the versions of ``kaitai/package-lock.json``. It is kept in the user's cache, in a
folder named after the lock file, and installed under a lock that all test runs share.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import pytest

TOOLS: Final = Path(__file__).parent / "kaitai"
REQUIRED: Final = bool(os.environ.get("CKPTSPEC_REQUIRE_NODE"))
Tree = Any


def unavailable(reason: str) -> None:
    """Skip the test, or fail it where Node.js is required."""
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(f"{reason}; CKPTSPEC_REQUIRE_NODE=1 makes this a failure")


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


def _run(command: Sequence[str], directory: Path, input: str | None = None) -> str:
    environment = {**os.environ, "NODE_PATH": str(_cache() / "node_modules")}
    done = subprocess.run(
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
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], fresh)
        (fresh / "node_modules").rename(modules)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def tools() -> None:
    """Make sure that compiler and runtime are there; skips where they cannot be."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            unavailable(f"there is no {program}")
    directory = _cache()
    try:
        with _locked(directory):
            _install(directory)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        unavailable(f"the compiler cannot be installed: {error}")


def compile_all(descriptions: Mapping[str, str], directory: Path, *languages: str) -> Path:
    """Compile descriptions, which are given by format, in a directory; return it. Skips as ``tools`` does."""
    tools()
    for name, text in descriptions.items():
        (directory / f"{name}.ksy").write_text(text, "utf-8")
    _run(["node", str(TOOLS / "compile.js"), ",".join(languages), *(f"{name}.ksy" for name in descriptions)], directory)
    return directory


def run_node(source: str, arguments: Sequence[str], directory: Path) -> str:
    """Run a program that uses the compiler in a directory; return what it prints. Skips as ``tools`` does."""
    tools()
    (directory / "program.js").write_text(source, "utf-8")
    return _run(["node", "program.js", *arguments], directory)


# ----------------------------------------------------------------------------------------------------- what they find
#
# A tree has all that a parser offers: for a record a mapping of fields and instances, bytes by size and hash, integers
# as text, floats as the bits of a binary64 or "nan".


def in_javascript(parsers: Path, format: str, paths: Sequence[Path], *options: str) -> list[Tree]:
    """Return what the JavaScript parser finds in each file."""
    program = parsers / "javascript" / f"{format.capitalize()}.js"
    told = _run(["node", str(TOOLS / "read.js"), str(program), *options], parsers, "\n".join(map(str, paths)))
    return [json.loads(line) for line in told.split("\n") if line]


def in_python(parsers: Path, format: str, paths: Sequence[Path]) -> list[Tree]:
    """Return what the Python parser finds in each file."""
    parser = python_parser(parsers, format)
    return [_fields(parser.from_bytes(path.read_bytes())) for path in paths]


def python_parser(parsers: Path, format: str) -> Any:
    """Return the class of the Python parser; skips where its runtime is not installed."""
    pytest.importorskip("kaitaistruct")
    name = f"ckptspec_kaitai_{format}"
    spec = importlib.util.spec_from_file_location(name, parsers / "python" / f"{format}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return getattr(module, format.capitalize())


def _fields(value: Any) -> Tree:
    instances = [name for name, item in vars(type(value)).items() if isinstance(item, property)]
    names = [name for name in (*vars(value), *instances) if not name.startswith("_")]
    found = {name: _shown(_value(value, name)) for name in names}
    return {name: item for name, item in found.items() if item is not None}


def _value(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except UnicodeDecodeError:
        if name != "header_text":
            raise
        return None  # it is documented that a parser may refuse it


def _shown(value: Any) -> Tree:
    if hasattr(value, "_io"):  # a record
        return _fields(value)
    if isinstance(value, bytes):
        return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, float):
        return "nan" if value != value else str(struct.unpack(">Q", struct.pack(">d", value))[0])
    if isinstance(value, bool):
        return value
    if isinstance(value, int | IntEnum):
        return str(int(value))
    return value
