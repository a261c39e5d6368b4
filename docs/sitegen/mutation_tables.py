"""Tables of the page on mutation, from the committed results of the last run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from ckptspec.conformance.mutation.equivalents import EQUIVALENTS
from ckptspec.conformance.mutation.mutants import FINER, REMOVE
from ckptspec.conformance.mutation.results import is_test, load
from ckptspec.conformance.mutation.sources import READERS, WRITERS
from ckptspec.conformance.mutation.tracing import REFUSAL
from ckptspec.spec.rules import CANONICAL, NOTE, REJECT, RULES, rules_of

from .case_pages import TITLES, rule_page
from .markdown import literal, plural, table

__all__ = [
    "mutation_equivalents",
    "mutation_finer",
    "mutation_refusals",
    "mutation_rules",
    "mutation_share",
    "mutation_summary",
    "mutation_survivors",
]

_SHOWN: Final = 4  # cases of a rule that are named

_results = cache(load)


def _percent(part: int, whole: int) -> str:
    """Return a percentage that says 100 only of all."""
    return "100 %" if part == whole else f"{min(99.9, 100 * part / whole):.1f} %"


def _checks(rule: str) -> list[tuple[str, str, str]]:
    """Return function, operator and killer of each mutant of a rule's checks."""
    return [
        (f"{row['module']}.{row['function']}", row["operator"], row["killed_by"][rule])
        for row in _results()["checks"]
        if rule in row["killed_by"]
    ]


def _numbers(rows: Iterable[tuple[str, str, str]]) -> tuple[int, int]:
    killers = [killer for _, _, killer in rows]
    return len(killers), sum(map(bool, killers))


def mutation_summary() -> str:
    """Return how many checks there are by format and kind of rule, and how many mutants of them are killed."""
    rows = []
    for name, title in TITLES.items():
        for kind in (REJECT, CANONICAL, NOTE):
            chosen = rules_of(name, kind)
            if chosen:
                checks = [check for rule in chosen for check in _checks(rule.id)]
                places = sum(operator == REMOVE for _, operator, _ in checks)
                total, killed = _numbers(checks)
                numbers = (len(chosen), places, total, killed)
                rows.append([title, kind, *(f"{number:,}" for number in numbers), _percent(killed, total)])
    head = ("format", "kind", "rules", "checks", "mutants", "killed", "share")
    return table(head, rows, right=(2, 3, 4, 5, 6))


def mutation_rules(format: str) -> str:
    """Return the rules of a format, each with its checks, their mutants, and what kills them."""
    rows = []
    for rule in rules_of(format):
        checks = _checks(rule.id)
        places = list(dict.fromkeys(function for function, operator, _ in checks if operator == REMOVE))
        total, killed = _numbers(checks)
        names = [f"`{name}`" for name in places]
        rows.append(
            [
                f"[{rule.id}]({rule_page(rule.id)})",
                rule.kind,
                ", ".join(names),
                f"{killed} of {total}",
                _killers([killer for _, _, killer in checks if killer]),
            ]
        )
    return table(("rule", "kind", "checked in", "killed", "by"), rows)


def _killers(killers: Sequence[str]) -> str:
    """Return the names of what kills, cases without their format; of many, some."""
    names = [f"`{name if is_test(name) else name.partition('/')[2] or name}`" for name in dict.fromkeys(killers)]
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more])


def mutation_refusals() -> str:
    """Return what becomes of the checks of writers and documents, by module."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in _results()["checks"]:
        if REFUSAL in row["killed_by"]:
            killer = row["killed_by"][REFUSAL]
            counts[row["module"]][("test" if is_test(killer) else "case") if killer else "alive"] += 1
    rows = []
    for module, count in counts.items():
        total = sum(count.values())
        numbers = (total, count["case"], count["test"])
        rows.append([f"`{module}`", *map(str, numbers), _percent(total - count["alive"], total)])
    return table(("module", "mutants", "killed by a case", "killed by a test", "share"), rows, right=(1, 2, 3, 4))


def mutation_finer() -> str:
    """Return how many finer mutants there are and are killed, by module and operator."""
    finer: Mapping[str, Mapping[str, Mapping[str, int]]] = _results()["finer"]
    rows = []
    for module in (*READERS, *WRITERS):
        counts = finer.get(module, {})
        if counts:
            total = sum((Counter(count) for count in counts.values()), Counter[str]())
            rows.append([f"`{module}`", *(_share(counts.get(name, {})) for name in FINER), _share(total)])
    sums = [sum((Counter(counts.get(name, {})) for counts in finer.values()), Counter[str]()) for name in FINER]
    rows.append(["*all*", *map(_share, sums), _share(sum(sums, Counter[str]()))])
    return table(("module", *FINER, "all"), rows, right=range(1, len(FINER) + 2))


def _share(count: Mapping[str, int]) -> str:
    """Return a share of the mutants that are not equivalent."""
    whole = count.get("mutants", 0) - count.get("equivalent", 0)
    return f"{count.get('killed', 0):,} / {whole:,}" if whole else ""


def mutation_share(what: str) -> str:
    """Return the share of mutants that are killed: of the ``checks`` of rules that oblige, or of the ``finer`` ones."""
    if what == "checks":
        wanted = [rule for rule in RULES.values() if rule.kind != NOTE]
        total, killed = _numbers(check for rule in wanted for check in _checks(rule.id))
    else:
        counts = sum((Counter(row) for rows in _results()["finer"].values() for row in rows.values()), Counter[str]())
        total, killed = counts["mutants"] - counts["equivalent"], counts["killed"]
    return f"{_percent(killed, total)} of {plural(total, 'mutant')}"


def mutation_equivalents() -> str:
    """Return the mutants that survive because they do the same, with the reasons."""
    if not EQUIVALENTS:
        return "There are none at present."
    rows = [[literal(reason), "<br>".join(_keys(reason))] for reason in dict.fromkeys(EQUIVALENTS.values())]
    return table(("why it is the same", "mutants"), rows)


def _keys(reason: str) -> Iterator[str]:
    for key, why in EQUIVALENTS.items():
        if why == reason:
            yield literal(key)


def mutation_survivors() -> str:
    """Return the finer mutants that nothing kills, by module."""
    made: dict[str, list[str]] = defaultdict(list)
    for key in _results()["survivors"]:
        module, _, rest = key.partition(":")
        made[module].append(rest)
    return "\n\n".join(
        f"<details markdown><summary>{module}: {plural(len(keys), 'mutant')}</summary>\n\n"
        + "\n".join(f"- {literal(key)}" for key in keys)
        + "\n\n</details>"
        for module, keys in made.items()
    )
