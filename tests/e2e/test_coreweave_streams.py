# SPDX-License-Identifier: Apache-2.0
"""What is done inside CoreWeave sandboxes over the wire: commands with live
input, terminals, floods and sudden ends; unary commands; files; logs."""

import concurrent.futures
import hashlib
import json
import os
import re
import struct
import subprocess
import time
import uuid

import pytest

from support import paths
from support.connect import SERVICE, Rpc, RpcError, b64, raised, unb64
from support.coreweave import Box, Face, Ran, output
from support.http import Client, Truncated, fetch
from support.jobs import processes
from support.wait import until

pytestmark = pytest.mark.root

MIB = 1 << 20
CAP = 32 * MIB


@pytest.fixture(scope="module")
def gw(module_tmp):
    with Face(module_tmp) as gw:
        yield gw


@pytest.fixture(scope="module")
def box(gw):
    return gw.ann.box(container={"environmentVariables": {"COLOR": "teal"},
                                 "workingDir": "/tmp"})


def mark():
    """A number of seconds to sleep that nothing else sleeps."""
    return f"55{uuid.uuid4().int % 10**8}"


def gone(seconds):
    until(lambda: not processes(f"sleep {seconds}"), "its processes to end")


def running(seconds, count=1):
    until(lambda: len(processes(f"^sleep {seconds}")) == count, "its sleep")


def let_end(box, path):
    """The main command waits for path; its end may come before ours."""
    try:
        box.exec("touch", path)
    except RpcError as e:
        assert e.code == "unavailable", e


# --- StreamExec: input and output --------------------------------------------
def test_exec(box):
    ran = box.run('echo "out $COLOR $X $(pwd)"; echo err >&2; exit 3',
                  env={"X": "y"})
    assert (ran.out, ran.err, ran.code) == (b"out teal y /tmp\n", b"err\n", 3)
    assert ran.messages[0]["ready"]["readyTime"].startswith("20")
    assert ran.messages[-1]["exit"]["completedTime"].startswith("20")


def test_zero_is_a_code(box):
    """exit is there, whatever it says of 0."""
    ran = box.exec("true")
    assert list(ran.messages[-1]) == ["exit"] and ran.code == 0
    assert ran.out == ran.err == b""


def test_ready_comes_at_once(box):
    """Before the command says or is told anything."""
    seconds = mark()
    with box.stream("sleep", seconds) as s:
        assert "ready" in s.next()
        running(seconds)
        s.abort()
    gone(seconds)


@pytest.mark.parametrize("end", ["close", "half-close", "both"])
def test_stdin(box, end):
    data = os.urandom(MIB)
    with box.stream("/bin/sh", "-c", "cat; echo end >&2; exit 4") as s:
        assert "ready" in s.next()
        for at in range(0, MIB, 1 << 16):
            s.send({"stdin": b64(data[at:at + (1 << 16)])})
        if end != "half-close":
            s.send({"close": {}})
        if end != "close":
            s.half_close()
        ran = Ran([{"ready": {}}, *s])
    assert (ran.out, ran.err, ran.code) == (data, b"end\n", 4)


def test_no_stdin_is_no_cancellation(box):
    """init and half-close alone: stdin is at its end, the command goes on."""
    ran = box.run("cat; sleep 0.3; echo went on")
    assert (ran.out, ran.code) == (b"went on\n", 0)


def test_talk(box):
    """Each line is answered before the next one is said."""
    with box.stream("/bin/sh", "-c",
                    "while read x; do echo got $x; done; echo bye") as s:
        assert "ready" in s.next()
        for i in range(20):
            s.send({"stdin": b64(b"%d\n" % i)})
            assert unb64(s.next()["output"]["data"]) == b"got %d\n" % i
        s.send({"close": {}})
        ran = Ran([{"ready": {}}, *s])
        assert (ran.out, ran.code) == (b"bye\n", 0)
        s.half_close()  # late: nobody minds


def test_stdin_that_nobody_reads(box):
    """Closed early, all at once, before ready, and never a 137; who has much
    to say before listening hears the answer, too."""
    for n in (0, 1, 20, 400):
        for _ in range(3):
            ran = box.exec("/bin/sh", "-c", "head -c 3; exec 0<&-; exit 2",
                           stdin=b"abc" * (n * 10000 + 1))
            assert (ran.out, ran.code) == (b"abc", 2)


