"""What parsers compiled from the Kaitai Struct exports, in JavaScript and in Python, find in files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import pytest

from ckptspec.conformance import kaitai
from ckptspec.conformance.kaitai import TOOLS

REQUIRED: Final = bool(os.environ.get("CKPTSPEC_REQUIRE_NODE"))
Tree = Any


@contextmanager
def compiler() -> Iterator[None]:
    """Skip the test if it cannot have the compiler, or fail it where Node.js is required."""
    try:
        yield
    except kaitai.MissingCompilerError as error:
        if REQUIRED:
            pytest.fail(str(error))
        pytest.skip(f"{error}; CKPTSPEC_REQUIRE_NODE=1 makes this a failure")


def compile_all(descriptions: Mapping[str, str], directory: Path, *languages: str) -> Path:
    """Compile descriptions, which are given by format, in a directory; return it. Skips without the compiler."""
    with compiler():
        return kaitai.compile_all(descriptions, directory, *languages)


def run_node(source: str, arguments: Sequence[str], directory: Path) -> str:
    """Run a program that uses the compiler in a directory; return what it prints. Skips without the compiler."""
    with compiler():
        kaitai.require_tools()
    (directory / "program.js").write_text(source, "utf-8")
    return kaitai.run(["node", "program.js", *arguments], directory)


# ----------------------------------------------------------------------------------------------------- what they find
#
# A tree has all that a parser offers: for a record a mapping of fields and instances, bytes by size and hash, integers
# as text, floats as the bits of a binary64 or "nan".


def in_javascript(parsers: Path, format: str, paths: Sequence[Path], *options: str) -> list[Tree]:
    """Return what the JavaScript parser finds in each file."""
    program = parsers / "javascript" / f"{format.capitalize()}.js"
    told = kaitai.run(["node", str(TOOLS / "read.js"), str(program), *options], parsers, "\n".join(map(str, paths)))
    return [json.loads(line) for line in told.split("\n") if line]


def in_python(parsers: Path, format: str, paths: Sequence[Path]) -> list[Tree]:
    """Return what the Python parser finds in each file."""
    parser = python_parser(parsers, format)
    return [_fields(parser.from_bytes(path.read_bytes())) for path in paths]


def python_parser(parsers: Path, format: str) -> Any:
    """Return the class of the Python parser; skips where its runtime is not installed."""
    with compiler():
        return kaitai.python_parser(parsers, format)


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
