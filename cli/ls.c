/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: sbx ls, url, token, tunnels; and sbx kill. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/place.h"
#include "cli/url.h"

/* --- ls ---------------------------------------------------------------- */

/* "2026-11-21T03:51:53.123Z", how long ago: "5s", "12m", "3h", "4d". */
static void
ls_age(const char *text, char *out, size_t size)
{
	static const struct {
		long seconds;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	struct tm tm = {0};
	long age;

	(void)snprintf(out, size, "-");
	if (strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return;
	age = (long)(time(NULL) - timegm(&tm));
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (age >= units[i].seconds || units[i].seconds == 1) {
			(void)snprintf(out, size, "%ld%c",
				       age < 0 ? 0 : age / units[i].seconds,
				       units[i].unit);
			break;
		}
	}
}

static void
ls_head(bool *done)
{
	if (!*done)
		printf("%-24s  %-20s  %-10s  %-9s  %-12s  %-5s  %s\n", "ID",
		       "NAME", "STAGE", "KIND", "FLAVOR", "AGE", "MESSAGE");
	*done = true;
}

/* How a sandbox was made is said by a label, or by nobody. */
static const char *
ls_kind(const struct json *job)
{
	const char *mode = job_text(job, "labels.hf-sandbox-mode");
	bool sandbox = false;

	if (*mode != '\0')
		return mode;
	(void)!json_bool(json_get(job, "sandbox"), &sandbox);
	return sandbox ? "sandbox" : "job";
}

static void
ls_row(const struct json *job, void *arg)
{
	const char *name = job_text(job, "labels.name");
	char age[24];

	ls_head(arg);
	ls_age(job_text(job, "createdAt"), age, sizeof(age));
	printf("%-24s  %-20s  %-10s  %-9s  %-12s  %-5s  %s\n",
	       job_text(job, "id"), *name != '\0' ? name : "-",
	       job_text(job, "status.stage"), ls_kind(job),
	       job_text(job, "flavor"), age, job_text(job, "status.message"));
}

static void
ls_id(const struct json *job, void *arg)
{
	(void)arg;
	printf("%s\n", job_text(job, "id"));
}

int
cmd_ls(struct place *p, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"all", no_argument, NULL, 'a'},
	    {"label", required_argument, NULL, 'l'},
	    {"quiet", no_argument, NULL, 'q'},
	    {NULL, 0, NULL, 0}};
	bool all = false, quiet = false, head = false;
	struct strbuf q = {0};
	int c, r = 0;

	while (r == 0 &&
	       (c = getopt_long(argc, argv, "al:q", longs, NULL)) != -1) {
		if (c == 'a') {
			all = true;
		} else if (c == 'q') {
			quiet = true;
		} else if (c == 'l') {
			strbuf_adds(&q, "&label=");
			url_encode(&q, strv_of(optarg));
		} else {
			r = cmd_usage("ls");
		}
	}
	if (r == 0 && optind != argc)
		r = cmd_usage("ls");
	if (!all)
		strbuf_adds(&q, "&stage=RUNNING&stage=SCHEDULING");
	if (r == 0 && (r = place_open(p)) == 0) {
		r = place_each_job(p, q.len > 0 ? q.s + 1 : "",
				   quiet ? ls_id : ls_row, &head);
		if (r == 0 && !quiet)
			ls_head(&head);
	}
	strbuf_clear(&q);
	return r;
}

/* --- url, token -------------------------------------------------------- */

static int
ls_job(struct place *p, const char *what, struct job *j)
{
	int r = place_open(p);

	if (r == 0 && (r = job_find(p, what, j)) == 0 &&
	    (r = job_reach(p, j)) != 0)
		job_clear(j);
	return r;
}

static bool
ls_is_port(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	return *s != '\0' && *end == '\0' && n > 0 && n < 65536;
}

int
cmd_url(struct place *p, int argc, char **argv)
{
	struct job j = {.doc = NULL};
	int r;

	if (argc < 2 || argc > 3 || argv[1][0] == '-')
		return cmd_usage("url");
	if (argc == 3 && !ls_is_port(argv[2])) {
		say_error("%s: not a port", argv[2]);
		return EXIT_USAGE;
	}
	if ((r = ls_job(p, argv[1], &j)) != 0)
		return r;
	printf("%s%s%s%s%s\n", web_origin(j.web), argc == 3 ? j.scope : j.base,
	       argc == 3 ? "/proxy/" : "", argc == 3 ? argv[2] : "",
	       argc == 3 ? "/" : "");
	job_clear(&j);
	return 0;
}

int
cmd_token(struct place *p, int argc, char **argv)
{
	struct job j = {.doc = NULL};
	int r;

	if (argc != 2 || argv[1][0] == '-')
		return cmd_usage("token");
	if ((r = ls_job(p, argv[1], &j)) != 0)
		return r;
	if (j.token[0] == '\0') {
		say_error("%s: its token was not made from ours", j.id);
		r = EXIT_FAILED;
	} else {
		printf("%s\n", j.token);
	}
	job_clear(&j);
	return r;
}

/* --- kill -------------------------------------------------------------- */

static int
ls_kill_inside(struct place *p, struct job *j)
{
	struct web_ask q = {.method = "DELETE"};
	struct web_answer a;
	int r = job_reach(p, j);

	if (r == 0) {
		r = job_ask(p, j, &q, "", &a);
		web_answer_clear(&a);
	}
	return r;
}

static int
ls_kill(struct place *p, const char *what)
{
	struct json_doc *doc = NULL;
	struct job j;
	char *target;
	int r;

	if ((r = job_find(p, what, &j)) != 0)
		return r;
	if (j.inside != NULL) {
		r = ls_kill_inside(p, &j);
	} else {
		target = xasprintf("/api/jobs/%s/%s/cancel", place_ns(p), j.id);
		r = place_ask(p, "POST", target, NULL, &doc);
		free(target);
		json_doc_free(doc);
	}
	job_clear(&j);
	return r;
}

int
cmd_kill(struct place *p, int argc, char **argv)
{
	int r, worst = 0;

	if (argc < 2 || argv[1][0] == '-')
		return cmd_usage("kill");
	if ((r = place_open(p)) != 0)
		return r;
	for (int i = 1; i < argc; i++) {
		if ((r = ls_kill(p, argv[i])) != 0)
			worst = r;
	}
	return worst;
}

/* --- tunnels ----------------------------------------------------------- */

int
cmd_tunnels(struct place *p, int argc, char **argv)
{
	const struct json *it = NULL, *list;
	struct json_doc *doc = NULL;
	int r;

	(void)argv;
	if (argc != 1)
		return cmd_usage("tunnels");
	if ((r = place_open(p)) != 0 ||
	    (r = place_ask(p, "GET", "/api/tunnels", NULL, &doc)) != 0)
		return r;
	list = json_root(doc);
	if (json_type(list) == JSON_OBJECT)
		list = json_get(list, "tunnels");
	printf("%-20s  %-12s  %s\n", "NAME", "STATE", "REASON");
	while (list != NULL && json_each(list, &it, NULL))
		printf("%-20s  %-12s  %s\n", job_text(it, "name"),
		       job_text(it, "state"), job_text(it, "reason"));
	json_doc_free(doc);
	return 0;
}
