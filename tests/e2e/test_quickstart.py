# SPDX-License-Identifier: Apache-2.0
"""./quickstart, with the programs under test instead of its own build."""

import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest

from support import paths
from support.gateway import tls_context
from support.http import get
from support.wait import until

sys.path.insert(0, str(paths.TOP / "tools"))
import demo  # noqa: E402

QUICKSTART = str(paths.TOP / "quickstart")


def env():
    return paths.child_env({"SBX_BUILD": str(paths.BUILD)})


def run(*args, **kw):
    return subprocess.run([QUICKSTART, *args], env=env(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=300, check=False,
                          **kw)


def running_in(directory):
    """Processes that hold something open or were started beneath it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() \
                + os.readlink(entry / "cwd").encode()
        except OSError:
            continue
        if str(directory).encode() in text:
            found.append((entry.name, text))
    return found


def interruptible():
    """A shell cannot trap what was ignored when it began, as SIGINT is for what
    is started with & in a script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Foreground:
    """quickstart as a user runs it, until it says that all is up."""

    def __init__(self, state):
        self.state = state
        self.out = open(state.parent / f"{state.name}.out", "w+b")
        self.proc = subprocess.Popen(
            [QUICKSTART, "--port", "0", "--state", str(state)], env=env(),
            stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=interruptible)

    def __enter__(self):
        until(lambda: "Ctrl-C ends it" in self.text() or self.proc.poll(),
              "quickstart is up", 60 * paths.SLOW)
        assert self.proc.poll() is None, self.text()
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGINT)
        try:
            self.proc.wait(30 * paths.SLOW)
        except subprocess.TimeoutExpired:
            os.killpg(self.proc.pid, signal.SIGKILL)
            raise
        finally:
            self.out.close()

    def text(self):
        return pathlib.Path(self.out.name).read_text()


def test_help_names_every_option():
    r = run("--help")
    assert r.returncode == 0
    for word in ("--port", "--state", "--check", "--build-only"):
        assert word in r.stdout


@pytest.mark.parametrize("args", [["--port", "70000"], ["--port", "x"],
                                  ["--state", ""], ["--nonsense"]])
def test_bad_arguments(args):
    r = run(*args)
    assert r.returncode != 0
    assert "--" in r.stdout


@pytest.mark.root
@pytest.mark.parametrize("where", ["s", "private/s", "long/" + 90 * "x"])
def test_check(tmp, where):
    """Also where neither workers nor sandboxes may walk (a clone under
    /root), and where the names of sockets would be too long."""
    state = tmp / where
    state.parent.mkdir(exist_ok=True)
    if where.startswith("private"):
        state.parent.chmod(0o700)
    r = run("--check", "--state", str(state))
    assert r.returncode == 0, r.stdout
    for name in ("page", "websocket", "events", "upload", "download",
                 "token", "curl", "end"):
        assert f"  ok    {name}" in r.stdout, r.stdout
    assert not running_in(tmp)


@pytest.mark.root
def test_foreground_until_ctrl_c(tmp):
    state = tmp / "s"
    with Foreground(state) as q:
        env_file = state / "quickstart.env"
        assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
        got = demo.read_env(str(env_file))
        assert got["HF_ENDPOINT"] == got["SBX_URL"]
        assert got["HF_TOKEN"].startswith("hf_")
        base = f"/v1/sandboxes/{got['SBX_SANDBOX']}/proxy/8000"
        ctx = tls_context(ca=got["SBX_CA"])
        r = get(got["SBX_URL"], base + "/", token=got["SBX_TOKEN"], ctx=ctx)
        assert r.status == 200 and b"Hello from a sandbox" in r.body
        # What it prints works as it stands.
        line = next(x for x in q.text().splitlines() if " curl " in x)
        out = subprocess.run(["/bin/sh", "-c", line], check=True,
                             capture_output=True, text=True).stdout
        assert "Hello from a sandbox" in out
        # So do the commands of the README.
        text = (paths.TOP / "README.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        script = "".join(blocks).replace(".state/", f"{state}/")
        script = script.replace("$PWD/build", str(paths.BUILD))
        r = subprocess.run(["/bin/bash", "-eu", "-c", script], text=True,
                           capture_output=True, timeout=60 * paths.SLOW,
                           check=False)
        assert r.returncode == 0, r.stdout + r.stderr
        assert "uid=" in r.stdout and "exit_code" in r.stdout
        assert f'"sandbox": "{got["SBX_SANDBOX"]}"' in r.stdout
        assert "\nhello\n" in r.stdout
        assert "\n42\n" in r.stdout and "its status: 3" in r.stdout
        assert '"text": "42"' in r.stdout
        assert '"stdoutBytesProduced":' in r.stdout
        assert '"STATE_TERMINATING"' in r.stdout
        # One at a time in a state directory, and in words.
        second = run("--port", "0", "--state", str(state))
        assert second.returncode != 0 and "another" in second.stdout
        q.proc.send_signal(signal.SIGINT)
        assert q.proc.wait(30 * paths.SLOW) == 0, q.text()
    assert not running_in(tmp)
    # Secrets were not logged.
    for log in ("gateway.log", "access.log"):
        if (state / log).exists():
            text = (state / log).read_text()
            assert got["SBX_TOKEN"] not in text
            assert got["HF_TOKEN"] not in text


@pytest.mark.root
def test_state_is_used_again(tmp):
    seen = []
    for _ in range(2):
        with Foreground(tmp / "s"):
            got = demo.read_env(str(tmp / "s" / "quickstart.env"))
            seen.append((got["HF_TOKEN"],
                         pathlib.Path(got["SBX_CA"]).read_bytes(),
                         got["SBX_SANDBOX"]))
    assert seen[0][:2] == seen[1][:2]
    assert not running_in(tmp)


@pytest.mark.root
def test_port_that_is_taken_is_said(tmp):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        r = run("--port", str(port), "--state", str(tmp / "s"))
    assert r.returncode != 0
    assert str(port) in r.stdout, r.stdout
    assert not running_in(tmp)
