/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent behind a tunnel. It has no control channel to here, so it is
 * asked: first it is told its base environment, then for its sandboxes. What it
 * answers is another machine's word: it can add sandboxes of its own, and
 * touch nobody else's (owner.c).
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/ask.h"
#include "gateway/owner.h"
#include "gateway/remote_int.h"
#include "gateway/route.h"

#define ASK_MS      5000
#define LIST_MAX    (4U << 20)
#define BOXES_MAX   16384
#define REFRESH_MS  10000
#define GAP_NEWS_MS 20  /* between two lists while things happen */
#define GAP_MS      250 /* when nothing has */
#define RETRY_MS    250
#define RETRY_MAX   5000

static void ask_now(struct remote *r, enum remote_step step);

void
remote_agent_row(struct remote *r)
{
	char *http = xasprintf("unix:%s", r->path);

	owner_agent(r->o.owner, r->name, http, NULL, r->conf.ns, r->conf.token);
	owner_agent_down(r->o.owner, r->name, r->reason);
	free(http);
}

/* --- failing ----------------------------------------------------------- */

static void
answered_marks(struct remote *r, uint64_t upto)
{
	r->mark_done = upto;
	r->o.refreshed(r, r->o.arg);
}

static void
failed(struct remote *r, const char *why)
{
	uint64_t ms = (uint64_t)RETRY_MS
		      << (r->ask_failures < 5 ? r->ask_failures : 5);
	uint32_t rnd;

	r->ask_failures++;
	if (ms > RETRY_MAX)
		ms = RETRY_MAX;
	token_random(&rnd, sizeof(rnd));
	timer_set(&r->ask_timer, ms / 2 + rnd % (ms / 2));
	r->agent_ok = false;
	r->step = REMOTE_IDLE;
	answered_marks(r, r->mark_want);
	remote_update(r, why);
}

static void
failed_status(struct remote *r, int err, unsigned status)
{
	char why[REMOTESTAT_TEXT];

	if (err == E_LIMIT)
		(void)snprintf(why, sizeof(why),
			       "the agent at %.100s says too much",
			       r->conf.agent);
	else if (err != 0)
		(void)snprintf(why, sizeof(why),
			       "the agent at %.100s does not answer (%s)",
			       r->conf.agent, err_text(err));
	else if (status == 401 || status == 403)
		(void)snprintf(why, sizeof(why),
			       "the agent at %.100s does not accept the "
			       "secret of agent_token_file",
			       r->conf.agent);
	else
		(void)snprintf(why, sizeof(why),
			       "what is at %.100s answers %u: no agent?",
			       r->conf.agent, status);
	failed(r, why);
}

/* --- the list ---------------------------------------------------------- */

/* One row of the answer; false when it makes no sense. */
static bool
learn_one(struct remote *r, const struct json *it, struct hash *ids)
{
	const char *id = json_string(json_get(it, "id"));
	const char *token = json_string(json_get(it, "token"));
	struct route_sandbox *sb;
	uint64_t gen;

	if (id == NULL || !route_id_ok(strv_of(id)))
		return false;
	/* An older agent knows no generations; then when it was made. */
	if (json_u64(json_get(it, "generation"), UINT64_MAX, &gen) != 0 &&
	    json_u64(json_get(it, "created_at_ms"), UINT64_MAX, &gen) != 0)
		gen = 1;
	if (token != NULL && !token_plausible(strv_of(token), 1024))
		return false;
	(void)hash_set(ids, strv_of(id), r);
	sb = route_lookup(owner_table(r->o.owner), strv_of(id));
	if (sb != NULL && !sb->gone && sb->agent != NULL &&
	    strcmp(sb->agent->name, r->name) == 0 && sb->generation == gen)
		return true;
	r->news = true;
	owner_add(r->o.owner, strv_of(id), gen, r->name, r->conf.ns,
		  strv_of(token));
	return true;
}

static void
learn(struct remote *r, const struct json *list)
{
	struct hash *ids = hash_new();
	const struct json *it = NULL;
	size_t n = 0, bad = 0;

	r->news = false;
	while (n++ < BOXES_MAX && json_each(list, &it, NULL))
		bad += !learn_one(r, it, ids);
	if (bad > 0)
		log_warn("tunnel.list", "tunnel=%s malformed=%zu", r->name,
			 bad);
	if (owner_agent_keep(r->o.owner, r->name, ids, "deleted") > 0)
		r->news = true;
	r->sandboxes = hash_count(ids);
	hash_free(ids);
}

/* An agent of one sandbox: the machine itself, under the tunnel's name, which
 * the agent's own secret opens. */
