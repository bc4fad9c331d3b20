/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers as the master sees them. A member goes WANTED (to be forked),
 * STARTING, READY, RETIRING, and is then taken off the list; one that dies
 * while it should serve is WANTED again, after a pause if it keeps dying.
 */
#include "config.h"

#include "gateway/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/certs.h"
#include "gateway/crew_int.h"
#include "gateway/crewchild.h"
#include "gateway/sockets.h"
#include "gateway/statmsg.h"
#include "gateway/worker.h"
#include "net/loop.h"
#include "net/seqpkt.h"
#include "net/tlsctx.h"

#define YOUNG_MS      1000
#define BACKOFF_MS    100
#define BACKOFF_MAX   5000
#define LISTENERS_MAX 1024

/* --- generations ------------------------------------------------------- */
static void
generation_unref(struct generation *g)
{
	if (g == NULL || --g->refs > 0)
		return;
	for (size_t i = 0; i < g->conf->nlistens; i++)
		tlsctx_unref(g->tls[i]);
	free(g->tls);
	gwconf_free(g->conf);
	free(g);
}

static int
generation_load(struct crew *c, struct gw_conf *conf, struct generation **out,
		char **msg)
{
	struct tlsctx **tls = xcalloc(conf->nlistens + 1, sizeof(*tls));
	struct generation *g;
	int r = 0;

	for (size_t i = 0; r == 0 && i < conf->nlistens; i++)
		if (conf->listens[i].tls)
			r = certs_load(conf, &conf->listens[i], &tls[i], msg);
	if (r != 0) {
		for (size_t i = 0; i < conf->nlistens; i++)
			tlsctx_unref(tls[i]);
		free(tls);
		return r;
	}
	g = xcalloc(1, sizeof(*g));
	g->conf = conf;
	g->tls = tls;
	g->refs = 1;
	g->number = c->newest != NULL ? c->newest->number + 1 : 1;
	*out = g;
	return 0;
}

/* --- members ----------------------------------------------------------- */
static void member_start_inside(struct crew_member *m);

static void
want_fork(struct crew *c)
{
	c->due = true;
	loop_stop(c->o.loop);
}

static void
retry_cb(void *arg)
{
	struct crew_member *m = arg;

	if (m->crew->o.single)
		member_start_inside(m);
	else
		want_fork(m->crew);
}

static struct crew_member *
member_new(struct crew *c, struct generation *g, unsigned index)
{
	struct crew_member *m = xcalloc(1, sizeof(*m));

	m->crew = c;
	m->gen = g;
	g->refs++;
	m->index = index;
	m->number = ++c->last_number;
	timer_init(&m->retry, c->o.loop, retry_cb, m);
	m->next = c->members;
	c->members = m;
	return m;
}

static void
member_free(void *arg)
{
	struct crew_member *m = arg;

	timer_clear(&m->retry);
	generation_unref(m->gen);
	free(m);
}

static void
member_remove(struct crew_member *m)
{
	struct crew *c = m->crew;
	struct crew_member **pp = &c->members;

	while (*pp != m)
		pp = &(*pp)->next;
	*pp = m->next;
	timer_stop(&m->retry);
	loop_defer_free(c->o.loop, m, member_free);
}

/* Its process (or its worker in this one) is gone. */
static void
member_ended(struct crew_member *m)
{
	struct crew *c = m->crew;
	uint64_t lived = loop_now_ms(c->o.loop) - m->started_ms;
	uint64_t pause = 0;

	if (m->channel != NULL)
		seqpkt_close(m->channel);
	m->channel = NULL;
	m->reaped = false;
	m->asked = 0;
	statmsg_sum(&c->past, &m->last, false);
	memset(&m->last, 0, sizeof(m->last));
	if (c->draining || m->state == MEMBER_RETIRING || m->gen != c->newest) {
		member_remove(m);
	} else {
		m->state = MEMBER_WANTED;
		m->quick_deaths = lived < YOUNG_MS ? m->quick_deaths + 1 : 0;
		if (m->quick_deaths > 1)
			pause = (uint64_t)BACKOFF_MS
				<< (m->quick_deaths < 8 ? m->quick_deaths : 8);
		if (pause > BACKOFF_MAX)
			pause = BACKOFF_MAX;
		if (pause != 0)
			timer_set(&m->retry, pause);
		else
			retry_cb(m);
	}
	crewstats_check(c);
	c->o.changed(c->o.arg);
}

