# SPDX-License-Identifier: Apache-2.0
"""Snapshots of jobs over the wire: what is in them, what may be done with
them, and what is left when something dies half-way."""

import concurrent.futures
import glob
import hashlib
import io
import sqlite3
import os
import shutil
import subprocess
import tarfile
import uuid

import pytest

from support import paths
from support.jobs import Control
from support.tree import describe, differences
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
    until(lambda: "done" in user.lines(job["id"], "?follow=0"), seconds=120)
    return job["id"]


def make(user, job, body=None, query="?wait=ready&timeout=60s", status=200):
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
    assert hashlib.sha256(whole.body).hexdigest() == sn["sha256"]
    assert whole["ETag"] == f'"{sn["sha256"]}"'
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
    for etag, status in ((whole["ETag"], 206), ('"' + "0" * 64 + '"', 200)):
        assert content(ann, sn["id"], headers={
            "Range": "bytes=5-", "If-Range": etag}).status == status
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


# --- at the end of a job, and into another one -----------------------------
FILL = """set -e
cd /root; mkdir -p a/b; echo one >a/f; chmod 4750 a/f; ln a/f a/b/g
ln -s ../../etc/passwd a/link; mkfifo a/fifo
truncate -s 30M a/holes; printf end | dd of=a/holes bs=1 seek=9000000 \
    conv=notrunc status=none
mkdir -m 1777 a/sticky; mkdir -m 0 a/closed; echo x >/tmp/t; echo y >/var/tmp/v
mkdir -p /home/u; chown 1000:100 /home/u; touch -d @1234567890 a/b
"""
MORE = """python3 -c 'import os
os.setxattr("/root/a/f", "user.note", bytes(range(256)))'
"""


def fs_of(gw, job):
    """(its fs/, the first of its ids)"""
    fs = gw.state_dir / "jobs" / job / "fs"
    return fs, int((fs.parent / "layout").read_text().split()[0])


def trees(gw, job, parts=("data/root", "data/home", "data/tmp",
                          "data/vartmp")):
    fs, base = fs_of(gw, job)
    return {p: describe(fs / p, base) for p in parts}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for part in a:
        assert differences(a[part], b[part]) == [], part


def ended(user, job):
    for _ in range(4):  # large ones, by slow builds, on busy machines
        got = user.json("GET", user.path(job)
                        + "?wait=terminal&timeout=60s", timeout=70)
        if got["finishedAt"]:
            break
    assert got["finishedAt"], got
    return got["status"]


def end_with(user, job, grace="200ms", query="", status=200):
    return user.json("POST", user.path(job, "cancel")
                     + f"?snapshot=1&grace={grace}" + query, status=status)


def ready(user, sid):
    sn = user.json("GET", f"/api/snapshots/{sid}?wait=ready&timeout=60s",
                   timeout=70)
    assert sn["state"] == "READY", sn
    return sn


def test_at_the_end_and_into_another(gw, ann):
    job = running(ann, FILL + MORE)
    was = trees(gw, job)
    assert was["data/root"][b"a/holes"]["sparse"]
    assert was["data/home"][b"u"]["ids"] == (1000, 100)
    sn = end_with(ann, job)
    assert sn["trigger"] == "ON_DELETE" and sn["state"] == "CREATING"
    assert end_with(ann, job)["id"] == sn["id"]
    assert ended(ann, job)["state"] == "TERMINATED"
    ready(ann, sn["id"])
    fs, _ = fs_of(gw, job)
    until(lambda: not fs.exists(), "what was kept to be removed")
    assert end_with(ann, job)["id"] == sn["id"]
    new = running(ann, "echo begins", restoreSnapshot=sn["id"])
    now = trees(gw, new)
    assert_same(was, now)
    assert fs_of(gw, new)[1] != fs_of_base(gw, job)
    assert ann.get(new)["restoreSnapshot"] == sn["id"]
    # It is the job's, not only there: read from inside, written to.
    third = ann.create(["/bin/sh", "-c", "cat /root/a/b/g; echo more >>"
                        "/root/a/f; cat /root/a/f; stat -c '%u %a' /home/u;"
                        "rm -r /root/a && echo gone"],
                       restoreSnapshot=sn["id"])["id"]
    assert ended(ann, third)["exitCode"] == 0
    assert ann.lines(third) == ["one", "one", "more", "1000 755", "gone"]
    ann.cancel(new)
    ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def fs_of_base(gw, job):
    text = gw.state_dir / "jobs" / job / "layout"
    return int(text.read_text().split()[0]) if text.exists() else None


