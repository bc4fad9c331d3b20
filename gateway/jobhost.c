/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. Generations in the route table are the jobs' numbers. */
#include "config.h"

#include "gateway/jobhost.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/cwhttp.h"
#include "gateway/cwsvc.h"
#include "gateway/gwconf.h"
#include "gateway/jobapi.h"
#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "gateway/launchapi.h"
#include "gateway/owner.h"
#include "gateway/snapapi.h"
#include "gateway/snapshots.h"

struct jobhost {
	struct jobhost_options o;
	struct launcher *launcher;
	struct jobs *jobs;
	struct snapshots *snapshots;
	struct jobapi *face;
	struct snapapi *snap_face;
	struct cwsvc *coreweave;
};

static void
announce_cb(const struct job *j, const char *http, const char *control,
	    void *arg)
{
	struct jobhost *h = arg;

	owner_job(h->o.owner, j->id, j->seq, http, control, j->ns);
}

static void
gone_cb(const struct job *j, const char *reason, void *arg)
{
	struct jobhost *h = arg;

	owner_job_gone(h->o.owner, j->id, j->seq, j->ns, reason);
}

static int
start_launcher(struct jobhost *h, char **msg)
{
	const struct gw_conf *conf = h->o.conf;
	char *dir = xasprintf("%s/jobs", conf->state_dir);
	struct launch_options lo = {.loop = h->o.loop,
				    .conf = conf,
				    .jobs_dir = dir,
				    .worker_uid = h->o.worker_uid};
	int r = launcher_new(&lo, conf->jobs.launcher, &h->launcher, msg);

	free(dir);
	return r;
}

static int
start_jobs(struct jobhost *h, char **msg)
{
	char *path = xasprintf("%s/jobs.db", h->o.conf->state_dir);
	struct jobs_options jo = {.loop = h->o.loop,
				  .conf = h->o.conf,
				  .db_path = path,
				  .launcher = h->launcher,
				  .announce = announce_cb,
				  .gone = gone_cb,
				  .arg = h};
	int r = jobs_new(&jo, &h->jobs, msg);

	if (r == 0 && *msg != NULL) { /* it is not what it was */
		log_error("jobs.store", "error: %s", *msg);
		free(*msg);
		*msg = NULL;
	}
	free(path);
	return r;
}

static int
start_snapshots(struct jobhost *h, char **msg)
{
	const struct gw_conf *conf = h->o.conf;
	const char *dir = conf->snapshots.dir;
	char *own = dir != NULL && dir[0] != '\0'
			? xstrdup(dir)
			: xasprintf("%s/snapshots", conf->state_dir);
	const struct snapshots_options so = {.jobs = h->jobs, .dir = own};
	int r = snapshots_new(&so, &h->snapshots, msg);

	free(own);
	return r;
}

/* Whether it is enabled is for the workers to say, who route to it. */
static void
start_coreweave(struct jobhost *h)
{
	const struct cwsvc_options co = {
	    .loop = h->o.loop, .jobs = h->jobs, .snapshots = h->snapshots};

	h->coreweave = cwsvc_new(&co);
	cwconnect_add(h->o.api, h->coreweave);
	cwrest_add(h->o.api, h->coreweave);
}

static bool
asked_for(const struct gw_conf *conf)
{
	return conf_line(conf->ini, "jobs", NULL, "enabled") != 0 ||
	       conf_line(conf->ini, "jobs", NULL, "launcher") != 0;
}

int
jobhost_start(const struct jobhost_options *o, struct jobhost **out, char **msg)
{
	struct jobhost *h;
	int r;

	*out = NULL;
	if (!o->conf->jobs.enabled)
		return 0;
	h = xcalloc(1, sizeof(*h));
	h->o = *o;
	if ((r = start_launcher(h, msg)) == 0 &&
	    (r = start_jobs(h, msg)) == 0 &&
	    (r = start_snapshots(h, msg)) == 0) {
		h->face = jobapi_new(o->api, h->jobs, h->snapshots);
		h->snap_face = snapapi_new(o->api, h->jobs, h->snapshots);
		launchapi_add(o->api, h->launcher);
		start_coreweave(h);
		jobs_adopt(h->jobs);
		*out = h;
		return 0;
	}
	jobhost_free(h);
	if (asked_for(o->conf))
		return r;
	log_warn("jobs.off", "reason=%s", log_esc(strv_of(*msg)));
	free(*msg);
	*msg = NULL;
	return 0;
}

void
jobhost_set_conf(struct jobhost *h, const struct gw_conf *conf)
{
	h->o.conf = conf;
	jobs_set_conf(h->jobs, conf);
	launcher_set_conf(h->launcher, conf);
}

void
jobhost_metrics(const struct jobhost *h, struct strbuf *out)
{
	const struct jobs_totals *t = jobs_totals(h->jobs);

	strbuf_addf(out,
		    "# HELP sbx_gateway_jobs Jobs that have not ended\n"
		    "# TYPE sbx_gateway_jobs gauge\n"
		    "sbx_gateway_jobs %zu\n"
		    "# HELP sbx_gateway_jobs_created_total Jobs made\n"
		    "# TYPE sbx_gateway_jobs_created_total counter\n"
		    "sbx_gateway_jobs_created_total %llu\n"
		    "# HELP sbx_gateway_jobs_ended_total Jobs that ended, "
		    "by reason\n"
		    "# TYPE sbx_gateway_jobs_ended_total counter\n",
		    jobs_count(h->jobs), (unsigned long long)t->created);
	for (int i = 0; i < JOB_EVENTS; i++)
		if (t->ended[i] != 0)
			strbuf_addf(
			    out,
			    "sbx_gateway_jobs_ended_total{reason=\"%s\"}"
			    " %llu\n",
			    job_event_name((enum job_event)i),
			    (unsigned long long)t->ended[i]);
}

void
jobhost_drain(struct jobhost *h)
{
	jobapi_drain(h->face);
	snapapi_drain(h->snap_face);
	cwsvc_drain(h->coreweave);
}

void
jobhost_free(struct jobhost *h)
{
	if (h == NULL)
		return;
	snapapi_free(h->snap_face);
	jobapi_free(h->face);
	snapshots_free(h->snapshots);
	cwsvc_free(h->coreweave);
	jobs_free(h->jobs);
	launcher_free(h->launcher);
	free(h);
}
