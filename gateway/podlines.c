/* SPDX-License-Identifier: Apache-2.0 */
/* Events for the Podflare API; see the header. */
#include "config.h"

#include "gateway/podlines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

static const char *const streams[] = {"stdout", "stderr"};

/* --- what is told ------------------------------------------------------ */

static void
end_event(struct podlines *p, struct strbuf *out)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	strbuf_addf(out, ",\"seq\":%" PRIu64 ",\"ts\":%lld}\n", p->seq++,
		    (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

static void
tell_line(struct podlines *p, unsigned stream, struct strv line,
	  struct strbuf *out)
{
	strbuf_addf(out, "{\"type\":\"%s\",\"data\":", streams[stream]);
	strbuf_add_json(out, line);
	end_event(p, out);
}

static void
tell_part(struct podlines *p, unsigned stream, struct strbuf *out)
{
	struct strbuf *part = &p->part[stream];

	tell_line(p, stream, (struct strv){part->s, part->len}, out);
	*p->held -= part->len;
	if (part->cap > PODLINES_SHORT)
		strbuf_clear(part);
	else
		strbuf_reset(part);
}

/* A line begins that is not the end of another one. */
static void
end_line(struct podlines *p, unsigned stream, struct strbuf *out)
{
	if (p->part[stream].len > 0)
		tell_part(p, stream, out);
}

/* The beginning of a line stays until the rest is there. */
static void
keep(struct podlines *p, unsigned stream, struct strv v, struct strbuf *out)
{
	struct strbuf *part = &p->part[stream];

	while (v.len > 0) {
		size_t most =
		    *p->held > PODLINES_HELD ? PODLINES_SHORT : PODLINES_MAX;
		size_t n = part->len < most ? most - part->len : 0;

		if (v.len < n)
			n = v.len;
		else if (n > 0 && v.len > n)
			n -= utf8_tail((struct strv){v.p, n});
		strbuf_add(part, v.p, n);
		*p->held += n;
		v = strv_from(v, n);
		if (v.len > 0)
			tell_part(p, stream, out);
	}
}

static void
add_output(struct podlines *p, unsigned stream, struct strv v,
	   struct strbuf *out)
{
	const char *nl;

	while (v.len > 0 && (nl = memchr(v.p, '\n', v.len)) != NULL) {
		struct strv line = {v.p, (size_t)(nl - v.p)};

		v = strv_from(v, line.len + 1);
		if (p->part[stream].len == 0 && line.len <= PODLINES_MAX) {
			tell_line(p, stream, line, out);
			continue;
		}
		keep(p, stream, line, out);
		tell_part(p, stream, out);
	}
	keep(p, stream, v, out);
}

static void
add_note(struct podlines *p, unsigned stream, const char *text,
	 struct strbuf *out)
{
	end_line(p, stream, out);
	add_output(p, stream, strv_of(text), out);
	end_line(p, stream, out);
}

/* --- what was said ----------------------------------------------------- */

static int
said_output(struct podlines *p, unsigned stream, const struct json *root,
	    struct strbuf *out)
{
	const char *data = json_string(json_get(root, "data"));
	struct strbuf raw = {0};
	bool good;

	good = data != NULL && base64_decode(strv_of(data), &raw) == 0;
	if (good && raw.len > 0)
		add_output(p, stream, (struct strv){raw.s, raw.len}, out);
	strbuf_clear(&raw);
	return good ? 0 : E_PROTO;
}

static bool
flag(const struct json *root, const char *key)
{
	bool v = false;

	return json_bool(json_get(root, key), &v) == 0 && v;
}

static void
said_exit(struct podlines *p, const struct json *root, struct strbuf *out)
{
	const char *why = json_string(json_get(root, "error"));
	uint64_t code = 255, sig = 0;

	for (unsigned i = 0; i < 2; i++)
		end_line(p, i, out);
	if (json_u64(json_get(root, "signal"), 255, &sig) == 0 && sig > 0)
		code = 128 + sig;
	else if (json_u64(json_get(root, "exit_code"), 255, &code) != 0)
		code = 255;
	if (flag(root, "timed_out")) {
		code = PODLINES_TIMEOUT;
		add_note(p, 1, "timed out", out);
	}
	if (why != NULL)
		add_note(p, 1, why, out);
	if (flag(root, "state_lost"))
		add_note(p, 1, "the interpreter ended; its state is lost", out);
	strbuf_addf(out, "{\"type\":\"exit\",\"data\":%" PRIu64, code);
	end_event(p, out);
	p->ended = true;
}

static int
said_event(struct podlines *p, const struct json *root, struct strbuf *out)
{
	struct strv event = strv_of(json_string(json_get(root, "event")));
	const char *text;

	if (event.len == 0 || p->ended)
		return E_PROTO;
	if (strv_eq(event, STRV("stdout")))
		return said_output(p, 0, root, out);
	if (strv_eq(event, STRV("stderr")))
		return said_output(p, 1, root, out);
	if (strv_eq(event, STRV("exit"))) {
		said_exit(p, root, out);
	} else if (strv_eq(event, STRV("restarted"))) {
		add_note(p, 1, "the interpreter had ended; this is a new one",
			 out);
	} else if (strv_eq(event, STRV("result")) ||
		   strv_eq(event, STRV("display"))) {
		text = json_string(json_get(root, "text"));
		if (text != NULL && p->values)
			add_note(p, 0, text, out);
	} else if (strv_eq(event, STRV("error")) &&
		   strv_eq(strv_of(json_string(json_get(root, "name"))),
			   STRV("CannotStart"))) {
		/* Others are on stderr as well. */
		text = json_string(json_get(root, "value"));
		add_note(p, 1, text != NULL ? text : "cannot start", out);
	}
	return 0;
}

static int
said(struct podlines *p, struct strv line, struct strbuf *out)
{
	struct json_doc *doc;
	int r;

	if (p->too_long) {
		p->too_long = false;
		if (p->values)
			add_note(p, 0, "<too large to show>", out);
		return 0;
	}
	if (json_parse(line, &doc, NULL) != 0)
		return E_PROTO;
	r = said_event(p, json_root(doc), out);
	json_doc_free(doc);
	return r;
}

/* --- lines of it ------------------------------------------------------- */

int
podlines_feed(struct podlines *p, struct strv v, struct strbuf *out)
{
	const char *nl;
	int r = 0;

	while (r == 0 && v.len > 0 && (nl = memchr(v.p, '\n', v.len)) != NULL) {
		struct strv line = {v.p, (size_t)(nl - v.p)};

		v = strv_from(v, line.len + 1);
		if (p->in.len > 0) {
			strbuf_addv(&p->in, line);
			line = (struct strv){p->in.s, p->in.len};
		}
		r = said(p, line, out);
		if (p->in.cap > PODLINES_SHORT * 2)
			strbuf_clear(&p->in);
		else
			strbuf_reset(&p->in);
	}
	if (r != 0 || p->too_long)
		return r;
	if (p->in.len + v.len > PODLINES_IN_MAX) {
		p->too_long = true;
		strbuf_clear(&p->in);
	} else {
		strbuf_addv(&p->in, v);
	}
	return 0;
}

void
podlines_init(struct podlines *p, bool values, size_t *held)
{
	memset(p, 0, sizeof(*p));
	p->values = values;
	p->held = held;
}

void
podlines_clear(struct podlines *p)
{
	strbuf_clear(&p->in);
	for (unsigned i = 0; i < 2; i++) {
		*p->held -= p->part[i].len;
		strbuf_clear(&p->part[i]);
	}
}
