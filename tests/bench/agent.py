#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What sbx-agent costs: CPU of its own process (the kernel's clock of it, all
threads), times as a client sees them, memory, threads.

    SBX_BUILD=build tests/bench/agent.py [--reference PROGRAM] [--rounds 3]

With --reference (the sandbox server that huggingface_hub's Sandbox was made
for, built from its sources) both are measured in turn, and the table has
ratios. As root: host mode wants it. Both run in a PID namespace, since the
other one kills by user id. Files are on tmpfs when there is room: what is
measured is the server, not the disk.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from support import paths  # noqa: E402
from support.wait import until  # noqa: E402

TOKEN = "t" * 32
MIB = 1 << 20


# --- a small client ---------------------------------------------------------

class Conn:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), 60)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.close()

    def send(self, method, path, body=b"", close=False):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        end = "Connection: close\r\n" if close else ""
        self.s.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\n{end}"
            f"X-Sandbox-Token: {TOKEN}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def more(self):
        data = self.s.recv(65536)
        if not data:
            raise EOFError(self.buf[:200])
        self.buf += data

    def until(self, mark):
        while mark not in self.buf:
            self.more()
        head, self.buf = self.buf.split(mark, 1)
        return head

    def take(self, n):
        while len(self.buf) < n:
            self.more()
        got, self.buf = self.buf[:n], self.buf[n:]
        return got

    def receive(self):
        head = self.until(b"\r\n\r\n").lower()
        status = int(head.split()[1])
        if b"chunked" in head:
            body = b""
            while n := int(self.until(b"\r\n"), 16):
                body += self.take(n)
                self.take(2)
            self.take(2)
        else:
            n = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            body = self.take(n)
        return status, body

    def call(self, *what):
        self.send(*what)
        status, body = self.receive()
        assert status == 200, (what[:2], status, body[:300])
        return body

    def drain(self):
        """Bytes until the end of the connection, and the last of them."""
        buf, n, last = bytearray(MIB), 0, b""
        while k := self.s.recv_into(buf):
            n += k
            last = (last + bytes(buf[max(0, k - 400):k]))[-400:]
        return n, last


# --- the servers ------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, program, ours, host, tmp):
        self.port = free_port()
        env = {"PATH": os.environ["PATH"], "SBX_TOKEN": TOKEN,
               "SBX_PORT": str(self.port), "SBX_HOMES": f"{tmp}/homes"}
        if host:
            env["SBX_HOST_MODE"] = "1"
        self.ours = ours
        cmd = ["unshare", "-pm", "--fork", "--kill-child", "--mount-proc",
               "/bin/sh", "-c", 'mkdir -p /sbx "$2" && '
               'mount --bind "$2" /sbx && exec "$1"', "sh", program,
               f"{tmp}/sbx"]
        self.log = open(f"{tmp}/log", "ab")
        self.proc = subprocess.Popen(cmd, env=env, stdout=self.log,
                                     stderr=self.log, cwd=tmp)
        until(self.up, "the server is up", 10)
        kids = pathlib.Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}"
                            "/children").read_text()
        self.pid = int(kids.split()[0])

    def up(self):
        try:
            with Conn(self.port) as c:
                return c.call("GET", "/health")
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.kill(self.pid, signal.SIGTERM if self.ours else signal.SIGKILL)
        try:
            self.proc.wait(15)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.log.close()

    def cpu(self):
        """Seconds; of all its threads, those that ended too."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def status(self, key):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split(f"\n{key}:")[1].split()[0])


class Backend:
    """Answers each connection's one request, in a process of its own."""

    ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
              b"Connection: close\r\n\r\nok")

    def __enter__(self):
        s = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = s.getsockname()[1]
        self.proc = multiprocessing.Process(target=self.run, args=(s,),
                                            daemon=True)
        self.proc.start()
        s.close()
        return self

    def __exit__(self, *exc):
        self.proc.terminate()
        self.proc.join()

    def run(self, s):
        while True:
            c, _ = s.accept()
            with c:
                if c.recv(65536):
                    c.sendall(self.ANSWER)


# --- what is measured -------------------------------------------------------

def timed(server, n, fn):
    """Median ms of one fn(), and CPU us of each."""
    took, before = [], server.cpu()
    for _ in range(n):
        t = time.perf_counter()
        fn()
        took.append((time.perf_counter() - t) * 1e3)
    return statistics.median(took), (server.cpu() - before) / n * 1e6


