# SPDX-License-Identifier: Apache-2.0
"""Snapshots through the CoreWeave service, as its clients use them: of a
scratch volume, live and at the end, restored into another sandbox."""

import concurrent.futures
import json
import time
import uuid

import pytest

from support import paths
from support.connect import RpcError, raised
from support.coreweave import Box, Face
from support.wait import until

pytestmark = pytest.mark.root

MISSING = "CWSANDBOX_FSS_NOT_FOUND"
PLACE = "/workspace"
# Everything about a tree but times of directories.
LOOK = (f"cd {PLACE} && find . -printf '%P %y %m %n %l %s\\n' | sed 's/^\\(.* d "
        ".*\\) [0-9]*$/\\1/' | sort && find . -type f -exec md5sum {} + | sort")
FILL = f"""cd {PLACE} && mkdir -p deep/er empty && echo hello > a &&
ln a deep/hard && ln -s /etc/passwd out && ln -s ../a deep/in && ln -s no dead &&
: > none && head -c 300000 /dev/urandom > random && chmod 4751 random &&
chmod 700 deep && touch "$(printf 'n\\303\\266t \\377 ascii')" &&
truncate -s 64M sparse && printf x | dd of=sparse bs=1 seek=1000000 \
conv=notrunc 2>/dev/null && mkfifo pipe"""


@pytest.fixture(scope="module")
def gw(module_tmp):
    with Face(module_tmp) as gw:
        yield gw


@pytest.fixture(scope="module")
def ann(gw):
    return gw.ann


def volume(snapshot=None, name="work", place=PLACE):
    scratch = {"size": "1Gi"}
    if snapshot:
        scratch["restoreFromSnapshotId"] = snapshot
    return {"volumes": [{"name": name, "scratch": scratch}],
            "container": {"volumeMounts": [{"volume": name,
                                            "mountPath": place}]}}


def get(cw, snapshot):
    return cw.call("GetFileSystemSnapshot",
                   {"fileSystemSnapshotId": snapshot})


def delete(cw, snapshot, **more):
    return cw.call("DeleteFileSystemSnapshot",
                   {"fileSystemSnapshotId": snapshot, **more})


def ready(cw, snapshot, seconds=60):
    """The record once it is READY."""
    end = time.monotonic() + seconds * paths.SLOW
    while True:
        got = get(cw, snapshot)
        if got["state"] == "SNAPSHOT_STATE_READY":
            return got
        assert got["state"] == "SNAPSHOT_STATE_CREATING", got
        assert time.monotonic() < end, got
        time.sleep(0.02)


def take(box, **more):
    """Its id, when it is READY."""
    got = box.cw.call("CreateFileSystemSnapshot", {
        "sandboxId": box.id, "requestId": str(uuid.uuid4()), **more})
    return ready(box.cw, got["fileSystemSnapshotId"])["fileSystemSnapshotId"]


def listed(cw, **what):
    found, token = [], ""
    while True:
        got = cw.call("ListFileSystemSnapshots", dict(what, pageToken=token))
        found += [s["fileSystemSnapshotId"]
                  for s in got.get("fileSystemSnapshots", [])]
        token = got.get("nextPageToken", "")
        if not token:
            return found


@pytest.fixture(scope="module")
def source(ann):
    box = ann.box(**volume())
    ran = box.run(FILL)
    assert ran.code == 0, ran.err
    return box


def test_volume_is_writable(source):
    assert source.run(f"test -w {PLACE} && stat -c %a {PLACE}").code == 0
    assert source.run(f"cd {PLACE} && touch x && rm x").code == 0


def test_restore(ann, source):
    """All that a tree can hold comes back, and copies are apart."""
    want = source.run(LOOK).out
    taken = take(source)
    record = get(ann, taken)
    assert record["sourceSandboxId"] == source.id
    assert record["trigger"] == "SNAPSHOT_TRIGGER_MANUAL"
    assert record["createTime"] <= record["completeTime"]
    assert 300000 < int(record["sizeBytes"])
    copy = ann.box(**volume(taken))
    got = copy.run(LOOK)
    assert got.code == 0 and got.out == want
    assert copy.run(f"cat {PLACE}/out").out == source.run("cat /etc/passwd").out
    blocks = copy.run(f"stat -c %b {PLACE}/sparse").out
    assert int(blocks) * 512 < 1 << 20, "the hole was filled"
    assert copy.run(f"cd {PLACE} && [ a -ef deep/hard ] && echo new > a").code == 0
    assert source.run(f"cat {PLACE}/a").out == b"hello\n"
    again = ann.box(**volume(taken))
    assert again.run(LOOK).out == want
    for box in (copy, again):
        box.stop()


