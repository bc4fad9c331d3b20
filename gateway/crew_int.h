/* SPDX-License-Identifier: Apache-2.0 */
/* What crew.c and crewstats.c share. */
#ifndef SBX_GATEWAY_CREW_INT_H
#define SBX_GATEWAY_CREW_INT_H

#include "gateway/crew.h"
#include "net/loop.h"

struct seqpkt;
struct tlsctx;
struct worker;

enum member_state {
	MEMBER_WANTED,
	MEMBER_STARTING,
	MEMBER_READY,
	MEMBER_RETIRING
};

struct generation {
	struct gw_conf *conf;
	struct tlsctx **tls; /* one for each listener; NULL: plain */
	struct state_user user;
	unsigned number, n, refs;
};

struct crew_member {
	struct crew_member *next;
	struct crew *crew;
	struct generation *gen;
	uint64_t number;
	unsigned index;
	enum member_state state;
	pid_t pid;             /* 0: none, or in this process */
	bool told_to_end;      /* it has a deadline */
	bool reaped;           /* its process ended, its channel not yet */
	struct worker *inside; /* single */
	struct seqpkt *channel;
	uint64_t started_ms;
	unsigned quick_deaths;
	struct timer retry;
	struct stats last; /* as last heard */
	uint64_t asked;    /* number of the question not answered yet */
	uint64_t heard_ms; /* when it last said anything */
};

struct stats_ask {
	struct stats_ask *next;
	uint64_t number;
	struct timer timer;
	struct crew *crew;
	void (*done)(const struct stats *s, void *arg);
	void *arg;
};

struct crew {
	struct crew_options o;
	struct crew_member *members;
	struct generation *newest;
	struct stats past; /* counters of those that ended */
	struct stats_ask *asks;
	uint64_t last_number, last_ask;
	unsigned deaths;
	bool due, draining;
	struct timer look; /* at workers that do not answer any more */
	uint64_t looked_ms;
};

/* Answers the questions for which nobody owes an answer any more. */
void crewstats_check(struct crew *c);
/* Asks everybody now and then, and kills who hangs. */
void crewstats_watch(struct crew *c);
/* Drops all questions; nobody is called. */
void crewstats_forget(struct crew *c);

#endif
