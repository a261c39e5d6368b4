"""What is mutated, and how.

Of each site of a rule the emission is taken out (``remove``), and the condition that guards it is turned into its
opposite (``invert``). The finer operators work on every condition of the modules, that of fast ways included:

- ``boundary``: ``<`` for ``<=`` and so on, and a bound that is one less;
- ``side``: ``<`` or ``>`` for ``!=``, and ``<=`` or ``>=`` for ``==``, of what is no constant;
- ``join``: ``or`` for ``and`` and so on, also of arrays;
- ``drop``: one part of an ``and`` or an ``or`` is left out;
- ``opposite``: a condition, or a part of one, that guards no site is turned into its opposite;
- ``skip``: a call made for its effect, or a jump, is left out.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final

from ...spec.rules import RULES
from .guards import Guard, guard_of, inverted, negation
from .sources import Edit, Outer, Source, switched
from .tracing import REFUSAL, Trace, conduits, site_node

__all__ = ["FINER", "INVERT", "REMOVE", "Mutant", "mutants_of"]

REMOVE: Final = "remove"
INVERT: Final = "invert"
FINER: Final = ("boundary", "side", "join", "drop", "opposite", "skip")

_BOUNDS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_SIDES: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.LtE, ast.GtE),
    ast.NotEq: (ast.Lt, ast.Gt),
}
_LINE: Final = 90  # characters of code that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one function.

    ``before`` and ``after`` are code. ``cases`` maps each rule to the numbers of the cases that may tell the change;
    with the finer operators, which belong to no rule, the key is empty. ``sites`` are line and column of the sites.
    """

    source: Source
    outer: Outer
    operator: str
    line: int
    before: str
    after: str
    edits: tuple[Edit, ...]
    cases: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sites: tuple[tuple[int, int], ...] = ()
    copy: int = 1

    @property
    def key(self) -> str:
        """What the mutant is called, wherever its line goes."""
        again = f" [{self.copy}]" if self.copy > 1 else ""
        return f"{self.source.name}:{self.outer.name}: {self.operator}: {self.before} => {self.after}{again}"

    def active(self) -> AbstractContextManager[None]:
        """Return a context in which the function is the mutant."""
        return switched([(self.source.live(self.outer), self.source.compiled(self.outer, self.edits))])

    @property
    def place(self) -> str:
        """File and line, for people."""
        return f"{self.source.name.replace('.', '/')}.py:{self.line}"


def mutants_of(sources: Sequence[Source], traced: Trace) -> list[Mutant]:
    """Return all mutants, in the order of the code, with the cases that get there."""
    made: list[Mutant] = []
    for source in sources:
        sites = dict(_sites(source, traced))
        for outer in source.outers:
            if source.live(outer):
                made += _of_function(_Function(source, outer, traced, sites))
    return [replace(mutant, copy=number) for number, mutant in _numbered(made)]


def _numbered(mutants: Sequence[Mutant]) -> Iterator[tuple[int, Mutant]]:
    seen: Counter[str] = Counter()
    for mutant in mutants:
        seen[mutant.key] += 1
        yield seen[mutant.key], mutant


def _sites(source: Source, traced: Trace) -> Iterator[tuple[ast.AST, dict[str, list[int]]]]:
    """Yield the sites of a module with their rules, those first that no case reaches."""
    for call in conduits(source, traced.conduits):
        node = site_node(source, call)
        if node is not None and guard_of(source, node) is not None:
            named = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and part.value in RULES]
            yield node, {rule: [] for rule in map(str, named)} or {REFUSAL: []}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and guard_of(source, node) is not None:
            yield node, {REFUSAL: []}
    yield from ((node, rules) for node, rules in traced.sites.items() if traced.sources[node] is source)


@dataclass(slots=True)
class _Function:
    source: Source
    outer: Outer
    traced: Trace
    sites: dict[ast.AST, dict[str, list[int]]]

    def mutant(
        self,
        operator: str,
        edits: Sequence[Edit],
        rules: dict[str, list[int]] | None = None,
        label: str = "",
        sites: Sequence[ast.AST] = (),
    ) -> Mutant:
        """Return a mutant; without ``rules``, every case counts that reaches the first edit."""
        old, new = edits[0]
        there = self.traced.reached.get(self.source.statement(old), [])
        cases = {"": there} if rules is None else rules
        return Mutant(
            source=self.source,
            outer=self.outer,
            operator=operator,
            line=getattr(old, "lineno", 0),
            before=label or _shown(old),
            after="nothing" if operator in (REMOVE, "skip") else _shown(new),
            edits=tuple(edits),
            cases={rule: tuple(numbers) for rule, numbers in cases.items()},
            sites=tuple((site.lineno, site.col_offset) for site in sites),  # type: ignore[attr-defined]
        )


def _of_function(function: _Function) -> Iterator[Mutant]:
    source = function.source
    guards: dict[ast.expr, dict[str, list[int]]] = {}
    guarded: dict[ast.expr, list[ast.AST]] = {}
    said: set[ast.AST] = set()  # what only makes words
    for node in ast.walk(function.outer.node):
        if node in function.sites:
            rules = function.sites[node]
            yield function.mutant(REMOVE, [_removal(source, node)], rules, _called(node), [node])
            for test in _tests(source, node, function.outer):
                told = guards.setdefault(test, {})
                guarded.setdefault(test, []).append(node)
                for rule, numbers in rules.items():
                    told[rule] = sorted({*told.get(rule, []), *numbers})
            said |= set(ast.walk(node))
        elif isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert, ast.arguments)):
            said |= set(ast.walk(node))
    for test, rules in guards.items():
        yield function.mutant(INVERT, [_inversion(source, test)], rules, sites=guarded[test])
    yield from _finer(function, guards, said)


