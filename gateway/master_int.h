/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master inside: master.c has its life and its signals, master_conf.c how
 * a configuration gets into force, the first one and those of reloads.
 */
#ifndef SBX_GATEWAY_MASTER_INT_H
#define SBX_GATEWAY_MASTER_INT_H

#include "gateway/agentctl.h"
#include "gateway/apiagent.h"
#include "gateway/master.h"
#include "gateway/state.h"
#include "net/loop.h"
#include "net/tlsctx.h"

enum master_state {
	MASTER_STARTING,
	MASTER_SERVING,
	MASTER_DRAINING,
	MASTER_ENDING
};

struct master {
	struct master_options o;
	enum master_state state;
	struct loop *loop;
	struct state_user user;
	struct sockets *sockets;
	struct owner *owner;
	struct crew *crew;
	struct broker *broker;
	struct agentctl *agent;
	struct agentctl_options agent_options; /* but for conf, worker_uid */
	struct remotes *remotes;
	struct admin *admin;
	struct api *api;
	struct apiagent give_agent;
	struct podflare *pods;
	struct podapi *pod_face;
	struct jobhost *jobs;
	struct watch *cert_watch, *token_watch;
	struct tls_ticket_keys tickets;
	struct timer ticket_timer, end_timer;
	int lock;
	int status;
	unsigned reloads, reload_errors;
};

/* How many workers that configuration wants. */
unsigned master_workers(const struct gw_conf *conf);
/* The configuration as it is on disk now, checked, also against the one in
 * force; the caller owns it. 0, or an error and why (malloc'ed). */
int master_load(struct master *m, struct gw_conf **out,
		char **msg) SBX_MUST_CHECK;
/* Puts conf into force everywhere. 0: conf is the crew's. Else why
 * (malloc'ed): conf is still the caller's, and what was changed already is for
 * the caller to put back. */
int master_enter(struct master *m, struct gw_conf *conf,
		 char **msg) SBX_MUST_CHECK;
/* A new configuration takes the place of the one in force, or nothing changes;
 * logs which. why: for the log. */
void master_reload(struct master *m, const char *why);
/* Reads the file of user tokens again; a bad one is logged and changes
 * nothing. */
void master_load_tokens(struct master *m, const struct gw_conf *conf);
/* There must be none. */
void master_start_agent(struct master *m, const struct gw_conf *conf);

#endif
