#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox of the CoreWeave service costs, as a client on plain HTTP sees
it: Exec of `true`, a round trip through `cat` in a StreamExec, a file of 32 MiB
written and read, and a flood of output.

    SBX_BUILD=build tests/bench/coreweave.py [--rounds 5]

Medians of the rounds; the CPU is the master's, then that of all workers. Needs
root, as jobs do.
"""

import argparse
import base64
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from support.jobs import Control  # noqa: E402
from test_coreweave_exec import Box, b64  # noqa: E402

MIB = 1 << 20
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def cpu_ms(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


class Meter:
    """with Meter(gw, n) as m: n things; m.row() is what one took."""

    def __init__(self, gw, n):
        self.pids = [[gw.proc.pid], gw.workers()]
        self.n = n

    def cpu(self):
        return [sum(map(cpu_ms, pids)) for pids in self.pids]

    def __enter__(self):
        self.before = self.cpu()
        self.began = time.perf_counter()
        return self

    def __exit__(self, *exc):
        ms = (time.perf_counter() - self.began) * 1e3
        cpu = [b - a for a, b in zip(self.before, self.cpu())]
        self.row = [v / self.n for v in (ms, *cpu)]


def execs(gw, box, n):
    with Meter(gw, n) as m:
        for _ in range(n):
            assert box.exec("/bin/true")[0] == 0
    return m.row


def echoes(gw, box, n):
    with box.stream("cat") as s:
        assert "ready" in s.hear()
        with Meter(gw, n) as m:
            for _ in range(n):
                s.say({"stdin": "cGluZwo="})
                assert s.hear()["output"]["data"] == "cGluZwo="
    return m.row


def files(gw, box, data):
    text = b64(data)
    with Meter(gw, 1) as w:
        box.rpc("WriteFile", path="/tmp/large", content=text)
    with Meter(gw, 1) as r:
        got = box.rpc("ReadFile", path="/tmp/large")["content"]
    assert base64.b64decode(got) == data
    return w.row, r.row


def flood(gw, box, mib):
    left = mib * MIB
    with Meter(gw, 1) as m, box.stream(
            "head", "-c", str(left), "/dev/zero") as s:
        for message in s:
            if "output" in message:
                d = message["output"]["data"]
                left -= len(d) // 4 * 3 - d[-2:].count("=")
    assert left == 0
    return m.row


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=5)
    rounds = ap.parse_args().rounds
    rows = {}
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as tmp:
        os.chmod(tmp, 0o711)
        gw = Control(pathlib.Path(tmp),
                     jobs="[coreweave]\nenabled = yes\n", workers=1)
        gw.user("ann")
        with gw:
            box = Box(gw.users["ann"])
            data = os.urandom(32 * MIB)
            for i in range(rounds + 1):
                w, r = files(gw, box, data)
                for name, row in (
                        ("Exec of true", execs(gw, box, 200)),
                        ("StreamExec, echo", echoes(gw, box, 1000)),
                        ("WriteFile, 32 MiB", w), ("ReadFile, 32 MiB", r),
                        ("StreamExec, 100 MiB out", flood(gw, box, 100))):
                    if i > 0:  # the first round warms up
                        rows.setdefault(name, []).append(row)
    print(f"{'':26}{'ms':>9}{'master ms':>11}{'workers ms':>12}")
    for name, got in rows.items():
        ms, master, workers = (statistics.median(c) for c in zip(*got))
        print(f"{name:26}{ms:9.2f}{master:11.2f}{workers:12.2f}")


if __name__ == "__main__":
    main()