def test_stdin_has_back_pressure(gw, box):
    """What is not read is not kept anywhere: 48 MiB into a sleep."""
    seconds, piece = mark(), b64(b"z" * (1 << 16))
    before = gw.vm_rss()
    with box.stream("/bin/sh", "-c", f"sleep {seconds} & wait; cat | wc -c"
                    ) as s:
        assert "ready" in s.next()
        for _ in range(48 * 16):
            s.send({"stdin": piece})
        running(seconds)
        assert s.http.out, "all of it was taken"
        assert paths.SANITIZED or gw.vm_rss() - before < 16 << 10
        subprocess.run(["kill", *map(str, processes(f"^sleep {seconds}"))],
                       check=True)
        s.half_close()
        ran = Ran([{"ready": {}}, *s])
    assert ran.out.strip() == b"%d" % (48 * MIB)


def test_exit_after_the_last_byte(box):
    whole = b"".join(b"%d\n" % n for n in range(1, 50001))
    for _ in range(4):
        ran = box.run("seq 1 50000; exit 5")
        assert ran.out == whole and ran.code == 5


def test_both_streams_whole(box):
    ran = box.run("seq 1 30000 & seq 1 30000 >&2 & wait")
    whole = b"".join(b"%d\n" % n for n in range(1, 30001))
    assert ran.out == whole and ran.err == whole and ran.code == 0


def test_any_byte(box):
    data = bytes(range(256)) * 64
    assert box.exec("cat", stdin=data).out == data


def test_left_in_the_background(box):
    """A server that was started stays, and is not waited for."""
    seconds = mark()
    ran = box.run(f"sleep {seconds} >/dev/null 2>&1 & echo started")
    assert (ran.out, ran.code) == (b"started\n", 0)
    running(seconds)
    assert box.run(f"pkill -f '^sleep {seconds}'").code == 0
    gone(seconds)


def test_many_at_once(box):
    def one(n):
        return box.exec("/bin/sh", "-c", "cat; exit $0", str(n),
                        stdin=b"%d" % n)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for n, ran in enumerate(pool.map(one, range(64))):
            assert (ran.out, ran.code) == (b"%d" % n, n)


# --- floods ------------------------------------------------------------------
def test_flood_with_a_slow_reader(gw, box):
    """200 MiB, of which the reader takes a little, then nothing, then all."""
    last = 2_000_000 if paths.SANITIZED else 24_600_000
    want = subprocess.run(f"seq 1 {last} | md5sum", shell=True, check=True,
                          capture_output=True).stdout.split()[0].decode()
    before, found, size = gw.vm_rss(), hashlib.md5(), 0
    with box.stream("seq", "1", str(last), seconds=120) as s:
        s.half_close()
        assert "ready" in s.next()

        def take(limit):
            nonlocal size
            while (got := s.next()) is not None:
                if "output" not in got:
                    return got
                data = unb64(got["output"]["data"])
                found.update(data)
                size += len(data)
                if size >= limit:
                    break
            return None
        assert take(MIB) is None
        pid, = until(lambda: processes(f"^seq 1 {last}"), "seq")
        until(lambda: waits(pid), "it to be held up")
        assert paths.SANITIZED or gw.vm_rss() - before < 16 << 10
        assert size < 8 * MIB
        end = take(1 << 40)
        assert paths.SANITIZED or gw.vm_rss() - before < 32 << 10
        assert end["exit"].get("exitCode", 0) == 0 and s.next() is None
    assert found.hexdigest() == want and (size > 200 * MIB or paths.SANITIZED)


def waits(pid):
    """True when a writer stood still for a while."""
    def written():
        with open(f"/proc/{pid}/io", encoding="ascii") as f:
            return next(line for line in f if line.startswith("wchar"))
    was = written()
    time.sleep(0.25)
    return written() == was


