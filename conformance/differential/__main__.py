"""Look for files about which independent readings disagree."""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from ...formats import FORMATS
from ...publish import publishing
from ...terminal import columns
from ...text import count, printable, shorten
from .comparing import KINDS, Comparison, Tally
from .gathering import gathered
from .inputs import golden_files
from .recorded import RECORD, record
from .searching import Found, golden, search, shrunk

__all__ = ["main"]

_LINE: Final = 300  # characters of what a reading says


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search. The exit status is 0 if all readings agree, 1 if not, 2 for a usage or an environment."""
    parser = argparse.ArgumentParser(prog="python -m ckptspec.conformance.differential", description=__doc__)
    parser.add_argument("--time", type=float, default=60, metavar="S", help="seconds for generated files (default 60)")
    parser.add_argument("--seed", type=int, help="of the first round; without it, a new one that is printed")
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="only this format (repeatable)")
    parser.add_argument("--save", type=Path, default=Path(), metavar="DIR", help="folder for a file that shows it")
    parser.add_argument("--record", action="store_true", help="write the counts that the documentation shows, no more")
    options = parser.parse_args(arguments)
    if options.record:
        return _write_record()
    if not options.save.is_dir():
        parser.error(f"--save: there is no folder {printable(str(options.save))}")
    first = random.randrange(1 << 32) if options.seed is None else options.seed  # noqa: S311  # not for secrets
    formats = options.format or list(FORMATS)
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        readings, missing = gathered(Path(folder))
        for name, reason in missing.items():
            print(f"left out: {name}: {printable(reason)}")
        print(f"seed {first}; readings: {', '.join(reading.name for reading in readings)}", flush=True)
        comparison = Comparison(readings)
        found = next(golden(comparison, chain(*map(golden_files, formats))), None) or search(
            comparison, formats, options.time, first
        )
        for line in _counts(comparison.tally):
            print(line)
        if found is None:
            print("no disagreement but those that are declared")
            return 0
        for line in _told(comparison, shrunk(comparison, found), options.save):
            print(line)
    return 1


def _write_record() -> int:
    """Write the record of the golden files anew, for which all readings but the compiled adapters are needed."""
    readings, missing = gathered()
    if missing:
        print(f"left out: {', '.join(missing)}", file=sys.stderr)
        return 2
    RECORD.write_text(record(Comparison(readings)), "utf-8")
    return 0


def _counts(tally: Tally) -> Iterator[str]:
    rows = [["format", "files", "reading", "reading", *KINDS]]
    for name, pair, numbers in tally.rows():
        rows.append([name, str(tally.files[name]), *pair, *map(str, numbers)])
    return iter(columns(rows, right=(1, *range(4, len(rows[0])))))


def _told(comparison: Comparison, found: Found, folder: Path) -> Iterator[str]:
    """Save the file, and yield who says what of it."""
    name = found.first.format
    digest = hashlib.sha256(found.data).hexdigest()[:12]
    path = folder / f"disagreement-{digest}{golden_files(name)[0].path.suffix}"
    with publishing(path) as draft:
        draft.write(found.data)
    yield f"disagreement about {FORMATS[name]} ({found.origin}): {count(len(found.data), 'byte')}, saved as {path}"
    for reading in comparison.readings:
        if name in reading.formats:
            yield f"  {reading.name} {_short(str(reading.ask(name, found.data)))}"
    for one in found.disagreements:
        place = one.place(found.data)
        where = "" if place is None else f" at byte {place}"
        yield f"  {one.pair[0]} and {one.pair[1]} disagree{where}: {_short(str(one))}"


def _short(text: str) -> str:
    return shorten(printable(text), _LINE)


if __name__ == "__main__":
    sys.exit(main())
