# SPDX-License-Identifier: Apache-2.0
"""The life of CoreWeave sandboxes over the wire: states as a client that polls
sees them, ends and their codes, stops of every kind, lists, and who may."""

import concurrent.futures
import json
import threading
import uuid

import pytest

from support.connect import Rpc, raised
from support.coreweave import Box, Face, Service
from support.jobs import processes
from support.wait import until

pytestmark = pytest.mark.root

MISSING = "CWSANDBOX_SANDBOX_NOT_FOUND"
NOBODY = "0123456789abcdef01234567"
DEAF = "trap '' TERM; echo up; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def gw(module_tmp):
    gw = Face(module_tmp, more="[image broken:1]\nrootfs = /no/such/rootfs\n")
    with gw:
        yield gw


@pytest.fixture(scope="module")
def ann(gw):
    return gw.ann


def out(box):
    return b"".join(e["data"] for e in box.logs()).decode()


def steps(gw, box):
    """The states that the control plane has stored, in order."""
    root = gw.users["root"]
    return [s["state"] for s in root.json(
        "GET", root.path(box.id, "history", ns="ann"))]


# --- beginnings and ends ---------------------------------------------------
def test_a_life(ann):
    made = ann.create(tags=["life", "x"], annotations={"team": "blue"},
                      container={"environmentVariables": {"GREETING": "hi"}})
    assert made["status"]["state"] in ("STATE_PENDING", "STATE_CREATING",
                                       "STATE_RUNNING")
    box = Box(ann, made["sandboxId"])
    box.wait("STATE_RUNNING")
    got = box.get()
    assert got["spec"]["tags"] == ["life", "x"]
    assert got["spec"]["annotations"] == {"team": "blue"}
    main = got["spec"]["containers"][0]
    assert main["name"] == "main" and main["command"] == "/bin/sh"
    assert main["environmentVariables"] == {"GREETING": "hi"}
    assert "exitCode" not in got["status"]
    assert got["status"]["createTime"] <= got["status"]["startTime"]
    answer = box.delete(3600)
    assert answer["sandbox"]["sandboxId"] == box.id
    assert not answer.get("fileSystemSnapshotIds")
    done = box.wait()
    assert done["state"] == "STATE_TERMINATED"
    assert done["startTime"] <= done["endTime"]
    order = ["STATE_PENDING", "STATE_CREATING", "STATE_RUNNING",
             "STATE_TERMINATING", "STATE_TERMINATED"]
    assert box.seen == [s for s in order if s in box.seen]
    assert box.status() == done


def test_without_a_command(ann):
    """Has one that waits, and ends at once on TERM."""
    box = ann.box(command="", args=())
    assert box.stop(3600)["state"] == "STATE_TERMINATED"


@pytest.mark.parametrize("script, code", [
    ("exit 0", 0), ("exit 1", 1), ("exit 137", 137), ("exit 255", 255),
    ("kill -KILL $$", 137), ("sleep 0.2; exit 3", 3)])
def test_exit_code_comes_with_the_state(ann, script, code):
    box = ann.new(args=["-c", script])
    done = box.wait()
    assert done["state"] == "STATE_COMPLETED"
    assert done["exitCode"] == code  # 0 is a value, not an absence
    assert box.status() == done
    assert done["endTime"]


def test_children_end_with_the_main_command(ann):
    mark = f"66{uuid.uuid4().int % 10**7}"
    box = ann.new(args=["-c", f"setsid sleep {mark} & echo $!; exit 4"])
    assert box.wait()["exitCode"] == 4
    until(lambda: not processes(f"sleep {mark}"), "the rest to be gone")


@pytest.mark.parametrize("what, said", [
    ({"command": "/no/such/program"}, "/no/such/program"),
    ({"command": "/etc/passwd"}, "/etc/passwd"),
    ({"workingDir": "/no/such/place"}, "/no/such/place"),
    ({"image": "broken:1"}, "")])
def test_cannot_start(ann, what, said):
    box = ann.new(container=what)
    done = box.wait()
    assert done["state"] == "STATE_FAILED"
    assert done["stateReason"] and said in done["stateReason"]
    assert "exitCode" not in done and "STATE_RUNNING" not in box.seen


def test_lifetime(ann):
    box = ann.box(args=["-c", DEAF], maxLifetimeSeconds=1)
    assert box.status()["effectiveMaxLifetimeSeconds"] == 1
    done = box.wait()
    assert done["state"] == "STATE_TERMINATED" and done["stateReason"]


