/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET ports: what listens in this sandbox. To look at socket files and to find
 * the processes behind TCP ports is work for a thread.
 */
#include "config.h"

#include "agent/api_int.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "agent/portscan.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/mem.h"

struct apiports {
	struct work_job job;
	struct call *c; /* NULL: the client has gone */
	struct sandbox *sb;
	int result;
	struct portscan_own own;
	struct portscan scan;
};

static void
apiports_entry(struct strbuf *b, const struct portscan_entry *e)
{
	const char *family = e->family == AF_INET    ? "ipv4"
			     : e->family == AF_INET6 ? "ipv6"
						     : "unix";

	strbuf_addf(b, "{\"port\":%u,\"family\":\"%s\",\"address\":", e->port,
		    family);
	if (e->address[0] != '\0')
		strbuf_add_json(b, strv_of(e->address));
	else
		strbuf_adds(b, "null");
	if (e->pid != 0)
		strbuf_addf(b, ",\"pid\":%ld}", (long)e->pid);
	else
		strbuf_adds(b, ",\"pid\":null}");
}

static void
apiports_answer(struct call *c, struct portscan *s)
{
	struct strbuf b = {0};
	const char *sep = "";

	portscan_sort(s);
	strbuf_adds(&b, "{\"ports\":[");
	for (size_t i = 0; i < s->n; i++) {
		if (i > 0 && s->v[i].port == s->v[i - 1].port)
			continue;
		strbuf_addf(&b, "%s%u", sep, s->v[i].port);
		sep = ",";
	}
	strbuf_adds(&b, "],\"listening\":[");
	for (size_t i = 0; i < s->n; i++) {
		if (i > 0)
			strbuf_addc(&b, ',');
		apiports_entry(&b, &s->v[i]);
	}
	strbuf_adds(&b, "]}");
	api_answer(c, 200, &b);
}

static void
apiports_file_cb(uint16_t port, void *arg)
{
	portscan_add_unix(arg, port);
}

static void
apiports_job(struct work_job *j)
{
	struct apiports *x = CONTAINER_OF(j, struct apiports, job);

	x->result = sandbox_ports(x->sb, apiports_file_cb, &x->scan);
	if (x->sb->host != NULL) /* sandboxes of a host may not bind TCP */
		return;
	portscan_tcp(&x->scan, &x->own);
	portscan_pids(&x->scan);
}

static void
apiports_done(struct work_job *j)
{
	struct apiports *x = CONTAINER_OF(j, struct apiports, job);
	struct call *c = x->c;

	if (c != NULL) {
		c->on_closed = NULL;
		if (!j->ran)
			api_error(c->rq, 503, "busy", "too much is going on");
		else if (x->result == E_LIMIT)
			api_error(c->rq, 429, "limit",
				  "the directory has grown too large; make it "
				  "anew");
		else
			apiports_answer(c, &x->scan);
	}
	free(x);
}

static void
apiports_late(struct work_job *j)
{
	struct apiports *x = CONTAINER_OF(j, struct apiports, job);

	if (x->c == NULL)
		return;
	x->c->on_closed = NULL;
	api_error(x->c->rq, 503, "disk_stalls", "the disk does not answer");
	x->c = NULL;
}

static void
apiports_closed(struct call *c, int err)
{
	struct apiports *x = c->state;

	(void)err;
	x->c = NULL;
}

void
api_ports(struct call *c)
{
	struct apiports *x = xcalloc(1, sizeof(*x));

	x->c = c;
	x->sb = c->sb;
	x->own = *c->api->o.own;
	x->job.fn = apiports_job;
	x->job.done = apiports_done;
	x->job.late = apiports_late;
	x->job.uid = c->sb->uid;
	c->state = x;
	c->on_closed = apiports_closed;
	work_submit(&c->sb->files, &x->job);
}
