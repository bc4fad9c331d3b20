/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's states, each state with each event; names; what a body
 * may say, field by field. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/job.h"

/* What each event leads to, by state: the numbers of coreweave.sandbox.v1.
 * '.': nothing happens. Columns: UNSPECIFIED CREATING RUNNING COMPLETED FAILED
 * TERMINATING TERMINATED PENDING PAUSED. */
static const struct {
	enum job_event ev;
	const char *to;
} table[JOB_EVENTS] = {
    {JOB_EV_CREATE, "7........"},  {JOB_EV_START, ".......1."},
    {JOB_EV_READY, ".2......."},   {JOB_EV_PAUSE, "..8......"},
    {JOB_EV_RESUME, "........2"},  {JOB_EV_STOP, ".55....65"},
    {JOB_EV_EXIT, ".33..6..3"},    {JOB_EV_SIGNAL, ".33..6..3"},
    {JOB_EV_OOM, ".44..6..4"},     {JOB_EV_STOPPED, ".66..6..6"},
    {JOB_EV_TIMEOUT, ".66..6..6"}, {JOB_EV_START_FAILED, ".4...6.4."},
    {JOB_EV_LOST, ".44..6.44"},
};

static void
every_step(void **state)
{
	enum job_state to;

	(void)state;
	for (size_t e = 0; e < JOB_EVENTS; e++)
		for (int s = 0; s < JOB_STATES; s++) {
			char want = table[e].to[s];
			bool ok = job_next((enum job_state)s, table[e].ev, &to);

			assert_int_equal(ok, want != '.');
			if (ok)
				assert_int_equal(to, want - '0');
		}
}

static void
apply_stamps(void **state)
{
	struct job j = {0};
	int code = 3;

	(void)state;
	assert_true(job_apply(&j, JOB_EV_CREATE, 10, NULL, NULL));
	assert_true(job_apply(&j, JOB_EV_START, 20, NULL, NULL));
	assert_true(job_apply(&j, JOB_EV_READY, 30, NULL, "fine"));
	assert_string_equal(j.message, "fine");
	assert_false(job_apply(&j, JOB_EV_READY, 31, NULL, "again"));
	assert_string_equal(j.message, "fine");
	assert_int_equal(j.started_ms, 30);
	assert_false(j.has_exit);
	assert_true(job_apply(&j, JOB_EV_EXIT, 40, &code, "exit code 3"));
	assert_int_equal(j.state, JOB_COMPLETED);
	assert_true(j.has_exit);
	assert_int_equal(j.exit_code, 3);
	assert_int_equal(j.finished_ms, 40);
	assert_int_equal(job_stage_of(&j), STAGE_ERROR);
	for (int e = 0; e < JOB_EVENTS; e++)
		assert_false(job_apply(&j, (enum job_event)e, 50, NULL, NULL));
	job_clear(&j);
}

/* Two clocks' readings: no job ends before it started. */
static void
quick(void **state)
{
	struct job j = {.state = JOB_CREATING, .reason = JOB_EV_START};
	int code = 0;

	(void)state;
	assert_true(job_apply(&j, JOB_EV_READY, 30, NULL, NULL));
	assert_true(job_apply(&j, JOB_EV_EXIT, 29, &code, NULL));
	assert_int_equal(j.finished_ms, 30);
	assert_int_equal(j.changed_ms, 30);
	job_clear(&j);
}

/* A start in flight ends as READY after the stop: nothing comes back. */
static void
stop_beats_start(void **state)
{
	struct job j = {.state = JOB_CREATING, .reason = JOB_EV_START};
	int code = 0;

	(void)state;
	assert_true(job_apply(&j, JOB_EV_STOP, 1, NULL, NULL));
	assert_false(job_apply(&j, JOB_EV_STOP, 2, NULL, NULL));
	assert_false(job_apply(&j, JOB_EV_READY, 3, NULL, NULL));
	assert_int_equal(j.state, JOB_TERMINATING);
	assert_true(job_apply(&j, JOB_EV_EXIT, 4, &code, NULL));
	assert_int_equal(j.state, JOB_TERMINATED);
	assert_int_equal(j.reason, JOB_EV_STOPPED);
	assert_int_equal(j.exit_code, 0);
	assert_int_equal(job_stage_of(&j), STAGE_CANCELED);
	job_clear(&j);
}

