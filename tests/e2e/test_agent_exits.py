# SPDX-License-Identifier: Apache-2.0
"""sbx-agent: how it ends, and the uids it is given."""

import os
import secrets
import signal
import threading

import pytest

from agent_support import Agent, Result, Scope, events, processes_of
from support import paths
from support.wait import until

root = pytest.mark.root

POLITE = """
trap 'echo bye; exit 5' TERM
echo ready
while :; do sleep 0.05; done
"""
# The usual daemon: twice forked, in a session of its own, deaf to TERM.
DAEMON = r'''
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(os.environ["HERE"] + "/daemon", "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
os.wait()
'''


def marked(mark):
    """Living processes with that text in their environment."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    out.append(int(pid))
        except OSError:
            continue
    return out


class Reader(threading.Thread):
    """Runs a command, and keeps what comes of it."""

    def __init__(self, scope, cmd, **req):
        super().__init__()
        self.response = scope.send("POST", "exec", {"cmd": cmd, **req})
        self.first = self.response.readline() + self.response.readline()
        self.start()

    def run(self):
        self.data = self.first + self.response.read()

    def result(self):
        self.join(30 * paths.SLOW)
        return Result(events(self.data))


def test_dedicated_daemons_end(tmp):
    mark = f"MARK={secrets.token_hex(8)}"
    with Agent(tmp, host=False, SBX_GRACE="300ms") as a:
        scope = Scope(a, "/v1", a.token)
        env = {"MARK": mark[5:], "HERE": str(tmp)}
        scope.exec(["/usr/bin/python3", "-c", DAEMON], env=env)
        until((tmp / "daemon").exists, "the daemon runs")
        scope.start("trap '' TERM; while :; do sleep 1; done", env=env)
        reader = Reader(scope, POLITE, env=env)
        assert len(marked(mark)) >= 3
    # Who heeds TERM has had the time to say good-bye, and is heard.
    got = reader.result()
    assert got.out == "ready\nbye\n" and got.code == 5
    assert marked(mark) == []
    assert not a.socket.exists() and not a.control.exists()


@root
def test_host_grace(tmp):
    with Agent(tmp, SBX_GRACE="300ms") as a:
        sb = a.create()
        sb.start("trap '' TERM; while :; do sleep 1; done")
        sb.exec("(trap '' TERM; exec setsid sleep 1000) &")
        reader = Reader(sb, POLITE)
    got = reader.result()
    assert got.out == "ready\nbye\n" and got.code == 5
    assert processes_of(sb.uid) == []
    assert os.listdir(a.homes) == []
    assert not a.socket.exists() and not a.control.exists()


@root
def test_host_orphans_hear_it(tmp):
    """The children of one that has ended already are asked to end too."""
    with Agent(tmp, SBX_GRACE="1h") as a:
        sb = a.create()
        sb.start("for i in $(seq 60); do sleep 1000 & done; wait")
        until(lambda: len(processes_of(sb.uid)) == 61, "all of them run")
    assert "agent.stop" in a.log.read_text()
    assert processes_of(sb.uid) == []


def test_asked_twice(tmp):
    """The second TERM cuts the grace short."""
    with Agent(tmp, host=False, SBX_GRACE="1h") as a:
        scope = Scope(a, "/v1", a.token)
        reader = Reader(scope, "trap 'echo no' TERM; echo ready;"
                               "while :; do sleep 0.05; done")
        a.proc.send_signal(signal.SIGTERM)
        until(lambda: "agent.stop" in a.log.read_text(), "it ends")
        a.proc.send_signal(signal.SIGTERM)
        a.proc.wait(20 * paths.SLOW)
    assert reader.result().exit["signal"] == signal.SIGKILL


@root
def test_uids_of_a_slice(tmp):
    with Agent(tmp, SBX_UIDS="30000-30003") as a:
        boxes = [a.create() for _ in range(3)]  # one id is the agent's
        assert {sb.uid for sb in boxes} <= set(range(30000, 30004))
        assert boxes[0].exec("id -u").out == f"{boxes[0].uid}\n"
        assert a.post("/v1/sandboxes", {})[1]["rejected"] == 1


@pytest.mark.parametrize("name,value", [
    ("SBX_UIDS", "30000"), ("SBX_UIDS", "30000-30000"),
    ("SBX_UIDS", "19999-20010"), ("SBX_UIDS", "64000-65000"),
    ("SBX_UIDS", "30010-30000"), ("SBX_UIDS", "a-b"), ("SBX_GRACE", "x"),
    ("SBX_GRACE", "2h"), ("SBX_PROXY_DIR", "relative")])
def test_bad_settings(tmp, name, value):
    a = Agent(tmp, host=False, wait=False, **{name: value})
    assert a.proc.wait(20 * paths.SLOW) == 1
    assert f"{name}={value}: " in a.log.read_text()