static void
drain(struct crew_member *m, uint64_t ms)
{
	char buf[40];

	snprintf(buf, sizeof(buf), "drain %llu", (unsigned long long)ms);
	m->state = MEMBER_RETIRING;
	m->told_to_end = true;
	if (crew_send(m, strv_of(buf), -1) != 0 && m->pid != 0)
		(void)kill(m->pid, SIGKILL);
}

/* A tunnel may keep a retired worker for days, and reload after reload would
 * pile them up: beyond a number of configurations they get a deadline. */
static void
end_oldest(struct crew *c)
{
	const struct gw_conf *conf = c->newest->conf;

	for (struct crew_member *m = c->members; m != NULL; m = m->next) {
		if (m->state != MEMBER_RETIRING || m->told_to_end ||
		    m->gen->number + conf->limits.retired >= c->newest->number)
			continue;
		log_info("worker.too_old",
			 "worker=%u pid=%ld generation=%u deadline_ms=%llu",
			 m->index, (long)m->pid, m->gen->number,
			 (unsigned long long)conf->t.drain);
		drain(m, conf->t.drain);
	}
}

/* Everybody of the newest generation accepts: the others may go. */
static void
retire_old(struct crew *c)
{
	struct crew_member *m, *next;

	for (m = c->members; m != NULL; m = m->next)
		if (m->gen == c->newest && m->state != MEMBER_READY)
			return;
	for (m = c->members; m != NULL; m = next) {
		next = m->next;
		if (m->gen == c->newest || m->state == MEMBER_RETIRING)
			continue;
		if (m->state == MEMBER_WANTED) {
			member_remove(m);
			continue;
		}
		m->state = MEMBER_RETIRING;
		if (crew_send(m, STRV("retire"), -1) != 0 && m->pid != 0)
			(void)kill(m->pid, SIGKILL);
	}
	end_oldest(c);
}

static void
said_stats(struct crew_member *m, struct strv rest)
{
	struct strv word;
	uint64_t n;

	if (!strv_cut(&rest, ' ', &word) ||
	    strv_parse_u64(word, UINT64_MAX, true, &n) != 0 ||
	    statmsg_parse(rest, &m->last) != 0)
		return;
	if (n >= m->asked)
		m->asked = 0;
	crewstats_check(m->crew);
}

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct crew_member *m = arg;
	struct strv rest = msg, verb;

	(void)sp;
	fd_close(&fd); /* workers have none to give */
	m->heard_ms = loop_now_ms(m->crew->o.loop);
	if (!strv_cut(&rest, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("ready"))) {
		if (m->state == MEMBER_STARTING)
			m->state = MEMBER_READY;
		log_debug("worker.ready", "worker=%u pid=%ld", m->index,
			  (long)m->pid);
		retire_old(m->crew);
		m->crew->o.changed(m->crew->o.arg);
	} else if (strv_eq(verb, STRV("stats"))) {
		said_stats(m, rest);
	} else {
		m->crew->o.message(m, msg, m->crew->o.arg);
	}
}

static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct crew_member *m = arg;

	/* Unless SIGCHLD came first, it says the rest. */
	seqpkt_close(sp);
	m->channel = NULL;
	if (m->reaped)
		member_ended(m);
}

static void
member_attach(struct crew_member *m, int fd)
{
	static const struct seqpkt_cbs cbs = {message_cb, closed_cb};

	m->channel = seqpkt_take_fd(m->crew->o.loop, fd, &cbs, m);
	m->state = MEMBER_STARTING;
	m->started_ms = loop_now_ms(m->crew->o.loop);
	m->heard_ms = m->started_ms;
}

