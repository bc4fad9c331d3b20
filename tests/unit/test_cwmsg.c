/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cwjson, cwmsg, cwout, cwtime, cwerr: messages of the CoreWeave
 * service from JSON and back, and what is no message. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "gateway/cwerr.h"
#include "gateway/cwjson.h"
#include "gateway/cwquantity.h"
#include "gateway/cwschema.h"
#include "gateway/cwtime.h"

static int
read_text(const struct cwmsg_desc *d, const char *text, struct cwmsg **out,
	  struct cwjson_error *e)
{
	struct json_doc *doc;
	int r;

	if (json_parse(strv_of(text), &doc, NULL) != 0)
		fail_msg("not JSON: %s", text);
	r = cwjson_read(d, json_root(doc), out, e);
	json_doc_free(doc);
	return r;
}

static struct cwmsg *
good(const struct cwmsg_desc *d, const char *text)
{
	struct cwjson_error e = {0};
	struct cwmsg *m = NULL;

	if (read_text(d, text, &m, &e) != 0)
		fail_msg("%s: %.*s: %s", text, (int)e.path.len, e.path.s,
			 e.what);
	cwjson_error_clear(&e);
	return m;
}

/* It is refused, with this path and text. */
static void
bad(const struct cwmsg_desc *d, const char *text, const char *path,
    const char *what)
{
	struct cwjson_error e = {0};
	struct cwmsg *m = NULL;

	assert_int_equal(read_text(d, text, &m, &e), E_INVALID);
	assert_null(m);
	assert_int_equal(e.path.len, strlen(path));
	assert_memory_equal(e.path.len > 0 ? e.path.s : "", path, strlen(path));
	assert_string_equal(e.what, what);
	cwjson_error_clear(&e);
}

/* Read and written again it is `want`. */
static void
round_trip(const struct cwmsg_desc *d, const char *text, const char *want)
{
	struct cwmsg *m = good(d, text);
	struct strbuf b = {0};
	struct cwout w;

	cwout_begin(&w, &cwjson_codec, d, &b);
	cwout_tree(&w, m);
	cwout_end(&w);
	assert_string_equal(b.s, want);
	strbuf_clear(&b);
	cwmsg_free(m);
}

static void
test_round_trips(void **state)
{
	(void)state;
	round_trip(&cwschema_sandbox, "{}", "{}");
	round_trip(
	    &cwschema_create_sandbox_request,
	    "{\"sandbox\":{\"spec\":{\"containers\":[{\"image\":\"a\","
	    "\"args\":[\"-c\",\"x\"],\"environment_variables\":{\"A\":\"1\","
	    "\"B\":\"\"},\"files\":[{\"path\":\"/f\",\"content\":\"AP8\"}]},"
	    "{}],\"maxLifetimeSeconds\":\"60\",\"tags\":[\"t\",\"\"]},"
	    "\"sourceTemplateRevision\":9007199254740991},"
	    "\"requestId\":\"r\",\"unknown\":{\"a\":[1]}}",
	    "{\"sandbox\":{\"spec\":{\"containers\":[{\"image\":\"a\","
	    "\"args\":[\"-c\",\"x\"],\"environmentVariables\":{\"A\":\"1\","
	    "\"B\":\"\"},\"files\":[{\"path\":\"/f\",\"content\":\"AP8=\"}]},"
	    "{}],\"maxLifetimeSeconds\":60,\"tags\":[\"t\",\"\"]},"
	    "\"sourceTemplateRevision\":\"9007199254740991\"},"
	    "\"requestId\":\"r\"}");
	round_trip(&cwschema_sandbox_status,
		   "{\"state\":2,\"exitCode\":0,\"endTime\":"
		   "\"2026-11-21T05:51:53.5+02:00\",\"services\":null,"
		   "\"container_statuses\":[]}",
		   "{\"state\":\"STATE_RUNNING\","
		   "\"endTime\":\"2026-11-21T03:51:53.500Z\",\"exitCode\":0}");
	round_trip(&cwschema_sandbox_status, "{\"state\":77}",
		   "{\"state\":77}");
	round_trip(&cwschema_stream_logs_request,
		   "{\"resumeLogOffset\":\"18446744073709551615\","
		   "\"follow\":false,\"tailLines\":-2147483648}",
		   "{\"follow\":false,\"tailLines\":-2147483648,"
		   "\"resumeLogOffset\":\"18446744073709551615\"}");
	round_trip(&cwschema_exec_response,
		   "{\"exitCode\":1.0,\"stdoutBytesProduced\":1e3,"
		   "\"stderrBytesProduced\":\"-9223372036854775808\"}",
		   "{\"exitCode\":1,\"stdoutBytesProduced\":\"1000\","
		   "\"stderrBytesProduced\":\"-9223372036854775808\"}");
	round_trip(&cwschema_exec_stream_request, "{\"close\":{}}",
		   "{\"close\":{}}");
}

