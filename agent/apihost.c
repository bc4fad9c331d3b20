/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of host mode: sandboxes come and go. */
#include "config.h"

#include "agent/api_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/execreq.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/loop.h"

#define APIHOST_COUNT_MAX 1024
#define APIHOST_PROCS_MAX 65536
#define APIHOST_MEM_MAX   (16U << 20) /* MiB */
#define APIHOST_DISK_MAX  (16U << 20) /* MiB */
#define APIHOST_FILE_MAX  (1U << 30)  /* MiB */

/* --- create ------------------------------------------------------------ */

static void
apihost_add(struct strbuf *b, const struct sandbox *sb, bool created)
{
	strbuf_addf(b, "{\"id\":\"%s\",\"uid\":%ld,\"home\":", sb->id,
		    sb->uid == SANDBOX_NO_UID ? -1L : (long)sb->uid);
	strbuf_add_json(b, strv_of(sb->home));
	if (created)
		strbuf_addf(b, ",\"token\":\"%s\"}", sb->token);
	else
		strbuf_addf(b, ",\"created_at_ms\":%llu}",
			    (unsigned long long)sb->created_ms);
}

/* A whole number within min..max; absent leaves *out as it is. */
static int
apihost_number(const struct json *root, const char *key, uint64_t min,
	       uint64_t max, uint64_t *out, char **why)
{
	const struct json *v = json_get(root, key);
	uint64_t n;

	if (v == NULL || json_type(v) == JSON_NULL)
		return 0;
	if (json_u64(v, max, &n) != 0 || n < min) {
		*why = xasprintf("%s: a whole number from %llu to %llu is "
				 "wanted",
				 key, (unsigned long long)min,
				 (unsigned long long)max);
		return E_INVALID;
	}
	*out = n;
	return 0;
}

static int
apihost_net(const struct json *root, enum sandbox_net *out, char **why)
{
	static const struct {
		const char *word;
		enum sandbox_net net;
	} words[] = {
	    {"none", SANDBOX_NET_NONE},
	    {"outbound", SANDBOX_NET_OUTBOUND},
	    {"host", SANDBOX_NET_HOST},
	};
	const struct json *v = json_get(root, "network");
	const char *word = NULL;

	if (v == NULL || json_type(v) == JSON_NULL)
		return 0;
	if (json_type(v) == JSON_STRING)
		word = json_string(v);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (word != NULL && strcmp(word, words[i].word) == 0) {
			*out = words[i].net;
			return 0;
		}
	}
	*why = xstrdup("network: \"none\", \"outbound\" or \"host\" is wanted");
	return E_INVALID;
}

static int
apihost_spec(const struct json *root, struct sandbox_spec *s, uint64_t *count,
	     char **why)
{
	uint64_t idle = 0;
	int r;

	s->max_procs = 256;
	s->max_mem_mb = 2048;
	*count = 1;
	if ((r = apihost_number(root, "count", 1, APIHOST_COUNT_MAX, count,
				why)) != 0 ||
	    (r = apihost_number(root, "max_procs", 1, APIHOST_PROCS_MAX,
				&s->max_procs, why)) != 0 ||
	    (r = apihost_number(root, "max_mem_mb", 1, APIHOST_MEM_MAX,
				&s->max_mem_mb, why)) != 0 ||
	    (r = apihost_number(root, "max_file_mb", 0, APIHOST_FILE_MAX,
				&s->max_file_mb, why)) != 0 ||
	    (r = apihost_number(root, "disk_mb", 1, APIHOST_DISK_MAX,
				&s->disk_mb, why)) != 0 ||
	    (r = apihost_net(root, &s->net, why)) != 0 ||
	    (r = apihost_number(root, "idle_timeout_secs", 0, 1U << 30, &idle,
				why)) != 0)
		return r;
	s->idle_ms = idle * 1000;
	return execreq_env(json_get(root, "env"), &s->env, why);
}

/* Many are made one after the other; others are served meanwhile. */
struct apimake {
	struct host_maker maker; /* first */
	struct call *c;          /* NULL: the client went away */
	struct host *host;
	struct sandbox_spec spec; /* env is its own */
	struct strbuf out;
	uint64_t left, made;
	bool busy; /* one is being made */
};

static void
apimake_free(struct apimake *x)
{
	strbuf_clear(&x->out);
	execreq_env_free(x->spec.env);
	free(x);
}

static void
apimake_answer(struct apimake *x)
{
	strbuf_addf(&x->out, "],\"rejected\":%llu}",
		    (unsigned long long)x->left);
	api_answer(x->c, 200, &x->out);
}

static void
apimake_next(struct apimake *x)
{
	char *why = NULL;
	int r;

	if (x->left == 0) {
		apimake_answer(x);
		return;
	}
	r = host_create(x->host, &x->spec, &x->maker, &why);
	x->busy = r == 0;
	if (r == E_UNSUPPORTED)
		api_error(x->c->rq, 400, "unsupported", "%s", why);
	else if (r != 0) /* full */
		apimake_answer(x);
	free(why);
}

