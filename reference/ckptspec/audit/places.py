"""Where files are: a walk over what was named, one file at a time.

Nothing is listed in advance: a walk holds the folders that it still has to look into, never all files. Links are
followed, but nothing is met twice: a link is passed over if what it leads to has a name of its own below a folder that
was named; what it leads to elsewhere is walked once, under its real path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..errors import ArgumentError
from ..formats import extension_of
from ..source import path_text
from ..urls import is_url, local_path, shown_url
from .patterns import Filter, Pattern, States, has_magic

__all__ = ["Place", "stamp_of", "walk"]

_GONE: Final = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file to be looked at, or a place that cannot be looked at.

    ``path`` is absolute; bytes that are no UTF-8 are lone surrogates in it, as Python has them. ``size`` is in bytes;
    ``stamp`` is a text that changes when the file does. ``named`` says that this very file was named, not a folder
    above it or a pattern. ``address`` is where a file elsewhere is opened; its ``path`` is that without what is secret,
    and yet that of no other file. ``trouble`` says why there is nothing to look at: a folder that cannot be listed, a
    name that is not there.
    """

    path: str
    size: int = 0
    stamp: str = ""
    named: bool = False
    trouble: str = ""
    address: str = ""


@dataclass(slots=True)
class _Root:
    """A folder that is walked: the path under which it is shown, and its real one. ``pattern`` says what of it."""

    path: str
    real: str
    pattern: Pattern | None = None
    met: int = 0
    told: str = ""  # the pattern with the folder that it begins in


@dataclass(frozen=True, slots=True)
class _Folder:
    root: _Root
    names: tuple[str, ...]  # that lead to it from the root
    pattern: Pattern | None  # None: everything in here matches
    states: States


@dataclass(slots=True)
class _Walk:
    filter: Filter
    avoid: frozenset[str]
    roots: list[_Root] = field(default_factory=list)
    named: set[str] = field(default_factory=set)  # real paths
    special: set[str] = field(default_factory=set)  # the last names of these, and of those to avoid
    followed: set[tuple[int, int]] = field(default_factory=set)  # what links led to: device and inode


def stamp_of(path: str) -> tuple[int, str]:
    """Return size and stamp of a file, by its path or address; OSError if it cannot be asked."""
    if is_url(path):
        from ..remote import status

        return status(path)
    return _stamp(os.stat(path))


def _stamp(status: os.stat_result) -> tuple[int, str]:
    return status.st_size, f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def walk(places: Sequence[str], filter: Filter | None = None, avoid: Iterable[str] = ()) -> Iterator[Place]:
    """Yield all files below ``places``: files, folders, and patterns, which a plain path of that name comes before.

    Addresses of files elsewhere come last.

    ``filter`` says which files; those named themselves must pass it, too. ``avoid`` are paths of files that are no part
    of it, such as the database of the results. Raises ArgumentError for a text that can be no path; what the system
    refuses comes as a place with ``trouble``.
    """
    walking = _Walk(filter or Filter(), frozenset(os.path.realpath(path) for path in avoid))
    walking.special.update(map(os.path.basename, walking.avoid))
    texts = [local_path(text) for text in places]
    elsewhere = [text for text in texts if is_url(text)]
    troubles = [place for text in texts if not is_url(text) and (place := _prepare(walking, text)) is not None]
    walking.roots = _outermost(walking.roots)
    for place in troubles:
        if place.trouble or (os.path.realpath(place.path) not in walking.avoid and _wanted(walking, place)):
            yield place
    for root in list(walking.roots):  # those that links lead to are walked where they are met
        yield from _tree(walking, root)
        if root.pattern is not None and not root.met:
            yield Place(path=root.told, named=True, trouble="No file matches")
    for text in elsewhere:
        yield from _elsewhere(walking, text)


def _elsewhere(walking: _Walk, text: str) -> Iterator[Place]:
    """Yield the files that an address leads to."""
    from ..remote import find

    failed: list[OSError] = []
    met = False
    try:
        for found in find(text, failed.append, walking.filter.excludes):
            met = True
            if walking.filter.reaches(found.names):
                yield Place(
                    path=shown_url(found.url),
                    size=found.size or 0,
                    stamp=found.stamp,
                    named=found.url == text,
                    address=found.url,
                )
            while failed:
                yield _untold(failed.pop(), text)
    except OSError as error:
        failed.append(error)
    for one in failed:
        yield _untold(one, text)
    if not (met or failed):
        yield Place(path=shown_url(text), named=True, trouble="No file matches")


def _untold(error: OSError, text: str) -> Place:
    path = error.filename if isinstance(error.filename, str) else shown_url(text)
    return Place(path=path, named=path == shown_url(text), trouble=error.strerror or str(error))


def _wanted(walking: _Walk, place: Place) -> bool:
    return walking.filter.takes((os.path.basename(place.path),))


def _prepare(walking: _Walk, text: str) -> Place | None:
    """Note a folder or pattern, or return a file that was named."""
    path = os.path.abspath(path_text(text))
    if not text:
        raise ArgumentError("the name is empty", "place")
    if has_magic(text) and not os.path.lexists(path):
        fixed, pattern = _split(path)
        walking.roots.append(_Root(fixed, os.path.realpath(fixed), Pattern(pattern), told=path))
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        return Place(path=path, named=True, trouble=error.strerror or str(error))
    if stat.S_ISDIR(status.st_mode):
        walking.roots.append(_Root(path, os.path.realpath(path)))
        return None
    if not stat.S_ISREG(status.st_mode):
        return Place(path=path, named=True, trouble="Not a regular file")
    real = os.path.realpath(path)
    if real in walking.named:
        return None
    walking.named.add(real)
    walking.special.add(os.path.basename(real))
    size, stamp = _stamp(status)
    return Place(path=path, size=size, stamp=stamp, named=True)


