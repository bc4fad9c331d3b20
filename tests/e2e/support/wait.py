# SPDX-License-Identifier: Apache-2.0
"""Waiting on conditions with a deadline."""

import os
import pathlib
import signal
import time


def until(condition, what="condition", seconds=10.0, every=0.01):
    """Calls condition() until it is true and returns what it said."""
    end = time.monotonic() + seconds
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def stop(pid):
    """SIGSTOP; returns when every thread of it stands still."""
    def still():
        return all(t.joinpath("stat").read_text().rpartition(")")[2].split()[0]
                   in "TtZX" for t in pathlib.Path(f"/proc/{pid}/task").iterdir())

    os.kill(pid, signal.SIGSTOP)
    until(still, f"process {pid} to stop")
