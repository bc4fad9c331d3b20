/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints outside that processes in sandboxes are to reach (a model server
 * on the orchestrator's loopback): how they are written, on which port of the
 * far machine each appears, and what its URL is there. Pure: no I/O.
 */
#ifndef SBX_GATEWAY_OUTSIDE_H
#define SBX_GATEWAY_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

/* An absolute http or https URL; views into its text. */
struct outside_url {
	struct strv scheme;
	struct strv host; /* without an IPv6 literal's brackets */
	uint16_t port;    /* the scheme's when none is given */
	struct strv rest; /* from the first '/', '?' or '#' on; may be empty */
};

struct outside_end {
	char *name; /* of the environment variable */
	char *url;
	struct outside_url u; /* of url */
	size_t forward;       /* index, after outside_choose() */
};

/* Those with the same host and port share one. */
struct outside_forward {
	char *host; /* lower-case */
	uint16_t port;
	uint16_t far; /* where it listens over there; 0: none was free */
};

struct outside {
	struct outside_end *ends;
	size_t nends;
	struct outside_forward *forwards;
	size_t nforwards;
};

#define OUTSIDE_MAX 64

/* *why (static) says what is wrong. */
int outside_parse_url(struct strv text, struct outside_url *out,
		      const char **why) SBX_MUST_CHECK;
/* "NAME URL" */
int outside_add(struct outside *o, struct strv text,
		const char **why) SBX_MUST_CHECK;
/*
 * Gives each forward its port: the target's own when it is at least `lowest`
 * and neither in taken (the far sshd's, its agent's; 0 is nobody's) nor
 * another's, else the first of 20000..60999 that is free in that sense.
 */
void outside_choose(struct outside *o, const uint16_t *taken, size_t ntaken,
		    uint16_t lowest);
/* That endpoint's URL over there: the same scheme, path and query at
 * 127.0.0.1 and the far port. */
void outside_far_url(const struct outside *o, const struct outside_end *e,
		     struct strbuf *out);
/* The same for any URL of one of its forwards; E_INVALID with *why,
 * E_NOTFOUND: no forward leads there. */
int outside_resolve(const struct outside *o, struct strv url,
		    struct strbuf *out, const char **why) SBX_MUST_CHECK;
/* {"NAME":"URL",…}; far: with the far URLs, else as written. */
void outside_vars_json(const struct outside *o, bool far, struct strbuf *out);
/* What PUT /v1/env of an agent is told: that, and for sandboxes with a network
 * of their own the ports of its machine's loopback that lead there. */
void outside_env_json(const struct outside *o, bool far, struct strbuf *out);
/* to is empty; ports are copied too. */
void outside_copy(struct outside *to, const struct outside *from);
/* "host:port", an IPv6 address in brackets; malloc'ed. */
char *outside_host_port(const struct outside_forward *f);
void outside_clear(struct outside *o);

#endif
