# SPDX-License-Identifier: Apache-2.0
"""sbx exec: live input, our terminal, and a gateway that dies meanwhile."""

import contextlib
import fcntl
import hashlib
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from support import paths
from support.jobs import Control
from support.wait import until

pytestmark = pytest.mark.root

MIB = 1 << 20
SBX = str(paths.BUILD / "sbx")


@pytest.fixture(scope="module")
def gw(module_tmp):
    with Control(module_tmp) as g:
        yield g


@pytest.fixture(scope="module")
def env(gw):
    return paths.child_env({"SBX_URL": gw.http, "TERM": "vt220",
                            "SBX_API_TOKEN": gw.root.token})


def up(env, name):
    subprocess.run([SBX, "up", "-n", name], env=env, check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    return name


@pytest.fixture(scope="module")
def box(env):
    return up(env, "box")


def run(env, *args, status=0, **kw):
    got = subprocess.run([SBX, "exec", *args], env=env, timeout=60,
                         capture_output=True, check=False, **kw)
    assert got.returncode == status, got
    return got


@contextlib.contextmanager
def start(env, *args, **kw):
    with subprocess.Popen([SBX, "exec", *args], env=env, bufsize=0,
                          stdout=subprocess.PIPE, **kw) as p:
        try:
            yield p
        finally:
            p.kill()


def line(p):
    assert select.select([p.stdout], [], [], 30 * paths.SLOW)[0]
    return p.stdout.readline()


def ended(env, box, mark):
    """No command with that in its words is left in there."""
    words = subprocess.run(
        [SBX, "exec", box, "sh", "-c", "cat /proc/[0-9]*/cmdline"], env=env,
        capture_output=True, check=False).stdout
    return mark.encode() not in words


# --- live input ------------------------------------------------------------

def test_input_is_live(env, box):
    with start(env, "-i", box, "cat", stdin=subprocess.PIPE) as p:
        for word in (b"one\n", b"two\n"):
            p.stdin.write(word)
            assert line(p) == word
        p.stdin.close()
        assert p.stdout.read() == b"" and p.wait(30) == 0


def test_input_of_every_kind(env, box, tmp):
    data = random.Random(3).randbytes(9 * MIB + 7)
    want = hashlib.sha256(data).hexdigest()
    (tmp / "data").write_bytes(data)
    with open(tmp / "data", "rb") as f:
        got = run(env, "-i", box, "sha256sum", stdin=f)
    assert got.stdout.split()[0].decode() == want and got.stderr == b""
    assert run(env, "-i", box, "cat", input=data).stdout == data
    got = run(env, "-i", box, "wc", "-c", stdin=subprocess.DEVNULL)
    assert (got.stdout, got.stderr) == (b"0\n", b"")


def test_statuses_of_live_commands(env, box):
    got = run(env, "-i", "-s", box, "echo out; echo err >&2; exit 3", input=b"",
              status=3)
    assert (got.stdout, got.stderr) == (b"out\n", b"err\n")
    run(env, "-i", "-s", box, "kill -9 $$", input=b"", status=137)
    run(env, "-i", "--timeout", "0.3", box, "sleep", "100", input=b"",
        status=124)
    got = run(env, "-i", box, "nosuch", input=b"", status=127)
    assert b"cannot run nosuch: No such file" in got.stderr
    got = run(env, "-i", "-w", "/no/such", box, "true", input=b"", status=126)
    assert b"chdir" in got.stderr


def test_who_reads_us_stops_reading(env, box):
    for args in (["-i"], []):
        with start(env, *args, box, "sh", "-c", "exec yes mark-4713",
                   stdin=subprocess.PIPE) as p:
            line(p)
            p.stdout.close()
            assert p.wait(30) == 128 + signal.SIGPIPE
        until(lambda: ended(env, box, "mark-4713"), "the command's end")


@pytest.mark.parametrize("args", [["-i"], []])
def test_interrupt_is_for_the_command(env, box, args):
    script = ("trap 'echo caught; exit 9' INT; echo up; "
              "while :; do sleep 0.05; done")
    with start(env, *args, "-s", box, script, stdin=subprocess.PIPE) as p:
        assert line(p) == b"up\n"
        p.send_signal(signal.SIGINT)
        assert p.stdout.read() == b"caught\n" and p.wait(30) == 9
        p.stdin.close()


@pytest.mark.parametrize("args,second", [(["-i"], signal.SIGINT),
                                         ([], signal.SIGINT), ([], None)])
def test_a_second_signal_is_the_end(env, box, args, second):
    first = second or signal.SIGTERM  # TERM does not wait for a second one
    script = ("trap 'echo caught' INT TERM; echo up; "
              "while :; do sleep 0.05; done; echo mark-4712")
    with start(env, *args, "-s", box, script, stdin=subprocess.PIPE) as p:
        assert line(p) == b"up\n"
        p.send_signal(first)
        assert line(p) == b"caught\n"
        if second is not None:
            p.send_signal(second)
        assert p.wait(30) == 128 + first
    until(lambda: ended(env, box, "mark-4712"), "the command's end")


# --- our terminal ----------------------------------------------------------

class Terminal:
    """sbx at a terminal of ours."""

    def __init__(self, env, *args, size=(31, 97)):
        self.fd, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.proc = subprocess.Popen(
            [SBX, "exec", *args], env=env, stdin=self.slave,
            stdout=self.slave, stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.kill()
        self.proc.wait()
        os.close(self.fd)
        os.close(self.slave)

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text)
        return self

    def _read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            self.out += os.read(self.fd, 65536)
            return True
        return False

    def until(self, text):
        end = time.monotonic() + 30 * paths.SLOW
        while text not in self.out:
            assert time.monotonic() < end, self.out
            self._read(1)
        return self

    def wait(self):
        """Its status; the terminal is as it was."""
        until(lambda: self._read(0.01) or self.proc.poll() is not None,
              "sbx to end", 30)
        self.proc.wait(30)
        while self._read(0):
            pass
        assert termios.tcgetattr(self.slave) == self.before
        return self.proc.returncode


def test_a_shell(env, box):
    with Terminal(env, "-it", "-e", "PS1=P ", box, "sh", "-i") as t:
        t.until(b"P ").type(b"stty size; echo $TERM; tty\n")
        t.until(b"31 97\r\nvt220\r\n/dev/pts/")
        t.out = t.out[t.out.index(b"/dev/pts/"):]
        t.until(b"P ")
        assert termios.tcgetattr(t.slave) != t.before
        t.resize(20, 70)
        t.type(b"cat\n").until(b"cat\r\n").type(b"hello\n")
        t.until(b"hello\r\nhello\r\n").type(b"\x03").until(b"^C")
        t.out = t.out[t.out.index(b"^C"):]  # the prompt may be there, too
        t.until(b"P ").type(b"stty size; exit 5\n").until(b"20 70\r\n")
        assert t.wait() == 5


def test_a_terminal_is_restored_whatever_happens(env, box):
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGABRT):
        with Terminal(env, "-t", "-s", box,
                      "echo up; sleep 1000; echo mark-4714") as t:
            t.until(b"up\r\n")
            t.proc.send_signal(signo)
            want = (-signo if signo == signal.SIGABRT else 128 + signo)
            assert t.wait() == want
        until(lambda: ended(env, box, "mark-4714"), "the command's end")
    with Terminal(env, "-t", "-w", "/no/such", box, "true") as t:
        assert t.wait() == 126 and b"chdir" in t.out
    with Terminal(env, "-t", "-e", "TERM=dumb", "-s", box, "echo $TERM") as t:
        assert t.wait() == 0 and b"dumb" in t.out
    got = run(env, "-t", box, "true", status=2, stdin=subprocess.DEVNULL)
    assert b"not a terminal" in got.stderr


