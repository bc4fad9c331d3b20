/* SPDX-License-Identifier: Apache-2.0 */
/* Reading messages from JSON; see the header. The schema bounds how deep. */
#include "config.h"

#include "gateway/cwjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/cwtime.h"

#define WHOLE_MAX 9007199254740991.0 /* a double is exact up to here */

void
cwjson_error_clear(struct cwjson_error *e)
{
	strbuf_clear(&e->path);
	e->what = NULL;
}

static int
bad(struct cwjson_error *e, const char *what)
{
	e->what = what;
	return E_INVALID;
}

/* --- scalars ----------------------------------------------------------- */

/* 1*DIGIT with a sign, exactly. */
static int
parse_digits(struct strv s, bool *negative, uint64_t *out)
{
	*negative = s.len > 0 && s.p[0] == '-';
	if (*negative)
		s = strv_from(s, 1);
	return strv_parse_u64(s, UINT64_MAX, false, out);
}

/* What is written as another whole number: 1.0, 1e3. */
static int
parse_whole(double d, bool *negative, uint64_t *out)
{
	*negative = d < 0;
	d = fabs(d);
	if (!(d <= WHOLE_MAX) || trunc(d) != d)
		return E_INVALID;
	*out = (uint64_t)d;
	return 0;
}

static int
in_range(const struct cwmsg_field *f, bool negative, uint64_t n, int64_t *out)
{
	uint64_t most = INT32_MAX;

	if (f->type == CWMSG_UINT64)
		most = UINT64_MAX;
	else if (f->type == CWMSG_INT64)
		most = INT64_MAX;
	else if (f->type == CWMSG_UINT32)
		most = UINT32_MAX;
	if (negative && n != 0) {
		if (f->type == CWMSG_UINT32 || f->type == CWMSG_UINT64 ||
		    n > most + 1)
			return E_INVALID;
		*out = -(int64_t)(n - 1) - 1;
		return 0;
	}
	if (n > most)
		return E_INVALID;
	*out = (int64_t)n; /* the bits of a uint64 */
	return 0;
}

static int
read_number_text(const struct cwmsg_field *f, struct strv s, int64_t *out,
		 struct cwjson_error *e)
{
	bool negative;
	uint64_t n;

	if (parse_digits(s, &negative, &n) != 0)
		return bad(e, "must be a whole number");
	if (in_range(f, negative, n, out) != 0)
		return bad(e, "is out of range");
	return 0;
}

static int
read_number(const struct cwmsg_field *f, const struct json *v, int64_t *out,
	    struct cwjson_error *e)
{
	bool negative;
	uint64_t n;
	double d;

	if (json_type(v) == JSON_STRING)
		return read_number_text(f, strv_of(json_string(v)), out, e);
	if (json_type(v) != JSON_NUMBER || json_number(v, &d) != 0)
		return bad(e, "must be a number");
	if (fabs(d) > WHOLE_MAX)
		return bad(e, "is out of range, or must be written as text");
	if (parse_whole(d, &negative, &n) != 0)
		return bad(e, "must be a whole number");
	if (in_range(f, negative, n, out) != 0)
		return bad(e, "is out of range");
	return 0;
}

static int
read_word(const struct cwmsg_field *f, struct strv name, int64_t *out,
	  struct cwjson_error *e)
{
	int32_t n;

	if (cwmsg_enum_number(f->words, name, &n) != 0)
		return bad(e, "is not one of the names of this enum");
	*out = n;
	return 0;
}

static int
read_enum(const struct cwmsg_field *f, const struct json *v, int64_t *out,
	  struct cwjson_error *e)
{
	if (json_type(v) == JSON_STRING)
		return read_word(f, strv_of(json_string(v)), out, e);
	if (json_type(v) != JSON_NUMBER)
		return bad(e, "must be the name or the number of a value");
	return read_number(f, v, out, e);
}

/* Also with '-' and '_', also without padding. */
static int
read_base64(struct strv s, struct cwval *v, struct cwjson_error *e)
{
	size_t n = 0, pads = 0;
	uint32_t bits = 0;
	char *p;

	while (pads < 2 && s.len > 0 && s.p[s.len - 1] == '=') {
		s.len--;
		pads++;
	}
	if (s.len % 4 == 1 || (pads > 0 && (s.len + pads) % 4 != 0))
		return bad(e, "is not base64");
	p = xmalloc(s.len / 4 * 3 + 3);
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i] == '-' ? '+' : s.p[i] == '_' ? '/' : s.p[i];
		int d = base64_value(c);

		if (d < 0) {
			free(p);
			return bad(e, "is not base64");
		}
		bits = bits << 6 | (uint32_t)d;
		if (i % 4 != 0)
			p[n++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
	}
	p[n] = '\0';
	v->p = p;
	v->len = n;
	return 0;
}

static int
read_text_value(const struct cwmsg_field *f, struct strv s, struct cwval *v,
		struct cwjson_error *e)
{
	if (f->type == CWMSG_BYTES)
		return read_base64(s, v, e);
	if (f->type == CWMSG_TIME)
		return cwtime_parse(s, &v->num, &v->nanos) == 0
			   ? 0
			   : bad(e, "must be a time as in RFC 3339");
	cwmsg_set(v, s);
	return 0;
}

/* --- members ----------------------------------------------------------- */

static int
read_value(const struct cwmsg_field *f, const struct json *v, struct cwval *out,
	   struct cwjson_error *e)
{
	bool b;

