# SPDX-License-Identifier: Apache-2.0
"""sbx-agent in host mode: what one sandbox can do to another, to the agent and
to the machine. Each test fails when the door that it tries opens."""

import os
import pathlib
import shutil
import signal
import socket
import tempfile

import pytest

from agent_support import (NO_NAMESPACES, Agent, needs_namespaces,
                           processes_of)
from support import paths
from support.wait import until

pytestmark = [pytest.mark.root, needs_namespaces]

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def homes():
    """Not beneath /tmp, so that sandboxes get a /tmp of their own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="sbx-e2e-", dir="/var/lib"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def agent(module_tmp, homes):
    with Agent(module_tmp, SBX_HOMES=homes / "a") as a:
        yield a


@pytest.fixture
def pair(agent):
    """Two sandboxes, the victim first."""
    victim, other = agent.create(), agent.create()
    yield victim, other
    victim.delete()
    other.delete()


def outside(sb):
    """The processes of a sandbox as root sees them."""
    return processes_of(sb.uid)


def python(sb, code, **req):
    return sb.exec([PYTHON, "-c", code], **req)


# --- processes --------------------------------------------------------------

def test_processes_are_hidden(agent, pair):
    """Neither numbers nor command lines nor environments of others; its own
    pids are those that the API tells."""
    victim, other = pair
    p = victim.start("SECRET=hunter2; export SECRET; exec sleep 4242")
    until(lambda: outside(victim), "it runs")
    got = other.exec("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ "
                     "2>/dev/null | tr '\\0' ' '; ls /proc")
    assert "4242" not in got.out and "hunter2" not in got.out
    pids = [int(n) for n in got.out.split() if n.isdigit()]
    assert 1 in pids and len(pids) < 10, got.out
    got = victim.exec(f"tr '\\0' ' ' </proc/{p['pid']}/cmdline; echo $$")
    assert got.out.split() == ["sleep", "4242", str(got.pid)]
    # Process 1 is the agent's: nothing of it is to be had.
    got = other.exec("cat /proc/1/environ /proc/1/maps; ls -l /proc/1/fd "
                     "/proc/1/exe /proc/1/root; kill -9 1; kill -STOP 1 || echo no")
    assert got.err.count("enied") == 5 and got.out.endswith("no\n"), got.err
    assert "->" not in got.out
    assert "SBX_" not in other.exec("cat /proc/1/cmdline").out


def test_signals_and_ptrace(agent, pair):
    """By the numbers of the machine, by those of the sandbox, and to all."""
    victim, other = pair
    victim.start("exec sleep 4243")
    until(lambda: outside(victim), "it runs")
    target = outside(victim)[0]
    code = f"""
import ctypes, os, signal
c = ctypes.CDLL(None, use_errno=True)
for pid in ({target}, {agent.proc.pid}, {os.getpid()}, 1):
    for act in (lambda: os.kill(pid, 0), lambda: os.kill(pid, 9),
                lambda: os.pidfd_open(pid) and 1/(pid != 1)):
        try:
            act()
            print("reached", pid)
        except (OSError, ZeroDivisionError):
            pass
    if c.ptrace(16, pid, 0, 0) == 0:
        print("traced", pid)
