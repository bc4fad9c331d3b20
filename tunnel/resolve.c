/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getaddrinfo() in a thread of its own, whose answer comes through a pipe:
 * the system's whole resolver (hosts file, nsswitch, search domains) as ssh
 * has it. A cancelled look-up runs out on its own and frees what it holds.
 */
#include "config.h"

#include "tunnel/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "net/dialer.h"
#include "net/loop.h"

/* Owned by the thread until it wrote the address into the pipe. */
struct lookup {
	char *host;
	uint16_t port;
	int family;
	int err;
	size_t n;
	struct addr addrs[DIAL_ADDRS_MAX];
	int fd; /* write end */
};

struct resolve {
	struct loop *loop;
	resolve_cb cb;
	void *arg;
	int fd; /* read end; -1: known without asking */
	struct event *ev;
	struct task task;
	size_t n;
	struct addr addrs[DIAL_ADDRS_MAX];
	int err;
};

static void
lookup_free(struct lookup *k)
{
	fd_close(&k->fd);
	free(k->host);
	free(k);
}

static void
lookup_run(struct lookup *k)
{
	struct addrinfo hints = {.ai_family = k->family,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list = NULL;
	char port[8];

	snprintf(port, sizeof(port), "%u", k->port);
	k->err = getaddrinfo(k->host, port, &hints, &list);
	for (struct addrinfo *ai = list; k->err == 0 && ai != NULL;
	     ai = ai->ai_next) {
		if (k->n == DIAL_ADDRS_MAX ||
		    ai->ai_addrlen > sizeof(k->addrs[0].u))
			break;
		memcpy(&k->addrs[k->n].u, ai->ai_addr, ai->ai_addrlen);
		k->addrs[k->n++].len = ai->ai_addrlen;
	}
	if (list != NULL)
		freeaddrinfo(list);
	if (k->err == 0 && k->n == 0)
		k->err = EAI_NONAME;
}

static void *
lookup_thread(void *arg)
{
	struct lookup *k = arg;
	int fd = k->fd;

	lookup_run(k);
	k->fd = -1;
	if (write(fd, &k, sizeof(struct lookup *)) !=
	    (ssize_t)sizeof(struct lookup *))
		lookup_free(k);
	close(fd);
	return NULL;
}

static void
resolve_free(struct resolve *r)
{
	task_cancel(&r->task);
	if (r->ev != NULL)
		event_free(r->ev);
	fd_close(&r->fd);
	free(r);
}

static void
resolve_task_cb(void *arg)
{
	struct resolve *r = arg;
	struct addr addrs[DIAL_ADDRS_MAX];
	resolve_cb cb = r->cb;
	void *cb_arg = r->arg;
	size_t n = r->n;
	int err = r->err;

	memcpy(addrs, r->addrs, sizeof(addrs));
	resolve_free(r);
	cb(err, addrs, n, cb_arg);
}

static void
resolve_read_cb(evutil_socket_t fd, short what, void *arg)
{
	struct resolve *r = arg;
	struct lookup *k = NULL;

	(void)what;
	if (read((int)fd, &k, sizeof(struct lookup *)) !=
	    (ssize_t)sizeof(struct lookup *)) {
		r->err = EAI_AGAIN;
	} else {
		r->err = k->err;
		r->n = k->n;
		memcpy(r->addrs, k->addrs, sizeof(r->addrs));
		lookup_free(k);
	}
	resolve_task_cb(r);
}

static void
resolve_thread(struct resolve *r, const char *host, uint16_t port, int family)
{
	struct lookup *k = xcalloc(1, sizeof(*k));
	pthread_attr_t at;
	pthread_t tid;
	int fds[2], err;

	k->host = xstrdup(host);
	k->port = port;
	k->family = family;
	k->fd = -1;
	r->err = EAI_SYSTEM;
	if (pipe2(fds, O_CLOEXEC) != 0) {
		lookup_free(k);
		task_post(r->loop, &r->task);
		return;
	}
	k->fd = fds[1];
	r->fd = fds[0];
	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&tid, &at, lookup_thread, k);
	pthread_attr_destroy(&at);
	if (err != 0) {
		lookup_free(k);
		task_post(r->loop, &r->task);
		return;
	}
	r->ev =
	    event_new(loop_base(r->loop), r->fd, EV_READ, resolve_read_cb, r);
	if (r->ev == NULL || event_add(r->ev, NULL) != 0)
		task_post(r->loop, &r->task);
}

static void
resolve_add(struct resolve *r, int family, const void *ip, uint16_t port)
{
	struct addr *a = &r->addrs[r->n++];

	memset(a, 0, sizeof(*a));
	a->u.sa.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		memcpy(&a->u.in.sin_addr, ip, sizeof(a->u.in.sin_addr));
		a->u.in.sin_port = htons(port);
		a->len = sizeof(a->u.in);
	} else {
		memcpy(&a->u.in6.sin6_addr, ip, sizeof(a->u.in6.sin6_addr));
		a->u.in6.sin6_port = htons(port);
		a->len = sizeof(a->u.in6);
	}
}

static bool
resolve_known(struct resolve *r, const char *host, uint16_t port, int family)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1) {
		resolve_add(r, AF_INET, &v4, port);
		return true;
	}
	if (inet_pton(AF_INET6, host, &v6) == 1) {
		resolve_add(r, AF_INET6, &v6, port);
		return true;
	}
	if (strcasecmp(host, "localhost") != 0)
		return false;
	v4.s_addr = htonl(INADDR_LOOPBACK);
	if (family != AF_INET6)
		resolve_add(r, AF_INET, &v4, port);
	if (family != AF_INET)
		resolve_add(r, AF_INET6, &in6addr_loopback, port);
	return true;
}

struct resolve *
resolve_start(struct loop *l, const char *host, uint16_t port, int family,
	      resolve_cb cb, void *arg)
{
	struct resolve *r = xcalloc(1, sizeof(*r));

	r->loop = l;
	r->cb = cb;
	r->arg = arg;
	r->fd = -1;
	task_init(&r->task, resolve_task_cb, r);
	if (resolve_known(r, host, port, family))
		task_post(l, &r->task);
	else
		resolve_thread(r, host, port, family);
	return r;
}

void
resolve_cancel(struct resolve *r)
{
	struct lookup *k = NULL;

	if (r == NULL)
		return;
	/* An answer that is there already is ours to free. */
	if (r->fd != -1 && fd_set_nonblock(r->fd) == 0 &&
	    read(r->fd, &k, sizeof(struct lookup *)) ==
		(ssize_t)sizeof(struct lookup *))
		lookup_free(k);
	resolve_free(r);
}
