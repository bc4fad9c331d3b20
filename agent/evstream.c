/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of event lines; see the header. */
#include "config.h"

#include "agent/evstream.h"

#include <string.h>

#include "agent/api_int.h"
#include "agent/events.h"
#include "net/stream.h"

#define EVSTREAM_PING_MS 15000
#define EVSTREAM_TICK_MS 1000
/* Pings to a client that has ended its side: it may only have said all that
 * it had to say, but if it is gone, writing is how to find out. */
#define EVSTREAM_PROBES 3

static void
evstream_tick_cb(void *arg)
{
	struct evstream *es = arg;
	uint64_t quiet = loop_now_ms(es->tick.loop) - es->said_ms;
	struct stream *st = httpd_conn_stream(httpd_req_conn(es->c->rq));
	bool probe = stream_eof(st) && es->probes < EVSTREAM_PROBES;

	timer_set(&es->tick, EVSTREAM_TICK_MS);
	if (httpd_over_high(es->c->rq) || (!probe && quiet < EVSTREAM_PING_MS))
		return;
	es->probes += probe;
	events_ping(&es->line);
	evstream_send(es);
}

void
evstream_init(struct evstream *es, struct call *c)
{
	memset(es, 0, sizeof(*es));
	es->c = c;
	timer_init(&es->tick, c->api->o.loop, evstream_tick_cb, es);
}

void
evstream_clear(struct evstream *es)
{
	timer_clear(&es->tick);
	strbuf_clear(&es->line);
}

bool
evstream_begin(struct evstream *es)
{
	struct httpd_req *rq = es->c->rq;

	if (es->begun)
		return true;
	es->begun = true;
	http1_put(httpd_begin(rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256),
		  STRV("Content-Type"), STRV(EVENTS_TYPE));
	if (httpd_end_head(rq) != 0) {
		httpd_abort(rq);
		return false;
	}
	es->said_ms = loop_now_ms(es->tick.loop);
	timer_set(&es->tick, EVSTREAM_TICK_MS);
	return true;
}

void
evstream_send(struct evstream *es)
{
	if (es->line.len == 0 && es->sent)
		return;
	es->sent = true;
	httpd_write(es->c->rq, es->line.s, es->line.len);
	strbuf_reset(&es->line);
	httpd_flush(es->c->rq);
	es->said_ms = loop_now_ms(es->tick.loop);
}

void
evstream_end(struct evstream *es)
{
	timer_stop(&es->tick);
	httpd_write(es->c->rq, es->line.s, es->line.len);
	httpd_end(es->c->rq);
}

void
evstream_abort(struct evstream *es)
{
	timer_stop(&es->tick);
	httpd_write(es->c->rq, es->line.s, es->line.len);
	httpd_abort(es->c->rq);
}
