# SPDX-License-Identifier: Apache-2.0
"""The CoreWeave service over its two transports on HTTP/1.1: the Connect
protocol and REST."""

import base64
import concurrent.futures
import json
import signal

import pytest

from support.connect import Rpc, RpcError
from support.http import fetch
from support.jobs import Control
from support.wait import until

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

    def reaches(self, sandbox, *states):
        def look():
            got = self.rpc("GetSandbox", {"sandboxId": sandbox})
            return got if got["status"]["state"] in states else None
        return until(look, f"{sandbox} in {states}", 30)

    def ends(self, sandbox):
        return self.reaches(sandbox, "STATE_COMPLETED", "STATE_FAILED",
                            "STATE_TERMINATED")

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


def box(command=None, *args, tags=(), container=None, **spec):
    """The body of CreateSandbox."""
    one = {"name": "main", "image": "", **(container or {})}
    if command:
        one.update(command=command, args=list(args))
    return {"sandbox": {"spec": {"containers": [one], "tags": list(tags),
                                 **spec}}}


def test_get_over_both_transports(ann):
    new = ann.rpc("CreateSandbox", box(
        "/bin/sh", "-c", "echo hi; exit $A",
        container={"environmentVariables": {"A": "7"}}))
    assert new["status"]["state"] in ("STATE_PENDING", "STATE_CREATING",
                                      "STATE_RUNNING")
    assert "exitCode" not in new["status"]
    got = ann.ends(new["sandboxId"])
    assert got["status"]["state"] == "STATE_COMPLETED"
    assert got["status"]["exitCode"] == 7
    one = got["status"]["containerStatuses"][0]
    assert one == {"name": "main", "state": "STATE_COMPLETED", "exitCode": 7,
                   "restartCount": 0}
    times = [got["status"][n] for n in ("createTime", "startTime", "endTime")]
    assert times == sorted(times) and times[0].endswith("Z")
    assert got["spec"] == new["spec"]
    one = got["spec"]["containers"][0]
    assert one["command"] == "/bin/sh"
    assert one["environmentVariables"] == {"A": "7"}
    ident = new["sandboxId"]
    assert ann.rpc("GetSandbox", {"sandbox_id": ident}) == got
    assert ann.rpc("GetSandbox", {"sandbox_id": ident},
                   prefix="/coreweave") == got
    assert ann.rest("GET", "sandboxes/" + ident) == got


def test_an_exit_code_of_zero_is_there(ann):
    new = ann.rest("POST", "sandboxes", box("/bin/true")["sandbox"])
    got = ann.ends(new["sandboxId"])
    assert got["status"]["exitCode"] == 0


def test_what_cannot_start_has_failed(ann):
    new = ann.rpc("CreateSandbox", box("/no/such/program"))
    got = ann.ends(new["sandboxId"])
    assert got["status"]["state"] == "STATE_FAILED", got
    assert "no/such/program" in got["status"]["stateReason"], got


def test_the_default_command_ends_on_term(ann):
    new = ann.rpc("CreateSandbox", box(maxLifetimeSeconds=600))
    ident = new["sandboxId"]
    assert new["status"]["effectiveMaxLifetimeSeconds"] == 600
    got = ann.reaches(ident, "STATE_RUNNING")
    assert got["status"]["startTime"]
    gone = ann.rpc("DeleteSandbox", {"sandboxId": ident,
                                     "gracePeriodSeconds": 60})
    assert gone["sandbox"]["status"]["state"] == "STATE_TERMINATING"
    assert gone["fileSystemSnapshotIds"] == []
    got = ann.ends(ident)
    assert got["status"]["state"] == "STATE_TERMINATED"
    assert got["status"]["exitCode"] == 0
    # Again, and by REST: the record stays.
    gone = ann.rest("DELETE", "sandboxes/" + ident)
    assert gone["sandbox"] == got


