# SPDX-License-Identifier: Apache-2.0
"""The Podflare API below /podflare, as its client asks: Python that remembers,
forks of it, the choice of one, and everybody's own sandboxes."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.parse

import pytest

from support import paths
from support.gateway import Gateway
from support.wait import until

pytestmark = pytest.mark.root

OPERATOR = "operator-0123456789abcdef0123456789abcdef"
MIB = 1 << 20
CONFIG = """\
[gateway]
state_dir = {tmp}/state
workers = 2
[listen plain]
address = http://127.0.0.1:0
[auth]
operator_token_file = {tmp}/op
[agent]
enabled = yes
[podflare]
enabled = yes
{more}
[timeouts]
write = 120s
drain = 2s
[jobs]
enabled = no
[log]
access = off
[admin]
listen = off
"""


class Face(Gateway):
    def __init__(self, tmp, more=""):
        (tmp / "op").write_text(OPERATOR + "\n")
        super().__init__(tmp, token=OPERATOR,
                         config=CONFIG.format(tmp=tmp, more=more))

    def user(self, *args):
        out = subprocess.run(
            [paths.GATEWAY, "token", "add", *args, "-c", self.config],
            env=paths.child_env({}), capture_output=True, check=True)
        return User(self, out.stdout.decode().strip())

    def agent_pid(self):
        for pid in subprocess.run(
                ["pgrep", "-P", str(self.proc.pid)], capture_output=True,
                check=True).stdout.split():
            comm = pathlib.Path(f"/proc/{pid.decode()}/comm").read_text()
            if comm.startswith("sbx-agent"):
                return int(pid)
        return None

    def inside(self):
        """Sandboxes of the agent."""
        op = User(self, OPERATOR)
        status, got = op.ask("GET", "/v1/sandboxes", base="")
        assert status == 200, got
        return got


class User:
    def __init__(self, gw, token):
        self.gw, self.token = gw, token

    def send(self, method, path, body=None, base="/podflare",
             content="application/json"):
        """The response, unread."""
        at = urllib.parse.urlsplit(self.gw.http)
        conn = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        headers = {"Content-Type": content}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        conn.request(method, base + path, body, headers)
        r = conn.getresponse()
        r.conn = conn
        return r

    def ask(self, *what, **kw):
        r = self.send(*what, **kw)
        data = r.read()
        r.conn.close()
        if r.getheader("Content-Type") == "application/json":
            return r.status, json.loads(data)
        return r.status, data

    def fails(self, status, *what):
        got, body = self.ask(*what)
        assert got == status, body
        assert isinstance(body["error"], str) and body["error"]
        return body["error"]

    def create(self, **options):
        status, got = self.ask("POST", "/v1/sandboxes", options)
        assert status == 200, got
        assert got["state"] == "ready"
        assert re.fullmatch("sbx_[0-9a-f]{32}", got["id"])
        return Box(self, got["id"])


class Ran:
    def __init__(self, data):
        self.events = [json.loads(line) for line in data.splitlines()]
        assert [e["seq"] for e in self.events] == list(
            range(len(self.events)))
        for e in self.events:
            assert set(e) == {"type", "data", "seq", "ts"}
            assert abs(e["ts"] - time.time() * 1000) < 600e3
        assert [e["type"] for e in self.events].count("exit") == 1
        assert self.events[-1]["type"] == "exit"
        self.code = self.events[-1]["data"]
        self.out = self.text("stdout")
        self.err = self.text("stderr")

    def text(self, kind):
        lines = [e["data"] for e in self.events if e["type"] == kind]
        assert not any("\n" in line for line in lines)
        return "".join(line + "\n" for line in lines)


class Box:
    def __init__(self, user, id_):
        self.user, self.id = user, id_
        self.path = f"/v1/sandboxes/{id_}"

    def start(self, code, **more):
        r = self.user.send("POST", self.path + "/exec",
                           {"code": code, **more})
        assert r.status == 200, r.read()
        assert r.getheader("Content-Type") == "application/x-ndjson"
        assert r.getheader("Transfer-Encoding") == "chunked"
        return r

    def run(self, code, **more):
        r = self.start(code, **more)
        data = r.read()
        r.conn.close()
        return Ran(data)

    def out(self, code, **more):
        ran = self.run(code, **more)
        assert ran.code == 0, ran.events
        return ran.out

    def fork(self, n=None):
        status, got = self.user.ask("POST", self.path + "/fork",
                                    {} if n is None else {"n": n})
        assert status == 200, got
        return [Box(self.user, c) for c in got["children"]]

    def merge(self, winner):
        return self.user.ask("POST", f"{self.path}/merge_into/{winner.id}")

    def delete(self):
        return self.user.ask("DELETE", self.path)[0]


@pytest.fixture(scope="module")
def gw(module_tmp):
    gw = Face(module_tmp)
    gw.ann = gw.user("ann", "--namespace", "ann,team")
    gw.bob = gw.user("bob")
    gw.eve = gw.user("eve", "--namespace", "ann", "--role", "readonly")
    with gw:
        yield gw


@pytest.fixture
def box(gw):
    b = gw.ann.create()
    yield b
    b.delete()


def test_health_needs_nothing(gw):
    assert User(gw, None).ask("GET", "/v1/healthz") == (200, b"ok")
    assert User(gw, "pk_wrong").ask("GET", "/v1/healthz") == (200, b"ok")


def test_credentials(gw, box):
    for token in (None, "pk_wrong"):
        wrong = User(gw, token)
        said = {wrong.send("POST", path, {}).read()
                for path in ("/v1/sandboxes", box.path + "/exec", "/nothing")}
        assert said == {b'{"error":"invalid api key"}\n'}
        wrong.fails(401, "POST", "/v1/sandboxes", {})
        wrong.fails(401, "POST", box.path + "/exec", {"code": "1"})
        wrong.fails(401, "DELETE", box.path)
    gw.eve.fails(403, "POST", "/v1/sandboxes", {})
    gw.eve.fails(403, "POST", box.path + "/exec", {"code": "1"})


def test_others_do_not_see_it(gw, box):
    nobody = "/v1/sandboxes/sbx_" + "0" * 32
    for method, rest, body in (("POST", "/exec", {"code": "1"}),
                               ("POST", "/fork", {"n": 1}),
                               ("POST", "/merge_into/x", None),
                               ("DELETE", "", None)):
        said = {gw.bob.fails(404, method, path + rest, body)
                for path in (box.path, nobody)}
        assert said == {"sandbox not found"}
    theirs = gw.bob.create()
    assert box.merge(theirs)[0] == 404
    assert theirs.delete() == 204
    assert box.out("print(1)") == "1\n"


def test_state_stays(box):
    assert box.out("x = 41\nimport math, os\nos.mkdir('d')\n"
                   "os.chdir('d')") == ""
    assert box.out("x += 1\nprint(x, math.pi > 3, os.getcwd()[-2:])") == \
        "42 True /d\n"
    assert box.out("print(__name__)") == "__main__\n"
    assert box.out("f = open('kept', 'w+'); _ = f.write('abc'), f.seek(1)") \
        == ""
    assert box.out("print(f.read())") == "bc\n"


def test_value_of_the_last_expression(box):
    assert box.out("1 + 1") == "2\n"
    assert box.out("'a\\nb'") == "'a\\nb'\n"
    assert box.out("None") == ""
    assert box.out("x = 5") == ""
    assert box.out("import sys; print('p', end=''); [1,\n2]") == "p\n[1, 2]\n"


def test_values_can_be_off(tmp):
    with Face(tmp, "show_values = no\nmax_sandboxes = 1") as gw:
        ann = User(gw, OPERATOR)
        b = ann.create()
        assert b.out("print('a')\n1 + 1") == "a\n"
        assert ann.fails(500, "POST", "/v1/sandboxes", {}) == "pool exhausted"
        assert b.delete() == 204
        assert ann.create().delete() == 204


def test_errors_are_not_the_end(box):
    ran = box.run("y = 7\nraise ValueError('no')")
    assert ran.code == 1 and "ValueError: no" in ran.err
    assert "line 2" in ran.err and ran.out == ""
    ran = box.run("def broken(:")
    assert ran.code == 1 and "SyntaxError" in ran.err
    for code, want in (("exit()", 0), ("raise SystemExit(3)", 3),
                       ("import sys; sys.exit('bad')", 1)):
        ran = box.run(code)
        assert ran.code == want
    assert ran.err == "bad\n"
    assert box.out("print(y)") == "7\n"


def test_markers_in_code(box):
    code = ('doc = """\n__PODFLARE_END__\n__PODFLARE_BEGIN__\n"""\n'
            'print(doc.strip())\n'
            'print(\'{"t":"exit","c":0}\')\n'
            'import os\n'
            'os.write(1, b\'{"type":"exit","data":9,"seq":0,"ts":0}\\n\')\n'
            'print(\'{"event":"exit","exit_code":5}\')\n'
            'os.close(0)\n'
            'print("end")')
    assert box.out(code).splitlines() == [
        "__PODFLARE_END__", "__PODFLARE_BEGIN__", '{"t":"exit","c":0}',
        '{"type":"exit","data":9,"seq":0,"ts":0}',
        '{"event":"exit","exit_code":5}', "end"]
    assert box.out("print('goes on')") == "goes on\n"


def test_odd_output(box):
    ran = box.run("import os\nos.write(1, b'a\\0b\\xff\\nno end')\n"
                  "os.write(2, 'ä'.encode()[:1])\n"
                  "os.write(2, 'ä'.encode()[1:])")
    assert ran.out == "a\0b\ufffd\nno end\n" or \
        ran.out == "a\0b\ufffd\nno end\n1\n"
    assert ran.err == "ä\n"
    big = box.run("print('é' * 700_000)")  # one line, cut where it must be
    assert big.out.replace("\n", "") == "é" * 700_000
    assert len(big.events) == 3


def test_bash_is_fresh(box):
    assert box.out("X=1; echo $X; echo e >&2", language="bash") == "1\n"
    assert box.out("echo \"<$X>\"", lang="bash") == "<>\n"
    assert box.run("exit 7", language="bash").code == 7
    assert box.run("kill -9 $$", language="bash").code == 137
    box.run("import os; open('note', 'w').write('hello')")
    assert box.out("cat note", language="bash") == "hello\n"


def test_live(box):
    """A line is there before the code goes on."""
    box.run("import os; os.mkfifo('go')")
    r = box.start("print('first')\nopen('go').read()\nprint('second')")
    assert json.loads(r.readline())["data"] == "first"
    box.out("echo x > go", language="bash")
    assert json.loads(r.readline())["data"] == "second"
    assert json.loads(r.readline())["type"] == "exit"
    assert r.read() == b""
    r.conn.close()


def test_calls_wait_for_each_other(box):
    box.run("n = 0")
    code = "k = n\nfor _ in range(10000): pass\nn = k + 1\nprint(n)"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: int(box.out(code)), range(40)))
    assert sorted(got) == list(range(1, 41))


def test_timeout(box):
    box.run("z = 1")
    ran = box.run("import time\ntime.sleep(60)", timeout=0.3)
    assert ran.code == 124 and "timed out" in ran.err
    assert "KeyboardInterrupt" in ran.err
    assert box.out("print(z)") == "1\n"


def test_client_that_hangs_up(box):
    box.run("import os, time; beat = 0")
    r = box.start("print('there')\nwhile True:\n beat += 1\n time.sleep(.02)")
    assert json.loads(r.readline())["data"] == "there"
    r.close()
    r.conn.close()
    # It was interrupted, and the next one gets its turn.
    assert int(box.out("print(beat)")) > 0


def test_interpreter_that_dies(box):
    ran = box.run("keep = 1\nimport os\nos.kill(os.getpid(), 9)")
    assert ran.code == 137 and "state is lost" in ran.err
    ran = box.run("print('new', 'keep' in globals())")
    assert ran.out == "new False\n" and ran.code == 0


def test_bad_requests(gw, box):
    exec_ = box.path + "/exec"
    for body in ({}, {"code": 5}, {"code": "1", "language": "cobol"},
                 {"code": "1", "timeout": "x"}, {"code": "1", "timeout": -1},
                 {"code": "1", "lang": []}, b"{", b"[]"):
        gw.ann.fails(400, "POST", exec_, body)
    for n in (0, 33, -1, "5", 1.5):
        assert "n:" in gw.ann.fails(400, "POST", box.path + "/fork", {"n": n})
    for body in ({"template": "windows"}, {"egress": "no"},
                 {"persistent": 1}):
        name = next(iter(body))
        assert name in gw.ann.fails(400, "POST", "/v1/sandboxes", body)
    gw.ann.fails(404, "GET", "/v1/nothing")
    gw.ann.fails(405, "GET", "/v1/sandboxes")
    assert box.out("print('well')") == "well\n"


def test_options(gw):
    b = gw.ann.create(template="python-datasci", egress=False,
                      whatever={"x": 1})
    code = ("import socket\ns = socket.socket()\n"
            "print(s.connect_ex(('127.0.0.1', 9)) != 0)\n"
            "print([i for _, i in socket.if_nameindex()])")
    assert b.out(code).splitlines()[1] == "['lo']"
    assert b.delete() == 204


def test_forks_diverge(box):
    box.run("items = [1, 2]\nimport threading")
    one, two = box.fork(2)
    assert len({box.id, one.id, two.id}) == 3
    one.run("items.append('one')")
    two.run("items.clear()")
    box.run("items.append('parent')")
    assert one.out("items") == "[1, 2, 'one']\n"
    assert two.out("items") == "[]\n"
    assert box.out("items") == "[1, 2, 'parent']\n"
    grand, = one.fork()
    assert grand.out("items") == "[1, 2, 'one']\n"


def test_winner_takes_the_place(box):
    box.run("v = 'parent'")
    a, b = box.fork(2)
    a.run("v = 'a'")
    b.run("v = 'b'")
    assert box.merge(box)[0] == 400
    assert box.merge(b) == (204, b"")
    assert box.out("v") == "'b'\n"
    assert box.merge(b)[0] == 404
    assert b.user.fails(404, "POST", b.path + "/exec", {"code": "1"})
    assert a.out("v") == "'a'\n"  # siblings stay as they are
    other = box.user.create()
    assert box.merge(other)[0] == 400
    assert other.delete() == 204


def test_winner_without_a_state(box):
    """What is lost cannot win, and the parent keeps what it has."""
    box.run("v = 'parent'")
    a, = box.fork()
    a.run("import os; os.kill(os.getpid(), 9)")
    status, said = box.merge(a)
    assert status == 404 and "state is lost" in said["error"]
    assert box.out("v") == "'parent'\n"
    busy, = box.fork()
    r = busy.start("print(1, flush=True)\nimport time\ntime.sleep(60)")
    r.readline()
    assert box.merge(busy)[0] == 409
    r.close()
    r.conn.close()


def test_deleting_while_it_runs(gw):
    b = gw.ann.create()
    r = b.start("print(1, flush=True)\nimport time\ntime.sleep(60)")
    r.readline()
    assert b.delete() == 204
    events = [json.loads(line) for line in r]
    r.conn.close()
    assert events[-1]["type"] == "exit" and events[-1]["data"] == 137
    assert "the sandbox was deleted" in {e["data"] for e in events}


def test_one_winner_of_many_orders(box):
    a, = box.fork()
    a.run("v = 1")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: box.merge(a)[0], range(8)))
        assert sorted(got) == [204] + [404] * 7
        b, = box.fork()
        got = list(pool.map(lambda _: b.delete(), range(8)))
        assert sorted(got) == [204] + [404] * 7
    assert box.out("v") == "1\n"


def test_500_calls_wait(box):
    box.run("n = 0")
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        got = list(pool.map(lambda _: box.run("n += 1").code, range(500)))
    assert set(got) == {0} and box.out("n") == "500\n"


def test_children_outlive_the_parent(gw):
    b = gw.ann.create()
    b.run("w = 1")
    child, = b.fork(1)
    assert b.delete() == 204
    assert b.delete() == 404
    assert child.out("w") == "1\n"
    assert child.delete() == 204
    gw.ann.fails(404, "POST", child.path + "/exec", {"code": "1"})


def test_sandbox_goes_with_its_last_id(gw):
    before = {s["id"] for s in gw.inside()}
    b = gw.ann.create()
    made, = {s["id"] for s in gw.inside()} - before
    child, = b.fork(1)
    assert b.delete() == 204
    assert made in {s["id"] for s in gw.inside()}
    assert child.delete() == 204
    assert made not in {s["id"] for s in gw.inside()}


def test_32_forks_of_a_large_parent(box):
    box.run(f"x = bytearray({256 * MIB})\n"
            "for i in range(0, len(x), 4096): x[i] = 1\n"
            "def mine():\n"
            " text = open('/proc/self/smaps_rollup').read()\n"
            " return sum(int(l.split()[1]) for l in text.splitlines()\n"
            "            if l.startswith('Private'))\n")
    children = box.fork(32)
    assert len({c.id for c in children}) == 32
    for c in children[::8]:
        assert c.out("x[4096], x[4097]") == "(1, 0)\n"
        assert int(c.out("print(mine())")) < 64 * 1024, "it was copied"
    for c in children:
        assert c.delete() == 204
    assert box.out("len(x)") == f"{256 * MIB}\n"


def test_flood_with_a_slow_reader(gw, box):
    """What the reader does not take is not read, anywhere."""
    n, line = 200 * MIB // 8192, "f" * 8191

    def rss():
        text = pathlib.Path(f"/proc/{gw.proc.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    held = rss()
    r = box.start("import sys\nline = 'f' * 8191 + '\\n'\n"
                  f"for i in range({n}):\n"
                  " _ = sys.stdout.write(line)\n"
                  " open('at', 'w').write(str(i))\n")
    first = json.loads(r.readline())
    assert first["data"] == line
    seen = []

    def stands():
        at = box.out("cat at 2>/dev/null; true", language="bash")
        seen.append(int(at or 0))  # it is being written
        return seen[-1] and len(seen) > 20 and len(set(seen[-10:])) == 1

    until(stands, "the code waits for its reader")
    assert seen[-1] < n // 4, seen
    most, got = rss(), 1
    for raw in r:
        if raw.startswith(b'{"type":"stdout"'):
            got += 1
            if got % 2500 == 0:
                time.sleep(0.05)
                most = max(most, rss())
        else:
            last = json.loads(raw)
    r.conn.close()
    assert got == n and last["type"] == "exit" and last["data"] == 0
    if not paths.SANITIZED:  # those keep what was freed
        assert most - held < 16 * 1024, (held, most)
    assert box.out("print('still')") == "still\n"


def test_nobody_uses_it(tmp):
    with Face(tmp, "idle_timeout = 400ms") as gw:
        ann = User(gw, OPERATOR)
        b = ann.create()
        stays = ann.create(persistent=True)
        busy = ann.create()
        child, = busy.fork(1)
        r = child.start("print(1, flush=True)\nimport time\ntime.sleep(60)")
        r.readline()
        until(lambda: ann.ask("DELETE", b.path + "x")[0] == 404
              and len(gw.inside()) == 2, "it has ended")
        ann.fails(404, "POST", b.path + "/exec", {"code": "1"})
        assert stays.out("print(2)") == "2\n"
        assert busy.out("print(3)") == "3\n"  # in use through its child
        r.conn.close()


def test_agent_restart(tmp):
    with Face(tmp) as gw:
        ann = User(gw, OPERATOR)
        b = ann.create()
        r = b.start("print(1, flush=True)\nimport time\ntime.sleep(60)")
        r.readline()
        os.kill(gw.agent_pid(), signal.SIGKILL)
        with pytest.raises(http.client.IncompleteRead):
            r.read()
        r.conn.close()
        until(lambda: ann.ask("POST", b.path + "/exec",
                              {"code": "1"})[0] == 404, "it is gone")
        new = until(lambda: ann.ask("POST", "/v1/sandboxes", {})[1].get("id"),
                    "the agent is back")
        assert Box(ann, new).out("print('again')") == "again\n"


def test_off_by_default(tmp):
    gw = Face(tmp, "")
    gw.config.write_text(gw.config.read_text().replace(
        "[podflare]\nenabled = yes\n", ""))
    with gw:
        for method, path, body in (("GET", "/v1/healthz", None),
                                   ("POST", "/v1/sandboxes", {})):
            assert User(gw, OPERATOR).fails(400, method, path, body) == \
                "no route has that path"
