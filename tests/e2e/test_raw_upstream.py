# SPDX-License-Identifier: Apache-2.0
"""Servers inside a sandbox that answer badly, and tricks with upgrades. What
an inner server says is judged as strictly as what a client says: it becomes a
502, or a body that is visibly cut off; and it can never become the answer to
somebody else's request."""

import pytest

from support.http import Client, Truncated
from support.raw import OK, Backend, talk


@pytest.fixture
def back(shared):
    with Backend(shared.proxy_dir, close=True) as b:
        yield b


def request(gw, back, target="/", *fields, method="GET", token=True,
            body=b""):
    lines = [f"{method} /v1/proxy/{back.port}{target} HTTP/1.1",
             "Host: localhost"]
    if token:
        lines.append("X-Sandbox-Token: " + gw.token)
    return "\r\n".join([*lines, *fields]).encode("latin-1") + b"\r\n\r\n" + body


S = b"HTTP/1.1 200 OK\r\n"
CL = b"Content-Length: 2\r\n"
BAD_RESPONSES = {
    "nothing": b"", "garbage": b"\x00\x01\x02garbage\r\n\r\n",
    "html": b"<html>hello</html>", "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "http-0.9": b"hello\r\n\r\n", "icy": b"ICY 200 OK\r\n" + CL + b"\r\nok",
    "http2": b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64",
    "tls": b"\x15\x03\x03\0\x02\x02\x28",
    "half-status-line": b"HTTP/1.1 20", "half-head": S + b"Content-Le",
    "no-empty-line": S + CL, "empty-line-first": b"\r\n" + S + CL + b"\r\nok",
    "lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "lf-after-status": b"HTTP/1.1 200 OK\n" + CL + b"\r\nok",
    "lf-in-fields": S + b"Content-Length: 2\n\r\nok",
    "lf-as-the-end": S + CL + b"\nok",
    "cr-after-status": b"HTTP/1.1 200 OK\r" + CL + b"\r\nok",
    "cr-in-value": S + b"A: b\rSet-Cookie: x\r\n" + CL + b"\r\nok",
    "nul-in-value": S + b"A: b\0c\r\n" + CL + b"\r\nok",
    "nul-in-reason": b"HTTP/1.1 200 O\0K\r\n" + CL + b"\r\nok",
    "control-in-reason": b"HTTP/1.1 200 \x1b[2J\r\n" + CL + b"\r\nok",
    "fold": S + b"A: b\r\n c\r\n" + CL + b"\r\nok",
    "fold-first": S + b" A: b\r\n" + CL + b"\r\nok",
    "blank-before-colon": S + b"Content-Length : 2\r\n\r\nok",
    "no-colon": S + b"Content-Length 2\r\n\r\nok",
    "empty-name": S + b": 2\r\n" + CL + b"\r\nok",
    "bad-name": S + b"A(b): 2\r\n" + CL + b"\r\nok",
    "version-2": b"HTTP/2 200 OK\r\n" + CL + b"\r\nok",
    "version-2.0": b"HTTP/2.0 200 OK\r\n" + CL + b"\r\nok",
    "version-1.2": b"HTTP/1.2 200 OK\r\n" + CL + b"\r\nok",
    "version-lower": b"http/1.1 200 OK\r\n" + CL + b"\r\nok",
    "status-2-digits": b"HTTP/1.1 20 OK\r\n" + CL + b"\r\nok",
    "status-4-digits": b"HTTP/1.1 2000 OK\r\n" + CL + b"\r\nok",
    "status-word": b"HTTP/1.1 OK\r\n" + CL + b"\r\nok",
    "status-099": b"HTTP/1.1 099 OK\r\n" + CL + b"\r\nok",
    "status-minus": b"HTTP/1.1 -20 OK\r\n" + CL + b"\r\nok",
    "status-two-blanks": b"HTTP/1.1  200 OK\r\n" + CL + b"\r\nok",
    "status-tab": b"HTTP/1.1\t200 OK\r\n" + CL + b"\r\nok",
    "cl-twice": S + CL + CL + b"\r\nok",
    "cl-conflict": S + CL + b"Content-Length: 3\r\n\r\nok!",
    "cl-list": S + b"Content-Length: 2, 2\r\n\r\nok",
    "cl-plus": S + b"Content-Length: +2\r\n\r\nok",
    "cl-minus": S + b"Content-Length: -2\r\n\r\nok",
    "cl-hex": S + b"Content-Length: 0x2\r\n\r\nok",
    "cl-word": S + b"Content-Length: two\r\n\r\nok",
    "cl-empty": S + b"Content-Length:\r\n\r\nok",
    "cl-2^64": S + b"Content-Length: 18446744073709551618\r\n\r\nok",
    "cl-te": S + CL + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "te-cl": S + b"Transfer-Encoding: chunked\r\n" + CL
             + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "te-twice": S + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "te-gzip": S + b"Transfer-Encoding: gzip\r\n\r\nok",
    "te-gzip-chunked": S + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "te-identity": S + b"Transfer-Encoding: identity\r\n\r\nok",
    "te-xchunked": S + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te-vt": S + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "te-1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
              b"0\r\n\r\n",
    "te-204": b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n"
              b"0\r\n\r\n",
    "cl-204": b"HTTP/1.1 204 No\r\n" + CL + b"\r\nok",
    "cl-103": b"HTTP/1.1 103 E\r\n" + CL + b"\r\nok" + OK,
    "unasked-101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   b"Connection: Upgrade\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "unasked-101-bare": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "unasked-101-h2c": b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\n"
                       b"Connection: Upgrade\r\n\r\n",
    "large-head": S + b"A: " + 40000 * b"a" + b"\r\n" + CL + b"\r\nok",
    "large-head-unended": S + 100000 * b"a",
    "many-fields": S + 200 * b"A: b\r\n" + CL + b"\r\nok",
    "only-interim": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "bad-after-interim": b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\nA: b\n\n",
}


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("name", BAD_RESPONSES)
def test_bad_response_is_502(shared, back, name, pieces):
    reply = BAD_RESPONSES[name]
    back.reply = reply
    if pieces:  # the gateway sees it in several reads
        def in_pieces(message):
            conn = back.conns[-1].sock
            cut = max(1, len(reply) // 2)
            conn.sendall(reply[:cut])
            return reply[cut:]
        back.reply = in_pieces
    t = talk(shared.http, request(shared, back), 1)
    assert t.statuses == [502], t
    assert b"ok" not in t.responses[0].body.split(b'"code"')[0][:3]
    for line in t.responses[0].headers:
        assert line[0].lower() not in ("set-cookie", "a", "upgrade")
    # and the client's own connection goes on, or says that it does not
    if t.responses[0]["Connection"] != "close":
        again = talk(shared.http, request(shared, back) * 2, 2)
        assert again.statuses == [502, 502]


CUT = {
    "length": S + b"Content-Length: 100\r\n\r\nonly this",
    "length-empty": S + b"Content-Length: 100\r\n\r\n",
    "chunk-data": S + b"Transfer-Encoding: chunked\r\n\r\n10\r\nonly",
    "chunk-size": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n1",
    "no-last-chunk": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n",
    "no-last-crlf": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                    b"0\r\n",
    "bad-size": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nzz\r\n",
    "bad-size-plus": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                     b"+1\r\nx\r\n0\r\n\r\n",
    "lf-chunks": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                 b"1\nx\n0\n\n",
    "size-too-small": S + b"Transfer-Encoding: chunked\r\n\r\n3\r\nonly\r\n"
                      b"0\r\n\r\n",
    "huge-size": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                 b"fffffffffffffffff\r\n",
    "bad-trailer": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                   b"0\r\nno colon\r\n\r\n",
    "trailer-fold": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                    b"0\r\nA: b\r\n c\r\n\r\n",
    "trailer-lf": S + b"Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"
                  b"0\r\nA: b\n\r\n",
}


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("name", CUT)
def test_cut_body_never_looks_whole(shared, back, name, version):
    """502 when nothing was passed on yet, else visibly incomplete. (A 1.0
    client without a length cannot see it: it must get a reset at least, or
    not more than what came.)"""
    back.reply = CUT[name]
    data = request(shared, back).replace(b"HTTP/1.1", b"HTTP/" +
                                         version.encode())
    with Client(shared.http) as c:
        c.send(data)
        try:
            r = c.final_head()
        except Truncated:  # a reset, before anything was read
            assert version == "1.0"
            return
        if r.status == 502:
            return
        assert r.status == 200
        rest = b""
        try:
            while got := c.sock.recv(65536):
                rest += got
            reset = False
        except ConnectionResetError:
            reset = True
        rest = c.pending + rest
    if r["Content-Length"]:
        assert len(rest) < int(r["Content-Length"])
    elif r["Transfer-Encoding"]:
        assert not rest.endswith(b"0\r\n\r\n")
    else:
        assert version == "1.0" and (reset or rest in (b"", b"onl", b"only"))


def test_second_response_is_nobodys(shared):
    """Bytes after a response: whoever asks next must not get them."""
    poison = (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
    with Backend(shared.proxy_dir, OK + poison) as back:
        for _ in range(5):
            t = talk(shared.http, request(shared, back) * 3, 3)
            assert [r.body for r in t.responses] == [b"ok"] * 3


@pytest.mark.parametrize("reply, method", [
    (b"HTTP/1.1 204 No\r\n\r\npoison", "GET"),
    (b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\npoison", "GET"),
    (b"HTTP/1.1 304 No\r\nContent-Length: 6\r\n\r\npoison", "GET"),
    (b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\npoison", "GET"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", "HEAD"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\npoison\r\n"
     b"0\r\n\r\n", "HEAD"),
    (b"HTTP/1.1 200 OK\r\n\r\npoison", "HEAD"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokpoison", "GET"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\npoison", "GET"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
     b"poison", "GET"),
], ids=range(10))
def test_bytes_that_are_no_body(shared, reply, method):
    with Backend(shared.proxy_dir, reply) as back:
        for _ in range(3):
            data = request(shared, back, method=method) * 2
            t = talk(shared.http, data, 2, methods=[method] * 2)
            assert len(t.responses) == 2, t
            for r in t.responses:
                assert r.status == int(reply[9:12])
                assert b"poison" not in r.body
            assert b"poison" not in t.junk


def test_response_before_the_request_is_nobodys(shared):
    """A backend that speaks first on a kept connection."""
    def reply(message):
        return OK + (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
                     if message.target == b"/1" else b"")
    with Backend(shared.proxy_dir, reply) as back:
        with Client(shared.http) as c:
            for i in (1, 2, 1, 2):
                c.send(request(shared, back, f"/{i}"))
                assert c.response().body == b"ok"


# --- sent once ----------------------------------------------------------------

class Dies(Backend):
    """Answers the first request of each connection, and closes instead of
    answering the second: as if a kept connection had been given up."""

    def answer(self, conn, message):
        conn.seen = getattr(conn, "seen", 0) + 1
        if conn.seen == 1:
            return super().answer(conn, message)
        with self.lock:
            self.messages.append(message)
        return False


@pytest.mark.parametrize("method, fields, body", [
    ("POST", [], b""), ("POST", ["Content-Length: 5"], b"hello"),
    ("POST", ["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n"),
    ("PATCH", ["Content-Length: 5"], b"hello"), ("BREW", [], b"")])
def test_unsafe_request_is_never_sent_twice(shared, method, fields, body):
    with Dies(shared.proxy_dir) as back:
        for i in range(6):
            t = talk(shared.http, request(shared, back, f"/{i}", *fields,
                                          method=method, body=body), 1)
            assert t.statuses in ([200], [502])
        targets = [m.target for m in back.messages]
        assert len(targets) == len(set(targets))


def test_safe_request_may_be_sent_again(shared):
    with Dies(shared.proxy_dir) as back:
        for i in range(6):
            t = talk(shared.http, request(shared, back, f"/{i}"), 1)
            assert t.statuses == [200]
        targets = [m.target for m in back.messages]
        assert all(targets.count(t) <= 2 for t in targets)


GOOD_RESPONSES = {
    "no-reason": (b"HTTP/1.1 200\r\n" + CL + b"\r\nok", b"ok"),
    "odd-status": (b"HTTP/1.1 299 Hm\r\n" + CL + b"\r\nok", b"ok"),
    "until-close": (S + b"\r\nok", b"ok"),
    "until-close-empty": (S + b"\r\n", b""),
    "1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
    "1.0-length": (b"HTTP/1.0 200 OK\r\n" + CL + b"\r\nok", b"ok"),
    "chunked": (S + b"Transfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n"
                b"X-T: 1\r\n\r\n", b"ok"),
    "interim": (b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\n" + S
                + CL + b"\r\nok", b"ok"),
    "continue-unasked": (b"HTTP/1.1 100 Continue\r\n\r\n" + S + CL + b"\r\nok",
                         b"ok"),
    "hop-fields": (S + CL + b"Keep-Alive: timeout=5\r\nConnection: close, X-A"
                   b"\r\nX-A: 1\r\nProxy-Connection: keep-alive\r\n"
                   b"Trailer: X\r\nTE: x\r\nUpgrade: h2c\r\n\r\nok", b"ok"),
    "two-cookies": (S + CL + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nok",
                    b"ok"),
}


@pytest.mark.parametrize("name", GOOD_RESPONSES)
def test_good_response(shared, back, name):
    back.reply, body = GOOD_RESPONSES[name]
    t = talk(shared.http, request(shared, back), 1)
    [r] = t.responses
    assert r.status in (200, 299) and r.body == body
    for hop in ("Keep-Alive", "X-A", "Proxy-Connection", "Trailer", "TE",
                "Upgrade"):
        assert hop not in r
    if name == "two-cookies":
        assert len(r.all("Set-Cookie")) == 2
    if name == "interim":
        assert [i.status for i in r.interim] == [102, 103]


# --- upgrades -----------------------------------------------------------------

WS = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
          b"Connection: Upgrade\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")


def switch(message):
    return SWITCH if message.get(b"upgrade") == b"websocket" else OK


@pytest.fixture
def wsback(shared):
    with Backend(shared.proxy_dir, switch) as b:
        yield b


@pytest.mark.parametrize("early", [b"", b"\x81\x85\0\0\0\0hello"])
def test_websocket_is_a_tunnel(shared, wsback, early):
    with Client(shared.https) as c:
        c.send(request(shared, wsback, "/ws", *WS) + early)
        r = c.final_head()
        assert r.status == 101 and r["Upgrade"] == "websocket"
        if early:
            assert c.exactly(len(early)) == early
        # whatever looks like HTTP is bytes now
        more = request(shared, wsback, "/evil")
        c.send(more)
        assert c.exactly(len(more)) == more
    assert len(wsback.messages) == 1


NO_UPGRADE = {
    "h2c": ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__"],
    "h2c-lower": ["connection: upgrade", "upgrade: H2C"],
    "h2c-no-settings": ["Connection: Upgrade", "Upgrade: h2c"],
    "h2": ["Connection: Upgrade", "Upgrade: h2"],
    "h2c-and-websocket": ["Connection: Upgrade", "Upgrade: h2c, websocket"],
    "websocket-and-h2c": ["Connection: Upgrade", "Upgrade: websocket, h2c"],
    "two-upgrades": ["Connection: Upgrade", "Upgrade: websocket",
                     "Upgrade: h2c"],
    "tls": ["Connection: Upgrade", "Upgrade: TLS/1.0"],
    "raw": ["Connection: Upgrade", "Upgrade: tcp"],
    "version": ["Connection: Upgrade", "Upgrade: websocket/13"],
    "suffix": ["Connection: Upgrade", "Upgrade: websocketx"],
    "quoted": ["Connection: Upgrade", 'Upgrade: "websocket"'],
    "empty": ["Connection: Upgrade", "Upgrade:"],
    "no-connection": ["Upgrade: websocket"],
    "connection-close": ["Connection: close", "Upgrade: websocket"],
    "connection-word": ["Connection: x-upgrade", "Upgrade: websocket"],
    "no-upgrade": ["Connection: Upgrade"],
    "settings-only": ["HTTP2-Settings: AAMAAABkAAQAAP__"],
}


@pytest.mark.parametrize("name", NO_UPGRADE)
def test_not_an_upgrade(shared, name):
    """Refused, or passed on as a plain request; a 101 to it is unasked."""
    data_fields = NO_UPGRADE[name]
    for answer in (OK, SWITCH, SWITCH.replace(b"websocket", b"h2c")):
        with Backend(shared.proxy_dir, answer) as back:
            data = request(shared, back, "/", *data_fields)
            t = talk(shared.http, data, 1)
            if answer == OK:
                assert t.statuses in ([200], [400]), t
            elif not back.messages or not back.messages[0].get(b"upgrade"):
                assert t.statuses in ([502], [400]), t
            else:  # the one of the list that may pass was picked
                assert back.messages[0].get(b"upgrade") == b"websocket"


def test_upgrade_on_1_0_is_not_one(shared, wsback):
    data = request(shared, wsback, "/", *WS).replace(b"HTTP/1.1", b"HTTP/1.0")
    t = talk(shared.http, data, 1)
    assert t.statuses in ([200], [400])
    assert all(m.get(b"upgrade") is None for m in wsback.messages)


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\n"
    b"Content-Length: 0\r\n\r\n",
    b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n",
    OK, b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
def test_refused_upgrade_is_no_tunnel(shared, answer):
    """The classical trick: the backend did not switch, the proxy did."""
    with Backend(shared.proxy_dir, answer) as back:
        fields = [f.replace("Version: 13", "Version: 1337") for f in WS]
        data = request(shared, back, "/", *fields)
        evil = request(shared, back, "/evil", token=False)
        t = talk(shared.http, data + evil, 2)
        assert t.statuses[0] == int(answer[9:12])
        assert t.statuses[1:] in ([401], []) and (t.closed or t.statuses[1:])
        assert len(back.messages) == 1


@pytest.mark.parametrize("answer", [
    SWITCH.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    SWITCH.replace(b"Upgrade: websocket", b"Upgrade: websocket, h2c"),
    SWITCH.replace(b"Upgrade: websocket\r\n", b""),
    SWITCH.replace(b"Connection: Upgrade\r\n", b""),
    SWITCH.replace(b"Connection: Upgrade", b"Connection: close"),
    SWITCH.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"),
    SWITCH.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
    SWITCH.replace(b"\r\n", b"\n"),
], ids=range(8))
def test_bad_101(shared, answer):
    with Backend(shared.proxy_dir, answer) as back:
        data = request(shared, back, "/", *WS)
        t = talk(shared.http, data, 1)
        assert t.statuses == [502], t


@pytest.mark.parametrize("framing, body", [
    ("Content-Length: 5", b"hello"),
    ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")])
def test_upgrade_with_a_body(shared, wsback, framing, body):
    """Refused, or the body is the request's and the tunnel begins after it."""
    with Client(shared.http) as c:
        c.send(request(shared, wsback, "/", *WS, framing, method="POST",
                       body=body))
        r = c.final_head()
        assert r.status in (101, 200, 400, 501)
        if r.status == 101:
            c.send(b"after")
            assert c.exactly(5) == b"after"
    if wsback.messages:
        assert wsback.messages[0].body == b"hello"


def test_upgrade_needs_a_token(shared, wsback):
    data = request(shared, wsback, "/evil", *WS, token=False)
    t = talk(shared.http, data + b"\x81\x80\0\0\0\0", 1)
    assert t.statuses in ([401], [403])
    assert not wsback.conns


def test_pipelined_request_is_not_early_data(shared, back):
    """Bytes after an upgrade request that was not granted are a request, to be
    judged as one; they go nowhere while the answer is out."""
    back.reply, back.close = OK, False
    data = request(shared, back, "/1", *WS) + request(shared, back, "/2")
    t = talk(shared.http, data, 2)
    assert t.statuses in ([200, 200], [200])
    assert [m.target for m in back.messages] in ([b"/1", b"/2"], [b"/1"])