def parallel(server, n, threads, fn):
    """Per second, and CPU us of each; fn(conn) on a kept connection."""
    def run():
        with Conn(server.port) as c:
            for _ in range(n):
                fn(c)

    before, t = server.cpu(), time.perf_counter()
    pool = [threading.Thread(target=run) for _ in range(threads)]
    for th in pool:
        th.start()
    for th in pool:
        th.join()
    total = n * threads
    return (total / (time.perf_counter() - t),
            (server.cpu() - before) / total * 1e6)


def transfer(server, mib, fn):
    """MiB/s, and CPU ms for each MiB."""
    before, t = server.cpu(), time.perf_counter()
    fn()
    took = time.perf_counter() - t
    return mib / took, (server.cpu() - before) / mib * 1e3


def middle_of(n, fn):
    """The host of a virtual machine takes back memory that is not used, and
    whoever touches it next pays for that: four times as much as for the rest
    of writing. So one run says little."""
    return tuple(map(statistics.median, zip(*(fn() for _ in range(n)))))


TRUE = {"cmd": ["/bin/true"]}


def do_exec(c, prefix="/v1"):
    body = c.call("POST", f"{prefix}/exec", TRUE)
    assert b'"exit_code":0' in body.replace(b" ", b""), body


def output(server, cmd, least):
    with Conn(server.port) as c:
        c.send("POST", "/v1/exec", {"cmd": cmd}, True)
        n, last = c.drain()
    assert b'"exit"' in last and n >= least, (n, last)


def upload(server, path, data):
    with Conn(server.port) as c:
        c.call("PUT", f"/v1/files/write?path={path}", data)


def download(server, path, size):
    with Conn(server.port) as c:
        c.send("GET", f"/v1/files/read?path={path}", b"", True)
        n, _ = c.drain()
    assert n >= size


def proxied(server, port):
    with Conn(server.port) as c:
        c.send("GET", f"/v1/proxy/{port}/", b"", True)
        n, last = c.drain()
    assert last.endswith(b"ok"), last


def running(server, n, row):
    """Memory and threads of one command that runs."""
    rss, threads = server.status("VmRSS"), server.status("Threads")
    conns = []
    for _ in range(n):
        c = Conn(server.port)
        c.send("POST", "/v1/exec", {"cmd": ["sleep", "60"]})
        c.until(b'"start"')
        conns.append(c)
    time.sleep(0.2)
    row["RSS per running exec"] = [(server.status("VmRSS") - rss) / n]
    row["threads per running exec"] = [
        (server.status("Threads") - threads) / n]
    for c in conns:
        c.s.close()


def dedicated(server, mib, tmp, row):
    with Conn(server.port) as c:
        do_exec(c)
        row["RSS idle"] = [server.status("VmRSS")]
        row["exec /bin/true"] = timed(server, 300, lambda: do_exec(c))
    row["exec, 8 connections"] = parallel(server, 100, 8, do_exec)
    plain, lines = f"{tmp}/plain", f"{tmp}/lines"
    row["stdout, raw"] = transfer(
        server, mib, lambda: output(server, f"cat {plain}", mib * MIB))
    row["stdout, short lines"] = transfer(
        server, mib, lambda: output(server, f"cat {lines}", mib * MIB))
    data = pathlib.Path(plain).read_bytes()
    up = pathlib.Path(f"{tmp}/up")

    def write():
        up.unlink(missing_ok=True)
        return transfer(server, mib, lambda: upload(server, up, data))

    row["write"] = middle_of(5, write)
    row["read"] = middle_of(
        5, lambda: transfer(server, mib, lambda: download(
            server, up, mib * MIB)))
    up.unlink()
    with Backend() as b:
        row["proxied GET, new connection"] = timed(
            server, 500, lambda: proxied(server, b.port))
    row["/health"] = parallel(server, 1000, 4,
                              lambda c: c.call("GET", "/health"))
    running(server, 50, row)


