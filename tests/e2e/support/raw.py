# SPDX-License-Identifier: Apache-2.0
"""For the raw-socket suites: a backend that keeps every byte it was sent and
judges it by a reading of RFC 9112 that forgives nothing, and a client that
sends bytes in awkward ways and collects all answers.

Whatever a test tries to smuggle names /evil; what it is allowed to ask does
not. A backend that was asked for /evil, or got a byte that is not part of one
well-formed message, fails its test at the end.
"""

import dataclasses
import itertools
import re
import socket
import threading

from . import paths
from .http import Client, Truncated

_ports = itertools.count(2000)

TOKEN_RE = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
LINE = re.compile(rb"(%s) (/[\x21\x22\x24-\x7e]*|\*) HTTP/1\.1\Z" % TOKEN_RE)
FIELD = re.compile(rb"(%s):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*\Z" % TOKEN_RE)
SIZE = re.compile(rb"[0-9a-fA-F]{1,16}\Z")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# Fields that may never go inside: credentials and what ends at each hop.
NEVER = {b"x-sandbox-token", b"te", b"trailer", b"keep-alive",
         b"proxy-connection", b"proxy-authorization"}
ONCE = {b"host", b"content-length", b"transfer-encoding", b"connection",
        b"upgrade", b"forwarded", b"x-forwarded-for", b"x-forwarded-host",
        b"x-forwarded-proto", b"x-forwarded-port", b"x-forwarded-prefix",
        b"x-real-ip", b"x-request-id", b"authorization", b"expect"}
# How an application's gateway interface would read X_Forwarded_For.
ALIASES = {n.replace(b"-", b"_") for n in ONCE | NEVER if b"-" in n}


class Violation(AssertionError):
    """Something that must never be sent to a server inside a sandbox."""


@dataclasses.dataclass
class Message:
    method: bytes
    target: bytes
    fields: list
    body: bytes = b""
    framing: str = "none"
    raw: bytes = b""

    def get(self, name):
        found = [v for k, v in self.fields if k == name.lower()]
        return found[0] if found else None


def need(condition, what, data):
    if not condition:
        raise Violation(f"{what}: {bytes(data[:400])!r}")


def parse_head(raw):
    lines = raw[:-4].split(b"\r\n")
    start = LINE.match(lines[0])
    need(start, "request line", raw)
    fields = []
    for line in lines[1:]:
        m = FIELD.match(line)
        need(m, "field", line)
        fields.append((m[1].lower(), m[2]))
    m = Message(start[1], start[2], fields, raw=raw)
    names = [k for k, _ in fields]
    need(names.count(b"host") == 1, "Host", raw)
    for name in names:
        need(name not in NEVER, f"{name} went inside", raw)
        need(name not in ALIASES, f"{name} went inside", raw)
        need(name not in ONCE or names.count(name) == 1, f"two {name}", raw)
    need(not (b"content-length" in names and b"transfer-encoding" in names),
         "both framings", raw)
    need(m.get(b"connection") in (None, b"close", b"keep-alive", b"Upgrade",
                                  b"upgrade"), "Connection", raw)
    if b"upgrade" in names:
        need(m.get(b"upgrade") == b"websocket", "Upgrade", raw)
        need(m.get(b"connection").lower() == b"upgrade", "Connection", raw)
    need(b"evil" not in m.target, "a smuggled request got through", raw)
    return m


def take_chunked(data, at):
    """(body, end) of a chunked body at data[at:]; None: not all there."""
    body = b""
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            need(len(data) - at <= 17, "chunk size", data[at:])
            return None
        need(SIZE.match(data[at:end]), "chunk size", data[at:])
        size, at = int(data[at:end], 16), end + 2
        if len(data) < at + size + 2:
            return None
        need(data[at + size:at + size + 2] == b"\r\n", "chunk end", data[at:])
        body += data[at:at + size]
        at += size + 2
        if size == 0:
            return body, at


def take_message(data):
    """(message, length) of the one at the start of data; None: incomplete."""
    end = data.find(b"\r\n\r\n")
    need(b"\n" not in re.sub(rb"\r\n", b"", data[:end if end >= 0 else None]),
         "bare LF", data)
    if end < 0:
        return None
    end += 4
    m = parse_head(data[:end])
    length, te = m.get(b"content-length"), m.get(b"transfer-encoding")
    if te is not None:
        need(te == b"chunked", "Transfer-Encoding", data)
        got = take_chunked(data, end)
        if got is None:
            return None
        m.framing, m.body, end = "chunked", *got
    elif length is not None:
        need(re.fullmatch(rb"0|[1-9][0-9]{0,17}", length), "length", data)
        if len(data) < end + int(length):
            return None
        m.framing = "length"
        m.body, end = data[end:end + int(length)], end + int(length)
    return m, end


