"""Verbs that compare files by what is in them: digest, diff."""

from __future__ import annotations

import argparse
import fnmatch
import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..contents import DENSE, Contents, Entry, contents_of
from ..formats import FORMATS
from ..progress import meter
from ..terminal import Style, columns
from ..text import count, printable, shorten, show
from ..urls import shown_url
from .io import open_argument, parse_argument, print_json, shown, tell, would_overwrite

if TYPE_CHECKING:
    from ..compare import Comparison, Pair
    from ..digest import Changes, Digest
    from ..elements import Difference

__all__ = ["chosen", "diff", "digest", "print_diff"]

_NAME: Final = 100  # characters of a name in a table
_VALUE: Final = 60


def _what(contents: Contents) -> str:
    version = "" if contents.version is None else f" version {contents.version}"
    return f"{FORMATS[contents.format]}{version}"


def _name(text: str) -> str:
    return shorten(printable(text), _NAME)


# --------------------------------------------------------------------------------------------------------------- digest


def digest(args: argparse.Namespace) -> int:
    """Print, write or check the digests of a file; 1 if it is not as its manifest says."""
    from ..digest import digest as digest_of
    from ..digest import manifest_of, parse_manifest

    if args.tensors_only and args.check is None:
        tell("--tensors-only goes with --check")
        return 2
    if args.file == args.check == "-":
        tell("FILE and MANIFEST cannot both be standard input")
        return 2
    if args.manifest is not None:
        if would_overwrite(args.file, args.manifest):
            return 2
        from ..publish import writable  # late: most uses of these verbs write no file

        writable(args.manifest)
    expected = None
    if args.check is not None:
        expected = parse_argument(args.check, parse_manifest)
    verify = args.verify or args.manifest is not None
    with open_argument(args.file) as source, meter(source.size * (1 + verify), "digest"):
        made = digest_of(contents_of(source, verify=verify))
    if expected is not None:
        return _check(args, expected, made)
    if args.manifest is not None:
        _write_manifest(args.manifest, manifest_of(made))
    if args.json:
        print_json({"file": shown_url(args.file), **manifest_of(made)})
    elif args.manifest is not None:
        print(f"{printable(args.manifest)}: written; {count(len(made.tensors), 'tensor')}")
    else:
        for item in made.tensors:
            print(f"{item.digest}  {printable(item.name)}")
        print(f"tensors {made.tensors_digest}  {count(len(made.tensors), 'tensor')}")
        print(f"content {made.content_digest}  these and {count(len(made.facts), 'fact')}")
    return 0


def _write_manifest(path: str, manifest: dict[str, Any]) -> None:
    import json

    from ..publish import publishing

    with publishing(path) as draft:
        draft.write(json.dumps(manifest, indent=1, ensure_ascii=True).encode() + b"\n")


def _check(args: argparse.Namespace, expected: Digest, found: Digest) -> int:
    from ..digest import Changes

    changes = Changes.between(expected, found)
    bad = bool(changes.new or changes.missing or changes.changed or (changes.facts and not args.tensors_only))
    if args.json:
        print_json(
            {
                "file": shown_url(args.file),
                "matches": not bad,
                "changed": list(changes.changed),
                "missing": list(changes.missing),
                "new": list(changes.new),
                "facts": list(changes.facts),
            }
        )
    else:
        _print_changes(args.file, changes, found, bad, Style(sys.stdout))
    return 1 if bad else 0


def _print_changes(name: str, changes: Changes, found: Digest, bad: bool, style: Style) -> None:
    kinds = (("changed", changes.changed), ("missing", changes.missing), ("new", changes.new), ("fact", changes.facts))
    rows = [[f"  {kind}", printable(item)] for kind, items in kinds for item in items]
    numbers = [f"{len(items)} {kind}" for kind, items in kinds[:3] if items]
    if changes.facts:
        numbers.append(f"{count(len(changes.facts), 'fact')} changed")
    good = len(found.tensors) - len(changes.changed) - len(changes.new)
    verdict = style.paint("does not match", "red") if bad else style.paint("matches", "green")
    numbers.insert(0, f"{count(good, 'tensor')} as in the manifest")
    print(f"{shown(name)}: {verdict}: {', '.join(numbers)}")
    if rows:
        print(*columns(rows), sep="\n")


