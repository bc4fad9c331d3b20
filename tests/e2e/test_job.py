# SPDX-License-Identifier: Apache-2.0
"""sbx-agent job: one supervised job at a time, without a gateway."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

from agent_support import Connection
from support import paths
from support.wait import until

BASE = 1879048192 + 4000 * 65536  # what no gateway of this machine gives away
ROOT = os.geteuid() == 0

needs_root = pytest.mark.skipif(
    not ROOT, reason="gives ids of its own to a job: needs root")


class Job:
    """with Job(tmp, argv=["true"]) as j: j.wait()"""

    count = 0

    def __init__(self, tmp, prefix=(), **spec):
        Job.count += 1
        self.dir = tmp / f"job{Job.count}"
        self.dir.mkdir(mode=0o711)
        os.chmod(self.dir, 0o711)
        slot = (os.getpid() * 8 + Job.count) % 90
        full = {"id": "%024x" % Job.count, "net_private": True}
        if ROOT and "uids" not in spec:
            self.uid = BASE + slot * 65536
            full |= {"uid": self.uid, "uids": 65536}
        if "argv" in spec:
            full["mode"] = "command"
        full |= {k: v for k, v in spec.items() if v is not None}
        self.spec = self.dir / "spec.json"
        self.spec.write_text(json.dumps(full))
        self.spec.chmod(0o600)
        self.socket = self.dir / "agent.sock"
        self.proc = subprocess.Popen(
            [*prefix, str(paths.AGENT), "job", str(self.dir)],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=paths.child_env({}))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(20)
        finally:
            self.proc.kill()
            self.proc.wait()
            self.proc.stderr.close()

    def order(self):
        """A connection to job.sock."""
        def connected():
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(30)
            try:
                s.connect(str(self.dir / "job.sock"))
            except OSError:
                s.close()
                return None
            return s
        return until(connected, "job.sock")

    def started(self):
        """Waits until it runs; returns what it lacks."""
        with self.order() as s:
            text = s.recv(4096).decode()
        assert text.startswith("started "), self.log()
        return text[8:]

    def ready(self):
        with self.order() as s:
            said = [s.recv(4096).decode(), s.recv(4096).decode()]
        assert said[1] == "ready", said

    def records(self):
        """Without the heads that say where a file of the log begins."""
        return [json.loads(line) for name in ("log.1", "log")
                if (self.dir / name).exists()
                for line in (self.dir / name).read_text().splitlines()
                if not line.startswith('{"at":')]

    def log(self, stream="stdout"):
        return "".join(r["d"] + "\n" for r in self.records()
                       if r["s"] == stream)

    def says(self, text):
        return until(lambda: text in self.log(), f"{text} in the log")

    def end(self):
        return json.loads((self.dir / "exit.json").read_text())

    def wait(self):
        self.proc.wait(60)
        return self.end()

    def request(self, method, path, body=None):
        c = Connection(self.socket)
        c.request(method, path, body and json.dumps(body),
                  {"X-Sandbox-Token": "t"})
        answer = c.getresponse().read().decode()
        c.close()
        return [json.loads(line) for line in answer.splitlines()]

    def exec(self, cmd):
        events = self.request("POST", "/v1/exec", {"cmd": cmd})
        return "".join(e["data"] for e in events
                       if e["event"] in ("stdout", "stderr"))


def sh(script):
    return ["/bin/sh", "-c", script]


def processes_of(uid):
    """Pids on the machine that belong to a job's ids."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        real = int(re.search(r"^Uid:\t(\d+)", text, re.M).group(1))
        if uid <= real < uid + 65536 or uid <= owner < uid + 65536:
            found.append(int(pid))
    return found


# --- what it sees ----------------------------------------------------------

