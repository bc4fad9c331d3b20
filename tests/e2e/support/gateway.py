# SPDX-License-Identifier: Apache-2.0
"""One running sbx-gateway.

    with Gateway.sidecar(tmp) as gw:              # no configuration file
        get(gw.https, "/v1/proxy/8000/", token=gw.token)

    with Gateway(tmp, config="[listen]\n...") as gw:
        gw.signal(signal.SIGHUP)

It has started when start() returns (its `ready` line was read). stop() ends
it with SIGTERM, and a program that ends badly, writes a sanitizer report or
leaves a process behind fails the test.
"""

import os
import pathlib
import queue
import re
import signal
import socket
import ssl
import subprocess
import threading

from . import paths
from .wait import until

TOKEN = "e2e-operator-0123456789abcdef0123456789abcdef"


class GatewayError(Exception):
    """It did not start; the text is what it said."""


def listen_address(url):
    """("127.0.0.1", 8443) of https://127.0.0.1:8443, "/path" of unix:/path"""
    if url.startswith("unix:"):
        return url[len("unix:"):]
    host, port = url.split("://", 1)[1].rsplit(":", 1)
    return host.strip("[]"), int(port)


def _children(pid):
    """Living descendants of pid, not pid itself."""
    by_parent = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        fields = stat.rsplit(")", 1)[1].split()
        if fields[0] != "Z":
            by_parent.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        for child in by_parent.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def _alive(pid):
    try:
        stat = pathlib.Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


