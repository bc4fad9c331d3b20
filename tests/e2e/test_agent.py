# SPDX-License-Identifier: Apache-2.0
"""sbx-agent: commands, processes, isolation, sandboxes, tokens."""

import base64
import concurrent.futures
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from agent_support import Agent, events, processes_of, text
from support import paths
from support.wait import until

root = pytest.mark.root

PYTHON = "/usr/bin/python3"


# --- commands ---------------------------------------------------------------

@root
def test_output_comes_before_the_end(sandbox):
    """Each event is flushed when it happens."""
    r = sandbox.send("POST", "exec", {
        "cmd": "echo now; while [ ! -e go ]; do sleep 0.01; done"})
    assert r.getheader("Content-Type") == "application/x-ndjson"
    assert json.loads(r.readline())["event"] == "start"
    assert json.loads(r.readline()) == {"event": "stdout", "data": "now\n"}
    assert sandbox.exec("touch go").code == 0
    assert events(r.read())[-1]["exit_code"] == 0


@root
def test_exec_forms(sandbox):
    assert sandbox.exec("echo $((1+2))").out == "3\n"
    assert sandbox.exec(["echo", "$((1+2))", "a b"]).out == "$((1+2)) a b\n"
    assert sandbox.exec("exit 3").code == 3
    assert sandbox.exec("echo no >&2").err == "no\n"
    assert sandbox.exec("cat", stdin="given").out == "given"
    assert sandbox.exec("cat").out == ""
    got = sandbox.exec("echo $A-$B-$C-$PORT", env={
        "A": "x", "B": 7, "C": True, "PORT": 8000.5})
    assert got.out == "x-7-true-8000.5\n"
    assert sandbox.exec("pwd", cwd=".tmp").out == f"{sandbox.home}/.tmp\n"
    assert sandbox.exec("pwd", cwd="/usr").out == "/usr\n"
    got = sandbox.exec("kill -TERM $$").exit
    assert (got["exit_code"], got["signal"]) == (None, signal.SIGTERM)


@root
@pytest.mark.parametrize("body,why", [
    (b"{", "JSON"),
    (b"[]", "object"),
    ({}, "cmd"),
    ({"cmd": 5}, "cmd"),
    ({"cmd": []}, "cmd"),
    ({"cmd": ["a", 1]}, "cmd"),
    ({"cmd": "x", "shell": False}, "cmd"),
    ({"cmd": ["x"], "shell": True}, "cmd"),
    ({"cmd": "x", "env": {"SBX_TOKEN": "a"}}, "SBX_TOKEN"),
    ({"cmd": "x", "env": {"A": []}}, "env"),
    ({"cmd": "x", "env": {"A=B": "c"}}, "env"),
    ({"cmd": "x", "timeout": -1}, "timeout"),
    ({"cmd": "x", "cwd": "/nowhere"}, "chdir"),
    ({"cmd": ["/nowhere"]}, "No such file"),
    ({"cmd": ["nowhere"]}, "No such file"),
    ({"cmd": ["/etc/passwd"]}, "Permission denied"),
])
def test_bad_commands(sandbox, body, why):
    status, got = sandbox.call("POST", "exec", body)
    assert status == 400 and why in got["error"] and got["code"], got


@root
def test_text_is_whole(sandbox):
    got = sandbox.exec([PYTHON, "-c", """
import os, time
for b in "h\\u00e9 \\u20ac \\U0001f600".encode():
    os.write(1, bytes([b])); time.sleep(0.002)
os.write(1, b"\\xff\\xf0\\x9f")
"""])
    assert got.out == "h\u00e9 \u20ac \U0001f600\ufffd\ufffd"


@root
def test_only_newlines_end_lines(sandbox):
    """Clients that split text as str.splitlines() does see whole events."""
    said = "a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1e\r\n\re"
    status, data = sandbox.call("POST", "exec", {"cmd": ["printf", "%s", said]})
    assert status == 200
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert text(lines) == said