def test_an_ended_job_has_nothing(ann):
    job = running(ann, "true")
    ann.cancel(job)
    ended(ann, job)
    r = ann.ask("POST", ann.path(job, "cancel") + "?snapshot=1")
    assert r.status == 409 and b"not_running" in r.body


def test_request_id_of_another_one(ann):
    """Nothing is ended for a snapshot that was made before."""
    job = running(ann, "true")
    name = str(uuid.uuid4())
    sn = make(ann, job, {"requestId": name})
    r = ann.ask("POST", ann.path(job, "cancel")
                + f"?snapshot=1&requestId={name}")
    assert r.status == 400 and b"requestId: was used" in r.body
    # A slip is no order to end it without one.
    r = ann.ask("POST", ann.path(job, "cancel") + "?snapshot=ja")
    assert r.status == 400 and b"snapshot: must be" in r.body
    assert ann.get(job)["status"]["state"] == "RUNNING"
    assert make(ann, job, {"requestId": name})["id"] == sn["id"]
    ann.cancel(job)
    ended(ann, job)
    ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def test_ends_while_it_is_read(gw, ann):
    """The files stay until they were read."""
    job = running(ann, "head -c 30000000 /dev/urandom >/root/big")
    made = make(ann, job, query="")
    ann.cancel(job, "?grace=0s")
    sn = ready(ann, made["id"])
    assert sn["bytes"] == 30000000 and sn["changed"] == 0
    ended(ann, job)
    until(lambda: not has_fs(gw, job))
    ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def has_fs(gw, job):
    return (gw.state_dir / "jobs" / job / "fs").exists()