def hosted(server, n, row):
    ids = []
    with Conn(server.port) as c:
        def create():
            got = json.loads(c.call("POST", "/v1/sandboxes", {"count": 1}))
            ids.append(got["sandboxes"][0]["id"])

        def delete():
            c.call("DELETE", f"/v1/sandboxes/{ids.pop()}")

        row["sandbox create"] = timed(server, n, create)
        it = iter(list(ids))
        row["exec in a sandbox"] = timed(
            server, n, lambda: do_exec(c, f"/v1/sandboxes/{next(it)}"))
        row["sandbox delete"] = timed(server, n, delete)
        cpu = row["sandbox create"][1] + row["sandbox delete"][1]
        row["create + delete"] = [
            row["sandbox create"][0] + row["sandbox delete"][0], cpu]


def measure(program, ours, args, tmp):
    row = {}
    with Server(program, ours, False, tmp) as s:
        dedicated(s, args.mib, tmp, row)
    with Server(program, ours, True, tmp) as s:
        hosted(s, 60, row)
    return row


# --- the table --------------------------------------------------------------

# Units, what was published of the reference on another machine with two cores,
# and which figures our promise is about.
ROWS = {
    "exec /bin/true": (("ms", "us CPU"), (0.77, 280), (1,)),
    "exec, 8 connections": (("/s", "us CPU"), (1850, 333), (1,)),
    "stdout, raw": (("MiB/s", "ms CPU/MiB"), (460, 2.0), (1,)),
    "stdout, short lines": (("MiB/s", "ms CPU/MiB"), (291, 3.65), (1,)),
    "write": (("MiB/s", "ms CPU/MiB"), (250, 3.0), (1,)),
    "read": (("MiB/s", "ms CPU/MiB"), (2700, 0.35), ()),
    "proxied GET, new connection": (("ms", "us CPU"), (None, 200), (1,)),
    "/health": (("/s", "us CPU"), (18000, 20), ()),
    "sandbox create": (("ms", "us CPU"), (0.9, 600), ()),
    "exec in a sandbox": (("ms", "us CPU"), (2.4, None), ()),
    "sandbox delete": (("ms", "us CPU"), (10, None), ()),
    "create + delete": (("ms", "us CPU"), (None, None), (1,)),
    "RSS idle": (("KiB",), (1434,), ()),
    "RSS per running exec": (("KiB",), (125,), (0,)),
    "threads per running exec": (("",), (4,), (0,)),
}


def number(x):
    if x is None:
        return "-"
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def middle(rows, name, i):
    got = [r[name][i] for r in rows if name in r]
    return statistics.median(got) if got else None


def show(results):
    ours, ref = results["sbx-agent"], results.get("reference", [])
    print("|  | unit | sbx-agent | reference | ours / reference |"
          " published |\n|---|---|---|---|---|---|")
    for name, (units, said, bar) in ROWS.items():
        for i, unit in enumerate(units):
            a, b = middle(ours, name, i), middle(ref, name, i)
            ratio = f"{a / b:.2f}" if b else "-"
            if i in bar:
                ratio = f"**{ratio}**"
            print(f"| {name if i == 0 else ''} | {unit} | {number(a)} | "
                  f"{number(b)} | {ratio} | {number(said[i])} |")


def place(mib):
    try:
        if shutil.disk_usage("/dev/shm").free > 8 * mib * MIB:
            return "/dev/shm"
    except OSError:
        pass
    return "/var/tmp"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--reference", help="another program with this API")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--mib", type=int, default=256)
    args = ap.parse_args()
    if os.geteuid() != 0:
        sys.exit("agent.py: host mode needs root")
    results = {"sbx-agent": []}
    if args.reference:
        results["reference"] = []
    tmp = tempfile.mkdtemp(prefix="sbx-bench-", dir=place(args.mib))
    os.chmod(tmp, 0o755)
    try:
        line = b"a line of thirty-two bytes, ok\n"
        with open(f"{tmp}/plain", "wb") as f:
            f.write(b"x" * (args.mib * MIB))
        with open(f"{tmp}/lines", "wb") as f:
            f.write((line * (args.mib * MIB // len(line) + 1))
                    [:args.mib * MIB])
        for _ in range(args.rounds):
            for name, got in results.items():
                ours = name == "sbx-agent"
                program = str(paths.AGENT) if ours else os.path.abspath(
                    args.reference)
                got.append(measure(program, ours, args, tmp))
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    show(results)


if __name__ == "__main__":
    main()
