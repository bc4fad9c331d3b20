/* SPDX-License-Identifier: Apache-2.0 */
/* Error answers: for whom which form, what they say and what they do not. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "gateway/errpage.h"
#include "net/http1.h"

static bool
wants(const char *fields)
{
	static struct http_head h;
	struct http_reject rej;
	struct strbuf b = {0};
	size_t scanned = 0;
	bool r;

	strbuf_addf(&b, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
	assert_int_equal(http1_parse_request(b.s, b.len, &scanned, &h, &rej),
			 0);
	r = errpage_wants_html(&h);
	strbuf_clear(&b);
	return r;
}

static void
test_wants_html(void **state)
{
	(void)state;
	assert_false(wants(""));
	assert_false(wants("Accept: */*\r\n"));
	assert_true(wants("Accept: text/html,*/*;q=0.8\r\n"));
	assert_true(wants("Sec-Fetch-Dest: document\r\n"));
	assert_true(wants("Sec-Fetch-Dest: iframe\r\nAccept: */*\r\n"));
	assert_false(wants("Sec-Fetch-Dest: script\r\nAccept: text/html\r\n"));
	assert_false(wants("Sec-Fetch-Dest: empty\r\nAccept: text/html\r\n"));
	assert_false(wants("Connection: upgrade\r\nUpgrade: websocket\r\n"
			   "Accept: text/html\r\n"));
}

static char *
body(enum gw_error e, bool html, const char *detail)
{
	struct errpage p = {
	    .e = e, .detail = detail, .request_id = STRV("id-1"), .html = html};
	struct strbuf b = {0};

	errpage_body(&p, &b);
	return strbuf_take(&b);
}

/* In the form of the CoreWeave service: a word of the Connect protocol. */
static void
test_every_rpc(void **state)
{
	struct strbuf b = {0};

	(void)state;
	for (int e = GE_NONE; e < GE_COUNT; e++) {
		struct errpage p = {
		    .e = (enum gw_error)e, .detail = "a \"b\"", .rpc = true};
		struct json_doc *d;
		const char *code;

		strbuf_reset(&b);
		errpage_body(&p, &b);
		assert_int_equal(
		    json_parse((struct strv){b.s, b.len}, &d, NULL), 0);
		code = json_string(json_get(json_root(d), "code"));
		assert_non_null(json_string(json_get(json_root(d), "message")));
		if (e == GE_UNAUTHORIZED)
			assert_string_equal(code, "unauthenticated");
		if (e == GE_FORBIDDEN)
			assert_string_equal(code, "permission_denied");
		if (e == GE_UNREACHABLE)
			assert_string_equal(code, "unavailable");
		json_doc_free(d);
	}
	strbuf_clear(&b);
}

static void
test_every_json(void **state)
{
	int e;

	(void)state;
	for (e = GE_NONE; e < GE_COUNT; e++) {
		char *t = body((enum gw_error)e, false, "a \"b\"");
		struct json_doc *d;

		assert_int_equal(json_parse(strv_of(t), &d, NULL), 0);
		assert_string_equal(json_string(json_get(json_root(d), "code")),
				    errpage_code((enum gw_error)e));
		assert_non_null(json_string(json_get(json_root(d), "error")));
		assert_int_not_equal(errpage_status((enum gw_error)e), 404);
		assert_true(errpage_status((enum gw_error)e) >= 400);
		json_doc_free(d);
		free(t);
	}
}

static void
test_page(void **state)
{
	char *t = body(GE_PORT_NOT_LISTENING, true, "port <8000>");
	char *n = body(GE_SANDBOX_STOPPED, true, NULL);

	(void)state;
	assert_true(strlen(t) < 4096);
	assert_non_null(strstr(t, "http-equiv=\"refresh\""));
	assert_non_null(strstr(t, "port &lt;8000&gt;"));
	assert_non_null(strstr(t, "id-1"));
	assert_null(strstr(t, "src="));
	assert_null(strstr(t, "http://"));
	assert_null(strstr(t, "https://"));
	assert_null(strstr(n, "refresh"));
	free(t);
	free(n);
}

static void
test_constant_401(void **state)
{
	char *t = body(GE_UNAUTHORIZED, false, NULL);

	(void)state;
	assert_null(strstr(t, "id-1"));
	assert_null(strstr(t, "request_id"));
	free(t);
}

static void
test_fields(void **state)
{
	struct errpage p = {.e = GE_PORT_NOT_LISTENING,
			    .request_id = STRV("id-1")};
	struct strbuf b = {0};

	(void)state;
	errpage_fields(&p, &b);
	assert_non_null(strstr(b.s, "Cache-Control: no-store\r\n"));
	assert_non_null(strstr(b.s, "Retry-After: 2\r\n"));
	assert_non_null(strstr(b.s, "X-Request-Id: id-1\r\n"));
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_wants_html),
	    cmocka_unit_test(test_every_rpc),
	    cmocka_unit_test(test_every_json),
	    cmocka_unit_test(test_page),
	    cmocka_unit_test(test_constant_401),
	    cmocka_unit_test(test_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
