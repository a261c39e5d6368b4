"""As much of ImHex's pattern language as the exports use: enough to run them on a file.

There is no ImHex without a screen. This reads a pattern strictly, so that what it does not know is an error: every
type must be declared before it is used, every name must be known where it is read. It follows the language's
documentation: a member advances the position by its size, a placed one (``@``) does not; a member with ``=`` is a
variable; conditions choose between members; a parameter of a struct is a value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

__all__ = ["Member", "PatternError", "run", "sizes"]

_TOKEN: Final = re.compile(
    r"\s+|//[^\n]*|(?P<pragma>\#pragma[^\n]*)"
    r'|(?P<token>"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|0x[0-9a-fA-F]+|\d+'
    r"|[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*|\[\[|\]\]|&&|\|\||==|[-+*/<>@$=.,:;(){}\[\]])"
)
_FILE_SIZE: Final = "std::mem::size"
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SCALARS: Final = {"float": "f", "double": "d", "char": "c"} | {
    f"{kind}{8 * size}": letter if kind == "u" else letter.lower()
    for size, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
    for kind in ("u", "s")
}


class PatternError(Exception):
    """The pattern is not what this reader knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a pattern found: a scalar, or an array of scalars, at a place in the file."""

    path: str
    offset: int
    size: int
    type: str
    comment: str


@dataclass(slots=True)
class _Declaration:
    type: str
    name: str
    count: list[str] | None = None
    argument: list[str] | None = None
    place: list[str] | None = None
    value: list[str] | None = None
    comment: str = ""
    big: bool = False


@dataclass(slots=True)
class _If:
    condition: list[str]
    then: list[Any]
    otherwise: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Struct:
    parameter: str | None
    body: list[Any]


class _Parser:
    """Reads the declarations of a pattern."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.enums: dict[str, tuple[str, dict[str, int]]] = {}
        self.structs: dict[str, _Struct] = {}
        self.placed: list[_Declaration] = []
        while self.at < len(self.tokens):
            self._top()

    def _next(self, *expected: str) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else "the end"
        if expected and token not in expected:
            raise PatternError(f"found {token}, expected {' or '.join(expected)}: {self.tokens[self.at - 8 : self.at]}")
        self.at += 1
        return token

    def _peek(self, *tokens: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in tokens

    def _name(self) -> str:
        token = self._next()
        if not _NAME.fullmatch(token) or token in _SCALARS or token in ("if", "else", "enum", "struct", "bool", "str"):
            raise PatternError(f"{token} is no name")
        return token

    def _until(self, *ends: str) -> list[str]:
        """Return the tokens of an expression, up to an end that no bracket within it holds."""
        found: list[str] = []
        depth = 0
        while depth or not self._peek(*ends):
            token = self._next()
            depth += (token in "([") - (token in ")]")
            if "::" in token and token != _FILE_SIZE:
                enum, member = token.split("::")
                if member not in self.enums[enum][1]:
                    raise PatternError(f"{token} is no name that was declared")
            found.append(token)
        if not found:
            raise PatternError("an empty expression")
        return found

    def _top(self) -> None:
        if self._peek("import"):
            self._until(";")
            self._next(";")
        elif self._peek("enum"):
            self._enum()
        elif self._peek("struct"):
            self._structure()
        else:
            self.placed.append(self._declaration())
            if self.placed[-1].place is None:
                raise PatternError("a declaration without a place")

    def _enum(self) -> None:
        self._next("enum")
        name = self._name()
        self._next(":")
        base = self._next(*_SCALARS)
        self._next("{")
        members: dict[str, int] = {}
        while not self._peek("}"):
            member = self._name()
            self._next("=")
            members[member] = int(self._next(), 0)
            self._next(",")
        self._next("}")
        self._next(";")
        self.enums[name] = (base, members)

    def _structure(self) -> None:
        self._next("struct")
        name, parameter = self._name(), None
        if self._peek("<"):
            self._next("<")
            self._next("auto")
            parameter = self._name()
            self._next(">")
        body = self._block()
        self._next(";")
        self.structs[name] = _Struct(parameter, body)

    def _block(self) -> list[Any]:
        self._next("{")
        body: list[Any] = []
        while not self._peek("}"):
            body.append(self._if() if self._peek("if") else self._declaration())
        self._next("}")
        return body

    def _if(self) -> _If:
        self._next("if")
        self._next("(")
        condition = self._until(")")
        self._next(")")
        made = _If(condition, self._block())
        if self._peek("else"):
            self._next("else")
            made.otherwise = [self._if()] if self._peek("if") else self._block()
        return made

    def _declaration(self) -> _Declaration:
        big = self._peek("be")
        if big:
            self._next("be")
        type_name = self._next()
        if type_name not in _SCALARS and type_name not in self.enums and type_name not in self.structs:
            raise PatternError(f"{type_name} is no type that was declared")
        argument = None
        if self._peek("<"):
            self._next("<")
            argument = self._until(">")
            self._next(">")
            if len(argument) != 1:  # a comparison and the end of an argument look the same
                raise PatternError("an argument that is no plain name or number")
        made = _Declaration(type_name, self._name(), argument=argument, big=big)
        if self._peek("["):
            self._next("[")
            made.count = self._until("]")
            self._next("]")
        if self._peek("="):
            self._next("=")
            made.value = self._until(";")
        if self._peek("@"):
            self._next("@")
            made.place = self._until("[[", ";")
        if self._peek("[["):
            for token in ("[[", "comment", "("):
                self._next(token)
            made.comment = self._next()[1:-1].replace('\\"', '"').replace("\\\\", "\\")
            for token in (")", "]]"):
                self._next(token)
        self._next(";")
        return made


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise PatternError(f"cannot read {text[at : at + 20]!r}")
        if match["token"]:
            yield match["token"]
        at = match.end()


class _Runner:
    """Runs a pattern on a file."""

    def __init__(self, parser: _Parser, data: bytes) -> None:
        self.parser, self.data, self.members = parser, data, list[Member]()
        self.codes: dict[int, CodeType] = {}  # of expressions, by the identity of their tokens

    def evaluate(self, tokens: list[str], values: dict[str, Any], at: int) -> Any:
        if id(tokens) not in self.codes:
            self.codes[id(tokens)] = compile("".join(map(self.word, tokens)), "a pattern", "eval")
        names = {"size_of_file": lambda: len(self.data), "position": at, **values}
        return eval(self.codes[id(tokens)], {"__builtins__": {}}, names)  # the pattern is ours

    def word(self, token: str) -> str:
        """Return a token of an expression as Python has it."""
        if "::" in token and token != _FILE_SIZE:
            name, member = token.split("::")
            return str(self.parser.enums[name][1][member])
        words = {
            "&&": " and ",
            "||": " or ",
            "/": "//",
            "$": "position",
            "'\\0'": "'\\x00'",
            _FILE_SIZE: "size_of_file",
        }
        return words.get(token, token)

    def declare(self, item: _Declaration, where: str, values: dict[str, Any], at: int) -> int:
        """Read one declaration; return where the next one starts."""
        if item.value is not None:
            values[item.name] = self.evaluate(item.value, values, at)
            return at
        start = at if item.place is None else self.evaluate(item.place, values, at)
        count = None if item.count is None else self.evaluate(item.count, values, at)
        argument = None if item.argument is None else self.evaluate(item.argument, values, at)
        path = f"{where}.{item.name}" if where else item.name
        end = start
        if item.type in self.parser.structs:
            found: list[Any] = []
            for row in range(1 if count is None else count):
                value, end = self.structure(item, path if count is None else f"{path}[{row}]", argument, end)
                found.append(value)
            values[item.name] = found[0] if count is None else found
        else:
            values[item.name], end = self.scalar(item, path, count, start)
        return at if item.place is not None else end

    def structure(self, item: _Declaration, path: str, argument: Any, at: int) -> tuple[Any, int]:
        made = self.parser.structs[item.type]
        if (made.parameter is None) != (argument is None):
            raise PatternError(f"{item.type} is used with an argument that it does not have, or without its own")
        values = {} if made.parameter is None else {made.parameter: argument}
        end = self.body(made.body, path, values, at)
        return type(item.type, (), values), end

    def body(self, items: list[Any], path: str, values: dict[str, Any], at: int) -> int:
        for item in items:
            if isinstance(item, _If):
                chosen = item.then if self.evaluate(item.condition, values, at) else item.otherwise
                at = self.body(chosen, path, values, at)
            else:
                at = self.declare(item, path, values, at)
        return at

    def scalar(self, item: _Declaration, path: str, count: int | None, at: int) -> tuple[Any, int]:
        letter = _SCALARS[self.parser.enums[item.type][0] if item.type in self.parser.enums else item.type]
        order = ">" if item.big else "<"
        size = struct.calcsize(letter) * (1 if count is None else count)
        if count == 0 or at + size > len(self.data):
            raise PatternError(f"{path}: {size} bytes at {at}")
        self.members.append(Member(path=path, offset=at, size=size, type=item.type, comment=item.comment))
        found = struct.unpack_from(f"{order}{1 if count is None else count}{letter}", self.data, at)
        if letter == "c":
            found = tuple(byte.decode("latin-1") for byte in found)
        return found[0] if count is None else found, at + size


def run(text: str, data: bytes) -> list[Member]:
    """Return what a pattern finds in a file, in the order in which it looks."""
    runner = _Runner(_Parser(text), data)
    for item in runner.parser.placed:
        runner.declare(item, "", {}, 0)
    return runner.members


def sizes(text: str) -> dict[str, int]:
    """Return the size of each struct of a pattern in bytes, without what conditions and places add."""
    parser = _Parser(text)

    def size(item: Any) -> int:
        if isinstance(item, _If) or item.value is not None or item.place is not None:
            return 0
        if item.type in parser.structs:
            return total(item.type)
        base = parser.enums[item.type][0] if item.type in parser.enums else item.type
        count = 1 if item.count is None else int(item.count[0])
        return struct.calcsize(_SCALARS[base]) * count

    def total(name: str) -> int:
        return sum(size(item) for item in parser.structs[name].body)

    plain = [name for name, made in parser.structs.items() if all(_fixed(item) for item in made.body)]
    return {name: total(name) for name in plain}


def _fixed(item: Any) -> bool:
    return isinstance(item, _If) or item.count is None or (item.count[0].isdigit() and len(item.count) == 1)
