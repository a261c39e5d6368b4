"""A web server on loopback whose misbehaviour tests choose: it breaks connections, ignores ranges, changes files."""

from __future__ import annotations

import asyncio
import os
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web


@dataclass
class Behaviour:
    """What the server does with requests. ``seen`` is what was asked of it, ``sent`` the bytes of bodies."""

    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    sent: int = 0
    fails: int = 0  # requests still to be answered with 503
    breaks: int = 0  # responses still to be cut in the middle
    status: int | None = None  # of every response
    ranges: bool = True
    announces_ranges: bool | None = None
    head: int | None = None  # status of every HEAD
    length: bool = True
    etag: bool = True
    before: Callable[[int], None] | None = None  # called with the number of each GET
    page: Callable[[str], str] | None = None  # the text of every page, by its path
    redirect: str | None = None  # where every request is led to


class RawServer:
    """A web server that answers every request with the bytes of ``answer``, until ``close``; it may then stall."""

    def __init__(self, answer: bytes, *, stalls: bool = False) -> None:
        ending = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while b"\r\n\r\n" not in (asked := self.request.recv(1 << 16)):
                    if not asked:
                        return
                self.request.sendall(answer)
                if stalls:
                    ending.wait(60)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._ending = ending
        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class WebServer:
    """Serves the files of a folder until ``close``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.does = Behaviour()
        self._gets = 0
        self._loop = asyncio.new_event_loop()
        started: list[int] = []
        ready = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            app = web.Application()
            app.router.add_route("*", "/{name:.*}", self._answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
            self._loop.run_until_complete(runner.setup())
            site = web.TCPSite(runner, "127.0.0.1", 0)
            self._loop.run_until_complete(site.start())
            started.append(runner.addresses[0][1])
            ready.set()
            self._loop.run_forever()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert ready.wait(60)
        self.port = started[0]
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def reset(self) -> Behaviour:
        """Behave well again."""
        self.does, self._gets = Behaviour(), 0
        return self.does

    async def _answer(self, request: web.Request) -> Any:
        does = self.does
        does.seen.append((request.method, request.path, request.headers.get("Range")))
        if request.method == "GET":
            self._gets += 1
            if does.before is not None:
                does.before(self._gets)
        if does.status is not None:
            return web.Response(status=does.status, text="nothing for you")
        if does.fails and request.method == "GET":
            does.fails -= 1
            return web.Response(status=503)
        if does.head is not None and request.method == "HEAD":
            return web.Response(status=does.head)
        if does.redirect is not None:
            return web.Response(status=302, headers={"Location": does.redirect})
        if does.page is not None and request.path.endswith("/"):
            return web.Response(text=does.page(request.path), content_type="text/html")
        path = self.folder / request.query.get("f", request.match_info["name"])
        if path.is_dir():
            return self._listing(request, path)
        if not path.is_file():
            return web.Response(status=404)
        return await self._file(request, path)

    def _listing(self, request: web.Request, path: Path) -> Any:
        names = [name.name + ("/" if name.is_dir() else "") for name in sorted(path.iterdir())]
        base = request.path.rstrip("/")
        links = "".join(f'<a href="{base}/{name}">{name}</a>\n' for name in names)
        return web.Response(text=f"<html><body>{links}</body></html>", content_type="text/html")

    async def _file(self, request: web.Request, path: Path) -> Any:
        does, status = self.does, path.stat()
        etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        headers = {"ETag": etag} if does.etag else {}
        if does.announces_ranges is not None:
            headers["Accept-Ranges"] = "bytes" if does.announces_ranges else "none"
        if does.etag and request.headers.get("If-Match", etag) != etag:
            return web.Response(status=412)
        start, end = 0, status.st_size
        asked = request.headers.get("Range")
        if asked is not None and does.ranges:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1 if last else end, end)
            if start >= status.st_size:
                return web.Response(status=416)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{status.st_size}"
        response = web.StreamResponse(status=206 if "Content-Range" in headers else 200, headers=headers)
        if does.length:
            response.content_length = end - start
        else:
            response.enable_chunked_encoding()
        await response.prepare(request)
        if request.method == "GET":
            await self._send(request, response, path, start, end)
        return response

    async def _send(self, request: web.Request, response: Any, path: Path, start: int, end: int) -> None:
        does = self.does
        cut = does.breaks > 0
        does.breaks -= cut
        with path.open("rb") as file:
            os.lseek(file.fileno(), start, os.SEEK_SET)
            size = (end - start) // 2 if cut else end - start
            while size:
                data = file.read(min(size, 1 << 20))
                size -= len(data)
                does.sent += len(data)
                await response.write(data)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write_eof()
