# SPDX-License-Identifier: Apache-2.0
"""sbx-agent's file routes against a hostile sandbox: every way that might lead
out of its home, and every way to stop the others."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
import urllib.parse

import pytest

from agent_support import Agent, Scope, at
from support import paths
from support.wait import until

root = pytest.mark.root
pytestmark = root

PYTHON = "/usr/bin/python3"
SECRET = b"the other one's"


@pytest.fixture
def sb(agent):
    sb = agent.create()
    yield sb
    agent.delete(sb.prefix)


# Each route that takes a path, as (status, body).
ROUTES = {
    "read": lambda s, p, **kw: s.call("GET", at("read", p), **kw),
    "write": lambda s, p, **kw: s.call("PUT", at("write", p), b"evil", **kw),
    "put": lambda s, p, **kw: s.call("PUT", at("write", p, offset=0),
                                     b"evil", **kw),
    "list": lambda s, p, **kw: s.call("GET", at("list", p), **kw),
    "stat": lambda s, p, **kw: s.call("GET", at("stat", p), **kw),
    "mkdir": lambda s, p, **kw: s.call("POST", at("mkdir", p), **kw),
    "delete": lambda s, p, **kw: s.call(
        "DELETE", at("delete", p, recursive=1), **kw),
}


def write(sb, path, data, **query):
    return sb.call("PUT", at("write", path, **query), data)


def read(sb, path, **query):
    return sb.call("GET", at("read", path, **query))


def tree(path):
    """All that can be seen of it; nothing in it may change."""
    out = {}
    for d, dirs, files in os.walk(path):
        for n in dirs + files:
            p = os.path.join(d, n)
            st = os.lstat(p)
            out[p] = (st.st_ino, st.st_mode, st.st_uid, st.st_size,
                      open(p, "rb").read() if stat.S_ISREG(st.st_mode)
                      else None)
    return out


@pytest.fixture
def victim(agent, sb):
    """Another sandbox that guards nothing: only the agent can."""
    other = agent.create()
    other.exec("mkdir -p d/e; printf %s \"the other one's\" > secret; "
               "cp secret d/secret; chmod -R a+rwX .; chmod 777 .")
    before = tree(other.home)
    yield other
    assert tree(other.home) == before
    agent.delete(other.prefix)


def leaks(body):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    return SECRET in body or b"root:x:0:0" in body or b"secret" in body


# --- ways out ---------------------------------------------------------------

def test_links(agent, sb, victim):
    h = victim.home
    assert sb.exec(f"""
        ln -s {h} abs; ln -s ../{victim.id} rel; ln -s abs chain1
        ln -s chain1 chain2; ln -s {h}/secret file; ln -s file file2
        ln -s /proc/self/root proc; ln -s /proc/self/cwd cwd
        ln -s /proc/{agent.proc.pid}/root agent; ln -s / top
        ln -s ../../../../../../../../../.. up; mkdir in; ln -s .. in/out
        ln -s loop loop; ln -s {h}/new dangling
    """).code == 0
    ways = [f"{d}/secret" for d in ("abs", "rel", "chain1", "chain2")]
    ways += ["file", "file2", f"proc{h}/secret", f"cwd/../{victim.id}/secret",
             f"agent{h}/secret", f"top{h}/secret", f"up{h}/secret",
             f"in/out/../{victim.id}/secret", f"../{victim.id}/secret",
             f"/../{victim.id}/secret", f"{h}/secret", "loop/secret",
             "abs/d", "abs/d/secret", "rel/d/e", "dangling", "dangling/x",
             "abs/secret/", "abs//secret", "./abs/./secret"]
    links = ("file", "file2", "dangling")
    for way in ways:
        for name in ("read", "list", "stat"):
            status, body = ROUTES[name](sb, way)
            if way in links and name == "stat":  # the link is its own
                assert status == 200 and body["type"] == "symlink"
            else:
                assert status in (400, 404), (way, name, status, body)
    # Some of these lead to places in its own home, where it may write. The
    # victim, and what is around the homes, must not change.
    around = sorted(os.listdir(agent.homes))
    for way in ways:
        for name in ("put", "mkdir", "write", "delete"):
            assert ROUTES[name](sb, way)[0] in (200, 400, 404, 409)
    assert sorted(os.listdir(agent.homes)) == around


@pytest.mark.parametrize("route", ROUTES)
def test_rename_races(agent, sb, victim, route):
    """A directory and a link change places while the route is asked."""
    sb.start([PYTHON, "-c", f"""
