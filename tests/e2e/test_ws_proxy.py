# SPDX-License-Identifier: Apache-2.0
"""WebSockets through the gateway: byte-exact frames, early bytes, half-close
and resets that cross it, the idle timeout, and a goodbye when it ends."""

import json
import os
import signal
import socket
import struct
import threading
import time

import pytest

from support import ws
from support.app import App
from support.gateway import Gateway
from support.http import Client, Truncated
from support.wait import until
from support.ws import WebSocket
from test_proxy import ALPHA, configured

BASE = "/v1/proxy/8000"
WS = BASE + "/ws"


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_every_frame_passes_as_it_is(shared, shared_app, scheme):
    with WebSocket(shared.url(scheme), WS, token=shared.token) as c:
        assert c.response.status == 101
        assert c.echo("hello") == b"hello"
        # pings are the server's to answer
        c.send(b"are you there", ws.PING)
        f = c.frame()
        assert (f.opcode, f.data) == (ws.PONG, b"are you there")
        # fragments and reserved bits are not looked at
        c.send(b"a", ws.TEXT, fin=False)
        c.send(b"b", ws.PING)
        c.send(b"c", ws.CONT, rsv=5)
        got = [c.frame() for _ in range(3)]
        assert [(f.opcode, f.data, f.fin, f.rsv) for f in got] == [
            (ws.TEXT, b"a", False, 0), (ws.PONG, b"b", True, 0),
            (ws.CONT, b"c", True, 5)]
        for size in (0, 125, 126, 65535, 65536, 3 << 20):
            data = os.urandom(size)
            assert c.echo(data) == data
        assert c.close(4321) == 4321


def test_fields_of_the_handshake(shared, shared_app):
    with WebSocket(shared.https, WS, token=shared.token, headers={
            "Sec-WebSocket-Protocol": "chat, other", "Cookie": "a=1",
            "Origin": "https://localhost",
            "Sec-WebSocket-Extensions": "permessage-deflate"}) as c:
        assert c.response["Sec-WebSocket-Protocol"] == "chat"
        assert c.echo("x") == b"x"
    q = shared_app.requests[-1]
    assert q["Connection"].lower() == "upgrade"
    assert q["Upgrade"] == "websocket"
    assert q["Cookie"] == "a=1" and q["Origin"] == "https://localhost"
    assert q["Sec-WebSocket-Extensions"] == "permessage-deflate"
    assert q["X-Forwarded-Proto"] == "https"
    assert "X-Sandbox-Token" not in q


def test_bytes_that_come_with_the_handshake(shared, shared_app):
    """From the server with its 101, from the client right after its head."""
    with WebSocket(shared.https, WS + "?greet=hi", token=shared.token) as c:
        assert c.recv() == b"hi"
    early = ws.encode(ws.TEXT, b"early", mask=b"abcd")
    with Client(shared.https) as c:
        c.send(f"GET {WS} HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
               f"Upgrade: websocket\r\nX-Sandbox-Token: {shared.token}\r\n"
               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
               "Sec-WebSocket-Version: 13\r\n\r\n".encode() + early)
        assert c.head().status == 101
        assert c.exactly(7) == ws.encode(ws.TEXT, b"early")


def test_refused_without_a_redirect(shared, shared_app):
    for token, headers in ((None, {}), ("wrong", {"Accept": "text/html"})):
        with WebSocket(shared.https, WS, token=token, headers=headers) as c:
            assert c.response.status == 401
            assert c.response["Content-Type"] == "application/json"
    assert shared_app.requests == []


def test_server_refuses(shared, shared_app):
    with WebSocket(shared.https, BASE + "/status/403",
                   token=shared.token) as c:
        assert c.response.status == 403
        # the connection is one for requests still
        length = int(c.response["Content-Length"])
        c.client.exactly(length)
        r = c.client.request("GET", BASE + "/", token=shared.token).response()
        assert r.body == b"hello\n"


# --- how it ends -------------------------------------------------------------
class Inner:
    """A server that does one handshake and is then the test's."""

    def __init__(self, gw):
        self.path = gw.proxy_dir / "8000.sock"
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o666)
        self.listener.listen()
        self.sock = None

    def __enter__(self):
        threading.Thread(target=self._shake, daemon=True).start()
        return self

    def _shake(self):
        sock, _ = self.listener.accept()
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)
        key = [line.split(b": ")[1] for line in head.split(b"\r\n")
               if line.lower().startswith(b"sec-websocket-key")][0]
        sock.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\n"
                     b"Connection: upgrade\r\nSec-WebSocket-Accept: "
                     + ws.accept_of(key.decode()).encode() + b"\r\n\r\n")
        sock.settimeout(10)
        self.sock = sock

    def __exit__(self, *exc):
        self.listener.close()
        if self.sock:
            self.sock.close()
        self.path.unlink(missing_ok=True)


@pytest.fixture
def pair(shared):
    with Inner(shared) as inner, \
            WebSocket(shared.https, WS, token=shared.token) as c:
        assert c.response.status == 101
        until(lambda: inner.sock)
        yield c, inner


