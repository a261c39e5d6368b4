"""Files elsewhere: whatever fsspec can open, read by ranges.

Only what is asked for is fetched, apart from a little more where reads are small: headers, tables and indexes of a file
of a gigabyte cost some hundred kilobytes. Reads that go on where others ended fetch more at a time. Payloads are
streamed with several requests under way. What has to be mapped is fetched once, to a temporary file without a name.
Broken connections are tried again; a file that changes meanwhile is an error. fsspec handles credentials: nothing of
an address that may be secret is shown (``urls.shown_url``), and nothing that others say but as harmless text in one
line (``_plain``).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import inspect
import os
import random
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .errors import FormatError
from .source import BLOCK, CHANGED, FileSource, Source, changed, shrunk
from .streaming import read_ahead
from .text import harmless, printable, shorten
from .urls import name_of, scrubbed, shown_url

if TYPE_CHECKING:
    from .audit.patterns import Pattern, States

__all__ = ["Found", "RemoteSource", "find", "open_url", "stamp_of", "status"]

ATTEMPTS: Final = 5  # at whatever a broken connection can spoil
PAUSE: Final = 0.2  # seconds before the second attempt; twice as long before each further one
TIMEOUT: Final = 60.0  # seconds that a web server may take for the next bytes
DEEPEST: Final = 32  # folders below the one that was named in which files are looked for
STREAMS: Final = 4  # requests under way at a time where payloads are streamed
_NEAR: Final = 32 << 10  # bytes that a small read fetches at least
_MOST: Final = 4 << 20  # bytes that reads which go on where others ended fetch at a time
_ALONE: Final = 256 << 10  # bytes from which on a read fetches just what it asks for, where several are under way
_WINDOWS: Final = 8  # stretches of such a size that are kept
_REPEATED: Final = 4  # pages above a page that have links of the same names: then it is taken for a loop
_LONGEST: Final = 200  # characters of what others say

Result = TypeVar("Result")


class _ConnectionError(Exception):
    """What the other side said, without its secrets, and whether it is worth asking again."""

    def __init__(self, number: int, text: str, again: bool) -> None:
        super().__init__(text)
        self.number = number
        self.text = text
        self.again = again


class _WithoutRangesError(Exception):
    """The other side gives whole files only."""


class _TemporaryError(OSError):
    """Something is wrong on this side: a temporary file cannot be written."""


# --------------------------------------------------------------------------------------------------------- file systems


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    name = shown_url(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        text = "Addresses are read with fsspec, which is not installed: pip install 'ckptspec[remote]'"
        raise OSError(errno.EPROTONOSUPPORT, text, name) from None
    try:
        _check_chain(url, name)
        system, path = url_to_fs(url, **_settings(url))
    except OSError as error:
        raise error if error.filename == name else _os_error(_understood(error), name) from None
    except (ImportError, ValueError) as error:  # names a package that is missing, or an unknown scheme
        text = f"This address cannot be opened: {_plain(str(error))}"
        raise OSError(errno.EPROTONOSUPPORT, text, name) from None
    except Exception as error:
        raise _os_error(_understood(error), name) from None
    return system, path


def _check_chain(url: str, name: str) -> None:
    """Raise OSError for a ``::`` after an address that nothing can follow: what it names would not be opened."""
    from fsspec.core import get_filesystem_class

    for link in url.split("::")[:-1]:
        scheme = link.partition("://")[0]
        parts = get_filesystem_class(scheme).__mro__
        taken = {name for part in parts[:-1] for name in inspect.signature(part.__init__).parameters}
        if not {"fo", "fs", "target_protocol"} & taken:
            text = f"'::' begins the next address, and none can follow one of {scheme}; no name can have it"
            raise OSError(errno.EINVAL, text, name)


def _settings(url: str) -> dict[str, Any]:
    """Return the time-outs of web servers, unless fsspec's configuration has others."""
    from fsspec.config import conf

    made = {}
    for link in url.split("::"):
        scheme = link.partition("://")[0]
        if scheme in ("http", "https"):
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT, sock_read=TIMEOUT)
            made[scheme] = {"client_kwargs": {"timeout": timeout} | conf.get(scheme, {}).get("client_kwargs", {})}
    return made


