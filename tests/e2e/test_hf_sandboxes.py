# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as the Hub's client makes and uses them, request by request: from
whoami to a WebSocket server inside, for two users who must not meet."""

import hashlib
import hmac
import json
import os
import secrets
import subprocess
import threading
import urllib.parse

import pytest

from support import paths
from support.gateway import Gateway
from support.http import Client, Truncated, fetch, get
from support.wait import until
from support.ws import CLOSE, WebSocket

CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = 2
{more}

[listen tls]
address = https://127.0.0.1:0

[listen plain]
address = http://127.0.0.1:0

[local]
isolation = best-effort
outbound = none

[admin]
listen = off
"""
BUCKET = "/buckets/huggingface/sbx-server/resolve/sbx-server"
# What runs inside: HTTP on a TCP port or a socket file, an echo after a 101.
SERVER = r"""
import base64, hashlib, os, socket, sys, threading
at = sys.argv[1]
if at.isdigit():
    s = socket.create_server(("127.0.0.1", int(at)))
else:
    s = socket.socket(socket.AF_UNIX)
    s.bind(at + ".new")
    s.listen()
    os.rename(at + ".new", at)
def serve(c):
    f = c.makefile("rwb")
    while True:
        first = f.readline().decode().split()
        if not first:
            return
        fields = {}
        for line in iter(f.readline, b"\r\n"):
            k, v = line.decode().split(":", 1)
            fields[k.lower()] = v.strip()
        if "upgrade" in fields:
            k = fields["sec-websocket-key"].encode()
            k += b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            a = base64.b64encode(hashlib.sha1(k).digest())
            f.write(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: "
                    b"Upgrade\r\nSec-WebSocket-Accept: " + a + b"\r\n\r\n")
            f.flush()
            while True:
                h = f.read(2)
                if len(h) < 2:
                    return
                n = h[1] & 127
                m, p = f.read(4), f.read(n)
                p = bytes(b ^ m[i % 4] for i, b in enumerate(p))
                f.write(bytes([h[0], n]) + p)
                f.flush()
                if h[0] & 15 == 8:
                    return
        body = f.read(int(fields.get("content-length", 0)))
        known = [k for k in ("authorization", "x-sandbox-token") if k in fields]
        out = repr((first[0], first[1], len(body), known)).encode()
        f.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(out))
        f.write(out)
        f.flush()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


def add_token(gw, *args):
    out = subprocess.run(
        [paths.GATEWAY, "token", "add", *args, "-c", gw.config],
        env=paths.child_env({}), capture_output=True, check=True)
    return out.stdout.decode().strip()


def make(tmp, more=""):
    tmp.chmod(0o755)
    gw = Gateway(tmp, config=CONFIG.format(tmp=tmp, more=more), token=None)
    gw.ann = User(gw, add_token(gw, "ann", "--namespace", "ann,team"))
    gw.bob = User(gw, add_token(gw, "bob"))
    return gw


class User:
    """Somebody with a token, and the requests of the client."""

    def __init__(self, gw, token):
        self.gw, self.token = gw, token
        self.headers = {"Authorization": f"Bearer {token}"}

    def api(self, method, path, body=None, status=200):
        data = b"" if method == "POST" else None
        if body is not None:
            data = json.dumps(body).encode()
        r = fetch(self.gw.https, method, path, headers=self.headers, body=data,
                  host=self.gw.https.split("://")[1])
        assert r.status == status, (r.status, r.body)
        return json.loads(r.body) if r.body else None

    def create(self, mode="dedicated", env=None, idle="600", namespace=None,
               status=200, **secret):
        """What Sandbox.create() and a pool's host are asked for with."""
        me = namespace or self.api("GET", "/api/whoami-v2")["name"]
        nonce = secrets.token_hex(16)
        token = hmac.new(self.token.encode(), f"hf-sandbox:{nonce}".encode(),
                         hashlib.sha256).hexdigest()
        job = self.api("POST", f"/api/jobs/{me}", {
            "command": ["/bin/sh", "-c", "exit 1"], "arguments": [],
            "environment": {
                **(env or {}), "SBX_PORT": "49983", "SBX_IDLE_TIMEOUT": idle,
                "SBX_SERVER_URL": self.gw.https + BUCKET,
                "SBX_SERVER_MOUNT": "/.hf-sbx-server",
                **({"SBX_HOST_MODE": "1", "SBX_CAPACITY": "3"}
                   if mode == "pool" else {})},
            "flavor": "cpu-basic", "secrets": {"SBX_TOKEN": token, **secret},
            "timeoutSeconds": 86400,
            "labels": {"hf-sandbox": "1", "hf-sandbox-mode": mode,
                       "hf-sandbox-nonce": nonce, "name": "python-3-12-abc"},
            "volumes": [{"type": "bucket", "source": "huggingface/sbx-server",
                         "mountPath": "/.hf-sbx-server", "readOnly": True}],
            "expose": {"ports": [49983]}, "dockerImage": "python:3.12"},
            status)
        return Box(self, job, token) if status == 200 else job


