# SPDX-License-Identifier: Apache-2.0
"""exec/attach: live stdin, terminals, and what happens when either side is
slow, silent or gone."""

import hashlib
import os
import random
import re
import signal
import socket
import struct
import urllib.parse

import pytest

from agent_support import Agent, Scope, processes_of
from support import paths
from support.attach import Attach, Refused, attach
from support.jobs import Control
from support.wait import until

PYTHON = "/usr/bin/python3"
MB = 1 << 20


@pytest.fixture(scope="module")
def agents(module_tmp):
    """One of each mode; a Scope is made in them."""
    dirs = [module_tmp / "one", module_tmp / "many"]
    for d in dirs:
        d.mkdir()
        d.chmod(0o755)
    with Agent(dirs[0], host=False) as one:
        if os.geteuid() != 0:
            yield {"dedicated": one}
            return
        with Agent(dirs[1]) as many:
            yield {"dedicated": one, "host": many}


@pytest.fixture(params=["dedicated",
                        pytest.param("host", marks=pytest.mark.root)])
def scope(agents, request):
    a = agents[request.param]
    if request.param == "dedicated":
        yield Scope(a, "/v1", a.token)
        return
    sb = a.create()
    yield sb
    assert sb.delete()[0] == 200


def memory(pid):
    """Its resident size in bytes; a sanitizer keeps what was freed."""
    if paths.SANITIZED:
        return 0
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10


def gone(scope, pid):
    """No process of that number is left in there."""
    r = scope.exec(["test", "-e", f"/proc/{pid}"])
    return r.code != 0


# --- ordinary commands -----------------------------------------------------

def test_a_command(scope):
    a = attach(scope, cmd="echo out; echo err >&2; exit 3", stdin=False,
               env={"A": "b"}, tag="mine").wait()
    assert (a.out, a.err, a.code) == (b"out\n", b"err\n", 3)
    assert a.pid > 1 and a.exit["signal"] is None
    assert not a.exit["timed_out"] and a.exit["duration_ms"] >= 0
    a = attach(scope, cmd=["sh", "-c", "echo $A; pwd"], cwd="/",
               env={"A": "\u20ac"}).wait()
    assert a.out == "\u20ac\n/\n".encode()
    # Bytes are bytes.
    a = attach(scope, cmd=r"printf '\377\000\200\n'").wait()
    assert a.out == b"\xff\x00\x80\n"


def test_accepted_before_any_output(scope):
    with attach(scope, cmd=["cat"]) as a:
        assert a.step() == "A"
        assert not gone(scope, a.pid)
        a.write(b"late")
        a.until(b"late").end()
        assert a.wait().code == 0


def test_programs_that_are_not_there(scope):
    a = attach(scope, cmd=["no-such-program"]).wait()
    assert (a.code, a.pid) == (127, 0)
    assert b"no-such-program: No such file" in a.err
    a = attach(scope, cmd=["/etc/passwd"]).wait()
    assert a.code == 126 and b"/etc/passwd: Permission denied" in a.err
    a = attach(scope, cmd=["no-such-program"], tty=True).wait()
    assert a.code == 127 and a.out.endswith(b"No such file or directory\r\n")


@pytest.mark.parametrize("spec,code,words", [
    ({"cmd": []}, "bad_request", "cmd"),
    ({}, "bad_request", "cmd"),
    ({"cmd": "true", "env": {"A": []}}, "bad_request", "env: A"),
    ({"cmd": "true", "stdin": "text"}, "bad_request", "stdin"),
    ({"cmd": "true", "tty": 1}, "bad_request", "tty"),
    ({"cmd": "true", "cols": 65536}, "bad_request", "cols"),
    ({"cmd": "true", "rows": -1}, "bad_request", "rows"),
    ({"cmd": "true", "timeout": "x"}, "bad_request", "timeout"),
    ({"cmd": "true", "exec_id": "a"}, "bad_request", "exec_id"),
    ({"cmd": "true", "background": True}, "bad_request", "background"),
    ({"cmd": "true", "encoding": "base64"}, "bad_request", "encoding"),
    ({"cmd": "true", "cwd": "/no/such"}, "cannot_start", "chdir"),
])
def test_bad_init(agents, spec, code, words):
    scope = Scope(agents["dedicated"], "/v1", agents["dedicated"].token)
    a = attach(scope, **spec).wait()
    assert a.error["code"] == code and words in a.error["message"], a.error
    assert a.exit is None and a.pid is None


