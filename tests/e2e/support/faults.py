# SPDX-License-Identifier: Apache-2.0
"""Awkward company: peers that trickle, stop, freeze or die, and a look at
what that costs the gateway.

    with box(tmp, timeouts={"head": "1s"}) as gw:
        with inner(gw, 9000, lambda conn: conn.recv(1)):
            get(gw.https, gw.base + "9000/", token=gw.token)
        assert metrics(gw)["requests_total"] == 1
"""

import contextlib
import json
import os
import pathlib
import re
import select
import socket
import ssl
import subprocess
import sys
import time

from . import paths
from .gateway import Gateway
from .http import Client
from .peer import Peer
from .wait import until

TOKEN = "box-0123456789abcdef0123456789abcdef"
CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = {workers}
[listen plain]
address = http://127.0.0.1:0
[listen tls]
address = https://127.0.0.1:0
[sandbox box]
token_file = {tmp}/box.token
proxy_dir = {tmp}/proxy
tcp_ports = 1024-65535
[timeouts]
{timeouts}
[limits]
{limits}
[log]
level = {level}
"""


def box(tmp, timeouts=None, limits=None, workers=1, level="info",
        nofile=None):
    """A gateway before one sandbox, `box`, opened by its .token; ports are
    below .base. nofile: how many descriptors each of its processes may
    have."""
    (tmp / "box.token").write_text(TOKEN + "\n")
    keys = ["\n".join(f"{k} = {v}" for k, v in (d or {}).items())
            for d in (timeouts, limits)]
    gw = Gateway(tmp, token=TOKEN, config=CONFIG.format(
        tmp=tmp, workers=workers, timeouts=keys[0], limits=keys[1],
        level=level))
    if nofile:
        gw.argv = ["prlimit", f"--nofile={nofile}:{nofile}", *gw.argv]
    gw.base = "/v1/sandboxes/box/proxy/"
    return gw


# --- looking at it -----------------------------------------------------------
def admin(gw, path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10 * paths.SLOW)
        s.connect(str(gw.state_dir / "admin.sock"))
        with Client(s) as c:
            return c.request("GET", path).response().body.decode()


def metrics(gw):
    """Every counter and gauge by its short name."""
    found = re.findall(r"^sbx_gateway_(\w+) (\d+)$",
                       admin(gw, "/-/metrics"), re.M)
    return {k: int(v) for k, v in found}


def status(gw):
    return json.loads(admin(gw, "/-/status"))


def settled(gw, generation):
    """The newest configuration has all of its workers."""
    s = status(gw)
    return (s["generation"] >= generation and
            s["workers_ready"] == s["workers_wanted"]) and s


def lines(gw, **want):
    """The access log's lines so far that have these values."""
    all_of_it = [json.loads(x) for x in gw.stdout().splitlines()
                 if x.startswith("{")]
    return [x for x in all_of_it
            if all(x.get(k) == v for k, v in want.items())]


def line(gw, **want):
    """The one line with these values, when it is there."""
    def there():
        found = lines(gw, **want)
        assert len(found) < 2, found
        return found
    return until(there, f"a line with {want}", 10 * paths.SLOW)[0]


def cpu(pid):
    """Seconds of processor time so far."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    fields = stat.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_share(gw, seconds=1.0):
    """What its processes use of one core over that time."""
    pids = [gw.proc.pid, *gw.workers()]
    was, start = sum(map(cpu, pids)), time.monotonic()
    time.sleep(seconds)  # a sample, not a wait
    return (sum(map(cpu, pids)) - was) / (time.monotonic() - start)


def rss(gw):
    """Bytes of memory its processes use."""
    total = 0
    for pid in [gw.proc.pid, *gw.workers()]:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        total += int(re.search(r"VmRSS:\s+(\d+)", text)[1]) << 10
    return total


# --- servers inside ----------------------------------------------------------
@contextlib.contextmanager
def inner(gw, port, serve, backlog=None):
    """serve(conn) in a thread for each connection to <port>.sock."""
    path = gw.proxy_dir / f"{port}.sock"
    with Peer(serve, path=path) as peer:
        path.chmod(0o666)
        if backlog is not None:
            peer.sock.listen(backlog)
        yield peer
    path.unlink(missing_ok=True)


def read_head(conn):
    """(head, what came after it); (b"", b"") at the end."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = conn.recv(65536)
        if not more:
            return b"", b""
        got += more
    head, _, rest = got.partition(b"\r\n\r\n")
    return head, rest


def reset(conn):
    """Closes so that the other side gets a reset (TCP)."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    conn.close()


_PROCESS = """\
import signal, sys
sys.path.insert(0, sys.argv[1])
from support.app import App
with App(sys.argv[2], int(sys.argv[3])):
    print("up", flush=True)
    signal.pause()
"""


@contextlib.contextmanager
def app_process(gw, port):
    """support.app.App in a process of its own, to be stopped and killed."""
    here = str(pathlib.Path(__file__).resolve().parents[1])
    proc = subprocess.Popen(
        [sys.executable, "-c", _PROCESS, here, str(gw.proxy_dir), str(port)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert proc.stdout.readline() == b"up\n"
        yield proc
    finally:
        proc.kill()
        proc.wait()
        proc.stdout.close()


# --- clients -----------------------------------------------------------------
class Slow:
    """One of many connections that are driven together by trickle()."""

    def __init__(self, sock, data=b""):
        sock.setblocking(False)
        self.sock, self.data = sock, data
        self.sent, self.got = 0, b""
        self.start, self.end = time.monotonic(), None

    def send_one(self):
        try:
            self.sent += self.sock.send(self.data[self.sent:self.sent + 1])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.data = b""  # what it said before is still to be read

    def receive(self):
        try:
            while more := self.sock.recv(65536):
                self.got += more
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            pass
        self.end = time.monotonic()
        self.sock.close()

    @property
    def life(self):
        return self.end - self.start


def trickle(slow, every=0.05, seconds=20):
    """A byte of each one's data at a time, until all have been closed."""
    end = time.monotonic() + seconds * paths.SLOW
    while todo := [s for s in slow if s.end is None]:
        assert time.monotonic() < end, f"{len(todo)} are still open"
        for s in todo:
            if s.sent < len(s.data):
                s.send_one()
        next_round = time.monotonic() + every
        while (left := next_round - time.monotonic()) > 0:
            ready, _, _ = select.select([s.sock for s in todo if not s.end],
                                        [], [], left)
            for s in todo:
                if s.sock in ready:
                    s.receive()
            if not ready or all(s.end for s in todo):
                break
