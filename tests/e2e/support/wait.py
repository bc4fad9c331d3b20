# SPDX-License-Identifier: Apache-2.0
"""Waiting on conditions with a deadline."""

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
