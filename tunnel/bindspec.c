/* SPDX-License-Identifier: Apache-2.0 */
/* From a bind address to listeners, with ssh's rules and ssh's words. */
#include "config.h"

#include "tunnel/bindspec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/loop.h"
#include "tunnel/options.h"
#include "tunnel/say.h"
#include "tunnel/spec.h"

static const char *
bind_reason(int err)
{
	switch (err) {
	case E_BUSY:
		return "Address already in use";
	case E_DENIED:
		return "Permission denied";
	case E_EXISTS:
		return "File exists";
	case E_UNREACHABLE:
		return "Cannot assign requested address";
	default:
		return err_text(err);
	}
}

static int
bindspec_one(struct bindspec *w, const struct addr *a, int i)
{
	struct listen_options lo = {
	    .v6only = true, .uid = (uid_t)-1, .gid = (gid_t)-1};
	char text[ADDR_TEXT_MAX];
	struct addr got;
	int fd, r;

	lo.mode = 0666 & ~(mode_t)w->o->bind_mask;
	if ((r = listener_bind(a, &lo, &fd)) != 0) {
		say(w->o, OPT_LOG_ERROR, "bind [%s]:%u: %s",
		    addr_ip_text(a, text), addr_port(a), bind_reason(r));
		return r;
	}
	got.len = sizeof(got.u);
	if (!addr_is_unix(a) && getsockname(fd, &got.u.sa, &got.len) == 0)
		w->port = addr_port(&got);
	w->ls[i] = listener_take_fd(w->loop, fd, w->accepted, w->arg);
	return 0;
}

static int
bindspec_unix(struct bindspec *w)
{
	const char *path = w->sp->listen.path;
	struct addr a;
	int r;

	if ((r = addr_unix(&a, path)) != 0 ||
	    (r = bindspec_one(w, &a, 0)) != 0) {
		say(w->o, OPT_LOG_ERROR,
		    "unix_listener: cannot bind to path %s: %s", path,
		    bind_reason(r));
		return r;
	}
	return 0;
}

/* The addresses a bind address stands for: as ssh, nothing and "localhost"
 * are both loopbacks, "*" and "" are everything. */
static int
bindspec_addrs(const struct bindspec *w, struct addr *v, int *n)
{
	const char *host = w->sp->listen.host;
	bool any = host != NULL && (*host == '\0' || strcmp(host, "*") == 0);
	uint16_t port = w->sp->listen.port;
	char *text;
	int r;

	if (host == NULL && w->o->gateway_ports)
		any = true;
	*n = 2;
	if (!any && (host == NULL || strcmp(host, "localhost") == 0)) {
		addr_loopback(&v[0], false, port);
		addr_loopback(&v[1], true, port);
		return 0;
	}
	if (any) {
		addr_loopback(&v[0], false, port);
		addr_loopback(&v[1], true, port);
		v[0].u.in.sin_addr.s_addr = INADDR_ANY;
		v[1].u.in6.sin6_addr = in6addr_any;
		return 0;
	}
	*n = 1;
	text = xasprintf(strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	r = addr_parse(strv_of(text), &v[0]);
	free(text);
	return r;
}

static void
addr_set_port(struct addr *a, uint16_t port)
{
	if (a->u.sa.sa_family == AF_INET)
		a->u.in.sin_port = htons(port);
	else
		a->u.in6.sin6_port = htons(port);
}

/* One address is enough, as for ssh: many hosts have no ::1. */
static int
bindspec_tcp(struct bindspec *w)
{
	struct addr v[BINDSPEC_MAX];
	int n, r, first = 0;

	w->port = w->sp->listen.port;
	if ((r = bindspec_addrs(w, v, &n)) != 0) {
		say(w->o, OPT_LOG_ERROR, "bad bind address in %s", w->sp->text);
		return r;
	}
	for (int i = 0; i < n; i++) {
		addr_set_port(&v[i], w->port);
		if ((r = bindspec_one(w, &v[i], i)) != 0 && first == 0)
			first = r;
	}
	if (w->ls[0] != NULL || w->ls[1] != NULL)
		return 0;
	say(w->o, OPT_LOG_ERROR,
	    "channel_setup_fwd_listener_tcpip: cannot listen to port: %u",
	    w->port);
	return first;
}

int
bindspec_open(struct bindspec *w)
{
	return w->sp->listen.path != NULL ? bindspec_unix(w) : bindspec_tcp(w);
}
