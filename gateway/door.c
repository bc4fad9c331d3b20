/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection beyond a limit is closed at once, except for a few at a time
 * that get an answer first: who is told "limit, come back in a second" does
 * that, who finds a closed door reports an outage. They have the same short
 * deadlines as everybody who has not sent a request yet.
 */
#include "config.h"

#include "gateway/door.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/accesslog.h"
#include "gateway/errpage.h"
#include "gateway/exchange_int.h"
#include "gateway/limits.h"
#include "gateway/worker.h"
#include "net/addr.h"
#include "net/httpd.h"
#include "net/stream.h"
#include "net/tlsio.h"

#define EXCESS_MAX 64 /* at a time, each worker */

static struct conn_state *
state_of(struct httpd_conn *c)
{
	return httpd_conn_scratch(c);
}

static bool
is_tls(struct httpd_conn *c)
{
	return ((const struct worker_listener *)httpd_conn_tag(c))->tls != NULL;
}

/* --- in ---------------------------------------------------------------- */

/* An IPv4 client of an IPv6 listener is an IPv4 client. */
static struct addr
plain_peer(const struct addr *peer)
{
	const struct in6_addr *six = &peer->u.in6.sin6_addr;
	struct addr a = *peer;

	if (peer->u.sa.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(six))
		return a;
	memset(&a, 0, sizeof(a));
	a.len = sizeof(a.u.in);
	a.u.in.sin_family = AF_INET;
	a.u.in.sin_port = peer->u.in6.sin6_port;
	memcpy(&a.u.in.sin_addr, six->s6_addr + 12, 4);
	return a;
}

enum entry { ENTRY_NO, ENTRY_YES, ENTRY_EXCESS };

static enum entry
admit(struct worker *w, const struct worker_listener *ls,
      const struct addr *peer)
{
	struct path *p = worker_parts(w)->path;
	struct limits *l = worker_limits(w);
	enum entry e = ENTRY_YES;

	if (!limits_open(l, peer)) {
		worker_stats(w)->conns_refused++;
		if (p->excess >= EXCESS_MAX)
			return ENTRY_NO;
		e = ENTRY_EXCESS;
	}
	/* That limit is for the work of a handshake, an answer to it would
	 * need one. */
	if (ls->tls != NULL &&
	    !limits_handshake(l, loop_now_ms(worker_loop(w)))) {
		if (e == ENTRY_YES) {
			worker_stats(w)->conns_refused++;
			limits_close(l, peer);
		}
		return ENTRY_NO;
	}
	if (e == ENTRY_EXCESS)
		p->excess++;
	return e;
}

void
door_accept(struct worker *w, const struct worker_listener *ls, int fd,
	    const struct addr *from)
{
	const struct addr client = plain_peer(from), *peer = &client;
	enum entry e = admit(w, ls, peer);
	struct httpd_conn *c;
	struct stream *st;

	if (e == ENTRY_NO) {
		(void)close(fd);
		return;
	}
	worker_stats(w)->conns_total++;
	worker_stats(w)->conns_open++;
	st = stream_take_fd(worker_loop(w), fd, NULL, NULL);
	stream_set_high(st, worker_conf(w)->limits.buffer);
	if (ls->tls != NULL)
		tlsio_accept(st, ls->tls);
	/* the tag is only read */
	c = httpd_serve(worker_httpd(w), st, peer, (void *)(uintptr_t)ls);
	state_of(c)->excess = e == ENTRY_EXCESS;
}

bool
door_excess(struct httpd_conn *c)
{
	return state_of(c)->excess;
}

void
door_ready(struct httpd_conn *c, void *arg)
{
	struct stats *st = worker_stats(arg);
	struct tls_info info;

	if (!tlsio_info(httpd_conn_stream(c), &info))
		return;
	state_of(c)->counted = true;
	if (info.resumed)
		st->handshakes_resumed++;
	else
		st->handshakes_full++;
}

/* --- what is no request ------------------------------------------------ */

static const char *
close_text(unsigned status)
{
	switch (status) {
	case 408:
		return "client_timeout";
	case 413:
	case 414:
	case 431:
		return "limit";
	}
	return "client_proto";
}

/* Nothing of it is written down: what could not be read may hold a secret
 * anywhere. */
static void
write_line(struct worker *w, struct httpd_conn *c, unsigned status)
{
	char peer[ADDR_TEXT_MAX];
	struct access_entry e = {
	    .status = status,
	    .code = errpage_refusal_code(status),
	    .close = close_text(status),
	    .tls = is_tls(c),
	    .queue_us = ACCESS_NO_TIME,
	    .connect_us = ACCESS_NO_TIME,
	    .first_us = ACCESS_NO_TIME,
	};

	if (!accesslog_on(worker_access_log(w)))
		return;
	e.peer = strv_of(addr_ip_text(httpd_conn_peer(c), peer));
	accesslog_write(worker_access_log(w), &e);
}

bool
door_refused(struct httpd_conn *c, unsigned status, const char *what, void *arg)
{
	struct worker *w = arg;

	worker_stats(w)->rejected_malformed++;
	log_debug("request.refused", "cid=%" PRIu64 " status=%u why=%s",
		  httpd_conn_id(c), status, what);
	errpage_refuse(c, status, what);
	if (state_of(c)->ex == NULL) /* else the request has its line */
		write_line(w, c, status);
	return true;
}

/* --- out --------------------------------------------------------------- */

void
door_closed(struct httpd_conn *c, void *arg)
{
	struct worker *w = arg;
	struct path *p = worker_parts(w)->path;
	struct conn_state *cs = state_of(c);

	if (is_tls(c) && !cs->counted)
		worker_stats(w)->handshakes_failed++;
	mem_secure_zero(&cs->auth, sizeof(cs->auth));
	if (cs->tunnel)
		return; /* it is still open */
	worker_stats(w)->conns_open--;
	if (cs->excess)
		p->excess--;
	else
		limits_close(worker_limits(w), httpd_conn_peer(c));
}
