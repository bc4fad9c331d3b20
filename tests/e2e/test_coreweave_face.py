# SPDX-License-Identifier: Apache-2.0
"""The CoreWeave service over its two transports on HTTP/1.1: the Connect
protocol and REST."""

import base64
import json

import pytest

from support.http import fetch
from support.jobs import Control

pytestmark = pytest.mark.root

SERVICE = "/coreweave.sandbox.v1.SandboxService/"
REST = "/coreweave/v1/"


class Cw:
    """What a user of the service can ask."""

    def __init__(self, user):
        self.user = user

    def raw(self, method, path, body=None, headers=()):
        return self.user.ask(method, path, body, headers)

    def rpc(self, name, message=None, status=200, headers=(), prefix=""):
        r = self.raw("POST", prefix + SERVICE + name,
                     json.dumps(message or {}).encode(),
                     {"Content-Type": "application/json",
                      "Connect-Protocol-Version": "1", **dict(headers)})
        assert r.status == status, (r.status, r.body)
        assert r["Content-Type"] == "application/json"
        return json.loads(r.body)

    def rest(self, method, path, body=None, status=200):
        r = self.raw(method, REST + path, body)
        assert r.status == status, (r.status, r.body)
        return json.loads(r.body)

    def fails(self, name, message, status, code, reason=None, **kw):
        e = self.rpc(name, message, status, **kw)
        assert e["code"] == code and e["message"], e
        got = {d["type"]: d for d in e.get("details", [])}
        if reason:
            info = got["google.rpc.ErrorInfo"]
            assert info["debug"]["reason"] == reason, e
            assert info["debug"]["domain"] == "cwsandbox.com"
            value = base64.b64decode(info["value"]
                                     + "=" * (-len(info["value"]) % 4))
            assert value.startswith(bytes([10, len(reason)])
                                    + reason.encode()), value
        return e


@pytest.fixture(scope="module")
def gw(module_tmp):
    g = Control(module_tmp, jobs="[coreweave]\nenabled = yes\n")
    g.user("ann")
    g.user("ben")
    g.user("eve", "--role", "readonly")
    with g:
        yield g


@pytest.fixture
def ann(gw):
    return Cw(gw.users["ann"])


def test_get_over_both_transports(gw, ann):
    job = gw.users["ann"].create(["/bin/sh", "-c", "exit 7"],
                                 environment={"A": "1"})
    gw.users["ann"].wait(job["id"])
    got = ann.rpc("GetSandbox", {"sandboxId": job["id"]})
    assert got["sandboxId"] == job["id"]
    assert got["status"]["state"] == "STATE_COMPLETED"
    assert got["status"]["exitCode"] == 7
    assert got["status"]["createTime"].endswith("Z")
    assert ann.rpc("GetSandbox", {"sandbox_id": job["id"]}) == got
    assert ann.rpc("GetSandbox", {"sandbox_id": job["id"]},
                   prefix="/coreweave") == got
    assert ann.rest("GET", "sandboxes/" + job["id"]) == got


def test_a_sandbox_of_others_is_not_there(gw, ann):
    job = gw.users["ann"].create(["/bin/true"])
    ben = Cw(gw.users["ben"])
    for who, sandbox in ((ben, job["id"]), (ann, "0" * 24), (ann, "x")):
        who.fails("GetSandbox", {"sandboxId": sandbox}, 404, "not_found",
                  "CWSANDBOX_SANDBOX_NOT_FOUND")
        assert who.rest("GET", "sandboxes/" + sandbox,
                        status=404)["code"] == "not_found"


def test_who_may_only_read_may_get(gw):
    eve = Cw(gw.users["eve"])
    eve.fails("GetSandbox", {"sandboxId": "0" * 24}, 404, "not_found")


def test_refusals_of_the_transports(gw, ann):
    body = b'{"sandboxId": "x"}'
    plain = {"Content-Type": "application/json"}
    r = fetch(gw.http, "POST", SERVICE + "GetSandbox", headers=plain,
              body=body)
    assert r.status == 401
    assert json.loads(r.body)["code"] == "unauthenticated"
    r = fetch(gw.http, "GET", REST + "sandboxes/x")
    assert r.status == 401
    assert json.loads(r.body)["code"] == "unauthenticated"

    ann.fails("NoSuchMethod", {}, 404, "unimplemented")
    r = ann.raw("POST", SERVICE + "GetSandbox", body,
                {"Content-Type": "application/proto"})
    assert r.status == 415 and r["Accept-Post"] == "application/json"
    r = ann.raw("GET", SERVICE + "GetSandbox")
    assert r.status == 405 and r["Allow"] == "POST"
    ann.fails("GetSandbox", {}, 400, "invalid_argument",
              headers={"Connect-Protocol-Version": "2"})
    ann.fails("GetSandbox", {}, 501, "unimplemented",
              headers={"Content-Encoding": "gzip"})
    ann.fails("GetSandbox", {}, 400, "invalid_argument",
              headers={"Connect-Timeout-Ms": "12345678901"})
    assert ann.rest("GET", "sandboxes/x:y", status=404)["code"] == "not_found"


def test_a_wrong_field_is_named(ann):
    e = ann.fails("GetSandbox", {"sandboxId": 7}, 400, "invalid_argument",
                  "CWSANDBOX_INVALID_REQUEST")
    assert e["message"].startswith("sandbox_id: ")
    bad = [d for d in e["details"] if d["type"] == "google.rpc.BadRequest"]
    assert bad[0]["debug"]["fieldViolations"][0]["field"] == "sandbox_id"
    ann.fails("GetSandbox", {}, 400, "invalid_argument",
              "CWSANDBOX_INVALID_REQUEST")
    r = ann.raw("POST", SERVICE + "GetSandbox", b"{",
                {"Content-Type": "application/json"})
    assert r.status == 400
    assert json.loads(r.body)["code"] == "invalid_argument"
    r = ann.raw("POST", SERVICE + "GetSandbox", b"[" * 70000,
                {"Content-Type": "application/json"})
    assert r.status == 429
    assert json.loads(r.body)["code"] == "resource_exhausted"
