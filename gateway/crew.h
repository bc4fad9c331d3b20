/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers as the master sees them: started, replaced when they die,
 * retired when a newer configuration has its own, told things and asked for
 * counters. A generation is a configuration with the TLS contexts made from
 * it; it lives as long as a worker uses it.
 */
#ifndef SBX_GATEWAY_CREW_H
#define SBX_GATEWAY_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"
#include "gateway/state.h"
#include "gateway/stats.h"

struct crew;
struct crew_member;
struct loop;
struct route_table;
struct sockets;
struct tls_ticket_keys;

struct crew_options {
	struct loop *loop;
	bool single; /* one worker, in this process and on this loop */
	struct sockets *sockets;
	struct route_table *routes;
	const struct tls_ticket_keys *tickets;
	/* A message that the crew does not handle itself (sync, connect). */
	void (*message)(struct crew_member *m, struct strv msg, void *arg);
	/* Somebody became ready or is gone. */
	void (*changed)(void *arg);
	void *arg;
};

struct crew *crew_new(const struct crew_options *o);
void crew_free(struct crew *c); /* kills who is left */

/* A new generation: makes its TLS contexts (*msg: why not, malloc'ed), then
 * its n workers start; when all of them accept, older ones retire. Takes conf
 * when it returns 0. */
int crew_enter(struct crew *c, struct gw_conf *conf, unsigned n,
	       const struct state_user *user, char **msg) SBX_MUST_CHECK;
const struct gw_conf *crew_conf(const struct crew *c); /* newest */

/* Processes have to be forked (then loop_stop() was called): outside of the
 * loop the master calls crew_fork(), which returns in the master only. */
bool crew_due(const struct crew *c);
void crew_fork(struct crew *c);
/* After SIGCHLD. */
void crew_reap(struct crew *c);

void crew_tell(struct crew *c, struct strv msg); /* everybody */
int crew_send(struct crew_member *m, struct strv msg, int fd) SBX_MUST_CHECK;
/* For answers that come later: the member with that number, or NULL. */
uint64_t crew_number(const struct crew_member *m);
struct crew_member *crew_find(struct crew *c, uint64_t number);

/* No more replacing: everybody drains, with a deadline. */
void crew_drain(struct crew *c, uint64_t ms);
void crew_kill(struct crew *c);

struct crew_counts {
	unsigned wanted;   /* of the newest generation */
	unsigned ready;    /* of those */
	unsigned retiring; /* of older ones, still serving */
	unsigned deaths;   /* since the start */
	unsigned generation;
};
void crew_count(const struct crew *c, struct crew_counts *out);
size_t crew_alive(const struct crew *c);
/* Calls done with the sum over all workers, those that ended included, once
 * everybody answered or after a second. */
void crew_stats(struct crew *c, void (*done)(const struct stats *s, void *arg),
		void *arg);
/* done will not be called. */
void crew_stats_cancel(struct crew *c, void *arg);
/* Adds a JSON array of the workers. */
void crew_json(const struct crew *c, struct strbuf *out);

#endif