@pytest.fixture
def plain_pair(shared):
    with Inner(shared) as inner, \
            WebSocket(shared.http, WS, token=shared.token) as c:
        assert c.response.status == 101
        until(lambda: inner.sock)
        yield c, inner


def within(seconds, what):
    start = time.monotonic()
    got = what()
    assert time.monotonic() - start < seconds
    return got


def test_server_dies(pair):
    c, inner = pair
    inner.sock.close()
    assert within(2, c.client.closed)


def test_client_resets(pair):
    c, inner = pair
    c.client.abort()
    def gone():
        try:
            return inner.sock.recv(10) == b""
        except ConnectionResetError:
            return True
    assert within(2, gone)


def test_half_close_of_the_client(plain_pair):
    """The server's last words still arrive."""
    c, inner = plain_pair
    c.client.sock.shutdown(socket.SHUT_WR)
    assert within(2, lambda: inner.sock.recv(10)) == b""
    inner.sock.sendall(b"last words")
    assert c.client.exactly(10) == b"last words"
    inner.sock.close()
    assert c.client.closed()


def test_half_close_of_the_server(plain_pair):
    c, inner = plain_pair
    inner.sock.shutdown(socket.SHUT_WR)
    assert within(2, c.client.closed)
    c.client.send(b"still here")
    assert inner.sock.recv(100) == b"still here"


def test_what_was_sent_before_the_end_arrives(pair):
    c, inner = pair
    data = os.urandom(1 << 20)
    threading.Thread(target=lambda: (inner.sock.sendall(data),
                                     inner.sock.close())).start()
    assert c.client.to_end() == data


# --- limits ------------------------------------------------------------------
def test_idle_timeout(tmp):
    with configured(tmp, timeouts="tunnel_idle = 1s") as gw, \
            App(tmp / "alpha", 8000):
        path = "/v1/sandboxes/alpha/proxy/8000/ws"
        with WebSocket(gw.https, path, token=ALPHA) as c:
            # any byte starts it anew, in either direction
            for _ in range(6):
                time.sleep(0.3)
                c.send(b"", ws.PING)
                assert c.frame().opcode == ws.PONG
            start = time.monotonic()
            with pytest.raises(Truncated):
                c.frame()
            assert 0.7 < time.monotonic() - start < 4
        def line():
            return [x for x in gw.stdout().splitlines() if '"idle"' in x]
        x = json.loads(until(line)[0])
        assert x["close"] == "idle" and x["tunnel"] and x["status"] == 101
        assert x["in"] == 36 and x["out"] == 12 and x["total_ms"] > 2500


def test_tunnels_count_for_their_sandbox(tmp):
    with configured(tmp, limits="conns_per_sandbox = 2") as gw, \
            App(tmp / "alpha", 8000):
        path = "/v1/sandboxes/alpha/proxy/8000/ws"
        with WebSocket(gw.https, path, token=ALPHA) as a, \
                WebSocket(gw.https, path, token=ALPHA) as b:
            assert a.response.status == b.response.status == 101
            with WebSocket(gw.https, path, token=ALPHA) as c:
                assert c.response.status == 429
            assert b.close() == 1000
            def free():
                with WebSocket(gw.https, path, token=ALPHA) as d:
                    return d.response.status == 101
            until(free)
            assert a.echo("x") == b"x"


# --- when the gateway ends ---------------------------------------------------
def test_goodbye(tmp):
    """Tunnels stay until the deadline, then get a close frame."""
    with configured(tmp, timeouts="drain = 1s") as gw, \
            App(tmp / "alpha", 8000):
        path = "/v1/sandboxes/alpha/proxy/8000/ws"
        with WebSocket(gw.https, path, token=ALPHA) as c:
            gw.signal(signal.SIGTERM)
            assert c.echo("still here") == b"still here"
            f = c.frame()
            assert f.opcode == ws.CLOSE
            assert struct.unpack("!H", f.data) == (1001,)
            assert c.client.closed()
        gw.proc.wait(10)
        assert '"close":"drain"' in until(
            lambda: [x for x in gw.stdout().splitlines() if "drain" in x])[0]


def test_no_goodbye_inside_a_frame(tmp):
    """A frame that is under way must not get another one in its middle."""
    with configured(tmp, timeouts="drain = 500ms") as gw:
        gw.proxy_dir = tmp / "alpha"
        with Inner(gw) as inner:
            path = "/v1/sandboxes/alpha/proxy/8000/ws"
            with WebSocket(gw.https, path, token=ALPHA) as c:
                until(lambda: inner.sock)
                frame = ws.encode(ws.BINARY, b"x" * 1000)
                inner.sock.sendall(frame[:500])
                assert c.client.exactly(500) == frame[:500]
                gw.signal(signal.SIGTERM)
                assert c.client.to_end() == b""


def test_reload_keeps_them(tmp):
    with configured(tmp) as gw, App(tmp / "alpha", 8000):
        path = "/v1/sandboxes/alpha/proxy/8000/ws"
        with WebSocket(gw.https, path, token=ALPHA) as c:
            before = set(gw.workers())
            gw.signal(signal.SIGHUP)
            until(lambda: set(gw.workers()) - before, "new workers")
            for _ in range(5):
                assert c.echo("x") == b"x"
            assert c.close() == 1000