def test_another_place(ann, source):
    """The same content elsewhere."""
    copy = ann.box(**volume(take(source), "work", "/data"))
    assert copy.run("cat /data/a").out == b"hello\n"
    copy.stop()


def test_while_it_changes(ann):
    """A running sandbox goes on during it, and what it gives is whole."""
    box = ann.box(**volume(), args=["-c", f"cd {PLACE}; i=0; while :; do "
                                    "echo $i > f$((i % 50)); mv f$((i % 50)) "
                                    "g$((i % 50)); i=$((i+1)); done"])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: take(box), range(4)))
    assert len(set(taken)) == 4
    assert box.state == "STATE_RUNNING"
    copy = ann.box(**volume(taken[0]))
    assert copy.run(f"cd {PLACE} && ls | wc -l && cat g* > /dev/null").code == 0
    copy.stop()
    box.stop()


def test_on_delete(ann):
    box = ann.box(**volume(), args=["-c", "trap 'exit 0' TERM; "
                                    "sleep infinity & wait"])
    box.run(f"echo bye > {PLACE}/farewell")
    rid = str(uuid.uuid4())
    got = box.delete(3600, snapshotVolumes=["work"], requestId=rid)
    taken, = got["fileSystemSnapshotIds"]
    assert got["sandbox"]["sandboxId"] == box.id
    record = ready(ann, taken)
    assert record["trigger"] == "SNAPSHOT_TRIGGER_ON_DELETE"
    assert record["sourceSandboxId"] == box.id
    assert box.wait()["state"] == "STATE_TERMINATED"
    copy = ann.box(**volume(taken))
    assert copy.run(f"cat {PLACE}/farewell").out == b"bye\n"
    copy.stop()
    # asked once more it is the same one
    got = box.delete(3600, snapshotVolumes=["work"], requestId=rid)
    assert got.get("fileSystemSnapshotIds", [taken]) == [taken]


def test_on_delete_with_allow_missing(ann, source):
    raised("invalid_argument", "CWSANDBOX_INVALID_REQUEST", source.delete,
           snapshotVolumes=["work"], allowMissing=True)
    assert source.state == "STATE_RUNNING"


def test_request_id(ann, source):
    rid = str(uuid.uuid4())

    def make(_):
        return ann.call("CreateFileSystemSnapshot", {
            "sandboxId": source.id, "requestId": rid})["fileSystemSnapshotId"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(make, range(8)))
    assert len(ids) == 1
    assert ready(ann, ids.pop())["requestId"] == rid


def test_list(ann, gw):
    box = ann.box(**volume())
    other = ann.box(**volume())
    mine = [take(box) for _ in range(3)]
    theirs = take(other)
    assert listed(ann, sourceSandboxId=box.id) == mine[::-1]
    assert listed(ann, sourceSandboxId=box.id, pageSize=2) == mine[::-1]
    everything = listed(ann, pageSize=3)
    assert len(everything) == len(set(everything))
    assert {*mine, theirs} <= set(everything)
    assert listed(gw.bob) == []
    other.stop(), box.stop()
    # they outlive what they are of
    assert listed(ann, sourceSandboxId=box.id) == mine[::-1]


def test_delete(ann, gw, source):
    taken = take(source)
    copy = ann.box(**volume(taken))
    files = set((gw.state_dir / "snapshots").iterdir())
    got = delete(ann, taken)
    assert got["fileSystemSnapshotId"] == taken
    raised("not_found", MISSING, get, ann, taken)
    until(lambda: len(set((gw.state_dir / "snapshots").iterdir()))
          < len(files), "its file to be gone")

    def again():
        try:
            return delete(ann, taken)["state"] != "SNAPSHOT_STATE_DELETING"
        except RpcError as e:
            assert (e.code, e.reason) == ("not_found", MISSING), e
            return True
    until(again, "it to be gone")
    delete(ann, taken, allowMissing=True)
    assert taken not in listed(ann)
    assert copy.run(f"cat {PLACE}/a").out == b"hello\n"
    copy.stop()
    raised("not_found", MISSING, ann.create, **volume(taken))


