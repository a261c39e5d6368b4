"""Verbs that look at files and change nothing: validate, inspect, explain."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..findings import Finding, Report
from ..formats import FORMATS, module_of, recognise, report_on, unrecognised
from ..progress import meter
from ..regions import hex_dump
from ..source import Source
from ..spec.rules import CANONICAL, REJECT, RULES, UPSTREAM, Rule
from ..terminal import Style, columns, wrapped
from ..text import count, printable, shorten, show
from ..urls import shown_url
from . import os_error
from .io import open_argument, print_json, shown, tell, would_overwrite
from .parts import print_parts

__all__ = ["explain", "inspect", "print_report", "validate"]

_COLOUR = {REJECT: "red", CANONICAL: "yellow", "note": "cyan"}


# ------------------------------------------------------------------------------------------------------------- validate


def validate(args: argparse.Namespace) -> int:
    """Look at every file, whatever is wrong with others; 2 if one could not be read, else 1 if one was refused."""
    if args.format is not None and args.format not in FORMATS:
        tell(f"unknown format {show(args.format)}, expected one of {', '.join(FORMATS)}")
        return 2
    counts = {"files": len(args.files), "accepted": 0, "refused": 0, "not_canonical": 0, "unreadable": 0}
    results: list[dict[str, Any]] = []
    style = Style(sys.stdout)
    for name in args.files:
        try:
            report = _report(name, args.format, not args.structure_only)
        except OSError as error:
            counts["unreadable"] += 1
            results.append({"file": shown_url(name), "error": os_error(error)})
            tell(os_error(error))
            continue
        counts["accepted" if report.ok else "refused"] += 1
        counts["not_canonical"] += report.ok and not report.canonical
        results.append(report.to_json())
        if not args.json:
            print_report(report, style, args.quiet, args.strict)
    if args.json:
        print_json({"files": results, "counts": counts})
    elif len(args.files) > 1:
        print(_summary(counts, args.strict))
    if counts["unreadable"]:
        return 2
    return 1 if counts["refused"] or (args.strict and counts["not_canonical"]) else 0


def _report(name: str, format: str | None, payloads: bool) -> Report:
    with open_argument(name) as source, meter(source.size, f"validate {shorten(shown(name), 30)}"):
        return report_on(source, format, payloads=payloads)


def _summary(counts: dict[str, int], strict: bool) -> str:
    parts = [f"{counts['accepted']} accepted"]
    if strict:
        parts[0] += f" ({counts['not_canonical']} of them not canonical)"
    parts += [f"{counts[key]} {key}" for key in ("refused", "unreadable") if counts[key]]
    return f"{count(counts['files'], 'file')}: {', '.join(parts)}"


def _verdict(report: Report, style: Style, strict: bool) -> str:
    what = FORMATS.get(report.format or "", "")
    if what:
        what += ", " if report.version is None else f" version {report.version}, "
    if not report.ok:
        return f"{style.paint('refused', 'red')}: {what}{count(report.size, 'byte')}"
    if report.canonical:
        return f"{style.paint('valid', 'green')}: {what}{count(report.size, 'byte')}, canonical"
    word = style.paint("not canonical", "red") if strict else style.paint("valid", "green")
    return f"{word}: {what}{count(report.size, 'byte')}{'' if strict else ', not canonical'}"


def print_report(report: Report, style: Style, quiet: bool, strict: bool) -> None:
    """Print what is to say about a file: its verdict, and unless ``quiet`` all findings and what survives."""
    if quiet and report.ok and (report.canonical or not strict):
        return
    print(f"{printable(report.source or '-')}: {_verdict(report, style, strict)}")
    if quiet:
        return
    for finding in report.findings:
        print_finding(finding, style)
    if report.truncated:
        print("  there are more findings of a severity than can be listed")
    if report.survivors:
        _print_survivors(report, style)


def print_finding(finding: Finding, style: Style) -> None:
    """Print one finding: what, where, found, expected, and the rule's sentence."""
    colour = _COLOUR[finding.severity]
    end = finding.offset + max(finding.length, 1) - 1
    span = f"byte {finding.offset}" if finding.length <= 1 else f"bytes {finding.offset} to {end}"
    place = f"{span} (0x{finding.offset:x})" + (f", {finding.path}" if finding.path else "")
    print(f"  {style.paint(finding.severity, colour)} {style.bold(finding.rule)} at {place}")
    print(f"      found    {finding.found}")
    print(f"      expected {finding.expected}")
    for line in wrapped(finding.sentence, "      "):
        print(style.dim(line))
    if finding.hint:
        print(*wrapped(finding.hint, "      "), sep="\n")


def _print_survivors(report: Report, style: Style) -> None:
    print("  what survives:")
    rows = []
    tensors: dict[str, int] = {}
    for item in report.survivors:
        if item.what == "tensor":
            tensors[item.state] = tensors.get(item.state, 0) + 1
            if item.state in ("intact", "unverified") and len(report.survivors) > 30:
                continue
        name = item.path if item.what != "tensor" else f"{item.path} '{printable(item.name)}'"
        rows.append(["   ", item.state, name, printable(item.reason)])
    for line in columns(rows):
        print(line)
    if tensors:
        print(f"    tensors: {', '.join(f'{number} {state}' for state, number in tensors.items())}")
    print(style.dim("    `ckptspec salvage` writes what is not lost into a new file"))


