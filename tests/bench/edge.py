#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sbx-gateway with nginx and HAProxy, side by side, in one run.

All proxies get the same certificate, the same header check, the same prefix
rule and the same backend on a unix socket, with upstream keep-alive. They are
measured in turn, round after round; the table holds medians. CPU is what the
proxy's own processes used (scheduler statistics, nanoseconds), so neither the
load generator nor the backend is in it.

    tests/bench/edge.py --build build [--rounds 3] [--workers 1,2]
                        [--only row,row] [--peers nginx,haproxy,sbx]
                        [--markdown FILE]

Needs nginx, haproxy and openssl; a missing peer is left out and said so.
Traffic stays on loopback and every process started here is ended here.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOKEN = "bench-0123456789abcdef0123456789abcdef"
GIB = 1 << 30


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, proc, limit=10.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if proc.poll() is not None:
            raise RuntimeError(f"{proc.args[0]} ended with {proc.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nothing listens on {port}")


def process_tree(pid):
    """pid and all its descendants."""
    children = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = open(stat).read()
        except OSError:
            continue
        parent = int(text.rsplit(")", 1)[1].split()[1])
        children.setdefault(parent, []).append(int(text.split()[0]))
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        todo += children.get(p, [])
    return out


def cpu_ns(pids):
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            try:
                total += int(open(path).read().split()[0])
            except OSError:
                pass
    return total