static void
stages(void **state)
{
	static const struct {
		enum job_state s;
		enum job_event reason;
		bool has;
		int code;
		enum job_stage want;
	} rows[] = {{JOB_PENDING, JOB_EV_CREATE, false, 0, STAGE_SCHEDULING},
		    {JOB_CREATING, JOB_EV_START, false, 0, STAGE_SCHEDULING},
		    {JOB_RUNNING, JOB_EV_READY, false, 0, STAGE_RUNNING},
		    {JOB_PAUSED, JOB_EV_PAUSE, false, 0, STAGE_RUNNING},
		    {JOB_TERMINATING, JOB_EV_STOP, false, 0, STAGE_CANCELED},
		    {JOB_TERMINATED, JOB_EV_STOPPED, true, 0, STAGE_CANCELED},
		    {JOB_TERMINATED, JOB_EV_TIMEOUT, true, 143, STAGE_ERROR},
		    {JOB_COMPLETED, JOB_EV_EXIT, true, 0, STAGE_COMPLETED},
		    {JOB_COMPLETED, JOB_EV_EXIT, true, 1, STAGE_ERROR},
		    {JOB_COMPLETED, JOB_EV_SIGNAL, true, 139, STAGE_ERROR},
		    {JOB_FAILED, JOB_EV_START_FAILED, false, 0, STAGE_ERROR},
		    {JOB_UNSPECIFIED, JOB_EV_CREATE, false, 0, STAGE_DELETED}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(job_stage(rows[i].s, rows[i].reason,
					   rows[i].has, rows[i].code),
				 rows[i].want);
}

static void
names(void **state)
{
	enum job_event ev;
	enum job_stage st;
	enum job_state s;
	struct strbuf b = {0};

	(void)state;
	for (int i = 0; i < JOB_STATES; i++) {
		const char *n = job_state_name((enum job_state)i);

		assert_int_equal(job_state_parse(strv_of(n), &s), 0);
		assert_int_equal(s, i);
	}
	for (int i = 0; i < JOB_EVENTS; i++) {
		const char *n = job_event_name((enum job_event)i);

		assert_int_equal(job_event_parse(strv_of(n), &ev), 0);
		assert_int_equal(ev, i);
	}
	for (int i = 0; i < JOB_STAGES; i++) {
		const char *n = job_stage_name((enum job_stage)i);

		assert_int_equal(job_stage_parse(strv_of(n), &st), 0);
		assert_int_equal(st, i);
	}
	assert_int_equal(job_stage_parse(STRV("running"), &st), E_INVALID);
	assert_int_equal(job_state_parse(STRV(""), &s), E_INVALID);
	assert_true(job_id_ok(STRV("0123456789abcdef01234567")));
	assert_false(job_id_ok(STRV("0123456789ABCDEF01234567")));
	assert_false(job_id_ok(STRV("0123456789abcdef0123456")));
	job_add_time(&b, 1795233113123);
	assert_string_equal(b.s, "2026-11-21T03:51:53.123Z");
	strbuf_clear(&b);
}

/* --- bodies ------------------------------------------------------------ */
static int
parse(const char *text, struct job_spec *out, struct strbuf *ignored,
      struct strbuf *why)
{
	struct json_doc *doc = NULL;
	int r = json_parse(strv_of(text), &doc, NULL);

	assert_int_equal(r, 0);
	r = jobspec_parse(json_root(doc), false, out, ignored, why);
	json_doc_free(doc);
	return r;
}

static const char whole[] =
    "{\"command\":[\"/bin/sh\",\"-c\",\"true\"],\"arguments\":[],"
    "\"environment\":{\"N\":5,\"B\":true,\"S\":\"x y\",\"E\":\"\"},"
    "\"flavor\":\"cpu-basic\",\"secrets\":{\"SBX_TOKEN\":\"hush-hush\"},"
    "\"timeoutSeconds\":1.5,\"labels\":{\"hf-sandbox\":\"1\",\"k\":\"v\"},"
    "\"volumes\":[{\"type\":\"bucket\",\"source\":\"a/b\","
    "\"mountPath\":\"/.m\",\"readOnly\":true}],"
    "\"expose\":{\"ports\":[49983,80]},\"dockerImage\":\"python:3.12\","
    "\"resourceGroupId\":null,\"more\":[1]}";

static void
body_read(void **state)
{
	struct strbuf ignored = {0}, why = {0}, out = {0};
	struct json_doc *doc = NULL;
	struct job_spec s, t;

	(void)state;
	assert_int_equal(parse(whole, &s, &ignored, &why), 0);
	assert_string_equal(ignored.s, "resourceGroupId, more");
	assert_string_equal(jobspec_pair(&s.env, "N"), "5");
	assert_string_equal(jobspec_pair(&s.env, "B"), "true");
	assert_string_equal(jobspec_pair(&s.env, "E"), "");
	assert_string_equal(jobspec_pair(&s.secrets, "SBX_TOKEN"), "hush-hush");
	assert_int_equal(s.timeout_s, 2);
	assert_int_equal(s.nports, 2);
	assert_true(s.sandbox);
	strbuf_addc(&out, '{');
	jobspec_add_json(&s, &out);
	strbuf_addc(&out, '}');
	assert_null(strstr(out.s, "hush"));
	assert_non_null(strstr(out.s, "\"secrets\":{\"SBX_TOKEN\":null}"));
	/* What is kept is read again as the same. */
	assert_int_equal(json_parse(strv_of(out.s), &doc, NULL), 0);
	assert_int_equal(jobspec_parse(json_root(doc), true, &t, NULL, &why),
			 0);
	json_doc_free(doc);
	jobspec_forget(&s);
	assert_null(jobspec_pair(&s.secrets, "SBX_TOKEN"));
	assert_int_equal(t.secrets.n, 1);
	strbuf_reset(&ignored);
	jobspec_add_json(&t, &ignored);
	assert_memory_equal(ignored.s, out.s + 1, ignored.len);
	assert_true(t.volumes[0].read_only);
	jobspec_clear(&s);
	jobspec_clear(&t);
	strbuf_clear(&out);
	strbuf_clear(&ignored);
	strbuf_clear(&why);
}

static const struct {
	const char *body, *why;
} refused[] = {
    {"[]", "the body must be a JSON object"},
    {"3", "the body must be a JSON object"},
    {"{}", "command: is missing"},
    {"{\"command\":[]}", "command: is missing"},
    {"{\"command\":[\"\"]}", "command: names no program"},
    {"{\"command\":\"ls\"}", "command: must be an array of strings"},
    {"{\"command\":[1]}", "command: element 0 must be a string"},
    {"{\"command\":[\"a\",null]}", "command: element 1 must be a string"},
    {"{\"arguments\":{}}", "arguments: must be an array of strings"},
    {"{\"network\":\"host\"}", "network: must be \"none\", or absent"},
    {"{\"environment\":[]}", "environment: must be an object"},
    {"{\"environment\":{\"N\":[]}}",
     "environment.N: must be a string, number or boolean"},
    {"{\"environment\":{\"N\":null}}",
     "environment.N: must be a string, number or boolean"},
    {"{\"environment\":{\"\":1}}",
     "environment.: a name must not be empty or contain '='"},
    {"{\"environment\":{\"A=B\":1}}",
     "environment.A=B: a name must not be empty or contain '='"},
    {"{\"secrets\":{\"T\":{\"x\":\"hush\"}}}",
     "secrets.T: must be a string, number or boolean"},
    {"{\"secrets\":{\"T\":null}}",
     "secrets.T: must be a string, number or boolean"},
    {"{\"labels\":{\"a\":[]}}", "labels.a: must be a string"},
    {"{\"labels\":{\"\":\"x\"}}",
     "labels.: a key must not be empty or contain '='"},
    {"{\"labels\":\"x\"}", "labels: must be an object"},
    {"{\"flavor\":1}", "flavor: must be a string"},
    {"{\"flavor\":\"\"}", "flavor: is empty"},
    {"{\"timeoutSeconds\":\"5\"}",
     "timeoutSeconds: must be a number of seconds"},
    {"{\"timeoutSeconds\":0}",
     "timeoutSeconds: must be above 0 and at most 31622400"},
    {"{\"timeoutSeconds\":-1}",
     "timeoutSeconds: must be above 0 and at most 31622400"},
    {"{\"timeoutSeconds\":1e300}",
     "timeoutSeconds: must be above 0 and at most 31622400"},
    {"{\"expose\":[80]}", "expose: must be an object"},
    {"{\"expose\":{\"ports\":80}}",
     "expose.ports: must be an array of port numbers"},
    {"{\"expose\":{\"ports\":[0]}}",
     "expose.ports: must be ports from 1 to 65535"},
    {"{\"expose\":{\"ports\":[65536]}}",
     "expose.ports: must be ports from 1 to 65535"},
    {"{\"expose\":{\"ports\":[80.5]}}",
     "expose.ports: must be ports from 1 to 65535"},
    {"{\"expose\":{\"ports\":[80,80]}}", "expose.ports: 80 is there twice"},
    {"{\"command\":[\"a\"],\"volumes\":[{\"type\":\"scratch\","
     "\"source\":\"a/b\",\"mountPath\":\"/b\"}]}",
     "volumes.source: a scratch volume's name is 1 to 63 of a-z 0-9 -"},
    {"{\"command\":[\"a\"],\"volumes\":[{\"type\":\"scratch\","
     "\"source\":\"b\",\"mountPath\":\"/b/../c\"}]}",
     "volumes.mountPath: no place for a scratch volume"},
    {"{\"command\":[\"a\"],\"volumes\":[{\"type\":\"scratch\","
     "\"source\":\"b\",\"mountPath\":\"/b\",\"readOnly\":true}]}",
     "volumes.readOnly: not for a scratch volume"},
    {"{\"command\":[\"a\"],\"volumes\":[{\"type\":\"scratch\","
     "\"source\":\"b\",\"mountPath\":\"/b\"},{\"type\":\"scratch\","
     "\"source\":\"c\",\"mountPath\":\"/b\"}]}",
     "volumes: a name or place is there twice"},
    {"{\"volumes\":{}}", "volumes: must be an array of objects"},
    {"{\"volumes\":[1]}", "volumes: must be an array of objects"},
    {"{\"volumes\":[{}]}", "volumes.source: must be a string"},
    {"{\"volumes\":[{\"source\":\"a\"}]}",
     "volumes.mountPath: must be a string"},
    {"{\"volumes\":[{\"source\":\"a\",\"mountPath\":\"/b\","
     "\"readOnly\":1}]}",
     "volumes.readOnly: must be true or false"},
    {"{\"volumes\":[{\"type\":2,\"source\":\"a\",\"mountPath\":\"/b\"}]}",
     "volumes.type: must be a string"},
    {"{\"dockerImage\":false}", "dockerImage: must be a string"},
    {"{\"dockerImage\":\"a\",\"spaceId\":\"b\",\"command\":[\"c\"]}",
     "spaceId: not together with dockerImage"},
    {"{\"sandbox\":1}", "sandbox: must be true or false"},
    {"{\"requestId\":7}", "requestId: must be a string"},
};

static void
body_refused(void **state)
{
	struct strbuf why = {0};
	struct job_spec s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		strbuf_reset(&why);
		assert_int_equal(parse(refused[i].body, &s, NULL, &why),
				 E_INVALID);
		assert_string_equal(why.s, refused[i].why);
	}
	strbuf_clear(&why);
}