static void
test_absent_and_default(void **state)
{
	struct cwmsg *m = good(&cwschema_sandbox_status, "{\"exitCode\":null}");

	(void)state;
	assert_false(cwmsg_has(m, "exit_code"));
	assert_int_equal(cwmsg_int(m, "exit_code"), 0);
	assert_string_equal(cwmsg_text(m, "state_reason"), "");
	assert_null(cwmsg_msg(m, "effective_resources"));
	/* What is below an absent message is absent. */
	assert_string_equal(
	    cwmsg_text(cwmsg_msg(m, "effective_resources"), "cpu"), "");
	cwmsg_free(m);
	m = good(&cwschema_sandbox_status, "{\"exitCode\":0}");
	assert_true(cwmsg_has(m, "exit_code"));
	cwmsg_free(m);
}

static void
test_bytes(void **state)
{
	static const struct {
		const char *text, *want;
		size_t len;
	} ok[] = {{"", "", 0},
		  {"QQ==", "A", 1},
		  {"QQ", "A", 1},
		  {"-_-_", "\373\377\277", 3},
		  {"+/+/", "\373\377\277", 3},
		  {"QUI=", "AB", 2},
		  {"QUJD", "ABC", 3}};
	static const char *const no[] = {
	    "Q", "QQ=", "Q===", "QQ= =", "Q*==", "QUJD=", "QU\\nJD"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ok); i++) {
		struct cwmsg *m;
		struct strv v;

		snprintf(text, sizeof(text), "{\"content\":\"%s\"}",
			 ok[i].text);
		m = good(&cwschema_write_file_request, text);
		v = cwmsg_view(m, "content");
		assert_int_equal(v.len, ok[i].len);
		assert_memory_equal(v.p, ok[i].want, v.len);
		cwmsg_free(m);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		snprintf(text, sizeof(text), "{\"content\":\"%s\"}", no[i]);
		bad(&cwschema_write_file_request, text, "content",
		    "is not base64");
	}
}

static void
test_wrong(void **state)
{
	const struct cwmsg_desc *create = &cwschema_create_sandbox_request;

	(void)state;
	bad(create, "[]", "", "must be an object");
	bad(create, "{\"sandbox\":[]}", "sandbox", "must be an object");
	bad(create,
	    "{\"sandbox\":{\"spec\":{\"containers\":[{},{\"image\":7}]}}}",
	    "sandbox.spec.containers[1].image", "must be a string");
	bad(create, "{\"sandbox\":{\"spec\":{\"containers\":[null]}}}",
	    "sandbox.spec.containers[0]", "must not be null");
	bad(create, "{\"sandbox\":{\"spec\":{\"annotations\":{\"a\":1}}}}",
	    "sandbox.spec.annotations[a]", "must be a string");
	bad(create, "{\"sandbox\":{\"spec\":{\"annotations\":[]}}}",
	    "sandbox.spec.annotations", "must be an object");
	bad(create, "{\"sandbox\":{\"spec\":{\"tags\":\"a\"}}}",
	    "sandbox.spec.tags", "must be an array");
	bad(create, "{\"sandbox\":{\"spec\":{\"mode\":\"CKS\"}}}",
	    "sandbox.spec.mode", "is not one of the names of this enum");
	bad(create,
	    "{\"sandbox\":{\"spec\":{\"maxLifetimeSeconds\":2147483648}}}",
	    "sandbox.spec.max_lifetime_seconds", "is out of range");
	bad(create, "{\"sandbox\":{\"spec\":{\"maxLifetimeSeconds\":1.5}}}",
	    "sandbox.spec.max_lifetime_seconds", "must be a whole number");
	bad(create, "{\"sandbox\":{\"sourceTemplateRevision\":1e300}}",
	    "sandbox.source_template_revision",
	    "is out of range, or must be written as text");
	bad(create, "{\"requestId\":\"a\",\"request_id\":\"b\"}", "request_id",
	    "is there twice");
	bad(&cwschema_exec_stream_request, "{\"stdin\":\"\",\"close\":{}}",
	    "close", "excludes another field that is there");
	bad(&cwschema_list_sandboxes_request, "{\"showTerminated\":1}",
	    "show_terminated", "must be true or false");
	bad(&cwschema_stream_logs_request, "{\"resumeLogOffset\":\"-1\"}",
	    "resume_log_offset", "is out of range");
	bad(&cwschema_stream_logs_request, "{\"sinceTime\":\"today\"}",
	    "since_time", "must be a time as in RFC 3339");
}

