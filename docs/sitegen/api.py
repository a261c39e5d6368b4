"""What griffe, which reads the sources for the pages on the Python interface, cannot know by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from griffe import Attribute, Class, Extension, Module

from ckptspec.records import default_value
from ckptspec.spec import schema

__all__ = ["Interface"]

_FROM_SCHEMA: Final = re.compile(r'default_value\((?P<record>\w+), [\'"](?P<field>\w+)[\'"]\)')


class Interface(Extension):
    """Shows defaults from the schema as values, and fields of a class in its signature alone if that says it all."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Put the value in the place of the call that finds it in the schema."""
        found = _FROM_SCHEMA.fullmatch(str(attr.value))
        if found:
            attr.value = repr(default_value(getattr(schema, found["record"]), found["field"]))

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Take out fields that have no text of their own: the signature of their class shows them."""
        for cls in _classes(pkg):
            for member in list(cls.members.values()):
                if not member.is_alias and member.is_attribute and not member.has_docstring:
                    cls.del_member(member.name)


def _classes(found: Module | Class) -> Iterator[Class]:
    for member in found.members.values():
        if isinstance(member, Class):
            yield member
        if isinstance(member, Module | Class):
            yield from _classes(member)
