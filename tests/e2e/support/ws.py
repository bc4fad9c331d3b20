# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client over a plain or TLS socket that can send any frame, so
that pings, fragments, reserved bits and half-closes can be seen to pass."""

import base64
import dataclasses
import hashlib
import os
import struct

from .http import Client, Truncated

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


@dataclasses.dataclass
class Frame:
    opcode: int
    data: bytes
    fin: bool = True
    rsv: int = 0


def encode(opcode, data=b"", fin=True, rsv=0, mask=None):
    """One frame; mask is 4 bytes, or None for an unmasked one."""
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 65536:
        head += struct.pack("!BH", bit | 126, len(data))
    else:
        head += struct.pack("!BQ", bit | 127, len(data))
    if not mask:
        return head + data
    return head + mask + xor(data, mask)


def xor(data, mask):
    """data under a 4-byte mask, by way of one big number (it is fast)."""
    if not data:
        return data
    whole = (mask * (len(data) // 4 + 1))[:len(data)]
    return (int.from_bytes(data, "big") ^
            int.from_bytes(whole, "big")).to_bytes(len(data), "big")


class WebSocket:
    """WebSocket(gw.https, "/v1/proxy/8000/ws", token=gw.token).

    .response is the answer to the handshake; when its status is not 101
    there is nothing else to use (no exception: refusals are tested too)."""

    def __init__(self, url, target, token=None, headers=(), timeout=10.0,
                 host="localhost", ctx=None):
        self.client = Client(url, timeout, ctx)
        self.key = base64.b64encode(os.urandom(16)).decode()
        if isinstance(headers, dict):
            headers = headers.items()
        self.client.request("GET", target, token=token, host=host, headers=[
            ("Connection", "Upgrade"), ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", self.key), *headers])
        head = self.client.final_head()
        self.response = head
        if head.status == 101:
            assert head["Sec-WebSocket-Accept"] == accept_of(self.key)
            assert head["Upgrade"].lower() == "websocket"
            assert head["Connection"].lower() == "upgrade"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.client.close()

    def send(self, data, opcode=None, fin=True, rsv=0):
        if isinstance(data, str):
            data, opcode = data.encode(), opcode or TEXT
        opcode = BINARY if opcode is None else opcode
        self.client.send(encode(opcode, data, fin, rsv, os.urandom(4)))

    def frame(self):
        """The next frame, whatever it is; Truncated at the end."""
        a, b = self.client.exactly(2)
        size = b & 0x7f
        if size == 126:
            size, = struct.unpack("!H", self.client.exactly(2))
        elif size == 127:
            size, = struct.unpack("!Q", self.client.exactly(8))
        assert not b & 0x80, "a server masked its frame"
        return Frame(a & 15, self.client.exactly(size), bool(a & 0x80),
                     a >> 4 & 7)

    def recv(self):
        """The next message's data (pings and pongs are skipped)."""
        data = b""
        while True:
            f = self.frame()
            if f.opcode in (PING, PONG):
                continue
            if f.opcode == CLOSE:
                raise Truncated(f.data)
            data += f.data
            if f.fin:
                return data

    def echo(self, data):
        """Sends data and returns what comes back."""
        self.send(data)
        return self.recv()

    def close(self, code=1000):
        """The closing handshake; returns the peer's code."""
        self.send(struct.pack("!H", code), CLOSE)
        while True:
            f = self.frame()
            if f.opcode == CLOSE:
                self.client.close()
                return struct.unpack("!H", f.data[:2])[0] if f.data else None
