# SPDX-License-Identifier: Apache-2.0
"""Copies of a running interpreter. A part of runner.py, in whose namespace it
is run when it is first needed.
"""

PIDFD_OPEN = 434  # the same on every architecture


def pidfd_open(pid):
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import ctypes  # Python 3.8
    fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_OPEN, pid, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    return fd


def reopen_files(private, paths):
    """Open regular files get offsets of their own, and what has a path in a
    new view of the file system is opened there; returns how many could not."""
    shared = 0
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        path, same = paths.get(fd), f"/proc/self/fd/{fd}"
        try:
            if fd in private or not (path or stat.S_ISREG(
                    os.fstat(fd).st_mode)):
                continue
        except OSError:
            continue  # the directory's own
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            inherit = os.get_inheritable(fd)
            at = os.lseek(fd, 0, os.SEEK_CUR)
            try:
                new = os.open(path or same, flags | os.O_CLOEXEC)
            except OSError:
                new = os.open(same, flags | os.O_CLOEXEC)
                shared += path is not None
            os.lseek(new, at, os.SEEK_SET)
            os.dup2(new, fd, inherit)
            os.close(new)
        except OSError:
            shared += 1
    return shared


class Forks:
    def __init__(self, runner):
        self.runner, self.link = runner, runner.link

    def make(self, n, layers=None, first=0):
        """n copies of this process, none of which is its child: code that
        waits for children of its own is not to meet them."""
        import gc
        import warnings
        self.runner.shell.flush()
        gc.freeze()  # what is collected in a copy is what is new in it
        said = {"made": 0}
        middles = []
        try:
            said["threads"] = len(os.listdir("/proc/self/task")) - 1
            why = self.make_view() if layers else (
                "only jobs of the local launcher have layers")
            with self.link.lock, warnings.catch_warnings():
                # No thread's frame gets between those of the copies.
                warnings.simplefilter("ignore")
                if not why:
                    why = self.copies(n, layers, first, said, middles)
                if why and not said["made"]:
                    self.copies(n, None, why, said, middles)
        except OSError as e:
            said["why"] = os.strerror(e.errno)
        finally:
            gc.unfreeze()
        self.link.send(b"f", said)
        for pid in middles:
            self.reap(pid)

    @staticmethod
    def reap(pid):
        """After the answer: giving up much memory takes it a while."""
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:  # the code ignores SIGCHLD
            pass

    def copies(self, n, layers, first, said, middles):
        """Makes them. Not None: none was made, since it cannot be done with
        views of their own."""
        why = None
        get, tell = os.pipe()
        ack, go = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            for fd in (get, tell, ack, go):
                os.close(fd)
            raise
        if pid == 0:
            os.close(get)
            os.close(go)
            self.middle(n, layers, first, tell, ack)
        middles.append(pid)
        os.close(tell)
        os.close(ack)
        with open(get, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                word, _, rest = line.rstrip().partition(" ")
                if word == "user":
                    try:
                        same_ids(pid)
                        os.write(go, b"x")
                    except OSError as e:
                        why = f"user namespace: {e.strerror}"
                        os.close(go)
                        go = None
                elif word == "not":
                    why = rest
                else:
                    said["made"] += 1
                    if word == "own":
                        said.setdefault("files", word)
                    else:
                        said.update(files=word, files_why=rest)
        if go is not None:
            os.close(go)
        return why

    def middle(self, n, layers, first, tell, ack):
        """They are on their way at the same time, each tells by itself."""
        try:
            if layers and not self.runner.view.inside:
                try:
                    asked("unshare", NEWUSER)
                except OSError as e:
                    os.write(tell, f"not {e.strerror}\n".encode())
                    os._exit(0)
                os.write(tell, b"user\n")
                if not os.read(ack, 1):
                    os._exit(0)
                self.runner.view.inside = True
            os.close(ack)
            for i in range(n):
                if os.fork() == 0:
                    self.child(layers, first + i if layers else first, tell)
            os.close(tell)
        finally:
            os._exit(0)

    def child(self, layers, which, tell):
        """Goes on as a context of its own. which: its layer, or why it has
        none."""
        shell, link = self.runner.shell, self.link
        try:
            os.setsid()  # what is sent to our group is not for it
            ours, theirs = _socket.socketpair()
            away = []
            for std, spare in ((1, shell.out), (2, shell.err)):
                get, put = os.pipe()
                away.append(get)
                try:
                    own = os.path.samestat(os.fstat(std), os.fstat(spare))
                except OSError:
                    own = False
                if own:
                    os.dup2(put, std)
                os.dup2(put, spare, False)
                os.close(put)
            away += theirs.detach(), pidfd_open(os.getpid())
            private = {ours.fileno(), link.sock.fileno(), tell, *away}
            paths, about, word = {}, {}, f"shared {which}"
            if layers:
                try:
                    paths = self.runner.view.enter(f"{layers}/{which}", private)
                    about, word = {"layer": which}, "own"
                except OSError as e:
                    word = f"shared {e.strerror}"
            if self.runner.view:
                private |= self.runner.view.private()
            shared = reopen_files(private, paths)
            link.lock = _thread.allocate_lock()
            link.send(b"c", about, away)
            link.sock.close()
            for fd in away:
                os.close(fd)
            link.take(high(ours.detach()))
            shell.pid = os.getpid()
            shell.loop = None  # its selector is the parent's too
            os.write(tell, word.encode()[:500] + b"\n")
            os.close(tell)
            link.send(b"h", {"shared": shared})
            self.runner.serve()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    # --- views of the file system (views.py) ---

    def make_view(self):
        """None, or why there cannot be one."""
        if self.runner.view:
            return None
        try:
            need("views")
            self.runner.view = View()
        except Exception as e:  # a Python without ctypes
            return f"{type(e).__name__}: {e}"
        return None

    def leave_view(self):
        private = {self.link.sock.fileno()}
        try:
            if self.runner.view:
                reopen_files(private, self.runner.view.leave(private))
        except OSError as e:
            return {"error": str(e)}
        return {}
