# SPDX-License-Identifier: Apache-2.0
"""run_code: Python that remembers, its queue, its end, and its copies."""

import json
import os
import subprocess
import sys
import threading

import pytest

from agent_support import Agent, Scope, events, processes_of, text
from support import paths
from support.wait import until

MIB = 1 << 20


@pytest.fixture(scope="module")
def agent(module_tmp):
    host = os.geteuid() == 0
    with Agent(module_tmp, host=host) as a:
        yield a


@pytest.fixture
def box(agent):
    """A sandbox (or, without root, the agent itself)."""
    if os.geteuid() != 0:
        yield Scope(agent, "/v1", agent.token)
        return
    sb = agent.create()
    yield sb
    sb.delete()


class Ran:
    def __init__(self, status, data):
        self.status = status
        assert status == 200, data
        self.events = events(data)
        self.out = text(self.events)
        self.err = text(self.events, "stderr")
        self.exit = self.events[-1]
        assert self.exit["event"] == "exit", self.events[-3:]
        assert [e["event"] for e in self.events].count("exit") == 1
        self.code = self.exit["exit_code"]
        self.results = [e for e in self.events if e["event"] == "result"]
        self.errors = [e for e in self.events if e["event"] == "error"]

    @property
    def result(self):
        assert len(self.results) == 1, (self.results, self.err)
        return self.results[0]["text"]


def run(box, code, **req):
    return Ran(*box.call("POST", "run_code", {"code": code, **req}))


def begin(box, code, **req):
    """The response to read from, once the interpreter has the code."""
    r = box.send("POST", "run_code", {"code": code, **req})
    assert r.status == 200
    while json.loads(r.readline())["event"] != "start":
        pass
    return r


def rest(response):
    data = response.read()
    response.conn.close()
    return Ran(200, data)


def interrupt(box, **req):
    return box.call("POST", "run_code/interrupt", req)


# --- what stays --------------------------------------------------------------
def test_names_persist(box):
    assert run(box, "x = 40\nimport math").code == 0
    r = run(box, "x + 2")
    assert r.result == "42" and r.out == "" and r.code == 0
    assert run(box, "math.floor(2.5)").result == "2"
    assert run(box, "__name__").result == "'__main__'"
    assert run(box, "_").result == "'__main__'"


def test_the_process_persists(box):
    run(box, """
import os, sys, threading, subprocess, socket
os.mkdir("d"); os.chdir("d"); sys.path.append("/nowhere")
f = open("f", "w+"); f.write("kept"); f.flush()
a, b = socket.socketpair()
go = threading.Event(); done = threading.Event()
t = threading.Thread(target=lambda: (go.wait(), done.set()), daemon=True)
t.start()
p = subprocess.Popen(["sleep", "1000"])
os.environ["MINE"] = "1"
""")
    r = run(box, """
b.send(b"hello"); go.set(); done.wait(5); f.seek(0)
[os.getcwd().endswith("/d"), sys.path[-1], f.read(), a.recv(5), t.is_alive() or
 done.is_set(), p.poll(), os.environ["MINE"]]
""")
    assert r.result == "[True, '/nowhere', 'kept', b'hello', True, None, '1']"
    assert run(box, "p.kill(); p.wait()").result == "-9"


def test_top_level_await(box):
    assert run(box, """
import asyncio
async def f(n):
    await asyncio.sleep(0)
    return n + 1
await f(1)""").result == "2"
    assert run(box, "x = await f(2)\nx").result == "3"


def test_contexts_are_apart(box):
    run(box, "x = 'one'")
    run(box, "x = 'two'", context="other")
    assert run(box, "x").result == "'one'"
    assert run(box, "x", context="other").result == "'two'"
    _, got = box.call("GET", "run_code/contexts")
    assert [c["context"] for c in got] == ["main", "other"]
    assert got[0]["pid"] != got[1]["pid"] and got[0]["calls"] == 0
    assert box.call("DELETE", "run_code/contexts/other")[0] == 200
    assert box.call("DELETE", "run_code/contexts/other")[0] == 404
    assert run(box, "'x' in dir()", context="other").result == "False"


