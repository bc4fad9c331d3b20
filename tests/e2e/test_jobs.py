# SPDX-License-Identifier: Apache-2.0
"""The Jobs API over the wire: jobs from their making to their end, and what is
left of them; users who do not touch each other; the gateway's sudden death."""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import signal
import socket
import uuid

import pytest

from support import paths
from support.http import Client, fetch, get
from support.jobs import Control, User, processes
from support.wait import until

pytestmark = pytest.mark.root

SECRET = "hush-4711-hush"


@pytest.fixture(scope="module")
def gw(module_tmp):
    gw = Control(module_tmp, jobs="log_max = 1G\nmax_timeout = 2d\n"
                 "[flavor cpu-basic]\ncpus = 0.5\nmemory = 1536M\n"
                 "[flavor big]\ncpus = 4\nmemory = 2G\npids = 64\n")
    gw.user("ann", "--namespace", "ann,team")
    gw.user("bob")
    gw.user("eve", "--namespace", "ann", "--role", "readonly")
    with gw:
        yield gw
    log = gw.log()
    for path in [gw.log_path, *gw.state_dir.glob("jobs.db*")]:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in log


@pytest.fixture(scope="module")
def ann(gw):
    return gw.users["ann"]


@pytest.fixture(scope="module")
def bob(gw):
    return gw.users["bob"]


# --- ordinary jobs ---------------------------------------------------------
def test_a_job(ann):
    job = ann.create(
        ["/bin/sh", "-c", 'echo "$0 $1 $N $T"; echo oops >&2; exit 3'],
        arguments=["a", "b c"], environment={"N": 5, "T": True},
        secrets={"S": SECRET}, labels={"x": "1"}, flavor="big",
        timeoutSeconds=60, resourceGroupId=None, whatever=1,
        volumes=[{"type": "model", "source": "a/b", "mountPath": "/m"}])
    assert re.fullmatch("[0-9a-f]{24}", job["id"])
    assert job["ignoredFields"] == "resourceGroupId, whatever"
    assert job["owner"] == {"id": "ann", "name": "ann", "type": "user"}
    assert job["initiator"]["name"] == "ann"
    assert job["status"]["exposeUrls"] is None
    assert job["secrets"] == {"S": None} and SECRET not in json.dumps(job)
    assert job["environment"] == {"N": "5", "T": "true"}
    done = ann.wait(job["id"])
    assert done["status"]["stage"] == "ERROR"
    assert done["status"]["state"] == "COMPLETED"
    assert done["status"]["exitCode"] == 3
    assert done["status"]["message"] == "ended with exit code 3"
    assert done["durations"]["totalSecs"] >= done["durations"]["runningSecs"]
    assert done["startedAt"] <= done["finishedAt"]
    for key in ("command", "arguments", "environment", "labels", "flavor",
                "volumes", "timeoutSeconds", "createdAt"):
        assert done[key] == job[key]
    assert sorted(ann.lines(job["id"])) == ["a b c 5 true", "oops"]
    steps = ann.json("GET", ann.path(job["id"], "history"))
    assert [s["state"] for s in steps] == ["PENDING", "CREATING", "RUNNING",
                                           "COMPLETED"]
    assert "volumes are not mounted" in steps[2]["message"]
    assert steps[3]["exitCode"] == 3 and steps[2]["exitCode"] is None


def test_scratch_volumes(ann):
    volume = {"type": "scratch", "source": "work", "mountPath": "/workspace"}
    job = ann.create(["/bin/sh", "-c", "cd /workspace && >f && ls"],
                     volumes=[volume])
    assert ann.lines(job["id"]) == ["f"]
    done = ann.wait(job["id"])
    assert done["status"]["message"] == "ended with exit code 0"
    assert done["volumes"] == [volume | {"readOnly": False}]
    steps = ann.json("GET", ann.path(job["id"], "history"))
    assert "volumes" not in (steps[2]["message"] or "")
    # One in the other, told in whatever order.
    both = [{"type": "scratch", "source": name, "mountPath": place}
            for name, place in (("in", "/w/a/b"), ("out", "/w"))]
    job = ann.create(["/bin/sh", "-c", "cd /w/a/b && >f && find /w | sort"],
                     volumes=both)
    assert ann.lines(job["id"]) == ["/w", "/w/a", "/w/a/b", "/w/a/b/f"]
    assert [v["source"] for v in job["volumes"]] == ["in", "out"]


def test_secret_reaches_the_job_alone(ann):
    job = ann.create(["/bin/sh", "-c", 'printf %s "$S" | md5sum'],
                     secrets={"S": SECRET}, environment={"S": "not this"})
    digest = hashlib.md5(SECRET.encode()).hexdigest()
    assert ann.lines(job["id"]) == [f"{digest}  -"]
    assert ann.wait(job["id"])["status"]["stage"] == "COMPLETED"


