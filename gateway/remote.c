/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a tunnel, and the state that follows from what it says and
 * from what the agent answers. remote_update() is the one place where that is
 * worked out and told.
 */
#include "config.h"

#include "gateway/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/child.h"
#include "gateway/owner.h"
#include "gateway/remote_int.h"
#include "net/buf.h"
#include "net/stream.h"

#define BACKOFF_MS  250
#define BACKOFF_MAX 10000
#define STABLE_MS   10000
#define KILL_MS     2000

static const char *const state_texts[] = {
    [REMOTE_STARTING] = "starting", [REMOTE_CONNECTING] = "connecting",
    [REMOTE_DOWN] = "down",         [REMOTE_NO_AGENT] = "no_agent",
    [REMOTE_DEGRADED] = "degraded", [REMOTE_UP] = "up",
    [REMOTE_STOPPING] = "stopping",
};

/* --- state ------------------------------------------------------------- */

static bool
forwards_missing(const struct remote *r)
{
	for (size_t i = 0; i < r->conf.outside.nforwards; i++)
		if (strcmp(remote_forward_state(r, i), "up") != 0)
			return true;
	return false;
}

static enum remote_state
state_of(const struct remote *r)
{
	if (r->stopping)
		return REMOTE_STOPPING;
	if (r->pid == 0)
		return REMOTE_STARTING;
	if (!r->ssh_up)
		return r->was_up ? REMOTE_DOWN : REMOTE_CONNECTING;
	if (r->conf.agent != NULL && !r->agent_ok)
		return REMOTE_NO_AGENT;
	return forwards_missing(r) ? REMOTE_DEGRADED : REMOTE_UP;
}

static bool
works(enum remote_state s)
{
	return s == REMOTE_UP || s == REMOTE_DEGRADED;
}

static void
enter_state(struct remote *r, enum remote_state now)
{
	uint64_t ms = loop_now_ms(r->o.loop);

	if (!works(r->state))
		r->down_ms += ms - r->state_ms;
	r->state_ms = ms;
	r->since = time(NULL);
	r->state = now;
	if (works(now))
		log_info("tunnel.state", "tunnel=%s state=%s", r->name,
			 state_texts[now]);
	else
		log_warn("tunnel.state", "tunnel=%s state=%s reason=%s",
			 r->name, state_texts[now],
			 log_esc(strv_of(r->reason)));
}

void
remote_update(struct remote *r, const char *reason)
{
	enum remote_state now = state_of(r);
	bool open = works(now) && r->conf.agent != NULL;
	bool told = reason != NULL && strcmp(r->reason, reason) != 0;

	if (told)
		(void)snprintf(r->reason, sizeof(r->reason), "%s", reason);
	if (works(now))
		r->reason[0] = '\0';
	else if (r->reason[0] != '\0')
		memcpy(r->last_reason, r->reason, sizeof(r->reason));
	if (now != r->state)
		enter_state(r, now);
	if (r->conf.agent == NULL || r->stopping)
		return;
	if (open && !r->open)
		owner_agent_up(r->o.owner, r->name);
	else if (!open && (r->open || told))
		owner_agent_down(r->o.owner, r->name, r->reason);
	r->open = open;
}

/* --- what the process says --------------------------------------------- */

static void
said_forwards(struct remote *r, const struct remotestat *st)
{
	bool was = r->ssh_up;

	r->stat = *st;
	if (!was && r->was_up)
		r->reconnects++;
	r->ssh_up = r->was_up = true;
	if (!was)
		remote_agent_up(r);
	remote_update(r, NULL);
}

static void
said_down(struct remote *r, const char *reason)
{
	r->ssh_up = false;
	r->stat.nfwd = 0;
	remote_agent_down(r);
	remote_update(r, reason[0] != '\0' ? reason : "down");
}

static void
said(struct remote *r, struct strv line)
{
	struct remotestat st;
	int err = remotestat_parse(line, &st);

	if (err != 0) {
		log_warn("tunnel.status", "tunnel=%s error=\"%s\"", r->name,
			 err_text(err));
		return;
	}
	switch (st.event) {
	case REMOTESTAT_CONNECTING:
		remote_update(r, r->reason[0] != '\0' ? NULL : "connecting");
		break;
	case REMOTESTAT_READY:
	case REMOTESTAT_DEGRADED:
		said_forwards(r, &st);
		break;
	case REMOTESTAT_DOWN:
		said_down(r, st.reason);
		break;
	case REMOTESTAT_STOPPED:
		said_down(r, "sbx-tunnel was told to end");
		break;
	}
}