class Box:
    """A sandbox (or a pool's host) by the URL that its job came with."""

    def __init__(self, user, job, token, base="/v1"):
        self.user, self.job, self.token, self.base = user, job, token, base
        url = next(u for u in job["status"]["exposeUrls"] if "--49983." in u)
        parts = urllib.parse.urlsplit(url)
        self.origin, self.path = f"{parts.scheme}://{parts.netloc}", parts.path
        self.headers = {**user.headers, "X-Sandbox-Token": token}

    @property
    def id(self):
        return self.job["id"]

    @property
    def job_path(self):
        return f"/api/jobs/{self.job['owner']['name']}/{self.id}"

    def health(self, headers=None):
        return get(self.origin, self.path + "/health",
                   headers=self.headers if headers is None else headers)

    def ask(self, method, rest, body=None, headers=None, **kw):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return fetch(self.origin, method, self.path + self.base + rest,
                     headers=self.headers if headers is None else headers,
                     body=body, **kw)

    def run(self, cmd, **more):
        r = self.ask("POST", "/exec", {"cmd": cmd, **more})
        assert r.status == 200, r.body
        events = [json.loads(line) for line in r.body.splitlines()]
        assert events[-1]["event"] == "exit"
        out = "".join(e["data"] for e in events if e["event"] == "stdout")
        return events[-1]["exit_code"], out

    def serve(self, at):
        self.ask("PUT", "/files/write?path=server.py", SERVER.encode())
        r = self.ask("POST", "/processes",
                     {"cmd": f"exec python3 server.py {at}"})
        assert r.status == 200, r.body
        return json.loads(r.body)["pid"]

    def cancel(self):
        self.user.api("POST", self.job_path + "/cancel")


@pytest.fixture(scope="module")
def gw(module_tmp):
    with make(module_tmp) as gw:
        yield gw


@pytest.fixture
def box(gw):
    box = gw.ann.create(env={"N": 5}, HF_TOKEN="forwarded")
    yield box
    box.cancel()


def test_create_use_kill(gw, box):
    job = box.job
    assert job["owner"]["name"] == "ann" and job["flavor"] == "cpu-basic"
    assert job["environment"]["SBX_IDLE_TIMEOUT"] == "600"
    assert box.token not in json.dumps(job)
    # No 503 on the way: the first answer is the agent's.
    assert box.health().status == 200
    now = gw.ann.api("GET", box.job_path)
    assert now["status"]["stage"] == "RUNNING"
    assert now["status"]["exposeUrls"] == job["status"]["exposeUrls"]
    found = gw.ann.api("GET", "/api/jobs/ann?stage=RUNNING&stage=SCHEDULING"
                       "&label=hf-sandbox%3D1&label=hf-sandbox-nonce%3D"
                       + job["labels"]["hf-sandbox-nonce"])
    assert [j["id"] for j in found] == [box.id]

    assert box.run("echo $N $HF_TOKEN; exit 3") == (3, "5 forwarded\n")
    assert box.run(["echo", "$N"]) == (0, "$N\n")
    data = os.urandom(3 << 20)
    r = box.ask("PUT", "/files/write?path=/tmp/" + box.id, data)
    assert r.status == 200, r.body
    r = box.ask("GET", f"/files/read?path=/tmp/{box.id}&offset=1000&length=9")
    assert r.body == data[1000:1009]
    assert box.ask("GET", "/files/stat?path=/tmp/no").status == 404

    gw.ann.api("POST", box.job_path + "/cancel")
    r = box.health()
    assert r.status == 410 and "canceled" in json.loads(r.body)["error"]
    assert gw.ann.api("GET", box.job_path)["status"]["stage"] == "CANCELED"


