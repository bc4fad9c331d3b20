# SPDX-License-Identifier: Apache-2.0
"""The control plane's API through the workers: who asks, as the master is told
and as nobody outside can say."""

import json
import subprocess

import pytest

from support import paths
from support.app import App
from support.gateway import Gateway
from support.http import Client, Truncated, fetch, get
from support.wait import until
from support.ws import CLOSE, WebSocket

WHOAMI = "/api/whoami-v2"
OPERATOR = "operator-0123456789abcdef0123456789abcdef"
CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = {workers}
{more}

[listen plain]
address = http://127.0.0.1:0

[listen tls]
address = https://127.0.0.1:0

[auth]
operator_token_file = {tmp}/operator
operator_name = root

[sandbox box]
token_file = {tmp}/operator
proxy_dir = {tmp}/box
namespace = team

[admin]
listen = off
"""


def token(gw, *args):
    out = subprocess.run(
        [paths.GATEWAY, "token", "add", *args, "-c", gw.config],
        env=paths.child_env({}), capture_output=True, check=True)
    return out.stdout.decode().strip()


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture(scope="module", params=[1, 2])
def gw(module_tmp, request):
    tmp = module_tmp / str(request.param)
    tmp.mkdir()
    tmp.chmod(0o755)
    secret = tmp / "operator"
    secret.write_text(OPERATOR + "\n")
    secret.chmod(0o600)
    (tmp / "box").mkdir()
    config = CONFIG.format(tmp=tmp, workers=request.param,
                           more=f"static_agent = {tmp}/static-agent")
    gw = Gateway(tmp, config=config, token=None)
    gw.ann = token(gw, "ann", "--namespace", "ann,team")
    gw.reader = token(gw, "eve", "--role", "readonly")
    with gw:
        yield gw


def test_whoami(gw):
    for url in (gw.http, gw.https):
        r = get(url, WHOAMI, headers=bearer(gw.ann))
        assert r.status == 200
        me = json.loads(r.body)
        assert me["type"] == "user" and me["name"] == "ann"
        assert [o["name"] for o in me["orgs"]] == ["team"]
    me = json.loads(get(gw.http, WHOAMI, headers=bearer(gw.reader)).body)
    assert me["name"] == "eve" and me["orgs"] == []
    assert me["auth"]["accessToken"]["role"] == "read"


def test_operator(gw):
    for headers in (bearer(OPERATOR), {"X-Sandbox-Token": OPERATOR}):
        r = get(gw.http, WHOAMI, headers=headers)
        assert r.status == 200 and json.loads(r.body)["name"] == "root"


def test_operator_of_a_sidecar(shared):
    r = get(shared.https, WHOAMI, headers=bearer(shared.token))
    assert r.status == 200 and json.loads(r.body)["name"] == "operator"


def test_no_credential(gw):
    r = get(gw.http, "/api/agent-harnesses")
    assert r.status == 200
    assert json.loads(r.body) == {"standardEnvVars": [], "harnesses": {}}
    # What is sent there all the same does not matter.
    r = get(gw.http, "/api/agent-harnesses?x", headers=bearer("wrong"))
    assert r.status == 200
    answers = {get(gw.http, path, headers=headers).body
               for path in (WHOAMI, "/api/nothing", "/buckets/x")
               for headers in ({}, bearer("hf_wrong"),
                               {"X-Sandbox-Token": "wrong"})}
    assert len(answers) == 1 and b"unauthorized" in answers.pop()


def test_identity_cannot_be_said(gw):
    said = {"X-Sbx-User": "ann", "X-Sbx-Namespaces": "ann",
            "X-Sbx-Role": "operator", "x-sbx-role": "admin",
            "X_Sbx_User": "ann", "X-Sbx_User": "ann"}
    assert get(gw.http, WHOAMI, headers=said).status == 401
    r = get(gw.http, WHOAMI, headers=said | bearer(gw.reader))
    assert r.status == 200 and json.loads(r.body)["name"] == "eve"
    assert json.loads(r.body)["auth"]["accessToken"]["role"] == "read"


def test_nothing_there(gw):
    r = get(gw.http, "/api/nothing", headers=bearer(gw.ann))
    assert r.status == 404 and json.loads(r.body)["code"] == "not_found"
    assert "nothing" in r["X-Error-Message"]
    r = fetch(gw.http, "DELETE", WHOAMI, headers=bearer(gw.ann))
    assert r.status == 405 and r["Allow"] == "GET"
    # A reader does not get that far with anything but reading.
    r = fetch(gw.http, "DELETE", WHOAMI, headers=bearer(gw.reader))
    assert r.status == 403


def test_connection_is_kept(gw):
    with Client(gw.http) as c:
        for secret, name in ((gw.ann, "ann"), (gw.reader, "eve")) * 3:
            r = c.request("GET", WHOAMI, headers=bearer(secret)).response()
            assert json.loads(r.body)["name"] == name


def test_socket_is_closed_to_others(gw):
    path = gw.state_dir / "api.sock"
    assert path.stat().st_mode & 0o7777 == 0o600


BUCKET = "/buckets/huggingface/sbx-server/resolve/sbx-server"


def test_static_agent(gw):
    """The file that jobs fetch, for everybody, also when they read slowly."""
    path = gw.tmp / "static-agent"
    path.unlink(missing_ok=True)
    r = get(gw.http, BUCKET)
    assert r.status == 503 and "static_agent" in json.loads(r.body)["error"]
    data = bytes(range(256)) * 8192
    path.write_bytes(data)
    r = get(gw.https, BUCKET)
    assert r.status == 200 and r.body == data
    assert r["Content-Length"] == str(len(data))
    etag = r["ETag"]
    r = fetch(gw.http, "HEAD", BUCKET)
    assert r.status == 200 and r["Content-Length"] == str(len(data))
    r = get(gw.http, BUCKET, headers={"If-None-Match": etag})
    assert r.status == 304 and r.body == b""
    path.write_bytes(b"another")
    r = get(gw.http, BUCKET, headers={"If-None-Match": etag})
    assert r.status == 200 and r.body == b"another"
    assert fetch(gw.http, "PUT", BUCKET, body=b"x").status == 401
    path.unlink()
    path.mkdir()
    assert get(gw.http, BUCKET).status == 503
    path.rmdir()


def revoke(gw, name):
    subprocess.run([paths.GATEWAY, "token", "revoke", name, "-c", gw.config],
                   env=paths.child_env({}), capture_output=True, check=True)


def test_revoked_token_loses_what_it_opened(gw):
    """A stream and a WebSocket end; another user's go on."""
    eve, tmp = token(gw, "mallory", "--namespace", "team"), gw.tmp
    until(lambda: get(gw.http, WHOAMI, headers=bearer(eve)).status == 200)
    base = "/v1/sandboxes/box/proxy/8000"
    with App(tmp / "box", 8000), \
            WebSocket(gw.http, base + "/ws", headers=bearer(eve)) as theirs, \
            WebSocket(gw.http, base + "/ws", headers=bearer(gw.ann)) as ours, \
            Client(gw.http) as stream:
        assert theirs.echo("a") == b"a" and ours.echo("a") == b"a"
        stream.request("GET", base + "/sse?n=0&ms=20", headers=bearer(eve))
        stream.until(b"data:")
        revoke(gw, "mallory")
        stream.sock.settimeout(10)
        with pytest.raises((Truncated, ConnectionError)):
            stream.until(b"never comes", limit=1 << 24)
        assert theirs.frame().opcode == CLOSE
        assert ours.echo("b") == b"b"
        assert get(gw.http, WHOAMI, headers=bearer(eve)).status == 401
