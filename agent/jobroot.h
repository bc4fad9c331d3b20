/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system that a job sees: an image directory beneath a private layer,
 * or what every program needs of this machine's own system, read-only; with
 * /proc, /dev, /tmp and a home of its own. Everything happens in the calling
 * process's mount namespace, which must be private.
 */
#ifndef SBX_AGENT_JOBROOT_H
#define SBX_AGENT_JOBROOT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

struct jobroot {
	const char *fs;       /* absolute: the job's own part of the disk */
	const char *rootfs;   /* NULL: the machine's system */
	char *const *expose;  /* may be NULL, as the next one */
	char *const *scratch; /* see base/scratch.h */
	const char *resolv;   /* text for /etc/resolv.conf, or NULL */
	int userns;           /* whose ids the image's are to be; -1 */
	uid_t uid;            /* whose the job's directories are */
	bool new_net;         /* we are in a network of our own */
};

#define JOBROOT_HOME  "/root"
#define JOBROOT_HOMES "/sbx/homes" /* of a host's sandboxes */

/* Makes the directories that jobroot_enter() wants beneath r->fs, or that a
 * job without a mount namespace has instead. 0, or -1 with errno. */
int jobroot_dirs(const struct jobroot *r) SBX_MUST_CHECK;
/* Builds it and makes it the root. What is less than it should be is added to
 * *lacks ("; " in between). -1: errno, and *step says at what. */
int jobroot_enter(const struct jobroot *r, struct strbuf *lacks,
		  const char **step) SBX_MUST_CHECK;

#endif
