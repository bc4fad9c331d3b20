/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets. Out of descriptors a level-triggered listener would spin
 * on accept(2), so it is paused and looks every STARVED_POLL_MS whether there
 * are some again: those who wait in the backlog are served then. Only when
 * that lasts longer than STARVED_SHED_MS are they turned away, through a
 * descriptor kept in reserve for this, so that they learn it and try
 * elsewhere.
 */
#include "config.h"

#include "net/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#define LISTEN_BACKLOG  1024
#define LISTEN_MODE     0660
#define ACCEPT_MAX      16 /* per callback */
#define STARVED_POLL_MS 50
#define STARVED_SHED_MS 1000
#define SHED_MAX        64 /* per poll */

struct listener {
	struct loop *loop;
	int fd;
	int reserve;
	bool paused;         /* by the owner */
	bool on;             /* ev is in the base */
	uint64_t starved_at; /* 0: not starved */
	unsigned long starved;
	void (*accepted)(int, const struct addr *, void *);
	void *arg;
	struct timer timer;
	struct event ev;
};

/* --- binding ----------------------------------------------------------- */

static int
listener_set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) != 0)
		return E_SYS;
	return 0;
}

/* Accepted sockets inherit these: nothing to set on each. */
static void
listener_tune(int fd)
{
	(void)listener_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	(void)listener_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	(void)listener_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	(void)listener_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
	(void)listener_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

static int
listener_bind_error(int eno)
{
	return eno == EADDRINUSE ? E_BUSY : err_from_errno(eno);
}

static int
listener_bind_tcp(int fd, const struct addr *a, const struct listen_options *o)
{
	int r;

	if ((r = listener_set(fd, SOL_SOCKET, SO_REUSEADDR, 1)) != 0)
		return r;
	if (o->reuseport &&
	    (r = listener_set(fd, SOL_SOCKET, SO_REUSEPORT, 1)) != 0)
		return r;
	if (a->u.sa.sa_family == AF_INET6 &&
	    (r = listener_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, o->v6only)) != 0)
		return r;
	listener_tune(fd);
	if (bind(fd, &a->u.sa, a->len) != 0)
		return listener_bind_error(errno);
	return 0;
}

/* What stands at the path already: 0 when it may be replaced. */
static int
listener_probe(const struct addr *a, int type)
{
	struct stat sb;
	int fd, r = 0;

	if (lstat(a->u.un.sun_path, &sb) != 0)
		return errno == ENOENT ? 0 : err_from_errno(errno);
	if (!S_ISSOCK(sb.st_mode))
		return E_EXISTS;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return err_from_errno(errno);
	/* Refused: its owner is gone. Anything else: somebody is there. */
	if (connect(fd, &a->u.sa, a->len) == 0 || errno != ECONNREFUSED)
		r = E_BUSY;
	else if (unlink(a->u.un.sun_path) != 0 && errno != ENOENT)
		r = err_from_errno(errno);
	(void)close(fd);
	return r;
}

static int
listener_bind_unix(int fd, const struct addr *a, const struct listen_options *o,
		   int type)
{
	const char *path = a->u.un.sun_path;
	mode_t mode = o->mode != 0 ? o->mode : LISTEN_MODE;
	int r;

	if (path[0] != '\0' && (r = listener_probe(a, type)) != 0)
		return r;
	if (bind(fd, &a->u.sa, a->len) != 0)
		return listener_bind_error(errno);
	if (path[0] == '\0')
		return 0;
	/* Nobody can connect before listen(2): no moment of wrong rights. */
	if (chmod(path, mode) != 0 ||
	    ((o->uid != (uid_t)-1 || o->gid != (gid_t)-1) &&
	     lchown(path, o->uid, o->gid) != 0)) {
		r = err_from_errno(errno);
		(void)unlink(path);
		return r;
	}
	return 0;
}

