# SPDX-License-Identifier: Apache-2.0
"""Attacks: by who holds a lesser credential, and by code inside a sandbox."""

import json
import os
import select
import socket
import subprocess
import threading
import time

import pytest

from agent_support import NO_NAMESPACES, Agent, processes_of
from support import paths
from support.app import App
from support.gateway import Gateway, run
from support.http import Client
from support.wait import until
from test_proxy import Hub, configured

pytestmark = pytest.mark.root
OP = "operator-secret-1"


def memory(pid):
    """Resident MiB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


# --- credentials -----------------------------------------------------------

def test_reader_gets_no_token(tmp):
    """What may only read must not read the secret that opens the rest."""
    (tmp / "op").write_text(OP + "\n")
    with Gateway(tmp, token=OP, config=(
            f"[gateway]\nstate_dir = {tmp}/state\nworkers = 1\n"
            f"[listen a]\naddress = http://127.0.0.1:0\n"
            f"[auth]\noperator_token_file = {tmp}/op\n"
            f"[agent]\nenabled = yes\nnamespace = team\n"
            f"path = {paths.AGENT}\n[log]\naccess = off\n")) as gw:
        def bearer(name, role):
            out = run(["token", "add", name, "--namespace", "team", "--role",
                       role, "-c", gw.config])
            return {"Authorization": "Bearer " + out.stdout.split()[-1]}

        def ask(target, headers, method="GET", host="x", **kw):
            with Client(gw.http) as c:
                return c.request(method, target, headers=headers, host=host,
                                 **kw).response()
        sb = json.loads(ask("/v1/sandboxes", {"X-Sandbox-Token": OP}, "POST",
                            body=b"{}").body)["sandboxes"][0]
        reader, user = bearer("rob", "readonly"), bearer("una", "user")
        base = f"/v1/sandboxes/{sb['id']}"
        until(lambda: ask(f"{base}/processes", reader).status == 200 and
              ask(f"{base}/processes", user).status == 200, "tokens are in")
        inside = f"{sb['id']}--49983.x"
        for target, host in ((f"{base}/token", "x"), (f"{base}/token?a", "x"),
                             (f"{base}/token/", "x"), ("/v1/token", inside),
                             (f"{base}/token", inside)):
            r = ask(target, reader, host=host)
            assert r.status == 403 and sb["token"].encode() not in r.body
        r = ask(f"{base}/token", user)
        assert json.loads(r.body) == {"token": sb["token"]}


def test_guesses_do_not_take_the_hub_away(tmp):
    """Each unknown bearer costs a request to the hub. One client's guesses
    leave room for others, and do not push known users out."""
    with Hub() as hub, configured(
            tmp, auth=f"hub = {hub.url}\n") as gw, \
            App(tmp / "alpha", 80):
        target = "/v1/sandboxes/alpha/proxy/80/"

        def client(address):
            where = gw.http.rsplit("/", 1)[1].rsplit(":", 1)
            return Client(socket.create_connection(
                (where[0], int(where[1])), 30, (address, 0)))

        def ask(c, token):
            return c.request("GET", target,
                             headers={"Authorization": f"Bearer {token}"})
        hub.hold.clear()
        guesses = [client("127.0.0.1") for _ in range(80)]
        for i, c in enumerate(guesses):
            ask(c, f"hf_guess{i}")
        # Those that may not ask are told at once.
        late = select.select([c.sock for c in guesses], [], [], 10)[0]
        assert late
        until(lambda: len(hub.asked) >= 16, "the hub is asked")
        user = client("127.0.0.2")
        ask(user, "hf_ann")
        until(lambda: ("/api/whoami-v2", "hf_ann") in hub.asked,
              "there is room for others")
        assert len(hub.asked) == 17
        hub.hold.set()
        assert user.response().status == 200
        codes = [c.response().status for c in guesses]
        assert codes.count(401) == 16 and codes.count(503) == 64
        for c in (*guesses, user):
            c.close()


# --- above the proxy directory ---------------------------------------------

NEIGHBOUR = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print("ready", flush=True)
while True:
    c = s.accept()[0]
    c.recv(65536)
    c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\nneighbour")
    c.close()
"""


