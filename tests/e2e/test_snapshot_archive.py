# SPDX-License-Identifier: Apache-2.0
"""The process that writes and reads archives, alone: every kind of file goes
there and back, trees that change are read, hostile archives are refused."""

import concurrent.futures
import fcntl
import gzip
import hashlib
import io
import os
import pathlib
import resource
import shutil
import subprocess
import tarfile
import tempfile
import threading

import pytest

from support import paths
from support.tree import describe, differences

ROOT = os.geteuid() == 0
BASE = 1500000000 if ROOT else os.geteuid()
PARTS = ("upper", "data/root", "data/home", "data/tmp", "data/vartmp")


def create(fs, archive, max_bytes=1 << 40, max_files=1 << 20, uid=BASE,
           uids=65536):
    """The last line that it said, in words."""
    tree = os.open(fs, os.O_RDONLY | os.O_DIRECTORY)
    out = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    said, report = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
            for fd in (out, tree, report)]

    def place():
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)

    with subprocess.Popen(
            [paths.GATEWAY, "snapshot-create", str(uid), str(uids),
             str(max_bytes), str(max_files)], env=paths.child_env(),
            preexec_fn=place, close_fds=False) as p:
        for fd in (tree, out, report, *high):
            os.close(fd)
        with open(said, encoding="ascii") as f:
            lines = f.read().splitlines()
    assert lines and (p.returncode == 0) == (lines[-1][:3] == "ok "), lines
    return lines[-1].split(" ", 2 if lines[-1].startswith("error") else -1)


def restore(fs, archive, max_bytes=1 << 40, max_files=1 << 20, uid=BASE,
            uids=65536, more=()):
    """None, or why not."""
    env = {"SBX_FS_UID": str(uid), "SBX_FS_UIDS": str(uids)}
    p = subprocess.run(
        [paths.GATEWAY, "snapshot-restore", archive, str(max_bytes),
         str(max_files), *more], cwd=fs, capture_output=True, text=True, check=False,
        env=paths.child_env(env), timeout=60)
    assert p.stdout == "" and (p.returncode == 0) == (p.stderr == ""), p
    assert p.returncode in (0, 1), p
    return p.stderr or None


def layout(top):
    for part in PARTS:
        os.makedirs(top / part)
        os.chown(top / part, BASE, BASE if ROOT else -1)
    return top


@pytest.fixture
def fs(tmp):
    return layout(tmp / "fs")


@pytest.fixture
def to(tmp):
    return layout(tmp / "to")


def own(top):
    """All that is in there becomes the job's."""
    for where, dirs, files in os.walk(os.fsencode(top)):
        for name in dirs + files:
            if ROOT:
                path = os.path.join(where, name)
                mode = os.lstat(path).st_mode
                os.chown(path, BASE, BASE, follow_symlinks=False)
                if not os.path.islink(path):
                    os.chmod(path, mode & 0o7777)


def is_whiteout(path):
    st = os.lstat(path)
    return st.st_rdev == 0 and (st.st_mode & 0o170000) == 0o020000


def every_kind(up):
    """One of each beneath up."""
    (up / "empty").touch()
    (up / "text").write_bytes(b"hello\n")
    (up / "text").chmod(0o4751)
    os.link(up / "text", up / "a-link")
    (up / "dir").mkdir()
    os.link(up / "text", up / "dir" / "b-link")
    (up / "dir").chmod(0o3775)
    (up / "secret").mkdir(0o700)
    (up / "secret" / "f").write_bytes(b"x" * 100)
    (up / "secret").chmod(0)
    os.symlink("/etc/passwd", up / "absolute")
    os.symlink("../../../../..", up / "upwards")
    os.symlink("x" * 4000, up / "long")
    os.mkfifo(up / "fifo", 0o600)
    with open(up / "holes", "wb") as f:
        for at in (0, 5 << 20, 9 << 20):
            f.seek(at)
            f.write(b"data" * 1000)
        f.truncate(20 << 20)
    with open(up / "all-hole", "wb") as f:
        f.truncate(7 << 20)
    with open(up / "head-hole", "wb") as f:
        f.seek(1 << 20)
        f.write(b"end")
    open(os.fsencode(up) + b"/bytes \xff\n\\ \xc3\xa9", "wb").close()
    deep = up
    for _ in range(12):
        deep = deep / ("d" * 250)
        deep.mkdir()
    (deep / ("e" * 250)).write_bytes(b"deep")
    for name in ("user.note", "user.bin"):
        os.setxattr(up / "text", name, b"\0\1\xff" * 30)
    os.setxattr(up / "dir", "user.big", b"v" * 1000)
    for name in (b"user.a=b c", b"user.%41", b"user.\xc3\xa9\xff"):
        os.setxattr(up / "dir", name, b"odd")
    os.utime(up / "text", ns=(0, 1234567890123456789))
    os.utime(up / "absolute", ns=(0, 987654321987654321),
             follow_symlinks=False)


