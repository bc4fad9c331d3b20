# SPDX-License-Identifier: Apache-2.0
"""Slow, silent, frozen and dying peers on either side: what they get, that it
is counted and written down, and that nobody else notices."""

import contextlib
import hashlib
import os
import select
import signal
import socket
import ssl
import threading
import time

import pytest

from support import paths, ws
from support.app import App
from support.faults import (TOKEN, Slow, app_process, box, inner, line, lines,
                            metrics, read_head, reset, trickle)
from support.gateway import connect, tls_context
from support.http import Client, Truncated, chunk, fetch, get
from support.peer import Peer
from support.wait import stop, until
from support.ws import WebSocket

SHORT = {"head": "1s", "handshake": "1s", "body": "1s", "write": "1s",
         "idle": "1s", "response": "1s", "wait": "0s", "linger": "500ms",
         "connect": "500ms"}
BASE = "/v1/sandboxes/box/proxy/"
MIB = 1 << 20
# From the deadline to when a loaded machine has noticed.
LATE = 5 * paths.SLOW


@pytest.fixture(scope="module")
def gw(module_tmp):
    """One worker with short deadlines, for the whole file."""
    with box(module_tmp, SHORT) as gw:
        yield gw


@pytest.fixture
def app(gw):
    with App(gw.proxy_dir, 8000) as app:
        yield app
        assert not app.errors


@contextlib.contextmanager
def others_are_served(gw, app):
    """Ordinary requests all the while, none of which fails or waits."""
    over, bad, took = threading.Event(), [], []

    def ask():
        while not over.is_set():
            start = time.monotonic()
            try:
                r = get(gw.https, BASE + f"{app.port}/", token=TOKEN)
                if r.body != b"hello\n":
                    bad.append(r)
            except Exception as e:  # whatever it is: somebody was not served
                bad.append(e)
            took.append(time.monotonic() - start)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        yield
    finally:
        over.set()
        asker.join()
    assert not bad, bad[:3]
    assert len(took) > 3 and max(took) < 0.9 * paths.SLOW + 1


def counted(gw, before, **want):
    """The counters have gone up by as much."""
    def there():
        now = metrics(gw)
        return all(now[k] - before[k] == n for k, n in want.items())
    try:
        until(there, "counters", 5)
    except AssertionError:
        now = metrics(gw)
        assert {k: now[k] - before[k] for k in want} == want


def request_of(path, *fields, method="GET"):
    return "\r\n".join([f"{method} {BASE}{path} HTTP/1.1", "Host: x",
                        f"X-Sandbox-Token: {TOKEN}", *fields,
                        ""]).encode() + b"\r\n"


# --- clients that are slow ---------------------------------------------------
def test_heads_in_trickles(gw, app):
    """Closed with 408 at one deadline, however many bytes come meanwhile."""
    before = metrics(gw)
    data = request_of("8000/evil", "X-Filler: " + "x" * 5000)
    slow = [Slow(connect(url), data) for url in (gw.http, gw.https)
            for _ in range(20)]
    with others_are_served(gw, app):
        trickle(slow)
    for s in slow:
        assert s.got.startswith(b"HTTP/1.1 408 "), s.got
        assert b'"code":"request_timeout"' in s.got
        assert s.sent > 3 and 0.9 < s.life < 1 + LATE
    assert not any("evil" in r.target for r in app.requests)
    counted(gw, before, rejected_malformed=40, conns_open=0)
    until(lambda: len(lines(gw, status=408)) >= 40, "lines in the log")
    x = lines(gw, status=408)[0]
    assert x["close"] == "client_timeout" and x["code"] == "request_timeout"


def test_bodies_in_trickles(tmp):
    """None pauses for long, and all of them would take for ever."""
    with box(tmp, SHORT, {"body_rate": "1K"}) as gw, \
            App(gw.proxy_dir, 8000) as app:
        data = request_of("8000/", "Content-Length: 5000", method="POST")
        slow = [Slow(connect(url), data + bytes(5000)) for url in
                (gw.http, gw.https) for _ in range(5)]
        for s in slow:
            s.sock.sendall(data)
            s.sent = len(data)
        trickle(slow)
        for s in slow:
            assert s.got.startswith(b"HTTP/1.1 408 "), s.got
            assert b'"code":"request_timeout"' in s.got
            assert s.sent > len(data) + 3 and s.life > 0.9
        assert get(gw.https, BASE + f"{app.port}/", token=TOKEN).status == 200


