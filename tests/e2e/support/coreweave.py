# SPDX-License-Identifier: Apache-2.0
"""The CoreWeave service as its users see it, on connect.py.

    with Face(tmp) as gw:
        box = gw.ann.box()                       # CreateSandbox, RUNNING
        assert box.run("echo hi").out == b"hi\n"  # StreamExec
        box.stop()
"""

import time
import uuid

from . import paths
from .connect import Rpc, b64, unb64
from .jobs import Control

KEEP = 'trap "exit 0" TERM INT; sleep infinity & wait'
LIVE = ("STATE_PENDING", "STATE_CREATING", "STATE_RUNNING", "STATE_PAUSED",
        "STATE_TERMINATING")
ENDED = ("STATE_COMPLETED", "STATE_FAILED", "STATE_TERMINATED")
CONFIG = """\
[listen tls]
address = https://127.0.0.1:0
[coreweave]
enabled = yes
"""


class Face(Control):
    """A gateway with this face; ann and bob are users of it."""

    def __init__(self, tmp, jobs="", more="", **kw):
        super().__init__(tmp, jobs=jobs + CONFIG + more, **kw)
        self.tokens = {name: self.user(name, *args).token
                       for name, *args in (("ann", "--namespace", "ann,team"),
                                           ("bob",),
                                           ("eve", "--namespace", "ann",
                                            "--role", "readonly"))}

    def start(self, **kw):
        super().start(**kw)
        for name, token in self.tokens.items():
            setattr(self, name, Service(self.https, token))
        return self

    def vm_rss(self):
        """KiB of the master, now."""
        with open(f"/proc/{self.proc.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith("VmRSS:"))


class Ran:
    """What a command did: its messages, in order, and what is in them."""

    def __init__(self, messages):
        self.messages = messages
        assert all(len(m) == 1 for m in messages), messages
        kinds = [next(iter(m)) for m in messages]
        assert kinds[:1] == ["ready"], messages[:2]
        assert kinds.count("ready") == 1
        assert kinds[-1] in ("exit", "error"), messages[-1]
        assert set(kinds[1:-1]) <= {"output"}, "something after the end"
        last = messages[-1][kinds[-1]]
        self.error = last if kinds[-1] == "error" else None
        self.code = last.get("exitCode", 0) if not self.error else None
        self.out = output(messages, "STREAM_STDOUT")
        self.err = output(messages, "STREAM_STDERR")


def output(messages, stream):
    return b"".join(unb64(m["output"]["data"]) for m in messages
                    if m.get("output", {}).get("stream") == stream)


class Service(Rpc):
    def create(self, command="/bin/sh", args=("-c", KEEP), request_id=None,
               container=None, **spec):
        """The Sandbox that CreateSandbox answers, as its client asks."""
        one = {"name": "main", "image": "python:3.11", "command": command,
               "args": list(args), **(container or {})}
        return self.call("CreateSandbox", {
            "sandbox": {"spec": {"containers": [one],
                                 "primaryContainer": "main", **spec}},
            "requestId": request_id or str(uuid.uuid4())})

    def new(self, *args, **kw):
        """A Box that may not run yet."""
        return Box(self, self.create(*args, **kw)["sandboxId"])

    def box(self, *args, **kw):
        """A Box that runs."""
        box = self.new(*args, **kw)
        box.wait("STATE_RUNNING")
        return box

    def list(self, **what):
        """All pages."""
        found, token, seen = [], "", set()
        while True:
            got = self.call("ListSandboxes", dict(what, pageToken=token))
            found += got.get("sandboxes", [])
            token = got.get("nextPageToken", "")
            if not token:
                return found
            assert token not in seen, "a page token came twice"
            seen.add(token)

    def ids(self, **what):
        return [s["sandboxId"] for s in self.list(**what)]


class Box:
    def __init__(self, cw, sandbox_id):
        self.cw, self.id = cw, sandbox_id
        self.seen = []  # states, each once

    def get(self):
        got = self.cw.call("GetSandbox", {"sandboxId": self.id})
        assert got["sandboxId"] == self.id
        state = got["status"]["state"]
        if self.seen[-1:] != [state]:
            self.seen.append(state)
        return got

    def status(self):
        return self.get()["status"]

    @property
    def state(self):
        return self.status()["state"]

    def wait(self, *states, seconds=60):
        """Polls until it is in one of states (none: it has ended); its
        status."""
        states = states or ENDED
        end = time.monotonic() + seconds * paths.SLOW
        while True:
            got = self.status()
            if got["state"] in states:
                return got
            assert got["state"] in LIVE and time.monotonic() < end, got
            time.sleep(0.02)

    def delete(self, grace=0, **more):
        return self.cw.call("DeleteSandbox", {
            "sandboxId": self.id, "gracePeriodSeconds": grace, **more})

    def stop(self, grace=0, **more):
        """Its last status."""
        self.delete(grace, **more)
        return self.wait()

    # --- inside -------------------------------------------------------------
    def stream(self, *command, timeout_ms=None, seconds=60, **init):
        """StreamExec after its init."""
        s = self.cw.stream("StreamExec", timeout_ms, seconds=seconds)
        s.send({"init": {"sandboxId": self.id, "command": list(command),
                         **init}})
        return s

    def exec(self, *command, stdin=None, **kw):
        """Ran, from beginning to end."""
        with self.stream(*command, **kw) as s:
            if stdin is not None:
                for at in range(0, len(stdin), 1 << 16):
                    s.send({"stdin": b64(stdin[at:at + (1 << 16)])})
                s.send({"close": {}})
            s.half_close()
            return Ran(list(s))

    def run(self, script, **kw):
        return self.exec("/bin/sh", "-c", script, **kw)

    def unary(self, *command, timeout_ms=None, **more):
        """Exec's answer with bytes as bytes, and all defaults."""
        got = self.cw.call("Exec", {"sandboxId": self.id,
                                    "command": list(command), **more},
                           timeout_ms)
        for name in ("stdout", "stderr"):
            got[name] = unb64(got.get(name, ""))
            got.setdefault(name + "Truncated", False)
            got[name + "BytesProduced"] = int(
                got.get(name + "BytesProduced", 0))
        got.setdefault("exitCode", 0)
        return got

    def read(self, path):
        got = self.cw.call("ReadFile", {"sandboxId": self.id, "path": path})
        return unb64(got.get("content", ""))

    def write(self, path, content):
        assert self.cw.call("WriteFile", {
            "sandboxId": self.id, "path": path,
            "content": b64(content)}) == {}

    def logs(self, **what):
        """[entry] of StreamLogs to its end, data as bytes."""
        with self.cw.stream("StreamLogs") as s:
            s.only({"sandboxId": self.id, **what})
            return [dict(e, data=unb64(e.get("data", ""))) for e in s]
