# SPDX-License-Identifier: Apache-2.0
"""sbx-agent: the file routes, in a sandbox and in dedicated mode."""

import hashlib
import http.client
import json
import os
import socket
import time

import pytest

from agent_support import Agent, Scope, at
from support.wait import until

root = pytest.mark.root


@pytest.fixture
def sb(agent):
    sb = agent.create()
    yield sb
    agent.delete(sb.prefix)


def write(sb, path, data, **query):
    return sb.call("PUT", at("write", path, **query), data)


def read(sb, path, headers=None, **query):
    return sb.call("GET", at("read", path, **query), headers=headers)


@root
@pytest.mark.parametrize("size", [0, 1, 16384, 65536, 65537, 20_000_000])
def test_round_trip(sb, size):
    data = os.urandom(size)
    assert write(sb, "f", data) == (200, {"path": "f", "size": size})
    assert read(sb, "f") == (200, data)
    assert read(sb, "/f") == (200, data)
    assert read(sb, f"{sb.home}/f") == (200, data)
    got = sb.exec("sha256sum f; stat -c '%u %g %a' f").out.split()
    assert got[0] == hashlib.sha256(data).hexdigest()
    assert got[2:] == [str(sb.uid), str(sb.uid), "644"]


@root
def test_chunked_upload(sb):
    def pieces():
        for i in range(100):
            yield b"piece %d\n" % i * 1000

    status, _ = sb.call("PUT", at("write", "f"), pieces())
    assert status == 200
    assert read(sb, "f")[1] == b"".join(pieces())


def wrote(sb):
    """Bytes of the one upload that are written."""
    for name in os.listdir(sb.home):
        if name == "f" or name.startswith(".sbx-upload"):
            try:
                return os.stat(f"{sb.home}/{name}").st_size
            except FileNotFoundError:  # it has its own name now
                return wrote(sb)
    return 0


@root
@pytest.mark.parametrize("query", [{}, {"offset": 0}])
def test_upload_in_bursts(agent, sb, query):
    """A client that stops in between, and goes on with another request."""
    data = os.urandom(3_000_000)
    stops = [0, 1, 70_000, 1_000_000, 1_900_000, len(data)]
    head = (f"PUT {sb.prefix}/{at('write', 'f', **query)} HTTP/1.1\r\nHost: x\r\n"
            f"X-Sandbox-Token: {sb.token}\r\n")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(agent.socket))
        s.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode())
        for begin, end in zip(stops, stops[1:]):
            s.sendall(data[begin:end])
            until(lambda: wrote(sb) == end, f"{end} bytes are written")
        reply = http.client.HTTPResponse(s)
        reply.begin()
        assert reply.status == 200
        assert json.loads(reply.read())["size"] == len(data)
        assert read(sb, "f") == (200, data)
        s.sendall(f"{head}Content-Length: 1\r\n\r\nx".encode())
        reply = http.client.HTTPResponse(s)
        reply.begin()
        assert (reply.status, json.loads(reply.read())["size"]) == (200, 1)


@root
def test_upload_cut_off(agent, sb):
    """Of a large one that ends too soon nothing stays."""
    fds = agent.fds()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(agent.socket))
        s.sendall((f"PUT {sb.prefix}/{at('write', 'f')} HTTP/1.1\r\nHost: x\r\n"
                   f"X-Sandbox-Token: {sb.token}\r\n"
                   "Content-Length: 9000000\r\n\r\n").encode()
                  + bytes(2_000_000))
        until(lambda: wrote(sb) == 2_000_000, "it is written")
    until(lambda: sorted(os.listdir(sb.home)) == [".sbx", ".tmp"],
          "nothing is left of it")
    until(lambda: agent.fds() <= fds, "no descriptor is left")