@pytest.mark.root
def test_it_runs_as_the_sandbox(box):
    assert run(box, "import os; os.getuid()").result == str(box.uid)
    r = run(box, "open('/etc/shadow').read()")
    assert r.errors[0]["name"] == "PermissionError"
    r = run(box, f"open('{box.home}/../x', 'w')")
    assert r.errors[0]["name"] == "PermissionError"
    assert run(box, "os.getcwd()").result == repr(box.home)
    assert processes_of(box.uid)


def test_surroundings_are_the_sandbox(box):
    """What the interpreter was started with is not the code's."""
    r = run(box, "import os, sys\nos.environ.get('GLIBC_TUNABLES'), "
            "sys.path.count(''), sys.argv, __name__")
    assert r.result == "(None, 1, [''], '__main__')"


def test_env_is_for_the_call(box):
    assert run(box, "import os; os.environ.get('A')",
               env={"A": 5}).result == "'5'"
    assert run(box, "os.environ.get('A')").results == []


# --- values, errors ----------------------------------------------------------
def test_last_expression(box):
    assert run(box, "1; 2").result == "2"
    assert run(box, "x = 1").results == []
    assert run(box, "None").results == []
    assert run(box, "for i in range(2): i").results == []
    assert run(box, "print('a')\n'b'").out == "a\n"
    assert run(box, "").code == 0 and run(box, "# nothing").code == 0


def test_rich_values(box):
    r = run(box, """
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>rich</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_svg_(self): raise ValueError
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/x-it": {"a": [1, float("nan")]}}
display(Bundle())
print("between")
Rich()""")
    kinds = [e["event"] for e in r.events]
    assert kinds == ["start", "display", "stdout", "result", "exit"]
    assert r.events[1]["data"] == {"application/x-it": {"a": [1, "nan"]}}
    assert r.results[0]["text"] == "plain"
    assert r.results[0]["data"] == {"text/html": "<b>rich</b>",
                                    "image/png": "iVBORw=="}


def test_figures_are_shown_as_notebooks_do(box):
    """A stand-in with matplotlib's functions, which is large to install."""
    r = run(box, """
import sys, types
plt = types.ModuleType("matplotlib.pyplot"); shown = [1, 2]
class Fig:
    def savefig(self, f, **kw): f.write(b"png")
plt.get_backend = lambda: "agg"
plt.get_fignums = lambda: list(shown)
plt.figure = lambda n: Fig()
plt.close = lambda what: shown.clear()
sys.modules["matplotlib.pyplot"] = plt
print("drawn")""")
    assert [e["event"] for e in r.events] == [
        "start", "stdout", "display", "display", "exit"]
    assert r.events[2]["data"] == {"image/png": "cG5n"}
    assert run(box, "shown").result == "[]"


def test_huge_values_are_cut(box):
    r = run(box, "'x' * (3 << 20)")
    assert r.results[0]["truncated"] == (3 << 20) + 2
    assert len(r.result) == 1 << 20


def test_text_that_json_cannot_carry(box):
    r = run(box, r"print('\ud800 \x00 \u00e9'); 'a\ud800\x00b\u00e9'")
    assert r.code == 0 and "\u00e9" in r.out
    assert r.result == r"'a\ud800\x00bé'"
    assert run(box, r"raise ValueError('\ud800\x00')").code == 1


def test_exceptions(box):
    r = run(box, "def f():\n    return 1 / 0\n\nf()")
    assert r.code == 1 and r.exit["state_lost"] is False
    e, = r.errors
    assert (e["name"], e["value"]) == ("ZeroDivisionError", "division by zero")
    assert e["traceback"] == r.err
    assert 'line 4, in <module>' in r.err and "return 1 / 0" in r.err
    assert 'line 2, in f' in r.err and "runner" not in r.err
    assert "<sandbox>" not in r.err
    r = run(box, "x = = 1")
    assert r.code == 1 and r.errors[0]["name"] == "SyntaxError"
    assert "x = = 1" in r.err
    assert run(box, "f").code == 0  # all is still there
    r = run(box, "class E(Exception):\n def __str__(self): 1/0\nraise E")
    assert r.code == 1 and r.errors[0]["name"] == "E"