@needs_root
def test_what_a_job_sees(tmp):
    secret = tmp / "secret"
    secret.write_text("outside")
    script = f"""
    id -u; id -g; pwd; echo "$HOME $A"
    cat /etc/shadow; cat {secret}; ls {tmp}
    test -w /usr && echo writes /usr
    mount -t tmpfs none /mnt 2>/dev/null && echo mounts
    umount /proc 2>/dev/null && echo unmounts
    unshare -n true 2>/dev/null && echo unshares
    for p in /proc/[0-9]*; do echo $p; done | wc -l
    tr '\\0' ' ' < /proc/1/cmdline; echo
    kill -9 1; kill -9 {os.getpid()}
    echo x > /dev/null && mkdir /work && touch /tmp/a /root/b /var/tmp/c &&
        echo writes
    ls -A /root /tmp /dev/shm /run
    grep -c . /proc/net/dev
    echo end"""
    with Job(tmp, argv=sh(script), env={"A": "b"}) as j:
        assert j.wait()["code"] == 0
        out = j.log().splitlines()
        assert out[:4] == ["0", "0", "/root", "/root b"]
        assert "end" in out and "writes" in out
        assert "outside" not in out
        for bad in ("writes /usr", "mounts", "unmounts", "unshares"):
            assert bad not in out
        errors = j.log("stderr")
        assert "/etc/shadow: Permission denied" in errors
        assert f"{secret}: No such file" in errors
        assert "No such process" in errors  # ours is not to be seen
        assert str(tmp) not in j.log()      # not even in a command line
    assert sorted(p.name for p in j.dir.iterdir()) == ["exit.json", "log"]


@needs_root
def test_secrets_stay_inside(tmp):
    with Job(tmp, argv=sh("echo up; exec sleep 1000"),
             env={"S": "geh" + "eim"}) as j:
        j.says("up")
        assert not j.spec.exists()
        for p in j.dir.rglob("*"):
            if p.is_file():
                assert b"geheim" not in p.read_bytes()
                assert p.stat().st_mode & 0o077 == 0 or "data" in p.parts
        for what in ("cmdline", "environ"):
            text = pathlib.Path(f"/proc/{j.proc.pid}/{what}").read_bytes()
            assert b"geheim" not in text


@needs_root
def test_two_jobs_bind_the_same_port(tmp):
    script = ("python3 -c \"import socket, time; s = socket.socket(); "
              "s.bind(('127.0.0.1', 80)); s.listen(); "
              "print('bound', flush=True); time.sleep(1000)\"")
    with Job(tmp, argv=sh(script)) as a, Job(tmp, argv=sh(script)) as b:
        a.says("bound")
        b.says("bound")


def make_image(tmp, programs=("sh", "cat", "id", "stat")):
    image = tmp / "image"
    for d in ("bin", "etc", "tmp"):
        (image / d).mkdir(parents=True)
    for name in programs:
        program = shutil.which(name)
        shutil.copy2(program, image / "bin" / name)
        libs = subprocess.run(["ldd", program], capture_output=True,
                              text=True, check=True).stdout
        for lib in re.findall(r"(/\S+)", libs):
            to = image / lib[1:]
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(lib, to)
    return image


@needs_root
def test_image(tmp):
    image = make_image(tmp)
    (image / "etc" / "mine").write_text("of the image\n")
    os.chmod(image / "etc" / "mine", 0o600)
    script = """id -u; cat /etc/mine; echo changed > /etc/mine; cat /etc/mine
        stat -c %u /etc/mine; echo new > /fresh; cat /fresh
        test -e /usr/bin/python3 && echo outside
        test -r /proc/self/stat && echo proc"""
    for _ in range(2):  # the second finds it as the first did
        with Job(tmp, argv=sh(script), rootfs=str(image), image="x:1") as j:
            assert j.wait()["code"] == 0
            assert j.log().splitlines() == [
                "0", "of the image", "changed", "0", "new", "proc"]
    assert (image / "etc" / "mine").read_text() == "of the image\n"
    assert not (image / "fresh").exists()


def test_image_that_nobody_configured(tmp):
    with Job(tmp, argv=["true"], image="python:3.12") as j:
        assert j.wait()["code"] == 0
        assert "python:3.12" in j.log("system")