def test_lifetime_is_capped(ann):
    box = ann.new(maxLifetimeSeconds=2**31 - 1)
    assert box.status()["effectiveMaxLifetimeSeconds"] == 366 * 86400
    box.stop()


def test_ended_by_somebody_else(gw, ann):
    """Not by this service: the Jobs API shows the same thing."""
    box = ann.box()
    user = gw.users["ann"]
    assert user.get(box.id)["status"]["state"] == "RUNNING"
    user.cancel(box.id, "?grace=0s")
    assert box.wait()["state"] == "STATE_TERMINATED"


def test_what_it_is_given(ann):
    box = ann.new(
        command="/bin/cat", args=["data.txt", "/root/a/b.bin"],
        container={"workingDir": "/tmp", "files": [
            {"path": "/tmp/data.txt", "content": "aGVsbG8K"},
            {"path": "/root/a/b.bin", "content": "AAECgP8="}]})
    assert box.wait()["exitCode"] == 0
    text = b"".join(e["data"] for e in box.logs())
    assert text.startswith(b"hello\n\x00\x01\x02"), text


def test_resources(ann):
    """What it was asked to be and what bounds it are both shown."""
    asked = {"cpu": "250m", "memory": "128Mi"}
    bounds = {"cpu": "500m", "memory": "256Mi"}
    box = ann.box(container={"resourceRequirements": {
        "requests": asked, "limits": bounds}})
    got = box.status()
    assert got["effectiveResources"] == bounds
    assert got["effectiveResourceRequirements"] == {"requests": asked,
                                                    "limits": bounds}
    assert got["runnerId"] == "local"
    box.stop()


def test_command_is_one_word(ann):
    """`command` is a program, never split; arguments are as they came."""
    box = ann.new(command="/bin/printf", args=["<%s>", "a b", "$X", "", "'"])
    assert box.wait()["exitCode"] == 0
    assert out(box) == "<a b><$X><><'>"


# --- stops -----------------------------------------------------------------
def test_term_is_heard(ann):
    box = ann.box(args=["-c", "trap 'echo bye; exit 7' TERM; echo up; "
                        "sleep infinity & wait"])
    until(lambda: "up" in out(box), "the trap to be set")
    done = box.stop(3600)
    assert done["state"] == "STATE_TERMINATED"
    assert done.get("exitCode", 7) == 7
    assert out(box) == "up\nbye\n"


def test_term_is_not_heard(ann):
    """Killed after the grace, with all its children."""
    box = ann.box(args=["-c", DEAF])
    until(lambda: "up" in out(box), "the trap to be set")
    box.delete(1)
    assert box.state == "STATE_TERMINATING"
    assert box.wait()["state"] == "STATE_TERMINATED"


def test_no_grace(ann):
    box = ann.box(args=["-c", "trap 'echo heard' TERM; echo up; "
                        "while :; do sleep 0.1; done"])
    until(lambda: "up" in out(box), "the trap to be set")
    assert box.stop(0)["state"] == "STATE_TERMINATED"
    assert out(box) == "up\n"


def test_a_second_stop(ann):
    """Returns at once while the first one waits, and may be in more hurry."""
    box = ann.box(args=["-c", DEAF])
    until(lambda: "up" in out(box), "the trap to be set")
    for _ in range(2):
        got = box.delete(3600)
        assert got["sandbox"]["status"]["state"] == "STATE_TERMINATING"
    assert box.stop(0)["state"] == "STATE_TERMINATED"
    got = box.delete(5)  # and afterwards
    assert got["sandbox"]["status"]["state"] == "STATE_TERMINATED"


def test_fifty_stops(gw, ann):
    box = ann.box()
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        got = list(pool.map(lambda _: box.delete(3600), range(50)))
    assert {g["sandbox"]["sandboxId"] for g in got} == {box.id}
    assert {g["sandbox"]["status"]["state"] for g in got} \
        <= {"STATE_TERMINATING", "STATE_TERMINATED"}
    assert box.wait()["state"] == "STATE_TERMINATED"
    assert steps(gw, box) == ["PENDING", "CREATING", "RUNNING",
                              "TERMINATING", "TERMINATED"]