static void
learn_machine(struct remote *r)
{
	struct strv name = strv_of(r->name);
	const struct route_sandbox *sb =
	    route_lookup(owner_table(r->o.owner), name);
	struct hash *ids = hash_new();

	r->dedicated = true;
	(void)hash_set(ids, name, r);
	(void)owner_agent_keep(r->o.owner, r->name, ids, "deleted");
	hash_free(ids);
	if (sb == NULL || sb->gone)
		owner_add(r->o.owner, name, 1, r->name, r->conf.ns,
			  strv_of(r->conf.token));
	r->sandboxes = 1;
}

/* --- the conversation -------------------------------------------------- */

static void
settled(struct remote *r)
{
	r->step = REMOTE_IDLE;
	r->ask_failures = 0;
	r->agent_ok = true;
	timer_set(&r->ask_timer, REFRESH_MS);
	remote_update(r, NULL);
	answered_marks(r, r->mark_asking);
	if (r->mark_want > r->mark_done)
		timer_set(&r->ask_timer, r->news ? GAP_NEWS_MS : GAP_MS);
}

static void
listed(struct remote *r, struct strv body)
{
	struct json_doc *doc = NULL;

	if (json_parse(body, &doc, NULL) != 0 ||
	    json_type(json_root(doc)) != JSON_ARRAY) {
		json_doc_free(doc);
		failed(r, "the agent's list makes no sense");
		return;
	}
	learn(r, json_root(doc));
	json_doc_free(doc);
	settled(r);
}

static void
answered_cb(int err, unsigned status, struct strv body, void *arg)
{
	struct remote *r = arg;
	enum remote_step step = r->step;

	r->ask = NULL;
	/* Older agents have no such route; an agent of one sandbox, no list. */
	if (step == REMOTE_PUT_ENV && err == 0 &&
	    (status == 200 || status == 404 || status == 405)) {
		ask_now(r, REMOTE_GET_LIST);
	} else if (step == REMOTE_GET_LIST && err == 0 && status == 200) {
		r->dedicated = false;
		listed(r, body);
	} else if (step == REMOTE_GET_LIST && err == 0 && status == 404) {
		learn_machine(r);
		settled(r);
	} else {
		failed_status(r, err, status);
	}
}

static void
ask_now(struct remote *r, enum remote_step step)
{
	struct ask_spec s = {.to = &r->at,
			     .token = r->conf.token,
			     .max = LIST_MAX,
			     .timeout_ms = ASK_MS,
			     .done = answered_cb,
			     .arg = r};
	struct strbuf b = {0};

	r->step = step;
	if (step == REMOTE_PUT_ENV) {
		outside_env_json(&r->conf.outside, true, &b);
		s.method = STRV("PUT");
		s.id = M_PUT;
		s.target = "/v1/env";
		s.body = (struct strv){b.s, b.len};
	} else {
		s.method = STRV("GET");
		s.id = M_GET;
		s.target = "/v1/sandboxes?secrets=1";
		r->mark_asking = r->mark_want;
		r->asked_ms = loop_now_ms(r->o.loop);
	}
	r->ask = ask_start(r->o.loop, &s);
	strbuf_clear(&b);
}

static void
ask_timer_cb(void *arg)
{
	struct remote *r = arg;

	if (!r->ssh_up || r->ask != NULL)
		return;
	/* Who only waits for the list has been told its environment; an agent
	 * that was started anew in between has not. */
	if (r->agent_ok && r->mark_want > r->mark_done)
		ask_now(r, REMOTE_GET_LIST);
	else
		ask_now(r, REMOTE_PUT_ENV);
}

uint64_t
remote_refresh(struct remote *r)
{
	uint64_t now = loop_now_ms(r->o.loop), gap, past;

	if (!r->ssh_up || !r->agent_ok || r->dedicated || r->conf.agent == NULL)
		return 0;
	r->mark_want++;
	if (r->ask != NULL)
		return r->mark_want; /* the next one, then */
	gap = r->news ? GAP_NEWS_MS : GAP_MS;
	past = now - r->asked_ms;
	timer_set(&r->ask_timer, past < gap ? gap - past : 0);
	return r->mark_want;
}

uint64_t
remote_asked(const struct remote *r)
{
	return r->mark_done == r->mark_want ? UINT64_MAX : r->mark_done;
}

void
remote_agent_up(struct remote *r)
{
	if (r->conf.agent == NULL)
		return;
	r->ask_failures = 0;
	ask_cancel(r->ask);
	r->ask = NULL;
	ask_now(r, REMOTE_PUT_ENV);
}

void
remote_agent_down(struct remote *r)
{
	ask_cancel(r->ask);
	r->ask = NULL;
	r->step = REMOTE_IDLE;
	r->agent_ok = false;
	timer_stop(&r->ask_timer);
	if (r->mark_done != r->mark_want)
		answered_marks(r, r->mark_want);
}

void
remote_agent_init(struct remote *r)
{
	timer_init(&r->ask_timer, r->o.loop, ask_timer_cb, r);
}

void
remote_agent_clear(struct remote *r)
{
	ask_cancel(r->ask);
	r->ask = NULL;
	timer_clear(&r->ask_timer);
}
