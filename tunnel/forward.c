/* SPDX-License-Identifier: Apache-2.0 */
/* Local listeners with their waiting room, and remote forwards. */
#include "config.h"

#include "tunnel/forward.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "net/addr.h"
#include "net/listener.h"
#include "net/loop.h"
#include "tunnel/backoff.h"
#include "tunnel/bindspec.h"
#include "tunnel/chan.h"
#include "tunnel/options.h"
#include "tunnel/reach.h"
#include "tunnel/say.h"
#include "tunnel/session.h"
#include "tunnel/spec.h"
#include "tunnel/spread.h"

#define WAITING_MAX   256
#define PORT0_KEEP_MS 10000

enum fwd_state {
	FWD_DOWN,  /* no session */
	FWD_ASKED, /* the far side has not answered */
	FWD_UP,
	FWD_FAILED, /* refused; asked again after a while */
	FWD_NEVER   /* cannot be done with this library */
};

struct waiting {
	TAILQ_ENTRY(waiting) link;
	int fd;
	struct addr peer;
	uint64_t due_ms;
};

TAILQ_HEAD(waiting_list, waiting);

struct fwd {
	struct forwards *all;
	const struct spec *sp;
	enum fwd_state state;
	uint16_t port; /* had: allocated, or as given */
	struct listener *ls[BINDSPEC_MAX];
	struct timer retry;
	struct backoff backoff;
	unsigned refusals;
	bool had;            /* it was up once */
	uint64_t refused_ms; /* the first of them */
	struct waiting_list waiting;
	unsigned nwaiting;
	struct timer expire;
};

struct forwards {
	struct loop *loop;
	const struct options *o;
	const struct forwards_cbs *cbs;
	void *arg;
	struct session *s; /* NULL: down */
	struct spread *spread;
	bool listening;
	bool settled;
	unsigned told; /* failed ones at the last call */
	struct reach_list *reaching;
	size_t n;
	struct fwd v[];
};

/* --- local: those who wait ---------------------------------------------- */

static void
waiting_drop(struct fwd *w, struct waiting *c)
{
	TAILQ_REMOVE(&w->waiting, c, link);
	w->nwaiting--;
	fd_close(&c->fd);
	free(c);
}

static void
waiting_expire_cb(void *arg)
{
	struct fwd *w = arg;
	uint64_t now = loop_now_ms(w->all->loop);
	struct waiting *c, *next;

	for (c = TAILQ_FIRST(&w->waiting); c != NULL && c->due_ms <= now;
	     c = next) {
		next = TAILQ_NEXT(c, link);
		waiting_drop(w, c);
	}
	if (c != NULL)
		timer_set(&w->expire, c->due_ms - now);
}

static void
waiting_add(struct fwd *w, int fd, const struct addr *peer)
{
	struct waiting *c;

	if (w->nwaiting == WAITING_MAX)
		waiting_drop(w, TAILQ_FIRST(&w->waiting));
	c = xcalloc(1, sizeof(*c));
	c->fd = fd;
	c->peer = *peer;
	c->due_ms = loop_now_ms(w->all->loop) + w->all->o->wait_ms;
	TAILQ_INSERT_TAIL(&w->waiting, c, link);
	if (w->nwaiting++ == 0)
		timer_set(&w->expire, w->all->o->wait_ms);
	w->all->cbs->wanted(w->all->arg);
}

/* To whichever connection has least to do; E_AGAIN: all are down. */
static int
fwd_go(struct fwd *w, int fd, const struct addr *peer)
{
	struct forwards *f = w->all;
	struct session *own = session_is_up(f->s) ? f->s : NULL;

	if (f->spread != NULL &&
	    spread_give(f->spread, own, (size_t)(w - f->v), fd) == 0)
		return 0;
	if (own == NULL)
		return E_AGAIN;
	chan_open(own, &w->sp->target, fd, peer);
	return 0;
}

static void
waiting_go(struct fwd *w)
{
	struct waiting *c, *next;

	for (c = TAILQ_FIRST(&w->waiting); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		if (fwd_go(w, c->fd, &c->peer) != 0)
			return;
		c->fd = -1;
		waiting_drop(w, c);
	}
}

/* --- local: listeners --------------------------------------------------- */

static void
fwd_accepted(int fd, const struct addr *peer, void *arg)
{
	struct fwd *w = arg;

	if (fwd_go(w, fd, peer) != 0)
		waiting_add(w, fd, peer);
}

static int
fwd_listen(struct fwd *w)
{
	struct bindspec b = {.loop = w->all->loop,
			     .o = w->all->o,
			     .sp = w->sp,
			     .accepted = fwd_accepted,
			     .arg = w};
	int r = bindspec_open(&b);

	memcpy(w->ls, b.ls, sizeof(w->ls));
	w->port = b.port;
	return r;
}