@pytest.mark.parametrize("grace", [0, 30])
def test_stop_during_start(gw, ann, grace):
    """It never comes back."""
    boxes = []
    for _ in range(6):
        boxes.append(ann.new())
        boxes[-1].delete(grace)
    for box in boxes:
        assert box.wait()["state"] == "STATE_TERMINATED"
        assert "STATE_RUNNING" not in box.seen
        got = steps(gw, box)
        assert got[-1] == "TERMINATED"
        assert "RUNNING" not in got[got.index("TERMINATING")
                                    if "TERMINATING" in got else -1:]


def test_missing(ann):
    nobody = Box(ann, NOBODY)
    for box in (nobody, Box(ann, "no-such-thing"), Box(ann, "../x")):
        raised("not_found", MISSING, box.get)
        raised("not_found", MISSING, box.delete)
        assert not box.delete(allowMissing=True).get("sandbox")
    for what in ({}, {"sandboxId": ""}, {"sandboxId": 1}):
        names_field(ann, "GetSandbox", what, "sandbox_id")


def test_the_record_stays(ann):
    box = ann.box(tags=["stays"])
    done = box.stop()
    assert box.get()["spec"]["tags"] == ["stays"]
    assert box.delete()["sandbox"]["status"] == done
    assert box.delete(allowMissing=True)["sandbox"]["sandboxId"] == box.id
    assert box.status() == done


# --- making them once ------------------------------------------------------
def test_request_id(ann, gw):
    rid = str(uuid.uuid4())
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        got = list(pool.map(lambda _: ann.create(request_id=rid,
                                                 tags=["once"]), range(20)))
    assert len({g["sandboxId"] for g in got}) == 1
    assert ann.ids(tags=["once"]) == [got[0]["sandboxId"]]
    box = Box(ann, got[0]["sandboxId"])
    box.wait("STATE_RUNNING")
    box.stop()
    # also when it has ended; and it is nobody else's
    assert ann.create(request_id=rid)["sandboxId"] == box.id
    other = gw.bob.create(request_id=rid)
    assert other["sandboxId"] != box.id
    Box(gw.bob, other["sandboxId"]).stop()


# --- lists -----------------------------------------------------------------
def test_list(ann, gw):
    run = uuid.uuid4().hex
    a = ann.box(tags=[run, "red"])
    b = ann.box(tags=[run, "red", "big"])
    c = ann.new(args=["-c", "exit 3"], tags=[run, "red"])
    d = ann.new(container={"command": "/no/such"}, tags=[run])
    e = ann.box(tags=[run, "big"])
    e.stop()
    c.wait(), d.wait()
    assert set(ann.ids(tags=[run])) == {a.id, b.id}
    assert ann.ids(tags=[run, "red", "big"]) == [b.id]
    assert ann.ids(tags=[run, "none"]) == []
    assert set(ann.ids(tags=[run], showTerminated=True)) \
        == {x.id for x in (a, b, c, d, e)}
    for state, ids in (("RUNNING", {a.id, b.id}), ("COMPLETED", {c.id}),
                       ("FAILED", {d.id}), ("TERMINATED", {e.id}),
                       ("PAUSED", set())):
        got = ann.list(tags=[run], state=f"STATE_{state}")
        assert {s["sandboxId"] for s in got} == ids, state
        assert all(s["status"]["state"] == f"STATE_{state}" for s in got)
    # a number is as good as a name
    assert ann.ids(tags=[run], state=4) == [d.id]
    one = ann.list(tags=[run, "big"])[0]
    assert one["spec"] == b.get()["spec"]
    assert gw.bob.ids(tags=[run], showTerminated=True) == []
    a.delete(), b.delete()


def test_pages_while_others_are_made(ann):
    """What was there is seen once, whatever comes in between."""
    run, stop = uuid.uuid4().hex, threading.Event()
    def one(tags):
        return ann.create(command="/bin/true", args=[], tags=tags)["sandboxId"]
    old = [one([run]) for _ in range(12)]

    def more():
        while not stop.is_set():
            one([run, "late"])
    thread = threading.Thread(target=more)
    thread.start()
    try:
        for size in (1, 5):
            got = ann.ids(tags=[run], showTerminated=True, pageSize=size)
            assert len(got) == len(set(got))
            assert [i for i in got if i in old] == old[::-1]
    finally:
        stop.set()
        thread.join()
    assert len(ann.call("ListSandboxes", {"tags": [run], "pageSize": 3,
                                          "showTerminated": True})
               ["sandboxes"]) == 3


