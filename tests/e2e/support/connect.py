# SPDX-License-Identifier: Apache-2.0
"""A client of the Connect protocol (JSON) over HTTP/1.1, strict about all that
comes back, and of REST beside it.

    rpc = Rpc(gw.https, token)
    rpc.call("GetSandbox", {"sandboxId": "..."})

    with rpc.stream("StreamExec") as s:
        s.send({"init": {...}})
        s.half_close()
        for message in s:
            ...
"""

import base64
import json
import select
import ssl
import struct
import urllib.parse

from . import paths
from .http import Client, Truncated, chunk, fetch

SERVICE = "/coreweave.sandbox.v1.SandboxService"
HTTP_OF = {
    "canceled": 499, "unknown": 500, "invalid_argument": 400,
    "deadline_exceeded": 504, "not_found": 404, "already_exists": 409,
    "permission_denied": 403, "resource_exhausted": 429,
    "failed_precondition": 400, "aborted": 409, "out_of_range": 400,
    "unimplemented": 501, "internal": 500, "unavailable": 503,
    "data_loss": 500, "unauthenticated": 401}
PLAIN = "CWSANDBOX_INVALID_REQUEST"


def b64(data):
    return base64.b64encode(data).decode()


def unb64(text):
    return base64.b64decode(text, validate=True)


