# SPDX-License-Identifier: Apache-2.0
"""sbx-agent as NeMo's exec server: the wire protocol, without its client."""

import base64
import concurrent.futures
import http.client
import json
import os
import re
import socket
import subprocess
from urllib.parse import quote

import pytest

from support import paths
from support.wait import until


class ExecServer:
    def __init__(self, tmp, **env):
        self.dir = tmp
        vars_ = {"SBX_LISTEN": f"unix:{tmp}/agent.sock", "TB_EXEC_PORT": "0",
                 "SBX_GRACE": "0", **env}
        self.log = open(tmp / "log", "wb")
        self.proc = subprocess.Popen(
            [str(paths.AGENT)], env=paths.child_env(vars_), cwd=tmp,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        self.line = self.proc.stdout.readline().decode()
        got = re.fullmatch(r"exec_server on 127\.0\.0\.1:(\d+)\n", self.line)
        assert got, (self.line, (tmp / "log").read_text())
        self.port = int(got.group(1))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.terminate()
        status = self.proc.wait(20 * paths.SLOW)
        self.proc.stdout.close()
        self.log.close()
        assert status == 0, (self.dir / "log").read_text(errors="replace")

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port,
                                          timeout=timeout * paths.SLOW)

    def ask(self, method, path, body=None, conn=None):
        """(status, bytes)"""
        c = conn or self.connection()
        c.request(method, path, body)
        r = c.getresponse()
        data = r.read()
        assert int(r.getheader("Content-Length")) == len(data)
        if conn is None:
            c.close()
        return r.status, data

    def post(self, path, body, **kw):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        status, data = self.ask("POST", path, body, **kw)
        return status, json.loads(data)

    def exec(self, cmd, **kw):
        conn = kw.pop("conn", None)
        status, got = self.post("/exec", {"cmd": cmd, **kw}, conn=conn)
        assert status == 200 and list(got) == ["stdout", "stderr", "rc"]
        return got["stdout"], got["stderr"], got["rc"]

    def upload(self, path, data, **kw):
        return self.post("/upload", {
            "path": str(path), "content": base64.b64encode(data).decode(),
            **kw})

    def download(self, path):
        return self.ask("GET", f"/download?path={path}")


@pytest.fixture(scope="module")
def server(module_tmp):
    with ExecServer(module_tmp) as s:
        yield s


def test_health(server):
    assert server.ask("GET", "/health") == (200, b'{"ok": true}')
    assert server.ask("GET", "/health?x=1") == (200, b'{"ok": true}')


def test_exec(server):
    assert server.exec("echo out; echo err >&2; exit 3") == ("out\n", "err\n",
                                                             3)
    assert server.exec("cat; pwd") == (f"{server.dir}\n", "", 0)
    assert server.exec("kill -9 $$")[2] == -9
    assert server.exec("no-such-command-here")[2] == 127
    assert server.exec("echo ${BASH_VERSION:+bash}")[0] == "bash\n"
    assert server.exec(r"printf 'a\xff\xe2\x82z'")[0] == "a\ufffd\ufffdz"
    assert server.exec("env | grep -c '^TB_\\|^SBX_'")[0] == "0\n"
    assert server.exec("x=1")[2] == 0 and server.exec("echo [$x]")[0] == "[]\n"
    assert server.exec("echo a", timeout=None) == ("a\n", "", 0)
    assert server.exec("true", timeout="1")[2] == -1
    out, err, rc = server.exec("true #" + "x" * 140000)
    assert rc == -1 and "Argument list too long" in err


@pytest.mark.parametrize("timeout,said", [
    (1, "1s"), (0.5, "0.5s"), (b"1.0", "1.0s"), (b"1e0", "1.0s")])
def test_timeout(server, timeout, said):
    """The whole group dies; nothing that it wrote is lost."""
    mark = f"sleep 98765.{said.replace('.', '')}"
    number = timeout if isinstance(timeout, bytes) else b"%g" % timeout
    cmd = f"{mark} & echo out; echo err >&2; {mark}"
    body = b'{"cmd": %s, "timeout": %s}' % (json.dumps(cmd).encode(), number)
    status, got = server.post("/exec", body)
    assert (status, got) == (200, {
        "stdout": "out\n", "stderr": f"err\ntimed out after {said}",
        "rc": 124})
    assert server.exec(f"pgrep -f '^{mark}'")[0] == ""


def test_timeout_without_output(server):
    """Byte for byte what the reference answers."""
    assert server.ask("POST", "/exec", b'{"cmd": "sleep 9", "timeout": 0.2}'
                      ) == (200, b'{"stdout": "", "stderr": '
                            b'"timed out after 0.2s", "rc": 124}')


def test_background_is_not_waited_for(server):
    out, err, rc = server.exec("sleep 1000 & echo $!")
    assert (err, rc) == ("", 0)
    assert server.exec(f"kill {out}")[2] == 0


def test_large_output(server):
    """Whole up to a limit; what lies beyond is said."""
    out, err, rc = server.exec("head -c 20000000 /dev/zero | tr '\\0' x")
    assert (len(out), err, rc) == (20000000, "", 0)
    out, err, rc = server.exec("head -c 70000000 /dev/zero | tr '\\0' x")
    left = re.fullmatch(r"(\d+) bytes of stdout left out\n", err)
    assert rc == 0 and len(out) + int(left.group(1)) == 70000000
    assert len(out) > 60000000