# --- sudden ends -------------------------------------------------------------
@pytest.mark.parametrize("how", ["reset", "closed"])
@pytest.mark.parametrize("tty", [False, True])
def test_client_is_lost(box, how, tty):
    seconds = mark()
    s = box.stream("/bin/sh", "-c", f"trap '' HUP TERM; sleep {seconds} & "
                   f"sleep {seconds}; echo", tty=tty)
    assert "ready" in s.next()
    running(seconds, 2)
    if how == "reset":
        s.abort()
    else:
        s.http.close()
    gone(seconds)


def test_deadline(box):
    """Kills; what was said until then has been told."""
    seconds = mark()
    with box.stream("/bin/sh", "-c", f"echo before; trap '' TERM; "
                    f"sleep {seconds} & sleep {seconds}",
                    timeout_ms=1500) as s:
        s.half_close()
        got = []
        with pytest.raises(RpcError) as e:
            while True:
                got.append(s.next())
    assert e.value.code == "deadline_exceeded"
    assert e.value.reason in (None, "CWSANDBOX_COMMAND_TIMEOUT")
    assert output(got, "STREAM_STDOUT") == b"before\n"
    gone(seconds)


def test_deadline_of_a_slow_reader(box):
    """Also when nothing can be written to the client."""
    seconds = mark()
    with box.stream("/bin/sh", "-c", f"sleep {seconds} & yes {seconds}",
                    timeout_ms=1500) as s:
        s.half_close()
        assert "ready" in s.next()
        running(seconds)
        gone(seconds)
        until(lambda: not processes(f"^yes {seconds}"), "yes to end")


def test_sandbox_ends_under_it(gw):
    box = gw.ann.box()
    with box.stream("/bin/sh", "-c", "echo up; sleep 1000") as s:
        s.half_close()
        assert "ready" in s.next() and "output" in s.next()
        box.delete(0)
        try:
            got = list(s)
            assert list(got[-1])[0] in ("exit", "error")
            assert got[-1].get("exit", {}).get("exitCode", 137) != 0
        except RpcError as e:
            assert e.code in ("canceled", "unavailable", "failed_precondition",
                              "aborted"), e
    box.wait()


def test_nothing_is_left_over(gw, box):
    """Sockets of the gateway, after all kinds of ends."""
    box.run("true")
    before = gw.sockets()
    for _ in range(5):
        s = box.stream("sleep", "1000")
        s.next()
        s.abort()
        box.run("echo")
    until(lambda: gw.sockets() <= before + 2, "the sockets to be closed")


# --- terminals ---------------------------------------------------------------
def test_tty(box):
    ran = box.run("tty; stty size; echo err >&2; exit 6",
                  tty=True, ttyWidth=101, ttyHeight=42)
    assert re.fullmatch(rb"/dev/pts/\d+\r\n42 101\r\nerr\r\n", ran.out), ran.out
    assert ran.err == b"" and ran.code == 6


def until_output(s, want, got=b""):
    while want not in got:
        got += unb64(s.next()["output"]["data"])
    return got


def test_resize(box):
    with box.stream("/bin/sh", "-c", "trap 'stty size' WINCH; echo up; "
                    "while :; do sleep 0.1; done", tty=True) as s:
        assert "ready" in s.next()
        until_output(s, b"up")
        for size in ((90, 33), (120, 50)):
            s.send({"resize": {"width": size[0], "height": size[1]}})
            until_output(s, b"%d %d" % (size[1], size[0]))
        s.abort()


def test_typing(box):
    with box.stream("/bin/sh", tty=True, env={"PS1": "? "}) as s:
        assert "ready" in s.next()
        s.send({"stdin": b64(b"echo $((6*7))\n")})
        until_output(s, b"42\r\n")
        seconds = mark()
        s.send({"stdin": b64(b"sleep %s\n" % seconds.encode())})
        running(seconds)
        s.send({"stdin": b64(b"\x03")})
        gone(seconds)
        s.send({"stdin": b64(b"exit 5\n")})
        got = list(s)
        assert got[-1]["exit"]["exitCode"] == 5


def test_half_close_does_not_hang_up(box):
    ran = box.run("sleep 0.3; echo alive; tty >/dev/null && echo still",
                  tty=True)
    assert (ran.out, ran.code) == (b"alive\r\nstill\r\n", 0)