static void
status_bytes(struct remote *r, struct strv v)
{
	const char *nl;
	size_t n;

	while (v.len > 0) {
		nl = memchr(v.p, '\n', v.len);
		n = nl != NULL ? (size_t)(nl - v.p) : v.len;
		if (r->line.len + n > REMOTESTAT_LINE_MAX)
			r->skip = true;
		if (!r->skip)
			strbuf_add(&r->line, v.p, n);
		if (nl == NULL)
			return;
		if (!r->skip)
			said(r, (struct strv){r->line.s, r->line.len});
		r->skip = false;
		strbuf_reset(&r->line);
		v = strv_from(v, n + 1);
	}
}

static void
status_readable(struct stream *st, void *arg)
{
	struct bufq *in = stream_input(st);

	while (in->len > 0) {
		struct strv v = bufq_front(in);

		status_bytes(arg, v);
		bufq_drain(in, v.len);
	}
}

static void
status_eof(struct stream *st, void *arg)
{
	(void)st;
	(void)arg; /* the signal of its death says more */
}

static void
status_error(struct stream *st, int err, void *arg)
{
	(void)err;
	status_eof(st, arg);
}

/* --- the process ------------------------------------------------------- */

static void
close_status(struct remote *r)
{
	if (r->status != NULL)
		stream_close(r->status);
	r->status = NULL;
	r->skip = false;
	strbuf_reset(&r->line);
}

/* 0 or errno. */
static int
start_process(struct remote *r)
{
	static const char *const passed[] = {"PATH", "HOME", "LANG", "TZ"};
	static const struct stream_cbs cbs = {.readable = status_readable,
					      .eof = status_eof,
					      .error = status_error};
	struct child_spec s = {.path = r->o.program, .argv = r->conf.argv};
	char **env;
	int fds[2], eno;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       fds) != 0)
		return errno;
	env = child_env(passed, ARRAY_LEN(passed));
	s.env = env;
	s.fd = fds[1];
	eno = child_start(&s, &r->pid);
	child_env_free(env);
	fd_close(&fds[1]);
	if (eno != 0)
		fd_close(&fds[0]);
	else
		r->status = stream_take_fd(r->o.loop, fds[0], &cbs, r);
	return eno;
}

static void
start_later(struct remote *r)
{
	uint64_t ms = (uint64_t)BACKOFF_MS
		      << (r->failures < 6 ? r->failures : 6);
	uint32_t rnd;

	if (ms > BACKOFF_MAX)
		ms = BACKOFF_MAX;
	r->failures++;
	token_random(&rnd, sizeof(rnd));
	timer_set(&r->timer, ms / 2 + rnd % (ms / 2));
}

static void
start(struct remote *r)
{
	char why[REMOTESTAT_TEXT];
	int eno;

	r->started_ms = loop_now_ms(r->o.loop);
	r->starts++;
	r->was_up = false;
	/* A dead one's would only mislead us. */
	(void)unlink(r->path);
	if ((eno = start_process(r)) != 0) {
		(void)snprintf(why, sizeof(why), "cannot start %.100s: %s",
			       r->o.program, strerror(eno));
		start_later(r);
		remote_update(r, why);
		return;
	}
	log_debug("tunnel.start", "tunnel=%s pid=%ld", r->name, (long)r->pid);
	remote_update(r, r->reason[0] != '\0' ? NULL : "connecting");
}

/* Ends the process; what follows is decided when it has ended. */
static void
end_process(struct remote *r)
{
	close_status(r);
	r->ssh_up = false;
	remote_agent_down(r);
	if (r->pid != 0) {
		(void)kill(r->pid, SIGTERM);
		timer_set(&r->timer, KILL_MS);
	} else {
		timer_set(&r->timer, 0);
	}
}

static void
take_next(struct remote *r)
{
	remote_conf_clear(&r->conf);
	r->conf = r->next;
	r->has_next = false;
	r->failures = 0;
	r->stat.nfwd = 0;
	r->reason[0] = '\0';
	if (r->conf.agent != NULL)
		remote_agent_row(r);
	else
		owner_agent_drop(r->o.owner, r->name, "deleted");
	r->open = false;
	remote_update(r, "connecting");
}

static void
timer_cb(void *arg)
{
	struct remote *r = arg;

	if (r->pid != 0) {
		log_warn("tunnel.kill", "tunnel=%s pid=%ld", r->name,
			 (long)r->pid);
		(void)kill(r->pid, SIGKILL);
		return;
	}
	if (r->stopping) {
		r->o.ended(r, r->o.arg); /* r may be gone */
		return;
	}
	if (r->has_next)
		take_next(r);
	start(r);
}

