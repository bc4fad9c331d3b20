/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub's answers about tokens. An entry is made when a token is first asked
 * about, is ASKING while its request is under way, and is then YES, NO or DOWN
 * until it expires. Tokens of users and all others form two lists by last use,
 * and the least used one of a list that is full, and that nobody waits for,
 * makes room: guesses do not push users out.
 *
 * One request is one connection attempt and one exchange with one deadline;
 * connections to the hub are kept by the worker's own small pool.
 */
#include "config.h"

#include "gateway/hub.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/dns.h>
#include <event2/util.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/limits.h"
#include "net/addr.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/origin.h"
#include "net/stream.h"
#include "net/tlsctx.h"
#include "net/tlsio.h"

#define ANSWER_MAX  (256 * 1024)
#define DEADLINE_MS 8000
#define DOWN_MS     1000

struct lru {
	struct entry *oldest, *newest;
	size_t n, max;
};

struct entry {
	struct hub *hub;
	uint8_t hash[32];
	enum hub_state state;
	uint64_t expires_ms;
	struct hub_user user;
	struct hub_wait *waits;
	struct lru *lru;
	struct entry *older, *newer;
	/* while asking */
	bool counted;
	uint8_t client[LIMITS_CLIENT]; /* who made us ask */
	char *token;
	struct evdns_getaddrinfo_request *dns;
	struct dial *dial;
	struct httpc *http;
	struct timer deadline;
	struct task settled; /* tells those who wait */
	struct strbuf body;
	unsigned status;
	bool again; /* a kept connection had died: a fresh one now */
};

struct hub {
	struct loop *loop;
	const struct gw_conf *conf;
	struct origin at;
	struct tlsctx *ctx;
	struct httpc_pool *pool;
	struct evdns_base *dns; /* made when first needed */
	struct hash *entries;
	struct lru users, others;
	unsigned asking;
	struct entry *asked[HUB_ASKING_MAX];
	struct log_gate gate;
};

/* --- entries ----------------------------------------------------------- */

static struct strv
entry_key(const struct entry *e)
{
	return (struct strv){(const char *)e->hash, sizeof(e->hash)};
}

static void
lru_unlink(struct entry *e)
{
	struct lru *l = e->lru;

	if (e->older != NULL)
		e->older->newer = e->newer;
	else
		l->oldest = e->newer;
	if (e->newer != NULL)
		e->newer->older = e->older;
	else
		l->newest = e->older;
	e->older = e->newer = NULL;
	l->n--;
}

static void
lru_append(struct lru *l, struct entry *e)
{
	e->lru = l;
	e->older = l->newest;
	if (l->newest != NULL)
		l->newest->newer = e;
	else
		l->oldest = e;
	l->newest = e;
	l->n++;
}

/* Drops what a request under way holds. */
static void
ask_clear(struct entry *e)
{
	if (e->dns != NULL)
		evdns_getaddrinfo_cancel(e->dns);
	if (e->dial != NULL)
		dial_cancel(e->dial);
	if (e->http != NULL)
		httpc_close(e->http);
	e->dns = NULL;
	e->dial = NULL;
	e->http = NULL;
	timer_stop(&e->deadline);
	mem_free_secret(e->token);
	e->token = NULL;
	strbuf_clear(&e->body);
}

static void
entry_free(struct entry *e)
{
	struct hub *h = e->hub;

	ask_clear(e);
	while (e->waits != NULL)
		hub_wait_cancel(e->waits);
	task_cancel(&e->settled);
	timer_clear(&e->deadline);
	lru_unlink(e);
	(void)hash_del(h->entries, entry_key(e));
	hub_user_clear(&e->user);
	mem_secure_zero(e->hash, sizeof(e->hash));
	/* a cancelled look-up still calls back */
	loop_defer_free(h->loop, e, NULL);
}

void
hub_wait_cancel(struct hub_wait *w)
{
	if (w->prevp == NULL)
		return;
	*w->prevp = w->next;
	if (w->next != NULL)
		w->next->prevp = w->prevp;
	w->next = NULL;
	w->prevp = NULL;
}

