/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/tunnels, /api/tunnels/NAME and /api/tunnels/NAME/resolve?url=. Who
 * may not see a tunnel is told what is told of one that does not exist.
 */
#include "config.h"

#include "gateway/remoteapi.h"

#include <time.h>

#include "base/err.h"
#include "gateway/api.h"
#include "gateway/outside.h"
#include "gateway/remote.h"
#include "gateway/remotes.h"

static void
add_text(struct strbuf *b, const char *member, const char *s)
{
	strbuf_addf(b, ",\"%s\":", member);
	if (s != NULL)
		strbuf_add_json(b, strv_of(s));
	else
		strbuf_adds(b, "null");
}

static void
add_time(struct strbuf *b, const char *member, time_t t)
{
	char text[32];
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	add_text(b, member, text);
}

static void
add_outside(struct strbuf *b, const struct remote *r, const struct outside *o)
{
	struct strbuf url = {0};

	strbuf_adds(b, ",\"outside\":[");
	for (size_t i = 0; i < o->nends; i++) {
		const struct outside_end *e = &o->ends[i];

		strbuf_reset(&url);
		outside_far_url(o, e, &url);
		strbuf_addf(b, "%s{\"name\":\"%s\"", i > 0 ? "," : "", e->name);
		add_text(b, "url", e->url);
		add_text(b, "inside_url", url.s);
		strbuf_addf(b, ",\"port\":%u", o->forwards[e->forward].far);
		add_text(b, "state", remote_forward_state(r, e->forward));
		strbuf_addc(b, '}');
	}
	strbuf_addc(b, ']');
	strbuf_clear(&url);
}

static void
add_remote(struct strbuf *b, const struct remote *r)
{
	struct remote_info i;

	remote_info(r, &i);
	strbuf_adds(b, "{\"name\":");
	strbuf_add_json(b, strv_of(i.name));
	add_text(b, "namespace", i.ns);
	add_text(b, "state", i.state_text);
	add_time(b, "since", i.since);
	add_text(b, "reason", i.reason[0] != '\0' ? i.reason : NULL);
	add_text(b, "last_reason",
		 i.last_reason[0] != '\0' ? i.last_reason : NULL);
	strbuf_addf(b, ",\"reconnects\":%u,\"starts\":%u,\"down_ms\":%llu",
		    i.reconnects, i.starts, (unsigned long long)i.down_ms);
	add_text(b, "host", i.host);
	strbuf_addf(b, ",\"port\":%u", i.port);
	add_text(b, "user", i.user);
	add_text(b, "agent", i.agent);
	strbuf_addf(b, ",\"sandboxes\":%zu", i.sandboxes);
	add_outside(b, r, i.outside);
	strbuf_addc(b, '}');
}

static bool
visible(const struct api_req *rq, const struct remote *r)
{
	struct remote_info i;

	remote_info(r, &i);
	return api_may_read(&rq->who, strv_of(i.ns));
}

static void
list(struct api_req *rq)
{
	struct strbuf b = {0};
	struct remote *r;
	size_t pos = 0;

	strbuf_addc(&b, '[');
	while ((r = remotes_each(rq->arg, &pos)) != NULL) {
		if (!visible(rq, r))
			continue;
		if (b.len > 1)
			strbuf_addc(&b, ',');
		add_remote(&b, r);
	}
	strbuf_adds(&b, "]\n");
	api_reply_json(rq, 200, &b, NULL);
	strbuf_clear(&b);
}

/* The one that is meant; answers and returns NULL when there is none. */
static struct remote *
find(struct api_req *rq)
{
	struct remote *r = remotes_find(rq->arg, rq->param[0]);

	if (r != NULL && visible(rq, r))
		return r;
	api_error(rq, 404, "not_found", "there is no tunnel %.*s",
		  STRV_ARG(rq->param[0]));
	return NULL;
}

static void
show(struct api_req *rq)
{
	struct remote *r = find(rq);
	struct strbuf b = {0};

	if (r == NULL)
		return;
	add_remote(&b, r);
	strbuf_addc(&b, '\n');
	api_reply_json(rq, 200, &b, NULL);
	strbuf_clear(&b);
}

static void
resolve(struct api_req *rq)
{
	struct remote *r = find(rq);
	struct strv url = api_query(rq, "url");
	struct strbuf b = {0}, inside = {0};
	struct remote_info i;
	const char *why;
	int err;

	if (r == NULL)
		return;
	if (url.p == NULL) {
		api_error(rq, 400, "bad_request", "url: is missing");
		return;
	}
	remote_info(r, &i);
	err = outside_resolve(i.outside, url, &inside, &why);
	if (err != 0) {
		api_error(rq, err == E_NOTFOUND ? 404 : 400,
			  err == E_NOTFOUND ? "not_found" : "bad_request",
			  "url: %s", why);
		return;
	}
	strbuf_adds(&b, "{\"url\":");
	strbuf_add_json(&b, (struct strv){inside.s, inside.len});
	strbuf_adds(&b, "}\n");
	api_reply_json(rq, 200, &b, NULL);
	strbuf_clear(&b);
	strbuf_clear(&inside);
}

void
remoteapi_add(struct api *a, struct remotes *rs)
{
	(void)api_route(a, "GET", "/api/tunnels", list, rs);
	(void)api_route(a, "GET", "/api/tunnels/:name", show, rs);
	(void)api_route(a, "GET", "/api/tunnels/:name/resolve", resolve, rs);
}
