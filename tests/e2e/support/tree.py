# SPDX-License-Identifier: Apache-2.0
"""What is in a directory tree, in a form that can be compared."""

import hashlib
import os
import stat


def _xattrs(path):
    try:
        return {n: os.getxattr(path, n, follow_symlinks=False)
                for n in os.listxattr(path, follow_symlinks=False)}
    except OSError:
        return {}


def _hash(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            h.update(piece)
    return h.hexdigest()


def describe(top, base=0, data=True):
    """{relative path: what it is}; ids relative to base, times in ns, links by
    the first name of what they are the same as."""
    found, inodes = {}, {}
    top = os.fsencode(top)

    def one(path, name):
        st = os.lstat(path)
        kind = stat.S_IFMT(st.st_mode)
        what = {"mode": oct(st.st_mode), "ids": (st.st_uid - base,
                                                 st.st_gid - base),
                "mtime": st.st_mtime_ns, "xattrs": _xattrs(path)}
        if kind == stat.S_IFLNK:
            what["target"] = os.readlink(path)
        elif kind == stat.S_IFREG:
            what["size"] = st.st_size
            what["links"] = st.st_nlink
            what["same"] = inodes.setdefault(st.st_ino, name)
            if data:
                what["hash"] = _hash(path)
            # Not a byte more on disk than a block or two.
            what["sparse"] = st.st_blocks * 512 < st.st_size // 2
        elif kind == stat.S_IFCHR:
            what["device"] = st.st_rdev
        found[name] = what

    one(top, b".")
    for where, dirs, files in os.walk(top):
        dirs.sort()
        for entry in sorted(dirs + files):
            path = os.path.join(where, entry)
            one(path, os.path.relpath(path, top))
    return found


def differences(a, b):
    """Lines that say in what a and b differ; [] when in nothing."""
    out = [f"only here: {n}" for n in a.keys() - b.keys()]
    out += [f"only there: {n}" for n in b.keys() - a.keys()]
    for name in sorted(a.keys() & b.keys()):
        out += [f"{name}: {k}: {v!r} != {b[name].get(k)!r}"
                for k, v in a[name].items() if b[name].get(k) != v]
    return out