/* A body of one field with n elements, or one of n bytes. */
static void
too_many(const char *before, const char *open, const char *shut, size_t n,
	 const char *want)
{
	struct strbuf b = {0}, why = {0};
	struct job_spec s;

	strbuf_adds(&b, before);
	for (size_t i = 0; i < n; i++)
		strbuf_addf(&b, "%s%s%zu%s", i != 0 ? "," : "", open, i + 1,
			    shut);
	strbuf_adds(&b, strchr(before, '[') != NULL ? "]}" : "}}");
	strbuf_adds(&b, strstr(before, "expose") != NULL ? "}" : "");
	assert_int_equal(parse(b.s, &s, NULL, &why), E_INVALID);
	assert_non_null(strstr(why.s, want));
	strbuf_clear(&b);
	strbuf_clear(&why);
}

static char *
repeat(const char *before, size_t n, const char *after)
{
	struct strbuf b = {0};

	strbuf_adds(&b, before);
	for (size_t i = 0; i < n; i++)
		strbuf_addc(&b, 'x');
	strbuf_adds(&b, after);
	return strbuf_take(&b);
}

static void
too_long(const char *before, size_t n, const char *after, const char *want)
{
	char *body = repeat(before, n, after);
	struct strbuf why = {0};
	struct job_spec s;

	assert_int_equal(parse(body, &s, NULL, &why), E_INVALID);
	assert_string_equal(why.s, want);
	strbuf_clear(&why);
	free(body);
}

