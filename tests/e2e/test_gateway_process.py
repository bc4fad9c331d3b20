# SPDX-License-Identifier: Apache-2.0
"""The gateway as processes: start, workers, reload, drain, tokens, secrets."""

import json
import os
import pathlib
import pwd
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from support.app import App
from support.gateway import Gateway, connect, run, tls_context
from support.http import Client, get
from support.wait import until
from support.ws import CLOSE, WebSocket

PAGE = "/v1/proxy/8000/"


def certificate(path, name):
    """path.crt and path.key, self-signed, for name."""
    crt, key = f"{path}.crt", f"{path}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
         "-keyout", key, "-out", crt], check=True, capture_output=True)
    return crt, key


def peer_cert(url, name="localhost"):
    with connect(url, server_hostname=name) as s:
        return ssl.DER_cert_to_PEM_cert(s.getpeercert(binary_form=True))


def admin(gw, path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(gw.state_dir / "admin.sock"))
        with Client(s) as c:
            return c.request("GET", path).response()


def status(gw):
    return json.loads(admin(gw, "/-/status").body)


def settled(gw, generation):
    """The newest configuration has all of its workers."""
    s = status(gw)
    return (s["generation"] >= generation and
            s["workers_ready"] == s["workers_wanted"]) and s


def config(tmp, extra="", listen="https://127.0.0.1:0", keys=""):
    """A file for one sandbox named `box` whose secret is `box-secret`."""
    (tmp / "box.token").write_text("box-secret\n")
    return (f"[gateway]\nstate_dir = {tmp}/state\nworkers = 2\n"
            f"[listen a]\naddress = {listen}\n{keys}"
            f"[sandbox box]\ntoken_file = {tmp}/box.token\n"
            f"proxy_dir = {tmp}/proxy\n[log]\naccess = off\n{extra}")


BOX = "/v1/sandboxes/box/proxy/8000/"


def test_old_generations_get_a_deadline(tmp):
    extra = "[limits]\nretired = 1\n[timeouts]\ndrain = 100ms\n"
    with Gateway(tmp, config=config(tmp, extra)) as gw, App(gw.proxy_dir):
        old = WebSocket(gw.https, BOX + "ws", token="box-secret")
        assert old.echo("x") == b"x"
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, 2), "first reload")
        young = WebSocket(gw.https, BOX + "ws", token="box-secret")
        assert old.echo("y") == b"y"
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, 3), "second reload")
        assert old.frame().opcode == CLOSE
        assert young.echo("z") == b"z"
        for one in (old, young):
            one.client.close()


# --- start -----------------------------------------------------------------
def test_port_zero_says_real_ports(tmp):
    with Gateway.sidecar(tmp) as gw:
        ports = [int(u.rsplit(":", 1)[1]) for u in gw.listens]
        assert len(set(ports)) == 2 and 0 not in ports
        assert get(gw.https, "/health").status == 200
        assert get(gw.http, "/health").status == 200


def test_unix_listener(tmp):
    url = f"unix:{tmp}/gw.sock"
    with Gateway.sidecar(tmp, listens=[url]) as gw, App(gw.proxy_dir):
        assert gw.listens == [url]
        assert get(url, PAGE, token=gw.token).body == b"hello\n"
        assert get(url, PAGE).status in (401, 403)
    assert not (tmp / "gw.sock").exists()


def test_single_process_serves(tmp):
    with Gateway.sidecar(tmp, args=["--single-process"]) as gw:
        assert gw.workers() == []
        with App(gw.proxy_dir):
            assert get(gw.https, PAGE, token=gw.token).body == b"hello\n"
        old = status(gw)["generation"]
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, old + 1), "reload")
        with App(gw.proxy_dir):
            assert get(gw.https, PAGE, token=gw.token).body == b"hello\n"


def test_self_signed_is_made_once_and_can_be_trusted(tmp):
    with Gateway.sidecar(tmp) as gw:
        first = (gw.state_dir / "tls.crt").read_text()
        mode = (gw.state_dir / "tls.key").stat().st_mode & 0o777
        assert mode == 0o600
        ctx = tls_context(ca=str(gw.state_dir / "tls.crt"))
        assert get(gw.https, "/health", ctx=ctx).status == 200
    with Gateway.sidecar(tmp) as gw:
        assert (gw.state_dir / "tls.crt").read_text() == first