@root
def test_binary(sandbox):
    got = sandbox.exec("head -c 100000 /dev/urandom | tee f; sha256sum f >&2",
                       encoding="base64")
    data = b"".join(base64.b64decode(e["data"]) for e in got.events
                    if e["event"] == "stdout")
    err = b"".join(base64.b64decode(e["data"]) for e in got.events
                   if e["event"] == "stderr")
    assert hashlib.sha256(data).hexdigest().encode() == err.split()[0]


@root
def test_timeout(sandbox):
    got = sandbox.exec("echo before; sleep 1000 & sleep 1000; echo after",
                       timeout=0.3)
    assert got.out == "before\n"
    assert got.exit["timed_out"] and got.exit["signal"] == signal.SIGKILL
    assert got.code is None
    until(lambda: not processes_of(sandbox.uid), "the group is gone")


@root
def test_grandchild_does_not_delay(sandbox):
    start = time.monotonic()
    got = sandbox.exec("sleep 1000 & echo $!")
    assert time.monotonic() - start < 1 * paths.SLOW
    # Nor does the end of the command end it.
    assert sandbox.exec(f"kill -0 {got.out}").code == 0


@root
def test_client_gone(sandbox):
    r = sandbox.send("POST", "exec", {
        "cmd": "trap 'touch termed; exit' TERM; echo up; "
               "while :; do sleep 0.02; done"})
    r.readline(), r.readline()
    r.conn.sock.shutdown(socket.SHUT_RDWR)
    r.close()
    r.conn.close()
    until(lambda: not processes_of(sandbox.uid), "it was ended")
    assert os.path.exists(f"{sandbox.home}/termed")


@root
def test_client_gone_detached(sandbox):
    r = sandbox.send("POST", "exec", {
        "cmd": "echo up; while [ ! -e go ]; do sleep 0.02; done; "
               "echo much; touch done", "detach": True})
    r.readline(), r.readline()
    r.close()
    r.conn.close()
    sandbox.exec("touch go")
    until(lambda: os.path.exists(f"{sandbox.home}/done"), "it went on")


@root
def test_slow_reader_stops_the_command(agent, sandbox):
    """The pipe is not read; the agent does not grow."""
    def rss():
        with open(f"/proc/{agent.proc.pid}/status") as f:
            return int(f.read().split("VmRSS:")[1].split()[0])

    before = rss()
    r = sandbox.send("POST", "exec", {
        "cmd": "head -c 50000000 /dev/zero | tr '\\0' x; echo end >&2"})
    assert json.loads(r.readline())["event"] == "start"
    until(lambda: any(s == "S" for _p, s in agent.children()), "it waits")
    time.sleep(0.3)
    assert rss() - before < 4096 * paths.SLOW
    got = events(r.read())
    assert len(text(got)) == 50000000
    assert text(got, "stderr") == "end\n"
    assert got[-1]["exit_code"] == 0


@root
def test_many_short_commands(agent, sandbox):
    """None of the lines is missing, no zombie, no descriptor stays."""
    def batch(k):
        conn = agent.connection()
        try:
            for i in range(50):
                got = sandbox.exec(f"echo line {k} {i}", conn=conn)
                assert got.out == f"line {k} {i}\n"
                assert got.code == 0
        finally:
            conn.close()

    sandbox.exec("true")
    before = agent.fds()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(batch, range(10)))
    until(lambda: agent.fds() <= before, "descriptors are back")
    until(lambda: not agent.children(), "no child is left")


@root
def test_large_stdin(sandbox):
    data = "x" * 5_000_000
    got = sandbox.exec("wc -c", stdin=data)
    assert got.out == f"{len(data)}\n"


# --- background processes ---------------------------------------------------