static void
tell(void *arg)
{
	struct entry *e = arg;

	while (e->waits != NULL) {
		struct hub_wait *w = e->waits;

		hub_wait_cancel(w);
		w->fn(w->arg);
	}
}

/* Takes the least used ones out of a list that is full. Not one that is being
 * asked about, or that somebody is just told of: those are few. */
static void
make_room(struct lru *l)
{
	struct entry *e, *next;

	for (e = l->oldest; e != NULL && l->n >= l->max; e = next) {
		next = e->newer;
		if (e->state != HUB_ASKING && e->waits == NULL)
			entry_free(e);
	}
}

/* --- who asked --------------------------------------------------------- */

static bool
asked_enough(const struct hub *h, const struct addr *peer)
{
	uint8_t client[LIMITS_CLIENT];
	unsigned i, n = 0;

	if (h->asking >= HUB_ASKING_MAX)
		return true;
	if (peer == NULL || !limits_client(peer, client))
		return false;
	for (i = 0; i < h->asking; i++) {
		const struct entry *e = h->asked[i];

		n += e->counted &&
		     memcmp(e->client, client, sizeof(client)) == 0;
	}
	return n >= HUB_ASKING_EACH;
}

/* --- the answer -------------------------------------------------------- */

static void
settle(struct entry *e, enum hub_state state)
{
	struct hub *h = e->hub;
	uint64_t ttl = DOWN_MS;
	unsigned i = 0;

	if (e->state != HUB_ASKING)
		return;
	ask_clear(e);
	while (h->asked[i] != e)
		i++;
	h->asked[i] = h->asked[--h->asking];
	if (state == HUB_YES) {
		ttl = h->conf->hub_ttl_ms;
		lru_unlink(e);
		make_room(&h->users);
		lru_append(&h->users, e);
	} else if (state == HUB_NO) {
		ttl = h->conf->hub_negative_ttl_ms;
	}
	e->state = state;
	e->expires_ms = loop_now_ms(h->loop) + ttl;
	e->user.expires_ms = e->expires_ms;
	task_post(h->loop, &e->settled);
}

static void
down(struct entry *e, const char *why)
{
	unsigned held;

	if (e->state == HUB_ASKING && log_gate_pass(&e->hub->gate, 1, &held))
		log_warn("hub.down", "hub=%s why=%s more=%u", e->hub->conf->hub,
			 why, held);
	settle(e, HUB_DOWN);
}

static void
judge(struct entry *e)
{
	struct strv body = {e->body.s, e->body.len};
	struct hub_user u;

	if (e->status == 401 || e->status == 403) {
		settle(e, HUB_NO);
	} else if (e->status != 200) {
		down(e, "unexpected status");
	} else if (hub_parse(body, &u) != 0) {
		down(e, "unexpected answer");
	} else {
		hub_user_clear(&e->user);
		e->user = u;
		settle(e, HUB_YES);
	}
}

/* --- one request ------------------------------------------------------- */

static void
head_cb(struct httpc *c, const struct http_head *hd, bool interim, void *arg)
{
	struct entry *e = arg;

	(void)c;
	if (!interim)
		e->status = hd->status;
}

static void
body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct entry *e = arg;

	if (e->body.len + in->len > ANSWER_MAX) {
		down(e, "answer too large");
		return;
	}
	while (in->len > 0) {
		struct strv v = bufq_front(in);

		strbuf_addv(&e->body, v);
		bufq_drain(in, v.len);
	}
	if (!end)
		return;
	e->http = NULL;
	httpc_release(c);
	judge(e);
}

static void ask(struct entry *e);

static void
failed_cb(struct httpc *c, int err, bool begun, const char *what, void *arg)
{
	struct entry *e = arg;

	e->http = NULL;
	if (!begun && !e->again && httpc_reused(c)) {
		e->again = true;
		ask(e);
		return;
	}
	down(e, what != NULL ? what : err_text(err));
}

static const struct httpc_cbs hub_cbs = {
    .head = head_cb, .body = body_cb, .failed = failed_cb};