import os
os.makedirs("d/e"); open("d/secret", "w").write("mine")
os.symlink({victim.home!r}, "l")
open("ready", "w")
while True:
    try:
        os.rename("d", "t"); os.rename("l", "d")
        os.rename("d", "l"); os.rename("t", "d")
    except OSError:
        for n in ("d", "l", "t"):
            os.path.islink(n) and os.unlink(n)
        os.path.lexists("l") or os.symlink({victim.home!r}, "l")
        os.makedirs("d/e", exist_ok=True)
"""])
    until(lambda: os.path.exists(f"{sb.home}/ready"), "it goes")
    conn = agent.connection()
    fn, seen = ROUTES[route], set()
    for i in range(500):
        path = ("d/secret", "d/d", "d/e")[i % 3] + (
            f"{i}" if route in ("write", "put", "mkdir") else "")
        status, body = fn(sb, path, conn=conn)
        seen.add(status)
        assert not (status == 200 and route == "read" and body == SECRET)
        if status == 200 and route == "list":
            assert not leaks(body), body
    assert seen <= {200, 400, 404, 409}, seen
    conn.close()


def test_links_in_the_way_of_an_upload(sb, victim):
    """A temporary file is taken away and a link put in its place."""
    sb.start([PYTHON, "-c", f"""
import os
open("ready", "w")
while True:
    for n in os.listdir("."):
        if n.startswith(".sbx-upload"):
            try:
                os.unlink(n); os.symlink("{victim.home}/secret", n)
            except OSError:
                pass
"""])
    until(lambda: os.path.exists(f"{sb.home}/ready"), "it goes")
    for _ in range(100):
        assert write(sb, "f", b"x" * 300_000)[0] in (200, 404)


def test_other_kinds_of_files(agent, sb):
    """Neither a hang nor a door."""
    home = pathlib.Path(sb.home)
    sb.exec(f"{PYTHON} -c 'import socket; "
            "socket.socket(socket.AF_UNIX).bind(\"sock\")'; mkfifo fifo")
    sb.start("exec 3<>fifo; exec sleep 1000")  # it has a reader and a writer
    for name, major, minor in (("null", 1, 3), ("zero", 1, 5)):
        os.mknod(home / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        os.chmod(home / name, 0o666)
    for name in ("sock", "fifo", "null", "zero"):
        for route in ("read", "write", "put"):
            status, got = ROUTES[route](sb, name)
            assert (status, got["code"]) == (400, "not_a_file"), (name, route)
        assert ROUTES["stat"](sb, name)[0] == 200
        assert ROUTES["list"](sb, name)[0] in (400, 404)
        assert ROUTES["delete"](sb, name)[0] == 200


def test_hard_links(agent, sb):
    """What root linked into a home is still not the sandbox's."""
    home, outside = pathlib.Path(sb.home), agent.homes / "outside"
    outside.write_bytes(SECRET)
    outside.chmod(0o600)
    os.link(outside, home / "hard")
    assert ROUTES["read"](sb, "hard")[0] == 400
    assert ROUTES["put"](sb, "hard")[0] == 400
    assert ROUTES["write"](sb, "hard")[0] == 200  # a new one in its place
    assert outside.read_bytes() == SECRET and outside.stat().st_nlink == 1
    outside.unlink()
    # Its own names of one file part when one gets a new content.
    sb.exec("echo old > a; ln a b")
    assert write(sb, "a", b"new")[0] == 200
    assert read(sb, "b")[1] == b"old\n"