# ----------------------------------------------------------------------------------------------------------------- diff


def diff(args: argparse.Namespace) -> int:
    """Compare two files; 1 if they differ by more than the tolerance."""
    from ..compare import compare
    from ..elements import Tolerance

    if args.one == args.other == "-":
        tell("A and B cannot both be standard input")
        return 2
    if not (args.atol >= 0 and args.rtol >= 0 and 0 <= args.ulp < 1 << 64):
        tell("a tolerance is 0 or more")
        return 2
    with open_argument(args.one) as one, open_argument(args.other) as other:
        with meter((one.size + other.size) * (1 + args.verify), "diff"):
            found = compare(
                contents_of(one, verify=args.verify),
                contents_of(other, verify=args.verify),
                tolerance=Tolerance(atol=args.atol, rtol=args.rtol, ulp=args.ulp),
                only=chosen(args.only),
                values=not args.names_only,
                facts=not args.no_facts and args.only is None,
                dtypes=not args.ignore_dtype,
            )
        if args.only is not None and not found.compared and not found.removed and not found.added:
            tell(f"no tensor has a name like {' or '.join(map(show, args.only))}")
            return 2
        if args.json:
            print_json({"a": _side(args.one, found.one), "b": _side(args.other, found.other), **_as_json(found)})
        else:
            print_diff((args.one, args.other), found, Style(sys.stdout))
    return 1 if found.differ else 0


def chosen(globs: Sequence[str] | None) -> Callable[[str], bool] | None:
    """Return what says of a name whether one of some shell patterns fits; None if there are none to ask."""
    if globs is None:
        return None
    return lambda name: any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _side(name: str, contents: Contents) -> dict[str, Any]:
    number = len(contents.tensors)
    return {"file": shown_url(name), "format": contents.format, "version": contents.version, "tensors": number}


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"dtype": entry.scalar.name, "shape": list(entry.shape), "encoding": entry.encoding}


