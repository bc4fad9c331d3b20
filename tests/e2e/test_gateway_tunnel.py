# SPDX-License-Identifier: Apache-2.0
"""The gateway and agents on machines behind SSH servers: an agent behind a
real sshd, sandboxes there that call endpoints on this side's loopback, and
what happens when the way there breaks."""

import contextlib
import http.client
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from agent_support import Agent, events, text
from support.gateway import Gateway, run as program
from support.http import Client
from support.sshd import Sshd, pick_port
from support.wait import until
from support.ws import WebSocket, accept_of

OPERATOR = "operator-0123456789abcdef0123456789abcdef"
AGENT_TOKEN = "far-agent-0123456789abcdef0123456789abcdef"


class FarAgent(Agent):
    """An agent on TCP, as on a machine of its own."""

    def __init__(self, tmp, port, host=False, **env):
        self.port = port
        tmp.mkdir(exist_ok=True)
        super().__init__(tmp, host=host, token=AGENT_TOKEN,
                         SBX_LISTEN=f"tcp:127.0.0.1:{port}", **env)

    def connection(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout)


class Model(http.server.ThreadingHTTPServer):
    """A model endpoint: streams tokens, each when let go."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, tls=None):
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self.port = self.server_address[1]
        self.go = threading.Semaphore(0)
        self.paths = []
        if tls:
            ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ctx.load_cert_chain(*tls)
            self.socket = ctx.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.go.release(1000)
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass


class ModelHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.paths.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for i in range(3):
            assert self.server.go.acquire(timeout=60)
            self.wfile.write(b"data: token%d\n\n" % i)
            self.wfile.flush()
        self.close_connection = True


CONFIG = """[gateway]
state_dir = {tmp}/state
workers = 2
[listen a]
address = https://127.0.0.1:0
[auth]
operator_token_file = {tmp}/op
[admin]
listen = unix:{tmp}/admin.sock
[timeouts]
wait = 5s
"""


def tunnel(name, sshd, agent_port, *outside, more=""):
    lines = [f"[tunnel {name}]", "host = 127.0.0.1", f"port = {sshd.port}",
             f"key = {sshd.key}", f"known_hosts = {sshd.known}",
             f"agent = 127.0.0.1:{agent_port}",
             f"agent_token_file = {sshd.dir}/agent.token",
             "namespace = team", "keepalive = 2s"]
    (sshd.dir / "agent.token").write_text(AGENT_TOKEN + "\n")
    lines += [f"outside = {one}" for one in outside]
    return "\n".join(lines) + f"\n{more}\n"


def gateway(tmp, *sections):
    (tmp / "op").write_text(OPERATOR + "\n")
    return Gateway(tmp, token=OPERATOR,
                   config=CONFIG.format(tmp=tmp) + "".join(sections))


def call(gw, method, target, body=None, token=OPERATOR, **kw):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    with Client(gw.https, timeout=30) as c:
        return c.request(method, target, token=token, body=body,
                         **kw).response(method)


def metrics(gw):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(gw.tmp / "admin.sock"))
        with Client(s) as c:
            return c.request("GET", "/metrics").response().body.decode()


def is_up(gw, name):
    return f'sbx_tunnel_up{{name="{name}"}} 1\n' in metrics(gw)


def wait_up(gw, name):
    until(lambda: is_up(gw, name), f"tunnel {name} is up")


def wait_down(gw, name):
    until(lambda: f'sbx_tunnel_up{{name="{name}"}} 0\n' in metrics(gw),
          f"tunnel {name} is down")


def run(gw, prefix, cmd, **kw):
    r = call(gw, "POST", prefix + "/exec", {"cmd": cmd}, **kw)
    assert r.status == 200, r.body
    got = events(r.body)
    assert got[-1]["event"] == "exit", got
    return text(got)


def tunnel_pid(gw, name):
    for pid in gw.workers():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                args = f.read().split(b"\0")
        except OSError:
            continue
        if args[0].endswith(b"sbx-tunnel") and \
                any(b"/tunnels/%s.sock" % name.encode() in a for a in args):
            return pid
    return None


@pytest.mark.root
def test_the_whole_loop(tmp):
    """A command in a sandbox far away calls a model on our loopback, and its
    tokens arrive live, through everything."""
    far = pick_port()
    with Sshd(tmp) as sshd, Model() as model, \
            FarAgent(tmp / "far", far, host=True) as agent, \
            gateway(tmp, tunnel("gpu", sshd, far,
                    f"MODEL_BASE_URL http://localhost:{model.port}"
                    "/v1?k=a%20b")) as gw:
        wait_up(gw, "gpu")
        r = call(gw, "POST", "/gpu--49983.x/v1/sandboxes", b"{}")
        assert r.status == 200, r.body
        box = json.loads(r.body)["sandboxes"][0]
        own = f"/v1/sandboxes/{box['id']}"
        # by its id, with its own token, at once and on any worker
        assert run(gw, own, "echo $MODEL_BASE_URL", token=box["token"]) == \
            f"http://127.0.0.1:{model.port}/v1?k=a%20b\n"
        other = agent.create()
        assert run(gw, f"/v1/sandboxes/{other.id}", "pwd",
                   token=other.token).strip() == other.home
        assert call(gw, "GET", own + "/procs",
                    token=other.token).status == 401
        # the loop
        cmd = ('curl -sN -d hello "${MODEL_BASE_URL%%\\?*}/chat'
               '?${MODEL_BASE_URL#*\\?}"')
        with Client(gw.https, timeout=30) as c:
            c.request("POST", own + "/exec", token=box["token"],
                      body=json.dumps({"cmd": cmd}).encode())
            assert c.final_head().status == 200
            seen = b""
            lines = c.chunks()
            for i in range(3):
                assert b"token%d" % i not in seen
                model.go.release()
                while b"token%d" % i not in seen:
                    seen += next(lines)
            rest = b"".join(lines)
        assert b'"exit_code":0' in rest, rest
        assert model.paths == [("/v1/chat?k=a%20b", b"hello")]
        # a port inside, through it all
        server = ("import os,socket\ns=socket.socket(socket.AF_UNIX)\n"
                  "s.bind(os.environ['SBX_PROXY_DIR']+'/80.sock')\n"
                  "s.listen(9)\nwhile 1:\n c=s.accept()[0]\n c.recv(9999)\n"
                  " c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2"
                  "\\r\\n\\r\\nhi')\n c.close()")
        r = call(gw, "POST", own + "/processes",
                 {"cmd": ["python3", "-c", server]})
        assert r.status == 200, r.body
        until(lambda: call(gw, "GET", own + "/proxy/80/",
                           token=box["token"]).body == b"hi", "it serves")
        # an end over there is an end here
        other.delete()
        until(lambda: call(gw, "GET", f"/v1/sandboxes/{other.id}/procs",
                           ).status in (404, 410), "it is gone")


def test_https_endpoint(tmp):
    """The scheme is kept, and so is the encryption from end to end."""
    far = pick_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=model.example", "-keyout", tmp / "key",
                    "-out", tmp / "crt"], check=True, capture_output=True)
    with Sshd(tmp) as sshd, \
            Model(tls=(tmp / "crt", tmp / "key")) as model, \
            FarAgent(tmp / "far", far), \
            gateway(tmp, tunnel("t", sshd, far,
                    f"A https://localhost:{model.port}/v1",
                    f"B https://LOCALHOST:{model.port}/v2")) as gw:
        wait_up(gw, "t")
        model.go.release(3)
        out = run(gw, "/t--49983.x/v1", "echo $B; curl -skN -d x $A/chat "
                  "-w '%{ssl_verify_result}'; curl -s -d x $A/chat || echo no")
        assert out.startswith(f"https://127.0.0.1:{model.port}/v2\n"), out
        assert "token2" in out and out.endswith("no\n"), out
        assert [p for p, _ in model.paths] == ["/v1/chat"]


def test_down_and_back(tmp):
    far = pick_port()
    with Sshd(tmp) as sshd, Model() as model, FarAgent(tmp / "far", far), \
            gateway(tmp, tunnel("t", sshd, far,
                    f"M http://127.0.0.1:{model.port}")) as gw:
        wait_up(gw, "t")
        before = tunnel_pid(gw, "t")
        with Client(gw.https, timeout=30) as c:
            c.request("POST", "/t--49983.x/v1/exec", token=OPERATOR,
                      body=b'{"cmd":"echo hi; sleep 600"}')
            assert c.final_head().status == 200
            while b"hi" not in next(c.chunks()):
                pass
            sshd.stop()
            # what was under way is cut off visibly
            with pytest.raises(Exception):
                c.response()
        wait_down(gw, "t")
        for method, target in (("GET", "/t--49983.x/v1/procs"),
                               ("POST", "/t--49983.x/v1/exec")):
            r = call(gw, method, target, b"{}" if method == "POST" else None)
            assert r.status == 503 and r["Retry-After"], r
            assert json.loads(r.body)["code"] == "tunnel_down"
            assert "down: " in json.loads(r.body)["error"], r.body
        # only who may know is told
        r = call(gw, "GET", "/t--49983.x/v1/procs", token="wrong")
        assert r.status == 401
        assert sshd.start()
        wait_up(gw, "t")
        model.go.release(3)
        assert "token2" in run(gw, "/t--49983.x/v1", "curl -sN -d x $M/")
        assert tunnel_pid(gw, "t") == before
        assert 'sbx_tunnel_reconnects_total{name="t"} 1\n' in metrics(gw)
        # its process is replaced when it dies
        os.kill(before, signal.SIGKILL)
        until(lambda: tunnel_pid(gw, "t") not in (None, before), "a new one")
        wait_up(gw, "t")
        assert run(gw, "/t--49983.x/v1", "echo $M") == \
            f"http://127.0.0.1:{model.port}\n"


def test_agent_missing_or_unwilling(tmp):
    far = pick_port()

    def said():
        r = call(gw, "GET", "/t--49983.x/v1/procs")
        return json.loads(r.body)["error"] if r.status == 503 else ""

    with Sshd(tmp) as sshd, gateway(tmp, tunnel("t", sshd, far)) as gw:
        until(lambda: f"agent at 127.0.0.1:{far} does not answer" in said(),
              "it says so")
        with FarAgent(tmp / "far", far) as agent:
            wait_up(gw, "t")
            assert run(gw, "/t--49983.x/v1", "echo $PPID").strip() == \
                str(agent.proc.pid)
        (sshd.dir / "agent.token").write_text("another-secret-0123456789\n")
        gw.signal(signal.SIGHUP)
        with FarAgent(tmp / "far", far):
            until(lambda: "agent_token_file" in said(), "it says so")
            assert OPERATOR not in gw.log() and AGENT_TOKEN not in gw.log()


def test_reload_touches_only_what_changed(tmp):
    ports = [pick_port() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        sshds = [stack.enter_context(Sshd(tmp)) for _ in range(3)]
        for i, p in enumerate(ports):
            stack.enter_context(FarAgent(tmp / f"far{i}", p))
        a, b, c = (tunnel(n, s, p) for n, s, p in zip("abc", sshds, ports))
        gw = stack.enter_context(gateway(tmp, a, b))
        wait_up(gw, "a")
        wait_up(gw, "b")
        pids = [tunnel_pid(gw, n) for n in "ab"]
        base = CONFIG.format(tmp=tmp)
        # one added, one changed; a's request under way goes on
        with Client(gw.https, timeout=30) as busy:
            cmd = f"until [ -e {tmp}/go ]; do sleep 0.1; done; echo got"
            busy.request("POST", "/a--49983.x/v1/exec", token=OPERATOR,
                         body=json.dumps({"cmd": cmd, "timeout": 60}).encode())
            assert busy.final_head().status == 200
            gw.config.write_text(base + a + tunnel(
                "b", sshds[1], ports[1], more="reclaim = no") + c)
            gw.signal(signal.SIGHUP)
            wait_up(gw, "c")
            until(lambda: tunnel_pid(gw, "b") not in (None, pids[1]),
                  "b has a new process")
            wait_up(gw, "b")
            assert tunnel_pid(gw, "a") == pids[0]
            (tmp / "go").touch()
            assert "got" in text(events(b"".join(busy.chunks())))
        # one removed
        gw.config.write_text(base + a + c)
        gw.signal(signal.SIGHUP)
        until(lambda: tunnel_pid(gw, "b") is None, "b has ended")
        assert 'name="b"' not in metrics(gw)
        assert call(gw, "GET", "/b--49983.x/v1/procs").status in (400, 410)
        assert not (tmp / "state/tunnels/b.sock").exists()
        # one down does not concern another
        sshds[2].stop()
        wait_down(gw, "c")
        assert call(gw, "GET", "/c--49983.x/v1/procs").status == 503
        assert call(gw, "GET", "/a--49983.x/v1/procs").status == 200
        assert tunnel_pid(gw, "a") == pids[0]


def test_uploads_and_a_frozen_server(tmp):
    """Bytes both ways; a server that stops answering is noticed."""
    far = pick_port()
    with Sshd(tmp) as sshd, FarAgent(tmp / "far", far), \
            gateway(tmp, tunnel("t", sshd, far)) as gw:
        wait_up(gw, "t")
        data = os.urandom(1 << 20) * 24
        path = tmp / "up"
        r = call(gw, "PUT", f"/t--49983.x/v1/files/write?path={path}", data)
        assert r.status == 200, r.body
        assert path.read_bytes() == data
        r = call(gw, "GET", f"/t--49983.x/v1/files/read?path={path}")
        assert r.body == data
        pids = sshd.sessions()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            wait_down(gw, "t")
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        wait_up(gw, "t")


@pytest.mark.root
def test_endpoints_for_the_embedded_agent(tmp):
    """Its sandboxes share our loopback: they need only be told."""
    def config(*lines):
        return CONFIG.format(tmp=tmp) + "[agent]\nenabled = yes\n" + \
            "".join(f"outside = {one}\n" for one in lines)

    (tmp / "op").write_text(OPERATOR + "\n")
    with Model() as model, Gateway(tmp, token=OPERATOR, config=config(
            f"M http://localhost:{model.port}/v1?a", "N http://n")) as gw:
        # told before it is ready
        r = call(gw, "POST", "/v1/sandboxes", b'{"env":{"N":"mine"}}')
        own = "/v1/sandboxes/" + json.loads(r.body)["sandboxes"][0]["id"]
        assert run(gw, own, "echo $M $N") == \
            f"http://localhost:{model.port}/v1?a mine\n"
        model.go.release(3)
        assert "token2" in run(gw, own, "curl -sN -d x $M")
        # one without a network reaches that, and nothing else
        with Model() as other:
            r = call(gw, "POST", "/v1/sandboxes", b'{"network":"none"}')
            assert r.status == 200, r.body
            none = "/v1/sandboxes/" + json.loads(r.body)["sandboxes"][0]["id"]
            other.go.release(3)
            model.go.release(3)
            out = run(gw, none, "curl -sN -d x $M; curl -s -d x "
                      f"http://127.0.0.1:{other.port}/ || echo no")
            assert "token2" in out and out.endswith("no\n"), out
            assert other.paths == []
            assert call(gw, "DELETE", none).status == 200
        # a reload reaches sandboxes that exist
        gw.config.write_text(config("O http://o"))
        gw.signal(signal.SIGHUP)
        until(lambda: run(gw, own, "echo $M $N $O") == "mine http://o\n",
              "it is told anew")


def test_api(tmp):
    """What it says of them, and to whom."""
    far = pick_port()
    tokens = {}

    def ask(path, token=OPERATOR):
        with Client(gw.https, timeout=30) as c:
            r = c.request("GET", "/api/tunnels" + path, headers={
                "Authorization": f"Bearer {token}"}).response()
        return r.status, json.loads(r.body)

    with Sshd(tmp) as sshd, FarAgent(tmp / "far", far), \
            gateway(tmp, tunnel("t", sshd, far,
                                "A http://localhost:4000/v1?x=1",
                                f"B https://localhost:{sshd.port}"),
                    tunnel("dark", sshd, far).replace("team", "b").replace(
                        f"port = {sshd.port}", "port = 1")) as gw:
        for ns in ("team", "b"):
            r = program(["token", "add", f"u{ns}", "--namespace", ns, "-c",
                         gw.config])
            assert r.returncode == 0, r.stderr
            tokens[ns] = r.stdout.split()[-1]
        wait_up(gw, "t")
        status, got = ask("")
        assert status == 200 and [t["name"] for t in got] == ["dark", "t"]
        dark, t = got
        assert dark["state"] == "connecting" and "refused" in dark["reason"]
        assert t["reason"] is None and t["starts"] == 1
        assert t["state"] in ("up", "degraded") and t["namespace"] == "team"
        a, b = t["outside"]
        assert a["port"] == 4000 and b["port"] == 20000
        assert a["inside_url"] == "http://127.0.0.1:4000/v1?x=1"
        assert b["inside_url"] == "https://127.0.0.1:20000"
        assert AGENT_TOKEN not in json.dumps(got)
        # only those of one's namespace
        until(lambda: ask("", tokens["team"])[0] == 200, "the token is known")
        assert [t["name"] for t in ask("", tokens["team"])[1]] == ["t"]
        assert ask("/t", tokens["team"])[1]["name"] == "t"
        assert ask("/dark", tokens["team"])[0] == 404
        assert ask("/nope")[0] == 404
        assert ask("/t", tokens["b"])[0] == 404
        assert ask("/t/resolve?url=http://localhost:4000", tokens["b"])[0] == 404
        assert ask("", "wrong")[0] == 401
        # what a URL is over there
        assert ask("/t/resolve?url=http%3A%2F%2Flocalhost%3A4000%2Fv1%2Fm"
                   "%3Fq%3Da%2520b%26c", tokens["team"]) == \
            (200, {"url": "http://127.0.0.1:4000/v1/m?q=a%20b&c"})
        assert ask("/t/resolve?url=http://localhost:4001")[0] == 404
        assert ask("/t/resolve?url=file:///etc/passwd")[0] == 400
        assert ask("/t/resolve")[0] == 400


class Inner(http.server.BaseHTTPRequestHandler):
    """A server on the far machine: says what it was asked for."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())


