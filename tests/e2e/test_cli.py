# SPDX-License-Identifier: Apache-2.0
"""sbx: sandboxes and jobs from the command line."""

import hashlib
import os
import pty
import re
import signal
import socket
import subprocess

import pytest

from support import paths
from support.http import get
from support.jobs import Control
from support.wait import until
from support.ws import WebSocket

pytestmark = pytest.mark.root

MIB = 1 << 20
SERVER = r"""
import base64, hashlib, socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000)); s.listen()
print("listens", flush=True)
while True:
    c, _ = s.accept()
    head = b""
    while b"\r\n\r\n" not in head:
        head += c.recv(65536)
    low = head.lower()
    if b"upgrade: websocket" in low:
        key = [l.split(b": ")[1] for l in head.split(b"\r\n")
               if l.lower().startswith(b"sec-websocket-key")][0]
        acc = base64.b64encode(hashlib.sha1(
            key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + acc +
                  b"\r\n\r\n")
        while got := c.recv(65536):  # a masked text frame, unmasked
            n = got[1] & 127
            mask, data = got[2:6], got[6:6 + n]
            c.sendall(bytes([got[0], n]) + bytes(
                b ^ mask[i % 4] for i, b in enumerate(data)))
    else:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"
                  b"Connection: close\r\n\r\n%s" % (len(head), head))
    c.close()
"""


class Sbx:
    def __init__(self, gw, user):
        self.env = paths.child_env({
            "SBX_URL": gw.http,
            "SBX_API_TOKEN": user.token})

    def start(self, *args, **kw):
        return subprocess.Popen([str(paths.BUILD / "sbx"), *args],
                                env=self.env, **kw)

    def run(self, *args, status=0, data=None, env=None):
        got = subprocess.run(
            [str(paths.BUILD / "sbx"), *args], input=data, check=False,
            env=dict(self.env, **(env or {})), capture_output=True, timeout=60)
        assert got.returncode == status, (args, got)
        return got

    def out(self, *args, **kw):
        return self.run(*args, **kw).stdout.decode()

    def err(self, *args, **kw):
        return self.run(*args, **kw).stderr.decode()


@pytest.fixture(scope="module")
def gw(module_tmp):
    with Control(module_tmp) as g:
        yield g


@pytest.fixture(scope="module")
def sbx(gw):
    return Sbx(gw, gw.root)


@pytest.fixture(scope="module")
def box(sbx):
    """The name of a sandbox that is up."""
    assert re.fullmatch(r"[0-9a-f]{24}\n", sbx.out("up", "-n", "box"))
    return "box"


def test_up_ls_kill(sbx):
    job = sbx.out("up", "--name", "short", "-l", "mine=1").strip()
    row, = (line for line in sbx.out("ls").splitlines() if job in line)
    assert row.split()[1:4] == ["short", "RUNNING", "dedicated"]
    assert sbx.out("ls", "-q", "-l", "mine=1").split() == [job]
    assert sbx.out("exec", job[:8], "echo", "by a beginning") == (
        "by a beginning\n")
    sbx.run("kill", "short")
    until(lambda: job not in sbx.out("ls", "-q").split(), "its end")
    assert job in sbx.out("ls", "-aq").split()
    assert "has ended" in sbx.err("exec", job, "true", status=125)


def test_ls_says_what_it_is(gw, sbx):
    """Also of what was made by another face of the API."""
    root = gw.root
    box = root.create(["/bin/sleep", "100"], sandbox=True)["id"]
    job = root.create(["/bin/sleep", "100"])["id"]
    kinds = {row.split()[0]: row.split()[3]
             for row in sbx.out("ls").splitlines()}
    assert (kinds[box], kinds[job]) == ("sandbox", "job")
    sbx.run("kill", box)
    sbx.run("kill", job)


