# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel when things break: lost, frozen and returning servers."""

import os
import signal
import socket
import threading
import time

import pytest

from support import paths
from support.peer import Peer, dial, echo, exchange
from support.sshd import SIDECAR, SSHD, Sshd, Tunnel
from support.wait import stop, until

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd")


@pytest.fixture
def sshd(tmp):
    with Sshd(tmp) as s:
        yield s


@pytest.fixture
def peer():
    with Peer(echo) as p:
        yield p


def test_reconnects_after_a_lost_session(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                "-R", f"0:{peer.target}") as t:
        local, remote = t.ports()
        for _ in range(3):
            sshd.drop()
            down = t.next("down")
            assert down["reason"]
            back = t.next("reconnected")
            assert back["down_ms"] < 3000 * paths.SLOW
            # the same ports as before
            assert [f["port"] for f in back["forwards"]] == [local, remote]
            assert exchange(local, b"x") == b"x"
            assert exchange(remote, b"y") == b"y"


def test_connections_wait_for_a_server_that_returns(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}") as t:
        port, = t.ports()
        sshd.stop()
        t.next("down")
        with dial(port) as s:
            s.sendall(b"early")
            assert sshd.start()
            start = time.monotonic()
            assert s.recv(5) == b"early"
            assert time.monotonic() - start < 1.0 * paths.SLOW
        t.next("reconnected")


def test_cut_transfer_does_not_look_whole(sshd):
    def serve(conn):
        conn.recv(1)
        while True:
            conn.sendall(bytes(65536))

    with Peer(serve) as p, Tunnel(sshd, "-L", f"0:{p.target}") as t:
        with dial(t.ports()[0]) as s:
            s.sendall(b"x")
            s.recv(65536)
            sshd.drop()
            with pytest.raises(ConnectionResetError):
                while s.recv(65536):
                    pass
        t.next("reconnected")


def test_frozen_server_is_noticed(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                options=("ServerAliveInterval=1",
                         "ServerAliveCountMax=2")) as t:
        port, = t.ports()
        # an idle tunnel to a healthy server stays: probes are answered
        with pytest.raises(AssertionError):
            t.next("down", 3.0 / paths.SLOW)
        frozen = sshd.sessions()
        for pid in frozen:
            stop(pid)
        down = t.next("down", 15)
        assert "not responding" in down["reason"]
        t.next("reconnected")
        assert exchange(port, b"x") == b"x"
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)


def test_first_connection_can_wait_for_ever(sshd, peer):
    sshd.stop()
    with Tunnel(sshd, "-L", f"0:{peer.target}", "--retry") as t:
        t.next("down")
        assert sshd.start()
        port, = t.ports()
        assert exchange(port, b"x") == b"x"


def test_many_connections(sshd, peer):
    """200 held each way at once."""
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                "-R", f"0:{peer.target}") as t:
        held = []
        for port in t.ports():
            for i in range(200):
                s = dial(port)
                s.sendall(b"%d" % i)
                held.append((s, b"%d" % i))
        for s, data in held:
            assert s.recv(16) == data
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""
            s.close()


def test_stalled_reader_stops_nobody_else(sshd):
    def serve(conn):
        kind = conn.recv(1)
        if kind == b"f":  # a flood that nobody reads
            while True:
                conn.sendall(bytes(1 << 16))
        echo(conn)

    with Peer(serve) as p, Tunnel(sshd, "-L", f"0:{p.target}") as t:
        port, = t.ports()
        stalled = dial(port)
        stalled.sendall(b"f")
        others = [dial(port) for _ in range(63)]
        try:
            for _ in range(3):
                for s in others:
                    s.sendall(b"e" + os.urandom(20000))
            for s in others:
                left = 3 * 20001 - 1
                while left:
                    got = s.recv(left)
                    assert got
                    left -= len(got)
            # and the stalled one goes on when it is read
            left = 8 << 20
            while left > 0:
                left -= len(stalled.recv(1 << 20))
        finally:
            for s in (stalled, *others):
                s.close()


# --- load -----------------------------------------------------------------

REKEY = SIDECAR + "RekeyLimit 256K\n"


