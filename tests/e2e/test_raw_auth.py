# SPDX-License-Identifier: Apache-2.0
"""Who may reach what, tried on a raw socket: tricks with tokens, ports, ids,
host names and forwarding fields. A request that is not authorised never
reaches a backend, and no request reaches another backend than the one that it
names in the one way that names can be read."""

import json
import re

import pytest

from support.gateway import Gateway
from support.http import get
from support.raw import OK, Backend, talk

ALPHA = "alpha-0123456789abcdef0123456789abcdef"
BETA = "beta-0123456789abcdef0123456789abcdef"
OPERATOR = "operator-0123456789abcdef0123456789abcdef"

CONFIG = """\
[gateway]
state_dir = {tmp}/state
domain = sbx.example

[listen plain]
address = http://127.0.0.1:0

[listen tls]
address = https://127.0.0.1:0

[auth]
operator_token_file = {tmp}/operator

[sandbox alpha]
token_file = {tmp}/alpha.token
proxy_dir = {tmp}/alpha

[sandbox beta]
token_file = {tmp}/beta.token
proxy_dir = {tmp}/beta

[timeouts]
wait = 0s

[admin]
listen = off
"""


class Two:
    """A gateway before two configured sandboxes, each with a token."""

    def __init__(self, tmp):
        self.tmp = tmp
        for name, token in (("alpha", ALPHA), ("beta", BETA)):
            (tmp / name).mkdir()
            self.secret(f"{name}.token", token)
        self.secret("operator", OPERATOR)
        self.gw = Gateway(tmp, config=CONFIG.format(tmp=tmp), token=None)

    def secret(self, name, token):
        path = self.tmp / name
        path.write_text(token + "\n")
        path.chmod(0o600)


@pytest.fixture(scope="module")
def two(module_tmp):
    tmp = module_tmp / "two"
    tmp.mkdir()
    t = Two(tmp)
    with t.gw:
        yield t


@pytest.fixture
def alpha(two):
    with Backend(two.tmp / "alpha") as b:
        yield b


@pytest.fixture
def beta(two):
    with Backend(two.tmp / "beta") as b:
        yield b


@pytest.fixture
def back(shared):
    with Backend(shared.proxy_dir) as b:
        yield b


def request(target, *fields, method="GET", body=b""):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f.decode("latin-1") if isinstance(f, bytes) else f
              for f in fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


# --- tokens -------------------------------------------------------------------

def bad_tokens(token):
    half = len(token) // 2
    return {
        "none": [],
        "empty": ["X-Sandbox-Token:"],
        "blank": ["X-Sandbox-Token:   "],
        "wrong": ["X-Sandbox-Token: " + "x" * len(token)],
        "prefix": ["X-Sandbox-Token: " + token[:-1]],
        "half": ["X-Sandbox-Token: " + token[:half]],
        "suffix": ["X-Sandbox-Token: " + token[1:]],
        "longer": ["X-Sandbox-Token: " + token + "x"],
        "doubled": ["X-Sandbox-Token: " + token + token],
        "list": ["X-Sandbox-Token: x, " + token],
        "list-first": ["X-Sandbox-Token: " + token + ", x"],
        "quoted": [f'X-Sandbox-Token: "{token}"'],
        "bearer-inside": ["X-Sandbox-Token: Bearer " + token],
        "case": ["X-Sandbox-Token: " + token.swapcase()],
        "blank-inside": [f"X-Sandbox-Token: {token[:half]} {token[half:]}"],
        "obs-text": ["X-Sandbox-Token: " + token + "\xa0"],
        "encoded": ["X-Sandbox-Token: %" + f"{ord(token[0]):02x}" + token[1:]],
        "other-name": ["X-Sandbox-Tokens: " + token],
        "underscore": ["X_Sandbox_Token: " + token],
        "mixed-underscore": ["X-Sandbox_Token: " + token],
        "dotless": ["XSandboxToken: " + token],
        "cookie": ["Cookie: X-Sandbox-Token=" + token],
        "forwarded": ["X-Forwarded-X-Sandbox-Token: " + token],
        "te-trailer": ["Trailer: X-Sandbox-Token"],
        "bearer-wrong": ["Authorization: Bearer " + "x" * len(token)],
        "bearer-empty": ["Authorization: Bearer"],
        "bearer-prefix": ["Authorization: Bearer " + token[:-1]],
        "basic": ["Authorization: Basic eDp5"],
        "no-scheme": ["Authorization: " + token],
        "odd-scheme": ["Authorization: X-Sandbox-Token " + token],
        "proxy-auth": ["Proxy-Authorization: Bearer " + token],
        "huge": ["X-Sandbox-Token: " + token + "x" * 20000],
        "wrong-with-bearer": ["X-Sandbox-Token: x", "Authorization: Basic eA"],
    }


