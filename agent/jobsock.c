/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to job.sock; see the header. */
#include "config.h"

#include "agent/jobsock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define CONNS_MAX 16

struct jobsock_conn {
	struct jobsock *sock;
	struct seqpkt *sp; /* NULL: free */
};

struct jobsock {
	struct loop *loop;
	struct listener *listener;
	const struct jobsock_cbs *cbs;
	void *arg;
	struct jobsock_conn conns[CONNS_MAX];
};

static void
conn_close(struct jobsock_conn *c)
{
	if (c->sp != NULL)
		seqpkt_close(c->sp);
	c->sp = NULL;
}

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct jobsock_conn *c = arg;

	fd_close(&fd);
	if (c->sp == sp)
		c->sock->cbs->order(c, msg, c->sock->arg);
}

static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct jobsock_conn *c = arg;

	if (c->sp == sp)
		conn_close(c);
}

/* Only root and our own user: the file's mode says so too. */
static bool
may_order(struct seqpkt *sp)
{
	uid_t uid;
	pid_t pid;

	return seqpkt_peer(sp, &uid, &pid) == 0 &&
	       (uid == 0 || uid == geteuid());
}

static void
take(struct jobsock *s, int fd)
{
	static const struct seqpkt_cbs cbs = {message_cb, closed_cb};
	struct jobsock_conn *c = NULL;

	for (size_t i = 0; i < CONNS_MAX && c == NULL; i++)
		if (s->conns[i].sp == NULL)
			c = &s->conns[i];
	if (c == NULL) {
		(void)close(fd);
		return;
	}
	c->sock = s;
	c->sp = seqpkt_take_fd(s->loop, fd, &cbs, c);
	if (may_order(c->sp))
		s->cbs->greet(c, s->arg);
	else
		conn_close(c);
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	(void)peer;
	take(arg, fd);
}

struct jobsock *
jobsock_new(struct loop *l, int listen_fd, int first_fd,
	    const struct jobsock_cbs *cbs, void *arg)
{
	struct jobsock *s = xcalloc(1, sizeof(*s));

	s->loop = l;
	s->cbs = cbs;
	s->arg = arg;
	s->listener = listener_take_fd(l, listen_fd, accepted_cb, s);
	if (first_fd != -1)
		take(s, first_fd);
	return s;
}

void
jobsock_free(struct jobsock *s)
{
	listener_close(s->listener);
	for (size_t i = 0; i < CONNS_MAX; i++)
		conn_close(&s->conns[i]);
	free(s);
}

static void vsay(struct jobsock_conn *c, const char *fmt, va_list ap)
    SBX_PRINTF(2, 0);

static void
vsay(struct jobsock_conn *c, const char *fmt, va_list ap)
{
	char text[1200];
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	size_t len = n < 0 ? 0 : (size_t)n;

	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	if (c->sp != NULL &&
	    seqpkt_send(c->sp, (struct strv){text, len}, -1) != 0)
		conn_close(c);
}

void
jobsock_say(struct jobsock_conn *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(c, fmt, ap);
	va_end(ap);
}

void
jobsock_say_all(struct jobsock *s, const char *fmt, ...)
{
	va_list ap;

	for (size_t i = 0; i < CONNS_MAX; i++) {
		va_start(ap, fmt);
		vsay(&s->conns[i], fmt, ap);
		va_end(ap);
	}
}