@pytest.mark.parametrize("frames,words", [
    (b"0\0\0\0\0\0\0\1x", "first frame"),
    (b"I\0\0\0\0\x10\0\1", "too long"),
    (b"GET / HTTP/1.1\r\n\r\n", "first frame"),
])
def test_no_init(agents, frames, words):
    a = attach(Scope(agents["dedicated"], "/v1", agents["dedicated"].token),
               init=False)
    a.sock.sendall(frames)
    assert a.wait().error["code"] == "bad_frame"
    assert words in a.error["message"]


@pytest.mark.parametrize("frame", [
    b"Z\0\0\0\0\0\0\0", b"0\0\0\0\0\1\0\1", b"0\0\1\0\0\0\0\0",
    b"1\0\0\0\0\0\0\0", b"I\0\0\0\0\0\0\2{}", b"R\0\0\0\0\0\0\2aa",
    b"S\0\0\0\0\0\0\0", b"S\0\0\0\0\0\0\1\0", b"S\0\0\0\0\0\0\1\xff"])
def test_bad_frames_end_the_command(agents, frame):
    scope = Scope(agents["dedicated"], "/v1", agents["dedicated"].token)
    a = attach(scope, cmd=["sleep", "1000"])
    a.step()
    a.sock.sendall(frame + b"and more of it")
    assert a.wait().error["code"] == "bad_frame"
    until(lambda: gone(scope, a.pid), "the command to end")


def test_not_an_upgrade(scope):
    status, body = scope.call("GET", "exec/attach")
    assert (status, body["code"]) == (426, "upgrade_required")
    status, body = scope.call("POST", "exec/attach", {})
    assert status == 405
    for token, status in ((None, 403), ("wrong", 403)):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(scope.agent.socket))
        with pytest.raises(Refused) as e:
            Attach(sock, f"{scope.prefix}/exec/attach",
                   {"X-Sandbox-Token": token} if token else {}, cmd="true")
        assert e.value.args[0] == status
        assert e.value.args[1]["code"] == "unauthorized"


def test_no_such_sandbox(agents):
    if "host" not in agents:
        pytest.skip("needs root")
    a = agents["host"]
    with pytest.raises(Refused) as e:
        attach(Scope(a, "/v1/sandboxes/0123456789ab", a.token), cmd="true")
    assert e.value.args[0] == 404


# --- stdin -----------------------------------------------------------------

def test_cat_64_mib(scope):
    data = random.Random(1).randbytes(64 * MB)
    a = attach(scope, cmd=["cat"])
    feeder = a.feed(data, a.end)
    digest, n = hashlib.sha256(), 0
    while a.exit is None:
        a.step()
        n += len(a.out)
        digest.update(a.out)
        a.out.clear()
    feeder.join()
    assert n == len(data) and a.code == 0
    assert digest.digest() == hashlib.sha256(data).digest()
    a.wait()


def test_half_close_is_end_of_file(scope):
    a = attach(scope, cmd="cat; echo over >&2")
    feeder = a.feed(b"x" * 300000, lambda: a.sock.shutdown(socket.SHUT_WR))
    a.wait()
    feeder.join()
    assert (len(a.out), a.err, a.code) == (300000, b"over\n", 0)


def test_no_stdin(scope):
    a = attach(scope, cmd=["cat"], stdin=False)
    a.write(b"for nobody")
    assert (a.wait().out, a.code) == (b"", 0)


def test_stdin_that_nobody_reads(scope):
    """A command that closed its stdin takes the rest as read."""
    a = attach(scope, cmd="exec <&-; echo closed; read x <&1; sleep 0.1; "
                          "echo over")
    feeder = a.feed(b"x" * (4 * MB), a.end)
    assert a.wait().out == b"closed\nover\n"
    feeder.join()


def test_a_command_that_does_not_read_stops_the_client(scope):
    a = attach(scope, cmd="read x; sleep 1000")
    a.step()
    a.sock.settimeout(0.5)
    sent, before = 0, memory(scope.agent.proc.pid)
    piece = struct.pack(">c3xI", b"0", 65536) + b"\n" * 65536
    with pytest.raises(TimeoutError):
        while sent < 64 * MB:
            sent += a.sock.send(piece)
    assert sent < 2 * MB
    assert memory(scope.agent.proc.pid) - before < 4 * MB
    a.sock.close()  # seen though nothing is read
    until(lambda: gone(scope, a.pid), "the command to end", 40)


