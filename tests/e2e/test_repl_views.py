# SPDX-License-Identifier: Apache-2.0
"""Forked contexts in a job of the local launcher: each has a view of the file
system of its own."""

import os

import pytest

from agent_support import Agent, Scope
from support.wait import until
from test_job import Job
from test_repl import fork, run

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0,
                       reason="gives ids of its own to a job: needs root")]


@pytest.fixture
def job(tmp, request):
    tmp.chmod(0o755)
    more = getattr(request, "param", {})
    with Job(tmp, mode="dedicated", env={"SBX_TOKEN": "t"}, **more) as j:
        j.ready()
        agent = Agent.__new__(Agent)
        agent.socket, agent.token = j.socket, "t"
        yield Scope(agent, "/v1", "t")


def views(box, n=1, **req):
    got = fork(box, n, **req)
    assert got["fork"]["files"] == "own", got
    return got["children"]


def merge(box, winner, **req):
    status, got = box.call("POST", "run_code/merge_into",
                           {"winner": winner, **req})
    assert status == 200, got


def changes(box, other, **req):
    status, got = box.call("POST", "run_code/diff", {"other": other, **req})
    assert status == 200, got
    return {f["path"]: f["kind"] for f in got["files"]}


def layers(box):
    return box.exec("ls /sbx/homes/.layers 2>&1").out.split()


MAKE = """
import os, shutil
os.makedirs("w/d/sub")
os.chdir("w")
def put(name, text, mode="w"):
    with open(name, mode) as f:
        f.write(text)
def get(name):
    with open(name) as f:
        return f.read()
def all():
    return sorted(os.path.join(at, n)[2:] for at, ds, fs in os.walk(".")
                  for n in ds + fs)
put("kept", "kept"); put("gone", "gone"); put("d/old", "old")
f = open("pos", "w+"); f.write("0123456789"); f.flush(); _ = f.seek(4)"""
CHANGE = """
put("kept", " and more", "a"); os.remove("gone"); put("new", "new")
shutil.rmtree("d"); os.mkdir("d"); put("d/fresh", "fresh")
os.symlink("new", "link"); os.chmod("new", 0o640); put("/tmp/t", "t")"""
BEFORE = "['d', 'd/old', 'd/sub', 'gone', 'kept', 'pos']"
AFTER = "['d', 'd/fresh', 'kept', 'link', 'new', 'pos']"


def test_what_one_writes_is_its_own(job):
    run(job, MAKE)
    a, b = views(job, 2)
    run(job, CHANGE, context=a)
    assert run(job, "all()", context=a).result == AFTER
    assert run(job, "get('kept')", context=a).result == "'kept and more'"
    for name in ("main", b):
        assert run(job, "all()", context=name).result == BEFORE
        assert run(job, "get('kept'), os.path.exists('/tmp/t')",
                   context=name).result == "('kept', False)"
    # its children see what it sees, commands what the parent does
    assert run(job, "import subprocess; print(subprocess.check_output("
               "['cat', 'kept', '/tmp/t']))", context=a).out == \
        "b'kept and moret'\n"
    assert job.exec("cat /root/w/kept /tmp/t").out == "kept"


@pytest.mark.parametrize("job", [{"scratch": ["a /data", "b /work/in"]}],
                         indirect=True, ids=["scratch"])
def test_volumes_are_covered_and_what_holds_them_is_not(job):
    run(job, "import os; os.chdir('/work')\n"
        "def put(path): open(path, 'w').close()")
    a, = views(job)
    run(job, "put('/data/x'); put('in/x'); put('x')", context=a)
    seen = "os.listdir('/data'), os.listdir('/work/in'), sorted(os.listdir('.'))"
    assert run(job, seen, context=a).result == "(['x'], ['x'], ['in', 'x'])"
    assert run(job, seen).result == "([], [], ['in', 'x'])"
    assert changes(job, a) == {"/data/x": "added", "/work/in/x": "added"}


def test_open_files_and_the_directory_are_in_it(job):
    run(job, MAKE)
    a, = views(job)
    run(job, "f.write('abc'); f.flush(); put('here', '')", context=a)
    assert run(job, "get('pos'), os.getcwd()", context=a).result == \
        "('0123abc789', '/root/w')"
    assert run(job, "f.read(), get('pos'), all()").result == \
        f"('456789', '0123456789', {BEFORE})"


