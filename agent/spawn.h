/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program, with or without confinement, without copying the agent's
 * address space: the child borrows it until execve. Everything that the child
 * does before that is a system call.
 */
#ifndef SBX_AGENT_SPAWN_H
#define SBX_AGENT_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/defs.h"

struct ns;
struct spawn_error;
struct spawner;

#define SPAWN_LIMITS_MAX 8

/* What is done to the child before it becomes the program. */
struct spawn_confine {
	uid_t uid; /* (uid_t)-1: stays as it is, and so do the groups */
	gid_t gid;
	const struct ns *ns; /* NULL: those of the agent */
	const char *home;    /* where cwd starts in ns */
	int ruleset;         /* Landlock; -1: none */
	bool no_userns;      /* seccomp_no_userns() */
	int cgroup;          /* its directory; -1: that of the agent */
	struct {
		int resource;
		struct rlimit limit;
	} limits[SPAWN_LIMITS_MAX];
	unsigned nlimits;
	/* Makes what is made only when a child is to be confined; 0, or *err.
	 * NULL: nothing. */
	int (*make)(void *arg, struct spawn_error *err);
	void *arg;
};

struct spawn_spec {
	char *const *argv; /* argv[0] without a slash is looked for in the
			    * PATH of envp */
	char *const *envp;
	int home_fd;     /* where cwd starts without ns; -1: the agent's own */
	const char *cwd; /* NULL: home_fd itself */
	int fds[3];      /* become 0, 1, 2; each 3 or above */
	bool tty;        /* fds[0] becomes its controlling terminal */
	const struct spawn_confine *confine; /* NULL: none */
};

/* What failed in the child, and why. */
struct spawn_error {
	int eno;
	const char *step; /* "execve", "chdir", ...; static */
};

struct spawner *spawner_new(void);
void spawner_free(struct spawner *s);

struct spawn_child {
	pid_t pid;    /* to be reaped by the caller, through pidfd */
	pid_t inside; /* the same, as the sandbox's processes see it */
	int pidfd;    /* the caller's */
};

/* Starts it as the leader of a new session, and returns when it has become
 * the program. E_INVALID: *err says what failed; there is no child. E_SYS:
 * no process could be made (errno). E_TIMEOUT: the child was stopped by
 * somebody before execve, and has been killed. */
int spawn_start(struct spawner *s, const struct spawn_spec *spec,
		struct spawn_child *out,
		struct spawn_error *err) SBX_MUST_CHECK;

#endif