def test_second_gateway_is_told_about_the_first(tmp):
    with Gateway.sidecar(tmp) as gw:
        r = run(["--listen", "http://127.0.0.1:0", "--state-dir",
                 gw.state_dir], env={"SBX_TOKEN": "x"})
        assert r.returncode == 1
        assert f"pid {gw.proc.pid}" in r.stderr
        r = run(["--listen", gw.http, "--state-dir", tmp / "other"],
                env={"SBX_TOKEN": "x"})
        assert r.returncode == 1
        assert "in use" in r.stderr


@pytest.mark.parametrize("args, env, says", [
    ([], {}, "--listen"),
    (["--listen", "http://127.0.0.1:0"], {}, "SBX_TOKEN"),
    (["--listen", "ftp://x"], {"SBX_TOKEN": "a"}, "must be https://"),
    (["--listen", "http://127.0.0.1:0", "--tcp-ports", "0"],
     {"SBX_TOKEN": "a"}, "--tcp-ports 0"),
    (["--listen", "http://127.0.0.1:0", "--workers", "many"],
     {"SBX_TOKEN": "a"}, "--workers many"),
    (["--listen", "http://127.0.0.1:0", "--log-level", "x"],
     {"SBX_TOKEN": "a"}, "--log-level x"),
    (["--listen", "https://127.0.0.1:0", "--cert", "/no/such"],
     {"SBX_TOKEN": "a"}, "/no/such"),
    (["--nonsense"], {}, "--help"),
    (["--listen", "http://127.0.0.1:0"], {"SBX_TOKEN_FILE": "/no/such"},
     "/no/such"),
])
def test_command_line_mistakes(tmp, args, env, says):
    r = run([*args, "--state-dir", tmp / "s"], env=env)
    assert r.returncode in (1, 2)
    assert says in r.stderr


# --- configuration ---------------------------------------------------------
def check(tmp, text, *args):
    path = tmp / "check.conf"
    path.write_text(text)
    return run(["-t", "-c", path, *args])


def test_t_accepts(tmp):
    r = check(tmp, config(tmp))
    assert r.returncode == 0, r.stderr


@pytest.mark.parametrize("text, says", [
    ("[gateway]\nworker = 2\n", "check.conf:2: worker: "),
    ("[gatway]\n", "check.conf:1: "),
    ("[gateway]\nworkers = two\n", "check.conf:2: workers: "),
    ("[timeouts]\nhead = 0s\n", "check.conf:2: head: "),
    ("[gateway]\nworkers = 1\nworkers = 2\n", "check.conf:3: workers: "),
    ("[listen a]\naddress = http://127.0.0.1:0\n[sandbox b]\n"
     "token_file = /no/such\ntcp_ports = 80\n",
     "check.conf:4: token_file: /no/such: "),
    ("[listen a]\naddress = https://127.0.0.1:0\ncert = /no/such\n",
     "check.conf:3: cert: "),
])
def test_t_names_file_line_key_and_reason(tmp, text, says):
    r = check(tmp, text)
    assert r.returncode == 1
    assert says in r.stderr, r.stderr


def test_t_notices_a_key_of_another_certificate(tmp):
    crt, _ = certificate(tmp / "a", "a.example")
    _, key = certificate(tmp / "b", "b.example")
    r = check(tmp, config(tmp, keys=f"cert = {crt}\nkey = {key}\n"))
    assert r.returncode == 1
    assert re.search(r"check\.conf:\d+: (cert|key): ", r.stderr), r.stderr


def test_access_log_off_is_no_file(tmp):
    path = tmp / "a.ini"
    path.write_text(config(tmp).replace("access = off", "access = combined"))
    r = run(["-c", path, "--access-log", "off", "--dump-config"], cwd=tmp)
    assert r.returncode == 0, r.stderr
    assert re.search(r"^access = off$", r.stdout, re.M), r.stdout
    assert "access_file = off" not in r.stdout


