/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master. It runs one loop on which signals, timers and channels meet,
 * and leaves that loop for one thing only: forking, which is done with nothing
 * of the loop on the stack.
 */
#include "config.h"

#include "gateway/master_int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/admin.h"
#include "gateway/api.h"
#include "gateway/apibase.h"
#include "gateway/broker.h"
#include "gateway/crew.h"
#include "gateway/jobhost.h"
#include "gateway/notify.h"
#include "gateway/owner.h"
#include "gateway/podapi.h"
#include "gateway/podflare.h"
#include "gateway/prepare.h"
#include "gateway/remoteapi.h"
#include "gateway/remotes.h"
#include "gateway/sockets.h"
#include "gateway/tlskeys.h"
#include "gateway/watch.h"

#define FD_WANT          65536
#define KILL_AFTER_MS    1500
#define AGENT_END_MS     10000
#define CERTS_SETTLE_MS  500 /* a certificate, then its key */
#define TOKENS_SETTLE_MS 20
#define START_DEATHS     5 /* before the first was ready: give up */

static const char *const state_names[] = {"starting", "serving", "draining",
					  "ending"};

/* --- tables and keys --------------------------------------------------- */
static void
emit_cb(struct strv msg, void *arg)
{
	struct master *m = arg;

	if (m->crew != NULL)
		crew_tell(m->crew, msg);
}

static void
tokens_changed_cb(void *arg)
{
	struct master *m = arg;

	master_load_tokens(m, crew_conf(m->crew));
}

static void
tickets_cb(void *arg)
{
	struct master *m = arg;
	struct strbuf b = {0};

	tlskeys_rotate(&m->tickets);
	strbuf_adds(&b, "tickets");
	tlskeys_add(&m->tickets, &b);
	crew_tell(m->crew, (struct strv){b.s, b.len});
	mem_secure_zero(b.s, b.cap);
	strbuf_clear(&b);
	timer_set(&m->ticket_timer, crew_conf(m->crew)->ticket_rotate_ms);
}

/* --- readiness --------------------------------------------------------- */
static bool
is_ready(struct master *m)
{
	struct crew_counts n;

	crew_count(m->crew, &n);
	return m->state == MASTER_SERVING && n.ready > 0 &&
	       (m->agent == NULL || agentctl_up(m->agent));
}

static void
list_urls(struct master *m, struct strbuf *b)
{
	const struct gw_conf *conf = crew_conf(m->crew);

	for (size_t i = 0; i < conf->nlistens; i++) {
		if (conf->listens[i].admin)
			continue;
		strbuf_addc(b, ' ');
		sockets_text(m->sockets, &conf->listens[i], b);
	}
}

static void
say_ready(struct master *m)
{
	struct strbuf b = {0};

	m->state = MASTER_SERVING;
	strbuf_adds(&b, "ready");
	list_urls(m, &b);
	strbuf_addc(&b, '\n');
	/* For people and for scripts; who closed it does not want it. */
	(void)!fd_write_all(STDOUT_FILENO, b.s, b.len);
	strbuf_clear(&b);
	notify_send("READY=1");
}

static void end_if_empty(struct master *m);

static void
changed_cb(void *arg)
{
	struct master *m = arg;
	struct crew_counts n;

	switch (m->state) {
	case MASTER_STARTING:
		crew_count(m->crew, &n);
		if (n.ready == n.wanted &&
		    (m->agent == NULL || agentctl_up(m->agent))) {
			say_ready(m);
		} else if (n.deaths >= START_DEATHS) {
			log_error("gateway.start", "error=\"workers die\"");
			m->status = 1;
			m->state = MASTER_ENDING;
			loop_stop(m->loop);
		}
		break;
	case MASTER_SERVING:
		break;
	case MASTER_DRAINING:
	case MASTER_ENDING:
		end_if_empty(m);
		break;
	}
}

/* --- what workers and the agent say ------------------------------------ */
static void
message_cb(struct crew_member *who, struct strv msg, void *arg)
{
	struct master *m = arg;

	const struct broker_agents from = {m->agent, m->remotes};

	broker_message(m->broker, m->crew, &from, who, msg);
}

static void
synced_cb(uint64_t number, void *arg)
{
	struct master *m = arg;

	broker_synced(m->broker, m->crew, false, number);
}

static void
remotes_synced_cb(uint64_t number, void *arg)
{
	struct master *m = arg;

	broker_synced(m->broker, m->crew, true, number);
}

/* --- admin ------------------------------------------------------------- */
static void
admin_info(struct admin_info *out, void *arg)
{
	struct master *m = arg;
	const struct gw_conf *conf = crew_conf(m->crew);

	out->state = state_names[m->state];
	out->ready = is_ready(m);
	out->config = conf->path;
	out->reload_errors = m->reload_errors;
	out->sandboxes = route_count(owner_table(m->owner));
	out->has_agent = m->agent != NULL;
	out->agent_up = m->agent != NULL && agentctl_up(m->agent);
	out->agent_starts = m->agent != NULL ? agentctl_starts(m->agent) : 0;
	list_urls(m, &out->urls);
}