def test_copies_of_copies(job):
    run(job, MAKE)
    a, = views(job)
    run(job, CHANGE, context=a)
    b, c = views(job, 2, context=a)
    run(job, "os.remove('new'); put('kept', '!', 'a')", context=b)
    assert run(job, "all(), get('kept')", context=b).result == \
        "(%s, 'kept and more!')" % AFTER.replace(" 'new',", "")
    for name in (a, c):
        assert run(job, "all(), get('kept')", context=name).result == \
            f"({AFTER}, 'kept and more')"
    assert changes(job, b, context=a) == {
        "/root/w/new": "removed", "/root/w/kept": "changed",
        "/root/w/pos": "changed"}  # which was opened for writing
    # the one below stays until nobody needs it
    assert len(layers(job)) == 3
    assert job.call("DELETE", f"run_code/contexts/{a}")[0] == 200
    assert run(job, "get('kept')", context=c).result == "'kept and more'"
    merge(job, b)
    assert run(job, "get('kept')").result == "'kept and more!'"
    assert job.call("DELETE", f"run_code/contexts/{c}")[0] == 200
    until(lambda: not layers(job), "no layer is left")


def test_winner_brings_its_files(job):
    run(job, MAKE)
    a, b = views(job, 2)
    run(job, CHANGE, context=a)
    merge(job, a)
    seen = job.exec("cd /root/w && find . | sort && readlink link && "
                    "stat -c %a new && cat kept d/fresh /tmp/t").out.split()
    assert seen == [".", "./d", "./d/fresh", "./kept", "./link", "./new",
                    "./pos", "new", "640", "kept", "and", "morefresht"]
    # and goes on there, with what it had open
    run(job, "put('later', ''); f.write('abc'); f.flush()")
    assert job.exec("ls /root/w/later; cat /root/w/pos").out == \
        "/root/w/later\n0123abc789"
    run(job, "put('b', '')", context=b)  # which is where it was
    assert job.exec("ls /root/w/b").code != 0
    c, = views(job)
    run(job, "put('kept', 'c')", context=c)
    assert job.exec("cat /root/w/kept").out == "kept and more"


def test_winner_of_a_copy(job):
    run(job, MAKE)
    a, = views(job)
    run(job, CHANGE, context=a)
    b, = views(job, context=a)
    run(job, "put('kept', 'b')", context=b)
    merge(job, b, context=a)
    assert run(job, "all(), get('kept')", context=a).result == \
        f"({AFTER}, 'b')"
    assert run(job, "all()").result == BEFORE


def test_what_an_earlier_job_left(job):
    """In a file system that was kept."""
    job.exec("mkdir -p /sbx/homes/.layers/0/up/root/x /sbx/homes/.layers/7")
    run(job, "1")
    a, = views(job)
    assert layers(job) == ["0"]
    assert run(job, "import os; os.listdir('/root')", context=a).result == "[]"
    until(lambda: job.exec("ls -A /sbx/homes").out == ".layers\n",
          "it was removed")


def test_view_ends_with_its_interpreter(job):
    run(job, MAKE)
    a, = views(job)
    run(job, CHANGE, context=a)
    assert run(job, "os._exit(3)", context=a).exit["state_lost"] is True
    until(lambda: not layers(job), "its layer is gone")
    assert run(job, "import os; sorted(os.listdir('w'))",
               context=a).result == "['d', 'gone', 'kept', 'pos']"


def test_diff_of_files(job):
    run(job, MAKE)
    a, b = views(job, 2)
    assert changes(job, a).keys() == {"/root/w/pos"}
    run(job, CHANGE, context=a)
    run(job, "f.close()", context=b)
    there = {"/root/w/kept": "changed", "/root/w/gone": "removed",
             "/root/w/new": "added", "/root/w/link": "added",
             "/root/w/d": "changed", "/root/w/d/fresh": "added",
             "/tmp/t": "added", "/root/w/pos": "changed"}
    back = {"added": "removed", "removed": "added", "changed": "changed"}
    assert changes(job, a) == there
    assert changes(job, "main", context=a) == {
        p: back[k] for p, k in there.items()}


@pytest.mark.parametrize("how, says", [
    ("import sys; sys.modules['ctypes'] = None", "ctypes"),
    ("for i in (1, 2): open(f'/sbx/homes/.layers/{i}', 'w').close()",
     "Not a directory")], ids=["no ctypes", "no place"])
def test_without_views(job, how, says):
    """It says so, and everything else is as ever."""
    run(job, "1", context="first")
    views(job, context="first")  # layer 0; the next ones are in the way
    run(job, how + "\nx = 1; open('a', 'w').close()")
    got = fork(job, 2)
    assert got["fork"]["files"] == "shared"
    assert says in got["fork"]["files_why"]
    a, b = got["children"]
    run(job, "x = 2; open('b', 'w').close()", context=a)
    assert run(job, "x, __import__('os').listdir('.')", context=b).result in (
        "(1, ['a', 'b'])", "(1, ['b', 'a'])")
    merge(job, a)
    assert run(job, "x").result == "2"
