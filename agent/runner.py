# SPDX-License-Identifier: Apache-2.0
"""The interpreter side of run_code: one of these is one context.

It is compiled into the agent, which starts a python3 of the sandbox with it
(see repl.c). Descriptor 0 is a stream socket to the agent and becomes private;
1 and 2 are pipes that belong to the code that is run. On the socket go frames:

    length, 4 bytes, big-endian, of what follows | type, 1 byte | JSON

    agent says                       runner says
    R {"code", "env"}  run           h {"python"}         it is there
    F {"n", "layers",  fork          b {}                 the code begins
       "first"}                      e {"event", ...}     an event for the client
    N {}               what it has   d {"code"}           the code has ended
    M {}               write to      c {"layer"} + 4      a child (out, err,
                       where parent  descriptors          socket, pidfd), which
                       writes                             says so by itself
    k                  e was told    f {"threads", ...}   all children are there
                                     n {"names": {name: [type, digest, text]},
                                        "files": {path: [kind, version]}}
                                     m {"error"}          M is done

Code may print or read anything and close what it finds: nothing that it writes
is ever read as a frame.

Run by itself (python3 runner.py) it speaks the older line protocol on its
standard input and output: see Lines.
"""

# A context starts with these: _ast, _signal and _socket are what the modules of
# those names are made of, and cost nothing.
import _ast
import _signal
import _socket
import _thread
import binascii
import builtins
import fcntl
import io
import json
import linecache
import os
import stat
import struct
import sys
import traceback

FRAME_MAX = 64 << 20
EVENT_MAX = 6 << 20
TEXT_MAX = 1 << 20
TUNABLES = "glibc.malloc.hugetlb=1"  # see interp.c
LINK_LOST = 70
later = {}  # forks.py and views.py, until they are needed
MIMES = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
)


def need(name):
    """Runs the part of that name here, if that has not been done."""
    if name in later:
        exec(compile(later[name], __file__, "exec"), globals())
        del later[name]


def base64(data):
    return binascii.b2a_base64(data, newline=False).decode()


def high(fd):
    """The same, out of the way of code that counts on low numbers."""
    new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 500)
    os.close(fd)
    return new


def null_input():
    """0 is /dev/null, for children too."""
    fd = os.open(os.devnull, os.O_RDONLY)
    if fd != 0:
        os.dup2(fd, 0)
        os.close(fd)
    os.set_inheritable(0, True)


def clean(v):
    """What JSON and UTF-8 can carry: no NUL, no lone surrogates."""
    if isinstance(v, str):
        return v.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(v, dict):
        return {clean(str(k)): clean(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [clean(x) for x in v]
    if isinstance(v, float) and v - v != 0:
        return repr(v)  # inf and nan are no JSON
    if v is None or isinstance(v, (bool, int, float)):
        return v
    return clean(str(v))


class Link:
    """Frames on the private socket."""

    def __init__(self, fd):
        self.take(fd)

    def take(self, fd):
        self.sock = _socket.socket(fileno=fd)
        self.sock.setblocking(True)
        self.lock = _thread.allocate_lock()  # threads may display, too

    def recv(self):
        n, kind = struct.unpack(">Ic", self._exactly(5))
        if not 1 <= n <= FRAME_MAX:
            raise EOFError
        return kind, json.loads(self._exactly(n - 1).decode() or "{}")

    def _exactly(self, n):
        parts = []
        while n > 0:
            got = self.sock.recv(min(n, 1 << 20))
            if not got:
                raise EOFError
            parts.append(got)
            n -= len(got)
        return b"".join(parts)

    def told(self):
        """What is printed after an event must not overtake it: the agent
        says when it has it. Five bytes, which an interrupt takes or leaves."""
        try:
            self._exactly(5)
        except OSError:
            pass

    def send(self, kind, obj, fds=()):
        body = json.dumps(obj).encode()
        data = struct.pack(">Ic", len(body) + 1, kind) + body
        anc = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS,
                struct.pack(f"{len(fds)}i", *fds))]
        with self.lock:
            sent = self.sock.sendmsg([data], anc if fds else [])
            if sent < len(data):
                self.sock.sendall(data[sent:])


