# SPDX-License-Identifier: Apache-2.0
"""A dedicated agent's ports: the list, and connections by the channel."""

import socket

import pytest

from agent_support import Agent, Control, Scope
from support.wait import until

PYTHON = "/usr/bin/python3"

# Listens on the given family and echoes.
ECHO = r'''
import socket, sys, threading
s = socket.socket(socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET)
s.bind(("::1" if sys.argv[1] == "6" else "127.0.0.1", 0))
s.listen(64)
print(s.getsockname()[1], flush=True)
def serve(c):
    while True:
        got = c.recv(65536)
        if not got:
            break
        c.sendall(got)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'''

UNIX = r'''
import os, socket
s = socket.socket(socket.AF_UNIX)
s.bind(os.environ["SBX_PROXY_DIR"] + "/7.sock")
s.listen(8)
while True:
    c, _ = s.accept()
    c.sendall(b"by file")
    c.close()
'''


@pytest.fixture(params=["proxy", "link"])
def agent(tmp, request):
    """Behind a link, a thread looks socket files up."""
    (tmp / "proxy").mkdir()
    (tmp / "link").symlink_to("proxy")
    with Agent(tmp, host=False, SBX_PROXY_DIR=tmp / request.param) as a:
        yield a


@pytest.fixture
def dedicated(agent):
    return Scope(agent, "/v1", agent.token)


def echo(dedicated, family):
    """(pid, port) of an echo server in there."""
    p = dedicated.start([PYTHON, "-c", ECHO, family])
    port = until(lambda: "".join(
        e.get("data", "") for e in dedicated.logs(p["pid"])), "its port")
    return p["pid"], int(port)


def test_listed(dedicated):
    pid4, port4 = echo(dedicated, "4")
    pid6, port6 = echo(dedicated, "6")
    status, got = dedicated.call("GET", "ports")
    assert status == 200
    assert {port4, port6} <= set(got["ports"])
    assert got["ports"] == sorted(set(got["ports"]))
    for entry in ({"port": port4, "family": "ipv4", "address": "127.0.0.1",
                   "pid": pid4},
                  {"port": port6, "family": "ipv6", "address": "::1",
                   "pid": pid6}):
        assert entry in got["listening"]
    dedicated.call("DELETE", f"processes/{pid4}")
    until(lambda: port4 not in dedicated.call("GET", "ports")[1]["ports"],
          "it is gone from the list")


def test_proxied(dedicated):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    assert dedicated.call("GET", f"proxy/{port}/")[0] == 502
    dedicated.start([PYTHON, "-m", "http.server", "--bind", "127.0.0.1",
                     str(port)])
    until(lambda: dedicated.call("GET", f"proxy/{port}/")[0] == 200,
          "it answers")


def test_own_port_is_not_listed(tmp):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Agent(tmp, host=False, wait=False,
               SBX_LISTEN=f"tcp:127.0.0.1:{port}") as a:
        def listed():
            with Control(a.control) as c:
                return c.ask("ports 1 -")[0]
        until(a.control.exists, "the agent is up")
        until(lambda: socket.socket().connect_ex(
            ("127.0.0.1", port)) == 0, "it listens")
        assert str(port) not in listed()[2:]


def test_socket_files(agent, dedicated):
    dedicated.start([PYTHON, "-c", UNIX])

    def listed():
        return {"port": 7, "family": "unix", "address": None,
                "pid": None} in dedicated.call("GET", "ports")[1]["listening"]
    until(listed, "the socket file is there")
    with Control(agent.control) as c:
        assert "7" in c.ask("ports 1 -")[0][2:]
        words, fd = c.ask("connect 2 - 7")
        assert words == ["ok", "2"]
        with socket.socket(fileno=fd) as s:
            s.setblocking(True)
            assert s.recv(100) == b"by file"


@pytest.mark.parametrize("family", ("4", "6"))
def test_connect(agent, dedicated, family):
    _pid, port = echo(dedicated, family)
    with Control(agent.control) as c:
        for n in range(40):
            c.say(f"connect {n} - {port}")
        seen = set()
        for _ in range(40):
            words, fd = c.hear()
            assert words[0] == "ok"
            seen.add(words[1])
            with socket.socket(fileno=fd) as s:
                s.setblocking(True)
                s.settimeout(30)
                s.sendall(words[1].encode())
                assert s.recv(100) == words[1].encode()
        assert seen == {str(n) for n in range(40)}
        assert str(port) in c.ask("ports 50 -")[0][2:]


def test_connect_errors(agent):
    with socket.socket() as s:  # a port that is taken and refuses
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        with Control(agent.control) as c:
            assert c.ask("watch 1")[0] == ["synced", "1"]
            for ask, code in ((f"connect 9 - {port}", "port_not_listening"),
                              ("connect 9 nosuch 80", "no_such_sandbox"),
                              ("ports 9 nosuch", "no_such_sandbox"),
                              ("connect 9 - 0", "error"),
                              ("connect 9 - 65536", "error"),
                              ("connect 9 -", "error")):
                words, fd = c.ask(ask)
                assert words[:3] == ["fail", "9", code] and fd is None


def test_peer_that_leaves_meanwhile(agent, dedicated):
    """What it asked for is dropped, and nothing of it stays open."""
    _pid, port = echo(dedicated, "4")
    before = agent.fds()
    for _ in range(20):
        with Control(agent.control) as c:
            for n in range(20):
                c.say(f"connect {n} - {port}")
    until(lambda: agent.fds() <= before + 1, "descriptors are closed")
    assert dedicated.exec("echo ok").out == "ok\n"
