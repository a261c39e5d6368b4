"""The modules whose checks are mutated: their syntax trees, and the functions that stand for them while they run.

A mutant is a change of the tree. The function around it is compiled again, and the code object goes into the function
that is there already, so that everybody who holds it runs the mutant: no file is written, nothing is imported twice,
and code that is not mutated runs as fast as ever.
"""

from __future__ import annotations

import ast
import gc
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["READERS", "WRITERS", "Edit", "Outer", "Source", "load", "switched"]

READERS: Final[dict[str, str]] = {
    "formats": "any",
    "oam._examine": "oam",
    "oam._tensors": "oam",
    "oam._placement": "oam",
    "ocannl._examine": "ocannl",
    "ocannl._header": "ocannl",
    "ocannl._values": "ocannl",
    "ocannl._layout": "ocannl",
    "sexp": "ocannl",
    "_sexp_reading": "ocannl",
    "safetensors._examine": "safetensors",
    "safetensors._json": "safetensors",
    "safetensors._canonical": "safetensors",
    "safetensors._anatomy": "safetensors",
}
"""The modules that say what is wrong with a file, and the format of each."""

WRITERS: Final[dict[str, str]] = {
    "neutral": "any",
    "records": "any",
    "oam._document": "oam",
    "oam._write": "oam",
    "ocannl._document": "ocannl",
    "ocannl._nodes": "ocannl",
    "ocannl._write": "ocannl",
    "safetensors._document": "safetensors",
    "safetensors._write": "safetensors",
}
"""The modules that refuse to write what a reader would refuse, or to read a document that is none."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FLAGS: Final = annotations.compiler_flag  # of the modules, too


class Place(NamedTuple):
    """Where a node stands: the field of its parent, and its number if the field is a list."""

    parent: ast.AST
    field: str
    number: int | None


class Edit(NamedTuple):
    """A change of a tree: ``old`` gives way to ``new``; None takes it out of the list that it stands in."""

    old: ast.AST
    new: ast.AST | None


class Outer(NamedTuple):
    """A function that stands in no other function, with the statement of the module that it is part of."""

    node: ast.FunctionDef
    name: str
    top: ast.stmt


class Source:
    """One module under mutation. ``name`` counts from the package."""

    def __init__(self, name: str, format: str, module: ModuleType) -> None:
        self.name = name
        self.format = format
        self.module = module
        self.path = str(module.__file__)
        self.use(ast.parse(Path(self.path).read_bytes(), self.path))
        self.outers = list(self._outers(self.tree.body, ""))
        self._live: dict[tuple[str, int], list[FunctionType]] = {}

    def use(self, tree: ast.Module) -> None:
        """Take a tree, and note where each of its nodes stands."""
        self.tree = tree
        self.places: dict[ast.AST, Place] = {}
        for parent in ast.walk(self.tree):
            for field, value in ast.iter_fields(parent):
                for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(child, ast.AST):
                        self.places[child] = Place(parent, field, index)

    def _outers(self, body: Sequence[ast.stmt], prefix: str, top: ast.stmt | None = None) -> Iterator[Outer]:
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                yield Outer(statement, prefix + statement.name, top or statement)
            elif isinstance(statement, ast.ClassDef):
                yield from self._outers(statement.body, f"{prefix}{statement.name}.", top or statement)

    def live(self, outer: Outer) -> list[FunctionType]:
        """Return the function objects of a function of the tree."""
        if not self._live:
            for thing in gc.get_objects():
                if isinstance(thing, FunctionType) and thing.__code__.co_filename == self.path:
                    code = thing.__code__
                    self._live.setdefault((code.co_qualname, code.co_firstlineno), []).append(thing)
        return self._live.get(_identity(outer), [])

    def parent(self, node: ast.AST) -> ast.AST:
        """Return what a node is part of."""
        return self.places[node].parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is part of, itself if it is one."""
        while not isinstance(node, ast.stmt):
            node = self.parent(node)
        return node

    def compiled(self, outer: Outer, edits: Sequence[Edit] = ()) -> CodeType:
        """Return the code of a function with some nodes replaced; the tree stays as it is."""
        with self._edited(edits):
            module = ast.Module([outer.top], [])
            return code_of(compile(module, self.path, "exec", flags=_FLAGS, dont_inherit=True), outer)

    @contextmanager
    def _edited(self, edits: Sequence[Edit]) -> Iterator[None]:
        undo = []
        try:
            for old, new in edits:
                if new is not None:
                    ast.fix_missing_locations(ast.copy_location(new, old))
                parent, field, index = self.places[old]
                value: Any = getattr(parent, field)
                undo.append((parent, field, value))
                if index is None:
                    setattr(parent, field, new)
                else:
                    setattr(parent, field, [*value[:index], *([] if new is None else [new]), *value[index + 1 :]])
            yield
        finally:
            for parent, field, value in reversed(undo):
                setattr(parent, field, value)


def _identity(outer: Outer) -> tuple[str, int]:
    line = outer.node.decorator_list[0].lineno if outer.node.decorator_list else outer.node.lineno
    return outer.name, line


def code_of(code: CodeType, outer: Outer) -> CodeType:
    """Return the code of a function within that of its module."""
    wanted = _identity(outer)
    todo = [code]
    while todo:
        code = todo.pop()
        if (code.co_qualname, code.co_firstlineno) == wanted:
            return code
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise LookupError(outer.name)


@contextmanager
def switched(functions: Sequence[tuple[Sequence[FunctionType], CodeType]]) -> Iterator[None]:
    """Give functions other code for a while."""
    old = [(function, function.__code__) for live, _ in functions for function in live]
    try:
        for live, code in functions:
            for function in live:
                function.__code__ = code
        yield
    finally:
        for function, code in old:
            function.__code__ = code


def load(names: dict[str, str], package: str) -> list[Source]:
    """Import modules of a package, given with their formats, and parse them."""
    return [Source(name, of, importlib.import_module(f"{package}.{name}")) for name, of in names.items()]
