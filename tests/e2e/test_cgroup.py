# SPDX-License-Identifier: Apache-2.0
"""sbx-agent in host mode with control groups of version 2, on the kernel's own
hierarchy. Its controllers may all belong to version 1: then what needs memory
or pids is not to be seen here."""

import os
import pathlib
import secrets

import pytest

from agent_support import (NO_NAMESPACES, Agent, needs_namespaces,
                           processes_of)
from support import paths
from support.wait import until
from test_isolation import CALLS, CLOSED

pytestmark = [pytest.mark.root, needs_namespaces]

PYTHON = "/usr/bin/python3"


def hierarchy():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            if " - cgroup2 " in line:
                path = pathlib.Path(line.split()[4])
                if os.access(path, os.W_OK):
                    return path
    return None


@pytest.fixture
def group():
    """A fresh group that is the agent's to use."""
    top = hierarchy()
    if top is None or os.statvfs(top).f_flag & os.ST_RDONLY:
        pytest.skip("no cgroup v2 that can be written to")
    path = top / f"sbx-test-{secrets.token_hex(4)}"
    try:
        path.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup v2 that can be written to ({e.strerror})")
    yield path
    until(lambda: not groups(path), "no group is left")
    path.rmdir()


def groups(path):
    return [p.name for p in path.iterdir() if p.is_dir()]


def members(path):
    """Processes in a group and in those beneath it."""
    return sorted(int(n) for f in path.rglob("cgroup.procs")
                  for n in f.read_text().split())


@pytest.mark.parametrize("prefix", [(), NO_NAMESPACES])
def test_life(tmp, group, prefix):
    """Commands are in their sandbox's group from their first instruction;
    delete leaves neither."""
    with Agent(tmp, prefix=prefix, SBX_CGROUP=group) as a:
        health = a.get("/health")[1]
        assert (health["cgroup"], health["namespaces"]) == (True, not prefix)
        one, two = a.create(), a.create()
        assert groups(group) == []  # nothing runs yet
        assert one.exec("true").code == two.exec("true").code == 0
        assert sorted(groups(group)) == sorted(f"sbx-{s.id}"
                                               for s in (one, two))
        # From inside, of another sandbox, of a fork.
        assert f"/sbx-{one.id}\n" in one.exec("cat /proc/self/cgroup").out
        two.start("sleep 1000 & (setsid sleep 1001 &) ; wait")
        until(lambda: len(processes_of(two.uid)) == 3 and
              members(group / f"sbx-{two.id}") == sorted(
                  processes_of(two.uid)), "they run, in their group")
        status, got = one.call("POST", "exec", {"cmd": ["nothing"]})
        assert status == 400 and "No such file" in got["error"]
        # Its own group is not its to change.
        got = one.exec(f"echo 0 > {group}/sbx-{two.id}/cgroup.procs; "
                       f"echo 1 > {group}/sbx-{two.id}/cgroup.kill; "
                       f"echo max > {group}/sbx-{one.id}/pids.max; "
                       f"mkdir {group}/sbx-{one.id}/x")
        assert got.code != 0 and len(processes_of(two.uid)) == 3
        assert two.delete()[0] == 200
        assert groups(group) == [f"sbx-{one.id}"]
        assert processes_of(two.uid) == []


def test_system_calls(tmp, group):
    """The agent needs clone3 then; its commands still have none."""
    with Agent(tmp, SBX_CGROUP=group) as a:
        assert a.create().exec([PYTHON, "-c", CALLS]).out == CLOSED


def test_leftover(tmp, group):
    """What a killed agent left is cleared away by the next."""
    (group / "sbx-abcdefghijkl").mkdir()
    with Agent(tmp, SBX_CGROUP=group):
        assert groups(group) == []
    with Agent(tmp, SBX_CGROUP=group) as a:
        a.create().exec("true")
        a.proc.kill()
        a.proc.wait()
        assert len(groups(group)) == 1
        with Agent(tmp, SBX_CGROUP=group):
            assert groups(group) == []
        a.proc.returncode = 0


def test_one_agent_each(tmp, group):
    (tmp / "b").mkdir()
    with Agent(tmp, SBX_CGROUP=group) as a:
        a.create().exec("true")
        with Agent(tmp / "b", SBX_CGROUP=group) as b:
            assert b.get("/health")[1]["cgroup"] is False
            assert "another agent" in b.log.read_text()
            assert b.create().exec("echo fine").out == "fine\n"
        assert len(groups(group)) == 1


def test_off(tmp):
    with Agent(tmp, SBX_CGROUP="off") as a:
        assert a.get("/health")[1]["cgroup"] is False
        assert a.create().exec("echo fine").out == "fine\n"


def test_limits_are_of_all(tmp, group):
    """Many small processes together come to the limit of the sandbox."""
    if "memory" not in (group / "cgroup.controllers").read_text().split():
        pytest.skip("the memory controller belongs to cgroup v1 here")
    with Agent(tmp, SBX_CGROUP=group) as a:
        sb = a.create(max_mem_mb=100, max_procs=30)
        assert (group / f"sbx-{sb.id}/pids.max").read_text() == "30\n"
        # Each stays far below 100 MiB.
        got = sb.exec([PYTHON, "-c", """
import os, time
kids = []
for i in range(8):
    pid = os.fork()
    if pid == 0:
        x = bytearray(b"x" * (30 << 20))
        time.sleep(5)
        os._exit(0)
    kids.append(pid)
print(sum(os.waitpid(k, 0)[1] != 0 for k in kids))
"""])
        assert got.exit["signal"] == 9 or int(got.out) > 0
        assert sb.exec("echo calm").out == "calm\n" or paths.SANITIZED