@pytest.mark.parametrize("name", bad_tokens("x" * 32))
def test_bad_token(shared, back, name):
    fields = bad_tokens(shared.token)[name]
    data = request(f"/v1/proxy/{back.port}/evil", *fields)
    t = talk(shared.http, data, 1)
    assert t.statuses in ([401], [403])
    assert not back.conns


@pytest.mark.parametrize("name", bad_tokens("x" * 32))
def test_bad_token_second_on_a_kept_connection(shared, back, name):
    fields = bad_tokens(shared.token)[name]
    good = request(f"/v1/proxy/{back.port}/1",
                   "X-Sandbox-Token: " + shared.token)
    bad = request(f"/v1/proxy/{back.port}/evil", *fields)
    t = talk(shared.https, good + bad, 2)
    assert t.statuses[0] == 200 and t.statuses[1] in (401, 403)
    assert len(back.messages) == 1


@pytest.mark.parametrize("fields", [
    ["X-Sandbox-Token: @", "X-Sandbox-Token: @"],
    ["X-Sandbox-Token: @", "x-sandbox-token: wrong"],
    ["X-Sandbox-Token: wrong", "X-SANDBOX-TOKEN: @"],
    ["X-Sandbox-Token: @", "X-Sandbox-Token:"],
    ["Authorization: Bearer a", "Authorization: Bearer b"],
    ["X-Sandbox-Token: @", "Authorization: a", "authorization: a"],
    ["X-Sandbox-Token: @\0"], ["X-Sandbox-Token: @\n"],
    ["X-Sandbox-Token : @"], [" X-Sandbox-Token: @"],
    ["X-Sandbox-Token:\r\n @"], ["A: b\nX-Sandbox-Token: @"],
], ids=range(12))
def test_ambiguous_token(shared, back, fields):
    fields = [f.replace("@", shared.token) for f in fields]
    t = talk(shared.http, request(f"/v1/proxy/{back.port}/evil", *fields))
    assert t.statuses == [400] and t.closed
    assert not back.conns


@pytest.mark.parametrize("target", [
    "?token=@", "?X-Sandbox-Token=@", "?x-sandbox-token=@&a=b",
    "?authorization=Bearer%20@", "?sbx_token=@", ";token=@", "@",
    "?access_token=@"])
def test_token_in_the_target(shared, back, target):
    target = "evil" + target.replace("@", shared.token)
    t = talk(shared.http, request(f"/v1/proxy/{back.port}/{target}"), 1)
    assert t.statuses in ([401], [403])
    assert not back.conns


@pytest.mark.parametrize("name", ["X-Sandbox-Token", "x-sandbox-token",
                                  "X-SANDBOX-TOKEN", "x-SANDBOX-tOKEN"])
def test_case_of_the_name(shared, back, name):
    t = talk(shared.http, request(f"/v1/proxy/{back.port}/",
                                  f"{name}:{shared.token} "), 1)
    assert t.statuses == [200]
    [m] = back.messages
    assert shared.token.encode() not in m.raw