def test_cannot_start(ann):
    job = ann.create(["/no/such/program"])
    done = ann.wait(job["id"])
    assert done["status"]["stage"] == "ERROR"
    assert done["status"]["state"] == "FAILED"
    assert "/no/such/program" in done["status"]["message"]
    assert done["status"]["exitCode"] is None


def test_killed_by_a_signal(ann):
    job = ann.create(["/bin/sh", "-c", "kill -SEGV $$; sleep 9"])
    done = ann.wait(job["id"])["status"]
    assert (done["stage"], done["reason"]) == ("ERROR", "signal") \
        or done["exitCode"] == 139, done
    assert done["exitCode"] == 139


def test_timeout(ann):
    mark = f"77{uuid.uuid4().int % 10**6}"
    job = ann.create(["/bin/sh", "-c", f"sleep {mark} & wait"],
                     timeoutSeconds=0.3)
    assert job["timeoutSeconds"] == 1
    done = ann.wait(job["id"])["status"]
    assert (done["stage"], done["state"]) == ("ERROR", "TERMINATED")
    assert done["reason"] == "timeout"
    assert done["message"].startswith("timed out after 1 s")
    until(lambda: not processes(f"sleep {mark}"), "the tree to be gone")


def test_timeout_is_capped(ann):
    job = ann.create(["/bin/true"], timeoutSeconds=31e6)
    assert job["timeoutSeconds"] == 2 * 86400
    assert "cut to 172800 s" in job["status"]["message"]


def test_cancel(ann):
    """What ignores TERM is killed after its grace, with all its children."""
    mark = f"88{uuid.uuid4().int % 10**6}"
    job = ann.create(["/bin/sh", "-c",
                      f"trap '' TERM; echo up; sleep {mark} & wait; wait"])
    ann.wait(job["id"], "running")
    until(lambda: processes(f"sleep {mark}"), "the child to run")
    got = ann.cancel(job["id"])
    assert got["status"]["stage"] == "CANCELED"
    for _ in range(20):
        assert ann.cancel(job["id"])["status"]["stage"] == "CANCELED"
    done = ann.wait(job["id"])["status"]
    assert (done["state"], done["reason"]) == ("TERMINATED", "stopped")
    assert done["message"].startswith("canceled")
    until(lambda: not processes(f"sleep {mark}"), "the tree to be gone")
    assert ann.cancel(job["id"])["status"]["state"] == "TERMINATED"


def test_cancel_overtakes_the_start(ann):
    for _ in range(5):
        job = ann.create(["/bin/sleep", "60"])
        ann.cancel(job["id"], "?grace=0s")
        done = ann.wait(job["id"])
        assert done["status"]["stage"] == "CANCELED"
        steps = ann.json("GET", ann.path(job["id"], "history"))
        assert steps[-1]["state"] == "TERMINATED"


# --- bodies ----------------------------------------------------------------
@pytest.mark.parametrize("body, text", [
    (b"[]", "the body must be a JSON object"),
    (b"{", "JSON"),
    ({"command": "ls"}, "command: must be an array of strings"),
    ({"environment": {"N": []}}, "environment.N: must be a string, number or "
                                 "boolean"),
    ({"command": ["x"], "flavor": "h200"},
     'flavor: "h200" is not one of cpu-basic, big'),
    ({"command": ["x"], "timeoutSeconds": -1}, "timeoutSeconds: must be "),
    ({"command": ["x"], "secrets": {"S": [SECRET]}},
     "secrets.S: must be a string, number or boolean"),
    ({"command": ["x"], "labels": {"a": {}}}, "labels.a: must be a string"),
    ({"command": ["x"], "expose": {"ports": [0]}}, "expose.ports: must be"),
    ({"command": ["x"], "tags": ["a", ""]}, "tags: element 1 is empty"),
    ({"command": ["x"], "tags": ["a" * 257]}, "tags: element 0 is too long"),
    ({"command": ["x"], "tags": ["a"] * 65}, "tags: has more than 64"),
    ({"command": ["x"], "workingDir": "x"}, "workingDir: must be an absolute"),
    ({"sandbox": True, "workingDir": "/"}, "workingDir: there is no command"),
    ({"sandbox": True, "command": ["x"],
      "environment": {"SBX_HOST_MODE": "1"}}, "command: not together with"),
    ({"command": ["x"], "files": [{"path": "/x"}]}, "files: path and content"),
    ({"command": ["x"], "files": [{"path": "x", "content": ""}]},
     "files.path: must be an absolute path"),
    ({"command": ["x"], "files": [{"path": "/x", "content": "*"}]},
     "files: content: must be base64"),
    ({"command": ["x"], "memory": 3 << 30}, "memory: is more than any flavor"),
    ({"command": ["x"], "cpuMilli": 4001}, "cpuMilli: is more than any"),
    ({"command": ["x"], "stopGraceSeconds": 3601}, "stopGraceSeconds: must "),
])
def test_refused(ann, body, text):
    r = ann.ask("POST", ann.path(), body)
    assert r.status == 400, r.body
    got = json.loads(r.body)
    assert text in got["error"] and r["X-Error-Message"] in got["error"]
    assert got["code"] == "bad_request"


