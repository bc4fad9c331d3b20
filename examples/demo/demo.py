#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo that ./quickstart runs inside a sandbox: a page, a WebSocket echo,
a clock over server-sent events, uploads and downloads. Standard library only.

It listens on $SBX_PROXY_DIR/<port>.sock, as every server in a sandbox does;
the gateway brings https, wss and the check of the token.

    GET  /            the page
    GET  /ws          WebSocket, echoes what it gets
    GET  /events      server-sent events, one every ?ms= (1000) milliseconds
    PUT  /upload      answers {"bytes": n, "sha256": "..."}
    GET  /download    ?bytes=n: that many, always the same ones
    GET  /whoami      who and where this server is
"""

import asyncio
import base64
import hashlib
import json
import os
import sys
import time
import urllib.parse

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
STARTED = time.time()
HEAD_LIMIT = 65536
MESSAGE_LIMIT = 16 << 20
BLOCK = hashlib.shake_128(b"sbx demo").digest(65536)
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Request:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = lines[0].split(" ")
        url = urllib.parse.urlsplit(target)
        self.path = url.path
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()


def head(status, kind, *fields):
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}",
                        "Cache-Control: no-store", *fields,
                        "\r\n"]).encode("latin-1")


def answer(writer, request, status, kind, body):
    if isinstance(body, str):
        body = body.encode()
    top = head(status, kind, f"Content-Length: {len(body)}")
    writer.write(top if request.method == "HEAD" else top + body)


async def body_of(reader, request):
    """The request body, piece by piece, whichever way it is framed."""
    if request.headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n"))[:-2], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return
    left = int(request.headers.get("content-length", 0))
    while left:
        piece = await reader.read(min(left, 65536))
        if not piece:
            raise ConnectionError("the client went away")
        left -= len(piece)
        yield piece


async def page(reader, writer, request):
    answer(writer, request, "200 OK", "text/html; charset=utf-8", PAGE)


async def whoami(reader, writer, request):
    answer(writer, request, "200 OK", "application/json", json.dumps({
        "sandbox": os.environ.get("SBX_SANDBOX_ID", ""),
        "uid": os.getuid(), "home": os.environ.get("HOME", ""),
        "python": sys.version.split()[0], "pid": os.getpid(),
        "up_seconds": round(time.time() - STARTED, 1),
        "client": request.headers.get("x-forwarded-for", ""),
        "prefix": request.headers.get("x-forwarded-prefix", ""),
        "proto": request.headers.get("x-forwarded-proto", "")}) + "\n")


async def events(reader, writer, request):
    pause = max(int(request.query.get("ms", 1000)), 10) / 1000
    writer.write(head("200 OK", "text/event-stream", "Connection: close"))
    number = 0
    while not writer.is_closing():
        number += 1
        text = json.dumps({"n": number, "time": time.time()})
        writer.write(f"id: {number}\ndata: {text}\n\n".encode())
        await writer.drain()
        await asyncio.sleep(pause)


async def upload(reader, writer, request):
    digest, size = hashlib.sha256(), 0
    if request.headers.get("expect") == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    async for piece in body_of(reader, request):
        digest.update(piece)
        size += len(piece)
    answer(writer, request, "200 OK", "application/json", json.dumps(
        {"bytes": size, "sha256": digest.hexdigest()}) + "\n")


async def download(reader, writer, request):
    left = int(request.query.get("bytes", 1 << 20))
    writer.write(head("200 OK", "application/octet-stream",
                      f"Content-Length: {left}"))
    while left > 0:
        writer.write(BLOCK[:left])
        left -= len(BLOCK)
        await writer.drain()


def frame(opcode, data):
    size = len(data)
    if size < 126:
        return bytes([0x80 | opcode, size]) + data
    if size < 65536:
        return bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big") + data
    return bytes([0x80 | opcode, 127]) + size.to_bytes(8, "big") + data


async def read_frame(reader):
    first, second = await reader.readexactly(2)
    size = second & 0x7f
    if size > 125:
        size = int.from_bytes(
            await reader.readexactly(2 if size == 126 else 8), "big")
    if size > MESSAGE_LIMIT or not second & 0x80:
        raise ConnectionError("not a frame that we take")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    if size:
        key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        data = (int.from_bytes(data, "big") ^ key).to_bytes(size, "big")
    return first & 0x0f, bool(first & 0x80), data


async def websocket(reader, writer, request):
    key = request.headers.get("sec-websocket-key")
    if request.headers.get("upgrade", "").lower() != "websocket" or not key:
        return answer(writer, request, "426 Upgrade Required", "text/plain",
                      "this is a WebSocket\n")
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest())
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                 b"Connection: Upgrade\r\nSec-WebSocket-Accept: "
                 + accept + b"\r\n\r\n")
    message, kind = b"", 2
    while True:
        opcode, final, data = await read_frame(reader)
        if opcode == 8:
            writer.write(frame(8, data[:2]))
            return await writer.drain()
        if opcode == 9:
            writer.write(frame(10, data))
        elif opcode < 3:
            kind = opcode or kind
            message += data
            if len(message) > MESSAGE_LIMIT:
                raise ConnectionError("message too large")
            if final:
                writer.write(frame(kind, message))
                message = b""
        await writer.drain()


# What is served, and whether the connection can take another request after.
ROUTES = {"/": (page, True), "/whoami": (whoami, True),
          "/upload": (upload, True), "/download": (download, True),
          "/events": (events, False), "/ws": (websocket, False)}


async def connection(reader, writer):
    again = True
    try:
        while again:
            request = Request((await reader.readuntil(b"\r\n\r\n"))[:-4])
            serve, again = ROUTES.get(request.path, (None, True))
            if serve is None:
                answer(writer, request, "404 Not Found", "text/plain",
                       "not here\n")
                again = False
            else:
                await serve(reader, writer, request)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError,
            ConnectionError, ValueError):
        pass  # the client went away, or was none
    finally:
        writer.close()


async def main():
    path = os.path.join(os.environ["SBX_PROXY_DIR"], f"{PORT}.sock")
    if os.path.exists(path):
        os.unlink(path)
    server = await asyncio.start_unix_server(connection, path,
                                             limit=HEAD_LIMIT)
    print(f"listening on {path}", flush=True)
    await server.serve_forever()


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Hello from a sandbox</title>
<style>
:root { color-scheme: light dark; --fg: #1c2430; --dim: #66707f;
  --bg: #f5f6f8; --card: #fff; --line: #e1e5ea; --hot: #2f6fed; --ok: #168a55 }
@media (prefers-color-scheme: dark) { :root { --fg: #e8ecf2; --dim: #94a0b2;
  --bg: #12161c; --card: #1a2029; --line: #2b3440; --hot: #7ba6ff;
  --ok: #4fd193 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--bg); color: var(--fg);
  font: 16px/1.5 system-ui, sans-serif }
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.25rem }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; letter-spacing: -.02em }
p { margin: 0 0 1rem; color: var(--dim) }
.grid { display: grid; gap: 1rem; margin-top: 2rem;
  grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)) }
section { background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; padding: 1.1rem 1.25rem }
h2 { margin: 0 0 .6rem; font-size: .95rem; display: flex; gap: .5rem;
  align-items: center }
h2 i { width: .6rem; height: .6rem; border-radius: 50%;
  background: var(--line); transition: background .3s }
h2 i.on { background: var(--ok) }
output, pre { display: block; margin: 0; font: 13px/1.5 ui-monospace,
  monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  color: var(--dim); min-height: 6.5em }
#clock { font-size: 2rem; color: var(--hot); min-height: 0 }
input, button { font: inherit; color: inherit; border-radius: 8px;
  border: 1px solid var(--line); background: transparent;
  padding: .4rem .7rem; max-width: 100% }
button { background: var(--hot); border-color: var(--hot); color: #fff;
  cursor: pointer }
@media (prefers-color-scheme: dark) { button { color: #10151c } }
form { display: flex; gap: .5rem; margin-bottom: .7rem }
form input { flex: 1; min-width: 0 }
</style></head><body><main>
<h1>Hello from a sandbox</h1>
<p>This server has a user id, a home and a Landlock ruleset of its own, and
listens on nothing but a socket file. All that you see came through
sbx-gateway, over TLS, with a token that was taken off before it got here.</p>
<div class="grid">
<section><h2><i id="wsdot"></i>WebSocket echo</h2>
<form id="say"><input id="text" value="hello" autocomplete="off"
 aria-label="message"><button>Send</button></form><output id="ws"></output>
</section>
<section><h2><i id="ssedot"></i>Clock over server-sent events</h2>
<output id="clock">--:--:--</output><output id="sse"></output></section>
<section><h2><i id="updot"></i>Upload</h2>
<form><input type="file" id="file" aria-label="file"></form>
<output id="up">Choose a file: its size and SHA-256 come back.</output>
</section>
<section><h2><i id="whodot"></i>Inside</h2><pre id="who"></pre></section>
</div></main>
<script>
const $ = id => document.getElementById(id);
const at = path => new URL(path, location.href);
const on = (id, yes) => $(id).classList.toggle('on', yes);
let lines = [];
function show(text) {
  lines = [...lines.slice(-4), text];
  $('ws').textContent = lines.join('\\n');
}
let socket;
function join() {
  const url = at('ws');
  url.protocol = url.protocol.replace('http', 'ws');
  socket = new WebSocket(url);
  let sent = 0;
  socket.onopen = () => { on('wsdot', true); say('hello'); };
  socket.onclose = e => { on('wsdot', false); show('closed, ' + e.code);
    setTimeout(join, 2000); };
  socket.onmessage = e => {
    show('\\u2190 ' + e.data + '   ' +
      (performance.now() - sent).toFixed(1) + ' ms');
    document.body.dataset.ws = e.data; };
  socket.mark = () => { sent = performance.now(); };
}
function say(text) {
  if (socket.readyState !== 1) return;
  socket.mark(); socket.send(text); show('\\u2192 ' + text);
}
$('say').onsubmit = e => { e.preventDefault(); say($('text').value); };
join();
const stream = new EventSource(at('events'));
stream.onopen = () => on('ssedot', true);
stream.onerror = () => on('ssedot', false);
stream.onmessage = e => {
  const event = JSON.parse(e.data), now = new Date(event.time * 1000);
  $('clock').textContent = now.toLocaleTimeString();
  $('sse').textContent = 'event ' + event.n + ', ' +
    Math.max(0, Date.now() - now).toFixed(0) + ' ms old';
  document.body.dataset.sse = event.n;
};
$('file').onchange = async () => {
  const file = $('file').files[0];
  if (!file) return;
  on('updot', false);
  $('up').textContent = 'sending ' + file.size + ' bytes';
  const r = await fetch(at('upload'), { method: 'PUT', body: file });
  $('up').textContent = await r.text();
  on('updot', r.ok);
};
fetch(at('whoami')).then(r => r.json()).then(who => { on('whodot', true);
  $('who').textContent = Object.entries(who).map(
    ([k, v]) => k.padEnd(11) + v).join('\\n');
  document.body.dataset.who = who.sandbox; });
</script></body></html>
"""

if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