static void
body_bounds(void **state)
{
	(void)state;
	too_many("{\"command\":[", "\"", "\"", JOBSPEC_WORDS_MAX + 1,
		 "command: has more than 1024 elements");
	too_many("{\"environment\":{", "\"N", "\":1", JOBSPEC_ENV_MAX + 1,
		 "environment: has more than 1024 members");
	too_many("{\"labels\":{", "\"N", "\":\"\"", JOBSPEC_LABELS_MAX + 1,
		 "labels: has more than 64 members");
	too_many("{\"expose\":{\"ports\":[", "", "", JOBSPEC_PORTS_MAX + 1,
		 "expose.ports: has more than 16 ports");
	too_many("{\"volumes\":[", "{\"source\":\"a", "\"}",
		 JOBSPEC_VOLUMES_MAX + 1, "volumes: has more than 32 elements");
	too_long("{\"command\":[\"", JOBSPEC_WORD_BYTES + 1, "\"]}",
		 "command: element 0 is longer than 131071 bytes");
	too_long("{\"environment\":{\"N\":\"", JOBSPEC_WORD_BYTES + 1, "\"}}",
		 "environment.N: the value is too long");
	too_long("{\"labels\":{\"a\":\"", JOBSPEC_LABEL_BYTES + 1, "\"}}",
		 "labels.a: the value is too long");
	too_long("{\"dockerImage\":\"", JOBSPEC_TEXT_BYTES + 1, "\"}",
		 "dockerImage: is longer than 512 bytes");
	/* A long name is cut in the answer. */
	too_long(
	    "{\"environment\":{\"", JOBSPEC_NAME_BYTES + 1, "\":1}}",
	    "environment."
	    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	    "xx: the name is too long");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_step),   cmocka_unit_test(quick),
	    cmocka_unit_test(apply_stamps), cmocka_unit_test(stop_beats_start),
	    cmocka_unit_test(stages),       cmocka_unit_test(names),
	    cmocka_unit_test(body_read),    cmocka_unit_test(body_refused),
	    cmocka_unit_test(body_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