def test_snapshots(sbx, tmp):
    job = sbx.out("up", "--name", "source").strip()
    sbx.run("exec", "-s", "source", "echo kept >/root/f")
    one = sbx.out("snapshot", "create", "source").strip()
    last = sbx.out("snapshot", "create", "--kill", "source").strip()
    assert re.fullmatch("[0-9a-f]{24}", one) and one != last
    assert sbx.out("snapshot", "ls", "-q", job).split() == [last, one]
    rows = sbx.out("snapshot", "ls").splitlines()
    assert rows[1].split()[:3] == [last, job, "READY"]
    assert "has ended" in sbx.err("snapshot", "create", job, status=1)
    assert sbx.out("run", "--restore", last, "cat", "/root/f") == "kept\n"
    sbx.run("up", "-n", "restored", "--restore", one)
    assert sbx.out("exec", "restored", "cat", "/root/f") == "kept\n"
    sbx.run("kill", "restored")
    sbx.run("snapshot", "get", one, str(tmp / "a"))
    assert sbx.run("snapshot", "get", one, "-").stdout == \
        (tmp / "a").read_bytes()
    assert os.listdir(tmp) == ["a"]
    sbx.run("snapshot", "rm", one, last)
    until(lambda: sbx.out("snapshot", "ls", "-q", job) == "", "their end")
    sbx.run("snapshot", "get", one, str(tmp / "b"), status=1)
    assert os.listdir(tmp) == ["a"]
    assert "not the id" in sbx.err("snapshot", "rm", "../x", status=1)
    assert "no such snapshot" in sbx.err("run", "--restore", one, "true",
                                         status=125)


def test_exec(sbx, box):
    got = sbx.run("exec", box, "--", "sh", "-c",
                  "echo out; echo err >&2; exit 3", status=3)
    assert got.stdout == b"out\n" and got.stderr == b"err\n"
    assert sbx.out("exec", "-e", "A=x y", "-w", "/tmp", "-s", box,
                   'echo "$A" $PWD') == "x y /tmp\n"
    assert sbx.run("exec", box, "printf", r"\377\000\n").stdout == (
        b"\xff\x00\n")
    sbx.run("exec", "-s", box, "kill -9 $$", status=137)
    sbx.run("exec", "--timeout", "0.3", box, "sleep", "100", status=124)
    assert "No such file" in sbx.err("exec", box, "nosuch", status=126)


def test_exec_with_input(sbx, box):
    data = os.urandom(3 * MIB + 5)
    want = hashlib.sha256(data).hexdigest()
    assert sbx.out("exec", "-i", box, "sha256sum",
                   data=data).split()[0] == want
    assert sbx.out("exec", "-i", "-s", box, "cat; echo $?",
                   data=b"") == "0\n"
    assert "sbx-input" not in sbx.out("exec", box, "ls", "/tmp")


def test_exec_is_live(sbx, box):
    p = sbx.start("exec", box, "sh", "-c", "echo now; exec sleep 1000",
                  stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"now\n"
    p.send_signal(signal.SIGINT)  # ends the command with us
    p.stdout.close()
    assert p.wait(10) != 0
    until(lambda: "sleep 1000" not in sbx.out("exec", box, "ps", "axo", "args"),
          "the command's end")


def test_cp(sbx, box, tmp):
    data = os.urandom(5 * MIB)
    (tmp / "f").write_bytes(data)
    sbx.run("cp", str(tmp / "f"), f"{box}:/tmp/g")
    sbx.run("cp", f"{box}:/tmp/g", str(tmp / "h"))
    assert (tmp / "h").read_bytes() == data
    assert sbx.run("cp", f"{box}:/tmp/g", "-").stdout == data
    sbx.run("cp", "-", f"{box}:/tmp/in", data=b"from a pipe")
    sbx.run("cp", f"{box}:/tmp/in", str(tmp))
    assert (tmp / "in").read_bytes() == b"from a pipe"
    assert "no such file" in sbx.err("cp", f"{box}:/none", str(tmp / "x"),
                                     status=1)
    assert sorted(p.name for p in tmp.iterdir()) == ["f", "h", "in"]


def test_cp_trees(sbx, box, tmp):
    top = tmp / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "deep").write_text("1")
    (top / "name with ü, & = ?").write_text("2")
    (top / "run").write_text("#!/bin/sh\necho runs\n")
    (top / "run").chmod(0o755)
    os.mkfifo(top / "pipe")
    assert "recursive" in sbx.err("cp", str(top), f"{box}:/tmp/", status=2)
    assert "left out" in sbx.err("cp", "-r", str(top), f"{box}:/tmp/")
    assert sbx.out("exec", box, "/tmp/tree/run") == "runs\n"
    sbx.run("exec", "-s", box, "ln -s /etc/passwd /tmp/tree/link")
    sbx.run("cp", "-r", f"{box}:/tmp/tree", str(tmp / "back"))
    got = sorted(str(p.relative_to(tmp / "back"))
                 for p in (tmp / "back").rglob("*"))
    assert got == ["a", "a/b", "a/b/deep", "name with ü, & = ?", "run"]
    assert (tmp / "back" / "name with ü, & = ?").read_text() == "2"


