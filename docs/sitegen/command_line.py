"""The page on the command line: generated from the parser, with examples that are run when the page is made."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from unittest import mock

import numpy as np

import ckptspec
from ckptspec import cli
from ckptspec.neutral import dump_json
from ckptspec.oam import Config, Model, Optimizer, Progress
from ckptspec.ocannl import Context, Registry

from .markdown import code, fence, literal, table

__all__ = ["EXAMPLES", "command_line", "verbs_of"]

# What is run for each verb, after what came before; "..." at the end keeps so many lines of the output.
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "validate": ("validate model.oam", "validate broken.oam"),
    "inspect": ("inspect model.oam", "inspect --hex --only config model.oam"),
    "explain": ("explain OAM-SEC-OVERLAP",),
    "decode": ("decode --indent weights.ckpt",),
    "encode": ("encode document.json model2.oam",),
    "salvage": ("salvage broken.oam saved.oam",),
    "canonicalize": ("canonicalize old.oam new.oam",),
    "quantize": ("quantize model.oam small.oam q8",),
    "metadata": ("metadata --set step=13 weights.safetensors", "metadata weights.safetensors"),
    "convert": ("convert model.oam model.safetensors", "convert --dry-run small.oam small.ckpt"),
    "diff": ("diff model.oam model.safetensors", "diff model.oam small.oam"),
    "digest": ("digest model.oam",),
    "vectors": ("vectors list --rule OAM-SEC-OVERLAP", "vectors export vectors --format safetensors"),
    "conform": ("conform --filter 'oam/golden_dtype_*'",),
    "audit": ("audit --quiet .", "audit --baseline last ."),
    "audit report": ("audit report --only refused",),
    "export": ("export json formats.json", "export c --format safetensors"),
    "matrix": ("conform --filter oam/golden_dtype_f32 --name one --json one.json", "matrix one.json"),
}
_MOST: Final = 24  # lines of output that are shown
_WIDTH: Final = "100"  # columns of the terminal
_LONGEST: Final = 160  # characters of a line of output
_FIRST: Final = ("quantize", "convert")  # their examples make files for those of others


@cache
def verbs_of() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return each verb with its summary and its parser."""
    return _choices(cli.build_parser())