@pytest.mark.parametrize("body", [
    "5\r\nhello\r\n0\r\nX-Sandbox-Token: @\r\n\r\n",
    "0\r\nX-Sandbox-Token: @\r\n\r\n",
    "5;X-Sandbox-Token=@\r\nhello\r\n0\r\n\r\n"])
def test_token_in_a_trailer(shared, back, body):
    """It opens nothing, and does not go inside either."""
    body = body.replace("@", shared.token).encode()
    fields = ["Transfer-Encoding: chunked", "Trailer: X-Sandbox-Token"]
    target = f"/v1/proxy/{back.port}/"
    t = talk(shared.http, request(target + "evil", *fields, method="POST",
                                  body=body), 1)
    assert t.statuses in ([401], [403])
    assert not back.conns
    t = talk(shared.http, request(target, "X-Sandbox-Token: " + shared.token,
                                  *fields, method="POST", body=body), 1)
    assert t.statuses == [200]
    assert shared.token.encode() not in b"".join(c.data for c in back.conns)


def test_unauthorised_body_is_not_a_request(shared, back):
    """A refused request's body must not be taken for the next one."""
    inner = request(f"/v1/proxy/{back.port}/evil",
                    "X-Sandbox-Token: " + shared.token)
    for framing in ([f"Content-Length: {len(inner)}"],
                    ["Content-Length: 1000000"],
                    ["Expect: 100-continue", f"Content-Length: {len(inner)}"]):
        data = request(f"/v1/proxy/{back.port}/evil", *framing, method="POST",
                       body=inner)
        t = talk(shared.http, data, 1)
        assert t.statuses in ([401], [403]) and not t.junk
        assert not back.conns


def test_refusals_are_the_same(two, alpha):
    """No oracle: whether a sandbox or a port exists cannot be told from how a
    request without a right token is refused."""
    seen = set()
    for target in (f"/v1/sandboxes/alpha/proxy/{alpha.port}/",
                   "/v1/sandboxes/alpha/proxy/1/",
                   f"/v1/sandboxes/nosuch/proxy/{alpha.port}/",
                   "/v1/sandboxes/alpha/exec", "/v1/sandboxes/nosuch/exec",
                   f"/alpha--{alpha.port}/", "/nosuch--1/"):
        for fields in ([], ["X-Sandbox-Token: wrong"]):
            [r] = talk(two.gw.http, request(target, *fields), 1).responses
            body = re.sub(rb'"request_id":\s*"[^"]*"', b"", r.body)
            seen.add((r.status, body, bool(fields)))
    assert len({(s, b) for s, b, _ in seen}) <= 2, seen
    assert not alpha.conns


@pytest.mark.parametrize("form", [
    "/v1/sandboxes/{id}/proxy/{port}/evil",
    "/v1/sandboxes/{id}/absproxy/{port}/evil", "/{id}--{port}/evil",
    "/{id}--{port}.x.y/evil"])
def test_token_of_the_neighbour(two, alpha, beta, form):
    for name, back, token in (("alpha", alpha, BETA), ("beta", beta, ALPHA)):
        target = form.format(id=name, port=back.port)
        t = talk(two.gw.http, request(target, "X-Sandbox-Token: " + token), 1)
        assert t.statuses in ([401], [403])
        assert not back.conns


@pytest.mark.parametrize("token", [ALPHA, OPERATOR])
@pytest.mark.parametrize("form", [
    "/v1/sandboxes/alpha/proxy/{port}/x", "/alpha--{port}/x",
    "/alpha--{port}.any.thing/x"])
def test_right_tokens(two, alpha, form, token):
    t = talk(two.gw.http, request(form.format(port=alpha.port),
                                  "X-Sandbox-Token: " + token), 1)
    assert t.statuses == [200]
    [m] = alpha.messages
    assert m.target == b"/x" and token.encode() not in m.raw