def test_too_large(ann):
    r = ann.ask("POST", ann.path(), {"command": ["x" * (1 << 20)]})
    assert r.status == 413 and "error" in json.loads(r.body)


def test_request_id(ann):
    body = {"command": ["/bin/true"], "requestId": str(uuid.uuid4())}
    ids = {ann.json("POST", ann.path(), body)["id"] for _ in range(3)}
    assert len(ids) == 1
    team = ann.json("POST", ann.path(ns="team"), body)
    assert team["id"] not in ids and team["owner"]["type"] == "org"


@pytest.mark.parametrize("path", [
    "/api/scheduled-jobs/ann", "/api/models", "/api/jobs/ann/x/y/z",
    "/api/jobs/ann/0123456789abcdef01234567/metrics"])
def test_other_routes(ann, path):
    r = ann.ask("GET", path)
    assert r.status == 404 and json.loads(r.body)["error"]


def test_hardware(ann):
    got = ann.json("GET", "/api/jobs/hardware")
    assert [(h["name"], h["prettyName"], h["cpu"], h["ram"]) for h in got] \
        == [("cpu-basic", "CPU Basic", "0.5 vCPU", "1536 MB"),
            ("big", "Big", "4 vCPU", "2 GB")]
    for h in got:
        assert {"unitCostMicroUSD", "unitCostUSD", "unitLabel",
                "accelerator"} <= set(h)


# --- lists and labels ------------------------------------------------------
def test_paging(ann):
    """250 of them, each seen once, newest first."""
    many = 40 if paths.SANITIZED else 250
    for i in range(many):
        ann.create(["/bin/true"], ns="team",
                   labels={"run": "paging", "third": str(i % 3)})
    limit = many // 5 - 1
    team = User(ann.gw, ann.token, "team")
    found = team.list(f"?label=run%3Dpaging&limit={limit}")
    assert len(found) == len({j["id"] for j in found}) == many
    created = [j["createdAt"] for j in found]
    assert created == sorted(created, reverse=True)
    third = team.list("?label=run=paging&label=third=1&limit=7")
    assert [j["id"] for j in third] \
        == [j["id"] for j in found if j["labels"]["third"] == "1"]
    for job in found:
        team.wait(job["id"])
    ended = team.list("?stage=COMPLETED&stage=ERROR&label=run%3Dpaging")
    assert [j["id"] for j in ended] == [j["id"] for j in found]
    assert {j["status"]["exitCode"] for j in ended} == {0}
    assert team.list("?stage=RUNNING&label=run=paging") == []
    assert team.list("?label=run=paging&label=third=9") == []


@pytest.mark.parametrize("query", ["stage=running", "stage=", "label=x",
                                   "label=%3Dx", "limit=0", "limit=1001",
                                   "cursor=-1", "cursor=x", "state=X"])
def test_bad_query(ann, query):
    r = ann.ask("GET", ann.path() + "?" + query)
    assert r.status == 400
    assert query.split("=", maxsplit=1)[0] in json.loads(r.body)["error"]


def test_labels(ann):
    job = ann.create(["/bin/true"], labels={"a": "1", "b": "2"})
    got = ann.json("PUT", ann.path(job["id"], "labels"),
                   {"labels": {"b": "3", "c=": "x"}}, status=400)
    assert got["error"].startswith("labels.c=: ")
    got = ann.json("PUT", ann.path(job["id"], "labels"),
                   {"labels": {"b": "3"}})
    assert got["labels"] == {"b": "3"} == ann.get(job["id"])["labels"]
    ann.wait(job["id"])
    got = ann.json("PUT", ann.path(job["id"], "labels"), {"labels": {}})
    assert got["labels"] == {}


