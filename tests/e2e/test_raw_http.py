# SPDX-License-Identifier: Apache-2.0
"""Ambiguous and malformed HTTP/1.1 requests on a raw socket, in front of a
backend that records every byte (support/raw.py): what can be read in two ways
is refused and nothing of it goes inside; what goes inside is one well-formed
message for each request."""

import pytest

from support.http import Client, chunk
from support.raw import Backend, talk


@pytest.fixture
def back(shared):
    with Backend(shared.proxy_dir) as b:
        yield b


def fill(data, gw, backend):
    return (data.replace(b"@P", b"/v1/proxy/%d" % backend.port)
            .replace(b"@T", b"X-Sandbox-Token: " + gw.token.encode()))


# A correct and authorised request for what must never be reached.
EVIL = b"GET @P/evil HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n"
GET = b"GET @P/ HTTP/1.1\r\n"
HEAD = GET + b"Host: localhost\r\n@T\r\n"
POST = b"POST @P/ HTTP/1.1\r\nHost: localhost\r\n@T\r\n"

BAD_HEADS = {
    # line ends
    "lf-after-request-line": (400, b"GET @P/ HTTP/1.1\nHost: a\r\n@T\r\n\r\n"),
    "lf-after-host": (400, GET + b"Host: localhost\n@T\r\n\r\n"),
    "lf-everywhere": (400, b"GET @P/ HTTP/1.1\nHost: localhost\n@T\n\n"),
    "lf-as-the-end": (400, HEAD + b"\n"),
    "lf-lf-as-the-end": (400, GET + b"Host: localhost\r\n@T\n\n"),
    "cr-after-request-line": (400, b"GET @P/ HTTP/1.1\rHost: a\r\n@T\r\n\r\n"),
    "cr-cr-lf": (400, GET + b"Host: localhost\r\r\n@T\r\n\r\n"),
    "cr-in-value": (400, HEAD + b"A: b\rGET @P/evil HTTP/1.1\r\n\r\n"),
    "cr-in-name": (400, HEAD + b"A\r: b\r\n\r\n"),
    "cr-alone-as-the-end": (400, HEAD + b"\rX"),
    "lf-cr": (400, GET + b"Host: localhost\n\r@T\r\n\r\n"),
    "empty-line-first": (400, b"\r\n" + HEAD + b"\r\n"),
    "bare-lf-first": (400, b"\n" + HEAD + b"\r\n"),
    "vertical-tab-first": (400, b"\x0b" + HEAD + b"\r\n"),
    # control bytes
    "nul-in-target": (400, b"GET @P/\0 HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "nul-in-name": (400, HEAD + b"A\0: b\r\n\r\n"),
    "nul-in-value": (400, HEAD + b"A: b\0c\r\n\r\n"),
    "nul-in-host": (400, GET + b"Host: local\0host\r\n@T\r\n\r\n"),
    "nul-in-method": (400, b"G\0T @P/ HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "vt-in-value": (400, HEAD + b"A: \x0bb\r\n\r\n"),
    "ff-in-value": (400, HEAD + b"A: \x0cb\r\n\r\n"),
    "del-in-value": (400, HEAD + b"A: \x7f\r\n\r\n"),
    "esc-in-value": (400, HEAD + b"A: \x1b[2J\r\n\r\n"),
    "backspace-in-name": (400, HEAD + b"A\x08: b\r\n\r\n"),
    "nel-in-name": (400, HEAD + b"A\x85: b\r\n\r\n"),
    "utf8-in-name": (400, HEAD + b"Caf\xc3\xa9: b\r\n\r\n"),
    # folds and blanks
    "fold-space": (400, HEAD + b"A: b\r\n c\r\n\r\n"),
    "fold-tab": (400, HEAD + b"A: b\r\n\tc\r\n\r\n"),
    "fold-empty": (400, HEAD + b"A: b\r\n \r\n\r\n"),
    "fold-of-length": (400, POST + b"Content-Length:\r\n 5\r\n\r\nhello"),
    "fold-of-te": (400, POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n"),
    "fold-first-line": (400, GET + b" Host: localhost\r\n@T\r\n\r\n"),
    "tab-first-line": (400, GET + b"\tA: b\r\nHost: localhost\r\n@T\r\n\r\n"),
    "blank-before-colon": (400, HEAD + b"A : b\r\n\r\n"),
    "tab-before-colon": (400, HEAD + b"A\t: b\r\n\r\n"),
    "blank-before-colon-length": (400,
                                  POST + b"Content-Length : 5\r\n\r\nhello"),
    "blank-before-colon-te": (400, POST + b"Transfer-Encoding : chunked\r\n"
                              b"\r\n0\r\n\r\n"),
    "blank-in-name": (400, HEAD + b"A b: c\r\n\r\n"),
    "no-colon": (400, HEAD + b"A\r\n\r\n"),
    "empty-name": (400, HEAD + b": b\r\n\r\n"),
    "only-a-colon": (400, HEAD + b":\r\n\r\n"),
    "bracket-in-name": (400, HEAD + b"A[1]: b\r\n\r\n"),
    "quote-in-name": (400, HEAD + b'"A": b\r\n\r\n'),
    "at-in-name": (400, HEAD + b"a@b: c\r\n\r\n"),
    "request-line-as-field": (400, HEAD + b"GET @P/evil HTTP/1.1\r\n\r\n"),
    # request line
    "two-blanks": (400, b"GET  @P/ HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "blank-first": (400, b" GET @P/ HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "blank-last": (400, b"GET @P/ HTTP/1.1 \r\nHost: a\r\n@T\r\n\r\n"),
    "two-blanks-before-version":
        (400, b"GET @P/  HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "tabs": (400, b"GET\t@P/\tHTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "blank-in-target": (400, b"GET @P/ x HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "tab-in-target": (400, b"GET @P/\tx HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "no-version": (400, b"GET @P/\r\nHost: a\r\n@T\r\n\r\n"),
    "no-target": (400, b"GET HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "method-only": (400, b"GET\r\n\r\n"),
    "bad-method": (400, b"G(T @P/ HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "method-colon": (400, b"GET: @P/ HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "lower-version": (400, b"GET @P/ http/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "other-protocol": (400, b"GET @P/ HTTPS/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "icap": (400, b"GET @P/ ICAP/1.0\r\nHost: a\r\n@T\r\n\r\n"),
    "version-1.10": (400, b"GET @P/ HTTP/1.10\r\nHost: a\r\n@T\r\n\r\n"),
    "version-01.1": (400, b"GET @P/ HTTP/01.1\r\nHost: a\r\n@T\r\n\r\n"),
    "version-1": (400, b"GET @P/ HTTP/1\r\nHost: a\r\n@T\r\n\r\n"),
    "version-+1.1": (400, b"GET @P/ HTTP/+1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "version-1.2": (505, b"GET @P/ HTTP/1.2\r\nHost: a\r\n@T\r\n\r\n"),
    "version-0.9": (505, b"GET @P/ HTTP/0.9\r\nHost: a\r\n@T\r\n\r\n"),
    "version-2.0": (505, b"GET @P/ HTTP/2.0\r\nHost: a\r\n@T\r\n\r\n"),
    "version-9.9": (505, b"GET @P/ HTTP/9.9\r\nHost: a\r\n@T\r\n\r\n"),
    "h2-preface": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                   b"\0\0\0\4\0\0\0\0\0"),
    "tls-hello": (400, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"
                  + 32 * b"\x7f"),
    "ssh": (400, b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "smtp": (400, b"EHLO localhost\r\n"),
    "proxy-protocol": (400, b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n" + HEAD
                       + b"\r\n"),
    # targets
    "fragment": (400, b"GET @P/#a HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "utf8-target": (400, b"GET @P/\xc3\xa9 HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "del-target": (400, b"GET @P/\x7f HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "relative-target":
        (400, b"GET v1/health HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "authority-target": (400, b"GET localhost:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "asterisk-get": (400, b"GET * HTTP/1.1\r\nHost: a\r\n@T\r\n\r\n"),
    "connect": (501, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n"
                b"@T\r\n\r\n"),
    "connect-path": (501, b"CONNECT @P/ HTTP/1.1\r\nHost: localhost\r\n"
                     b"@T\r\n\r\n"),
    "target-too-long": (414, b"GET @P/" + 17000 * b"a" + b" HTTP/1.1\r\n"
                        b"Host: a\r\n@T\r\n\r\n"),
    "head-too-large": (431, HEAD + b"A: " + 40000 * b"a" + b"\r\n\r\n"),
    "too-many-fields": (431, HEAD + 120 * b"A: b\r\n" + b"\r\n"),
    "name-too-large": (431, HEAD + 40000 * b"a" + b": b\r\n\r\n"),
    # Host
    "no-host": (400, GET + b"@T\r\n\r\n"),
    "no-host-1.0": (400, b"GET @P/ HTTP/1.0\r\n@T\r\n\r\n"),
    "two-hosts": (400, HEAD + b"Host: localhost\r\n\r\n"),
    "two-hosts-differ": (400, HEAD + b"hOST: evil\r\n\r\n"),
    "empty-host": (400, GET + b"Host:\r\n@T\r\n\r\n"),
    "host-path": (400, GET + b"Host: localhost/evil\r\n@T\r\n\r\n"),
    "host-user": (400, GET + b"Host: a@localhost\r\n@T\r\n\r\n"),
    "host-blank": (400, GET + b"Host: localhost evil\r\n@T\r\n\r\n"),
    "host-url": (400, GET + b"Host: http://localhost\r\n@T\r\n\r\n"),
    "host-bad-port": (400, GET + b"Host: localhost:x\r\n@T\r\n\r\n"),
    "host-big-port": (400, GET + b"Host: localhost:65536\r\n@T\r\n\r\n"),
    "host-minus-port": (400, GET + b"Host: localhost:-1\r\n@T\r\n\r\n"),
    "host-empty-port": (400, GET + b"Host: localhost:\r\n@T\r\n\r\n"),
    "host-two-ports": (400, GET + b"Host: localhost:1:2\r\n@T\r\n\r\n"),
    "host-query": (400, GET + b"Host: localhost?a\r\n@T\r\n\r\n"),
    "host-utf8": (400, GET + b"Host: caf\xc3\xa9\r\n@T\r\n\r\n"),
    "host-quote": (400, GET + b'Host: a"b\r\n@T\r\n\r\n'),
    "host-markup": (400, GET + b"Host: <b>\r\n@T\r\n\r\n"),
    "host-open-bracket": (400, GET + b"Host: [::1\r\n@T\r\n\r\n"),
    "host-bad-v6": (400, GET + b"Host: [evil]\r\n@T\r\n\r\n"),
    "absolute-differs":
        (400, b"GET http://evil@P/ HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n"),
    "absolute-port-differs": (400, b"GET http://localhost:81@P/ HTTP/1.1\r\n"
                              b"Host: localhost\r\n@T\r\n\r\n"),
    "absolute-user": (400, b"GET http://u:p@localhost@P/ HTTP/1.1\r\n"
                      b"Host: localhost\r\n@T\r\n\r\n"),
    "absolute-no-host": (400, b"GET http://localhost@P/ HTTP/1.1\r\n"
                         b"@T\r\n\r\n"),
    "absolute-empty": (400, b"GET http://@P/ HTTP/1.1\r\nHost: localhost\r\n"
                       b"@T\r\n\r\n"),
    "absolute-ftp": (400, b"GET ftp://localhost@P/ HTTP/1.1\r\n"
                     b"Host: localhost\r\n@T\r\n\r\n"),
    "absolute-file": (400, b"GET file:///etc/passwd HTTP/1.1\r\n"
                      b"Host: localhost\r\n@T\r\n\r\n"),
    "absolute-backslash": (400, b"GET http:\\\\localhost@P/ HTTP/1.1\r\n"
                           b"Host: localhost\r\n@T\r\n\r\n"),
    "absolute-query": (400, b"GET http://localhost?@P/ HTTP/1.1\r\n"
                       b"Host: localhost\r\n@T\r\n\r\n"),
    # lengths
    "cl-twice": (400, POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n"
                 b"hello"),
    "cl-conflict": (400, POST + b"Content-Length: 5\r\nContent-Length: 6\r\n"
                    b"\r\nhello!"),
    "cl-list": (400, POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    "cl-list-conflict": (400, POST + b"Content-Length: 5,6\r\n\r\nhello!"),
    "cl-plus": (400, POST + b"Content-Length: +5\r\n\r\nhello"),
    "cl-minus": (400, POST + b"Content-Length: -5\r\n\r\nhello"),
    "cl-minus-zero": (400, POST + b"Content-Length: -0\r\n\r\n"),
    "cl-hex": (400, POST + b"Content-Length: 0x5\r\n\r\nhello"),
    "cl-fraction": (400, POST + b"Content-Length: 5.0\r\n\r\nhello"),
    "cl-exponent": (400, POST + b"Content-Length: 1e1\r\n\r\nhellohello"),
    "cl-blank": (400, POST + b"Content-Length: 1 0\r\n\r\nhellohello"),
    "cl-underscore": (400, POST + b"Content-Length: 1_0\r\n\r\nhellohello"),
    "cl-quoted": (400, POST + b'Content-Length: "5"\r\n\r\nhello'),
    "cl-empty": (400, POST + b"Content-Length:\r\n\r\n"),
    "cl-word": (400, POST + b"Content-Length: five\r\n\r\nhello"),
    "cl-semicolon": (400, POST + b"Content-Length: 5;\r\n\r\nhello"),
    "cl-2^64": (400, POST + b"Content-Length: 18446744073709551616\r\n\r\n"),
    "cl-2^64+5": (400, POST + b"Content-Length: 18446744073709551621\r\n\r\n"
                  b"hello"),
    "cl-2^63": (400, POST + b"Content-Length: 9223372036854775808\r\n\r\n"),
    "cl-arabic-digits": (400, POST + "Content-Length: ٥\r\n\r\n".encode()
                         + b"hello"),
    "cl-nbsp": (400, POST + b"Content-Length: \xa05\r\n\r\nhello"),
    # lengths against chunks
    "cl-te": (400, POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked"
              b"\r\n\r\n0\r\n\r\nG"),
    "te-cl": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4"
              b"\r\n\r\n5c\r\n"),
    "te-cl-0": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 0"
                b"\r\n\r\n0\r\n\r\n"),
    "te-1.0": (400, b"POST @P/ HTTP/1.0\r\nHost: a\r\n@T\r\n"
               b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "te-twice": (400, POST + b"Transfer-Encoding: chunked\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "te-identity-chunked": (400, POST + b"Transfer-Encoding: identity\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
}
TE = b"Transfer-Encoding"
for name, field in {
        "te-xchunked": TE + b": xchunked", "te-chunk": TE + b": chunk",
        "te-identity": TE + b": identity", "te-gzip": TE + b": gzip",
        "te-gzip-chunked": TE + b": gzip, chunked",
        "te-chunked-gzip": TE + b": chunked, gzip",
        "te-chunked-chunked": TE + b": chunked, chunked",
        "te-chunked-identity": TE + b": chunked, identity",
        "te-chunked-comma": TE + b": chunked,",
        "te-comma-chunked": TE + b": ,chunked",
        "te-param": TE + b": chunked;q=1", "te-quoted": TE + b': "chunked"',
        "te-single-quoted": TE + b": 'chunked'",
        "te-trailing-word": TE + b": chunked x", "te-empty": TE + b":",
        "te-vt": TE + b": \x0bchunked", "te-ff": TE + b": chunked\x0c",
        "te-nbsp": TE + b": \xa0chunked", "te-nul": TE + b": chunked\0",
        "te-kelvin": TE + b": chun\xe2\x84\xaaed",
        "te-cr": TE + b": \rchunked",
        "te-colon-blank": b"X: y\r\n" + TE + b" : chunked"}.items():
    BAD_HEADS[name] = (400, POST + field + b"\r\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("how", ["whole", "bytes"])
@pytest.mark.parametrize("name", BAD_HEADS)
def test_refused(shared, back, name, how):
    status, data = BAD_HEADS[name]
    url, step = (shared.http, None) if how == "whole" else (shared.https, 1)
    if len(data) > 10000 and step:
        step = 1000
    t = talk(url, fill(data + EVIL, shared, back), step=step)
    assert t.statuses == [status]
    assert t.closed and not t.junk
    assert t.responses[0]["Connection"] == "close"
    assert not back.conns


# --- what is unusual and clear ----------------------------------------------

GOOD_HEADS = {
    "plain": (GET + b"Host: localhost\r\n@T\r\n\r\n", b"/"),
    "no-blank": (GET + b"Host:localhost\r\n@T\r\n\r\n", b"/"),
    "tabs-around": (GET + b"Host:\t localhost \t\r\n@T\t\r\n\r\n", b"/"),
    "lower-names": (GET + b"host: localhost\r\n@T\r\n\r\n", b"/"),
    "host-v6": (GET + b"Host: [::1]:8080\r\n@T\r\n\r\n", b"/"),
    "obs-text": (HEAD + b"A: caf\xe9\r\n\r\n", b"/"),
    "empty-value": (HEAD + b"A:\r\n\r\n", b"/"),
    "odd-name": (HEAD + b"!#$%&'*+.^`|~: b\r\n\r\n", b"/"),
    "encoded": (b"GET @P/a%2fb%2F..%00%0d%0aX:%20y HTTP/1.1\r\n"
                b"Host: localhost\r\n@T\r\n\r\n",
                b"/a%2fb%2F..%00%0d%0aX:%20y"),
    "dots": (b"GET @P/a/./../b//c HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n",
             b"/a/./../b//c"),
    "odd-characters": (b"GET @P/\"<>\\^`{|}~?a=[1]&b=';@ HTTP/1.1\r\n"
                       b"Host: localhost\r\n@T\r\n\r\n",
                       b"/\"<>\\^`{|}~?a=[1]&b=';@"),
    "query-with-url": (b"GET @P/?u=http://x/../@y HTTP/1.1\r\n"
                       b"Host: localhost\r\n@T\r\n\r\n",
                       b"/?u=http://x/../@y"),
    "long-target": (b"GET @P/" + 15000 * b"a" + b" HTTP/1.1\r\n"
                    b"Host: localhost\r\n@T\r\n\r\n", b"/" + 15000 * b"a"),
    "absolute": (b"GET http://localhost@P/a?b HTTP/1.1\r\n"
                 b"Host: LOCALHOST\r\n@T\r\n\r\n", b"/a?b"),
    "absolute-https": (b"GET HTTPS://localhost:8@P/a HTTP/1.1\r\n"
                       b"Host: localhost:8\r\n@T\r\n\r\n", b"/a"),
    "http-1.0": (b"GET @P/ HTTP/1.0\r\nHost: localhost\r\n@T\r\n\r\n", b"/"),
    "other-method": (b"BREW @P/pot HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n",
                     b"/pot"),
    "options": (b"OPTIONS @P/ HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n",
                b"/"),
    "connection-list": (HEAD + b"Connection: ,keep-alive, x-foo ,\r\n"
                        b"X-Foo: 1\r\n\r\n", b"/"),
    "hop-fields": (HEAD + b"TE: trailers, deflate\r\nTrailer: A\r\n"
                   b"Keep-Alive: timeout=1\r\nProxy-Connection: close\r\n"
                   b"Proxy-Authorization: Basic eDp5\r\n\r\n", b"/"),
}


@pytest.mark.parametrize("step", [None, 1, 7])
@pytest.mark.parametrize("name", GOOD_HEADS)
def test_passes_as_one_message(shared, back, name, step):
    data, target = GOOD_HEADS[name]
    t = talk(shared.http, fill(data, shared, back), 1, step)
    assert t.statuses == [200] and t.responses[0].body == b"ok"
    assert not t.junk
    [m] = back.messages
    assert m.target == target
    assert m.framing == "none"


def test_fields_named_by_connection_end_here(shared, back):
    data = HEAD + (b"Connection: x-foo, close\r\nX-Foo: 1\r\nX-Bar: 2\r\n"
                   b"\r\n")
    talk(shared.http, fill(data, shared, back), 1)
    [m] = back.messages
    assert m.get(b"x-foo") is None and m.get(b"x-bar") == b"2"


@pytest.mark.parametrize("named", [
    b"Host", b"Content-Length", b"X-Forwarded-For", b"Forwarded",
    b"X-Forwarded-Proto", b"X-Sandbox-Token", b"Connection"])
def test_connection_names_what_matters(shared, back, named):
    """Naming a field takes away the client's own at most: neither the framing
    nor what the gateway itself has to say, nor the need for a token."""
    data = POST + b"Content-Length: 5\r\nConnection: %s\r\n\r\nhello" % named
    t = talk(shared.http, fill(data + EVIL.replace(b"@T\r\n", b""), shared,
                               back), 2)
    assert t.statuses == [200, 401]
    [m] = back.messages
    assert m.body == b"hello"
    assert m.get(b"x-forwarded-for") == b"127.0.0.1"
    assert m.get(b"x-forwarded-proto") == b"http"


# --- bodies ------------------------------------------------------------------

CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD_CHUNKS = {
    "empty": (b"0\r\n\r\n", b""),
    "one": (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "several": (b"1\r\nh\r\n3\r\nell\r\n1\r\no\r\n0\r\n\r\n", b"hello"),
    "upper-hex": (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "leading-zeros": (b"0000000000000005\r\nhello\r\n000\r\n\r\n", b"hello"),
    "extension": (b"5;a=b;c=\"d;\\\"\r\n\";e\r\nhello\r\n0;x\r\n\r\n"
                  .replace(b"\r\n\";e", b"\";e"), b"hello"),
    "trailers": (b"5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 3\r\n\r\n",
                 b"hello"),
    "looks-like-chunks": (b"7\r\n0\r\n\r\nGE\r\n0\r\n\r\n", b"0\r\n\r\nGE"),
    "looks-like-a-request":
        (b"1c\r\nGET /evil HTTP/1.1\r\nHost: a\r\n0\r\n\r\n"
         .replace(b"1c", b"%x" % len(b"GET /evil HTTP/1.1\r\nHost: a")),
         b"GET /evil HTTP/1.1\r\nHost: a"),
}


@pytest.mark.parametrize("step", [None, 1])
@pytest.mark.parametrize("name", GOOD_CHUNKS)
def test_chunks_are_framed_anew(shared, back, name, step):
    coded, body = GOOD_CHUNKS[name]
    t = talk(shared.http, fill(CHUNKED + coded, shared, back), 1, step)
    assert t.statuses == [200]
    [m] = back.messages
    assert m.body == body
    assert m.framing == "chunked" or (m.framing != "none" or not body)
    raw = b"".join(c.data for c in back.conns)
    assert b";" not in raw.split(b"\r\n\r\n", 1)[1].split(body or b"0")[0]


BAD_CHUNKS = {
    "no-size": b"\r\nhello\r\n0\r\n\r\n", "lf": b"5\nhello\n0\n\n",
    "lf-after-size": b"5\nhello\r\n0\r\n\r\n",
    "lf-after-data": b"5\r\nhello\n0\r\n\r\n",
    "cr-x-after-data": b"5\r\nhello\rX0\r\n\r\n",
    "cr-x-after-size": b"5\rXhello\r\n0\r\n\r\n",
    "end-cr-x": b"5\r\nhello\r\n0\rX\r\n",
    "cr-after-size": b"5\rhello\r\n0\r\n\r\n",
    "cr-cr-lf": b"5\r\r\nhello\r\n0\r\n\r\n",
    "blank-before-size": b" 5\r\nhello\r\n0\r\n\r\n",
    "blank-after-size": b"5 \r\nhello\r\n0\r\n\r\n",
    "tab-after-size": b"5\t\r\nhello\r\n0\r\n\r\n",
    "vt-after-size": b"5\x0b\r\nhello\r\n0\r\n\r\n",
    "plus": b"+5\r\nhello\r\n0\r\n\r\n", "minus": b"-5\r\nhello\r\n0\r\n\r\n",
    "0x": b"0x5\r\nhello\r\n0\r\n\r\n", "h": b"5h\r\nhello\r\n0\r\n\r\n",
    "underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "comma": b"5,5\r\nhello\r\n0\r\n\r\n",
    "17-digits": b"00000000000000005\r\nhello\r\n0\r\n\r\n",
    "2^64+5": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "quoted": b'"5"\r\nhello\r\n0\r\n\r\n',
    "short-data": b"4\r\nhello\r\n0\r\n\r\n",
    "long-data": b"6\r\nhello\r\n0\r\n\r\n",
    "no-crlf-after-data": b"5\r\nhello0\r\n\r\n",
    "nul": b"5\0\r\nhello\r\n0\r\n\r\n",
    "ext-no-name": b"5;\r\nhello\r\n0\r\n\r\n",
    "ext-lf": b"5;a\nhello\r\n0\r\n\r\n",
    "ext-cr": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "ext-nul": b"5;a\0\r\nhello\r\n0\r\n\r\n",
    "ext-blank": b"5; a\r\nhello\r\n0\r\n\r\n",
    "ext-open-quote": b'5;a="b\r\nhello\r\n0\r\n\r\n',
    "ext-quoted-crlf": b'5;a="\r\n"\r\nhello\r\n0\r\n\r\n',
    "ext-too-much": b"5;" + 5000 * b"a" + b"\r\nhello\r\n0\r\n\r\n",
    "end-lf": b"5\r\nhello\r\n0\r\n\n", "end-lf-lf": b"5\r\nhello\r\n0\n\n",
    "end-cr": b"5\r\nhello\r\n0\r\n\rX",
    "end-blank": b"5\r\nhello\r\n0 \r\n\r\n",
    "trailer-no-colon": b"5\r\nhello\r\n0\r\nGET /evil HTTP/1.1\r\n\r\n",
    "trailer-fold": b"5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
    "trailer-lf": b"5\r\nhello\r\n0\r\nA: b\n\r\n",
    "trailer-nul": b"5\r\nhello\r\n0\r\nA: \0\r\n\r\n",
    "trailer-blank-name": b"5\r\nhello\r\n0\r\nA : b\r\n\r\n",
    "trailer-too-much": b"5\r\nhello\r\n0\r\nA: " + 9000 * b"a" + b"\r\n\r\n",
}


@pytest.mark.parametrize("step", [None, 1])
@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_bad_chunks_never_look_whole(shared, back, name, step):
    """The head may be inside already, and some data; but the body never comes
    to an end there, and nothing after it is a request."""
    data = CHUNKED + BAD_CHUNKS[name]
    if step and len(data) > 3000:
        step = 500
    t = talk(shared.http, fill(data + EVIL, shared, back), step=step)
    assert t.statuses == [400] and t.closed
    back.incomplete()
    assert not back.messages


def test_body_that_ends_early_never_looks_whole(shared, back):
    for data in (POST + b"Content-Length: 10\r\n\r\nhello",
                 CHUNKED + b"5\r\nhel", CHUNKED + b"5\r\nhello\r\n",
                 CHUNKED + b"5\r\nhello\r\n0\r\n"):
        with Client(shared.http) as c:
            c.send(fill(data, shared, back))
            c.sock.shutdown(1)
            c.to_end()
    back.incomplete()
    assert not back.messages


BODIES = {
    "request": EVIL, "two": EVIL + EVIL, "crlf": b"\r\n\r\n\r\n",
    "chunks": b"0\r\n\r\n" + EVIL, "nul": bytes(range(256)),
    "response": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("step", [None, 13])
@pytest.mark.parametrize("chunks", [None, 1, 10])
@pytest.mark.parametrize("method", [b"POST", b"GET", b"OPTIONS", b"BREW"])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_a_body(shared, back, name, method, chunks, step):
    """Whatever stands in it, with whatever method and framing."""
    body = fill(BODIES[name], shared, back)
    data = fill(POST.replace(b"POST", method), shared, back)
    if chunks:
        data += TE + b": chunked\r\n\r\n"
        data += b"".join(chunk(body[i:i + chunks])
                         for i in range(0, len(body), chunks)) + b"0\r\n\r\n"
    else:
        data += b"Content-Length: %d\r\n\r\n" % len(body) + body
    after = fill(b"GET @P/after HTTP/1.1\r\nHost: localhost\r\n@T\r\n\r\n",
                 shared, back)
    t = talk(shared.http, data + after, 2, step)
    assert t.statuses == [200, 200]
    assert [m.target for m in back.messages] == [b"/", b"/after"]
    assert back.messages[0].body == body


@pytest.mark.parametrize("framing", [b"Content-Length: 5\r\n\r\nhello",
                                     TE + b": chunked\r\n\r\n5\r\nhello\r\n"
                                     b"0\r\n\r\n"])
@pytest.mark.parametrize("expect, status", [
    (b"100-continue", 200), (b"100-Continue", 200), (b"", 417),
    (b"200-ok", 417), (b"100-continue, x", 417), (b"100-continue;a", 417)])
def test_expect(shared, back, expect, status, framing):
    data = POST + b"Expect: " + expect + b"\r\n" + framing
    t = talk(shared.http, fill(data, shared, back), 1)
    assert t.statuses == [status]
    if status == 200:
        [m] = back.messages
        assert m.body == b"hello"
    else:
        assert not back.conns


# --- one connection, several requests ----------------------------------------

def numbered(n, extra=b"@T\r\n"):
    return (b"GET @P/%d HTTP/1.1\r\nHost: localhost\r\n" % n) + extra + b"\r\n"


@pytest.mark.parametrize("step", [None, 1, 100])
def test_pipelined_in_order(shared, shared_url, step):
    def reply(m):
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (
            len(m.target), m.target)
    with Backend(shared.proxy_dir, reply) as back:
        data = b"".join(numbered(i) for i in range(20))
        t = talk(shared_url, fill(data, shared, back), 20, step)
        assert [r.body for r in t.responses] == [b"/%d" % i for i in range(20)]
        assert [m.target for m in back.messages] == [b"/%d" % i
                                                     for i in range(20)]


@pytest.fixture(params=["http", "https"])
def shared_url(shared, request):
    return shared.url(request.param)


AFTER_CLOSE = {
    "close": numbered(1, b"@T\r\nConnection: close\r\n"),
    "1.0": numbered(1).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "close-among-others": numbered(1, b"@T\r\nConnection: a, CLOSE ,b\r\n"),
    "close-and-keep-alive": numbered(1, b"@T\r\nConnection: keep-alive\r\n"
                                     b"Connection: close\r\n"),
}


@pytest.mark.parametrize("name", AFTER_CLOSE)
def test_nothing_is_read_after_close(shared, back, name):
    t = talk(shared.http, fill(AFTER_CLOSE[name] + EVIL, shared, back))
    assert t.statuses == [200] and t.closed
    assert len(back.messages) == 1


@pytest.mark.parametrize("bad", ["no-host", "cl-te", "fold-space",
                                 "lf-as-the-end", "nul-in-value",
                                 "version-2.0", "connect"])
def test_bad_one_after_good_ones(shared, back, bad):
    status, data = BAD_HEADS[bad]
    data = numbered(1) + numbered(2) + data + EVIL
    t = talk(shared.http, fill(data, shared, back))
    assert t.statuses == [200, 200, status] and t.closed
    assert len(back.messages) == 2


def test_extra_crlf_between_requests_is_refused(shared, back):
    t = talk(shared.http, fill(numbered(1) + b"\r\n" + EVIL, shared, back))
    assert t.statuses == [200, 400] and t.closed
    assert len(back.messages) == 1


def test_options_asterisk_stays_here(shared, back):
    for fields in (b"@T\r\n", b""):
        data = b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n"
        [r] = talk(shared.http, fill(data, shared, back), 1).responses
        assert r.status >= 400 or r.status in (200, 204)
    assert not back.conns
