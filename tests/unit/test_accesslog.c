/* SPDX-License-Identifier: Apache-2.0 */
/* Access lines: both formats, redaction, and the file. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdio.h"
#include "base/json.h"
#include "gateway/accesslog.h"
#include "net/loop.h"

static struct access_entry
entry(void)
{
	struct access_entry e = {
	    .id = STRV("r1"),
	    .peer = STRV("192.0.2.7"),
	    .user = STRV("ann"),
	    .method = STRV("GET"),
	    .target = STRV("/x?token=s3cret&a=1"),
	    .proto = STRV("HTTP/1.1"),
	    .host = STRV("gw"),
	    .referer = STRV("https://gw/?sig=s3cret"),
	    .agent = STRV("cu\"rl\n\xff"),
	    .status = 200,
	    .close = "done",
	    .sandbox = STRV("ab"),
	    .port = 8000,
	    .upstream = STRV("unix:/p/8000.sock"),
	    .tls = true,
	    .reused = true,
	    .bytes_in = 5,
	    .bytes_out = 77,
	    .queue_us = 12,
	    .connect_us = ACCESS_NO_TIME,
	    .first_us = 1034,
	    .total_us = 12345678,
	};

	return e;
}

static void
test_json(void **state)
{
	struct access_entry e = entry();
	struct strbuf b = {0};
	struct json_doc *d;
	const struct json *r;
	uint64_t v;

	(void)state;
	accesslog_format(ACCESS_JSON, &e, 1700000000123, &b);
	assert_null(strstr(b.s, "s3cret"));
	assert_int_equal(b.s[b.len - 1], '\n');
	assert_null(memchr(b.s, '\n', b.len - 1));
	assert_int_equal(json_parse((struct strv){b.s, b.len - 1}, &d, NULL),
			 0);
	r = json_root(d);
	assert_string_equal(json_string(json_get(r, "time")),
			    "2023-11-14T22:13:20.123Z");
	assert_string_equal(json_string(json_get(r, "target")),
			    "/x?token=***&a=1");
	assert_string_equal(json_string(json_get(r, "close")), "done");
	assert_int_equal(json_u64(json_get(r, "out"), UINT64_MAX, &v), 0);
	assert_int_equal(v, 77);
	assert_non_null(strstr(b.s, "\"first_ms\":1.034"));
	assert_non_null(strstr(b.s, "\"total_ms\":12345.678"));
	assert_null(json_get(r, "connect_ms"));
	json_doc_free(d);
	strbuf_clear(&b);
}

static void
test_combined(void **state)
{
	struct access_entry e = entry();
	struct strbuf b = {0};

	(void)state;
	accesslog_format(ACCESS_COMBINED, &e, 1700000000123, &b);
	assert_string_equal(
	    b.s, "192.0.2.7 - ann [14/Nov/2023:22:13:20 +0000] "
		 "\"GET /x?token=***&a=1 HTTP/1.1\" 200 77 "
		 "\"https://gw/?sig=***\" \"cu\\x22rl\\x0a\\xff\" id=r1 "
		 "host=gw close=done code=- sandbox=ab port=8000 "
		 "upstream=unix:/p/8000.sock in=5 queue=0.012 connect=- "
		 "first=1.034 total=12345.678\n");
	strbuf_clear(&b);
}

static void
redacts(const char *in, const char *want)
{
	struct strbuf b = {0};

	accesslog_redact(strv_of(in), &b);
	assert_string_equal(b.s, want);
	strbuf_clear(&b);
}

static void
test_redact(void **state)
{
	(void)state;
	redacts("/x", "/x");
	redacts("/x?", "/x?");
	redacts("/token=1", "/token=1");
	redacts("/x?a=1&b", "/x?a=1&b");
	redacts("/x?access_token=1", "/x?access_token=***");
	redacts("/x?a&Sig=1&key=2;pwd=3#f", "/x?a&Sig=***&key=***;pwd=***#f");
	redacts("/x?%74oken=1&monkey=2", "/x?%74oken=***&monkey=2");
	redacts("/x?token=a=b=c&d=1", "/x?token=***&d=1");
	redacts("/x?X-Amz-Signature=1", "/x?X-Amz-Signature=***");
	redacts("/x?a=1?token=2", "/x?a=1?token=2");
}

static void
test_file(void **state)
{
	char dir[] = "/tmp/test_accesslog.XXXXXX", path[64], moved[72];
	struct loop *l = loop_new();
	struct access_entry e = entry();
	struct access_log *a;
	char *text;
	size_t n;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/log", dir);
	(void)snprintf(moved, sizeof(moved), "%s.1", path);
	assert_int_equal(accesslog_open(l, ACCESS_JSON, path, &a), 0);
	accesslog_write(a, &e);
	accesslog_write(a, &e);
	assert_int_equal(file_read(path, 65536, &text, &n), 0);
	assert_int_equal(n, 0); /* not before the batch has ended */
	free(text);
	loop_once(l, false);
	assert_int_equal(file_read(path, 65536, &text, &n), 0);
	assert_true(n > 200);
	free(text);
	assert_int_equal(rename(path, moved), 0);
	accesslog_write(a, &e);
	accesslog_reopen(a);
	assert_int_equal(file_read(path, 65536, &text, &n), 0);
	assert_int_equal(n, 0);
	free(text);
	accesslog_write(a, &e);
	accesslog_free(a);
	assert_int_equal(file_read(path, 65536, &text, &n), 0);
	assert_true(n > 100);
	free(text);
	(void)unlink(path);
	(void)unlink(moved);
	(void)rmdir(dir);
	assert_true(accesslog_open(l, ACCESS_JSON, "/nowhere/x", &a) != 0);
	loop_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_combined),
	    cmocka_unit_test(test_redact),
	    cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