def client_hello():
    sent = ssl.MemoryBIO()
    tls = tls_context().wrap_bio(ssl.MemoryBIO(), sent)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


def test_handshakes_that_do_not_end(gw, app):
    before = metrics(gw)
    where = gw.https.replace("https", "http")
    hello = client_hello()
    silent = [Slow(connect(where)) for _ in range(10)]
    drips = [Slow(connect(where), hello[:-1]) for _ in range(10)]
    with others_are_served(gw, app):
        trickle(silent + drips)
    for s in silent + drips:
        assert 0.9 < s.life < 1 + LATE
    assert all(s.got == b"" for s in silent)
    assert all(s.sent > 3 for s in drips)
    counted(gw, before, handshakes_failed=20, conns_open=0)


def test_handshake_and_then_nothing(gw):
    """It was a good handshake; it is closed without a word."""
    before = metrics(gw)
    mute = [Slow(connect(gw.https)) for _ in range(5)]
    trickle(mute)
    assert all(s.got == b"" and 0.9 < s.life < 1 + LATE for s in mute)
    counted(gw, before, handshakes_failed=0, handshakes_full=5, conns_open=0)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_body_that_stops(gw, app, framing):
    how = ("Content-Length: 100" if framing == "length"
           else "Transfer-Encoding: chunked")
    with Client(gw.https) as c:
        c.send(request_of(f"8000/echo?stops={framing}", how, method="POST")
               + chunk(b"begun"))
        start = time.monotonic()
        r = c.response("POST")
        assert 0.9 < time.monotonic() - start < 1 + LATE
        assert r.status == 408 and b"request_timeout" in r.body
        assert c.closed()
    until(lambda: app.open == 0, "the server inside is told", LATE)
    assert not app.requests[0].complete
    x = line(gw, target=f"{BASE}8000/echo?stops={framing}")
    assert x["close"] == "client_timeout" and x["status"] == 408


def test_body_that_goes_on_slowly(tmp):
    """Progress is enough: an upload over a bad line is not an attack."""
    with box(tmp, {**SHORT, "body": "2s"}) as gw, \
            App(gw.proxy_dir, 8000) as app, Client(gw.https) as c:
        c.send(request_of("8000/echo", "Content-Length: 9", method="POST"))
        start = time.monotonic()
        for _ in range(9):
            with pytest.raises(TimeoutError):
                c.sock.settimeout(0.3)
                c.sock.recv(1)
            c.send(b"x")
        c.sock.settimeout(LATE)
        assert time.monotonic() - start > 2
        assert c.response("POST").status == 200
        assert app.requests[0].body == 9


def test_idle_connections_are_closed_quietly(gw, app):
    with Client(gw.https) as c:
        c.send(request_of("8000/"))
        assert c.response().status == 200
        start = time.monotonic()
        assert c.closed()
        assert 0.9 < time.monotonic() - start < 1 + LATE


def pour(conn, total):
    """Serves total bytes; returns how many went."""
    block, sent = b"x" * (256 << 10), 0
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
    while sent < total:
        sent += conn.send(block[:total - sent])
    return sent


def test_response_that_nobody_reads(gw, app):
    """Reset after `write`; the server inside need not hold it for ever."""
    ended = []

    def serve(conn):
        read_head(conn)
        try:
            pour(conn, 64 * MIB)
        except OSError:
            ended.append(time.monotonic())

    before = metrics(gw)
    with inner(gw, 9000, serve), others_are_served(gw, app):
        slow = [Client(url) for url in (gw.http, gw.https) for _ in range(5)]
        for c in slow:
            c.send(request_of("9000/?unread"))
        until(lambda: len(ended) == 10, "all were cut", LATE)
    for x in until(lambda: len(got := lines(gw, target=f"{BASE}9000/?unread"))
                   == 10 and got):
        assert x["close"] == "client_timeout" and x["status"] == 200
        assert 0 < x["out"] < 64 * MIB and x["total_ms"] > 900
    for c in slow:
        c.sock.settimeout(LATE)
        with pytest.raises((OSError, Truncated)):
            c.head()
            c.exactly(64 * MIB)
        c.close()
    counted(gw, before, conns_open=0, requests_open=0)


