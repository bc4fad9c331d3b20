/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded agent. States: DOWN (waiting to be started), STARTING (the
 * process runs, its control socket is tried), UP (the watch is synced),
 * STOPPED (for good). Whatever goes wrong on the way leads back to DOWN, with
 * a longer pause each time.
 */
#include "config.h"

#include "gateway/agentctl.h"

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
#include "base/token.h"
#include "gateway/ask.h"
#include "gateway/child.h"
#include "gateway/owner.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define AGENT_NAME  "embedded"
#define ASK_MAX     4096
#define TRY_MS      20
#define START_MS    10000
#define BACKOFF_MS  100
#define BACKOFF_MAX 10000
#define STABLE_MS   10000

enum agent_state { AGENT_DOWN, AGENT_STARTING, AGENT_UP, AGENT_STOPPED };

struct agentctl {
	struct agentctl_options o;
	enum agent_state state;
	pid_t pid;
	struct seqpkt *channel;
	struct timer timer;
	uint64_t started_ms, next_sync;
	unsigned starts, failures;
	char *path, *ns, *homes, *http, *control;
	char *env;       /* what it is to be told for PUT /v1/env */
	struct ask *ask; /* while it is told */
	char token[2 * 32 + 1];
};

static void agent_try(struct agentctl *a);

/* --- the process ------------------------------------------------------- */
static char **
make_env(struct agentctl *a)
{
	static const char *const passed[] = {"PATH", "LANG", "TZ",
					     "SBX_ISOLATION", "SBX_CAPACITY"};
	char **env = xcalloc(16, sizeof(*env));
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		if (getenv(passed[i]) != NULL)
			env[n++] =
			    xasprintf("%s=%s", passed[i], getenv(passed[i]));
	env[n++] = xstrdup("SBX_HOST_MODE=1");
	env[n++] = xasprintf("SBX_LISTEN=%s", a->http);
	env[n++] = xasprintf("SBX_CONTROL=unix:%s", a->control);
	env[n++] = xasprintf("SBX_CONTROL_UID=%ld", (long)a->o.worker_uid);
	env[n++] = xasprintf("SBX_HOMES=%s", a->homes);
	env[n++] = xasprintf("SBX_TOKEN=%s", a->token);
	return env;
}

static void
free_env(char **env)
{
	for (size_t i = 0; env[i] != NULL; i++)
		mem_free_secret(env[i]); /* one of them is the token */
	free(env);
}

/* 0, or why it could not be executed (errno). */
static int
start_process(struct agentctl *a)
{
	char name[] = "sbx-agent";
	char *argv[] = {name, NULL}, **env = make_env(a);
	const struct child_spec s = {
	    .path = a->path, .argv = argv, .env = env, .fd = -1};
	int eno = child_start(&s, &a->pid);

	free_env(env);
	return eno;
}

/* --- down and up ------------------------------------------------------- */
static void
go_down(struct agentctl *a, const char *why)
{
	bool was_up = a->state == AGENT_UP;
	uint64_t pause;

	if (a->channel != NULL)
		seqpkt_close(a->channel);
	a->channel = NULL;
	ask_cancel(a->ask);
	a->ask = NULL;
	if (a->pid != 0 && a->state != AGENT_STOPPED)
		(void)kill(a->pid, SIGKILL);
	owner_agent_gone(a->o.owner, AGENT_NAME, "exited");
	a->o.synced(UINT64_MAX, a->o.arg);
	if (a->state == AGENT_STOPPED)
		return;
	if (loop_now_ms(a->o.loop) - a->started_ms > STABLE_MS)
		a->failures = 0;
	pause = (uint64_t)BACKOFF_MS << (a->failures < 7 ? a->failures : 7);
	if (pause > BACKOFF_MAX)
		pause = BACKOFF_MAX;
	a->failures++;
	a->state = AGENT_DOWN;
	log_error("agent.down", "reason=\"%s\" again_ms=%llu", why,
		  (unsigned long long)pause);
	timer_set(&a->timer, pause);
	if (was_up)
		a->o.changed(a->o.arg);
}

static void
start(struct agentctl *a)
{
	int eno;

	a->started_ms = loop_now_ms(a->o.loop);
	a->state = AGENT_STARTING;
	a->starts++;
	/* What a dead one left there would only mislead us. */
	(void)unlink(a->control);
	if ((eno = start_process(a)) != 0) {
		char *why = xasprintf("%s: %s", a->path, strerror(eno));

		go_down(a, why);
		free(why);
		return;
	}
	log_info("agent.start", "pid=%ld", (long)a->pid);
	timer_set(&a->timer, TRY_MS);
}