void
remote_reap(struct remote *r)
{
	char why[64];
	int st;

	if (r->pid == 0 || waitpid(r->pid, &st, WNOHANG) != r->pid)
		return;
	/* What it had said before is still to be read. */
	if (r->status != NULL)
		(void)stream_salvage(r->status);
	if (r->status != NULL)
		status_readable(r->status, r);
	r->pid = 0;
	close_status(r);
	if (r->stopping || r->has_next) {
		timer_set(&r->timer, 0);
		return;
	}
	r->ssh_up = false;
	remote_agent_down(r);
	(void)snprintf(why, sizeof(why), "sbx-tunnel ended with %s %d",
		       WIFSIGNALED(st) ? "signal" : "status",
		       WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
	if (loop_now_ms(r->o.loop) - r->started_ms > STABLE_MS)
		r->failures = 0;
	start_later(r);
	remote_update(r, why);
}

/* --- life -------------------------------------------------------------- */

struct remote *
remote_new(const struct remote_options *o, const struct gw_tunnel *t)
{
	struct remote *r = xcalloc(1, sizeof(*r));

	r->o = *o;
	r->name = xstrdup(t->name);
	r->path = xasprintf("%s/tunnels/%s.sock", o->state_dir, t->name);
	if (addr_unix(&r->at, r->path) != 0)
		log_fatal("tunnel.path", "path=%s", r->path);
	r->state = REMOTE_STARTING;
	r->since = time(NULL);
	r->state_ms = loop_now_ms(o->loop);
	timer_init(&r->timer, o->loop, timer_cb, r);
	remote_agent_init(r);
	remote_conf_fill(&r->conf, t, r->path);
	(void)snprintf(r->reason, sizeof(r->reason), "connecting");
	if (r->conf.agent != NULL)
		remote_agent_row(r);
	timer_set(&r->timer, 0);
	return r;
}

void
remote_set_conf(struct remote *r, const struct gw_tunnel *t)
{
	struct remote_conf c;

	remote_conf_fill(&c, t, r->path);
	if (!r->stopping && !r->has_next && strcmp(c.key, r->conf.key) == 0) {
		remote_conf_clear(&c);
		return;
	}
	if (r->has_next)
		remote_conf_clear(&r->next);
	r->next = c;
	r->has_next = true;
	r->stopping = false;
	log_info("tunnel.change", "tunnel=%s", r->name);
	end_process(r);
	remote_update(r, "its configuration has changed");
}

void
remote_stop(struct remote *r)
{
	if (r->stopping)
		return;
	r->stopping = true;
	end_process(r);
	remote_update(r, "stopping");
	if (r->conf.agent != NULL)
		owner_agent_drop(r->o.owner, r->name, "deleted");
	r->open = false;
	r->sandboxes = 0;
}

bool
remote_stopping(const struct remote *r)
{
	return r->stopping;
}

void
remote_free(struct remote *r)
{
	if (r == NULL)
		return;
	close_status(r);
	if (r->pid != 0) {
		(void)kill(r->pid, SIGKILL);
		(void)waitpid(r->pid, NULL, 0);
	}
	(void)unlink(r->path);
	remote_agent_clear(r);
	timer_clear(&r->timer);
	remote_conf_clear(&r->conf);
	if (r->has_next)
		remote_conf_clear(&r->next);
	strbuf_clear(&r->line);
	free(r->name);
	free(r->path);
	free(r);
}

/* --- how it is --------------------------------------------------------- */

const char *
remote_forward_state(const struct remote *r, size_t forward)
{
	const char *spec = r->conf.specs[forward];

	if (!r->ssh_up)
		return "down";
	for (size_t i = 0; spec != NULL && i < r->stat.nfwd; i++)
		if (r->stat.fwd[i].remote &&
		    strcmp(r->stat.fwd[i].spec, spec) == 0)
			return r->stat.fwd[i].state;
	return "down";
}

void
remote_info(const struct remote *r, struct remote_info *out)
{
	uint64_t ms = loop_now_ms(r->o.loop);

	*out = (struct remote_info){
	    .name = r->name,
	    .ns = r->conf.ns,
	    .host = r->conf.host,
	    .user = r->conf.user,
	    .agent = r->conf.agent,
	    .port = r->conf.port,
	    .state = r->state,
	    .state_text = state_texts[r->state],
	    .reason = r->reason,
	    .last_reason = r->last_reason,
	    .since = r->since,
	    .pid = r->pid,
	    .starts = r->starts,
	    .reconnects = r->reconnects,
	    .down_ms = r->down_ms + (works(r->state) ? 0 : ms - r->state_ms),
	    .sandboxes = r->sandboxes,
	    .outside = &r->conf.outside,
	};
}