# --- servers that are slow ---------------------------------------------------
def test_server_that_freezes(gw, app):
    """Stopped, it costs a deadline each; running again, it is used again."""
    with app_process(gw, 9001) as proc, Client(gw.https) as c:
        c.send(request_of("9001/"))
        assert c.response().status == 200
        stop(proc.pid)
        with others_are_served(gw, app):
            # the first on the connection that was kept, then new ones
            for method in ("GET", "POST"):
                r = fetch(gw.https, method, BASE + "9001/?frozen",
                          token=TOKEN)
                assert r.status == 504
                assert b'"code":"response_timeout"' in r.body
        os.kill(proc.pid, signal.SIGCONT)
        assert get(gw.https, BASE + "9001/", token=TOKEN).status == 200
    for x in until(lambda: len(got := lines(gw, target=f"{BASE}9001/?frozen"))
                   == 2 and got):
        assert x["close"] == "backend_timeout" and "first_ms" not in x


def test_server_whose_queue_is_full(gw):
    """It is there and does not accept: that is not "nobody listens"."""
    path = gw.proxy_dir / "9002.sock"
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() \
            as queued:
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(0)
        while True:
            s = queued.enter_context(socket.socket(socket.AF_UNIX))
            s.setblocking(False)
            try:
                s.connect(str(path))
            except BlockingIOError:
                break
        r = get(gw.https, BASE + "9002/", token=TOKEN)
        assert r.status == 504 and b'"code":"connect_timeout"' in r.body
        assert r["Retry-After"]
        # ... and when it does accept in time, nothing is lost
        answers = []
        asker = threading.Thread(target=lambda: answers.append(
            get(gw.https, BASE + "9002/", token=TOKEN)))
        asker.start()
        queued.close()
        listener.settimeout(LATE)
        while not answers:
            conn, _ = listener.accept()
            with conn:
                conn.settimeout(LATE)
                if not read_head(conn)[0]:
                    continue  # one of those that filled the queue
                conn.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
                             b"Content-Length: 0\r\n\r\n")
            asker.join(LATE)
        assert answers[0].status == 200
    path.unlink()


def test_server_that_reads_no_upload(gw, app):
    """The client is stopped, not its data held; then it hears the end."""
    hold = threading.Event()

    def serve(conn):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        hold.wait(30)

    with inner(gw, 9003, serve), others_are_served(gw, app):
        with Client(gw.http) as c:
            c.send(request_of("9003/?stuck", f"Content-Length: {64 * MIB}",
                              method="POST"))
            c.sock.setblocking(False)
            sent, block = 0, b"x" * MIB
            while select.select([], [c.sock], [], 0.5)[1]:
                sent += c.sock.send(block)
            assert sent < 16 * MIB
            hold.set()
            c.sock.settimeout(LATE)
            r = c.response("POST")
            assert r.status in (502, 504)
    x = line(gw, target=f"{BASE}9003/?stuck")
    assert x["close"] in ("backend_rst", "backend_fin", "backend_timeout")


@pytest.mark.parametrize("closes", [False, True])
def test_answer_before_the_upload_is_complete(gw, closes):
    """As for a 401 or 413: the client that goes on sending still gets it."""
    done = threading.Event()

    def serve(conn):
        read_head(conn)
        conn.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 5\r\n\r\nlarge")
        if not closes:
            done.wait(30)

    with inner(gw, 9004, serve):
        for url in (gw.http, gw.https):
            with Client(url) as c:
                c.send(request_of("9004/", f"Content-Length: {8 * MIB}",
                                  method="POST") + b"x" * 1000)
                r = c.response("POST")
                assert r.status == 413 and r.body == b"large"
                with contextlib.suppress(OSError):
                    c.send(b"x" * (8 * MIB))
            # one that sends all of it first, small enough to be dropped
            with Client(url) as c:
                for _ in range(2):
                    c.send(request_of("9004/", "Content-Length: 100000",
                                      method="POST") + b"x" * 100000)
                    assert c.response("POST").status == 413
        done.set()


