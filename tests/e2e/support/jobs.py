# SPDX-License-Identifier: Apache-2.0
"""A client of the Jobs API, as thin as can be.

    with Control(tmp) as gw:
        ann = gw.user("ann")
        job = ann.create(["/bin/echo", "hello"])
        ann.wait(job["id"])
"""

import json
import signal
import subprocess
import urllib.parse

from . import paths
from .gateway import Gateway, run
from .http import Client, fetch

OPERATOR = "operator-0123456789abcdef0123456789abcdef"
CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = {workers}

[listen plain]
address = http://127.0.0.1:0

[auth]
operator_token_file = {tmp}/operator
operator_name = root

[admin]
listen = {admin}

[local]
isolation = best-effort
outbound = none
{local}

[jobs]
launcher = local
{jobs}
"""


class User:
    def __init__(self, gw, token, ns):
        self.gw, self.token, self.ns = gw, token, ns
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method, path, body=None, headers=(), **kw):
        fields = dict(self.headers, **dict(headers))
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is None and method in ("POST", "PUT"):
            body = b""
        return fetch(self.gw.http, method, path, headers=fields, body=body,
                     **kw)

    def json(self, method, path, body=None, status=200, **kw):
        r = self.ask(method, path, body, **kw)
        assert r.status == status, (r.status, r.body)
        return json.loads(r.body)

    def path(self, *rest, ns=None):
        return "/".join(["/api/jobs", ns or self.ns, *rest])

    def create(self, command, status=200, ns=None, **more):
        return self.json("POST", self.path(ns=ns),
                         {"command": command, **more}, status)

    def sandbox(self, env=None, token="inner-token", **more):
        """A sandbox job, as the Hub's client asks for one."""
        return self.create(
            ["/bin/sh", "-c", "exit 9"],
            environment={"SBX_PORT": "49983", **(env or {})},
            secrets={"SBX_TOKEN": token}, dockerImage="python:3.12",
            labels={"hf-sandbox": "1", "hf-sandbox-mode": "dedicated"},
            expose={"ports": [49983]}, **more)

    def get(self, job, status=200, query=""):
        return self.json("GET", self.path(job) + query, status=status)

    def wait(self, job, what="terminal", timeout="60s"):
        got = self.json("GET", self.path(job)
                        + f"?wait={what}&timeout={timeout}", timeout=70)
        if what == "terminal":
            assert got["finishedAt"], got
        return got

    def cancel(self, job, query="?grace=200ms", status=200):
        return self.json("POST", self.path(job, "cancel") + query,
                         status=status)

    def list(self, query=""):
        """All pages."""
        path, found = self.path() + query, []
        while path:
            r = self.ask("GET", path)
            assert r.status == 200, r.body
            found += json.loads(r.body)
            link, path = r["Link"], None
            if link:
                url, rel = link.split(";")
                assert rel.strip() == 'rel="next"'
                url = urllib.parse.urlsplit(url.strip("<> "))
                assert url.scheme == "http" and url.netloc
                path = f"{url.path}?{url.query}"
        return found

    def logs(self, job, query=""):
        """[(timestamp, line)] of the whole stream."""
        r = self.ask("GET", self.path(job, "logs") + query, timeout=60)
        assert r.status == 200, r.body
        assert r["Content-Type"] == "text/event-stream"
        return [tuple(json.loads(line[6:]).values())
                for line in r.body.decode().split("\n")
                if line.startswith("data: {")]

    def lines(self, job, query=""):
        return [text for _, text in self.logs(job, query)
                if not text.startswith("===== ")]

    def stream(self, path, headers=(), timeout=30):
        """(Client, its head): a response that goes on."""
        c = Client(self.gw.http, timeout=timeout)
        c.request("GET", path, headers=dict(self.headers, **dict(headers)))
        return c, c.head()

    def url(self, job):
        """Path of the agent of a sandbox job."""
        url = job["status"]["exposeUrls"][0]
        assert "--49983." in url
        return urllib.parse.urlsplit(url).path


class Control(Gateway):
    """A gateway with a control plane; ends its jobs with itself."""

    def __init__(self, tmp, jobs="", workers=2, admin="off", local="", **kw):
        (tmp / "operator").write_text(OPERATOR + "\n")
        (tmp / "operator").chmod(0o600)
        super().__init__(tmp, config=CONFIG.format(tmp=tmp, workers=workers,
                                                   jobs=jobs, admin=admin,
                                                   local=local),
                         token=None, **kw)
        self.root = User(self, OPERATOR, "root")
        self.users = {"root": self.root}

    def user(self, name, *args):
        """Before start(), or wait until it is known."""
        out = run(["token", "add", name, *args, "-c", self.config])
        assert out.returncode == 0, out.stderr
        self.users[name] = User(self, out.stdout.strip(), name)
        return self.users[name]

    def end_jobs(self):
        """Everything that still runs, of all users."""
        for name in self.users:
            live = self.root.json(
                "GET", self.root.path(ns=name)
                + "?stage=RUNNING&stage=SCHEDULING&limit=1000")
            for job in live:
                self.root.json("POST", self.root.path(job["id"], "cancel",
                                                      ns=name) + "?grace=0s")
        for name in self.users:
            for state in ("TERMINATING", "RUNNING", "CREATING"):
                for job in self.root.json(
                        "GET", self.root.path(ns=name) + f"?state={state}"):
                    self.root.json("GET", self.root.path(job["id"], ns=name)
                                   + "?wait=terminal", timeout=40)

    def stop(self, check=True, **kw):
        if self.proc is not None and self.proc.poll() is None:
            self.end_jobs()
        return super().stop(check=check, **kw)

    def die(self, number=signal.SIGKILL):
        """Ends the master alone, and leaves the jobs; start() may follow."""
        self.workers()
        self.proc.send_signal(number)
        self.proc.wait(30)
        self.proc = None
        while self._out.get(timeout=10) is not None:
            pass

    def master_kib(self):
        """Largest resident size so far."""
        with open(f"/proc/{self.proc.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
        raise AssertionError("no VmHWM")


def processes(mark):
    """Pids of the processes whose command line has mark in it."""
    out = subprocess.run(["pgrep", "-f", "--", mark], capture_output=True,
                         check=False, env=paths.child_env({}))
    return [int(p) for p in out.stdout.split()]