def test_ports_inside(box):
    """Through the agent with the sandbox's token, and the port itself."""
    box.serve(8000)
    via, port = box.path + "/v1/proxy/8000", box.path.replace("49983", "8001")
    r = until(lambda: (r := get(box.origin, via + "/a%20b?c=%2F",
                                headers=box.headers)).status == 200 and r)
    assert r.body == b"('GET', '/a%20b?c=%2F', 0, [])"
    r = box.ask("POST", "/proxy/8000/x", b"y" * 70000)
    assert r.body == b"('POST', '/x', 70000, [])"
    with WebSocket(box.origin, via + "/ws", headers=box.headers) as ws:
        assert ws.echo("hello") == b"hello"
        assert ws.close(1000) == 1000
    # that needs the token, which the agent checks
    assert get(box.origin, via + "/", headers=box.user.headers).status == 403
    if os.geteuid() != 0:
        return
    # A job that has its agent to itself is reached at any port.
    box.serve(8001)
    r = get(box.origin, port + "/d?wait=10", headers=box.user.headers)
    assert r.body == b"('GET', '/d?wait=10', 0, [])"
    with WebSocket(box.origin, port + "/ws", headers=box.user.headers) as ws:
        assert ws.echo("there") == b"there"
        box.cancel()
        assert ws.frame().opcode == CLOSE
    r = get(box.origin, port.replace("8001", "8002") + "/?wait=0",
            headers=box.user.headers)
    assert r.status == 410


def test_who_may(gw, box):
    """Only the bearer opens, and who has none of use learns nothing."""
    assert box.health().status == 200
    other = box.path.replace(box.id, "0123456789abcdef01234567")
    bob = {**gw.bob.headers, "X-Sandbox-Token": box.token}
    wrong = {"Authorization": "Bearer hf_wrong", "X-Sandbox-Token": box.token}
    paths = ["/health", "/v1/processes", "/v1/proxy/80/", "/v1/sandboxes",
             "/v1/sandboxes/a", "/v1/sandboxes/a/exec"]
    for headers, status in ((gw.bob.headers, 403), (bob, 403), (wrong, 401),
                            ({"X-Sandbox-Token": box.token}, 401), ({}, 401)):
        for path in paths:
            mine, no = (get(box.origin, base + path, headers=headers)
                        for base in (box.path, other))
            assert mine.status == no.status == status, (headers, path)
            strip = [json.loads(r.body) for r in (mine, no)]
            for one in strip:
                one.pop("request_id", None)
            assert strip[0] == strip[1]
    for token in ("wrong", None):
        headers = {**gw.ann.headers}
        if token:
            headers["X-Sandbox-Token"] = token
        assert box.ask("GET", "/processes", headers=headers).status == 403
    # The API, too.
    gw.bob.api("GET", box.job_path, status=404)
    gw.bob.api("GET", box.job_path.replace("/ann/", "/bob/"), status=404)
    gw.bob.api("POST", box.job_path + "/cancel", status=404)
    gw.bob.create(namespace="ann", status=403)
    assert box.health().status == 200
    # A second namespace of hers; a kept connection asks for each request.
    team = gw.ann.create(namespace="team")
    with Client(box.origin) as c:
        for headers, status in ((team.headers, 200), (gw.bob.headers, 403),
                                (team.headers, 200), ({}, 401)):
            r = c.request("GET", team.path + "/health",
                          headers=headers).response()
            assert r.status == status
    team.cancel()


def test_reader(gw, box):
    """Reads what the others of the namespace have, and no more."""
    eve = User(gw, add_token(gw, "eve", "--namespace", "ann", "--role",
                             "readonly"))
    until(lambda: box.health(eve.headers).status == 200)
    eve.api("GET", box.job_path)
    eve.api("POST", box.job_path + "/cancel", status=403)
    eve.create(status=403)
    headers = {**eve.headers, "X-Sandbox-Token": box.token}
    r = box.ask("POST", "/exec", {"cmd": "true"}, headers=headers)
    assert r.status == 403 and "code" in json.loads(r.body)
    assert box.ask("GET", "/processes", headers=headers).status == 200


