# SPDX-License-Identifier: Apache-2.0
"""Commands with an exec_id: they survive a lost connection, and run once."""

import base64
import glob
import http.client
import json
import random
import secrets

import pytest

from agent_support import Agent, Scope, events, text
from support.wait import until

PYTHON = "/usr/bin/python3"

# Writes both streams, in pieces that split characters, and tells a file that
# it ran.
CHATTER = r'''
import os, random, sys, time
open("ran-%s" % sys.argv[1], "a").write("x")
r = random.Random(int(sys.argv[1]))
words = "h\u00e9llo w\u20acrld \U0001f600 \n plain ".split(" ")
def make():
    return " ".join(r.choice(words) for _ in range(60000)).encode()
left = {1: make(), 2: make()}
if len(sys.argv) > 2:
    left[1] = r.randbytes(len(left[1]))
while any(left.values()):
    fd = r.choice([f for f in left if left[f]])
    n = r.choice((1, 2, 3, 7, 500, 9000))
    left[fd] = left[fd][os.write(fd, left[fd][:n]):]
    if r.random() < 0.02:
        time.sleep(0.001)
sys.exit(7)
'''


def chatter(seed, binary=False):
    """What it writes to stdout and stderr."""
    r = random.Random(seed)
    words = "h\u00e9llo w\u20acrld \U0001f600 \n plain ".split(" ")

    def make():
        return " ".join(r.choice(words) for _ in range(60000)).encode()
    out, err = make(), make()
    return r.randbytes(len(out)) if binary else out, err


@pytest.fixture(scope="module")
def agent(module_tmp):
    with Agent(module_tmp, host=False, SBX_RESUME="1s") as a:
        yield a


@pytest.fixture
def dedicated(agent, tmp):
    scope = Scope(agent, "/v1", agent.token)
    scope.dir = tmp
    return scope


def take(response, limit):
    """Whole events of the first `limit` bytes; True when that was all."""
    data = b""
    try:
        while len(data) < limit:
            got = response.read1(min(limit - len(data), 65536))
            if not got:
                return events(data), True
            data += got
    except http.client.IncompleteRead as e:
        data += e.partial
    return events(data[:data.rfind(b"\n") + 1]), False


def gather(scope, spec, rng):
    """Runs it through a connection that is cut again and again."""
    evs, cuts, position = [], 0, 0
    ask = ("POST", "exec", spec)
    while True:
        r = scope.send(*ask)
        assert r.status == 200, r.read()
        limit = rng.choice((10, 300, 5000, 40000))
        got, over = take(r, limit if cuts < 50 else 1 << 40)
        r.conn.close()
        for e in got:
            position = e.get("next", position)
        evs += [e for e in got if e["event"] in ("stdout", "stderr", "exit",
                                                 "dropped")]
        if over:
            return evs, cuts
        cuts += 1
        if rng.random() < 0.1 and position == 0:
            ask = ("POST", "exec", spec)  # the same request joins it
        else:
            ask = ("GET", f"exec/{spec['exec_id']}?from={position}")


@pytest.mark.parametrize("binary", (False, True))
def test_cut_fifty_times(dedicated, binary):
    seed = 5 + binary
    rng = random.Random(seed)
    spec = {"exec_id": f"chat.{seed}", "cwd": str(dedicated.dir),
            "cmd": [PYTHON, "-c", CHATTER, str(seed)] + binary * ["b"]}
    if binary:
        spec["encoding"] = "base64"
    evs, cuts = gather(dedicated, spec, rng)
    assert cuts >= 50
    assert evs[-1]["event"] == "exit" and evs[-1]["exit_code"] == 7
    for stream, want in zip(("stdout", "stderr"), chatter(seed, binary)):
        if binary:
            got = b"".join(base64.b64decode(e["data"]) for e in evs
                           if e["event"] == stream)
        else:
            got = text(evs, stream).encode()
        assert got == want
    assert (dedicated.dir / f"ran-{seed}").read_text() == "x"
    # It stays for those who ask again.
    again = events(dedicated.call("GET", f"exec/chat.{seed}")[1])
    assert again[0]["event"] == "start" and again[-1] == evs[-1]
    assert [e["event"] for e in evs].count("exit") == 1


def test_once(tmp):
    with Agent(tmp, host=False, SBX_RESUME="200ms") as a:
        dedicated = Scope(a, "/v1", a.token)
        dedicated.dir = tmp
        check_once(dedicated)


