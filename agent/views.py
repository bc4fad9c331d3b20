# SPDX-License-Identifier: Apache-2.0
"""A view of the file system of a forked context's own, where the agent has
given it a directory for what it writes (a layer): a mount namespace, in a user
namespace that maps every id to itself, with an overlay on each directory in
which anything can be written. Layers of the context that was forked lie below.

A part of runner.py, in whose namespace it is run when it is first needed.
"""

import ctypes

NEWNS, NEWUSER = 0x20000, 0x10000000
REC_PRIVATE, DETACH = 0x44000, 2
NOT_COVERED = ("proc", "sys", "dev", "run", "sbx", "lost+found")
CHANGED_MAX = 1000
libc = ctypes.CDLL(None, use_errno=True)


def asked(what, *args):
    fn = getattr(libc, what)
    if fn(*args) != 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{what}: {os.strerror(e)}")


def mount(kind, to, flags, data=None):
    asked("mount", kind, os.fsencode(to), kind, ctypes.c_ulong(flags),
          None if data is None else os.fsencode(data))


def umount(spot):
    asked("umount2", os.fsencode(spot), DETACH)


def same_ids(pid):
    """Of another process, which has made a user namespace."""
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as f:
            rows = [line.split() for line in f]
        with open(f"/proc/{pid}/{name}", "w") as f:
            f.write("".join(f"{r[0]} {r[0]} {r[2]}\n" for r in rows))


def beneath(path, spots):
    return any(path == s or path.startswith(s + "/") for s in spots)


def spots_now(cwd):
    """Directories to be covered: those of the root, and what is mounted or
    worked in below others, with no mounts in them."""
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split()[4] for line in f]

    def fit(path):
        return (os.path.isdir(path) and not os.path.islink(path)
                and not any(m.startswith(path + "/") for m in mounts)
                and not os.statvfs(path).f_flag & os.ST_RDONLY
                and not any(c in path for c in ":,\\"))

    top = sorted(n for n in os.listdir("/") if n not in NOT_COVERED)
    spots = [p for p in ("/" + n for n in top) if fit(p)]
    for path in (*mounts, cwd):
        if (path and path.split("/")[1] in top and fit(path)
                and not beneath(path, spots)):
            spots.append(path)
    return spots


def is_gone(st):
    """What overlayfs puts in the place of what was removed."""
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def is_opaque(path):
    try:
        return os.getxattr(path, "user.overlay.opaque",
                           follow_symlinks=False) == b"y"
    except OSError:
        return False


def lies(path):
    """lstat, None when there is nothing."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def remove(path):
    import shutil
    st = lies(path)
    if st is not None and stat.S_ISDIR(st.st_mode):
        shutil.rmtree(path)
    elif st is not None:
        os.unlink(path)


def put(src, st, dst):
    """A file of a layer in its place, whole or not at all."""
    import shutil
    new = os.path.join(os.path.dirname(dst), f".sbx-{os.getpid()}")
    remove(new)
    if stat.S_ISLNK(st.st_mode):
        os.symlink(os.readlink(src), new)
    elif stat.S_ISREG(st.st_mode):
        shutil.copyfile(src, new)
    elif stat.S_ISFIFO(st.st_mode):
        os.mkfifo(new)
    else:
        return  # a socket's file
    os.replace(new, dst)


def settle(src, dst):
    """Does to the directory dst what the layer's directory src says."""
    for e in os.scandir(src):
        st, to = e.stat(follow_symlinks=False), f"{dst}/{e.name}"
        old = lies(to)
        if is_gone(st):
            remove(to)
            continue
        if stat.S_ISDIR(st.st_mode):
            if is_opaque(e.path) or not old or not stat.S_ISDIR(old.st_mode):
                remove(to)
                os.mkdir(to)
            settle(e.path, to)
        else:
            if old and stat.S_ISDIR(old.st_mode):
                remove(to)
            put(e.path, st, to)
        if lies(to) is None:
            continue
        os.lchown(to, st.st_uid, st.st_gid)
        if not stat.S_ISLNK(st.st_mode):
            os.chmod(to, stat.S_IMODE(st.st_mode))
            os.utime(to, ns=(st.st_atime_ns, st.st_mtime_ns))


