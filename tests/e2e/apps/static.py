# SPDX-License-Identifier: Apache-2.0
"""A built single-page application: absolute and relative asset URLs, ranges,
conditional requests."""

from .mini import MiniApp

FILES = {
    "/": ("text/html", '<link rel="stylesheet" href="/style.css">'
                       '<script src="app.js"></script>'),
    "/style.css": ("text/css", "body{color:red}"),
    "/app.js": ("text/javascript", "0123456789"),
}


class Static(MiniApp):
    def page(self, r):
        if r.path not in FILES:
            return 404, {"Content-Type": "text/html"}, "<h1>404</h1>"
        kind, text = FILES[r.path]
        tag = f'"{len(text)}"'
        headers = {"Content-Type": kind, "ETag": tag,
                   "Cache-Control": "max-age=60"}
        if r.fields.get("if-none-match") == tag:
            return 304, headers, ""
        if "range" in r.fields:
            first, last = map(int, r.fields["range"][6:].split("-"))
            headers["Content-Range"] = f"bytes {first}-{last}/{len(text)}"
            return 206, headers, text[first:last + 1]
        return 200, headers, text