def test_mounts(tmp):
    """Something mounted into a home is not its own."""
    with Agent(tmp, prefix=["unshare", "-m"]) as a:
        sb = a.create()
        sb.exec("mkdir m")
        inside = ["nsenter", "-m", "-t", str(a.proc.pid)]
        subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", "mode=777",
                        "none", f"{sb.home}/m"], check=True)
        subprocess.run([*inside, "sh", "-c",
                        f"echo x > {sb.home}/m/f; chmod 666 {sb.home}/m/f"],
                       check=True)
        for name, route in ROUTES.items():
            status, got = route(sb, "m/f")
            assert (status, got["code"]) == (400, "denied"), (name, got)
        subprocess.run([*inside, "umount", f"{sb.home}/m"], check=True)
        sb.delete()


def test_it_is_its_user(sb):
    """Also with a set-group-id directory and a file of its group."""
    sb.exec("mkdir -m 2770 g; mkdir ro; echo x > ro/f; chmod 500 ro; "
            "echo x > no; chmod 0 no")
    assert write(sb, "g/f", b"x")[0] == 200
    st = os.stat(f"{sb.home}/g/f")
    assert (st.st_uid, st.st_gid) == (sb.uid, sb.uid)
    for name in ("write", "mkdir"):
        assert ROUTES[name](sb, "ro/new")[0] == 400
    assert ROUTES["delete"](sb, "ro/f")[0] == 400
    assert ROUTES["read"](sb, "no")[0] == ROUTES["put"](sb, "no")[0] == 400


# --- names and depths -------------------------------------------------------

ODD = ["new\nline", "quo\"te'", "back\\slash", "tab\t", "*?[]", "-rf", "~",
       "\u20ac\U0001f600", "x" * 255]
NOT_TEXT = [b"\xff", b"a\xfe\x80b", b"\xc3", b"\xed\xb2\x80", b"\xf0\x9f\x98",
            b"\xff\xff" * 100]


def test_odd_names(sb):
    home = os.fsencode(sb.home)
    os.makedirs(home + b"/d")
    names = [n.encode() for n in ODD] + NOT_TEXT
    for n in names:
        with open(home + b"/d/" + n, "wb") as f:
            f.write(n)
    sb_owns = ["chown", "-R", f"{sb.uid}:{sb.uid}", sb.home]
    subprocess.run(sb_owns, check=True)
    status, got = ROUTES["list"](sb, "d")
    assert status == 200 and len(got["entries"]) == len(names)
    seen = set()
    for e in got["entries"]:
        e["path"].encode()  # any client can send it
        assert ROUTES["stat"](sb, e["path"]) == (200, e)
        status, data = read(sb, e["path"])
        assert status == 200
        seen.add(data)
        assert write(sb, e["path"], data * 2, offset=0)[0] == 200
        assert write(sb, e["path"], data * 3)[0] == 200
        with open(home + b"/d/" + data, "rb") as f:
            assert f.read() == data * 3
    assert seen == set(names)
    # The very bytes do as well.
    for n in NOT_TEXT:
        raw = "files/read?path=d/" + urllib.parse.quote(n)
        assert sb.call("GET", raw) == (200, n * 3)
    # A directory's name on the way, and a new name below it.
    os.mkdir(home + b"/\xff\xfe")
    subprocess.run(sb_owns, check=True)
    shown = [e["path"] for e in ROUTES["list"](sb, ".")[1]["entries"]
             if e["type"] == "dir" and "d" not in e["name"]]
    odd = next(p for p in shown if "\uefff" in p)
    assert write(sb, odd + "/new", b"x")[0] == 200
    assert ROUTES["mkdir"](sb, odd + "/\uefff")[0] == 200
    assert sorted(os.listdir(home + b"/\xff\xfe")) == [
        b"new", "\uefff".encode()]
    for e in ROUTES["list"](sb, "d")[1]["entries"]:
        assert ROUTES["delete"](sb, e["path"])[0] == 200
    assert os.listdir(home + b"/d") == []