@needs_root
def test_agents(tmp):
    with Job(tmp, mode="dedicated", env={"SBX_TOKEN": "t", "A": "b"}) as j, \
            Job(tmp, mode="host", best_effort=True,
                env={"SBX_TOKEN": "t"}) as h:
        j.ready()
        assert j.exec("id -u; echo $A; env | grep SBX_TOKEN; ls /root") == \
            "0\nb\n"
        h.ready()
        boxes = [h.request("POST", "/v1/sandboxes", {})[0]["sandboxes"][0]
                 for _ in range(2)]
        for b in boxes:
            for _ in range(2):  # namespaces are entered and left
                events = h.request("POST", f"/v1/sandboxes/{b['id']}/exec",
                                   {"cmd": "id -u"})
                assert events[1]["data"] == f"{b['uid']}\n"
        h.proc.send_signal(signal.SIGTERM)
        assert h.wait()["reason"] == "stopped"
        assert h.end()["code"] == 0


# --- a command beside its agent --------------------------------------------

TRAP = sh('trap "exit 0" TERM INT; echo up; sleep infinity & wait')


def beside(tmp, argv, prefix=(), **spec):
    return Job(tmp, prefix, argv=argv, mode="dedicated",
               env={"SBX_TOKEN": "t", "A": "b", **spec.pop("env", {})}, **spec)


@needs_root
def test_command_beside_its_agent(tmp):
    """Both see the same; only what the command says is in the log; TERM ends
    it at once."""
    script = ('echo "$A $SBX_TOKEN $SBX_LISTEN" "$(pwd)"; ls -l /a/b/c /run/x; '
              'cat /a/b/c; echo mine > /tmp/m; ls /proc/self/fd; ' + TRAP[2])
    with beside(tmp, sh(script), cwd="/etc", files=[
            {"path": "/a/b/c", "content": "aGVsbG8K", "mode": 0o640},
            {"path": "/run/x", "content": "", "mode": 0o4755}]) as j:
        j.ready()
        j.says("up")
        said = j.log().splitlines()
        assert said[0] == "b   /etc"
        assert said[1].startswith("-rw-r-----") and "root root 6 " in said[1]
        assert said[2].startswith("-rwsr-xr-x") and said[3] == "hello"
        assert said[4:-1] == ["0", "1", "2", "3"]  # 3: the directory's own
        assert j.exec("cat /tmp/m; echo $A; pwd; env | grep SBX_TOKEN; "
                      "ls -A /root") == "mine\nb\n/root\n"
        # process 1, the agent, the command
        assert "sbx-agent" in j.exec("cat /proc/*/cmdline | tr '\\0' ' '")
        assert len(j.log().splitlines()) == len(said)
        assert (j.dir / "agent.log").exists()
        with j.order() as s:
            s.send(b"stop 60000")
            while s.recv(4096):
                pass
        end = j.end()
        assert (end["reason"], end["code"]) == ("stopped", 0)
        assert processes_of(j.uid) == []
    j.wait()
    assert not (j.dir / "fs").exists()


def test_codes_beside_an_agent(tmp):
    for script, code, number in (("exit 0", 0, None), ("exit 1", 1, None),
                                 ("exit 137", 137, None),
                                 ("kill -9 $$", None, 9)):
        with beside(tmp, sh(script)) as j:
            end = j.wait()
            assert (end["reason"], end["code"], end["signal"]) == \
                ("exited", code, number)


@pytest.mark.parametrize("argv, cwd, text", [
    (["/no/such"], None, "/no/such: No such file"),
    (["no-such-program"], None, "no-such-program: No such file"),
    (["/etc/passwd"], None, "/etc/passwd: Permission denied"),
    (["true"], "/no/such", "/no/such: No such file"),
    (["true"], "/etc/passwd", "/etc/passwd: Not a directory")])
def test_command_that_cannot_start(tmp, argv, cwd, text):
    with beside(tmp, argv, cwd=cwd) as j:
        end = j.wait()
        assert (end["reason"], end["code"]) == ("unstarted", None)
        assert text in end["message"]
        assert text in j.log("system")


