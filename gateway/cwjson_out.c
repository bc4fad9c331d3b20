/* SPDX-License-Identifier: Apache-2.0 */
/* The codec that writes JSON. Members come in the order in which they were
 * written; a repeated field is one array only if its values are together. */
#include "config.h"

#include "base/base64.h"
#include "gateway/cwjson.h"
#include "gateway/cwtime.h"

static struct cwout_level *
level(struct cwout *w)
{
	return &w->at[w->depth - 1];
}

static void
add_name(struct cwout *w, const struct cwmsg_field *f)
{
	strbuf_addc(w->b, '"');
	for (const char *p = f->name; *p != '\0'; p++) {
		if (p[0] == '_' && p[1] >= 'a' && p[1] <= 'z')
			strbuf_addc(w->b, (char)(*++p - 'a' + 'A'));
		else
			strbuf_addc(w->b, *p);
	}
	strbuf_adds(w->b, "\":");
}

static bool
is_list(const struct cwmsg_field *f)
{
	return f->label == CWMSG_REPEATED || f->type == CWMSG_MAP;
}

static void
end_list(struct cwout *w)
{
	const struct cwmsg_field *f = level(w)->list;

	if (f != NULL)
		strbuf_addc(w->b, f->type == CWMSG_MAP ? '}' : ']');
	level(w)->list = NULL;
}

static void
begin_member(struct cwout *w, const struct cwmsg_field *f)
{
	end_list(w);
	if (level(w)->start++ > 0) /* counts members */
		strbuf_addc(w->b, ',');
	add_name(w, f);
}

static void
json_list(struct cwout *w, const struct cwmsg_field *f)
{
	if (level(w)->list == f)
		return;
	begin_member(w, f);
	strbuf_addc(w->b, f->type == CWMSG_MAP ? '{' : '[');
	level(w)->list = f;
	level(w)->n = 0;
}

/* What stands before a value. */
static void
begin_value(struct cwout *w, const struct cwmsg_field *f)
{
	if (!is_list(f)) {
		begin_member(w, f);
		return;
	}
	json_list(w, f);
	if (level(w)->n++ > 0)
		strbuf_addc(w->b, ',');
}

static void
json_open(struct cwout *w, const struct cwmsg_field *f)
{
	if (f != NULL)
		begin_value(w, f);
	strbuf_addc(w->b, '{');
}

static void
json_close(struct cwout *w)
{
	end_list(w);
	strbuf_addc(w->b, '}');
}

static void
add_enum(struct cwout *w, const struct cwmsg_field *f, int64_t n)
{
	const char *name = cwmsg_enum_name(f->words, (int32_t)n);

	if (name != NULL)
		strbuf_addf(w->b, "\"%s\"", name);
	else
		strbuf_addf(w->b, "%lld", (long long)n);
}

static void
add_base64(struct cwout *w, struct strv v)
{
	strbuf_addc(w->b, '"');
	base64_encode(v, w->b);
	strbuf_addc(w->b, '"');
}

static void
json_put(struct cwout *w, const struct cwmsg_field *f,
	 const struct cwout_value *v)
{
	begin_value(w, f);
	switch (f->type) {
	case CWMSG_BOOL:
		strbuf_adds(w->b, v->num != 0 ? "true" : "false");
		break;
	case CWMSG_INT32:
	case CWMSG_UINT32:
		strbuf_addf(w->b, "%lld", (long long)v->num);
		break;
	case CWMSG_INT64:
		strbuf_addf(w->b, "\"%lld\"", (long long)v->num);
		break;
	case CWMSG_UINT64:
		strbuf_addf(w->b, "\"%llu\"", (unsigned long long)v->num);
		break;
	case CWMSG_STRING:
		strbuf_add_json(w->b, v->text);
		break;
	case CWMSG_BYTES:
		add_base64(w, v->text);
		break;
	case CWMSG_ENUM:
		add_enum(w, f, v->num);
		break;
	case CWMSG_TIME:
		strbuf_addc(w->b, '"');
		cwtime_add(w->b, v->num, v->nanos);
		strbuf_addc(w->b, '"');
		break;
	case CWMSG_MAP:
		strbuf_add_json(w->b, v->key);
		strbuf_addc(w->b, ':');
		strbuf_add_json(w->b, v->text);
		break;
	case CWMSG_MSG: /* is opened */
		break;
	}
}

const struct cwout_codec cwjson_codec = {json_open, json_close, json_put,
					 json_list};