@root
def test_background_life(sandbox):
    p = sandbox.start("echo out; echo err >&2; read x; echo got $x; exit 5",
                      tag="web")
    assert p["tag"] == "web" and p["cmd"].startswith("echo out")
    until(lambda: len(sandbox.logs(p["pid"])) == 2, "its output")
    status, procs = sandbox.call("GET", "processes")
    assert status == 200 and len(procs) == 1
    q = procs[0]
    assert (q["id"], q["pid"], q["running"]) == (p["id"], p["pid"], True)
    assert q["exit_code"] is None and q["cmd"] == p["cmd"]
    assert sandbox.call("POST", f"procs/{p['pid']}/stdin?eof=1",
                        b"line\n")[0] == 200
    got = sandbox.wait(p["id"])
    assert got["event"] == "exit" and got["exit_code"] == 5
    log = sandbox.logs(p["pid"])
    assert text(log) == "out\ngot line\n" and text(log, "stderr") == "err\n"
    assert log[-1]["exit_code"] == 5
    assert sandbox.call("POST", f"procs/{p['pid']}/stdin", b"x")[0] == 409
    procs = sandbox.call("GET", "procs")[1]
    assert [(x["running"], x["exit_code"]) for x in procs] == [(False, 5)]
    assert sandbox.call("DELETE", f"processes/{p['pid']}") == (
        200, {"id": p["id"], "ok": True})
    assert sandbox.call("GET", "procs")[1] == []
    # Idempotent.
    assert sandbox.call("DELETE", f"processes/{p['pid']}")[0] == 200


@root
def test_exec_background_form(sandbox):
    status, got = sandbox.call("POST", "exec", {"cmd": ["sleep", "1000"],
                                                "background": True})
    assert status == 200 and set(got) == {"id", "pid", "tag"}
    assert sandbox.call("GET", "procs")[1][0]["cmd"] == ["sleep", "1000"]


@root
@pytest.mark.parametrize("by", ["id", "pid"])
def test_delete_kills_the_group(sandbox, by):
    p = sandbox.start("sleep 1000 & sleep 1000")
    until(lambda: len(processes_of(sandbox.uid)) == 3, "all run")
    assert sandbox.call("DELETE", f"processes/{p[by]}")[0] == 200
    until(lambda: not processes_of(sandbox.uid), "all are gone")


@root
def test_delete_reaches_what_outlived_its_leader(sandbox):
    p = sandbox.start("sleep 1000 & exit 0")
    assert sandbox.wait(p["pid"])["exit_code"] == 0
    assert len(processes_of(sandbox.uid)) == 1
    sandbox.call("DELETE", f"processes/{p['pid']}")
    until(lambda: not processes_of(sandbox.uid), "it is gone")


@root
@pytest.mark.parametrize("sig,number", [
    (None, 9), ("TERM", 15), ("SIGINT", 2), (10, 10), ("usr2", 12)])
def test_kill(sandbox, sig, number):
    p = sandbox.start("exec sleep 1000")
    body = {} if sig is None else {"signal": sig}
    assert sandbox.call("POST", f"procs/{p['pid']}/kill", body)[0] == 200
    assert sandbox.wait(p["pid"])["signal"] == number


@root
def test_kill_errors(sandbox):
    p = sandbox.start("exec sleep 1000")
    path = f"procs/{p['pid']}/kill"
    assert sandbox.call("POST", path, {"signal": "NOPE"})[0] == 400
    assert sandbox.call("POST", path, {"signal": 0})[0] == 400
    assert sandbox.call("POST", path, {"signal": 1000})[0] == 400
    assert sandbox.call("POST", "procs/999999999/kill")[0] == 404
    assert sandbox.call("GET", "procs/p-999/logs")[0] == 404


@root
def test_logs_follow(sandbox):
    p = sandbox.start("echo first; while [ ! -e go ]; do sleep 0.01; done; "
                      "echo second")
    readers = [sandbox.send("GET", f"procs/{p['pid']}/logs?follow=1")
               for _ in range(3)]
    for r in readers:
        assert json.loads(r.readline())["data"] == "first\n"
    sandbox.exec("touch go")
    for r in readers:
        got = events(r.read())
        assert text(got) == "second\n" and got[-1]["event"] == "exit"


