"""The values of a record's pairs, by the kinds that the schema's tables name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import sexp
from ..sexp import Sexp
from ..spec.schema import VALUE_KINDS, Key
from ..text import show
from ._anatomy import PRECISIONS

__all__ = ["ValueReader", "form_of"]

_ONE_PRECISION: Final = f"one of {', '.join(atom.decode() for atom in PRECISIONS)}"
# What an integer breaks that is below the least of its key.
_TOO_SMALL: Final = {
    "alignment": "OCANNL-HDR-ALIGN",
    "id": "OCANNL-TEN-ID",
    "dims": "OCANNL-TEN-DIM",
    "padding": "OCANNL-PAD-NEGATIVE",
    "offset": "OCANNL-TEN-OFFSET",
    "byte_length": "OCANNL-TEN-LENGTH",
    "step": "OCANNL-TRN-NEGATIVE",
    "epoch": "OCANNL-TRN-NEGATIVE",
    "position": "OCANNL-TRN-NEGATIVE",
}


def form_of(value: Any) -> str:
    """Return a short description of an expression."""
    if isinstance(value, bytes):
        return f"the atom {show(value)}"
    return f"a list of {len(value)}" if value else "an empty list"


class ValueReader(ABC):
    """Reads values, whatever they look like. A ``path`` leads to an expression in the text, a ``name`` says it."""

    @abstractmethod
    def emit(
        self, rule: str, path: tuple[int, ...], name: str, found: object, expected: object, hint: str = ""
    ) -> None:
        """Record a finding."""

    def value(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        """Return a value of the kind that its key asks for, or None if it cannot be read."""
        reader: Callable[[Key, Sexp, tuple[int, ...], str], Any] = getattr(self, f"_{key.kind}")
        return reader(key, value, path, name)

    def _wrong(self, key: Key, value: Sexp, path: tuple[int, ...], name: str, expected: str = "") -> None:
        self.emit("OCANNL-REC-VALUE", path, name, form_of(value), expected or VALUE_KINDS[key.kind])

    def _int(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> int | None:
        if not isinstance(value, bytes):
            self._wrong(key, value, path, name, "an integer")
            return None
        try:
            number = sexp.parse_int(value)
        except ValueError as error:
            self.emit("OCANNL-REC-INTEGER", path, name, str(error), "an integer of 63 bits")
            return None
        if value != sexp.format_int(number):
            self.emit("OCANNL-REC-SPELLING", path, name, show(value), number)
        if key.least is not None and number < key.least:
            self.emit(_TOO_SMALL[key.name], path, name, number, f"at least {key.least}")
            return None
        return number

    def _atom(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> bytes | None:
        if isinstance(value, bytes):
            return value
        self._wrong(key, value, path, name, "an atom")
        return None

    def _items(
        self,
        read: Callable[[Key, Sexp, tuple[int, ...], str], Any],
        key: Key,
        value: Sexp,
        path: tuple[int, ...],
        name: str,
    ) -> tuple[Any, ...] | None:
        """Return the items of a list, or None if one of them cannot be read."""
        if not isinstance(value, tuple):
            self._wrong(key, value, path, name)
            return None
        items = [read(key, item, (*path, at), f"{name}[{at}]") for at, item in enumerate(value)]
        return None if None in items else tuple(items)

    def _atoms(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        if isinstance(value, tuple) and all(type(item) is bytes for item in value):
            return value
        return self._items(self._atom, key, value, path, name)

    def _ints(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        return self._items(self._int, key, value, path, name)

    def _pair(
        self,
        read: Sequence[Callable[[Key, Sexp, tuple[int, ...], str], Any]],
        key: Key,
        value: Sexp,
        path: tuple[int, ...],
        name: str,
    ) -> Any:
        if not isinstance(value, tuple) or len(value) != 2:
            self._wrong(key, value, path, name, "a list of two")
            return None
        made = tuple(part(key, value[at], (*path, at), name) for at, part in enumerate(read))
        return None if None in made else made

    def _pairs(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        return self._items(lambda *rest: self._pair((self._atom, self._atom), *rest), key, value, path, name)

    def _nodes(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        return self._items(lambda *rest: self._pair((self._atom, self._int), *rest), key, value, path, name)

    def _precision(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        if not isinstance(value, bytes):
            self._wrong(key, value, path, name)
            return None
        if value not in PRECISIONS:
            self.emit("OCANNL-TEN-PREC", path, name, show(value), _ONE_PRECISION)
        return PRECISIONS.get(value)

    def _option(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        if value == b"none":
            return ()
        if isinstance(value, tuple) and len(value) == 2 and value[0] == b"some" and isinstance(value[1], bytes):
            return (value[1],)
        return self._wrong(key, value, path, name)

    def _padding(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> Any:
        if value == b"none":
            return ()
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], tuple):
            return self._wrong(key, value, path, name)
        axes = self._items(
            lambda *rest: self._pair((self._int, self._int), *rest), key, value[0], (*path, 0), f"{name}.axes"
        )
        if value[1] == b"none":
            expected = "a number; save the checkpoint again with a newer version"
            self.emit("OCANNL-PAD-LEGACY", (*path, 1), f"{name}.neutral", "none", expected)
            return None if axes is None else (axes, None)
        neutral = self._float(key, value[1], (*path, 1), f"{name}.neutral")
        return None if axes is None or neutral is None else (axes, neutral)

    def _float(self, key: Key, value: Sexp, path: tuple[int, ...], name: str) -> float | None:
        if not isinstance(value, bytes):
            self._wrong(key, value, path, name, "a number")
            return None
        try:
            number = sexp.parse_float(value)
        except ValueError as error:
            self.emit("OCANNL-REC-VALUE", path, name, str(error), "a number")
            return None
        if value != sexp.format_float(number):
            self.emit("OCANNL-REC-SPELLING", path, name, show(value), sexp.format_float(number).decode())
        return number