def overlay_marks(up):
    """As the overlay file system marks what is gone."""
    kind = "trusted" if ROOT else "user"
    os.mknod(up / "deleted", 0o020000, 0)
    (up / "opaque").mkdir()
    os.setxattr(up / "opaque", f"{kind}.overlay.opaque", b"y")
    (up / "moved").mkdir()
    os.setxattr(up / "moved", f"{kind}.overlay.redirect", b"/old")


def acl(*ids):
    """As the kernel has it: one entry for each of the users."""
    def e(tag, perm, who=0xffffffff):
        return tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + \
            who.to_bytes(4, "little")

    return b"\2\0\0\0" + e(1, 7) + b"".join(e(2, 6, i) for i in ids) + \
        e(4, 5) + e(16, 7) + e(32, 5)


def test_there_and_back(fs, to, tmp):
    for part in PARTS:
        every_kind(fs / part)
    overlay_marks(fs / "upper")
    own(fs)
    if ROOT:
        os.chown(fs / "upper" / "empty", BASE + 1000, BASE + 65535)
        os.setxattr(fs / "upper" / "empty", "security.capability",
                    b"\1\0\0\3\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                    + BASE.to_bytes(4, "little"))
        os.setxattr(fs / "upper" / "empty", "system.posix_acl_access",
                    acl(BASE + 5))
    os.utime(fs / "upper" / "dir", ns=(0, 10**18))
    said = create(fs, tmp / "a")
    assert said[0] == "ok" and said[3:5] == ["0", "0"], said
    assert (tmp / "a").stat().st_size < 1 << 20
    there = BASE + 1000000 if ROOT else BASE
    assert restore(to, tmp / "a", uid=there) is None
    for part in PARTS:
        a, b = describe(fs / part, BASE), describe(to / part, there)
        for one, base in ((a, BASE), (b, there)):
            x = one.get(b"empty", {}).get("xattrs", {})
            if x:
                cap = x.pop("security.capability")
                assert cap[:2] == b"\1\0"
                assert int.from_bytes(cap[20:24], "little") == base
                assert x.pop("system.posix_acl_access") == acl(base + 5)
        assert differences(a, b) == []
        assert a[b"holes"]["sparse"] and a[b"text"]["links"] == 3
    assert is_whiteout(to / "upper" / "deleted")


@pytest.mark.root
def test_ids_of_others(fs, to, tmp):
    """What the job could not have made is not its own; ids that it cannot have
    become nobody's."""
    up = fs / "upper"
    (up / "mine").touch()
    (up / "theirs").touch()
    (up / "there").mkdir()
    (up / "there" / "mine").touch()
    own(fs)
    os.chown(up / "theirs", 0, 0)
    os.chown(up / "there", 0, 0)
    os.chown(up / "mine", BASE, 12)
    assert create(fs, tmp / "a")[0] == "ok"
    assert restore(to, tmp / "a") is None
    assert sorted(os.listdir(to / "upper")) == ["mine"]
    st = (to / "upper" / "mine").stat()
    assert (st.st_uid, st.st_gid) == (BASE, BASE + 65534)


@pytest.mark.root
def test_sockets_and_devices(fs, tmp):
    import socket
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(fs / "data" / "tmp" / "sock"))
    os.mknod(fs / "data" / "tmp" / "null", 0o020666, os.makedev(1, 3))
    own(fs)
    said = create(fs, tmp / "a")
    assert said[0] == "ok" and said[4] == "2", said