def _split(path: str) -> tuple[str, str]:
    """Return the folder that a pattern begins in, and the rest of it."""
    parts = path.split("/")
    at = next(at for at, part in enumerate(parts) if has_magic(part))
    return "/".join(parts[:at]) or "/", "/".join(parts[at:])


def _outermost(roots: list[_Root]) -> list[_Root]:
    """Leave out folders that others are walked above of, and repetitions."""
    whole = {root.real for root in roots if root.pattern is None}
    kept: list[_Root] = []
    for root in roots:
        above = any(_below(root.real, other) is not None for other in whole if other != root.real)
        again = root.pattern is None and any(other.real == root.real and other.pattern is None for other in kept)
        if root.pattern is not None or not (above or again):
            kept.append(root)
    return kept


def _below(path: str, folder: str) -> tuple[str, ...] | None:
    """Return the names that lead from a folder to a path, or None if it is not below it."""
    if path == folder:
        return ()
    start = folder if folder.endswith("/") else folder + "/"
    return tuple(path[len(start) :].split("/")) if path.startswith(start) else None


def _tree(walking: _Walk, root: _Root) -> Iterator[Place]:
    pending = [_Folder(root, (), root.pattern, root.pattern.start if root.pattern else frozenset())]
    while pending:
        folder = pending.pop()
        inner: list[_Folder] = []
        for place in _folder(walking, folder, inner):
            root.met += 1
            yield place
        pending.extend(reversed(inner))


def _folder(walking: _Walk, folder: _Folder, inner: list[_Folder]) -> Iterator[Place]:
    """Yield the files of a folder, and note the folders in it."""
    path = os.path.join(folder.root.path, *folder.names)
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                yield from _entry(walking, folder, entry, inner)
    except OSError as error:
        # A folder that is gone was there a moment ago; of one that was named, somebody wants to know.
        if error.errno not in _GONE or not folder.names:
            yield Place(path=path, trouble=error.strerror or str(error))


def _entry(walking: _Walk, folder: _Folder, entry: os.DirEntry[str], inner: list[_Folder]) -> Iterator[Place]:
    names = (*folder.names, entry.name)
    pattern, states = folder.pattern, folder.states
    if pattern is not None:
        states = pattern.step(states, entry.name)
        if not states:
            return
        if pattern.matched(states):
            pattern = None
    try:
        if entry.is_symlink():
            yield from _link(walking, entry, _Folder(folder.root, names, pattern, states), inner)
        elif entry.is_dir(follow_symlinks=False):
            if not walking.filter.excludes(names):
                inner.append(_Folder(folder.root, names, pattern, states))
        elif pattern is None and entry.is_file(follow_symlinks=False) and _taken(walking, folder.root, names):
            size, stamp = _stamp(entry.stat(follow_symlinks=False))
            yield Place(path=entry.path, size=size, stamp=stamp)
    except OSError as error:
        if error.errno not in _GONE:
            yield Place(path=entry.path, trouble=error.strerror or str(error))


def _taken(walking: _Walk, root: _Root, names: tuple[str, ...]) -> bool:
    return walking.filter.takes(names) and not _special(walking, root, names)


def _special(walking: _Walk, root: _Root, names: tuple[str, ...]) -> bool:
    """Say whether a file was named itself, or is no part of the walk."""
    if names[-1] not in walking.special:
        return False
    real = os.path.join(root.real, *names)
    return real in walking.named or real in walking.avoid


def _link(walking: _Walk, entry: os.DirEntry[str], here: _Folder, inner: list[_Folder]) -> Iterator[Place]:
    """Follow a link, which would stand ``here`` if it were a folder."""
    if walking.filter.excludes(here.names):
        return
    try:
        real = os.path.realpath(entry.path, strict=True)
        status = os.stat(real)
    except OSError as error:
        # Links that lead nowhere are common, and of interest only where a checkpoint should be.
        if error.errno not in _GONE or extension_of(entry.name) is not None:
            what = "A link that leads nowhere" if error.errno in _GONE else error.strerror or str(error)
            yield Place(path=entry.path, trouble=what)
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    taken = here.pattern is None and stat.S_ISREG(status.st_mode) and walking.filter.takes(here.names)
    if not (is_folder or taken):
        return
    key = (status.st_dev, status.st_ino)
    if real in walking.named or real in walking.avoid or key in walking.followed or _met(walking, real, is_folder):
        return
    walking.followed.add(key)
    if is_folder:
        outside = _Root(real, real)
        if here.pattern is None:
            walking.roots.append(outside)  # whatever else leads into it: it is met
        inner.append(_Folder(outside, (), here.pattern, here.states))
        return
    size, stamp = _stamp(status)
    yield Place(path=_shown(walking, real), size=size, stamp=stamp)


def _met(walking: _Walk, real: str, is_folder: bool) -> bool:
    """Say whether a walk comes to a file or folder under a name of its own."""
    for root in walking.roots:
        names = _below(real, root.real)
        if names is None:
            continue
        pattern = root.pattern
        if pattern is not None and not any(pattern.matches(names[:end]) for end in range(len(names) + 1)):
            continue
        if is_folder:
            if not any(walking.filter.excludes(names[:end]) for end in range(1, len(names) + 1)):
                return True
        elif walking.filter.reaches(names):
            return True
    return False


def _shown(walking: _Walk, real: str) -> str:
    """Return the path of a file below a folder that was named, or its real path."""
    for root in walking.roots:
        names = _below(real, root.real)
        if names:
            return os.path.join(root.path, *names)
    return real
