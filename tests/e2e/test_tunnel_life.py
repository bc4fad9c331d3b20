# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel when things break: lost, frozen and returning servers."""

import os
import signal
import socket
import time

import pytest

from support import paths
from support.peer import Peer, dial, echo, exchange
from support.sshd import SSHD, Sshd, Tunnel
from support.wait import until

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
        # an idle tunnel to a healthy server stays
        until(lambda: time.monotonic() > start + 2.5, "quiet",
              5) if (start := time.monotonic()) else None
        assert t.events.empty()
        frozen = sshd.sessions()
        start = time.monotonic()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        down = t.next("down")
        took = time.monotonic() - start
        assert "not responding" in down["reason"]
        assert took < 3.3 * paths.SLOW, took
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
