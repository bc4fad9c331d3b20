/* SPDX-License-Identifier: Apache-2.0 */
/* What a job is asked to be: a body is refused with a reason or read; what was
 * read is written and read again as the same, without a secret's value. And a
 * line of a log becomes one whole record or none. */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gateway/jobspec.h"
#include "gateway/logtail.h"
#include "tests/fuzz/fuzz.h"

static char *
write_spec(const struct job_spec *s)
{
	struct strbuf b = {0};

	strbuf_addc(&b, '{');
	jobspec_add_json(s, &b);
	strbuf_addc(&b, '}');
	return strbuf_take(&b);
}

static void
check_spec(struct job_spec *s)
{
	struct json_doc *doc = NULL;
	struct strbuf why = {0};
	struct job_spec again;
	char *first = write_spec(s), *second;

	assert(json_parse(strv_of(first), &doc, NULL) == 0);
	assert(jobspec_parse(json_root(doc), true, &again, NULL, &why) == 0);
	json_doc_free(doc);
	for (size_t i = 0; i < again.secrets.n; i++)
		assert(again.secrets.v[i].value == NULL);
	second = write_spec(&again);
	assert(strcmp(first, second) == 0);
	jobspec_clear(&again);
	free(first);
	free(second);
}

static void
try_body(struct strv text)
{
	struct strbuf why = {0}, ignored = {0};
	struct json_doc *doc = NULL;
	struct job_spec s = {0};

	if (json_parse(text, &doc, NULL) != 0)
		return;
	if (jobspec_parse(json_root(doc), false, &s, &ignored, &why) == 0) {
		assert(why.len == 0);
		check_spec(&s);
	} else {
		assert(why.len > 0 && why.len < 1024);
	}
	assert(ignored.len < 1024);
	jobspec_clear(&s);
	json_doc_free(doc);
	strbuf_clear(&why);
	strbuf_clear(&ignored);
}

static void
try_line(struct strv line)
{
	struct logtail_time t = {0};
	struct strbuf b = {0};

	if (logtail_add_sse(&b, line, &t)) {
		assert(strncmp(b.s, "data: {\"timestamp\":\"", 20) == 0);
		assert(b.len > 4 && strcmp(b.s + b.len - 4, "\"}\n\n") == 0);
	} else {
		assert(b.len == 0);
	}
	strbuf_clear(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct strv text = {(const char *)p, n};

	if (n > 65536)
		return 0;
	try_body(text);
	if (memchr(p, '\n', n) == NULL && memchr(p, '\0', n) == NULL)
		try_line(text);
	return 0;
}
