/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cwcut: a large value taken out of a JSON message. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwcut.h"
#include "net/buf.h"

struct got {
	struct cwcut c;
	struct bufpool *pool;
	struct bufq out;
	unsigned begun;
	size_t rest_at; /* its length when the value began */
};

/* Feeds text in pieces of n; the first result that is an error, or 0. */
static int
feed(struct got *g, struct strv text, size_t n, size_t rest_max)
{
	int r = 0;

	memset(g, 0, sizeof(*g));
	g->pool = bufpool_new(4);
	bufq_init(&g->out, g->pool);
	cwcut_init(&g->c, STRV("content"), rest_max);
	while (text.len > 0 && r >= 0) {
		struct strv v = {text.p, text.len < n ? text.len : n};
		size_t whole = v.len;

		while ((r = cwcut_feed(&g->c, &v, &g->out)) == CWCUT_BEGINS) {
			g->begun++;
			g->rest_at = g->c.rest.len;
		}
		if (r == 0)
			assert_int_equal(v.len, 0);
		text = strv_from(text, whole);
	}
	return r;
}

static void
done(struct got *g)
{
	cwcut_clear(&g->c);
	bufq_clear(&g->out);
	bufpool_free(g->pool);
}

static void
expect(const char *text, const char *rest, struct strv out)
{
	/* However it is cut. */
	for (size_t n = 1; n <= strlen(text); n++) {
		struct got g;
		char *p;

		assert_int_equal(feed(&g, strv_of(text), n, 65536), 0);
		assert_int_equal(g.c.rest.len, strlen(rest));
		assert_memory_equal(g.c.rest.s, rest, strlen(rest));
		assert_int_equal(g.out.len, out.len);
		assert_int_equal(g.c.size, out.len);
		p = xmalloc(out.len + 1);
		(void)bufq_copy_out(&g.out, p, out.len);
		assert_memory_equal(p, out.p, out.len);
		free(p);
		done(&g);
	}
}

static void
test_cuts(void **state)
{
	(void)state;
	expect("{\"path\":\"/a\",\"content\":\"aGVsbG8=\",\"x\":1}",
	       "{\"path\":\"/a\",\"content\":\"\",\"x\":1}", STRV("hello"));
	expect("{ \"content\" : \"aGVsbG8\" , \"path\":\"content\"}",
	       "{ \"content\" : \"\" , \"path\":\"content\"}", STRV("hello"));
	expect("{\"content\":\"\"}", "{\"content\":\"\"}", STRV(""));
	expect("{\"content\":\"_-8=\"}", "{\"content\":\"\"}",
	       STRV("\xff\xef"));
	expect("{\"content\":\"\\/\\u002B8=\"}", "{\"content\":\"\"}",
	       STRV("\xff\xef"));
	expect("{\"content\":\"AAECAwQ=\"}", "{\"content\":\"\"}",
	       STRV("\0\1\2\3\4"));
}

/* Only the outermost object's member of that very name. */
static void
test_leaves_alone(void **state)
{
	static const char *const same[] = {
	    "{\"a\":{\"content\":\"aGVsbG8=\"}}",
	    "{\"a\":[{\"content\":\"!!\"}],\"b\":\"\\\"content\\\":\"}",
	    "{\"x\":\"content\",\"y\":\"aGVsbG8=\"}",
	    "{\"content\":null}",
	    "{\"content\":[\"aGVsbG8=\",\"content\"]}",
	    "{\"content\":{\"content\":\"aGVsbG8=\"}}",
	    "{\"contents\":\"aGVsbG8=\",\"conten\":\"aGVsbG8=\"}",
	    "{\"c\\\"ontent\":\"a\"}",
	    "[\"content\",\"aGVsbG8=\"]",
	    "}}}{\"a\":1",
	    "nonsense",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		expect(same[i], same[i], STRV(""));
}

static void
test_bad_values(void **state)
{
	static const char *const bad[] = {
	    "{\"content\":\"a\"}",      "{\"content\":\"aGVsb\"}",
	    "{\"content\":\"aG=s\"}",   "{\"content\":\"=\"}",
	    "{\"content\":\"aGVs=\"}",  "{\"content\":\"aG=\"}",
	    "{\"content\":\"aG===\"}",  "{\"content\":\"a b=\"}",
	    "{\"content\":\"\\n\"}",    "{\"content\":\"\\u00e4\"}",
	    "{\"content\":\"\\u00zz\"}"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct got g;
		int r = feed(&g, strv_of(bad[i]), 3, 65536);

		if (r != E_INVALID)
			print_error("%s\n", bad[i]);
		assert_int_equal(r, E_INVALID);
		done(&g);
	}
}

static void
test_begins(void **state)
{
	const char *text = "{\"path\":\"/a\",\"content\":\"aGVs\"}";
	struct got g;

	(void)state;
	assert_int_equal(feed(&g, strv_of(text), 1000, 65536), 0);
	assert_int_equal(g.begun, 1);
	assert_int_equal(g.rest_at, strlen("{\"path\":\"/a\",\"content\":\""));
	done(&g);
	/* a second one is for who reads the rest to refuse */
	text = "{\"content\":\"aGVs\",\"content\":\"bG8=\"}";
	assert_int_equal(feed(&g, strv_of(text), 1000, 65536), 0);
	assert_int_equal(g.begun, 2);
	done(&g);
}

static void
test_bound(void **state)
{
	const char *text = "{\"path\":\"/0123456789\",\"content\":\"aGVs\"}";
	struct got g;

	(void)state;
	assert_int_equal(feed(&g, strv_of(text), 5, 20), E_LIMIT);
	done(&g);
	assert_int_equal(feed(&g, strv_of(text), 5, strlen(text)), 0);
	done(&g);
}

static void
test_large(void **state)
{
	size_t n = (1U << 20) + 1;
	char *p = xmalloc(n), *back = xmalloc(n);
	struct strbuf b = {0};
	struct got g;

	(void)state;
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + i / 253);
	strbuf_adds(&b, "{\"content\":\"");
	base64_encode((struct strv){p, n}, &b);
	strbuf_adds(&b, "\",\"path\":\"/x\"}");
	assert_int_equal(feed(&g, (struct strv){b.s, b.len}, 16384, 65536), 0);
	assert_int_equal(g.c.size, n);
	assert_int_equal(bufq_copy_out(&g.out, back, n), n);
	assert_memory_equal(p, back, n);
	assert_int_equal(g.c.rest.len,
			 strlen("{\"content\":\"\",\"path\":\"/x\"}"));
	done(&g);
	strbuf_clear(&b);
	free(p);
	free(back);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cuts),
	    cmocka_unit_test(test_leaves_alone),
	    cmocka_unit_test(test_bad_values),
	    cmocka_unit_test(test_begins),
	    cmocka_unit_test(test_bound),
	    cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
