# SPDX-License-Identifier: Apache-2.0
"""What a gateway asks of an agent over HTTP: the base environment, and the
list of its sandboxes with their secrets."""

import socket
import time

import pytest

from agent_support import Agent, Scope
from support.wait import until

root = pytest.mark.root


def put(agent, env, **kw):
    return agent.call("PUT", "/v1/env", {"env": env}, **kw)


def shown(scope, *names, **req):
    cmd = "; ".join(f'printf "%s|" "${n}"' for n in names)
    return scope.exec(cmd, **req).out.split("|")[:-1]


@root
def test_env_of_a_host(tmp):
    with Agent(tmp) as agent:
        old = agent.create(env={"MINE": "own"})
        assert put(agent, {"URL": "http://127.0.0.1:1/v1", "MINE": "base",
                           "PATH": "/nowhere"}) == (200, {"names": 3})
        new = agent.create()
        # sandboxes of before and after; what its creator chose wins, and
        # the command's own above that
        assert shown(old, "URL", "MINE") == ["http://127.0.0.1:1/v1", "own"]
        assert shown(new, "URL", "MINE") == ["http://127.0.0.1:1/v1", "base"]
        assert shown(new, "URL", env={"URL": "x"}) == ["x"]
        assert "/usr/bin" in shown(new, "PATH")[0]
        # the next one replaces all of it
        assert put(agent, {"B": 2}) == (200, {"names": 1})
        assert shown(new, "URL", "B") == ["", "2"]
        # only who holds the agent's token
        assert put(agent, {"B": 3}, token=new.token)[0] == 403
        assert shown(new, "B") == ["2"]


def test_env_of_a_dedicated_agent(tmp):
    with Agent(tmp, host=False, URL="inherited") as agent:
        me = Scope(agent, "/v1", agent.token)
        assert shown(me, "URL") == ["inherited"]
        assert put(agent, {"URL": "told"})[0] == 200
        assert shown(me, "URL") == ["told"]
        assert shown(me, "URL", env={"URL": "x"}) == ["x"]
        assert put(agent, {}, token="wrong")[0] == 403
        assert agent.get("/v1/env")[0] == 405


def test_env_is_judged_field_by_field(tmp):
    with Agent(tmp, host=False) as agent:
        for body, word in (
                ({}, "env: is missing"),
                ({"env": []}, "env: not an object"),
                ({"env": {"SBX_A": "1"}}, "env: SBX_A: "),
                ({"env": {"": "1"}}, "a name is empty"),
                ({"env": {"A": {}}}, "env: A: not a string"),
                ({"env": {f"N{i}": "" for i in range(257)}}, "256 names"),
                ({"env": {"A": "x" * 65536}}, "65536 bytes")):
            status, got = agent.call("PUT", "/v1/env", body)
            assert status == 400 and word in got["error"], got


@root
def test_list_with_secrets(tmp):
    with Agent(tmp) as agent:
        boxes = [agent.create() for _ in range(3)]
        status, got = agent.get("/v1/sandboxes?secrets=1")
        assert status == 200
        assert {b["id"]: b["token"] for b in got} == \
            {b.id: b.token for b in boxes}
        assert len({b["generation"] for b in got}) == 3
        assert all("token" not in b for b in agent.get("/v1/sandboxes")[1])
        status, _ = agent.get("/v1/sandboxes?secrets=1", token=boxes[0].token)
        assert status == 403


def test_being_asked_is_not_activity(tmp):
    """A gateway that keeps asking does not keep an idle agent alive."""
    with Agent(tmp, host=False, SBX_IDLE_TIMEOUT=1) as agent:
        while agent.proc.poll() is None:
            try:
                put(agent, {})
            except OSError:
                break
            time.sleep(0.05)
        agent.proc.wait(15)
        assert b"idle" in agent.log.read_bytes()


@root
def test_env_from_the_start(tmp):
    with Agent(tmp, SBX_BASE_ENV='{"A":"one","B":"two"}') as agent:
        box = agent.create(env={"B": "own"})
        assert shown(box, "A", "B", "SBX_BASE_ENV") == ["one", "own", ""]
        assert put(agent, {})[0] == 200
        assert shown(box, "A", "B") == ["", "own"]


def test_a_bad_env_at_the_start_is_refused(tmp):
    for text, word in (("x", "SBX_BASE_ENV: "), ("[]", "not an object"),
                       ('{"SBX_A":"1"}', "reserved")):
        agent = Agent(tmp, host=False, wait=False, SBX_BASE_ENV=text)
        assert agent.proc.wait(20) != 0
        assert word in agent.log.read_text()


@root
def test_endpoints_of_a_sandbox_without_a_network(tmp):
    """A port of our loopback, told by PUT /v1/env, is on the sandbox's."""
    with socket.create_server(("127.0.0.1", 0)) as server, \
            Agent(tmp) as agent:
        port = server.getsockname()[1]
        before = agent.create(network="none")
        assert agent.call("PUT", "/v1/env", {"env": {}, "outside": [
            f"5000 127.0.0.1:{port}"]})[0] == 200
        boxes = [agent.create(network="none") for _ in range(2)]
        fds = agent.fds()
        got = "python3 -c 'import socket as s; c = s.create_connection((" \
            '"127.0.0.1", 5000)); c.sendall(b"hi"); print(c.recv(9))\''
        for box in boxes:
            conn = box.agent.connection()
            r = box.send("POST", "exec", {"cmd": got}, conn=conn)
            peer, _ = server.accept()
            with peer:
                assert peer.recv(9) == b"hi"
                peer.sendall(b"there")
                assert b"there" in r.read()
            conn.close()
        assert before.exec(got).code != 0
        assert boxes[0].delete()[0] == 200
        until(lambda: agent.fds() < fds, "its sockets are closed")
        for bad in ([1], ["x"], {}, [f"1 127.0.0.1:{port}"] * 65):
            status, said = agent.call("PUT", "/v1/env",
                                      {"env": {}, "outside": bad})
            assert status == 400 and "outside" in said["error"]
