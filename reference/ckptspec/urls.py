"""Addresses of files elsewhere: told from paths, and shown without the secrets that they may hold.

An address as it is shown tells one file from another all the same: a digest stands for what is left out of path and
query, but never for user and password.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["is_url", "is_web", "local_path", "name_of", "scrubbed", "shown_again", "shown_url"]

# A scheme has two letters at least (one would be a drive); fsspec chains addresses with '::'.
_SCHEME: Final = "[A-Za-z][A-Za-z0-9+.-]+"
_URL: Final = re.compile(f"(?:{_SCHEME}::)*{_SCHEME}://")
_NEXT: Final = re.compile(f"::(?={_URL.pattern})")  # any other '::' is part of a name, or of a password
_BEGINNING: Final = re.compile("(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://")  # within a text: read once, however long
_END: Final = re.compile("['\"<>]|\\Z")
_WITHOUT_HOST: Final = frozenset({"file", "libarchive", "local", "memory", "tar", "zip"})
_LOCAL: Final = re.compile("(?:file|local)://(.*)", re.DOTALL)
_WITH_QUERY: Final = frozenset({"webdav", "webhdfs"})  # besides those with 'http' in their names
# What stands before the '@' is no user, but a container, or owner and repository.
_WITH_CONTAINER: Final = frozenset({"abfs", "abfss", "adl", "az", "github", "wasb", "wasbs"})
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s:@\[\]]*)(?::\d*)?|arn:[^@]*")
_LEFT_OUT: Final = "..."
_SHOWN: Final = re.compile(re.escape(f"?{_LEFT_OUT}") + "(?:#[0-9a-f]{16})?")


def is_url(text: object) -> bool:
    """Say whether a path is an address such as ``s3://bucket/key`` or ``zip://a.oam::https://host/b.zip``.

    A path of this machine that looks like one can be given as ``./x://y``.
    """
    return isinstance(text, str) and _URL.match(text) is not None


def local_path(text: str) -> str:
    """Return the path of a file of this machine that is given as an address; any other text comes back as it is."""
    found = _LOCAL.fullmatch(text)
    path = text if found is None else found.group(1)
    return f"./{path}" if found is not None and is_url(path) else path


def is_web(link: str) -> bool:
    """Say whether an address, or a link of a chain, is one in which ``?`` begins a query; elsewhere it is a character
    of a name like any other."""
    scheme, mark, _ = link.partition("://")
    return mark != "" and ("http" in scheme.lower() or scheme.lower() in _WITH_QUERY)


def name_of(url: str) -> str:
    """Return the last name in the path of an address: that of the file."""
    link = next((link for link in url.split("::") if "://" in link), url)  # as fsspec has it
    path = link.partition("://")[2]
    return (_halves(path)[0] if is_web(link) else path).rpartition("/")[2]


def shown_url(text: str) -> str:
    """Return an address as it may be shown: without user, password and query. Any other path comes back as it is.

    Of a query stays a digest, so that addresses that differ only there differ as they are shown.
    """
    return "::".join(_shown_link(link) for link in _NEXT.split(text)) if is_url(text) else text


def shown_again(text: str) -> str:
    """Return an address as ``shown_url`` does, but one that has come from there already as it is."""
    return "::".join(_shown_link(link, digests=False) for link in _NEXT.split(text)) if is_url(text) else text


def _halves(rest: str) -> tuple[str, str]:
    """Return what stands before a query or fragment, and that, with the mark that begins it."""
    at = re.search(r"[?#]|\Z", rest).start()  # type: ignore[union-attr]  # the end is found at least
    return rest[:at], rest[at:]


def _shown_link(link: str, *, digests: bool = True) -> str:
    """Show one link of a chain."""
    scheme, mark, rest = link.partition("://")
    if not mark or scheme.lower() in _WITHOUT_HOST:
        return link
    before, query = _halves(rest) if is_web(link) else (rest, "")
    head, slash, path = before.partition("/")
    user, at, host = head.rpartition("@")
    path = slash + path
    if not _HOST.fullmatch(host) and (at or is_web(link) or "@" in path):
        return f"{scheme}://{_LEFT_OUT}"  # no address at all, so that nothing tells what in it is a password
    if scheme.lower() in _WITH_CONTAINER and user.count(":") == (scheme.lower() == "github"):
        return link
    if at and "@" in path + query:  # a password may go on until there
        name = "" if "@" in query else path.rpartition("@")[2].rpartition("/")[2]
        return f"{scheme}://{_LEFT_OUT}/{name}{_instead(host + path + query, digests)}"
    return f"{scheme}://{host}{path}{_instead(query, digests) if query else ''}"


def _instead(text: str, digests: bool) -> str:
    """Return what is shown in place of a text; without ``digests``, only one that is there already is kept."""
    if not digests:
        return text if _SHOWN.fullmatch(text) else f"?{_LEFT_OUT}"
    return f"?{_LEFT_OUT}#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def scrubbed(text: str) -> str:
    """Return a message with the addresses in it as they may be shown; those that were shown stay as they are."""
    return re.sub(r"\S+", lambda found: _scrubbed(found.group()), text) if "://" in text else text


def _scrubbed(word: str) -> str:
    made, at = [], 0
    after = word.rfind("@") + 1  # a password may have quotes
    for found in _BEGINNING.finditer(word):
        if found.start() >= at:
            end = _END.search(word, max(found.end(), after)).start()  # type: ignore[union-attr]  # at the end at least
            url = word[found.start() : end].rstrip(":,;)")  # which end a part of a sentence
            shown = "::".join(_shown_link(link, digests=False) for link in _NEXT.split(url))
            made += [word[at : found.start()], shown]
            at = found.start() + len(url)
    return "".join([*made, word[at:]])
