"""Clauses, their rules, and how the rules of a format changed from version to version."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from ckptspec.conformance.catalogue import Case, load_suite
from ckptspec.spec import schema
from ckptspec.spec.rules import CANONICAL, NOTE, REJECT, RULES, UPSTREAM, Rule, rules_of

from .markdown import code, plural, table

__all__ = ["VERSIONS", "anchor", "behaviour", "cases", "cases_of", "clause_anchor", "clauses", "history"]

VERSIONS: Final = {"oam": schema.OAM_VERSIONS}
"""The versions of the formats that have several."""

_KINDS: Final = (REJECT, CANONICAL, NOTE)


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases of the suite."""
    return load_suite().cases


@cache
def _by_rule() -> dict[str, tuple[Case, ...]]:
    return {rule: tuple(case for case in cases() if rule in case.rules) for rule in RULES}


def cases_of(rule: Rule) -> tuple[Case, ...]:
    """Return the cases that name a rule."""
    return _by_rule()[rule.id]


def anchor(rule: str) -> str:
    """Return the anchor of a rule on its format's page."""
    return rule.lower()


def clause_anchor(rule: Rule) -> str:
    """Return the anchor of a rule's clause on its format's page, whatever the heading above it says."""
    return f"clause-{rule.format}-{rule.clause}"


def links(rules: Iterable[Rule]) -> str:
    """Return links to rules on the same page."""
    return ", ".join(f"[{rule.id}](#{anchor(rule.id)})" for rule in rules)


def clauses(format: str) -> str:
    """Return a format's clauses with links to their rules, in the order of the catalogue."""
    found: dict[str, list[Rule]] = {}
    for rule in rules_of(format):
        found.setdefault(rule.clause, []).append(rule)
    rows = []
    for clause, rules in found.items():
        numbers = [str(sum(rule.kind == kind for rule in rules) or "") for kind in _KINDS]
        rows.append([f"[{clause}](#{clause_anchor(rules[0])})", *numbers, code(f"#{clause_anchor(rules[0])}")])
    return table(("clause", *_KINDS, "anchor"), rows, right=(1, 2, 3))


def history(format: str) -> str:
    """Return the rules that each version of a format brought and ended: those that not all versions have."""
    versions = VERSIONS[format]
    rows = []
    for at, version in enumerate(versions):
        before = versions[at - 1] if at else None
        some = [rule for rule in rules_of(format) if len(rule.versions) < len(versions)]
        begun = [rule for rule in some if version in rule.versions and before not in rule.versions]
        ended = [rule for rule in some if version not in rule.versions and before in rule.versions]
        number = sum(version in case.versions for case in cases() if case.format == format)
        rows.append([str(version), links(begun) or "–", links(ended) or "–", f"{number:,}"])
    return table(("version", "rules that begin with it", "rules that end with it", "cases"), rows, right=(0, 3))


def behaviour(rule: Rule) -> list[str]:
    """Return what known implementations do with a rule's *acceptable* cases, in words, each with how many cases."""
    told: dict[str, int] = {}
    for case in cases_of(rule):
        for name, what in case.behaviour.items():
            line = f"{code(name)} ({UPSTREAM[name]}) {what}"
            told[line] = told.get(line, 0) + 1
    return [f"{line}, in {plural(number, 'case')}" for line, number in told.items()]
