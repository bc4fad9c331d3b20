#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client's half of ./quickstart.

    tools/demo.py start URL CA TOKEN   makes a sandbox and starts
                                       examples/demo/demo.py in it; prints
                                       "ID TOKEN"
    tools/demo.py check ENVFILE        verifies the running demo from outside

Secrets come by environment or file, never by argument: TOKEN is the name of
an environment variable.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOP / "tests" / "e2e"))

from support.gateway import tls_context  # noqa: E402
from support.http import Client, Truncated  # noqa: E402
from support.ws import WebSocket  # noqa: E402

PORT = 8000
MIB64 = 64 << 20


class Failed(Exception):
    pass


class Edge:
    """The gateway as a client sees it: TLS verified against its own
    certificate, the right name and all."""

    def __init__(self, url, ca):
        self.url = url
        self.ctx = tls_context(ca=ca)

    def client(self, timeout=30.0):
        return Client(self.url, timeout, self.ctx)

    def ask(self, method, target, token, body=None, want=200, **kw):
        with self.client() as c:
            r = c.request(method, target, token=token, body=body,
                          **kw).response(method)
        if r.status != want:
            raise Failed(f"{method} {target}: {r.status} "
                         + r.body[:300].decode(errors="replace"))
        return r

    def ask_json(self, method, target, token, value):
        r = self.ask(method, target, token, json.dumps(value).encode(),
                     headers={"Content-Type": "application/json"})
        return json.loads(r.body)

    def run(self, box, token, cmd, stdin=""):
        """A command in the sandbox, to its end."""
        r = self.ask("POST", f"/v1/sandboxes/{box}/exec", token, json.dumps(
            {"cmd": cmd, "stdin": stdin}).encode())
        events = [json.loads(line) for line in r.body.splitlines()]
        out = "".join(e["data"] for e in events
                      if e["event"] in ("stdout", "stderr"))
        if events[-1].get("exit_code") != 0:
            raise Failed(f"{cmd}: {events[-1]} {out}")
        return out


def start(url, ca, variable):
    edge, operator = Edge(url, ca), os.environ[variable]
    made = edge.ask_json("POST", "/v1/sandboxes", operator, {"count": 1})
    if not made.get("sandboxes"):
        raise Failed(f"no sandbox was made: {made}")
    box = made["sandboxes"][0]
    source = (TOP / "examples" / "demo" / "demo.py").read_text()
    edge.run(box["id"], box["token"], "cat > demo.py", source)
    edge.ask_json("POST", f"/v1/sandboxes/{box['id']}/exec", box["token"], {
        "cmd": ["/usr/bin/python3", "demo.py", str(PORT)],
        "background": True, "tag": "demo"})
    edge.ask("GET", f"/v1/sandboxes/{box['id']}/proxy/{PORT}/whoami?wait=20",
             box["token"])
    print(box["id"], box["token"])


# --- check ---------------------------------------------------------------
def read_env(path):
    """The variables as a shell sees them."""
    names = ("SBX_URL", "SBX_TOKEN", "SBX_SANDBOX", "SBX_CA", "HF_ENDPOINT",
             "HF_TOKEN")
    script = '. "$0" && printf "%s\\n" ' + " ".join(f'"${n}"' for n in names)
    out = subprocess.run(["/bin/sh", "-euc", script, path], check=True,
                         capture_output=True, text=True,
                         env={"PATH": os.environ["PATH"]}).stdout
    return dict(zip(names, out.splitlines()))


def check_page(edge, env, base):
    r = edge.ask("GET", base + "/", env["SBX_TOKEN"])
    if b"Hello from a sandbox" not in r.body:
        raise Failed("that is not the demo page")
    who = json.loads(edge.ask("GET", base + "/whoami",
                              env["SBX_TOKEN"]).body)
    if who["sandbox"] != env["SBX_SANDBOX"] or who["uid"] == 0:
        raise Failed(f"the page does not come from the sandbox: {who}")
    return f"{len(r.body)} bytes over https from uid {who['uid']}"


def check_websocket(edge, env, base):
    with WebSocket(env["SBX_URL"], base + "/ws", env["SBX_TOKEN"],
                   ctx=edge.ctx) as w:
        if w.response.status != 101:
            raise Failed(f"the handshake was answered {w.response.status}")
        began = time.monotonic()
        for i in range(100):
            if w.echo(f"message {i}") != b"message %d" % i:
                raise Failed("another message came back")
        took = (time.monotonic() - began) * 10
        big = os.urandom(1 << 20)
        if w.echo(big) != big:
            raise Failed("1 MiB came back changed")
        if w.close() != 1000:
            raise Failed("the close was not answered")
    return f"100 echoes over wss, {took:.2f} ms each, and 1 MiB"