def test_each_request_is_judged_for_its_own_target(two, alpha, beta):
    """A connection that was let into alpha is not let into beta."""
    data = b""
    for name, back, what in (("alpha", alpha, "1"), ("beta", beta, "evil"),
                             ("alpha", alpha, "2")):
        data += request(f"/v1/sandboxes/{name}/proxy/{back.port}/{what}",
                        "X-Sandbox-Token: " + ALPHA)
    t = talk(two.gw.http, data, 3)
    assert [s if s == 200 else 4 for s in t.statuses] == [200, 4, 200]
    assert len(alpha.messages) == 2 and not beta.conns


# --- ports and ids ------------------------------------------------------------

BAD_PORTS = [
    "0", "00", "65536", "99999", "100000", "4294967376", "18446744073709551696",
    "-1", "-80", "+80", "080", "0080", "0x50", "0X50", "80a", "a80", "8_0",
    "8.0", "80.0", "8e1", "%38%30", "8%30", "80%00", "80%20", "%2080", "80%0a",
    "80%2f", "80;a", "80,81", "80:80", "80&", "*", "[80]", "http", "%c2%b2",
    "80.sock", "..", ".", "..%2f", "%2e%2e", "%2e%2e%2f", "..%5c", "..\\",
    "%252e%252e%252f", "....//", "..;", "..%00", "evil", "%65vil", "80=",
    "'80'",
    "80--", "~80", "\\80", "80\\", "80%23", "80%3f", "127.0.0.1:80", "80@x"]


@pytest.fixture(scope="module")
def traps(shared):
    """Sockets that a sloppy reading of a port would find."""
    names = ["0", "00", "080", "0080", "80", "+80", "-1", "-80", "65536", "80a",
             "0x50", "evil", "8", "*", "99999", "80.0", "80.sock", "81"]
    found = [Backend(shared.proxy_dir, name=n) for n in names]
    found.append(Backend(shared.proxy_dir.parent, name="evil"))
    yield found
    for trap in found:
        trap.stop()
        trap.check()
    assert not any(t.conns for t in found)


@pytest.mark.parametrize("form", ["/v1/proxy/{}/evil", "/v1/proxy/{}",
                                  "/v1/absproxy/{}/evil"])
@pytest.mark.parametrize("port", BAD_PORTS)
def test_bad_port(shared, traps, port, form):
    t = talk(shared.http, request(form.format(port),
                                  "X-Sandbox-Token: " + shared.token), 1)
    assert t.statuses == [400]
    assert not any(trap.conns for trap in traps)


@pytest.mark.parametrize("target", [
    "/v1/proxy", "/v1/proxy/", "/v1/proxy//evil", "/v1/proxy/?80",
    "/v1/proxy/?/80/", "//v1/proxy/80/evil", "/v1//proxy/80/evil",
    "/v1/./proxy/80/evil", "/v1/x/../proxy/80/evil", "/V1/proxy/80/evil",
    "/v1/Proxy/80/evil", "/v1/PROXY/80/evil", "/%76%31/proxy/80/evil",
    "/v1/%70roxy/80/evil", "/v1%2fproxy%2f80%2fevil", "/v1/proxy%2f80/evil",
    "/v1\\proxy\\80\\evil", "/v1/proxy/./80/evil", "/v1/proxy/../proxy/80/evil",
    "/.//v1/proxy/80/evil", "/v1;/proxy/80/evil", "/v1/proxy;a/80/evil",
    "/health/../v1/proxy/80/evil", "/health/v1/proxy/80/evil",
    "/health%2f..%2fv1/proxy/80/evil", "/health;/v1/proxy/80/evil",
    "/api/../v1/proxy/80/evil", "/v1/proxyx/80/evil", "/v1/xproxy/80/evil",
    "/v1/proxy-80/evil", "/v2/proxy/80/evil", "/proxy/80/evil", "/80/evil"])
