# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel over several SSH connections at once."""

import contextlib
import os
import select
import signal
import socket
import subprocess

import pytest

from support import paths
from support.peer import Peer, dial, echo, exchange
from support.sshd import SSHD, Sshd, Tunnel, children
from support.wait import until

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd")

N = 3
VERSION = subprocess.run([paths.TUNNEL, "--version"], capture_output=True,
                         text=True).stdout


@pytest.fixture
def sshd(tmp):
    with Sshd(tmp) as s:
        yield s


@pytest.fixture
def peer():
    with Peer(echo) as p:
        yield p


def up(t, n=N):
    """Waits until n connections are, whichever line says so."""
    def seen():
        while not t.events.empty():
            t.seen.append(t.events.get())
        return [e["connections"]["up"] for e in t.seen if "connections" in e]

    until(lambda: seen()[-1:] == [n], f"{n} connections", 15)


def sockets(pid):
    """Open sockets of a process."""
    found = 0
    for fd in os.scandir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(fd.path).startswith("socket:")
        except OSError:
            pass
    return found


def test_channels_are_spread(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}", "-R", f"0:{peer.target}",
                "--connections", str(N)) as t:
        ready = t.ready()
        assert ready["connections"]["of"] == N
        port, remote = (f["port"] for f in ready["forwards"])
        up(t)
        pids = [t.process.pid, *children(t.process.pid)]
        assert len(pids) == N
        before = [sockets(pid) for pid in pids]
        held = [dial(port) for _ in range(10 * N)]
        for i, s in enumerate(held):
            s.sendall(b"%d" % i)
        for i, s in enumerate(held):
            assert s.recv(16) == b"%d" % i
        for pid, old in zip(pids, before):
            assert sockets(pid) - old >= 5
        for s in held:
            s.close()
        assert exchange(remote, b"x" * 99999) == b"x" * 99999
    assert not any(map(os.path.exists, (f"/proc/{p}" for p in pids)))


def test_one_that_dies_comes_back(sshd, peer):
    """Its own channels end; nobody else's do."""
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                "--connections", str(N)) as t:
        port, = t.ports()
        up(t)
        held = [dial(port) for _ in range(4 * N)]
        for s in held:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        os.kill(children(t.process.pid)[0], signal.SIGKILL)
        lost = t.next("connections")
        assert lost["connections"]["up"] == N - 1 and lost["reason"]
        alive = 0
        for s in held:
            try:
                s.sendall(b"y")
                alive += s.recv(1) == b"y"
            except OSError:
                pass
            s.close()
        assert 4 * N > alive >= 4 * N - 6
        assert exchange(port, b"z") == b"z"
        up(t)


def test_all_come_back_after_an_outage(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}", "-R", f"0:{peer.target}",
                "--connections", str(N)) as t:
        local, remote = t.ports()
        up(t)
        sshd.stop()
        up(t, 0)
        held = [dial(local) for _ in range(2 * N)]
        for s in held:
            s.sendall(b"early")
        assert sshd.start()
        for s in held:
            assert s.recv(5) == b"early"
            s.close()
        t.next("reconnected")
        up(t)
        assert exchange(remote, b"x") == b"x"


@contextlib.contextmanager
def deaf():
    """A port that neither answers nor refuses: its queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(8):
            s = stack.enter_context(socket.socket())
            s.setblocking(False)
            s.connect_ex(server.getsockname())
            if not select.select([], [s], [], 0.2)[1]:
                break
        else:
            raise AssertionError("the queue does not fill")
        yield server.getsockname()[1]


@pytest.mark.parametrize("n", ["2", pytest.param("1", marks=pytest.mark.skipif(
    "one channel at a time" in VERSION, reason="this libssh2 cannot"))])
def test_a_target_that_does_not_answer_holds_up_nobody(sshd, peer, n):
    with deaf() as port, Tunnel(sshd, "-L", f"0:127.0.0.1:{port}", "-L",
                                f"0:{peer.target}", "--connections",
                                n) as t:
        dead, good = t.ports()
        if n != "1":
            up(t, int(n))
        with dial(dead) as stuck:
            for _ in range(20):
                assert exchange(good, b"x") == b"x"
            # it still waits
            assert not select.select([stuck], [], [], 0)[0]


def test_it_ends_with_all_its_processes(sshd, peer):
    """Even when it is killed, and told twice."""
    for sigs in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGKILL,)):
        with Tunnel(sshd, "-L", f"0:{peer.target}",
                    "--connections", str(N)) as t:
            t.ready()
            up(t)
            pids = children(t.process.pid)
            for sig in sigs:
                t.process.send_signal(sig)
            t.process.wait(10)
            assert t.process.returncode == (
                -9 if sigs[0] == signal.SIGKILL else 255)
            until(lambda: not any(os.path.exists(f"/proc/{p}/fd/0")
                                  for p in pids), "they are gone")


@pytest.mark.parametrize("n", ["0", "33", "x", "-1"])
def test_bad_number(n):
    r = subprocess.run([paths.TUNNEL, "-t", "-L", "0:a:1", "-o",
                        f"SbxConnections={n}", "host"], text=True,
                       capture_output=True, env=paths.child_env())
    assert r.returncode == 255
    assert r.stderr == f"Bad value for SbxConnections: '{n}'\n"


@pytest.mark.skipif("one channel at a time" in VERSION,
                    reason="this libssh2 cannot")
def test_many_open_at_once(sshd, peer):
    """More than may be under way, some refused, some never answered, and
    some whose client has left: each gets its own answer."""
    with deaf() as port, Tunnel(
            sshd, "-L", f"0:127.0.0.1:{port}", "-L", "0:127.0.0.1:1", "-L",
            f"0:{peer.target}", "-R", f"0:{peer.target}") as t:
        dead, refused, good, remote = t.ports()
        stuck = [dial(dead) for _ in range(20)]
        bad = [dial(refused) for _ in range(100)]
        left = [dial(good) for _ in range(50)]
        for s in left:
            s.close()
        fine = [dial(p) for p in (good, remote) * 100]
        for i, s in enumerate(fine):
            s.sendall(b"%d." % i)
        for i, s in enumerate(fine):
            got = b""
            while not got.endswith(b"."):
                part = s.recv(16)
                assert part, i
                got += part
            assert got == b"%d." % i
        for s in bad:
            try:
                assert s.recv(1) == b""
            except ConnectionResetError:
                pass
        assert not select.select(stuck, [], [], 0)[0]
        # the session ends with all of them under way
        sshd.drop()
        t.next("reconnected")
        assert exchange(good, b"x") == b"x"
        for s in (*stuck, *bad, *fine):
            s.close()
