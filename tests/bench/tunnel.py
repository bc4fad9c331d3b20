#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sbx-tunnel with `ssh -N` through the same sshd, in turn, in one
run: throughput, client CPU, latency idle and loaded, connections per second,
memory, and how soon traffic flows again after sshd was restarted.

    make -C build bench-tools && SBX_BUILD=build tests/bench/tunnel.py
        [--mib 512] [--rounds 3] [--markdown]

The load comes from tests/bench/load, the answers from tests/bench/backend
(C, a process each). ssh runs with a cipher both have (chacha20-poly1305) and
with its fastest (aes128-gcm); sbx-tunnel with chacha20-poly1305, its own
first choice, over one connection and over several.
"""

import argparse
import json
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
from support.sshd import SIDECAR, USER, Sshd, descendants, pick_port  # noqa: E402
from support.wait import until  # noqa: E402

LOAD = paths.BUILD / "tests/bench/load"
BACKEND = paths.BUILD / "tests/bench/backend"
CHACHA, GCM = "chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com"
MIB = 1 << 20


def cpu(pid):
    """CPU seconds of a process and its children."""
    total = 0
    for p in [pid, *descendants(pid)]:
        text = pathlib.Path(f"/proc/{p}/schedstat").read_text()
        total += int(text.split()[0]) / 1e9
    return total


def pss_kib(pid):
    total = 0
    for p in [pid, *descendants(pid)]:
        text = pathlib.Path(f"/proc/{p}/smaps_rollup").read_text()
        total += int(text.split("\nPss:")[1].split()[0])
    return total


def load(port, mode, count, conns=1, path="/x", size=0):
    argv = [LOAD, "--port", str(port), "--mode", mode, "--count", str(count),
            "--conns", str(conns), "--path", path]
    if size:
        argv += ["--bytes", str(size)]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    if r.returncode != 0:
        raise AssertionError(r.stderr)
    return json.loads(r.stdout)


class Client:
    def __init__(self, name, argv, sshd, target):
        self.name = name
        self.local, self.remote = pick_port(), pick_port()
        self.process = subprocess.Popen(
            [*argv, "-N", "-F", "none", "-p", str(sshd.port), "-i",
             str(sshd.key), "-o", f"UserKnownHostsFile={sshd.known}",
             "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
             "-L", f"127.0.0.1:{self.local}:{target}",
             "-R", f"127.0.0.1:{self.remote}:{target}",
             f"{USER}@127.0.0.1"], stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        until(self.works, "the tunnel is up", 20)
        time.sleep(0.5)  # further connections

    def works(self):
        return answers(self.local) and answers(self.remote)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return s.recv(5) == b"HTTP/"
    except OSError:
        return False


def bulk(client, port, mode, mib, streams):
    path = f"/bytes/{mib * MIB // streams}" if mode == "down" else "/x"
    c, t = cpu(client.pid), time.monotonic()
    load(port, mode, streams, streams, path,
         mib * MIB // streams if mode == "up" else 0)
    took = time.monotonic() - t
    return mib / took, (cpu(client.pid) - c) * 1024 / mib


def loaded(client):
    """Small requests beside a download that never ends."""
    done = threading.Event()

    def run():
        while not done.is_set():
            load(client.local, "down", 1, 1, f"/bytes/{128 * MIB}")

    th = threading.Thread(target=run)
    th.start()
    time.sleep(0.3)
    got = load(client.local, "get", 500)
    done.set()
    th.join()
    return got


def measure(client, mib):
    row = {}
    for name, port in (("-L", client.local), ("-R", client.remote)):
        for mode in ("up", "down"):
            if client.name.endswith("connections"):
                continue  # one stream is on one of them
            rate, used = bulk(client, port, mode, mib, 1)
            row[f"{name} {mode}, one stream|MiB/s"] = rate
            row[f"{name} {mode}, one stream|client CPU s/GiB"] = used
    rate, used = bulk(client, client.local, "down", 2 * mib, 8)
    row["-L down, 8 streams|MiB/s"] = rate
    row["-L down, 8 streams|client CPU s/GiB"] = used
    for key, got in (("idle", load(client.local, "get", 2000)),
                     ("loaded", loaded(client))):
        row[f"small request, {key}|p50 us"] = got["p50_us"]
        row[f"small request, {key}|p99 us"] = got["p99_us"]
    for name, port in (("-L", client.local), ("-R", client.remote)):
        for conns, count in ((1, 100), (16, 1000)):
            got = load(port, "handshake", count, conns)
            row[f"new connections {name}, {conns} at a time|/s"] = got["rate"]
    row["memory|MiB (PSS)"] = pss_kib(client.pid) / 1024
    return row


def restart(sshd, client):
    """sshd dies and comes back after two seconds: from then to traffic."""
    sshd.stop()
    time.sleep(2)
    took = []

    def request():
        while not answers(client.local):
            time.sleep(0.005)
        took.append(time.monotonic())

    th = threading.Thread(target=request)
    th.start()
    sshd.start()
    start = time.monotonic()
    th.join(60)
    until(lambda: answers(client.remote), "the reverse forward", 30)
    return max(0, took[0] - start), time.monotonic() - start


def programs():
    ssh, ours = shutil.which("ssh"), str(paths.TUNNEL)
    return {"ssh chacha20": [ssh, "-o", f"Ciphers={CHACHA}"],
            "ssh aes128-gcm": [ssh, "-o", f"Ciphers={GCM}"],
            "sbx-tunnel": [ours],
            "2 connections": [ours, "-o", "SbxConnections=2"],
            "4 connections": [ours, "-o", "SbxConnections=4"]}


def show(results, markdown):
    keys = list(next(iter(results.values()))[0])
    names = list(results)
    if markdown:
        print("|  | unit | " + " | ".join(names) + " |")
        print("|---" * (len(names) + 2) + "|")
    for key in keys:
        what, unit = key.split("|")
        cells = []
        for name in names:
            if key not in results[name][0]:
                cells.append("")
                continue
            v = statistics.median(r[key] for r in results[name])
            cells.append(f"{v:,.0f}" if v >= 20 else f"{v:.2f}")
        if markdown:
            print(f"| {what} | {unit} | " + " | ".join(cells) + " |")
        else:
            print(f"{what:34} {unit:16} " +
                  " ".join(f"{c:>15}" for c in cells))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--mib", type=int, default=512)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--markdown", action="store_true")
    args = ap.parse_args()
    tmp = tempfile.mkdtemp(prefix="sbx-bench-")
    target = f"{tmp}/backend.sock"
    backend = subprocess.Popen([BACKEND, target], stdout=subprocess.DEVNULL)
    results = {name: [] for name in programs()}
    back = []
    try:
        with Sshd(tmp, SIDECAR) as sshd:
            for _ in range(args.rounds):
                for name, argv in programs().items():
                    client = Client(name, argv, sshd, target)
                    try:
                        results[name].append(measure(client, args.mib))
                        if name == "sbx-tunnel":
                            back.append(restart(sshd, client))
                    finally:
                        client.stop()
    finally:
        backend.kill()
        backend.wait()
        shutil.rmtree(tmp, ignore_errors=True)
    show(results, args.markdown)
    print("\nfrom sshd listening again to traffic, s: -L "
          f"{statistics.median(b[0] for b in back):.3f}, -R "
          f"{statistics.median(b[1] for b in back):.3f}; "
          f"worst {max(max(b) for b in back):.3f} of {len(back)}")


if __name__ == "__main__":
    main()
