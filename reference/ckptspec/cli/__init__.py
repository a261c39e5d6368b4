"""The command line: ``ckptspec VERB ...``.

Exit status: 0 all good; 1 a file was refused or differs; 2 usage or environment. What a verb needs is imported when the
verb runs, so that a small file is decoded in little more than the time that numpy takes to start.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from .. import __version__
from ..errors import CheckpointError, SettingError
from ..text import harmless, printable
from ..urls import scrubbed, shown_again

__all__ = ["EXPORTS", "build_parser", "main"]

_EPILOG = "Exit status: 0 all good, 1 a file was refused or differs, 2 usage or environment."


class _Parser(argparse.ArgumentParser):
    """A parser whose messages may be shown: words that nobody knows are often names of files, or addresses.

    It does not keep silent if its help cannot be printed.
    """

    def error(self, message: str) -> NoReturn:
        super().error(scrubbed(harmless(message)))

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.nargs is None and arg_strings == ["--"]:  # --option=--, or a file of this name; else taken for []
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def build_parser(verb_given: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; the documentation is generated from it.

    The arguments of ``conform`` and ``matrix`` come from the runner, which takes a while to import: they are left out
    where another verb is given.
    """
    parser = _Parser(
        prog="ckptspec", description="Read, write, check, explain and compare training checkpoints.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"ckptspec {__version__}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)

    def verb(name: str, run: str, summary: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=summary, description=summary, epilog=_EPILOG)
        made.set_defaults(run=run)
        return made

    _add_looking(verb)
    _add_documents(verb)
    _add_rewriting(verb)
    _add_converting(verb)
    _add_comparing(verb)
    _add_exporting(verb)
    _add_auditing(verb)
    _add_suite(verb, verb_given)
    return parser


Adder = Callable[[str, str, str], argparse.ArgumentParser]


def _add_looking(verb: Adder) -> None:
    made = verb("validate", "looking:validate", "Report everything that is wrong with files.")
    made.add_argument("files", nargs="+", metavar="FILE", help="a file; - is standard input")
    made.add_argument("--strict", action="store_true", help="fail on canonical findings too")
    made.add_argument("--format", help="do not recognise the format, take this one")
    made.add_argument("--structure-only", action="store_true", help="read no payloads and verify no checksum of one")
    made.add_argument("--quiet", "-q", action="store_true", help="only say which files are refused")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = verb("inspect", "looking:inspect", "Show what is in a file, as far as it can be read.")
    made.add_argument("file", metavar="FILE", help="a file; - is standard input")
    made.add_argument("--hex", action="store_true", help="show the bytes, field by field")
    made.add_argument("--only", metavar="PATH", default="", help="with --hex: only fields whose path begins so")
    made.add_argument("--structure-only", action="store_true", help="read no payloads and verify no checksum of one")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--html", metavar="OUT", help="write an HTML page that needs no other file; - is standard output")
    made.add_argument("--no-values", action="store_true", help="with --html: no statistics, read no payloads")

    made = verb("explain", "looking:explain", "Explain a rule, or list all of them.")
    made.add_argument("rule", nargs="?", metavar="RULE", help="an id such as OAM-SEC-OVERLAP; none: list them")
    made.add_argument("--json", action="store_true", help="print JSON")


def _add_documents(verb: Adder) -> None:
    made = verb("decode", "documents:decode", "Print the neutral document of a file as JSON.")
    made.add_argument("file", nargs="?", default="-", metavar="FILE", help="a file; - (the default) is standard input")
    made.add_argument("--batch", action="store_true", help="read paths, one a line, and print one JSON line for each")
    made.add_argument("--indent", action="store_true", help="print JSON for people")

    made = verb("encode", "documents:encode", "Write the file that a neutral document describes.")
    made.add_argument("document", nargs="?", default="-", metavar="DOCUMENT", help="a JSON file; - is standard input")
    made.add_argument("output", nargs="?", default="-", metavar="FILE", help="where to; - is standard output")