@pytest.mark.root
def test_pool(gw):
    """A host with sandboxes of its own, each behind the host's URL."""
    host = gw.ann.create("pool")
    assert host.health().status == 200
    r = host.ask("POST", "/sandboxes",
                 {"count": 4, "idle_timeout_secs": 600, "env": {"K": 1}})
    made = json.loads(r.body)
    assert len(made["sandboxes"]) == 3 and made["rejected"] == 1
    a, b = (Box(gw.ann, host.job, host.token, f"/v1/sandboxes/{s['id']}")
            for s in made["sandboxes"][:2])
    assert a.run("echo $K; echo 1 > x")[1] == "1\n"
    assert b.run("cat x")[0] != 0
    assert a.ask("GET", "/files/read?path=x").body == b"1\n"
    assert b.ask("GET", "/files/read?path=x").status == 404
    a.serve("$SBX_PROXY_DIR/8000.sock")
    r = until(lambda: (r := a.ask("GET", "/proxy/8000/in")).status == 200
              and r)
    assert r.body == b"('GET', '/in', 0, [])"
    with WebSocket(a.origin, a.path + a.base + "/proxy/8000/ws",
                   headers=a.headers) as ws:
        assert ws.echo("pool") == b"pool"
    r = get(host.origin, host.path.replace("49983", "8000") + "/",
            headers=gw.ann.headers)
    assert r.status == 400 and b"/v1/sandboxes/<id>" in r.body
    assert b.ask("DELETE", "").status == 200
    assert b.ask("GET", "/processes").status == 404
    assert len(json.loads(host.ask("GET", "/sandboxes").body)) == 2
    host.cancel()
    assert host.ask("GET", "/sandboxes").status == 410


def test_idle_end_has_its_reason(gw):
    box = gw.ann.create(idle="1")
    assert box.health().status == 200
    until(lambda: gw.ann.api("GET", box.job_path)["status"]["stage"]
          == "COMPLETED", seconds=20)
    r = box.health()
    assert r.status == 410 and "idle" in json.loads(r.body)["error"]
    # not to others
    assert box.health(gw.bob.headers).status == 403


def test_host_form(tmp):
    """With a domain the job is a name below it."""
    with make(tmp, "domain = sbx.example") as gw:
        box = gw.ann.create()
        urls = box.job["status"]["exposeUrls"]
        assert any(f"//{box.id}--49983.sbx.example" in u for u in urls), urls
        host = f"{box.id}--49983.sbx.example"
        for path, status in (("/health", 200), ("/v1/processes", 200),
                             ("/v1/sandboxes", 404)):
            r = get(gw.https, path, host=host, headers=box.headers)
            assert r.status == status, (path, r.body)
        assert get(gw.https, "/health", host=host,
                   headers=gw.bob.headers).status == 403
        box.cancel()


def count(box):
    return int(box.ask("GET", "/files/read?path=/tmp/count").body or 0)


def test_gateway_dies(tmp):
    """Its agents and their commands go on, and the next one has them."""
    first, cut = make(tmp), []
    with first as gw:
        box, ended = gw.ann.create(), gw.ann.create()
        assert box.health().status == ended.health().status == 200
        ended.cancel()
        box.ask("POST", "/processes", {
            "cmd": "i=0; while :; do i=$((i+1)); echo $i >count; sleep .02; "
            "done", "cwd": "/tmp"})
        until(lambda: box.ask(
            "GET", "/files/stat?path=/tmp/count").status == 200)

        def follow():
            try:
                box.ask("POST", "/exec", {"cmd": "echo >/tmp/on; sleep 60"},
                        timeout=70)
            except (Truncated, OSError) as e:
                cut.append(e)
        thread = threading.Thread(target=follow)
        thread.start()
        until(lambda: box.ask("GET", "/files/stat?path=/tmp/on").status == 200)
        gw.proc.kill()
        gw.proc.wait()
        gw.proc = None
        thread.join(20)
        assert cut and not thread.is_alive()
    with Gateway(tmp, config=first.config.read_text(), token=None) as gw:
        first.ann.gw = gw
        box.origin = ended.origin = gw.https
        assert box.health().status == 200
        before = until(lambda: count(box))
        until(lambda: count(box) > before)
        assert first.ann.api("GET", box.job_path)["status"]["stage"] \
            == "RUNNING"
        r = ended.health()
        assert r.status == 410 and "canceled" in json.loads(r.body)["error"]
        assert ended.health(first.bob.headers).status == 403
        box.cancel()
        assert box.health().status == 410


def test_many_at_once(gw):
    """Each is served by its own agent, and none is refused on the way."""
    boxes, lock = [], threading.Lock()

    def one():
        box = gw.ann.create()
        ok = box.health().status == 200 and box.run("echo $SBX_X")[0] == 0
        with lock:
            boxes.append((box, ok))
    threads = [threading.Thread(target=one) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(boxes) == 8 and all(ok for _, ok in boxes)
    for box, _ in boxes:
        box.cancel()