static void
test_times(void **state)
{
	static const struct {
		const char *text;
		int64_t s;
		uint32_t ns;
		const char *back;
	} ok[] = {
	    {"1970-01-01T00:00:00Z", 0, 0, NULL},
	    {"2026-11-21T03:51:53.123Z", 1795233113, 123000000, NULL},
	    {"2024-02-29T23:59:59.999999999Z", 1709251199, 999999999, NULL},
	    {"2024-02-29T23:59:59.000001Z", 1709251199, 1000, NULL},
	    {"1969-12-31T23:59:59.5-00:30", 1799, 500000000,
	     "1970-01-01T00:29:59.500Z"},
	    {"0001-01-01T00:00:00Z", -62135596800, 0, NULL},
	    {"9999-12-31T23:59:59Z", 253402300799, 0, NULL}};
	static const char *const no[] = {"",
					 "2026-11-21",
					 "2026-11-21T03:51:53",
					 "2026-02-29T00:00:00Z",
					 "2026-13-01T00:00:00Z",
					 "2026-11-21 03:51:53Z",
					 "2026-11-21T03:51:53.Z",
					 "2026-11-21T03:51:53.1234567890Z",
					 "2026-11-21T24:00:00Z",
					 "0000-01-01T00:00:00Z",
					 "0001-01-01T00:00:00+01:00",
					 "2026-11-21T03:51:53Zx"};
	struct strbuf b = {0};
	uint32_t ns;
	int64_t s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ok); i++) {
		assert_int_equal(cwtime_parse(strv_of(ok[i].text), &s, &ns), 0);
		assert_int_equal(s, ok[i].s);
		assert_int_equal(ns, ok[i].ns);
		strbuf_reset(&b);
		cwtime_add(&b, s, ns);
		assert_string_equal(b.s, ok[i].back != NULL ? ok[i].back
							    : ok[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		assert_int_equal(cwtime_parse(strv_of(no[i]), &s, &ns),
				 E_INVALID);
	strbuf_clear(&b);
}

static void
test_text(void **state)
{
	struct cwmsg *m = cwmsg_new(&cwschema_list_sandboxes_request);
	struct cwjson_error e = {0};

	(void)state;
	assert_int_equal(cwjson_read_text(m, STRV("tags"), STRV("a"), &e), 0);
	assert_int_equal(cwjson_read_text(m, STRV("tags"), STRV("b"), &e), 0);
	assert_int_equal(cwjson_read_text(m, STRV("pageSize"), STRV("7"), &e),
			 0);
	assert_int_equal(
	    cwjson_read_text(m, STRV("show_terminated"), STRV("true"), &e), 0);
	assert_int_equal(
	    cwjson_read_text(m, STRV("state"), STRV("STATE_FAILED"), &e), 0);
	assert_int_equal(cwjson_read_text(m, STRV("other"), STRV("x"), &e),
			 E_NOTFOUND);
	assert_int_equal(cwmsg_count(m, "tags"), 2);
	assert_string_equal(cwmsg_text_at(m, "tags", 1), "b");
	assert_int_equal(cwmsg_int(m, "page_size"), 7);
	assert_int_equal(cwmsg_int(m, "show_terminated"), 1);
	assert_int_equal(cwmsg_int(m, "state"), 4);
	assert_int_equal(cwjson_read_text(m, STRV("page_size"), STRV("8"), &e),
			 E_INVALID);
	assert_string_equal(e.what, "is there twice");
	cwjson_error_clear(&e);
	cwmsg_free(m);
	m = cwmsg_new(&cwschema_list_sandboxes_request);
	assert_int_equal(cwjson_read_text(m, STRV("page_size"), STRV("x"), &e),
			 E_INVALID);
	assert_string_equal(e.path.s, "page_size");
	cwjson_error_clear(&e);
	cwmsg_free(m);
}

/* Numbers and names are each there once. */
static void
check_desc(const struct cwmsg_desc *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct cwmsg_field *f = &d->v[i];

		assert_int_not_equal(f->number, 0);
		assert_true((f->type == CWMSG_MSG) == (f->msg != NULL));
		assert_true((f->type == CWMSG_ENUM) == (f->words != NULL));
		for (size_t k = 0; k < i; k++) {
			assert_int_not_equal(f->number, d->v[k].number);
			assert_string_not_equal(f->name, d->v[k].name);
		}
		if (f->msg != NULL)
			check_desc(f->msg);
	}
}

static void
test_schema(void **state)
{
	(void)state;
	check_desc(&cwschema_create_sandbox_request);
	check_desc(&cwschema_list_sandboxes_response);
	check_desc(&cwschema_delete_sandbox_response);
	check_desc(&cwschema_exec_stream_request);
	check_desc(&cwschema_exec_stream_response);
	check_desc(&cwschema_stream_logs_request);
	check_desc(&cwschema_log_entry);
	check_desc(&cwschema_list_file_system_snapshots_response);
}

static void
test_list_without_values(void **state)
{
	struct strbuf b = {0};
	struct cwout w;

	(void)state;
	cwout_begin(&w, &cwjson_codec, &cwschema_list_sandboxes_response, &b);
	cwout_list(&w, "sandboxes");
	cwout_text(&w, "next_page_token", STRV(""));
	cwout_end(&w);
	assert_string_equal(b.s, "{\"sandboxes\":[],\"nextPageToken\":\"\"}");
	strbuf_clear(&b);
}

static void
test_quantities(void **state)
{
	static const struct {
		const char *text;
		uint64_t milli, whole;
	} ok[] = {{"2", 2000, 2},
		  {"500m", 500, 1},
		  {"0.5", 500, 1},
		  {"0.0001", 1, 1},
		  {"0", 0, 0},
		  {"1.5Gi", 1610612736000, 1610612736},
		  {"512Mi", 536870912000, 536870912},
		  {"1k", 1000000, 1000},
		  {"2M", 2000000000, 2000000},
		  {".5", 500, 1}};
	static const char *const no[] = {"",
					 "m",
					 "-1",
					 "1e3",
					 "1 Gi",
					 "1g",
					 "1.2.3",
					 "9999999999999999",
					 "999999999999999Ti",
					 "."};
	struct strbuf b = {0};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ok); i++) {
		assert_int_equal(cwquantity_milli(strv_of(ok[i].text), &v), 0);
		assert_int_equal(v, ok[i].milli);
		assert_int_equal(cwquantity_whole(strv_of(ok[i].text), &v), 0);
		assert_int_equal(v, ok[i].whole);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		assert_int_not_equal(cwquantity_milli(strv_of(no[i]), &v), 0);
	cwquantity_add_milli(&b, 1500);
	strbuf_addc(&b, ' ');
	cwquantity_add_milli(&b, 3000);
	strbuf_addc(&b, ' ');
	cwquantity_add_bytes(&b, 536870912);
	strbuf_addc(&b, ' ');
	cwquantity_add_bytes(&b, 1000);
	assert_string_equal(b.s, "1500m 3 512Mi 1000");
	strbuf_clear(&b);
}