@root
def test_logs_resume(sandbox):
    p = sandbox.start("printf abc; printf def")
    sandbox.wait(p["pid"])
    log = sandbox.logs(p["pid"])
    assert text(log) == "abcdef"
    assert log[-2]["next"] == 6
    assert text(sandbox.logs(p["pid"], "?since=4")) == "ef"
    assert text(sandbox.logs(p["pid"], "?since=6")) == ""
    assert sandbox.call("GET", f"procs/{p['pid']}/logs?since=x")[0] == 400


@root
def test_logs_are_a_ring(sandbox):
    p = sandbox.start("head -c 9000000 /dev/zero | tr '\\0' x; echo end")
    sandbox.wait(p["pid"])
    log = sandbox.logs(p["pid"])
    out = text(log)
    assert len(out) == 4 << 20 and out.endswith("x" * 100 + "end\n")
    log = sandbox.logs(p["pid"], "?since=0")
    assert log[0] == {"event": "dropped", "bytes": 9000004 - (4 << 20)}


@root
def test_removed_while_fed(sandbox):
    """Somebody else holds its stdin: no pipe breaks."""
    p = sandbox.start("(exec setsid sleep 1000) & exec sleep 999")
    conn = sandbox.agent.connection()
    conn.putrequest("POST", f"{sandbox.prefix}/procs/{p['pid']}/stdin")
    conn.putheader("X-Sandbox-Token", sandbox.token)
    conn.putheader("Content-Length", str(1 << 30))
    conn.endheaders()
    conn.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            conn.send(bytes(65536))
    conn.sock.settimeout(30)
    assert sandbox.call("DELETE", f"processes/{p['pid']}")[0] == 200
    response = conn.getresponse()
    assert response.status == 409
    assert json.loads(response.read())["code"] == "stdin_closed"


@root
def test_removed_while_followed(sandbox):
    p = sandbox.start("exec sleep 1000")
    r = sandbox.send("GET", f"procs/{p['pid']}/logs?follow=1")
    sandbox.call("DELETE", f"processes/{p['pid']}")
    assert r.read() == b""


# --- isolation --------------------------------------------------------------

@root
def test_identity_and_environment(sandbox):
    got = sandbox.exec("id; env").out.splitlines()
    assert got[0] == (f"uid={sandbox.uid} gid={sandbox.uid} "
                      f"groups={sandbox.uid}")
    env = dict(line.split("=", 1) for line in got[1:])
    assert env.pop("PATH").startswith(f"{sandbox.home}/.local/bin:")
    assert env.pop("PWD") == sandbox.home
    env.pop("_", None)
    env.pop("SHLVL", None)
    env.pop("OLDPWD", None)
    assert env == {
        "HOME": sandbox.home, "TMPDIR": f"{sandbox.home}/.tmp",
        "USER": sandbox.id, "LOGNAME": sandbox.id,
        "SBX_SANDBOX_ID": sandbox.id,
        "SBX_PROXY_DIR": f"{sandbox.home}/.sbx/proxy"}


@root
def test_environment_of_the_sandbox(agent):
    sb = agent.create(env={"A": "sandbox", "B": "sandbox"})
    assert sb.exec("echo $A $B", env={"B": "command"}).out == (
        "sandbox command\n")
    sb.delete()


@root
def test_walls(agent, sandbox):
    other = agent.create()
    other.exec("echo secret > f; chmod 777 . f")
    mine = sandbox.exec(f"""
        cat {other.home}/f; ls {other.home}; ls {agent.homes}; ls /root;
        touch /tmp/x; touch {agent.homes}/x; ls /tmp
        cat /proc/{agent.proc.pid}/environ; kill -0 {agent.proc.pid}
        echo x > /etc/passwd; echo x > /proc/sys/kernel/panic
        cat /etc/shadow; ls /; ls /home; ls /var
    """)
    assert mine.out == "", mine.out
    assert sum(mine.err.count(why) for why in (
        "denied", "not permitted", "No such")) >= 15, mine.err
    assert not os.path.exists("/tmp/x")
    p = other.start("exec sleep 1000")
    assert sandbox.exec(f"kill -9 {p['pid']}").code != 0
    other.delete()


