# SPDX-License-Identifier: Apache-2.0
"""sbx-agent: servers in sandboxes, by its own proxy and the control channel."""

import base64
import concurrent.futures
import os
import socket
import subprocess
import sys

import pytest

from agent_support import Agent, Control
from support.wait import until

root = pytest.mark.root

# Runs inside a sandbox: an HTTP server on PORT.sock that tells what it got,
# and echoes after an upgrade.
SERVER = r'''
import base64, hashlib, os, socket, sys, threading
path = os.environ["SBX_PROXY_DIR"] + "/" + sys.argv[1] + ".sock"
s = socket.socket(socket.AF_UNIX)
s.bind(path)
s.listen(64)
def serve(c):
    data = b""
    while b"\r\n\r\n" not in data:
        got = c.recv(65536)
        if not got:
            return
        data += got
    head, body = data.split(b"\r\n\r\n", 1)
    low = head.lower()
    if b"upgrade: websocket" in low:
        key = [l.split(b": ")[1] for l in head.split(b"\r\n")
               if l.lower().startswith(b"sec-websocket-key")][0]
        acc = base64.b64encode(hashlib.sha1(
            key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket"
                  b"\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                  + acc + b"\r\n\r\n")
        while True:
            got = c.recv(65536)
            if not got:
                break
            c.sendall(got)
        c.close()
        return
    for line in low.split(b"\r\n"):
        if line.startswith(b"content-length: "):
            n = int(line.split(b": ")[1])
            while len(body) < n:
                body += c.recv(65536)
    out = head + b"\n\n" + body
    c.sendall(b"HTTP/1.1 200 OK\r\nX-App: yes\r\nContent-Length: "
              + str(len(out)).encode() + b"\r\n\r\n" + out)
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
'''

PYTHON = "/usr/bin/python3"


# --- servers inside ---------------------------------------------------------

def listens(path):
    """More than the file: it is there from bind(), before listen()."""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


@pytest.fixture
def served(sandbox):
    sandbox.start([PYTHON, "-c", SERVER, "8000"])
    until(lambda: listens(f"{sandbox.home}/.sbx/proxy/8000.sock"),
          "it listens")
    return sandbox


@root
def test_proxy(served):
    r = served.send("POST", "proxy/8000/some%20path?q=1&r", b"body bytes",
                    headers={"X-Mine": "1", "Authorization": "Bearer abc",
                             "X_Sandbox_Token": "t"})
    got = r.read().decode()
    assert r.status == 200 and r.getheader("X-App") == "yes"
    head, body = got.split("\n\n", 1)
    assert head.startswith("POST /some%20path?q=1&r HTTP/1.1\r\n")
    assert "X-Mine: 1" in head and body == "body bytes"
    low = head.lower()
    assert "sandbox" not in low and "bearer" not in low
    assert served.token not in got and served.agent.token not in got


@root
def test_proxy_targets(served):
    for path, want in (("proxy/8000", "GET / "), ("proxy/8000/", "GET / "),
                       ("proxy/8000?x=1", "GET /?x=1 ")):
        assert served.call("GET", path)[1].decode().startswith(want)
    for port in ("0", "65536", "-1", "080", "8000x", "%38000", ""):
        assert served.call("GET", f"proxy/{port}/")[0] == 400


@root
def test_proxy_keeps_authorising(served):
    """After a proxied request the connection is ours again."""
    conn = served.agent.connection()
    path = f"{served.prefix}/proxy/8000/"
    a = served.agent
    assert a.call("GET", path, token=served.token, conn=conn)[0] == 200
    assert a.call("GET", path, token=None, conn=conn)[0] == 403
    assert a.call("GET", path, token=served.token, conn=conn)[0] == 200
    conn.close()


@root
def test_proxy_upgrade(served):
    key = base64.b64encode(b"0123456789abcdef").decode()
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(str(served.agent.socket))
    s.sendall((f"GET {served.prefix}/proxy/8000/ws HTTP/1.1\r\nHost: x\r\n"
               f"X-Sandbox-Token: {served.token}\r\nConnection: Upgrade\r\n"
               f"Upgrade: websocket\r\nSec-WebSocket-Key: {key}\r\n"
               "Sec-WebSocket-Version: 13\r\n\r\nearly").encode())
    got = b""
    while not got.endswith(b"early"):
        more = s.recv(65536)
        assert more, got
        got += more
    assert got.startswith(b"HTTP/1.1 101 ")
    assert b"Sec-WebSocket-Accept: " in got
    s.sendall(b"x" * 300000)
    n = 0
    while n < 300000:
        n += len(s.recv(65536))
    s.shutdown(socket.SHUT_WR)
    assert s.recv(10) == b""
    s.close()


@root
def test_proxy_hostile_sockets(agent, sandbox):
    other = agent.create()
    other.start([PYTHON, "-c", SERVER, "8000"])
    sock = f"{other.home}/.sbx/proxy/8000.sock"
    until(lambda: listens(sock), "it listens")
    sandbox.exec(f"cd .sbx/proxy; ln -s {sock} 1.sock; ln -s {agent.socket} "
                 "2.sock; echo > 3.sock; mkfifo 4.sock; mkdir 5.sock")
    for port in range(1, 6):
        status, got = sandbox.call("GET", f"proxy/{port}/")
        assert status == 502 and got["code"] == "denied", (port, got)
    sandbox.exec("cd .sbx; mv proxy old; ln -s "
                 f"{other.home}/.sbx/proxy proxy")
    assert sandbox.call("GET", "proxy/8000/")[1]["code"] == "denied"
    other.delete()