# --- servers that go away ----------------------------------------------------
def test_server_killed_within_a_response(gw):
    """Cut, and not made to look whole."""
    for url in (gw.http, gw.https):
        for path in ("bytes?n=67108864", "chunked?n=67108864"):
            target = f"9005/{path}&{url[:5]}"
            with app_process(gw, 9005) as proc, Client(url) as c:
                c.send(request_of(target))
                assert c.head().status == 200
                c.exactly(MIB)
                proc.kill()
                with pytest.raises(Truncated):
                    while True:
                        c.exactly(MIB)
            x = line(gw, target=BASE + target)
            assert x["close"] in ("backend_fin", "backend_rst")
            assert MIB <= x["out"] < 64 * MIB


@pytest.mark.parametrize("when", ["at once", "after the head", "in the body"])
def test_server_resets(gw, when):
    """Over TCP, as a container's proxy does when its server is not up."""
    def serve(conn):
        if when != "at once":
            read_head(conn)
        if when == "in the body":
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
            select.select([conn], [], [], 0.2)
        reset(conn)

    before = metrics(gw)
    with Peer(serve) as peer, Client(gw.https) as c:
        c.send(request_of(f"{peer.port}/?reset"))
        if when == "in the body":
            with pytest.raises(Truncated):
                c.head()
                c.exactly(9)
        else:
            r = c.response()
            # What resets at once may do so before we see that it listens.
            if when == "at once" and r.status == 503:
                assert b'"port_not_listening"' in r.body
                return
            assert r.status == 502 and b'"app_closed_early"' in r.body
            assert r["Retry-After"] and r["Cache-Control"] == "no-store"
        x = line(gw, target=f"{BASE}{peer.port}/?reset")
        assert x["close"] == "backend_rst", x
        assert x["upstream"].startswith("tcp:")
    counted(gw, before, upstream_failed=1)


def test_server_that_closes_kept_connections(gw):
    """Without having said so, right after each answer. Nobody notices."""
    def serve(conn):
        if read_head(conn)[0]:
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    bad = []

    def ask(url):
        with Client(url) as c:
            for n in range(60):
                method = ("GET", "POST")[n % 2]
                c.request(method, BASE + "9006/", token=TOKEN,
                          body=b"x" if n % 2 else None)
                r = c.response(method)
                if r.status != 200:
                    bad.append((method, r))

    with inner(gw, 9006, serve):
        askers = [threading.Thread(target=ask, args=(url,))
                  for url in (gw.http, gw.https) for _ in range(2)]
        for a in askers:
            a.start()
        for a in askers:
            a.join()
    assert not bad, bad[:3]


# --- tunnels -----------------------------------------------------------------
def test_websockets_whose_server_is_killed(gw):
    before = metrics(gw)
    with app_process(gw, 9007) as proc, contextlib.ExitStack() as stack:
        open_ = [stack.enter_context(WebSocket(url, BASE + "9007/ws?killed",
                                               token=TOKEN))
                 for url in (gw.http, gw.https) for _ in range(10)]
        assert all(c.echo("x") == b"x" for c in open_)
        counted(gw, before, tunnels_open=20, conns_open=20)
        start = time.monotonic()
        proc.kill()
        for c in open_:
            assert c.client.closed()
        assert time.monotonic() - start < 2 * paths.SLOW
    counted(gw, before, tunnels_open=0, conns_open=0, tunnels_total=20)
    for x in until(lambda: len(got := lines(
            gw, target=BASE + "9007/ws?killed")) == 20 and got):
        assert x["close"] in ("backend_fin", "backend_rst") and x["tunnel"]


def tunnel_of(serve):
    """A server's function: the handshake, then serve(conn, early bytes)."""
    def shake(conn):
        head, rest = read_head(conn)
        key = [x.split(b": ")[1] for x in head.split(b"\r\n")
               if x.lower().startswith(b"sec-websocket-key")][0]
        conn.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\n"
                     b"Connection: upgrade\r\nSec-WebSocket-Accept: "
                     + ws.accept_of(key.decode()).encode() + b"\r\n\r\n")
        serve(conn, rest)
    return shake


