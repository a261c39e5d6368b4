"""The packaged smoke suite: does this installation work, on this machine, with this version of Python?

``python -m ckptspec.conformance.smoke`` needs what the package itself needs and nothing else. It imports all modules,
runs all golden files through the reference, reads back what it writes, and runs every verb of the command line. It
prints a line for each part, and exits with 0 if all is well, else with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import pkgutil
import platform
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, resources
from typing import Final

import numpy as np

import ckptspec

from ..cli import build_parser
from ..text import count, shorten
from .catalogue import MANIFEST, load_suite
from .operations import call, expected_status, run, verb_of
from .outcome_report import FAILED
from .runner import Options, Runner, reference_decoder, reference_encoder

__all__ = ["Check", "Part", "environment", "main", "try_part", "verbs"]

_NAME: Final = "ckptspec"
_TESTS: Final = f"{_NAME}.conformance.tests"
_EXTRAS: Final = ("fast", "remote", "cluster")  # the others are for development
_SHOWN: Final = 20  # faults of a part that are printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one part of the smoke suite found: what was looked at, and what is wrong, if anything."""

    name: str
    summary: str
    faults: tuple[str, ...] = ()


Check = Callable[[], tuple[str, list[str]]]


# ---------------------------------------------------------------------------------------------------------------- parts


def _distribution() -> tuple[str, list[str]]:
    """Compare what the installation says of itself with the code; say so if the code is not installed."""
    try:
        found = metadata.distribution(_NAME)
    except metadata.PackageNotFoundError:
        return "not installed, run from its folder", []
    faults = []
    if found.version != ckptspec.__version__:
        faults.append(f"the version is {found.version} to installers, {ckptspec.__version__} to programs")
    commands = {entry.name: entry for entry in found.entry_points if entry.group == "console_scripts"}
    if _NAME not in commands or not callable(commands[_NAME].load()):
        faults.append(f"there is no command {_NAME}")
    if not resources.files(_NAME).joinpath("py.typed").is_file():
        faults.append("py.typed is missing")
    if not list((MANIFEST.parent / "schemas").glob("*.schema.json")):
        faults.append("the JSON Schemas are missing")
    return f"version {found.version}", faults


def _modules() -> tuple[str, list[str]]:
    """Import every module; only what extras bring may be missing."""
    extras: set[str] | None = None  # unknown where the package is not installed
    with contextlib.suppress(metadata.PackageNotFoundError):
        extras = {_module(line) for line in metadata.requires(_NAME) or () if "extra ==" in line}
    faults: list[str] = []
    without: set[str] = set()
    done = 0
    for name in _names():
        try:
            importlib.import_module(name)
            done += 1
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing == _NAME or (extras is not None and missing not in extras):
                faults.append(f"{name}: {error}")
            without.add(missing)
    rest = f"; without {', '.join(sorted(without))}" if without else ""
    return f"{count(done, 'module')}{rest}", faults


def _names() -> Iterator[str]:
    for module in pkgutil.walk_packages(ckptspec.__path__, f"{_NAME}."):
        if not module.name.startswith(_TESTS) and not module.name.endswith("__main__"):
            yield module.name


def _module(requirement: str) -> str:
    """Return the name of the module that a requirement brings: the same, but for the hyphens."""
    name = re.match(r"[\w.-]+", requirement)
    return name[0].replace("-", "_").lower() if name else ""


def _golden_files() -> tuple[str, list[str]]:
    """Run the suite against the reference."""
    runner = Runner(
        load_suite(), decoder=reference_decoder(), encoder=reference_encoder(), options=Options(jobs=1, strict=True)
    )
    done = runner.run()
    if done.smoke is not None:
        return "the smoke case failed", list(done.smoke.lines())
    faults = [
        f"{result.direction} {result.case}: {result.happened}" for result in done.results if result.status == FAILED
    ]
    return f"{count(len(done.results), 'case')}", faults


