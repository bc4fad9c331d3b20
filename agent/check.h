/* SPDX-License-Identifier: Apache-2.0 */
/* `sbx-agent check`: what this machine gives to host mode, in plain words. */
#ifndef SBX_AGENT_CHECK_H
#define SBX_AGENT_CHECK_H

#include <stdbool.h>

#include "agent/agentconf.h"
#include "base/str.h"

enum check_state { CHECK_YES, CHECK_PART, CHECK_NO };

/* The exit status too. */
enum check_verdict {
	CHECK_FULL = 0,
	CHECK_REFUSED = 1, /* host mode would not start */
	CHECK_LESS = 3,    /* it would, with SBX_ISOLATION=best-effort */
};

struct check {
	unsigned n;
	struct check_item {
		const char *name; /* static */
		enum check_state state;
		char *text;
	} items[16];
	enum check_verdict verdict;
	char *why; /* NULL: full */
};

/* Looks, and leaves nothing behind. */
void check_run(struct check *c, const struct agentconf *conf);
void check_text(const struct check *c, struct strbuf *out);
void check_json(const struct check *c, struct strbuf *out);
void check_clear(struct check *c);

#endif