@root
def test_proxy_not_listening(sandbox):
    status, got = sandbox.call("GET", "proxy/8000/")
    assert status == 502 and got["code"] == "port_not_listening"
    # One that comes up a little later is waited for.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f = pool.submit(sandbox.call, "GET", "proxy/9000/")
        sandbox.start([PYTHON, "-c", SERVER, "9000"])
        assert f.result(20)[0] == 200


@root
def test_ports(served):
    assert served.call("GET", "ports") == (200, {
        "ports": [8000],
        "listening": [{"port": 8000, "family": "unix", "address": None,
                       "pid": None}]})


# --- the control channel ----------------------------------------------------

@root
def test_control_watch(agent):
    first = agent.create()
    with Control(agent.control) as c:
        words, _ = c.ask("watch 1")
        assert words[:2] == ["sandbox", first.id]
        assert words[3:] == [str(first.uid), first.token]
        generation = int(words[2])
        assert c.hear()[0] == ["synced", "1"]
        # Said before the HTTP answer: so before a sync that follows it.
        second = agent.create()
        c.say("sync 2")
        words, _ = c.hear()
        assert words[:2] == ["sandbox", second.id]
        assert int(words[2]) > generation
        assert c.hear()[0] == ["synced", "2"]
        first.delete()
        assert c.hear()[0] == ["gone", first.id, str(generation), "deleted"]
    second.delete()


@root
def test_control_connect(agent, served):
    with Control(agent.control) as c:
        words, fd = c.ask(f"connect 7 {served.id} 8000")
        assert words == ["ok", "7"]
        with socket.socket(fileno=fd) as s:
            s.settimeout(10)
            s.setblocking(True)
            s.sendall(b"GET /direct HTTP/1.1\r\nHost: x\r\n\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert c.ask(f"ports 8 {served.id}")[0] == ["ports", "8", "8000"]
        for ask, code in ((f"connect 9 {served.id} 8001",
                           "port_not_listening"),
                          ("connect 9 nosuch 80", "no_such_sandbox"),
                          (f"connect 9 {served.id} 0", "error"),
                          (f"connect 9 {served.id} 65536", "error"),
                          (f"connect 9 {served.id} 08000", "error"),
                          (f"connect 9 {served.id}", "error")):
            words, fd = c.ask(ask)
            assert words[:3] == ["fail", "9", code] and fd is None


@root
def test_control_many_asks(agent):
    """Each has its answer, also when the sandbox or the asker goes."""
    sb = agent.create()
    with Control(agent.control) as c:
        for n in range(100):
            c.say(f"ports {n} {sb.id}")
        got = [c.hear()[0] for _ in range(100)]
        assert sorted(int(words[1]) for words in got) == list(range(100))
        # What is beyond the bound is said at once.
        assert {words[0] for words in got} <= {"ports", "fail"}
        for n in range(10):
            c.say(f"ports {n} {sb.id}")
        sb.delete()
        assert {int(c.hear()[0][1]) for _ in range(10)} == set(range(10))
    other = agent.create()
    with Control(agent.control) as c:
        for n in range(60):
            c.say(f"ports {n} {other.id}")
    with Control(agent.control) as c:
        assert c.ask(f"ports 1 {other.id}")[0] == ["ports", "1"]
    other.delete()


@root
def test_control_denied(agent, served):
    served.exec("ln -s 8000.sock .sbx/proxy/1.sock")
    with Control(agent.control) as c:
        assert c.ask(f"connect 1 {served.id} 1")[0][:3] == [
            "fail", "1", "denied"]
        # Nonsense ends the channel.
        c.say("hello")
        assert c.sock.recv(100) == b""


CONTROL_CLIENT = r'''
import os, socket, sys
os.setgroups([]); os.setresgid(65001, 65001, 65001)
os.setresuid(*[int(sys.argv[2])] * 3)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
try:
    s.connect(sys.argv[1])
except PermissionError:
    print("refused"); sys.exit()
for m in (b"watch 1", b"connect 2 nosuch 80"):
    s.send(m)
    print(s.recv(1000).decode())
'''


@root
def test_control_peers(tmp):
    with Agent(tmp, SBX_CONTROL_UID=65001) as a:
        a.create()
        for uid, want in ((65001, "fail 1 denied only root may watch\n"
                                  "fail 2 no_such_sandbox no such sandbox\n"),
                          (65002, "refused\n")):
            got = subprocess.run(
                [sys.executable, "-c", CONTROL_CLIENT, str(a.control),
                 str(uid)], capture_output=True, text=True, timeout=30,
                check=True)
            assert got.stdout == want
        # The HTTP socket is the worker's too.
        st = os.stat(a.socket)
        assert (st.st_uid, st.st_mode & 0o777) == (65001, 0o660)