def test_dump_config_is_a_configuration(tmp):
    (tmp / "gw.conf").write_text(config(tmp))
    one = run(["-c", tmp / "gw.conf", "--dump-config"])
    assert one.returncode == 0, one.stderr
    assert "box-secret" not in one.stdout
    (tmp / "two.conf").write_text(one.stdout)
    two = run(["-c", tmp / "two.conf", "--dump-config"])
    assert two.stdout == one.stdout
    three = run(["--listen", "https://127.0.0.1:8443", "--workers", "3",
                 "--state-dir", "/tmp/x", "--dump-config"],
                env={"SBX_TOKEN": "very-secret"})
    assert "workers = 3" in three.stdout
    assert "very-secret" not in three.stdout + three.stderr


# --- workers ---------------------------------------------------------------
def test_killed_worker_is_replaced_while_requests_go_on(tmp):
    with Gateway.sidecar(tmp, args=["--workers", "2"]) as gw, \
            App(gw.proxy_dir):
        bad, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                try:
                    r = get(gw.http, PAGE, token=gw.token)
                    if r.status != 200:
                        bad.append(r.status)
                except Exception as e:
                    bad.append(e)

        asker = threading.Thread(target=ask)
        asker.start()
        killed = 0
        for _ in range(5):
            workers = status(gw)["workers"]
            victim = workers[killed % 2]["pid"]
            os.kill(victim, signal.SIGKILL)
            killed += 1
            until(lambda: status(gw)["worker_deaths"] == killed and
                  settled(gw, 1), "replaced")
        stop.set()
        asker.join()
        # Whoever was on the killed worker at that moment saw it end; nobody
        # after that did, as its socket and what waited there lived on.
        assert len(bad) <= killed, bad
        assert all(not isinstance(b, int) for b in bad), bad
        assert get(gw.https, PAGE, token=gw.token).status == 200


def test_workers_do_not_outlive_a_killed_master(tmp):
    gw = Gateway.sidecar(tmp, args=["--workers", "2"])
    gw.start()
    kids = gw.workers()
    assert len(kids) == 2
    os.kill(gw.proc.pid, signal.SIGKILL)
    gw.proc.wait()
    until(lambda: not any(pathlib.Path(f"/proc/{k}").exists() and
                          "\nState:\tZ" not in
                          pathlib.Path(f"/proc/{k}/status").read_text()
                          for k in kids), "workers are gone")
    gw.kill() if gw.proc.poll() is None else None


@pytest.mark.root
def test_workers_have_no_root(tmp):
    with Gateway.sidecar(tmp, args=["--workers", "2"]) as gw:
        for pid in gw.workers():
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            uids = re.search(r"^Uid:\s+(.*)$", text, re.M)[1].split()
            assert "0" not in uids
            groups = re.search(r"^Groups:(.*)$", text, re.M)[1].split()
            assert groups == []
            assert re.search(r"^CapEff:\s+0+$", text, re.M)
        name = "sbx" if "sbx" in [p.pw_name for p in pwd.getpwall()] \
            else "nobody"
        assert int(uids[0]) == pwd.getpwnam(name).pw_uid


@pytest.mark.root
def test_workers_hold_nothing_of_the_masters(tmp):
    """Listening sockets of siblings above all: they would collect
    connections that nobody accepts."""
    with Gateway.sidecar(tmp, listens=["http://127.0.0.1:0"],
                         args=["--workers", "3"]) as gw:
        port = int(gw.http.rsplit(":", 1)[1])
        listening = {line.split()[9] for line in
                     pathlib.Path("/proc/net/tcp").read_text().split("\n")[1:]
                     if line and line.split()[3] == "0A" and
                     int(line.split()[1].split(":")[1], 16) == port}
        assert len(listening) == 3
        for pid in gw.workers():
            mine = set()
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
                if link.startswith("socket:["):
                    mine.add(link[8:-1])
            assert len(mine & listening) == 1


