# SPDX-License-Identifier: Apache-2.0
"""A job with a network of its own reaches endpoints on this machine's
loopback, and nothing else of it."""

import json
import pathlib
import subprocess

import pytest

from support import paths
from support.gateway import Gateway
from support.http import Client
from support.sshd import pick_port
from support.wait import until
from test_gateway_tunnel import CONFIG, OPERATOR, Model

pytestmark = pytest.mark.root


class Job:
    """`sbx-agent job` on a directory of its own."""

    def __init__(self, tmp, argv, **spec):
        self.dir = pathlib.Path(tmp) / "job"
        self.dir.mkdir(mode=0o711)
        spec = {"id": "a" * 24, "mode": "command", "argv": argv, "uids": 65536,
                "uid": 1879048192, "net_private": True, **spec}
        (self.dir / "spec.json").write_text(json.dumps(spec))
        self.proc = subprocess.Popen(
            [str(paths.AGENT), "job", str(self.dir)],
            env=paths.child_env(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.terminate()
        self.proc.wait(30 * paths.SLOW)
        self.proc.stderr.close()
        subprocess.run([str(paths.AGENT), "job", "--clean", "--all",
                        str(self.dir)], env=paths.child_env(), check=False,
                       timeout=60, capture_output=True)

    def end(self):
        self.proc.wait(60 * paths.SLOW)
        assert b"ERROR: " not in self.proc.stderr.read()
        return json.loads((self.dir / "exit.json").read_text())

    def log(self, stream="stdout"):
        text, path = "", self.dir / "log"
        for line in path.read_text().splitlines() if path.exists() else ():
            if (got := json.loads(line))["s"] == stream:
                text += got["d"]
        return text


def test_tokens_arrive_in_a_private_network(tmp):
    closed = pick_port()
    with Model() as model:
        script = (f"curl -s -m 5 http://127.0.0.1:{model.port}/ && echo leak; "
                  "curl -sN -d hi http://127.0.0.1:20000/v1/chat?a=b; "
                  "curl -s http://127.0.0.1:20001/ || echo closed $?")
        with Job(tmp, ["sh", "-c", script], outside=[
                f"20000 localhost:{model.port}",
                f"20001 127.0.0.1:{closed}"]) as job:
            for i in range(3):
                assert f"token{i}" not in job.log()
                model.go.release()
                until(lambda i=i: f"token{i}" in job.log(), "it arrives")
            end = job.end()
            assert (end["reason"], end["code"]) == ("exited", 0), job.log(
                "system")
            assert "leak" not in job.log() and "closed" in job.log()
            assert model.paths == [("/v1/chat?a=b", b"hi")]


def test_many_at_once(tmp):
    """More connections than are served at a time wait their turn."""
    with Model() as model:
        model.go.release(3 * 300)
        script = ("import urllib.request as u, threading as t\n"
                  "ok=[]\n"
                  "def f():\n"
                  " r=u.urlopen('http://127.0.0.1:20000/', b'x')\n"
                  " ok.append(b'token2' in r.read())\n"
                  "ts=[t.Thread(target=f) for _ in range(300)]\n"
                  "[x.start() for x in ts]; [x.join() for x in ts]\n"
                  "print(len(ok), all(ok))\n")
        with Job(tmp, ["/usr/bin/python3", "-c", script],
                 outside=[f"20000 127.0.0.1:{model.port}"]) as job:
            assert job.end()["code"] == 0, job.log("stderr")
            assert job.log() .strip() == "300 True"


@pytest.mark.parametrize("entry", [
    "20000", "x 127.0.0.1:1", "0 127.0.0.1:1", "70000 127.0.0.1:1",
    "20000 example.org:1", "20000 127.0.0.1:0", "20000 unix:/x", ""])
def test_what_makes_no_sense_is_refused(tmp, entry):
    with Job(tmp, ["true"], outside=[entry]) as job:
        job.proc.wait(30 * paths.SLOW)
        end = json.loads((job.dir / "exit.json").read_text())
        assert end["reason"] == "unstarted" and "outside" in end["message"]


def test_a_job_of_the_gateway(tmp):
    """[local] outside: a job finds the URL in its environment."""
    def ask(method, path, body=None):
        with Client(gw.https, timeout=60) as c:
            r = c.request(method, "/api/jobs/me" + path, body=body, headers={
                "Authorization": f"Bearer {OPERATOR}",
                "Content-Type": "application/json"}).response()
        assert r.status == 200, r.body
        return json.loads(r.body)

    def stage(job):
        return ask("GET", f"/{job['id']}?wait=terminal&timeout=50s")[
            "status"]["stage"]

    (tmp / "op").write_text(OPERATOR + "\n")
    with Model() as model, Gateway(
            tmp, token=OPERATOR, config=CONFIG.format(tmp=tmp) +
            f"[local]\noutbound = none\n"
            f"outside = M http://localhost:{model.port}/v1?a=b\n"
            f"outside = N http://localhost:{model.port}/n\n") as gw:
        model.go.release(6)
        script = 'curl -sN -d "$N" "$M" | grep token2'
        job = ask("POST", "", json.dumps({
            "command": ["sh", "-c", script], "arguments": [],
            "environment": {"N": "mine"}, "flavor": "cpu-basic",
            "dockerImage": "debian:12"}).encode())
        assert stage(job) == "COMPLETED"
        assert model.paths == [("/v1?a=b", b"mine")]