static void
timer_cb(void *arg)
{
	struct agentctl *a = arg;

	switch (a->state) {
	case AGENT_DOWN:
		if (a->pid == 0)
			start(a);
		else /* not reaped yet */
			timer_set(&a->timer, TRY_MS);
		break;
	case AGENT_STARTING:
		if (loop_now_ms(a->o.loop) - a->started_ms > START_MS)
			go_down(a, "not up in time");
		else if (a->channel == NULL)
			agent_try(a);
		else
			timer_set(&a->timer, START_MS);
		break;
	case AGENT_UP:
	case AGENT_STOPPED:
		break;
	}
}

/* --- the control channel ----------------------------------------------- */
static void
said_sandbox(struct agentctl *a, struct strv rest)
{
	struct strv id, gen, uid, token;
	uint64_t g;

	if (!strv_cut(&rest, ' ', &id) || !strv_cut(&rest, ' ', &gen) ||
	    !strv_cut(&rest, ' ', &uid) || !strv_cut(&rest, ' ', &token) ||
	    !route_id_ok(id) ||
	    strv_parse_u64(gen, UINT64_MAX, true, &g) != 0) {
		log_error("agent.message", "what=sandbox error=malformed");
		return;
	}
	owner_add(a->o.owner, id, g, AGENT_NAME, a->ns, token);
}

static void
said_gone(struct agentctl *a, struct strv rest)
{
	struct strv id, gen, reason;
	uint64_t g;

	if (!strv_cut(&rest, ' ', &id) || !strv_cut(&rest, ' ', &gen) ||
	    !strv_cut(&rest, ' ', &reason) || !route_id_ok(id) ||
	    reason.len == 0 || strv_parse_u64(gen, UINT64_MAX, true, &g) != 0) {
		log_error("agent.message", "what=gone error=malformed");
		return;
	}
	owner_gone(a->o.owner, id, g, reason);
}

static void
go_up(struct agentctl *a)
{
	a->state = AGENT_UP;
	timer_stop(&a->timer);
	log_info("agent.up", "pid=%ld sandboxes=%zu", (long)a->pid,
		 route_count(owner_table(a->o.owner)));
	a->o.changed(a->o.arg);
}

static void
told_cb(int err, unsigned status, struct strv body, void *arg)
{
	struct agentctl *a = arg;

	(void)body;
	a->ask = NULL;
	if (err != 0 || status != 200)
		log_error("agent.env", "status=%u error=\"%s\"", status,
			  err != 0 ? err_text(err) : "refused");
	if (a->state == AGENT_STARTING)
		go_up(a);
}

static void
tell_env(struct agentctl *a)
{
	struct addr at;
	struct ask_spec s = {.to = &at,
			     .method = STRV("PUT"),
			     .id = M_PUT,
			     .target = "/v1/env",
			     .token = a->token,
			     .body = strv_of(a->env),
			     .max = ASK_MAX,
			     .timeout_ms = START_MS / 2,
			     .done = told_cb,
			     .arg = a};

	ask_cancel(a->ask);
	a->ask = NULL;
	if (addr_parse(strv_of(a->http), &at) != 0)
		log_fatal("agent.path", "path=%s", a->http);
	a->ask = ask_start(a->o.loop, &s);
}

static void
said_synced(struct agentctl *a, struct strv rest)
{
	uint64_t n;

	if (strv_parse_u64(rest, UINT64_MAX, true, &n) != 0)
		return;
	/* Nobody is to get a sandbox that lacks what it was promised. */
	if (a->state == AGENT_STARTING && a->ask == NULL)
		tell_env(a);
	a->o.synced(n, a->o.arg);
}

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct agentctl *a = arg;
	struct strv verb;

	(void)sp;
	fd_close(&fd);
	if (!strv_cut(&msg, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("sandbox")))
		said_sandbox(a, msg);
	else if (strv_eq(verb, STRV("gone")))
		said_gone(a, msg);
	else if (strv_eq(verb, STRV("synced")))
		said_synced(a, msg);
	else
		log_warn("agent.message", "what=%s error=unknown",
			 log_esc(verb));
}

static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct agentctl *a = arg;

	(void)sp;
	go_down(a, "control channel closed");
}