def test_others(ann, gw, source):
    taken = take(source)
    for snapshot in (taken, "0123456789abcdef01234567", "no", "../x"):
        raised("not_found", MISSING, get, gw.bob, snapshot)
        raised("not_found", MISSING, delete, gw.bob, snapshot)
    raised("not_found", MISSING, gw.bob.create, **volume(taken))
    raised("not_found", "CWSANDBOX_SANDBOX_NOT_FOUND",
           take, Box(gw.bob, source.id))
    raised("permission_denied", None, delete, gw.eve, taken)
    raised("permission_denied", None, take, Box(gw.eve, source.id))
    assert get(gw.eve, taken)["state"] == "SNAPSHOT_STATE_READY"


def test_refused(ann, source):
    raised("invalid_argument", None, take, source, scratchVolumeName="none")
    raised("invalid_argument", None, source.delete, snapshotVolumes=["none"])
    assert source.state == "STATE_RUNNING"
    raised("not_found", "CWSANDBOX_SANDBOX_NOT_FOUND",
           take, Box(ann, "0123456789abcdef01234567"))
    ended = ann.new(args=["-c", "exit 0"], **volume())
    ended.wait()
    with pytest.raises(RpcError) as e:
        take(ended)
    assert e.value.code == "failed_precondition" and e.value.message


@pytest.mark.parametrize("what", [
    {"volumes": [{"name": "a", "scratch": {}}, {"name": "a", "scratch": {}}]},
    {"volumes": [{"name": "", "scratch": {}}]},
    {"volumes": [{"name": "a", "scratch": {"size": "much"}}]},
    {"container": {"volumeMounts": [{"volume": "none", "mountPath": "/x"}]}},
    volume(place="relative"), volume(place="/"), volume(place="/proc"),
    volume(place="/x/../y")])
def test_bad_volumes(ann, what):
    raised("invalid_argument", None, ann.create, **what)


def test_rest(ann, source):
    status, got = ann.rest("POST", f"/sandboxes/{source.id}:snapshot", {})
    assert status == 200, got
    taken = got["fileSystemSnapshotId"]
    path = f"/fileSystemSnapshots/{taken}"
    ready(ann, taken)
    assert ann.rest("GET", path) == (200, get(ann, taken))
    status, got = ann.rest("GET", "/fileSystemSnapshots",
                           query={"sourceSandboxId": source.id})
    assert taken in [s["fileSystemSnapshotId"]
                     for s in got["fileSystemSnapshots"]]
    assert ann.rest("DELETE", path)[0] == 200
    status, got = ann.rest("DELETE", path)
    assert status == 404 and MISSING in json.dumps(got)


# --- the gateway's own life --------------------------------------------------
def test_sudden_death(tmp):
    """kill -9 half-way: no half snapshot, ever; whole ones stay."""
    with Face(tmp) as gw:
        box = gw.ann.box(**volume())
        box.run(f"echo kept > {PLACE}/a")
        kept = take(box)
        box.run(f"head -c 300M /dev/urandom > {PLACE}/big")
        half = gw.ann.call("CreateFileSystemSnapshot",
                           {"sandboxId": box.id})["fileSystemSnapshotId"]
        folder = gw.state_dir / "snapshots"
        until(lambda: any(f.stat().st_size for f in folder.iterdir()
                          if kept not in f.name), "it to begin")
        gw.die()
        gw.start()
        box.cw = gw.ann
        got = get(gw.ann, half)
        if got["state"] != "SNAPSHOT_STATE_READY":  # it may have been quick
            assert got["state"] == "SNAPSHOT_STATE_FAILED", got
            assert got["stateReason"]
            until(lambda: not [f for f in folder.iterdir()
                               if kept not in f.name], "its file to be gone")
            raised("failed_precondition", "CWSANDBOX_FSS_NOT_READY",
                   gw.ann.create, **volume(half))
        assert get(gw.ann, kept)["state"] == "SNAPSHOT_STATE_READY"
        copy = gw.ann.box(**volume(kept))
        assert copy.run(f"cat {PLACE}/a").out == b"kept\n"
        box.run(f"rm {PLACE}/big")
        assert take(box)
