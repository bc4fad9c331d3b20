# SPDX-License-Identifier: Apache-2.0
"""sbx-tunnel against a real sshd: forwards, keys, host keys, messages."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

import pytest

from support import paths
from support.peer import Peer, dial, echo, exchange, slurp
from support.sshd import (HARDENED, SIDECAR, SSHD, USER, Sshd, Tunnel,
                          children, keygen, pick_port)
from support.wait import until

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd")

VERSION = subprocess.run([paths.TUNNEL, "--version"], capture_output=True,
                         text=True).stdout
OWN_LIBRARY = "one channel at a time" not in VERSION
own_library = pytest.mark.skipif(not OWN_LIBRARY,
                                 reason="needs tools/build-libssh2.sh")
modern = pytest.mark.skipif("libssh2 1.10" in VERSION,
                            reason="needs libssh2 1.11")


def answers(port):
    try:
        return exchange(port, b"x") == b"x"
    except OSError:
        return False


@pytest.fixture(scope="module")
def sshd(module_tmp):
    with Sshd(module_tmp) as s:
        yield s


@pytest.fixture
def peer():
    with Peer(echo) as p:
        yield p
        assert not p.errors


def test_both_directions(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}",
                "-R", f"0:{peer.target}") as t:
        local, remote = t.ports()
        data = os.urandom(3 << 20)
        assert exchange(local, data) == data
        assert exchange(remote, data) == data
        # stderr is for people, and says little
        until(lambda: b"Allocated port" in t.err, "the port is told")
        assert t.err.count(b"\n") == 1


def test_remote_port_is_on_loopback_only(sshd, peer):
    """Without a bind address, even where the server would let any."""
    with Tunnel(sshd, "-R", f"0:{peer.target}") as t:
        port, = t.ports()
        text = (pathlib.Path("/proc/net/tcp").read_text() +
                pathlib.Path("/proc/net/tcp6").read_text())
        bound = {line.split()[1].split(":")[0]
                 for line in text.splitlines()
                 if line.split()[1].endswith(f":{port:04X}") and
                 line.split()[3] == "0A"}
        assert bound and bound <= {"0100007F", "0" * 24 + "01000000"}, bound


@pytest.mark.parametrize("way", ["local", "remote"])
def test_half_close_by_client(sshd, way):
    """The answer begins after the client has ended its direction."""
    got = []

    def serve(conn):
        got.append(slurp(conn))
        conn.sendall(b"a" * 300000)

    with Peer(serve) as p, Tunnel(sshd, "-L" if way == "local" else "-R",
                                  f"0:{p.target}") as t:
        port, = t.ports()
        assert exchange(port, b"q" * 100000) == b"a" * 300000
        assert got == [b"q" * 100000]


@pytest.mark.parametrize("way", ["local", "remote"])
def test_half_close_by_server(sshd, way):
    """The server ends its direction first and goes on reading."""
    got = []

    def serve(conn):
        conn.sendall(b"hello")
        conn.shutdown(socket.SHUT_WR)
        got.append(slurp(conn))

    with Peer(serve) as p, Tunnel(sshd, "-L" if way == "local" else "-R",
                                  f"0:{p.target}") as t:
        port, = t.ports()
        with dial(port) as s:
            assert slurp(s) == b"hello"
            s.sendall(b"x" * 200000)
            s.shutdown(socket.SHUT_WR)
            until(lambda: got == [b"x" * 200000], "the rest arrived")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_key_types(tmp, kind, peer):
    with Sshd(tmp, user_key=kind) as s, \
            Tunnel(s, "-L", f"0:{peer.target}") as t:
        assert exchange(t.ports()[0], b"x") == b"x"


@pytest.mark.parametrize("form", ["PEM", "PKCS8"])
def test_rsa_key_in_other_forms(sshd, tmp, peer, form):
    """With a passphrase; signed with SHA-2, whatever libssh2 can."""
    key = keygen(tmp / "rsa", "rsa", "sesame", "-m", form)
    with sshd.authorized.open("a") as f:
        f.write(sshd.pub(key))
    word = tmp / "word"
    word.write_text("sesame\n")
    with Tunnel(sshd, "-L", f"0:{peer.target}", "--passphrase-file",
                str(word), key=key) as t:
        assert exchange(t.ports()[0], b"x") == b"x"


@pytest.mark.skipif("libssh2 1.10" not in VERSION, reason="says so below 1.11")
def test_what_an_old_library_cannot_is_said(sshd, tmp):
    key = keygen(tmp / "rsa", "rsa", "sesame")
    word = tmp / "word"
    word.write_text("sesame\n")
    cert = certify(tmp / "ca", keygen(tmp / "user"))
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", "--passphrase-file",
                       str(word), key=key,
                       options=[f"CertificateFile={cert}"]).wait()
    assert code == 255
    assert "cannot use RSA keys in this form" in err
    assert "cannot use certificates" in err


def certify(ca, key, *more):
    """A certificate for our own user name; returns its file."""
    if not ca.exists():
        keygen(ca)
    subprocess.run(["ssh-keygen", "-q", "-s", ca, "-I", "test", "-n", USER,
                    *more, f"{key}.pub"], check=True, capture_output=True)
    return pathlib.Path(f"{key}-cert.pub")


@modern
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_user_certificate(tmp, kind, peer):
    """Beside its key, or named; the server knows nothing but the CA."""
    ca = keygen(tmp / "ca")
    with Sshd(tmp, SIDECAR + f"TrustedUserCAKeys {ca}.pub\n") as s:
        key = keygen(tmp / "user", kind)
        cert = certify(ca, key)
        with Tunnel(s, "-L", f"0:{peer.target}", key=key) as t:
            assert exchange(t.ports()[0], b"x") == b"x"
        cert = cert.rename(tmp / "elsewhere")
        code, err = Tunnel(s, "-L", "0:127.0.0.1:1", key=key).wait()
        assert code == 255 and "Permission denied (publickey)." in err
        # one for another key is not tried
        other = certify(ca, keygen(tmp / "other", kind))
        with Tunnel(s, "-L", f"0:{peer.target}", key=key,
                    options=[f"CertificateFile={other}",
                             f"CertificateFile={cert}"]) as t:
            assert exchange(t.ports()[0], b"x") == b"x"


@modern
def test_certificate_that_has_expired(tmp):
    ca = keygen(tmp / "ca")
    with Sshd(tmp, SIDECAR + f"TrustedUserCAKeys {ca}.pub\n") as s:
        key = keygen(tmp / "user")
        certify(ca, key, "-V", "20200101:20200102")
        code, err = Tunnel(s, "-L", "0:127.0.0.1:1", key=key).wait()
        assert code == 255 and "Permission denied (publickey)." in err


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa",
                                  pytest.param("rsa", marks=modern)])
def test_host_key_types(tmp, kind, peer):
    with Sshd(tmp, host_keys=(kind,)) as s, \
            Tunnel(s, "-L", f"0:{peer.target}") as t:
        assert exchange(t.ports()[0], b"x") == b"x"


@modern
def test_hardened_server(tmp, peer):
    with Sshd(tmp, HARDENED) as s, Tunnel(s, "-L", f"0:{peer.target}") as t:
        assert exchange(t.ports()[0], b"x" * 100000) == b"x" * 100000


# --- host keys ------------------------------------------------------------

def test_hashed_known_hosts(sshd, tmp, peer):
    known = tmp / "known"
    known.write_text(sshd.host_line())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True,
                   capture_output=True)
    assert known.read_text().startswith("|1|")
    with Tunnel(sshd, "-L", f"0:{peer.target}", known=known) as t:
        t.ready()


def test_unknown_host_is_refused(sshd, tmp):
    t = Tunnel(sshd, "-L", "0:127.0.0.1:1", known=tmp / "none")
    code, err = t.wait()
    assert code == 255
    assert err.endswith("Host key verification failed.\n")


def test_unknown_host_is_remembered(sshd, tmp, peer):
    known = tmp / "known"
    with Tunnel(sshd, "-L", f"0:{peer.target}", known=known,
                strict="accept-new") as t:
        t.ready()
    assert known.read_text() == sshd.host_line()
    with Tunnel(sshd, "-L", f"0:{peer.target}", known=known) as t:
        t.ready()


def test_changed_host_key(sshd, tmp):
    other = keygen(tmp / "other")
    known = tmp / "known"
    known.write_text(sshd.host_line(key=other))
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", known=known,
                       strict="accept-new").wait()
    assert code == 255
    prints = [subprocess.run(["ssh-keygen", "-l", "-f", f], text=True,
                             capture_output=True).stdout.split()[1]
              for f in (other, sshd.host_keys[0])]
    assert all(p in err for p in prints), err
    assert err.endswith("Host key verification failed.\n")


def test_fingerprint(sshd, tmp, peer):
    mine = subprocess.run(["ssh-keygen", "-l", "-f", sshd.host_keys[0]],
                          capture_output=True, text=True).stdout.split()[1]
    none = tmp / "none"
    with Tunnel(sshd, "-L", f"0:{peer.target}", "--fingerprint", mine,
                known=none) as t:
        t.ready()
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", "--fingerprint",
                       "SHA256:" + "A" * 43, known=sshd.known).wait()
    assert code == 255 and mine in err
    assert err.endswith("Host key verification failed.\n")


# --- what goes wrong, in ssh's words --------------------------------------

def test_connection_refused(sshd):
    class Nobody:
        port, key, known = pick_port(), sshd.key, sshd.known

    code, err = Tunnel(Nobody, "-L", "0:127.0.0.1:1").wait()
    assert (code, err) == (255, "ssh: connect to host 127.0.0.1 port "
                                f"{Nobody.port}: Connection refused\n")


def test_permission_denied(sshd, tmp):
    t = Tunnel(sshd, "-L", "0:127.0.0.1:1", key=keygen(tmp / "stranger"))
    code, err = t.wait()
    assert code == 255
    assert err.endswith("Permission denied (publickey).\n")
    assert [e["event"] for e in iter(t.events.get, None)] == [
        "connecting", "down"]


def test_taken_remote_port(sshd, peer):
    code, err = Tunnel(sshd, "-R", f"{peer.port}:127.0.0.1:1",
                       "-R", f"127.0.0.1:{peer.port}:127.0.0.1:1",
                       options=("ExitOnForwardFailure=yes",)).wait()
    assert code == 255
    assert ("Error: remote port forwarding failed for listen port "
            f"{peer.port}\n") in err


def test_taken_local_port(sshd, peer):
    code, err = Tunnel(sshd, "-L", f"127.0.0.1:{peer.port}:127.0.0.1:1",
                       options=("ExitOnForwardFailure=yes",)).wait()
    assert code == 255
    assert err.splitlines() == [
        f"bind [127.0.0.1]:{peer.port}: Address already in use",
        "channel_setup_fwd_listener_tcpip: cannot listen to port: "
        f"{peer.port}",
        "Could not request local forwarding."]


def test_one_failed_forward_leaves_the_others(sshd, peer):
    with Tunnel(sshd, "-R", f"127.0.0.1:{peer.port}:127.0.0.1:1",
                "-R", f"0:{peer.target}", "-L", f"0:{peer.target}") as t:
        taken, remote, local = t.next("degraded")["forwards"]
        assert taken["state"] == "failed"
        assert exchange(remote["port"], b"x") == b"x"
        assert exchange(local["port"], b"y") == b"y"


def test_silent_server_times_out(sshd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        class Mute:
            port, key, known = silent.getsockname()[1], sshd.key, sshd.known

        code, err = Tunnel(Mute, "-L", "0:127.0.0.1:1",
                           options=("ConnectTimeout=1",)).wait()
    assert code == 255 and "timed out" in err


def test_unreachable_target_closes_only_that_connection(sshd, peer):
    with Tunnel(sshd, "-L", f"0:127.0.0.1:{pick_port()}",
                "-L", f"0:{peer.target}",
                "-R", f"0:127.0.0.1:{pick_port()}") as t:
        bad, good, rbad = t.ports()
        with dial(good) as s:
            s.sendall(b"1")
            assert s.recv(1) == b"1"
            for port in (bad, rbad):
                try:
                    assert exchange(port, b"x") == b""
                except ConnectionError:
                    pass
            s.sendall(b"2")
            assert s.recv(1) == b"2"


def test_term_ends_it_at_once(sshd, peer):
    with Tunnel(sshd, "-L", f"0:{peer.target}") as t:
        port, = t.ports()
        with dial(port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            start = time.monotonic()
            assert t.end() == 255
            assert time.monotonic() - start < 1.0 * paths.SLOW
        assert t.next("stopped")


# --- the command line -----------------------------------------------------

def run(*args, name="sbx-tunnel", path=None, tmp=None):
    program = paths.TUNNEL
    if name != "sbx-tunnel":
        program = tmp / name
        program.symlink_to(paths.TUNNEL)
    env = paths.child_env({"PATH": path} if path is not None else None)
    return subprocess.run([program, *args], capture_output=True, text=True,
                          env=env, timeout=30)


def test_unknown_option():
    r = run("-N", "-o", "NoSuchThing=1", "-L", "0:a:1", "host")
    assert r.returncode == 255
    assert r.stderr == ("command-line: line 0: Bad configuration option: "
                        "NoSuchThing\n")


def test_check():
    good = ["-t", "-L", "0:127.0.0.1:1", "-o", "ForwardX11=no", "host"]
    assert run(*good).returncode == 0
    assert run("-t", "-L", "nonsense", "host").returncode == 255


def test_what_is_not_a_tunnel_goes_to_ssh(tmp):
    """Under ssh's own name, with the real one behind it in PATH."""
    real = tmp / "bin"
    real.mkdir()
    (real / "ssh").write_text("#!/bin/sh\necho real \"$@\"\n")
    (real / "ssh").chmod(0o755)
    mine = tmp / "mine"
    mine.mkdir()
    args = ["-T", "-p", "22", "root@host", "fuser -k -n tcp 1"]
    r = run(*args, name="ssh", tmp=mine, path=f"{mine}:{real}:/bin")
    assert r.stdout == "real " + " ".join(args) + "\n"
    (mine / "ssh").unlink()
    r = run(*args, name="ssh", tmp=mine, path=f"{mine}")
    assert r.returncode == 255 and "real ssh" in r.stderr