def _number(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _place(flat: int | None, shape: tuple[int, ...]) -> list[int] | None:
    """Return the indices of an element from its place in row-major order."""
    if flat is None:
        return None
    made = []
    for extent in reversed(shape):
        flat, at = divmod(flat, extent)
        made.append(at)
    return made[::-1]


def _values_json(values: Difference | None, shape: tuple[int, ...]) -> dict[str, Any] | None:
    if values is None:
        return None
    return {
        "differing": values.differing,
        "outside_tolerance": values.outside,
        "nan": values.nan,
        "max_abs": _number(values.max_abs),
        "max_rel": _number(values.max_rel),
        "max_ulp": values.max_ulp,
        "first": _place(values.first, shape),
        "largest": _place(values.largest, shape),
    }


def _as_json(found: Comparison) -> dict[str, Any]:
    return {
        "differ": found.differ,
        "compared": found.compared,
        "removed": [{"name": entry.name, **_entry_json(entry)} for entry in found.removed],
        "added": [{"name": entry.name, **_entry_json(entry)} for entry in found.added],
        "changed": [
            {
                "name": pair.name,
                "a": _entry_json(pair.one),
                "b": _entry_json(pair.other),
                "counts": found.counts(pair),
                "dtype_changed": pair.dtype_changed,
                "shape_changed": pair.shape_changed,
                "stored_bytes_differ": pair.stored,
                "values": _values_json(pair.values, pair.one.shape),
            }
            for pair in found.pairs
        ],
        "facts": {
            "removed": {key: found.one.facts[key] for key in found.facts_removed},
            "added": {key: found.other.facts[key] for key in found.facts_added},
            "changed": {key: {"a": found.one.facts[key], "b": found.other.facts[key]} for key in found.facts_changed},
            "one_sided_count": found.same_format,
        },
    }


def _form(entry: Entry) -> str:
    shape = " x ".join(map(str, entry.shape)) or "scalar"
    return f"{entry.scalar.name} {shape}" + ("" if entry.encoding == DENSE else f" {entry.encoding}")


def print_diff(names: tuple[str, str], found: Comparison, style: Style) -> None:
    """Print how two files of these names differ."""
    for sign, name, side in (("-", names[0], found.one), ("+", names[1], found.other)):
        print(f"{sign} {shown(name)}: {_what(side)}, {count(len(side.tensors), 'tensor')}")
    rows = [[style.paint("-", "red"), _name(entry.name), _form(entry), "removed"] for entry in found.removed]
    rows += [[style.paint("+", "green"), _name(entry.name), _form(entry), "added"] for entry in found.added]
    for pair in found.pairs:
        mark = style.paint("~", "yellow") if found.counts(pair) else "="
        form = _form(pair.one) if _form(pair.one) == _form(pair.other) else f"{_form(pair.one)} -> {_form(pair.other)}"
        rows.append([mark, _name(pair.name), form, _told(found, pair)])
    print(*columns(rows), sep="\n", end="\n" if rows else "")
    facts = [("-", key, _fact(found.one, key)) for key in found.facts_removed]
    facts += [("+", key, _fact(found.other, key)) for key in found.facts_added]
    facts += [("~", key, f"{_fact(found.one, key)} -> {_fact(found.other, key)}") for key in found.facts_changed]
    if not found.same_format:
        alone = len(found.facts_removed) + len(found.facts_added)
        facts = [row for row in facts if row[0] == "~"]
        if alone:
            print(style.dim(f"  {count(alone, 'fact')} of one file alone; other formats have others"))
    print(
        *columns([[sign, f"fact {_name(key)}", value] for sign, key, value in facts]),
        sep="\n",
        end="\n" if facts else "",
    )
    print(_summary(found, style))


def _fact(contents: Contents, key: str) -> str:
    value = contents.facts[key]
    if contents.format != "safetensors" and value.startswith("0x") and len(value) in (10, 18):
        code = ">f" if len(value) == 10 else ">d"
        return f"{struct.unpack(code, bytes.fromhex(value[2:]))[0]:.9g} ({value})"
    return shorten(printable(value), _VALUE) if value else "''"


def _told(found: Comparison, pair: Pair) -> str:
    values = pair.values
    if pair.shape_changed:
        return "another shape"
    if values is None:
        if pair.stored:
            return "bytes differ; elements below a byte are not compared"
        return "another dtype" + ("; no type holds the values of both" if found.values_compared else "")
    if not values.differing:
        return "other blocks, the same values" if pair.stored else "another dtype, the same values"
    verb = "differs" if values.differing == 1 else "differ"
    parts = [f"{values.differing} of {count(pair.one.elements, 'element')} {verb}"]
    if found.tolerance:
        parts[0] += f", {values.outside} beyond the tolerance"
    if values.nan:
        parts.append(f"{values.nan} NaN")
    if values.max_abs is not None:
        where = _place(values.largest, pair.one.shape)
        parts.append(f"max abs {_short(values.max_abs)} at {where}")
    if values.max_rel is not None:
        parts.append(f"max rel {_short(values.max_rel)}")
    if values.max_ulp is not None:
        parts.append(f"max {values.max_ulp} ULP")
    return "; ".join([parts[0] + f", first at {_place(values.first, pair.one.shape)}", *parts[1:]])


def _short(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _summary(found: Comparison, style: Style) -> str:
    counted = sum(1 for pair in found.pairs if found.counts(pair))
    alone = len(found.facts_removed) + len(found.facts_added) if found.same_format else 0
    facts = alone + len(found.facts_changed)
    parts = [
        f"{number} {what}"
        for number, what in ((len(found.removed), "removed"), (len(found.added), "added"), (counted, "changed"))
        if number
    ]
    within = len(found.pairs) - counted
    if within:
        parts.append(f"{within} within the tolerance" if found.tolerance else f"{within} in another dtype")
    if facts:
        parts.append(f"{count(facts, 'fact')} changed")
    word = style.paint("different", "red") if found.differ else style.paint("equal", "green")
    compared = count(found.compared, "common tensor")
    what = f"{compared} compared" if found.values_compared else f"{compared} compared by name, dtype and shape"
    return f"{word}: {', '.join([what, *parts])}"