def open_url(url: str) -> Source:
    """Open a file by its address; OSError if it cannot be read, or nothing here knows such addresses."""
    system, path = _file_system(url)
    if "file" in _protocols(system):
        try:
            local = FileSource(path)
        except OSError as error:
            error.filename = shown_url(url)
            raise
        local.name = shown_url(url)
        return local
    return RemoteSource(url, system, path)


def _protocols(system: Any) -> tuple[str, ...]:
    names = system.protocol
    return (names,) if isinstance(names, str) else tuple(names)


_STAMPS: Final = (
    ("ETag", "etag", "e_tag"),
    ("generation", "md5Hash", "Content-MD5", "content_md5", "CRC"),
    ("LastModified", "Last-Modified", "last_modified", "updated", "mtime", "modified", "date_time", "created"),
)


def stamp_of(info: Mapping[str, Any]) -> str:
    """Return what tells one content of a file from another: its etag, or else a checksum, or the time it was changed.

    ``info`` is what fsspec knows of the file. The text is empty if it knows nothing of this kind.
    """
    for keys in _STAMPS:
        for key in keys:
            if info.get(key):
                return f"{key} {info[key]}"
    return ""


class Found(NamedTuple):
    """A file that was found: its address, its size in bytes if that is known, and its stamp.

    ``names`` are those that lead to it from the folder that was named; of a file that was itself named, its own.
    """

    url: str
    size: int | None
    stamp: str
    names: tuple[str, ...]


def find(
    url: str,
    failed: Callable[[OSError], None] | None = None,
    excludes: Callable[[Sequence[str]], bool] = lambda names: False,
) -> Iterator[Found]:
    """Yield the files below an address, folder by folder; an address of a file, or a pattern, gives what it names.

    What is there is no pattern, whatever its name. A folder that cannot be listed, or is not looked into, and a file
    that no address leads to is given to ``failed``, and the rest goes on; without ``failed``, OSError is raised. Not
    looked into are folders more than ``DEEPEST`` below the one that was named, and pages of a web server that list what
    a page above them lists. ``excludes`` says by the names that lead to it what is left out, folders with all that is
    in them.
    """
    system, path = _file_system(url)
    return _Finding(url, system, path, failed, excludes).files()


class _Entry(NamedTuple):
    names: tuple[str, ...]  # that lead to it from the folder in which it is listed
    info: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Folder:
    name: str  # as the file system has it
    names: tuple[str, ...]
    pattern: Pattern | None  # None: everything in here matches
    states: States
    above: tuple[_Page, ...] = ()


@dataclass(slots=True)
class _Page:
    """What tells a page of a web server from others: the names of its folders, and its files, once they are asked."""

    folders: str
    files: list[_Entry]
    content: str | None = None