def check_once(dedicated):
    spec = {"cmd": "echo x >> count; echo done", "exec_id": "once",
            "cwd": str(dedicated.dir)}
    first = dedicated.call("POST", "exec", spec)
    second = dedicated.call("POST", "exec", spec)
    assert first[0] == 200 and first == second
    assert text(events(first[1])) == "done\n"
    status, got = dedicated.call("POST", "exec", {**spec, "cmd": "true"})
    assert (status, got["code"]) == (409, "exec_id_in_use")
    assert (dedicated.dir / "count").read_text() == "x\n"
    # Forgotten after a time; then it still does not run again.
    until(lambda: dedicated.call("GET", "exec/once")[0] == 410,
          "it is forgotten", 30)
    assert dedicated.call("POST", "exec", spec)[1]["code"] == "exec_gone"
    assert (dedicated.dir / "count").read_text() == "x\n"


def test_nobody_comes_back(dedicated):
    """Then it is stopped, unless it was to last."""
    mark = secrets.token_hex(8)
    for name, cmd, more in (
            ("left", "trap 'echo term; exit 3' TERM; echo $$;"
                     f"while : {mark}; do sleep 0.05; done", {}),
            ("lasts", "echo $$; sleep 2.5; echo end", {"detach": True})):
        r = dedicated.send("POST", "exec", {"cmd": cmd, "exec_id": name,
                                            **more})
        r.readline()
        r.readline()
        r.conn.sock.close()
        r.close()
    got = events(dedicated.call("GET", "exec/lasts")[1])
    assert text(got).endswith("\nend\n")
    # Whoever looks keeps the other one alive; so look only when it is over.
    until(lambda: not any(mark.encode() in c for c in cmdlines()),
          "it was stopped", 30)
    got = events(dedicated.call("GET", "exec/left")[1])
    assert text(got).endswith("\nterm\n") and got[-1]["exit_code"] == 3
    assert not got[-1]["timed_out"]


def cmdlines():
    out = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                out.append(f.read())
        except OSError:
            continue
    return out


def test_gap_is_said(dedicated):
    """More than is kept: where something is missing, an event says so."""
    spec = {"cmd": "head -c 6000000 /dev/zero | tr '\\0' a", "exec_id": "gap"}
    whole = events(dedicated.call("POST", "exec", spec)[1])
    assert len(text(whole)) == 6000000
    got = events(dedicated.call("GET", "exec/gap?from=0")[1])
    dropped = [e for e in got if e["event"] == "dropped"]
    assert len(dropped) == 1 and got[1] == dropped[0]
    assert dropped[0]["bytes"] + len(text(got)) == 6000000
    assert len(text(got)) >= 3 << 20
    assert dedicated.call("GET", "exec/gap?from=6000001")[0] == 416
    assert len(events(dedicated.call(
        "GET", "exec/gap?from=6000000")[1])) == 2


def test_waits_for_its_viewer(dedicated):
    """It runs ahead of a lost viewer by a bounded amount, and loses nothing."""
    r = dedicated.send("POST", "exec", {
        "cmd": "head -c 9000000 /dev/zero | tr '\\0' a", "exec_id": "ahead",
        "detach": False})
    got, _ = take(r, 2000)
    r.conn.close()
    position = max([e.get("next", 0) for e in got])
    rest = events(dedicated.call("GET", f"exec/ahead?from={position}")[1])
    assert [e for e in rest if e["event"] == "dropped"] == []
    assert len(text(got)) + len(text(rest)) == 9000000


@pytest.mark.parametrize("spec,why", [
    ({"exec_id": ""}, "exec_id: "), ({"exec_id": "../x"}, "exec_id: "),
    ({"exec_id": ".x"}, "exec_id: "), ({"exec_id": "x" * 65}, "exec_id: "),
    ({"exec_id": 5}, "exec_id: not a string"),
    ({"exec_id": "x", "background": True}, "exec_id: not for background")])
def test_bad_ids(dedicated, spec, why):
    status, got = dedicated.call("POST", "exec", {"cmd": "true", **spec})
    assert status == 400 and got["error"].startswith(why), got


def test_unknown(dedicated):
    assert dedicated.call("GET", "exec/nosuch")[1]["code"] == "no_such_exec"
    body = json.dumps({"cmd": "true", "exec_id": "q"})
    body = body.replace("_id", "\\u005fid").encode()
    assert "escapes" in dedicated.call("POST", "exec", body)[1]["error"]
    # One that could not start does not use up its id.
    assert dedicated.call("POST", "exec", {
        "cmd": ["/nonexistent"], "exec_id": "z"})[0] == 400
    assert dedicated.call("GET", "exec/z")[0] == 404


@pytest.mark.root
def test_deleted_sandbox(tmp):
    with Agent(tmp) as a:
        sb = a.create()
        r = sb.send("POST", "exec", {"cmd": "echo a; sleep 1000",
                                     "exec_id": "d"})
        r.readline()
        r.readline()
        sb.delete()
        assert events(r.read())[-1]["signal"] == 9