static void
send_request(struct entry *e)
{
	struct strv parts[2] = {STRV("Bearer "), strv_of(e->token)};
	struct http_writer *w;

	w = httpc_begin(e->http, &hub_cbs, e, STRV("GET"), M_GET,
			STRV("/api/whoami-v2"), BODY_NONE, 0,
			strlen(e->token) + 512);
	http1_put(w, STRV("Host"), strv_of(e->hub->at.authority));
	http1_put_parts(w, STRV("Authorization"), parts, 2);
	http1_put(w, STRV("Accept"), STRV("application/json"));
	http1_put(w, STRV("User-Agent"), STRV("sbx-gateway"));
	if (httpc_end_head(e->http, STRV_NULL) != 0) {
		down(e, "the token cannot be sent");
		return;
	}
	httpc_end(e->http);
}

static void
dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct entry *e = arg;
	struct hub *h = e->hub;
	struct stream *st;

	(void)used;
	e->dial = NULL;
	if (err != 0) {
		down(e, err_text(err));
		return;
	}
	st = stream_take_fd(h->loop, fd, NULL, NULL);
	stream_tune_tcp(st);
	if (h->at.tls)
		tlsio_connect(st, h->ctx, h->at.host);
	e->http = httpc_take_stream(h->loop, h->pool, STRV("hub"), st);
	send_request(e);
}

static void
dial(struct entry *e, const struct addr *addrs, size_t n)
{
	struct dial_options o = {0};
	size_t i;

	for (i = 0; i < n && i < DIAL_ADDRS_MAX; i++)
		o.addrs[i] = addrs[i];
	o.naddrs = i;
	o.done = dialed;
	o.arg = e;
	e->dial = dial_start(e->hub->loop, &o);
}

static void
resolved(int err, struct evutil_addrinfo *res, void *arg)
{
	struct entry *e = arg;
	struct evutil_addrinfo *ai;
	struct addr addrs[DIAL_ADDRS_MAX];
	size_t n = 0;

	if (err == EVUTIL_EAI_CANCEL)
		return; /* e may be gone */
	e->dns = NULL;
	for (ai = res; ai != NULL && n < DIAL_ADDRS_MAX; ai = ai->ai_next) {
		if (ai->ai_addrlen > sizeof(addrs[n].u))
			continue;
		memcpy(&addrs[n].u, ai->ai_addr, ai->ai_addrlen);
		addrs[n++].len = ai->ai_addrlen;
	}
	if (res != NULL)
		evutil_freeaddrinfo(res);
	if (n == 0)
		down(e, "its name does not resolve");
	else
		dial(e, addrs, n);
}

static void
resolve(struct entry *e)
{
	struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM};
	struct evdns_getaddrinfo_request *r;
	struct hub *h = e->hub;
	char port[8];

	if (h->dns == NULL)
		h->dns = evdns_base_new(loop_base(h->loop),
					EVDNS_BASE_INITIALIZE_NAMESERVERS |
					    EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (h->dns == NULL) {
		down(e, "no name servers");
		return;
	}
	(void)snprintf(port, sizeof(port), "%u", h->at.port);
	/* NULL: resolved() was called already (a name of /etc/hosts) */
	r = evdns_getaddrinfo(h->dns, h->at.host, port, &hints, resolved, e);
	if (r != NULL)
		e->dns = r;
}

static void
deadline_cb(void *arg)
{
	down(arg, "no answer in time");
}

static void
ask(struct entry *e)
{
	struct hub *h = e->hub;
	struct addr a[2];
	struct strv host = strv_of(h->at.host);
	char text[80];
	int n;

	timer_set(&e->deadline, DEADLINE_MS);
	if (!e->again)
		e->http = httpc_pool_get(h->pool, STRV("hub"));
	if (e->http != NULL) {
		send_request(e);
		return;
	}
	if (strv_eq_nocase(host, STRV("localhost"))) {
		addr_loopback(&a[0], false, h->at.port);
		addr_loopback(&a[1], true, h->at.port);
		dial(e, a, 2);
		return;
	}
	n = snprintf(text, sizeof(text),
		     strv_index(host, ':') >= 0 ? "[%.64s]:%u" : "%.64s:%u",
		     h->at.host, h->at.port);
	if (host.len <= 64 &&
	    addr_parse((struct strv){text, (size_t)n}, &a[0]) == 0)
		dial(e, a, 1);
	else
		resolve(e);
}