def _removal(source: Source, node: ast.AST) -> Edit:
    parent = source.parent(node)
    if isinstance(node, ast.Raise):
        return Edit(node, ast.Pass())
    if isinstance(parent, ast.Expr):
        return Edit(parent, ast.Pass())
    if isinstance(parent, ast.List):
        return Edit(node, None)
    return Edit(node, ast.Constant(None))


def _tests(source: Source, node: ast.AST, outer: Outer) -> Iterator[ast.expr]:
    """Yield the conditions on which a site depends: its guard, and what chooses between two rules."""
    guard = guard_of(source, node)
    if guard is not None and guard.test is not None:
        yield guard.test
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for part in ast.walk(outer.node):
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.IfExp):
            chosen = [part.value.body, part.value.orelse]
            if all(isinstance(one, ast.Constant) and one.value in RULES for one in chosen) and any(
                isinstance(target, ast.Name) and target.id in names for target in part.targets
            ):
                yield part.value.test


def _inversion(source: Source, test: ast.expr) -> Edit:
    parent = source.parent(test)
    edit = inverted(Guard(test, array=isinstance(parent, ast.Call) and test in parent.args))
    assert edit is not None  # it was there to be guarded by
    return edit


# --- The finer operators ------------------------------------------------------------------------------------------


def _finer(function: _Function, guards: dict[ast.expr, dict[str, list[int]]], said: set[ast.AST]) -> Iterator[Mutant]:
    for node in ast.walk(function.outer.node):
        if node in said:
            continue
        if isinstance(node, ast.Compare):
            yield from _boundaries(function, node)
            yield from _sides(function, node)
        if isinstance(node, ast.BoolOp):
            yield from _joined(function, node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)) and _is_condition(node):
            yield from _joined_arrays(function, node)
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            if node.test not in guards and not isinstance(node.test, ast.Constant):
                yield function.mutant("opposite", [Edit(node.test, negation(node.test))])
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield function.mutant("opposite", [Edit(test, negation(test))])
        elif isinstance(node, ast.BoolOp):
            for part in node.values:
                yield function.mutant("opposite", [Edit(part, negation(part))])
    for node in ast.walk(function.outer.node):
        call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if call and ast.unparse(call.func).startswith("super()"):
            continue  # without it, the function would not have the cell of its class, and cannot be switched
        if (call or isinstance(node, (ast.Raise, ast.Continue, ast.Break))) and not function.sites.keys() & {
            node,
            call,
        }:
            yield function.mutant("skip", [Edit(node, ast.Pass())])


def _boundaries(function: _Function, node: ast.Compare) -> Iterator[Mutant]:
    for at, op in enumerate(node.ops):
        other = _BOUNDS.get(type(op))
        if other is None:
            continue
        ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
        yield function.mutant("boundary", [Edit(node, ast.Compare(node.left, ops, node.comparators))])
        # `<=` for `<` is a bound of one more already.
        shift = ast.Sub() if isinstance(op, (ast.Lt, ast.GtE)) else ast.Add()
        bound = ast.BinOp(node.comparators[at], shift, ast.Constant(1))
        bounds = [*node.comparators[:at], bound, *node.comparators[at + 1 :]]
        yield function.mutant("boundary", [Edit(node, ast.Compare(node.left, node.ops, bounds))])


def _sides(function: _Function, node: ast.Compare) -> Iterator[Mutant]:
    sides = _SIDES.get(type(node.ops[0]), ())
    if len(node.ops) > 1 or any(isinstance(part, ast.Constant) for part in (node.left, *node.comparators)):
        return
    for side in sides:
        yield function.mutant("side", [Edit(node, ast.Compare(node.left, [side()], node.comparators))])


def _joined(function: _Function, node: ast.BoolOp) -> Iterator[Mutant]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield function.mutant("join", [Edit(node, ast.BoolOp(other, node.values))])
    for at in range(len(node.values)):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        left = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        yield function.mutant("drop", [Edit(node, left)])


def _is_condition(node: ast.BinOp) -> bool:
    return any(isinstance(part, ast.Compare) for part in ast.walk(node))


def _joined_arrays(function: _Function, node: ast.BinOp) -> Iterator[Mutant]:
    other = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
    yield function.mutant("join", [Edit(node, ast.BinOp(node.left, other, node.right))])
    yield function.mutant("drop", [Edit(node, node.right)])
    yield function.mutant("drop", [Edit(node, node.left)])


# --- Words --------------------------------------------------------------------------------------------------------


def _shown(node: ast.AST | None) -> str:
    text = "nothing" if node is None else re.sub(r"\s+", " ", ast.unparse(ast.fix_missing_locations(node)))
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."


def _called(node: ast.AST) -> str:
    """Return a call as it is shown: what is called, and the first thing that says what it is about."""
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return _shown(node)
    told = [part for part in call.args if isinstance(part, (ast.Constant, ast.JoinedStr))] or call.args
    word = "raise " if isinstance(node, ast.Raise) else ""
    return _shown(ast.Name(f"{word}{ast.unparse(call.func)}({ast.unparse(told[0]) if told else ''}, ...)"))