class View:
    def __init__(self):
        self.layers = []  # of what was forked first
        self.spots = {}  # covered: a handle of what is below
        self.inside = False  # a user namespace of our own

    def private(self):
        return set(self.spots.values())

    def cwd(self):
        try:
            return os.getcwd()
        except OSError:
            return None

    def opened(self, private):
        """Descriptors of files and directories that have a path."""
        found = {}
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            try:
                st = os.fstat(fd)
                path = os.readlink(f"/proc/self/fd/{fd}")
                if (fd not in private
                        and stat.S_IFMT(st.st_mode) in (stat.S_IFREG,
                                                        stat.S_IFDIR)
                        and os.path.samestat(st, os.stat(path))):
                    found[fd] = path
            except OSError:
                pass
        return found

    def uncover(self):
        for spot in reversed(list(self.spots)):
            umount(spot)
            os.close(self.spots.pop(spot))

    def cover(self, spot, layer):
        up, work = f"{layer}/up{spot}", f"{layer}/work{spot}"
        below = [f"{old}/up{spot}" for old in reversed(self.layers)]
        st = os.stat(spot)
        for path in (up, work):
            os.makedirs(path)
        os.chown(up, st.st_uid, st.st_gid)
        os.chmod(up, stat.S_IMODE(st.st_mode))
        below = ":".join([p for p in below if os.path.isdir(p)] + [spot])
        base = high(os.open(spot, os.O_PATH | os.O_DIRECTORY))
        try:
            mount(b"overlay", spot, 0, f"lowerdir={below},upperdir={up},"
                  f"workdir={work},userxattr,index=off,volatile")
            self.spots[spot] = base
        except OSError:
            os.close(base)
            raise

    def enter(self, layer, private):
        """Returns the paths by which descriptors are to be opened again."""
        cwd, home = self.cwd(), os.environ.get("HOME", "")
        opened = self.opened(private | self.private())
        asked("unshare", NEWNS)
        mount(b"none", "/", REC_PRIVATE)
        self.uncover()
        try:
            for spot in spots_now(cwd):
                try:
                    self.cover(spot, layer)
                except OSError as e:
                    if beneath(home, [spot]) or beneath(cwd or "", [spot]):
                        raise OSError(e.errno, f"{spot}: {e.strerror}")
        except OSError:
            self.uncover()
            raise
        self.layers.append(layer)
        if cwd:
            os.chdir(cwd)
        return opened

    def leave(self, private):
        """Brings what the layers hold to where it would be without them, and
        goes there."""
        cwd = self.cwd()
        opened = self.opened(private | self.private())
        for layer in self.layers:
            for spot, base in self.spots.items():
                if os.path.isdir(f"{layer}/up{spot}"):
                    settle(f"{layer}/up{spot}", f"/proc/self/fd/{base}")
        self.uncover()
        self.layers = []
        if cwd:
            os.chdir(cwd)
        return opened

    def changed(self):
        """path: [kind, what tells its content from another's]"""
        out = {}
        for layer in self.layers:
            for spot, base in self.spots.items():
                self.look(f"{layer}/up{spot}", spot, base, out)
        return out

    def look(self, top, spot, base, out):
        for at, dirs, files in os.walk(top):
            for name in dirs + files:
                path = os.path.join(at, name)
                rel = path[len(top):]
                old = lies(f"/proc/self/fd/{base}{rel}")
                st = lies(path)
                if st is None or (stat.S_ISDIR(st.st_mode) and old
                                  and not is_opaque(path)):
                    continue
                if len(out) >= CHANGED_MAX:
                    return
                kind = "changed" if old else "added"
                if is_gone(st):
                    kind = "removed" if old else None
                out.pop(spot + rel, None)
                if kind:
                    out[clean(spot + rel)] = [
                        kind, f"{st.st_ino} {st.st_size} {st.st_mtime_ns}"]
