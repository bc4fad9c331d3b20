# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel under load, and what runs over it: every byte is checked."""

import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import threading

import pytest

from support import paths
from support.peer import Peer, dial, echo, exchange
from support.sshd import (HARDENED, SIDECAR, SSHD, Sshd, Tunnel, pick_port)
from support.wait import until

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd")

MODERN = "libssh2 1.10" not in subprocess.run(
    [paths.TUNNEL, "--version"], capture_output=True, text=True).stdout
modern = pytest.mark.skipif(not MODERN, reason="needs libssh2 1.11")

BLOCK = os.urandom(1 << 20)
REKEY = SIDECAR + "RekeyLimit 256K\n"


def pour(sock, size):
    """Sends size known bytes and the end."""
    while size:
        part = BLOCK[:min(size, len(BLOCK))]
        sock.sendall(part)
        size -= len(part)
    sock.shutdown(socket.SHUT_WR)


def drink(sock):
    """How many bytes came; -1 and where, if they are not those."""
    at, double = 0, BLOCK + BLOCK
    while got := sock.recv(1 << 18):
        start = at % len(BLOCK)
        if got != double[start:start + len(got)]:
            return -1, at
        at += len(got)
    return at


def both(sock, size):
    """Full duplex: both directions at once, independent of one another."""
    thread = threading.Thread(target=pour, args=(sock, size), daemon=True)
    thread.start()
    got = drink(sock)
    thread.join()
    return got


def transfer(sshd, size, each=1, args=()):
    """size bytes in each direction, at once, over `each` channels of -L and
    as many of -R; every end must have got all of them."""
    results, lock = [], threading.Lock()

    def serve(conn):
        got = both(conn, size)
        with lock:
            results.append(got)

    def run(port):
        with dial(port, 120) as s:
            serve(s)

    with Peer(serve) as p, Tunnel(sshd, "-L", f"0:{p.target}", "-R",
                                  f"0:{p.target}", *args) as t:
        ports = t.ports() * each
        threads = [threading.Thread(target=run, args=(port,), daemon=True)
                   for port in ports]
        for th in threads:
            th.start()
        for th in threads:
            th.join(120)
        until(lambda: len(results) == 2 * len(ports), "all have ended", 10)
        assert results == [size] * len(results)
        while not t.events.empty():
            t.seen.append(t.events.get())
        assert not any(e["event"] == "down" for e in t.seen)


def mib(n):
    return (n << 20) // (16 if paths.SANITIZED else 1)


def test_bulk_both_ways(tmp):
    """256 MiB each way in all, over -L and -R."""
    with Sshd(tmp) as s:
        transfer(s, mib(128))


@pytest.mark.parametrize("cipher", ["aes128-ctr", pytest.param(
    "aes256-gcm@openssh.com", marks=modern), pytest.param(
    "chacha20-poly1305@openssh.com", marks=modern)])
def test_rekey_under_load(tmp, cipher):
    """A new key each 256 KiB, in the middle of both directions."""
    with Sshd(tmp, REKEY + f"Ciphers {cipher}\n") as s:
        transfer(s, mib(6), 2)


@modern
def test_hardened_server_under_load(tmp):
    with Sshd(tmp, HARDENED + "RekeyLimit 512K\n") as s:
        transfer(s, mib(4), 2)


def test_spread_under_load(tmp):
    with Sshd(tmp, SIDECAR + "RekeyLimit 1M\n") as s:
        transfer(s, mib(8), 4, ("--connections", "3"))


@pytest.mark.skipif(not pathlib.Path("/proc/self/fd").is_dir(),
                    reason="no /proc")
def test_nothing_is_left_behind(tmp):
    """Channels, descriptors and memory are given back."""
    with Sshd(tmp) as s, Peer(echo) as p, Tunnel(
            s, "-L", f"0:{p.target}", "-R", f"0:{p.target}") as t:
        ports = t.ports()
        fds = pathlib.Path(f"/proc/{t.process.pid}/fd")

        def round_(n):
            for i in range(n):
                assert exchange(ports[i % 2], b"x" * 3000) == b"x" * 3000

        def count():
            return len(list(fds.iterdir()))

        round_(4)
        before = count()
        round_(100)
        held = [dial(port) for port in ports * 50]
        for h in held:
            h.sendall(b"x")
            assert h.recv(1) == b"x"
        for h in held:
            h.close()
        until(lambda: count() <= before, "descriptors are closed")


# --- programs over it -----------------------------------------------------

def test_git_push_and_clone(tmp):
    """Over a reverse forward, with history both ways."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org",
           "-c", "init.defaultBranch=main", "-c", "protocol.version=2"]

    def run(*args):
        return subprocess.run([*git, *args], check=True, capture_output=True,
                              text=True, timeout=60).stdout

    run("init", "-q", "--bare", tmp / "srv.git")
    run("init", "-q", tmp / "one")
    (tmp / "one" / "file").write_bytes(os.urandom(1 << 20))
    run("-C", tmp / "one", "add", ".")
    run("-C", tmp / "one", "commit", "-qm", "x")
    port = pick_port()
    daemon = subprocess.Popen(
        ["git", "daemon", "--export-all", "--enable=receive-pack",
         f"--base-path={tmp}", "--listen=127.0.0.1", f"--port={port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        until(listens, "git daemon listens")
        with Sshd(tmp) as s, Tunnel(s, "-R", f"0:127.0.0.1:{port}",
                                    "-L", f"0:127.0.0.1:{port}") as t:
            remote, local = t.ports()
            run("-C", tmp / "one", "push", "-q",
                f"git://127.0.0.1:{remote}/srv.git", "HEAD:main")
            run("clone", "-q", f"git://127.0.0.1:{local}/srv.git",
                tmp / "two")
        assert ((tmp / "one" / "file").read_bytes() ==
                (tmp / "two" / "file").read_bytes())
    finally:
        os.killpg(daemon.pid, 15)
        daemon.wait()


@pytest.fixture
def model(tmp):
    """An https endpoint that streams; go() lets it send the next event."""
    key, cert = tmp / "key.pem", tmp / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=model", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    next_ = threading.Semaphore(0)
    targets = []

    def serve(raw):
        with tls.wrap_socket(raw, server_side=True) as conn:
            head = b""
            while b"\r\n\r\n" not in head:
                head += conn.recv(4096)
            targets.append(head.split(b" ")[1].decode())
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"
                         b"\r\nConnection: close\r\n\r\n")
            for i in range(3):
                next_.acquire(timeout=30)
                conn.sendall(b"data: token %d\n\n" % i)

    with Peer(serve) as p:
        yield p, cert, targets, next_.release


@pytest.mark.parametrize("way", ["-L", "-R"])
def test_https_tokens_arrive_live(tmp, model, way):
    """Each token is there before the next one is sent; path and query are
    the client's."""
    peer, cert, targets, go = model
    path = "/v1/chat/completions?api-version=2024-02-01&x=%2Fa%20b"
    with Sshd(tmp) as s, Tunnel(s, way, f"0:{peer.target}") as t:
        port, = t.ports()
        conn = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=20,
            context=ssl.create_default_context(cafile=cert))
        conn.request("POST", path, b"{}")
        answer = conn.getresponse()
        for i in range(3):
            go()
            assert answer.readline() == b"data: token %d\n" % i
            assert answer.readline() == b"\n"
        assert answer.read() == b""
        conn.close()
    assert targets == [path]
