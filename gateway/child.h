/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting one of our own programs: found beside our executable or in PATH,
 * with an environment and descriptors of its own, ended with the gateway.
 */
#ifndef SBX_GATEWAY_CHILD_H
#define SBX_GATEWAY_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/defs.h"

#define CHILD_FD       3 /* what child_spec.fd is to the child */
#define CHILD_MORE_MAX 4

struct child_spec {
	const char *path;
	char *const *argv;
	char *const *env;
	int fd;          /* -1: none; borrowed, like the others */
	const int *more; /* what are CHILD_FD + 1, ... to the child */
	unsigned nmore;  /* at most CHILD_MORE_MAX */
};

/* malloc'ed: the program of that name beside our own, else the name. */
char *child_find(const char *name);
/* Those of the n variables that our own environment has, as an environment;
 * malloc'ed, for child_env_free(). */
char **child_env(const char *const *names, size_t n);
void child_env_free(char **env);
/* 0 and its pid; else why it could not be executed (errno). It leads a process
 * group of its own, so that a Ctrl-C is for us alone, and gets SIGTERM when we
 * die. */
int child_start(const struct child_spec *s, pid_t *pid) SBX_MUST_CHECK;

#endif