def test_burst(server):
    """500 connections at once, a command each: none is refused."""
    socks = [socket.socket() for _ in range(500)]
    for s in socks:
        s.settimeout(60 * paths.SLOW)
        s.connect(("127.0.0.1", server.port))
    for i, s in enumerate(socks):
        body = json.dumps({"cmd": f"echo {i}"}).encode()
        s.sendall(b"POST /exec HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
    for i, s in enumerate(socks):
        data = b""
        while got := s.recv(65536):
            data += got
        s.close()
        assert json.loads(data.split(b"\r\n\r\n")[1]) == {
            "stdout": f"{i}\n", "stderr": "", "rc": 0}


def test_parallel_on_kept_connections(server):
    def work(i):
        c = server.connection()
        for k in range(5):
            assert server.exec(f"echo {i}.{k}", conn=c)[0] == f"{i}.{k}\n"
        c.close()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        list(pool.map(work, range(20)))


def test_client_gone(server):
    """It runs on, once."""
    c = server.connection()
    c.request("POST", "/exec", json.dumps(
        {"cmd": "sleep 0.3; echo x >> gone"}))
    c.close()
    until((server.dir / "gone").exists, "it ran to its end")
    assert (server.dir / "gone").read_text() == "x\n"


def test_files(server, tmp):
    for n in (0, 1, 1000, 300000, 3000001):
        data = os.urandom(n)
        path = tmp / "a b" / f"deep{n}" / "f+\u00e9"
        assert server.upload(path, data) == (200, {"ok": True})
        assert server.download(quote(str(path))) == (200, data)
        assert path.read_bytes() == data
    path.write_bytes(b"longer than what follows")
    inode = path.stat().st_ino
    assert server.upload(path, b"short", mode="4755")[0] == 200
    assert path.read_bytes() == b"short" and path.stat().st_ino == inode
    assert path.stat().st_mode & 0o7777 == 0o4755
    assert server.upload("relative", b"r")[0] == 200
    assert (server.dir / "relative").read_bytes() == b"r"
    assert server.download("/proc/self/status")[1].startswith(b"Name:")
    assert server.post("/upload", {"path": str(path), "content": "eA=="}
                       ) == (200, {"ok": True})


def test_file_errors(server, tmp):
    def err(got):
        assert list(got[1]) == ["error"]
        return got[0], got[1]["error"]
    os.mkfifo(tmp / "fifo")
    for path in ("/nonexistent", tmp, tmp / "fifo"):
        status, data = server.download(path)
        assert (status, data) == (
            404, b'{"error": "not found: %s"}' % str(path).encode())
    assert server.ask("GET", "/download")[1] == (
        b'{"error": "missing ?path="}')
    assert server.ask("GET", "/download?path=")[0] == 400
    for body in ({}, {"path": "x"}, {"content": ""}, {"path": "", "content":
                                                      "x"}):
        assert err(server.post("/upload", body)) == (400,
                                                     "missing path/content")
    assert err(server.upload(tmp, b"x")) == (
        500, f"[Errno 21] Is a directory: '{tmp}'")
    assert err(server.upload(tmp / "fifo", b"x"))[0] == 500
    assert err(server.post("/upload", {"path": f"{tmp}/p", "content": "abc"})
               ) == (500, "Incorrect padding")
    assert err(server.upload(tmp / "m", b"x", mode="9"))[0] == 500
    assert err(server.upload("/proc/nonexistent/x", b"x"))[0] == 500


def test_request_errors(server):
    for body in (b"", b"{}", b"not json", b'{"cmd": ""}', b"[1]",
                 b'{"cmd": null}'):
        assert server.ask("POST", "/exec", body) == (
            400, b'{"error": "missing \'cmd\'"}')
    assert server.ask("GET", "/x?y") == (404, b'{"error": "not found: /x"}')
    assert server.ask("POST", "/x", b"{}")[0] == 404
    assert server.ask("POST", "/health", b"{}")[0] == 404
    assert server.ask("PUT", "/exec", b"{}")[0] == 501
    for path, mib in (("/exec", 5), ("/upload", 129)):
        c = server.connection()
        c.putrequest("POST", path)
        c.putheader("Content-Length", str(mib << 20))
        c.endheaders()
        r = c.getresponse()
        assert r.status == 413 and "error" in json.loads(r.read())


def test_old_http(server):
    """HTTP/1.0 : answered, then closed."""
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.settimeout(30)
        s.sendall(b"GET /health HTTP/1.0\r\nHost: x\r\n\r\n")
        data = b""
        while got := s.recv(4096):
            data += got
    assert data.endswith(b'{"ok": true}')


def test_idle_watch(tmp):
    """A request keeps the agent awake, and it is told from being idle."""
    with ExecServer(tmp, SBX_IDLE_TIMEOUT="1") as s:
        assert s.exec("sleep 1.6; echo a")[0] == "a\n"
        assert s.proc.wait(20 * paths.SLOW) == 0


@pytest.mark.parametrize("env,why", [
    ({"TB_EXEC_PORT": "x"}, "TB_EXEC_PORT=x: "),
    ({"TB_EXEC_PORT": "0", "TB_EXEC_BIND": "nohost"}, "TB_EXEC_BIND=nohost: "),
    ({"TB_EXEC_PORT": "0", "SBX_HOST_MODE": "1"}, "TB_EXEC_PORT: not in host"),
])
def test_bad_settings(tmp, env, why):
    got = subprocess.run(
        [str(paths.AGENT)], capture_output=True, text=True, check=False,
        env=paths.child_env({"SBX_LISTEN": f"unix:{tmp}/s", **env}),
        timeout=30)
    assert got.returncode == 1 and why in got.stderr