# --- users -----------------------------------------------------------------
def test_two_users(ann, bob, gw):
    job = ann.create(["/bin/sleep", "60"])["id"]
    none = "0123456789abcdef01234567"
    answers = set()
    for who in (job, none, "x"):
        for method, tail, body in (
                ("GET", "", None), ("GET", "/logs", None),
                ("POST", "/cancel", None), ("GET", "/history", None),
                ("PUT", "/labels", {"labels": {}})):
            for ns in ("ann", "bob"):
                r = bob.ask(method, f"/api/jobs/{ns}/{who}{tail}", body)
                answers.add((r.status, r.body))
    assert len(answers) == 1
    status, body = answers.pop()
    assert status == 404 and json.loads(body)["code"] == "job_not_found"
    assert bob.ask("GET", "/api/jobs/ann").status == 403
    assert bob.create(["/bin/true"], ns="ann", status=403)
    assert bob.list() == [] or all(j["owner"]["name"] == "bob"
                                   for j in bob.list())
    assert bob.ask("GET", "/api/events?namespace=ann").status == 403
    eve = gw.users["eve"]
    assert eve.json("GET", f"/api/jobs/ann/{job}")["id"] == job
    assert eve.create(["/bin/true"], ns="ann", status=403)
    assert eve.ask("POST", f"/api/jobs/ann/{job}/cancel").status == 403
    assert ann.get(job)["status"]["stage"] in ("SCHEDULING", "RUNNING")
    ann.cancel(job)


# --- logs ------------------------------------------------------------------
def test_log_tail_and_follow(ann):
    job = ann.create(["/bin/sh", "-c", "seq 1 50; sleep 60"])["id"]
    ann.wait(job, "running")
    until(lambda: len(ann.lines(job, "?follow=0")) == 50, "50 lines")
    # Among them what is said about the job, anywhere.
    whole = ann.logs(job, "?follow=0")
    assert ann.lines(job, "?follow=0") == [str(n) for n in range(1, 51)]
    assert ann.logs(job, "?follow=0&tail=3") == whole[-3:]
    assert ann.logs(job, "?follow=0&tail=1000") == whole
    assert ann.logs(job, "?follow=0&tail=0") == []
    assert ann.ask("GET", ann.path(job, "logs?tail=x")).status == 400
    c, head = ann.stream(ann.path(job, "logs?tail=1"))
    assert head.status == 200
    assert json.dumps(whole[-1][1]).encode() in c.until(b"\n\n")
    ann.cancel(job)
    assert c.until(b"0\r\n\r\n")  # the end, in order
    c.close()


def test_log_of_much(ann, gw):
    """A burst as fast as it comes, whole, and with bounded memory."""
    mib = 16 if paths.SANITIZED else 200
    before = gw.master_kib()
    job = ann.create(
        ["/bin/sh", "-c", f"yes {'x' * 1023} | head -c {mib}M; echo end"])
    c, head = ann.stream(ann.path(job["id"], "logs"), timeout=60)
    assert head.status == 200
    lines = size = 0
    rest = last = b""
    for piece in c.chunks():
        *whole, rest = (rest + piece).split(b"\n\n")
        lines += sum(b'"data":"xxx' in one for one in whole)
        size += len(piece)
        last = whole[-1] if whole else last
    c.close()
    assert rest == b"" and b'"data":"end"' in last
    assert lines == mib * 1024 and size > mib << 20
    assert gw.master_kib() - before < 32 << 10
    assert ann.wait(job["id"])["status"]["stage"] == "COMPLETED"


def test_slow_reader_of_a_log(ann, gw):
    """Who does not read holds nothing up, and costs nothing."""
    before = gw.master_kib()
    job = ann.create(["/bin/sh", "-c", f"yes {'y' * 1023} | head -c 32M"])
    c, _ = ann.stream(ann.path(job["id"], "logs"))
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    assert ann.wait(job["id"])["status"]["stage"] == "COMPLETED"
    assert gw.master_kib() - before < 32 << 10
    c.abort()


# --- sandboxes -------------------------------------------------------------
def test_sandbox(ann, bob, gw):
    job = ann.sandbox({"N": "5", "SBX_HOMES": "/etc"})
    path = ann.url(job)
    # Its URL was in the answer already; who asks at once is held until then.
    assert get(gw.http, path + "/health", headers=ann.headers).status == 200
    now = ann.get(job["id"])
    assert now["status"]["stage"] == "RUNNING"
    assert now["status"]["exposeUrls"] == job["status"]["exposeUrls"]
    assert now["environment"]["N"] == "5"
    both = dict(ann.headers, **{"X-Sandbox-Token": "inner-token"})
    assert get(gw.http, path + "/v1/processes", headers=both).status == 200
    assert get(gw.http, path + "/v1/processes",
               headers=ann.headers).status == 403
    assert get(gw.http, path + "/health", headers=bob.headers).status != 200
    got = ann.list("?stage=RUNNING&stage=SCHEDULING&label=hf-sandbox%3D1")
    assert job["id"] in [j["id"] for j in got]
    ann.cancel(job["id"])
    assert ann.wait(job["id"])["status"]["stage"] == "CANCELED"
    r = get(gw.http, path + "/health", headers=ann.headers)
    assert r.status == 410 and "canceled" in json.loads(r.body)["error"]