static void
apimake_done(struct host_maker *m, struct sandbox *sb, int eno)
{
	struct apimake *x = (struct apimake *)m;

	x->busy = false;
	if (x->c == NULL) { /* nobody will ever hear of it */
		if (sb != NULL)
			host_delete(x->host, sb, "deleted", NULL);
		apimake_free(x);
	} else if (sb != NULL) {
		if (x->made++ > 0)
			strbuf_addc(&x->out, ',');
		x->left--;
		apihost_add(&x->out, sb, true);
		apimake_next(x);
	} else if (x->made > 0) {
		apimake_answer(x);
	} else if (eno == ETIMEDOUT) {
		api_error(x->c->rq, 503, "disk_stalls",
			  "cannot make a home: the disk does not answer");
	} else {
		api_error(x->c->rq, 500, "internal", "cannot make a home: %s",
			  strerror(eno));
	}
}

/* Whoever asked may be gone before all were made: the rest is not, then. */
static void
apimake_closed(struct call *c, int err)
{
	struct apimake *x = c->state;

	(void)err;
	x->c = NULL;
	if (!x->busy)
		apimake_free(x);
}

static void
apihost_create(struct call *c)
{
	struct json_doc *doc = api_json(c, true);
	struct apimake *x;
	char *why = NULL;

	if (doc == NULL)
		return;
	x = xcalloc(1, sizeof(*x));
	x->maker.done = apimake_done;
	x->c = c;
	x->host = c->api->o.host;
	c->state = x;
	c->on_closed = apimake_closed;
	if (apihost_spec(json_root(doc), &x->spec, &x->left, &why) != 0) {
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else {
		strbuf_adds(&x->out, "{\"sandboxes\":[");
		apimake_next(x);
	}
	json_doc_free(doc);
}

void
api_sandboxes_create(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apihost_create);
}

void
api_sandboxes_list(struct call *c)
{
	struct host *h = c->api->o.host;
	struct strbuf b = {0};
	bool secrets = api_query_flag(c, "secrets");

	/* A gateway that keeps looking must not keep us from being idle. */
	c->quiet = secrets;
	strbuf_addc(&b, '[');
	for (struct sandbox *sb = host_next(h, NULL); sb != NULL;
	     sb = host_next(h, sb)) {
		if (b.len > 1)
			strbuf_addc(&b, ',');
		apihost_add(&b, sb, false);
		if (!secrets)
			continue;
		b.len--; /* the brace */
		strbuf_addf(&b, ",\"generation\":%llu,\"token\":\"%s\"}",
			    (unsigned long long)sb->generation, sb->token);
	}
	strbuf_addc(&b, ']');
	api_answer(c, 200, &b);
}

void
api_sandbox_token(struct call *c)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "{\"token\":\"%s\"}", c->sb->token);
	api_answer(c, 200, &b);
}

/* --- delete ------------------------------------------------------------ */

/* Waits for the end of n sandboxes; lives until all are gone and the exchange
 * is over, whichever is later. */
struct apidel {
	struct call *c; /* NULL: the client went away */
	char id[SANDBOX_ID_LEN + 1];
	bool one;
	size_t n, left;
	struct apidel_one {
		struct host_waiter w; /* first */
		struct apidel *all;
	} each[];
};

static void
apidel_answer(struct apidel *d)
{
	struct strbuf b = {0};

	if (d->one)
		strbuf_addf(&b, "{\"id\":\"%s\",\"deleted\":true}", d->id);
	else
		strbuf_addf(&b, "{\"deleted\":%zu}", d->n);
	api_answer(d->c, 200, &b);
}

static void
apidel_done(struct host_waiter *w)
{
	struct apidel *d = ((struct apidel_one *)(void *)w)->all;

	if (--d->left > 0)
		return;
	if (d->c != NULL)
		apidel_answer(d);
	else
		free(d);
}

static void
apidel_closed(struct call *c, int err)
{
	struct apidel *d = c->state;

	(void)err;
	d->c = NULL;
	if (d->left == 0)
		free(d);
}

static struct apidel *
apidel_new(struct call *c, size_t n)
{
	struct apidel *d =
	    xcalloc(1, sizeof(*d) + n * sizeof(struct apidel_one));

	d->c = c;
	d->n = d->left = n;
	for (size_t i = 0; i < n; i++) {
		d->each[i].w.done = apidel_done;
		d->each[i].all = d;
	}
	c->state = d;
	c->on_closed = apidel_closed;
	return d;
}

void
api_sandbox_delete(struct call *c)
{
	struct apidel *d = apidel_new(c, 1);

	d->one = true;
	memcpy(d->id, c->sb->id, sizeof(d->id));
	host_delete(c->api->o.host, c->sb, "deleted", &d->each[0].w);
}

void
api_sandboxes_delete_all(struct call *c)
{
	struct host *h = c->api->o.host;
	struct apidel *d = apidel_new(c, host_count(h));
	struct sandbox *sb;

	if (d->n == 0)
		apidel_answer(d);
	for (size_t i = 0; (sb = host_next(h, NULL)) != NULL; i++)
		host_delete(h, sb, "deleted", &d->each[i].w);
}