def test_as_ssh_for_a_harness(sshd, tmp, peer):
    """The exact command line that SshTunnel builds."""
    ssh = tmp / "ssh"
    ssh.symlink_to(paths.TUNNEL)
    lport, rport = pick_port(), pick_port()
    user = subprocess.run(["id", "-un"], capture_output=True,
                          text=True).stdout.strip()
    p = subprocess.Popen(
        [ssh, "-N", "-o", "StrictHostKeyChecking=no", "-o",
         "UserKnownHostsFile=/dev/null", "-o", "ServerAliveInterval=30",
         "-o", "ServerAliveCountMax=20", "-o", "ConnectTimeout=15", "-o",
         "ExitOnForwardFailure=yes", "-o", "LogLevel=ERROR", "-i", sshd.key,
         "-p", str(sshd.port), "-L", f"127.0.0.1:{lport}:{peer.target}",
         "-R", f"{rport}:{peer.target}", f"{user}@127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=paths.child_env())

    try:
        until(lambda: answers(lport) and answers(rport), "it forwards")
    finally:
        p.terminate()
        _, err = p.communicate(timeout=10)
    assert err == b""


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_git_clone(sshd, tmp):
    """git's own protocol depends on exact half-closes."""
    repo = tmp / "repo"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q", repo], check=True)
    (repo / "file").write_bytes(os.urandom(1 << 20))
    subprocess.run([*git, "-C", repo, "add", "."], check=True)
    subprocess.run([*git, "-C", repo, "commit", "-qm", "x"], check=True)
    port = pick_port()
    daemon = subprocess.Popen(
        ["git", "daemon", "--export-all", f"--base-path={tmp}",
         "--listen=127.0.0.1", f"--port={port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        with Tunnel(sshd, "-L", f"0:127.0.0.1:{port}") as t:
            local, = t.ports()
            until(lambda: subprocess.run(
                ["git", "clone", "-q", f"git://127.0.0.1:{local}/repo",
                 tmp / "copy"], stderr=subprocess.DEVNULL).returncode == 0,
                "clone", every=0.2)
        assert ((tmp / "copy" / "file").read_bytes() ==
                (repo / "file").read_bytes())
    finally:
        os.killpg(daemon.pid, 15)
        daemon.wait()


# --- unix sockets, agents, passphrases ------------------------------------

def test_local_unix_sockets(sshd, tmp):
    """On either side of -L; the file is gone afterwards."""
    with Peer(echo, tmp / "far") as p:
        with Tunnel(sshd, "-L", f"{tmp}/near:{p.target}",
                    "-L", f"0:{p.target}") as t:
            forwards = t.ready()["forwards"]
            assert forwards[0]["path"] == f"{tmp}/near"
            assert (tmp / "near").stat().st_mode & 0o777 == 0o600
            assert exchange(tmp / "near", b"x" * 99999) == b"x" * 99999
            assert exchange(forwards[1]["port"], b"y") == b"y"
        assert not (tmp / "near").exists()


@own_library
def test_remote_unix_socket(sshd, tmp, peer):
    """To TCP and to a unix socket, beside a remote port."""
    with Peer(echo, tmp / "near") as p, \
            Tunnel(sshd, "-R", f"{tmp}/far:{peer.target}",
                   "-R", f"{tmp}/it's 2:{p.target}",
                   "-R", f"0:{peer.target}") as t:
        one, two, three = t.ready()["forwards"]
        assert one["path"] == f"{tmp}/far" and "port" not in one
        data = os.urandom(1 << 20)
        for at in (one["path"], two["path"], three["port"]):
            assert exchange(at, data) == data
        assert p.count == 1
        with dial(one["path"]) as s:
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""


@own_library
def test_remote_unix_socket_comes_back(sshd, tmp, peer):
    """sshd leaves the file of a lost session. It is removed by --reclaim, if
    nobody listens on it."""
    far, other = tmp / "it's far", tmp / "other"
    with Tunnel(sshd, "-R", f"{far}:{peer.target}",
                "-R", f"{other}:{peer.target}", "--reclaim") as t:
        t.ready()
        other.unlink()
        with Peer(slurp, other):
            sshd.drop()
            assert t.next("degraded")["failed"] == 1
            assert exchange(far, b"x") == b"x"
            assert other.exists()
        other.unlink()
        t.next("reconnected")
        assert exchange(other, b"x") == b"x"


@pytest.mark.skipif(OWN_LIBRARY, reason="can listen there")
def test_remote_unix_socket_is_refused(sshd, tmp, peer):
    """Another libssh2 cannot ask for one, and that is said."""
    with Tunnel(sshd, "-R", f"{tmp}/far:{peer.target}",
                "-L", f"0:{peer.target}") as t:
        until(lambda: b"cannot listen on a unix socket of the far side"
              in t.err, "the complaint")


def test_passphrase_from_a_file(sshd, tmp, peer):
    key = keygen(tmp / "locked", "ed25519", "correct horse")
    with sshd.authorized.open("a") as f:
        f.write(sshd.pub(key))
    word = tmp / "word"
    word.write_text("correct horse\n")
    with Tunnel(sshd, "-L", f"0:{peer.target}", "--passphrase-file",
                str(word), key=key) as t:
        assert exchange(t.ports()[0], b"x") == b"x"
    word.write_text("wrong\n")
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", "--passphrase-file",
                       str(word), key=key).wait()
    assert code == 255 and "Permission denied (publickey)." in err
    # BatchMode: nobody to ask
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", key=key).wait()
    assert code == 255 and "no passphrase for" in err


@pytest.mark.parametrize("kind", ["ed25519",
                                  pytest.param("rsa", marks=modern)])
def test_agent(sshd, tmp, peer, kind):
    key = keygen(tmp / "held", kind)
    with sshd.authorized.open("a") as f:
        f.write(sshd.pub(key))
    sock = tmp / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock],
                             stdout=subprocess.DEVNULL)
    try:
        until(sock.exists, "the agent listens")
        env = {"SSH_AUTH_SOCK": str(sock)}
        subprocess.run(["ssh-add", "-q", key], check=True,
                       env={**os.environ, **env}, stderr=subprocess.DEVNULL)
        with Tunnel(sshd, "-L", f"0:{peer.target}", key=tmp / "none",
                    env=env, only=False) as t:
            assert exchange(t.ports()[0], b"x") == b"x"
    finally:
        agent.terminate()
        agent.wait()


def test_key_that_others_can_read(sshd, tmp):
    key = tmp / "open"
    shutil.copy(sshd.key, key)
    key.chmod(0o644)
    code, err = Tunnel(sshd, "-L", "0:127.0.0.1:1", key=key).wait()
    assert code == 255 and "are too open" in err


# --- configuration files --------------------------------------------------

def config(sshd, name, forward):
    return (f"Host {name}\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
            f"  User {USER}\n  IdentityFile {sshd.key}\n  {forward}\n\n")


COMMON = """Host *
  StrictHostKeyChecking yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile none
  IdentitiesOnly yes
  BatchMode yes
  ForwardX11 no
"""


def test_ssh_config(sshd, tmp, peer):
    conf = tmp / "conf"
    port = pick_port()
    conf.write_text(config(sshd, "far", f"LocalForward {port} {peer.target}")
                    + COMMON.format(known=sshd.known))
    p = subprocess.Popen([paths.TUNNEL, "-N", "-F", conf, "far"],
                         stderr=subprocess.PIPE, env=paths.child_env())
    try:
        until(lambda: answers(port), "it forwards")
    finally:
        p.terminate()
        assert p.communicate(timeout=10)[1] == b""


def test_many_tunnels_from_a_file(sshd, tmp, peer):
    conf, ports = tmp / "conf", [pick_port(), pick_port()]
    conf.write_text("".join(
        config(sshd, f"t{i}", f"LocalForward {port} {peer.target}")
        for i, port in enumerate(ports)) + COMMON.format(known=sshd.known))
    assert run("-t", "--config", conf).returncode == 0
    status = tmp / "status"
    p = subprocess.Popen([paths.TUNNEL, "--config", conf, "--status", status],
                         env=paths.child_env())
    try:
        until(lambda: all(map(answers, ports)), "both forward")
        names = {json.loads(line)["tunnel"]
                 for line in status.read_text().splitlines()}
        assert names == {"t0", "t1"}
        pids = children(p.pid)
        assert len(pids) == 2
    finally:
        p.terminate()
        p.wait(10)
    until(lambda: not any(map(answers, ports)), "all have ended")


@pytest.mark.parametrize("text, line", [
    ("Host a\n NoSuch 1\n LocalForward 1 b:1\n", "line 2"),
    ("Match all\n", "no Host"),
    ("Host a\n Include x\n", "line 2"),
    ("Host a\n", "no forwards"),
])
def test_bad_config(tmp, text, line):
    conf = tmp / "conf"
    conf.write_text(text)
    r = run("-t", "--config", conf)
    assert r.returncode == 255 and line in r.stderr
