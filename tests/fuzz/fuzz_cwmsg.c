/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the CoreWeave service: the first byte chooses which one the rest
 * is read as. What is refused has a path and a reason; what was read is
 * written, and read again as the same. The same bytes as text are a time, a
 * quantity and a parameter of a query.
 */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "gateway/cwjson.h"
#include "gateway/cwquantity.h"
#include "gateway/cwschema.h"
#include "gateway/cwtime.h"
#include "tests/fuzz/fuzz.h"

static const struct cwmsg_desc *const kinds[] = {
    &cwschema_create_sandbox_request,
    &cwschema_sandbox,
    &cwschema_list_sandboxes_request,
    &cwschema_exec_stream_request,
    &cwschema_exec_stream_response,
    &cwschema_stream_logs_request,
    &cwschema_write_file_request,
    &cwschema_list_file_system_snapshots_response,
};

static char *
write_message(const struct cwmsg *m)
{
	struct strbuf b = {0};
	struct cwout w;

	cwout_begin(&w, &cwjson_codec, cwmsg_desc(m), &b);
	cwout_tree(&w, m);
	cwout_end(&w);
	return strbuf_take(&b);
}

static void
check_again(const struct cwmsg *m)
{
	struct cwjson_error e = {0};
	char *first = write_message(m), *second;
	struct json_doc *doc = NULL;
	struct cwmsg *again = NULL;

	assert(json_parse(strv_of(first), &doc, NULL) == 0);
	assert(cwjson_read(cwmsg_desc(m), json_root(doc), &again, &e) == 0);
	json_doc_free(doc);
	cwjson_error_clear(&e);
	second = write_message(again);
	assert(strcmp(first, second) == 0);
	cwmsg_free(again);
	free(first);
	free(second);
}

static void
try_message(const struct cwmsg_desc *d, struct strv text)
{
	struct cwjson_error e = {0};
	struct json_doc *doc = NULL;
	struct cwmsg *m = NULL;

	if (json_parse(text, &doc, NULL) != 0)
		return;
	if (cwjson_read(d, json_root(doc), &m, &e) == 0) {
		check_again(m);
	} else {
		assert(m == NULL && e.what != NULL);
		assert(e.path.len < 1024);
	}
	cwmsg_free(m);
	cwjson_error_clear(&e);
	json_doc_free(doc);
}

/* "name=value" */
static void
try_query(const struct cwmsg_desc *d, struct strv text)
{
	struct cwmsg *m = cwmsg_new(d);
	struct cwjson_error e = {0};
	struct strv name;

	(void)strv_cut(&text, '=', &name);
	if (text.p == NULL)
		text = STRV("");
	if (cwjson_read_text(m, name, text, &e) == 0)
		check_again(m);
	cwjson_error_clear(&e);
	cwmsg_free(m);
}

static void
try_values(struct strv text)
{
	struct strbuf b = {0};
	int64_t s, again;
	uint64_t n, whole;
	uint32_t ns, ns_again;

	if (cwtime_parse(text, &s, &ns) == 0) {
		cwtime_add(&b, s, ns);
		assert(cwtime_parse((struct strv){b.s, b.len}, &again,
				    &ns_again) == 0);
		assert(again == s && ns_again == ns);
	}
	strbuf_clear(&b);
	if (cwquantity_milli(text, &n) == 0) {
		assert(cwquantity_whole(text, &whole) == 0);
		assert(whole == n / 1000 + (n % 1000 != 0));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct strv text = {(const char *)p + 1, n - 1};
	const struct cwmsg_desc *d;

	/* Texts of JSON have no NUL, and those of a query neither. */
	if (n == 0 || memchr(p + 1, '\0', n - 1) != NULL)
		return 0;
	d = kinds[p[0] % ARRAY_LEN(kinds)];
	try_message(d, text);
	try_query(d, text);
	try_values(text);
	return 0;
}