def pss_bytes(pids):
    total = 0
    for pid in pids:
        for line in open(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


class Peer:
    """One proxy, started with `workers` workers on fresh ports."""

    path = "/v1/proxy/8000"

    def __init__(self, tmp, sock, workers):
        self.tmp, self.sock, self.workers = tmp, sock, workers
        self.dir = tempfile.mkdtemp(prefix=self.name + "-", dir=tmp)
        self.https, self.http = free_port(), free_port()
        self.proc = subprocess.Popen(
            self.command(), env=self.environment(),
            stdout=open(self.dir + "/out", "w"), stderr=subprocess.STDOUT)
        wait_port(self.https, self.proc)
        wait_port(self.http, self.proc)

    def environment(self):
        return dict(os.environ)

    def pids(self):
        return process_tree(self.proc.pid)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()


class Nginx(Peer):
    name = "nginx"

    @staticmethod
    def version():
        exe = shutil.which("nginx") or "/usr/sbin/nginx"
        if not os.path.exists(exe):
            return None
        out = subprocess.run([exe, "-v"], capture_output=True, text=True)
        return out.stderr.strip().split("/")[-1]

    def command(self):
        conf = self.write("nginx.conf", f"""
daemon off;
worker_processes {self.workers};
pid {self.dir}/pid;
error_log {self.dir}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {self.dir}/b; proxy_temp_path {self.dir}/p;
  fastcgi_temp_path {self.dir}/f; uwsgi_temp_path {self.dir}/u;
  scgi_temp_path {self.dir}/s;
  keepalive_requests 100000000;
  client_max_body_size 0;
  ssl_certificate {self.tmp}/cert.pem;
  ssl_certificate_key {self.tmp}/key.pem;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_tickets on;
  map $http_upgrade $conn {{ default upgrade; '' ''; }}
  upstream app {{ server unix:{self.sock}; keepalive 256;
                  keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{self.https} ssl reuseport;
    listen 127.0.0.1:{self.http} reuseport;
    location /v1/proxy/8000/ {{
      if ($http_x_sandbox_token != "{TOKEN}") {{ return 401; }}
      proxy_pass http://app/;
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $conn;
      proxy_set_header X-Sandbox-Token "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      # Buffering on is its fastest setting; our own relay never buffers.
      proxy_max_temp_file_size 0;
      proxy_request_buffering off;
      proxy_read_timeout 3600s;
    }}
  }}
}}
""")
        exe = shutil.which("nginx") or "/usr/sbin/nginx"
        return [exe, "-e", self.dir + "/error.log", "-c", conf]


class Haproxy(Peer):
    name = "haproxy"

    @staticmethod
    def version():
        exe = shutil.which("haproxy") or "/usr/sbin/haproxy"
        if not os.path.exists(exe):
            return None
        out = subprocess.run([exe, "-v"], capture_output=True, text=True)
        return out.stdout.split()[2]

    def command(self):
        with open(self.tmp + "/both.pem", "w") as f:
            f.write(open(self.tmp + "/cert.pem").read())
            f.write(open(self.tmp + "/key.pem").read())
        conf = self.write("haproxy.cfg", f"""
global
  nbthread {self.workers}
  maxconn 8192
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  mode http
  timeout client 3600s
  timeout server 3600s
  timeout connect 5s
  timeout tunnel 3600s
  http-reuse always
frontend f
  bind 127.0.0.1:{self.https} ssl crt {self.tmp}/both.pem alpn http/1.1
  bind 127.0.0.1:{self.http}
  http-request deny deny_status 401 unless {{ req.hdr(x-sandbox-token) -m str {TOKEN} }}
  http-request deny deny_status 404 unless {{ path_beg /v1/proxy/8000/ }}
  http-request replace-path /v1/proxy/8000/(.*) /\\1
  http-request del-header x-sandbox-token
  http-request set-header x-forwarded-proto https if {{ ssl_fc }}
  option forwardfor
  default_backend b
backend b
  server app unix@{self.sock} pool-max-conn 256
""")
        exe = shutil.which("haproxy") or "/usr/sbin/haproxy"
        return [exe, "-db", "-f", conf]


class Sbx(Peer):
    name = "sbx-gateway"
    build = "build"

    @classmethod
    def version(cls):
        exe = os.path.join(cls.build, "sbx-gateway")
        if not os.path.exists(exe):
            return None
        out = subprocess.run([exe, "-V"], capture_output=True, text=True)
        return out.stdout.split()[-1] if out.stdout else "?"

    def environment(self):
        return dict(os.environ, SBX_TOKEN=TOKEN,
                    SBX_PROXY_DIR=os.path.dirname(self.sock))

    def command(self):
        # Not "--access-log -": the peers run with their logs off too.
        return [os.path.abspath(os.path.join(self.build, "sbx-gateway")),
                "--listen", f"https://127.0.0.1:{self.https}",
                "--listen", f"http://127.0.0.1:{self.http}",
                "--cert", self.tmp + "/cert.pem",
                "--key", self.tmp + "/key.pem",
                "--state-dir", self.dir + "/state",
                "--user", "root" if os.getuid() == 0 else "",
                "--access-log", "off",
                "--workers", str(self.workers)]


class Bench:
    def __init__(self, args, tmp):
        self.args, self.tmp = args, tmp
        self.load = os.path.join(args.build, "tests/bench/load")

    def run_load(self, peer, mode, tls=True, **kw):
        path = peer.path + kw.pop("path", "/x")
        cmd = [self.load, "--mode", mode, "--path", path,
               "--port", str(peer.https if tls else peer.http),
               "--header", "X-Sandbox-Token: " + TOKEN]
        if tls:
            cmd.append("--tls")
        for k, v in kw.items():
            cmd += ["--" + k, str(v)]
        return cmd

    def timed(self, peer, per, mode, **kw):
        """Runs one load; adds CPU per operation (microseconds) or, with per,
        CPU seconds per that many units."""
        warm = dict(kw, count=min(kw["count"], 200))
        if mode in ("get", "ws"):
            subprocess.run(self.run_load(peer, mode, **warm), check=True,
                           capture_output=True)
        pids = peer.pids()
        before = cpu_ns(pids)
        out = subprocess.run(self.run_load(peer, mode, **kw),
                             capture_output=True, text=True)
        if out.returncode != 0:
            raise RuntimeError(f"{peer.name} {mode}: {out.stderr.strip()}")
        used = cpu_ns(pids) - before
        res = json.loads(out.stdout)
        res["cpu_us"] = used / 1000 / res["count"]
        if per:
            res["cpu_s_gib"] = used / 1e9 / per
        return res

    def held(self, peer, mode, n):
        pids = peer.pids()
        before = pss_bytes(pids)
        p = subprocess.Popen(self.run_load(peer, mode, conns=n),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        line = p.stdout.readline()
        if line.strip() != "ready":
            raise RuntimeError(f"{peer.name} {mode}: {p.stderr.read()}")
        time.sleep(0.5)  # let deferred frees happen; not a measurement
        after = pss_bytes(pids)
        p.stdin.close()
        p.wait()
        return {"kib": (after - before) / 1024 / n}

    def rows(self):
        s = self.args.scale

        def n(x):
            return max(64, int(x * s))

        big = int(256 * (1 << 20))
        return {
            "get-tls": (lambda p: self.timed(p, 0, "get", conns=32, count=n(60000)),
                        [("small request, TLS", "cpu_us", "µs CPU"),
                         ("  requests/s", "rate", "/s"),
                         ("  p50", "p50_us", "µs"), ("  p99", "p99_us", "µs")]),
            "get-plain": (lambda p: self.timed(p, 0, "get", tls=False, conns=32, count=n(60000)),
                          [("small request, plain HTTP", "cpu_us", "µs CPU"),
                           ("  requests/s", "rate", "/s"),
                           ("  p50", "p50_us", "µs"), ("  p99", "p99_us", "µs")]),
            "handshake": (lambda p: self.timed(p, 0, "handshake", conns=8, count=n(3000)),
                          [("full handshake + request", "cpu_us", "µs CPU"),
                           ("  handshakes/s", "rate", "/s")]),
            "resumed": (lambda p: self.timed(p, 0, "resumed", conns=8, count=n(3000)),
                        [("resumed handshake + request", "cpu_us", "µs CPU"),
                         ("  handshakes/s", "rate", "/s")]),
            "down": (lambda p: self.timed(p, 1, "down", path=f"/bytes/{big}", conns=2, count=4),
                     [("1 GiB down, TLS", "cpu_s_gib", "s CPU")]),
            "up": (lambda p: self.timed(p, 1, "up", bytes=big, conns=2, count=4),
                   [("1 GiB up, TLS", "cpu_s_gib", "s CPU")]),
            "ws": (lambda p: self.timed(p, 0, "ws", conns=32, count=n(60000)),
                   [("WebSocket echo, TLS", "cpu_us", "µs CPU"),
                    ("  messages/s", "rate", "/s")]),
            "idle": (lambda p: self.held(p, "idle", 2000),
                     [("idle TLS connection", "kib", "KiB")]),
            "idle-ws": (lambda p: self.held(p, "idle-ws", 2000),
                        [("idle proxied WebSocket, TLS", "kib", "KiB")]),
        }


def cpu_model():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def fmt(v):
    return f"{v:,.0f}" if v >= 1000 else f"{v:.2f}" if v < 10 else f"{v:.1f}"


def table(results, rows, peers, workers):
    head = ["", "unit"] + [p.name for p in peers] + ["ours / best peer"]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, (_, cols) in rows.items():
        for label, field, unit in cols:
            med, cells = {}, []
            for p in peers:
                vals = [r[field] for r in results.get((workers, p.name, key), [])]
                if not vals:
                    cells.append("-")
                    continue
                m = med[p.name] = statistics.median(vals)
                spread = (max(vals) - min(vals)) / m * 50 if m else 0
                cells.append(f"{fmt(m)} ±{spread:.0f}%")
            others = [v for k, v in med.items() if k != Sbx.name]
            ratio = "-"
            if Sbx.name in med and others:
                best = max(others) if unit == "/s" else min(others)
                ratio = f"{med[Sbx.name] / best:.2f}" if best else "-"
            out.append("| " + " | ".join([label, unit] + cells + [ratio]) + " |")
    return "\n".join(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--build", default="build")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--workers", default="1,2")
    ap.add_argument("--only", default="")
    ap.add_argument("--peers", default="nginx,haproxy,sbx-gateway")
    ap.add_argument("--scale", type=float, default=1.0)
    ap.add_argument("--markdown")
    args = ap.parse_args()
    Sbx.build = args.build
    peers = [p for p in (Nginx, Haproxy, Sbx)
             if p.name in args.peers.split(",")]
    for p in list(peers):
        if p.version() is None:
            print(f"{p.name} is not installed: left out", file=sys.stderr)
            peers.remove(p)
    tmp = tempfile.mkdtemp(prefix="sbx-bench-")
    os.chmod(tmp, 0o755)
    backend = None
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", tmp + "/key.pem", "-out", tmp + "/cert.pem"],
            check=True, capture_output=True)
        os.mkdir(tmp + "/proxy")
        sock = tmp + "/proxy/8000.sock"
        backend = subprocess.Popen(
            [os.path.join(args.build, "tests/bench/backend"), sock],
            stdout=subprocess.PIPE, text=True)
        backend.stdout.readline()
        os.chmod(sock, 0o666)
        bench = Bench(args, tmp)
        rows = bench.rows()
        if args.only:
            rows = {k: v for k, v in rows.items() if k in args.only.split(",")}
        results = {}
        text = []
        for workers in [int(w) for w in args.workers.split(",")]:
            for rnd in range(args.rounds):
                for key, (fn, _) in rows.items():
                    for cls in peers:
                        peer = cls(tmp, sock, workers)
                        try:
                            r = fn(peer)
                        finally:
                            peer.stop()
                        results.setdefault((workers, cls.name, key), []).append(r)
                        print(f"[{workers}w round {rnd + 1}] {key:10} "
                              f"{cls.name:12} " + " ".join(
                                  f"{k}={v:.2f}" for k, v in r.items()
                                  if isinstance(v, float)),
                              file=sys.stderr, flush=True)
            text.append(f"### {workers} worker{'s' if workers > 1 else ''}\n\n"
                        + table(results, rows, peers, workers) + "\n")
        versions = ", ".join(f"{p.name} {p.version()}" for p in peers)
        kernel = os.uname().release.split("-")[0]
        head = (f"{versions}; Linux {kernel}, {os.cpu_count()} cores, "
                f"{cpu_model()}; medians of {args.rounds} rounds, "
                "± half the range.\n\n")
        text = head + "\n".join(text)
        print(text)
        if args.markdown:
            with open(args.markdown, "w") as f:
                f.write(text)
    finally:
        if backend:
            backend.terminate()
            backend.wait()
        shutil.rmtree(tmp, ignore_errors=True)


if __name__ == "__main__":
    main()