@pytest.mark.root
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_sockets_that_workers_may_not_open(tmp, mode):
    """The master opens them, by the same rules."""
    with Gateway.sidecar(tmp, args=["--workers", "2"]) as gw, \
            App(gw.proxy_dir) as app:
        gw.proxy_dir.chmod(mode)
        app.path.chmod(0o600)
        for _ in range(4):
            r = get(gw.http, PAGE, token=gw.token)
            assert (r.status, r.body) == (200, b"hello\n")
        # Not when it is somebody else's, or leads elsewhere.
        os.chown(app.path, 12345, -1)
        gw.signal(signal.SIGHUP)  # no kept upstream connection
        until(lambda: settled(gw, 2), "reload")
        os.symlink(app.path, gw.proxy_dir / "8001.sock")
        for port in (8000, 8001):
            r = get(gw.http, f"/v1/proxy/{port}/?wait=0", token=gw.token)
            assert r.status == 502
            assert json.loads(r.body)["code"] == "socket_refused"


def test_no_secret_in_environment_or_log(tmp):
    with Gateway.sidecar(tmp, args=["-vv", "--access-log", "-"]) as gw, \
            App(gw.proxy_dir):
        assert get(gw.http, PAGE, token=gw.token).status == 200
        assert get(gw.http, PAGE, token=gw.token + "x").status in (401, 403)
        for pid in [gw.proc.pid, *gw.workers()]:
            for name in ("environ", "cmdline"):
                data = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
                assert gw.token.encode() not in data
        gw.check_log()


# --- reload ----------------------------------------------------------------
def test_reload_keeps_connections_and_takes_a_new_certificate(tmp):
    crt, key = certificate(tmp / "tls", "one.example")
    with Gateway(tmp, config=config(
            tmp, keys=f"cert = {crt}\nkey = {key}\n")) as gw, \
            App(gw.proxy_dir):
        one = peer_cert(gw.https)
        ws = WebSocket(gw.https, BOX + "ws", token="box-secret")
        assert ws.echo("before") == b"before"
        kept = Client(gw.https)
        assert kept.request("GET", BOX,
                            token="box-secret").response().status == 200
        old = status(gw)["generation"]

        # The files are watched: no signal.
        certificate(tmp / "tls", "two.example")
        until(lambda: settled(gw, old + 1), "reload by itself", 20)
        until(lambda: peer_cert(gw.https) != one, "new certificate")

        assert ws.echo("after") == b"after"
        # The kept connection was not cut; it is told to go, after an answer.
        r = kept.request("GET", BOX, token="box-secret").response()
        assert r.status == 200 and r["Connection"] == "close"
        assert kept.closed()
        kept.close()
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, old + 2), "second reload")
        assert ws.echo("still") == b"still"
        assert status(gw)["workers_retiring"] >= 1
        ws.close()
        ws.client.close()
        until(lambda: status(gw)["workers_retiring"] == 0, "old ones leave")


def test_reload_refuses_a_broken_file_and_keeps_the_old(tmp):
    good = config(tmp)
    with Gateway(tmp, config=good) as gw, App(gw.proxy_dir):
        before = status(gw)
        gw.config.write_text(good + "[nonsense]\n")
        gw.signal(signal.SIGHUP)
        until(lambda: status(gw)["reload_errors"] == 1, "refused")
        assert re.search(r"gateway\.ini:\d+: ", gw.log())
        after = status(gw)
        assert after["generation"] == before["generation"]
        assert [w["pid"] for w in after["workers"]] == \
            [w["pid"] for w in before["workers"]]
        assert get(gw.https, BOX, token="box-secret").status == 200


def test_reload_takes_listeners_and_secrets(tmp):
    extra = f"[listen b]\naddress = unix:{tmp}/b.sock\n"
    with Gateway(tmp, config=config(tmp)) as gw, App(gw.proxy_dir):
        url = gw.https
        assert get(url, BOX, token="box-secret").status == 200
        gw.config.write_text(config(tmp, extra))
        (tmp / "box.token").write_text("another-secret\n")
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, 2), "reload")
        assert get(f"unix:{tmp}/b.sock", BOX,
                   token="another-secret").status == 200
        until(lambda: get(url, BOX, token="box-secret").status in (401, 403),
              "old secret is void")
        assert get(url, BOX, token="another-secret").status == 200
        gw.config.write_text(config(tmp))
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, 3), "reload")
        assert not (tmp / "b.sock").exists()


