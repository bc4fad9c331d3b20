# SPDX-License-Identifier: Apache-2.0
"""A running sbx-agent and a small client for its API."""

import array
import http.client
import json
import os
import signal
import socket
import subprocess
import urllib.parse

import pytest

from support import paths
from support.wait import until

TOKEN = "host-token"


class Connection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path, timeout=30):
        super().__init__("agent", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Agent:
    """with Agent(tmp) as a: a.post("/v1/sandboxes")"""

    def __init__(self, tmp, host=True, token=TOKEN, wait=True, prefix=(),
                 **env):
        self.dir = tmp
        self.socket = tmp / "agent.sock"
        self.control = tmp / "control.sock"
        self.homes = tmp / "homes"
        self.token = token
        self.log = tmp / "agent.log"
        vars_ = {
            "SBX_LISTEN": f"unix:{self.socket}",
            "SBX_HOST_MODE": "1" if host else "0",
            "SBX_HOMES": str(self.homes),
        }
        vars_["SBX_CONTROL"] = f"unix:{self.control}"
        if token:
            vars_["SBX_TOKEN"] = token
        vars_.update({k: str(v) for k, v in env.items()})
        with open(self.log, "wb") as log:
            self.proc = subprocess.Popen(
                [*prefix, str(paths.AGENT)], env=paths.child_env(vars_), stderr=log,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if wait:
            try:
                until(self._up, "agent is up", 10 * paths.SLOW)
            except AssertionError:
                self.stop()
                raise

    def _up(self):
        assert self.proc.poll() is None, self.log.read_text()
        try:
            return self.get("/health", token=None)[0] == 200
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        status = self.stop()
        assert "ERROR: " not in self.log.read_text(errors="replace")
        if exc[0] is None:
            assert status == 0, self.log.read_text(errors="replace")

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(15 * paths.SLOW)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        return self.proc.returncode

    # --- requests -------------------------------------------------------
    def connection(self, timeout=30):
        return Connection(self.socket, timeout)

    def send(self, method, path, body=None, token="", headers=None,
             timeout=30, conn=None):
        """The response, unread. token "" is the agent's own."""
        conn = conn or self.connection(timeout)
        headers = dict(headers or {})
        if token == "":
            token = self.token
        if token:
            headers["X-Sandbox-Token"] = token
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        conn.request(method, path, body, headers)
        response = conn.getresponse()
        response.conn = conn
        return response

    def call(self, method, path, body=None, **kw):
        """(status, JSON or bytes)"""
        response = self.send(method, path, body, **kw)
        data = response.read()
        if "conn" not in kw:
            response.conn.close()
        if response.getheader("Content-Type") == "application/json":
            return response.status, json.loads(data)
        return response.status, data

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body, **kw)

    def delete(self, path, **kw):
        return self.call("DELETE", path, **kw)

    def create(self, **spec):
        status, got = self.post("/v1/sandboxes", spec)
        assert status == 200 and got["rejected"] == 0, got
        return Sandbox(self, got["sandboxes"][0])

    # --- its insides ----------------------------------------------------
    def fds(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))

    def children(self, comm=None):
        """(pid, state) of all its children, zombies too, but for those that
        hold a sandbox's namespaces; or of those with that name."""
        out = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
                    head, tail = f.read().rsplit(")", 1)
            except OSError:
                continue
            name = head.split("(", 1)[1]
            state, ppid = tail.split()[:2]
            if int(ppid) == self.proc.pid and (
                    name == comm if comm else name != "sbx-init"):
                out.append((int(pid), state))
        return out


# In front of the agent: root without the capability that namespaces need, as
# most containers have it.
NO_NAMESPACES = ("setpriv", "--bounding-set", "-sys_admin",
                 "--inh-caps", "-sys_admin")


def _may_have_namespaces():
    with open("/proc/self/status", encoding="ascii") as f:
        caps = [line for line in f if line.startswith("CapEff:")]
    return bool(int(caps[0].split()[1], 16) >> 21 & 1)  # CAP_SYS_ADMIN


needs_namespaces = pytest.mark.skipif(
    not _may_have_namespaces(),
    reason="no CAP_SYS_ADMIN, so no namespaces for sandboxes")


def events(data):
    return [json.loads(line) for line in data.splitlines()]


def text(evs, stream="stdout"):
    return "".join(e["data"] for e in evs if e["event"] == stream)


class Result:
    """What a foreground command came to."""

    def __init__(self, evs):
        self.events = evs
        self.out = text(evs)
        self.err = text(evs, "stderr")
        assert evs[0]["event"] == "start" and evs[-1]["event"] == "exit", evs
        assert [e["event"] for e in evs].count("exit") == 1
        self.pid = evs[0]["pid"]
        self.exit = evs[-1]
        self.code = self.exit["exit_code"]


def at(op, path, **query):
    """The target of an operation on a file."""
    return f"files/{op}?" + urllib.parse.urlencode(
        {"path": path, **query}, errors="surrogateescape")


class Scope:
    """A sandbox, or the agent itself in dedicated mode."""

    def __init__(self, agent, prefix, token):
        self.agent, self.prefix, self.token = agent, prefix, token

    def call(self, method, path, body=None, **kw):
        kw.setdefault("token", self.token)
        return self.agent.call(method, f"{self.prefix}/{path}", body, **kw)

    def send(self, method, path, body=None, **kw):
        kw.setdefault("token", self.token)
        return self.agent.send(method, f"{self.prefix}/{path}", body, **kw)

    def exec(self, cmd, conn=None, **req):
        kw = {"conn": conn} if conn else {}
        status, data = self.call("POST", "exec", {"cmd": cmd, **req}, **kw)
        assert status == 200, data
        return Result(events(data))

    def start(self, cmd, **req):
        """A background process: what POST processes answers."""
        status, got = self.call("POST", "processes", {"cmd": cmd, **req})
        assert status == 200, got
        return got

    def logs(self, pid, query=""):
        status, data = self.call("GET", f"procs/{pid}/logs{query}")
        assert status == 200, data
        return events(data)

    def wait(self, pid):
        status, data = self.call("GET", f"procs/{pid}/wait")
        assert status == 200, data
        return events(data)[-1]


class Sandbox(Scope):
    def __init__(self, agent, got):
        self.id, self.uid, self.home = got["id"], got["uid"], got["home"]
        super().__init__(agent, f"/v1/sandboxes/{self.id}", got["token"])

    def delete(self):
        return self.agent.delete(self.prefix)


def processes_of(uid):
    """Living processes (no zombies) with that real uid."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="latin-1") as f:
                status = f.read()
        except OSError:
            continue
        if f"\nUid:\t{uid}\t" in status and "\nState:\tZ" not in status:
            out.append(int(pid))
    return out


class Control:
    """The gateway's end of the control channel."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10 * paths.SLOW)
        self.sock.connect(str(path))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def say(self, message):
        self.sock.send(message.encode())

    def hear(self):
        """(words, descriptor or None)"""
        fds = array.array("i")
        data, anc, _flags, _addr = self.sock.recvmsg(
            16384, socket.CMSG_SPACE(fds.itemsize))
        for level, kind, raw in anc:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(raw[:fds.itemsize])
        return data.decode().split(" "), (fds[0] if fds else None)

    def ask(self, message):
        self.say(message)
        return self.hear()