static void
admin_metrics(struct strbuf *out, void *arg)
{
	struct master *m = arg;

	remotes_metrics(m->remotes, out);
	if (m->jobs != NULL)
		jobhost_metrics(m->jobs, out);
}

static void
certs_changed_cb(void *arg)
{
	master_reload(arg, "certificate");
}

/* --- the end ----------------------------------------------------------- */
static void
end_if_empty(struct master *m)
{
	if (crew_alive(m->crew) != 0)
		return;
	if (m->state == MASTER_DRAINING) {
		m->state = MASTER_ENDING;
		timer_set(&m->end_timer, AGENT_END_MS);
		if (m->agent != NULL)
			agentctl_stop(m->agent);
		remotes_stop(m->remotes);
	}
	if ((m->agent == NULL || agentctl_pid(m->agent) == 0) &&
	    remotes_count(m->remotes) == 0)
		loop_stop(m->loop);
}

static void
end_timer_cb(void *arg)
{
	struct master *m = arg;

	if (m->state == MASTER_ENDING) {
		loop_stop(m->loop);
		return;
	}
	log_warn("gateway.kill", "workers=%zu", crew_alive(m->crew));
	crew_kill(m->crew);
	timer_set(&m->end_timer, KILL_AFTER_MS);
	end_if_empty(m);
}

static void
stop_cb(int signo, void *arg)
{
	struct master *m = arg;
	uint64_t ms = crew_conf(m->crew)->t.drain;

	if (m->state >= MASTER_DRAINING) { /* asked twice: now */
		crew_drain(m->crew, 0);
		timer_set(&m->end_timer, KILL_AFTER_MS);
		return;
	}
	log_info("gateway.drain", "signal=%d deadline_ms=%llu%s", signo,
		 (unsigned long long)ms,
		 signo == SIGINT ? " hint=\"again ends at once\"" : "");
	notify_send("STOPPING=1");
	m->state = MASTER_DRAINING;
	crew_drain(m->crew, ms);
	if (m->jobs != NULL) /* what follows a log would never end */
		jobhost_drain(m->jobs);
	/* Nobody accepts any more: a client is better off refused. */
	sockets_free(m->sockets);
	m->sockets = sockets_new(false);
	timer_set(&m->end_timer, ms + KILL_AFTER_MS);
	end_if_empty(m);
}

/* --- signals ----------------------------------------------------------- */
static void
hup_cb(int signo, void *arg)
{
	(void)signo;
	log_reopen();
	master_reload(arg, "SIGHUP");
}

static void
usr1_done(const struct stats *st, void *arg)
{
	struct master *m = arg;
	struct strbuf b = {0};

	admin_status(m->admin, st, &b);
	log_info("gateway.state", "%s", b.s);
	strbuf_clear(&b);
}

static void
usr1_cb(int signo, void *arg)
{
	struct master *m = arg;

	(void)signo;
	crew_stats(m->crew, usr1_done, m);
}

static void
usr2_cb(int signo, void *arg)
{
	struct master *m = arg;
	char *msg = NULL;

	(void)signo;
	log_reopen();
	/* Workers cannot make the files themselves. */
	if (state_prepare(crew_conf(m->crew), &m->user, &msg) != 0)
		log_error("log.reopen", "error=%s", log_esc(strv_of(msg)));
	free(msg);
	crew_tell(m->crew, STRV("reopen"));
}

static void
chld_cb(int signo, void *arg)
{
	struct master *m = arg;

	(void)signo;
	crew_reap(m->crew);
	remotes_reap(m->remotes);
	if (m->agent == NULL)
		return;
	agentctl_reap(m->agent);
	if (m->state == MASTER_SERVING && agentctl_stopped(m->agent) &&
	    agentctl_pid(m->agent) == 0) {
		agentctl_free(m->agent);
		m->agent = NULL;
		if (crew_conf(m->crew)->agent) /* wanted again meanwhile */
			master_start_agent(m, crew_conf(m->crew));
	}
	changed_cb(m);
}

/* --- start ------------------------------------------------------------- */
static const char *
static_agent(void *arg)
{
	struct master *m = arg;

	return crew_conf(m->crew)->static_agent;
}

static const struct gw_conf *
pod_conf(void *arg)
{
	struct master *m = arg;

	return crew_conf(m->crew);
}

static bool
pod_agent(struct podflare_agent *out, void *arg)
{
	struct master *m = arg;

	if (m->agent == NULL || !agentctl_up(m->agent))
		return false;
	out->http = agentctl_http(m->agent);
	out->token = agentctl_token(m->agent);
	out->epoch = agentctl_epoch(m->agent);
	return true;
}

static void
make_pods(struct master *m)
{
	const struct podflare_options o = {m->loop, pod_conf, pod_agent, m};

	m->pods = podflare_new(&o);
	m->pod_face = podapi_new(m->api, m->pods);
}