@pytest.mark.parametrize("what, field", [
    ({"pageSize": -1}, "page_size"), ({"pageToken": "x"}, "page_token"),
    ({"pageToken": "-1"}, "page_token"), ({"state": "RUNNING"}, "state"),
    ({"state": 99}, "state"), ({"tags": "x"}, "tags"),
    ({"tags": [1]}, "tags"), ({"showTerminated": "yes"}, "show_terminated")])
def test_bad_lists(ann, what, field):
    names_field(ann, "ListSandboxes", what, field)


def names_field(cw, method, what, field):
    e = raised("invalid_argument", None, cw.call, method, what)
    camel = "".join(w.capitalize() if i else w
                    for i, w in enumerate(field.split("_")))
    text = e.message + "".join(f for f, _ in e.violations)
    assert field in text or camel in text, e
    assert e.violations, e


# --- purge -----------------------------------------------------------------
def test_purge(ann, gw):
    run = uuid.uuid4().hex
    boxes = [ann.box(tags=[run, str(i % 2)]) for i in range(4)]
    theirs = gw.bob.box(tags=[run])
    def purge(**what):
        got = ann.call("PurgeSandboxes", what)
        assert not got.get("failedSandboxIds")
        return int(got.get("purgeCount", 0))
    assert purge(tags=[run], dryRun=True) == 4
    assert set(ann.ids(tags=[run])) == {b.id for b in boxes}
    assert purge(tags=[run, "0"]) == 2
    for b in boxes[::2]:
        assert b.wait()["state"] == "STATE_TERMINATED"
    assert set(ann.ids(tags=[run])) == {b.id for b in boxes[1::2]}
    # nothing named is not everything
    names_field(ann, "PurgeSandboxes", {}, "tags")
    assert boxes[1].state == "STATE_RUNNING"
    assert purge(tags=[run]) == 2
    for b in boxes:
        assert b.wait()["state"] == "STATE_TERMINATED"
    assert theirs.state == "STATE_RUNNING"
    theirs.stop()


# --- what is wrong is named ------------------------------------------------
def spec(**main):
    return {"sandbox": {"spec": {"containers": [dict(name="main", **main)]}}}


@pytest.mark.parametrize("body, field", [
    ({}, "sandbox"), ({"sandbox": {}}, "spec"),
    ({"sandbox": {"spec": {"containers": []}}}, "containers"),
    ({"sandbox": {"spec": {"containers": [{}, {}]}}}, "containers"),
    (spec(command=["ls"]), "command"), (spec(args="-c"), "args"),
    (spec(environmentVariables={"A=B": "x"}), "environment_variables"),
    (spec(environmentVariables={"A": 1}), "environment_variables"),
    (spec(files=[{"path": "relative", "content": ""}]), "files"),
    (spec(files=[{"path": "/x", "content": "*"}]), "files"),
    ({"sandbox": {"spec": {"containers": [{"name": "main"}],
                           "maxLifetimeSeconds": -1}}},
     "max_lifetime_seconds"),
    ({"sandbox": {"spec": {"containers": [{"name": "main"}],
                           "primaryContainer": "x"}}}, "primary_container")])
def test_bad_requests(ann, body, field):
    names_field(ann, "CreateSandbox", body, field)


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b"\xff", b"{}x",
                                  b'{"sandboxId":"\xff"}', b"[" * 5000],
                         ids=range(7))
def test_not_json(ann, body):
    raised("invalid_argument", None, ann.call, "GetSandbox", body)


def test_negative_grace(ann):
    names_field(ann, "DeleteSandbox",
                {"sandboxId": NOBODY, "gracePeriodSeconds": -1},
                "grace_period_seconds")


def test_what_is_not_there(ann):
    raised("unimplemented", None, ann.call, "CreateSandboxFromTemplate", {})
    raised("unimplemented", None, ann.call, "NoSuchMethod", {})


def test_names_of_both_kinds(ann):
    """JSON of protobuf: original names are read, unknown ones passed by."""
    box = Box(ann, ann.call("CreateSandbox", {
        "request_id": str(uuid.uuid4()), "whatever": {"x": [1]},
        "sandbox": {"spec": {"primary_container": "main", "max_lifetime_seconds": 60,
                             "containers": [{"name": "main"}]}}})["sandboxId"])
    assert ann.call("GetSandbox", {"sandbox_id": box.id})["sandboxId"] == box.id
    assert box.status()["effectiveMaxLifetimeSeconds"] == 60
    ann.call("DeleteSandbox", {"sandbox_id": box.id, "grace_period_seconds": 0})
    box.wait()