"""
    got = python(other, code)
    assert (got.out, got.code) == ("", 0), got.err
    other.exec("kill -9 -1")
    assert outside(victim) == [target] and agent.proc.poll() is None
    assert other.exec("echo alive").out == "alive\n"


def test_fork_bomb(agent, pair):
    """It fills its own limit only, and dies with its sandbox."""
    _, other = pair
    bomb = agent.create(max_procs=40)
    bomb.start([PYTHON, "-c", "import os\nwhile True:\n"
                "    try: os.fork()\n    except OSError: pass"])
    until(lambda: len(outside(bomb)) >= 39, "it is full", 20 * paths.SLOW)
    assert len(outside(bomb)) <= 40
    assert other.exec("echo calm | cat").out == "calm\n"
    assert bomb.delete()[0] == 200
    assert outside(bomb) == []


def test_delete_is_complete(agent):
    """Whatever detached itself, stopped, or ignores all signals."""
    sb = agent.create()
    sb.start("trap '' TERM INT HUP; setsid sleep 5000 & kill -STOP $$")
    sb.exec("(setsid nohup sleep 5001 >/dev/null 2>&1 &)")
    until(lambda: len(outside(sb)) >= 3, "they run")
    assert sb.delete()[0] == 200
    assert outside(sb) == []


def test_killed_process_one(agent):
    """Whoever kills process 1 (the machine's operator) ends the sandbox."""
    before = {pid for pid, _ in agent.children("sbx-init")}
    sb = agent.create()
    sb.start("exec sleep 5002")
    one, = {pid for pid, _ in agent.children("sbx-init")} - before
    os.kill(one, signal.SIGKILL)
    until(lambda: sb.call("GET", "processes")[0] in (403, 404), "it is gone")
    until(lambda: outside(sb) == [], "its processes too")


def test_killed_agent(tmp, homes):
    """Nothing outlives it, however it ends."""
    with Agent(tmp, SBX_HOMES=homes / "k") as a:
        sb = a.create()
        sb.exec("setsid sleep 5003 >/dev/null 2>&1 &")
        ones = [pid for pid, _ in a.children("sbx-init")]
        assert len(outside(sb)) == 1 and len(ones) == 1
        a.proc.kill()
        a.proc.wait()
        until(lambda: outside(sb) == [], "its processes are gone")
        until(lambda: not os.path.exists(f"/proc/{ones[0]}"), "and process 1")
        a.proc.returncode = 0


# --- files ------------------------------------------------------------------

@pytest.mark.parametrize("where", ["/tmp", "/var/tmp", "/dev/shm"])
def test_private_directories(agent, pair, where):
    """Usable, its own, and gone with it."""
    victim, other = pair
    name = f"sbx-test-{os.getpid()}"
    got = victim.exec(f"umask 0; echo secret > {where}/{name}; "
                      f"cat {where}/{name}")
    assert got.out == "secret\n", got.err
    got = other.exec(f"ls -a {where}; cat {where}/{name}")
    assert name not in got.out and "No such file" in got.err
    assert not os.path.exists(f"{where}/{name}")
    if where != "/dev/shm":
        assert victim.exec(f"cat $HOME/.tmp/{name}").out == "secret\n"


def test_other_homes(pair):
    """By path, by the descriptors of others, and by hard link; even when its
    owner lets everybody in."""
    victim, other = pair
    victim.exec("umask 0; chmod 777 $HOME; echo secret > f; "
                "(exec 7<f; exec sleep 5004) >/dev/null 2>&1 &")
    got = other.exec(f"""
        cat {victim.home}/f; ls {victim.home}; cd {victim.home} && pwd
        ln {victim.home}/f mine; cp -r {victim.home} copy; cat mine copy/f
        cat /proc/[0-9]*/fd/7 /proc/[0-9]*/cwd/f /proc/[0-9]*/root{victim.home}/f
        mv {victim.home} gone; rm -rf {victim.home}; echo x >{victim.home}/g
    """)
    assert "secret" not in got.out and victim.home not in got.out
    assert victim.exec("cat f; ls g").out == "secret\n"


def test_mounts_stay_inside(agent, pair):
    """The machine has no mount more."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        before = f.read()
    sb = agent.create()
    got = sb.exec("mount -t tmpfs x $HOME/.tmp; unshare -m true; "
                  "unshare -p true; chroot / true; echo $?")
    assert "x on" not in got.out and got.err
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        assert f.read() == before
    sb.delete()


def test_shared_memory(pair):
    """System V and POSIX shared memory ends at the sandbox."""
    victim, other = pair
    code = """
import ctypes, sys
from multiprocessing import shared_memory as m
c = ctypes.CDLL(None)
flags = 0o1666 if sys.argv[1] == "new" else 0o666
print(c.shmget(0x5b0c6, 4096, flags) >= 0)
try:
    m.SharedMemory("sbx-test", sys.argv[1] == "new", 64)._name = None
    print(True)
except OSError:
    print(False)
import os
os._exit(sys.stdout.flush() or 0)
"""
    assert victim.exec([PYTHON, "-c", code, "new"]).out == "True\nTrue\n"
    assert other.exec([PYTHON, "-c", code, "old"]).out == "False\nFalse\n"
    # What ordinary programs do with it works.
    got = python(other, "import multiprocessing as m\n"
                 "q = m.Queue(); p = m.Process(target=q.put, args=(42,))\n"
                 "p.start(); print(q.get()); p.join()")
    assert got.out == "42\n", got.err


def test_shared_memory_is_bounded(agent):
    """/dev/shm holds half of max_mem_mb."""
    sb = agent.create(max_mem_mb=64)
    got = sb.exec("head -c 40000000 /dev/zero > /dev/shm/x; "
                  "stat -c %s /dev/shm/x")
    assert int(got.out) == 32 << 20 and "No space" in got.err
    sb.delete()


# --- sockets ----------------------------------------------------------------

def test_abstract_sockets(pair):
    victim, other = pair
    name = f"sbx-test-{os.getpid()}"
    victim.start([PYTHON, "-c", f"""
import socket, time
s = socket.socket(socket.AF_UNIX)
s.bind("\\0{name}")
s.listen()
open("up", "w")
time.sleep(1000)
"""])
    until(lambda: victim.exec("test -e up").code == 0, "it listens")
    got = python(other, f"""
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\\0{name}")
    print("connected")
except OSError as e:
    print(e.errno)
""")
    assert got.out.strip() in ("1", "13", "111"), got.out


def test_named_sockets(pair):
    """Not even in a home that its owner opened to everybody."""
    victim, other = pair
    victim.start([PYTHON, "-c", """
import os, socket, time
os.umask(0)
os.chmod(os.environ["HOME"], 0o777)
for d in (os.environ["SBX_PROXY_DIR"] + "/80.sock", "/tmp/s", "/dev/shm/s",
          os.environ["HOME"] + "/s"):
    s = socket.socket(socket.AF_UNIX)
    s.bind(d)
    s.listen()
    globals()[d] = s
open("up", "w")
time.sleep(1000)
"""])
    until(lambda: victim.exec("test -e up").code == 0, "it listens")
    got = python(other, f"""
import socket
for d in ("{victim.home}/.sbx/proxy/80.sock", "/tmp/s", "/dev/shm/s",
          "{victim.home}/s"):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(d)
        print("connected", d)
    except OSError:
        pass
""")
    assert (got.out, got.code) == ("", 0), got.err


# --- network ----------------------------------------------------------------

NET = """
import os, socket, sys
with open("/proc/net/dev") as f:
    print(sorted(l.split(":")[0].strip() for l in f if ":" in l))
s = socket.socket()
try:
    s.bind(("127.0.0.1", 0))
    s.listen()
    c = socket.create_connection(s.getsockname(), 5)
    c.sendall(b"x")
    print("bound", s.accept()[0].recv(1))
except OSError as e:
    print("bound", e.errno)
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
    print("out")
except OSError as e:
    print("out", e.errno)
try:
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.connect(("192.0.2.1", 53))
    print("udp")
except OSError as e:
    print("udp", e.errno)
"""


@pytest.fixture
def listener():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        yield s.getsockname()[1]


def test_network_none(agent, listener):
    """A loopback of its own, and nothing else; the proxy still gets in."""
    sb = agent.create(network="none")
    got = sb.exec([PYTHON, "-c", NET, str(listener)])
    assert got.out == ("['lo']\nbound b'x'\n"
                       "out 111\nudp 101\n"), got.out + got.err
    sb.start([PYTHON, "-c", """
import os, socket
s = socket.socket(socket.AF_UNIX)
s.bind(os.environ["SBX_PROXY_DIR"] + "/8000.sock")
s.listen()
while True:
    c = s.accept()[0]
    c.recv(65536)
    c.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
    c.close()
"""])
    until(lambda: sb.call("GET", "proxy/8000/")[1] == b"hi", "it answers")
    sb.delete()


@pytest.mark.parametrize("spec", [{}, {"network": "outbound"}])
def test_network_outbound(agent, listener, spec):
    sb = agent.create(**spec)
    got = sb.exec([PYTHON, "-c", NET, str(listener)]).out.splitlines()
    assert got[1:3] == ["bound 13", "out"]
    sb.delete()


def test_network_host(agent, listener):
    sb = agent.create(network="host")
    got = sb.exec([PYTHON, "-c", NET, str(listener)]).out.splitlines()
    assert got[1:3] == ["bound b'x'", "out"]
    sb.delete()


# --- disk -------------------------------------------------------------------

def test_disk_mb(agent):
    """A home of that size, by command and by API; nothing of it is left."""
    sb = agent.create(disk_mb=8)
    got = sb.exec("head -c 20000000 /dev/zero > big; stat -c %s big; pwd; "
                  "stat -f -c %T .")
    assert "No space" in got.err
    size, where, kind = got.out.split()
    assert 7 << 20 < int(size) <= 8 << 20
    assert (where, kind) == (sb.home, "tmpfs")
    status, got = sb.call("PUT", "files/write?path=f", b"x" * 100_000)
    assert status >= 400 and "space" in got["error"].lower(), got
    assert sb.exec("rm big; ls -A").out == ".sbx\n.tmp\n"
    assert sb.call("PUT", "files/write?path=f", b"from outside")[0] == 200
    assert sb.exec("cat f; echo from inside > $HOME/g; echo t > /tmp/t").out \
        == "from outside"
    assert sb.call("GET", "files/read?path=g")[1] == b"from inside\n"
    assert sb.call("GET", "files/read?path=.tmp/t")[1] == b"t\n"
    # Many small files have an end too.
    got = python(sb, "import os\nos.mkdir('d')\nn = 0\ntry:\n"
                 "    while True:\n        open(f'd/{n}', 'w').close()\n"
                 "        n += 1\nexcept OSError:\n    print(n)")
    assert 500 < int(got.out) <= 2048
    assert sb.delete()[0] == 200
    assert not os.path.exists(sb.home)


@pytest.mark.parametrize("body,why", [
    ({"network": "some"}, "network"),
    ({"network": 1}, "network"),
    ({"disk_mb": 0}, "disk_mb"),
    ({"disk_mb": "8"}, "disk_mb"),
])
def test_bad_wishes(agent, body, why):
    status, got = agent.post("/v1/sandboxes", body)
    assert (status, got["code"]) == (400, "bad_request")
    assert got["error"].startswith(why)


# --- memory -----------------------------------------------------------------

def test_memory_bomb(agent, pair):
    """Ends at the sandbox's limit, and nobody else notices."""
    _, other = pair
    sb = agent.create(max_mem_mb=100)
    got = python(sb, "x = []\nwhile True: x.append(bytearray(1 << 20))")
    assert got.code != 0 and ("MemoryError" in got.err or got.exit["signal"])
    assert other.exec("echo calm").out == "calm\n"
    sb.delete()


# --- system calls -----------------------------------------------------------

CALLS = """
import ctypes, errno, platform, socket
c = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(*args):
    r = c.syscall(*args)
    return "open" if r != -1 else errno.errorcode[ctypes.get_errno()]
print("io_uring", call(425, 1, None))
print("keyctl", call(250 if x86 else 219, 0, -4, 1))
print("unshare", call(272 if x86 else 97, 0x10000000))
print("clone", call(56 if x86 else 220, 0x10000011, 0, 0, 0, 0))
print("clone3", call(435, None, 0))
print("syslog", call(103 if x86 else 116, 10, None, 0))
for name in ("AF_VSOCK", "AF_ALG", "AF_PACKET"):
    try:
        socket.socket(getattr(socket, name), socket.SOCK_DGRAM)
        print(name, "open")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
"""
CLOSED = """\
io_uring ENOSYS
keyctl ENOSYS
unshare EPERM
clone EPERM
clone3 ENOSYS
syslog EPERM
AF_VSOCK EAFNOSUPPORT
AF_ALG EAFNOSUPPORT
AF_PACKET EAFNOSUPPORT
"""


def test_system_calls(agent, pair):
    assert agent.get("/health")[1]["seccomp"] is True
    assert python(pair[0], CALLS).out == CLOSED


PROGRAMS = {
    "threads": [PYTHON, "-c", """
import concurrent.futures as f, multiprocessing as m, socket, subprocess
with f.ThreadPoolExecutor(8) as p:
    assert sum(p.map(abs, range(100))) == 4950
with m.Pool(2) as p:
    assert p.map(abs, [-1, 2]) == [1, 2]
assert subprocess.check_output(["echo", "x"]) == b"x\\n"
socket.socketpair()
socket.getaddrinfo("127.0.0.1", 80)
socket.if_nameindex()
print("fine")
"""],
    "gcc": """cat > t.c <<'EOF'
#include <pthread.h>
#include <stdio.h>
static void *f(void *a) { return a; }
int main(void)
{
	pthread_t t;
	if (pthread_create(&t, 0, f, 0) || pthread_join(t, 0))
		return 1;
	puts("fine");
}
EOF
gcc -O2 -o t t.c -lpthread && ./t""",
    "git": """git init -q r && cd r && git config user.email a@b && \
git config user.name n && echo x > f && git add f && \
git commit -qm one && git gc -q && git clone -q . ../c && \
test "$(cat ../c/f)" = x && echo fine""",
    "perl": "perl -MIO::Socket -e 'fork or exit; wait; print qq(fine\\n)'",
    "shell": "(echo a; echo b) | sort -r | tee f | wc -l >n && "
             "tar cf - f | gzip | gunzip | tar tf - && echo fine",
    "node": "node -e 'require(\"fs\").readFile(\"/etc/passwd\", e => "
            "console.log(e || \"fine\"))'",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs(pair, name):
    """The filter, the limits and the namespaces are in nobody's way."""
    program = {"threads": "python3", "shell": "tar"}.get(name, name)
    if not any(os.path.exists(f"{d}/{program}") for d in
               ("/usr/bin", "/usr/local/bin")):
        pytest.skip(f"no {program} here")
    got = pair[0].exec(PROGRAMS[name])
    assert got.out.endswith("fine\n"), got.err


# --- with less --------------------------------------------------------------

def test_without_namespaces(tmp, homes):
    """Host mode works, says what it lacks, and keeps its other walls."""
    with Agent(tmp, prefix=NO_NAMESPACES, SBX_HOMES=homes / "n") as a:
        health = a.get("/health")[1]
        assert (health["isolation"], health["namespaces"]) == ("full", False)
        assert "host.namespaces" in a.log.read_text()
        for body in {"network": "none"}, {"disk_mb": 8}:
            status, got = a.post("/v1/sandboxes", body)
            assert (status, got["code"]) == (400, "unsupported")
            assert got["error"].startswith(list(body)[0])
        assert os.listdir(homes / "n") == []
        victim, other = a.create(), a.create()
        p = victim.start("umask 0; echo secret > f; exec sleep 5005")
        until(lambda: victim.exec("cat f").out == "secret\n", "it runs")
        got = other.exec(f"kill -9 {p['pid']}; cat {victim.home}/f "
                         f"/proc/{p['pid']}/environ; touch /tmp/x")
        assert got.out == "" and got.err.count("denied") == 3
        assert outside(victim) == [p["pid"]]
        assert victim.delete()[0] == 200 and outside(victim) == []


def test_with_namespaces(agent):
    assert agent.get("/health")[1]["namespaces"] is True