def test_progress_on_a_terminal_only(sbx, box, tmp):
    (tmp / "f").write_bytes(bytes(8 * MIB))
    assert sbx.run("cp", str(tmp / "f"), f"{box}:/tmp/p").stderr == b""
    ours, theirs = pty.openpty()
    p = sbx.start("cp", str(tmp / "f"), f"{box}:/tmp/p", stderr=theirs)
    assert p.wait(30) == 0
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"100%" in shown and b"MiB/s" in shown


def test_run(sbx):
    got = sbx.run("run", "-e", "A=1", "--", "sh", "-c",
                  "echo $A $S; exit 4", status=4,
                  env={"S": "secret"})
    assert got.stdout == b"1\n"
    assert sbx.out("run", "-s", "S", "sh", "-c", "echo $S",
                   env={"S": "hush"}) == "hush\n"
    sbx.run("run", "--timeout", "1", "sleep", "100", status=124)
    got = sbx.run("run", "--", "/nowhere/x", status=126)
    assert b"could not be started" in got.stderr
    job = sbx.out("run", "-d", "sh", "-c", "echo a; echo b; echo c").strip()
    assert sbx.out("logs", "-f", job) == "a\nb\nc\n"
    assert sbx.out("logs", "-n", "1", job) == "c\n"


def test_url_and_token(sbx, gw, box):
    token = sbx.out("token", box).strip()
    url = sbx.out("url", box).strip()
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    assert "--49983." in url
    assert sbx.out("url", box, "8000").strip() == f"{url}/v1/proxy/8000/"
    path = url.split(gw.http, 1)[1]
    r = get(gw.http, path + "/v1/processes", token=token,
            headers={"Authorization": f"Bearer {gw.root.token}"})
    assert r.status == 200
    assert "not a port" in sbx.err("url", box, "x", status=2)