class Shell:
    """Runs code in one namespace, and tells what comes of it."""

    def __init__(self, emit, begun=lambda: None, told=lambda: None):
        self.say = emit
        self.begun = begun
        self.told = told  # waits until what was emitted has its place
        self.pid = os.getpid()
        self.thread = _thread.get_ident()
        self.masked = self.pending = False
        self.count = 0
        self.running = False
        self.loop = None
        self.main = type(sys)("__main__")
        self.main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self.main
        self.names = self.main.__dict__
        self.own = set(self.names)
        builtins.display = self.display
        os.environ.setdefault("MPLBACKEND", "agg")
        _signal.signal(_signal.SIGINT, self.interrupted)

    def interrupted(self, _signo, _frame):
        if self.masked:
            self.pending = True
        elif self.running and os.getpid() == self.pid:
            raise KeyboardInterrupt

    def send(self, fn, what):
        """No interrupt cuts a frame in two."""
        if _thread.get_ident() != self.thread:
            fn(what)
            return
        self.masked = True
        try:
            fn(what)
        finally:
            self.masked = False
        if self.pending:
            self.pending = False
            if self.running:
                raise KeyboardInterrupt

    # --- standard streams ---

    def streams(self):
        """1 and 2 as files of text, whatever the last call did to them."""
        for fd, spare, name in ((1, self.out, "stdout"), (2, self.err,
                                                          "stderr")):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(spare, fd)
            f = getattr(sys, name, None)
            if f is None or getattr(f, "closed", False):
                setattr(sys, name, self.text(fd))
        try:
            os.fstat(0)
        except OSError:
            null_input()
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(0, closefd=False)

    @staticmethod
    def text(fd):
        raw = io.FileIO(fd, "w", closefd=False)
        return io.TextIOWrapper(io.BufferedWriter(raw, 8192), "utf-8",
                                "backslashreplace", line_buffering=True)

    def take_streams(self):
        self.out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 500)
        self.err = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 500)
        sys.stdout, sys.stderr = self.text(1), self.text(2)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr

    @staticmethod
    def flush():
        for f in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                f.flush()
            except Exception:  # closed, or something else of the user's
                pass

    # --- values ---

    def bundle(self, obj):
        data = {}
        many = getattr(obj, "_repr_mimebundle_", None)
        if callable(many) and not isinstance(obj, type):
            try:
                got = many()
                got = got[0] if isinstance(got, tuple) else got
                data.update(got or {})
            except Exception:
                pass
        for name, mime in MIMES:
            fn = None if isinstance(obj, type) else getattr(obj, name, None)
            if mime in data or not callable(fn):
                continue
            try:
                got = fn()
            except Exception:
                continue
            got = got[0] if isinstance(got, tuple) and got else got
            if got is not None:
                data[mime] = got
        for mime, got in list(data.items()):
            if isinstance(got, (bytes, bytearray)):
                data[mime] = base64(bytes(got))
        data.pop("text/plain", None)
        return data

    def tell(self, event, obj):
        text = repr(obj)
        cut = len(text) > TEXT_MAX
        data = self.bundle(obj)
        out = {"event": event, "text": clean(text[:TEXT_MAX])}
        if cut:
            out["truncated"] = len(text)
        if data:
            out["data"] = clean(data)
        if len(json.dumps(out)) > EVENT_MAX:
            out.pop("data")
            out["dropped"] = "representations too large"
        self.order()
        self.emit(out)

    def display(self, *objs):
        for obj in objs:
            self.tell("display", obj)
            if (self.running and _thread.get_ident() == self.thread
                    and os.getpid() == self.pid):
                self.told()

    def emit(self, event):
        if os.getpid() == self.pid:  # not of a child that the code forked
            self.send(self.say, event)

    def order(self):
        """What was printed so far is in the pipe before what follows."""
        self.flush()

    def figures(self):
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None or "agg" not in str(plt.get_backend()).lower():
            return
        for num in plt.get_fignums():
            png = io.BytesIO()
            plt.figure(num).savefig(png, format="png", bbox_inches="tight")
            data = {"image/png": base64(png.getvalue())}
            self.order()
            self.emit({"event": "display", "text": f"<Figure {num}>",
                       "data": data})
        plt.close("all")

    # --- running ---

    def run(self, code, env):
        """Returns the exit status."""
        self.count += 1
        self.streams()
        before = {k: os.environ.get(k) for k in env}
        os.environ.update(env)
        status = 0
        try:
            try:
                self.running = True
                self.pending = False
                self.begun()  # an interrupt hits from here on
                value = self.evaluate(code, f"<cell {self.count}>")
                if value is not None:
                    self.names["_"] = value
                    self.tell("result", value)
                self.figures()
            finally:
                self.running = False
        except SystemExit as e:
            status = self.left(e.code)
        except BaseException as e:
            status = 130 if isinstance(e, KeyboardInterrupt) else 1
            self.failed(e)
        if os.getpid() != self.pid:  # it forked, and this is the copy
            self.flush()
            os._exit(status)
        for k, v in before.items():
            if v is None:
                os.environ.pop(k, None)
            else:
                os.environ[k] = v
        self.flush()
        return status

    def evaluate(self, code, name):
        linecache.cache[name] = (len(code), None,
                                 code.splitlines(keepends=True), name)
        flags = _ast.PyCF_ONLY_AST | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(code, name, "exec", flags)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = _ast.Expression(tree.body.pop().value)
        if tree.body:
            self.execute(compile(tree, name, "exec",
                                 _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if last is None:
            return None
        return self.execute(compile(last, name, "eval",
                                    _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))

    def execute(self, compiled):
        if not compiled.co_flags & 0x80:  # CO_COROUTINE: awaits at the top
            return eval(compiled, self.names)
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(eval(compiled, self.names))

    @staticmethod
    def left(code):
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xff
        print(code, file=sys.stderr)
        return 1

    @staticmethod
    def theirs(tb):
        """Our own frames are of no interest to them."""
        while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
            tb = tb.tb_next
        return tb

    def failed(self, e):
        tb = last = self.theirs(e.__traceback__)
        while last is not None:  # nor is the handler of an interrupt
            at, last = last, self.theirs(last.tb_next)
            at.tb_next = last
        try:
            lines = traceback.format_exception(type(e), e, tb)
            text = "".join(lines)
            value = str(e)
        except BaseException:  # an exception that cannot be shown
            text = f"{type(e).__name__}: <it cannot be shown>\n"
            value = ""
        try:
            sys.stderr.write(text)
        except Exception:
            os.write(self.err, text.encode("utf-8", "backslashreplace"))
        self.order()
        self.emit({"event": "error", "name": type(e).__name__,
                   "value": clean(value[:TEXT_MAX]),
                   "traceback": clean(text[-TEXT_MAX:])})

    # --- what it holds ---

    def summary(self):
        import hashlib
        out = {}
        for name, value in list(self.names.items()):
            if name in self.own or name in ("_", "__builtins__"):
                continue
            try:
                text = repr(value)
            except BaseException:
                text = "<no repr>"
            try:
                import pickle
                known = pickle.dumps(value)
            except BaseException:
                known = text.encode("utf-8", "replace")
            out[clean(name)] = [type(value).__name__,
                                hashlib.sha256(known).hexdigest()[:16],
                                clean(text[:200])]
            if len(out) >= 10000:
                break
        return out


class Runner:
    def __init__(self, fd):
        self.link = Link(high(fd))
        self.shell = Shell(lambda ev: self.link.send(b"e", ev),
                           lambda: self.link.send(b"b", {}),
                           self.link.told)
        self.view = None

    def start(self):
        if os.environ.get("GLIBC_TUNABLES") == TUNABLES:
            del os.environ["GLIBC_TUNABLES"]  # it was for us alone
        null_input()
        self.shell.take_streams()
        if sys.path[:1] != [""]:
            sys.path.insert(0, "")
        sys.argv = [""]
        self.link.send(b"h", {"python": sys.version.split()[0]})

    def serve(self):
        try:
            while True:
                self.answer(*self.link.recv())
        except (EOFError, OSError):
            os._exit(LINK_LOST)

    def answer(self, kind, what):
        if kind == b"R":
            code = self.shell.run(what["code"], what.get("env") or {})
            self.link.send(b"d", {"code": code})
        elif kind == b"F":
            need("forks")
            Forks(self).make(**what)
        elif kind == b"N":
            files = self.view.changed() if self.view else {}
            self.link.send(b"n", {"names": self.shell.summary(),
                                  "files": files})
        elif kind == b"M":
            self.link.send(b"m", Forks(self).leave_view())

class Lines:
    """Code between the lines __PODFLARE_BEGIN__ and __PODFLARE_END__ on the
    standard input; a line of JSON on the standard output for what it prints,
    {"t":"out"|"err","d":text}, and for its end, {"t":"exit","c":status}. What
    is wrong with that is the protocol's: an end inside the code ends it."""

    BEGIN, END = "__PODFLARE_BEGIN__", "__PODFLARE_END__"

    def __init__(self):
        self.put = os.fdopen(high(os.dup(1)), "wb", 0)
        self.get = os.fdopen(high(os.dup(0)), "r", encoding="utf-8",
                             errors="replace")
        self.shell = Shell(self.event)
        self.pipes = []
        for fd in (1, 2):
            r, w = os.pipe()
            fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 1 << 20)
            os.dup2(w, fd)
            os.close(w)
            self.pipes.append(r)
        null_input()
        self.shell.take_streams()
        self.stop = os.pipe()

    def say(self, obj):
        self.put.write(json.dumps(obj).encode() + b"\n")

    def event(self, ev):
        if ev["event"] == "result":
            os.write(1, (ev["text"] + "\n").encode())

    def pump(self):
        """On a thread: what the pipes carry, until told that all is in."""
        import codecs
        import select
        dec = {fd: codecs.getincrementaldecoder("utf-8")("replace")
               for fd in self.pipes}
        ending = False
        while True:
            fds = self.pipes + ([] if ending else [self.stop[0]])
            ready = select.select(fds, [], [], 0 if ending else None)[0]
            if ending and not ready:
                break
            for fd in ready:
                if fd == self.stop[0]:
                    os.read(fd, 1)
                    ending = True
                    continue
                text = dec[fd].decode(os.read(fd, 65536))
                if text:
                    self.say({"t": "out" if fd == self.pipes[0] else "err",
                              "d": text})

    def serve(self):
        import threading
        code = None
        for line in self.get:
            word = line.rstrip("\r\n")
            if code is None:
                code = [] if word == self.BEGIN else None
            elif word != self.END:
                code.append(line)
            else:
                t = threading.Thread(target=self.pump, daemon=True)
                t.start()
                status = self.shell.run("".join(code), {})
                os.write(self.stop[1], b"x")
                t.join()
                self.say({"t": "exit", "c": status})
                code = None


if __name__ == "__main__":
    Lines().serve()
