/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's own answers: JSON for programs, a small page that tries again
 * by itself for a person's browser. PROTOCOL.md, section 4, lists the codes.
 */
#ifndef SBX_GATEWAY_ERRPAGE_H
#define SBX_GATEWAY_ERRPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct http_head;
struct httpd_conn;
struct httpd_req;

/* The failures that have a name. */
enum gw_error {
	GE_NONE,
	GE_BAD_REQUEST,
	GE_NO_ROUTE,
	GE_UNAUTHORIZED,
	GE_FORBIDDEN,
	GE_NO_SUCH_SANDBOX,
	GE_SANDBOX_STOPPED,
	GE_PORT_NOT_LISTENING,
	GE_CONNECT_TIMEOUT,
	GE_RESPONSE_TIMEOUT,
	GE_APP_CLOSED_EARLY,
	GE_BAD_GATEWAY,
	GE_CONNECT_DENIED,
	GE_LIMIT,
	GE_TOO_LARGE,
	GE_UNREACHABLE,
	GE_TUNNEL_DOWN,
	GE_AUTH_UNAVAILABLE,
	GE_STARTING,
	GE_COUNT
};

struct errpage {
	enum gw_error e;
	const char *detail;     /* more words, NULL: none; escaped here */
	struct strv request_id; /* empty: none shown */
	bool html;
	bool podflare; /* that API has a 401 of its own; never html */
	bool rpc;      /* {"code","message"} as the CoreWeave service says it;
			* never html */
	/* GE_PORT_NOT_LISTENING: ports that are. */
	const uint16_t *listening;
	size_t nlistening;
};

unsigned errpage_status(enum gw_error e);
const char *errpage_code(enum gw_error e);
/* True when the answer is shown to a person: Sec-Fetch-Dest, else Accept. */
bool errpage_wants_html(const struct http_head *h);
const char *errpage_type(const struct errpage *p);
/* The body, and the fields besides type and length, each appended. */
void errpage_body(const struct errpage *p, struct strbuf *out);
void errpage_fields(const struct errpage *p, struct strbuf *out);
/* Answers with it. */
void errpage_send(struct httpd_req *rq, const struct errpage *p);
/* Answers what could not even be parsed (httpd's `refused`), with this code. */
const char *errpage_refusal_code(unsigned status);
void errpage_refuse(struct httpd_conn *c, unsigned status, const char *what);

#endif
