# SPDX-License-Identifier: Apache-2.0
"""Many commands that print and exit at once: the moment when output is lost."""

import concurrent.futures
import os

from agent_support import Agent, Scope
from support import paths
from support.wait import until


def test_two_thousand(tmp):
    """100 at a time: not one byte is missing, nothing stays."""
    with Agent(tmp, host=False) as a:
        scope = Scope(a, "/v1", a.token)

        def batch(k):
            conn = a.connection(120 * paths.SLOW)
            for i in range(20):
                n = (k * 20 + i) * 37 % 9000
                got = scope.exec(f"printf %0{n + 1}d {i}; echo {k}.{i} >&2",
                                 conn=conn)
                assert got.out == str(i).zfill(n + 1)
                assert got.err == f"{k}.{i}\n" and got.code == 0
            conn.close()

        def threads():
            return len(os.listdir(f"/proc/{a.proc.pid}/task"))

        scope.exec("true")
        fds, tasks = a.fds(), threads()
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            list(pool.map(batch, range(100)))
        until(lambda: a.fds() <= fds, "descriptors are back")
        until(lambda: not a.children(), "no child is left")
        assert threads() <= tasks
