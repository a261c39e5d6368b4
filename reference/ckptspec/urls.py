"""Addresses of files elsewhere: told from paths, and shown without the secrets that they may hold."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_url", "scrubbed", "shown_url"]

# A scheme has two letters at least (one would be a drive); fsspec chains addresses with '::'.
_SCHEME: Final = "[A-Za-z][A-Za-z0-9+.-]+"
_URL: Final = re.compile(f"(?:{_SCHEME}::)*{_SCHEME}://")
_EMBEDDED: Final = re.compile(f"{_SCHEME}://[^\\s'\"<>]+")
_WITHOUT_HOST: Final = frozenset({"file", "libarchive", "local", "memory", "tar", "zip"})


def is_url(text: object) -> bool:
    """Say whether a path is an address such as ``s3://bucket/key`` or ``zip://a.oam::https://host/b.zip``.

    A path of this machine that looks like one can be given as ``./x://y``.
    """
    return isinstance(text, str) and _URL.match(text) is not None


def shown_url(text: str) -> str:
    """Return an address as it may be shown: without user, password and query. Any other path comes back as it is."""
    if not is_url(text):
        return text
    return "::".join(map(_shown_link, text.split("::")))


def _shown_link(link: str) -> str:
    scheme, mark, rest = link.partition("://")
    if not mark or scheme.lower() in _WITHOUT_HOST:
        return link
    rest, query, _ = rest.partition("?")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{'?...' if query else ''}"


def scrubbed(text: str) -> str:
    """Return a message of somebody else's with the addresses in it as they may be shown."""
    return _EMBEDDED.sub(lambda found: _shown_link(found.group()), text)