def test_port_forward(sbx, box, tmp):
    (tmp / "server.py").write_text(SERVER)
    sbx.run("cp", str(tmp / "server.py"), f"{box}:/tmp/server.py")
    server = sbx.start("exec", box, "python3", "/tmp/server.py",
                       stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"listens\n"
    p = sbx.start("port-forward", box, "0:8000", stdout=subprocess.PIPE)
    try:
        port = int(re.match(rb"http://127\.0\.0\.1:(\d+) -> port 8000",
                            p.stdout.readline())[1])
        r = get(f"http://127.0.0.1:{port}", "/some/path?q=1")
        assert r.status == 200
        assert r.body.startswith(b"GET /some/path?q=1 HTTP/1.1\r\n")
        low = r.body.lower()
        assert b"authorization" not in low and b"x-sandbox-token" not in low
        with WebSocket(f"http://127.0.0.1:{port}", "/") as ws:
            assert ws.echo("through all of it") == b"through all of it"
        with socket.socket() as s:  # loopback only
            s.bind(("127.0.0.2", port))
    finally:
        p.terminate()
        assert p.wait(10) == 0
        p.stdout.close()
        server.terminate()
        server.wait(10)
        server.stdout.close()


def test_sandboxes_of_a_host(sbx, gw):
    sbx.run("up", "--host", "-n", "many", "-e", "SBX_CAPACITY=4")
    token, url = sbx.out("token", "many").strip(), sbx.out("url", "many")
    path = url.strip().split(gw.http, 1)[1]
    r = gw.root.json("POST", path + "/v1/sandboxes", {},
                     headers={"X-Sandbox-Token": token})
    one = f"many.{r['sandboxes'][0]['id']}"
    assert sbx.out("exec", one, "pwd").strip() == r["sandboxes"][0]["home"]
    assert sbx.out("exec", "-i", one, "cat", data=b"in") == "in"
    sbx.run("cp", "-", f"{one}:/f", data=b"x")
    assert sbx.run("cp", f"{one}:/f", "-").stdout == b"x"
    sbx.run("kill", one)
    sbx.run("exec", one, "true", status=125)
    sbx.run("kill", "many")


def test_errors_say_what_is_wrong(sbx, gw, box):
    assert "no such job" in sbx.err("exec", "nobody", "true", status=125)
    assert "credential" in sbx.err("ls", status=1,
                                   env={"SBX_API_TOKEN": "wrong"})
    assert "refused" in sbx.err("ls", status=1,
                                env={"SBX_URL": "http://127.0.0.1:1"})
    assert "not an http" in sbx.err("ls", status=2, env={"SBX_URL": "ftp://x"})
    assert "SBX_URL" in sbx.err("ls", status=2, env={"SBX_URL": ""})
    assert "no such command" in sbx.err("what", status=2)
    for cmd in ("up", "run", "ls", "exec", "cp", "logs", "url",
                "port-forward", "kill", "snapshot", "token", "tunnels"):
        assert f"usage: sbx {cmd}" in sbx.out(cmd, "--help")
        assert "usage" in sbx.err(cmd, "--nonsense", status=2)
    assert "port-forward" in sbx.out("--help")
    assert sbx.out("--version").startswith("sbx ")


def test_somebody_else_sees_nothing(sbx, gw, box):
    gw.user("eve")
    eve = Sbx(gw, gw.users["eve"])
    until(lambda: eve.start("ls", stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL).wait(20) == 0,
          "the new token")
    job = sbx.out("ls", "-q").split()[0]
    assert eve.out("ls", "-aq") == ""
    for args in (["exec", job, "true"], ["kill", job], ["logs", job],
                 ["token", job], ["url", job]):
        assert eve.start(*args, stderr=subprocess.DEVNULL).wait(20) in (1, 125)
    root = Sbx(gw, gw.users["eve"])
    assert root.start("--namespace", "root", "exec", job, "true",
                      stderr=subprocess.DEVNULL).wait(20) == 125


def test_token_from_a_file(sbx, gw, tmp):
    (tmp / "t").write_text(gw.root.token + "\n")
    (tmp / "t").chmod(0o600)
    sbx.run("--token-file", str(tmp / "t"), "ls", env={"SBX_API_TOKEN": ""})


def test_bash_completion(sbx, box):
    script = paths.TOP / "cli" / "completions" / "sbx.bash"
    def complete(line):
        words = " ".join(f"'{w}'" for w in line.split(" "))
        got = subprocess.run(
            ["bash", "-c", f"compopt() {{ :; }}; . {script}; "
             f"COMP_WORDS=({words}); COMP_CWORD={len(line.split(' ')) - 1}; "
             "_sbx; echo ${COMPREPLY[@]}"],
            capture_output=True, check=True, text=True,
            env=dict(sbx.env, PATH=f"{paths.BUILD}:{os.environ['PATH']}"))
        return got.stdout.split()

    assert complete("sbx po") == ["port-forward"]
    assert "--idle" in complete("sbx up --i")
    job = sbx.out("ls", "-q").split()[0]
    assert job in complete(f"sbx exec {job[:4]}")
    assert job in complete(f"sbx --ca x kill {job[:4]}")
