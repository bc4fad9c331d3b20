# SPDX-License-Identifier: Apache-2.0
"""sbx-agent: what counts as activity, and what ends without any."""

import os
import socket
import time

import pytest

from agent_support import Agent, Control, Scope
from support import paths
from support.wait import until

root = pytest.mark.root

PYTHON = "/usr/bin/python3"
# Accepts, and upgrades what wants to be.
SERVER = r'''
import os, socket, threading
path = os.environ.get("SBX_PROXY_DIR")
s = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
s.bind(path + "/80.sock" if path else ("127.0.0.1", 0))
s.listen(8)
if not path:
    print(s.getsockname()[1], flush=True)
if os.fork():
    os._exit(0)
os.setsid()
def serve(c):
    while got := c.recv(65536):
        if b"pgrade" in got:
            c.sendall(b"HTTP/1.1 101 x\r\nConnection: upgrade\r\n"
                      b"Upgrade: websocket\r\n\r\n")
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
'''


def ids(agent):
    return [s["id"] for s in agent.get("/v1/sandboxes")[1]]


def gone(agent, sb):
    until(lambda: sb.id not in ids(agent), "it is evicted", 20 * paths.SLOW)


def stays(agent, sb):
    """Twice its idle time."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert sb.id in ids(agent)
        time.sleep(0.1)


def upgraded(agent, sb):
    """An open WebSocket through the agent's proxy."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20 * paths.SLOW)
    s.connect(str(agent.socket))
    s.sendall((f"GET {sb.prefix}/proxy/80/ HTTP/1.1\r\nHost: x\r\n"
               f"X-Sandbox-Token: {sb.token}\r\nConnection: Upgrade\r\n"
               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
               ).encode())
    assert s.recv(4096).startswith(b"HTTP/1.1 101")
    return s


def handed(agent, sb):
    """A connection that a gateway was given."""
    with Control(agent.control) as c:
        words, fd = c.ask(f"connect 1 {sb.id} 80")
    assert words == ["ok", "1"]
    return socket.socket(fileno=fd)


@root
@pytest.mark.parametrize("connect", (upgraded, handed))
def test_open_connection_is_activity(agent, connect):
    """The host has no timeout of its own; the sandbox has."""
    sb = agent.create(idle_timeout_secs=1)
    sb.exec([PYTHON, "-c", SERVER])
    s = connect(agent, sb)
    stays(agent, sb)
    s.close()
    gone(agent, sb)


@root
def test_background_process_is_activity(agent):
    sb = agent.create(idle_timeout_secs=1)
    never = agent.create()
    p = sb.start("sleep 1000")
    stays(agent, sb)
    sb.call("POST", f"procs/{p['pid']}/kill", {})
    gone(agent, sb)
    assert never.id in ids(agent)
    never.delete()


def test_dedicated(tmp):
    with Agent(tmp, host=False, SBX_IDLE_TIMEOUT=1) as a:
        scope = Scope(a, "/v1", a.token)
        port = scope.exec([PYTHON, "-c", SERVER]).out.strip()
        with Control(a.control) as c:
            words, fd = c.ask(f"connect 1 - {port}")
        assert words == ["ok", "1"]
        time.sleep(2.2)
        assert a.proc.poll() is None
        p = scope.start("sleep 1000")
        os.close(fd)
        time.sleep(1.6)
        assert a.proc.poll() is None
        scope.call("DELETE", f"processes/{p['pid']}")
        assert a.proc.wait(20 * paths.SLOW) == 0
