# SPDX-License-Identifier: Apache-2.0
"""The request path with well-behaved clients and servers: streaming, waiting,
reuse, rewriting, credentials, errors, the access log."""

import base64
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

import pytest

from support import paths
from support.app import App, pattern
from support.gateway import Gateway, run
from support.http import Client, chunk, get, post
from support.wait import until

BASE = "/v1/proxy/8000"
ALPHA = "alpha-0123456789abcdef0123456789abcdef"
BETA = "beta-0123456789abcdef0123456789abcdef"
OPERATOR = "operator-0123456789abcdef0123456789abcdef"
AGENT = "agent-0123456789abcdef0123456789abcdef"
HTML = {"Accept": "text/html,*/*;q=0.8"}

CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = 1
{gateway}

[listen plain]
address = http://127.0.0.1:0

[listen tls]
address = https://127.0.0.1:0

[auth]
operator_token_file = {tmp}/operator
{auth}

[sandbox alpha]
token_file = {tmp}/alpha.token
proxy_dir = {tmp}/alpha
namespace = team
{alpha}

[sandbox beta]
token_file = {tmp}/beta.token
proxy_dir = {tmp}/beta

[timeouts]
wait = 0s
{timeouts}

[limits]
{limits}

[admin]
listen = off
"""


def configured(tmp, **sections):
    """A gateway before two configured sandboxes; sections add lines."""
    for name in ("alpha", "beta"):
        (tmp / name).mkdir()
    for name, token in (("alpha.token", ALPHA), ("beta.token", BETA),
                        ("operator", OPERATOR), ("agent.token", AGENT)):
        (tmp / name).write_text(token + "\n")
        (tmp / name).chmod(0o600)
    text = {"gateway": "", "auth": "", "alpha": "", "timeouts": "",
            "limits": ""} | sections
    return Gateway(tmp, config=CONFIG.format(tmp=tmp, **text), token=None)


def code_of(r):
    assert r["Content-Type"] == "application/json"
    assert r["Cache-Control"] == "no-store"
    return json.loads(r.body)["code"]


def echo(gw, target=BASE + "/echo", method="GET", **kw):
    with Client(gw.https) as c:
        kw.setdefault("token", gw.token)
        r = c.request(method, target, **kw).response(method)
        assert r.status == 200, r
        got = json.loads(r.body)
    got["fields"] = {k.lower(): v for k, v in got["headers"]}
    return got


# --- streaming ---------------------------------------------------------------
def test_events_arrive_one_by_one(shared, shared_app):
    with Client(shared.https) as c:
        c.request("GET", BASE + "/sse?n=0&ms=150", token=shared.token)
        assert c.head().status == 200
        # The stream never ends: whatever comes was not held for its end, and
        # each event is a chunk of its own.
        came = [piece for piece, _ in zip(c.chunks(), range(4))]
    assert came == [b"data: %d\n\n" % i for i in range(4)]
    # the client is gone: so is the upstream connection, at the next event
    until(lambda: shared_app.open == 0, "the upstream to be let go")


def test_head_comes_before_the_body(shared, shared_app):
    with Client(shared.https) as c:
        c.request("GET", BASE + "/sse?n=0&ms=60000", token=shared.token)
        start = time.monotonic()
        assert c.head().status == 200
        assert next(iter(c.chunks())) == b"data: 0\n\n"
        assert time.monotonic() - start < 5


def test_both_directions_at_once(shared, shared_app):
    """What is sent comes back before more is sent."""
    with Client(shared.https) as c:
        c.request("POST", BASE + "/mirror", token=shared.token,
                  headers={"Transfer-Encoding": "chunked"})
        c.send(chunk(b"first"))
        r = c.head()
        assert r.status == 200
        pieces = c.chunks()
        assert next(pieces) == b"first"
        for i in range(5):
            c.send(chunk(b"piece %d" % i))
            assert next(pieces) == b"piece %d" % i
        c.send(b"0\r\n\r\n")
        assert list(pieces) == []


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_large_bodies_are_exact(shared, shared_app, scheme):
    size = 8 << 20
    data = pattern(size)
    r = get(shared.url(scheme), f"{BASE}/bytes?n={size}", token=shared.token)
    assert r.framing == "length" and r.body == data
    r = get(shared.url(scheme), f"{BASE}/chunked?n={size}",
            token=shared.token)
    assert r.framing == "chunked" and r.body == data
    with Client(shared.url(scheme)) as c:
        threading.Thread(target=lambda: c.request(
            "POST", BASE + "/mirror", token=shared.token, body=data)).start()
        assert c.response("POST").body == data


def rss(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


@pytest.mark.skipif(paths.SANITIZED, reason="its memory is not ours")
def test_a_slow_reader_is_waited_for(gateway):
    """Nothing is held but a bounded buffer for each direction."""
    sent = 0
    big = b"x" * (1 << 20)
    path = gateway.proxy_dir / "8000.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        path.chmod(0o666)
        s.listen()
        with Client(gateway.http) as c:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            c.request("GET", BASE + "/", token=gateway.token)
            back, _ = s.accept()
            back.recv(65536)
            before = sum(map(rss, gateway.workers()))
            back.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
                         % (1 << 30))
            back.settimeout(1)
            with pytest.raises(TimeoutError):
                while sent < 64 << 20:
                    sent += back.send(big)
            assert sent < 16 << 20
            assert sum(map(rss, gateway.workers())) - before < 4 << 20
            # and when it reads again, it goes on
            c.head()
            c.exactly(sent - (1 << 20))
            assert back.send(big) > 0
        back.close()


def test_interim_responses_pass(shared, shared_app):
    with Client(shared.https) as c:
        r = c.request("GET", BASE + "/interim",
                      token=shared.token).response()
    assert r.status == 200 and r.body == b"after\n"
    assert [i.status for i in r.interim] == [103]
    assert r.interim[0]["Link"] == "</a.css>"


@pytest.mark.parametrize("status", [204, 304, 418, 500])
def test_statuses(shared, shared_app, status):
    with Client(shared.https) as c:
        for _ in range(2):
            r = c.request("GET", f"{BASE}/status/{status}",
                          token=shared.token).response()
            assert r.status == status
            assert (r.body == b"") == (status in (204, 304))


def test_head(shared, shared_app):
    with Client(shared.https) as c:
        r = c.request("HEAD", BASE + "/bytes?n=77",
                      token=shared.token).response("HEAD")
        assert r.status == 200 and r["Content-Length"] == "77"
        assert c.request("GET", BASE + "/",
                         token=shared.token).response().body == b"hello\n"


def test_cut_response_is_seen(shared, shared_app):
    with Client(shared.https) as c:
        c.request("GET", BASE + "/short", token=shared.token)
        assert c.head()["Content-Length"] == "100"
        assert c.to_end() == b"0123456789"


# --- connections -------------------------------------------------------------
def test_upstream_connections_are_kept(gateway, app):
    with Client(gateway.https) as c:
        for _ in range(10):
            c.request("GET", BASE + "/", token=gateway.token).response()
    assert app.connections <= 2  # one for each worker at most
    assert len(app.requests) == 10


def test_kept_connection_that_died_is_no_error(gateway):
    """As with a server that restarts: the next request gets a new one."""
    with Client(gateway.https) as c:
        for _ in range(5):
            with App(gateway.proxy_dir, 8000):
                for method in ("GET", "POST", "PUT"):
                    r = c.request(method, BASE + "/echo", body=b"x",
                                  token=gateway.token).response()
                    assert r.status == 200, r.body


def test_post_is_never_sent_on_a_kept_connection(gateway, app):
    with Client(gateway.https) as c:
        for _ in range(3):
            c.request("POST", BASE + "/echo", body=b"x",
                      token=gateway.token).response()
    assert app.connections == 3


def test_server_without_keep_alive(gateway, app):
    app.keep_alive = False
    with Client(gateway.https) as c:
        for _ in range(3):
            r = c.request("GET", BASE + "/", token=gateway.token).response()
            assert r.body == b"hello\n"
    assert app.connections == 3


def test_client_that_goes_away(gateway, app):
    """The server inside learns of it."""
    c = Client(gateway.https)
    c.request("GET", BASE + "/silent", token=gateway.token)
    until(lambda: app.open == 1, "the request to get there")
    c.close()
    until(lambda: app.open == 0, "the server to be told", seconds=2)


# --- waiting -----------------------------------------------------------------
def later(seconds, proxy_dir, stop):
    """An App that appears after a while."""
    def work():
        time.sleep(seconds)
        with App(proxy_dir, 8000):
            stop.wait(20)
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["default", "query", "header"])
def test_a_port_is_waited_for(tmp, how):
    stop = threading.Event()
    target, headers, after = BASE + "/echo", {}, 0.7
    if how == "query":
        target, after = target + "?a=1&wait=20s", 3.0
    if how == "header":
        headers, after = {"X-Sbx-Wait": "20"}, 3.0
    with Gateway.sidecar(tmp) as gw:
        thread = later(after, gw.proxy_dir, stop)
        got = echo(gw, target, headers=headers)
        stop.set()
        thread.join()
    # the query may be the application's, the field is ours
    assert got["target"] == target[len(BASE):]
    assert "x-sbx-wait" not in got["fields"]


def test_nothing_listens(shared):
    start = time.monotonic()
    r = get(shared.https, "/v1/proxy/8001/", token=shared.token)
    took = time.monotonic() - start
    assert r.status == 503 and code_of(r) == "port_not_listening"
    assert "8001" in json.loads(r.body)["error"]
    assert int(r["Retry-After"]) > 0
    assert 1.9 < took < 6
    start = time.monotonic()
    r = get(shared.https, "/v1/proxy/8001/?wait=0", token=shared.token)
    assert r.status == 503 and time.monotonic() - start < 1.5


def test_ports_that_listen_are_told(shared, shared_app):
    with socket.socket() as s, socket.socket() as deaf:
        for one in (s, deaf):
            one.bind(("127.0.0.1", 0))
        s.listen()
        r = get(shared.https, "/v1/proxy/8001/?wait=0", token=shared.token)
        listening = json.loads(r.body)["listening"]
        assert 8000 in listening and s.getsockname()[1] in listening
        assert deaf.getsockname()[1] not in listening
        assert listening == sorted(set(listening))
    r = get(shared.https, "/v1/proxy/8001/?wait=0", token=shared.token,
            headers=HTML)
    assert b"Listening: " in r.body and b"8000" in r.body


def test_abandoned_socket_file(shared):
    path = shared.proxy_dir / "8002.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    r = get(shared.https, "/v1/proxy/8002/?wait=0", token=shared.token)
    assert r.status == 503 and code_of(r) == "port_not_listening"


@pytest.mark.parametrize("kind", ["symlink", "file", "directory", "fifo"])
def test_what_is_not_a_socket(shared, shared_app, kind):
    path = shared.proxy_dir / "8003.sock"
    if kind == "symlink":
        path.symlink_to(shared_app.path)
    elif kind == "file":
        path.write_text("x")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    r = get(shared.https, "/v1/proxy/8003/?wait=0", token=shared.token)
    path.rmdir() if kind == "directory" else path.unlink()
    assert r.status == 502 and code_of(r) == "socket_refused"
    assert shared_app.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_tcp_on_either_loopback(tmp, host):
    with App(tmp, 0, tcp=True, host=host) as app:
        args = ["--tcp-ports", f"{app.port}"]
        with Gateway.sidecar(tmp, args=args) as gw:
            got = echo(gw, f"/v1/proxy/{app.port}/echo")
            assert got["fields"]["host"] == "localhost"
            other = app.port - 1
            r = get(gw.https, f"/v1/proxy/{other}/?wait=0", token=gw.token)
            assert r.status == 503
            app.requests.clear()


# --- errors ------------------------------------------------------------------
def test_refusal_is_the_same_bytes(shared):
    with Client(shared.https) as c:
        seen = set()
        for token in (None, "x", "y" * 300):
            r = c.request("GET", BASE + "/", token=token).response()
            assert r.status == 401 and code_of(r) == "unauthorized"
            seen.add(r.body)
        assert len(seen) == 1


def test_error_for_people(shared):
    r = get(shared.https, "/v1/proxy/8001/?wait=0", token=shared.token,
            headers=HTML)
    assert r.status == 503
    assert r["Content-Type"].startswith("text/html")
    assert r["Cache-Control"] == "no-store"
    assert b"http-equiv=\"refresh\"" in r.body and len(r.body) < 4096
    assert r["X-Request-Id"].encode() in r.body
    # a script's request is not a page
    r = get(shared.https, "/v1/proxy/8001/?wait=0", token=shared.token,
            headers=HTML | {"Sec-Fetch-Dest": "script"})
    assert code_of(r) == "port_not_listening"


def test_server_that_hangs_up(shared, shared_app):
    r = get(shared.https, BASE + "/drop", token=shared.token)
    assert r.status == 502 and code_of(r) == "app_closed_early"


def test_no_route(shared):
    for target in ("/", "/favicon.ico", "/foo/bar"):
        r = get(shared.https, target, token=shared.token)
        assert r.status == 400 and code_of(r) == "no_route"


def test_unknown_sandbox_is_gone_for_the_operator(tmp):
    with configured(tmp) as gw:
        for target in ("/v1/sandboxes/nobody/proxy/80/", "/nobody--80/"):
            r = get(gw.https, target, token=OPERATOR)
            assert r.status == 410 and code_of(r) == "no_such_sandbox"
            r = get(gw.https, target, token=ALPHA)
            assert r.status == 401


def test_response_timeout_and_body_limit(tmp):
    with configured(tmp, timeouts="response = 300ms",
                    limits="body = 1K") as gw, App(tmp / "alpha", 80) as app:
        base = "/v1/sandboxes/alpha/proxy/80"
        r = get(gw.https, base + "/silent", token=ALPHA)
        assert r.status == 504 and code_of(r) == "response_timeout"
        r = post(gw.https, base + "/echo", b"x" * 1024, token=ALPHA)
        assert r.status == 200
        r = post(gw.https, base + "/echo", b"x" * 1025, token=ALPHA)
        assert r.status == 413 and code_of(r) == "too_large"
        assert not any(q.body > 1024 for q in app.requests)


def test_upload_that_the_server_stops_reading(tmp):
    with configured(tmp, timeouts="write = 300ms") as gw, \
            socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp / "alpha" / "80.sock"))
        deaf.listen()
        with Client(gw.http) as c:
            c.sock.sendall(b"POST /v1/sandboxes/alpha/proxy/80/ HTTP/1.1\r\n"
                           b"Host: x\r\nContent-Length: 100000000\r\n"
                           b"X-Sandbox-Token: " + ALPHA.encode() + b"\r\n\r\n")
            c.sock.setblocking(False)

            def answered():
                try:
                    c.sock.send(b"x" * 65536)
                except BlockingIOError:
                    pass
                except OSError:
                    return True
                try:
                    return c.sock.recv(65536, socket.MSG_PEEK)
                except BlockingIOError:
                    return None

            until(answered)
            c.sock.setblocking(True)
            head = c.sock.recv(65536)
        assert head.startswith(b"HTTP/1.1 504 ")
        assert b'"code":"response_timeout"' in head


def test_sandbox_limit(tmp):
    with configured(tmp, limits="conns_per_sandbox = 2") as gw, \
            App(tmp / "alpha", 80) as app, App(tmp / "beta", 80):
        base = "/v1/sandboxes/{}/proxy/80"
        held = []
        for _ in range(2):
            c = Client(gw.https)
            c.request("GET", base.format("alpha") + "/silent", token=ALPHA)
            held.append(c)
        until(lambda: app.open == 2, "two requests inside")
        r = get(gw.https, base.format("alpha") + "/", token=ALPHA)
        assert r.status == 429 and code_of(r) == "limit"
        assert r["Retry-After"]
        r = get(gw.https, base.format("beta") + "/", token=BETA)
        assert r.status == 200
        held.pop().close()
        until(lambda: get(gw.https, base.format("alpha") + "/",
                          token=ALPHA).status == 200, "room again")
        held.pop().close()


# --- fields ------------------------------------------------------------------
def test_what_passes_and_what_does_not(shared, shared_app):
    basic = "Basic " + base64.b64encode(b"a:b").decode()
    got = echo(shared, headers=[
        ("Cookie", "a=1; _xsrf=2"), ("X-XSRFToken", "2"),
        ("Authorization", basic), ("X-Api-Key", "k"),
        ("Connection", "X-Mine"), ("X-Mine", "1"), ("Keep-Alive", "x"),
        ("TE", "trailers"), ("Proxy-Authorization", "x"),
        ("X_Forwarded_For", "9.9.9.9"), ("X-Sandbox_Token", "spoof"),
        ("Accept-Encoding", "br")])["fields"]
    assert got["cookie"] == "a=1; _xsrf=2"
    assert got["x-xsrftoken"] == "2" and got["x-api-key"] == "k"
    assert got["authorization"] == basic
    assert got["accept-encoding"] == "br"
    assert got["host"] == "localhost"
    for name in ("x-mine", "keep-alive", "te", "proxy-authorization",
                 "x-sandbox-token", "x_forwarded_for", "x-sandbox_token"):
        assert name not in got
    got = echo(shared, headers={"Authorization": "bearer hf_abc"})["fields"]
    assert "authorization" not in got


def test_forwarding_fields(shared, shared_app):
    got = echo(shared, host="gw.example:8443")["fields"]
    assert got["x-forwarded-for"] == "127.0.0.1"
    assert got["x-forwarded-proto"] == "https"
    assert got["x-forwarded-host"] == "gw.example:8443"
    assert got["x-forwarded-port"] == "8443"
    assert got["x-forwarded-prefix"] == BASE
    assert got["forwarded"] == \
        'for=127.0.0.1;host="gw.example:8443";proto=https'
    assert re.fullmatch(r"[0-9a-f]{20}", got["x-request-id"])


def test_prefix_is_kept_when_asked_for(shared, shared_app):
    r = get(shared.https, "/v1/absproxy/8000/echo?a=%2f", token=shared.token)
    assert r.status == 404  # the application knows no such page
    got = shared_app.requests[-1]
    assert got.target == "/v1/absproxy/8000/echo?a=%2f"
    assert "X-Forwarded-Prefix" not in got


def test_trusted_proxy(tmp):
    with configured(tmp, gateway="trusted_proxy = 127.0.0.0/8") as gw, \
            App(tmp / "alpha", 80):
        got = echo(gw, "/v1/sandboxes/alpha/proxy/80/echo", token=ALPHA,
                   headers={"X-Forwarded-For": "192.0.2.1",
                            "X-Forwarded-Proto": "http",
                            "X-Forwarded-Host": "public.example",
                            "X-Forwarded-Prefix": "/outer/",
                            "X-Request-Id": "abc-123",
                            "X-Real-IP": "192.0.2.1"})["fields"]
    assert got["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert got["x-forwarded-host"] == "public.example"
    assert got["x-forwarded-proto"] == "http"
    assert got["x-forwarded-prefix"] == "/outer/v1/sandboxes/alpha/proxy/80"
    assert got["x-request-id"] == "abc-123"
    assert "x-real-ip" not in got


def test_tail_goes_through_byte_for_byte(shared, shared_app):
    tail = "/echo/../a//b/%2e%2E/%00%0d%0a;x?q=%zz&/../?"
    get(shared.https, BASE + tail, token=shared.token)
    assert shared_app.requests[-1].target == tail
    get(shared.https, BASE + "?q", token=shared.token)
    assert shared_app.requests[-1].target == "/?q"
    get(shared.https, BASE, token=shared.token)
    assert shared_app.requests[-1].target == "/"


def test_slash_is_added_for_pages(shared, shared_app):
    r = get(shared.https, BASE + "?a=1", token=shared.token, headers=HTML)
    assert r.status == 308 and r["Location"] == BASE + "/?a=1"
    r = get(shared.https, BASE, token=shared.token,
            headers={"Sec-Fetch-Mode": "navigate"})
    assert r.status == 308 and r["Location"] == BASE + "/"
    assert shared_app.requests == []
    assert get(shared.https, BASE, token=shared.token).status == 200
    # without a credential there is nothing to be learnt
    assert get(shared.https, BASE, headers=HTML).status == 401


@pytest.mark.parametrize("to,want", [
    ("/login", BASE + "/login"),
    ("/v1/proxy/8000/x", "/v1/proxy/8000/x"),
    ("x", "x"),
    ("//other/x", "//other/x"),
    ("https://other/x", "https://other/x"),
    ("http://localhost:8000/x", BASE + "/x"),
    ("http://gw.example:8443/x", BASE + "/x"),
])
def test_location(shared, shared_app, to, want):
    r = get(shared.https, f"{BASE}/redirect?to={to}", token=shared.token,
            host="gw.example:8443")
    assert r.status == 302 and r["Location"] == want
    # in the host form there is no prefix
    r = get(shared.https, f"/redirect?to={to}", token=shared.token,
            host="gw.example")
    assert r.status == 400


def test_cookie_path(shared, shared_app):
    r = get(shared.https, BASE + "/cookie?path=/", token=shared.token)
    assert r.all("Set-Cookie") == [f"a=1; Path={BASE}/; HttpOnly", "b=2"]
    r = get(shared.https, BASE + "/cookie?path=/app", token=shared.token)
    assert r.all("Set-Cookie")[0] == f"a=1; Path={BASE}/app; HttpOnly"


def test_rewriting_can_be_switched_off(tmp):
    with configured(tmp, gateway="rewrite = no") as gw, \
            App(tmp / "alpha", 80):
        base = "/v1/sandboxes/alpha/proxy/80"
        r = get(gw.https, base + "/redirect?to=/x", token=ALPHA)
        assert r["Location"] == "/x"
        r = get(gw.https, base + "/cookie", token=ALPHA)
        assert r.all("Set-Cookie")[0] == "a=1; Path=/; HttpOnly"


def test_host_form_and_first_segment(tmp):
    with configured(tmp) as gw, App(tmp / "alpha", 80) as app:
        got = echo(gw, "/echo?x", token=ALPHA, host="alpha--80.sbx.example")
        assert got["target"] == "/echo?x"
        assert got["fields"]["host"] == "alpha--80.sbx.example"
        assert "x-forwarded-prefix" not in got["fields"]
        r = get(gw.https, "/redirect?to=/y", token=ALPHA,
                host="alpha--80.sbx.example")
        assert r["Location"] == "/y"
        got = echo(gw, "/alpha--80.whatever/echo", token=ALPHA)
        assert got["target"] == "/echo"
        assert got["fields"]["x-forwarded-prefix"] == "/alpha--80.whatever"
        # /v1 and /health of a host are the application's
        for path in ("/v1/exec", "/health"):
            get(gw.https, path, token=ALPHA, host="alpha--80")
            assert app.requests[-1].target == path


def test_localhost_policy(tmp):
    with configured(tmp, alpha="host_policy = localhost") as gw, \
            App(tmp / "alpha", 8080):
        kw = {"token": ALPHA, "host": "alpha--8080.sbx.example"}
        got = echo(gw, "/echo", headers={
            "Origin": "https://alpha--8080.sbx.example"}, **kw)["fields"]
        assert got["host"] == "localhost:8080"
        assert got["origin"] == "http://localhost:8080"
        assert got["x-forwarded-host"] == "alpha--8080.sbx.example"
        got = echo(gw, "/echo", headers={"Origin": "https://evil.example"},
                   **kw)["fields"]
        assert got["origin"] == "https://evil.example"
        r = get(gw.https, "/redirect?to=http://localhost:8080/z", **kw)
        assert r["Location"] == "/z"


# --- users -------------------------------------------------------------------
def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_users_of_the_token_file(tmp):
    base = "/v1/sandboxes/{}/proxy/80/echo"
    gw = configured(tmp)
    tokens = {}
    for name, *more in (("ann", "--namespace", "team"),
                        ("bob", "--namespace", "other"),
                        ("root", "--role", "admin")):
        r = run(["token", "add", name, *more, "-c", str(gw.config)])
        assert r.returncode == 0, r.stderr
        tokens[name] = r.stdout.strip().splitlines()[-1]
    with gw, App(tmp / "alpha", 80) as app, App(tmp / "beta", 80):
        r = get(gw.https, base.format("alpha"), headers=bearer(tokens["ann"]))
        assert r.status == 200
        assert "Authorization" not in app.requests[-1]
        for name, sandbox, status in (
                ("ann", "beta", 403), ("ann", "nobody", 403),
                ("bob", "alpha", 403), ("root", "alpha", 200),
                ("root", "beta", 200), ("root", "nobody", 410)):
            r = get(gw.https, base.format(sandbox),
                    headers=bearer(tokens[name]))
            assert r.status == status, (name, sandbox, r.body)
        r = get(gw.https, base.format("alpha"), headers=bearer("hf_nobody"))
        assert r.status == 401
        # the token decides when there is one
        r = get(gw.https, base.format("alpha"), token="x",
                headers=bearer(tokens["root"]))
        assert r.status == 401
    gw.check_log()
    for token in tokens.values():
        assert token not in gw.log()


class Hub(http.server.ThreadingHTTPServer):
    """Knows hf_ann (of team) and hf_bob; counts who asks."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.asked = []
        self.fail = False
        self.hold = threading.Event()
        self.hold.set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.hold.set()
        self.shutdown()
        self.server_close()


class HubHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        token = self.headers["Authorization"].removeprefix("Bearer ")
        self.server.asked.append((self.path, token))
        self.server.hold.wait(20)
        users = {"hf_ann": {"name": "ann", "orgs": [{"name": "team"}]},
                 "hf_bob": {"name": "bob", "orgs": []}}
        status, body = 401, {"error": "no"}
        if self.server.fail:
            status, body = 500, {"error": "broken"}
        elif token in users:
            status, body = 200, users[token] | {"type": "user"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_hub(tmp):
    base = "/v1/sandboxes/{}/proxy/80/"
    with Hub() as hub, configured(
            tmp, auth=f"hub = {hub.url}\nhub_ttl = 1h\n"
            "hub_negative_ttl = 1h") as gw, App(tmp / "alpha", 80):
        for _ in range(3):
            r = get(gw.https, base.format("alpha"), headers=bearer("hf_ann"))
            assert r.status == 200
        assert hub.asked == [("/api/whoami-v2", "hf_ann")]
        assert get(gw.https, base.format("beta"),
                   headers=bearer("hf_ann")).status == 403
        assert get(gw.https, base.format("alpha"),
                   headers=bearer("hf_bob")).status == 403
        for _ in range(3):
            r = get(gw.https, base.format("alpha"), headers=bearer("hf_no"))
            assert r.status == 401
        assert len(hub.asked) == 3
        # many at once ask once
        hub.hold.clear()
        clients = [Client(gw.https) for _ in range(8)]
        for c in clients:
            c.request("GET", base.format("alpha"), headers=bearer("hf_new"))
        until(lambda: len(hub.asked) == 4, "the hub to be asked")
        hub.hold.set()
        for c in clients:
            assert c.response().status == 401
            c.close()
        assert len(hub.asked) == 4
        # a hub in trouble is not the user's fault
        hub.fail = True
        r = get(gw.https, base.format("alpha"), headers=bearer("hf_x"))
        assert r.status == 503 and code_of(r) == "auth_unavailable"
        assert r["Retry-After"]
        # who is known stays known, and tokens of sandboxes need no hub
        assert get(gw.https, base.format("alpha"),
                   headers=bearer("hf_ann")).status == 200
        assert get(gw.https, base.format("alpha"), token=ALPHA).status == 200
    assert "hf_" not in gw.log()


def test_hub_that_is_not_there(tmp, free_port):
    with configured(tmp, auth=f"hub = http://127.0.0.1:{free_port()}") as gw:
        r = get(gw.https, "/v1/sandboxes/alpha/proxy/80/",
                headers=bearer("hf_ann"))
        assert r.status == 503 and code_of(r) == "auth_unavailable"


# --- agents ------------------------------------------------------------------
def test_routes_of_an_agent(tmp):
    (tmp / "inner").mkdir()
    with App(tmp / "inner", 1) as agent, configured(
            tmp, alpha=f"agent = unix:{tmp}/inner/1.sock\n"
            f"agent_token_file = {tmp}/agent.token") as gw:
        for token in (ALPHA, OPERATOR):
            r = get(gw.https, "/v1/sandboxes/alpha/procs?a=%2f",
                    token=token, headers=bearer("hf_secret"))
            assert r.status == 404  # it has no such page: its word
            q = agent.requests[-1]
            assert q.target == "/v1/sandboxes/alpha/procs?a=%2f"
            assert q["X-Sandbox-Token"] == AGENT
            assert "Authorization" not in q
        n = len(agent.requests)
        for path in ("/v1/sandboxes/alpha/../beta/exec",
                     "/v1/sandboxes/alpha/%2e%2e/beta/exec",
                     "/v1/sandboxes/alpha//exec",
                     "/v1/sandboxes/alpha/x%2fy",
                     "/v1/sandboxes/alpha/..;/x",
                     "/v1/sandboxes/alpha/.."):
            r = get(gw.https, path, token=ALPHA)
            assert r.status == 400, path
        assert get(gw.https, "/v1/sandboxes/alpha/exec",
                   token=BETA).status == 401
        assert get(gw.https, "/v1/sandboxes", token=ALPHA).status == 401
        assert len(agent.requests) == n


# --- the end -----------------------------------------------------------------
def test_requests_in_progress_are_finished(tmp):
    with Gateway.sidecar(tmp) as gw, App(gw.proxy_dir, 8000) as app, \
            Client(gw.https) as c, Client(gw.https) as idle:
        idle.request("GET", BASE + "/", token=gw.token).response()
        c.request("GET", BASE + "/slow?ms=1000", token=gw.token)
        until(lambda: len(app.requests) == 2, "the request inside")
        gw.signal(signal.SIGTERM)
        r = c.response()
        assert r.status == 200 and r.body == b"late\n"
        assert c.closed() and idle.closed()


# --- the access log ----------------------------------------------------------
def lines(gw):
    return [json.loads(x) for x in gw.stdout().splitlines()
            if x.startswith("{")]


def line_of(gw, **want):
    def find():
        return [x for x in lines(gw)
                if all(x.get(k) == v for k, v in want.items())]
    return until(find, f"a line with {want}")[-1]


@pytest.fixture
def logged(tmp):
    with Gateway.sidecar(tmp, args=["--access-log", "-"]) as gw:
        yield gw


def test_access_lines(logged):
    gateway = logged
    with App(gateway.proxy_dir, 8000) as app:
        check_access_lines(gateway, app)


def check_access_lines(gateway, app):
    with Client(gateway.https) as c:
        c.request("POST", BASE + "/echo?token=s3cret&a=1", body=b"12345",
                  token=gateway.token, headers={
                      "User-Agent": "me", "X-Forwarded-For": "1.1.1.1",
                      "Referer": "https://x/?access_token=s3cret"}).response()
        x = line_of(gateway, method="POST")
        assert x["target"] == BASE + "/echo?token=***&a=1"
        assert x["status"] == 200 and x["close"] == "done"
        assert x["in"] == 5 and x["out"] > 100 and x["tls"] is True
        assert x["port"] == 8000 and x["agent"] == "me"
        assert x["upstream"].startswith("unix:")
        assert x["id"] == app.requests[0]["X-Request-Id"]
        assert 0 <= x["connect_ms"] <= x["first_ms"] <= x["total_ms"]
        c.request("GET", BASE + "/", token="wrong").response()
        x = line_of(gateway, code="unauthorized")
        assert x["status"] == 401 and x["close"] == "gateway"
        c.request("GET", BASE + "/drop", token=gateway.token).response()
        x = line_of(gateway, code="app_closed_early")
        assert x["close"] == "backend_fin"
    c = Client(gateway.https)
    c.request("GET", BASE + "/silent", token=gateway.token)
    until(lambda: app.open >= 1 and app.requests[-1].target == "/silent")
    c.abort()
    x = line_of(gateway, target=BASE + "/silent")
    assert x["close"] in ("client_rst", "client_fin") and x["status"] == 0
    assert len({y["id"] for y in lines(gateway)}) == len(lines(gateway))
    assert "s3cret" not in gateway.stdout()


def test_combined_format(tmp):
    with configured(tmp) as gw:
        pass
    text = gw.config.read_text() + "\n[log]\naccess = combined\n" \
        f"access_file = {tmp}/access.log\n"
    gw.config.write_text(text)
    gw = Gateway(tmp, config=text, token=None)
    with gw, App(tmp / "alpha", 80):
        get(gw.https, "/v1/sandboxes/alpha/proxy/80/?sig=s3cret", token=ALPHA)
        log = tmp / "access.log"
        line = until(lambda: log.exists() and log.read_text())
    assert re.match(r'127\.0\.0\.1 - sandbox \[[^]]+\] "GET /v1/sandboxes/'
                    r'alpha/proxy/80/\?sig=\*\*\* HTTP/1\.1" 200 6 "-" "-" id=',
                    line), line


def test_full_backlog_is_waited_for(shared):
    """A burst that a server takes up slowly fails nobody."""
    path = shared.proxy_dir / "8004.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        path.chmod(0o666)
        s.listen(1)
        clients = [Client(shared.http) for _ in range(12)]
        for c in clients:
            c.request("GET", "/v1/proxy/8004/?wait=20", token=shared.token)
        for _ in clients:
            back, _ = s.accept()
            back.recv(65536)
            back.sendall(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n")
            back.close()
        for c in clients:
            assert c.response().status == 204
            c.close()


def test_plain_listener_that_sends_on(tmp):
    gw = configured(tmp)
    text = gw.config.read_text().replace(
        "address = http://127.0.0.1:0",
        "address = http://127.0.0.1:0\nredirect = https://gw.example:8443")
    gw = Gateway(tmp, config=text, token=None)
    with gw:
        r = get(gw.http, "/v1/sandboxes/alpha/proxy/80/?x=%2f", token=ALPHA)
        assert r.status == 308 and r["Location"] == \
            "https://gw.example:8443/v1/sandboxes/alpha/proxy/80/?x=%2f"
        assert get(gw.http, "/health").status == 200
        assert get(gw.https, "/v1/sandboxes/alpha/proxy/80/",
                   token=ALPHA).status == 503