# -------------------------------------------------------------------------------------------------------------- inspect


def inspect(args: argparse.Namespace) -> int:
    """Show a file's parts; 1 if a reader must refuse it."""
    if args.only and not args.hex:
        tell("--only goes with --hex")
        return 2
    if args.no_values and args.html is None:
        tell("--no-values goes with --html")
        return 2
    if args.html is not None:
        if args.hex or args.json or args.structure_only:
            tell("--html goes with none of --hex, --json and --structure-only")
            return 2
        return _write_page(args)
    with open_argument(args.file) as source:
        known = recognise(source)
        report = Report(source=source.name, size=source.size)
        parts: dict[str, Any] = {}
        if known is None:
            report.findings.append(unrecognised(source))
        else:
            with meter(source.size, "inspect"):
                report, parts = module_of(known).inspect(source, payloads=not args.structure_only)
        if args.json:
            extra = {"regions": [r.to_json() for r in module_of(known).regions(source)]} if args.hex and known else {}
            print_json({**report.to_json(), **parts, **extra})
        else:
            style = Style(sys.stdout)
            if args.hex and known is not None:
                if not _print_hex(source, known, args.only, style):
                    tell(f"no field begins with '{printable(args.only)}'")
                    return 2
            else:
                print_parts(known, parts, style)
            print_report(report, style, quiet=False, strict=False)
    return 0 if report.ok else 1


def _write_page(args: argparse.Namespace) -> int:
    """Write the HTML page about a file; 1 if a reader must refuse the file."""
    from ..html.inspection import inspection
    from ..publish import publishing, writable

    if would_overwrite(args.file, args.html):
        return 2
    if args.html != "-":
        writable(args.html)
    with open_argument(args.file) as source, meter(source.size * (2 - args.no_values), "inspect"):
        text, report = inspection(source, values=not args.no_values)
    if args.html == "-":
        sys.stdout.write(text)
    else:
        with publishing(args.html) as draft:
            draft.write(text.encode())
        print(f"{printable(args.html)}: written; {_verdict(report, Style(sys.stdout), strict=False)}")
    return 0 if report.ok else 1


def _print_hex(source: Source, known: str, only: str, style: Style) -> bool:
    """Print the fields whose path begins with ``only``; False if there are none."""
    regions = (region for region in module_of(known).regions(source) if region.path.startswith(only))
    found = False
    for line in hex_dump(source, regions, style):
        print(line)
        found = True
    return found or not only


# -------------------------------------------------------------------------------------------------------------- explain


def explain(args: argparse.Namespace) -> int:
    """Explain one rule, or list all; 2 if there is no such rule."""
    if args.rule is None:
        if args.json:
            print_json([_rule_json(rule) for rule in RULES.values()])
        else:
            print(*columns([[rule.id, rule.kind, rule.sentence] for rule in RULES.values()]), sep="\n")
        return 0
    rule = RULES.get(args.rule.upper())
    if rule is None:
        import difflib

        close = difflib.get_close_matches(args.rule.upper(), RULES, 3, 0.6)
        hint = f"; did you mean {' or '.join(close)}?" if close else "; without a rule, `ckptspec explain` lists them"
        tell(f"there is no rule '{printable(args.rule)}'{hint}")
        return 2
    if args.json:
        print_json(_rule_json(rule))
    else:
        _print_rule(rule, Style(sys.stdout))
    return 0


def _cases(rule: Rule) -> list[str]:
    from ..conformance.catalogue import load_suite

    return [case.id for case in load_suite().cases if rule.id in case.rules]


def _rule_json(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "kind": rule.kind,
        "format": rule.format,
        "versions": list(rule.versions),
        "sentence": rule.sentence,
        "clause": rule.clause,
        "implies": list(rule.implies),
        "upstream": rule.upstream,
        "reason": rule.reason,
    }


_MEANING = {
    "reject": "a reader must refuse a file that breaks it",
    "canonical": "a writer must not break it, a reader accepts a file that does",
    "note": "nothing is broken, but worth knowing",
}


def _print_rule(rule: Rule, style: Style) -> None:
    print(style.bold(rule.id))
    print(*wrapped(rule.sentence, "  "), sep="\n")
    rows = [["  kind", f"{rule.kind}: {_MEANING[rule.kind]}"]]
    if rule.versions:
        rows.append(["  versions", ", ".join(map(str, rule.versions))])
    rows.append(["  clause", rule.clause])
    if rule.reason:
        rows.append(["  why", rule.reason])
    rows.append(["  others", rule.upstream or _usual(rule)])
    if rule.implies:
        rows.append(["  implies", ", ".join(rule.implies)])
    cases = _cases(rule)
    rows.append(["  cases", ", ".join(cases) if cases else "none"])
    for label, text in rows:
        print(*wrapped(text, label.ljust(12)), sep="\n")


def _usual(rule: Rule) -> str:
    if rule.format not in FORMATS:
        return ""
    who = " and ".join(UPSTREAM[key] for key in UPSTREAM if key.startswith(rule.format))
    return {
        "reject": f"{who} refuse such a file",
        "canonical": f"{who} accept such a file",
        "note": "nobody looks",
    }[rule.kind]