def test_sandbox_with_a_command(ann, gw):
    """The command is the main process: its output is the log, its end the
    job's; our agent is beside it."""
    job = ann.create(
        ["/bin/sh", "-c", 'cat /in; pwd; echo "$N[$SBX_TOKEN]"; '
         'trap "exit 0" TERM INT; sleep infinity & wait'],
        sandbox=True, workingDir="/etc", environment={"N": "5"},
        files=[{"path": "/in", "content": "ZnJvbSBhIGZpbGUK"}],
        secrets={"SBX_TOKEN": "inner-token"}, tags=["red", "blue"],
        memory=1 << 30, cpuMilli=250, stopGraceSeconds=600)
    assert job["sandbox"] and job["tags"] == ["red", "blue"]
    assert job["files"] == [{"path": "/in", "size": 12, "mode": 0o644}]
    assert (job["memory"], job["cpuMilli"]) == (1 << 30, 250)
    both = dict(ann.headers, **{"X-Sandbox-Token": "inner-token"})
    url = ann.url(job)
    r = fetch(gw.http, "POST", url + "/v1/exec", headers=both,
              body=json.dumps({"cmd": "cat /in"}).encode())
    assert "from a file" in r.body.decode()
    now = ann.wait(job["id"], "running")
    assert now["status"]["state"] == "RUNNING" and now["startedAt"]
    assert [j["id"] for j in ann.list("?tag=blue&tag=red")] == [job["id"]]
    assert ann.list("?tag=blue&tag=green") == []
    until(lambda: "5[]" in ann.lines(job["id"], "?follow=0"), "its output")
    ann.cancel(job["id"], "")  # its own grace: far away, and not needed
    done = ann.wait(job["id"])["status"]
    assert (done["state"], done["exitCode"]) == ("TERMINATED", 0)
    assert ann.lines(job["id"]) == ["from a file", "/etc", "5[]"]


@pytest.mark.parametrize("script, code", [
    ("exit 0", 0), ("exit 1", 1), ("exit 137", 137), ("kill -9 $$", 137)])
def test_sandbox_whose_command_ends(ann, script, code):
    job = ann.create(["/bin/sh", "-c", script], sandbox=True)
    done = ann.wait(job["id"])
    assert done["status"]["state"] == "COMPLETED"
    assert done["status"]["exitCode"] == code
    assert done["startedAt"] <= done["finishedAt"]


def test_sandbox_whose_command_is_missing(ann):
    job = ann.create(["/no/such/program"], sandbox=True)
    done = ann.wait(job["id"])["status"]
    assert (done["state"], done["exitCode"]) == ("FAILED", None)
    assert done["reason"] == "start_failed"
    assert "/no/such/program: No such file or directory" in done["message"]


def test_max_lifetime(ann):
    job = ann.create(
        ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 9; done"],
        sandbox=True, timeoutSeconds=1, stopGraceSeconds=0)
    done = ann.wait(job["id"])["status"]
    assert (done["state"], done["reason"]) == ("TERMINATED", "timeout")
    assert done["exitCode"] == 137


def test_never_healthy_before_running(ann, gw):
    for _ in range(5):
        job = ann.sandbox()
        r = get(gw.http, ann.url(job) + "/health", headers=ann.headers)
        assert r.status == 200
        assert ann.get(job["id"])["status"]["stage"] == "RUNNING"
        ann.cancel(job["id"], "?grace=0s")


def test_idle_exit(ann):
    job = ann.sandbox({"SBX_IDLE_TIMEOUT": "1"})
    done = ann.wait(job["id"])["status"]
    assert (done["stage"], done["exitCode"]) == ("COMPLETED", 0)
    assert done["message"] == "ended after its idle time"


# --- stops -----------------------------------------------------------------
def test_fifty_stops_at_once(ann):
    """One of them has a short grace, and that counts; TERM comes once."""
    job = ann.create(["/bin/sh", "-c", "trap 'echo term' TERM; echo up; "
                      "while :; do sleep 0.01; done"], sandbox=True)
    is_up(ann, job)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        got = list(pool.map(
            lambda n: ann.cancel(job["id"], "?grace=200ms" if n == 25
                                 else "?grace=1h")["status"], range(50)))
    assert {s["stage"] for s in got} == {"CANCELED"}
    done = ann.wait(job["id"])["status"]
    assert (done["state"], done["exitCode"]) == ("TERMINATED", 137)
    assert ann.lines(job["id"]).count("term") == 1
    assert ann.cancel(job["id"])["status"] == done  # again, after its end
    steps = ann.json("GET", ann.path(job["id"], "history"))
    assert [s["state"] for s in steps[2:]] == ["RUNNING", "TERMINATING",
                                               "TERMINATED"]