def test_grace_zero_kills(ann):
    new = ann.rpc("CreateSandbox", box(
        "/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"))
    ident = new["sandboxId"]
    ann.reaches(ident, "STATE_RUNNING")
    ann.rpc("DeleteSandbox", {"sandboxId": ident})
    got = ann.ends(ident)
    assert got["status"]["state"] == "STATE_TERMINATED"
    assert got["status"]["exitCode"] == 137


def test_a_lifetime_ends(ann):
    new = ann.rpc("CreateSandbox", box(maxLifetimeSeconds=1))
    got = ann.ends(new["sandboxId"])
    assert got["status"]["state"] == "STATE_TERMINATED"


def test_many_deletes_at_once_and_while_it_starts(ann):
    ident = ann.rpc("CreateSandbox", box())["sandboxId"]

    def delete(_):
        return ann.rpc("DeleteSandbox", {"sandboxId": ident})

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        states = {r["sandbox"]["status"]["state"]
                  for r in pool.map(delete, range(50))}
    assert states <= {"STATE_TERMINATING", "STATE_TERMINATED"}
    assert ann.ends(ident)["status"]["state"] == "STATE_TERMINATED"
    # A start that ends later does not bring it back.
    assert ann.rpc("GetSandbox", {"sandboxId": ident})["status"][
        "state"] == "STATE_TERMINATED"


