/* SPDX-License-Identifier: Apache-2.0 */
/* Further connections: their processes, and who gets the next channel. */
#include "config.h"

#include "tunnel/spread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/loop.h"
#include "net/seqpkt.h"
#include "tunnel/extra.h"
#include "tunnel/options.h"
#include "tunnel/session.h"

#define SPREAD_PAUSE_MS 1000 /* before one that died is started again */
#define OPENING_WEIGHT  4    /* who waits for an answer is slow */

struct member {
	struct spread *all;
	pid_t pid; /* 0: none */
	struct seqpkt *sp;
	struct timer restart;
	bool up;
	uint64_t given;
	uint64_t seen; /* of those, at its last report */
	uint64_t done;
	uint64_t opening;
};

struct spread {
	struct loop *loop;
	struct options o; /* a borrowed copy that says nothing */
	const struct auth *auth;
	const struct spread_cbs *cbs;
	void *arg;
	size_t n;
	struct member v[];
};

static const struct seqpkt_cbs member_cbs;

/* --- processes ---------------------------------------------------------- */

/* In the child: nothing of the tunnel's but the end of the pair. */
static void
member_child(const struct spread *sd, int fd, pid_t parent, const sigset_t *old)
{
	static const int sigs[] = {SIGTERM, SIGINT, SIGHUP};

	for (size_t i = 0; i < ARRAY_LEN(sigs); i++)
		(void)signal(sigs[i], SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(255);
	if (dup2(fd, STDERR_FILENO + 1) < 0)
		_exit(255);
	(void)close_range(STDERR_FILENO + 2, ~0U, 0);
	(void)!fd_set_cloexec(STDERR_FILENO + 1, true);
	sigprocmask(SIG_SETMASK, old, NULL);
	extra_run(&sd->o, sd->auth, STDERR_FILENO + 1);
	_exit(0);
}

static void
member_start(struct member *m)
{
	pid_t parent = getpid();
	sigset_t all, old;
	int fds[2];

	if (seqpkt_pair(fds) != 0) {
		timer_set(&m->restart, SPREAD_PAUSE_MS);
		return;
	}
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	m->pid = fork();
	if (m->pid == 0)
		member_child(m->all, fds[1], parent, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	fd_close(&fds[1]);
	if (m->pid < 0) {
		log_error("connection.fork", "errno=%d", errno);
		m->pid = 0;
		fd_close(&fds[0]);
		timer_set(&m->restart, SPREAD_PAUSE_MS);
		return;
	}
	m->given = m->seen = m->done = m->opening = 0;
	m->sp = seqpkt_take_fd(m->all->loop, fds[0], &member_cbs, m);
}

static void
member_end(struct member *m)
{
	seqpkt_close(m->sp);
	m->sp = NULL;
	m->up = false;
	if (m->pid > 0) {
		kill(m->pid, SIGTERM);
		(void)waitpid(m->pid, NULL, 0);
	}
	m->pid = 0;
}

static void
member_restart_cb(void *arg)
{
	member_start(arg);
}

/* --- what they say ------------------------------------------------------ */

static void
member_down(struct member *m, const char *reason)
{
	struct spread *sd = m->all;
	bool was = m->up;

	m->up = false;
	if (was)
		sd->cbs->changed(reason, sd->arg);
	else
		log_debug("connection.down", "reason=%s",
			  log_esc(strv_of(reason)));
}

static void
member_closed(struct seqpkt *sp, void *arg)
{
	struct member *m = arg;

	(void)sp;
	log_error("connection.died", "pid=%d", (int)m->pid);
	member_down(m, "its process died");
	member_end(m);
	timer_set(&m->restart, SPREAD_PAUSE_MS);
}

static void
member_load(struct member *m, struct strv text)
{
	struct strv given, done;
	uint64_t g, d, o;

	if (strv_cut(&text, ' ', &given) && strv_cut(&text, ' ', &done) &&
	    strv_parse_u64(given, m->given, true, &g) == 0 &&
	    strv_parse_u64(done, g, true, &d) == 0 &&
	    strv_parse_u64(text, UINT32_MAX, true, &o) == 0) {
		m->seen = g;
		m->done = d;
		m->opening = o;
	}
}

static void
member_message(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct member *m = arg;
	struct spread *sd = m->all;
	struct strv word, rest = msg;
	uint64_t i;

	(void)sp;
	(void)strv_cut(&rest, ' ', &word);
	if (strv_eq(word, STRV("load"))) {
		member_load(m, rest);
	} else if (strv_eq(word, STRV("up"))) {
		m->up = true;
		sd->cbs->changed(NULL, sd->arg);
	} else if (strv_eq(word, STRV("down"))) {
		member_down(m, rest.p); /* ends with a NUL */
	} else if (strv_eq(word, STRV("back")) && fd >= 0 &&
		   strv_parse_u64(rest, UINT32_MAX, true, &i) == 0 &&
		   i < sd->o.nforwards) {
		sd->cbs->back((size_t)i, fd, sd->arg);
		return;
	}
	fd_close(&fd);
}

static const struct seqpkt_cbs member_cbs = {
    .message = member_message,
    .closed = member_closed,
};

/* --- who gets it -------------------------------------------------------- */

static uint64_t
member_load_now(const struct member *m)
{
	uint64_t opening = m->opening + m->given - m->seen;

	return m->given - m->done + OPENING_WEIGHT * opening;
}

int
spread_give(struct spread *sd, const struct session *own, size_t fwd, int fd)
{
	struct member *best = NULL;
	uint64_t least = UINT64_MAX, load;

	if (own != NULL)
		least = session_channels(own) +
			OPENING_WEIGHT * (uint64_t)session_opening(own);
	for (size_t i = 0; i < sd->n; i++) {
		load = member_load_now(&sd->v[i]);
		if (sd->v[i].up && load < least) {
			best = &sd->v[i];
			least = load;
		}
	}
	if (best == NULL || seqpkt_sendf(best->sp, fd, "open %zu", fwd) != 0)
		return E_AGAIN;
	best->given++;
	fd_close(&fd);
	return 0;
}

unsigned
spread_up(const struct spread *sd)
{
	unsigned n = 0;

	for (size_t i = 0; sd != NULL && i < sd->n; i++)
		n += sd->v[i].up;
	return n;
}

/* --- life --------------------------------------------------------------- */

struct spread *
spread_new(struct loop *l, const struct options *o, const struct auth *a,
	   const struct spread_cbs *cbs, void *arg)
{
	size_t n = (size_t)o->connections - 1;
	struct spread *sd = xcalloc(1, sizeof(*sd) + n * sizeof(struct member));

	sd->loop = l;
	sd->o = *o;
	sd->o.log = OPT_LOG_QUIET;
	sd->auth = a;
	sd->cbs = cbs;
	sd->arg = arg;
	sd->n = n;
	for (size_t i = 0; i < n; i++) {
		sd->v[i].all = sd;
		timer_init(&sd->v[i].restart, l, member_restart_cb, &sd->v[i]);
		member_start(&sd->v[i]);
	}
	return sd;
}

void
spread_free(struct spread *sd)
{
	if (sd == NULL)
		return;
	for (size_t i = 0; i < sd->n; i++) {
		timer_clear(&sd->v[i].restart);
		member_end(&sd->v[i]);
	}
	free(sd);
}
