"""Verbs of the conformance suite: vectors, conform and matrix."""

from __future__ import annotations

import argparse

from ..spec.rules import RULES
from ..terminal import columns
from ..text import count, printable
from .io import print_json, tell

__all__ = ["conform", "matrix", "vectors"]


def conform(args: argparse.Namespace) -> int:
    """Run the suite."""
    from ..conformance.runner import main

    return main(args)


def matrix(args: argparse.Namespace) -> int:
    """Show implementations side by side."""
    from ..conformance.matrix_command import main

    return main(args)


def vectors(args: argparse.Namespace) -> int:
    """List or export golden files."""
    from ..conformance.catalogue import load_suite

    suite = load_suite()
    known = {
        "format": {case.format for case in suite.cases},
        "rule": set(RULES),
        "tag": {tag for case in suite.cases for tag in case.tags},
    }
    for name, names in known.items():
        asked = getattr(args, name)
        if asked is not None and asked not in names and asked.upper() not in names:
            tell(f"unknown {name} '{printable(asked)}'")
            return 2
    cases = [
        case
        for case in suite.cases
        if args.format in (None, case.format)
        and args.verdict in (None, case.verdict)
        and (args.rule is None or args.rule.upper() in case.rules)
        and (args.tag is None or args.tag in case.tags)
    ]
    if args.action == "export":
        if not args.directory:
            tell("the name of the folder is empty")
            return 2
        from ..conformance.export import export

        export(cases, args.directory)
        print(f"{printable(args.directory)}: {count(len(cases), 'case')}, manifest.json and the JSON Schemas")
    elif args.json:
        print_json([case.to_json() for case in cases])
    else:
        rows = [[case.id, case.verdict, ",".join(case.rules) or "-", case.title] for case in cases]
        print(*columns(rows), sep="\n")
        print(count(len(cases), "case"))
    return 0
