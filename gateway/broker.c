/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers ask of the master. A worker is not trusted with more than it
 * needs: it names a configured sandbox and a port, never a path.
 */
#include "config.h"

#include "gateway/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/agentctl.h"
#include "gateway/crew.h"
#include "gateway/gwconf.h"
#include "gateway/remotes.h"
#include "gateway/route.h"
#include "net/sockdir.h"

#define WAITING_MAX 4096

struct waiting {
	struct waiting *next;
	/* what must be answered first; 0: it was */
	uint64_t agent_sync, remote_sync;
	uint64_t member, n;
};

struct broker {
	struct waiting *head, **tail;
	size_t count;
};

struct broker *
broker_new(void)
{
	struct broker *b = xcalloc(1, sizeof(*b));

	b->tail = &b->head;
	return b;
}

void
broker_free(struct broker *b)
{
	struct waiting *w;

	if (b == NULL)
		return;
	while ((w = b->head) != NULL) {
		b->head = w->next;
		free(w);
	}
	free(b);
}

static void
say(struct crew_member *m, const char *text, int fd)
{
	if (crew_send(m, strv_of(text), fd) != 0)
		log_warn("worker.channel", "error=full");
}

static void
say_synced(struct crew_member *m, uint64_t n)
{
	char buf[40];

	snprintf(buf, sizeof(buf), "synced %llu", (unsigned long long)n);
	say(m, buf, -1);
}

static void
asked_sync(struct broker *b, const struct broker_agents *from,
	   struct crew_member *m, struct strv rest)
{
	struct waiting *w;
	uint64_t n, number = 0, far = 0;

	if (strv_parse_u64(rest, UINT64_MAX, true, &n) != 0)
		return;
	if (b->count < WAITING_MAX) {
		number = agentctl_sync(from->agent);
		far = remotes_sync(from->remotes);
	}
	if (number == 0 && far == 0) {
		say_synced(m, n);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->agent_sync = number;
	w->remote_sync = far;
	w->member = crew_number(m);
	w->n = n;
	*b->tail = w;
	b->tail = &w->next;
	b->count++;
}

void
broker_synced(struct broker *b, struct crew *c, bool remote, uint64_t number)
{
	struct waiting *w, **pp = &b->head;
	struct crew_member *m;

	while ((w = *pp) != NULL) {
		uint64_t *what = remote ? &w->remote_sync : &w->agent_sync;

		if (*what <= number)
			*what = 0;
		if (w->agent_sync != 0 || w->remote_sync != 0) {
			pp = &w->next;
			continue;
		}
		*pp = w->next;
		b->count--;
		if ((m = crew_find(c, w->member)) != NULL)
			say_synced(m, w->n);
		free(w);
	}
	b->tail = pp;
}

/* The proxy directory is opened anew each time: it may have been made, or
 * made again, since. */
static int
connect_port(const struct gw_sandbox_conf *s, uint16_t port, int *fd)
{
	char name[16];
	struct stat st;
	uid_t uid;
	int dir, r;

	if ((r = sockdir_open_dir(s->proxy_dir, &dir)) != 0)
		return r;
	if (s->proxy_uid == -2)
		uid = SOCKDIR_ANY_UID;
	else if (s->proxy_uid >= 0)
		uid = (uid_t)s->proxy_uid;
	else if (fstat(dir, &st) == 0)
		uid = st.st_uid;
	else {
		fd_close(&dir);
		return E_SYS;
	}
	snprintf(name, sizeof(name), "%u.sock", port);
	r = sockdir_connect(dir, name, uid, fd);
	fd_close(&dir);
	return r;
}

static const char *
fail_code(int r)
{
	switch (r) {
	case E_NOTFOUND:
	case E_REFUSED:
		return "port_not_listening";
	case E_DENIED:
		return "denied";
	case E_AGAIN:
	case E_LIMIT:
	case E_FULL:
		return "limit";
	default:
		return "error";
	}
}

static const struct gw_sandbox_conf *
find_sandbox(const struct gw_conf *conf, struct strv id)
{
	if (strv_eq(id, STRV("-")))
		id = STRV("");
	for (size_t i = 0; i < conf->nsandboxes; i++)
		if (strv_eq(strv_of(conf->sandboxes[i].name), id))
			return &conf->sandboxes[i];
	return NULL;
}

static void
asked_connect(struct crew *c, struct crew_member *m, struct strv rest)
{
	const struct gw_sandbox_conf *s;
	struct strv word, id;
	char buf[128];
	uint64_t n;
	uint16_t port;
	int fd = -1, r;

	if (!strv_cut(&rest, ' ', &word) || !strv_cut(&rest, ' ', &id) ||
	    strv_parse_u64(word, UINT64_MAX, true, &n) != 0 ||
	    (port = route_port_parse(rest)) == 0)
		return;
	s = find_sandbox(crew_conf(c), id);
	if (s == NULL || s->proxy_dir == NULL) {
		snprintf(buf, sizeof(buf), "fail %llu no_such_sandbox gone",
			 (unsigned long long)n);
		say(m, buf, -1);
		return;
	}
	r = connect_port(s, port, &fd);
	if (r == 0)
		snprintf(buf, sizeof(buf), "ok %llu", (unsigned long long)n);
	else
		snprintf(buf, sizeof(buf), "fail %llu %s %s",
			 (unsigned long long)n, fail_code(r), err_text(r));
	say(m, buf, fd);
	fd_close(&fd);
}

void
broker_message(struct broker *b, struct crew *c,
	       const struct broker_agents *from, struct crew_member *m,
	       struct strv msg)
{
	struct strv verb;

	if (!strv_cut(&msg, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("sync")))
		asked_sync(b, from, m, msg);
	else if (strv_eq(verb, STRV("connect")))
		asked_connect(c, m, msg);
	else
		log_warn("worker.message", "what=%s error=unknown",
			 log_esc(verb));
}