@root
def test_what_works_inside(sandbox):
    got = sandbox.exec(f"""set -e
        echo x > f; mkdir d; mv f d/g; ln d/g h; ln -s d l; cat l/g
        echo y > $TMPDIR/t; cat $TMPDIR/t; mkfifo p; rm -r d l p h
        {PYTHON} -c 'import socket, json, tempfile; tempfile.mkstemp()
s = socket.socket(socket.AF_UNIX); s.bind("sock")'
        head -c 1 /dev/urandom > /dev/null; cat /proc/self/comm
    """)
    assert got.code == 0, got.err
    assert got.out == "x\ny\ncat\n"


@root
def test_no_tcp_bind(agent, sandbox):
    if agent.get("/health")[1]["landlock_abi"] < 4:
        pytest.skip("Landlock ABI below 4")
    got = sandbox.exec([PYTHON, "-c", """
import socket
try:
    socket.socket().bind(("127.0.0.1", 0))
    print("bound")
except PermissionError:
    print("denied")
"""])
    assert got.out == "denied\n"


@root
def test_no_abstract_sockets(agent, sandbox):
    if agent.get("/health")[1]["landlock_abi"] < 6:
        pytest.skip("Landlock ABI below 6")
    name = f"\0sbx-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(name)
        s.listen(1)
        got = sandbox.exec([PYTHON, "-c", f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({name!r})
    print("connected")
except PermissionError:
    print("denied")
"""])
    assert got.out == "denied\n"


@root
def test_limits(agent):
    sb = agent.create(max_procs=8, max_mem_mb=64)
    got = sb.exec("ulimit -c; ulimit -Hn")
    assert got.out.splitlines()[0] == "0"
    got = sb.exec([PYTHON, "-c", "x = bytearray(200 << 20)"])
    assert got.code == 1 and "MemoryError" in got.err
    got = sb.exec("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done")
    assert "fork" in got.err, got.err
    # The limit is full: said as such, not as a strange exit.
    status, data = sb.call("POST", "exec", {"cmd": "true"})
    assert status in (200, 429), data
    sb.delete()


@root
def test_no_new_privileges(sandbox):
    got = sandbox.exec("grep -E '^(NoNewPrivs|CapEff|CapPrm)' "
                       "/proc/self/status")
    assert got.out == ("CapPrm:\t0000000000000000\nCapEff:\t"
                       "0000000000000000\nNoNewPrivs:\t1\n")


@root
def test_stopped_children_do_not_stop_the_agent(agent, sandbox):
    """Processes of the sandbox that stop whatever appears beside them."""
    sandbox.start([PYTHON, "-c", """
import os, signal
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""])
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        r = sandbox.send("POST", "exec", {"cmd": ["true"], "timeout": 0.2})
        assert r.status in (200, 503)
        r.conn.close()
        start = time.monotonic()
        assert agent.get("/health")[0] == 200
        assert time.monotonic() - start < 3


# --- sandboxes --------------------------------------------------------------