unsigned
forwards_listen(struct forwards *f)
{
	unsigned failed = 0;

	if (f->listening)
		return 0;
	f->listening = true;
	for (size_t i = 0; i < f->n; i++) {
		struct fwd *w = &f->v[i];
		int r;

		if (w->sp->kind != SPEC_LOCAL)
			continue;
		r = fwd_listen(w);
		w->state = r == 0 ? FWD_UP : FWD_FAILED;
		if (r != 0)
			failed++;
	}
	if (failed > 0)
		say(f->o, OPT_LOG_ERROR, "Could not request local forwarding.");
	return failed;
}

/* --- remote ------------------------------------------------------------- */

static void
forwards_settle(struct forwards *f)
{
	unsigned failed = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].sp->kind != SPEC_REMOTE)
			continue;
		if (f->v[i].state == FWD_ASKED)
			return;
		if (f->v[i].state != FWD_UP)
			failed++;
	}
	if (f->settled && failed == f->told)
		return;
	f->settled = true;
	f->told = failed;
	f->cbs->settled(failed, f->arg);
}

static void
fwd_ask(struct fwd *w)
{
	struct spec_end at = w->sp->listen;
	const char *lacks = session_lacks(&at);

	if (lacks != NULL) {
		w->state = FWD_NEVER;
		say(w->all->o, OPT_LOG_ERROR, "-R %s: %s", w->sp->text, lacks);
		return;
	}
	/* An allocated port is asked for again: somebody was told of it. After
	 * ten seconds of refusals any other will do. */
	if (at.port == 0 &&
	    (w->refusals == 0 ||
	     loop_now_ms(w->all->loop) - w->refused_ms < PORT0_KEEP_MS))
		at.port = w->port;
	w->state = w->state == FWD_FAILED ? FWD_FAILED : FWD_ASKED;
	session_listen(w->all->s, &at, w);
}

static void
fwd_retry_cb(void *arg)
{
	struct fwd *w = arg;

	if (w->all->s != NULL && w->state == FWD_FAILED)
		fwd_ask(w);
}

static void
fwd_refused(struct fwd *w)
{
	struct strbuf b = {0};
	uint64_t wait;
	uint32_t rnd;

	if (w->refusals++ == 0) {
		w->refused_ms = loop_now_ms(w->all->loop);
		if (w->sp->listen.path != NULL)
			strbuf_adds(&b, w->sp->listen.path);
		else
			strbuf_addf(&b, "%u", w->sp->listen.port);
		say(w->all->o, OPT_LOG_ERROR,
		    "%s: remote port forwarding failed for listen %s %s",
		    w->all->o->exit_on_failure ? "Error" : "Warning",
		    w->sp->listen.path != NULL ? "path" : "port", b.s);
		strbuf_clear(&b);
	}
	w->state = FWD_FAILED;
	token_random(&rnd, sizeof(rnd));
	wait = backoff_next(&w->backoff, loop_now_ms(w->all->loop), rnd);
	timer_set(&w->retry, wait < BACKOFF_MIN_MS ? BACKOFF_MIN_MS : wait);
}

void
forwards_listening(struct forwards *f, void *fwd, int err, uint16_t port)
{
	struct fwd *w = fwd;
	bool news;

	if (err != 0) {
		fwd_refused(w);
	} else {
		news = w->sp->listen.port == 0 && port != w->port;
		w->state = FWD_UP;
		w->had = true;
		w->port = port;
		w->refusals = 0;
		backoff_init(&w->backoff, f->o->backoff_cap);
		if (news) {
			struct strbuf b = {0};

			spec_end_text(&w->sp->target, &b);
			say(f->o, OPT_LOG_INFO,
			    "Allocated port %u for remote forward to %s", port,
			    b.s);
			strbuf_clear(&b);
			f->settled = false; /* tell the new port */
		}
	}
	forwards_settle(f);
}

void
forwards_accepted(struct forwards *f, void *fwd, struct chan *c)
{
	struct fwd *w = fwd;

	reach_start(f->reaching, &w->sp->target, c);
}

/* --- the session comes and goes ----------------------------------------- */

void
forwards_up(struct forwards *f, struct session *s)
{
	f->s = s;
	f->settled = false;
	for (size_t i = 0; i < f->n; i++) {
		struct fwd *w = &f->v[i];

		if (w->sp->kind == SPEC_LOCAL)
			waiting_go(w);
		else
			fwd_ask(w);
	}
	forwards_settle(f);
}

void
forwards_spread(struct forwards *f, struct spread *sd)
{
	f->spread = sd;
}

void
forwards_go(struct forwards *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].sp->kind == SPEC_LOCAL)
			waiting_go(&f->v[i]);
}