# --- a gateway that dies ---------------------------------------------------

CHATTER = r"""
import os, random, time
open('/tmp/ran', 'a').write('x')
r = random.Random(5)
for i in range(400):
    os.write(1 + (i % 7 == 0), r.randbytes(r.choice((1, 100, 9000))))
    time.sleep(0.005)
os._exit(7)
"""


def chatter():
    r, out = random.Random(5), [b"", b""]
    for i in range(400):
        out[i % 7 == 0] += r.randbytes(r.choice((1, 100, 9000)))
    return out


def test_exec_survives_the_gateway(tmp, free_port):
    """Killed and started again, twice, while a command runs: its output is
    whole, and it ran once."""
    gw = Control(tmp)
    config = gw.config.read_text()
    gw.config.write_text(config.replace("http://127.0.0.1:0",
                                        f"http://127.0.0.1:{free_port()}"))
    with gw:
        env = paths.child_env({"SBX_URL": gw.http,
                               "SBX_API_TOKEN": gw.root.token})
        up(env, "it")
        with open(tmp / "out", "wb") as out, open(tmp / "err", "wb") as err:
            p = subprocess.Popen(
                [SBX, "exec", "it", "/usr/bin/python3", "-c", CHATTER],
                env=env, stdout=out, stderr=err)
            for size in (100000, 600000):
                until(lambda n=size: (tmp / "out").stat().st_size > n,
                      "some output", 30)
                assert p.poll() is None
                gw.die()
                gw.start()
            assert p.wait(60) == 7
        want = chatter()
        assert (tmp / "out").read_bytes() == want[0]
        assert (tmp / "err").read_bytes() == want[1]
        assert run(env, "it", "cat", "/tmp/ran").stdout == b"x"
        # A live command cannot be taken up again, and says so.
        with start(env, "-i", "it", "cat", stdin=subprocess.PIPE,
                   stderr=subprocess.PIPE) as p:
            p.stdin.write(b"x\n")
            assert line(p) == b"x\n"
            gw.die()
            assert p.wait(30) == 125
            assert re.search(rb"connection was lost", p.stderr.read())
            p.stdin.close()
        gw.start()