@needs_root
def test_file_that_cannot_be_written(tmp):
    with beside(tmp, ["true"], files=[
            {"path": "/usr/x", "content": "", "mode": 420}]) as j:
        assert j.wait()["message"] == "/usr/x: Read-only file system"
    for files in ([{"path": "x", "content": "", "mode": 0}],
                  [{"path": "/x", "content": "!", "mode": 0}],
                  [{"path": "/x", "content": "", "mode": 4096}],
                  [{"path": "/x", "content": "QUFB" * 350000, "mode": 0}]):
        with beside(tmp, ["true"], files=files) as j:
            assert j.wait()["message"] == "spec.json: files: not acceptable"


@needs_root
def test_agent_dies_beside_a_command(tmp):
    with beside(tmp, sh("echo up; sleep 1000")) as j:
        j.ready()
        j.says("up")
        # one of its children says which of the processes is the agent
        pid = j.exec("echo $PPID").strip()
        c = Connection(j.socket)
        c.request("POST", "/v1/exec", json.dumps({"cmd": f"kill -9 {pid}"}),
                  {"X-Sandbox-Token": "t"})
        end = j.wait()
        c.close()
        assert (end["reason"], end["code"]) == ("lost", None)
        assert end["message"] == \
            "its agent was killed by signal 9 (Killed)"
        assert processes_of(j.uid) == []


# --- how it ends -----------------------------------------------------------

def test_exit_code_and_signal(tmp):
    with Job(tmp, argv=sh("exit 3")) as j:
        end = j.wait()
        assert (end["reason"], end["code"], end["signal"]) == \
            ("exited", 3, None)
    with Job(tmp, argv=sh("kill -USR1 $$")) as j:
        end = j.wait()
        assert (end["reason"], end["code"], end["signal"]) == \
            ("exited", None, signal.SIGUSR1)
        assert "signal 10" in end["message"]


@needs_root
@pytest.mark.parametrize("image", [False, True])
def test_scratch_volumes(tmp, image):
    """Directories of the job's own, at places that may not be there yet, one
    in the other, the same in the tree of the machine's system and an image."""
    script = """
        set -e
        stat -c %u,%a /workspace /workspace/in/ner /root/.cache
        echo one > /workspace/f; mkdir /workspace/in/d
        echo two > /workspace/in/ner/f
        ls -A /root/.cache; echo written; exec sleep 60"""
    more = {"image": "x:1", "rootfs": str(make_image(
        tmp, ("sh", "stat", "ls", "sleep", "mkdir")))} if image else {}
    with Job(tmp, argv=sh(script),
             scratch=["a /workspace", "b /workspace/in/ner",
                      "c /root/.cache"], **more) as j:
        j.says("written")
        assert j.log().split()[:3] == ["0,755"] * 3, j.log("stderr")
        fs = j.dir / "fs" / "scratch"
        assert (fs / "a/data/f").read_text() == "one\n"
        assert (fs / "b/data/f").read_text() == "two\n"
        assert (fs / "a/data/f").stat().st_uid == j.uid
        assert (fs / "a/data/in/d").is_dir()


@needs_root
def test_scratch_volume_in_a_place_that_cannot_be(tmp):
    with Job(tmp, argv=["true"], scratch=["a /usr/no/such"]) as j:
        assert j.wait()["message"] == "a /usr/no/such: Read-only file system"
    for bad in (["a /proc/x"], ["a /../x"], ["../a /x"], ["a /x", "b /x"],
                ["a /x", "a /y"], ["a/x"]):
        with Job(tmp, argv=["true"], scratch=bad) as j:
            assert j.wait()["message"] == \
                "spec.json: scratch: missing or not acceptable"


def test_what_cannot_start(tmp):
    with Job(tmp, argv=["/no/such"]) as j:
        end = j.wait()
        assert end["reason"] == "unstarted"
        assert "/no/such: No such file" in end["message"]
    with Job(tmp, argv=["true"], colour="blue") as j:
        assert j.wait()["message"] == "spec.json: colour: unknown key"
        assert not j.spec.exists()


DAEMONS = ("trap '' TERM; for i in 1 2 3; do "
           "(setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &); done; "
           "echo up; sleep 1000")