# --- what does not work ------------------------------------------------------
@pytest.mark.parametrize("command, code, said", [
    (["/no/such/program"], 127, b"/no/such/program"),
    (["no-such-program", "x"], 127, b"no-such-program"),
    (["/etc/passwd"], 126, b"/etc/passwd")])
def test_cannot_be_started(box, command, code, said):
    for tty in (False, True):
        ran = box.exec(*command, tty=tty)
        assert ran.code == code
        assert said in (ran.out if tty else ran.err)
    got = box.unary(*command)
    assert got["exitCode"] == code and said in got["stderr"]


def test_killed_by_a_signal(box):
    assert box.run("kill -KILL $$").code == 137
    assert box.unary("/bin/sh", "-c", "kill -TERM $$")["exitCode"] == 143


def test_unknown_sandbox(gw, box):
    for who in (Box(gw.ann, "0123456789abcdef01234567"), Box(gw.bob, box.id)):
        for call in (lambda who=who: who.run("true"),
                     lambda who=who: who.unary("true"),
                     lambda who=who: who.read("/x"),
                     lambda who=who: who.write("/tmp/x", b""), who.logs):
            raised("not_found", "CWSANDBOX_SANDBOX_NOT_FOUND", call)


def test_ended_sandbox(gw):
    box = gw.ann.new(args=["-c", "exit 0"])
    box.wait()
    for call in (lambda: box.run("true"), lambda: box.unary("true"),
                 lambda: box.read("/x"), lambda: box.write("/tmp/x", b"")):
        with pytest.raises(RpcError) as e:
            call()
        assert e.value.code in ("failed_precondition", "canceled"), e.value


def test_while_it_starts(gw):
    """Who asks at once is answered by what has started."""
    box = gw.ann.new()
    assert box.run("echo hi").out == b"hi\n"
    box.stop()
    box = gw.ann.new()
    assert box.unary("echo", "hi")["stdout"] == b"hi\n"
    box.stop()


@pytest.mark.parametrize("first", [
    {"stdin": "eA=="}, {"close": {}}, {}, {"init": {}}, {"init": 1},
    {"init": {"command": []}}, {"init": {"command": "ls"}},
    {"init": {"command": ["ls"], "env": {"A": 1}}},
    {"init": {"command": ["ls"], "env": {"A=B": "x"}}},
    {"init": {"command": ["ls"], "ttyWidth": -1, "tty": True}}])
def test_bad_init(box, first):
    if isinstance(first.get("init"), dict):
        first = {"init": dict(first["init"], sandboxId=box.id)}
    with box.cw.stream("StreamExec") as s:
        s.only(first)
        raised("invalid_argument", None, list, s)


@pytest.mark.parametrize("what", ["second init", "flags", "compressed",
                                  "not JSON", "half an envelope", "stdin"])
def test_bad_envelopes(box, what):
    """The command does not outlive it."""
    seconds = mark()
    with box.stream("sleep", seconds) as s:
        assert "ready" in s.next()
        running(seconds)
        if what == "second init":
            s.send({"init": {"sandboxId": box.id, "command": ["true"]}})
        elif what == "flags":
            s.envelope(b"{}", 2)
        elif what == "compressed":
            s.envelope(b"{}", 1)
        elif what == "not JSON":
            s.envelope(b"{")
        elif what == "stdin":
            s.send({"stdin": "*"})
        else:
            data = struct.pack("!BI", 0, 100) + b"{}"
            s.http.send(b"%x\r\n%s\r\n" % (len(data), data))
            s.half_close()
        raised("internal" if what == "compressed" else "invalid_argument",
               None, list, s)
    gone(seconds)


def test_huge_envelope(gw, box):
    before = gw.vm_rss()
    with box.cw.stream("StreamExec") as s:
        data = struct.pack("!BI", 0, 0xffffffff) + b" " * 70000
        s.http.send(b"%x\r\n%s\r\n" % (len(data), data))
        with pytest.raises(RpcError) as e:
            list(s)
        assert e.value.code in ("resource_exhausted", "invalid_argument")
    assert paths.SANITIZED or gw.vm_rss() - before < 8 << 10


