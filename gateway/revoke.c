/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's token was taken back: what it opened ends. New requests are refused
 * by the table as it is now; this is about downloads, event streams and
 * tunnels that began before.
 */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "base/token.h"
#include "gateway/exchange_int.h"
#include "net/httpd.h"

struct revoked {
	uint64_t id;
	unsigned n;
};

static void
cut(struct httpd_conn *c, void *arg)
{
	struct conn_state *cs = httpd_conn_scratch(c);
	struct exchange *ex = cs->ex;
	struct revoked *r = arg;

	if (ex == NULL || ex->state == EX_DONE || ex->who.token_id != r->id)
		return;
	r->n++;
	ex->close = "revoked";
	if (!httpd_begun(ex->rq)) {
		exchange_fail(ex, GE_UNAUTHORIZED, NULL);
		return;
	}
	exchange_stop(ex);
	httpd_abort(ex->rq);
}

void
exchange_revoked(struct worker *w, struct strv hex)
{
	uint8_t hash[TOKEN_HASH_LEN];
	struct revoked r = {0};

	if (token_hex_decode(hex, hash, sizeof(hash)) != 0)
		return;
	r.id = auth_token_id(hash);
	httpd_each(worker_httpd(w), cut, &r);
	r.n += tunnel_close_revoked(worker_parts(w)->path, r.id);
	if (r.n > 0)
		log_info("auth.revoked", "worker=%u cut=%u", worker_index(w),
			 r.n);
}
