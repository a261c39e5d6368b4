"""The verb that goes from one format to another: convert."""

from __future__ import annotations

import argparse

from .. import convert as conversions
from ..errors import ArgumentError
from ..progress import meter
from ..publish import writable
from ..text import count, printable
from ..urls import shown_url
from .io import open_argument, print_json, tell, would_overwrite

__all__ = ["convert"]


def convert(args: argparse.Namespace) -> int:
    """Convert a file; 0 once it is written, 1 if it is refused."""
    try:
        target_format = conversions.format_for(args.target, args.to)
    except ArgumentError as error:
        tell(f"{printable(args.target)}: {error}")
        return 2
    if args.lossy and args.source != "-" and would_overwrite(args.source, args.target, "SRC and DST"):
        return 2
    with open_argument(args.source) as source, meter(2 * source.size, "convert"):
        if not args.dry_run:
            writable(args.target)
        plan = conversions.plan(source, to=target_format)
        made = plan.conversion
        good = made.lossless or args.lossy
        if good and not args.dry_run:
            plan.write(args.target, lossy=args.lossy)
    if args.json:
        written = good and not args.dry_run
        print_json({"source": shown_url(args.source), "target": args.target, "written": written, **made.to_json()})
    else:
        _tell(args, made, good)
    return 0 if good else 1


def _tell(args: argparse.Namespace, made: conversions.Conversion, good: bool) -> None:
    """Print what was done, kept and lost."""
    doing = {
        "rewrite": "rewritten in canonical layout",
        "restore": f"the {made.original_format} original that the {made.source_format} file carried",
        "carry": f"converted from {made.original_format} to {made.target_format}",
    }[made.kind]
    name = printable(args.target)
    if good:
        done = "would be written" if args.dry_run else "written"
        print(f"{name}: {done}: {count(made.tensors, 'tensor')}, {doing}")
    else:
        things = count(len(made.losses), "thing")
        print(f"{name}: refused: {made.target_format} cannot hold {things}; nothing was written")
    for loss in made.losses:
        print(f"  {'lost' if good else 'cannot'}: {loss}")
    for item in made.carried if good else ():
        print(f"  kept: {item}")