# --- REST ------------------------------------------------------------------
def test_rest(ann):
    status, made = ann.rest("POST", "/sandboxes", {"spec": {
        "containers": [{"name": "main"}], "tags": ["rest"]}},
        {"request_id": "rest-1"})
    assert status == 200, made
    again = ann.rest("POST", "/sandboxes", {"spec": {
        "containers": [{"name": "main"}]}}, {"requestId": "rest-1"})[1]
    assert again["sandboxId"] == made["sandboxId"]
    box = Box(ann, made["sandboxId"])
    box.wait("STATE_RUNNING")
    path = f"/sandboxes/{box.id}"
    assert ann.rest("GET", path)[1] == box.get()
    status, got = ann.rest("GET", "/sandboxes", query={
        "tags": ["rest"], "state": "STATE_RUNNING", "page_size": 10})
    assert status == 200
    assert [s["sandboxId"] for s in got["sandboxes"]] == [box.id]
    assert ann.rest("GET", "/sandboxes", query={"tags": ["rest", "no"]})[1] \
        .get("sandboxes", []) == []
    status, got = ann.rest("POST", "/sandboxes:purge",
                           {"tags": ["rest"], "dryRun": True})
    assert (status, got["purgeCount"]) == (200, 1)
    status, got = ann.rest("DELETE", path, query={"grace_period_seconds": 0})
    assert status == 200 and got["sandbox"]["sandboxId"] == box.id
    assert box.wait()["state"] == "STATE_TERMINATED"
    status, got = ann.rest("GET", f"/sandboxes/{NOBODY}")
    assert status == 404 and MISSING in json.dumps(got)
    assert ann.rest("DELETE", f"/sandboxes/{NOBODY}",
                    query={"allowMissing": "true"})[0] == 200
    assert ann.rest("POST", "/sandboxes", b"{")[0] == 400
    assert ann.rest("GET", "/nothing")[0] == 404


# --- who may ---------------------------------------------------------------
def test_others(ann, gw):
    box = ann.box()
    for who in (Box(gw.bob, box.id),):
        raised("not_found", MISSING, who.get)
        raised("not_found", MISSING, who.delete)
        assert not who.delete(allowMissing=True).get("sandbox")
    assert box.state == "STATE_RUNNING"
    eve = Box(gw.eve, box.id)
    for call in (eve.delete, gw.eve.create):
        raised("permission_denied", None, call)
    for token in (None, "wrong"):
        for url in (gw.https, gw.http):
            raised("unauthenticated", None, Box(Service(url, token),
                                                box.id).get)
    root = Rpc(gw.http, gw.users["root"].token, "/coreweave")
    assert root.call("ListSandboxes", {}) is not None
    other = Service(gw.http, gw.ann.token, "/coreweave")
    assert other.ids(showTerminated=True) == ann.ids(showTerminated=True)
    assert box.stop()["state"] == "STATE_TERMINATED"


# --- the gateway's own life ------------------------------------------------
def test_sudden_death(tmp):
    """kill -9 of the gateway: they go on, and what ended meanwhile has its
    code."""
    with Face(tmp) as gw:
        rid = str(uuid.uuid4())
        box = gw.ann.box(tags=["a"], request_id=rid)
        short = gw.ann.box(args=["-c", "while [ ! -e /tmp/go ]; do sleep 0.05; "
                                 "done; exit 9"])
        dying = gw.ann.box(args=["-c", DEAF])
        dying.delete(3600)
        ended = gw.ann.new(args=["-c", "exit 0"])
        before = ended.wait()
        # ends while nobody looks
        pid = until(lambda: processes("while . ! -e /tmp/go"), "its process")
        gw.die()
        root = f"/proc/{max(pid)}/root/tmp/go"
        with open(root, "w", encoding="ascii"):
            pass
        until(lambda: not processes("while . ! -e /tmp/go"), "its end")
        gw.start()
        for b in (box, short, dying, ended):
            b.cw = gw.ann
        assert box.state == "STATE_RUNNING"
        assert dying.state == "STATE_TERMINATING"
        done = short.wait()
        assert (done["state"], done["exitCode"]) == ("STATE_COMPLETED", 9)
        assert ended.status() == before
        assert gw.ann.ids(tags=["a"]) == [box.id]
        assert gw.ann.create(request_id=rid)["sandboxId"] == box.id
        assert dying.stop(0)["state"] == "STATE_TERMINATED"
        assert box.stop(3600)["state"] == "STATE_TERMINATED"