@pytest.mark.parametrize("authorised", [True, False])
def test_paths_that_are_not_ours(shared, traps, target, authorised):
    """Not found, bad or (to the agent that is not there) unavailable; without
    a token possibly refused first. Never anything inside."""
    fields = ["X-Sandbox-Token: " + shared.token] if authorised else []
    [r] = talk(shared.http, request(target, *fields), 1).responses
    assert 400 <= r.status < 600 and b"ok" != r.body
    assert not any(trap.conns for trap in traps)


BAD_IDS = [
    "", ".", "..", "%61lpha", "alph%61", "ALPHA", "Alpha", "alpha.", ".alpha",
    "alpha%00", "alpha%20", "alpha%2f", "alpha%2f..%2fbeta", "..%2falpha",
    "alpha;", "alpha;a=b", "alpha/../beta", "./alpha", "alpha--", "--alpha",
    "-alpha", "alpha-", "al--pha", "alpha_", "alpha,beta", "alpha:80",
    "alpha@beta",
    "alpha\\", "*", "alpha*", "a" * 64, "a" * 5000, "%ff", "alpha%0d%0aX:y",
    "alpha%23", "alpha'", 'alpha"', "nosuch", "0"]


@pytest.mark.parametrize("form", ["/v1/sandboxes/{}/proxy/{port}/evil",
                                  "/{}--{port}/evil"])
@pytest.mark.parametrize("name", BAD_IDS)
def test_bad_id(two, alpha, beta, name, form):
    target = form.format(name, port=alpha.port)
    for token in (ALPHA, OPERATOR):
        [r] = talk(two.gw.http, request(target, "X-Sandbox-Token: " + token),
                   1).responses
        assert 400 <= r.status < 500
    assert not alpha.conns and not beta.conns


GOOD_HOSTS = ["alpha--{}.sbx.example", "ALPHA--{}.SBX.example",
              "alpha--{}.sbx.example:8443", "alpha--{}.sbx.example."]
BAD_HOSTS = [
    "alpha--{}.evil.example", "alpha--{}.sbx.example.evil",
    "alpha--{}.xsbx.example", "x.alpha--{}.sbx.example", "alpha--{}",
    "alpha--0{}.sbx.example", "alpha--{}0.sbx.example",
    "alpha--{}x.sbx.example",
    "alpha-{}.sbx.example", "alpha---{}.sbx.example", "alpha--.sbx.example",
    "--{}.sbx.example", "{}--alpha.sbx.example", "alpha--{}--{}.sbx.example",
    "alpha%2d-{}.sbx.example", "alpha--{}.sbx.example..",
    "al_pha--{}.sbx.example",
    "alpha--+{}.sbx.example", "alpha--{}..sbx.example", "beta--{}.sbx.example"]


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_host_form(two, alpha, host):
    data = request("/v1/proxy/1/x", "X-Sandbox-Token: " + ALPHA).replace(
        b"localhost", host.format(alpha.port).encode())
    t = talk(two.gw.http, data, 1)
    assert t.statuses == [200]
    [m] = alpha.messages
    assert m.target == b"/v1/proxy/1/x"  # the path is all the inner server's


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_bad_host_form(two, alpha, host):
    data = request("/evil", "X-Sandbox-Token: " + ALPHA).replace(
        b"localhost", host.format(alpha.port, alpha.port).encode())
    [r] = talk(two.gw.http, data, 1).responses
    assert r.status >= 400  # 5xx: another one's port, where nobody listens
    assert not alpha.conns


def test_host_form_by_absolute_target(two, alpha):
    """The authority and Host agree, so either may decide; when they do not,
    it is refused."""
    host = f"alpha--{alpha.port}.sbx.example".encode()
    data = (b"GET http://%s/x HTTP/1.1\r\nHost: %s\r\nX-Sandbox-Token: %s"
            b"\r\n\r\n")
    t = talk(two.gw.http, data % (host, host, ALPHA.encode()), 1)
    assert t.statuses == [200] and alpha.messages[0].target == b"/x"
    for pair in ((host, b"localhost"), (b"localhost", host)):
        t = talk(two.gw.http, data % (*pair, ALPHA.encode()))
        assert t.statuses == [400]
    assert len(alpha.messages) == 1


