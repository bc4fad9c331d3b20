/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded agent: started by the master in host mode, started again when
 * it dies, and watched through its control channel (PROTOCOL.md, section 1),
 * from which the table of its sandboxes comes.
 */
#ifndef SBX_GATEWAY_AGENTCTL_H
#define SBX_GATEWAY_AGENTCTL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "gateway/gwconf.h"

struct agentctl;
struct loop;
struct owner;

struct agentctl_options {
	struct loop *loop;
	const struct gw_conf *conf; /* read now, not kept */
	uid_t worker_uid;
	struct owner *owner;
	/* Everything that existed when agentctl_sync() returned `number` is
	 * in the owner's table (or will never be). */
	void (*synced)(uint64_t number, void *arg);
	void (*changed)(void *arg); /* up or down */
	void *arg;
};

struct agentctl *agentctl_start(const struct agentctl_options *o);
/* A new configuration: of it only `outside` changes while it runs. */
void agentctl_set_conf(struct agentctl *a, const struct gw_conf *conf);
/* Kills the process if it is still there. */
void agentctl_free(struct agentctl *a);
/* 0: no agent is up, there is nothing to wait for. */
uint64_t agentctl_sync(struct agentctl *a);
bool agentctl_up(const struct agentctl *a);
/* Its address, and the secret that opens all of it. */
const char *agentctl_http(const struct agentctl *a);
const char *agentctl_token(const struct agentctl *a);
/* Another number after each start. */
uint64_t agentctl_epoch(const struct agentctl *a);
pid_t agentctl_pid(const struct agentctl *a); /* 0: none */
unsigned agentctl_starts(const struct agentctl *a);
/* Asks it to end, for good; agentctl_pid() becomes 0 when it has. */
void agentctl_stop(struct agentctl *a);
bool agentctl_stopped(const struct agentctl *a); /* was asked to */
void agentctl_reap(struct agentctl *a);          /* after SIGCHLD */

#endif
