# SPDX-License-Identifier: Apache-2.0
"""Snapshots of jobs over the wire: what is in them, what may be done with
them, and what is left when something dies half-way."""

import concurrent.futures
import io
import json
import os
import subprocess
import tarfile
import uuid

import pytest

from support.jobs import Control
from support.wait import until

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def gw(module_tmp):
    gw = Control(module_tmp, jobs="[snapshots]\nmax_count = 60\n")
    gw.user("ann", "--namespace", "ann,team")
    gw.user("bob")
    gw.user("eve", "--namespace", "ann", "--role", "readonly")
    with gw:
        yield gw
    left = [f.name for f in (gw.state_dir / "snapshots").iterdir()
            if ".part" in f.name]
    assert not left


@pytest.fixture(scope="module")
def ann(gw):
    return gw.users["ann"]


def running(user, script, **more):
    """A job that has run script, and stays."""
    job = user.create(["/bin/sh", "-c",
                       f"{script}\necho done; exec sleep 1000"], **more)
    user.wait(job["id"], "running")
    until(lambda: "done" in user.lines(job["id"], "?follow=0"), seconds=30)
    return job["id"]


def make(user, job, body=None, query="?wait=ready", status=200):
    return user.json("POST", user.path(job, "snapshots") + query, body or {},
                     status, timeout=70)


def unpack(data):
    """{name: TarInfo} of an archive, and a reader of its files."""
    out = subprocess.run(["zstd", "-dc"], input=data, capture_output=True,
                         check=True).stdout
    tar = tarfile.open(fileobj=io.BytesIO(out))
    return {m.name: m for m in tar.getmembers()}, \
        lambda name: tar.extractfile(name).read()


def content(user, sid, **kw):
    r = user.ask("GET", f"/api/snapshots/{sid}/content", **kw)
    assert r.status in (200, 206), r.body
    return r


@pytest.fixture(scope="module")
def job(ann):
    return running(ann, "echo hello >/root/f; ln /root/f /tmp/g || true;"
                   "mkdir -p /home/u/d; ln -s /etc/passwd /root/link;"
                   "chmod 640 /root/f; mkfifo /tmp/pipe")


def test_life(gw, ann, job):
    sn = make(ann, job)
    assert sn["state"] == "READY" and sn["reason"] is None, sn
    assert sn["job"] == job and sn["trigger"] == "MANUAL"
    assert sn["namespace"] == "ann" and sn["user"] == "ann"
    assert sn["bytes"] == 6 and sn["changed"] == 0 == sn["skipped"]
    path = f"/api/snapshots/{sn['id']}"
    assert ann.json("GET", path) == sn
    files = list((gw.state_dir / "snapshots").glob(f"{sn['id']}*"))
    assert [f.stat().st_size for f in files] == [sn["size"]]
    assert files[0].stat().st_mode & 0o777 == 0o600
    whole = content(ann, sn["id"])
    assert len(whole.body) == sn["size"]
    names, read = unpack(whole.body)
    assert read("data/root/f") == b"hello\n"
    assert names["data/root/f"].mode == 0o640
    assert (names["data/root/f"].uid, names["data/root/f"].gid) == (0, 0)
    assert names["data/root/link"].linkname == "/etc/passwd"
    assert names["data/tmp/pipe"].isfifo() and names["data/home/u/d"].isdir()
    assert "upper" in names and "upper/usr" not in names
    assert not [n for n in names if n.startswith(("/", ".."))]
    part = content(ann, sn["id"], headers={"Range": "bytes=5-"})
    assert part.status == 206 and part.body == whole.body[5:]
    assert part["Content-Range"] == f"bytes 5-{sn['size'] - 1}/{sn['size']}"
    assert content(ann, sn["id"], headers={"Range": "bytes=-3"}).body == \
        whole.body[-3:]
    r = ann.ask("GET", path + "/content",
                headers={"Range": f"bytes={sn['size']}-"})
    assert r.status == 416
    assert ann.json("DELETE", path)["state"] == "DELETING"
    until(lambda: ann.ask("GET", path).status == 404)
    assert not files[0].exists()
    assert ann.ask("DELETE", path).status == 404


