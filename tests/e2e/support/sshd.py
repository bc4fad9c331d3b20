# SPDX-License-Identifier: Apache-2.0
"""A real OpenSSH server of one's own, and sbx-tunnel beside it.

    with Sshd(tmp) as sshd, Tunnel(sshd, "-L", "0:127.0.0.1:80") as t:
        port = t.ready()["forwards"][0]["port"]
"""

import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time

from . import paths
from .wait import until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
USER = subprocess.run(["id", "-un"], capture_output=True, text=True,
                      check=True).stdout.strip()

SIDECAR = """
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding yes
PermitListen any
GatewayPorts clientspecified
X11Forwarding no
ClientAliveInterval 30
ClientAliveCountMax 20
TCPKeepAlive yes
UseDNS no
MaxSessions 50
MaxStartups 200
"""

HARDENED = SIDECAR + """
Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com
MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com
KexAlgorithms curve25519-sha256
HostKeyAlgorithms ssh-ed25519
"""


def pick_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def keygen(path, kind="ed25519", passphrase="", *more):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f",
                    str(path), *more], check=True, stdin=subprocess.DEVNULL)
    return pathlib.Path(path)


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(p) for p in text.split()]


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


class Sshd:
    """sshd on a free loopback port with its keys in tmp. `key` may log in."""

    def __init__(self, tmp, config=SIDECAR, host_keys=("ed25519",),
                 user_key="ed25519", host="127.0.0.1", prefix=()):
        """prefix: a command that runs sshd, somewhere else perhaps."""
        self.host = host
        self.prefix = prefix
        self.dir = pathlib.Path(tmp) / f"sshd-{time.monotonic_ns()}"
        self.dir.mkdir()
        self.host_keys = [keygen(self.dir / f"host_{k}", k)
                          for k in host_keys]
        self.key = keygen(self.dir / "user", user_key)
        self.authorized = self.dir / "authorized"
        self.authorized.write_text(self.pub())
        self.known = self.dir / "known_hosts"
        self.conf = self.dir / "sshd_config"
        self.config = config
        self.log = open(self.dir / "sshd.log", "ab")
        self.process = None
        self.port = None

    def pub(self, key=None):
        return pathlib.Path(f"{key or self.key}.pub").read_text()

    def host_line(self, name=None, key=None):
        """A known_hosts line for this server."""
        pub = self.pub(key or self.host_keys[0]).split()
        return f"{name or f'[{self.host}]:{self.port}'} {pub[0]} {pub[1]}\n"

    def __enter__(self):
        for _ in range(5):
            self.port = pick_port()
            if self.start():
                self.known.write_text(
                    "".join(self.host_line(key=k) for k in self.host_keys))
                return self
        raise AssertionError((self.dir / "sshd.log").read_text())

    def __exit__(self, *exc):
        self.stop()
        self.log.close()

    def start(self):
        """False when the port was lost to somebody else."""
        os.makedirs("/run/sshd", exist_ok=True)
        keys = "".join(f"HostKey {k}\n" for k in self.host_keys)
        # SHLVL: bash under sshd would else read .bashrc, whatever that does
        self.conf.write_text(
            f"SetEnv SHLVL=2\nPort {self.port}\nListenAddress {self.host}\n{keys}"
            f"AuthorizedKeysFile {self.authorized}\nStrictModes no\n"
            f"UsePAM no\nPidFile none\nLogLevel VERBOSE\n{self.config}")
        self.process = subprocess.Popen(
            [*self.prefix, SSHD, "-D", "-e", "-f", self.conf], stdin=subprocess.DEVNULL,
            stderr=self.log, stdout=self.log)
        return until(lambda: self.process.poll() is not None or
                     self.answers(), "sshd listens") is True

    def answers(self):
        try:
            with socket.create_connection((self.host, self.port), 5) as s:
                return s.recv(4) == b"SSH-"
        except OSError:
            return False

    def sessions(self):
        """Processes that serve connections."""
        return descendants(self.process.pid)

    def signal_sessions(self, sig):
        for pid in self.sessions():
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass

    def drop(self):
        """Ends every connection, as a crash would; goes on listening."""
        self.signal_sessions(signal.SIGKILL)

    def stop(self):
        if self.process is None:
            return
        pids = self.sessions()
        self.process.kill()
        self.process.wait()
        self.process = None
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Tunnel:
    """sbx-tunnel to an Sshd; its status lines in order through next()."""

    def __init__(self, sshd, *args, options=(), key=None, known=None,
                 user=USER, program=paths.TUNNEL, host=None,
                 strict="yes", env=None, only=True):
        argv = [str(program), "-N", "-p", str(sshd.port), "-F", "none",
                "-i", str(key or sshd.key)]
        for o in (f"UserKnownHostsFile={known or sshd.known}",
                  "GlobalKnownHostsFile=none",
                  f"IdentitiesOnly={'yes' if only else 'no'}",
                  f"StrictHostKeyChecking={strict}", "BatchMode=yes",
                  *options):
            argv += ["-o", o]
        r, w = os.pipe()
        host = host or getattr(sshd, "host", "127.0.0.1")
        argv += ["--status-fd", str(w), *args, f"{user}@{host}"]
        self.argv = argv
        self.events = queue.Queue()
        self.seen = []
        self.err = b""
        self.process = subprocess.Popen(
            argv, pass_fds=(w,), stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=paths.child_env(env))
        os.close(w)
        self.threads = [threading.Thread(target=f, daemon=True, args=a)
                        for f, a in ((self._read, (r,)), (self._err, ()))]
        for t in self.threads:
            t.start()

    def _read(self, fd):
        with os.fdopen(fd) as f:
            for line in f:
                self.events.put(json.loads(line))
        self.events.put(None)

    def _err(self):
        for line in self.process.stderr:
            self.err += line

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        code = self.end()
        assert code in (255, -9), (code, self.err.decode())
        assert b"Sanitizer" not in self.err, self.err.decode()

    def next(self, event, seconds=15.0):
        """The next status line of that kind."""
        end = time.monotonic() + seconds * paths.SLOW
        while True:
            try:
                got = self.events.get(timeout=max(0.01,
                                                  end - time.monotonic()))
            except queue.Empty:
                got = None
            if got is None:
                raise AssertionError(
                    f"no {event}; saw {self.seen}, stderr {self.err!r}")
            self.seen.append(got)
            if got["event"] == event:
                return got

    def ready(self):
        return self.next("ready")

    def ports(self):
        """Ports of all forwards, in order, once it is ready."""
        return [f.get("port") for f in self.ready()["forwards"]]

    def wait(self, seconds=15.0):
        """Exit status and stderr of one that ends on its own."""
        code = self.process.wait(seconds * paths.SLOW)
        for t in self.threads:
            t.join(5)
        return code, self.err.decode()

    def end(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            self.process.wait(5 * paths.SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for t in self.threads:
            t.join(5)
        return self.process.returncode