@dataclass(slots=True)
class _Finding:
    url: str
    system: Any
    path: str
    failed: Callable[[OSError], None] | None
    excludes: Callable[[Sequence[str]], bool]
    met: set[str] = field(default_factory=set)  # pages
    is_web: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_web = "http" in _protocols(self.system)
        if self.is_web:
            self.path = _without_dots(self.path)
        self.system.invalidate_cache()  # a listing of before says nothing about now

    def files(self) -> Iterator[Found]:
        try:
            info = _repeated(lambda: self.system.info(self.path), shown_url(self.url))
        except OSError:
            at = self._magic()
            if at < 0:
                raise
            top = self._beginning(at)
        else:
            if info["type"] == "file" and not (self.is_web and self.path.endswith("/")):
                yield Found(self.url, info.get("size"), stamp_of(info), (name_of(self.url),))
                return
            top = _Folder(self.path, (), None, frozenset())
        if hasattr(self.system, "_get_dirs"):  # an archive, whose members are known
            yield from self._members(top)
            return
        pending = [top]
        while pending:
            folder = pending.pop()
            try:
                files, inner = self._folder(folder)
            except OSError as error:
                self._tell(error, self._address(folder.name))
                continue
            for entry in files:
                yield from self._found(self._asked(entry.info), (*folder.names, *entry.names))
            pending.extend(reversed(inner))

    def _magic(self) -> int:
        """Return where in the path a pattern begins, or -1."""
        # In an address of the web, a question mark begins the query.
        path, marks = (self.path.partition("?")[0], "*[") if self.is_web else (self.path, "*?[")
        return min((path.index(mark) for mark in marks if mark in path), default=-1)

    def _beginning(self, at: int) -> _Folder:
        """Return the folder that a pattern begins in."""
        from .audit.patterns import Pattern  # late: only who looks at many files has patterns

        start = self.path[:at].rpartition("/")[0]
        pattern = Pattern(self.path[len(start) :].partition("?")[0] if self.is_web else self.path[len(start) :])
        return _Folder(f"{start}/" if self.is_web else start, (), pattern, pattern.start)

    # --------------------------------------------------------------------------------------------------- one folder

    def _members(self, top: _Folder) -> Iterator[Found]:
        """Yield the members of an archive, those of a folder before those of the folders in it."""
        self.system._get_dirs()
        entries = [_Entry(self._relative(name, top), info) for name, info in self.system.dir_cache.items()]
        files = [one for one in entries if one.names and one.info["type"] == "file"]
        for entry in sorted(files, key=lambda one: [(1, name) for name in one.names[:-1]] + [(0, one.names[-1])]):
            if self._below(top, entry, is_folder=False) is not None:
                yield from self._found(entry.info, entry.names)

    def _folder(self, folder: _Folder) -> tuple[list[_Entry], list[_Folder]]:
        """Return the files of a folder, and the folders in it; OSError if it is not looked into."""
        if len(folder.names) > DEEPEST:
            raise OSError(errno.ELOOP, f"More than {DEEPEST} folders deep: not looked into")
        entries = self._listed(folder)
        folders = [entry for entry in entries if entry.info["type"] == "directory"]
        files = [entry for entry in entries if entry.info["type"] == "file"]
        above = folder.above
        if self.is_web and folders:
            page = _Page(_digest(entry.names for entry in folders), files)
            alike = [one for one in above if one.folders == page.folders]
            if len(alike) >= _REPEATED or any(self._content(one) == self._content(page) != "" for one in alike):
                text = "It lists what a page above it lists, and is taken for a loop: not looked into"
                raise OSError(errno.ELOOP, text)
            files = page.files
            above = (*above, page)
        inner = []
        for entry in folders:
            below = self._below(folder, entry, is_folder=True)
            name = str(entry.info["name"])
            if below is not None and name not in self.met:
                if self.is_web:  # one page may have links to folders of another
                    self.met.add(name)
                inner.append(_Folder(name, (*folder.names, *entry.names), *below, above))
        return [entry for entry in files if self._below(folder, entry, is_folder=False) is not None], inner

    def _content(self, page: _Page) -> str:
        """Return what tells the files of a page from those of another; nothing if nothing does."""
        if page.content is None:
            page.files = [_Entry(entry.names, self._asked(entry.info)) for entry in page.files]
            known = [(entry.names, entry.info.get("size"), stamp_of(entry.info)) for entry in page.files]
            page.content = _digest(known) if known and all(stamp for _, _, stamp in known) else ""
        return page.content

    def _listed(self, folder: _Folder) -> list[_Entry]:
        """Return what is in a folder, sorted; what leads out of it is left out."""
        if folder.names and not folder.names[-1]:
            infos = self._nameless(folder)
        else:
            infos = _repeated(lambda: self.system.ls(folder.name, detail=True), shown_url(self.url))
        entries = []
        for info in infos:
            name = str(info["name"])
            if self.is_web and "/." in name:
                name = _without_dots(name)
                info = {**info, "name": name}
            names = self._relative(name, folder)
            marker = info["type"] == "file" and not info.get("size") and names == ("",)  # of a folder in a bucket
            if names and not marker and not (self.is_web and names == ("",)):
                entries.append(_Entry(names, info))
        return sorted(entries, key=lambda entry: str(entry.info["name"]))

    def _nameless(self, folder: _Folder) -> list[Mapping[str, Any]]:
        """Return all files below a folder whose name is empty, as a bucket may have it: it cannot be listed as such."""
        parent = folder.name.removesuffix("/")
        found = _repeated(lambda: self.system.find(parent, prefix="/", detail=True), shown_url(self.url))
        if not found:
            raise OSError(errno.EINVAL, "A folder without a name cannot be listed")
        return list(found.values())

    def _relative(self, name: str, folder: _Folder) -> tuple[str, ...]:
        """Return the names that lead from a folder to what the file system calls ``name``; none if nothing does."""
        start = folder.name
        if self.is_web:
            start, name = (text.partition("://")[2] for text in (f"{start.rstrip('/')}/", name))  # http, https: all one
            path, mark, query = name.removeprefix(start).partition("?")
            *folders, last = path.rstrip("/").split("/")
            return (*folders, last + mark + query) if name.startswith(start) else ()
        if start in ("", "/"):
            return tuple(name.removeprefix(self.system.root_marker).split("/"))
        return tuple(name[len(start) + 1 :].split("/")) if name.startswith(f"{start}/") else ()

    def _below(self, folder: _Folder, entry: _Entry, *, is_folder: bool) -> tuple[Pattern | None, States] | None:
        """Return what of the pattern is left for an entry of a folder, or None if the entry is not wanted."""
        pattern, states = folder.pattern, folder.states
        for number, name in enumerate(entry.names, 1):
            is_file = number == len(entry.names) and not is_folder
            if not is_file and self.excludes((*folder.names, *entry.names[:number])):
                return None
            if pattern is not None:
                states = pattern.step(states, name.partition("?")[0] if self.is_web else name)
                if not states:
                    return None
                pattern = None if pattern.matched(states) else pattern
        return None if pattern is not None and not is_folder else (pattern, states)

    # ------------------------------------------------------------------------------------------------------ one file

    def _asked(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is known of a file; a link of a page says nothing of what it leads to."""
        if self.is_web and info.get("size") is None and "ETag" not in info:
            with contextlib.suppress(OSError):
                return _repeated(lambda: {**self.system.info(info["name"]), "name": info["name"]}, shown_url(self.url))
        return info

    def _found(self, info: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Found]:
        name = str(info["name"])
        url = self._address(name)
        if self.excludes(names):
            return
        if self._leads_to(url, name):
            yield Found(url, info.get("size"), stamp_of(info), names)
        else:
            text = "No address leads to a file of this name: copy it, or give it another one"
            self._tell(OSError(errno.EINVAL, text), url)

    def _tell(self, error: OSError, url: str) -> None:
        error.filename = shown_url(url)
        if self.failed is None:
            raise error
        self.failed(error)

    def _address(self, name: str) -> str:
        """Return the address of what the file system calls ``name``."""
        links = self.url.split("::")
        at = self._link(links)
        if not self.is_web:
            scheme, _, rest = links[at].partition("://")
            rest, path = rest.rstrip("/"), self.path.rstrip("/")
            if rest and rest.endswith(path):  # what stands before it is a host
                name = f"{scheme}://{rest.removesuffix(path)}{name}"
            else:
                name = f"{scheme}://{name.removeprefix(self.system.root_marker)}"
        return "::".join([*links[:at], name, *links[at + 1 :]])

    @staticmethod
    def _link(links: Sequence[str]) -> int:
        return next(number for number, link in enumerate(links) if "://" in link)  # caches and the like have no path

    def _leads_to(self, url: str, name: str) -> bool:
        """Say whether the file system takes an address for the file of this name, and for no other."""
        before, after = self.url.split("::"), url.split("::")
        at = self._link(before)
        if len(before) != len(after) or "?versionId=" in name:
            return False
        with contextlib.suppress(Exception):  # file systems that have no such notion
            strip = self.system._strip_protocol
            return bool(strip(before[at]) != self.path or strip(after[at]) == name)
        return True


def _without_dots(url: str) -> str:
    """Return an address of the web without the names ``.`` and ``..`` in its path, as it is asked for."""
    before, mark, query = url.partition("?")
    made: list[str] = []
    for part in before.split("/"):
        if part == ".." and len(made) > 3:  # scheme, nothing, host
            made.pop()
        elif part not in (".", ".."):
            made.append(part)
    if before.endswith(("/.", "/..")):
        made.append("")
    return "/".join(made) + mark + query


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256(repr(sorted(map(repr, parts))).encode()).hexdigest()


def status(url: str) -> tuple[int, str]:
    """Return size in bytes (0 if nothing tells) and stamp of a file; OSError if it cannot be asked."""
    system, path = _file_system(url)
    system.invalidate_cache()
    info = _repeated(lambda: system.info(path), shown_url(url))
    return int(info.get("size") or 0), stamp_of(info)


# ---------------------------------------------------------------------------------------------------- what others raise


def _plain(text: str) -> str:
    """Return what somebody else says as it may be shown: in one line that does no harm, not long, without secrets."""
    return shorten(harmless(" ".join(scrubbed(text).split())), _LONGEST)


def _understood(error: BaseException) -> _ConnectionError:
    """Say what an exception of a file system means: they raise whatever the libraries under them do."""
    chain, seen = [error], {id(error)}
    while (cause := chain[-1].__cause__) is not None and id(cause) not in seen:
        chain.append(cause)
        seen.add(id(cause))
    for one in chain:
        kinds = {kind.__name__ for kind in type(one).__mro__}
        if "ParamValidationError" in kinds:  # its text repeats what it was given, user and password included
            return _ConnectionError(errno.EINVAL, "This address cannot be opened: no store can have such a name", False)
        if "TooManyRedirects" in kinds:
            return _ConnectionError(errno.ELOOP, "The server leads from one address to the next without end", False)
        if "InvalidURL" in kinds and "RedirectClientError" not in type(one).__name__:
            return _ConnectionError(errno.EINVAL, "This address cannot be opened: it is none of the web", False)
        if kinds & {"InvalidUrlRedirectClientError", "NonHttpUrlRedirectClientError"}:
            text = f"The server leads on to what is no address of the web: {_plain(str(one).partition(' - ')[0])}"
            return _ConnectionError(errno.EIO, text, False)
        answered = isinstance(getattr(one, "status", None), int)
        if answered and "HttpProcessingError" in {kind.__name__ for kind in type(one.__cause__).__mro__}:
            text = str(getattr(one.__cause__, "message", "")).strip().partition("\n")[0].rstrip(":")
            return _ConnectionError(errno.EIO, f"The server's answer is not proper HTTP: {_plain(text)}", False)
        status = getattr(one, "status", None)  # aiohttp's answer of a server
        if isinstance(answer := getattr(one, "response", None), dict):  # botocore's
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(status, int):
            return _answered(status, str(getattr(one, "message", "")))
    last = chain[-1]
    text = _plain(str(last)) or type(last).__name__
    if isinstance(last, FileNotFoundError):
        return _ConnectionError(errno.ENOENT, os.strerror(errno.ENOENT), False)
    if isinstance(last, IsADirectoryError):
        return _ConnectionError(errno.EISDIR, os.strerror(errno.EISDIR), False)
    if isinstance(last, PermissionError) or "credentials" in type(last).__name__.lower():
        return _ConnectionError(errno.EACCES, f"Not allowed: {text}", False)
    if isinstance(last, TimeoutError) and last.errno is None:
        return _ConnectionError(errno.ETIMEDOUT, f"The other side sent nothing for {TIMEOUT:g} seconds", True)
    if isinstance(last, OSError) and last.errno == errno.EBUSY:  # s3fs, where the etag is another one
        return _ConnectionError(errno.ESTALE, CHANGED, False)
    if isinstance(last, OSError) and last.errno in _LOCAL:
        return _ConnectionError(last.errno or errno.EIO, last.strerror or text, False)
    if _is_transient(last):
        return _ConnectionError(errno.EIO, f"Cannot be read: {text}", True)
    return _ConnectionError(errno.EIO, f"This address cannot be opened: {text}", False)


_LOCAL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOTDIR, errno.ENAMETOOLONG)
_OF_NETWORKS: Final = frozenset({"aiohttp", "aiobotocore", "botocore", "paramiko", "requests", "urllib3"})


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, ValueError) or "ParamValidationError" in {part.__name__ for part in type(error).__mro__}:
        return False  # an address that is none
    packages = {part.__module__.partition(".")[0] for part in type(error).__mro__}
    return bool(packages & _OF_NETWORKS) or isinstance(error, (OSError, EOFError))


def _answered(status: int, text: str) -> _ConnectionError:
    said = f"HTTP status {status}{f', {_plain(text)}' if text else ''}"
    if status in (404, 410):
        return _ConnectionError(errno.ENOENT, f"{os.strerror(errno.ENOENT)} ({said})", False)
    if status in (401, 403, 407):
        return _ConnectionError(errno.EACCES, f"Not allowed ({said})", False)
    if status in (412, 416):  # the etag is another one, or the file has become shorter
        return _ConnectionError(errno.ESTALE, CHANGED, False)
    return _ConnectionError(errno.EIO, f"Cannot be read ({said})", status in (408, 425, 429) or status >= 500)


def _os_error(failure: _ConnectionError, name: str) -> OSError:
    return OSError(failure.number, failure.text, name)


def _repeated(work: Callable[[], Result], name: str) -> Result:
    """Do what a broken connection can spoil, again if it does; OSError if it cannot be done."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (_WithoutRangesError, _TemporaryError):
            raise
        except Exception as error:
            failure = _understood(error)
            if not failure.again:
                raise _os_error(failure, name) from None
            if attempt == ATTEMPTS:
                text = f"{failure.text} ({ATTEMPTS} attempts)"
                raise OSError(failure.number, text, name) from None
        # Not all who lost their connection at once come back at once.
        time.sleep(PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1))  # noqa: S311
    raise AssertionError("unreachable")


