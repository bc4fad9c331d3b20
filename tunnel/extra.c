/* SPDX-License-Identifier: Apache-2.0 */
/* A further SSH connection: kept up, and given work. */
#include "config.h"

#include "tunnel/extra.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/str.h"
#include "base/token.h"
#include "net/addr.h"
#include "net/loop.h"
#include "net/seqpkt.h"
#include "tunnel/backoff.h"
#include "tunnel/chan.h"
#include "tunnel/link.h"
#include "tunnel/options.h"
#include "tunnel/session.h"
#include "tunnel/spec.h"

struct extra {
	struct loop *loop;
	const struct options *o;
	struct seqpkt *sp;
	struct link *link;
	struct backoff backoff;
	struct timer retry;
	uint64_t given;
	uint64_t told_given;
	uint64_t told_done;
	unsigned told_opening;
};

/* A message that cannot be sent means that the tunnel is stuck or gone: there
 * is nobody to work for. */
static void
extra_sent(struct extra *x, int r)
{
	if (r != 0)
		loop_stop(x->loop);
}

static void
extra_load(void *arg)
{
	struct extra *x = arg;
	struct session *s = link_session(x->link);
	uint64_t done = x->given - session_channels(s);
	unsigned opening = session_opening(s);

	if (x->given == x->told_given && done == x->told_done &&
	    opening == x->told_opening)
		return;
	x->told_given = x->given;
	x->told_done = done;
	x->told_opening = opening;
	extra_sent(x, seqpkt_sendf(x->sp, -1, "load %llu %llu %u",
				   (unsigned long long)x->given,
				   (unsigned long long)done, opening));
}

static void
extra_back(struct extra *x, size_t i, int fd)
{
	extra_sent(x, seqpkt_sendf(x->sp, fd, "back %zu", i));
	fd_close(&fd);
}

/* --- the session's callbacks -------------------------------------------- */

static void
extra_up(void *arg)
{
	struct extra *x = arg;

	backoff_up(&x->backoff, loop_now_ms(x->loop));
	extra_sent(x, seqpkt_sendf(x->sp, -1, "up"));
}

static void
extra_down(enum session_end end, const char *text, void *arg)
{
	struct extra *x = arg;
	uint32_t rnd;

	(void)end;
	extra_sent(x, seqpkt_sendf(x->sp, -1, "down %s", text));
	link_close(x->link);
	extra_load(x);
	token_random(&rnd, sizeof(rnd));
	timer_set(&x->retry,
		  backoff_next(&x->backoff, loop_now_ms(x->loop), rnd));
}

static void
extra_unopened(const struct spec_end *target, int fd, void *arg)
{
	struct extra *x = arg;

	for (size_t i = 0; i < x->o->nforwards; i++)
		if (&x->o->forwards[i]->target == target) {
			extra_back(x, i, fd);
			return;
		}
	fd_close(&fd);
}

static const struct session_cbs extra_session_cbs = {
    .up = extra_up,
    .down = extra_down,
    .unopened = extra_unopened,
    .load = extra_load,
};

static void
extra_retry_cb(void *arg)
{
	struct extra *x = arg;

	link_open(x->link);
}

/* --- work --------------------------------------------------------------- */

static void
extra_open(struct extra *x, size_t i, int fd)
{
	struct session *s = link_session(x->link);
	struct addr peer = {.len = sizeof(peer.u)};

	if (!session_is_up(s)) {
		extra_back(x, i, fd);
		return;
	}
	if (getpeername(fd, &peer.u.sa, &peer.len) != 0)
		peer.u.sa.sa_family = AF_UNIX; /* gone: nobody will look */
	chan_open(s, &x->o->forwards[i]->target, fd, &peer);
}

static void
extra_message(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct extra *x = arg;
	struct strv word;
	uint64_t i;

	(void)sp;
	if (fd < 0 || !strv_cut(&msg, ' ', &word) ||
	    !strv_eq(word, STRV("open")) ||
	    strv_parse_u64(msg, UINT32_MAX, true, &i) != 0 ||
	    i >= x->o->nforwards) {
		fd_close(&fd);
		return;
	}
	x->given++;
	extra_open(x, (size_t)i, fd);
}

static void
extra_closed(struct seqpkt *sp, void *arg)
{
	struct extra *x = arg;

	(void)sp;
	loop_stop(x->loop);
}

static const struct seqpkt_cbs extra_cbs = {
    .message = extra_message,
    .closed = extra_closed,
};

void
extra_run(const struct options *o, const struct auth *a, int fd)
{
	struct extra x = {.o = o};

	x.loop = loop_new();
	x.sp = seqpkt_take_fd(x.loop, fd, &extra_cbs, &x);
	x.link = link_new(x.loop, o, a, &extra_session_cbs, &x);
	backoff_init(&x.backoff, o->backoff_cap);
	timer_init(&x.retry, x.loop, extra_retry_cb, &x);
	link_open(x.link);
	loop_run(x.loop);
	session_goodbye(link_session(x.link));
	timer_clear(&x.retry);
	link_free(x.link);
	seqpkt_close(x.sp);
	loop_free(x.loop);
}