def test_timeout_ends_the_whole_tree(tmp):
    with Job(tmp, argv=sh("(setsid sleep 1000 &) ; sleep 1000"),
             timeout_ms=100) as j:
        end = j.wait()
        assert end["reason"] == "timeout"
        assert "timed out" in end["message"]


@pytest.mark.parametrize("how", ["stop 50", "stop 0", "kill"])
def test_stop_ends_the_whole_tree(tmp, how):
    with Job(tmp, argv=sh(DAEMONS)) as j:
        j.says("up")
        with j.order() as s:
            s.send(how.encode())
            while s.recv(4096):  # until the supervisor closes
                pass
        # exit.json is there, and nobody is left
        end = j.end()
        assert (end["reason"], end["signal"]) == ("stopped", signal.SIGKILL)
        if ROOT:
            assert processes_of(j.uid) == []
        j.proc.wait(20)


def test_stop_with_grace(tmp):
    with Job(tmp, argv=sh("trap 'echo bye; exit 7' TERM; echo up; "
                          "while :; do sleep 0.02; done")) as j:
        j.says("up")
        with j.order() as s:
            s.send(b"stop 20000")
            s.send(b"nonsense")
            said = b""
            while more := s.recv(4096):
                said += more
        assert b"error no such order" in said
        end = j.end()
        assert (end["reason"], end["code"]) == ("stopped", 7)
        assert "bye" in j.log()


def test_the_shorter_grace_counts(tmp):
    """However often it is stopped, TERM comes once."""
    with Job(tmp, argv=sh("trap 'echo term' TERM; echo up; "
                          "while :; do sleep 0.01; done")) as j:
        j.says("up")
        with j.order() as s:
            for ms in (3600000, 300, 3000000, 300, 3500000):
                s.send(b"stop %d" % ms)
            while s.recv(4096):
                pass
        assert j.end()["signal"] == signal.SIGKILL
        assert j.log().count("term") == 1


@needs_root
def test_killed_supervisor_takes_all_with_it(tmp):
    with Job(tmp, argv=sh(DAEMONS)) as j:
        j.says("up")
        uid = j.uid
        until(lambda: len(processes_of(uid)) > 5, "all of them")
        j.proc.kill()
        j.proc.wait()
        until(lambda: not processes_of(uid), "everything has ended")
        assert not (j.dir / "exit.json").exists()
        subprocess.run([paths.AGENT, "job", "--clean", j.dir], check=True,
                       timeout=60)
        assert j.end()["reason"] == "lost"
        assert sorted(p.name for p in j.dir.iterdir()) == ["exit.json", "log"]
        assert str(j.dir) not in pathlib.Path("/proc/mounts").read_text()
        subprocess.run([paths.AGENT, "job", "--clean", "--all", j.dir],
                       check=True, timeout=60)
        assert not j.dir.exists()


@needs_root
def test_limit_of_processes(tmp):
    with Job(tmp, pids=20, argv=sh(
            "for i in $(seq 60); do sleep 1000 & done; echo survived")) as j:
        j.wait()
        assert "survived" not in j.log()
        assert "fork" in j.log("stderr")


@needs_root
@pytest.mark.parametrize("name", ["pasta", "slirp4netns"])
def test_outbound_program(tmp, name):
    """It gets the job's network, and ends with the job."""
    program = tmp / name
    program.write_text(f"#!/bin/sh\necho \"$@\" > {tmp}/args\n"
                       "exec sleep 1000\n")
    program.chmod(0o755)
    with Job(tmp, mode="dedicated", outbound=str(program)) as j:
        j.ready()
        until(lambda: (tmp / "args").exists(), "it was started")
        pids = pathlib.Path(
            f"/proc/{j.proc.pid}/task/{j.proc.pid}/children")
        sleeper = until(lambda: [
            p for p in pids.read_text().split() if "sleep" in
            pathlib.Path(f"/proc/{p}/cmdline").read_text()], "it runs")
        assert len(sleeper) == 1
    assert not pathlib.Path(f"/proc/{sleeper[0]}").exists()