@root
def test_parents_and_modes(sb):
    assert write(sb, "a/b/c", b"x", mode="755")[0] == 200
    assert sb.exec("stat -c '%a %u' a a/b a/b/c").out.split() == [
        "755", str(sb.uid), "755", str(sb.uid), "755", str(sb.uid)]
    # A new content keeps the old mode.
    assert write(sb, "a/b/c", b"y")[0] == 200
    assert sb.exec("stat -c %a a/b/c").out == "755\n"
    assert write(sb, "d/e", b"x", mkdir="0")[0] == 404
    for bad in ("9", "x", "77777", "-1"):
        assert write(sb, "f", b"x", mode=bad)[0] == 400


@root
def test_replacing_is_atomic(agent, sb):
    """A reader keeps the whole old file; a broken upload leaves nothing."""
    write(sb, "f", b"old" * 1000)
    p = sb.start("exec 3< f; touch ready; while [ ! -e go ]; "
                 "do sleep 0.01; done; rm ready; cat <&3")
    until(lambda: os.path.exists(f"{sb.home}/ready"), "it reads")
    write(sb, "f", b"new")
    sb.exec("touch go")
    log = sb.logs(p["pid"], "?follow=1")
    assert "".join(e.get("data", "") for e in log) == "old" * 1000
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(agent.socket))
        s.sendall((f"PUT {sb.prefix}/{at('write', 'f')} HTTP/1.1\r\n"
                   f"Host: x\r\nX-Sandbox-Token: {sb.token}\r\n"
                   "Content-Length: 1000\r\n\r\nhalf").encode())
        until(lambda: len(os.listdir(sb.home)) == 5, "it has begun")
    until(lambda: sorted(os.listdir(sb.home)) == [".sbx", ".tmp", "f", "go"],
          "nothing is left of it")
    assert read(sb, "f") == (200, b"new")


@root
def test_in_place(sb):
    write(sb, "f", b"0123456789")
    assert write(sb, "f", b"AB", offset=4) == (200, {"path": "f", "size": 2})
    assert read(sb, "f")[1] == b"0123AB6789"
    assert write(sb, "g/new", b"xy", offset=3)[0] == 200
    assert read(sb, "g/new")[1] == b"\0\0\0xy"


@root
def test_ranges(sb):
    write(sb, "f", b"0123456789")
    assert read(sb, "f", offset=3)[1] == b"3456789"
    assert read(sb, "f", offset=3, length=2)[1] == b"34"
    assert read(sb, "f", offset=8, length=100) == (200, b"89")
    assert read(sb, "f", offset=10) == (200, b"")
    assert read(sb, "f", offset=11)[0] == 416
    assert read(sb, "f", offset="x")[0] == 400

    def ranged(value):
        r = sb.send("GET", at("read", "f"), headers={"Range": value})
        return r.status, r.getheader("Content-Range"), r.read()

    assert ranged("bytes=2-4") == (206, "bytes 2-4/10", b"234")
    assert ranged("bytes=7-") == (206, "bytes 7-9/10", b"789")
    assert ranged("bytes=-3") == (206, "bytes 7-9/10", b"789")
    assert ranged("bytes=5-99") == (206, "bytes 5-9/10", b"56789")
    assert ranged("bytes=10-")[:2] == (416, "bytes */10")
    for ignored in ("bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes=-"):
        assert ranged(ignored)[0] == 200


