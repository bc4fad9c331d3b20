# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the end-to-end tests; what they hand out is in support/.

    SBX_BUILD=build /usr/bin/python3 -m pytest tests/e2e -k websocket
"""

import os
import pathlib
import shutil
import socket
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from agent_support import Agent, Scope  # noqa: E402
from support import paths  # noqa: E402
from support.app import App  # noqa: E402
from support.gateway import Gateway  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers",
                            "root: needs root (uids, Landlock, host mode)")


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture(scope="session", autouse=True)
def built():
    """Fails early, and in words, when there is nothing to test."""
    for program in (paths.GATEWAY,):
        if not program.exists():
            pytest.exit(f"{program} is not built (make, or ./quickstart "
                        "--build-only; SBX_BUILD names another place)", 2)


def _make_tmp():
    # Short (a unix socket's path has 107 bytes), and open to the uids that
    # workers and sandboxes run as.
    path = pathlib.Path(tempfile.mkdtemp(prefix="sbx-e2e-"))
    path.chmod(0o755)
    return path


@pytest.fixture
def tmp():
    """A fresh, short directory that is gone after the test."""
    path = _make_tmp()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def module_tmp():
    path = _make_tmp()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def gateway(tmp):
    """A running sidecar gateway, https and http, of its own."""
    with Gateway.sidecar(tmp) as gw:
        yield gw


@pytest.fixture(scope="module")
def shared(module_tmp):
    """A sidecar gateway for all tests of a file that only send requests."""
    with Gateway.sidecar(module_tmp) as gw:
        yield gw


@pytest.fixture
def app(gateway):
    """An inner server behind `gateway` on port 8000."""
    with App(gateway.proxy_dir, 8000) as a:
        yield a
        assert not a.errors


@pytest.fixture
def shared_app(shared):
    """A fresh inner server (a record of its own) behind `shared`."""
    with App(shared.proxy_dir, 8000) as a:
        yield a
        assert not a.errors


@pytest.fixture
def free_port():
    """free_port(): a TCP port on loopback that is free now. Prefer port 0
    where the program can take it: this one can be lost to somebody else."""
    def pick():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]
    return pick


@pytest.fixture
def cgroups():
    """A directory of a version 2 hierarchy, wherever one is mounted."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(where, os.W_OK):
            d = pathlib.Path(where) / f"sbx-test-{os.getpid()}"
            try:
                d.mkdir()
            except OSError:
                continue
            yield d
            assert [p for p in d.iterdir() if p.is_dir()] == []
            d.rmdir()
            return
    pytest.skip("no cgroup v2 hierarchy that can be written to")


@pytest.fixture(scope="module")
def agent(module_tmp):
    """In host mode; a module that wants another one has its own."""
    with Agent(module_tmp) as a:
        yield a


@pytest.fixture
def sandbox(agent):
    sb = agent.create()
    yield sb
    sb.delete()


@pytest.fixture
def dedicated(tmp):
    with Agent(tmp, host=False) as a:
        yield Scope(a, "/v1", a.token)
