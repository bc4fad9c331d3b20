# SPDX-License-Identifier: Apache-2.0
"""Where the programs under test are: $SBX_BUILD, or build/ in the tree."""

import os
import pathlib

TOP = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SBX_BUILD", TOP / "build")).resolve()
GATEWAY = BUILD / "sbx-gateway"
AGENT = BUILD / "sbx-agent"
AGENT_STATIC = BUILD / "sbx-agent-static"
TUNNEL = BUILD / "sbx-tunnel"

# A sanitized build is several times slower: multiply what has to be fast.
SANITIZED = os.environ.get("SBX_SANITIZED") == "1"
SLOW = 4 if SANITIZED else 1


def child_env(extra=None):
    """The environment for our programs: nothing of ours that could steer
    them (SBX_*), sanitizer options kept."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SBX_")}
    env.update(extra or {})
    return env
