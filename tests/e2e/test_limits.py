# SPDX-License-Identifier: Apache-2.0
"""Many clients, greedy ones, and few descriptors: what is refused is told so,
nothing spins, nothing grows, and nobody who behaves notices."""

import contextlib
import json
import os
import resource
import signal
import threading
import time

import pytest

from support import paths, ws
from support.app import App
from support.faults import (TOKEN, box, cpu_share, inner, lines,
                            metrics, read_head, rss, settled, status)
from support.gateway import connect, tls_context
from support.http import Client, get
from support.wait import until
from support.ws import WebSocket

BASE = "/v1/sandboxes/box/proxy/"
MIB = 1 << 20
LATE = 10 * paths.SLOW


@pytest.fixture(autouse=True)
def many_files():
    """As many descriptors for the tests themselves as there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def page(url, port=8000, **kw):
    return get(url, f"{BASE}{port}/", token=TOKEN, **kw)


def refused_with_limit(r):
    assert r.status == 429 and json.loads(r.body)["code"] == "limit"
    assert r["Retry-After"] and r["Cache-Control"] == "no-store"
    return True


def held(stack, url, n):
    """n connections that have had an answer and stay."""
    found = []
    for _ in range(n):
        c = stack.enter_context(Client(url))
        c.request("GET", BASE + "8000/", token=TOKEN)
        assert c.response().status == 200
        found.append(c)
    return found


# --- connections -------------------------------------------------------------
@pytest.mark.parametrize("key", ["conns", "conns_per_ip"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_connections(tmp, key, scheme):
    """Who is too many is told so, in words, and gets in when one has gone."""
    with box(tmp, limits={key: 5}) as gw, App(gw.proxy_dir, 8000), \
            contextlib.ExitStack() as stack:
        url = gw.url(scheme)
        open_ = held(stack, url, 5)
        with Client(url) as c:
            c.request("GET", BASE + "8000/", token=TOKEN)
            r = c.response()
            assert refused_with_limit(r) and r["Connection"] == "close"
            assert c.closed()
        assert get(url, "/health").status == 200
        assert metrics(gw)["conns_refused"] == 2
        assert metrics(gw)["rejected_limit"] == 1
        # those who were there are not disturbed
        for c in open_:
            c.request("GET", BASE + "8000/", token=TOKEN)
            assert c.response().status == 200
        open_.pop().close()
        until(lambda: page(url).status == 200, "a place to be free", LATE)
        x = lines(gw, code="limit")[0]
        assert x["status"] == 429 and x["close"] == "gateway"


def test_those_told_so_are_bounded_too(tmp):
    """A flood past the limit is closed without a word, and costs nothing."""
    with box(tmp, limits={"conns": 3}) as gw, App(gw.proxy_dir, 8000), \
            contextlib.ExitStack() as stack:
        mine, = held(stack, gw.https, 1)
        flood = [stack.enter_context(Client(gw.http)) for _ in range(300)]
        until(lambda: metrics(gw)["conns_refused"] >= 298, "all came", LATE)
        assert metrics(gw)["conns_open"] <= 3 + 64
        mine.request("GET", BASE + "8000/", token=TOKEN)
        assert mine.response().status == 200
        for c in flood:
            c.close()
        until(lambda: metrics(gw)["conns_open"] == 1, "all gone", LATE)
        assert page(gw.https).status == 200


def test_requests_per_sandbox(tmp):
    """Requests and tunnels together; other answers are not held up."""
    with box(tmp, limits={"conns_per_sandbox": 3}) as gw, \
            App(gw.proxy_dir, 8000) as app, contextlib.ExitStack() as stack:
        tunnel = stack.enter_context(WebSocket(gw.https, BASE + "8000/ws",
                                               token=TOKEN))
        for _ in range(2):
            c = stack.enter_context(Client(gw.http))
            c.request("GET", BASE + "8000/silent", token=TOKEN)
        until(lambda: app.open == 3, "three inside")
        for url in (gw.http, gw.https):
            assert refused_with_limit(page(url))
        with WebSocket(gw.http, BASE + "8000/ws", token=TOKEN) as over:
            assert over.response.status == 429
        assert metrics(gw)["rejected_limit"] == 3
        assert get(gw.http, BASE + "8000/", token="wrong").status == 401
        assert tunnel.close() == 1000
        until(lambda: page(gw.https).status == 200, "a place", LATE)


def test_handshakes_per_second(tmp):
    """Full speed for those who are connected, and for plain listeners."""
    with box(tmp, limits={"handshakes_per_s": 5}) as gw, \
            App(gw.proxy_dir, 8000), contextlib.ExitStack() as stack:
        mine, = held(stack, gw.https, 1)
        refused = 0
        start = time.monotonic()
        for _ in range(40):
            try:
                connect(gw.https).close()
            except OSError:
                refused += 1
            mine.request("GET", BASE + "8000/", token=TOKEN)
            assert mine.response().status == 200
            assert page(gw.http).status == 200
        allowed = 5 + 5 * (time.monotonic() - start)
        assert 40 - refused <= allowed + 1
        m = metrics(gw)
        assert m["conns_refused"] == refused
        assert m["handshakes_full"] + m["handshakes_resumed"] <= allowed + 1
        def again():
            with contextlib.suppress(OSError):
                return page(gw.https).status == 200
        until(again, "another second", LATE)


# --- descriptors -------------------------------------------------------------
def test_no_descriptors_left(tmp):
    """It neither spins nor dies, and serves again when there are some."""
    with box(tmp, nofile=64) as gw, App(gw.proxy_dir, 8000) as app, \
            contextlib.ExitStack() as stack:
        family = sorted(gw.workers())
        mine, = held(stack, gw.http, 1)
        app.keep_alive = False
        flood = [stack.enter_context(Client(gw.http)) for _ in range(150)]
        worker = max(family)
        until(lambda: len(os.listdir(f"/proc/{worker}/fd")) >= 62,
              "all are used", LATE)
        assert cpu_share(gw) < 0.3 * paths.SLOW
        # A connection that is there gets an answer, though not from inside:
        # that would take one more.
        mine.request("GET", "/health")
        assert mine.response().status == 200
        mine.request("POST", BASE + "8000/echo", token=TOKEN, body=b"x")
        r = mine.response("POST")
        assert r.status in (200, 503), r
        if r.status == 503:
            assert json.loads(r.body)["code"] == "unreachable"
            assert r["Retry-After"]
        for c in flood:
            c.close()
        until(lambda: _try(lambda: page(gw.https).status == 200),
              "it serves again", LATE)
        mine.request("GET", BASE + "8000/", token=TOKEN)
        assert mine.response().status == 200
        assert sorted(gw.workers()) == family and gw.proc.poll() is None
        assert "starved" in gw.log()


def _try(what):
    with contextlib.suppress(Exception):
        return what()


# --- memory ------------------------------------------------------------------
def test_fifty_who_do_not_read(tmp):
    """64 MiB each are wanted; a bounded part of it is held."""
    block = b"x" * (256 << 10)
    sent = {}

    def serve(conn):
        if not read_head(conn)[0]:
            return
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
                     % (64 * MIB))
        me = threading.get_ident()
        sent[me] = 0
        with contextlib.suppress(OSError):
            while sent[me] < 64 * MIB:
                sent[me] += conn.send(block)

    def stalled():
        was = sum(sent.values())
        time.sleep(0.3)
        return len(sent) == 50 and was == sum(sent.values())

    with box(tmp) as gw, App(gw.proxy_dir, 8000), \
            inner(gw, 9000, serve), contextlib.ExitStack() as stack:
        assert page(gw.https).status == 200
        before = rss(gw)
        slow = [stack.enter_context(Client(url)) for url in
                (gw.http, gw.https) for _ in range(25)]
        for c in slow:
            c.request("GET", BASE + "9000/", token=TOKEN)
        until(stalled, "all stand still", LATE)
        for url in (gw.http, gw.https):
            assert page(url, timeout=2).status == 200
        assert cpu_share(gw, 0.5) < 0.2 * paths.SLOW
        if not paths.SANITIZED:  # its memory is not ours
            assert rss(gw) - before < 50 * (384 << 10)
        # one that reads again gets all of it
        assert slow[30].head().status == 200
        assert len(slow[30].exactly(64 * MIB)) == 64 * MIB
        for c in slow:
            c.close()
        until(lambda: metrics(gw)["conns_open"] == 0, "all gone", LATE)
        assert page(gw.https).status == 200


def test_two_thousand_idle(tmp):
    """They cost little memory and no time, and nobody is slower for them."""
    plain, tls = (1700, 300) if not paths.SANITIZED else (1900, 100)
    with box(tmp) as gw, App(gw.proxy_dir, 8000), \
            contextlib.ExitStack() as stack:
        assert page(gw.https).status == 200
        before = rss(gw)
        ctx = tls_context()
        idle = [stack.enter_context(Client(gw.http)) for _ in range(plain)]
        idle += [stack.enter_context(Client(gw.https, ctx=ctx))
                 for _ in range(tls)]
        for c in idle:
            c.request("GET", "/health")
        for c in idle:
            assert c.response().status == 200
        assert metrics(gw)["conns_open"] == 2000
        assert cpu_share(gw, 0.5) < 0.1 * paths.SLOW
        start = time.monotonic()
        for _ in range(20):
            assert page(gw.https).status == 200
        assert time.monotonic() - start < LATE
        if not paths.SANITIZED:
            assert rss(gw) - before < plain * (4 << 10) + tls * (48 << 10)
        for c in idle[::100]:
            c.request("GET", BASE + "8000/", token=TOKEN)
            assert c.response().status == 200
        stack.close()
        until(lambda: metrics(gw)["conns_open"] == 0, "all gone", LATE)


# --- processes under load ----------------------------------------------------
class Load:
    """Clients that keep their connections and do what HTTP asks of them:
    anew after Connection: close. Any other end is a failure."""

    def __init__(self, urls):
        self.urls = urls
        self.bad, self.count, self.stop = [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(u, i))
                        for i, u in enumerate(urls)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        until(lambda: self.count > 10, "load", LATE)
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for t in self.threads:
            t.join()

    def one(self, c, n):
        body = b"x" * 30000 if n % 3 == 2 else None
        method = "POST" if body else "GET"
        c.request(method, BASE + "8000/echo", token=TOKEN, body=body)
        r = c.response(method)
        if r.status != 200 or json.loads(r.body)["length"] != len(body or b""):
            self.bad.append(r)
        self.count += 1
        return r["Connection"] != "close"

    def run(self, url, n):
        while not self.stop.is_set():
            try:
                with Client(url) as c:
                    while self.one(c, n := n + 1) and not self.stop.is_set():
                        pass
            except Exception as e:  # whatever it is, a client saw it
                self.bad.append(repr(e))


def test_reloads_under_load(tmp):
    """Not one request fails, no tunnel and no download ends."""
    with box(tmp, workers=2) as gw, App(gw.proxy_dir, 8000), \
            WebSocket(gw.https, BASE + "8000/ws", token=TOKEN) as tunnel, \
            Client(gw.https) as down:
        down.request("GET", BASE + f"8000/bytes?n={16 * MIB}", token=TOKEN)
        assert down.head().status == 200
        with Load([gw.http, gw.https] * 2) as load:
            for n in range(2, 6):
                before = load.count
                gw.signal(signal.SIGHUP)
                until(lambda: settled(gw, n), "reload", LATE)
                assert tunnel.echo("x") == b"x"
                assert len(down.exactly(MIB)) == MIB
                until(lambda: load.count > before + 10, "progress", LATE)
        assert not load.bad, load.bad[:5]
        assert len(down.exactly(12 * MIB)) == 12 * MIB
        assert tunnel.close() == 1000
        m = metrics(gw)
        assert m["responses_2xx"] >= load.count and m["responses_5xx"] == 0


def test_worker_killed_under_load(tmp):
    """Only its own connections end; the next request is served at once."""
    with box(tmp, workers=2) as gw, App(gw.proxy_dir, 8000), \
            contextlib.ExitStack() as stack:
        tunnels = [stack.enter_context(WebSocket(url, BASE + "8000/ws",
                                                 token=TOKEN))
                   for url in (gw.http, gw.https) for _ in range(15)]
        metrics(gw)  # has the workers say what they have
        victim = max(status(gw)["workers"],
                     key=lambda w: w["stats"]["tunnels_open"])
        own = victim["stats"]["tunnels_open"]
        assert 0 < own <= 30
        with Load([gw.http, gw.https]) as load:
            os.kill(victim["pid"], signal.SIGKILL)
            start = time.monotonic()
            assert page(gw.https).status == 200
            assert time.monotonic() - start < 2 * paths.SLOW
            until(lambda: settled(gw, 1) and
                  status(gw)["worker_deaths"] == 1, "replaced", LATE)
            before = load.count
            until(lambda: load.count > before + 10, "progress", LATE)
        assert len(load.bad) <= 2, load.bad  # who was on it at that moment
        lost = 0
        for t in tunnels:
            try:
                assert t.echo("x") == b"x"
            except Exception:
                lost += 1
        assert lost == own


def test_end_under_load(tmp):
    """A download is finished, a WebSocket is told by the deadline; each has
    its line, and the exit status is 0."""
    with box(tmp, {"drain": "2s"}) as gw, App(gw.proxy_dir, 8000), \
            WebSocket(gw.https, BASE + "8000/ws", token=TOKEN) as tunnel, \
            Client(gw.https) as down:
        down.request("GET", BASE + f"8000/bytes?n={24 * MIB}", token=TOKEN)
        assert down.head().status == 200
        down.exactly(MIB)
        gw.signal(signal.SIGTERM)
        start = time.monotonic()
        assert len(down.exactly(23 * MIB)) == 23 * MIB
        assert down.closed()
        assert tunnel.echo("still here") == b"still here"
        f = tunnel.frame()
        assert f.opcode == ws.CLOSE and f.data == b"\x03\xe9"
        assert tunnel.client.closed()
        assert 1 < time.monotonic() - start < 2 + LATE
        assert gw.proc.wait(LATE) == 0
        def both():
            return [(x["close"], x["status"]) for x in lines(gw)]
        until(lambda: sorted(both()) == [("done", 200), ("drain", 101)],
              "both lines", LATE)