def test_bounds(fs, to, tmp):
    (fs / "upper" / "a").write_bytes(os.urandom(100000))
    for i in range(20):
        (fs / "data" / "root" / f"f{i}").touch()
    own(fs)
    for bounds, word in (({"max_bytes": 99999}, "bytes"),
                         ({"max_files": 20}, "files")):
        said = create(fs, tmp / "a", **bounds)
        assert said[:2] == ["error", "-4"] and word in said[2], said
    assert create(fs, tmp / "a", max_bytes=100000, max_files=26)[0] == "ok"
    for bounds, word in (({"max_bytes": 99999}, "bytes"),
                         ({"max_files": 20}, "files")):
        shutil.rmtree(to)
        assert word in restore(layout(to), tmp / "a", **bounds)


def test_holes_without_end(fs, tmp):
    """Holes are cheap, and bounded all the same."""
    made = 0
    for i in range(200):
        with open(fs / "upper" / f"h{i}", "wb") as f:
            try:
                f.truncate(8 << 40)
                made += 8 << 40
            except OSError:
                break  # more than this file system has files of
    own(fs)
    said = create(fs, tmp / "a")
    if made > 1 << 50:
        assert said[:2] == ["error", "-4"] and "holes" in said[2], said


def test_too_deep(fs, tmp):
    """Deeper than any path can say."""
    at = os.open(fs / "upper", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        down = os.open("d", os.O_RDONLY, dir_fd=at)
        if ROOT:
            os.chown(down, BASE, BASE)
        os.close(at)
        at = down
    os.close(at)
    said = create(fs, tmp / "a")
    assert said[:2] == ["error", "-4"], said
    # shutil.rmtree goes too deep for Python.
    subprocess.run(["rm", "-rf", fs], check=True)


def test_a_tree_that_changes(fs, tmp):
    """Whatever happens meanwhile, the archive is whole and says so."""
    up, end = fs / "upper", threading.Event()
    for i in range(300):
        (up / f"f{i}").write_bytes(b"x" * (1 << 16))
    own(fs)

    def churn():
        n = 0
        while not end.is_set():
            n += 1
            for i in range(300):
                path = up / f"f{i}"
                match (n + i) % 5:
                    case 0:
                        path.unlink(missing_ok=True)
                    case 1:
                        path.write_bytes(b"y" * (1 << 17))
                    case 2:
                        open(path, "w").close()
                    case 3:
                        path.unlink(missing_ok=True)
                        path.symlink_to("/etc/passwd")
                    case 4:
                        path.unlink(missing_ok=True)
                        path.mkdir(exist_ok=True)
                        path.rmdir()
                if ROOT and os.path.lexists(path):
                    os.chown(path, BASE, BASE, follow_symlinks=False)

    t = threading.Thread(target=churn)
    t.start()
    changed = 0
    try:
        for i in range(100):
            if i >= 8 and changed > 0:
                break
            said = create(fs, tmp / "a")
            assert said[0] == "ok", said
            changed += int(said[3])
            data = unpacked(tmp / "a")
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for m in tar:
                    if m.isreg():
                        assert len(tar.extractfile(m).read()) == m.size
                        assert set(tar.extractfile(m).read()) <= set(b"xy\0")
    finally:
        end.set()
        t.join()
    assert changed > 0


def test_files_replaced_while_they_are_read(to, tmp):
    """Each is in the archive once, wherever the file system puts the new ones
    in its directory (a tmpfs: at its beginning). What reads them is stopped
    amid the names by a pipe that holds less than it writes at once."""
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp
    fs = layout(pathlib.Path(tempfile.mkdtemp(dir=shm)))
    os.mkfifo(tmp / "pipe")
    try:
        fill(fs)
        end = os.open(tmp / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        with concurrent.futures.ThreadPoolExecutor() as pool, \
                open(end, "rb", buffering=0) as f:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
            os.set_blocking(end, True)
            # Until all is said somebody may write.
            keep = os.open(tmp / "pipe", os.O_WRONLY)
            said = pool.submit(create, fs, tmp / "pipe")
            said.add_done_callback(lambda _: os.close(keep))
            data = f.read(1)
            fill(fs)
            data += f.readall()
            # A pipe cannot be synced: it is whole for all that.
            assert "Invalid argument" in said.result()[-1]
        (tmp / "a").write_bytes(data)
        assert restore(to, tmp / "a") is None
        got = list((to / "data" / "tmp").iterdir())
        assert got and {f.stat().st_size for f in got} == {1000}
    finally:
        shutil.rmtree(fs)


NAMES = 2500


def fill(fs):
    """Files of 1000 bytes that are not those that were there, and are never
    there without their bytes and their owner."""
    for i in range(NAMES):
        new, name = fs / "new", fs / "data" / "tmp" / f"f{i}"
        new.write_bytes(os.urandom(1000))
        if ROOT:
            os.chown(new, BASE, BASE)
        name.unlink(missing_ok=True)
        new.rename(name)


def unpacked(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    return subprocess.run(["zstd", "-dc"], input=data, capture_output=True,
                          check=True).stdout


def hostile(path, *members):
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, more in members:
            m = tarfile.TarInfo(name)
            data = more.pop("data", b"")
            m.size = len(data)
            for k, v in more.items():
                setattr(m, k, v)
            tar.addfile(m, io.BytesIO(data) if data else None)
    return path


DIR = {"type": tarfile.DIRTYPE, "mode": 0o755}
LINK = tarfile.SYMTYPE
HARD = tarfile.LNKTYPE


@pytest.mark.parametrize("members", [
    [("/etc/evil", {"data": b"x"})],
    [("../evil", {"data": b"x"})],
    [("upper/../../evil", {"data": b"x"})],
    [("upper/./evil", {"data": b"x"})],
    [("upper//evil", {"data": b"x"})],
    [("evil", {"data": b"x"})],
    [("upperevil", {"data": b"x"})],
    [("data/evil", {"data": b"x"})],
    [("data/homes/evil", {"data": b"x"})],
    [("upper/l", {"type": LINK, "linkname": "/"}),
     ("upper/l/evil", {"data": b"x"})],
    [("upper/l", {"type": LINK, "linkname": "../.."}),
     ("upper/l/evil", {"data": b"x"})],
    [("upper/l", {"type": LINK, "linkname": "evil"}),
     ("upper/l", {"data": b"x"})],
    [("upper/l", {"type": LINK, "linkname": "/"}), ("upper/l", dict(DIR))],
    [("upper/h", {"type": HARD, "linkname": "/etc/passwd"})],
    [("upper/h", {"type": HARD, "linkname": "../a"})],
    [("upper/h", {"type": HARD, "linkname": "upper/../../a"})],
    [("upper/h", {"type": HARD, "linkname": "upper/none"})],
    [("upper/h", {"type": HARD, "linkname": "upper"})],
    [("upper/l", {"type": LINK, "linkname": "/etc/passwd"}),
     ("upper/h", {"type": HARD, "linkname": "upper/l"})],
    [("upper/d", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    [("upper/d", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    [("upper/none/f", {"data": b"x"})],
    [("upper/f", {"data": b"x"}), ("upper/f/g", {"data": b"x"})],
    [("upper/f", {"data": b"x"}), ("upper/f", {"data": b"y"})],
    [("upper/" + "d/" * 2500 + "f", {"data": b"x"})],
])
def test_hostile(to, tmp, members):
    (tmp / "a").write_bytes(b"mine")
    members = [(n, dict(m)) for n, m in members]
    why = restore(to, hostile(tmp / "x", *members))
    assert why and why.count("\n") == 1, why
    assert (tmp / "a").stat().st_nlink == 1
    assert not list(tmp.rglob("evil")) and not os.path.lexists("/etc/evil")


def test_no_archive(to, tmp):
    good = hostile(tmp / "x", ("upper/f", {"data": os.urandom(100000)}))
    data = good.read_bytes()
    for bad in (b"hello", data[:len(data) // 2], b"\x28\xb5\x2f\xfd" * 10,
                bytes(len(data)), gzip.compress(bytes(10240))):
        (tmp / "y").write_bytes(bad)
        shutil.rmtree(to)
        assert restore(layout(to), tmp / "y"), bad[:20]
    assert "restored" in restore(to, tmp / "none")
    os.symlink(good, tmp / "link")
    assert restore(to, tmp / "link")


@pytest.fixture(params=["zstd", "gzip"])
def summed(request, fs, tmp):
    """An archive, the same tree's with other bytes, and its sum. With gzip: as
    where libarchive has no zstd."""
    made = []
    for name in ("a", "b"):
        (fs / "data" / "tmp" / "noise").write_bytes(os.urandom(300000))
        (fs / "data" / "tmp" / "text").write_bytes(name.encode() * 300000)
        own(fs)
        said = create(fs, tmp / name)
        assert said[0] == "ok", said
        assert said[5] == sha256(tmp / name)
        if request.param == "gzip":
            (tmp / name).write_bytes(gzip.compress(unpacked(tmp / name)))
        made.append(tmp / name)
    return *made, sha256(made[0])


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_damaged(to, summed, tmp):
    """Whatever is wrong with its file, also where nobody would look."""
    good, other, was = summed
    data = good.read_bytes()

    def flipped(at):
        one = bytearray(data)
        one[at] ^= 1
        return bytes(one)

    bad = [flipped(at) for at in
           (0, 100, len(data) // 2, len(data) - 9, len(data) - 1)]
    bad += [data[:-1], data[:len(data) // 2], data[:10], b"", data + b"\0",
            data + data, other.read_bytes()]
    for i, one in enumerate(bad):
        shutil.rmtree(to)
        (tmp / "bad").write_bytes(one)
        why = restore(layout(to), tmp / "bad", more=[was])
        assert why and why.endswith(": the archive is damaged\n"), (i, why)
    shutil.rmtree(to)
    assert restore(layout(to), good, more=[was]) is None
    assert (to / "data/tmp/text").read_bytes() == b"a" * 300000
    # What is right is refused for its own reasons.
    shutil.rmtree(to)
    assert "bytes" in restore(layout(to), good, max_bytes=5, more=[was])


def test_no_sum(to, fs, tmp):
    (fs / "data" / "tmp" / "f").write_bytes(b"x")
    own(fs)
    said = create(fs, tmp / "a")
    assert restore(to, tmp / "a") is None
    for more in ([said[5][1:]], ["x" * 64], ["v"], ["v", "v", "x"]):
        p = subprocess.run(
            [paths.GATEWAY, "snapshot-restore", tmp / "a", "9", "9", *more],
            cwd=to, env=paths.child_env({"SBX_FS_UID": str(BASE),
                                         "SBX_FS_UIDS": "1"}), check=False)
        assert p.returncode == 2, more


def test_bomb(to, tmp):
    """A small file that says it is large, or is."""
    with tarfile.open(tmp / "x", "w:gz") as tar:
        m = tarfile.TarInfo("upper/f")
        m.size = 300 << 20
        tar.addfile(m, open("/dev/zero", "rb"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert "bytes" in restore(to, tmp / "x", max_bytes=10 << 20)
    assert (to / "upper" / "f").stat().st_size <= 10 << 20
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < \
        2 * paths.SLOW


@pytest.mark.root
def test_ids_in_an_archive(to, tmp):
    """No archive makes files of the machine's users."""
    hostile(tmp / "x", ("upper/a", {"uid": 0, "gid": 0, "data": b"x"}),
            ("upper/b", {"uid": 70000, "gid": -1, "data": b"x"}),
            ("upper/c", {"uid": 1 << 33, "gid": 5, "data": b"x"}))
    assert restore(to, tmp / "x") is None
    ids = [(s.st_uid - BASE, s.st_gid - BASE) for s in
           ((to / "upper" / n).stat() for n in "abc")]
    assert ids == [(0, 0), (65534, 65534), (65534, 5)]