def test_reload_loses_no_request(tmp):
    with Gateway(tmp, config=config(tmp, listen="http://127.0.0.1:0")) as gw, \
            App(gw.proxy_dir):
        bad, stop, count = [], threading.Event(), [0]

        def ask():
            while not stop.is_set():
                try:
                    r = get(gw.http, BOX, token="box-secret")
                    count[0] += 1
                    if r.status != 200:
                        bad.append(r.status)
                except Exception as e:
                    bad.append(e)

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for a in askers:
            a.start()
        for n in range(2, 8):
            # Also with fewer and more workers: queued connections stay.
            text = gw.config.read_text()
            gw.config.write_text(re.sub(r"workers = \d",
                                        f"workers = {1 + n % 3}", text))
            gw.signal(signal.SIGHUP)
            until(lambda: settled(gw, n), "reload")
        stop.set()
        for a in askers:
            a.join()
        assert not bad, bad
        assert count[0] > 10


# --- the end ---------------------------------------------------------------
def test_sigterm_finishes_what_is_open(tmp):
    with Gateway.sidecar(tmp) as gw, App(gw.proxy_dir) as app:
        c = Client(gw.http)
        c.request("GET", PAGE + "slow?ms=700", token=gw.token)
        until(lambda: app.requests, "it is inside")
        gw.signal(signal.SIGTERM)
        until(lambda: refused(gw.http), "nothing new")
        r = c.response()
        assert r.status == 200
        assert c.closed()
        assert gw.proc.wait(10) == 0


def refused(url):
    try:
        connect(url, timeout=1).close()
    except OSError:
        return True
    return False


def test_drain_has_a_deadline(tmp):
    with Gateway(tmp, config=config(
            tmp, "[timeouts]\ndrain = 500ms\n")) as gw, App(gw.proxy_dir):
        ws = WebSocket(gw.https, BOX + "ws", token="box-secret")
        assert ws.echo("a") == b"a"
        gw.signal(signal.SIGTERM)
        assert gw.proc.wait(10) == 0
        ws.client.close()


def test_second_signal_ends_at_once(tmp):
    with Gateway.sidecar(tmp) as gw, App(gw.proxy_dir):
        ws = WebSocket(gw.https, PAGE + "ws", token=gw.token)
        assert ws.echo("a") == b"a"
        gw.signal(signal.SIGINT)
        until(lambda: refused(gw.http), "draining")
        assert ws.echo("b") == b"b"
        gw.signal(signal.SIGINT)
        assert gw.proc.wait(10) == 0
        ws.client.close()


# --- user tokens -----------------------------------------------------------
def test_token_add_list_revoke_without_restart(tmp):
    text = config(tmp).replace("[sandbox box]\n",
                               "[sandbox box]\nnamespace = team\n")
    with Gateway(tmp, config=text) as gw, App(gw.proxy_dir):
        r = run(["token", "add", "alice", "--namespace", "team", "-c",
                 gw.config])
        assert r.returncode == 0, r.stderr
        token = r.stdout.strip()
        assert token.startswith("hf_")
        stored = gw.state_dir / "tokens"
        assert stored.stat().st_mode & 0o777 == 0o600
        assert token not in stored.read_text()

        def ask():
            return get(gw.https, BOX,
                       headers={"Authorization": f"Bearer {token}"}).status

        until(lambda: ask() == 200, "token works")
        listed = run(["token", "list", "-c", gw.config]).stdout
        assert "alice" in listed and "team" in listed and token not in listed

        # On a connection that is open, too.
        with Client(gw.https) as c:
            auth = {"Authorization": f"Bearer {token}"}
            assert c.request("GET", BOX, auth).response().status == 200
            r = run(["token", "revoke", "alice", "--state-dir", gw.state_dir])
            assert r.returncode == 0, r.stderr
            until(lambda: ask() in (401, 403), "token is void")
            assert c.request("GET", BOX, auth).response().status in (401, 403)
        assert run(["token", "revoke", "alice", "-c",
                    gw.config]).returncode == 1
        gw.token = token
        gw.check_log()


