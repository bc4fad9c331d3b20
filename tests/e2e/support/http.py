# SPDX-License-Identifier: Apache-2.0
"""A raw HTTP/1.1 client: sends exactly the bytes it is given, reads strictly,
and shows framing instead of hiding it.

    r = get(gw.https, "/v1/proxy/8000/", token=gw.token)
    assert r.status == 200 and r.body == b"..."

    with Client(gw.http) as c:
        c.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert c.response().status == 400
        assert c.closed()
"""

import dataclasses
import socket
import ssl

from .gateway import connect


class Truncated(Exception):
    """The connection ended inside a message."""


@dataclasses.dataclass
class Response:
    status: int
    reason: str
    version: str
    headers: list  # (name as sent, value), in order
    body: bytes = b""
    framing: str = "none"  # length, chunked, close, none
    interim: list = dataclasses.field(default_factory=list)

    def __getitem__(self, name):
        """The one value of a header; None when absent, error when double."""
        got = self.all(name)
        assert len(got) < 2, f"{name} came {len(got)} times: {got}"
        return got[0] if got else None

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def __contains__(self, name):
        return bool(self.all(name))


class Client:
    """One connection. `pending` holds what was received and not yet used."""

    def __init__(self, url_or_socket, timeout=10.0, ctx=None,
                 server_hostname="localhost"):
        if isinstance(url_or_socket, str):
            self.sock = connect(url_or_socket, timeout, ctx, server_hostname)
        else:
            self.sock = url_or_socket
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    def abort(self):
        """Closes with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        if isinstance(data, str):
            data = data.encode("latin-1")
        self.sock.sendall(data)

    def request(self, method, target, headers=(), body=None, token=None,
                host="localhost", chunked=False):
        """Sends a well-formed request; returns self."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
        if token:
            lines.append(f"X-Sandbox-Token: {token}")
        if isinstance(headers, dict):
            headers = headers.items()
        lines += [f"{k}: {v}" for k, v in headers]
        data = b""
        if chunked:
            lines.append("Transfer-Encoding: chunked")
            pieces = [body] if isinstance(body, bytes) else body or []
            data = b"".join(chunk(p) for p in pieces) + b"0\r\n\r\n"
        elif body is not None:
            lines.append(f"Content-Length: {len(body)}")
            data = body
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
        return self

    # --- reading --------------------------------------------------------
    def recv(self, size=65536):
        """Bytes as they come, b"" at the end."""
        if self.pending:
            got, self.pending = self.pending[:size], self.pending[size:]
            return got
        try:
            return self.sock.recv(size)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError,
                ssl.SSLZeroReturnError):
            return b""

    def until(self, mark, limit=1 << 20):
        """Everything up to and with mark."""
        got = self.recv()
        while mark not in got:
            more = self.recv()
            if not more:
                raise Truncated(got)
            got += more
            assert len(got) < limit, "unbounded line or head"
        end = got.index(mark) + len(mark)
        self.pending = got[end:] + self.pending
        return got[:end]

    def exactly(self, size):
        parts, left = [], size
        while left:
            got = self.recv(min(left, 1 << 18))
            if not got:
                raise Truncated(b"".join(parts))
            parts.append(got)
            left -= len(got)
        return b"".join(parts)

    def to_end(self):
        parts = []
        while got := self.recv():
            parts.append(got)
        return b"".join(parts)

    def closed(self):
        """True when nothing more comes and the peer has closed."""
        return self.recv() == b""

    def head(self):
        """The next head, interim or final, without a body."""
        raw = self.until(b"\r\n\r\n")
        lines = raw[:-4].decode("latin-1").split("\r\n")
        assert "\n" not in "".join(lines) and "\r" not in "".join(lines), raw
        version, status, reason = (lines[0] + " ").split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), raw
        assert len(status) == 3 and status.isdigit(), raw
        headers = []
        for line in lines[1:]:
            name, sep, value = line.partition(":")
            assert sep and name == name.strip() and name, raw
            headers.append((name, value.strip(" \t")))
        return Response(int(status), reason.strip(), version, headers)

    def final_head(self):
        interim = []
        while True:
            r = self.head()
            if r.status >= 200 or r.status == 101:
                r.interim = interim
                return r
            interim.append(r)

    def chunks(self):
        """The pieces of a chunked body, each as it comes; the trailer
        section must be empty."""
        while True:
            line = self.until(b"\r\n")[:-2]
            size = int(line, 16)
            assert line.strip() == line and b";" not in line, line
            if size == 0:
                assert self.until(b"\r\n") == b"\r\n", "trailers"
                return
            data = self.exactly(size + 2)
            assert data.endswith(b"\r\n")
            yield data[:-2]

    def response(self, method="GET"):
        """The next final response with its whole body."""
        r = self.final_head()
        te, cl = r.all("Transfer-Encoding"), r.all("Content-Length")
        assert not (te and cl), f"both framings: {r.headers}"
        if method == "HEAD" or r.status in (101, 204, 304):
            return r
        if te:
            assert te == ["chunked"], te
            r.framing, r.body = "chunked", b"".join(self.chunks())
        elif cl:
            assert len(cl) == 1 and cl[0].isdigit(), cl
            r.framing, r.body = "length", self.exactly(int(cl[0]))
        else:
            r.framing, r.body = "close", self.to_end()
        return r


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def fetch(url, method, target, **kw):
    """One request on a connection of its own."""
    client = {k: kw.pop(k) for k in ("timeout", "ctx", "server_hostname")
              if k in kw}
    with Client(url, **client) as c:
        return c.request(method, target, **kw).response(method)


def get(url, target, **kw):
    return fetch(url, "GET", target, **kw)


def post(url, target, body=b"", **kw):
    return fetch(url, "POST", target, body=body, **kw)
