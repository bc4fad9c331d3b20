# SPDX-License-Identifier: Apache-2.0
"""Applications of the kinds that people have trouble with behind proxies, seen
by a client that does what a browser does with redirects, cookies and relative
URLs: by path, by host name, and with the prefix kept."""

import re
import urllib.parse

import pytest

from apps.devserver import DevServer
from apps.notebook import Notebook
from apps.static import Static
from support.http import get, post
from support.ws import WebSocket
from test_proxy import ALPHA, configured

PATH = "/v1/sandboxes/alpha/proxy/{}/"
KEPT = "/v1/sandboxes/alpha/absproxy/{}/"
SEGMENT = "/alpha--{}.gw.example/"


class Browser:
    """One origin, one cookie jar with paths."""

    def __init__(self, gw, host):
        self.gw, self.host = gw, host
        self.origin = "https://" + host
        self.jar = {}  # name -> (value, path)

    def fields(self, path, more):
        sent = [f"{n}={v}" for n, (v, p) in self.jar.items()
                if path == p or path.startswith(p.rstrip("/") + "/")]
        return {"Cookie": "; ".join(sent)} | more if sent else more

    def keep(self, path, r):
        for one in r.all("Set-Cookie"):
            name, value = one.split(";")[0].split("=", 1)
            where = re.search(r"[Pp]ath=([^;]*)", one)
            default = path.rsplit("/", 1)[0] or "/"
            self.jar[name] = (value, where[1] if where else default)

    def open(self, url):
        """GET, following redirects; returns the final path and answer."""
        for _ in range(5):
            url = urllib.parse.urljoin(self.origin + "/", url)
            assert url.startswith(self.origin + "/"), f"led away: {url}"
            path = url[len(self.origin):]
            r = get(self.gw.https, path, host=self.host, token=ALPHA,
                    headers=self.fields(path, {
                        "Accept": "text/html", "Sec-Fetch-Mode": "navigate",
                        "Sec-Fetch-Dest": "document"}))
            self.keep(path, r)
            if "Location" not in r:
                return path, r
            url = urllib.parse.urljoin(url, r["Location"])
        raise AssertionError("redirected in a circle")

    def assets(self, path, r):
        """What a page refers to, fetched."""
        got = {}
        for ref in re.findall(r'(?:src|href)="([^"]+)"', r.body.decode()):
            where = urllib.parse.urljoin(path, ref)
            got[ref] = get(self.gw.https, where, host=self.host, token=ALPHA,
                           headers=self.fields(where, {
                               "Sec-Fetch-Dest": "script"}))
        return got

    def post(self, path, **fields):
        more = {k.replace("_", "-"): v for k, v in fields.items()}
        return post(self.gw.https, path, b"{}", host=self.host, token=ALPHA,
                    headers=self.fields(path, {"Origin": self.origin} | more))

    def websocket(self, path, headers=(), origin=None):
        return WebSocket(self.gw.https, path, host=self.host, token=ALPHA,
                         headers=self.fields(path, {
                             "Origin": origin or self.origin} | dict(headers)))


# --- a notebook --------------------------------------------------------------
def use_notebook(browser, start, base):
    path, r = browser.open(start)
    assert r.status == 200, r.body
    assert path == base + "tree"
    xsrf, where = browser.jar["_xsrf"]
    assert where == base
    assert browser.post(base + "api/kernels").status == 403
    r = browser.post(base + "api/kernels", X_XSRFToken=xsrf)
    assert r.status == 201, r.body
    assert r["Location"] == base + "api/kernels/1"
    channel = base + "api/kernels/1/channels"
    with browser.websocket(channel) as ws:
        assert ws.response.status == 101
        ws.send("1+1")
        assert ws.recv() == b"kernel: 1+1"
    with browser.websocket(channel, origin="https://evil.example") as ws:
        assert ws.response.status == 403


def test_notebook_by_host(tmp):
    with configured(tmp) as gw, Notebook(tmp / "alpha", 8888):
        browser = Browser(gw, "alpha--8888.sbx.example:8443")
        use_notebook(browser, "/", "/")
        path, r = browser.open("/tree")
        assert all(a.status == 200 for a in browser.assets(path, r).values())


def test_notebook_with_the_prefix_kept(tmp):
    """base_url set to where it is seen: the usual way for such servers."""
    base = KEPT.format(8888)
    with configured(tmp) as gw, Notebook(tmp / "alpha", 8888, base):
        browser = Browser(gw, "gw.example:8443")
        use_notebook(browser, base, base)
        path, r = browser.open(base + "tree")
        assert all(a.status == 200 for a in browser.assets(path, r).values())