def _choices(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return what a parser has parsers of their own for, each with its summary."""
    made: dict[str, tuple[str, argparse.ArgumentParser]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            made |= {item.dest: (str(item.help), action.choices[item.dest]) for item in action._choices_actions}
    return made


def _usage(parser: argparse.ArgumentParser) -> str:
    with mock.patch.dict(os.environ, {"COLUMNS": _WIDTH, "NO_COLOR": "1"}):
        words = parser.format_usage().removeprefix("usage: ").replace("\n" + " " * len("usage: "), "\n")
    return fence("text", words)


def _arguments(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        name = action.metavar or (action.dest if not action.option_strings else action.dest.upper())
        shown = str(name) if isinstance(name, str) else " ".join(name)
        if action.choices and not action.metavar:
            shown = "{" + ",".join(map(str, action.choices)) + "}"
        if action.option_strings:
            takes = action.nargs != 0
            shown = ", ".join(f"{option} {shown}" if takes else option for option in action.option_strings)
        told = (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""
        rows.append([code(shown), literal(told)])
    return table(("argument", "meaning"), rows)


def _model() -> Model:
    generator = np.random.default_rng(0)
    weights = {
        "embedding": generator.normal(0, 0.02, (16, 8)).astype(np.float32),
        "head": generator.normal(0, 0.3, (8, 4)).astype(np.float32),
    }
    moments = np.zeros(16 * 8 + 8 * 4, np.float32)
    return Model(
        config=Config(architecture="demo", d_model=8, d_vocab=16),
        weights=weights,
        optimizer=Optimizer(step=12, first_moment=moments, second_moment=moments),
        progress=Progress(step=12),
    )


def _make_files() -> None:
    """Make the files of the examples in the current directory."""
    ckptspec.save("model.oam", _model())
    damaged = bytearray(Path("model.oam").read_bytes())
    damaged[4800] ^= 0x40
    Path("broken.oam").write_bytes(damaged)
    Path("old.oam").write_bytes(ckptspec.dumps(_model(), version=1))
    small = Model(config=Config(architecture="tiny"))
    Path("document.json").write_text(dump_json(ckptspec.decode(ckptspec.dumps(small))), "utf-8")
    ckptspec.safetensors.save("weights.safetensors", {"w": np.ones(2, np.float32)}, {"step": "12", "note": "the best"})
    registry = Registry()
    node = registry.create((2,), label=["w"])
    context = Context({node: np.array([0.5, -2], np.float32)}, registry=registry)
    ckptspec.ocannl.save(context, [node], "weights.ckpt")


def _run(command: str) -> tuple[int, list[str]]:
    """Run a command in this process; return its exit status and what it printed."""
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = cli.main(shlex.split(command))
        except SystemExit as end:  # the parser's way to refuse
            status = int(end.code or 0)
    printed.flush()
    return status, printed.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]


@cache
def examples() -> dict[str, list[tuple[str, int, list[str]]]]:
    """Run the examples; return, for each verb, command, exit status and output."""
    there = [verb for verb in verbs_of() if verb in EXAMPLES]
    made: dict[str, list[tuple[str, int, list[str]]]] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"COLUMNS": _WIDTH, "NO_COLOR": "1"}):
        os.chdir(folder)
        try:
            _make_files()
            for verb in [*_FIRST, *(verb for verb in there if verb not in _FIRST)]:
                made[verb] = [(command, *_run(command)) for command in EXAMPLES[verb]]
        finally:
            os.chdir(before)
    return made


def _shown(verb: str) -> Iterator[str]:
    lines = []
    for command, status, output in examples().get(verb, ()):
        lines.append(f"$ ckptspec {command}")
        lines += [line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..." for line in output[:_MOST]]
        if len(output) > _MOST:
            lines.append(f"... {len(output) - _MOST} more lines")
        if status:
            lines.append(f"(exit status {status})")
    if lines:
        yield from ("", fence("console", "\n".join(lines)))


def command_line() -> str:
    """Return the page."""
    parser = cli.build_parser()
    rows = [
        [f"[{verb}](#ckptspec-{verb.replace(' ', '-')})", literal(summary)] for verb, (summary, _) in verbs_of().items()
    ]
    parts = [
        "# The command line",
        "",
        f"{parser.description} This page is generated from the program's own parser (`ckptspec VERB --help` says the "
        "same), and its examples are run when the site is built.",
        "",
        table(("verb", "what it does"), rows),
        "",
        "## For all verbs",
        "",
        "- What a file is, is told from its content. `-` is standard input where a verb reads one file.",
        "- Every verb that prints for people prints JSON with `--json`.",
        "- Names from files are shown escaped, whatever is in them.",
        "- A file is written as a whole or not at all: "
        "[how files are written](formats/README.md#how-files-are-written).",
        "",
        "### Exit status",
        "",
        table(("status", "meaning"), [[code(status), meaning] for status, meaning in _statuses(parser)]),
    ]
    for verb, (summary, inner) in verbs_of().items():
        parts += [
            "",
            f"## ckptspec {verb}",
            "",
            literal(summary),
            "",
            _usage(inner),
            "",
            *_usages(f"ckptspec {verb}", inner),
            literal(inner.epilog or parser.epilog or ""),
            *_shown(verb),
        ]
    return "\n".join(parts) + "\n"


def _usages(command: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield what a parser takes, and what those take that it hands over to."""
    inner = _choices(parser)
    if not inner:
        yield from (_arguments(parser), "")
    for name, (summary, taken) in inner.items():
        yield from (f"### {command} {name}", "", literal(summary), "", _usage(taken), "", _arguments(taken), "")


def _statuses(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the exit statuses that the parser's epilog tells, and those of signals."""
    told = (parser.epilog or "").removeprefix("Exit status: ").rstrip(".")
    yield from re.findall(r"(\d+) ([^;,]*)", told)
    yield "130", "interrupted"
    yield "141", "whoever read the output stopped reading"
