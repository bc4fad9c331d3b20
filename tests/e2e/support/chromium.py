# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools pipe.

    with Chromium(tmp, {"X-Sandbox-Token": token}) as browser:
        page = browser.open(url)
        page.until("document.title == 'Hello'")

The headers are added to everything it sends, WebSocket handshakes too, by an
extension with one rule, as a user would do it.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time

from . import paths

PROGRAM = shutil.which("chromium")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--disable-default-apps",
         "--no-default-browser-check", "--ignore-certificate-errors",
         "--password-store=basic", "--remote-debugging-pipe",
         "--enable-unsafe-extension-debugging"]


class Chromium:
    def __init__(self, tmp, headers=None):
        self.dir = tmp / "chromium"
        self.headers = headers or {}
        self.proc = None
        self.number = 0
        self.data = b""

    def __enter__(self):
        self.dir.mkdir()
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        log = open(self.dir / "log", "wb")
        env = paths.child_env({"HOME": str(self.dir), "TMPDIR": str(self.dir),
                               "DBUS_SESSION_BUS_ADDRESS": "disabled:"})
        # It wants the two pipes as its descriptors 3 and 4.
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
        with log:
            self.proc = subprocess.Popen(
                ["/bin/bash", "-c", shell, PROGRAM, *FLAGS,
                 f"--user-data-dir={self.dir}/profile", "about:blank"],
                pass_fds=(to_read, from_write), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=env, start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        self.out, self.inp = to_write, from_read
        try:
            if self.headers:
                self._load_extension()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc):
        os.close(self.out)
        os.close(self.inp)
        try:
            os.killpg(self.proc.pid, signal.SIGTERM)
            self.proc.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.proc.wait()

    def _load_extension(self):
        where = self.dir / "extension"
        where.mkdir()
        rule = {"id": 1, "priority": 1, "condition": {
            "urlFilter": "*", "resourceTypes": [
                "main_frame", "sub_frame", "stylesheet", "script", "image",
                "font", "xmlhttprequest", "websocket", "other"]},
            "action": {"type": "modifyHeaders", "requestHeaders": [
                {"header": k, "operation": "set", "value": v}
                for k, v in self.headers.items()]}}
        (where / "rules.json").write_text(json.dumps([rule]))
        (where / "manifest.json").write_text(json.dumps({
            "manifest_version": 3, "name": "headers", "version": "1",
            "permissions": ["declarativeNetRequest"],
            "host_permissions": ["<all_urls>"],
            "declarative_net_request": {"rule_resources": [
                {"id": "rules", "enabled": True, "path": "rules.json"}]}}))
        self.call("Extensions.loadUnpacked", path=str(where))
        self._probe()

    def _probe(self):
        """The rule is in force a little after the extension is loaded: asks
        a server of our own until a request has the headers."""
        name = next(iter(self.headers)).lower().encode()
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(20 * paths.SLOW)
            for _ in range(200):
                target = self.call(
                    "Target.createTarget",
                    url=f"http://127.0.0.1:{server.getsockname()[1]}/")
                client = server.accept()[0]
                with client:
                    head = client.recv(65536).lower()
                    client.sendall(b"HTTP/1.1 204 No\r\nConnection: close"
                                   b"\r\n\r\n")
                self.call("Target.closeTarget", **target)
                if name in head:
                    return
                time.sleep(0.02)
        raise RuntimeError("the headers are not sent")

    # --- DevTools -------------------------------------------------------
    def call(self, method, session=None, seconds=30.0, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds * paths.SLOW
        while True:
            got = self._message(end)
            if got.get("id") != self.number:
                continue  # an event, of no interest
            if "error" in got:
                raise RuntimeError(f"{method}: {got['error']}")
            return got["result"]

    def _message(self, end):
        while b"\0" not in self.data:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError((self.dir / "log").read_text()[-2000:])
            more = os.read(self.inp, 1 << 16)
            if not more:
                raise RuntimeError((self.dir / "log").read_text()[-2000:])
            self.data += more
        one, self.data = self.data.split(b"\0", 1)
        return json.loads(one)

    def open(self, url):
        target = self.call("Target.createTarget", url=url)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target,
                            flatten=True)["sessionId"]
        return Page(self, session)


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def value(self, expression):
        """What a JavaScript expression is (a promise is waited for)."""
        r = self.browser.call("Runtime.evaluate", self.session,
                              expression=expression, awaitPromise=True,
                              returnByValue=True)
        assert "exceptionDetails" not in r, r
        return r["result"].get("value")

    def until(self, expression, seconds=20.0):
        end = time.monotonic() + seconds * paths.SLOW
        while not (got := self.value(expression)):
            if time.monotonic() > end:
                raise AssertionError(
                    f"never true: {expression}\n"
                    + str(self.value("document.body.innerText")))
            time.sleep(0.05)
        return got