def test_stop_while_it_starts(ann):
    """At once after it was made; it never comes back."""
    jobs = [ann.create(["/bin/sh", "-c", "echo runs; sleep 1000"],
                       sandbox=True) for _ in range(8)]
    for n, job in enumerate(jobs):
        ann.cancel(job["id"], "?grace=0s" if n % 2 else "?grace=1h")
    for job in jobs:
        assert ann.wait(job["id"])["status"]["state"] == "TERMINATED"
        states = [s["state"] for s in
                  ann.json("GET", ann.path(job["id"], "history"))]
        assert states[-1] == "TERMINATED"
        assert "RUNNING" not in states[states.index("TERMINATING"):]


# --- the freezer -----------------------------------------------------------
COUNTS = ["/bin/sh", "-c", "trap 'exit 5' TERM; i=0; echo up; "
          "while :; do i=$((i+1)); echo $i > /tmp/n; sleep 0.01; done"]


def is_up(user, job):
    """It runs, and its trap is set."""
    user.wait(job["id"], "running")
    until(lambda: "up" in user.lines(job["id"], "?follow=0"), "the trap")


def test_no_pause_without_a_group(ann):
    job = ann.create(COUNTS, sandbox=True)
    ann.wait(job["id"], "running")
    r = ann.json("POST", ann.path(job["id"], "pause"), status=409)
    assert "no control group" in r["error"] and r["code"] == "conflict"
    assert ann.get(job["id"])["status"]["state"] == "RUNNING"
    # It runs already.
    ann.json("POST", ann.path(job["id"], "resume"))
    ann.cancel(job["id"])
    ann.wait(job["id"])
    r = ann.json("POST", ann.path(job["id"], "resume"), status=409)
    assert r["error"] == "the job is TERMINATED"
    ann.json("POST", ann.path("0" * 24, "pause"), status=404)


def test_pause(tmp, cgroups):
    """Frozen, over a restart as well; who asks its agent waits; a stop lets it
    go on to its end."""
    gw = Control(tmp, local=f"cgroup = {cgroups}")
    ann = gw.user("ann")
    with gw:
        job = ann.create(COUNTS, sandbox=True,
                         secrets={"SBX_TOKEN": "inner-token"})
        is_up(ann, job)
        group = cgroups / f"sbx-{job['id']}"

        def is_frozen():
            return "frozen 1" in (group / "cgroup.events").read_text()

        for _ in range(2):  # as often as one likes
            got = ann.json("POST", ann.path(job["id"], "pause"))["status"]
            assert (got["state"], got["stage"]) == ("PAUSED", "RUNNING")
        until(is_frozen, "the freezer")
        gw.die()
        gw.start()
        assert ann.get(job["id"])["status"]["state"] == "PAUSED"
        assert is_frozen()
        c = Client(gw.http)
        c.request("GET", ann.url(job) + "/health", headers=ann.headers)
        got = ann.json("POST", ann.path(job["id"], "resume"))["status"]
        assert (got["state"], got["message"]) == ("RUNNING", "resumed by ann")
        assert c.response("GET").status == 200
        c.close()
        ann.json("POST", ann.path(job["id"], "pause"))
        until(is_frozen, "the freezer")
        ann.cancel(job["id"], "?grace=1h")
        done = ann.wait(job["id"])["status"]
        assert (done["state"], done["exitCode"]) == ("TERMINATED", 5)
        job = ann.create(COUNTS, sandbox=True, timeoutSeconds=3)
        is_up(ann, job)
        ann.json("POST", ann.path(job["id"], "pause"))
        done = ann.wait(job["id"])["status"]
        assert (done["reason"], done["exitCode"]) == ("timeout", 5)


# --- waiting and events ----------------------------------------------------
def test_wait(ann):
    job = ann.create(["/bin/sleep", "60"])["id"]
    assert ann.wait(job, "running")["status"]["stage"] == "RUNNING"
    # In vain: the answer says how it stands.
    assert ann.get(job, query="?wait=terminal&timeout=10ms")["status"][
        "stage"] == "RUNNING"
    assert ann.get(job, 400, "?wait=never")["code"] == "bad_request"
    assert ann.get(job, 400, "?wait=running&timeout=x")
    # One that goes away is forgotten.
    c = Client(ann.gw.http)
    c.request("GET", ann.path(job) + "?wait=terminal", headers=ann.headers)
    c.abort()
    ann.cancel(job)
    assert ann.wait(job)["status"]["stage"] == "CANCELED"