def test_symlink_above_the_proxy_directory(tmp):
    """A sandbox that owns what lies above its proxy directory must not lend
    itself its neighbour's."""
    own, other = 21001, 21002
    for name, uid in (("own", own), ("other", other)):
        (tmp / name / "proxy").mkdir(parents=True)
        os.chown(tmp / name, uid, uid)
        os.chown(tmp / name / "proxy", uid, uid)
    (tmp / "t").write_text("box-secret\n")
    config = (f"[gateway]\nstate_dir = {tmp}/state\nworkers = 1\n"
              f"[listen a]\naddress = http://127.0.0.1:0\n"
              f"[sandbox box]\ntoken_file = {tmp}/t\n"
              f"proxy_dir = {tmp}/own/proxy\n[log]\naccess = off\n")
    neighbour = subprocess.Popen(
        ["/usr/bin/python3", "-c", NEIGHBOUR,
         str(tmp / "other" / "proxy" / "8000.sock")],
        user=other, group=other, extra_groups=[], stdout=subprocess.PIPE)

    def ask(gw):
        with Client(gw.http) as c:
            return c.request("GET", "/v1/sandboxes/box/proxy/8000/?wait=0s",
                             token="box-secret").response()
    try:
        assert neighbour.stdout.readline() == b"ready\n"
        with Gateway(tmp, config=config, token="box-secret") as gw:
            assert ask(gw).status == 503
            (tmp / "own" / "proxy").rmdir()
            (tmp / "own" / "proxy").symlink_to(tmp / "other" / "proxy")
            os.chown(tmp / "own" / "proxy", own, own, follow_symlinks=False)
            r = ask(gw)
            assert r.status == 502 and b"socket_refused" in r.body
            # One that root has made is the operator's own business.
            os.chown(tmp / "own" / "proxy", 0, 0, follow_symlinks=False)
            assert ask(gw).body == b"neighbour"
    finally:
        neighbour.kill()
        neighbour.wait()
        neighbour.stdout.close()


# --- the agent's memory and time -------------------------------------------

def test_json_bomb(agent, sandbox):
    """Two bytes of text are eighty in a tree."""
    body = b'{"cmd":["true"],"x":[' + b"1," * (8 << 20) + b"1]}"
    before, began = memory(agent.proc.pid), time.monotonic()
    status, got = sandbox.call("POST", "exec", body)
    assert status == 400 and "too many values" in got["error"]
    assert time.monotonic() - began < 2 * paths.SLOW
    assert memory(agent.proc.pid) - before < 200 * paths.SLOW


def test_many_large_bodies(agent, sandbox):
    """Bodies that are never completed hold a bounded amount of memory."""
    size, conns = 60 << 20, []
    head = (f"POST {sandbox.prefix}/exec HTTP/1.1\r\nHost: x\r\n"
            f"X-Sandbox-Token: {sandbox.token}\r\n"
            f"Content-Length: {size}\r\n\r\n").encode()
    answers = []

    def send(sock):
        try:
            sock.sendall(head + b" " * (size - 1))
        except OSError:
            pass
        try:
            answers.append(sock.recv(4096))
        except OSError:
            pass
    for _ in range(6):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(15 * paths.SLOW)
        s.connect(str(agent.socket))
        conns.append(s)
    threads = [threading.Thread(target=send, args=(s,)) for s in conns]
    for t in threads:
        t.start()
    until(lambda: len(answers) >= 4, "four were refused", 15)
    assert all(a.startswith(b"HTTP/1.1 429 ") for a in answers[:4])
    other = agent.create()  # the neighbour notices nothing
    assert other.exec("echo ok").out == "ok\n"
    other.delete()
    for s in conns:
        s.shutdown(socket.SHUT_RDWR)
        s.close()
    for t in threads:
        t.join()
    until(lambda: sandbox.exec("cat", stdin="x" * (8 << 20)).code == 0,
          "it is given back")