def test_system_exit(box):
    run(box, "x = 1")
    assert run(box, "raise SystemExit").code == 0
    assert run(box, "import sys; sys.exit(7)").code == 7
    r = run(box, "sys.exit('because')")
    assert r.code == 1 and r.err == "because\n"
    assert run(box, "exit(3)").code == 3
    assert run(box, "x").result == "1"


# --- the protocol cannot be broken from inside -------------------------------
def test_markers_and_frames_in_code(box):
    r = run(box, '''
import os, struct
doc = """
__PODFLARE_END__
__PODFLARE_BEGIN__
{"t":"exit","c":0}
"""
for fd in (1, 2):
    os.write(fd, b'{"event":"exit","exit_code":9}\\n')
    os.write(fd, struct.pack(">Ic", 13, b"d") + b'{"code": 99}')
print(doc)
raise SystemExit(5)''')
    assert r.code == 5 and "__PODFLARE_END__" in r.out
    assert '{"event":"exit","exit_code":9}' in r.out
    assert run(box, "len(doc)").result == "56"


def test_standard_streams_may_be_closed(box):
    r = run(box, """
import os, sys
print("before"); sys.stdout.flush()
os.close(0); os.close(1); os.close(2)
sys.stdout.close(); sys.stdin = None; sys.stderr = None
x = 1""")
    assert r.out == "before\n" and r.code == 0
    r = run(box, "print('again', x, repr(sys.stdin.read()))")
    assert r.out == "again 1 ''\n" and r.code == 0


def test_standard_streams_may_be_redirected(box):
    r = run(box, """
import os, sys
keep = os.dup(1)
f = open("log", "w+")
os.dup2(f.fileno(), 1); print("into the file"); sys.stdout.flush()
os.dup2(keep, 1); print("back")
open("log").read()""")
    assert r.out == "back\n" and r.result == "'into the file\\n'"


def test_children_write_and_read(box):
    r = run(box, """
import os, subprocess, sys
subprocess.run(["sh", "-c", "cat; echo out; echo err >&2"])
os.system("echo system")
input""")
    assert r.out == "out\nsystem\n" and r.err == "err\n"
    assert run(box, "input()").errors[0]["name"] == "EOFError"


def test_a_child_that_returns_is_not_the_interpreter(box):
    r = run(box, """
import os
pid = os.fork()
print("child" if pid == 0 else os.waitpid(pid, 0)[1])""")
    assert sorted(r.out.split()) == ["0", "child"]
    assert r.code == 0 and run(box, "pid > 0").result == "True"
    r = run(box, "pid = os.fork()\nif pid == 0:\n  display(1)\n  1/0\n"
            "st = os.waitpid(pid, 0)[1] >> 8\nst")
    assert r.result == "1" and not r.errors and "ZeroDivision" in r.err


def test_the_link_may_be_broken(box):
    r = run(box, "x = 1\nimport os\nos.closerange(3, 2000)\nx")
    assert r.exit["state_lost"] is True and "connection" in r.exit["error"]
    assert run(box, "'x' in dir()").result == "False"


def test_a_thread_prints_between_calls(box):
    run(box, """
import threading
go = threading.Event()
def late():
    go.wait(); print("late"); done.set()
done = threading.Event()
threading.Thread(target=late, daemon=True).start()""")
    box.exec(["true"])
    run(box, "import signal; signal.signal(signal.SIGALRM, "
        "lambda *a: go.set()); _ = signal.setitimer(signal.ITIMER_REAL, .05)")
    until(lambda: run(box, "done.is_set()").result == "True", "the thread")


def test_output_is_live_and_whole(box):
    r = begin(box, "import time\nprint('now')\nwhile True: time.sleep(.01)")
    assert json.loads(r.readline()) == {"event": "stdout", "data": "now\n"}
    assert interrupt(box)[1] == {"interrupted": True}
    got = rest(r)
    assert got.code == 130 and got.exit["interrupted"] is True
    assert got.errors[0]["name"] == "KeyboardInterrupt"