@needs_root
def test_outbound_program_that_fails(tmp):
    """The log says so, and the job goes on."""
    program = tmp / "pasta"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with Job(tmp, mode="dedicated", outbound=str(program)) as j:
        j.ready()
        until(lambda: "no outbound network" in j.log("system"), "the log")
        assert f"{program} ended (status 3)" in j.log("system")
        assert j.exec("echo alive") == "alive\n"


@needs_root
def test_outbound_without_root(tmp):
    """It is not tried in vain; the job goes on, and says what it lacks."""
    d = tmp / "own"
    d.mkdir()
    os.chmod(tmp, 0o755)
    shutil.copy2(paths.AGENT, tmp / "agent")
    (tmp / "pasta").write_text(f"#!/bin/sh\ntouch {d}/tried\n")
    (tmp / "pasta").chmod(0o755)
    (d / "spec.json").write_text(json.dumps(
        {"id": "a", "mode": "command", "net_private": True,
         "outbound": str(tmp / "pasta"), "argv": sh("echo on")}))
    for p in (d, d / "spec.json"):
        os.chown(p, 64999, 64999)
    subprocess.run(["setpriv", "--reuid=64999", "--regid=64999",
                    "--clear-groups", tmp / "agent", "job", d], check=True,
                   timeout=60)
    said = (d / "log").read_text()
    assert '"on"' in said and not (d / "tried").exists()
    if "no user namespace" not in said and "no network" not in said:
        assert "only a gateway that runs as root connects it" in said


@needs_root
def test_control_group(tmp, cgroups):
    with Job(tmp, argv=sh(DAEMONS), cgroup=str(cgroups), memory=1 << 30,
             cpu_milli=500) as j:
        j.says("up")
        (group,) = [p for p in cgroups.iterdir() if p.is_dir()]
        until(lambda: len((group / "cgroup.procs").read_text().split()) > 5,
              "all of them")
        for name, value in (("memory.max", str(1 << 30)),
                            ("cpu.max", "50000 100000")):
            if (group / name).exists():
                assert (group / name).read_text().strip() == value
            else:
                what = {"m": "memory", "c": "CPU"}[name[0]]
                assert f"no limit of {what}" in j.log("system")
        with j.order() as s:
            s.send(b"kill")
            while s.recv(4096):
                pass
        assert not group.exists()
    with Job(tmp, argv=sh(DAEMONS), cgroup=str(cgroups)) as j:
        j.says("up")
        (group,) = [p for p in cgroups.iterdir() if p.is_dir()]
        j.proc.kill()
        j.proc.wait()
        subprocess.run([paths.AGENT, "job", "--clean", j.dir], check=True,
                       timeout=60)
        assert not group.exists()


# --- output ----------------------------------------------------------------

def test_log_of_a_burst(tmp):
    """More than the log may take: its end is kept, whole lines, bounded."""
    with Job(tmp, argv=sh("seq 1 400000; printf 'no end of line'"),
             log_max=2000000) as j:
        assert j.wait()["code"] == 0
        lines = j.log().splitlines()
        assert lines[-1] == "no end of line"
        first = int(lines[0])
        assert lines[:-1] == [str(n) for n in range(first, 400001)]
        size = sum((j.dir / n).stat().st_size for n in ("log", "log.1"))
        assert 900000 < size <= 2000000


def test_log_of_odd_bytes(tmp):
    line = "ä" * 20000  # two bytes each: cut, but not within one
    with Job(tmp, argv=sh(
            "printf 'a\\377b\\n'; printf '\\001\\n\\n'; "
            f"printf '{line}\\n'; echo e >&2")) as j:
        j.wait()
        out = [r["d"] for r in j.records() if r["s"] == "stdout"]
        assert out[:3] == ["a\ufffdb", "\x01", ""]
        assert "".join(out[3:]) == line and len(out) > 4
        assert j.log("stderr") == "e\n"


# --- less rights -----------------------------------------------------------

def check_degraded(j):
    assert j.wait()["code"] == 0
    lacks = j.log("system")
    assert "no mount namespace (Operation not permitted)" in lacks
    assert "no network namespace (Operation not permitted)" in lacks
    assert "no pid namespace (Operation not permitted)" in lacks
    return lacks


