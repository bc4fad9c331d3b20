/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of one sandbox (processes, mounts, IPC, host name; the network
 * when asked for) and the process that holds them: process 1 in there, which
 * does nothing but reap. All commands of the sandbox are put in. When process 1
 * ends the kernel kills all others, and process 1 is gone only after them.
 */
#ifndef SBX_AGENT_NS_H
#define SBX_AGENT_NS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"

struct borrow;
struct landlock;
struct loop;
struct ns;

struct ns_spec {
	const char *home;  /* absolute; NULL: only the namespaces, for a try */
	const char *homes; /* nothing is mounted over what leads there */
	const struct landlock *ll;
	int ruleset;        /* told of the new mounts; -1: none */
	uint64_t shm_bytes; /* what fits into /dev/shm */
	int home_fs;        /* what is to be there (homefs.h); -1: as it is */
	bool network;       /* one of its own, with nothing but loopback */
	void (*ended)(void *arg); /* process 1 and all others are gone */
	void *arg;
};

/* E_UNSUPPORTED with *why (malloc'ed, e.g. "clone: Operation not permitted")
 * when the machine does not permit it. In there /proc shows the sandbox's own
 * processes, homes holds only its own, /dev/shm is its own, and /tmp and
 * /var/tmp are its .tmp (except where homes are beneath them). */
int ns_new(struct loop *l, struct borrow *b, const struct ns_spec *spec,
	   struct ns **out, char **why) SBX_MUST_CHECK;
/* Kills everything in it. `ended` is called when that is done. */
void ns_kill(struct ns *n);
bool ns_alive(const struct ns *n); /* `ended` was not called yet */
/* Kills what is alive, and does not wait for its end. NULL is fine. */
void ns_free(struct ns *n);

/* For setns(2): the descriptor, which stays n's, and what is to be entered
 * (besides the pid namespace, which is for the children of who enters). */
int ns_fd(const struct ns *n);
int ns_flags(const struct ns *n);

/* Do homes lie beneath dir, so that dir is left as it is? */
bool ns_hides(const char *homes, const char *dir);

/* Tries it: 0, or E_UNSUPPORTED with *why. */
int ns_try(char **why) SBX_MUST_CHECK;

#endif
