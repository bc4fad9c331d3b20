# SPDX-License-Identifier: Apache-2.0
"""sbx-agent check: what this machine gives, in words."""

import json
import subprocess

import pytest

from support import paths


def check(*args, user=None, **env):
    """(exit status, standard output)"""
    r = subprocess.run([str(paths.AGENT), "check", *args], user=user, group=user,
                       extra_groups=[] if user else None, cwd="/",
                       env=paths.child_env({k: str(v) for k, v in env.items()}),
                       stdout=subprocess.PIPE, timeout=60, text=True)
    return r.returncode, r.stdout


def as_json(*args, **kw):
    status, out = check("--json", *args, **kw)
    got = json.loads(out)
    return status, got, {c["name"]: c for c in got["checks"]}


@pytest.mark.root
def test_full(tmp):
    """Text and JSON say the same, and nothing is made."""
    status, out = check(SBX_HOMES=tmp / "homes")
    assert status == 0 and out.endswith("host mode: full isolation\n")
    assert not (tmp / "homes").exists()
    status, got, by_name = as_json(SBX_HOMES=tmp / "homes")
    assert (status, got["host_mode"], got["why"]) == (0, "full", None)
    assert {"kernel", "root", "capabilities", "landlock", "users",
            "namespaces", "cgroup",
            "seccomp", "homes"} <= set(by_name)
    for line, c in zip(out.splitlines(), got["checks"]):
        state, name = line.split()[:2]
        assert name == c["name"]
        # Other tests' sandboxes come and go.
        assert state == c["state"] or name == "users"
    assert by_name["root"]["state"] == "yes"
    assert "ABI" in by_name["landlock"]["text"]
    assert "will be made" in by_name["homes"]["text"]


@pytest.mark.root
def test_not_root(tmp):
    """Refused, or less when less is asked for."""
    tmp.chmod(0o777)
    status, got, by_name = as_json(user=65534, SBX_HOMES=tmp)
    assert (status, got["host_mode"]) == (1, "refused")
    assert "root" in got["why"] and by_name["root"]["state"] == "no"
    status, got, _ = as_json(user=65534, SBX_HOMES=tmp,
                             SBX_ISOLATION="best-effort")
    assert (status, got["host_mode"]) == (3, "less")


@pytest.mark.root
def test_homes(tmp):
    """A directory that sandboxes cannot reach, or that is none."""
    (tmp / "closed").mkdir(mode=0o700)
    status, got, by_name = as_json(SBX_HOMES=tmp / "closed" / "homes")
    assert (status, by_name["homes"]["state"]) == (1, "no")
    assert "closed" in got["why"]
    (tmp / "file").write_text("")
    status, got, _ = as_json(SBX_HOMES=tmp / "file" / "homes")
    assert status == 1 and "not a directory" in got["why"]


def test_usage():
    assert check("--nonsense")[0] == 2
    assert check(SBX_ISOLATION="perhaps")[0] == 2