/* --- the table --------------------------------------------------------- */

static struct entry *
entry_new(struct hub *h, struct strv token, const uint8_t hash[32],
	  const struct addr *peer)
{
	struct entry *e;

	make_room(&h->others);
	e = xcalloc(1, sizeof(*e));
	e->hub = h;
	memcpy(e->hash, hash, sizeof(e->hash));
	timer_init(&e->deadline, h->loop, deadline_cb, e);
	task_init(&e->settled, tell, e);
	(void)hash_set(h->entries, entry_key(e), e);
	lru_append(&h->others, e);
	e->state = HUB_ASKING;
	e->token = xstrndup(token.p, token.len);
	e->counted = peer != NULL && limits_client(peer, e->client);
	assert(h->asking < HUB_ASKING_MAX); /* hub_look() has seen to it */
	h->asked[h->asking++] = e;
	return e;
}

static struct entry *
entry_find(struct hub *h, const uint8_t hash[32])
{
	struct strv key = {(const char *)hash, 32};
	struct entry *e = hash_get(h->entries, key);

	if (e == NULL || e->state == HUB_ASKING || e->waits != NULL)
		return e;
	if (loop_now_ms(h->loop) >= e->expires_ms) {
		entry_free(e);
		return NULL;
	}
	return e;
}

enum hub_state
hub_look(struct hub *h, const uint8_t hash[32], const struct addr *peer,
	 const struct hub_user **user)
{
	struct entry *e = entry_find(h, hash);

	if (e == NULL)
		return asked_enough(h, peer) ? HUB_DOWN : HUB_UNKNOWN;
	if (e->state == HUB_YES)
		*user = &e->user;
	lru_unlink(e);
	lru_append(e->lru, e);
	return e->state;
}

void
hub_ask(struct hub *h, struct strv token, const uint8_t hash[32],
	const struct addr *peer, struct hub_wait *wait)
{
	struct entry *e = entry_find(h, hash);
	bool fresh = e == NULL;

	if (fresh)
		e = entry_new(h, token, hash, peer);
	wait->next = e->waits;
	wait->prevp = &e->waits;
	if (e->waits != NULL)
		e->waits->prevp = &wait->next;
	e->waits = wait;
	if (fresh)
		ask(e);
	else if (e->state != HUB_ASKING)
		task_post(h->loop, &e->settled);
}

/* --- setting up -------------------------------------------------------- */

int
hub_new(struct loop *l, const struct gw_conf *conf, struct hub **out,
	char **msg)
{
	struct httpc_pool_options po = {
	    .idle_ms = 4000, .max_idle = 8, .max_per_key = 8};
	struct hub *h;
	int r = 0;

	if (conf->hub == NULL) {
		*out = NULL;
		return 0;
	}
	h = xcalloc(1, sizeof(*h));
	h->loop = l;
	h->conf = conf;
	h->entries = hash_new();
	h->users.max = HUB_USERS_MAX;
	h->others.max = HUB_OTHERS_MAX;
	h->pool = httpc_pool_new(l, &po);
	if ((r = origin_parse(&h->at, conf->hub)) != 0)
		*msg = xasprintf("hub: not an http(s) origin: %s", conf->hub);
	else if (h->at.tls)
		r = tlsctx_client(conf->hub_ca, &h->ctx, msg);
	if (r != 0) {
		hub_free(h);
		return r;
	}
	*out = h;
	return 0;
}

void
hub_free(struct hub *h)
{
	if (h == NULL)
		return;
	while (h->users.oldest != NULL)
		entry_free(h->users.oldest);
	while (h->others.oldest != NULL)
		entry_free(h->others.oldest);
	hash_free(h->entries);
	httpc_pool_free(h->pool);
	if (h->dns != NULL)
		evdns_base_free(h->dns, 0);
	tlsctx_unref(h->ctx);
	origin_clear(&h->at);
	free(h);
}