def test_long_commands_are_forgotten(agent, sandbox):
    """A list of what ran is not a store."""
    arg = "x" * 120_000
    for _ in range(60):
        sandbox.start(["true", *[arg] * 8])
    status, got = sandbox.call("GET", "processes")
    assert status == 200 and 1 < len(got) < 40
    assert memory(agent.proc.pid) < 400 * paths.SLOW


# --- what stays behind ------------------------------------------------------

def test_orphans_of_a_killed_agent(tmp):
    """What detached itself from a sandbox ends with the next agent's start, at
    the latest (with namespaces it ends with the agent)."""
    with Agent(tmp, prefix=NO_NAMESPACES) as a:
        sb = a.create()
        sb.exec("setsid sh -c 'sleep 1000 & exec sleep 1001' "
                ">/dev/null 2>&1 &")
        until(lambda: len(processes_of(sb.uid)) == 2, "they run")
        a.proc.kill()
        a.proc.wait()
        assert len(processes_of(sb.uid)) == 2
        with Agent(tmp) as b:
            until(lambda: processes_of(sb.uid) == [], "they are gone")
            assert os.listdir(b.homes) == []
        a.proc.returncode = 0


IPC = r"""
import ctypes
c = ctypes.CDLL(None, use_errno=True)
print(c.shmget(0x5b0c5, 4096, 0o1600), c.msgget(0x5b0c5, 0o1600),
      c.semget(0x5b0c5, 1, 0o1600))
"""


def system_v(uid):
    found = []
    for kind in ("shm", "msg", "sem"):
        with open(f"/proc/sysvipc/{kind}", encoding="ascii") as f:
            names = f.readline().split()
            for line in f:
                row = dict(zip(names, line.split()))
                if int(row["uid"]) == uid:
                    found.append(kind)
    return found


@pytest.mark.skipif(not os.path.exists("/proc/sysvipc/shm"),
                    reason="no System V IPC")
@pytest.mark.parametrize("prefix", [(), NO_NAMESPACES])
def test_ipc_is_removed(tmp, prefix):
    """Else the next owner of the uid would find it."""
    with Agent(tmp, prefix=prefix) as agent:
        sb = agent.create()
        r = sb.exec(["/usr/bin/python3", "-c", IPC])
        assert r.code == 0 and "-1" not in r.out, r.out
        assert system_v(sb.uid) == (["shm", "msg", "sem"] if prefix else [])
        sb.delete()
        assert system_v(sb.uid) == []


def test_message_queues_cannot_stay(sandbox):
    """POSIX ones have no owner that could be looked up: there are none."""
    r = sandbox.exec(["/usr/bin/python3", "-c",
                      "import ctypes; c = ctypes.CDLL('librt.so.1', "
                      "use_errno=True); print(c.mq_open(b'/sbx-test', 0o102, "
                      "0o600, None))"])
    assert r.out == "-1\n"


# --- what can be seen -------------------------------------------------------

def test_no_descriptor_comes_along(sandbox):
    r = sandbox.exec("ls -l /proc/self/fd | wc -l; cat /proc/self/status")
    lines = r.out.splitlines()
    assert lines[0] == "5"  # a total, 0-2, and the directory itself
    assert "Groups:\t " in lines and "NoNewPrivs:\t1" in lines
    assert "CapEff:\t0000000000000000" in lines