def test_content_type(gw, box):
    head = dict(gw.ann.headers("application/json"))
    for method, kind in (("StreamExec", "application/json"),
                         ("StreamExec", "application/connect+proto"),
                         ("StreamLogs", "text/plain"),
                         ("GetSandbox", "application/connect+json"),
                         ("GetSandbox", "application/proto")):
        head["Content-Type"] = kind
        r = fetch(gw.https, "POST",
                  f"/coreweave.sandbox.v1.SandboxService/{method}",
                  headers=head, body=b'{"sandboxId":"%s"}' % box.id.encode())
        assert r.status == 415, (method, kind, r.body)
    # with a parameter it is the same type
    got = gw.ann.call("GetSandbox", {"sandboxId": box.id}, headers={
        "Content-Type": "application/json; charset=utf-8"})
    assert got["sandboxId"] == box.id
    raised("unimplemented", None, gw.ann.call, "GetSandbox",
           {"sandboxId": box.id}, headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize("value", ["x", "-1", "1e3", "12345678901"])
def test_bad_timeout(box, value):
    raised("invalid_argument", None, box.unary, "true", timeout_ms=value)


# --- unary Exec --------------------------------------------------------------
def test_unary(box):
    got = box.unary("/bin/sh", "-c", 'echo "$A $COLOR"; echo e >&2; exit 9',
                    env={"A": "b"})
    assert got["stdout"] == b"b teal\n" and got["stderr"] == b"e\n"
    assert got["exitCode"] == 9
    assert not got["stdoutTruncated"] and not got["stderrTruncated"]
    assert (got["stdoutBytesProduced"], got["stderrBytesProduced"]) == (7, 2)


def test_unary_truncated(box):
    got = box.unary("/bin/sh", "-c", "printf 0123456789abc; printf 123 >&2",
                    maxOutputBytes=10)
    assert got["stdout"] == b"0123456789" and got["stderr"] == b"123"
    assert got["stdoutTruncated"] and not got["stderrTruncated"]
    assert (got["stdoutBytesProduced"], got["stderrBytesProduced"]) == (13, 3)
    got = box.unary("/bin/sh", "-c", "head -c 3000000 /dev/zero; exit 3",
                    maxOutputBytes=1)
    assert got["stdout"] == b"\0" and got["exitCode"] == 3
    assert got["stdoutBytesProduced"] == 3000000


def test_unary_deadline(box):
    seconds = mark()
    with pytest.raises(RpcError) as e:
        box.unary("/bin/sh", "-c", f"sleep {seconds} & sleep {seconds}",
                  timeout_ms=500)
    assert e.value.code == "deadline_exceeded"
    gone(seconds)


def test_unary_over_rest(gw, box):
    status, got = gw.ann.rest("POST", f"/sandboxes/{box.id}:exec",
                              {"command": ["echo", "hi"]})
    assert status == 200 and unb64(got["stdout"]) == b"hi\n"
    status, got = gw.ann.rest("POST", f"/sandboxes/{box.id}:exec",
                              {"command": []})
    assert status == 400, got


# --- files -------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 1, MIB, CAP])
def test_files(box, size):
    data = os.urandom(size)
    path = f"/tmp/file {size}"
    box.write(path, data)
    got = box.run(f"md5sum < '{path}'").out.split()[0].decode()
    assert got == hashlib.md5(data).hexdigest()
    assert box.read(path) == data
    box.run(f"rm '{path}'")


def test_file_is_replaced(box):
    box.write("/tmp/again", b"long content")
    box.write("/tmp/again", b"short")
    assert box.read("/tmp/again") == b"short"


def test_file_too_large(gw, box):
    size = CAP + 1
    box.run(f"head -c {size} /dev/zero > /tmp/large")
    e = raised("failed_precondition", "CWSANDBOX_FILE_TOO_LARGE",
               box.read, "/tmp/large")
    assert int(e.metadata["size_bytes"]) == size
    assert int(e.metadata["max_size_bytes"]) == CAP
    e = raised("failed_precondition", "CWSANDBOX_FILE_TOO_LARGE",
               box.write, "/tmp/larger", bytes(size))
    assert int(e.metadata["size_bytes"]) == size
    assert int(e.metadata["max_size_bytes"]) == CAP
    assert box.run("test -e /tmp/larger").code == 1
    box.run("rm /tmp/large")
    before = gw.vm_rss()
    raised("failed_precondition", "CWSANDBOX_FILE_TOO_LARGE",
           box.write, "/tmp/larger", bytes(CAP + 8 * MIB))
    assert paths.SANITIZED or gw.vm_rss() - before < 8 << 10


def file_error(reason, call, *args):
    with pytest.raises(RpcError) as e:
        call(*args)
    assert e.value.reason in reason, e.value
    assert e.value.domain == "cwsandbox.com"
    assert e.value.code not in ("unauthenticated", "unknown", "internal")


def test_file_errors(box):
    missing, denied, io = ({"CWSANDBOX_FILE_" + s} for s in (
        "NOT_FOUND", "PERMISSION_DENIED", "IO_FAILED"))
    directory = {"CWSANDBOX_FILE_IS_DIRECTORY"}
    file_error(missing, box.read, "/tmp/none")
    file_error(missing, box.read, "/tmp/none/deeper")
    for path in ("", "relative", "/tmp/\0x"):
        raised("invalid_argument", None, box.read, path)
        raised("invalid_argument", None, box.write, path, b"")
    file_error(directory, box.read, "/tmp")
    file_error(directory, box.write, "/tmp", b"x")
    file_error(denied, box.read, "/etc/shadow")
    file_error(denied | io, box.write, "/usr/bin/x", b"x")
    box.run("mkfifo /tmp/fifo; ln -s /tmp/loop /tmp/loop; echo x > /tmp/plain")
    file_error(io, box.read, "/tmp/fifo")
    file_error(io | denied, box.read, "/tmp/loop")
    file_error(io | missing, box.read, "/tmp/plain/x")
    file_error(io | {"CWSANDBOX_FILE_TOO_LARGE"}, box.read, "/dev/zero")
    file_error(io, box.read, "/tmp/" + "n" * 300)


def test_files_of_others_do_not_wait(gw, box):
    """Uploads that stand still are in nobody else's way."""
    head = dict(gw.ann.headers("application/json"),
                **{"Content-Length": str(MIB)})
    begun = json.dumps({"sandboxId": box.id, "path": "/tmp/stalled",
                        "content": "QUJD"})[:-2].encode()
    other = gw.bob.box()
    stalled = [Client(gw.http) for _ in range(40)]
    try:
        for c in stalled:
            c.request("POST", f"{SERVICE}/WriteFile", head)
            c.send(begun)
        gw.bob.call("ReadFile", {"sandboxId": other.id,
                                 "path": "/etc/hostname"}, seconds=20)
    finally:
        for c in stalled:
            c.abort()
    until(lambda: box.read("/etc/hostname"), "ann's turn")
    other.stop()


def test_output_of_others_has_room(gw, box):
    """What waits for its command is bounded for each namespace by itself."""
    seconds = mark()
    other = gw.bob.box()
    command = ["sh", "-c", f"head -c 4194304 /dev/zero; exec sleep {seconds}"]

    def run(_):
        return raised("resource_exhausted", None, gw.ann.call, "Exec",
                      {"sandboxId": box.id, "command": command}, seconds=120)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(run, i) for i in range(18)]
        next(concurrent.futures.as_completed(calls)).result()
        got = gw.bob.call("Exec", {"sandboxId": other.id, "command": [
            "head", "-c", "4194304", "/dev/zero"]}, seconds=60)
        assert len(unb64(got["stdout"])) == 4 * MIB
        box.exec("pkill", "-f", f"sleep {seconds}")
    other.stop()


