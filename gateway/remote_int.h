/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What remote.c (the process and the state), remote_conf.c (what is
 * configured) and remote_agent.c (the agent behind it) share; private.
 */
#ifndef SBX_GATEWAY_REMOTE_INT_H
#define SBX_GATEWAY_REMOTE_INT_H

#include "gateway/remote.h"
#include "net/addr.h"
#include "net/loop.h"

struct ask;
struct stream;

/* A copy of one [tunnel NAME], and what is made from it. */
struct remote_conf {
	char *host, *user, *agent, *ns, *token;
	uint16_t port;
	struct outside outside;
	char **specs; /* -R of each forward, as sbx-tunnel repeats them */
	char **argv;
	char *key; /* equal for what means the same; holds the secret */
};
/* path: of the local socket. */
void remote_conf_fill(struct remote_conf *c, const struct gw_tunnel *t,
		      const char *path);
void remote_conf_clear(struct remote_conf *c);

enum remote_step { REMOTE_IDLE, REMOTE_PUT_ENV, REMOTE_GET_LIST };

struct remote {
	struct remote_options o;
	char *name;
	char *path; /* of the socket that leads to the agent */
	struct addr at;
	struct remote_conf conf;
	struct remote_conf next; /* wanted when the old process has ended */
	bool has_next;

	/* the process */
	pid_t pid; /* 0: none */
	struct stream *status;
	struct strbuf line;
	bool skip;          /* the rest of a line that is too long */
	struct timer timer; /* to start it, or to kill it */
	uint64_t started_ms;
	unsigned failures;
	bool stopping;
	bool ssh_up, was_up;
	struct remotestat stat; /* the last line that told of forwards */

	/* the agent */
	struct ask *ask;
	enum remote_step step;
	struct timer ask_timer;
	unsigned ask_failures;
	bool agent_ok, dedicated, news;
	uint64_t asked_ms, mark_want, mark_asking, mark_done;
	size_t sandboxes;

	/* what is told */
	enum remote_state state;
	bool open; /* the table says that the agent is up */
	char reason[REMOTESTAT_TEXT], last_reason[REMOTESTAT_TEXT];
	time_t since;
	uint64_t state_ms, down_ms;
	unsigned starts, reconnects;
};

/* remote.c: something has changed; works out the state and tells of it.
 * reason NULL: the old one. */
void remote_update(struct remote *r, const char *reason);

/* remote_agent.c */
void remote_agent_row(struct remote *r); /* as it is configured now */
void remote_agent_up(struct remote *r);  /* it can be asked from now on */
void remote_agent_down(struct remote *r);
void remote_agent_init(struct remote *r);
void remote_agent_clear(struct remote *r);

#endif