def test_what_cannot_be_restored(gw, ann, job):
    bob = gw.users["bob"]
    sn = make(ann, job)
    for user, sid in ((ann, "0" * 24), (bob, sn["id"]), (ann, "../x")):
        r = user.ask("POST", user.path(), {"command": ["/bin/true"],
                                           "restoreSnapshot": sid})
        assert r.status == 404 and b"restoreSnapshot" in r.body
    r = ann.ask("POST", ann.path(), {"command": ["/bin/true"],
                                     "dockerImage": "other",
                                     "restoreSnapshot": sn["id"]})
    assert r.status == 400 and b"dockerImage" in r.body
    # What is broken says so in the job, and is not half there.
    file = next((gw.state_dir / "snapshots").glob(f"{sn['id']}*"))
    file.write_bytes(file.read_bytes()[:sn["size"] // 2])
    bad = ann.create(["/bin/echo", "ran"], restoreSnapshot=sn["id"])["id"]
    status = ended(ann, bad)
    assert status["state"] == "FAILED" and "snapshot" in status["message"]
    assert ann.lines(bad) == []
    until(lambda: not has_fs(gw, bad))
    ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def test_damaged(gw, ann):
    """The job that begins with it fails and says so, and nothing of it is
    there; also in a scratch volume of another name."""
    job = running(ann, "head -c 300000 /dev/urandom | tee /srv/f >/root/f",
                  volumes=[volume("a", "/srv")])
    whole, one = make(ann, job), make(ann, job, {"volume": "a"})
    for sn, more in ((whole, {}), (one, {"volumes": [volume("b", "/srv")],
                                         "restoreVolume": "b"})):
        file = next((gw.state_dir / "snapshots").glob(f"{sn['id']}*"))
        data = file.read_bytes()

        def begin():
            new = ann.create(["/bin/echo", "ran"], restoreSnapshot=sn["id"],
                             **more)["id"]
            return new, ended(ann, new)

        for at in (len(data) // 2, len(data) - 1):
            file.write_bytes(data[:at] + bytes([data[at] ^ 4])
                             + data[at + 1:])
            new, status = begin()
            assert status["state"] == "FAILED", status
            assert "the archive is damaged" in status["message"], status
            assert ann.lines(new) == []
            until(lambda: not has_fs(gw, new))
        file.write_bytes(data)
        assert ann.lines(begin()[0]) == ["ran"]


def test_of_an_earlier_gateway(tmp):
    """A record without a sum: nothing is compared."""
    gw = Control(tmp)
    ann = gw.user("ann")
    with gw:
        sn = make(ann, running(ann, "echo kept >/root/f"))
        gw.die()
        with sqlite3.connect(gw.state_dir / "jobs.db") as db:
            db.execute("UPDATE snapshot SET sha256 = NULL")
        db.close()
        gw.start()
        assert ann.json("GET", f"/api/snapshots/{sn['id']}")["sha256"] is None
        assert content(ann, sn["id"])["ETag"] == f'"{sn["id"]}"'
        new = ann.create(["/bin/cat", "/root/f"],
                         restoreSnapshot=sn["id"])["id"]
        assert ended(ann, new)["exitCode"] == 0
        assert ann.lines(new) == ["kept"]


def volume(name, place):
    return {"type": "scratch", "source": name, "mountPath": place}


def test_scratch_volumes(gw, ann):
    """All of them with the rest, or one alone; when a job is ended, each."""
    both = [volume("a", "/srv/a"), volume("b", "/srv/b")]
    job = running(ann, "trap '' TERM; echo 1 >/srv/a/f; echo 2 >/srv/b/f; "
                  "echo 3 >/root/f", volumes=both)
    r = ann.ask("POST", ann.path(job, "snapshots"), {"volume": "c"})
    assert r.status == 400 and b"volume" in r.body
    whole = make(ann, job)
    one = make(ann, job, {"volume": "a"})
    assert one["volume"] == "a" and whole["volume"] is None
    names, read = unpack(content(ann, one["id"]).body)
    assert sorted(names) == ["scratch/a/data", "scratch/a/data/f"]
    # It is still ending when the second one is asked for.
    last = [end_with(ann, job, "60s", f"&volume={v}") for v in "ab"]
    assert last[0]["id"] == end_with(ann, job, "0s", "&volume=a")["id"]
    assert {ready(ann, s["id"])["volume"] for s in last} == {"a", "b"}

    def begin(sid, volumes):
        return ann.lines(running(
            ann, "cat /srv/*/f /root/f 2>/dev/null || true",
            restoreSnapshot=sid, volumes=volumes), "?follow=0")[:-1]

    assert begin(whole["id"], both) == ["1", "2", "3"]
    assert begin(whole["id"], both[1:]) == ["2", "3"]
    assert begin(one["id"], both) == ["1"]
    assert begin(last[1]["id"], [volume("b", "/srv/elsewhere")]) == ["2"]
    r = ann.ask("POST", ann.path(), {"command": ["/bin/true"],
                                     "restoreSnapshot": one["id"]})
    assert r.status == 400 and b"scratch volume a" in r.body


# --- with an image ---------------------------------------------------------
def make_image(image):
    for d in ("bin", "etc", "proc", "dev", "sys", "tmp", "root", "lib",
              "opt/keep", "opt/gone/deep", "opt/hidden"):
        (image / d).mkdir(parents=True)
    shutil.copy2("/bin/busybox", image / "bin" / "busybox")
    for name in ("sh", "cat", "ls", "rm", "mkdir", "sleep", "echo", "find",
                 "mv", "chmod"):
        os.symlink("busybox", image / "bin" / name)
    for name in ("opt/keep/f", "opt/gone/f", "opt/gone/deep/f",
                 "opt/hidden/old", "etc/mine"):
        (image / name).write_text(f"image's {name}\n")


def test_with_an_image(tmp):
    make_image(tmp / "image")
    gw = Control(tmp, jobs=f"[image box]\nrootfs = {tmp}/image\n")
    ann = gw.user("ann")
    with gw:
        job = running(ann, "rm -r /opt/gone; rm -r /opt/hidden;"
                      "mkdir /opt/hidden; echo new >/opt/hidden/new;"
                      "echo changed >/etc/mine; rm /opt/keep/f;"
                      "echo h >/root/home; echo t >/tmp/t",
                      dockerImage="box")
        sn = end_with(ann, job)
        ready(ann, sn["id"])
        # The image comes with it.
        new = ann.create(
            ["/bin/sh", "-c", "find /opt | /bin/busybox sort; cat /etc/mine"
             " /opt/hidden/new /root/home /tmp/t; ls -A /opt/keep"],
            restoreSnapshot=sn["id"])
        assert new["dockerImage"] == "box"
        status = ended(ann, new["id"])
        assert status["exitCode"] == 0, (status, ann.lines(new["id"]))
        assert ann.lines(new["id"]) == [
            "/opt", "/opt/hidden", "/opt/hidden/new", "/opt/keep",
            "changed", "new", "h", "t"]
    assert (tmp / "image" / "opt" / "gone" / "f").exists()


# --- sudden ends -----------------------------------------------------------
def files(gw):
    return sorted(f.name for f in (gw.state_dir / "snapshots").iterdir())


def copying(gw):
    """Processes that have a file of the snapshots open."""
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/3"):
        try:
            if f"{gw.state_dir}/snapshots/" in os.readlink(link):
                found.append(link)
        except OSError:
            pass
    return found


def test_kill_9(tmp):
    """At several points of the copy: nothing half is left, what is READY is
    whole, and the job goes on."""
    gw = Control(tmp)
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 60000000 /dev/urandom >/root/big")
        done = make(ann, job)
        for progress in (0, 1, 20 << 20):
            sn = make(ann, job, query="")
            until(lambda: any(f.startswith(sn["id"]) for f in files(gw)))
            until(lambda: ann.json("GET", f"/api/snapshots/{sn['id']}")[
                "bytes"] >= progress, every=0.001)
            gw.die()
            gw.start()
            now = ann.json("GET", f"/api/snapshots/{sn['id']}")
            if now["state"] == "READY":  # it was done before we were
                ann.json("DELETE", f"/api/snapshots/{sn['id']}")
                until(lambda: len(files(gw)) == 1)
                continue
            assert now["state"] == "FAILED", now
            assert "interrupted" in now["reason"] and now["size"] == 0
            assert files(gw) == [done["id"] + ".tar.zst"]
            until(lambda: not copying(gw), "the end of who copied")
        names, _ = unpack(content(ann, done["id"]).body)
        assert names["data/root/big"].size == 60000000
        # At the stop, which is taken up: so is its snapshot, while the job
        # ends, while it is read, and when it ended meanwhile.
        second = running(ann, "trap '' TERM; echo x >/root/f")
        third = running(ann, "trap 'sleep 1; exit' TERM; echo y >/root/f;"
                        "echo done; while :; do sleep 0.01; done")
        last = [end_with(ann, j, grace)["id"] for j, grace in
                ((job, "0s"), (second, "1h"), (third, "1h"))]
        until(lambda: ann.json("GET", f"/api/snapshots/{last[0]}")[
            "bytes"] > 0, every=0.001)
        gw.die()
        until(lambda: (gw.state_dir / "jobs" / third / "exit.json").exists())
        gw.start()
        ann.cancel(second, "?grace=0s")
        for sid, j in zip(last, (job, second, third)):
            assert ready(ann, sid)["trigger"] == "ON_DELETE"
            ended(ann, j)
            until(lambda d=j: not has_fs(gw, d), seconds=20)
        for sid, text in zip(last[1:], (b"x\n", b"y\n")):
            names, read = unpack(content(ann, sid).body)
            assert read("data/root/f") == text
        for sid in last:
            ann.json("DELETE", f"/api/snapshots/{sid}")
        until(lambda: files(gw) == [done["id"] + ".tar.zst"])
        # A file that went, or is another one.
        (gw.state_dir / "snapshots" / (done["id"] + ".tar.zst")).unlink()
        gw.die()
        gw.start()
        now = ann.json("GET", f"/api/snapshots/{done['id']}")
        assert now["state"] == "FAILED" and "gone" in now["reason"]


def test_restoring_is_interrupted(tmp):
    """A gateway that dies leaves the start of a job to its supervisor; a stop
    ends it, and a snapshot that is deleted meanwhile is still read."""
    gw = Control(tmp)
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 100000000 /dev/urandom >/root/big")
        sn = end_with(ann, job)
        ready(ann, sn["id"])

        def begin(command):
            new = ann.create(["/bin/sh", "-c", command],
                             restoreSnapshot=sn["id"])["id"]
            until(lambda: (gw.state_dir / "jobs" / new / "fs/data/root/big")
                  .exists(), every=0.001)
            return new

        new = begin("stat -c %s /root/big")
        gw.die()
        gw.start()
        assert ended(ann, new)["exitCode"] == 0
        assert ann.lines(new) == ["100000000"]
        new = begin("exit 0")
        ann.cancel(new, "?grace=0s")
        assert ended(ann, new)["state"] in ("TERMINATED", "COMPLETED")
        until(lambda: not has_fs(gw, new))
        new = begin("stat -c %s /root/big")
        ann.json("DELETE", f"/api/snapshots/{sn['id']}")
        assert ended(ann, new)["exitCode"] == 0
        assert ann.lines(new) == ["100000000"]


def test_1_gib(gw, ann):
    """There and back, with memory that does not grow with it."""
    text = "yes 'a line of text' | head -c 1G"
    job = running(ann, f"{text} >/root/big; truncate -s 1T /root/holes")
    before = gw.master_kib()
    sn = ready(ann, make(ann, job)["id"])
    assert sn["state"] == "READY" and sn["bytes"] == 1 << 30, sn
    assert sn["size"] < 64 << 20
    ann.cancel(job, "?grace=0s")
    new = ann.create(["/bin/sh", "-c", f"{text} | cmp - /root/big && "
                      "stat -c '%s %b' /root/holes"],
                     restoreSnapshot=sn["id"])["id"]
    assert ended(ann, new)["exitCode"] == 0
    assert ann.lines(new) == [f"{1 << 40} 0"]
    assert gw.master_kib() - before < 4096 * paths.SLOW
    ann.json("DELETE", f"/api/snapshots/{sn['id']}")


def test_given_up(tmp):
    """Deleting what is being made, and what waits for its turn."""
    gw = Control(tmp, jobs="[snapshots]\nconcurrent = 1\n")
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 100000000 /dev/urandom >/root/big")
        first, second, third = [make(ann, job, query="") for _ in range(3)]
        assert ann.json("DELETE", f"/api/snapshots/{second['id']}")[
            "state"] == "DELETING"
        ann.json("DELETE", f"/api/snapshots/{first['id']}")
        ready(ann, third["id"])
        for sn in (first, second):
            assert ann.ask("GET", f"/api/snapshots/{sn['id']}").status == 404
        assert files(gw) == [third["id"] + ".tar.zst"]
        waits = make(ann, job, query="")
        ann.json("DELETE", f"/api/snapshots/{waits['id']}")
        until(lambda: ann.ask("GET", f"/api/snapshots/{waits['id']}").status
              == 404)


def test_bounds(tmp):
    gw = Control(tmp, jobs="[snapshots]\nmax_bytes = 1M\nmax_count = 2\n")
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 2000000 /dev/zero >/root/big")
        sn = make(ann, job)
        assert sn["state"] == "FAILED" and "1048576 bytes" in sn["reason"], sn
        assert files(gw) == []
        r = ann.ask("GET", f"/api/snapshots/{sn['id']}/content")
        assert r.status == 409 and b"FAILED" in r.body
        other = running(ann, "true")
        for _ in range(2):
            assert make(ann, other)["state"] == "READY"
        r = ann.ask("POST", ann.path(other, "snapshots"))
        assert r.status == 429 and b"too_many_snapshots" in r.body


def test_too_many_downloads(tmp):
    """Who does not read cannot have all of the gateway's descriptors."""
    gw = Control(tmp, jobs="max_streams = 2\n")
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 30000000 /dev/urandom >/root/big")
        path = f"/api/snapshots/{make(ann, job)['id']}/content"
        slow = [ann.stream(path)[0] for _ in range(2)]
        r = ann.ask("GET", path)
        assert r.status == 429 and b"too_many_streams" in r.body
        slow[0].abort()
        until(lambda: ann.ask("GET", path).status == 200)
        slow[1].abort()


def test_full_disk(tmp):
    """A file system with no room, in a mount namespace of our own."""
    (tmp / "small").mkdir()
    gw = Control(tmp, jobs=f"[snapshots]\ndir = {tmp}/small/s\n")
    gw.argv = ["unshare", "-m", "sh", "-c",
               f'mount -t tmpfs -o size=8m none {tmp}/small && exec "$@"',
               "sh"] + gw.argv
    ann = gw.user("ann")
    with gw:
        job = running(ann, "head -c 30000000 /dev/urandom >/root/big")
        sn = make(ann, job)
        assert sn["state"] == "FAILED" and "space" in sn["reason"], sn
        inside = f"/proc/{gw.proc.pid}/root{tmp}/small/s"
        assert os.listdir(inside) == []
        other = running(ann, "echo x >/root/f")
        assert make(ann, other)["state"] == "READY"


def test_directory_cannot_be_synced(tmp):
    """It is READY when its name is on disk, too; the gateway does not wait."""
    (tmp / "bin").mkdir()
    (tmp / "bin" / "sync").write_text(
        f"#!/bin/sh\necho $$ >{tmp}/pid\nread x <{tmp}/go\n"
        "echo a bad disk >&2\nexit 1\n")
    (tmp / "bin" / "sync").chmod(0o755)
    os.mkfifo(tmp / "go")
    gw = Control(tmp)
    gw.argv = ["env", f"PATH={tmp}/bin:/usr/bin:/bin"] + gw.argv
    ann = gw.user("ann")
    with gw:
        job = running(ann, "echo x >/root/f")
        for end in ("fails", "given up"):
            (tmp / "pid").unlink(missing_ok=True)
            sn = make(ann, job, query="")
            until(lambda: (tmp / "pid").exists())
            assert files(gw) == [sn["id"] + ".tar.zst"]
            path = f"/api/snapshots/{sn['id']}"
            now = ann.json("GET", path)
            assert now["state"] == "CREATING", now
            assert now["size"] == 0 and now["sha256"] is None
            if end == "fails":
                (tmp / "go").write_text("\n")
                now = ann.json("GET", path + "?wait=ready", timeout=70)
                assert now["state"] == "FAILED", now
                assert now["reason"] == "a bad disk" and now["size"] == 0
            ann.json("DELETE", path)
            until(lambda: ann.ask("GET", path).status == 404)
            assert files(gw) == []
