/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of values, one list of them a field; see the header. */
#include "config.h"

#include "gateway/cwmsg.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct values {
	struct cwval *v;
	size_t n, room;
};

struct cwmsg {
	const struct cwmsg_desc *desc;
	struct values v[]; /* as desc->v */
};

/* --- descriptions ------------------------------------------------------ */

const struct cwmsg_field *
cwmsg_field(const struct cwmsg_desc *d, struct strv name)
{
	for (size_t i = 0; i < d->n; i++)
		if (strv_eq(name, strv_of(d->v[i].name)))
			return &d->v[i];
	return NULL;
}

int
cwmsg_enum_number(const struct cwmsg_enum *e, struct strv name, int32_t *out)
{
	for (size_t i = 0; i < e->n; i++) {
		if (!strv_eq(name, strv_of(e->v[i].name)))
			continue;
		*out = e->v[i].number;
		return 0;
	}
	return E_NOTFOUND;
}

const char *
cwmsg_enum_name(const struct cwmsg_enum *e, int32_t number)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->v[i].number == number)
			return e->v[i].name;
	return NULL;
}

/* --- life -------------------------------------------------------------- */

struct cwmsg *
cwmsg_new(const struct cwmsg_desc *d)
{
	struct cwmsg *m = xcalloc(1, sizeof(*m) + d->n * sizeof(m->v[0]));

	m->desc = d;
	return m;
}

static void
value_clear(struct cwval *v)
{
	if (v->p != NULL)
		mem_secure_zero(v->p, v->len);
	free(v->p);
	free(v->key);
	cwmsg_free(v->msg);
}

/* Messages hold no message of their own kind: the schema bounds the depth. */
void
cwmsg_free(struct cwmsg *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->desc->n; i++) {
		for (size_t k = 0; k < m->v[i].n; k++)
			value_clear(&m->v[i].v[k]);
		free(m->v[i].v);
	}
	free(m);
}

const struct cwmsg_desc *
cwmsg_desc(const struct cwmsg *m)
{
	return m->desc;
}

/* --- filling ----------------------------------------------------------- */

struct cwval *
cwmsg_add(struct cwmsg *m, const struct cwmsg_field *f)
{
	struct values *vs = &m->v[f - m->desc->v];

	assert(vs->n == 0 || f->label == CWMSG_REPEATED ||
	       f->type == CWMSG_MAP);
	if (vs->n == vs->room) {
		vs->room = vs->room != 0 ? 2 * vs->room : 1;
		vs->v = xreallocarray(vs->v, vs->room, sizeof(*vs->v));
	}
	memset(&vs->v[vs->n], 0, sizeof(*vs->v));
	return &vs->v[vs->n++];
}

void
cwmsg_set(struct cwval *v, struct strv s)
{
	v->p = xmalloc(s.len + 1);
	if (s.len > 0)
		memcpy(v->p, s.p, s.len);
	v->p[s.len] = '\0';
	v->len = s.len;
}

const struct cwmsg_field *
cwmsg_rival(const struct cwmsg *m, const struct cwmsg_field *f)
{
	for (size_t i = 0; f->oneof != 0 && i < m->desc->n; i++)
		if (&m->desc->v[i] != f && m->desc->v[i].oneof == f->oneof &&
		    m->v[i].n > 0)
			return &m->desc->v[i];
	return NULL;
}

/* --- reading ----------------------------------------------------------- */

const struct cwval *
cwmsg_values(const struct cwmsg *m, const struct cwmsg_field *f, size_t *n)
{
	const struct values *vs;

	*n = 0;
	if (m == NULL)
		return NULL;
	vs = &m->v[f - m->desc->v];
	*n = vs->n;
	return vs->v;
}

static const struct values *
find(const struct cwmsg *m, const char *name)
{
	static const struct values none;
	const struct cwmsg_field *f;

	if (m == NULL)
		return &none;
	f = cwmsg_field(m->desc, strv_of(name));
	assert(f != NULL);
	return &m->v[f - m->desc->v];
}

/* The only value, or one without anything. */
static const struct cwval *
only(const struct cwmsg *m, const char *name)
{
	static const struct cwval none;
	const struct values *vs = find(m, name);

	return vs->n > 0 ? &vs->v[0] : &none;
}

static const struct cwval *
at(const struct cwmsg *m, const char *name, size_t i)
{
	const struct values *vs = find(m, name);

	assert(i < vs->n);
	return &vs->v[i];
}

bool
cwmsg_has(const struct cwmsg *m, const char *name)
{
	return find(m, name)->n > 0;
}

size_t
cwmsg_count(const struct cwmsg *m, const char *name)
{
	return find(m, name)->n;
}

int64_t
cwmsg_int(const struct cwmsg *m, const char *name)
{
	return only(m, name)->num;
}

int64_t
cwmsg_time_ms(const struct cwmsg *m, const char *name)
{
	const struct cwval *v = only(m, name);

	return v->num * 1000 + v->nanos / 1000000;
}

struct strv
cwmsg_view(const struct cwmsg *m, const char *name)
{
	const struct cwval *v = only(m, name);

	return (struct strv){v->p, v->len};
}

const char *
cwmsg_text(const struct cwmsg *m, const char *name)
{
	const struct cwval *v = only(m, name);

	return v->p != NULL ? v->p : "";
}

const struct cwmsg *
cwmsg_msg(const struct cwmsg *m, const char *name)
{
	return only(m, name)->msg;
}

const char *
cwmsg_text_at(const struct cwmsg *m, const char *name, size_t i)
{
	return at(m, name, i)->p;
}

const struct cwmsg *
cwmsg_msg_at(const struct cwmsg *m, const char *name, size_t i)
{
	return at(m, name, i)->msg;
}

void
cwmsg_pair_at(const struct cwmsg *m, const char *name, size_t i,
	      const char **key, const char **value)
{
	const struct cwval *v = at(m, name, i);

	*key = v->key;
	*value = v->p;
}