static void
test_error(void **state)
{
	const struct cwerr e = {.code = CW_FAILED_PRECONDITION,
				.message = "too large",
				.reason = CWERR_FILE_TOO_LARGE,
				.meta = {{"size_bytes", "9"}},
				.field = STRV("content"),
				.retry_ms = 1500};
	static const char *const types[] = {"google.rpc.ErrorInfo",
					    "google.rpc.BadRequest",
					    "google.rpc.RetryInfo"};
	/* What protocol buffers make of it. */
	static const struct strv bytes[] = {
	    STRV("\012\030CWSANDBOX_FILE_TOO_LARGE\022\015cwsandbox.com"
		 "\032\017\012\012size_bytes\022\0019"),
	    STRV("\012\024\012\007content\022\011too large"),
	    STRV("\012\010\010\001\020\200\312\265\356\001")};
	const struct json *it = NULL;
	struct json_doc *doc;
	struct strbuf b = {0}, raw = {0};
	size_t i = 0;

	(void)state;
	cwerr_add_json(&e, &b);
	assert_int_equal(json_parse((struct strv){b.s, b.len}, &doc, NULL), 0);
	assert_string_equal(json_string(json_get(json_root(doc), "code")),
			    "failed_precondition");
	while (json_each(json_get(json_root(doc), "details"), &it, NULL)) {
		const char *value = json_string(json_get(it, "value"));

		assert_string_equal(json_string(json_get(it, "type")),
				    types[i]);
		assert_null(strchr(value, '='));
		strbuf_reset(&raw);
		strbuf_adds(&raw, value);
		while (raw.len % 4 != 0)
			strbuf_addc(&raw, '=');
		strbuf_reset(&b);
		assert_int_equal(
		    base64_decode((struct strv){raw.s, raw.len}, &b), 0);
		assert_int_equal(b.len, bytes[i].len);
		assert_memory_equal(b.s, bytes[i].p, b.len);
		i++;
	}
	assert_int_equal(i, 3);
	json_doc_free(doc);
	strbuf_clear(&b);
	strbuf_clear(&raw);
	assert_int_equal(cwerr_http(CW_UNIMPLEMENTED), 501);
	assert_string_equal(cwerr_word(CW_CANCELLED), "canceled");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trips),
	    cmocka_unit_test(test_absent_and_default),
	    cmocka_unit_test(test_bytes),
	    cmocka_unit_test(test_wrong),
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_schema),
	    cmocka_unit_test(test_list_without_values),
	    cmocka_unit_test(test_quantities),
	    cmocka_unit_test(test_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