@pytest.mark.parametrize("args", [
    ["token"], ["token", "add"], ["token", "what", "x"],
    ["token", "add", "a b"], ["token", "add", "x", "--role", "root"],
])
def test_token_mistakes(tmp, args):
    r = run([*args, "--state-dir", tmp])
    assert r.returncode in (1, 2)
    assert r.stderr and not r.stdout


# --- admin -----------------------------------------------------------------
def test_admin_listener(tmp):
    with Gateway.sidecar(tmp) as gw, App(gw.proxy_dir):
        mode = (gw.state_dir / "admin.sock").stat().st_mode & 0o777
        assert mode == 0o600
        assert admin(gw, "/-/health").status == 200
        assert admin(gw, "/-/ready").status == 200
        assert admin(gw, "/-/nothing").status == 404
        for _ in range(3):
            assert get(gw.https, PAGE, token=gw.token).status == 200
        text = admin(gw, "/-/metrics").body.decode()
        value = dict(re.findall(r"^(sbx_gateway_\w+) (\d+)$", text, re.M))
        assert int(value["sbx_gateway_requests_total"]) == 3
        assert int(value["sbx_gateway_up"]) == 1
        # No counter is lost with its worker.
        gw.signal(signal.SIGHUP)
        until(lambda: settled(gw, 2) and
              status(gw)["workers_retiring"] == 0, "reload")
        text = admin(gw, "/-/metrics").body.decode()
        value = dict(re.findall(r"^(sbx_gateway_\w+) (\d+)$", text, re.M))
        assert int(value["sbx_gateway_requests_total"]) == 3


def test_usr1_writes_the_state(tmp):
    with Gateway.sidecar(tmp) as gw:
        gw.signal(signal.SIGUSR1)
        until(lambda: "gateway.state" in gw.log(), "state in the log")


def test_usr2_opens_logs_anew(tmp):
    text = config(tmp) .replace(
        "access = off\n", f"access = json\naccess_file = {tmp}/access.log\n"
        f"file = {tmp}/gw.log\n")
    with Gateway(tmp, config=text) as gw, App(gw.proxy_dir):
        assert get(gw.https, BOX, token="box-secret").status == 200
        until(lambda: "box" in (tmp / "access.log").read_text(), "line")
        (tmp / "access.log").rename(tmp / "access.log.1")
        gw.signal(signal.SIGUSR2)
        until((tmp / "access.log").exists, "new file")

        def lines():
            get(gw.https, BOX, token="box-secret")
            return (tmp / "access.log").read_text().count("\n")

        until(lambda: lines() >= 2, "lines in it")


# --- resumption ------------------------------------------------------------
def test_sessions_resume_on_any_worker(tmp):
    with Gateway.sidecar(tmp, listens=["https://127.0.0.1:0"],
                         args=["--workers", "2"]) as gw:
        ctx = tls_context()

        def shake(session=None):
            host, port = gw.https.split("//")[1].rsplit(":", 1)
            raw = socket.create_connection((host, int(port)), 10)
            s = ctx.wrap_socket(raw, server_hostname="localhost",
                                session=session)
            with Client(s) as c:  # the ticket comes with the first answer
                assert c.request("GET", "/health").response().status == 200
                return s.session, s.session_reused

        session, _ = shake()
        assert all(shake(session)[1] for _ in range(8))


# --- embedded agent --------------------------------------------------------
def agent_gateway(tmp):
    (tmp / "op").write_text("operator-secret-1\n")
    return Gateway(tmp, token="operator-secret-1", config=(
        f"[gateway]\nstate_dir = {tmp}/state\nworkers = 2\n"
        f"[listen a]\naddress = http://127.0.0.1:0\n"
        f"[auth]\noperator_token_file = {tmp}/op\n"
        f"[agent]\nenabled = yes\n[log]\naccess = off\n"))