def test_deep(sb):
    """Deeper than any path can say."""
    assert sb.exec([PYTHON, "-c", """
import os
for _ in range(3000):
    os.mkdir("deep"); os.chdir("deep")
"""]).code == 0
    for name, route in ROUTES.items():
        assert route(sb, "deep/" * 900 + "x" * 300)[0] == 400, name
    assert ROUTES["stat"](sb, "deep/" * 700)[0] == 200
    assert ROUTES["delete"](sb, "deep")[0] == 200
    assert "deep" not in os.listdir(sb.home)


def test_many_files(agent, sb):
    """A long listing is streamed: who does not read it costs no memory."""
    n = 20_000
    assert sb.exec([PYTHON, "-c", f"""
import os
os.mkdir("many")
for i in range({n}):
    open("many/" + "%0200d" % i, "w").close()
"""]).code == 0

    def rss():
        text = pathlib.Path(f"/proc/{agent.proc.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    before = rss()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(agent.socket))
        s.sendall((f"GET {sb.prefix}/{at('list', 'many')} HTTP/1.1\r\n"
                   f"Host: x\r\nX-Sandbox-Token: {sb.token}\r\n\r\n").encode())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        if not paths.SANITIZED:
            assert rss() - before < 12 * 1024
        other = agent.create()
        assert other.exec("echo ok").out == "ok\n"
        other.delete()
    status, got = ROUTES["list"](sb, "many")
    assert status == 200
    assert [e["name"] for e in got["entries"]] == [
        "%0200d" % i for i in range(n)]
    assert ROUTES["delete"](sb, "many")[0] == 200


# --- disks ------------------------------------------------------------------

def on_small_disk(tmp, options, fs="tmpfs"):
    """An agent whose homes are on a disk of their own."""
    (tmp / "homes").mkdir()
    return Agent(tmp, prefix=["unshare", "-m", "sh", "-c",
                              f"mount -t {fs} -o {options} "
                              f"'{tmp}/homes' && exec \"$@\"", "sh"])


def names(sb, path="."):
    return [e["name"] for e in ROUTES["list"](sb, path)[1]["entries"]]


def chunked(n):
    return iter([b"x" * 65536] * (n // 65536))


def test_full_disk(tmp):
    with on_small_disk(tmp, "size=8m none") as a:
        sb, other = a.create(), a.create()
        assert write(sb, "f", b"old")[0] == 200
        for body in (b"x" * (16 << 20), chunked(16 << 20)):
            status, got = write(sb, "f", body)
            assert (status, got["code"]) == (507, "no_space")
            assert read(sb, "f") == (200, b"old")
            assert names(sb) == [".sbx", ".tmp", "f"]
        assert write(sb, "new/g", b"x" * (16 << 20))[0] == 507
        assert names(sb, "new") == []
        assert write(sb, "h", b"x" * (16 << 20), offset=0)[0] == 507
        # Full by its own doing: it can be told, and can make room.
        assert write(other, "f", b"x")[0] == 507
        assert sb.exec("echo still there").out == "still there\n"
        assert ROUTES["delete"](sb, "h")[0] == 200
        assert write(other, "f", b"x")[0] == 200
        other.delete()
        sb.delete()


def test_what_is_kept_in_reserve(tmp):
    """Root may take the last blocks of a disk and exceed quotas, for which it
    needs the same capability; the agent must not for a sandbox."""
    image = tmp / "image"
    with open(image, "wb") as f:
        f.truncate(16 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-m", "50", str(image)],
                   check=True)
    probe = subprocess.run(["unshare", "-m", "mount", "-o", "loop",
                            str(image), "/mnt"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no loop devices here")
    with on_small_disk(tmp, f"loop '{image}'", fs="ext4") as a:
        sb = a.create()
        for query in ({}, {"offset": 0}):
            status, got = write(sb, "g", b"x" * (10 << 20), **query)
            assert (status, got["code"]) == (507, "no_space")
        assert write(sb, "f", b"x" * (1 << 20))[0] == 507
        assert ROUTES["delete"](sb, "g")[0] == 200
        assert write(sb, "f", b"x" * (1 << 20))[0] == 200
        sb.delete()


def test_read_only_disk(tmp):
    (tmp / "ro").mkdir()
    (tmp / "ro/f").write_bytes(b"x")
    ro = f"'{tmp}/ro'"
    with Agent(tmp, host=False, prefix=[
            "unshare", "-m", "sh", "-c",
            f"mount --bind {ro} {ro} && mount -o remount,bind,ro {ro} && "
            'exec "$@"', "sh"]) as a:
        s = Scope(a, "/v1", a.token)
        for name, want in (("read", 200), ("stat", 200), ("list", 200),
                           ("write", 400), ("put", 400), ("mkdir", 400),
                           ("delete", 400)):
            path = f"{tmp}/ro" + {"list": "", "mkdir": "/d"}.get(name, "/f")
            status, got = ROUTES[name](s, path)
            assert status == want, name
            assert status == 200 or got["code"] == "read_only"
    assert os.listdir(tmp / "ro") == ["f"]


def test_file_size_limit(agent):
    sb = agent.create(max_file_mb=1)
    mib = b"x" * (1 << 20)
    assert write(sb, "f", mib)[0] == 200
    for body, query in ((mib + b"x", {}), (chunked(2 << 20), {}),
                        (b"xx", {"offset": (1 << 20) - 1}),
                        (iter([b"xx"]), {"offset": (1 << 20) - 1}),
                        (b"x", {"offset": 1 << 62})):
        status, got = write(sb, "f", body, **query)
        assert (status, got["code"]) == (413, "too_large")
    assert read(sb, "f") == (200, mib)
    assert names(sb) == [".sbx", ".tmp", "f"]
    assert sb.exec("head -c 2000000 /dev/zero > g; stat -c %s g"
                   ).out == "1048576\n"
    assert agent.post("/v1/sandboxes", {"max_file_mb": -1})[0] == 400
    sb.delete()


def test_file_size_limit_of_the_agent(tmp):
    """A signal comes with it; nobody dies of it."""
    with Agent(tmp, host=False, prefix=["prlimit", "--fsize=1048576"]) as a:
        s = Scope(a, "/v1", a.token)
        status, got = write(s, f"{tmp}/f", chunked(2 << 20))
        assert (status, got["code"]) == (413, "too_large")
        assert not (tmp / "f").exists()
        assert write(s, f"{tmp}/f", b"x")[0] == 200


# --- stopping the others ----------------------------------------------------

def test_leases(agent, sb):
    """Who opens a leased file waits for its holder, 45 s long."""
    sb.start([PYTHON, "-c", """
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open("leased", os.O_RDWR | os.O_CREAT)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open("ready", "w")
time.sleep(1000)
"""])
    until(lambda: os.path.exists(f"{sb.home}/ready"), "it is leased")
    for route in ("read", "put"):
        status, got = ROUTES[route](sb, "leased")
        assert (status, got["code"]) == (409, "busy"), route
    assert ROUTES["stat"](sb, "leased")[0] == 200
    assert ROUTES["write"](sb, "leased")[0] == 200


FUSE = """
import ctypes, os, socket, sys
target, sock = sys.argv[1:3]
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"none", target.encode(), b"fuse", 6, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sock)
    socket.send_fds(s, [b"x"], [fd])
os.execv(sys.argv[3], sys.argv[3:])
"""


def test_a_disk_that_hangs(tmp):
    """A file system that never answers stops nobody else."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse: nothing here can hang on purpose")
    (tmp / "hung").mkdir()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp / "s"))
        s.listen()
        with Agent(tmp, host=False, prefix=[
                "unshare", "-m", PYTHON, "-c", FUSE, str(tmp / "hung"),
                str(tmp / "s")]) as a:
            c, _ = s.accept()
            fd = socket.recv_fds(c, 1, 1)[1][0]
            c.close()
            scope = Scope(a, "/v1", a.token)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                hung = [pool.submit(ROUTES[r], scope, f"{tmp}/hung/f")
                        for r in ("read", "write", "list", "stat", "mkdir",
                                  "delete") * 2]
                try:
                    for i in range(20):
                        assert write(scope, f"{tmp}/f", b"%d" % i)[0] == 200
                        assert read(scope, f"{tmp}/f") == (200, b"%d" % i)
                    assert scope.exec("echo ok").out == "ok\n"
                    assert not any(f.done() for f in hung)
                finally:
                    os.close(fd)  # the file system is gone
                for f in hung:
                    status, got = f.result(30)
                    assert status in (404, 500), got
            assert read(scope, f"{tmp}/f")[0] == 200


def test_who_does_not_read(agent, sb):
    """Sixty downloads that stand still, and uploads without an end."""
    assert write(sb, "big", b"x" * (8 << 20))[0] == 200
    other = agent.create()
    fds = agent.fds()
    conns = []
    for i in range(60):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(agent.socket))
        what = (f"GET {sb.prefix}/{at('read', 'big')} HTTP/1.1\r\n" if i % 2
                else f"PUT {sb.prefix}/{at('write', f'u{i}')} HTTP/1.1\r\n"
                "Content-Length: 9999999\r\n")
        s.sendall((f"{what}Host: x\r\nX-Sandbox-Token: {sb.token}\r\n\r\n"
                   + ("" if i % 2 else "begin")).encode())
        conns.append(s)
    for i in range(50):
        assert write(other, "f", b"%d" % i)[0] == 200
        assert read(other, "f") == (200, b"%d" % i)
    until(lambda: sum(n.startswith(".sbx-upload") for n in
                      os.listdir(sb.home)) == 30, "all have begun")
    for s in conns:
        s.close()
    until(lambda: sorted(os.listdir(sb.home)) == [".sbx", ".tmp", "big"],
          "nothing is left of the uploads")
    until(lambda: agent.fds() <= fds, "no descriptor is left")
    other.delete()


def test_a_sandbox_that_ends_meanwhile(agent):
    """Its uploads end with it, and nothing of its home stays."""
    sb = agent.create()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(agent.socket))
        s.sendall((f"PUT {sb.prefix}/{at('write', 'f')} HTTP/1.1\r\nHost: x\r\n"
                   f"X-Sandbox-Token: {sb.token}\r\n"
                   "Content-Length: 1000\r\n\r\nbegin").encode())
        until(lambda: len(os.listdir(sb.home)) == 3, "it has begun")
        assert sb.delete()[0] == 200
        assert not os.path.exists(sb.home)
        s.sendall(b"x" * 995)
        reply = http.client.HTTPResponse(s)
        reply.begin()
        assert reply.status == 404
        assert json.loads(reply.read())["code"] == "no_such_sandbox"
    assert not os.path.exists(sb.home)


def test_log_flood(agent, sb):
    """A background process that never stops writing."""
    p = sb.start("head -c 268435456 /dev/zero | tr '\\0' 'x'; echo; echo end")
    other = agent.create()
    for i in range(100):
        assert write(other, "f", b"%d" % i)[0] == 200
        assert other.exec("cat f").out == f"{i}"
    assert sb.wait(p["pid"])["exit_code"] == 0
    log = sb.logs(p["pid"])
    data = "".join(e.get("data", "") for e in log)
    assert data.endswith("x\nend\n") and len(data) <= 4 << 20
    other.delete()


def test_parallel_ranges(sb):
    """Sixteen connections make and read one file."""
    data = os.urandom(9_000_001)
    step = 1 << 18

    def put(off):
        piece = data[off:off + step]
        assert write(sb, "big", piece, offset=off) == (
            200, {"path": "big", "size": len(piece)})

    def get(off):
        status, piece = read(sb, "big", offset=off, length=step)
        assert status == 200
        return piece

    offsets = range(0, len(data), step)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(put, reversed(offsets)))
        assert b"".join(pool.map(get, offsets)) == data
    assert read(sb, "big")[1] == data


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