def test_ports_of_a_dedicated_machine(tmp):
    far = pick_port()
    with Sshd(tmp) as sshd, FarAgent(tmp / "far", far), \
            http.server.HTTPServer(("127.0.0.1", 0), Inner) as inner, \
            gateway(tmp, tunnel("t", sshd, far)) as gw:
        threading.Thread(target=inner.serve_forever, daemon=True).start()
        port = inner.server_address[1]
        r = program(["token", "add", "ann", "--namespace", "team", "-c",
                     gw.config])
        ann = {"Authorization": "Bearer " + r.stdout.split()[-1]}
        r = program(["token", "add", "bob", "--namespace", "other", "-c",
                     gw.config])
        bob = {"Authorization": "Bearer " + r.stdout.split()[-1]}
        wait_up(gw, "t")
        until(lambda: call(gw, "GET", "/t--49983.x/v1/procs", token=None,
                           headers=ann).status == 200, "ann is known")
        for target, seen in (
                (f"/t--49983.x/v1/proxy/{port}/a?b", "/a?b"),
                (f"/t--{port}.x/a?b", "/a?b"),
                (f"/t--{port}.x?b", "/?b"),
                (f"/t--49983.x/v1/absproxy/{port}/a?b",
                 f"/t--49983.x/v1/absproxy/{port}/a?b"),
                (f"/v1/sandboxes/t/proxy/{port}/z", "/z")):
            for who in ({"token": OPERATOR}, {"token": AGENT_TOKEN},
                        {"token": None, "headers": ann}):
                r = call(gw, "GET", target, **who)
                assert (r.status, r.body.decode()) == (200, seen), r
            assert call(gw, "GET", target, token=None,
                        headers=bob).status == 403
            assert call(gw, "GET", target, token="wrong").status == 401
        assert run(gw, "/t--49983.x/v1", "echo hi", token=AGENT_TOKEN) == \
            "hi\n"
        sshd.stop()
        wait_down(gw, "t")
        assert call(gw, "GET", f"/t--{port}.x/").status == 503
        inner.shutdown()