static void
agent_try(struct agentctl *a)
{
	static const struct seqpkt_cbs cbs = {message_cb, closed_cb};
	int fd;

	if (seqpkt_connect(a->control, &fd) != 0) {
		timer_set(&a->timer, TRY_MS);
		return;
	}
	a->channel = seqpkt_take_fd(a->o.loop, fd, &cbs, a);
	/* The rows that follow name it. */
	owner_agent(a->o.owner, AGENT_NAME, a->http, a->control, a->ns,
		    a->token);
	if (seqpkt_sendf(a->channel, -1, "watch %llu",
			 (unsigned long long)++a->next_sync) != 0)
		go_down(a, "control channel refused");
	else
		timer_set(&a->timer, START_MS);
}

static char *
env_text(const struct gw_conf *conf)
{
	struct strbuf b = {0};

	outside_env_json(&conf->agent_outside, false, &b);
	return strbuf_take(&b);
}

/* --- interface --------------------------------------------------------- */
struct agentctl *
agentctl_start(const struct agentctl_options *o)
{
	struct agentctl *a = xcalloc(1, sizeof(*a));

	a->o = *o;
	a->o.conf = NULL;
	a->path = o->conf->agent_path != NULL ? xstrdup(o->conf->agent_path)
					      : child_find("sbx-agent");
	a->ns = o->conf->agent_ns != NULL ? xstrdup(o->conf->agent_ns) : NULL;
	a->homes = xstrdup(o->conf->agent_homes);
	a->env = env_text(o->conf);
	a->http = xasprintf("unix:%s/agent/agent.sock", o->conf->state_dir);
	a->control = xasprintf("%s/agent/control.sock", o->conf->state_dir);
	token_hex(a->token, 32);
	timer_init(&a->timer, o->loop, timer_cb, a);
	start(a);
	return a;
}

void
agentctl_free(struct agentctl *a)
{
	if (a == NULL)
		return;
	a->state = AGENT_STOPPED;
	if (a->channel != NULL)
		seqpkt_close(a->channel);
	if (a->pid != 0) {
		(void)kill(a->pid, SIGKILL);
		(void)waitpid(a->pid, NULL, 0);
	}
	ask_cancel(a->ask);
	timer_clear(&a->timer);
	free(a->env);
	mem_secure_zero(a->token, sizeof(a->token));
	free(a->path);
	free(a->ns);
	free(a->homes);
	free(a->http);
	free(a->control);
	free(a);
}

void
agentctl_set_conf(struct agentctl *a, const struct gw_conf *conf)
{
	char *env = env_text(conf);

	if (strcmp(env, a->env) == 0) {
		free(env);
		return;
	}
	free(a->env);
	a->env = env;
	if (a->state == AGENT_UP || a->ask != NULL)
		tell_env(a);
}

uint64_t
agentctl_sync(struct agentctl *a)
{
	if (a == NULL || a->channel == NULL || a->state != AGENT_UP ||
	    seqpkt_sendf(a->channel, -1, "sync %llu",
			 (unsigned long long)(a->next_sync + 1)) != 0)
		return 0;
	return ++a->next_sync;
}

bool
agentctl_up(const struct agentctl *a)
{
	return a->state == AGENT_UP;
}

const char *
agentctl_http(const struct agentctl *a)
{
	return a->http;
}

const char *
agentctl_token(const struct agentctl *a)
{
	return a->token;
}

uint64_t
agentctl_epoch(const struct agentctl *a)
{
	return (uint64_t)a->starts << 32 | (uint32_t)a->pid;
}

pid_t
agentctl_pid(const struct agentctl *a)
{
	return a->pid;
}

unsigned
agentctl_starts(const struct agentctl *a)
{
	return a->starts;
}

void
agentctl_stop(struct agentctl *a)
{
	a->state = AGENT_STOPPED;
	timer_stop(&a->timer);
	if (a->pid != 0)
		(void)kill(a->pid, SIGTERM);
}

bool
agentctl_stopped(const struct agentctl *a)
{
	return a->state == AGENT_STOPPED;
}

void
agentctl_reap(struct agentctl *a)
{
	char why[64];
	int st;

	if (a->pid == 0 || waitpid(a->pid, &st, WNOHANG) != a->pid)
		return;
	a->pid = 0;
	if (a->state == AGENT_DOWN) /* we killed it */
		return;
	snprintf(why, sizeof(why), "ended with %s %d",
		 WIFSIGNALED(st) ? "signal" : "status",
		 WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
	go_down(a, why);
}