/* --- starting ---------------------------------------------------------- */
struct listeners {
	struct worker_listener *v;
	size_t n;
	struct worker_listener next;
};

static void
add_listener(int fd, void *arg)
{
	struct listeners *l = arg;

	if (l->n == LISTENERS_MAX)
		return;
	l->v = xreallocarray(l->v, l->n + 1, sizeof(*l->v));
	l->next.fd = fd;
	l->v[l->n++] = l->next;
}

static void
collect_listeners(struct crew_member *m, struct listeners *l)
{
	const struct gw_conf *conf = m->gen->conf;

	for (size_t i = 0; i < conf->nlistens; i++) {
		if (conf->listens[i].admin)
			continue;
		l->next.conf = &conf->listens[i];
		l->next.tls = m->gen->tls[i];
		sockets_each(m->crew->o.sockets, &conf->listens[i], m->index,
			     m->gen->n, add_listener, l);
	}
}

static void
worker_options_of(struct crew_member *m, struct listeners *l, int channel,
		  struct worker_options *o)
{
	struct crew *c = m->crew;

	collect_listeners(m, l);
	*o = (struct worker_options){.loop = c->o.loop,
				     .conf = m->gen->conf,
				     .index = m->index,
				     .channel = channel,
				     .listeners = l->v,
				     .nlisteners = l->n,
				     .direct = !m->gen->user.drop,
				     .routes = c->o.routes,
				     .tickets = c->o.tickets};
}

static void
inside_exited(struct worker *w, void *arg)
{
	struct crew_member *m = arg;

	m->inside = NULL;
	memset(&m->last, 0, sizeof(m->last));
	statmsg_sum(&m->crew->past, worker_stats(w), false);
	worker_free(w);
	member_ended(m);
}

static void
member_start_inside(struct crew_member *m)
{
	struct worker_options o;
	struct listeners l = {0};
	int fds[2];

	if (seqpkt_pair(fds) != 0) {
		log_error("worker.start", "error=\"%s\"", strerror(errno));
		timer_set(&m->retry, BACKOFF_MAX);
		return;
	}
	member_attach(m, fds[0]);
	worker_options_of(m, &l, fds[1], &o);
	for (size_t i = 0; i < l.n; i++) {
		l.v[i].fd = fcntl(l.v[i].fd, F_DUPFD_CLOEXEC, 3);
		if (l.v[i].fd < 0)
			log_fatal("worker.start", "error=\"%s\"",
				  strerror(errno));
	}
	o.exited = inside_exited;
	o.arg = m;
	m->inside = worker_start(&o);
	free(l.v);
}

static void
member_fork(struct crew_member *m)
{
	struct worker_options o;
	struct listeners l = {0};
	sigset_t all, old;
	pid_t pid, master = getpid();
	int fds[2];

	if (seqpkt_pair(fds) != 0) {
		log_error("worker.start", "error=\"%s\"", strerror(errno));
		timer_set(&m->retry, BACKOFF_MAX);
		return;
	}
	worker_options_of(m, &l, fds[1], &o);
	/* Until the child has its own handlers a signal would be written into
	 * the master's pipe. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	pid = fork();
	if (pid == 0) {
		/* exit() from here: the master's memory is still held by the
		 * frames below, as a leak checker sees it. */
		exit(crewchild_run(&o, master, &m->gen->user, &old));
	}
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	free(l.v);
	fd_close(&fds[1]);
	if (pid < 0) {
		log_error("worker.fork", "error=\"%s\"", strerror(errno));
		fd_close(&fds[0]);
		timer_set(&m->retry, BACKOFF_MAX);
		return;
	}
	m->pid = pid;
	member_attach(m, fds[0]);
	log_debug("worker.start", "worker=%u pid=%ld generation=%u", m->index,
		  (long)pid, m->gen->number);
}

bool
crew_due(const struct crew *c)
{
	return c->due;
}

void
crew_fork(struct crew *c)
{
	c->due = false;
	for (struct crew_member *m = c->members; m != NULL; m = m->next)
		if (m->state == MEMBER_WANTED && !timer_running(&m->retry) &&
		    !c->draining)
			member_fork(m);
}

