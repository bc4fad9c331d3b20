/* SPDX-License-Identifier: Apache-2.0 */
/* NDJSON events; see the header. */
#include "config.h"

#include "agent/events.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

static const struct strv events_head[2] = {
    {"{\"event\":\"stdout\",\"data\":", 25},
    {"{\"event\":\"stderr\",\"data\":", 25},
};

void
events_start(struct strbuf *b, pid_t pid)
{
	strbuf_addf(b, "{\"event\":\"start\",\"pid\":%d}\n", (int)pid);
}

static void
events_base64(struct strbuf *b, struct strv v)
{
	strbuf_addc(b, '"');
	base64_encode(v, b);
	strbuf_addc(b, '"');
}

void
events_piece(struct strbuf *b, bool base64, unsigned stream, struct strv v,
	     uint64_t pos)
{
	strbuf_addv(b, events_head[stream]);
	if (base64)
		events_base64(b, v);
	else
		strbuf_add_json(b, v);
	if (pos != 0)
		strbuf_addf(b, ",\"next\":%" PRIu64, pos);
	strbuf_adds(b, "}\n");
}

/* A character that began in an earlier read: completes it from v if it can,
 * so that only a few bytes are copied, and gives it as a line of its own. */
static void
events_join(struct events *e, struct strbuf *b, unsigned stream, struct strv *v)
{
	char *hold = e->part[stream].hold;
	unsigned n = e->part[stream].n;

	while (v->len > 0 && n < 4) {
		hold[n++] = *v->p;
		*v = strv_from(*v, 1);
		if (utf8_tail((struct strv){hold, n}) != n)
			break;
	}
	if (utf8_tail((struct strv){hold, n}) == n) {
		e->part[stream].n = n; /* v is used up */
		return;
	}
	e->part[stream].n = 0;
	/* The byte that ended it may belong to what follows. */
	if ((hold[n - 1] & 0xc0) != 0x80) {
		n--;
		v->p--;
		v->len++;
	}
	events_piece(b, e->base64, stream, (struct strv){hold, n}, 0);
}

void
events_output(struct events *e, struct strbuf *b, unsigned stream,
	      struct strv data)
{
	size_t tail;

	if (!e->base64) {
		if (e->part[stream].n > 0)
			events_join(e, b, stream, &data);
		tail = e->part[stream].n > 0 ? 0 : utf8_tail(data);
		if (tail > 0) {
			data.len -= tail;
			memcpy(e->part[stream].hold, data.p + data.len, tail);
			e->part[stream].n = (unsigned)tail;
		}
	}
	if (data.len > 0)
		events_piece(b, e->base64, stream, data, 0);
}

void
events_flush(struct events *e, struct strbuf *b)
{
	for (unsigned i = 0; i < 2; i++) {
		if (e->part[i].n == 0)
			continue;
		events_piece(b, e->base64, i,
			     (struct strv){e->part[i].hold, e->part[i].n}, 0);
		e->part[i].n = 0;
	}
}

void
events_ping(struct strbuf *b)
{
	strbuf_adds(b, "{\"event\":\"ping\"}\n");
}

void
events_dropped(struct strbuf *b, uint64_t bytes)
{
	strbuf_addf(b, "{\"event\":\"dropped\",\"bytes\":%" PRIu64 "}\n",
		    bytes);
}

void
events_exit(struct strbuf *b, const struct events_exit *x)
{
	strbuf_adds(b, "{\"event\":\"exit\",\"exit_code\":");
	if (x->code >= 0)
		strbuf_addf(b, "%d", x->code);
	else
		strbuf_adds(b, "null");
	strbuf_adds(b, ",\"signal\":");
	if (x->signal > 0)
		strbuf_addf(b, "%d", x->signal);
	else
		strbuf_adds(b, "null");
	strbuf_addf(b, ",\"timed_out\":%s,\"duration_ms\":%" PRIu64 "}\n",
		    x->timed_out ? "true" : "false", x->duration_ms);
}