def agent_pid(gw):
    for pid in gw.workers():
        try:
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        if name == "sbx-agent":
            return pid
    return None


def make_sandbox(gw):
    with Client(gw.http) as c:
        r = c.request("POST", "/v1/sandboxes", body=b"{}", token=gw.token,
                      headers={"Content-Type": "application/json"}).response()
    assert r.status == 200, r
    return json.loads(r.body)["sandboxes"][0]


@pytest.mark.root
def test_agent_is_started_and_started_again(tmp):
    with agent_gateway(tmp) as gw:
        first = agent_pid(gw)
        assert b"SBX_TOKEN=\0" in pathlib.Path(
            f"/proc/{first}/environ").read_bytes() or \
            b"SBX_TOKEN" not in pathlib.Path(
                f"/proc/{first}/environ").read_bytes()
        box = make_sandbox(gw)
        target = f"/v1/sandboxes/{box['id']}/proxy/8000/?wait=0"
        # It exists for every worker as soon as its maker knows of it.
        for _ in range(8):
            assert get(gw.http, target, token=box["token"]).status == 503
        assert status(gw)["sandboxes"] == 1
        os.kill(first, signal.SIGKILL)
        until(lambda: status(gw)["agent"] == "up" and
              agent_pid(gw) not in (None, first), "a new agent")
        until(lambda: get(gw.http, target, token=gw.token).status == 410,
              "its sandboxes are gone")
        make_sandbox(gw)
        assert status(gw)["sandboxes"] == 1


@pytest.mark.root
def test_agent_can_be_switched_off_and_on(tmp):
    with agent_gateway(tmp) as gw:
        text = gw.config.read_text()
        make_sandbox(gw)
        gw.config.write_text(text.replace("enabled = yes", "enabled = no"))
        gw.signal(signal.SIGHUP)
        until(lambda: status(gw)["agent"] == "off", "off")
        assert status(gw)["sandboxes"] == 0
        gw.config.write_text(text)
        gw.signal(signal.SIGHUP)
        until(lambda: status(gw)["agent"] == "up", "on")
        make_sandbox(gw)


def test_reload_cannot_move_the_state(tmp):
    with Gateway(tmp, config=config(tmp)) as gw:
        gw.config.write_text(gw.config.read_text().replace(
            f"{tmp}/state", f"{tmp}/elsewhere"))
        gw.signal(signal.SIGHUP)
        until(lambda: status(gw)["reload_errors"] == 1, "refused")
        assert "state_dir: cannot change" in gw.log()


@pytest.mark.root
def test_deleted_sandbox_is_gone_at_once(tmp):
    with agent_gateway(tmp) as gw:
        for _ in range(5):
            box = make_sandbox(gw)
            path = f"/v1/sandboxes/{box['id']}"
            with Client(gw.http) as c:
                assert c.request("DELETE", path,
                                 token=gw.token).response().status == 200
            r = get(gw.http, path + "/proxy/8000/", token=gw.token)
            assert r.status == 410
            assert json.loads(r.body)["code"] == "sandbox_stopped"


@pytest.mark.root
def test_agent_does_not_outlive_a_killed_gateway(tmp):
    gw = agent_gateway(tmp).start()
    pid = agent_pid(gw)
    os.kill(gw.proc.pid, signal.SIGKILL)
    gw.proc.wait()
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
          "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text(),
          "the agent is gone")


@pytest.mark.root
def test_missing_agent_program_is_said(tmp):
    (tmp / "op").write_text("x\n")
    gw = agent_gateway(tmp)
    gw.config.write_text(gw.config.read_text().replace(
        "enabled = yes\n", "enabled = yes\npath = /no/such/agent\n"))
    gw.proc = subprocess.Popen(gw.argv, stdout=subprocess.DEVNULL,
                               stderr=open(gw.log_path, "ab"))
    until(lambda: "/no/such/agent" in gw.log() and "agent.down" in gw.log(),
          "it says so")
    gw.signal(signal.SIGTERM)
    assert gw.proc.wait(10) == 0