@root
def test_stat(sb):
    write(sb, "d/f", b"12345", mode="640")
    sb.exec("ln -s f d/l; mkfifo d/p")
    keys = {"name", "path", "type", "size", "mtime_ms", "mode"}
    status, got = sb.call("GET", at("stat", "/d/f"))
    assert status == 200 and set(got) == keys
    mtime = got.pop("mtime_ms")
    assert got == {"name": "f", "path": "/d/f", "type": "file", "size": 5,
                   "mode": "640"}
    assert abs(mtime - os.stat(f"{sb.home}/d/f").st_mtime_ns // 10**6) <= 1
    assert sb.call("GET", at("stat", "d"))[1]["type"] == "dir"
    assert sb.call("GET", at("stat", "d/l"))[1]["type"] == "symlink"
    assert sb.call("GET", at("stat", "nowhere"))[0] == 404
    assert sb.call("GET", at("stat", "d/f/g"))[0] == 404
    assert sb.call("GET", "files/stat")[0] == 400


@root
def test_list(sb):
    for name in ("b", "a", "c d", "\u00e9"):
        write(sb, f"d/{name}", b"x")
    sb.exec("mkdir d/sub; ln -s a d/link")
    status, got = sb.call("GET", at("list", "/d"))
    assert status == 200
    assert [e["name"] for e in got["entries"]] == [
        "a", "b", "c d", "link", "sub", "\u00e9"]
    assert [e["type"] for e in got["entries"]] == [
        "file", "file", "file", "symlink", "dir", "file"]
    # A listed path can be used again.
    for e in got["entries"]:
        assert sb.call("GET", at("stat", e["path"])) == (200, e)
    assert [e["path"] for e in sb.call("GET", at("list", "d/"))[1][
        "entries"]][0] == "d/a"
    names = [e["name"] for e in sb.call("GET", at("list", "/"))[1]["entries"]]
    assert names == [".sbx", ".tmp", "d"]
    assert sb.call("GET", at("list", "nowhere"))[0] == 404
    assert sb.call("GET", at("list", "d/a"))[0] == 404


@root
def test_delete(sb):
    write(sb, "d/e/f", b"x")
    write(sb, "f", b"x")
    sb.exec("ln -s d link")
    assert sb.call("DELETE", at("delete", "f")) == (200, {"deleted": "f"})
    assert sb.call("DELETE", at("delete", "f"))[0] == 404
    assert sb.call("DELETE", at("delete", "d"))[0] == 409
    assert sb.call("DELETE", at("delete", "link", recursive="true"))[0] == 200
    assert read(sb, "d/e/f")[0] == 200
    assert sb.call("DELETE", at("delete", "d", recursive="1"))[0] == 200
    assert read(sb, "d/e/f")[0] == 404
    for bad in ("/", ".", "..", "d/..", sb.home):
        assert sb.call("DELETE", at("delete", bad, recursive="1"))[0] in (
            400, 404)
    assert os.path.isdir(sb.home)


@root
def test_mkdir(sb):
    for _ in range(2):
        assert sb.call("POST", at("mkdir", "/a/b/c")) == (
            200, {"created": "/a/b/c"})
    assert sb.exec("stat -c %u a/b/c").out == f"{sb.uid}\n"
    write(sb, "f", b"x")
    assert sb.call("POST", at("mkdir", "f/g"))[0] == 404
    assert sb.call("POST", at("mkdir", "f"))[0] in (404, 409)


@root
def test_not_files(sb):
    """Never a hang."""
    sb.exec("mkfifo p; mkdir d; /usr/bin/python3 -c 'import socket; "
            "socket.socket(socket.AF_UNIX).bind(\"s\")'")
    for path in "ps":
        assert read(sb, path)[0] == 400
        assert write(sb, path, b"x")[0] == 400
        assert write(sb, path, b"x", offset=0)[0] == 400
    assert read(sb, "d")[0] == 409
    assert write(sb, "d", b"x")[0] == 409
    assert read(sb, "nowhere")[0] == 404


@root
def test_no_way_out(agent, sb):
    other = agent.create()
    write(other, "secret", b"secret")
    other.exec("chmod 777 . secret")
    sb.exec(f"""
        ln -s /etc/passwd abs; ln -s ../../../../../../etc/passwd rel
        ln -s /etc etc; ln -s {other.home} other; ln -s .. up
        ln -s /proc/self/root proc; ln -s {agent.homes} homes
        ln -s /etc/cron.d/x dangling
    """)
    passwd = open("/etc/passwd", "rb").read()
    for path in ("abs", "rel", "etc/passwd", "other/secret",
                 "../../../etc/passwd", "/../../etc/passwd", "up/up/etc",
                 f"up/{other.id}/secret", "proc/etc/passwd",
                 f"homes/{other.id}/secret", "/etc/passwd",
                 f"{other.home}/secret"):
        status, got = read(sb, path)
        assert status in (400, 404), (path, status, got)
        assert got != passwd and got != b"secret"
    for path in ("etc/sbx-x", "other/x", "../x", "up/x", "homes/x"):
        write(sb, path, b"x")
        write(sb, path, b"x", offset=0)
        sb.call("POST", at("mkdir", path + "-dir"))
        assert not os.path.exists("/etc/sbx-x")
        assert not os.path.exists(f"{other.home}/x")
        assert not os.path.exists(f"{agent.homes}/x")
    write(sb, "dangling", b"x", offset=0)
    assert not os.path.exists("/etc/cron.d/x")
    assert sb.call("DELETE", at("delete", "other/secret"))[0] in (400, 404)
    assert sb.call("DELETE", at("delete", "etc/passwd"))[0] in (400, 404)
    assert os.path.exists("/etc/passwd")
    assert read(other, "secret")[0] == 200
    other.delete()


@root
def test_races_lead_nowhere(agent, sb):
    """A directory and a symlink change places all the time."""
    other = agent.create()
    write(other, "secret", b"secret")
    other.exec("chmod -R 777 .")
    p = sb.start(["/usr/bin/python3", "-c", f"""
import os
os.mkdir("d"); open("d/secret", "w").write("mine")
os.symlink({other.home!r}, "l")
while True:
    os.rename("d", "t"); os.rename("l", "d")
    os.rename("d", "l"); os.rename("t", "d")
"""])
    until(lambda: os.path.islink(f"{sb.home}/l"), "it goes")
    got = []
    end = time.monotonic() + 10
    while time.monotonic() < end and (
            len(got) < 300 or (200, b"mine") not in got):
        got.append(read(sb, "d/secret"))
        write(sb, f"d/x{len(got)}", b"x", mkdir="0")
    assert {s for s, _ in got} <= {200, 400, 404}
    assert {d for s, d in got if s == 200} == {b"mine"}, sb.logs(p["pid"])
    assert [n for n in os.listdir(other.home) if n.startswith("x")] == []
    other.delete()


@root
def test_acts_as_its_user(sb):
    """What its own processes may not do, the routes may not either."""
    sb.exec("mkdir ro; echo x > ro/f; chmod 555 ro; echo x > none; "
            "chmod 000 none")
    assert write(sb, "ro/g", b"x")[0] == 400
    assert sb.call("DELETE", at("delete", "ro/f"))[0] == 400
    assert read(sb, "none")[0] == 400


@root
def test_odd_names(sb):
    for name in ("new\nline", "per%cent", "pl+us & amp", "\u20ac", "-rf",
                 "x" * 255):
        assert write(sb, name, name.encode())[0] == 200
        assert read(sb, name)[1] == name.encode()
    assert write(sb, "x" * 256, b"")[0] == 400
    assert sb.call("GET", "files/read?path=a%00b")[0] == 400
    assert sb.call("GET", "files/read?path=" + "a/" * 3000)[0] == 400


def test_dedicated(tmp):
    with Agent(tmp, host=False) as a:
        s = Scope(a, "/v1", a.token)
        assert write(s, f"{tmp}/d/f", b"data")[0] == 200
        assert (tmp / "d/f").read_bytes() == b"data"
        status, got = read(s, "/proc/self/status")
        assert status == 200 and got.startswith(b"Name:")
        assert read(s, "/dev/zero")[0] == 400
        assert s.call("GET", at("list", f"{tmp}/d"))[1]["entries"][0][
            "path"] == f"{tmp}/d/f"
        assert s.call("DELETE", at("delete", f"{tmp}/d",
                                   recursive="1"))[0] == 200
        assert not (tmp / "d").exists()
