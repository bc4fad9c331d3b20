# SPDX-License-Identifier: Apache-2.0
"""What a gateway asks of an agent over HTTP: the base environment, and the
list of its sandboxes with their secrets."""

import time

import pytest

from agent_support import Agent, Scope

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