class _Conn:
    def __init__(self, backend, sock):
        self.backend, self.sock = backend, sock
        self.data = b""   # all that came
        self.used = 0     # of it, in complete messages
        self.tunnel = None  # bytes after a 101
        self.eof = threading.Event()

    def run(self):
        try:
            while got := self.sock.recv(65536):
                self.data += got
                if self.tunnel is not None:
                    self.tunnel += got
                    self.backend.on_tunnel(self, got)
                elif not self.step():
                    break
        except Violation as e:
            self.backend.violations.append(str(e))
        except OSError:
            pass
        finally:
            self.eof.set()
            self.sock.close()

    def step(self):
        while self.used < len(self.data):
            got = take_message(self.data[self.used:])
            if got is None:
                break
            self.used += got[1]
            if not self.backend.answer(self, got[0]):
                return False
        return True

    def left(self):
        """What came and is no complete message."""
        return b"" if self.tunnel is not None else self.data[self.used:]


class Backend:
    """On <proxy_dir>/<port>.sock. Each complete request is answered with
    `reply` (bytes, or a function of the message that returns bytes); then the
    connection is closed if `close`. A reply that begins with a 101 makes the
    rest of the connection a tunnel that echoes."""

    def __init__(self, proxy_dir, reply=OK, close=False, name=None):
        self.port = next(_ports)
        self.path = proxy_dir / f"{name or self.port}.sock"
        self.reply, self.close = reply, close
        self.lock = threading.Lock()
        self.messages, self.conns, self.violations = [], [], []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o666)
        self.listener.listen(64)
        self.threads = []
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.stop()
        if kind is None:
            self.check()

    def _start(self, target):
        thread = threading.Thread(target=target, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            conn = _Conn(self, sock)
            self.conns.append(conn)
            self._start(conn.run)

    def answer(self, conn, message):
        with self.lock:
            self.messages.append(message)
        reply = self.reply
        if callable(reply):
            reply = reply(message)
        if reply.startswith(b"HTTP/1.1 101"):
            conn.tunnel = b""
        try:
            conn.sock.sendall(reply)
            if self.close:
                conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True

    def on_tunnel(self, conn, got):
        conn.sock.sendall(got)

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink(missing_ok=True)
        for conn in self.conns:
            try:
                conn.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(10)

    def check(self):
        """Nothing came that may not come; call when all is over."""
        assert not self.violations, self.violations
        for conn in self.conns:
            if conn.left():
                # a request that was given up half-way: no more than that
                need(b"evil" not in conn.left().split(b"\r\n")[0],
                     "a smuggled request began", conn.left())

    def incomplete(self):
        """Connections that ended within a message (waits for their end)."""
        found = []
        for conn in self.conns:
            if conn.left():
                assert conn.eof.wait(10 * paths.SLOW), "left open half-way"
                found.append(conn.left())
        return found


@dataclasses.dataclass
class Talk:
    """All that came back on one connection."""
    responses: list
    closed: bool
    junk: bytes = b""  # after the last response, or half of one

    @property
    def statuses(self):
        return [r.status for r in self.responses]


def send_pieces(client, data, step):
    """step bytes at a time; a peer that has already closed is no error."""
    try:
        for at in range(0, len(data), step):
            client.send(data[at:at + step])
    except OSError:
        pass


def talk(url, data, count=None, step=None, methods=()):
    """Sends data and reads count responses, or all until the peer closes."""
    with Client(url, timeout=10) as client:
        send_pieces(client, data, step or max(len(data), 1))
        got = []
        while count is None or len(got) < count:
            try:
                client.pending = client.pending or client.recv()
            except OSError:  # a timeout: neither answer nor end
                return Talk(got, False)
            if not client.pending:
                return Talk(got, True)
            method = methods[len(got)] if len(got) < len(methods) else "GET"
            try:
                got.append(client.response(method))
            except (Truncated, AssertionError, ValueError, OSError) as e:
                return Talk(got, True, repr(e).encode())
        return Talk(got, False, client.pending)