void
crew_reap(struct crew *c)
{
	struct crew_member *m, *next;
	int st;

	for (m = c->members; m != NULL; m = next) {
		next = m->next;
		if (m->pid == 0 || waitpid(m->pid, &st, WNOHANG) != m->pid)
			continue;
		if (m->state != MEMBER_RETIRING && !c->draining) {
			c->deaths++;
			log_error(
			    "worker.died",
			    "worker=%u pid=%ld %s=%d action=replace", m->index,
			    (long)m->pid, WIFSIGNALED(st) ? "signal" : "status",
			    WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
		}
		/* What it still said is read before it is forgotten. */
		m->pid = 0;
		m->reaped = true;
		if (m->channel == NULL)
			member_ended(m);
	}
}

/* --- the crew ---------------------------------------------------------- */
struct crew *
crew_new(const struct crew_options *o)
{
	struct crew *c = xcalloc(1, sizeof(*c));

	c->o = *o;
	crewstats_watch(c);
	return c;
}

int
crew_enter(struct crew *c, struct gw_conf *conf, unsigned n,
	   const struct state_user *user, char **msg)
{
	struct generation *g;
	int r;

	if ((r = generation_load(c, conf, &g, msg)) != 0)
		return r;
	g->n = n;
	g->user = *user;
	generation_unref(c->newest);
	c->newest = g;
	for (unsigned i = 0; i < n; i++) {
		struct crew_member *m = member_new(c, g, i);

		if (c->o.single)
			member_start_inside(m);
	}
	if (!c->o.single)
		want_fork(c);
	return 0;
}

const struct gw_conf *
crew_conf(const struct crew *c)
{
	return c->newest->conf;
}

void
crew_free(struct crew *c)
{
	struct crew_member *m;

	if (c == NULL)
		return;
	crew_kill(c);
	crewstats_forget(c);
	timer_clear(&c->look);
	while ((m = c->members) != NULL) {
		if (m->inside != NULL)
			worker_free(m->inside);
		if (m->channel != NULL)
			seqpkt_close(m->channel);
		if (m->pid != 0)
			(void)waitpid(m->pid, NULL, 0);
		member_remove(m);
	}
	generation_unref(c->newest);
	free(c);
}

int
crew_send(struct crew_member *m, struct strv msg, int fd)
{
	if (m->channel == NULL)
		return E_PEER;
	return seqpkt_send(m->channel, msg, fd);
}

void
crew_tell(struct crew *c, struct strv msg)
{
	for (struct crew_member *m = c->members; m != NULL; m = m->next) {
		if (m->channel == NULL || crew_send(m, msg, -1) == 0)
			continue;
		/* It has not read for thousands of messages: its replica
		 * cannot be made right again but by a new worker. */
		log_error("worker.stuck", "worker=%u pid=%ld", m->index,
			  (long)m->pid);
		if (m->pid != 0)
			(void)kill(m->pid, SIGKILL);
	}
}

uint64_t
crew_number(const struct crew_member *m)
{
	return m->number;
}

struct crew_member *
crew_find(struct crew *c, uint64_t number)
{
	for (struct crew_member *m = c->members; m != NULL; m = m->next)
		if (m->number == number)
			return m;
	return NULL;
}

void
crew_drain(struct crew *c, uint64_t ms)
{
	struct crew_member *m, *next;

	c->draining = true;
	for (m = c->members; m != NULL; m = next) {
		next = m->next;
		if (m->state == MEMBER_WANTED) {
			member_remove(m);
			continue;
		}
		drain(m, ms);
	}
}

void
crew_kill(struct crew *c)
{
	c->draining = true;
	for (struct crew_member *m = c->members; m != NULL; m = m->next)
		if (m->pid != 0)
			(void)kill(m->pid, SIGKILL);
}

size_t
crew_alive(const struct crew *c)
{
	size_t n = 0;

	for (const struct crew_member *m = c->members; m != NULL; m = m->next)
		n += m->pid != 0 || m->reaped || m->inside != NULL;
	return n;
}