# --- slow readers ----------------------------------------------------------

def test_a_slow_reader_stops_the_command(scope):
    a = attach(scope, cmd="yes | head -c 200M; echo end >&2", stdin=False)
    before = memory(scope.agent.proc.pid)
    a.step()
    scope.exec(["sleep", "0.1"])  # others are served meanwhile
    n = 0
    while a.exit is None:
        a.step()
        assert memory(scope.agent.proc.pid) - before < 8 * MB
        n += len(a.out)
        a.out.clear()
    assert n == 200 * MB and a.err == b"end\n" and a.code == 0
    a.wait()


@pytest.mark.parametrize("tty", [False, True])
def test_exit_comes_after_the_last_byte(scope, tty):
    """Also when the command ended long before it was all read."""
    a = attach(scope, cmd=[PYTHON, "-c", "import os\n"
                           "for i in range(3000): os.write(1, b'%06d\\n' % i)\n"
                           "os._exit(5)"], tty=tty, stdin=False)
    a.step()
    want = b"".join(b"%06d\n" % i for i in range(3000))
    a.wait()
    assert a.out.replace(b"\r", b"") == want and a.code == 5


def test_what_was_left_unread_is_whole(scope):
    """More than all buffers hold, read only after the command has ended as far
    as it could."""
    for tty in (False, True):
        a = attach(scope, cmd="head -c 60000 /dev/zero | tr '\\0' x; exit 6",
                   tty=tty, stdin=False)
        a.step()
        until(lambda: gone(scope, a.pid) or tty, "its end")
        assert len(a.wait().out) == 60000 and a.code == 6


def test_fifty_at_once(scope):
    rng = random.Random(7)
    data = [rng.randbytes(200000) for _ in range(50)]
    all_ = [attach(scope, cmd=["cat"]) for _ in data]
    feeders = [a.feed(d, a.end) for a, d in zip(all_, data)]
    for a, d in zip(all_, data):
        assert a.wait().out == d and a.code == 0
    for f in feeders:
        f.join()
    assert scope.agent.get("/health")[0] == 200


# --- ends ------------------------------------------------------------------

TREE = ("sleep 1000 & echo $! $$; trap 'echo term >&2; exit 1' TERM; "
        "while :; do sleep 0.05; done")


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_loss_of_the_connection_kills_the_group(scope, how):
    a = attach(scope, cmd=TREE)
    pids = a.until(b"\n").out.split()
    if how == "reset":
        a.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                          struct.pack("ii", 1, 0))
    elif how == "half":  # a client that ended its side, and then is gone
        a.sock.shutdown(socket.SHUT_WR)
        assert not gone(scope, int(pids[1]))
    a.sock.close()
    for pid in pids:
        until(lambda p=int(pid): gone(scope, p), f"{pid} to end", 30)


def test_loss_kills_what_ignores_it(scope):
    a = attach(scope, cmd="trap '' TERM HUP; echo $$; while :; do sleep 0.05; "
                          "done")
    pid = int(a.until(b"\n").out)
    a.sock.close()
    until(lambda: gone(scope, pid), "KILL after TERM", 30)


def test_loss_kills_all_of_a_terminal(scope):
    """A shell with job control has made groups of its own."""
    a = attach(scope, cmd=["sh", "-i"], tty=True, env={"PS1": "P", "ENV": ""})
    a.until(b"P")
    a.write(b"set -m; sleep 1000 & sleep 1001 & echo pids $! $$.\n")
    while not (m := re.search(rb"pids (\d+) (\d+)\.", a.out)):
        a.step()
    a.sock.close()
    for pid in m.groups():
        until(lambda p=int(pid): gone(scope, p), "its end", 30)


def test_timeout(scope):
    a = attach(scope, cmd="echo a; sleep 1000", timeout=0.3).wait()
    assert a.exit["timed_out"] and a.exit["signal"] == signal.SIGKILL
    assert a.code is None and a.out == b"a\n"


def test_signals(scope):
    a = attach(scope, cmd="trap 'echo usr1' USR1; echo up; "
                          "while :; do sleep 0.05; done")
    a.until(b"up\n").signal(signal.SIGUSR1)
    a.until(b"usr1\n").signal(signal.SIGKILL)
    assert a.wait().exit["signal"] == signal.SIGKILL