def check_events(edge, env, base):
    """Events come as they are written: not all at the end, and not each one
    only with the next. (The server is on this machine, with our clock.)"""
    times, ages, data = [], [], b""
    with edge.client() as c:
        c.request("GET", base + "/events?ms=150", token=env["SBX_TOKEN"])
        r = c.final_head()
        if r["Content-Type"] != "text/event-stream":
            raise Failed(f"not a stream: {r}")
        while len(times) < 5:
            more = c.recv()
            if not more:
                raise Failed("the stream ended")
            data += more
            while b"\n\n" in data:
                event, data = data.split(b"\n\n", 1)
                said = re.search(rb'"time": ([0-9.]+)', event)
                if said:
                    times.append(time.time())
                    ages.append(times[-1] - float(said.group(1)))
    spread, age = times[-1] - times[0], min(ages)
    if spread < 0.3 or age > 0.1:
        raise Failed(f"held back: 5 events within {spread:.3f} s, the "
                     f"freshest {age:.3f} s old")
    return f"5 events in {spread:.2f} s, the freshest {age * 1000:.1f} ms old"


def check_upload(edge, env, base):
    data = hashlib.shake_128(b"up").digest(1 << 20) * 64
    began = time.monotonic()
    r = edge.ask("PUT", base + "/upload", env["SBX_TOKEN"], data)
    took = time.monotonic() - began
    want = {"bytes": MIB64, "sha256": hashlib.sha256(data).hexdigest()}
    if json.loads(r.body) != want:
        raise Failed(f"arrived changed: {r.body!r}")
    return f"64 MiB arrived byte for byte, {64 / took:.0f} MiB/s"


def check_download(edge, env, base):
    want = hashlib.sha256(
        hashlib.shake_128(b"sbx demo").digest(65536) * (MIB64 >> 16))
    began = time.monotonic()
    r = edge.ask("GET", f"{base}/download?bytes={MIB64}", env["SBX_TOKEN"])
    took = time.monotonic() - began
    if hashlib.sha256(r.body).hexdigest() != want.hexdigest():
        raise Failed(f"{len(r.body)} bytes came, and not the right ones")
    return f"64 MiB came byte for byte, {64 / took:.0f} MiB/s"


def check_wrong_token(edge, env, base):
    for token in (None, "wrong", env["SBX_TOKEN"][:-1],
                  env["SBX_TOKEN"] + "x"):
        with edge.client() as c:
            r = c.request("GET", base + "/whoami", token=token).response()
        if r.status not in (401, 403) or b"sandbox" in r.body.split(b"code")[0]:
            raise Failed(f"answered {r.status}: {r.body[:200]!r}")
    with WebSocket(env["SBX_URL"], base + "/ws", "wrong", ctx=edge.ctx) as w:
        if w.response.status not in (401, 403):
            raise Failed(f"a WebSocket was answered {w.response.status}")
    return "wrong, cut, longer and no token refused, for a WebSocket as well"


def check_curl(edge, env, base):
    out = subprocess.run(
        ["curl", "-sS", "--fail", "--cacert", env["SBX_CA"], "-H", "@-",
         env["SBX_URL"] + base + "/"],
        input=f"X-Sandbox-Token: {env['SBX_TOKEN']}\n", text=True,
        capture_output=True, check=False)
    if out.returncode or "Hello from a sandbox" not in out.stdout:
        raise Failed(out.stderr or "curl got another page")
    return "curl, with the certificate verified"


def check(path):
    env = read_env(path)
    if os.stat(path).st_mode & 0o77:
        raise Failed(f"{path} can be read by others")
    edge = Edge(env["SBX_URL"], env["SBX_CA"])
    base = f"/v1/sandboxes/{env['SBX_SANDBOX']}/proxy/{PORT}"
    bad = 0
    for name, one in (("page", check_page), ("websocket", check_websocket),
                      ("events", check_events), ("upload", check_upload),
                      ("download", check_download),
                      ("token", check_wrong_token), ("curl", check_curl)):
        try:
            print(f"  ok    {name:10} {one(edge, env, base)}", flush=True)
        except (Failed, OSError, ValueError, AssertionError,
                Truncated) as e:
            bad += 1
            print(f"  FAIL  {name:10} {type(e).__name__}: {e}", flush=True)
    return bad


def main():
    if sys.argv[1:2] == ["start"] and len(sys.argv) == 5:
        try:
            return start(*sys.argv[2:])
        except (Failed, OSError, ValueError, Truncated) as e:
            sys.exit(f"the demo did not start: {e}")
    if sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        sys.exit(1 if check(sys.argv[2]) else 0)
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