def _operations() -> tuple[str, list[str]]:
    """Run every verb, and read back what was saved."""
    faults: list[str] = []
    number, used = 0, {"save", "schema"}
    for name, outcome in run():
        number += 1
        used.add(verb_of(name))
        if outcome.status != expected_status(name):
            told = shorten(outcome.complaints.decode(errors="replace").strip())
            faults.append(f"{_NAME} {name}: exit status {outcome.status}, expected {expected_status(name)}: {told}")
        for path, content in outcome.files.items():
            faults += _read_back(path, content) if name == "save" and path.startswith(("plain.", "odd.")) else ()
    faults += [f"no operation uses {verb}" for verb in sorted(verbs() - used)]
    return f"{count(number, 'operation')}", faults


def verbs() -> set[str]:
    """Return the verbs of the command line."""
    actions = build_parser()._actions
    return {verb for action in actions if isinstance(action, argparse._SubParsersAction) for verb in action.choices}


def _read_back(path: str, content: bytes) -> Iterator[str]:
    if ckptspec.dumps(ckptspec.load(path)) != content:
        yield f"{path}: loaded and written again it is another file"
    if ckptspec.encode(ckptspec.decode(content)) != content:
        yield f"{path}: decoded and encoded it is another file"
    if not ckptspec.validate(path).canonical:
        yield f"{path}: what was written is not canonical"


def _complaints() -> tuple[str, list[str]]:
    """Ask for what there is not."""
    asked = {"validate nowhere.oam": 2, "explain NO-SUCH-RULE": 2, "export kaitai --format png": 2}
    found = {words: call(words.split()) for words in asked}
    faults = [
        f"{_NAME} {words}: exit status {status}, said {complaints!r}"
        for words, (status, _, complaints) in found.items()
        if status != asked[words] or complaints.count(b"\n") != 1 or not complaints.startswith(b"ckptspec: ")
    ]
    return f"{count(len(asked), 'mistake')}", faults


_PARTS: Final[dict[str, Check]] = {
    "distribution": _distribution,
    "modules": _modules,
    "golden files": _golden_files,
    "operations": _operations,
    "mistakes": _complaints,
}


# -------------------------------------------------------------------------------------------------------------- running


def try_part(name: str, check: Check) -> Part:
    """Run a part in a folder of its own, warnings being errors; whatever is raised is a fault."""
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder, contextlib.chdir(folder):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                summary, faults = check()
        except Exception as error:  # whatever it is, the other parts can still tell something
            summary, faults = "stopped", [f"{type(error).__name__}: {error}"]
    return Part(name=name, summary=summary, faults=tuple(faults))


def environment() -> str:
    """Return what the parts ran on, in one line: all versions that a report of a fault should name."""
    return (
        f"ckptspec {ckptspec.__version__}, {platform.python_implementation()} {platform.python_version()}, "
        f"{', '.join(_versions())}, {platform.machine()}, {sys.byteorder}-endian"
    )


def _versions() -> Iterator[str]:
    """Yield the versions of the packages that this one needs, and of those of its extras that are installed."""
    try:
        requirements = metadata.requires(_NAME) or []
    except metadata.PackageNotFoundError:
        yield f"numpy {np.__version__}"
        return
    for line in requirements:
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"](\w+)['\"]", line)
        if name and name[0] != _NAME and (extra is None or extra[1] in _EXTRAS):
            with contextlib.suppress(metadata.PackageNotFoundError):
                yield f"{name[0]} {metadata.version(name[0])}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the smoke suite; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m ckptspec.conformance.smoke", description="Try this installation.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    parts = [try_part(name, check) for name, check in _PARTS.items()]
    failed = [part for part in parts if part.faults]
    if options.json:
        print(json.dumps({"environment": environment(), "parts": [asdict(part) for part in parts]}, indent=2))
    else:
        _print(parts)
    return 1 if failed else 0


def _print(parts: Sequence[Part]) -> None:
    print(environment())
    for part in parts:
        print(f"{'FAILED' if part.faults else 'ok':6} {part.name}: {part.summary}")
        for fault in part.faults[:_SHOWN]:
            print(f"       {ascii(fault)[1:-1]}")
        if len(part.faults) > _SHOWN:
            print(f"       and {len(part.faults) - _SHOWN} more")
    print("all is well" if not any(part.faults for part in parts) else "something is wrong")


if __name__ == "__main__":
    sys.exit(main())
