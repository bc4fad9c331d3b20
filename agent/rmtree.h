/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a directory tree that somebody hostile has filled. */
#ifndef SBX_AGENT_RMTREE_H
#define SBX_AGENT_RMTREE_H

#include "base/defs.h"

/* Removes the directory `name` in dirfd with all that is in it, following no
 * symlink and entering no other file system, with a bounded number of
 * descriptors and of stack frames however deep the tree is. E_NOTFOUND when it
 * is not there; E_SYS (the rest was removed as far as possible). */
int rmtree(int dirfd, const char *name) SBX_MUST_CHECK;

#endif