def read_events(c, job):
    """[(id, state)] of a job's events until its last state."""
    found = []
    while not found or found[-1][1] not in ("COMPLETED", "TERMINATED"):
        text = c.until(b"\n\n").decode()
        m = re.search(r"id: (\d+)\nevent: job\ndata: (.*)\n\n", text)
        if m and json.loads(m[2])["id"] == job:
            found.append((int(m[1]), json.loads(m[2])["state"]))
    return found


def test_events(ann):
    c, head = ann.stream("/api/events")
    assert head["Content-Type"] == "text/event-stream"
    job = ann.create(["/bin/true"])["id"]
    live = read_events(c, job)
    c.close()
    assert [s for _, s in live] == ["PENDING", "CREATING", "RUNNING",
                                    "COMPLETED"]
    # Who was away goes on where it stopped.
    c, _ = ann.stream("/api/events", {"Last-Event-ID": str(live[1][0])})
    assert read_events(c, job) == live[2:]
    c.close()
    c, _ = ann.stream(f"/api/events?job={job}&last_event_id=0")
    assert read_events(c, job) == live
    c.close()
    assert ann.ask("GET", "/api/events",
                   headers={"Last-Event-ID": "x"}).status == 400
    # A number that was never given: from now on.
    c, _ = ann.stream("/api/events", {"Last-Event-ID": str(1 << 60)})
    job = ann.create(["/bin/true"])["id"]
    assert len(read_events(c, job)) == 4
    c.close()


# --- the gateway's own life ------------------------------------------------
def test_sudden_death(tmp):
    """kill -9 of the gateway: jobs go on, are found again, their logs are
    whole, and what ended meanwhile ended right."""
    gw = Control(tmp)
    ann = gw.user("ann")
    with gw:
        box = ann.sandbox()
        script = ("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); "
                  "sleep 0.01; done; exit 5")
        long = ann.create(["/bin/sh", "-c", script], secrets={"S": SECRET})
        short = ann.create(["/bin/sh", "-c", "sleep 0.3; exit 4"])
        stopping = ann.create(["/bin/sh", "-c",
                               "trap '' TERM; while :; do sleep 1; done"])
        for job in (box, long, short, stopping):
            ann.wait(job["id"], "running")
        ann.cancel(stopping["id"], "?grace=1h")
        assert get(gw.http, ann.url(box) + "/health",
                   headers=ann.headers).status == 200
        gw.die()
        gw.start()
        now = {j["id"]: j["status"] for j in ann.list()}
        assert now[long["id"]]["stage"] in ("RUNNING", "ERROR")
        assert now[stopping["id"]]["stage"] == "CANCELED"
        r = get(gw.http, ann.url(box) + "/health", headers=ann.headers)
        assert r.status == 200
        assert ann.get(box["id"])["status"]["stage"] == "RUNNING"
        assert ann.wait(short["id"])["status"]["exitCode"] == 4
        assert ann.lines(long["id"]) == [f"line {i}" for i in range(200)]
        assert ann.wait(long["id"])["status"]["exitCode"] == 5
        ann.cancel(stopping["id"], "?grace=0s")
        assert ann.wait(stopping["id"])["status"]["state"] == "TERMINATED"
        ann.cancel(box["id"])
        ann.wait(box["id"])
        gw.die()
        gw.start()
        # Also when it ended before this one began.
        r = get(gw.http, ann.url(box) + "/health", headers=ann.headers)
        assert r.status == 410
        assert ann.get(long["id"])["status"]["exitCode"] == 5


def test_sudden_death_in_each_phase(tmp):
    """Jobs that wait for their turn, that start, that run, that end: a command
    with its agent comes through all of it, once."""
    gw = Control(tmp, local="parallel = 1")
    ann = gw.user("ann")
    script = "echo up; trap '' TERM; while :; do sleep 0.01; done"
    with gw:
        jobs = [ann.create(["/bin/sh", "-c", script], sandbox=True,
                           secrets={"SBX_TOKEN": "inner-token"})
                for _ in range(6)]
        ann.cancel(jobs[4]["id"], "?grace=0s")
        gw.die()
        gw.start()
        states = {j["id"]: j["status"]["state"] for j in ann.list()}
        assert set(states) == {j["id"] for j in jobs}
        for job in jobs[:4] + jobs[5:]:
            now = ann.wait(job["id"], "running")
            assert now["status"]["state"] == "RUNNING", now
            r = get(gw.http, ann.url(job) + "/health", headers=ann.headers)
            assert r.status == 200
            assert ann.lines(job["id"], "?follow=0").count("up") <= 1
        assert ann.wait(jobs[4]["id"])["status"]["state"] == "TERMINATED"
        for job in jobs[:3]:
            ann.cancel(job["id"], "?grace=1h")
        gw.die()
        gw.start()
        for job in jobs[:3]:
            state = ann.get(job["id"])["status"]["state"]
            assert state == "TERMINATING"
        for job in jobs:
            ann.cancel(job["id"], "?grace=0s")
        gw.die()
        gw.start()
        for job in jobs:
            assert ann.wait(job["id"])["status"]["state"] == "TERMINATED"
            until(lambda d=gw.state_dir / "jobs" / job["id"] / "fs":
                  not d.exists(), "its files to be gone")