def echo_frames(server):
    """Accepts one WebSocket and sends back, unmasked, what it was sent."""
    conn, _ = server.accept()
    with conn:
        head = b""
        while b"\r\n\r\n" not in head:
            head += conn.recv(65536)
        key = [line.split(b": ")[1].decode() for line in head.split(b"\r\n")
               if line.lower().startswith(b"sec-websocket-key")][0]
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket"
                     b"\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
                     accept_of(key).encode() + b"\r\n\r\n")
        while data := conn.recv(65536):
            size = data[1] & 127
            mask, body = data[2:6], data[6:6 + size]
            plain = bytes(b ^ mask[i % 4] for i, b in enumerate(body))
            conn.sendall(data[:1] + bytes([size]) + plain)


def test_websocket_through_a_tunnel(tmp):
    far = pick_port()
    with Sshd(tmp) as sshd, FarAgent(tmp / "far", far), \
            socket.create_server(("127.0.0.1", 0)) as server, \
            gateway(tmp, tunnel("t", sshd, far)) as gw:
        wait_up(gw, "t")
        threading.Thread(target=echo_frames, args=(server,),
                         daemon=True).start()
        port = server.getsockname()[1]
        with WebSocket(gw.https, f"/t--{port}.x/ws", token=OPERATOR) as ws:
            for text_ in ("one", "two"):
                ws.send(text_)
                got = ws.recv()
                assert text_ in str(got), got