def test_files_over_rest(gw, box):
    path = f"/sandboxes/{box.id}"
    status, got = gw.ann.rest("POST", path + ":writeFile",
                              {"path": "/tmp/r", "content": b64(b"rest")})
    assert (status, got) == (200, {})
    status, got = gw.ann.rest("GET", path + ":readFile",
                              query={"path": "/tmp/r"})
    assert status == 200 and unb64(got["content"]) == b"rest"
    status, got = gw.ann.rest("GET", path + ":readFile",
                              query={"path": "/tmp/none"})
    assert "CWSANDBOX_FILE_NOT_FOUND" in json.dumps(got) and status >= 400


# --- logs --------------------------------------------------------------------
def text(entries):
    return b"".join(e["data"] for e in entries)


@pytest.fixture(scope="module")
def logged(gw):
    """One that has said 1 to 100 and has ended with 3."""
    box = gw.ann.new(args=["-c", "seq 1 50; seq 51 100 >&2; exit 3"])
    assert box.wait()["exitCode"] == 3
    return box


WHOLE = b"".join(b"%d\n" % n for n in range(1, 101))


def test_logs_after_the_end(logged):
    for follow in (False, True):
        assert sorted(text(logged.logs(follow=follow)).split()) \
            == sorted(WHOLE.split())