def test_full_disk(tmp):
    """A job that fills the file system of the jobs ends like any other."""
    small, jobs = tmp / "small", tmp / "state" / "jobs"
    small.mkdir()
    gw = Control(tmp)
    gw.argv = ["unshare", "-m", "sh", "-c",
               f"mount -t tmpfs -o size=1m,mode=711 none {small} && "
               f'mkdir -p {jobs} && mount --bind {small} {jobs} && exec "$@"',
               "sh"] + gw.argv
    ann = gw.user("ann")
    with gw:
        script = "head -c 4000000 /dev/zero >/root/f && exit 1; exit 5"
        job = ann.create(["/bin/sh", "-c", script])["id"]
        done = ann.wait(job)["status"]
        assert (done["state"], done["exitCode"]) == ("COMPLETED", 5)
        inside = pathlib.Path(f"/proc/{gw.proc.pid}/root{jobs}")
        until(lambda: not (inside / job / "fs").exists(), "room for another")
        assert ann.wait(ann.create(["/bin/true"])["id"])["status"][
            "exitCode"] == 0


def test_end_with_open_streams(tmp):
    """SIGTERM: what is followed ends in order, jobs go on."""
    with Control(tmp) as gw:
        job = gw.root.create(["/bin/sleep", "60"])["id"]
        gw.root.wait(job, "running")
        logs, _ = gw.root.stream(gw.root.path(job, "logs"))
        events, _ = gw.root.stream("/api/events?last_event_id=0")
        wait = Client(gw.http)
        wait.request("GET", gw.root.path(job) + "?wait=terminal",
                     headers=gw.root.headers)
        assert len(events.until(b'"state":"RUNNING"')) > 0
        gw.die(signal.SIGTERM)
        for c in (logs, events):
            assert c.to_end().endswith(b"0\r\n\r\n")
            c.close()
        r = wait.response("GET")
        got = json.loads(r.body)
        # It may have come just after the signal.
        assert got.get("code") == "draining" if r.status == 503 \
            else got["status"]["stage"] == "RUNNING", r.body
        wait.close()
        gw.start()
        assert gw.root.get(job)["status"]["stage"] == "RUNNING"


def test_reload(tmp):
    gw = Control(tmp)
    ann = gw.user("ann")
    with gw:
        job = ann.sandbox()
        assert get(gw.http, ann.url(job) + "/health",
                   headers=ann.headers).status == 200
        gw.config.write_text(gw.config.read_text()
                             + "max_jobs = 1\n[flavor tiny]\npids = 32\n")
        gw.signal(signal.SIGHUP)
        until(lambda: ann.json("GET", "/api/jobs/hardware")[0]["name"]
              == "tiny", "the new configuration")
        assert get(gw.http, ann.url(job) + "/health",
                   headers=ann.headers).status == 200
        got = ann.create(["/bin/true"], status=429)
        assert got["code"] == "too_many_jobs"
        ann.cancel(job["id"])
        ann.wait(job["id"])
        assert ann.create(["/bin/true"])["flavor"] == "tiny"


def test_metrics(tmp):
    with Control(tmp, admin=f"unix:{tmp}/admin.sock") as gw:
        gw.root.wait(gw.root.create(["/bin/false"])["id"])
        text = get(f"unix:{tmp}/admin.sock", "/-/metrics").body.decode()
        for line in ("sbx_gateway_jobs 0", "sbx_gateway_jobs_created_total 1",
                     'sbx_gateway_jobs_ended_total{reason="exit"} 1'):
            assert line in text.split("\n")


def test_broken_database(tmp):
    state = tmp / "state"
    state.mkdir()
    (state / "jobs.db").write_bytes(b"not a database" * 1000)
    with Control(tmp) as gw:
        assert gw.root.list() == []
        kept = list(state.glob("jobs.db.broken-*"))
        assert len(kept) == 1
        assert kept[0].read_bytes() == b"not a database" * 1000
        assert kept[0].name in gw.log()
        job = gw.root.create(["/bin/true"])
        assert gw.root.wait(job["id"])["status"]["stage"] == "COMPLETED"