# --------------------------------------------------------------------------------------------------------------- source


class _Window(NamedTuple):
    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class RemoteSource(Source):
    """A file that fsspec opens. ``name`` is its address as it may be shown; ``stamp`` tells its content from another.

    ``fetched`` is the number of bytes that were asked for so far.
    """

    streams = STREAMS

    def __init__(self, url: str, system: Any, path: str) -> None:
        self.name = self._name = shown_url(url)
        self._system = system
        self._path = path
        self._idle: deque[Any] = deque()
        self._lock = threading.Lock()
        self._windows: deque[_Window] = deque(maxlen=_WINDOWS)
        self._copy: FileSource | None = None
        self.fetched = 0
        if not getattr(system, "async_impl", False):
            self.streams = 1  # file systems that do one thing at a time
        info = self._info()
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._name)
        self.stamp = stamp_of(info)
        self._etag = info.get("ETag") if "http" in _protocols(system) else None
        if info.get("size") is None or info.get("partial") is False:
            self._keep_whole(info.get("size"))
        else:
            self.size = int(info["size"])

    def _info(self) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            self._system.invalidate_cache()  # a listing of before says nothing about now
            found: Mapping[str, Any] = self._system.info(self._path)
            return found

        return _repeated(ask, self._name)

    # ------------------------------------------------------------------------------------------------------- requests

    def _opened(self) -> Any:
        more: dict[str, Any] = {"cache_type": "none"}
        if "http" in _protocols(self._system):
            more["size"] = self.size
            if self._etag and not self._etag.startswith("W/"):
                more["headers"] = {"If-Match": self._etag}
        return self._system.open(self._path, "rb", **more)

    @contextlib.contextmanager
    def _handle(self) -> Iterator[Any]:
        """Lend a file object that nobody else uses meanwhile."""
        try:
            handle = self._idle.pop()
        except IndexError:
            handle = self._opened()
        try:
            yield handle
        except BaseException:
            with contextlib.suppress(Exception):
                handle.close()
            raise
        self._idle.append(handle)

    def _fetch(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from the other side."""

        def ask() -> bytes:
            with self._handle() as handle:
                try:
                    handle.seek(offset)
                    parts = [handle.read(size)]
                    while parts[-1] and sum(map(len, parts)) < size:
                        parts.append(handle.read(size - sum(map(len, parts))))
                except ValueError:
                    raise _WithoutRangesError from None
            return parts[0] if len(parts) == 1 else b"".join(parts)

        try:
            data = _repeated(ask, self._name)
        except _WithoutRangesError:
            self._keep_whole(self.size)
            assert self._copy is not None
            return self._copy.read(offset, size)
        with self._lock:
            self.fetched += len(data)
        if len(data) != size:
            raise changed(self._name)
        return data

    # ---------------------------------------------------------------------------------------------------------- reads

    def read(self, offset: int, size: int) -> bytes:
        if self._copy is not None:
            return self._copy.read(offset, size)
        if offset + size > self.size:
            raise shrunk(self._name)
        if size >= (_MOST if self.streams == 1 else _ALONE):
            return self._fetch(offset, size)
        return self._near(offset, size) if size else b""

    def _near(self, offset: int, size: int) -> bytes:
        """Read a little: from what was fetched last, or with what follows it."""
        with self._lock:
            before = next((one for one in self._windows if one.start <= offset <= one.end), None)
        start, known, wanted = offset, b"", _NEAR
        if before is not None:
            known = before.data[offset - before.start : offset - before.start + size]
            if len(known) == size:
                return known
            start, wanted = before.end, min(_MOST, 2 * len(before.data))
        missing = size - len(known)
        data = self._fetch(start, min(max(missing, wanted), self.size - start))
        with self._lock:
            if before in self._windows:
                self._windows.remove(before)  # type: ignore[arg-type]
            self._windows.appendleft(_Window(start, data))
        return known + data[:missing]

    def readinto(self, offset: int, buffer: memoryview) -> None:
        if self._copy is not None:
            self._copy.readinto(offset, buffer)
        else:
            buffer[:] = self.read(offset, buffer.nbytes)

    def blocks(self, offset: int, size: int, block: int = BLOCK) -> Iterator[memoryview]:
        if self.streams == 1:
            yield from super().blocks(offset, size, block)
            return
        for part in read_ahead(self, offset, size):
            for start in range(0, part.nbytes, block):
                yield part[start : start + block]

    # ----------------------------------------------------------------------------------------------------------- maps

    def view(self, offset: int, size: int) -> memoryview:
        return self._whole().view(offset, size)

    def private(self) -> memoryview:
        return self._whole().private()

    def _whole(self) -> FileSource:
        if self._copy is None:
            self._keep(read_ahead(self, 0, self.size))
            self.check_unchanged()  # now: what is written from the copy cannot be undone
        assert self._copy is not None
        return self._copy

    def _keep(self, parts: Iterator[memoryview]) -> None:
        """Keep a copy of the whole file, without a name."""
        with self._temporary():
            number, path = tempfile.mkstemp(prefix="ckptspec-", suffix=".remote")
        try:
            with os.fdopen(number, "wb", buffering=0) as file:
                for part in parts:
                    with self._temporary():
                        rest = memoryview(part)
                        while rest:
                            rest = rest[file.write(rest) :]
            with self._temporary():
                self._copy = FileSource(path)
        finally:
            os.unlink(path)
        self._copy.name = self._name
        self.size = self._copy.size

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[None]:
        """Let an error tell the folder of temporary files, which is full or not there."""
        try:
            yield
        except OSError as error:
            folder = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  # which may not be there
            text = f"{error.strerror} (the folder of temporary files, {printable(folder)})"
            raise _TemporaryError(error.errno, text, self._name) from None

    def _keep_whole(self, size: int | None) -> None:
        """Fetch the whole file from front to back, where that is all that can be had."""

        def ask() -> None:
            more = {"block_size": 0} if "http" in _protocols(self._system) else {}
            with self._system.open(self._path, "rb", **more) as handle:
                self._keep(iter(lambda: handle.read(BLOCK), b""))

        with self._lock:
            if self._copy is None:
                _repeated(ask, self._name)
                assert self._copy is not None
                self.fetched += self._copy.size
        if size is not None and self.size != size:
            raise changed(self._name)

    # ---------------------------------------------------------------------------------------------------------- ends

    def check_unchanged(self) -> None:
        """Ask for size and stamp once more; OSError if they are not those with which the file was opened."""
        info = self._info()
        if stamp_of(info) != self.stamp or info.get("size") not in (None, self.size):
            raise changed(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or issubclass(kind, FormatError):  # what was found holds for one content only
                self.check_unchanged()
        finally:
            self.close()

    def close(self) -> None:
        while self._idle:
            with contextlib.suppress(Exception):
                self._idle.pop().close()
        self._windows.clear()
        if self._copy is not None:
            self._copy.close()
