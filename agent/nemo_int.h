/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the exec server share; private. */
#ifndef SBX_AGENT_NEMO_INT_H
#define SBX_AGENT_NEMO_INT_H

#include "agent/nemo.h"
#include "agent/sandbox.h"
#include "agent/work.h"
#include "base/json.h"
#include "base/str.h"
#include "net/httpd.h"

#define NEMO_JSON_TYPE "application/json"
#define NEMO_BODY_MAX  (128U << 20) /* an upload of 96 MiB */
#define NEMO_EXEC_MAX  (4U << 20)   /* a command; the kernel takes less */
#define NEMO_OUT_MAX   (64U << 20)  /* of one stream of one command */
#define NEMO_HELD_MAX  (512U << 20) /* bodies and output, of all calls */

struct nemo {
	struct nemo_options o;
	struct httpd *httpd;
	char *shell;
	struct work_lane lane;
	unsigned busy;
	uint64_t active_ms;
	size_t held;
};

/* A request; lives as long as its exchange. */
struct nemo_call {
	struct nemo *n;
	struct httpd_req *rq;
	struct strv query;
	struct strbuf body;
	size_t held;
	void (*run)(struct nemo_call *c); /* once the body is there */
	void *state;
	/* May be NULL. */
	void (*on_drained)(struct nemo_call *c);
	void (*on_closed)(struct nemo_call *c);
};

/* Takes json. */
void nemo_answer(struct nemo_call *c, unsigned status, struct strbuf *json);
/* {"error": "text"} */
void nemo_error(struct nemo_call *c, unsigned status, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* Accounts for n more bytes in memory; false: too much. */
bool nemo_hold(struct nemo *n, size_t bytes);
/* A body as an object; an empty one for what is none. Free it. */
struct json_doc *nemo_json(struct strv text);

void nemo_exec(struct nemo_call *c);
void nemo_upload(struct nemo_call *c);
void nemo_download(struct nemo_call *c);

/* How Python would print the request's "timeout" (malloc'ed). */
char *nemo_timeout_text(struct strv body);
/* What Python's base64.b64decode() makes of it, onto out: characters that are
 * none of its own are passed over. False with *why (static) when the padding
 * is wrong. */
bool nemo_base64(struct strv text, struct strbuf *out, const char **why);

#endif