# --- errors ----------------------------------------------------------------
def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """[(number, value)] of a message of the binary form; a value is bytes or
    a number."""
    found, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 in (0, 2), f"wire type {tag & 7}"
        value, at = varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data), "a length beyond the end"
            value, at = data[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


class RpcError(Exception):
    """What a call failed with; details of google.rpc are taken apart."""

    def __init__(self, error):
        assert set(error) <= {"code", "message", "details"}, error
        self.error = error
        self.code, self.message = error["code"], error.get("message", "")
        assert self.code in HTTP_OF, error
        self.reason = self.domain = None
        self.metadata, self.violations = {}, []
        for detail in error.get("details", []):
            assert not detail["value"].endswith("="), "padded"
            value = detail["value"]
            self._take(detail["type"], fields(
                unb64(value + "=" * (-len(value) % 4))))
        super().__init__(f"{self.code} {self.reason}: {self.message} "
                         f"{self.metadata or ''}{self.violations or ''}")

    def _take(self, kind, got):
        if kind == "google.rpc.ErrorInfo":
            self.reason = b"".join(v for n, v in got if n == 1).decode()
            self.domain = b"".join(v for n, v in got if n == 2).decode()
            for entry in (dict(fields(v)) for n, v in got if n == 3):
                self.metadata[entry[1].decode()] = entry.get(2, b"").decode()
        elif kind == "google.rpc.BadRequest":
            for one in (dict(fields(v)) for n, v in got if n == 1):
                self.violations.append((one[1].decode(),
                                        one.get(2, b"").decode()))


def raised(code, reason, call, *args, **kw):
    """The error that call(*args) fails with, which must be this one; reason
    None: one that says no more than the code."""
    try:
        got = call(*args, **kw)
    except RpcError as e:
        assert e.code == code, e
        assert e.reason in ([reason] if reason else [None, PLAIN]), e
        assert e.domain == (e.reason and "cwsandbox.com"), e
        assert e.message, "an error without a word"
        return e
    raise AssertionError(f"no {code} but {got}")


# --- calls -----------------------------------------------------------------
class Rpc:
    def __init__(self, url, token, prefix=""):
        self.url, self.token, self.prefix = url, token, prefix

    def headers(self, kind, timeout_ms=None, more=()):
        found = {"Content-Type": kind, "Connect-Protocol-Version": "1"}
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        if timeout_ms is not None:
            found["Connect-Timeout-Ms"] = str(timeout_ms)
        return dict(found, **dict(more))

    def call(self, method, message, timeout_ms=None, headers=(), seconds=60):
        """The answer, or RpcError."""
        if not isinstance(message, bytes):
            message = json.dumps(message).encode()
        r = fetch(self.url, "POST", f"{self.prefix}{SERVICE}/{method}",
                  headers=self.headers("application/json", timeout_ms,
                                       headers),
                  body=message, timeout=seconds)
        assert r["Content-Type"] == "application/json", (r.status, r.body)
        got = json.loads(r.body)
        if r.status == 200:
            return got
        error = RpcError(got)
        # 404 is how the protocol says that there is no such method.
        assert r.status in (HTTP_OF[error.code],
                            404 if error.code == "unimplemented" else 0), got
        raise error

    def rest(self, method, path, body=None, query=None, seconds=60):
        """(status, answer) of the service's REST form."""
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is None and method == "POST":
            body = b""
        r = fetch(self.url, method, "/coreweave/v1" + path, body=body,
                  headers=self.headers("application/json"), timeout=seconds)
        assert r["Content-Type"] == "application/json", (r.status, r.body)
        return r.status, json.loads(r.body)

    def stream(self, method, timeout_ms=None, headers=(), seconds=60):
        return Stream(self, method, self.headers(
            "application/connect+json", timeout_ms, headers), seconds)


class Duplex(Client):
    """Sends what is left to be sent while it reads. One thread."""

    def __init__(self, url, timeout):
        super().__init__(url, timeout=timeout)
        self.seconds = timeout * paths.SLOW
        self.sock.setblocking(False)
        self.out = bytearray()

    def send(self, data):
        self.out += data
        self.flush()

    def flush(self):
        while self.out:
            try:
                del self.out[:self.sock.send(bytes(self.out[:1 << 16]))]
            except (BlockingIOError, ssl.SSLWantReadError,
                    ssl.SSLWantWriteError):
                return
            except OSError:  # it has heard enough; what it said can be read
                self.out.clear()

    def drain(self):
        """Until all has been sent."""
        while self.out:
            self._wait(())
            self.flush()

    def _wait(self, reads):
        if not any(select.select(reads, [self.sock] if self.out else (), (),
                                 self.seconds)):
            raise TimeoutError(f"nothing for {self.seconds:g} s")

    def recv(self, size=65536):
        if self.pending:
            return super().recv(size)
        while True:
            self.flush()
            try:
                return self.sock.recv(size)
            except (BlockingIOError, ssl.SSLWantReadError,
                    ssl.SSLWantWriteError):
                self._wait([self.sock])
            except (ConnectionResetError, ssl.SSLEOFError,
                    ssl.SSLZeroReturnError):
                return b""


class Stream:
    """A call with envelopes. Iterating gives messages until the end, which is
    checked, and raises RpcError when the call has failed."""

    def __init__(self, rpc, method, headers, seconds):
        self.http = Duplex(rpc.url, seconds)
        self.started = self.ended = False
        self.trailers = None
        self.http.request("POST", f"{rpc.prefix}{SERVICE}/{method}", dict(
            headers, **{"Transfer-Encoding": "chunked"}))
        self._bytes = self._body()
        self._rest = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.http.close()

    def abort(self):
        """Away, without a word."""
        self.http.abort()

    def envelope(self, data, flags=0):
        self.http.send(chunk(struct.pack("!BI", flags, len(data)) + data))

    def send(self, message):
        self.envelope(json.dumps(message).encode())

    def half_close(self):
        """Nothing more is sent."""
        self.http.send(b"0\r\n\r\n")

    def only(self, message):
        self.send(message)
        self.half_close()
        return self

    # --- reading ------------------------------------------------------------
    def head(self):
        """Waits for the response to begin."""
        if not self.started:
            self.started = self.http.final_head()
        return self.started

    def _body(self):
        r = self.head()
        assert r.status == 200, (r.status, self.http.exactly(
            min(400, int(r["Content-Length"] or 0))))
        assert r["Content-Type"] == "application/connect+json"
        assert r["Transfer-Encoding"] == "chunked", r.headers
        yield from self.http.chunks()

    def _exactly(self, size):
        while len(self._rest) < size:
            try:
                self._rest += next(self._bytes)
            except StopIteration:
                raise Truncated(bytes(self._rest)) from None
        got = bytes(self._rest[:size])
        del self._rest[:size]
        return got

    def next(self):
        """The next message; None: the end of a call that went well."""
        flags, size = struct.unpack("!BI", self._exactly(5))
        got = json.loads(self._exactly(size))
        if flags == 0:
            return got
        assert flags == 2 and set(got) <= {"error", "metadata"}, (flags, got)
        assert not self._rest and next(self._bytes, None) is None, \
            "something after the end"
        self.ended, self.trailers = True, got.get("metadata", {})
        if "error" in got:
            raise RpcError(got["error"])
        return None

    def __iter__(self):
        while (got := self.next()) is not None:
            yield got