int
listener_bind(const struct addr *a, const struct listen_options *o, int *out)
{
	int type = o->seqpacket ? SOCK_SEQPACKET : SOCK_STREAM;
	int fd, r;

	fd = socket(a->u.sa.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return err_from_errno(errno);
	if (addr_is_unix(a))
		r = listener_bind_unix(fd, a, o, type);
	else
		r = listener_bind_tcp(fd, a, o);
	if (r == 0 &&
	    listen(fd, o->backlog > 0 ? o->backlog : LISTEN_BACKLOG) != 0)
		r = listener_bind_error(errno);
	if (r != 0)
		(void)close(fd);
	else
		*out = fd;
	return r;
}

/* --- accepting --------------------------------------------------------- */

static void
listener_update(struct listener *ls)
{
	bool on = !ls->paused && ls->starved_at == 0 && ls->fd != -1;

	if (on == ls->on)
		return;
	ls->on = on;
	if (!on)
		(void)event_del(&ls->ev);
	else if (event_add(&ls->ev, NULL) != 0)
		log_error("listener.add", "reason=\"epoll refused\"");
}

static int
reserve_open(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void
listener_starve(struct listener *ls)
{
	if (ls->starved_at == 0) {
		ls->starved_at = loop_now_ms(ls->loop);
		ls->starved++;
		log_warn("listener.starved",
			 "reason=\"no descriptor or memory left\" times=%lu",
			 ls->starved);
	}
	timer_set(&ls->timer, STARVED_POLL_MS);
	listener_update(ls);
}

/* Turns those away who have waited too long. */
static void
listener_shed(struct listener *ls)
{
	int i, fd;

	for (i = 0; i < SHED_MAX && ls->reserve != -1; i++) {
		fd_close(&ls->reserve);
		fd = accept4(ls->fd, NULL, NULL, SOCK_CLOEXEC);
		fd_close(&fd);
		ls->reserve = reserve_open();
		if (fd == -1 && (errno == EAGAIN || errno == EMFILE))
			return;
	}
}

static void
listener_timer_cb(void *arg)
{
	struct listener *ls = arg;
	int fd = reserve_open();

	if (ls->reserve == -1) {
		ls->reserve = fd;
		fd = fd == -1 ? -1 : reserve_open();
	}
	if (fd == -1) {
		if (loop_now_ms(ls->loop) - ls->starved_at >= STARVED_SHED_MS)
			listener_shed(ls);
		timer_set(&ls->timer, STARVED_POLL_MS);
		return;
	}
	(void)close(fd);
	ls->starved_at = 0;
	listener_update(ls);
}

static bool
listener_accept(struct listener *ls)
{
	struct addr peer;
	int fd;

	peer.len = sizeof(peer.u);
	peer.u.sa.sa_family = AF_UNSPEC;
	fd = accept4(ls->fd, &peer.u.sa, &peer.len,
		     SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd != -1) {
		ls->accepted(fd, &peer, ls->arg);
		return ls->on;
	}
	switch (errno) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		listener_starve(ls);
		return false;
	case EAGAIN:
		return false;
	}
	/* Somebody gave up while he waited (accept(2) hands over errors of
	 * the new socket): that one is gone, the next may be fine. */
	return true;
}

static void
listener_cb(evutil_socket_t fd, short what, void *arg)
{
	struct listener *ls = arg;
	int i;

	(void)fd;
	(void)what;
	for (i = 0; i < ACCEPT_MAX && ls->on; i++)
		if (!listener_accept(ls))
			return;
}

struct listener *
listener_take_fd(struct loop *l, int fd,
		 void (*accepted)(int, const struct addr *, void *), void *arg)
{
	struct listener *ls = xcalloc(1, sizeof(*ls));

	ls->loop = l;
	ls->fd = fd;
	ls->reserve = reserve_open();
	ls->accepted = accepted;
	ls->arg = arg;
	timer_init(&ls->timer, l, listener_timer_cb, ls);
	if (event_assign(&ls->ev, loop_base(l), fd, EV_READ | EV_PERSIST,
			 listener_cb, ls) != 0)
		log_fatal("listener.new", "reason=\"cannot make an event\"");
	listener_update(ls);
	return ls;
}

void
listener_pause(struct listener *ls)
{
	ls->paused = true;
	listener_update(ls);
}

void
listener_resume(struct listener *ls)
{
	ls->paused = false;
	listener_update(ls);
}

bool
listener_paused(const struct listener *ls)
{
	return ls->paused;
}

void
listener_close(struct listener *ls)
{
	struct loop *l;

	if (ls == NULL || ls->fd == -1)
		return;
	l = ls->loop;
	ls->paused = true;
	listener_update(ls);
	timer_clear(&ls->timer);
	fd_close(&ls->fd);
	fd_close(&ls->reserve);
	loop_defer_free(l, ls, NULL);
}

int
listener_fd(const struct listener *ls)
{
	return ls->fd;
}

unsigned long
listener_starved(const struct listener *ls)
{
	return ls->starved;
}
