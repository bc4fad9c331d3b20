# SPDX-License-Identifier: Apache-2.0
"""sbx-agent-static: one file that runs in an image that holds only busybox."""

import os
import shutil
import subprocess

import pytest

from agent_support import Agent, Scope, needs_namespaces
from support import paths

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not paths.AGENT_STATIC.exists(),
                       reason="not built (make sbx-agent-static)"),
]

CHROOT = """
mount --bind "$0" "$0" && mount -t proc proc "$0/proc" &&
exec chroot "$0" /sbx-agent
"""
# As container runtimes do it.
PIVOT = """
mount --bind "$0" "$0" && cd "$0" && mount -t proc proc proc && mkdir -p old &&
pivot_root . old && /bin/busybox umount -l /old && exec /sbx-agent
"""
NEVER = ("python3", "perl", "bash")


@pytest.fixture
def image(tmp):
    """A root directory with the agent, busybox, and nothing else."""
    for name in ("bin", "proc", "dev", "homes", "run"):
        (tmp / name).mkdir()
    shutil.copy("/bin/busybox", tmp / "bin")
    for name in ("sh", "cat", "echo", "sleep", "ls", "id", "ps", "touch"):
        os.symlink("busybox", tmp / "bin" / name)
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        os.mknod(tmp / "dev" / name, 0o20666, os.makedev(1, minor))
        os.chmod(tmp / "dev" / name, 0o666)
    subprocess.run(["strip", "-o", str(tmp / "sbx-agent"),
                    str(paths.AGENT_STATIC)], check=True)
    return tmp


def start(image, how, **kw):
    return Agent(image, prefix=("unshare", "-m", "sh", "-c", how, str(image)),
                 SBX_LISTEN="unix:/agent.sock", SBX_HOMES="/homes",
                 SBX_CONTROL="unix:/control.sock", **kw)


def use(scope):
    """Commands, a background process, files."""
    got = scope.exec("echo $((6*7)); cat; ls /bin", stdin="in")
    assert got.out.startswith("42\nin") and "busybox" in got.out
    assert not any(name in got.out for name in NEVER)
    assert scope.exec(["busybox", "echo", "argv"]).out == "argv\n"
    assert scope.exec("exit 3").code == 3
    status, got = scope.call("POST", "exec", {"cmd": ["nothing"]})
    assert status == 400 and "No such file" in got["error"]
    status, got = scope.call("POST", "run_code", {"code": "1"})
    assert (status, got["code"]) == (503, "no_python")
    p = scope.start("echo up; exec sleep 1000")
    assert scope.call("DELETE", f"processes/{p['pid']}")[0] == 200
    body = os.urandom(100_000)
    assert scope.call("PUT", "files/write?path=homes/f", body)[0] == 200
    assert scope.call("GET", "files/read?path=homes/f")[1] == body


def test_small_and_alone(image):
    """Under 1.3 MiB, nothing to load, no name service of one glibc version."""
    assert (image / "sbx-agent").stat().st_size < 1.3 * 2 ** 20
    head = subprocess.run(["readelf", "-ld", str(image / "sbx-agent")],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "INTERP" not in head and "NEEDED" not in head
    names = subprocess.run(["nm", str(paths.AGENT_STATIC)], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    assert "spawn_start" in names and "__nss_" not in names


@needs_namespaces  # for unshare and mount
def test_dedicated(image):
    with start(image, CHROOT, host=False) as a:
        use(Scope(a, "/v1", a.token))


@needs_namespaces
def test_host_in_chroot(image):
    """No namespaces: these would lead out of the chroot."""
    with start(image, CHROOT) as a:
        health = a.get("/health")[1]
        assert (health["isolation"], health["namespaces"]) == ("full", False)
        assert "chroot" in a.log.read_text()
        sb = a.create()
        sb.call("POST", "files/mkdir?path=homes")
        use(sb)
        assert "etc" not in sb.exec("ls /").out.split()


@needs_namespaces
def test_host_as_container(image):
    with start(image, PIVOT) as a:
        assert a.get("/health")[1]["namespaces"] is True
        one, two = a.create(), a.create()
        one.call("POST", "files/mkdir?path=homes")
        use(one)
        one.start("exec sleep 4321")
        assert "4321" not in two.exec("ps").out
        assert "4321" in one.exec("ps").out
