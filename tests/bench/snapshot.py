#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a snapshot of 1 GiB costs: half of it cannot be compressed, half is text.

    SBX_BUILD=build tests/bench/snapshot.py [--mib 1024] [--rounds 3]

Needs root. The processes that write and read archives are run as the gateway
and a job's supervisor run them; beside them GNU tar with zstd -3 (one thread),
which gets the same tree and is not locked into it.
"""

import argparse
import fcntl
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from support import paths  # noqa: E402

MIB = 1 << 20
UID = 1500000000
LIMITS = [str(1 << 40), str(1 << 20)]
SUM = []  # of the archive that was made last


def fill(top, mib):
    rnd = random.Random(1)
    words = [rnd.randbytes(rnd.randint(2, 6)).hex() for _ in range(20000)]
    for part in ("upper", "data/root", "data/home", "data/tmp",
                 "data/vartmp"):
        (top / part).mkdir(parents=True)
        os.chown(top / part, UID, UID)
    for i in range(mib // 2):
        text = " ".join(rnd.choices(words, k=140000)).encode()[:MIB]
        for name, data in ((f"r{i}", os.urandom(MIB)), (f"t{i}", text)):
            (top / "data/root" / name).write_bytes(data)
            os.chown(top / "data/root" / name, UID, UID)


def measured(p, begun):
    """(wall s, CPU s, largest RSS in MiB) of that process."""
    _, status, use = os.wait4(p.pid, 0)
    assert status == 0, status
    return (time.monotonic() - begun, use.ru_utime + use.ru_stime,
            use.ru_maxrss / 1024)


def create(top, archive):
    tree, out = os.open(top, os.O_RDONLY), os.open(
        archive, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    said, report = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
            for fd in (out, tree, report)]

    def place():
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)

    begun = time.monotonic()
    p = subprocess.Popen(
        [paths.GATEWAY, "snapshot-create", str(UID), "65536", *LIMITS],
        preexec_fn=place, close_fds=False, env={})
    for fd in (tree, out, report, *high):
        os.close(fd)
    with open(said, "rb") as f:
        said = f.read().split()
    assert said[-6] == b"ok", said
    SUM[:] = [said[-1]]
    return measured(p, begun)


def restore(archive, to):
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    begun = time.monotonic()
    return measured(subprocess.Popen(
        [paths.GATEWAY, "snapshot-restore", archive, *LIMITS, *SUM], cwd=to,
        env={"SBX_FS_UID": str(UID), "SBX_FS_UIDS": "65536"}), begun)


def peer(cmd):
    """Both processes' CPU, by the shell that waits for them."""
    begun = time.monotonic()
    return measured(subprocess.Popen(["sh", "-c", cmd]), begun)


def row(name, runs, size):
    mid = [statistics.median(r[i] for r in runs) for i in range(3)]
    print(f"| {name} | {mid[0]:.2f} | {mid[1]:.2f} | {mid[2]:.0f} | "
          f"{size / MIB:.0f} |", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--mib", type=int, default=1024)
    ap.add_argument("--rounds", type=int, default=3)
    o = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        top, to, a, b = (tmp / n for n in ("fs", "to", "a", "b"))
        fill(top, o.mib)
        print("|  | s | s CPU | MiB RSS | MiB archive |\n|---|---|---|---|---|")
        row("create", [create(top, a) for _ in range(o.rounds)],
            a.stat().st_size)
        row("restore", [restore(a, to) for _ in range(o.rounds)],
            a.stat().st_size)
        shutil.rmtree(to)
        row("tar, zstd -3", [peer(f"tar -C {top} -c . | zstd -q -3 -T1 -f "
                                  f"-o {b}; sync {b}")
                             for _ in range(o.rounds)], b.stat().st_size)
        row("zstd -d, tar", [peer(f"rm -rf {to}; mkdir {to}; zstd -dc {b} | "
                                  f"tar -C {to} -x") for _ in range(o.rounds)],
            b.stat().st_size)


main()