def test_one_request_id_makes_one(ann):
    body = dict(box("/bin/true"), requestId="once")

    def create(_):
        return ann.rpc("CreateSandbox", body)["sandboxId"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1
    one = ann.rest("POST", "sandboxes?requestId=once",
                   box("/bin/false")["sandbox"])
    assert one["sandboxId"] == create(0)


def test_missing_ones(ann):
    ident = {"sandboxId": "0" * 24}
    ann.fails("DeleteSandbox", ident, 404, "not_found",
              "CWSANDBOX_SANDBOX_NOT_FOUND")
    assert ann.rpc("DeleteSandbox", {**ident, "allowMissing": True}) == {}
    assert ann.rest("DELETE",
                    "sandboxes/" + "0" * 24 + "?allow_missing=true") == {}


def test_list_and_purge(ann):
    made = [ann.rpc("CreateSandbox", box(tags=["batch", f"n{i}"]))
            ["sandboxId"] for i in range(5)]
    done = ann.rpc("CreateSandbox",
                   box("/bin/true", tags=["batch"]))["sandboxId"]
    ann.ends(done)

    def ids(**kw):
        got, token = [], ""
        while True:
            page = ann.rpc("ListSandboxes", {**kw, "pageToken": token})
            got += [s["sandboxId"] for s in page["sandboxes"]]
            assert page["nextPageToken"] != token or not token
            token = page["nextPageToken"]
            if not token:
                return got

    assert ids(tags=["batch"]) == made[::-1]
    assert ids(tags=["batch", "n3"]) == [made[3]]
    assert ids(tags=["batch", "n9"]) == []
    assert ids(tags=["batch"], showTerminated=True) == [done] + made[::-1]
    assert ids(tags=["batch"], state="STATE_COMPLETED") == [done]
    assert ids(tags=["batch"], pageSize=2) == made[::-1]
    # What is made meanwhile is on no later page, and moves none.
    page = ann.rpc("ListSandboxes", {"tags": ["batch"], "pageSize": 2})
    ann.ends(ann.rpc("CreateSandbox",
                     box("/bin/true", tags=["batch"]))["sandboxId"])
    rest = ann.rest("GET", "sandboxes?tags=batch&pageSize=2&pageToken="
                    + page["nextPageToken"])
    assert [s["sandboxId"] for s in rest["sandboxes"]] == [made[2], made[1]]

    ann.fails("PurgeSandboxes", {}, 400, "invalid_argument")
    got = ann.rpc("PurgeSandboxes", {"tags": ["batch"], "dryRun": True})
    assert got["purgeCount"] == 5
    assert ids(tags=["batch"]) == made[::-1]
    got = ann.rest("POST", "sandboxes:purge", {"tags": ["batch"]})
    assert got == {"purgeCount": 5, "failedSandboxIds": [],
                   "retryableFailedSandboxIds": []}
    for ident in made:
        assert ann.ends(ident)["status"]["state"] == "STATE_TERMINATED"


def test_what_is_asked_for_is_there(gw, ann):
    new = ann.rpc("CreateSandbox", box(
        "/bin/sh", "-c", 'read -r x < /data/in; echo "$x $PWD"; '
        'cat /sys/fs/cgroup/memory.max 2>/dev/null; exec sleep 600',
        container={"workingDir": "/data",
                   "files": [{"path": "/data/in",
                              "content": base64.b64encode(b"word\n")
                              .decode().rstrip("=")}],
                   "resourceRequirements": {
                       "requests": {"cpu": "250m"},
                       "limits": {"cpu": "0.5", "memory": "256Mi"}}},
        services=[{"port": 8080, "name": "web"}],
        annotations={"team": "a", "note": ""}))
    status = new["status"]
    assert status["effectiveResources"] == {"cpu": "500m", "memory": "256Mi"}
    web = status["services"][0]
    assert web["port"] == 8080 and web["name"] == "web"
    assert web["url"] == web["endpoint"]["url"]
    assert web["url"].endswith(f"/{new['sandboxId']}--8080.sbx")
    assert web["endpoint"]["auth"] == "ENDPOINT_AUTH_TOKEN"
    assert new["spec"]["annotations"] == {"team": "a", "note": ""}
    assert new["spec"]["containers"][0]["files"] == [{"path": "/data/in"}]
    ann.reaches(new["sandboxId"], "STATE_RUNNING")
    ann.rpc("DeleteSandbox", {"sandboxId": new["sandboxId"]})
    ann.ends(new["sandboxId"])
    lines = gw.users["ann"].lines(new["sandboxId"])
    assert lines[0] == "word /data", lines


@pytest.mark.parametrize("body, status, field", [
    ({}, 400, "sandbox.spec.containers"),
    ({"sandbox": {"spec": {"containers": [{}, {}]}}}, 400,
     "sandbox.spec.containers"),
    (box(volumes=[{"name": "v", "volumeId": "x"}]), 501,
     "sandbox.spec.volumes[0]"),
    (box(volumes=[{"name": "v", "scratch": {}}]), 400,
     "sandbox.spec.volumes[0]"),
    (box(volumes=[{"name": "v", "scratch": {"medium": 2}}]), 501,
     "sandbox.spec.volumes[0].scratch.medium"),
    (box(container={"volumeMounts": [{"volume": "v"}]}), 400,
     "sandbox.spec.containers[0].volume_mounts[0].volume"),
    (box(container={"volumeMounts": [
        {"volume": "v", "mountPath": "/w", "readOnly": True}]},
        volumes=[{"name": "v", "scratch": {}}]), 501,
     "sandbox.spec.containers[0].volume_mounts[0].read_only"),
    (box(network={"egress": [{"dnsName": "example.org"}]}), 501,
     "sandbox.spec.network.egress"),
    (box(network={"denyIngress": True}, services=[{"port": 80}]), 400,
     "sandbox.spec.network.deny_ingress"),
    (box(runnerIds=["r"]), 501, "sandbox.spec.runner_ids"),
    (box(primaryContainer="other"), 400, "sandbox.spec.primary_container"),
    (box(maxLifetimeSeconds=-1), 400, "sandbox.spec.max_lifetime_seconds"),
    (box(services=[{"port": 53, "protocol": "SERVICE_PROTOCOL_UDP"}]), 501,
     "sandbox.spec.services[0].protocol"),
    (box(services=[{"port": 0}]), 400, "sandbox.spec.services[0].port"),
    (box(container={"args": ["x"]}), 400,
     "sandbox.spec.containers[0].command"),
    (box(container={"secretStores": [{"storeName": "s"}]}), 501,
     "sandbox.spec.containers[0].secret_stores"),
    (box(container={"resources": {"gpu": {"count": "1"}}}), 501,
     "sandbox.spec.containers[0].resources.gpu"),
    (box(container={"resources": {"memory": "lots"}}), 400,
     "sandbox.spec.containers[0].resources.memory"),
    (box(container={"resourceRequirements": {
        "requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}), 400,
     "sandbox.spec.containers[0].resource_requirements.requests.cpu"),
    (box(container={"environmentVariables": {"SBX_TOKEN": "x"}}), 400,
     "sandbox.spec.containers[0].environment_variables[SBX_TOKEN]"),
    (box(container={"files": [{"path": "rel"}]}), 400,
     "sandbox.spec.containers[0].files[0].path"),
    (box(container={"securityContext": {"privileged": True}}), 501,
     "sandbox.spec.containers[0].security_context.privileged"),
    (box(tags=[""]), 400, "sandbox.spec.tags[0]"),
])
def test_what_cannot_be_is_refused(ann, body, status, field):
    e = ann.rpc("CreateSandbox", body, status)
    assert e["code"] == {400: "invalid_argument", 501: "unimplemented"}[status]
    bad = [d for d in e["details"] if d["type"] == "google.rpc.BadRequest"]
    assert bad[0]["debug"]["fieldViolations"][0]["field"] == field, e


def test_without_a_network(gw, ann):
    new = ann.rpc("CreateSandbox", box(
        "/bin/sh", "-c", "cat /proc/net/dev",
        network={"denyEgress": True, "denyIngress": True}))
    assert ann.ends(new["sandboxId"])["status"]["exitCode"] == 0
    lines = gw.users["ann"].lines(new["sandboxId"])
    assert [x.split(":")[0].strip() for x in lines[2:]] == ["lo"], lines


def workspace(command, snapshot="", name="work", place="/work"):
    return box("/bin/sh", "-c", command,
               container={"volumeMounts": [{"volume": name,
                                            "mountPath": place}]},
               volumes=[{"name": name, "scratch": {
                   "size": "1Gi", "restoreFromSnapshotId": snapshot}}])


def test_a_volume_and_its_snapshots(gw, ann):
    keep = "trap 'exit 0' TERM; echo there; while :; do sleep 1; done"
    ident = ann.rpc("CreateSandbox", workspace(
        "cd /work; echo one > a; mkdir d; ln a d/b; " + keep))["sandboxId"]
    until(lambda: gw.users["ann"].lines(ident, "?follow=0"), "its file", 30)
    ann.reaches(ident, "STATE_RUNNING")
    live = ann.rpc("CreateFileSystemSnapshot",
                   {"sandboxId": ident, "requestId": "live"})
    assert live["sourceVolumeName"] == "work"
    assert live["trigger"] == "SNAPSHOT_TRIGGER_MANUAL"
    assert live["requestId"] == "live"
    snap = live["fileSystemSnapshotId"]

    def ready(snapshot):
        got = ann.rest("GET", "fileSystemSnapshots/" + snapshot)
        assert got["state"] != "SNAPSHOT_STATE_FAILED", got
        return got["state"] == "SNAPSHOT_STATE_READY" and got

    got = until(lambda: ready(snap), "the snapshot", 30)
    assert int(got["sizeBytes"]) > 0 and got["sourceSandboxId"] == ident
    gone = ann.rpc("DeleteSandbox", {"sandboxId": ident,
                                     "snapshotVolumes": ["work"]})
    last, = gone["fileSystemSnapshotIds"]
    until(lambda: ready(last), "the last one", 30)
    listed = ann.rest("GET", "fileSystemSnapshots?sourceSandboxId=" + ident)
    assert [s["fileSystemSnapshotId"]
            for s in listed["fileSystemSnapshots"]] == [last, snap]
    for one, *where in ((snap,), (last, "other", "/data")):
        place = where[1] if where else "/work"
        new = ann.rpc("CreateSandbox", workspace(
            f"cd {place} && [ a -ef d/b ] && cat a", one, *where))
        assert ann.ends(new["sandboxId"])["status"]["exitCode"] == 0
        assert gw.users["ann"].lines(new["sandboxId"]) == ["one"]
        ann.rpc("DeleteFileSystemSnapshot", {"fileSystemSnapshotId": one})
    missing = {"fileSystemSnapshotId": "0" * 24}
    for name in ("GetFileSystemSnapshot", "DeleteFileSystemSnapshot"):
        ann.fails(name, missing, 404, "not_found", "CWSANDBOX_FSS_NOT_FOUND")
    assert ann.rpc("DeleteFileSystemSnapshot",
                   dict(missing, allowMissing=True)) == {}
    ann.fails("CreateSandbox", workspace("exit", "0" * 24), 404, "not_found",
              "CWSANDBOX_FSS_NOT_FOUND")
    ann.fails("CreateFileSystemSnapshot", {"sandboxId": ident}, 400,
              "failed_precondition", "CWSANDBOX_FSS_CREATE_FAILED")
    ann.fails("DeleteSandbox", {"sandboxId": ident, "allowMissing": True,
                                "snapshotVolumes": ["work"]}, 400,
              "invalid_argument", "CWSANDBOX_INVALID_REQUEST")


def test_templates_are_not_there(ann):
    ann.fails("CreateSandboxFromTemplate", {"templateId": "t"}, 501,
              "unimplemented")
    assert ann.rest("POST", "sandboxes:createFromTemplate", {}, 501)["code"]


def test_what_others_made_is_not_there(gw, ann):
    job = gw.users["ann"].create(["/bin/true"])
    mine = ann.rpc("CreateSandbox", box("/bin/true"))["sandboxId"]
    ben = Cw(gw.users["ben"])
    for who, sandbox in ((ben, mine), (ann, job["id"]), (ann, "0" * 24),
                         (ann, "x")):
        who.fails("GetSandbox", {"sandboxId": sandbox}, 404, "not_found",
                  "CWSANDBOX_SANDBOX_NOT_FOUND")
        who.fails("DeleteSandbox", {"sandboxId": sandbox}, 404, "not_found")
        assert who.rest("GET", "sandboxes/" + sandbox,
                        status=404)["code"] == "not_found"
    assert "face" not in gw.users["ann"].get(mine)


def test_who_may_only_read_may_get(gw):
    eve = Cw(gw.users["eve"])
    eve.fails("GetSandbox", {"sandboxId": "0" * 24}, 404, "not_found")
    assert eve.rpc("ListSandboxes") == {"sandboxes": [], "nextPageToken": ""}
    for name in ("CreateSandbox", "DeleteSandbox", "PurgeSandboxes"):
        eve.fails(name, {}, 403, "permission_denied")


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


def test_a_stream_is_refused_in_its_own_form(ann):
    for more in ({"Connect-Protocol-Version": "2"},
                 {"Connect-Timeout-Ms": "soon"},
                 {"Connect-Content-Encoding": "gzip"}):
        r = ann.raw("POST", SERVICE + "StreamLogs", b"\0\0\0\0\2{}",
                    {"Content-Type": "application/connect+json", **more})
        assert r.status == 200
        assert r["Content-Type"] == "application/connect+json"
        assert r.body[0] == 2
        assert int.from_bytes(r.body[1:5], "big") == len(r.body) - 5
        code = json.loads(r.body[5:])["error"]["code"]
        assert code == ("unimplemented" if "gzip" in more.values()
                        else "invalid_argument")


def test_streams_end_in_order_with_the_gateway(tmp):
    gw = Control(tmp, jobs="[coreweave]\nenabled = yes\n")
    user = gw.user("ann")
    with gw:
        ann = Cw(user)
        ident = ann.rpc("CreateSandbox", box())["sandboxId"]
        ann.reaches(ident, "STATE_RUNNING")
        with Rpc(gw.http, user.token).stream("StreamLogs") as logs:
            logs.only({"sandboxId": ident, "follow": True}).head()
            gw.die(signal.SIGTERM)
            with pytest.raises(RpcError) as e:
                list(logs)
        assert e.value.code == "unavailable", e.value
        gw.start()  # sandboxes go on
        assert ann.rpc("GetSandbox", {"sandboxId": ident})["status"][
            "state"] == "STATE_RUNNING"


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