@root
def test_delete_leaves_nothing(agent):
    sb = agent.create()
    sb.exec("mkdir -p a/b/c; echo x > a/b/c/f; chmod 000 a/b; ln -s / root")
    # Daemons, and a fork bomb that would outrun a scan of /proc.
    sb.start("setsid sleep 1000 & setsid sleep 1000 &")
    sb.start([PYTHON, "-c", """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""])
    until(lambda: len(processes_of(sb.uid)) > 50, "the bomb goes off", 20)
    start = time.monotonic()
    assert sb.delete() == (200, {"id": sb.id, "deleted": True})
    assert time.monotonic() - start < 5 * paths.SLOW
    assert processes_of(sb.uid) == []
    assert not os.path.exists(sb.home)
    assert sb.delete()[0] == 404
    assert sb.call("POST", "exec", {"cmd": "true"},
                   token=agent.token)[0] == 404
    assert os.path.exists("/etc/passwd")


@root
def test_delete_ends_what_runs(agent):
    sb = agent.create()
    r = sb.send("POST", "exec", {"cmd": "echo up; exec sleep 1000"})
    r.readline(), r.readline()
    log = sb.send("GET", f"procs/{sb.start('exec sleep 1000')['pid']}"
                         "/logs?follow=1")
    sb.delete()
    assert events(r.read())[-1]["signal"] == 9
    assert events(log.read())[-1]["signal"] == 9


@root
def test_uids_are_used_again(tmp):
    with Agent(tmp) as a:
        sbs = [a.create() for _ in range(5)]
        assert len({s.uid for s in sbs}) == 5
        assert a.delete("/v1/sandboxes") == (200, {"deleted": 5})
        assert a.get("/v1/sandboxes") == (200, [])
        assert os.listdir(a.homes) == []


@root
def test_capacity(tmp):
    with Agent(tmp, SBX_CAPACITY=3) as a:
        status, got = a.post("/v1/sandboxes", {"count": 5})
        assert status == 200
        assert len(got["sandboxes"]) == 3 and got["rejected"] == 2
        assert a.post("/v1/sandboxes")[1] == {"sandboxes": [], "rejected": 1}
        a.delete(f"/v1/sandboxes/{got['sandboxes'][0]['id']}")
        assert a.post("/v1/sandboxes")[1]["rejected"] == 0


@root
def test_making_many_holds_nobody_up(tmp):
    """Others are served meanwhile."""
    with Agent(tmp) as a:
        seen = []

        def look(conn):
            n = len(a.get("/v1/sandboxes", conn=conn)[1])
            seen.append(n)
            return n

        look(conn := a.connection())
        maker = threading.Thread(target=a.post, args=(
            "/v1/sandboxes", {"count": 200}))
        maker.start()
        until(lambda: look(conn) == 200, "all are there", 30 * paths.SLOW,
              every=0)
        maker.join()
        assert any(0 < n < 200 for n in seen)
        assert a.delete("/v1/sandboxes") == (200, {"deleted": 200})


@root
@pytest.mark.parametrize("body", [
    {"count": 0}, {"count": -1}, {"count": "x"}, {"max_procs": 0},
    {"max_mem_mb": 1.5}, {"env": {"SBX_X": "1"}}, {"env": []}])
def test_bad_create(agent, body):
    assert agent.post("/v1/sandboxes", body)[0] == 400


@root
def test_idle_eviction(agent):
    idle = agent.create(idle_timeout_secs=1)
    busy = agent.create(idle_timeout_secs=1)
    busy.start("exec sleep 1000")

    def ids():
        return [s["id"] for s in agent.get("/v1/sandboxes")[1]]

    until(lambda: idle.id not in ids(), "it was evicted")
    assert busy.id in ids()
    busy.delete()


@root
def test_idle_exit(tmp):
    with Agent(tmp, SBX_IDLE_TIMEOUT=1) as a:
        sb = a.create()
        sb.exec("sleep 1.5")  # activity
        a.proc.wait(10)
        assert a.proc.returncode == 0
        assert os.listdir(a.homes) == []


@root
def test_sigterm_leaves_nothing(tmp):
    with Agent(tmp) as a:
        sb = a.create()
        sb.start("trap '' TERM; while :; do sleep 1; done")
        sb.exec("setsid sleep 1000 &")
    assert processes_of(sb.uid) == []
    assert os.listdir(a.homes) == []
    assert not a.socket.exists() and not a.control.exists()


@root
def test_killed_agent(tmp):
    """Its sandboxes' processes do not outlive it; the next one clears up."""
    with Agent(tmp) as a:
        sb = a.create()
        sb.exec("echo x > f")
        p = sb.start("exec sleep 1000")
        a.proc.kill()
        a.proc.wait()
        until(lambda: p["pid"] not in processes_of(sb.uid), "it died too")
        with Agent(tmp) as b:
            assert os.listdir(b.homes) == []
            assert b.create().exec("true").code == 0
        a.proc.returncode = 0


# --- tokens and routes ------------------------------------------------------

@root
def test_tokens(agent, sandbox):
    other = agent.create()
    exec_ = f"{sandbox.prefix}/exec"
    body = {"cmd": "true"}
    assert agent.post(exec_, body, token=sandbox.token)[0] == 200
    assert agent.post(exec_, body, token=agent.token)[0] == 200
    for bad in (None, "x", other.token, sandbox.token + "x",
                sandbox.token[:-1], agent.token.upper()):
        status, got = agent.post(exec_, body, token=bad)
        assert status == 403 and got["code"] == "unauthorized"
        # No word about what exists.
        assert agent.post("/v1/sandboxes/nosuch/exec", body,
                          token=bad) == (403, got)
        assert agent.get("/v1/sandboxes", token=bad)[0] == 403
    # A sandbox's own token does not manage sandboxes.
    assert agent.get("/v1/sandboxes", token=sandbox.token)[0] == 403
    assert agent.delete(sandbox.prefix, token=sandbox.token)[0] == 403
    assert agent.get(f"{sandbox.prefix}/token",
                     token=sandbox.token)[0] == 403
    assert agent.get(f"{sandbox.prefix}/token") == (
        200, {"token": sandbox.token})
    assert agent.get("/v1/sandboxes/nosuch/token")[0] == 404
    other.delete()


@root
def test_the_token_is_nowhere(agent, sandbox):
    with open(f"/proc/{agent.proc.pid}/environ", "rb") as f:
        assert agent.token.encode() not in f.read()
    assert agent.token not in agent.log.read_text()
    assert sandbox.token not in agent.log.read_text()


@root
def test_exclusive_surfaces(agent, dedicated):
    for path in ("/v1/exec", "/v1/procs", "/v1/files/list", "/v1/proxy/80/"):
        assert agent.post(path, {"cmd": "true"})[0] == 404
    a = dedicated.agent
    assert a.post("/v1/sandboxes")[0] == 404
    assert a.get("/v1/sandboxes")[0] == 404


@root
def test_routes(agent, sandbox):
    assert agent.get("/nowhere")[0] == 404
    assert agent.get("/v1")[0] == 404
    r = agent.send("PUT", "/v1/sandboxes")
    assert (r.status, r.getheader("Allow")) == (405, "POST, GET, DELETE")
    r = sandbox.send("GET", "exec")
    assert (r.status, r.getheader("Allow")) == (405, "POST")
    r = agent.send("POST", "/health", token=None)
    assert (r.status, r.getheader("Allow")) == (405, "GET, HEAD")
    assert sandbox.call("GET", "nowhere")[0] == 404
    status, got = agent.get("/health", token=None)
    assert status == 200 and got["status"] == "ok"
    assert got["isolation"] == "full" and got["landlock_abi"] > 0


# --- dedicated mode ---------------------------------------------------------

def test_dedicated(dedicated):
    assert dedicated.exec("echo hi; id -u").out == f"hi\n{os.getuid()}\n"
    assert "SBX_" not in dedicated.exec("env").out
    p = dedicated.start("echo bg; exec sleep 1000")
    until(lambda: text(dedicated.logs(p["pid"])) == "bg\n", "its output")
    assert dedicated.call("DELETE", f"processes/{p['pid']}")[0] == 200
    assert dedicated.call("POST", "exec", {"cmd": "true"},
                          token="wrong")[0] == 403


def test_silence_is_broken(dedicated):
    """Proxies on the way end what says nothing for a minute."""
    p = dedicated.start("exec sleep 1000")
    asks = [("POST", "exec", {"cmd": "exec sleep 1000"}),
            ("POST", "exec", {"cmd": "exec sleep 1000", "exec_id": "silent"}),
            ("GET", f"procs/{p['pid']}/wait", None),
            ("GET", f"procs/{p['pid']}/logs?follow=1", None)]
    streams = [dedicated.send(*ask, timeout=40 * paths.SLOW) for ask in asks]
    pids = {p["pid"]}
    for r in streams:
        said = json.loads(r.readline())
        if said["event"] == "start":
            pids.add(said["pid"])
            said = json.loads(r.readline())
        assert said == {"event": "ping"}
        r.conn.close()
    for pid in pids:
        dedicated.call("DELETE", f"processes/{pid}")


def test_dedicated_proxy(dedicated):
    with socket.socket(socket.AF_INET6) as s:  # on ::1 only
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("::1", 0))
        port = s.getsockname()[1]
        dedicated.start([PYTHON, "-c", f"""
import http.server, socket
class S(http.server.HTTPServer): address_family = socket.AF_INET6
S(("::1", {port}), http.server.SimpleHTTPRequestHandler).serve_forever()
"""], cwd="/etc")
        s.close()

    def get():
        status, got = dedicated.call("GET", f"proxy/{port}/hostname")
        return got if status == 200 else None
    # It is waited for, but not for as long as a busy machine may take.
    assert until(get, "its answer") == open("/etc/hostname", "rb").read()


def test_not_root(tmp):
    """Refused without isolation, in words; best effort says so."""
    if os.getuid() == 0:
        def other(**kw):
            return Agent(tmp, wait=False, **kw)
        # As another user, through setpriv.
        tmp.chmod(0o777)
        env = paths.child_env({"SBX_HOST_MODE": "1",
                               "SBX_LISTEN": f"unix:{tmp}/s",
                               "SBX_HOMES": f"{tmp}/homes"})
        got = subprocess.run(
            ["setpriv", "--reuid=65000", "--clear-groups",
             str(paths.AGENT)], env=env, capture_output=True, text=True,
            timeout=20, check=False)
        if "Permission denied" in got.stderr:
            pytest.skip("the build is not readable for others")
        assert got.returncode == 1
        assert "needs root" in got.stderr and "best-effort" in got.stderr
        return
    a = Agent(tmp, wait=False)
    assert a.proc.wait(10) == 1
    assert "needs root" in a.log.read_text()
    with Agent(tmp, SBX_ISOLATION="best-effort") as b:
        assert b.get("/health")[1]["isolation"] in ("landlock", "none")
        assert b.create().exec("echo hi").out == "hi\n"


@root
def test_no_more_processes(tmp):
    """Not even one that could say so: 429, and it is no fault of ours."""
    tmp.chmod(0o777)
    try:
        with Agent(tmp, host=False, prefix=(
                "prlimit", "--nproc=1", "setpriv", "--reuid=64123",
                "--clear-groups", "--inh-caps=-all"),
                   # That wants a process too, at the end.
                   ASAN_OPTIONS="detect_leaks=0") as a:
            status, got = a.post("/v1/exec", {"cmd": "true"})
            assert (status, got["code"]) == (429, "limit")
            assert "unavailable" in got["error"]
    except AssertionError:
        if "Permission denied" in (tmp / "agent.log").read_text():
            pytest.skip("the build is not readable for others")
        raise


@root
def test_homes_that_cannot_be_made(tmp):
    """It is said why, and what was taken for them is given back."""
    with Agent(tmp, SBX_CAPACITY="1") as a:
        os.rmdir(tmp / "homes")
        for _ in range(3):
            # Until what is left of the last one is cleared away, it is full.
            until(lambda: a.call("POST", "/v1/sandboxes", {"count": 2}) == (
                500, {"error": "cannot make a home: No such file or directory",
                      "code": "internal"}), "it is said")
        assert a.get("/health")[1]["sandboxes"] == 0