NO_ADMIN = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"]


@needs_root
def test_without_rights(tmp):
    """Root that may do little: its jobs are somebody else all the same."""
    (tmp / "root").mkdir()
    # Nobody makes a user namespace in a chroot.
    prefix = ["unshare", "-m", "sh", "-c", f"mount --rbind / {tmp}/root && "
              f"exec chroot {tmp}/root \"$@\"", "sh", *NO_ADMIN]
    with Job(tmp, prefix, argv=sh("id -u; echo $HOME; touch ~/x && echo ok; "
                                  "cat /etc/shadow; true")) as j:
        check_degraded(j)
        out = j.log().splitlines()
        assert int(out[0]) == j.uid
        assert out[1] == f"{j.dir}/fs/data/root" and out[2] == "ok"
        assert "Permission denied" in j.log("stderr")
    with Job(tmp, prefix, argv=sh(DAEMONS)) as j:
        j.says("up")
        until(lambda: len(processes_of(j.uid)) > 5, "all of them")
        with j.order() as s:
            s.send(b"kill")
            while s.recv(4096):
                pass
        assert processes_of(j.uid) == []  # found one by one
        assert j.end()["signal"] == signal.SIGKILL
    with Job(tmp, prefix, argv=sh(DAEMONS)) as j:
        j.says("up")
        j.proc.kill()
        until(lambda: not processes_of(j.uid), "everything has ended")
    with beside(tmp, sh("echo up; read x; exit 3"), prefix=prefix) as j:
        assert j.wait()["code"] == 3  # its agent goes with it
        assert processes_of(j.uid) == []
    # The machine's own files are not for it to write.
    (tmp / "all").mkdir()
    (tmp / "all").chmod(0o777)
    with beside(tmp, ["true"], prefix=prefix, files=[
            {"path": f"{tmp}/all/x", "content": "", "mode": 0o644}]) as j:
        assert j.wait()["message"] == \
            "files without a mount namespace: Operation not supported"
    assert list((tmp / "all").iterdir()) == []


@needs_root
def test_with_a_user_namespace_only(tmp):
    with beside(tmp, sh("cat a/x ~/y; id -u"), prefix=NO_ADMIN, cwd="/tmp",
                files=[{"path": "/tmp/a/x", "content": "eA==", "mode": 0o644},
                       {"path": "/root/y", "content": "eA==", "mode": 0o600}]
                ) as j:
        assert j.wait()["code"] == 0
        assert j.log() == "xx0\n"
    with Job(tmp, NO_ADMIN, argv=sh("id -u; pwd; touch /usr/x; touch /tmp/x "
                                    "&& echo ok; cat /etc/shadow; true")) as j:
        assert j.wait()["code"] == 0
        assert j.log() == "0\n/root\nok\n"
        assert "/etc/shadow: Permission denied" in j.log("stderr")
        assert "namespace" not in j.log("system")


@needs_root
def test_as_an_ordinary_user(tmp):
    """A gateway without root: one id, which is root in there."""
    prefix = ["setpriv", "--reuid=64999", "--regid=64999", "--clear-groups"]
    os.chmod(tmp, 0o777)
    try:
        shutil.copy2(paths.AGENT, tmp / "agent")  # wherever it was built
        d = tmp / "own"
        d.mkdir()
        (d / "spec.json").write_text(json.dumps(
            {"id": "a", "mode": "command", "net_private": True,
             "argv": sh("id -u; cat /proc/self/uid_map; touch /tmp/x /root/y "
                        "&& echo ok")}))
        for p in (d, d / "spec.json"):
            os.chown(p, 64999, 64999)
        subprocess.run([*prefix, tmp / "agent", "job", d], check=True,
                       timeout=60)
        out = [json.loads(line)["d"] for line in
               (d / "log").read_text().splitlines()]
        end = json.loads((d / "exit.json").read_text())
        assert end["code"] == 0, (out, end)
        if any("no user namespace" in line for line in out):
            assert "64999" in out
        else:
            assert "0" in out
        assert "ok" in out
    finally:
        os.chmod(tmp, 0o700)
