# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel when the network goes away: sshd in a network namespace behind
a link that can be cut."""

import os
import shutil
import signal
import socket
import subprocess

import pytest

from support.peer import Peer, dial, echo, slurp
from support.sshd import SIDECAR, SSHD, Sshd, Tunnel
from support.wait import until

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no sshd"),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None,
                       reason="needs root and iproute2")]

ALIVE = ("ServerAliveInterval=1", "ServerAliveCountMax=2",
         "ConnectTimeout=2", "SbxBackoffMax=1s")


class Link:
    """A namespace with one link to here; cut() and mend() either end."""

    def __init__(self):
        pid = os.getpid()
        self.ns = f"sbxt{pid}"
        self.ends = {"near": f"sbxn{pid}", "far": f"sbxf{pid}"}
        net = f"198.{18 + (pid >> 14 & 1)}.{pid >> 6 & 255}."
        self.near = f"{net}{(pid & 63) * 4 + 1}"
        self.far = f"{net}{(pid & 63) * 4 + 2}"
        self.inside = ["ip", "netns", "exec", self.ns]

    def ip(self, *args, inside=False):
        subprocess.run([*(self.inside if inside else ()), "ip", *args],
                       check=True, capture_output=True)

    def __enter__(self):
        near, far = self.ends["near"], self.ends["far"]
        self.ip("netns", "add", self.ns)
        try:
            self.ip("link", "add", near, "type", "veth", "peer", "name", far,
                    "netns", self.ns)
            self.ip("addr", "add", f"{self.near}/30", "dev", near)
            self.ip("addr", "add", f"{self.far}/30", "dev", far, inside=True)
            self.ip("link", "set", "lo", "up", inside=True)
            self.set("near", "up")
            self.set("far", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        # the link by itself: the namespace goes when its last process has
        for args in (["link", "del", self.ends["near"]],
                     ["netns", "del", self.ns]):
            subprocess.run(["ip", *args], check=False, capture_output=True)

    def set(self, end, state):
        self.ip("link", "set", self.ends[end], state, inside=end == "far")


@pytest.fixture
def link():
    with Link() as found:
        yield found


def talk(host, port, data):
    """exchange(), with somebody who may not be on loopback."""
    with socket.create_connection((host, port), 5) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return slurp(s)


def works(link, local, remote):
    try:
        with dial(local, 5) as s:
            s.sendall(b"x")
            return (s.recv(1) == b"x" and
                    talk(link.far, remote, b"y") == b"y")
    except OSError:
        return False


@pytest.mark.parametrize("end", ["near", "far"])
def test_link_that_goes_down_and_comes_back(tmp, link, end):
    """near: the kernel says so; far: packets just vanish. It is noticed by
    the keep-alives, and afterwards every forward is back where it was, though
    the far side may hold its port for the dead session."""
    config = SIDECAR.replace("ClientAliveInterval 30",
                             "ClientAliveInterval 1").replace(
        "ClientAliveCountMax 20", "ClientAliveCountMax 2")
    with Peer(echo, host=link.near) as p, Sshd(
            tmp, config, host=link.far, prefix=link.inside) as s, Tunnel(
            s, "-L", f"0:{p.target}", "-R", f"{link.far}:0:{p.target}",
            options=ALIVE) as t:
        local, remote = t.ports()
        assert works(link, local, remote)
        with dial(local) as cut:
            cut.sendall(b"1")
            assert cut.recv(1) == b"1"
            link.set(end, "down")
            cut.sendall(b"2")
            down = t.next("down", 8)
            assert "not responding" in down["reason"] or end == "near"
            with dial(local) as early:  # waits, is not refused
                early.sendall(b"early")
                link.set(end, "up")
                assert early.recv(5) == b"early"
            with pytest.raises(OSError):  # it must not look whole
                cut.settimeout(5)
                while cut.recv(1):
                    pass
                raise AssertionError("a clean end")
        back = t.next("reconnected", 20)
        assert [f["port"] for f in back["forwards"]] == [local, remote]
        assert all(f["state"] == "up" for f in back["forwards"])
        assert works(link, local, remote)


def test_port_is_taken_back_at_once(tmp, link):
    """With --reclaim, from a session that would hold it for ten minutes."""
    with Peer(echo, host=link.near) as p, Sshd(
            tmp, SIDECAR, host=link.far, prefix=link.inside) as s, Tunnel(
            s, "-L", f"0:{p.target}", "-R", f"{link.far}:0:{p.target}",
            "--reclaim", options=ALIVE) as t:
        local, remote = t.ports()
        dead = s.sessions()
        for pid in dead:  # so that no packet can end it
            os.kill(pid, signal.SIGSTOP)
        link.set("far", "down")
        t.next("down", 8)
        link.set("far", "up")
        back = t.next("reconnected", 20)
        assert [f["port"] for f in back["forwards"]] == [local, remote]
        until(lambda: works(link, local, remote), "both work")


def test_whole_network_gone_at_the_start(tmp, link):
    """--retry: listens at once, and is up when the link is."""
    with Peer(echo, host=link.near) as p, Sshd(
            tmp, SIDECAR, host=link.far, prefix=link.inside) as s:
        link.set("near", "down")
        with Tunnel(s, "-L", f"0:{p.target}", "--retry",
                    options=ALIVE) as t:
            assert t.next("down", 8)["reason"]
            link.set("near", "up")
            port, = t.ports()
            with dial(port) as c:
                c.sendall(b"x")
                assert c.recv(1) == b"x"
