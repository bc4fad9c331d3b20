# SPDX-License-Identifier: Apache-2.0
"""From the edge into real sandboxes of the embedded agent: the agent's routes
with every kind of credential, ports inside, and what happens at the end of a
sandbox."""

import json

import pytest

from support.gateway import Gateway, run
from support.http import Client, get
from support.wait import until
from support.ws import CLOSE, WebSocket

pytestmark = pytest.mark.root

OPERATOR = "operator-0123456789abcdef0123456789abcdef"

# The server inside: a page, the request's fields, and a WebSocket that only
# says what it was sent.
INNER = r"""
import base64, hashlib, os, socket, threading
path = os.environ["SBX_PROXY_DIR"] + "/8000.sock"
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(64)
def serve(c):
    f = c.makefile("rb")
    while True:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = f.readline()
            if not line: return
            head += line
        low = head.lower()
        if b"upgrade: websocket" in low:
            key = low and [x.split(b": ")[1].strip() for x in head.split(b"\r\n")
                           if x.lower().startswith(b"sec-websocket-key")][0]
            mark = key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            c.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: "
                b"Upgrade\r\nSec-WebSocket-Accept: " + base64.b64encode(
                hashlib.sha1(mark).digest()) + b"\r\n\r\n")
            while (data := c.recv(65536)): c.sendall(b"\x82\x02hi")
            return
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head)
                  + head)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module")
def gw(module_tmp):
    tmp = module_tmp
    (tmp / "op").write_text(OPERATOR + "\n")
    with Gateway(tmp, token=OPERATOR, config=(
            f"[gateway]\nstate_dir = {tmp}/state\nworkers = 2\n"
            "[listen a]\naddress = https://127.0.0.1:0\n"
            f"[auth]\noperator_token_file = {tmp}/op\n"
            "[agent]\nenabled = yes\nnamespace = team\n"
            "[timeouts]\nwait = 5s\n[admin]\nlisten = off\n")) as g:
        yield g


def call(gw, method, target, token=OPERATOR, body=None, **headers):
    with Client(gw.https) as c:
        r = c.request(method, target, token=token, body=body, headers={
            k.replace("_", "-"): v for k, v in headers.items()}
        ).response(method)
    return r


def create(gw):
    r = call(gw, "POST", "/v1/sandboxes", body=b"{}")
    assert r.status == 200, r.body
    return json.loads(r.body)["sandboxes"][0]


def alive(gw, sb, pid):
    r = call(gw, "POST", f"/v1/sandboxes/{sb['id']}/exec", token=sb["token"],
             body=json.dumps({"cmd": ["test", "-e", f"/proc/{pid}"]}).encode())
    return json.loads(r.body.splitlines()[-1])["exit_code"] == 0


def start(gw, sb):
    body = json.dumps({"cmd": ["python3", "-c", INNER]}).encode()
    r = call(gw, "POST", f"/v1/sandboxes/{sb['id']}/processes", body=body,
             token=sb["token"])
    assert r.status == 200, r.body


@pytest.fixture
def sandbox(gw):
    sb = create(gw)
    start(gw, sb)
    yield sb
    call(gw, "DELETE", f"/v1/sandboxes/{sb['id']}")


def base(sb):
    return f"/v1/sandboxes/{sb['id']}"


def test_port_inside(gw, sandbox):
    for token in (sandbox["token"], OPERATOR):
        r = call(gw, "GET", base(sandbox) + "/proxy/8000/x?y", token=token)
        assert r.status == 200, r.body
        assert r.body.startswith(b"GET /x?y HTTP/1.1\r\n")
        assert b"token" not in r.body.lower()
        assert b"X-Forwarded-Prefix: " + base(sandbox).encode() in r.body
    r = call(gw, "GET", f"/{sandbox['id']}--8000/z", token=sandbox["token"])
    assert r.body.startswith(b"GET /z HTTP/1.1\r\n")
    r = get(gw.https, "/h", host=f"{sandbox['id']}--8000.gw.example",
            token=sandbox["token"])
    assert r.body.startswith(b"GET /h HTTP/1.1\r\n")


def test_new_sandbox_is_known_to_every_worker_at_once(gw):
    """Its creator's next request may come to another worker."""
    for _ in range(10):
        sb = create(gw)
        r = call(gw, "GET", base(sb) + "/processes", token=sb["token"])
        assert r.status == 200, r.body
        assert call(gw, "DELETE", base(sb)).status == 200


def test_a_token_opens_its_own_sandbox_only(gw, sandbox):
    other = create(gw)
    for target in ("/proxy/8000/", "/processes", "/files/list"):
        r = call(gw, "GET", base(sandbox) + target, token=other["token"])
        unknown = call(gw, "GET", "/v1/sandboxes/zzzz" + target,
                       token=other["token"])
        assert r.status == unknown.status == 401
        assert r.body == unknown.body
    for method, target in (("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"),
                           ("DELETE", "/v1/sandboxes"), ("POST", "/v1/exec")):
        r = call(gw, method, target, token=other["token"],
                 body=b"{}" if method == "POST" else None)
        assert r.status == 401
    assert call(gw, "GET", base(other) + "/processes",
                token=other["token"]).status == 200
    call(gw, "DELETE", base(other))


