"""``python -m ckptspec.conformance.mutation``: changes each check of the project, and shows which case fails."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence

from tqdm import tqdm

from ...errors import ArgumentError
from ...formats import FORMATS
from ...spec.rules import RULES
from ...text import count, show
from ..catalogue import ANY_FORMAT
from ..expectations import Unexpected
from . import results
from .campaign import EQUIVALENT, KILLED, Campaign, Verdict, counts_for_status, described, is_rule, prepare
from .equivalents import EQUIVALENTS
from .mutants import FINER, INVERT, REMOVE, Mutant
from .with_tests import find_tests, judge_by_tests

_SHOWN = (REMOVE, INVERT, *FINER)


def main(argv: Sequence[str] | None = None) -> int:
    """Run mutants; 0 if no check can go unnoticed, 1 if one can or a list is wrong, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m ckptspec.conformance.mutation",
        description="Change each check of the project, and show which case or test then fails.",
    )
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="ID",
        help="only the checks of this rule, and what kills each of their mutants",
    )
    parser.add_argument("--format", action="append", default=[], metavar="FORMAT", help="only the code of this format")
    parser.add_argument("--checks", action="store_true", help="take out and invert checks; nothing finer")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--search", action="store_true", help="look for tests that kill what the suite does not")
    parser.add_argument("--write", action="store_true", help="write the results that the documentation shows")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except (ArgumentError, Unexpected) as error:
        print(f"mutation: {error}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1


def _run(args: argparse.Namespace) -> int:
    partial = bool(args.rule or args.format or args.checks)
    for given, known, what in ((args.rule, RULES, "rule"), (args.format, (*FORMATS, ANY_FORMAT), "format")):
        for name in given:
            if name not in known:
                raise ArgumentError(f"there is no {what} {show(name)}", f"--{what}")
    if args.write and (args.rule or args.list):
        raise ArgumentError("only a run over all of a module can be written", "--write")
    if args.jobs < 1:
        raise ArgumentError("expected at least 1", "--jobs")
    campaign = prepare()
    mutants = [mutant for mutant in campaign.mutants if _chosen(mutant, args)]
    if args.list:
        print(json.dumps([mutant.key for mutant in mutants], indent=1) if args.json else _listed(mutants))
        return 0
    with tqdm(total=len(mutants), unit="mutant", disable=None) as bar:
        verdicts = campaign.run(mutants, workers=args.jobs, progress=bar.update)
    _ask_tests(campaign, verdicts, args)
    wrong = [] if partial else _wrong_lists(campaign, verdicts)
    if args.json:
        print(json.dumps({"mutants": [described(verdict) for verdict in verdicts], "wrong": wrong}, indent=1))
    else:
        print(_report(verdicts, args.rule))
        print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    if args.write:
        made = results.results_of(verdicts)
        if partial and results.RESULTS.exists():
            made = results.merged(results.load(), made, campaign.mutants)
        results.RESULTS.write_text(results.dump(made), "utf-8")
    return 1 if wrong or any(map(counts_for_status, verdicts)) else 0


def _chosen(mutant: Mutant, args: argparse.Namespace) -> bool:
    return (
        (not args.rule or bool(set(args.rule) & set(mutant.cases)))
        and (not args.format or mutant.source.format in args.format)
        and (not args.checks or is_rule(mutant))
    )


def _ask_tests(campaign: Campaign, verdicts: Sequence[Verdict], args: argparse.Namespace) -> None:
    """Try checks that survived the suite with the test that killed them before, and with others if that is wanted."""
    checks = [verdict for verdict in verdicts if is_rule(verdict.mutant)]
    known = results.known_tests(results.load()) if results.RESULTS.exists() else {}
    judge_by_tests(checks, lambda mutant: known.get(mutant.key, []), workers=args.jobs)
    if args.search and any(verdict.alive for verdict in checks):
        found = find_tests(campaign, workers=args.jobs)
        judge_by_tests(checks, lambda mutant: found.of(mutant), workers=args.jobs)


def _wrong_lists(campaign: Campaign, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what is wrong with a whole run but for survivors: rules without a site, entries that are dead."""
    there = {verdict.mutant.key: verdict for verdict in verdicts}
    wrong = [f"{rule}: no place emits it that is known" for rule in campaign.without_site()]
    wrong += [f"listed as equivalent, and is no mutant: {key}" for key in EQUIVALENTS if key not in there]
    return wrong + [
        f"listed as equivalent, and is killed: {key}"
        for key in EQUIVALENTS
        if key in there and there[key].status == KILLED
    ]


# --- Words --------------------------------------------------------------------------------------------------------


def _listed(mutants: Sequence[Mutant]) -> str:
    return "\n".join(
        f"{mutant.place}: {mutant.operator}: {mutant.before} => {mutant.after}"
        + (f"  ({', '.join(mutant.cases)})" if is_rule(mutant) else "")
        for mutant in mutants
    )


def _report(verdicts: Sequence[Verdict], named: Sequence[str] = ()) -> str:
    """Return what survives and the shares of what is killed, and for rules that are named what kills them."""
    lines = []
    for verdict in verdicts:
        for rule in named:
            if rule in verdict.by:
                mutant = verdict.mutant
                lines += [
                    f"killed by {verdict.by[rule]}: {mutant.place}, {mutant.outer.name}, {mutant.operator}  ({rule})"
                ]
                lines += _change(mutant)
        if verdict.status not in (KILLED, EQUIVALENT):
            mutant = verdict.mutant
            rules = [rule for rule in verdict.alive if rule]
            about = f"  ({', '.join(rules)})" if rules else ""
            lines += [f"survives: {mutant.place}, {mutant.outer.name}, {mutant.operator}{about}"]
            lines += _change(mutant)
    for operator in _SHOWN:
        numbers = Counter(verdict.status for verdict in verdicts if verdict.mutant.operator == operator)
        total = sum(numbers.values())
        if total:
            more = f", {numbers[EQUIVALENT]} equivalent" if numbers[EQUIVALENT] else ""
            told = f"{count(total, 'mutant')}, {numbers[KILLED]} killed{more}"
            lines.append(f"{operator:9} {told} ({_percent(numbers[KILLED], total - numbers[EQUIVALENT])})")
    return "\n".join(lines)


def _change(mutant: Mutant) -> list[str]:
    return [f"    before  {mutant.before}", f"    after   {mutant.after}"]


def _percent(part: int, whole: int) -> str:
    """Return a percentage that says 100 only of all."""
    return "100 %" if part == whole else f"{min(99.9, 100 * part / whole):.1f} %"


if __name__ == "__main__":
    sys.exit(main())
