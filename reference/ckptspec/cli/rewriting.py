"""Verbs that write a new file from an old one, or change one: salvage, canonicalize, quantize, metadata."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from .. import oam, safetensors, save
from ..findings import Report
from ..formats import format_of, module_of
from ..oam._model import QuantizingMap
from ..progress import meter
from ..publish import writable
from ..quantization import Quantization
from ..terminal import Style, columns
from ..text import count, printable
from ..urls import shown_url
from .io import open_argument, print_json, shown, tell, would_overwrite

__all__ = ["canonicalize", "metadata", "quantize", "salvage"]


def salvage(args: argparse.Namespace) -> int:
    """Write what survives; 0 once it is written, 1 if nothing could be."""
    if would_overwrite(args.source, args.target, "SRC and DST"):
        return 2
    with open_argument(args.source) as source, meter(2 * source.size, "salvage"):
        writable(args.target)
        model, survivors, report = module_of(format_of(source)).salvage(source, args.intact_only)
        save(args.target, model)
    states: dict[str, int] = {}
    for item in survivors:
        states[item.state] = states.get(item.state, 0) + 1
    if args.json:
        parts = [item.to_json() for item in survivors]
        print_json({"source": shown_url(args.source), "target": args.target, "damaged": not report.ok, "parts": parts})
        return 0
    name = printable(args.target)
    if report.ok:
        print(f"{name}: written; nothing was damaged{_left_out(report)}")
        return 0
    print(f"{name}: written; of its parts {', '.join(f'{states[key]} {key}' for key in states)}")
    rows = [
        [
            f"  {item.state}",
            f"{item.path} '{printable(item.name)}'" if item.what == "tensor" else item.path,
            printable(item.reason),
        ]
        for item in survivors
        if item.state != "intact"
    ]
    print(*columns(rows), sep="\n")
    if states.get("unverified"):
        print(
            Style(sys.stdout).dim("  unverified: readable, but a byte of its section is wrong, and none can say which")
        )
    return 0


def _left_out(report: Report) -> str:
    """Return what of a good file is not in the new one, since readers ignore it."""
    ignored = [item for item in report.findings if item.rule.endswith(("-UNKNOWN", "-REPEATED"))]
    if not ignored:
        return ""
    told = ", ".join(f"{item.path}: {item.found}" for item in ignored[:5])
    more = f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""
    return f"; left out was what readers ignore: {told}{more}"


def canonicalize(args: argparse.Namespace) -> int:
    """Rewrite a file in the newest version and canonical layout."""
    # The source stays open: then what is written is read from it, and one that shrinks is an error and no signal.
    with open_argument(args.source) as source, meter(2 * source.size, "canonicalize"):
        writable(args.target)
        model = module_of(format_of(source)).read(source)
        save(args.target, model)
    version = getattr(model, "version", None)  # safetensors files have none
    told = "rewritten" if version is None else f"rewritten from version {version}"
    return _written(args, source.size, {"from_version": version}, told)


def quantize(args: argparse.Namespace) -> int:
    """Quantize the weights of a file."""
    if would_overwrite(args.source, args.target, "SRC and DST"):
        return 2
    with open_argument(args.source) as source, meter(source.size, "quantize"):
        writable(args.target)
        model = module_of(format_of(source)).read(source)
        if not isinstance(model, oam.Model):
            tell(f"{shown(args.source)}: only .oam files hold quantized weights")
            return 1
        made = oam.quantize(model, args.encoding)
        save(args.target, made)
    assert isinstance(made.weights, QuantizingMap)  # asking it for a weight would quantize that once more
    kept = sum(1 for _, value in made.weights.pending() if not isinstance(value, Quantization))
    done = len(made.weights) - kept
    dropped = "; the optimizer is dropped" if model.optimizer is not None else ""
    facts = {"quantized": done, "kept": kept, "optimizer_dropped": model.optimizer is not None}
    return _written(args, source.size, facts, f"{count(done, 'weight')} as {args.encoding}, {kept} kept{dropped}")


def metadata(args: argparse.Namespace) -> int:
    """Show the metadata of a safetensors file, or change it."""
    from ..safetensors import edit_metadata

    changes: dict[str, str | None] = dict.fromkeys(args.delete)
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            tell(f"{printable(pair)}: expected KEY=VALUE")
            return 2
        changes[key] = value
    in_place = None
    if changes or args.clear:
        in_place = edit_metadata(
            args.file, changes or None, replace=args.clear, reserve=args.reserve, in_place=not args.anew
        )
    with open_argument(args.file) as source:
        if format_of(source) != "safetensors":
            tell(f"{shown(args.file)}: only safetensors files have metadata")
            return 1
        found = safetensors.anatomy_of(source).metadata
    if args.json:
        how = None if in_place is None else "in place" if in_place else "rewritten"
        print_json({"file": shown_url(args.file), "written": how, "metadata": found})
        return 0
    if in_place is not None:
        print(f"{printable(args.file)}: {'changed in place' if in_place else 'written anew'}")
    rows = [[f"  {printable(key)}", printable(value)] for key, value in (found or {}).items()]
    print(*columns(rows) if rows else ["  no metadata" if found is None else "  metadata without keys"], sep="\n")
    return 0


def _written(args: argparse.Namespace, before: int, facts: dict[str, Any], line: str) -> int:
    after = os.stat(args.target).st_size
    if args.json:
        sizes = {"source_size": before, "target_size": after}
        print_json({"source": shown_url(args.source), "target": args.target, **sizes, **facts})
    else:
        print(f"{printable(args.target)}: {line}; {before} bytes before, {after} now")
    return 0