def flood(port, size, results, seed):
    """Sends size bytes and reads as many, checking every one."""
    data = os.urandom(1 << 20)
    with dial(port, 60) as s:
        def send():
            left = size
            while left:
                part = data[:min(left, len(data))]
                s.sendall(part)
                left -= len(part)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        at = 0
        while got := s.recv(1 << 18):
            start = at % len(data)
            want = (data + data[:1 << 18])[start:start + len(got)]
            if got != want:
                results[seed] = f"differs near {at}"
                return
            at += len(got)
        sender.join()
        results[seed] = at


@pytest.mark.parametrize("config", [SIDECAR, REKEY],
                         ids=["plain", "rekey-256K"])
def test_load_in_both_directions(tmp, peer, config):
    """Byte-exact, many channels, both ways at once, under rekeying."""
    size = (2 << 20) if paths.SANITIZED or "Rekey" in config else 16 << 20
    with Sshd(tmp, config) as s, Tunnel(s, "-L", f"0:{peer.target}",
                                        "-R", f"0:{peer.target}") as t:
        ports, results = t.ports(), {}
        threads = [threading.Thread(target=flood, daemon=True,
                                    args=(ports[i % 2], size, results, i))
                   for i in range(4)]
        for th in threads:
            th.start()
        for th in threads:
            th.join(120)
        assert results == {i: size for i in range(4)}
        assert not any(e["event"] == "down" for e in t.seen)


def test_short_connections(sshd, peer):
    """2,000 of them, a few at a time, half through each direction."""
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                "-R", f"0:{peer.target}") as t:
        ports, bad = t.ports(), []

        def some(n):
            for i in range(250):
                try:
                    if exchange(ports[n % 2], b"%d" % i) != b"%d" % i:
                        bad.append((n, i))
                except OSError as e:
                    bad.append((n, i, e))

        threads = [threading.Thread(target=some, args=(n,), daemon=True)
                   for n in range(8)]
        for th in threads:
            th.start()
        for th in threads:
            th.join(60)
        assert not bad


def test_idle_memory_is_bounded(sshd):
    """A reader that stalls holds windows and marks, not the transfer."""
    def serve(conn):
        conn.recv(1)
        while True:
            conn.sendall(bytes(1 << 16))

    with Peer(serve) as p, Tunnel(sshd, "-L", f"0:{p.target}") as t:
        port, = t.ports()

        def rss():
            text = open(f"/proc/{t.process.pid}/statm").read()
            return int(text.split()[1]) * 4096

        before = rss()
        held = [dial(port) for _ in range(4)]
        for s in held:
            s.sendall(b"x")
        sizes = [before]

        def still():
            sizes.append(rss())
            return len(sizes) > 3 and sizes[-1] == sizes[-3]

        until(still, "it stops growing", 20, 0.3)
        assert rss() - before < (64 << 20) * paths.SLOW
        for s in held:
            s.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_takes_its_port_back_from_its_dead_session(sshd, peer):
    """The old session is frozen, not gone: it holds the port."""
    with Tunnel(sshd, "-R", f"0:{peer.target}", "--reclaim",
                options=("ServerAliveInterval=1",
                         "ServerAliveCountMax=2")) as t:
        port, = t.ports()
        assert exchange(port, b"x") == b"x"
        frozen = sshd.sessions()
        for pid in frozen:
            stop(pid)
        back = t.next("reconnected")
        assert back["forwards"][0]["port"] == port
        assert exchange(port, b"y") == b"y"
        for pid in frozen:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_waits_for_a_port_that_its_dead_session_holds(sshd, peer):
    """Without --reclaim it is degraded until the port is free."""
    with Tunnel(sshd, "-R", f"0:{peer.target}", "-L", f"0:{peer.target}",
                options=("ServerAliveInterval=1",
                         "ServerAliveCountMax=2")) as t:
        port, local = t.ports()
        frozen = sshd.sessions()
        for pid in frozen:
            stop(pid)
        assert t.next("degraded")["failed"] == 1
        assert exchange(local, b"x") == b"x"
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
        back = t.next("reconnected")
        assert back["forwards"][0]["port"] == port
        assert exchange(port, b"y") == b"y"
