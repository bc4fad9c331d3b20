/* SPDX-License-Identifier: Apache-2.0 */
/* The part of writing that is the same in every form: which field is meant,
 * and that it is one. */
#include "config.h"

#include "gateway/cwout.h"

#include <assert.h>
#include <string.h>

static const struct cwmsg_field *
field(const struct cwout *w, const char *name)
{
	const struct cwmsg_field *f;

	assert(w->depth > 0);
	f = cwmsg_field(w->at[w->depth - 1].desc, strv_of(name));
	assert(f != NULL);
	return f;
}

static void
push(struct cwout *w, const struct cwmsg_desc *d)
{
	assert(w->depth < CWOUT_DEPTH);
	memset(&w->at[w->depth], 0, sizeof(w->at[0]));
	w->at[w->depth++].desc = d;
}

void
cwout_begin(struct cwout *w, const struct cwout_codec *codec,
	    const struct cwmsg_desc *d, struct strbuf *b)
{
	memset(w, 0, sizeof(*w));
	w->codec = codec;
	w->b = b;
	codec->open(w, NULL);
	push(w, d);
}

void
cwout_end(struct cwout *w)
{
	while (w->depth > 0)
		cwout_close(w);
}

static void
open_field(struct cwout *w, const struct cwmsg_field *f)
{
	assert(f->type == CWMSG_MSG);
	w->codec->open(w, f);
	push(w, f->msg);
}

void
cwout_open(struct cwout *w, const char *name)
{
	open_field(w, field(w, name));
}

void
cwout_close(struct cwout *w)
{
	assert(w->depth > 0);
	w->codec->close(w);
	w->depth--;
}

void
cwout_list(struct cwout *w, const char *name)
{
	const struct cwmsg_field *f = field(w, name);

	assert(f->label == CWMSG_REPEATED || f->type == CWMSG_MAP);
	if (w->codec->list != NULL)
		w->codec->list(w, f);
}

void
cwout_int(struct cwout *w, const char *name, int64_t v)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.num = v};

	assert(f->type == CWMSG_INT32 || f->type == CWMSG_INT64 ||
	       f->type == CWMSG_UINT32 || f->type == CWMSG_UINT64 ||
	       f->type == CWMSG_ENUM);
	w->codec->put(w, f, &x);
}

void
cwout_bool(struct cwout *w, const char *name, bool v)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.num = v};

	assert(f->type == CWMSG_BOOL);
	w->codec->put(w, f, &x);
}

void
cwout_text(struct cwout *w, const char *name, struct strv v)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.text = v};

	assert(f->type == CWMSG_STRING);
	w->codec->put(w, f, &x);
}

void
cwout_bytes(struct cwout *w, const char *name, struct strv v)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.text = v};

	assert(f->type == CWMSG_BYTES);
	w->codec->put(w, f, &x);
}

void
cwout_time(struct cwout *w, const char *name, int64_t ms)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.num = ms / 1000,
				.nanos = (uint32_t)(ms % 1000) * 1000000};

	assert(f->type == CWMSG_TIME && ms >= 0);
	w->codec->put(w, f, &x);
}

void
cwout_pair(struct cwout *w, const char *name, struct strv key,
	   struct strv value)
{
	const struct cwmsg_field *f = field(w, name);
	struct cwout_value x = {.key = key, .text = value};

	assert(f->type == CWMSG_MAP);
	w->codec->put(w, f, &x);
}

static void
put_value(struct cwout *w, const struct cwmsg_field *f, const struct cwval *v)
{
	struct cwout_value x = {.num = v->num,
				.nanos = v->nanos,
				.key = strv_of(v->key),
				.text = {v->p, v->len}};

	if (f->type != CWMSG_MSG) {
		w->codec->put(w, f, &x);
		return;
	}
	open_field(w, f);
	cwout_tree(w, v->msg);
	cwout_close(w);
}

void
cwout_tree(struct cwout *w, const struct cwmsg *m)
{
	const struct cwmsg_desc *d = cwmsg_desc(m);

	assert(w->depth > 0 && w->at[w->depth - 1].desc == d);
	for (size_t i = 0; i < d->n; i++) {
		size_t n;
		const struct cwval *v = cwmsg_values(m, &d->v[i], &n);

		if (&d->v[i] == w->skip)
			continue;
		for (size_t k = 0; k < n; k++)
			put_value(w, &d->v[i], &v[k]);
	}
}
