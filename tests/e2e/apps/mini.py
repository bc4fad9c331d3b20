# SPDX-License-Identifier: Apache-2.0
"""A very small web framework for the applications of this folder, on a unix
socket, in a thread of the test.

A subclass has page(request) -> (status, headers, body) and, if it speaks
WebSocket, accept(request) -> None or (status, text), and talk(websocket)."""

import asyncio
import dataclasses
import http.cookies
import os
import pathlib
import threading
import urllib.parse

from support import ws


@dataclasses.dataclass
class Request:
    method: str
    target: str
    fields: dict  # lower case
    body: bytes

    @property
    def path(self):
        return urllib.parse.urlsplit(self.target).path

    @property
    def cookies(self):
        jar = http.cookies.SimpleCookie(self.fields.get("cookie", ""))
        return {k: v.value for k, v in jar.items()}


class Talk:
    """A WebSocket inside a server."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, text):
        self.writer.write(ws.encode(ws.TEXT, text.encode()))
        await self.writer.drain()

    async def recv(self):
        """The next text, None at the end."""
        a, b = await self.reader.readexactly(2)
        size = b & 0x7f
        if size > 125:
            size = int.from_bytes(await self.reader.readexactly(
                2 if size == 126 else 8), "big")
        mask = await self.reader.readexactly(4)
        data = ws.xor(await self.reader.readexactly(size), mask)
        if a & 15 == ws.CLOSE:
            self.writer.write(ws.encode(ws.CLOSE, data))
            return None
        return data.decode()


class MiniApp:
    def __init__(self, proxy_dir, port):
        self.path = pathlib.Path(proxy_dir, f"{port}.sock")
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        daemon=True)

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *exc):
        async def stop():
            self._server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.path.unlink(missing_ok=True)

    async def _start(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        os.chmod(self.path, 0o666)

    async def _serve(self, reader, writer):
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError,
                asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader, writer):
        raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = raw[:-4].split("\r\n")
        method, target, _ = first.split(" ")
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        request = Request(method, target, fields, body)
        if fields.get("upgrade") == "websocket":
            refused = self.accept(request)
            if refused is None:
                await self._websocket(request, reader, writer)
                return False
            status, headers, body = refused[0], {}, refused[1]
        else:
            status, headers, body = self.page(request)
        data = body if isinstance(body, bytes) else body.encode()
        head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
        head += [f"{k}: {v}" for k, v in headers.items()]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + data)
        await writer.drain()
        return True

    async def _websocket(self, request, reader, writer):
        head = ("HTTP/1.1 101 X\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Accept: "
                + ws.accept_of(request.fields["sec-websocket-key"]) + "\r\n")
        if "sec-websocket-protocol" in request.fields:
            head += ("Sec-WebSocket-Protocol: "
                     + request.fields["sec-websocket-protocol"] + "\r\n")
        writer.write(head.encode() + b"\r\n")
        await self.talk(Talk(reader, writer))

    def accept(self, request):
        return 404, "no WebSocket here"
