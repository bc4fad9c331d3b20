/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes of the Podflare API. What it calls a sandbox is a context of
 * persistent Python here: its first one in a sandbox that was made for it at
 * the embedded agent, forks of it in the same one. That ends with its last
 * context, and when nobody used any of them for long enough. Knows nothing of
 * how it is asked; when the agent ends, all of them are gone.
 */
#ifndef SBX_GATEWAY_PODFLARE_H
#define SBX_GATEWAY_PODFLARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"

struct loop;
struct podbox;
struct podflare;
struct podop;

#define POD_ID_LEN   36 /* "sbx_" and 32 hex digits */
#define POD_FORK_MAX 32

/* The agent, as it is now. */
struct podflare_agent {
	const char *http, *token;
	uint64_t epoch; /* another one after a restart */
};

struct podflare_options {
	struct loop *loop;
	const struct gw_conf *(*conf)(void *arg);
	/* False: there is none that is up. */
	bool (*agent)(struct podflare_agent *out, void *arg);
	void *arg;
};

/* One id. */
struct pod {
	struct podbox *box;
	struct pod *next; /* of the box */
	char *context;
	char id[POD_ID_LEN + 1];
};

/* The sandbox of one or several. Lives while one is held. */
struct podbox {
	struct podflare *p;
	struct podbox *next, **prev;
	struct pod *pods;
	char *id, *ns; /* at the agent; whose it is */
	uint64_t epoch, used_ms;
	unsigned refs, calls;
	bool gone, persistent;
};

/* What came of an order. status 0: it is done. */
struct podop_result {
	unsigned status;
	const char *why;
	const char *const *ids; /* create: the one; fork: the children */
	size_t nids;
};
typedef void podop_done(const struct podop_result *res, void *arg);

struct podflare *podflare_new(const struct podflare_options *o);
void podflare_free(struct podflare *p); /* no callback follows */
const struct gw_podflare *podflare_conf(struct podflare *p);
struct loop *podflare_loop(struct podflare *p);
/* False: there is none that is up. */
bool podflare_agent(struct podflare *p, struct podflare_agent *out);

/* NULL: there is none. */
struct pod *podflare_find(struct podflare *p, struct strv id);
/* Of its box: a call begins and ends. */
struct podbox *podbox_hold(struct podbox *b);
void podbox_release(struct podbox *b);
/* The agent does not know it any more. */
void podbox_lost(struct podbox *b);

/*
 * Orders. done is called once, not from inside. After podop_forget() it is
 * not, and what was made for nobody is taken back.
 */
struct podop_create {
	struct strv ns;
	bool network, persistent;
};
struct podop *podflare_create(struct podflare *p, const struct podop_create *c,
			      podop_done *done, void *arg);
struct podop *podflare_fork(struct pod *parent, unsigned n, podop_done *done,
			    void *arg);
/* Both of one box. */
struct podop *podflare_merge(struct pod *parent, struct pod *winner,
			     podop_done *done, void *arg);
/* Its id is gone at once. done may be NULL. */
struct podop *podflare_delete(struct pod *pod, podop_done *done, void *arg);
void podop_forget(struct podop *op);

#endif
