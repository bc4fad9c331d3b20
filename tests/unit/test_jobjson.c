/* SPDX-License-Identifier: Apache-2.0 */
/* A job as the Hub's API shows it: URLs in each form, times, no secrets. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/jobjson.h"

static void
make(struct job *j)
{
	memset(j, 0, sizeof(*j));
	strcpy(j->id, "0123456789abcdef01234567");
	j->ns = xstrdup("team");
	j->user = xstrdup("ann \"x\"");
	j->state = JOB_RUNNING;
	j->reason = JOB_EV_READY;
	j->created_ms = 1795233113123;
	j->started_ms = 1795233115000;
	j->spec.sandbox = true;
	jobspec_push(&j->spec.secrets, STRV("T"), STRV("hush-hush"));
}

/* The member at a path of names, as text. */
static const char *
member(const struct json *v, const char *a, const char *b)
{
	v = json_get(v, a);
	if (b != NULL)
		v = json_get(v, b);
	return json_string(v);
}

static void
expect_urls(const struct gw_conf *conf, const struct job *j, const char *origin,
	    const char *want)
{
	struct strbuf b = {0}, urls = {0};
	const struct json *it = NULL, *list;
	struct json_doc *doc;

	jobjson_add(&b, j, conf, strv_of(origin));
	assert_int_equal(json_parse((struct strv){b.s, b.len}, &doc, NULL), 0);
	list = json_get(json_get(json_root(doc), "status"), "exposeUrls");
	while (json_each(list, &it, NULL))
		strbuf_addf(&urls, "%s ", json_string(it));
	assert_string_equal(urls.s != NULL ? urls.s : "", want);
	json_doc_free(doc);
	strbuf_clear(&urls);
	strbuf_clear(&b);
}

static void
urls(void **state)
{
	struct gw_conf *conf = gwconf_new();
	struct job j;

	(void)state;
	make(&j);
	expect_urls(conf, &j, "https://h:8443",
		    "https://h:8443/0123456789abcdef01234567--49983.sbx ");
	expect_urls(conf, &j, "", "");
	/* The agent's own comes first when it was not asked for. */
	j.spec.ports[j.spec.nports++] = 8000;
	expect_urls(conf, &j, "http://h",
		    "http://h/0123456789abcdef01234567--49983.sbx "
		    "http://h/0123456789abcdef01234567--8000.sbx ");
	j.spec.ports[0] = 49983;
	conf->domain = xstrdup("box.example");
	expect_urls(
	    conf, &j, "https://h:8443",
	    "https://0123456789abcdef01234567--49983.box.example:8443 ");
	expect_urls(conf, &j, "https://h",
		    "https://0123456789abcdef01234567--49983.box.example ");
	expect_urls(conf, &j, "https://[::1]",
		    "https://0123456789abcdef01234567--49983.box.example ");
	expect_urls(conf, &j, "https://[::1]:443",
		    "https://0123456789abcdef01234567--49983.box.example:443 ");
	conf->label_order = LABEL_PORT_ID;
	expect_urls(conf, &j, "https://h",
		    "https://49983--0123456789abcdef01234567.box.example ");
	j.spec.sandbox = false;
	expect_urls(conf, &j, "https://h", "");
	job_clear(&j);
	gwconf_free(conf);
}

static void
object(void **state)
{
	struct gw_conf *conf = gwconf_new();
	const struct json *root;
	struct json_doc *doc;
	struct strbuf b = {0};
	struct job j;
	uint64_t n;

	(void)state;
	make(&j);
	jobjson_add(&b, &j, conf, STRV("https://h"));
	assert_null(strstr(b.s, "hush"));
	assert_int_equal(json_parse((struct strv){b.s, b.len}, &doc, NULL), 0);
	root = json_root(doc);
	assert_string_equal(member(root, "createdAt", NULL),
			    "2026-11-21T03:51:53.123Z");
	assert_int_equal(json_type(json_get(root, "finishedAt")), JSON_NULL);
	assert_string_equal(member(root, "owner", "name"), "team");
	assert_string_equal(member(root, "owner", "type"), "org");
	assert_string_equal(member(root, "initiator", "name"), "ann \"x\"");
	assert_string_equal(member(root, "status", "stage"), "RUNNING");
	assert_string_equal(member(root, "status", "state"), "RUNNING");
	assert_int_equal(
	    json_u64(json_get(json_get(root, "durations"), "schedulingSecs"),
		     10, &n),
	    0);
	assert_int_equal(n, 1);
	/* The client passes its own of that name. */
	assert_null(json_get(root, "endpoint"));
	json_doc_free(doc);
	strbuf_clear(&b);
	job_clear(&j);
	gwconf_free(conf);
}

static void
cpus(void **state)
{
	static const struct {
		const char *text;
		uint64_t milli; /* 0: refused */
	} rows[] = {{"2", 2000},  {"0.5", 500},      {"1.25", 1250},
		    {"0.001", 1}, {"4096", 4096000}, {"", 0},
		    {"0", 0},     {"0.0", 0},        {".5", 0},
		    {"1.", 0},    {"1.0001", 0},     {"-1", 0},
		    {"1e3", 0},   {"4097", 0}};
	struct strbuf b = {0};
	uint64_t milli;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = jobconf_parse_cpus(strv_of(rows[i].text), &milli);

		assert_int_equal(r == 0, rows[i].milli != 0);
		if (r != 0)
			continue;
		assert_int_equal(milli, rows[i].milli);
		jobconf_add_cpus(&b, milli);
		assert_string_equal(b.s, rows[i].text);
		strbuf_reset(&b);
	}
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(urls),
	    cmocka_unit_test(object),
	    cmocka_unit_test(cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
