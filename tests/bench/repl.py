#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What persistent Python costs, as a client of the agent's socket sees it.

    SBX_BUILD=build tests/bench/repl.py [--rounds 7]

A warm call, the first call of a context (which starts an interpreter, the one
that runs this; beside it what that takes by itself), and forks of a parent that holds 256 MiB: how long the answer takes, and how much
memory the copies are that the parent was not (proportional set size of parent
and copies after it, less that of the parent before it).
"""

import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from support import paths  # noqa: E402
from support.wait import until  # noqa: E402

TOKEN = "t" * 32
MIB = 1 << 20


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("agent", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Agent:
    def __init__(self, tmp):
        self.path = f"{tmp}/agent.sock"
        # No wrapper of a version manager, which takes longer than Python.
        path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        env = {"PATH": path, "SBX_TOKEN": TOKEN,
               "SBX_LISTEN": f"unix:{self.path}", "SBX_HOST_MODE": "0",
               "SBX_HOMES": f"{tmp}/homes"}
        if "GLIBC_TUNABLES" in os.environ:
            env["GLIBC_TUNABLES"] = os.environ["GLIBC_TUNABLES"]
        self.proc = subprocess.Popen([str(paths.AGENT)], env=env,
                                     stdin=subprocess.DEVNULL,
                                     stderr=open(f"{tmp}/log", "wb"))
        until(self.up, "the agent is up", 10)
        self.conn = Unix(self.path)

    def up(self):
        try:
            c = Unix(self.path)
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(15)

    def call(self, method, path, body=None):
        self.conn.request(method, "/v1/" + path,
                          None if body is None else json.dumps(body),
                          {"X-Sandbox-Token": TOKEN})
        r = self.conn.getresponse()
        data = r.read()
        assert r.status == 200, data
        return data

    def run(self, code, context="main"):
        data = self.call("POST", "run_code",
                         {"code": code, "context": context})
        assert b'"exit_code":0' in data, data
        return data

    def contexts(self):
        return {c["context"]: c["pid"]
                for c in json.loads(self.call("GET", "run_code/contexts"))}

    def drop(self, names):
        """And waits: one that is still dying shares memory, too."""
        pids = self.contexts()
        for name in names:
            self.call("DELETE", f"run_code/contexts/{name}")
        for name in names:
            until(lambda: not os.path.exists(f"/proc/{pids[name]}"),
                  "it is gone", 10)


def timed(fn):
    t = time.perf_counter()
    got = fn()
    return (time.perf_counter() - t) * 1e3, got


def pss(pid):
    """KiB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0])


def warm(agent, n):
    """Milliseconds: the median and the 99th of a hundred."""
    agent.run("1+1")
    took = sorted(timed(lambda: agent.run("1+1"))[0] for _ in range(n))
    return took[n // 2], took[n * 99 // 100]


def cold(agent, rounds):
    took = []
    for i in range(rounds):
        took.append(timed(lambda: agent.run("1+1", f"cold{i}"))[0])
        agent.drop([f"cold{i}"])
    return took


def forks(agent, n, rounds, parent):
    """(ms of each, KiB of new memory of each)"""
    took, memory = [], []
    for _ in range(rounds):
        pid = agent.contexts()[parent]
        before = pss(pid)
        ms, got = timed(lambda: json.loads(agent.call(
            "POST", "run_code/fork", {"n": n, "context": parent})))
        assert len(got["children"]) == n, got
        took.append(ms)
        pids = agent.contexts()
        memory.append(sum(pss(pids[c]) for c in got["children"]) + pss(pid)
                      - before)
        agent.drop(got["children"])
    return took, memory


def row(name, unit, values, bar=""):
    print(f"| {name} | {unit} | {min(values):,.2f} | "
          f"{statistics.median(values):,.2f} | {bar} |")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--calls", type=int, default=2000)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as tmp:
        with Agent(tmp) as a:
            print("|  | unit | least | median | bar |\n"
                  "|---|---|---|---|---|")
            ran = [warm(a, args.calls) for _ in range(3)]
            row("run_code(\"1+1\"), p50", "ms", [r[0] for r in ran], "1")
            row("run_code(\"1+1\"), p99", "ms", [r[1] for r in ran])
            row("python3 -c pass", "ms", [timed(lambda: subprocess.run(
                [sys.executable, "-c", "pass"], check=True))[0]
                for _ in range(args.rounds)])
            row("first call of a context", "ms", cold(a, args.rounds))
            a.run("1", "small")
            row("fork of 5, small parent", "ms",
                forks(a, 5, args.rounds, "small")[0])
            a.run(f"x = bytearray({256 * MIB})\n"
                  f"for i in range(0, len(x), 4096): x[i] = 1", "large")
            for n, ms, mib in ((1, "", ""), (5, "60", "10"), (32, "", "")):
                took, kib = forks(a, n, args.rounds, "large")
                row(f"fork of {n}, parent of 256 MiB", "ms", took, ms)
                row("  new memory", "MiB", [k / 1024 for k in kib], mib)


if __name__ == "__main__":
    main()