def end_of_sending(sock):
    """Ends our direction only: FIN, or close_notify."""
    if not isinstance(sock, ssl.SSLSocket):
        sock.shutdown(socket.SHUT_WR)
        return
    sock.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        sock.unwrap()
    sock.settimeout(LATE)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_half_close_by_the_client(gw, scheme):
    """All that it sent arrives, then the end; then the answer comes back."""
    def serve(conn, got):
        while more := conn.recv(65536):
            got += more
        conn.sendall(hashlib.sha256(got).digest() * 40000)

    data = os.urandom(3 * MIB)
    with inner(gw, 9008, tunnel_of(serve)):
        with WebSocket(gw.url(scheme), BASE + "9008/", token=TOKEN) as c:
            c.client.send(data)
            end_of_sending(c.client.sock)
            want = hashlib.sha256(data).digest() * 40000
            assert c.client.exactly(len(want)) == want
            if scheme == "http":
                assert c.client.closed()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_half_close_by_the_server(gw, scheme):
    took = []

    def serve(conn, got):
        conn.sendall(b"y" * MIB)
        conn.shutdown(socket.SHUT_WR)
        while more := conn.recv(65536):
            got += more
        took.append(hashlib.sha256(got).digest())

    data = os.urandom(3 * MIB)
    with inner(gw, 9009, tunnel_of(serve)):
        with WebSocket(gw.url(scheme), BASE + "9009/", token=TOKEN) as c:
            assert c.client.to_end() == b"y" * MIB
            c.client.send(data)
        until(lambda: took, "all to arrive", LATE)
        assert took == [hashlib.sha256(data).digest()]


def test_frozen_ends_of_a_tunnel(gw):
    """Neither side's standing still is held in memory or lost."""
    go = threading.Event()
    total = []

    def serve(conn, got):
        go.wait(30)
        n = len(got)
        while more := conn.recv(1 << 18):
            n += len(more)
        total.append(n)

    with inner(gw, 9010, tunnel_of(serve)), \
            WebSocket(gw.http, BASE + "9010/", token=TOKEN) as c:
        c.client.sock.setblocking(False)
        sent, block = 0, b"x" * MIB
        while select.select([], [c.client.sock], [], 0.5)[1]:
            sent += c.client.sock.send(block)
            assert sent < 16 * MIB
        go.set()
        c.client.sock.settimeout(LATE)
        c.client.send(block)
        c.client.sock.shutdown(socket.SHUT_WR)
        until(lambda: total == [sent + MIB], "every byte", LATE)


# --- secrets -----------------------------------------------------------------
def test_no_token_in_any_log(tmp):
    """Not at the most talkative level, not from what was malformed, cut off
    or refused."""
    other = "wrong-0123456789abcdef0123456789abcdef"
    hasty = {**SHORT, "idle": "100ms", "head": "500ms"}
    with box(tmp, hasty, level="trace") as gw, App(gw.proxy_dir, 8000):
        for token in (TOKEN, other):
            name = f"X-Sandbox-Token: {token}\r\n".encode()
            bearer = f"Authorization: Bearer {token}\r\n".encode()
            start = f"GET {BASE}8000/?token={token} HTTP/1.1\r\n".encode()
            for head in (
                    start + b"Host: x\r\n" + name + b"\r\n",
                    start + b"Host: x\r\n" + bearer + b"\r\n",
                    start + b"Host: x\r\n" + name + bearer + b"\r\n",
                    start + name + b"Host: a\r\nHost: b\r\n\r\n",
                    start + b"Host: x\r\n" + name[:-2] + b"\0\r\n\r\n",
                    start + b"Host: x\r\n" + name.replace(b": ", b" : ")
                    + b"\r\n",
                    start + b"Host: x\r\n " + name + b"\r\n",
                    start + b"Host: x\r\n" + name + name + b"\r\n",
                    start + b"Host: x\r\n" + name + b"X: " + b"x" * 40000,
                    start.replace(b"8000", b"8001") + b"Host: x\r\n" + name
                    + b"\r\n",
                    start + b"Host: x\r\n" + name):  # never finished
                with Client(gw.http) as c:
                    with contextlib.suppress(OSError):
                        c.send(head)
                    c.to_end()
        with WebSocket(gw.https, BASE + "8000/ws?token=" + TOKEN,
                       token=TOKEN) as c:
            assert c.close() == 1000
        until(lambda: lines(gw, tunnel=True), "the last line")
        assert lines(gw, status=408)
        text = gw.stdout() + gw.log()
        assert TOKEN not in text and other not in text
        assert "debug" in text  # it did talk