def _add_rewriting(verb: Adder) -> None:
    made = verb("salvage", "rewriting:salvage", "Write what survives in a damaged file into a new valid one.")
    made.add_argument("source", metavar="SRC", help="a damaged file")
    made.add_argument("target", metavar="DST", help="the file to write")
    made.add_argument("--intact-only", action="store_true", help="leave out what no checksum proves")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = verb("canonicalize", "rewriting:canonicalize", "Rewrite a file in the newest version and canonical layout.")
    made.add_argument("source", metavar="SRC", help="a file that readers accept")
    made.add_argument("target", metavar="DST", help="the file to write")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = verb("quantize", "rewriting:quantize", "Quantize the f32 weights of rank 2 and more; drops the optimizer.")
    made.add_argument("source", metavar="SRC", help="an .oam file")
    made.add_argument("target", metavar="DST", help="the file to write")
    made.add_argument("encoding", choices=("q4", "q8"), help="4 or 8 bits an element")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = verb("metadata", "rewriting:metadata", "Show or change the metadata of a safetensors file.")
    made.add_argument("file", metavar="FILE", help="a safetensors file; it is changed only if an option asks for it")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key; may be repeated")
    made.add_argument("--delete", action="append", default=[], metavar="KEY", help="remove a key; may be repeated")
    made.add_argument("--clear", action="store_true", help="remove all other metadata first")
    made.add_argument("--anew", action="store_true", help="write the file anew even if the change has room in place")
    made.add_argument("--reserve", type=int, default=0, metavar="BYTES", help="leave room in a header written anew")
    made.add_argument("--json", action="store_true", help="print JSON")


def _add_converting(verb: Adder) -> None:
    made = verb("convert", "converting:convert", "Convert a file to another format; nothing is lost, or it is refused.")
    made.add_argument("source", metavar="SRC", help="a file; - is standard input")
    made.add_argument("target", metavar="DST", help="its extension tells the format: .oam, .ckpt, .safetensors")
    made.add_argument("--to", metavar="FORMAT", help="the format, whatever the extension: oam, ocannl, safetensors")
    made.add_argument("--lossy", action="store_true", help="give up what the target cannot hold, and say what")
    made.add_argument("--dry-run", action="store_true", help="say what would be kept and lost, write nothing")
    made.add_argument("--json", action="store_true", help="print JSON")


def _add_comparing(verb: Adder) -> None:
    made = verb("diff", "comparing:diff", "Compare the tensors and facts of two files of any formats.")
    made.add_argument("one", metavar="A", help="a file; - is standard input")
    made.add_argument("other", metavar="B", help="a file; - is standard input")
    made.add_argument("--only", metavar="GLOB", action="append", help="only tensors of such a name; may be repeated")
    made.add_argument("--names-only", action="store_true", help="compare names, dtypes and shapes; read no values")
    made.add_argument("--atol", type=float, default=0.0, metavar="X", help="elements no further apart are equal")
    made.add_argument("--rtol", type=float, default=0.0, metavar="X", help="the same, relative to the larger one")
    made.add_argument("--ulp", type=int, default=0, metavar="N", help="the same, in representable floats")
    made.add_argument("--ignore-dtype", action="store_true", help="the same values in another dtype are equal")
    made.add_argument("--no-facts", action="store_true", help="compare only tensors, as --only does")
    made.add_argument("--verify", action="store_true", help="check the checksums of .oam payloads first")
    made.add_argument("--json", action="store_true", help="print JSON")

    made = verb("digest", "comparing:digest", "Print digests of what is in a file, however it is stored.")
    made.add_argument("file", metavar="FILE", help="a file; - is standard input")
    kind = made.add_mutually_exclusive_group()
    kind.add_argument("--manifest", metavar="OUT", help="write the digests to a file; implies --verify")
    kind.add_argument("--check", metavar="MANIFEST", help="compare the file with its manifest")
    made.add_argument("--tensors-only", action="store_true", help="with --check: facts do not count")
    made.add_argument("--verify", action="store_true", help="check the checksums of .oam payloads first")
    made.add_argument("--json", action="store_true", help="print JSON")


