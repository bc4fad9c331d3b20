# SPDX-License-Identifier: Apache-2.0
"""A server as it would run inside a sandbox, in a thread of the test, that
keeps a record of everything it was asked.

    with App(gw.proxy_dir, 8000) as app:
        get(gw.https, "/v1/proxy/8000/echo", token=gw.token)
        assert app.requests[0].target == "/echo"

What it serves, by path:

    /               200 "hello"
    /echo           the request as JSON: method, target, headers, body length
                    and sha256
    /mirror         the request body, chunked, piece by piece as it arrives
    /bytes?n=       n pseudo-random bytes with Content-Length (see pattern())
    /chunked?n=     the same in chunks
    /sse?n=&ms=     n events, ms apart (n=0: until the client goes)
    /ws             WebSocket: echoes every frame but answers a close
    /status/<n>     that status, with a small body where one is allowed
    /redirect?to=   302 there;  /cookie?path=  a Set-Cookie with that path
    /slow?ms=       answers after that time
    /silent         never answers;  /drop  closes without an answer
    /short          promises 100 bytes, sends 10, closes
    /interim        103 with a Link, then 200
    /raw            answers with what app.raw holds, then closes (when
                    app.raw_close)
Any other path is 404 "no such page".
"""

import asyncio
import dataclasses
import hashlib
import json
import os
import pathlib
import threading
import urllib.parse

from . import ws


@dataclasses.dataclass
class Request:
    method: str
    target: str
    headers: list
    raw: bytes
    connection: int
    body: int = 0
    sha256: str = ""
    complete: bool = False  # the body came to its proper end

    def __getitem__(self, name):
        got = self.all(name)
        assert len(got) < 2, f"{name} came {len(got)} times: {got}"
        return got[0] if got else None

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def __contains__(self, name):
        return bool(self.all(name))