def test_a_large_directory_does_not_stop_the_agent(agent, sandbox):
    """A directory never shrinks, and reading it is one system call."""
    made = sandbox.exec(["/usr/bin/python3", "-c", (
        "import os\nos.chdir(os.environ['SBX_PROXY_DIR'])\n"
        "for i in range(40000):\n"
        "  os.close(os.open(f'{i:0240d}', os.O_CREAT, 0o600))\n"
        "for i in range(40000):\n  os.unlink(f'{i:0240d}')\n"
        "print(os.stat('.').st_size)")], timeout=60)
    assert made.code == 0, made.err
    began = time.monotonic()
    status, got = sandbox.call("GET", "ports")
    assert time.monotonic() - began < 1 * paths.SLOW
    if int(made.out) > 4 << 20:
        assert status == 429 and got["code"] == "limit"
    else:
        assert (status, got) == (200, {"ports": []})
    assert agent.get("/health", token=None)[0] == 200


def answers_during(agent, work):
    """How many times the agent answers others while work() runs."""
    done, count = threading.Event(), 0

    def run_it():
        try:
            work()
        finally:
            done.set()
    t = threading.Thread(target=run_it)
    t.start()
    while not done.is_set():
        assert agent.get("/health", token=None)[0] == 200
        count += 1
    t.join()
    return count


def test_a_long_removal_does_not_stop_the_agent(agent, sandbox):
    made = sandbox.exec(["/usr/bin/python3", "-c", (
        "import os\nos.mkdir('d')\nos.chdir('d')\n"
        "for i in range(30000):\n"
        "  os.close(os.open(str(i), os.O_CREAT, 0o600))")], timeout=60)
    assert made.code == 0, made.err
    got = []
    count = answers_during(agent, lambda: got.append(sandbox.call(
        "DELETE", "files/delete?path=d&recursive=1")))
    assert got == [(200, {"deleted": "d"})]
    assert count > 10
    assert sandbox.exec("ls -A").out == ".sbx\n.tmp\n"
    # One whose client does not wait for the answer.
    sandbox.exec("mkdir -p e/f/g; touch e/f/g/h")
    r = agent.connection()
    r.request("DELETE", f"{sandbox.prefix}/files/delete?path=e&recursive=1",
              headers={"X-Sandbox-Token": sandbox.token})
    r.close()
    until(lambda: "e" not in sandbox.exec("ls").out.split(), "it is removed")


STOPPER = """
import os, signal
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""


def test_stopping_what_starts_costs_the_one_who_does(agent, sandbox):
    """The agent waits for a program to start; whoever stops it there, as the
    same user may, waits himself."""
    sandbox.start(["/usr/bin/python3", "-c", STOPPER])

    def attack():
        end = time.monotonic() + 2
        while time.monotonic() < end:
            r = sandbox.send("POST", "exec", {"cmd": ["true"],
                                              "timeout": 0.1})
            assert r.status in (200, 503)
            r.conn.close()
    assert answers_during(agent, attack) > 50


# --- workers ----------------------------------------------------------------

def test_worker_that_was_taken_over(tmp):
    """It has nothing with which to become more."""
    with Gateway.sidecar(tmp, args=["--workers", "2"]) as gw:
        for pid in gw.workers():
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                assert "NoNewPrivs:\t1" in f.read().splitlines()
            open_files = [os.readlink(f"/proc/{pid}/fd/{n}")
                          for n in os.listdir(f"/proc/{pid}/fd")]
            assert not any(str(gw.state_dir) in f for f in open_files)


@pytest.mark.parametrize("how", ["symlink", "hardlink"])
def test_log_file_that_is_another(tmp, how):
    """Where workers may write, root does not hand out what a link names."""
    victim, logs = tmp / "victim", tmp / "logs"
    victim.write_text("root's\n")
    victim.chmod(0o600)
    logs.mkdir()
    log = logs / "access.log"
    if how == "symlink":
        log.symlink_to(victim)
    else:
        log.hardlink_to(victim)
    os.chown(logs, 65534, 65534)
    with Gateway.sidecar(tmp, args=["--access-log", str(log)]) as gw:
        with Client(gw.http) as c:
            assert c.request("GET", "/health").response().status == 200
    assert victim.stat().st_uid == 0
    assert victim.read_text() == "root's\n"