void
forwards_back(struct forwards *f, size_t i, int fd)
{
	struct addr peer = {.len = sizeof(peer.u)};

	if (getpeername(fd, &peer.u.sa, &peer.len) != 0)
		peer.u.sa.sa_family = AF_UNIX; /* gone: nobody will look */
	fwd_accepted(fd, &peer, &f->v[i]);
}

void
forwards_unopened(struct forwards *f, const struct spec_end *target, int fd)
{
	for (size_t i = 0; i < f->n; i++)
		if (&f->v[i].sp->target == target) {
			forwards_back(f, i, fd);
			return;
		}
	fd_close(&fd);
}

void
forwards_down(struct forwards *f)
{
	f->s = NULL;
	for (size_t i = 0; i < f->n; i++) {
		struct fwd *w = &f->v[i];

		if (w->sp->kind == SPEC_LOCAL)
			continue;
		w->state = FWD_DOWN;
		w->refusals = 0;
		timer_stop(&w->retry);
	}
}

static void
add_quoted(struct strbuf *out, const char *s)
{
	strbuf_addc(out, '\'');
	for (; *s != '\0'; s++)
		if (*s == '\'')
			strbuf_adds(out, "'\\''");
		else
			strbuf_addc(out, *s);
	strbuf_addc(out, '\'');
}

void
forwards_tidy(const struct forwards *f, struct strbuf *out)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct fwd *w = &f->v[i];

		if (w->sp->kind != SPEC_REMOTE || !w->had ||
		    w->sp->listen.path == NULL)
			continue;
		strbuf_adds(out, "p=");
		add_quoted(out, w->sp->listen.path);
		strbuf_adds(out, "; [ -S \"$p\" ] && [ -r /proc/net/unix ] && "
				 "! grep -qFe \" $p\" /proc/net/unix && "
				 "rm -f \"$p\"; ");
	}
}

static const char *
fwd_state_text(enum fwd_state s)
{
	switch (s) {
	case FWD_DOWN:
		return "down";
	case FWD_ASKED:
		return "asked";
	case FWD_UP:
		return "up";
	case FWD_FAILED:
		return "failed";
	case FWD_NEVER:
		return "unsupported";
	}
	return "?";
}

void
forwards_json(const struct forwards *f, struct strbuf *out)
{
	strbuf_adds(out, "\"forwards\":[");
	for (size_t i = 0; i < f->n; i++) {
		const struct fwd *w = &f->v[i];
		struct strbuf to = {0};

		spec_end_text(&w->sp->target, &to);
		strbuf_addf(out,
			    "%s{\"kind\":\"%s\",\"spec\":", i > 0 ? "," : "",
			    w->sp->kind == SPEC_LOCAL ? "local" : "remote");
		strbuf_add_json(out, strv_of(w->sp->text));
		if (w->sp->listen.path != NULL) {
			strbuf_adds(out, ",\"path\":");
			strbuf_add_json(out, strv_of(w->sp->listen.path));
		} else {
			strbuf_addf(out, ",\"port\":%u", w->port);
		}
		strbuf_adds(out, ",\"target\":");
		strbuf_add_json(out, (struct strv){to.s, to.len});
		strbuf_addf(out, ",\"state\":\"%s\"}",
			    fwd_state_text(w->state));
		strbuf_clear(&to);
	}
	strbuf_addc(out, ']');
}

/* --- life --------------------------------------------------------------- */

struct forwards *
forwards_new(struct loop *l, const struct options *o,
	     const struct forwards_cbs *cbs, void *arg)
{
	struct forwards *f;

	f = xcalloc(1, sizeof(*f) + o->nforwards * sizeof(struct fwd));
	f->loop = l;
	f->o = o;
	f->cbs = cbs;
	f->arg = arg;
	f->n = o->nforwards;
	f->reaching = reach_list_new(l);
	for (size_t i = 0; i < f->n; i++) {
		struct fwd *w = &f->v[i];

		w->all = f;
		w->sp = o->forwards[i];
		w->port = w->sp->listen.port;
		TAILQ_INIT(&w->waiting);
		timer_init(&w->retry, l, fwd_retry_cb, w);
		timer_init(&w->expire, l, waiting_expire_cb, w);
		backoff_init(&w->backoff, o->backoff_cap);
	}
	return f;
}

static void
fwd_clear(struct fwd *w)
{
	struct waiting *c, *next;

	for (c = TAILQ_FIRST(&w->waiting); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		waiting_drop(w, c);
	}
	for (int i = 0; i < BINDSPEC_MAX; i++)
		if (w->ls[i] != NULL)
			listener_close(w->ls[i]);
	if (w->ls[0] != NULL && w->sp->listen.path != NULL)
		(void)remove(w->sp->listen.path);
	timer_clear(&w->retry);
	timer_clear(&w->expire);
}

void
forwards_free(struct forwards *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < f->n; i++)
		fwd_clear(&f->v[i]);
	reach_list_free(f->reaching);
	free(f);
}