def pattern(size, seed=7):
    """Pseudo-random bytes that are cheap to make and to compare."""
    block = hashlib.shake_128(b"%d" % seed).digest(65521)
    return (block * (size // len(block) + 1))[:size]


class _Body:
    """A request body, read strictly."""

    def __init__(self, reader, request):
        self.reader, self.request = reader, request
        self.hash = hashlib.sha256()
        te = request["Transfer-Encoding"]
        self.chunked = te == "chunked"
        assert te in (None, "chunked"), te
        self.left = int(request["Content-Length"] or 0)
        assert not (self.chunked and "Content-Length" in request)
        self.done = False

    async def read(self):
        """The next piece, b"" at the end."""
        if self.done:
            return b""
        if self.chunked:
            line = await self.reader.readuntil(b"\r\n")
            size = int(line[:-2], 16)
            piece = (await self.reader.readexactly(size + 2))[:-2]
        else:
            piece = await self.reader.read(min(self.left, 1 << 16))
            if not piece and self.left:
                raise asyncio.IncompleteReadError(b"", self.left)
            self.left -= len(piece)
        if not piece:
            self.done = True
            self.request.complete = True
        self.hash.update(piece)
        self.request.body += len(piece)
        self.request.sha256 = self.hash.hexdigest()
        return piece

    async def drain(self):
        while await self.read():
            pass


class App:
    def __init__(self, proxy_dir, port=8000, tcp=False, host="127.0.0.1"):
        """On <proxy_dir>/<port>.sock, or with tcp on a TCP port (port 0:
        any; .port tells)."""
        self.path = None if tcp else pathlib.Path(proxy_dir, f"{port}.sock")
        self.port, self.host = port, host
        self.requests = []
        self.connections = 0
        self.open = 0
        self.errors = []
        self.raw = b""
        self.raw_close = True
        self.keep_alive = True
        self._loop = asyncio.new_event_loop()
        self._server = None
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        daemon=True)

    def __enter__(self):
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *exc):
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine,
                                                self._loop).result(10)

    async def _start(self):
        if self.path:
            self.path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(
                self._serve, self.path, limit=1 << 18)
            os.chmod(self.path, 0o666)
        else:
            self._server = await asyncio.start_server(
                self._serve, self.host, self.port, limit=1 << 18)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self):
        self._server.close()
        me = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not me:
                task.cancel()
        await asyncio.sleep(0)
        if self.path:
            self.path.unlink(missing_ok=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        number = self.connections
        self.open += 1
        try:
            while await self._one(reader, writer, number):
                pass
        except (asyncio.IncompleteReadError, ConnectionError,
                asyncio.CancelledError):
            pass
        except Exception as e:  # an assertion here is a finding
            self.errors.append(repr(e))
        finally:
            self.open -= 1
            writer.close()

    async def _one(self, reader, writer, number):
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if e.partial:
                self.errors.append(f"half a head: {e.partial!r}")
            return False
        lines = raw[:-4].decode("latin-1").split("\r\n")
        method, target, version = lines[0].split(" ")
        assert version == "HTTP/1.1", raw
        headers = [(k, v.strip()) for k, _, v in
                   (line.partition(":") for line in lines[1:])]
        request = Request(method, target, headers, raw, number)
        self.requests.append(request)
        body = _Body(reader, request)
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = url.path.strip("/").split("/")[0].replace("-", "_")
        handler = getattr(self, "_do_" + (name or "root"), None)
        if handler is None:
            await body.drain()
            return self._answer(writer, request, 404, b"no such page\n")
        if request["Expect"] == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        keep = await handler(reader, writer, request, body, query)
        await writer.drain()
        if keep is False or not body.done and body.left:
            return False
        await body.drain()
        return self.keep_alive

    def _answer(self, writer, request, status, body=b"", headers=()):
        head = [f"HTTP/1.1 {status} X"]
        if status >= 200 and status not in (204, 304):
            head.append(f"Content-Length: {len(body)}")
        if not self.keep_alive:
            head.append("Connection: close")
        head += [f"{k}: {v}" for k, v in headers]
        data = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n"
        if request.method != "HEAD" and status not in (204, 304):
            data += body
        writer.write(data)
        return True

    # --- pages ----------------------------------------------------------
    async def _do_root(self, reader, writer, request, body, query):
        await body.drain()
        self._answer(writer, request, 200, b"hello\n",
                     [("Content-Type", "text/plain")])

    async def _do_echo(self, reader, writer, request, body, query):
        await body.drain()
        text = json.dumps({
            "method": request.method, "target": request.target,
            "headers": request.headers, "length": request.body,
            "sha256": request.sha256, "connection": request.connection})
        self._answer(writer, request, 200, text.encode(),
                     [("Content-Type", "application/json")])

    async def _do_mirror(self, reader, writer, request, body, query):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while piece := await body.read():
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def _do_bytes(self, reader, writer, request, body, query):
        await body.drain()
        size = int(query.get("n", 0))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        data = memoryview(pattern(size))
        for at in range(0, size, 1 << 18):
            writer.write(data[at:at + (1 << 18)])
            await writer.drain()

    async def _do_chunked(self, reader, writer, request, body, query):
        await body.drain()
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        size, step = int(query.get("n", 0)), int(query.get("step", 10000))
        data = pattern(size)
        for at in range(0, size, step):
            piece = data[at:at + step]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def _do_sse(self, reader, writer, request, body, query):
        await body.drain()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        left = int(query.get("n", 5))
        number = 0
        while left == 0 or number < left:
            event = b"data: %d\n\n" % number
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            number += 1
            await asyncio.sleep(int(query.get("ms", 100)) / 1000)
        writer.write(b"0\r\n\r\n")

    async def _do_ws(self, reader, writer, request, body, query):
        if request["Upgrade"] != "websocket":
            return self._answer(writer, request, 426)
        head = ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Accept: "
                + ws.accept_of(request["Sec-WebSocket-Key"]) + "\r\n")
        wanted = request["Sec-WebSocket-Protocol"]
        if wanted:
            head += f"Sec-WebSocket-Protocol: {wanted.split(',')[0]}\r\n"
        writer.write(head.encode() + b"\r\n")
        if "greet" in query:  # together with the head
            writer.write(ws.encode(ws.TEXT, query["greet"].encode()))
        while True:
            a, b = await reader.readexactly(2)
            size = b & 0x7f
            if size > 125:
                more = await reader.readexactly(2 if size == 126 else 8)
                size = int.from_bytes(more, "big")
            mask = await reader.readexactly(4)
            data = ws.xor(await reader.readexactly(size), mask)
            opcode, fin, rsv = a & 15, bool(a & 0x80), a >> 4 & 7
            if opcode == ws.PING:
                opcode = ws.PONG
            writer.write(ws.encode(opcode, data, fin, rsv))
            await writer.drain()
            if opcode == ws.CLOSE:
                return False

    async def _do_status(self, reader, writer, request, body, query):
        await body.drain()
        status = int(request.target.split("/")[2].split("?")[0])
        self._answer(writer, request, status, b"status %d\n" % status)

    async def _do_redirect(self, reader, writer, request, body, query):
        await body.drain()
        self._answer(writer, request, 302, b"",
                     [("Location", query.get("to", "/"))])

    async def _do_cookie(self, reader, writer, request, body, query):
        await body.drain()
        self._answer(writer, request, 200, b"", [
            ("Set-Cookie", f"a=1; Path={query.get('path', '/')}; HttpOnly"),
            ("Set-Cookie", "b=2")])

    async def _do_slow(self, reader, writer, request, body, query):
        await body.drain()
        await asyncio.sleep(int(query.get("ms", 200)) / 1000)
        self._answer(writer, request, 200, b"late\n")

    async def _do_silent(self, reader, writer, request, body, query):
        await reader.read()
        return False

    async def _do_drop(self, reader, writer, request, body, query):
        return False

    async def _do_short(self, reader, writer, request, body, query):
        await body.drain()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
                     b"0123456789")
        await writer.drain()
        return False

    async def _do_interim(self, reader, writer, request, body, query):
        await body.drain()
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await writer.drain()
        self._answer(writer, request, 200, b"after\n")

    async def _do_raw(self, reader, writer, request, body, query):
        await body.drain()
        writer.write(self.raw)
        await writer.drain()
        return not self.raw_close