# --- what the gateway says about the client -----------------------------------

SPOOFED = {
    "X-Forwarded-For": "6.6.6.6", "x-forwarded-for": "6.6.6.6, 127.0.0.1",
    "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "gopher",
    "X-Forwarded-Port": "666", "X-Forwarded-Prefix": "/evil",
    "Forwarded": 'for=6.6.6.6;host="evil.example";proto=gopher',
    "X-Real-IP": "6.6.6.6", "X_Forwarded_For": "6.6.6.6",
    "X-Forwarded_For": "6.6.6.6", "x_forwarded-proto": "gopher",
    "X_Forwarded_Host": "evil.example", "X_Real_IP": "6.6.6.6",
    "X_Forwarded_Prefix": "/evil", "Content_Length": "666",
    "Transfer_Encoding": "gopher"}


@pytest.mark.parametrize("name", SPOOFED)
@pytest.mark.parametrize("times", [1, 2])
def test_spoofed_forwarding(shared, back, name, times):
    field = f"{name}: {SPOOFED[name]}"
    t = talk(shared.https, request(f"/v1/proxy/{back.port}/",
                                   "X-Sandbox-Token: " + shared.token,
                                   *[field] * times), 1)
    assert t.statuses in ([200], [400])
    for m in back.messages:
        for word in (b"6.6.6.6", b"evil", b"gopher", b"666"):
            assert word not in m.raw.replace(b"1666", b"")
        assert m.get(b"x-forwarded-for") == b"127.0.0.1"
        assert m.get(b"x-forwarded-proto") == b"https"
        assert m.get(b"x-forwarded-host") == b"localhost"
        assert b"for=" in m.get(b"forwarded")


def test_forwarding_fields_say_what_is(shared, back):
    t = talk(shared.http, request(f"/v1/proxy/{back.port}/x?y",
                                  "X-Sandbox-Token: " + shared.token), 1)
    assert t.statuses == [200]
    [m] = back.messages
    assert m.get(b"x-forwarded-proto") == b"http"
    assert m.get(b"x-forwarded-prefix") == b"/v1/proxy/%d" % back.port
    assert m.get(b"host") == b"localhost"
    assert re.fullmatch(rb"[!-~]{8,128}", m.get(b"x-request-id"))


@pytest.mark.parametrize("value", ["a\tb", "x" * 5000, '"><script>', "a,b",
                                   "\xe9\xe9\xe9\xe9"])
def test_odd_request_ids_do_not_travel(shared, back, value):
    t = talk(shared.http, request(f"/v1/proxy/{back.port}/",
                                  "X-Sandbox-Token: " + shared.token,
                                  "X-Request-Id: " + value), 1)
    assert t.statuses == [200]
    [m] = back.messages
    assert value.encode("latin-1") not in m.raw


def test_health_says_nothing(two):
    for fields in ([], ["X-Sandbox-Token: " + ALPHA]):
        [r] = talk(two.gw.http, request("/health", *fields), 1).responses
        assert r.status == 200
        assert len(r.body) < 200 and b"alpha" not in r.body
        json.loads(r.body)


@pytest.mark.parametrize("target", ["/metrics", "/-/metrics", "/-/health",
                                    "/-/ready", "/api/v1/jobs"])
def test_admin_is_not_here(two, target):
    for fields in ([], ["X-Sandbox-Token: " + ALPHA]):
        [r] = talk(two.gw.http, request(target, *fields), 1).responses
        assert r.status >= 400


def test_simple_get_still_works(shared, back):
    """What all of the above is a variation of."""
    back.reply = OK
    r = get(shared.https, f"/v1/proxy/{back.port}/", token=shared.token)
    assert r.status == 200 and r.body == b"ok"
