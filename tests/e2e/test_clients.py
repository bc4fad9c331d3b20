# SPDX-License-Identifier: Apache-2.0
"""Clients that people really use, against servers behind the gateway: curl,
python3-websockets, wrk, Python's own http.client and urllib, Chromium."""

import asyncio
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import urllib.request

import pytest

from support import paths
from support.app import pattern
from support.chromium import PROGRAM, Chromium
from support.gateway import listen_address, tls_context
from support.wait import until

websockets = pytest.importorskip("websockets")

BASE = "/v1/proxy/8000"


# --- curl ------------------------------------------------------------------
def curl(gw, *args, **kw):
    r = subprocess.run(
        ["curl", "-sS", "--max-time", "60", "--cacert",
         str(gw.state_dir / "tls.crt"), "-H", "@-", *args],
        input=f"X-Sandbox-Token: {gw.token}\n".encode(), check=False,
        capture_output=True, **kw)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def test_curl_verifies_the_self_signed_certificate(shared, shared_app):
    assert curl(shared, shared.https + BASE + "/") == b"hello\n"


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_tls_versions(shared, shared_app, version):
    out = curl(shared, f"--tlsv{version}", "--tls-max", version,
               shared.https + BASE + "/")
    assert out == b"hello\n"


def test_curl_keeps_its_connection(shared, shared_app):
    url = shared.https + BASE + "/"
    out = curl(shared, "-o", "/dev/null", "-o", "/dev/null", "-o",
               "/dev/null", "-w", "%{num_connects}\n", url, url, url)
    assert out.split() == [b"1", b"0", b"0"]
    assert len(shared_app.requests) == 3


def test_curl_head(shared, shared_app):
    out = curl(shared, "-I", shared.https + BASE + "/bytes?n=12345")
    assert b"Content-Length: 12345" in out


@pytest.mark.parametrize("how", ["length", "chunked"])
def test_curl_upload(shared, shared_app, tmp, how):
    data = pattern(20 << 20, seed=3)
    (tmp / "file").write_bytes(data)
    extra = ["-H", "Transfer-Encoding: chunked"] if how == "chunked" else []
    out = json.loads(curl(shared, "-T", str(tmp / "file"), *extra,
                          shared.https + BASE + "/echo"))
    assert out["length"] == len(data)
    assert out["sha256"] == hashlib.sha256(data).hexdigest()


def test_curl_expect_100_continue(shared, shared_app, tmp):
    (tmp / "file").write_bytes(b"x" * 100000)
    out = curl(shared, "-v", "-H", "Expect: 100-continue", "--expect100-timeout",
               "20", "--data-binary", f"@{tmp}/file",
               shared.https + BASE + "/echo", timeout=15)
    assert json.loads(out)["length"] == 100000


@pytest.mark.parametrize("what", ["bytes", "chunked"])
def test_curl_download(shared, shared_app, what):
    out = curl(shared, shared.https + BASE + f"/{what}?n=20000000")
    assert out == pattern(20000000)


