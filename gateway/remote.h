/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote: one [tunnel NAME], in the master. It runs an sbx-tunnel process,
 * follows what that says, and keeps the route table told: the agent behind it
 * is a row that is up or down with a reason, and its sandboxes are rows once
 * it has listed them (it is asked after each connect, every now and then, and
 * when a worker misses one).
 */
#ifndef SBX_GATEWAY_REMOTE_H
#define SBX_GATEWAY_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "gateway/gwconf.h"
#include "gateway/remotestat.h"

struct loop;
struct owner;
struct remote;

struct remote_options {
	struct loop *loop;
	struct owner *owner;
	const char *program;   /* sbx-tunnel; borrowed */
	const char *state_dir; /* borrowed */
	/* A question to its agent that began at or after remote_refresh()
	 * returned `mark` has been answered, or cannot be now. */
	void (*refreshed)(struct remote *r, void *arg);
	void (*ended)(struct remote *r, void *arg); /* after remote_stop() */
	void *arg;
};

/* Starts it. Everything in t is copied. */
struct remote *remote_new(const struct remote_options *o,
			  const struct gw_tunnel *t);
void remote_free(struct remote *r); /* kills the process; NULL is fine */
/* The configuration now says this; starts anew when that is something else,
 * or when it was stopping. */
void remote_set_conf(struct remote *r, const struct gw_tunnel *t);
/* Ends it for good: its rows are gone at once, `ended` comes (never from
 * inside) when its process has. */
void remote_stop(struct remote *r);
bool remote_stopping(const struct remote *r);
void remote_reap(struct remote *r); /* after SIGCHLD */

/* Asks for the list of sandboxes. remote_asked() >= mark later: done. */
uint64_t remote_refresh(struct remote *r);
/* The highest mark that is done; UINT64_MAX: there is nothing to wait for. */
uint64_t remote_asked(const struct remote *r);

/* --- how it is --------------------------------------------------------- */
enum remote_state {
	REMOTE_STARTING,   /* no process at the moment */
	REMOTE_CONNECTING, /* never was up since it was started */
	REMOTE_DOWN,       /* the SSH connection is lost */
	REMOTE_NO_AGENT,   /* it is there, but the agent does not answer */
	REMOTE_DEGRADED,   /* works, but a forward is missing */
	REMOTE_UP,
	REMOTE_STOPPING
};

struct remote_info {
	const char *name, *ns;           /* ns NULL: none */
	const char *host, *user, *agent; /* agent NULL: none */
	uint16_t port;
	enum remote_state state;
	const char *state_text;
	const char *reason; /* "" when up; why it was down last, else */
	const char *last_reason;
	time_t since; /* of the state */
	pid_t pid;
	unsigned starts, reconnects;
	uint64_t down_ms; /* in all, since the gateway began */
	size_t sandboxes;
	const struct outside *outside;
};
void remote_info(const struct remote *r, struct remote_info *out);
/* "up", "failed", "down"… as sbx-tunnel says. */
const char *remote_forward_state(const struct remote *r, size_t forward);

#endif