static void
make_parts(struct master *m)
{
	struct crew_options co = {
	    .message = message_cb, .changed = changed_cb, .arg = m};
	struct admin_options ao = {
	    .info = admin_info, .metrics = admin_metrics, .arg = m};
	struct remotes_options ro = {
	    .synced = remotes_synced_cb, .ended = changed_cb, .arg = m};

	m->loop = loop_new();
	m->sockets = sockets_new(!m->o.single);
	m->owner = owner_new(emit_cb, m);
	m->broker = broker_new();
	ro.loop = m->loop;
	ro.owner = m->owner;
	m->remotes = remotes_new(&ro);
	tlskeys_rotate(&m->tickets);
	m->agent_options = (struct agentctl_options){.loop = m->loop,
						     .owner = m->owner,
						     .synced = synced_cb,
						     .changed = changed_cb,
						     .arg = m};
	co.loop = ao.loop = m->loop;
	co.single = m->o.single;
	co.sockets = m->sockets;
	co.routes = owner_table(m->owner);
	co.tickets = &m->tickets;
	m->crew = ao.crew = crew_new(&co);
	m->admin = admin_new(&ao);
	m->api = api_new(m->loop);
	apibase_add(m->api);
	remoteapi_add(m->api, m->remotes);
	m->give_agent = (struct apiagent){static_agent, m};
	apiagent_add(m->api, &m->give_agent);
	make_pods(m);
	m->cert_watch =
	    watch_new(m->loop, CERTS_SETTLE_MS, certs_changed_cb, m);
	m->token_watch =
	    watch_new(m->loop, TOKENS_SETTLE_MS, tokens_changed_cb, m);
	timer_init(&m->ticket_timer, m->loop, tickets_cb, m);
	timer_init(&m->end_timer, m->loop, end_timer_cb, m);
	/* What the loop leaves behind when it goes: a second SIGTERM, while
	 * we are ending in order, must not end us out of order. */
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	loop_on_signal(m->loop, SIGTERM, stop_cb, m);
	loop_on_signal(m->loop, SIGINT, stop_cb, m);
	loop_on_signal(m->loop, SIGHUP, hup_cb, m);
	loop_on_signal(m->loop, SIGUSR1, usr1_cb, m);
	loop_on_signal(m->loop, SIGUSR2, usr2_cb, m);
	loop_on_signal(m->loop, SIGCHLD, chld_cb, m);
}

static void
free_parts(struct master *m)
{
	admin_free(m->admin); /* its questions to the crew end with it */
	api_free(m->api);
	podapi_free(m->pod_face);
	podflare_free(m->pods);
	jobhost_free(m->jobs);
	crew_free(m->crew);
	agentctl_free(m->agent);
	remotes_free(m->remotes);
	watch_free(m->cert_watch);
	watch_free(m->token_watch);
	timer_clear(&m->ticket_timer);
	timer_clear(&m->end_timer);
	broker_free(m->broker);
	owner_free(m->owner);
	sockets_free(m->sockets);
	loop_free(m->loop);
	mem_secure_zero(&m->tickets, sizeof(m->tickets));
	fd_close(&m->lock);
}

static int
listen_api(struct master *m, const struct gw_conf *conf, char **msg)
{
	char *path = xasprintf("%s/api.sock", conf->state_dir);
	int r = api_listen(m->api, path, m->user.uid, msg);

	free(path);
	return r;
}

static int
start_jobs(struct master *m, const struct gw_conf *conf, char **msg)
{
	struct jobhost_options o = {.loop = m->loop,
				    .conf = conf,
				    .owner = m->owner,
				    .api = m->api,
				    .worker_uid = m->user.uid};

	return jobhost_start(&o, &m->jobs, msg);
}

/* Until the first configuration is in force a failure ends the program. */
static int
begin(struct master *m, struct gw_conf *conf)
{
	char *msg = NULL;

	if (prepare_log(conf, &msg) != 0 ||
	    state_lock(conf, &m->lock, &msg) != 0 ||
	    start_jobs(m, conf, &msg) != 0 || listen_api(m, conf, &msg) != 0 ||
	    master_enter(m, conf, &msg) != 0) {
		log_error("gateway.start", "error: %s", msg);
		free(msg);
		gwconf_free(conf);
		return 1;
	}
	timer_set(&m->ticket_timer, conf->ticket_rotate_ms);
	return 0;
}

static void
serve(struct master *m)
{
	while (m->state != MASTER_ENDING) {
		if (crew_due(m->crew))
			crew_fork(m->crew);
		loop_run(m->loop);
	}
	/* What ends on its own (the agent) was waited for in the loop. */
}

int
master_run(const struct master_options *o)
{
	struct master m = {.o = *o, .lock = -1};
	struct gw_conf *conf;
	char *msg = NULL;

	(void)fd_raise_limit(FD_WANT);
	if (master_load(&m, &conf, &msg) != 0) {
		log_error("gateway.start", "error: %s", msg);
		free(msg);
		return 1;
	}
	/* One worker without root to give up needs no process of its own. */
	if (master_workers(conf) == 1 && !m.user.drop)
		m.o.single = true;
	make_parts(&m);
	if (begin(&m, conf) != 0) {
		m.status = 1;
	} else {
		serve(&m);
		log_info("gateway.end", "status=%d", m.status);
	}
	free_parts(&m);
	return m.status;
}