class Gateway:
    """A gateway process. What may be set before start(): argv, env, token."""

    def __init__(self, tmp, config=None, args=(), env=None, token=TOKEN,
                 state_dir=None):
        self.tmp = pathlib.Path(tmp)
        self.state_dir = pathlib.Path(state_dir or self.tmp / "state")
        self.proxy_dir = self.tmp / "proxy"
        self.proxy_dir.mkdir(parents=True, exist_ok=True)
        self.token = token
        self.env = dict(env or {})
        self.argv = [str(paths.GATEWAY)]
        if config is not None:
            self.config = self.tmp / "gateway.ini"
            self.config.write_text(config)
            self.argv += ["-c", str(self.config)]
        self.argv += list(args)
        self.proc = None
        self.listens = []
        self.log_path = self.tmp / "gateway.log"
        self._out = queue.Queue()
        self._out_lines = []
        self._family = set()

    @classmethod
    def sidecar(cls, tmp, listens=("https://127.0.0.1:0",
                                   "http://127.0.0.1:0"), args=(), **kw):
        """The smallest set-up: routes /v1/proxy/<port>/ to
        <tmp>/proxy/<port>.sock, opened by self.token."""
        gw = cls(tmp, **kw)
        for one in listens:
            gw.argv += ["--listen", one]
        gw.argv += ["--state-dir", str(gw.state_dir), *args]
        gw.env.setdefault("SBX_TOKEN", gw.token)
        gw.env.setdefault("SBX_PROXY_DIR", str(gw.proxy_dir))
        return gw

    # --- life -----------------------------------------------------------
    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        self.stop(check=kind is None)

    def start(self, seconds=20.0):
        """Starts it and waits for the `ready` line."""
        log = open(self.log_path, "ab")
        with log:
            self.proc = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=log, env=paths.child_env(self.env), cwd=self.tmp,
                start_new_session=True)
        threading.Thread(target=self._read_stdout, daemon=True).start()
        line = self.wait_stdout(r"^ready\b", seconds * paths.SLOW)
        self.listens = [w for w in line.split()[1:]
                        if "://" in w or w.startswith("unix:")]
        return self

    def _read_stdout(self):
        with self.proc.stdout as out:
            for raw in out:
                self._out.put(raw.decode(errors="replace").rstrip("\n"))
        self._out.put(None)

    def wait_stdout(self, pattern, seconds=10.0):
        """The next line on its standard output that matches."""
        while True:
            try:
                line = self._out.get(timeout=seconds)
            except queue.Empty:
                self.stop(check=False)
                raise GatewayError(f"no {pattern!r} within {seconds:g} s:\n"
                                   + self.log()) from None
            if line is None:
                self._out.put(None)
                self.proc.wait()
                raise GatewayError(f"exit {self.proc.returncode}:\n"
                                   + self.log())
            self._out_lines.append(line)
            if re.search(pattern, line):
                return line

    def signal(self, number):
        self.proc.send_signal(number)

    def stop(self, check=True, seconds=15.0):
        """Ends it; True when it ended by itself on SIGTERM."""
        if self.proc is None:
            return True
        seconds *= paths.SLOW
        self._family.update(_children(self.proc.pid))
        by_itself = True
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            by_itself = False
        left = []
        if by_itself:
            try:
                until(lambda: not any(map(_alive, self._family)), seconds=5)
            except AssertionError:
                left = [p for p in self._family if _alive(p)]
        else:
            left = [p for p in self._family if _alive(p)]
        self._kill_group()
        code, self.proc = self.proc.returncode, None
        if not check:
            return by_itself
        assert by_itself, "did not end on SIGTERM:\n" + self.log()
        assert not left, f"left processes behind: {left}\n" + self.log()
        assert code == 0, f"ended with {code}:\n" + self.log()
        self.check_log()
        return True

    def kill(self):
        """Ends it at once, for tests about that."""
        self._family.update(_children(self.proc.pid))
        self._kill_group()
        self.proc = None

    def _kill_group(self):
        pids = set(self._family)
        if self.proc is not None:
            pids.update(_children(self.proc.pid))
            pids.add(self.proc.pid)
        for pid in pids:
            if not _alive(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.proc is not None:
            self.proc.wait()

    # --- looking at it --------------------------------------------------
    def url(self, scheme):
        """Its first listener of that scheme: "https", "http", "unix"."""
        for one in self.listens:
            if one.startswith(scheme + ":"):
                return one
        raise LookupError(f"no {scheme} listener among {self.listens}")

    @property
    def https(self):
        return self.url("https")

    @property
    def http(self):
        return self.url("http")

    def workers(self):
        """Its children (workers, and the embedded agent if there is one)."""
        kids = _children(self.proc.pid)
        self._family.update(kids)
        return kids

    def log(self):
        out = "\n".join(self._out_lines)
        try:
            return out + "\n" + self.log_path.read_text(errors="replace")
        except OSError:
            return out

    def stdout(self):
        """What it has printed so far (the access log goes there)."""
        while not self._out.empty():
            line = self._out.get()
            if line is None:
                self._out.put(None)
                break
            self._out_lines.append(line)
        return "\n".join(self._out_lines)

    def check_log(self):
        """No sanitizer report, no assertion, and not the token."""
        text = self.stdout() + "\n" + self.log()
        for bad in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer",
                    "runtime error:", "Assertion `"):
            assert bad not in text, text
        assert not self.token or self.token not in text, \
            "the token is in the log:\n" + text

    def sockets(self):
        """How many sockets it and its workers hold."""
        count = 0
        for pid in [self.proc.pid, *self.workers()]:
            try:
                names = os.listdir(f"/proc/{pid}/fd")
            except OSError:
                continue
            for name in names:
                try:
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                except OSError:
                    continue
                count += link.startswith("socket:")
        return count


def run(args, env=None, timeout=30, **kw):
    """sbx-gateway with these arguments, to its end (-t, token add, ...)."""
    return subprocess.run([str(paths.GATEWAY), *map(str, args)],
                          env=paths.child_env(env), timeout=timeout,
                          capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, **kw)


def tls_context(alpn=("http/1.1",), ca=None, version=None):
    """A client context; without ca it takes any certificate."""
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        ctx.check_hostname = False
        ctx.verify_mode = ssl.CERT_NONE
    else:
        ctx.load_verify_locations(ca)
    if alpn:
        ctx.set_alpn_protocols(list(alpn))
    if version is not None:
        ctx.minimum_version = ctx.maximum_version = version
    return ctx


def connect(url, timeout=None, ctx=None, server_hostname="localhost"):
    """A connected socket (TLS for https) to one of a gateway's listeners."""
    timeout = (timeout or 10.0) * paths.SLOW
    where = listen_address(url)
    if isinstance(where, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        sock.connect(where)
        return sock
    sock = socket.create_connection(where, timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.startswith("https:"):
        sock = (ctx or tls_context()).wrap_socket(
            sock, server_hostname=server_hostname)
    return sock
