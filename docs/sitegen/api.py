"""What griffe, which reads the sources for the pages on the Python interface, cannot know by itself."""

from __future__ import annotations

import re
from typing import Any, Final

from griffe import Attribute, Class, Extension

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

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Hide the fields that have no text of their own: the signature of the class shows them."""
        for member in cls.members.values():
            if member.is_attribute and not member.has_docstring:
                member.public = False
