/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening sockets: opened once for an address, kept as long as some
 * configuration wants it. A socket is never closed because there are fewer
 * workers than before: connections in its queue would be reset.
 */
#include "config.h"

#include "gateway/sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/listener.h"

struct sock {
	struct addr wanted; /* as configured, port 0 and all */
	unsigned twin;
	struct addr actual;
	int *fds;
	unsigned n;
};

struct sockets {
	struct sock *v;
	size_t n;
	bool reuseport;
};

struct sockets *
sockets_new(bool reuseport)
{
	struct sockets *s = xcalloc(1, sizeof(*s));

	s->reuseport = reuseport;
	return s;
}

static void
sock_clear(struct sock *k)
{
	for (unsigned i = 0; i < k->n; i++)
		fd_close(&k->fds[i]);
	if (k->n != 0 && addr_is_unix(&k->actual) &&
	    k->actual.u.un.sun_path[0] == '/')
		(void)unlink(k->actual.u.un.sun_path);
	free(k->fds);
	memset(k, 0, sizeof(*k));
}

void
sockets_free(struct sockets *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++)
		sock_clear(&s->v[i]);
	free(s->v);
	free(s);
}

static bool
is_for(const struct sock *k, const struct gw_listen *l)
{
	return gwconf_same_addr(&k->wanted, &l->addr) && k->twin == l->twin;
}

static struct sock *
find(struct sockets *s, const struct gw_listen *l)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_for(&s->v[i], l))
			return &s->v[i];
	return NULL;
}

/* With SO_REUSEPORT a second gateway could take a share of the connections
 * without anybody noticing, so the first socket of an address must also get it
 * the ordinary way. */
static int
probe(const struct addr *a)
{
	struct listen_options o = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	int fd, r;

	if ((r = listener_bind(a, &o, &fd)) == 0)
		fd_close(&fd);
	return r;
}

static int
open_one(struct sockets *s, struct sock *k, const struct gw_listen *l)
{
	struct listen_options o = {.mode = l->mode,
				   .backlog = 4096,
				   .uid = (uid_t)-1,
				   .gid = (gid_t)-1};
	bool unix_path = addr_is_unix(&l->addr);
	struct addr a = k->n == 0 ? k->wanted : k->actual;
	int fd, r;

	o.reuseport = !unix_path && s->reuseport;
	if (k->n == 0 && o.reuseport && addr_port(&a) != 0 &&
	    (r = probe(&a)) != 0)
		return r;
	if ((r = listener_bind(&a, &o, &fd)) != 0)
		return r;
	if (k->n == 0) {
		k->actual.len = sizeof(k->actual.u);
		if (getsockname(fd, &k->actual.u.sa, &k->actual.len) != 0 ||
		    unix_path)
			k->actual = k->wanted;
	}
	k->fds = xreallocarray(k->fds, k->n + 1, sizeof(int));
	k->fds[k->n++] = fd;
	return 0;
}

static int
open_listener(struct sockets *s, const struct gw_listen *l, unsigned n)
{
	struct sock fresh = {0};
	struct sock *k = find(s, l);
	int r = 0;

	if (addr_is_unix(&l->addr) || l->admin || !s->reuseport)
		n = 1;
	if (k == NULL) {
		fresh.wanted = l->addr;
		fresh.twin = l->twin;
		k = &fresh;
	} else if (addr_is_unix(&l->addr)) {
		(void)chmod(l->addr.u.un.sun_path, l->mode);
	}
	while (r == 0 && k->n < n)
		r = open_one(s, k, l);
	if (k != &fresh)
		return r;
	if (r != 0) {
		sock_clear(&fresh);
		return r;
	}
	s->v = xreallocarray(s->v, s->n + 1, sizeof(*s->v));
	s->v[s->n++] = fresh;
	return 0;
}

static const char *
why(int r, int eno)
{
	switch (r) {
	case E_BUSY:
		return "in use by another program";
	case E_EXISTS:
		return "something that is not a socket has that name";
	case E_SYS:
		return strerror(eno);
	}
	return err_text(r);
}

int
sockets_open(struct sockets *s, const struct gw_conf *conf, unsigned n,
	     char **msg)
{
	size_t before = s->n;

	for (size_t i = 0; i < conf->nlistens; i++) {
		int r = open_listener(s, &conf->listens[i], n);
		int eno = errno;

		if (r == 0)
			continue;
		*msg = xasprintf("cannot listen on %s: %s",
				 conf->listens[i].text, why(r, eno));
		while (s->n > before)
			sock_clear(&s->v[--s->n]);
		return r;
	}
	return 0;
}

void
sockets_prune(struct sockets *s, const struct gw_conf *conf)
{
	size_t k = 0;

	for (size_t i = 0; i < s->n; i++) {
		bool wanted = false;

		for (size_t j = 0; j < conf->nlistens; j++)
			wanted = wanted || is_for(&s->v[i], &conf->listens[j]);
		if (wanted)
			s->v[k++] = s->v[i];
		else
			sock_clear(&s->v[i]);
	}
	s->n = k;
}

void
sockets_each(struct sockets *s, const struct gw_listen *l, unsigned index,
	     unsigned n, void (*fn)(int fd, void *arg), void *arg)
{
	struct sock *k = find(s, l);

	if (k == NULL)
		return;
	for (unsigned i = 0; i < k->n; i++)
		if (k->n == 1 || i % n == index)
			fn(k->fds[i], arg);
}

void
sockets_text(struct sockets *s, const struct gw_listen *l, struct strbuf *out)
{
	char buf[ADDR_TEXT_MAX];
	struct sock *k = find(s, l);
	const struct addr *a = k != NULL ? &k->actual : &l->addr;

	if (!addr_is_unix(a))
		strbuf_adds(out, l->tls ? "https://" : "http://");
	strbuf_adds(out, addr_text(a, buf));
}