def test_logs_of_the_main_command_alone(gw):
    box = gw.ann.box(args=["-c", "echo mine; trap 'exit 0' TERM; "
                           "sleep infinity & wait"])
    box.run("echo not mine; echo nor this > /proc/self/fd/2")
    until(lambda: text(box.logs()) == b"mine\n", "its line")
    box.stop(3600)
    assert text(box.logs()) == b"mine\n"


def test_logs_tail(logged):
    assert len(text(logged.logs(tailLines=3)).split()) == 3
    assert text(logged.logs(tailLines=3)) == \
        b"".join(text(logged.logs()).splitlines(True)[-3:])
    assert len(text(logged.logs(tailLines=1000)).split()) == 100


def test_logs_since(gw):
    box = gw.ann.box(args=["-c", "echo old; while [ ! -e /tmp/go ]; do "
                           "sleep 0.05; done; echo new; sleep infinity & wait"])
    until(lambda: text(box.logs()) == b"old\n", "its line")
    now = box.exec("date", "-u", "+%Y-%m-%dT%H:%M:%S.%NZ").out.decode().strip()
    box.run("touch /tmp/go")
    until(lambda: b"new" in text(box.logs()), "the other line")
    assert text(box.logs(sinceTime=now)) == b"new\n"
    assert text(box.logs(sinceTime="2020-01-01T00:00:00Z")) == b"old\nnew\n"
    assert text(box.logs(sinceTime="2100-01-01T00:00:00Z")) == b""
    box.stop()


def test_logs_timestamps(logged):
    lines = text(logged.logs(timestamps=True)).splitlines()
    assert len(lines) == 100
    for line in lines:
        assert re.fullmatch(rb"20\d\d-\d\d-\d\dT[\d:.]+(Z|\+00:00) \d+", line)
    stamps = [e.get("timestamp") for e in logged.logs()]
    assert all(s and s.startswith("20") for s in stamps)


def test_logs_follow(gw):
    box = gw.ann.box(args=["-c", "i=0; while read x; do :; done < /dev/null; "
                           "until [ -e /tmp/go ]; do sleep 0.05; done; "
                           "seq 1 2000; exit 8"])
    with gw.ann.stream("StreamLogs") as s:
        s.only({"sandboxId": box.id, "follow": True})
        s.head()
        let_end(box, "/tmp/go")
        got = b"".join(unb64(e.get("data", "")) for e in s)
    assert got == b"".join(b"%d\n" % n for n in range(1, 2001))
    assert box.wait()["exitCode"] == 8


def test_logs_resume(logged):
    """From any entry on: neither lost nor doubled."""
    entries = logged.logs(follow=True)
    whole = text(entries)
    assert entries[0]["logSessionId"]
    offsets = [int(e["nextLogOffset"]) for e in entries]
    assert offsets == sorted(offsets) and offsets[-1] > 0
    for i, e in enumerate(entries):
        rest = logged.logs(follow=True,
                           resumeLogSessionId=e["logSessionId"],
                           resumeLogOffset=e["nextLogOffset"])
        assert text(entries[:i + 1]) + text(rest) == whole
        assert int(rest[-1]["nextLogOffset"]) == offsets[-1] if rest else True


def test_logs_bad_resume(gw, logged):
    entry = logged.logs()[-1]
    other = gw.ann.new(args=["-c", "echo x"])
    other.wait()
    got = logged.logs(resumeLogSessionId="no-such-session", resumeLogOffset=1)
    assert got[-1]["error"]["code"] == "SESSION_NOT_FOUND"
    got = logged.logs(resumeLogSessionId=other.logs()[0]["logSessionId"],
                      resumeLogOffset=1)
    assert got[-1]["error"]["code"] == "SESSION_NOT_FOUND"
    got = logged.logs(resumeLogSessionId=entry["logSessionId"],
                      resumeLogOffset=str(int(entry["nextLogOffset"]) + 999))
    assert got[-1]["error"]["code"] == "INVALID_RESUME_OFFSET"


