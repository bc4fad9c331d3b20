/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration, which is its environment. */
#ifndef SBX_AGENT_AGENTCONF_H
#define SBX_AGENT_AGENTCONF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "net/addr.h"

struct agentconf {
	struct addr listen; /* SBX_LISTEN, or SBX_PORT on 0.0.0.0 */
	int listen_fd;      /* SBX_LISTEN=fd:N, listening at .listen; -1 */
	int ready_fd;       /* SBX_READY_FD: told when we serve; -1 */
	char *token;        /* SBX_TOKEN; NULL: none */
	uint64_t idle_ms;   /* SBX_IDLE_TIMEOUT; 0: never */
	bool host_mode;     /* SBX_HOST_MODE */
	unsigned capacity;  /* SBX_CAPACITY; 0: none */
	char *homes;        /* SBX_HOMES */
	bool best_effort;   /* SBX_ISOLATION */
	uid_t uid_first;    /* SBX_UIDS: of sandboxes */
	uid_t uid_last;
	uint64_t
	    resume_ms; /* SBX_RESUME: how long a lost client is waited for */
	uint64_t grace_ms;  /* SBX_GRACE: between TERM and KILL at the end */
	char *cgroup;       /* SBX_CGROUP: a directory, "off"; NULL: own */
	char *control;      /* SBX_CONTROL: a path or fd:N; NULL: none */
	uid_t control_uid;  /* SBX_CONTROL_UID; (uid_t)-1: none */
	mode_t socket_mode; /* SBX_SOCKET_MODE, of unix sockets */
	bool has_nemo;      /* TB_EXEC_PORT, on TB_EXEC_BIND */
	struct addr nemo;
	char *proxy_dir; /* SBX_PROXY_DIR; NULL: none */
	char **base_env; /* SBX_BASE_ENV: for baseenv_take(); NULL: none */
};

/* Reads the environment, and wipes the token from it: afterwards not even
 * /proc/<pid>/environ shows it. E_INVALID with *why (malloc'ed). */
int agentconf_read(struct agentconf *c, char **why) SBX_MUST_CHECK;
void agentconf_clear(struct agentconf *c);

#endif
