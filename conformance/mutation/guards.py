"""What decides whether a statement is reached: the nearest condition around it, or before it."""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

from .sources import Edit, Source

__all__ = ["Guard", "guard_of", "inverted", "negation"]

# Conditions that ask what the examination is for; they decide nothing about a file.
_PLUMBING: Final = frozenset({"wants", "silent", "thorough", "verify"})
_COMPLEMENTS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Guard(NamedTuple):
    """A condition. ``test`` is None if it is that an exception came; ``array`` says that it picks rows of arrays."""

    test: ast.expr | None
    array: bool = False


def guard_of(source: Source, node: ast.AST) -> Guard | None:
    """Return what decides, within its function, whether a node is evaluated; None if nothing does."""
    while True:
        parent, field, index = source.places[node]
        if isinstance(node, ast.stmt) and index is not None:
            for before in reversed(getattr(parent, field)[:index]):
                if isinstance(before, ast.If) and _jumps(before) and not _plumbing(before.test):
                    return Guard(before.test)
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)):
            return None
        guard = _around(parent, field, index)
        if guard is not None:
            return guard
        node = parent


def _around(parent: ast.AST, field: str, index: int | None) -> Guard | None:
    if isinstance(parent, (ast.If, ast.IfExp)) and field in ("body", "orelse"):
        return None if _plumbing(parent.test) else Guard(parent.test)
    if isinstance(parent, ast.While) and field == "body" and not isinstance(parent.test, ast.Constant):
        return Guard(parent.test)
    if isinstance(parent, ast.For) and field == "body":
        chosen = _choosing(parent.iter)
        return None if chosen is None else Guard(chosen, array=True)
    if isinstance(parent, ast.BoolOp) and index:
        return Guard(parent.values[index - 1])
    if isinstance(parent, ast.ExceptHandler):
        return Guard(None)
    return None


def _jumps(statement: ast.If) -> bool:
    """Say whether nothing after the statement is reached if its condition holds, or if it does not."""
    jumps = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return isinstance(statement.body[-1], jumps) or bool(statement.orelse and isinstance(statement.orelse[-1], jumps))


def _plumbing(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(map(_plumbing, test.values))
    return any(isinstance(part, ast.Attribute) and part.attr in _PLUMBING for part in ast.walk(test))


def _choosing(items: ast.expr) -> ast.expr | None:
    """Return the condition by which a loop's items were picked from arrays, if there is one in sight."""
    for part in ast.walk(items):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "flatnonzero":
            chosen = part.args[0]
            conditions = any(isinstance(inner, (ast.Compare, ast.BinOp)) for inner in ast.walk(chosen))
            return chosen if conditions else None
    return None


def negation(test: ast.expr) -> ast.expr:
    """Return the opposite of a condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return ast.Compare(test.left, [_COMPLEMENTS[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def inverted(guard: Guard) -> Edit | None:
    """Return the edit that makes the opposite of a condition; None if there is none, as of an exception."""
    if guard.test is None:
        return None
    if guard.array:
        return Edit(guard.test, ast.Compare(guard.test, [ast.Eq()], [ast.Constant(0)]))
    return Edit(guard.test, negation(guard.test))
