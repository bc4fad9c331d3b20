/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a configuration gets into force: read, checked, then told to everybody
 * whom it concerns. A reload either succeeds as a whole or changes nothing.
 */
#include "config.h"

#include "gateway/master_int.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/admin.h"
#include "gateway/certs.h"
#include "gateway/cores.h"
#include "gateway/crew.h"
#include "gateway/jobhost.h"
#include "gateway/notify.h"
#include "gateway/owner.h"
#include "gateway/prepare.h"
#include "gateway/remotes.h"
#include "gateway/sockets.h"
#include "gateway/tokens.h"
#include "gateway/watch.h"

/* --- parts of it ------------------------------------------------------- */
void
master_load_tokens(struct master *m, const struct gw_conf *conf)
{
	struct token_list l;
	char *msg = NULL;

	if (tokens_read(conf->token_file, &l, &msg) != 0) {
		log_error("tokens.load", "error=%s action=keep",
			  log_esc(strv_of(msg)));
		free(msg);
		return;
	}
	owner_set_tokens(m->owner, &l);
	log_debug("tokens.load", "tokens=%zu", l.n);
	tokens_clear(&l);
}

static void
watch_cert_file(const char *path, void *arg)
{
	watch_add(arg, path);
}

static void
set_watches(struct master *m, const struct gw_conf *conf)
{
	watch_clear(m->cert_watch);
	watch_clear(m->token_watch);
	certs_each_file(conf, watch_cert_file, m->cert_watch);
	watch_add(m->token_watch, conf->token_file);
}

static void
admin_fd(int fd, void *arg)
{
	struct master *m = arg;
	int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (dup_fd >= 0)
		admin_listen(m->admin, dup_fd);
}

static void
set_admin(struct master *m, const struct gw_conf *conf)
{
	admin_unlisten(m->admin);
	for (size_t i = 0; i < conf->nlistens; i++)
		if (conf->listens[i].admin)
			sockets_each(m->sockets, &conf->listens[i], 0, 1,
				     admin_fd, m);
}

void
master_start_agent(struct master *m, const struct gw_conf *conf)
{
	struct agentctl_options o = m->agent_options;

	o.conf = conf;
	o.worker_uid = m->user.uid;
	m->agent = agentctl_start(&o);
}

/* --- all of it ---------------------------------------------------------- */
unsigned
master_workers(const struct gw_conf *conf)
{
	return conf->workers != 0 ? conf->workers : cores_usable();
}

int
master_load(struct master *m, struct gw_conf **out, char **msg)
{
	struct gw_conf *conf;
	int r;

	if ((r = m->o.load(&conf, msg, m->o.arg)) != 0)
		return r;
	if ((m->crew != NULL &&
	     (r = prepare_same(crew_conf(m->crew), conf, m->agent != NULL,
			       msg)) != 0) ||
	    (r = prepare_conf(conf, m->o.single, &m->user, msg)) != 0)
		gwconf_free(conf);
	else
		*out = conf;
	return r;
}

/* conf is the crew's when this succeeds. */
int
master_enter(struct master *m, struct gw_conf *conf, char **msg)
{
	unsigned n = m->o.single ? 1 : master_workers(conf);
	int r;

	if ((r = sockets_open(m->sockets, conf, n, msg)) != 0)
		return r;
	owner_set_conf(m->owner, conf);
	master_load_tokens(m, conf);
	if ((r = crew_enter(m->crew, conf, n, &m->user, msg)) != 0)
		return r;
	if (m->jobs != NULL)
		jobhost_set_conf(m->jobs, conf);
	sockets_prune(m->sockets, conf);
	set_admin(m, conf);
	set_watches(m, conf);
	remotes_set_conf(m->remotes, conf);
	if (conf->agent && m->agent == NULL)
		master_start_agent(m, conf);
	else if (conf->agent)
		agentctl_set_conf(m->agent, conf);
	else if (!conf->agent && m->agent != NULL)
		agentctl_stop(m->agent); /* freed when it has ended */
	return 0;
}

void
master_reload(struct master *m, const char *why)
{
	struct gw_conf *conf = NULL;
	char *msg = NULL;
	int r;

	if (m->state > MASTER_SERVING)
		return;
	notify_send("RELOADING=1");
	if ((r = master_load(m, &conf, &msg)) == 0 &&
	    (r = master_enter(m, conf, &msg)) != 0) {
		/* Back to what the workers have. */
		owner_set_conf(m->owner, crew_conf(m->crew));
		sockets_prune(m->sockets, crew_conf(m->crew));
		gwconf_free(conf);
	}
	if (r == 0)
		r = prepare_log(conf, &msg);
	if (r != 0) {
		m->reload_errors++;
		log_error("config.reload", "reason=%s action=keep error: %s",
			  why, msg);
		free(msg);
	} else {
		m->reloads++;
		log_info("config.reload", "reason=%s workers=%u", why,
			 m->o.single ? 1 : master_workers(conf));
	}
	notify_send("READY=1");
}
