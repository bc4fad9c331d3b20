/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a tunnel: one attempt at a time, back-off between them. Before
 * it was up for the first time a failure ends the program in ssh's way
 * (unless it was told to go on for ever); after that nothing does.
 */
#include "config.h"

#include "tunnel/tunnel.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/token.h"
#include "net/loop.h"
#include "tunnel/auth.h"
#include "tunnel/backoff.h"
#include "tunnel/forward.h"
#include "tunnel/link.h"
#include "tunnel/options.h"
#include "tunnel/say.h"
#include "tunnel/session.h"
#include "tunnel/spread.h"
#include "tunnel/status.h"

#define EXIT_SSH   255  /* ssh's own failures */
#define RECLAIM_MS 3000 /* forwards wait no longer for that */
#define DEMAND_MS  250  /* no sooner than this, somebody waiting or not */

struct tunnel {
	struct loop *loop;
	const struct options *o;
	struct status *status;
	struct auth *auth;
	struct forwards *fwds;
	struct link *link;
	struct spread *spread; /* NULL: one connection, or not up yet */
	struct backoff backoff;
	struct timer retry;
	struct timer reclaim; /* runs while the far side is asked */
	uint64_t retry_due_ms;
	uint64_t down_us; /* when it went down; 0: never was up */
	uint64_t far_pid; /* serves this session, or served the last; 0: ? */
	uint64_t far_start;
	unsigned attempts;
	bool was_up;
	bool ready_told;
	bool stopping;
	int code;
};

static void tunnel_connect(struct tunnel *t);
static void add_connections(const struct tunnel *t, struct strbuf *b);

static void
tunnel_end(struct tunnel *t, int code)
{
	t->stopping = true;
	t->code = code;
	timer_stop(&t->retry);
	loop_stop(t->loop);
}

static void
emit_reason(struct tunnel *t, const char *event, const char *reason,
	    uint64_t retry_ms)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "\"reason\":");
	strbuf_add_json(&b, strv_of(reason));
	strbuf_addf(&b, ",\"retry_ms\":%llu", (unsigned long long)retry_ms);
	add_connections(t, &b);
	status_emit(t->status, event, b.s);
	strbuf_clear(&b);
}

/* --- failing ------------------------------------------------------------ */

static void
tunnel_retry(struct tunnel *t, const char *reason)
{
	uint64_t now = loop_now_ms(t->loop), wait;
	uint32_t rnd;

	token_random(&rnd, sizeof(rnd));
	wait = backoff_next(&t->backoff, now, rnd);
	t->retry_due_ms = now + wait;
	emit_reason(t, "down", reason, wait);
	timer_set(&t->retry, wait);
}

/* An attempt failed. */
static void
tunnel_failed(struct tunnel *t, const char *reason)
{
	if (t->stopping)
		return;
	t->attempts++;
	if (t->was_up || t->o->forever) {
		say(t->o, t->attempts > 1 ? OPT_LOG_VERBOSE : OPT_LOG_INFO,
		    "%s", reason);
		tunnel_retry(t, reason);
	} else if (t->attempts < t->o->attempts) {
		emit_reason(t, "down", reason, 1000);
		timer_set(&t->retry, 1000);
	} else {
		say(t->o, OPT_LOG_ERROR, "%s", reason);
		emit_reason(t, "down", reason, 0);
		tunnel_end(t, EXIT_SSH);
	}
}

static void
tunnel_retry_cb(void *arg)
{
	tunnel_connect(arg);
}

/* Somebody waits: do not let them sit out a long pause. */
static void
tunnel_wanted(void *arg)
{
	struct tunnel *t = arg;
	uint64_t now = loop_now_ms(t->loop);

	if (timer_running(&t->retry) && t->retry_due_ms > now + DEMAND_MS) {
		t->retry_due_ms = now + DEMAND_MS;
		timer_set(&t->retry, DEMAND_MS);
	}
}

/* --- the session's callbacks -------------------------------------------- */

