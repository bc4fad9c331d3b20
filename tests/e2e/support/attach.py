# SPDX-License-Identifier: Apache-2.0
"""A client of exec/attach: one upgraded connection, its frames."""

import json
import socket
import struct
import threading

from . import paths

HEAD = struct.Struct(">c3xI")


class Refused(Exception):
    """The answer was not 101: (status, JSON)."""


class Attach:
    """with Attach(connected socket, path, headers, cmd=…) as a: a.wait()"""

    def __init__(self, sock, path, headers=None, init=True, **spec):
        self.sock = sock
        sock.settimeout(60 * paths.SLOW)
        head = [f"GET {path} HTTP/1.1", "Host: agent",
                "Connection: Upgrade", "Upgrade: sbx-exec"]
        head += [f"{k}: {v}" for k, v in (headers or {}).items()]
        sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.buf = b""
        while b"\r\n\r\n" not in self.buf:
            self._more()
        answer, self.buf = self.buf.split(b"\r\n\r\n", 1)
        self.status = int(answer.split(b" ", 2)[1])
        if self.status != 101:
            self._refuse(answer)
        assert b"upgrade: sbx-exec" in answer.lower(), answer
        self.out, self.err = bytearray(), bytearray()
        self.pid = self.exit = self.error = None
        self.empty = 0  # frames
        if init:
            self.put("I", json.dumps(spec).encode())

    def _more(self):
        got = self.sock.recv(1 << 18)
        if not got:
            raise EOFError
        self.buf += got

    def _refuse(self, answer):
        body = self.buf
        for line in answer.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                while len(self.buf) < int(line.split(b":")[1]):
                    self._more()
                body = self.buf
        self.sock.close()
        raise Refused(self.status, json.loads(body))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    # --- frames ---------------------------------------------------------
    def put(self, kind, data=b""):
        self.sock.sendall(HEAD.pack(kind.encode(), len(data)) + data)

    def write(self, data):
        """All of it to the command's stdin."""
        for at in range(0, len(data), 65536):
            self.put("0", data[at:at + 65536])

    def end(self):
        self.put("C")

    def resize(self, cols, rows):
        self.put("R", struct.pack(">HH", cols, rows))

    def signal(self, number):
        self.put("S", bytes([number]))

    def frame(self):
        """(type, payload); EOFError at the connection's end."""
        while len(self.buf) < HEAD.size:
            self._more()
        kind, n = HEAD.unpack_from(self.buf)
        assert n <= 65536
        while len(self.buf) < HEAD.size + n:
            self._more()
        data = self.buf[HEAD.size:HEAD.size + n]
        self.buf = self.buf[HEAD.size + n:]
        return kind.decode(), data

    def step(self):
        """Takes one frame; its type."""
        kind, data = self.frame()
        assert self.exit is None and self.error is None, (kind, data)
        if kind == "A":
            assert self.pid is None and not self.out and not self.err
            self.pid = json.loads(data)["pid"] or 0
        elif kind in "12":
            assert self.pid is not None
            (self.out if kind == "1" else self.err).extend(data)
            self.empty += not data
        elif kind == "X":
            self.exit = json.loads(data)
            assert self.exit.pop("event") == "exit"
        else:
            assert kind == "E", kind
            self.error = json.loads(data)
        return kind

    def until(self, text, stream="out"):
        """Reads until that was written."""
        while text not in getattr(self, stream):
            self.step()
        return self

    def wait(self):
        """Reads to the end, which the agent is to make."""
        while True:
            try:
                self.step()
            except EOFError:
                break
        assert not self.buf
        self.sock.close()
        return self

    @property
    def code(self):
        return self.exit["exit_code"]

    def feed(self, data, then):
        """Writes in a thread of its own, while the caller reads."""
        def run():
            try:
                self.write(data)
                then()
            except OSError:
                pass
        thread = threading.Thread(target=run)
        thread.start()
        return thread


def attach(scope, **spec):
    """To a Scope of agent_support."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(scope.agent.socket))
    headers = {"X-Sandbox-Token": scope.token} if scope.token else {}
    return Attach(sock, f"{scope.prefix}/exec/attach", headers, **spec)