	switch (f->type) {
	case CWMSG_BOOL:
		if (json_bool(v, &b) != 0)
			return bad(e, "must be true or false");
		out->num = b;
		return 0;
	case CWMSG_INT32:
	case CWMSG_INT64:
	case CWMSG_UINT32:
	case CWMSG_UINT64:
		return read_number(f, v, &out->num, e);
	case CWMSG_ENUM:
		return read_enum(f, v, &out->num, e);
	case CWMSG_STRING:
	case CWMSG_BYTES:
	case CWMSG_TIME:
		if (json_type(v) != JSON_STRING)
			return bad(e, "must be a string");
		return read_text_value(f, strv_of(json_string(v)), out, e);
	case CWMSG_MSG:
		return cwjson_read(f->msg, v, &out->msg, e);
	case CWMSG_MAP:
		break;
	}
	return bad(e, "cannot be read");
}

static int
read_list(struct cwmsg *m, const struct cwmsg_field *f, const struct json *v,
	  struct cwjson_error *e)
{
	const struct json *it = NULL;
	size_t len = e->path.len, i = 0;
	int r;

	if (json_type(v) != JSON_ARRAY)
		return bad(e, "must be an array");
	while (json_each(v, &it, NULL)) {
		strbuf_addf(&e->path, "[%zu]", i++);
		if (json_type(it) == JSON_NULL)
			return bad(e, "must not be null");
		if ((r = read_value(f, it, cwmsg_add(m, f), e)) != 0)
			return r;
		e->path.len = len;
	}
	return 0;
}

static int
read_map(struct cwmsg *m, const struct cwmsg_field *f, const struct json *v,
	 struct cwjson_error *e)
{
	const struct json *it = NULL;
	struct cwval *to;
	const char *key;

	if (json_type(v) != JSON_OBJECT)
		return bad(e, "must be an object");
	while (json_each(v, &it, &key)) {
		if (json_type(it) != JSON_STRING) {
			strbuf_addf(&e->path, "[%.64s]", key);
			return bad(e, "must be a string");
		}
		to = cwmsg_add(m, f);
		to->key = xstrdup(key);
		cwmsg_set(to, strv_of(json_string(it)));
	}
	return 0;
}

static int
read_field(struct cwmsg *m, const struct cwmsg_field *f, const struct json *v,
	   struct cwjson_error *e)
{
	size_t len = e->path.len;
	int r;

	if (json_type(v) == JSON_NULL) /* as good as absent */
		return 0;
	strbuf_addf(&e->path, "%s%s", len > 0 ? "." : "", f->name);
	if (cwmsg_has(m, f->name))
		return bad(e, "is there twice");
	if (cwmsg_rival(m, f) != NULL)
		return bad(e, "excludes another field that is there");
	if (f->label == CWMSG_REPEATED)
		r = read_list(m, f, v, e);
	else if (f->type == CWMSG_MAP)
		r = read_map(m, f, v, e);
	else
		r = read_value(f, v, cwmsg_add(m, f), e);
	if (r == 0)
		e->path.len = len;
	return r;
}

/* "sandboxId" for "sandbox_id". */
static bool
is_camel(const char *name, const char *camel)
{
	for (; *name != '\0'; name++, camel++) {
		char c = *name;

		if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
			c = (char)(*++name - 'a' + 'A');
		if (c != *camel)
			return false;
	}
	return *camel == '\0';
}

static const struct cwmsg_field *
find_field(const struct cwmsg_desc *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->v[i].name, name) == 0 ||
		    is_camel(d->v[i].name, name))
			return &d->v[i];
	return NULL;
}

int
cwjson_read_into(struct cwmsg *m, const struct json *v, struct cwjson_error *e)
{
	const struct cwmsg_field *f;
	const struct json *it = NULL;
	const char *name;
	int r;

	if (json_type(v) != JSON_OBJECT)
		return bad(e, "must be an object");
	while (json_each(v, &it, &name)) {
		if ((f = find_field(cwmsg_desc(m), name)) != NULL &&
		    (r = read_field(m, f, it, e)) != 0)
			return r;
	}
	return 0;
}

int
cwjson_read(const struct cwmsg_desc *d, const struct json *v,
	    struct cwmsg **out, struct cwjson_error *e)
{
	struct cwmsg *m = cwmsg_new(d);
	int r = cwjson_read_into(m, v, e);

	if (r == 0)
		*out = m;
	else
		cwmsg_free(m);
	return r;
}

int
cwjson_read_text(struct cwmsg *m, struct strv name, struct strv text,
		 struct cwjson_error *e)
{
	char *key = xstrndup(name.p, name.len);
	const struct cwmsg_field *f = find_field(cwmsg_desc(m), key);
	struct cwval v = {0};
	int r = 0;

	free(key);
	if (f == NULL)
		return E_NOTFOUND;
	strbuf_adds(&e->path, f->name);
	if (f->type == CWMSG_MSG || f->type == CWMSG_MAP)
		return bad(e, "cannot be said here");
	if (f->label != CWMSG_REPEATED && cwmsg_has(m, f->name))
		return bad(e, "is there twice");
	if (f->type == CWMSG_BOOL && strv_eq(text, STRV("true")))
		v.num = 1;
	else if (f->type == CWMSG_BOOL && !strv_eq(text, STRV("false")))
		r = bad(e, "must be true or false");
	else if (f->type == CWMSG_ENUM &&
		 (text.len == 0 || text.p[0] < '0' || text.p[0] > '9'))
		r = read_word(f, text, &v.num, e);
	else if (f->type == CWMSG_STRING || f->type == CWMSG_BYTES ||
		 f->type == CWMSG_TIME)
		r = read_text_value(f, text, &v, e);
	else if (f->type != CWMSG_BOOL)
		r = read_number_text(f, text, &v.num, e);
	if (r != 0)
		return r;
	*cwmsg_add(m, f) = v;
	strbuf_reset(&e->path);
	return 0;
}