static void
tunnel_settled(unsigned failed, void *arg)
{
	struct tunnel *t = arg;
	struct strbuf b = {0};

	if (failed > 0 && t->o->exit_on_failure && !t->ready_told) {
		emit_reason(t, "down", "remote port forwarding failed", 0);
		tunnel_end(t, EXIT_SSH);
		return;
	}
	if (t->down_us != 0)
		strbuf_addf(&b, "\"down_ms\":%llu,",
			    (unsigned long long)(loop_clock_us() - t->down_us) /
				1000);
	if (failed > 0)
		strbuf_addf(&b, "\"failed\":%u,", failed);
	forwards_json(t->fwds, &b);
	add_connections(t, &b);
	if (failed > 0) {
		status_emit(t->status, "degraded", b.s);
	} else if (t->down_us != 0) {
		status_emit(t->status, "reconnected", b.s);
		t->down_us = 0;
	} else {
		status_emit(t->status, "ready", b.s);
	}
	t->ready_told = true;
	strbuf_clear(&b);
}

/*
 * Takes over from our dead predecessor: its sshd process may live on for as
 * long as the server's own time-outs, holding our ports. Each session asks
 * which process serves it; the next one ends that process, if it is still the
 * same one (its start time says so). Nobody else's is touched.
 */
static void
tunnel_reclaim(struct tunnel *t)
{
	struct strbuf b = {0};

	if (t->far_pid != 0)
		strbuf_addf(&b,
			    "set -- $(cat /proc/%llu/stat 2>/dev/null); "
			    "[ \"${22}\" = %llu ] && kill -9 %llu && "
			    "sleep 0.2; ",
			    (unsigned long long)t->far_pid,
			    (unsigned long long)t->far_start,
			    (unsigned long long)t->far_pid);
	if (t->far_pid != 0)
		forwards_tidy(t->fwds, &b);
	strbuf_adds(&b, "set -- $PPID $(cat /proc/$PPID/stat); "
			"echo $1 ${23}");
	session_exec(link_session(t->link), b.s);
	strbuf_clear(&b);
	timer_set(&t->reclaim, RECLAIM_MS);
}

/* The far side has answered, or takes too long. */
static void
tunnel_reclaimed(void *arg)
{
	struct tunnel *t = arg;

	timer_stop(&t->reclaim);
	if (session_is_up(link_session(t->link)))
		forwards_up(t->fwds, link_session(t->link));
}

static void
tunnel_far_process(struct tunnel *t, const char *out)
{
	struct strv rest = strv_of(out), pid, start;
	uint64_t p, s;

	if (!strv_cut(&rest, ' ', &pid) || !strv_cut(&rest, '\n', &start) ||
	    strv_parse_u64(pid, INT32_MAX, true, &p) != 0 ||
	    strv_parse_u64(start, UINT64_MAX, true, &s) != 0 || p < 2)
		return;
	t->far_pid = p;
	t->far_start = s;
}

static void
session_executed_cb(const char *out, void *arg)
{
	struct tunnel *t = arg;

	log_debug("tunnel.far", "process=%s", log_esc(strv_of(out)));
	t->far_pid = 0;
	tunnel_far_process(t, out);
	if (timer_running(&t->reclaim))
		tunnel_reclaimed(t);
}

/* --- further connections ------------------------------------------------ */

static void
add_connections(const struct tunnel *t, struct strbuf *b)
{
	bool own = session_is_up(link_session(t->link));

	if (t->o->connections > 1)
		strbuf_addf(b, "%s\"connections\":{\"up\":%u,\"of\":%u}",
			    b->len > 0 ? "," : "", spread_up(t->spread) + own,
			    (unsigned)t->o->connections);
}

static void
spread_changed_cb(const char *reason, void *arg)
{
	struct tunnel *t = arg;
	struct strbuf b = {0};

	add_connections(t, &b);
	if (reason != NULL) {
		strbuf_adds(&b, ",\"reason\":");
		strbuf_add_json(&b, strv_of(reason));
	} else {
		forwards_go(t->fwds);
	}
	status_emit(t->status, "connections", b.s);
	strbuf_clear(&b);
}

static void
spread_back_cb(size_t fwd, int fd, void *arg)
{
	struct tunnel *t = arg;

	forwards_back(t->fwds, fwd, fd);
}

static const struct spread_cbs spread_callbacks = {
    .changed = spread_changed_cb,
    .back = spread_back_cb,
};

/* Only now: the first one has shown that it can be done, and has the server's
 * key remembered if that was to be. */
static void
tunnel_spread(struct tunnel *t)
{
	if (t->o->connections < 2 || t->spread != NULL)
		return;
	t->spread = spread_new(t->loop, t->o, t->auth, &spread_callbacks, t);
	forwards_spread(t->fwds, t->spread);
}

/* --- up and down -------------------------------------------------------- */

