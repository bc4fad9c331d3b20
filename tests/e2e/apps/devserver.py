# SPDX-License-Identifier: Apache-2.0
"""Like a front-end development server: answers only to hosts that it knows,
serves modules by absolute URL, and reports changes over a WebSocket with a
subprotocol of its own."""

import asyncio
import json
import urllib.parse

from .mini import MiniApp


class DevServer(MiniApp):
    def __init__(self, proxy_dir, port, hosts=("localhost",), base="/"):
        super().__init__(proxy_dir, port)
        self.hosts, self.base = hosts, base
        self.changed = []

    def host_is_known(self, r):
        name = r.fields["host"].rsplit(":", 1)[0]
        return name in self.hosts

    def page(self, r):
        if not self.host_is_known(r):
            return 403, {}, (f'Blocked request. This host '
                             f'("{r.fields["host"]}") is not allowed.')
        if r.path == self.base:
            return 200, {"Content-Type": "text/html"}, (
                f'<script type="module" src="{self.base}@vite/client">'
                f'</script><script type="module" src="{self.base}src/main.js">'
                f'</script>')
        if r.path in (self.base + "@vite/client", self.base + "src/main.js"):
            return 200, {"Content-Type": "text/javascript"}, "//" + r.path
        return 404, {}, "no such module"

    def accept(self, r):
        origin = urllib.parse.urlsplit(r.fields.get("origin", "")).hostname
        if not self.host_is_known(r) or origin not in self.hosts:
            return 400, "bad host or origin"
        if r.fields.get("sec-websocket-protocol") != "vite-hmr":
            return 400, "another protocol"
        return None

    async def talk(self, socket):
        await socket.send(json.dumps({"type": "connected"}))
        while True:
            if self.changed:
                await socket.send(json.dumps(
                    {"type": "update", "path": self.changed.pop()}))
            await asyncio.sleep(0.01)
