"""One run of the suite without any mutant: which case gets where, and where each finding comes from.

A finding, or the error for what cannot be written, is followed from where it is made outwards through the calls that
lead there, up to the first that a condition guards: that call is the *site* of the rule. So helpers that only pass a
rule on are no sites, tables and constructed ids need no special care, and a finding about an exception is also put down
to the place where the exception was raised.
"""

from __future__ import annotations

import ast
import copy
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final
from unittest import mock

from .. import expectations
from ..expectations import Expectation, Unexpected
from .guards import guard_of
from .sources import Source, code_of, switched

__all__ = ["REFUSAL", "Trace", "conduits", "following", "site_node", "trace"]

REFUSAL: Final = "refusal"
"""Stands for the rule where a caller's values are refused: such checks have no rules of their own."""

_PROBE: Final = "__ckptspec_probe__"


@dataclass(slots=True)
class Trace:
    """``reached`` maps a statement to the numbers of the cases that get there; ``sites`` a site to its rules, and each
    rule to the cases for which it is emitted there. ``seconds`` are what each case takes. ``lost`` are findings that
    came past all sites, ``conduits`` the names of functions that pass a rule on.
    """

    reached: dict[ast.stmt, list[int]] = field(default_factory=lambda: defaultdict(list))
    sites: dict[ast.AST, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    seconds: list[float] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    conduits: set[str] = field(default_factory=set)
    sources: dict[ast.AST, Source] = field(default_factory=dict)


def trace(sources: Sequence[Source], cases: Sequence[Expectation]) -> Trace:
    """Run all cases; raises Unexpected if the suite does not pass as it is."""
    made = Trace()
    hits: set[int] = set()
    statements: list[ast.stmt] = []
    swaps: list[tuple[Sequence[FunctionType], CodeType]] = []
    for source in sources:
        swaps += _probed(source, statements, hits)
    with switched(swaps), following(sources, made) as follower:
        for number, case in enumerate(cases):
            hits.clear()
            follower.begin(number)
            start = time.process_time()
            try:
                expectations.check(case)
            except Exception as error:
                raise Unexpected(f"{case.case.id} fails without any mutant: {error!r}") from error
            made.seconds.append(time.process_time() - start)
            for hit in hits:
                made.reached[statements[hit]].append(number)
    return made


# --- Which statements a case reaches ------------------------------------------------------------------------------


def _probed(
    source: Source, statements: list[ast.stmt], hits: set[int]
) -> Iterator[tuple[Sequence[FunctionType], CodeType]]:
    """Yield the functions of a module and code for them that adds the number of each statement to ``hits``."""
    numbers = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.stmt):
            numbers[(node.lineno, node.col_offset)] = len(statements)
            statements.append(node)
    tree = _Probes(numbers).visit(copy.deepcopy(source.tree))
    code = compile(ast.fix_missing_locations(tree), source.path, "exec", dont_inherit=True)
    setattr(source.module, _PROBE, hits.add)
    for outer in source.outers:
        if source.live(outer):
            yield source.live(outer), code_of(code, outer)


class _Probes(ast.NodeTransformer):
    def __init__(self, numbers: dict[tuple[int, int], int]) -> None:
        self.numbers = numbers
        self.depth = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        inner = isinstance(node, ast.FunctionDef)
        self.depth += inner
        super().generic_visit(node)
        if self.depth:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    setattr(node, name, [part for statement in block for part in (self._probe(statement), statement)])
        self.depth -= inner
        return node

    def _probe(self, statement: ast.stmt) -> ast.stmt:
        number = self.numbers[statement.lineno, statement.col_offset]
        call = ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(number)], [])
        return ast.copy_location(ast.Expr(call), statement)


# --- Where findings come from -------------------------------------------------------------------------------------


