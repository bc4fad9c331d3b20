/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large value is taken out of a JSON message in the same way however the
 * message is cut into pieces; and what is JSON stays JSON, with that value, if
 * it is base64, decoded. The first byte of the input says how it is cut.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "gateway/cwcut.h"
#include "net/buf.h"
#include "tests/fuzz/fuzz.h"

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static int
feed(struct strv all, size_t step, struct bufq *q, struct cwcut *c,
     struct strbuf *out)
{
	int r = 0;

	cwcut_init(c, STRV("content"), 1U << 20);
	while (r == 0 && all.len > 0) {
		struct strv v = {all.p, all.len < step ? all.len : step};

		all = strv_from(all, v.len);
		while ((r = cwcut_feed(c, &v, q)) == CWCUT_BEGINS)
			must(c->rest.len > 0 &&
			     c->rest.s[c->rest.len - 1] == '"');
		must(r != 0 || v.len == 0);
	}
	while (q->len > 0) {
		struct strv v = bufq_front(q);

		strbuf_addv(out, v);
		bufq_drain(q, v.len);
	}
	return r;
}

static bool
same(const struct strbuf *a, const struct strbuf *b)
{
	return strv_eq((struct strv){a->s, a->len},
		       (struct strv){b->s, b->len});
}

/* all is JSON, and was cut without an error. */
static void
check_json(const struct json *root, const struct cwcut *c,
	   const struct strbuf *out)
{
	const char *was = json_string(json_get(root, "content")), *now;
	struct strbuf plain = {0};
	struct json_doc *doc;

	must(json_parse((struct strv){c->rest.s, c->rest.len}, &doc, NULL) ==
	     0);
	now = json_string(json_get(json_root(doc), "content"));
	must((was != NULL) == (now != NULL));
	if (was != NULL && strcmp(was, now) == 0)
		must(out->len == 0); /* not by that spelling, or empty */
	else if (was != NULL)
		must(now[0] == '\0');
	if (was != NULL && now[0] == '\0' &&
	    base64_decode(strv_of(was), &plain) == 0)
		must(same(&plain, out));
	strbuf_clear(&plain);
	json_doc_free(doc);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf out = {0}, out2 = {0};
	struct json_doc *doc;
	struct bufpool *pool;
	struct cwcut c, c2;
	struct strv all;
	struct bufq q;
	int r, r2;

	if (size < 1)
		return 0;
	pool = bufpool_new(1);
	bufq_init(&q, pool);
	all = (struct strv){(const char *)data + 1, size - 1};
	r = feed(all, size, &q, &c, &out);
	r2 = feed(all, 1 + data[0] % 64, &q, &c2, &out2);
	must(r == r2 && c.size == c2.size);
	must(r != 0 || (same(&out, &out2) && same(&c.rest, &c2.rest)));
	must(r != 0 || c.size == out.len);
	if (r == 0 && json_parse(all, &doc, NULL) == 0) {
		check_json(json_root(doc), &c, &out);
		json_doc_free(doc);
	}
	cwcut_clear(&c);
	cwcut_clear(&c2);
	strbuf_clear(&out);
	strbuf_clear(&out2);
	bufq_clear(&q);
	bufpool_free(pool);
	return 0;
}