def test_who_may(gw, ann, job):
    sn = make(ann, job)
    bob, eve = gw.users["bob"], gw.users["eve"]
    path = f"/api/snapshots/{sn['id']}"
    for method in ("GET", "DELETE"):
        r = bob.ask(method, path)
        assert r.status == 404 and b"snapshot_not_found" in r.body
    assert bob.ask("GET", path + "/content").status == 404
    assert bob.ask("POST", ann.path(job, "snapshots")).status == 404
    assert bob.ask("GET", "/api/snapshots?namespace=ann").status == 403
    assert bob.json("GET", "/api/snapshots")["snapshots"] == []
    assert eve.json("GET", path)["id"] == sn["id"]
    assert eve.ask("DELETE", path).status == 403
    assert eve.ask("POST", ann.path(job, "snapshots")).status == 403
    assert gw.root.json("GET", path)["state"] == "READY"
    ann.json("DELETE", path)


def test_what_cannot_be(ann, job):
    for path in ("/api/snapshots/x", f"/api/snapshots/{'0' * 24}"):
        assert ann.ask("GET", path).status == 404
    r = ann.ask("POST", ann.path("0" * 24, "snapshots"))
    assert r.status == 404 and b"job_not_found" in r.body
    for body, word in (({"requestId": 5}, b"requestId"),
                       ({"requestId": ""}, b"requestId"),
                       ({"requestId": "x" * 257}, b"requestId")):
        r = ann.ask("POST", ann.path(job, "snapshots"), body)
        assert r.status == 400 and word in r.body
    for query, word in (("limit=0", b"limit"), ("cursor=x", b"cursor"),
                        ("job=x", b"job")):
        r = ann.ask("GET", f"/api/snapshots?{query}")
        assert r.status == 400 and word in r.body
    r = ann.ask("POST", ann.path(job, "snapshots") + "?wait=never")
    assert r.status == 400 and b"wait" in r.body
    ended = ann.create(["/bin/true"])["id"]
    ann.wait(ended)
    r = ann.ask("POST", ann.path(ended, "snapshots"))
    assert r.status == 409 and b"not_running" in r.body
    for sn in ann.json("GET", "/api/snapshots")["snapshots"]:
        ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def test_lists(ann, job):
    other = running(ann, "true")
    made = [make(ann, job if i % 2 else other)["id"] for i in range(5)]
    found, cursor, pages = [], "", 0
    while cursor is not None:
        got = ann.json("GET", "/api/snapshots?limit=2"
                       + (f"&cursor={cursor}" if cursor else ""))
        found += [s["id"] for s in got["snapshots"]]
        cursor, pages = got["nextCursor"], pages + 1
    assert [i for i in found if i in made] == made[::-1] and pages >= 3
    got = ann.json("GET", f"/api/snapshots?job={other}")["snapshots"]
    assert [s["id"] for s in got] == made[::2][::-1]
    for sid in made:
        ann.json("DELETE", f"/api/snapshots/{sid}")


def test_fifty_at_once(gw, ann, job):
    """One request id makes one; different ones are all made."""
    def ask(body):
        return ann.json("POST", ann.path(job, "snapshots"), body, timeout=60)

    same = {"requestId": str(uuid.uuid4())}
    until(lambda: ann.json("GET", "/api/snapshots")["snapshots"] == [])
    with concurrent.futures.ThreadPoolExecutor(25) as pool:
        ids = {s["id"] for s in pool.map(ask, [same] * 25)}
        assert len(ids) == 1
        ids |= {s["id"] for s in pool.map(ask, [{}] * 25)}
    assert len(ids) == 26
    for sid in ids:
        sn = ann.json("GET", f"/api/snapshots/{sid}?wait=ready", timeout=70)
        assert sn["state"] == "READY", sn
    with concurrent.futures.ThreadPoolExecutor(26) as pool:
        list(pool.map(lambda i: ann.json("DELETE", f"/api/snapshots/{i}"),
                      ids))
    until(lambda: ann.json("GET", "/api/snapshots")["snapshots"] == [],
          seconds=20)
    assert not list((gw.state_dir / "snapshots").iterdir())
    # The id is free again.
    again = ann.json("POST", ann.path(job, "snapshots"), same)
    assert again["id"] not in ids
    ann.json("DELETE", f"/api/snapshots/{again['id']}")
