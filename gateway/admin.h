/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin listener, served by the master: /-/health, /-/ready, /-/metrics
 * and /-/status.
 */
#ifndef SBX_GATEWAY_ADMIN_H
#define SBX_GATEWAY_ADMIN_H

#include <stdbool.h>

#include "base/str.h"

struct admin;
struct crew;
struct loop;
struct stats;

/* What only the master knows. */
struct admin_info {
	const char *state;
	bool ready;
	const char *config; /* NULL: none */
	struct strbuf urls; /* " url url…", cleared by admin.c */
	unsigned reload_errors;
	size_t sandboxes;
	bool has_agent, agent_up;
	unsigned agent_starts;
};

struct admin_options {
	struct loop *loop;
	struct crew *crew;
	void (*info)(struct admin_info *out, void *arg); /* out is zeroed */
	void (*metrics)(struct strbuf *out, void *arg);  /* further ones */
	void *arg;
};

struct admin *admin_new(const struct admin_options *o);
void admin_free(struct admin *a);
void admin_listen(struct admin *a, int fd); /* takes fd */
void admin_unlisten(struct admin *a);       /* all of them */
/* The status object, as /-/status answers it. */
void admin_status(struct admin *a, const struct stats *s, struct strbuf *out);

#endif