def test_a_deleted_sandbox(agents):
    if "host" not in agents:
        pytest.skip("needs root")
    sb = agents["host"].create()
    a = attach(sb, cmd=["cat"])
    b = attach(sb, cmd=["cat"], tty=True)
    late = attach(sb, init=False)
    a.step(), b.step()
    assert sb.delete()[0] == 200
    assert a.wait().exit["signal"] == signal.SIGKILL
    assert b.wait().exit["signal"] == signal.SIGKILL
    late.put("I", b'{"cmd":"true"}')
    assert late.wait().error["code"] == "no_such_sandbox"
    assert not processes_of(sb.uid)


def test_the_agent_ends(tmp):
    with Agent(tmp, host=False) as agent:
        a = attach(Scope(agent, "/v1", agent.token), cmd=["sleep", "1000"])
        idle = attach(Scope(agent, "/v1", agent.token), init=False)
        a.step()
        assert agent.stop() == 0
        assert a.wait().exit["signal"] == signal.SIGTERM
        idle.wait()


# --- idleness --------------------------------------------------------------

def test_it_keeps_its_sandbox_from_being_idle(tmp):
    with Agent(tmp, host=False, SBX_IDLE_TIMEOUT=1) as agent:
        with attach(Scope(agent, "/v1", agent.token), cmd=["cat"]) as a:
            a.step()
            other = attach(Scope(agent, "/v1", agent.token),
                           cmd=["sleep", "2.5"])
            assert other.wait().code == 0
            a.write(b"still there")
            a.until(b"still there").end()
            assert a.wait().code == 0
        until(lambda: agent.proc.poll() is not None, "its idle end", 20)


# --- terminals -------------------------------------------------------------

def test_a_terminal(scope):
    a = attach(scope, cmd="tty; stty size; echo $TERM; test -t 0 -a -t 1 -a "
               "-t 2 && echo all; ls -l $(tty) | cut -c1-4; id -u; "
               "stat -c %u $(tty); echo own >/dev/tty; ps -o sid= -p $$; "
               "echo $$; echo err >&2",
               tty=True, cols=100, rows=40, env={"TERM": "dumb"}).wait()
    lines = a.out.decode().split("\r\n")
    assert re.fullmatch(r"/dev/pts/\d+", lines[0]), lines
    assert lines[1:5] == ["40 100", "dumb", "all", "crw-"], lines
    assert lines[5] == lines[6] and lines[7] == "own"
    assert lines[8].strip() == lines[9], lines
    assert lines[10] == "err" and not a.err and a.code == 0


def test_terminals_defaults(scope):
    # TERM may be in the agent's own environment, which a command of dedicated
    # mode inherits.
    a = attach(scope, cmd="stty size; echo $TERM", tty=True).wait()
    size, term, _ = a.out.split(b"\r\n")
    want = os.environ.get("TERM", "xterm-256color")
    if scope.prefix != "/v1":
        want = "xterm-256color"
    assert (size, term.decode()) == (b"24 80", want)


def test_resize(scope):
    a = attach(scope, tty=True, cmd="trap 'stty size; exit 4' WINCH; echo up; "
                                    "while :; do sleep 0.05; done")
    a.until(b"up\r\n").resize(133, 7)
    assert a.wait().out.endswith(b"7 133\r\n") and a.code == 4


def test_keys(scope):
    """Echo; ^C goes to who is in the foreground, ^D is the end."""
    a = attach(scope, cmd=["sh", "-i"], tty=True, env={"PS1": "P", "ENV": ""})
    a.until(b"P")
    a.write(b"cat\n")
    a.until(b"cat\r\n").write(b"hello\n")
    a.until(b"hello\r\nhello\r\n").write(b"\x03")
    a.until(b"^C").until(b"P")
    while a.out.count(b"P") < 2:
        a.step()
    a.write(b"echo was $?.\n")
    a.until(b"was 130.\r\n")
    while a.out.count(b"P") < 3:
        a.step()
    a.write(b"cat; echo again\n")
    a.until(b"echo again\r\n").write(b"x\n")
    a.until(b"x\r\nx\r\n").write(b"\x04")
    a.until(b"\nagain\r\n").write(b"exit 3\n")
    assert a.wait().code == 3