def test_flood_with_a_slow_reader(box):
    n = (200 if paths.SLOW == 1 else 20) * MIB
    r = begin(box, f"import os\nb = b'x' * {MIB}\n"
              f"for _ in range({n // MIB}): os.write(1, b)\n'end'")
    agent = box.agent.proc.pid

    def rss():
        with open(f"/proc/{agent}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith("VmRSS"))

    before, most, total = rss(), 0, 0
    last = b""
    while line := r.readline():
        ev = json.loads(line)
        total += len(ev["data"]) if ev["event"] == "stdout" else 0
        most = max(most, rss())
        last = line
    r.conn.close()
    assert total == n and json.loads(last)["exit_code"] == 0
    assert paths.SLOW > 1 or most - before < 8192


# --- the queue ---------------------------------------------------------------
def test_calls_run_one_after_another(box):
    n = 500 if paths.SLOW == 1 else 100
    # By itself: an interrupt may come before the first line of a call that
    # has started.
    assert run(box, "seen = []\nimport time", context="q").code == 0
    first = begin(box, "while True: time.sleep(.001)", context="q")
    waiting = []
    for i in range(n):
        r = box.send("POST", "run_code",
                     {"code": f"seen.append({i})", "context": "q"})
        assert json.loads(r.readline()) == {"event": "queued",
                                            "position": i + 1}
        waiting.append(r)
    # another context does not wait
    assert run(box, "1 + 1").result == "2"
    gone = waiting.pop(7)
    gone.conn.close()
    gone.close()
    assert interrupt(box, context="q")[1] == {"interrupted": True}
    assert rest(first).code == 130
    for r in waiting:
        assert rest(r).code == 0
    want = [i for i in range(n) if i != 7]
    assert run(box, f"seen == {want}", context="q").result == "True"


def test_contexts_run_in_parallel(box):
    """Each waits for the other: in turns they would never end."""
    code = """
import os, time
open("{0}", "w").close()
while not os.path.exists("{1}"): time.sleep(.005)
"met" """
    got = {}
    threads = [threading.Thread(target=lambda a=a, b=b: got.update(
        {a: run(box, code.format(a, b), context=a)})) for a, b in
        (("left", "right"), ("right", "left"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got["left"].result == got["right"].result == "'met'"


# --- ends --------------------------------------------------------------------
def test_timeout_is_an_interrupt_first(box):
    run(box, "x = 1; cleaned = False")
    r = run(box, "import time\ntry:\n  time.sleep(1000)\n"
            "finally:\n  cleaned = True", timeout=0.2)
    assert r.code == 130 and r.exit["timed_out"] is True
    assert r.exit["state_lost"] is False
    assert '"<cell 2>", line 3, in <module>' in r.err  # and none of ours
    assert "<sandbox>" not in r.err and r.err.endswith("KeyboardInterrupt\n")
    assert run(box, "x, cleaned").result == "(1, True)"


def test_timeout_of_what_does_not_listen(box):
    run(box, "x = 1")
    r = run(box, "import signal\nsignal.signal(signal.SIGINT, "
            "signal.SIG_IGN)\nprint('kept')\nwhile True: pass", timeout=0.2)
    assert r.exit["timed_out"] and r.exit["state_lost"]
    assert r.exit["signal"] == 9 and r.code is None and r.out == "kept\n"
    assert "error" not in r.exit  # it was us
    assert run(box, "'x' in dir()").result == "False"


def test_interrupt_without_a_call(box):
    run(box, "x = 1")
    assert interrupt(box)[1] == {"interrupted": False}
    assert run(box, "x").result == "1"
    assert interrupt(box, context="none")[0] == 404


@pytest.mark.parametrize("how, code, sig", [
    ("os._exit(7)", 7, None), ("os.kill(os.getpid(), 9)", None, 9),
    ("os.kill(os.getpid(), 11)", None, 11), ("os.abort()", None, 6)])
def test_interpreter_that_dies(box, how, code, sig):
    run(box, "x = 1")
    r = run(box, f"import os\nprint('last words')\n{how}")
    assert r.out == "last words\n"
    assert (r.code, r.exit["signal"]) == (code, sig)
    assert r.exit["state_lost"] is True and "error" not in r.exit
    assert run(box, "'x' in dir()").result == "False"


def test_interpreter_that_dies_alone(box):
    pid = run(box, "import os; os.getpid()").result
    assert box.exec(f"kill -9 {pid}").code == 0

    def restarted():
        got = run(box, "1").events[1]
        return got["event"] == "restarted" and got["signal"] == 9

    until(restarted, "the end is told")


def test_memory_limit(agent):
    if os.geteuid() != 0:
        pytest.skip("only a sandbox has one")
    sb = agent.create(max_mem_mb=200)
    run(sb, "x = 1")
    r = run(sb, "b = bytearray(1 << 30)")
    assert r.errors[0]["name"] == "MemoryError" and r.code == 1
    assert run(sb, "x").result == "1"
    sb.delete()


def test_client_that_goes_away(box):
    run(box, "n = 0; import time")
    r = begin(box, "try:\n  while True: time.sleep(.01)\n"
              "finally: n += 1")
    r.close()
    r.conn.close()
    until(lambda: run(box, "n").result == "1", "the interrupt")
    r = begin(box, "time.sleep(.3); n += 10", detach=True)
    r.close()
    r.conn.close()
    until(lambda: run(box, "n").result == "11", "its end")


def test_deleting_the_sandbox_ends_it(agent):
    if os.geteuid() != 0:
        pytest.skip("host mode")
    sb = agent.create()
    r = begin(sb, "import time\nwhile True: time.sleep(.01)")
    w = sb.send("POST", "run_code", {"code": "1"})
    sb.delete()
    for got in (rest(r), rest(w)):
        assert got.exit["state_lost"] is True
    assert not processes_of(sb.uid)


# --- asking wrongly ----------------------------------------------------------
@pytest.mark.parametrize("req, status, says", [
    ({}, 400, "code"), ({"code": 5}, 400, "strings"),
    ({"code": "1", "language": "cobol"}, 400, "language"),
    ({"code": "1", "context": "a b"}, 400, "context"),
    ({"code": "1", "context": "x" * 65}, 400, "context"),
    ({"code": "1", "timeout": "soon"}, 400, "timeout"),
    ({"code": "1", "env": {"SBX_A": "1"}}, 400, "SBX_"),
    ({"code": "1", "exec_id": "a"}, 400, "exec_id"),
    ({"code": "1", "env": [1]}, 400, "env")])
def test_bad_requests(box, req, status, says):
    got = box.call("POST", "run_code", req)
    assert got[0] == status and says in got[1]["error"], got


def test_bash_is_fresh_each_time(box):
    r = box.call("POST", "run_code", {"code": "x=1; echo $x; exit 3",
                                      "language": "bash"})
    evs = events(r[1])
    assert text(evs) == "1\n" and evs[-1]["exit_code"] == 3
    evs = events(box.call("POST", "run_code", {
        "code": "echo [$x]$A", "lang": "bash", "env": {"A": "a"}})[1])
    assert text(evs) == "[]a\n"


def test_no_python(agent):
    if os.geteuid() != 0:
        pytest.skip("host mode")
    sb = agent.create(env={"PATH": "/nowhere"})
    status, got = sb.call("POST", "run_code", {"code": "1"})
    assert status == 503 and got["code"] == "no_python", got
    assert "python3" in got["error"]
    sb.delete()


def test_dedicated_mode(dedicated):
    run(dedicated, "x = 41")
    assert run(dedicated, "x + 1").result == "42"
    _, got = dedicated.call("POST", "run_code/fork", {"n": 2})
    for i, name in enumerate(got["children"]):
        assert run(dedicated, f"x += {i}; x", context=name).result == str(
            41 + i)


# --- copies ------------------------------------------------------------------
def fork(box, n=1, **req):
    status, got = box.call("POST", "run_code/fork", {"n": n, **req})
    assert status == 200 and len(got["children"]) == n, got
    return got


def test_fork_goes_on_from_the_same_state(box):
    run(box, "x = [1]; import random; random.seed(5); r = random.random()")
    names = fork(box, 3)["children"]
    assert names == ["main-1", "main-2", "main-3"]
    for i, name in enumerate(names):
        assert run(box, f"x.append({i}); x", context=name).result == (
            f"[1, {i}]")
    assert run(box, "x").result == "[1]"
    pids = {run(box, "import os; os.getpid()", context=n).result
            for n in names + ["main"]}
    assert len(pids) == 4
    # a copy of a copy, and output that goes to whom it belongs
    grand, = fork(box, 1, context="main-2")["children"]
    assert grand == "main-2-1"
    assert run(box, "print(x)", context=grand).out == "[1, 1]\n"


def test_forks_have_file_positions_of_their_own(box):
    run(box, """
f = open("data", "w+"); f.write("0123456789"); f.flush(); f.seek(4)
import os
fd = os.open("data", os.O_RDONLY); _ = os.lseek(fd, 2, os.SEEK_SET)""")
    a, b = fork(box, 2)["children"]
    assert run(box, "os.read(fd, 3)", context=a).result == "b'234'"
    assert run(box, "os.read(fd, 3)", context=b).result == "b'234'"
    assert run(box, "os.read(fd, 3)").result == "b'234'"
    assert run(box, "f.read(2)", context=b).result == "'45'"


def test_fork_is_not_mixed_up_with_what_threads_show(box):
    run(box, """
import threading
shown, stop = 0, False
def show():
    global shown
    while not stop:
        display("x" * 20000)
        shown += 1
t = threading.Thread(target=show)
t.start()""")
    names = fork(box, 8)["children"]
    run(box, "stop = True; t.join()")
    assert [run(box, "shown >= 0", context=n).result for n in names] == \
        ["True"] * 8


def test_fork_says_what_it_cannot_carry(box):
    run(box, "import threading, time; threading.Thread(target=time.sleep, "
        "args=(100,), daemon=True).start()")
    got = fork(box)
    assert got["fork"]["threads"] == 1
    assert got["fork"]["files"] == "shared" and got["fork"]["files_why"]
    assert run(box, "threading.active_count()",
               context=got["children"][0]).result == "1"


def test_parent_does_not_meet_the_copies(box):
    run(box, "x = 1")
    fork(box, 2)
    r = run(box, "import os\nos.waitpid(-1, os.WNOHANG)")
    assert r.errors[0]["name"] == "ChildProcessError"


def test_fork_of_code_that_ignores_its_children(box):
    assert run(box, "import signal\n_ = signal.signal(signal.SIGCHLD, "
               "signal.SIG_IGN)\nq = 3").code == 0
    status, got = box.call("POST", "run_code/fork", {"n": 2})
    assert status == 200 and got["fork"]["made"] == 2, got
    for name in ("main", *got["children"]):
        assert run(box, "q", context=name).result == "3"


def test_copies_are_interrupted_and_die_alone(box):
    run(box, "import time, os; x = 1")
    a, b = fork(box, 2)["children"]
    r = run(box, "time.sleep(1000)", context=a, timeout=0.2)
    assert r.code == 130 and r.exit["timed_out"]
    r = run(box, "os.kill(os.getpid(), 9)", context=b)
    assert r.exit["state_lost"] is True
    assert run(box, "x", context=a).result == "1"
    assert run(box, "'x' in dir()", context=b).result == "False"
    assert run(box, "x").result == "1"


def test_copies_outlive_the_parent(box):
    run(box, "x = 5")
    a, = fork(box)["children"]
    assert box.call("DELETE", "run_code/contexts/main")[0] == 200
    assert run(box, "x", context=a).result == "5"


def test_memory_is_shared_until_written(box):
    size = 256 if paths.SLOW == 1 else 32
    run(box, f"b = bytearray({size} << 20)\nfor i in range(0, len(b), 4096): "
        "b[i] = 1")
    names = fork(box, 5)["children"]

    def own(name):
        out = run(box, "open('/proc/self/smaps_rollup').read()"
                  ".split('Private_Dirty:')[1].split()[0]", context=name)
        return int(out.result.strip("'"))

    for name in names:
        assert own(name) < 16 * 1024
        assert run(box, "b[4096]", context=name).result == "1"


def test_32_copies_and_no_more(box):
    run(box, "x = 1")
    names = fork(box, 32)["children"]
    assert len(set(names)) == 32
    assert run(box, "x", context=names[31]).result == "1"
    for n in (0, 33, "two", -1):
        assert box.call("POST", "run_code/fork", {"n": n})[0] == 400
    fork(box, 32), fork(box, 32)
    status, got = box.call("POST", "run_code/fork", {"n": 32})  # of 128
    assert status == 429 and "too many contexts" in got["error"]
    assert len(box.call("GET", "run_code/contexts")[1]) == 97
    assert box.call("POST", "run_code/fork", {"context": "no"})[0] == 404


def test_winner_takes_the_place(box):
    run(box, "x = 'parent'")
    a, b = fork(box, 2)["children"]
    run(box, "x = 'winner'", context=b)
    status, got = box.call("POST", "run_code/merge_into", {"winner": b})
    assert status == 200 and got == {"context": "main", "winner": b}
    assert run(box, "x").result == "'winner'"
    assert run(box, "x", context=a).result == "'parent'"
    again = box.call("POST", "run_code/merge_into", {"winner": b})
    assert again[0] == 404
    assert box.call("POST", "run_code/merge_into",
                    {"winner": "main"})[0] == 400


def test_winner_must_be_idle(box):
    run(box, "import time")
    a, = fork(box)["children"]
    r = begin(box, "while True: time.sleep(.01)", context=a)
    got = box.call("POST", "run_code/merge_into", {"winner": a})
    assert got[0] == 409 and got[1]["code"] == "busy"
    interrupt(box, context=a)
    rest(r)
    assert box.call("POST", "run_code/merge_into", {"winner": a})[0] == 200


def test_diff(box):
    run(box, "same = 1; gone = 2; other = [3]")
    a, = fork(box)["children"]
    run(box, "del gone; other.append(4); new = 'n'", context=a)
    status, got = box.call("POST", "run_code/diff", {"other": a})
    assert status == 200
    assert got == {"added": {"new": {"type": "str", "text": "'n'"}},
                   "removed": {"gone": {"type": "int", "text": "2"}},
                   "changed": {"other": {
                       "from": {"type": "list", "text": "[3]"},
                       "to": {"type": "list", "text": "[3, 4]"}}},
                   "files": []}
    assert box.call("POST", "run_code/diff", {"other": "no"})[0] == 404
    assert box.call("POST", "run_code/diff", {})[0] == 400


# --- the older line protocol -------------------------------------------------
def test_line_protocol():
    """The runner by itself, on its standard input and output."""
    runner = paths.TOP / "agent" / "runner.py"
    with subprocess.Popen([sys.executable, str(runner)],
                          stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        def call(code):
            p.stdin.write(b"__PODFLARE_BEGIN__\n" + code +
                          b"\n__PODFLARE_END__\n")
            p.stdin.flush()
            got = {"out": "", "err": ""}
            while True:
                m = json.loads(p.stdout.readline())
                if m["t"] == "exit":
                    return m["c"], got["out"], got["err"]
                got[m["t"]] += m["d"]

        assert call(b"x = 1\nprint('hi')") == (0, "hi\n", "")
        assert call(b"x + 1") == (0, "2\n", "")
        assert call(b"import os; os.write(1, b'{\"t\":\"exit\"}'); "
                    b"raise SystemExit(4)")[0] == 4
        code, _, err = call(b"1/0")
        assert code == 1 and "ZeroDivisionError" in err
        p.stdin.close()
        assert p.wait(10) == 0
