/* SPDX-License-Identifier: Apache-2.0 */
/* From a host name to a session. */
#include "config.h"

#include "tunnel/link.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "tunnel/options.h"
#include "tunnel/resolve.h"
#include "tunnel/session.h"

struct link {
	struct loop *loop;
	const struct options *o;
	const struct auth *auth;
	const struct session_cbs *cbs;
	void *arg;
	struct resolve *resolve;
	struct dial *dial;
	struct session *session;
};

static const char *
dial_reason(int err)
{
	switch (err) {
	case E_REFUSED:
		return "Connection refused";
	case E_TIMEOUT:
		return "Connection timed out";
	case E_UNREACHABLE:
		return "No route to host";
	default:
		return err_text(err);
	}
}

static void
link_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct link *k = arg;
	char *text;

	(void)used;
	k->dial = NULL;
	if (err == 0) {
		k->session =
		    session_take_fd(k->loop, fd, k->o, k->auth, k->cbs, k->arg);
		return;
	}
	text =
	    xasprintf("ssh: connect to host %s port %u: %s", options_host(k->o),
		      options_port(k->o), dial_reason(err));
	k->cbs->down(SESSION_END_UNREACHED, text, k->arg);
	free(text);
}

static void
link_resolved(int err, const struct addr *addrs, size_t n, void *arg)
{
	struct link *k = arg;
	struct dial_options d = {.timeout_ms = k->o->connect_timeout * 1000,
				 .naddrs = n,
				 .done = link_dialed,
				 .arg = k};
	char *text;

	k->resolve = NULL;
	if (err != 0) {
		text = xasprintf("ssh: Could not resolve hostname %s: %s",
				 options_host(k->o), gai_strerror(err));
		k->cbs->down(SESSION_END_UNREACHED, text, k->arg);
		free(text);
		return;
	}
	memcpy(d.addrs, addrs, n * sizeof(*addrs));
	k->dial = dial_start(k->loop, &d);
}

void
link_open(struct link *k)
{
	k->resolve =
	    resolve_start(k->loop, options_host(k->o), options_port(k->o),
			  k->o->family, link_resolved, k);
}

void
link_close(struct link *k)
{
	resolve_cancel(k->resolve);
	k->resolve = NULL;
	if (k->dial != NULL)
		dial_cancel(k->dial);
	k->dial = NULL;
	session_close(k->session);
	k->session = NULL;
}

struct session *
link_session(const struct link *k)
{
	return k->session;
}

struct link *
link_new(struct loop *l, const struct options *o, const struct auth *a,
	 const struct session_cbs *cbs, void *arg)
{
	struct link *k = xcalloc(1, sizeof(*k));

	k->loop = l;
	k->o = o;
	k->auth = a;
	k->cbs = cbs;
	k->arg = arg;
	return k;
}

void
link_free(struct link *k)
{
	if (k == NULL)
		return;
	link_close(k);
	free(k);
}
