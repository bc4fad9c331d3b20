# SPDX-License-Identifier: Apache-2.0
"""Like a notebook server: lives below a base URL, redirects with absolute
paths, protects itself with an XSRF cookie that a field must repeat, and
refuses WebSockets whose Origin is not its own Host."""

import json
import urllib.parse

from .mini import MiniApp

XSRF = "2|abc|def"


class Notebook(MiniApp):
    def __init__(self, proxy_dir, port, base="/"):
        super().__init__(proxy_dir, port)
        self.base = base

    def page(self, r):
        if not r.path.startswith(self.base):
            return 404, {}, "not below " + self.base
        path = r.path[len(self.base):]
        if path == "":
            return 302, {"Location": self.base + "tree"}, ""
        if path == "tree":
            return 200, {
                "Content-Type": "text/html",
                "Set-Cookie": f"_xsrf={XSRF}; Path={self.base}"}, \
                f'<script src="{self.base}static/main.js"></script>'
        if path == "static/main.js":
            return 200, {"Content-Type": "text/javascript"}, "main()"
        if path == "api/kernels" and r.method == "POST":
            if r.cookies.get("_xsrf") != r.fields.get("x-xsrftoken") \
                    or "_xsrf" not in r.cookies:
                return 403, {}, "'_xsrf' argument missing"
            return 201, {"Location": self.base + "api/kernels/1"}, \
                json.dumps({"id": "1"})
        return 404, {}, "no such page"

    def accept(self, r):
        if r.path != self.base + "api/kernels/1/channels":
            return 404, "no such kernel"
        origin = urllib.parse.urlsplit(r.fields.get("origin", "")).netloc
        if origin != r.fields["host"]:
            return 403, "Blocking Cross Origin WebSocket Attempt"
        return None

    async def talk(self, socket):
        while (text := await socket.recv()) is not None:
            await socket.send("kernel: " + text)
