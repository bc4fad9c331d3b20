# SPDX-License-Identifier: Apache-2.0
"""What runs inside a sandbox of the CoreWeave service: Exec, StreamExec,
StreamLogs, ReadFile and WriteFile, over Connect and REST."""

import base64
import concurrent.futures
import json
import os
import struct
import time
import urllib.parse

import pytest

from support import paths
from support.http import Client, chunk, fetch
from support.jobs import Control, processes
from support.wait import until

pytestmark = pytest.mark.root

SERVICE = "/coreweave.sandbox.v1.SandboxService/"
REST = "/coreweave/v1/"
MAX = 32 << 20
SLEEP = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]


def b64(data):
    return base64.b64encode(data).decode()


class Stream:
    """One call of a method that streams."""

    def __init__(self, user, name, message=None, timeout_ms=None, **kw):
        self.c = Client(user.gw.http, timeout=60 * paths.SLOW, **kw)
        fields = {"Content-Type": "application/connect+json",
                  "Transfer-Encoding": "chunked", "Host": "localhost",
                  **user.headers}
        if timeout_ms:
            fields["Connect-Timeout-Ms"] = timeout_ms
        self.c.send(f"POST {SERVICE}{name} HTTP/1.1\r\n" + "".join(
            f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n")
        self.end = None  # the last envelope
        self.pieces = None
        self.buf = b""
        if message is not None:
            self.say(message)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.c.close()

    def say(self, message):
        text = json.dumps(message).encode()
        self.c.send(chunk(struct.pack(">BI", 0, len(text)) + text))

    def half_close(self):
        self.c.send(b"0\r\n\r\n")

    def _more(self, n):
        if self.pieces is None:
            head = self.c.final_head()
            assert head.status == 200, head
            assert head["Content-Type"] == "application/connect+json"
            self.pieces = self.c.chunks()
        while len(self.buf) < n:
            self.buf += next(self.pieces)

    def hear(self):
        """The next message; None: that was the last one."""
        self._more(5)
        flags, n = struct.unpack(">BI", self.buf[:5])
        self._more(5 + n)
        message = json.loads(self.buf[5:5 + n])
        self.buf = self.buf[5 + n:]
        assert flags in (0, 2)
        if flags == 0:
            return message
        self.end = message
        assert self.buf == b"" and next(self.pieces, None) is None
        return None

    def __iter__(self):
        while (m := self.hear()) is not None:
            yield m

    def status(self):
        """(code, reason) of the end."""
        e = self.end.get("error")
        return (e["code"], reason_of(e)) if e else ("ok", None)


def reason_of(e):
    return next((d["debug"]["reason"] for d in e.get("details", [])
                 if d["type"] == "google.rpc.ErrorInfo"), None)


class Box:
    """A sandbox and what can be asked of it."""

    def __init__(self, user, command=SLEEP, running=True, **container):
        self.user = user
        self.id = self.rpc("CreateSandbox", sandboxId=None, sandbox={
            "spec": {"containers": [{
                "name": "box", "image": "python:3.12", "command": command[0],
                "args": command[1:], **container}]}})["sandboxId"]
        if running:
            got = user.wait(self.id, "running")["status"]
            assert got["stage"] == "RUNNING", got

    def rpc(self, name, status=200, headers=None, **fields):
        if "sandboxId" not in fields:
            fields = {"sandboxId": self.id, **fields}
        r = self.user.ask("POST", SERVICE + name, fields,
                          {"Content-Type": "application/json",
                           **(headers or {})}, timeout=60 * paths.SLOW)
        assert r.status == status, (r.status, r.body[:1000])
        return json.loads(r.body)

    def fails(self, name, status, reason, **fields):
        e = self.rpc(name, status=status, **fields)
        assert reason_of(e) == reason, e
        return e

    def exec(self, *command, **kw):
        r = self.rpc("Exec", command=list(command), **kw)
        return (r["exitCode"], base64.b64decode(r["stdout"]),
                base64.b64decode(r["stderr"]))

    def sh(self, text, **kw):
        return self.exec("/bin/sh", "-c", text, **kw)

    def stream(self, *command, timeout_ms=None, rcvbuf=None, **init):
        return Stream(self.user, "StreamExec", {"init": {
            "sandboxId": self.id, "command": list(command), **init}},
            timeout_ms)

    def logs(self, timeout_ms=None, **kw):
        s = Stream(self.user, "StreamLogs", {"sandboxId": self.id, **kw},
                   timeout_ms)
        s.half_close()
        return s

    def log_text(self, **kw):
        with self.logs(**kw) as s:
            got = b"".join(data_of(m) for m in s)
            assert s.status() == ("ok", None)
        return got

    def write(self, path, data, status=200):
        return self.rpc("WriteFile", status, path=path, content=b64(data))

    def read(self, path):
        return base64.b64decode(self.rpc("ReadFile", path=path)["content"])


def data_of(m):
    assert "error" not in m, m
    return base64.b64decode(m.get("data", ""))


def collect(s):
    """(exit code, stdout, stderr) of a StreamExec, from ready on."""
    out = {"STREAM_STDOUT": [], "STREAM_STDERR": []}
    code = None
    for m in s:
        assert code is None, "exit is the last message"
        if "output" in m:
            out[m["output"]["stream"]].append(
                base64.b64decode(m["output"]["data"]))
        elif "exit" in m:
            assert m["exit"]["completedTime"].endswith("Z")
            code = m["exit"]["exitCode"]
        else:
            assert m["ready"]["readyTime"].endswith("Z")
    return code, *(b"".join(v) for v in out.values())


@pytest.fixture(scope="module")
def gw(module_tmp):
    g = Control(module_tmp,
                jobs="log_max = 1M\n[coreweave]\nenabled = yes\n"
                     "[timeouts]\nbody = 1s\nwrite = 1s\n")
    for name in ("ann", "ben"):
        g.user(name)
    g.user("eve", "--role", "readonly")
    with g:
        yield g


@pytest.fixture(scope="module")
def ann(gw):
    return gw.users["ann"]


@pytest.fixture(scope="module")
def box(ann):
    return Box(ann, environmentVariables={"FROM_CONTAINER": "yes"})


# --- Exec -----------------------------------------------------------------
def test_exec_output_env_and_code(box):
    code, out, err = box.sh(
        "printf 'a\\0\\377'; echo oops >&2; echo $A-$FROM_CONTAINER; exit 3",
        env={"A": "b"})
    assert (code, out, err) == (3, b"a\0\xffb-yes\n", b"oops\n")
    assert box.exec("/bin/true", container="box") == (0, b"", b"")
    assert box.sh("kill -9 $$")[0] == 137
    assert box.sh("cat; echo done")[1] == b"done\n"  # no input


def test_exec_of_nothing_that_runs(box):
    code, out, err = box.exec("/no/such/program")
    assert code == 127 and out == b"" and b"No such file" in err
    code, _, err = box.exec("/etc")
    assert code == 126 and err


def test_exec_counts_what_it_does_not_keep(box):
    r = box.rpc("Exec", command=["/bin/sh", "-c", "head -c 100000 /dev/zero;"
                                 "echo x >&2"], maxOutputBytes=1000)
    assert base64.b64decode(r["stdout"]) == bytes(1000)
    assert r["stdoutTruncated"] and not r["stderrTruncated"]
    assert r["stdoutBytesProduced"] == "100000"
    assert r["stderrBytesProduced"] == "2"
    r = box.rpc("Exec", command=["head", "-c", "9000000", "/dev/zero"])
    assert len(base64.b64decode(r["stdout"])) == 4 << 20
    assert r["stdoutTruncated"] and r["stdoutBytesProduced"] == "9000000"


def test_exec_begins_where_the_container_does(ann, box):
    b = Box(ann, workingDir="/var/tmp")
    assert b.exec("pwd")[1] == b"/var/tmp\n"
    with b.stream("pwd") as s:
        assert collect(s)[1] == b"/var/tmp\n"
    assert box.sh("test $PWD = $HOME")[0] == 0


def test_nobody_else_gets_to_its_agent(gw, box):
    """Its agent wants no token of its own: the edge does the asking."""
    path = f"/{box.id}--49983.x/v1/exec"
    body = {"cmd": "echo in"}
    r = fetch(gw.http, "POST", path, body=json.dumps(body).encode())
    assert r.status in (401, 403), r.body
    r = gw.users["ben"].ask("POST", path, body)
    assert r.status in (401, 403, 404), r.body
    r = gw.users["eve"].ask("POST", path, body)
    assert r.status in (401, 403, 404), r.body
    r = box.user.ask("POST", path, body)
    assert r.status == 200 and b"in" in r.body


def test_exec_over_rest(box):
    r = box.user.json("POST", f"{REST}sandboxes/{box.id}:exec",
                      {"command": ["echo", "hi"]})
    assert base64.b64decode(r["stdout"]) == b"hi\n" and r["exitCode"] == 0


def test_exec_deadline_ends_the_command(box):
    mark = "7.654321"
    e = box.rpc("Exec", 504, {"Connect-Timeout-Ms": "300"},
                command=["/bin/sh", "-c", f"sleep {mark} & sleep {mark}"])
    assert e["code"] == "deadline_exceeded"
    assert reason_of(e) == "CWSANDBOX_COMMAND_TIMEOUT"
    until(lambda: not processes(f"sleep {mark}"), "the command to be killed")


def test_exec_refusals(gw, box, ann):
    box.fails("Exec", 400, "CWSANDBOX_INVALID_REQUEST", command=[])
    box.fails("Exec", 400, "CWSANDBOX_INVALID_REQUEST", command=["true"],
              container="other")
    box.fails("Exec", 400, "CWSANDBOX_INVALID_REQUEST", command=["true"],
              maxOutputBytes=-1)
    box.fails("Exec", 404, "CWSANDBOX_SANDBOX_NOT_FOUND", command=["true"],
              sandboxId="0" * 24)
    r = gw.users["ben"].ask("POST", SERVICE + "Exec",
                            {"sandboxId": box.id, "command": ["true"]},
                            {"Content-Type": "application/json"})
    assert r.status == 404
    r = gw.users["eve"].ask("POST", SERVICE + "Exec",
                            {"sandboxId": box.id, "command": ["true"]},
                            {"Content-Type": "application/json"})
    assert r.status == 403
    done = Box(ann, ["/bin/true"], running=False)
    ann.wait(done.id)
    e = done.fails("Exec", 400, None, command=["true"])
    assert e["code"] == "failed_precondition" and "COMPLETED" in e["message"]


def test_exec_waits_for_a_sandbox_that_starts(ann):
    """As many at once as there can be starting."""
    def one(i):
        b = Box(ann, running=False)
        return b.sh(f"echo {i}")

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        got = list(pool.map(one, range(6)))
    assert got == [(0, b"%d\n" % i, b"") for i in range(6)]


def test_a_sandbox_that_ends_under_its_command(ann):
    b = Box(ann)
    with b.stream("sleep", "1000") as s:
        assert "ready" in s.hear()
        ann.cancel(b.id, "?grace=0s")
        assert s.hear() is None
        assert s.status() == ("unavailable", "CWSANDBOX_RUNNER_UNAVAILABLE")


# --- StreamExec -----------------------------------------------------------
def test_stream_without_input(box):
    with box.stream("/bin/sh", "-c", "echo out; cat; echo err >&2; exit 5") \
            as s:
        s.half_close()
        assert "ready" in s.hear()
        assert collect(s) == (5, b"out\n", b"err\n")
        assert s.status() == ("ok", None)


def test_stream_both_ways_at_the_same_time(box):
    """Answers come while the request goes on."""
    with box.stream("cat") as s:
        assert "ready" in s.hear()
        for i in range(20):
            text = b"ping %d\n" % i
            s.say({"stdin": b64(text)})
            m = s.hear()
            assert base64.b64decode(m["output"]["data"]) == text
        time.sleep(1.3)  # nobody types: longer than a body may pause
        s.say({"stdin": b64(b"still here\n")})
        assert base64.b64decode(s.hear()["output"]["data"]) == b"still here\n"
        s.say({"close": {}})
        assert s.hear()["exit"]["exitCode"] == 0
        assert s.hear() is None


def test_stream_input_that_nobody_reads(box):
    """The client waits, for as long as it takes."""
    data = bytes(1 << 20)
    with box.stream("/bin/sh", "-c", "sleep 1.5; wc -c") as s, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        def feed():
            for i in range(0, len(data), 65536):
                s.say({"stdin": b64(data[i:i + 65536])})
            s.half_close()

        fed = pool.submit(feed)
        assert collect(s)[:2] == (0, b"%d\n" % len(data))
        fed.result()


def test_stream_input_is_whole(box):
    data = os.urandom(1 << 20) * 3
    with box.stream("/bin/sh", "-c", "cat | sha256sum | cut -c1-64; wc -c") \
            as s, concurrent.futures.ThreadPoolExecutor(1) as pool:
        def feed():
            for i in range(0, len(data), 65536):
                s.say({"stdin": b64(data[i:i + 65536])})
            s.half_close()

        fed = pool.submit(feed)
        code, out, _ = collect(s)
        fed.result()
    import hashlib
    assert code == 0
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_stream_missing_program_and_signal(box):
    with box.stream("/no/such/program") as s:
        code, _, err = collect(s)
        assert code == 127 and b"No such file" in err
    with box.stream("/bin/sh", "-c", "kill -TERM $$") as s:
        assert collect(s)[0] == 143


def test_stream_terminal(box):
    with box.stream("/bin/sh", tty=True, ttyWidth=101, ttyHeight=33) as s:
        assert "ready" in s.hear()

        def hear_until(mark):
            got = b""
            while mark not in got:
                m = s.hear()
                assert m["output"]["stream"] == "STREAM_STDOUT"
                got += base64.b64decode(m["output"]["data"])
            return got

        s.say({"stdin": b64(b"stty size; echo $((6*7)) >&2\n")})
        assert b"33 101" in hear_until(b"42\r\n")
        s.say({"resize": {"width": 90, "height": 20}})
        s.say({"stdin": b64(b"stty size\n")})
        hear_until(b"20 90")
        s.half_close()  # must not hang up
        s.c.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                s.hear()


def test_stream_refusals(box):
    for first in ({"stdin": ""}, {"init": {"sandboxId": box.id}},
                  {"init": {"command": ["true"]}},
                  {"init": {"sandboxId": box.id, "command": ["true"],
                            "tty": True, "ttyWidth": 70000}}):
        with Stream(box.user, "StreamExec", first) as s:
            assert s.hear() is None
            assert s.status() == ("invalid_argument",
                                  "CWSANDBOX_INVALID_REQUEST"), first
    with Stream(box.user, "StreamExec") as s:
        s.half_close()
        assert s.hear() is None and s.status()[0] == "invalid_argument"
    with box.stream("cat") as s:
        assert "ready" in s.hear()
        s.say({"init": {"sandboxId": box.id, "command": ["true"]}})
        assert s.hear() is None and s.status()[0] == "invalid_argument"
    with Stream(box.user, "StreamExec",
                {"init": {"sandboxId": "0" * 24, "command": ["true"]}}) as s:
        assert s.hear() is None
        assert s.status() == ("not_found", "CWSANDBOX_SANDBOX_NOT_FOUND")


def test_stream_ends_with_its_client(box):
    mark = "8.7654321"
    with box.stream("/bin/sh", "-c", f"sleep {mark} & sleep {mark}") as s:
        assert "ready" in s.hear()
        until(lambda: len(processes(f"sleep {mark}")) >= 2)
        s.c.abort()
    until(lambda: not processes(f"sleep {mark}"), "the group to be killed")
    with box.stream("sleep", mark, timeout_ms=300) as s:
        assert "ready" in s.hear()
        assert s.hear() is None
        assert s.status() == ("deadline_exceeded",
                              "CWSANDBOX_COMMAND_TIMEOUT")
    until(lambda: not processes(f"sleep {mark}"), "the command to be killed")


def test_stream_flood_and_slow_reader(gw, box):
    """What is not read stops the command, and nobody holds it meanwhile."""
    n = 48 << 20
    before = gw.master_kib()
    with box.stream("/bin/sh", "-c",
                    f"head -c {n} /dev/zero; echo end >&2") as s:
        assert "ready" in s.hear()
        time.sleep(1.3)  # nobody reads: it must come to a stop
        got = 0
        for m in s:
            if "exit" in m:
                assert m["exit"]["exitCode"] == 0
            elif m["output"]["stream"] == "STREAM_STDOUT":
                # no decoding of all of it here: the length tells
                d = m["output"]["data"]
                got += len(d) // 4 * 3 - d[-2:].count("=")
        assert got == n
        assert s.status() == ("ok", None)
    if not paths.SANITIZED:
        assert gw.master_kib() - before < 8 << 10


# --- StreamLogs -----------------------------------------------------------
def test_logs_of_the_main_command_only(ann):
    b = Box(ann, ["/bin/sh", "-c", "echo one; echo two >&2; printf three; "
                  "sleep 1000"])
    assert b.sh("echo not in the log")[0] == 0
    until(lambda: b.log_text() == b"one\ntwo\n")
    assert b.log_text(tailLines=1) == b"two\n"
    assert b.log_text(tailLines=5) == b"one\ntwo\n"
    with b.logs() as s:
        stamped = list(s)
    assert all(m["timestamp"].endswith("Z") for m in stamped)
    since = stamped[-1]["timestamp"]
    assert b"two\n" in b.log_text(sinceTime=since)
    assert b.log_text(sinceTime="2099-01-01T00:00:00Z") == b""
    line = b.log_text(timestamps=True, tailLines=1)
    assert line.endswith(b"Z two\n") and line.startswith(b"20")
    # readable after its end, with what had no end of a line
    ann.cancel(b.id, "?grace=0s")
    ann.wait(b.id)
    assert b.log_text() == b"one\ntwo\nthree"
    assert b.log_text(follow=True) == b"one\ntwo\nthree"


def test_logs_follow_until_the_end(ann):
    b = Box(ann, ["/bin/sh", "-c", "mkfifo go; echo first; read x < go;"
                  "echo $x; exec sleep 1000"])
    with b.logs(follow=True) as s:
        m = s.hear()
        assert data_of(m) == b"first\n"
    # again, from where it was
    with b.logs(follow=True, resumeLogSessionId=m["logSessionId"],
                resumeLogOffset=m["nextLogOffset"]) as s:
        assert b.sh("cd; echo second > go")[0] == 0
        m = s.hear()
        assert data_of(m) == b"second\n" and m["nextLogOffset"] == "13"
        ann.cancel(b.id, "?grace=0s")
        assert s.hear() is None and s.status() == ("ok", None)


def test_logs_resume_exactly_across_rotation(gw, module_tmp, ann):
    """Every byte once, from any place that was told; what is gone is said."""
    n = 40000
    b = Box(ann, ["/bin/sh", "-c",
                  f"seq -f 'line %06g ä' 1 {n}; sleep 1000"])
    size = len("line 000001 ä\n".encode())
    last = f"line {n:06d} ä\n".encode()
    until(lambda: b.log_text(tailLines=1) == last, seconds=60 * paths.SLOW)
    with b.logs() as s:
        entries = list(s)
    whole = b"".join(data_of(m) for m in entries)
    assert int(entries[-1]["nextLogOffset"]) == n * size
    assert len(whole) < n * size, "the log was to be rotated"
    first = n * size - len(whole)
    assert whole.startswith(f"line {first // size + 1:06d} ".encode())
    assert whole.endswith(last)
    session = entries[0]["logSessionId"]
    at = first
    for i, m in enumerate(entries):
        at += len(data_of(m))
        assert int(m["nextLogOffset"]) == at
        if i % (len(entries) // 4 + 1) == 0:
            got = b.log_text(resumeLogSessionId=session,
                             resumeLogOffset=str(at))
            assert got == whole[at - first:]

    def error(**kw):
        with b.logs(**kw) as s:
            m = s.hear()
            assert s.hear() is None and s.status() == ("ok", None)
        return m["error"]["code"]

    assert error(resumeLogSessionId=session,
                 resumeLogOffset="1") == "REPLAY_GAP"
    assert error(resumeLogSessionId=session, resumeLogOffset=str(at + 1)) \
        == "INVALID_RESUME_OFFSET"
    assert error(resumeLogSessionId="0" * 24) == "SESSION_NOT_FOUND"
    assert b.log_text(resumeLogSessionId=session,
                      resumeLogOffset=str(at - 4)) == last[-4:]
    # as it was asked for at first, the lines of a session are written
    with b.logs(timestamps=True, tailLines=2) as s:
        m = s.hear()
    got = b.log_text(resumeLogSessionId=m["logSessionId"],
                     resumeLogOffset=str(at - size))
    assert got.endswith(b"Z " + last)


def test_logs_refusals(box, ann):
    for kw in ({"tailLines": -1}, {"container": "other"}):
        with box.logs(**kw) as s:
            assert s.hear() is None and s.status()[0] == "invalid_argument"
    with Stream(ann, "StreamLogs", {"sandboxId": "0" * 24}) as s:
        s.half_close()
        assert s.hear() is None
        assert s.status() == ("not_found", "CWSANDBOX_SANDBOX_NOT_FOUND")


# --- files ----------------------------------------------------------------
def test_files_byte_for_byte(box):
    for n in (0, 1, 2, 3, 65537):
        data = os.urandom(n)
        assert box.write("/tmp/some file ä", data) == {}
        assert box.read("/tmp/some file ä") == data
    assert box.sh("wc -c < '/tmp/some file ä'")[1] == b"65537\n"
    assert box.write("/tmp/new/dirs/f", b"x") == {}
    assert box.read("/etc/passwd").startswith(b"root:")  # not in its home
    assert box.read("/proc/self/stat")


def test_files_of_any_form(box, ann):
    """Fields in any order, over REST too."""
    base = f"{REST}sandboxes/{box.id}"
    text = json.dumps({"content": b64(b"x" * 100000), "path": "/tmp/order"})
    assert ann.json("POST", base + ":writeFile", text.encode()) == {}
    assert box.read("/tmp/order") == b"x" * 100000
    r = ann.json("GET", f"{base}:readFile?path="
                 + urllib.parse.quote("/tmp/order"))
    assert base64.b64decode(r["content"]) == b"x" * 100000
    text = json.dumps({"path": "/tmp/order", "content": b64(b"ab"),
                       "container": "other"})
    assert ann.json("POST", base + ":writeFile", text.encode(), 400)
    assert len(box.read("/tmp/order")) == 100000  # as it was
    for bad in ('{"path":"/tmp/order","content":"a"}',
                '{"path":"/tmp/order","content":"YWJj"',
                '{"path":"/tmp/order","content":"YWJj","content":"YWJj"}',
                '{"path":"/tmp/order","content":7}', "[]", ""):
        e = ann.json("POST", base + ":writeFile", bad.encode(), 400)
        assert e["code"] == "invalid_argument", (bad, e)
    assert len(box.read("/tmp/order")) == 100000


def test_files_as_large_as_may_be(gw, box, ann):
    data = os.urandom(1 << 20) * 32
    before = gw.master_kib()
    assert box.write("/tmp/large", data) == {}
    assert box.read("/tmp/large") == data
    if not paths.SANITIZED:
        assert gw.master_kib() - before < 12 << 10
    e = box.fails("WriteFile", 400, "CWSANDBOX_FILE_TOO_LARGE",
                  path="/tmp/more", content=b64(data + b"x"))
    info = e["details"][0]["debug"]["metadata"]
    assert info["size_bytes"] == str(MAX + 1)
    assert info["max_size_bytes"] == str(MAX)
    assert box.sh("test -e /tmp/more")[0] == 1
    assert box.sh("cat /tmp/large > /tmp/more; echo x >> /tmp/more")[0] == 0
    e = box.fails("ReadFile", 400, "CWSANDBOX_FILE_TOO_LARGE",
                  path="/tmp/more")
    assert e["code"] == "failed_precondition"
    assert e["details"][0]["debug"]["metadata"] == {
        "filepath": "/tmp/more", "size_bytes": str(MAX + 2),
        "max_size_bytes": str(MAX)}


def test_files_failures(box):
    box.fails("ReadFile", 404, "CWSANDBOX_FILE_NOT_FOUND", path="/no/such")
    box.fails("ReadFile", 400, "CWSANDBOX_FILE_IS_DIRECTORY", path="/etc")
    box.fails("WriteFile", 400, "CWSANDBOX_FILE_IS_DIRECTORY", path="/tmp",
              content=b64(b"x" * (8 << 20)))
    box.fails("ReadFile", 400, "CWSANDBOX_FILE_IO_FAILED", path="/dev/null")
    box.fails("ReadFile", 400, "CWSANDBOX_INVALID_REQUEST", path="etc/passwd")
    box.fails("ReadFile", 400, "CWSANDBOX_INVALID_REQUEST")
    box.fails("WriteFile", 400, "CWSANDBOX_INVALID_REQUEST", content="")
    box.fails("ReadFile", 404, "CWSANDBOX_SANDBOX_NOT_FOUND",
              sandboxId="0" * 24, path="/x")
    box.fails("WriteFile", 403, "CWSANDBOX_FILE_PERMISSION_DENIED",
              path="/usr/x", content="")


def test_many_files_at_once(box):
    """More than run at once: the others have their turn."""
    def one(i):
        data = bytes([i]) * 300000
        box.write(f"/tmp/many{i}", data)
        return box.read(f"/tmp/many{i}") == data

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        assert all(pool.map(one, range(80)))


def test_after_a_restart_of_the_gateway(gw, ann, box):
    """Also while nothing of it was told anew yet."""
    assert box.write("/tmp/kept", b"kept") == {}
    gw.die()
    gw.start()
    assert box.sh("cat /tmp/kept") == (0, b"kept", b"")
    assert box.read("/tmp/kept") == b"kept"
