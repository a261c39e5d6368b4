"""Files elsewhere: whatever fsspec can open, read by ranges.

Only what is asked for is fetched, apart from a little more where reads are small: headers, tables and indexes of a file
of a gigabyte cost some hundred kilobytes. Reads that go on where others ended fetch more at a time. Payloads are
streamed with several requests under way. What has to be mapped is fetched once, to a temporary file without a name.
Broken connections are tried again; a file that changes meanwhile is an error. Credentials are fsspec's affair: nothing
of an address that may be secret is shown (``urls.shown_url``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from .errors import FormatError
from .source import BLOCK, CHANGED, FileSource, Source, changed, shrunk
from .streaming import read_ahead
from .urls import scrubbed, shown_url

__all__ = ["Found", "RemoteSource", "find", "open_url", "stamp_of", "status"]

ATTEMPTS: Final = 5  # at whatever a broken connection can spoil
PAUSE: Final = 0.2  # seconds before the second attempt; twice as long before each further one
STREAMS: Final = 4  # requests under way at a time where payloads are streamed
_NEAR: Final = 32 << 10  # bytes that a small read fetches at least
_MOST: Final = 4 << 20  # bytes that reads which go on where others ended fetch at a time
_ALONE: Final = 256 << 10  # bytes from which on a read fetches just what it asks for, where several are under way
_WINDOWS: Final = 8  # stretches of such a size that are kept

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
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # names a package that is missing, or an unknown scheme
        raise OSError(errno.EPROTONOSUPPORT, f"Cannot be read: {scrubbed(str(error))}", name) from None
    except Exception as error:
        raise _os_error(_understood(error), name) from None
    return system, path


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
    """A file that was found: its address, its size in bytes if that is known, and its stamp."""

    url: str
    size: int | None
    stamp: str


def find(url: str, failed: Callable[[OSError], None] | None = None) -> Iterator[Found]:
    """Yield the files below an address, folder by folder; an address of a file, or a pattern, gives what it names.

    A folder that cannot be listed is given to ``failed`` and the rest goes on; without ``failed``, OSError is raised.
    """
    system, path = _file_system(url)
    name = shown_url(url)

    def place(info: Mapping[str, Any]) -> Found:
        if (
            "http" in _protocols(system) and info.get("size") is None
        ):  # a link of a page says nothing of what it leads to
            with contextlib.suppress(OSError):
                info = _repeated(lambda: {**system.info(info["name"]), "name": info["name"]}, name)
        return Found(_address(url, path, str(info["name"])), info.get("size"), stamp_of(info))

    if _has_magic(system, path):
        found = _repeated(lambda: system.glob(path, detail=True), name)
        yield from (place(found[key]) for key in sorted(found) if found[key]["type"] == "file")
        return
    info = _repeated(lambda: system.info(path), name)
    if info["type"] == "file" and not ("http" in _protocols(system) and path.endswith("/")):
        yield place(info)
        return
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            called = shown_url(_address(url, path, folder)) if folder != path else name
            entries = _repeated(lambda folder=folder: system.ls(folder, detail=True), called)  # type: ignore[misc]
        except OSError as error:
            if failed is None:
                raise
            failed(error)
            continue
        entries = sorted((entry for entry in entries if entry["name"].rstrip("/") != folder.rstrip("/")), key=_name)
        yield from (place(entry) for entry in entries if entry["type"] == "file")
        folders += [entry["name"] for entry in reversed(entries) if entry["type"] == "directory"]


def status(url: str) -> tuple[int, str]:
    """Return size in bytes (0 if nothing tells) and stamp of a file; OSError if it cannot be asked."""
    system, path = _file_system(url)
    system.invalidate_cache()
    info = _repeated(lambda: system.info(path), shown_url(url))
    return int(info.get("size") or 0), stamp_of(info)


def _address(url: str, path: str, name: str) -> str:
    """Return the address of a file called ``name`` by the file system that calls what ``url`` names ``path``."""
    links = url.split("::")
    at = next(number for number, link in enumerate(links) if "://" in link)  # caches and the like have no path
    if "://" not in name:
        scheme, _, rest = links[at].partition("://")
        same = bool(path) and rest.endswith(path)  # then what stands before it is a host
        name = f"{scheme}://{rest.removesuffix(path) + name if same else name.lstrip('/')}"
    return "::".join([*links[:at], name, *links[at + 1 :]])


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry["name"])


def _has_magic(system: Any, path: str) -> bool:
    # In an address, a question mark begins the query.
    return any(mark in path for mark in ("*[" if "http" in _protocols(system) else "*?["))


# ---------------------------------------------------------------------------------------------------- what others raise


def _understood(error: BaseException) -> _ConnectionError:
    """Say what an exception of a file system means: they raise whatever the libraries under them do."""
    chain, seen = [error], {id(error)}
    while (cause := chain[-1].__cause__) is not None and id(cause) not in seen:
        chain.append(cause)
        seen.add(id(cause))
    for one in chain:
        status = getattr(one, "status", None)  # aiohttp's answer of a server
        if isinstance(answer := getattr(one, "response", None), dict):  # botocore's
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(status, int):
            return _answered(status, str(getattr(one, "message", "")))
    last = chain[-1]
    text = scrubbed(str(last)) or type(last).__name__
    if isinstance(last, FileNotFoundError):
        return _ConnectionError(errno.ENOENT, os.strerror(errno.ENOENT), False)
    if isinstance(last, IsADirectoryError):
        return _ConnectionError(errno.EISDIR, os.strerror(errno.EISDIR), False)
    if isinstance(last, PermissionError) or "credentials" in type(last).__name__.lower():
        return _ConnectionError(errno.EACCES, f"Not allowed: {text}", False)
    if isinstance(last, OSError) and last.errno == errno.EBUSY:  # s3fs, where the etag is another one
        return _ConnectionError(errno.ESTALE, CHANGED, False)
    if isinstance(last, OSError) and last.errno in _LOCAL:
        return _ConnectionError(last.errno or errno.EIO, last.strerror or text, False)
    return _ConnectionError(errno.EIO, f"Cannot be read: {text}", _is_transient(last))


_LOCAL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOTDIR, errno.ENAMETOOLONG)
_OF_NETWORKS: Final = frozenset({"aiohttp", "aiobotocore", "botocore", "paramiko", "requests", "urllib3"})


def _is_transient(error: BaseException) -> bool:
    packages = {part.__module__.partition(".")[0] for part in type(error).__mro__}
    return bool(packages & _OF_NETWORKS) or isinstance(error, (OSError, EOFError))


def _answered(status: int, text: str) -> _ConnectionError:
    said = f"HTTP status {status}{f', {scrubbed(text)}' if text else ''}"
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
        except _WithoutRangesError:
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
        number, path = tempfile.mkstemp(prefix="ckptspec-", suffix=".remote")
        try:
            with os.fdopen(number, "wb") as file:
                for part in parts:
                    file.write(part)
            self._copy = FileSource(path)
        finally:
            os.unlink(path)
        self._copy.name = self._name
        self.size = self._copy.size

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