def site_node(source: Source, call: ast.Call) -> ast.AST | None:
    """Return what is to be taken out for a call not to count; None if its value is kept for later."""
    node: ast.AST = call
    while True:
        parent = source.parent(node)
        if isinstance(parent, ast.Raise):
            return parent
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            return None
        if not isinstance(parent, (ast.Call, ast.keyword)) or isinstance(node, ast.keyword):
            return node if isinstance(parent, ast.List) else call
        node = parent


class _Follower:
    """Puts findings down to their sites."""

    def __init__(self, sources: Sequence[Source], made: Trace) -> None:
        self.made = made
        self._case = 0
        self.sources = {source.path: source for source in sources}
        self.ends = {source.path: _by_end(source.tree) for source in sources}

    def begin(self, case: int) -> None:
        """What comes from now on belongs to another case."""
        self._case = case

    def follow(self, rule: str, frame: FrameType | None) -> None:
        """A finding of a rule is being made, or an error; ``frame`` is that of who makes it."""
        found = self._outwards(rule, _callers(frame), passes=True)
        error = sys.exception()
        while error is not None:
            if error.__traceback__ is not None:
                found |= self._outwards(rule, reversed(list(_steps(error.__traceback__))))
            error = error.__context__
        if not found and rule != REFUSAL:
            self.made.lost.add(rule)

    def _outwards(self, rule: str, steps: Iterator[tuple[CodeType, int]], passes: bool = False) -> bool:
        for code, at in steps:
            source = self.sources.get(code.co_filename)
            if source is None:
                continue
            node = self.ends[code.co_filename].get(_end(code, at))
            if node is None:
                continue
            taken = node if isinstance(node, ast.Raise) else site_node(source, node)
            if taken is None:
                return False
            if guard_of(source, taken) is not None:
                cases = self.made.sites[taken][rule]
                self.made.sources[taken] = source
                if not cases or cases[-1] != self._case:
                    cases.append(self._case)
                return True
            if passes or isinstance(taken, ast.Raise):
                self.made.conduits.add(code.co_name)
        return False


@contextmanager
def following(sources: Sequence[Source], made: Trace) -> Iterator[_Follower]:
    """Put all findings and errors down to their sites."""
    from ... import errors, findings
    from ...ocannl import _layout

    follower = _Follower(sources, made)

    def follow(made_by: Any, rule_of: Callable[..., str]) -> Any:
        made = made_by.__init__

        def init(self: Any, *args: Any, **more: Any) -> None:
            made(self, *args, **more)
            follower.follow(rule_of(self), sys._getframe(1))

        return mock.patch.object(made_by, "__init__", init)

    with ExitStack() as stack:
        stack.enter_context(follow(findings.Finding, lambda made: made.rule))
        stack.enter_context(follow(errors.FormatError, lambda made: made.rule))
        stack.enter_context(follow(errors.ArgumentError, lambda _: REFUSAL))
        stack.enter_context(follow(_layout.Broken, lambda made: made.rule))
        yield follower


def _callers(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _steps(traceback: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next


@cache
def _positions(code: CodeType) -> list[tuple[int | None, int | None]]:
    return [(end_line, end_column) for _, end_line, _, end_column in code.co_positions()]


def _end(code: CodeType, at: int) -> tuple[int | None, int | None]:
    return _positions(code)[at // 2]


def _by_end(tree: ast.AST) -> dict[tuple[int | None, int | None], ast.Call | ast.Raise]:
    """Return calls and raises by where they end: that much of its place every version of Python keeps of a call."""
    made: dict[tuple[int | None, int | None], ast.Call | ast.Raise] = {}
    for node in ast.walk(tree):  # from the outside in: of a raise and its call, the raise counts
        if isinstance(node, (ast.Call, ast.Raise)):
            made.setdefault((node.end_lineno, node.end_col_offset), node)
    return made


def conduits(source: Source, names: set[str]) -> Iterator[ast.Call]:
    """Yield all calls of functions of some names."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in names:
                yield node
