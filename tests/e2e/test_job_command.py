# SPDX-License-Identifier: Apache-2.0
"""Jobs that configured commands start, watch and end: the example with
unshare(1), and small scripts."""

import json
import pathlib

import pytest

from support import paths
from support.http import fetch
from support.jobs import Control, processes
from support.wait import until

pytestmark = pytest.mark.root

EXAMPLE = pathlib.Path(__file__).parents[2] / "conf/examples/launch-unshare.sh"
UNSHARE = f"""
[launcher unshare]
start = env SBX_AGENT={paths.AGENT} {EXAMPLE} start {{id}} {{dir}} {{mode}} {{argv}}
status = {EXAMPLE} status {{id}} {{dir}}
stop = {EXAMPLE} stop {{id}} {{dir}} {{grace}}
remove = {EXAMPLE} remove {{id}} {{dir}}
agent = unix:{{dir}}/agent.sock
poll = 200ms
"""
SECRET = "hush-0815-hush"


class CommandControl(Control):
    def __init__(self, tmp, name, sections):
        super().__init__(tmp, jobs=sections)
        text = pathlib.Path(self.config).read_text()
        pathlib.Path(self.config).write_text(
            text.replace("launcher = local", f"launcher = {name}"))


@pytest.fixture(scope="module")
def gw(module_tmp):
    gw = CommandControl(module_tmp, "unshare", UNSHARE)
    gw.user("ann")
    with gw:
        yield gw
    assert SECRET not in gw.log()


@pytest.fixture(scope="module")
def ann(gw):
    return gw.users["ann"]


def test_a_job(ann, gw):
    job = ann.create(["/bin/sh", "-c", 'echo "$0 $A"; echo "$S" | wc -c; '
                      "echo $$; exit 3"], arguments=["a 'b' \"c\" {id} $x"],
                     environment={"A": "it's \"1\" $y"}, secrets={"S": SECRET})
    done = ann.wait(job["id"])
    assert done["status"]["exitCode"] == 3
    assert ann.lines(job["id"]) == ["a 'b' \"c\" {id} $x it's \"1\" $y", "15",
                                    "1"]
    left = {p.name for p in (gw.state_dir / "jobs" / job["id"]).iterdir()}
    assert not left & {"env", "env.sh", "token"}


def test_cancel(ann):
    mark = "4711.25"
    job = ann.create(["sleep", mark], secrets={"S": SECRET})
    ann.wait(job["id"], "running")
    pids = until(lambda: processes(mark), "it sleeps")
    assert not processes(SECRET)
    done = ann.cancel(job["id"], "?grace=1s")
    done = ann.wait(job["id"])
    assert done["status"]["stage"] == "CANCELED"
    until(lambda: not set(processes(mark)) & set(pids), "it is gone")


def test_timeout(ann):
    job = ann.create(["/bin/sh", "-c", "trap 'exit 1' TERM; "
                      "while :; do sleep 0.1; done"], timeoutSeconds=1)
    done = ann.wait(job["id"])
    assert "timed out" in done["status"]["message"]


def test_agent_outlives_the_gateway(ann, gw):
    job = ann.sandbox()
    ann.wait(job["id"], "running")
    assert ann.ask("GET", ann.url(job) + "/health").status == 200
    gw.die()
    gw.start()
    until(lambda: ann.ask("GET", ann.url(job) + "/health").status == 200,
          "served again")
    assert ann.get(job["id"])["status"]["stage"] == "RUNNING"
    ann.cancel(job["id"], "?grace=1s")
    assert ann.wait(job["id"])["status"]["stage"] == "CANCELED"


def test_line_ends_are_refused(ann):
    job = ann.create(["true"], environment={"A": "a\nb"})
    assert "A: this launcher takes no line ends" in \
        ann.wait(job["id"])["status"]["message"]


@pytest.mark.parametrize("more", [
    {"sandbox": True}, {"workingDir": "/"},
    {"files": [{"path": "/x", "content": ""}]}])
def test_what_is_for_the_local_launcher(ann, more):
    done = ann.wait(ann.create(["true"], **more)["id"])["status"]
    assert done["state"] == "FAILED"
    assert "are for the local launcher" in done["message"]


def test_no_pause(ann):
    job = ann.create(["/bin/sleep", "1000"])
    ann.wait(job["id"], "running")
    r = ann.json("POST", ann.path(job["id"], "pause"), status=409)
    assert "this launcher cannot pause a job" in r["error"]
    ann.cancel(job["id"], "?grace=0s")
    ann.wait(job["id"])


def test_a_start_that_fails(tmp):
    gw = CommandControl(tmp, "bad", """
[launcher bad]
start = /bin/sh -c "echo no such partition >&2; exit 5"
status = /bin/false
stop = /bin/true
""")
    ann = gw.user("ann")
    with gw:
        done = ann.wait(ann.create(["true"])["id"])
        assert done["status"]["stage"] == "ERROR"
        assert "no such partition (exit code 5)" in done["status"]["message"]


def test_registration(tmp, free_port):
    """The job says where its agent is, once, with a token of its own."""
    port = free_port()
    (tmp / "start.sh").write_text(f"""#!/bin/sh
        . $1/env.sh
        echo "$SBX_REGISTER_TOKEN" > $1/mine
        SBX_LISTEN=tcp:127.0.0.1:{port} setsid {paths.AGENT} \\
            > /dev/null 2>&1 < /dev/null &
        echo $! > $1/agent.pid""")
    (tmp / "start.sh").chmod(0o755)
    gw = CommandControl(tmp, "far", f"""
[launcher far]
start = {tmp}/start.sh {{dir}}
status = /bin/sh -c "kill -0 $(cat {tmp}/state/jobs/*/agent.pid) && echo running || echo exited 0"
stop = /bin/sh -c "kill $(cat {{dir}}/agent.pid); rm {{dir}}/agent.pid {{dir}}/mine"
register_url = http://gateway.test
addresses = 127.0.0.0/8
poll = 100ms
""")
    ann = gw.user("ann")
    with gw:
        job = ann.sandbox()
        mine = gw.state_dir / "jobs" / job["id"] / "mine"
        until(mine.exists, "it was started")
        token = until(lambda: mine.read_text().strip(), "its token")
        path = f"/api/jobs/{job['id']}/register"

        def register(token, address):
            return fetch(gw.http, "POST", path, body=json.dumps(
                {"token": token, "address": address}).encode())

        good = f"tcp:127.0.0.1:{port}"
        assert register("0" * 64, good).status == 403
        for bad in ("unix:/run/docker.sock", "tcp:10.0.0.1:80", "nonsense"):
            assert register(token, bad).status == 400
        assert fetch(gw.http, "GET", path).status in (401, 405)
        assert register(token, good).status == 200
        assert register(token, good).status == 403
        ann.wait(job["id"], "running")
        assert ann.ask("GET", ann.url(job) + "/health").status == 200
        ann.cancel(job["id"])
        ann.wait(job["id"])
