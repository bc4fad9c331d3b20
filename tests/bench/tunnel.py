#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sbx-tunnel with `ssh -N` through the same sshd, in turn, in one
run: throughput, client CPU, latency idle and loaded, connections per second,
memory.

    SBX_BUILD=build tests/bench/tunnel.py [--mib 256] [--rounds 2] [-C cipher]

Each program uses its own first choice of cipher, and then both the same ones.
"""

import argparse
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from support import paths  # noqa: E402
from support.peer import Peer, dial  # noqa: E402
from support.sshd import SIDECAR, USER, Sshd, pick_port  # noqa: E402
from support.wait import until  # noqa: E402

CHUNK = 1 << 18


def serve(conn):
    """'s': takes all and answers one byte; 'r' + 8 bytes: sends so much;
    'e': echoes."""
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kind = conn.recv(1)
    buf = bytearray(CHUNK)
    if kind == b"s":
        left = int.from_bytes(conn.recv(8), "big")
        while left:
            left -= conn.recv_into(buf, min(CHUNK, left))
        conn.sendall(b"k")
    elif kind == b"r":
        left = int.from_bytes(conn.recv(8), "big")
        data = bytes(CHUNK)
        while left:
            n = min(CHUNK, left)
            conn.sendall(data[:n])
            left -= n
    else:
        while data := conn.recv(65536):
            conn.sendall(data)


def up(port, size):
    data = bytes(CHUNK)
    with dial(port, 120) as s:
        s.sendall(b"s" + size.to_bytes(8, "big"))
        left = size
        while left:
            s.sendall(data[:min(CHUNK, left)])
            left -= min(CHUNK, left)
        assert s.recv(1) == b"k"


def down(port, size):
    buf = bytearray(CHUNK)
    with dial(port, 120) as s:
        s.sendall(b"r" + size.to_bytes(8, "big"))
        left = size
        while left:
            n = s.recv_into(buf)
            assert n
            left -= n


def cpu(pid):
    f = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def rss_kib(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4


def pings(port, n):
    took = []
    with dial(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(b"e")
        for _ in range(n):
            t = time.perf_counter()
            s.sendall(b"x" * 64)
            got = 0
            while got < 64:
                got += len(s.recv(64 - got))
            took.append((time.perf_counter() - t) * 1e6)
    took.sort()
    return statistics.median(took), took[int(len(took) * 0.99)]


def connects(port, seconds=2.0, threads=8):
    """New connections with a byte each way, per second."""
    count = [0] * threads
    end = time.monotonic() + seconds

    def run(i):
        while time.monotonic() < end:
            with dial(port) as s:
                s.sendall(b"ex")
                assert s.recv(1) == b"x"
            count[i] += 1

    ts = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return sum(count) / seconds


class Client:
    def __init__(self, program, sshd, peer, cipher):
        self.local, self.remote = pick_port(), pick_port()
        argv = [program, "-N", "-F", "none", "-p", str(sshd.port), "-i",
                str(sshd.key), "-o", f"UserKnownHostsFile={sshd.known}",
                "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
                "-L", f"127.0.0.1:{self.local}:{peer.target}",
                "-R", f"127.0.0.1:{self.remote}:{peer.target}"]
        if cipher:
            argv += ["-o", f"Ciphers={cipher}"]
        self.process = subprocess.Popen([*argv, f"{USER}@127.0.0.1"])
        until(self.works, "the tunnel is up")

    def works(self):
        try:
            for port in (self.local, self.remote):
                with dial(port, 2) as s:
                    s.sendall(b"ex")
                    if s.recv(1) != b"x":
                        return False
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def measure(client, mib):
    pid, row = client.process.pid, {}
    for name, port, fn in (("L up", client.local, up),
                           ("L down", client.local, down),
                           ("R up", client.remote, up),
                           ("R down", client.remote, down)):
        c, t = cpu(pid), time.monotonic()
        fn(port, mib << 20)
        took = time.monotonic() - t
        row[name] = (mib / took, (cpu(pid) - c) * 1024 / mib)
    row["idle"] = pings(client.local, 2000)
    stop = threading.Event()

    def load():
        try:
            while not stop.is_set():
                down(client.local, 64 << 20)
        except OSError:
            pass

    th = threading.Thread(target=load, daemon=True)
    th.start()
    row["loaded"] = pings(client.local, 300)
    stop.set()
    th.join()
    row["conn/s"] = connects(client.local)
    row["rss"] = rss_kib(pid)
    return row


def show(name, cipher, rows):
    def best(key):
        return max(rows, key=lambda r: r[key][0])[key]

    cells = [f"{best(k)[0]:5.0f} {best(k)[1]:4.2f}"
             for k in ("L up", "L down", "R up", "R down")]
    idle = min(r["idle"] for r in rows)
    loaded = min(r["loaded"] for r in rows)
    print(f"{name:10} {cipher or 'its own':29} {'  '.join(cells)}  "
          f"{idle[0]:4.0f}/{idle[1]:5.0f}  {loaded[0]:6.0f}/{loaded[1]:6.0f}"
          f"  {max(r['conn/s'] for r in rows):6.0f}  "
          f"{max(r['rss'] for r in rows):6d}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--mib", type=int, default=256)
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("-C", "--cipher", action="append")
    args = ap.parse_args()
    ciphers = args.cipher or [None, "chacha20-poly1305@openssh.com",
                              "aes128-gcm@openssh.com"]
    print("MiB/s and client CPU s/GiB for -L up, -L down, -R up, -R down; "
          "round trip us median/p99 idle and loaded; new conn/s; KiB")
    tmp = tempfile.mkdtemp(prefix="sbx-bench-")
    try:
        with Sshd(tmp, SIDECAR) as sshd, Peer(serve) as peer:
            for cipher in ciphers:
                rows = {"ssh": [], "sbx-tunnel": []}
                for _ in range(args.rounds):
                    for name, got in rows.items():
                        program = (shutil.which("ssh") if name == "ssh"
                                   else str(paths.TUNNEL))
                        c = Client(program, sshd, peer, cipher)
                        try:
                            got.append(measure(c, args.mib))
                        finally:
                            c.stop()
                for name, got in rows.items():
                    show(name, cipher, got)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


if __name__ == "__main__":
    main()
