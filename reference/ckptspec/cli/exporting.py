"""The verb that prints the specification for other languages and tools."""

from __future__ import annotations

import argparse
import sys

from ..publish import publishing
from ..spec import exports
from ..text import printable
from .io import tell

__all__ = ["export"]


def export(args: argparse.Namespace) -> int:
    """Print an export, or write it to a file; 2 if the format is unknown."""
    if args.format is not None and args.format not in exports.FORMATS:
        told = f"unknown format '{printable(args.format)}', expected one of {', '.join(exports.FORMATS)}"
        tell(told)
        return 2
    text = exports.export(args.kind, args.format)
    if args.output == "-":
        sys.stdout.write(text)
        return 0
    with publishing(args.output) as draft:
        draft.write(text.encode())
    return 0