def test_the_end_of_the_client_hangs_nothing_up(scope):
    for end in (Attach.end, lambda a: a.sock.shutdown(socket.SHUT_WR)):
        a = attach(scope, cmd="sleep 0.2; read x; echo got $x; exit 2",
                   tty=True)
        a.write(b"line\n")
        end(a)
        assert b"got line\r\n" in a.wait().out and a.code == 2


def test_a_terminal_without_stdin(scope):
    a = attach(scope, cmd="echo up; sleep 0.1; echo over", tty=True,
               stdin=False).wait()
    assert a.out == b"up\r\nover\r\n" and a.code == 0


def test_who_stays_behind_at_a_terminal(scope):
    """The terminal's end does not wait for them."""
    a = attach(scope, cmd="trap '' HUP; sleep 1000 & echo $!; exit 9",
               tty=True).wait()
    assert a.code == 9
    assert scope.exec(["kill", "-9", a.out.split()[0].decode()]).code == 0


def test_a_slow_reader_of_a_terminal(scope):
    a = attach(scope, cmd="seq 1 400000; exit 8", tty=True, stdin=False)
    a.step()
    before = memory(scope.agent.proc.pid)
    scope.exec(["sleep", "0.1"])  # others are served meanwhile
    n, tail = 0, b""
    while a.exit is None:
        a.step()
        n += len(a.out)
        tail = (tail + a.out)[-20:]
        a.out.clear()
    assert memory(scope.agent.proc.pid) - before < 8 * MB
    assert n == sum(len(str(i)) + 2 for i in range(1, 400001))
    assert tail.endswith(b"400000\r\n") and a.code == 8


def test_no_descriptor_is_left(scope):
    attach(scope, cmd="true").wait()
    before = scope.agent.fds()
    for tty in (False, True):
        attach(scope, cmd=["true"], tty=tty).wait()
        attach(scope, cmd=["nope"], tty=tty).wait()
        attach(scope, cmd="true", cwd="/no/such", tty=tty).wait()
        a = attach(scope, cmd=["cat"], tty=tty)
        a.step()
        a.sock.close()
    until(lambda: scope.agent.fds() <= before, "its descriptors to be closed",
          30)


# --- in a job, through a gateway -------------------------------------------

@pytest.fixture(scope="module")
def gw(module_tmp):
    module_tmp = module_tmp / "gw"
    module_tmp.mkdir()
    module_tmp.chmod(0o755)
    gw = Control(module_tmp)
    gw.user("ann")
    gw.user("bob")
    gw.user("eve", "--namespace", "ann", "--role", "readonly")
    with gw:
        yield gw


@pytest.mark.root
def test_a_job_behind_a_gateway(gw):
    ann = gw.users["ann"]
    job = ann.sandbox()
    ann.wait(job["id"], "running")
    path = f"{ann.url(ann.get(job['id']))}/v1/exec/attach".replace("//", "/")

    def through(user=ann, token="inner-token", **spec):
        url = urllib.parse.urlsplit(gw.http)
        sock = socket.create_connection((url.hostname, url.port))
        return Attach(sock, path, dict(user.headers,
                                       **{"X-Sandbox-Token": token}), **spec)

    a = through(cmd=["cat"])
    data = random.Random(2).randbytes(3 * MB)
    feeder = a.feed(data, a.end)
    assert a.wait().out == data and a.code == 0
    feeder.join()
    a = through(cmd="tty; stty size; test -e $(tty) && echo there; "
                    "echo own >/dev/tty; id -u", tty=True, cols=90, rows=33)
    lines = a.wait().out.split(b"\r\n")
    assert lines[0].startswith(b"/dev/pts/"), lines
    assert lines[1:5] == [b"33 90", b"there", b"own", b"0"], lines
    # Its loss is noticed behind the gateway, too.
    a = through(cmd="echo $$; exec sleep 1000", tty=True)
    pid = int(a.until(b"\r\n").out)
    a.sock.close()

    def ended():
        b = through(cmd=["test", "-e", f"/proc/{pid}"]).wait()
        return b.code == 1
    until(ended, "the command to end", 30)
    for user, token, status in (("ann", "wrong", 403),
                                ("bob", "inner-token", 403),
                                ("eve", "inner-token", 403)):
        with pytest.raises(Refused) as e:
            through(gw.users[user], token, cmd="true")
        assert e.value.args[0] == status, user
    ann.cancel(job["id"])