static void
session_up_cb(void *arg)
{
	struct tunnel *t = arg;

	if (t->was_up)
		say(t->o, OPT_LOG_INFO, "Reconnected to %s.", t->o->host);
	t->was_up = true;
	t->attempts = 0;
	backoff_up(&t->backoff, loop_now_ms(t->loop));
	if (forwards_listen(t->fwds) > 0 && t->o->exit_on_failure) {
		emit_reason(t, "down", "cannot listen to a local port", 0);
		tunnel_end(t, EXIT_SSH);
		return;
	}
	if (t->o->reclaim)
		tunnel_reclaim(t);
	else
		forwards_up(t->fwds, link_session(t->link));
	tunnel_spread(t);
}

static void
session_down_cb(enum session_end end, const char *text, void *arg)
{
	struct tunnel *t = arg;
	char *reason = xstrdup(text);

	(void)end;
	if (t->was_up && t->down_us == 0)
		t->down_us = loop_clock_us();
	timer_stop(&t->reclaim);
	forwards_down(t->fwds);
	link_close(t->link);
	tunnel_failed(t, reason);
	free(reason);
}

static void
session_accepted_cb(struct chan *c, void *fwd, void *arg)
{
	struct tunnel *t = arg;

	forwards_accepted(t->fwds, fwd, c);
}

static void
session_listening_cb(int err, uint16_t port, void *fwd, void *arg)
{
	struct tunnel *t = arg;

	forwards_listening(t->fwds, fwd, err, port);
}

static void
session_unopened_cb(const struct spec_end *target, int fd, void *arg)
{
	struct tunnel *t = arg;

	forwards_unopened(t->fwds, target, fd);
}

static const struct session_cbs session_callbacks = {
    .up = session_up_cb,
    .down = session_down_cb,
    .accepted = session_accepted_cb,
    .executed = session_executed_cb,
    .listening = session_listening_cb,
    .unopened = session_unopened_cb,
};

/* --- connecting --------------------------------------------------------- */

static void
tunnel_connect(struct tunnel *t)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "\"host\":");
	strbuf_add_json(&b, strv_of(options_host(t->o)));
	strbuf_addf(&b, ",\"port\":%u", options_port(t->o));
	status_emit(t->status, "connecting", b.s);
	strbuf_clear(&b);
	link_open(t->link);
}

/* --- life --------------------------------------------------------------- */

static const struct forwards_cbs forwards_callbacks = {
    .settled = tunnel_settled,
    .wanted = tunnel_wanted,
};

struct tunnel *
tunnel_new(struct loop *l, const struct options *o, struct status *st)
{
	struct tunnel *t = xcalloc(1, sizeof(*t));
	struct strbuf warn = {0};
	struct strv rest, line;

	t->loop = l;
	t->o = o;
	t->status = st;
	t->auth = auth_load(o, &warn);
	rest = (struct strv){warn.s, warn.len};
	while (strv_cut(&rest, '\n', &line))
		if (line.len > 0)
			say(o, OPT_LOG_ERROR, "%.*s", STRV_ARG(line));
	strbuf_clear(&warn);
	t->fwds = forwards_new(l, o, &forwards_callbacks, t);
	t->link = link_new(l, o, t->auth, &session_callbacks, t);
	backoff_init(&t->backoff, o->backoff_cap);
	timer_init(&t->retry, l, tunnel_retry_cb, t);
	timer_init(&t->reclaim, l, tunnel_reclaimed, t);
	return t;
}

void
tunnel_start(struct tunnel *t)
{
	/* Who retries for ever takes connections from the first moment. */
	if (t->o->forever && forwards_listen(t->fwds) > 0 &&
	    t->o->exit_on_failure) {
		tunnel_end(t, EXIT_SSH);
		return;
	}
	tunnel_connect(t);
}

void
tunnel_stop(struct tunnel *t)
{
	if (t->stopping)
		return;
	session_goodbye(link_session(t->link));
	status_emit(t->status, "stopped", "");
	tunnel_end(t, EXIT_SSH);
}

int
tunnel_exit_code(const struct tunnel *t)
{
	return t->code;
}

void
tunnel_free(struct tunnel *t)
{
	if (t == NULL)
		return;
	timer_clear(&t->retry);
	timer_clear(&t->reclaim);
	link_free(t->link);
	spread_free(t->spread);
	forwards_free(t->fwds);
	auth_free(t->auth);
	free(t);
}