def test_users_of_its_namespace(gw, sandbox):
    def add(name, ns):
        r = run(["token", "add", name, "--namespace", ns, "-c",
                 str(gw.config)])
        assert r.returncode == 0, r.stderr
        return {"Authorization": "Bearer " + r.stdout.split()[-1]}
    ann, bob = add("ann", "team"), add("bob", "other")
    # the gateway takes new tokens up by itself
    until(lambda: call(gw, "GET", base(sandbox) + "/processes", token=None,
                       **ann).status == 200, "the new token to work")
    r = call(gw, "GET", base(sandbox) + "/proxy/8000/", token=None, **ann)
    assert r.status == 200
    assert b"authorization" not in r.body.lower()
    assert call(gw, "GET", base(sandbox) + "/processes", token=None,
                **bob).status in (401, 403)
    assert call(gw, "GET", "/v1/sandboxes", token=None, **ann).status == 403


def test_agent_by_name(gw, sandbox):
    """<id>--49983 is the sandbox's own agent, as a client of one sees it."""
    host = f"{sandbox['id']}--49983.gw.example"
    r = get(gw.https, "/v1/processes", host=host, token=sandbox["token"])
    assert r.status == 200 and isinstance(json.loads(r.body), list)
    r = get(gw.https, f"/v1/sandboxes/{sandbox['id']}/processes", host=host,
            token=sandbox["token"])
    assert r.status == 200
    other = create(gw)
    r = get(gw.https, f"/v1/sandboxes/{other['id']}/processes", host=host,
            token=sandbox["token"])
    assert r.status == 400
    r = get(gw.https, f"/v1/sandboxes/{other['id']}/processes",
            host="embedded--49983.gw.example", token=other["token"])
    assert r.status == 200
    r = get(gw.https, "/v1/sandboxes", host="embedded--49983",
            token=OPERATOR)
    assert r.status == 200
    call(gw, "DELETE", base(other))


def test_exec_is_live(gw, sandbox):
    body = json.dumps({"cmd": "echo one; sleep 0.4; echo two"}).encode()
    with Client(gw.https) as c:
        c.request("POST", base(sandbox) + "/exec", token=sandbox["token"],
                  body=body)
        assert c.head().status == 200
        text, seen = b"", []
        for piece in c.chunks():
            text += piece
            seen.append(b"two" in text)
    assert seen[0] is False and seen[-1] is True
    events = [json.loads(x) for x in text.splitlines()]
    assert events[-1]["event"] == "exit" and events[-1]["exit_code"] == 0


def test_a_client_that_goes_away_ends_its_command(gw, sandbox):
    """Though nothing flows that would show it is gone."""
    with Client(gw.https) as c:
        c.request("POST", base(sandbox) + "/exec",
                  token=sandbox["token"],
                  body=json.dumps({"cmd": ["sleep", "4711"]}).encode())
        assert c.head().status == 200
        pid = json.loads(next(c.chunks()))["pid"]
        assert alive(gw, sandbox, pid)
    until(lambda: not alive(gw, sandbox, pid), "the command's end")


def test_end_of_a_sandbox(gw):
    sb = create(gw)
    start(gw, sb)
    target = base(sb) + "/proxy/8000/"
    assert call(gw, "GET", target, token=sb["token"]).status == 200
    with WebSocket(gw.https, target, token=sb["token"]) as ws, \
            Client(gw.https) as kept:
        assert ws.response.status == 101
        kept.request("GET", target, token=sb["token"]).response()
        assert call(gw, "DELETE", base(sb)).status == 200
        # on a kept connection, too, and for its own token only
        r = kept.request("GET", target, token=sb["token"]).response()
        assert r.status == 410
        assert json.loads(r.body)["code"] == "sandbox_stopped"
        rest = ws.client.to_end()
        assert rest == b"" or rest[0] == 0x80 | CLOSE
    assert call(gw, "GET", target).status == 410
    assert call(gw, "GET", target, token="x").status == 401
    # the agent's word for what it does not know
    assert call(gw, "DELETE", base(sb)).status == 404


def test_nothing_listens_inside(gw, sandbox):
    assert call(gw, "GET", base(sandbox) + "/proxy/8000/",
                token=sandbox["token"]).status == 200
    r = call(gw, "GET", base(sandbox) + "/proxy/8001/?wait=0",
             token=sandbox["token"])
    assert r.status == 503
    assert json.loads(r.body)["code"] == "port_not_listening"
    assert json.loads(r.body)["listening"] == [8000]


def test_hostile_socket(gw, sandbox):
    """A link to somebody else's socket is not followed."""
    body = json.dumps({"cmd": "ln -s /run/x.sock $SBX_PROXY_DIR/8002.sock; "
                       "ln -s 8000.sock $SBX_PROXY_DIR/8003.sock"}).encode()
    r = call(gw, "POST", base(sandbox) + "/exec", body=body,
             token=sandbox["token"])
    assert r.status == 200
    for port in (8002, 8003):
        r = call(gw, "GET", base(sandbox) + f"/proxy/{port}/?wait=0",
                 token=sandbox["token"])
        assert r.status == 502
        assert json.loads(r.body)["code"] == "socket_refused"