def _add_exporting(verb: Adder) -> None:
    made = verb("export", "exporting:export", "Print the formats for other languages and tools.")
    # Parsers of their own: an optional name after an option is not found where another argument stands before it.
    names = ", ".join(kind for kind, _, _ in EXPORTS)
    kinds = made.add_subparsers(title="for", dest="kind", metavar="KIND", required=True, help=names)
    for kind, summary, default in EXPORTS:
        one = kinds.add_parser(kind, help=summary, description=summary, epilog=_EPILOG)
        one.add_argument("output", nargs="?", default="-", metavar="OUT", help="where to; - (the default) is stdout")
        one.add_argument("--format", help=f"oam, ocannl or safetensors; {default} unless told otherwise")


EXPORTS = (
    ("kaitai", "A Kaitai Struct description of a format.", "oam"),
    ("imhex", "A pattern for the hex editor ImHex.", "oam"),
    ("c", "A header for C and C++.", "all of them"),
    ("json", "The whole specification as JSON.", "all of them"),
)


def _add_auditing(verb: Adder) -> None:
    from .auditing import add_arguments

    add_arguments(
        verb("audit", "auditing:audit", "Examine all files in folders, in parallel, and keep the results."),
        verb("audit report", "auditing:report", "Report on what an audit has found."),
    )


def _words(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line, those of a verb of two words as one."""
    words = list(argv)
    return ["audit report", *words[2:]] if words[:2] == ["audit", "report"] else words


def _add_suite(verb: Adder, verb_given: str | None) -> None:
    made = verb("vectors", "suite:vectors", "List the golden files of the conformance suite, or export them.")
    actions = made.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for action, summary in (("list", "Print a table of the cases."), ("export", "Write the cases' files.")):
        one = actions.add_parser(action, help=summary, description=summary, epilog=_EPILOG)
        if action == "export":
            one.add_argument("directory", metavar="DIR", help="where to")
        one.add_argument("--format", help="only this format")
        one.add_argument("--rule", help="only cases of this rule")
        one.add_argument("--tag", help="only cases with this tag")
        one.add_argument("--verdict", choices=("valid", "invalid", "acceptable"), help="only cases of this verdict")
        if action == "list":
            one.add_argument("--json", action="store_true", help="print JSON")

    made = verb("conform", "suite:conform", "Run the conformance suite against an implementation.")
    if verb_given in (None, "conform"):
        from ..conformance.runner import add_arguments

        add_arguments(made)

    made = verb(
        "matrix", "suite:matrix", "Show several implementations side by side, or what each reads of the others."
    )
    if verb_given in (None, "matrix"):
        from ..conformance.matrix_command import add_arguments

        add_arguments(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    if sys.stderr is None:  # closed by the caller; no file that is opened later must get its number
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        print("ckptspec: standard output is closed", file=sys.stderr)
        return 2
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no reason to stop
    status = _run(argv)
    try:
        sys.stdout.flush()
    except OSError:  # which was told already; the interpreter would tell it once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _run(argv: Sequence[str] | None) -> int:
    """Run a verb; return the exit status. All that it prints was written when that is 0."""
    try:
        words = _words(sys.argv[1:] if argv is None else argv)
        try:
            args = build_parser(words[0] if words else "").parse_args(words)
        except SystemExit:  # help, or usage
            sys.stdout.flush()
            raise
        module, function = args.run.split(":")
        status: int = getattr(importlib.import_module(f".{module}", __package__), function)(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        return 141  # as if the signal had ended the program
    except KeyboardInterrupt:
        print("ckptspec: interrupted", file=sys.stderr)
        return 130
    except CheckpointError as error:
        print(f"ckptspec: {error}", file=sys.stderr)
        return 2 if isinstance(error, SettingError) else 1
    except MemoryError:
        print("ckptspec: there is not enough memory", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"ckptspec: {os_error(error)}", file=sys.stderr)
        return 2
    return status


def os_error(error: OSError) -> str:
    """Return an error of the system as one plain line, without escapes and secrets of addresses."""
    name = (shown_again(error.filename) or "''") if isinstance(error.filename, str) else None
    what = scrubbed(" ".join(harmless(error.strerror or str(error)).splitlines()))
    if name is None and error.errno in _FULL:  # whatever else is written to tells its name
        name = "standard output"
    return f"{printable(name)}: {what}" if name else what
