# SPDX-License-Identifier: Apache-2.0
"""Small TCP and unix servers for the far end of a forward."""

import contextlib
import socket
import threading


class Peer:
    """Calls serve(conn) in a thread for each connection; .target is what a
    forward specification names."""

    def __init__(self, serve, path=None, host="127.0.0.1"):
        self.serve = serve
        self.errors = []
        self.count = 0
        if path is None:
            self.sock = socket.create_server((host, 0), backlog=512)
            self.port = self.sock.getsockname()[1]
            self.target = f"{host}:{self.port}"
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.bind(str(path))
            self.sock.listen(512)
            self.target = str(path)
        self.thread = threading.Thread(target=self._accept, daemon=True)

    def _accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self._one, args=(conn,),
                             daemon=True).start()

    def _one(self, conn):
        with conn:
            try:
                self.serve(conn)
            except OSError as e:
                self.errors.append(e)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.sock.close()


def echo(conn):
    """Sends back what comes, and the end of it as well."""
    while data := conn.recv(1 << 16):
        conn.sendall(data)
    conn.shutdown(socket.SHUT_WR)


def slurp(conn):
    """Everything up to the end."""
    parts = []
    while data := conn.recv(1 << 18):
        parts.append(data)
    return b"".join(parts)


def dial(target, timeout=20.0):
    """A connection to a port on loopback, or to a socket path."""
    if isinstance(target, int):
        return socket.create_connection(("127.0.0.1", target), timeout)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(str(target))
    return s


def exchange(target, data, timeout=20.0):
    """Sends data and the end of it; returns what comes back to the end."""
    def send():
        with contextlib.suppress(OSError):  # it may end before it read all
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)

    with dial(target, timeout) as s:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        got = slurp(s)
        sender.join()
        return got