def test_logs_without_a_last_newline(gw):
    box = gw.ann.new(command="/bin/printf", args=["a\\nb\\n\\nc"])
    box.wait()
    assert text(box.logs()) in (b"a\nb\n\nc", b"a\nb\n\nc\n")


def test_logs_of_a_long_line(gw):
    box = gw.ann.new(args=["-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; "
                           "echo end"])
    box.wait()
    assert text(box.logs()) == b"x" * 300000 + b"\nend\n"


def test_logs_flood(gw):
    """Followed slowly, whole, with little memory."""
    last = 100_000 if paths.SANITIZED else 1_000_000
    before = gw.vm_rss()
    box = gw.ann.new(command="seq", args=["1", str(last)])
    box.wait("STATE_RUNNING", "STATE_COMPLETED")
    with gw.ann.stream("StreamLogs", seconds=120) as s:
        s.only({"sandboxId": box.id, "follow": True})
        s.head()
        assert box.wait()["exitCode"] == 0
        assert paths.SANITIZED or gw.vm_rss() - before < 16 << 10
        got = b"".join(unb64(e.get("data", "")) for e in s)
    want = subprocess.run(["seq", "1", str(last)], capture_output=True,
                          check=True).stdout
    assert hashlib.md5(got).hexdigest() == hashlib.md5(want).hexdigest()


def test_logs_of_others_do_not_wait(gw, box):
    """Who follows as many as there may be is in nobody else's way."""
    plain, other = Rpc(gw.http, gw.ann.token), gw.bob.box()
    open_ = [plain.stream("StreamLogs") for _ in range(256)]
    try:
        for s in open_:
            s.only({"sandboxId": box.id, "follow": True})
        for s in open_:
            s.head()
        until(lambda: too_many(box.logs), "the last of them to be counted")
        assert other.logs() == []
    finally:
        for s in open_:
            s.http.close()
    until(lambda: not too_many(box.logs), "them to be gone")
    other.stop()


def too_many(call):
    try:
        return call() is None
    except RpcError as e:
        assert e.code == "resource_exhausted", e
        return True


# --- the gateway's own life ---------------------------------------------------
def test_sudden_death(tmp):
    """kill -9 of the gateway: its streams break visibly, what hung on them
    ends, all else works afterwards, and a log is resumed without a gap."""
    with Face(tmp) as gw:
        box = gw.ann.box(args=["-c", "i=0; until [ -e /tmp/end ]; do "
                               "echo line $i; i=$((i+1)); sleep 0.02; done"])
        box.write("/tmp/kept", b"kept")
        seconds = mark()
        stream = box.stream("sleep", seconds)
        assert "ready" in stream.next()
        running(seconds)
        logs = gw.ann.stream("StreamLogs").only({"sandboxId": box.id,
                                                 "follow": True})
        entry, got = None, b""
        while got.count(b"\n") < 5:
            entry = logs.next()
            got += unb64(entry["data"])
        gw.die()
        for s in (stream, logs):
            try:
                while (e := s.next()) is not None:
                    if s is logs:
                        entry, got = e, got + unb64(e.get("data", ""))
                raise AssertionError("ended as if all were well")
            except (Truncated, RpcError):
                pass
            s.http.close()
        gone(seconds)
        gw.start()
        box.cw = gw.ann
        assert box.state == "STATE_RUNNING"
        assert box.run("cat", env={"A": "b"}).code == 0
        assert box.unary("echo", "x")["stdout"] == b"x\n"
        assert box.read("/tmp/kept") == b"kept"
        let_end(box, "/tmp/end")
        box.wait()
        got += text(box.logs(follow=True,
                             resumeLogSessionId=entry["logSessionId"],
                             resumeLogOffset=entry["nextLogOffset"]))
        lines = got.decode().splitlines()
        assert lines == [f"line {i}" for i in range(len(lines))]
        assert len(lines) >= 5