@pytest.mark.parametrize("form", [PATH, SEGMENT])
def test_notebook_by_path(tmp, form):
    """It does not know of the prefix: redirects and cookies work all the
    same (its absolute links in pages cannot)."""
    base = form.format(8888)
    with configured(tmp) as gw, Notebook(tmp / "alpha", 8888):
        browser = Browser(gw, "gw.example:8443")
        use_notebook(browser, base[:-1], base)


def test_two_apps_keep_their_cookies_apart(tmp):
    with configured(tmp) as gw, Notebook(tmp / "alpha", 8888), \
            Notebook(tmp / "alpha", 8889):
        browser = Browser(gw, "gw.example")
        browser.open(PATH.format(8888))
        fields = browser.fields(PATH.format(8889) + "tree", {})
        assert "Cookie" not in fields


# --- a development server ----------------------------------------------------
def use_dev_server(browser, app, base):
    path, r = browser.open(base)
    assert r.status == 200, r.body
    got = browser.assets(path, r)
    assert len(got) == 2 and all(a.status == 200 for a in got.values())
    with browser.websocket(base, {"Sec-WebSocket-Protocol": "vite-hmr"}) as ws:
        assert ws.response.status == 101
        assert ws.response["Sec-WebSocket-Protocol"] == "vite-hmr"
        assert b"connected" in ws.recv()
        app.changed.append("/src/main.js")
        assert b"/src/main.js" in ws.recv()


def test_dev_server_by_host(tmp):
    with configured(tmp, alpha="host_policy = localhost") as gw, \
            DevServer(tmp / "alpha", 5173) as app:
        browser = Browser(gw, "alpha--5173.sbx.example:8443")
        use_dev_server(browser, app, "/")
        with browser.websocket("/", {"Sec-WebSocket-Protocol": "vite-hmr"},
                               origin="https://evil.example") as ws:
            assert ws.response.status == 400


def test_dev_server_with_the_prefix_kept(tmp):
    base = KEPT.format(5173)
    with configured(tmp, alpha="host_policy = localhost") as gw, \
            DevServer(tmp / "alpha", 5173, base=base) as app:
        use_dev_server(Browser(gw, "gw.example:8443"), app, base)


def test_dev_server_that_knows_its_public_name(tmp):
    """With the default policy Host goes through: the application decides."""
    with configured(tmp) as gw, \
            DevServer(tmp / "alpha", 5173,
                      hosts=("alpha--5173.sbx.example",)) as app:
        use_dev_server(Browser(gw, "alpha--5173.sbx.example"), app, "/")
        _, r = Browser(gw, "alpha--5173.other.example").open("/")
        assert r.status == 403 and b"is not allowed" in r.body


# --- static files ------------------------------------------------------------
def test_static_by_host(tmp):
    with configured(tmp) as gw, Static(tmp / "alpha", 9000):
        browser = Browser(gw, "alpha--9000.sbx.example")
        path, r = browser.open("/")
        got = browser.assets(path, r)
        assert got["/style.css"].body == b"body{color:red}"
        assert got["app.js"].body == b"0123456789"
        # a page of the application's own that is missing is its own 404
        _, r = browser.open("/nowhere")
        assert r.status == 404 and r.body == b"<h1>404</h1>"


@pytest.mark.parametrize("form", [PATH, SEGMENT])
def test_static_by_path(tmp, form):
    """Relative URLs work, with and without the slash at the end; absolute
    ones lead out of the prefix, to an answer that is no page."""
    with configured(tmp) as gw, Static(tmp / "alpha", 9000):
        browser = Browser(gw, "gw.example")
        path, r = browser.open(form.format(9000)[:-1])
        assert path == form.format(9000)
        got = browser.assets(path, r)
        assert got["app.js"].body == b"0123456789"
        assert got["/style.css"].status == 400
        assert got["/style.css"]["Content-Type"] == "application/json"
        assert got["/style.css"]["X-Content-Type-Options"] == "nosniff"


def test_ranges_and_conditions(tmp):
    with configured(tmp) as gw, Static(tmp / "alpha", 9000):
        where = PATH.format(9000) + "app.js"
        r = get(gw.https, where, token=ALPHA, headers={"Range": "bytes=2-4"})
        assert r.status == 206 and r.body == b"234"
        assert r["Content-Range"] == "bytes 2-4/10"
        r = get(gw.https, where, token=ALPHA)
        r = get(gw.https, where, token=ALPHA,
                headers={"If-None-Match": r["ETag"]})
        assert r.status == 304 and r.body == b"" and r["ETag"] == '"10"'