def test_curl_compressed_body_passes_untouched(shared, shared_app):
    shared_app.raw = (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
                      b"Content-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
    out = curl(shared, "--raw", shared.https + BASE + "/raw")
    assert out == b"\x1f\x8b\x08\x00"


def test_curl_over_a_unix_socket(tmp):
    from support.app import App
    from support.gateway import Gateway
    with Gateway.sidecar(tmp, listens=[f"unix:{tmp}/edge.sock"]) as gw, \
            App(gw.proxy_dir, 8000):
        r = subprocess.run(
            ["curl", "-sS", "--unix-socket", f"{tmp}/edge.sock", "-H",
             f"X-Sandbox-Token: {gw.token}", f"http://any{BASE}/"],
            capture_output=True, check=True)
        assert r.stdout == b"hello\n"


# --- Python's own ------------------------------------------------------------
def test_http_client_many_requests_on_a_connection(shared, shared_app):
    host, port = listen_address(shared.https)
    c = http.client.HTTPSConnection(host, port, timeout=20,
                                    context=tls_context())
    for i in range(50):
        # It sends head and body in two segments.
        c.request("POST", BASE + "/echo", body=b"x" * i,
                  headers={"X-Sandbox-Token": shared.token})
        r = c.getresponse()
        assert r.status == 200
        assert json.loads(r.read())["length"] == i
    c.close()


def test_urllib_follows_a_redirect(shared, shared_app):
    request = urllib.request.Request(
        shared.https + BASE + "/redirect?to=/echo",
        headers={"X-Sandbox-Token": shared.token})
    with urllib.request.urlopen(request, context=tls_context(),
                                timeout=20) as r:
        assert r.url == shared.https + BASE + "/echo"
        assert json.loads(r.read())["target"] == "/echo"


# --- python3-websockets ------------------------------------------------------
class WsServer:
    """A python3-websockets server on a socket of the proxy directory, in a
    process of its own."""

    SOURCE = """
import asyncio, sys, websockets
async def echo(ws, path=None):
    try:
        async for message in ws:
            await ws.send(message)
    except websockets.ConnectionClosed:
        pass
async def main():
    async with websockets.unix_serve(echo, sys.argv[1], max_size=None,
                                     subprotocols=["chat.v1"]):
        print("up", flush=True)
        await asyncio.Future()
asyncio.run(main())
"""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.proc = subprocess.Popen(
            ["/usr/bin/python3", "-c", self.SOURCE, str(self.path)],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.proc.stdout.readline() == b"up\n"
        os.chmod(self.path, 0o666)
        return self

    def __exit__(self, *exc):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


def websockets_run(gw, body, port=8001, **options):
    """body(ws) over a real client's connection, through TLS."""
    url = gw.https.replace("https", "wss") + f"/v1/proxy/{port}/"
    headers = {"X-Sandbox-Token": gw.token}

    async def go():
        async with websockets.connect(
                url, ssl=tls_context(), max_size=None, open_timeout=20,
                extra_headers=headers, **options) as w:
            return await body(w)
    return asyncio.run(asyncio.wait_for(go(), 60 * paths.SLOW))


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_websockets_echo(shared, compression):
    async def body(w):
        deflate = any("permessage-deflate" in v for k, v in
                      w.response_headers.raw_items()
                      if k.lower() == "sec-websocket-extensions")
        assert deflate == (compression == "deflate")
        for message in ("text é 漢字", b"\0\xff" * 1000,
                        "x" * 200000, os.urandom(3 << 20)):
            await w.send(message)
            assert await w.recv() == message
        # Ping and pong cross the gateway and come from the server.
        await asyncio.wait_for(await w.ping(b"are you there"), 10)
        return True
    with WsServer(shared.proxy_dir / "8001.sock"):
        assert websockets_run(shared, body, compression=compression)


def test_websockets_subprotocol_and_close_code(shared):
    async def body(w):
        assert w.subprotocol == "chat.v1"
        await w.close(4001, "bye")
        assert w.close_code == 4001
        return True
    with WsServer(shared.proxy_dir / "8001.sock"):
        assert websockets_run(shared, body, subprotocols=["chat.v1"])


def test_websockets_many_at_once(shared):
    url = shared.https.replace("https", "wss") + "/v1/proxy/8001/"

    async def one(i):
        async with websockets.connect(
                url, ssl=tls_context(), open_timeout=30,
                extra_headers={"X-Sandbox-Token": shared.token}) as w:
            for j in range(20):
                await w.send(f"{i}-{j}")
                assert await w.recv() == f"{i}-{j}"

    async def everyone():
        await asyncio.gather(*(one(i) for i in range(40)))
    with WsServer(shared.proxy_dir / "8001.sock"):
        asyncio.run(asyncio.wait_for(everyone(), 120))


def test_websockets_refused_without_a_token(shared):
    async def go():
        url = shared.https.replace("https", "wss") + "/v1/proxy/8001/"
        with pytest.raises(websockets.InvalidStatusCode) as e:
            async with websockets.connect(url, ssl=tls_context()):
                pass
        return e.value.status_code
    with WsServer(shared.proxy_dir / "8001.sock"):
        assert asyncio.run(go()) in (401, 403)


# --- wrk -----------------------------------------------------------------------
@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_wrk(shared, shared_app, scheme):
    """Not for the figures: under load every single answer is right."""
    r = subprocess.run(
        ["wrk", "-t", "2", "-c", "32", "-d", "2s", "-H",
         f"X-Sandbox-Token: {shared.token}",
         shared.url(scheme) + BASE + "/"],
        capture_output=True, text=True, check=True, timeout=60)
    assert "Non-2xx" not in r.stdout, r.stdout
    assert "Socket errors" not in r.stdout, r.stdout
    done = int(re.search(r"(\d+) requests in", r.stdout).group(1))
    assert done > 20
    assert len(shared_app.requests) >= done


# --- Chromium --------------------------------------------------------------
class Demo:
    """examples/demo, beside the gateway instead of inside a sandbox."""

    def __init__(self, proxy_dir, port):
        self.path = proxy_dir / f"{port}.sock"
        self.argv = ["/usr/bin/python3",
                     str(paths.TOP / "examples" / "demo" / "demo.py"),
                     str(port)]

    def __enter__(self):
        env = paths.child_env({"SBX_PROXY_DIR": str(self.path.parent)})
        self.proc = subprocess.Popen(self.argv, env=env,
                                     stdout=subprocess.DEVNULL,
                                     stdin=subprocess.DEVNULL)
        until(self.path.exists, "the demo listens")
        os.chmod(self.path, 0o666)
        return self

    def __exit__(self, *exc):
        self.proc.kill()
        self.proc.wait()


@pytest.mark.skipif(not PROGRAM, reason="chromium is not installed")
def test_chromium_page_websocket_events_and_upload(gateway, tmp):
    with Demo(gateway.proxy_dir, 8000), \
            Chromium(tmp, {"X-Sandbox-Token": gateway.token}) as browser:
        page = browser.open(gateway.https + BASE + "/")
        page.until("document.title === 'Hello from a sandbox'")
        assert page.value("location.protocol") == "https:"
        # The page's own WebSocket said hello and was answered.
        page.until("document.body.dataset.ws === 'hello'")
        page.value("say('from a browser'), 1")
        page.until("document.body.dataset.ws === 'from a browser'")
        # Its EventSource counts on.
        first = int(page.until("document.body.dataset.sse"))
        page.until(f"Number(document.body.dataset.sse) > {first}")
        # fetch() with a body of 8 MiB.
        got = page.value("""
            fetch('upload', {method: 'PUT', body: new Uint8Array(8 << 20)})
                .then(r => r.text())""")
        assert json.loads(got) == {
            "bytes": 8 << 20,
            "sha256": hashlib.sha256(bytes(8 << 20)).hexdigest()}


@pytest.mark.skipif(not PROGRAM, reason="chromium is not installed")
def test_chromium_reload_and_refusal(gateway, tmp):
    with Demo(gateway.proxy_dir, 8000):
        with Chromium(tmp, {"X-Sandbox-Token": gateway.token}) as browser:
            page = browser.open(gateway.https + BASE + "/")
            for _ in range(3):
                page.until("document.body && document.body.dataset.ws")
                page.value("delete document.body.dataset.ws, "
                           "location.reload(), 1")
        other = tmp / "other"
        other.mkdir()
        with Chromium(other) as browser:  # no token
            page = browser.open(gateway.https + BASE + "/")
            page.until("document.readyState === 'complete' && "
                       "location.protocol === 'https:'")
            assert "Hello from a sandbox" not in page.value(
                "document.documentElement.outerHTML")
